//! Leases: which of them this worker has granted, and what masters may have missed of those given back.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::Engine;
use super::flight::{Flight, OperationId};
use super::link::Link;
use crate::client::outbox::Target;
use crate::decision::quorum::{MasterSet, turn};
use crate::operation::debts::{Debt, Note, OverLease, OwedLease};
use crate::operation::{Operation, Owed, Then};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

/// Releases that masters are told once more, and when. All wait for as long, so a queue keeps them in order.
#[derive(Default)]
pub(super) struct Later {
    queue: VecDeque<(Instant, OwedLease, MasterSet)>,
}

/// The most that wait. Beyond it the oldest is told sooner.
const MOST: usize = 65_536;

/// Within so many turns of the event loop a link has written what it was given, unless its master takes nothing: it
/// gathers for one turn and writes in the next. Links that are busy have something unsent again by then.
const TURNS_OF_A_NOTE: u32 = 4;

/// How often it is looked whether a grant can be told.
const LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Tells the client of a grant when it is its turn. A client that pipelines its requests would else begin to count
    /// its time to live long after the masters have.
    pub(super) fn grant_in_turn(self: &Rc<Self>, id: OperationId, reply: Reply) {
        let engine = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while engine.flights.look(id, Flight::is_too_early) == Some(true) {
                tokio::time::sleep(LOOK).await;
                let now = clock::now();
                engine.see(now);
                let is_changed = engine.on_flight(id, |flight| {
                    let next = flight.operation.untold(&engine.rules, now);
                    let is_next = !matches!(next.then, Then::Wait);
                    if is_next {
                        engine.act(flight, next);
                    }
                    is_next
                });
                if is_changed == Some(true) {
                    return engine.start_ready();
                }
            }
            engine.on_flight(id, |flight| engine.reply(flight, reply, turn::End::Granted));
            engine.start_ready();
        });
    }

    /// A lease that a quorum holds now is given back by its name.
    pub(super) fn remember_lease(&self, operation: &Operation) {
        if let Some((token, tag)) = operation.kind.lease() {
            self.rules.leases.remember(operation.db, &operation.key, token, tag);
        }
    }

    /// Tells masters at once that have not deleted what was given back. They are told once more when the lease's own claim
    /// cannot reach them any more, which another worker may have sent.
    pub(super) fn settle_owed(&self, flight: &mut Flight, owed: Owed) {
        let (db, key) = (flight.operation.db, flight.operation.key.clone());
        let Owed { attempt, now, later, end } = owed;
        if !now.union(later).is_empty() {
            self.note_over(flight, Note { db, attempt, end });
        }
        let lease = OwedLease { db, key, over: OverLease::Attempt(attempt), end };
        self.tell_over(&lease, now);
        if !later.is_empty() {
            let due = clock::now() + self.rules.patience;
            let mut waiting = self.later.borrow_mut();
            waiting.queue.push_back((due, lease, later));
            let too_many = waiting.queue.len() > MOST;
            let oldest = if too_many { waiting.queue.pop_front() } else { None };
            drop(waiting);
            self.deadlines.set.notify_one();
            if let Some((_, lease, masters)) = oldest {
                self.tell_over(&lease, masters);
            }
        }
    }

    /// A client is about to be told that a lease is over, which masters without a link have missed. The others keep that in
    /// mind: when this proxy is gone as well, nobody else can tell the rest of it from a lock.
    pub(super) fn missed(&self, operation: &Operation) -> Option<Note> {
        let Owed { attempt, now, end, .. } = operation.owed(&self.rules)?;
        let is_missed = !now.without(self.reachable()).is_empty();
        is_missed.then_some(Note { db: operation.db, attempt, end })
    }

    /// Whether a client was told that a lease is over, and some master has not said yet that it knows.
    pub(super) fn owes_a_note(&self, flight: &Flight) -> bool {
        let is_silent = |owed: Owed| !owed.now.is_empty();
        flight.target.is_none()
            && !flight.is_noted
            && flight.operation.owed(&self.rules).is_some_and(is_silent)
    }

    /// The vote timeout has passed, and a master is silent: the others keep in mind what it may not know.
    pub(super) fn note_silence(&self, flight: &mut Flight) {
        if let Some(Owed { attempt, end, .. }) = flight.operation.owed(&self.rules) {
            let note = Note { db: flight.operation.db, attempt, end };
            self.note_over(flight, note);
        }
    }

    /// Tells the client once the notes have been written: they arrive although this proxy is killed after that.
    pub(super) fn deliver_behind_notes(&self, target: Target, reply: Reply) {
        let links: Vec<Rc<Link>> = self.links.clone();
        tokio::task::spawn_local(async move {
            for _ in 0..TURNS_OF_A_NOTE {
                if !links.iter().any(|link| link.is_up() && link.has_unsent()) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            target.deliver(reply);
        });
    }

    /// Has all masters that can be reached keep in mind that a lease is over, once for each flight.
    pub(super) fn note_over(&self, flight: &mut Flight, note: Note) {
        if !std::mem::replace(&mut flight.is_noted, true) {
            let debt = Debt::Note(note);
            self.reachable().iter().for_each(|to| self.links[to.index()].deliver(debt.clone()));
        }
    }

    fn tell_over(&self, lease: &OwedLease, masters: MasterSet) {
        for master in masters.iter() {
            self.links[master.index()].deliver(Debt::Lease(lease.clone()));
        }
    }

    pub(super) fn tell_once_more(&self, due: Instant) {
        loop {
            let mut waiting = self.later.borrow_mut();
            let is_due = waiting.queue.front().is_some_and(|(at, ..)| *at <= due);
            let next = if is_due { waiting.queue.pop_front() } else { None };
            drop(waiting);
            let Some((_, lease, masters)) = next else { return };
            self.tell_over(&lease, masters);
        }
    }

    pub(super) fn next_to_tell(&self) -> Option<Instant> {
        self.later.borrow().queue.front().map(|(at, ..)| *at)
    }
}
