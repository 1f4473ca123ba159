//! Reads a history and reports everything in it that breaks the rules.

use crate::history::{Answer, Call, History, MILLISECOND, Nanos, Operation, Outage};
use crate::leases::{Lease, Validity, leases};

/// Promises of a system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) validity: Validity,
    /// Extra time for which its masters may keep a key beyond the request.
    pub(crate) pad: Nanos,
    /// Allowed beginnings of its errors.
    pub(crate) errors: &'static [&'static str],
}

/// Violations found, each described in words.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Leases that began while another token's was valid.
    pub(crate) overlaps: Vec<String>,
    /// Replies that denied a holder's lock in the middle of its lease.
    pub(crate) losses: Vec<String>,
    /// Keys that nobody could hold but that were refused for a long time.
    pub(crate) ghosts: Vec<String>,
    /// Replies of an unexpected kind.
    pub(crate) wrong: Vec<String>,
    /// Requests without a reply.
    pub(crate) missing: Vec<String>,
    /// Requests without a reply to a proxy that was stopped or killed.
    pub(crate) excused: usize,
    pub(crate) grants: usize,
    /// Longest time without a grant.
    pub(crate) pause: Nanos,
}

pub(crate) fn check(history: &History, rules: Rules) -> Findings {
    // Calls reach the journal a moment later, and not always in order.
    let mut calls = history.calls.clone();
    calls.sort_by_key(|call| call.asked);
    let calls = &calls;
    let (leases, lost) = leases(calls, rules.validity);
    let mut findings = Findings {
        overlaps: overlaps(leases),
        losses: lost.into_iter().map(describe).collect(),
        ghosts: ghosts(calls, rules.pad),
        wrong: calls.iter().filter(|call| is_wrong(call, rules.errors)).map(describe).collect(),
        grants: grants(calls).count(),
        pause: pause(calls),
        ..Findings::default()
    };
    for call in calls.iter().filter(|call| matches!(call.answer, Answer::Lost(_))) {
        if history.outages.iter().any(|outage| excuses(outage, call)) {
            findings.excused += 1;
        } else {
            findings.missing.push(describe(call));
        }
    }
    findings
}

/// Returns one finding for each token whose lease began while another's was valid, however often it
/// was extended then.
fn overlaps(mut leases: Vec<Lease>) -> Vec<String> {
    leases.sort_by(|a, b| (&a.key, a.from).cmp(&(&b.key, b.from)));
    let mut found: Vec<(&str, String)> = Vec::new();
    for (index, lease) in leases.iter().enumerate() {
        let earlier = leases[..index].iter().filter(|other| other.key == lease.key);
        let mut others = earlier.filter(|other| other.token != lease.token);
        let other = others.find(|other| other.until > lease.from);
        if let Some(other) = other.filter(|_| found.iter().all(|it| it.0 != lease.token)) {
            found.push((&lease.token, format!("{lease:?} began while {other:?} was valid")));
        }
    }
    found.into_iter().map(|(_, words)| words).collect()
}

/// Returns one finding for each stretch of time in which a key was only refused although nobody
/// held it or might have held it.
fn ghosts(calls: &[Call], pad: Nanos) -> Vec<String> {
    let mut keys: Vec<&str> = calls.iter().map(|call| call.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().flat_map(|key| ghosts_of(key, calls, pad)).collect()
}

fn ghosts_of(key: &str, calls: &[Call], pad: Nanos) -> Vec<String> {
    let calls: Vec<&Call> = calls.iter().filter(|call| call.key == key).collect();
    let excuses = may_be_held(&calls, pad);
    let refused = |call: &&&Call| call.operation == Operation::Claim && call.answer == Answer::No;
    let mut found = Vec::new();
    let mut spell: Option<(Nanos, Nanos)> = None;
    for call in calls.iter().filter(refused) {
        let (from, until) = (call.asked, call.answered);
        let held = excuses.iter().any(|excuse| excuse.0 <= until && from <= excuse.1);
        let between =
            |since: Nanos| excuses.iter().any(|excuse| since < excuse.1 && excuse.0 < from);
        spell = match spell {
            _ if held => None,
            Some((since, _)) if !between(since) => Some((since, until)),
            _ => Some((from, until)),
        };
        if let Some((since, until)) = spell.filter(|spell| spell.1 - spell.0 > GHOST) {
            let ms = (until - since) / MILLISECOND;
            found.push(format!("{key} was free and refused for {ms} ms until {until}"));
            spell = None;
        }
    }
    found
}

/// Returns the times in which enough masters may hold a key that it must be refused.
fn may_be_held(calls: &[&Call], pad: Nanos) -> Vec<(Nanos, Nanos)> {
    let mut excuses = Vec::new();
    for call in calls {
        let released = calls.iter().find(|other| {
            other.operation == Operation::Release
                && other.token == call.token
                && other.asked >= call.asked
                && matches!(other.answer, Answer::Yes | Answer::No)
        });
        let expired = call.answered.saturating_add(call.px + pad);
        let end = released.map_or(expired, |release| release.answered.min(expired));
        if call.operation != Operation::Release && call.answer != Answer::No {
            excuses.push((call.asked, end.saturating_add(AFTERWARDS)));
        }
    }
    excuses
}

fn is_wrong(call: &Call, errors: &[&str]) -> bool {
    match &call.answer {
        Answer::Odd(_) => true,
        Answer::Error(text) => !errors.iter().any(|prefix| text.starts_with(prefix)),
        Answer::Yes | Answer::No | Answer::Lost(_) | Answer::Unanswered => false,
    }
}

fn excuses(outage: &Outage, call: &Call) -> bool {
    outage.server == call.server && outage.from <= call.answered && call.asked <= outage.until
}

fn grants(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| call.operation == Operation::Claim && call.answer == Answer::Yes)
}

/// Counts the time before the first grant and after the last one as well.
fn pause(calls: &[Call]) -> Nanos {
    let answered = calls.iter().filter(|call| call.answer != Answer::Unanswered);
    let mut times: Vec<Nanos> = grants(calls).map(|call| call.answered).collect();
    times.extend(calls.iter().map(|call| call.asked).min());
    times.extend(answered.map(|call| call.answered).max());
    times.sort_unstable();
    times.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default()
}

fn describe(call: &Call) -> String {
    format!("{call:?}")
}

/// A free key refused for this long is no split vote.
const GHOST: Nanos = 2_000 * MILLISECOND;

/// Time in which a system must notice on a busy machine that a lock is gone.
const AFTERWARDS: Nanos = 1_000 * MILLISECOND;

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
