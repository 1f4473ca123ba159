//! What a client wants of a lock, for whoever does the same with it elsewhere.

use super::claim::{How, Replies};
use super::{Kind, Operation};
use crate::resp::reply::Reply;

/// See the module. Replies are those for when the lock is not the client's.
#[derive(Clone, Debug)]
pub enum LockRequest {
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
    /// Says what the client wants by a program.
    pub fn with_wish(mut self, wish: LockRequest) -> Self {
        if let Kind::Program(program) = &mut self.kind {
            program.set_wish(wish);
        }
        self
    }
}
