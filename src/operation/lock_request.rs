//! A client's request concerning a lock, for code that applies the same elsewhere.

use super::claim::{How, Replies};
use super::{Kind, Operation};
use crate::resp::reply::Reply;

/// A client's request concerning a lock; see the module. Replies are for when the lock is not the client's.
#[derive(Clone, Debug)]
pub enum LockRequest {
    /// Take it.
    Claim {
        /// The client's token.
        token: Box<[u8]>,
        /// As requested, in milliseconds; `None`: no expiry.
        ttl_ms: Option<i64>,
        /// Condition for taking it.
        how: How,
        /// The client's replies.
        replies: Replies,
    },
    /// Prolong it by its token.
    Extend {
        /// The client's token.
        token: Box<[u8]>,
        /// As requested, in milliseconds.
        ttl_ms: i64,
        /// Reply to a client without the lock.
        refused: Reply,
    },
    /// Give it back by its token.
    Release {
        /// The client's token.
        token: Box<[u8]>,
        /// The lock was there and is deleted.
        deleted: Reply,
    },
    /// Delete it, whoever holds it.
    Delete,
    /// Let it expire in this many milliseconds, under a condition.
    Expire(i64, Vec<&'static str>),
    /// Remove its expiry.
    Persist,
    /// Only look at it.
    Look,
    /// Do something that only the masters can do.
    Other,
}

impl Operation {
    /// Attaches the client's request to a program.
    pub fn with_wish(mut self, wish: LockRequest) -> Self {
        if let Kind::Program(program) = &mut self.kind {
            program.set_wish(wish);
        }
        self
    }
}
