//! A reply is lost: the server has done it, the client does not know. One run for every reply of
//! every verb; in the end there is exactly one node, made by exactly one create.

#![allow(clippy::unwrap_used, clippy::panic)]

use integration::proxy::{Action, Fate, OpCode};
use integration::server::unique_path;
use integration::{Server, eventually, within};
use lock_recipes::ReleaseError;
use tokio::task::JoinSet;

#[path = "common/scene.rs"]
mod scene;

use scene::{Scene, creates, lock, seconds};

/// No acquisition has more replies than this, its recovery included.
const REPLIES: usize = 24;

/// What the acquisition meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// Nobody.
    Free,
    /// A holder who leaves as soon as the reply is lost.
    LeavesSoon,
    /// A holder who leaves once the contender has recovered.
    LeavesLate,
    /// Not even the path exists.
    NoPath,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Run {
    queue: Queue,
    /// `Drop` or `Cut`, in place of these replies.
    action: Action,
    lost: [Option<usize>; 2],
    /// The server does not know `getEphemerals`, as before 3.6.
    old_server: bool,
}

impl Run {
    /// Says whether the last of the replies came to be lost: if not, there are no more of them.
    async fn acquire(self) -> bool {
        let mut scene = Scene::new().await;
        let Self { queue, action, lost, old_server } = self;
        if queue == Queue::NoPath {
            scene.path = format!("{}/a/b", unique_path("missing"));
        }
        let holder = match queue {
            Queue::LeavesSoon | Queue::LeavesLate => Some(scene.stranger().await),
            Queue::Free | Queue::NoPath => None,
        };
        let coordinator = scene.through_proxy().await;
        if old_server {
            scene.proxy.rewrite_error(OpCode::GetEphemerals, -6);
        }
        let last = lost.into_iter().flatten().max().unwrap();
        for n in lost.into_iter().flatten() {
            scene.proxy.on_reply(|_| true, n..n + 1, action);
        }
        let acquired = tokio::spawn({
            let lock = lock(&coordinator, &scene.path);
            async move { lock.acquire().await }
        });
        if let Some(holder) = &holder {
            scene.observer.wait_for_count(&scene.path, 2, seconds(5)).await;
            match queue {
                Queue::LeavesSoon => {
                    // Or, beyond the replies of the wait, as soon as there are none.
                    eventually(seconds(5), "the reply is lost", async || {
                        let replies = scene.proxy.replies().len();
                        let none_left = replies > 3 && scene.proxy.requests().len() == replies;
                        (replies > last || none_left).then_some(())
                    })
                    .await;
                }
                _ => scene.settled().await,
            }
            scene.delete(holder).await;
        }
        let acquired = within(seconds(5), format!("{self:?}"), acquired).await;
        let guard = acquired.unwrap().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        scene.only(&[guard.node()]).await;
        let node = &scene.observer.queue(&scene.path).await[0];
        assert_eq!(node.owner, guard.session_id(), "{self:?}");
        assert_eq!(node.czxid, guard.token().as_i64(), "{self:?}");
        // Found again, not replaced by another.
        let made = creates(&scene.observer, &scene.path).await;
        assert_eq!(made, 1 + i32::from(holder.is_some()), "{self:?}: {:#?}", scene.proxy.frames());
        eventually(seconds(2), format!("{self:?}: held"), async || guard.is_held().then_some(()))
            .await;
        scene.settled().await;
        let fates = scene.proxy.frames().into_iter().map(|frame| frame.fate);
        let hit = fates.filter(|fate| matches!(fate, Fate::Dropped | Fate::Cut)).count();
        scene.proxy.clear_rules();
        guard.release().await.unwrap_or_else(|error| panic!("{self:?}: {error}"));
        scene.only(&[]).await;
        coordinator.close().await.unwrap();
        hit == lost.into_iter().flatten().count()
    }
}

/// Runs every reply of every queue, some at a time.
async fn every_reply(action: Action, old_server: bool) {
    Server::shared().await;
    for queue in [Queue::Free, Queue::LeavesSoon, Queue::LeavesLate, Queue::NoPath] {
        let mut lost = 0;
        'replies: while lost < REPLIES {
            let mut runs = JoinSet::new();
            for n in lost..lost + 4 {
                runs.spawn(Run { queue, action, lost: [Some(n), None], old_server }.acquire());
            }
            lost += 4;
            while let Some(hit) = runs.join_next().await {
                if !hit.unwrap() {
                    break 'replies;
                }
            }
        }
        assert!((4..REPLIES).contains(&lost), "{queue:?}: {lost} replies");
    }
}

#[tokio::test]
async fn an_acquisition_survives_the_loss_of_any_reply() {
    every_reply(Action::Drop, false).await;
}

#[tokio::test]
async fn an_acquisition_survives_a_cut_in_place_of_any_reply() {
    every_reply(Action::Cut, false).await;
}

#[tokio::test]
async fn an_old_server_is_asked_by_listing_after_a_lost_reply() {
    every_reply(Action::Drop, true).await;
}

#[tokio::test]
async fn an_old_server_is_asked_by_listing_after_a_cut() {
    every_reply(Action::Cut, true).await;
}

#[tokio::test]
async fn the_recovery_from_a_lost_create_survives_the_loss_of_any_of_its_own_replies() {
    Server::shared().await;
    for action in [Action::Drop, Action::Cut] {
        for old_server in [false, true] {
            for queue in [Queue::Free, Queue::LeavesSoon] {
                let mut runs = JoinSet::new();
                for second in 1..8 {
                    let lost = [Some(0), Some(second)];
                    runs.spawn(Run { queue, action, lost, old_server }.acquire());
                }
                let mut both = 0;
                while let Some(hit) = runs.join_next().await {
                    both += usize::from(hit.unwrap());
                }
                assert!(both >= 3, "{action:?} {queue:?}: the recovery has {both} replies only");
            }
        }
    }
}

#[tokio::test]
async fn a_release_whose_replies_are_lost_is_unconfirmed_and_happens() {
    Server::shared().await;
    let mut runs = JoinSet::new();
    for action in [Action::Drop, Action::Cut] {
        // The reply to the release, and then those to the janitor's.
        for lost in 1..4 {
            runs.spawn(release(action, lost));
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

async fn release(action: Action, lost: usize) {
    let scene = Scene::new().await;
    let coordinator = scene.through_proxy().await;
    let lock = lock(&coordinator, &scene.path);
    let guard = lock.acquire().await.unwrap();
    let waiter = scene.stranger().await;
    scene.settled().await;
    let is_delete = |opcode| opcode == OpCode::Delete;
    scene.proxy.on_reply(move |reply| is_delete(reply.opcode), 0..lost, action);
    let node = guard.node().to_owned();
    let released = within(seconds(2), "release() returns", guard.release()).await;
    assert!(matches!(released, Err(ReleaseError::Unconfirmed { .. })), "{released:?}");
    assert_eq!(scene.children().await, std::slice::from_ref(&waiter), "{node} is gone");
    // Its fate is looked up until an answer comes, and then no more.
    eventually(seconds(5), "the janitor has its answer", async || {
        (scene.proxy.requests_by(OpCode::Delete).len() > lost).then_some(())
    })
    .await;
    scene.settled().await;
    assert_eq!(scene.proxy.requests_by(OpCode::Delete).len(), lost + 1);
    scene.delete(&waiter).await;
    let again = within(seconds(2), "the lock can be acquired again", lock.acquire()).await.unwrap();
    again.release().await.unwrap();
    scene.only(&[]).await;
    coordinator.close().await.unwrap();
}
