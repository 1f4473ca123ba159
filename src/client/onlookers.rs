//! Who wants to know what commands do: monitors, and subscribers to keyspace notifications.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::monitor::Monitors;
use crate::catalogue::events::EventClasses;
use crate::lua::program::Tells;

/// The onlookers of all workers.
#[derive(Debug, Default)]
pub struct Onlookers {
    monitors: Arc<Monitors>,
    /// See [`EventClasses::bits`].
    events: AtomicU16,
}

impl Onlookers {
    /// Returns the clients in `MONITOR`.
    pub fn monitors(&self) -> &Arc<Monitors> {
        &self.monitors
    }

    /// Returns the events to publish.
    #[inline]
    pub fn events(&self) -> EventClasses {
        EventClasses::of_bits(self.events.load(Ordering::Relaxed))
    }

    /// Sets the events to publish (`notify-keyspace-events`).
    pub fn set_events(&self, events: EventClasses) {
        self.events.store(events.bits(), Ordering::Relaxed);
    }

    /// Returns what a client's request must tell.
    #[inline]
    pub fn want(&self) -> Tells {
        Tells { calls: self.monitors.any(), events: self.events().is_any() }
    }
}
