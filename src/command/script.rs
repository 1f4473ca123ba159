//! `EVAL`, `EVALSHA`, `SCRIPT ...`: lock scripts run by their meaning, all others as they are.

use std::sync::Arc;

use bytes::Bytes;

use super::options::can_end;
use super::{Action, Outcome, check_ttl, function, operation, permission, program};
use crate::catalogue::error;
use crate::catalogue::table::{Command, Spec};
use crate::context::caller::Caller;
use crate::lua::program::split_shebang;
use crate::lua::{Create, LockMeaning, Own, Script, ScriptValue};
use crate::operation::claim::{self, Claim, How};
use crate::operation::extend::{self, Extend};
use crate::operation::load::{self, Load};
use crate::operation::on_register::ScriptCall;
use crate::operation::release::{self, Release};
use crate::operation::{Answers, Kind, OfScript};
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// `EVAL text numkeys key... arg...`
pub(super) fn eval(caller: &mut Caller, args: Args<'_>, read_only: bool) -> Outcome {
    let (keys, argv) = keys_and_argv(args)?;
    split_shebang(args.at(1))?;
    let script = caller.worker.scripts().load(Bytes::copy_from_slice(args.at(1)));
    if script.is_lua() {
        script.keep();
    }
    run(caller, script, read_only, &keys, &argv)
}

/// `EVALSHA sha numkeys key... arg...`
pub(super) fn evalsha(caller: &mut Caller, args: Args<'_>, read_only: bool) -> Outcome {
    let (keys, argv) = keys_and_argv_of_sha(args)?;
    let script = caller.worker.scripts().get(args.at(1));
    let Some(script) = script else {
        // A request in flight may be loading the script.
        return if caller.outbox.in_flight() > 0 {
            Ok(Action::Later)
        } else {
            Err(error::NO_SCRIPT)
        };
    };
    run(caller, script, read_only, &keys, &argv)
}

/// `SCRIPT LOAD|EXISTS|FLUSH`
pub(super) fn script(caller: &mut Caller, args: Args<'_>) -> Outcome {
    match (&args.at(1).to_ascii_lowercase()[..], args.len()) {
        (b"load", 3) => {
            split_shebang(args.at(2))?;
            let script = caller.worker.scripts().load(Bytes::copy_from_slice(args.at(2)));
            if let Some(why) = script.refused() {
                return Err(Reply::error(why.to_owned()));
            }
            if script.is_lua() {
                script.keep();
                return Ok(Action::Reply(Reply::bulk(script.sha.clone())));
            }
            Ok(Action::Start(operation(
                caller,
                b"",
                Kind::Load(Load::new(script, load::Then::Tell)),
            )))
        }
        (b"load", _) => Err(error::wrong_arity("script|load")),
        (b"exists", 3..) => {
            let scripts = caller.worker.scripts();
            let exists = args.from(2).iter().map(|sha| Reply::Int(scripts.contains(sha).into()));
            Ok(Action::Reply(Reply::Array(exists.collect())))
        }
        (b"exists", _) => Err(error::wrong_arity("script|exists")),
        (b"flush", 2) => flush(caller),
        (b"flush", 3) if is_flush_mode(args.at(2)) => flush(caller),
        (b"flush", _) => Err(error::SCRIPT_FLUSH_OPTION),
        (b"debug", 3) if args.at(2).eq_ignore_ascii_case(b"no") => Ok(Action::Reply(Reply::OK)),
        (b"debug", 3) => Err(Reply::error("ERR scripts cannot be debugged through redlock-proxy")),
        (b"debug", _) => Err(error::wrong_arity("script|debug")),
        (b"kill", 2) => Ok(Action::KillScripts),
        _ => Err(error::unknown_subcommand("SCRIPT", args.at(1))),
    }
}

fn flush(caller: &Caller) -> Outcome {
    caller.worker.scripts().flush();
    caller.home.clusters().for_each(|worker| worker.residents().flush());
    let links = caller.home.clusters().flat_map(|worker| worker.engine().links());
    links.filter(|link| link.is_up()).for_each(|link| link.keep_in_step());
    Ok(Action::Reply(Reply::OK))
}

fn is_flush_mode(word: &[u8]) -> bool {
    is(word, &["sync", "async"])
}

pub(super) type Words<'a> = Vec<&'a [u8]>;

/// Splits the words after the script into keys and arguments (`script.c`, `scriptPrepare`).
fn keys_and_argv(args: Args<'_>) -> Result<(Words<'_>, Words<'_>), Reply> {
    keys_and_argv_or(args, error::NOT_AN_INTEGER)
}

/// Splits the words after the script, or returns `no_number` if the number of keys is not a number.
pub(super) fn keys_and_argv_or(
    args: Args<'_>,
    no_number: Reply,
) -> Result<(Words<'_>, Words<'_>), Reply> {
    let count = parse_i64(args.at(2)).ok_or(no_number)?;
    let count = usize::try_from(count).map_err(|_| error::NEGATIVE_KEYS)?;
    let mut keys: Words<'_> = args.from(3).iter().collect();
    if count > keys.len() {
        return Err(error::TOO_MANY_KEYS);
    }
    let argv = keys.split_off(count);
    Ok((keys, argv))
}

/// Splits the words after a SHA1. No script has a SHA1 of another length.
fn keys_and_argv_of_sha(args: Args<'_>) -> Result<(Words<'_>, Words<'_>), Reply> {
    if args.at(1).len() != SHA_DIGITS { Err(error::NO_SCRIPT) } else { keys_and_argv(args) }
}

const SHA_DIGITS: usize = 40;

/// A script as `EXEC` runs it, with its keys and arguments.
pub(super) type Call<'a> = (Arc<Script>, Words<'a>, Words<'a>);

/// Returns the script that an `EVAL`, `EVALSHA` or `FCALL` after `MULTI` will run. `before` finds a script of the
/// requests before it by SHA1. The error is the reply.
pub(super) fn queued<'a>(
    caller: &Caller,
    spec: &Spec,
    args: Args<'a>,
    before: impl FnOnce(&str) -> Option<Arc<Script>>,
) -> Result<Call<'a>, Reply> {
    if matches!(spec.id, Command::Fcall | Command::FcallRo) {
        return function::queued(caller, spec, args);
    }
    let is_text = matches!(spec.id, Command::Eval | Command::EvalRo);
    let (keys, argv) = if is_text { keys_and_argv(args) } else { keys_and_argv_of_sha(args) }?;
    let script = if is_text {
        split_shebang(args.at(1))?;
        caller.worker.scripts().load(Bytes::copy_from_slice(args.at(1)))
    } else {
        let known = caller.worker.scripts().get(args.at(1));
        let sha = || String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
        known.or_else(|| before(&sha())).ok_or(error::NO_SCRIPT)?
    };
    match script.refused() {
        Some(why) => Err(Reply::error(why.to_owned())),
        None if runs_read_only(spec) && script.may_write_by_its_shebang() => Err(error::WRITE_FLAG),
        None => Ok((script, keys, argv)),
    }
}

/// Whether a command runs a script that must not change anything.
pub(super) fn runs_read_only(spec: &Spec) -> bool {
    use Command as C;
    matches!(spec.id, C::EvalRo | C::EvalShaRo | C::FcallRo)
}

/// Returns the script that a command carries.
pub(super) fn brought(caller: &Caller, spec: &Spec, args: Args<'_>) -> Option<Arc<Script>> {
    let is_load = || args.at(1).eq_ignore_ascii_case(b"load");
    let text = match spec.id {
        Command::Eval | Command::EvalRo => args.get(1),
        Command::Script if is_load() => args.get(2),
        _ => None,
    };
    let text = text.filter(|text| split_shebang(text).is_ok())?;
    Some(caller.worker.scripts().load(Bytes::copy_from_slice(text)))
}

/// Runs the script by its meaning. If the arguments do not fit the meaning, the script runs as it is.
fn run(
    caller: &Caller,
    script: Arc<Script>,
    read_only: bool,
    keys: &[&[u8]],
    argv: &[&[u8]],
) -> Outcome {
    let kind = match (&script.shape, keys) {
        (Some(shape), [_])
            if argv.len() >= shape.arguments()
                && !read_only
                && permission::may_call_all_of(&caller.login, &script) =>
        {
            lower(caller, &script, shape, argv)?
        }
        _ => None,
    };
    match kind {
        Some(kind) => Ok(Action::Start(operation(caller, keys[0], kind))),
        None => Ok(program::script(caller, script, read_only, keys, argv)),
    }
}

fn lower(
    caller: &Caller,
    script: &Arc<Script>,
    shape: &LockMeaning,
    argv: &[&[u8]],
) -> Result<Option<Kind>, Reply> {
    let call = || ScriptCall::new(Arc::clone(script), caller.login.guard().cloned(), argv);
    Ok(match shape {
        LockMeaning::Release { token, deleted, missing, other } => {
            let replies = release::Replies {
                deleted: reply(deleted),
                missing: reply(missing),
                other: reply(other),
            };
            let replies = Answers::Own(Box::new(OfScript { replies, call: call() }));
            Some(Kind::Release(Release::new(argv[token.position()].into(), replies)))
        }
        LockMeaning::Extend { token, ttl, extended, missing, other, .. } => {
            let Some(ttl_ms) = ttl_ms(caller, argv[ttl.position()])? else { return Ok(None) };
            let replies = extend::Replies {
                changed: reply(extended),
                missing: reply(missing),
                other: reply(other),
            };
            let replies = Answers::Own(Box::new(OfScript { replies, call: call() }));
            Some(Kind::Extend(Extend::new(argv[token.position()].into(), ttl_ms, replies)))
        }
        LockMeaning::Claim { token, ttl, granted, refused } => {
            let Some(ttl_ms) = ttl_ms(caller, argv[ttl.position()])? else { return Ok(None) };
            let replies = claim::Replies::new(reply(granted), reply(refused));
            let replies = OfScript { replies, call: call() };
            Some(claim(argv[token.position()], ttl_ms, How::IfFree, replies))
        }
        LockMeaning::Acquire { token, ttl, create, own, created, extended, refused, .. } => {
            let Some(ttl_ms) = ttl_ms(caller, argv[ttl.position()])? else { return Ok(None) };
            let Some(prefix) = prefix(own, argv) else { return Ok(None) };
            let how = How::IfFreeOrOurs { create: creates(create, argv), prefix };
            let replies = claim::Replies {
                granted: reply(created),
                owned: reply(extended),
                held: reply(refused),
            };
            let replies = OfScript { replies, call: call() };
            Some(claim(argv[token.position()], ttl_ms, how, replies))
        }
    })
}

fn claim(token: &[u8], ttl_ms: i64, how: How, replies: OfScript<claim::Replies>) -> Kind {
    Kind::Claim(Claim::new(token.into(), ttl_ms, how, Answers::Own(Box::new(replies))))
}

/// Returns the TTL in milliseconds, if it is as the shape requires: a positive number that Redis can add to its clock.
fn ttl_ms(caller: &Caller, word: &[u8]) -> Result<Option<i64>, Reply> {
    let fits = |ttl_ms: &i64| *ttl_ms > 0 && can_end(*ttl_ms, || caller.unix_ms());
    let ttl_ms = parse_i64(word).filter(fits);
    if let Some(ttl_ms) = ttl_ms {
        check_ttl(caller, "set", ttl_ms)?;
    }
    Ok(ttl_ms)
}

fn creates(create: &Create, argv: &[&[u8]]) -> bool {
    match create {
        Create::Always => true,
        Create::IfArg { arg, equals } => argv[arg.position()] == equals,
    }
}

/// Returns the number of leading bytes that make a value the caller's own; -1 for all.
fn prefix(own: &Own, argv: &[&[u8]]) -> Option<i64> {
    match own {
        Own::SameToken => Some(-1),
        Own::SamePrefix { length } => {
            parse_i64(argv[length.position()]).filter(|length| *length > 0)
        }
    }
}

fn reply(value: &ScriptValue) -> Reply {
    match value {
        ScriptValue::Int(number) => Reply::Int(*number),
        ScriptValue::Ok => Reply::OK,
        ScriptValue::Bulk(text) => Reply::bulk(text.clone()),
        ScriptValue::Nil => Reply::Nil,
        ScriptValue::Error(text) => Reply::error(text.clone()),
    }
}
