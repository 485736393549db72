//! Entering a lock that is held already: by owner, never by thread or task.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod support;

use std::collections::HashSet;
use std::time::Instant;

use integration::proxy::OpCode;
use integration::{eventually, stays, within};
use lock_recipes::{
    AcquireError, AcquireOptions, Attempt, Coordinator, Lock, LockGuard, LossReason, Owner,
    ReenterError, ReentrantLock, ReleaseError,
};
use support::{MILLIS, SECONDS, SOON, Scene};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A coordinator and its reentrant lock, on a path of its own.
struct Holder {
    scene: Scene,
    coordinator: Coordinator,
    lock: ReentrantLock,
    owner: Owner,
}

impl Holder {
    async fn new(name: &str) -> Self {
        let scene = Scene::with_path(name).await;
        let coordinator = scene.coordinator().await;
        let lock = ReentrantLock::new(&coordinator, scene.path.as_str()).unwrap();
        Self { scene, coordinator, lock, owner: Owner::new() }
    }

    async fn acquire(&self) -> LockGuard {
        within(SOON, "acquired", self.lock.acquire(&self.owner)).await.unwrap()
    }

    /// Deletes the node behind the guard's back, and returns when the guard knows.
    async fn lose(&self, guard: &LockGuard) {
        self.scene.observer.delete(&format!("{}/{}", self.scene.path, guard.node())).await;
        assert_eq!(within(SOON, "told", guard.lost()).await, LossReason::NodeDeleted);
    }
}

#[tokio::test]
async fn the_same_owner_enters_at_once_without_a_request_and_with_the_same_token() {
    let scene = Scene::with_path("enter").await;
    let proxy = scene.proxy().await;
    let coordinator = support::connect(&proxy.connect_string()).await;
    let lock = ReentrantLock::new(&coordinator, scene.path.as_str()).unwrap();
    let owner = Owner::new();
    let outer = lock.acquire(&owner).await.unwrap();
    eventually(SOON, "the own watch is set", async || (proxy.replies().len() == 3).then_some(()))
        .await;
    proxy.clear_frames();
    // Even where nothing gets through.
    proxy.blackhole(true);
    let start = Instant::now();
    let inner = within(SOON, "entered", lock.acquire(&owner.clone())).await.unwrap();
    let Attempt::Acquired(third) = lock.try_acquire(&owner).await.unwrap() else {
        panic!("the owner holds it")
    };
    let fourth = third.reenter().unwrap();
    assert!(start.elapsed() < MILLIS(1_000), "{:?}", start.elapsed());
    let said = proxy.requests();
    assert!(said.iter().all(|request| request.opcode == OpCode::Sync), "{said:?}");
    proxy.heal();
    for guard in [&inner, &third, &fourth] {
        assert_eq!((guard.token(), guard.node()), (outer.token(), outer.node()));
    }
    scene.has(1).await;
}

#[tokio::test]
async fn another_owner_queues_though_it_shares_the_session() {
    let holder = Holder::new("other").await;
    let guard = holder.acquire().await;
    let (lock, stranger) = (holder.lock.clone(), Owner::new());
    let Attempt::Busy(busy) = lock.try_acquire(&stranger).await.unwrap() else {
        panic!("two holders")
    };
    assert_eq!(busy.holder().as_str(), guard.node());
    let waiting = tokio::spawn(async move { lock.acquire(&stranger).await.unwrap() });
    holder.scene.has(2).await;
    // The owner enters nevertheless: it holds already.
    let again = holder.acquire().await;
    guard.release().await.unwrap();
    stays(MILLIS(100), "the stranger waits", async || !waiting.is_finished()).await;
    again.release().await.unwrap();
    let next = within(SOON, "granted", waiting).await.unwrap();
    // Now the former owner is a stranger.
    let error = holder.lock.acquire_with(&holder.owner, AcquireOptions::new().timeout(MILLIS(50)));
    assert!(matches!(error.await, Err(AcquireError::TimedOut { .. })));
    next.release().await.unwrap();
    holder.scene.has(0).await;
}

#[tokio::test]
async fn the_node_goes_with_the_last_hold_in_whatever_order_they_end() {
    let holder = Holder::new("order").await;
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        for dropped in [false, true] {
            let first = holder.acquire().await;
            let mut guards = vec![Some(first), Some(holder.acquire().await)];
            guards.push(guards[0].as_ref().map(|guard| guard.reenter().unwrap()));
            let node = guards[0].as_ref().unwrap().node().to_owned();
            for (ended, place) in order.into_iter().enumerate() {
                assert_eq!(holder.scene.children().await, [node.as_str()], "after {ended}");
                let guard = guards[place].take().unwrap();
                assert!(guard.is_held());
                if dropped {
                    drop(guard);
                } else {
                    within(SOON, "released", guard.release()).await.unwrap();
                }
            }
            if !dropped {
                assert!(holder.scene.children().await.is_empty());
            }
            holder.scene.has(0).await;
        }
    }
}

#[tokio::test]
async fn too_many_holds_are_an_error_and_change_nothing() {
    let holder = Holder::new("limit").await;
    let lock = holder.lock.clone().max_holds(3);
    let first = within(SOON, "entered", lock.acquire(&holder.owner)).await.unwrap();
    let second = within(SOON, "entered", lock.acquire(&holder.owner)).await.unwrap();
    let third = first.reenter().unwrap();
    for error in [
        within(SOON, "entered", lock.acquire(&holder.owner)).await.unwrap_err(),
        lock.try_acquire(&holder.owner).await.unwrap_err(),
        // Another value of the lock enters the same hold, which keeps its limit.
        within(SOON, "entered", holder.lock.acquire(&holder.owner)).await.unwrap_err(),
    ] {
        let AcquireError::TooManyHolds { path, limit } = &error else { panic!("{error:?}") };
        assert_eq!((path, *limit), (&holder.scene.path, 3));
        assert!(error.to_string().contains(&holder.scene.path), "{error}");
    }
    let error = second.reenter().unwrap_err();
    assert!(matches!(error, ReenterError::TooManyHolds { limit: 3, .. }), "{error:?}");
    assert!(first.is_held() && second.is_held());
    third.release().await.unwrap();
    let third = within(SOON, "entered", lock.acquire(&holder.owner)).await.unwrap();
    drop((first, second, third));
    holder.scene.has(0).await;
    // No hold at all would be no lock.
    let once = holder.lock.clone().max_holds(0);
    let guard = within(SOON, "entered", once.acquire(&holder.owner)).await.unwrap();
    assert!(matches!(guard.reenter(), Err(ReenterError::TooManyHolds { limit: 1, .. })));
}

#[tokio::test]
async fn a_lost_hold_is_not_entered_and_a_new_one_is_acquired_once_it_is_let_go() {
    let holder = Holder::new("lost").await;
    let outer = holder.acquire().await;
    let inner = holder.acquire().await;
    holder.lose(&outer).await;
    assert!(!inner.is_held());
    for error in [
        holder.lock.acquire(&holder.owner).await.unwrap_err(),
        holder.lock.try_acquire(&holder.owner).await.unwrap_err(),
    ] {
        let AcquireError::HoldLost { path, reason } = &error else { panic!("{error:?}") };
        assert_eq!((path, *reason), (&holder.scene.path, LossReason::NodeDeleted));
        assert!(error.to_string().contains("release it before acquiring anew"), "{error}");
    }
    let error = inner.reenter().unwrap_err();
    let ReenterError::Lost(lost) = &error else { panic!("{error:?}") };
    assert_eq!((&lost.path, lost.reason), (&holder.scene.path, LossReason::NodeDeleted));
    let token = outer.token();
    assert!(matches!(
        outer.release().await,
        Err(ReleaseError::AlreadyLost { reason: LossReason::NodeDeleted, .. })
    ));
    // One guard is left: the owner still believes in something.
    assert!(holder.lock.acquire(&holder.owner).await.is_err());
    drop(inner);
    let guard = holder.acquire().await;
    assert!(guard.token() > token);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn two_values_of_a_lock_agree_within_a_coordinator_and_not_beyond() {
    let holder = Holder::new("values").await;
    let twin = ReentrantLock::new(&holder.coordinator.clone(), holder.scene.path.as_str()).unwrap();
    let guard = holder.acquire().await;
    let same = within(SOON, "entered", twin.acquire(&holder.owner)).await.unwrap();
    assert_eq!(same.token(), guard.token());
    // On another session the same owner is a contender like any other.
    let elsewhere = holder.scene.coordinator().await;
    let foreign = ReentrantLock::new(&elsewhere, holder.scene.path.as_str()).unwrap();
    assert!(matches!(foreign.try_acquire(&holder.owner).await.unwrap(), Attempt::Busy(_)));
    // And so is a plain lock of the same path.
    let plain = Lock::new(&holder.coordinator, holder.scene.path.as_str()).unwrap();
    assert!(matches!(plain.try_acquire().await.unwrap(), Attempt::Busy(_)));
    // Another path of the same owner is another lock.
    let path = format!("{}-2", holder.scene.path);
    let other = ReentrantLock::new(&holder.coordinator, path).unwrap();
    let other = other.acquire(&holder.owner).await.unwrap();
    assert_ne!(other.token(), guard.token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_of_one_owner_that_acquire_at_once_share_one_hold() {
    let holder = Holder::new("tasks").await;
    for _ in 0..20 {
        let mut acquiring = JoinSet::new();
        for _ in 0..8 {
            let (lock, owner) = (holder.lock.clone(), holder.owner.clone());
            acquiring.spawn(async move { lock.acquire(&owner).await.unwrap() });
        }
        let guards = within(SOON, "all enter", acquiring.join_all()).await;
        let nodes: HashSet<_> = guards.iter().map(LockGuard::node).collect();
        assert_eq!(nodes.len(), 1);
        assert_eq!(holder.scene.children().await.len(), 1);
        // They leave at once, and one of them is the last.
        let mut releasing: JoinSet<_> = guards.into_iter().map(LockGuard::release).collect();
        while let Some(released) = within(SOON, "released", releasing.join_next()).await {
            released.unwrap().unwrap();
        }
        assert!(holder.scene.children().await.is_empty(), "the last release deletes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn entering_while_the_last_guard_leaves_is_one_hold_or_the_next() {
    let holder = Holder::new("race").await;
    let (mut entered, mut acquired) = (0, 0);
    for _ in 0..200 {
        let first = holder.acquire().await;
        let token = first.token();
        let (lock, owner) = (holder.lock.clone(), holder.owner.clone());
        let entering = tokio::spawn(async move { lock.acquire(&owner).await.unwrap() });
        let releasing = tokio::spawn(first.release());
        let second = within(SOON, "entered", entering).await.unwrap();
        within(SOON, "released", releasing).await.unwrap().unwrap();
        if second.token() == token {
            entered += 1;
        } else {
            acquired += 1;
        }
        assert!(second.is_held());
        second.verify().await.unwrap();
        second.release().await.unwrap();
        assert!(holder.scene.children().await.is_empty());
    }
    println!("{entered} entered the hold, {acquired} acquired another");
}

#[tokio::test]
async fn the_second_of_one_owner_keeps_its_own_deadline_while_the_first_waits() {
    let holder = Holder::new("deadline").await;
    let stranger = Owner::new();
    let held = holder.lock.acquire(&stranger).await.unwrap();
    let (lock, owner) = (holder.lock.clone(), holder.owner.clone());
    let first = tokio::spawn(async move { lock.acquire(&owner).await.unwrap() });
    holder.scene.has(2).await;
    let start = Instant::now();
    let options = AcquireOptions::new().timeout(MILLIS(300));
    let second = holder.lock.acquire_with(&holder.owner, options);
    let error = within(SECONDS(2), "timed out", second).await.unwrap_err();
    assert!(matches!(error, AcquireError::TimedOut { .. }), "{error:?}");
    assert!((MILLIS(300)..MILLIS(1_300)).contains(&start.elapsed()), "{:?}", start.elapsed());
    // And a try does not wait for anybody.
    let tried = within(SECONDS(2), "told", holder.lock.try_acquire(&holder.owner)).await.unwrap();
    let Attempt::Busy(busy) = tried else { panic!("two holders") };
    assert_eq!(busy.holder().as_str(), held.node());
    held.release().await.unwrap();
    within(SOON, "granted", first).await.unwrap().release().await.unwrap();
    holder.scene.has(0).await;
}

#[tokio::test]
async fn the_second_of_one_owner_goes_on_where_the_first_gives_up() {
    let holder = Holder::new("heir").await;
    let held = holder.lock.acquire(&Owner::new()).await.unwrap();
    let spawn = || {
        let (lock, owner) = (holder.lock.clone(), holder.owner.clone());
        tokio::spawn(async move { lock.acquire(&owner).await.unwrap() })
    };
    let first = spawn();
    let nodes = holder.scene.has(2).await;
    let second = spawn();
    first.abort();
    let fresh = |children: &[String]| children.len() == 2 && children != nodes;
    holder.scene.observer.wait_until(&holder.scene.path, fresh, SOON).await;
    held.release().await.unwrap();
    within(SOON, "granted", second).await.unwrap().release().await.unwrap();
    holder.scene.has(0).await;
}

#[tokio::test]
async fn a_scope_is_the_owner_of_what_runs_in_it_and_not_of_what_it_spawns() {
    let holder = Holder::new("scope").await;
    assert_eq!(Owner::current(), None);
    let (owner, lock) = (holder.owner.clone(), holder.lock.clone());
    let helper = async |lock: &ReentrantLock| {
        let owner = Owner::current().expect("a scope runs");
        within(SOON, "entered", lock.acquire(&owner)).await.unwrap()
    };
    let scope = async {
        assert_eq!(Owner::current(), Some(holder.owner.clone()));
        let guard = lock.acquire(&holder.owner).await.unwrap();
        let inner = helper(&lock).await;
        assert_eq!(inner.token(), guard.token());
        assert_eq!(tokio::spawn(async { Owner::current() }).await.unwrap(), None);
        // A scope in a scope is another owner, and ends with it.
        let other = Owner::new();
        let nested = other.clone().scope(async { Owner::current() }).await;
        assert_eq!(nested, Some(other));
        assert_eq!(Owner::current(), Some(holder.owner.clone()));
        guard
    };
    let guard = owner.scope(scope).await;
    assert_eq!(Owner::current(), None);
    assert!(guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn guards_move_between_tasks_threads_and_runtimes() {
    let holder = Holder::new("moves").await;
    // From task to task.
    let (sender, mut inbox) = mpsc::channel(1);
    let (lock, owner) = (holder.lock.clone(), holder.owner.clone());
    tokio::spawn(async move { sender.send(lock.acquire(&owner).await.unwrap()).await.unwrap() });
    let release = tokio::spawn(async move { inbox.recv().await.unwrap().release().await });
    within(SOON, "released elsewhere", release).await.unwrap().unwrap();
    assert!(holder.scene.children().await.is_empty());

    // Across a thousand awaits, while eight workers steal the tasks from each other.
    let mut threads = HashSet::new();
    let mut guard = holder.acquire().await;
    let token = guard.token();
    for _ in 0..1_000 {
        let moved = tokio::spawn(async move {
            tokio::task::yield_now().await;
            (guard, std::thread::current().id())
        });
        let thread;
        (guard, thread) = moved.await.unwrap();
        threads.insert(thread);
        assert!(guard.is_held());
    }
    assert!(threads.len() > 1, "nobody stole a task");

    // Another guard on a thread without a runtime, the last one on a runtime of its own.
    let inner = guard.reenter().unwrap();
    std::thread::spawn(move || drop(inner)).join().unwrap();
    assert_eq!(guard.token(), token);
    guard.verify().await.unwrap();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            assert!(guard.reenter().unwrap().is_held());
            guard.release().await
        })
    });
    let release = tokio::task::spawn_blocking(move || elsewhere.join().unwrap());
    within(SOON, "released", release).await.unwrap().unwrap();
    assert!(holder.scene.children().await.is_empty());
}
