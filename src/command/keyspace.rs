//! All keys of a database: `KEYS`, `SCAN`, `DBSIZE`, `RANDOMKEY`, `FLUSHDB`, `FLUSHALL`.

use bytes::Bytes;

use super::options::ScanOptions;
use super::word::is;
use super::{Action, Outcome, error, operation};
use crate::client::decoder::Args;
use crate::client::reply::Reply;
use crate::client::session::Front;
use crate::operation::Kind;
use crate::operation::aside::Aside;
use crate::operation::flush::{Extent as Emptied, Flush, Pace};
use crate::operation::walk::{Extent, Filter, LONGEST_PAGE, Over, Walk};

/// `KEYS pattern`
pub(super) fn keys(front: &Front, args: Args<'_>) -> Outcome {
    let filter = Filter {
        pattern: Some(Bytes::copy_from_slice(args.at(1))),
        kind: None,
        count: LONGEST_PAGE,
    };
    Ok(walk(front, Over::Keys, filter, Extent::All))
}

/// `DBSIZE`
pub(super) fn dbsize(front: &Front) -> Outcome {
    let filter = Filter { count: LONGEST_PAGE, ..Filter::default() };
    Ok(walk(front, Over::Keys, filter, Extent::Count))
}

/// `RANDOMKEY`
pub(super) fn random_key(front: &Front) -> Action {
    let filter = Filter { count: LONGEST_PAGE, ..Filter::default() };
    walk(front, Over::Keys, filter, Extent::Any)
}

/// `FLUSHDB [ASYNC|SYNC]`, `FLUSHALL [ASYNC|SYNC]`: every lock there is, gone. Only if allowed.
pub(super) fn flush(front: &Front, args: Args<'_>, name: &str, extent: Emptied) -> Outcome {
    let mode = args.get(1);
    if args.len() > 2 || mode.is_some_and(|mode| !is(mode, &["sync", "async"])) {
        return Err(error::SYNTAX);
    }
    if !front.worker.live().allow_flush {
        return Err(Reply::error(format!(
            "ERR '{name}' would take every lock away from its holder: start the proxy with \
             --allow-flush if that is what you want"
        )));
    }
    let pace = match mode {
        None => Pace::Usual,
        Some(mode) if is(mode, &["async"]) => Pace::Async,
        Some(_) => Pace::Sync,
    };
    let kind = Kind::Flush(Box::new(Flush::new(extent, pace)));
    Ok(Action::Start(operation(front, b"", kind)))
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`
pub(super) fn scan(front: &Front, args: Args<'_>) -> Outcome {
    let options = ScanOptions::parse(args, 1)?;
    Ok(walk(front, Over::Keys, filter(&options), Extent::From(options.cursor)))
}

/// `HSCAN key cursor [MATCH pattern] [COUNT n]`, and `SSCAN`, `ZSCAN`. What is wrong with the options depends on whether
/// the key exists; masters tell.
pub(super) fn scan_key(
    front: &Front,
    args: Args<'_>,
    over: impl FnOnce(Bytes) -> Over,
) -> Option<Action> {
    let options = ScanOptions::parse(args, 2).ok().filter(|options| options.type_name.is_none())?;
    let over = over(Bytes::copy_from_slice(args.at(1)));
    Some(walk(front, over, filter(&options), Extent::From(options.cursor)))
}

fn filter(options: &ScanOptions<'_>) -> Filter {
    Filter {
        pattern: options.pattern.map(Bytes::copy_from_slice),
        kind: options.type_name.map(Bytes::copy_from_slice),
        count: options.count,
    }
}

fn walk(front: &Front, over: Over, filter: Filter, extent: Extent) -> Action {
    let walk = Walk { db: front.db, over, filter, extent };
    Action::Aside(Box::new(Aside::Walk(walk)))
}
