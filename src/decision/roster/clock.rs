//! Detection of masters whose clock was set.
//!
//! Redlock requires that clocks run at the same rate, not that they show the same time. A master whose clock is set
//! forward forgets its locks early; one whose clock is set back keeps them too long. So each master's clock is compared
//! with one of this proxy's that never goes back. The difference is known to within a round trip, and every further
//! sample must agree with all previous ones, except for drift.

use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// One reading of a master's clock, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sample {
    /// Time of the request, on this proxy's clock.
    pub sent_us: i64,
    /// Time of the answer, on this proxy's clock.
    pub received_us: i64,
    /// Time in between, on the master's clock.
    pub master_us: i64,
}

/// Lead of a master's clock over this proxy's, as far as all samples agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    offset: Range,
    /// Time at which the last sample was received.
    at_us: i64,
    drift_ppm: i64,
}

/// A range of microseconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Range {
    pub(super) least: i64,
    pub(super) most: i64,
}

/// Result of comparing a sample with a master's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClockLook {
    /// The clock continues as before.
    Continues,
    /// The clock was set.
    Stepped {
        /// Minimum by which it can have been set forward, in microseconds.
        least_us: i64,
        /// Maximum by which it can have been set forward, in microseconds.
        most_us: i64,
    },
}

/// Conclusion from the looks at all clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// These masters must be treated as masters that have forgotten.
    Stepped(MasterSet),
    /// This proxy stood still, for about this many microseconds. It discards what is in flight, and measures anew.
    StoodStill(i64),
}

impl Clock {
    /// Starts with the first sample since the admission.
    pub fn new(sample: Sample, drift_ppm: i64) -> Self {
        Self { offset: sample.offset(), at_us: sample.received_us, drift_ppm }
    }

    /// Compares a sample with all previous ones. A clock that was set keeps its earlier range.
    pub fn look(&mut self, sample: Sample) -> ClockLook {
        let known = self.offset_at(sample.received_us);
        let seen = sample.offset();
        let Some(both) = known.and(seen) else {
            let (least_us, most_us) = (seen.least - known.most, seen.most - known.least);
            return ClockLook::Stepped { least_us, most_us };
        };
        (self.offset, self.at_us) = (both, self.at_us.max(sample.received_us));
        ClockLook::Continues
    }

    /// Returns a clock that another proxy has read until `at_us`.
    pub(super) fn noted(offset: Range, at_us: i64, drift_ppm: i64) -> Self {
        Self { offset, at_us, drift_ppm }
    }

    /// Returns the lead of the clock at `now_us`, if nobody has set it since.
    pub(super) fn offset_at(&self, now_us: i64) -> Range {
        self.offset.widened(self.drift_since(now_us))
    }

    fn drift_since(&self, now_us: i64) -> i64 {
        drift_us(now_us.saturating_sub(self.at_us).max(0), self.drift_ppm)
    }
}

/// Returns by how much two clocks may drift apart in `elapsed_us`, rounded up: too narrow a range would accuse an
/// honest master.
pub(super) fn drift_us(elapsed_us: i64, drift_ppm: i64) -> i64 {
    elapsed_us.saturating_mul(drift_ppm) / 1_000_000 + 1
}

impl Sample {
    fn offset(&self) -> Range {
        Range { least: self.master_us - self.received_us, most: self.master_us - self.sent_us }
    }
}

impl Range {
    /// Returns the range by another clock, whose difference from this one is in the range `by`.
    pub(super) fn shifted(self, by: Self) -> Self {
        Self { least: self.least.saturating_add(by.least), most: self.most.saturating_add(by.most) }
    }

    /// Returns the range of all differences between a point of this range and one of `other`.
    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            least: self.least.saturating_sub(other.most),
            most: self.most.saturating_sub(other.least),
        }
    }

    pub(super) fn middle(self) -> i64 {
        self.least.saturating_add(self.most.saturating_sub(self.least) / 2)
    }

    pub(super) fn has(self, point: i64) -> bool {
        self.least <= point && point <= self.most
    }

    pub(super) fn widened(self, by: i64) -> Self {
        Self { least: self.least.saturating_sub(by), most: self.most.saturating_add(by) }
    }

    pub(super) fn and(self, other: Self) -> Option<Self> {
        let both = Self { least: self.least.max(other.least), most: self.most.min(other.most) };
        (both.least <= both.most).then_some(both)
    }
}

/// Distinguishes masters whose clocks were set from a proxy that stood still.
///
/// A paused virtual machine sees all masters jump forward by the same amount. This needs one look at each master, from
/// at least a quorum: a minority that jumps alike proves nothing about this proxy.
pub fn judge(quorum: Quorum, looks: &[(MasterId, ClockLook)]) -> Finding {
    let stepped = |(master, look): &(MasterId, ClockLook)| match look {
        ClockLook::Stepped { least_us, most_us } => Some((*master, *least_us, *most_us)),
        ClockLook::Continues => None,
    };
    let steps: Vec<_> = looks.iter().filter_map(stepped).collect();
    let masters: MasterSet = steps.iter().map(|(master, ..)| *master).collect();
    let least = steps.iter().map(|(_, least, _)| *least).max().unwrap_or(0);
    let most = steps.iter().map(|(.., most)| *most).min().unwrap_or(0);
    let all_alike = steps.len() == looks.len() && least <= most && most > 0;
    if all_alike && quorum.reached_by(masters) {
        return Finding::StoodStill(least + (most - least) / 2);
    }
    Finding::Stepped(masters)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND_US: i64 = 1_000_000;

    fn sample(sent_us: i64, ahead_us: i64) -> Sample {
        Sample { sent_us, received_us: sent_us + 2_000, master_us: sent_us + 1_000 + ahead_us }
    }

    #[test]
    fn a_step_of_more_than_a_round_trip_shows() {
        let mut clock = Clock::new(sample(0, 500), 10_000);
        assert_eq!(clock.look(sample(1_000, 500)), ClockLook::Continues);
        assert!(matches!(
            clock.look(sample(3_000, 10_500)),
            ClockLook::Stepped { least_us: 7_900.., .. }
        ));
        let back = clock.look(sample(5_000, -9_500));
        assert!(matches!(back, ClockLook::Stepped { most_us: ..0, .. }), "{back:?}");
    }

    #[test]
    fn small_steps_do_not_add_up_unseen() {
        let mut clock = Clock::new(sample(0, 0), 0);
        let creeping = (1..10).map(|step| sample(step * 10, step * 900));
        assert!(creeping.map(|sample| clock.look(sample)).any(|look| look != ClockLook::Continues));
    }

    #[test]
    fn a_proxy_that_stood_still_accuses_nobody() {
        let alike = ClockLook::Stepped { least_us: 9 * SECOND_US, most_us: 10 * SECOND_US };
        let other = ClockLook::Stepped { least_us: SECOND_US, most_us: 2 * SECOND_US };
        let looks = |looks: &[ClockLook]| -> Vec<_> {
            looks.iter().enumerate().map(|(at, look)| (MasterId::new(at), *look)).collect()
        };
        let judge = |list: &[ClockLook]| judge(Quorum::of(3), &looks(list));
        assert_eq!(judge(&[alike; 3]), Finding::StoodStill(9_500_000));
        let all = MasterSet::first(3);
        assert_eq!(judge(&[alike, alike, other]), Finding::Stepped(all));
        assert_eq!(
            judge(&[alike, alike, ClockLook::Continues]),
            Finding::Stepped(MasterSet::first(2))
        );
        assert_eq!(judge(&[alike]), Finding::Stepped(MasterSet::first(1)));
        assert_eq!(judge(&[ClockLook::Continues; 3]), Finding::Stepped(MasterSet::EMPTY));
    }

    proptest! {
        /// Whatever the round trips, a clock within the drift is never accused.
        #[test]
        fn an_honest_clock_continues(
            ahead in -1_000_000i64..1_000_000,
            rate_ppm in -100i64..=100,
            trips in proptest::collection::vec((0i64..1_000_000, 0i64..50_000, 0i64..50_000), 1..30)
        ) {
            let mut now = 0;
            let mut samples = trips.into_iter().map(|(pause, there, back)| {
                let sent_us = now + pause;
                let asked = sent_us + there;
                now = asked + back;
                let master_us = asked + ahead + asked * rate_ppm / 1_000_000;
                Sample { sent_us, received_us: now, master_us }
            });
            let first = samples.next().expect("at least one");
            let mut clock = Clock::new(first, 110);
            for sample in samples {
                prop_assert_eq!(clock.look(sample), ClockLook::Continues);
            }
        }
    }
}
