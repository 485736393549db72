//! Writing cells, and nothing outside of the area.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::text::{self, Charset};
use crate::theme::Theme;

pub(super) struct Canvas<'a> {
    pub(super) area: Rect,
    pub(super) theme: Theme,
    pub(super) charset: Charset,
    buffer: &'a mut Buffer,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(area: Rect, buffer: &'a mut Buffer, theme: Theme, charset: Charset) -> Self {
        let area = area.intersection(buffer.area);
        Self { area, theme, charset, buffer }
    }

    pub(super) fn columns(&self) -> u16 {
        self.area.width
    }

    /// Writes text, as far as there is room; the column after it.
    pub(super) fn text(&mut self, column: u16, row: u16, text: &str, style: Style) -> u16 {
        if column >= self.area.width || row >= self.area.height {
            return column;
        }
        let (x, y) = (self.area.x + column, self.area.y + row);
        let room = usize::from(self.area.width - column);
        let (end, _) = self.buffer.set_stringn(x, y, text, room, style);
        end - self.area.x
    }

    /// Writes text that ends with the row.
    pub(super) fn right(&mut self, row: u16, text: &str, style: Style) {
        let width = u16::try_from(text::width(text)).unwrap_or(u16::MAX);
        self.text(self.area.width.saturating_sub(width), row, text, style);
    }

    /// A line with a caption in it.
    pub(super) fn rule(&mut self, row: u16, caption: &str, style: Style) {
        let line = match self.charset {
            Charset::Unicode => "─",
            Charset::Ascii => "-",
        };
        let caption = if caption.is_empty() { String::new() } else { format!(" {caption} ") };
        let room = usize::from(self.columns().saturating_sub(4));
        let caption = if text::width(&caption) > room {
            text::fit(&caption, room, self.charset)
        } else {
            caption
        };
        self.text(0, row, &line.repeat(self.columns().into()), self.theme.dim());
        self.text(2, row, &caption, style);
    }

    /// Sets the style of a whole row.
    pub(super) fn style_row(&mut self, row: u16, style: Style) {
        let area = Rect::new(self.area.x, self.area.y + row, self.area.width, 1);
        self.buffer.set_style(area.intersection(self.area), style);
    }

    /// Makes rows look old.
    pub(super) fn dim(&mut self, from: u16, to: u16) {
        for row in from..to {
            // Many terminals show what is bold and dim as if it were neither.
            let dim = Style::new().add_modifier(Modifier::DIM).remove_modifier(Modifier::BOLD);
            self.style_row(row, dim);
        }
    }

    /// Empties a part for something that lies over the rest.
    pub(super) fn clear(&mut self, column: u16, row: u16, width: u16, height: u16) {
        let area = Rect::new(self.area.x + column, self.area.y + row, width, height);
        let area = area.intersection(self.area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
    }
}
