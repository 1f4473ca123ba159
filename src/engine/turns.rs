//! Turns on keys, and the start of operations whose turn has come.

use std::rc::Rc;
use std::time::Duration;

use super::Engine;
use super::flight::{Flight, OperationId};
use super::panel::Panel;
use crate::client::outbox::Target;
use crate::decision::quorum::turn;
use crate::operation::{Behaviour, verdict};
use crate::resp::reply::Reply;
use crate::time::clock;

impl Engine {
    /// Asks the masters once the operation has the turns on all its keys. Turns are taken one after the other, always
    /// in the same order, so that no two operations wait for each other.
    pub(super) fn take_turns(self: &Rc<Self>, flight: &mut Flight, panel: &Panel) {
        while let Some(key) = flight.operation.kind.turns().get(flight.turns).copied() {
            let entry = self.turns.borrow_mut().enter(key, flight.id, turn::TurnKind::Alone);
            match entry {
                turn::Entry::Now => flight.turns += 1,
                turn::Entry::Wait => return self.waits_since_now(flight),
                turn::Entry::Full => return self.turn_away(flight),
            }
        }
        self.ask_once_told(flight, panel);
    }

    /// Asks the masters. A program on several keys first waits for masters that have yet to confirm that they hold the
    /// state on which it runs.
    fn ask_once_told(self: &Rc<Self>, flight: &mut Flight, panel: &Panel) {
        let places = flight.operation.waits_for_holders(&flight.rules).map(<[_]>::to_vec);
        let Some(places) = places else { return self.ask(flight, panel) };
        self.waits_since_now(flight);
        let (registers, longest) =
            (Rc::clone(&flight.rules.registers), flight.rules.wait_for_all());
        let told = async move {
            if tokio::time::timeout(longest, registers.heard(&places)).await.is_err() {
                // This worker itself may have stalled: answers that arrived meanwhile are read first.
                tokio::task::yield_now().await;
                registers.miss(registers.awaited(&places));
            }
        };
        self.pause_until(flight, told, |engine, flight, _| {
            engine.ask(flight, &engine.panel());
        });
    }

    /// Continues a request for a lease as a program, because the key is no lease. If it has the turn on the key, the
    /// program keeps it.
    pub(super) fn go_on_as_program(self: &Rc<Self>, flight: &mut Flight) {
        let turn = self.fingerprint(flight.operation.db, &flight.operation.key);
        flight.operation.go_on_as_program(&flight.rules, turn);
        flight.turns = usize::from(flight.turn.take().is_some());
        // Reset as before the first round: the operation is waiting for a turn again.
        flight.deadline = None;
        self.take_turns(flight, &self.panel());
    }

    /// Takes the turns on keys that a program has reached, along with those that it had. The latter are given back
    /// first, as all turns are taken in order.
    pub(super) fn take_on(self: &Rc<Self>, flight: &mut Flight) {
        let held = flight.operation.kind.turns()[..std::mem::take(&mut flight.turns)].to_vec();
        let places = flight.operation.kind.come_to().iter();
        let keys = places.map(|place| self.fingerprint(place.db.into(), &place.key)).collect();
        flight.operation.kind.take_on(keys);
        // Reset as before the first round: the operation is waiting for a turn again.
        flight.deadline = None;
        self.leave_turns(held, false);
        self.take_turns(flight, &self.panel());
    }

    /// Continues an operation whose turn has come, unless its client has gone or its patience has passed.
    fn go_on(self: &Rc<Self>, flight: &mut Flight) {
        if is_abandoned(flight) {
            return self.reply(flight, Reply::Nil, turn::End::Done);
        }
        let waited = flight.turns < flight.operation.kind.turns().len();
        flight.turns += usize::from(waited && flight.deadline.is_none());
        if flight.came_to_nothing {
            let reply = flight.operation.kind.as_known(verdict::waited_in_line());
            return self.reply(flight, reply, turn::End::Done);
        }
        self.take_turns(flight, &self.panel());
    }

    pub(super) fn turn_away(&self, flight: &mut Flight) {
        self.metrics.turned_away.one();
        self.reply(flight, verdict::too_many_waiting(), turn::End::Done);
    }

    /// Starts the clock of an operation that must wait before it is sent.
    pub(super) fn waits_since_now(&self, flight: &mut Flight) {
        flight.started_us.get_or_insert(self.stopwatch.us());
    }

    /// Starts operations that waited for their turn, in a loop rather than recursively: thousands may be waiting for
    /// one key.
    #[inline]
    pub(super) fn start_ready(self: &Rc<Self>) {
        self.publish_announcements();
        if !self.ready.borrow().is_empty() {
            self.start_all_ready();
        }
    }

    fn start_all_ready(self: &Rc<Self>) {
        loop {
            let next = self.ready.borrow_mut().pop_front();
            let Some(id) = next else { return };
            let was_there = self.on_flight(id, |flight| self.go_on(flight));
            debug_assert!(was_there.is_some(), "what waits for a turn is not answered before");
        }
    }

    pub(super) fn leave_turns(&self, held: Vec<u64>, was_in_vain: bool) {
        for key in held {
            let concerned = self.turns.borrow_mut().leave(key, turn::End::Done);
            self.hand_over(concerned.next, was_in_vain);
            self.end_waits(key, &Reply::Nil, turn::End::Done);
        }
    }

    /// Gives the turn on a key to `next`. An operation queued behind one that waited for masters in vain has waited for
    /// them as well, so only the rest of its patience is left.
    pub(super) fn hand_over(&self, next: Option<OperationId>, was_in_vain: bool) {
        let Some(next) = next else { return };
        if was_in_vain {
            self.on_flight(next, |flight| {
                let waited = flight.started_us.map_or(0, |since| self.stopwatch.since(since));
                let left = self.rules().patience.saturating_sub(Duration::from_micros(waited));
                flight.last = Some(clock::now() + left);
                flight.came_to_nothing = left.is_zero();
            });
        }
        self.ready.borrow_mut().push_back(next);
    }

    /// Answers a claim whose outcome another one decided while it waited.
    pub(super) fn share(&self, id: OperationId, reply: &Reply) {
        let taken = self.on_flight(id, |flight| {
            let key = flight.turn.take();
            let (target, reply) = (flight.target.take()?, flight.operation.kind.shared(reply));
            if let Some(key) = key {
                self.note_poll(&flight.operation, key, &reply, turn::End::Lost);
            }
            self.count_verdict(&flight.operation, &reply);
            self.count_time(flight, &target);
            self.announce(self.told(&flight.operation, &reply));
            Some((target, reply))
        });
        if let Some((target, reply)) = taken.flatten() {
            target.deliver(reply);
        }
    }
}

/// Returns whether a claim's client has gone while it waited: a grant would have no recipient.
fn is_abandoned(flight: &Flight) -> bool {
    flight.operation.kind.needs_its_client() && flight.target.as_ref().is_none_or(Target::is_closed)
}
