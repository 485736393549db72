//! What is to be seen of a program.

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Display, Formatter};
use std::time::Instant;

use vt100::{Cell, MouseProtocolMode};

/// A screen that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it was complete.
    pub at: Instant,
    /// Its rows, without the spaces at their ends.
    pub lines: Vec<String>,
}

impl Frame {
    /// The rows as one text.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Whether this text was there.
    pub fn contains(&self, text: &str) -> bool {
        self.text().contains(text)
    }
}

/// What is to be seen at one moment. Rows and columns count from 0.
#[derive(Clone)]
pub struct Screen {
    lines: Vec<String>,
    inner: vt100::Screen,
    modes: BTreeSet<u16>,
}

impl Screen {
    pub(super) fn new(inner: vt100::Screen, modes: BTreeSet<u16>) -> Self {
        Self { lines: lines(&inner), inner, modes }
    }

    /// The rows, all of them, without the spaces at their ends.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The rows as one text.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Whether this text is there; it may contain line ends.
    pub fn contains(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// The first row that contains this text.
    pub fn line_with(&self, text: &str) -> Option<&str> {
        self.lines.iter().map(String::as_str).find(|line| line.contains(text))
    }

    /// The row and column where this text first begins.
    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        (0..).zip(&self.lines).find_map(|(row, line)| {
            let (place, mut next) = (line.find(text)?, 0);
            let up_to_there = cells(&self.inner, row).take_while(|(_, cell)| {
                let start = next;
                next += cell.contents().len().max(1);
                start <= place
            });
            let (column, _) = up_to_there.last()?;
            Some((row, column))
        })
    }

    /// One character with its colours, and whether it is bold, dim, italic, underlined or inverse.
    /// (Whether it blinks, is hidden or crossed out is not known.)
    pub fn cell(&self, row: u16, column: u16) -> &Cell {
        self.inner.cell(row, column).expect("a place on the screen")
    }

    /// The row and column of the cursor.
    pub fn cursor(&self) -> (u16, u16) {
        self.inner.cursor_position()
    }

    /// Whether the cursor is shown.
    pub fn cursor_visible(&self) -> bool {
        !self.inner.hide_cursor()
    }

    /// The number of columns and of rows.
    pub fn size(&self) -> (u16, u16) {
        let (rows, columns) = self.inner.size();
        (columns, rows)
    }

    /// Whether this is the screen of full-screen programs, which leaves the shell's untouched.
    pub fn alternate_screen(&self) -> bool {
        self.inner.alternate_screen()
    }

    /// Whether pasted text is marked as such.
    pub fn bracketed_paste(&self) -> bool {
        self.inner.bracketed_paste()
    }

    /// What is reported of the mouse.
    pub fn mouse(&self) -> MouseProtocolMode {
        self.inner.mouse_protocol_mode()
    }

    /// The other private modes (`CSI ? n h`) that are on, such as 1004, the reports of the focus.
    pub fn modes(&self) -> &BTreeSet<u16> {
        &self.modes
    }
}

impl Display for Screen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ((columns, rows), (row, column)) = (self.size(), self.cursor());
        write!(f, "{columns} columns, {rows} rows, cursor in row {row}, column {column}")?;
        let used = self.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        self.lines.iter().take(used).try_for_each(|line| write!(f, "\n│{line}"))
    }
}

impl Debug for Screen {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The cells of a row with their columns; a wide character is one.
fn cells(screen: &vt100::Screen, row: u16) -> impl Iterator<Item = (u16, &Cell)> {
    let cells =
        (0..screen.size().1).map_while(move |column| Some((column, screen.cell(row, column)?)));
    cells.filter(|(_, cell)| !cell.is_wide_continuation())
}

/// The rows, without the spaces at their ends.
pub(super) fn lines(screen: &vt100::Screen) -> Vec<String> {
    let line = |row| {
        let cells = cells(screen, row).map(|(_, cell)| cell.contents());
        let line: String = cells.map(|text| if text.is_empty() { " " } else { text }).collect();
        line.trim_end().to_owned()
    };
    (0..screen.size().0).map(line).collect()
}
