//! The connection itself: `HELLO`, `AUTH`, `SELECT`, `PING`, `ECHO`, `QUIT`, `RESET`.

use std::sync::Arc;

use bytes::Bytes;

use super::{Action, Outcome};
use crate::acl::DEFAULT_USER;
use crate::catalogue::error;
use crate::context::caller::{Caller, ReplyMode};
use crate::data::setup::Credentials;
use crate::resp::number::parse_i64;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::Args;
use crate::time::clock::Instant;

/// `PING [message]`; in RESP2 a subscriber receives the answer in the form of a message.
pub(super) fn ping(caller: &Caller, args: Args<'_>) -> Outcome {
    match args.len() {
        1 | 2 if caller.outbox.protocol() == Protocol::Resp2 && caller.has_subscriptions() => {
            let message = Bytes::copy_from_slice(args.get(1).unwrap_or_default());
            Ok(Action::Reply(Reply::Array(vec![Reply::bulk("pong"), Reply::Bulk(message)])))
        }
        1 => Ok(Action::Reply(Reply::Simple("PONG"))),
        2 => Ok(Action::Reply(Reply::bulk(Bytes::copy_from_slice(args.at(1))))),
        _ => Err(error::wrong_arity("ping")),
    }
}

/// `ECHO message`
pub(super) fn echo(args: Args<'_>) -> Outcome {
    Ok(Action::Reply(Reply::bulk(Bytes::copy_from_slice(args.at(1)))))
}

/// `RESET`: resets the connection to its initial state.
pub(super) fn reset(caller: &mut Caller) -> Outcome {
    if caller.begin_to_unsubscribe() {
        return Ok(Action::Later);
    }
    let has_listened = caller.unsubscribe_all();
    caller.stop_monitoring();
    caller.end_tracking();
    caller.db = caller.worker.first_db();
    caller.replies = ReplyMode::On;
    caller.transaction = None;
    caller.watched.clear();
    caller.outbox.set_protocol(Protocol::Resp2);
    let (db, mut words) = (caller.db, caller.client.words());
    words.name.clear();
    (words.db, words.resp) = (db, 2);
    drop(words);
    match caller.forget_login() {
        Ok(()) if has_listened => Ok(Action::Unsubscribed(Reply::Simple("RESET"))),
        Ok(()) => Ok(Action::Reply(Reply::Simple("RESET"))),
        // The connection would stay open without an accepted login.
        Err(refused) => Ok(Action::Close(refused)),
    }
}

/// `SELECT index`
pub(super) fn select(caller: &mut Caller, args: Args<'_>) -> Outcome {
    let index = parse_i64(args.at(1)).ok_or(error::NOT_AN_INTEGER)?;
    i32::try_from(index).map_err(|_| error::DB_NOT_AN_INT)?;
    let db = u32::try_from(index).ok().filter(|db| *db < caller.worker.databases());
    caller.db = db.ok_or(error::DB_INDEX)?;
    caller.client.words().db = caller.db;
    Ok(Action::Reply(Reply::OK))
}

/// `AUTH [user] password` (`acl.c`, `authCommand`)
pub(super) fn auth(caller: &mut Caller, args: Args<'_>) -> Outcome {
    let (user, password) = match args.len() {
        2 if caller.worker.live().users.default_user().is_nopass() => {
            return Err(error::NO_PASSWORD_SET);
        }
        2 => (DEFAULT_USER.as_bytes(), args.at(1)),
        3 => (args.at(1), args.at(2)),
        _ => return Err(error::SYNTAX),
    };
    if let Some(due) = caller.login_due() {
        return Ok(Action::Rest(due));
    }
    authenticate(caller, user, password)?;
    Ok(Action::Reply(Reply::OK))
}

fn authenticate(caller: &mut Caller, user: &[u8], password: &[u8]) -> Result<(), Reply> {
    let users = Arc::clone(&caller.worker.live().users);
    let Some(user) = users.authenticate(user, password) else {
        caller.login_failed();
        return Err(error::WRONG_PASS);
    };
    let own = Credentials::of(user.name(), password);
    caller.log_in(user, Some(own))
}

/// `HELLO [version [AUTH user password] [SETNAME name]]` (`networking.c`, `helloCommand`)
pub(super) fn hello(caller: &mut Caller, args: Args<'_>) -> Outcome {
    let asked = args.get(1).map(protocol).transpose()?;
    if let Some(due) = hello_options(caller, args)? {
        return Ok(Action::Rest(due));
    }
    if !caller.login.is_authenticated() {
        return Err(error::NO_AUTH_HELLO);
    }
    if let Some(protocol) = asked {
        caller.outbox.set_protocol(protocol);
        caller.client.words().resp = version_number(protocol) as u8;
    }
    Ok(Action::Reply(greeting(caller)))
}

fn protocol(word: &[u8]) -> Result<Protocol, Reply> {
    match parse_i64(word) {
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err(error::NO_PROTO),
        None => Err(error::PROTOCOL_NOT_AN_INTEGER),
    }
}

/// Applies each option as it is parsed: a wrong password takes precedence over a mistake after it. Returns a time if it
/// is too early to check another password.
fn hello_options(caller: &mut Caller, args: Args<'_>) -> Result<Option<Instant>, Reply> {
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let left = args.len() - at - 1;
        if word.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            if let Some(due) = caller.login_due() {
                return Ok(Some(due));
            }
            authenticate(caller, args.at(at + 1), args.at(at + 2))?;
            at += 3;
        } else if word.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            super::client::set_name(caller, args.at(at + 1))?;
            at += 2;
        } else {
            return Err(error::hello_option(word));
        }
    }
    Ok(None)
}

fn greeting(caller: &Caller) -> Reply {
    let text = |text: &'static str| Reply::bulk(Bytes::from_static(text.as_bytes()));
    Reply::Map(vec![
        (text("server"), text("redis")),
        (text("version"), Reply::bulk(caller.worker.redis_version())),
        (text("proto"), Reply::Int(version_number(caller.outbox.protocol()))),
        (text("id"), Reply::Int(caller.client.id as i64)),
        (text("mode"), text("standalone")),
        (text("role"), text("master")),
        (text("modules"), Reply::Array(Vec::new())),
    ])
}

fn version_number(protocol: Protocol) -> i64 {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}
