//! A claim that needs the data Redis and the masters: the next step after the answer of either place.
//!
//! The data Redis keeps the lock longer than the client wants, by a slack. A grant within the slack is reported at
//! once. The lock ends there no sooner than for the client, even if the request that lets it end with the lease is
//! lost. After the slack, the data Redis must confirm that it keeps the lock for another slack, and must do so before
//! that one ends. It must also confirm a lock without an end.

use std::time::Duration;

use super::script::Claimed;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DualStep {
    /// Ask the masters.
    AskMasters,
    /// Grant the lock to the client at once, and let it end with the lease on the data Redis.
    Grant,
    /// Ask the data Redis to keep the lock for as long as at first, or for ever.
    Confirm,
    /// Pass on the refusal of the masters, or of the data Redis, to the client.
    Refuse,
    /// Refuse, and take the lock back from the data Redis.
    TakeBack,
    /// Report that it is unknown whether the client has the lock, and take it back from the data Redis.
    Unknown,
    /// Like [`Self::Unknown`], and release the lock on the masters.
    Release,
    /// Report that it is unknown whether the lock was extended. The client keeps what it had before.
    Unprolonged,
}

/// State of a claim in both places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DualClaim {
    since: Duration,
    slack: Duration,
    for_ever: bool,
    /// Whether the client did not hold the lock before.
    is_new: bool,
}

impl DualClaim {
    /// Returns a claim that asked the data Redis at `since` to keep the lock for `slack` longer than the client wants.
    pub fn new(since: Duration, slack: Duration, for_ever: bool) -> Self {
        Self { since, slack, for_ever, is_new: true }
    }

    /// Takes the answer of the data Redis; `None`: it came too late, or was an error.
    pub fn asked(&mut self, claimed: Option<Claimed>) -> DualStep {
        self.is_new = claimed != Some(Claimed::Owned);
        match claimed {
            Some(Claimed::Taken | Claimed::Owned) => DualStep::AskMasters,
            Some(Claimed::Held) => DualStep::Refuse,
            None => DualStep::Unknown,
        }
    }

    /// Takes the answer of the masters.
    pub fn voted(&mut self, is_granted: bool, now: Duration) -> DualStep {
        match (is_granted, self.is_new) {
            (true, _) if self.for_ever => DualStep::Confirm,
            (true, _) => self.grant(now),
            (false, true) => DualStep::TakeBack,
            (false, false) => DualStep::Refuse,
        }
    }

    /// Takes the answer of the data Redis on whether it still has the lock.
    pub fn confirmed(&mut self, has_it: bool, now: Duration) -> DualStep {
        match (has_it, self.is_new) {
            (true, _) if self.for_ever => DualStep::Grant,
            (true, _) => self.grant(now),
            (false, true) => DualStep::Release,
            (false, false) => DualStep::Unprolonged,
        }
    }

    fn grant(&mut self, now: Duration) -> DualStep {
        if now <= self.since + self.slack {
            return DualStep::Grant;
        }
        self.since = now;
        DualStep::Confirm
    }
}
