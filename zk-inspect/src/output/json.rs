//! The JSON contract, schema 1: `docs/json.md` describes it. Fields may be added, never changed.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use lock_recipes::FencingToken;
use lock_recipes::observe::{Listed, Method, ObservedContender, ObservedLock};
use serde::{Serialize, Serializer};
use serde_json::ser::{self, Formatter};
use unicode_properties::{GeneralCategory as Category, UnicodeGeneralCategory};

use crate::row::{self, Session};
use crate::text::Charset;

const SCHEMA: u32 = 1;

/// Writes a document on one line.
pub(crate) fn write(out: impl Write, value: &impl Serialize, charset: Charset) -> io::Result<()> {
    value.serialize(&mut ser::Serializer::with_formatter(out, Visible(charset))).map_err(Into::into)
}

/// Writes as `\u…` what a terminal would obey and what nobody would see, as JSON itself wants it for
/// control characters of ASCII only.
#[derive(Debug)]
struct Visible(Charset);

impl Visible {
    fn escapes(&self, c: char) -> bool {
        let hidden = || {
            matches!(
                c.general_category(),
                Category::Control
                    | Category::Format
                    | Category::LineSeparator
                    | Category::ParagraphSeparator
            )
        };
        c == '\x7f' || !c.is_ascii() && (self.0 == Charset::Ascii || hidden())
    }
}

impl Formatter for Visible {
    fn write_string_fragment<W>(&mut self, out: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        let plain = |byte: u8| byte.is_ascii() && byte != 0x7f;
        if fragment.bytes().all(plain) {
            return out.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if self.escapes(c) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            } else {
                out.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }
}

/// The answer of `list` and `show`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    schema: u32,
    #[serde(serialize_with = "one_by_one")]
    locks: &'a [Arc<ObservedLock>],
    /// What could not be read, where something could not.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    denied: &'a [String],
}

impl<'a> Document<'a> {
    pub(crate) fn new(locks: &'a [Arc<ObservedLock>], denied: &'a [String]) -> Self {
        Self { schema: SCHEMA, locks, denied }
    }
}

/// What is to be written of each lock is made when it is written: there may be very many.
fn one_by_one<S: Serializer>(
    locks: &[Arc<ObservedLock>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(locks.iter().map(|lock| Lock::of(lock)))
}

#[derive(Debug, Serialize)]
struct Lock<'a> {
    path: &'a str,
    kind: &'static str,
    dialect: &'static str,
    holders: Vec<Contender<'a>>,
    waiters: Vec<Contender<'a>>,
    ignored: &'a [String],
    creates: Option<u32>,
    counter_used: Option<f64>,
}

impl<'a> Lock<'a> {
    fn of(lock: &'a ObservedLock) -> Self {
        let waiter = |contender: &'a ObservedContender| {
            let behind = Some(&*contender.behind);
            Contender { behind, ..Contender::of(contender) }
        };
        Self {
            path: &lock.path,
            kind: lock.kind.as_str(),
            dialect: row::dialect(lock),
            holders: lock.holders.iter().map(Contender::of).collect(),
            waiters: lock.waiters.iter().map(waiter).collect(),
            ignored: &lock.ignored,
            creates: lock.creates,
            counter_used: lock.counter_used(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Contender<'a> {
    node: &'a str,
    role: &'static str,
    token: Option<Text<FencingToken>>,
    session: Option<Text<Session>>,
    data: Option<&'a str>,
    data_base64: Option<String>,
    queued_at: Option<Text<Time>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<&'a [String]>,
}

impl<'a> Contender<'a> {
    fn of(contender: &'a ObservedContender) -> Self {
        let facts = contender.facts.read();
        let data = facts.map(|facts| std::str::from_utf8(&facts.data).map_err(|_| &*facts.data));
        Self {
            node: &contender.node,
            role: contender.role.as_str(),
            token: row::contender_token(contender).map(Text),
            session: facts.map(|facts| Text(Session(facts.session))),
            data: data.and_then(Result::ok),
            data_base64: data.and_then(Result::err).map(|bytes| STANDARD.encode(bytes)),
            queued_at: facts.and_then(|facts| Time::of(facts.queued_at)).map(Text),
            behind: None,
        }
    }
}

/// Written as its text, which is not kept.
#[derive(Debug)]
struct Text<T>(T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A time, in milliseconds as ZooKeeper keeps it: RFC 3339.
#[derive(Debug)]
struct Time(Timestamp);

impl Time {
    /// None beyond the calendar.
    fn of(unix: std::time::Duration) -> Option<Self> {
        let millis = i64::try_from(unix.as_millis()).ok()?;
        Timestamp::from_millisecond(millis).ok().map(Self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

/// One line of `--watch`.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    schema: u32,
    seq: u64,
    at: Option<Text<Time>>,
    #[serde(flatten)]
    change: Change<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Change<'a> {
    Lock {
        lock: Box<LockBody<'a>>,
    },
    Gone {
        path: &'a str,
    },
    Listed {
        nodes: usize,
        denied: &'a [String],
        missing: &'a [String],
        by: &'static str,
        gap_seconds: Option<f64>,
    },
    Disconnected,
}

/// A lock inside a record.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct LockBody<'a>(Lock<'a>);

impl<'a> Change<'a> {
    pub(crate) fn lock(lock: &'a ObservedLock) -> Self {
        Self::Lock { lock: Box::new(LockBody(Lock::of(lock))) }
    }

    pub(crate) fn listed(listed: &'a Listed) -> Self {
        let by = match listed.by {
            Method::Watch => "watch",
            Method::Poll(_) => "poll",
            _ => "once",
        };
        let gap = listed.gap.map(|gap| gap.until.saturating_duration_since(gap.from));
        Self::Listed {
            nodes: listed.nodes,
            denied: &listed.denied,
            missing: &listed.missing,
            by,
            gap_seconds: gap.map(|gap| gap.as_secs_f64()),
        }
    }
}

impl<'a> Record<'a> {
    pub(crate) fn new(seq: u64, now: row::Now, change: Change<'a>) -> Self {
        Self { schema: SCHEMA, seq, at: Time::of(now.unix).map(Text), change }
    }
}
