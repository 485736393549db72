//! The names of contenders: what this crate writes, every form it honours, and those it shows.
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
//!
//! Only shown, and only where they are ephemeral, because other things are named so too:
//!
//! | client | form | role |
//! |---|---|---|
//! | ZooKeeper's recipe document | `<uuid>-lock-<seq>`, `-read-`, `-write-`, `-n_` | exclusive, read, write, candidate |
//! | Solr | `<session>-<node>-n_<seq>` | candidate |
//! | `ClickHouse` | `leader_election-<seq>` | candidate |
//! | Mesos | `json.info_<seq>`, `info_<seq>`, `<seq>` | candidate |
//! | Accumulo | `zlock#<uuid>#<seq>`, `zlock-<seq>` | exclusive |
//! | zk-ruby | `ex<seq>`, `sh<seq>`, `sem<seq>` | exclusive, read, permit |
//! | `DistributedLock` (.NET) | `lock-<seq>`, `read-<seq>`, `write-<seq>`, `semaphore-<seq>` | exclusive, read, write, permit |

mod forms;

use std::fmt;
use std::sync::Arc;

use uuid::Uuid;

use self::forms::Parts;

/// The client whose way of naming a contender follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// `_c_<uuid>-lock-<sequence>`: honoured by Curator, go-zookeeper and zookeeper-client. This
    /// crate writes it unless told otherwise. Spark, Flink and Hive name their latches so.
    #[default]
    Curator,
    /// `<32 hex>__lock__<sequence>`: the only form an unmodified kazoo honours. Curator does not.
    Kazoo,
    /// `_c_<32 hex>-lock-<sequence>`.
    GoZookeeper,
    /// `x-<session>-<sequence>` and `n_<sequence>`, of ZooKeeper's own recipes. Read, never written.
    ZooKeeper,
    /// Solr's elections. This and the following are read for display only.
    Solr,
    /// `ClickHouse`'s leader elections.
    ClickHouse,
    /// Mesos masters and log replicas.
    Mesos,
    /// Accumulo's service locks.
    Accumulo,
    /// The Ruby gem `zk`.
    ZkRuby,
    /// The .NET package `DistributedLock.ZooKeeper`.
    DistributedLock,
    /// The failover controllers of HDFS and YARN: one ephemeral node, without a queue.
    Hadoop,
    /// `HBase`'s active master: one ephemeral node.
    HBase,
    /// Kafka's controller: one ephemeral node.
    Kafka,
    /// Helix's controller: one ephemeral node.
    Helix,
}

impl Dialect {
    /// The name by which tools print it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Curator => "curator",
            Self::Kazoo => "kazoo",
            Self::GoZookeeper => "go-zookeeper",
            Self::ZooKeeper => "zookeeper",
            Self::Solr => "solr",
            Self::ClickHouse => "clickhouse",
            Self::Mesos => "mesos",
            Self::Accumulo => "accumulo",
            Self::ZkRuby => "zk-ruby",
            Self::DistributedLock => "distributed-lock",
            Self::Hadoop => "hadoop",
            Self::HBase => "hbase",
            Self::Kafka => "kafka",
            Self::Helix => "helix",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
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
    /// The name by which tools print it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit => "permit",
            Self::Candidate => "candidate",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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

impl ContenderName {
    /// Recognises a child's name; `None` if it is no contender's.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        forms::parse(name).map(|parts| Self { text: name.into(), parts })
    }

    /// The name as it stands in ZooKeeper.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The client whose form it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.parts.form.dialect()
    }

    /// What it asks for.
    #[must_use]
    pub fn role(&self) -> Role {
        self.parts.form.role()
    }

    /// Whether the recipes of this crate stand in one queue with it. The other forms are only shown.
    pub(crate) fn is_honoured(&self) -> bool {
        self.parts.form.is_honoured()
    }

    /// Whether it stands in the queue of an exclusive lock. Readers and writers do: a path is meant
    /// for one recipe, and where two meet, exclusion wins.
    pub(crate) fn contends_for_exclusive(&self) -> bool {
        self.is_honoured() && matches!(self.role(), Role::Exclusive | Role::Read | Role::Write)
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
        self.parts.unique.filter(|unique| self.is_honoured() && unique.get_version_num() == 8)
    }
}

/// Whether a name is 32 hex digits and nothing else: kazoo's leases and members.
pub(crate) fn is_bare_uuid(name: &str) -> bool {
    forms::take_uuid(name, 32).is_some_and(|(_, rest)| rest.is_empty())
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
        use Dialect::{
            Accumulo, ClickHouse, Curator, DistributedLock, GoZookeeper, Kazoo, Mesos, Solr,
            ZkRuby, ZooKeeper,
        };
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
            (format!("_c_{UUID}-72057594037927936-latch-0000000015"), (Curator, Candidate, 15)),
            (format!("{UUID}-lock-0000000016"), (ZooKeeper, Exclusive, 16)),
            (format!("{UUID}-read-0000000017"), (ZooKeeper, Read, 17)),
            (format!("{UUID}-write-0000000018"), (ZooKeeper, Write, 18)),
            (format!("{UUID}-n_0000000019"), (ZooKeeper, Candidate, 19)),
            ("72057594037927936-host:8983_solr-n_0000000020".to_owned(), (Solr, Candidate, 20)),
            ("-72057594037927936-core_node1-n_0000000021".to_owned(), (Solr, Candidate, 21)),
            ("leader_election-0000000022".to_owned(), (ClickHouse, Candidate, 22)),
            ("json.info_0000000023".to_owned(), (Mesos, Candidate, 23)),
            ("0000000024".to_owned(), (Mesos, Candidate, 24)),
            (format!("zlock#{UUID}#0000000025"), (Accumulo, Exclusive, 25)),
            ("zlock-0000000026".to_owned(), (Accumulo, Exclusive, 26)),
            ("ex0000000027".to_owned(), (ZkRuby, Exclusive, 27)),
            ("sh0000000028".to_owned(), (ZkRuby, Read, 28)),
            ("sem0000000029".to_owned(), (ZkRuby, Permit, 29)),
            ("lock-0000000030".to_owned(), (DistributedLock, Exclusive, 30)),
            ("read-0000000031".to_owned(), (DistributedLock, Read, 31)),
            ("write-0000000032".to_owned(), (DistributedLock, Write, 32)),
            ("semaphore-0000000033".to_owned(), (DistributedLock, Permit, 33)),
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
            "ex000000001".to_owned(),
            "host-n_0000000001".to_owned(),
            "-n_0000000001".to_owned(),
            "zlock#abc#0000000001".to_owned(),
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
    fn no_acquisition_stands_in_a_queue_with_a_form_that_is_only_shown() {
        for shown in ["lock-0000000001", "write-0000000001", "ex0000000001", "0000000001"] {
            assert!(!ContenderName::parse(shown).unwrap().contends_for_exclusive(), "{shown}");
        }
        let honoured = [format!("{HEX}__rlock__0000000001"), "x-12-0000000001".to_owned()];
        assert!(honoured.iter().all(|name| {
            ContenderName::parse(name).is_some_and(|name| name.contends_for_exclusive())
        }));
        let latch = ContenderName::parse("n_0000000001").unwrap();
        assert!(latch.is_honoured() && !latch.contends_for_exclusive());
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
