//! What masters missed, and what has to be taken back.

use super::{Engine, Flight, OperationId};
use crate::master::link::Waiting;
use crate::operation::request::Form;
use crate::quorum::MasterId;

impl Engine {
    /// Takes the operation's effect back on `master`, now or when its link is back: the link sees to it that it arrives.
    pub(super) fn undo(&self, id: OperationId, master: MasterId) {
        self.metrics.rollbacks.one();
        if let Some(round) = self.with(id, |flight| flight.operation.round()) {
            self.defer(id, master, round);
        }
    }

    /// `master` has forgotten our script and gets its text, if its answer still matters. What has been decided is sent
    /// again only to catch up with the others, and not once anything else was sent that touches the same keys: a lock
    /// that has been released since would come back.
    pub(super) fn send_again(&self, master: MasterId, waiting: Waiting) -> bool {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let round = waiting.round;
        let is_overtaken = self.is_overtaken(waiting.operation, master);
        let db = self.with(waiting.operation, |flight| {
            let operation = &flight.operation;
            let is_round = round == flight.operation.round();
            let is_open = is_round && flight.target.is_some() && !flight.pausing;
            let matters = match operation.must_arrive() {
                true => !is_overtaken,
                false => is_open,
            };
            if matters {
                operation.encode_for(master, &self.rules, Form::Text, &mut scratch);
            }
            (operation.db, flight.term())
        });
        let Some((db, term)) = db else { return false };
        self.links[master.index()].forgot();
        if !scratch.is_empty() {
            self.links[master.index()].send(db, &scratch, waiting, &term);
        }
        !scratch.is_empty()
    }

    /// Whether something that uses one of its keys was sent to `master` after it, and not answered yet.
    fn is_overtaken(&self, id: OperationId, master: MasterId) -> bool {
        let Some(own) = self.with(id, |flight| self.keys_of(flight)) else { return false };
        let later = self.links[master.index()].operations();
        later.into_iter().filter(|other| *other != id).any(|other| {
            let others = self.with(other, |flight| self.keys_of(flight)).unwrap_or_default();
            others.iter().any(|key| own.contains(key))
        })
    }

    pub(super) fn keys_of(&self, flight: &Flight) -> Vec<u64> {
        let own = self.fingerprint(flight.operation.db, &flight.operation.key);
        let mut keys = flight.operation.turns().to_vec();
        keys.push(own);
        keys
    }

    fn defer(&self, id: OperationId, master: MasterId, round: u8) {
        let debt = self.with(id, |flight| flight.operation.debt(&self.rules, round));
        if let Some(debt) = debt.flatten() {
            self.links[master.index()].deliver(debt);
        }
    }
}
