//! One thread with one event loop that owns its listener, sessions and links. Nothing is shared
//! between workers on the hot path.

use std::cell::{Cell, RefCell, RefMut};
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::client::listener;
use crate::client::registry::Registry;
use crate::client::session::READ_BUFFER;
use crate::clock::{self, Instant};
use crate::config::Settings;
use crate::lua::ScriptCache;
use crate::master::dial::{Dial, Tcp};
use crate::master::link::Link;
use crate::operation::Rules;
use crate::operation::engine::Engine;
use crate::quorum::validity::Pad;
use crate::quorum::{MasterId, Quorum};

/// How long the first clients are kept waiting for the masters that can be reached.
const FIRST_CONTACT: Duration = Duration::from_secs(1);

/// How often it is looked whether the last client has gone while draining.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// What the sessions of one worker share.
pub struct Worker {
    settings: Arc<Settings>,
    registry: Arc<Registry>,
    engine: Rc<Engine>,
    scripts: RefCell<ScriptCache>,
    read_buffer: RefCell<Box<[u8]>>,
    started: Instant,
    draining: Cell<bool>,
    /// Wall clock at `started`, so that it need not be asked for every request.
    started_unix_ms: i64,
}

impl Worker {
    /// A worker whose links are down.
    pub fn new(settings: Arc<Settings>, registry: Arc<Registry>) -> Rc<Self> {
        let pad = Pad::new(settings.vote_timeout, settings.drift);
        let rules = Rules {
            quorum: Quorum::of(settings.masters.len()),
            pad,
            vote_timeout: settings.vote_timeout,
            split_vote_retries: settings.split_vote_retries,
        };
        let links = settings.masters.iter().enumerate().map(|(index, address)| {
            Link::new(MasterId::new(index), address.clone(), settings.vote_timeout, pad)
        });
        let engine = Engine::new(rules, settings.split_vote_delay, links.collect());
        Rc::new(Self {
            settings,
            registry,
            engine,
            scripts: RefCell::new(ScriptCache::new()),
            read_buffer: RefCell::new(vec![0; READ_BUFFER].into()),
            started: clock::now(),
            draining: Cell::new(false),
            started_unix_ms: clock::unix_ms(),
        })
    }

    /// What was configured.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who is connected, to any worker.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The operations.
    pub fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// The scripts that clients have sent.
    pub fn scripts(&self) -> RefMut<'_, ScriptCache> {
        self.scripts.borrow_mut()
    }

    /// The buffer all sessions read into, one at a time.
    pub fn read_buffer(&self) -> RefMut<'_, Box<[u8]>> {
        self.read_buffer.borrow_mut()
    }

    /// How long this worker has been running.
    pub fn uptime(&self) -> Duration {
        clock::now() - self.started
    }

    /// About the wall clock, for `CLIENT LIST`.
    pub fn unix_ms(&self) -> i64 {
        self.started_unix_ms + self.uptime().as_millis() as i64
    }

    /// Whether the proxy is about to stop: no new requests.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    /// Connects to the masters, serves clients until `shutdown`, then lets them finish.
    async fn serve(
        self: Rc<Self>,
        listener: std::net::TcpListener,
        mut shutdown: watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        self.connect(Tcp);
        self.first_contact().await;
        let listener = TcpListener::from_std(listener)?;
        let accepting = tokio::task::spawn_local(listener::accept(listener, Rc::clone(&self)));
        let _ = shutdown.wait_for(|stop| *stop).await;
        accepting.abort();
        let _ = accepting.await;
        self.drain().await;
        Ok(())
    }

    /// Starts what runs beside the sessions.
    fn connect(self: &Rc<Self>, dial: impl Dial + Clone) {
        for link in self.engine.links() {
            let link = Rc::clone(link);
            tokio::task::spawn_local(Rc::clone(&link).run(dial.clone(), Rc::clone(&self.engine)));
            tokio::task::spawn_local(heartbeats(link));
        }
        tokio::task::spawn_local(deadlines(Rc::clone(&self.engine)));
    }

    async fn first_contact(&self) {
        let tried = async {
            while !self.engine.links().iter().all(|link| link.was_tried()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_CONTACT, tried).await;
    }

    async fn drain(&self) {
        self.draining.set(true);
        self.registry.wake_all();
        let gone = async {
            while self.registry.connected() > 0 {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        if tokio::time::timeout(self.settings.drain_timeout, gone).await.is_err() {
            tracing::warn!(clients = self.registry.connected(), "not all clients were finished");
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

/// Serves with `settings` until `shutdown` becomes true and all workers are drained.
/// `listener_ready` learns the address, e.g. the port that the system chose.
///
/// # Errors
/// When the address cannot be listened on, or a worker cannot be started.
pub fn serve(
    settings: Settings,
    listener_ready: impl FnOnce(SocketAddr),
    shutdown: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let settings = Arc::new(settings);
    let registry = Arc::new(Registry::default());
    let shared = settings.workers > 1;
    let first = listener::bind(resolve(&settings.listen)?, shared)?;
    let address = first.local_addr()?;
    let others = (1..settings.workers).map(|_| listener::bind(address, shared));
    let listeners = std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<_>, _>>()?;
    listener_ready(address);
    let threads = listeners.into_iter().enumerate().map(|(index, listener)| {
        let (settings, registry) = (Arc::clone(&settings), Arc::clone(&registry));
        let shutdown = shutdown.clone();
        std::thread::Builder::new()
            .name(format!("worker-{index}"))
            .spawn(move || run(settings, registry, listener, shutdown))
    });
    let threads = threads.collect::<Result<Vec<_>, _>>().context("cannot start a worker")?;
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a worker has panicked"))??;
    }
    Ok(())
}

fn run(
    settings: Arc<Settings>,
    registry: Arc<Registry>,
    listener: std::net::TcpListener,
    shutdown: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        Worker::new(settings, registry).serve(listener, shutdown).await
    })
}

fn resolve(listen: &str) -> anyhow::Result<SocketAddr> {
    let mut addresses = listen.to_socket_addrs().with_context(|| format!("cannot resolve {listen}"))?;
    addresses.next().with_context(|| format!("{listen} has no address"))
}
