//! `INFO`: what clients look for in a Redis, and a section about the masters.

use std::fmt::Write as _;

use super::{Action, Outcome};
use crate::client::decoder::Args;
use crate::client::reply::Reply;
use crate::client::session::Front;
use crate::master::link::Link;
use crate::metrics::Metrics;
use crate::operation::engine::Engine;

type Section = (&'static str, fn(&Front) -> String);

/// The sections, in Redis's order. Clients such as ioredis wait for `loading:0`, others refuse a
/// `redis_version` that is not `d.d.d` or a `role` that is not `master`.
const SECTIONS: [Section; 8] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("Cluster", cluster),
    ("Redlock", redlock),
];

/// `INFO [section...]`
pub(super) fn info(front: &Front, args: Args<'_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = args.from(1).iter().map(<[u8]>::to_ascii_lowercase).collect();
    let every = |word: &Vec<u8>| matches!(&word[..], b"all" | b"everything" | b"default");
    let all = wanted.is_empty() || wanted.iter().any(every);
    let mut text = String::new();
    for (name, section) in SECTIONS {
        let named = |word: &Vec<u8>| word.eq_ignore_ascii_case(name.as_bytes());
        if all || wanted.iter().any(named) {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            let _ = write!(text, "{separator}# {name}\r\n{}", section(front));
        }
    }
    Ok(Action::Reply(Reply::Verbatim(text.into_bytes().into())))
}

fn lines(fields: &[(&str, &dyn std::fmt::Display)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
}

fn server(front: &Front) -> String {
    let version = front.worker.redis_version();
    let uptime = front.worker.uptime().as_secs();
    lines(&[
        ("redis_version", &version),
        ("redis_mode", &"standalone"),
        ("os", &std::env::consts::OS),
        ("arch_bits", &usize::BITS),
        ("process_id", &std::process::id()),
        ("redlock_proxy_version", &env!("CARGO_PKG_VERSION")),
        ("uptime_in_seconds", &uptime),
        ("uptime_in_days", &(uptime / 86_400)),
    ])
}

fn clients(front: &Front) -> String {
    lines(&[
        ("connected_clients", &front.worker.registry().connected()),
        ("maxclients", &front.worker.settings().max_clients),
        ("blocked_clients", &0),
    ])
}

fn memory(_: &Front) -> String {
    lines(&[("maxmemory", &0), ("maxmemory_policy", &"noeviction")])
}

fn persistence(_: &Front) -> String {
    lines(&[("loading", &0), ("aof_enabled", &0)])
}

fn stats(front: &Front) -> String {
    let (accepted, rejected) = front.worker.registry().accepted_and_rejected();
    lines(&[
        ("total_connections_received", &accepted),
        ("total_commands_processed", &front.worker.registry().requests()),
        ("rejected_connections", &rejected),
    ])
}

fn replication(_: &Front) -> String {
    lines(&[("role", &"master"), ("connected_slaves", &0), ("master_repl_offset", &0)])
}

fn cluster(_: &Front) -> String {
    lines(&[("cluster_enabled", &0)])
}

/// Not in Redis: who can vote, and what has still to be delivered to whom.
fn redlock(front: &Front) -> String {
    let engine = front.worker.engine();
    let quorum = engine.rules().quorum;
    let mut text = lines(&[
        ("worker", &front.worker.index()),
        ("masters", &quorum.masters()),
        ("quorum", &quorum.needed()),
        ("voters", &engine.voters().len()),
        ("operations_in_flight", &engine.in_flight()),
    ]);
    for link in engine.links() {
        let master = link.master();
        let _ = write!(
            text,
            "master{}:{}\r\n",
            master.index(),
            master_fields(engine, front.worker.metrics(), link)
        );
    }
    text
}

fn master_fields(engine: &Engine, metrics: &Metrics, link: &Link) -> String {
    let (electorate, master) = (engine.electorate(), link.master());
    let standing = electorate.standing(master);
    let down = if link.is_up() { None } else { link.last_error() };
    let (state, reason) = match down {
        Some(why) => ("down", Some(why)),
        None => (standing.word(electorate.was_looked_at(master)), standing.reason()),
    };
    let metrics = metrics.master(master);
    let (ballots, unknown) = (metrics.answered.get(), metrics.unknown.get());
    let fields: [(&str, &dyn std::fmt::Display); 12] = [
        ("address", link.address()),
        ("state", &state),
        ("since_seconds", &electorate.since(master).elapsed().as_secs()),
        ("link", &if link.is_up() { "up" } else { "down" }),
        ("latency_us", &electorate.latency(master).as_micros()),
        ("ballots", &ballots),
        ("unknown_ballots", &unknown),
        ("copied_keys", &electorate.keys_copied(master)),
        ("removed_orphans", &electorate.orphans_removed(master)),
        ("version", &link.facts().map_or_else(String::new, |facts| facts.version)),
        ("deferred_releases", &link.deferred()),
        ("dropped_releases", &link.dropped()),
    ];
    let reason = reason.unwrap_or_default().replace(['\r', '\n', ','], " ");
    fields.iter().map(|(name, value)| format!("{name}={value},")).collect::<String>()
        + "reason="
        + &reason
}
