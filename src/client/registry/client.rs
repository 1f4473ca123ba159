//! One connected client, as `CLIENT LIST` shows it.

use std::fmt::{self, Write as _};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lock;
use crate::acl::{DEFAULT_USER, catalogue};
use crate::catalogue::table::Spec;
use crate::client::invalidation::Invalidation;
use crate::client::memory::{CONNECTION, Holding, MemoryPart};
use crate::client::subscriber_counts::SubscriptionCounts;
use crate::metrics::histogram::micros;
use crate::resp::requests::Args;
use crate::time::clock::{self, Instant};

/// One client's entry.
#[derive(Debug)]
pub struct Client {
    /// The client's number, never reused.
    pub id: u64,
    /// The client's address.
    pub address: Peer,
    /// The proxy's address.
    pub local_address: Peer,
    pub(super) since: Instant,
    /// Milliseconds after `since`.
    seen_ms: AtomicU64,
    killed: AtomicBool,
    /// Whether the client has been silent for longer than allowed.
    pub(super) overdue: AtomicBool,
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
    /// `CLIENT TRACKING`
    tracking: Mutex<Option<TrackingFlags>>,
    /// Invalidations of other clients that are redirected to this one.
    mail: Mutex<Vec<Invalidation>>,
    has_mail: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// `CLIENT TRACKING`, as far as `CLIENT LIST` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackingFlags {
    /// The client that is told instead; 0 for none.
    pub redirect: u64,
    /// Whether that client has gone.
    pub is_broken: bool,
    /// `BCAST`
    pub is_broadcast: bool,
}

/// Maximum invalidations that wait for a client's session. Beyond it, the client is told to drop everything.
const MOST_MAIL: usize = 1024;

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

impl Client {
    pub(super) fn new(id: u64, address: Peer, local_address: Peer) -> Self {
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
            tracking: Mutex::default(),
            mail: Mutex::default(),
            has_mail: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    pub(super) fn known(known: Known) -> Self {
        let now = clock::now();
        let since = now.checked_sub(Duration::from_millis(known.age_ms)).unwrap_or(now);
        let place = catalogue::find(known.command.as_bytes()).map_or(0, |place| place + 1);
        let client = Self::new(known.id, known.address, known.local_address);
        client.describe(|words| *words = known.words);
        Self {
            since,
            seen_ms: AtomicU64::new(known.age_ms.saturating_sub(known.idle_ms)),
            command: AtomicU16::new(place as u16),
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

    /// Sets what `CLIENT LIST` shows of `CLIENT TRACKING`.
    pub fn set_tracking(&self, tracking: Option<TrackingFlags>) {
        *lock(&self.tracking) = tracking;
    }

    /// Returns whether the client is told of changes, and how.
    pub fn tracking(&self) -> Option<TrackingFlags> {
        *lock(&self.tracking)
    }

    /// Tells the client what another one must drop from its cache.
    pub fn post(&self, invalidation: Invalidation) {
        let mut mail = lock(&self.mail);
        let is_full = mail.len() >= MOST_MAIL;
        if is_full {
            mail.clear();
        }
        mail.push(if is_full { Invalidation::Everything } else { invalidation });
        self.has_mail.store(true, Ordering::Release);
        drop(mail);
        self.wake();
    }

    /// Whether another client has redirected invalidations here.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Takes the redirected invalidations.
    pub fn take_mail(&self) -> Vec<Invalidation> {
        let mut mail = lock(&self.mail);
        self.has_mail.store(false, Ordering::Release);
        std::mem::take(&mut *mail)
    }

    /// Returns the letters of `flags` in `CLIENT LIST`.
    fn flags(&self, subscriptions: SubscriptionCounts) -> String {
        let tracking = self.tracking();
        let is_tracking = |is: fn(&TrackingFlags) -> bool| tracking.as_ref().is_some_and(is);
        let flags = [
            (self.is_monitor(), 'O'),
            (subscriptions.any(), 'P'),
            (tracking.is_some(), 't'),
            (is_tracking(|tracking| tracking.is_broken), 'R'),
            (is_tracking(|tracking| tracking.is_broadcast), 'B'),
        ];
        let set: String =
            flags.iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
        if set.is_empty() { "N".to_owned() } else { set }
    }

    /// Whether [`Registry::end_silent`](super::Registry::end_silent) has marked the client.
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

    /// Notes the client's last command, with its subcommand if it has one.
    pub fn did(&self, command: &Spec, args: Args<'_>) {
        let place = match command.is_container {
            true => catalogue::named(command, args).0 as u16,
            false => command.place,
        };
        self.command.store(place + 1, Ordering::Relaxed);
    }

    fn last_command(&self) -> &'static str {
        let place = usize::from(self.command.load(Ordering::Relaxed)).checked_sub(1);
        place.and_then(|place| catalogue::all().get(place)).map_or("NULL", |entry| entry.name)
    }

    /// Notes how many received bytes await processing, and how many bytes of replies the client has yet to read.
    pub fn holds(&self, pending: usize, unread: usize) {
        self.pending.store(pending as u64, Ordering::Relaxed);
        self.unread.store(unread as u64, Ordering::Relaxed);
    }

    /// Sets the waker for [`Client::kill`] and [`Registry::wake_all`](super::Registry::wake_all).
    pub fn wake_by(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }

    /// Wakes the session to check its state.
    pub(in crate::client) fn wake(&self) {
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
             omem={unread} tot-mem={} events=r cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
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
            self.tracking().map_or(-1, |tracking| tracking.redirect as i64),
            words.resp,
            words.lib_name,
            words.lib_ver,
        );
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::table::{self, SUBCOMMANDS};

    fn last_command_after(command: &str) -> String {
        let of_nobody = || Peer::Unix(Path::new("").into());
        let known = Client::new(1, of_nobody(), of_nobody()).to_known();
        Client::known(Known { command: command.to_owned(), ..known }).to_known().command
    }

    #[test]
    fn every_command_and_subcommand_is_found_by_its_place() {
        let commands = table::all().iter().map(|spec| spec.name);
        for name in commands.chain(SUBCOMMANDS.iter().map(|subcommand| subcommand.name)) {
            assert_eq!(last_command_after(name), name);
        }
        assert_eq!(last_command_after("client|nothing"), "NULL");
    }
}
