//! Numbers that grow: `INCR`, `INCRBY`, `DECR`, `DECRBY`.

use super::lock::run;
use super::number::parse_i64;
use super::table::Command;
use super::{Outcome, error};
use crate::client::decoder::Args;
use crate::client::session::Front;

/// `INCR key`, `DECR key`, `INCRBY key amount`, `DECRBY key amount`
pub(super) fn add(front: &Front, args: Args<'_>, command: Command) -> Outcome {
    if let Some(amount) = args.get(2) {
        let amount = parse_i64(amount).ok_or(error::NOT_AN_INTEGER)?;
        if command == Command::DecrBy {
            amount.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?;
        }
    }
    Ok(run(front, command, args))
}
