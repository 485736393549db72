#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::observe::lock::NodeFacts;

const UUID: &str = "8a0e3f62-c3f8-4d71-b9f0-c2a4be6d8e11";
const HEX: &str = "8a0e3f62c3f84d71b9f0c2a4be6d8e11";

fn facts(token: i64, session: i64, data: &[u8]) -> Facts {
    Facts::Read(NodeFacts {
        token: FencingToken::from_czxid(token),
        session,
        queued_at: Duration::ZERO,
        data: data.into(),
    })
}

fn seat_of(name: &str, facts: Facts) -> Seat {
    Seat { name: ContenderName::parse(name).expect(name), facts }
}

/// A contender that was created by this session, with this zxid.
fn seat(name: &str, token: i64, session: i64) -> Seat {
    seat_of(name, facts(token, session, b""))
}

/// A contender of each marker, in this order, each of a session of its own.
fn seats(markers: &[&str]) -> Vec<Seat> {
    let name = |(number, marker): (usize, &&str)| {
        let token = i64::try_from(number).unwrap() + 100;
        let name = match *marker {
            "__lock__" | "__rlock__" => format!("{HEX}{marker}{number:010}"),
            marker => format!("_c_{UUID}-{marker}{number:010}"),
        };
        seat(&name, token, token)
    };
    markers.iter().enumerate().map(name).collect()
}

fn numbers(contenders: &[ObservedContender]) -> Vec<i64> {
    contenders.iter().map(|one| number(&one.node)).collect()
}

fn number(node: &str) -> i64 {
    ContenderName::parse(node).unwrap().sequence()
}

/// Numbers of the holders, and of each waiter with those it waits for.
fn told(lock: &ObservedLock) -> (Vec<i64>, Vec<(i64, Vec<i64>)>) {
    assert!(lock.holders.iter().all(|holder| holder.behind.is_empty()));
    let waiters = lock.waiters.iter().map(|waiter| {
        (number(&waiter.node), waiter.behind.iter().map(|node| number(node)).collect())
    });
    (numbers(&lock.holders), waiters.collect())
}

fn lock(seats: Vec<Seat>) -> ObservedLock {
    queue("/l", seats, Vec::new())
}

#[test]
fn a_mutex_is_held_by_the_lowest_number_and_each_other_waits_for_the_one_ahead() {
    // czxid and text say otherwise.
    let queue = vec![
        seat(&format!("{HEX}__lock__0000000010"), 1, 1),
        seat(&format!("_c_{UUID}-lock-0000000003"), 3, 2),
        seat("x-72057594037927936-0000000004", 2, 3),
    ];
    let lock = lock(queue);
    assert_eq!((lock.kind, lock.dialect), (Kind::Mutex, None));
    assert_eq!(told(&lock), (vec![3], vec![(4, vec![3]), (10, vec![4])]));
    assert!(lock.contenders().all(|one| one.role == Role::Exclusive && one.granted.is_none()));
}

#[test]
fn equal_numbers_are_told_apart_by_czxid_and_past_the_limit_only_that_counts() {
    let name = |number: i64| format!("_c_{UUID}-lock-{number:010}");
    let tokens = |mut seats: Vec<Seat>| {
        order(&mut seats);
        seats.iter().map(|seat| seat.token().map_or(0, FencingToken::as_i64)).collect::<Vec<_>>()
    };
    assert_eq!(
        tokens(vec![seat(&name(7), 9, 1), seat(&name(7), 8, 1), seat(&name(6), 10, 1)]),
        [10, 8, 9]
    );
    let last = i64::from(i32::MAX);
    assert_eq!(tokens(vec![seat(&name(last), 9, 1), seat(&name(last), 8, 1)]), [8, 9]);
    assert_eq!(tokens(vec![seat(&name(5), 9, 1), seat(&name(last), 8, 1)]), [8, 9]);
    assert_eq!(tokens(vec![seat(&name(5), 9, 1), seat("x-12--000000013", 10, 1)]), [9, 10]);
    // Who is not read yet came last.
    let pending = seat_of(&name(last), Facts::Pending);
    assert_eq!(tokens(vec![pending, seat(&name(last), 9, 1)]), [9, 0]);
}

#[test]
fn the_roles_say_what_kind_of_lock_it_is() {
    for (markers, kind) in [
        (&["lock-", "lock-"][..], Kind::Mutex),
        (&["latch-", "lock-"], Kind::Mutex),
        (&["latch-", "latch-"], Kind::Election),
        (&["lease-", "lease-"], Kind::Semaphore),
        (&["lease-", "lock-"], Kind::Mutex),
        (&["__READ__", "__READ__"], Kind::RwLock),
        (&["__WRIT__"], Kind::RwLock),
        (&["lock-", "__READ__"], Kind::RwLock),
    ] {
        let lock = lock(seats(markers));
        assert_eq!((lock.kind, lock.dialect), (kind, Some(Dialect::Curator)), "{markers:?}");
    }
    let candidates = lock(seats(&["latch-", "latch-", "latch-"]));
    assert_eq!(told(&candidates), (vec![0], vec![(1, vec![0]), (2, vec![1])]));
    assert!(candidates.contenders().all(|one| one.role == Role::Candidate));
    // How many permits there are nobody but the clients knows.
    let permits = lock(seats(&["lease-", "lease-"]));
    assert_eq!(told(&permits), (vec![0, 1], vec![]));
}

#[test]
fn readers_wait_for_the_nearest_writer_and_a_writer_for_all_readers_just_ahead() {
    use Role::{Read, Write};
    let queue = [
        "__READ__", "__READ__", "__WRIT__", "__READ__", "__WRIT__", "__WRIT__", "__READ__",
        "__READ__",
    ];
    let lock = lock(seats(&queue));
    let waiters =
        vec![(2, vec![0, 1]), (3, vec![2]), (4, vec![3]), (5, vec![4]), (6, vec![5]), (7, vec![5])];
    assert_eq!(told(&lock), (vec![0, 1], waiters));
    let roles: Vec<_> = lock.waiters.iter().map(|waiter| waiter.role).collect();
    assert_eq!(roles, [Write, Read, Write, Write, Read, Read]);
}

#[test]
fn a_writer_that_holds_keeps_the_readers_out() {
    let lock = lock(seats(&["__WRIT__", "__READ__", "__READ__", "__WRIT__"]));
    assert_eq!(told(&lock), (vec![0], vec![(1, vec![0]), (2, vec![0]), (3, vec![1, 2])]));
}

#[test]
fn a_writer_of_curator_that_reads_as_well_holds_twice_and_only_itself() {
    let write = format!("_c_{UUID}-__WRIT__0000000004");
    let read = format!("_c_{UUID}-__READ__0000000004");
    let behind = format!("_c_{UUID}-__WRIT__0000000005");
    let own = lock(vec![seat(&write, 10, 1), seat(&behind, 11, 2), seat(&read, 12, 1)]);
    let holders: Vec<_> = own.holders.iter().map(|holder| (&*holder.node, holder.role)).collect();
    assert_eq!(holders, [(&*write, Role::Write), (&*read, Role::Read)]);
    assert_eq!(own.waiters[0].behind, [&*write, &*read]);
    // Another session's, and that of a writer that waits itself, do not.
    let others = lock(vec![seat(&write, 10, 1), seat(&read, 12, 2)]);
    assert_eq!(told(&others), (vec![4], vec![(4, vec![4])]));
    let first = format!("_c_{UUID}-__WRIT__0000000003");
    let waits = lock(vec![seat(&first, 9, 3), seat(&write, 10, 1), seat(&read, 12, 1)]);
    assert_eq!(told(&waits), (vec![3], vec![(4, vec![3]), (4, vec![4])]));
}

#[test]
fn kazoos_plain_name_beside_readers_is_a_writers() {
    let lock = lock(seats(&["__rlock__", "__lock__", "__rlock__"]));
    assert_eq!((lock.kind, lock.dialect), (Kind::RwLock, Some(Dialect::Kazoo)));
    assert_eq!(told(&lock), (vec![0], vec![(1, vec![0]), (2, vec![1])]));
    assert_eq!(lock.waiters[0].role, Role::Write);
}

#[test]
fn several_lead_where_all_allow_it_and_one_where_any_does_not() {
    let candidate = |number: i64, data: &[u8]| {
        seat_of(&format!("leader_election-{number:010}"), facts(number + 1, 1, data))
    };
    let (many, one) = (&b"r (multiple leaders Ok)"[..], &b"r"[..]);
    let all = lock(vec![candidate(0, many), candidate(1, many)]);
    assert_eq!((all.kind, all.dialect), (Kind::Election, Some(Dialect::ClickHouse)));
    assert_eq!(told(&all), (vec![0, 1], vec![]));
    let mixed = lock(vec![candidate(0, many), candidate(1, one)]);
    assert_eq!(told(&mixed), (vec![0], vec![(1, vec![0])]));
}

#[test]
fn at_curators_semaphore_a_lease_holds_unless_it_was_just_made_at_the_front_of_the_entry() {
    let entry =
        |number: i64, token, session| seat(&format!("_c_{UUID}-lock-{number:010}"), token, session);
    let lease = |number: i64, token, session| {
        seat(&format!("_c_{UUID}-lease-{number:010}"), token, session)
    };
    let lock = |entry, leases| curator_semaphore("/s", entry, leases, Vec::new());
    let full = lock(
        vec![entry(12, 30, 3), entry(13, 32, 4), entry(14, 33, 5)],
        vec![lease(20, 10, 1), lease(21, 20, 2), lease(22, 31, 3)],
    );
    assert_eq!((full.kind, full.dialect), (Kind::Semaphore, Some(Dialect::Curator)));
    // The lease of the one that asks waits for any other; those behind it at the entry for it.
    let waiters = vec![(22, vec![20, 21]), (13, vec![22]), (14, vec![13])];
    assert_eq!(told(&full), (vec![20, 21], waiters));
    assert!(full.contenders().all(|one| one.role == Role::Permit));
    // A lease that the same session has had before is held.
    let again = lock(vec![entry(12, 30, 1)], vec![lease(20, 10, 1), lease(21, 20, 2)]);
    assert_eq!(told(&again), (vec![20, 21], vec![(12, vec![20, 21])]));
    let both = lock(vec![entry(12, 30, 1)], vec![lease(20, 10, 1), lease(21, 31, 1)]);
    assert_eq!(told(&both), (vec![20], vec![(21, vec![20])]));
    let nobody = lock(vec![], vec![lease(20, 10, 1)]);
    assert_eq!(told(&nobody), (vec![20], vec![]));
}

#[test]
fn at_kazoos_semaphore_leases_hold_and_the_entry_waits() {
    let lease =
        |head: &str, token| (format!("{head}{}", HEX.split_at(1).1), facts(token, token, b""));
    let entry = |number: i64| seat(&format!("{HEX}__lock__{number:010}"), 50 + number, 9);
    let leases = vec![lease("1", 20), lease("2", 10)];
    let lock = kazoo_semaphore("/s", leases.clone(), vec![entry(6), entry(5)], Vec::new());
    assert_eq!((lock.kind, lock.dialect), (Kind::Semaphore, Some(Dialect::Kazoo)));
    let holders: Vec<_> = lock.holders.iter().map(|one| (&one.node, one.role)).collect();
    assert_eq!(holders, [(&leases[1].0, Role::Permit), (&leases[0].0, Role::Permit)]);
    assert_eq!(numbers(&lock.waiters), [5, 6]);
    assert_eq!(lock.waiters[0].behind, [leases[1].0.clone(), leases[0].0.clone()]);
    assert_eq!(lock.waiters[1].behind, [&*lock.waiters[0].node]);
}

#[test]
fn products_that_lead_with_one_node_are_known_by_its_name_and_its_folders() {
    for (folder, name, dialect) in [
        ("/hadoop-ha/ns", "ActiveStandbyElectorLock", Some(Dialect::Hadoop)),
        ("/hbase", "master", Some(Dialect::HBase)),
        ("/x/hbase-secure", "master", Some(Dialect::HBase)),
        ("/x", "master", None),
        ("/", "controller", Some(Dialect::Kafka)),
        ("/c/CONTROLLER", "LEADER", Some(Dialect::Helix)),
        ("/c", "LEADER", None),
        ("/hadoop-ha/ns", "ActiveBreadCrumb", None),
    ] {
        assert_eq!(lone_leader_dialect(folder, name), dialect, "{folder}/{name}");
    }
    let lock = lone_leader("/hbase/master", "master", Dialect::HBase, facts(7, 8, b"host"));
    assert_eq!((lock.kind, lock.dialect), (Kind::Election, Some(Dialect::HBase)));
    assert_eq!((&*lock.holders[0].node, lock.holders[0].role), ("master", Role::Candidate));
    assert!(lock.waiters.is_empty() && lock.holders.len() == 1);
}

#[test]
fn names_that_other_things_have_count_where_a_session_owns_them() {
    let weak = "lock-0000000001";
    assert!(!seat(weak, 5, 0).counts() && !seat_of(weak, Facts::Pending).counts());
    assert!(seat(weak, 5, 1).counts() && seat_of(weak, Facts::Denied).counts());
    // Nobody else writes these: a persistent one blocks its queue.
    let strong = format!("_c_{UUID}-lock-0000000001");
    assert!(seat(&strong, 5, 0).counts() && seat_of(&strong, Facts::Pending).counts());
    let children = ["config", "lock-0000000001", &*strong];
    let ignored = ignored(children.into_iter(), &[seat(&strong, 5, 0)]);
    assert_eq!(ignored, ["config", weak]);
}
