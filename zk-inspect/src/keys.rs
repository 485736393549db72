//! What each key does: the one table, from which the help and the docs are made. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    Top,
    Bottom,
    Open,
    Back,
    Filter,
    Sort,
    Reverse,
    Freeze,
    CopyPath,
    CopyToken,
    Help,
    Repaint,
    Suspend,
    Quit,
}

/// One line of the help.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) action: Action,
    /// The keys, as people write them.
    pub(crate) keys: &'static str,
    pub(crate) does: &'static str,
}

const fn binding(action: Action, keys: &'static str, does: &'static str) -> Binding {
    Binding { action, keys, does }
}

/// Every key. `^x` is Ctrl with x.
pub(crate) const BINDINGS: [Binding; 20] = [
    binding(Action::Down, "j Down", "next line"),
    binding(Action::Up, "k Up", "line before"),
    binding(Action::PageDown, "PgDn ^f", "next page"),
    binding(Action::PageUp, "PgUp ^b", "page before"),
    binding(Action::HalfDown, "^d", "half a page down"),
    binding(Action::HalfUp, "^u", "half a page up"),
    binding(Action::Top, "g Home", "first line"),
    binding(Action::Bottom, "G End", "last line"),
    binding(Action::Open, "Enter l Right", "open the lock: its whole queue"),
    binding(Action::Back, "Esc h Left", "back; in the list: clear the filter"),
    binding(Action::Filter, "/", "filter while you type; Enter keeps it, Esc clears it"),
    binding(Action::Sort, "s", "sort by the next column"),
    binding(Action::Reverse, "S", "sort the other way"),
    binding(Action::Freeze, "Space", "freeze what is shown, and go on"),
    binding(Action::CopyPath, "y", "copy the path (in a queue: of the contender)"),
    binding(Action::CopyToken, "Y", "copy the fencing token"),
    binding(Action::Help, "? F1", "this help"),
    binding(Action::Repaint, "^l", "paint everything again"),
    binding(Action::Suspend, "^z", "suspend; fg comes back"),
    binding(Action::Quit, "q ^c", "quit"),
];

/// What a key press means outside of the filter line.
pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if key.modifiers.contains(KeyModifiers::ALT) {
        return None;
    }
    BINDINGS.iter().find_map(|binding| {
        let bound = binding.keys.split(' ').any(|name| is(name, key.code, control));
        bound.then_some(binding.action)
    })
}

/// Whether this is the key of that name.
fn is(name: &str, code: KeyCode, control: bool) -> bool {
    let mut chars = name.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some(name), None, _) => !control && code == KeyCode::Char(name),
        (Some('^'), Some(name), None) => control && code == KeyCode::Char(name),
        _ => {
            !control
                && match name {
                    "Down" => code == KeyCode::Down,
                    "Up" => code == KeyCode::Up,
                    "Left" => code == KeyCode::Left,
                    "Right" => code == KeyCode::Right,
                    "PgDn" => code == KeyCode::PageDown,
                    "PgUp" => code == KeyCode::PageUp,
                    "Home" => code == KeyCode::Home,
                    "End" => code == KeyCode::End,
                    "Enter" => code == KeyCode::Enter,
                    "Esc" => code == KeyCode::Esc,
                    "Space" => code == KeyCode::Char(' '),
                    "F1" => code == KeyCode::F(1),
                    _ => false,
                }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::State;
    use crate::sort::Column;

    #[test]
    fn the_readme_has_every_key_column_and_state() {
        let readme = include_str!("../README.md");
        for Binding { keys, does, .. } in BINDINGS {
            let keys: Vec<_> = keys.split(' ').map(|key| format!("`{key}`")).collect();
            let row = format!("| {} | {does} |", keys.join(" "));
            assert!(readme.contains(&row), "README.md lacks the key: {row}");
        }
        for column in Column::ALL {
            let row = format!("\n| {} | ", column.title());
            assert!(readme.contains(&row), "README.md lacks the column {}", column.title());
        }
        for state in State::ALL {
            let state = format!("`{} {}`", state.sign(), state.word());
            assert!(readme.contains(&state), "README.md lacks the state {state}");
        }
    }

    #[test]
    fn every_key_of_the_table_does_what_it_says_and_no_other() {
        for binding in BINDINGS {
            for name in binding.keys.split(' ') {
                let (code, modifiers) = match name {
                    "Down" => (KeyCode::Down, KeyModifiers::NONE),
                    "Up" => (KeyCode::Up, KeyModifiers::NONE),
                    "Left" => (KeyCode::Left, KeyModifiers::NONE),
                    "Right" => (KeyCode::Right, KeyModifiers::NONE),
                    "PgDn" => (KeyCode::PageDown, KeyModifiers::NONE),
                    "PgUp" => (KeyCode::PageUp, KeyModifiers::NONE),
                    "Home" => (KeyCode::Home, KeyModifiers::NONE),
                    "End" => (KeyCode::End, KeyModifiers::NONE),
                    "Enter" => (KeyCode::Enter, KeyModifiers::NONE),
                    "Esc" => (KeyCode::Esc, KeyModifiers::NONE),
                    "Space" => (KeyCode::Char(' '), KeyModifiers::NONE),
                    "F1" => (KeyCode::F(1), KeyModifiers::NONE),
                    _ => match (name.strip_prefix('^'), name.chars().last()) {
                        (Some(_), Some(c)) => (KeyCode::Char(c), KeyModifiers::CONTROL),
                        (None, Some(c)) if c.is_uppercase() => {
                            (KeyCode::Char(c), KeyModifiers::SHIFT)
                        }
                        (_, c) => (KeyCode::Char(c.unwrap()), KeyModifiers::NONE),
                    },
                };
                assert_eq!(action(KeyEvent::new(code, modifiers)), Some(binding.action), "{name}");
            }
        }
        let alt = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::ALT);
        assert_eq!(action(alt), None);
        assert_eq!(action(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE)), None);
    }
}
