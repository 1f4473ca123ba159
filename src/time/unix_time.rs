//! The time of day, according to the masters.
//!
//! A client that names a point in time (`EXAT`, `PXAT`, `EXPIREAT`) means the clock of its Redis, and so does a script
//! that calls `TIME`. Here that is the median of the masters' clocks. The clock of the proxy's own host may be wrong,
//! or jump, without harm. Between two readings of the masters this time runs as evenly as our monotonic clock.
//!
//! Registers expire by this time, but not before masters have counted their time to live
//! ([`State::stays_us`](crate::decision::keyspace::slot::State)). To keep them from expiring late as well, the time
//! does not jump when another clock becomes the median. It is slewed instead, by half the drift for which expiries are
//! padded. A proxy that starts later takes over the time that another one has noted
//! ([`Note`](crate::decision::roster::noted::ClockNote)).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::clock::{self, Instant};
use super::clocks::ClockReading;
use crate::decision::quorum::MasterId;

/// Placeholder for a master whose clock has not been read yet.
const UNKNOWN: i64 = i64::MIN;

/// Longest gap between readings whose slew is applied in one step.
const LONGEST_SLEW: Duration = Duration::from_secs(2);

/// The masters' time of day; see the module. All times are Unix time.
#[derive(Debug)]
pub struct UnixTime {
    start: Instant,
    /// Time of day at `start`, in microseconds.
    time: AtomicI64,
    /// Time of day at `start` by each master's clock.
    masters: Vec<AtomicI64>,
    /// Maximum slew relative to our clock, in parts per million.
    slew_ppm: i64,
    /// End of the period already slewed, in microseconds since `start`.
    slewed_us: AtomicI64,
}

impl UnixTime {
    /// Starts from this host's clock, which applies until the clocks of `masters` are known. `drift` is the largest
    /// difference in rate between two clocks.
    pub fn new(masters: usize, drift: f64) -> Self {
        let time = AtomicI64::new(clock::unix_micros() - clock::suspended_us());
        let masters = (0..masters).map(|_| AtomicI64::new(UNKNOWN)).collect();
        let slew_ppm = (drift * 500_000.0) as i64;
        Self {
            start: clock::now(),
            time,
            masters,
            slew_ppm,
            slewed_us: AtomicI64::new(clock::suspended_us()),
        }
    }

    /// Time of day in microseconds.
    pub fn micros(&self) -> i64 {
        self.at(&self.time)
    }

    /// Time of day in milliseconds, the unit of Redis's absolute expiries.
    pub fn ms(&self) -> i64 {
        self.micros() / 1000
    }

    /// Time of day in milliseconds by the clock that expires the keys of `master`.
    pub fn ms_of(&self, master: MasterId) -> i64 {
        let own = self.masters.get(master.index());
        let known = own.filter(|micros| micros.load(Ordering::Relaxed) != UNKNOWN);
        self.at(known.unwrap_or(&self.time)) / 1000
    }

    /// Lead of the clock of `master` over the time of day; negative if it is behind.
    pub fn ahead_ms(&self, master: MasterId) -> i64 {
        self.ms_of(master) - self.ms()
    }

    /// Time of day at the start of our clock, in microseconds.
    pub fn at_start_us(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
    }

    fn at(&self, micros_at_start: &AtomicI64) -> i64 {
        let elapsed_us = self.elapsed_us(clock::now());
        micros_at_start.load(Ordering::Relaxed).saturating_add(elapsed_us)
    }

    /// Returns the microseconds from our start until `now`, including time that this host was suspended. Never
    /// decreases.
    pub fn elapsed_us(&self, now: Instant) -> i64 {
        let awake = now.saturating_duration_since(self.start).as_micros();
        i64::try_from(awake).unwrap_or(i64::MAX / 2) + clock::suspended_us()
    }

    /// Records a reading of the clock of `master`. Returns its maximum error in microseconds.
    pub fn read(&self, master: MasterId, reading: &ClockReading) -> i64 {
        let took = reading.answered.saturating_duration_since(reading.asked);
        let micros = reading.unix_micros - self.elapsed_us(reading.asked + took / 2);
        // Add a millisecond because reading either clock takes time.
        let uncertain_us = i64::try_from(took.as_micros() / 2).unwrap_or(i64::MAX / 4) + 1_000;
        self.heard_of(master, micros, uncertain_us);
        uncertain_us
    }

    /// Records that the clock of `master` showed `micros` when ours began, give or take `uncertain_us`. Differences
    /// within the reading error are ignored; otherwise the time would jitter.
    fn heard_of(&self, master: MasterId, micros: i64, uncertain_us: i64) {
        let own = &self.masters[master.index()];
        if own.load(Ordering::Relaxed).abs_diff(micros) > uncertain_us.unsigned_abs() {
            own.store(micros, Ordering::Relaxed);
        }
    }

    /// Takes over another proxy's note that the time was `micros` when our clock began.
    pub fn take_over(&self, micros: i64) {
        self.time.store(micros, Ordering::Relaxed);
    }

    /// Adds time for which our clock stopped while those of all masters went on.
    pub fn make_up_for(&self, stopped_us: i64) {
        self.time.fetch_add(stopped_us, Ordering::Relaxed);
    }

    /// Follows the median clock of `masters`, or of all masters if none of those has been read. `at_once` skips
    /// slewing, for use while nothing expires by this time yet.
    pub fn follow(
        &self,
        masters: impl Iterator<Item = MasterId>,
        uncertain_us: i64,
        at_once: bool,
    ) {
        let now_us = self.elapsed_us(clock::now());
        let slewed_us = now_us - self.slewed_us.swap(now_us, Ordering::Relaxed);
        let Some(middle) = self.middle(masters) else { return };
        let ahead_us = middle.saturating_sub(self.at_start_us());
        if ahead_us.saturating_abs() <= uncertain_us {
            return;
        }
        let most_us = match at_once {
            true => i64::MAX,
            false => {
                let slewed_us = slewed_us.clamp(0, LONGEST_SLEW.as_micros() as i64);
                slewed_us * self.slew_ppm / 1_000_000
            }
        };
        self.time.fetch_add(ahead_us.clamp(-most_us, most_us), Ordering::Relaxed);
    }

    fn middle(&self, masters: impl Iterator<Item = MasterId>) -> Option<i64> {
        let read =
            |own: &AtomicI64| Some(own.load(Ordering::Relaxed)).filter(|micros| *micros != UNKNOWN);
        let mut known: Vec<i64> =
            masters.filter_map(|master| read(&self.masters[master.index()])).collect();
        if known.is_empty() {
            known = self.masters.iter().filter_map(read).collect();
        }
        known.sort_unstable();
        known.get(known.len().saturating_sub(1) / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNCERTAIN_US: i64 = 1_000;

    /// Error allowance: each time, two clocks of this host are read one after the other.
    const HALF_MS_US: i64 = 500;

    fn heard(time: &UnixTime, seconds: &[i64]) {
        let masters = || (0..seconds.len()).map(MasterId::new);
        for (master, seconds) in masters().zip(seconds) {
            time.heard_of(master, seconds * 1_000_000 + HALF_MS_US, UNCERTAIN_US);
        }
        time.follow(masters(), UNCERTAIN_US, true);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_the_host_does_not_count_before_anybody_votes() {
        let time = UnixTime::new(3, 0.01);
        time.heard_of(MasterId::new(1), 1_000_000_000 + HALF_MS_US, UNCERTAIN_US);
        time.follow(std::iter::empty(), UNCERTAIN_US, true);
        assert_eq!(time.ms(), 1_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_in_the_middle_counts_whatever_the_others_say() {
        let time = UnixTime::new(3, 0.01);
        heard(&time, &[1_000, 90_000, 1_007]);
        assert_eq!(time.ms(), 1_007_000);
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        assert_eq!(time.ms(), 1_012_000);
        assert_eq!(time.ms_of(MasterId::new(0)), 1_005_000);
    }

    #[tokio::test(start_paused = true)]
    async fn of_an_even_number_the_earlier_one_counts() {
        let time = UnixTime::new(2, 0.01);
        heard(&time, &[1_007, 1_000]);
        assert_eq!(time.ms(), 1_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_reading_do_not_move_it() {
        let time = UnixTime::new(1, 0.01);
        heard(&time, &[1_000]);
        time.heard_of(MasterId::new(0), 1_000_000_000 + HALF_MS_US - UNCERTAIN_US, UNCERTAIN_US);
        time.follow(std::iter::once(MasterId::new(0)), UNCERTAIN_US, true);
        assert_eq!(time.ms(), 1_000_000);
    }

    /// A deadline set by one clock is padded only for this much difference from another.
    #[tokio::test(start_paused = true)]
    async fn when_another_clock_comes_into_the_middle_the_time_does_not_jump() {
        for ahead_s in [40, -40] {
            let time = UnixTime::new(3, 0.01);
            heard(&time, &[1_000, 1_000, 1_000 + ahead_s]);
            let left = || [1, 2].map(MasterId::new).into_iter();
            time.heard_of(MasterId::new(1), (1_000 + ahead_s) * 1_000_000, UNCERTAIN_US);
            let begun_us = time.micros();
            for second in 1..=1_000_i64 {
                tokio::time::advance(Duration::from_secs(1)).await;
                time.follow(left(), UNCERTAIN_US, false);
                let slewed_us = time.micros() - begun_us - second * 1_000_000;
                assert!(
                    slewed_us.abs() <= second * 5_000 + HALF_MS_US,
                    "{slewed_us} us in {second} s"
                );
                assert_eq!(slewed_us.signum(), ahead_s.signum());
            }
            tokio::time::advance(Duration::from_secs(3_600)).await;
            let before_us = time.micros();
            time.follow(left(), UNCERTAIN_US, false);
            assert!(
                (time.micros() - before_us).abs() <= 10_000 + HALF_MS_US,
                "an hour in which nothing was read"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_gets_where_the_clock_in_the_middle_is() {
        let time = UnixTime::new(1, 0.01);
        heard(&time, &[1_000]);
        time.heard_of(MasterId::new(0), 1_001_000_000, UNCERTAIN_US);
        for _ in 0..200 {
            tokio::time::advance(Duration::from_secs(1)).await;
            time.follow(std::iter::once(MasterId::new(0)), UNCERTAIN_US, false);
        }
        assert!((time.micros() - 1_201_000_000).abs() <= UNCERTAIN_US, "{}", time.micros());
    }

    #[tokio::test(start_paused = true)]
    async fn before_any_master_is_known_it_is_the_hosts() {
        let time = UnixTime::new(3, 0.01);
        let ours = clock::unix_micros() / 1000;
        assert!(time.ms().abs_diff(ours) < 60_000);
        assert_eq!(time.ms_of(MasterId::new(2)), time.ms());
    }
}
