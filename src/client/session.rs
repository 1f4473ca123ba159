//! One client connection: reads requests, starts operations, writes replies in order.
//!
//! A session is a future that is polled when there is something to read, when a reply is ready, and
//! when it is told to end. Requests are decoded in the worker's one read buffer and only what is
//! incomplete is copied, so that an idle connection costs no buffer at all.

mod depart;
mod lingering;
pub(crate) mod listening;
mod passing;
mod users;

use std::cell::{Cell, RefCell};
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

use super::decoder::{Args, Decoder, Limits, ProtocolError};
use super::guesses::Attempts;
use super::login::Login;
use super::memory::{ENTRY, Part};
use super::monitor::Watching;
use super::outbox::{Gather, Order, Outbox, REPLIES_TO_STOP_READING, Target, Ticket};
use super::output::Output;
use super::registry::{Client, Disconnected};
use super::reply::Reply;
use super::slices::Sliced;
use super::timeslice::{self, TimeSlice};
use super::waiting::Waiting;
use crate::acl::Users;
use crate::clock;
use crate::command::table::Family;
use crate::command::transaction::{self, Planning, Transaction};
use crate::command::{self, Action, table};
use crate::data::side::Side;
use crate::handover::connection::{OtherEnd, Portable};
use crate::master::kill::kill_scripts;
use crate::metrics::NO_COMMAND;
use crate::moving::job::Job;
use crate::operation::Operation;
use crate::operation::aside::{Aside, Asking};
use crate::operation::libraries::{Asked, Libraries};
use crate::operation::watch::Watched;
use crate::pubsub::TopicKind;
use crate::pubsub::hub::Hub;
use crate::pubsub::subscriber::Subscriber;
use crate::reserved::LIBRARIES;
use crate::worker::Worker;
use depart::Suspended;
use lingering::Lingering;
use listening::Change;
use passing::Passing;

/// How often a session may read or start requests before it is the others' turn, however fast that is.
const READS_AT_A_TIME: usize = 4;

/// Bytes that are decoded in the time in which one request is begun.
const BYTES_OF_WORK: usize = 64;

/// A write of this many bytes takes a turn: the kernel copies them, and delivers them itself to a client on this
/// machine, which then wants the same cores.
const WRITE_OF_A_TURN: usize = 8 << 10;

/// How much is read from a client at once.
const READ_BUFFER: usize = 64 << 10;

/// How much is read at once of what only passes through: the more, the fewer times three processes wake each other.
pub const PASS_BUFFER: usize = 512 << 10;

/// A connection.
pub struct Session<S> {
    stream: S,
    decoder: Decoder,
    /// Bytes of a request that is not complete yet, or must wait for one before it.
    pending: BytesMut,
    /// The client sends no more. What it has sent is done all the same, as by Redis.
    ended: bool,
    registered: bool,
    /// It is told an error that ends the connection.
    lingering: Option<Lingering>,
    front: Front,
}

/// All of a session but its bytes: what commands see and change.
pub struct Front {
    /// The worker this session lives on.
    pub worker: Rc<Worker>,
    /// Its entry in `CLIENT LIST`.
    pub client: Arc<Client>,
    /// Its replies.
    pub outbox: Rc<Outbox>,
    /// The place of the current request's command in the table, or [`NO_COMMAND`].
    pub command: u16,
    /// `SELECT`
    pub db: u32,
    /// Who it is.
    pub login: Login,
    /// Its wrong passwords.
    attempts: Attempts,
    /// Until then no request is started ([`Action::Rest`]).
    rest: Option<Pin<Box<Sleep>>>,
    /// All users, as this session knows them.
    users: Arc<Users>,
    /// `CLIENT REPLY`
    pub replies: Replies,
    /// What `MULTI` has begun.
    pub transaction: Option<Transaction>,
    /// An `EXEC` whose commands have not all been looked at, and its size.
    planning: Option<(Box<Planning>, usize)>,
    /// What `SELECT` after `MULTI` has chosen, once `EXEC` has run.
    pub chosen_db: Rc<Cell<Option<u32>>>,
    /// What `WATCH` has named.
    pub watched: Vec<Rc<Watched>>,
    /// The libraries of functions, for the request that waits for them.
    libraries: Rc<RefCell<Asked>>,
    /// What lets it read one large thing at a time, once it has.
    large_reads: Option<Rc<Semaphore>>,
    /// What it has subscribed to, once it has.
    subscriber: Option<Rc<Subscriber>>,
    /// `MONITOR`
    watching: Option<Watching>,
    /// Its dealings with the data Redis, if there is one.
    pub side: Option<Box<Side>>,
    /// The rest of a long request, which is passed on while it comes.
    passing: Option<Box<Passing>>,
    /// Subscriptions that wait for those before them.
    runs: listening::Runs,
    /// Operations of a request with many keys that have not been started yet.
    parts: VecDeque<Operation>,
    /// The next request has to wait for one before it.
    blocked: bool,
    /// Bytes are here that were not looked at for want of room.
    stalled: bool,
    /// No more requests: after `QUIT`, a protocol error or the end of the stream.
    closing: bool,
    /// The last of these was a protocol error.
    is_refused: bool,
    /// Another process can go on with it.
    portable: bool,
    /// A request that waits, for another process to wait instead.
    suspended: Option<Suspended>,
    /// How long the next request has waited in another process.
    waited: Duration,
}

/// `CLIENT REPLY ON|OFF|SKIP`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// Send them.
    #[default]
    On,
    /// Send none.
    Off,
    /// Do not send the next one.
    SkipNext,
}

impl<S: Portable> Session<S> {
    /// A session that has just been accepted.
    pub fn new(stream: S, worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let mut session = Self::begun(stream, worker, client);
        session.front.log_in_if_open();
        session
    }

    /// One that nobody has logged in to.
    fn begun(stream: S, worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let users = Arc::clone(&worker.live().users);
        let login = Login::stranger(&users);
        let front = Front {
            login,
            attempts: Attempts::default(),
            rest: None,
            users,
            outbox: Outbox::counted(Arc::clone(&client), Arc::clone(worker.metrics())),
            client,
            command: NO_COMMAND,
            db: worker.first_db(),
            replies: Replies::On,
            transaction: None,
            planning: None,
            chosen_db: Rc::default(),
            watched: Vec::new(),
            libraries: Rc::default(),
            large_reads: None,
            subscriber: None,
            watching: None,
            passing: None,
            runs: listening::Runs::new(),
            side: worker.spares().map(|spares| {
                let shared = Rc::clone(worker.shared_connections());
                Box::new(Side::new(Rc::clone(spares), shared))
            }),
            parts: VecDeque::new(),
            blocked: false,
            stalled: false,
            closing: false,
            is_refused: false,
            portable: S::IS_PORTABLE,
            suspended: None,
            waited: Duration::ZERO,
            worker,
        };
        let (decoder, pending) = (Decoder::new(), BytesMut::new());
        let (ended, registered, lingering) = (false, false, None);
        Self { stream, decoder, pending, ended, registered, lingering, front }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Future for Session<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let session = self.get_mut();
        session.front.outbox.wake_by(cx.waker());
        if !session.registered {
            session.registered = true;
            session.front.client.wake_by(cx.waker());
        }
        if session.lingering.is_some() {
            return session.poll_linger(cx);
        }
        if let Err(why) = session.front.adopt_users() {
            session.front.disconnect(why);
            return Poll::Ready(());
        }
        if session.front.outbox.is_looked_for() && !session.is_client_there() {
            return Poll::Ready(());
        }
        let mut time = TimeSlice::default();
        if !session.pending.is_empty() || session.front.outbox.may_make() {
            time.begin(clock::now());
        }
        for _ in 0..READS_AT_A_TIME {
            session.work_on_pending(&mut time);
            session.front.closing |= session.ended && !session.has_put_by();
            if session.front.has_rested(cx) {
                continue;
            }
            let was_made = session.front.make(&mut time) | session.front.poll_data(cx);
            while session.front.begin_runs() {
                session.front.poll_data(cx);
            }
            match session.poll_write(cx, &mut time) {
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if session.front.is_finished() => {
                    return session.poll_linger(cx);
                }
                _ => {}
            }
            if let Some(why) = session.front.must_disconnect() {
                session.front.disconnect(why);
                return Poll::Ready(());
            }
            if session.front.worker.is_departing()
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
            // Writing may have made room for what is already here, or what that waited for is made.
            let may_go_on = session.front.stalled && session.front.may_start();
            let was_unblocked = session.front.blocked && was_made;
            let may_make = session.front.planning.is_some() || session.front.outbox.may_make();
            if may_go_on || was_unblocked || may_make {
                continue;
            }
            if !session.may_read() {
                return Poll::Pending;
            }
            match ready!(session.poll_read(cx, &mut time)) {
                Ok(0) => {
                    session.ended = true;
                    session.front.closing |= !session.has_put_by();
                    session.front.outbox.end_of_requests();
                    if let Some(side) = &mut session.front.side {
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
    /// For whoever asks.
    fn is_client_there(&self) -> bool {
        let other_end = self.stream.other_end();
        if other_end == OtherEnd::Ended {
            self.front.outbox.end_of_requests();
        }
        self.front.outbox.was_looked_for();
        other_end != OtherEnd::Gone
    }

    /// Whether nothing is left to do before the client sends more. Then its turn does not end by waiting for others: what
    /// it sends next would come behind what they send after that. What the data Redis sends may have waited for room that
    /// there is by now.
    fn only_reads(&self) -> bool {
        let front = &self.front;
        if front.side.as_ref().is_some_and(|side| !side.is_at_rest()) {
            return false;
        }
        let is_making = front.planning.is_some() || front.outbox.may_make();
        let has_left = front.stalled || front.blocked || is_making || front.passing.is_some();
        self.pending.is_empty() && !has_left && self.may_read()
    }

    fn work_on_pending(&mut self, time: &mut TimeSlice) {
        self.front.start_parts();
        self.front.plan(time);
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

    /// Whether a request waits for those before it.
    fn has_put_by(&self) -> bool {
        !self.pending.is_empty() && (self.front.blocked || self.front.stalled)
    }

    /// While a client waits, the next requests are only put by: so it is noticed when it goes away.
    fn may_read(&self) -> bool {
        if self.ended {
            return false;
        }
        let has_space = self.pending.len() < READ_BUFFER;
        if self.front.rest.is_some() {
            return !self.front.closing && has_space;
        }
        let waits = || self.front.outbox.runs_alone() || self.front.outbox.has_passed();
        let put_by = || waits() && has_space;
        if self.front.is_departing() {
            return !self.front.closing && put_by();
        }
        self.front.may_read() && (!self.front.blocked || put_by())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, time: &mut TimeSlice) -> Poll<io::Result<usize>> {
        let worker = Rc::clone(&self.front.worker);
        let mut buffer = worker.read_buffer();
        let size = if self.front.passing.is_some() { PASS_BUFFER } else { READ_BUFFER };
        let mut free = ReadBuf::new(&mut buffer[..size]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut free))?;
        let read = free.filled();
        let now = clock::now();
        time.begin(now);
        self.front.client.seen(now);
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

    /// Starts the requests in `bytes`, or those that there is time for; says how many bytes they were.
    fn requests(&mut self, bytes: &[u8], time: &mut TimeSlice) -> usize {
        let (mut done, mut requests) = (0, 0);
        self.front.blocked = false;
        while done < bytes.len() && self.front.may_start() {
            if self.front.passing.is_some() {
                done += self.front.pass_more(&bytes[done..]);
                continue;
            }
            match self.decoder.decode(&bytes[done..], self.front.limits()) {
                Ok(None) => {
                    if !self.begin_to_pass(&bytes[done..]) {
                        break;
                    }
                }
                Ok(Some(len)) => {
                    let args = self.decoder.args(&bytes[done..]);
                    if !self.front.request(args, &bytes[done..done + len]) {
                        self.front.blocked = true;
                        break;
                    }
                    requests += 1;
                    done += len;
                    if done < bytes.len() && time.spend(self.front.work(len)) {
                        break;
                    }
                }
                Err(error) => {
                    self.front.refuse(error);
                    done = bytes.len();
                }
            }
        }
        if self.front.passing.is_some() && self.front.closing {
            done = bytes.len();
        }
        self.front.stalled = done < bytes.len() && !self.front.may_start();
        self.front.worker.registry().count_requests(requests);
        done
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, time: &mut TimeSlice) -> Poll<io::Result<()>> {
        let outbox = Rc::clone(&self.front.outbox);
        let mut bytes = outbox.bytes();
        let before = bytes.len();
        if before > 0 && !self.front.worker.live().timeout.is_zero() {
            self.front.client.seen(clock::now());
        }
        let flushed = bytes.poll_write(Pin::new(&mut self.stream), cx);
        let unread = bytes.len();
        self.front.worker.metrics().bytes_out.add((before - unread) as u64);
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

    /// Tells what this connection takes of the memory that clients have together.
    fn account(&self, unread: usize) {
        let (front, client) = (&self.front, &self.front.client);
        client.holds(self.pending.len(), unread);
        let data = front.side.as_ref().map_or(0, |side| side.held());
        let requests = self.pending.capacity() + self.decoder.held() + front.parts_held() + data;
        client.holding.set(Part::Requests, requests as u64);
        client.holding.set(Part::Transaction, front.transaction_held() as u64);
        client.holding.set(Part::Replies, front.outbox.held() as u64);
        client.holding.set(Part::Answers, front.outbox.answers_held() as u64);
        front.worker.registry().budget().settle(client);
    }
}

impl Front {
    /// The time of day by the masters' clocks, in milliseconds.
    pub fn unix_ms(&self) -> i64 {
        self.worker.engine().rules().unix_time.ms()
    }

    /// A transaction may have selected another database.
    pub fn adopt_db(&mut self) {
        if let Some(db) = self.chosen_db.take() {
            self.db = db;
            self.client.words().db = db;
        }
    }

    /// Starts one request; false when it has to wait for one before it.
    fn request(&mut self, args: Args<'_>, raw: &[u8]) -> bool {
        if args.is_empty() {
            return true;
        }
        let bytes = raw.len();
        let action = command::prepare(self, args);
        let is_watched = self.worker.registry().monitors().any();
        let is_shown = is_watched && !self.is_shown_by_data(&action);
        let is_done = match action {
            Action::Later => false,
            Action::Rest(until) => {
                self.rest = Some(Box::pin(sleep_until(until)));
                false
            }
            Action::Reply(reply) => {
                self.answer(reply);
                true
            }
            Action::Unsubscribed(reply) => self.answer_unsubscribed(reply),
            Action::Slices(sliced) => self.answer_in_slices(sliced),
            Action::Close(reply) => {
                self.answer(reply);
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
            Action::Subscribe(topics) => self.subscribe(topics),
            Action::Unsubscribe(kind, topics) => self.unsubscribe(kind, topics),
            Action::Gather(how, operations) => self.gather(how, operations),
            Action::Wait(waiting) => self.wait(*waiting, args),
            Action::Aside(aside) => self.aside(*aside, bytes),
            Action::Both(job) => self.on_both(*job),
            Action::Store(storing) => {
                let engine = Rc::clone(self.worker.engine());
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
            self.libraries.take();
        }
        if is_done && is_shown {
            self.show_to_monitors(args);
        }
        is_done
    }

    /// What the current request was to begin, for a [`TimeSlice`]. What the proxy answers itself may be anything.
    fn work(&self, bytes: usize) -> usize {
        let family = table::at(self.command).map(|spec| spec.family);
        let is_ours = matches!(
            family,
            Some(Family::Server | Family::Pubsub | Family::Script | Family::Transaction)
        );
        if is_ours { timeslice::LOOK } else { 1 + bytes / BYTES_OF_WORK }
    }

    /// Whether the data Redis shows the current request to monitors, who hear that as well.
    fn is_shown_by_data(&mut self, action: &Action) -> bool {
        let was_told = self.side.as_mut().is_some_and(|side| std::mem::take(&mut side.was_told));
        match action {
            Action::Pass(_) | Action::Share { .. } => true,
            Action::Subscribe(topics) => self.are_of_data(Change::Join, topics),
            Action::Unsubscribe(_, topics) => self.are_of_data(Change::Leave, topics),
            _ => was_told,
        }
    }

    fn show_to_monitors(&self, args: Args<'_>) {
        if let Some(spec) = table::at(self.command) {
            self.worker.registry().monitors().show(spec, args, self.db, &self.client.address);
        }
    }

    fn answer(&mut self, reply: Reply) {
        if !self.is_silent() {
            self.outbox.push_reply(self.command, reply);
        }
    }

    /// What comes in slices may take long: it begins when all before it is answered.
    fn answer_in_slices(&mut self, sliced: Sliced) -> bool {
        if self.outbox.in_flight() > 0 {
            return false;
        }
        let silent = self.is_silent();
        self.outbox.push_slices(self.command, sliced, silent);
        true
    }

    fn monitor(&mut self) {
        self.watch_requests();
        if let Some(side) = &mut self.side {
            side.monitor();
        }
        self.answer(Reply::OK);
    }

    fn watch_requests(&mut self) {
        if self.watching.is_none() {
            self.client.set_monitor(true);
            let monitors = self.worker.registry().monitors();
            self.watching = Some(monitors.watch(Arc::clone(&self.client), &self.outbox));
        }
    }

    /// No more requests of others for this session.
    pub fn stop_monitoring(&mut self) {
        self.watching = None;
        self.client.set_monitor(false);
    }

    fn start(&mut self, operation: Operation, bytes: usize) -> bool {
        let ticket = self.ticket(&operation, bytes);
        if self.outbox.is_busy(&ticket) {
            return false;
        }
        let silent = self.is_silent();
        let target = self.outbox.reserve(ticket, silent);
        if operation.has_own_part() {
            self.outbox.executes();
        }
        self.worker.engine().start(operation, ticket.key, target);
        true
    }

    /// Goes on with an `EXEC`, and starts it when all its commands have been looked at.
    fn plan(&mut self, time: &mut TimeSlice) {
        let Some((mut planning, bytes)) = self.planning.take() else { return };
        match planning.go_on(self, time) {
            Ok(None) => self.planning = Some((planning, bytes)),
            // Nothing has begun since.
            Ok(Some(operation)) => _ = self.start(operation, bytes),
            Err(refused) => self.answer(refused),
        }
    }

    /// Goes on with replies that are made in slices.
    fn make(&mut self, time: &mut TimeSlice) -> bool {
        let outbox = Rc::clone(&self.outbox);
        outbox.make(time, &mut |place, request| transaction::answer(self, place, request))
    }

    /// Starts a task that asks one master after the other.
    fn aside(&mut self, aside: Aside, bytes: usize) -> bool {
        let key = self.worker.engine().fingerprint(aside.db(), aside.key());
        let ticket = Ticket { key, order: aside.order(), bytes, command: self.command };
        if self.outbox.is_busy(&ticket) {
            return false;
        }
        let silent = self.is_silent();
        let target = self.outbox.reserve(ticket, silent);
        tokio::task::spawn_local(aside.run(self.asking(), target));
        true
    }

    fn asking(&mut self) -> Asking {
        Asking {
            engine: Rc::clone(self.worker.engine()),
            client: Rc::clone(self.large_reads.get_or_insert_with(|| Rc::new(Semaphore::new(1)))),
            busy: Arc::clone(self.worker.busy_masters()),
        }
    }

    /// Starts a task that asks the data Redis and the masters.
    fn on_both(&mut self, job: Job) -> bool {
        let Some(gate) = self.worker.gate().cloned() else { return false };
        let engine = Rc::clone(self.worker.engine());
        self.run_alone(|target| job.run(engine, gate, target))
    }

    /// What this session has subscribed to.
    pub fn subscriber(&mut self) -> Rc<Subscriber> {
        let (client, outbox) = (&self.client, &self.outbox);
        let new = || Subscriber::new(Arc::clone(client), Rc::clone(outbox));
        Rc::clone(self.subscriber.get_or_insert_with(new))
    }

    /// Whether this session has subscribed to anything.
    pub fn has_subscriptions(&self) -> bool {
        self.subscriber.is_some() && self.client.is_subscriber()
    }

    /// Whether the masters are about to confirm what this session has subscribed to, or not any
    /// more: what it may send next depends on that.
    pub fn waits_for_masters(&self) -> bool {
        let is_changing = |subscriber: &Rc<Subscriber>| subscriber.is_changing();
        !self.runs.is_empty() || self.subscriber.as_ref().is_some_and(is_changing)
    }

    /// Begins to end many subscriptions, a little at a time. Few take no time: then it is false.
    pub fn begin_to_unsubscribe(&mut self) -> bool {
        let Some(subscriber) = self.subscriber.clone() else { return false };
        let topics = subscriber.topics();
        if !Hub::is_many(&topics) {
            return false;
        }
        let slot = self.outbox.reserve(self.ticket_of(Order::Alone), true);
        let (target, ended) = Target::task();
        self.worker.hub().unsubscribe(&subscriber, TopicKind::Channel, topics, target);
        tokio::task::spawn_local(async {
            let _ = ended.await;
            // The request counts when it runs.
            slot.deliver(Reply::QUEUED);
        });
        true
    }

    /// No more messages for this session; whether it had subscribed to anything.
    pub fn unsubscribe_all(&mut self) -> bool {
        let has_listened = self.has_subscriptions();
        if let Some(subscriber) = self.subscriber.take() {
            self.worker.hub().leave_all(&subscriber);
            subscriber.leave_all_elsewhere();
        }
        has_listened
    }

    /// Answers when the masters know what it has unsubscribed from, as after `UNSUBSCRIBE`.
    fn answer_unsubscribed(&mut self, reply: Reply) -> bool {
        let told = self.worker.hub().caught_up();
        self.run_alone(|target| async {
            told.await;
            target.deliver(reply);
        })
    }

    /// A request with many keys starts when it is alone, and is followed when it is done.
    fn gather(&mut self, how: Gather, operations: Vec<Operation>) -> bool {
        if self.outbox.in_flight() > 0 {
            return false;
        }
        let silent = self.is_silent();
        self.outbox.gather(how, operations.len(), silent);
        self.parts = operations.into();
        self.start_parts();
        true
    }

    /// A client that waits sends nothing else until it is answered.
    fn wait(&mut self, mut waiting: Waiting, args: Args<'_>) -> bool {
        let worker = Rc::clone(&self.worker);
        let withdrawal = self.suspend(&mut waiting, args);
        let asking = self.asking();
        self.run_alone(|target| waiting.run(worker, asking, withdrawal, target))
    }

    fn kill_scripts(&mut self) -> bool {
        let masters = self.worker.settings().masters.clone();
        let network = self.worker.network().clone();
        self.run_alone(|target| async { target.deliver(kill_scripts(network, masters).await) })
    }

    /// Starts a task that answers, and lets nothing begin before that.
    fn run_alone<F>(&mut self, task: impl FnOnce(Target) -> F) -> bool
    where
        F: Future<Output = ()> + 'static,
    {
        if self.outbox.in_flight() > 0 {
            return false;
        }
        let silent = self.is_silent();
        let ticket = self.ticket_of(Order::Alone);
        let target = self.outbox.reserve(ticket, silent);
        tokio::task::spawn_local(task(target));
        true
    }

    fn start_parts(&mut self) {
        while self.outbox.has_room() {
            let Some(operation) = self.parts.pop_front() else { return };
            let ticket = self.ticket(&operation, operation.key.len());
            let target = self.outbox.reserve_part(ticket);
            self.worker.engine().start(operation, ticket.key, target);
        }
    }

    /// The libraries of functions as of a moment since the current request came, which is on `keys`. `None`: a quorum is
    /// asked for them, and the request has to wait.
    pub fn current_libraries(&self, keys: &[&[u8]]) -> Option<Result<Rc<Libraries>, Reply>> {
        match &*self.libraries.borrow() {
            Asked::Told(told) => return Some(told.clone()),
            Asked::Pending => return None,
            Asked::Nobody => {}
        }
        let engine = self.worker.engine();
        let (key, order) = match keys {
            [key] => (engine.fingerprint(self.db, key), Order::Rounds),
            _ => (0, Order::Alone),
        };
        let question = Ticket {
            key: engine.fingerprint(0, LIBRARIES.as_bytes()),
            ..self.ticket_of(Order::Read)
        };
        if self.outbox.is_busy(&Ticket { key, ..self.ticket_of(order) })
            || self.outbox.is_busy(&question)
        {
            return None;
        }
        self.ask_for_libraries(question);
        None
    }

    fn ask_for_libraries(&self, question: Ticket) {
        *self.libraries.borrow_mut() = Asked::Pending;
        let slot = self.outbox.reserve(question, true);
        let (worker, asked) = (Rc::clone(&self.worker), Rc::clone(&self.libraries));
        tokio::task::spawn_local(async move {
            let told = worker.shelf().current(worker.engine()).await;
            *asked.borrow_mut() = Asked::Told(told);
            // The request counts when it runs.
            slot.deliver(Reply::QUEUED);
        });
    }

    /// Lets requests that are looked at now see these libraries, or as before.
    pub fn show_libraries(&self, told: Option<Result<Rc<Libraries>, Reply>>) {
        *self.libraries.borrow_mut() = told.map_or(Asked::Nobody, Asked::Told);
    }

    fn ticket(&self, operation: &Operation, bytes: usize) -> Ticket {
        Ticket {
            key: self.worker.engine().fingerprint(operation.db, &operation.key),
            order: operation.order(),
            bytes: bytes.max(operation.request_bytes()),
            command: self.command,
        }
    }

    /// Of a request without a key.
    fn ticket_of(&self, order: Order) -> Ticket {
        Ticket { key: 0, order, bytes: 0, command: self.command }
    }

    /// Whether the reply to the current request is unwanted; consumes a `CLIENT REPLY SKIP`.
    fn is_silent(&mut self) -> bool {
        let silent = self.replies != Replies::On;
        if self.replies == Replies::SkipNext {
            self.replies = Replies::On;
        }
        silent
    }

    fn limits(&self) -> Limits {
        Limits {
            max_request_bytes: self.worker.settings().max_request_bytes,
            authenticated: self.login.is_authenticated(),
            may_pass: self.side.is_some() && self.login.is_authenticated(),
        }
    }

    fn may_start(&self) -> bool {
        if let Some(room) = self.passing_room() {
            return !self.closing && room > 0;
        }
        let has_room =
            self.outbox.has_room() && self.outbox.ready_bytes() < REPLIES_TO_STOP_READING;
        let is_free = !self.closing && !self.has_begun() && !self.outbox.is_executing();
        has_room && is_free && self.rest.is_none() && !self.is_departing()
    }

    /// Whether something has begun that is still to be started in part.
    fn has_begun(&self) -> bool {
        !self.parts.is_empty() || self.planning.is_some() || self.outbox.is_gathering()
    }

    fn may_read(&self) -> bool {
        self.may_start() && !self.stalled && !self.worker.is_draining()
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
        let listens = self.has_subscriptions() || self.watching.is_some();
        if self.client.is_killed() {
            Some(Disconnected::Killed)
        } else if self.client.holding.is_condemned() {
            Some(Disconnected::Memory)
        } else if self.unread_bytes() > self.worker.live().max_output_bytes {
            Some(Disconnected::Output)
        } else if self.client.is_overdue() && self.outbox.in_flight() == 0 && !listens {
            Some(Disconnected::Timeout)
        } else {
            None
        }
    }

    /// Bytes of replies that it has not read, and of those of a transaction that are known.
    fn unread_bytes(&self) -> usize {
        let known = self.planning.as_ref().map_or(0, |(planning, _)| planning.known());
        self.outbox.unread_bytes() + known
    }

    fn disconnect(&self, why: Disconnected) {
        self.worker.registry().disconnected(why);
        if why == Disconnected::Output {
            let (address, bytes) = (&self.client.address, self.unread_bytes());
            tracing::warn!(%address, bytes, "a client that does not read its replies is disconnected (max-output-bytes)");
        }
    }

    /// What the rest of a request takes that has many keys, and one that waits.
    fn parts_held(&self) -> usize {
        let suspended = self.suspended.as_ref().map_or(0, Suspended::held);
        self.parts.capacity() * size_of::<Operation>() + suspended
    }

    /// What `MULTI` and `WATCH` have begun.
    fn transaction_held(&self) -> usize {
        let queued = self.transaction.as_ref().map_or(0, Transaction::held);
        let planned = self.planning.as_ref().map_or(0, |(planning, _)| planning.held());
        queued
            + planned
            + self.watched.iter().map(|watched| watched.key.len() + ENTRY).sum::<usize>()
    }

    /// What it sends is no request: that is the last reply.
    fn refuse(&mut self, error: ProtocolError) {
        self.outbox.push_reply(NO_COMMAND, error.reply());
        (self.closing, self.is_refused) = (true, true);
    }

    /// Everything that was asked is answered, and nothing more will be.
    fn is_finished(&self) -> bool {
        let ending = self.closing || self.worker.is_draining();
        ending && self.outbox.in_flight() == 0 && !self.has_begun()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.outbox.close();
        if let Some(subscriber) = self.subscriber.take() {
            self.worker.hub().forget_subscriber(subscriber);
        }
        self.worker.registry().leave(self.client.id);
    }
}
