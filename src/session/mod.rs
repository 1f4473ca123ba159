//! One client connection: reads requests, starts operations, writes replies in order.
//!
//! A session is a future. It is polled when there is something to read, when a reply is ready, and when it must end.
//! Requests are decoded in the worker's one read buffer and only incomplete ones are copied, so that an idle connection
//! costs no buffer at all.

pub mod handover;
mod lingering;
pub mod listener;
mod passing;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep_until};

use crate::also_claim::job::LockJob;
use crate::catalogue::table::{self, Family, NO_COMMAND};
use crate::client::memory::{ENTRY, MemoryPart};
use crate::client::outbox::{Gather, Order, REPLIES_TO_STOP_READING, Target, Ticket};
use crate::client::registry::{Client, Disconnected};
use crate::client::timeslice::{self, TimeSlice};
use crate::command::transaction::{self, Planning};
use crate::command::{self, Action};
use crate::context::caller::Caller;
use crate::context::portable::{OtherEnd, Portable};
use crate::context::subscriptions::SubscriptionChange;
use crate::context::transaction::Transaction;
use crate::context::waiting::BlockingWait;
use crate::context::worker::Worker;
use crate::engine::sequential::{Aside, Asking};
use crate::masters::kill::kill_scripts;
use crate::operation::Operation;
use crate::resp::PASS_BUFFER;
use crate::resp::output::Output;
use crate::resp::reply::Reply;
use crate::resp::requests::{Args, Decoder, Limits, ProtocolError};
use crate::time::clock;
use handover::Suspended;
use lingering::Lingering;
use passing::Passing;

/// Maximum rounds of reading and starting requests before a session yields to others, however fast they are.
const READS_AT_A_TIME: usize = 4;

/// Bytes decoded in the time that it takes to start one request.
const BYTES_OF_WORK: usize = 64;

/// Size of a write that takes up a whole turn. The kernel copies the bytes, and delivers them itself to a client on
/// this machine, which then wants the same cores.
const WRITE_OF_A_TURN: usize = 8 << 10;

/// Maximum bytes read from a client at once.
const READ_BUFFER: usize = 64 << 10;

/// A connection.
pub struct Session<S> {
    stream: S,
    decoder: Decoder,
    /// Bytes of a request that is not complete yet, or must wait for an earlier one.
    pending: BytesMut,
    /// Whether the client sends no more. Requests that it has sent still run, as in Redis.
    ended: bool,
    registered: bool,
    /// Set while the client receives an error that ends the connection.
    lingering: Option<Lingering>,
    dialogue: Dialogue,
}

/// A session apart from its bytes: the requests in progress, and the conditions that delay the next one.
pub(crate) struct Dialogue {
    /// The client, as commands see it.
    caller: Caller,
    /// Time until which no request is started ([`Action::Rest`]).
    rest: Option<Pin<Box<Sleep>>>,
    /// An `EXEC` whose commands have not all been checked, and its size.
    planning: Option<(Box<Planning>, usize)>,
    /// The semaphore that limits the client to one large read at a time, once it has made one.
    large_reads: Option<Rc<Semaphore>>,
    /// The rest of a long request, which is passed on as it arrives.
    passing: Option<Box<Passing>>,
    /// Operations of a request with many keys that have not been started yet.
    parts: VecDeque<Operation>,
    /// Whether the next request has to wait for an earlier one.
    blocked: bool,
    /// Whether received bytes are unprocessed for lack of room.
    stalled: bool,
    /// Whether no more requests are started: after `QUIT`, a protocol error or the end of the stream.
    closing: bool,
    /// Whether the session closes because of a protocol error.
    is_refused: bool,
    /// Whether another process can take the session over.
    portable: bool,
    /// A waiting request, which can wait in another process instead.
    suspended: Option<Suspended>,
    /// Time that the next request has waited in another process.
    waited: Duration,
}

impl<S: Portable> Session<S> {
    /// Returns a session for a newly accepted connection.
    pub fn new(stream: S, worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let mut session = Self::begun(stream, worker, client);
        session.dialogue.closing = !session.dialogue.caller.log_in_if_open();
        session
    }

    /// Returns a session without a login.
    fn begun(stream: S, worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let dialogue = Dialogue {
            caller: Caller::new(worker, client),
            rest: None,
            planning: None,
            large_reads: None,
            passing: None,
            parts: VecDeque::new(),
            blocked: false,
            stalled: false,
            closing: false,
            is_refused: false,
            portable: S::IS_PORTABLE,
            suspended: None,
            waited: Duration::ZERO,
        };
        let (decoder, pending) = (Decoder::new(), BytesMut::new());
        let (ended, registered, lingering) = (false, false, None);
        Self { stream, decoder, pending, ended, registered, lingering, dialogue }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Future for Session<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let session = self.get_mut();
        session.dialogue.caller.outbox.wake_by(cx.waker());
        if !session.registered {
            session.registered = true;
            session.dialogue.caller.client.wake_by(cx.waker());
        }
        if session.lingering.is_some() {
            return session.poll_linger(cx);
        }
        if let Err(why) = session.dialogue.caller.adopt_users() {
            session.dialogue.disconnect(why);
            return Poll::Ready(());
        }
        if session.dialogue.caller.outbox.is_looked_for() && !session.is_client_there() {
            return Poll::Ready(());
        }
        let mut time = TimeSlice::default();
        if !session.pending.is_empty() || session.dialogue.caller.outbox.may_make() {
            time.begin(clock::now());
        }
        for _ in 0..READS_AT_A_TIME {
            session.work_on_pending(&mut time);
            session.dialogue.closing |= session.ended && !session.has_put_by();
            if session.dialogue.has_rested(cx) {
                continue;
            }
            let was_made = session.dialogue.make(&mut time) | session.dialogue.poll_data(cx);
            while session.dialogue.caller.begin_runs() {
                session.dialogue.poll_data(cx);
            }
            match session.poll_write(cx, &mut time) {
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if session.dialogue.is_finished() => {
                    return session.poll_linger(cx);
                }
                _ => {}
            }
            if let Some(why) = session.dialogue.must_disconnect() {
                session.dialogue.disconnect(why);
                return Poll::Ready(());
            }
            if session.dialogue.caller.worker.is_departing()
                && let Some(left) = session.poll_depart(cx)
            {
                return left;
            }
            if time.look() {
                if session.only_reads() && session.stream.poll_readable(cx).is_pending() {
                    return Poll::Pending;
                }
                break;
            }
            // Writing may have made room for the bytes already received, or made the reply that they waited for.
            let may_go_on = session.dialogue.stalled && session.dialogue.may_start();
            let was_unblocked = session.dialogue.blocked && was_made;
            let may_make =
                session.dialogue.planning.is_some() || session.dialogue.caller.outbox.may_make();
            if may_go_on || was_unblocked || may_make {
                continue;
            }
            if !session.may_read() {
                return Poll::Pending;
            }
            match ready!(session.poll_read(cx, &mut time)) {
                Ok(0) => {
                    session.ended = true;
                    session.dialogue.closing |= !session.has_put_by();
                    session.dialogue.caller.outbox.end_of_requests();
                    if let Some(side) = &mut session.dialogue.caller.side {
                        side.end_of_requests();
                        continue;
                    }
                }
                Ok(_) => {}
                Err(_) => return Poll::Ready(()),
            }
        }
        timeslice::others_first(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Session<S> {
    /// Checks whether the client is still there and reports it to the task that asked.
    fn is_client_there(&self) -> bool {
        let other_end = self.stream.other_end();
        if other_end == OtherEnd::Ended {
            self.dialogue.caller.outbox.end_of_requests();
        }
        self.dialogue.caller.outbox.was_looked_for();
        other_end != OtherEnd::Gone
    }

    /// Whether nothing is left to do before the client sends more. Its turn then does not end by yielding to others,
    /// because its next request would be read after theirs. Bytes from the data Redis may have waited for room that now
    /// exists.
    fn only_reads(&self) -> bool {
        let dialogue = &self.dialogue;
        if dialogue.caller.side.as_ref().is_some_and(|side| !side.is_at_rest()) {
            return false;
        }
        let is_making = dialogue.planning.is_some() || dialogue.caller.outbox.may_make();
        let has_left =
            dialogue.stalled || dialogue.blocked || is_making || dialogue.passing.is_some();
        self.pending.is_empty() && !has_left && self.may_read()
    }

    fn work_on_pending(&mut self, time: &mut TimeSlice) {
        self.dialogue.start_parts();
        self.dialogue.plan(time);
        self.take_back();
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let done = self.requests(&pending, time);
            self.pending = pending;
            self.pending.advance(done);
            if self.pending.is_empty() {
                self.pending = BytesMut::new();
            }
        }
    }

    /// Whether a request waits for earlier ones.
    fn has_put_by(&self) -> bool {
        !self.pending.is_empty() && (self.dialogue.blocked || self.dialogue.stalled)
    }

    /// Whether to read from the client. While a request waits, later ones are read and only stored, so that a
    /// disconnect is noticed.
    fn may_read(&self) -> bool {
        if self.ended {
            return false;
        }
        let has_space = self.pending.len() < READ_BUFFER;
        if self.dialogue.rest.is_some() {
            return !self.dialogue.closing && has_space;
        }
        let waits =
            || self.dialogue.caller.outbox.runs_alone() || self.dialogue.caller.outbox.has_passed();
        let put_by = || waits() && has_space;
        if self.dialogue.is_departing() {
            return !self.dialogue.closing && put_by();
        }
        self.dialogue.may_read() && (!self.dialogue.blocked || put_by())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, time: &mut TimeSlice) -> Poll<io::Result<usize>> {
        let worker = Rc::clone(&self.dialogue.caller.worker);
        let mut buffer = worker.read_buffer();
        let size = if self.dialogue.passing.is_some() { PASS_BUFFER } else { READ_BUFFER };
        let mut free = ReadBuf::new(&mut buffer[..size]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut free))?;
        let read = free.filled();
        let now = clock::now();
        time.begin(now);
        self.dialogue.caller.client.seen(now);
        worker.engine().see(now);
        worker.metrics().bytes_in.add(read.len() as u64);
        if self.pending.is_empty() {
            let done = self.requests(read, time);
            self.pending.extend_from_slice(&read[done..]);
        } else {
            self.pending.extend_from_slice(read);
        }
        Poll::Ready(Ok(read.len()))
    }

    /// Starts the requests in `bytes` for which there is time. Returns their length in bytes.
    fn requests(&mut self, bytes: &[u8], time: &mut TimeSlice) -> usize {
        let (mut done, mut requests) = (0, 0);
        self.dialogue.blocked = false;
        while done < bytes.len() && self.dialogue.may_start() {
            if self.dialogue.passing.is_some() {
                done += self.dialogue.pass_more(&bytes[done..]);
                continue;
            }
            match self.decoder.decode(&bytes[done..], self.dialogue.limits()) {
                Ok(None) => {
                    if !self.begin_to_pass(&bytes[done..]) {
                        break;
                    }
                }
                Ok(Some(len)) => {
                    let args = self.decoder.args(&bytes[done..]);
                    if !self.dialogue.request(args, &bytes[done..done + len]) {
                        self.dialogue.blocked = true;
                        break;
                    }
                    requests += 1;
                    done += len;
                    if done < bytes.len() && time.spend(self.dialogue.work(len)) {
                        break;
                    }
                }
                Err(error) => {
                    self.dialogue.refuse(error);
                    done = bytes.len();
                }
            }
        }
        if self.dialogue.passing.is_some() && self.dialogue.closing {
            done = bytes.len();
        }
        self.dialogue.stalled = done < bytes.len() && !self.dialogue.may_start();
        self.dialogue.caller.worker.registry().count_requests(requests);
        done
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, time: &mut TimeSlice) -> Poll<io::Result<()>> {
        let outbox = Rc::clone(&self.dialogue.caller.outbox);
        let mut bytes = outbox.bytes();
        let before = bytes.len();
        if before > 0 && !self.dialogue.caller.worker.live().timeout.is_zero() {
            self.dialogue.caller.client.seen(clock::now());
        }
        let flushed = bytes.poll_write(Pin::new(&mut self.stream), cx);
        let unread = bytes.len();
        self.dialogue.caller.worker.metrics().bytes_out.add((before - unread) as u64);
        if before - unread >= WRITE_OF_A_TURN {
            time.end();
        }
        if let Poll::Ready(Ok(())) = flushed {
            // An idle connection keeps no buffer.
            *bytes = Output::default();
        }
        drop(bytes);
        outbox.was_written();
        self.account(unread);
        flushed
    }

    /// Reports the connection's share of the memory that all clients take.
    fn account(&self, unread: usize) {
        let (dialogue, client) = (&self.dialogue, &self.dialogue.caller.client);
        client.holds(self.pending.len(), unread);
        let data = dialogue.caller.side.as_ref().map_or(0, |side| side.held());
        let requests = self.pending.capacity() + self.decoder.held() + dialogue.parts_held() + data;
        client.holding.set(MemoryPart::Requests, requests as u64);
        client.holding.set(MemoryPart::Transaction, dialogue.transaction_held() as u64);
        client.holding.set(MemoryPart::Replies, dialogue.caller.outbox.held() as u64);
        client.holding.set(MemoryPart::Answers, dialogue.caller.outbox.answers_held() as u64);
        dialogue.caller.worker.registry().budget().settle(client);
    }
}

impl Dialogue {
    /// Starts one request. Returns false if it has to wait for an earlier one.
    fn request(&mut self, args: Args<'_>, raw: &[u8]) -> bool {
        if args.is_empty() {
            return true;
        }
        let bytes = raw.len();
        let action = command::prepare(&mut self.caller, args);
        let is_watched = self.caller.worker.registry().monitors().any();
        let is_shown = is_watched && !self.is_shown_by_data(&action);
        let is_done = match action {
            Action::Later => false,
            Action::Rest(until) => {
                self.rest = Some(Box::pin(sleep_until(until)));
                false
            }
            Action::Reply(reply) => {
                self.caller.answer(reply);
                true
            }
            Action::Unsubscribed(reply) => self.answer_unsubscribed(reply),
            Action::Slices(sliced) => self.caller.answer_in_slices(sliced),
            Action::Close(reply) => {
                self.caller.answer(reply);
                self.closing = true;
                true
            }
            Action::Silence => true,
            Action::HangUp => {
                self.closing = true;
                true
            }
            Action::Start(operation) => self.start(operation, bytes),
            Action::Plan(planning) => {
                self.planning = Some((planning, bytes));
                true
            }
            Action::Subscribe(topics) => self.caller.subscribe(topics),
            Action::Unsubscribe(kind, topics) => self.caller.unsubscribe(kind, topics),
            Action::Gather(how, operations) => self.gather(how, operations),
            Action::Wait(waiting) => self.wait(*waiting, args),
            Action::Aside(aside) => self.aside(*aside, bytes),
            Action::Both(job) => self.on_both(*job),
            Action::Store(storing) => {
                let engine = Rc::clone(self.caller.worker.engine());
                self.run_alone(|target| storing.run(engine, target))
            }
            Action::KillScripts => self.kill_scripts(),
            Action::Monitor => {
                self.monitor();
                true
            }
            Action::Pass(ticket) => {
                self.pass_on(ticket, args, raw);
                true
            }
            Action::Share { ticket, is_read } => {
                self.share(ticket, is_read, args, raw);
                true
            }
        };
        if is_done {
            self.caller.libraries.take();
        }
        if is_done && is_shown {
            self.caller.show_to_monitors(args);
        }
        is_done
    }

    /// Returns the cost of starting the current request, for a [`TimeSlice`]. Requests that the proxy answers itself
    /// can cost any amount.
    fn work(&self, bytes: usize) -> usize {
        let family = table::at(self.caller.command).map(|spec| spec.family);
        let is_ours = matches!(
            family,
            Some(Family::Server | Family::Pubsub | Family::Script | Family::Transaction)
        );
        if is_ours { timeslice::LOOK } else { 1 + bytes / BYTES_OF_WORK }
    }

    /// Whether the data Redis shows the current request to monitors, who see its stream as well.
    fn is_shown_by_data(&mut self, action: &Action) -> bool {
        let was_told =
            self.caller.side.as_mut().is_some_and(|side| std::mem::take(&mut side.was_told));
        match action {
            Action::Pass(_) | Action::Share { .. } => true,
            Action::Subscribe(topics) => self.caller.are_of_data(SubscriptionChange::Join, topics),
            Action::Unsubscribe(_, topics) => {
                self.caller.are_of_data(SubscriptionChange::Leave, topics)
            }
            _ => was_told,
        }
    }

    fn monitor(&mut self) {
        self.caller.watch_requests();
        if let Some(side) = &mut self.caller.side {
            side.monitor();
        }
        self.caller.answer(Reply::OK);
    }

    fn start(&mut self, operation: Operation, bytes: usize) -> bool {
        let ticket = self.caller.ticket(&operation, bytes);
        if self.caller.outbox.is_busy(&ticket) {
            return false;
        }
        let silent = self.caller.is_silent();
        let target = self.caller.outbox.reserve(ticket, silent);
        if operation.kind.has_own_part() {
            self.caller.outbox.executes();
        }
        self.caller.worker.engine().start(operation, ticket.key, target);
        true
    }

    /// Continues an `EXEC`, and starts it when all its commands have been checked.
    fn plan(&mut self, time: &mut TimeSlice) {
        let Some((mut planning, bytes)) = self.planning.take() else { return };
        match planning.go_on(&mut self.caller, time) {
            Ok(None) => self.planning = Some((planning, bytes)),
            // No other request has been started since, so it need not wait.
            Ok(Some(operation)) => _ = self.start(operation, bytes),
            Err(refused) => self.caller.answer(refused),
        }
    }

    /// Continues replies that are made in slices.
    fn make(&mut self, time: &mut TimeSlice) -> bool {
        let outbox = Rc::clone(&self.caller.outbox);
        outbox
            .make(time, &mut |place, request| transaction::answer(&mut self.caller, place, request))
    }

    /// Starts a task that queries one master after the other.
    fn aside(&mut self, aside: Aside, bytes: usize) -> bool {
        let key = self.caller.worker.engine().fingerprint(aside.db(), aside.key());
        let ticket = Ticket { key, order: aside.order(), bytes, command: self.caller.command };
        if self.caller.outbox.is_busy(&ticket) {
            return false;
        }
        let silent = self.caller.is_silent();
        let target = self.caller.outbox.reserve(ticket, silent);
        tokio::task::spawn_local(aside.run(self.asking(), target));
        true
    }

    fn asking(&mut self) -> Asking {
        Asking {
            engine: Rc::clone(self.caller.worker.engine()),
            client: Rc::clone(self.large_reads.get_or_insert_with(|| Rc::new(Semaphore::new(1)))),
            busy: Arc::clone(self.caller.worker.busy_masters()),
        }
    }

    /// Starts a task that queries the data Redis and the masters.
    fn on_both(&mut self, job: LockJob) -> bool {
        let Some(gate) = self.caller.worker.gate().cloned() else { return false };
        let engine = Rc::clone(self.caller.worker.engine());
        self.run_alone(|target| job.run(engine, gate, target))
    }

    /// Answers once the masters know about the unsubscriptions, as after `UNSUBSCRIBE`.
    fn answer_unsubscribed(&mut self, reply: Reply) -> bool {
        let told = self.caller.worker.hub().caught_up();
        self.run_alone(|target| async {
            told.await;
            target.deliver(reply);
        })
    }

    /// Starts a request with many keys once no other is in flight. Later requests wait until it is done.
    fn gather(&mut self, how: Gather, operations: Vec<Operation>) -> bool {
        if self.caller.outbox.in_flight() > 0 {
            return false;
        }
        let silent = self.caller.is_silent();
        self.caller.outbox.gather(how, operations.len(), silent);
        self.parts = operations.into();
        self.start_parts();
        true
    }

    /// Starts to wait. The client's later requests wait until it is answered.
    fn wait(&mut self, mut waiting: BlockingWait, args: Args<'_>) -> bool {
        let worker = Rc::clone(&self.caller.worker);
        let withdrawal = self.suspend(&mut waiting, args);
        let asking = self.asking();
        self.run_alone(|target| waiting.run(worker, asking, withdrawal, target))
    }

    fn kill_scripts(&mut self) -> bool {
        let masters = self.caller.worker.settings().masters.clone();
        let network = self.caller.worker.network().clone();
        self.run_alone(|target| async { target.deliver(kill_scripts(network, masters).await) })
    }

    /// Starts a task that answers, and lets no request start before it does.
    fn run_alone<F>(&mut self, task: impl FnOnce(Target) -> F) -> bool
    where
        F: Future<Output = ()> + 'static,
    {
        if self.caller.outbox.in_flight() > 0 {
            return false;
        }
        let silent = self.caller.is_silent();
        let ticket = self.caller.ticket_of(Order::Alone);
        let target = self.caller.outbox.reserve(ticket, silent);
        tokio::task::spawn_local(task(target));
        true
    }

    fn start_parts(&mut self) {
        while self.caller.outbox.has_room() {
            let Some(operation) = self.parts.pop_front() else { return };
            let ticket = self.caller.ticket(&operation, operation.key.len());
            let target = self.caller.outbox.reserve_part(ticket);
            self.caller.worker.engine().start(operation, ticket.key, target);
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            max_request_bytes: self.caller.worker.settings().max_request_bytes,
            authenticated: self.caller.login.is_authenticated(),
            may_pass: self.caller.side.is_some() && self.caller.login.is_authenticated(),
        }
    }

    fn may_start(&self) -> bool {
        if let Some(room) = self.passing_room() {
            return !self.closing && room > 0;
        }
        let has_room = self.caller.outbox.has_room()
            && self.caller.outbox.ready_bytes() < REPLIES_TO_STOP_READING;
        let is_free = !self.closing && !self.has_begun() && !self.caller.outbox.is_executing();
        has_room && is_free && self.rest.is_none() && !self.is_departing()
    }

    /// Whether parts of a started request have still to be started.
    fn has_begun(&self) -> bool {
        !self.parts.is_empty() || self.planning.is_some() || self.caller.outbox.is_gathering()
    }

    fn may_read(&self) -> bool {
        self.may_start() && !self.stalled && !self.caller.worker.is_draining()
    }

    /// Whether a rest has just ended.
    fn has_rested(&mut self, cx: &mut Context<'_>) -> bool {
        let has_ended = self.rest.as_mut().is_some_and(|rest| rest.as_mut().poll(cx).is_ready());
        if has_ended {
            self.rest = None;
        }
        has_ended
    }

    fn must_disconnect(&self) -> Option<Disconnected> {
        let listens = self.caller.has_subscriptions() || self.caller.watching.is_some();
        if self.caller.client.is_killed() {
            Some(Disconnected::Killed)
        } else if self.caller.client.holding.is_condemned() {
            Some(Disconnected::Memory)
        } else if self.unread_bytes() > self.caller.worker.live().max_output_bytes {
            Some(Disconnected::Output)
        } else if self.caller.client.is_overdue() && self.caller.outbox.in_flight() == 0 && !listens
        {
            Some(Disconnected::Timeout)
        } else {
            None
        }
    }

    /// Returns the bytes of replies that the client has not read, including the known replies of a transaction.
    fn unread_bytes(&self) -> usize {
        let known = self.planning.as_ref().map_or(0, |(planning, _)| planning.known());
        self.caller.outbox.unread_bytes() + known
    }

    fn disconnect(&self, why: Disconnected) {
        self.caller.worker.registry().disconnected(why);
        if why == Disconnected::Output {
            let (address, bytes) = (&self.caller.client.address, self.unread_bytes());
            tracing::warn!(%address, bytes, "disconnecting a client that does not read its replies (max-output-bytes)");
        }
    }

    /// Returns the memory taken by the rest of a request with many keys, and by a waiting request.
    fn parts_held(&self) -> usize {
        let suspended = self.suspended.as_ref().map_or(0, Suspended::held);
        self.parts.capacity() * size_of::<Operation>() + suspended
    }

    /// Returns the memory taken by `MULTI` and `WATCH`.
    fn transaction_held(&self) -> usize {
        let queued = self.caller.transaction.as_ref().map_or(0, Transaction::held);
        let planned = self.planning.as_ref().map_or(0, |(planning, _)| planning.held());
        queued
            + planned
            + self.caller.watched.iter().map(|watched| watched.key.len() + ENTRY).sum::<usize>()
    }

    /// Sends the protocol error as the last reply.
    fn refuse(&mut self, error: ProtocolError) {
        self.caller.outbox.push_reply(NO_COMMAND, error.reply());
        (self.closing, self.is_refused) = (true, true);
    }

    /// Whether every request is answered, and no more will be started.
    fn is_finished(&self) -> bool {
        let ending = self.closing || self.caller.worker.is_draining();
        ending && self.caller.outbox.in_flight() == 0 && !self.has_begun()
    }
}
