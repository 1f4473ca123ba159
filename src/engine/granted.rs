//! Leases: those that this worker has granted, and what masters may have missed of those given back.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::Engine;
use super::flight::{Flight, OperationId};
use super::link::Link;
use crate::client::outbox::Target;
use crate::decision::quorum::{MasterSet, turn};
use crate::operation::debts::{Debt, Note, OverLease, OwedLease};
use crate::operation::{Behaviour, Operation, Owed, Then};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

/// Releases to send to masters again, and when. All wait equally long, so a queue keeps them in order.
#[derive(Default)]
pub(super) struct Later {
    queue: VecDeque<(Instant, OwedLease, MasterSet)>,
}

/// Maximum waiting releases. Beyond that, the oldest is sent early.
const MOST: usize = 65_536;

/// Number of event-loop turns within which a link has written its requests, unless its master accepts nothing. The link
/// gathers for one turn and writes in the next. By then, busy links have unsent requests again.
const TURNS_OF_A_NOTE: u32 = 4;

/// Interval between checks of whether a grant can be reported.
const LOOK: Duration = Duration::from_millis(1);

impl Engine {
    /// Reports a grant once the replies before it have been sent. Without this, a client that pipelines its requests
    /// would start counting its TTL long after the masters did.
    pub(super) fn grant_in_turn(self: &Rc<Self>, id: OperationId, reply: Reply) {
        let engine = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while engine.flights.look(id, Flight::is_too_early) == Some(true) {
                tokio::time::sleep(LOOK).await;
                let now = clock::now();
                engine.see(now);
                let is_changed = engine.on_flight(id, |flight| {
                    let next = flight.operation.untold(&flight.rules, now);
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

    /// Remembers the name of a lease that a quorum holds now, so that it can be given back by name.
    pub(super) fn remember_lease(&self, operation: &Operation) {
        if let Some((token, tag)) = operation.kind.lease() {
            self.rules().leases.remember(operation.db, &operation.key, token, tag);
        }
    }

    /// Informs at once the masters that have not deleted a lease that was given back. They are informed again once its
    /// claim, perhaps sent by another worker, can no longer reach them.
    pub(super) fn settle_owed(&self, flight: &mut Flight, owed: Owed) {
        let (db, key) = (flight.operation.db, flight.operation.key.clone());
        let Owed { attempt, now, later, end } = owed;
        if !now.union(later).is_empty() {
            self.note_over(flight, Note { db, attempt, end });
        }
        let lease = OwedLease { db, key, over: OverLease::Attempt(attempt), end };
        self.tell_over(&lease, now);
        if !later.is_empty() {
            let due = clock::now() + self.rules().patience;
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

    /// Returns the note for a lease whose end masters without a link have missed, when its client is about to get the
    /// reply. The other masters keep the note: if this proxy dies too, nobody else can distinguish the remains from a
    /// lock.
    pub(super) fn missed(&self, operation: &Operation) -> Option<Note> {
        let Owed { attempt, now, end, .. } = operation.owed(&self.rules())?;
        let is_missed = !now.without(self.reachable()).is_empty();
        is_missed.then_some(Note { db: operation.db, attempt, end })
    }

    /// Whether a client was told that a lease is over, and some master has not confirmed yet that it knows.
    pub(super) fn owes_a_note(&self, flight: &Flight) -> bool {
        let is_silent = |owed: Owed| !owed.now.is_empty();
        flight.target.is_none()
            && !flight.is_noted
            && flight.operation.owed(&flight.rules).is_some_and(is_silent)
    }

    /// Sends the other masters a note when the vote timeout has passed and a silent master may have missed the end.
    pub(super) fn note_silence(&self, flight: &mut Flight) {
        if let Some(Owed { attempt, end, .. }) = flight.operation.owed(&flight.rules) {
            let note = Note { db: flight.operation.db, attempt, end };
            self.note_over(flight, note);
        }
    }

    /// Replies to the client once the notes have been written: they then arrive even if this proxy is killed.
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

    /// Sends all reachable masters a note that a lease is over, once per flight.
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
