//! The watches of one contender, whose events arrive over separate channels and so in any order.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Watches by node. The own node's comes first wherever there is a choice.
pub(crate) struct Watches<N, F: Future> {
    own: Option<N>,
    watches: Vec<(N, F)>,
    /// Events of the own node's watch that were seen while evidence was gathered.
    seen: Option<(N, F::Output)>,
}

impl<N: Clone + Eq, F: Future + Unpin> Watches<N, F> {
    pub(crate) fn new() -> Self {
        Self { own: None, watches: Vec::new(), seen: None }
    }

    pub(crate) fn set_own(&mut self, own: N) {
        self.own = Some(own);
    }

    pub(crate) fn arm(&mut self, node: N, watch: F) {
        self.watches.push((node, watch));
    }

    pub(crate) fn disarm(&mut self, node: &N) {
        self.watches.retain(|(watched, _)| watched != node);
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
        for at in 0..self.watches.len() {
            let Some((_, watch)) = self.watches.get_mut(at) else { continue };
            if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
                let (node, _) = self.watches.swap_remove(at);
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
        let Some(at) = self.watches.iter().position(|(node, _)| node == own) else { return };
        let Some((_, watch)) = self.watches.get_mut(at) else { return };
        if let Poll::Ready(event) = Pin::new(watch).poll(cx) {
            let (node, _) = self.watches.swap_remove(at);
            self.seen = Some((node, event));
        }
    }
}
