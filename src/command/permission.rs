//! Whether a user may send a request (`ACLCheckAllPerm` in Redis's `acl.c`).
//!
//! Redis looks at the command first, then at its keys, then at its channels, and before all that whether
//! there is such a subcommand and whether it takes so many arguments.

use super::table::{self, Command, Spec};
use super::{error, keys};
use crate::acl::{Patterns, User, catalogue};
use crate::client::decoder::Args;
use crate::client::login::Login;
use crate::client::reply::Reply;
use crate::lua::Script;

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum Denied {
    /// Whoever it is for: nobody has logged in, or it is no command.
    Anybody(Reply),
    /// The command, by its full name.
    Command(&'static str),
    /// One of its keys.
    Key,
    /// One of its channels.
    Channel,
}

impl Denied {
    /// What the client is told.
    pub(super) fn reply(self) -> Reply {
        match self {
            Self::Anybody(reply) => reply,
            Self::Command(name) => error::no_permission(name),
            Self::Key => error::NO_PERMISSION_FOR_KEY,
            Self::Channel => error::NO_PERMISSION_FOR_CHANNEL,
        }
    }

    /// What it is told by `EXEC`, when it is not who it was when it sent the command.
    pub(super) fn reply_of_exec(self) -> Reply {
        match self {
            Self::Anybody(reply) => reply,
            Self::Command(_) => error::NO_PERMISSION_IN_EXEC,
            Self::Key => error::NO_PERMISSION_FOR_KEY_IN_EXEC,
            Self::Channel => error::NO_PERMISSION_FOR_CHANNEL_IN_EXEC,
        }
    }
}

/// Whether whoever is logged in may send this. To be asked of who is not [free](Login::is_free).
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

fn check_command(user: &User, spec: &Spec, args: Args<'_>) -> Result<(), Denied> {
    let (mut place, mut entry) = catalogue::of(spec);
    if let Some(word) = args.get(1).filter(|_| !entry.subcommands.is_empty()) {
        let unknown = || Denied::Anybody(error::unknown_subcommand(spec.name, word));
        place = entry.subcommand(word).ok_or_else(unknown)?;
        entry = &catalogue::all()[place];
    }
    if !entry.accepts(args.len()) {
        return Err(Denied::Anybody(error::wrong_arity(entry.name)));
    }
    if user.commands().contains(place) { Ok(()) } else { Err(Denied::Command(entry.name)) }
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
    let named = match spec.id {
        C::Subscribe | C::Psubscribe | C::Ssubscribe => usize::MAX,
        C::Publish | C::Spublish => 1,
        _ => 0,
    };
    let mut channels = args.iter().skip(1).take(named);
    if channels.all(|channel| may(allowed, channel)) { Ok(()) } else { Err(Denied::Channel) }
}

/// `SORT` reads keys that are not among its words; who may not read them all must not name them
/// (`sortCommandGeneric` in Redis's `sort.c`).
pub(super) fn check_sort(login: &Login, spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let sorts = matches!(spec.name, "sort" | "sort_ro");
    if login.is_free() || !sorts || login.user().keys().is_all() {
        return Ok(());
    }
    for (option, value) in keys::sort_options(args) {
        if option.eq_ignore_ascii_case(b"get") {
            return Err(error::SORT_GET_DENIED);
        }
        if option.eq_ignore_ascii_case(b"by") && value.contains(&b'*') {
            return Err(error::SORT_BY_DENIED);
        }
    }
    Ok(())
}

/// Whether the user may call everything that this script calls, whatever its arguments are. Its keys are
/// those of `EVAL`, if it touches no others.
pub(super) fn may_call_all_of(login: &Login, script: &Script) -> bool {
    let may = |name: &String| {
        let spec = table::lookup(name.as_bytes());
        spec.is_some_and(|spec| login.user().commands().contains(catalogue::of(spec).0))
    };
    login.is_free() || script.commands().is_some_and(|commands| commands.iter().all(may))
}
