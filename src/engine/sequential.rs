//! Requests that go to one master after the other, or in portions: walks, large reads, and long questions.

pub mod every_shard;
pub mod large;
pub mod libraries;
pub mod numsub;
pub mod unknown_command;
pub mod walk;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Engine;
use super::sequential::large::Large;
use super::sequential::numsub::NumSub;
use super::sequential::walk::{Walk, WalkOver};
use crate::client::outbox::{Order, Target};
use crate::engine::sequential::unknown_command::Newer;
use every_shard::ShardsFlush;

/// A request of this kind.
#[derive(Debug)]
pub enum Aside {
    /// Everything that a quorum holds, or a page of that.
    Walk(Walk),
    /// A single reply that may be large.
    Large(Large),
    /// A command that only the masters know.
    Newer(Newer),
    /// Subscriber counts of many channels.
    Listeners(NumSub),
    /// The end of all keys of one or all databases, on several shards.
    Flush(ShardsFlush),
}

/// The engine that asks the masters, and the limits on large reads.
pub struct Asking {
    /// The engine.
    pub engine: Rc<Engine>,
    /// Limits each client to one large read at a time.
    pub client: Rc<Semaphore>,
    /// Limits how many masters may be busy with large reads of this process, so that the others are a quorum.
    pub busy: Arc<Busy>,
    /// The engines of all shards; none if the masters are one cluster.
    pub shards: Vec<Rc<Engine>>,
}

/// Limits how many masters are busy with large reads at a time.
#[derive(Debug)]
pub struct Busy {
    masters: Semaphore,
    /// Number of waiters whose clients are still connected, as far as known.
    waiting: AtomicUsize,
}

impl Busy {
    /// Creates a limit of this number of masters.
    pub fn new(masters: usize) -> Self {
        Self { masters: Semaphore::new(masters), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a free slot. Returns `None` if the client has gone. A client that will send no more may be gone too,
    /// so it comes after all others.
    pub async fn acquire(&self, target: &Target) -> Option<SemaphorePermit<'_>> {
        let mut waits = Some(Waits::of(&self.waiting));
        loop {
            let permit = self.masters.acquire().await.ok()?;
            target.look_for_client().await;
            if target.is_closed() {
                return None;
            }
            waits = waits.filter(|_| !target.is_abandoned());
            if waits.is_some() || self.waiting.load(Ordering::Relaxed) == 0 {
                return Some(permit);
            }
        }
    }
}

/// Counts one waiter until dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn of(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Aside {
    /// Returns the database.
    pub fn db(&self) -> u32 {
        match self {
            Self::Walk(walk) => walk.db,
            Self::Large(large) => large.db,
            Self::Newer(newer) => newer.db,
            Self::Listeners(_) => 0,
            Self::Flush(flush) => flush.db,
        }
    }

    /// Returns the key, or the first one.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Walk(walk) => match &walk.over {
                WalkOver::Keys => b"",
                WalkOver::Hash(key) | WalkOver::Set(key) | WalkOver::SortedSet(key) => key,
            },
            Self::Large(large) => large.key(),
            Self::Newer(newer) => newer.key(),
            Self::Listeners(_) | Self::Flush(_) => b"",
        }
    }

    /// Returns which requests it may overtake within its session: it takes several rounds.
    pub fn order(&self) -> Order {
        match self {
            Self::Walk(Walk { over: WalkOver::Keys, .. }) => Order::Alone,
            Self::Large(large) if large.keys.len() != 1 => Order::Alone,
            Self::Listeners(_) | Self::Newer(_) | Self::Flush(_) => Order::Alone,
            _ => Order::Rounds,
        }
    }

    /// Runs the request, and delivers the reply.
    pub async fn run(self, asking: Asking, target: Target) {
        let since_us = asking.engine.stopwatch_us();
        let key = Box::<[u8]>::from(self.key());
        let reply = match self {
            Self::Walk(walk) if walk.is_of_all(&asking.shards) => {
                walk.run_on_all(&asking.shards, &target).await
            }
            Self::Walk(walk) => walk.run(&asking.engine, &target).await,
            Self::Large(large) => large.run(&asking, &target).await,
            Self::Newer(newer) => newer.run(&asking).await,
            Self::Listeners(listeners) => listeners.run(&asking.engine, &target).await,
            Self::Flush(flush) => flush.run(&asking.shards).await,
        };
        asking.engine.answer_aside(target, &key, since_us, reply);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::catalogue::table::NO_COMMAND;
    use crate::client::outbox::{Outbox, Ticket};

    fn target(outbox: &Rc<Outbox>) -> Target {
        let ticket = Ticket { key: 0, order: Order::Rounds, bytes: 0, command: NO_COMMAND };
        outbox.reserve(ticket, false)
    }

    #[tokio::test]
    async fn whoever_may_have_gone_comes_last_and_whoever_has_gone_leaves() {
        let (busy, outboxes) = (Busy::new(1), [(); 4].map(|()| Rc::new(Outbox::default())));
        let targets = outboxes.each_ref().map(target);
        let [first, gone, ended, there] = &targets;
        let permit = busy.acquire(first).await.expect("it is there");
        let mut of_gone = Box::pin(busy.acquire(gone));
        let mut of_ended = Box::pin(busy.acquire(ended));
        let mut of_there = Box::pin(busy.acquire(there));
        for waiting in [&mut of_gone, &mut of_ended, &mut of_there] {
            assert!(waiting.now_or_never().is_none());
        }
        outboxes[1].close();
        outboxes[2].end_of_requests();
        drop(permit);
        assert!(of_gone.await.is_none());
        assert!((&mut of_ended).now_or_never().is_none(), "another waits who is there");
        drop(of_there.await.expect("it is there"));
        assert!(of_ended.await.is_some());
        assert_eq!(busy.waiting.load(Ordering::Relaxed), 0);
    }
}
