//! The façade without a runtime: plain threads, no tokio in sight of the caller.

#![allow(clippy::unwrap_used, reason = "a test that cannot begin has failed")]

use std::time::Duration;

use integration::server::{Server, unique_path};
use lock_recipes::blocking::{Attempt, Coordinator, Lock, ReentrantLock, wait};
use lock_recipes::{AcquireError, HoldState, LossReason, Owner, Phase};

/// A server for threads that have no runtime.
fn server() -> &'static Server {
    tokio::runtime::Runtime::new().unwrap().block_on(Server::shared())
}

fn connect() -> Coordinator {
    Coordinator::connect(&server().connect_string()).unwrap()
}

#[test]
fn threads_take_turns() {
    let coordinator = connect();
    let lock = Lock::new(&coordinator, unique_path("threads")).unwrap();
    let mut tokens = Vec::new();
    std::thread::scope(|scope| {
        let holders: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                scope.spawn(move || {
                    let turn = || {
                        let guard = lock.acquire().unwrap();
                        assert!(guard.is_held());
                        let token = guard.token();
                        guard.release().unwrap();
                        token
                    };
                    (0..5).map(|_| turn()).collect::<Vec<_>>()
                })
            })
            .collect();
        for holder in holders {
            let own = holder.join().unwrap();
            assert!(own.is_sorted());
            tokens.extend(own);
        }
    });
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 20);
    coordinator.close().unwrap();
}

#[test]
fn a_busy_lock_is_told_and_waited_for_no_longer_than_asked() {
    let coordinator = connect();
    let lock = Lock::new(&coordinator, unique_path("busy")).unwrap();
    let guard = lock.acquire().unwrap();
    let Attempt::Busy(busy) = lock.try_acquire().unwrap() else { panic!("two holders") };
    assert_eq!(busy.holder().as_str(), guard.node());
    let error = lock.acquire_timeout(Duration::from_millis(100)).unwrap_err();
    let AcquireError::TimedOut { phase: Phase::Waiting, behind: Some(behind), .. } = error else {
        panic!("{error}")
    };
    assert_eq!(behind.as_str(), guard.node());
    assert_eq!(lock.queue().unwrap().holder().unwrap().node.as_str(), guard.node());
    drop(guard);
    assert!(matches!(lock.try_acquire(), Ok(Attempt::Busy(_) | Attempt::Acquired(_))));
    lock.acquire().unwrap().release().unwrap();
}

#[test]
fn an_owner_enters_again_and_writes_are_fenced() {
    let coordinator = connect();
    let path = unique_path("owner");
    let lock = ReentrantLock::new(&coordinator, path.as_str()).unwrap().max_holds(2);
    let owner = Owner::new();
    let outer = lock.acquire(&owner).unwrap();
    let inner = lock.acquire(&owner).unwrap();
    assert_eq!(outer.token(), inner.token());
    assert!(matches!(lock.acquire(&owner), Err(AcquireError::TooManyHolds { limit: 2, .. })));
    wait(inner.verify()).unwrap();
    let written = wait(inner.fenced().set_data(path.as_str(), b"seen".to_vec(), None).commit());
    assert_eq!(written.unwrap().len(), 1);
    inner.release().unwrap();
    assert!(outer.is_held());
    outer.release().unwrap();
}

#[test]
fn a_guard_keeps_its_session_and_close_ends_it() {
    let coordinator = connect();
    let lock = Lock::new(&coordinator, unique_path("close")).unwrap();
    let guard = lock.acquire().unwrap();
    let lost = guard.lost();
    coordinator.close().unwrap();
    assert_eq!(wait(lost), LossReason::SessionClosed);
    assert_eq!(guard.state(), HoldState::Lost(LossReason::SessionClosed));
    assert!(matches!(lock.acquire(), Err(AcquireError::Closed { .. })));

    // Neither the coordinator nor the lock has to outlive a guard.
    let path = unique_path("alone");
    let guard = Lock::new(&connect(), path.as_str()).unwrap().acquire().unwrap();
    wait(guard.verify()).unwrap();
    guard.release().unwrap();
}
