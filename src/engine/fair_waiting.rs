//! Fair waiting: claims of clients that poll for a held key ([`decision::quorum::pollers`](crate::decision::quorum::pollers)).

use std::rc::Rc;
use std::time::Duration;

use super::Engine;
use super::flight::{Flight, OperationId};
use crate::client::outbox::ClaimName;
use crate::decision::quorum::pollers::{Ended, Outcome, Pollers};
use crate::decision::quorum::turn;
use crate::metrics::QuestionKind;
use crate::metrics::histogram::micros;
use crate::operation::{Behaviour, Operation};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

impl Engine {
    /// Returns whether a new claim waits for the key before it asks the masters: its client polls, and the key is held.
    pub(super) fn waits_to_ask(&self, flight: &mut Flight) -> bool {
        let Some(key) = flight.turn.filter(|key| self.has_pollers(*key)) else { return false };
        let Some(poller) = self.poller(&flight.operation) else { return false };
        let (now, id) = (self.polled_at(), flight.id);
        let waits = self.wait_begins(flight, |pollers| pollers.arrives(key, poller, id, now));
        if waits {
            self.waits_since_now(flight);
        }
        waits
    }

    /// Returns whether a claim that could be refused together with another one goes on waiting instead.
    pub(super) fn goes_on_waiting(&self, id: OperationId) -> bool {
        if self.pollers.borrow().is_empty() {
            return false;
        }
        let waits = |flight: &mut Flight| {
            let (key, poller) = (flight.turn?, self.poller(&flight.operation)?);
            let arrived = Duration::from_micros(flight.started_us?);
            let now = self.polled_at();
            Some(self.wait_begins(flight, |all| all.stays(key, poller, id, arrived, now)))
        };
        self.on_flight(id, waits).flatten() == Some(true)
    }

    /// Notes that the claim whose turn it is asks the masters.
    #[inline]
    pub(super) fn asks_as_poller(&self, flight: &Flight) {
        if let Some(key) = flight.turn {
            self.pollers.borrow_mut().asks(key);
        }
    }

    /// Notes the reply to a claim, so that its client is known as a poller if the key is held.
    pub(super) fn note_poll(&self, operation: &Operation, key: u64, reply: &Reply, end: turn::End) {
        if reply.is_error() || (end != turn::End::Lost && !self.has_pollers(key)) {
            return;
        }
        let Some(poller) = self.poller(operation) else { return };
        let now = self.polled_at();
        match end {
            turn::End::Lost => self.pollers.borrow_mut().refused(key, poller, now),
            turn::End::Granted => {
                let waited = self.pollers.borrow_mut().granted(key, poller, now);
                waited.into_iter().for_each(|waited| self.metrics.polled.observe(micros(waited)));
            }
            turn::End::Done => {}
        }
    }

    /// Ends the waiting of claims that need not wait any longer, now that a turn on their key has ended.
    pub(super) fn end_waits(&self, key: u64, reply: &Reply, end: turn::End) {
        let outcome = match end {
            turn::End::Granted => Outcome::Granted,
            turn::End::Lost if !reply.is_error() => Outcome::Refused,
            turn::End::Lost | turn::End::Done => Outcome::Unknown,
        };
        let ended = self.pollers.borrow_mut().answered(key, outcome, self.polled_at());
        self.end(ended);
    }

    #[inline]
    fn has_pollers(&self, key: u64) -> bool {
        self.pollers.borrow().knows(key)
    }

    /// Whether claims may wait for a key that this operation gives back.
    pub(super) fn may_free(&self, operation: &Operation) -> bool {
        !self.pollers.borrow().is_empty() && operation.kind.question() != QuestionKind::Claim
    }

    /// Lets the claim that waits for a key ask the masters, now that the key was given back.
    pub(super) fn free(&self, key: u64) {
        let asks = self.pollers.borrow_mut().freed(key);
        asks.into_iter().for_each(|id| self.ask_at_last(id));
    }

    /// Ends the waiting of a claim whose client has sent another request.
    pub fn end_wait(self: &Rc<Self>, claim: ClaimName) {
        let id = OperationId { slot: (claim >> u32::BITS) as u32, serial: claim as u32 };
        let key = self.flights.look(id, |flight| flight.turn).flatten();
        let can_be_refused = key.and_then(|key| self.pollers.borrow_mut().leaves(key, id));
        match can_be_refused {
            Some(true) => self.share(id, &Reply::Nil),
            Some(false) => self.ask_at_last(id),
            None => {}
        }
        self.start_ready();
    }

    /// Ends the waiting of claims whose time is up.
    pub fn end_waits_due(self: &Rc<Self>) {
        self.stopwatch.see(clock::now());
        let ended = self.pollers.borrow_mut().wake(self.polled_at());
        ended.into_iter().for_each(|ended| self.end(ended));
        self.start_ready();
    }

    /// Returns when to call [`Engine::end_waits_due`].
    pub fn next_wait_due(&self) -> Option<Instant> {
        self.pollers.borrow().next().map(|at| self.stopwatch.moment(micros(at)))
    }

    /// Resolves when that has changed.
    pub async fn wait_begun(&self) {
        self.waits.notified().await;
    }

    /// Returns the number of claims that wait for a held key.
    pub fn waiting(&self) -> usize {
        self.pollers.borrow().waiting()
    }

    fn end(&self, ended: Ended<OperationId>) {
        ended.refused.into_iter().for_each(|id| self.share(id, &Reply::Nil));
        ended.asks.into_iter().for_each(|id| self.ask_at_last(id));
    }

    /// Takes the claim's turn, and asks the masters.
    fn ask_at_last(&self, id: OperationId) {
        let Some(key) = self.flights.look(id, |flight| flight.turn).flatten() else { return };
        let entry = self.turns.borrow_mut().enter(key, id, turn::TurnKind::Claim);
        match entry {
            turn::Entry::Now => self.ready.borrow_mut().push_back(id),
            turn::Entry::Wait => {}
            turn::Entry::Full => {
                self.on_flight(id, |flight| {
                    flight.turn = None;
                    self.turn_away(flight);
                });
            }
        }
    }

    /// Returns whether a claim waits: if it holds up no other request of its client, and `waits` says so.
    fn wait_begins(
        &self,
        flight: &Flight,
        waits: impl FnOnce(&mut Pollers<OperationId>) -> bool,
    ) -> bool {
        let Some(target) = flight.target.as_ref().filter(|target| target.is_alone()) else {
            return false;
        };
        let pollers = &mut *self.pollers.borrow_mut();
        let due = pollers.next();
        if !waits(pollers) {
            return false;
        }
        let OperationId { slot, serial } = flight.id;
        target.waits(u64::from(slot) << u32::BITS | u64::from(serial));
        if pollers.next() != due {
            self.waits.notify_one();
        }
        true
    }

    /// Returns the name by which a client that repeats a claim is known. Connections are pooled, but its token remains.
    fn poller(&self, operation: &Operation) -> Option<u64> {
        let token = operation.kind.polls_with()?;
        Some(self.fingerprint(operation.db, token))
    }

    fn polled_at(&self) -> Duration {
        Duration::from_micros(self.stopwatch.us())
    }
}
