//! All keys of a database: `KEYS`, `SCAN`, `DBSIZE`, `RANDOMKEY`, `FLUSHDB`, `FLUSHALL`.

use bytes::Bytes;

use super::options::ScanOptions;
use super::{Action, Outcome, operation};
use crate::catalogue::error;
use crate::context::caller::Caller;
use crate::engine::sequential::Aside;
use crate::engine::sequential::every_shard::ShardsFlush;
use crate::engine::sequential::walk::{Filter, LONGEST_PAGE, Walk, WalkExtent, WalkOver};
use crate::operation::Kind;
use crate::operation::flush::{Extent as Emptied, Flush, Pace};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// `KEYS pattern`
pub(super) fn keys(caller: &Caller, args: Args<'_>) -> Outcome {
    let filter = Filter {
        pattern: Some(Bytes::copy_from_slice(args.at(1))),
        kind: None,
        count: LONGEST_PAGE,
    };
    Ok(walk(caller, WalkOver::Keys, filter, WalkExtent::All))
}

/// `DBSIZE`
pub(super) fn dbsize(caller: &Caller) -> Outcome {
    let filter = Filter { count: LONGEST_PAGE, ..Filter::default() };
    Ok(walk(caller, WalkOver::Keys, filter, WalkExtent::Count))
}

/// `RANDOMKEY`
pub(super) fn random_key(caller: &Caller) -> Action {
    let filter = Filter { count: LONGEST_PAGE, ..Filter::default() };
    walk(caller, WalkOver::Keys, filter, WalkExtent::Any)
}

/// `FLUSHDB [ASYNC|SYNC]`, `FLUSHALL [ASYNC|SYNC]`: removes every lock, if allowed.
pub(super) fn flush(caller: &Caller, args: Args<'_>, name: &str, extent: Emptied) -> Outcome {
    let mode = args.get(1);
    if args.len() > 2 || mode.is_some_and(|mode| !is(mode, &["sync", "async"])) {
        return Err(error::SYNTAX);
    }
    if !caller.worker.live().allow_flush {
        return Err(Reply::error(format!(
            "ERR '{name}' would remove every lock from its holder: start the proxy with --allow-flush to allow it"
        )));
    }
    let pace = match mode {
        None => Pace::Usual,
        Some(mode) if is(mode, &["async"]) => Pace::Async,
        Some(_) => Pace::Sync,
    };
    if caller.home.has_shards() {
        let flush = ShardsFlush { db: caller.db, extent, pace };
        return Ok(Action::Aside(Box::new(Aside::Flush(flush))));
    }
    let kind = Kind::Flush(Box::new(Flush::new(extent, pace)));
    Ok(Action::Start(operation(caller, b"", kind)))
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`
pub(super) fn scan(caller: &Caller, args: Args<'_>) -> Outcome {
    let options = ScanOptions::parse(args, 1)?;
    Ok(walk(caller, WalkOver::Keys, filter(&options), WalkExtent::From(options.cursor)))
}

/// `HSCAN key cursor [MATCH pattern] [COUNT n]`, and `SSCAN`, `ZSCAN`. Returns `None` if the options are wrong: the
/// error depends on whether the key exists, so the masters have to report it.
pub(super) fn scan_key(
    caller: &Caller,
    args: Args<'_>,
    over: impl FnOnce(Bytes) -> WalkOver,
) -> Option<Action> {
    let options = ScanOptions::parse(args, 2).ok().filter(|options| options.type_name.is_none())?;
    let over = over(Bytes::copy_from_slice(args.at(1)));
    Some(walk(caller, over, filter(&options), WalkExtent::From(options.cursor)))
}

fn filter(options: &ScanOptions<'_>) -> Filter {
    Filter {
        pattern: options.pattern.map(Bytes::copy_from_slice),
        kind: options.type_name.map(Bytes::copy_from_slice),
        count: options.count,
    }
}

fn walk(caller: &Caller, over: WalkOver, filter: Filter, extent: WalkExtent) -> Action {
    let walk = Walk { db: caller.db, over, filter, extent };
    Action::Aside(Box::new(Aside::Walk(walk)))
}
