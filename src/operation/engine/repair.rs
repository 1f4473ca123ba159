//! What masters missed, and what has to be taken back.

use super::{Engine, Flight, OperationId};
use crate::clock;
use crate::master::link::{Part, Waiting};
use crate::metrics::Question;
use crate::operation::Undo;
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
    /// With the text of the script: a master that had forgotten it would be sent it again behind a later claim
    /// with the same token, and take that back.
    pub(super) fn undo(&self, id: OperationId, master: MasterId) {
        self.count_undo(id);
        let link = &self.links[master.index()];
        if !link.is_up() {
            return self.defer(id, master);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let now = clock::now();
        let sent = self.with(id, |flight| {
            let round = flight.operation.round();
            let undo = Undo { master, round, now };
            flight.operation.encode_undo(&self.rules, &undo, Form::Text, &mut scratch);
            if !scratch.is_empty() {
                flight.outstanding += 1;
            }
            (flight.operation.db, round)
        });
        if let (Some((db, round)), false) = (sent, scratch.is_empty()) {
            link.send(db, &scratch, Waiting { operation: id, round, part: Part::Undo });
        }
    }

    fn count_undo(&self, id: OperationId) {
        let question = self.with(id, |flight| flight.operation.question());
        match question {
            Some(Question::Claim) => self.metrics.rollbacks.one(),
            _ => self.metrics.undos.one(),
        }
    }

    /// `master` has forgotten our script and gets its text, if its answer still matters. What has
    /// been decided is sent again only to catch up with the others, and not once anything else was sent
    /// that touches the same keys: a lock that has been released since would come back. Nor is a release, which
    /// might hit a younger claim with the same token: it is made up for, when the time to live tells the two apart.
    pub(super) fn send_again(&self, master: MasterId, waiting: Waiting) -> bool {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let round = waiting.round;
        let is_overtaken = self.is_overtaken(waiting.operation, master);
        let db = self.with(waiting.operation, |flight| {
            let operation = &flight.operation;
            let is_round = round == operation.round();
            let is_open = is_round && flight.target.is_some() && !flight.pausing;
            // A program that has won without the master may still be run there.
            let may_catch_up = is_round && operation.catches_up() && !is_overtaken;
            let matters = match operation.must_arrive() {
                true => !is_overtaken,
                false => is_open || may_catch_up,
            };
            if matters && waiting.part == Part::Ballot {
                operation.encode(&self.rules, Form::Text, &mut scratch);
            }
            operation.db
        });
        let Some(db) = db else { return false };
        self.links[master.index()].forgot();
        if !scratch.is_empty() {
            self.links[master.index()].send(db, &scratch, waiting);
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

    /// A master that was lost before it answered, or could not do it, gets later what it missed.
    /// Only a release is sure to have been missed by a master that `answered` with an error.
    pub(super) fn make_up_later(
        &self,
        id: OperationId,
        master: MasterId,
        part: Part,
        answered: bool,
    ) {
        let needed = self.with(id, |flight| match part {
            Part::Undo => true,
            Part::Ballot if answered && !flight.operation.must_arrive() => false,
            Part::Ballot => {
                flight.unsure.insert(master);
                flight.target.is_none() && flight.leaves_behind(master)
            }
        });
        if needed == Some(true) {
            self.defer(id, master);
        }
    }

    pub(super) fn defer(&self, id: OperationId, master: MasterId) {
        let debt = self.with(id, |flight| flight.operation.debt(&self.rules, master)).flatten();
        if let Some(debt) = debt.and_then(|debt| debt.for_later(clock::now())) {
            self.links[master.index()].defer(debt);
        }
    }

    /// Masters that could not be asked, or were lost before they answered, may hold what the client
    /// is about to be told is gone. One that has come back in the meantime gets it at once.
    pub(super) fn make_up(&self, id: OperationId) {
        for link in &self.links {
            let master = link.master();
            let left = self.with(id, |flight| {
                let missed = !link.is_up() || flight.unsure.contains(master);
                missed && flight.leaves_behind(master)
            });
            if left == Some(true) {
                self.undo(id, master);
            }
        }
    }
}
