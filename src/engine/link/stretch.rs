//! Stretches: runs of requests for one database, each ended by its proof.
//!
//! A stretch opens with the first request whose answer may be a vote. It closes when it is about to be written, the
//! database changes, or a request of another term follows. Then its [proof](crate::engine::proof) is requested.

use std::rc::Rc;

use super::{Expected, Link, State};
use crate::decision::roster::term::Term;
use crate::engine::proof::PROOF;

impl Link {
    /// Prepares for a request whose answer may be a vote in this term.
    pub(super) fn open(&self, state: &mut State, term: &Rc<Term>) {
        if state.open.as_ref().is_some_and(|open| !Rc::ptr_eq(open, term)) {
            self.close(state);
        }
        if state.open.is_none() {
            state.open = Some(Rc::clone(term));
        }
    }

    /// Ends the open stretch, if any.
    pub(super) fn close(&self, state: &mut State) {
        self.end_gathering(state);
        let Some(term) = state.open.take() else { return };
        state.out.extend_from_slice(&PROOF);
        state.expected.push_back(Expected::Time(self.proofs.now_us()));
        state.expected.push_back(Expected::Mark(term, state.db));
    }
}
