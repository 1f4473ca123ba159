//! Exhaustive model of one register: every order in which requests and answers can arrive, be late
//! or be lost. Three proposers work on three masters, one of which may forget and be admitted
//! again. The model runs the real decision code ([`Proposer`] and the masters' state); links and
//! admission around it are modelled.
//!
//! A model that cannot fail proves nothing. Each rule is removed once, and the model has to find a
//! violation.

mod bugs;
#[path = "../specification/mod.rs"]
mod specification;
mod world;

use stateright::{Checker, Model};
use world::{Operation, World};

/// Explores everything, and returns the number of states.
fn explore(world: World) -> usize {
    let checker = world.checker().threads(1).spawn_bfs().join();
    checker.assert_properties();
    println!("{} states", checker.unique_state_count());
    checker.unique_state_count()
}

#[test]
fn no_order_of_requests_breaks_a_register() {
    let states = explore(World::small());
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn no_order_of_requests_among_two_that_begin_again_breaks_a_register() {
    let states = explore(World { clients: increments(2), retries: 1, ..World::small() });
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn no_lost_answer_makes_a_program_run_twice() {
    let clients = vec![vec![Operation::Increment], vec![Operation::Read]];
    let states = explore(World { clients, retries: 1, losses: 2, ..World::small() });
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn no_order_of_requests_around_an_admission_breaks_a_register() {
    let states = explore(World { clients: increments(2), forgets: true, ..World::small() });
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn no_copy_of_what_is_decided_breaks_a_register() {
    let states =
        explore(World { clients: increments(2), retries: 1, catch_ups: 1, ..World::small() });
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn what_a_short_list_no_longer_tells_is_an_error() {
    let clients = vec![vec![Operation::Increment], vec![Operation::Increment; 2]];
    let states = explore(World { clients, retries: 1, keep: 1, ..World::small() });
    assert!(states > 1_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_requests_around_an_admission_and_a_new_attempt_breaks_a_register() {
    let world = World { clients: increments(2), retries: 1, forgets: true, ..World::small() };
    let states = explore(world);
    assert!(states > 100_000, "only {states} states");
}

fn increments(clients: usize) -> Vec<Vec<Operation>> {
    vec![vec![Operation::Increment]; clients]
}
