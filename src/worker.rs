//! One thread with one event loop that owns its listener, sessions and links. Nothing is shared
//! between workers on the hot path.
//!
//! * `threads` starts the workers, `shared` is what all of them share;
//! * `chores`: what a worker does beside serving; `orders`: what it does when another process takes over.

mod chores;
mod orders;
mod shared;
mod threads;

use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, MutexGuard, mpsc};
use std::time::Duration;

use tokio::sync::watch;

use crate::client::listener::Listeners;
use crate::client::registry::Registry;
use crate::client::session::PASS_BUFFER;
use crate::clock::{self, Instant};
use crate::config::{Live, Settings};
use crate::data::shared::SharedConnections;
use crate::data::spare::Spares;
use crate::data::upstream::Upstream;
use crate::data::watch::watch as watch_data;
use crate::decision::lease::pad::Pad;
use crate::handover::helm::{Departure, Orders};
use crate::lua::ScriptCache;
use crate::lua::program::Ttls;
use crate::lua::residents::Residents;
use crate::lua::transactions::Transactions;
use crate::master::dial::{Dial, Network};
use crate::master::errand::Errands;
use crate::master::link::Link;
use crate::master::probe::DEFAULT_DATABASES;
use crate::master::roster::keeper::Keeper;
use crate::master::watch::Watch;
use crate::metrics::Metrics;
use crate::metrics::slowlog::Slowlog;
use crate::metrics::statistics::Statistics;
use crate::moving::gate::Gate;
use crate::operation::Rules;
use crate::operation::aside::Busy;
use crate::operation::engine::Engine;
use crate::operation::instead::Texts;
use crate::operation::libraries::Shelf;
use crate::pubsub::hub::Hub;
use crate::quorum::{MasterId, Quorum};

pub use shared::{Certificates, Shared};
pub use threads::{on_one_thread, serve};

/// How long the first clients are kept waiting for a quorum that votes.
const FIRST_CONTACT: Duration = Duration::from_secs(3);

/// How long they are kept waiting for a master that does not answer, where the others are a quorum.
const TRIAL: Duration = Duration::from_secs(1);

/// How often it is looked whether the last client has gone while draining.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// The version that clients are told before any master has been reached: the oldest that is served.
const UNKNOWN_VERSION: &str = "7.0.0";

/// Beyond the two rounds of a claim without TTL: room for a busy machine.
const PROVISIONAL_RESERVE_MS: i64 = 500;

/// The masters belong to others.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotServe(String);

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
    shelf: Shelf,
    read_buffer: RefCell<Box<[u8]>>,
    started: Instant,
    draining: Cell<bool>,
    departing: Cell<bool>,
    /// Where sessions go that a successor goes on with.
    departures: OnceCell<mpsc::Sender<Departure>>,
    gate: OnceCell<Rc<Gate>>,
    shared_connections: Rc<SharedConnections>,
    spares: Option<Rc<Spares>>,
}

impl Worker {
    /// A worker whose links are down.
    pub fn new(index: usize, shared: Shared) -> Rc<Self> {
        let settings = &shared.settings;
        let electorate = Arc::clone(&shared.electorate);
        let unix_time = Arc::clone(electorate.unix_time());
        let rules = Rules {
            quorum: Quorum::of(settings.masters.len()),
            pad: Pad::new(settings.vote_timeout, settings.drift),
            vote_timeout: settings.vote_timeout,
            patience: settings.patience(),
            split_vote_retries: settings.split_vote_retries,
            unix_time,
            leases: Rc::default(),
            registers: Rc::default(),
            commands: Transactions::new(Ttls::of(settings)).with(&[], None).program,
            texts: Rc::new(Texts::new(Ttls::of(settings), Arc::clone(&shared.residents))),
        };
        let masters = (0..settings.masters.len()).map(MasterId::new);
        let link = |master| {
            let (residents, electorate) = (Arc::clone(&shared.residents), Arc::clone(&electorate));
            Link::new(master, settings, residents, electorate)
        };
        let links = masters.map(link).collect();
        let metrics = Arc::clone(&shared.metrics[index]);
        let delay = settings.split_vote_delay;
        let slowlog = Arc::clone(&shared.slowlog);
        let engine = Engine::new(rules, delay, links, electorate, Arc::clone(&metrics), slowlog);
        let hub = Hub::new(&engine, Arc::clone(&shared.registry));
        Rc::new(Self {
            index,
            transactions: RefCell::new(Transactions::new(Ttls::of(settings))),
            shelf: Shelf::default(),
            changes_seen: Cell::new(shared.changes()),
            live: RefCell::new(shared.live()),
            metrics,
            engine,
            hub,
            read_buffer: RefCell::new(vec![0; PASS_BUFFER].into()),
            started: clock::now(),
            draining: Cell::new(false),
            departing: Cell::new(false),
            departures: OnceCell::new(),
            gate: OnceCell::new(),
            shared_connections: Rc::default(),
            spares: shared.data.clone().map(Spares::new),
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
        if self.shared.changes() != self.changes_seen.get() {
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
            self.changes_seen.set(self.shared.changes());
            *live = self.shared.live();
        }
    }

    /// How masters are reached.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }

    /// The way to the data Redis, if there is one.
    pub fn data(&self) -> Option<&Upstream> {
        self.shared.data.as_ref()
    }

    /// The connections to it that clients share.
    pub fn shared_connections(&self) -> &Rc<SharedConnections> {
        &self.shared_connections
    }

    /// The connections to it that clients begin with when they need one of their own.
    pub fn spares(&self) -> Option<&Rc<Spares>> {
        self.spares.as_ref()
    }

    /// The way to locks on the data Redis, if old instances still have them there.
    pub fn gate(&self) -> Option<&Rc<Gate>> {
        let data = self.data().filter(|data| data.settings().has_locks)?;
        Some(self.gate.get_or_init(|| Gate::open(data.clone())))
    }

    /// The database of clients that select none.
    pub fn first_db(&self) -> u32 {
        self.data().map_or(0, |data| data.settings().address.db)
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

    /// The same without what is counted for each command.
    pub fn totals(&self) -> Statistics {
        self.shared.totals()
    }

    /// Counts from nothing again.
    pub fn reset_statistics(&self) {
        self.shared.reset_statistics();
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// How many masters may be busy with large reads, in all workers.
    pub fn busy_masters(&self) -> &Arc<Busy> {
        &self.shared.busy_masters
    }

    /// The operations.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// The subscriptions.
    pub fn hub(&self) -> &Rc<Hub> {
        &self.hub
    }

    /// See [`Shared::scripts`].
    pub fn scripts(&self) -> MutexGuard<'_, ScriptCache> {
        self.shared.scripts()
    }

    /// The programs that masters keep.
    pub fn residents(&self) -> &Residents {
        &self.shared.residents
    }

    /// What scripts may do with times to live.
    pub fn ttls(&self) -> Ttls {
        Ttls::of(&self.shared.settings)
    }

    /// The programs that run transactions.
    pub fn transactions(&self) -> RefMut<'_, Transactions> {
        self.transactions.borrow_mut()
    }

    /// What it knows of the libraries of functions.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
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
    /// both rounds, each of which may take all of a client's patience.
    pub fn provisional_ttl_ms(&self) -> i64 {
        2 * self.engine.rules().patience.as_millis() as i64 + PROVISIONAL_RESERVE_MS
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
            why = self.refused() => return Err(CannotServe(why).into()),
        }
        self.tell_what_was_not_taken_back();
        Ok(())
    }

    /// Resolves when these masters are found to be others'.
    async fn refused(&self) -> String {
        let electorate = self.engine.shared_electorate();
        loop {
            let changed = electorate.changed();
            match electorate.refusal() {
                Some(why) => return why,
                None => changed.await,
            }
        }
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
            let lane = Rc::clone(link.lane());
            tokio::task::spawn_local(lane.run(dial.clone(), Rc::clone(&link)));
            tokio::task::spawn_local(chores::heartbeats(link, Rc::clone(&self.engine)));
        }
        tokio::task::spawn_local(Rc::clone(&self.hub).see_off());
        for feed in self.hub.feeds() {
            let hub = Rc::clone(&self.hub);
            tokio::task::spawn_local(Rc::clone(feed).run(dial.clone(), hub));
        }
        tokio::task::spawn_local(chores::deadlines(Rc::clone(&self.engine)));
        tokio::task::spawn_local(Rc::clone(&self.engine).keep_settling());
        tokio::task::spawn_local(Rc::clone(&self.engine).keep_closing());
        tokio::task::spawn_local(chores::look_at_itself(Rc::clone(self)));
        if self.index == 0 {
            tokio::task::spawn_local(chores::changes(Rc::clone(self)));
            tokio::task::spawn_local(chores::timeouts(Rc::clone(self)));
            tokio::task::spawn_local(Rc::clone(&self.engine).keep_comparing());
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
            patience: self.shared.settings.patience(),
        }
    }

    /// The first worker does that for all.
    fn look_after_masters(&self, dial: impl Dial + Clone) {
        let electorate = self.engine.shared_electorate();
        if let Some(upstream) = self.data() {
            tokio::task::spawn_local(watch_data(upstream.clone()));
        }
        tokio::task::spawn_local(Keeper::new(self.errands(dial.clone())).run());
        for link in self.engine.links() {
            let (master, address) = (link.master(), link.address().clone());
            let watch = Watch { master, address, electorate: Arc::clone(&electorate) };
            tokio::task::spawn_local(Rc::new(watch).run(dial.clone()));
        }
    }

    /// Waits until a quorum votes and every master was tried, or until it is known what this proxy waits for.
    async fn first_contact(&self) {
        let tried = async {
            let engine = &self.engine;
            let all_tried = || engine.links().iter().all(|link| link.was_tried());
            let votes = || engine.rules().quorum.reached_by(engine.voters());
            let waits = || engine.electorate().why_it_waits().is_some();
            let is_late = || self.uptime() >= TRIAL;
            while !(all_tried() || is_late()) || !(votes() || waits()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_CONTACT, tried).await;
    }

    async fn drain(&self, limit: Duration) {
        self.draining.set(true);
        self.shared.registry.wake_all();
        // What takes a lost claim back, or ends a lease, goes to masters even when its client has gone.
        let delivers = || self.engine.links().iter().any(|link| link.is_up() && link.owes());
        let connected = || self.shared.registry.connected();
        let serves = || connected() > 0 || self.engine.in_flight() > 0 || delivers();
        let gone = async {
            while serves() || self.takes_back() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        if tokio::time::timeout(limit, gone).await.is_err() && serves() {
            tracing::warn!(clients = connected(), "not all clients were finished");
        }
    }

    /// The same for locks on the data Redis, which another process would not take back.
    fn takes_back(&self) -> bool {
        self.gate.get().is_some_and(|gate| gate.pending().can_be_done())
    }

    fn tell_what_was_not_taken_back(&self) {
        let requests = self.gate.get().map_or(0, |gate| gate.pending().count());
        if requests > 0 {
            tracing::warn!(requests, "not all locks were taken back from the data Redis");
        }
    }
}

/// `d.d.d` of a version, without what development versions have after it.
fn version_numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.splitn(3, '.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}
