//! A proxy: one worker as it runs in production, on simulated connections.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use redlock_proxy::client::registry::Peer;
use redlock_proxy::config::{ColdStart, MasterAddr, Settings};
use redlock_proxy::context::shared::{Certificates, Shared};
use redlock_proxy::context::worker::Worker;
use redlock_proxy::decision::roster::roster::Roster;
use redlock_proxy::masters::dial::Dial;
use redlock_proxy::session::listener;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::Instant;

use super::master::Master;
use super::network::{Way, connection};
use super::socket::Socket;

/// A proxy that can die and come back.
pub struct Proxy {
    pub index: usize,
    settings: RefCell<Settings>,
    roads: Roads,
    worker: RefCell<Option<Rc<Worker>>>,
    calls: RefCell<Option<mpsc::UnboundedSender<DuplexStream>>>,
    running: RefCell<Option<JoinHandle<()>>>,
    halt: Rc<Halt>,
    /// When it was started, or died.
    pub since: Cell<Instant>,
}

/// Whether a process is stopped, and the waker to call when it resumes.
#[derive(Default)]
struct Halt {
    stopped: Cell<bool>,
    waiting: Cell<Option<Waker>>,
}

/// Connections from one proxy to every master, in the order of the list.
#[derive(Clone)]
pub struct Roads(pub Rc<[Road]>);

/// The two ways between a proxy and one master.
pub struct Road {
    pub there: Arc<Way>,
    pub back: Arc<Way>,
    pub master: Rc<Master>,
}

/// Buffer size between a client and its session.
const CLIENT_BUFFER: usize = 64 << 10;

impl Proxy {
    pub fn new(index: usize, settings: Settings, roads: Roads) -> Rc<Self> {
        let (settings, since) = (RefCell::new(settings), Cell::new(Instant::now()));
        let (worker, calls, running, halt) = Default::default();
        Rc::new(Self { index, settings, roads, worker, calls, running, halt, since })
    }

    /// Starts a new process. All its tasks are in one set and end with it.
    pub fn start(&self) {
        let shared = Shared::new(self.settings.borrow().clone(), &Certificates::default());
        let worker = Worker::new(0, shared);
        let (calls, accepted) = mpsc::unbounded_channel();
        let process = LocalSet::new();
        process.spawn_local(serve(Rc::clone(&worker), self.roads.clone(), accepted));
        *self.worker.borrow_mut() = Some(worker);
        *self.calls.borrow_mut() = Some(calls);
        *self.running.borrow_mut() =
            Some(tokio::task::spawn_local(run(process, Rc::clone(&self.halt))));
        self.since.set(Instant::now());
    }

    /// Has it found no cluster from its next start on, as befits a list that may name few of the members.
    pub fn only_join(&self) {
        self.settings.borrow_mut().cold_start = ColdStart::Join;
    }

    /// Ends the process without warning.
    pub fn kill(&self) {
        *self.worker.borrow_mut() = None;
        *self.calls.borrow_mut() = None;
        self.resume();
        if let Some(running) = self.running.borrow_mut().take() {
            running.abort();
        }
        self.since.set(Instant::now());
    }

    /// SIGSTOP: none of its tasks run while time passes.
    pub fn stop(&self) {
        self.halt.stopped.set(true);
    }

    /// SIGCONT
    pub fn resume(&self) {
        self.halt.stopped.set(false);
        if let Some(waiting) = self.halt.waiting.take() {
            waiting.wake();
        }
    }

    pub fn worker(&self) -> Option<Rc<Worker>> {
        self.worker.borrow().clone()
    }

    /// Returns the roster by which it counts votes, once it serves.
    pub fn roster(&self) -> Option<Roster> {
        let worker = self.worker()?;
        let electorate = worker.engine().electorate();
        electorate.serves().then(|| electorate.roster())
    }

    /// Returns the masters that are members, as far as it knows, once it serves.
    pub fn members(&self) -> Option<BTreeSet<usize>> {
        let worker = self.worker()?;
        let electorate = worker.engine().electorate();
        let addresses = electorate.serves().then(|| electorate.addresses())?;
        Some(addresses.iter().map(|(_, address)| at_address(address)).collect())
    }

    /// Opens a client connection, if the proxy runs.
    pub fn connect(&self) -> Option<DuplexStream> {
        let (client, session) = tokio::io::duplex(CLIENT_BUFFER);
        self.calls.borrow().as_ref()?.send(session).ok()?;
        Some(client)
    }
}

/// Runs the tasks of a process, except while it is stopped.
async fn run(mut process: LocalSet, halt: Rc<Halt>) {
    poll_fn(|context| {
        if halt.stopped.get() {
            halt.waiting.set(Some(context.waker().clone()));
            return Poll::Pending;
        }
        Pin::new(&mut process).poll(context)
    })
    .await;
}

async fn serve(
    worker: Rc<Worker>,
    roads: Roads,
    mut accepted: mpsc::UnboundedReceiver<DuplexStream>,
) {
    worker.start(roads).await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    while let Some(stream) = accepted.recv().await {
        listener::admit(stream, (Peer::Tcp(nowhere), Peer::Tcp(nowhere)), &worker);
    }
}

/// Returns the index of the master at an address.
pub fn at_address(address: &MasterAddr) -> usize {
    usize::from(address.port) - 1
}

impl Dial for Roads {
    type Stream = Socket;

    /// SYN and SYN-ACK: if either way is blocked the caller waits, as for a silent host.
    async fn dial(&self, address: &MasterAddr) -> io::Result<Socket> {
        let Road { there, back, master } = &self.0[at_address(address)];
        there.pass().await;
        let listens = master.is_running();
        back.pass().await;
        if !listens || !master.is_running() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = connection(there, back);
        master.call(theirs);
        Ok(ours)
    }
}
