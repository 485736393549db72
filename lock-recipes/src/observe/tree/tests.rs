//! A tiny server whose events and answers come as late as they may, against a quiet listing.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fastrand::Rng;
use zookeeper_client::{Error, EventType, Stat};

use super::{Batch, Depth, Tree, join, split};
use crate::node::ContenderName;
use crate::observe::lock::{Kind, ObservedLock};
use crate::session::{Answer, Question};

#[derive(Clone, Debug)]
struct Node {
    czxid: i64,
    session: i64,
    data: Vec<u8>,
    creates: i32,
    /// What may not be read, or listed.
    secret: bool,
}

type Nodes = BTreeMap<String, Node>;

/// A server: its nodes, and its events in the order of the changes.
#[derive(Clone, Debug, Default)]
struct Server {
    nodes: Nodes,
    /// As it was after each change; the first is the start.
    past: Vec<Nodes>,
    events: Vec<(EventType, String)>,
    /// No events are sent of nodes that may not be read, as since 3.8.4 and 3.9.2.
    discreet: bool,
}

fn children<'a>(nodes: &'a Nodes, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let folder = path.to_owned();
    nodes.keys().filter_map(move |child| {
        split(child).filter(|(above, _)| *above == folder).map(|(_, name)| name)
    })
}

impl Server {
    fn now(&self) -> usize {
        self.events.len()
    }

    fn is_ephemeral(&self, path: &str) -> bool {
        self.nodes.get(path).is_none_or(|node| node.session != 0)
    }

    fn commit(&mut self, kind: EventType, path: &str) {
        self.events.push((kind, path.to_owned()));
        self.past.push(self.nodes.clone());
    }

    fn create(&mut self, folder: &str, name: &str, session: i64, data: &[u8], secret: bool) {
        let name = match name.strip_suffix('#') {
            Some(prefix) => format!("{prefix}{:010}", self.nodes[folder].creates),
            None => name.to_owned(),
        };
        let path = join(folder, &name);
        if self.is_ephemeral(folder) || self.nodes.contains_key(&path) {
            return;
        }
        self.nodes.get_mut(folder).unwrap().creates += 1;
        let czxid = i64::try_from(self.now()).unwrap() + 1;
        self.nodes
            .insert(path.clone(), Node { czxid, session, data: data.into(), creates: 0, secret });
        self.commit(EventType::NodeCreated, &path);
    }

    fn delete(&mut self, path: &str) {
        if children(&self.nodes, path).next().is_none() && self.nodes.remove(path).is_some() {
            self.commit(EventType::NodeDeleted, path);
        }
    }

    fn answer(&self, question: &Question) -> Answer {
        let path = question.path();
        match (self.nodes.get(path), question) {
            (None, _) => Answer::Refused(Error::NoNode),
            (Some(node), _) if node.secret => Answer::Refused(Error::NoAuth),
            (Some(_), Question::Children(_)) => {
                Answer::Children(children(&self.nodes, path).map(str::to_owned).collect())
            }
            (Some(node), Question::Data(_)) => {
                let count = i32::try_from(children(&self.nodes, path).count()).unwrap();
                let stat = Stat {
                    czxid: node.czxid,
                    mzxid: node.czxid,
                    pzxid: node.czxid,
                    ctime: node.czxid,
                    mtime: node.czxid,
                    version: 0,
                    cversion: 2 * node.creates - count,
                    aversion: 0,
                    ephemeral_owner: node.session,
                    data_length: 0,
                    num_children: count,
                };
                Answer::Data(node.data.clone(), stat)
            }
        }
    }
}

/// Folders that come and go.
const FOLDERS: [&str; 12] = [
    "/l",
    "/l/a",
    "/l/b",
    "/l/b/c",
    "/l/s",
    "/l/s/locks",
    "/l/s/leases",
    "/l/k",
    "/l/k-__lock__",
    "/l/hbase",
    "/l/CONTROLLER",
    "/other",
];

/// Few uuids, so that names come again.
const UUIDS: [&str; 2] =
    ["8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11", "11111111-2222-4333-8444-555555555555"];

/// What may be made: how, and what kind of name it is.
fn name(dice: &mut Rng) -> String {
    let uuid = UUIDS[dice.usize(..2)];
    let hex = uuid.replace('-', "");
    match dice.u8(..18) {
        0..4 => format!("_c_{uuid}-lock-#"),
        4..6 => format!("{hex}__lock__#"),
        6 => format!("_c_{uuid}-__READ__#"),
        7 => format!("_c_{uuid}-__WRIT__#"),
        8 => format!("_c_{uuid}-lease-#"),
        9 => format!("_c_{uuid}-latch-#"),
        10 => "lock-#".to_owned(),
        11 => "leader_election-#".to_owned(),
        12 => "config".to_owned(),
        13 => "master".to_owned(),
        14 => "controller".to_owned(),
        15 => "LEADER".to_owned(),
        _ => hex,
    }
}

const DATA: [&[u8]; 5] =
    [b"", b"3", b"{\"brokerid\":1}", b"r1 (multiple leaders Ok)", b"__REVOKE__"];

/// One change, or none.
fn change(server: &mut Server, dice: &mut Rng, secrets: bool) {
    let existing = |server: &Server, dice: &mut Rng| {
        let index = dice.usize(..server.nodes.len());
        server.nodes.keys().nth(index).unwrap().clone()
    };
    match dice.u8(..10) {
        0..2 => {
            let path = FOLDERS[dice.usize(..FOLDERS.len())];
            let (folder, name) = split(path).unwrap();
            if server.nodes.contains_key(folder) {
                let secret = secrets && dice.u8(..20) == 0;
                server.create(folder, name, 0, DATA[dice.usize(..2)], secret);
            }
        }
        2..6 => {
            let folder = existing(server, dice);
            let session = dice.i64(0..4);
            let data = DATA[dice.usize(..DATA.len())];
            let secret = secrets && dice.u8(..8) == 0;
            server.create(&folder, &name(dice), session, data, secret);
        }
        6..9 => {
            let path = existing(server, dice);
            // Now and then with all that is in it.
            let all = dice.u8(..4) == 0 && path != "/";
            let below: Vec<_> = server.nodes.keys().rev().cloned().collect();
            for node in below {
                if all && node.starts_with(&format!("{path}/")) {
                    server.delete(&node);
                }
            }
            if path != "/" {
                server.delete(&path);
            }
        }
        _ => {
            let path = existing(server, dice);
            let data = DATA[dice.usize(..DATA.len())].to_vec();
            server.nodes.get_mut(&path).unwrap().data = data;
            server.commit(EventType::NodeDataChanged, &path);
        }
    }
}

/// One request under way: what was answered, when everything up to that change had been done.
#[derive(Debug)]
enum Request {
    Asked(Batch, Vec<(Question, Answer)>, usize),
    /// A folder's children are watched from then on.
    Armed(String, usize),
}

struct Client {
    roots: Vec<String>,
    tree: Tree,
    /// How many events have been delivered.
    seen: usize,
    under_way: VecDeque<Request>,
    armed: BTreeMap<String, usize>,
    told: BTreeMap<String, ObservedLock>,
    /// Looks at locks as soon as they have been read.
    early: bool,
}

fn is_below(path: &str, root: &str) -> bool {
    root == "/"
        || path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Client {
    fn new(server: &Server, roots: &[&str], depth: Depth) -> Self {
        let roots: Vec<_> = roots.iter().map(|&root| root.to_owned()).collect();
        Self {
            tree: Tree::new(roots.clone(), depth),
            roots,
            seen: server.now(),
            under_way: VecDeque::new(),
            armed: BTreeMap::new(),
            told: BTreeMap::new(),
            early: false,
        }
    }

    fn deliver_event(&mut self, server: &Server) {
        let Some((kind, path)) = server.events.get(self.seen) else { return };
        self.seen += 1;
        // A node is known by what it was, if it has gone.
        let before = &server.past[self.seen - 1];
        let secret = server.past[self.seen]
            .get(path)
            .or_else(|| before.get(path))
            .is_some_and(|node| node.secret);
        if self.roots.iter().any(|root| is_below(path, root)) && !(server.discreet && secret) {
            self.tree.event(*kind, path);
        }
        let fired = split(path).filter(|_| *kind != EventType::NodeDataChanged);
        if let Some((folder, _)) = fired
            && self.armed.get(folder).is_some_and(|since| *since < self.seen)
        {
            self.armed.remove(folder);
            self.under_way.push_back(Request::Armed(folder.to_owned(), server.now()));
        }
    }

    fn ask(&mut self, server: &Server, most: usize) {
        let (batch, questions) = self.tree.questions(most);
        if !questions.is_empty() {
            let answers = questions.into_iter().map(|question| {
                let answer = server.answer(&question);
                (question, answer)
            });
            self.under_way.push_back(Request::Asked(batch, answers.collect(), server.now()));
        }
    }

    fn deliver_answer(&mut self, server: &Server) {
        let Some(request) = self.under_way.pop_front() else { return };
        let (Request::Asked(_, _, at) | Request::Armed(_, at)) = &request;
        while self.seen < *at {
            self.deliver_event(server);
        }
        match request {
            Request::Asked(batch, answers, _) => {
                let last = answers.last().map(|(question, _)| question.clone());
                for (question, answer) in answers {
                    self.tree.answer(batch, &question, answer);
                }
                if self.early
                    && let Some(lock) = last.and_then(|last| self.tree.settled(&last))
                {
                    self.told.insert(lock.path.clone(), lock);
                }
            }
            Request::Armed(folder, at) => {
                self.tree.list_again(&folder);
                self.armed.insert(folder, at);
            }
        }
    }

    /// Looks, and checks that of queues only what was so is told.
    fn look(&mut self, server: &Server, discreet: bool) {
        let now = &server.past[self.seen];
        for (path, lock) in self.tree.changes() {
            match lock {
                None => _ = self.told.remove(&path),
                Some(lock) => {
                    if !discreet {
                        was_so(&lock, now);
                    }
                    self.told.insert(path, lock);
                }
            }
        }
        if server.discreet {
            for folder in self.tree.blind().clone() {
                if !self.armed.contains_key(&folder)
                    && !self
                        .under_way
                        .iter()
                        .any(|one| matches!(one, Request::Armed(known, _) if *known == folder))
                {
                    self.under_way.push_back(Request::Armed(folder, server.now()));
                }
            }
        }
    }

    fn settle(&mut self, server: &Server) {
        loop {
            while self.seen < server.now() {
                self.deliver_event(server);
            }
            self.look(server, server.discreet);
            self.ask(server, 3);
            if self.under_way.is_empty() {
                assert!(self.tree.wants_nothing() && !self.tree.is_touched());
                return;
            }
            self.deliver_answer(server);
        }
    }
}

/// A queue is told with the contenders that it had at one time, or not at all.
fn was_so(lock: &ObservedLock, now: &Nodes) {
    let told: BTreeSet<_> = lock.contenders().map(|contender| contender.node.as_str()).collect();
    match lock.kind {
        Kind::Mutex | Kind::RwLock if !told.is_empty() => {
            let honoured =
                |name: &&str| ContenderName::parse(name).is_some_and(|name| name.is_honoured());
            let had: BTreeSet<_> = children(now, &lock.path).filter(honoured).collect();
            assert!(told.is_superset(&had), "{lock:#?} {had:?}");
            assert!(children(now, &lock.path).collect::<BTreeSet<_>>().is_superset(&told));
        }
        _ => {}
    }
}

/// What is told of these nodes by whoever comes late as well: without what depends on when it was
/// looked at, and on events of what may not be listed, and without others' names that events do not
/// tell of.
fn plain(told: &BTreeMap<String, ObservedLock>, server: &Server) -> BTreeMap<String, ObservedLock> {
    let secret = |path: &str| {
        let parts = ["", "-__lock__", "/locks", "/leases"].map(|part| format!("{path}{part}"));
        let mut secrets = server.nodes.iter().filter(|(_, node)| node.secret);
        secrets.any(|(node, _)| parts.iter().any(|part| is_below(part, node)))
    };
    let plain = told.iter().filter(|(path, _)| !secret(path)).map(|(path, lock)| {
        let ignored = if server.discreet { Vec::new() } else { lock.ignored.clone() };
        (path.clone(), ObservedLock { creates: None, ignored, ..lock.clone() })
    });
    plain.collect()
}

fn run(seed: u64, roots: &[&str], depth: Depth, secrets: bool, discreet: bool) {
    let mut dice = Rng::with_seed(seed);
    let mut server = Server { discreet, ..server() };
    for _ in 0..dice.usize(..60) {
        change(&mut server, &mut dice, secrets);
    }
    let mut client = Client::new(&server, roots, depth);
    // What is secret and made in secret is never known.
    let secrets = secrets && !discreet;
    for _ in 0..dice.usize(..120) {
        match dice.u8(..10) {
            0..3 => change(&mut server, &mut dice, secrets),
            3..6 => client.deliver_event(&server),
            6..8 if client.under_way.len() < 4 => client.ask(&server, dice.usize(1..5)),
            8 => client.look(&server, discreet),
            _ => client.deliver_answer(&server),
        }
    }
    client.settle(&server);
    let mut quiet = Client::new(&server, roots, depth);
    quiet.tree.remember(&client.tree);
    quiet.settle(&server);
    let (told, quietly) = (plain(&client.told, &server), plain(&quiet.told, &server));
    assert_eq!(told, quietly, "seed {seed} {:#?} {:#?}", server.nodes, server.events);
    for path in told.keys() {
        let lock = &client.told[path];
        // Of others than contenders that came while it was read, none is counted.
        let most = lock.contenders().filter_map(|one| ContenderName::parse(&one.node));
        let least = most.map(|name| name.sequence() + 1).max();
        let least = least.filter(|_| lock.kind != Kind::Semaphore).unwrap_or(0);
        let (told, there) = (lock.creates.map(i64::from), quiet.told[path].creates.map(i64::from));
        assert_eq!(told.is_some(), there.is_some(), "seed {seed} {path}");
        let right = told <= there && told.is_none_or(|told| told >= least);
        assert!(right, "seed {seed} {path} {told:?} {there:?} {least} {:#?}", server.events);
    }
}

const RUNS: u64 = 2_000;

#[test]
fn what_is_known_in_the_end_is_what_a_quiet_listing_finds() {
    for seed in 0..RUNS {
        run(seed, &["/"], Depth::Everything, false, false);
    }
}

#[test]
fn the_same_below_roots_that_come_and_go() {
    for seed in 0..RUNS {
        run(seed, &["/l/b", "/l/k", "/l/s"], Depth::Everything, false, false);
        run(seed, &["/l/a", "/l/s", "/l/hbase/master"], Depth::Locks, false, false);
    }
}

#[test]
fn the_same_where_some_nodes_may_not_be_read() {
    for seed in 0..RUNS {
        run(seed, &["/"], Depth::Everything, true, false);
    }
}

#[test]
fn the_same_where_no_events_of_these_are_sent() {
    for seed in 0..RUNS {
        run(seed, &["/"], Depth::Everything, true, true);
    }
}

#[test]
fn the_same_where_locks_are_looked_at_as_soon_as_they_are_read() {
    let (mut early, mut late) = (0, 0);
    for seed in 0..RUNS {
        let mut dice = Rng::with_seed(seed);
        let mut server = server();
        for _ in 0..dice.usize(..60) {
            change(&mut server, &mut dice, true);
        }
        let quiet = quiet(&server);
        let mut client = Client::new(&server, &["/"], Depth::Everything);
        client.early = true;
        loop {
            client.ask(&server, dice.usize(1..5));
            if client.under_way.is_empty() {
                break;
            }
            client.deliver_answer(&server);
        }
        early += client.told.len();
        client.settle(&server);
        late += client.told.len();
        assert_eq!(client.told, quiet.told, "seed {seed} {:#?}", server.nodes);
    }
    assert!(early * 2 > late, "{early} of {late}");
}

fn quiet(server: &Server) -> Client {
    let mut client = Client::new(server, &["/"], Depth::Everything);
    client.settle(server);
    client
}

fn server() -> Server {
    let mut server = Server::default();
    let top = Node { czxid: 0, session: 0, data: Vec::new(), creates: 0, secret: false };
    server.nodes.insert("/".to_owned(), top);
    server.past.push(server.nodes.clone());
    server
}

#[test]
fn no_name_of_a_node_and_no_event_makes_it_panic() {
    let hostile = [
        "lock-9223372036854775807",
        "_c_8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11-lock-9223372036854775807",
        "_c_8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11-lock--2147483648",
        "lock-4294967295",
        "-__lock__",
        "部署",
        "\u{202e}kcol",
        "8a0e3f62c3f84d71b9f0c2a4be6d8e11",
    ];
    let mut server = server();
    server.create("/", "l", 0, b"3", false);
    server.create("/l", "_c_8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11-lock-#", 1, b"", false);
    let mut client = quiet(&server);
    for name in hostile {
        server.create("/l", name, 1, b"", false);
        client.settle(&server);
    }
    assert_eq!(client.told["/l"].creates, Some(9));
    quiet(&server);
    for kind in [EventType::NodeCreated, EventType::NodeDeleted, EventType::NodeDataChanged] {
        for path in ["", "/", "//", "/l/", "l", "/zookeeper", "/zookeeper/quota/x", "/no/such/node"]
        {
            client.tree.event(kind, path);
        }
    }
    client.tree.changes();
}

#[test]
fn a_folder_that_may_not_be_listed_is_told_and_what_is_in_it_is_not() {
    let mut server = server();
    server.create("/", "l", 0, b"", true);
    server.create("/", "m", 0, b"", false);
    server.create("/l", "_c_8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11-lock-#", 1, b"", false);
    server.create("/m", "_c_8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11-lock-#", 1, b"", false);
    let mut client = quiet(&server);
    server.create("/l", "_c_11111111-2222-4333-8444-555555555555-lock-#", 2, b"", false);
    client.settle(&server);
    // Nor what comes below it, of which events tell everything: a later listing would not find it.
    server.create("/l", "x", 0, b"", false);
    server.create("/l/x", "_c_11111111-2222-4333-8444-555555555555-lock-#", 2, b"", false);
    client.settle(&server);
    assert!(client.tree.denied().eq(["/l"]));
    assert!(client.told.keys().eq(["/m"]), "{:?}", client.told);
}

#[test]
fn a_mutex_that_turns_out_to_be_the_entry_of_a_semaphore_is_none_any_more() {
    let mut server = server();
    for (folder, name) in [("/", "s"), ("/s", "locks")] {
        server.create(folder, name, 0, b"", false);
    }
    server.create("/s/locks", &format!("_c_{}-lock-#", UUIDS[0]), 1, b"", false);
    let mut client = quiet(&server);
    assert!(client.told.keys().eq(["/s/locks"]));
    server.create("/s", "leases", 0, b"", false);
    client.settle(&server);
    assert!(client.told.keys().eq(["/s"]));
}

#[test]
fn what_changed_while_it_was_listed_is_listed_again() {
    let mut tree = Tree::new(vec!["/".to_owned()], Depth::Everything);
    let (batch, questions) = tree.questions(9);
    tree.list_again("/");
    tree.answer(batch, &questions[0], Answer::Children(Vec::new()));
    assert_eq!(tree.questions(9).1, questions);
}
