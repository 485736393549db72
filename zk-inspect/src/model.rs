//! Everything the screen knows. Pure: time comes as a value, and nothing here does I/O.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_recipes::observe::{Gap, Method, ObservedLock, Progress};
use tui_input::Input;

use crate::filter::Filter;
use crate::row::Now;
use crate::sort::Sort;
use crate::text::Charset;

pub(crate) type Locks = BTreeMap<String, Arc<ObservedLock>>;

/// For how long after a key the lines keep their places, so that nobody opens what has just jumped
/// under the cursor.
pub(crate) const CALM: Duration = Duration::from_secs(2);

/// For how long a notice stays.
const NOTICE: Duration = Duration::from_secs(4);

/// What is known of the connection.
#[derive(Clone, Debug)]
pub(crate) enum Connection {
    /// There has been none yet; what the last try ended with.
    Connecting { since: Now, error: Option<String> },
    /// Everything is being listed for the first time.
    Listing,
    /// What is shown is true.
    Live,
    /// What is shown was true then.
    Stale { since: Now },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    Locks,
    /// The queue of the lock at this path.
    Queue(String),
}

/// What a list shows: which line is selected, by identity, and which is the first one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) selected: Option<String>,
    /// Where the selection was: what comes there when it has gone is selected next.
    pub(crate) index: usize,
    pub(crate) top: usize,
    /// Somebody has chosen; until then the first line is selected, whatever it is.
    pub(crate) chosen: bool,
}

impl Cursor {
    /// Finds the selected line again, and brings it into a window of `height` lines.
    pub(crate) fn settle<'a>(
        &mut self,
        len: usize,
        height: usize,
        at: impl Fn(usize) -> Option<&'a str>,
    ) {
        if len == 0 {
            (self.index, self.top) = (0, 0);
            return;
        }
        if !self.chosen {
            (self.index, self.selected) = (0, at(0).map(str::to_owned));
        }
        let known = self.selected.as_deref();
        let still = known.is_some() && at(self.index) == known;
        if !still {
            let found = known.and_then(|known| (0..len).find(|&index| at(index) == Some(known)));
            self.index = found.unwrap_or(self.index).min(len - 1);
            if found.is_none() {
                self.selected = at(self.index).map(str::to_owned);
            }
        }
        self.scroll(len, height);
    }

    pub(crate) fn scroll(&mut self, len: usize, height: usize) {
        let height = height.max(1);
        self.top = self.top.min(len.saturating_sub(height));
        if self.index < self.top {
            self.top = self.index;
        } else if self.index >= self.top + height {
            self.top = self.index + 1 - height;
        }
    }
}

#[derive(Debug)]
pub(crate) struct Model {
    /// What stands in the header.
    pub(crate) cluster: String,
    pub(crate) roots: String,
    pub(crate) charset: Charset,
    pub(crate) log: Option<String>,

    /// What ZooKeeper says.
    pub(crate) locks: Locks,
    pub(crate) connection: Connection,
    pub(crate) progress: Option<Progress>,
    pub(crate) denied: Vec<String>,
    pub(crate) missing: Vec<String>,
    pub(crate) by: Method,
    pub(crate) gaps: usize,
    pub(crate) last_gap: Option<Gap>,

    /// What is shown instead of it, since when.
    pub(crate) frozen: Option<(Locks, Now)>,
    pub(crate) screen: Screen,
    pub(crate) size: (u16, u16),
    pub(crate) filter: Filter,
    pub(crate) prompt: Option<Input>,
    /// The text of the filter as it was typed.
    pub(crate) filter_text: String,
    pub(crate) sort: Sort,
    /// The paths of the lines, in their order.
    pub(crate) order: Vec<String>,
    /// The lines are out of date.
    pub(crate) unsorted: bool,
    pub(crate) calm_until: Option<Instant>,
    pub(crate) list: Cursor,
    pub(crate) queue: Cursor,
    pub(crate) help: Option<usize>,
    pub(crate) notice: Option<(String, Instant)>,
}

impl Model {
    pub(crate) fn new(cluster: String, roots: String, charset: Charset, now: Now) -> Self {
        Self {
            cluster,
            roots,
            charset,
            log: None,
            locks: Locks::new(),
            connection: Connection::Connecting { since: now, error: None },
            progress: None,
            denied: Vec::new(),
            missing: Vec::new(),
            by: Method::Watch,
            gaps: 0,
            last_gap: None,
            frozen: None,
            screen: Screen::Locks,
            size: (80, 24),
            filter: Filter::default(),
            prompt: None,
            filter_text: String::new(),
            sort: Sort::default(),
            order: Vec::new(),
            unsorted: false,
            calm_until: None,
            list: Cursor::default(),
            queue: Cursor::default(),
            help: None,
            notice: None,
        }
    }

    /// The locks that are shown.
    pub(crate) fn shown(&self) -> &Locks {
        self.frozen.as_ref().map_or(&self.locks, |(locks, _)| locks)
    }

    /// The time that stands still with what is shown.
    pub(crate) fn shown_at(&self, now: Now) -> Now {
        match (&self.frozen, &self.connection) {
            (Some((_, since)), _) | (None, Connection::Stale { since }) => *since,
            (None, _) => now,
        }
    }

    /// Whether what is shown is getting old.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self.connection, Connection::Stale { .. })
    }

    /// The lock that keys are about.
    pub(crate) fn current(&self) -> Option<&Arc<ObservedLock>> {
        let path = match &self.screen {
            // What the filter hides stays selected, but cannot be meant.
            Screen::Locks => self.order.get(self.list.index)?,
            Screen::Queue(path) => path,
        };
        self.shown().get(path)
    }

    /// How many contenders the lock that is open has.
    pub(crate) fn contenders(&self) -> usize {
        self.current().map_or(0, |lock| lock.holders.len() + lock.waiters.len())
    }

    pub(crate) fn notify(&mut self, notice: impl Into<String>, now: Now) {
        self.notice = Some((notice.into(), now.at + NOTICE));
    }

    /// Brings the lines up to date: which there are at once, their order when it is calm.
    pub(crate) fn arrange(&mut self, now: Now) {
        if self.notice.as_ref().is_some_and(|(_, until)| *until <= now.at) {
            self.notice = None;
        }
        let calm = self.calm_until.is_some_and(|until| now.at < until);
        if !calm {
            self.calm_until = None;
        }
        if self.unsorted {
            let shown = self.frozen.as_ref().map_or(&self.locks, |(locks, _)| locks);
            let filter = &self.filter;
            let matching = shown.values().map(|lock| &**lock).filter(|lock| filter.matches(lock));
            if calm && !self.order.is_empty() {
                let mut new: BTreeMap<&str, &ObservedLock> =
                    matching.map(|lock| (&*lock.path, lock)).collect();
                self.order.retain(|path| new.remove(&**path).is_some());
                let new = self.sort.order(new.into_values(), now);
                self.order.extend(new);
                // Once more when it is calm no longer.
            } else {
                self.order = self.sort.order(matching, now);
                self.unsorted = false;
            }
        }
        self.settle();
    }

    /// Brings the selections into view.
    pub(crate) fn settle(&mut self) {
        let height = crate::view::list_height(self);
        let order = &self.order;
        self.list.settle(order.len(), height, |index| order.get(index).map(String::as_str));
        let lock = self.current().cloned();
        let names: Vec<&str> = lock
            .iter()
            .flat_map(|lock| lock.contenders())
            .map(|contender| &*contender.node)
            .collect();
        if matches!(self.screen, Screen::Queue(_)) {
            self.queue.settle(names.len(), height, |index| names.get(index).copied());
        }
    }

    /// When something on the screen changes although nothing happens.
    pub(crate) fn next_change(&self, now: Now) -> Option<Duration> {
        let calm = self.calm_until.filter(|_| self.unsorted).map(|until| until - now.at);
        let notice = self.notice.as_ref().map(|(_, until)| until.saturating_duration_since(now.at));
        // The clock, and the ages.
        let second = Duration::from_secs(1)
            .saturating_sub(Duration::from_nanos(now.unix.subsec_nanos().into()));
        [calm, notice, Some(second)].into_iter().flatten().min()
    }
}
