//! Leases that clients may rely on, derived from their requests and the answers.

use std::collections::HashMap;

use crate::history::{Answer, Call, MILLISECOND, Nanos, Operation};

/// The time during which one token certainly holds one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) client: usize,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

/// A system's rule for when a holder's lock expires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Validity {
    /// The requested time to live counts from the reply, if that came within this limit.
    ///
    /// The proxy promises this much because the pad on its masters is at least as long as the
    /// limit. A slow client or machine therefore shortens the lease that is checked and causes no
    /// false accusation.
    FromReply(Nanos),
    /// The requested time to live counts from the request: the assumption of a careful client of
    /// one Redis.
    FromRequest,
    /// From the request as well, less 1 % and 2 ms, as the text of Redlock has it.
    Redlock,
}

impl Validity {
    fn end(self, call: &Call) -> Nanos {
        match self {
            Validity::FromReply(within) => call.answered.min(call.asked + within) + call.px,
            Validity::FromRequest => call.asked + call.px,
            Validity::Redlock => {
                call.asked + (call.px - call.px / 100).saturating_sub(2 * MILLISECOND)
            }
        }
    }
}

/// Returns all leases, and the calls whose answers deny a holder's lock in the middle of its lease.
pub(crate) fn leases(calls: &[Call], validity: Validity) -> (Vec<Lease>, Vec<&Call>) {
    let mut tokens: HashMap<(&str, &str), Vec<Lease>> = HashMap::new();
    let mut lost = Vec::new();
    for call in calls {
        let own = tokens.entry((&call.key, &call.token)).or_default();
        let end = own.iter().map(|lease| lease.until).max().unwrap_or_default();
        if call.operation != Operation::Claim && call.answer == Answer::No && call.answered < end {
            lost.push(call);
        }
        match (call.operation, &call.answer) {
            (Operation::Claim | Operation::Extend, Answer::Yes) => own.push(Lease {
                key: call.key.clone(),
                token: call.token.clone(),
                client: call.client,
                from: call.answered,
                until: validity.end(call),
            }),
            (Operation::Claim, _) => (),
            // A client that releases a lock, or does not know the result of an extension, no longer
            // relies on it.
            (Operation::Release | Operation::Extend, _) => {
                own.iter_mut().for_each(|lease| lease.until = lease.until.min(call.asked));
            }
        }
    }
    let leases = tokens.into_values().flatten().filter(|lease| lease.from < lease.until);
    (leases.collect(), lost)
}
