//! Every screen as a picture, with its styles; the picture of the README among them.

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_recipes::observe::{
    Facts, Gap, Kind, Method, NodeFacts, ObservedContender, ObservedLock, Progress,
};
use lock_recipes::{Dialect, FencingToken, Role};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::draw;
use crate::model::{Connection, Cursor, Model, Screen};
use crate::row::Now;
use crate::text::Charset;
use crate::theme::Theme;
use crate::update::{Msg, update};

/// 2026-11-30, 12:41:07 UTC.
const UNIX: Duration = Duration::from_secs(1_796_042_467);

struct Scene {
    model: Model,
    now: Now,
}

/// `(data, role, seconds in the queue)`
type Who = (&'static str, Role, u64);

impl Scene {
    fn new(columns: u16, rows: u16, charset: Charset) -> Self {
        let now = Now { at: Instant::now() + Duration::from_secs(1_000_000), unix: UNIX };
        let cluster = "zk1:2181,zk2:2181,zk3:2181/prod".to_owned();
        let mut model = Model::new(cluster, "/locks /election".to_owned(), charset, now);
        update(&mut model, Msg::Resize(columns, rows), now);
        Self { model, now }
    }

    /// With the locks of an ordinary day.
    fn busy(columns: u16, rows: u16, charset: Charset) -> Self {
        let mut scene = Self::new(columns, rows, charset);
        scene.model.connection = Connection::Live;
        let x = |data, seconds| (data, Role::Exclusive, seconds);
        scene.lock(
            "/locks/billing/invoice-run",
            Kind::Mutex,
            Dialect::Curator,
            1,
            Some(2_467),
            &[
                x("billing-7", 4_000),
                x("billing-2", 2_292),
                x("billing-3", 1_865),
                x("billing-9", 764),
                x("adhoc", 48),
            ],
        );
        scene.lock(
            "/locks/orders/shard-07",
            Kind::Mutex,
            Dialect::Kazoo,
            1,
            Some(1),
            &[x("orders-11", 3), x("orders-02", 2)],
        );
        scene.lock(
            "/locks/catalog/rw",
            Kind::RwLock,
            Dialect::Curator,
            3,
            None,
            &[
                ("catalog-5", Role::Read, 130),
                ("catalog-6", Role::Read, 120),
                ("catalog-1", Role::Read, 60),
                ("reindex", Role::Write, 44),
                ("catalog-2", Role::Read, 4),
            ],
        );
        scene.lock(
            "/locks/thumbnailer",
            Kind::Semaphore,
            Dialect::Curator,
            2,
            None,
            &[("thumbs-1", Role::Permit, 18), ("thumbs-2", Role::Permit, 11)],
        );
        let candidate = |data, seconds| (data, Role::Candidate, seconds);
        scene.lock(
            "/election/scheduler",
            Kind::Election,
            Dialect::ZooKeeper,
            1,
            None,
            &[candidate("sched-1", 532_000), candidate("sched-2", 531_000)],
        );
        scene.lock(
            "/locks/import/2026-11",
            Kind::Mutex,
            Dialect::GoZookeeper,
            1,
            Some(320),
            &[x("\u{1b}[2Jimport\u{202e}", 400)],
        );
        scene.lock("/locks/billing/refunds", Kind::Mutex, Dialect::Curator, 0, None, &[]);
        scene.model.arrange(scene.now);
        scene
    }

    fn lock(
        &mut self,
        path: &str,
        kind: Kind,
        dialect: Dialect,
        holders: usize,
        granted: Option<u64>,
        who: &[Who],
    ) {
        let mut lock = ObservedLock::new(path, kind);
        lock.dialect = Some(dialect);
        lock.creates = Some(4_411);
        lock.ignored = vec!["config".to_owned()];
        for (index, &(data, role, seconds)) in (0_u32..).zip(who) {
            let number = i64::from(index) + i64::try_from(self.model.locks.len()).unwrap() * 16;
            let facts = NodeFacts::new(
                FencingToken::try_from(0x1f_0003_a1b0 + number).ok(),
                0x0200_0011_ebba_0000 + number,
                UNIX.checked_sub(Duration::from_secs(seconds)).unwrap(),
                data.as_bytes(),
            );
            let node =
                format!("_c_2f7e9a10-0000-4000-8000-00000000000{index}-lock-{:010}", 4_400 + index);
            let mut contender = ObservedContender::new(node, role, Facts::Read(facts));
            if (index as usize) < holders {
                contender.granted = granted
                    .and_then(|granted| self.now.at.checked_sub(Duration::from_secs(granted)));
                lock.holders.push(contender);
            } else {
                let ahead = lock.contenders().last().map(|ahead| ahead.node.clone());
                contender.behind = ahead.into_iter().collect();
                lock.waiters.push(contender);
            }
        }
        self.model.locks.insert(path.to_owned(), Arc::new(lock));
        self.model.unsorted = true;
    }

    fn draw(&mut self, theme: Theme) -> Buffer {
        self.model.arrange(self.now);
        let (columns, rows) = self.model.size;
        let area = Rect::new(0, 0, columns, rows);
        let mut buffer = Buffer::empty(area);
        draw(&self.model, theme, self.now, area, &mut buffer);
        buffer
    }
}

/// The text, and below it each run of cells with a style.
fn picture(buffer: &Buffer) -> String {
    let mut out = String::new();
    let mut styles = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut line = String::new();
        let mut run: Option<(u16, String)> = None;
        for x in buffer.area.left()..=buffer.area.right() {
            let cell = (x < buffer.area.right()).then(|| &buffer[(x, y)]);
            let style = cell.map(|cell| {
                line.push_str(cell.symbol());
                let mut style = String::new();
                if cell.fg != Color::Reset {
                    write!(style, "{} ", cell.fg).unwrap();
                }
                if cell.bg != Color::Reset {
                    write!(style, "on {} ", cell.bg).unwrap();
                }
                if cell.modifier != Modifier::empty() {
                    write!(style, "{:?}", cell.modifier).unwrap();
                }
                style.trim_end().to_owned()
            });
            let same = run.as_ref().map(|(_, style)| style) == style.as_ref();
            if !same {
                if let Some((from, style)) = run.filter(|(_, style)| !style.is_empty()) {
                    writeln!(styles, "{y:>3}: {from:>3}-{:<3} {style}", x - 1).unwrap();
                }
                run = style.map(|style| (x, style));
            }
        }
        writeln!(out, "{}", line.trim_end()).unwrap();
    }
    format!("{out}\n{styles}")
}

/// Each screen, by its name.
fn screens(columns: u16, rows: u16, charset: Charset) -> Vec<(&'static str, Scene)> {
    let busy = || Scene::busy(columns, rows, charset);
    let mut queue = busy();
    queue.model.screen = Screen::Queue("/locks/catalog/rw".to_owned());
    queue.model.queue = Cursor { chosen: true, index: 3, ..Cursor::default() };
    let mut help = busy();
    help.model.help = Some(0);
    let mut filter = busy();
    filter.model.prompt = Some("state:busy !kind:mutex".into());
    filter.model.filter_text = "state:busy !kind:mutex".to_owned();
    filter.model.filter = crate::filter::Filter::parse(&filter.model.filter_text);
    filter.model.unsorted = true;
    let mut stale = busy();
    let earlier = Duration::from_secs(12);
    stale.model.connection = Connection::Stale {
        since: Now {
            at: stale.now.at.checked_sub(earlier).unwrap(),
            unix: stale.now.unix.checked_sub(earlier).unwrap(),
        },
    };
    let mut frozen = busy();
    frozen.model.frozen = Some((frozen.model.locks.clone(), frozen.now));
    let mut connecting = Scene::new(columns, rows, charset);
    connecting.model.connection = Connection::Connecting {
        since: connecting.now,
        error: Some("cannot connect to ZooKeeper at zk1:2181 within 10.0s".to_owned()),
    };
    let mut listing = Scene::new(columns, rows, charset);
    listing.model.connection = Connection::Listing;
    listing.model.progress = Some(progress());
    let mut empty = Scene::new(columns, rows, charset);
    empty.model.connection = Connection::Live;
    let mut partial = busy();
    partial.model.denied = vec!["/locks/secret".to_owned()];
    let mut gap = busy();
    gap.model.denied = vec!["/locks/secret".to_owned()];
    let ago = |seconds| gap.now.at.checked_sub(Duration::from_secs(seconds)).unwrap();
    (gap.model.last_gap, gap.model.gaps) = (Some(Gap::new(ago(17), ago(5))), 2);
    let mut polling = busy();
    polling.model.by = Method::Poll(Duration::from_secs(2));
    let mut gone = busy();
    gone.model.screen = Screen::Queue("/locks/none".to_owned());
    vec![
        ("locks", busy()),
        ("queue", queue),
        ("help", help),
        ("filter", filter),
        ("stale", stale),
        ("frozen", frozen),
        ("connecting", connecting),
        ("listing", listing),
        ("empty", empty),
        ("partial", partial),
        ("gap", gap),
        ("polling", polling),
        ("gone", gone),
    ]
}

fn progress() -> Progress {
    Progress::new(1_284, 96)
}

#[test]
fn every_screen_looks_as_it_did() {
    for (columns, rows) in [(80, 24), (120, 36)] {
        for (name, mut scene) in screens(columns, rows, Charset::Unicode) {
            for (theme, word) in [(Theme::Color, "color"), (Theme::Mono, "mono")] {
                // The larger size differs from the smaller in its columns and panes only.
                if (columns, theme) == (120, Theme::Mono) {
                    continue;
                }
                let picture = picture(&scene.draw(theme));
                insta::assert_snapshot!(format!("{name}_{columns}x{rows}_{word}"), picture);
            }
        }
    }
}

#[test]
fn small_and_ascii_screens_look_as_they_did() {
    for (columns, rows) in [(1, 1), (14, 5), (40, 8), (60, 15), (200, 60)] {
        let mut scene = Scene::busy(columns, rows, Charset::Unicode);
        let picture = picture(&scene.draw(Theme::Mono));
        insta::assert_snapshot!(format!("locks_{columns}x{rows}_mono"), picture);
    }
    for (name, mut scene) in screens(80, 24, Charset::Ascii) {
        let picture = picture(&scene.draw(Theme::Mono));
        assert!(picture.is_ascii(), "{name}: {picture}");
        insta::assert_snapshot!(format!("{name}_80x24_ascii"), picture);
    }
}

#[test]
fn in_mono_there_is_no_colour_and_every_state_can_be_told() {
    for (name, mut scene) in screens(120, 36, Charset::Unicode) {
        let buffer = scene.draw(Theme::Mono);
        let plain = |color| color == Color::Reset;
        assert!(buffer.content.iter().all(|cell| plain(cell.fg) && plain(cell.bg)), "{name}");
    }
}

#[test]
fn no_size_panics_on_any_screen() {
    let small = (1..=12).flat_map(|columns| (1..=12).map(move |rows| (columns, rows)));
    let large =
        (13..=300).step_by(41).flat_map(|columns| [8, 17, 22, 31, 100].map(|rows| (columns, rows)));
    for (columns, rows) in small.chain(large) {
        for (_, mut scene) in screens(columns, rows, Charset::Unicode) {
            scene.draw(Theme::Color);
        }
    }
}

/// The picture of the README. `UPDATE=1 cargo test -p zk-inspect` writes it anew.
#[test]
fn the_picture_of_the_readme_is_true() {
    let mut scene = Scene::busy(100, 24, Charset::Unicode);
    let svg = svg(&scene.draw(Theme::Color));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/zk-inspect.svg");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, &svg).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    assert!(kept == svg, "docs/zk-inspect.svg is old: UPDATE=1 cargo test -p zk-inspect");
}

/// A buffer as it looks in a dark terminal.
fn svg(buffer: &Buffer) -> String {
    const CELL: (f64, f64) = (8.4, 18.0);
    let color = |color: Color| match color {
        Color::Red => "#f2777a",
        Color::Green => "#8fd18b",
        Color::Magenta => "#cc99cc",
        Color::Cyan => "#66cccc",
        _ => "#d3d0c8",
    };
    let Rect { width, height, .. } = buffer.area;
    let (wide, high) = (f64::from(width) * CELL.0 + 20.0, f64::from(height) * CELL.1 + 20.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide:.0} {high:.0}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"14\">\n<title>zk-inspect: the screen of locks</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#2d2d2d\"/>\n",
    );
    for y in 0..height {
        let mut x = 0;
        while x < width {
            let first = &buffer[(x, y)];
            let from = x;
            let mut text = String::new();
            while x < width && buffer[(x, y)].style() == first.style() {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            let reversed = first.modifier.contains(Modifier::REVERSED);
            if text.trim().is_empty() && !reversed {
                continue;
            }
            let (left, top) = (10.0 + f64::from(from) * CELL.0, 10.0 + f64::from(y) * CELL.1);
            let length = f64::from(x - from) * CELL.0;
            let ink = color(first.fg);
            if reversed {
                let high = CELL.1;
                writeln!(out, "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{length:.1}\" height=\"{high:.1}\" fill=\"{ink}\"/>").unwrap();
            }
            let fill = if reversed { "#2d2d2d" } else { ink };
            let bold =
                if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
            let dim = if first.modifier.contains(Modifier::DIM) { " opacity=\"0.6\"" } else { "" };
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let line = top + 13.5;
            writeln!(out, "<text x=\"{left:.1}\" y=\"{line:.1}\" textLength=\"{length:.1}\" xml:space=\"preserve\" fill=\"{fill}\"{bold}{dim}>{text}</text>").unwrap();
        }
    }
    out + "</svg>\n"
}

#[test]
fn what_is_typed_is_shown_with_its_cursor_where_the_next_letter_will_be() {
    for (typed, cursor, shown) in [
        ("", 0, "/[ ]"),
        ("a ", 2, "/a [ ]"),
        ("abc", 1, "/a[b]c"),
        ("a\u{1b}c", 1, "/a[\\x1b]c"),
        (
            "0123456789012345678901234567890123456789",
            40,
            "/…3456789012345678901234567890123456789[ ]",
        ),
        (
            "0123456789012345678901234567890123456789",
            2,
            "/01[2]3456789012345678901234567890123456789",
        ),
    ] {
        let mut scene = Scene::busy(40, 24, Charset::Unicode);
        scene.model.prompt = Some(tui_input::Input::new(typed.to_owned()).with_cursor(cursor));
        let buffer = scene.draw(Theme::Mono);
        let mut line = String::new();
        let mut marked = false;
        for column in 0..40 {
            let cell = &buffer[(column, 23)];
            let under = cell.modifier.contains(Modifier::REVERSED);
            if under != marked {
                line.push(if under { '[' } else { ']' });
            }
            marked = under;
            line.push_str(cell.symbol());
        }
        if marked {
            line.push(']');
        }
        let shown: String = shown.chars().take(42).collect();
        assert_eq!(line.trim_end(), shown, "{typed:?} {cursor}");
    }
}
