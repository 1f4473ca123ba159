//! Taking a key that must not exist yet: Redlock's acquire, with rollback, retry and, for a lock
//! without TTL, a second round that makes it persistent.
//!
//! ```text
//!            quorum of yes                      quorum of yes
//!  Voting ------------------> (Persisting) -------------------> Granted
//!    |  ^                          |
//!    |  | retry()                  | lost
//!    v  |                          v
//!  Pausing <------ some said yes --+------> Refused / Unavailable
//! ```

use super::tally::{Tally, Verdict};
use super::{Ballot, MasterId, MasterSet, Quorum};
use crate::clock::Instant;

/// One master's answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key was free and now holds our token.
    Taken,
    /// The key already held our token (only scripts that ask for it answer so). It counts as a
    /// yes, but it is not ours to undo: it was there before.
    Owned,
    /// Somebody else holds the key.
    Refused,
    /// No trustworthy answer.
    Unknown,
}

impl Vote {
    fn ballot(self) -> Ballot {
        match self {
            Self::Taken | Self::Owned => Ballot::Yes,
            Self::Refused => Ballot::No,
            Self::Unknown => Ballot::Unknown,
        }
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing, until the next ballot or the deadline.
    Wait,
    /// Start the round that makes the key persistent, then call [`Claim::ask`].
    Persist,
    /// A split vote: wait a random time, send the claim again and call [`Claim::ask`].
    Pause,
    /// A quorum holds our token: the lock is the client's.
    Granted,
    /// The key is held by somebody else.
    Held,
    /// Too few masters answered to know.
    Unavailable {
        /// How many gave a yes or a no.
        answered: usize,
    },
}

/// The next step, and where our token has to be taken away first (compare-and-delete).
pub type Next = super::Next<Step>;

impl Next {
    const WAIT: Self = Self { undo: MasterSet::EMPTY, step: Step::Wait };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Voting,
    Pausing,
    Persisting,
    Granted,
    Lost,
}

/// One claim on its way through the masters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    quorum: Quorum,
    phase: Phase,
    tally: Tally,
    deadline: Instant,
    /// Counts the rounds, so that a late answer is told from a current one.
    round: u8,
    retries_left: u32,
    /// The lock has no TTL: claim it with a provisional one first.
    persist: bool,
    /// Masters that hold our token because of this claim.
    taken: MasterSet,
    /// Masters that held it before.
    owned: MasterSet,
}

impl Claim {
    /// A claim that has just been sent to `asked` and must be decided by `deadline`.
    pub fn new(quorum: Quorum, asked: MasterSet, deadline: Instant, retries: u32) -> Self {
        Self {
            quorum,
            phase: Phase::Voting,
            tally: Tally::new(quorum, asked),
            deadline,
            round: 0,
            retries_left: retries,
            persist: false,
            taken: MasterSet::EMPTY,
            owned: MasterSet::EMPTY,
        }
    }

    /// Makes this the claim of a lock without TTL.
    pub fn then_persist(mut self) -> Self {
        self.persist = true;
        self
    }

    /// The round that answers have to name now.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// Whether more masters found their token in place than found the key free.
    pub fn mostly_owned(&self) -> bool {
        self.owned.len() > self.taken.len()
    }

    /// Whether the claim is in its persisting round.
    pub fn is_persisting(&self) -> bool {
        self.phase == Phase::Persisting
    }

    /// Whether the time of the current round has passed.
    pub fn is_over(&self, now: Instant) -> bool {
        now > self.deadline
    }

    /// Whether it waits for the end of a pause, to be sent again.
    pub fn is_pausing(&self) -> bool {
        self.phase == Phase::Pausing
    }

    /// Whether the claim was granted.
    pub fn is_granted(&self) -> bool {
        self.phase == Phase::Granted
    }

    /// Whether the claim has ended without a grant.
    pub fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// A new round (persisting or another attempt) has been sent to `asked`.
    pub fn ask(&mut self, asked: MasterSet, deadline: Instant) {
        if self.phase == Phase::Pausing {
            self.phase = Phase::Voting;
        }
        self.tally = Tally::new(self.quorum, asked);
        self.deadline = deadline;
    }

    /// One master has answered in `round`.
    ///
    /// An answer after the deadline counts as unknown even when it is the event loop that was late:
    /// the pad on the masters covers one vote timeout and not more.
    pub fn vote(&mut self, round: u8, master: MasterId, vote: Vote, now: Instant) -> Next {
        let current = round == self.round;
        if current && self.phase == Phase::Persisting {
            return self.persisted(master, vote.ballot(), now);
        }
        match vote {
            Vote::Taken => self.taken.insert(master),
            Vote::Owned => self.owned.insert(master),
            Vote::Refused | Vote::Unknown => {}
        }
        if !current || self.phase != Phase::Voting {
            return self.late();
        }
        if now > self.deadline {
            return self.deadline();
        }
        match self.tally.count(master, vote.ballot()) {
            None => Next::WAIT,
            Some(verdict) => self.voted(verdict),
        }
    }

    /// The deadline of the current round has come.
    pub fn deadline(&mut self) -> Next {
        let verdict = self.tally.close();
        match self.phase {
            Phase::Voting => self.voted(verdict),
            Phase::Persisting => self.persistence(verdict),
            Phase::Pausing | Phase::Granted | Phase::Lost => Next::WAIT,
        }
    }

    /// There are too few voters for another round. Says where our token has to be taken away.
    pub fn abandon(&mut self) -> MasterSet {
        self.phase = Phase::Lost;
        self.take_back()
    }

    /// A yes that came too late for its round: with the claim lost it is undone where it was given;
    /// otherwise it stays, as one more copy of a lock that is ours or still fought for.
    fn late(&mut self) -> Next {
        match self.phase {
            Phase::Lost | Phase::Pausing => Next { undo: self.take_back(), step: Step::Wait },
            Phase::Voting | Phase::Persisting | Phase::Granted => Next::WAIT,
        }
    }

    fn voted(&mut self, verdict: Verdict) -> Next {
        match verdict {
            Verdict::Granted if self.persist => self.advance(Phase::Persisting, Step::Persist),
            Verdict::Granted => self.advance(Phase::Granted, Step::Granted),
            // Fewer answers than a quorum: nothing is known, and another try would end the same.
            Verdict::Undecided if !self.tally.quorum_answered() => self.unavailable(),
            Verdict::Refused | Verdict::Undecided => self.refused(),
        }
    }

    /// Nobody said yes: the key is held. Some did: perhaps a split vote in which nobody wins.
    fn refused(&mut self) -> Next {
        let split = !self.taken.is_empty();
        let undo = self.take_back();
        if split && self.retries_left > 0 {
            self.retries_left -= 1;
            Next { undo, ..self.advance(Phase::Pausing, Step::Pause) }
        } else {
            Next { undo, ..self.advance(Phase::Lost, Step::Held) }
        }
    }

    fn unavailable(&mut self) -> Next {
        let answered = self.tally.answered();
        let undo = self.take_back();
        Next { undo, ..self.advance(Phase::Lost, Step::Unavailable { answered }) }
    }

    fn persisted(&mut self, master: MasterId, ballot: Ballot, now: Instant) -> Next {
        if ballot == Ballot::Yes {
            self.taken.insert(master);
        }
        if now > self.deadline {
            return self.deadline();
        }
        match self.tally.count(master, ballot) {
            None => Next::WAIT,
            Some(verdict) => self.persistence(verdict),
        }
    }

    /// The lock is only granted when a quorum keeps it for good. Otherwise all that took it, for good
    /// or for the time being, have to give it up; those whose answer comes late do so then.
    fn persistence(&mut self, verdict: Verdict) -> Next {
        if verdict == Verdict::Granted {
            return self.advance(Phase::Granted, Step::Granted);
        }
        match verdict {
            Verdict::Refused => self.refused(),
            _ => self.unavailable(),
        }
    }

    fn take_back(&mut self) -> MasterSet {
        self.owned = MasterSet::EMPTY;
        std::mem::take(&mut self.taken)
    }

    fn advance(&mut self, phase: Phase, step: Step) -> Next {
        self.phase = phase;
        if matches!(step, Step::Persist | Step::Pause) {
            self.round = self.round.wrapping_add(1);
        }
        Next { undo: MasterSet::EMPTY, step }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::clock;

    const RETRIES: u32 = 2;

    fn masters(indices: &[usize]) -> MasterSet {
        indices.iter().map(|index| MasterId::new(*index)).collect()
    }

    fn claim(n: usize) -> (Claim, Instant) {
        let now = clock::now();
        let quorum = Quorum::of(n);
        (Claim::new(quorum, quorum.everybody(), now + Duration::from_millis(50), RETRIES), now)
    }

    fn cast(claim: &mut Claim, now: Instant, votes: &[(usize, Vote)]) -> Next {
        let round = claim.round();
        votes.iter().fold(Next::WAIT, |_, (index, vote)| {
            claim.vote(round, MasterId::new(*index), *vote, now)
        })
    }

    /// The three phases that others ask for, and the end.
    fn phases(claim: &Claim) -> [bool; 4] {
        [claim.is_pausing(), claim.is_persisting(), claim.is_granted(), claim.is_lost()]
    }

    #[test]
    fn two_of_three_are_enough_and_the_third_may_come_late() {
        let (mut claim, now) = claim(3);
        let next = cast(&mut claim, now, &[(0, Vote::Taken), (2, Vote::Taken)]);
        assert_eq!(next, Next { undo: MasterSet::EMPTY, step: Step::Granted });
        assert_eq!(cast(&mut claim, now, &[(1, Vote::Refused)]), Next::WAIT);
        assert_eq!(phases(&claim), [false, false, true, false]);
    }

    #[test]
    fn a_held_key_is_refused_without_touching_anybody() {
        let (mut claim, now) = claim(3);
        let next = cast(&mut claim, now, &[(0, Vote::Refused), (1, Vote::Refused)]);
        assert_eq!(next, Next { undo: MasterSet::EMPTY, step: Step::Held });
        assert_eq!(phases(&claim), [false, false, false, true]);
    }

    #[test]
    fn a_quorum_that_answered_differently_has_split_the_vote() {
        let (mut claim, now) = claim(3);
        cast(&mut claim, now, &[(0, Vote::Taken), (1, Vote::Refused)]);
        assert_eq!(claim.deadline(), Next { undo: masters(&[0]), step: Step::Pause });
        assert_eq!(phases(&claim), [true, false, false, false]);
    }

    #[test]
    fn a_claim_that_cannot_be_sent_again_is_taken_back() {
        let (claim, now) = claim(3);
        let mut claim = claim.then_persist();
        cast(&mut claim, now, &[(0, Vote::Taken), (2, Vote::Taken)]);
        assert_eq!(claim.abandon(), masters(&[0, 2]));
        assert_eq!(phases(&claim), [false, false, false, true]);
    }

    #[test]
    fn what_most_masters_held_for_us_before_is_prolonged_and_not_taken() {
        for (third, mostly_owned) in [(Vote::Owned, true), (Vote::Taken, false)] {
            let (mut claim, now) = claim(4);
            cast(&mut claim, now, &[(0, Vote::Owned), (1, Vote::Taken), (2, third)]);
            assert!(claim.is_granted());
            assert_eq!(claim.mostly_owned(), mostly_owned, "{third:?}");
        }
        let (mut even, now) = claim(2);
        cast(&mut even, now, &[(0, Vote::Owned), (1, Vote::Taken)]);
        assert!(!even.mostly_owned(), "as many took it");
    }

    #[test]
    fn a_late_yes_of_a_refused_claim_is_undone_there() {
        let (mut claim, now) = claim(3);
        cast(&mut claim, now, &[(0, Vote::Refused), (1, Vote::Refused)]);
        let next = cast(&mut claim, now, &[(2, Vote::Taken)]);
        assert_eq!(next, Next { undo: masters(&[2]), step: Step::Wait });
    }

    #[test]
    fn a_split_vote_is_rolled_back_and_tried_again_a_bounded_number_of_times() {
        let (mut claim, now) = claim(3);
        let split = [(0, Vote::Refused), (1, Vote::Taken), (2, Vote::Refused)];
        for _ in 0..RETRIES {
            let next = cast(&mut claim, now, &split);
            assert_eq!(next, Next { undo: masters(&[1]), step: Step::Pause });
            claim.ask(MasterSet::first(3), now + Duration::from_millis(50));
        }
        let next = cast(&mut claim, now, &split);
        assert_eq!(next, Next { undo: masters(&[1]), step: Step::Held });
    }

    #[test]
    fn a_ballot_of_an_earlier_round_does_not_count_in_this_one() {
        let (mut claim, now) = claim(3);
        let first = claim.round();
        cast(&mut claim, now, &[(0, Vote::Taken), (1, Vote::Refused), (2, Vote::Refused)]);
        claim.ask(MasterSet::first(3), now + Duration::from_millis(50));
        cast(&mut claim, now, &[(0, Vote::Taken)]);
        let late = claim.vote(first, MasterId::new(1), Vote::Taken, now);
        assert_eq!(late, Next::WAIT, "it is being taken back there");
        assert_eq!(cast(&mut claim, now, &[(1, Vote::Refused)]), Next::WAIT);
        let next = cast(&mut claim, now, &[(2, Vote::Refused)]);
        assert_eq!(next, Next { undo: masters(&[0, 1]), step: Step::Pause });
    }

    #[test]
    fn silence_of_a_majority_is_not_a_refusal() {
        let (mut claim, now) = claim(3);
        cast(&mut claim, now, &[(1, Vote::Taken)]);
        let next = claim.deadline();
        assert_eq!(next, Next { undo: masters(&[1]), step: Step::Unavailable { answered: 1 } });
        let late = cast(&mut claim, now, &[(2, Vote::Taken)]);
        assert_eq!(late.undo, masters(&[2]));
    }

    #[test]
    fn a_yes_after_the_deadline_grants_nothing() {
        let (mut claim, now) = claim(3);
        let late = now + Duration::from_millis(51);
        cast(&mut claim, now, &[(0, Vote::Taken)]);
        let next = cast(&mut claim, late, &[(1, Vote::Taken)]);
        assert_eq!(next.undo, masters(&[0, 1]));
        assert_eq!(next.step, Step::Unavailable { answered: 1 });
    }

    #[test]
    fn a_yes_at_the_deadline_is_in_time() {
        let (mut claim, now) = claim(3);
        let last = now + Duration::from_millis(50);
        assert!(!claim.is_over(last) && claim.is_over(last + Duration::from_nanos(1)));
        cast(&mut claim, now, &[(0, Vote::Taken)]);
        assert_eq!(cast(&mut claim, last, &[(1, Vote::Taken)]).step, Step::Granted);
    }

    #[test]
    fn a_token_that_was_there_before_is_never_undone() {
        let (mut claim, now) = claim(3);
        let votes = [(0, Vote::Owned), (1, Vote::Refused), (2, Vote::Refused)];
        let next = cast(&mut claim, now, &votes);
        assert_eq!(next, Next { undo: MasterSet::EMPTY, step: Step::Held });
    }

    #[test]
    fn a_lock_without_ttl_is_granted_only_once_it_is_persistent() {
        let (claim, now) = claim(3);
        let mut claim = claim.then_persist();
        let next = cast(&mut claim, now, &[(0, Vote::Taken), (1, Vote::Taken)]);
        assert_eq!(next.step, Step::Persist);
        assert_eq!(phases(&claim), [false, true, false, false]);
        let last = now + Duration::from_millis(50);
        claim.ask(MasterSet::first(3), last);
        assert_eq!(cast(&mut claim, now, &[(0, Vote::Taken)]), Next::WAIT);
        assert_eq!(cast(&mut claim, last, &[(2, Vote::Taken)]).step, Step::Granted);
    }

    #[test]
    fn a_persistence_that_is_confirmed_too_late_is_none() {
        let (claim, now) = claim(3);
        let mut claim = claim.then_persist();
        cast(&mut claim, now, &[(0, Vote::Taken), (1, Vote::Taken)]);
        claim.ask(MasterSet::first(3), now + Duration::from_millis(50));
        cast(&mut claim, now, &[(0, Vote::Taken)]);
        let next = cast(&mut claim, now + Duration::from_millis(51), &[(1, Vote::Taken)]);
        assert_eq!(next.undo, masters(&[0, 1]));
        assert_eq!(next.step, Step::Unavailable { answered: 1 });
    }

    #[test]
    fn a_lock_that_ends_before_it_is_persistent_is_fought_for_again() {
        let (claim, now) = claim(3);
        let mut claim = claim.then_persist();
        cast(&mut claim, now, &[(0, Vote::Taken), (1, Vote::Taken)]);
        claim.ask(MasterSet::first(3), now + Duration::from_millis(50));
        let next = cast(&mut claim, now, &[(2, Vote::Refused), (1, Vote::Refused)]);
        assert_eq!(next, Next { undo: masters(&[0, 1]), step: Step::Pause });
    }

    #[test]
    fn a_persistence_nobody_confirmed_is_taken_back_everywhere() {
        let (claim, now) = claim(3);
        let mut claim = claim.then_persist();
        cast(&mut claim, now, &[(0, Vote::Taken), (1, Vote::Taken)]);
        claim.ask(MasterSet::first(3), now + Duration::from_millis(50));
        let next = claim.deadline();
        assert_eq!(next.undo, MasterSet::first(2));
        assert_eq!(next.step, Step::Unavailable { answered: 0 });
        assert_eq!(cast(&mut claim, now, &[(2, Vote::Taken)]).undo, masters(&[2]));
    }

    proptest! {
        /// Whatever the votes, their order and the deadline: granted only by a quorum that said yes
        /// in time, and after a loss no master keeps a copy that is not undone.
        #[test]
        fn granted_by_a_quorum_or_undone_everywhere(
            n in 1usize..6,
            votes in proptest::collection::vec((0usize..6, 0u8..4, any::<bool>()), 0..12),
        ) {
            let (mut claim, now) = claim(n);
            let mut holding = MasterSet::EMPTY;
            let mut answered = MasterSet::EMPTY;
            let mut end = Step::Wait;
            let mut yes_in_time = 0;
            for (index, kind, expired) in votes {
                let master = MasterId::new(index % n);
                if answered.contains(master) { continue; }
                answered.insert(master);
                let vote = [Vote::Taken, Vote::Owned, Vote::Refused, Vote::Unknown][usize::from(kind)];
                let when = if expired { now + Duration::from_secs(1) } else { now };
                if vote == Vote::Taken { holding.insert(master); }
                if matches!(vote, Vote::Taken | Vote::Owned) && !expired { yes_in_time += 1; }
                let next = claim.vote(0, master, vote, when);
                holding = holding.without(next.undo);
                if end == Step::Wait { end = next.step; }
            }
            match end {
                Step::Granted => prop_assert!(yes_in_time > n / 2),
                Step::Wait => {}
                _ => prop_assert_eq!(holding, MasterSet::EMPTY),
            }
        }
    }
}
