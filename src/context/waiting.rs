//! Clients that wait for an element or for entries of streams: `BLPOP` and its siblings, `XREAD` and `XREADGROUP`.
//!
//! Each waiting client is a task of its own, which blocks no other. It tries, waits for a change of one of its keys,
//! and tries again. Changes made through another proxy are not announced here, so it also polls periodically.
//!
//! Clients that wait for one key form a queue, and only the first one tries and polls. As in Redis, the client that has
//! waited longest is served first. A client that leaves wakes the next, for which something may be left. Consumers of
//! one group form a queue of their own. If every client gets the entries, all of them try, but only the first polls.

mod entries;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::worker::Worker;
use crate::client::outbox::Target;
use crate::engine::sequential::Asking;
use crate::operation::changed_keys::{Line, Listener};
use crate::operation::read::{Question, Read};
use crate::operation::{Kind, Operation};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};
pub use entries::{Entries, EntryPosition, First};

/// Interval between two polls for changes made through another proxy.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The wait of a client.
pub struct BlockingWait {
    /// The awaited thing.
    pub awaited: AwaitedEvent,
    /// The keys that may hold it.
    pub keys: Vec<Box<[u8]>>,
    /// Whether the request has more than keys and a timeout, in which masters may find a mistake.
    pub has_options: bool,
    /// The database of the keys.
    pub db: u32,
    /// Time at which the client gives up; `None` for never.
    pub until: Option<Instant>,
}

/// The thing that a client waits for.
pub enum AwaitedEvent {
    /// An element.
    Element {
        /// Takes the element out of the first key that has one.
        first: Box<dyn Fn() -> Operation>,
        /// Takes the element out of one key only. There is one for each key if there are several.
        alone: Vec<Box<dyn Fn() -> Operation>>,
    },
    /// Entries of streams.
    Entries(Entries),
}

/// A request that may be started anew in another process.
#[derive(Debug)]
pub struct Withdrawal {
    /// Whether the request was withdrawn.
    pub is_withdrawn: Cell<bool>,
    /// The request to start there.
    pub request: RefCell<Vec<u8>>,
}

impl std::fmt::Debug for BlockingWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Whether several proxies took elements at the same time, and none got one.
fn is_split(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("TRYAGAIN "))
}

fn is_nothing(reply: &Reply) -> bool {
    match reply {
        Reply::Raw(frame) => &frame[..] == b"_\r\n",
        _ => *reply == Reply::NilArray,
    }
}

/// Whether a key holds a value of another type than the awaited one.
fn is_of_wrong_type(reply: &Reply) -> bool {
    match reply {
        Reply::Raw(frame) => frame.starts_with(b"-WRONGTYPE"),
        Reply::Error(text) => text.starts_with("WRONGTYPE"),
        _ => false,
    }
}

impl BlockingWait {
    /// Waits, and answers. With `withdrawal`, another process can wait instead: it is then marked as withdrawn, and the
    /// answer is empty.
    pub async fn run(
        self,
        worker: Rc<Worker>,
        asking: Asking,
        withdrawal: Option<Rc<Withdrawal>>,
        target: Target,
    ) {
        let mut blocked = None;
        let departs = || withdrawal.is_some() && worker.is_departing();
        let engine = worker.engine();
        let keys = self.keys.iter().map(|key| engine.fingerprint(self.db, key));
        let line = self.awaited.line();
        let changes = engine.changes_of(keys.collect()).in_line(line);
        // A mistake is reported at once, not when the client is first.
        let mut may_be_wrong = self.has_options;
        loop {
            let turn = changes.turn();
            if target.is_abandoned() || worker.is_draining() {
                return target.deliver(Reply::NilArray);
            }
            if let Some(withdrawal) = withdrawal.as_ref().filter(|_| departs()) {
                self.withdraw(withdrawal);
                return target.deliver(Reply::Each(Vec::new()));
            }
            // A client that is not first leaves the elements to others.
            let tries = changes.is_first() || std::mem::take(&mut may_be_wrong);
            let reply = match tries || line == Line::Readers {
                true => self.attempt(&asking, &target, blocked.is_some()).await,
                false => Reply::NilArray,
            };
            if !is_nothing(&reply) && !is_split(&reply) {
                return target.deliver(reply);
            }
            if self.is_over() {
                return target.deliver(if is_split(&reply) { reply } else { Reply::NilArray });
            }
            blocked.get_or_insert_with(|| worker.registry().block());
            tokio::select! {
                biased;
                () = turn => {}
                () = self.look_around(&worker, &target, &changes, departs) => {}
            }
        }
    }

    /// Waits until it may be worth trying again, or the wait is over.
    async fn look_around(
        &self,
        worker: &Worker,
        target: &Target,
        changes: &Listener,
        departs: impl Fn() -> bool,
    ) {
        let goes_on = || !target.is_abandoned() && !worker.is_draining() && !departs();
        while !self.is_over() && goes_on() {
            let look = clock::now() + LOOK_AGAIN;
            tokio::time::sleep_until(self.until.map_or(look, |until| until.min(look))).await;
            if changes.is_first() && self.is_worth_a_try(worker, changes).await {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= clock::now())
    }

    fn withdraw(&self, withdrawal: &Withdrawal) {
        if let AwaitedEvent::Entries(entries) = &self.awaited
            && let Some(request) = entries.request()
        {
            *withdrawal.request.borrow_mut() = request;
        }
        withdrawal.is_withdrawn.set(true);
    }

    async fn attempt(&self, asking: &Asking, target: &Target, is_blocked: bool) -> Reply {
        let (first, alone) = match &self.awaited {
            AwaitedEvent::Element { first, alone } => (first, alone),
            AwaitedEvent::Entries(entries) => return entries.attempt(self, asking, target).await,
        };
        let reply = asking.engine.run_now(first()).await;
        if !is_blocked || !is_of_wrong_type(&reply) {
            return reply;
        }
        // A client that already waits skips keys of another type (`handleClientsBlockedOnKeys` in `blocked.c`).
        for attempt in alone {
            let reply = asking.engine.run_now(attempt()).await;
            if !is_nothing(&reply) && !is_of_wrong_type(&reply) {
                return reply;
            }
        }
        match alone.is_empty() && self.first_is_a_list(asking).await {
            // The source is a list, so it is the destination of the move that has another type.
            true => reply,
            false => Reply::NilArray,
        }
    }

    async fn first_is_a_list(&self, asking: &Asking) -> bool {
        let (key, kind) = (self.keys[0].clone(), Kind::Read(Read::new(Question::Type)));
        let operation = Operation { db: self.db, key, kind };
        asking.engine.run_now(operation).await == Reply::Simple("list")
    }

    async fn is_worth_a_try(&self, worker: &Worker, changes: &Listener) -> bool {
        match &self.awaited {
            AwaitedEvent::Element { .. } => self.is_there(worker).await,
            AwaitedEvent::Entries(entries) => {
                let has_changed = entries.have_changed(self, worker).await;
                if has_changed && entries.line == Line::Readers {
                    changes.nudge_others();
                }
                has_changed
            }
        }
    }

    /// Whether one of the keys exists. Masters answer this more cheaply than an attempt to take an element.
    async fn is_there(&self, worker: &Worker) -> bool {
        for key in &self.keys {
            let kind = Kind::Read(Read::new(Question::Exists));
            let operation = Operation { db: self.db, key: key.clone(), kind };
            if worker.engine().run_now(operation).await != Reply::Int(0) {
                return true;
            }
        }
        false
    }
}

impl AwaitedEvent {
    fn line(&self) -> Line {
        match self {
            Self::Element { .. } => Line::Elements,
            Self::Entries(entries) => entries.line,
        }
    }
}
