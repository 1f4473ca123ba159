//! What goes between a proposer, masters, and its owner.

use crate::decision::keyspace::remembered::Keep;
use crate::decision::keyspace::settle::Holding;
use crate::decision::keyspace::slot::{Adopt, Apply, Ran, Refusal, Sight, Slots};
use crate::decision::keyspace::{Program, Runs};
use crate::decision::register::ballot::Ballot;

/// A request to every master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<P: Program> {
    /// Promise this ballot for these keys, and tell what they hold. With each goes the highest flush of its database that a
    /// master has shown, 0 if that is not known.
    Prepare(Vec<(P::Key, u64)>, Ballot),
    /// Accept states.
    Adopt(Adopt<P>),
    /// Run a program.
    Apply(Apply<P>),
}

/// What a master answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer<P: Program> {
    /// The ballot is promised; the keys hold this.
    Promised(Vec<Sight<P>>),
    /// The states are accepted.
    Adopted,
    /// The program ran, and replied.
    Applied(Ran<P>),
    /// Nothing was changed.
    Refused(Refusal),
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step<P: Program> {
    /// Nothing, until the next answer or the deadline.
    Wait,
    /// Send this to every master.
    Send(Request<P>),
    /// Somebody else is at work, or a master is behind: pause at random, then call [`Proposer::again`](super::Proposer::again).
    Pause,
    /// The operation has ended.
    Done(Outcome<P>),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<P: Program> {
    /// The program ran, exactly once.
    Ran(P::Reply),
    /// What the keys hold, for an operation that only reads.
    Read(Vec<Holding<P>>),
    /// It has not run, and never will: its keys hold something else than it expects ([`Program::may_run`]).
    Unmet,
    /// It may have run or not, and nobody can tell any more. It must not run again.
    NotKnown,
}

/// What an operation wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wish<P: Program> {
    /// To run this.
    Run(P),
    /// To know what these keys hold.
    Read(Vec<P::Key>),
    /// That all masters hold the same under these keys, as far as they answer.
    Settle(Vec<P::Key>),
}

impl<P: Runs> Request<P> {
    /// What a master does that remembers as many programs of each key as `keep` says, at `own_us` by its own clock.
    pub fn execute(&self, slots: &mut Slots<P>, keep: Keep, own_us: u64) -> Answer<P> {
        let answer = match self {
            Self::Prepare(keys, ballot) => {
                let met = keys.iter().map(|(_, met)| *met).max().unwrap_or_default();
                let keys: Vec<_> = keys.iter().map(|(key, _)| key.clone()).collect();
                slots.prepare(&keys, *ballot, met, own_us).map(Answer::Promised)
            }
            Self::Adopt(adopt) => slots.adopt(adopt, own_us).map(|()| Answer::Adopted),
            Self::Apply(apply) => slots.apply(apply, keep, own_us).map(Answer::Applied),
        };
        answer.unwrap_or_else(Answer::Refused)
    }
}

impl<P: Program> Wish<P> {
    /// The keys.
    pub fn keys(&self) -> Vec<P::Key> {
        match self {
            Self::Run(program) => program.keys(),
            Self::Read(keys) | Self::Settle(keys) => keys.clone(),
        }
    }

    /// Whether all masters that answer are to hold the same.
    pub(super) fn needs_all(&self) -> bool {
        match self {
            Self::Run(program) => program.needs_all(),
            Self::Read(_) => false,
            Self::Settle(_) => true,
        }
    }
}
