//! Reading and deleting: `GET`, `MGET`, `STRLEN`, `GETRANGE`, `EXISTS`, `TOUCH`, `TYPE`, `DEL`, `UNLINK`.

use super::options::Range;
use super::{Action, Outcome, operation};
use crate::client::decoder::Args;
use crate::client::outbox::Gather;
use crate::client::session::Front;
use crate::operation::Kind;
use crate::operation::read::{Question, Read};

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
    Ok(each_key(front, args, Gather::List, kind))
}

/// `EXISTS key...`, `TOUCH key...`
pub(super) fn exists(front: &Front, args: Args<'_>) -> Outcome {
    let kind = || Kind::Read(Read::new(Question::Exists));
    Ok(each_key(front, args, Gather::Sum, kind))
}

/// A read of the first key.
pub(super) fn read(front: &Front, args: Args<'_>, question: Question) -> Outcome {
    Ok(Action::Start(operation(front, args.at(1), Kind::Read(Read::new(question)))))
}

fn each_key(front: &Front, args: Args<'_>, how: Gather, kind: impl Fn() -> Kind) -> Action {
    let operations = args.from(1).iter().map(|key| operation(front, key, kind()));
    Action::Gather(how, operations.collect())
}
