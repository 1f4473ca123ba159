//! The roster, its marks and the admission of a master that has forgotten, by exhaustion.
//!
//! * [`admission`]: two proxies that pause anywhere, three masters, one lease. Masters forget and are admitted again
//!   while claims are on their way. A change of the roster is one step here.
//! * [`register`]: that it may be one step. The roster is kept on the masters themselves, one of which forgets it.
//! * [`anew`]: a quorum forgets, again and again, and a proxy does not see all of it.
//! * [`given_up`]: the roster is begun anew in the register, while somebody changes the one before.
//! * [`founding`]: two founders with the same list, or with lists that overlap.
//!
//! A model that cannot fail proves nothing. Every rule is taken away once, and the model has to find what breaks.

mod admission;
mod admission_bugs;
mod anew;
mod founding;
mod given_up;
mod register;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// Explores everything, and returns the number of states.
fn explore<M>(world: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let checker = world.checker().threads(1).spawn_bfs().join();
    checker.assert_properties();
    println!("{} states", checker.unique_state_count());
    checker.unique_state_count()
}

/// Explores until `property` fails, which it does, and returns in how many steps.
fn steps_to_failure<M>(world: M, property: &'static str) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let failed = HasDiscoveries::AnyOf([property].into());
    let found = world.checker().threads(1).finish_when(failed).spawn_bfs().join();
    let steps = found.discovery(property).expect("a failure").into_actions().len();
    println!("{property}: fails in {steps} steps, {} states", found.unique_state_count());
    steps
}
