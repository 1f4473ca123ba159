//! Counting answers that are proven.

use std::sync::Arc;

use super::mark::Proven;
use super::poll::{Counting, Poll};
use super::term::Term;
use crate::decision::quorum::{MasterSet, Quorum};

/// The masters that said yes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Votes {
    quorum: Quorum,
    poll: Poll<Arc<Term>>,
    yes: MasterSet,
    /// Votes that prove a version that is not known yet.
    ahead: Vec<Proven<bool>>,
}

impl Votes {
    /// No vote yet, for an operation that is sent in `term`.
    pub fn new(quorum: Quorum, term: Arc<Term>) -> Self {
        Self { quorum, poll: Poll::new(term), yes: MasterSet::EMPTY, ahead: Vec::new() }
    }

    /// Counts a vote, when `known` is the newest term that this proxy knows.
    pub fn count(&mut self, vote: Proven<bool>, known: &Arc<Term>) {
        match self.poll.count(&vote, || Arc::clone(known)) {
            Counting::Counts if *vote.answer() => self.yes.insert(vote.master()),
            Counting::Counts | Counting::Void => {}
            Counting::Ahead => self.ahead.push(vote),
        }
    }

    /// Counts what had to wait for `known`.
    pub fn learn(&mut self, known: &Arc<Term>) {
        for vote in std::mem::take(&mut self.ahead) {
            self.count(vote, known);
        }
    }

    /// Whether a quorum said yes.
    pub fn is_granted(&self) -> bool {
        self.quorum.reached_by(self.yes)
    }

    /// Whether some votes wait to be counted.
    pub fn waits(&self) -> bool {
        !self.ahead.is_empty()
    }
}
