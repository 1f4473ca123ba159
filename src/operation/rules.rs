//! What decisions need to know about the proxy.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::leases::Leases;
use super::on_register::Texts;
use super::register::promises::Registers;
use crate::decision::lease::claim::Terms;
use crate::decision::lease::pad::Pad;
use crate::decision::quorum::Quorum;
use crate::lua::program::ProgramText;
use crate::time::clock::Instant;
use crate::time::unix_time::UnixTime;

/// See the module.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How many masters must agree.
    pub quorum: Quorum,
    /// What is added to TTLs on the masters.
    pub pad: Pad,
    /// How long a verdict waits for a silent minority.
    pub vote_timeout: Duration,
    /// How long a client waits while a quorum is silent.
    pub patience: Duration,
    /// How often a split vote is tried again.
    pub split_vote_retries: u32,
    /// The time of day.
    pub unix_time: Arc<UnixTime>,
    /// The leases of this worker.
    pub leases: Rc<Leases>,
    /// The registers of this worker.
    pub registers: Rc<Registers>,
    /// The program that runs single commands.
    pub commands: Arc<ProgramText>,
    /// What programs are made of that run instead of operations on leases.
    pub texts: Rc<Texts>,
}

impl Rules {
    /// Whether a round may be repeated whose answers did not agree, and which was repeated so often.
    pub(super) fn may_try_again(&self, tried: u8) -> bool {
        u32::from(tried) < self.split_vote_retries
    }

    /// How long a program on several keys waits for masters that no quorum needs. It has several rounds, and its client is to be
    /// answered after them.
    pub fn wait_for_all(&self) -> Duration {
        self.vote_timeout.min(self.patience / 4)
    }

    /// What all decisions on leases have in common whose client goes on to wait for `patience`.
    pub(super) fn terms(&self, patience: Duration) -> Terms {
        let Self { quorum, vote_timeout, split_vote_retries: retries, .. } = *self;
        Terms { quorum, vote_timeout, patience, retries }
    }

    /// `now` as decisions on leases have it.
    pub(super) fn at(&self, now: Instant) -> Duration {
        self.leases.at(now)
    }

    /// How long after sending a quorum's yes grants a lease of `asked_ms`.
    pub(super) fn freshness(&self, asked_ms: i64) -> Duration {
        self.pad.freshness(asked_ms, self.leases.round_trip())
    }

    /// When a key is gone from a master by itself that was set for `ttl_ms` at `since`, its clock being slow.
    pub(super) fn end_of(&self, since: Instant, ttl_ms: i64) -> Instant {
        let ttl_ms = ttl_ms.max(0).unsigned_abs();
        since + Duration::from_millis(ttl_ms.saturating_add(ttl_ms / 64)).min(FOREVER)
    }

    /// The same of a lock that was released at `since`, when masters saw it end in `left_ms`; -1: never.
    pub(super) fn end_of_release(&self, since: Instant, left_ms: i64) -> Instant {
        if left_ms < 0 { since + UNKNOWN_END } else { self.end_of(since, left_ms) }
    }
}

/// How long a release is kept whose lock has no end.
const UNKNOWN_END: Duration = Duration::from_secs(24 * 3600);

/// Time that an [`Instant`] can certainly still add up.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
impl Rules {
    /// Those of three masters.
    pub fn for_tests() -> Self {
        use crate::lua::program::Ttls;
        use crate::lua::residents::Residents;
        let vote_timeout = Duration::from_millis(50);
        let pad = Pad::new(vote_timeout, 0.01);
        let ttls = Ttls { pad, longest: None };
        Self {
            quorum: Quorum::of(3),
            pad,
            vote_timeout,
            patience: Duration::from_secs(2),
            split_vote_retries: 0,
            unix_time: Arc::new(UnixTime::new(3, 0.01)),
            leases: Rc::default(),
            registers: Rc::default(),
            commands: crate::lua::transactions::for_tests(),
            texts: Rc::new(Texts::new(ttls, Arc::new(Residents::new(3, ttls)))),
        }
    }
}
