//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH` (`multi.c`).

mod planning;

use std::rc::Rc;
use std::sync::Arc;

use super::{Action, Outcome, family, function, operation, script};
use crate::catalogue::error;
use crate::catalogue::table::{self, Command, Family, RunBy, Spec};
use crate::client::outbox::Gather;
use crate::client::slices::Made;
use crate::client::timeslice::TimeSlice;
use crate::context::caller::Caller;
use crate::context::transaction::QueuedRequest;
use crate::lua::Script;
use crate::operation::load::{self, Load};
use crate::operation::watch::{Watch, Watched};
use crate::operation::{Kind, Operation, request};
use crate::resp::reply::Reply;
use crate::resp::requests::{Args, Decoder, Limits};
use crate::resp::word::is;
pub use planning::Planning;

/// Maximum bytes of commands that one client may queue. Redis counts them as the client's query buffer, which it limits
/// to 1 GB.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// Maximum keys that one client may watch: `EXEC` compares each on every master.
const MAX_WATCHED: usize = 1024;

/// `MULTI`
pub(super) fn multi(caller: &mut Caller) -> Outcome {
    if caller.transaction.is_some() {
        return Err(error::NESTED_MULTI);
    }
    caller.transaction = Some(Box::default());
    Ok(Action::Reply(Reply::OK))
}

/// `DISCARD`
pub(super) fn discard(caller: &mut Caller) -> Outcome {
    caller.transaction.take().ok_or(error::DISCARD_WITHOUT_MULTI)?;
    caller.watched.clear();
    Ok(Action::Reply(Reply::OK))
}

/// `UNWATCH`
pub(super) fn unwatch(caller: &mut Caller) -> Outcome {
    caller.watched.clear();
    Ok(Action::Reply(Reply::OK))
}

/// `WATCH key...`
pub(super) fn watch(caller: &mut Caller, args: Args<'_>) -> Outcome {
    if caller.transaction.is_some() {
        return Err(error::WATCH_IN_MULTI);
    }
    if caller.watched.len() + args.len() > MAX_WATCHED {
        return Err(Reply::error("ERR too many watched keys: watch fewer keys"));
    }
    let mut operations = Vec::new();
    for key in args.from(1).iter() {
        let known = |watched: &Rc<Watched>| watched.db == caller.db && *watched.key == *key;
        if caller.watched.iter().any(known) {
            continue;
        }
        let engine = caller.worker.engine();
        let changes = engine.changes_of(vec![engine.fingerprint(caller.db, key)]);
        let watched = Watched::new(caller.db, key, changes);
        caller.watched.push(Rc::clone(&watched));
        operations.push(Operation {
            db: caller.db,
            key: key.into(),
            kind: Kind::Watch(Watch::new(watched)),
        });
    }
    if operations.is_empty() {
        return Ok(Action::Reply(Reply::OK));
    }
    Ok(Action::Gather(Gather::AllOk, operations))
}

/// Answers a request that was rejected before it could be queued. The queue must not run then.
pub(super) fn refused(caller: &mut Caller, args: Args<'_>, refused: Reply) -> Action {
    if let Some(transaction) = &mut caller.transaction {
        transaction.aborted = true;
    }
    match refused {
        Reply::Error(why) if args.at(0).eq_ignore_ascii_case(b"exec") => {
            caller.transaction = None;
            caller.watched.clear();
            Action::Reply(error::exec_aborted_by(&why))
        }
        other => Action::Reply(other),
    }
}

/// Puts a command into the queue of a `MULTI`.
pub(super) fn queue(caller: &mut Caller, spec: &'static Spec, args: Args<'_>) -> Outcome {
    let Some(transaction) = &mut caller.transaction else { return Err(error::EXEC_WITHOUT_MULTI) };
    if let Err(refused) = may_be_queued(transaction.bytes) {
        transaction.aborted = true;
        return Err(refused);
    }
    let script = script::brought(caller, spec, args);
    let look = script.as_ref().and_then(|script| look_at(caller, script));
    if look.is_some() && caller.outbox.in_flight() > 0 {
        return Ok(Action::Later);
    }
    let words = request::of(args.iter());
    if let Some(transaction) = &mut caller.transaction {
        let text = script.as_ref().map_or(0, |script| script.text.len());
        transaction.bytes += words.len() + text;
        transaction.queue.push(QueuedRequest { spec, words, script });
        if effect(spec, args) == Effect::Changes {
            transaction.to_last_change = transaction.queue.len();
        }
        transaction.needs_libraries |= function::needs_libraries(spec, args);
    }
    Ok(look.unwrap_or(Action::Reply(Reply::QUEUED)))
}

/// Returns the action by which masters check a new script, which must happen before `EXEC`.
fn look_at(caller: &Caller, script: &Arc<Script>) -> Option<Action> {
    let kind = || Kind::Load(Load::new(Arc::clone(script), load::Then::Queue));
    (!script.is_lua()).then(|| Action::Start(operation(caller, b"", kind())))
}

fn is_script(spec: &Spec) -> bool {
    use Command as C;
    matches!(spec.id, C::Eval | C::EvalRo | C::EvalSha | C::EvalShaRo | C::Fcall | C::FcallRo)
}

fn may_be_queued(queued: usize) -> Result<(), Reply> {
    if queued > MAX_QUEUED_BYTES {
        return Err(Reply::error("ERR the transaction is too large: queue fewer commands"));
    }
    Ok(())
}

/// `EXEC`
pub(super) fn exec(caller: &mut Caller) -> Outcome {
    let needs_libraries = caller.transaction.as_ref().is_some_and(|it| it.needs_libraries());
    let libraries = if needs_libraries { caller.current_libraries(&[]) } else { None };
    if needs_libraries && libraries.is_none() {
        return Ok(Action::Later);
    }
    let transaction = caller.transaction.take().ok_or(error::EXEC_WITHOUT_MULTI)?;
    let watched = std::mem::take(&mut caller.watched);
    if transaction.aborted {
        return Err(error::EXEC_ABORT);
    }
    let mut planning = Box::new(Planning::of(*transaction, watched, libraries));
    Ok(match planning.go_on(caller, &mut TimeSlice::default())? {
        Some(operation) => Action::Start(operation),
        None => Action::Plan(planning),
    })
}

/// The queued words were within the limits when they were first decoded.
const NO_LIMITS: Limits =
    Limits { max_request_bytes: usize::MAX, authenticated: true, may_pass: false };

/// The effect of a command that the proxy runs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// The command changes something that others may see.
    Changes,
    /// The command is answered at once, with the reply that it would have at any time; or masters run it.
    None,
    /// The command changes nothing, but its reply may be long.
    Looks,
}

fn effect(spec: &Spec, args: Args<'_>) -> Effect {
    use Command as C;
    let subcommand = args.get(1).unwrap_or_default();
    let is = |names: &[&str]| is(subcommand, names);
    match spec.id {
        _ if !is_own(spec) => Effect::None,
        C::Info | C::Command | C::Acl | C::Latency => Effect::Looks,
        C::Client if is(&["list", "info", "help"]) => Effect::Looks,
        C::Config if is(&["get", "help"]) => Effect::Looks,
        C::Slowlog if is(&["get", "len", "help"]) => Effect::Looks,
        C::Client if is(&["id", "getname"]) => Effect::None,
        C::Ping | C::Echo | C::Time | C::Role | C::Wait => Effect::None,
        _ => Effect::Changes,
    }
}

/// Whether the proxy answers the command without the masters.
fn is_own(spec: &Spec) -> bool {
    use Family as F;
    let by_proxy =
        matches!(spec.family, F::Connection | F::Server | F::Transaction | F::Script | F::Pubsub);
    let not_really = matches!(spec.id, Command::Select | Command::Publish | Command::Spublish);
    spec.run == RunBy::Own && by_proxy && !not_really && !is_script(spec)
}

/// Answers a request of a transaction that was deferred until the masters have answered the others.
pub fn answer(caller: &mut Caller, place: u16, request: &[u8]) -> Made {
    let mut decoder = Decoder::new();
    let decoded = decoder.decode(request, NO_LIMITS);
    match (table::at(place), decoded) {
        (Some(spec), Ok(_)) => known(caller, spec, decoder.args(request)),
        (_, Err(error)) => Made::Whole(error.reply()),
        (None, _) => Made::Whole(error::SYNTAX),
    }
}

fn known(caller: &mut Caller, spec: &'static Spec, args: Args<'_>) -> Made {
    Made::Whole(match family(caller, spec, args) {
        Ok(Action::Reply(reply)) | Err(reply) => reply,
        Ok(Action::Slices(sliced)) => return Made::Sliced(sliced),
        // What is read before masters report is told right behind its reply.
        Ok(Action::Track(_)) => Reply::OK,
        // In a single Redis nothing runs concurrently with EXEC.
        Ok(Action::KillScripts) => error::NO_SCRIPT_RUNNING,
        Ok(_) => error::not_in_multi(spec.name),
    })
}
