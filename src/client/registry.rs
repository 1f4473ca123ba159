//! The connected clients: shown by `CLIENT LIST` and ended by `CLIENT KILL`.
//!
//! One registry serves all workers. A session touches only its own entry; the lock around the list is taken when a
//! client connects, disconnects or asks for the list.

mod client;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::failed_logins::Guesses;
use super::handshakes::Handshakes;
use super::login::UserSeats;
use super::memory::MemoryLedger;
use super::monitor::Monitors;
use super::onlookers::Onlookers;
use super::refusals::Refusals;
use super::subscriber_counts::Audience;
use super::unconfirmed::Unconfirmed;
pub use client::{Client, ClientWords, Known, Peer, TrackingFlags};

/// All clients of the process.
#[derive(Debug, Default)]
pub struct Registry {
    clients: Mutex<Clients>,
    budget: MemoryLedger,
    last_id: AtomicU64,
    accepted: AtomicU64,
    rejected: AtomicU64,
    not_accepted: AtomicU64,
    disconnected: [AtomicU64; Disconnected::ALL.len()],
    requests: AtomicU64,
    requests_per_second: AtomicU64,
    blocked: AtomicUsize,
    audience: Audience,
    unconfirmed: Arc<Unconfirmed>,
    onlookers: Arc<Onlookers>,
    seats: Arc<UserSeats>,
    handshakes: Arc<Handshakes>,
    guesses: Guesses,
    refusals: Refusals,
}

/// The connected clients.
#[derive(Debug, Default)]
struct Clients {
    by_id: BTreeMap<u64, Arc<Client>>,
    /// One address may connect to several of the proxy's listeners.
    by_address: BTreeSet<(SocketAddr, u64)>,
}

impl Clients {
    fn insert(&mut self, client: Arc<Client>) {
        if let Peer::Tcp(address) = client.address {
            self.by_address.insert((address, client.id));
        }
        self.by_id.insert(client.id, client);
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Client>> {
        let client = self.by_id.remove(&id)?;
        if let Peer::Tcp(address) = client.address {
            self.by_address.remove(&(address, id));
        }
        Some(client)
    }
}

/// Reasons for which the proxy ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnected {
    /// `CLIENT KILL`, or a monitor that was too slow.
    Killed,
    /// The client was silent for `timeout`.
    Timeout,
    /// The client did not read its replies: `max-output-bytes`.
    Output,
    /// The TLS handshake failed.
    Handshake,
    /// The client's user was removed, or may no longer access a topic that the client has subscribed to.
    User,
    /// The client held the most memory when all together exceeded `max-memory-clients`.
    Memory,
}

impl Disconnected {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Killed, Self::Timeout, Self::Output, Self::Handshake, Self::User, Self::Memory];

    /// Returns the reason's name as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Timeout => "timeout",
            Self::Output => "output",
            Self::Handshake => "handshake",
            Self::User => "user",
            Self::Memory => "memory",
        }
    }
}

/// Counts a client as blocked until it is dropped.
#[derive(Debug)]
pub struct Blocked(Arc<Registry>);

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.blocked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registry {
    /// Registers a client, unless `max` clients are connected already.
    pub fn enter(&self, address: Peer, local_address: Peer, max: usize) -> Option<Arc<Client>> {
        let mut clients = lock(&self.clients);
        if clients.by_id.len() >= max {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(id, address, local_address));
        clients.insert(Arc::clone(&client));
        drop(clients);
        self.budget.settle(&client);
        Some(client)
    }

    /// Registers a client that another process has accepted.
    pub fn readmit(&self, known: Known) -> Arc<Client> {
        let client = Arc::new(Client::known(known));
        lock(&self.clients).insert(Arc::clone(&client));
        self.budget.settle(&client);
        client
    }

    /// Returns the number of the most recently accepted client.
    pub fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// Skips the numbers up to `last_id`, which another process has used.
    pub fn number_from(&self, last_id: u64) {
        self.last_id.fetch_max(last_id, Ordering::Relaxed);
    }

    /// Removes a client that has disconnected.
    pub fn leave(&self, id: u64) {
        let left = lock(&self.clients).remove(id);
        if let Some(client) = left {
            self.budget.leave(&client);
        }
    }

    /// Returns all clients, by id.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.clients).by_id.values().cloned().collect()
    }

    /// Returns up to `most` clients with an id above `id`, by id.
    pub fn after(&self, id: u64, most: usize) -> Vec<Arc<Client>> {
        let next = (Bound::Excluded(id), Bound::Unbounded);
        lock(&self.clients)
            .by_id
            .range(next)
            .take(most)
            .map(|(_, client)| Arc::clone(client))
            .collect()
    }

    /// Returns the client with this id.
    pub fn client(&self, id: u64) -> Option<Arc<Client>> {
        lock(&self.clients).by_id.get(&id).cloned()
    }

    /// Returns the clients connected from this address.
    pub fn at(&self, address: SocketAddr) -> Vec<Arc<Client>> {
        let clients = lock(&self.clients);
        let ids = clients.by_address.range((address, 0)..=(address, u64::MAX));
        ids.filter_map(|(_, id)| clients.by_id.get(id).cloned()).collect()
    }

    /// Returns the number of connected clients.
    pub fn connected(&self) -> usize {
        lock(&self.clients).by_id.len()
    }

    /// Returns the log of protocol errors.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the memory budget of all clients.
    pub fn budget(&self) -> &MemoryLedger {
        &self.budget
    }

    /// Returns the number of clients ever accepted, and the number rejected.
    pub fn accepted_and_rejected(&self) -> (u64, u64) {
        (self.accepted.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }

    /// Counts a connection that the system failed to accept, e.g. because of a lack of file descriptors.
    pub fn could_not_accept(&self) {
        self.not_accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of connections that the system failed to accept.
    pub fn not_accepted(&self) -> u64 {
        self.not_accepted.load(Ordering::Relaxed)
    }

    /// Counts a connection that the proxy has ended.
    pub fn disconnected(&self, why: Disconnected) {
        self.disconnected[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of connections ended for this reason.
    pub fn disconnections(&self, why: Disconnected) -> u64 {
        self.disconnected[why as usize].load(Ordering::Relaxed)
    }

    /// Counts requests that were read together.
    pub fn count_requests(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// Returns the number of requests read.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the requests read per second, over the last second or two.
    pub fn requests_per_second(&self) -> u64 {
        self.requests_per_second.load(Ordering::Relaxed)
    }

    /// Stores the rate that [`Registry::requests_per_second`] returns.
    pub fn set_requests_per_second(&self, rate: u64) {
        self.requests_per_second.store(rate, Ordering::Relaxed);
    }

    /// Returns the number of clients blocked in a `BLPOP` or similar command.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Counts a client as blocked until the returned value is dropped.
    pub fn block(self: &Arc<Self>) -> Blocked {
        self.blocked.fetch_add(1, Ordering::Relaxed);
        Blocked(Arc::clone(self))
    }

    /// Returns the topics that the clients have subscribed to.
    pub fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Returns the topics that clients have asked for and that are not confirmed yet.
    pub fn unconfirmed(&self) -> &Arc<Unconfirmed> {
        &self.unconfirmed
    }

    /// Returns the clients in `MONITOR`.
    pub fn monitors(&self) -> &Arc<Monitors> {
        self.onlookers.monitors()
    }

    /// Returns who wants to know what commands do.
    pub fn onlookers(&self) -> &Arc<Onlookers> {
        &self.onlookers
    }

    /// Returns the number of logged-in connections of each user.
    pub fn seats(&self) -> &Arc<UserSeats> {
        &self.seats
    }

    /// Returns the unfinished TLS handshakes.
    pub fn handshakes(&self) -> &Arc<Handshakes> {
        &self.handshakes
    }

    /// Returns the wrong passwords that clients have sent.
    pub fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// Marks clients that have been silent for `timeout`. Their sessions end, unless they wait for something.
    pub fn end_silent(&self, timeout: Duration) {
        let is_silent = |client: &&Arc<Client>| client.idle() >= timeout;
        for client in self.clients().iter().filter(is_silent) {
            client.overdue.store(true, Ordering::Relaxed);
            client.wake();
        }
    }

    /// Wakes every session to check its state, e.g. because the proxy is about to stop.
    pub fn wake_all(&self) {
        self.clients().iter().for_each(|client| client.wake());
    }
}

/// No code under these locks can panic; even if it did, the data would still be valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_an_address_lead_to_their_clients_as_long_as_they_are_there() {
        let registry = Registry::default();
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let enter = |from, to| {
            let ends = (Peer::Tcp(address(from)), Peer::Tcp(address(to)));
            registry.enter(ends.0, ends.1, usize::MAX).expect("there is room").id
        };
        // One client address connected to two of the proxy's addresses, and others.
        let ids = [enter(5, 1), enter(7, 1), enter(5, 2), enter(6, 1)];
        let ids_of = |clients: Vec<Arc<Client>>| -> Vec<u64> {
            clients.iter().map(|client| client.id).collect()
        };
        assert_eq!(ids_of(registry.at(address(5))), [ids[0], ids[2]]);
        assert_eq!(ids_of(registry.after(0, 2)), ids[..2]);
        assert_eq!(ids_of(registry.after(ids[1], 9)), ids[2..]);
        registry.leave(ids[0]);
        assert_eq!(ids_of(registry.at(address(5))), [ids[2]]);
        assert!(registry.client(ids[0]).is_none() && registry.client(ids[2]).is_some());
        assert!(registry.at(address(9)).is_empty());
    }
}
