//! `INFO`: the fields that clients use in a Redis, and a section about the masters.

use std::fmt::Write as _;

use super::{Action, Outcome};
use crate::client::registry::Peer;
use crate::context::caller::Caller;
use crate::context::statistics::CommandStatistics;
use crate::context::worker::Worker;
use crate::data::description::Description;
use crate::engine::Engine;
use crate::engine::link::Link;
use crate::metrics::{Metrics, process};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// A section's name, whether `INFO` alone shows it, and its lines.
type Section = (&'static str, bool, fn(&Caller) -> String);

/// The sections, in Redis's order. Clients such as ioredis wait for `loading:0`; others refuse a `redis_version` that
/// is not `d.d.d` or a `role` that is not `master`.
const SECTIONS: [Section; 12] = [
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, errorstats),
    ("Latencystats", false, latencystats),
    ("Cluster", true, cluster),
    ("Redlock", true, redlock),
];

/// `INFO [section...]`
pub(super) fn info(caller: &Caller, args: Args<'_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = args.from(1).iter().map(<[u8]>::to_ascii_lowercase).collect();
    let asked = |words: &[&[u8]]| wanted.iter().any(|word| words.contains(&&word[..]));
    let all = asked(&[b"all", b"everything"]);
    let default = wanted.is_empty() || asked(&[b"default"]);
    let mut text = String::new();
    for (name, is_default, section) in SECTIONS {
        let named = wanted.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if all || named || default && is_default {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{separator}# {name}\r\n{}", section(caller));
        }
    }
    Ok(Action::Reply(Reply::Verbatim(text.into_bytes().into())))
}

fn lines(fields: &[(&str, &dyn std::fmt::Display)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
}

fn server(caller: &Caller) -> String {
    let version = caller.worker.redis_version();
    let uptime = caller.worker.uptime().as_secs();
    let port = match &caller.client.local_address {
        Peer::Tcp(address) => address.port(),
        Peer::Unix(_) => 0,
    };
    lines(&[
        ("redis_version", &version),
        ("redis_mode", &"standalone"),
        ("os", &std::env::consts::OS),
        ("arch_bits", &usize::BITS),
        ("process_id", &std::process::id()),
        ("tcp_port", &port),
        ("redlock_proxy_version", &env!("CARGO_PKG_VERSION")),
        ("uptime_in_seconds", &uptime),
        ("uptime_in_days", &(uptime / 86_400)),
    ])
}

fn clients(caller: &Caller) -> String {
    let clients = caller.worker.registry().clients();
    let tracking = clients.iter().filter(|client| client.tracking().is_some()).count();
    let subscribers = clients.iter().filter(|client| client.is_subscriber()).count();
    lines(&[
        ("connected_clients", &clients.len()),
        ("cluster_connections", &0),
        ("maxclients", &caller.worker.live().max_clients),
        ("blocked_clients", &caller.worker.registry().blocked()),
        ("tracking_clients", &tracking),
        ("pubsub_clients", &subscribers),
    ])
}

fn memory(caller: &Caller) -> String {
    let usage = process::usage();
    let (used, peak) = (usage.resident_bytes, usage.peak_bytes);
    let machine = process::machine_bytes().unwrap_or_default();
    let share = 100.0 * used as f64 / peak.max(1) as f64;
    let (scripts, bytes) = caller.worker.scripts().callable();
    lines(&[
        ("used_memory", &used),
        ("used_memory_human", &human(used)),
        ("used_memory_rss", &used),
        ("used_memory_rss_human", &human(used)),
        ("used_memory_peak", &peak),
        ("used_memory_peak_human", &human(peak)),
        ("used_memory_peak_perc", &format!("{share:.2}%")),
        ("total_system_memory", &machine),
        ("total_system_memory_human", &human(machine)),
        ("used_memory_scripts_eval", &bytes),
        ("number_of_cached_scripts", &scripts),
        ("mem_clients_normal", &caller.worker.registry().budget().held()),
        ("maxmemory", &0),
        ("maxmemory_human", &human(0)),
        ("maxmemory_policy", &"noeviction"),
    ])
}

/// Formats a number of bytes for people, as Redis does (`bytesToHuman` in `util.c`).
fn human(bytes: u64) -> String {
    let unit = UNITS.iter().rposition(|(_, size)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes}B"),
        |at| format!("{:.2}{}", bytes as f64 / UNITS[at].1 as f64, UNITS[at].0),
    )
}

const UNITS: [(char, u64); 5] =
    [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40), ('P', 1 << 50)];

fn persistence(_: &Caller) -> String {
    lines(&[
        ("loading", &0),
        ("async_loading", &0),
        ("rdb_bgsave_in_progress", &0),
        ("aof_enabled", &0),
        ("aof_rewrite_in_progress", &0),
        ("aof_rewrite_scheduled", &0),
    ])
}

fn stats(caller: &Caller) -> String {
    let statistics = caller.worker.totals();
    let errors: u64 = statistics.errors.values().sum();
    lines(&[
        ("total_connections_received", &statistics.connections),
        ("total_commands_processed", &statistics.requests),
        ("instantaneous_ops_per_sec", &caller.worker.registry().requests_per_second()),
        ("total_net_input_bytes", &statistics.bytes_in),
        ("total_net_output_bytes", &statistics.bytes_out),
        ("rejected_connections", &statistics.rejected),
        ("evicted_clients", &statistics.evicted),
        ("acl_access_denied_auth", &statistics.denied_logins),
        ("total_error_replies", &errors),
    ])
}

fn replication(_: &Caller) -> String {
    lines(&[
        ("role", &"master"),
        ("connected_slaves", &0),
        ("master_failover_state", &"no-failover"),
        ("master_repl_offset", &0),
        ("second_repl_offset", &-1),
        ("repl_backlog_active", &0),
    ])
}

fn cpu(_: &Caller) -> String {
    let (system, user) = process::usage().cpu_seconds;
    let shown = |seconds: f64| format!("{seconds:.6}");
    lines(&[
        ("used_cpu_sys", &shown(system)),
        ("used_cpu_user", &shown(user)),
        // The proxy starts no other processes.
        ("used_cpu_sys_children", &shown(0.0)),
        ("used_cpu_user_children", &shown(0.0)),
    ])
}

/// Returns the lines of `commandstats`. The times are those that the masters took.
fn commandstats(caller: &Caller) -> String {
    let line = |(name, command): (&str, &CommandStatistics)| {
        let calls = command.done + command.failed;
        let (usec, timed) = (command.latencies.sum_us(), command.latencies.calls());
        let per_call = usec as f64 / timed.max(1) as f64;
        let failed = command.failed;
        format!(
            "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call:.2},\
             rejected_calls=0,failed_calls={failed}\r\n"
        )
    };
    caller.worker.statistics().used().map(line).collect()
}

fn errorstats(caller: &Caller) -> String {
    let statistics = caller.worker.totals();
    let line = |(word, count)| format!("errorstat_{word}:count={count}\r\n");
    statistics.errors.iter().map(line).collect()
}

fn latencystats(caller: &Caller) -> String {
    let line = |(name, command): (&str, &CommandStatistics)| {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| command.latencies.percentile(share));
        format!("latency_percentiles_usec_{name}:p50={p50},p99={p99},p99.9={p999}\r\n")
    };
    let statistics = caller.worker.statistics();
    let timed = statistics.used().filter(|(_, command)| command.latencies.calls() > 0);
    timed.map(line).collect()
}

fn cluster(_: &Caller) -> String {
    lines(&[("cluster_enabled", &0)])
}

/// Returns a section that Redis lacks: which masters can vote, and the updates that each has yet to receive.
fn redlock(caller: &Caller) -> String {
    caller.home.clusters().map(|worker| redlock_of(worker)).collect()
}

/// Describes one cluster. Its lines begin with the name of its shard, if there are several.
fn redlock_of(worker: &Worker) -> String {
    let engine = worker.engine();
    let of_shard = worker.settings().shard_name().map(|name| format!("{name}_"));
    let of_shard = of_shard.unwrap_or_default();
    let (quorum, roster) = (engine.rules().quorum, engine.electorate().roster());
    let facts = lines(&[
        ("worker", &worker.index()),
        ("masters", &quorum.masters()),
        ("quorum", &quorum.needed()),
        ("voters", &engine.voters().len()),
        ("operations_in_flight", &engine.in_flight()),
        ("cluster", &roster.cluster),
        ("roster_version", &roster.version),
        ("data_may_be_lost", &u8::from(engine.electorate().may_have_lost_data())),
    ]);
    let mut text: String =
        facts.split_inclusive('\n').map(|line| format!("{of_shard}{line}")).collect();
    if let Some(upstream) = worker.data().filter(|_| worker.is_first()) {
        let _ = write!(text, "data:{}\r\n", Description::of(upstream));
    }
    for link in engine.links().iter().filter(|link| link.address().is_some()) {
        let at = link.master().index();
        let fields = master_fields(engine, worker.metrics(), link);
        let _ = write!(text, "{of_shard}master{at}:{fields}\r\n");
    }
    text
}

fn master_fields(engine: &Engine, metrics: &Metrics, link: &Link) -> String {
    let (electorate, master) = (engine.electorate(), link.master());
    let standing = electorate.standing(master);
    let down = if link.is_up() { None } else { link.last_error() };
    let (state, reason) = match down {
        Some(why) => ("down", Some(why)),
        None => (standing.word(), electorate.reason(master)),
    };
    let metrics = metrics.master(master);
    let since = if link.is_up() { electorate.since(master) } else { metrics.is_up.since() };
    let (ballots, unknown) = (metrics.answered(), metrics.unknown.get());
    let fields: [(&str, &dyn std::fmt::Display); 12] = [
        ("address", &link.name()),
        ("state", &state),
        ("since_seconds", &since.elapsed().as_secs()),
        ("link", &if link.is_up() { "up" } else { "down" }),
        ("latency_us", &electorate.latency(master).as_micros()),
        ("ballots", &ballots),
        ("unknown_ballots", &unknown),
        ("copied_keys", &electorate.keys_copied(master)),
        ("version", &link.facts().map_or_else(String::new, |facts| facts.version)),
        ("deferred_releases", &link.deferred()),
        ("dropped_releases", &link.dropped()),
        ("registers_behind", &engine.rules().registers.behind.count(master)),
    ];
    let reason = reason.unwrap_or_default().replace(['\r', '\n', ','], " ");
    fields.iter().map(|(name, value)| format!("{name}={value},")).collect::<String>()
        + "reason="
        + &reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_for_people_as_redis_does() {
        for (bytes, expected) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00K"),
            (963_768, "941.18K"),
            (25_276_502_016, "23.54G"),
            (u64::MAX, "16384.00P"),
        ] {
            assert_eq!(human(bytes), expected);
        }
    }
}
