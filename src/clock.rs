//! The one clock. Elapsed time and deadlines are monotonic; the wall clock only converts the
//! absolute expiries that clients send (`EXAT`, `PXAT`, `EXPIREAT`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// The monotonic time. Paused and advanced by tests through tokio's test clock.
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// Milliseconds of Unix time, as Redis counts absolute expiries.
#[allow(clippy::disallowed_methods, reason = "this is the seam")]
pub fn unix_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// Microseconds of Unix time, for `TIME`.
#[allow(clippy::disallowed_methods, reason = "this is the seam")]
pub fn unix_micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros()
}
