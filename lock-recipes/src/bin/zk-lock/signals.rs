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

pub(crate) enum News {
    /// A child has ended, or a process that was left to us. Several may be told as one.
    Child,
    Signal(Signal),
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

    pub(crate) async fn news(&mut self) -> News {
        let Self { caught, children } = self;
        poll_fn(|cx| {
            if children.poll_recv(cx).is_ready() {
                return Poll::Ready(News::Child);
            }
            let mut caught = caught.iter_mut();
            match caught
                .find_map(|(signal, stream)| stream.poll_recv(cx).is_ready().then_some(*signal))
            {
                Some(signal) => Poll::Ready(News::Signal(signal)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The signal that ends the wait for a lock. USR1 and USR2 mean something to the command only,
    /// which does not run yet.
    pub(crate) async fn stop(&mut self) -> Signal {
        loop {
            match self.news().await {
                News::Child | News::Signal(Signal::USR1 | Signal::USR2) => {}
                News::Signal(signal) => return signal,
            }
        }
    }
}

/// The signals that this process was started with as ignored: bit n-1 is signal n.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// As shells put it: 128+n.
pub(crate) fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

pub(crate) fn name(signal: Signal) -> String {
    match signal {
        Signal::TERM => "SIGTERM".to_owned(),
        Signal::INT => "SIGINT".to_owned(),
        Signal::HUP => "SIGHUP".to_owned(),
        Signal::QUIT => "SIGQUIT".to_owned(),
        other => format!("signal {}", other.as_raw()),
    }
}
