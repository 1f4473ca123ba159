//! Histories that are too long to explore: paths through a world that are drawn by lot.

use stateright::{Checker, HasDiscoveries, Model, UniformChooser};

use crate::world::World;

/// Goes at least this many steps on paths from the beginning, and finds nothing wrong.
pub(crate) fn holds_by_lot(world: World, seed: u64, steps: usize) {
    let checker = world
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(steps)
        .spawn_simulation(seed, UniformChooser)
        .join();
    checker.assert_properties();
    println!("{} states", checker.state_count());
}
