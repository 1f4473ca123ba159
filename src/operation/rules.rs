//! Facts about the proxy on which decisions depend.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::leases::Leases;
use super::on_register::Texts;
use super::register::promises::Registers;
use crate::client::onlookers::Onlookers;
use crate::decision::lease::claim::Terms;
use crate::decision::lease::pad::Pad;
use crate::decision::quorum::Quorum;
use crate::lua::program::ProgramText;
use crate::names::slot::Share;
use crate::time::clock::Instant;
use crate::time::unix_time::UnixTime;

/// Facts on which decisions depend; see the module.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The quorum of masters.
    pub quorum: Quorum,
    /// Padding added to TTLs on the masters.
    pub pad: Pad,
    /// Time that a verdict waits for a silent minority.
    pub vote_timeout: Duration,
    /// Time that a client waits while a quorum is silent.
    pub patience: Duration,
    /// Maximum retries of a split vote.
    pub split_vote_retries: u32,
    /// Maximum time that a claim of a poller waits for a held key.
    pub fair_waiting: Duration,
    /// The time of day.
    pub unix_time: Arc<UnixTime>,
    /// The leases of this worker.
    pub leases: Rc<Leases>,
    /// The registers of this worker.
    pub registers: Rc<Registers>,
    /// The program that runs single commands.
    pub commands: Arc<ProgramText>,
    /// Texts of programs that replace operations on leases.
    pub texts: Rc<Texts>,
    /// Who wants to know what operations do.
    pub onlookers: Arc<Onlookers>,
    /// Keys that the masters serve.
    pub share: Share,
    /// Name of the shard, if there are several.
    pub shard: Option<Rc<str>>,
}

impl Rules {
    /// Whether a round with conflicting answers may be repeated after `tried` repetitions.
    pub(super) fn may_try_again(&self, tried: u8) -> bool {
        u32::from(tried) < self.split_vote_retries
    }

    /// Returns how long a program on several keys waits for masters beyond a quorum. It has several rounds, after which
    /// its client still waits for the reply.
    pub fn wait_for_all(&self) -> Duration {
        self.vote_timeout.min(self.patience / 4)
    }

    /// Returns the terms common to all lease decisions whose client still waits for `patience`.
    pub(super) fn terms(&self, patience: Duration) -> Terms {
        let Self { quorum, vote_timeout, split_vote_retries: retries, .. } = *self;
        Terms { quorum, vote_timeout, patience, retries }
    }

    /// Converts `now` for decisions on leases.
    pub fn at(&self, now: Instant) -> Duration {
        self.leases.at(now)
    }

    /// Returns how long after sending a quorum's yes grants a lease of `asked_ms`.
    pub(super) fn freshness(&self, asked_ms: i64) -> Duration {
        self.pad.freshness(asked_ms, self.leases.round_trip())
    }

    /// Returns when a key set for `ttl_ms` at `since` has expired on a master, even one with a slow clock.
    pub(super) fn end_of(&self, since: Instant, ttl_ms: i64) -> Instant {
        let ttl_ms = ttl_ms.max(0).unsigned_abs();
        since + Duration::from_millis(ttl_ms.saturating_add(ttl_ms / 64)).min(FOREVER)
    }

    /// Returns the same for a lock released at `since`, which masters saw expire in `left_ms`; -1: never.
    pub(super) fn end_of_release(&self, since: Instant, left_ms: i64) -> Instant {
        if left_ms < 0 { since + UNKNOWN_END } else { self.end_of(since, left_ms) }
    }
}

/// Time for which a release is kept if its lock has no expiry.
const UNKNOWN_END: Duration = Duration::from_secs(24 * 3600);

/// A duration that can safely be added to an [`Instant`].
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
impl Rules {
    /// Returns the rules of three masters.
    pub fn for_tests() -> Self {
        use crate::lua::program::{ScriptRules, Tells};
        use crate::lua::residents::Residents;
        let vote_timeout = Duration::from_millis(50);
        let pad = Pad::new(vote_timeout, 0.01);
        let script_rules =
            ScriptRules { pad, longest: None, sees_all_keys: true, tells: Tells::NOTHING };
        Self {
            quorum: Quorum::of(3),
            pad,
            vote_timeout,
            patience: Duration::from_secs(2),
            split_vote_retries: 0,
            fair_waiting: Duration::ZERO,
            unix_time: Arc::new(UnixTime::new(3, 0.01)),
            leases: Rc::default(),
            registers: Rc::default(),
            commands: crate::lua::transactions::for_tests(),
            texts: Rc::new(Texts::new(
                script_rules,
                Arc::new(Residents::new(3, script_rules)),
                Arc::default(),
            )),
            onlookers: Arc::default(),
            share: Share::ALL,
            shard: None,
        }
    }
}
