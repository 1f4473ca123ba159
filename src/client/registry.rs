//! Who is connected: what `CLIENT LIST` shows and `CLIENT KILL` ends.
//!
//! One registry serves all workers. Sessions touch their own entry only; the lock around the list
//! is taken when a client comes, goes, or asks.

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
use super::login::Seats;
use super::memory::{CONNECTION, Holding, Ledger, Part};
use super::monitor::Monitors;
use super::subscriber_counts::{Audience, Counts};
use crate::acl::DEFAULT_USER;
use crate::catalogue::table::{self, Spec};
use crate::metrics::histogram::micros;
use crate::time::clock::{self, Instant};

/// All clients of the process.
#[derive(Debug, Default)]
pub struct Registry {
    clients: Mutex<Clients>,
    budget: Ledger,
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
    seats: Arc<Seats>,
    handshakes: Arc<Handshakes>,
    guesses: Guesses,
}

/// Those who are connected.
#[derive(Debug, Default)]
struct Clients {
    by_id: BTreeMap<u64, Arc<Client>>,
    /// One address may come to several of our listeners.
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

/// Why the proxy has ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnected {
    /// `CLIENT KILL`, or a monitor that was too slow.
    Killed,
    /// It had been silent for `timeout`.
    Timeout,
    /// It did not read its replies: `max-output-bytes`.
    Output,
    /// It had no TLS to agree on.
    Handshake,
    /// Its user is there no more, or may not listen any more to what it has subscribed to.
    User,
    /// It took the most when all together took too much: `max-memory-clients`.
    Memory,
}

impl Disconnected {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Killed, Self::Timeout, Self::Output, Self::Handshake, Self::User, Self::Memory];

    /// Its name as a label.
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

/// A client that waits.
#[derive(Debug)]
pub struct Blocked(Arc<Registry>);

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.blocked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What is known about one client.
#[derive(Debug)]
pub struct Client {
    /// Its number, never used twice.
    pub id: u64,
    /// Its address.
    pub address: Peer,
    /// Ours.
    pub local_address: Peer,
    since: Instant,
    /// Milliseconds after `since`.
    seen_ms: AtomicU64,
    killed: AtomicBool,
    /// It has been silent for longer than clients may be.
    overdue: AtomicBool,
    monitor: AtomicBool,
    subscriber: AtomicBool,
    /// Bytes that it has sent and that are no whole request yet, or must wait.
    pending: AtomicU64,
    /// Bytes of replies that it has not read yet.
    unread: AtomicU64,
    /// What memory it takes.
    pub holding: Holding,
    /// The last command: its place in the table, and one more.
    command: AtomicU16,
    words: Mutex<Words>,
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

/// As in `CLIENT LIST` of Redis.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}

/// What a client says about itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Words {
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
    pub subscriptions: Counts,
}

impl Words {
    fn held(&self) -> u64 {
        [&self.name, &self.lib_name, &self.lib_ver].map(|word| word.capacity() as u64).iter().sum()
    }
}

/// An entry of the registry on its way to another process.
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
    pub words: Words,
}

impl Registry {
    /// Lets a client in, unless there are `max` already.
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

    /// Lets a client go on that another process has let in.
    pub fn readmit(&self, known: Known) -> Arc<Client> {
        let client = Arc::new(Client::known(known));
        lock(&self.clients).insert(Arc::clone(&client));
        self.budget.settle(&client);
        client
    }

    /// The number of the last client that was let in.
    pub fn last_id(&self) -> u64 {
        self.last_id.load(Ordering::Relaxed)
    }

    /// Another process has used the numbers up to this.
    pub fn number_from(&self, last_id: u64) {
        self.last_id.fetch_max(last_id, Ordering::Relaxed);
    }

    /// The client has gone.
    pub fn leave(&self, id: u64) {
        let left = lock(&self.clients).remove(id);
        if let Some(client) = left {
            self.budget.leave(&client);
        }
    }

    /// Everybody, by id.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        lock(&self.clients).by_id.values().cloned().collect()
    }

    /// The next ones by id after `id`, `most` of them.
    pub fn after(&self, id: u64, most: usize) -> Vec<Arc<Client>> {
        let next = (Bound::Excluded(id), Bound::Unbounded);
        lock(&self.clients)
            .by_id
            .range(next)
            .take(most)
            .map(|(_, client)| Arc::clone(client))
            .collect()
    }

    /// The one with this number.
    pub fn client(&self, id: u64) -> Option<Arc<Client>> {
        lock(&self.clients).by_id.get(&id).cloned()
    }

    /// Those that come from this address.
    pub fn at(&self, address: SocketAddr) -> Vec<Arc<Client>> {
        let clients = lock(&self.clients);
        let ids = clients.by_address.range((address, 0)..=(address, u64::MAX));
        ids.filter_map(|(_, id)| clients.by_id.get(id).cloned()).collect()
    }

    /// How many there are.
    pub fn connected(&self) -> usize {
        lock(&self.clients).by_id.len()
    }

    /// The memory they take together.
    pub fn budget(&self) -> &Ledger {
        &self.budget
    }

    /// How many have ever been let in, and how many were turned away.
    pub fn accepted_and_rejected(&self) -> (u64, u64) {
        (self.accepted.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }

    /// The system did not give us a connection, e.g. for want of file descriptors.
    pub fn could_not_accept(&self) {
        self.not_accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// How often that was.
    pub fn not_accepted(&self) -> u64 {
        self.not_accepted.load(Ordering::Relaxed)
    }

    /// Counts a connection that the proxy has ended.
    pub fn disconnected(&self, why: Disconnected) {
        self.disconnected[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn disconnections(&self, why: Disconnected) -> u64 {
        self.disconnected[why as usize].load(Ordering::Relaxed)
    }

    /// Counts requests that were read together.
    pub fn count_requests(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    /// How many requests have been read.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How many were read in the last second or two, for each of its seconds.
    pub fn requests_per_second(&self) -> u64 {
        self.requests_per_second.load(Ordering::Relaxed)
    }

    /// Remembers it.
    pub fn set_requests_per_second(&self, rate: u64) {
        self.requests_per_second.store(rate, Ordering::Relaxed);
    }

    /// How many clients wait in a `BLPOP` or the like.
    pub fn blocked(&self) -> usize {
        self.blocked.load(Ordering::Relaxed)
    }

    /// One more does, until what is returned is dropped.
    pub fn block(self: &Arc<Self>) -> Blocked {
        self.blocked.fetch_add(1, Ordering::Relaxed);
        Blocked(Arc::clone(self))
    }

    /// What they have subscribed to.
    pub fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Who watches them all.
    pub fn monitors(&self) -> &Arc<Monitors> {
        &self.monitors
    }

    /// How many are logged in as whom.
    pub fn seats(&self) -> &Arc<Seats> {
        &self.seats
    }

    /// Who tries to agree on a cipher.
    pub fn handshakes(&self) -> &Arc<Handshakes> {
        &self.handshakes
    }

    /// The wrong passwords that they have given.
    pub fn guesses(&self) -> &Guesses {
        &self.guesses
    }

    /// Makes sessions end whose clients have been silent for `timeout`, if they wait for nothing.
    pub fn end_silent(&self, timeout: Duration) {
        let is_silent = |client: &&Arc<Client>| client.idle() >= timeout;
        for client in self.clients().iter().filter(is_silent) {
            client.overdue.store(true, Ordering::Relaxed);
            client.wake();
        }
    }

    /// Makes every session look around, e.g. because the proxy is about to stop.
    pub fn wake_all(&self) {
        self.clients().iter().for_each(|client| client.wake());
    }
}

impl Client {
    fn new(id: u64, address: Peer, local_address: Peer) -> Self {
        let holding = Holding::default();
        holding.set(Part::Connection, CONNECTION);
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
            words: Mutex::new(Words { resp: 2, user: DEFAULT_USER.into(), ..Words::default() }),
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

    /// All that another process has to know to go on with it.
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

    /// Resolves when the connection is to end, for who is no session yet.
    pub async fn ended(&self) {
        poll_fn(|cx| {
            self.wake_by(cx.waker());
            let is_ended = self.is_killed() || self.holding.is_condemned();
            if is_ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// What the client says about itself.
    pub fn words(&self) -> MutexGuard<'_, Words> {
        lock(&self.words)
    }

    /// Changes what it says about itself.
    pub fn describe(&self, change: impl FnOnce(&mut Words)) {
        let mut words = self.words();
        change(&mut words);
        self.holding.set(Part::Words, words.held());
    }

    /// Whether it has subscribed to anything, which makes it `TYPE pubsub`.
    pub fn is_subscriber(&self) -> bool {
        self.subscriber.load(Ordering::Relaxed)
    }

    /// Changes what it has subscribed to.
    pub fn subscriptions(&self, change: impl FnOnce(&mut Counts)) {
        let mut words = self.words();
        change(&mut words.subscriptions);
        self.subscriber.store(words.subscriptions.any(), Ordering::Relaxed);
    }

    /// Whether it watches all requests.
    pub fn is_monitor(&self) -> bool {
        self.monitor.load(Ordering::Relaxed)
    }

    /// `MONITOR`, or no more.
    pub fn set_monitor(&self, is_monitor: bool) {
        self.monitor.store(is_monitor, Ordering::Relaxed);
    }

    /// The letters of `flags` in `CLIENT LIST`.
    fn flags(&self, subscriptions: Counts) -> &'static str {
        match (self.is_monitor(), subscriptions.any()) {
            (true, true) => "OP",
            (true, false) => "O",
            (false, true) => "P",
            (false, false) => "N",
        }
    }

    /// Whether [`Registry::end_silent`] found it so.
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::Relaxed)
    }

    /// The client has sent something, or was sent something.
    pub fn seen(&self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        self.seen_ms.store(micros(age) / 1000, Ordering::Relaxed);
        self.overdue.store(false, Ordering::Relaxed);
    }

    /// How long it has been silent.
    pub fn idle(&self) -> Duration {
        let idle_ms = self.age_ms().saturating_sub(self.seen_ms.load(Ordering::Relaxed));
        Duration::from_millis(idle_ms)
    }

    fn age_ms(&self) -> u64 {
        micros(self.since.elapsed()) / 1000
    }

    /// The client has sent this command.
    pub fn did(&self, command: &Spec) {
        self.command.store(command.place + 1, Ordering::Relaxed);
    }

    fn last_command(&self) -> &'static str {
        let place = usize::from(self.command.load(Ordering::Relaxed)).checked_sub(1);
        place.and_then(|place| table::all().get(place)).map_or("NULL", |spec| spec.name)
    }

    /// So many bytes of it wait to be worked on, and so many to be read by it.
    pub fn holds(&self, pending: usize, unread: usize) {
        self.pending.store(pending as u64, Ordering::Relaxed);
        self.unread.store(unread as u64, Ordering::Relaxed);
    }

    /// Who is woken by [`Client::kill`] and [`Registry::wake_all`].
    pub fn wake_by(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }

    /// Has its session look around.
    pub(super) fn wake(&self) {
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }

    /// The line of `CLIENT LIST` and `CLIENT INFO`, with the fields of Redis that make sense here.
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
            self.holding.of(Part::Transaction),
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

/// Nothing that panics is done under these locks; should it happen, the data is still good.
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
        // The same client at two of our addresses, and others.
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
