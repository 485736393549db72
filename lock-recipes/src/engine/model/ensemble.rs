//! The ensemble: one log of writes, and servers that have applied a prefix of it.

use std::fmt;

use crate::token::FencingToken;

/// A contender's node, numbered in the order of the creates: its sequence number and its `czxid`.
pub(super) type Node = u8;
/// `session % CLIENTS` is the client it belongs to.
pub(super) type Session = u8;
/// More than any configuration has.
pub(super) const CLIENTS: u8 = 4;

pub(super) fn token(node: Node) -> FencingToken {
    FencingToken::from_czxid(i64::from(node) + 1).unwrap()
}

/// A set of small numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Set(u16);

impl Set {
    pub(super) fn contains(self, member: u8) -> bool {
        self.0 & (1 << member) != 0
    }

    pub(super) fn insert(&mut self, member: u8) {
        self.0 |= 1 << member;
    }

    pub(super) fn remove(&mut self, member: u8) {
        self.0 &= !(1 << member);
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(u8) -> bool) {
        for member in self.iter() {
            if !keep(member) {
                self.remove(member);
            }
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn lowest(self) -> Option<u8> {
        self.iter().next()
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u8> {
        (0..16).filter(move |&member| self.contains(member))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A committed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Txn {
    Create(Node),
    Delete(Node),
    Change(Node),
    /// The end of a session, and of all its nodes.
    Close(Session),
    MakeParent,
    DeleteParent,
}

/// What a server has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) nodes: Set,
    pub(super) parent: bool,
}

/// The leader's state, and the part of the log that some server has not applied yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ensemble {
    owners: Vec<Session>,
    /// The sessions that have not ended.
    pub(super) sessions: Set,
    /// Nodes that somebody deleted by hand.
    pub(super) by_hand: Set,
    pub(super) view: View,
    pub(super) log: Vec<Txn>,
}

impl Ensemble {
    pub(super) fn new(clients: u8, parent: bool) -> Self {
        let mut sessions = Set::default();
        (0..clients).for_each(|session| sessions.insert(session));
        Self {
            owners: Vec::new(),
            sessions,
            by_hand: Set::default(),
            view: View { nodes: Set::default(), parent },
            log: Vec::new(),
        }
    }

    pub(super) fn owner(&self, node: Node) -> Session {
        self.owners[usize::from(node)]
    }

    pub(super) fn end(&self) -> u8 {
        u8::try_from(self.log.len()).unwrap()
    }

    pub(super) fn live(&self, node: Node) -> bool {
        self.view.nodes.contains(node)
    }

    pub(super) fn owned_by(&self, session: Session) -> impl Iterator<Item = Node> {
        self.view.nodes.iter().filter(move |&node| self.owner(node) == session)
    }

    /// The node, or `None` without a parent.
    pub(super) fn create(&mut self, session: Session) -> Option<Node> {
        if !self.view.parent {
            return None;
        }
        let node = u8::try_from(self.owners.len()).unwrap();
        self.owners.push(session);
        self.commit(Txn::Create(node));
        Some(node)
    }

    pub(super) fn commit(&mut self, txn: Txn) {
        let mut view = self.view;
        self.apply(txn, &mut view);
        self.view = view;
        if let Txn::Close(session) = txn {
            self.sessions.remove(session);
        }
        self.log.push(txn);
    }

    pub(super) fn apply(&self, txn: Txn, view: &mut View) {
        match txn {
            Txn::Create(node) => view.nodes.insert(node),
            Txn::Delete(node) => view.nodes.remove(node),
            Txn::Close(session) => view.nodes.retain(|node| self.owner(node) != session),
            Txn::Change(_) => {}
            Txn::MakeParent => view.parent = true,
            Txn::DeleteParent => view.parent = false,
        }
    }

    pub(super) fn rename_sessions(&mut self, renamed: impl Fn(Session) -> Session) {
        self.owners.iter_mut().for_each(|owner| *owner = renamed(*owner));
        let sessions = self.sessions;
        self.sessions = Set::default();
        sessions.iter().for_each(|session| self.sessions.insert(renamed(session)));
        for txn in &mut self.log {
            if let Txn::Close(session) = txn {
                *session = renamed(*session);
            }
        }
    }

    /// Forgets the log up to `applied`, and once all of it is applied, everything but the number of
    /// the dead nodes of contenders that have ended.
    pub(super) fn truncate(&mut self, applied: u8, ended: impl Fn(Session) -> bool) {
        self.log.drain(..usize::from(applied));
        if !self.log.is_empty() {
            return;
        }
        for (node, owner) in (0..).zip(&mut self.owners) {
            if !self.view.nodes.contains(node) && ended(*owner) {
                *owner %= CLIENTS;
                self.by_hand.remove(node);
            }
        }
    }
}
