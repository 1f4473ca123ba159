//! Clients that wait for an element: `BLPOP` and its siblings.
//!
//! Each is a task of its own, which holds nobody up: it tries, waits for a change of one of its keys,
//! and tries again. What another proxy changes is not heard of here, so it also looks now and then.
//!
//! Those who wait for one key stand in line, and only the first tries and looks: as in Redis, who waited
//! longest is served first. Who leaves wakes the next, for whom there may be something left.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::outbox::Target;
use super::reply::Reply;
use crate::clock::{self, Instant};
use crate::operation::changes::Listener;
use crate::operation::read::{Question, Read};
use crate::operation::{Kind, Operation};
use crate::worker::Worker;

/// How often it is looked whether another proxy has brought something.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What a client waits for.
pub struct Waiting {
    /// Makes the operation that takes an element if there is one.
    pub attempt: Box<dyn Fn() -> Operation>,
    /// The keys in which there may be one.
    pub keys: Vec<Box<[u8]>>,
    /// Whether it says more than keys and a time: masters may find a mistake in that.
    pub has_options: bool,
    /// Their database.
    pub db: u32,
    /// When it gives up; `None`: never.
    pub until: Option<Instant>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Several proxies took elements at once, and nobody got one.
fn is_split(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("TRYAGAIN "))
}

fn is_nothing(reply: &Reply) -> bool {
    match reply {
        Reply::Raw(frame) => &frame[..] == b"_\r\n",
        _ => *reply == Reply::NilArray,
    }
}

impl Waiting {
    /// Waits, and answers. With `withdrawn` another process can wait instead: then that is set, and the answer is
    /// nothing at all.
    pub async fn run(self, worker: Rc<Worker>, withdrawn: Option<Rc<Cell<bool>>>, target: Target) {
        let _blocked = worker.registry().block();
        let departs = || withdrawn.is_some() && worker.is_departing();
        let engine = worker.engine();
        let keys = self.keys.iter().map(|key| engine.fingerprint(self.db, key));
        let changes = engine.changes_of(keys.collect()).in_line();
        // A mistake is told at once, not when it is its turn.
        let mut may_be_wrong = self.has_options;
        loop {
            let turn = changes.turn();
            if target.is_abandoned() || worker.is_draining() {
                return target.deliver(Reply::NilArray);
            }
            if let Some(withdrawn) = withdrawn.as_ref().filter(|_| departs()) {
                withdrawn.set(true);
                return target.deliver(Reply::Each(Vec::new()));
            }
            // Who is not first leaves what there is to others.
            let tries = changes.is_first() || std::mem::take(&mut may_be_wrong);
            let reply = if tries { self.attempt(&worker).await } else { Reply::NilArray };
            if !is_nothing(&reply) && !is_split(&reply) {
                return target.deliver(reply);
            }
            if self.is_over() {
                return target.deliver(if is_split(&reply) { reply } else { Reply::NilArray });
            }
            tokio::select! {
                biased;
                () = turn => {}
                () = self.look_around(&worker, &target, &changes, departs) => {}
            }
        }
    }

    /// Until it may be worth trying again, or is over.
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
            if changes.is_first() && self.is_there(worker).await {
                return;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= clock::now())
    }

    async fn attempt(&self, worker: &Worker) -> Reply {
        let operation = (self.attempt)();
        let key = worker.engine().fingerprint(operation.db, &operation.key);
        worker.engine().run(operation, key).await
    }

    /// Reading whether there is a key costs masters less than trying to take something out of it.
    async fn is_there(&self, worker: &Worker) -> bool {
        for key in &self.keys {
            let kind = Kind::Read(Read::new(Question::Exists));
            let operation = Operation { db: self.db, key: key.clone(), kind };
            let fingerprint = worker.engine().fingerprint(self.db, key);
            if worker.engine().run(operation, fingerprint).await != Reply::Int(0) {
                return true;
            }
        }
        false
    }
}
