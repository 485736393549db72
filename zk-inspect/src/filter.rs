//! Which locks are shown: the words of the `/` line. Pure.
//!
//! All words must match. A plain word matches the path, the kind, the holder, or the state; `!word`
//! must not match; `field:word` looks at one field. Case does not matter.

use lock_recipes::observe::ObservedLock;

use crate::row::{self, State};
use crate::text::Charset;

/// What a word looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Any,
    Path,
    State,
    Kind,
    Dialect,
    Holder,
    Session,
    Token,
}

/// The fields that can be named, for the help.
pub(crate) const FIELDS: &str = "path state kind dialect holder session token";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    field: Field,
    not: bool,
    text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter(Vec<Word>);

impl Filter {
    pub(crate) fn parse(text: &str) -> Self {
        let words = text.split_whitespace().map(|word| {
            let (not, word) = match word.strip_prefix('!') {
                Some(rest) => (true, rest),
                None => (false, word),
            };
            let (field, text) = match word.split_once(':') {
                Some(("path", text)) => (Field::Path, text),
                Some(("state", text)) => (Field::State, text),
                Some(("kind", text)) => (Field::Kind, text),
                Some(("dialect", text)) => (Field::Dialect, text),
                Some(("holder", text)) => (Field::Holder, text),
                Some(("session", text)) => (Field::Session, text),
                Some(("token", text)) => (Field::Token, text),
                _ => (Field::Any, word),
            };
            Word { field, not, text: text.to_lowercase() }
        });
        // Half a word, while it is typed, is none.
        Self(words.filter(|word| !word.text.is_empty()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, lock: &ObservedLock) -> bool {
        self.0.iter().all(|word| word.matches(lock) != word.not)
    }
}

impl Word {
    fn matches(&self, lock: &ObservedLock) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.text);
        let state = || has(State::of(lock).word());
        let kind = || has(lock.kind.as_str());
        let dialect = || has(row::dialect(lock));
        let holder = || lock.holders.iter().any(|holder| has(&row::name(holder, Charset::Unicode)));
        let contenders = |text: fn(&lock_recipes::observe::ObservedContender) -> Option<String>| {
            lock.contenders().filter_map(text).any(|text| has(&text))
        };
        match self.field {
            Field::Any => has(&lock.path) || state() || kind() || holder(),
            Field::Path => has(&lock.path),
            Field::State => state(),
            Field::Kind => kind(),
            Field::Dialect => dialect(),
            Field::Holder => holder(),
            Field::Session => contenders(|contender| {
                contender.facts.read().map(|facts| row::session(facts.session))
            }),
            Field::Token => {
                contenders(|contender| row::contender_token(contender).map(|t| t.to_string()))
            }
        }
    }
}
