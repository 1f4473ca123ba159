//! What masters run as a program: scripts that stand for nothing simpler, transactions, and single
//! commands of composite types.

use std::rc::Rc;
use std::sync::Arc;

use super::number::parse_i64;
use super::table::Spec;
use super::{Action, operation};
use crate::client::decoder::Args;
use crate::client::reply::Protocol;
use crate::client::session::Front;
use crate::lua::Script;
use crate::lua::program::Program as Text;
use crate::operation::load::Load;
use crate::operation::program::{Call, Null, Program, Shape};
use crate::operation::watch::Watched;
use crate::operation::{Kind, Operation, request};

/// Runs `script`, after the masters have looked at it if it is new.
pub(super) fn script(
    front: &Front,
    script: Arc<Script>,
    read_only: bool,
    keys: &[&[u8]],
    argv: &[&[u8]],
) -> Action {
    let text = script.program(front.worker.engine().rules().pad);
    let call = Call { read_only, ..call(front, text, keys, argv.iter().copied()) };
    let program = Program::new(call, Shape::Script);
    let kind = if script.is_known() {
        Kind::Program(Box::new(program))
    } else {
        Kind::Load(Load::new(script, Some(program)))
    };
    Action::Start(operation(front, keys.first().copied().unwrap_or_default(), kind))
}

/// Runs one command.
pub(super) fn command(front: &Front, spec: &Spec, args: Args<'_>) -> Operation {
    let keys = keys(spec, args);
    let shape = Shape::Command(null(spec.name, args));
    let words = command_words(args);
    let program = transaction(front, &keys, &[], &words, shape);
    operation(front, keys.first().copied().unwrap_or_default(), program)
}

/// Runs `commands`, each as its number of words and its words, if none of the `watched` keys has
/// changed.
pub(super) fn transaction(
    front: &Front,
    keys: &[&[u8]],
    watched: &[Rc<Watched>],
    commands: &[Vec<u8>],
    shape: Shape,
) -> Kind {
    let protocol: &[u8] = match front.outbox.protocol() {
        Protocol::Resp2 => b"2",
        Protocol::Resp3 => b"3",
    };
    let numbers = [front.db.to_string(), watched.len().to_string()];
    let mut words = vec![protocol.to_vec()];
    words.extend(numbers.map(String::into_bytes));
    for watched in watched {
        words.push(watched.db.to_string().into_bytes());
        words.push(watched.key.to_vec());
        // Not known, hence not equal to anything.
        let digest = watched.digest.borrow();
        words.push(digest.as_deref().unwrap_or(b"unknown").to_vec());
    }
    let argv = words.iter().chain(commands).map(Vec::as_slice);
    let call = call(front, front.worker.transaction(), keys, argv);
    Kind::Program(Box::new(Program::new(call, shape)))
}

/// A command as [`transaction`] wants it.
pub(super) fn command_words(args: Args<'_>) -> Vec<Vec<u8>> {
    let count = args.len().to_string().into_bytes();
    std::iter::once(count).chain(args.iter().map(<[u8]>::to_vec)).collect()
}

fn call<'a>(
    front: &Front,
    text: Arc<Text>,
    keys: &[&'a [u8]],
    argv: impl Iterator<Item = &'a [u8]>,
) -> Call {
    let mut words = Vec::new();
    request::word(&mut words, keys.len().to_string().as_bytes());
    let mut count = 1;
    for word in keys.iter().copied().chain(argv) {
        request::word(&mut words, word);
        count += 1;
    }
    let engine = front.worker.engine();
    let keys = keys.iter().map(|key| engine.fingerprint(front.db, key)).collect();
    Call { text, read_only: false, words, count, keys }
}

/// The keys of a command, as far as its table row or a count before them says where they are.
pub(super) fn keys<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    let fixed = fixed_keys(spec, args);
    if !spec.flags.contains(&"movablekeys") || matches!(spec.name, "sort" | "sort_ro") {
        return fixed;
    }
    // ZUNIONSTORE destination numkeys key..., LMPOP numkeys key..., BLMPOP timeout numkeys key...
    let at = if fixed.is_empty() && !spec.flags.contains(&"blocking") { 1 } else { 2 };
    let count = args.get(at).and_then(parse_i64).and_then(|count| usize::try_from(count).ok());
    let counted = args.iter().skip(at + 1).take(count.unwrap_or(0));
    fixed.into_iter().chain(counted).collect()
}

fn fixed_keys<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    let Some(first) = usize::try_from(spec.first_key).ok().filter(|first| *first > 0) else {
        return Vec::new();
    };
    let last = match usize::try_from(spec.last_key) {
        Ok(last) => last,
        Err(_) => args.len().saturating_sub(usize::from(spec.last_key.unsigned_abs())),
    };
    (first..=last).step_by(spec.step.max(1) as usize).filter_map(|at| args.get(at)).collect()
}

/// Which null a command answers in RESP2: Lua knows only one.
pub(super) fn null(name: &str, args: Args<'_>) -> Null {
    let array = match name {
        "lpop" | "rpop" => args.len() > 2,
        "lmpop" | "zmpop" | "blpop" | "brpop" | "bzpopmin" | "bzpopmax" | "blmpop" | "bzmpop" => true,
        _ => false,
    };
    if array { Null::Array } else { Null::Bulk }
}
