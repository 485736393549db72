//! What is known of the nodes below the roots, kept true by listings and by events. Pure: it says
//! what it wants to be asked of ZooKeeper, and is told the answers.
//!
//! Events come in the order of the changes, and an answer comes after all events of the changes that
//! it shows. An event that comes between a question and its answer may be older or newer than the
//! answer; of one name the last event is newer than, or shown by, any answer that came after it was
//! asked for. So a listing counts, corrected by the last event of each name since it was asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Error, EventType, Stat};

use super::layout::{self, Seat};
use super::lock::{Facts, Kind, NodeFacts, ObservedLock};
use crate::node::{ContenderName, Dialect, is_bare_uuid};
use crate::session::{Answer, Question};
use crate::token::FencingToken;

/// Part of every ensemble, and no place for locks.
const SYSTEM: &str = "/zookeeper";

/// How far below its roots a tree looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    Everything,
    /// The roots are locks: no deeper than their parts.
    Locks,
}

#[derive(Debug)]
pub(super) struct Tree {
    roots: Vec<String>,
    depth: Depth,
    folders: HashMap<String, Folder>,
    /// To be asked: listings first, so that names are there at once.
    listings: VecDeque<String>,
    reads: VecDeque<String>,
    /// Locks to be looked at again.
    touched: BTreeSet<String>,
    /// What a lock was when it had contenders.
    known: HashMap<String, (Kind, Option<Dialect>)>,
    denied: BTreeSet<String>,
    /// Roots that do not exist.
    missing: BTreeSet<String>,
    /// Folders with contenders that may not be read, of whose end no event may tell.
    blind: BTreeSet<String>,
    /// Nodes seen so far.
    nodes: usize,
}

/// A node that has, or may have, children.
#[derive(Debug, Default)]
struct Folder {
    children: BTreeMap<String, Child>,
    listing: Listing,
    own: Reading<Own>,
}

/// What the `Stat` and data of a lock's own node say.
#[derive(Clone, Debug, Default)]
enum Own {
    #[default]
    Unknown,
    Denied,
    Read {
        creates: u32,
        data: Vec<u8>,
    },
}

impl Own {
    fn creates(&self) -> Option<u32> {
        match self {
            Self::Read { creates, .. } => Some(*creates),
            Self::Unknown | Self::Denied => None,
        }
    }
}

#[derive(Debug, Default)]
enum Listing {
    /// Only the children that are told of are known: above a root.
    #[default]
    Partial,
    Wanted,
    /// Asked for; the last event of each name since then, whether it created it.
    Asked(HashMap<String, bool>),
    Complete,
    Denied,
}

#[derive(Debug)]
struct Child {
    name: Option<ContenderName>,
    facts: Reading<Facts>,
}

/// Something that is read when it is wanted, and again when it has changed meanwhile.
#[derive(Debug)]
struct Reading<T> {
    value: T,
    wanted: bool,
    asked: bool,
    /// Changed since it was asked for.
    stale: bool,
}

impl<T: Default> Default for Reading<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Reading<T> {
    const fn new(value: T) -> Self {
        Self { value, wanted: false, asked: false, stale: false }
    }

    /// Whether it has to be queued for reading.
    fn want(&mut self) -> bool {
        if self.asked {
            self.stale = true;
            return false;
        }
        !std::mem::replace(&mut self.wanted, true)
    }

    fn ask(&mut self) {
        (self.wanted, self.asked, self.stale) = (false, true, false);
    }

    /// Whether it has to be read once more.
    fn answered(&mut self) -> bool {
        self.asked = false;
        std::mem::take(&mut self.stale) && self.want()
    }
}

/// `/a/b` is `b` in `/a`; the root of everything has no folder.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
    Some((if folder.is_empty() { "/" } else { folder }, name))
}

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder == "/" { format!("/{name}") } else { format!("{folder}/{name}") }
}

/// The name of the lock at which kazoo's semaphore lets its clients enter.
const KAZOO_ENTRY: &str = "-__lock__";

impl Tree {
    /// A tree that knows nothing, and wants its roots listed.
    pub(super) fn new(roots: Vec<String>, depth: Depth) -> Self {
        let mut tree = Self {
            roots: Vec::new(),
            depth,
            folders: HashMap::new(),
            listings: VecDeque::new(),
            reads: VecDeque::new(),
            touched: BTreeSet::new(),
            known: HashMap::new(),
            denied: BTreeSet::new(),
            missing: BTreeSet::new(),
            blind: BTreeSet::new(),
            nodes: 0,
        };
        for root in &roots {
            tree.add_root(root);
        }
        tree.roots = roots;
        if depth == Depth::Locks {
            for root in tree.roots.clone() {
                tree.want_own(&root);
            }
        }
        tree
    }

    fn add_root(&mut self, root: &str) {
        match split(root) {
            None => self.want_listing(root),
            // Told like any other child, with what may lie below it.
            Some((folder, name)) => self.created(folder, name, true),
        }
    }

    /// Takes over what locks were known to be.
    pub(super) fn remember(&mut self, other: &Self) {
        self.known.clone_from(&other.known);
    }

    /// How many nodes were seen, and how many questions are left.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.nodes, self.listings.len() + self.reads.len())
    }

    /// Whether everything that was wanted has been asked for.
    pub(super) fn wants_nothing(&self) -> bool {
        self.listings.is_empty() && self.reads.is_empty()
    }

    /// Whether there is something to look at.
    pub(super) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// What could not be listed.
    pub(super) fn denied(&self) -> impl Iterator<Item = &str> {
        self.denied.iter().map(String::as_str)
    }

    /// Whether this root does not exist.
    pub(super) fn is_missing(&self, root: &str) -> bool {
        self.missing.contains(root)
    }

    /// Folders whose changes may not be told, because we may not read what is in them.
    pub(super) fn blind(&self) -> &BTreeSet<String> {
        &self.blind
    }

    /// The next questions, at most so many.
    pub(super) fn questions(&mut self, most: usize) -> Vec<Question> {
        let mut questions = Vec::new();
        while questions.len() < most
            && let Some(path) = self.listings.pop_front()
        {
            // It may have gone meanwhile.
            if let Some(folder) = self.folders.get_mut(&path)
                && matches!(folder.listing, Listing::Wanted)
            {
                folder.listing = Listing::Asked(HashMap::new());
                questions.push(Question::Children(path));
            }
        }
        while questions.len() < most
            && let Some(path) = self.reads.pop_front()
        {
            let mut wanted = false;
            if let Some(own) = self.folders.get_mut(&path).map(|folder| &mut folder.own)
                && own.wanted
            {
                own.ask();
                wanted = true;
            }
            if let Some(facts) = self.child_mut(&path).map(|child| &mut child.facts)
                && facts.wanted
            {
                facts.ask();
                wanted = true;
            }
            if wanted {
                questions.push(Question::Data(path));
            }
        }
        questions
    }

    /// Takes the answer to a question.
    pub(super) fn answer(&mut self, question: &Question, answer: Answer) {
        match (question, answer) {
            (Question::Children(path), Answer::Children(names)) => self.listed(path, names),
            (Question::Children(path), Answer::Refused(Error::NoNode)) => {
                if self.roots.contains(path) {
                    self.missing.insert(path.clone());
                }
                self.listed(path, Vec::new());
            }
            (Question::Children(path), _) => {
                if let Some(folder) = self.folders.get_mut(path) {
                    folder.listing = Listing::Denied;
                    self.denied.insert(path.clone());
                    self.touch(path);
                }
            }
            (Question::Data(path), answer) => self.read(path, answer),
        }
    }

    /// Takes an event of a watch.
    pub(super) fn event(&mut self, kind: EventType, path: &str) {
        if path == SYSTEM || path.starts_with("/zookeeper/") {
            return;
        }
        let Some((folder, name)) = split(path) else { return };
        match kind {
            EventType::NodeCreated => self.created(folder, name, false),
            EventType::NodeDeleted => self.deleted(folder, name),
            EventType::NodeDataChanged => self.changed(folder, name),
            EventType::Session | EventType::NodeChildrenChanged => {}
        }
    }

    /// Wants a folder listed again.
    pub(super) fn list_again(&mut self, path: &str) {
        if let Some(folder) = self.folders.get_mut(path)
            && matches!(folder.listing, Listing::Complete)
        {
            folder.listing = Listing::Wanted;
            self.listings.push_back(path.to_owned());
        }
    }

    fn want_listing(&mut self, path: &str) {
        let folder = self.folders.entry(path.to_owned()).or_default();
        if matches!(folder.listing, Listing::Partial) {
            folder.listing = Listing::Wanted;
            self.listings.push_back(path.to_owned());
        }
    }

    fn child_mut(&mut self, path: &str) -> Option<&mut Child> {
        let (folder, name) = split(path)?;
        self.folders.get_mut(folder)?.children.get_mut(name)
    }

    /// Whether the tree goes down into this node.
    fn enters(&self, folder: &str, name: &str) -> bool {
        match self.depth {
            Depth::Everything => join(folder, name) != SYSTEM,
            Depth::Locks => matches!(name, "locks" | "leases"),
        }
    }

    /// The folder of a node that is told of. One that is not kept has no children if its own folder
    /// is listed: of the many nodes without children nothing is kept.
    fn folder_mut(&mut self, path: &str) -> &mut Folder {
        let is_leaf = || {
            let (above, name) = split(path)?;
            let above = self.folders.get(above)?;
            let listed = matches!(above.listing, Listing::Complete);
            (listed && above.children.contains_key(name)).then_some(())
        };
        let listing = if is_leaf().is_some() { Listing::Complete } else { Listing::Partial };
        let folder = || Folder { listing, ..Folder::default() };
        self.folders.entry(path.to_owned()).or_insert_with(folder)
    }

    /// A node is there. One that was listed may have children; one that was just created has none,
    /// and those to come will be told of.
    fn created(&mut self, folder: &str, name: &str, listed: bool) {
        let path = join(folder, name);
        let contender = ContenderName::parse(name);
        let lone = layout::lone_leader_dialect(folder, name).is_some();
        let wants_facts = contender.is_some() || lone || is_bare_uuid(name);
        // Roots are told first.
        let is_root = self.roots.is_empty() || self.roots.contains(&path);
        let is_leaf = contender.as_ref().is_some_and(ContenderName::is_honoured);
        let enters = is_root || !is_leaf && self.enters(folder, name);
        let sequence = contender.as_ref().map(ContenderName::sequence);
        self.missing.remove(&path);
        let parent = self.folder_mut(folder);
        if let Listing::Asked(since) = &mut parent.listing
            && !listed
        {
            since.insert(name.to_owned(), true);
        }
        if let (Own::Read { creates, .. }, Some(sequence)) = (&mut parent.own.value, sequence) {
            *creates = (*creates).max(u32::try_from(sequence + 1).unwrap_or(0));
        }
        let mut new = false;
        let child = parent.children.entry(name.to_owned()).or_insert_with(|| {
            new = true;
            Child { name: contender, facts: Reading::new(Facts::Pending) }
        });
        if wants_facts && child.facts.want() {
            self.reads.push_back(path.clone());
        }
        self.nodes += usize::from(new);
        if enters && listed {
            self.want_listing(&path);
        } else if enters {
            let folder = || Folder { listing: Listing::Complete, ..Folder::default() };
            self.folders.entry(path.clone()).or_insert_with(folder);
        }
        self.touch(folder);
        if lone {
            self.touched.insert(path);
        }
    }

    fn deleted(&mut self, folder: &str, name: &str) {
        let path = join(folder, name);
        if let Some(parent) = self.folders.get_mut(folder) {
            if let Listing::Asked(since) = &mut parent.listing {
                since.insert(name.to_owned(), false);
            }
            if parent.children.remove(name).is_some() {
                self.nodes = self.nodes.saturating_sub(1);
            }
        }
        self.forget(&path);
        self.touch(folder);
        self.touched.insert(path);
    }

    /// Drops what is known below a node that has gone.
    fn forget(&mut self, path: &str) {
        let mut gone = vec![path.to_owned()];
        while let Some(path) = gone.pop() {
            self.known.remove(&path);
            self.denied.remove(&path);
            self.blind.remove(&path);
            if let Some(folder) = self.folders.remove(&path) {
                self.nodes = self.nodes.saturating_sub(folder.children.len());
                gone.extend(folder.children.keys().map(|name| join(&path, name)));
                self.touched.insert(path);
            }
        }
    }

    fn changed(&mut self, folder: &str, name: &str) {
        let path = join(folder, name);
        let mut read = false;
        if let Some(own) = self.folders.get_mut(&path).map(|folder| &mut folder.own)
            && (own.asked || !matches!(own.value, Own::Unknown))
        {
            read |= own.want();
        }
        if let Some(child) = self.child_mut(&path)
            && (child.facts.asked || !matches!(child.facts.value, Facts::Pending))
        {
            read |= child.facts.want();
        }
        if read {
            self.reads.push_back(path);
        }
    }

    fn listed(&mut self, path: &str, names: Vec<String>) {
        let Some(folder) = self.folders.get_mut(path) else { return };
        let Listing::Asked(since) = std::mem::replace(&mut folder.listing, Listing::Complete)
        else {
            return;
        };
        let mut names: HashSet<String> = names.into_iter().collect();
        for (name, created) in since {
            if created {
                names.insert(name);
            } else {
                names.remove(&name);
            }
        }
        let gone: Vec<_> =
            folder.children.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in gone {
            self.deleted(path, &name);
        }
        let new = |name: &String| {
            self.folders.get(path).is_some_and(|folder| !folder.children.contains_key(name))
        };
        let mut new: Vec<_> = names.into_iter().filter(new).collect();
        new.sort_unstable();
        for name in new {
            self.created(path, &name, true);
        }
        self.touch(path);
        // Of the many nodes without children nothing needs to be kept.
        if self.folders.get(path).is_some_and(|folder| folder.children.is_empty())
            && !self.known.contains_key(path)
            && !self.roots.iter().any(|root| root == path)
        {
            self.folders.remove(path);
        }
    }

    fn read(&mut self, path: &str, answer: Answer) {
        let mut again = false;
        if let Some(own) = self.folders.get_mut(path).map(|folder| &mut folder.own)
            && own.asked
        {
            own.value = match &answer {
                Answer::Data(data, stat) => {
                    let creates = creates(stat).max(own.value.creates().unwrap_or(0));
                    Own::Read { creates, data: data.clone() }
                }
                Answer::Refused(_) | Answer::Children(_) => Own::Denied,
            };
            again |= own.answered();
            self.touch(path);
        }
        let mut gone = false;
        if let Some(child) = self.child_mut(path)
            && child.facts.asked
        {
            let stale = child.facts.stale;
            again |= child.facts.answered();
            match answer {
                Answer::Data(data, stat) => {
                    child.facts.value = Facts::Read(facts(data.into(), &stat));
                }
                // Gone, unless it has come back.
                Answer::Refused(Error::NoNode) => gone = !stale,
                Answer::Refused(_) | Answer::Children(_) => {
                    child.facts.value = Facts::Denied;
                    if let Some((folder, _)) = split(path) {
                        self.blind.insert(folder.to_owned());
                    }
                }
            }
        }
        if again {
            self.reads.push_back(path.to_owned());
        }
        if let Some((folder, name)) = split(path) {
            if gone {
                self.deleted(folder, name);
            }
            self.touch(folder);
            self.touched.insert(path.to_owned());
        }
    }

    /// The locks that a change in this folder may concern.
    fn touch(&mut self, folder: &str) {
        self.touched.insert(folder.to_owned());
        if let Some(semaphore) = folder.strip_suffix(KAZOO_ENTRY) {
            self.touched.insert(semaphore.to_owned());
        }
        if let Some((above, "locks" | "leases")) = split(folder) {
            self.touched.insert(above.to_owned());
        }
        let entry = format!("{folder}{KAZOO_ENTRY}");
        if self.folders.contains_key(&entry) {
            self.touched.insert(entry);
        }
    }

    /// The locks that may have changed, as they are now; `None` for what is none (any more).
    pub(super) fn changes(&mut self) -> Vec<(String, Option<ObservedLock>)> {
        let mut changes = Vec::new();
        while let Some(path) = self.touched.pop_first() {
            let lock = self.lock(&path);
            if let Some(lock) = &lock
                && !lock.holders.is_empty()
            {
                self.known.insert(path.clone(), (lock.kind, lock.dialect));
            }
            changes.push((path, lock));
        }
        changes
    }

    /// What the nodes at and around a path make.
    pub(super) fn lock(&mut self, path: &str) -> Option<ObservedLock> {
        if let Some(lock) = self.lone_leader(path) {
            return Some(lock);
        }
        let listing = &self.folders.get(path)?.listing;
        if matches!(listing, Listing::Partial) || self.belongs_to_another(path) {
            return None;
        }
        let mut lock = self
            .curator_semaphore(path)
            .or_else(|| self.kazoo_semaphore(path))
            .or_else(|| self.queue(path))
            .or_else(|| self.free(path))?;
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

    /// Whether the folder is a part of a lock that lies beside or above it.
    fn belongs_to_another(&self, path: &str) -> bool {
        let part = matches!(split(path), Some((above, "locks" | "leases"))
            if self.is_curator_semaphore(above));
        part || path.strip_suffix(KAZOO_ENTRY).is_some_and(|path| self.is_kazoo_semaphore(path))
    }

    fn is_curator_semaphore(&self, path: &str) -> bool {
        let has = |part: &str| {
            self.folders.get(path).is_some_and(|folder| folder.children.contains_key(part))
        };
        let seats = |part: &str| self.seats(&join(path, part));
        let lease = |seat: &Seat| seat.name.role() == crate::node::Role::Permit;
        let was = matches!(self.known.get(path), Some((Kind::Semaphore, _)));
        has("locks")
            && has("leases")
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
        let lease = |(name, child): (&String, &Child)| {
            let ephemeral = child.facts.value.read().is_some_and(|facts| facts.session != 0);
            is_bare_uuid(name) && ephemeral
        };
        let entry = || {
            let entry = self.folders.get(&format!("{path}{KAZOO_ENTRY}"));
            entry.is_some_and(|entry| !entry.children.is_empty())
        };
        let limit = matches!(&folder.own.value, Own::Read { data, .. } if is_decimal(data));
        limit
            && !folder.children.contains_key("ready")
            && (folder.children.iter().any(lease) || entry())
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
        if !self.is_kazoo_semaphore(path) {
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

    fn names(&self, path: &str) -> impl Iterator<Item = &str> {
        let folder = self.folders.get(path);
        folder.into_iter().flat_map(|folder| folder.children.keys().map(String::as_str))
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

    /// Reads the lock's own node once; whether that is still to be done.
    fn want_own(&mut self, path: &str) -> bool {
        let Some(folder) = self.folders.get_mut(path) else { return false };
        let own = &mut folder.own;
        let unknown = matches!(own.value, Own::Unknown);
        if unknown && !own.asked && own.want() {
            self.reads.push_back(path.to_owned());
        }
        unknown
    }

    /// How many children were created, of the part that has most.
    fn creates(&mut self, path: &str) -> Option<u32> {
        let parts = [path.to_owned(), join(path, "locks"), join(path, "leases")];
        let mut creates = None;
        for part in parts.iter().take(if self.is_curator_semaphore(path) { 3 } else { 1 }) {
            self.want_own(part);
            let own = self.folders.get(part).and_then(|folder| folder.own.value.creates());
            creates = creates.max(own);
        }
        creates
    }

    /// A lock that stands at this very path, even if it is free: a node whose children have all gone.
    pub(super) fn emptied(&mut self, path: &str) -> Option<ObservedLock> {
        let folder = self.folders.get(path)?;
        let creates = folder.own.value.creates()?;
        let mut lock = (folder.children.is_empty() && creates > 0)
            .then(|| layout::free(path, Kind::Mutex, None, Vec::new()))?;
        lock.creates = Some(creates);
        Some(lock)
    }
}

/// ZooKeeper tells twice the creates less the children there are.
fn creates(stat: &Stat) -> u32 {
    stat.cversion.wrapping_add(stat.num_children).cast_unsigned() >> 1
}

fn is_decimal(data: &[u8]) -> bool {
    !data.is_empty() && data.len() < 20 && data.iter().all(u8::is_ascii_digit)
}

fn facts(data: Arc<[u8]>, stat: &Stat) -> NodeFacts {
    NodeFacts {
        token: FencingToken::from_czxid(stat.czxid),
        session: stat.ephemeral_owner,
        queued_at: Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0)),
        data,
    }
}
