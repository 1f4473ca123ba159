//! Recent events of the masters, in words: the last lines of their part of the log, whatever the log's filter is.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event as Logged, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::time::clock;

/// Maximum events remembered.
const REMEMBERED: usize = 100;

/// Log targets of the masters' lines: the roster and the probes, and the connections of workers.
const TARGETS: [&str; 5] = [
    "redlock_proxy::masters",
    "redlock_proxy::engine::lane",
    "redlock_proxy::engine::link",
    "redlock_proxy::pubsub::subscription_link",
    "redlock_proxy::tracking::invalidation_feed",
];

/// One event.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Milliseconds of Unix time, by the clock of this host, as in the log.
    pub at_ms: u64,
    /// Whether it was logged as a warning.
    pub is_warning: bool,
    /// Address of the master that it is about, if there is one.
    pub master: String,
    /// The event in words.
    pub text: String,
}

/// The last events. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<VecDeque<Event>>>);

impl Events {
    /// Returns the events, the latest first.
    pub fn latest(&self) -> Vec<Event> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().rev().cloned().collect()
    }

    /// Returns the layer that listens to the log.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let filter = Targets::new().with_targets(TARGETS.map(|target| (target, LevelFilter::INFO)));
        Listener(self.clone()).with_filter(filter)
    }

    fn add(&self, event: Event) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() >= REMEMBERED {
            events.pop_front();
        }
        events.push_back(event);
    }
}

struct Listener(Events);

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, logged: &Logged<'_>, _: Context<'_, S>) {
        let mut event = Event {
            at_ms: u64::try_from(clock::unix_micros() / 1000).unwrap_or_default(),
            is_warning: *logged.metadata().level() <= Level::WARN,
            master: String::new(),
            text: String::new(),
        };
        logged.record(&mut Words(&mut event));
        self.0.add(event);
    }
}

struct Words<'a>(&'a mut Event);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0.text, "{value:?}"),
            "master" => write!(self.0.master, "{value:?}"),
            // Counts of 0 say nothing.
            _ if format!("{value:?}") == "0" => Ok(()),
            name => write!(self.0.text, ", {name}: {value:?}"),
        };
    }
}
