//! Values that have ended by the clock of a proxy that is ahead, and still stay by the masters' clocks.

use super::*;
use crate::decision::keyspace::copying::{Given, known};

/// Time on the masters' clocks, and the time until which the ending value stays by them.
const NOW_US: u64 = 990;
const STAYS_US: u64 = 1_000;
/// Time as the masters see it then.
const LATEST_US: u64 = END_US - (STAYS_US - NOW_US);

/// Returns two masters with a value that ends, and a third with nothing.
fn ending() -> Masters {
    let mut masters = short();
    masters.iter_mut().for_each(|slots| slots.of(&'a').state.stays_us = STAYS_US);
    masters[2] = Slots::default();
    masters
}

#[test]
fn nothing_is_promised_beyond_the_end_of_what_stays() {
    let mut masters = ending();
    let ballot = |counter| Ballot { epoch: 0, counter, worker: 7 };
    let refusal = masters[0].prepare(&['a'], ballot(END_US), 0, NOW_US).expect_err("it stays");
    assert_eq!(refusal.latest_us, Some(LATEST_US));
    assert!(masters[0].prepare(&['a'], ballot(END_US - 1), 0, NOW_US).is_ok());
    assert!(masters[0].prepare(&['a'], ballot(END_US), 0, STAYS_US).is_ok(), "it has ended");
}

#[test]
fn who_is_ahead_goes_by_the_time_of_masters_and_finds_what_stays() {
    let mut masters = ending();
    let reader = start(8, read("a"), END_US + 500);
    let (mut reader, step) = run_at(NOW_US, reader, &mut masters, &[0, 1]);
    assert_eq!(step, Step::Pause);
    let again = reader.again(END_US + 501);
    assert_eq!(reader.ballot().map(|ballot| ballot.counter), Some(LATEST_US));
    let (_, step) = run_at(NOW_US, (reader, again), &mut masters, &[0, 1]);
    assert_eq!(values(&step), [SHORT]);
}

#[test]
fn who_ran_below_a_promise_of_its_own_that_was_too_early_is_not_outbid_by_it() {
    let mut masters = ending();
    let (mut counter, request) = start(8, count("a"), END_US + 500);
    assert_eq!(ask_at(NOW_US, &mut counter, &mut masters, &[2, 0, 1], &request), Step::Pause);
    let again = counter.again(END_US + 501);
    let (_, step) = run_at(NOW_US, (counter, again), &mut masters, &[0, 1]);
    assert_eq!(step, done(SHORT + 1));
}

#[test]
fn what_is_adopted_stays_as_long_as_where_it_was_found() {
    let mut masters = ending();
    let settle = start(8, Wish::Settle(vec!['a']), END_US - 50);
    let (_, step) = run_at(NOW_US, settle, &mut masters, &[0, 1, 2]);
    assert_eq!(values(&step), [SHORT]);
    let slot = masters[2].get(&'a');
    assert!(slot.is_there());
    assert_eq!(slot.state.stays_us, STAYS_US);
}

/// The value has ended by the clock of the proxy that gives it.
#[test]
fn what_is_given_stays_as_long_as_where_it_was_copied_from() {
    let mut masters = ending();
    let sights = [0, 1].map(|at: usize| masters[at].get(&'a').sight(NOW_US));
    let state = known(Quorum::of(3), &sights.each_ref(), END_US + 500).expect("a quorum has it");
    let given = Given { state, promised: Ballot::NONE, lease: None };
    masters[2].give(&'a', &given, END_US + 500, NOW_US);
    let slot = masters[2].get(&'a');
    assert!(slot.is_there());
    assert_eq!(slot.state.stays_us, STAYS_US);
}

#[test]
fn what_is_written_again_with_the_same_end_stays_as_long_as_before() {
    let mut masters = ending();
    let counted = start(7, count("ab"), END_US - 2);
    let (_, step) = run_at(NOW_US, counted, &mut masters, &[0, 1]);
    assert_eq!(step, done(SHORT + 2));
    assert_eq!(masters[0].get(&'a').state.stays_us, STAYS_US, "it has the same end");
}

/// The time of programs stands still while a promise is ahead of it.
#[test]
fn what_is_set_again_to_the_same_end_stays_for_longer() {
    let mut masters = ending();
    let counted = start(7, count("a"), LATEST_US - 100);
    let (_, step) = run_at(NOW_US, counted, &mut masters, &[0, 1]);
    assert_eq!(step, done(SHORT + 1));
    assert_eq!(masters[0].get(&'a').state.stays_us, STAYS_US + 100);
}

#[test]
fn what_stays_is_not_dropped() {
    let mut masters = ending();
    let accepted = masters[0].get(&'a').state.accepted;
    assert!(!masters[0].forget(&'a', accepted, NOW_US));
    assert!(masters[0].forget(&'a', accepted, STAYS_US));
}
