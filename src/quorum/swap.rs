//! Replacing a value: read what a majority holds, then compare-and-set from exactly that value.
//!
//! Two concurrent swaps of one key cannot both reach a quorum from the same value, because their
//! quorums share a master; the loser undoes what it did, reads again and so sees the winner. This
//! is what makes `GETSET` on N masters linearizable, which the old timestamp lock depends on.

use super::tally::{Tally, Verdict};
use super::{Ballot, MasterId, MasterSet, Quorum};

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing, until the next ballot or the deadline.
    Wait,
    /// A quorum has the new value.
    Swapped,
    /// Somebody interfered: wait a random time, read again, and call [`Swap::ask`].
    Pause,
    /// Somebody interfered again and again; nothing was changed.
    GaveUp,
    /// Too few masters answered to know; what was changed is being undone.
    Unavailable {
        /// How many gave a yes or a no.
        answered: usize,
    },
}

/// The next step, and where the old value has to be put back first (reverse compare-and-set).
pub type Next = super::Next<Step>;

impl Next {
    const WAIT: Self = Self { undo: MasterSet::EMPTY, step: Step::Wait };
}

/// The compare-and-set rounds of one swap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    quorum: Quorum,
    tally: Tally,
    state: State,
    tries_left: u32,
    /// Masters that hold the new value because of the current round.
    changed: MasterSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Voting,
    Swapped,
    Lost,
}

impl Swap {
    /// A swap that may compare and set `tries` times.
    pub fn new(quorum: Quorum, tries: u32) -> Self {
        let tally = Tally::new(quorum, MasterSet::EMPTY);
        Self { quorum, tally, state: State::Lost, tries_left: tries, changed: MasterSet::EMPTY }
    }

    /// Whether a compare-and-set had its quorum.
    pub fn is_done(&self) -> bool {
        self.state == State::Swapped
    }

    /// Whether the last compare-and-set ended without a quorum.
    pub fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Who has yet to answer the present compare-and-set.
    pub fn pending(&self) -> MasterSet {
        self.tally.pending()
    }

    /// A compare-and-set has been sent to `asked`.
    pub fn ask(&mut self, asked: MasterSet) {
        self.tally = Tally::new(self.quorum, asked);
        self.state = State::Voting;
        self.tries_left = self.tries_left.saturating_sub(1);
    }

    /// One master has answered the current compare-and-set.
    ///
    /// A lost round ends only when everybody has answered: were the next one sent before, a late
    /// yes could not be told from a yes to the new value.
    pub fn vote(&mut self, master: MasterId, ballot: Ballot) -> Next {
        if ballot == Ballot::Yes {
            self.changed.insert(master);
        }
        match self.state {
            State::Voting => match self.tally.count(master, ballot) {
                Some(Verdict::Granted) => self.swapped(),
                Some(_) if self.tally.pending().is_empty() => self.lost(self.tries_left > 0),
                _ => Next::WAIT,
            },
            State::Swapped => Next::WAIT,
            State::Lost => Next { undo: self.take_back(), step: Step::Wait },
        }
    }

    /// The current compare-and-set is not waited for any longer. That is at the end of the client's patience, not at the
    /// vote timeout: a minority that is silent decides, or keeps a lost round from being tried again.
    pub fn deadline(&mut self) -> Next {
        match self.state {
            State::Voting => self.lost(false),
            State::Swapped | State::Lost => Next::WAIT,
        }
    }

    fn swapped(&mut self) -> Next {
        self.state = State::Swapped;
        Next { undo: MasterSet::EMPTY, step: Step::Swapped }
    }

    fn lost(&mut self, again: bool) -> Next {
        self.state = State::Lost;
        let step = match (self.tally.quorum_answered(), again) {
            (false, _) => Step::Unavailable { answered: self.tally.answered() },
            (true, true) => Step::Pause,
            (true, false) => Step::GaveUp,
        };
        Next { undo: self.take_back(), step }
    }

    fn take_back(&mut self) -> MasterSet {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap() -> Swap {
        let mut swap = Swap::new(Quorum::of(3), 2);
        swap.ask(MasterSet::first(3));
        swap
    }

    fn cast(swap: &mut Swap, ballots: &[(usize, Ballot)]) -> Next {
        ballots.iter().fold(Next::WAIT, |_, (index, b)| swap.vote(MasterId::new(*index), *b))
    }

    #[test]
    fn a_quorum_of_compare_and_sets_is_a_swap() {
        let mut swap = swap();
        assert!(!swap.is_done() && !swap.is_lost());
        let next = cast(&mut swap, &[(0, Ballot::Yes), (2, Ballot::Yes)]);
        assert_eq!(next.step, Step::Swapped);
        assert!(swap.is_done() && !swap.is_lost());
    }

    #[test]
    fn interference_is_undone_and_tried_again_then_given_up() {
        let mut swap = swap();
        let lost = [(0, Ballot::Yes), (1, Ballot::No), (2, Ballot::No)];
        let next = cast(&mut swap, &lost);
        assert_eq!(next, Next { undo: MasterSet::first(1), step: Step::Pause });
        assert!(swap.is_lost() && !swap.is_done());
        swap.ask(MasterSet::first(3));
        assert_eq!(cast(&mut swap, &lost).step, Step::GaveUp);
    }

    #[test]
    fn a_late_change_of_a_lost_swap_is_undone_there() {
        let mut swap = swap();
        assert_eq!(cast(&mut swap, &[(0, Ballot::No), (1, Ballot::No)]), Next::WAIT);
        assert_eq!(swap.deadline().step, Step::GaveUp);
        let next = cast(&mut swap, &[(2, Ballot::Yes)]);
        assert_eq!(next, Next { undo: [MasterId::new(2)].into_iter().collect(), step: Step::Wait });
    }

    #[test]
    fn silence_is_not_interference() {
        let mut swap = swap();
        cast(&mut swap, &[(0, Ballot::Yes)]);
        let next = swap.deadline();
        assert_eq!(
            next,
            Next { undo: MasterSet::first(1), step: Step::Unavailable { answered: 1 } }
        );
    }
}
