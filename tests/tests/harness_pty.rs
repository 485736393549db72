//! The harness's terminal: it shows what is printed, sends what is typed, and tells how it was left.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use integration::pty::{Color, CommandBuilder, Key, MouseProtocolMode, Signal};
use integration::{Terminal, eventually};

const LIMIT: Duration = Duration::from_secs(20);

fn bash(script: &str) -> Terminal {
    Terminal::run("bash", ["-c", script], 80, 24)
}

/// A shell with job control, at its prompt.
async fn shell() -> Terminal {
    let terminal = Terminal::builder("bash")
        .args(["--norc", "--noprofile", "-i"])
        .env("PS1", "READY> ")
        .start();
    terminal.wait_text("READY>", LIMIT).await;
    terminal
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_program_finds_a_terminal_of_this_size_and_our_directory() {
    let terminal = Terminal::run("bash", ["-c", "stty size; pwd; [ -t 0 ] && tty"], 200, 30);
    assert_eq!(terminal.exit(LIMIT).await.exit_code(), 0);
    let screen = terminal.screen();
    assert_eq!(screen.size(), (200, 30));
    assert_eq!(screen.lines().len(), 30);
    assert_eq!(screen.lines()[0], "30 200");
    assert_eq!(screen.lines()[1], std::env::current_dir().unwrap().to_str().unwrap());
    assert!(screen.lines()[2].starts_with("/dev/pts/"), "{screen}");

    let elsewhere = Terminal::builder("pwd").current_dir("/usr").start();
    elsewhere.wait_text("/usr", LIMIT).await;
    let mut command = CommandBuilder::new("pwd");
    command.cwd("/var");
    Terminal::spawn(command, 80, 24).wait_text("/var", LIMIT).await;
}

#[tokio::test]
async fn the_environment_is_that_of_a_terminal_with_colours() {
    const NAME: &str = "the_environment_is_that_of_a_terminal_with_colours";
    let names = ["NO_COLOR", "COLORTERM", "CLICOLOR_FORCE", "COLUMNS"];
    if names.iter().any(|name| std::env::var_os(name).is_none()) {
        // Once more where there is something to remove.
        let again = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .envs(names.map(|name| (name, "1")))
            .env("TERM", "dumb")
            .output()
            .unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
    }
    let script = "echo $TERM,${NO_COLOR-no},${COLORTERM-no},${CLICOLOR_FORCE-no},$A,${HOME:+home}; \
                  printenv COLUMNS";
    let terminal = Terminal::builder("bash").args(["-c", script]).env("A", "b").start();
    terminal.exit(LIMIT).await;
    assert_eq!(terminal.screen().text().trim_end(), "xterm-256color,no,no,no,b,home");
    let changed = Terminal::builder("bash").arg("-c").arg(script);
    let changed = changed.env("NO_COLOR", "1").env("TERM", "vt100").env_remove("HOME").start();
    changed.wait_text("vt100,1,no,no,,\n", LIMIT).await;
}

#[tokio::test]
async fn keys_arrive_as_a_terminal_sends_them() {
    let keys = [
        (Key::Enter, "^M"),
        (Key::Esc, "^["),
        (Key::Tab, "^I"),
        (Key::BackTab, "^[[Z"),
        (Key::Backspace, "^?"),
        (Key::Delete, "^[[3~"),
        (Key::Up, "^[[A"),
        (Key::Down, "^[[B"),
        (Key::Right, "^[[C"),
        (Key::Left, "^[[D"),
        (Key::PageUp, "^[[5~"),
        (Key::PageDown, "^[[6~"),
        (Key::Home, "^[[H"),
        (Key::End, "^[[F"),
        (Key::Ctrl('c'), "^C"),
        (Key::Ctrl('z'), "^Z"),
        (Key::Ctrl('\\'), "^\\"),
    ];
    let script = "stty raw -echo; echo ready; cat -vT";
    let terminal = Terminal::run("bash", ["-c", script], 200, 24);
    terminal.wait_text("ready", LIMIT).await;
    let mut expected = "ready\n     ".to_owned();
    for (key, shown) in keys {
        terminal.press(key);
        terminal.send(".");
        write!(expected, "{shown}.").unwrap();
    }
    terminal.send("ä");
    terminal.send_bytes(&[0xff]);
    expected.push_str("M-CM-$M-^?");
    terminal.wait_text(&expected, LIMIT).await;

    let application = bash("stty raw -echo; printf '\\033[?1hready'; cat -vT");
    application.wait_text("ready", LIMIT).await;
    application.press(Key::Up);
    application.press(Key::End);
    application.press(Key::PageUp);
    application.wait_text("ready^[OA^[OF^[[5~", LIMIT).await;
}

#[tokio::test]
async fn a_shell_controls_its_jobs() {
    let terminal = shell().await;
    terminal.send("sleep 100");
    terminal.press(Key::Enter);
    terminal.wait_text("READY> sleep 100\n", LIMIT).await;
    // Typed too early the key would be the shell's; it is repeated until the job has it.
    eventually(LIMIT, "the job is stopped", async || {
        terminal.press(Key::Ctrl('z'));
        terminal.screen().contains("Stopped").then_some(())
    })
    .await;
    terminal.send("jobs; echo jo''bs\r");
    let screen = terminal.wait_text("\njobs\nREADY>", LIMIT).await;
    assert!(screen.line_with("[1]+").unwrap().ends_with("sleep 100"), "{screen}");
    terminal.send("clear; fg\r");
    terminal.wait_for("the job is back", LIMIT, |screen| screen.lines()[0] == "sleep 100").await;
    terminal.press(Key::Ctrl('c'));
    terminal.wait_text("^C\nREADY>", LIMIT).await;
    terminal.send("exit 7\r");
    assert_eq!(terminal.exit(LIMIT).await.exit_code(), 7);
}

#[tokio::test]
async fn a_resize_reaches_the_program_and_the_screen() {
    // Not `wait`, before which bash can overlook a signal.
    // From the top: terminals differ in where they leave the cursor when they shrink.
    let script = r"trap 'printf \\33[2J\\33[r\\33[H\\n; stty size' WINCH; echo ready; while :; do sleep 0.01; done";
    let terminal = bash(script);
    terminal.wait_text("ready", LIMIT).await;
    for (columns, rows) in [(100, 40), (20, 5), (1, 1), (300, 100)] {
        terminal.resize(columns, rows);
        assert_eq!(terminal.screen().size(), (columns, rows));
        assert_eq!(terminal.screen().lines().len(), usize::from(rows));
        if columns > 1 {
            terminal.wait_text(&format!("\n{rows} {columns}\n"), LIMIT).await;
        }
    }
}

#[tokio::test]
async fn a_screen_tells_where_and_how_each_character_is_shown() {
    let script = "printf 'plain \\033[1;31mbold\\033[0m \\033[2;38;5;200mdim\\033[0m \
                  \\033[3;38;2;1;2;3mitalic\\033[0m \\033[4;44munderlined\\033[0m \
                  \\033[7minverse\\033[0m\\r\\n'; printf '日本e\u{301}語 ende   \\n\\n'; \
                  printf '\\033[5;3H'";
    let terminal = bash(script);
    terminal.exit(LIMIT).await;
    let screen = terminal.screen();
    assert_eq!(screen.lines()[0], "plain bold dim italic underlined inverse");
    assert_eq!(screen.lines()[1], "日本e\u{301}語 ende");
    assert_eq!(screen.lines()[2], "");
    assert_eq!(screen.line_with("ende"), Some("日本e\u{301}語 ende"));
    assert_eq!(screen.line_with("nowhere"), None);
    assert_eq!(screen.find("語"), Some((1, 5)));
    assert_eq!(screen.find("\u{301}"), Some((1, 4)));
    assert_eq!(screen.find("ende"), Some((1, 8)));
    assert_eq!(screen.find("plain"), Some((0, 0)));
    assert_eq!(screen.find("nowhere"), None);
    assert!(screen.contains("inverse\n日本"));
    assert_eq!(screen.cursor(), (4, 2));

    let cell = |text: &str| {
        let (row, column) = screen.find(text).unwrap();
        screen.cell(row, column)
    };
    assert_eq!(cell("bold").contents(), "b");
    let styles = |text| {
        let cell = cell(text);
        [cell.bold(), cell.dim(), cell.italic(), cell.underline(), cell.inverse()]
    };
    assert_eq!(styles("plain"), [false; 5]);
    assert_eq!(styles("bold"), [true, false, false, false, false]);
    assert_eq!(styles("dim"), [false, true, false, false, false]);
    assert_eq!(styles("italic"), [false, false, true, false, false]);
    assert_eq!(styles("underlined"), [false, false, false, true, false]);
    assert_eq!(styles("inverse"), [false, false, false, false, true]);
    let colours = ["plain", "bold", "dim", "italic"].map(|text| cell(text).fgcolor());
    assert_eq!(colours, [Color::Default, Color::Idx(1), Color::Idx(200), Color::Rgb(1, 2, 3)]);
    assert_eq!(cell("underlined").bgcolor(), Color::Idx(4));
    assert!(cell("日").is_wide());
}

#[tokio::test]
async fn a_screen_tells_the_modes_of_the_terminal() {
    let enter = "\\033[?1049h\\033[?25l\\033[?2004h\\033[?1004h\\033[?1000;1002;1003;1015;1006h";
    let leave = "\\033[?1006;1015;1003;1002;1000l\\033[?1004l\\033[?2004l\\033[?25h\\033[?1049l";
    let terminal = bash(&format!(
        "echo before; read; printf '{enter}inside'; read; printf '{leave}'; echo after"
    ));
    let before = terminal.wait_text("before", LIMIT).await;
    assert!(before.cursor_visible() && !before.alternate_screen() && !before.bracketed_paste());
    assert!(before.mouse() == MouseProtocolMode::None && before.modes().is_empty());
    terminal.press(Key::Enter);
    let inside = terminal.wait_text("inside", LIMIT).await;
    assert!(!inside.cursor_visible() && inside.alternate_screen() && inside.bracketed_paste());
    assert!(inside.mouse() == MouseProtocolMode::AnyMotion && !inside.contains("before"));
    assert_eq!(inside.modes().iter().copied().collect::<Vec<_>>(), [1004, 1015]);
    terminal.press(Key::Enter);
    let after = terminal.wait_text("after", LIMIT).await;
    assert!(after.cursor_visible() && !after.alternate_screen() && !after.bracketed_paste());
    assert!(after.mouse() == MouseProtocolMode::None && after.modes().is_empty());
    assert!(after.contains("before") && !after.contains("inside"));
}

/// What was printed contains this.
async fn printed(terminal: &Terminal, text: &str) {
    eventually(LIMIT, format!("{text:?} is printed"), async || {
        String::from_utf8_lossy(&terminal.raw()).contains(text).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_synchronized_update_is_seen_only_when_it_is_complete() {
    let terminal = bash(
        "stty -echo; printf old; read; \
         printf '\\033[?2026h\\033[H\\033[2J'; printf half; read; printf 'new\\033[?2026l'; read",
    );
    terminal.wait_text("old", LIMIT).await;
    terminal.record(true);
    terminal.press(Key::Enter);
    printed(&terminal, "half").await;
    assert_eq!(terminal.screen().text().trim_end(), "old");
    assert_eq!(terminal.frames().len(), 1);
    terminal.resize(60, 10);
    assert_eq!(terminal.screen().size(), (60, 10));
    terminal.press(Key::Enter);
    terminal.wait_text("halfnew", LIMIT).await;
    let frames: Vec<_> = terminal.frames().iter().map(|frame| frame.lines[0].clone()).collect();
    assert_eq!(frames, ["old", "halfnew"]);
}

#[tokio::test]
async fn updates_that_arrive_together_are_frames_of_their_own() {
    let update = "\\033[?2026h\\033[H\\033[2J%s\\033[?2026l";
    let terminal =
        bash(&format!("echo ready; read; printf '{update}{update}{update}rest' one one two; read"));
    terminal.wait_text("ready", LIMIT).await;
    terminal.press(Key::Enter);
    terminal.wait_text("tworest", LIMIT).await;
    assert!(terminal.frames().is_empty(), "nobody has asked for them");

    let terminal = bash(&format!(
        "stty -echo; echo ready; read; printf '{update}{update}{update}rest' one one two; read"
    ));
    terminal.wait_text("ready", LIMIT).await;
    let start = Instant::now();
    terminal.record(true);
    terminal.press(Key::Enter);
    terminal.wait_text("tworest", LIMIT).await;
    let frames = terminal.frames();
    let texts: Vec<_> = frames.iter().map(|frame| frame.text().trim_end().to_owned()).collect();
    assert_eq!(texts, ["ready", "one", "two", "tworest"]);
    assert!(frames.is_sorted_by_key(|frame| frame.at) && frames[0].at >= start);
    assert!(frames[1].contains("one") && !frames[1].contains("two"));
    terminal.record(false);
    assert!(terminal.frames().is_empty());
}

#[tokio::test]
async fn an_update_that_is_never_finished_is_seen_at_last() {
    let terminal = bash("printf 'old\\033[?2026h\\033[Hnew'; read");
    terminal.wait_text("new", LIMIT).await;
    terminal.press(Key::Enter);
    let ended = bash("printf 'old\\033[?2026h\\033[Hnew'");
    ended.exit(LIMIT).await;
    assert!(ended.screen().contains("new"));
}

#[tokio::test]
async fn without_synchronized_updates_each_change_of_the_text_is_a_frame() {
    let terminal = bash("stty -echo; echo ready; while read line; do printf \"$line\"; done");
    terminal.wait_text("ready", LIMIT).await;
    terminal.record(true);
    for text in ["one", "two"] {
        terminal.send(&format!("{text}\r"));
        terminal.wait_text(text, LIMIT).await;
    }
    // Colours are no change of the text.
    terminal.send("\\\\033[31m\r\\\\033[0m\rthree\r");
    terminal.wait_text("three", LIMIT).await;
    let frames: Vec<_> = terminal.frames().iter().map(|frame| frame.lines[1].clone()).collect();
    assert_eq!(frames, ["", "one", "onetwo", "onetwothree"]);
}

#[tokio::test]
async fn the_exit_tells_a_code_from_a_signal() {
    let terminal = bash("exit 143");
    let exit = terminal.exit(LIMIT).await;
    assert_eq!((exit.exit_code(), exit.signal()), (143, None));
    assert_eq!(terminal.try_exit().unwrap().exit_code(), 143);
    terminal.signal(Signal::KILL);

    let terminal = bash("trap 'exit 9' USR1; echo ready; while :; do read; done");
    terminal.wait_text("ready", LIMIT).await;
    assert!(terminal.try_exit().is_none() && exists(terminal.pid()));
    terminal.signal(Signal::USR1);
    assert_eq!(terminal.exit(LIMIT).await.exit_code(), 9);

    let terminal = Terminal::run("cat", [""; 0], 80, 24);
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.exit(LIMIT).await.signal(), Some("Terminated"));
}

#[tokio::test]
#[should_panic(
    expected = "\"cat\"] ends\n80 columns, 24 rows, cursor in row 0, column 6\n│silent\n"
)]
async fn a_program_that_does_not_end_is_shown() {
    let terminal = Terminal::run("cat", [""; 0], 80, 24);
    terminal.send("silent");
    terminal.wait_text("silent", LIMIT).await;
    terminal.exit(Duration::from_millis(30)).await;
}

#[tokio::test]
async fn after_the_exit_all_output_was_read() {
    for _ in 0..20 {
        let terminal = Terminal::run("seq", ["20000"], 80, 24);
        assert!(terminal.exit(LIMIT).await.success());
        assert_eq!(terminal.screen().lines()[22], "20000");
        assert_eq!(terminal.raw().split(|byte| *byte == b'\n').count(), 20001);
    }
}

#[tokio::test]
async fn a_process_that_is_left_behind_does_not_keep_the_program_from_ending() {
    let script = "setsid sleep 1000 & echo left $!; seq 20000; echo left $!";
    let terminal = bash(script);
    assert!(terminal.exit(LIMIT).await.success());
    let screen = terminal.screen();
    let left: u32 = screen.line_with("left ").unwrap().split_at(5).1.parse().unwrap();
    assert!(exists(left));
    drop(terminal);
    let kill = Command::new("kill").args(["-9", &left.to_string()]).status();
    assert!(kill.unwrap().success());
}

#[tokio::test]
async fn it_is_known_how_the_terminal_was_left() {
    let terminal = bash("read; stty raw -echo; echo raw; read -n 1; stty sane; echo cooked; read");
    let before = terminal.modes();
    assert!(terminal.cooked());
    terminal.press(Key::Enter);
    terminal.wait_text("raw", LIMIT).await;
    assert!(!terminal.cooked());
    assert_ne!(terminal.modes(), before);
    terminal.send("x");
    terminal.wait_text("cooked", LIMIT).await;
    assert!(terminal.cooked());

    for mode in ["-echo", "-icanon", "-isig", "-icrnl", "-opost", "-onlcr", "raw"] {
        let terminal = bash(&format!("stty {mode}"));
        assert!(terminal.exit(LIMIT).await.success());
        assert!(!terminal.cooked(), "{mode}");
        assert_ne!(terminal.modes(), before, "{mode}");
    }
    let terminal = bash("stty raw -echo; stty sane");
    terminal.exit(LIMIT).await;
    assert!(terminal.cooked());
    let killed = bash("stty raw -echo; echo ready; read");
    killed.wait_text("ready", LIMIT).await;
    killed.signal(Signal::KILL);
    killed.exit(LIMIT).await;
    assert!(!killed.cooked());
}

#[tokio::test]
async fn copied_texts_are_known() {
    let long = "x".repeat(3000);
    let script = format!(
        "stty -echo; read; printf '\\033]52;c;aGFsbG8=\\007'; printf '\\033]52;c;w6TDtgo=\\033\\\\'; \
         printf '\\033]52;;%s\\007' $(printf {long} | base64 -w 0); printf '\\033]2;a title\\007'"
    );
    let terminal = bash(&script);
    assert!(terminal.clipboard().is_empty());
    terminal.press(Key::Enter);
    terminal.exit(LIMIT).await;
    assert_eq!(terminal.clipboard(), ["hallo", "äö\n", &long]);
    assert_eq!(terminal.screen().text().trim_end(), "");
}

#[tokio::test]
#[should_panic(expected = "padding")]
async fn a_text_that_no_terminal_would_copy_is_noticed() {
    let terminal = bash("printf '\\033]52;c;aGFsbG8\\007'");
    terminal.exit(LIMIT).await;
    terminal.clipboard();
}

#[tokio::test]
#[should_panic(expected = "Invalid symbol")]
async fn a_text_that_is_no_base64_is_noticed() {
    let terminal = bash("printf '\\033]52;c;hallo!\\007'");
    terminal.exit(LIMIT).await;
    terminal.clipboard();
}

#[tokio::test]
async fn every_byte_is_kept_with_the_time_of_its_arrival() {
    let start = Instant::now();
    let terminal = bash("stty -echo; printf 'one\\033[?7777h'; read; printf 'two\\n\\001'");
    terminal.wait_text("one", LIMIT).await;
    let between = Instant::now();
    terminal.press(Key::Enter);
    terminal.exit(LIMIT).await;
    assert_eq!(terminal.raw(), b"one\x1b[?7777htwo\r\n\x01");
    let chunks = terminal.chunks();
    let bytes: Vec<u8> = chunks.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(bytes, terminal.raw());
    assert!(chunks.is_sorted_by_key(|(at, _)| *at) && chunks[0].0 > start);
    let early = chunks.iter().filter(|(at, _)| *at < between);
    let early: Vec<u8> = early.flat_map(|(_, bytes)| bytes.clone()).collect();
    assert_eq!(early, b"one\x1b[?7777h");
}

#[tokio::test]
#[should_panic(
    expected = "not within 30ms: a miracle\n80 columns, 24 rows, cursor in row 1, column 0\n│no miracle\n (tests/tests/harness_pty.rs:"
)]
async fn a_wait_that_fails_shows_the_screen_and_the_line_of_the_test() {
    let terminal = bash("echo no miracle; read");
    terminal.wait_text("no", LIMIT).await;
    terminal.wait_for("a miracle", Duration::from_millis(30), |_| false).await;
}

#[tokio::test]
#[should_panic(
    expected = "Exited with code 3, and not: \"miracle\" is on the screen\n80 columns, 24 rows, cursor in row 1, column 0\n│crash\n(tests/tests/harness_pty.rs:"
)]
async fn a_wait_fails_at_once_when_the_program_has_ended() {
    let terminal = bash("echo crash; exit 3");
    let wait = terminal.wait_text("miracle", Duration::from_secs(3600));
    tokio::time::timeout(LIMIT, wait).await.expect("it does not wait");
}

#[tokio::test]
async fn a_wait_succeeds_with_the_last_screen_of_an_ended_program() {
    let terminal = bash("echo last; exit 3");
    terminal.exit(LIMIT).await;
    assert!(terminal.wait_text("last", LIMIT).await.contains("last"));
}

#[tokio::test]
async fn a_dropped_terminal_leaves_no_process() {
    let terminal = shell().await;
    // A job in the background that will not hear; one that is stopped; one in the foreground.
    terminal.send(
        "bash -c 'trap \"\" HUP TERM INT; echo deaf:$((1+1)); while :; do sleep 0.01; done' &\r",
    );
    terminal.wait_text("deaf:2", LIMIT).await;
    terminal.send("sleep 1001 & kill -STOP $!; echo stopped:$((1+1))\r");
    terminal.wait_text("stopped:2", LIMIT).await;
    terminal.send("bash -c 'echo front:$((1+1)); sleep 1000'\r");
    terminal.wait_text("front:2", LIMIT).await;
    let leader = terminal.pid().to_string();
    let children = Command::new("ps").args(["-o", "pid=", "-s", &leader]).output().unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    let children: Vec<u32> = children.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(children.len() >= 4, "the shell and its jobs: {children:?}");
    assert!(children.contains(&terminal.pid()));
    drop(terminal);
    eventually(LIMIT, "all of them are gone", async || {
        (!children.iter().any(|pid| exists(*pid))).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_terminal_answers_what_programs_ask_at_their_start() {
    let terminal = bash(
        "stty -echo; printf '\\n12\\033[6n'; read -rsd R place; printf '\\033[c'; read -rsd c kind; \
         printf '%q %q' \"$place\" \"$kind\"",
    );
    terminal.wait_text("12$'\\E[2;3' $'\\E[?62;22'", LIMIT).await;
}

#[tokio::test]
async fn who_types_is_never_stuck() {
    let terminal = bash("stty raw -echo; echo ready; read -n 1; exec sleep 1000");
    terminal.wait_text("ready", LIMIT).await;
    terminal.signal(Signal::STOP);
    terminal.send(&"x".repeat(1 << 20));
    assert!(terminal.screen().contains("ready"));
    assert!(terminal.try_exit().is_none());
    drop(terminal);
}
