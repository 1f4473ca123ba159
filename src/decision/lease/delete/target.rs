//! The value that a deletion is about, and what became of it on each master, over all rounds.

use super::Vote;
use crate::decision::lease::attempt::{Attempt, Tag};
use crate::decision::lease::holders::Holders;
use crate::decision::quorum::{MasterId, MasterSet};

/// A value as one master stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A lease with its tag.
    Tagged(Tag),
    /// A value without a tag, by a number that the caller gives to its bytes: equal bytes, equal numbers.
    Untagged(u32),
}

impl Value {
    pub(super) fn name(self) -> Name {
        match self {
            Self::Tagged(tag) => Name::Attempt(tag.attempt),
            Self::Untagged(number) => Name::Untagged(number),
        }
    }
}

/// Identity of a lease on all masters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Attempt(Attempt),
    Untagged(u32),
}

/// The value that deletes were sent for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) name: Option<Name>,
    /// Masters that were told to delete it.
    told: MasterSet,
    /// Masters where this deletion ended it.
    pub(super) deleted: MasterSet,
    /// Masters that had it, and where others ended it.
    pub(super) gone: MasterSet,
    /// Masters that showed it and were told, with an outcome that is not known.
    pub(super) open: MasterSet,
    /// Masters of the first round of a known lease, told before they showed it, with an outcome that is not known.
    unsure: MasterSet,
}

impl Target {
    /// A lease that its own worker deletes, on links that its claim went over.
    pub(super) fn known(name: Name) -> Self {
        Self { name: Some(name), ..Self::default() }
    }

    /// The first round of a known lease is over. Links are FIFO: no claim can put it anywhere any more.
    pub(super) fn tried(&mut self, everybody: MasterSet, missing: MasterSet, raised: MasterSet) {
        self.told = everybody;
        self.gone = self.gone.union(missing);
        self.unsure = everybody.without(self.settled()).without(raised);
    }

    /// These masters showed it and are told. What is known of another value is forgotten.
    pub(super) fn tell(&mut self, name: Name, masters: MasterSet) {
        if self.name != Some(name) {
            *self = Self::known(name);
        }
        self.told = self.told.union(masters);
        self.open = self.open.union(masters);
    }

    /// Whether an answer to a delete may still come from an earlier round.
    pub(super) fn awaits(&self, master: MasterId) -> bool {
        self.open.union(self.unsure).contains(master)
    }

    /// One master has answered a delete.
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

    /// One master does not show it. Returns whether it had it, and so never will again.
    pub(super) fn note_absence(&mut self, master: MasterId) -> bool {
        let was_told = self.told.contains(master);
        if was_told && !self.deleted.contains(master) {
            self.gone.insert(master);
        }
        was_told
    }

    /// Masters where it was and is not any more.
    pub(super) fn settled(&self) -> MasterSet {
        self.deleted.union(self.gone)
    }

    /// Masters by what they would hold if this deletion had not been there.
    pub(super) fn before(&self, holders: &Holders<Name>) -> Holders<Name> {
        let mut holders = holders.clone();
        if let Some(name) = self.name {
            let ended = self.deleted.union(self.open);
            ended.iter().for_each(|master| holders.insert(name, master));
        }
        holders
    }

    /// Masters that may have held the lease when a delete was sent whose outcome is not known; empty without one.
    pub(super) fn in_doubt(&self, holders: &Holders<Name>) -> MasterSet {
        let held = self.name.map_or(MasterSet::EMPTY, |name| holders.of(name));
        let is_known = self.unsure.is_empty();
        if is_known { self.unsure } else { held.union(self.deleted).union(self.unsure) }
    }
}
