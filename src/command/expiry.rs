//! Times to live: `TTL`, `PTTL`, `EXPIRETIME`, the `EXPIRE` family, `PERSIST`.

use super::options::ExpireOptions;
use super::table::Command;
use super::{Action, Outcome, check_ttl, key, operation};
use crate::client::decoder::Args;
use crate::client::session::Front;
use crate::operation::Kind;
use crate::operation::change::{Change, Replies, What};
use crate::operation::read::{Question, Unit};

/// `TTL key`, `PTTL key`, `EXPIRETIME key`, `PEXPIRETIME key`
pub(super) fn ttl(front: &Front, args: Args<'_>, command: Command) -> Outcome {
    let question = match command {
        Command::Ttl => Question::Remaining(Unit::Seconds),
        Command::Pttl => Question::Remaining(Unit::Millis),
        Command::ExpireTime => Question::End(Unit::Seconds),
        _ => Question::End(Unit::Millis),
    };
    key::read(front, args, question)
}

/// `EXPIRE key seconds [NX | XX | GT | LT]` and its siblings
pub(super) fn expire(front: &Front, args: Args<'_>, command: Command) -> Outcome {
    let options = ExpireOptions::parse(command, args, front.unix_ms())?;
    check_ttl(front, command.spec().name, options.ttl_ms)?;
    let words = [(options.nx, "NX"), (options.xx, "XX"), (options.gt, "GT"), (options.lt, "LT")];
    let conditions = words.into_iter().filter(|(given, _)| *given).map(|(_, word)| word);
    let what = What::Expire { ttl_ms: options.ttl_ms, conditions: conditions.collect() };
    Ok(change(front, args.at(1), what))
}

/// `PERSIST key`
pub(super) fn persist(front: &Front, args: Args<'_>) -> Outcome {
    Ok(change(front, args.at(1), What::Persist))
}

fn change(front: &Front, key: &[u8], what: What) -> Action {
    Action::Start(operation(front, key, Kind::Change(Change::new(what, Replies::counting()))))
}
