//! What is typed, read on a thread of its own. crossterm blocks in the middle of a key of which only the
//! beginning has come, spins when the terminal has gone, and gives one event each time it is asked: none
//! of that may hold up the screen, or the end.

use std::io;
use std::time::Duration;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How much is read ahead of what has been taken note of.
const AHEAD: usize = 4_096;

/// How long the end of reading is waited for: in the middle of a key it does not come.
const STOP: Duration = Duration::from_millis(50);

pub(crate) type Input = mpsc::Receiver<io::Result<Event>>;

/// Begins to read, until the receiver is dropped.
pub(crate) fn start() -> Input {
    let (sender, input) = mpsc::channel(AHEAD);
    let runtime = Handle::current();
    std::thread::spawn(move || runtime.block_on(read(sender)));
    input
}

/// Ends reading, so that somebody else can read, and returns when it has ended: whoever still asked for
/// keys in the background would be stopped for it.
pub(crate) fn stop(input: Input) {
    drop(input);
    // Whoever reads has crossterm's lock, which this waits for. What is typed meanwhile is kept.
    let _ = crossterm::event::poll(STOP);
}

async fn read(sender: mpsc::Sender<io::Result<Event>>) {
    let mut events = EventStream::new();
    loop {
        tokio::select! {
            biased;
            () = sender.closed() => break,
            event = events.next() => {
                let Some(event) = event else { break };
                if sender.send(event).await.is_err() {
                    break;
                }
            }
        }
    }
}
