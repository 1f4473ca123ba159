//! Counting of proven answers.

use std::sync::Arc;

use redlock_proxy::decision::quorum::{MasterSet, Quorum};
use redlock_proxy::decision::roster::mark::Proven;
use redlock_proxy::decision::roster::poll::{Counting, Poll};
use redlock_proxy::decision::roster::term::Term;

/// Masters that voted yes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Votes {
    quorum: Quorum,
    poll: Poll<Arc<Term>>,
    yes: MasterSet,
    /// Votes that prove a version not yet known.
    ahead: Vec<Proven<bool>>,
}

impl Votes {
    /// Creates an empty count for an operation that is sent in `term`.
    pub fn new(quorum: Quorum, term: Arc<Term>) -> Self {
        Self { quorum, poll: Poll::new(term), yes: MasterSet::EMPTY, ahead: Vec::new() }
    }

    /// Counts a vote, where `known` is the newest term that this proxy knows.
    pub fn count(&mut self, vote: Proven<bool>, known: &Arc<Term>) {
        match self.poll.count(&vote, || Arc::clone(known)) {
            Counting::Counts if *vote.answer() => self.yes.insert(vote.master()),
            Counting::Counts | Counting::Void => {}
            Counting::Ahead => self.ahead.push(vote),
        }
    }

    /// Counts the votes that had to wait for `known`.
    pub fn learn(&mut self, known: &Arc<Term>) {
        for vote in std::mem::take(&mut self.ahead) {
            self.count(vote, known);
        }
    }

    /// Whether a quorum voted yes.
    pub fn is_granted(&self) -> bool {
        self.quorum.reached_by(self.yes)
    }

    /// Whether some votes wait to be counted.
    pub fn waits(&self) -> bool {
        !self.ahead.is_empty()
    }
}
