//! The signals that zk-lock passes on.

use std::future::poll_fn;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use crate::code;
use crate::report::Failure;

const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Those that are not ignored, caught from now on.
pub(crate) struct Signals {
    caught: Vec<(Signal, unix::Signal)>,
    children: unix::Signal,
}

impl Signals {
    pub(crate) fn install() -> Result<Self, Failure> {
        let catch = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(code::INTERNAL, format!("cannot catch signals: {error}"))
            })
        };
        let ignored = ignored();
        let mut caught = Vec::new();
        for one in PASSED_ON {
            // What is ignored stays so for the command, as nohup and background jobs want it:
            // a caught signal would be back at its default there.
            if ignored & (1 << (one.as_raw() - 1)) == 0 {
                caught.push((one, catch(SignalKind::from_raw(one.as_raw()))?));
            }
        }
        Ok(Self { caught, children: catch(SignalKind::child())? })
    }

    /// The next signal that came.
    pub(crate) async fn next(&mut self) -> Signal {
        let caught = &mut self.caught;
        poll_fn(|cx| {
            for (signal, stream) in caught.iter_mut() {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that ends the wait for a lock. USR1 and USR2 mean something to the command
    /// only, which does not run yet.
    pub(crate) async fn stop(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::USR1 | Signal::USR2 => {}
                signal => return signal,
            }
        }
    }

    /// The next change of a child, or of one that was left to us; several may be told as one.
    pub(crate) async fn child(&mut self) {
        self.children.recv().await;
    }

    /// Whichever comes first: a change of a child (`None`) or a signal.
    pub(crate) async fn any(&mut self) -> Option<Signal> {
        let Self { caught, children } = self;
        poll_fn(|cx| {
            if let Poll::Ready(Some(())) = children.poll_recv(cx) {
                return Poll::Ready(None);
            }
            for (signal, stream) in caught.iter_mut() {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(Some(*signal));
                }
            }
            Poll::Pending
        })
        .await
    }
}
