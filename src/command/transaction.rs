//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH` (`multi.c`).

use std::rc::Rc;

use super::number::parse_i64;
use super::program;
use super::table::{Command, Family, Run, Spec};
use super::{Action, Outcome, error, family, operation};
use crate::client::decoder::{Args, Decoder, Limits};
use crate::client::outbox::Gather;
use crate::client::reply::Reply;
use crate::client::session::Front;
use crate::operation::program::{Program, Queued, Shape};
use crate::operation::watch::{Watch, Watched};
use crate::operation::{Kind, Operation, request};

/// How many bytes of commands one client may queue. Redis counts them as the client's query buffer,
/// which it bounds by 1 GB.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// What a session has queued since `MULTI`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// Requests, encoded.
    queue: Vec<(&'static Spec, Box<[u8]>)>,
    bytes: usize,
    /// A command was refused; `EXEC` will be, too.
    aborted: bool,
}

/// `MULTI`
pub(super) fn multi(front: &mut Front) -> Outcome {
    if front.transaction.is_some() {
        return Err(error::NESTED_MULTI);
    }
    front.transaction = Some(Transaction::default());
    Ok(Action::Reply(Reply::OK))
}

/// `DISCARD`
pub(super) fn discard(front: &mut Front) -> Outcome {
    front.transaction.take().ok_or(error::DISCARD_WITHOUT_MULTI)?;
    front.watched.clear();
    Ok(Action::Reply(Reply::OK))
}

/// `UNWATCH`
pub(super) fn unwatch(front: &mut Front) -> Outcome {
    front.watched.clear();
    Ok(Action::Reply(Reply::OK))
}

/// `WATCH key...`
pub(super) fn watch(front: &mut Front, args: Args<'_>) -> Outcome {
    if front.transaction.is_some() {
        return Err(error::WATCH_IN_MULTI);
    }
    let mut operations = Vec::new();
    for key in args.from(1).iter() {
        let known = |watched: &Rc<Watched>| watched.db == front.db && *watched.key == *key;
        if front.watched.iter().any(known) {
            continue;
        }
        let watched = Watched::new(front.db, key);
        front.watched.push(Rc::clone(&watched));
        operations.push(Operation {
            db: front.db,
            key: key.into(),
            kind: Kind::Watch(Watch::new(watched)),
        });
    }
    if operations.is_empty() {
        return Ok(Action::Reply(Reply::OK));
    }
    Ok(Action::Gather(Gather::AllOk, operations))
}

/// A request was not even accepted: what is queued must not run.
pub(super) fn refused(front: &mut Front, args: Args<'_>, refused: Action) -> Action {
    let Some(transaction) = &mut front.transaction else { return refused };
    transaction.aborted = true;
    match refused {
        Action::Reply(Reply::Error(why)) if args.at(0).eq_ignore_ascii_case(b"exec") => {
            front.transaction = None;
            front.watched.clear();
            Action::Reply(error::exec_aborted_by(&why))
        }
        other => other,
    }
}

/// Puts a command into the queue of a `MULTI`.
pub(super) fn queue(front: &mut Front, spec: &'static Spec, args: Args<'_>) -> Outcome {
    let Some(transaction) = &mut front.transaction else { return Err(error::EXEC_WITHOUT_MULTI) };
    if let Err(refused) = may_be_queued(spec, transaction.bytes) {
        transaction.aborted = true;
        return Err(refused);
    }
    let mut request = Vec::new();
    request::encode(&mut request, &args.iter().collect::<Vec<_>>());
    transaction.bytes += request.len();
    transaction.queue.push((spec, request.into()));
    Ok(Action::Reply(Reply::Simple("QUEUED")))
}

fn may_be_queued(spec: &Spec, queued: usize) -> Result<(), Reply> {
    if queued > MAX_QUEUED_BYTES {
        return Err(Reply::error("ERR the transaction is too large: queue fewer commands"));
    }
    if spec.family == Family::Script {
        return Err(error::not_in_multi(spec.name));
    }
    Ok(())
}

/// `EXEC`
pub(super) fn exec(front: &mut Front) -> Outcome {
    let transaction = front.transaction.take().ok_or(error::EXEC_WITHOUT_MULTI)?;
    let watched = std::mem::take(&mut front.watched);
    if transaction.aborted {
        return Err(error::EXEC_ABORT);
    }
    let (mut queued, mut commands, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    let mut decoder = Decoder::new();
    for (spec, request) in &transaction.queue {
        let limits = Limits { max_request_bytes: usize::MAX, authenticated: true };
        decoder.decode(request, limits).map_err(|error| error.reply())?;
        let args = decoder.args(request);
        if is_run_by_masters(spec) {
            queued.push(asked(spec, args));
            commands.extend(program::command_words(spec, args));
            keys.extend(program::keys(spec, args).into_iter().map(<[u8]>::to_vec));
        } else {
            queued.push(Queued::Known(known(front, spec, args)));
        }
    }
    keys.extend(watched.iter().map(|watched| watched.key.to_vec()));
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let call = program::transaction(front, &keys, &watched, &commands);
    let program = Program::new(call, Shape::Transaction(queued, Rc::clone(&front.chosen_db)));
    let first = keys.first().copied().unwrap_or_default();
    Ok(Action::Start(operation(front, first, Kind::Program(Box::new(program)))))
}

fn asked(spec: &Spec, args: Args<'_>) -> Queued {
    let db = args.get(1).and_then(parse_i64).and_then(|db| u32::try_from(db).ok());
    match (spec.id, db) {
        (Command::Select, Some(db)) => Queued::Select(db),
        _ => Queued::Asked(program::rendering(spec.name, args)),
    }
}

fn is_run_by_masters(spec: &Spec) -> bool {
    use Family as F;
    let by_proxy = matches!(spec.family, F::Connection | F::Server | F::Transaction | F::Script);
    spec.run != Run::Own || !by_proxy || spec.id == Command::Select
}

fn known(front: &mut Front, spec: &'static Spec, args: Args<'_>) -> Reply {
    match family(front, spec, args) {
        Ok(Action::Reply(reply)) | Err(reply) => reply,
        Ok(_) => error::not_in_multi(spec.name),
    }
}
