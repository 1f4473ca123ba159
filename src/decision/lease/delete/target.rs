//! The lease that a deletion targets, and its fate on each master over all rounds.

use super::Vote;
use crate::decision::lease::attempt::Attempt;
use crate::decision::lease::holders::Holders;
use crate::decision::quorum::{MasterId, MasterSet};

/// The lease that deletes were sent for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) attempt: Option<Attempt>,
    /// Masters that were asked to delete it.
    told: MasterSet,
    /// Masters where this deletion ended it.
    pub(super) deleted: MasterSet,
    /// Masters that had it and where others ended it.
    pub(super) gone: MasterSet,
    /// Masters that showed it and were asked to delete it, with an unknown outcome.
    pub(super) open: MasterSet,
    /// Masters of the first round of a known lease, asked to delete it before they showed it, with an unknown outcome.
    unsure: MasterSet,
    /// Whether a master that went out of the cluster may have deleted it.
    is_lost: bool,
}

impl Target {
    /// Creates the target for a lease that its own worker deletes, over links that carried its claim.
    pub(super) fn known(attempt: Attempt) -> Self {
        Self { attempt: Some(attempt), ..Self::default() }
    }

    /// Ends the first round of a known lease. Links are FIFO: no claim of this lease can arrive anywhere any more.
    pub(super) fn tried(&mut self, everybody: MasterSet, missing: MasterSet, raised: MasterSet) {
        self.told = everybody;
        self.gone = self.gone.union(missing);
        self.unsure = everybody.without(self.settled()).without(raised);
    }

    /// Records that these masters showed `attempt` and are asked to delete it. Knowledge about another lease is dropped.
    pub(super) fn tell(&mut self, attempt: Attempt, masters: MasterSet) {
        if self.attempt != Some(attempt) {
            *self = Self::known(attempt);
        }
        self.told = self.told.union(masters);
        self.open = self.open.union(masters);
    }

    /// Whether `master` may still answer a delete of an earlier round.
    pub(super) fn awaits(&self, master: MasterId) -> bool {
        self.open.union(self.unsure).contains(master)
    }

    /// Records one master's answer to a delete.
    pub(super) fn note(&mut self, master: MasterId, vote: Vote) {
        if vote == Vote::Unknown {
            return;
        }
        self.open.remove(master);
        self.unsure.remove(master);
        match vote {
            Vote::Deleted => self.deleted.insert(master),
            Vote::Missing | Vote::Other | Vote::Another => self.gone.insert(master),
            Vote::Raised | Vote::Unknown => {}
        }
    }

    /// Records that one master does not show it. Returns whether the master was asked to delete it, and so will never
    /// hold it again.
    pub(super) fn note_absence(&mut self, master: MasterId) -> bool {
        let was_told = self.told.contains(master);
        if was_told && !self.deleted.contains(master) {
            self.gone.insert(master);
        }
        was_told
    }

    /// Forgets what these masters have answered. Their places may hold it again, once they are copied to.
    pub(super) fn forget(&mut self, masters: MasterSet) {
        let lost = self.open.union(self.unsure).and(masters);
        self.is_lost |= !lost.is_empty();
        let sets =
            [&mut self.told, &mut self.deleted, &mut self.gone, &mut self.open, &mut self.unsure];
        for set in sets {
            *set = set.without(masters);
        }
    }

    /// Whether a master that showed it may have deleted it, with an unknown outcome.
    pub(super) fn may_be_hit(&self) -> bool {
        self.is_lost || !self.open.is_empty()
    }

    /// Returns the masters that had it and no longer do.
    pub(super) fn settled(&self) -> MasterSet {
        self.deleted.union(self.gone)
    }

    /// Returns the holders as they would be without this deletion.
    pub(super) fn before(&self, holders: &Holders<Attempt>) -> Holders<Attempt> {
        let mut holders = holders.clone();
        if let Some(attempt) = self.attempt {
            let ended = self.deleted.union(self.open);
            ended.iter().for_each(|master| holders.insert(attempt, master));
        }
        holders
    }

    /// Returns the masters that may have held the lease when a delete with an unknown outcome was sent; empty if every
    /// outcome is known.
    pub(super) fn in_doubt(&self, holders: &Holders<Attempt>) -> MasterSet {
        let held = self.attempt.map_or(MasterSet::EMPTY, |attempt| holders.of(attempt));
        let is_known = self.unsure.is_empty();
        if is_known { self.unsure } else { held.union(self.deleted).union(self.unsure) }
    }
}
