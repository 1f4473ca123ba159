//! Slow requests and latencies: `SLOWLOG` and `LATENCY`.

use super::{Action, Outcome};
use crate::catalogue::{error, table};
use crate::client::slowlog::SlowlogEntry;
use crate::context::caller::Caller;
use crate::context::statistics::CommandStatistics;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// Entries shown by default (`slowlog.c`).
const SHOWN: usize = 10;

/// `SLOWLOG GET|LEN|RESET|HELP`
pub(super) fn slowlog(caller: &Caller, args: Args<'_>) -> Outcome {
    let slowlog = caller.worker.slowlog();
    let subcommand = args.at(1).to_ascii_lowercase();
    let reply = match (&subcommand[..], args.len()) {
        (b"get", 2) => entries(caller, SHOWN),
        (b"get", 3) => entries(caller, count(args.at(2))?),
        (b"get", _) => return Err(error::subcommand_syntax("SLOWLOG", args.at(1))),
        (b"len", 2) => Reply::Int(slowlog.len() as i64),
        (b"len", _) => return Err(error::wrong_arity("slowlog|len")),
        (b"reset", 2) => {
            slowlog.reset();
            Reply::OK
        }
        (b"reset", _) => return Err(error::wrong_arity("slowlog|reset")),
        _ => return Err(error::unknown_subcommand("SLOWLOG", args.at(1))),
    };
    Ok(Action::Reply(reply))
}

/// Parses a count; -1 means all entries.
fn count(word: &[u8]) -> Result<usize, Reply> {
    let refused = Reply::error("ERR count should be greater than or equal to -1");
    match parse_i64(word) {
        Some(-1) => Ok(usize::MAX),
        Some(count) => usize::try_from(count).map_err(|_| refused),
        None => Err(refused),
    }
}

fn entries(caller: &Caller, count: usize) -> Reply {
    Reply::Array(caller.worker.slowlog().latest(count).iter().map(|entry| shown(entry)).collect())
}

/// Formats an entry. The words after the key are not kept: tokens and values concern only their owners.
fn shown(entry: &SlowlogEntry) -> Reply {
    let words = vec![Reply::bulk(entry.command), Reply::bulk(entry.key.to_vec())];
    Reply::Array(vec![
        Reply::Int(entry.id as i64),
        Reply::Int(entry.unix_seconds),
        Reply::Int(entry.us as i64),
        Reply::Array(words),
        Reply::bulk(entry.address.clone()),
        Reply::bulk(entry.name.clone()),
    ])
}

/// `LATENCY HISTOGRAM [command...]`; the other subcommands answer like a Redis without a latency monitor.
pub(super) fn latency(caller: &Caller, args: Args<'_>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    let reply = match (&subcommand[..], args.len()) {
        (b"histogram", _) => histograms(caller, args.from(2)),
        (b"latest", 2) => Reply::Array(Vec::new()),
        (b"latest", _) => return Err(error::wrong_arity("latency|latest")),
        (b"history", 3) => Reply::Array(Vec::new()),
        (b"history", _) => return Err(error::wrong_arity("latency|history")),
        (b"graph", 3) => return Err(error::no_samples(args.at(2))),
        (b"reset", _) => Reply::Int(0),
        (b"doctor", 2) => Reply::Verbatim(DOCTOR.into()),
        (b"doctor", _) => return Err(error::wrong_arity("latency|doctor")),
        _ => return Err(error::unknown_subcommand("LATENCY", args.at(1))),
    };
    Ok(Action::Reply(reply))
}

fn histograms(caller: &Caller, names: Args<'_>) -> Reply {
    let wanted: Vec<_> = names.iter().filter_map(table::lookup).map(|spec| spec.name).collect();
    let statistics = caller.worker.statistics();
    let used = statistics.used().filter(|(_, command)| command.latencies.calls() > 0);
    let shown = used.filter(|(name, _)| names.is_empty() || wanted.contains(name));
    Reply::Map(shown.map(|(name, command)| (Reply::bulk(name), histogram(command))).collect())
}

fn histogram(command: &CommandStatistics) -> Reply {
    let latencies = &command.latencies;
    let int = |count: u64| Reply::Int(count as i64);
    let buckets = latencies.cumulative().map(|(us, calls)| (int(us), int(calls)));
    Reply::Map(vec![
        (Reply::bulk("calls"), int(latencies.calls())),
        (Reply::bulk("histogram_usec"), Reply::Map(buckets.collect())),
    ])
}

const DOCTOR: &str = "There is no latency monitor in redlock-proxy: see LATENCY HISTOGRAM, SLOWLOG GET, and the \
     round trips of each master in INFO redlock and the metrics.\n";
