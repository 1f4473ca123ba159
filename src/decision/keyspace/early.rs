//! Rounds that masters refuse as beyond an end: a value has ended by the round's time, but still stays by the masters'
//! clocks.
//!
//! Such a round is not outbid: the next one uses the time of the masters that refused it.

use super::slot::Refusal;
use crate::decision::register::ballot::Ballot;

/// Refusals of one round as beyond an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Early {
    /// Earliest time reported by these masters, in microseconds since the Unix epoch.
    latest_us: u64,
    /// Highest ballot that these masters have promised.
    promised: Ballot,
}

impl Early {
    /// Records a master's refusal of a round, for this or any other reason.
    pub fn hear(early: &mut Option<Self>, Refusal { promised, latest_us }: Refusal) {
        let Some(latest_us) = latest_us else { return };
        let early = early.get_or_insert(Self { latest_us, promised });
        early.latest_us = early.latest_us.min(latest_us);
        early.promised = early.promised.max(promised);
    }

    /// Returns the ballot of the next round: above the promises of those masters, and above `mine`, which this worker
    /// was promised.
    pub fn next(self, mine: Ballot, now_us: u64, worker: u64) -> Ballot {
        Ballot::above(self.promised.max(mine), now_us.min(self.latest_us), worker)
    }
}
