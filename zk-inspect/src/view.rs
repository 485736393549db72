//! The screen as a picture of the model. Pure: no I/O, no clock; only lines that can be seen are
//! made.

mod canvas;
mod chrome;
mod help;
mod locks;
mod queue;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use self::canvas::Canvas;
use crate::model::{Model, Screen};
use crate::row::Now;
use crate::theme::Theme;

pub(crate) use self::help::help_scroll;

/// Below this nothing useful fits.
pub(crate) const SMALLEST: (u16, u16) = (40, 8);

/// How the rows are shared out.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// The first line of the list, below its headings.
    list: u16,
    height: u16,
    /// The pane below the list, with its rule; none where there is no room.
    pane: Option<(u16, u16)>,
    status: Option<u16>,
    keys: u16,
}

impl Rows {
    fn of(model: &Model) -> Self {
        let (_, rows) = model.size;
        let (status, below) = if rows >= 12 { (Some(rows - 2), 2) } else { (None, 1) };
        let pane = match (&model.screen, rows) {
            (_, 0..18) => 0,
            (Screen::Locks, 18..22) => 3,
            (Screen::Locks, 22..32) => 5,
            (Screen::Locks, _) => 8,
            (Screen::Queue(_), 18..28) => 6,
            (Screen::Queue(_), _) => 9,
        };
        let end = rows.saturating_sub(below + pane);
        Self {
            list: 4,
            height: end.saturating_sub(4),
            pane: (pane > 0).then_some((end, pane)),
            status,
            keys: rows.saturating_sub(1),
        }
    }
}

/// How many locks, or contenders of one, fit.
pub(crate) fn list_height(model: &Model) -> usize {
    Rows::of(model).height.into()
}

/// Draws everything.
pub(crate) fn draw(model: &Model, theme: Theme, now: Now, area: Rect, buffer: &mut Buffer) {
    let mut canvas = Canvas::new(area, buffer, theme, model.charset);
    let (columns, rows) = (area.width, area.height);
    if columns < SMALLEST.0 || rows < SMALLEST.1 {
        let (wide, high) = SMALLEST;
        canvas.text(0, 0, &format!("too small: {wide}x{high} is needed"), theme.title());
        return;
    }
    // The model is told of a new size by an event, which may come after the first draw.
    if model.size != (columns, rows) {
        return;
    }
    let layout = Rows::of(model);
    chrome::header(&mut canvas, model, now);
    match &model.screen {
        Screen::Locks => locks::draw(&mut canvas, model, &layout, now),
        Screen::Queue(path) => queue::draw(&mut canvas, model, path, &layout, now),
    }
    if model.is_stale() || model.frozen.is_some() {
        canvas.dim(layout.list - 1, layout.status.unwrap_or(layout.keys));
    }
    chrome::footer(&mut canvas, model, &layout, now);
    if let Some(top) = model.help {
        help::draw(&mut canvas, model, top);
    }
}
