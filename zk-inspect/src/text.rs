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

/// Whether a character is shown as it is.
fn is_plain(c: char, charset: Charset) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control() && c != '\\' && c != charset.open();
    }
    if charset == Charset::Ascii || c == charset.open() {
        return false;
    }
    // Hangul fillers are letters that show nothing, and the Braille blank a symbol.
    let blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}');
    !blank
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

fn push(out: &mut String, c: char, charset: Charset) {
    match c {
        c if is_plain(c, charset) => out.push(c),
        '\\' => out.push_str("\\\\"),
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
    if text.chars().all(|c| is_plain(c, charset)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push(&mut out, c, charset);
    }
    Cow::Owned(out)
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
        let (part, after) = rest.split_at(length.unwrap_or(first.len_utf8()));
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_character_moves_hides_or_merges_and_no_two_look_the_same() {
        for charset in [Charset::Unicode, Charset::Ascii] {
            let mut seen = HashSet::new();
            for c in '\0'..=char::MAX {
                let text = clean(c.encode_utf8(&mut [0; 4]), charset).into_owned();
                assert!(text.chars().all(|c| !c.is_control()), "{c:?}");
                assert!(text.chars().all(|c| c.width().is_some_and(|width| width > 0)), "{c:?}");
                assert!(charset == Charset::Unicode || text.is_ascii(), "{c:?}");
                assert_eq!(width(&text), text.chars().filter_map(UnicodeWidthChar::width).sum());
                assert!(seen.insert(text), "{c:?} looks like another character");
            }
        }
    }

    #[test]
    fn what_terminals_obey_is_written_out() {
        for (text, shown) in [
            ("\x1b]52;c;ZWNobw==\x07", r"\x1b]52;c;ZWNobw==\x07"),
            ("\x1b[2J", r"\x1b[2J"),
            ("\u{9b}31m", "⟨U+009B⟩31m"),
            ("a\r\tb\n", r"a\r\tb\n"),
            ("\u{202e}kcol", "⟨U+202E⟩kcol"),
            ("a\u{200d}b", "a⟨U+200D⟩b"),
            ("e\u{301}", "e⟨U+0301⟩"),
            ("é 部署", "é 部署"),
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
