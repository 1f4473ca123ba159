//! Histories that are too long to explore: paths through a world that are drawn by lot.

use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};

use crate::world::World;

/// Goes at least this many steps on paths from the beginning, and finds nothing wrong. Some lead to the end of all operations.
pub(crate) fn holds_by_lot(world: World, seed: u64, steps: usize) {
    walk(world, seed, steps).assert_properties();
}

/// The same, of a world in which operations keep each other from their ends.
pub(crate) fn breaks_nothing_by_lot(world: World, seed: u64, steps: usize) {
    let always = world.properties().into_iter().filter(|it| it.expectation == Expectation::Always);
    let checker = walk(world, seed, steps);
    always.for_each(|it| checker.assert_no_discovery(it.name));
}

fn walk(world: World, seed: u64, steps: usize) -> impl Checker<World> {
    let checker = world
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(steps)
        .spawn_simulation(seed, UniformChooser)
        .join();
    println!("{} states", checker.state_count());
    checker
}
