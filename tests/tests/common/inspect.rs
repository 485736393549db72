//! What the tests of `zk-inspect` share: the program in a terminal, and locks to look at.

#![allow(dead_code, unreachable_pub, reason = "no test file uses everything")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use integration::pty::{Builder, MouseProtocolMode, Screen};
use integration::server::unique_path;
use integration::{Server, Terminal, binary, within};

use crate::support::{SOON, start};
use crate::view::{Client, curator};

pub fn zk_inspect() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        binary("zk-inspect", &["-p", "zk-inspect"], &["lock-recipes/src", "zk-inspect/src"])
    });
    &BINARY
}

/// Numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: usize) -> usize {
        // Knuth's MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// A server that a file's tests share, and a root of one's own below which locks are made.
pub struct Scene {
    pub server: &'static Server,
    pub client: Client,
    pub root: String,
}

impl Scene {
    pub async fn new(name: &str) -> Self {
        start();
        // A build blocks the runtime for longer than a session would live.
        zk_inspect();
        let server = Server::shared().await;
        let client = Client::connect(&server.connect_string()).await;
        let scene = Self { server, client, root: unique_path(name) };
        scene.client.raw.mkdir(&scene.root).await;
        scene
    }

    pub fn connect(&self) -> String {
        self.server.connect_string()
    }

    /// Makes the node of a lock; its path.
    pub async fn folder(&self, name: &str) -> String {
        let path = format!("{}/{name}", self.root);
        self.client.raw.mkdir(&path).await;
        path
    }

    /// A lock with these contenders, named by their data; its path.
    pub async fn lock(&self, name: &str, contenders: &[&str]) -> String {
        let path = self.folder(name).await;
        for data in contenders {
            self.contend(&path, data.as_bytes()).await;
        }
        path
    }

    /// One more contender; its node's name.
    pub async fn contend(&self, path: &str, data: &[u8]) -> String {
        self.client.queue(path, &curator("lock-"), data).await
    }

    pub fn args(&self) -> [String; 4] {
        ["--connect".to_owned(), self.connect(), "--root".to_owned(), self.root.clone()]
    }

    /// The screen, not started yet.
    pub fn screen(&self, args: &[&str]) -> Builder {
        plain(Terminal::builder(zk_inspect())).args(self.args()).args(args)
    }

    /// The screen, with everything on it.
    pub async fn live(&self, args: &[&str]) -> Terminal {
        let terminal = self.screen(args).start();
        terminal.wait_text(" LIVE ", SOON).await;
        terminal
    }

    /// What is printed where there is no terminal. These arguments come first.
    pub async fn output(&self, args: &[&str]) -> Output {
        let mut all: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        all.extend(self.args().into_iter().take(if args[0] == "show" { 2 } else { 4 }));
        output(&all).await
    }
}

/// What would make it behave otherwise.
const VARIABLES: [&str; 3] = ["RUST_BACKTRACE", "RUST_LOG", "ZOOKEEPER_CONNECT"];

/// Without what the environment of the tests may say.
pub fn plain(builder: Builder) -> Builder {
    VARIABLES.into_iter().fold(builder, Builder::env_remove)
}

/// Runs it to its end, without a terminal.
pub async fn output(args: &[impl AsRef<std::ffi::OsStr> + std::fmt::Debug]) -> Output {
    let mut command = Command::new(zk_inspect());
    command.args(args);
    for name in VARIABLES {
        command.env_remove(name);
    }
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).kill_on_drop(true);
    within(SOON, format!("zk-inspect {args:?} ends"), command.output()).await.unwrap()
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// The selected line.
pub fn selected(screen: &Screen) -> &str {
    let mut lines = screen.lines().iter().filter(|line| line.starts_with('>'));
    let line = lines.next().unwrap_or_else(|| panic!("nothing is selected: {screen}"));
    assert!(lines.next().is_none(), "two lines are selected: {screen}");
    line
}

/// Waits until the selected line contains this.
#[track_caller]
pub fn wait_selected(terminal: &Terminal, what: &str) -> impl Future<Output = Screen> {
    let what = what.to_owned();
    terminal.wait_for(format!("{what} is selected"), SOON, move |screen| {
        screen.lines().iter().any(|line| line.starts_with('>') && line.contains(&what))
    })
}

/// The words that do not change while nothing happens: no times, no numbers.
pub fn still(screen: &Screen) -> Vec<String> {
    let moves = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || c == '≤');
    let lines = screen.lines().iter().filter(|line| !line.starts_with(" since "));
    let words = lines.map(|line| line.split_whitespace().filter(|word| !moves(word)));
    words.map(|words| words.collect::<Vec<_>>().join(" ")).collect()
}

/// Nothing of the program is left in the terminal's modes.
#[track_caller]
pub fn assert_restored(terminal: &Terminal) {
    let screen = terminal.screen();
    assert!(terminal.cooked(), "{:?}: {screen}", terminal.modes());
    assert_main_screen(&screen);
}

/// The same of what the terminal itself knows.
#[track_caller]
pub fn assert_main_screen(screen: &Screen) {
    assert!(screen.cursor_visible(), "the cursor is hidden: {screen}");
    assert!(!screen.alternate_screen(), "on the alternate screen: {screen}");
    assert!(!screen.bracketed_paste(), "pastes are bracketed: {screen}");
    assert_eq!(screen.mouse(), MouseProtocolMode::None);
    assert!(screen.modes().is_empty(), "{:?}: {screen}", screen.modes());
}

/// Leaves it by `q`, from a screen on which that is no text.
pub async fn quit(terminal: &Terminal) {
    terminal.send("q");
    assert_eq!(terminal.exit(SOON).await.exit_code(), 0);
    assert_restored(terminal);
}
