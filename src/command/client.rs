//! `CLIENT ...`

use super::{Action, Outcome, clients, tracking};
use crate::catalogue::error;
use crate::client::registry::ClientWords;
use crate::context::caller::{Caller, ReplyMode};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// Runs one of the subcommands of `CLIENT`.
pub(super) fn client(caller: &mut Caller, args: Args<'_>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    let arity = |least: usize, most: usize, name: &'static str| {
        let fits = (least..=most).contains(&args.len());
        if fits { Ok(()) } else { Err(error::wrong_arity(name)) }
    };
    match &subcommand[..] {
        b"id" => {
            arity(2, 2, "client|id")?;
            Ok(Action::Reply(Reply::Int(caller.client.id as i64)))
        }
        b"getname" => {
            arity(2, 2, "client|getname")?;
            Ok(Action::Reply(name(caller)))
        }
        b"setname" => {
            arity(3, 3, "client|setname")?;
            set_name(caller, args.at(2))?;
            Ok(Action::Reply(Reply::OK))
        }
        b"setinfo" => {
            arity(4, 4, "client|setinfo")?;
            set_info(caller, args.at(2), args.at(3))
        }
        b"info" => {
            arity(2, 2, "client|info")?;
            Ok(Action::Reply(Reply::Verbatim(caller.client.line().into_bytes().into())))
        }
        b"list" => clients::list(caller, args),
        b"kill" => {
            arity(3, usize::MAX, "client|kill")?;
            clients::kill(caller, args)
        }
        b"reply" => {
            arity(3, 3, "client|reply")?;
            reply(caller, args.at(2))
        }
        b"no-evict" => {
            arity(3, 3, "client|no-evict")?;
            let is_spared = on_or_off(args.at(2))?;
            caller.worker.registry().budget().spare(&caller.client, is_spared);
            if let Some(side) = &mut caller.side {
                side.set_never_evicted(is_spared);
            }
            Ok(Action::Reply(Reply::OK))
        }
        b"no-touch" => {
            arity(3, 3, "client|no-touch")?;
            // The proxy never touches keys, so only the data Redis needs to know.
            let is_on = on_or_off(args.at(2))?;
            if let Some(side) = &mut caller.side {
                side.set_touches_nothing(is_on);
            }
            Ok(Action::Reply(Reply::OK))
        }
        b"tracking" => {
            arity(3, usize::MAX, "client|tracking")?;
            tracking::tracking(caller, args)
        }
        b"caching" => {
            arity(3, 3, "client|caching")?;
            tracking::caching(caller, args)
        }
        b"trackinginfo" => {
            arity(2, 2, "client|trackinginfo")?;
            Ok(Action::Reply(tracking::info(caller)))
        }
        b"getredir" => {
            arity(2, 2, "client|getredir")?;
            Ok(Action::Reply(tracking::redirection(caller)))
        }
        b"pause" | b"unpause" | b"unblock" => {
            Err(error::unsupported_command(&[b"client|", &subcommand[..]].concat()))
        }
        _ => Err(error::unknown_subcommand("CLIENT", args.at(1))),
    }
}

/// Sets the client's name, which must be printable and without spaces so that `CLIENT LIST` can be parsed.
pub(super) fn set_name(caller: &mut Caller, name: &[u8]) -> Result<(), Reply> {
    bounded(name, "Client names")?;
    let name = plain(name).ok_or(error::CLIENT_NAME)?;
    if let Some(side) = &mut caller.side {
        side.set_name(&name);
    }
    caller.client.describe(|words| words.name = name);
    Ok(())
}

/// Maximum length of a client's name, of its library's name, and of the library's version. Redis has no such limit, but
/// every `CLIENT LIST` repeats them all.
const LONGEST_NAME: usize = 1024;

fn bounded(text: &[u8], what: &str) -> Result<(), Reply> {
    if text.len() > LONGEST_NAME {
        return Err(error::too_long(what, LONGEST_NAME));
    }
    Ok(())
}

fn name(caller: &Caller) -> Reply {
    let name = caller.client.words().name.clone();
    if name.is_empty() { Reply::Nil } else { Reply::bulk(name) }
}

fn set_info(caller: &mut Caller, what: &[u8], value: &[u8]) -> Outcome {
    let (field, name): (fn(&mut ClientWords) -> &mut String, _) =
        if what.eq_ignore_ascii_case(b"lib-name") {
            (|words| &mut words.lib_name, "lib-name")
        } else if what.eq_ignore_ascii_case(b"lib-ver") {
            (|words| &mut words.lib_ver, "lib-ver")
        } else {
            let what = String::from_utf8_lossy(what);
            return Err(Reply::error(format!("ERR Unrecognized option '{what}'")));
        };
    bounded(value, name)?;
    let value = plain(value).ok_or_else(|| error::not_plain(name))?;
    caller.client.describe(|words| *field(words) = value);
    Ok(Action::Reply(Reply::OK))
}

/// Returns the text, if all of it is printable ASCII without spaces (`networking.c`, `validateClientAttr`).
fn plain(text: &[u8]) -> Option<String> {
    let printable = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    printable.then(|| String::from_utf8_lossy(text).into_owned())
}

fn reply(caller: &mut Caller, how: &[u8]) -> Outcome {
    match &how.to_ascii_lowercase()[..] {
        b"on" => {
            caller.replies = ReplyMode::On;
            Ok(Action::Reply(Reply::OK))
        }
        b"off" => {
            caller.replies = ReplyMode::Off;
            Ok(Action::Silence)
        }
        b"skip" => {
            if caller.replies == ReplyMode::On {
                caller.replies = ReplyMode::SkipNext;
            }
            Ok(Action::Silence)
        }
        _ => Err(error::SYNTAX),
    }
}

fn on_or_off(word: &[u8]) -> Result<bool, Reply> {
    match &word.to_ascii_lowercase()[..] {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(error::SYNTAX),
    }
}
