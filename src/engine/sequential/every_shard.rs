//! Requests about all keys of a database when each shard has some of them.
//!
//! The shards are asked one after the other, so the reply is of no single moment. That of a single Redis to `SCAN` is
//! not either.

use std::rc::Rc;

use super::walk::{Walk, WalkExtent, WalkOver};
use crate::client::outbox::Target;
use crate::engine::Engine;
use crate::operation::flush::{Extent, Flush, Pace};
use crate::operation::verdict;
use crate::operation::{Kind, Operation};
use crate::resp::reply::Reply;

impl Walk {
    /// Whether the walk needs all of these shards.
    pub(super) fn is_of_all(&self, shards: &[Rc<Engine>]) -> bool {
        self.over == WalkOver::Keys && !shards.is_empty()
    }

    /// Returns the reply; nil if `target` has gone meanwhile.
    pub(super) async fn run_on_all(self, shards: &[Rc<Engine>], target: &Target) -> Reply {
        let replied = match self.extent {
            WalkExtent::From(cursor) => self.one_page_of(shards, cursor, target).await,
            WalkExtent::Any => self.any_of(shards, target).await,
            WalkExtent::All | WalkExtent::Count => self.sum_of(shards, target).await,
        };
        replied.unwrap_or_else(|error| error)
    }

    /// Returns all keys, or their number.
    async fn sum_of(&self, shards: &[Rc<Engine>], target: &Target) -> Result<Reply, Reply> {
        let (mut keys, mut count) = (Vec::new(), 0);
        for engine in shards {
            match self.run(engine, target).await {
                Reply::Array(some) => keys.extend(some),
                Reply::Int(some) => count += some,
                other => return Err(other),
            }
        }
        Ok(if self.extent == WalkExtent::Count { Reply::Int(count) } else { Reply::Array(keys) })
    }

    /// Returns a key of a random shard that has any.
    async fn any_of(&self, shards: &[Rc<Engine>], target: &Target) -> Result<Reply, Reply> {
        let first = fastrand::usize(..shards.len());
        for at in 0..shards.len() {
            match self.run(&shards[(first + at) % shards.len()], target).await {
                Reply::Nil => {}
                reply => return Ok(reply),
            }
        }
        Ok(Reply::Nil)
    }

    /// Returns a page of the shard that a cursor belongs to. The cursor is that of the shard, times the number of
    /// shards, plus the shard.
    async fn one_page_of(
        mut self,
        shards: &[Rc<Engine>],
        cursor: u64,
        target: &Target,
    ) -> Result<Reply, Reply> {
        let count = shards.len() as u64;
        let (at, inner) = ((cursor % count) as usize, cursor / count);
        self.extent = WalkExtent::From(inner);
        let mut page = match self.run(&shards[at], target).await {
            Reply::Array(page) if page.len() == 2 => page,
            other => return Err(other),
        };
        let next = next_cursor(&page[0]).ok_or(TOO_LARGE)?;
        let cursor = match next {
            0 if at + 1 == shards.len() => 0,
            0 => at as u64 + 1,
            inner => {
                let outer = inner.checked_mul(count).and_then(|it| it.checked_add(at as u64));
                outer.ok_or(TOO_LARGE)?
            }
        };
        page[0] = Reply::bulk(cursor.to_string());
        Ok(Reply::Array(page))
    }
}

fn next_cursor(reply: &Reply) -> Option<u64> {
    let Reply::Bulk(digits) = reply else { return None };
    std::str::from_utf8(digits).ok()?.parse().ok()
}

const TOO_LARGE: Reply = crate::catalogue::error::fixed(
    "ERR the shard has too many keys for a cursor: use fewer shards",
);

/// `FLUSHDB` or `FLUSHALL` on several shards.
#[derive(Debug)]
pub struct ShardsFlush {
    /// The database.
    pub db: u32,
    /// Which databases to flush.
    pub extent: Extent,
    /// Whether to wait until the memory is free.
    pub pace: Pace,
}

impl ShardsFlush {
    /// Flushes one shard after the other. An error leaves those after it as they are.
    pub(super) async fn run(self, shards: &[Rc<Engine>]) -> Reply {
        for (at, engine) in shards.iter().enumerate() {
            let kind = Kind::Flush(Box::new(Flush::new(self.extent, self.pace)));
            let reply = engine.run_now(Operation { db: self.db, key: Box::default(), kind }).await;
            if reply.is_error() {
                return if at == 0 { reply } else { verdict::unknown(reply) };
            }
        }
        Reply::OK
    }
}
