//! The state that all workers of a process share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::statistics::Statistics;
use crate::client::registry::Registry;
use crate::client::slowlog::Slowlog;
use crate::config::{Live, Settings};
use crate::data::upstream::Upstream;
use crate::engine::sequential::Busy;
use crate::lua::ScriptCache;
use crate::lua::program::ScriptRules;
use crate::lua::residents::Residents;
use crate::masters::dial::Network;
use crate::masters::electorate::Electorate;
use crate::masters::roster::together::Together;
use crate::metrics::{Metrics, process};
use crate::net::tls::Unusable;
use crate::net::tls::server::Server;

/// The contents of all certificates that the settings name.
#[derive(Clone, Default)]
pub struct Certificates {
    /// For clients, if they may use TLS.
    pub server: Option<Arc<Server>>,
    /// For masters.
    pub network: Network,
    /// For the data Redis, if there is one.
    pub data: Option<Upstream>,
}

impl Certificates {
    /// Reads all certificates.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be used.
    pub fn read(settings: &Settings) -> Result<Self, Unusable> {
        let server = settings.tls.as_ref().map(|tls| Server::read(&tls.files)).transpose()?;
        let network = Network::of(&settings.masters, &settings.master_tls)?;
        let data = settings.data.as_ref();
        let data = data.map(|data| Upstream::of(data, &settings.master_tls)).transpose()?;
        Ok(Self { server: server.map(Arc::new), network, data })
    }

    /// Whether the settings name any certificates.
    pub fn are_any(&self) -> bool {
        let is_tls = self.data.as_ref().is_some_and(Upstream::has_tls);
        self.server.is_some() || self.network.has_tls() || is_tls
    }

    /// Reads all certificates again. Unusable ones are not replaced.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be used.
    pub fn read_again(&self) -> Result<(), Unusable> {
        let network = self.network.read_again();
        let data = self.data.as_ref().map_or(Ok(()), Upstream::read_again);
        self.server.as_ref().map_or(Ok(()), |server| server.read_again()).and(network).and(data)
    }
}

/// The state that all workers of a process share.
#[derive(Clone)]
pub struct Shared {
    /// The settings as they were at the start, including those that can change. If there are shards: those of this one.
    pub settings: Arc<Settings>,
    /// The state of the other shards, if this is that of the first of several.
    others: Arc<[Self]>,
    /// The rosters of all shards.
    pub together: Arc<Together>,
    /// The current values of the settings that can change.
    live: Arc<watch::Sender<Arc<Live>>>,
    /// Number of changes of these settings.
    changes: Arc<AtomicU64>,
    /// The way to the masters.
    pub network: Network,
    /// The way to the data Redis, if there is one.
    pub data: Option<Upstream>,
    /// The connected clients.
    pub registry: Arc<Registry>,
    /// The scripts that clients have sent.
    scripts: Arc<Mutex<ScriptCache>>,
    /// The programs that masters keep.
    pub residents: Arc<Residents>,
    /// The masters that may vote.
    pub electorate: Arc<Electorate>,
    /// The metrics of each worker.
    pub metrics: Arc<[Arc<Metrics>]>,
    /// The slow requests.
    pub slowlog: Arc<Slowlog>,
    /// Masters that are busy with large reads, whose number is limited.
    pub busy_masters: Arc<Busy>,
    /// The counts at the last `CONFIG RESETSTAT`.
    counted: Arc<Mutex<Statistics>>,
}

impl Shared {
    /// Returns the state for the workers of `settings`. If there are shards, it is that of the first one.
    pub fn new(settings: Settings, certificates: &Certificates) -> Self {
        let mut clusters = settings.clusters();
        let electorates: Vec<_> = clusters.iter().map(|it| Arc::new(Electorate::of(it))).collect();
        let together = Together::new(settings.shard_names(), electorates.clone());
        let others = clusters.split_off(1).into_iter().zip(electorates.iter().skip(1));
        let first = Self::of_first(clusters.remove(0), certificates, &electorates[0], together);
        let others = others.map(|(settings, votes)| first.of_other(settings, votes)).collect();
        Self { others, ..first }
    }

    fn of_first(
        settings: Settings,
        certificates: &Certificates,
        electorate: &Arc<Electorate>,
        together: Together,
    ) -> Self {
        let slowlog = Slowlog::default();
        slowlog.configure(&settings.live);
        let registry = Arc::<Registry>::default();
        registry.budget().set_limit(memory_of_clients(&settings.live));
        registry.onlookers().set_events(settings.live.notify_keyspace_events);
        Self {
            network: certificates.network.clone(),
            data: certificates.data.clone(),
            registry,
            scripts: Arc::new(Mutex::new(ScriptCache::new())),
            residents: residents(&settings),
            electorate: Arc::clone(electorate),
            metrics: metrics(&settings),
            slowlog: Arc::new(slowlog),
            busy_masters: busy_masters(&settings),
            counted: Arc::default(),
            live: Arc::new(watch::Sender::new(Arc::new(settings.live.clone()))),
            changes: Arc::default(),
            settings: Arc::new(settings),
            together: Arc::new(together),
            others: Arc::default(),
        }
    }

    /// Returns the state of another shard of the same process.
    fn of_other(&self, settings: Settings, electorate: &Arc<Electorate>) -> Self {
        Self {
            residents: residents(&settings),
            electorate: Arc::clone(electorate),
            metrics: metrics(&settings),
            busy_masters: busy_masters(&settings),
            settings: Arc::new(settings),
            ..self.clone()
        }
    }

    /// Returns the state of each cluster: of the first shard, which this is, and of the others.
    pub fn clusters(&self) -> impl Iterator<Item = &Self> + Clone {
        std::iter::once(self).chain(self.others.iter())
    }

    /// Returns the metrics of all workers of all clusters.
    pub fn all_metrics(&self) -> impl Iterator<Item = &Metrics> {
        self.clusters().flat_map(|cluster| cluster.metrics.iter().map(|metrics| &**metrics))
    }

    /// Returns the current values of the settings that can change.
    pub fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.borrow())
    }

    /// Returns a receiver that waits for changes of these settings.
    pub fn changed(&self) -> watch::Receiver<Arc<Live>> {
        self.live.subscribe()
    }

    /// Returns the number of changes of these settings.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Changes the settings for all workers before it returns.
    pub fn change(&self, live: Live) {
        self.slowlog.configure(&live);
        self.registry.budget().set_limit(memory_of_clients(&live));
        self.registry.onlookers().set_events(live.notify_keyspace_events);
        self.live.send_modify(|now| {
            *now = Arc::new(live);
            // A worker that sees the new count waits for the lock held here, so it reads the new settings.
            self.changes.fetch_add(1, Ordering::Release);
        });
    }

    /// Returns the scripts that clients have sent to any worker. A client whose connections are served by different
    /// workers loads a script once.
    pub fn scripts(&self) -> MutexGuard<'_, ScriptCache> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts since the start, or since the last [`Shared::reset_statistics`].
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self).since(&self.counted())
    }

    /// Returns these counts without those of each command.
    pub fn totals(&self) -> Statistics {
        Statistics::totals(self).since(&self.counted())
    }

    /// Resets the counts to zero.
    pub fn reset_statistics(&self) {
        *self.counted() = Statistics::of(self);
    }

    /// No code under this lock can panic.
    fn counted(&self) -> MutexGuard<'_, Statistics> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn residents(settings: &Settings) -> Arc<Residents> {
    Arc::new(Residents::new(settings.places(), ScriptRules::of(settings)))
}

fn metrics(settings: &Settings) -> Arc<[Arc<Metrics>]> {
    let masters = settings.places();
    (0..settings.workers).map(|_| Arc::new(Metrics::new(masters))).collect()
}

fn busy_masters(settings: &Settings) -> Arc<Busy> {
    Arc::new(Busy::new(settings.quorum().tolerates().max(1)))
}

fn memory_of_clients(live: &Live) -> u64 {
    live.max_memory_clients.bytes_of(process::available_bytes())
}
