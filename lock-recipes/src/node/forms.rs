//! The table of names: every form of a contender's name that is known, by exact grammar. Pure.

use uuid::Uuid;

use super::{Dialect, Role};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Parts {
    pub(super) sequence: i64,
    pub(super) form: Form,
    pub(super) unique: Option<Uuid>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Form {
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
    RecipeLock,
    RecipeRead,
    RecipeWrite,
    RecipeCandidate,
    SolrCandidate,
    ClickHouseCandidate,
    MesosCandidate,
    BareNumber,
    AccumuloLock,
    RubyExclusive,
    RubyShared,
    RubySemaphore,
    NetLock,
    NetRead,
    NetWrite,
    NetSemaphore,
}

impl Form {
    pub(super) fn dialect(self) -> Dialect {
        match self {
            Self::CuratorLock
            | Self::CuratorRead
            | Self::CuratorWrite
            | Self::CuratorLease
            | Self::CuratorLatch => Dialect::Curator,
            Self::GoLock => Dialect::GoZookeeper,
            Self::KazooLock | Self::KazooDashLock | Self::KazooRead => Dialect::Kazoo,
            Self::ZooKeeperLock
            | Self::ZooKeeperCandidate
            | Self::RecipeLock
            | Self::RecipeRead
            | Self::RecipeWrite
            | Self::RecipeCandidate => Dialect::ZooKeeper,
            Self::SolrCandidate => Dialect::Solr,
            Self::ClickHouseCandidate => Dialect::ClickHouse,
            Self::MesosCandidate | Self::BareNumber => Dialect::Mesos,
            Self::AccumuloLock => Dialect::Accumulo,
            Self::RubyExclusive | Self::RubyShared | Self::RubySemaphore => Dialect::ZkRuby,
            Self::NetLock | Self::NetRead | Self::NetWrite | Self::NetSemaphore => {
                Dialect::DistributedLock
            }
        }
    }

    pub(super) fn role(self) -> Role {
        match self {
            Self::CuratorLock
            | Self::GoLock
            | Self::KazooLock
            | Self::KazooDashLock
            | Self::ZooKeeperLock
            | Self::RecipeLock
            | Self::AccumuloLock
            | Self::RubyExclusive
            | Self::NetLock => Role::Exclusive,
            Self::CuratorRead
            | Self::KazooRead
            | Self::RecipeRead
            | Self::RubyShared
            | Self::NetRead => Role::Read,
            Self::CuratorWrite | Self::RecipeWrite | Self::NetWrite => Role::Write,
            Self::CuratorLease | Self::RubySemaphore | Self::NetSemaphore => Role::Permit,
            Self::CuratorLatch
            | Self::ZooKeeperCandidate
            | Self::RecipeCandidate
            | Self::SolrCandidate
            | Self::ClickHouseCandidate
            | Self::MesosCandidate
            | Self::BareNumber => Role::Candidate,
        }
    }

    /// Whether acquisitions of this crate stand in one queue with it. The other forms are only
    /// shown: their clients look for their own names and would not see ours.
    pub(super) fn is_honoured(self) -> bool {
        self <= Self::ZooKeeperCandidate
    }
}

/// Headed by nothing that is unique, so that anything may be called so.
const PLAIN: [(&str, Form); 14] = [
    ("n_", Form::ZooKeeperCandidate),
    ("leader_election-", Form::ClickHouseCandidate),
    ("json.info_", Form::MesosCandidate),
    ("info_", Form::MesosCandidate),
    ("zlock-", Form::AccumuloLock),
    ("lock-", Form::NetLock),
    ("read-", Form::NetRead),
    ("write-", Form::NetWrite),
    ("semaphore-", Form::NetSemaphore),
    ("ex", Form::RubyExclusive),
    ("sh", Form::RubyShared),
    ("sem", Form::RubySemaphore),
    ("x-", Form::ZooKeeperLock),
    ("", Form::BareNumber),
];

pub(super) fn parse(name: &str) -> Option<Parts> {
    if let Some(rest) = name.strip_prefix("_c_") {
        return curator(rest);
    }
    if let Some((unique, rest)) = take_uuid(name, 36) {
        let forms = [
            ("-lock-", Form::RecipeLock),
            ("-read-", Form::RecipeRead),
            ("-write-", Form::RecipeWrite),
            ("-n_", Form::RecipeCandidate),
        ];
        return marked(rest, Some(unique), &forms);
    }
    if let Some((unique, rest)) = take_uuid(name, 32) {
        let forms = [
            ("__lock__", Form::KazooLock),
            ("-lock-", Form::KazooDashLock),
            ("__rlock__", Form::KazooRead),
        ];
        return marked(rest, Some(unique), &forms);
    }
    if let Some(rest) = name.strip_prefix("zlock#") {
        let (unique, rest) = take_uuid(rest, 36)?;
        return marked(rest, Some(unique), &[("#", Form::AccumuloLock)]);
    }
    PLAIN
        .iter()
        .find_map(|&(head, form)| {
            let rest = name.strip_prefix(head)?;
            match form {
                Form::ZooKeeperLock => zookeeper_lock(rest),
                _ => Some(Parts { sequence: parse_sequence(rest)?, form, unique: None }),
            }
        })
        .or_else(|| solr(name))
}

fn curator(rest: &str) -> Option<Parts> {
    let Some((unique, rest)) = take_uuid(rest, 36) else {
        let (unique, rest) = take_uuid(rest, 32)?;
        return marked(rest, Some(unique), &[("-lock-", Form::GoLock)]);
    };
    let rest = rest.strip_prefix('-')?;
    let forms = [
        ("lock-", Form::CuratorLock),
        ("__READ__", Form::CuratorRead),
        ("__WRIT__", Form::CuratorWrite),
        ("lease-", Form::CuratorLease),
        ("latch-", Form::CuratorLatch),
    ];
    marked(rest, Some(unique), &forms).or_else(|| {
        // A branch of Curator writes the session in between.
        let (session, rest) = rest.split_once("-latch-")?;
        let number =
            Parts { sequence: parse_sequence(rest)?, form: Form::CuratorLatch, unique: None };
        is_decimal(session).then_some(Parts { unique: Some(unique), ..number })
    })
}

fn marked(rest: &str, unique: Option<Uuid>, forms: &[(&str, Form)]) -> Option<Parts> {
    forms.iter().find_map(|&(marker, form)| {
        let sequence = parse_sequence(rest.strip_prefix(marker)?)?;
        Some(Parts { sequence, form, unique })
    })
}

/// `<session>-<node or core>-n_<seq>`, the session in decimal.
fn solr(name: &str) -> Option<Parts> {
    let (head, number) = name.rsplit_once("-n_")?;
    let unsigned = head.strip_prefix('-').unwrap_or(head);
    let (session, _) = unsigned.split_once('-')?;
    let sequence = parse_sequence(number).filter(|_| is_decimal(session))?;
    Some(Parts { sequence, form: Form::SolrCandidate, unique: None })
}

/// `x-<session>-<seq>`: the session in decimal, perhaps negative (Java), or in 16 hex digits (C).
fn zookeeper_lock(rest: &str) -> Option<Parts> {
    // The number may have a sign of its own: "x-12--000000001".
    let at = rest.len().checked_sub(11).filter(|_| rest.is_ascii())?;
    let (session, number) = rest.split_at(at);
    let (session, number) = match session.strip_suffix('-') {
        Some(session) if number.starts_with('-') => (session, number),
        _ => (session, number.strip_prefix('-')?),
    };
    let known = is_decimal(session.strip_prefix('-').unwrap_or(session))
        || session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
    let sequence = parse_sequence(number).filter(|_| known)?;
    Some(Parts { sequence, form: Form::ZooKeeperLock, unique: None })
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A uuid in the form of `length` characters at the start: 36 with hyphens, 32 without.
pub(super) fn take_uuid(text: &str, length: usize) -> Option<(Uuid, &str)> {
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
