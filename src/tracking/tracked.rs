//! A client that is told of changes.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::options::{TrackingMode, TrackingOptions};
use crate::client::invalidation::{Invalidation, redirection_broken};
use crate::client::memory::MemoryPart;
use crate::client::outbox::{Notice, Outbox};
use crate::client::registry::{Client, Registry, TrackingFlags};
use crate::resp::reply::Protocol;

/// A client that has sent `CLIENT TRACKING ON`.
pub struct Tracked {
    client: Arc<Client>,
    outbox: Rc<Outbox>,
    registry: Arc<Registry>,
    options: RefCell<TrackingOptions>,
    /// Whether `CLIENT CACHING` has preceded the current request.
    caching: Cell<bool>,
    /// Whether it did so before `MULTI`.
    caching_transaction: Cell<bool>,
    is_on: Cell<bool>,
    /// Whether the client that is told instead has gone.
    is_broken: Cell<bool>,
    /// Whether the client may have cached anything since it was last told to drop everything.
    has_cached: Cell<bool>,
    /// The keys that the requests queued since `MULTI` read.
    queued: RefCell<Vec<Box<[u8]>>>,
    /// Memory that its keys take in the tables.
    held: Cell<usize>,
}

impl fmt::Debug for Tracked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracked").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Tracked {
    /// Returns a client with these options.
    pub fn new(
        client: Arc<Client>,
        outbox: Rc<Outbox>,
        registry: Arc<Registry>,
        options: TrackingOptions,
    ) -> Rc<Self> {
        let tracked = Rc::new(Self {
            client,
            outbox,
            registry,
            options: RefCell::default(),
            caching: Cell::new(false),
            caching_transaction: Cell::new(false),
            is_on: Cell::new(true),
            is_broken: Cell::new(false),
            has_cached: Cell::new(false),
            queued: RefCell::default(),
            held: Cell::new(0),
        });
        tracked.set_options(options);
        tracked
    }

    /// Returns the client's number.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Returns its options.
    pub fn options(&self) -> Ref<'_, TrackingOptions> {
        self.options.borrow()
    }

    /// Changes its options.
    pub fn set_options(&self, options: TrackingOptions) {
        *self.options.borrow_mut() = options;
        self.is_broken.set(false);
        self.show();
    }

    /// Whether the client that is told instead was found to have gone.
    pub fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// `CLIENT CACHING`
    pub fn set_caching(&self, caching: bool) {
        self.caching.set(caching);
    }

    /// Whether `CLIENT CACHING` has preceded the current request.
    pub fn is_caching(&self) -> bool {
        self.caching.get()
    }

    /// Whether the client may cache what the current request reads.
    pub fn may_cache(&self) -> bool {
        match self.options().mode {
            TrackingMode::All | TrackingMode::Broadcast => true,
            TrackingMode::OptIn => self.caching.get(),
            TrackingMode::OptOut => !self.caching.get(),
        }
    }

    /// Notes a `MULTI`.
    pub fn begins_transaction(&self) {
        self.caching_transaction.set(self.caching.get());
    }

    /// Whether the client may cache what the current `EXEC` reads. Reads before a queued `CLIENT CACHING NO` may be
    /// cached.
    pub fn may_cache_transaction(&self) -> bool {
        match self.options().mode {
            TrackingMode::OptOut => !self.caching_transaction.get(),
            _ => self.may_cache(),
        }
    }

    /// Whether the client is told of all changes.
    pub fn is_broadcast(&self) -> bool {
        self.options().mode == TrackingMode::Broadcast
    }

    /// Whether the client is not told of its own changes.
    pub fn has_no_loop(&self) -> bool {
        self.options().no_loop
    }

    /// Adds keys that a queued request reads.
    pub fn queue(&self, keys: impl Iterator<Item = Box<[u8]>>) {
        self.queued.borrow_mut().extend(keys);
    }

    /// Takes the keys that the queued requests read.
    pub fn take_queued(&self) -> Vec<Box<[u8]>> {
        self.queued.take()
    }

    /// Whether the tracking has not ended.
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Notes that the tracking has begun. Other connections may read for the cache of a client that hears of all
    /// changes.
    pub fn begins(&self) {
        if self.is_broadcast() {
            self.has_cached.set(true);
        }
    }

    /// Notes that the client may cache something from now on.
    pub(super) fn reads(&self) {
        self.has_cached.set(true);
    }

    /// Tells the client to drop everything, if it may have cached anything.
    pub(super) fn tell_to_drop_all(&self) {
        if self.has_cached.get() {
            self.tell(Invalidation::Everything);
        }
    }

    /// Tells the client what to drop, behind the replies to requests that it has sent. RESP2 has no messages that a
    /// client has not subscribed to.
    pub fn tell(&self, what: Invalidation) {
        if what == Invalidation::Everything {
            self.has_cached.set(self.is_broadcast());
        }
        let redirect = self.options().redirect;
        if redirect == 0 {
            return self.push(|| Notice::Own(what.push()));
        }
        match self.registry.client(redirect) {
            Some(other) => self.outbox.push_behind(Notice::Redirected(other, what)),
            None => {
                self.is_broken.set(true);
                self.show();
                self.push(|| Notice::Own(redirection_broken(redirect)));
            }
        }
    }

    fn push(&self, notice: impl FnOnce() -> Notice) {
        if self.outbox.protocol() == Protocol::Resp3 {
            self.outbox.push_behind(notice());
        }
    }

    /// Counts the memory that its keys take: so many bytes more.
    pub(super) fn holds_more(&self, bytes: usize) {
        self.set_held(self.held.get() + bytes);
    }

    /// Counts the memory that its keys take: so many bytes less.
    pub(super) fn holds_less(&self, bytes: usize) {
        self.set_held(self.held.get().saturating_sub(bytes));
    }

    /// Notes that the client has no keys any more.
    pub(super) fn holds_nothing(&self) {
        self.set_held(0);
    }

    fn set_held(&self, bytes: usize) {
        self.held.set(bytes);
        self.client.holding.set(MemoryPart::Tracking, bytes as u64);
    }

    /// Shows the state in `CLIENT LIST`.
    fn show(&self) {
        let options = self.options();
        self.client.set_tracking(Some(TrackingFlags {
            redirect: options.redirect,
            is_broken: self.is_broken.get(),
            is_broadcast: options.mode == TrackingMode::Broadcast,
        }));
    }

    /// Ends the tracking, as `CLIENT LIST` shows it.
    pub(super) fn end(&self) {
        self.is_on.set(false);
        self.client.set_tracking(None);
        self.holds_nothing();
    }
}
