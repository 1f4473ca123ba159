//! Counting of yes and no, with a verdict as soon as it is certain.

use super::{Ballot, MasterId, MasterSet, Quorum};

/// Result of one round of votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A quorum voted yes.
    Granted,
    /// Too many masters voted no for a quorum of yes.
    Refused,
    /// All masters have answered or timed out, and the outcome could have been either.
    Undecided,
}

/// Ballots of one round.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tally {
    quorum: Quorum,
    yes: MasterSet,
    no: MasterSet,
    /// Masters that were asked and whose answer is still expected.
    pending: MasterSet,
}

impl Tally {
    /// Creates a round in which only `asked` were asked. The others are unknown from the start.
    pub fn new(quorum: Quorum, asked: MasterSet) -> Self {
        Self { quorum, yes: MasterSet::EMPTY, no: MasterSet::EMPTY, pending: asked }
    }

    /// Counts one ballot. A second ballot of the same master, or one of a master that was not asked, changes nothing:
    /// no master votes twice.
    pub fn count(&mut self, master: MasterId, ballot: Ballot) -> Option<Verdict> {
        if self.pending.contains(master) {
            self.pending.remove(master);
            match ballot {
                Ballot::Yes => self.yes.insert(master),
                Ballot::No => self.no.insert(master),
                Ballot::Unknown => {}
            }
        }
        self.verdict()
    }

    /// Returns the verdict at the deadline: masters that have not answered are unknown.
    pub fn close(&mut self) -> Verdict {
        self.pending = MasterSet::EMPTY;
        self.verdict().unwrap_or(Verdict::Undecided)
    }

    /// Returns the verdict, once it is certain.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.quorum.reached_by(self.yes) {
            Some(Verdict::Granted)
        } else if self.no.len() > self.quorum.tolerates() {
            Some(Verdict::Refused)
        } else if self.pending.is_empty() {
            Some(Verdict::Undecided)
        } else {
            None
        }
    }

    /// Returns the masters that owe an answer.
    pub fn pending(&self) -> MasterSet {
        self.pending
    }

    /// Returns the number of masters that voted yes or no.
    pub fn answered(&self) -> usize {
        self.yes.len() + self.no.len()
    }

    /// Whether a quorum voted yes or no.
    pub fn quorum_answered(&self) -> bool {
        self.answered() >= self.quorum.needed()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ballots(n: usize) -> impl Strategy<Value = Vec<Ballot>> {
        proptest::collection::vec(
            prop_oneof![Just(Ballot::Yes), Just(Ballot::No), Just(Ballot::Unknown)],
            n,
        )
    }

    fn cast(n: usize, ballots: &[Ballot]) -> (Tally, Option<Verdict>) {
        let quorum = Quorum::of(n);
        let mut tally = Tally::new(quorum, quorum.everybody());
        let mut verdict = None;
        for (index, ballot) in ballots.iter().enumerate() {
            verdict = tally.count(MasterId::new(index), *ballot);
        }
        (tally, verdict)
    }

    proptest! {
        #[test]
        fn granted_means_a_quorum_said_yes(
            (n, ballots) in (1usize..8).prop_flat_map(|n| (Just(n), ballots(n)))
        ) {
            let yes = ballots.iter().filter(|b| **b == Ballot::Yes).count();
            let (_, verdict) = cast(n, &ballots);
            prop_assert_eq!(verdict == Some(Verdict::Granted), yes > n / 2);
        }

        #[test]
        fn an_early_verdict_is_the_final_verdict(
            (n, ballots) in (1usize..8).prop_flat_map(|n| (Just(n), ballots(n)))
        ) {
            let (_, last) = cast(n, &ballots);
            for upto in 0..n {
                if let (_, Some(early)) = cast(n, &ballots[..upto]) {
                    prop_assert_eq!(Some(early), last);
                }
            }
        }

        #[test]
        fn unknown_is_never_a_no(n in 1usize..8) {
            let (_, verdict) = cast(n, &vec![Ballot::Unknown; n]);
            prop_assert_eq!(verdict, Some(Verdict::Undecided));
        }
    }

    #[test]
    fn nobody_votes_twice() {
        let quorum = Quorum::of(3);
        let mut tally = Tally::new(quorum, quorum.everybody());
        let first = MasterId::new(0);
        assert_eq!(tally.count(first, Ballot::Yes), None);
        assert_eq!(tally.count(first, Ballot::Yes), None);
        assert_eq!(tally.answered(), 1);
    }

    #[test]
    fn a_master_that_was_not_asked_has_no_vote() {
        let quorum = Quorum::of(3);
        let mut tally = Tally::new(quorum, MasterSet::first(2));
        assert_eq!(tally.count(MasterId::new(2), Ballot::Yes), None);
        assert_eq!(tally.count(MasterId::new(0), Ballot::Yes), None);
        assert_eq!(tally.close(), Verdict::Undecided);
    }
}
