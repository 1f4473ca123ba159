//! Requests of a test's clients and the answers they got.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock, which all processes of one machine share.
pub(crate) type Nanos = u64;

/// Everything that happened under one system and one kind of fault.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
    /// Proxies that were stopped or killed. Their clients may wait in vain.
    pub(crate) outages: Vec<Outage>,
}

/// One request of one client. A history keeps them in the order in which they were sent.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) server: String,
    pub(crate) operation: Operation,
    pub(crate) key: String,
    pub(crate) token: String,
    /// Requested time to live.
    pub(crate) px: Nanos,
    pub(crate) asked: Nanos,
    /// When the answer arrived. The end of the test if none ever came.
    pub(crate) answered: Nanos,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    Claim,
    Extend,
    Release,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Yes,
    No,
    /// An error reply, with its text.
    Error(String),
    /// No reply: the connection was closed, or the client timed out.
    Lost(String),
    /// A reply of a kind that does not belong to the request.
    Odd(String),
    /// The test ended first.
    Unanswered,
}

#[derive(Clone, Debug)]
pub(crate) struct Outage {
    pub(crate) server: String,
    pub(crate) from: Nanos,
    pub(crate) until: Nanos,
}

pub(crate) const MILLISECOND: Nanos = 1_000_000;

pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("a time after the machine was started");
    let nanos = u64::try_from(time.tv_nsec).expect("a part of a second");
    seconds * 1_000_000_000 + nanos
}
