//! Rules that are removed, and the violations that the model then finds.

use redlock_proxy::decision::register::acceptor::{Apply, State as Accepted};
use redlock_proxy::decision::register::proposer::{MasterAnswer, Request};
use stateright::{Checker, HasDiscoveries, Model};

use crate::specification::stamp::{self, StampOf};
use crate::world::{Increment, Master, Operation, World};

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// An adopted state keeps the ballot under which it was found.
    AdoptsWithTheOldBallot,
    /// Votes count under any roster version.
    MixesVersions,
    /// An unanswered operation is sent again without checking whether it has run.
    RunsAgainBlindly,
    /// A program runs on any state.
    IgnoresTheExpectedBallot,
    /// A master accepts ballots below its promise.
    BreaksPromises,
}

/// Executes a request on a master that breaks a rule. Returns `None` if the bug does not affect it.
pub(crate) fn execute(
    bug: Bug,
    stamp: &mut StampOf<Increment>,
    request: &Request<Increment>,
    keep: usize,
) -> Option<MasterAnswer<Increment>> {
    match (bug, request) {
        (Bug::AdoptsWithTheOldBallot, Request::Adopt(adopt)) if stamp.promised < adopt.next => {
            (stamp.promised, stamp.state) = (adopt.next, adopt.state.clone());
            Some(MasterAnswer::Adopted)
        }
        (Bug::IgnoresTheExpectedBallot, Request::Apply(apply)) => {
            let apply = Apply { expected: stamp.state.accepted, ..*apply };
            Some(
                stamp::apply(stamp, &apply, keep)
                    .map_or_else(MasterAnswer::Refused, MasterAnswer::Applied),
            )
        }
        (Bug::BreaksPromises, Request::Adopt(adopt)) => {
            stamp.state = adopt.state.clone();
            Some(MasterAnswer::Adopted)
        }
        (Bug::BreaksPromises, Request::Apply(apply)) if apply.expected == stamp.state.accepted => {
            let (state, reply) = stamp.state.after(&apply.program, apply.ballot, keep);
            stamp.state = state;
            Some(MasterAnswer::Applied(reply))
        }
        _ => None,
    }
}

/// Restores the ballot under which an adopted state was found.
pub(crate) fn with_the_old_ballot(masters: &[Master], request: &mut Request<Increment>) {
    let Request::Adopt(adopt) = request else { return };
    let found = masters.iter().map(|master| &master.stamp.state);
    let is_same =
        |state: &&Accepted<u8, u8>| (**state).clone().under(adopt.state.accepted) == adopt.state;
    if let Some(state) = found.into_iter().find(is_same) {
        adopt.state = state.clone();
    }
}

/// Explores until something breaks, and returns the number of steps.
fn steps_to_failure(bug: Bug, world: World) -> usize {
    let checker = World { bug: Some(bug), ..world }.checker().threads(1);
    let property = "every answer is that of one counter";
    let end = HasDiscoveries::AnyOf([property].into());
    let found = checker.finish_when(end).spawn_bfs().join();
    let path = found.discovery(property).expect("a wrong answer");
    let steps = path.into_actions();
    println!("{bug:?}: {} steps, {} states", steps.len(), found.unique_state_count());
    steps.len()
}

fn two_increments() -> World {
    World { clients: vec![vec![Operation::Increment]; 2], ..World::small() }
}

#[test]
fn adopting_with_the_old_ballot_loses_an_answer() {
    let world = World { retries: 2, ..two_increments() };
    assert!(steps_to_failure(Bug::AdoptsWithTheOldBallot, world) < 25);
}

#[test]
fn votes_from_before_and_after_an_admission_lose_an_answer() {
    let world = World { forgets: true, ..two_increments() };
    assert!(steps_to_failure(Bug::MixesVersions, world) < 25);
}

#[test]
fn sending_an_unanswered_program_again_counts_twice() {
    let clients = vec![vec![Operation::Increment]];
    let world = World { clients, retries: 1, losses: 2, ..World::small() };
    assert!(steps_to_failure(Bug::RunsAgainBlindly, world) < 25);
}

#[test]
fn a_program_on_another_state_than_it_expects_loses_an_answer() {
    let world = World { retries: 1, ..two_increments() };
    assert!(steps_to_failure(Bug::IgnoresTheExpectedBallot, world) < 25);
}

#[test]
fn accepting_below_a_promise_loses_an_answer() {
    let world = World { retries: 1, ..two_increments() };
    assert!(steps_to_failure(Bug::BreaksPromises, world) < 25);
}
