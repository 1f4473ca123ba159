//! How long things took, for those who count.

use std::cell::Cell;

use crate::metrics::histogram::micros;
use crate::time::clock::{self, Instant};

/// When clients or masters were last heard, in microseconds of its own: near enough to tell how long
/// something took. The clock is not read for it, and requests or answers that were read together cost
/// one conversion.
pub(super) struct Stopwatch {
    start: Instant,
    at: Cell<Instant>,
    us: Cell<u64>,
}

impl Stopwatch {
    /// It begins now.
    pub(super) fn new() -> Self {
        let start = clock::now();
        Self { start, at: Cell::new(start), us: Cell::new(0) }
    }

    /// It is `now`.
    #[inline]
    pub(super) fn see(&self, now: Instant) {
        if now != self.at.replace(now) {
            self.us.set(micros(now.saturating_duration_since(self.start)));
        }
    }

    /// What it was when it was last seen.
    pub(super) fn us(&self) -> u64 {
        self.us.get()
    }

    /// What has passed by then since `us`.
    pub(super) fn since(&self, us: u64) -> u64 {
        self.us.get().saturating_sub(us)
    }
}
