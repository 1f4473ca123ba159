//! Whether a user may send a request (`ACLCheckAllPerm` in Redis's `acl.c`).
//!
//! Redis first checks that the subcommand exists and takes this many arguments. It then checks the permissions for the
//! command, its keys and its channels, in this order.

use crate::acl::catalogue::{self, CommandEntry, CommandPlace};
use crate::acl::{Patterns, User};
use crate::catalogue::table::{self, Command, Spec};
use crate::catalogue::{error, keys, words};
use crate::client::login::Login;
use crate::lua::Script;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// The reason why a request is refused.
#[derive(Debug)]
pub(super) enum Denied {
    /// A reason with a reply of its own, e.g. that the client has not logged in, or that there is no such command.
    Anybody(Reply),
    /// The command, by its full name.
    Command(&'static str),
    /// One of the request's keys.
    Key,
    /// One of the request's channels.
    Channel,
}

impl Denied {
    /// Returns the reply to the client.
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::Anybody(reply) => reply,
            Self::Command(name) => error::no_permission(name),
            Self::Key => error::NO_PERMISSION_FOR_KEY,
            Self::Channel => error::NO_PERMISSION_FOR_CHANNEL,
        }
    }

    /// Returns the reply within `EXEC`, when the client's user has changed since it sent the command.
    pub(super) fn reply_of_exec(self) -> Reply {
        match self {
            Self::Anybody(reply) => reply,
            Self::Command(_) => error::NO_PERMISSION_IN_EXEC,
            Self::Key => error::NO_PERMISSION_FOR_KEY_IN_EXEC,
            Self::Channel => error::NO_PERMISSION_FOR_CHANNEL_IN_EXEC,
        }
    }
}

/// Checks whether the logged-in user may send this request. Call it only for a login that is not
/// [free](Login::is_free).
#[cold]
pub(super) fn check(login: &Login, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
    if spec.allowed_before_auth() {
        return Ok(());
    }
    if !login.is_authenticated() {
        return Err(Denied::Anybody(error::NO_AUTH));
    }
    let user = login.user();
    check_command(user, spec, args)?;
    check_keys(user, spec, args)?;
    check_channels(user, spec, args)
}

/// Checks whether the logged-in user may send this to the data Redis, which makes the same check by its own rules.
/// Commands unknown to the proxy require a user who may send every command.
#[cold]
pub(super) fn check_elsewhere(login: &Login, args: Args<'_>) -> Result<(), Denied> {
    if let Some(spec) = table::lookup(args.at(0)) {
        return check(login, spec, args);
    }
    let user = login.user();
    let name = String::from_utf8_lossy(args.at(0)).to_ascii_lowercase();
    let known = catalogue::find(args.at(0)).and_then(|place| {
        let entry = &catalogue::all()[place];
        let is_container = !entry.subcommands.is_empty();
        if is_container { entry.subcommand(args.get(1)?) } else { Some(place) }
    });
    let may = known.map_or(user.commands().is_all(), |place| user.commands().contains(place));
    if !may {
        return Err(Denied::Anybody(error::no_permission(&name)));
    }
    let allowed = user.keys();
    let may = allowed.is_all() || keys::of_other(args).iter().all(|key| allowed.allow(key));
    if may { Ok(()) } else { Err(Denied::Key) }
}

fn check_command(user: &User, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
    let (place, entry) = entry(spec, args).map_err(Denied::Anybody)?;
    if user.commands().contains(place) { Ok(()) } else { Err(Denied::Command(entry.name)) }
}

/// Returns the command, or the subcommand that its first argument names, if it takes this many arguments.
pub(super) fn entry(
    spec: &Spec,
    args: Args<'_>,
) -> Result<(CommandPlace, &'static CommandEntry), Reply> {
    let (mut place, mut entry) = catalogue::of(spec);
    if let Some(word) = args.get(1).filter(|_| spec.is_container) {
        let unknown = || error::unknown_subcommand(spec.name, word);
        place = entry.subcommand(word).ok_or_else(unknown)?;
        entry = &catalogue::all()[place];
    }
    if !entry.accepts(args.len()) {
        return Err(error::wrong_arity(entry.name));
    }
    Ok((place, entry))
}

fn check_keys(user: &User, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
    let allowed = user.keys();
    let may = allowed.is_all() || keys::of(spec, args).iter().all(|key| allowed.allow(key));
    if may { Ok(()) } else { Err(Denied::Key) }
}

fn check_channels(user: &User, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
    use Command as C;
    let allowed = user.channels();
    let may: fn(&Patterns, &[u8]) -> bool = match spec.id {
        C::Psubscribe => Patterns::allow_pattern,
        _ => Patterns::allow,
    };
    let mut channels = words::channels(spec, args);
    if channels.all(|channel| may(allowed, channel)) { Ok(()) } else { Err(Denied::Channel) }
}

/// Checks the keys that `SORT` reads without having them among its words. Only a user who may read all keys may use
/// such patterns (`sortCommandGeneric` in Redis's `sort.c`).
pub(super) fn check_sort(login: &Login, spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let sorts = matches!(spec.name, "sort" | "sort_ro");
    if login.is_free() || !sorts || login.user().keys().is_all() {
        return Ok(());
    }
    match sort_looks_up(args) {
        Some(LookUp::By) => Err(error::SORT_BY_DENIED),
        Some(LookUp::Get) => Err(error::SORT_GET_DENIED),
        None => Ok(()),
    }
}

/// An option by which `SORT` looks up keys that are not among its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookUp {
    By,
    Get,
}

/// Returns the first such option. Redis reports other errors in the options before it first.
pub(super) fn sort_looks_up(args: Args<'_>) -> Option<LookUp> {
    for (option, rest) in keys::sort_options(args) {
        if !is_in_order(option, rest) {
            return None;
        }
        if option.eq_ignore_ascii_case(b"get") {
            return Some(LookUp::Get);
        }
        if option.eq_ignore_ascii_case(b"by") && rest.at(0).contains(&b'*') {
            return Some(LookUp::By);
        }
    }
    None
}

/// Whether this is an option of `SORT`, with numbers where they belong.
fn is_in_order(option: &[u8], rest: Args<'_>) -> bool {
    if option.eq_ignore_ascii_case(b"limit") {
        return (0..2).all(|at| rest.get(at).and_then(parse_i64).is_some());
    }
    is(option, &["asc", "desc", "alpha", "by", "get", "store"])
}

/// Whether the user may call everything that this script calls, whatever its arguments are. Its keys are those of
/// `EVAL`, if it touches no others.
pub(super) fn may_call_all_of(login: &Login, script: &Script) -> bool {
    let may = |name: &String| {
        let spec = table::lookup(name.as_bytes());
        spec.is_some_and(|spec| login.user().commands().contains(catalogue::of(spec).0))
    };
    login.is_free() || script.commands().is_some_and(|commands| commands.iter().all(may))
}
