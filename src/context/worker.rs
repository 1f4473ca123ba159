//! One worker: the state that its sessions share and its commands use.

use super::portable::Departure;
use super::shared::Shared;
use crate::also_claim::gate::Gate;
use crate::client::registry::Registry;
use crate::client::slowlog::Slowlog;
use crate::config::{Live, Settings};
use crate::context::statistics::Statistics;
use crate::data::shared::SharedConnections;
use crate::data::spare::Spares;
use crate::data::upstream::Upstream;
use crate::decision::lease::pad::Pad;
use crate::decision::quorum::MasterId;
use crate::engine::Engine;
use crate::engine::link::Link;
use crate::engine::sequential::Busy;
use crate::engine::sequential::libraries::Shelf;
use crate::lua::ScriptCache;
use crate::lua::program::ScriptRules;
use crate::lua::residents::Residents;
use crate::lua::transactions::Transactions;
use crate::masters::dial::Network;
use crate::masters::probe::DEFAULT_DATABASES;
use crate::metrics::Metrics;
use crate::names::slot::{Share, shard_of};
use crate::operation::Rules;
use crate::operation::on_register::Texts;
use crate::pubsub::hub::Hub;
use crate::resp::PASS_BUFFER;
use crate::time::clock::{self, Instant};
use crate::tracking::tracker::Tracker;
use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::sync::{Arc, MutexGuard, mpsc};
use std::time::Duration;

/// The version reported to clients before any master has been reached: the oldest one supported.
const UNKNOWN_VERSION: &str = "7.0.0";

/// The state that the sessions of one worker share.
pub struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Shared,
    live: RefCell<Arc<Live>>,
    changes_seen: Cell<u64>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) engine: Rc<Engine>,
    pub(crate) hub: Rc<Hub>,
    pub(crate) tracker: Rc<Tracker>,
    transactions: RefCell<Transactions>,
    shelf: Shelf,
    read_buffer: RefCell<Box<[u8]>>,
    started: Instant,
    pub(crate) draining: Cell<bool>,
    pub(crate) departing: Cell<bool>,
    /// The channel for sessions that a successor takes over.
    pub(crate) departures: OnceCell<mpsc::Sender<Departure>>,
    pub(crate) gate: OnceCell<Rc<Gate>>,
    shared_connections: Rc<SharedConnections>,
    spares: Option<Rc<Spares>>,
    /// The workers of the other shards on the same thread, if this is that of the first of several.
    others: Vec<Rc<Worker>>,
}

impl Worker {
    /// Returns a worker whose links are down, with one for each other shard.
    pub fn new(index: usize, shared: Shared) -> Rc<Self> {
        let settings = &shared.settings;
        let electorate = Arc::clone(&shared.electorate);
        let unix_time = Arc::clone(electorate.unix_time());
        let rules = Rules {
            quorum: settings.quorum(),
            pad: Pad::new(settings.vote_timeout, settings.drift),
            vote_timeout: settings.vote_timeout,
            patience: settings.patience(),
            split_vote_retries: settings.split_vote_retries,
            fair_waiting: settings.fair_waiting,
            unix_time,
            leases: Rc::default(),
            registers: Rc::default(),
            commands: Transactions::new(ScriptRules::of(settings)).with(&[], None).program,
            share: Share::of(settings.shard_place(), settings.shards.len()),
            shard: settings.shard_name().map(Rc::from),
            texts: Rc::new(Texts::new(
                ScriptRules::of(settings),
                Arc::clone(&shared.residents),
                Arc::clone(shared.registry.onlookers()),
            )),
            onlookers: Arc::clone(shared.registry.onlookers()),
        };
        let metrics = Arc::clone(&shared.metrics[index]);
        let masters = (0..settings.places()).map(MasterId::new);
        let link = |master| {
            let (residents, electorate) = (Arc::clone(&shared.residents), Arc::clone(&electorate));
            let up = Arc::clone(&metrics.master(master).is_up);
            Link::new(master, settings, residents, electorate, up)
        };
        let links = masters.map(link).collect();
        let delay = settings.split_vote_delay;
        let slowlog = Arc::clone(&shared.slowlog);
        let engine = Engine::new(rules, delay, links, electorate, Arc::clone(&metrics), slowlog);
        let hub = Hub::new(&engine, Arc::clone(&shared.registry));
        let tracker = Tracker::new(&engine);
        let is_first = settings.shard_place() == 0;
        let others = shared.clusters().skip(1).map(|it| Self::new(index, it.clone()));
        let others: Vec<_> = others.inspect(|it| it.engine.publishes_on(&engine)).collect();
        Rc::new(Self {
            index,
            transactions: RefCell::new(Transactions::new(ScriptRules::of(settings))),
            shelf: Shelf::default(),
            changes_seen: Cell::new(shared.changes()),
            live: RefCell::new(shared.live()),
            metrics,
            engine,
            hub,
            tracker,
            read_buffer: RefCell::new(vec![0; PASS_BUFFER].into()),
            started: clock::now(),
            draining: Cell::new(false),
            departing: Cell::new(false),
            departures: OnceCell::new(),
            gate: OnceCell::new(),
            shared_connections: Rc::default(),
            spares: shared.data.clone().filter(|_| is_first).map(Spares::new),
            others,
            shared,
        })
    }

    /// Returns the workers of all clusters on this thread: this one, which is that of the first shard, and the others.
    pub fn clusters(self: &Rc<Self>) -> impl Iterator<Item = &Rc<Self>> + Clone {
        std::iter::once(self).chain(&self.others)
    }

    /// Whether there are several shards, of which this worker serves the first.
    #[inline]
    pub fn has_shards(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns the engines of all shards; none if the masters are one cluster.
    pub fn engines_of_shards(self: &Rc<Self>) -> Vec<Rc<Engine>> {
        let workers = self.clusters().filter(|_| self.has_shards());
        workers.map(|worker| Rc::clone(&worker.engine)).collect()
    }

    /// Returns the worker of the shard that serves a hash slot.
    pub fn of_slot(self: &Rc<Self>, slot: u16) -> &Rc<Self> {
        let at = shard_of(slot, self.others.len() + 1);
        at.checked_sub(1).and_then(|at| self.others.get(at)).unwrap_or(self)
    }

    /// Whether this worker serves the first shard, or all keys. It does what is done once per thread.
    pub fn is_first(&self) -> bool {
        self.shared.settings.shard_place() == 0
    }

    /// Returns the worker's place among the workers of this process.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the settings as they were at the start, including those that can change.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Returns the current values of the settings that can change.
    #[inline]
    pub fn live(&self) -> Ref<'_, Live> {
        if self.shared.changes() != self.changes_seen.get() {
            self.adopt();
        }
        Ref::map(self.live.borrow(), |live| &**live)
    }

    /// Changes these settings.
    pub fn change(&self, live: Live) {
        self.shared.change(live);
    }

    #[cold]
    fn adopt(&self) {
        // A caller holding a borrow keeps the old value.
        if let Ok(mut live) = self.live.try_borrow_mut() {
            self.changes_seen.set(self.shared.changes());
            *live = self.shared.live();
        }
    }

    /// Returns the way to the masters.
    pub fn network(&self) -> &Network {
        &self.shared.network
    }

    /// Returns the way to the data Redis, if there is one.
    pub fn data(&self) -> Option<&Upstream> {
        self.shared.data.as_ref()
    }

    /// Returns the connections to the data Redis that clients share.
    pub fn shared_connections(&self) -> &Rc<SharedConnections> {
        &self.shared_connections
    }

    /// Returns the connections to the data Redis that are ready for clients that need one of their own.
    pub fn spares(&self) -> Option<&Rc<Spares>> {
        self.spares.as_ref()
    }

    /// Returns the way to locks on the data Redis, if old instances still keep them there.
    pub fn gate(&self) -> Option<&Rc<Gate>> {
        let data = self.data().filter(|data| data.settings().has_locks)?;
        Some(self.gate.get_or_init(|| Gate::open(data.clone())))
    }

    /// Returns the database of clients that select none.
    pub fn first_db(&self) -> u32 {
        self.data().map_or(0, |data| data.settings().address.db)
    }

    /// Returns the clients connected to any worker.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.shared.registry
    }

    /// Returns the slow requests of all workers.
    pub fn slowlog(&self) -> &Slowlog {
        &self.shared.slowlog
    }

    /// Returns the counts of all workers since the last reset.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }

    /// Returns these counts without those of each command.
    pub fn totals(&self) -> Statistics {
        self.shared.totals()
    }

    /// Resets the counts to zero.
    pub fn reset_statistics(&self) {
        self.shared.reset_statistics();
    }

    /// Returns the worker's metrics.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Returns the limit on masters that are busy with large reads, for all workers.
    pub fn busy_masters(&self) -> &Arc<Busy> {
        &self.shared.busy_masters
    }

    /// Returns the engine that runs operations.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// Returns the hub of subscriptions.
    pub fn hub(&self) -> &Rc<Hub> {
        &self.hub
    }

    /// Returns the clients that are told of changes of this worker's masters.
    pub fn tracker(&self) -> &Rc<Tracker> {
        &self.tracker
    }

    /// See [`Shared::scripts`].
    pub fn scripts(&self) -> MutexGuard<'_, ScriptCache> {
        self.shared.scripts()
    }

    /// Returns the programs that masters keep.
    pub fn residents(&self) -> &Residents {
        &self.shared.residents
    }

    /// Returns the settings that the text of every program contains.
    pub fn script_rules(&self) -> ScriptRules {
        self.engine.rules().texts.script_rules()
    }

    /// Returns the programs that run transactions.
    pub fn transactions(&self) -> RefMut<'_, Transactions> {
        let mut transactions = self.transactions.borrow_mut();
        transactions.tell(self.registry().onlookers().want());
        transactions
    }

    /// Returns the worker's copy of the libraries of functions.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// Returns the buffer that all sessions read into, one at a time.
    pub fn read_buffer(&self) -> RefMut<'_, Box<[u8]>> {
        self.read_buffer.borrow_mut()
    }

    /// Returns the version reported to clients: the configured one, or else the lowest among the masters. So no client
    /// relies on features that one of them lacks.
    pub fn redis_version(&self) -> String {
        let configured = self.live().redis_version.clone();
        configured.or_else(|| self.lowest_version()).unwrap_or_else(|| UNKNOWN_VERSION.to_owned())
    }

    fn lowest_version(&self) -> Option<String> {
        let facts = self.engine.links().iter().filter_map(|link| link.facts());
        let numbers = facts.filter_map(|facts| version_numbers(&facts.version));
        numbers.min().map(|[major, minor, patch]| format!("{major}.{minor}.{patch}"))
    }

    /// Returns the number of databases: that of the master with the fewest.
    pub fn databases(&self) -> u32 {
        let facts = self.engine.links().iter().filter_map(|link| link.facts());
        facts.map(|facts| facts.databases).min().unwrap_or(DEFAULT_DATABASES)
    }

    /// Returns how long this worker has been running.
    pub fn uptime(&self) -> Duration {
        clock::now() - self.started
    }

    /// Whether the proxy is about to stop and takes no new requests.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Whether another process takes over. Sessions that can move then start no new requests.
    pub fn is_departing(&self) -> bool {
        self.departing.get()
    }

    /// Reports how a session has made way for that process.
    pub fn depart(&self, departure: Departure) {
        if let Some(departures) = self.departures.get() {
            // The receiver lives until the last client has gone.
            let _ = departures.send(departure);
        }
    }
}

/// Returns the numbers of a version `d.d.d`, without the suffix of development versions.
fn version_numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version.splitn(3, '.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).map_or(part, |end| &part[..end]);
        digits.parse().ok()
    });
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}
