//! The memory taken by clients: one budget for all workers (`maxmemory-clients` of redis.conf).
//!
//! Each client has a [`Holding`]. Only the client's own worker changes it, so it needs no lock. The worker updates the
//! sum of all holdings once a holding has changed by some kilobytes. If the sum then exceeds the limit, the proxy
//! disconnects the clients that hold the most first, by buckets as in Redis (`networking.c`, `evictClients`).

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::line_pace::LinePace;
use super::registry::Client;
use crate::time::clock;

/// The parts of a client's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPart {
    /// The connection itself.
    Connection,
    /// The client's names.
    Words,
    /// The topics that the client has subscribed to.
    Topics,
    /// Incomplete requests, and requests that must wait.
    Requests,
    /// The commands queued since `MULTI`, and the watched keys.
    Transaction,
    /// Requests in flight, and replies that the client has not read yet.
    Replies,
    /// Masters' answers that are not a reply yet.
    Answers,
    /// The keys that the client may have cached (`CLIENT TRACKING`).
    Tracking,
}

const PARTS: usize = MemoryPart::Tracking as usize + 1;

/// Memory of an idle connection: its session, its entry in the registry and its place in the event loop.
pub const CONNECTION: u64 = 4 << 10;

/// Memory of an idle TLS connection, including its record buffers.
pub const TLS_CONNECTION: u64 = 32 << 10;

/// Memory that an entry of a map or a set takes in addition to its key.
pub const ENTRY: usize = 256;

/// Changes of a holding below this are not reported to the budget.
const STEP: u64 = 4 << 10;

/// Size of the first bucket. Smaller holdings are in it, those below twice as much in the next one, and so on
/// (`CLIENT_MEM_USAGE_BUCKET_MIN_LOG` in Redis's `server.h`).
const FIRST_BUCKET_LOG: u32 = 15;
const BUCKETS: usize = 19;

/// Maximum clients of the largest bucket that are compared. The greediest of them holds at least half as much as any
/// client.
const COMPARED: usize = 512;

/// The bucket of clients that are not to be disconnected.
const NO_BUCKET: u8 = u8::MAX;

/// The memory that one client takes.
#[derive(Debug)]
pub struct Holding {
    parts: [AtomicU64; PARTS],
    /// The total last reported to the budget.
    counted: AtomicU64,
    /// Changed only under the lock of the buckets.
    bucket: AtomicU8,
    /// `CLIENT NO-EVICT ON`
    is_spared: AtomicBool,
    has_left: AtomicBool,
    is_condemned: AtomicBool,
    /// The memory counted for the client when it was condemned.
    condemned_for: AtomicU64,
}

impl Default for Holding {
    fn default() -> Self {
        Self {
            parts: Default::default(),
            counted: AtomicU64::new(0),
            bucket: AtomicU8::new(NO_BUCKET),
            is_spared: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            is_condemned: AtomicBool::new(false),
            condemned_for: AtomicU64::new(0),
        }
    }
}

impl Holding {
    /// Sets the memory of one part. [`MemoryLedger::settle`] reports it to the budget.
    #[inline]
    pub fn set(&self, part: MemoryPart, bytes: u64) {
        self.parts[part as usize].store(bytes, Ordering::Relaxed);
    }

    /// Returns the memory of one part.
    pub fn of(&self, part: MemoryPart) -> u64 {
        self.parts[part as usize].load(Ordering::Relaxed)
    }

    /// Returns the memory of all parts.
    #[inline]
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }

    /// Whether the budget has chosen this client to be disconnected.
    #[inline]
    pub fn is_condemned(&self) -> bool {
        self.is_condemned.load(Ordering::Relaxed)
    }

    /// Whether the budget may choose this client.
    fn may_go(&self) -> bool {
        ![&self.is_spared, &self.is_condemned, &self.has_left]
            .iter()
            .any(|reason| reason.load(Ordering::Relaxed))
    }

    fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }
}

/// The limit on the memory of all clients, and the memory that they take.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    /// 0 means no limit.
    limit: AtomicU64,
    held: AtomicU64,
    /// The share of the clients that are about to be disconnected.
    condemned: AtomicU64,
    evicted: AtomicU64,
    ranking: Mutex<Ranking>,
}

/// The clients that may be disconnected, by the memory that they take.
#[derive(Debug, Default)]
struct Ranking {
    buckets: [BTreeMap<u64, Arc<Client>>; BUCKETS],
    lines: LinePace,
}

impl MemoryLedger {
    /// Changes the limit, effective at once. 0 means no limit.
    pub fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.keep();
    }

    /// Returns the limit. 0 means no limit.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns the memory of all clients.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the number of clients disconnected for exceeding the limit.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Updates the budget with the memory that `client` takes now. Only the client's own worker may call this.
    #[inline]
    pub fn settle(&self, client: &Arc<Client>) {
        let (holding, total) = (&client.holding, client.holding.total());
        if total.abs_diff(holding.counted()) >= STEP {
            self.count(client, total);
        }
    }

    #[cold]
    fn count(&self, client: &Arc<Client>, total: u64) {
        if client.holding.has_left.load(Ordering::Relaxed) {
            return;
        }
        let before = client.holding.counted.swap(total, Ordering::Relaxed);
        // One step: two would pass through a sum below zero, or above the limit.
        self.held.fetch_add(total.wrapping_sub(before), Ordering::Relaxed);
        if bucket_of(total) != client.holding.bucket.load(Ordering::Relaxed) {
            self.ranking().place(client);
        }
        if total > before {
            self.keep();
        }
    }

    /// `CLIENT NO-EVICT`: the client's memory still counts, but the client is not disconnected for it.
    pub fn spare(&self, client: &Arc<Client>, is_spared: bool) {
        client.holding.is_spared.store(is_spared, Ordering::Relaxed);
        self.ranking().place(client);
    }

    /// Removes a client that has gone. None of its memory counts any more.
    pub fn leave(&self, client: &Arc<Client>) {
        let mut ranking = self.ranking();
        client.holding.has_left.store(true, Ordering::Relaxed);
        ranking.place(client);
        let counted = client.holding.counted.swap(0, Ordering::Relaxed);
        self.held.fetch_sub(counted, Ordering::Relaxed);
        let condemned = client.holding.condemned_for.swap(0, Ordering::Relaxed);
        self.condemned.fetch_sub(condemned, Ordering::Relaxed);
    }

    fn is_exceeded(&self) -> bool {
        let limit = self.limit();
        let condemned = self.condemned.load(Ordering::Relaxed);
        limit > 0 && self.held().saturating_sub(condemned) > limit
    }

    /// Disconnects the greediest clients until the rest is within the limit.
    fn keep(&self) {
        if !self.is_exceeded() {
            return;
        }
        let mut ranking = self.ranking();
        let mut greediest = None;
        while self.is_exceeded() {
            let Some(client) = ranking.take_greediest() else { break };
            let counted = client.holding.counted();
            client.holding.condemned_for.store(counted, Ordering::Relaxed);
            self.condemned.fetch_add(counted, Ordering::Relaxed);
            client.holding.is_condemned.store(true, Ordering::Relaxed);
            self.evicted.fetch_add(1, Ordering::Relaxed);
            ranking.lines.count();
            client.wake();
            greediest.get_or_insert(client);
        }
        self.say(&mut ranking, greediest.as_deref());
    }

    fn say(&self, ranking: &mut Ranking, greediest: Option<&Client>) {
        let Some(clients) = ranking.lines.due(clock::now()) else { return };
        let (held, limit) = (self.held(), self.limit());
        match greediest {
            Some(greediest) => {
                let (address, bytes) = (&greediest.address, greediest.holding.counted());
                tracing::warn!(%address, bytes, clients, held, limit, "disconnecting the clients that use the most memory (max-memory-clients)");
            }
            None => tracing::warn!(
                held,
                limit,
                "clients use more than max-memory-clients, but none of them may be disconnected"
            ),
        }
    }

    /// No code under this lock can panic; even if it did, the data would still be valid.
    fn ranking(&self) -> MutexGuard<'_, Ranking> {
        self.ranking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ranking {
    /// Moves the client to the bucket that matches its memory.
    fn place(&mut self, client: &Arc<Client>) {
        let holding = &client.holding;
        let bucket = if holding.may_go() { bucket_of(holding.counted()) } else { NO_BUCKET };
        let before = holding.bucket.swap(bucket, Ordering::Relaxed);
        if before == bucket {
            return;
        }
        if let Some(before) = self.buckets.get_mut(usize::from(before)) {
            before.remove(&client.id);
        }
        if let Some(bucket) = self.buckets.get_mut(usize::from(bucket)) {
            bucket.insert(client.id, Arc::clone(client));
        }
    }

    fn take_greediest(&mut self) -> Option<Arc<Client>> {
        let largest = self.buckets.iter_mut().rev().find(|bucket| !bucket.is_empty())?;
        let compared = largest.values().take(COMPARED);
        let id = compared.max_by_key(|client| client.holding.counted())?.id;
        let client = largest.remove(&id)?;
        client.holding.bucket.store(NO_BUCKET, Ordering::Relaxed);
        Some(client)
    }
}

fn bucket_of(bytes: u64) -> u8 {
    let log = bytes.max(1).ilog2();
    (log + 1).saturating_sub(FIRST_BUCKET_LOG).min(BUCKETS as u32 - 1) as u8
}

/// Releases the capacity that `map` no longer needs.
pub fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > KEPT_CAPACITY && map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}

/// Capacity, in entries, that a map may always keep.
const KEPT_CAPACITY: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::registry::{Peer, Registry};

    const MB: u64 = 1 << 20;

    /// Returns clients that take these amounts of memory.
    fn clients(registry: &Registry, bytes: &[u64]) -> Vec<Arc<Client>> {
        let end = || Peer::Unix(std::path::Path::new("/s").into());
        let enter = |bytes: &u64| {
            let client = registry.enter(end(), end(), usize::MAX).expect("there is room");
            take(registry, &client, *bytes);
            client
        };
        bytes.iter().map(enter).collect()
    }

    fn take(registry: &Registry, client: &Arc<Client>, bytes: u64) {
        client.holding.set(MemoryPart::Connection, 0);
        client.holding.set(MemoryPart::Requests, bytes);
        registry.budget().settle(client);
    }

    fn condemned(clients: &[Arc<Client>]) -> Vec<bool> {
        clients.iter().map(|client| client.holding.is_condemned()).collect()
    }

    #[test]
    fn the_greediest_go_first_and_only_as_many_as_must() {
        let registry = Registry::default();
        registry.budget().set_limit(10 * MB);
        let all = clients(&registry, &[MB, 4 * MB, 2 * MB, 3 * MB]);
        assert_eq!(condemned(&all), [false; 4], "10 MB are within the limit");
        take(&registry, &all[0], MB + STEP);
        assert_eq!(condemned(&all), [false, true, false, false]);
        take(&registry, &all[0], 5 * MB + STEP);
        assert_eq!(condemned(&all), [true, true, false, false], "its share counts no more");
        assert_eq!(registry.budget().evicted(), 2);
    }

    #[test]
    fn who_has_gone_leaves_nothing_behind() {
        let registry = Registry::default();
        registry.budget().set_limit(MB);
        let all = clients(&registry, &[MB / 2, 3 * MB]);
        assert_eq!(condemned(&all), [false, true]);
        all.iter().for_each(|client| registry.leave(client.id));
        let budget = registry.budget();
        assert_eq!((budget.held(), budget.condemned.load(Ordering::Relaxed)), (0, 0));
        assert!(budget.ranking().buckets.iter().all(BTreeMap::is_empty));
    }

    #[test]
    fn who_is_spared_counts_but_stays() {
        let registry = Registry::default();
        let all = clients(&registry, &[3 * MB, MB]);
        registry.budget().spare(&all[0], true);
        registry.budget().set_limit(2 * MB);
        assert_eq!(condemned(&all), [false, true]);
        registry.budget().spare(&all[0], false);
        registry.budget().set_limit(2 * MB);
        assert_eq!(condemned(&all), [true, true]);
    }

    #[test]
    fn without_a_limit_everybody_stays() {
        let registry = Registry::default();
        let all = clients(&registry, &[1 << 40, 1 << 50]);
        assert_eq!(condemned(&all), [false, false]);
    }

    #[test]
    fn buckets_are_powers_of_two() {
        assert_eq!((bucket_of(0), bucket_of((32 << 10) - 1)), (0, 0));
        assert_eq!((bucket_of(32 << 10), bucket_of((64 << 10) - 1)), (1, 1));
        assert_eq!(usize::from(bucket_of(u64::MAX)), BUCKETS - 1);
    }
}
