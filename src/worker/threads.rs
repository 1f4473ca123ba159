//! The threads of the process, one per worker.

use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::Context as _;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::watch;

use crate::config::Settings;
use crate::context::shared::Shared;
use crate::context::worker::Worker;
use crate::handover::Handover;
use crate::handover::worker_control::Orders;
use crate::net::socket_file::SocketFile;
use crate::net::tls::server::Server;
use crate::session::listener::Listeners;

/// Serves until `shutdown` becomes true and all workers are drained, or until a successor serves. In the latter case
/// returns the successor's process id. `server` is there if clients may use TLS. As soon as clients may come, calls
/// `listening` with the listeners and the state that workers share. The listeners know, e.g., the port that the system
/// chose.
///
/// # Errors
/// Returns an error if an address cannot be listened on, a predecessor does not let go, or a worker cannot be started.
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
    let paths = settings.socket_files().chain([handover.path()]);
    paths.filter_map(SocketFile::at).collect()
}

/// Tasks run before the sockets are polled. With the length of a turn ([`TURN`](crate::client::timeslice::TURN)) this
/// bounds how long a master's answer may wait there.
const TURNS_BETWEEN_LOOKS: u32 = 16;

fn event_loop() -> std::io::Result<LocalRuntime> {
    // A `LocalSet` on a runtime would be woken through an eventfd: one system call for every turn of the event loop.
    let mut builder = Builder::new_current_thread();
    builder.enable_all().event_interval(TURNS_BETWEEN_LOOKS).build_local(LocalOptions::default())
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
    event_loop()?.block_on(async { worker().serve(listeners, orders, shutdown).await })
}

/// Runs one task to its end, on this thread.
///
/// # Errors
/// Returns an error if the event loop cannot be created.
pub fn on_one_thread<T>(task: impl Future<Output = T>) -> std::io::Result<T> {
    Ok(event_loop()?.block_on(task))
}
