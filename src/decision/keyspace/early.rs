//! Rounds that masters refuse as beyond an end: something has ended by their time, and still stays by clocks of masters.
//!
//! Such a round is not outbid: the next one goes by the time of the masters that have refused it.

use super::slot::Refusal;
use crate::decision::register::ballot::Ballot;

/// What masters have said to one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Early {
    /// The earliest time that one of them takes it to be, in microseconds since the epoch.
    latest_us: u64,
    /// The highest ballot that they have promised.
    promised: Ballot,
}

impl Early {
    /// A master has refused a round, for this reason or another.
    pub fn hear(early: &mut Option<Self>, Refusal { promised, latest_us }: Refusal) {
        let Some(latest_us) = latest_us else { return };
        let early = early.get_or_insert(Self { latest_us, promised });
        early.latest_us = early.latest_us.min(latest_us);
        early.promised = early.promised.max(promised);
    }

    /// The ballot of the next round: above what those masters have promised, and `mine`, which this worker was promised.
    pub fn next(self, mine: Ballot, now_us: u64, worker: u64) -> Ballot {
        Ballot::above(self.promised.max(mine), now_us.min(self.latest_us), worker)
    }
}
