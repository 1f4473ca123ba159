//! Commands of composite types, run as [`Spec::run`] specifies.

use std::time::Duration;

use super::program::OneCommand;
use super::{Action, Outcome, keyspace, operation, permission, stream};
use crate::catalogue::table::{Nothing, RunBy, Spec};
use crate::catalogue::{error, keys, words};
use crate::context::caller::Caller;
use crate::context::waiting::{AwaitedEvent, BlockingWait};
use crate::engine::sequential::Aside;
use crate::engine::sequential::large::Large;
use crate::engine::sequential::walk::WalkOver;
use crate::operation::verbatim_read::Query;
use crate::operation::{Kind, request};
use crate::resp::number::parse_i64;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::Args;
use crate::resp::word::is;
use crate::time::clock;

/// Runs the command that `spec` describes.
pub(super) fn run(caller: &Caller, spec: &'static Spec, args: Args<'_>) -> Outcome {
    permission::check_sort(&caller.login, spec, args)?;
    check_repeats(spec, args)?;
    match spec.run {
        RunBy::Walk => Ok(walk(caller, spec, args)),
        // The time since the delivery of entries is measured by the clock of programs.
        RunBy::Read(_) if spec.name == "xpending" && args.len() > 3 => {
            Ok(Action::Start(OneCommand::new(caller, spec, args).operation()))
        }
        RunBy::Read(nothing) if may_be_large(spec, args) => {
            Ok(read_aside(caller, spec, args, nothing))
        }
        RunBy::Read(nothing) if !is_flat_in_resp2(caller, args) => {
            Ok(read(caller, spec, args, nothing))
        }
        RunBy::Wait => wait(caller, spec, args),
        RunBy::Follow | RunBy::Deliver => stream::read(caller, spec, args),
        RunBy::Write if only_reads(spec, args) => Ok(read_aside(caller, spec, args, Nothing::List)),
        _ if args.len() > MAX_WORDS => Err(error::too_many_words(spec.name)),
        _ => Ok(Action::Start(OneCommand::new(caller, spec, args).operation())),
    }
}

fn wait(caller: &Caller, spec: &'static Spec, args: Args<'_>) -> Outcome {
    let timeout = timeout(spec, args)?;
    let command = OneCommand::new(caller, spec, args);
    let mut keys = keys::of(spec, args);
    if moves(spec) {
        keys.truncate(1);
    }
    let several = keys.iter().filter(|_| keys.len() > 1);
    let alone =
        several.map(|key| OneCommand::taking_from(caller, spec, args, key)).collect::<Vec<_>>();
    let waiting = BlockingWait {
        keys: keys.into_iter().map(Into::into).collect(),
        has_options: spec.name == "blmove" || spec.has_counted_keys(),
        db: caller.db,
        until: (timeout > 0.0).then(|| clock::now() + Duration::from_secs_f64(timeout)),
        awaited: AwaitedEvent::Element {
            first: Box::new(move || command.operation()),
            alone: alone.into_iter().map(|it| Box::new(move || it.operation()) as _).collect(),
        },
    };
    Ok(Action::Wait(Box::new(waiting)))
}

/// Whether the command changes nothing, because it does not store its result.
fn only_reads(spec: &Spec, args: Args<'_>) -> bool {
    matches!(spec.name, "sort" | "georadius" | "georadiusbymember")
        && keys::of(spec, args).len() == 1
}

/// Whether the command moves an element from its first key to its second. It does not wait for the second.
fn moves(spec: &Spec) -> bool {
    matches!(spec.name, "blmove" | "brpoplpush")
}

/// Maximum words that Lua can pass to a function (`LUAI_MAXCSTACK` in `luaconf.h`), less some for the proxy's own.
pub(super) const MAX_WORDS: usize = 7_900;

/// Returns the timeout of a blocking command in seconds; 0 for ever. Also checks the arguments that Redis checks before
/// it.
pub(super) fn timeout(spec: &Spec, args: Args<'_>) -> Result<f64, Reply> {
    match spec.name {
        "blmove" => check_ends(args.at(3), args.at(4))?,
        "blmpop" => check_pop(args, ["left", "right"])?,
        "bzmpop" => check_pop(args, ["min", "max"])?,
        _ => {}
    }
    timeout_seconds(if spec.has_counted_keys() { args.at(1) } else { args.at(args.len() - 1) })
}

/// Checks for `LEFT` or `RIGHT`, twice.
fn check_ends(from: &[u8], to: &[u8]) -> Result<(), Reply> {
    if [from, to].iter().all(|end| is(end, &["left", "right"])) {
        return Ok(());
    }
    Err(error::SYNTAX)
}

/// Checks `timeout numkeys key... end [COUNT count]` (`lmpopGenericCommand` in `t_list.c`).
fn check_pop(args: Args<'_>, ends: [&str; 2]) -> Result<(), Reply> {
    let keys = positive(args.at(2)).ok_or(error::NUMKEYS_NOT_POSITIVE)?;
    let end = keys.checked_add(3).and_then(|at| Some((at, args.get(at)?)));
    let Some((at, _)) = end.filter(|(_, end)| is(end, &ends)) else {
        return Err(error::SYNTAX);
    };
    match (args.get(at + 1), args.get(at + 2), args.len() - at) {
        (None, ..) => Ok(()),
        (Some(option), Some(count), 3) if option.eq_ignore_ascii_case(b"count") => {
            positive(count).map(drop).ok_or(error::COUNT_NOT_POSITIVE)
        }
        (Some(option), Some(count), 4..) if option.eq_ignore_ascii_case(b"count") => {
            positive(count).ok_or(error::COUNT_NOT_POSITIVE)?;
            Err(error::SYNTAX)
        }
        _ => Err(error::SYNTAX),
    }
}

fn positive(word: &[u8]) -> Option<usize> {
    parse_i64(word).and_then(|number| usize::try_from(number).ok()).filter(|number| *number > 0)
}

/// Parses a timeout like `getTimeoutFromObjectOrReply` in `timeout.c`. Redis treats an infinite value, and one beyond
/// its milliseconds, as negative.
fn timeout_seconds(word: &[u8]) -> Result<f64, Reply> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
    match number.filter(|number| !number.is_nan()) {
        None => Err(error::TIMEOUT_NOT_A_FLOAT),
        Some(..0.0 | BEYOND_MILLISECONDS..) => Err(error::TIMEOUT_NEGATIVE),
        Some(seconds) => Ok(seconds.min(LONGEST_TIMEOUT_SECONDS)),
    }
}

/// Seconds whose milliseconds exceed an `i64`.
const BEYOND_MILLISECONDS: f64 = 9_223_372_036_854_775.807;

/// A century. A clock cannot represent longer times.
const LONGEST_TIMEOUT_SECONDS: f64 = 100.0 * 365.25 * 86_400.0;

/// Whether RESP2 needs a flat reply. RESP3 nests members with their scores and fields with their values as pairs, RESP2
/// has them flat, and masters speak RESP3.
fn is_flat_in_resp2(caller: &Caller, args: Args<'_>) -> bool {
    let in_pairs = |word: &[u8]| is(word, &["withscores", "withvalues"]);
    caller.outbox.protocol() == Protocol::Resp2 && args.iter().any(in_pairs)
}

fn read(caller: &Caller, spec: &Spec, args: Args<'_>, nothing: Nothing) -> Action {
    let keys = keys::of(spec, args);
    let query = Query::new(asked(spec, args), nothing).on_keys(keys.iter().copied());
    let query = query.looking_up(looks_up(spec, args));
    let first = keys.first().copied().unwrap_or_default();
    Action::Start(operation(caller, first, Kind::Query(Box::new(query))))
}

/// Returns the request for the masters.
fn asked(spec: &Spec, args: Args<'_>) -> Box<[u8]> {
    match spec.name {
        "sort" | "sort_ro" if words::may_be_completed(spec, args) => {
            request::sort(&keys::of(spec, args), args.iter())
        }
        _ => request::of(args.iter()),
    }
}

/// Returns the client's words, if the command looks up keys that it does not name.
fn looks_up(spec: &Spec, args: Args<'_>) -> Option<Box<[u8]>> {
    words::has_patterns(spec, args).then(|| request::of(args.iter()))
}

fn read_aside(caller: &Caller, spec: &Spec, args: Args<'_>, nothing: Nothing) -> Action {
    let large = Large {
        db: caller.db,
        keys: keys::of(spec, args).into_iter().map(Into::into).collect(),
        request: asked(spec, args),
        words: looks_up(spec, args),
        nothing,
        flat: is_flat_in_resp2(caller, args),
    };
    Action::Aside(Box::new(Aside::Large(large)))
}

/// Scans a key. Errors in the options depend on whether the key exists, so the masters report them.
fn walk(caller: &Caller, spec: &Spec, args: Args<'_>) -> Action {
    let over = match spec.name {
        "hscan" => WalkOver::Hash,
        "sscan" => WalkOver::Set,
        _ => WalkOver::SortedSet,
    };
    keyspace::scan_key(caller, args, over)
        .unwrap_or_else(|| read(caller, spec, args, Nothing::Again))
}

/// Whether a master needs longer the more its keys hold. Redis indicates this by the absence of `fast`.
fn may_be_large(spec: &Spec, args: Args<'_>) -> bool {
    let is_slow = !spec.flags.contains(&"fast");
    let is_one_thing =
        matches!(spec.name, "geodist" | "geohash" | "geopos" | "lindex" | "object" | "pfcount");
    is_slow && !is_one_thing && !draws_one(spec, args) && !is_a_short_range(spec, args)
}

/// Whether the command draws one element, which takes a master no time.
fn draws_one(spec: &Spec, args: Args<'_>) -> bool {
    draws(spec) && args.len() == 2
}

/// Whether the command returns elements drawn at random.
fn draws(spec: &Spec) -> bool {
    matches!(spec.name, "hrandfield" | "srandmember" | "zrandmember")
}

/// Refuses so many draws with repeats that masters would do nothing else. The lowest `i64` is left for Redis to refuse.
fn check_repeats(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let count = args.get(2).filter(|_| draws(spec)).and_then(parse_i64);
    match count {
        Some(count) if count < -MOST_REPEATS && count > i64::MIN => {
            Err(error::too_many_repeats(MOST_REPEATS))
        }
        _ => Ok(()),
    }
}

/// Maximum elements drawn with repeats: a master takes some 0.1 s for them.
const MOST_REPEATS: i64 = 1 << 20;

/// Maximum elements from either end that are read at once.
pub(super) const SHORT_RANGE: u64 = 256;

/// Whether this is `LRANGE key start stop`, or a similar command, with positions that bound the number of elements.
fn is_a_short_range(spec: &Spec, args: Args<'_>) -> bool {
    if !matches!(spec.name, "lrange" | "zrange" | "zrevrange") {
        return false;
    }
    let position = |at| args.get(at).and_then(parse_i64);
    let (Some(start), Some(stop)) = (position(2), position(3)) else { return false };
    let by_position = args.iter().skip(4).all(|word| word.eq_ignore_ascii_case(b"withscores"));
    by_position && (start < 0) == (stop < 0) && start.abs_diff(stop) < SHORT_RANGE
}
