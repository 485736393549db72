//! The keys of a keyboard.

/// A key that is no character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they stand on the keyboard")]
pub enum Key {
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// A letter or one of ``@[\]^_`` with the control key.
    Ctrl(char),
}

impl Key {
    /// What xterm sends; programs can ask for other codes of the cursor keys.
    pub(super) fn code(self, application: bool) -> String {
        let cursor = |last| format!("\x1b{}{last}", if application { 'O' } else { '[' });
        let code = match self {
            Self::Up => return cursor('A'),
            Self::Down => return cursor('B'),
            Self::Right => return cursor('C'),
            Self::Left => return cursor('D'),
            Self::Home => return cursor('H'),
            Self::End => return cursor('F'),
            Self::Ctrl(key) => {
                let upper = key.to_ascii_uppercase();
                assert!(('@'..='_').contains(&upper), "no control key: {key:?}");
                return char::from(u8::try_from(upper).expect("ASCII") & 0x1f).into();
            }
            Self::Enter => "\r",
            Self::Esc => "\x1b",
            Self::Tab => "\t",
            Self::BackTab => "\x1b[Z",
            Self::Backspace => "\x7f",
            Self::Delete => "\x1b[3~",
            Self::PageUp => "\x1b[5~",
            Self::PageDown => "\x1b[6~",
        };
        code.into()
    }
}
