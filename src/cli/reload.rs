//! SIGHUP: rereads settings and certificates.

use crate::config::{LogFormat, Settings};
use crate::context::shared::{Certificates, Shared};

/// Reads the settings, at the start and at each reload.
pub type ReadSettings = Box<dyn Fn() -> Result<(Settings, LogFormat), String> + Send>;

/// State for reading settings and certificates again.
pub struct Reload {
    /// Reads the settings.
    pub read: ReadSettings,
    /// Format of the log, which stays as it was at the start.
    pub log_format: LogFormat,
    /// State of all workers, including the settings that can change.
    pub shared: Shared,
    /// Certificates in use.
    pub certificates: Certificates,
}

impl Reload {
    /// Applies the settings that can change, and logs that all others stay. Errors come last, where an operator looks.
    pub fn again(&self) {
        match (self.read)() {
            Ok((settings, log_format)) => {
                self.adopt(settings, log_format);
                self.read_certificates();
            }
            Err(why) => {
                self.read_certificates();
                tracing::error!("SIGHUP: keeping the current settings: {why}");
            }
        }
    }

    fn read_certificates(&self) {
        match self.certificates.read_again() {
            Ok(()) if !self.certificates.are_any() => {}
            Ok(()) => tracing::info!("SIGHUP: certificates reloaded"),
            Err(why) => tracing::error!("SIGHUP: keeping the current certificates: {why}"),
        }
    }

    /// Applies new settings. By the time the lines are logged, the change is done.
    fn adopt(&self, settings: Settings, log_format: LogFormat) {
        let mut fixed = self.shared.settings.fixed_differences(&settings);
        if log_format != self.log_format {
            fixed.push("log-format");
        }
        let changed = self.shared.live().differences(&settings.live);
        if !changed.is_empty() {
            self.shared.change(settings.live);
        }
        if !fixed.is_empty() {
            let names = fixed.join(", ");
            tracing::warn!(
                "SIGHUP: {names}: cannot change while the proxy runs: the new value applies from the next start"
            );
        }
        match changed.is_empty() {
            true => tracing::info!("SIGHUP: settings reloaded, nothing changed"),
            false => {
                let names = changed.join(", ");
                tracing::info!("SIGHUP: settings reloaded, changed: {names}");
            }
        }
    }
}
