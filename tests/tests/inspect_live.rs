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

use inspect::{Dice, Scene, quit, selected, wait_selected};
use integration::pty::{Frame, Key, Screen};
use integration::{Terminal, eventually, within};
use support::{MILLIS, SOON};
use tokio::task::JoinSet;
use view::{Client, curator};
use zookeeper_client::{Acls, CreateMode};

const LOCKS: usize = 30;
const CLIENTS: usize = 20;
const BURSTS: usize = 5;

/// What "no event was pending" means, and how old a holder on the screen may be.
const QUIET: Duration = Duration::from_millis(500);
const FRESH: Duration = Duration::from_secs(1);

/// One contender's life, as its client knows it.
#[derive(Clone, Debug)]
struct Life {
    lock: usize,
    data: String,
    sequence: u64,
    token: String,
    /// Sent and answered.
    created: (Instant, Instant),
    deleted: Option<(Instant, Option<Instant>)>,
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
            let prefix = match dice.below(5) {
                0 => format!("{}__lock__", view::hex()),
                1 => format!("_c_{}-lock-", view::hex()),
                2 => format!("x-{}-", client.session()),
                _ => curator("lock-"),
            };
            count += 1;
            let data = format!("w{number:02}-{count:04}");
            let full = format!("{}/{prefix}", paths[lock]);
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let sent = Instant::now();
            let create = client.raw.client().create(&full, data.as_bytes(), &options);
            let (stat, number) = within(SOON, "a contender is made", create).await.unwrap();
            let created = (sent, Instant::now());
            let (sequence, token) =
                (number.into_i64().cast_unsigned(), format!("{:016x}", stat.czxid));
            let mut lives = arena.record.0.lock().unwrap();
            mine.push((lives.len(), format!("{full}{number}")));
            lives.push(Life { lock, data, sequence, token, created, deleted: None });
        }
        tokio::time::sleep(MILLIS(dice.below(55) as u64 + 5)).await;
    }
}

/// One lock on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    holder: String,
    queue: usize,
    /// On a wide screen.
    token: Option<String>,
}

/// The locks on a page, by their numbers.
fn rows(lines: &[String], wide: bool) -> BTreeMap<usize, Row> {
    let row = |line: &String| {
        let words: Vec<_> = line.trim_start_matches('>').split_whitespace().collect();
        let path = words.iter().position(|word| word.contains("/lock-"))?;
        (path == 2).then_some(())?;
        let number = words[path].rsplit_once("lock-")?.1.parse().ok()?;
        let holder = path + if wide { 2 } else { 1 };
        let queue = words.get(holder + 2)?.parse().ok()?;
        let token = if wide { Some((*words.get(holder + 4)?).to_owned()) } else { None };
        Some((number, Row { holder: words[holder].to_owned(), queue, token }))
    };
    lines.iter().filter_map(row).collect()
}

/// A time that has begun, and may have ended.
type Span = (Instant, Option<Instant>);

/// One lock as those who fought for it know it: the lives in the order of the queue, each with the time
/// in which it may have held, none if it cannot have.
struct Past<'a>(Vec<(&'a Life, Option<Span>)>);

impl<'a> Past<'a> {
    fn of(lock: usize, lives: &'a [Life]) -> Self {
        let mut queue: Vec<_> = lives.iter().filter(|life| life.lock == lock).collect();
        queue.sort_by_key(|life| life.sequence);
        // Since when all who are ahead may be gone.
        let mut gone = queue.first().map(|life| life.created.0);
        let times = queue.into_iter().map(|life| {
            let from = gone.map(|gone| gone.max(life.created.0));
            gone = gone.zip(life.deleted).map(|(gone, (sent, _))| gone.max(sent));
            let until = life.deleted.and_then(|(_, answered)| answered);
            (life, from.map(|from| (from, until)))
        });
        Self(times.collect())
    }

    /// Whether it may have held at some time in between.
    fn held(&self, data: &str, (from, until): (Instant, Instant)) -> bool {
        let (life, held) = self
            .0
            .iter()
            .find(|(life, _)| life.data == data)
            .unwrap_or_else(|| panic!("{data} never existed"));
        let held = held.unwrap_or_else(|| panic!("never its turn: {life:?}"));
        held.0 <= until && held.1.is_none_or(|end| from <= end)
    }

    /// Whether there may have been nobody at some time in between.
    fn was_free(&self, (from, until): (Instant, Instant)) -> bool {
        let mut lives: Vec<_> = self.0.iter().map(|(life, _)| life).collect();
        lives.sort_by_key(|life| life.created.1);
        let covered = lives.iter().fold(from, |covered, life| {
            let dead = life.deleted.map_or(until, |(sent, _)| sent);
            if life.created.1 <= covered { covered.max(dead) } else { covered }
        });
        covered < until
    }

    /// Whether somebody has come in between.
    fn came(&self, (from, until): (Instant, Instant)) -> bool {
        self.0.iter().any(|(life, _)| life.created.0 <= until && from <= life.created.1)
    }
}

/// How many holders were seen, and how many of them before they were read.
#[derive(Debug, Default)]
struct Seen {
    frames: usize,
    holders: usize,
    free: usize,
    unread: usize,
}

/// Every holder in every frame was one within the last second.
fn check(frames: &[Frame], lives: &[Life], wide: bool, seen: &mut Seen) {
    let pasts: Vec<_> = (0..LOCKS).map(|lock| Past::of(lock, lives)).collect();
    for frame in frames {
        seen.frames += 1;
        let lately = (frame.at.checked_sub(FRESH).unwrap(), frame.at);
        for (lock, Row { holder, token, queue }) in rows(&frame.lines, wide) {
            let past = &pasts[lock];
            match &*holder {
                "-" => {
                    assert!(queue == 0 && past.was_free(lately), "lock {lock} is held: {frame:?}");
                    seen.free += 1;
                }
                // The node is there, its data not yet.
                "(reading)" => {
                    assert!(past.came(lately), "nobody has come to lock {lock}: {frame:?}");
                    seen.unread += 1;
                }
                data => {
                    assert!(past.held(data, lately), "{data} does not hold {lock}: {frame:?}");
                    let life = past.0.iter().find(|(life, _)| life.data == data);
                    let told = life.map(|(life, _)| life.token.clone()).filter(|_| wide);
                    assert_eq!(token, told, "{data}: {frame:?}");
                    seen.holders += 1;
                }
            }
        }
    }
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
    for (lock, row) in &shown {
        let (holder, queue, token) = match truth.get(lock) {
            None => ("-".to_owned(), 0, "-".to_owned()),
            Some(lives) => (lives[0].data.clone(), lives.len() - 1, lives[0].token.clone()),
        };
        let wanted = Row { holder, queue, token: wide.then_some(token) };
        assert_eq!(*row, wanted, "lock {lock}: {screen}");
    }
    shown.len()
}

fn selected_lock(screen: &Screen) -> Option<usize> {
    let (_, rest) = selected(screen).split_once("/lock-")?;
    rest.get(..2)?.parse().ok()
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
        // The clock changes the page as well.
        let before = selected_lock(&page);
        terminal.press(Key::PageDown);
        let next = |screen: &Screen| selected_lock(screen) > before;
        page = terminal.wait_for("the next page", SOON, next).await;
    }
    for lock in truth.keys() {
        assert!(seen.contains_key(lock), "lock {lock} is not shown");
    }
}

/// Opens every lock and compares order, names, sessions, tokens and who is behind whom with the server.
async fn compare_queues(terminal: &Terminal, scene: &Scene, wide: bool) {
    terminal.press(Key::Home);
    for lock in 0..LOCKS {
        let name = format!("lock-{lock:02}");
        wait_selected(terminal, &name).await;
        terminal.press(Key::Enter);
        let queue = scene.client.raw.queue(&format!("{}/{name}", scene.root)).await;
        let wanted: Vec<_> = (0_usize..)
            .zip(&queue)
            .map(|(place, child)| {
                let mut words = vec![place.to_string()];
                words.push(if place == 0 { "HOLD" } else { "wait" }.to_owned());
                words.extend(wide.then(|| "exclusive".to_owned()));
                words.push(String::from_utf8(child.data.clone()).unwrap());
                words.push(format!("{:#x}", child.owner));
                let behind = place.checked_sub(1).map(|ahead| format!("#{ahead}"));
                words.push(behind.unwrap_or_else(|| "-".to_owned()));
                words.push(format!("{:016x}", child.czxid));
                words
            })
            .collect();
        let time = if wide { 5 } else { 4 };
        let shown = |screen: &Screen| {
            let lines = screen.lines().iter().skip(4);
            let lines = lines.take_while(|line| !line.is_empty() && !line.starts_with('─'));
            let words = lines.map(|line| {
                let words = line.trim_start_matches('>').split_whitespace().map(str::to_owned);
                let mut words: Vec<_> = words.collect();
                assert!(words.len() > time, "{screen}");
                words.remove(time);
                words
            });
            words.collect::<Vec<_>>()
        };
        let nobody = "nobody holds it, nobody waits";
        terminal
            .wait_for(format!("the queue of {name} is {wanted:?}"), SOON, |screen| {
                let title = &screen.lines()[2];
                let is_open = title.contains(&format!("/{name} ")) && title.contains(" waiting");
                is_open
                    && if queue.is_empty() {
                        screen.contains(nobody)
                    } else {
                        !screen.contains(nobody) && shown(screen) == wanted
                    }
            })
            .await;
        terminal.press(Key::Esc);
        terminal.wait_text("locks  sort", SOON).await;
        terminal.press(Key::Down);
    }
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
    let (mut seen, mut dice) = (Seen::default(), Dice(columns.into()));
    for burst in 1..=BURSTS {
        terminal.record(true);
        arena.running.store(true, Ordering::SeqCst);
        tokio::time::sleep(MILLIS(dice.below(2_500) as u64 + 500)).await;
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
        check(&recorded, &lives, wide, &mut seen);
        compare_all(&terminal, &truth, wide).await;
        if burst == BURSTS {
            compare_queues(&terminal, &scene, wide).await;
        }
    }
    println!("{columns}x{rows}: all was true in {seen:?}");
    assert!(seen.frames > 10 * BURSTS && seen.holders > 5 * seen.frames, "{seen:?}");
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
