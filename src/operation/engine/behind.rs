//! Keeping a later attempt behind an earlier one whose outcome on a master is still open.
//!
//! A script that finds its own token takes it for its own, also when an earlier attempt has left it
//! there that is about to be taken back. So while a master owes the answer to an operation that has
//! lost, what uses the same keys is not sent to that master: first comes the answer, then the undo, then
//! the next attempt. All other masters get it at once. The same holds for the rounds of one program.

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
    /// Those of `voters` to which the operation must not be sent yet.
    pub(super) fn held_back(&self, id: OperationId, voters: MasterSet) -> MasterSet {
        let behind = self.behind.borrow();
        let overdue = self.with(id, |flight| flight.operation.overdue()).unwrap_or_default();
        if behind.open.is_empty() && behind.held.is_empty() && overdue.is_empty() {
            return MasterSet::EMPTY;
        }
        voters.iter().filter(|master| self.is_behind(id, *master, &behind.held)).collect()
    }

    /// Sends it to `master` when its time has come.
    pub(super) fn hold(&self, waiting: Waiting, master: MasterId) {
        let held = Held { operation: waiting.operation, master, round: waiting.round };
        self.behind.borrow_mut().held.push(held);
    }

    /// It is about to be answered. If it has lost, and some answers are still open, others stay behind
    /// it there.
    pub(super) fn keep_others_behind(&self, id: OperationId) {
        let keys = self.with(id, |flight| {
            let open = flight.operation.may_find_itself()
                && !flight.operation.is_kept()
                && !flight.awaited.is_empty();
            flight.others_behind = open;
            open.then(|| self.keys_of(flight))
        });
        for key in keys.flatten().unwrap_or_default() {
            self.behind.borrow_mut().open.entry(key).or_default().push(id);
        }
    }

    /// Nothing of it is open any more.
    pub(super) fn is_behind_nobody(&self, id: OperationId) {
        let keys = self.with(id, |flight| flight.others_behind.then(|| self.keys_of(flight)));
        let mut behind = self.behind.borrow_mut();
        for key in keys.flatten().unwrap_or_default() {
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

    fn is_behind(&self, id: OperationId, master: MasterId, held: &[Held]) -> bool {
        let keys =
            |flight: &mut Flight| flight.operation.may_find_itself().then(|| self.keys_of(flight));
        let Some(own) = self.with(id, keys).flatten() else { return false };
        let overdue = self.with(id, |flight| flight.operation.overdue().contains(master));
        if overdue == Some(true) {
            return true;
        }
        let awaits = |other: &OperationId| {
            let awaited = self.with(*other, |flight| flight.awaited.contains(master));
            *other != id && awaited == Some(true)
        };
        let is_open = own.iter().any(|key| {
            let behind = self.behind.borrow();
            behind.open.get(key).is_some_and(|open| open.iter().any(awaits))
        });
        is_open
            || held.iter().any(|before| {
                let others = self.with(before.operation, |flight| self.keys_of(flight));
                before.master == master
                    && before.operation != id
                    && others.unwrap_or_default().iter().any(|key| own.contains(key))
            })
    }

    /// What was decided in the meantime is only sent to catch up.
    fn send_held(self: &Rc<Self>, held: Held) {
        let Held { operation: id, master, round } = held;
        let waiting = Waiting { operation: id, round, part: Part::Ballot };
        let link = &self.links[master.index()];
        let mut scratch = Vec::new();
        let sent = self.with(id, |flight| {
            let operation = &flight.operation;
            let current = operation.round() == round && !flight.pausing;
            let matters = current && (flight.target.is_some() || operation.catches_up());
            if matters && link.is_up() {
                operation.encode(&self.rules, Form::Sha, &mut scratch);
            }
            (operation.db, operation.program())
        });
        match sent {
            Some((db, program)) if !scratch.is_empty() => {
                if let Some(program) = program {
                    link.load(&program);
                }
                link.send(db, &scratch, waiting);
            }
            _ => self.settle(master, waiting, None, clock::now()),
        }
    }
}
