//! Hand-made histories of locks and limiters. Most of them must never happen.

use super::super::object::Kind;
use super::super::redisson::Lock;
use super::*;
use crate::system::System;

#[test]
fn a_lock_that_two_hold_is_found() {
    let first = claims(1, 0, 10, 1);
    assert_eq!(found(&[first.clone(), claims(2, 20, 30, 2)]).len(), 1);
    // The second claim waits for the end of the lease, or for the release of the first.
    assert!(found(&[first.clone(), claims(2, 600, 900, 2)]).is_empty());
    let gone = unlocks(1, 20, 25, 1);
    assert!(found(&[first.clone(), gone, claims(2, 30, 40, 2)]).is_empty());
    // A refusal is no grant, and a claim without an answer is nobody's lease.
    assert!(found(&[first.clone(), refused(2, 20)]).is_empty());
    let lost = Call { answer: Answer::Lost("closed".to_owned()), ..claims(2, 20, 30, 2) };
    assert!(found(&[first, lost]).is_empty());
}

#[test]
fn a_lease_that_is_lost_is_found() {
    assert_eq!(found(&[claims(1, 0, 10, 1), unlocks(1, 100, 110, 0)]).len(), 1);
    assert!(found(&[claims(1, 0, 10, 1), unlocks(1, 1200, 1210, 0)]).is_empty());
}

#[test]
fn a_free_lock_that_is_refused_for_long_is_found() {
    let refused: Vec<Call> = (0..40).map(|number| refused(number, 100 * number)).collect();
    assert!(!found(&refused).is_empty());
    assert!(found(&refused[..15]).is_empty());
}

#[test]
fn tokens_that_do_not_rise_are_found() {
    let gone = unlocks(1, 20, 25, 1);
    let then = |token| found(&[claims(1, 0, 10, 7), gone.clone(), claims(2, 30, 40, token)]);
    assert!(then(8).is_empty() && then(20).is_empty());
    assert_eq!((then(7).len(), then(6).len()), (1, 1));
    // A fair lock returns no token.
    let fair = |holder, from| {
        let method = Method::TryLock(Lock::Fair, attempt(holder));
        told(method, from, from + 1, Value::Int(1))
    };
    assert!(found(&[fair(1, 0), fair(2, 1000)]).is_empty());
}

#[test]
fn a_limiter_that_grants_too_much_is_found() {
    let three = [acquires(0, 1), acquires(10, 1), acquires(20, 1)];
    let then = |call| of_a_limiter(&[&three[..], &[call]].concat());
    assert_eq!(then(acquires(400, 1)).len(), 1);
    assert!(then(acquires(505, 1)).is_empty());
    // The permit may have been granted at the end of the call.
    assert!(then(told(Method::TryAcquireRate, 30, 505, Value::Int(1))).is_empty());
}

#[test]
fn a_limiter_that_grants_too_little_is_found() {
    let three = [acquires(0, 1), acquires(10, 1), acquires(20, 1)];
    let then = |calls: &[Call]| of_a_limiter(&[&three[..], calls].concat());
    assert!(then(&[acquires(400, 0)]).is_empty());
    assert_eq!(then(&[acquires(600, 0)]).len(), 1);
    // Requests without an answer may have been granted a permit at any time since.
    let open = |from| Call { answer: Answer::Lost("closed".to_owned()), ..acquires(from, 1) };
    assert_eq!(then(&[open(30), open(40), acquires(600, 0)]).len(), 1);
    assert!(then(&[open(30), open(40), open(50), acquires(600, 0)]).is_empty());
}

#[test]
fn a_rate_that_is_forgotten_is_found() {
    let sets = |from, set| told(Method::TrySetRate, from, from + 5, Value::Int(set));
    assert!(of_a_limiter(&[sets(0, 1), sets(2, 0), sets(10, 0)]).is_empty());
    assert_eq!(of_a_limiter(&[sets(0, 1), sets(10, 1)]).len(), 1);
}

fn found(calls: &[Call]) -> Vec<String> {
    let mut object = Object::new(Kind::FencedLock, 0);
    object.calls = calls.to_vec();
    of_a_lock(&object, System::Proxies.rules())
}

fn claims(holder: u64, from: u64, until: u64, token: i64) -> Call {
    told(Method::TryLock(Lock::Fenced, attempt(holder)), from, until, Value::Int(token))
}

fn refused(holder: u64, from: u64) -> Call {
    told(Method::TryLock(Lock::Fenced, attempt(holder)), from, from + 1, Value::Nil)
}

fn unlocks(holder: u64, from: u64, until: u64, told_yes: i64) -> Call {
    told(Method::Unlock(Lock::Fenced, holder), from, until, Value::Int(told_yes))
}

fn acquires(from: u64, granted: i64) -> Call {
    told(Method::TryAcquireRate, from, from + 1, Value::Int(granted))
}

fn attempt(holder: u64) -> Attempt {
    Attempt { holder, wait_ms: 0, lease_ms: 500 }
}

/// Times are in milliseconds.
fn told(method: Method, from: u64, until: u64, value: Value) -> Call {
    Call {
        client: 0,
        server: "proxy".to_owned(),
        operation: Operation::Redisson(method),
        asked: from * MILLISECOND,
        answered: until * MILLISECOND,
        answer: Answer::Told(value),
    }
}
