//! Who votes, and what their votes have to prove, as long as neither changes.

use super::mark::Proof;
use crate::decision::quorum::{MasterId, MasterSet};

/// One version of the roster as links and operations use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Term {
    version: u64,
    voters: MasterSet,
    /// By master, then by database.
    proofs: Vec<Vec<Proof>>,
    /// By master; empty: none was begun anew.
    clocks: Vec<u64>,
}

impl Term {
    /// The term of these voters; `proofs` has an entry for each master of the list, empty for those without a vote.
    pub fn new(version: u64, proofs: Vec<Vec<Proof>>) -> Self {
        let votes = |(_, proofs): &(usize, &Vec<Proof>)| !proofs.is_empty();
        let voters =
            proofs.iter().enumerate().filter(votes).map(|(at, _)| MasterId::new(at)).collect();
        Self { version, voters, proofs, clocks: Vec::new() }
    }

    /// The same term for votes that are judged by these clocks: by master, the epoch in which it was begun.
    #[must_use]
    pub fn judged_by(self, clocks: &[u64]) -> Self {
        Self { clocks: clocks.to_vec(), ..self }
    }

    /// The epoch in which the clock was begun that votes of `master` have to continue.
    ///
    /// A clock that was set is measured anew at once, because it must not be set again while the master is copied to.
    /// What was asked for before does not count by the new measure, whenever it is answered.
    pub fn clock(&self, master: MasterId) -> u64 {
        self.clocks.get(master.index()).copied().unwrap_or_default()
    }

    /// The version of the roster; 0: nobody votes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The masters that vote, if they can be reached.
    pub fn voters(&self) -> MasterSet {
        self.voters
    }

    /// The proof that `master` owes for what is sent to `database`; `None`: its answers are no votes.
    pub fn proof(&self, master: MasterId, database: u32) -> Option<&Proof> {
        self.proofs.get(master.index())?.get(database as usize)
    }

    /// Whether this process is the one that votes as `master`.
    pub fn is_process(&self, master: MasterId, run_id: &str) -> bool {
        self.proof(master, 0).is_some_and(|proof| proof.run_id() == run_id)
    }

    /// The incarnation in which `master` votes.
    pub fn incarnation(&self, master: MasterId) -> Option<u64> {
        self.proof(master, 0).map(Proof::incarnation)
    }
}
