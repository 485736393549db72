//! What the keys of `zk-inspect` do, and that none of them does harm.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use inspect::{Scene, plain, quit, selected, wait_selected, zk_inspect};
use integration::pty::{Key, Screen};
use integration::server::unique_path;
use integration::{Server, Terminal, stays};
use support::{MILLIS, SECONDS, SOON, start};
use view::{Client, curator};

/// The names of the locks in the list, in order.
fn listed(screen: &Screen) -> Vec<String> {
    let lines = screen.lines();
    let rows = lines[4..lines.len() - 2].iter().take_while(|line| !line.starts_with("──"));
    let paths = rows.filter_map(|line| line.split_whitespace().find(|word| word.contains('/')));
    paths.filter_map(|path| path.rsplit('/').next()).map(str::to_owned).collect()
}

#[track_caller]
fn wait_listed(terminal: &Terminal, names: &[&str]) -> impl Future<Output = Screen> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    terminal.wait_for(format!("{names:?} are listed"), SOON, move |screen| listed(screen) == names)
}

/// Presses Esc, and waits for what it does: what comes right behind it would be read as one key with it.
async fn escape(terminal: &Terminal, then: &str) -> Screen {
    terminal.press(Key::Esc);
    terminal.wait_text(then, SOON).await
}

/// Esc as newer terminals send it, which nothing that follows can be mistaken for a part of.
const ESC: &str = "\x1b[27u";

/// Presses every key, and looks each time whether it goes on.
async fn press_all(terminal: &Terminal) {
    let all = [
        Key::Down,
        Key::Up,
        Key::PageDown,
        Key::PageUp,
        Key::End,
        Key::Home,
        Key::Left,
        Key::Right,
        Key::Enter,
        Key::Down,
        Key::End,
        Key::Up,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::Tab,
        Key::BackTab,
        Key::Backspace,
        Key::Delete,
        Key::Ctrl('d'),
        Key::Ctrl('u'),
        Key::Ctrl('f'),
        Key::Ctrl('b'),
        Key::Ctrl('l'),
        Key::Ctrl('a'),
    ];
    let goes_on = async || {
        terminal.send("?");
        terminal.wait_text(" Help ", SOON).await;
        terminal.send("?");
        terminal.wait_for("no help", SOON, |screen| !screen.contains(" Help ")).await;
    };
    for key in all {
        terminal.press(key);
        goes_on().await;
    }
    terminal.send(ESC);
    goes_on().await;
    for key in "jkhlgGyYsSsSsSsSsSsSsSsS xX019:\u{e9}".chars() {
        terminal.send(&key.to_string());
        goes_on().await;
    }
    // Space was pressed once: go on.
    terminal.send(" ");
    goes_on().await;
    for text in ["", "x", "!", "field:", "path:x !", "\u{8} \u{17}"] {
        terminal.send(&format!("/{text}"));
        terminal.wait_text("Esc clear", SOON).await;
        for key in [Key::Down, Key::Up, Key::Home, Key::End, Key::Left, Key::Right, Key::Delete] {
            terminal.press(key);
        }
        terminal.press(Key::Enter);
        goes_on().await;
        terminal.press(Key::Enter);
        terminal.send("yYjkG");
        goes_on().await;
        terminal.send(ESC);
        goes_on().await;
    }
}

#[tokio::test]
async fn without_locks_all_is_calm_and_no_key_does_harm() {
    let scene = Scene::new("nothing").await;
    let terminal = scene.live(&[]).await;
    let calm = terminal.wait_text("nothing is held and nothing is waiting below", SOON).await;
    assert!(calm.contains("0 locks  0 held  0 waiting"), "{calm}");
    press_all(&terminal).await;
    terminal.wait_text("nothing is held and nothing is waiting below", SOON).await;
    assert!(terminal.clipboard().is_empty());
    quit(&terminal).await;

    // Where there is not even the node.
    let builder = plain(Terminal::builder(zk_inspect())).args(["--connect", &scene.connect()]);
    let terminal = builder.args(["--root", &unique_path("nowhere")]).start();
    terminal.wait_text("there is no node /nowhere-", SOON).await;
    press_all(&terminal).await;
    quit(&terminal).await;
}

#[tokio::test]
async fn a_lock_that_nobody_holds_is_shown_so_and_no_key_does_harm() {
    let scene = Scene::new("free").await;
    let path = scene.folder("a").await;
    let name = scene.contend(&path, b"gone soon").await;
    let terminal = scene.live(&[]).await;
    wait_selected(&terminal, "HELD").await;
    scene.client.delete(&path, &name).await;
    let screen = wait_selected(&terminal, "FREE").await;
    assert!(screen.contains("nobody holds it, nobody waits"), "{screen}");
    press_all(&terminal).await;
    assert!(terminal.clipboard().iter().all(|text| *text == path));
    terminal.press(Key::Enter);
    let screen = terminal.wait_text("Esc back", SOON).await;
    assert!(screen.contains("nobody holds it, nobody waits"), "{screen}");
    for key in [Key::Down, Key::End, Key::PageDown, Key::Up, Key::Home, Key::PageUp, Key::Enter] {
        terminal.press(key);
    }
    terminal.send("jkgGsS y");
    terminal.wait_text("path copied", SOON).await;
    assert_eq!(terminal.clipboard().last(), Some(&path));
    terminal.send(" Y");
    terminal.wait_text("no token there", SOON).await;
    // Gone altogether, while it is open.
    assert!(scene.client.raw.delete(&path).await);
    terminal.wait_text("this lock has gone", SOON).await;
    terminal.press(Key::Down);
    terminal.send("yYG ");
    terminal.wait_text(" FROZEN ", SOON).await;
    terminal.send(" ");
    escape(&terminal, "nothing is held").await;
    quit(&terminal).await;
}

#[tokio::test]
async fn the_filter_works_while_it_is_typed_is_kept_by_enter_and_cleared_by_esc() {
    let scene = Scene::new("filtered").await;
    scene.lock("orders-1", &["alice"]).await;
    let second = scene.lock("orders-2", &["bob", "carol"]).await;
    scene.lock("stock-1", &["Alice"]).await;
    let shared = scene.folder("shared").await;
    scene.client.queue(&shared, &curator("__READ__"), b"dora").await;
    let terminal = scene.live(&[]).await;
    let all = ["orders-2", "shared", "orders-1", "stock-1"];
    wait_listed(&terminal, &all).await;
    let mut typed = String::new();
    let mut type_one = async |letter: char, names: &[&str]| {
        terminal.send(&letter.to_string());
        if letter != '/' {
            typed.push(letter);
        }
        terminal.wait_text(&format!("\n/{}", typed.trim_end()), SOON).await;
        wait_listed(&terminal, names).await;
    };
    type_one('/', &all).await;
    type_one('O', &["orders-2", "shared", "orders-1", "stock-1"]).await;
    type_one('r', &["orders-2", "shared", "orders-1"]).await;
    for letter in "ders !".chars() {
        type_one(letter, &["orders-2", "orders-1"]).await;
    }
    terminal.send("bob");
    wait_listed(&terminal, &["orders-1"]).await;
    terminal.wait_text("filter Orders !bob  (1 of 4)", SOON).await;
    terminal.press(Key::Enter);
    let screen = terminal.wait_text(" Enter open", SOON).await;
    assert!(screen.contains("filter Orders !bob  (1 of 4)"), "{screen}");
    assert_eq!(listed(&screen), ["orders-1"]);
    // It goes on where it was left, and a new lock is filtered as well.
    terminal.send("/ -x");
    wait_listed(&terminal, &[]).await;
    terminal.wait_text("no lock matches the filter; Esc clears it", SOON).await;
    scene.lock("orders-x", &["erwin"]).await;
    wait_listed(&terminal, &["orders-x"]).await;
    escape(&terminal, "5 locks").await;
    wait_listed(&terminal, &["orders-2", "shared", "orders-1", "orders-x", "stock-1"]).await;
    for (filter, names) in [
        ("holder:alice", &["orders-1", "stock-1"][..]),
        ("holder:carol", &[]),
        ("carol", &[]),
        ("state:busy", &["orders-2"]),
        ("state:read kind:rw", &["shared"]),
        ("!kind:mutex", &["shared"]),
        ("dialect:curator path:rs-1", &["orders-1"]),
        ("!state:held !dora", &["orders-2"]),
        (&format!("session:{:#x} bob", scene.client.session()), &["orders-2"]),
    ] {
        terminal.send(&format!("/{filter}"));
        wait_listed(&terminal, names).await;
        escape(&terminal, " Enter open").await;
        wait_listed(&terminal, &["orders-2", "shared", "orders-1", "orders-x", "stock-1"]).await;
    }
    // Enter and Esc outside of the line: to open what is left, and to clear it.
    terminal.send("/bob\r");
    wait_listed(&terminal, &["orders-2"]).await;
    terminal.press(Key::Enter);
    terminal.wait_text("Esc back", SOON).await;
    let screen = escape(&terminal, "filter bob").await;
    assert_eq!(listed(&screen), ["orders-2"]);
    escape(&terminal, "locks  sort").await;
    // What cannot be seen is neither opened nor copied.
    terminal.send("/nothing of the kind\ry\r");
    terminal.wait_text("no lock matches", SOON).await;
    terminal.send("?");
    terminal.wait_text(" Help ", SOON).await;
    assert!(terminal.clipboard().is_empty(), "{:?}", terminal.clipboard());
    escape(&terminal, "no lock matches").await;
    escape(&terminal, "locks  sort").await;
    assert!(listed(&terminal.screen()).contains(&"orders-2".to_owned()), "{second}");
    quit(&terminal).await;
}

#[tokio::test]
async fn what_is_pasted_is_text_in_the_filter_and_nothing_elsewhere() {
    let scene = Scene::new("pasted").await;
    scene.lock("orders", &["alice"]).await;
    scene.lock("quick", &["bob"]).await;
    let terminal = scene.live(&[]).await;
    wait_listed(&terminal, &["orders", "quick"]).await;
    let paste = |text: &str| terminal.send(&format!("\x1b[200~{text}\x1b[201~"));
    paste("q\x03sS /x\r");
    terminal.send("/");
    terminal.wait_text("Esc clear", SOON).await;
    let screen = terminal.screen();
    assert!(screen.contains("locks  sort WAIT"), "nothing was done: {screen}");
    paste("q\x03\x1b\r\nui");
    let screen = wait_listed(&terminal, &["quick"]).await;
    assert!(screen.contains("/qui"), "{screen}");
    paste(&"\u{202e}\u{9b}long ".repeat(2_000));
    wait_listed(&terminal, &[]).await;
    terminal.send("the end");
    let screen = terminal.wait_text("long the end", SOON).await;
    assert!(screen.lines()[23].starts_with("/…"), "{screen}");
    terminal.press(Key::Ctrl('u'));
    terminal.press(Key::Ctrl('k'));
    escape(&terminal, "locks  sort").await;
    wait_listed(&terminal, &["orders", "quick"]).await;
    // More keys at once than anybody reads at once.
    terminal.send(&"jk".repeat(3_000));
    quit(&terminal).await;
}

#[tokio::test]
async fn s_sorts_by_each_column_and_capital_s_the_other_way() {
    let scene = Scene::new("sorted").await;
    scene.lock("a", &["zoe"]).await;
    scene.lock("b", &["yves", "w"]).await;
    scene.lock("c", &["anna", "w", "w"]).await;
    let read = scene.folder("d").await;
    for reader in ["r1", "r2"] {
        scene.client.queue(&read, &curator("__READ__"), reader.as_bytes()).await;
    }
    let terminal = scene.screen(&[]).size(120, 24).start();
    // What was created first has the smaller token, and has been held and waited for longer.
    let columns: [(&str, &str, [&str; 4]); 8] = [
        ("WAIT", "↓", ["b", "c", "d", "a"]),
        ("QUEUE", "↓", ["c", "b", "d", "a"]),
        ("HELD", "↓", ["a", "b", "c", "d"]),
        ("STATE", "↑", ["b", "c", "d", "a"]),
        ("PATH", "↑", ["a", "b", "c", "d"]),
        ("KIND", "↑", ["b", "c", "a", "d"]),
        ("HOLDER", "↑", ["d", "c", "b", "a"]),
        ("TOKEN", "↓", ["d", "c", "b", "a"]),
    ];
    for (column, arrow, order) in columns.iter().chain(&columns[..1]) {
        let heading = format!("sort {column} {arrow}");
        terminal.wait_text(&heading, SOON).await;
        wait_listed(&terminal, order).await;
        terminal.send("S");
        let other = if *arrow == "↓" { "↑" } else { "↓" };
        let screen = terminal.wait_text(&format!("sort {column} {other}"), SOON).await;
        let last = listed(&screen);
        assert_ne!(last, *order, "{screen}");
        terminal.send("S");
        terminal.wait_text(&heading, SOON).await;
        wait_listed(&terminal, order).await;
        terminal.send("s");
    }
    terminal.wait_text("sort QUEUE", SOON).await;
    quit(&terminal).await;
}

#[tokio::test]
async fn the_selection_stays_on_its_lock_and_its_contender_when_others_come_and_go() {
    let scene = Scene::new("selected").await;
    for name in ["m1", "m3"] {
        scene.lock(name, &["holder"]).await;
    }
    let path = scene.lock("m2", &["h", "w1", "w2", "w3", "w4"]).await;
    let queue = scene.client.raw.queue(&path).await;
    let terminal = scene.live(&[]).await;
    terminal.send("/path:/\r");
    for _ in 0..4 {
        terminal.send("s");
    }
    terminal.wait_text("sort PATH ↑", SOON).await;
    wait_listed(&terminal, &["m1", "m2", "m3"]).await;
    terminal.press(Key::Down);
    wait_selected(&terminal, "/m2").await;
    // For two seconds after a key what was there keeps its place, and a new one comes below; then it
    // is sorted in. (On a busy machine the two seconds may be over too soon.)
    let (mut new, mut below) = (Vec::new(), false);
    while !below && new.len() < 9 {
        new.push(format!("a{}", new.len()));
        terminal.record(true);
        terminal.press(Key::Up);
        terminal.press(Key::Down);
        scene.lock(&new[new.len() - 1], &["holder"]).await;
        let names: Vec<_> = new.iter().map(String::as_str).chain(["m1", "m2", "m3"]).collect();
        let screen = wait_listed(&terminal, &names).await;
        assert!(selected(&screen).contains("/m2"), "{screen}");
        let name = format!("/{} ", new[new.len() - 1]);
        below = terminal.frames().iter().any(|frame| {
            let row = |part: &str| frame.lines.iter().position(|line| line.contains(part));
            row(&name) > row("/m3 ") && frame.lines.iter().any(|line| line.contains("order held"))
        });
    }
    assert!(below, "it was sorted in at once");
    // Its queue, and back to the same line.
    terminal.press(Key::Enter);
    terminal.wait_text("Esc back", SOON).await;
    terminal.send("jjj");
    wait_selected(&terminal, " w3 ").await;
    for (gone, left) in queue[..2].iter().zip(["#3", "#2"]) {
        scene.client.delete(&path, &gone.name).await;
        let number = left.trim_start_matches('#').parse::<usize>().unwrap() - 1;
        let screen = wait_selected(&terminal, &format!("> {number} ")).await;
        assert!(selected(&screen).contains(" w3 "), "{screen}");
    }
    assert!(terminal.screen().lines()[4].contains("HOLD  w2"), "{}", terminal.screen());
    // When it goes itself, whoever comes to its place is selected.
    scene.client.delete(&path, &queue[3].name).await;
    wait_selected(&terminal, " w4 ").await;
    let screen = escape(&terminal, " Enter open").await;
    assert!(selected(&screen).contains("/m2"), "{screen}");
    // The same when it comes to an end: the line that comes to its place, or the last one.
    scene.client.delete(&path, &queue[2].name).await;
    scene.client.delete(&path, &queue[4].name).await;
    assert!(scene.client.raw.delete(&path).await);
    wait_selected(&terminal, "/m3").await;
    quit(&terminal).await;
}

#[tokio::test]
async fn space_freezes_what_is_shown_until_it_is_pressed_again() {
    let scene = Scene::new("frozen").await;
    let path = scene.lock("a", &["first"]).await;
    let terminal = scene.live(&[]).await;
    wait_selected(&terminal, "first").await;
    // Another one that shows when a change would have been drawn.
    let witness = scene.live(&[]).await;
    terminal.send(" ");
    terminal.wait_text(" FROZEN ", SOON).await;
    scene.lock("b", &["other"]).await;
    scene.contend(&path, b"second").await;
    witness.wait_for("both are seen", SOON, |s| s.contains("second") && s.contains("/b ")).await;
    stays(MILLIS(300), "nothing new is shown", async || {
        let screen = terminal.screen();
        screen.contains(" FROZEN ") && !screen.contains("second") && listed(&screen) == ["a"]
    })
    .await;
    // What is frozen can be looked at, on both screens.
    terminal.press(Key::Enter);
    let screen = terminal.wait_text("Esc back", SOON).await;
    assert!(screen.contains("first") && !screen.contains("second"), "{screen}");
    assert!(screen.contains(" FROZEN "), "{screen}");
    terminal.send(" ");
    let screen = terminal.wait_text("second", SOON).await;
    assert!(screen.contains(" LIVE ") && !screen.contains("FROZEN"), "{screen}");
    let screen = escape(&terminal, " Enter open").await;
    assert_eq!(listed(&screen), ["a", "b"]);
    quit(&terminal).await;
}

#[tokio::test]
async fn y_and_capital_y_copy_exactly_the_path_and_the_token() {
    let scene = Scene::new("copied").await;
    let path = scene.lock("部署 'x' $(id) \u{202e} ", &["holder", "waiter"]).await;
    let queue = scene.client.raw.queue(&path).await;
    let token = |index: usize| format!("{:016x}", queue[index].czxid);
    let terminal = scene.live(&[]).await;
    wait_selected(&terminal, "holder").await;
    terminal.send("y");
    terminal.wait_text("path copied", SOON).await;
    terminal.send("Y");
    terminal.wait_text(&format!("token {} copied", token(0)), SOON).await;
    terminal.press(Key::Enter);
    terminal.wait_text("Esc back", SOON).await;
    terminal.send("jy");
    terminal.wait_text("path copied", SOON).await;
    terminal.send("Y");
    terminal.wait_text(&format!("token {} copied", token(1)), SOON).await;
    let node = format!("{path}/{}", queue[1].name);
    assert_eq!(terminal.clipboard(), [path.clone(), token(0), node, token(1)]);
    quit(&terminal).await;
}

#[tokio::test]
async fn without_a_server_it_says_why_and_goes_live_when_there_is_one() {
    start();
    let server = Server::start().await;
    let client = Client::connect(&server.connect_string()).await;
    let path = unique_path("later");
    client.raw.mkdir(&path).await;
    let prefix = curator("lock-");
    client.raw.create_persistent_like(&path, &prefix).await;
    server.stop().await;
    let builder = plain(Terminal::builder(zk_inspect()));
    let connect = server.connect_string();
    let args = ["--connect", &connect, "--connect-timeout", "1", "--root", &path];
    let terminal = builder.args(args).start();
    let screen = terminal.wait_text(" CONNECTING ", SECONDS(5)).await;
    assert!(screen.contains(&format!("connecting to {connect} since")), "{screen}");
    let screen = terminal.wait_text("the last try: ", SOON).await;
    assert!(screen.contains("it goes on trying; q quits"), "{screen}");
    let why = screen.line_with("the last try: ").unwrap();
    assert!(why.contains(&connect) || why.contains("connect"), "{why}");
    server.restart().await;
    terminal.wait_text(" LIVE ", SOON).await;
    wait_selected(&terminal, "(no session)").await;
    quit(&terminal).await;
}
