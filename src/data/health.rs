//! Health of the data Redis, as the operator sees it.
//!
//! Work that can do without the data Redis does so while it is down. A caller in doubt opens a connection and asks
//! there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::time::clock::{self, Instant};

/// Result of the last probe, with a fast path for requests.
#[derive(Debug, Default)]
pub struct Health {
    seen: Mutex<SeenHealth>,
    /// Whether `seen` reports trouble: cheap enough to read for every request.
    is_in_trouble: AtomicBool,
}

/// Result of the last probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenHealth {
    /// Start of the current state; `None`: not probed yet.
    pub since: Option<Instant>,
    /// Reason why it cannot be used; `None`: it can.
    pub trouble: Option<String>,
}

impl Health {
    /// Returns the result of the last probe.
    pub fn seen(&self) -> SeenHealth {
        self.lock().clone()
    }

    /// Whether the last probe found a problem.
    #[inline]
    pub fn is_in_trouble(&self) -> bool {
        self.is_in_trouble.load(Ordering::Relaxed)
    }

    /// Records a probe result. Returns whether it is news.
    pub fn see(&self, trouble: Option<String>) -> bool {
        self.is_in_trouble.store(trouble.is_some(), Ordering::Relaxed);
        let seen = &mut *self.lock();
        let is_news = seen.since.is_none() || seen.trouble != trouble;
        if is_news {
            *seen = SeenHealth { since: Some(clock::now()), trouble };
        }
        is_news
    }

    fn lock(&self) -> MutexGuard<'_, SeenHealth> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SeenHealth {
    /// Returns `up` or `down`, or `unknown` before the first probe.
    pub fn word(&self) -> &'static str {
        match (&self.since, &self.trouble) {
            (None, _) => "unknown",
            (Some(_), None) => "up",
            (Some(_), Some(_)) => "down",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_news() {
        let health = Health::default();
        let why = || Some("it is away".to_owned());
        assert_eq!(health.seen().word(), "unknown");
        assert_eq!((health.see(why()), health.see(why())), (true, false));
        assert_eq!((health.seen().word(), health.is_in_trouble()), ("down", true));
        assert!(health.see(None) && !health.see(None) && !health.is_in_trouble());
        assert_eq!(health.seen().word(), "up");
    }
}
