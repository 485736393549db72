//! The exhaustive model: the engine's own step function, a driver that may take any ready input
//! next, and an ensemble with lagging servers, lost connections and ended sessions.
//!
//! A client and its server are one: the answer to a read is made when it arrives, from the prefix of
//! the log that the client has been told so far. Nobody can tell that from an earlier answer that
//! travels for a while. Only writes reach the leader at a time of their own.
//!
//! Not modelled: read/write and semaphore kinds (`plain` is always true), contenders of other
//! clients, healthy and stuck numbers in one queue, one client with several contenders, a second
//! attempt after a loss, deletes that `NoAuth` refuses, and time: what the presumed validity
//! promises is an assumption (`validity_holds`).

mod client;
mod driver;
mod ensemble;
mod moves;
mod properties;
mod reduce;
mod runs;
mod world;

use stateright::{Model, Property};

use moves::Move;
use world::{Config, World};

/// Contenders of one lock.
#[derive(Clone, Copy, Debug)]
struct Lock(Config);

impl Model for Lock {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.0)]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        world.moves(moves);
    }

    fn next_state(&self, world: &World, next: Move) -> Option<World> {
        let mut world = world.clone();
        world.make(&self.0, next);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::properties()
    }
}
