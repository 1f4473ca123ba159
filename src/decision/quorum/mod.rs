//! Quorum decisions: whether an operation has won or lost.
//!
//! Nothing here depends on a socket, a runtime or a clock. Ballots and instants go in; verdicts and messages to send
//! come out. So the same code runs in the worker, in property tests and in an exhaustive model.
//!
//! * [`agreement`] counts equal answers;
//! * [`outlook`] says what the number of voters means for locks;
//! * [`ttl`] is the time to live that a quorum guarantees;
//! * [`walk`] finds everything that a quorum holds, page by page;
//! * [`turn`] keeps two claims of one worker from racing on the masters;
//! * [`pollers`]: claims of clients that poll for a held key wait for their turn.

pub mod agreement;
pub mod outlook;
pub mod pollers;
pub mod ttl;
pub mod turn;
pub mod walk;

use std::fmt;

/// Maximum number of masters of one proxy: each has one bit in a [`MasterSet`].
pub const MAX_MASTERS: usize = 31;

/// A master, by its index in the list that the proxy was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MasterId(u8);

impl MasterId {
    /// Returns the master at `index` in the list of masters.
    ///
    /// # Panics
    /// Panics if `index` is not below [`MAX_MASTERS`]. Settings reject longer lists.
    pub fn new(index: usize) -> Self {
        assert!(index < MAX_MASTERS, "more masters than a MasterSet can hold");
        Self(index as u8)
    }

    /// Returns the index in the list.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of masters.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct MasterSet(u32);

impl MasterSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns the first `n` masters of the list: all of them if the list has `n`.
    pub fn first(n: usize) -> Self {
        assert!(n <= MAX_MASTERS, "more masters than a MasterSet can hold");
        Self((1 << n) - 1)
    }

    /// Returns the set as a number with one bit for each master.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns the set with these [`MasterSet::bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the masters in both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Adds `master`.
    pub fn insert(&mut self, master: MasterId) {
        self.0 |= 1 << master.0;
    }

    /// Removes `master`.
    pub fn remove(&mut self, master: MasterId) {
        self.0 &= !(1 << master.0);
    }

    /// Whether `master` is in the set.
    pub fn contains(self, master: MasterId) -> bool {
        self.0 & (1 << master.0) != 0
    }

    /// Returns the number of masters in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the masters in either set.
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the masters of this set that are not in `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Iterates over the masters in the order of the list.
    pub fn iter(self) -> Masters {
        Masters(self.0)
    }
}

/// Iterator over the masters of a set.
#[derive(Clone, Debug)]
pub struct Masters(u32);

impl Iterator for Masters {
    type Item = MasterId;

    #[inline]
    fn next(&mut self) -> Option<MasterId> {
        let first = (self.0 != 0).then(|| MasterId(self.0.trailing_zeros() as u8))?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

impl FromIterator<MasterId> for MasterSet {
    fn from_iter<I: IntoIterator<Item = MasterId>>(masters: I) -> Self {
        masters.into_iter().fold(Self::EMPTY, |mut set, master| {
            set.insert(master);
            set
        })
    }
}

impl fmt::Debug for MasterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|master| master.0)).finish()
    }
}

/// Masters of which more than half must agree.
///
/// Vacant seats are included. They count like masters that are down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    everybody: MasterSet,
}

impl Quorum {
    /// Returns the majority of the first `masters` of a list: `N/2 + 1` (Redlock: "at least N/2+1").
    ///
    /// # Panics
    /// Panics if there is no master or more than [`MAX_MASTERS`]. Settings reject such lists.
    pub fn of(masters: usize) -> Self {
        Self::among(MasterSet::first(masters))
    }

    /// Returns the majority of these masters.
    ///
    /// # Panics
    /// Panics if there is none.
    pub fn among(everybody: MasterSet) -> Self {
        assert!(!everybody.is_empty(), "a quorum of nobody");
        Self { everybody }
    }

    /// Returns the number of masters.
    pub fn masters(self) -> usize {
        self.everybody.len()
    }

    /// Returns the number of masters that must agree.
    pub fn needed(self) -> usize {
        // Mutual exclusion depends on this: two quorums always share a master.
        self.masters() / 2 + 1
    }

    /// Returns the number of masters that may be lost while a quorum can still vote.
    pub fn tolerates(self) -> usize {
        self.masters() - self.needed()
    }

    /// Returns the number of voters that may be lost while a quorum still votes; `None` if too few vote already.
    pub fn spare(self, voters: MasterSet) -> Option<usize> {
        voters.len().checked_sub(self.needed())
    }

    /// Returns all masters.
    pub fn everybody(self) -> MasterSet {
        self.everybody
    }

    /// Whether `masters` are enough to decide.
    pub fn reached_by(self, masters: MasterSet) -> bool {
        masters.len() >= self.needed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_more_than_half() {
        let needed: Vec<_> = (1..=7).map(|n| Quorum::of(n).needed()).collect();
        assert_eq!(needed, [1, 2, 2, 3, 3, 4, 4]);
        let tolerated: Vec<_> = (1..=7).map(|n| Quorum::of(n).tolerates()).collect();
        assert_eq!(tolerated, [0, 0, 1, 1, 2, 2, 3]);
        let spare: Vec<_> = (1..=5).map(|n| Quorum::of(5).spare(MasterSet::first(n))).collect();
        assert_eq!(spare, [None, None, Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn any_two_quorums_share_a_master() {
        for n in 1..=9 {
            let quorum = Quorum::of(n);
            let sets: Vec<_> = (0u32..1 << n).map(MasterSet).collect();
            let quorums: Vec<_> = sets.into_iter().filter(|s| quorum.reached_by(*s)).collect();
            assert!(quorums.iter().all(|a| quorums.iter().all(|b| a.0 & b.0 != 0)));
        }
    }

    #[test]
    fn a_set_keeps_what_was_inserted() {
        let mut set = MasterSet::EMPTY;
        set.insert(MasterId::new(2));
        set.insert(MasterId::new(30));
        assert_eq!(set.iter().map(MasterId::index).collect::<Vec<_>>(), [2, 30]);
        set.remove(MasterId::new(2));
        assert_eq!(set.len(), 1);
        assert_eq!(MasterSet::first(3).without(MasterSet::first(1)).len(), 2);
    }

    #[test]
    fn sets_have_the_members_that_their_names_say() {
        let set =
            |indices: [usize; 2]| indices.map(MasterId::new).into_iter().collect::<MasterSet>();
        let (left, right) = (set([0, 2]), set([2, 3]));
        assert_eq!(left.and(right), set([2, 2]));
        assert_eq!(left.union(right).len(), 3);
        assert_eq!(MasterSet::from_bits(left.bits()), left);
        assert_eq!(left.bits(), 0b101);
    }
}
