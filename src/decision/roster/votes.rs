//! Counting answers that are proven.

use super::mark::Proven;
use crate::quorum::{MasterSet, Quorum};

/// The masters that said yes, all of them under one roster version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Votes {
    quorum: Quorum,
    version: u64,
    yes: MasterSet,
}

impl Votes {
    /// No vote yet, for an operation that is sent under `version`.
    pub fn new(quorum: Quorum, version: u64) -> Self {
        Self { quorum, version, yes: MasterSet::EMPTY }
    }

    /// Counts a vote. One of another version changes nothing.
    pub fn count(&mut self, vote: Proven<bool>) {
        let (master, version) = (vote.master(), vote.version());
        if version == self.version && vote.into_answer() {
            self.yes.insert(master);
        }
    }

    /// Whether a quorum said yes.
    pub fn is_granted(&self) -> bool {
        self.quorum.reached_by(self.yes)
    }
}
