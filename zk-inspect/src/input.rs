//! What is typed, read on a thread of its own: in the middle of a key of which only the beginning has come
//! crossterm blocks, and that must not hold up the screen, or the end.

use std::convert::Infallible;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc as std_mpsc;
use std::time::Duration;

use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// How much is read ahead of what has been taken note of.
const AHEAD: usize = 4_096;

/// How often, and for how long, crossterm is asked whether that was all. It looks only while there is time
/// left, of which a busy machine may leave none.
const ASKED: (u8, Duration) = (3, Duration::from_millis(1));

/// How long the end of reading is waited for.
const END: Duration = Duration::from_millis(300);

/// What is typed, as long as this exists.
#[derive(Debug)]
pub(crate) struct Input {
    events: mpsc::Receiver<io::Result<Event>>,
    /// Closed when the thread has ended.
    running: std_mpsc::Receiver<Infallible>,
    /// The thread ends when this is shut.
    open: UnixStream,
}

impl Input {
    pub(crate) fn start() -> io::Result<Self> {
        let (sender, events) = mpsc::channel(AHEAD);
        let (alive, running) = std_mpsc::channel();
        let (open, closed) = UnixStream::pair()?;
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            if let Err(error) = read(&closed, &sender) {
                // Nobody asks any more when it was closed.
                let _ = sender.blocking_send(Err(error));
            }
            drop(alive);
        })?;
        Ok(Self { events, running, open })
    }

    /// The next event; none when the terminal has gone. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }

    /// The next event, if it is there.
    pub(crate) fn try_next(&mut self) -> Result<io::Result<Event>, TryRecvError> {
        self.events.try_recv()
    }
}

impl Drop for Input {
    /// Returns when reading has ended: what is typed from then on is the shell's, and whoever asked for
    /// it in the background would be stopped. (In the middle of a key it cannot be ended.)
    fn drop(&mut self) {
        self.events.close();
        // An error means that the thread has ended.
        let _ = self.open.shutdown(Shutdown::Both);
        let _ = self.running.recv_timeout(END);
    }
}

fn read(closed: &UnixStream, sender: &mpsc::Sender<io::Result<Event>>) -> io::Result<()> {
    let stdin = io::stdin();
    loop {
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let [typed, closed] = ready.map(|one| one.revents());
        if !closed.is_empty() || typed.contains(PollFlags::HUP) {
            return Ok(());
        }
        let (times, time) = ASKED;
        let mut asked = 0;
        while asked < times {
            if !event::poll(time)? {
                asked += 1;
            } else if sender.blocking_send(event::read()).is_ok() {
                asked = 0;
            } else {
                return Ok(());
            }
        }
    }
}
