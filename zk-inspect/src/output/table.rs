//! The same as text: a table of locks, and one lock with its queue. Everything that comes from
//! ZooKeeper is cleaned.

use std::borrow::Cow;
use std::fmt::Write;

use lock_recipes::observe::ObservedLock;

use crate::row::{self, Now, Places, State};
use crate::text::{self, Charset};

/// Lines of cells, each column as wide as its widest cell.
fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| text::width(cell))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - text::width(cell) + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn heading(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// All locks, one a line.
pub(crate) fn list<'a>(
    locks: impl IntoIterator<Item = &'a ObservedLock>,
    now: Now,
    charset: Charset,
) -> String {
    let names = ["STATE", "PATH", "KIND", "HOLDER", "HELD", "QUEUE", "WAIT", "TOKEN"];
    let mut rows = vec![heading(&names)];
    rows.extend(locks.into_iter().map(|lock| {
        vec![
            State::of(lock).word().to_owned(),
            text::clean(&lock.path, charset).into_owned(),
            row::kind(lock),
            row::holder(lock, charset),
            row::or_dash(row::held(lock, now).map(|held| held.text(charset))),
            lock.waiters.len().to_string(),
            row::or_dash(row::longest_wait(lock, now).map(crate::age::age)),
            row::token_text(row::token(lock)),
        ]
    }));
    columns(&rows)
}

/// One lock with its queue.
pub(crate) fn show(lock: &ObservedLock, now: Now, charset: Charset) -> String {
    let clean = |text: &str| -> String { text::clean(text, charset).into_owned() };
    let mut out = format!(
        "{}  {} ({})  {}  {} waiting\n",
        clean(&lock.path),
        row::kind(lock),
        row::dialect(lock),
        State::of(lock).word(),
        lock.waiters.len(),
    );
    if let (Some(creates), Some(used)) = (lock.creates, lock.counter_used()) {
        let creates = row::count(usize::try_from(creates).unwrap_or(usize::MAX));
        let used = used * 100.0;
        let _ = writeln!(out, "contenders created so far: {creates} ({used:.2} % of the limit)");
    }
    if !lock.ignored.is_empty() {
        let ignored: Vec<Cow<'_, str>> =
            lock.ignored.iter().map(|name| text::clean(name, charset)).collect();
        let _ = writeln!(out, "not contenders: {}", ignored.join(" "));
    }
    if lock.contenders().next().is_none() {
        out.push_str("nobody holds it, nobody waits\n");
        return out;
    }
    let names = ["#", "PLACE", "ROLE", "NAME", "SESSION", "TIME", "TOKEN", "BEHIND", "NODE"];
    let mut rows = vec![heading(&names)];
    let places = Places::of(lock);
    for (index, contender) in lock.contenders().enumerate() {
        let holds = index < lock.holders.len();
        rows.push(vec![
            index.to_string(),
            if holds { "holds" } else { "waits" }.to_owned(),
            contender.role.to_string(),
            row::name(contender, charset),
            row::session_text(contender),
            row::time_text(contender, holds, now, charset),
            row::token_text(row::contender_token(contender)),
            places.behind(contender),
            clean(&contender.node),
        ]);
    }
    out + &columns(&rows)
}
