//! A claim that takes the data Redis and the masters: what is to be done when one of them has answered.
//!
//! The data Redis has it for a slack longer than the client wants. A grant within the slack is told at once: it ends there
//! no sooner than for the client, whatever becomes of the request to let it end with the lease. Later, the data Redis has
//! to confirm that it has it for another slack, and within that. What is to stay for ever it has to confirm, too.

use std::time::Duration;

use super::copy::Claimed;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the masters.
    AskMasters,
    /// Let it end with the lease on the data Redis, and tell the client at once.
    Grant,
    /// Ask the data Redis to keep it for as long as at first, or for ever.
    Confirm,
    /// Tell the client what the masters, or the data Redis, have said.
    Refuse,
    /// The same, and take it back from the data Redis.
    TakeBack,
    /// It is not known whether the client has it: take back what is its on the data Redis, and say so.
    Unknown,
    /// The same, and release it on the masters.
    Release,
    /// It is not known whether it was prolonged; what the client had before stays with it.
    Unprolonged,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    since: Duration,
    slack: Duration,
    for_ever: bool,
    /// It was not the client's before.
    is_new: bool,
}

impl Claim {
    /// The data Redis has been asked at `since`, to keep it for `slack` longer than the client wants.
    pub fn new(since: Duration, slack: Duration, for_ever: bool) -> Self {
        Self { since, slack, for_ever, is_new: true }
    }

    /// The data Redis has answered; `None`: not in time, or with an error.
    pub fn asked(&mut self, claimed: Option<Claimed>) -> Step {
        self.is_new = claimed != Some(Claimed::Owned);
        match claimed {
            Some(Claimed::Taken | Claimed::Owned) => Step::AskMasters,
            Some(Claimed::Held) => Step::Refuse,
            None => Step::Unknown,
        }
    }

    /// The masters have answered.
    pub fn voted(&mut self, is_granted: bool, now: Duration) -> Step {
        match (is_granted, self.is_new) {
            (true, _) if self.for_ever => Step::Confirm,
            (true, _) => self.grant(now),
            (false, true) => Step::TakeBack,
            (false, false) => Step::Refuse,
        }
    }

    /// The data Redis has said whether it still has it.
    pub fn confirmed(&mut self, has_it: bool, now: Duration) -> Step {
        match (has_it, self.is_new) {
            (true, _) if self.for_ever => Step::Grant,
            (true, _) => self.grant(now),
            (false, true) => Step::Release,
            (false, false) => Step::Unprolonged,
        }
    }

    fn grant(&mut self, now: Duration) -> Step {
        if now <= self.since + self.slack {
            return Step::Grant;
        }
        self.since = now;
        Step::Confirm
    }
}
