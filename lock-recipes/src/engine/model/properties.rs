//! What must hold in every state, and what must be seen in some.

use stateright::Property;

use super::super::step::Granted;
use super::Lock;
use super::client::Client;
use super::world::{Sight, World};
use crate::health::LossReason;

pub(super) const ONE_HOLDER: &str = "at most one holder by the server's truth";
pub(super) const NODE: &str = "no grant without the first node";
pub(super) const ORDER: &str = "grants in token order";
pub(super) const WAKE_UP: &str = "no lost wake-up";
pub(super) const OWNED: &str = "nothing unowned";

pub(super) const BY_EVENT: &str = "grant by event";
pub(super) const BY_LIST: &str = "grant by list";
pub(super) const ADOPTED: &str = "adoption";
pub(super) const VERIFIED: &str = "verified hold";
pub(super) const SWEPT: &str = "swept node";
pub(super) const EXPIRED: &str = "loss: expired";
pub(super) const DELETED: &str = "loss: deleted";
pub(super) const REPLACED: &str = "loss: replaced";
pub(super) const PASSED: &str = "loss: validity";

pub(super) fn properties() -> Vec<Property<Lock>> {
    vec![
        Property::always(ONE_HOLDER, |_, world: &World| holders(world) <= 1),
        // By an event: the own node is there and first in the prefix that the client has been
        // told. By a list: in the prefix of that list, and no watch has said otherwise since.
        Property::always(NODE, |_, world: &World| !world.note.groundless),
        // Rests on the presumed validity (A1–A4): a contender whose session the leader has ended
        // may still read an old list from its server, and only the validity stops it. A node that
        // was deleted by hand (A5) is exempt: until its client hears of it, an old list can grant
        // what has been granted to others since. Fencing by the resource covers both.
        Property::always(ORDER, |_, world: &World| !world.note.out_of_order),
        Property::always(WAKE_UP, |_, world: &World| {
            world.clients.iter().all(|client| !stuck(world, client))
        }),
        Property::always(OWNED, |_, world: &World| {
            world.clients.iter().all(|client| all_owned(world, client))
        }),
        Property::sometimes(BY_EVENT, |_, world| saw(world, Sight::Granted(Granted::ByEvent))),
        Property::sometimes(BY_LIST, |_, world| saw(world, Sight::Granted(Granted::ByList))),
        Property::sometimes(ADOPTED, |_, world| saw(world, Sight::Adopted)),
        Property::sometimes(VERIFIED, |_, world| saw(world, Sight::Verified)),
        Property::sometimes(SWEPT, |_, world| saw(world, Sight::Swept)),
        Property::sometimes(EXPIRED, |_, world| {
            saw(world, Sight::Lost(LossReason::SessionExpired))
        }),
        Property::sometimes(DELETED, |_, world| saw(world, Sight::Lost(LossReason::NodeDeleted))),
        Property::sometimes(REPLACED, |_, world| saw(world, Sight::Lost(LossReason::NodeReplaced))),
        Property::sometimes(PASSED, |_, world| saw(world, Sight::Lost(LossReason::ValidityPassed))),
    ]
}

fn saw(world: &World, sight: Sight) -> bool {
    world.note.sight == Some(sight)
}

fn holders(world: &World) -> usize {
    let holds = |client: &Client| {
        client.step.held() && client.step.own().is_some_and(|&own| world.ensemble.live(own))
    };
    world.clients.iter().filter(|client| holds(client)).count()
}

/// Nothing moves this client any more, except what others do to the nodes it watches.
fn at_rest(world: &World, client: &Client) -> bool {
    client.attempting()
        && client.quiet()
        && client.at == world.ensemble.end()
        && world.alive(client)
}

/// At rest, and yet without a node, or first and not the holder.
fn stuck(world: &World, client: &Client) -> bool {
    if !at_rest(world, client) {
        return false;
    }
    let Some(&own) = client.step.own() else { return true };
    let nodes = world.ensemble.view.nodes;
    !nodes.contains(own) || nodes.lowest() == Some(own) && !client.step.held()
}

/// Every live node of the session belongs to the attempt or guard, or to the janitor, or the sweep
/// is still to come.
fn all_owned(world: &World, client: &Client) -> bool {
    let attempt = client.attempt();
    world.ensemble.owned_by(client.session).all(|node| {
        let owners = usize::from(attempt == Some(node)) + usize::from(client.jobs.contains(node));
        owners == 1 || owners == 0 && client.sweep
    })
}
