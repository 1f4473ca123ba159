//! The counts of `INFO` and `LATENCY HISTOGRAM`: everything since the start, or since `CONFIG RESETSTAT`. The metrics
//! for Prometheus are never reset.

use std::collections::BTreeMap;

use super::shared::Shared;
use crate::catalogue::table;
use crate::metrics::histogram::Times;

/// All counts of a process at one moment.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Clients accepted.
    pub connections: u64,
    /// Clients rejected.
    pub rejected: u64,
    /// Clients disconnected for taking too much memory.
    pub evicted: u64,
    /// Wrong passwords.
    pub denied_logins: u64,
    /// Requests read.
    pub requests: u64,
    /// Bytes received from clients.
    pub bytes_in: u64,
    /// Bytes sent to clients.
    pub bytes_out: u64,
    /// Errors by the first word of their text.
    pub errors: BTreeMap<String, u64>,
    /// Counts by the place of the command in the table.
    pub commands: Vec<CommandStatistics>,
}

/// The counts of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandStatistics {
    /// Replies that were not errors.
    pub done: u64,
    /// Errors.
    pub failed: u64,
    /// Times that the masters took.
    pub latencies: Times,
}

impl Statistics {
    /// Returns all counts since the start.
    pub fn of(shared: &Shared) -> Self {
        let mut all = Self {
            commands: vec![CommandStatistics::default(); table::all().len()],
            ..Self::totals(shared)
        };
        for metrics in shared.all_metrics() {
            for (place, command) in all.commands.iter_mut().enumerate() {
                let (done, failed) = metrics.requests_at(place);
                command.done += done;
                command.failed += failed;
                command.latencies.add(metrics.latency(place));
            }
        }
        all
    }

    /// Returns the counts without [`Statistics::commands`], whose histograms are expensive to add up.
    pub fn totals(shared: &Shared) -> Self {
        let (connections, rejected) = shared.registry.accepted_and_rejected();
        let mut all = Self {
            connections,
            rejected,
            evicted: shared.registry.budget().evicted(),
            denied_logins: shared.registry.guesses().denied(),
            requests: shared.registry.requests(),
            ..Self::default()
        };
        for metrics in shared.all_metrics() {
            all.bytes_in += metrics.bytes_in.get();
            all.bytes_out += metrics.bytes_out.get();
            for (word, count) in metrics.errors.counts() {
                *all.errors.entry(word).or_default() += count;
            }
        }
        all
    }

    /// Returns the difference from the counts of `before`.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.connections -= before.connections;
        self.rejected -= before.rejected;
        self.evicted -= before.evicted;
        self.denied_logins -= before.denied_logins;
        self.requests -= before.requests;
        self.bytes_in -= before.bytes_in;
        self.bytes_out -= before.bytes_out;
        for (word, count) in &mut self.errors {
            *count -= before.errors.get(word).copied().unwrap_or_default();
        }
        self.errors.retain(|_, count| *count > 0);
        for (command, before) in self.commands.iter_mut().zip(&before.commands) {
            command.done -= before.done;
            command.failed -= before.failed;
            command.latencies = command.latencies.since(&before.latencies);
        }
        self
    }

    /// Returns the name and the counts of each command that was used.
    pub fn used(&self) -> impl Iterator<Item = (&'static str, &CommandStatistics)> {
        let named = table::all().iter().map(|spec| spec.name).zip(&self.commands);
        named.filter(|(_, command)| **command != CommandStatistics::default())
    }
}
