//! An unused connection to the data Redis, ready for the next client that needs one.
//!
//! It is already open, logged in and checked for the mark, and has the protocol and database that the last client
//! wanted. So the next client's first request is written at once, as with a single Redis. This matters for a
//! `SUBSCRIBE` whose confirmation nobody awaits: it arrives before a message that another connection publishes right
//! afterwards.
//!
//! Each worker keeps one, once a first client has used data. The worker hands it out only while it is known to be
//! usable, and never to a client that logs in there as itself.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use super::connection::{DataConnection, Lost, Ready};
use super::setup::Setup;
use super::upstream::Upstream;
use crate::client::outbox::Outbox;
use crate::time::clock::{self, Instant};

/// Age at which a spare is replaced: the host name may resolve differently by now, and the mark was only checked at the
/// start.
const OLDEST: Duration = Duration::from_secs(30);

/// Time without a client that needs a connection after which no spare is kept.
const LONGEST_UNUSED: Duration = Duration::from_secs(600);

/// Buffer size, in bytes, for replies to its own requests.
const BUFFER: usize = 1 << 10;

/// The spare connection of one worker.
pub struct Spares {
    upstream: Upstream,
    spare: RefCell<Option<Spare>>,
    /// Setup that the last client wanted, without the parts that take no round trip.
    wanted: RefCell<Setup>,
    /// Time when a client last needed a connection; `None`: the task has not started yet.
    used: Cell<Option<Instant>>,
    /// Signals that a client has just needed one.
    is_used: Notify,
}

struct Spare {
    connection: Box<DataConnection>,
    /// Whether a client's request could be written at once.
    is_ready: bool,
    /// Waker of the task that maintains it.
    keeper: Option<Waker>,
}

impl Spares {
    /// Returns a holder without a spare.
    pub fn new(upstream: Upstream) -> Rc<Self> {
        Rc::new(Self {
            upstream,
            spare: RefCell::default(),
            wanted: RefCell::default(),
            used: Cell::default(),
            is_used: Notify::new(),
        })
    }

    /// Returns the way to the data Redis.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Returns a connection for a client that wants `wanted`: the spare one if it fits, otherwise a new one. Starts
    /// making the next spare.
    pub fn connection(self: &Rc<Self>, wanted: &Setup) -> Box<DataConnection> {
        let spare = self.take(wanted);
        self.expect(wanted);
        spare.unwrap_or_else(|| self.open())
    }

    /// Notes that a client with setup `wanted` uses data, so that a client may soon need a connection of its own.
    pub fn expect(self: &Rc<Self>, wanted: &Setup) {
        let Setup { login, protocol, db, .. } = wanted.clone();
        *self.wanted.borrow_mut() = Setup { login, protocol, db, ..Setup::default() };
        if self.used.replace(Some(clock::now())).is_none() {
            tokio::task::spawn_local(Rc::clone(self).keep());
        }
        self.is_used.notify_one();
    }

    /// Opens a new connection, for a client that logs in as itself.
    pub fn open(&self) -> Box<DataConnection> {
        Box::new(DataConnection::open(&self.upstream))
    }

    /// Takes the spare if it fits. A spare that is still being set up stays.
    fn take(&self, wanted: &Setup) -> Option<Box<DataConnection>> {
        let spare = self.spare.borrow_mut().take_if(|spare| spare.is_ready)?;
        if let Some(keeper) = spare.keeper {
            keeper.wake();
        }
        let mut connection = spare.connection;
        let is_up = !self.upstream.health().is_in_trouble();
        (is_up && connection.is_fit_for(wanted)).then_some(connection)
    }

    /// Makes a spare whenever there is none, as long as clients need them. A lost spare is not replaced before the next
    /// client arrives: its replacement would be lost again.
    async fn keep(self: Rc<Self>) {
        loop {
            self.is_used.notified().await;
            while self.is_in_use() && self.look_after_one().await.is_ok() {}
        }
    }

    fn is_in_use(&self) -> bool {
        self.used.get().is_some_and(|used| clock::now() - used < LONGEST_UNUSED)
    }

    /// Makes a spare and maintains it until it is taken or too old.
    async fn look_after_one(&self) -> Result<(), Lost> {
        let connection = self.open();
        *self.spare.borrow_mut() = Some(Spare { connection, is_ready: false, keeper: None });
        let outbox = Outbox::default();
        let taken = std::future::poll_fn(|cx| self.poll_taken(cx, &outbox));
        let ended = tokio::time::timeout(OLDEST, taken).await;
        self.spare.borrow_mut().take();
        ended.unwrap_or(Ok(()))
    }

    /// Drives the spare. Reads its socket all the time, so that its end is noticed.
    fn poll_taken(&self, cx: &mut Context<'_>, outbox: &Outbox) -> Poll<Result<(), Lost>> {
        let mut spare = self.spare.borrow_mut();
        let Some(spare) = &mut *spare else { return Poll::Ready(Ok(())) };
        spare.keeper = Some(cx.waker().clone());
        loop {
            let ready = spare.connection.ready(&self.wanted.borrow());
            if let Ready::Refused(why) = ready {
                return Poll::Ready(Err(Lost::Refused(why)));
            }
            spare.is_ready = ready == Ready::Now;
            if !spare.connection.poll(cx, outbox, false, &mut [0; BUFFER])? {
                return Poll::Pending;
            }
        }
    }
}
