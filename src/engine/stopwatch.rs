//! Durations for metrics.

use std::cell::Cell;
use std::time::Duration;

use crate::metrics::histogram::micros;
use crate::time::clock::{self, Instant};

/// The time at which clients or masters were last heard, in microseconds since the stopwatch started. That is accurate
/// enough to measure durations. No extra clock reads are needed, and requests or answers that were read together cost
/// one conversion.
pub(super) struct Stopwatch {
    start: Instant,
    at: Cell<Instant>,
    us: Cell<u64>,
}

impl Stopwatch {
    /// Starts a stopwatch now.
    pub(super) fn new() -> Self {
        let start = clock::now();
        Self { start, at: Cell::new(start), us: Cell::new(0) }
    }

    /// Sets the current time.
    #[inline]
    pub(super) fn see(&self, now: Instant) {
        if now != self.at.replace(now) {
            self.us.set(micros(now.saturating_duration_since(self.start)));
        }
    }

    /// Returns the last time set.
    pub(super) fn us(&self) -> u64 {
        self.us.get()
    }

    /// Returns the moment at which it will show this time.
    pub(super) fn moment(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// Returns the time from `us` to the last time set.
    pub(super) fn since(&self, us: u64) -> u64 {
        self.us.get().saturating_sub(us)
    }
}
