//! The terminal's life: entered once, and restored however the program ends.

use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::terminal::{
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};
use rustix::process::{Signal, kill_current_process_group};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::sync::watch;

/// Whether the terminal is ours at the moment: a panic on another thread has to know it too.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Whether something has panicked, on whatever thread.
static PANICKED: OnceLock<watch::Sender<bool>> = OnceLock::new();

fn panicking() -> &'static watch::Sender<bool> {
    PANICKED.get_or_init(|| watch::Sender::new(false))
}

/// Whether there is a terminal on which a screen can be drawn and keys be read.
pub(crate) fn is_usable() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb()
}

/// Whether the terminal, if there is one, knows no control sequences.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}

fn enter() -> io::Result<()> {
    ENTERED.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide, EnableBracketedPaste)
}

/// Gives the terminal back as it was. Does nothing when it is not ours.
pub(crate) fn leave() {
    // Not in the middle of a frame of another thread. (This one may take the lock again.)
    let mut out = io::stdout().lock();
    if ENTERED.swap(false, Ordering::SeqCst) {
        // There is nobody to tell if it fails: the terminal may have gone.
        let _ =
            execute!(out, EndSynchronizedUpdate, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Whether the terminal is ours at the moment.
pub(crate) fn is_entered() -> bool {
    ENTERED.load(Ordering::SeqCst)
}

/// The terminal, while it is ours.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal. From now on a panic, of any thread, gives it back before it is reported.
    pub(crate) fn enter() -> io::Result<Self> {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            panicking().send_replace(true);
            report(panic);
        }));
        let entered = enter().and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        // Half of it may have been done.
        let terminal = entered.inspect_err(|_| leave())?;
        Ok(Self { terminal })
    }

    /// Takes it again, after somebody else had it: everything must be drawn anew. In the background it
    /// is the shell's: whoever changes it from there is stopped, and not even a signal to end would
    /// be heard. So it is not ours before we are in the foreground ([`is_entered`]).
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        if !is_in_foreground() {
            ENTERED.store(false, Ordering::SeqCst);
            return Ok(());
        }
        // Else crossterm would believe that it is raw still.
        disable_raw_mode()?;
        enter()?;
        self.repaint()
    }

    /// Forgets what the terminal shows. (`Terminal::clear` would ask it where the cursor is, and the
    /// answer would be taken for a key.)
    pub(crate) fn repaint(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Stops the program as Ctrl-Z does, and comes back when it goes on. Nobody may be reading keys
    /// meanwhile: they are the shell's.
    ///
    /// The whole process group is stopped, as by the terminal itself, so that a script that runs us
    /// stops too. Where there is no shell to come back to the kernel throws the signal away.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        leave();
        kill_current_process_group(Signal::TSTP)?;
        // Another thread may be the one that is told to stop: not before we have gone on.
        std::thread::sleep(Duration::from_millis(20));
        self.take_again()
    }

    /// Writes a control sequence between two frames.
    pub(crate) fn control(&mut self, sequence: &str) -> io::Result<()> {
        let out = self.terminal.backend_mut();
        out.write_all(sequence.as_bytes())?;
        Write::flush(out)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// What may come from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// To end, with the number of the signal.
    End(u8),
    /// It goes on after it was stopped by somebody else: the terminal may look different.
    Continued,
    /// The terminal has another size.
    Resized,
    /// Something has panicked; it was reported.
    Panicked,
}

#[derive(Debug)]
pub(crate) struct Signals {
    term: Stream,
    hup: Stream,
    int: Stream,
    quit: Stream,
    cont: Stream,
    winch: Stream,
    panicked: watch::Receiver<bool>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
            int: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            cont: signal(SignalKind::from_raw(Signal::CONT.as_raw()))?,
            winch: signal(SignalKind::window_change())?,
            panicked: panicking().subscribe(),
        })
    }

    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Outside {
        tokio::select! {
            biased;
            _ = self.panicked.wait_for(|panicked| *panicked) => Outside::Panicked,
            _ = self.term.recv() => Outside::End(15),
            _ = self.hup.recv() => Outside::End(1),
            _ = self.int.recv() => Outside::End(2),
            _ = self.quit.recv() => Outside::End(3),
            _ = self.cont.recv() => Outside::Continued,
            _ = self.winch.recv() => Outside::Resized,
        }
    }
}
