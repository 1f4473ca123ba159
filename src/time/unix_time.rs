//! The time of day, as the masters tell it.
//!
//! A client that names a moment (`EXAT`, `PXAT`, `EXPIREAT`) means the clock of its Redis, and so does a script that asks for
//! `TIME`. Here that is the clock in the middle of the masters', and the clock of a proxy's own host may be wrong, or jump,
//! without harm. Between two readings of the masters it goes as evenly as our monotonic clock.
//!
//! Registers end by it, but not before masters have counted their time
//! ([`State::stays_us`](crate::decision::keyspace::slot::State)). So that they do not end late either, it does not jump when
//! another clock becomes the one in the middle: it is slewed, by half the drift that ends are padded for. A proxy that starts
//! later takes it over as another one has noted it ([`Note`](crate::decision::roster::noted::Note)).

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::clock::{self, Instant};
use super::clocks::Reading;
use crate::decision::quorum::MasterId;

/// A master whose clock nobody has read yet.
const UNKNOWN: i64 = i64::MIN;

/// The longest time without a reading of any clock that is made up for at once.
const LONGEST_SLEW: Duration = Duration::from_secs(2);

/// See the module. All times are Unix time.
#[derive(Debug)]
pub struct UnixTime {
    start: Instant,
    /// What it was at `start`, in microseconds.
    time: AtomicI64,
    /// The same, by the clock of each master.
    masters: Vec<AtomicI64>,
    /// How much faster or slower it may go than our clock, in millionths.
    slew_ppm: i64,
    /// Until when it was slewed, in microseconds since `start`.
    slewed_us: AtomicI64,
}

impl UnixTime {
    /// By the clock of this host, until `masters` clocks are known. `drift` is the largest difference in rate between two
    /// clocks.
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

    /// In microseconds.
    pub fn micros(&self) -> i64 {
        self.at(&self.time)
    }

    /// In milliseconds, as Redis counts absolute expiries.
    pub fn ms(&self) -> i64 {
        self.micros() / 1000
    }

    /// In milliseconds, by the clock that ends the keys of `master`.
    pub fn ms_of(&self, master: MasterId) -> i64 {
        let own = self.masters.get(master.index());
        let known = own.filter(|micros| micros.load(Ordering::Relaxed) != UNKNOWN);
        self.at(known.unwrap_or(&self.time)) / 1000
    }

    /// By how much the clock of `master` is ahead of it; negative: behind.
    pub fn ahead_ms(&self, master: MasterId) -> i64 {
        self.ms_of(master) - self.ms()
    }

    /// What it was when our clock began, in microseconds.
    pub fn at_start_us(&self) -> i64 {
        self.time.load(Ordering::Relaxed)
    }

    fn at(&self, micros_at_start: &AtomicI64) -> i64 {
        let elapsed_us = self.elapsed_us(clock::now());
        micros_at_start.load(Ordering::Relaxed).saturating_add(elapsed_us)
    }

    /// Microseconds from its start until `now`, those in which this host was suspended included. It never goes back.
    pub fn elapsed_us(&self, now: Instant) -> i64 {
        let awake = now.saturating_duration_since(self.start).as_micros();
        i64::try_from(awake).unwrap_or(i64::MAX / 2) + clock::suspended_us()
    }

    /// The clock of `master` was read. Returns by how much it can be wrong, in microseconds.
    pub fn read(&self, master: MasterId, reading: &Reading) -> i64 {
        let took = reading.answered.saturating_duration_since(reading.asked);
        let micros = reading.unix_micros - self.elapsed_us(reading.asked + took / 2);
        // A millisecond more: neither clock is read in no time.
        let uncertain_us = i64::try_from(took.as_micros() / 2).unwrap_or(i64::MAX / 4) + 1_000;
        self.heard_of(master, micros, uncertain_us);
        uncertain_us
    }

    /// The clock of `master` was read: it was `micros` when ours began, give or take `uncertain_us`. What could be an error of
    /// reading is not followed, or the time would go back and forth.
    fn heard_of(&self, master: MasterId, micros: i64, uncertain_us: i64) {
        let own = &self.masters[master.index()];
        if own.load(Ordering::Relaxed).abs_diff(micros) > uncertain_us.unsigned_abs() {
            own.store(micros, Ordering::Relaxed);
        }
    }

    /// Another proxy has noted that it was `micros` when our clock began.
    pub fn take_over(&self, micros: i64) {
        self.time.store(micros, Ordering::Relaxed);
    }

    /// Our clock has stopped for so many microseconds, and those of all masters have not.
    pub fn make_up_for(&self, stopped_us: i64) {
        self.time.fetch_add(stopped_us, Ordering::Relaxed);
    }

    /// Follows the clock in the middle of those of `masters`; if none of them was read, of all. `at_once`: nothing ends by it
    /// yet.
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

    /// Two clocks of this host are read for each time, one after the other.
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

    /// What has been set by one clock may only be padded for this much of another.
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
