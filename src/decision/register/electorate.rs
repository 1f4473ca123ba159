//! Eligibility of answers.

use std::fmt::Debug;
use std::hash::Hash;

use crate::decision::quorum::{MasterId, Quorum};

/// Decides which answers may be counted together.
///
/// A master that forgot and was admitted again is a different voter. Votes from before and after must never meet in one
/// verdict, nor in a verdict and the promises it is built on.
pub trait RegisterElectorate<V> {
    /// Evidence in an answer about the master that gave it.
    type Credential: Clone + Debug + Eq + Hash;

    /// Returns the lowest epoch in which this electorate votes.
    fn epoch(&self) -> u64 {
        0
    }

    /// Returns the quorum that a value names itself, if it does: it is then about its own voters.
    fn quorum(&self, _value: &V) -> Option<Quorum> {
        None
    }

    /// Whether the answer of `master` counts, when `highest` is the newest value seen in the same attempt.
    fn counts(&self, highest: &V, master: MasterId, credential: &Self::Credential) -> bool;
}
