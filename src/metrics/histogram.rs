//! Latency histograms.

use std::time::Duration;

use super::Count;

/// Number of buckets. Upper bounds are powers of two from 1 µs to 18 minutes; the last bucket has none.
const BUCKETS: usize = 32;

/// Durations, counted by one thread and read by others.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Count; BUCKETS],
    sum_us: Count,
}

/// A histogram at one moment, summed over workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    buckets: [u64; BUCKETS],
    sum_us: u64,
}

impl Histogram {
    /// Records a duration in microseconds.
    #[inline]
    pub fn observe(&self, us: u64) {
        self.buckets[bucket(us)].one();
        self.sum_us.add(us);
    }

    /// Number of durations recorded.
    pub fn calls(&self) -> u64 {
        self.buckets.iter().map(Count::get).sum()
    }
}

/// Returns whole microseconds. Avoids [`Duration::as_micros`], which computes in 128 bits, because this runs for every
/// ballot.
#[inline]
pub fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(time.subsec_micros()))
}

/// Returns the first bucket whose bound is not below `us`.
#[inline]
fn bucket(us: u64) -> usize {
    let bits = u64::BITS - us.saturating_sub(1).leading_zeros();
    (bits as usize).min(BUCKETS - 1)
}

impl Times {
    /// Adds the histogram of one worker.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += count.get();
        }
        self.sum_us += histogram.sum_us.get();
    }

    /// Returns the durations recorded since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (count, before) in since.buckets.iter_mut().zip(&before.buckets) {
            *count -= before;
        }
        since.sum_us -= before.sum_us;
        since
    }

    /// Returns each bucket's bound in seconds, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bound =
            |at: usize| if at + 1 < BUCKETS { (1_u64 << at) as f64 / 1e6 } else { f64::MAX };
        self.buckets.iter().enumerate().map(move |(at, count)| (bound(at), *count))
    }

    /// Number of durations recorded.
    pub fn calls(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of all durations in microseconds.
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Returns the bound of each non-empty bucket in microseconds, and the number of durations up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut all = 0;
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(move |(at, count)| {
            all += count;
            (1 << at, all)
        })
    }

    /// Returns the duration in microseconds that at least this share of all calls did not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let enough = (self.calls() as f64 * share).ceil() as u64;
        self.cumulative().find(|(_, calls)| *calls >= enough).map_or(0, |(us, _)| us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times_us: &[u64]) -> Times {
        let histogram = Histogram::default();
        times_us.iter().for_each(|us| histogram.observe(*us));
        let mut all = Times::default();
        all.add(&histogram);
        all
    }

    #[test]
    fn a_time_falls_under_the_next_power_of_two() {
        let buckets: Vec<_> = of(&[0, 1, 2, 3, 4, 5, 1000, 1024, 1025]).cumulative().collect();
        assert_eq!(buckets, [(1, 2), (2, 3), (4, 5), (8, 6), (1024, 8), (2048, 9)]);
        assert_eq!(of(&[u64::MAX]).cumulative().collect::<Vec<_>>(), [(1 << 31, 1)]);
    }

    #[test]
    fn micros_are_those_of_a_duration() {
        for ns in [0, 999, 1_000, 1_999_999_999, 86_400_000_000_000] {
            let time = Duration::from_nanos(ns);
            assert_eq!(u128::from(micros(time)), time.as_micros(), "{ns}");
        }
        assert_eq!(micros(Duration::MAX), u64::MAX);
    }

    #[test]
    fn what_was_before_can_be_taken_off() {
        let (before, now) = (of(&[5, 9]), of(&[5, 9, 9]));
        assert_eq!(now.since(&before), of(&[9]));
        assert_eq!(now.since(&before).sum_us(), 9);
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let all = of(&[1; 99].iter().chain(&[900]).copied().collect::<Vec<_>>());
        assert_eq!([0.5, 0.99, 0.999].map(|share| all.percentile(share)), [1, 1, 1024]);
        assert_eq!(Times::default().percentile(0.5), 0);
    }
}
