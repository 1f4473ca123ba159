//! Single steps of a register on one master.

use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::register::acceptor::{Adopt, Apply, Fate, Refusal};
use redlock_proxy::decision::register::ballot::Ballot;

use crate::specification::stamp::{StampOf, apply};

struct Append(u8);

impl Program for Append {
    type Value = Vec<u8>;
    type Reply = usize;

    fn run(&self, value: &Vec<u8>) -> (Vec<u8>, usize) {
        let mut value = value.clone();
        value.push(self.0);
        let length = value.len();
        (value, length)
    }
}

fn ballot(counter: u64) -> Ballot {
    Ballot { epoch: 0, counter, worker: 7 }
}

fn append(expected: u64, own: u64) -> Apply<Append> {
    let expected = if expected == 0 { Ballot::NONE } else { ballot(expected) };
    Apply { program: Append(own as u8), expected, ballot: ballot(own), next: ballot(own + 1) }
}

#[test]
fn a_promise_keeps_lower_ballots_out() {
    let mut stamp = StampOf::<Append>::default();
    assert!(stamp.prepare(ballot(5)).is_ok());
    assert_eq!(stamp.prepare(ballot(5)), Err(stamp.refusal()), "once only");
    assert!(apply(&mut stamp, &append(0, 4), 8).is_err());
    assert_eq!(apply(&mut stamp, &append(0, 5), 8), Ok(1));
    assert_eq!(stamp.promised, ballot(6), "the next one is promised along with it");
    assert!(apply(&mut stamp, &append(5, 5), 8).is_err());
}

#[test]
fn a_program_runs_on_the_state_that_it_expects() {
    let mut stamp = StampOf::<Append>::default();
    let before = stamp.clone();
    let refusal = apply(&mut stamp, &append(3, 5), 8).unwrap_err();
    assert_eq!(refusal, Refusal { promised: Ballot::NONE, accepted: Ballot::NONE });
    assert_eq!(stamp, before);
    assert_eq!(apply(&mut stamp, &append(0, 5), 8), Ok(1));
    assert!(apply(&mut stamp, &append(0, 7), 8).is_err(), "a second delivery runs nothing");
}

#[test]
fn an_adopted_state_has_the_ballot_of_its_adopter() {
    let (mut ahead, mut behind) = (StampOf::<Append>::default(), StampOf::<Append>::default());
    assert!(apply(&mut ahead, &append(0, 5), 8).is_ok());
    let state = ahead.state.clone().under(ballot(9));
    let adopt = Adopt { state, next: ballot(10) };
    assert_eq!(behind.adopt(&adopt), Ok(()));
    assert_eq!(behind.state.accepted, ballot(9));
    assert_eq!(behind.state.recent.fate(ballot(5)), Fate::Ran(1));
    assert!(behind.adopt(&adopt).is_err(), "the next ballot is promised");
}

#[test]
fn what_is_decided_replaces_only_what_is_older() {
    let (mut ahead, mut behind) = (StampOf::<Append>::default(), StampOf::<Append>::default());
    assert!(apply(&mut ahead, &append(0, 5), 8).is_ok());
    assert!(behind.prepare(ballot(8)).is_ok());
    assert!(behind.catch_up(&ahead.state));
    assert_eq!((behind.promised, &behind.state), (ballot(8), &ahead.state));
    assert!(!behind.catch_up(&ahead.state));
}

#[test]
fn a_list_that_does_not_reach_back_is_no_denial() {
    let mut stamp = StampOf::<Append>::default();
    let mut expected = 0;
    for own in [2, 4, 6] {
        assert!(apply(&mut stamp, &append(expected, own), 2).is_ok());
        expected = own;
    }
    let recent = &stamp.state.recent;
    assert_eq!(recent.fate(ballot(6)), Fate::Ran(3));
    assert_eq!(recent.fate(ballot(4)), Fate::Ran(2));
    assert_eq!(recent.fate(ballot(3)), Fate::DidNotRun, "between two that are known");
    assert_eq!(recent.fate(ballot(2)), Fate::NotKnown);
    assert_eq!(recent.fate(ballot(1)), Fate::NotKnown);
}
