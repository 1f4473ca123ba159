//! The log: to stderr, with the filter in `RUST_LOG` or the one that an operator has set since.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};

use crate::admin::LogLevel;
use crate::admin::events::Events;
use crate::config::LogFormat;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry};

/// Handles to the running log.
pub struct Log {
    /// The last events of each master, for the status page.
    pub events: Events,
    /// The level, which an operator can change.
    pub level: Arc<dyn LogLevel>,
}

/// Starts to log with this filter.
pub fn start(format: LogFormat, filter: EnvFilter) -> Log {
    let current = Mutex::new(filter.to_string());
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let lines = match format {
        LogFormat::Json => lines.json().with_filter(filter).boxed(),
        LogFormat::Text => {
            let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let is_colored = io::stderr().is_terminal() && !no_color;
            lines.with_ansi(is_colored).with_filter(filter).boxed()
        }
    };
    let events = Events::default();
    tracing_subscriber::registry().with(lines).with(events.layer()).init();
    Log { events, level: Arc::new(Level { current, handle }) }
}

/// Returns the filter in `RUST_LOG`, or everything from `info` on.
///
/// # Errors
/// Returns one sentence about the problem with it.
pub fn filter() -> Result<EnvFilter, String> {
    let directives = std::env::var("RUST_LOG").unwrap_or_default();
    let directives = if directives.is_empty() { "info" } else { &directives };
    EnvFilter::try_new(directives)
        .map_err(|why| format!("RUST_LOG `{directives}` is not valid: {why}"))
}

struct Level {
    current: Mutex<String>,
    handle: Handle<EnvFilter, Registry>,
}

impl LogLevel for Level {
    fn current(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, filter: &str) -> Result<(), String> {
        let wrong =
            |why: &dyn std::fmt::Display| format!("`{filter}` is no filter such as info: {why}");
        if filter.is_empty() {
            return Err(wrong(&"it is empty"));
        }
        let parsed = EnvFilter::try_new(filter).map_err(|why| wrong(&why))?;
        let shown = parsed.to_string();
        self.handle.reload(parsed).map_err(|why| wrong(&why))?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        tracing::info!("log filter set to {filter} from now on");
        Ok(())
    }
}
