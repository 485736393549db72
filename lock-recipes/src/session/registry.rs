//! Who owns what may exist on the server: every uuid of this session has exactly one owner.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::path::LockPath;

/// The owner of a node that exists, or may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A contender's task: its attempt or its guard. The node, once it is confirmed.
    Contender(Option<String>),
    /// A create that may have been executed, given up when this many resyncs had started. The next
    /// one that starts settles it.
    Abandoned(u64),
    /// The janitor deletes it.
    Janitor,
}

/// The nodes of one session, by the uuid in their names.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    owners: HashMap<Uuid, (LockPath, Owner)>,
    resyncs_started: u64,
    /// What was forgotten since the resync started that is under way: it may still be found.
    forgotten: Option<HashSet<Uuid>>,
    /// Creates that were abandoned and that no resync has settled.
    unsettled: usize,
}

impl Registry {
    /// A create is about to be sent.
    pub(crate) fn attempt(&mut self, id: Uuid, parent: LockPath) {
        self.owners.insert(id, (parent, Owner::Contender(None)));
    }

    /// Its node exists.
    pub(crate) fn confirm(&mut self, id: Uuid, node: String) {
        if let Some((_, owner)) = self.owners.get_mut(&id) {
            *owner = Owner::Contender(Some(node));
        }
    }

    /// It may exist, and nobody waits for it any more.
    pub(crate) fn abandon(&mut self, id: Uuid) {
        let started = self.resyncs_started;
        if let Some((_, owner)) = self.owners.get_mut(&id) {
            *owner = Owner::Abandoned(started);
            self.unsettled += 1;
        }
    }

    /// Whether every create that was abandoned has been settled.
    pub(crate) fn settled(&self) -> bool {
        self.unsettled == 0
    }

    /// The janitor takes it; `false` if it has it already.
    pub(crate) fn condemn(&mut self, id: Uuid, parent: LockPath) -> bool {
        let former = self.owners.insert(id, (parent, Owner::Janitor));
        !matches!(former, Some((_, Owner::Janitor)))
    }

    /// It does not exist, for certain.
    pub(crate) fn forget(&mut self, id: Uuid) {
        self.owners.remove(&id);
        if let Some(forgotten) = &mut self.forgotten {
            forgotten.insert(id);
        }
    }

    /// The number of the resync that starts now.
    pub(crate) fn start_resync(&mut self) -> u64 {
        self.resyncs_started += 1;
        self.forgotten = Some(HashSet::new());
        self.resyncs_started
    }

    /// The number of the first resync that has not started.
    pub(crate) fn next_resync(&self) -> u64 {
        self.resyncs_started + 1
    }

    /// Settles what was abandoned before the resync `number` started. `found` are the nodes that
    /// the session owns; the result is what nobody owns and the janitor must take.
    pub(crate) fn sweep(
        &mut self,
        number: u64,
        found: &HashMap<Uuid, (LockPath, String)>,
    ) -> Vec<(Uuid, LockPath, String)> {
        self.owners.retain(|id, (_, owner)| match owner {
            Owner::Abandoned(started) => *started >= number || found.contains_key(id),
            Owner::Contender(_) | Owner::Janitor => true,
        });
        let later =
            |owner: &Owner| matches!(owner, Owner::Abandoned(started) if *started >= number);
        self.unsettled = self.owners.values().filter(|(_, owner)| later(owner)).count();
        let forgotten = self.forgotten.take().unwrap_or_default();
        found
            .iter()
            .filter(|(id, _)| !forgotten.contains(*id))
            .filter(|(id, _)| match self.owners.get(*id) {
                None => true,
                Some((_, Owner::Abandoned(started))) => *started < number,
                Some(_) => false,
            })
            .map(|(id, (parent, node))| (*id, parent.clone(), node.clone()))
            .collect()
    }

    /// The nodes of contenders that are known to have existed.
    pub(crate) fn confirmed(&self) -> Vec<(Uuid, String)> {
        let nodes = self.owners.iter().filter_map(|(id, (_, owner))| match owner {
            Owner::Contender(Some(node)) => Some((*id, node.clone())),
            Owner::Contender(None) | Owner::Abandoned(_) | Owner::Janitor => None,
        });
        nodes.collect()
    }

    /// Where nodes of this session may be.
    pub(crate) fn parents(&self) -> Vec<LockPath> {
        let mut parents: Vec<_> = self.owners.values().map(|(parent, _)| parent.clone()).collect();
        parents.sort_unstable();
        parents.dedup();
        parents
    }

    /// What may be left on the server, for people.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left: Vec<_> = self
            .owners
            .iter()
            .map(|(id, (parent, owner))| match owner {
                Owner::Contender(Some(node)) => node.clone(),
                _ => parent.child(&format!("…{id}…")),
            })
            .collect();
        left.sort_unstable();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::fresh_id;

    fn found(id: Uuid) -> HashMap<Uuid, (LockPath, String)> {
        HashMap::from([(id, (path(), "/locks/a/node".to_owned()))])
    }

    fn path() -> LockPath {
        LockPath::new("/locks/a").unwrap()
    }

    #[test]
    fn an_abandoned_create_is_settled_by_the_next_resync_only() {
        let (mut registry, id) = (Registry::default(), fresh_id());
        registry.attempt(id, path());
        let running = registry.start_resync();
        registry.abandon(id);
        assert!(registry.sweep(running, &found(id)).is_empty());
        assert!(registry.sweep(running, &HashMap::new()).is_empty());
        assert!(!registry.settled());
        let next = registry.start_resync();
        assert_eq!(registry.sweep(next, &found(id)).len(), 1);
        assert!(registry.settled());
        assert!(registry.sweep(next, &HashMap::new()).is_empty());
        assert!(registry.left().is_empty());
    }

    #[test]
    fn what_went_while_it_was_looked_for_is_not_swept() {
        let (mut registry, id) = (Registry::default(), fresh_id());
        registry.attempt(id, path());
        let number = registry.start_resync();
        registry.forget(id);
        assert!(registry.sweep(number, &found(id)).is_empty());
        let next = registry.start_resync();
        assert_eq!(registry.sweep(next, &found(id)).len(), 1);
    }

    #[test]
    fn what_nobody_owns_is_swept_and_what_somebody_owns_is_not() {
        let (mut registry, id) = (Registry::default(), fresh_id());
        let number = registry.start_resync();
        assert_eq!(registry.sweep(number, &found(id)).len(), 1);
        assert!(registry.condemn(id, path()));
        assert!(!registry.condemn(id, path()));
        assert!(registry.sweep(number, &found(id)).is_empty());
        registry.forget(id);
        registry.attempt(id, path());
        assert!(registry.confirmed().is_empty());
        registry.confirm(id, "/locks/a/node".to_owned());
        assert!(registry.sweep(number, &found(id)).is_empty());
        assert_eq!(registry.confirmed(), [(id, "/locks/a/node".to_owned())]);
    }
}
