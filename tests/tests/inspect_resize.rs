//! `zk-inspect` in terminals of any size, which change while locks do.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use inspect::{Dice, Scene, plain, quit, still, zk_inspect};
use integration::pty::{Key, Screen};
use integration::{Observer, Terminal, within};
use support::{SECONDS, SOON};
use tokio::task::JoinHandle;
use view::{Client, curator, hex};

const TOO_SMALL: &str = "too small: 40x8 is needed";

fn start_of(text: &str, cells: u16) -> &str {
    text.get(..usize::from(cells)).unwrap_or(text).trim_end()
}

/// Whether this is a whole screen of that size: nothing of another size is left on it.
fn is_whole(screen: &Screen, (columns, rows): (u16, u16)) -> bool {
    let lines = screen.lines();
    if screen.size() != (columns, rows) {
        return false;
    }
    if columns < 40 || rows < 8 {
        let rest = lines.iter().skip(1).all(String::is_empty);
        return rest && lines[0] == start_of(TOO_SMALL, columns);
    }
    // The clock ends the first line, one cell before the terminal does.
    let wide = |line: &str| line.chars().count();
    let last = lines.last().unwrap();
    lines[0].starts_with(" zk-inspect")
        && lines[0].ends_with('Z')
        && wide(&lines[0]) == usize::from(columns) - 1
        && (last.starts_with(" Enter") || last.starts_with(" Esc") || last.starts_with('/'))
}

async fn sized(terminal: &Terminal, (columns, rows): (u16, u16), when: &str) -> Screen {
    terminal.resize(columns, rows);
    let what = format!("the screen is whole at {columns}x{rows}, {when}");
    terminal.wait_for(what, SOON, |screen| is_whole(screen, (columns, rows))).await
}

#[tokio::test]
async fn a_terminal_that_is_too_small_says_so_as_far_as_that_fits() {
    let scene = Scene::new("small").await;
    let path = scene.lock("a", &["holder", "waiter"]).await;
    let terminal = scene.live(&[]).await;
    let whole = terminal.screen();
    for size in [(1, 1), (2, 1), (10, 3), (14, 5), (39, 24), (80, 7), (300, 1), (1, 100)] {
        let screen = sized(&terminal, size, "from 80x24").await;
        assert_eq!(screen.lines()[0], start_of(TOO_SMALL, size.0));
        sized(&terminal, (80, 24), "again").await;
    }
    // The smallest that is not, and a large one.
    let screen = sized(&terminal, (40, 8), "the smallest").await;
    assert!(screen.contains("BUSY") && screen.contains("small"), "{screen}");
    let screen = sized(&terminal, (300, 100), "a large one").await;
    assert!(screen.contains(&format!("{path} ")), "{screen}");
    let screen = sized(&terminal, (80, 24), "as before").await;
    assert_eq!(still(&screen), still(&whole));
    quit(&terminal).await;

    // Small from the beginning, and without any size, as on a serial line.
    let terminal = scene.screen(&[]).size(14, 5).start();
    terminal.wait_text("too small: 40x", SOON).await;
    sized(&terminal, (80, 24), "grown").await;
    terminal.wait_text(" LIVE ", SOON).await;
    quit(&terminal).await;
    let script = r#"stty cols 0 rows 0; exec "$0" "$@""#;
    let builder = Terminal::builder("bash").args(["-c", script]).arg(zk_inspect());
    let terminal = plain(builder).args(scene.args()).start();
    terminal.wait_for("it has begun", SOON, Screen::alternate_screen).await;
    sized(&terminal, (80, 24), "after none").await;
    terminal.wait_text(" LIVE ", SOON).await;
    quit(&terminal).await;
}

/// Makes and deletes contenders until told to stop, and then deletes its own.
fn churn(connect: String, paths: Vec<String>, stop: Arc<AtomicBool>, seed: u64) -> JoinHandle<()> {
    tokio::spawn(async move {
        let client = Client::connect(&connect).await;
        let mut dice = Dice(seed);
        let mut mine: Vec<(String, String)> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            if mine.len() > dice.below(12) {
                let (path, name) = mine.swap_remove(dice.below(mine.len()));
                client.delete(&path, &name).await;
            } else {
                let path = paths[dice.below(paths.len())].clone();
                let prefix = if dice.below(2) == 0 {
                    curator("lock-")
                } else {
                    format!("{}__lock__", hex())
                };
                let data = "部署\u{202e}".repeat(dice.below(9));
                let name = client.queue(&path, &prefix, data.as_bytes()).await;
                mine.push((path, name));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for (path, name) in mine {
            client.delete(&path, &name).await;
        }
    })
}

/// What is open while the size changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Locks,
    Queue,
    Help,
    HelpOverQueue,
    Filter,
}

/// Opens it from the list of locks, or goes back there.
async fn open(terminal: &Terminal, what: Open, on: bool) {
    // At a size where it can be seen that it has been done.
    sized(terminal, (80, 24), "to open something").await;
    let seen = async |text: &str| _ = terminal.wait_text(text, SOON).await;
    match (what, on) {
        (Open::Locks, _) => {}
        (Open::Queue, true) => {
            terminal.press(Key::Enter);
            seen(" Esc back").await;
        }
        (Open::Help, true) => {
            terminal.send("?");
            seen(" Help ").await;
        }
        (Open::HelpOverQueue, true) => {
            terminal.press(Key::Enter);
            seen(" Esc back").await;
            terminal.send("?G");
            seen("Esc closes").await;
        }
        (Open::Filter, true) => {
            terminal.send("/rotten");
            seen("/rotten").await;
        }
        (_, false) => {
            if matches!(what, Open::Help | Open::HelpOverQueue) {
                terminal.press(Key::Esc);
                // What comes right behind Esc would be read as one key with it.
                terminal.wait_for("no help", SOON, |screen| !screen.contains(" Help ")).await;
            }
            if what != Open::Help {
                terminal.press(Key::Esc);
            }
            seen(" Enter open").await;
        }
    }
}

/// Two hundred sizes and more, of which many are too small or just large enough.
const SIZES: usize = 250;

fn any_size(dice: &mut Dice) -> (u16, u16) {
    let between = |dice: &mut Dice, low: u16, high: u16| {
        low + u16::try_from(dice.below(usize::from(high - low + 1))).unwrap()
    };
    match dice.below(4) {
        0 => (between(dice, 1, 45), between(dice, 1, 10)),
        1 => (between(dice, 38, 60), between(dice, 6, 14)),
        2 => (between(dice, 50, 120), between(dice, 8, 40)),
        _ => (between(dice, 1, 300), between(dice, 1, 100)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_open_every_size_is_drawn_while_locks_change() {
    let scene = Scene::new("sizes").await;
    let mut paths = Vec::new();
    for number in 0..40 {
        // With a holder that stays: a lock that is free is known only to those who have seen it held.
        paths.push(scene.lock(&format!("rotten-{number:02}"), &["stays"]).await);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let churns: Vec<_> = (1..=3)
        .map(|seed| churn(scene.connect(), paths.clone(), Arc::clone(&stop), seed))
        .collect();
    let terminal = scene.live(&[]).await;
    let all = [Open::Locks, Open::Queue, Open::Help, Open::HelpOverQueue, Open::Filter];
    let mut dice = Dice(11);
    for what in all {
        open(&terminal, what, true).await;
        for round in 0..SIZES / all.len() {
            let size = any_size(&mut dice);
            match dice.below(3) {
                // Several at once: only the last one counts.
                0 => {
                    for _ in 0..dice.below(4) {
                        let (columns, rows) = any_size(&mut dice);
                        terminal.resize(columns, rows);
                    }
                }
                1 => {
                    let keys = [Key::Down, Key::PageDown, Key::Up, Key::PageUp];
                    terminal.press(keys[dice.below(keys.len())]);
                }
                _ => {}
            }
            sized(&terminal, size, &format!("{what:?}, round {round}")).await;
        }
        open(&terminal, what, false).await;
    }
    stop.store(true, Ordering::Relaxed);
    for churn in churns {
        within(SOON, "the churn ends", churn).await.unwrap();
    }
    let raw = Observer::connect(&scene.connect()).await;
    for path in &paths {
        raw.wait_for_count(path, 1, SOON).await;
    }
    // The last key holds the order for a while, which would take the selection with it when it changes.
    terminal
        .wait_for("all is calm", SOON, |screen| {
            screen.contains("40 locks  40 held  0 waiting") && !screen.contains("order held")
        })
        .await;
    // The same screen as one that has seen nothing of this.
    terminal.send("g");
    let fresh = scene.live(&[]).await;
    let expected = still(&fresh.screen());
    let what = format!("it shows what a fresh one does: {}", fresh.screen());
    terminal.wait_for(what, SECONDS(10), |screen| still(screen) == expected).await;
    quit(&fresh).await;
    quit(&terminal).await;
}
