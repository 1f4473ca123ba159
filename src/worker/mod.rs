//! One thread with one event loop that owns its listener, sessions and links. Nothing is shared between workers on the
//! hot path.
//!
//! * `threads` starts the workers, `shared` holds the state that all of them share;
//! * `chores`: a worker's periodic tasks; `orders`: a handover to or from another process.

mod chores;
mod orders;
mod threads;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::sync::watch;

use crate::context::worker::Worker;
use crate::data::watch::watch as watch_data;
use crate::handover::worker_control::Orders;
use crate::masters::dial::Dial;
use crate::masters::roster::keeper::Keeper;
use crate::masters::side_connection::Errands;
use crate::masters::watch::MasterWatch;
use crate::session::listener::Listeners;

pub use threads::{on_one_thread, serve};

/// Maximum time that the first clients wait for a quorum that votes.
const FIRST_CONTACT: Duration = Duration::from_secs(3);

/// Maximum time that they wait for a silent master if the others form a quorum.
const TRIAL: Duration = Duration::from_secs(1);

/// Interval at which draining checks whether the last client has left.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// Error for masters that belong to another cluster.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotServe(String);

impl Worker {
    /// Connects to the masters, serves clients until `shutdown` or until a successor does, then lets them finish.
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

    /// Resolves when the masters of a shard turn out to belong to another cluster.
    async fn refused(self: &Rc<Self>) -> String {
        let refused = self.clusters().map(|worker| Box::pin(worker.refused_by_cluster()));
        select_all(refused).await.0
    }

    async fn refused_by_cluster(&self) -> String {
        let electorate = self.engine.shared_electorate();
        loop {
            let changed = electorate.changed();
            match electorate.refusal() {
                Some(why) => return why,
                None => changed.await,
            }
        }
    }

    /// Connects to the masters. Clients may come once this returns: by then it is known which masters can be reached.
    pub async fn start(self: &Rc<Self>, dial: impl Dial + Clone) {
        self.clusters().for_each(|worker| worker.connect(dial.clone()));
        if self.is_first() {
            self.serve_clients(dial);
        }
        join_all(self.clusters().map(|worker| worker.first_contact())).await;
    }

    /// Starts the tasks that serve clients of all shards.
    fn serve_clients(self: &Rc<Self>, dial: impl Dial + Clone) {
        tokio::task::spawn_local(Rc::clone(&self.hub).see_off());
        for feed in self.hub.feeds() {
            let hub = Rc::clone(&self.hub);
            tokio::task::spawn_local(Rc::clone(feed).run(dial.clone(), hub));
        }
        if self.index == 0 {
            tokio::task::spawn_local(chores::changes(Rc::clone(self)));
            tokio::task::spawn_local(chores::timeouts(Rc::clone(self)));
            if let Some(upstream) = self.data() {
                tokio::task::spawn_local(watch_data(upstream.clone()));
            }
        }
    }

    /// Starts the tasks that run next to the sessions.
    fn connect(self: &Rc<Self>, dial: impl Dial + Clone) {
        for link in self.engine.links() {
            let link = Rc::clone(link);
            tokio::task::spawn_local(Rc::clone(&link).run(dial.clone(), Rc::clone(&self.engine)));
            let lane = Rc::clone(link.lane());
            tokio::task::spawn_local(lane.run(dial.clone(), Rc::clone(&link)));
            tokio::task::spawn_local(chores::heartbeats(link, Rc::clone(&self.engine)));
        }
        for feed in self.tracker.feeds() {
            let tracker = Rc::clone(&self.tracker);
            tokio::task::spawn_local(Rc::clone(feed).run(dial.clone(), tracker));
        }
        tokio::task::spawn_local(Rc::clone(&self.tracker).keep_time());
        tokio::task::spawn_local(chores::starts(Rc::clone(&self.engine)));
        tokio::task::spawn_local(chores::moves(Rc::clone(&self.engine)));
        tokio::task::spawn_local(chores::deadlines(Rc::clone(&self.engine)));
        tokio::task::spawn_local(chores::waits(Rc::clone(&self.engine)));
        tokio::task::spawn_local(Rc::clone(&self.engine).keep_settling());
        tokio::task::spawn_local(Rc::clone(&self.engine).keep_closing());
        tokio::task::spawn_local(chores::look_at_itself(Rc::clone(self)));
        if self.index == 0 {
            tokio::task::spawn_local(Rc::clone(&self.engine).keep_comparing());
            self.look_after_masters(dial);
        }
    }

    fn errands<D: Dial>(&self, dial: D) -> Errands<D> {
        Errands {
            dial,
            electorate: self.engine.shared_electorate(),
            quorum: self.engine.rules().quorum,
            vote_timeout: self.shared.settings.vote_timeout,
            shard: self.shared.settings.shard_place(),
            together: Arc::clone(&self.shared.together),
        }
    }

    /// Starts the tasks that watch the masters. The first worker does this for all.
    fn look_after_masters(&self, dial: impl Dial + Clone) {
        let electorate = self.engine.shared_electorate();
        tokio::task::spawn_local(Keeper::new(self.errands(dial.clone())).run());
        for link in self.engine.links() {
            let watch = MasterWatch { master: link.master(), electorate: Arc::clone(&electorate) };
            tokio::task::spawn_local(Rc::new(watch).run(dial.clone()));
        }
    }

    /// Waits until a quorum votes or it is known why none does, and every master was tried or [`TRIAL`] is over. Gives
    /// up after [`FIRST_CONTACT`].
    async fn first_contact(&self) {
        let tried = async {
            let engine = &self.engine;
            let all_tried =
                || engine.links().iter().all(|link| link.was_tried() || link.address().is_none());
            let votes = || engine.rules().quorum.reached_by(engine.voters());
            let waits = || engine.electorate().why_it_waits().is_some();
            let is_late = || self.uptime() >= TRIAL;
            while !(all_tried() || is_late()) || !(votes() || waits()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(FIRST_CONTACT, tried).await;
    }

    async fn drain(self: &Rc<Self>, limit: Duration) {
        self.clusters().for_each(|worker| worker.draining.set(true));
        self.shared.registry.wake_all();
        let connected = || self.shared.registry.connected();
        let serves = || connected() > 0 || self.clusters().any(|worker| worker.is_busy());
        let gone = async {
            while serves() || self.takes_back() {
                tokio::time::sleep(DRAIN_POLL).await;
            }
        };
        if tokio::time::timeout(limit, gone).await.is_err() && serves() {
            tracing::warn!(
                clients = connected(),
                "some clients were disconnected before they finished"
            );
        }
    }

    /// Whether masters still have to hear of something. Requests that take a lost claim back, or end a lease, go to
    /// masters even after their client has gone.
    fn is_busy(&self) -> bool {
        let delivers = || self.engine.links().iter().any(|link| link.is_up() && link.owes());
        self.engine.in_flight() > 0 || delivers()
    }

    /// Whether a worker can still take back locks on the data Redis. No other process would do that.
    fn takes_back(self: &Rc<Self>) -> bool {
        self.clusters()
            .filter_map(|worker| worker.gate.get())
            .any(|gate| gate.pending().can_be_done())
    }

    fn tell_what_was_not_taken_back(self: &Rc<Self>) {
        let gates = self.clusters().filter_map(|worker| worker.gate.get());
        let requests: usize = gates.map(|gate| gate.pending().count()).sum();
        if requests > 0 {
            tracing::warn!(requests, "not all locks were taken back from the data Redis");
        }
    }
}
