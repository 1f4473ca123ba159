//! Checks for objects that depend on time, which no model of one server covers.

use redis::Value;

use super::object::{Answer, Call, Object};
use super::redisson::{Attempt, INTERVAL_MS, Method, RATE};
use super::server::Operation;
use crate::checker::{self, Rules};
use crate::history::{self, History, MILLISECOND, Nanos};

/// Finds leases of two holders that overlap, holders whose lock is denied in the middle of a lease,
/// free locks that are refused for long, and fencing tokens that do not rise.
pub(crate) fn of_a_lock(object: &Object, rules: Rules) -> Vec<String> {
    let key = &object.keys[0];
    let calls = object.calls.iter().filter_map(|call| as_of_a_lock(key, call)).collect();
    let found = checker::check(&History { calls, outages: Vec::new() }, rules);
    [found.overlaps, found.losses, found.ghosts, tokens_that_do_not_rise(&object.calls)].concat()
}

fn as_of_a_lock(key: &str, call: &Call) -> Option<history::Call> {
    let (operation, holder, px) = match called(call)? {
        Method::TryLock(_, Attempt { holder, lease_ms, .. }) => {
            (history::Operation::Claim, holder, lease_ms * MILLISECOND)
        }
        Method::Unlock(_, holder) => (history::Operation::Release, holder, 0),
        _ => return None,
    };
    let answer = match &call.answer {
        Answer::Told(Value::Nil | Value::Int(0)) | Answer::NotSent(_) => history::Answer::No,
        Answer::Told(_) => history::Answer::Yes,
        Answer::Error(text) => history::Answer::Error(text.clone()),
        Answer::Lost(text) => history::Answer::Lost(text.clone()),
        Answer::Unanswered => history::Answer::Unanswered,
    };
    Some(history::Call {
        client: call.client,
        server: call.server.clone(),
        operation,
        key: key.to_owned(),
        token: holder.to_string(),
        px,
        asked: call.asked,
        answered: call.answered,
        answer,
    })
}

/// Returns one finding for each grant whose token equals an earlier one or is below one returned
/// before this grant was requested.
fn tokens_that_do_not_rise(calls: &[Call]) -> Vec<String> {
    let fenced = calls.iter().filter(|call| is_fenced(call));
    let mut granted: Vec<(&Call, i64)> =
        fenced.filter_map(|call| number(call).map(|it| (call, it))).collect();
    granted.sort_by_key(|(call, _)| call.asked);
    let mut found = Vec::new();
    for (at, (call, token)) in granted.iter().enumerate() {
        let is_wrong = |(other, its): &&(&Call, i64)| {
            its == token || (other.answered < call.asked && its > token)
        };
        if let Some((other, _)) = granted[..at].iter().find(is_wrong) {
            found.push(format!("the token of {call:?} is not above that of {other:?}"));
        }
    }
    found
}

fn is_fenced(call: &Call) -> bool {
    use super::redisson::Lock;
    matches!(called(call), Some(Method::TryLock(Lock::Fenced, _)))
}

/// Checks that a limiter grants no more than its rate in any interval, and refuses only if that
/// many may have been granted in the interval before. A request without an answer may have been
/// granted a permit at any time since. The rate is set once.
pub(crate) fn of_a_limiter(calls: &[Call]) -> Vec<String> {
    [grants_beyond_the_rate(calls), refusals_without_a_reason(calls), rates_set_twice(calls)]
        .concat()
}

/// Returns the grants that begin an interval in which too many requests were both sent and granted.
/// When within a call the grant happened does not matter.
fn grants_beyond_the_rate(calls: &[Call]) -> Vec<String> {
    let granted: Vec<&Call> = acquisitions(calls).filter(|call| number(call) == Some(1)).collect();
    let within = |first: &Call| {
        let end = first.asked + INTERVAL - TOLERANCE;
        granted.iter().filter(|it| it.asked >= first.asked && it.answered < end).count()
    };
    let too_many = granted.iter().map(|call| (call, within(call))).filter(|it| it.1 > RATE);
    too_many.map(|(call, count)| format!("{count} permits in the interval from {call:?}")).collect()
}

fn refusals_without_a_reason(calls: &[Call]) -> Vec<String> {
    let refused = acquisitions(calls).filter(|call| number(call) == Some(0));
    let may_count = |it: &Call, refusal: &Call| {
        let is_granted = number(it) == Some(1);
        it.asked <= refusal.answered
            && (it.answer.is_open()
                || (is_granted && it.answered + INTERVAL + TOLERANCE >= refusal.asked))
    };
    let reasons = |refusal: &Call| acquisitions(calls).filter(|it| may_count(it, refusal)).count();
    let bare = refused.map(|call| (call, reasons(call))).filter(|it| it.1 < RATE);
    bare.map(|(call, count)| format!("only {count} permits were in use at {call:?}")).collect()
}

fn rates_set_twice(calls: &[Call]) -> Vec<String> {
    let set = calls.iter().filter(|call| called(call) == Some(&Method::TrySetRate));
    let told: Vec<&Call> = set.filter(|call| number(call).is_some()).collect();
    let is_late = |call: &&&Call| told.iter().any(|it| it.answered < call.asked);
    let again = told.iter().filter(|call| number(call) == Some(1)).filter(is_late);
    again.map(|call| format!("the rate was there before {call:?}")).collect()
}

fn acquisitions(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| called(call) == Some(&Method::TryAcquireRate))
}

fn called(call: &Call) -> Option<&Method> {
    match &call.operation {
        Operation::Redisson(method) => Some(method),
        _ => None,
    }
}

fn number(call: &Call) -> Option<i64> {
    match call.answer {
        Answer::Told(Value::Int(number)) => Some(number),
        _ => None,
    }
}

const INTERVAL: Nanos = INTERVAL_MS * MILLISECOND;

/// Redisson sends whole milliseconds of a clock that may be adjusted slightly.
const TOLERANCE: Nanos = 10 * MILLISECOND;

#[cfg(test)]
#[path = "judges_tests.rs"]
mod tests;
