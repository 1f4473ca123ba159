//! Masters grouped by the attempt they hold, as far as answers show.
//!
//! Two attempts with the same token are two leases. A quorum made up of both would last only until one of them is taken
//! back, so only a quorum of a single attempt counts.

use super::attempt::Attempt;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// Masters grouped by the attempt they hold, or by another identity `A` of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holders<A = Attempt> {
    first: Option<(A, MasterSet)>,
    /// There is rarely more than one attempt: the others take little room while there are none.
    others: Option<Box<Self>>,
}

impl<A> Default for Holders<A> {
    fn default() -> Self {
        Self { first: None, others: None }
    }
}

impl<A: Copy + PartialEq> Holders<A> {
    /// Records that `master` holds `attempt`.
    pub fn insert(&mut self, attempt: A, master: MasterId) {
        let new = || (attempt, MasterSet::EMPTY);
        let (known, masters) = self.first.get_or_insert_with(new);
        if *known == attempt {
            masters.insert(master);
        } else {
            self.others.get_or_insert_default().insert(attempt, master);
        }
    }

    /// Forgets what these masters hold.
    pub fn forget(&mut self, masters: MasterSet) {
        if let Some((_, known)) = &mut self.first {
            *known = known.without(masters);
        }
        if let Some(others) = &mut self.others {
            others.forget(masters);
        }
    }

    /// Returns the attempt that a quorum holds. There is one at most.
    pub fn of_quorum(&self, quorum: Quorum) -> Option<A> {
        self.that_could_reach(quorum, MasterSet::EMPTY).next()
    }

    /// Returns the attempt with the most holders that would have a quorum if all of `silent` held it too.
    pub fn could_reach(&self, quorum: Quorum, silent: MasterSet) -> Option<A> {
        let candidates = self.that_could_reach(quorum, silent);
        candidates.max_by_key(|attempt| self.of(*attempt).len())
    }

    /// Returns every attempt that would have a quorum if all of `silent` held it too.
    pub fn that_could_reach(&self, quorum: Quorum, silent: MasterSet) -> impl Iterator<Item = A> {
        let enough = move |masters: MasterSet| quorum.reached_by(masters.union(silent));
        self.iter().filter(move |(_, masters)| enough(*masters)).map(|(attempt, _)| attempt)
    }

    /// Returns the masters that hold `attempt`.
    pub fn of(&self, attempt: A) -> MasterSet {
        let known = self.iter().find(|(known, _)| *known == attempt);
        known.map_or(MasterSet::EMPTY, |(_, masters)| masters)
    }

    /// Returns the masters that hold any attempt.
    pub fn all(&self) -> MasterSet {
        self.iter().fold(MasterSet::EMPTY, |all, (_, masters)| all.union(masters))
    }

    fn iter(&self) -> impl Iterator<Item = (A, MasterSet)> {
        let chain = std::iter::successors(Some(self), |holders| holders.others.as_deref());
        chain.filter_map(|holders| holders.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::WorkerId;

    fn holders(held: &[u64]) -> Holders {
        let mut holders = Holders::default();
        for (index, counter) in held.iter().enumerate() {
            holders.insert(attempt(*counter), MasterId::new(index));
        }
        holders
    }

    fn attempt(counter: u64) -> Attempt {
        Attempt::new(WorkerId::new(1), counter)
    }

    #[test]
    fn two_attempts_make_no_quorum_together() {
        assert_eq!(holders(&[7, 8]).of_quorum(Quorum::of(3)), None);
        assert_eq!(holders(&[7, 8, 7]).of_quorum(Quorum::of(3)), Some(attempt(7)));
        assert_eq!(holders(&[7, 7, 8, 8]).of_quorum(Quorum::of(4)), None);
    }

    #[test]
    fn the_silent_could_complete_a_quorum() {
        let (quorum, silent) = (Quorum::of(5), MasterSet::from_iter([MasterId::new(4)]));
        assert!(holders(&[7, 8, 7, 8]).could_reach(quorum, silent).is_some());
        assert_eq!(holders(&[7, 8, 9]).could_reach(quorum, silent), None);
        assert_eq!(holders(&[]).could_reach(quorum, quorum.everybody()), None);
        let both = holders(&[7, 8, 7, 8]);
        assert!(both.that_could_reach(quorum, silent).eq([attempt(7), attempt(8)]));
    }

    #[test]
    fn masters_are_told_apart_by_what_they_hold() {
        let holders = holders(&[7, 8, 7]);
        assert_eq!(holders.of(attempt(7)).len(), 2);
        assert_eq!(holders.of(attempt(9)), MasterSet::EMPTY);
        assert_eq!(holders.all().len(), 3);
    }
}
