//! Messages between a proposer, the masters, and the proposer's owner.

use crate::decision::keyspace::remembered::Keep;
use crate::decision::keyspace::settle::HeldBallot;
use crate::decision::keyspace::slot::{Adopt, Apply, Ran, Refusal, Sight, Slots};
use crate::decision::keyspace::{Program, Runs};
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
    /// Make all masters that answer hold the same under these keys.
    Settle(Vec<P::Key>),
}

impl<P: Runs> Request<P> {
    /// Executes the request as a master does at `own_us` on its own clock, remembering as many programs of each key as
    /// `keep` allows.
    pub fn execute(&self, slots: &mut Slots<P>, keep: Keep, own_us: u64) -> MasterAnswer<P> {
        let answer = match self {
            Self::Prepare(keys, ballot) => {
                let met = keys.iter().map(|(_, met)| *met).max().unwrap_or_default();
                let keys: Vec<_> = keys.iter().map(|(key, _)| key.clone()).collect();
                slots.prepare(&keys, *ballot, met, own_us).map(MasterAnswer::Promised)
            }
            Self::Adopt(adopt) => slots.adopt(adopt, own_us).map(|()| MasterAnswer::Adopted),
            Self::Apply(apply) => slots.apply(apply, keep, own_us).map(MasterAnswer::Applied),
        };
        answer.unwrap_or_else(MasterAnswer::Refused)
    }
}

impl<P: Program> Wish<P> {
    /// Returns the keys.
    pub fn keys(&self) -> Vec<P::Key> {
        match self {
            Self::Run(program) => program.keys(),
            Self::Read(keys) | Self::Settle(keys) => keys.clone(),
        }
    }

    /// Whether all masters that answer must hold the same.
    pub(super) fn needs_all(&self) -> bool {
        match self {
            Self::Run(program) => program.needs_all(),
            Self::Read(_) => false,
            Self::Settle(_) => true,
        }
    }
}
