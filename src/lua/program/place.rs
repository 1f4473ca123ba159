//! Whether masters keep a program: see [`residents`](crate::lua::residents).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Record of a program that can be read without locking the residents.
#[derive(Debug)]
pub(in crate::lua) enum Place {
    /// Script of the proxy. Masters always keep it.
    Ours,
    /// Script of a client. Masters may keep it.
    Client {
        /// Whether it has been run.
        has_run: AtomicBool,
        /// Last generation in which it had a place.
        generation: AtomicU64,
    },
}

impl Place {
    /// Returns whether masters keep it in this generation.
    pub(in crate::lua) fn is_kept_in(&self, now: u64) -> bool {
        match self {
            Self::Ours => true,
            Self::Client { generation, .. } => generation.load(Ordering::Relaxed) == now,
        }
    }

    /// Notes that masters keep it from now on.
    pub(in crate::lua) fn keep_in(&self, now: u64) {
        if let Self::Client { generation, .. } = self {
            generation.store(now, Ordering::Relaxed);
        }
    }

    /// Notes that masters are asked to run it.
    pub(super) fn runs(&self) {
        if let Self::Client { has_run, .. } = self {
            has_run.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether masters were ever asked to run it.
    pub(in crate::lua) fn has_run(&self) -> bool {
        match self {
            Self::Ours => true,
            Self::Client { has_run, .. } => has_run.load(Ordering::Relaxed),
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::Client { has_run: AtomicBool::new(false), generation: AtomicU64::new(0) }
    }
}
