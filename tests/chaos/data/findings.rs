//! Reads the answers that clients got and reports everything that breaks the rules.

use super::judges;
use super::ledger::Books;
use super::object::{Answer, Call, Kind, Object};
use crate::checker::Rules;
use crate::history::{Nanos, Outage};
use crate::support::linearizable::{Doubt, check};

/// Violations found, each described in words.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Objects whose answers no single server can have given.
    pub(crate) impossible: Vec<String>,
    /// Objects with so many open calls that checking them would take too long.
    pub(crate) untold: Vec<String>,
    /// Errors of an unexpected kind.
    pub(crate) wrong: Vec<String>,
    /// Requests without a reply.
    pub(crate) missing: Vec<String>,
    /// Requests without a reply to a server that was stopped or killed.
    pub(crate) excused: usize,
    /// Objects that cannot be read after all faults.
    pub(crate) mute: Vec<String>,
    /// Keys on which masters differ long after all faults.
    pub(crate) differing: Vec<String>,
    pub(crate) objects: usize,
    pub(crate) answers: usize,
    /// Number of calls that may or may not have taken effect.
    pub(crate) open: usize,
    /// Longest time without an answer.
    pub(crate) pause: Nanos,
}

impl Findings {
    /// Searches for an order in which one server can have answered the calls of an object.
    fn explain(&mut self, object: &Object) {
        let name = &object.keys[0];
        match check(&object.history(), MOST_WAYS) {
            Ok(()) => {}
            Err(Doubt::Violation(why)) => self.impossible.push(format!("{name}: {why}")),
            Err(doubt) => self.untold.push(format!("{name}: {doubt:?}")),
        }
    }

    /// Returns everything that happened although the proxy promises to prevent it. A few objects
    /// may have too many open calls to be decided, but not many.
    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let Findings { impossible, wrong, missing, mute, differing, untold, .. } = self;
        let untold = if 4 * untold.len() > self.objects { &untold[..] } else { &[] };
        [&impossible[..], wrong, missing, mute, differing, untold].concat()
    }
}

pub(crate) fn find(books: &Books, rules: Rules) -> Findings {
    let calls = || books.objects.iter().flat_map(|object| &object.calls);
    let mut findings = Findings {
        wrong: calls().filter(|call| is_wrong(call, rules.errors)).map(describe).collect(),
        objects: books.objects.len(),
        answers: calls().filter(|call| is_told(call)).count(),
        open: books.objects.iter().map(Object::open).sum(),
        pause: pause(calls()),
        ..Findings::default()
    };
    for object in &books.objects {
        match object.kind {
            Kind::Limiter => findings.impossible.extend(judges::of_a_limiter(&object.calls)),
            Kind::FencedLock | Kind::FairLock => {
                findings.impossible.extend(judges::of_a_lock(object, rules));
            }
            _ => findings.explain(object),
        }
    }
    for call in calls().filter(|call| is_lost(call)) {
        if books.outages.iter().any(|outage| excuses(outage, call)) {
            findings.excused += 1;
        } else {
            findings.missing.push(describe(call));
        }
    }
    findings
}

fn is_told(call: &Call) -> bool {
    matches!(call.answer, Answer::Told(_))
}

fn is_lost(call: &Call) -> bool {
    matches!(call.answer, Answer::Lost(_) | Answer::NotSent(_))
}

fn is_wrong(call: &Call, errors: &[&str]) -> bool {
    match &call.answer {
        Answer::Error(text) => !errors.iter().any(|prefix| text.starts_with(prefix)),
        _ => false,
    }
}

fn excuses(outage: &Outage, call: &Call) -> bool {
    outage.server == call.server && outage.from <= call.answered && call.asked <= outage.until
}

/// Counts the time before the first answer as well.
fn pause<'a>(calls: impl Iterator<Item = &'a Call> + Clone) -> Nanos {
    let told = calls.clone().filter(|call| is_told(call)).map(|call| call.answered);
    let mut times: Vec<Nanos> = told.chain(calls.map(|call| call.asked).min()).collect();
    times.sort_unstable();
    times.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default()
}

fn describe(call: &Call) -> String {
    format!("{call:?}")
}

/// An ordinary history takes little more than one way per call.
const MOST_WAYS: usize = 200_000;
