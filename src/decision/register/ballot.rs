//! Order of attempts.

use serde::{Deserialize, Serialize};

/// Name and rank of one attempt to change a register.
///
/// No two attempts share a ballot: a worker's counter only rises, and its id is unique. Ballots are compared as
/// numbers, the epoch first, then the counter. (Lua's `<` on strings follows the locale, so scripts must not compare
/// them as text.)
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Ballot {
    /// Number of times that the register began anew on masters that had forgotten. Promises from before cannot outbid
    /// it.
    pub epoch: u64,
    /// Microseconds since the Unix epoch when the attempt began, or one more than the highest counter seen.
    pub counter: u64,
    /// Worker id, drawn when the worker starts.
    pub worker: u64,
}

impl Ballot {
    /// Ballot of a register that was never written. No attempt uses it.
    pub const NONE: Self = Self { epoch: 0, counter: 0, worker: 0 };

    /// Returns a ballot of `worker` that is higher than `highest`, in the same epoch, and not older than `now_us`.
    pub fn above(highest: Self, now_us: u64, worker: u64) -> Self {
        let counter = now_us.max(highest.counter.saturating_add(1));
        Self { epoch: highest.epoch, counter, worker }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_next_ballot_is_higher_and_not_older(
            epoch: u64, counter in 0..u64::MAX, other: u64, now_us: u64, worker: u64
        ) {
            let highest = Ballot { epoch, counter, worker: other };
            let next = Ballot::above(highest, now_us, worker);
            prop_assert!(next > highest && next.epoch == epoch);
            prop_assert!(next.counter >= now_us && next.worker == worker);
        }
    }

    #[test]
    fn epochs_come_before_counters_and_those_before_workers() {
        let low = Ballot { epoch: 1, counter: 9, worker: 200 };
        let high = Ballot { epoch: 1, counter: 10, worker: 3 };
        assert!(Ballot::NONE < low && low < high);
    }
}
