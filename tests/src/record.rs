//! "At most one holder": who was inside, when, and with which token.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{ClockId, clock_gettime};

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who held.
    pub id: String,
    /// The fencing token of the hold; 0 where there is none.
    pub token: i64,
    /// Whether the hold may be shared with others of its kind (a read lock).
    pub shared: bool,
    /// When it began, in nanoseconds of the machine's monotonic clock.
    pub entered: u64,
    /// When it ended, if it did.
    pub left: Option<u64>,
}

impl Grant {
    fn overlaps(&self, other: &Self) -> bool {
        let before = |a: &Self, b: &Self| a.left.is_some_and(|left| left <= b.entered);
        !before(self, other) && !before(other, self)
    }
}

/// The holds that were recorded, in the order in which they began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    grants: Vec<Grant>,
}

impl History {
    /// Every hold, in order.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Who held, in order.
    pub fn order(&self) -> Vec<&str> {
        self.grants.iter().map(|grant| grant.id.as_str()).collect()
    }

    /// The tokens, in the order of the holds.
    pub fn tokens(&self) -> Vec<i64> {
        self.grants.iter().map(|grant| grant.token).collect()
    }

    /// Who is inside at the end of the record.
    pub fn holders(&self) -> Vec<&str> {
        let inside = self.grants.iter().filter(|grant| grant.left.is_none());
        inside.map(|grant| grant.id.as_str()).collect()
    }

    /// Every pair of holds that were there at the same time though one of them was exclusive.
    pub fn overlaps(&self) -> Vec<(&Grant, &Grant)> {
        let mut pairs = Vec::new();
        for (i, later) in self.grants.iter().enumerate() {
            for earlier in &self.grants[..i] {
                if !(earlier.shared && later.shared) && earlier.overlaps(later) {
                    pairs.push((earlier, later));
                }
            }
        }
        pairs
    }

    /// The largest number of holds at one time, shared or not.
    pub fn most_at_once(&self) -> usize {
        let at = |moment: u64| {
            let inside = |grant: &&Grant| {
                grant.entered <= moment && grant.left.is_none_or(|left| left > moment)
            };
            self.grants.iter().filter(inside).count()
        };
        self.grants.iter().map(|grant| at(grant.entered)).max().unwrap_or(0)
    }

    /// Panics unless every exclusive hold was alone.
    #[track_caller]
    pub fn assert_exclusive(&self) {
        let overlaps = self.overlaps();
        assert!(overlaps.is_empty(), "{} overlaps, the first: {:#?}", overlaps.len(), overlaps[0]);
    }

    /// Panics unless at most `permits` holds were there at any time.
    #[track_caller]
    pub fn assert_at_most(&self, permits: usize) {
        assert!(self.most_at_once() <= permits, "{} at once: {self:#?}", self.most_at_once());
    }

    /// Whether every exclusive hold had a larger token than all exclusive holds before it.
    pub fn tokens_increase(&self) -> bool {
        let exclusive: Vec<&Grant> = self.grants.iter().filter(|grant| !grant.shared).collect();
        exclusive.windows(2).all(|pair| pair[0].token < pair[1].token)
    }

    fn enter(&mut self, id: String, token: i64, shared: bool, at: u64) {
        assert!(
            !self.grants.iter().any(|grant| grant.id == id && grant.left.is_none()),
            "{id} enters twice"
        );
        self.grants.push(Grant { id, token, shared, entered: at, left: None });
    }

    fn leave(&mut self, id: &str, at: u64) {
        let hold =
            self.grants.iter_mut().rev().find(|grant| grant.id == id && grant.left.is_none());
        hold.unwrap_or_else(|| panic!("{id} leaves but is not inside")).left = Some(at);
    }
}

/// Records the holds of one process. Clones write to the same record.
///
/// Call [`enter`](Self::enter) right after a grant and [`leave`](Self::leave) right *before* the release:
/// then every overlap that is found was one.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    history: Arc<Mutex<History>>,
}

impl Recorder {
    /// An empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// `id` holds alone, with this token (0 if there is none).
    #[track_caller]
    pub fn enter(&self, id: impl Display, token: i64) {
        self.edit(|history, now| history.enter(id.to_string(), token, false, now));
    }

    /// `id` holds together with others of its kind.
    #[track_caller]
    pub fn enter_shared(&self, id: impl Display, token: i64) {
        self.edit(|history, now| history.enter(id.to_string(), token, true, now));
    }

    /// `id` holds no longer, or believes so no longer.
    #[track_caller]
    pub fn leave(&self, id: impl Display) {
        self.edit(|history, now| history.leave(&id.to_string(), now));
    }

    /// What was recorded so far.
    pub fn history(&self) -> History {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Panics unless every exclusive hold so far was alone.
    #[track_caller]
    pub fn assert_exclusive(&self) {
        self.history().assert_exclusive();
    }

    /// Whether every exclusive hold so far had a larger token than those before it.
    pub fn tokens_increase(&self) -> bool {
        self.history().tokens_increase()
    }

    #[track_caller]
    fn edit(&self, change: impl FnOnce(&mut History, u64)) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut history, monotonic_nanos());
    }
}

/// Records the holds of several processes in one file, one line each:
/// `enter|enter_shared|leave <id> <token> <nanos>`, written by one appending write.
///
/// The time is the machine's monotonic clock, which all its processes share. It is taken before the line
/// is written, so a process that is frozen in between does not falsify the record.
#[derive(Debug)]
pub struct FileRecorder {
    path: PathBuf,
    file: File,
}

impl FileRecorder {
    /// Appends to this file, which is made if need be.
    pub fn open(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let file =
            OpenOptions::new().append(true).create(true).open(&path).expect("the record opens");
        Self { path, file }
    }

    /// `id` holds alone, with this token (0 if there is none).
    pub fn enter(&self, id: impl Display, token: i64) {
        self.line("enter", &id, token);
    }

    /// `id` holds together with others of its kind.
    pub fn enter_shared(&self, id: impl Display, token: i64) {
        self.line("enter_shared", &id, token);
    }

    /// `id` holds no longer. May be written on behalf of a process that was killed.
    pub fn leave(&self, id: impl Display) {
        self.line("leave", &id, 0);
    }

    /// What all processes have recorded so far.
    pub fn history(&self) -> History {
        Self::read(&self.path)
    }

    /// The record in a file, without a line that is just being written.
    pub fn read(path: impl AsRef<Path>) -> History {
        let text = fs::read_to_string(path).expect("the record is readable");
        parse(text.rsplit_once('\n').map_or("", |(lines, _)| lines))
    }

    fn line(&self, verb: &str, id: &dyn Display, token: i64) {
        let nanos = monotonic_nanos();
        let line = format!("{verb} {id} {token} {nanos}\n");
        assert_eq!(line.split_whitespace().count(), 4, "an id without spaces: {id}");
        (&self.file).write_all(line.as_bytes()).expect("the record is writable");
    }
}

/// Lines may stand in another order than that of their times.
fn parse(text: &str) -> History {
    let mut lines: Vec<(u64, [&str; 3])> = text
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [verb, id, token, nanos] = fields[..] else { panic!("not a record: {line}") };
            (nanos.parse().expect("nanoseconds"), [verb, id, token])
        })
        .collect();
    lines.sort_by_key(|(nanos, _)| *nanos);
    let mut history = History::default();
    for (nanos, [verb, id, token]) in lines {
        let token = token.parse().expect("a token");
        match verb {
            "enter" => history.enter(id.to_owned(), token, false, nanos),
            "enter_shared" => history.enter(id.to_owned(), token, true, nanos),
            "leave" => history.leave(id, nanos),
            _ => panic!("not a record: {verb}"),
        }
    }
    history
}

/// The monotonic clock of the machine, the same for all its processes.
fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(nanos).expect("a time after the boot")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_one_after_the_other_are_exclusive() {
        let recorder = Recorder::new();
        for (id, token) in [("a", 1), ("b", 2)] {
            recorder.enter(id, token);
            recorder.leave(id);
        }
        recorder.assert_exclusive();
        assert!(recorder.tokens_increase());
        assert_eq!(recorder.history().order(), ["a", "b"]);
        assert_eq!(recorder.history().most_at_once(), 1);
    }

    #[test]
    #[should_panic(expected = "1 overlaps")]
    fn a_second_holder_is_found() {
        let recorder = Recorder::new();
        recorder.enter("a", 1);
        recorder.enter("b", 2);
        recorder.leave("a");
        recorder.assert_exclusive();
    }

    #[test]
    fn readers_overlap_but_not_with_a_writer() {
        let recorder = Recorder::new();
        recorder.enter_shared("r1", 1);
        recorder.enter_shared("r2", 1);
        recorder.assert_exclusive();
        recorder.enter("w", 2);
        assert_eq!(recorder.history().overlaps().len(), 2);
        assert_eq!(recorder.history().most_at_once(), 3);
    }

    #[test]
    fn a_smaller_token_later_is_found() {
        let recorder = Recorder::new();
        for (id, token) in [("a", 2), ("b", 2)] {
            recorder.enter(id, token);
            recorder.leave(id);
        }
        assert!(!recorder.tokens_increase());
    }

    #[test]
    fn the_times_count_and_not_the_order_of_lines() {
        let history = parse("leave a 0 20\nenter b 2 30\nenter a 1 10\n");
        history.assert_exclusive();
        assert_eq!(history.order(), ["a", "b"]);
        assert_eq!(history.holders(), ["b"]);
        let history = parse("leave a 0 31\nenter b 2 30\nenter a 1 10\n");
        assert_eq!(history.overlaps().len(), 1);
    }

    #[test]
    fn several_writers_share_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        let (a, b) = (FileRecorder::open(&path), FileRecorder::open(&path));
        a.enter("a", 1);
        a.leave("a");
        b.enter_shared("b", 2);
        a.enter_shared("a", 2);
        let history = FileRecorder::read(&path);
        history.assert_exclusive();
        assert_eq!(history.tokens(), [1, 2, 2]);
        assert_eq!(history.most_at_once(), 2);
        assert_eq!(history, a.history());
    }
}
