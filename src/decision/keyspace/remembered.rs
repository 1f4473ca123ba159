//! The last programs that led to the content of a key, from which workers learn the fate of theirs.
//!
//! A worker sends its next program on a key only once it knows the fate of the previous one. So the last program of
//! each worker is enough, however many programs of others follow, and is kept for a long time ([`Keep`]). Workers that
//! settle a group of keys also ask about the programs of all workers. For them the very last programs are kept
//! unchanged.
//!
//! A dropped program may have run, and must not be denied. It raises one of two ballots:
//!
//! * the last program of its worker raises [`Remembered::dropped`]: up to there, it is unknown what ran;
//! * a program followed by another of its worker raises [`Remembered::thinned`]: up to there, it is unknown what ran,
//!   for workers with a later remembered program. For all other workers, only the remembered programs ran. A worker
//!   whose program came to nothing needs that answer.

use std::collections::BTreeSet;

use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// Last programs, with their replies, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Remembered<R> {
    entries: Vec<(Ballot, R)>,
    dropped: Ballot,
    thinned: Ballot,
    /// Last program that changed the key, if that is not the last program; [`Ballot::NONE`] if none has.
    changed: Option<Ballot>,
}

/// Limits on the remembered programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keep {
    /// Number of last programs, at least one, from any worker.
    pub last: usize,
    /// Number of workers whose last program is kept beyond those.
    pub workers: usize,
    /// Maximum age of a worker's last program relative to the current one, in microseconds. The process of an older one
    /// has ended.
    pub age_us: u64,
}

impl<R> Default for Remembered<R> {
    fn default() -> Self {
        let (entries, dropped, thinned) = (Vec::new(), Ballot::NONE, Ballot::NONE);
        Self { entries, dropped, thinned, changed: None }
    }
}

impl<R> Remembered<R> {
    /// Creates a list of these programs, oldest first, and of the limits of what is known about others.
    pub fn of(entries: Vec<(Ballot, R)>, dropped: Ballot, thinned: Ballot) -> Self {
        Self { entries, dropped, thinned, changed: None }
    }

    /// Returns the list of a key that the last program has only read.
    pub fn changed_by(self, changed: Option<Ballot>) -> Self {
        Self { changed, ..self }
    }

    /// Returns the programs, oldest first.
    pub fn entries(&self) -> &[(Ballot, R)] {
        &self.entries
    }

    /// Returns the highest ballot that was dropped although its worker has sent no other since.
    pub fn dropped(&self) -> Ballot {
        self.dropped
    }

    /// Returns the highest ballot that was dropped because its worker has sent another since.
    pub fn thinned(&self) -> Ballot {
        self.thinned
    }

    /// Returns the ballot of the last program.
    pub fn last(&self) -> Option<Ballot> {
        self.entries.last().map(|(ballot, _)| *ballot)
    }

    /// Whether the last program ran on what `other` led to: `other` ends with the program before it, and none between
    /// them was dropped.
    pub fn follows(&self, other: &Self) -> bool {
        let forgotten = self.dropped.max(self.thinned);
        match &self.entries[..] {
            [.., (before, _), _] => *before > forgotten && other.last() == Some(*before),
            [_] => {
                forgotten.max(other.dropped).max(other.thinned) == Ballot::NONE
                    && other.entries.is_empty()
            }
            [] => false,
        }
    }

    /// Returns the ballot of the last program that changed the key, if there is one. A program on several keys may have
    /// only read this one.
    pub fn last_change(&self) -> Option<Ballot> {
        self.changed.or_else(|| self.last()).filter(|changed| *changed != Ballot::NONE)
    }

    /// Returns the last change if it is not the last program.
    pub fn earlier_change(&self) -> Option<Ballot> {
        self.changed
    }

    /// Whether the fates of all programs newer than this ballot are known, except those that their workers know.
    pub fn reaches(&self, ballot: Ballot) -> bool {
        self.dropped <= ballot
    }

    fn has_later(&self, ballot: Ballot) -> bool {
        self.entries.iter().any(|(later, _)| *later > ballot && later.worker == ballot.worker)
    }
}

impl<R: Clone> Remembered<R> {
    /// Returns the fate of the program that ran under `ballot`.
    pub fn fate(&self, ballot: Ballot) -> Fate<R> {
        let ran = self.entries.iter().find(|(ran, _)| *ran == ballot);
        match ran {
            Some((_, reply)) => Fate::Ran(reply.clone()),
            None if ballot <= self.dropped => Fate::NotKnown,
            None if ballot <= self.thinned && self.has_later(ballot) => Fate::NotKnown,
            None => Fate::DidNotRun,
        }
    }

    /// Returns the list with the fates of other programs up to `ballot` unknown.
    pub fn without_those_before(&self, ballot: Ballot) -> Self {
        Self { dropped: self.dropped.max(ballot), ..self.clone() }
    }

    /// Returns the list with the fate of the last program unknown, and also the fates of earlier programs that are not
    /// in it.
    pub fn without_the_last(&self) -> Self {
        let Some(((last, _), before)) = self.entries.split_last() else { return self.clone() };
        let changed = self.last_change().filter(|_| !before.is_empty());
        let dropped = self.dropped.max(*last);
        Self { entries: before.to_vec(), dropped, changed, ..self.clone() }
    }

    /// Returns the list after one more program, which `changes` the key or has only read it.
    pub fn with(&self, ballot: Ballot, reply: R, changes: bool, keep: Keep) -> Self {
        let changed = (!changes).then(|| self.last_change().unwrap_or(Ballot::NONE));
        let mut after = Self { entries: vec![(ballot, reply)], changed, ..self.clone() };
        let mut later = BTreeSet::from([ballot.worker]);
        for (ran, reply) in self.entries.iter().rev() {
            let is_thinned = !later.insert(ran.worker);
            let is_old = ran.counter.saturating_add(keep.age_us) < ballot.counter;
            let is_full = after.entries.len() >= keep.last + keep.workers;
            if after.entries.len() < keep.last || !(is_thinned || is_old || is_full) {
                after.entries.push((*ran, reply.clone()));
            } else if is_thinned {
                after.thinned = after.thinned.max(*ran);
            } else {
                after.dropped = after.dropped.max(*ran);
            }
        }
        after.entries.reverse();
        after
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEEP: Keep = Keep { last: 2, workers: 2, age_us: 1000 };

    fn ballot(counter: u64, worker: u64) -> Ballot {
        Ballot { epoch: 0, counter, worker }
    }

    /// Returns the list after programs of these workers, one tick apart.
    fn after(workers: &[u64]) -> Remembered<()> {
        let ran = (1..).zip(workers).map(|(counter, worker)| ballot(counter, *worker));
        ran.fold(Remembered::default(), |remembered, ran| remembered.with(ran, (), true, KEEP))
    }

    fn fates(remembered: &Remembered<()>, of: &[(u64, u64)]) -> Vec<Fate<()>> {
        of.iter().map(|(counter, worker)| remembered.fate(ballot(*counter, *worker))).collect()
    }

    #[test]
    fn the_last_program_of_a_worker_is_remembered_however_many_of_others_follow() {
        let remembered = after(&[7, 1, 2, 1, 2, 1, 2, 1, 1, 1]);
        let known = [(1, 7), (7, 2), (9, 1), (10, 1)];
        assert_eq!(fates(&remembered, &known), [Fate::Ran(()); 4]);
        assert_eq!(remembered.dropped(), Ballot::NONE);
    }

    #[test]
    fn a_program_that_came_to_nothing_is_denied_however_many_of_others_follow() {
        let remembered = after(&[1, 1, 2, 1, 2, 1, 2, 2, 1]);
        assert_eq!(remembered.fate(ballot(2, 7)), Fate::DidNotRun);
    }

    #[test]
    fn what_its_worker_has_followed_up_is_not_denied() {
        let remembered = after(&[1, 1, 2, 1, 2]);
        assert_eq!(remembered.fate(ballot(1, 1)), Fate::NotKnown);
        assert_eq!(remembered.thinned(), ballot(3, 2));
        assert_eq!(remembered.fate(ballot(4, 2)), Fate::DidNotRun, "nothing so late is missing");
    }

    #[test]
    fn a_worker_too_many_takes_the_place_of_the_one_that_is_away_longest() {
        let remembered = after(&[1, 2, 3, 4, 5]);
        assert_eq!(remembered.dropped(), ballot(1, 1));
        assert_eq!(fates(&remembered, &[(1, 1), (1, 0)]), [Fate::NotKnown; 2]);
        assert_eq!(fates(&remembered, &[(2, 2), (5, 5)]), [Fate::Ran(()); 2]);
        assert_eq!(remembered.fate(ballot(2, 9)), Fate::DidNotRun);
    }

    #[test]
    fn a_worker_that_has_been_away_for_long_is_forgotten() {
        let remembered = after(&[1, 2, 2]).with(ballot(1001, 2), (), true, KEEP);
        assert_eq!(remembered.fate(ballot(1, 1)), Fate::Ran(()));
        let remembered = remembered.with(ballot(1002, 2), (), true, KEEP);
        assert_eq!((remembered.dropped(), remembered.entries().len()), (ballot(1, 1), 2));
    }

    #[test]
    fn the_last_change_is_known_however_many_have_only_read_the_key_since() {
        let read = |it: &Remembered<()>, counter| it.with(ballot(counter, 1), (), false, KEEP);
        let never_changed = read(&read(&Remembered::default(), 1), 2);
        assert_eq!(never_changed.last_change(), None);
        let changed = never_changed.with(ballot(3, 2), (), true, KEEP);
        let after = (4..20).fold(changed, |it, counter| read(&it, counter));
        assert_eq!((after.last(), after.last_change()), (Some(ballot(19, 1)), Some(ballot(3, 2))));
        let again = after.with(ballot(20, 1), (), true, KEEP);
        assert_eq!((again.last_change(), again.earlier_change()), (again.last(), None));
    }

    proptest! {
        /// Every reported fate is true, and the fates of the very last programs are known.
        #[test]
        fn nothing_that_is_told_is_wrong(
            workers in proptest::collection::vec(0..6_u64, 0..40),
            last in 1..4_usize,
            others in 0..4_usize,
            age_us in 1..60_u64,
        ) {
            let keep = Keep { last, workers: others, age_us };
            // Every other ballot comes to nothing.
            let ran: Vec<_> = (1..).zip(&workers).map(|(at, worker)| ballot(2 * at, *worker)).collect();
            let mut remembered = Remembered::default();
            for ballot in &ran {
                remembered = remembered.with(*ballot, ballot.counter, true, keep);
            }
            prop_assert!(remembered.entries().len() <= last + others);
            prop_assert!(remembered.entries().is_sorted_by_key(|(ballot, _)| *ballot));
            let newest = ran.len().checked_sub(last).map_or(Ballot::NONE, |first| ran[first]);
            for counter in 1..=2 * ran.len() as u64 + 1 {
                for worker in 0..6 {
                    let asked = ballot(counter, worker);
                    let has_run = ran.contains(&asked);
                    let is_right = match remembered.fate(asked) {
                        Fate::Ran(reply) => has_run && reply == counter,
                        Fate::DidNotRun => !has_run,
                        Fate::NotKnown => asked < newest,
                    };
                    prop_assert!(is_right, "{asked:?}: {:?}", remembered.fate(asked));
                }
            }
        }

        /// As long as there are no more workers than are remembered, each one learns whether its last program ran or
        /// came to nothing.
        #[test]
        fn every_worker_is_told_of_its_last_one(
            workers in proptest::collection::vec(0..4_u64, 1..40),
            last in 1..4_usize,
        ) {
            let keep = Keep { last, workers: 3, age_us: 1000 };
            let ran: Vec<_> = (1..).zip(&workers).map(|(at, worker)| ballot(2 * at, *worker)).collect();
            let remembered = ran.iter().fold(Remembered::default(), |it, ran| it.with(*ran, (), true, keep));
            for worker in 0..4 {
                let its_last = ran.iter().filter(|ran| ran.worker == worker).max();
                if let Some(its_last) = its_last {
                    prop_assert_eq!(remembered.fate(*its_last), Fate::Ran(()));
                }
                let since = its_last.map_or(0, |ran| ran.counter);
                for counter in since / 2..ran.len() as u64 {
                    let in_vain = ballot(2 * counter + 1, worker);
                    prop_assert_eq!(remembered.fate(in_vain), Fate::DidNotRun);
                }
            }
        }
    }
}
