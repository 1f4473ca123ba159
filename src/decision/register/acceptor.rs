//! A master's copy of a register, and the requests that change it.
//!
//! A script executes each request: atomically, and without any change if it refuses. The mark is checked before it.

use serde::{Deserialize, Serialize};

use super::ballot::Ballot;
use super::{Program, StateOf};

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
