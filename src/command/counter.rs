//! Values that grow: `INCR`, `INCRBY`, `DECR`, `DECRBY`, `APPEND`.

use bytes::Bytes;

use super::lock::swap;
use super::number::parse_i64;
use super::table::Command;
use super::{Outcome, error};
use crate::client::decoder::Args;
use crate::client::session::Front;
use crate::operation::swap::Update;

/// `INCR key`, `DECR key`, `INCRBY key amount`, `DECRBY key amount`
pub(super) fn add(front: &Front, args: Args<'_>, command: Command) -> Outcome {
    let amount = || parse_i64(args.at(2)).ok_or(error::NOT_AN_INTEGER);
    let amount = match command {
        Command::Incr => 1,
        Command::Decr => -1,
        Command::DecrBy => amount()?.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?,
        _ => amount()?,
    };
    swap(front, args.at(1), Update::Add(amount))
}

/// `APPEND key value`
pub(super) fn append(front: &Front, args: Args<'_>) -> Outcome {
    swap(front, args.at(1), Update::Append(Bytes::copy_from_slice(args.at(2))))
}
