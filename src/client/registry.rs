//! The connected clients: shown by `CLIENT LIST` and ended by `CLIENT KILL`.
//!
//! One registry serves all workers. A session touches only its own entry; the lock around the list is taken when a
//! client connects, disconnects or asks for the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failed_logins::Guesses;
use super::handshakes::Handshakes;
use super::login::UserSeats;
use super::memory::{CONNECTION, Holding, MemoryLedger, MemoryPart};
use super::monitor::Monitors;
use super::subscriber_counts::{Audience, SubscriptionCounts};
use crate::acl::DEFAULT_USER;
use crate::catalogue::table::{self, Spec};
use crate::metrics::histogram::micros;
use crate::time::clock::{self, Instant};

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
    monitors: Arc<Monitors>,
    seats: Arc<UserSeats>,
    handshakes: Arc<Handshakes>,
    guesses: Guesses,
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

/// One client's entry.
#[derive(Debug)]
pub struct Client {
    /// The client's number, never reused.
    pub id: u64,
    /// The client's address.
    pub address: Peer,
    /// The proxy's address.
    pub local_address: Peer,
    since: Instant,
    /// Milliseconds after `since`.
    seen_ms: AtomicU64,
    killed: AtomicBool,
    /// Whether the client has been silent for longer than allowed.
    overdue: AtomicBool,
    monitor: AtomicBool,
    subscriber: AtomicBool,
    /// Bytes received that are not a complete request yet, or must wait.
    pending: AtomicU64,
    /// Bytes of replies that the client has not read yet.
    unread: AtomicU64,
    /// The memory that the client takes.
    pub holding: Holding,
    /// The last command: its place in the table plus one, or 0 for none.
    command: AtomicU16,
    words: Mutex<ClientWords>,
    waker: Mutex<Option<Waker>>,
}

/// One end of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// `host:port`
    Tcp(SocketAddr),
    /// The path of the socket.
    Unix(Arc<Path>),
}

/// The format of `CLIENT LIST` in Redis.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}

/// The client's description of itself, and its connection state.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientWords {
    /// `CLIENT SETNAME`
    pub name: String,
    /// `CLIENT SETINFO LIB-NAME`
    pub lib_name: String,
    /// `CLIENT SETINFO LIB-VER`
    pub lib_ver: String,
    /// `SELECT`
    pub db: u32,
    /// `HELLO`
    pub resp: u8,
    /// `AUTH`
    pub user: Arc<str>,
    /// `SUBSCRIBE`
    #[serde(skip)]
    pub subscriptions: SubscriptionCounts,
}

impl ClientWords {
    fn held(&self) -> u64 {
        [&self.name, &self.lib_name, &self.lib_ver].map(|word| word.capacity() as u64).iter().sum()
    }
}

/// An entry of the registry in transit to another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "as in `Client`, and the times in milliseconds")]
pub struct Known {
    pub id: u64,
    pub address: Peer,
    pub local_address: Peer,
    pub age_ms: u64,
    pub idle_ms: u64,
    /// The name of the last command.
    pub command: String,
    pub words: ClientWords,
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

    /// Returns the clients in `MONITOR`.
    pub fn monitors(&self) -> &Arc<Monitors> {
        &self.monitors
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

impl Client {
    fn new(id: u64, address: Peer, local_address: Peer) -> Self {
        let holding = Holding::default();
        holding.set(MemoryPart::Connection, CONNECTION);
        Self {
            id,
            address,
            local_address,
            since: clock::now(),
            seen_ms: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            monitor: AtomicBool::new(false),
            subscriber: AtomicBool::new(false),
            holding,
            pending: AtomicU64::new(0),
            unread: AtomicU64::new(0),
            command: AtomicU16::new(0),
            words: Mutex::new(ClientWords {
                resp: 2,
                user: DEFAULT_USER.into(),
                ..ClientWords::default()
            }),
            waker: Mutex::new(None),
        }
    }

    fn known(known: Known) -> Self {
        let now = clock::now();
        let since = now.checked_sub(Duration::from_millis(known.age_ms)).unwrap_or(now);
        let place = table::lookup(known.command.as_bytes()).map_or(0, |spec| spec.place + 1);
        let client = Self::new(known.id, known.address, known.local_address);
        client.describe(|words| *words = known.words);
        Self {
            since,
            seen_ms: AtomicU64::new(known.age_ms.saturating_sub(known.idle_ms)),
            command: AtomicU16::new(place),
            ..client
        }
    }

    /// Returns the state that another process needs to take the client over.
    pub fn to_known(&self) -> Known {
        Known {
            id: self.id,
            address: self.address.clone(),
            local_address: self.local_address.clone(),
            age_ms: self.age_ms(),
            idle_ms: self.idle().as_millis() as u64,
            command: self.last_command().to_owned(),
            words: self.words().clone(),
        }
    }

    /// Ends the connection.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Whether [`Client::kill`] was called.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Waits until the connection is to end, for a client that has no session yet.
    pub async fn ended(&self) {
        poll_fn(|cx| {
            self.wake_by(cx.waker());
            let is_ended = self.is_killed() || self.holding.is_condemned();
            if is_ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns the client's description of itself.
    pub fn words(&self) -> MutexGuard<'_, ClientWords> {
        lock(&self.words)
    }

    /// Changes the client's description of itself.
    pub fn describe(&self, change: impl FnOnce(&mut ClientWords)) {
        let mut words = self.words();
        change(&mut words);
        self.holding.set(MemoryPart::Words, words.held());
    }

    /// Whether the client has any subscription, which makes it `TYPE pubsub`.
    pub fn is_subscriber(&self) -> bool {
        self.subscriber.load(Ordering::Relaxed)
    }

    /// Changes the client's subscription counts.
    pub fn subscriptions(&self, change: impl FnOnce(&mut SubscriptionCounts)) {
        let mut words = self.words();
        change(&mut words.subscriptions);
        self.subscriber.store(words.subscriptions.any(), Ordering::Relaxed);
    }

    /// Whether the client is in `MONITOR`.
    pub fn is_monitor(&self) -> bool {
        self.monitor.load(Ordering::Relaxed)
    }

    /// Sets whether the client is in `MONITOR`.
    pub fn set_monitor(&self, is_monitor: bool) {
        self.monitor.store(is_monitor, Ordering::Relaxed);
    }

    /// Returns the letters of `flags` in `CLIENT LIST`.
    fn flags(&self, subscriptions: SubscriptionCounts) -> &'static str {
        match (self.is_monitor(), subscriptions.any()) {
            (true, true) => "OP",
            (true, false) => "O",
            (false, true) => "P",
            (false, false) => "N",
        }
    }

    /// Whether [`Registry::end_silent`] has marked the client.
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }

    /// Notes that the client has sent or was sent something.
    pub fn seen(&self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        self.seen_ms.store(micros(age) / 1000, Ordering::Relaxed);
        self.overdue.store(false, Ordering::Relaxed);
    }

    /// Returns how long the client has been silent.
    pub fn idle(&self) -> Duration {
        let idle_ms = self.age_ms().saturating_sub(self.seen_ms.load(Ordering::Relaxed));
        Duration::from_millis(idle_ms)
    }

    fn age_ms(&self) -> u64 {
        micros(self.since.elapsed()) / 1000
    }

    /// Notes the client's last command.
    pub fn did(&self, command: &Spec) {
        self.command.store(command.place + 1, Ordering::Relaxed);
    }

    fn last_command(&self) -> &'static str {
        let place = usize::from(self.command.load(Ordering::Relaxed)).checked_sub(1);
        place.and_then(|place| table::all().get(place)).map_or("NULL", |spec| spec.name)
    }

    /// Notes how many received bytes await processing, and how many bytes of replies the client has yet to read.
    pub fn holds(&self, pending: usize, unread: usize) {
        self.pending.store(pending as u64, Ordering::Relaxed);
        self.unread.store(unread as u64, Ordering::Relaxed);
    }

    /// Sets the waker for [`Client::kill`] and [`Registry::wake_all`].
    pub fn wake_by(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }

    /// Wakes the session to check its state.
    pub(super) fn wake(&self) {
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }

    /// Returns the line of `CLIENT LIST` and `CLIENT INFO`, with those fields of Redis that make sense here.
    pub fn line(&self) -> String {
        let words = self.words().clone();
        let subscriptions = words.subscriptions;
        let age_ms = self.age_ms();
        let (pending, unread) =
            (self.pending.load(Ordering::Relaxed), self.unread.load(Ordering::Relaxed));
        let (age, idle) = (age_ms / 1000, self.idle().as_secs());
        let mut line = String::new();
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={} psub={} \
             ssub={} multi=-1 qbuf={pending} qbuf-free=0 argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 \
             omem={unread} tot-mem={} events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            words.name,
            age,
            idle,
            self.flags(subscriptions),
            words.db,
            subscriptions.channels,
            subscriptions.patterns,
            subscriptions.shards,
            self.holding.of(MemoryPart::Transaction),
            self.holding.total(),
            self.last_command(),
            words.user,
            words.resp,
            words.lib_name,
            words.lib_ver,
        );
        line
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
