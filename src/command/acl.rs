//! `ACL ...`: the users, and the client's own user. The settings file defines the users.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::{Action, Outcome};
use crate::acl::{Categories, Patterns, User, Users, catalogue};
use crate::catalogue::error;
use crate::context::caller::Caller;
use crate::resp::reply::{Encoded, Reply};
use crate::resp::requests::Args;

/// Runs one of the subcommands of `ACL`.
pub(super) fn acl(caller: &Caller, args: Args<'_>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    let users = Arc::clone(&caller.worker.live().users);
    let reply = match (&subcommand[..], args.len()) {
        (b"whoami", 2) => text(caller.login.user().name()),
        (b"whoami", _) => return Err(error::wrong_arity("acl|whoami")),
        (b"users", 2) => list(users.all(), |user| text(user.name())),
        (b"users", _) => return Err(error::wrong_arity("acl|users")),
        (b"list", 2) => listed(&users),
        (b"list", _) => return Err(error::wrong_arity("acl|list")),
        (b"getuser", 3) => users.named(args.at(2)).map_or(Reply::Nil, described),
        (b"getuser", _) => return Err(error::wrong_arity("acl|getuser")),
        (b"cat", 2) => list(Categories::all_names().iter(), |name| text(&name[1..])),
        (b"cat", 3) => of_category(args.at(2))?,
        (b"cat", _) => return Err(error::subcommand_syntax("ACL", args.at(1))),
        (b"setuser" | b"deluser" | b"load" | b"save", _) => return Err(error::USERS_IN_THE_FILE),
        (b"dryrun" | b"genpass" | b"log", _) => {
            return Err(error::unsupported_command(&[b"acl|", &subcommand[..]].concat()));
        }
        _ => return Err(error::unknown_subcommand("ACL", args.at(1))),
    };
    Ok(Action::Reply(reply))
}

/// Returns all users as lines of a settings file. Rules take long to format, so the worker caches the reply until the
/// users change.
fn listed(users: &Arc<Users>) -> Reply {
    thread_local! {
        static LAST: RefCell<Option<(Arc<Users>, Encoded)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        let same = last.take().filter(|(known, _)| Arc::ptr_eq(known, users));
        let new = || {
            let lines = list(users.all(), |user| Reply::bulk(user.line()));
            (Arc::clone(users), Encoded::new(&lines))
        };
        Reply::Encoded(last.insert(same.unwrap_or_else(new)).1.clone())
    })
}

fn list<T>(items: impl Iterator<Item = T>, reply: impl Fn(T) -> Reply) -> Reply {
    Reply::Array(items.map(reply).collect())
}

fn text(text: &str) -> Reply {
    Reply::bulk(Bytes::copy_from_slice(text.as_bytes()))
}

fn of_category(name: &[u8]) -> Result<Reply, Reply> {
    let category = Categories::named(name).ok_or_else(|| error::unknown_category(name))?;
    let is_in = |entry: &&catalogue::CommandEntry| entry.categories.overlap(category);
    Ok(list(catalogue::all().iter().filter(is_in), |entry| text(entry.name)))
}

/// Returns the reply to `ACL GETUSER` (`aclCommand` in Redis's `acl.c`).
fn described(user: &Arc<User>) -> Reply {
    let patterns =
        |sign: u8, patterns: &Patterns| Reply::bulk(patterns.described(sign).join(&b' '));
    let fields = [
        ("flags", Reply::Set(user.flags().map(text).collect())),
        ("passwords", list(user.hashes(), |hash| text(&hash))),
        ("commands", Reply::bulk(user.commands().to_string())),
        ("keys", patterns(b'~', user.keys())),
        ("channels", patterns(b'&', user.channels())),
        ("selectors", Reply::Array(Vec::new())),
    ];
    Reply::Map(fields.into_iter().map(|(name, value)| (text(name), value)).collect())
}
