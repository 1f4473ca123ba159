//! What all workers of a process share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::statistics::Statistics;
use crate::client::registry::Registry;
use crate::client::slowlog::Slowlog;
use crate::config::{Live, Settings};
use crate::data::upstream::Upstream;
use crate::decision::quorum::Quorum;
use crate::engine::sequential::Busy;
use crate::lua::ScriptCache;
use crate::lua::program::Ttls;
use crate::lua::residents::Residents;
use crate::masters::dial::Network;
use crate::masters::electorate::Electorate;
use crate::metrics::{Metrics, process};
use crate::net::tls::Unusable;
use crate::net::tls::server::Server;

/// All certificates that the settings name, read.
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
    /// Reads them.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn read(settings: &Settings) -> Result<Self, Unusable> {
        let server = settings.tls.as_ref().map(|tls| Server::read(&tls.files)).transpose()?;
        let network = Network::of(&settings.masters, &settings.master_tls)?;
        let data = settings.data.as_ref();
        let data = data.map(|data| Upstream::of(data, &settings.master_tls)).transpose()?;
        Ok(Self { server: server.map(Arc::new), network, data })
    }

    /// Reads them again; those that cannot be used stay as they were.
    ///
    /// # Errors
    /// One of them cannot be used.
    pub fn read_again(&self) -> Result<(), Unusable> {
        let network = self.network.read_again();
        let data = self.data.as_ref().map_or(Ok(()), Upstream::read_again);
        self.server.as_ref().map_or(Ok(()), |server| server.read_again()).and(network).and(data)
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
    /// The way to the data Redis, if there is one.
    pub data: Option<Upstream>,
    /// Who is connected.
    pub registry: Arc<Registry>,
    /// The scripts that clients have sent.
    scripts: Arc<Mutex<ScriptCache>>,
    /// The programs that masters keep.
    pub residents: Arc<Residents>,
    /// Who may vote.
    pub electorate: Arc<Electorate>,
    /// What each worker counts.
    pub metrics: Arc<[Arc<Metrics>]>,
    /// The requests that were slow.
    pub slowlog: Arc<Slowlog>,
    /// Masters that may be busy with large reads at a time.
    pub busy_masters: Arc<Busy>,
    /// What had been counted by the last `CONFIG RESETSTAT`.
    counted: Arc<Mutex<Statistics>>,
}

impl Shared {
    /// For the workers that `settings` ask for.
    pub fn new(settings: Settings, certificates: &Certificates) -> Self {
        let metrics = (0..settings.workers).map(|_| Arc::new(Metrics::new(settings.masters.len())));
        let slowlog = Slowlog::default();
        slowlog.configure(&settings.live);
        let registry = Arc::<Registry>::default();
        registry.budget().set_limit(memory_of_clients(&settings.live));
        let may_be_busy = Quorum::of(settings.masters.len()).tolerates().max(1);
        Self {
            network: certificates.network.clone(),
            data: certificates.data.clone(),
            registry,
            scripts: Arc::new(Mutex::new(ScriptCache::new())),
            residents: Arc::new(Residents::new(settings.masters.len(), Ttls::of(&settings))),
            electorate: Arc::new(Electorate::of(&settings)),
            metrics: metrics.collect(),
            slowlog: Arc::new(slowlog),
            busy_masters: Arc::new(Busy::new(may_be_busy)),
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

    /// Whoever waits for changes of it.
    pub fn changed(&self) -> watch::Receiver<Arc<Live>> {
        self.live.subscribe()
    }

    /// How often it has changed.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Changes it for all workers, before this returns.
    pub fn change(&self, live: Live) {
        self.slowlog.configure(&live);
        self.registry.budget().set_limit(memory_of_clients(&live));
        self.live.send_modify(|now| {
            *now = Arc::new(live);
            // Whoever sees the new count waits for the lock under which this is done.
            self.changes.fetch_add(1, Ordering::Release);
        });
    }

    /// The scripts that clients have sent, to any worker: a client whose connections are served by
    /// different ones loads a script once.
    pub fn scripts(&self) -> MutexGuard<'_, ScriptCache> {
        self.scripts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted since the start, or the last [`Shared::reset_statistics`].
    pub fn statistics(&self) -> Statistics {
        Statistics::of(self).since(&self.counted())
    }

    /// The same without what is counted for each command.
    pub fn totals(&self) -> Statistics {
        Statistics::totals(self).since(&self.counted())
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

fn memory_of_clients(live: &Live) -> u64 {
    live.max_memory_clients.bytes_of(process::available_bytes())
}
