//! The watches of one contender, whose events arrive over separate channels and so in any order.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Watches by node. The own node's comes first wherever there is a choice.
pub(crate) struct Watches<N, F: Future> {
    own: Option<N>,
    armed: Vec<(N, F)>,
    /// Events of the own node's watch that were seen while evidence was gathered.
    seen: Option<(N, F::Output)>,
}

impl<N: Clone + Eq, F: Future + Unpin> Watches<N, F> {
    pub(crate) fn new() -> Self {
        Self { own: None, armed: Vec::new(), seen: None }
    }

    pub(crate) fn set_own(&mut self, own: N) {
        self.own = Some(own);
    }

    pub(crate) fn arm(&mut self, node: N, watch: F) {
        self.armed.push((node, watch));
    }

    pub(crate) fn disarm(&mut self, node: &N) {
        self.armed.retain(|(watched, _)| watched != node);
    }

    /// The next event, of the own node first.
    pub(crate) async fn next(&mut self) -> (N, F::Output) {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<(N, F::Output)> {
        self.poll_own(cx);
        if let Some(seen) = self.seen.take() {
            return Poll::Ready(seen);
        }
        for at in 0..self.armed.len() {
            let Some((_, watch)) = self.armed.get_mut(at) else { continue };
            if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
                let (node, _) = self.armed.swap_remove(at);
                return Poll::Ready((node, event));
            }
        }
        Poll::Pending
    }

    /// Polls the own node's watch once more: whether it is still pending. An event found by this is
    /// the next one that [`Watches::next`] returns.
    pub(crate) async fn own_pending(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            self.poll_own(cx);
            Poll::Ready(self.seen.is_none())
        })
        .await
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) {
        let Some(own) = &self.own else { return };
        let Some(at) = self.armed.iter().position(|(node, _)| node == own) else { return };
        let Some((_, watch)) = self.armed.get_mut(at) else { return };
        if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
            let (node, _) = self.armed.swap_remove(at);
            self.seen = Some((node, event));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use shuttle::sync::{Arc, Mutex};

    use super::*;

    /// A one-shot channel that the scheduler of the test sees.
    #[derive(Clone, Default)]
    struct Channel(Arc<Mutex<(bool, Option<Waker>)>>);

    impl Channel {
        fn fire(&self) {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        }
    }

    impl Future for Channel {
        type Output = ();

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        }
    }

    /// The client's task delivers the deletion of the own node, then that of the predecessor. The
    /// driver's task takes the events: does it ever believe in its node after the predecessor's?
    fn own_node_goes_first(look_again: bool) {
        let (own, near) = (Channel::default(), Channel::default());
        let mut watches = Watches::new();
        watches.set_own("own");
        watches.arm("own", own.clone());
        watches.arm("near", near.clone());
        let client = shuttle::thread::spawn(move || {
            own.fire();
            near.fire();
        });
        shuttle::future::block_on(async move {
            loop {
                match watches.next().await {
                    ("own", ()) => return,
                    _ if !look_again => panic!("granted without a node"),
                    _ => assert!(!watches.own_pending().await, "granted without a node"),
                }
            }
        });
        client.join().unwrap();
    }

    #[test]
    fn an_own_deletion_is_never_overtaken_by_the_predecessors() {
        shuttle::check_dfs(|| own_node_goes_first(true), None);
    }

    #[test]
    #[should_panic(expected = "granted without a node")]
    fn a_preference_for_the_own_watch_alone_would_be_overtaken() {
        shuttle::check_dfs(|| own_node_goes_first(false), None);
    }

    #[test]
    fn an_event_found_while_looking_again_is_the_next_one() {
        shuttle::check_dfs(
            || {
                let own = Channel::default();
                let mut watches = Watches::new();
                watches.set_own("own");
                watches.arm("own", own.clone());
                let client = shuttle::thread::spawn(move || own.fire());
                shuttle::future::block_on(async move {
                    let _ = watches.own_pending().await;
                    assert_eq!(watches.next().await.0, "own");
                });
                client.join().unwrap();
            },
            None,
        );
    }
}
