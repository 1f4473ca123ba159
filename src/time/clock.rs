//! The one clock. Elapsed time and deadlines are monotonic. The wall clock only stands in for the masters' clocks
//! ([`UnixTime`](super::unix_time::UnixTime)) until one of them is known.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

thread_local! {
    /// Wall clock set by a simulation, and the time of setting.
    static SET: Cell<Option<(Duration, Instant)>> = const { Cell::new(None) };
}

/// Returns the monotonic time. Tests pause and advance it through tokio's test clock.
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the Unix time in microseconds.
pub fn unix_micros() -> i64 {
    i64::try_from(since_epoch().as_micros()).unwrap_or(i64::MAX)
}

/// Returns the microseconds for which this host has been suspended since boot. The monotonic clock does not count
/// them, but the clocks of other hosts went on meanwhile.
#[inline]
pub fn suspended_us() -> i64 {
    if SET.get().is_some() {
        return 0;
    }
    let micros = |id| {
        let time = rustix::time::clock_gettime(id);
        time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
    };
    let mut suspended = 0;
    for _ in 0..ATTEMPTS {
        let before = micros(rustix::time::ClockId::Monotonic);
        suspended = micros(rustix::time::ClockId::Boottime) - before;
        if micros(rustix::time::ClockId::Monotonic) - before < AT_ONCE_US {
            break;
        }
    }
    suspended
}

/// Maximum attempts to read two clocks without this thread being descheduled in between.
const ATTEMPTS: usize = 3;

/// Maximum microseconds between two readings that count as simultaneous.
const AT_ONCE_US: i64 = 20;

/// Sets this thread's wall clock, which then runs with the monotonic one. A simulation has no other wall clock, and
/// makes it jump this way.
pub fn set_wall_clock(since_epoch: Duration) {
    SET.set(Some((since_epoch, now())));
}

#[allow(clippy::disallowed_methods, reason = "this is the seam")]
fn since_epoch() -> Duration {
    match SET.get() {
        Some((since_epoch, at)) => since_epoch + at.elapsed(),
        None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO),
    }
}
