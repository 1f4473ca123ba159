//! A master's copy of a register, and the effect of the scripts on it.
//!
//! The functions of [`Stamp`] are the specification of the scripts. Each is atomic on the master, and changes nothing
//! if it refuses. The mark is checked before any of them.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;
use super::{Program, StampOf, StateOf};

/// One master's record of one register.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp<V, R> {
    /// Highest promised ballot. The master accepts nothing below it any more.
    pub promised: Ballot,
    /// Last accepted state.
    pub state: State<V, R>,
}

/// A value and its history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State<V, R> {
    /// Ballot under which the value was accepted. Equal ballots mean equal states.
    pub accepted: Ballot,
    /// Current value.
    pub value: V,
    /// Last programs that led to the value.
    pub recent: Recent<R>,
}

/// Last programs that led to a value, with their replies, oldest first.
///
/// A worker whose answers were lost finds out here whether its program ran.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Recent<R> {
    entries: Vec<(Ballot, R)>,
    /// Highest ballot dropped to make room.
    dropped: Ballot,
}

/// Fate of one program, according to the list of recent programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate<R> {
    /// The program is part of the value, and this was its reply.
    Ran(R),
    /// The program is not part of the value.
    DidNotRun,
    /// The list does not reach back that far.
    NotKnown,
}

/// Reason why a script changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Highest promised ballot.
    pub promised: Ballot,
    /// Ballot of the state that the master holds.
    pub accepted: Ballot,
}

/// Request to run a program on a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Apply<P> {
    /// Program to run.
    pub program: P,
    /// Accepted ballot of the state that the program must run on.
    pub expected: Ballot,
    /// Ballot of the attempt.
    pub ballot: Ballot,
    /// Next ballot, promised along with the run. It saves the next attempt a round trip (Rystsov 2018, 2.2.1).
    pub next: Ballot,
}

/// State sent to a master that may lack it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adopt<V, R> {
    /// The state. Its accepted ballot is the adopter's own, not the ballot under which it was found.
    pub state: State<V, R>,
    /// Next ballot, promised along with the state.
    pub next: Ballot,
}

impl<V: Clone, R: Clone> Stamp<V, R> {
    /// Promises `ballot`, and returns the state that the promise is about.
    ///
    /// # Errors
    /// Returns an error if this ballot or a higher one was promised before.
    pub fn prepare(&mut self, ballot: Ballot) -> Result<State<V, R>, Refusal> {
        if ballot <= self.promised {
            return Err(self.refusal());
        }
        self.promised = ballot;
        Ok(self.state.clone())
    }

    /// Accepts a state unchanged.
    ///
    /// # Errors
    /// Returns an error if a higher ballot was promised.
    pub fn adopt(&mut self, adopt: &Adopt<V, R>) -> Result<(), Refusal> {
        if self.promised > adopt.state.accepted {
            return Err(self.refusal());
        }
        self.promised = adopt.next;
        self.state = adopt.state.clone();
        Ok(())
    }

    /// Takes over a state that a quorum was seen to hold, whatever was promised. Returns whether it was newer.
    ///
    /// A state of a quorum is decided: every attempt that holds a promise of this master has seen it on another master.
    pub fn catch_up(&mut self, decided: &State<V, R>) -> bool {
        let is_newer = decided.accepted > self.state.accepted;
        if is_newer {
            self.promised = self.promised.max(decided.accepted);
            self.state = decided.clone();
        }
        is_newer
    }

    /// Returns the refusal that this stamp leads to.
    pub fn refusal(&self) -> Refusal {
        Refusal { promised: self.promised, accepted: self.state.accepted }
    }
}

/// Runs a program in place, and remembers `keep` programs.
///
/// # Errors
/// Returns an error if a higher ballot was promised, or if the master holds another state than the program expects.
pub fn apply<P: Program>(
    stamp: &mut StampOf<P>,
    apply: &Apply<P>,
    keep: usize,
) -> Result<P::Reply, Refusal> {
    if stamp.promised > apply.ballot || stamp.state.accepted != apply.expected {
        return Err(stamp.refusal());
    }
    stamp.promised = apply.next;
    let (after, reply) = stamp.state.after(&apply.program, apply.ballot, keep);
    stamp.state = after;
    Ok(reply)
}

impl<V, R: Clone> State<V, R> {
    /// Returns the state after `program`, run under `ballot`, and the reply.
    pub fn after<P>(&self, program: &P, ballot: Ballot, keep: usize) -> (StateOf<P>, R)
    where
        P: Program<Value = V, Reply = R>,
    {
        let (value, reply) = program.run(&self.value);
        let recent = self.recent.with(ballot, reply.clone(), keep);
        (State { accepted: ballot, value, recent }, reply)
    }

    /// Returns the same value under another ballot, as an adopter sends it.
    pub fn under(self, ballot: Ballot) -> Self {
        Self { accepted: ballot, ..self }
    }
}

impl<R> Fate<R> {
    /// Combines the fates of several attempts, at most one of which can have run. That one ran is certain; that none
    /// did is certain only if no fate is unknown.
    pub fn of_any(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Ran(_), _) | (Self::NotKnown, Self::DidNotRun) => self,
            _ => other,
        }
    }

    /// Combines several lists' answers about one attempt. An answer that knows its fate wins.
    pub fn of_one(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Ran(_), _) | (Self::DidNotRun, Self::NotKnown) => self,
            _ => other,
        }
    }
}

impl<R> Default for Recent<R> {
    fn default() -> Self {
        Self { entries: Vec::new(), dropped: Ballot::NONE }
    }
}

impl<R: Clone> Recent<R> {
    /// Returns the fate of the program that ran under `ballot`.
    pub fn fate(&self, ballot: Ballot) -> Fate<R> {
        match self.entries.iter().find(|(ran, _)| *ran == ballot) {
            Some((_, reply)) => Fate::Ran(reply.clone()),
            None if ballot <= self.dropped => Fate::NotKnown,
            None => Fate::DidNotRun,
        }
    }

    /// Returns the ballot of the last program.
    pub fn last(&self) -> Option<Ballot> {
        self.entries.last().map(|(ballot, _)| *ballot)
    }

    /// Returns the list after one more program, cut to the last `keep`.
    pub fn with(&self, ballot: Ballot, reply: R, keep: usize) -> Self {
        let mut entries = self.entries.clone();
        entries.push((ballot, reply));
        let surplus = entries.len().saturating_sub(keep);
        let dropped = entries.drain(..surplus).map(|(ballot, _)| ballot).max();
        Self { entries, dropped: self.dropped.max(dropped.unwrap_or_default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Append(u8);

    impl Program for Append {
        type Value = Vec<u8>;
        type Reply = usize;

        fn run(&self, value: &Vec<u8>) -> (Vec<u8>, usize) {
            let mut value = value.clone();
            value.push(self.0);
            let length = value.len();
            (value, length)
        }
    }

    fn ballot(counter: u64) -> Ballot {
        Ballot { epoch: 0, counter, worker: 7 }
    }

    fn append(expected: u64, own: u64) -> Apply<Append> {
        let expected = if expected == 0 { Ballot::NONE } else { ballot(expected) };
        Apply { program: Append(own as u8), expected, ballot: ballot(own), next: ballot(own + 1) }
    }

    #[test]
    fn a_promise_keeps_lower_ballots_out() {
        let mut stamp = StampOf::<Append>::default();
        assert!(stamp.prepare(ballot(5)).is_ok());
        assert_eq!(stamp.prepare(ballot(5)), Err(stamp.refusal()), "once only");
        assert!(apply(&mut stamp, &append(0, 4), 8).is_err());
        assert_eq!(apply(&mut stamp, &append(0, 5), 8), Ok(1));
        assert_eq!(stamp.promised, ballot(6), "the next one is promised along with it");
        assert!(apply(&mut stamp, &append(5, 5), 8).is_err());
    }

    #[test]
    fn a_program_runs_on_the_state_that_it_expects() {
        let mut stamp = StampOf::<Append>::default();
        let before = stamp.clone();
        let refusal = apply(&mut stamp, &append(3, 5), 8).unwrap_err();
        assert_eq!(refusal, Refusal { promised: Ballot::NONE, accepted: Ballot::NONE });
        assert_eq!(stamp, before);
        assert_eq!(apply(&mut stamp, &append(0, 5), 8), Ok(1));
        assert!(apply(&mut stamp, &append(0, 7), 8).is_err(), "a second delivery runs nothing");
    }

    #[test]
    fn an_adopted_state_has_the_ballot_of_its_adopter() {
        let (mut ahead, mut behind) = (StampOf::<Append>::default(), StampOf::<Append>::default());
        assert!(apply(&mut ahead, &append(0, 5), 8).is_ok());
        let state = ahead.state.clone().under(ballot(9));
        let adopt = Adopt { state, next: ballot(10) };
        assert_eq!(behind.adopt(&adopt), Ok(()));
        assert_eq!(behind.state.accepted, ballot(9));
        assert_eq!(behind.state.recent.fate(ballot(5)), Fate::Ran(1));
        assert!(behind.adopt(&adopt).is_err(), "the next ballot is promised");
    }

    #[test]
    fn what_is_decided_replaces_only_what_is_older() {
        let (mut ahead, mut behind) = (StampOf::<Append>::default(), StampOf::<Append>::default());
        assert!(apply(&mut ahead, &append(0, 5), 8).is_ok());
        assert!(behind.prepare(ballot(8)).is_ok());
        assert!(behind.catch_up(&ahead.state));
        assert_eq!((behind.promised, &behind.state), (ballot(8), &ahead.state));
        assert!(!behind.catch_up(&ahead.state));
    }

    #[test]
    fn a_list_that_does_not_reach_back_is_no_denial() {
        let mut stamp = StampOf::<Append>::default();
        let mut expected = 0;
        for own in [2, 4, 6] {
            assert!(apply(&mut stamp, &append(expected, own), 2).is_ok());
            expected = own;
        }
        let recent = &stamp.state.recent;
        assert_eq!(recent.fate(ballot(6)), Fate::Ran(3));
        assert_eq!(recent.fate(ballot(4)), Fate::Ran(2));
        assert_eq!(recent.fate(ballot(3)), Fate::DidNotRun, "between two that are known");
        assert_eq!(recent.fate(ballot(2)), Fate::NotKnown);
        assert_eq!(recent.fate(ballot(1)), Fate::NotKnown);
    }
}
