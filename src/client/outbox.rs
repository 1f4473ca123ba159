//! The replies of one session, strictly in the order of its requests.
//!
//! Operations finish in any order. Each request has a slot; a reply that comes early waits in its
//! slot until all before it have been encoded.

mod making;
mod passing;
mod reader;

pub use passing::{Recipient, SentBack};

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use tokio::sync::oneshot;

use super::memory::Part;
use super::registry::Client;
use super::slices::{LARGE_ITEMS, Sliced};
use crate::catalogue::table::NO_COMMAND;
use crate::metrics::Metrics;
use crate::resp::output::Output;
use crate::resp::reply::{Done, Protocol, Reply};

/// Where an operation's reply goes.
#[derive(Debug)]
pub struct Target(Waiter);

#[derive(Debug)]
enum Waiter {
    /// A request of a session, whose command has this place in the table.
    Slot(Rc<Outbox>, u64, u16),
    /// A task of this worker.
    Task(oneshot::Sender<Reply>),
    Nobody,
}

impl Target {
    /// A task of this worker, which takes the reply from the other end.
    pub fn task() -> (Self, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Waiter::Task(sender)), receiver)
    }

    /// The reply is of no interest to anybody.
    pub fn nobody() -> Self {
        Self(Waiter::Nobody)
    }

    /// Whether the one who waited has gone.
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

    /// Whether there is nobody any more who would wait for long. Redis drops a client that waits when
    /// it will send no more (`networking.c`, `readQueryFromClient`).
    pub fn is_abandoned(&self) -> bool {
        match &self.0 {
            Waiter::Slot(outbox, ..) => outbox.state.borrow().ended || self.is_closed(),
            _ => self.is_closed(),
        }
    }

    /// The place of the command in the table, if a client has sent one.
    pub fn command(&self) -> Option<u16> {
        match self.0 {
            Waiter::Slot(_, _, command) if command != NO_COMMAND => Some(command),
            _ => None,
        }
    }

    /// The client that has asked.
    pub fn client(&self) -> Option<Arc<Client>> {
        match &self.0 {
            Waiter::Slot(outbox, ..) => outbox.state.borrow().client.clone(),
            _ => None,
        }
    }

    /// Masters have answered so many more bytes, which are held for the one who waits until he has his reply.
    pub fn hold(&self, bytes: usize) {
        if let Waiter::Slot(outbox, slot, _) = &self.0 {
            outbox.hold(*slot, bytes);
        }
    }

    /// Hands the reply over.
    pub fn deliver(self, reply: Reply) {
        match self.0 {
            Waiter::Slot(outbox, slot, _) => outbox.fill(slot, Filling::Reply(reply)),
            // A task that has stopped waiting does not want it any more.
            Waiter::Task(sender) => _ = sender.send(reply),
            Waiter::Nobody => {}
        }
    }
}

/// The slots of one session, and the bytes that are ready to be written.
#[derive(Debug, Default)]
pub struct Outbox {
    state: RefCell<State>,
}

/// How many requests of one client may be in flight; beyond it nothing is read from that client
/// until some are answered (bounded memory, and one client's pipeline does not starve the others).
///
/// It grows while replies are small and shrinks when they are not: the values that one client reads
/// come over the links that carry everybody's votes.
#[derive(Debug)]
struct Window(usize);

/// The window of a new session, and the largest.
const WINDOW: (usize, usize) = (16, 256);

/// Replies up to this size are small.
const SMALL_REPLY: usize = 1 << 10;

/// With so many bytes of replies waiting, nothing more is read from a client that does not read, and no more
/// is made of a reply that comes in slices.
pub const REPLIES_TO_STOP_READING: usize = 64 << 10;

/// How many bytes of requests of one client may be in flight, beyond one that is larger.
const REQUESTS_IN_FLIGHT: usize = 1 << 20;

/// How many bytes of replies may be on their way for one client, by the size of its last one.
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
    /// Messages that came in the middle of a reply, for after it.
    messages: Output,
    /// A part of a reply of the data Redis was passed on, and its end was not.
    is_amid_passed: bool,
    /// The same of a message.
    is_amid_message: bool,
    protocol: Protocol,
    waker: Option<Waker>,
    window: Window,
    /// Bytes of the requests that wait for their replies.
    request_bytes: usize,
    /// Bytes of replies that wait for one before them.
    reply_bytes: usize,
    /// Bytes of what masters have answered to requests that wait for their replies.
    answer_bytes: usize,
    closed: bool,
    /// The client will send no more requests.
    ended: bool,
    /// Who waits for the client to read, or to be looked for.
    watcher: Option<Waker>,
    /// Whether its session is to look for it.
    is_looked_for: bool,
    /// The slot of a transaction before whose end nothing begins.
    executing: Option<u64>,
    /// Replies to parts of one request, gathered into one.
    gathering: Option<Gathering>,
    /// What a shared connection to the data Redis does not answer.
    sent_back: Option<SentBack>,
    /// Whose they are.
    client: Option<Arc<Client>>,
    /// Where replies are counted.
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

/// What is in a slot.
#[derive(Debug)]
enum Filling {
    /// Nothing yet.
    Missing,
    /// The reply.
    Reply(Reply),
    /// A reply that is made once it is the first.
    Sliced(Sliced),
    /// The same while [`Outbox::make`] has it.
    InTheMaking,
    /// A reply that the data Redis makes.
    Passed,
}

impl Filling {
    /// A reply that is large is made in slices.
    #[inline]
    fn of(reply: Reply) -> Self {
        Sliced::cut(reply).map_or_else(Self::Reply, Self::Sliced)
    }

    /// What it takes that is known beforehand.
    fn held(&self) -> usize {
        match self {
            Self::Reply(reply) => reply.held(),
            Self::Sliced(sliced) => sliced.charged,
            Self::Missing | Self::InTheMaking | Self::Passed => 0,
        }
    }
}

/// What an outbox needs to know about a request.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// Fingerprint of its key.
    pub key: u64,
    /// What it may overtake.
    pub order: Order,
    /// How large it is.
    pub bytes: usize,
    /// The place of its command in the table, or [`NO_COMMAND`].
    pub command: u16,
}

/// How an operation stands to others of its session that are still in flight.
///
/// All that takes one round reaches every master in the order in which it was started. What takes
/// several may be overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Changes nothing: waits for changes of the same key only.
    Read,
    /// Takes one round, and waits for changes and reads of the same key.
    Plain,
    /// As [`Order::Plain`], and must not overtake what takes several rounds: a release comes after
    /// what was written under the lock.
    Closing,
    /// Takes several rounds.
    Rounds,
    /// May touch any key: nothing overtakes it, and it overtakes nothing.
    Alone,
    /// Tells others what was done: waits for everything before it but its own kind.
    Announcing,
    /// Goes to the data Redis, which keeps the order of its own: waits for everything that the masters are asked, as
    /// they wait for it.
    Passed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Answer,
    /// The reply is not wanted (`CLIENT REPLY OFF`).
    Silence,
    /// One of several parts of a request with many keys.
    Part,
}

/// How the replies to a request's keys become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Their sum (`DEL`, `EXISTS`).
    Sum,
    /// All of them (`MGET`).
    List,
    /// `OK` for all of them (`WATCH`).
    AllOk,
}

#[derive(Debug)]
struct Gathering {
    how: Gather,
    missing: usize,
    sum: i64,
    list: Vec<Reply>,
    /// What it takes.
    bytes: usize,
    error: Option<Reply>,
    silent: bool,
}

impl Outbox {
    /// That of `client`, whose replies are counted in `metrics`.
    pub fn counted(client: Arc<Client>, metrics: Arc<Metrics>) -> Rc<Self> {
        let (client, metrics) = (Some(client), Some(metrics));
        let state = State { client, metrics, ..State::default() };
        Rc::new(Self { state: RefCell::new(state) })
    }

    /// A slot for an operation.
    pub fn reserve(self: &Rc<Self>, ticket: Ticket, silent: bool) -> Target {
        let purpose = if silent { Purpose::Silence } else { Purpose::Answer };
        self.push(Slot { filling: Filling::Missing, answer_bytes: 0, ticket, purpose })
    }

    /// A slot for one key of a request that [`Outbox::gather`] began.
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

    /// The next `parts` slots belong to one request.
    pub fn gather(&self, how: Gather, parts: usize, silent: bool) {
        let (sum, list, bytes, error) = (0, Vec::new(), 0, None);
        self.state.borrow_mut().gathering =
            Some(Gathering { how, missing: parts, sum, list, bytes, error, silent });
    }

    /// Whether parts of one request are still missing.
    pub fn is_gathering(&self) -> bool {
        self.state.borrow().gathering.is_some()
    }

    /// A reply to this command that is known at once.
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

    /// What no request has asked for just now, between two replies.
    pub fn push_message(&self, message: &Reply) {
        let state = &mut *self.state.borrow_mut();
        if state.closed {
            return;
        }
        let out = if state.is_amid() { &mut state.messages } else { &mut state.bytes };
        message.encode(state.protocol, out);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn fill(&self, slot: u64, filling: Filling) {
        let state = &mut *self.state.borrow_mut();
        let Some(index) = slot.checked_sub(state.first) else { return };
        let filling = state.executed(filling);
        if let Some(slot) = state.slots.get_mut(index as usize) {
            state.answer_bytes -= std::mem::take(&mut slot.answer_bytes);
            if matches!(filling, Filling::Sliced(_)) {
                // From here on it is known what is left of it.
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
            client.holding.set(Part::Answers, state.answer_bytes as u64);
            // The session settles it.
            waker.wake_by_ref();
        }
    }

    /// How much memory requests in flight and replies take.
    pub fn held(&self) -> usize {
        let state = self.state.borrow();
        let gathered = state.gathering.as_ref().map_or(0, |gathering| gathering.bytes);
        let in_the_making = match state.slots.front() {
            Some(Slot { filling: Filling::Sliced(sliced), .. }) => sliced.uncharged(),
            _ => 0,
        };
        let written = state.bytes.held() + state.messages.held();
        state.request_bytes + state.reply_bytes + gathered + in_the_making + written
    }

    /// How much of masters' answers takes that are no reply yet.
    pub fn answers_held(&self) -> usize {
        self.state.borrow().answer_bytes
    }

    /// How many requests, or parts of one, wait for their reply or for one before them.
    pub fn in_flight(&self) -> usize {
        self.state.borrow().slots.len()
    }

    /// Whether another request may be started.
    pub fn has_room(&self) -> bool {
        let state = self.state.borrow();
        state.slots.len() < state.window.0 && state.request_bytes < REQUESTS_IN_FLIGHT
    }

    /// Whether an operation has to wait for one before it. Reads of one key need not wait for each
    /// other.
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

    /// Whether something is in flight that nothing may overtake.
    pub fn runs_alone(&self) -> bool {
        self.state.borrow().slots.iter().any(|slot| slot.ticket.order == Order::Alone)
    }

    /// The last request is a transaction of which a part is answered here: that part sees nothing of what comes
    /// after it.
    pub fn executes(&self) {
        let state = &mut *self.state.borrow_mut();
        let last = (state.first + state.slots.len() as u64).checked_sub(1);
        state.executing = last.filter(|last| *last >= state.first);
    }

    /// Whether such a one is not answered yet.
    pub fn is_executing(&self) -> bool {
        let state = self.state.borrow();
        state.executing.is_some_and(|slot| slot >= state.first)
    }

    /// The client will send no more requests, though it may still read replies.
    pub fn end_of_requests(&self) {
        self.state.borrow_mut().ended = true;
    }

    /// The client has gone.
    pub fn close(&self) {
        // Dropped behind `state`: they may hold this outbox, and nobody would ever drop them.
        let mut in_the_making = Vec::new();
        let state = &mut *self.state.borrow_mut();
        state.closed = true;
        // What is still in flight keeps the rest of this for a while.
        state.bytes = Output::default();
        state.messages = Output::default();
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

    /// How many bytes are ready to be written.
    pub fn ready_bytes(&self) -> usize {
        self.state.borrow().ready_bytes()
    }

    /// The protocol for replies from now on.
    pub fn set_protocol(&self, protocol: Protocol) {
        self.state.borrow_mut().protocol = protocol;
    }

    /// The protocol of replies.
    pub fn protocol(&self) -> Protocol {
        self.state.borrow().protocol
    }

    /// Who is woken when there is something to write.
    pub fn wake_by(&self, waker: &Waker) {
        let mut state = self.state.borrow_mut();
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
    }

    /// The bytes that are ready to be written.
    pub fn bytes(&self) -> std::cell::RefMut<'_, Output> {
        std::cell::RefMut::map(self.state.borrow_mut(), |state| &mut state.bytes)
    }
}

impl State {
    fn ready_bytes(&self) -> usize {
        self.bytes.len() + self.messages.len()
    }

    fn encode_ready(&mut self) {
        while let Some(Slot { filling: Filling::Reply(_), .. }) = self.slots.front()
            && !self.is_amid_message
        {
            let Some(Slot { filling: Filling::Reply(reply), purpose, ticket, .. }) =
                self.slots.pop_front()
            else {
                break;
            };
            self.first += 1;
            self.request_bytes -= ticket.bytes;
            self.reply_bytes -= reply.held();
            match purpose {
                Purpose::Answer => {
                    self.count(ticket.command, &reply);
                    let before = self.bytes.len();
                    self.encode(&reply);
                    self.window.replied(self.bytes.len() - before);
                }
                Purpose::Silence => self.count(ticket.command, &reply),
                Purpose::Part => self.part(ticket.command, reply),
            }
        }
    }

    /// Nobody reads what is for a client that has gone.
    fn encode(&mut self, reply: &Reply) {
        if !self.closed {
            reply.encode(self.protocol, &mut self.bytes);
        }
    }

    /// Counts the commands of a transaction, of which an array is left; many of them, and what the proxy answers
    /// itself, later and one by one.
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

    /// As `call` of Redis (`server.c`): what is queued counts when it runs, not before.
    fn count(&self, command: u16, reply: &Reply) {
        let Some(metrics) = &self.metrics else { return };
        if *reply == Reply::QUEUED {
            return;
        }
        let told = reply.errors().map(|text| metrics.errors.told(text)).count();
        metrics.request(command, told > 0);
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
            // It takes the place of its last part.
            let ticket = Ticket { key: 0, order: Order::Read, bytes: 0, command };
            let (filling, purpose) = (Filling::of(whole), Purpose::Answer);
            self.reply_bytes += filling.held();
            self.slots.push_front(Slot { filling, answer_bytes: 0, ticket, purpose });
            self.first -= 1;
        }
    }
}

impl Gathering {
    /// Adds one part; the whole once there is no more.
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
