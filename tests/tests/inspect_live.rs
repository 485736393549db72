//! The screen is true: while locks are fought over, and whenever it is quiet.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inspect::{Dice, Scene, quit};
use integration::pty::{Frame, Key, Screen};
use integration::{Terminal, eventually};
use support::{MILLIS, SECONDS, SOON};
use tokio::task::JoinSet;
use view::{Client, curator};

const LOCKS: usize = 30;
const CLIENTS: usize = 20;
const BURSTS: usize = 4;

/// What "no event was pending" means, and how old a holder on the screen may be.
const QUIET: Duration = Duration::from_millis(500);
const FRESH: Duration = Duration::from_secs(1);

/// One contender's life, as its client knows it.
#[derive(Clone, Debug)]
struct Life {
    lock: usize,
    data: String,
    sequence: u64,
    /// Sent and answered.
    created: (Instant, Instant),
    deleted: Option<(Instant, Option<Instant>)>,
}

impl Life {
    fn may_live(&self, at: Instant) -> bool {
        let gone = self.deleted.and_then(|(_, answered)| answered);
        self.created.0 <= at && gone.is_none_or(|gone| at <= gone)
    }

    fn may_be_dead(&self, at: Instant) -> bool {
        at <= self.created.1 || self.deleted.is_some_and(|(sent, _)| sent <= at)
    }
}

#[derive(Default)]
struct Record(Mutex<Vec<Life>>);

impl Record {
    fn lives(&self) -> Vec<Life> {
        self.0.lock().unwrap().clone()
    }
}

struct Arena {
    record: Record,
    running: AtomicBool,
    parked: AtomicUsize,
    over: AtomicBool,
}

/// Makes and deletes contenders at random, while the arena runs.
async fn fight(arena: Arc<Arena>, client: Client, paths: Vec<String>, number: usize) {
    let mut dice = Dice(number as u64 + 7);
    let mut mine: Vec<(usize, String)> = Vec::new();
    let mut count = 0;
    while !arena.over.load(Ordering::SeqCst) {
        if !arena.running.load(Ordering::SeqCst) {
            arena.parked.fetch_add(1, Ordering::SeqCst);
            while !arena.running.load(Ordering::SeqCst) && !arena.over.load(Ordering::SeqCst) {
                tokio::time::sleep(MILLIS(5)).await;
            }
            arena.parked.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        if mine.len() > dice.below(5) {
            let (index, path) = mine.swap_remove(dice.below(mine.len()));
            arena.record.0.lock().unwrap()[index].deleted = Some((Instant::now(), None));
            assert!(client.raw.delete(&path).await);
            let answered = Instant::now();
            let mut lives = arena.record.0.lock().unwrap();
            lives[index].deleted = lives[index].deleted.map(|(sent, _)| (sent, Some(answered)));
        } else {
            let lock = dice.below(LOCKS);
            let prefix = match dice.below(3) {
                0 => format!("{}__lock__", view::hex()),
                _ => curator("lock-"),
            };
            count += 1;
            let data = format!("w{number:02}-{count:04}");
            let sent = Instant::now();
            let name = client.queue(&paths[lock], &prefix, data.as_bytes()).await;
            let sequence = name.rsplit(['-', '_']).next().unwrap().parse().unwrap();
            let created = (sent, Instant::now());
            let mut lives = arena.record.0.lock().unwrap();
            mine.push((lives.len(), format!("{}/{name}", paths[lock])));
            lives.push(Life { lock, data, sequence, created, deleted: None });
        }
        tokio::time::sleep(MILLIS(dice.below(55) as u64 + 5)).await;
    }
}

/// The locks on a page: number, holder, queue length.
fn rows(lines: &[String], wide: bool) -> BTreeMap<usize, (String, usize)> {
    let row = |line: &String| {
        let words: Vec<_> = line.trim_start_matches('>').split_whitespace().collect();
        let path = words.iter().position(|word| word.contains("/lock-"))?;
        (path == 2).then_some(())?;
        let number = words[path].rsplit_once("lock-")?.1.parse().ok()?;
        let holder = *words.get(path + if wide { 2 } else { 1 })?;
        let queue = words.get(path + if wide { 4 } else { 3 })?.parse().ok()?;
        Some((number, (holder.to_owned(), queue)))
    };
    lines.iter().filter_map(row).collect()
}

/// Every holder in every frame was one within the last second.
fn check(frames: &[Frame], lives: &[Life], wide: bool) -> usize {
    let mut checked = 0;
    for frame in frames {
        for (lock, (holder, _)) in rows(&frame.lines, wide) {
            if holder == "-" {
                continue;
            }
            let queue: Vec<&Life> = lives.iter().filter(|life| life.lock == lock).collect();
            // Not read yet: the data is not there, the node is.
            if holder == "(reading)" {
                continue;
            }
            let life = queue.iter().find(|life| life.data == holder);
            let life = life.unwrap_or_else(|| panic!("{holder} never existed: {frame:?}"));
            let held = |back: u32| {
                let Some(at) = frame.at.checked_sub(FRESH / 250 * back) else { return false };
                let ahead = |other: &&&Life| other.sequence < life.sequence;
                life.may_live(at) && queue.iter().filter(ahead).all(|other| other.may_be_dead(at))
            };
            assert!((0..=250).any(held), "{holder} did not hold lock {lock}: {life:?}");
            checked += 1;
        }
    }
    checked
}

/// The truth: by lock, data of all in order.
fn truth(lives: &[Life]) -> BTreeMap<usize, Vec<Life>> {
    let mut queues: BTreeMap<usize, Vec<Life>> = BTreeMap::new();
    for life in lives.iter().filter(|life| life.deleted.is_none()) {
        queues.entry(life.lock).or_default().push(life.clone());
    }
    for queue in queues.values_mut() {
        queue.sort_by_key(|life| life.sequence);
    }
    queues
}

fn compare(screen: &Screen, truth: &BTreeMap<usize, Vec<Life>>, wide: bool) -> usize {
    let shown = rows(screen.lines(), wide);
    for (lock, (holder, queue)) in &shown {
        match truth.get(lock) {
            None => assert_eq!((&**holder, *queue), ("-", 0), "lock {lock}: {screen}"),
            Some(lives) => {
                let wanted = (&lives[0].data, lives.len() - 1);
                assert_eq!((holder, *queue), wanted, "lock {lock}: {screen}");
            }
        }
    }
    shown.len()
}

/// Pages through everything, by path.
async fn compare_all(terminal: &Terminal, truth: &BTreeMap<usize, Vec<Life>>, wide: bool) {
    terminal.press(Key::Home);
    let mut seen = BTreeMap::new();
    let mut page = terminal
        .wait_for("the first lock is selected", SOON, |screen| {
            screen.lines().iter().any(|line| line.starts_with('>') && line.contains("lock-00"))
        })
        .await;
    loop {
        compare(&page, truth, wide);
        seen.extend(rows(page.lines(), wide));
        if seen.contains_key(&(LOCKS - 1)) {
            break;
        }
        let before = page.text();
        terminal.press(Key::PageDown);
        page = terminal.wait_for("the next page", SOON, |screen| screen.text() != before).await;
    }
    for lock in truth.keys() {
        assert!(seen.contains_key(lock), "lock {lock} is not shown");
    }
}

/// Opens a lock and compares order, tokens and sessions with the server.
async fn compare_queue(terminal: &Terminal, scene: &Scene, lock: usize) {
    let path = format!("{}/lock-{lock:02}", scene.root);
    let queue = scene.client.raw.queue(&path).await;
    terminal.send(&format!("/lock-{lock:02}"));
    terminal.press(Key::Enter);
    terminal.wait_text("(1 of ", SOON).await;
    terminal.press(Key::Enter);
    terminal
        .wait_for("the queue is right", SOON, |screen| {
            let lines: Vec<_> = screen.lines().iter().skip(4).take(queue.len()).collect();
            lines.len() == queue.len()
                && lines.iter().zip(&queue).enumerate().all(|(place, (line, child))| {
                    let data = String::from_utf8_lossy(&child.data).into_owned();
                    let behind = place
                        .checked_sub(1)
                        .map_or_else(|| "- ".to_owned(), |at| format!("#{at} "));
                    [
                        &*place.to_string(),
                        if place == 0 { "HOLD" } else { "wait" },
                        &data,
                        &format!("{:#x}", child.owner),
                        &format!("{:016x}", child.czxid),
                        &behind,
                    ]
                    .iter()
                    .all(|part| line.contains(part))
                })
        })
        .await;
    terminal.press(Key::Esc);
    terminal.wait_text("filter lock-", SOON).await;
    terminal.press(Key::Esc);
    terminal.wait_text("locks  sort", SOON).await;
}

async fn true_at(columns: u16, rows: u16) {
    let wide = columns >= 100;
    let scene = Scene::new("live").await;
    let mut paths = Vec::new();
    for lock in 0..LOCKS {
        paths.push(scene.folder(&format!("lock-{lock:02}")).await);
    }
    let arena = Arc::new(Arena {
        record: Record::default(),
        running: AtomicBool::new(true),
        parked: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    });
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Client::connect(&scene.connect()).await;
        clients.spawn(fight(Arc::clone(&arena), client, paths.clone(), number));
    }
    let terminal = scene.screen(&[]).size(columns, rows).start();
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.send("ssss");
    terminal.wait_text("sort PATH", SOON).await;
    let (mut checked, mut frames) = (0, 0);
    for _ in 0..BURSTS {
        terminal.record(true);
        arena.running.store(true, Ordering::SeqCst);
        tokio::time::sleep(SECONDS(2)).await;
        arena.running.store(false, Ordering::SeqCst);
        eventually(SOON, "all have stopped", async || {
            (arena.parked.load(Ordering::SeqCst) == CLIENTS).then_some(())
        })
        .await;
        tokio::time::sleep(QUIET).await;
        let lives = arena.record.lives();
        let truth = truth(&lives);
        // Now, not soon.
        assert!(compare(&terminal.screen(), &truth, wide) > 5, "{}", terminal.screen());
        let recorded = terminal.frames();
        terminal.record(false);
        frames += recorded.len();
        checked += check(&recorded, &lives, wide);
        compare_all(&terminal, &truth, wide).await;
        let longest = truth.iter().max_by_key(|(_, queue)| queue.len()).unwrap();
        compare_queue(&terminal, &scene, *longest.0).await;
    }
    println!("{columns}x{rows}: {checked} holders in {frames} frames were true");
    assert!(frames > 20 * BURSTS && checked > frames, "{frames} frames, {checked} holders");
    arena.over.store(true, Ordering::SeqCst);
    clients.join_all().await;
    quit(&terminal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_80x24_every_frame_shows_who_holds_and_when_it_is_quiet_all_is_as_on_the_server() {
    true_at(80, 24).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_120x36_every_frame_shows_who_holds_and_when_it_is_quiet_all_is_as_on_the_server() {
    true_at(120, 36).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_that_was_seen_is_timed_exactly_and_one_before_at_most() {
    let scene = Scene::new("held").await;
    let path = scene.folder("lock-00").await;
    let first = scene.contend(&path, b"first").await;
    scene.contend(&path, b"second").await;
    let terminal = scene.live(&[]).await;
    let of = |screen: &Screen, holder: &str| {
        screen
            .lines()
            .iter()
            .find(|line| line.contains("/lock-00 ") && line.contains(holder))
            .cloned()
    };
    let line = terminal.wait_text("first", SOON).await;
    assert!(of(&line, "first").unwrap().contains('≤'), "{line}");
    scene.client.delete(&path, &first).await;
    let screen =
        terminal.wait_for("the second holds", SOON, |screen| of(screen, "second").is_some()).await;
    assert!(!of(&screen, "second").unwrap().contains('≤'), "{screen}");
    terminal
        .wait_for("its time goes on", SOON, |screen| {
            of(screen, "second").is_some_and(|line| line.contains(" 2."))
        })
        .await;
    quit(&terminal).await;
}
