//! Protocol errors in the log (`setProtocolError` in Redis's `networking.c`).

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use super::line_pace::LinePace;
use super::registry::Client;
use crate::time::clock;

/// The refused clients.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<LinePace>);

impl Refusals {
    /// Logs why a client that has sent no request is disconnected, and the number of clients since the last line.
    pub fn tell(&self, client: &Client, why: &impl Display) {
        let due = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.count();
            lines.due(clock::now())
        };
        if let Some(clients) = due {
            tracing::info!(client = %client.address, clients, "disconnecting a client: {why}");
        }
    }
}
