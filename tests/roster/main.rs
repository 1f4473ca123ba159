//! Exhaustive models of the roster, its marks and the admission of a master that has forgotten.
//!
//! * [`admission`]: two proxies that pause anywhere, three masters, one lease. Masters forget and
//!   are admitted again while claims are in flight. A change of the roster is one step here.
//! * [`register`]: justifies that one step. The roster is kept on the masters themselves, one of
//!   which forgets it.
//! * [`anew`]: a quorum forgets, again and again, and a proxy does not see all masters.
//! * [`given_up`]: the roster is begun anew in the register while a proxy changes the previous one.
//! * [`founding`]: two founders with the same list, or with overlapping lists.
//! * [`shards`]: several clusters behind one address, and proxies that disagree on them.
//!
//! A model that cannot fail proves nothing. Each rule is removed once, and the model has to find a
//! violation.

mod admission;
mod admission_bugs;
mod anew;
mod founding;
mod given_up;
mod register;
mod resizing;
mod shards;
#[path = "../specification/mod.rs"]
mod specification;

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

/// Explores until `property` fails, as it must, and returns the number of steps.
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
