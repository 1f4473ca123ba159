//! What a client wants of a lock, for whoever does the same with it elsewhere.

use super::claim::{How, Replies};
use super::{Kind, Operation};
use crate::resp::reply::Reply;

/// See the module. Replies are those for when the lock is not the client's.
#[derive(Clone, Debug)]
pub enum Wish {
    /// Take it.
    Claim {
        /// The client's token.
        token: Box<[u8]>,
        /// As asked, in milliseconds; `None`: for ever.
        ttl_ms: Option<i64>,
        /// Only if it is free?
        how: How,
        /// The client's words.
        replies: Replies,
    },
    /// Prolong it by its token.
    Extend {
        /// The client's token.
        token: Box<[u8]>,
        /// As asked, in milliseconds.
        ttl_ms: i64,
        /// Who has none is told this.
        refused: Reply,
    },
    /// Give it back by its token.
    Release {
        /// The client's token.
        token: Box<[u8]>,
        /// It was there, and is gone.
        deleted: Reply,
    },
    /// Delete it, whoever has it.
    Delete,
    /// Let it end in so many milliseconds under a condition.
    Expire(i64, Vec<&'static str>),
    /// Let it end never.
    Persist,
    /// Ask only.
    Look,
    /// Do something for which it takes the masters alone.
    Other,
}

impl Operation {
    /// What its client wants of a lock.
    pub fn wish(&self) -> Wish {
        match &self.kind {
            Kind::Claim(claim) => claim.wish(),
            Kind::Extend(extend) => extend.wish(),
            Kind::Release(release) => release.wish(),
            Kind::Delete(_) => Wish::Delete,
            Kind::Read(_) | Kind::Query(_) | Kind::Watch(_) | Kind::Measure(_) => Wish::Look,
            Kind::Load(load) if load.runs() => Wish::Other,
            Kind::Everywhere(_) | Kind::Load(_) | Kind::Channels(_) => Wish::Look,
            Kind::Settling(_) | Kind::Several(_) => Wish::Look,
            Kind::Program(program) => program.wish().cloned().unwrap_or(Wish::Other),
            Kind::Settle(_) | Kind::Flush(_) => Wish::Other,
        }
    }

    /// Says what the client wants by a program.
    pub fn with_wish(mut self, wish: Wish) -> Self {
        if let Kind::Program(program) = &mut self.kind {
            program.set_wish(wish);
        }
        self
    }
}
