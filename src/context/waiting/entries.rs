//! Waiting for entries of streams (`XREAD` and `XREADGROUP` with `BLOCK`).
//!
//! A stream usually exists, so polling checks whether it has changed, by the name of its value, as `WATCH` does. A wait
//! that starts with `$` continues with the last id that the stream had then, also in another process.

use std::cell::{Cell, RefCell};

use super::{BlockingWait, is_nothing, is_of_wrong_type};
use crate::catalogue::table::Nothing;
use crate::client::outbox::Target;
use crate::context::worker::Worker;
use crate::engine::sequential::Asking;
use crate::engine::sequential::large::Large;
use crate::operation::changed_keys::Line;
use crate::operation::register::ContentName;
use crate::operation::verbatim_read::Query;
use crate::operation::watch::{Watch, Watched};
use crate::operation::{Kind, Operation, request};
use crate::resp::flat;
use crate::resp::reply::Reply;

/// Function of the ids after which a client wants entries, one id for each stream.
pub type EntryPosition<T> = Box<dyn Fn(&[Box<[u8]>]) -> T>;

/// Entries that a client waits for.
pub struct Entries {
    /// The first attempt: the request as it is, which may find existing entries, or a mistake in the request.
    pub first: First,
    /// The later attempts.
    pub next: EntryPosition<Operation>,
    /// The request that continues the wait in another process.
    pub again: EntryPosition<Vec<u8>>,
    /// The ids after which entries are wanted.
    pub ids: RefCell<Vec<Box<[u8]>>>,
    /// The queue of clients that the entries are shared with.
    pub line: Line,
    /// Whether the first attempt was made, and every `$` is an id.
    pub has_begun: Cell<bool>,
    /// The values of the streams at the last poll, by name.
    pub seen: RefCell<Vec<Option<ContentName>>>,
}

/// The first attempt.
pub enum First {
    /// A read whose size is unknown.
    Read(Large),
    /// An operation.
    Operation(Box<dyn Fn() -> Operation>),
}

impl Entries {
    /// Tries once. Returns entries, nothing, or an error.
    pub(super) async fn attempt(
        &self,
        waiting: &BlockingWait,
        asking: &Asking,
        target: &Target,
    ) -> Reply {
        if !self.has_begun.get() {
            let reply = match &self.first {
                First::Read(large) => large.run(asking, target).await,
                First::Operation(operation) => asking.engine.run_now(operation()).await,
            };
            if !is_nothing(&reply) {
                return reply;
            }
            match self.resolve(waiting, asking).await {
                // Nothing is left to find beyond the first attempt.
                Ok(false) => return reply,
                Ok(true) => {}
                Err(error) => return error,
            }
        }
        let operation = (self.next)(&self.ids.borrow());
        let reply = asking.engine.run_now(operation).await;
        // Redis skips streams that have become another type; a group's reader receives the error.
        match self.line == Line::Readers && is_of_wrong_type(&reply) {
            true => Reply::NilArray,
            false => reply,
        }
    }

    /// Replaces every `$` by an id. Returns whether there were any.
    async fn resolve(&self, waiting: &BlockingWait, asking: &Asking) -> Result<bool, Reply> {
        let ids = self.ids.borrow().clone();
        let mut has_any = false;
        for (at, key) in waiting.keys.iter().enumerate() {
            if *ids[at] == *b"$" {
                let id = last_id(waiting.db, key, asking).await?;
                self.ids.borrow_mut()[at] = id;
                has_any = true;
            }
        }
        self.has_begun.set(true);
        Ok(has_any)
    }

    /// Returns the request to start in another process, or `None` for the one that the client has sent.
    pub(super) fn request(&self) -> Option<Vec<u8>> {
        self.has_begun.get().then(|| (self.again)(&self.ids.borrow()))
    }

    /// Whether one of the streams may hold another value than before.
    pub(super) async fn have_changed(&self, waiting: &BlockingWait, worker: &Worker) -> bool {
        let engine = worker.engine();
        let mut have_changed = false;
        for (at, key) in waiting.keys.iter().enumerate() {
            let changes = engine.changes_of(vec![engine.fingerprint(waiting.db, key)]);
            let watched = Watched::new(waiting.db, key, changes);
            let kind = Kind::Watch(Watch::new(watched.clone()));
            let operation = Operation { db: waiting.db, key: key.clone(), kind };
            if engine.run_now(operation).await != Reply::OK {
                // No quorum can tell just now.
                continue;
            }
            let (_, name) = watched.expected();
            let mut seen = self.seen.borrow_mut();
            seen.resize(waiting.keys.len(), None);
            have_changed |= name.is_none() || seen[at] != name;
            seen[at] = name;
        }
        have_changed
    }
}

/// Returns the last id of a stream, which may belong to an entry since deleted.
async fn last_id(db: u32, key: &[u8], asking: &Asking) -> Result<Box<[u8]>, Reply> {
    let question = request::of([&b"XINFO"[..], b"STREAM", key].into_iter());
    let query = Query::new(question, Nothing::Again);
    let kind = Kind::Query(Box::new(query));
    let operation = Operation { db, key: key.into(), kind };
    let reply = asking.engine.run_now(operation).await;
    let Reply::Raw(frame) = &reply else { return Err(reply) };
    if frame.starts_with(b"-ERR no such key") {
        return Ok(b"0-0"[..].into());
    }
    let mut words = flat::elements(frame).skip_while(|it| it.body != Some(b"last-generated-id"));
    let id = words.nth(1).and_then(|element| element.body).map(Into::into);
    id.ok_or_else(|| reply.clone())
}
