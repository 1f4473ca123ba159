//! Taking turns on keys, and starting what waited for its turn.

use std::rc::Rc;
use std::time::Duration;

use super::{Engine, OperationId};
use crate::client::outbox::Target;
use crate::decision::quorum::turn;
use crate::operation::verdict;
use crate::resp::reply::Reply;
use crate::time::clock;

impl Engine {
    /// Asks the masters once the turns on all its keys are its own. They are taken one after the other,
    /// always in the same order, so that no two operations wait for each other.
    pub(super) fn take_turns(self: &Rc<Self>, id: OperationId) {
        loop {
            let next = self.with(id, |flight| flight.operation.turns().get(flight.turns).copied());
            let Some(key) = next.flatten() else { return self.ask_once_told(id) };
            let entry = self.turns.borrow_mut().enter(key, id, turn::Kind::Alone);
            match entry {
                turn::Entry::Now => _ = self.with(id, |flight| flight.turns += 1),
                turn::Entry::Wait => return self.waits_since(id),
                turn::Entry::Full => return self.turn_away(id),
            }
        }
    }

    /// A program on several keys waits for masters that have yet to say whether they hold what it is to run on.
    fn ask_once_told(self: &Rc<Self>, id: OperationId) {
        let places = self
            .with(id, |flight| flight.operation.waits_for_holders(&self.rules).map(<[_]>::to_vec));
        let Some(places) = places.flatten() else { return self.ask(id) };
        self.waits_since(id);
        let (registers, longest) = (Rc::clone(&self.rules.registers), self.rules.wait_for_all());
        let told = async move {
            if tokio::time::timeout(longest, registers.heard(&places)).await.is_err() {
                // This worker may have stood still itself: what has come meanwhile is read first.
                tokio::task::yield_now().await;
                registers.miss(registers.awaited(&places));
            }
        };
        self.pause_until(id, told, move |engine, _| engine.ask(id));
    }

    /// What a client has sent for a lease runs as a program. A turn that it has on the key is the program's.
    pub(super) fn go_on_as_program(self: &Rc<Self>, id: OperationId) {
        self.with(id, |flight| {
            let turn = self.fingerprint(flight.operation.db, &flight.operation.key);
            flight.operation.go_on_as_program(&self.rules, turn);
            flight.turns = usize::from(flight.turn.take().is_some());
            // As before its first round: whoever waits for a turn then has not had it.
            flight.deadline = None;
        });
        self.take_turns(id);
    }

    /// A program takes the turns of keys that it has come to, along with those that it had: it gives these back first, as all
    /// turns are taken in order.
    pub(super) fn take_on(self: &Rc<Self>, id: OperationId) {
        let held = self.with(id, |flight| {
            let held = flight.operation.turns()[..std::mem::take(&mut flight.turns)].to_vec();
            let places = flight.operation.come_to().iter();
            let keys = places.map(|place| self.fingerprint(place.db.into(), &place.key)).collect();
            flight.operation.take_on(keys);
            // As before its first round: whoever waits for a turn then has not had it.
            flight.deadline = None;
            held
        });
        self.leave_turns(held.unwrap_or_default(), false);
        self.take_turns(id);
    }

    /// A turn that was waited for has come.
    pub(super) fn go_on(self: &Rc<Self>, id: OperationId) {
        debug_assert!(
            self.with(id, |_| ()).is_some(),
            "who waits for a turn is not answered before"
        );
        let in_vain = self.with(id, |flight| {
            let waited = flight.turns < flight.operation.turns().len();
            flight.turns += usize::from(waited && flight.deadline.is_none());
            flight.came_to_nothing.then(|| flight.operation.as_known(verdict::waited_in_line()))
        });
        match in_vain.flatten() {
            Some(reply) => {
                self.reply(id, reply, turn::End::Done);
                self.retire(id);
            }
            None => self.take_turns(id),
        }
    }

    pub(super) fn turn_away(&self, id: OperationId) {
        self.metrics.turned_away.one();
        self.reply(id, verdict::too_many_waiting(), turn::End::Done);
        self.retire(id);
    }

    /// One after the other and not from within each other: thousands may be waiting for one key.
    pub(super) fn start_ready(self: &Rc<Self>) {
        self.publish_announcements();
        loop {
            let next = self.ready.borrow_mut().pop_front();
            match next {
                Some(id) if self.is_abandoned(id) => {
                    self.reply(id, Reply::Nil, turn::End::Done);
                    self.retire(id);
                }
                Some(id) => self.go_on(id),
                None => return,
            }
        }
    }

    /// A claim whose client has gone while it waited: there is nobody to grant it to.
    pub(super) fn is_abandoned(&self, id: OperationId) -> bool {
        let abandoned = self.with(id, |flight| {
            let gone = flight.target.as_ref().is_none_or(Target::is_closed);
            gone && flight.operation.needs_its_client()
        });
        abandoned == Some(true)
    }

    pub(super) fn leave_turns(&self, held: Vec<u64>, was_in_vain: bool) {
        for key in held {
            let concerned = self.turns.borrow_mut().leave(key, turn::End::Done);
            self.hand_over(concerned.next, was_in_vain);
        }
    }

    /// The turn on a key is `next`'s. Whoever stood in line behind one that waited for masters in vain has waited for
    /// them as well: it has what is left of its patience.
    pub(super) fn hand_over(&self, next: Option<OperationId>, was_in_vain: bool) {
        let Some(next) = next else { return };
        if was_in_vain {
            self.with(next, |flight| {
                let waited = flight.started_us.map_or(0, |since| self.stopwatch.since(since));
                let left = self.rules.patience.saturating_sub(Duration::from_micros(waited));
                flight.last = Some(clock::now() + left);
                flight.came_to_nothing = left.is_zero();
            });
        }
        self.ready.borrow_mut().push_back(next);
    }

    /// A claim that waited while another one decided its fate.
    pub(super) fn share(&self, id: OperationId, reply: &Reply) {
        let taken = self.with(id, |flight| {
            flight.turn = None;
            let (target, reply) = (flight.target.take()?, flight.operation.shared(reply));
            self.count_verdict(&flight.operation, &reply);
            self.count_time(flight, &target);
            Some((target, reply))
        });
        if let Some((target, reply)) = taken.flatten() {
            target.deliver(reply);
        }
        self.retire(id);
    }
}
