//! Exploring a model to its end, and seeing that it fails without a rule.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// Explores everything, and finds nothing wrong in at least so many states.
///
/// It goes deep first: what is still to be looked at then is short, and a world of a million states fits into 30 MB.
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

/// In a world without a rule something goes wrong, in a history that is shown.
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
