//! What masters missed, and what has to be taken back.

use super::{Engine, Flight, OperationId};
use crate::master::link::{Part, Waiting};
use crate::metrics::Question;
use crate::operation::request::Form;
use crate::quorum::MasterId;

impl Engine {
    /// A second round (persisting, swapping) that finds too few voters leaves its first behind.
    pub(super) fn abandon(&self, id: OperationId) {
        let undo = self.with(id, |flight| flight.operation.abandon());
        for master in undo.unwrap_or_default().iter() {
            self.undo(id, master);
        }
    }

    /// Takes the operation's effect back on `master`, now or when its link is back.
    ///
    /// What is taken back by name goes to the link, which sees to it that it arrives. Everything else is sent with the
    /// text of the script: a master that had forgotten it would be sent it again behind a later operation.
    pub(super) fn undo(&self, id: OperationId, master: MasterId) {
        self.count_undo(id);
        let link = &self.links[master.index()];
        let Some(round) = self.with(id, |flight| flight.operation.round()) else { return };
        let by_name = self.with(id, |flight| flight.operation.is_taken_back_by_name());
        if by_name == Some(true) || !link.is_up() {
            return self.defer(id, master, round);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let db = self.with(id, |flight| {
            flight.operation.encode_undo(master, round, Form::Text, &mut scratch);
            if !scratch.is_empty() {
                flight.outstanding += 1;
            }
            flight.operation.db
        });
        if let (Some(db), false) = (db, scratch.is_empty()) {
            let waiting = Waiting { operation: id, round, part: Part::Undo };
            link.send(db, &scratch, waiting, &self.term());
        }
    }

    fn count_undo(&self, id: OperationId) {
        let question = self.with(id, |flight| flight.operation.question());
        match question {
            Some(Question::Claim) => self.metrics.rollbacks.one(),
            _ => self.metrics.undos.one(),
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
            let may_catch_up = is_round && flight.may_catch_up() && !is_overtaken;
            let matters = match operation.must_arrive() {
                true => !is_overtaken,
                false => is_open || may_catch_up,
            };
            if matters && waiting.part == Part::Ballot {
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

    /// A master that was lost before it answered gets later what takes back what it may have done.
    pub(super) fn make_up_later(
        &self,
        id: OperationId,
        master: MasterId,
        waiting: Waiting,
        answered: bool,
    ) {
        let needed = self.with(id, |flight| match waiting.part {
            Part::Undo => true,
            Part::Ballot if answered => false,
            Part::Ballot => {
                flight.unsure.insert(master);
                flight.target.is_none() && flight.operation.leaves_behind()
            }
        });
        if needed == Some(true) {
            self.defer(id, master, waiting.round);
        }
    }

    fn defer(&self, id: OperationId, master: MasterId, round: u8) {
        let debt = self.with(id, |flight| flight.operation.debt(&self.rules, master, round));
        if let Some(debt) = debt.flatten() {
            self.links[master.index()].deliver(debt);
        }
    }
}
