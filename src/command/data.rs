//! Commands of composite types, by what [`Spec::run`] says of them.

use std::time::Duration;

use super::program::OneCommand;
use super::table::{Nothing, Run, Spec};
use super::{Action, Outcome, error, keys, operation, permission};
use crate::client::decoder::Args;
use crate::client::reply::{Protocol, Reply};
use crate::client::session::Front;
use crate::client::waiting::Waiting;
use crate::clock;
use crate::operation::query::Query;
use crate::operation::{Kind, request};

/// Runs the command that `spec` describes.
pub(super) fn run(front: &Front, spec: &'static Spec, args: Args<'_>) -> Outcome {
    permission::check_sort(&front.login, spec, args)?;
    match spec.run {
        Run::Read(nothing) if !is_flat_in_resp2(front, args) => {
            Ok(read(front, spec, args, nothing))
        }
        Run::Wait => wait(front, spec, args),
        _ if args.len() > MAX_WORDS => Err(error::too_many_words(spec.name)),
        _ => Ok(Action::Start(OneCommand::new(front, spec, args).operation())),
    }
}

fn wait(front: &Front, spec: &'static Spec, args: Args<'_>) -> Outcome {
    let timeout = timeout(spec, args)?;
    let command = OneCommand::new(front, spec, args);
    let mut keys = keys::of(spec, args);
    if moves(spec) {
        keys.truncate(1);
    }
    let waiting = Waiting {
        keys: keys.into_iter().map(Into::into).collect(),
        has_options: spec.name == "blmove" || spec.has_counted_keys(),
        db: front.db,
        until: (timeout > 0.0).then(|| clock::now() + Duration::from_secs_f64(timeout)),
        attempt: Box::new(move || command.operation()),
    };
    Ok(Action::Wait(Box::new(waiting)))
}

/// Whether it puts what it takes out of its first key into its second, for which it does not wait.
fn moves(spec: &Spec) -> bool {
    matches!(spec.name, "blmove" | "brpoplpush")
}

/// So many words Lua can hand to a function (`LUAI_MAXCSTACK` in `luaconf.h`), less some for ours.
const MAX_WORDS: usize = 7_900;

/// How long a command that waits may do so, in seconds; 0: for ever.
pub(super) fn timeout(spec: &Spec, args: Args<'_>) -> Result<f64, Reply> {
    timeout_seconds(if spec.has_counted_keys() { args.at(1) } else { args.at(args.len() - 1) })
}

/// `getTimeoutFromObjectOrReply` in `timeout.c`
fn timeout_seconds(word: &[u8]) -> Result<f64, Reply> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<f64>().ok());
    match number.filter(|number| number.is_finite()) {
        None => Err(error::TIMEOUT_NOT_A_FLOAT),
        Some(seconds) if seconds > MAX_TIMEOUT_SECONDS => Err(error::TIMEOUT_OUT_OF_RANGE),
        Some(..0.0) => Err(error::TIMEOUT_NEGATIVE),
        Some(seconds) => Ok(seconds),
    }
}

/// As many milliseconds as Redis can count from its start of time, about.
const MAX_TIMEOUT_SECONDS: f64 = 9e15;

/// RESP3 has members and their scores in pairs, RESP2 has them flat; masters speak RESP3.
fn is_flat_in_resp2(front: &Front, args: Args<'_>) -> bool {
    let with_scores = |word: &[u8]| word.eq_ignore_ascii_case(b"withscores");
    front.outbox.protocol() == Protocol::Resp2 && args.iter().any(with_scores)
}

fn read(front: &Front, spec: &Spec, args: Args<'_>, nothing: Nothing) -> Action {
    let items_each = match spec.name {
        "hkeys" | "hvals" | "sscan" => 1,
        "hscan" | "zscan" => 2,
        _ => 0,
    };
    let keys = keys::of(spec, args);
    let query = Query::new(request::of(args.iter()), nothing).unordered(items_each);
    let query = query.of_many_keys(keys.len() != 1);
    let first = keys.first().copied().unwrap_or_default();
    Action::Start(operation(front, first, Kind::Query(Box::new(query))))
}
