//! `CLIENT ...`

use std::sync::Arc;

use super::number::parse_i64;
use super::{Action, Outcome, error};
use crate::client::decoder::Args;
use crate::client::registry::Client;
use crate::client::reply::Reply;
use crate::client::session::{Front, Replies};

/// One of the subcommands of `CLIENT`.
pub(super) fn client(front: &mut Front, args: Args<'_>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    let arity = |least: usize, most: usize, name: &'static str| {
        let fits = (least..=most).contains(&args.len());
        if fits { Ok(()) } else { Err(error::wrong_arity(name)) }
    };
    match &subcommand[..] {
        b"id" => {
            arity(2, 2, "client|id")?;
            Ok(Action::Reply(Reply::Int(front.client.id as i64)))
        }
        b"getname" => {
            arity(2, 2, "client|getname")?;
            Ok(Action::Reply(name(front)))
        }
        b"setname" => {
            arity(3, 3, "client|setname")?;
            set_name(front, args.at(2))?;
            Ok(Action::Reply(Reply::OK))
        }
        b"setinfo" => {
            arity(4, 4, "client|setinfo")?;
            set_info(front, args.at(2), args.at(3))
        }
        b"info" => {
            arity(2, 2, "client|info")?;
            Ok(Action::Reply(Reply::Verbatim(front.client.line().into_bytes().into())))
        }
        b"list" => list(front, args),
        b"kill" => {
            arity(3, usize::MAX, "client|kill")?;
            kill(front, args)
        }
        b"reply" => {
            arity(3, 3, "client|reply")?;
            reply(front, args.at(2))
        }
        b"no-evict" => {
            arity(3, 3, "client|no-evict")?;
            on_or_off(args.at(2))
        }
        b"no-touch" => {
            arity(3, 3, "client|no-touch")?;
            on_or_off(args.at(2))
        }
        b"tracking" | b"caching" | b"pause" | b"unpause" | b"unblock" | b"trackinginfo"
        | b"getredir" => Err(error::unsupported_command(&[b"client|", &subcommand[..]].concat())),
        _ => Err(error::unknown_subcommand("CLIENT", args.at(1))),
    }
}

/// Names are printable and without spaces, so that `CLIENT LIST` can be parsed.
pub(super) fn set_name(front: &mut Front, name: &[u8]) -> Result<(), Reply> {
    let name = plain(name).ok_or(error::CLIENT_NAME)?;
    front.client.words().name = name;
    Ok(())
}

fn name(front: &Front) -> Reply {
    let name = front.client.words().name.clone();
    if name.is_empty() { Reply::Nil } else { Reply::bulk(name) }
}

fn set_info(front: &mut Front, what: &[u8], value: &[u8]) -> Outcome {
    let value = plain(value);
    let mut words = front.client.words();
    let (field, refused) = if what.eq_ignore_ascii_case(b"lib-name") {
        (&mut words.lib_name, "ERR lib-name cannot contain spaces, newlines or special characters.")
    } else if what.eq_ignore_ascii_case(b"lib-ver") {
        (&mut words.lib_ver, "ERR lib-ver cannot contain spaces, newlines or special characters.")
    } else {
        let what = String::from_utf8_lossy(what);
        return Err(Reply::error(format!("ERR Unrecognized option '{what}'")));
    };
    *field = value.ok_or_else(|| Reply::error(refused))?;
    Ok(Action::Reply(Reply::OK))
}

/// The text, if all of it is printable ASCII without spaces (`networking.c`, `validateClientAttr`).
fn plain(text: &[u8]) -> Option<String> {
    let printable = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    printable.then(|| String::from_utf8_lossy(text).into_owned())
}

fn list(front: &Front, args: Args<'_>) -> Outcome {
    let everybody = front.worker.registry().clients();
    let option = args.get(2).map(<[u8]>::to_ascii_lowercase);
    let listed: Vec<Arc<Client>> = match (option.as_deref(), args.len()) {
        (None, _) => everybody,
        (Some(b"type"), 4) => match &args.at(3).to_ascii_lowercase()[..] {
            b"normal" => of_type(everybody, false),
            b"pubsub" => of_type(everybody, true),
            b"master" | b"replica" | b"slave" => Vec::new(),
            _ => return Err(unknown_type(args.at(3))),
        },
        (Some(b"id"), 4..) => {
            let ids = args.from(3).iter().map(parse_i64).collect::<Option<Vec<_>>>();
            let ids = ids.ok_or_else(|| Reply::error("ERR Invalid client ID"))?;
            everybody.into_iter().filter(|client| ids.contains(&(client.id as i64))).collect()
        }
        _ => return Err(error::SYNTAX),
    };
    let lines: String = listed.iter().map(|client| client.line() + "\n").collect();
    Ok(Action::Reply(Reply::Verbatim(lines.into_bytes().into())))
}

fn of_type(mut clients: Vec<Arc<Client>>, subscribers: bool) -> Vec<Arc<Client>> {
    clients.retain(|client| client.is_subscriber() == subscribers);
    clients
}

/// Whom `CLIENT KILL` means.
#[derive(Default)]
struct Filter {
    id: Option<i64>,
    address: Option<String>,
    local_address: Option<String>,
    user: Option<Arc<str>>,
    subscribers: Option<bool>,
    nobody: bool,
    skip_me: bool,
}

fn kill(front: &mut Front, args: Args<'_>) -> Outcome {
    if args.len() == 3 {
        let filter = Filter { address: Some(text(args.at(2))), ..Filter::default() };
        return match filter.kill(front) {
            0 => Err(error::NO_SUCH_CLIENT),
            _ => Ok(Action::Reply(Reply::OK)),
        };
    }
    let filter = Filter::parse(front, args)?;
    let killed = filter.kill(front);
    Ok(Action::Reply(Reply::Int(killed)))
}

impl Filter {
    fn parse(front: &Front, args: Args<'_>) -> Result<Self, Reply> {
        let mut filter = Self { skip_me: true, ..Self::default() };
        let mut words = args.from(2).iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(error::SYNTAX)?;
            match &word.to_ascii_lowercase()[..] {
                b"id" => {
                    let id = parse_i64(value).filter(|id| *id > 0);
                    let refused = "ERR client-id should be greater than 0";
                    filter.id = Some(id.ok_or_else(|| Reply::error(refused))?);
                }
                b"addr" => filter.address = Some(text(value)),
                b"laddr" => filter.local_address = Some(text(value)),
                b"type" => match &value.to_ascii_lowercase()[..] {
                    b"normal" => filter.subscribers = Some(false),
                    b"pubsub" => filter.subscribers = Some(true),
                    b"master" | b"replica" | b"slave" => filter.nobody = true,
                    _ => return Err(unknown_type(value)),
                },
                b"user" => {
                    let live = front.worker.live();
                    let user = live.users.named(value);
                    filter.user =
                        Some(Arc::clone(user.ok_or_else(|| error::no_such_user(value))?.name()));
                }
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.skip_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.skip_me = false,
                _ => return Err(error::SYNTAX),
            }
        }
        Ok(filter)
    }

    fn kill(&self, front: &Front) -> i64 {
        let clients = front.worker.registry().clients();
        let meant = clients.iter().filter(|client| self.means(client, front.client.id));
        meant.map(|client| client.kill()).count() as i64
    }

    fn means(&self, client: &Client, me: u64) -> bool {
        let is = |wanted: &Option<String>, address: String| {
            wanted.as_ref().is_none_or(|wanted| *wanted == address)
        };
        let excepted = self.nobody || self.skip_me && client.id == me;
        !excepted
            && self.id.is_none_or(|id| id == client.id as i64)
            && self.subscribers.is_none_or(|wanted| wanted == client.is_subscriber())
            && self.user.as_ref().is_none_or(|user| *user == client.words().user)
            && is(&self.address, client.address.to_string())
            && is(&self.local_address, client.local_address.to_string())
    }
}

fn unknown_type(word: &[u8]) -> Reply {
    Reply::error(format!("ERR Unknown client type '{}'", text(word)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn reply(front: &mut Front, how: &[u8]) -> Outcome {
    match &how.to_ascii_lowercase()[..] {
        b"on" => {
            front.replies = Replies::On;
            Ok(Action::Reply(Reply::OK))
        }
        b"off" => {
            front.replies = Replies::Off;
            Ok(Action::Silence)
        }
        b"skip" => {
            if front.replies == Replies::On {
                front.replies = Replies::SkipNext;
            }
            Ok(Action::Silence)
        }
        _ => Err(error::SYNTAX),
    }
}

/// There is nothing to evict and nothing to touch here, so both are already so.
fn on_or_off(word: &[u8]) -> Outcome {
    let known = word.eq_ignore_ascii_case(b"on") || word.eq_ignore_ascii_case(b"off");
    if known { Ok(Action::Reply(Reply::OK)) } else { Err(error::SYNTAX) }
}
