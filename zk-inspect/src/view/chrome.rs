//! What surrounds every screen: where we look, how true it is, what can be done.

use std::time::Duration;

use jiff::Timestamp;
use lock_recipes::observe::{Gap, Method};
use ratatui::style::Style;

use super::Rows;
use super::canvas::Canvas;
use crate::age::age;
use crate::model::{Connection, Model, Screen};
use crate::row::{self, Now};
use crate::text;

/// For so long a gap is told before anything that stays.
const RECENT: Duration = Duration::from_secs(60);

/// The time of the day in UTC: `12:41:07Z`.
fn time(unix: Duration) -> String {
    let seconds = i64::try_from(unix.as_secs()).unwrap_or_default();
    Timestamp::from_second(seconds)
        .map(|time| time.strftime("%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// How true the screen is, in one word.
fn mode(canvas: &Canvas<'_>, model: &Model, now: Now) -> (String, Style) {
    let theme = canvas.theme;
    let old = |since: Now| age(now.at.saturating_duration_since(since.at));
    match (&model.frozen, &model.connection) {
        (Some((_, since)), _) => (format!(" FROZEN {} ", old(*since)), theme.frozen()),
        (None, Connection::Connecting { .. }) => (" CONNECTING ".to_owned(), theme.warning()),
        (None, Connection::Listing) => (" LISTING ".to_owned(), theme.warning()),
        (None, Connection::Stale { since }) => (format!(" STALE {} ", old(*since)), theme.stale()),
        (None, Connection::Live) => match model.by {
            Method::Poll(every) => (format!(" POLL {} ", age(every)), theme.warning()),
            _ => (" LIVE ".to_owned(), theme.live()),
        },
    }
}

pub(super) fn header(canvas: &mut Canvas<'_>, model: &Model, now: Now) {
    let theme = canvas.theme;
    let clock = time(now.unix);
    let (word, style) = mode(canvas, model, now);
    let tail = text::width(&word) + clock.len() + 2;
    let room = usize::from(canvas.columns()).saturating_sub(tail + 13);
    let name = canvas.text(1, 0, "zk-inspect", theme.title());
    let cluster = text::clean(&model.cluster, model.charset);
    canvas.text(name + 2, 0, &text::fit(&cluster, room, model.charset), Style::new());
    canvas.right(0, &format!("{clock} "), Style::new());
    let column = usize::from(canvas.columns()).saturating_sub(tail);
    canvas.text(u16::try_from(column).unwrap_or_default(), 0, &word, style);

    let shown = model.shown();
    let held = shown.values().filter(|lock| !lock.holders.is_empty()).count();
    let waiting: usize = shown.values().map(|lock| lock.waiters.len()).sum();
    let counts = format!(
        "{} locks  {} held  {} waiting ",
        row::count(shown.len()),
        row::count(held),
        row::count(waiting),
    );
    let room = usize::from(canvas.columns()).saturating_sub(counts.len() + 3);
    let roots = text::clean(&model.roots, model.charset);
    canvas.text(
        1,
        1,
        &format!("in {}", text::fit(&roots, room.saturating_sub(3), model.charset)),
        theme.dim(),
    );
    canvas.right(1, &counts, Style::new());
}

/// What should be known of the data, most important first.
fn status(model: &Model, now: Now) -> Option<(String, bool)> {
    if let Some((notice, _)) = &model.notice {
        return Some((notice.clone(), false));
    }
    if let Connection::Stale { since } = &model.connection {
        let old = age(now.at.saturating_duration_since(since.at));
        return Some((
            format!(
                "disconnected {old}: data as of {}; locks may have moved since",
                time(since.unix)
            ),
            true,
        ));
    }
    let gap = model.last_gap.map(|gap| (now.at.saturating_duration_since(gap.until), gap));
    let tell = |(ago, gap): (Duration, Gap)| {
        let length = age(gap.until.saturating_duration_since(gap.from));
        let gaps = if model.gaps > 1 { format!(" ({} gaps)", model.gaps) } else { String::new() };
        let ago = age(ago);
        (
            format!("GAP of {length}, {ago} ago: hand-overs not seen; all was read again{gaps}"),
            false,
        )
    };
    if let Some(recent) = gap.filter(|(ago, _)| *ago < RECENT) {
        return Some(tell(recent));
    }
    let clean = |paths: &[String]| {
        let paths: Vec<_> =
            paths.iter().take(3).map(|path| text::clean(path, model.charset)).collect();
        paths.join(" ")
    };
    if !model.denied.is_empty() {
        let more = model.denied.len();
        return Some((format!("no permission to list {more}: {}", clean(&model.denied)), true));
    }
    if !model.missing.is_empty() {
        return Some((format!("there is no node {} (yet)", clean(&model.missing)), true));
    }
    if let Method::Poll(every) = model.by {
        let every = age(every);
        return Some((
            format!(
                "the server has no recursive watches: everything is listed again every {every}"
            ),
            false,
        ));
    }
    gap.map(tell)
}

pub(super) fn footer(canvas: &mut Canvas<'_>, model: &Model, rows: &Rows, now: Now) {
    let theme = canvas.theme;
    if let (Some(row), Some((status, urgent))) = (rows.status, status(model, now)) {
        let room = usize::from(canvas.columns()).saturating_sub(2);
        let style = if urgent { theme.warning() } else { Style::new() };
        canvas.text(1, row, &text::fit(&status, room, model.charset), style);
    }
    if let Some(prompt) = &model.prompt {
        let chars = prompt.value().chars();
        let mut before = text::typed(chars.clone().take(prompt.cursor()), model.charset);
        let mut after = chars.skip(prompt.cursor());
        let under = text::typed(after.next().or(Some(' ')).into_iter(), model.charset);
        // The cursor is always seen, and what is before it.
        let room = usize::from(canvas.columns()).saturating_sub(1 + text::width(&under));
        if text::width(&before) > room {
            before = text::fit_path(&before, room, model.charset);
        }
        let end = canvas.text(0, rows.keys, "/", theme.title());
        let end = canvas.text(end, rows.keys, &before, theme.title());
        let end = canvas.text(end, rows.keys, &under, theme.selected());
        let end = canvas.text(end, rows.keys, &text::typed(after, model.charset), theme.title());
        let hint = "words, !not, field:word   Enter keep  Esc clear ";
        if usize::from(end) + hint.len() + 2 < usize::from(canvas.columns()) {
            canvas.right(rows.keys, hint, theme.dim());
        }
        return;
    }
    let keys = match (&model.screen, canvas.columns()) {
        (Screen::Locks, 0..70) => "Enter open  / filter  s sort  ? help  q quit",
        (Screen::Locks, 70..100) => {
            "Enter open  / filter  s S sort  Space freeze  y Y copy  ? help  q quit"
        }
        (Screen::Locks, _) => {
            "Enter open  / filter  s sort  S reverse  Space freeze  y copy path  Y copy token  \
             ? help  q quit"
        }
        (Screen::Queue(_), 0..70) => "Esc back  Space freeze  ? help  q quit",
        (Screen::Queue(_), _) => {
            "Esc back  j k move  Space freeze  y copy path  Y copy token  ? help  q quit"
        }
    };
    canvas.text(1, rows.keys, keys, theme.dim());
}
