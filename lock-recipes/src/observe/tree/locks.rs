//! What the nodes of a tree make: the locks.

use super::{Child, Depth, KAZOO_ENTRY, Listing, Own, PARTS, Tree, join, split};
use crate::node::{Dialect, Role, is_bare_uuid};
use crate::observe::layout::{self, Seat};
use crate::observe::lock::{Facts, Kind, ObservedLock};
use crate::session::Question;

impl Tree {
    /// The locks that may have changed, as they are now; `None` for what is none (any more).
    pub(in super::super) fn changes(&mut self) -> Vec<(String, Option<ObservedLock>)> {
        let mut paths = std::mem::take(&mut self.touched);
        let mut others = Vec::new();
        for path in &paths {
            self.concerned(path, |other| others.push(other));
        }
        paths.extend(others);
        let mut changes = Vec::with_capacity(paths.len());
        for path in paths {
            let lock = self.lock_now(&path);
            changes.push((path, lock));
        }
        changes
    }

    /// The lock of a contender about which this was asked, if it is one by itself and all of its
    /// contenders have been read: it need not be looked at again until something changes.
    pub(in super::super) fn settled(&mut self, question: &Question) -> Option<ObservedLock> {
        let Question::Data(contender) = question else { return None };
        let (path, name) = split(contender)?;
        let folder = self.folders.get(path).filter(|_| self.touched.contains(path))?;
        folder.children.get(name)?.name.as_ref()?;
        let unread = |child: &Child| matches!(child.facts.value, Facts::Pending);
        if folder.children.values().any(|child| child.name.is_some() && unread(child)) {
            return None;
        }
        let mut stands_alone = true;
        self.concerned(path, |_| stands_alone = false);
        let lock = self.lock_now(path).filter(|_| stands_alone)?;
        self.touched.remove(path);
        Some(lock)
    }

    /// What there is at a path, which is remembered.
    fn lock_now(&mut self, path: &str) -> Option<ObservedLock> {
        let lock = self.lock(path)?;
        // A lone leader's lock is gone with its node.
        if !lock.holders.is_empty() && self.lone_leader(path).is_none() {
            self.known.insert(path.to_owned(), (lock.kind, lock.dialect));
        }
        Some(lock)
    }

    /// What the nodes at and around a path make.
    pub(in super::super) fn lock(&mut self, path: &str) -> Option<ObservedLock> {
        if let Some(lock) = self.lone_leader(path) {
            return Some(lock);
        }
        if let Some(semaphore) = path.strip_suffix(KAZOO_ENTRY) {
            self.want_own(semaphore);
        }
        // Who holds is known when all are.
        if !self.folders.get(path)?.known || self.belongs_to_another(path) {
            return None;
        }
        let mut lock = self
            .curator_semaphore(path)
            .or_else(|| self.kazoo_semaphore(path))
            .or_else(|| self.queue(path))
            .or_else(|| self.free(path))
            .or_else(|| self.emptied(path))?;
        lock.creates = self.creates(path);
        Some(lock)
    }

    fn lone_leader(&self, path: &str) -> Option<ObservedLock> {
        let (folder, name) = split(path)?;
        let dialect = layout::lone_leader_dialect(folder, name)?;
        let facts = &self.folders.get(folder)?.children.get(name)?.facts.value;
        let read = facts.read().filter(|read| read.session != 0)?;
        // A name that anything may have: the data decides.
        let kafka = || read.data.windows(10).any(|part| part == b"\"brokerid\"");
        (dialect != Dialect::Kafka || kafka())
            .then(|| layout::lone_leader(path, name, dialect, facts.clone()))
    }

    /// Whether the folder is a part of a lock that lies beside or above it, or may turn out to be.
    fn belongs_to_another(&self, path: &str) -> bool {
        let part = matches!(split(path), Some((above, "locks" | "leases"))
            if self.is_curator_semaphore(above) || PARTS.iter().any(|part| self.is_pending(&join(above, part))));
        let entry = |path| {
            let own = self.folders.get(path).map(|folder| &folder.own.value);
            matches!(own, Some(Own::Unknown)) || self.is_kazoo_semaphore(path)
        };
        part || path.strip_suffix(KAZOO_ENTRY).is_some_and(entry)
    }

    /// Whether the folder is still to be listed.
    fn is_pending(&self, path: &str) -> bool {
        self.folders.get(path).is_some_and(|folder| {
            !folder.known && matches!(folder.listing, Listing::Wanted | Listing::Asked(..))
        })
    }

    fn is_curator_semaphore(&self, path: &str) -> bool {
        let has = |part: &str| {
            self.folders.get(path).is_some_and(|folder| folder.children.contains_key(part))
        };
        let seats = |part: &str| self.seats(&join(path, part));
        let lease = |seat: &Seat| seat.name.role() == Role::Permit;
        // A queue of permits at the path itself is another thing.
        let was = self.known.get(path) == Some(&(Kind::Semaphore, Some(Dialect::Curator)))
            && self.seats(path).is_empty();
        has("locks")
            && has("leases")
            && !PARTS.iter().any(|part| self.is_pending(&join(path, part)))
            && (was || seats("leases").iter().any(lease) || self.is_emptied(path))
    }

    /// Both folders are known to be empty or hold only the entry's queue: a semaphore at rest.
    fn is_emptied(&self, path: &str) -> bool {
        let folder = |part: &str| self.folders.get(&join(path, part));
        let count = |part| folder(part).map_or(0, |folder| folder.children.len());
        let seats = self.seats(&join(path, "locks")).len();
        count("leases") == 0 && seats > 0 && count("locks") == seats
    }

    fn is_kazoo_semaphore(&self, path: &str) -> bool {
        let Some(folder) = self.folders.get(path) else { return false };
        let mut children = folder.children.iter().map(|(name, child)| (name, &child.facts.value));
        let mut leases = || {
            children.any(|(name, facts)| {
                is_bare_uuid(name) && facts.read().is_some_and(|facts| facts.session != 0)
            })
        };
        let entry = || {
            let entry = self.folders.get(&format!("{path}{KAZOO_ENTRY}"));
            entry.is_some_and(|entry| !entry.children.is_empty())
        };
        let limit = matches!(&folder.own.value, Own::Read { data, .. } if is_decimal(data));
        limit && !folder.children.contains_key("ready") && (leases() || entry())
    }

    fn curator_semaphore(&self, path: &str) -> Option<ObservedLock> {
        if !self.is_curator_semaphore(path) {
            return None;
        }
        let (locks, leases) = (join(path, "locks"), join(path, "leases"));
        let mut ignored = self
            .names(path)
            .filter(|name| !matches!(*name, "locks" | "leases"))
            .map(str::to_owned)
            .collect::<Vec<_>>();
        for (part, folder) in [("leases", &leases), ("locks", &locks)] {
            let others = layout::ignored(self.names(folder), &self.seats(folder));
            ignored.extend(others.into_iter().map(|name| format!("{part}/{name}")));
        }
        ignored.sort_unstable();
        let (entry, leases) = (self.seats(&locks), self.seats(&leases));
        Some(layout::curator_semaphore(path, entry, leases, ignored))
    }

    fn kazoo_semaphore(&mut self, path: &str) -> Option<ObservedLock> {
        let entry = format!("{path}{KAZOO_ENTRY}");
        let folder = self.folders.get_mut(path)?;
        let may_be = folder.children.keys().any(|name| is_bare_uuid(name));
        if (may_be || self.folders.contains_key(&entry)) && self.want_own(path) {
            return None;
        }
        if !self.is_kazoo_semaphore(path) || self.is_pending(&entry) {
            return None;
        }
        let folder = self.folders.get(path)?;
        let (leases, others): (Vec<_>, Vec<_>) =
            folder.children.iter().partition(|(name, _)| is_bare_uuid(name));
        let leases =
            leases.into_iter().map(|(name, child)| (name.clone(), child.facts.value.clone()));
        let ignored = others.into_iter().map(|(name, _)| name.clone()).collect();
        Some(layout::kazoo_semaphore(path, leases.collect(), self.seats(&entry), ignored))
    }

    fn queue(&self, path: &str) -> Option<ObservedLock> {
        let seats = self.seats(path);
        if seats.is_empty() {
            return None;
        }
        let ignored = layout::ignored(self.names(path), &seats);
        Some(layout::queue(path, seats, ignored))
    }

    fn free(&self, path: &str) -> Option<ObservedLock> {
        let &(kind, dialect) = self.known.get(path)?;
        let ignored = self.names(path).map(str::to_owned).collect();
        Some(layout::free(path, kind, dialect, ignored))
    }

    fn names(&self, path: &str) -> impl ExactSizeIterator<Item = &str> {
        let names =
            self.folders.get(path).map_or_else(Default::default, |folder| folder.children.keys());
        names.map(String::as_str)
    }

    /// The contenders in a folder.
    fn seats(&self, path: &str) -> Vec<Seat> {
        let Some(folder) = self.folders.get(path) else { return Vec::new() };
        let seats = folder.children.values().filter_map(|child| {
            let name = child.name.clone()?;
            Some(Seat { name, facts: child.facts.value.clone() })
        });
        seats.filter(Seat::counts).collect()
    }

    /// How many children were created, of the part that has most.
    fn creates(&mut self, path: &str) -> Option<u32> {
        let mut parts = vec![path.to_owned()];
        if self.is_curator_semaphore(path) {
            parts.extend(PARTS.map(|part| join(path, part)));
        }
        let mut creates = None;
        for part in &parts {
            self.want_own(part);
            let own = self.folders.get(part).and_then(|folder| folder.own.value.creates());
            creates = creates.max(own);
        }
        creates
    }

    /// A lock that is looked for at this very path is free if its children have all gone.
    fn emptied(&self, path: &str) -> Option<ObservedLock> {
        let folder = self.folders.get(path)?;
        let wanted = self.depth == Depth::Locks && self.roots.iter().any(|root| root == path);
        let emptied = folder.children.is_empty() && folder.own.value.creates()? > 0;
        (wanted && emptied).then(|| layout::free(path, Kind::Mutex, None, Vec::new()))
    }
}

fn is_decimal(data: &[u8]) -> bool {
    !data.is_empty() && data.len() < 20 && data.iter().all(u8::is_ascii_digit)
}
