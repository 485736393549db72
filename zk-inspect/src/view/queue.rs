//! The screen of one lock: its queue in order, and the contender that is selected.

use jiff::Timestamp;
use lock_recipes::observe::{Facts, Kind, ObservedContender, ObservedLock};
use ratatui::style::Style;

use super::Rows;
use super::canvas::Canvas;
use crate::model::Model;
use crate::row::{self, Now, Places, State};
use crate::text::{self, Charset};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Column {
    Number,
    Place,
    Role,
    Name,
    Session,
    Time,
    Behind,
    Token,
}

/// The columns that fit, the name taking what is left.
fn columns(total: u16, kind: Kind) -> Vec<(Column, &'static str, usize)> {
    let mut columns = vec![(Column::Number, "#", 4), (Column::Place, "PLACE", 5)];
    if kind == Kind::RwLock || total >= 110 {
        columns.push((Column::Role, "ROLE", if total >= 110 { 9 } else { 5 }));
    }
    columns.push((Column::Name, "NAME", 0));
    if total >= 70 {
        columns.push((Column::Session, "SESSION", 18));
    }
    columns.push((Column::Time, "TIME", 8));
    if total >= 60 {
        columns.push((Column::Behind, "BEHIND", 6));
    }
    if total >= 50 {
        columns.push((Column::Token, "TOKEN", 16));
    }
    let others: usize = columns.iter().map(|(_, _, width)| width + 1).sum();
    if let Some(name) = columns.iter_mut().find(|(column, _, _)| *column == Column::Name) {
        name.2 = usize::from(total).saturating_sub(others + 2);
    }
    columns
}

pub(super) fn draw(canvas: &mut Canvas<'_>, model: &Model, path: &str, rows: &Rows, now: Now) {
    let charset = canvas.charset;
    let clean = text::clean(path, charset);
    let Some(lock) = model.current() else {
        canvas.rule(2, &clean, canvas.theme.title());
        let text = "this lock has gone: its node was deleted. Esc goes back";
        canvas.text(2, rows.list + 1, text, Style::new());
        return;
    };
    let state = State::of(lock);
    let tail = format!(
        "  {} ({})  {}  {} waiting",
        row::kind(lock),
        row::dialect(lock),
        state.word(),
        row::count(lock.waiters.len()),
    );
    let room = usize::from(canvas.columns()).saturating_sub(text::width(&tail) + 6);
    let shown = if text::width(&clean) > room {
        text::fit_path(&clean, room, charset)
    } else {
        clean.into_owned()
    };
    canvas.rule(2, &format!("{shown}{tail}"), canvas.theme.title());

    let columns = columns(canvas.columns(), lock.kind);
    let mut x = 2;
    for &(column, title, width) in &columns {
        let fit = if column == Column::Time { text::fit_right } else { text::fit };
        x = canvas.text(x, 3, &fit(title, width, charset), canvas.theme.dim()) + 1;
    }
    let contenders: Vec<&ObservedContender> = lock.contenders().collect();
    if contenders.is_empty() {
        canvas.text(2, rows.list + 1, "nobody holds it, nobody waits", Style::new());
    }
    let (places, at) = (Places::of(lock), model.shown_at(now));
    let window = contenders.iter().enumerate().skip(model.queue.top).take(rows.height.into());
    for ((index, contender), y) in window.zip(rows.list..) {
        let holds = index < lock.holders.len();
        let mut x = 2;
        for &(column, _, width) in &columns {
            let cell = match column {
                Column::Number => index.to_string(),
                Column::Place => if holds { "HOLD" } else { "wait" }.to_owned(),
                Column::Role => contender.role.to_string(),
                Column::Name => row::name(contender, charset),
                Column::Session => row::session_text(contender),
                Column::Time => row::time_text(contender, holds, at, charset),
                Column::Behind => places.behind(contender),
                Column::Token => row::token_text(row::contender_token(contender)),
            };
            let fit = if column == Column::Time { text::fit_right } else { text::fit };
            let style = match column {
                Column::Place if holds => canvas.theme.state(State::Busy),
                _ => Style::new(),
            };
            x = canvas.text(x, y, &fit(&cell, width, charset), style) + 1;
        }
        if index == model.queue.index {
            canvas.text(0, y, ">", canvas.theme.title());
            canvas.style_row(y, canvas.theme.selected());
        }
    }
    if let Some(pane) = rows.pane.filter(|_| !contenders.is_empty()) {
        details(canvas, lock, model.queue.index, pane, at);
    }
}

/// What is known of the contender that is selected, and of the lock.
fn details(
    canvas: &mut Canvas<'_>,
    lock: &ObservedLock,
    index: usize,
    (row, height): (u16, u16),
    now: Now,
) {
    let charset = canvas.charset;
    canvas.rule(row, &format!("#{index}"), canvas.theme.title());
    let room = usize::from(canvas.columns()).saturating_sub(2);
    let holds = index < lock.holders.len();
    let mut lines = lock
        .contenders()
        .nth(index)
        .map(|contender| of_contender(contender, holds, now, charset))
        .unwrap_or_default();
    if let (Some(creates), Some(used)) = (lock.creates, lock.counter_used()) {
        let creates = row::count(usize::try_from(creates).unwrap_or(usize::MAX));
        let used = used * 100.0;
        lines.push(format!("counter {creates} created here, {used:.2} % of the limit used"));
    }
    if !lock.ignored.is_empty() {
        let names = lock.ignored.iter().take(20).map(|name| text::clean(name, charset));
        let names: Vec<_> = names.collect();
        lines.push(format!("ignored {} no contenders: {}", lock.ignored.len(), names.join(" ")));
    }
    for (line, y) in lines.iter().zip(row + 1..row + height) {
        canvas.text(1, y, &text::fit(line, room, charset), Style::new());
    }
}

fn of_contender(
    contender: &ObservedContender,
    holds: bool,
    now: Now,
    charset: Charset,
) -> Vec<String> {
    let mut lines = vec![format!("node    {}", text::clean(&contender.node, charset))];
    let facts = match &contender.facts {
        Facts::Read(facts) => facts,
        Facts::Denied => {
            lines.push("no permission to read this node: only its name is known".to_owned());
            return lines;
        }
        _ => {
            lines.push("being read".to_owned());
            return lines;
        }
    };
    let data = match &*facts.data {
        [] => "(none)".to_owned(),
        data => text::preview(data, charset, 300),
    };
    lines.push(format!("data    {data}"));
    let millis = i64::try_from(facts.queued_at.as_millis()).unwrap_or(i64::MAX);
    let queued = Timestamp::from_millisecond(millis).map(|time| format!("{time:.0}"));
    let what = match (holds, contender.granted) {
        (true, Some(_)) => "holds, hand-over seen,",
        (true, None) => "held before we looked,",
        (false, _) => "waits",
    };
    let time = row::time_text(contender, holds, now, charset);
    lines.push(format!(
        "since   {what} {time}; queued {} (server's clock)",
        queued.unwrap_or_default()
    ));
    let owner = match facts.session {
        0 => "none: not ephemeral, no session end removes it".to_owned(),
        id => row::session(id),
    };
    lines.push(format!("session {owner}   role {}", contender.role));
    lines
}
