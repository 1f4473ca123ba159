//! Compatibility of votes: which ones may be counted together.
//!
//! A vote proves that its master remembered when it voted. That is not enough: a master may forget right after its
//! vote, and receive a copy of what the others hold before they have voted. So no vote counts if its master's memory
//! ended before the others voted.
//!
//! Each change of the members raises the version of all marks before anything is copied. So a vote that proves version
//! 7 was given before any copy for a member that went out later than version 7. Take the roster of the newest version
//! that any counted master proved. Suppose that all counted masters are in that roster, with the incarnations that they
//! proved. Then a copy for any of them that forgets is made after all of their votes, and finds them. So votes of
//! several versions go together, and a request in flight while the members change need not be sent again.
//!
//! The quorum that decides is that of the version in which the question was sent. Once there are more seats, votes of
//! later versions do not count by it: see [`seating`](super::seating).
//!
//! Flushes are different: what a master held is gone if it was flushed after its vote, and nothing is copied to it. So
//! votes for leases count together only after the same flush
//! ([`decision::keyspace::flush`](crate::decision::keyspace::flush)).

use std::ops::Deref;

use super::mark::Proven;
use super::term::Term;
use crate::decision::quorum::{MasterId, MasterSet};

/// Votes about one question. `P` points to a shared term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Poll<P> {
    /// Term in which all counted masters are in, with their incarnations.
    term: P,
    counted: MasterSet,
    era: Era,
    /// Version of the term in which the question was first sent, whose quorum it counts by.
    begun: u64,
}

/// Flush after which votes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Era {
    /// Any flush: the masters check it themselves.
    Any,
    /// The flush of the first vote, which must not be before this one.
    Since(u64),
    /// This flush.
    Of(u64),
}

/// Result of counting a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counting {
    /// The vote counts.
    Counts,
    /// The vote proves a version that this proxy has yet to learn: it must wait.
    Ahead,
    /// The vote does not go together with those that were counted.
    Void,
}

impl<P: Deref<Target = Term>> Poll<P> {
    /// Creates a poll about a question that is sent in this term.
    pub fn new(term: P) -> Self {
        let begun = term.version();
        Self { term, counted: MasterSet::EMPTY, era: Era::Any, begun }
    }

    /// Returns the poll about a question that was first sent in this version, and is decided by its quorum.
    #[must_use]
    pub fn begun_in(self, begun: u64) -> Self {
        Self { begun, ..self }
    }

    /// Returns the poll restricted to votes given after the same flush. `met` is the highest flush known.
    #[must_use]
    pub fn between_flushes(self, met: u64) -> Self {
        Self { era: Era::Since(met), ..self }
    }

    /// Returns the next round of a question that builds on the votes of this one; `None` if some voters have forgotten
    /// since.
    pub fn again(&self, term: P) -> Option<Self> {
        let Self { counted, era, begun, .. } = *self;
        self.goes_on_in(&term).then_some(Self { term, counted, era, begun })
    }

    /// Returns the counted masters whose votes do not count together with any of this term.
    pub fn gone_in(&self, term: &Term) -> MasterSet {
        let is_gone =
            |master: &MasterId| term.incarnation(*master) != self.term.incarnation(*master);
        self.counted.iter().filter(is_gone).collect()
    }

    /// Goes on in this term without the votes of masters that have gone. The caller must forget their answers.
    pub fn leave_gone(&mut self, term: P) {
        self.counted = self.counted.without(self.gone_in(&term));
        self.term = term;
    }

    /// Whether a vote that does not count is one of a member of this term, given after the same flush as the others: it
    /// would count if others had not gone, or the number of seats had not changed.
    pub fn is_outdated_for<T>(&self, vote: &Proven<T>, term: &Term) -> bool {
        term.incarnation(vote.master()) == Some(vote.incarnation())
            && self.era.with(vote.flush()).is_some()
    }

    /// Returns the newest term that a vote was counted in.
    pub fn term(&self) -> &P {
        &self.term
    }

    /// Counts a vote, if it goes together with the others. `known` returns the newest term that this proxy knows. It is
    /// rarely called, since most votes prove the version in which they were requested.
    #[inline]
    pub fn count<T>(&mut self, vote: &Proven<T>, known: impl FnOnce() -> P) -> Counting {
        if vote.version() > self.term.version() {
            return self.count_newer(vote, known());
        }
        self.count_in_term(vote)
    }

    #[cold]
    fn count_newer<T>(&mut self, vote: &Proven<T>, known: P) -> Counting {
        if vote.version() > known.version() {
            return Counting::Ahead;
        }
        let Some(mut newer) = self.again(known) else { return Counting::Void };
        let counting = newer.count_in_term(vote);
        if counting == Counting::Counts {
            *self = newer;
        }
        counting
    }

    fn count_in_term<T>(&mut self, vote: &Proven<T>) -> Counting {
        if !self.term.seating().counts(self.begun, vote.version()) {
            return Counting::Void;
        }
        if self.term.incarnation(vote.master()) != Some(vote.incarnation()) {
            return Counting::Void;
        }
        let Some(era) = self.era.with(vote.flush()) else { return Counting::Void };
        self.era = era;
        self.counted.insert(vote.master());
        Counting::Counts
    }

    /// Whether all counted masters vote in `term` as well, and have forgotten nothing in between, and the quorum of the
    /// beginning still decides.
    fn goes_on_in(&self, term: &Term) -> bool {
        self.gone_in(term).is_empty() && term.seating().counts(self.begun, term.version())
    }
}

impl Era {
    /// Returns the era after counting a vote that was given after this flush; `None` if the vote does not count.
    fn with(self, flush: Option<u64>) -> Option<Self> {
        match (self, flush) {
            (Self::Any, _) => Some(self),
            (Self::Since(met), Some(flush)) if flush >= met => Some(Self::Of(flush)),
            (Self::Of(era), Some(flush)) if flush == era => Some(self),
            (Self::Since(_) | Self::Of(_), _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::decision::quorum::MasterId;
    use crate::decision::roster::mark::{Mark, MarkReading, Proof};
    use crate::decision::roster::roster::{Member, Roster, Stage, Standing};

    /// Returns a roster of three with these incarnations; 0 means out.
    fn roster(version: u64, incarnations: [u64; 3]) -> Roster {
        let member = |(at, incarnation): (usize, &u64)| Member {
            incarnation: *incarnation,
            standing: match incarnation {
                0 => Standing::Out { since: version },
                _ => Standing::In { nonce: 0 },
            },
            ..Member::founder(at as u64, String::new(), Vec::new())
        };
        let members = incarnations.iter().enumerate().map(member).collect();
        Roster {
            cluster: "c".to_owned(),
            version,
            stage: Stage::Founded,
            members,
            ..Roster::default()
        }
    }

    fn term(roster: &Roster) -> Arc<Term> {
        let proof = |at| Proof::due(roster, MasterId::new(at), 0).into_iter().collect();
        Arc::new(Term::new(roster.version, (0..3).map(proof).collect()))
    }

    /// Returns the vote of a master that was asked under `asked` and shows its mark under `now`.
    fn vote(asked: &Roster, now: &Roster, at: usize) -> Proven<()> {
        let master = MasterId::new(at);
        let reading = MarkReading { mark: Mark::expected(now, master, 0), time_continues: true };
        let proof = Proof::due(asked, master, 0).expect("a voter");
        proof.check(&reading, ()).expect("the same incarnation")
    }

    #[test]
    fn votes_of_two_versions_go_together_when_all_are_in_both() {
        let (old, new) = (roster(7, [1, 1, 1]), roster(8, [1, 1, 0]));
        let mut poll = Poll::new(term(&old));
        assert_eq!(poll.count(&vote(&old, &old, 0), || term(&old)), Counting::Counts);
        let newer = vote(&old, &new, 1);
        assert_eq!(poll.count(&newer, || term(&old)), Counting::Ahead);
        assert_eq!(poll.count(&newer, || term(&new)), Counting::Counts);
        assert_eq!(poll.count(&vote(&old, &old, 2), || term(&new)), Counting::Void, "it went out");
        assert_eq!(poll.term().version(), 8);
    }

    #[test]
    fn no_vote_counts_beside_that_of_a_member_which_went_out_before_it() {
        let (old, new) = (roster(7, [1, 1, 1]), roster(8, [1, 1, 0]));
        let mut poll = Poll::new(term(&old));
        assert_eq!(poll.count(&vote(&old, &old, 2), || term(&old)), Counting::Counts);
        assert_eq!(poll.count(&vote(&old, &new, 0), || term(&new)), Counting::Void);
        assert_eq!(
            poll.count(&vote(&old, &old, 1), || term(&new)),
            Counting::Counts,
            "as old as it"
        );
        let back = roster(9, [1, 1, 2]);
        assert_eq!(
            poll.count(&vote(&old, &back, 0), || term(&back)),
            Counting::Void,
            "another one"
        );
        assert_eq!(poll.again(term(&back)), None);
    }

    #[test]
    fn a_poll_goes_on_once_the_vote_of_who_went_out_is_forgotten() {
        let (old, new) = (roster(7, [1, 1, 1]), roster(8, [1, 1, 0]));
        let mut poll = Poll::new(term(&old));
        for at in [0, 2] {
            assert_eq!(poll.count(&vote(&old, &old, at), || term(&old)), Counting::Counts);
        }
        let gone = poll.gone_in(&term(&new));
        assert_eq!(gone, [MasterId::new(2)].into_iter().collect());
        poll.leave_gone(term(&new));
        assert_eq!(poll.count(&vote(&old, &new, 1), || term(&new)), Counting::Counts);
        assert_eq!(poll.count(&vote(&old, &old, 2), || term(&new)), Counting::Void);
    }

    #[test]
    fn votes_before_and_after_a_flush_do_not_go_together() {
        let roster = roster(7, [1, 1, 1]);
        let vote = |at, flush| {
            let vote = vote(&roster, &roster, at);
            vote.seal().after_flush(flush).proves(())
        };
        let mut poll = Poll::new(term(&roster)).between_flushes(5);
        let mut count = |at, flush| poll.count(&vote(at, flush), || term(&roster));
        assert_eq!(count(0, Some(4)), Counting::Void, "it has missed one");
        assert_eq!(count(1, None), Counting::Void, "nobody can tell");
        assert_eq!(count(1, Some(6)), Counting::Counts);
        assert_eq!(count(0, Some(5)), Counting::Void);
        assert_eq!(count(2, Some(6)), Counting::Counts);
        let mut poll = Poll::new(term(&roster));
        assert_eq!(poll.count(&vote(0, Some(1)), || term(&roster)), Counting::Counts);
        assert_eq!(poll.count(&vote(1, None), || term(&roster)), Counting::Counts);
    }

    #[test]
    fn a_master_that_missed_a_raise_counts() {
        let (old, new) = (roster(7, [1, 1, 0]), roster(8, [1, 1, 2]));
        let mut poll = Poll::new(term(&new));
        assert_eq!(poll.count(&vote(&new, &old, 0), || term(&new)), Counting::Counts);
        assert_eq!(poll.count(&vote(&new, &new, 2), || term(&new)), Counting::Counts);
        assert!(poll.again(term(&new)).is_some());
    }
}
