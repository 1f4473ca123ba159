//! Hand-made histories of Redisson's semaphores and latches. Most of them are impossible for a
//! single server.

use super::super::server::Operation;
use super::*;
use crate::support::linearizable::{self, Doubt, check};

type Call = linearizable::Call<OneRedis, u64>;

#[test]
fn a_permit_that_two_have_is_found() {
    let set = told(Method::TrySetPermits, 0, 1, 1);
    let takes = |from, got| told(Method::TryAcquire, from, from + 1, got);
    let taken = [set, takes(2, 1), takes(4, 1), takes(6, 1)];
    let then = |calls: &[Call]| [&taken[..], calls].concat();
    is_one_servers(&then(&[takes(8, 0)]));
    is_found(&then(&[takes(8, 1)]));
    let released = done(Method::Release, 8, 20);
    is_one_servers(&then(&[released.clone(), takes(10, 1), takes(12, 0)]));
    is_found(&then(&[released.clone(), takes(10, 1), takes(12, 1)]));
    // A permit was given back and then lost.
    is_found(&then(&[released, takes(21, 0)]));
}

#[test]
fn permits_that_are_counted_wrongly_are_found() {
    let set = told(Method::TrySetPermits, 0, 1, 1);
    let shown = |from, count| told(Method::AvailablePermits, from, from + 1, count);
    is_one_servers(&[shown(0, 0), set.clone(), shown(2, 3)]);
    is_found(&[set.clone(), shown(2, 0)]);
    is_found(&[set.clone(), told(Method::TrySetPermits, 2, 3, 1)]);
    let open = open(Method::TryAcquire, 2);
    is_one_servers(&[set.clone(), open.clone(), shown(3, 3), shown(5, 2)]);
    is_found(&[set.clone(), open.clone(), shown(3, 2), shown(5, 3)]);
    is_found(&[set, open, shown(3, 1)]);
}

#[test]
fn a_latch_that_loses_a_count_is_found() {
    let set = told(Method::TrySetCount, 0, 1, 1);
    let counts = |from| done(Method::CountDown, from, from + 1);
    let shown = |from, count| told(Method::GetCount, from, from + 1, count);
    is_one_servers(&[set.clone(), counts(2), shown(4, 2), counts(6), counts(8), shown(10, 0)]);
    is_found(&[set.clone(), counts(2), shown(4, 3)]);
    is_found(&[set.clone(), counts(2), counts(4), shown(6, 2)]);
    // A latch opens once. Only then can it be set again.
    let opened = [set.clone(), counts(2), counts(4), counts(6)];
    let again = told(Method::TrySetCount, 8, 9, 1);
    is_one_servers(&[&opened[..], &[again.clone(), shown(10, 3)]].concat());
    is_found(&[&opened[..3], &[again]].concat());
    // The count never drops below zero.
    is_one_servers(&[counts(0), shown(2, 0), told(Method::TrySetCount, 4, 5, 1), shown(6, 3)]);
}

fn is_one_servers(calls: &[Call]) {
    assert_eq!(check(calls, ENOUGH), Ok(()));
}

fn is_found(calls: &[Call]) {
    let doubt = check(calls, ENOUGH);
    assert!(matches!(doubt, Err(Doubt::Violation(_))), "{calls:?}: {doubt:?}");
}

fn told(method: Method, from: u64, until: u64, number: i64) -> Call {
    Call { answer: Some((until, Value::Int(number))), ..open(method, from) }
}

fn done(method: Method, from: u64, until: u64) -> Call {
    Call { answer: Some((until, Value::Nil)), ..open(method, from) }
}

fn open(method: Method, asked: u64) -> Call {
    Call { operation: Operation::Redisson(method), asked, answer: None }
}

const ENOUGH: usize = 10_000;
