//! What masters missed, and what has to be taken back.

use std::rc::Rc;

use super::link::Waiting;
use super::{Engine, Flight, OperationId};
use crate::decision::quorum::MasterId;
use crate::decision::roster::mark::Proven;
use crate::operation::Heard;
use crate::operation::request::Form;

impl Engine {
    /// Takes the operation's effect back on `master`, now or when its link is back: the link sees to it that it arrives.
    pub(super) fn undo(&self, id: OperationId, master: MasterId) {
        self.metrics.rollbacks.one();
        if let Some(round) = self.with(id, |flight| flight.operation.round()) {
            self.defer(id, master, round);
        }
    }

    /// `master` has forgotten our script and gets its text, if its answer still matters. What has been decided is sent
    /// again only to catch up with the others, and only if it can hit nothing that has come after it.
    pub(super) fn send_again(&self, master: MasterId, waiting: Waiting) -> bool {
        self.links[master.index()].forgot();
        self.send_once_more(master, waiting, Form::Text)
    }

    /// `master` has done nothing with a call that was sent [together](crate::lua::program::Program::together) with others.
    pub fn has_to_go_alone(self: &Rc<Self>, master: MasterId, waiting: Waiting) {
        if !self.send_once_more(master, waiting, Form::Sha) {
            self.lost(master, waiting);
        }
    }

    /// Whether a master is asked once more that was flushed before or after it answered: nobody can tell which. Where a lease is
    /// to go, the second answer will do: if the first was given before the flush, that went on at the same time.
    pub(super) fn is_asked_again_after_a_flush(
        &self,
        vote: &Proven<Heard<'_>>,
        waiting: Waiting,
    ) -> bool {
        let ends_leases = |flight: &mut Flight| flight.operation.builds_on_earlier_votes();
        vote.flush().is_none()
            && self.with(waiting.operation, ends_leases) == Some(true)
            && self.send_once_more(vote.master(), waiting, Form::Sha)
    }

    fn send_once_more(&self, master: MasterId, waiting: Waiting, form: Form) -> bool {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let round = waiting.round;
        let db = self.with(waiting.operation, |flight| {
            let operation = &flight.operation;
            let is_round = round == flight.operation.round();
            let is_open = is_round && flight.target.is_some() && !flight.pausing;
            if is_open || operation.must_arrive() {
                operation.encode_for(master, &self.rules, form, &mut scratch);
            }
            (operation.db, flight.term())
        });
        let Some((db, term)) = db else { return false };
        if !scratch.is_empty() {
            self.links[master.index()].send(db, &scratch, waiting, &term);
        }
        !scratch.is_empty()
    }

    fn defer(&self, id: OperationId, master: MasterId, round: u8) {
        let debt = self.with(id, |flight| flight.operation.debt(&self.rules, round));
        if let Some(debt) = debt.flatten() {
            self.links[master.index()].deliver(debt);
        }
    }
}
