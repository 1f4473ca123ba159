//! Reads what clients were told and says what should not be in it.

use super::judges;
use super::ledger::Books;
use super::object::{Answer, Call, Kind, Object};
use crate::checker::Rules;
use crate::history::{Nanos, Outage};
use crate::support::linearizable::{Doubt, check};

/// What was found, each in words.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// No single server can have given all answers about an object.
    pub(crate) impossible: Vec<String>,
    /// So much was left open about an object that it would take too long to know.
    pub(crate) untold: Vec<String>,
    /// An error of an unexpected kind.
    pub(crate) wrong: Vec<String>,
    /// No reply.
    pub(crate) missing: Vec<String>,
    /// No reply, and the server that was asked was stopped or killed.
    pub(crate) excused: usize,
    /// An object cannot be read after all faults.
    pub(crate) mute: Vec<String>,
    /// Masters hold different things long after all faults.
    pub(crate) differing: Vec<String>,
    pub(crate) objects: usize,
    pub(crate) answers: usize,
    /// How many calls may have been done or not.
    pub(crate) open: usize,
    /// The longest time without any answer.
    pub(crate) pause: Nanos,
}

impl Findings {
    /// Looks for an order in which one server can have answered the calls of an object.
    fn explain(&mut self, object: &Object) {
        let name = &object.keys[0];
        match check(&object.history(), MOST_WAYS) {
            Ok(()) => {}
            Err(Doubt::Violation(why)) => self.impossible.push(format!("{name}: {why}")),
            Err(doubt) => self.untold.push(format!("{name}: {doubt:?}")),
        }
    }

    /// Everything that the proxy promises not to let happen and that did. Of some objects so much may be left open that
    /// nobody knows, but not of many.
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

/// The time before the first answer counts as well.
fn pause<'a>(calls: impl Iterator<Item = &'a Call> + Clone) -> Nanos {
    let told = calls.clone().filter(|call| is_told(call)).map(|call| call.answered);
    let mut times: Vec<Nanos> = told.chain(calls.map(|call| call.asked).min()).collect();
    times.sort_unstable();
    times.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default()
}

fn describe(call: &Call) -> String {
    format!("{call:?}")
}

/// An ordinary history takes not many more than it has calls.
const MOST_WAYS: usize = 200_000;
