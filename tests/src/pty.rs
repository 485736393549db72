//! A terminal: what a person sees of a program, and can do to it.
//!
//! The program is the leader of the terminal's session, as a login shell is. It is reaped only when the
//! [`Terminal`] is dropped, so its pid stays its own until then.

use std::ffi::OsStr;
use std::fmt::{self, Debug, Display, Formatter};
use std::future::ready;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portable_pty::{Child, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, WaitId, WaitIdOptions, kill_process, waitid};
use rustix::termios::{InputModes, LocalModes, OutputModes};

use crate::wait::eventually;

mod key;
mod output;
mod screen;

use output::Output;
use screen::lines;

pub use key::Key;
pub use portable_pty::{CommandBuilder, ExitStatus};
pub use rustix::process::Signal;
pub use screen::{Frame, Screen};
pub use vt100::{Cell, Color, MouseProtocolMode};

/// What would make programs behave otherwise than in a plain terminal with colours.
const REMOVED: [&str; 7] =
    ["CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR"];

/// A terminal in which one program runs. Dropping it kills every process of the program's session.
///
/// It answers what programs ask a terminal at their start: where the cursor is, and what it is.
pub struct Terminal {
    name: String,
    pid: Pid,
    child: Box<dyn Child + Send + Sync>,
    master: Mutex<Box<dyn MasterPty + Send>>,
    keyboard: mpsc::Sender<Vec<u8>>,
    output: Arc<Mutex<Output>>,
    exit: Mutex<Option<(ExitStatus, Instant)>>,
}

impl Terminal {
    /// A program to be run in a terminal of 80 columns and 24 rows, with the environment of one that has
    /// colours: `TERM=xterm-256color`, neither `NO_COLOR` nor `COLORTERM`.
    pub fn builder(program: impl AsRef<OsStr>) -> Builder {
        let mut command = CommandBuilder::new(program);
        for name in REMOVED {
            command.env_remove(name);
        }
        command.env("TERM", "xterm-256color");
        Builder { command, columns: 80, rows: 24 }
    }

    /// Runs a program with these arguments; see [`Terminal::builder`] for its environment.
    pub fn run(
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        columns: u16,
        rows: u16,
    ) -> Self {
        Self::builder(program).args(args).size(columns, rows).start()
    }

    /// Runs a command with exactly the environment it has, in our directory unless it names another.
    pub fn spawn(mut command: CommandBuilder, columns: u16, rows: u16) -> Self {
        if command.get_cwd().is_none() {
            command.cwd(env::current_dir().expect("a directory"));
        }
        let name = format!("{:?}", command.get_argv());
        let pair = native_pty_system().openpty(size(columns, rows)).expect("a terminal");
        let child =
            pair.slave.spawn_command(command).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        // The program's side is the program's alone: the output ends when the program does.
        drop(pair.slave);
        let pid = child.process_id().and_then(|id| i32::try_from(id).ok());
        let pid = pid.and_then(Pid::from_raw).expect("a pid");
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let mut writer = pair.master.take_writer().expect("a writer");
        let (keyboard, keys) = mpsc::channel::<Vec<u8>>();
        // A thread of its own, so that nobody is stuck when the program does not read.
        thread::spawn(move || {
            keys.iter().try_for_each(|keys| writer.write_all(&keys)).ok();
        });
        let output = Arc::new(Mutex::new(Output::new(columns, rows)));
        let (shared, replies) = (Arc::clone(&output), keyboard.clone());
        thread::spawn(move || {
            let mut buffer = [0; 8192];
            loop {
                match reader.read(&mut buffer) {
                    Ok(length @ 1..) => {
                        let reply = lock(&shared).feed(&buffer[..length]);
                        // There is no keyboard any more when the terminal was dropped.
                        reply.map(|reply| replies.send(reply));
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
            lock(&shared).ended = true;
        });
        let (master, exit) = (Mutex::new(pair.master), Mutex::default());
        Self { name, pid, child, master, keyboard, output, exit }
    }

    /// Types these characters. Never blocks: what the program does not read yet waits for it.
    pub fn send(&self, keys: &str) {
        self.send_bytes(keys.as_bytes());
    }

    /// Sends these bytes as if they were typed.
    pub fn send_bytes(&self, keys: &[u8]) {
        // An error means that the terminal is gone, and the program with it.
        let _ = self.keyboard.send(keys.to_vec());
    }

    /// Presses one key.
    pub fn press(&self, key: Key) {
        let application = lock(&self.output).parser.screen().application_cursor();
        self.send(&key.code(application));
    }

    /// Changes the size of the terminal, which the program learns by SIGWINCH.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = size(columns, rows);
        // First the screen: what is drawn after the signal must find the new size.
        lock(&self.output).resize(columns, rows);
        lock(&self.master).resize(size).expect("the terminal is ours");
    }

    /// What can be seen now. During a synchronized update that is what was there before it.
    pub fn screen(&self) -> Screen {
        lock(&self.output).screen()
    }

    /// Waits until the screen looks like this, and returns it.
    ///
    /// Panics at the caller's line, with the screen, when `limit` has passed or when the program has ended
    /// with another screen.
    #[track_caller]
    pub fn wait_for(
        &self,
        what: impl Display,
        limit: Duration,
        mut condition: impl FnMut(&Screen) -> bool,
    ) -> impl Future<Output = Screen> {
        let (caller, what) = (Location::caller(), what.to_string());
        let sight = Sight { what: what.clone(), terminal: self };
        let found = eventually(limit, sight, move || {
            // In this order: the screen of an ended program is the last one.
            let exit = self.try_exit();
            let screen = self.screen();
            let found = condition(&screen);
            ready((found || exit.is_some()).then_some((found, screen, exit)))
        });
        async move {
            let (found, screen, exit) = found.await;
            let exit = exit.map(|exit| exit.to_string()).unwrap_or_default();
            assert!(found, "{}: {exit}, and not: {what}\n{screen}\n({caller})", self.name);
            screen
        }
    }

    /// Waits until this text is on the screen. See [`Terminal::wait_for`].
    #[track_caller]
    pub fn wait_text(&self, text: &str, limit: Duration) -> impl Future<Output = Screen> {
        let what = format!("{text:?} is on the screen");
        self.wait_for(what, limit, |screen| screen.contains(text))
    }

    /// The process id of the program, which is that of its session as well.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Sends a signal to the program. Once it has ended this does nothing.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the process is ours");
    }

    /// How the program has ended, if it has and all its output was read.
    pub fn try_exit(&self) -> Option<ExitStatus> {
        let mut exit = lock(&self.exit);
        if exit.is_none() {
            *exit = self.waited().map(|status| (status, Instant::now()));
        }
        let (status, since) = exit.as_ref()?;
        lock(&self.output).is_complete(*since).then(|| status.clone())
    }

    /// Waits until the program has ended by itself and all its output was read.
    #[track_caller]
    pub fn exit(&self, limit: Duration) -> impl Future<Output = ExitStatus> {
        let what = format!("{} ends", self.name);
        eventually(limit, Sight { what, terminal: self }, || ready(self.try_exit()))
    }

    /// Whether lines are edited and echoed, keys make signals, and line ends are translated: how a shell
    /// expects to find the terminal. Can be asked after the program has ended.
    pub fn cooked(&self) -> bool {
        let (input, output, local) = self.modes();
        input.contains(InputModes::ICRNL)
            && output.contains(OutputModes::OPOST | OutputModes::ONLCR)
            && local.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// The modes of the line discipline, to be compared with those before.
    pub fn modes(&self) -> (InputModes, OutputModes, LocalModes) {
        // Asked at our side: to open the program's would keep it from being closed.
        let termios = lock(&self.master).get_termios().expect("the terminal is ours");
        (
            InputModes::from_bits_retain(termios.input_flags.bits()),
            OutputModes::from_bits_retain(termios.output_flags.bits()),
            LocalModes::from_bits_retain(termios.local_flags.bits()),
        )
    }

    /// The texts that were to be copied to the clipboard, by OSC 52.
    ///
    /// Panics if one was not base64: terminals ignore it.
    pub fn clipboard(&self) -> Vec<String> {
        let decode = |data: &Vec<u8>| {
            let text = STANDARD.decode(data).unwrap_or_else(|error| panic!("{data:?}: {error}"));
            String::from_utf8(text).expect("UTF-8")
        };
        let copied = lock(&self.output).parser.callbacks().copied.clone();
        copied.iter().map(decode).collect()
    }

    /// Everything that the program has printed.
    pub fn raw(&self) -> Vec<u8> {
        lock(&self.output).raw.clone()
    }

    /// Everything that the program has printed, as it arrived.
    pub fn chunks(&self) -> Vec<(Instant, Vec<u8>)> {
        let output = lock(&self.output);
        let starts = output.arrivals.iter();
        let ends = starts.clone().skip(1).map(|next| next.1).chain([output.raw.len()]);
        starts.zip(ends).map(|(&(at, start), end)| (at, output.raw[start..end].to_vec())).collect()
    }

    /// Begins to keep what is seen, from the present screen on, or ends it. What was kept is forgotten.
    pub fn record(&self, on: bool) {
        let mut output = lock(&self.output);
        let frame = Frame { at: Instant::now(), lines: lines(output.shown()) };
        output.parser.callbacks_mut().frames = on.then(|| vec![frame]);
    }

    /// The screens that were seen since [`Terminal::record`], each different from the one before.
    ///
    /// A synchronized update is one frame. Without it each read is one: a drawing that takes several writes,
    /// or more than 4 KiB, can be seen half done, as in a terminal.
    pub fn frames(&self) -> Vec<Frame> {
        lock(&self.output).parser.callbacks().frames.clone().unwrap_or_default()
    }

    /// The status of the program, which is not reaped.
    fn waited(&self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid), options).expect("the process is ours")?;
        let code =
            status.exit_status().map(|code| code << 8).or_else(|| status.terminating_signal());
        Some(std::process::ExitStatus::from_raw(code.expect("it has ended")).into())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Processes may be born while we look; those of the session are named by a pid that is still ours.
        for _ in 0..100 {
            let alive = session(self.pid);
            if alive.is_empty() {
                break;
            }
            for pid in alive {
                // An error means that it has just ended.
                let _ = kill_process(pid, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(1));
        }
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = self.child.wait();
        // The threads are not joined: a process that has left the session may hold the terminal open.
    }
}

impl Debug for Terminal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminal")
            .field("name", &self.name)
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

/// A program, its arguments and environment, and the size of its terminal.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    command: CommandBuilder,
    columns: u16,
    rows: u16,
}

impl Builder {
    /// Adds one argument.
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Runs the program in this directory instead of ours.
    pub fn current_dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.cwd(dir.as_ref());
        self
    }

    /// Sets the size of the terminal.
    pub fn size(mut self, columns: u16, rows: u16) -> Self {
        (self.columns, self.rows) = (columns, rows);
        self
    }

    /// Runs the program.
    pub fn start(self) -> Terminal {
        Terminal::spawn(self.command, self.columns, self.rows)
    }
}

/// What was waited for, and what was there instead when the wait was over.
struct Sight<'a> {
    what: String,
    terminal: &'a Terminal,
}

impl Display for Sight<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n", self.what, self.terminal.screen())
    }
}

/// The living processes of a session.
fn session(leader: Pid) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let member = |name: &OsStr| {
        let pid = Pid::from_raw(name.to_str()?.parse().ok()?)?;
        let stat =
            fs::read_to_string(format!("/proc/{pid}/stat", pid = pid.as_raw_nonzero())).ok()?;
        // The command name stands in parentheses and may itself contain some.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let alive = !matches!(fields.next()?, "Z" | "X");
        // The parent and the group come before the session.
        let session = fields.nth(2)?.parse().ok().and_then(Pid::from_raw)?;
        (alive && session == leader).then_some(pid)
    };
    processes.filter_map(|process| member(&process.file_name())).collect()
}

fn size(columns: u16, rows: u16) -> PtySize {
    assert!(columns > 0 && rows > 0, "a terminal has a place");
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
