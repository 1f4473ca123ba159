//! `DBSIZE`: the number of keys.
//!
//! Few keys are counted exactly, as `KEYS` shows them. If there are many, each master counts its own, without the
//! stamps of registers. That differs only by registers that have expired within the last minute, and by keys of a
//! minority.

use super::Walker;
use crate::catalogue::reserved;
use crate::client::outbox::Target;
use crate::decision::quorum::MasterId;
use crate::operation::{Kind, Operation, request, verdict};
use crate::resp::flat;
use crate::resp::reply::Reply;

/// Maximum keys on a master, stamps included, up to which each key is examined.
const FEW: i64 = 10_000;

/// Number of keys that a master examines at a time: less than a millisecond.
const AT_A_TIME: &[u8] = b"1000";

impl Walker<'_> {
    pub(super) async fn count(&mut self, target: &Target) -> Result<i64, Reply> {
        let kind = Kind::Everywhere(Box::default());
        let operation = Operation { db: self.walk.db, key: Box::default(), kind };
        match self.engine.run(operation, 0).await {
            Reply::Int(0) => Ok(0),
            Reply::Int(..=FEW) => Ok(self.all(target).await?.len() as i64),
            Reply::Int(_) => self.count_many(target).await,
            error => Err(error),
        }
    }

    /// Returns the number of keys that at least a quorum has, given each master's count.
    async fn count_many(&mut self, target: &Target) -> Result<i64, Reply> {
        let mut counts = Vec::new();
        for master in self.masters.clone().into_iter().flatten() {
            if target.is_closed() {
                return Ok(0);
            }
            counts.extend(self.count_on(master).await);
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        match counts.get(self.quorum.needed() - 1) {
            Some(count) => Ok(*count),
            None => Err(verdict::nobody_answered(&self.engine.rules())),
        }
    }

    async fn count_on(&self, master: MasterId) -> Option<i64> {
        let (mut own, mut cursor) = (0, b"0".to_vec());
        loop {
            let pattern = [reserved::PREFIX.as_bytes(), b"*"].concat();
            let mut request = Vec::new();
            let words = [&b"SCAN"[..], &cursor, b"MATCH", &pattern, b"COUNT", AT_A_TIME];
            request::encode(&mut request, &words);
            request::encode(&mut request, &[b"DBSIZE"]);
            let answer = self.engine.ask_aside(master, self.walk.db, request, 2).await?;
            let (page, size) = flat::split_frame(&answer)?;
            let [next, names] = flat::items(page)?[..] else { return None };
            own += flat::items(names)?.len() as i64;
            cursor = flat::bulk(next)?.to_vec();
            if cursor == b"0" {
                return Some((flat::int(size)? - own).max(0));
            }
        }
    }
}
