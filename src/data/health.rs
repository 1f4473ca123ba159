//! Whether the data Redis can be used, for whoever runs the proxy. What can do without it does so while it cannot be
//! used, and who is in doubt makes a connection and asks there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::time::clock::{self, Instant};

/// See the module.
#[derive(Debug, Default)]
pub struct Health {
    seen: Mutex<Seen>,
    /// What it says in short, for every request.
    is_in_trouble: AtomicBool,
}

/// What was seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Since when that has been so; `None`: nobody has looked yet.
    pub since: Option<Instant>,
    /// Why it cannot be used; `None`: it can.
    pub trouble: Option<String>,
}

impl Health {
    /// What was seen last.
    pub fn seen(&self) -> Seen {
        self.lock().clone()
    }

    /// Whether something was wrong with it when it was looked at last.
    #[inline]
    pub fn is_in_trouble(&self) -> bool {
        self.is_in_trouble.load(Ordering::Relaxed)
    }

    /// What is seen now; whether that is news.
    pub fn see(&self, trouble: Option<String>) -> bool {
        self.is_in_trouble.store(trouble.is_some(), Ordering::Relaxed);
        let seen = &mut *self.lock();
        let is_news = seen.since.is_none() || seen.trouble != trouble;
        if is_news {
            *seen = Seen { since: Some(clock::now()), trouble };
        }
        is_news
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// `up`, `down`, or `unknown` as long as nobody has looked.
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
