//! Orders to the workers about their clients, and the workers' acknowledgements.

use std::cell::Cell;
use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::catalogue::channel::Topic;
use crate::context::portable::Departure;
use crate::context::portable::PortableConnection;

/// A worker's treatment of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It meets the masters and waits: another process still accepts.
    Starting,
    /// It accepts and serves.
    Serving,
    /// It serves the clients that are there.
    Closed,
    /// It releases clients, one after the other.
    Departing,
    /// Another process serves: it ends.
    Departed,
}

/// The handover thread's side of the channels.
pub(crate) struct Helm {
    phase: watch::Sender<Phase>,
    obeyed: mpsc::Receiver<Obeyed>,
    workers: Vec<UnboundedSender<Order>>,
    /// The worker that gets the next client.
    next: Cell<usize>,
    departures: mpsc::Receiver<Departure>,
}

/// A worker's side of the channels.
pub(crate) struct Orders {
    phase: watch::Receiver<Phase>,
    obeyed: mpsc::Sender<Obeyed>,
    others: UnboundedReceiver<Order>,
    /// Channel for the clients that it releases.
    pub(crate) departures: mpsc::Sender<Departure>,
}

/// An order to a worker.
#[derive(Debug)]
pub(crate) enum Order {
    /// Treat all clients like this.
    Phase(Phase),
    /// Take over one more client.
    GoOnWith(Box<PortableConnection>),
    /// Listen to these topics, for subscribers that will come.
    Listen(Vec<Topic>),
    /// Stop listening: no more subscribers will come.
    StopListening,
}

/// An acknowledgement of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obeyed {
    /// It follows this phase.
    Phase(Phase),
    /// The masters know that it listens.
    Listens,
}

/// Maximum time for a worker to obey: some turns of its event loop, after meeting the masters.
const OBEY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for masters to confirm subscriptions.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);

impl Helm {
    /// Returns the channels for this many workers, which start in `phase`.
    pub(crate) fn new(phase: watch::Sender<Phase>, workers: usize) -> (Self, Vec<Orders>) {
        let (obeyed_by, obeyed) = mpsc::channel();
        let (departures_to, departures) = mpsc::channel();
        let one = |_| {
            let (others_to, others) = unbounded_channel();
            let mut phase = phase.subscribe();
            phase.mark_changed();
            let (obeyed, departures) = (obeyed_by.clone(), departures_to.clone());
            (others_to, Orders { phase, obeyed, others, departures })
        };
        let (workers, orders) = (0..workers).map(one).unzip();
        (Self { phase, obeyed, workers, next: Cell::new(0), departures }, orders)
    }

    /// Orders all workers to follow `phase`, and waits until they do.
    ///
    /// # Errors
    /// Returns an error if one of them does not.
    pub(crate) fn order(&self, phase: Phase) -> io::Result<()> {
        self.phase.send_replace(phase);
        self.obeyed(Obeyed::Phase(phase))
    }

    /// Makes all workers listen to the topics of subscribers that will come.
    ///
    /// # Errors
    /// Returns an error if one of them does not.
    pub(crate) fn listen(&self, topics: &[Topic]) -> io::Result<()> {
        self.tell(|| Order::Listen(topics.to_vec()));
        self.obeyed(Obeyed::Listens)
    }

    /// Makes all workers stop listening: no more subscribers will come.
    pub(crate) fn stop_listening(&self) {
        self.tell(|| Order::StopListening);
    }

    fn tell(&self, order: impl Fn() -> Order) {
        for worker in &self.workers {
            // A worker that is gone has no clients any more.
            let _ = worker.send(order());
        }
    }

    /// Waits until all workers have acknowledged this.
    ///
    /// # Errors
    /// Returns an error if one of them does not.
    pub(crate) fn obeyed(&self, what: Obeyed) -> io::Result<()> {
        let limit = now() + OBEY_TIMEOUT;
        let mut missing = self.workers.len();
        while missing > 0 {
            let left = limit.saturating_duration_since(now());
            match self.obeyed.recv_timeout(left) {
                Ok(done) => missing -= usize::from(done == what),
                Err(_) => return Err(io::Error::other("not all workers answer")),
            }
        }
        Ok(())
    }

    /// Gives a client to a worker, to each in turn.
    pub(crate) fn settle(&self, connection: Box<PortableConnection>) {
        let worker = self.next.get() % self.workers.len();
        self.next.set(worker + 1);
        // A worker that is gone has no clients any more.
        let _ = self.workers[worker].send(Order::GoOnWith(connection));
    }

    /// Returns the next client that a worker releases.
    pub(crate) fn departure(&self, within: Duration) -> Option<Departure> {
        self.departures.recv_timeout(within).ok()
    }
}

impl Orders {
    /// Returns the next order; the first one is the phase to start in.
    pub(crate) async fn next(&mut self) -> Order {
        tokio::select! {
            biased;
            Ok(()) = self.phase.changed() => Order::Phase(*self.phase.borrow_and_update()),
            Some(order) = self.others.recv() => order,
            // No handover thread is left.
            else => std::future::pending().await,
        }
    }

    /// Acknowledges a phase.
    pub(crate) fn obeyed(&self, phase: Phase) {
        // Without a handover nothing receives this.
        let _ = self.obeyed.send(Obeyed::Phase(phase));
    }

    /// Sends the acknowledgement once the masters know that this worker listens.
    pub(crate) fn listens(&self, masters_know: impl Future<Output = ()> + 'static) {
        let obeyed = self.obeyed.clone();
        tokio::task::spawn_local(async move {
            // A master that does not answer must not delay this.
            let _ = tokio::time::timeout(LISTEN_TIMEOUT, masters_know).await;
            let _ = obeyed.send(Obeyed::Listens);
        });
    }
}

fn now() -> Instant {
    crate::time::clock::now().into_std()
}
