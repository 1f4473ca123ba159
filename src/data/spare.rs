//! A connection to the data Redis that nobody uses yet, for the next client that needs one.
//!
//! It is open, logged in and asked for the mark already, and has the protocol and the database that the last client
//! wanted. So the first request of the next client is written at once, as with one Redis: a `SUBSCRIBE` for whose
//! confirmation nobody waits is there before a message that another connection publishes right afterwards.
//!
//! Each worker has one, once a first client has used data. It is given away only while it is known to be of use, and
//! never to a client that logs in there as itself.

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

/// Age at which it is replaced: the name may lead elsewhere by now, and the mark was asked for at its beginning.
const OLDEST: Duration = Duration::from_secs(30);

/// Time without a client that needs one after which there is none.
const LONGEST_UNUSED: Duration = Duration::from_secs(600);

/// Bytes of its own questions' answers that are read at once.
const BUFFER: usize = 1 << 10;

/// The spare connection of one worker.
pub struct Spares {
    upstream: Upstream,
    spare: RefCell<Option<Spare>>,
    /// What the last client wanted, but for what takes no round trip.
    wanted: RefCell<Setup>,
    /// When a client needed a connection last; `None`: there is no task yet.
    used: Cell<Option<Instant>>,
    /// A client has just needed one.
    is_used: Notify,
}

struct Spare {
    connection: Box<DataConnection>,
    /// A client's request could be written at once.
    is_ready: bool,
    /// Who looks after it.
    keeper: Option<Waker>,
}

impl Spares {
    /// None, so far.
    pub fn new(upstream: Upstream) -> Rc<Self> {
        Rc::new(Self {
            upstream,
            spare: RefCell::default(),
            wanted: RefCell::default(),
            used: Cell::default(),
            is_used: Notify::new(),
        })
    }

    /// The way to the data Redis.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// A connection for a client that is to be `wanted`: the spare one, if that is of use, or else a new one. The next
    /// spare is made meanwhile.
    pub fn connection(self: &Rc<Self>, wanted: &Setup) -> Box<DataConnection> {
        let spare = self.take(wanted);
        self.expect(wanted);
        spare.unwrap_or_else(|| self.open())
    }

    /// A client uses data that is to be `wanted`: soon one may need a connection of its own.
    pub fn expect(self: &Rc<Self>, wanted: &Setup) {
        let Setup { login, protocol, db, .. } = wanted.clone();
        *self.wanted.borrow_mut() = Setup { login, protocol, db, ..Setup::default() };
        if self.used.replace(Some(clock::now())).is_none() {
            tokio::task::spawn_local(Rc::clone(self).keep());
        }
        self.is_used.notify_one();
    }

    /// A new one, for a client that logs in as itself.
    pub fn open(&self) -> Box<DataConnection> {
        Box::new(DataConnection::open(&self.upstream))
    }

    /// One that is still being made is left to be made.
    fn take(&self, wanted: &Setup) -> Option<Box<DataConnection>> {
        let spare = self.spare.borrow_mut().take_if(|spare| spare.is_ready)?;
        if let Some(keeper) = spare.keeper {
            keeper.wake();
        }
        let mut connection = spare.connection;
        let is_up = !self.upstream.health().is_in_trouble();
        (is_up && connection.is_fit_for(wanted)).then_some(connection)
    }

    /// Makes a spare whenever there is none, as long as clients need some. One that was lost is not replaced before the
    /// next client: it would be lost again.
    async fn keep(self: Rc<Self>) {
        loop {
            self.is_used.notified().await;
            while self.is_in_use() && self.look_after_one().await.is_ok() {}
        }
    }

    fn is_in_use(&self) -> bool {
        self.used.get().is_some_and(|used| clock::now() - used < LONGEST_UNUSED)
    }

    /// Makes a spare, and looks after it until it is taken or too old.
    async fn look_after_one(&self) -> Result<(), Lost> {
        let connection = self.open();
        *self.spare.borrow_mut() = Some(Spare { connection, is_ready: false, keeper: None });
        let outbox = Outbox::default();
        let taken = std::future::poll_fn(|cx| self.poll_taken(cx, &outbox));
        let ended = tokio::time::timeout(OLDEST, taken).await;
        self.spare.borrow_mut().take();
        ended.unwrap_or(Ok(()))
    }

    /// Goes on with it. Its socket is read all the time, so that its end is noticed.
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
