//! The client that sent a request, as commands see it: its session's state, and the worker that serves it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::subscriptions::TopicRuns;
use super::transaction::Transaction;
use super::worker::Worker;
use crate::acl::Users;
use crate::catalogue::channel::TopicKind;
use crate::catalogue::reserved::LIBRARIES;
use crate::catalogue::table::{self, NO_COMMAND};
use crate::client::failed_logins::Attempts;
use crate::client::login::Login;
use crate::client::monitor::Watching;
use crate::client::outbox::{Order, Outbox, Target, Ticket};
use crate::client::registry::Client;
use crate::client::slices::Sliced;
use crate::data::side::Side;
use crate::engine::sequential::libraries::{Libraries, LibraryAnswer};
use crate::operation::watch::Watched;
use crate::operation::{Behaviour, Operation};
use crate::pubsub::hub::Hub;
use crate::pubsub::subscriber::Subscriber;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::tracking::tracked::Tracked;

/// A client, and the state that its requests have changed so far.
pub struct Caller {
    /// The worker that serves the session. If there are shards, it is that of the first one.
    pub home: Rc<Worker>,
    /// The worker of the shard that serves the current request; the home if the request has no key.
    pub worker: Rc<Worker>,
    /// The client's entry in `CLIENT LIST`.
    pub client: Arc<Client>,
    /// The client's replies.
    pub outbox: Rc<Outbox>,
    /// The place of the current request's command in the table, or [`NO_COMMAND`].
    pub command: u16,
    /// `SELECT`
    pub db: u32,
    /// The client's login.
    pub login: Login,
    /// The client's wrong passwords.
    pub attempts: Attempts,
    /// All users, as this session last saw them.
    pub users: Arc<Users>,
    /// `CLIENT REPLY`
    pub replies: ReplyMode,
    /// The transaction that `MULTI` has begun.
    pub transaction: Option<Box<Transaction>>,
    /// The database that a `SELECT` after `MULTI` has chosen, once `EXEC` has run.
    pub chosen_db: Rc<Cell<Option<u32>>>,
    /// The keys of `WATCH`.
    pub watched: Vec<Rc<Watched>>,
    /// The libraries of functions, for the request that waits for them.
    pub libraries: Rc<RefCell<LibraryAnswer>>,
    /// Whether the wait of a `PUBLISH` for earlier subscriptions is over, once it has begun.
    pub holding: Option<Rc<Cell<bool>>>,
    /// The client's subscriptions, once it has any.
    pub subscriber: Option<Rc<Subscriber>>,
    /// `CLIENT TRACKING`, once the client has sent it.
    pub(super) tracking: Option<Rc<Tracked>>,
    /// `MONITOR`
    pub watching: Option<Watching>,
    /// The client's connection to the data Redis, if there is one.
    pub side: Option<Box<Side>>,
    /// Subscriptions that wait for earlier ones.
    pub runs: TopicRuns,
}

/// `CLIENT REPLY ON|OFF|SKIP`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Send all replies.
    #[default]
    On,
    /// Send no replies.
    Off,
    /// Do not send the next reply.
    SkipNext,
}

impl Caller {
    /// Returns a client without a login.
    pub fn new(worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let users = Arc::clone(&worker.live().users);
        let side = worker.spares().map(|spares| {
            let shared = Rc::clone(worker.shared_connections());
            Box::new(Side::new(Rc::clone(spares), shared))
        });
        Self {
            login: Login::stranger(&users),
            attempts: Attempts::default(),
            users,
            outbox: Outbox::counted(Arc::clone(&client), Arc::clone(worker.metrics())),
            client,
            command: NO_COMMAND,
            db: worker.first_db(),
            replies: ReplyMode::On,
            transaction: None,
            chosen_db: Rc::default(),
            watched: Vec::new(),
            libraries: Rc::default(),
            holding: None,
            subscriber: None,
            tracking: None,
            watching: None,
            runs: TopicRuns::new(),
            side,
            home: Rc::clone(&worker),
            worker,
        }
    }

    /// Has the current request served by the shard of a key, or by the first one.
    pub fn go_to(&mut self, slot: Option<u16>) {
        self.worker = Rc::clone(slot.map_or(&self.home, |slot| self.home.of_slot(slot)));
    }

    /// Returns the time of day by the masters' clocks, in milliseconds.
    pub fn unix_ms(&self) -> i64 {
        self.worker.engine().rules().unix_time.ms()
    }

    /// Switches to the database that a transaction may have selected.
    pub fn adopt_db(&mut self) {
        if let Some(db) = self.chosen_db.take() {
            self.db = db;
            self.client.words().db = db;
        }
    }

    /// Sends the requests of all clients to this one from now on (`MONITOR`).
    pub fn watch_requests(&mut self) {
        if self.watching.is_none() {
            self.client.set_monitor(true);
            let monitors = self.worker.registry().monitors();
            self.watching = Some(monitors.watch(Arc::clone(&self.client), &self.outbox));
        }
    }

    /// Stops `MONITOR` for this session.
    pub fn stop_monitoring(&mut self) {
        self.watching = None;
        self.client.set_monitor(false);
    }

    /// Replies to the current request, unless the client wants no reply.
    pub fn answer(&mut self, reply: Reply) {
        if !self.is_silent() {
            self.outbox.push_reply(self.command, reply);
        }
    }

    /// Replies to the current request in slices, which may take long: it starts when all earlier requests are answered.
    /// Returns false if it must wait for them.
    pub fn answer_in_slices(&mut self, sliced: Sliced) -> bool {
        if self.outbox.in_flight() > 0 {
            return false;
        }
        let silent = self.is_silent();
        self.outbox.push_slices(self.command, sliced, silent);
        true
    }

    /// Returns this session's subscriptions.
    pub fn subscriber(&mut self) -> Rc<Subscriber> {
        let (client, outbox) = (&self.client, &self.outbox);
        let new = || Subscriber::new(Arc::clone(client), Rc::clone(outbox));
        Rc::clone(self.subscriber.get_or_insert_with(new))
    }

    /// Whether this session has any subscription.
    pub fn has_subscriptions(&self) -> bool {
        self.subscriber.is_some() && self.client.is_subscriber()
    }

    /// Whether the masters have yet to confirm a subscription of this session, or the end of one. The requests that the
    /// client may send next depend on that.
    pub fn waits_for_masters(&self) -> bool {
        let is_changing = |subscriber: &Rc<Subscriber>| subscriber.is_changing();
        !self.runs.is_empty() || self.subscriber.as_ref().is_some_and(is_changing)
    }

    /// Starts to end many subscriptions, a little at a time. Returns false if they are so few that it takes no time.
    pub fn begin_to_unsubscribe(&mut self) -> bool {
        let Some(subscriber) = self.subscriber.clone() else { return false };
        let topics = subscriber.topics();
        if !Hub::is_many(&topics) {
            return false;
        }
        let (target, ended) = Target::task();
        self.hold_back(self.ticket_of(Order::Alone), async { _ = ended.await });
        self.home.hub().unsubscribe(&subscriber, TopicKind::Channel, topics, target);
        true
    }

    /// Holds back the requests that must wait for `ticket`, until `work` is done. The current request is one of them: it
    /// counts when it runs.
    pub fn hold_back(&self, ticket: Ticket, work: impl Future<Output = ()> + 'static) {
        let slot = self.outbox.reserve(ticket, true);
        tokio::task::spawn_local(async move {
            work.await;
            slot.deliver(Reply::QUEUED);
        });
    }

    /// Ends all subscriptions of this session. Returns whether there were any.
    pub fn unsubscribe_all(&mut self) -> bool {
        let has_listened = self.has_subscriptions();
        if let Some(subscriber) = self.subscriber.take() {
            self.home.hub().leave_all(&subscriber);
            subscriber.leave_all_elsewhere();
        }
        has_listened
    }

    /// Returns the libraries of functions as of a moment since the current request on `keys` arrived. Returns `None`
    /// while a quorum is queried for them: the request has to wait.
    pub fn current_libraries(&self, keys: &[&[u8]]) -> Option<Result<Rc<Libraries>, Reply>> {
        match &*self.libraries.borrow() {
            LibraryAnswer::Told(told) => return Some(told.clone()),
            LibraryAnswer::Pending => return None,
            LibraryAnswer::Nobody => {}
        }
        let (key, order) = match keys {
            [key] => (self.worker.engine().fingerprint(self.db, key), Order::Rounds),
            _ => (0, Order::Alone),
        };
        let question = Ticket {
            key: self.home.engine().fingerprint(0, LIBRARIES.as_bytes()),
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

    /// Queries a quorum for the libraries of functions.
    pub fn ask_for_libraries(&self, question: Ticket) {
        *self.libraries.borrow_mut() = LibraryAnswer::Pending;
        // The first shard keeps the libraries of all.
        let (worker, asked) = (Rc::clone(&self.home), Rc::clone(&self.libraries));
        self.hold_back(question, async move {
            let told = worker.shelf().current(worker.engine()).await;
            *asked.borrow_mut() = LibraryAnswer::Told(told);
        });
    }

    /// Sets the libraries that [`Caller::current_libraries`] returns. With `None`, it queries a quorum again.
    pub fn show_libraries(&self, told: Option<Result<Rc<Libraries>, Reply>>) {
        *self.libraries.borrow_mut() = told.map_or(LibraryAnswer::Nobody, LibraryAnswer::Told);
    }

    /// Returns the ticket of an operation whose request has this many bytes.
    pub fn ticket(&self, operation: &Operation, bytes: usize) -> Ticket {
        Ticket {
            key: self.worker.engine().fingerprint(operation.db, &operation.key),
            order: operation.kind.order(),
            bytes: bytes.max(operation.kind.request_bytes()),
            command: self.command,
        }
    }

    /// Returns the ticket of a request without a key.
    pub fn ticket_of(&self, order: Order) -> Ticket {
        Ticket { key: 0, order, bytes: 0, command: self.command }
    }

    /// Whether the reply to the current request is unwanted; consumes a `CLIENT REPLY SKIP`.
    pub fn is_silent(&mut self) -> bool {
        let silent = self.replies != ReplyMode::On;
        if self.replies == ReplyMode::SkipNext {
            self.replies = ReplyMode::On;
        }
        silent
    }

    /// Sends the current request to monitors.
    pub fn show_to_monitors(&self, args: Args<'_>) {
        if let Some(spec) = table::at(self.command) {
            self.worker.registry().monitors().show(spec, args, self.db, &self.client.address);
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.outbox.close();
        self.end_tracking();
        if let Some(subscriber) = self.subscriber.take() {
            self.home.hub().forget_subscriber(subscriber);
        }
        self.worker.registry().leave(self.client.id);
    }
}
