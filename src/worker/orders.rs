//! A worker that takes over from another process, or hands over to one.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::DRAIN_POLL;
use crate::context::portable::PortableConnection;
use crate::context::worker::Worker;
use crate::handover::Phase;
use crate::handover::worker_control::{Order, Orders};
use crate::session::handover::go_on_with;
use crate::session::listener::Listeners;
use crate::time::clock::{self, Instant};

/// Maximum time to drain clients that could not be handed over in time.
const FAREWELL: Duration = Duration::from_secs(1);

impl Worker {
    /// Follows orders until another process serves. Returns the time at which clients began to move there.
    pub(super) async fn follow(
        self: &Rc<Self>,
        listeners: Arc<Listeners>,
        mut orders: Orders,
    ) -> anyhow::Result<Instant> {
        let _ = self.departures.set(orders.departures.clone());
        let (mut accepting, mut since) = (JoinSet::new(), clock::now());
        loop {
            let phase = match orders.next().await {
                Order::Phase(phase) => phase,
                Order::GoOnWith(connection) => {
                    self.go_on_with(connection);
                    continue;
                }
                Order::Listen(topics) => {
                    orders.listens(self.hub.expect(topics));
                    continue;
                }
                Order::StopListening => {
                    self.hub.end_journal();
                    continue;
                }
            };
            match phase {
                Phase::Starting => {}
                Phase::Serving => {
                    self.departs(false);
                    self.hub.end_journal();
                    accepting = listeners.accept(self)?;
                    self.registry().wake_all();
                }
                Phase::Closed => {
                    accepting.shutdown().await;
                }
                Phase::Departing => {
                    since = clock::now();
                    self.departs(true);
                    self.registry().wake_all();
                }
                Phase::Departed => {
                    orders.obeyed(phase);
                    return Ok(since);
                }
            }
            orders.obeyed(phase);
        }
    }

    /// Notes whether clients move to another process.
    fn departs(self: &Rc<Self>, departing: bool) {
        self.clusters().for_each(|worker| worker.departing.set(departing));
    }

    fn go_on_with(self: &Rc<Self>, connection: Box<PortableConnection>) {
        let id = connection.state.client.id;
        if let Err(why) = go_on_with(*connection, self) {
            tracing::warn!("client {id} was lost on its way from another process ({why})");
        }
    }

    /// Drains the worker after clients have been served elsewhere since `since`. Only this process knows what masters
    /// that are down, and the data Redis, are still owed. They get as much time as clients would.
    pub(super) async fn drain_after(self: &Rc<Self>, since: Instant) {
        let drain_timeout = self.live().drain_timeout;
        let limit = since + drain_timeout;
        self.drain(drain_timeout.min(FAREWELL)).await;
        let owes = || {
            let mut links = self.clusters().flat_map(|worker| worker.engine.links());
            links.any(|link| link.owes()) || self.takes_back()
        };
        while owes() && clock::now() < limit {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    }
}
