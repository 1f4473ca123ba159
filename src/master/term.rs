//! Who votes, and what their votes have to prove, as long as neither changes.

use crate::decision::roster::mark::Proof;
use crate::quorum::{MasterId, MasterSet};

/// One version of the roster as links and operations use it. An operation is sent under one, and counts no other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Term {
    version: u64,
    voters: MasterSet,
    /// By master, then by database.
    proofs: Vec<Vec<Proof>>,
}

impl Term {
    /// The term of these voters; `proofs` has an entry for each master of the list, empty for those without a vote.
    pub fn new(version: u64, proofs: Vec<Vec<Proof>>) -> Self {
        let votes = |(_, proofs): &(usize, &Vec<Proof>)| !proofs.is_empty();
        let voters =
            proofs.iter().enumerate().filter(votes).map(|(at, _)| MasterId::new(at)).collect();
        Self { version, voters, proofs }
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
}
