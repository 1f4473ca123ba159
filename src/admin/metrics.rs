//! `/metrics`: all counters, in the text format of Prometheus (OpenMetrics).

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::status;
use crate::client::registry::Disconnected;
use crate::context::shared::Shared;
use crate::data::description::Description;
use crate::data::upstream::Upstream;
use crate::decision::quorum::MasterId;
use crate::masters::standing::Cause;
use crate::metrics::histogram::{Histogram, Times};
use crate::metrics::{QuestionKind, VerdictKind, process};

/// Content type of the answer to a scraper.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the current value of every metric.
///
/// # Errors
/// No error is known: the text is written to memory.
pub fn text(shared: &Shared) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("redlock");
    registry.register_collector(Box::new(All(shared.clone())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

struct All(Shared);

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all metrics")
    }
}

type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

impl Collector for All {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page { shared: &self.0, encoder };
        page.requests()?;
        page.verdicts()?;
        page.clients()?;
        page.masters()?;
        page.clocks()?;
        page.process()
    }
}

struct Page<'a, 'e> {
    shared: &'a Shared,
    encoder: DescriptorEncoder<'e>,
}

impl Page<'_, '_> {
    fn requests(&mut self) -> fmt::Result {
        let all = self.shared.all_metrics().flat_map(|metrics| metrics.requests());
        let mut sums = std::collections::BTreeMap::<_, u64>::new();
        for (command, is_error, count) in all {
            *sums.entry((command, is_error)).or_default() += count;
        }
        let mut family =
            self.counters("requests", "Requests of clients, by command and outcome.")?;
        for ((command, is_error), count) in sums {
            let outcome = if is_error { "error" } else { "ok" };
            counter(&mut family, &[("command", command), ("outcome", outcome)], count)?;
        }
        Ok(())
    }

    fn verdicts(&mut self) -> fmt::Result {
        let shared = self.shared;
        let help = "Outcome of operations, by operation.";
        let mut family =
            self.encoder.encode_descriptor("verdicts", help, None, MetricType::Counter)?;
        for question in QuestionKind::ALL {
            for outcome in VerdictKind::ALL {
                let count = status::sum(shared, |metrics| metrics.verdicts(question, outcome));
                let labels = [("operation", question.name()), ("verdict", outcome.name())];
                counter(&mut family, &labels, count)?;
            }
        }
        self.retries()?;
        let count = status::sum(shared, |metrics| metrics.rollbacks.get());
        self.counter("rollbacks", "Claims rolled back on a master.", count)?;
        let count = status::sum(shared, |metrics| metrics.turned_away.get());
        self.counter("turned_away", "Requests refused because too many wait for one key.", count)?;
        let count = status::sum(shared, |metrics| metrics.replies_differing.get());
        let help =
            "Programs to which masters gave different replies although they held the same state.";
        self.counter("replies_differing", help, count)
    }

    fn retries(&mut self) -> fmt::Result {
        let shared = self.shared;
        let split = status::sum(shared, |metrics| metrics.retries(QuestionKind::Claim));
        self.counter("split_votes", "Claim rounds that no client won.", split)?;
        let mut family = self.counters("retries", "Rounds that were retried.")?;
        for question in QuestionKind::ALL {
            let count = status::sum(shared, |metrics| metrics.retries(question));
            counter(&mut family, &[("operation", question.name())], count)?;
        }
        Ok(())
    }

    fn clients(&mut self) -> fmt::Result {
        let shared = self.shared;
        let registry = &shared.registry;
        let (accepted, rejected) = registry.accepted_and_rejected();
        let (connected, max) = (registry.connected(), shared.live().max_clients);
        self.gauge("clients", "Connected clients.", None, connected as f64)?;
        self.gauge("max_clients", "Maximum number of connected clients.", None, max as f64)?;
        self.counter("connections", "Accepted connections.", accepted)?;
        self.counter("rejected_connections", "Connections rejected by max-clients.", rejected)?;
        let denied = registry.guesses().denied();
        self.counter("denied_logins", "Logins rejected for a wrong password.", denied)?;
        let help = "Clients disconnected by the proxy, by reason.";
        let mut family = self.counters("disconnected_clients", help)?;
        for why in Disconnected::ALL {
            counter(&mut family, &[("reason", why.name())], registry.disconnections(why))?;
        }
        let (held, limit) = (registry.budget().held(), registry.budget().limit());
        let (bytes, help) = (Some(&Unit::Bytes), "Memory used by clients.");
        self.gauge("clients_memory", help, bytes, held as f64)?;
        let help = "Maximum memory of all clients; 0 means no limit.";
        self.gauge("max_clients_memory", help, bytes, limit as f64)?;
        let errors = registry.not_accepted();
        self.counter("accept_errors", "Failed calls to accept.", errors)?;
        let blocked = registry.blocked();
        self.gauge(
            "blocked_clients",
            "Clients blocked waiting for an element.",
            None,
            blocked as f64,
        )?;
        self.counter("slow_requests", "Requests recorded in SLOWLOG.", shared.slowlog.noted())?;
        let bytes = status::sum(shared, |metrics| metrics.bytes_in.get());
        self.counter("received_bytes", "Bytes received from clients.", bytes)?;
        let bytes = status::sum(shared, |metrics| metrics.bytes_out.get());
        self.counter("sent_bytes", "Bytes sent to clients.", bytes)?;
        let count = status::sum(shared, |metrics| metrics.in_flight.get());
        self.gauge("operations_in_flight", "Operations in flight on masters.", None, count as f64)
    }

    fn masters(&mut self) -> fmt::Result {
        let shared = self.shared;
        self.of_clusters("masters", "Configured masters.", |cluster| {
            status::quorum(cluster).masters() as f64
        })?;
        self.of_clusters("quorum", "Masters needed for a quorum.", |cluster| {
            status::quorum(cluster).needed() as f64
        })?;
        self.of_clusters("voters", "Masters that can vote.", |cluster| {
            status::voters(cluster).len() as f64
        })?;
        self.of_clusters("roster_version", "Version of the roster.", |cluster| {
            cluster.electorate.roster().version as f64
        })?;
        let help = "Whether a quorum had lost its state, so that data may be lost.";
        self.of_clusters("data_may_be_lost", help, |cluster| {
            f64::from(u8::from(cluster.electorate.may_have_lost_data()))
        })?;

        if let Some(data) = &shared.data {
            self.data(data)?;
        }
        self.of_masters(
            "master_up",
            "Whether a worker is connected to the master.",
            |cluster, master| f64::from(u8::from(status::is_up(cluster, master))),
        )?;
        let help = "1 for the state that a master is in.";
        let mut family = self.gauges("master_state", help, None)?;
        for (cluster, master, address) in masters(shared) {
            let current = status::state(cluster, master);
            for state in status::STATES {
                let labels = [("master", &*address), ("state", state)];
                gauge(&mut family, &labels, f64::from(u8::from(state == current)))?;
            }
        }
        let help = "Reason why a reachable master does not vote.";
        let mut family = self.gauges("master_reason", help, None)?;
        for (cluster, master, address) in masters(shared) {
            let Some(reason) = cluster.electorate.standing(master).reason() else { continue };
            gauge(&mut family, &[("master", &address), ("reason", &reason)], 1.0)?;
        }
        self.probations()?;
        self.copying()?;
        self.ballots()?;
        self.debts()
    }

    fn data(&mut self, data: &Upstream) -> fmt::Result {
        let is_up = f64::from(u8::from(Description::of(data).is_up()));
        self.gauge("data_up", "Whether the data Redis can be used.", None, is_up)?;
        let notes = data.notes();
        let help = "Lock patterns that have matched nothing for too long.";
        self.gauge("unmatched_patterns", help, None, notes.unmatched_patterns() as f64)?;
        let help = "Kinds of keys used as locks without a matching pattern.";
        self.gauge("unguarded_patterns", help, None, notes.unguarded_patterns() as f64)?;
        let help = "Commands that take or release a lock on keys without a matching pattern.";
        self.counter("unguarded_claims", help, notes.unguarded_claims())
    }

    fn probations(&mut self) -> fmt::Result {
        let shared = self.shared;
        let mut family =
            self.counters("probations", "Times that a master was put on probation, by reason.")?;
        for (cluster, master, address) in masters(shared) {
            let counts = cluster.electorate.probations(master);
            for (reason, count) in Cause::KINDS.into_iter().zip(counts) {
                counter(&mut family, &[("master", &address), ("reason", reason)], count)?;
            }
        }
        Ok(())
    }

    fn copying(&mut self) -> fmt::Result {
        let shared = self.shared;
        let help = "Keys copied back to a master on probation, and their approximate total.";
        let mut family = self.gauges("copying_keys", help, None)?;
        for (cluster, master, address) in masters(shared) {
            if !cluster.electorate.waits(master) {
                continue;
            }
            let progress = cluster.electorate.progress(master);
            let (copied, all) = progress.counts();
            for (part, keys) in [("copied", copied), ("all", all)] {
                gauge(&mut family, &[("master", &address), ("part", part)], keys as f64)?;
            }
        }
        Ok(())
    }

    fn ballots(&mut self) -> fmt::Result {
        let shared = self.shared;
        let mut family =
            self.counters("ballots", "Answers of masters, by whether they were counted.")?;
        for (cluster, master, address) in masters(shared) {
            let answered =
                status::sum_of_cluster(cluster, |metrics| metrics.master(master).answered());
            let unknown =
                status::sum_of_cluster(cluster, |metrics| metrics.master(master).unknown.get());
            counter(&mut family, &[("master", &address), ("ballot", "answered")], answered)?;
            counter(&mut family, &[("master", &address), ("ballot", "unknown")], unknown)?;
        }
        let help = "Time from a request to a master's ballot.";
        let kind = MetricType::Histogram;
        let name = "round_trip";
        let mut family = self.encoder.encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
        for (cluster, master, address) in masters(shared) {
            let all = cluster.metrics.iter().map(|metrics| &metrics.master(master).round_trip);
            histogram(&mut family, &[("master", &address)], all)?;
        }
        Ok(())
    }

    fn debts(&mut self) -> fmt::Result {
        let shared = self.shared;
        self.of_masters(
            "deferred_releases",
            "Releases still to be sent to a master.",
            |cluster, master| {
                status::sum_of_cluster(cluster, |metrics| metrics.master(master).deferred.get())
                    as f64
            },
        )?;
        let help = "Registers on which a master is known to lag behind the others.";
        self.of_masters("registers_behind", help, |cluster, master| {
            status::sum_of_cluster(cluster, |metrics| metrics.master(master).registers_behind.get())
                as f64
        })?;
        let help = "Releases dropped because the queue was full.";
        let mut family = self.counters("dropped_releases", help)?;
        for (cluster, master, address) in masters(shared) {
            let dropped =
                status::sum_of_cluster(cluster, |metrics| metrics.master(master).dropped.get());
            counter(&mut family, &[("master", &address)], dropped)?;
        }
        let mut family = self.counters("copied_keys", "Keys copied back to a master.")?;
        for (cluster, master, address) in masters(shared) {
            counter(&mut family, &[("master", &address)], cluster.electorate.keys_copied(master))?;
        }
        Ok(())
    }

    fn clocks(&mut self) -> fmt::Result {
        let shared = self.shared;
        let help = "Offset of the master's clock from the median clock.";
        let mut family = self.gauges("clock_offset", help, Some(&Unit::Seconds))?;
        for (cluster, master, address) in masters(shared) {
            let unix_time = cluster.electorate.unix_time();
            let ahead_ms = unix_time.ahead_ms(master);
            gauge(&mut family, &[("master", &address)], ahead_ms as f64 / 1000.0)?;
        }
        Ok(())
    }

    fn process(&mut self) -> fmt::Result {
        let help = "Delay of the event loop's timers.";
        let unit = Some(&Unit::Seconds);
        let mut family =
            self.encoder.encode_descriptor("event_loop_lag", help, unit, MetricType::Histogram)?;
        // The shards of a worker share its event loop.
        for (worker, metrics) in self.shared.metrics.iter().enumerate() {
            histogram(&mut family, &[("worker", &worker.to_string())], [&metrics.lag].into_iter())?;
        }
        let help = "Time from the first refusal of a client that polls for a lock to its grant.";
        let mut family =
            self.encoder.encode_descriptor("polling", help, unit, MetricType::Histogram)?;
        histogram(&mut family, &[], self.shared.all_metrics().map(|metrics| &metrics.polled))?;
        let waiting = status::sum(self.shared, |metrics| metrics.waiting.get());
        let help = "Claims of such clients that wait for a held lock.";
        self.gauge("waiting_claims", help, None, waiting as f64)?;
        let (scripts, bytes) = self.shared.scripts().size();
        self.gauge("scripts", "Scripts in the cache.", None, scripts as f64)?;
        self.gauge("scripts", "Memory of the cached scripts.", Some(&Unit::Bytes), bytes as f64)?;
        let (system, user) = process::usage().cpu_seconds;
        let help = "CPU time used by the process.";
        let unit = Some(&Unit::Seconds);
        let family =
            self.encoder.encode_descriptor("process_cpu", help, unit, MetricType::Counter)?;
        ConstCounter::new(system + user).encode(family)?;
        let resident = process::usage().resident_bytes;
        let help = "Resident memory of the process.";
        self.gauge("process_resident_memory", help, Some(&Unit::Bytes), resident as f64)?;
        let mut family = self.gauges("build_info", "Version of the running proxy.", None)?;
        gauge(&mut family, &[("version", env!("CARGO_PKG_VERSION"))], 1.0)
    }

    fn counter(&mut self, name: &str, help: &str, count: u64) -> fmt::Result {
        ConstCounter::new(count).encode(self.counters(name, help)?)
    }

    fn counters<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, None, MetricType::Counter)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
        ConstGauge::new(value).encode(self.gauges(name, help, unit)?)
    }

    fn gauges<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        unit: Option<&'s Unit>,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.encoder.encode_descriptor(name, help, unit, MetricType::Gauge)
    }

    /// Writes a gauge of each cluster, with a label for the shard if there are several.
    fn of_clusters(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&Shared) -> f64,
    ) -> fmt::Result {
        let shared = self.shared;
        if shared.settings.shards.is_empty() {
            return self.gauge(name, help, None, value(shared));
        }
        let mut family = self.gauges(name, help, None)?;
        for cluster in shared.clusters() {
            let shard = cluster.settings.shard_name().unwrap_or_default();
            gauge(&mut family, &[("shard", shard)], value(cluster))?;
        }
        Ok(())
    }

    fn of_masters(
        &mut self,
        name: &str,
        help: &str,
        value: impl Fn(&Shared, MasterId) -> f64,
    ) -> fmt::Result {
        let shared = self.shared;
        let mut family = self.gauges(name, help, None)?;
        for (cluster, master, address) in masters(shared) {
            gauge(&mut family, &[("master", &address)], value(cluster, master))?;
        }
        Ok(())
    }
}

/// Returns the masters of all clusters. No two have the same address.
fn masters(shared: &Shared) -> impl Iterator<Item = (&Shared, MasterId, String)> {
    shared.clusters().flat_map(|cluster| {
        let addresses = cluster.electorate.addresses().into_iter();
        addresses.map(move |(master, address)| (cluster, master, address.to_string()))
    })
}

fn counter<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_, N>,
    count: u64,
) -> fmt::Result {
    ConstCounter::new(count).encode(family.encode_family(labels)?)
}

fn gauge<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_, N>,
    value: f64,
) -> fmt::Result {
    ConstGauge::new(value).encode(family.encode_family(labels)?)
}

/// Encodes the sum of several histograms.
fn histogram<'a, const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &Labels<'_, N>,
    parts: impl Iterator<Item = &'a Histogram>,
) -> fmt::Result {
    let mut times = Times::default();
    parts.for_each(|part| times.add(part));
    let (sum, count) = (times.sum_us() as f64 / 1e6, times.calls());
    let buckets: Vec<_> = times.buckets().collect();
    family.encode_family(labels)?.encode_histogram::<Labels<'_, 0>>(sum, count, &buckets, None)
}
