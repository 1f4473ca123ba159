//! How the workers are told what to do with their clients, and how they say that they have done it.

use std::cell::Cell;
use std::io;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::catalogue::channel::Topic;
use crate::context::portable::Connection;
use crate::context::portable::Departure;

/// What a worker does with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It meets the masters and waits: another process still accepts.
    Starting,
    /// It accepts and serves.
    Serving,
    /// It serves those that are there.
    Closed,
    /// It lets go of them, one after the other.
    Departing,
    /// Another process serves: it ends.
    Departed,
}

/// The end of the thread that hands over.
pub(crate) struct Helm {
    phase: watch::Sender<Phase>,
    obeyed: mpsc::Receiver<Obeyed>,
    workers: Vec<UnboundedSender<Order>>,
    /// The worker that gets the next client.
    next: Cell<usize>,
    departures: mpsc::Receiver<Departure>,
}

/// The end of one worker.
pub(crate) struct Orders {
    phase: watch::Receiver<Phase>,
    obeyed: mpsc::Sender<Obeyed>,
    others: UnboundedReceiver<Order>,
    /// Where clients go that it lets go of.
    pub(crate) departures: mpsc::Sender<Departure>,
}

/// What a worker is to do.
#[derive(Debug)]
pub(crate) enum Order {
    /// With all its clients.
    Phase(Phase),
    /// With one more.
    GoOnWith(Box<Connection>),
    /// For the sake of subscribers that will come.
    Listen(Vec<Topic>),
    /// No more will come.
    StopListening,
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obeyed {
    /// It does what the phase says.
    Phase(Phase),
    /// The masters know that it listens.
    Listens,
}

/// How long a worker may take to do as it is told: some turns of its event loop, and meeting the masters first.
const OBEY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long masters may take to confirm subscriptions.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);

impl Helm {
    /// For so many workers, which begin with what `phase` says.
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

    /// Tells all workers, and waits until they have done so.
    ///
    /// # Errors
    /// One of them does not.
    pub(crate) fn order(&self, phase: Phase) -> io::Result<()> {
        self.phase.send_replace(phase);
        self.obeyed(Obeyed::Phase(phase))
    }

    /// All workers hear what subscribers are interested in that will come.
    ///
    /// # Errors
    /// One of them does not.
    pub(crate) fn listen(&self, topics: &[Topic]) -> io::Result<()> {
        self.tell(|| Order::Listen(topics.to_vec()));
        self.obeyed(Obeyed::Listens)
    }

    /// No more subscribers will come.
    pub(crate) fn stop_listening(&self) {
        self.tell(|| Order::StopListening);
    }

    fn tell(&self, order: impl Fn() -> Order) {
        for worker in &self.workers {
            // A worker that has gone has no clients any more.
            let _ = worker.send(order());
        }
    }

    /// Waits until all workers have done so.
    ///
    /// # Errors
    /// One of them does not.
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

    /// The workers go on with a client, each with the next.
    pub(crate) fn settle(&self, connection: Box<Connection>) {
        let worker = self.next.get() % self.workers.len();
        self.next.set(worker + 1);
        // A worker that has gone has no clients any more.
        let _ = self.workers[worker].send(Order::GoOnWith(connection));
    }

    /// The next client that a worker lets go of.
    pub(crate) fn departure(&self, within: Duration) -> Option<Departure> {
        self.departures.recv_timeout(within).ok()
    }
}

impl Orders {
    /// The next order; the first one is what the worker begins with.
    pub(crate) async fn next(&mut self) -> Order {
        tokio::select! {
            biased;
            Ok(()) = self.phase.changed() => Order::Phase(*self.phase.borrow_and_update()),
            Some(order) = self.others.recv() => order,
            // Nobody hands over.
            else => std::future::pending().await,
        }
    }

    /// It is done.
    pub(crate) fn obeyed(&self, phase: Phase) {
        // Where nobody hands over, nobody wants to know.
        let _ = self.obeyed.send(Obeyed::Phase(phase));
    }

    /// Says so once the masters know that this worker listens.
    pub(crate) fn listens(&self, masters_know: impl Future<Output = ()> + 'static) {
        let obeyed = self.obeyed.clone();
        tokio::task::spawn_local(async move {
            // A master that does not answer holds nobody up.
            let _ = tokio::time::timeout(LISTEN_TIMEOUT, masters_know).await;
            let _ = obeyed.send(Obeyed::Listens);
        });
    }
}

fn now() -> Instant {
    crate::time::clock::now().into_std()
}
