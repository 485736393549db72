//! The configurations that are explored: small ones in every test run, large ones by `make model`.

use std::collections::BTreeMap;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::super::step::Flaw;
use super::Lock;
use super::moves::Move;
use super::properties::{
    ADOPTED, BY_EVENT, BY_LIST, DELETED, EXPIRED, NODE, ONE_HOLDER, ORDER, PASSED, REPLACED, SWEPT,
    VERIFIED, WAKE_UP,
};
use super::world::{Config, Faults};

/// So many faults, of any class.
fn any(total: u8) -> Faults {
    Faults {
        total,
        cuts: total,
        timeouts: total,
        expiries: total,
        new_sessions: total,
        deletions: total,
        changes: total,
        cancels: total,
        doubts: total,
        passes: total,
        reaps: total,
    }
}

fn of(contenders: u8, faults: Faults) -> Config {
    Config {
        contenders,
        faults,
        flaw: None,
        owner_unknown: false,
        stuck_numbers: false,
        no_parent: false,
        validity_holds: true,
    }
}

struct Found {
    /// The properties that do not hold, each with a path that shows it.
    broken: BTreeMap<&'static str, Vec<Move>>,
    seen: Vec<&'static str>,
}

/// Explores, and prints one line.
fn explore(config: Config, threads: usize, finish: HasDiscoveries) -> Found {
    let began = Instant::now();
    let checker = Lock(config).checker().threads(threads).finish_when(finish).spawn_bfs().join();
    let mut found = Found { broken: BTreeMap::new(), seen: Vec::new() };
    for (property, path) in checker.discoveries() {
        if checker.model().property(property).expectation == Expectation::Always {
            found.broken.insert(property, path.into_actions());
        } else {
            found.seen.push(property);
        }
    }
    found.seen.sort_unstable();
    let broken: Vec<String> =
        found.broken.iter().map(|(name, path)| format!("{name} ({} moves)", path.len())).collect();
    println!(
        "{:>9} states {:>6.1} s  depth {:>2}  {config}: {}; seen: {}",
        checker.unique_state_count(),
        began.elapsed().as_secs_f64(),
        checker.max_depth(),
        if broken.is_empty() { "all hold".to_owned() } else { broken.join(", ") },
        found.seen.join(", "),
    );
    found
}

/// Every property holds in every state, and each of these is seen in some.
fn holds(config: Config, sights: &[&'static str]) {
    let found = explore(config, 2, HasDiscoveries::AnyFailures);
    assert!(found.broken.is_empty(), "{config}: {:#?}", found.broken);
    for sight in sights {
        assert!(found.seen.contains(sight), "{config}: no {sight}");
    }
}

/// The flaw breaks this property in a configuration in which everything holds without it.
fn breaks(flaw: Flaw, config: Config, property: &'static str) {
    let sound = explore(config, 1, HasDiscoveries::AnyFailures);
    assert!(sound.broken.is_empty(), "{config}: {:#?}", sound.broken);
    let config = Config { flaw: Some(flaw), ..config };
    let until = HasDiscoveries::AnyOf([property].into());
    let flawed = explore(config, 1, until);
    assert!(flawed.broken.contains_key(property), "{flaw:?} goes unnoticed: {:#?}", flawed.broken);
}

#[test]
fn without_faults() {
    holds(of(2, Faults::default()), &[BY_EVENT, BY_LIST]);
}

#[test]
fn one_fault() {
    let sights = [BY_EVENT, BY_LIST, ADOPTED, VERIFIED, EXPIRED, DELETED, PASSED];
    holds(of(2, any(1)), &sights);
}

#[test]
fn one_contender_two_faults() {
    let sights = [BY_LIST, ADOPTED, VERIFIED, SWEPT, EXPIRED, DELETED, REPLACED, PASSED];
    let alone = of(1, any(2));
    holds(alone, &sights);
    let unknown = Config { owner_unknown: true, ..alone };
    holds(unknown, &sights);
    let bare = Config { no_parent: true, ..alone };
    holds(bare, &sights);
}

#[test]
fn stuck_numbers() {
    let faults = Faults { total: 1, deletions: 1, changes: 1, ..Faults::default() };
    let config = Config { stuck_numbers: true, ..of(2, faults) };
    holds(config, &[BY_LIST, DELETED]);
}

#[test]
fn grant_on_any_event_is_noticed() {
    let faults = Faults { total: 1, changes: 1, ..Faults::default() };
    breaks(Flaw::GrantOnAnyEvent, of(2, faults), ONE_HOLDER);
}

#[test]
fn no_second_poll_is_noticed() {
    let faults = Faults { total: 1, deletions: 1, ..Faults::default() };
    breaks(Flaw::NoSecondPoll, of(2, faults), NODE);
}

#[test]
fn own_watch_not_rearmed_is_noticed() {
    let faults = Faults { total: 2, changes: 1, deletions: 1, ..Faults::default() };
    breaks(Flaw::OwnWatchNotRearmed, of(1, faults), WAKE_UP);
    // Where a predecessor's event decides, it is worse than an unnoticed loss.
    breaks(Flaw::OwnWatchNotRearmed, of(2, faults), NODE);
}

#[test]
fn link_change_unseen_is_noticed() {
    // The watches that are set again tell of the predecessor first.
    let faults = Faults { total: 2, cuts: 1, deletions: 1, ..Faults::default() };
    breaks(Flaw::LinkChangeUnseen, of(2, faults), NODE);
}

#[test]
fn absent_own_node_accepted_is_noticed() {
    let faults = Faults { total: 1, deletions: 1, ..Faults::default() };
    breaks(Flaw::AbsentOwnNodeAccepted, of(2, faults), NODE);
}

#[test]
fn adoption_without_owner_check_is_noticed() {
    let faults = Faults { total: 2, cuts: 1, new_sessions: 1, ..Faults::default() };
    let config = Config { owner_unknown: true, ..of(2, faults) };
    breaks(Flaw::AdoptionWithoutOwnerCheck, config, ORDER);
}

/// Without A1–A4 the order of grants, and nothing else, is lost.
#[test]
fn the_order_of_grants_rests_on_the_presumed_validity() {
    let faults = Faults { total: 1, expiries: 1, ..Faults::default() };
    let config = Config { validity_holds: false, ..of(2, faults) };
    let found = explore(config, 2, HasDiscoveries::AllFailures);
    assert_eq!(found.broken.into_keys().collect::<Vec<_>>(), [ORDER]);
}

#[test]
#[ignore = "minutes; make model"]
fn model_1_three_contenders_one_fault() {
    let sights = [BY_EVENT, BY_LIST, ADOPTED, VERIFIED, EXPIRED, DELETED, PASSED];
    holds(of(3, Faults { reaps: 0, ..any(1) }), &sights);
}

#[test]
#[ignore = "minutes; make model"]
fn model_2_three_contenders_by_hand() {
    let faults =
        Faults { total: 2, changes: 1, deletions: 1, cancels: 1, passes: 1, ..Faults::default() };
    holds(of(3, faults), &[BY_EVENT, BY_LIST, DELETED, PASSED]);
}

#[test]
#[ignore = "minutes; make model"]
fn model_3_three_contenders_new_session() {
    let faults = Faults { total: 2, cuts: 1, new_sessions: 1, ..Faults::default() };
    holds(of(3, faults), &[BY_EVENT, ADOPTED, VERIFIED, REPLACED]);
}

#[test]
#[ignore = "minutes; make model"]
fn model_4_two_contenders_three_faults() {
    let sights = [BY_EVENT, BY_LIST, ADOPTED, VERIFIED, SWEPT, EXPIRED, DELETED, REPLACED, PASSED];
    holds(of(2, Faults { reaps: 0, ..any(3) }), &sights);
}

#[test]
#[ignore = "minutes; make model"]
fn model_5_two_contenders_variants() {
    let sights = [ADOPTED, VERIFIED, SWEPT, EXPIRED, DELETED, REPLACED, PASSED];
    let two = of(2, any(2));
    holds(Config { owner_unknown: true, ..two }, &sights);
    holds(Config { stuck_numbers: true, ..two }, &sights);
    holds(Config { no_parent: true, ..two }, &sights);
    let faults = Faults { total: 3, cuts: 2, new_sessions: 2, timeouts: 1, ..Faults::default() };
    let config = Config { owner_unknown: true, ..of(2, faults) };
    holds(config, &[ADOPTED, VERIFIED, REPLACED]);
}
