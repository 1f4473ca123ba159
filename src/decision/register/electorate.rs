//! Whose answers count.

use std::fmt::Debug;
use std::hash::Hash;

use crate::decision::quorum::MasterId;

/// Says which answers may be counted together.
///
/// A master that has forgotten, and was admitted again, is another voter than before. Votes that it gave before and
/// after must never meet in one verdict, nor in a verdict and the promises that it is built on.
pub trait Electorate<V> {
    /// What an answer shows about the master that gave it.
    type Credential: Clone + Debug + Eq + Hash;

    /// The epoch that it votes in at least.
    fn epoch(&self) -> u64 {
        0
    }

    /// Whether the answer of `master` counts, when `highest` is the newest value met in the same attempt.
    fn counts(&self, highest: &V, master: MasterId, credential: &Self::Credential) -> bool;
}

/// The electorate of ordinary keys: masters whose mark shows the roster version under which the operation was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneVersion(pub u64);

impl<V> Electorate<V> for OneVersion {
    type Credential = u64;

    fn counts(&self, _: &V, _: MasterId, version: &u64) -> bool {
        *version == self.0
    }
}
