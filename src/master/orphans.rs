//! Removing what a claim without TTL left on a minority of the masters when its proxy died: it would never end,
//! and once every master has one of its own for a key, nobody can take that key any more.
//!
//! A claim that is refused by some master says which key to look at ([`Suspects`]). Only while all masters vote
//! is it known what a quorum holds. A value must not change between the first look and its removal, over two
//! vote timeouts in which whatever was on its way is decided: the master itself sees to that (`WATCH`).
//! So not even an equal value that somebody has just locked with is mistaken for it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::Notify;

use super::dial::Dial;
use super::errand::{Errand, Errands, Failed};
use super::probe;
use crate::decision::lease::attempt::Stored;
use crate::quorum::orphans::{Held, orphans};
use crate::quorum::{MasterId, MasterSet};

/// So many keys wait for being looked at. Others come again, with the next claim.
const MOST_SUSPECTS: usize = 16;

/// The pause after every key, so that contention costs the masters next to nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the connections are kept for the next key.
const IDLE: Duration = Duration::from_secs(10);

/// Keys that a claim has found held on some master, although it was granted or nobody else was.
#[derive(Debug, Default)]
pub struct Suspects {
    keys: RefCell<VecDeque<(u32, Box<[u8]>)>>,
    added: Notify,
}

impl Suspects {
    /// One more, if there is room.
    pub fn add(&self, db: u32, key: &[u8]) {
        let mut keys = self.keys.borrow_mut();
        if keys.len() >= MOST_SUSPECTS || keys.iter().any(|(d, k)| *d == db && **k == *key) {
            return;
        }
        keys.push_back((db, key.into()));
        self.added.notify_one();
    }

    async fn next(&self) -> (u32, Box<[u8]>) {
        loop {
            let first = self.keys.borrow_mut().pop_front();
            match first {
                Some(suspect) => return suspect,
                None => self.added.notified().await,
            }
        }
    }
}

/// What looks at suspects.
pub struct Sweeper<D>(pub Errands<D>);

impl<D: Dial> Sweeper<D> {
    /// Looks at `suspects` for ever.
    pub async fn run(self, suspects: Rc<Suspects>) {
        let mut masters = Vec::new();
        loop {
            let next = tokio::time::timeout(IDLE, suspects.next()).await;
            let Ok((db, key)) = next else {
                masters.clear();
                continue;
            };
            if let Err(why) = self.look_at(&mut masters, db, &key).await {
                tracing::debug!(key = %key.escape_ascii(), "cannot look for orphans: {why}");
                masters.clear();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn look_at(&self, masters: &mut Vec<Errand>, db: u32, key: &[u8]) -> Result<(), Failed> {
        if !self.all_vote() {
            return Ok(());
        }
        if masters.is_empty() {
            *masters = self.connect().await?;
        }
        for master in masters.iter() {
            ask(master, redis::cmd("SELECT").arg(db)).await?;
        }
        let found = self.orphans(masters, key).await?;
        if found.is_empty() {
            return Ok(());
        }
        self.remove(masters, key, found).await
    }

    fn all_vote(&self) -> bool {
        self.0.electorate.voters() == self.0.quorum.everybody()
    }

    async fn connect(&self) -> Result<Vec<Errand>, Failed> {
        let mut masters = Vec::new();
        for master in self.0.quorum.everybody().iter() {
            masters.push(self.0.to(master).await?);
        }
        Ok(masters)
    }

    async fn orphans(&self, masters: &[Errand], key: &[u8]) -> RedisResult<MasterSet> {
        let mut all = Vec::new();
        for master in masters {
            all.push(held(master, key).await?);
        }
        Ok(orphans(self.0.quorum, &all))
    }

    /// Removes what these masters hold, if it is an orphan all the time and nothing touches it.
    async fn remove(
        &self,
        masters: &[Errand],
        key: &[u8],
        suspected: MasterSet,
    ) -> Result<(), Failed> {
        for master in suspected.iter() {
            ask(&masters[master.index()], redis::cmd("WATCH").arg(key)).await?;
        }
        let mut found = suspected.and(self.orphans(masters, key).await?);
        tokio::time::sleep(2 * self.0.vote_timeout).await;
        found = found.and(self.orphans(masters, key).await?);
        for master in suspected.iter() {
            let errand = &masters[master.index()];
            if found.contains(master) && self.all_remember(masters).await? {
                self.remove_watched(master, errand, key).await?;
            } else {
                ask(errand, &mut redis::cmd("UNWATCH")).await?;
            }
        }
        Ok(())
    }

    /// A master that forgets takes the other copies of a value with it, and what is left is no orphan.
    async fn all_remember(&self, masters: &[Errand]) -> Result<bool, Failed> {
        for (index, errand) in masters.iter().enumerate() {
            let facts = probe::facts(&mut errand.connection.clone()).await?;
            self.0.electorate.observe(MasterId::new(index), facts);
        }
        Ok(self.all_vote())
    }

    async fn remove_watched(
        &self,
        master: MasterId,
        errand: &Errand,
        key: &[u8],
    ) -> RedisResult<()> {
        let mut transaction = redis::pipe();
        transaction.atomic().cmd("UNLINK").arg(key);
        let removed: Option<(u64,)> =
            transaction.query_async(&mut errand.connection.clone()).await?;
        if removed == Some((1,)) {
            self.0.electorate.removed_orphan(master);
            tracing::info!(
                master = %self.0.addresses[master.index()], key = %key.escape_ascii(),
                "a value without TTL that no quorum holds was removed"
            );
        }
        Ok(())
    }
}

async fn ask(master: &Errand, command: &mut redis::Cmd) -> RedisResult<()> {
    command.query_async(&mut master.connection.clone()).await
}

async fn held(master: &Errand, key: &[u8]) -> RedisResult<Held> {
    let mut inspect = redis::cmd("EVAL");
    inspect.arg(STORED).arg(1).arg(key);
    let words: Option<(Vec<u8>, i64)> = inspect.query_async(&mut master.connection.clone()).await?;
    let Some((value, ttl_ms)) = words else { return Ok(Held::Other) };
    let Stored { tag, token } = Stored::decode(&value);
    if tag.is_some_and(|tag| tag.attempt.is_nobodys()) {
        return Ok(Held::Nobodys);
    }
    let attempt = tag.map(|tag| tag.attempt.to_bytes().to_vec());
    Ok(Held::String { attempt, value: token.to_vec(), for_ever: ttl_ms == -1 })
}

/// A string as it is stored, and its remaining TTL.
const STORED: &str = "return redis.call('TYPE', KEYS[1]).ok == 'string' \
    and {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_is_one_suspect_and_many_keys_are_bounded() {
        let suspects = Suspects::default();
        for number in 0..100 {
            suspects.add(0, b"hot");
            suspects.add(0, format!("{number}").as_bytes());
        }
        assert_eq!(suspects.keys.borrow().len(), MOST_SUSPECTS);
        let hot = suspects.keys.borrow().iter().filter(|(_, key)| **key == *b"hot").count();
        assert_eq!(hot, 1);
    }
}
