//! Times to live: `TTL`, `PTTL`, `EXPIRETIME`, the `EXPIRE` family.

use super::options::ExpireOptions;
use super::{Outcome, check_ttl, key, lock};
use crate::catalogue::table::Command;
use crate::context::caller::Caller;
use crate::operation::lock_request::LockRequest;
use crate::operation::read::{Question, TtlUnit};
use crate::resp::requests::Args;

/// `TTL key`, `PTTL key`, `EXPIRETIME key`, `PEXPIRETIME key`
pub(super) fn ttl(caller: &Caller, args: Args<'_>, command: Command) -> Outcome {
    let question = match command {
        Command::Ttl => Question::Remaining(TtlUnit::Seconds),
        Command::Pttl => Question::Remaining(TtlUnit::Millis),
        Command::ExpireTime => Question::End(TtlUnit::Seconds),
        _ => Question::End(TtlUnit::Millis),
    };
    key::read(caller, args, question)
}

/// `EXPIRE key seconds [NX | XX | GT | LT]` and its siblings
pub(super) fn expire(caller: &Caller, args: Args<'_>, command: Command) -> Outcome {
    let options = ExpireOptions::parse(command, args, || caller.unix_ms())?;
    check_ttl(caller, command.spec().name, options.ttl_ms)?;
    let words = || {
        let flags =
            [(options.nx, "NX"), (options.xx, "XX"), (options.gt, "GT"), (options.lt, "LT")];
        flags.into_iter().filter_map(|(is_set, word)| is_set.then_some(word)).collect()
    };
    let wish = || LockRequest::Expire(options.ttl_ms, words());
    Ok(lock::run_for_lock(caller, command, args, wish))
}
