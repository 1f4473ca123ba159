//! Protocol errors in the log: one line per second at most, whatever clients send (`setProtocolError` in Redis's
//! `networking.c`).

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::registry::Client;
use crate::time::clock::{self, Instant};

/// Minimum time between two lines.
const SAY_AGAIN: Duration = Duration::from_secs(1);

/// The refused clients.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Refused>);

#[derive(Debug, Default)]
struct Refused {
    said: Option<Instant>,
    /// Clients that are not in the log yet.
    untold: u64,
}

impl Refusals {
    /// Logs why a client that has sent no request is disconnected, and the number of others since the last line.
    pub fn tell(&self, client: &Client, why: &impl Display) {
        if let Some(clients) = self.due(clock::now()) {
            tracing::info!(client = %client.address, clients, "disconnecting a client: {why}");
        }
    }

    /// Counts a client. Returns the number to log now, if it is time.
    fn due(&self, now: Instant) -> Option<u64> {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.untold += 1;
        if refused.said.is_some_and(|said| now.saturating_duration_since(said) < SAY_AGAIN) {
            return None;
        }
        refused.said = Some(now);
        Some(std::mem::take(&mut refused.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_takes_a_line_a_second() {
        let (refusals, start) = (Refusals::default(), clock::now());
        assert_eq!(refusals.due(start), Some(1));
        assert!((1..1000).all(|ms| refusals.due(start + Duration::from_millis(ms)).is_none()));
        assert_eq!(refusals.due(start + SAY_AGAIN), Some(1000));
    }
}
