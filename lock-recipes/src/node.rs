//! The names of contenders: what this crate writes, and every form it honours.
//!
//! One table, by exact grammar. Whatever else lies among the children of a lock is not a contender.
//!
//! | client | form | role |
//! |---|---|---|
//! | lock-recipes, Curator, zookeeper-client | `_c_<uuid>-lock-<seq>` | exclusive |
//! | Curator | `_c_<uuid>-__READ__<seq>`, `_c_<uuid>-__WRIT__<seq>` | read, write |
//! | Curator | `_c_<uuid>-lease-<seq>`, `_c_<uuid>-latch-<seq>` | permit, candidate |
//! | go-zookeeper | `_c_<32 hex>-lock-<seq>` | exclusive |
//! | kazoo | `<32 hex>__lock__<seq>`, `<32 hex>-lock-<seq>`, `<32 hex>__rlock__<seq>` | exclusive, exclusive, read |
//! | ZooKeeper's own recipes | `x-<session>-<seq>`, `n_<seq>` | exclusive, candidate |

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

/// The client whose way of naming a contender follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `_c_<uuid>-lock-<sequence>`: honoured by Curator, go-zookeeper and zookeeper-client. This
    /// crate writes it unless told otherwise.
    #[default]
    Curator,
    /// `<32 hex>__lock__<sequence>`: the only form an unmodified kazoo honours. Curator does not.
    Kazoo,
    /// `_c_<32 hex>-lock-<sequence>`.
    GoZookeeper,
    /// `x-<session>-<sequence>` and `n_<sequence>`, of ZooKeeper's own recipes. Read, never written.
    ZooKeeper,
}

/// What a contender asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// To hold alone.
    Exclusive,
    /// To hold together with other readers.
    Read,
    /// To hold alone, in a queue with readers.
    Write,
    /// One of a number of permits.
    Permit,
    /// To lead.
    Candidate,
}

impl Role {
    /// Whether a contender of this role stands in the queue of an exclusive lock. Readers and
    /// writers do: a path is meant for one recipe, and where two meet, exclusion wins.
    pub(crate) fn contends_for_exclusive(self) -> bool {
        matches!(self, Self::Exclusive | Self::Read | Self::Write)
    }
}

/// The name of a contender's znode, recognised. Cheap to clone.
///
/// # Examples
///
/// ```
/// use lock_recipes::{ContenderName, Role};
///
/// let name = ContenderName::parse("8a0e3f62c3f84d71b9f0c2a4be6d8e11__lock__0000000007").unwrap();
/// assert_eq!((name.role(), name.sequence()), (Role::Exclusive, 7));
/// assert!(ContenderName::parse("config").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContenderName {
    text: Arc<str>,
    parts: Parts,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    sequence: i64,
    form: Form,
    unique: Option<Uuid>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    CuratorLock,
    CuratorRead,
    CuratorWrite,
    CuratorLease,
    CuratorLatch,
    GoLock,
    KazooLock,
    KazooDashLock,
    KazooRead,
    ZooKeeperLock,
    ZooKeeperCandidate,
}

impl ContenderName {
    /// Recognises a child's name; `None` if it is no contender's.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        parse(name).map(|parts| Self { text: name.into(), parts })
    }

    /// The name as it stands in ZooKeeper.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The client whose form it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self.parts.form {
            Form::CuratorLock
            | Form::CuratorRead
            | Form::CuratorWrite
            | Form::CuratorLease
            | Form::CuratorLatch => Dialect::Curator,
            Form::GoLock => Dialect::GoZookeeper,
            Form::KazooLock | Form::KazooDashLock | Form::KazooRead => Dialect::Kazoo,
            Form::ZooKeeperLock | Form::ZooKeeperCandidate => Dialect::ZooKeeper,
        }
    }

    /// What it asks for.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.parts.form {
            Form::CuratorLock
            | Form::GoLock
            | Form::KazooLock
            | Form::KazooDashLock
            | Form::ZooKeeperLock => Role::Exclusive,
            Form::CuratorRead | Form::KazooRead => Role::Read,
            Form::CuratorWrite => Role::Write,
            Form::CuratorLease => Role::Permit,
            Form::CuratorLatch | Form::ZooKeeperCandidate => Role::Candidate,
        }
    }

    /// The number the server appended. It orders the queue while it is healthy; past the limit of
    /// 2³¹−1 creates under one parent ZooKeeper repeats it.
    #[must_use]
    pub fn sequence(&self) -> i64 {
        self.parts.sequence
    }

    /// Whether this crate wrote it: its uuids are of version 8, which no other client uses.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own_id().is_some()
    }

    /// The uuid of the create request that made it, if this crate wrote it.
    pub(crate) fn own_id(&self) -> Option<Uuid> {
        self.parts.unique.filter(|unique| unique.get_version_num() == 8)
    }
}

/// A fresh uuid for one create request.
pub(crate) fn fresh_id() -> Uuid {
    Uuid::new_v8(Uuid::new_v4().into_bytes())
}

/// The name before the server appends the number. Only two dialects are written.
pub(crate) fn prefix(dialect: Dialect, id: Uuid) -> String {
    match dialect {
        Dialect::Kazoo => format!("{}__lock__", id.simple()),
        _ => format!("_c_{id}-lock-"),
    }
}

fn parse(name: &str) -> Option<Parts> {
    if let Some(rest) = name.strip_prefix("_c_") {
        if let Some((unique, rest)) = take_uuid(rest, 36) {
            return marked(
                rest.strip_prefix('-')?,
                Some(unique),
                &[
                    ("lock-", Form::CuratorLock),
                    ("__READ__", Form::CuratorRead),
                    ("__WRIT__", Form::CuratorWrite),
                    ("lease-", Form::CuratorLease),
                    ("latch-", Form::CuratorLatch),
                ],
            );
        }
        let (unique, rest) = take_uuid(rest, 32)?;
        return marked(rest, Some(unique), &[("-lock-", Form::GoLock)]);
    }
    if let Some((unique, rest)) = take_uuid(name, 32) {
        return marked(
            rest,
            Some(unique),
            &[
                ("__lock__", Form::KazooLock),
                ("-lock-", Form::KazooDashLock),
                ("__rlock__", Form::KazooRead),
            ],
        );
    }
    if let Some(rest) = name.strip_prefix("x-") {
        return zookeeper_lock(rest);
    }
    marked(name, None, &[("n_", Form::ZooKeeperCandidate)])
}

fn marked(rest: &str, unique: Option<Uuid>, forms: &[(&str, Form)]) -> Option<Parts> {
    forms.iter().find_map(|&(marker, form)| {
        let sequence = parse_sequence(rest.strip_prefix(marker)?)?;
        Some(Parts { sequence, form, unique })
    })
}

/// `x-<session>-<seq>`: the session in decimal, perhaps negative (Java), or in 16 hex digits (C).
fn zookeeper_lock(rest: &str) -> Option<Parts> {
    // The number may have a sign of its own: "x-12--000000001".
    let at = rest.len().checked_sub(11).filter(|_| rest.is_ascii())?;
    let (session, number) = rest.split_at(at);
    let (session, number) = match session.strip_suffix('-') {
        Some(session) if number.starts_with('-') => (session, number.to_owned()),
        _ => (session, number.strip_prefix('-')?.to_owned()),
    };
    let decimal = session.strip_prefix('-').unwrap_or(session);
    let known = !decimal.is_empty() && decimal.bytes().all(|byte| byte.is_ascii_digit())
        || session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sequence = parse_sequence(&number).filter(|_| known)?;
    Some(Parts { sequence, form: Form::ZooKeeperLock, unique: None })
}

/// A uuid in the form of `length` characters at the start: 36 with hyphens, 32 without.
fn take_uuid(text: &str, length: usize) -> Option<(Uuid, &str)> {
    let (unique, rest) = text.split_at_checked(length)?;
    let hyphens = unique.bytes().filter(|&byte| byte == b'-').count();
    if unique.starts_with('{') || hyphens != if length == 36 { 4 } else { 0 } {
        return None;
    }
    Some((Uuid::try_parse(unique).ok()?, rest))
}

/// What the server writes with `%010d`: ten digits, or a sign and nine or ten; nineteen digits are
/// the proposed form of numbers beyond 32 bits.
fn parse_sequence(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let length = match (text.len() - digits.len(), digits.len()) {
        (0, 10 | 19) | (1, 9 | 10) => digits.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    length.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for ContenderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ContenderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "8a0e3f62c3f84d71b9f0c2a4be6d8e11";
    const UUID: &str = "8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11";

    fn read(name: &str) -> Option<(Dialect, Role, i64)> {
        let name = ContenderName::parse(name)?;
        Some((name.dialect(), name.role(), name.sequence()))
    }

    #[test]
    fn every_form_of_the_table_is_recognised() {
        use Dialect::{Curator, GoZookeeper, Kazoo, ZooKeeper};
        use Role::{Candidate, Exclusive, Permit, Read, Write};
        for (name, expected) in [
            (format!("_c_{UUID}-lock-0000000001"), (Curator, Exclusive, 1)),
            (format!("_c_{UUID}-__READ__0000000002"), (Curator, Read, 2)),
            (format!("_c_{UUID}-__WRIT__0000000003"), (Curator, Write, 3)),
            (format!("_c_{UUID}-lease-0000000004"), (Curator, Permit, 4)),
            (format!("_c_{UUID}-latch-0000000005"), (Curator, Candidate, 5)),
            (format!("_c_{HEX}-lock-0000000006"), (GoZookeeper, Exclusive, 6)),
            (format!("{HEX}__lock__0000000007"), (Kazoo, Exclusive, 7)),
            (format!("{HEX}-lock-0000000008"), (Kazoo, Exclusive, 8)),
            (format!("{HEX}__rlock__0000000009"), (Kazoo, Read, 9)),
            ("x-72057594037927936-0000000010".to_owned(), (ZooKeeper, Exclusive, 10)),
            ("x--72057594037927936-0000000011".to_owned(), (ZooKeeper, Exclusive, 11)),
            ("x-0100000a3f2b0001-0000000012".to_owned(), (ZooKeeper, Exclusive, 12)),
            ("x-12--000000013".to_owned(), (ZooKeeper, Exclusive, -13)),
            ("n_0000000014".to_owned(), (ZooKeeper, Candidate, 14)),
            (format!("_c_{UUID}-lock-2147483647"), (Curator, Exclusive, 2_147_483_647)),
            (format!("_c_{UUID}-lock--2147483648"), (Curator, Exclusive, -2_147_483_648)),
            (format!("_c_{UUID}-lock--000000001"), (Curator, Exclusive, -1)),
        ] {
            assert_eq!(read(&name), Some(expected), "{name}");
        }
    }

    #[test]
    fn what_only_looks_like_a_contender_is_not_one() {
        for name in [
            String::new(),
            "config".to_owned(),
            "0-config".to_owned(),
            "lock-".to_owned(),
            "lock-12".to_owned(),
            "lock-0000000001".to_owned(),
            "block-0000000000".to_owned(),
            "2015-06-11".to_owned(),
            "x__lock__abc".to_owned(),
            "x-".to_owned(),
            "x-abc-0000000001".to_owned(),
            "x-ü2057594037927936-0000000010".to_owned(),
            "n_".to_owned(),
            "n_1".to_owned(),
            "部署".to_owned(),
            "ü".repeat(125),
            format!("_c_{UUID}-lock-"),
            format!("_c_{UUID}-lock-000000001"),
            format!("_c_{UUID}-lock-00000000001"),
            format!("_c_{UUID}-lock-+000000001"),
            format!("_c_{UUID}-lock-٠٠٠٠٠٠٠٠٠١"),
            format!("_c_{UUID}-sock-0000000001"),
            format!("_c_{UUID}lock-0000000001"),
            format!("_c_{HEX}-latch-0000000001"),
            format!("c_{UUID}-lock-0000000001"),
            format!("{UUID}__lock__0000000001"),
            format!("{HEX}__party__"),
            format!("_c_{}-lock-0000000001", "ü".repeat(18)),
        ] {
            assert_eq!(read(&name), None, "{name}");
        }
    }

    #[test]
    fn own_names_are_told_from_those_of_other_clients() {
        let id = fresh_id();
        for dialect in [Dialect::Curator, Dialect::Kazoo] {
            let name = ContenderName::parse(&format!("{}0000000001", prefix(dialect, id))).unwrap();
            assert_eq!((name.dialect(), name.own_id()), (dialect, Some(id)));
        }
        let foreign = ContenderName::parse(&format!("_c_{UUID}-lock-0000000001")).unwrap();
        assert!(!foreign.is_own());
    }
}
