//! The voters, and the proofs that their votes need, as long as neither changes.

use super::mark::Proof;
use super::seating::Seating;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// One version of the roster as links and operations use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Term {
    version: u64,
    voters: MasterSet,
    /// Proofs by master, then by database.
    proofs: Vec<Vec<Proof>>,
    /// Epochs of the clocks by master; empty if none has begun anew.
    clocks: Vec<u64>,
    /// Masters of the list that are no members.
    strangers: MasterSet,
    /// Quorum of the seats, if known.
    quorum: Option<Quorum>,
    seating: Seating,
}

impl Term {
    /// Creates the term of these voters. `proofs` has an entry for each master of the list, empty for those without a
    /// vote.
    pub fn new(version: u64, proofs: Vec<Vec<Proof>>) -> Self {
        let votes = |(_, proofs): &(usize, &Vec<Proof>)| !proofs.is_empty();
        let voters =
            proofs.iter().enumerate().filter(votes).map(|(at, _)| MasterId::new(at)).collect();
        Self { version, voters, proofs, ..Self::default() }
    }

    /// Returns the term for votes judged by these clocks: by master, the epoch in which the clock began.
    #[must_use]
    pub fn judged_by(self, clocks: &[u64]) -> Self {
        Self { clocks: clocks.to_vec(), ..self }
    }

    /// Returns the term in which these masters of the list are no members.
    #[must_use]
    pub fn beside(self, strangers: MasterSet) -> Self {
        Self { strangers, ..self }
    }

    /// Returns the term in which these masters of the list have the seats, and they last changed so.
    #[must_use]
    pub fn seated(self, seats: MasterSet, seating: Seating) -> Self {
        let quorum = (!seats.is_empty()).then(|| Quorum::among(seats));
        Self { quorum, seating, ..self }
    }

    /// Returns the quorum of what begins in this term; `None` if no master votes.
    pub fn quorum(&self) -> Option<Quorum> {
        self.quorum
    }

    /// Returns the last change of the number of seats.
    #[inline]
    pub fn seating(&self) -> &Seating {
        &self.seating
    }

    /// Returns the masters of the list that are no members. Another cluster may use them, so they are sent nothing.
    pub fn strangers(&self) -> MasterSet {
        self.strangers
    }

    /// Returns the epoch of the clock that votes of `master` must continue.
    ///
    /// A clock that was set is measured anew at once, because it must not be set again while the master is copied to.
    /// Requests from before do not count by the new measure, whenever they are answered.
    pub fn clock(&self, master: MasterId) -> u64 {
        self.clocks.get(master.index()).copied().unwrap_or_default()
    }

    /// Returns the version of the roster; 0 if no master votes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the masters that vote if they can be reached.
    pub fn voters(&self) -> MasterSet {
        self.voters
    }

    /// Returns the proof that `master` owes for what is sent to `database`; `None` if its answers are no votes.
    pub fn proof(&self, master: MasterId, database: u32) -> Option<&Proof> {
        self.proofs.get(master.index())?.get(database as usize)
    }

    /// Whether this process is the one that votes as `master`.
    pub fn is_process(&self, master: MasterId, run_id: &str) -> bool {
        self.proof(master, 0).is_some_and(|proof| proof.run_id() == run_id)
    }

    /// Returns the incarnation in which `master` votes.
    pub fn incarnation(&self, master: MasterId) -> Option<u64> {
        self.proof(master, 0).map(Proof::incarnation)
    }
}
