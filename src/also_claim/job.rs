//! One request for a lock, at the data Redis and on the masters.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use redis::Cmd;

use super::claim::{DualClaim, DualStep};
use super::gate::{Gate, GateAnswer};
use super::script::{Claimed, CopyName, ScriptPlace};
use crate::client::outbox::Target;
use crate::engine::Engine;
use crate::operation::claim::{How, Replies};
use crate::operation::lock_request::LockRequest;
use crate::operation::release::{self, Release};
use crate::operation::{Answers, Behaviour, Kind, Operation};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};

/// Reply to a request for a lock that cannot be taken in both places.
pub const REFUSED: Reply = Reply::Error(Cow::Borrowed(
    "ERR with --also-claim-on-data locks take SET NX, SETNX, EXPIRE, PERSIST, DEL of one key and the scripts of libraries \
     for such locks: stop the last old instance, then remove the flag",
));

/// An operation to carry out in both places.
#[derive(Debug)]
pub struct LockJob {
    wish: LockRequest,
    operation: Operation,
}

/// An operation that goes to the masters alone, or to both places as a job.
#[derive(Debug)]
pub enum Way {
    /// Asks the masters alone.
    Masters(Operation),
    /// Asks the data Redis as well.
    Both(Box<LockJob>),
}

impl LockJob {
    /// Returns the way for an operation while both places have the locks; `None`: it is not supported.
    pub fn of(operation: Operation) -> Option<Way> {
        match operation.kind.wish() {
            LockRequest::Other => None,
            LockRequest::Expire(_, words)
                if words.iter().any(|word| ["GT", "LT"].contains(word)) =>
            {
                None
            }
            LockRequest::Look => Some(Way::Masters(operation)),
            wish => Some(Way::Both(Box::new(Self { wish, operation }))),
        }
    }

    /// Whether an operation changes anything.
    pub fn changes(operation: &Operation) -> bool {
        !matches!(operation.kind.wish(), LockRequest::Look)
    }

    /// Carries out the operation, and answers. A client that disconnects meanwhile leaves nothing half done.
    pub async fn run(self, engine: Rc<Engine>, gate: Rc<Gate>, target: Target) {
        // No queue holds this job between its question to one place and that to the other.
        let _under_way = gate.pending().begin();
        let Operation { db, key, .. } = &self.operation;
        let place = ScriptPlace { db: *db, key: key.clone() };
        let both = Both { place, since: clock::now(), name: Gate::name(), engine, gate };
        let reply = both.reply(self.wish, self.operation).await;
        target.deliver(reply);
    }
}

/// Both places, and one lock in them.
struct Both {
    place: ScriptPlace,
    since: Instant,
    name: CopyName,
    engine: Rc<Engine>,
    gate: Rc<Gate>,
}

impl Both {
    async fn reply(&self, wish: LockRequest, operation: Operation) -> Reply {
        match wish {
            LockRequest::Claim { token, ttl_ms, how, replies } => {
                self.claim(operation, &token, ttl_ms, how, replies).await
            }
            LockRequest::Extend { token, ttl_ms, refused } => {
                let how = How::IfFreeOrOurs { create: false, prefix: -1 };
                let request = self.place.claim(&token, self.name, self.longer(ttl_ms), how);
                self.change(operation, request, Some(Some(ttl_ms)), refused).await
            }
            LockRequest::Expire(ttl_ms, words) => {
                let longer = if ttl_ms > 0 { self.longer(ttl_ms) } else { ttl_ms };
                let request = self.place.expire(self.name, longer, &words);
                let end = (ttl_ms > 0).then_some(Some(ttl_ms));
                self.change(operation, request, end, Reply::Int(0)).await
            }
            LockRequest::Persist => {
                self.change(operation, self.place.persist(self.name), None, Reply::Int(0)).await
            }
            LockRequest::Release { token, deleted } => {
                self.give_up(operation, self.place.release(&token), deleted).await
            }
            LockRequest::Delete => {
                self.give_up(operation, self.place.delete(), Reply::Int(1)).await
            }
            LockRequest::Look | LockRequest::Other => self.on_masters(operation).await,
        }
    }

    async fn claim(
        &self,
        operation: Operation,
        token: &[u8],
        ttl_ms: Option<i64>,
        how: How,
        replies: Replies,
    ) -> Reply {
        // A lock without an end is taken for a while first: a proxy that ends now leaves nothing behind for ever.
        let first_ms = self.longer(ttl_ms.unwrap_or_default());
        let mut claim = DualClaim::new(self.since_start(), self.slack(), ttl_ms.is_none());
        let answer = self.ask(self.place.claim(token, self.name, first_ms, how)).await;
        let claimed = answer.as_ref().and_then(|said| said.as_ref().ok()).map(|said| match said {
            0 => Claimed::Held,
            1 => Claimed::Taken,
            _ => Claimed::Owned,
        });
        match claim.asked(claimed) {
            DualStep::AskMasters => {}
            DualStep::Refuse => return replies.held,
            _ => {
                self.take_back(token, first_ms);
                return unknown(answer);
            }
        }
        let reply = self.on_masters(operation).await;
        let is_granted = reply == replies.granted || reply == replies.owned;
        let mut step = claim.voted(is_granted, self.since_start());
        while step == DualStep::Confirm {
            let has_it = self.settle(ttl_ms.and(Some(first_ms))).await == Some(Ok(1));
            step = claim.confirmed(has_it, self.since_start());
        }
        match step {
            DualStep::Grant => {
                self.end_with_the_lease(ttl_ms);
                return reply;
            }
            DualStep::Refuse => return reply,
            DualStep::TakeBack => {
                self.take_back(token, first_ms);
                return reply;
            }
            DualStep::Release => {
                self.take_back(token, first_ms);
                self.release_on_masters(token).await;
            }
            _ => {}
        }
        unknown(None)
    }

    /// Changes the lock, unless the data Redis says that it is not the client's. `end`: TTL to set there once the
    /// masters have agreed.
    async fn change(
        &self,
        operation: Operation,
        request: Cmd,
        end: Option<Option<i64>>,
        refused: Reply,
    ) -> Reply {
        match self.ask(request).await {
            Some(Ok(0)) => return refused,
            Some(Ok(_)) => {}
            answer => return unknown(answer),
        }
        let reply = self.on_masters(operation).await;
        let Some(end) = end.filter(|_| !reply.is_error() && reply != refused) else { return reply };
        // The request was just made, so it is answered within the slack.
        let longer = end.map(|ttl_ms| self.longer(ttl_ms));
        let is_late = self.since_start() > self.slack();
        if is_late && self.settle(longer).await != Some(Ok(1)) {
            return unknown(None);
        }
        self.end_with_the_lease(end);
        reply
    }

    /// Deletes the lock in both places. It counts as deleted if it was in either of them.
    async fn give_up(&self, operation: Operation, request: Cmd, gone: Reply) -> Reply {
        let answer = self.ask(request).await;
        let reply = self.on_masters(operation).await;
        match answer {
            Some(Ok(0)) => reply,
            Some(Ok(_)) if reply.is_error() => reply,
            Some(Ok(_)) => gone,
            answer => unknown(answer),
        }
    }

    fn settle(&self, left_ms: Option<i64>) -> impl Future<Output = Option<GateAnswer>> + use<> {
        self.ask(self.place.settle(self.name, left_ms))
    }

    /// Lets the lock on the data Redis end when it does on the masters. The request keeps its place in the queue, and
    /// nobody waits for the answer.
    fn end_with_the_lease(&self, ttl_ms: Option<i64>) {
        if let Some(ttl_ms) = ttl_ms {
            drop(self.settle(Some(self.engine.rules().pad.pad(ttl_ms))));
        }
    }

    fn since_start(&self) -> Duration {
        clock::now() - self.since
    }

    fn take_back(&self, token: &[u8], ttl_ms: i64) {
        let end = Duration::from_millis(ttl_ms.unsigned_abs());
        self.gate.owe(self.place.take_back(self.name, token), clock::now() + end);
    }

    async fn release_on_masters(&self, token: &[u8]) {
        let release = Release::new(token.into(), Answers::Usual(release::Replies::COUNTING));
        let ScriptPlace { db, key } = &self.place;
        self.on_masters(Operation { db: *db, key: key.clone(), kind: Kind::Release(release) })
            .await;
    }

    async fn on_masters(&self, operation: Operation) -> Reply {
        self.engine.run_now(operation).await.parsed()
    }

    fn ask(&self, request: Cmd) -> impl Future<Output = Option<GateAnswer>> + use<> {
        self.gate.ask(request, self.engine.rules().patience)
    }

    /// Returns how much longer the data Redis keeps the lock than the masters, until these have answered.
    fn slack(&self) -> Duration {
        2 * self.engine.rules().patience
    }

    fn longer(&self, ttl_ms: i64) -> i64 {
        let pad = self.engine.rules().pad;
        pad.pad(ttl_ms.saturating_add(self.slack().as_millis() as i64))
    }
}

/// Returns the error for an unknown outcome.
fn unknown(answer: Option<GateAnswer>) -> Reply {
    Reply::error(match answer {
        Some(Err(said)) => format!("CLUSTERDOWN the data Redis, which holds the locks of old instances, says: {said}"),
        _ => "CLUSTERDOWN the data Redis, which holds the locks of old instances, does not answer: check that it runs, or stop those instances and remove --also-claim-on-data"
            .to_owned(),
    })
}
