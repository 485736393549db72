//! Names and data that were made to do harm where they are shown: `zk-inspect` shows them, and no more.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

#[path = "common/inspect.rs"]
mod inspect;
mod support;
#[path = "common/view.rs"]
mod view;

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use inspect::{Scene, quit, text, wait_selected, zk_inspect};
use integration::Terminal;
use integration::pty::{Key, Screen};
use serde_json::Value;
use support::SOON;

/// Data and how it begins where it is shown.
fn data() -> Vec<(Vec<u8>, String)> {
    let long = "a line of 4 KB, ".repeat(256);
    let pairs: [(&[u8], &str); 16] = [
        (b"\x1b]52;c;ZWNobw==\x07", r"\x1b]52;c;ZWNobw==\x07"),
        (b"\x1b]52;c;ZWNobw==\x1b\\", r"\x1b]52;c;ZWNobw==\x1b\\"),
        (b"\x1b[2J\x1b[Hspoofed", r"\x1b[2J\x1b[Hspoofed"),
        (b"\x1b]0;title\x07\x1bc\x1b[?1049l", r"\x1b]0;title\x07\x1bc\x1b[?1049l"),
        (b"\x9b31mred", r"\x9b31mred"),
        ("\u{9b}31mred".as_bytes(), "⟨U+009B⟩31mred"),
        (b"over\rwritten", r"over\rwritten"),
        (b"a\tb\nc\x0b\x0c\x08\x7f", r"a\tb\nc\x0b\x0c\x08\x7f"),
        (b"nul\0nul", r"nul\0nul"),
        (long.as_bytes(), "a line of 4 KB, a line of 4 KB, a line"),
        (b"\xff\xfe\x80 bytes \xc3", r"\xff\xfe\x80\x20bytes\x20\xc3"),
        (b"\xed\xa0\x80 half a character", r"\xed\xa0\x80\x20half a character"),
        ("\u{202e}kcol\u{202c}".as_bytes(), "⟨U+202E⟩kcol⟨U+202C⟩"),
        ("部署 e\u{301} ok".as_bytes(), "部署 e⟨U+0301⟩ ok"),
        (br"\x1b]52;c;ZWNobw==\x07", r"\\x1b]52;c;ZWNobw==\\x07"),
        (b"  padded ", r"\x20\x20padded\x20"),
    ];
    pairs.map(|(data, shown)| (data.to_vec(), shown.to_owned())).into()
}

/// Nothing that data brought reaches the terminal: what is drawn needs no more than CSI sequences.
#[track_caller]
fn assert_harmless(raw: &[u8]) {
    let text = text(raw);
    assert!(!text.contains('\x07') && !text.contains("\x1b]") && !text.contains("\x1bc"));
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_control()) {
        let around: String = text.split_at(at).1.chars().take(20).collect();
        match c {
            '\x1b' => assert!(around.starts_with("\x1b["), "{around:?}"),
            _ => panic!("{c:?}: {around:?}"),
        }
    }
    for spoof in ["\x1b[Hspoofed", "\x1b[31m", "\x1b[2J\x1b[H"] {
        assert!(!text.contains(spoof), "{spoof:?}");
    }
    let hides = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{200b}'..='\u{200f}' | '\u{301}');
    assert!(!text.contains(hides));
}

/// Printed lines hold no control characters at all.
#[track_caller]
fn assert_lines(out: &[u8], lines: usize) {
    let text = text(out);
    assert_eq!(text.lines().count(), lines, "{text}");
    let bad: Vec<_> = text.chars().filter(|c| c.is_control() && *c != '\n').collect();
    assert!(bad.is_empty(), "{bad:?}: {text}");
}

#[tokio::test]
async fn data_that_would_command_the_terminal_is_written_out() {
    let scene = Scene::new("data").await;
    let all = data();
    for (index, (data, _)) in all.iter().enumerate() {
        let path = scene.folder(&format!("{index:02}")).await;
        scene.contend(&path, data).await;
        scene.contend(&path, data).await;
    }
    let path = scene.folder("every").await;
    for (data, _) in &all {
        scene.contend(&path, data).await;
    }

    // Every queue, and the list with its pane.
    let terminal = scene.screen(&[]).size(160, 40).start();
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.send("ssss");
    terminal.wait_text("sort PATH", SOON).await;
    for (index, (_, shown)) in all.iter().enumerate() {
        let screen = wait_selected(&terminal, &format!("/{index:02} ")).await;
        let row = screen.line_with(&format!("/{index:02} ")).unwrap();
        let cell = row.split_once(" mutex ").unwrap().1.trim_start().split("  ").next().unwrap();
        // Cut off if it is long, but never in an escape.
        let whole = cell.strip_suffix('…').unwrap_or(cell);
        assert!(whole.len() > 6 && shown.starts_with(whole), "{shown}: {screen}");
        terminal.press(Key::Enter);
        let screen = terminal.wait_text("Esc back", SOON).await;
        let wide: String = shown.chars().take(60).collect();
        for line in
            [screen.line_with(" HOLD "), screen.line_with(" wait "), screen.line_with(" data ")]
        {
            assert!(line.is_some_and(|line| line.contains(&*wide)), "{wide}: {screen}");
        }
        terminal.press(Key::Left);
        terminal.wait_text("Enter open", SOON).await;
        terminal.send("j");
    }
    wait_selected(&terminal, "/every ").await;
    terminal.press(Key::Enter);
    terminal.wait_text("Esc back", SOON).await;
    for _ in &all {
        terminal.send("j");
    }
    terminal.wait_text("> 15", SOON).await;
    terminal.press(Key::Left);
    // The filter shows what is typed as well.
    terminal.send("/\x1b[200~\u{202e}\u{9b}31m\x1b]52;c;ZWNobw==\x07\x1b[201~");
    terminal.wait_text("/⟨U+202E⟩31m]52;c;ZWNobw==", SOON).await;
    terminal.press(Key::Enter);
    terminal.wait_text("filter ⟨U+202E⟩31m]52", SOON).await;
    assert!(terminal.clipboard().is_empty());
    quit(&terminal).await;
    let raw = terminal.raw();
    let end = raw.windows(8).rposition(|bytes| bytes == b"\x1b[?1049l").unwrap();
    assert_harmless(&raw[..end]);

    let list = scene.output(&["list"]).await;
    assert!(list.status.success(), "{list:?}");
    assert_lines(&list.stdout, 1 + all.len() + 1);
    for (_, shown) in &all {
        let wide: String = shown.chars().take(60).collect();
        assert!(text(&list.stdout).contains(&wide), "{wide}: {}", text(&list.stdout));
    }
    let show = scene.output(&["show", &path]).await;
    assert_lines(&show.stdout, 3 + all.len());
    for (_, shown) in &all {
        let wide: String = shown.chars().take(60).collect();
        assert!(text(&show.stdout).contains(&wide), "{wide}: {}", text(&show.stdout));
    }
}

#[tokio::test]
async fn json_has_exactly_the_data_and_nothing_that_a_terminal_obeys() {
    let scene = Scene::new("json").await;
    let mut all: Vec<Vec<u8>> = data().into_iter().map(|(data, _)| data).collect();
    all.extend([Vec::new(), b"\"quoted\\\" </script>".to_vec(), vec![0; 5_000]]);
    all.extend([(0..=255).collect(), "\u{2028}\u{10ffff}\u{feff}\u{85}".into()]);
    let path = scene.folder("a").await;
    for data in &all {
        scene.contend(&path, data).await;
    }
    for args in
        [&["list", "--json"][..], &["show", &path, "--json"], &["list", "--json", "--ascii"]]
    {
        let output = scene.output(args).await;
        assert_eq!(output.status.code(), Some(0));
        assert_lines(&output.stdout, 1);
        let json = text(&output.stdout);
        assert!(!json.contains(['\u{202e}', '\u{2028}', '\u{feff}']), "{json}");
        let json: Value = serde_json::from_str(json).unwrap();
        let lock = &json["locks"][0];
        let contenders = [&lock["holders"], &lock["waiters"]].map(|list| list.as_array().unwrap());
        let told: Vec<&Value> = contenders.into_iter().flatten().collect();
        assert_eq!(told.len(), all.len());
        for (told, data) in told.iter().zip(&all) {
            if let Ok(data) = std::str::from_utf8(data) {
                assert_eq!(told["data"], *data);
                assert_eq!(told["data_base64"], Value::Null);
            } else {
                assert_eq!(told["data"], Value::Null);
                let base64 = told["data_base64"].as_str().unwrap();
                assert_eq!(STANDARD.decode(base64).unwrap(), *data);
            }
        }
    }
}

/// Names that look like one another, or disturb what stands beside them.
fn names() -> Vec<String> {
    let names = [
        "locked",
        "lock\u{202e}ed",
        "lock\u{200d}ed",
        "lock\u{200c}ed",
        "lock\u{200b}ed",
        "lock\u{ad}ed",
        "lock\u{2060}ed",
        "lock\u{feff}ed",
        "locked\u{301}",
        "locke\u{301}d",
        "lock\u{e9}d",
        "locke\u{20dd}d",
        "l\u{43e}cked",
        "lock⟨U+202E⟩ed",
        "lock\\u202eed",
        "\u{202e}dekcol",
        "a b",
        "a\u{a0}b",
        "a\u{2003}b",
        " a",
        "a ",
        "a  b",
        "a\u{3000}b",
        "部署",
        "部\u{200b}署",
        "部署\u{fe00}",
        "ﾊﾟ",
        "ハ\u{309a}",
        "パ",
        "가",
        "\u{1100}\u{1161}",
        "אב",
        "בא",
        "شمس",
        "ไทย\u{e33}",
        "\u{2800}",
        "\u{3164}",
        "…",
        "\\",
        "\\\\",
        "<U+202E>",
    ];
    let mut names: Vec<String> = names.map(str::to_owned).into();
    // As long as names get, and different at either end only.
    names.extend([
        format!("{}z", "y".repeat(249)),
        format!("x{}", "y".repeat(249)),
        "y".repeat(250),
    ]);
    names.extend(["部".repeat(83), format!("{}署", "部".repeat(82))]);
    names
}

/// The column in which this stands, and what stands before it in its line.
fn before(screen: &Screen, text: &str) -> (u16, String) {
    let (row, column) = screen.find(text).unwrap_or_else(|| panic!("{text}: {screen}"));
    let line = &screen.lines()[usize::from(row)];
    (column, line.split(text).next().unwrap().trim_end().to_owned())
}

#[tokio::test]
async fn no_two_names_of_locks_look_the_same_and_all_columns_stay_in_line() {
    let scene = Scene::new("names").await;
    let names = names();
    let mut paths = HashMap::new();
    for (index, name) in names.iter().enumerate() {
        let data = format!("data-{index:02}");
        paths.insert(format!("{}/{name}", scene.root), data.clone());
        scene.lock(name, &[&data]).await;
    }
    let data: Vec<&String> = paths.values().collect();
    // The screen, wide enough for whole names, and not.
    let terminal = scene.screen(&[]).size(600, 70).start();
    terminal.wait_text(&format!(" {} locks", names.len()), SOON).await;
    let mut screens = vec![terminal.wait_text(" LIVE ", SOON).await];
    let list = Terminal::builder(zk_inspect()).arg("list").args(scene.args()).size(900, 70).start();
    list.exit(SOON).await;
    screens.push(list.screen());
    let ascii = ["list", "--ascii"];
    let list = Terminal::builder(zk_inspect()).args(ascii).args(scene.args()).size(900, 70).start();
    list.exit(SOON).await;
    screens.push(list.screen());
    for screen in &screens {
        let places: Vec<_> = data.iter().map(|data| before(screen, data)).collect();
        let columns: HashSet<u16> = places.iter().map(|place| place.0).collect();
        assert_eq!(columns.len(), 1, "{columns:?}: {screen}");
        let looks: HashSet<&str> =
            places.iter().map(|place| place.1.trim_start_matches('>').trim_start()).collect();
        assert_eq!(looks.len(), names.len(), "{screen}");
    }
    for (columns, rows) in [(60, 70), (80, 70), (110, 70), (131, 70)] {
        terminal.resize(columns, rows);
        let what = format!("drawn with {columns} columns");
        let screen = terminal.wait_for(what, SOON, |screen| {
            screen.lines()[0].chars().count() == usize::from(columns) - 1
                && data.iter().all(|data| screen.find(data).is_some())
        });
        let screen = screen.await;
        let columns: HashSet<u16> = data.iter().map(|data| before(&screen, data).0).collect();
        assert_eq!(columns.len(), 1, "{columns:?}: {screen}");
    }
    quit(&terminal).await;
    // JSON has them as they are.
    let json = scene.output(&["list", "--json"]).await;
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let told = json["locks"].as_array().unwrap().iter().map(|lock| {
        let data = lock["holders"][0]["data"].as_str().unwrap().to_owned();
        (lock["path"].as_str().unwrap().to_owned(), data)
    });
    assert_eq!(told.collect::<HashMap<_, _>>(), paths);
    // One of them is found by its exact name.
    let path = format!("{}/lock\u{202e}ed", scene.root);
    let show = scene.output(&["show", &path]).await;
    assert_eq!(show.status.code(), Some(0));
    assert!(text(&show.stdout).starts_with(&format!("{}/lock⟨U+202E⟩ed  mutex", scene.root)));
    assert_lines(&show.stdout, 4);
}

#[tokio::test]
async fn no_two_names_of_other_children_look_the_same() {
    let scene = Scene::new("others").await;
    let path = scene.lock("a", &["holder"]).await;
    // They stand in one line, with a blank between them.
    let names: Vec<_> = names().into_iter().filter(|name| !name.contains(' ')).collect();
    for name in &names {
        scene.client.raw.mkdir(&format!("{path}/{name}")).await;
    }
    for args in [&["show", &path][..], &["show", &path, "--ascii"]] {
        let show = scene.output(args).await;
        assert_lines(&show.stdout, 5);
        let line =
            text(&show.stdout).lines().find_map(|line| line.strip_prefix("not contenders: "));
        let looks: HashSet<&str> = line.unwrap().split(' ').collect();
        assert_eq!(looks.len(), names.len(), "{line:?}");
    }
    let json = scene.output(&["show", &path, "--json"]).await;
    assert_lines(&json.stdout, 1);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let told: HashSet<&str> = json["locks"][0]["ignored"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert_eq!(told, names.iter().map(String::as_str).collect());
    // On the screen, as many as fit.
    let terminal = scene.screen(&[]).size(300, 40).start();
    terminal.wait_text(" LIVE ", SOON).await;
    terminal.press(Key::Enter);
    let ignored = format!("ignored {} no contenders: ", names.len());
    terminal.wait_text(&ignored, SOON).await;
    quit(&terminal).await;
    let raw = terminal.raw();
    let end = raw.windows(8).rposition(|bytes| bytes == b"\x1b[?1049l").unwrap();
    assert_harmless(&raw[..end]);
}
