//! One thread with one event loop that owns its listener, sessions and links. Nothing is shared
//! between workers on the hot path.

mod orders;

use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

use crate::client::listener::Listeners;
use crate::client::registry::Registry;
use crate::client::session::READ_BUFFER;
use crate::clock::{self, Instant};
use crate::config::{Live, Settings};
use crate::handover::Handover;
use crate::handover::helm::{Departure, Orders};
use crate::lua::ScriptCache;
use crate::lua::program::Ttls;
use crate::lua::transactions::Transactions;
use crate::master::dial::{Dial, Network};
use crate::master::electorate::Electorate;
use crate::master::errand::Errands;
use crate::master::link::Link;
use crate::master::orphans::Sweeper;
use crate::master::probe::DEFAULT_DATABASES;
use crate::master::rejoin::Rejoin;
use crate::master::watch::Watch;
use crate::metrics::Metrics;
use crate::metrics::histogram::micros;
use crate::metrics::slowlog::Slowlog;
use crate::metrics::statistics::Statistics;
use crate::operation::Rules;
use crate::operation::engine::Engine;
use crate::pubsub::hub::Hub;
use crate::quorum::validity::Pad;
use crate::quorum::{MasterId, Quorum};
use crate::socket_file::SocketFile;
use crate::tls::Unusable;
use crate::tls::server::Server;

/// How long the first clients are kept waiting for the masters that can be reached.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// How often it is looked whether the last client has gone while draining.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// The version that clients are told before any master has been reached: the oldest that is served.
const UNKNOWN_VERSION: &str = "7.0.0";

/// How often a worker looks at itself.
const LOOK: Duration = Duration::from_millis(100);

/// Beyond the two rounds of a claim without TTL: room for a busy machine.
const PROVISIONAL_RESERVE_MS: i64 = 500;

/// All certificates that the settings name, read.
#[derive(Clone, Default)]
pub struct Certificates {
    /// For clients, if they may use TLS.
    pub server: Option<Arc<Server>>,
    /// For masters.
    pub network: Network,
}

impl Certificates {
    /// Reads them.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn read(settings: &Settings) -> Result<Self, Unusable> {
        let server = settings.tls.as_ref().map(|tls| Server::read(&tls.files)).transpose()?;
        let network = Network::of(&settings.masters, &settings.master_tls)?;
        Ok(Self { server: server.map(Arc::new), network })
    }

    /// Reads them again; those that cannot be used stay as they were.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn read_again(&self) -> Result<(), Unusable> {
        let network = self.network.read_again();
        self.server.as_ref().map_or(Ok(()), |server| server.read_again()).and(network)
    }
}

/// What all workers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// What was configured; of what can change, how it was at the start.
    pub settings: Arc<Settings>,
    /// What can change, as it is now.
    live: Arc<watch::Sender<Arc<Live>>>,
    /// How often it has changed.
    changes: Arc<AtomicU64>,
    /// How masters are reached.
    pub network: Network,
    /// Who is connected.
    pub registry: Arc<Registry>,
    /// The scripts that clients have sent.
    pub scripts: Arc<Mutex<ScriptCache>>,
    /// Who may vote.
    pub electorate: Arc<Electorate>,
    /// What each worker counts.
    pub metrics: Arc<[Arc<Metrics>]>,
    /// The requests that were slow.
    pub slowlog: Arc<Slowlog>,
    /// What had been counted by the last `CONFIG RESETSTAT`.
    counted: Arc<Mutex<Statistics>>,
}

impl Shared {
    /// For the workers that `settings` ask for.
    pub fn new(settings: Settings, network: Network) -> Self {
        let metrics = (0..settings.workers).map(|_| Arc::new(Metrics::new(settings.masters.len())));
        let slowlog = Slowlog::default();
        slowlog.configure(&settings.live);
        Self {
            network,
            registry: Arc::default(),
            scripts: Arc::new(Mutex::new(ScriptCache::new())),
            electorate: Arc::new(Electorate::of(&settings)),
            metrics: metrics.collect(),
            slowlog: Arc::new(slowlog),
            counted: Arc::default(),
            live: Arc::new(watch::Sender::new(Arc::new(settings.live.clone()))),
            changes: Arc::default(),
            settings: Arc::new(settings),
        }
    }

    /// What can change, as it is now.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.borrow())
    }

    /// Changes it for all workers, before this returns.
    pub fn change(&self, live: Live) {
        self.slowlog.configure(&live);
        self.live.send_modify(|now| {
            *now = Arc::new(live);
            // Whoever sees the new count waits for the lock under which this is done.
            self.changes.fetch_add(1, Ordering::Release);
        });
    }

    /// What was counted since the start, or the last [`Shared::reset_statistics`].
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self).since(&self.counted())
    }

    /// Counts from nothing again.
    pub fn reset_statistics(&self) {
        *self.counted() = Statistics::of(self);
    }

    /// Nothing that panics is done under this lock.
    fn counted(&self) -> MutexGuard<'_, Statistics> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the sessions of one worker share.
pub struct Worker {
    index: usize,
    shared: Shared,
    live: RefCell<Arc<Live>>,
    changes_seen: Cell<u64>,
    metrics: Arc<Metrics>,
    engine: Rc<Engine>,
    hub: Rc<Hub>,
    transactions: RefCell<Transactions>,
    read_buffer: RefCell<Box<[u8]>>,
    started: Instant,
    draining: Cell<bool>,
    departing: Cell<bool>,
    /// Where sessions go that a successor goes on with.
    departures: OnceCell<mpsc::Sender<Departure>>,
}

impl Worker {
    /// A worker whose links are down.
    pub fn new(index: usize, shared: Shared) -> Rc<Self> {
        let settings = &shared.settings;
        let pad = Pad::new(settings.vote_timeout, settings.drift);
        let electorate = Arc::clone(&shared.electorate);
        let unix_time = Arc::clone(electorate.unix_time());
        let rules = Rules {
            quorum: Quorum::of(settings.masters.len()),
            pad,
            vote_timeout: settings.vote_timeout,
            split_vote_retries: settings.split_vote_retries,
            unix_time,
        };
        let masters = (0..settings.masters.len()).map(MasterId::new);
        let links = masters.map(|master| Link::new(master, settings, pad)).collect();
        let metrics = Arc::clone(&shared.metrics[index]);
        let delay = settings.split_vote_delay;
        let slowlog = Arc::clone(&shared.slowlog);
        let engine = Engine::new(rules, delay, links, electorate, Arc::clone(&metrics), slowlog);
        let hub = Hub::new(&engine, Arc::clone(&shared.registry));
        Rc::new(Self {
            index,
            transactions: RefCell::new(Transactions::new(Ttls { pad, longest: settings.max_ttl })),
            changes_seen: Cell::new(shared.changes.load(Ordering::Acquire)),
            live: RefCell::new(shared.live()),
            metrics,
            engine,
            hub,
            read_buffer: RefCell::new(vec![0; READ_BUFFER].into()),
            started: clock::now(),
            draining: Cell::new(false),
            departing: Cell::new(false),
            departures: OnceCell::new(),
            shared,
        })
    }

    /// Its place among the workers of this process.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What was configured; of what can change, how it was at the start.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// What can change, as it is now.
    #[inline]
    pub fn live(&self) -> Ref<'_, Live> {
        if self.shared.changes.load(Ordering::Acquire) != self.changes_seen.get() {
            self.adopt();
        }
        Ref::map(self.live.borrow(), |live| &**live)
    }

    /// Changes it.
    pub fn change(&self, live: Live) {
        self.shared.change(live);
    }

    #[cold]
    fn adopt(&self) {
        // Who looks at it just now sees it as it was.
        if let Ok(mut live) = self.live.try_borrow_mut() {
            self.changes_seen.set(self.shared.changes.load(Ordering::Acquire));
            *live = self.shared.live();
        }
    }

    /// How masters are reached.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }

    /// Who is connected, to any worker.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.shared.registry
    }

    /// The requests that were slow, in all workers.
    pub fn slowlog(&self) -> &Slowlog {
        &self.shared.slowlog
    }

    /// What all workers have counted since the last reset.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Counts from nothing again.
    pub fn reset_statistics(&self) {
        self.shared.reset_statistics();
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The operations.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// The subscriptions.
    pub fn hub(&self) -> &Rc<Hub> {
        &self.hub
    }

    /// The scripts that clients have sent, to any worker: a client whose connections are served by
    /// different ones loads a script once.
    pub fn scripts(&self) -> MutexGuard<'_, ScriptCache> {
        self.shared.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What scripts may do with times to live.
    pub fn ttls(&self) -> Ttls {
        Ttls { pad: self.engine.rules().pad, longest: self.shared.settings.max_ttl }
    }

    /// The programs that run transactions.
    pub fn transactions(&self) -> RefMut<'_, Transactions> {
        self.transactions.borrow_mut()
    }

    /// The buffer all sessions read into, one at a time.
    pub fn read_buffer(&self) -> RefMut<'_, Box<[u8]>> {
        self.read_buffer.borrow_mut()
    }

    /// The version that clients are told: the configured one, or else the lowest among the masters,
    /// so that no client counts on what one of them lacks.
    pub fn redis_version(&self) -> String {
        let configured = self.live().redis_version.clone();
        configured.or_else(|| self.lowest_version()).unwrap_or_else(|| UNKNOWN_VERSION.to_owned())
    }

    fn lowest_version(&self) -> Option<String> {
        let facts = self.engine.links().iter().filter_map(|link| link.facts());
        let numbers = facts.filter_map(|facts| version_numbers(&facts.version));
        numbers.min().map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"))
    }

    /// How many databases there are: as many as the master with the fewest has.
    pub fn databases(&self) -> u32 {
        let facts = self.engine.links().iter().filter_map(|link| link.facts());
        facts.map(|facts| facts.databases).min().unwrap_or(DEFAULT_DATABASES)
    }

    /// The TTL under which a lock without TTL is claimed, before it is made persistent: time for
    /// both rounds, each with its own vote timeout, on a clock that may be fast.
    pub fn provisional_ttl_ms(&self) -> i64 {
        let two_rounds_ms = 2 * self.shared.settings.vote_timeout.as_millis() as i64;
        self.engine.rules().pad.pad(2 * two_rounds_ms + PROVISIONAL_RESERVE_MS)
    }

    /// How long this worker has been running.
    pub fn uptime(&self) -> Duration {
        clock::now() - self.started
    }

    /// Whether the proxy is about to stop: no new requests.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether another process takes over: no new requests from those that it can go on with.
    pub fn is_departing(&self) -> bool {
        self.departing.get()
    }

    /// Says how a session ends for the sake of that process.
    pub fn depart(&self, departure: Departure) {
        if let Some(departures) = self.departures.get() {
            // It is taken until the last client has gone.
            let _ = departures.send(departure);
        }
    }

    /// Connects to the masters, serves clients until `shutdown` or until a successor does, then lets them
    /// finish.
    async fn serve(
        self: Rc<Self>,
        listeners: Arc<Listeners>,
        orders: Orders,
        mut shutdown: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        self.start(self.shared.network.clone()).await;
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|stop| *stop) => {
                let drain_timeout = self.live().drain_timeout;
                self.drain(drain_timeout).await;
            },
            departed = self.follow(listeners, orders) => self.drain_after(departed?).await,
        }
        Ok(())
    }

    /// Connects to the masters. Clients may come once this returns: then those that can be reached are
    /// known.
    pub async fn start(self: &Rc<Self>, dial: impl Dial + Clone) {
        self.connect(dial);
        self.first_contact().await;
    }

    /// Starts what runs beside the sessions.
    fn connect(self: &Rc<Self>, dial: impl Dial + Clone) {
        for link in self.engine.links() {
            let link = Rc::clone(link);
            tokio::task::spawn_local(Rc::clone(&link).run(dial.clone(), Rc::clone(&self.engine)));
            tokio::task::spawn_local(heartbeats(link));
        }
        for feed in self.hub.feeds() {
            let hub = Rc::clone(&self.hub);
            tokio::task::spawn_local(Rc::clone(feed).run(dial.clone(), hub));
        }
        tokio::task::spawn_local(deadlines(Rc::clone(&self.engine)));
        let suspects = Rc::clone(self.engine.suspects());
        tokio::task::spawn_local(look_at_itself(Rc::clone(self)));
        tokio::task::spawn_local(Sweeper(self.errands(dial.clone())).run(suspects));
        if self.index == 0 {
            tokio::task::spawn_local(changes(Rc::clone(self)));
            tokio::task::spawn_local(timeouts(Rc::clone(self)));
            self.look_after_masters(dial);
        }
    }

    fn errands<D: Dial>(&self, dial: D) -> Errands<D> {
        Errands {
            dial,
            addresses: self.shared.settings.masters.clone().into(),
            electorate: self.engine.shared_electorate(),
            quorum: self.engine.rules().quorum,
            vote_timeout: self.shared.settings.vote_timeout,
        }
    }

    /// The first worker does that for all.
    fn look_after_masters(&self, dial: impl Dial + Clone) {
        let electorate = self.engine.shared_electorate();
        let rejoin = Rejoin(self.errands(dial.clone()));
        for link in self.engine.links() {
            let (master, address) = (link.master(), link.address().clone());
            let watch = Watch { master, address, electorate: Arc::clone(&electorate) };
            tokio::task::spawn_local(Rc::new(watch).run(dial.clone()));
            tokio::task::spawn_local(rejoin.clone().run(master));
        }
    }

    async fn first_contact(&self) {
        let tried = async {
            let electorate = self.engine.electorate();
            let is_known =
                |link: &Rc<Link>| !link.is_up() || electorate.was_looked_at(link.master());
            let met = |link: &Rc<Link>| link.was_tried() && is_known(link);
            while !self.engine.links().iter().all(met) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_CONTACT, tried).await;
        self.engine.electorate().everybody_was_met();
    }

    async fn drain(&self, limit: Duration) {
        self.draining.set(true);
        self.shared.registry.wake_all();
        let gone = async {
            // Rollbacks are on their way even when their clients have gone.
            while self.shared.registry.connected() > 0 || self.engine.in_flight() > 0 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        if tokio::time::timeout(limit, gone).await.is_err() {
            tracing::warn!(
                clients = self.shared.registry.connected(),
                "not all clients were finished"
            );
        }
    }
}

/// Notes what is not counted when it happens, and how late the event loop is.
async fn look_at_itself(worker: Rc<Worker>) {
    let mut rate = Rate::default();
    loop {
        let wanted = clock::now() + LOOK;
        tokio::time::sleep_until(wanted).await;
        let metrics = &worker.metrics;
        metrics.lag.observe(micros(clock::now().saturating_duration_since(wanted)));
        if worker.index == 0 {
            worker.registry().set_requests_per_second(rate.of(worker.registry().requests()));
        }
        metrics.in_flight.set(worker.engine.in_flight() as u64);
        for link in worker.engine.links() {
            let master = metrics.master(link.master());
            master.is_up.set(u64::from(link.is_up()));
            master.deferred.set(link.deferred() as u64);
            master.dropped.set(link.dropped());
        }
    }
}

/// Requests for each second, over so many looks (`STATS_METRIC_SAMPLES` in Redis's `server.h`).
#[derive(Default)]
struct Rate(VecDeque<(Instant, u64)>);

impl Rate {
    const LOOKS: usize = 16;

    fn of(&mut self, requests: u64) -> u64 {
        let now = clock::now();
        self.0.push_back((now, requests));
        if self.0.len() > Self::LOOKS {
            self.0.pop_front();
        }
        let Some((then, before)) = self.0.front() else { return 0 };
        let elapsed_ms = now.saturating_duration_since(*then).as_millis().max(1) as u64;
        (requests - before) * 1000 / elapsed_ms
    }
}

/// Ends clients that have been silent for too long (`clientsCronHandleTimeout` in Redis's `timeout.c`). The first
/// worker does that for all.
async fn timeouts(worker: Rc<Worker>) {
    loop {
        let timeout = worker.live().timeout;
        let pause = (timeout / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
        if timeout.is_zero() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        } else {
            worker.registry().end_silent(timeout);
            tokio::time::sleep(pause).await;
        }
    }
}

/// Lets every session look who it is when users have changed. The first worker does that for all.
async fn changes(worker: Rc<Worker>) {
    let mut changed = worker.shared.live.subscribe();
    let mut users = Arc::clone(&changed.borrow_and_update().users);
    // The worker keeps the sender.
    while changed.changed().await.is_ok() {
        let now = Arc::clone(&changed.borrow_and_update().users);
        if !Arc::ptr_eq(&users, &now) {
            users = now;
            worker.registry().wake_all();
        }
    }
}

/// Tears down a link that has gone silent.
async fn heartbeats(link: Rc<Link>) {
    loop {
        tokio::time::sleep(link.heartbeat_interval()).await;
        link.heartbeat();
    }
}

/// Ends rounds whose time is up.
async fn deadlines(engine: Rc<Engine>) {
    loop {
        match engine.expire(clock::now()) {
            Some(next) => tokio::time::sleep_until(next).await,
            None => engine.deadline_set().await,
        }
    }
}

/// Serves until `shutdown` becomes true and all workers are drained, or until a successor serves: then this is its
/// process id. `server` is there if clients may use TLS. `listening` learns where clients connect, e.g. at the port that
/// the system chose, and what the workers share, as soon as clients may come.
///
/// # Errors
/// When an address cannot be listened on, a predecessor does not let go, or a worker cannot be started.
pub fn serve(
    shared: Shared,
    server: Option<Arc<Server>>,
    mut handover: Handover,
    listening: impl FnOnce(&Listeners, &Shared) -> anyhow::Result<()>,
    shutdown: watch::Receiver<bool>,
) -> anyhow::Result<Option<u32>> {
    let settings = Arc::clone(&shared.settings);
    let listeners = Listeners::bind(&settings, server, handover.inherited())?;
    let listeners: Vec<_> = listeners.into_iter().map(Arc::new).collect();
    let offered = listeners.iter().map(Arc::downgrade).collect();
    let (helm, orders) = handover.helm(settings.workers);
    let files = socket_files(&settings, &handover);

    let first = Arc::clone(&listeners[0]);
    let start = || start_workers(&shared, listeners, orders, &shutdown);
    let threads = if handover.has_predecessor() {
        let threads = start()?;
        handover.take_over(&helm, &shared)?;
        listening(&first, &shared)?;
        threads
    } else {
        listening(&first, &shared)?;
        start()?
    };
    drop(first);
    let fate = handover.run(helm, shared, offered)?;
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a worker has panicked"))??;
    }
    if !fate.keeps_files() {
        files.iter().for_each(SocketFile::remove);
    }
    Ok(fate.successor())
}

fn socket_files(settings: &Settings, handover: &Handover) -> Vec<SocketFile> {
    let clients = settings.unix_socket.as_ref().map(|socket| socket.path.as_path());
    let paths = clients.into_iter().chain([handover.path()]);
    paths.filter_map(SocketFile::at).collect()
}

type Running = JoinHandle<anyhow::Result<()>>;

fn start_workers(
    shared: &Shared,
    listeners: Vec<Arc<Listeners>>,
    orders: Vec<Orders>,
    shutdown: &watch::Receiver<bool>,
) -> anyhow::Result<Vec<Running>> {
    let start = |(index, (listeners, orders)): (usize, (Arc<Listeners>, Orders))| {
        let (shared, shutdown) = (shared.clone(), shutdown.clone());
        std::thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            let worker = || Worker::new(index, shared);
            run(worker, listeners, orders, shutdown)
        })
    };
    let threads = listeners.into_iter().zip(orders).enumerate().map(start);
    threads.collect::<Result<Vec<_>, _>>().context("cannot start a worker")
}

fn run(
    worker: impl FnOnce() -> Rc<Worker>,
    listeners: Arc<Listeners>,
    orders: Orders,
    shutdown: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    // Not a `LocalSet` on a runtime: it would be woken through an eventfd, one system call for
    // every turn of the event loop.
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async { worker().serve(listeners, orders, shutdown).await })
}

/// Runs one task to its end, on this thread.
///
/// # Errors
/// When the event loop cannot be made.
pub fn on_one_thread<T>(task: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    Ok(runtime.block_on(task))
}

/// `d.d.d` of a version, without what development versions have after it.
fn version_numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.splitn(3, '.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}
