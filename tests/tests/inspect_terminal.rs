//! `zk-inspect` gives the terminal back as it was, however it ends, and leaves alone what is not its own.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use inspect::{Dice, Scene, assert_restored, plain, quit, still, zk_inspect};
use integration::pty::{Key, Screen, Signal};
use integration::{Terminal, eventually, stays};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use support::{MILLIS, SECONDS, SOON, start};

/// A shell that waits, with a line on the screen, before it becomes the program: so that what was before
/// is known. Its terminal has some modes that are not the default.
async fn before(args: &[String]) -> Terminal {
    let script = r#"stty -ixon -echok tab3; echo MAIN SCREEN; read; exec "$0" "$@""#;
    let builder = Terminal::builder("bash").args(["-c", script]).arg(zk_inspect()).args(args);
    let terminal = plain(builder).start();
    terminal.wait_text("MAIN SCREEN", SOON).await;
    terminal
}

fn args(scene: &Scene, more: &[&str]) -> Vec<String> {
    scene.args().into_iter().chain(more.iter().map(|&arg| arg.to_owned())).collect()
}

/// The terminal is as it was before, with what was on it.
#[track_caller]
fn assert_as_before(terminal: &Terminal, modes: &impl PartialEq<Modes>) {
    assert_restored(terminal);
    assert!(*modes == terminal.modes(), "{:?}", terminal.modes());
    let screen = terminal.screen();
    assert_eq!(screen.lines()[0], "MAIN SCREEN", "{screen}");
}

type Modes =
    (rustix::termios::InputModes, rustix::termios::OutputModes, rustix::termios::LocalModes);

/// Starts it from the shell; the modes before.
async fn enter(terminal: &Terminal) -> Modes {
    let modes = terminal.modes();
    terminal.press(Key::Enter);
    let screen = terminal.wait_text(" LIVE ", SOON).await;
    assert!(screen.alternate_screen() && screen.bracketed_paste() && !screen.cursor_visible());
    assert!(!terminal.cooked());
    modes
}

#[tokio::test]
async fn keys_and_signals_that_end_it_leave_the_terminal_as_it_was() {
    let scene = Scene::new("ends").await;
    scene.lock("a", &["holder", "waiter"]).await;
    let (keys, signal) = (Ok::<&str, Signal>, Err::<&str, Signal>);
    let ways = [
        (keys("q"), 0),
        (keys("\x03"), 0),
        (keys("/in the filter\x03"), 0),
        (signal(Signal::TERM), 143),
        (signal(Signal::HUP), 129),
        (signal(Signal::INT), 130),
    ];
    for (way, code) in ways {
        let terminal = before(&args(&scene, &[])).await;
        let modes = enter(&terminal).await;
        match way {
            Ok(keys) => terminal.send(keys),
            Err(signal) => terminal.signal(signal),
        }
        let exit = terminal.exit(SOON).await;
        assert_eq!((exit.exit_code(), exit.signal()), (code, None), "{way:?}");
        assert_as_before(&terminal, &modes);
        let rest = terminal.screen().text();
        assert_eq!(rest.trim_end(), "MAIN SCREEN", "nothing is said: {way:?}");
    }
}

#[tokio::test]
async fn a_signal_ends_it_while_it_cannot_connect_and_while_a_key_is_half_read() {
    let scene = Scene::new("ends-early").await;
    scene.lock("a", &["holder"]).await;
    // Nobody listens on this port.
    let nowhere = ["--connect".to_owned(), "127.0.0.1:1".to_owned()];
    let terminal = before(&nowhere).await;
    let modes = terminal.modes();
    terminal.press(Key::Enter);
    terminal.wait_text(" CONNECTING ", SOON).await;
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.exit(SOON).await.exit_code(), 143);
    assert_as_before(&terminal, &modes);

    // The beginning of what a key sends, right behind others.
    for keys in
        ["\x1b[", "j\x1b[", "jk\x1b[", "\x1b[200~never closed", "j\x1b[200~", "s\u{e9}\x1bO"]
    {
        let terminal = before(&args(&scene, &[])).await;
        let modes = enter(&terminal).await;
        terminal.send(keys);
        // It goes on drawing: the clock.
        let clock = |screen: &Screen| screen.lines()[0].rsplit(' ').next().map(str::to_owned);
        for _ in 0..2 {
            let now = clock(&terminal.screen());
            terminal
                .wait_for(format!("it ticks after {keys:?}"), SECONDS(5), |screen| {
                    clock(screen) != now
                })
                .await;
        }
        terminal.resize(90, 20);
        terminal.signal(Signal::TERM);
        assert_eq!(terminal.exit(SECONDS(5)).await.exit_code(), 143, "{keys:?}");
        assert_as_before(&terminal, &modes);
    }
}

/// Something happens on the screen all the time, until this is dropped.
struct Turmoil(Arc<AtomicBool>);

impl Turmoil {
    fn start(connect: String, path: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let client = view::Client::connect(&connect).await;
                while !told.load(Ordering::Relaxed) {
                    let name = client.queue(&path, &view::curator("lock-"), b"turmoil").await;
                    client.delete(&path, &name).await;
                }
            });
        });
        Self(stop)
    }
}

impl Drop for Turmoil {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_key_that_comes_in_pieces_holds_up_nothing() {
    let scene = Scene::new("pieces").await;
    let path = scene.lock("a", &["holder"]).await;
    let _turmoil = Turmoil::start(scene.connect(), path);
    let terminal = scene.live(&[]).await;
    let mut dice = Dice(7);
    for round in 0..100 {
        // The second part comes while the first key is being taken note of, or soon after.
        terminal.send("j");
        let pause = u64::try_from(dice.below(3_000)).unwrap();
        tokio::time::sleep(Duration::from_micros(pause)).await;
        terminal.send("\x1b[");
        let before = terminal.raw().len();
        eventually(SECONDS(5), format!("round {round}: it goes on drawing"), async || {
            (terminal.raw().len() > before + 50).then_some(())
        })
        .await;
        terminal.send("A");
    }
    quit(&terminal).await;
}

#[tokio::test]
async fn a_panic_anywhere_leaves_the_terminal_as_it_was_with_its_message_on_it() {
    let scene = Scene::new("panics").await;
    let path = scene.lock("a", &["holder"]).await;
    let _turmoil = Turmoil::start(scene.connect(), path);
    let mut terminals = Vec::new();
    for place in ["draw", "task", "thread", "thread", "task"] {
        let terminal = before(&args(&scene, &["--panic-in", place])).await;
        let modes = enter(&terminal).await;
        terminals.push((place, terminal, modes));
    }
    for (place, terminal, modes) in terminals {
        let exit = terminal.exit(SOON).await;
        assert!(exit.exit_code() > 0 && exit.signal().is_none(), "{place}: {exit}");
        assert_as_before(&terminal, &modes);
        let screen = terminal.screen();
        // The message begins where a line begins.
        let message = screen.line_with("panicked at").unwrap_or_else(|| panic!("{screen}"));
        assert!(message.starts_with("thread "), "{place}: {screen}");
        assert!(
            screen.lines().contains(&"asked for by --panic-in".to_owned()),
            "{place}: {screen}"
        );
        // Nothing was drawn after it was left.
        for drawn in [" LIVE ", "PATH", "holder", "Enter open"] {
            assert!(!screen.contains(drawn), "{place}: {screen}");
        }
    }
}

#[tokio::test]
async fn an_error_at_the_start_is_told_on_the_main_screen() {
    start();
    for (connect, part) in
        [("127.0.0.1:port", "port"), ("127.0.0.1:2181/no//path", "no//path"), (",", ",")]
    {
        let terminal = before(&["--connect".to_owned(), connect.to_owned()]).await;
        let modes = terminal.modes();
        terminal.press(Key::Enter);
        assert_eq!(terminal.exit(SOON).await.exit_code(), 2, "{connect}");
        assert_as_before(&terminal, &modes);
        let screen = terminal.screen();
        let message = screen.line_with("zk-inspect: ").unwrap_or_else(|| panic!("{screen}"));
        assert!(message.starts_with("zk-inspect: ") && screen.contains(part), "{screen}");
    }
    // Where the log cannot be written.
    let terminal = before(&["--log".to_owned(), "/dev/null/log".to_owned()]).await;
    let modes = terminal.modes();
    terminal.press(Key::Enter);
    assert_eq!(terminal.exit(SOON).await.exit_code(), 2);
    assert_as_before(&terminal, &modes);
    assert!(terminal.screen().contains("/dev/null/log"));
}

#[tokio::test]
async fn ctrl_z_gives_the_terminal_to_the_shell_and_fg_paints_the_same_screen() {
    let scene = Scene::new("suspended").await;
    scene.lock("a", &["first", "second", "third"]).await;
    scene.lock("b", &["other"]).await;
    let builder = Terminal::builder("bash").args(["--norc", "--noprofile", "-i"]);
    let shell = plain(builder).env("PS1", "READY> ").size(80, 60).start();
    shell.wait_text("READY>", SOON).await;
    shell.send("echo MAIN $((1+1)) SCREEN; cat\r");
    shell.wait_text("MAIN 2 SCREEN", SOON).await;
    let modes = eventually(SOON, "cat runs", async || shell.cooked().then(|| shell.modes())).await;
    // Not ^C, which would throw away what is typed behind it.
    shell.press(Key::Ctrl('d'));
    let command = format!("{} {}\r", zk_inspect().display(), scene.args().join(" "));
    shell.send(&command);
    shell.wait_text(" LIVE ", SOON).await;
    shell.press(Key::Enter);
    let screen = shell.wait_text("Esc back", SOON).await;
    let modes_inside = shell.modes();
    for round in 0..3 {
        shell.press(Key::Ctrl('z'));
        let out = shell.wait_for("it has stopped", SOON, |screen| {
            screen.contains("Stopped") && !screen.alternate_screen()
        });
        assert!(out.await.contains("MAIN 2 SCREEN"));
        // What is typed now is the shell's, and the lines are edited and echoed.
        shell.send(&format!("echo typed:{round}:$((1+1)); cat\r"));
        let out = shell.wait_text(&format!("typed:{round}:2"), SOON).await;
        assert!(out.cursor_visible() && !out.alternate_screen());
        eventually(SOON, "cat runs", async || (shell.modes() == modes).then_some(())).await;
        shell.send(&format!("qqq{round}\r"));
        shell.wait_text(&format!("qqq{round}\nqqq{round}"), SOON).await;
        shell.press(Key::Ctrl('d'));
        shell.send("fg\r");
        let back = shell.wait_for("it is back", SOON, |now| still(now) == still(&screen)).await;
        assert!(back.alternate_screen() && !back.cursor_visible() && back.bracketed_paste());
        eventually(SOON, "raw again", async || (shell.modes() == modes_inside).then_some(())).await;
        // Keys are its own again.
        shell.send(" ");
        shell.wait_text(" FROZEN ", SOON).await;
        shell.send(" ");
        shell.wait_text(" LIVE ", SOON).await;
    }
    shell.send("q");
    let out = shell.wait_for("the shell is back", SOON, |screen| !screen.alternate_screen()).await;
    assert!(out.contains("MAIN 2 SCREEN"));
    shell.send("echo code:$?; cat\r");
    let out = shell.wait_text("code:0", SOON).await;
    eventually(SOON, "cat runs", async || (shell.modes() == modes).then_some(())).await;
    assert!(out.cursor_visible());
}

/// How often it has entered the alternate screen.
fn entered(terminal: &Terminal) -> usize {
    String::from_utf8_lossy(&terminal.raw()).matches("\x1b[?1049h").count()
}

#[tokio::test]
async fn ctrl_z_without_a_shell_above_goes_on() {
    let scene = Scene::new("nowhere-to-go").await;
    scene.lock("a", &["holder"]).await;
    let terminal = scene.live(&[]).await;
    let screen = terminal.screen();
    for round in 2..5 {
        terminal.press(Key::Ctrl('z'));
        // What is typed while the terminal is not raw is read with the next key only.
        eventually(SOON, "it is back", async || (entered(&terminal) == round).then_some(())).await;
        terminal.send(" ");
        terminal.wait_text(" FROZEN ", SOON).await;
        terminal.send(" ");
        let now = terminal.wait_for("the same", SOON, |now| still(now) == still(&screen)).await;
        assert!(now.alternate_screen() && !now.cursor_visible() && !terminal.cooked());
    }
    quit(&terminal).await;
}

/// Sets the terminal's modes, and prints into it, as somebody else would.
fn meddle(terminal: &Terminal) {
    let tty = fs::read_link(format!("/proc/{}/fd/0", terminal.pid())).unwrap();
    assert!(Command::new("stty").arg("-F").arg(&tty).arg("sane").status().unwrap().success());
    // O_NOCTTY: it must not become ours.
    let file = fs::OpenOptions::new().write(true).custom_flags(0o400).open(tty);
    let garbage = "\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[2J\x1b[HGARBAGE";
    file.unwrap().write_all(garbage.as_bytes()).unwrap();
}

#[tokio::test]
async fn stopped_and_continued_from_outside_it_takes_the_terminal_again() {
    let scene = Scene::new("stopped").await;
    scene.lock("a", &["holder"]).await;
    let terminal = before(&args(&scene, &[])).await;
    let modes = enter(&terminal).await;
    let (screen, inside) = (terminal.screen(), terminal.modes());
    for _ in 0..3 {
        terminal.signal(Signal::STOP);
        meddle(&terminal);
        terminal.wait_text("GARBAGE", SOON).await;
        assert!(terminal.cooked());
        terminal.signal(Signal::CONT);
        let back = terminal.wait_for("painted", SOON, |now| still(now) == still(&screen)).await;
        assert!(back.alternate_screen() && !back.cursor_visible() && back.bracketed_paste());
        eventually(SOON, "raw again", async || (terminal.modes() == inside).then_some(())).await;
    }
    terminal.send("q");
    assert_eq!(terminal.exit(SOON).await.exit_code(), 0);
    assert_restored(&terminal);
    assert_eq!(terminal.modes(), modes);
}

#[tokio::test]
async fn when_the_terminal_has_gone_it_ends() {
    let scene = Scene::new("gone").await;
    scene.lock("a", &["holder"]).await;
    let dir = tempfile::tempdir().unwrap();
    // With and without being told by SIGHUP; a key pressed just before may be half read.
    for (index, keys) in ["", "j", "jjjj\x1b[", "\x1b[200~x"].into_iter().enumerate() {
        let file = dir.path().join(index.to_string());
        let script = r#"trap "" HUP; file=$0; "$@"; echo $? > $file.new; mv $file.new $file"#;
        let pair = native_pty_system()
            .openpty(PtySize { rows: 24, cols: 80, pixel_width: 0, pixel_height: 0 })
            .unwrap();
        let mut command = CommandBuilder::new("bash");
        command.args(["-c", script]);
        command.arg(&file);
        command.arg(zk_inspect());
        command.args(scene.args());
        command.env("TERM", "xterm-256color");
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let mut writer = pair.master.take_writer().unwrap();
        let mut shown = Vec::new();
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&shown).contains("LIVE") {
            let length = reader.read(&mut buffer).unwrap();
            assert!(length > 0, "it has ended");
            shown.extend_from_slice(&buffer[..length]);
        }
        writer.write_all(keys.as_bytes()).unwrap();
        drop((reader, writer, pair.master));
        let code = eventually(SECONDS(10), format!("it ends, after {keys:?}"), async || {
            fs::read_to_string(&file).ok()
        });
        let code = code.await;
        assert_ne!(code.trim(), "0");
        child.wait().unwrap();
    }
}

#[tokio::test]
async fn in_the_background_it_leaves_the_terminal_alone_and_can_be_ended() {
    let scene = Scene::new("background").await;
    let shell = plain(Terminal::builder("bash")).args(["--norc", "--noprofile", "-i"]).start();
    let command = format!("{} {}\r", zk_inspect().display(), args(&scene, &[]).join(" "));
    shell.send(&command);
    shell.wait_text(" LIVE ", SOON).await;
    shell.press(Key::Ctrl('z'));
    shell.wait_text("Stopped", SOON).await;
    shell.send("bg\r");
    shell.send("echo still $((40 + 2))\r");
    let screen = shell.wait_text("still 42", SOON).await;
    assert_main_screen_of_a_shell(&screen);
    stays(MILLIS(300), "nothing is drawn from the background", async || {
        !shell.screen().alternate_screen() && !shell.screen().contains("LIVE")
    })
    .await;
    // And back, of which nobody tells it.
    shell.send("fg\r");
    shell.wait_text(" LIVE ", SOON).await;
    shell.press(Key::Ctrl('z'));
    shell.wait_for("the shell is back", SOON, |screen| !screen.alternate_screen()).await;
    shell.send("bg\r");
    shell.send("kill %1; wait %1; echo ended $?\r");
    shell.wait_text("ended 143", SOON).await;
}

#[track_caller]
fn assert_main_screen_of_a_shell(screen: &Screen) {
    assert!(!screen.alternate_screen() && screen.cursor_visible(), "{screen}");
}
