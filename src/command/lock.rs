//! Taking, replacing and giving back whole values: `SET`, `SETNX`, `GETSET`, `DELEX`, ...

use bytes::Bytes;

use super::options::{Base, Condition, GetexTtl, SetOptions, SetTtl, Time, Unit};
use super::table::Command;
use super::{Action, Outcome, check_ttl, error, key, operation};
use crate::client::decoder::Args;
use crate::client::reply::Reply;
use crate::client::session::Front;
use crate::config::NoTtl;
use crate::operation::claim::{Claim, How, Replies};
use crate::operation::read::Question;
use crate::operation::release::{self, Release};
use crate::operation::request::NewTtl;
use crate::operation::swap::{self, Answered, Swap, Update};
use crate::operation::{Answers, Kind};

/// `SET key value [NX | XX | IFEQ value] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL]`
pub(super) fn set(front: &Front, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let options = SetOptions::parse(args.from(3), front.unix_ms())?;
    let expired = matches!(options.ttl, SetTtl::Ms(..=0));
    if options.condition == Condition::Absent && !options.get && !expired {
        return claim(front, key, value, options.ttl, Replies::SET);
    }
    let ttl = match options.condition {
        Condition::Absent if !expired => {
            Some(lease(front, options.ttl)?.map_or(NewTtl::None, NewTtl::Millis))
        }
        _ => new_ttl(front, options.ttl)?,
    };
    let update = Update::Set {
        new: ttl.map(|ttl| (Bytes::copy_from_slice(value), ttl)),
        condition: match options.condition {
            Condition::Always => swap::Condition::Always,
            Condition::Absent => swap::Condition::Missing,
            Condition::Present => swap::Condition::Exists,
            Condition::Equal(value) => swap::Condition::Equals(Bytes::copy_from_slice(value)),
        },
        answer: if options.get { Answered::OldValue } else { Answered::Ok },
    };
    swap(front, key, update)
}

/// `SETNX key value`
pub(super) fn setnx(front: &Front, args: Args<'_>) -> Outcome {
    claim(front, args.at(1), args.at(2), SetTtl::Never, Replies::SETNX)
}

/// `SETEX key seconds value`, `PSETEX key milliseconds value`
pub(super) fn setex(front: &Front, args: Args<'_>, command: Command) -> Outcome {
    let unit = if command == Command::SetEx { Unit::Seconds } else { Unit::Milliseconds };
    let time = Time::new(args.at(2), unit, Base::Now);
    let ttl_ms = time.ttl_ms(command.spec().name, front.unix_ms())?;
    check_ttl(front, command.spec().name, ttl_ms)?;
    let ttl = NewTtl::Millis(ttl_ms);
    overwrite(front, args.at(1), args.at(3), ttl, Answered::Ok)
}

/// `GETSET key value`
pub(super) fn getset(front: &Front, args: Args<'_>) -> Outcome {
    overwrite(front, args.at(1), args.at(2), NewTtl::None, Answered::OldValue)
}

/// `GETDEL key`
pub(super) fn getdel(front: &Front, args: Args<'_>) -> Outcome {
    swap(front, args.at(1), Update::Delete)
}

/// `GETEX key [PERSIST | EX | PX | EXAT | PXAT time]`
pub(super) fn getex(front: &Front, args: Args<'_>) -> Outcome {
    let update = match GetexTtl::parse(args.from(2))? {
        GetexTtl::Unchanged => return key::read(front, args, Question::Value),
        GetexTtl::Never => Update::Expire(NewTtl::None),
        GetexTtl::Time(time) => match time.ttl_ms("getex", front.unix_ms()) {
            Ok(ttl_ms) if ttl_ms <= 0 => Update::ExpireNow,
            Ok(ttl_ms) => {
                check_ttl(front, "getex", ttl_ms)?;
                Update::Expire(NewTtl::Millis(ttl_ms))
            }
            Err(error) => Update::Refuse(error),
        },
    };
    swap(front, args.at(1), update)
}

/// `DELEX key [IFEQ value]`
pub(super) fn delex(front: &Front, args: Args<'_>) -> Outcome {
    match (args.len(), args.get(2)) {
        (2, _) => key::del(front, args),
        (4, Some(word)) if word.eq_ignore_ascii_case(b"IFEQ") => {
            Ok(release(front, args.at(1), args.at(3)))
        }
        _ => Err(error::SYNTAX),
    }
}

/// `DELIFEQ key value`
pub(super) fn delifeq(front: &Front, args: Args<'_>) -> Outcome {
    Ok(release(front, args.at(1), args.at(2)))
}

/// A swap of what `key` holds.
pub(super) fn swap(front: &Front, key: &[u8], update: Update) -> Outcome {
    Ok(Action::Start(operation(front, key, Kind::Swap(Box::new(Swap::new(update))))))
}

fn overwrite(front: &Front, key: &[u8], value: &[u8], ttl: NewTtl, answer: Answered) -> Outcome {
    let new = Some((Bytes::copy_from_slice(value), ttl));
    swap(front, key, Update::Set { new, condition: swap::Condition::Always, answer })
}

fn release(front: &Front, key: &[u8], token: &[u8]) -> Action {
    let release = Release::new(token.into(), Answers::Usual(release::Replies::COUNTING));
    Action::Start(operation(front, key, Kind::Release(release)))
}

fn claim(
    front: &Front,
    key: &[u8],
    token: &[u8],
    ttl: SetTtl,
    replies: &'static Replies,
) -> Outcome {
    let replies = Answers::Usual(replies);
    let claim = match lease(front, ttl)? {
        Some(ttl_ms) => Claim::new(token.into(), ttl_ms, How::IfFree, replies),
        None => Claim::persistent(token.into(), front.worker.provisional_ttl_ms(), replies),
    };
    Ok(Action::Start(operation(front, key, Kind::Claim(claim))))
}

/// The TTL of a new lock, `None` for one that never ends.
fn lease(front: &Front, ttl: SetTtl) -> Result<Option<i64>, Reply> {
    match ttl {
        SetTtl::Ms(ttl_ms) => check_ttl(front, "set", ttl_ms).map(|()| Some(ttl_ms)),
        // A key that does not exist yet has no TTL to keep.
        SetTtl::Never | SetTtl::Keep => match front.worker.live().no_ttl {
            NoTtl::Keep => Ok(None),
            NoTtl::Lease(lease) => {
                let ttl_ms = lease.as_millis() as i64;
                check_ttl(front, "set", ttl_ms).map(|()| Some(ttl_ms))
            }
            NoTtl::Reject => Err(Reply::error(
                "ERR a lock without a TTL is refused by --no-ttl reject: give it one with PX or EX",
            )),
        },
    }
}

/// The TTL of an overwritten value, `None` when its time has already passed: Redis
/// answers as if it had been set, and there is no key.
fn new_ttl(front: &Front, ttl: SetTtl) -> Result<Option<NewTtl>, Reply> {
    match ttl {
        SetTtl::Never => Ok(Some(NewTtl::None)),
        SetTtl::Keep => Ok(Some(NewTtl::Keep)),
        SetTtl::Ms(..=0) => Ok(None),
        SetTtl::Ms(ttl_ms) => {
            check_ttl(front, "set", ttl_ms).map(|()| Some(NewTtl::Millis(ttl_ms)))
        }
    }
}
