//! Styles. Meaning never lies in colour alone: every state has a word and a sign as well.

use ratatui::style::{Color, Modifier, Style};

use crate::row::State;

/// What the terminal may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// The terminal's own 16 colours, on its own background: of these only such as can be read on a
    /// dark one and on a light one, so neither yellow nor blue.
    Color,
    /// No colour at all. (With `NO_COLOR` crossterm would turn any colour into a reset, which wipes
    /// the modifiers as well.)
    Mono,
}

impl Theme {
    /// Mono if the argument or `NO_COLOR`, set to anything, say so.
    pub(crate) fn choose(no_color: bool, variable: Option<&std::ffi::OsStr>) -> Self {
        if no_color || variable.is_some_and(|value| !value.is_empty()) {
            Self::Mono
        } else {
            Self::Color
        }
    }

    fn style(self, color: Color, modifier: Modifier) -> Style {
        let style = Style::new().add_modifier(modifier);
        match self {
            Self::Color => style.fg(color),
            Self::Mono => style,
        }
    }

    pub(crate) fn state(self, state: State) -> Style {
        match state {
            State::Busy => self.style(Color::Cyan, Modifier::BOLD),
            State::Read => self.style(Color::Cyan, Modifier::empty()),
            State::Lead | State::Held => Style::new(),
            State::Free => Style::new().add_modifier(Modifier::DIM),
        }
    }

    pub(crate) fn live(self) -> Style {
        self.style(Color::Green, Modifier::BOLD)
    }

    pub(crate) fn frozen(self) -> Style {
        self.style(Color::Magenta, Modifier::BOLD.union(Modifier::REVERSED))
    }

    pub(crate) fn stale(self) -> Style {
        self.style(Color::Red, Modifier::BOLD.union(Modifier::REVERSED))
    }

    pub(crate) fn warning(self) -> Style {
        self.style(Color::Magenta, Modifier::BOLD)
    }

    #[expect(clippy::unused_self, reason = "the same in all themes today")]
    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    #[expect(clippy::unused_self, reason = "the same in all themes today")]
    pub(crate) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    #[expect(clippy::unused_self, reason = "the same in all themes today")]
    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}
