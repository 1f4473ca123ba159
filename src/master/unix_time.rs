//! The time of day, as the masters tell it.
//!
//! A client that names a moment (`EXAT`, `PXAT`, `EXPIREAT`) means the clock of its Redis, and so does a script
//! that asks for `TIME`. Here that is the clock in the middle of the masters': all proxies agree on it, and that
//! of a proxy's own host may be wrong, or jump, without harm. Between two looks at the masters it goes as
//! evenly as our monotonic clock.

use std::sync::atomic::{AtomicI64, Ordering};

use super::clocks::Reading;
use crate::clock::{self, Instant};
use crate::quorum::MasterId;

/// A master whose clock nobody has read yet.
const UNKNOWN: i64 = i64::MIN;

/// See the module. All times are Unix time.
#[derive(Debug)]
pub struct UnixTime {
    start: Instant,
    /// What it was at `start`, in microseconds, by the clock in the middle.
    middle: AtomicI64,
    /// The same, by the clock of each master.
    masters: Vec<AtomicI64>,
}

impl UnixTime {
    /// By the clock of this host, until `masters` clocks are known.
    pub fn new(masters: usize) -> Self {
        let middle = AtomicI64::new(clock::unix_micros());
        let masters = (0..masters).map(|_| AtomicI64::new(UNKNOWN)).collect();
        Self { start: clock::now(), middle, masters }
    }

    /// In microseconds.
    pub fn micros(&self) -> i64 {
        self.at(&self.middle)
    }

    /// In milliseconds, as Redis counts absolute expiries.
    pub fn ms(&self) -> i64 {
        self.micros() / 1000
    }

    /// In milliseconds, by the clock that ends the keys of `master`.
    pub fn ms_of(&self, master: MasterId) -> i64 {
        let own = self.masters.get(master.index());
        let known = own.filter(|micros| micros.load(Ordering::Relaxed) != UNKNOWN);
        self.at(known.unwrap_or(&self.middle)) / 1000
    }

    fn at(&self, micros_at_start: &AtomicI64) -> i64 {
        let elapsed = i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX);
        micros_at_start.load(Ordering::Relaxed).saturating_add(elapsed)
    }

    /// The clock of `master` was read: it was `micros` when ours began, give or take `uncertain_us`.
    fn heard_of(&self, master: MasterId, micros: i64, uncertain_us: i64) {
        set(&self.masters[master.index()], micros, uncertain_us);
    }

    /// It is the one in the middle, while the clocks of these masters count.
    fn follow(&self, masters: impl Iterator<Item = MasterId>, uncertain_us: i64) {
        let micros = masters.map(|master| self.masters[master.index()].load(Ordering::Relaxed));
        let mut known: Vec<i64> = micros.filter(|micros| *micros != UNKNOWN).collect();
        known.sort_unstable();
        if let Some(middle) = known.get(known.len().saturating_sub(1) / 2) {
            set(&self.middle, *middle, uncertain_us);
        }
    }

    /// Microseconds from its start until `now`, those in which this host was suspended included. It never goes back.
    pub fn elapsed_us(&self, now: Instant) -> i64 {
        let awake = now.saturating_duration_since(self.start).as_micros();
        i64::try_from(awake).unwrap_or(i64::MAX / 2) + clock::suspended_us()
    }

    /// The clock of `master` was read: follows it, and the one in the middle of `voters`.
    pub(super) fn read(
        &self,
        master: MasterId,
        reading: &Reading,
        voters: impl Iterator<Item = MasterId>,
    ) {
        let took = reading.answered.saturating_duration_since(reading.asked);
        let at = (reading.asked + took / 2).saturating_duration_since(self.start);
        let micros = reading.unix_micros - i64::try_from(at.as_micros()).unwrap_or(i64::MAX / 2);
        // A millisecond more: neither clock is read in no time.
        let uncertain_us = i64::try_from(took.as_micros() / 2).unwrap_or(i64::MAX / 4) + 1_000;
        self.heard_of(master, micros, uncertain_us);
        self.follow(voters, uncertain_us);
    }
}

/// What could be an error of reading is not followed, or the time would go back and forth.
fn set(clock: &AtomicI64, micros: i64, uncertain_us: i64) {
    if clock.load(Ordering::Relaxed).abs_diff(micros) > uncertain_us.unsigned_abs() {
        clock.store(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNCERTAIN_US: i64 = 1_000;

    fn heard(time: &UnixTime, seconds: &[i64]) {
        let masters = || (0..seconds.len()).map(MasterId::new);
        for (master, seconds) in masters().zip(seconds) {
            time.heard_of(master, seconds * 1_000_000, UNCERTAIN_US);
        }
        time.follow(masters(), UNCERTAIN_US);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_in_the_middle_counts_whatever_the_others_say() {
        let time = UnixTime::new(3);
        heard(&time, &[1_000, 90_000, 1_007]);
        assert_eq!(time.ms(), 1_007_000);
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        assert_eq!(time.ms(), 1_012_000);
        assert_eq!(time.ms_of(MasterId::new(0)), 1_005_000);
    }

    #[tokio::test(start_paused = true)]
    async fn of_an_even_number_the_earlier_one_counts() {
        let time = UnixTime::new(2);
        heard(&time, &[1_007, 1_000]);
        assert_eq!(time.ms(), 1_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_reading_do_not_move_it() {
        let time = UnixTime::new(1);
        heard(&time, &[1_000]);
        time.heard_of(MasterId::new(0), 1_000_000_000 - UNCERTAIN_US, UNCERTAIN_US);
        time.follow(std::iter::once(MasterId::new(0)), UNCERTAIN_US);
        assert_eq!(time.micros(), 1_000_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn before_any_master_is_known_it_is_the_hosts() {
        let time = UnixTime::new(3);
        let ours = clock::unix_micros() / 1000;
        assert!(time.ms().abs_diff(ours) < 60_000);
        assert_eq!(time.ms_of(MasterId::new(2)), time.ms());
    }
}
