//! The help, over everything else: made from the table of keys.

use ratatui::style::Style;

use super::canvas::Canvas;
use crate::filter::FIELDS;
use crate::keys::BINDINGS;
use crate::model::Model;
use crate::row::State;
use crate::text;

fn lines(model: &Model) -> Vec<String> {
    let mut lines: Vec<String> =
        BINDINGS.iter().map(|binding| format!("{:<15}{}", binding.keys, binding.does)).collect();
    lines.push(String::new());
    lines.push("filter         all words must match; !word must not; field:word".to_owned());
    lines.push(format!("               fields: {FIELDS}"));
    lines.push(String::new());
    for state in State::ALL {
        let what = match state {
            State::Busy => "held, and others wait",
            State::Lead => "an election with a leader; the others stand by",
            State::Read => "held by readers, nobody waits",
            State::Held => "held, nobody waits",
            State::Free => "nobody holds it",
        };
        lines.push(format!("{} {:<13}{what}", state.sign(), state.word()));
    }
    let at_most = crate::age::at_most(std::time::Duration::from_secs(15), model.charset);
    lines.push(format!("{at_most:<15}held when we first looked: at most so long"));
    if let Some(log) = &model.log {
        lines.push(String::new());
        lines.push(format!("log            {}", text::clean(log, model.charset)));
    }
    lines
}

/// How many lines fit into the box.
fn room(model: &Model) -> usize {
    usize::from(model.size.1.saturating_sub(4).max(1))
}

/// How far the help can be scrolled.
pub(crate) fn help_scroll(model: &Model) -> usize {
    lines(model).len().saturating_sub(room(model))
}

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, top: usize) {
    let lines = lines(model);
    let width = canvas.columns().min(76);
    let column = (canvas.columns() - width) / 2;
    let shown = room(model).min(lines.len());
    let height = u16::try_from(shown).unwrap_or(u16::MAX).saturating_add(2);
    canvas.clear(column, 1, width, height);
    let rest = lines.len().saturating_sub(top + shown);
    let scroll = if rest > 0 { format!("j: {rest} more") } else { "Esc closes".to_owned() };
    let head = format!(" Help   {scroll} ");
    let head = text::fit(&head, width.into(), model.charset);
    canvas.text(column, 1, &head, canvas.theme.selected());
    for (line, y) in lines.iter().skip(top).take(shown).zip(2..) {
        let line = text::fit(line, usize::from(width) - 2, model.charset);
        canvas.text(column + 1, y, &line, Style::new());
    }
    let foot = text::fit("", width.into(), model.charset);
    canvas.text(column, 1 + height - 1, &foot, canvas.theme.selected());
}
