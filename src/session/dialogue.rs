//! The dialogue with a client: starts requests as soon as earlier ones allow it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep_until};

use super::handover::Suspended;
use super::passing::Passing;
use crate::also_claim::job::LockJob;
use crate::catalogue::table::{self, Family, NO_COMMAND};
use crate::client::memory::ENTRY;
use crate::client::outbox::{Gather, Order, REPLIES_TO_STOP_READING, Target, Ticket};
use crate::client::registry::Disconnected;
use crate::client::timeslice::{self, TimeSlice};
use crate::command::transaction::{self, Planning};
use crate::command::{self, Action};
use crate::context::caller::Caller;
use crate::context::subscriptions::SubscriptionChange;
use crate::context::tracking;
use crate::context::transaction::Transaction;
use crate::context::waiting::BlockingWait;
use crate::engine::sequential::{Aside, Asking};
use crate::masters::kill::kill_scripts;
use crate::operation::{Behaviour, Operation};
use crate::resp::reply::Reply;
use crate::resp::requests::{Args, Limits, ProtocolError};

/// Bytes decoded in the time that it takes to start one request.
const BYTES_OF_WORK: usize = 64;

/// A session apart from its bytes: the requests in progress, and the conditions that delay the next one.
pub(super) struct Dialogue {
    /// The client, as commands see it.
    pub(super) caller: Caller,
    /// Time until which no request is started ([`Action::Rest`]).
    pub(super) rest: Option<Pin<Box<Sleep>>>,
    /// An `EXEC` whose commands have not all been checked, and its size.
    pub(super) planning: Option<(Box<Planning>, usize)>,
    /// The semaphore that limits the client to one large read at a time, once it has made one.
    pub(super) large_reads: Option<Rc<Semaphore>>,
    /// The rest of a long request, which is passed on as it arrives.
    pub(super) passing: Option<Box<Passing>>,
    /// Operations of a request with many keys that have not been started yet.
    pub(super) parts: VecDeque<Operation>,
    /// Whether the next request has to wait for an earlier one.
    pub(super) blocked: bool,
    /// Whether received bytes are unprocessed for lack of room.
    pub(super) stalled: bool,
    /// Whether no more requests are started: after `QUIT`, a protocol error or the end of the stream.
    pub(super) closing: bool,
    /// Whether the session closes because of a protocol error.
    pub(super) is_refused: bool,
    /// Whether another process can take the session over.
    pub(super) portable: bool,
    /// A waiting request, which can wait in another process instead.
    pub(super) suspended: Option<Suspended>,
    /// Time that the next request has waited in another process.
    pub(super) waited: Duration,
}

impl Dialogue {
    /// Ends the waiting of a claim for a held key, because the client sends another request, or none any more.
    pub(super) fn end_wait(&self) {
        if let Some(claim) = self.caller.outbox.take_waiting() {
            self.caller.worker.engine().end_wait(claim);
        }
    }

    /// Starts one request. Returns false if it has to wait for an earlier one.
    pub(super) fn request(&mut self, args: Args<'_>, raw: &[u8]) -> bool {
        if args.is_empty() {
            return true;
        }
        self.end_wait();
        let bytes = raw.len();
        let before = self.caller.home.has_shards().then(|| Rc::clone(&self.caller.worker));
        let action = command::prepare(&mut self.caller, args);
        let is_watched = self.caller.worker.registry().monitors().any();
        let is_shown = is_watched && !self.is_shown_by_data(&action);
        if !matches!(action, Action::Start(_)) {
            self.start_begun();
        }
        let is_of_data = matches!(action, Action::Pass(_) | Action::Share { .. });
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
            Action::Track(tracked) => {
                let home = Rc::clone(&self.caller.home);
                self.run_alone(|target| tracking::begun(home, tracked, target))
            }
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
            if !is_of_data {
                self.caller.note_reads(args);
            }
            self.caller.libraries.take();
            self.caller.holding = None;
        } else if let Some(before) = before {
            // A claim that waits belongs to the shard of the last request that was started.
            self.caller.worker = before;
        }
        if is_done && is_shown {
            self.caller.show_to_monitors(args);
        }
        is_done
    }

    /// Returns the cost of starting the current request, for a [`TimeSlice`]. Requests that the proxy answers itself
    /// can cost any amount.
    pub(super) fn work(&self, bytes: usize) -> usize {
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
        self.caller.note_own_change(&operation, &target);
        if operation.kind.has_own_part() {
            self.caller.outbox.executes();
        }
        self.caller.worker.engine().begin(operation, ticket.key, target);
        true
    }

    /// Starts the operations that have begun.
    pub(super) fn start_begun(&self) {
        self.caller.home.clusters().for_each(|worker| worker.engine().start_begun());
    }

    /// Continues an `EXEC`, and starts it when all its commands have been checked.
    pub(super) fn plan(&mut self, time: &mut TimeSlice) {
        let Some((mut planning, bytes)) = self.planning.take() else { return };
        match planning.go_on(&mut self.caller, time) {
            Ok(None) => self.planning = Some((planning, bytes)),
            // No other request has been started since, so it need not wait.
            Ok(Some(operation)) => _ = self.start(operation, bytes),
            Err(refused) => self.caller.answer(refused),
        }
    }

    /// Continues replies that are made in slices.
    pub(super) fn make(&mut self, time: &mut TimeSlice) -> bool {
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
            shards: self.caller.home.engines_of_shards(),
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
        let told = self.caller.home.hub().caught_up();
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
        let waits = self.run_alone(|target| waiting.run(worker, asking, withdrawal, target));
        if waits {
            self.caller.outbox.blocks();
        }
        waits
    }

    fn kill_scripts(&mut self) -> bool {
        let clusters = self.caller.home.clusters();
        let masters = clusters.flat_map(|worker| worker.engine().electorate().addresses());
        let masters = masters.map(|(_, address)| address).collect();
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

    pub(super) fn start_parts(&mut self) {
        while self.caller.outbox.has_room() {
            let Some(operation) = self.parts.pop_front() else { return };
            let ticket = self.caller.ticket(&operation, operation.key.len());
            let target = self.caller.outbox.reserve_part(ticket);
            self.caller.note_own_change(&operation, &target);
            self.caller.worker.engine().start(operation, ticket.key, target);
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_request_bytes: self.caller.worker.settings().max_request_bytes,
            authenticated: self.caller.login.is_authenticated(),
            may_pass: self.caller.side.is_some() && self.caller.login.is_authenticated(),
        }
    }

    pub(super) fn may_start(&self) -> bool {
        if let Some(room) = self.passing_room() {
            return !self.closing && room > 0;
        }
        let has_room = self.caller.outbox.has_room()
            && self.caller.outbox.ready_bytes() < REPLIES_TO_STOP_READING;
        let is_free = !self.closing && !self.has_begun() && !self.caller.outbox.is_executing();
        has_room && is_free && self.rest.is_none() && !self.is_departing()
    }

    /// Whether parts of a started request have still to be started.
    pub(super) fn has_begun(&self) -> bool {
        !self.parts.is_empty() || self.planning.is_some() || self.caller.outbox.is_gathering()
    }

    pub(super) fn may_read(&self) -> bool {
        self.may_start() && !self.stalled && !self.caller.worker.is_draining()
    }

    /// Whether a rest has just ended.
    pub(super) fn has_rested(&mut self, cx: &mut Context<'_>) -> bool {
        let has_ended = self.rest.as_mut().is_some_and(|rest| rest.as_mut().poll(cx).is_ready());
        if has_ended {
            self.rest = None;
        }
        has_ended
    }

    pub(super) fn must_disconnect(&self) -> Option<Disconnected> {
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

    pub(super) fn disconnect(&self, why: Disconnected) {
        self.caller.worker.registry().disconnected(why);
        if why == Disconnected::Output {
            let (address, bytes) = (&self.caller.client.address, self.unread_bytes());
            tracing::warn!(%address, bytes, "disconnecting a client that does not read its replies (max-output-bytes)");
        }
    }

    /// Returns the memory taken by the rest of a request with many keys, and by a waiting request.
    pub(super) fn parts_held(&self) -> usize {
        let suspended = self.suspended.as_ref().map_or(0, Suspended::held);
        self.parts.capacity() * size_of::<Operation>() + suspended
    }

    /// Returns the memory taken by `MULTI` and `WATCH`.
    pub(super) fn transaction_held(&self) -> usize {
        let queued = self.caller.transaction.as_deref().map_or(0, Transaction::held);
        let planned = self.planning.as_ref().map_or(0, |(planning, _)| planning.held());
        queued
            + planned
            + self.caller.watched.iter().map(|watched| watched.key.len() + ENTRY).sum::<usize>()
    }

    /// Sends the protocol error as the last reply.
    pub(super) fn refuse(&mut self, error: ProtocolError) {
        self.caller.worker.registry().refusals().tell(&self.caller.client, &error);
        self.caller.outbox.push_reply(NO_COMMAND, error.reply());
        (self.closing, self.is_refused) = (true, true);
    }

    /// Whether every request is answered, and no more will be started.
    pub(super) fn is_finished(&self) -> bool {
        let ending = self.closing || self.caller.worker.is_draining();
        ending && self.caller.outbox.in_flight() == 0 && !self.has_begun()
    }
}
