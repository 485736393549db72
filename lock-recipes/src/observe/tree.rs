//! What is known of the nodes below the roots, kept true by listings and by events. Pure: it says
//! what it wants to be asked of ZooKeeper, and is told the answers.
//!
//! Events come in the order of the changes, and an answer comes after all events of the changes that
//! it shows. An event that comes between a question and its answer may be older or newer than the
//! answer; of one name the last event is newer than, or shown by, any answer that came after it was
//! asked for. So a listing counts, corrected by the last event of each name since it was asked for.
//! And an answer counts only for the node that was asked about, not for one that has taken its place.

mod locks;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use zookeeper_client::{Error, EventType, Stat};

use super::layout;
use super::lock::{Facts, Kind, NodeFacts};
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
    touched: HashSet<String>,
    /// What a lock was when it had contenders.
    known: HashMap<String, (Kind, Option<Dialect>)>,
    denied: BTreeSet<String>,
    /// Roots that do not exist.
    missing: BTreeSet<String>,
    /// Folders with contenders that may not be read, of whose end no event may tell.
    blind: BTreeSet<String>,
    /// Nodes seen so far.
    nodes: usize,
    /// The last questions that were asked together.
    batch: Batch,
}

/// Questions that were asked together, by their number.
pub(super) type Batch = u64;

/// A node that has, or may have, children.
#[derive(Debug, Default)]
struct Folder {
    /// Boxed: a map has room for eleven in each of its nodes, and most folders have few.
    children: BTreeMap<String, Box<Child>>,
    listing: Listing,
    /// All children are known: it was listed once, or seen from its creation on.
    known: bool,
    /// To be listed once more after the answer that is under way.
    again: bool,
    own: Reading<Own>,
    /// The next number, as far as the names tell that were seen to be created.
    next: u32,
}

impl Folder {
    /// A node that has no children.
    fn empty() -> Self {
        Self { listing: Listing::Complete, known: true, ..Self::default() }
    }

    /// A child was created; whether more were than are known, so that it has to be asked again.
    fn count(&mut self, name: Option<&ContenderName>) -> bool {
        let number = name.and_then(|name| u32::try_from(name.sequence()).ok());
        let next = number.map_or(0, |number| number.saturating_add(1));
        let Own::Read { creates, .. } = &mut self.own.value else {
            self.next = self.next.max(next).max(1);
            return false;
        };
        *creates = creates.saturating_add(1);
        // A number in a name may be made up: it is not believed.
        next > *creates && self.own.want()
    }
}

/// What the `Stat` and data of a lock's own node say.
#[derive(Clone, Debug, Default)]
enum Own {
    #[default]
    Unknown,
    Denied,
    Read {
        creates: u32,
        data: Arc<[u8]>,
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
    Asked(Batch, HashMap<String, bool>),
    Complete,
    Denied,
}

#[derive(Debug)]
struct Child {
    name: Option<ContenderName>,
    facts: Reading<Facts>,
}

impl Child {
    /// Whether nothing below it is of interest.
    fn is_leaf(&self) -> bool {
        self.name.as_ref().is_some_and(ContenderName::is_honoured)
    }
}

/// Something that is read when it is wanted, and again when it has changed meanwhile.
#[derive(Debug)]
struct Reading<T> {
    value: T,
    wanted: bool,
    asked: Option<Batch>,
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
        Self { value, wanted: false, asked: None, stale: false }
    }

    /// Whether it has to be queued for reading.
    fn want(&mut self) -> bool {
        if self.asked.is_some() {
            self.stale = true;
            return false;
        }
        !std::mem::replace(&mut self.wanted, true)
    }

    fn ask(&mut self, batch: Batch) {
        (self.wanted, self.asked, self.stale) = (false, Some(batch), false);
    }

    /// Whether it has to be read once more.
    fn answered(&mut self) -> bool {
        self.asked = None;
        std::mem::take(&mut self.stale) && self.want()
    }
}

/// `/a/b` is `b` in `/a`; the root of everything has no folder.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let (folder, name) = path.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
    Some((if folder.is_empty() { "/" } else { folder }, name))
}

pub(super) fn join(folder: &str, name: &str) -> String {
    // Often called, and several times faster than `format!`.
    let mut path = String::with_capacity(folder.len() + 1 + name.len());
    path.push_str(folder.strip_suffix('/').unwrap_or(folder));
    path.push('/');
    path.push_str(name);
    path
}

/// The name of the lock at which kazoo's semaphore lets its clients enter.
pub(super) const KAZOO_ENTRY: &str = "-__lock__";

/// The parts of Curator's semaphore.
const PARTS: [&str; 2] = ["locks", "leases"];

impl Tree {
    /// A tree that knows nothing, and wants its roots listed.
    pub(super) fn new(roots: Vec<String>, depth: Depth) -> Self {
        let mut tree = Self {
            roots: Vec::new(),
            depth,
            folders: HashMap::new(),
            listings: VecDeque::new(),
            reads: VecDeque::new(),
            touched: HashSet::new(),
            known: HashMap::new(),
            denied: BTreeSet::new(),
            missing: BTreeSet::new(),
            blind: BTreeSet::new(),
            nodes: 0,
            batch: 0,
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
            Some((folder, name)) => {
                self.folders.entry(folder.to_owned()).or_default();
                self.created(folder, name, true);
            }
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
    pub(super) fn denied(&self) -> impl Iterator<Item = &String> {
        self.denied.iter()
    }

    /// Whether this root does not exist.
    pub(super) fn is_missing(&self, root: &str) -> bool {
        self.missing.contains(root)
    }

    /// Folders whose changes may not be told, because we may not read what is in them.
    pub(super) fn blind(&self) -> &BTreeSet<String> {
        &self.blind
    }

    /// The next questions, at most so many, and their number.
    pub(super) fn questions(&mut self, most: usize) -> (Batch, Vec<Question>) {
        self.batch += 1;
        let batch = self.batch;
        let mut questions = Vec::new();
        while questions.len() < most
            && let Some(path) = self.listings.pop_front()
        {
            // It may have gone meanwhile.
            if let Some(folder) = self.folders.get_mut(&path)
                && matches!(folder.listing, Listing::Wanted)
            {
                folder.listing = Listing::Asked(batch, HashMap::new());
                questions.push(Question::Children(path));
            }
        }
        while questions.len() < most
            && let Some(path) = self.reads.pop_front()
        {
            let (mut wanted, mut is_leaf) = (false, false);
            if let Some(child) = self.child_mut(&path) {
                is_leaf = child.is_leaf();
                if child.facts.wanted {
                    child.facts.ask(batch);
                    wanted = true;
                }
            }
            if !is_leaf
                && let Some(own) = self.folders.get_mut(&path).map(|folder| &mut folder.own)
                && own.wanted
            {
                own.ask(batch);
                wanted = true;
            }
            if wanted {
                questions.push(Question::Data(path));
            }
        }
        (batch, questions)
    }

    /// Takes the answer to a question of that number.
    pub(super) fn answer(&mut self, batch: Batch, question: &Question, answer: Answer) {
        let path = match question {
            Question::Data(path) => return self.read(batch, path, answer),
            Question::Children(path) => path,
        };
        let Some(folder) = self.folders.get_mut(path) else { return };
        // Not that of a node of the same name that was there before.
        let Some(since) = (match &mut folder.listing {
            Listing::Asked(asked, since) if *asked == batch => Some(std::mem::take(since)),
            _ => None,
        }) else {
            return;
        };
        match (answer, split(path)) {
            (Answer::Children(names), _) => self.listed(path, names, since),
            (Answer::Refused(Error::NoNode), Some((folder, name))) => self.deleted(folder, name),
            (Answer::Refused(Error::NoNode), None) => {
                self.missing.insert(path.clone());
                self.listed(path, Vec::new(), since);
            }
            _ => {
                // What is in it is not told, not even what events tell of.
                for name in std::mem::take(&mut folder.children).into_keys() {
                    self.nodes = self.nodes.saturating_sub(1);
                    self.forget(&join(path, &name));
                }
                if let Some(folder) = self.folders.get_mut(path) {
                    (folder.listing, folder.known) = (Listing::Denied, false);
                }
                self.denied.insert(path.clone());
                if let Some((above, _)) =
                    split(path).filter(|(above, _)| self.folders.contains_key(*above))
                {
                    self.blind.insert(above.to_owned());
                }
                self.touch(path);
            }
        }
    }

    /// Takes an event of a watch.
    pub(super) fn event(&mut self, kind: EventType, path: &str) {
        if path == SYSTEM || path.starts_with("/zookeeper/") {
            return;
        }
        match (kind, split(path)) {
            (EventType::NodeCreated, Some((folder, name))) => self.created(folder, name, false),
            (EventType::NodeDeleted, Some((folder, name))) => self.deleted(folder, name),
            (EventType::NodeDataChanged, _) => self.changed(path),
            _ => {}
        }
    }

    /// Wants a folder listed again.
    pub(super) fn list_again(&mut self, path: &str) {
        let Some(folder) = self.folders.get_mut(path) else { return };
        match folder.listing {
            Listing::Complete => {
                folder.listing = Listing::Wanted;
                self.listings.push_back(path.to_owned());
            }
            Listing::Asked(..) => folder.again = true,
            Listing::Partial | Listing::Wanted | Listing::Denied => {}
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
        self.folders.get_mut(folder)?.children.get_mut(name).map(|child| &mut **child)
    }

    /// Whether the tree goes down into this node.
    fn enters(&self, path: &str, name: &str, is_leaf: bool) -> bool {
        // Roots are told first.
        if self.roots.is_empty() || self.roots.iter().any(|root| root == path) {
            return true;
        }
        match self.depth {
            Depth::Everything => path != SYSTEM && !is_leaf,
            Depth::Locks => matches!(name, "locks" | "leases"),
        }
    }

    /// The folder of a node that is told of. Of the many nodes without children nothing is kept, so
    /// that one which is not kept is empty; `None` if it is yet to be found itself, or lies deeper
    /// than the tree goes.
    fn folder_mut(&mut self, path: &str) -> Option<&mut Folder> {
        if !self.folders.contains_key(path) {
            let (above, name) = split(path)?;
            let child = self.folders.get(above)?.children.get(name)?;
            if !self.enters(path, name, child.is_leaf()) {
                return None;
            }
            self.folders.insert(path.to_owned(), Folder::empty());
        }
        self.folders.get_mut(path)
    }

    /// A node is there. One that was listed may have children; one that was just created has none,
    /// and those to come will be told of.
    fn created(&mut self, folder: &str, name: &str, listed: bool) {
        let path = join(folder, name);
        let contender = ContenderName::parse(name);
        let lone = layout::lone_leader_dialect(folder, name).is_some();
        let is_contender = contender.is_some();
        let is_leaf = contender.as_ref().is_some_and(ContenderName::is_honoured);
        let wants_facts = is_contender || lone || is_bare_uuid(name);
        let Some(parent) = self.folder_mut(folder) else { return };
        if matches!(parent.listing, Listing::Denied) {
            return;
        }
        let mut wants_own = false;
        if !listed {
            if let Listing::Asked(_, since) = &mut parent.listing {
                since.insert(name.to_owned(), true);
            }
            wants_own = parent.count(contender.as_ref());
        }
        // What the lock's own node says is read together with its contenders.
        let unread = matches!(parent.own.value, Own::Unknown) && parent.own.asked.is_none();
        wants_own |= is_contender && unread && parent.own.want();
        let mut new = false;
        let child = parent.children.entry(name.to_owned()).or_insert_with(|| {
            new = true;
            Box::new(Child { name: contender, facts: Reading::new(Facts::Pending) })
        });
        let wants_facts = wants_facts && child.facts.want();
        self.reads.extend(wants_own.then(|| folder.to_owned()));
        self.reads.extend(wants_facts.then(|| path.clone()));
        self.nodes += usize::from(new);
        self.missing.remove(&path);
        if self.enters(&path, name, is_leaf) {
            if listed {
                self.want_listing(&path);
            } else {
                // What is under way tells of the time before.
                self.folders.insert(path.clone(), Folder::empty());
                if self.depth == Depth::Locks {
                    self.want_own(&path);
                }
            }
        }
        self.touch(folder);
        if lone || !is_contender {
            self.touch(&path);
        }
    }

    fn deleted(&mut self, folder: &str, name: &str) {
        let path = join(folder, name);
        if let Some(parent) = self.folders.get_mut(folder) {
            if let Listing::Asked(_, since) = &mut parent.listing {
                since.insert(name.to_owned(), false);
            }
            if parent.children.remove(name).is_some() {
                self.nodes = self.nodes.saturating_sub(1);
            }
        }
        if self.roots.contains(&path) {
            self.missing.insert(path.clone());
        }
        self.forget(&path);
        self.touch(folder);
        self.touch(&path);
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
                self.touch(&path);
            }
        }
    }

    fn changed(&mut self, path: &str) {
        let mut read = false;
        if let Some(own) = self.folders.get_mut(path).map(|folder| &mut folder.own)
            && (own.asked.is_some() || !matches!(own.value, Own::Unknown))
        {
            read |= own.want();
        }
        if let Some(child) = self.child_mut(path)
            && (child.facts.asked.is_some() || !matches!(child.facts.value, Facts::Pending))
        {
            read |= child.facts.want();
        }
        if read {
            self.reads.push_back(path.to_owned());
        }
    }

    fn listed(&mut self, path: &str, names: Vec<String>, since: HashMap<String, bool>) {
        let Some(folder) = self.folders.get_mut(path) else { return };
        (folder.listing, folder.known) = (Listing::Complete, true);
        if std::mem::take(&mut folder.again) {
            folder.listing = Listing::Wanted;
            self.listings.push_back(path.to_owned());
        }
        if since.is_empty() && folder.children.is_empty() {
            for name in &names {
                self.created(path, name, true);
            }
            return self.settle(path);
        }
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
        self.settle(path);
    }

    /// After a listing.
    fn settle(&mut self, path: &str) {
        self.touch(path);
        // Of the many nodes without children nothing needs to be kept.
        let bare = |folder: &Folder| {
            folder.children.is_empty() && matches!(folder.listing, Listing::Complete)
        };
        if self.folders.get(path).is_some_and(bare)
            && !self.known.contains_key(path)
            && !self.folders.contains_key(&format!("{path}{KAZOO_ENTRY}"))
            && !self.roots.iter().any(|root| root == path)
        {
            self.folders.remove(path);
        }
    }

    fn read(&mut self, batch: Batch, path: &str, answer: Answer) {
        let (mut again, mut gone, mut is_leaf) = (false, false, false);
        let data = match answer {
            Answer::Data(data, stat) => Ok((Arc::<[u8]>::from(data), stat)),
            Answer::Refused(error) => Err(error),
            Answer::Children(_) => Err(Error::Unimplemented),
        };
        if let Some(child) = self.child_mut(path) {
            is_leaf = child.is_leaf();
            if child.facts.asked == Some(batch) {
                let stale = child.facts.stale;
                again |= child.facts.answered();
                match &data {
                    Ok((data, stat)) => {
                        child.facts.value = Facts::Read(facts(Arc::clone(data), stat));
                    }
                    // Gone, unless it has come back.
                    Err(Error::NoNode) => gone = !stale,
                    Err(_) => {
                        child.facts.value = Facts::Denied;
                        if let Some((folder, _)) = split(path) {
                            self.blind.insert(folder.to_owned());
                        }
                    }
                }
            }
        }
        if !is_leaf
            && let Some(Folder { own, next, .. }) = self.folders.get_mut(path)
            && own.asked == Some(batch)
        {
            own.value = match data {
                Ok((data, stat)) => {
                    let creates = creates(&stat).max(own.value.creates().unwrap_or(0));
                    own.stale |= std::mem::take(next) > creates;
                    Own::Read { creates, data }
                }
                Err(_) => Own::Denied,
            };
            again |= own.answered();
            self.touch(path);
        }
        if again {
            self.reads.push_back(path.to_owned());
        }
        if let Some((folder, name)) = split(path) {
            if gone {
                self.deleted(folder, name);
            }
            self.touch(folder);
            if layout::lone_leader_dialect(folder, name).is_some() {
                self.touch(path);
            }
        }
    }

    /// Something has changed in this folder.
    fn touch(&mut self, folder: &str) {
        if self.touched.contains(folder) {
            return;
        }
        self.touched.insert(folder.to_owned());
        if let Some(semaphore) = folder.strip_suffix(KAZOO_ENTRY) {
            // It is wanted now, even if it is empty.
            self.folder_mut(semaphore);
        }
    }

    /// The locks that a change in this folder may concern, beside the one at its own path.
    fn concerned(&self, folder: &str, mut concern: impl FnMut(String)) {
        if let Some(semaphore) = folder.strip_suffix(KAZOO_ENTRY) {
            concern(semaphore.to_owned());
        }
        if let Some((above, "locks" | "leases")) = split(folder) {
            concern(above.to_owned());
            for part in PARTS {
                concern(join(above, part));
            }
        }
        let entry = format!("{folder}{KAZOO_ENTRY}");
        if self.folders.contains_key(&entry) {
            concern(entry);
        }
    }

    /// Reads the lock's own node once; whether that is still to be done.
    fn want_own(&mut self, path: &str) -> bool {
        let Some(folder) = self.folders.get_mut(path) else { return false };
        let own = &mut folder.own;
        let unknown = matches!(own.value, Own::Unknown);
        if unknown && own.asked.is_none() && own.want() {
            self.reads.push_back(path.to_owned());
        }
        unknown
    }
}

/// ZooKeeper tells twice the creates less the children there are.
fn creates(stat: &Stat) -> u32 {
    stat.cversion.wrapping_add(stat.num_children).cast_unsigned() >> 1
}

fn facts(data: Arc<[u8]>, stat: &Stat) -> NodeFacts {
    NodeFacts {
        token: FencingToken::from_czxid(stat.czxid),
        session: stat.ephemeral_owner,
        queued_at: Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0)),
        data,
    }
}

#[cfg(test)]
mod tests;
