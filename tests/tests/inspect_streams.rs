//! What `zk-inspect` writes, and where: no log on the screen, no colours or signs that were not wanted, and
//! a table where there is no terminal.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::fs;
use std::process::{Command, Stdio};

use inspect::{Scene, assert_restored, plain, quit, selected, text, zk_inspect};
use integration::pty::{Builder, Key, Screen};
use integration::{Proxy, Terminal, within};
use support::{SECONDS, SOON};

/// A command line of the shell, in which `$ZI` is the program with what it needs to find the locks.
fn shell(scene: &Scene, script: &str) -> Builder {
    let program = format!("{} {}", zk_inspect().display(), scene.args().join(" "));
    plain(Terminal::builder("bash")).args(["-c", script]).env("ZI", program)
}

#[tokio::test]
async fn a_log_of_everything_never_reaches_the_screen_and_its_file_is_in_the_help() {
    let scene = Scene::new("logged").await;
    scene.lock("a", &["holder", "waiter"]).await;
    let proxy = Proxy::start(&scene.connect()).await;
    let state = tempfile::tempdir().unwrap();
    let builder = plain(Terminal::builder(zk_inspect())).env("RUST_LOG", "trace");
    let builder = builder.args(["--connect", &proxy.connect_string(), "--root", &scene.root]);
    let terminal = builder.env("XDG_STATE_HOME", state.path()).size(120, 24).start();
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.record(true);
    let log = state.path().join("zk-inspect/zk-inspect.log");
    let logged = || fs::read_to_string(&log).unwrap_or_default();
    for gaps in ["GAP of", "(2 gaps)", "(3 gaps)", "(4 gaps)", "(5 gaps)"] {
        proxy.cut();
        terminal.wait_text(gaps, SOON).await;
    }
    terminal
        .wait_for("it is live again", SOON, |screen| {
            screen.contains(" LIVE ") && screen.contains("waiter") && screen.contains("(5 gaps)")
        })
        .await;
    let known = |line: &str| {
        let words =
            [" zk-inspect", " in /logged-", "──", "  STATE", "> * BUSY", " HOLD #0", " wait #1"];
        let more = [" disconnected ", " GAP of ", " Enter open"];
        line.is_empty() || words.iter().chain(&more).any(|start| line.starts_with(start))
    };
    let frames = terminal.frames();
    assert!(frames.len() > 5);
    for frame in frames {
        assert!(frame.lines.iter().all(|line| known(line)), "{}", frame.text());
    }
    // Neither drawn over.
    let raw = String::from_utf8(terminal.raw()).unwrap();
    for word in ["TRACE", "DEBUG", "INFO", "WARN", "zookeeper_client"] {
        assert!(!raw.contains(word), "{word}");
    }
    assert!(logged().contains("DEBUG"));
    assert!(!logged().contains('\x1b'));
    assert!(!logged().contains("holder"), "a log is not the place for data");
    terminal.record(false);
    terminal.send("?G");
    terminal.wait_text(&format!("log            {}", log.display()), SOON).await;
    terminal.send("?");
    quit(&terminal).await;
    assert_eq!(terminal.screen().text().trim_end(), "");
}

#[tokio::test]
async fn without_a_terminal_a_table_is_printed() {
    let scene = Scene::new("plain").await;
    scene.lock("a", &["holder", "waiter"]).await;
    scene.lock("b", &["other"]).await;
    let lines = |screen: &Screen| -> Vec<String> {
        let lines = screen.lines().iter().map(|line| line.split_whitespace().take(3).collect());
        lines.collect::<Vec<Vec<_>>>().iter().map(|words: &Vec<&str>| words.join(" ")).collect()
    };
    for (script, env) in [
        ("$ZI | cat; echo code:${PIPESTATUS[0]}", "xterm"),
        ("$ZI </dev/null; echo code:$?", "xterm"),
        ("$ZI; echo code:$?", "dumb"),
        ("$ZI; echo code:$?", ""),
        ("$ZI <&- | cat; echo code:${PIPESTATUS[0]}", "xterm"),
        ("setsid $ZI </dev/null | cat; echo code:${PIPESTATUS[0]}", "xterm"),
    ] {
        // Wide enough for a line of the table.
        let terminal = shell(&scene, script).env("TERM", env).size(160, 24).start();
        assert_eq!(terminal.exit(SOON).await.exit_code(), 0, "{script}");
        let lines = lines(&terminal.screen());
        assert_eq!(lines[0], "STATE PATH KIND", "{script}: {}", terminal.screen());
        assert_eq!(lines[1], format!("BUSY {}/a mutex", scene.root));
        assert_eq!(lines[2], format!("HELD {}/b mutex", scene.root));
        assert_eq!(lines[3], "code:0", "{script}: {}", terminal.screen());
        assert_restored(&terminal);
        if env != "xterm" {
            assert!(!terminal.raw().contains(&0x1b), "a dumb terminal is told nothing: {script}");
        }
    }
}

#[tokio::test]
async fn whoever_reads_only_the_first_lines_ends_it() {
    let scene = Scene::new("head").await;
    let path = scene.lock("a", &["holder"]).await;
    // More than a pipe holds.
    let data = "x".repeat(200);
    for index in 0..400 {
        scene.lock(&format!("{index:03}"), &[&data]).await;
    }
    for script in [
        "$ZI list | head -1 | cut -c1-5; echo code:${PIPESTATUS[0]}",
        "$ZI list --json | head -c 5 >/dev/null; echo code:${PIPESTATUS[0]}",
        "$ZI list --watch | head -1 >/dev/null; echo code:${PIPESTATUS[0]}",
        "$ZI list | true; echo code:${PIPESTATUS[0]}",
        "$ZI completions bash | true; echo code:${PIPESTATUS[0]}",
        "$ZI --help | true; echo code:${PIPESTATUS[0]}",
    ] {
        let terminal = shell(&scene, script).start();
        if script.contains("--watch") {
            // It notices with the next line.
            let more = async {
                loop {
                    let name = scene.contend(&path, b"one more").await;
                    scene.client.delete(&path, &name).await;
                    if terminal.try_exit().is_some() {
                        break;
                    }
                }
            };
            within(SOON, "it ends", more).await;
        }
        terminal.exit(SOON).await;
        let screen = terminal.screen();
        let lines: Vec<_> = screen.lines().iter().filter(|line| !line.is_empty()).collect();
        let expected = if script.contains("cut") { &["STATE", "code:0"][..] } else { &["code:0"] };
        assert_eq!(lines, expected, "{script}: {screen}");
    }
    // Nobody reads at all.
    let mut command = Command::new(zk_inspect());
    command.arg("list").args(scene.args()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut command = tokio::process::Command::from(command);
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    drop(child.stdout.take());
    let code = within(SOON, "it ends", child.wait()).await.unwrap();
    assert_eq!(code.code(), Some(0));
}

/// The parameters of all SGR sequences.
fn sgr(raw: &[u8]) -> Vec<Vec<u16>> {
    let text = String::from_utf8_lossy(raw);
    let sequences = text.split("\x1b[").skip(1);
    let parameters = sequences.filter_map(|rest| {
        let (parameters, _) = rest.split_once('m')?;
        let numbers = parameters.split([';', ':']);
        numbers
            .map(|number| if number.is_empty() { Some(0) } else { number.parse().ok() })
            .collect()
    });
    parameters.collect()
}

fn sets_colour(parameters: &[u16]) -> bool {
    // 39, 49 and 59 take back a colour.
    parameters.iter().any(|number| matches!(number, 30..=38 | 40..=48 | 58 | 90..=97 | 100..=107))
}

/// Shows everything that there is to show once.
async fn tour(terminal: &Terminal) {
    let row = |screen: &Screen| {
        let line = selected(screen).to_owned();
        let row = screen.find(&line).unwrap().0;
        // The second half of a wide character has no style of its own.
        let mut cells = (0..80).map(|column| screen.cell(row, column));
        assert!(cells.all(|cell| cell.inverse() || cell.is_wide_continuation()), "{line}");
    };
    terminal.wait_text(" LIVE ", SOON).await;
    row(&terminal.wait_for("a line is selected", SOON, |screen| screen.contains("\n>")).await);
    terminal.send(" ");
    terminal.wait_text(" FROZEN ", SOON).await;
    terminal.send(" sS/x");
    terminal.wait_text("Esc clear", SOON).await;
    terminal.press(Key::Backspace);
    terminal.press(Key::Enter);
    terminal.send("?");
    terminal.wait_text(" Help ", SOON).await;
    terminal.send("?yY");
    terminal.wait_text("copied", SOON).await;
    terminal.press(Key::Enter);
    row(&terminal.wait_text("Esc back", SOON).await);
    terminal.send("jj");
    terminal.resize(130, 40);
    terminal.wait_text("ROLE", SOON).await;
    quit(terminal).await;
}

#[tokio::test]
async fn without_colours_none_is_set_and_the_selected_line_is_inverse_still() {
    let scene = Scene::new("mono").await;
    scene.lock("a", &["holder", "waiter", "another"]).await;
    let read = scene.folder("b").await;
    scene.client.queue(&read, &view::curator("__READ__"), b"reader").await;
    let builders = [
        scene.screen(&[]).env("NO_COLOR", "1"),
        scene.screen(&["--no-color"]),
        scene.screen(&["--no-color"]).env("NO_COLOR", "1").env("COLORTERM", "truecolor"),
        scene.screen(&["--no-color"]).env("CLICOLOR_FORCE", "1"),
    ];
    for builder in builders {
        let what = format!("{builder:?}");
        let terminal = builder.start();
        tour(&terminal).await;
        let sgr = sgr(&terminal.raw());
        assert!(!sgr.is_empty());
        let wrong: Vec<_> = sgr.iter().filter(|parameters| sets_colour(parameters)).collect();
        assert!(wrong.is_empty(), "{wrong:?}: {what}");
    }
    // Otherwise there are some: this would be seen.
    let terminal = scene.screen(&[]).start();
    tour(&terminal).await;
    assert!(sgr(&terminal.raw()).iter().any(|parameters| sets_colour(parameters)));
}

#[tokio::test]
async fn with_ascii_nothing_else_is_written() {
    let scene = Scene::new("ascii").await;
    scene.lock("a", &["部署 \u{202e}", "é\u{9b}", "x"]).await;
    let other = scene.lock("部署 \u{202e} ⟨é⟩ …", &["y"]).await;
    scene.client.raw.mkdir(&format!("{other}/ïgnored")).await;
    for index in 0..30 {
        scene.lock(&format!("a/more {index}"), &["z"; 1]).await;
    }
    let terminal = scene.screen(&["--ascii"]).start();
    tour(&terminal).await;
    let raw = terminal.raw();
    let high = raw.iter().position(|byte| !byte.is_ascii());
    let around = high.map(|at| String::from_utf8_lossy(&raw[at.saturating_sub(80)..][..100]));
    assert!(around.is_none(), "{around:?}");
    // Otherwise there are some: this would be seen.
    let terminal = scene.screen(&[]).start();
    tour(&terminal).await;
    assert!(!terminal.raw().is_ascii());

    let show = ["show", &other, "--ascii"];
    let missing = format!("{}/é", scene.root);
    for args in [
        &["list", "--ascii"][..],
        &show,
        &["list", "--json", "--ascii"],
        &["show", &other, "--json", "--ascii"],
        &["show", &missing, "--ascii"],
    ] {
        let output = scene.output(args).await;
        assert!(output.stdout.is_ascii(), "{args:?}: {}", text(&output.stdout));
        assert!(output.stderr.is_ascii(), "{args:?}: {}", text(&output.stderr));
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    }
}

#[tokio::test]
async fn where_nobody_can_be_asked_it_does_not_hang() {
    // Nothing answers there, and it says so after the time it was given.
    let scene = Scene::new("silent").await;
    let proxy = Proxy::start(&scene.connect()).await;
    proxy.blackhole(true);
    let connect = proxy.connect_string();
    let args = ["list", "--connect", &connect, "--connect-timeout", "1"];
    let output = inspect::output(&args).await;
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    let message = text(&output.stderr);
    assert!(message.starts_with("zk-inspect: ") && message.contains(&connect), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    // The screen is left at once, whatever the server does.
    let terminal = plain(Terminal::builder(zk_inspect())).args(&args[1..3]).start();
    terminal.wait_text(" CONNECTING ", SOON).await;
    quit(&terminal).await;
    proxy.heal();
    let terminal = plain(Terminal::builder(zk_inspect())).args(&args[1..3]).start();
    terminal.wait_text(" LIVE ", SOON).await;
    proxy.blackhole(true);
    terminal.send("q");
    assert_eq!(terminal.exit(SECONDS(5)).await.exit_code(), 0);
}
