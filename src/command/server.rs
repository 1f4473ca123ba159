//! Facts about the proxy, answered as a single Redis would: `ROLE`, `TIME`, `COMMAND`, ...

use std::sync::LazyLock;

use bytes::Bytes;

use super::{Action, Outcome};
use crate::acl::Categories;
use crate::acl::catalogue::{self, CommandEntry};
use crate::catalogue::key_flags::{Flags, KeyFlags};
use crate::catalogue::table::{self, Spec};
use crate::catalogue::{error, keys};
use crate::context::caller::Caller;
use crate::resp::glob;
use crate::resp::reply::{Encoded, Reply};
use crate::resp::requests::Args;

/// `ROLE`: a master without replicas.
pub(super) fn role() -> Outcome {
    let replicas = Reply::Array(Vec::new());
    Ok(Action::Reply(Reply::Array(vec![Reply::bulk("master"), Reply::Int(0), replicas])))
}

/// `TIME`
pub(super) fn time(caller: &Caller) -> Outcome {
    let micros = caller.worker.engine().rules().unix_time.micros();
    let part = |part: i64| Reply::bulk(part.to_string());
    let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
    Ok(Action::Reply(Reply::Array(vec![part(seconds), part(rest)])))
}

/// `WAIT replicas timeout`: a quorum has confirmed every write before its reply, and the masters have no replicas to
/// wait for.
pub(super) fn wait(args: Args<'_>) -> Outcome {
    use crate::resp::number::parse_i64;
    parse_i64(args.at(1)).ok_or(error::NOT_AN_INTEGER)?;
    match parse_i64(args.at(2)) {
        None => Err(error::TIMEOUT_NOT_AN_INTEGER),
        Some(..0) => Err(error::TIMEOUT_NEGATIVE),
        Some(_) => Ok(Action::Reply(Reply::Int(0))),
    }
}

/// The full reply to `COMMAND` and `COMMAND INFO`.
static INFO: LazyLock<Encoded> =
    LazyLock::new(|| Encoded::new(&Reply::Array(table::all().iter().map(info_of).collect())));

/// The full reply to `COMMAND DOCS`.
static DOCS: LazyLock<Encoded> =
    LazyLock::new(|| Encoded::new(&Reply::Map(table::all().iter().map(docs_of).collect())));

/// `COMMAND [COUNT|INFO|DOCS|LIST|GETKEYS|GETKEYSANDFLAGS]`
pub(super) fn command(args: Args<'_>) -> Outcome {
    let Some(subcommand) = args.get(1).map(<[u8]>::to_ascii_lowercase) else {
        return Ok(Action::Reply(Reply::Encoded(INFO.clone())));
    };
    let reply = match (&subcommand[..], args.len()) {
        (b"count", 2) => Reply::Int(table::all().len() as i64),
        (b"count", _) => return Err(error::wrong_arity("command|count")),
        (b"info", 2) => Reply::Encoded(INFO.clone()),
        (b"info", _) => {
            let found = args.from(2).iter().map(table::lookup);
            Reply::Array(found.map(|spec| spec.map_or(Reply::Nil, info_of)).collect())
        }
        (b"docs", 2) => Reply::Encoded(DOCS.clone()),
        (b"docs", _) => {
            let found = args.from(2).iter().filter_map(table::lookup);
            Reply::Map(found.map(docs_of).collect())
        }
        (b"list", 2) => names(|_| true),
        (b"list", 5) if args.at(2).eq_ignore_ascii_case(b"filterby") => {
            filtered(args.at(3), args.at(4))?
        }
        (b"list", _) => return Err(error::SYNTAX),
        (b"getkeys", 3..) => keys_of(args.from(2), |key, _| key)?,
        (b"getkeys", _) => return Err(error::wrong_arity("command|getkeys")),
        (b"getkeysandflags", 4..) => keys_of(args.from(2), with_flags)?,
        (b"getkeysandflags", _) => return Err(error::wrong_arity("command|getkeysandflags")),
        _ => return Err(error::unknown_subcommand("COMMAND", args.at(1))),
    };
    Ok(Action::Reply(reply))
}

/// `COMMAND LIST FILTERBY ...` (`commandListCommand` in `server.c`)
fn filtered(filter: &[u8], by: &[u8]) -> Result<Reply, Reply> {
    match &filter.to_ascii_lowercase()[..] {
        b"module" => Ok(names(|_| false)),
        b"pattern" => Ok(names(|entry| glob::matches(by, entry.name.as_bytes(), true))),
        b"aclcat" => {
            let category = Categories::named(by);
            Ok(names(|entry| category.is_some_and(|it| entry.categories.overlap(it))))
        }
        _ => Err(error::SYNTAX),
    }
}

/// Returns the names of commands, each followed by its subcommands.
fn names(wanted: impl Fn(&CommandEntry) -> bool) -> Reply {
    let of = |spec| {
        let (place, entry) = catalogue::of(spec);
        std::iter::once(place).chain(entry.subcommands.clone())
    };
    let all = table::all().iter().flat_map(of).map(|place| &catalogue::all()[place]);
    Reply::Array(all.filter(|entry| wanted(entry)).map(|entry| Reply::bulk(entry.name)).collect())
}

/// Returns one entry of `COMMAND INFO`. The parts that Redis 7 has after the categories are empty.
fn info_of(spec: &Spec) -> Reply {
    let flags = spec.flags.iter().copied().map(Reply::Simple).collect();
    let nothing = || Reply::Array(Vec::new());
    let categories = Categories::of(spec).names().map(Reply::Simple);
    Reply::Array(vec![
        Reply::bulk(spec.name),
        Reply::Int(spec.arity.into()),
        Reply::Set(flags),
        Reply::Int(spec.first_key.into()),
        Reply::Int(spec.last_key.into()),
        Reply::Int(spec.step.into()),
        Reply::Set(categories.collect()),
        nothing(),
        nothing(),
        nothing(),
    ])
}

fn docs_of(spec: &Spec) -> (Reply, Reply) {
    let docs = vec![
        (Reply::bulk("summary"), Reply::bulk(spec.summary)),
        (Reply::bulk("since"), Reply::bulk(spec.since)),
        (Reply::bulk("group"), Reply::bulk("generic")),
    ];
    (Reply::bulk(spec.name), Reply::Map(docs))
}

/// `COMMAND GETKEYS name arg...`, and `COMMAND GETKEYSANDFLAGS` with more about each key.
fn keys_of(args: Args<'_>, tell: impl Fn(Reply, Flags) -> Reply) -> Result<Reply, Reply> {
    let spec = table::lookup(args.at(0)).ok_or(Reply::error("ERR Invalid command specified"))?;
    if !spec.accepts(args.len()) {
        return Err(Reply::error("ERR Invalid number of arguments specified for command"));
    }
    let keys = match keys::checked(spec, args) {
        Some(keys) if !keys.is_empty() => keys,
        _ if spec.flags.contains(&"no_mandatory_keys") => Vec::new(),
        None => return Err(error::INVALID_KEY_ARGUMENTS),
        Some(_) => return Err(error::NO_KEY_ARGUMENTS),
    };
    let flags = KeyFlags::of(spec, args);
    let keys = keys.into_iter().map(|key| Reply::bulk(Bytes::copy_from_slice(key)));
    Ok(Reply::Array(keys.enumerate().map(|(index, key)| tell(key, flags.at(index))).collect()))
}

/// `COMMAND GETKEYSANDFLAGS`
fn with_flags(key: Reply, flags: Flags) -> Reply {
    Reply::Array(vec![key, Reply::Set(flags.iter().copied().map(Reply::Simple).collect())])
}
