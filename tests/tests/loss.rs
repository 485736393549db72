//! A hold is lost: by hand, by silence, by a frozen process, by an expired or replaced session. The
//! holder learns of it before anybody else can hold, and nobody is granted what does not exist.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::time::{Duration, Instant};

use integration::proxy::OpCode;
use integration::server::unique_path;
use integration::{Helper, Observer, Proxy, Recorder, Server, eventually, stays, within};
use lock_recipes::{
    AcquireError, AcquireOptions, Attempt, Contender, Coordinator, CoordinatorState,
    FencedWriteError, HoldState, Lock, LockGuard, LockPath, LossPolicy, LossReason, Owner,
    ReadError, ReenterError, ReentrantLock, ReleaseError, VerifyError,
};
use tokio::task::JoinHandle;

#[path = "common/scene.rs"]
mod scene;

use scene::{
    REQUEST, SECOND, Scene, assert_no_panics, connect, count_panics, lock, millis, only, seconds,
    session, stranger, verified,
};

/// The shortest session timeout of these tests, where one must pass.
const SHORT: Duration = seconds(2);

async fn short(cluster: &str) -> Coordinator {
    let builder = scene::settings(cluster).session_timeout(SHORT);
    builder.connect().await.unwrap()
}

fn acquire(lock: &Lock) -> JoinHandle<Result<LockGuard, AcquireError>> {
    acquire_with(lock, AcquireOptions::new())
}

fn acquire_with(
    lock: &Lock,
    options: AcquireOptions,
) -> JoinHandle<Result<LockGuard, AcquireError>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire_with(options).await })
}

/// When and why the hold is lost, noted by a task of its own; by then it must not be held.
fn when_lost(guard: &std::sync::Arc<LockGuard>) -> JoinHandle<(Instant, LossReason)> {
    let guard = std::sync::Arc::clone(guard);
    tokio::spawn(async move {
        let reason = guard.lost().await;
        assert!(!guard.is_held(), "lost, and held");
        assert_eq!(guard.state(), HoldState::Lost(reason));
        (Instant::now(), reason)
    })
}

async fn granted(
    acquired: JoinHandle<Result<LockGuard, AcquireError>>,
    limit: Duration,
) -> LockGuard {
    within(limit, "the lock is granted", acquired).await.unwrap().unwrap()
}

/// What every verb of a lost guard says, at once.
async fn lost_in_every_verb(guard: LockGuard, reason: LossReason) {
    let start = Instant::now();
    assert!(!guard.is_held());
    assert_eq!(guard.state(), HoldState::Lost(reason));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.lost().await, reason);
    assert!(guard.ensure(Duration::ZERO).is_err());
    let run = guard.run(std::future::pending::<()>()).await;
    assert_eq!(run.unwrap_err().reason, reason);
    let verified = guard.verify().await;
    assert!(
        matches!(&verified, Err(VerifyError::Lost(lost)) if lost.reason == reason),
        "{verified:?}"
    );
    let written = guard.fenced().delete("/nothing", None).commit().await;
    assert!(
        matches!(&written, Err(FencedWriteError::Lost(lost)) if lost.reason == reason),
        "{written:?}"
    );
    let again = guard.reenter();
    assert!(matches!(&again, Err(ReenterError::Lost(lost)) if lost.reason == reason), "{again:?}");
    already_lost(guard, reason).await;
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}

async fn already_lost(guard: LockGuard, wanted: LossReason) {
    let released = within(SECOND, "a lost guard is released", guard.release()).await;
    assert!(
        matches!(&released, Err(ReleaseError::AlreadyLost { reason, .. }) if *reason == wanted),
        "{released:?}"
    );
}

#[tokio::test]
async fn a_node_deleted_by_hand_is_lost_before_the_next_answer() {
    let scene = Scene::new().await;
    let (holder, other) = (scene.through_proxy().await, scene.direct().await);
    let ours = lock(&holder, &scene.path);
    let guard = ours.acquire().await.unwrap();
    let waiter = acquire(&lock(&other, &scene.path));
    scene.observer.wait_for_count(&scene.path, 2, SECOND).await;
    scene.settled().await;
    scene.proxy.clear_frames();

    let lost = guard.lost();
    scene.delete(guard.node()).await;
    // Two round trips of the same session: the event comes before the first one's answer.
    ours.queue().await.unwrap();
    assert!(!guard.is_held());
    assert_eq!(within(SECOND, "it is told", lost).await, LossReason::NodeDeleted);

    let next = granted(waiter, SECOND).await;
    already_lost(guard, LossReason::NodeDeleted).await;
    scene.settled().await;
    assert_eq!(scene.proxy.requests_by(OpCode::Delete), []);
    scene.only(&[next.node()]).await;
    next.verify().await.unwrap();
}

#[tokio::test]
async fn whoever_waits_when_everything_is_deleted_queues_anew() {
    let scene = Scene::new().await;
    let (holder, other) = (scene.direct().await, scene.direct().await);
    let guard = lock(&holder, &scene.path).acquire().await.unwrap();
    let waiter = acquire(&lock(&other, &scene.path));
    let mut nodes = scene.observer.wait_for_count(&scene.path, 2, SECOND).await;
    // As `deleteall` does: the children, here the waiter's first, so that it never held, and then the
    // parent, which may have got others.
    nodes.sort_by_key(|node| node == guard.node());
    for node in &nodes {
        scene.observer.delete(&format!("{}/{node}", scene.path)).await;
    }
    let _ = scene.observer.client().delete(&scene.path, None).await;
    let next = granted(waiter, SECOND).await;
    assert!(!nodes.iter().any(|node| node == next.node()), "{} was deleted", next.node());
    scene.only(&[next.node()]).await;
    next.verify().await.unwrap();
    already_lost(guard, LossReason::NodeDeleted).await;
    next.release().await.unwrap();
    scene.only(&[]).await;
}

/// How the nodes of a waiter and of the contender ahead of it are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    OwnThenPredecessor,
    PredecessorThenOwn,
    TogetherOwnFirst,
    TogetherPredecessorFirst,
}

/// What the connection does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// Down before both deletions, and up after them.
    Down,
    /// Cut while they are on their way.
    Cut,
}

impl Order {
    async fn delete(self, observer: &Observer, own: &str, predecessor: &str) {
        let (first, second) = match self {
            Self::OwnThenPredecessor | Self::TogetherOwnFirst => (own, predecessor),
            Self::PredecessorThenOwn | Self::TogetherPredecessorFirst => (predecessor, own),
        };
        let client = observer.client();
        match self {
            Self::OwnThenPredecessor | Self::PredecessorThenOwn => {
                // Sent back to back.
                let both = (client.delete(first, None), client.delete(second, None));
                both.0.await.unwrap();
                both.1.await.unwrap();
            }
            Self::TogetherOwnFirst | Self::TogetherPredecessorFirst => {
                let mut writer = client.new_multi_writer();
                writer.add_delete(first, None).unwrap();
                writer.add_delete(second, None).unwrap();
                writer.commit().await.unwrap();
            }
        }
    }

    /// Whether a grant of the deleted node can only be false: it had gone before its predecessor, or
    /// before the waiter could hear of either.
    fn forbids(self, link: Link) -> bool {
        link == Link::Down || matches!(self, Self::OwnThenPredecessor | Self::TogetherOwnFirst)
    }
}

/// One race; says whether the deleted node was granted, which must be lost then.
async fn race(scene: &Scene, coordinator: &Coordinator, order: Order, link: Link) -> bool {
    let path = unique_path("race");
    scene.observer.mkdir(&path).await;
    let predecessor = stranger(&scene.observer, &path).await;
    scene.proxy.clear_frames();
    let waiter = acquire(&lock(coordinator, &path));
    let children = scene.observer.wait_for_count(&path, 2, seconds(5)).await;
    let own = children.iter().find(|&child| *child != predecessor).unwrap().clone();
    let full = |node: &str| format!("{path}/{node}");
    eventually(seconds(5), "both are watched", async || {
        let replies = scene.proxy.replies();
        let watched = |node: &str| {
            let node = full(node);
            replies
                .iter()
                .any(|reply| reply.opcode == OpCode::GetData && reply.path.as_ref() == Some(&node))
        };
        (watched(&own) && watched(&predecessor)).then_some(())
    })
    .await;
    let (own_path, predecessor) = (full(&own), full(&predecessor));
    let delete = order.delete(&scene.observer, &own_path, &predecessor);
    match link {
        Link::Up => delete.await,
        Link::Down => {
            scene.proxy.refuse(true);
            scene.proxy.cut();
            delete.await;
            scene.proxy.refuse(false);
        }
        Link::Cut => {
            let cut = async { scene.proxy.cut() };
            tokio::join!(delete, cut);
        }
    }
    let guard = granted(waiter, seconds(5)).await;
    if guard.node() == own {
        assert!(!order.forbids(link), "{order:?} {link:?}: granted what had been deleted");
        let reason = within(SECOND, "the loss is told", guard.lost()).await;
        assert_eq!(reason, LossReason::NodeDeleted);
        return true;
    }
    // The cut may come this late.
    within(SECOND, "the hold is verified", verified(&guard)).await;
    only(&scene.observer, &path, &[guard.node()], SECOND).await;
    match guard.release().await {
        // Requests are given up soon here; the janitor goes on.
        Ok(()) | Err(ReleaseError::Unconfirmed { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    only(&scene.observer, &path, &[], seconds(5)).await;
    false
}

/// So many races of every kind.
async fn races(rounds: usize) {
    let mut races = tokio::task::JoinSet::new();
    for link in [Link::Up, Link::Down, Link::Cut] {
        for order in [
            Order::OwnThenPredecessor,
            Order::PredecessorThenOwn,
            Order::TogetherOwnFirst,
            Order::TogetherPredecessorFirst,
        ] {
            races.spawn(async move {
                let scene = Scene::new().await;
                let coordinator = scene.through_proxy().await;
                let mut between = 0;
                for _ in 0..rounds {
                    between += usize::from(race(&scene, &coordinator, order, link).await);
                }
                between
            });
        }
    }
    let mut between = 0;
    while let Some(race) = races.join_next().await {
        between += race.unwrap();
    }
    println!("granted between the two deletions, and lost: {between} of {}", 12 * rounds);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_node_is_granted_that_was_deleted_with_its_predecessor() {
    races(25).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "6,000 races; make campaigns"]
async fn in_thousands_of_races_no_deleted_node_is_granted() {
    races(500).await;
}

#[tokio::test]
async fn a_silent_server_ends_a_presumed_hold_and_suspends_the_other() {
    const T: Duration = seconds(6);
    count_panics();
    let server = Server::start().await;
    let cluster = server.connect_string();
    let observer = Observer::connect(&cluster).await;
    let (holder, other) = (connect(&cluster).await, connect(&cluster).await);
    let presumed = std::sync::Arc::new(lock(&holder, "/presumed").acquire().await.unwrap());
    let options = AcquireOptions::new().loss_policy(LossPolicy::Session);
    let lenient = lock(&holder, "/session").acquire_with(options).await.unwrap();
    let waiter = acquire(&lock(&other, "/presumed"));
    let behind = acquire(&lock(&other, "/session"));
    observer.wait_for_count("/presumed", 2, SECOND).await;
    observer.wait_for_count("/session", 2, SECOND).await;
    let lost = when_lost(&presumed);

    server.freeze();
    let frozen = Instant::now();
    let work = presumed.run(std::future::pending::<()>()).await;
    let (at, reason) = lost.await.unwrap();
    assert_eq!(work.unwrap_err().reason, LossReason::ValidityPassed);
    assert_eq!(reason, LossReason::ValidityPassed);
    let silence = at.duration_since(frozen);
    // A third of T is survived, a half is not.
    assert!(silence + millis(100) > T / 3 && silence < seconds(4), "{silence:?}");
    assert!(!lenient.is_held(), "past its presumed validity");
    assert_eq!(lenient.state(), HoldState::Suspect);
    assert_eq!(lenient.remaining(), Duration::ZERO);

    tokio::time::sleep(seconds(4).saturating_sub(frozen.elapsed())).await;
    server.thaw();
    eventually(seconds(3), "held again", async || lenient.is_held().then_some(())).await;
    assert_eq!(lenient.state(), HoldState::Held);
    lenient.verify().await.unwrap();
    assert!(!behind.is_finished());
    // What was given up is deleted, although the session lives.
    let next = granted(waiter, seconds(3)).await;
    assert!(next.token() > presumed.token());
    assert_eq!(presumed.state(), HoldState::Lost(LossReason::ValidityPassed));
    only(&observer, "/presumed", &[next.node()], SECOND).await;
    lenient.release().await.unwrap();
    granted(behind, SECOND).await.release().await.unwrap();
    assert_no_panics();
}

#[tokio::test]
async fn a_frozen_process_finds_its_hold_lost_and_its_write_refused() {
    let scene = Scene::new().await;
    let data = format!("{}-data", scene.path);
    scene.observer.mkdir(&data).await;
    let cluster = scene.server.connect_string();
    let timeout = SHORT.as_millis().to_string();
    let start =
        || Helper::run(env!("CARGO_BIN_EXE_holder"), [&cluster, &scene.path, &data, &timeout]);
    let held = async |helper: &mut Helper, limit| {
        let line = helper.wait_line(|line| line.starts_with("held "), limit).await;
        line.split(' ').nth(1).unwrap().parse::<i64>().unwrap()
    };
    let mut first = start();
    let token = held(&mut first, seconds(10)).await;
    first.send_line("before");
    first.wait_line(|line| line == "written; held: true", SECOND).await;
    let mut second = start();
    scene.observer.wait_for_count(&scene.path, 2, seconds(10)).await;

    first.freeze();
    let frozen = Instant::now();
    let other = held(&mut second, 2 * SHORT + SECOND).await;
    assert!(other > token, "{other} after {token}");
    second.send_line("second");
    second.wait_line(|line| line == "written; held: true", SECOND).await;
    tokio::time::sleep((2 * SHORT).saturating_sub(frozen.elapsed())).await;
    // The first thing that it does is to write.
    first.send_line("first");
    first.thaw();
    let outcome = first.wait_line(|line| line.contains("; held: "), seconds(5)).await;
    assert!(outcome.starts_with("refused ") && outcome.ends_with("; held: false"), "{outcome}");
    assert!(outcome.contains("is lost"), "{outcome}");
    eventually(seconds(5), "the loss is told", async || {
        first.lines().iter().any(|line| line.starts_with("lost ")).then_some(())
    })
    .await;
    assert_eq!(scene.observer.data(&data).await.unwrap(), b"second");
    second.send_line("still second");
    second.wait_line(|line| line == "written; held: true", SECOND).await;
}

#[tokio::test]
async fn a_write_of_a_holder_that_cannot_know_of_its_loss_is_refused_by_the_server() {
    let scene = Scene::new().await;
    let data = format!("{}-data", scene.path);
    scene.observer.mkdir(&data).await;
    let builder = scene::settings(&scene.proxy.connect_string()).request_timeout(seconds(3));
    let (holder, other) = (builder.connect().await.unwrap(), scene.direct().await);
    let guard = lock(&holder, &scene.path).acquire().await.unwrap();
    scene.settled().await;
    scene.proxy.blackhole_replies_only();
    scene.delete(guard.node()).await;
    let next = lock(&other, &scene.path).acquire().await.unwrap();
    next.fenced().set_data(&data, "second", None).commit().await.unwrap();
    assert!(guard.is_held(), "as far as it can know");
    let write = guard.fenced().set_data(&data, "first", None).commit();
    let heal = async {
        eventually(SECOND, "the write is at the server", async || {
            (!scene.proxy.requests_by(OpCode::Multi).is_empty()).then_some(())
        })
        .await;
        scene.proxy.heal();
    };
    let (written, ()) = tokio::join!(write, heal);
    assert!(
        matches!(&written, Err(FencedWriteError::Lost(lost)) if lost.reason == LossReason::NodeDeleted),
        "{written:?}"
    );
    assert!(!guard.is_held());
    assert_eq!(scene.observer.data(&data).await.unwrap(), b"second");
    next.fenced().set_data(&data, "third", None).commit().await.unwrap();
}

#[tokio::test]
async fn a_session_that_was_silently_replaced_is_noticed() {
    let scene = Scene::new().await;
    let coordinator = short(&scene.proxy.connect_string()).await;
    let replaced = session(&coordinator);
    let ours = lock(&coordinator, &scene.path);
    let guard = std::sync::Arc::new(ours.acquire().await.unwrap());
    let waiter = acquire(&ours);
    let nodes = scene.observer.wait_for_count(&scene.path, 2, SECOND).await;
    let lost = when_lost(&guard);

    scene.proxy.new_session_on_reconnect(true);
    scene.proxy.cut();
    let (_, reason) = within(SECOND, "the loss is told", lost).await.unwrap();
    assert!(matches!(reason, LossReason::NodeReplaced | LossReason::SessionExpired), "{reason:?}");
    scene.proxy.new_session_on_reconnect(false);
    // Another path, another session: at once.
    let elsewhere = lock(&coordinator, unique_path("elsewhere").as_str());
    let other = within(SECOND, "a new session is opened", elsewhere.acquire()).await.unwrap();
    assert_ne!(other.session_id(), replaced);
    assert_eq!(scene.observer.ephemerals_of(&scene.path, replaced).await.len(), 2);
    assert!(!waiter.is_finished(), "granted beside the old nodes");
    // Behind the old nodes, until the server ends their session.
    let next = granted(waiter, SHORT + 2 * SECOND).await;
    assert!(!nodes.iter().any(|node| node == next.node()));
    assert!(next.token() > guard.token());
    assert_eq!(next.session_id(), other.session_id());
    scene.only(&[next.node()]).await;
    next.verify().await.unwrap();
}

/// What the holder's connection does for longer than its session lives.
async fn another_holds_only_after_the_loss(fault: impl Fn(&Proxy)) {
    let scene = Scene::new().await;
    let (holder, other) =
        (short(&scene.proxy.connect_string()).await, short(&scene.server.connect_string()).await);
    let ours = lock(&holder, &scene.path);
    let guard = std::sync::Arc::new(ours.acquire().await.unwrap());
    let waiter = acquire(&lock(&other, &scene.path));
    scene.observer.wait_for_count(&scene.path, 2, SECOND).await;
    let recorder = Recorder::new();
    recorder.enter("first", guard.token().as_i64());
    let lost = when_lost(&guard);
    let (theirs, noted) = (std::sync::Arc::clone(&guard), recorder.clone());
    let work = tokio::spawn(async move {
        let work = theirs.run(std::future::pending::<()>()).await;
        noted.leave("first");
        work
    });

    fault(&scene.proxy);
    let start = Instant::now();
    let next = granted(waiter, 3 * SHORT).await;
    let at = Instant::now();
    recorder.enter("second", next.token().as_i64());
    let (lost_at, reason) = within(SECOND, "the loss was told", lost).await.unwrap();
    assert!(lost_at < at, "told {:?} after the other's grant", lost_at.duration_since(at));
    assert!(lost_at.duration_since(start) < SHORT, "{:?}", lost_at.duration_since(start));
    assert_eq!(reason, LossReason::ValidityPassed);
    let work = within(SECOND, "the work was stopped", work).await.unwrap();
    assert_eq!(work.unwrap_err().reason, reason);
    recorder.assert_exclusive();
    assert!(next.token() > guard.token());

    tokio::time::sleep((3 * SHORT).saturating_sub(start.elapsed())).await;
    scene.proxy.refuse(false);
    scene.proxy.heal();
    let again = acquire(&ours);
    scene.observer.wait_for_count(&scene.path, 2, 2 * SHORT).await;
    next.release().await.unwrap();
    let again = granted(again, SECOND).await;
    assert_ne!(again.session_id(), guard.session_id());
    scene.only(&[again.node()]).await;
}

#[tokio::test]
async fn another_holds_only_after_the_loss_was_told_in_a_blackhole() {
    another_holds_only_after_the_loss(|proxy| proxy.blackhole(true)).await;
}

#[tokio::test]
async fn another_holds_only_after_the_loss_was_told_in_an_outage() {
    another_holds_only_after_the_loss(|proxy| {
        proxy.refuse(true);
        proxy.cut();
    })
    .await;
}

#[tokio::test]
async fn every_verb_tells_of_an_expired_session() {
    let scene = Scene::new().await;
    let coordinator = short(&scene.proxy.connect_string()).await;
    let expired = session(&coordinator);
    let options = AcquireOptions::new().loss_policy(LossPolicy::Session);
    let guard = lock(&coordinator, &scene.path).acquire_with(options).await.unwrap();
    let entered = guard.reenter().unwrap();
    scene.proxy.refuse(true);
    scene.proxy.cut();
    scene.observer.wait_for_count(&scene.path, 0, 3 * SHORT).await;
    assert_eq!(guard.state(), HoldState::Suspect);
    assert!(!guard.is_held());
    assert!(scene.observer.delete(&scene.path).await);
    scene.proxy.refuse(false);
    let reason = within(2 * SHORT, "the loss is told", guard.lost()).await;
    assert_eq!(reason, LossReason::SessionExpired);
    lost_in_every_verb(guard, reason).await;
    lost_in_every_verb(entered, reason).await;
    eventually(SHORT, "there is another session", async || {
        (![0, expired].contains(&session(&coordinator))).then_some(())
    })
    .await;
    let again = lock(&coordinator, &scene.path).acquire().await.unwrap();
    again.release().await.unwrap();
}

#[tokio::test]
async fn a_new_session_queues_behind_the_node_of_the_old_one() {
    const T: Duration = seconds(4);
    count_panics();
    let server = Server::start().await;
    let cluster = server.connect_string();
    let observer = Observer::connect(&cluster).await;
    let start = || scene::settings(&cluster).session_timeout(T).identity("a").connect();
    let (a, b) = (start().await.unwrap(), start().await.unwrap());
    let first = std::sync::Arc::new(lock(&a, "/a").acquire().await.unwrap());
    let recorder = Recorder::new();
    recorder.enter("first", first.token().as_i64());
    let lost = when_lost(&first);
    let hold = async |name: &str, lock: Lock| {
        let guard = within(seconds(20), name, lock.acquire()).await.unwrap();
        recorder.enter(name, guard.token().as_i64());
        // The node it stands on is its own session's.
        let own = observer.ephemerals_of("/a", guard.session_id()).await;
        assert_eq!(own, [guard.node()], "{name}");
        guard.verify().await.unwrap();
        recorder.leave(name);
        guard.release().await.unwrap();
    };
    let test = async {
        observer.wait_for_count("/a", 2, SECOND).await;
        server.freeze();
        let frozen = Instant::now();
        let (at, reason) = lost.await.unwrap();
        recorder.leave("first");
        assert_eq!(reason, LossReason::ValidityPassed);
        assert!(at.duration_since(frozen) < T * 3 / 4);
        tokio::time::sleep((T + SECOND).saturating_sub(frozen.elapsed())).await;
        server.thaw();
        // The same identity, at the first moment at which the server answers.
        let new = start().await.unwrap();
        hold("new", lock(&new, "/a")).await;
    };
    tokio::join!(test, hold("b", lock(&b, "/a")));
    recorder.assert_exclusive();
    let history = recorder.history();
    assert_eq!(history.grants().len(), 3, "{history:#?}");
    assert!(recorder.tokens_increase(), "{history:#?}");
    assert_eq!(first.state(), HoldState::Lost(LossReason::ValidityPassed));
    only(&observer, "/a", &[], 2 * T).await;
    assert_no_panics();
}

#[tokio::test]
async fn without_a_server_the_loss_is_told_and_every_verb_fails_at_once() {
    count_panics();
    let server = Server::start().await;
    let coordinator = short(&server.connect_string()).await;
    let presumed = lock(&coordinator, "/a").acquire().await.unwrap();
    let options = AcquireOptions::new().loss_policy(LossPolicy::Session);
    let lenient = lock(&coordinator, "/b").acquire_with(options).await.unwrap();
    server.kill().await;
    let start = Instant::now();
    // No call to the library: only the wait.
    assert_eq!(presumed.lost().await, LossReason::ValidityPassed);
    assert!(start.elapsed() < SHORT, "{:?}", start.elapsed());
    assert!(!lenient.is_held());
    lost_in_every_verb(presumed, LossReason::ValidityPassed).await;
    // The client itself gives the session up at last.
    let reason = within(2 * SHORT, "the loss is told", lenient.lost()).await;
    assert!(matches!(reason, LossReason::SessionExpired | LossReason::SessionClosed), "{reason:?}");
    lost_in_every_verb(lenient, reason).await;
    assert_eq!(coordinator.state(), CoordinatorState::Connecting);
    let timed_out = lock(&coordinator, "/a").acquire_timeout(millis(100)).await;
    assert!(matches!(timed_out, Err(AcquireError::TimedOut { .. })), "{timed_out:?}");
    server.restart().await;
    let lock = lock(&coordinator, "/a");
    let again = within(seconds(10), "acquired again", lock.acquire()).await.unwrap();
    again.verify().await.unwrap();
    assert_no_panics();
}

#[tokio::test]
async fn a_killed_server_that_is_back_in_time_changes_nothing() {
    count_panics();
    let server = Server::start().await;
    let cluster = server.connect_string();
    let builder = || scene::settings(&cluster).session_timeout(seconds(10)).connect();
    let (holder, other) = (builder().await.unwrap(), builder().await.unwrap());
    let guard = lock(&holder, "/a").acquire().await.unwrap();
    let waiter = acquire(&lock(&other, "/a"));
    let observer = Observer::connect(&cluster).await;
    let nodes = observer.wait_for_count("/a", 2, SECOND).await;
    let sessions = [session(&holder), session(&other)];

    let killed = Instant::now();
    server.restart().await;
    eventually(seconds(10), "verified", async || guard.verify().await.ok()).await;
    let outage = killed.elapsed();
    assert!(guard.is_held(), "after {outage:?}");
    assert_eq!([session(&holder), session(&other)], sessions);
    assert_eq!(observer.children("/a").await, nodes);
    stays(millis(100), "the waiter waits", async || !waiter.is_finished()).await;
    let elsewhere = lock(&holder, "/b");
    let later = within(SECOND, "a later one", elsewhere.acquire()).await.unwrap();
    later.release().await.unwrap();
    guard.release().await.unwrap();
    let next = granted(waiter, SECOND).await;
    assert!(nodes.iter().any(|node| node == next.node()), "it kept its place");
    assert_no_panics();
}

#[tokio::test]
async fn a_release_without_a_connection_is_unconfirmed_and_happens_after_it() {
    let scene = Scene::new().await;
    let coordinator = scene.through_proxy().await;
    let ours = lock(&coordinator, &scene.path);
    for silent in [false, true] {
        for drop_it in [false, true] {
            let guard = ours.acquire().await.unwrap();
            let waiter = scene.stranger().await;
            if silent {
                scene.proxy.blackhole(true);
            } else {
                scene.proxy.refuse(true);
                scene.proxy.cut();
                eventually(SECOND, "suspect", async || {
                    (guard.state() == HoldState::Suspect).then_some(())
                })
                .await;
            }
            if drop_it {
                drop(guard);
                tokio::time::sleep(2 * REQUEST).await;
            } else {
                let released = within(2 * REQUEST, "it returns", guard.release()).await;
                assert!(matches!(released, Err(ReleaseError::Unconfirmed { .. })), "{released:?}");
            }
            assert_eq!(scene.children().await.len(), 2);
            scene.proxy.refuse(false);
            scene.proxy.heal();
            scene.only(&[&waiter]).await;
            scene.delete(&waiter).await;
            let again = within(SECOND, "acquired again", ours.acquire()).await.unwrap();
            again.release().await.unwrap();
            scene.only(&[]).await;
        }
    }
}

#[tokio::test]
async fn after_the_close_every_verb_fails_at_once() {
    let scene = Scene::new().await;
    let coordinator = scene.through_proxy().await;
    let ours = lock(&coordinator, &scene.path);
    let guard = ours.acquire().await.unwrap();
    let waiter = acquire(&ours);
    scene.observer.wait_for_count(&scene.path, 2, SECOND).await;
    within(SECOND, "it is closed", coordinator.close()).await.unwrap();
    assert_eq!(scene.children().await, [""; 0], "before close() has returned");
    let start = Instant::now();
    assert_eq!(coordinator.state(), CoordinatorState::Closed);
    lost_in_every_verb(guard, LossReason::SessionClosed).await;
    let closed = |error: &AcquireError| matches!(error, AcquireError::Closed { .. });
    let error = within(SECOND, "the waiter is told", waiter).await.unwrap().unwrap_err();
    assert!(closed(&error), "{error:?}");
    let error = ours.acquire().await.unwrap_err();
    assert!(closed(&error), "{error:?}");
    match ours.try_acquire().await {
        Err(error) => assert!(closed(&error), "{error:?}"),
        Ok(Attempt::Acquired(_) | Attempt::Busy(_)) => panic!("no session, and an answer"),
    }
    let path = LockPath::new(&scene.path).unwrap();
    let enqueued = Contender::enqueue(&coordinator, &path, AcquireOptions::new()).await;
    let error = enqueued.map(|_| ()).unwrap_err();
    assert!(closed(&error), "{error:?}");
    let reentrant = ReentrantLock::new(&coordinator, scene.path.as_str()).unwrap();
    let error = reentrant.acquire(&Owner::new()).await.unwrap_err();
    assert!(closed(&error), "{error:?}");
    let queue = ours.queue().await;
    assert!(matches!(queue, Err(ReadError::Closed { .. })), "{queue:?}");
    coordinator.close().await.unwrap();
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}
