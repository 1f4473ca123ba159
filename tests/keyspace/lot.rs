//! Histories that are too long to explore: random paths through a world.

use stateright::{Checker, Expectation, HasDiscoveries, Model, UniformChooser};

use crate::world::World;

/// Takes at least this many steps on random paths from the beginning, and checks that nothing goes
/// wrong and that some paths complete all operations.
pub(crate) fn holds_by_lot(world: World, seed: u64, steps: usize) {
    walk(world, seed, steps).assert_properties();
}

/// Same as [`holds_by_lot`], for a world in which operations may prevent each other from ending.
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
