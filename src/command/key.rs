//! Reading and deleting: `GET`, `MGET`, `STRLEN`, `GETRANGE`, `EXISTS`, `TOUCH`, `TYPE`, `DEL`, `UNLINK`.

use super::options::Range;
use super::{Action, Outcome, operation};
use crate::client::decoder::Args;
use crate::client::outbox::Gather;
use crate::client::session::Front;
use crate::operation::read::{Question, Read};
use crate::operation::several::{self, Several};
use crate::operation::{Kind, register};

/// `GET key`
pub(super) fn get(front: &Front, args: Args<'_>) -> Outcome {
    read(front, args, Question::Value)
}

/// `STRLEN key`
pub(super) fn strlen(front: &Front, args: Args<'_>) -> Outcome {
    read(front, args, Question::Length)
}

/// `TYPE key`
pub(super) fn kind(front: &Front, args: Args<'_>) -> Outcome {
    read(front, args, Question::Type)
}

/// `GETRANGE key start end`
pub(super) fn getrange(front: &Front, args: Args<'_>) -> Outcome {
    let range = Range::parse(args)?;
    read(front, args, Question::Range(range))
}

/// `MGET key...`
pub(super) fn mget(front: &Front, args: Args<'_>) -> Outcome {
    let kind = || Kind::Read(Read::new(Question::ValueOrNil));
    Ok(several(front, args, several::Question::Values)
        .unwrap_or_else(|| each_key(front, args, Gather::List, kind)))
}

/// `EXISTS key...`, `TOUCH key...`
pub(super) fn exists(front: &Front, args: Args<'_>) -> Outcome {
    let kind = || Kind::Read(Read::new(Question::Exists));
    Ok(several(front, args, several::Question::Count)
        .unwrap_or_else(|| each_key(front, args, Gather::Sum, kind)))
}

/// A read at one moment, unless there are more keys than a program could have, which it may come to.
fn several(front: &Front, args: Args<'_>, question: several::Question) -> Option<Action> {
    let names = || args.from(1).iter();
    if args.len() == 2 || register::are_too_many(names()) {
        return None;
    }
    let kind = Kind::Several(Box::new(Several::new(question, names())));
    Some(Action::Start(operation(front, args.at(1), kind)))
}

/// A read of the first key.
pub(super) fn read(front: &Front, args: Args<'_>, question: Question) -> Outcome {
    Ok(Action::Start(operation(front, args.at(1), Kind::Read(Read::new(question)))))
}

fn each_key(front: &Front, args: Args<'_>, how: Gather, kind: impl Fn() -> Kind) -> Action {
    let operations = args.from(1).iter().map(|key| operation(front, key, kind()));
    Action::Gather(how, operations.collect())
}
