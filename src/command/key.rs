//! Reading and deleting: `GET`, `MGET`, `STRLEN`, `GETRANGE`, `EXISTS`, `TOUCH`, `TYPE`, `DEL`, `UNLINK`.

use super::{Action, Outcome, operation};
use crate::client::outbox::Gather;
use crate::context::caller::Caller;
use crate::operation::multi_read::{self, Several};
use crate::operation::read::{Question, Read};
use crate::operation::value_range::ValueRange;
use crate::operation::{Kind, register};
use crate::resp::requests::Args;

/// `GET key`
pub(super) fn get(caller: &Caller, args: Args<'_>) -> Outcome {
    read(caller, args, Question::Value)
}

/// `STRLEN key`
pub(super) fn strlen(caller: &Caller, args: Args<'_>) -> Outcome {
    read(caller, args, Question::Length)
}

/// `TYPE key`
pub(super) fn kind(caller: &Caller, args: Args<'_>) -> Outcome {
    read(caller, args, Question::Type)
}

/// `GETRANGE key start end`
pub(super) fn getrange(caller: &Caller, args: Args<'_>) -> Outcome {
    let range = ValueRange::parse(args)?;
    read(caller, args, Question::Range(Box::new(range)))
}

/// `MGET key...`
pub(super) fn mget(caller: &Caller, args: Args<'_>) -> Outcome {
    let kind = || Kind::Read(Read::new(Question::ValueOrNil));
    Ok(several(caller, args, multi_read::Question::Values)
        .unwrap_or_else(|| each_key(caller, args, Gather::List, kind)))
}

/// `EXISTS key...`, `TOUCH key...`
pub(super) fn exists(caller: &Caller, args: Args<'_>) -> Outcome {
    let kind = || Kind::Read(Read::new(Question::Exists));
    Ok(several(caller, args, multi_read::Question::Count)
        .unwrap_or_else(|| each_key(caller, args, Gather::Sum, kind)))
}

/// Returns a read of all keys at one moment. Returns `None` for a single key, and for more keys than a program can
/// have: the read may have to become a program.
fn several(caller: &Caller, args: Args<'_>, question: multi_read::Question) -> Option<Action> {
    let names = || args.from(1).iter();
    if args.len() == 2 || register::are_too_many(names()) {
        return None;
    }
    let kind = Kind::Several(Box::new(Several::new(question, names())));
    Some(Action::Start(operation(caller, args.at(1), kind)))
}

/// Returns a read of the first key.
pub(super) fn read(caller: &Caller, args: Args<'_>, question: Question) -> Outcome {
    Ok(Action::Start(operation(caller, args.at(1), Kind::Read(Read::new(question)))))
}

fn each_key(caller: &Caller, args: Args<'_>, how: Gather, kind: impl Fn() -> Kind) -> Action {
    let operations = args.from(1).iter().map(|key| operation(caller, key, kind()));
    Action::Gather(how, operations.collect())
}
