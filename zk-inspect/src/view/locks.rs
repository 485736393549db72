//! The screen of all locks.

use lock_recipes::observe::ObservedLock;
use ratatui::style::Style;

use super::Rows;
use super::canvas::Canvas;
use crate::age::age;
use crate::model::{Connection, Model};
use crate::row::{self, Now, State};
use crate::sort::Column;
use crate::text::{self, Charset};

/// A column, its width and whether it is a number.
type Place = (Column, usize, bool);

/// The columns that fit, the path taking what is left.
fn columns(total: u16) -> Vec<Place> {
    let mut columns = vec![(Column::State, 6, false), (Column::Path, 0, false)];
    if total >= 100 {
        columns.push((Column::Kind, 9, false));
    }
    if total >= 60 {
        columns.push((Column::Holder, if total >= 100 { 20 } else { 16 }, false));
    }
    columns.push((Column::Held, 8, true));
    columns.push((Column::Queue, 5, true));
    if total >= 50 {
        columns.push((Column::Wait, 7, true));
    }
    if total >= 110 {
        columns.push((Column::Token, 16, false));
    }
    let others: usize = columns.iter().map(|(_, width, _)| width + 1).sum();
    if let Some(path) = columns.iter_mut().find(|(column, _, _)| *column == Column::Path) {
        path.1 = usize::from(total).saturating_sub(others + 2);
    }
    columns
}

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, rows: &Rows, now: Now) {
    let theme = canvas.theme;
    canvas.rule(2, &caption(model), Style::new());
    let columns = columns(canvas.columns());
    heading(canvas, model, &columns);
    if model.order.is_empty() {
        for (line, row) in nothing(model, now).iter().zip(rows.list + 1..rows.list + rows.height) {
            canvas.text(2, row, line, Style::new());
        }
        return;
    }
    let at = model.shown_at(now);
    let window = model.order.iter().enumerate().skip(model.list.top).take(rows.height.into());
    for ((index, path), y) in window.zip(rows.list..) {
        let Some(lock) = model.shown().get(path) else { continue };
        let selected = index == model.list.index;
        line(canvas, lock, &columns, y, at);
        if selected {
            canvas.text(0, y, ">", theme.title());
            canvas.style_row(y, theme.selected());
        }
    }
    if let (Some((row, height)), Some(lock)) = (rows.pane, model.current()) {
        preview(canvas, lock, row, height, at);
    }
}

fn caption(model: &Model) -> String {
    let arrow = match (model.charset, model.sort.descends()) {
        (Charset::Unicode, true) => "↓",
        (Charset::Unicode, false) => "↑",
        (Charset::Ascii, true) => "desc",
        (Charset::Ascii, false) => "asc",
    };
    let sort = format!("sort {} {arrow}", model.sort.column.title());
    let held = if model.calm_until.is_some() && model.unsorted { "  order held" } else { "" };
    if model.filter.is_empty() {
        return format!("locks  {sort}{held}");
    }
    format!(
        "filter {}  ({} of {})  {sort}{held}",
        text::clean(&model.filter_text, model.charset),
        row::count(model.order.len()),
        row::count(model.shown().len()),
    )
}

fn heading(canvas: &mut Canvas<'_>, model: &Model, columns: &[Place]) {
    let mut x = 2;
    for &(column, width, number) in columns {
        let fit = if number { text::fit_right } else { text::fit };
        let title = fit(column.title(), width, model.charset);
        let style =
            if column == model.sort.column { canvas.theme.title() } else { canvas.theme.dim() };
        x = canvas.text(x, 3, &title, style) + 1;
    }
}

fn line(canvas: &mut Canvas<'_>, lock: &ObservedLock, columns: &[Place], y: u16, now: Now) {
    let charset = canvas.charset;
    let state = State::of(lock);
    let mut x = 2;
    for &(column, width, number) in columns {
        let cell = match column {
            Column::State => format!("{} {}", state.sign(), state.word()),
            Column::Path => text::fit_path(&text::clean(&lock.path, charset), width, charset),
            Column::Kind => row::kind(lock),
            Column::Holder => row::holder(lock, charset),
            Column::Held => row::or_dash(row::held(lock, now).map(|held| held.text(charset))),
            Column::Queue => row::count(lock.waiters.len()),
            Column::Wait => row::or_dash(row::longest_wait(lock, now).map(age)),
            Column::Token => row::token_text(row::token(lock)),
        };
        let fit = if number { text::fit_right } else { text::fit };
        let style = match column {
            Column::State => canvas.theme.state(state),
            _ => Style::new(),
        };
        x = canvas.text(x, y, &fit(&cell, width, charset), style) + 1;
    }
}

/// Why there are no lines.
fn nothing(model: &Model, now: Now) -> Vec<String> {
    let clean = |text: &str| text::clean(text, model.charset).into_owned();
    match &model.connection {
        Connection::Connecting { since, error } => {
            let waited = age(now.at.saturating_duration_since(since.at));
            let mut lines = vec![format!("connecting to {} since {waited}", clean(&model.cluster))];
            lines.extend(error.iter().map(|error| format!("the last try: {}", clean(error))));
            lines.push("it goes on trying; q quits".to_owned());
            lines
        }
        Connection::Listing => {
            let (nodes, left) =
                model.progress.map_or((0, 0), |progress| (progress.nodes, progress.left));
            vec![format!(
                "looking for locks below {}: {} nodes found, {} to be asked for",
                clean(&model.roots),
                row::count(nodes),
                row::count(left),
            )]
        }
        Connection::Live | Connection::Stale { .. } if !model.filter.is_empty() => {
            vec!["no lock matches the filter; Esc clears it".to_owned()]
        }
        Connection::Live | Connection::Stale { .. } => vec![
            format!("nothing is held and nothing is waiting below {}", clean(&model.roots)),
            "a lock appears here as soon as somebody asks for it".to_owned(),
        ],
    }
}

/// The queue of the selected lock, in short.
fn preview(canvas: &mut Canvas<'_>, lock: &ObservedLock, row: u16, height: u16, now: Now) {
    let charset = canvas.charset;
    let path = text::clean(&lock.path, charset);
    let caption = format!("{path}  {} ({})", row::kind(lock), row::dialect(lock));
    canvas.rule(row, &caption, canvas.theme.title());
    let room = usize::from(canvas.columns()).saturating_sub(2);
    let (mut y, end) = (row + 1, row + height);
    for (index, contender) in lock.contenders().enumerate() {
        let left = lock.holders.len() + lock.waiters.len() - index;
        if y >= end {
            break;
        }
        if y + 1 == end && left > 1 {
            canvas.text(
                1,
                y,
                &format!("… {} more", row::count(left)).replace('…', more(charset)),
                Style::new(),
            );
            break;
        }
        let holds = index < lock.holders.len();
        let place = if holds { "HOLD" } else { "wait" };
        let time = row::time_text(contender, holds, now, charset);
        let token = row::token_text(row::contender_token(contender));
        let name =
            text::fit(&row::name(contender, charset), room.saturating_sub(37).min(60), charset);
        let time = text::fit_right(&time, 8, charset);
        let line = format!("{place} #{index:<3} {name} {time}  {token}");
        canvas.text(1, y, &text::fit(&line, room, charset), Style::new());
        y += 1;
    }
    if lock.contenders().next().is_none() {
        canvas.text(1, y, "nobody holds it, nobody waits", Style::new());
    }
}

const fn more(charset: Charset) -> &'static str {
    match charset {
        Charset::Unicode => "…",
        Charset::Ascii => "...",
    }
}
