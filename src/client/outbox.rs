//! The replies of one session, strictly in the order of its requests.
//!
//! Operations finish in any order. Each request has a slot; an early reply waits in its slot until all replies before
//! it have been encoded.

mod behind;
mod making;
mod own_change;
mod passing;
mod reader;

pub use behind::Notice;
pub use own_change::OnAnswer;
pub use passing::{Recipient, SentBack};

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use own_change::WatchedRequest;
use tokio::sync::oneshot;

use super::memory::MemoryPart;
use super::registry::Client;
use super::slices::{LARGE_ITEMS, Sliced};
use crate::catalogue::table::NO_COMMAND;
use crate::metrics::Metrics;
use crate::resp::output::Output;
use crate::resp::reply::{Done, Protocol, Reply};

/// The destination of an operation's reply.
#[derive(Debug)]
pub struct Target(Waiter);

#[derive(Debug)]
enum Waiter {
    /// A request of a session, and the place of its command in the table.
    Slot(Rc<Outbox>, u64, u16),
    /// A task of this worker.
    Task(oneshot::Sender<Reply>),
    Nobody,
}

impl Target {
    /// Returns a target for a task of this worker, and the receiver from which the task takes the reply.
    pub fn task() -> (Self, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Waiter::Task(sender)), receiver)
    }

    /// Returns a target that discards the reply.
    pub fn nobody() -> Self {
        Self(Waiter::Nobody)
    }

    /// Whether the receiver of the reply has gone.
    pub fn is_closed(&self) -> bool {
        match &self.0 {
            Waiter::Slot(outbox, ..) => outbox.state.borrow().closed,
            Waiter::Task(sender) => sender.is_closed(),
            Waiter::Nobody => false,
        }
    }

    /// Whether all replies before this one are known.
    pub fn is_next(&self) -> bool {
        match &self.0 {
            Waiter::Slot(outbox, slot, _) => outbox.state.borrow().first == *slot,
            Waiter::Task(_) | Waiter::Nobody => true,
        }
    }

    /// Whether the client waits for no other reply, and may still send requests.
    pub fn is_alone(&self) -> bool {
        let Waiter::Slot(outbox, ..) = &self.0 else { return false };
        let state = outbox.state.borrow();
        state.slots.len() == 1 && !state.ended && !state.closed
    }

    /// Notes that the claim with this name waits. The client's next request ends the waiting
    /// ([`Outbox::take_waiting`]).
    pub fn waits(&self, claim: ClaimName) {
        if let Waiter::Slot(outbox, ..) = &self.0 {
            outbox.state.borrow_mut().waiting = Some(claim);
        }
    }

    /// Whether a long wait would serve no client: it has gone, or will send no more. Redis drops a waiting client once
    /// it will send no more (`networking.c`, `readQueryFromClient`).
    pub fn is_abandoned(&self) -> bool {
        match &self.0 {
            Waiter::Slot(outbox, ..) => outbox.state.borrow().ended || self.is_closed(),
            _ => self.is_closed(),
        }
    }

    /// Returns the place of the command in the table, if a client sent it.
    pub fn command(&self) -> Option<u16> {
        match self.0 {
            Waiter::Slot(_, _, command) if command != NO_COMMAND => Some(command),
            _ => None,
        }
    }

    /// Returns the client that sent the request.
    pub fn client(&self) -> Option<Arc<Client>> {
        match &self.0 {
            Waiter::Slot(outbox, ..) => outbox.state.borrow().client.clone(),
            _ => None,
        }
    }

    /// Counts `bytes` more of the masters' answers, which are held for this request until its reply is ready.
    pub fn hold(&self, bytes: usize) {
        if let Waiter::Slot(outbox, slot, _) = &self.0 {
            outbox.hold(*slot, bytes);
        }
    }

    /// Delivers the reply.
    pub fn deliver(self, reply: Reply) {
        match self.0 {
            Waiter::Slot(outbox, slot, _) => outbox.fill(slot, Filling::Reply(reply)),
            // A task that has stopped waiting no longer wants the reply.
            Waiter::Task(sender) => _ = sender.send(reply),
            Waiter::Nobody => {}
        }
    }
}

/// The name of a claim that waits, which only the engine can read.
pub type ClaimName = u64;

/// The slots of one session, and the bytes that are ready to be written.
#[derive(Debug, Default)]
pub struct Outbox {
    state: RefCell<State>,
}

/// Maximum requests of one client in flight. At the maximum, the session reads no more from that client until some are
/// answered. This bounds memory and keeps one client's pipeline from starving the others.
///
/// The window grows while replies are small and shrinks when they are large. The values that one client reads share the
/// links with every client's votes.
#[derive(Debug)]
struct Window(usize);

/// Window of a new session, and the largest window.
const WINDOW: (usize, usize) = (16, 256);

/// Maximum size of a small reply.
const SMALL_REPLY: usize = 1 << 10;

/// Bytes of waiting replies at which the session stops reading from a client that does not read. It also stops making
/// more of a reply that comes in slices.
pub const REPLIES_TO_STOP_READING: usize = 64 << 10;

/// Maximum bytes of one client's requests in flight. A single request may be larger.
const REQUESTS_IN_FLIGHT: usize = 1 << 20;

/// Maximum bytes of replies on their way to one client, estimated from the size of its last reply.
const REPLIES_IN_FLIGHT: usize = 256 << 10;

impl Default for Window {
    fn default() -> Self {
        Self(WINDOW.0)
    }
}

impl Window {
    fn replied(&mut self, bytes: usize) {
        self.0 = if bytes <= SMALL_REPLY {
            (self.0 + 1).min(WINDOW.1)
        } else {
            (REPLIES_IN_FLIGHT / bytes).clamp(1, self.0)
        };
    }
}

#[derive(Debug, Default)]
struct State {
    /// The number of the first slot.
    first: u64,
    slots: VecDeque<Slot>,
    bytes: Output,
    /// Messages that arrived in the middle of a reply and are sent after it.
    messages: Output,
    /// Whether a reply of the data Redis has been passed on in part.
    is_amid_passed: bool,
    /// Whether a message has been passed on in part.
    is_amid_message: bool,
    protocol: Protocol,
    waker: Option<Waker>,
    window: Window,
    /// Bytes of requests that wait for their replies.
    request_bytes: usize,
    /// Bytes of replies that wait for an earlier one.
    reply_bytes: usize,
    /// Bytes that masters have sent in answer to requests that still wait for their replies.
    answer_bytes: usize,
    closed: bool,
    /// Whether the client will send no more requests.
    ended: bool,
    /// The task that waits until the client reads, or until its session has checked on it.
    watcher: Option<Waker>,
    /// Whether the session is asked to check that the client is still there.
    is_looked_for: bool,
    /// The slot of a transaction that must end before anything else starts.
    executing: Option<u64>,
    /// The claim that waits for a held key, if it is still unanswered.
    waiting: Option<ClaimName>,
    /// The parts of one request, whose replies are gathered into one.
    gathering: Option<Box<Gathering>>,
    /// Messages that wait for the reply in a slot, in the order of the slots.
    behind: VecDeque<(u64, Notice)>,
    /// Memory that these messages take.
    behind_bytes: usize,
    /// Requests of which somebody wants to know what they have changed.
    watched: Vec<WatchedRequest>,
    /// The slot of a request that may wait for ever.
    blocking: Option<u64>,
    /// A request that a shared connection to the data Redis did not answer.
    sent_back: Option<SentBack>,
    /// The client that receives the replies.
    client: Option<Arc<Client>>,
    /// The metrics that count the replies.
    metrics: Option<Arc<Metrics>>,
}

#[derive(Debug)]
struct Slot {
    filling: Filling,
    /// See [`Target::hold`].
    answer_bytes: usize,
    ticket: Ticket,
    purpose: Purpose,
}

/// The content of a slot.
#[derive(Debug)]
enum Filling {
    /// Nothing yet.
    Missing,
    /// The reply.
    Reply(Reply),
    /// A reply that is made once it is the first.
    Sliced(Sliced),
    /// A sliced reply while [`Outbox::make`] holds it.
    InTheMaking,
    /// A reply that the data Redis makes.
    Passed,
}

impl Filling {
    /// Wraps a reply, cutting it into slices if it is large.
    #[inline]
    fn of(reply: Reply) -> Self {
        Sliced::cut(reply).map_or_else(Self::Reply, Self::Sliced)
    }

    /// Returns the memory that is known beforehand.
    fn held(&self) -> usize {
        match self {
            Self::Reply(reply) => reply.held(),
            Self::Sliced(sliced) => sliced.charged,
            Self::Missing | Self::InTheMaking | Self::Passed => 0,
        }
    }
}

/// The facts about a request that an outbox needs.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Fingerprint of the request's key.
    pub key: u64,
    /// The request's order relative to others.
    pub order: Order,
    /// The request's size.
    pub bytes: usize,
    /// The place of the request's command in the table, or [`NO_COMMAND`].
    pub command: u16,
}

/// The order of an operation relative to others of its session that are still in flight.
///
/// Operations of one round reach every master in the order in which they were started. Operations of several rounds may
/// be overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Changes nothing: waits only for changes of the same key.
    Read,
    /// Takes one round, and waits for changes and reads of the same key.
    Plain,
    /// Like [`Order::Plain`], but must not overtake an operation of several rounds: a release must follow the writes
    /// made under the lock.
    Closing,
    /// Takes several rounds.
    Rounds,
    /// May touch any key: nothing overtakes it, and it overtakes nothing.
    Alone,
    /// Announces earlier operations to others: waits for everything before it except operations of its own kind.
    Announcing,
    /// Goes to the data Redis, which keeps its own order: waits for every request to the masters, and those wait for
    /// it.
    Passed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Answer,
    /// The reply is discarded (`CLIENT REPLY OFF`).
    Silence,
    /// One of several parts of a request with many keys.
    Part,
}

/// The way in which the replies to a request's keys become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Their sum (`DEL`, `EXISTS`).
    Sum,
    /// All of them (`MGET`).
    List,
    /// One `OK` for all of them (`WATCH`).
    AllOk,
}

#[derive(Debug)]
struct Gathering {
    how: Gather,
    missing: usize,
    sum: i64,
    list: Vec<Reply>,
    /// Memory that `list` takes.
    bytes: usize,
    error: Option<Reply>,
    silent: bool,
}

impl Outbox {
    /// Returns an outbox for `client` that counts its replies in `metrics`.
    pub fn counted(client: Arc<Client>, metrics: Arc<Metrics>) -> Rc<Self> {
        let (client, metrics) = (Some(client), Some(metrics));
        let state = State { client, metrics, ..State::default() };
        Rc::new(Self { state: RefCell::new(state) })
    }

    /// Reserves a slot for an operation.
    pub fn reserve(self: &Rc<Self>, ticket: Ticket, silent: bool) -> Target {
        let purpose = if silent { Purpose::Silence } else { Purpose::Answer };
        self.push(Slot { filling: Filling::Missing, answer_bytes: 0, ticket, purpose })
    }

    /// Reserves a slot for one key of a request that [`Outbox::gather`] began.
    pub fn reserve_part(self: &Rc<Self>, ticket: Ticket) -> Target {
        self.push(Slot {
            filling: Filling::Missing,
            answer_bytes: 0,
            ticket,
            purpose: Purpose::Part,
        })
    }

    fn push(self: &Rc<Self>, slot: Slot) -> Target {
        let mut state = self.state.borrow_mut();
        state.request_bytes += slot.ticket.bytes;
        let command = slot.ticket.command;
        let number = state.first + state.slots.len() as u64;
        state.slots.push_back(slot);
        Target(Waiter::Slot(Rc::clone(self), number, command))
    }

    /// Begins a request to which the next `parts` slots belong.
    pub fn gather(&self, how: Gather, parts: usize, silent: bool) {
        let (sum, list, bytes, error) = (0, Vec::new(), 0, None);
        let gathering = Gathering { how, missing: parts, sum, list, bytes, error, silent };
        self.state.borrow_mut().gathering = Some(Box::new(gathering));
    }

    /// Whether parts of one request are still missing.
    pub fn is_gathering(&self) -> bool {
        self.state.borrow().gathering.is_some()
    }

    /// Adds a reply to this command that is known at once.
    pub fn push_reply(&self, command: u16, reply: Reply) {
        let state = &mut *self.state.borrow_mut();
        let filling = match Filling::of(reply) {
            Filling::Reply(reply) if state.slots.is_empty() && !state.is_amid_message => {
                state.count(command, &reply);
                return reply.encode(state.protocol, &mut state.bytes);
            }
            filling => filling,
        };
        let ticket = Ticket { key: 0, order: Order::Read, bytes: 0, command };
        let purpose = Purpose::Answer;
        state.reply_bytes += filling.held();
        state.slots.push_back(Slot { filling, answer_bytes: 0, ticket, purpose });
    }

    /// Adds a message that no pending request has asked for, between two replies.
    pub fn push_message(&self, message: &Reply) {
        let state = &mut *self.state.borrow_mut();
        if state.closed {
            return;
        }
        state.send_message(message);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn fill(&self, slot: u64, filling: Filling) {
        self.put(slot, filling);
        self.tell_watchers(slot);
    }

    fn put(&self, slot: u64, filling: Filling) {
        let state = &mut *self.state.borrow_mut();
        let Some(index) = slot.checked_sub(state.first) else { return };
        state.waiting = None;
        let filling = state.executed(filling);
        if let Filling::Reply(reply) = &filling
            && index == 0
            && state.can_send(reply)
        {
            state.send_first(reply);
        } else if let Some(slot) = state.slots.get_mut(index as usize) {
            state.answer_bytes -= std::mem::take(&mut slot.answer_bytes);
            if matches!(filling, Filling::Sliced(_)) {
                // From here on, the slices account for the rest of the request.
                state.request_bytes -= std::mem::take(&mut slot.ticket.bytes);
            }
            slot.filling = match (filling, slot.purpose) {
                (Filling::Reply(reply), Purpose::Answer) => Filling::of(reply),
                (Filling::Sliced(sliced), Purpose::Part) => Filling::Reply(sliced.whole()),
                (filling, _) => filling,
            };
            state.reply_bytes += slot.filling.held();
        }
        state.encode_ready();
        if index == 0
            && let Some(waker) = state.waker.take()
        {
            waker.wake();
        }
    }

    fn hold(&self, slot: u64, bytes: usize) {
        let state = &mut *self.state.borrow_mut();
        let index = slot.checked_sub(state.first);
        let Some(slot) = index.and_then(|index| state.slots.get_mut(index as usize)) else {
            return;
        };
        slot.answer_bytes += bytes;
        state.answer_bytes += bytes;
        if let (Some(client), Some(waker)) = (&state.client, &state.waker) {
            client.holding.set(MemoryPart::Answers, state.answer_bytes as u64);
            // The session settles it with the budget.
            waker.wake_by_ref();
        }
    }

    /// Returns the memory taken by requests in flight and by replies.
    pub fn held(&self) -> usize {
        let state = self.state.borrow();
        let gathered = state.gathering.as_ref().map_or(0, |gathering| gathering.bytes);
        let in_the_making = match state.slots.front() {
            Some(Slot { filling: Filling::Sliced(sliced), .. }) => sliced.uncharged(),
            _ => 0,
        };
        let written = state.bytes.held() + state.messages.held();
        let waiting = state.reply_bytes + state.behind_bytes + gathered + in_the_making;
        state.request_bytes + waiting + written
    }

    /// Returns the memory taken by masters' answers that are not a reply yet.
    pub fn answers_held(&self) -> usize {
        self.state.borrow().answer_bytes
    }

    /// Returns the number of requests, or parts of one, that wait for their reply or for an earlier one.
    pub fn in_flight(&self) -> usize {
        self.state.borrow().slots.len()
    }

    /// Whether another request may be started.
    pub fn has_room(&self) -> bool {
        let state = self.state.borrow();
        state.slots.len() < state.window.0 && state.request_bytes < REQUESTS_IN_FLIGHT
    }

    /// Whether an operation has to wait for an earlier one. Reads of one key need not wait for each other.
    pub fn is_busy(&self, next: &Ticket) -> bool {
        let waits_for = |slot: &Slot| {
            let before = &slot.ticket;
            match (before.order, next.order) {
                (Order::Alone, _) | (_, Order::Alone) => true,
                (Order::Passed, Order::Passed) => false,
                (Order::Passed, _) => true,
                (_, Order::Passed) => !matches!(slot.filling, Filling::Reply(_)),
                (Order::Read, Order::Read) | (Order::Announcing, Order::Announcing) => false,
                (_, Order::Announcing) => !matches!(slot.filling, Filling::Reply(_)),
                (Order::Rounds, Order::Closing) => true,
                _ => before.key == next.key,
            }
        };
        self.state.borrow().slots.iter().any(waits_for)
    }

    /// Whether an operation is in flight that nothing may overtake.
    pub fn runs_alone(&self) -> bool {
        self.state.borrow().slots.iter().any(|slot| slot.ticket.order == Order::Alone)
    }

    /// Marks the last request as a transaction that the proxy answers in part: that part must not see the effects of
    /// later requests.
    pub fn executes(&self) {
        let state = &mut *self.state.borrow_mut();
        let last = (state.first + state.slots.len() as u64).checked_sub(1);
        state.executing = last.filter(|last| *last >= state.first);
    }

    /// Whether such a transaction is still unanswered.
    pub fn is_executing(&self) -> bool {
        let state = self.state.borrow();
        state.executing.is_some_and(|slot| slot >= state.first)
    }

    /// Returns the claim whose waiting would hold up the client's next request.
    #[inline]
    pub fn take_waiting(&self) -> Option<ClaimName> {
        self.state.borrow_mut().waiting.take()
    }

    /// Notes that the client will send no more requests, though it may still read replies.
    pub fn end_of_requests(&self) {
        self.state.borrow_mut().ended = true;
    }

    /// Notes that the client has gone.
    pub fn close(&self) {
        // Dropped after `state`: the slices may hold this outbox, and such a cycle would never be freed.
        let (mut in_the_making, mut watched) = (Vec::new(), Vec::new());
        let state = &mut *self.state.borrow_mut();
        state.closed = true;
        // Operations in flight keep the rest of the outbox alive for a while.
        state.bytes = Output::default();
        state.messages = Output::default();
        (state.behind, state.behind_bytes) = (VecDeque::new(), 0);
        // They hold the client, and it this outbox.
        watched.append(&mut state.watched);
        state.tell_watcher();
        for slot in &mut state.slots {
            if let Filling::Sliced(_) = slot.filling {
                in_the_making.push(std::mem::replace(&mut slot.filling, Filling::Missing));
            }
        }
    }

    /// Whether the client has gone.
    pub fn is_closed(&self) -> bool {
        self.state.borrow().closed
    }

    /// Returns the number of bytes that are ready to be written.
    pub fn ready_bytes(&self) -> usize {
        self.state.borrow().ready_bytes()
    }

    /// Sets the protocol of replies from now on.
    pub fn set_protocol(&self, protocol: Protocol) {
        self.state.borrow_mut().protocol = protocol;
    }

    /// Returns the protocol of replies.
    pub fn protocol(&self) -> Protocol {
        self.state.borrow().protocol
    }

    /// Sets the waker for when there is something to write.
    pub fn wake_by(&self, waker: &Waker) {
        let mut state = self.state.borrow_mut();
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
    }

    /// Returns the bytes that are ready to be written.
    pub fn bytes(&self) -> std::cell::RefMut<'_, Output> {
        std::cell::RefMut::map(self.state.borrow_mut(), |state| &mut state.bytes)
    }
}

/// Whether a reply is a few bytes without parts, and no error.
fn is_short(reply: &Reply) -> bool {
    matches!(reply, Reply::Simple(_) | Reply::Int(_) | Reply::Nil)
}

impl State {
    fn ready_bytes(&self) -> usize {
        self.bytes.len() + self.messages.len()
    }

    /// Whether this reply to the first request can be sent without a stay in its slot: nearly every one can.
    fn can_send(&self, reply: &Reply) -> bool {
        let is_plain = |slot: &Slot| slot.purpose == Purpose::Answer && slot.answer_bytes == 0;
        is_short(reply) && !self.is_amid_message && self.slots.front().is_some_and(is_plain)
    }

    fn send_first(&mut self, reply: &Reply) {
        if let Some(Slot { ticket, .. }) = self.pop() {
            self.answer(ticket.command, reply);
        }
    }

    /// Takes out the first slot, whose reply is known.
    fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.first += 1;
        self.request_bytes -= slot.ticket.bytes;
        Some(slot)
    }

    fn answer(&mut self, command: u16, reply: &Reply) {
        self.count(command, reply);
        let before = self.bytes.len();
        self.encode(reply);
        self.window.replied(self.bytes.len() - before);
    }

    /// Encodes a message, or has it wait for the end of the reply that is being sent.
    fn send_message(&mut self, message: &Reply) {
        let out = if self.is_amid() { &mut self.messages } else { &mut self.bytes };
        message.encode(self.protocol, out);
    }

    fn encode_ready(&mut self) {
        self.send_behind();
        while let Some(Slot { filling: Filling::Reply(_), .. }) = self.slots.front()
            && !self.is_amid_message
        {
            let Some(Slot { filling: Filling::Reply(reply), purpose, ticket, .. }) = self.pop()
            else {
                break;
            };
            self.reply_bytes -= reply.held();
            match purpose {
                Purpose::Answer => self.answer(ticket.command, &reply),
                Purpose::Silence => self.count(ticket.command, &reply),
                Purpose::Part => self.part(ticket.command, reply),
            }
            self.send_behind();
        }
    }

    /// Encodes a reply, unless the client has gone and would not read it.
    fn encode(&mut self, reply: &Reply) {
        if !self.closed {
            reply.encode(self.protocol, &mut self.bytes);
        }
    }

    /// Counts the commands of a transaction and leaves the array of their replies. Long transactions, and replies of
    /// the proxy itself, are counted later and one by one.
    fn executed(&self, filling: Filling) -> Filling {
        let Filling::Reply(Reply::Executed(parts)) = filling else { return filling };
        let is_own = |(_, done): &(u16, Done)| matches!(done, Done::Own(_));
        if parts.len() > LARGE_ITEMS || parts.iter().any(is_own) {
            return Filling::Sliced(Sliced::executed(parts));
        }
        let counted = |(command, done): (u16, Done)| match done {
            Done::Reply(reply) => {
                self.count(command, &reply);
                Some(reply)
            }
            Done::Own(_) => None,
        };
        Filling::Reply(Reply::Array(parts.into_iter().filter_map(counted).collect()))
    }

    /// Counts a reply like `call` of Redis (`server.c`): a queued command counts when it runs, not before.
    fn count(&self, command: u16, reply: &Reply) {
        let Some(metrics) = &self.metrics else { return };
        if *reply == Reply::QUEUED {
            return;
        }
        let told = || reply.errors().map(|text| metrics.errors.told(text)).count();
        metrics.request(command, !is_short(reply) && told() > 0);
    }

    fn part(&mut self, command: u16, reply: Reply) {
        let Some(gathering) = &mut self.gathering else { return };
        if let Reply::Bulk(value) = &reply {
            self.window.replied(value.len());
        }
        if let Some(whole) = gathering.add(reply) {
            let is_silent = gathering.silent;
            self.gathering = None;
            if is_silent {
                return self.count(command, &whole);
            }
            // The whole takes the place of its last part.
            let ticket = Ticket { key: 0, order: Order::Read, bytes: 0, command };
            let (filling, purpose) = (Filling::of(whole), Purpose::Answer);
            self.reply_bytes += filling.held();
            self.slots.push_front(Slot { filling, answer_bytes: 0, ticket, purpose });
            self.first -= 1;
        }
    }
}

impl Gathering {
    /// Adds one part. Returns the whole once no part is missing.
    fn add(&mut self, reply: Reply) -> Option<Reply> {
        self.missing -= 1;
        match (self.how, reply) {
            (_, error @ Reply::Error(_)) => _ = self.error.get_or_insert(error),
            (Gather::Sum, Reply::Int(count)) => self.sum += count,
            (Gather::Sum | Gather::AllOk, _) => {}
            (Gather::List, reply) => {
                self.bytes += size_of::<Reply>() + reply.held();
                self.list.push(reply);
            }
        }
        if self.missing > 0 {
            return None;
        }
        let whole = match self.how {
            Gather::Sum => Reply::Int(self.sum),
            Gather::List => Reply::Array(std::mem::take(&mut self.list)),
            Gather::AllOk => Reply::OK,
        };
        Some(self.error.take().unwrap_or(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn written(outbox: &Outbox) -> String {
        String::from_utf8(outbox.bytes().take()).expect("our replies are text here")
    }

    pub(super) fn ticket(key: u64, order: Order) -> Ticket {
        Ticket { key, order, bytes: 0, command: NO_COMMAND }
    }

    #[test]
    fn replies_keep_the_order_of_their_requests() {
        let outbox = Rc::new(Outbox::default());
        let first = outbox.reserve(ticket(1, Order::Plain), false);
        let second = outbox.reserve(ticket(2, Order::Plain), false);
        outbox.push_reply(NO_COMMAND, Reply::Simple("PONG"));
        second.deliver(Reply::Int(2));
        assert_eq!(written(&outbox), "");
        first.deliver(Reply::Int(1));
        assert_eq!(written(&outbox), ":1\r\n:2\r\n+PONG\r\n");
        assert_eq!(outbox.in_flight(), 0);
    }

    #[test]
    fn silenced_replies_keep_their_place_and_say_nothing() {
        let outbox = Rc::new(Outbox::default());
        let silent = outbox.reserve(ticket(1, Order::Plain), true);
        let heard = outbox.reserve(ticket(2, Order::Plain), false);
        heard.deliver(Reply::OK);
        silent.deliver(Reply::Int(1));
        assert_eq!(written(&outbox), "+OK\r\n");
    }

    #[test]
    fn a_key_is_busy_until_its_operation_is_answered_but_reads_go_together() {
        let outbox = Rc::new(Outbox::default());
        let write = outbox.reserve(ticket(1, Order::Plain), false);
        let read = outbox.reserve(ticket(2, Order::Read), false);
        let busy = |key, order| outbox.is_busy(&ticket(key, order));
        assert!(busy(1, Order::Read) && busy(2, Order::Plain));
        assert!(!busy(2, Order::Read) && !busy(3, Order::Plain));
        write.deliver(Reply::OK);
        read.deliver(Reply::OK);
        assert!(!busy(1, Order::Plain));
    }

    #[test]
    fn a_release_does_not_overtake_what_was_written_under_the_lock() {
        let outbox = Rc::new(Outbox::default());
        let write = outbox.reserve(ticket(1, Order::Rounds), false);
        assert!(outbox.is_busy(&ticket(2, Order::Closing)));
        assert!(!outbox.is_busy(&ticket(2, Order::Plain)));
        write.deliver(Reply::OK);
        assert!(!outbox.is_busy(&ticket(2, Order::Closing)));
    }

    #[test]
    fn a_message_follows_all_that_it_announces() {
        let outbox = Rc::new(Outbox::default());
        let write = outbox.reserve(ticket(1, Order::Plain), false);
        assert!(outbox.is_busy(&ticket(2, Order::Announcing)));
        write.deliver(Reply::OK);
        let _first = outbox.reserve(ticket(2, Order::Announcing), false);
        let read = outbox.reserve(ticket(3, Order::Read), false);
        assert!(outbox.is_busy(&ticket(2, Order::Announcing)));
        read.deliver(Reply::Nil);
        assert!(!outbox.is_busy(&ticket(2, Order::Announcing)));
    }

    #[test]
    fn a_pushed_message_does_not_wait_for_replies() {
        let outbox = Rc::new(Outbox::default());
        let pending = outbox.reserve(ticket(1, Order::Plain), false);
        outbox.push_message(&Reply::Push(vec![Reply::Int(7)]));
        pending.deliver(Reply::OK);
        assert_eq!(written(&outbox), "*1\r\n:7\r\n+OK\r\n");
    }

    #[test]
    fn large_requests_leave_no_room_for_more() {
        let outbox = Rc::new(Outbox::default());
        let large = Ticket { bytes: REQUESTS_IN_FLIGHT, ..ticket(1, Order::Plain) };
        let target = outbox.reserve(large, false);
        assert!(!outbox.has_room());
        target.deliver(Reply::OK);
        assert!(outbox.has_room());
    }

    #[test]
    fn large_replies_narrow_the_window_and_small_ones_widen_it() {
        let mut window = Window::default();
        (0..1000).for_each(|_| window.replied(5));
        assert_eq!(window.0, WINDOW.1);
        window.replied(500_000);
        assert_eq!(window.0, 1);
        window.replied(5);
        assert_eq!(window.0, 2);
    }

    #[test]
    fn parts_become_one_reply() {
        let outbox = Rc::new(Outbox::default());
        outbox.gather(Gather::Sum, 2, false);
        let (a, b) = (
            outbox.reserve_part(ticket(1, Order::Plain)),
            outbox.reserve_part(ticket(2, Order::Plain)),
        );
        b.deliver(Reply::Int(1));
        a.deliver(Reply::Int(1));
        assert_eq!(written(&outbox), ":2\r\n");
    }
}
