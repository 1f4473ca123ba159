//! Claims that are taken back, and requests that are resent.

use std::rc::Rc;

use super::Engine;
use super::flight::Flight;
use super::link::Waiting;
use crate::decision::quorum::MasterId;
use crate::decision::roster::mark::Proven;
use crate::operation::request::Form;
use crate::operation::{Behaviour, Heard};
use crate::time::clock;

impl Engine {
    /// Takes the operation's effect back on `master`, now or once its link is back: the link ensures that the request
    /// arrives.
    pub(super) fn undo(&self, flight: &Flight, master: MasterId) {
        self.metrics.rollbacks.one();
        if let Some(debt) = flight.operation.debt(&flight.rules, flight.operation.kind.round()) {
            self.links[master.index()].deliver(debt);
        }
    }

    /// Resends a request with the script's text to `master`, which has forgotten our script, if its answer still
    /// matters. A decided request is resent only so that the master catches up, and only if it can affect nothing
    /// later.
    pub(super) fn send_again(&self, flight: &Flight, master: MasterId, round: u8) -> bool {
        self.links[master.index()].forgot();
        self.send_once_more(flight, master, round, Form::Text)
    }

    /// Resends a call alone, after `master` skipped it in a call [together](crate::lua::program::ProgramText::together)
    /// with others.
    pub fn has_to_go_alone(self: &Rc<Self>, master: MasterId, waiting: Waiting) {
        self.on_flight(waiting.operation, |flight| {
            if !self.send_once_more(flight, master, waiting.round, Form::Sha) {
                self.receive(flight, master, waiting.round, None, clock::now());
            }
        });
        self.start_ready();
    }

    /// Resends a request to a master that was flushed either before or after it answered. When a lease is to be
    /// removed, the second answer is enough: if the first was given before the flush, the two were concurrent.
    pub(super) fn is_asked_again_after_a_flush(
        &self,
        flight: &Flight,
        vote: &Proven<Heard<'_>>,
        round: u8,
    ) -> bool {
        vote.flush().is_none()
            && flight.operation.kind.builds_on_earlier_votes()
            && self.send_once_more(flight, vote.master(), round, Form::Sha)
    }

    fn send_once_more(&self, flight: &Flight, master: MasterId, round: u8, form: Form) -> bool {
        let operation = &flight.operation;
        let is_open = round == operation.kind.round() && flight.target.is_some() && !flight.pausing;
        if !is_open && !operation.kind.must_arrive() {
            return false;
        }
        let mut request = self.scratch.borrow_mut();
        request.clear();
        operation.encode_for(master, &flight.rules, form, &mut request);
        let waiting = Waiting { operation: flight.id, round };
        let link = &self.links[master.index()];
        link.send(operation.db, &request, waiting, &flight.term());
        true
    }
}
