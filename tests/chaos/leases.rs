//! What clients may rely upon, worked out from what they asked and were told.

use std::collections::HashMap;

use crate::history::{Answer, Call, MILLISECOND, Nanos, Operation};

/// From when on and until when one token holds one key for certain.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) key: String,
    pub(crate) token: String,
    pub(crate) client: usize,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

/// How a system tells its clients until when they hold a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Validity {
    /// For as long as was asked from the moment of the reply, if that came within so long. The proxy promises it: the
    /// pad on its masters is at least that long, so a client or a machine that is slow shortens what is
    /// looked at and accuses nobody falsely.
    FromReply(Nanos),
    /// For as long as was asked from the moment of the request: what a careful client of one Redis takes it for.
    FromRequest,
    /// The same, less 1 % and 2 ms, as the text of Redlock has it.
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

/// All leases, and those calls that tell a holder in the middle of a lease that there is none.
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
            // Whoever releases a lock, or does not know what an extension made of it, does not rely on it any more.
            (Operation::Release | Operation::Extend, _) => {
                own.iter_mut().for_each(|lease| lease.until = lease.until.min(call.asked));
            }
        }
    }
    let leases = tokens.into_values().flatten().filter(|lease| lease.from < lease.until);
    (leases.collect(), lost)
}
