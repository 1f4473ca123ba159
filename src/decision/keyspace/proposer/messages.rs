//! Messages between a proposer, the masters, and the proposer's owner.

use crate::decision::keyspace::Program;
use crate::decision::keyspace::settle::HeldBallot;
use crate::decision::keyspace::slot::{Adopt, Apply, Ran, Refusal, Sight};
use crate::decision::register::ballot::Ballot;

/// A request to every master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<P: Program> {
    /// Promise this ballot for these keys, and report what they hold. Each key comes with the highest flush of its
    /// database that a master has shown, 0 if unknown.
    Prepare(Vec<(P::Key, u64)>, Ballot),
    /// Accept states.
    Adopt(Adopt<P>),
    /// Run a program.
    Apply(Apply<P>),
}

/// One master's answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MasterAnswer<P: Program> {
    /// The master promised the ballot, and the keys hold this.
    Promised(Vec<Sight<P>>),
    /// The master accepted the states.
    Adopted,
    /// The program ran, with this result.
    Applied(Ran<P>),
    /// The master changed nothing.
    Refused(Refusal),
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<P: Program> {
    /// Wait for the next answer or the deadline.
    Wait,
    /// Send this to every master.
    Send(Request<P>),
    /// Another worker is active, or a master is behind: pause for a random time, then call
    /// [`Proposer::again`](super::Proposer::again).
    Pause,
    /// The operation has ended.
    Done(Outcome<P>),
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<P: Program> {
    /// The program ran exactly once.
    Ran(P::Reply),
    /// Content of the keys, for an operation that only reads.
    Read(Vec<HeldBallot<P>>),
    /// The program has not run and never will: its keys do not hold what it expects ([`Program::may_run`]).
    Unmet,
    /// The program may have run or not, and it is too late to find out. It must not run again.
    NotKnown,
}

/// Purpose of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wish<P: Program> {
    /// Run this program.
    Run(P),
    /// Find out what these keys hold.
    Read(Vec<P::Key>),
    /// Make all masters that answer hold the same state under these keys.
    Settle(Vec<P::Key>),
}

impl<P: Program> Wish<P> {
    /// Returns the keys.
    pub fn keys(&self) -> Vec<P::Key> {
        match self {
            Self::Run(program) => program.keys(),
            Self::Read(keys) | Self::Settle(keys) => keys.clone(),
        }
    }

    /// Whether all masters that answer must hold the same state.
    pub(super) fn needs_all(&self) -> bool {
        match self {
            Self::Run(program) => program.needs_all(),
            Self::Read(_) => false,
            Self::Settle(_) => true,
        }
    }
}
