//! Requests that masters run as a program: scripts without a simpler meaning, transactions, and single commands of
//! composite types.

use std::rc::Rc;
use std::sync::Arc;

use super::{Action, operation, stream};
use crate::catalogue::table::{RunBy, Spec};
use crate::catalogue::{error, keys};
use crate::context::caller::Caller;
use crate::lua::Script;
use crate::lua::program::{ProgramText as Text, adds};
use crate::operation::load::{self, Load};
use crate::operation::program::{Call, Program, ProgramShape, Rendering};
use crate::operation::watch::Watched;
use crate::operation::{Kind, Operation};
use crate::resp::requests::Args;

/// Runs `script`. If it is new, the masters check it first.
pub(super) fn script(
    caller: &Caller,
    script: Arc<Script>,
    read_only: bool,
    keys: &[&[u8]],
    argv: &[&[u8]],
) -> Action {
    let text = match caller.login.guard() {
        None if read_only => script.reading_program(caller.worker.script_rules()),
        None => script.program(caller.worker.script_rules()),
        Some(guard) => script.guarded_program(caller.worker.script_rules(), guard),
    };
    let key = keys.first().copied().unwrap_or_default();
    if read_only && script.may_write_by_its_shebang() {
        return match script.is_lua() {
            true => Action::Reply(error::WRITE_FLAG),
            // An error in the text takes precedence.
            false => {
                let then = load::Then::Refuse(error::WRITE_FLAG);
                Action::Start(operation(caller, key, Kind::Load(Load::new(script, then))))
            }
        };
    }
    let call = Call { read_only, ..call(caller, text, keys, argv.iter().copied()) };
    let program = Program::new(call, ProgramShape::Script);
    let kind = if script.is_lua() {
        Kind::Program(Box::new(program))
    } else {
        Kind::Load(Load::new(script, load::Then::Run(Box::new(program))))
    };
    Action::Start(operation(caller, key, kind))
}

/// Maximum words that fit on Lua's stack together with others.
const MOST_UNPACKED: usize = 1_000;

/// One command that is run as often as needed.
pub(super) struct OneCommand {
    db: u32,
    key: Box<[u8]>,
    call: Call,
    rendering: Rendering,
}

impl OneCommand {
    /// Returns the command that `spec` describes.
    pub(super) fn new(caller: &Caller, spec: &Spec, args: Args<'_>) -> Self {
        let keys = keys::of(spec, args);
        let rendering = rendering(caller, spec, args);
        if let ([key], true) = (&keys[..], adds(spec.name) && args.len() <= MOST_UNPACKED) {
            let text = caller.worker.engine().rules().texts.of_command(spec.name);
            let call = call(caller, text, &keys, args.iter().skip(2));
            return Self { db: caller.db, key: (*key).into(), call, rendering };
        }
        Self::of(caller, &keys, &command_words(spec, args), rendering)
    }

    /// Returns a command that takes an element out of `key` instead of out of one of several keys.
    pub(super) fn taking_from(caller: &Caller, spec: &Spec, args: Args<'_>, key: &[u8]) -> Self {
        let command = counted(taking_words(spec, args, &[key]));
        Self::of(caller, &[key], &command, rendering(caller, spec, args))
    }

    /// Returns a command of these words, in the masters' form, on these keys.
    pub(super) fn on_keys(
        caller: &Caller,
        keys: &[&[u8]],
        words: &[&[u8]],
        rendering: Rendering,
    ) -> Self {
        let command = counted(words.iter().map(|word| word.to_vec()).collect());
        Self::of(caller, keys, &command, rendering)
    }

    /// Returns a command of these words, in the masters' form, on this key.
    pub(super) fn on_key(caller: &Caller, key: &[u8], words: &[&[u8]]) -> Self {
        Self::on_keys(caller, &[key], words, Rendering::AsIs)
    }

    fn of(caller: &Caller, keys: &[&[u8]], command: &[Vec<u8>], rendering: Rendering) -> Self {
        let key = keys.first().copied().unwrap_or_default().into();
        let text = caller.worker.transactions().with(&[], None).program;
        let call = transaction(caller, text, keys, &[], command);
        Self { db: caller.db, key, call, rendering }
    }

    /// Returns an operation that runs the command.
    pub(super) fn operation(&self) -> Operation {
        let program = Program::new(self.call.clone(), ProgramShape::Command(self.rendering));
        let kind = Kind::Program(Box::new(program));
        Operation { db: self.db, key: self.key.clone(), kind }
    }
}

/// Returns the call that runs `commands`, unless one of the `watched` keys has changed. Each command is its number of
/// words followed by its words.
pub(super) fn transaction(
    caller: &Caller,
    text: Arc<Text>,
    keys: &[&[u8]],
    watched: &[Rc<Watched>],
    commands: &[Vec<u8>],
) -> Call {
    let words = [caller.outbox.protocol().number().to_vec(), caller.db.to_string().into_bytes()];
    let argv = words.iter().chain(commands).map(Vec::as_slice);
    let watched = watched.iter().map(|watched| watched.expected()).collect();
    Call { watched, ..call(caller, text, keys, argv) }
}

/// Returns a command in the form that [`transaction`] takes. Blocking commands are replaced by non-blocking ones.
pub(super) fn command_words(spec: &Spec, args: Args<'_>) -> Vec<Vec<u8>> {
    let words: Vec<_> = args.iter().collect();
    let renamed = |name: &'static str| {
        let words =
            std::iter::once(name.as_bytes()).chain(words[1..words.len() - 1].iter().copied());
        words.map(<[u8]>::to_vec).collect()
    };
    let words: Vec<Vec<u8>> = match spec.name {
        "blmove" => renamed("LMOVE"),
        "brpoplpush" => renamed("RPOPLPUSH"),
        "xread" | "xreadgroup" => stream::without_block(spec, args),
        _ if spec.run == RunBy::Wait => taking_words(spec, args, &keys::of(spec, args)),
        _ => words.into_iter().map(<[u8]>::to_vec).collect(),
    };
    counted(words)
}

/// Returns the words of a command that takes elements out of the first of `keys` that has any.
fn taking_words(spec: &Spec, args: Args<'_>, keys: &[&[u8]]) -> Vec<Vec<u8>> {
    let words: Vec<_> = args.iter().collect();
    let (name, end): (&str, &[&[u8]]) = match spec.name {
        "blpop" => ("LMPOP", &[b"LEFT"]),
        "brpop" => ("LMPOP", &[b"RIGHT"]),
        "bzpopmin" => ("ZMPOP", &[b"MIN"]),
        "bzpopmax" => ("ZMPOP", &[b"MAX"]),
        "blmpop" => ("LMPOP", &words[3 + keys::of(spec, args).len()..]),
        _ => ("ZMPOP", &words[3 + keys::of(spec, args).len()..]),
    };
    let count = keys.len().to_string();
    let head = [name.as_bytes(), count.as_bytes()].into_iter();
    head.chain(keys.iter().copied()).chain(end.iter().copied()).map(<[u8]>::to_vec).collect()
}

/// Prefixes words with their number.
fn counted(words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    std::iter::once(words.len().to_string().into_bytes()).chain(words).collect()
}

fn call<'a>(
    caller: &Caller,
    text: Arc<Text>,
    keys: &[&'a [u8]],
    argv: impl Iterator<Item = &'a [u8]>,
) -> Call {
    let engine = caller.worker.engine();
    let turns = keys.iter().map(|key| engine.fingerprint(caller.db, key)).collect();
    let runner = caller.worker.residents().runner_of(&text);
    Call::new(text, runner, turns, keys.iter().copied(), argv)
}

/// Returns how the reply to a command is rendered.
pub(super) fn rendering(caller: &Caller, spec: &Spec, args: Args<'_>) -> Rendering {
    match spec.name {
        "xread" | "xreadgroup" => Rendering::Streams(caller.outbox.protocol()),
        "blpop" | "brpop" => Rendering::ListPop,
        "bzpopmin" | "bzpopmax" => Rendering::ScorePop,
        "lmpop" | "zmpop" | "blmpop" | "bzmpop" => Rendering::NullArray,
        "lpop" | "rpop" if args.len() > 2 => Rendering::NullArray,
        _ => Rendering::AsIs,
    }
}
