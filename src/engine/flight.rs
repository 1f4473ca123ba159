//! Operations in flight.
//!
//! A flight lasts until every frame sent for it has been answered or given up. That is usually after its client has the
//! reply. The quorum decides the verdict, but the link must still read the last master's ballot.
//!
//! Each event takes the flight out of its slot, passes it from function to function, and puts it back at the end
//! ([`Engine::on_flight`]). So it is looked up only once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use slab::Slab;

use super::Engine;
use crate::client::outbox::Target;
use crate::decision::quorum::MasterSet;
use crate::decision::roster::poll::Poll;
use crate::decision::roster::term::Term;
use crate::operation::{Behaviour, Operation, Rules};
use crate::time::clock::Instant;

/// The name of a flight. The serial number distinguishes it from a later one in the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId {
    pub(super) slot: u32,
    pub(super) serial: u32,
}

/// An operation in flight.
pub(super) struct Flight {
    pub(super) id: OperationId,
    pub(super) operation: Operation,
    /// The facts on which its decisions depend, as they were when it was first sent.
    pub(super) rules: Rc<Rules>,
    /// Version of the roster in which it was first sent, by whose quorum it is decided.
    pub(super) begun: Option<u64>,
    /// Stopwatch reading when the operation was first sent, or began to wait for its turn.
    pub(super) started_us: Option<u64>,
    /// Stopwatch reading when the last round was sent.
    pub(super) asked_us: u64,
    /// The last round that was sent.
    pub(super) asked_round: u8,
    /// The client that gets the reply, until it has been delivered.
    pub(super) target: Option<Target>,
    /// Fingerprint of the key whose turn this operation holds or waits for.
    pub(super) turn: Option<u64>,
    /// Number of [`crate::operation::Behaviour::turns`] that it holds.
    pub(super) turns: usize,
    /// Frames on links that have not been answered yet.
    pub(super) outstanding: u16,
    /// The votes of the current round that count together; `None` before the first.
    pub(super) poll: Option<Poll<Rc<Term>>>,
    /// Masters that were asked, may have changed something, and have yet to vote.
    pub(super) awaited: MasterSet,
    /// Whether masters were sent a note that the lease given back here is over.
    pub(super) is_noted: bool,
    /// Whether the operation is pausing, for example after a split vote.
    pub(super) pausing: bool,
    /// Number of pauses so far.
    pub(super) pauses: u32,
    /// End of the current round for a silent minority; `None` before the first.
    pub(super) deadline: Option<Instant>,
    /// End of its client's patience; `None` before the first round.
    pub(super) last: Option<Instant>,
    /// Whether the client's patience passed before the operation's turn came, because the operation ahead waited in
    /// vain. The operation is then never sent.
    pub(super) came_to_nothing: bool,
}

impl Flight {
    /// Opens the poll of the next round, or returns `None` if it would rely on votes of masters that have since lost
    /// their memory. `flush` is the last one of its database that any master has shown.
    pub(super) fn poll_in(&self, term: &Rc<Term>, flush: u64) -> Option<Poll<Rc<Term>>> {
        let begun = self.begun.unwrap_or(term.version());
        let poll = || Poll::new(Rc::clone(term)).begun_in(begun);
        match &self.poll {
            Some(poll) if self.operation.kind.builds_on_earlier_votes() => {
                poll.again(Rc::clone(term))
            }
            _ if self.operation.kind.is_about_a_lease() => Some(poll().between_flushes(flush)),
            _ => Some(poll()),
        }
    }

    /// Returns whether its client's patience has passed.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now >= last)
    }

    /// Returns the newest term that a vote was counted in.
    pub(super) fn term(&self) -> Rc<Term> {
        self.poll.as_ref().map(|poll| Rc::clone(poll.term())).unwrap_or_default()
    }

    /// Returns whether replies to earlier requests of its client must be sent first.
    pub(super) fn is_too_early(&self) -> bool {
        self.target.as_ref().is_some_and(|target| !target.is_next())
    }

    /// Returns whether the client has its reply and no request is in flight.
    fn is_done(&self) -> bool {
        self.outstanding == 0 && self.target.is_none() && !self.pausing
    }
}

/// All flights of one worker.
#[derive(Default)]
pub(super) struct Flights {
    slots: RefCell<Slab<Slot>>,
    serial: Cell<u32>,
}

struct Slot {
    serial: u32,
    /// `None` while an event is being handled.
    flight: Option<Box<Flight>>,
}

impl Flights {
    /// Returns the number of flights.
    pub(super) fn count(&self) -> usize {
        self.slots.borrow().len()
    }

    /// Begins a flight and returns it outside its slot, as during an event.
    pub(super) fn begin(
        &self,
        operation: Operation,
        target: Target,
        rules: Rc<Rules>,
    ) -> Box<Flight> {
        let serial = self.serial.get().wrapping_add(1);
        self.serial.set(serial);
        let slot = self.slots.borrow_mut().insert(Slot { serial, flight: None }) as u32;
        Box::new(Flight {
            id: OperationId { slot, serial },
            operation,
            rules,
            begun: None,
            started_us: None,
            asked_us: 0,
            asked_round: 0,
            target: Some(target),
            turn: None,
            turns: 0,
            outstanding: 0,
            poll: None,
            awaited: MasterSet::EMPTY,
            is_noted: false,
            pausing: false,
            pauses: 0,
            deadline: None,
            last: None,
            came_to_nothing: false,
        })
    }

    /// Reads a flight that is in its slot.
    pub(super) fn look<T>(&self, id: OperationId, look: impl FnOnce(&Flight) -> T) -> Option<T> {
        let slots = self.slots.borrow();
        let slot = slots.get(id.slot as usize).filter(|slot| slot.serial == id.serial)?;
        slot.flight.as_deref().map(look)
    }

    fn take(&self, id: OperationId) -> Option<Box<Flight>> {
        let mut slots = self.slots.borrow_mut();
        let slot = slots.get_mut(id.slot as usize).filter(|slot| slot.serial == id.serial)?;
        slot.flight.take()
    }

    fn put_back(&self, flight: Box<Flight>) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(flight.id.slot as usize) {
            slot.flight = Some(flight);
        }
    }

    fn end(&self, flight: &Flight) {
        self.slots.borrow_mut().remove(flight.id.slot as usize);
    }
}

impl Engine {
    /// Passes a flight to `act`, if there is one of this name, and [puts it back](Engine::put_back).
    ///
    /// One event changes one flight: `act` must not call this again with the same name.
    pub(super) fn on_flight<T>(
        &self,
        id: OperationId,
        act: impl FnOnce(&mut Flight) -> T,
    ) -> Option<T> {
        let mut flight = self.flights.take(id)?;
        let result = act(&mut flight);
        self.put_back(flight);
        Some(result)
    }

    /// Puts a flight back into its slot, or ends it if none of its requests is in flight.
    pub(super) fn put_back(&self, mut flight: Box<Flight>) {
        if flight.is_done() {
            self.wrap_up(&mut flight);
            self.flights.end(&flight);
        } else {
            self.flights.put_back(flight);
        }
    }
}
