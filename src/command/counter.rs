//! Counters: `INCR`, `INCRBY`, `DECR`, `DECRBY`.

use super::Outcome;
use super::lock::run;
use crate::catalogue::error;
use crate::catalogue::table::Command;
use crate::context::caller::Caller;
use crate::resp::number::parse_i64;
use crate::resp::requests::Args;

/// `INCR key`, `DECR key`, `INCRBY key amount`, `DECRBY key amount`
pub(super) fn add(caller: &Caller, args: Args<'_>, command: Command) -> Outcome {
    if let Some(amount) = args.get(2) {
        let amount = parse_i64(amount).ok_or(error::NOT_AN_INTEGER)?;
        if command == Command::DecrBy {
            amount.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?;
        }
    }
    Ok(run(caller, command, args))
}
