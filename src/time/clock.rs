//! The one clock. Elapsed time and deadlines are monotonic; the wall clock only stands in for the masters'
//! ([`UnixTime`](super::unix_time::UnixTime)) until one of them is known.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

thread_local! {
    /// What a simulation has set the wall clock to, and when.
    static SET: Cell<Option<(Duration, Instant)>> = const { Cell::new(None) };
}

/// The monotonic time. Paused and advanced by tests through tokio's test clock.
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// Microseconds of Unix time.
pub fn unix_micros() -> i64 {
    i64::try_from(since_epoch().as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds that this host was suspended since it was started. The monotonic clock does not count them, and the
/// clocks of other hosts went on meanwhile.
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

/// How often two clocks are read again between which this thread did not run.
const ATTEMPTS: usize = 3;

/// Two clocks that are read within so many microseconds are read at once.
const AT_ONCE_US: i64 = 20;

/// Sets the wall clock of this thread, which goes as the monotonic one from now on: a simulation has no
/// other, and lets it jump.
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
