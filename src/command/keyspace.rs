//! All keys of a database: `KEYS`, `SCAN`, `DBSIZE`, `FLUSHDB`, `FLUSHALL`.

use bytes::Bytes;

use super::options::ScanOptions;
use super::{Action, Outcome, error, operation};
use crate::client::decoder::Args;
use crate::client::reply::Reply;
use crate::client::session::Front;
use crate::operation::Kind;
use crate::operation::everywhere::{Everywhere, What};

/// `KEYS pattern`
pub(super) fn keys(front: &Front, args: Args<'_>) -> Outcome {
    ask(front, What::Keys(Bytes::copy_from_slice(args.at(1))))
}

/// `DBSIZE`
pub(super) fn dbsize(front: &Front) -> Outcome {
    ask(front, What::Count)
}

/// `FLUSHDB [ASYNC|SYNC]`, `FLUSHALL [ASYNC|SYNC]`: every lock there is, gone. Only if allowed.
pub(super) fn flush(front: &Front, args: Args<'_>, name: &str, all: bool) -> Outcome {
    let mode = args.get(1);
    let known =
        |mode: &[u8]| mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async");
    if args.len() > 2 || mode.is_some_and(|mode| !known(mode)) {
        return Err(error::SYNTAX);
    }
    if !front.worker.live().allow_flush {
        return Err(Reply::error(format!(
            "ERR '{name}' would take every lock away from its holder: start the proxy with \
             --allow-flush if that is what you want"
        )));
    }
    ask(front, What::Flush { all })
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`: all of it in one page, so that any cursor
/// but the first has nothing left.
pub(super) fn scan(front: &Front, args: Args<'_>) -> Outcome {
    let options = ScanOptions::parse(args)?;
    if options.cursor != 0 {
        let nothing = Reply::Array(Vec::new());
        return Ok(Action::Reply(Reply::Array(vec![Reply::bulk("0"), nothing])));
    }
    let pattern = Bytes::copy_from_slice(options.pattern.unwrap_or(b"*"));
    ask(front, What::Scan { pattern, kind: options.type_name.map(Bytes::copy_from_slice) })
}

/// All of it, asked of all masters.
fn ask(front: &Front, what: What) -> Outcome {
    let kind = Kind::Everywhere(Box::new(Everywhere::new(what)));
    Ok(Action::Start(operation(front, b"", kind)))
}
