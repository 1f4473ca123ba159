//! Taking, replacing and releasing whole values: `SET`, `SETNX`, `GETSET`, `DELEX`, ...

use super::options::{Base, Condition, GetexTtl, SetOptions, SetTtl, Time, TimeUnit};
use super::program::OneCommand;
use super::{Action, Outcome, check_ttl, key, operation};
use crate::catalogue::error;
use crate::catalogue::table::Command;
use crate::config::NoTtl;
use crate::context::caller::Caller;
use crate::operation::claim::{Claim, How, Replies};
use crate::operation::lock_request::LockRequest;
use crate::operation::read::Question;
use crate::operation::release::{self, Release};
use crate::operation::request::Number;
use crate::operation::{Answers, Kind, Operation};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// `SET key value [NX | XX | IFEQ value] [GET] [EX | PX | EXAT | PXAT time | KEEPTTL]`
pub(super) fn set(caller: &Caller, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let options = SetOptions::parse(args.from(3), || caller.unix_ms())?;
    let expired = matches!(options.ttl, SetTtl::Ms(..=0));
    if options.condition == Condition::Absent && !options.get && !expired {
        return claim(caller, Command::Set, args, options.ttl, Replies::SET);
    }
    if options.condition == Condition::Absent && !expired {
        return create(caller, key, value, options.ttl);
    }
    if let SetTtl::Ms(ttl_ms) = options.ttl {
        check_ttl(caller, "set", ttl_ms)?;
    }
    Ok(run(caller, Command::Set, args))
}

/// `SET key value NX GET`
fn create(caller: &Caller, key: &[u8], value: &[u8], ttl: SetTtl) -> Outcome {
    let mut words = vec![&b"SET"[..], key, value, b"NX", b"GET"];
    let mut digits = Number::default();
    if let Some(ttl_ms) = lease(caller, ttl)? {
        words.extend([b"PX", digits.digits(ttl_ms)]);
    }
    Ok(Action::Start(OneCommand::on_key(caller, key, &words).operation()))
}

/// `SETNX key value`
pub(super) fn setnx(caller: &Caller, args: Args<'_>) -> Outcome {
    claim(caller, Command::SetNx, args, SetTtl::Never, Replies::SETNX)
}

/// `SETEX key seconds value`, `PSETEX key milliseconds value`
pub(super) fn setex(caller: &Caller, args: Args<'_>, command: Command) -> Outcome {
    let unit = if command == Command::SetEx { TimeUnit::Seconds } else { TimeUnit::Milliseconds };
    let time = Time::new(args.at(2), unit, Base::Now);
    let ttl_ms = time.ttl_ms(command.spec().name, || caller.unix_ms())?;
    check_ttl(caller, command.spec().name, ttl_ms)?;
    Ok(run(caller, command, args))
}

/// `GETEX key [PERSIST | EX | PX | EXAT | PXAT time]`
pub(super) fn getex(caller: &Caller, args: Args<'_>) -> Outcome {
    match GetexTtl::parse(args.from(2))? {
        GetexTtl::Unchanged => return key::read(caller, args, Question::Value),
        GetexTtl::Never => {}
        GetexTtl::Time(time) => {
            if let Ok(ttl_ms) = time.ttl_ms("getex", || caller.unix_ms()) {
                check_ttl(caller, "getex", ttl_ms)?;
            }
        }
    }
    Ok(run(caller, Command::GetEx, args))
}

/// `DELEX key [IFEQ value]`
pub(super) fn delex(caller: &Caller, args: Args<'_>) -> Outcome {
    match (args.len(), args.get(2)) {
        (2, _) => Ok(delete_one(caller, args.at(1))),
        (4, Some(word)) if word.eq_ignore_ascii_case(b"IFEQ") => {
            Ok(release(caller, args.at(1), args.at(3)))
        }
        _ => Err(error::SYNTAX),
    }
}

/// `DELIFEQ key value`
pub(super) fn delifeq(caller: &Caller, args: Args<'_>) -> Outcome {
    Ok(release(caller, args.at(1), args.at(2)))
}

/// Runs a command as it is.
pub(super) fn run(caller: &Caller, command: Command, args: Args<'_>) -> Action {
    Action::Start(OneCommand::new(caller, command.spec(), args).operation())
}

/// Runs a command as it is. `wish` is its meaning for a lock, which may be on the data Redis as well.
pub(super) fn run_for_lock(
    caller: &Caller,
    command: Command,
    args: Args<'_>,
    wish: impl FnOnce() -> LockRequest,
) -> Action {
    for_lock(caller, OneCommand::new(caller, command.spec(), args).operation(), wish)
}

fn for_lock(caller: &Caller, operation: Operation, wish: impl FnOnce() -> LockRequest) -> Action {
    match caller.worker.gate() {
        Some(_) => Action::Start(operation.with_wish(wish())),
        None => Action::Start(operation),
    }
}

/// `DEL key...`, `UNLINK key...`: several keys at once.
pub(super) fn delete(caller: &Caller, command: Command, args: Args<'_>) -> Action {
    match args.len() {
        2 => delete_one(caller, args.at(1)),
        _ => run(caller, command, args),
    }
}

/// Deletes each lease found under the key, or the register.
fn delete_one(caller: &Caller, key: &[u8]) -> Action {
    Action::Start(operation(caller, key, Kind::Delete(Box::default())))
}

/// `PERSIST key`
pub(super) fn persist(caller: &Caller, args: Args<'_>) -> Action {
    run_for_lock(caller, Command::Persist, args, || LockRequest::Persist)
}

fn release(caller: &Caller, key: &[u8], token: &[u8]) -> Action {
    let release = Release::new(token.into(), Answers::Usual(release::Replies::COUNTING));
    Action::Start(operation(caller, key, Kind::Release(release)))
}

/// `SET key value NX`, `SETNX key value`: claims a lease, unless the lock is to have no end.
fn claim(
    caller: &Caller,
    command: Command,
    args: Args<'_>,
    ttl: SetTtl,
    replies: &'static Replies,
) -> Outcome {
    let token = args.at(2);
    let Some(ttl_ms) = lease(caller, ttl)? else {
        return Ok(take_for_ever(caller, command, args, replies));
    };
    let claim = Claim::new(token.into(), ttl_ms, How::IfFree, Answers::Usual(replies));
    Ok(Action::Start(operation(caller, args.at(1), Kind::Claim(claim))))
}

/// Claims a lock without an end.
fn take_for_ever(
    caller: &Caller,
    command: Command,
    args: Args<'_>,
    replies: &'static Replies,
) -> Action {
    let (key, token) = (args.at(1), args.at(2));
    let engine = caller.worker.engine();
    let (turn, is_counted) = (engine.fingerprint(caller.db, key), command == Command::SetNx);
    let texts = &engine.rules().texts;
    let program = texts.taking_for_ever((caller.db, key), turn, token, is_counted);
    for_lock(caller, operation(caller, key, Kind::Program(Box::new(program))), || {
        let (how, replies) = (How::IfFree, replies.clone());
        LockRequest::Claim { token: token.into(), ttl_ms: None, how, replies }
    })
}

/// Returns the TTL of a new lock, or `None` for one that never ends.
fn lease(caller: &Caller, ttl: SetTtl) -> Result<Option<i64>, Reply> {
    match ttl {
        SetTtl::Ms(ttl_ms) => check_ttl(caller, "set", ttl_ms).map(|()| Some(ttl_ms)),
        // A key that does not exist yet has no TTL to keep.
        SetTtl::Never | SetTtl::Keep => match caller.worker.live().no_ttl {
            NoTtl::Keep => Ok(None),
            NoTtl::Lease(lease) => {
                let ttl_ms = lease.as_millis() as i64;
                check_ttl(caller, "set", ttl_ms).map(|()| Some(ttl_ms))
            }
            NoTtl::Reject => Err(Reply::error(
                "ERR --no-ttl reject does not allow locks without a TTL: set one with PX or EX",
            )),
        },
    }
}
