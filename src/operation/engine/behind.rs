//! Keeping a later attempt behind an earlier one whose outcome on a master is still open.
//!
//! A script that finds its own token takes it for its own, also when an earlier attempt has left it
//! there that is about to be taken back. So while a master owes the answer to an operation that has
//! lost, what uses the same keys is not sent to that master: first comes the answer, then the undo, then
//! the next attempt. All other masters get it at once. The same holds for the rounds of one operation.

use std::collections::HashMap;
use std::rc::Rc;

use super::{Engine, Flight, OperationId};
use crate::clock;
use crate::master::link::{Part, Waiting};
use crate::operation::request::Form;
use crate::quorum::{MasterId, MasterSet};

/// See the module.
#[derive(Default)]
pub(super) struct Behind {
    /// Operations that have lost and await answers, by fingerprint of key.
    open: HashMap<u64, Vec<OperationId>, foldhash::fast::RandomState>,
    /// What is held back, in the order in which it was to be sent.
    held: Vec<Held>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    operation: OperationId,
    master: MasterId,
    round: u8,
}

impl Engine {
    /// Those of `asked` to which the operation must not be sent yet; `owed`: who owes it an answer.
    pub(super) fn held_back(
        &self,
        id: OperationId,
        asked: MasterSet,
        owed: MasterSet,
    ) -> MasterSet {
        let behind = self.behind.borrow();
        if behind.open.is_empty() && behind.held.is_empty() && owed.is_empty() {
            return MasterSet::EMPTY;
        }
        asked.iter().filter(|master| self.is_behind(id, *master, &behind.held)).collect()
    }

    /// Sends it to `master` when its time has come.
    pub(super) fn hold(&self, waiting: Waiting, master: MasterId) {
        let held = Held { operation: waiting.operation, master, round: waiting.round };
        self.behind.borrow_mut().held.push(held);
    }

    /// The keys of an operation that is about to be answered, if it has lost, and some answers are still open: others
    /// stay behind it there.
    pub(super) fn open_keys(&self, flight: &mut Flight) -> Vec<u64> {
        flight.others_behind = flight.operation.may_find_itself()
            && !flight.operation.has_changed()
            && !flight.awaited.is_empty();
        self.keys_to_leave(flight)
    }

    pub(super) fn keep_others_behind(&self, id: OperationId, keys: Vec<u64>) {
        for key in keys {
            self.behind.borrow_mut().open.entry(key).or_default().push(id);
        }
    }

    /// The keys where others have stayed behind it.
    pub(super) fn keys_to_leave(&self, flight: &Flight) -> Vec<u64> {
        if flight.others_behind { self.keys_of(flight) } else { Vec::new() }
    }

    /// Nothing of it is open any more.
    pub(super) fn is_behind_nobody(&self, id: OperationId, keys: Vec<u64>) {
        for key in keys {
            let mut behind = self.behind.borrow_mut();
            if let Some(open) = behind.open.get_mut(&key) {
                open.retain(|other| *other != id);
                if open.is_empty() {
                    behind.open.remove(&key);
                }
            }
        }
    }

    /// `master` has answered something: whoever waited for that is sent to it now.
    pub(super) fn let_through(self: &Rc<Self>, master: MasterId) {
        while !self.behind.borrow().held.is_empty() {
            let next = {
                let behind = self.behind.borrow();
                let mine = |held: &Held| held.master == master;
                let places = behind.held.iter().enumerate().filter(|(_, held)| mine(held));
                let free = |(at, held): &(usize, &Held)| {
                    !self.is_behind(held.operation, master, &behind.held[..*at])
                };
                places.into_iter().find(free).map(|(at, _)| at)
            };
            let Some(at) = next else { return };
            let held = self.behind.borrow_mut().held.remove(at);
            self.send_held(held);
        }
    }

    /// Whether `master` still has to answer an earlier round of it, or something that it must not
    /// overtake; `held` is what was held back before it.
    fn is_behind(&self, id: OperationId, master: MasterId, held: &[Held]) -> bool {
        let keys =
            |flight: &mut Flight| flight.operation.may_find_itself().then(|| self.keys_of(flight));
        let Some(own) = self.with(id, keys).flatten() else { return false };
        let awaits = |id: &OperationId| {
            self.with(*id, |flight| flight.awaited.contains(master)) == Some(true)
        };
        let behind = self.behind.borrow();
        let is_open = |key: &u64| behind.open.get(key).is_some_and(|open| open.iter().any(awaits));
        let is_before = |before: &Held| {
            let others = self.with(before.operation, |flight| self.keys_of(flight));
            before.master == master
                && others.unwrap_or_default().iter().any(|key| own.contains(key))
        };
        awaits(&id) || own.iter().any(is_open) || held.iter().any(is_before)
    }

    /// What was decided in the meantime is only sent to catch up, and not for long.
    fn send_held(self: &Rc<Self>, held: Held) {
        let Held { operation: id, master, round } = held;
        let link = &self.links[master.index()];
        let mut scratch = Vec::new();
        let sent = self.with(id, |flight| {
            let operation = &flight.operation;
            let current = operation.round() == round && !flight.pausing;
            if !current || flight.target.is_none() && !flight.may_catch_up() {
                flight.outstanding -= 1;
                return None;
            }
            if link.is_up() {
                operation.encode(&self.rules, Form::Sha, &mut scratch);
                flight.awaited.insert(master);
            }
            Some((operation.db, operation.program(), flight.term()))
        });
        let Some((db, program, term)) = sent.flatten() else { return self.retire(id) };
        let waiting = Waiting { operation: id, round, part: Part::Ballot };
        if scratch.is_empty() {
            return self.settle(master, waiting, None, clock::now());
        }
        link.send_program(program.as_deref(), db, &scratch, waiting, &term);
    }
}
