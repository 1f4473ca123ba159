//! Attempts to run a program, and their fates. At most one attempt can take effect.

use crate::decision::keyspace::Program;
use crate::decision::keyspace::settle::HeldBallot;
use crate::decision::keyspace::slot::Basis;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// All attempts of one operation that may have run or may yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempts<P: Program>(Vec<Attempt<P>>);

/// A program that was sent to every master, once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt<P: Program> {
    /// Ballot of each key, and the flush after which it was promised.
    ballots: Vec<(P::Key, Ballot, u64)>,
    /// Masters that have refused the attempt, and so never run it.
    refused: MasterSet,
    /// Whether some master has stopped, so that no master runs it.
    has_stopped: bool,
}

impl<P: Program> Default for Attempts<P> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<P: Program> Attempts<P> {
    /// Adds an attempt on this basis. Returns the ballot that identifies its answers.
    pub(super) fn send(&mut self, program: &P, basis: &[Basis<P>]) -> Ballot {
        let ballots = program.keys().into_iter().zip(basis);
        let ballots = ballots.map(|(key, basis)| (key, basis.ballot, basis.flush)).collect();
        let attempt = Attempt { ballots, refused: MasterSet::EMPTY, has_stopped: false };
        let ballot = attempt.ballot();
        self.0.push(attempt);
        ballot
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the highest ballot of these attempts.
    pub(super) fn highest(&self) -> Ballot {
        self.0.iter().map(Attempt::ballot).max().unwrap_or_default()
    }

    /// See [`Proposer::never_runs`](super::Proposer::never_runs).
    pub(super) fn never_runs(&mut self, ballot: Ballot, master: MasterId, everybody: MasterSet) {
        self.0.retain_mut(|attempt| {
            if attempt.ballot() == ballot {
                attempt.refused.insert(master);
            }
            attempt.refused != everybody
        });
    }

    /// Records that some master stopped the attempt under this ballot.
    pub(super) fn stop(&mut self, ballot: Ballot) {
        let is_one = |attempt: &&mut Attempt<P>| attempt.ballot() == ballot;
        self.0.iter_mut().filter(is_one).for_each(|attempt| attempt.has_stopped = true);
    }

    /// Whether some master may have run one of the attempts, or may yet.
    pub(super) fn may_have_run(&self) -> bool {
        self.0.iter().any(|attempt| !attempt.has_stopped)
    }

    /// Returns the fate of the attempts, with the ballot of the one that ran. The answer of one key holds for all of
    /// them: they were accepted together. Nobody can tell what ran before a flush.
    pub(super) fn fate(&self, holdings: &[HeldBallot<P>]) -> Fate<(Ballot, P::Reply)> {
        let fates = self.0.iter().map(|attempt| match attempt.fate(holdings) {
            Fate::Ran(reply) => Fate::Ran((attempt.ballot(), reply)),
            Fate::DidNotRun => Fate::DidNotRun,
            Fate::NotKnown => Fate::NotKnown,
        });
        fates.reduce(Fate::of_any).unwrap_or(Fate::DidNotRun)
    }
}

impl<P: Program> Attempt<P> {
    fn ballot(&self) -> Ballot {
        self.ballots.iter().map(|(_, ballot, _)| *ballot).max().unwrap_or_default()
    }

    fn fate(&self, holdings: &[HeldBallot<P>]) -> Fate<P::Reply> {
        let fates = self.ballots.iter().zip(holdings);
        let fates = fates.map(|((_, ballot, flush), holding)| match *flush == holding.flush {
            true => holding.state.recent.fate(*ballot),
            false => Fate::NotKnown,
        });
        match fates.reduce(Fate::of_one) {
            Some(Fate::NotKnown) if self.has_stopped => Fate::DidNotRun,
            fate => fate.unwrap_or(Fate::DidNotRun),
        }
    }
}
