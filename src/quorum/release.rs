//! Giving a key back: guarded by the token, or not at all (`DEL`).
//!
//! Unlike every other change a release may be a success without a quorum: when some masters are
//! unknown and one deleted the key, the holder is gone for certain, and what the others keep is
//! taken away later.

use super::{MasterId, MasterSet, Quorum};

/// One master's answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key held the token and is gone.
    Deleted,
    /// There was no such key.
    Missing,
    /// The key holds somebody else's token.
    Other,
    /// No trustworthy answer.
    Unknown,
}

/// What the masters as a whole have said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The lock was held and is gone.
    Deleted,
    /// There was no lock.
    Missing,
    /// Somebody else holds it.
    Other,
    /// Too few masters answered, and none of them deleted anything.
    Undecided {
        /// How many answered.
        answered: usize,
    },
}

/// The ballots of one release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    quorum: Quorum,
    pending: MasterSet,
    deleted: MasterSet,
    missing: MasterSet,
    other: MasterSet,
}

impl Release {
    /// A release that has just been sent to `asked`.
    pub fn new(quorum: Quorum, asked: MasterSet) -> Self {
        let none = MasterSet::EMPTY;
        Self { quorum, pending: asked, deleted: none, missing: none, other: none }
    }

    /// One master has answered.
    pub fn vote(&mut self, master: MasterId, vote: Vote) -> Option<Verdict> {
        if self.pending.contains(master) {
            self.pending.remove(master);
            match vote {
                Vote::Deleted => self.deleted.insert(master),
                Vote::Missing => self.missing.insert(master),
                Vote::Other => self.other.insert(master),
                Vote::Unknown => {}
            }
        }
        self.verdict()
    }

    /// The deadline has come.
    pub fn close(&mut self) -> Verdict {
        self.pending = MasterSet::EMPTY;
        self.verdict().unwrap_or(Verdict::Undecided { answered: self.answered() })
    }

    /// Masters known not to hold the key because of this release any more; all others may.
    pub fn settled(&self) -> MasterSet {
        self.deleted.union(self.missing).union(self.other)
    }

    fn verdict(&self) -> Option<Verdict> {
        if self.quorum.reached_by(self.deleted) {
            Some(Verdict::Deleted)
        } else if self.quorum.reached_by(self.missing.union(self.other)) {
            Some(self.not_held())
        } else if !self.pending.is_empty() {
            None
        } else if self.deleted.is_empty() {
            Some(Verdict::Undecided { answered: self.answered() })
        } else {
            Some(Verdict::Deleted)
        }
    }

    fn not_held(&self) -> Verdict {
        if self.missing.len() > self.other.len() { Verdict::Missing } else { Verdict::Other }
    }

    fn answered(&self) -> usize {
        self.settled().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(n: usize, votes: &[Vote]) -> Verdict {
        let quorum = Quorum::of(n);
        let mut release = Release::new(quorum, quorum.everybody());
        for (index, vote) in votes.iter().enumerate() {
            release.vote(MasterId::new(index), *vote);
        }
        release.close()
    }

    #[test]
    fn the_reply_is_the_one_a_quorum_gave() {
        use Vote::{Deleted, Missing, Other};
        assert_eq!(verdict(3, &[Deleted, Missing, Deleted]), Verdict::Deleted);
        assert_eq!(verdict(3, &[Deleted, Missing, Missing]), Verdict::Missing);
        assert_eq!(verdict(3, &[Deleted, Other, Other]), Verdict::Other);
        assert_eq!(verdict(5, &[Missing, Other, Missing, Deleted, Deleted]), Verdict::Missing);
        assert_eq!(verdict(3, &[Missing, Other, Deleted]), Verdict::Other, "somebody holds it");
    }

    #[test]
    fn one_deletion_is_enough_when_the_others_are_unknown() {
        use Vote::{Deleted, Missing, Unknown};
        assert_eq!(verdict(3, &[Deleted, Unknown, Unknown]), Verdict::Deleted);
        let undecided = Verdict::Undecided { answered: 1 };
        assert_eq!(verdict(3, &[Missing, Unknown, Unknown]), undecided);
        assert_eq!(verdict(3, &[Unknown; 3]), Verdict::Undecided { answered: 0 });
    }

    #[test]
    fn the_verdict_does_not_wait_for_the_last_master() {
        let quorum = Quorum::of(3);
        let mut release = Release::new(quorum, quorum.everybody());
        assert_eq!(release.vote(MasterId::new(0), Vote::Deleted), None);
        assert_eq!(release.vote(MasterId::new(1), Vote::Deleted), Some(Verdict::Deleted));
        assert_eq!(quorum.everybody().without(release.settled()).len(), 1);
    }
}
