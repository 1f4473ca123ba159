//! Exhaustive exploration of models, and checks that a model fails when one of its rules is
//! removed.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// Explores every state, and checks that nothing goes wrong and that there are at least this many
/// states.
///
/// The search goes depth-first. That keeps the queue of pending states short: a world of a million
/// states fits into 30 MB.
pub(crate) fn holds<M>(world: M, at_least: usize)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = world.checker().threads(2).spawn_dfs().join();
    checker.assert_properties();
    let states = checker.unique_state_count();
    println!("{states} states");
    assert!(states >= at_least, "only {states} states");
}

/// Checks that a world without one of its rules violates `property`, and prints the history that
/// does.
pub(crate) fn goes_wrong<M>(world: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let wanted = HasDiscoveries::AnyOf([property].into_iter().collect());
    let checker = world.checker().threads(2).finish_when(wanted).spawn_dfs().join();
    let found = checker.discovery(property);
    let steps = found.expect("the rule is not needed here").into_actions();
    println!("{} states, {} steps: {steps:?}", checker.unique_state_count(), steps.len());
}
