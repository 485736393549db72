//! Untrusted text, made fit to be shown: node names, paths and data come from anybody. Pure.
//!
//! What could move the cursor, reorder, hide or merge characters is written out, and no two texts
//! look the same by that: what the escapes begin with is written out too.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_properties::{GeneralCategory as Category, UnicodeGeneralCategory};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What may be printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Charset {
    #[default]
    Unicode,
    Ascii,
}

impl Charset {
    const fn open(self) -> char {
        match self {
            Self::Unicode => '⟨',
            Self::Ascii => '<',
        }
    }

    const fn close(self) -> char {
        match self {
            Self::Unicode => '⟩',
            Self::Ascii => '>',
        }
    }

    /// Stands for what was cut off.
    const fn ellipsis(self) -> char {
        match self {
            Self::Unicode => '…',
            Self::Ascii => '~',
        }
    }
}

/// What has a width of its own but joins with what stands before it, so that terminals and
/// libraries disagree about the width of the two.
fn joins(c: char) -> bool {
    matches!(c,
        '\u{e33}' | '\u{eb3}' // Thai and Lao AM
        | '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}' // Hangul Jamo
        | '\u{a4f8}'..='\u{a4fd}' // Lisu tones
        | '\u{ff9e}' | '\u{ff9f}' // halfwidth Katakana sound marks
        | '\u{16d63}' | '\u{16d67}'..='\u{16d6a}' // Kirat Rai vowels
        | '\u{1f1e6}'..='\u{1f1ff}' // halves of flags
        | '\u{1f3fb}'..='\u{1f3ff}' // skin tones
    )
}

/// Letters written from right to left. Where a terminal knows that, one of them is enough to turn
/// around what follows it in its line, the next columns too. (The blocks that Unicode reserves.)
fn turns(c: char) -> bool {
    matches!(c,
        '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// What is a letter or a symbol, but shows nothing: Hangul fillers, Braille, a note without a head.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}' | '\u{1d159}')
}

/// Whether a character is shown as it is.
fn is_plain(c: char, charset: Charset) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control() && c != '\\' && c != charset.open();
    }
    charset == Charset::Unicode
        && c != charset.open()
        && !joins(c)
        && !turns(c)
        && !is_blank(c)
        && matches!(c.width(), Some(1 | 2))
        && !matches!(
            c.general_category(),
            Category::Control
                | Category::Format
                | Category::Surrogate
                | Category::PrivateUse
                | Category::Unassigned
                | Category::NonspacingMark
                | Category::SpacingMark
                | Category::EnclosingMark
                | Category::SpaceSeparator
                | Category::LineSeparator
                | Category::ParagraphSeparator
        )
}

/// Whether all blanks can be seen: none at an end, no two in a row.
fn blanks_show(text: &str) -> bool {
    !text.starts_with(' ') && !text.ends_with(' ') && !text.contains("  ")
}

fn push(out: &mut String, c: char, charset: Charset) {
    match c {
        c if is_plain(c, charset) => out.push(c),
        '\\' => out.push_str("\\\\"),
        '\0' => out.push_str("\\0"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii_control() => {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        }
        c => {
            let _ = write!(out, "{}U+{:04X}{}", charset.open(), u32::from(c), charset.close());
        }
    }
}

/// Text that may be shown, the same as it was where it may.
pub(crate) fn clean(text: &str, charset: Charset) -> Cow<'_, str> {
    if blanks_show(text) && text.chars().all(|c| is_plain(c, charset)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut after_blank = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        // Blanks that are padding, or look like the next column, would hide.
        if c == ' ' && (after_blank || chars.peek().is_none()) {
            out.push_str("\\x20");
        } else {
            push(&mut out, c, charset);
        }
        after_blank = c == ' ';
    }
    Cow::Owned(out)
}

/// The same of what is being typed, whose blanks need no marks.
pub(crate) fn typed(text: impl Iterator<Item = char>, charset: Charset) -> String {
    let mut out = String::new();
    text.for_each(|c| push(&mut out, c, charset));
    out
}

/// The same of bytes; those that are no UTF-8 become `\xff`. (Bytes below 0x80 always are, so none of
/// these stands for a control character too.)
pub(crate) fn clean_bytes(bytes: &[u8], charset: Charset) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(&clean(chunk.valid(), charset));
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// The first so many cells of data, on one line.
pub(crate) fn preview(bytes: &[u8], charset: Charset, cells: usize) -> String {
    // A character has at most four bytes and shows at least one cell.
    let head = bytes.get(..cells.saturating_mul(4) + 4).unwrap_or(bytes);
    let text = clean_bytes(head, charset);
    if width(&text) > cells { cut(&text, cells, charset) } else { text }
}

/// How many cells text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The parts that must not be cut in two: characters, and escapes.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match first {
            '⟨' => rest.find('⟩').map(|end| end + '⟩'.len_utf8()),
            '<' if rest.starts_with("<U+") => rest.find('>').map(|end| end + 1),
            '\\' if rest.starts_with("\\x") => Some(4),
            '\\' => Some(2),
            _ => None,
        };
        let length = length.filter(|&length| rest.is_char_boundary(length) && length <= rest.len());
        let (part, after) = rest.split_at(length.unwrap_or_else(|| first.len_utf8()));
        rest = after;
        Some(part)
    })
}

fn cut(text: &str, cells: usize, charset: Charset) -> String {
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    let mut out = String::new();
    let mut used = 0;
    for part in parts(text) {
        used += width(part);
        if used > room {
            break;
        }
        out.push_str(part);
    }
    out.push(charset.ellipsis());
    out
}

fn pad(mut text: String, cells: usize) -> String {
    let missing = cells.saturating_sub(width(&text));
    text.extend(std::iter::repeat_n(' ', missing));
    text
}

/// Exactly so many cells: the end is cut off, or blanks follow.
pub(crate) fn fit(text: &str, cells: usize, charset: Charset) -> String {
    if width(text) > cells {
        pad(cut(text, cells, charset), cells)
    } else {
        pad(text.to_owned(), cells)
    }
}

/// Exactly so many cells, at their right end.
pub(crate) fn fit_right(text: &str, cells: usize, charset: Charset) -> String {
    if width(text) > cells {
        return fit(text, cells, charset);
    }
    let mut out = " ".repeat(cells - width(text));
    out.push_str(text);
    out
}

/// Exactly so many cells; the beginning is cut off, since paths differ at their end.
pub(crate) fn fit_path(text: &str, cells: usize, charset: Charset) -> String {
    if width(text) <= cells {
        return pad(text.to_owned(), cells);
    }
    let Some(room) = cells.checked_sub(1) else { return String::new() };
    let mut kept: Vec<&str> = Vec::new();
    let mut used = 0;
    for part in parts(text).collect::<Vec<_>>().into_iter().rev() {
        used += width(part);
        if used > room {
            break;
        }
        kept.push(part);
    }
    let mut out = charset.ellipsis().to_string();
    out.extend(kept.into_iter().rev());
    pad(out, cells)
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    /// Random numbers, the same in every run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap() % limit
        }
    }

    fn alone(c: char, charset: Charset) -> String {
        clean(c.encode_utf8(&mut [0; 4]), charset).into_owned()
    }

    /// In which cells ratatui puts the two.
    fn lies_apart(first: char, second: char) -> bool {
        let widths = [first.width().unwrap(), second.width().unwrap()];
        let text = String::from_iter([first, second]);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 1));
        let (end, _) = buffer.set_stringn(0, 0, &text, 8, Style::new());
        usize::from(end) == widths.iter().sum::<usize>()
            && width(&text) == usize::from(end)
            && buffer.content[0].symbol().chars().eq([first])
            && buffer.content[widths[0]].symbol().chars().eq([second])
    }

    /// What a cleaned text stands for.
    fn meant(text: &str, charset: Charset) -> Vec<u8> {
        let hex = |digits: &str| u32::from_str_radix(digits, 16).unwrap();
        let mut out = Vec::new();
        for part in parts(text) {
            let code = part.strip_prefix(charset.open()).and_then(|code| code.strip_prefix("U+"));
            if let Some(code) = code.and_then(|code| code.strip_suffix(charset.close())) {
                out.extend(char::from_u32(hex(code)).unwrap().to_string().bytes());
                continue;
            }
            match part {
                r"\\" => out.push(b'\\'),
                r"\0" => out.push(0),
                r"\n" => out.push(b'\n'),
                r"\r" => out.push(b'\r'),
                r"\t" => out.push(b'\t'),
                part => match part.strip_prefix(r"\x") {
                    Some(digits) => out.push(u8::try_from(hex(digits)).unwrap()),
                    None => out.extend(part.bytes()),
                },
            }
        }
        out
    }

    /// Every character; of large blocks in which all are alike, only some.
    fn characters() -> impl Iterator<Item = char> {
        ('\0'..=char::MAX).filter(|&c| {
            let alike = matches!(c,
                '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{17000}'..='\u{18cff}'
                | '\u{20000}'..='\u{dffff}' | '\u{f0000}'..);
            !alike || u32::from(c) % 61 == 0
        })
    }

    #[test]
    fn no_character_moves_hides_or_merges_and_no_two_look_the_same() {
        for charset in [Charset::Unicode, Charset::Ascii] {
            for c in characters() {
                let text = alone(c, charset);
                assert!(text.chars().all(|c| !c.is_control()), "{c:?}");
                assert!(text.chars().all(|c| c.width().is_some_and(|width| width > 0)), "{c:?}");
                assert!(charset == Charset::Unicode || text.is_ascii(), "{c:?}");
                let cells: usize = text.chars().filter_map(UnicodeWidthChar::width).sum();
                assert_eq!(width(&text), cells);
                assert_eq!(meant(&text, charset), c.to_string().as_bytes(), "{c:?}");
            }
        }
    }

    #[test]
    fn whatever_stands_beside_it_a_character_has_cells_of_its_own() {
        for c in characters().filter(|&c| is_plain(c, Charset::Unicode)) {
            for other in ['a', '\u{300c}', '\u{ac00}', '\u{1780}', '\u{1f44d}', '\u{27e9}', c] {
                assert!(lies_apart(c, other), "{c:?} before {other:?}");
                assert!(lies_apart(other, c), "{c:?} after {other:?}");
            }
        }
    }

    #[test]
    fn no_two_byte_strings_look_the_same() {
        // Everything that escapes are made of, and every kind of byte that is none of UTF-8.
        let alphabet: [&[u8]; 22] = [
            b"\\",
            b"x",
            b"1",
            b"b",
            b"0",
            b"n",
            b" ",
            b"<",
            b">",
            b"U",
            b"+",
            b"\0",
            b"\n",
            b"\x1b",
            b"\xff",
            b"\xc2",
            b"\x9b",
            b"\xe2",
            b"\xe2\x9f\xa8",
            b"\xe2\x9f\xa9",
            b"\xe2\x80\xae",
            b"\xf0\x9f",
        ];
        let mut random = Random(2);
        for _ in 0..20_000 {
            let pieces = (0..random.below(7)).map(|_| alphabet[random.below(alphabet.len())]);
            let bytes = pieces.collect::<Vec<_>>().concat();
            for charset in [Charset::Unicode, Charset::Ascii] {
                let text = clean_bytes(&bytes, charset);
                assert_eq!(meant(&text, charset), bytes, "{text}");
                assert!(text.chars().all(|c| !c.is_control()), "{text}");
            }
        }
    }

    #[test]
    fn random_text_fills_exactly_the_cells_and_ratatui_agrees() {
        let mut random = Random(1);
        // Blocks with many kinds of widths, and some of everything.
        let blocks = ['\0', '\u{300}', '\u{900}', '\u{1100}', '\u{2000}', '\u{3000}', '\u{1f300}'];
        for _ in 0..300 {
            let text: String = (0..random.below(14))
                .filter_map(|_| {
                    let block = blocks[random.below(blocks.len())];
                    let all = random.below(4) == 0;
                    let offset = random.below(if all { 0x11_0000 } else { 0x100 });
                    char::from_u32(if all { 0 } else { block.into() } + u32::try_from(offset).ok()?)
                })
                .collect();
            for charset in [Charset::Unicode, Charset::Ascii] {
                let text = clean(&text, charset);
                for cells in 0..40 {
                    for fitted in [
                        fit(&text, cells, charset),
                        fit_right(&text, cells, charset),
                        fit_path(&text, cells, charset),
                    ] {
                        assert_eq!(width(&fitted), cells, "{text} in {cells}: {fitted:?}");
                        let mut buffer = Buffer::empty(Rect::new(0, 0, 99, 1));
                        let (end, _) = buffer.set_stringn(0, 0, &fitted, 99, Style::new());
                        assert_eq!(usize::from(end), cells, "{fitted:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_terminals_obey_is_written_out() {
        for (text, shown) in [
            ("\x1b]52;c;ZWNobw==\x07", r"\x1b]52;c;ZWNobw==\x07"),
            ("\x1b[2J", r"\x1b[2J"),
            ("\u{9b}31m", "⟨U+009B⟩31m"),
            ("a\r\tb\n\0", r"a\r\tb\n\0"),
            ("\u{202e}kcol", "⟨U+202E⟩kcol"),
            ("a\u{200d}b", "a⟨U+200D⟩b"),
            ("e\u{301}", "e⟨U+0301⟩"),
            ("é 部署 👍", "é 部署 👍"),
            ("👍🏽", "👍⟨U+1F3FD⟩"),
            ("1אב 2", "1⟨U+05D0⟩⟨U+05D1⟩ 2"),
            ("a b ", r"a b\x20"),
            ("a   b", r"a \x20\x20b"),
            (" ", r"\x20"),
            (r"\x1b", r"\\x1b"),
            ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟩"),
        ] {
            assert_eq!(clean(text, Charset::Unicode), shown);
        }
        assert_eq!(clean("é<U+00E9>", Charset::Ascii), "<U+00E9><U+003C>U+00E9>");
        assert_eq!(clean_bytes(b"a\xff\x1b\xc3", Charset::Unicode), r"a\xff\x1b\xc3");
    }

    #[test]
    fn whatever_the_text_exactly_so_many_cells_are_filled() {
        let texts =
            ["", "a", "/locks/orders", "部署部署部署", "\u{202e}\x1b\\部\u{301}x", "aé部b⟩"];
        for charset in [Charset::Unicode, Charset::Ascii] {
            for text in texts {
                let text = clean(text, charset);
                for cells in 0..40 {
                    for fitted in [
                        fit(&text, cells, charset),
                        fit_right(&text, cells, charset),
                        fit_path(&text, cells, charset),
                    ] {
                        assert_eq!(width(&fitted), cells, "{text} in {cells}: {fitted:?}");
                    }
                    assert!(width(&preview(text.as_bytes(), charset, cells)) <= cells);
                }
            }
        }
        assert_eq!(fit("/locks/orders", 8, Charset::Unicode), "/locks/…");
        assert_eq!(fit_path("/locks/orders", 8, Charset::Unicode), "…/orders");
        assert_eq!(fit("部署", 3, Charset::Ascii), "部~");
        assert_eq!(fit("x⟨U+202E⟩y", 6, Charset::Unicode), "x…    ");
    }
}
