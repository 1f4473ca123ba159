//! `CONFIG`: the proxy's settings under their own names, and the settings that clients request of a Redis under
//! Redis's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Action, Outcome};
use crate::catalogue::error;
use crate::config::{Live, Secret};
use crate::context::caller::Caller;
use crate::resp::glob;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// `CONFIG GET|SET|RESETSTAT|REWRITE`
pub(super) fn config(caller: &Caller, args: Args<'_>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    match (&subcommand[..], args.len()) {
        (b"get", 3..) => Ok(Action::Reply(get(caller, args.from(2)))),
        (b"get", _) => Err(error::wrong_arity("config|get")),
        (b"set", 4..) => set(caller, args.from(2)),
        (b"set", _) => Err(error::wrong_arity("config|set")),
        (b"resetstat", 2) => {
            caller.worker.reset_statistics();
            Ok(Action::Reply(Reply::OK))
        }
        (b"resetstat", _) => Err(error::wrong_arity("config|resetstat")),
        (b"rewrite", 2) => Err(Reply::error("ERR The server is running without a config file")),
        (b"rewrite", _) => Err(error::wrong_arity("config|rewrite")),
        _ => Err(error::unknown_subcommand("CONFIG", args.at(1))),
    }
}

fn get(caller: &Caller, patterns: Args<'_>) -> Reply {
    let wanted =
        |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes(), true));
    let found = parameters(caller).into_iter().filter(|(name, _)| wanted(name));
    Reply::Map(found.map(|(name, value)| (Reply::bulk(name), Reply::bulk(value))).collect())
}

/// `CONFIG SET name value...`: sets all of them, or none.
fn set(caller: &Caller, words: Args<'_>) -> Outcome {
    if !words.len().is_multiple_of(2) {
        return Err(error::SYNTAX);
    }
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let names = words.iter().step_by(2).map(text);
    let values = words.iter().skip(1).step_by(2).map(text);
    let changes: Vec<(String, String)> = names.zip(values).collect();
    let known = parameters(caller);
    if let Some((name, _)) =
        changes.iter().find(|(name, _)| !known.contains_key(&*name.to_ascii_lowercase()))
    {
        return Err(error::unknown_parameter(name));
    }
    let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
    let changes: Vec<_> = changes.into_iter().map(lower).collect();
    let mut named = BTreeSet::new();
    for (name, _) in &changes {
        if !named.insert(name) {
            return Err(error::config_set_failed(name, "duplicate parameter"));
        }
    }
    let before = caller.worker.live().clone();
    let mut live = before.clone();
    for (name, value) in &changes {
        change(&mut live, name, value).map_err(|why| error::config_set_failed(name, &why))?;
    }
    let protected = caller.worker.settings().require_protection(&live);
    protected.map_err(|why| error::config_set_failed("requirepass", &why.to_string()))?;
    let changed = before.differences(&live);
    if !changed.is_empty() {
        let changed = changed.join(", ");
        tracing::info!(client = %caller.client.address, "CONFIG SET: {changed} changed until the next start");
    }
    caller.worker.change(live);
    Ok(Action::Reply(Reply::OK))
}

/// Translates Redis's name of a setting whose values Redis reads in the same way.
fn our_name(name: &str) -> &str {
    if name == "maxmemory-clients" { "max-memory-clients" } else { name }
}

/// The settings that Redis has as integers: Redis's name, the proxy's name, and the unit. Redis counts the first two in
/// seconds, and has its own name for the third.
const INTEGERS: [(&str, &str, &str); 5] = [
    ("timeout", "timeout", "s"),
    ("tcp-keepalive", "tcp-keepalive", "s"),
    ("maxclients", "max-clients", ""),
    ("slowlog-log-slower-than", "slowlog-log-slower-than", ""),
    ("slowlog-max-len", "slowlog-max-len", ""),
];

fn change(live: &mut Live, name: &str, value: &str) -> Result<(), String> {
    if name == "requirepass" {
        let password = (!value.is_empty()).then_some(value);
        live.requirepass = password.map(Secret::new);
        live.users = Arc::new(live.users.with_requirepass(password));
        return Ok(());
    }
    let integer = INTEGERS.iter().find(|(redis, ..)| *redis == name);
    let done = match integer {
        Some((_, ours, unit)) => {
            let number = parse_i64(value.as_bytes());
            let number = number.ok_or("argument couldn't be parsed into an integer")?;
            live.set(ours, &format!("{number}{unit}"))
        }
        None => live.set(our_name(name), value),
    };
    match done {
        // Redis says it in its own words.
        Some(done) if name == "notify-keyspace-events" => done,
        Some(done) => done.map_err(|why| format!("argument {why}")),
        None => Err("can't set immutable config".to_owned()),
    }
}

/// Returns all settings that can be requested.
fn parameters(caller: &Caller) -> BTreeMap<&'static str, String> {
    let (settings, live) = (caller.worker.settings(), caller.worker.live());
    let mut all = BTreeMap::from_iter(settings.fixed_fields());
    all.extend(live.fields());
    all.extend(redis_parameters(caller));
    all
}

/// Returns the settings that clients know from a Redis, with the values of one without persistence.
fn redis_parameters(caller: &Caller) -> [(&'static str, String); 15] {
    let (settings, live) = (caller.worker.settings(), caller.worker.live());
    let text = |text: &str| text.to_owned();
    let output = live.max_output_bytes;
    let password = if live.requirepass.is_some() { "***" } else { "" };
    [
        ("appendonly", text("no")),
        (
            "client-output-buffer-limit",
            format!("normal {output} 0 0 slave 0 0 0 pubsub {output} 0 0"),
        ),
        ("databases", caller.worker.databases().to_string()),
        ("latency-tracking", text("yes")),
        ("maxclients", live.max_clients.to_string()),
        ("maxmemory", text("0")),
        ("maxmemory-clients", live.max_memory_clients.to_string()),
        ("maxmemory-policy", text("noeviction")),
        ("proto-max-bulk-len", settings.max_request_bytes.to_string()),
        ("replica-read-only", text("yes")),
        ("requirepass", text(password)),
        ("save", text("")),
        ("slave-read-only", text("yes")),
        ("tcp-keepalive", live.tcp_keepalive.as_secs().to_string()),
        ("timeout", live.timeout.as_secs().to_string()),
    ]
}
