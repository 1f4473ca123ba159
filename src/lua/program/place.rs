//! Whether masters keep a program: see [`residents`](crate::lua::residents).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of a program without asking those that have a place.
#[derive(Debug)]
pub(in crate::lua) enum Place {
    /// Masters always keep it.
    Ours,
    /// They may.
    Client {
        /// It has been run.
        has_run: AtomicBool,
        /// The last generation in which it had a place.
        generation: AtomicU64,
    },
}

impl Place {
    /// Whether masters keep it in this generation.
    pub(in crate::lua) fn is_kept_in(&self, now: u64) -> bool {
        match self {
            Self::Ours => true,
            Self::Client { generation, .. } => generation.load(Ordering::Relaxed) == now,
        }
    }

    /// From now on they keep it.
    pub(in crate::lua) fn keep_in(&self, now: u64) {
        if let Self::Client { generation, .. } = self {
            generation.store(now, Ordering::Relaxed);
        }
    }

    /// Masters are asked to run it.
    pub(super) fn runs(&self) {
        if let Self::Client { has_run, .. } = self {
            has_run.store(true, Ordering::Relaxed);
        }
    }

    /// Whether they ever were.
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
