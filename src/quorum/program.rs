//! Running a script, a transaction or one command of a composite type: what a quorum of masters did
//! alike, and answered alike, is what happened.
//!
//! ```text
//!          a quorum did and said the same
//!  Voting --------------------------------> Won
//!    |  ^
//!    |  | ask()
//!    v  |
//!  Pausing <------ nobody has a quorum ---> Lost
//! ```
//!
//! Masters that changed something while the majority did not, or failed halfway while it did not, are
//! undone, and all of them when there is no majority.
//!
//! No two masters keep a key for quite the same time. What a script makes of that may differ on every
//! master, and would for ever: therefore they are first asked again with times that they have agreed on.

use super::{MasterId, MasterSet, Quorum};

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing, until the next answer or the deadline.
    Wait,
    /// No majority, perhaps because of remaining times: send it again at once, with times that are the same
    /// for all masters, and call [`Program::ask`].
    Agree,
    /// No majority: wait a random time, send it again and call [`Program::ask`].
    Pause,
    /// A quorum did the same: these masters.
    Won(MasterSet),
    /// Enough masters answered, but no quorum of them the same.
    Split {
        /// How many answered.
        answered: usize,
    },
    /// Too few masters answered to know.
    Unavailable {
        /// How many answered.
        answered: usize,
    },
}

/// The next step, and which masters' changes have to be taken back first (by restoring them).
pub type Next = super::Next<Step>;

impl Next {
    const WAIT: Self = Self { undo: MasterSet::EMPTY, step: Step::Wait };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Voting,
    Pausing,
    /// Won by these masters, which changed something or did not.
    Won {
        winners: MasterSet,
        changed: bool,
    },
    Lost,
}

/// What a master did and said. Equal ones are counted together.
pub trait Vote: PartialEq {
    /// Whether they did nothing and said the same but for remaining times, so that they may be counted
    /// together if too few are equal.
    fn is_like(&self, other: &Self) -> bool;

    /// Whether they said the same, whatever times they had been told.
    fn says_the_same(&self, other: &Self) -> bool;
}

/// One program on its way through the masters.
#[derive(Clone, Debug)]
pub struct Program<B> {
    quorum: Quorum,
    phase: Phase,
    round: u8,
    retries_left: u32,
    pending: MasterSet,
    votes: Vec<(B, MasterId)>,
    /// Masters with changes of the current round.
    changed: MasterSet,
    /// Those of them that failed before they were done.
    failed: MasterSet,
    /// Some master of the current round has read when a key ends.
    timed: bool,
    /// They have been asked to agree on times.
    agreed: bool,
    /// The current round goes on after its vote timeout for a minority that decides.
    waits: bool,
}

/// What one master did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Did {
    /// It changed something.
    pub changed: bool,
    /// It answered with an error.
    pub failed: bool,
    /// It has read when a key ends.
    pub timed: bool,
}

impl<B: Vote> Program<B> {
    /// A program that was not sent to anybody yet.
    pub fn new(quorum: Quorum, retries: u32) -> Self {
        Self {
            quorum,
            phase: Phase::Pausing,
            round: 0,
            retries_left: retries,
            pending: MasterSet::EMPTY,
            votes: Vec::new(),
            changed: MasterSet::EMPTY,
            failed: MasterSet::EMPTY,
            timed: false,
            agreed: false,
            waits: false,
        }
    }

    /// The round that answers have to name now.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// It has been sent to `asked`.
    pub fn ask(&mut self, asked: MasterSet) {
        self.phase = Phase::Voting;
        self.pending = asked;
        self.votes.clear();
        (self.changed, self.failed) = (MasterSet::EMPTY, MasterSet::EMPTY);
        (self.timed, self.waits) = (false, false);
    }

    /// `master` has answered in `round`; `ballot` is the whole of what it did and said.
    pub fn voted(&mut self, round: u8, master: MasterId, did: Did, ballot: B) -> Next {
        let changed = did.changed;
        if round != self.round {
            return Self::late(changed, master);
        }
        match self.phase {
            Phase::Voting => {}
            Phase::Won { changed: true, .. } => {
                let alone = did.failed && !self.was_said_by_winners(&ballot);
                return Self::late(changed && alone, master);
            }
            Phase::Won { changed: false, .. } | Phase::Pausing | Phase::Lost => {
                return Self::late(changed, master);
            }
        }
        // Also the change of one that may not vote has to be taken back if the program is lost.
        if changed {
            self.changed.insert(master);
        }
        if self.pending.contains(master) {
            self.pending.remove(master);
            if changed && did.failed {
                self.failed.insert(master);
            }
            self.timed |= did.timed;
            self.votes.push((ballot, master));
        }
        self.verdict()
    }

    /// `master` gives no trustworthy answer.
    pub fn unknown(&mut self, round: u8, master: MasterId) -> Next {
        if round != self.round || self.phase != Phase::Voting {
            return Next::WAIT;
        }
        self.pending.remove(master);
        self.verdict()
    }

    /// Whether enough masters have answered the current round at all.
    pub fn quorum_answered(&self) -> bool {
        self.votes.len() >= self.quorum.needed()
    }

    /// The current round has lasted too long for what it sets to be granted: it is taken back and tried again. Having
    /// waited for a minority costs no try.
    pub fn outlived(&mut self, round: u8, master: MasterId, changed: bool) -> Next {
        if round != self.round || self.phase != Phase::Voting {
            return Self::late(changed, master);
        }
        if changed {
            self.changed.insert(master);
        }
        let (undo, answered) = (std::mem::take(&mut self.changed), self.votes.len());
        let step = match self.waits {
            true => self.again(Step::Pause),
            false => self.pause_or(Step::Split { answered }),
        };
        Next { undo, step }
    }

    /// The vote timeout of the current round has passed, or, with `is_last`, the client's patience. Who has yet to answer
    /// would decide, and is waited for unless a quorum has answered and it can be tried again.
    pub fn deadline(&mut self, is_last: bool) -> Next {
        let may_go_on = self.quorum_answered() && self.has_another_try();
        if self.phase != Phase::Voting || !is_last && !may_go_on {
            self.waits = self.quorum_answered();
            return Next::WAIT;
        }
        self.pending = MasterSet::EMPTY;
        self.verdict()
    }

    /// Whether the reply is known, and what comes now comes late.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Won { .. } | Phase::Lost)
    }

    /// The masters that have won: none before that.
    pub fn won_by(&self) -> MasterSet {
        match self.phase {
            Phase::Won { winners, .. } => winners,
            _ => MasterSet::EMPTY,
        }
    }

    /// The ballots that have won.
    pub fn winners(&self) -> impl Iterator<Item = &B> {
        let won = self.won_by();
        self.votes.iter().filter(move |(_, master)| won.contains(*master)).map(|(vote, _)| vote)
    }

    /// A change that comes when it cannot count any more.
    fn late(changed: bool, master: MasterId) -> Next {
        let undo = if changed { [master].into_iter().collect() } else { MasterSet::EMPTY };
        Next { undo, step: Step::Wait }
    }

    /// Most of those that voted together. Equal votes come before such that are only alike.
    fn best(&self) -> MasterSet {
        let equal = self.largest(B::eq);
        if self.quorum.reached_by(equal) {
            return equal;
        }
        let alike = self.largest(B::is_like);
        if alike.len() > equal.len() { alike } else { equal }
    }

    fn largest(&self, same: impl Fn(&B, &B) -> bool) -> MasterSet {
        let with = |(vote, _): &(B, MasterId)| -> MasterSet {
            let others = self.votes.iter().filter(|(other, _)| same(vote, other));
            others.map(|(_, master)| *master).collect()
        };
        self.votes.iter().map(with).max_by_key(|masters| masters.len()).unwrap_or_default()
    }

    fn verdict(&mut self) -> Next {
        let best = self.best();
        if self.quorum.reached_by(best) {
            return self.won(best);
        }
        let possible = best.len() + self.pending.len();
        if possible >= self.quorum.needed() {
            return Next::WAIT;
        }
        // Whoever answers late is told apart by the phase.
        let answered = self.votes.len();
        let undo = std::mem::take(&mut self.changed);
        let step = if answered + self.pending.len() < self.quorum.needed() {
            self.phase = Phase::Lost;
            Step::Unavailable { answered }
        } else if self.timed && !self.agreed {
            self.agreed = true;
            self.again(Step::Agree)
        } else {
            self.pause_or(Step::Split { answered })
        };
        Next { undo, step }
    }

    fn has_another_try(&self) -> bool {
        self.retries_left > 0 || self.timed && !self.agreed
    }

    fn pause_or(&mut self, end: Step) -> Step {
        if self.retries_left > 0 {
            self.retries_left -= 1;
            return self.again(Step::Pause);
        }
        self.phase = Phase::Lost;
        end
    }

    fn again(&mut self, step: Step) -> Step {
        self.phase = Phase::Pausing;
        self.round = self.round.wrapping_add(1);
        step
    }

    fn won(&mut self, winners: MasterSet) -> Next {
        let changed = winners.iter().any(|master| self.changed.contains(master));
        self.phase = Phase::Won { winners, changed };
        let undo = if changed { self.failed_alone() } else { self.changed };
        Next { undo, step: Step::Won(winners) }
    }

    /// Those that failed before they were done, where the winners did not or otherwise.
    fn failed_alone(&self) -> MasterSet {
        let alone = |(vote, master): &&(B, MasterId)| {
            self.failed.contains(*master) && !self.was_said_by_winners(vote)
        };
        self.votes.iter().filter(alone).map(|(_, master)| *master).collect()
    }

    fn was_said_by_winners(&self, vote: &B) -> bool {
        self.winners().next().is_some_and(|winner| winner.says_the_same(vote))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Stands for an error among replies, and `ERROR - 1` for the same one after other times.
    const ERROR: u8 = 255;

    fn program(n: usize, retries: u32) -> Program<(bool, u8)> {
        let quorum = Quorum::of(n);
        let mut program = Program::new(quorum, retries);
        program.ask(quorum.everybody());
        program
    }

    fn vote(program: &mut Program<(bool, u8)>, master: usize, changed: bool, reply: u8) -> Next {
        let did = Did { changed, failed: reply >= ERROR - 1, timed: false };
        program.voted(program.round(), MasterId::new(master), did, (changed, reply))
    }

    /// Replies of two digits are alike if they differ only in the last.
    impl Vote for (bool, u8) {
        fn is_like(&self, other: &Self) -> bool {
            !self.0 && !other.0 && self.1 >= 10 && self.1 / 10 == other.1 / 10
        }

        /// Two errors stand for one that came after different times.
        fn says_the_same(&self, other: &Self) -> bool {
            self.1 == other.1 || self.1 >= ERROR - 1 && other.1 >= ERROR - 1
        }
    }

    fn vote_timed(program: &mut Program<(bool, u8)>, master: usize, vote: (bool, u8)) -> Next {
        let did = Did { changed: vote.0, failed: false, timed: true };
        program.voted(program.round(), MasterId::new(master), did, vote)
    }

    fn masters(indices: &[usize]) -> MasterSet {
        indices.iter().map(|index| MasterId::new(*index)).collect()
    }

    #[test]
    fn a_minority_that_changed_something_is_undone() {
        let mut program = program(3, 0);
        assert_eq!(vote(&mut program, 0, true, 1), Next::WAIT);
        assert_eq!(vote(&mut program, 1, false, 2), Next::WAIT);
        let next = vote(&mut program, 2, false, 2);
        assert_eq!(next, Next { undo: masters(&[0]), step: Step::Won(masters(&[1, 2])) });
    }

    #[test]
    fn a_late_change_is_undone_unless_the_majority_made_it_too() {
        for (majority, undone) in [(false, vec![2]), (true, vec![])] {
            let mut program = program(3, 0);
            vote(&mut program, 0, majority, 1);
            vote(&mut program, 1, majority, 1);
            assert_eq!(vote(&mut program, 2, true, 9).undo, masters(&undone));
        }
    }

    #[test]
    fn what_a_minority_did_before_it_failed_is_undone() {
        let mut early = program(3, 0);
        vote(&mut early, 0, true, ERROR);
        vote(&mut early, 1, true, 1);
        assert_eq!(vote(&mut early, 2, true, 1).undo, masters(&[0]));
        let mut late = program(3, 0);
        vote(&mut late, 0, true, 1);
        vote(&mut late, 1, true, 1);
        assert_eq!(vote(&mut late, 2, true, ERROR).undo, masters(&[2]));
        let mut all = program(3, 0);
        vote(&mut all, 0, true, ERROR);
        vote(&mut all, 1, true, ERROR);
        assert_eq!(vote(&mut all, 2, true, ERROR).undo, masters(&[]));
    }

    #[test]
    fn who_failed_like_the_majority_is_left_alone_whatever_times_it_was_told() {
        let mut early = program(3, 0);
        vote(&mut early, 0, true, ERROR - 1);
        vote(&mut early, 1, true, ERROR);
        assert_eq!(vote(&mut early, 2, true, ERROR).undo, MasterSet::EMPTY);
        let mut late = program(3, 0);
        vote(&mut late, 0, true, ERROR);
        vote(&mut late, 1, true, ERROR);
        assert_eq!(vote(&mut late, 2, true, ERROR - 1).undo, MasterSet::EMPTY);
    }

    #[test]
    fn without_a_majority_everything_is_undone_and_tried_again() {
        let mut program = program(3, 1);
        vote(&mut program, 0, true, 1);
        vote(&mut program, 1, true, 2);
        let next = vote(&mut program, 2, false, 3);
        assert_eq!(next, Next { undo: masters(&[0, 1]), step: Step::Pause });
        program.ask(Quorum::of(3).everybody());
        let did = Did { changed: true, failed: false, timed: false };
        let late = program.voted(0, MasterId::new(2), did, (true, 1));
        assert_eq!(late, Next { undo: masters(&[2]), step: Step::Wait });
        vote(&mut program, 0, true, 1);
        vote(&mut program, 1, false, 2);
        let next = vote(&mut program, 2, false, 3);
        assert_eq!(next, Next { undo: masters(&[0]), step: Step::Split { answered: 3 } });
    }

    #[test]
    fn a_silent_master_that_decides_is_waited_for_once_there_is_no_try_left() {
        let mut program = program(3, 1);
        let split = |program: &mut Program<_>| {
            vote(program, 0, true, 1);
            vote(program, 1, true, 2);
        };
        split(&mut program);
        assert_eq!(program.deadline(false).step, Step::Pause);
        program.ask(Quorum::of(3).everybody());
        split(&mut program);
        assert_eq!(program.deadline(false), Next::WAIT);
        let mut given_up = program.clone();
        assert_eq!(given_up.deadline(true).step, Step::Split { answered: 2 });
        let mut outlived = program.clone();
        let next = outlived.outlived(1, MasterId::new(2), true);
        assert_eq!(next, Next { undo: masters(&[0, 1, 2]), step: Step::Pause });
        let step = vote(&mut program, 2, true, 2).step;
        assert_eq!(step, Step::Won(masters(&[1, 2])));
    }

    #[test]
    fn a_lone_answer_is_undone_and_not_believed() {
        let mut program = program(3, 3);
        vote(&mut program, 0, true, 1);
        let next = program.deadline(true);
        assert_eq!(next, Next { undo: masters(&[0]), step: Step::Unavailable { answered: 1 } });
        assert_eq!(vote(&mut program, 1, true, 1).undo, masters(&[1]));
    }

    #[test]
    fn what_is_only_alike_counts_when_too_few_are_equal() {
        let mut program = program(5, 0);
        for (master, reply) in [(0, 31), (1, 31), (2, 50), (3, 99)] {
            assert_eq!(vote(&mut program, master, false, reply), Next::WAIT);
        }
        let next = vote(&mut program, 4, false, 32);
        assert_eq!(next.step, Step::Won(masters(&[0, 1, 4])));
        let won: Vec<_> = program.winners().map(|(_, reply)| *reply).collect();
        assert_eq!(won, [31, 31, 32]);
    }

    #[test]
    fn what_changed_something_is_never_only_alike() {
        let mut program = program(3, 0);
        vote(&mut program, 0, true, 31);
        vote(&mut program, 1, true, 32);
        let next = vote(&mut program, 2, false, 33);
        assert_eq!(next, Next { undo: masters(&[0, 1]), step: Step::Split { answered: 3 } });
    }

    #[test]
    fn times_are_agreed_on_once_whatever_the_retries() {
        let mut program = program(3, 0);
        vote_timed(&mut program, 0, (true, 1));
        vote_timed(&mut program, 1, (true, 20));
        let next = vote_timed(&mut program, 2, (true, 40));
        assert_eq!(next, Next { undo: masters(&[0, 1, 2]), step: Step::Agree });
        program.ask(Quorum::of(3).everybody());
        vote_timed(&mut program, 0, (true, 1));
        vote_timed(&mut program, 1, (true, 20));
        let next = vote_timed(&mut program, 2, (true, 40));
        assert_eq!(next.step, Step::Split { answered: 3 });
    }

    #[test]
    fn who_gives_no_answer_is_not_waited_for() {
        let mut program = program(3, 0);
        assert_eq!(program.unknown(7, MasterId::new(0)), Next::WAIT, "of another round");
        vote(&mut program, 0, false, 1);
        assert_eq!(program.unknown(program.round(), MasterId::new(1)), Next::WAIT);
        assert!(!program.is_over());
        let next = program.unknown(program.round(), MasterId::new(2));
        assert_eq!(next.step, Step::Unavailable { answered: 1 });
        assert!(program.is_over());
        assert_eq!(program.unknown(program.round(), MasterId::new(2)), Next::WAIT, "it is lost");
    }

    #[test]
    fn a_quorum_that_answered_differently_is_split_and_not_out_of_reach() {
        let mut program = program(3, 0);
        vote(&mut program, 0, false, 1);
        vote(&mut program, 1, false, 2);
        assert_eq!(program.deadline(true).step, Step::Split { answered: 2 });
    }

    #[test]
    fn a_late_failure_that_changed_nothing_leaves_nothing_to_undo() {
        let mut program = program(3, 0);
        vote(&mut program, 0, true, 1);
        vote(&mut program, 1, true, 1);
        assert_eq!(vote(&mut program, 2, false, ERROR), Next::WAIT);
    }

    proptest! {
        /// Whatever the order: a win is the win of a quorum that did and said the same, and in the end
        /// exactly those changes stay that a majority made as well.
        #[test]
        fn what_stays_is_what_a_quorum_did(
            n in 1usize..=7,
            votes in proptest::collection::vec((any::<bool>(), 0u8..2, any::<bool>()), 7),
            order in Just((0..7).collect::<Vec<usize>>()).prop_shuffle(),
        ) {
            let mut program = program(n, 0);
            let (mut undone, mut won) = (MasterSet::EMPTY, None);
            let (silent, speaking): (Vec<usize>, Vec<usize>) =
                order.into_iter().filter(|master| *master < n).partition(|master| votes[*master].2);
            let step = |next: Next, won: &mut Option<MasterSet>| {
                if let Step::Won(winners) = next.step {
                    assert!(won.replace(winners).is_none(), "won twice");
                }
                next.undo
            };
            for master in speaking {
                let (changed, reply, _) = votes[master];
                undone = undone.union(step(vote(&mut program, master, changed, reply), &mut won));
            }
            undone = undone.union(step(program.deadline(true), &mut won));
            for master in silent {
                let (changed, reply, _) = votes[master];
                undone = undone.union(step(vote(&mut program, master, changed, reply), &mut won));
            }
            let changed: MasterSet =
                (0..n).filter(|master| votes[*master].0).map(MasterId::new).collect();
            match won {
                None => prop_assert_eq!(undone, changed),
                Some(winners) => {
                    prop_assert!(winners.len() >= Quorum::of(n).needed());
                    let kinds: std::collections::HashSet<_> =
                        winners.iter().map(|m| (votes[m.index()].0, votes[m.index()].1)).collect();
                    prop_assert_eq!(kinds.len(), 1);
                    let by_change = kinds.iter().all(|(changed, _)| *changed);
                    prop_assert_eq!(undone, if by_change { MasterSet::EMPTY } else { changed });
                }
            }
        }
    }
}
