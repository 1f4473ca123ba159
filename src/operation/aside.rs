//! What is asked of one master after the other, apart from the votes: walks, and reads of what is large.

use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::engine::Engine;
use super::large::Large;
use super::walk::{Over, Walk};
use crate::client::outbox::{Order, Target};

/// One of them.
#[derive(Debug)]
pub enum Aside {
    /// Everything that a quorum holds, or a page of it.
    Walk(Walk),
    /// One reply that may be large.
    Large(Large),
}

/// Whom it asks, and what keeps it within limits.
pub struct Asking {
    /// The masters.
    pub engine: Rc<Engine>,
    /// One large read at a time for each client.
    pub client: Rc<Semaphore>,
    /// Masters that may be busy with large reads of this process, so that the others are a quorum.
    pub busy: Arc<Semaphore>,
}

impl Aside {
    /// The database.
    pub fn db(&self) -> u32 {
        match self {
            Self::Walk(walk) => walk.db,
            Self::Large(large) => large.db,
        }
    }

    /// The key, or the first of them.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Walk(walk) => match &walk.over {
                Over::Keys => b"",
                Over::Hash(key) | Over::Set(key) | Over::SortedSet(key) => key,
            },
            Self::Large(large) => large.key(),
        }
    }

    /// What it may overtake within its session: it takes several rounds.
    pub fn order(&self) -> Order {
        match self {
            Self::Walk(Walk { over: Over::Keys, .. }) => Order::Alone,
            Self::Large(large) if large.keys.len() != 1 => Order::Alone,
            _ => Order::Rounds,
        }
    }

    /// Asks, and answers.
    pub async fn run(self, asking: Asking, target: Target) {
        let since_us = asking.engine.stopwatch_us();
        let key = Box::<[u8]>::from(self.key());
        let reply = match self {
            Self::Walk(walk) => walk.run(&asking.engine, &target).await,
            Self::Large(large) => large.run(&asking, &target).await,
        };
        asking.engine.answer_aside(target, &key, since_us, reply);
    }
}
