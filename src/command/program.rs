//! What masters run as a program: scripts that stand for nothing simpler, transactions, and single
//! commands of composite types.

use std::rc::Rc;
use std::sync::Arc;

use super::table::{Run, Spec};
use super::{Action, error, keys, operation, stream};
use crate::client::decoder::Args;
use crate::client::session::Front;
use crate::lua::Script;
use crate::lua::program::{Program as Text, adds};
use crate::operation::load::{self, Load};
use crate::operation::program::{Call, Program, Rendering, Shape};
use crate::operation::watch::Watched;
use crate::operation::{Kind, Operation};

/// Runs `script`, after the masters have looked at it if it is new.
pub(super) fn script(
    front: &Front,
    script: Arc<Script>,
    read_only: bool,
    keys: &[&[u8]],
    argv: &[&[u8]],
) -> Action {
    let text = match front.login.guard() {
        None if read_only => script.reading_program(front.worker.ttls()),
        None => script.program(front.worker.ttls()),
        Some(guard) => script.guarded_program(front.worker.ttls(), guard),
    };
    let key = keys.first().copied().unwrap_or_default();
    if read_only && script.may_write_by_its_shebang() {
        return match script.is_lua() {
            true => Action::Reply(error::WRITE_FLAG),
            // A mistake in the text comes first.
            false => {
                let then = load::Then::Refuse(error::WRITE_FLAG);
                Action::Start(operation(front, key, Kind::Load(Load::new(script, then))))
            }
        };
    }
    let call = Call { read_only, ..call(front, text, keys, argv.iter().copied()) };
    let program = Program::new(call, Shape::Script);
    let kind = if script.is_lua() {
        Kind::Program(Box::new(program))
    } else {
        Kind::Load(Load::new(script, load::Then::Run(Box::new(program))))
    };
    Action::Start(operation(front, key, kind))
}

/// More words than that do not fit on the stack of Lua together with others.
const MOST_UNPACKED: usize = 1_000;

/// One command that is run as often as needed.
pub(super) struct OneCommand {
    db: u32,
    key: Box<[u8]>,
    call: Call,
    rendering: Rendering,
}

impl OneCommand {
    /// The command that `spec` describes.
    pub(super) fn new(front: &Front, spec: &Spec, args: Args<'_>) -> Self {
        let keys = keys::of(spec, args);
        let rendering = rendering(front, spec, args);
        if let ([key], true) = (&keys[..], adds(spec.name) && args.len() <= MOST_UNPACKED) {
            let text = front.worker.engine().rules().texts.of_command(spec.name);
            let call = call(front, text, &keys, args.iter().skip(2));
            return Self { db: front.db, key: (*key).into(), call, rendering };
        }
        Self::of(front, &keys, &command_words(spec, args), rendering)
    }

    /// One that takes an element out of `key` instead of out of one of several keys.
    pub(super) fn taking_from(front: &Front, spec: &Spec, args: Args<'_>, key: &[u8]) -> Self {
        let command = counted(taking_words(spec, args, &[key]));
        Self::of(front, &[key], &command, rendering(front, spec, args))
    }

    /// These words, as masters know them, on these keys.
    pub(super) fn on_keys(
        front: &Front,
        keys: &[&[u8]],
        words: &[&[u8]],
        rendering: Rendering,
    ) -> Self {
        let command = counted(words.iter().map(|word| word.to_vec()).collect());
        Self::of(front, keys, &command, rendering)
    }

    /// These words, as masters know them, on this key.
    pub(super) fn on_key(front: &Front, key: &[u8], words: &[&[u8]]) -> Self {
        Self::on_keys(front, &[key], words, Rendering::AsIs)
    }

    fn of(front: &Front, keys: &[&[u8]], command: &[Vec<u8>], rendering: Rendering) -> Self {
        let key = keys.first().copied().unwrap_or_default().into();
        let text = front.worker.transactions().with(&[], None).program;
        let call = transaction(front, text, keys, &[], command);
        Self { db: front.db, key, call, rendering }
    }

    /// Runs it.
    pub(super) fn operation(&self) -> Operation {
        let program = Program::new(self.call.clone(), Shape::Command(self.rendering));
        let kind = Kind::Program(Box::new(program));
        Operation { db: self.db, key: self.key.clone(), kind }
    }
}

/// Runs `commands`, each as its number of words and its words, if none of the `watched` keys has
/// changed.
pub(super) fn transaction(
    front: &Front,
    text: Arc<Text>,
    keys: &[&[u8]],
    watched: &[Rc<Watched>],
    commands: &[Vec<u8>],
) -> Call {
    let words = [front.outbox.protocol().number().to_vec(), front.db.to_string().into_bytes()];
    let argv = words.iter().chain(commands).map(Vec::as_slice);
    let watched = watched.iter().map(|watched| watched.expected()).collect();
    Call { watched, ..call(front, text, keys, argv) }
}

/// A command as [`transaction`] wants it. Those that wait become those that do not.
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
        _ if spec.run == Run::Wait => taking_words(spec, args, &keys::of(spec, args)),
        _ => words.into_iter().map(<[u8]>::to_vec).collect(),
    };
    counted(words)
}

/// The words of a command that takes elements out of the first of `keys` that has any.
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

/// Words behind their number.
fn counted(words: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    std::iter::once(words.len().to_string().into_bytes()).chain(words).collect()
}

fn call<'a>(
    front: &Front,
    text: Arc<Text>,
    keys: &[&'a [u8]],
    argv: impl Iterator<Item = &'a [u8]>,
) -> Call {
    let engine = front.worker.engine();
    let turns = keys.iter().map(|key| engine.fingerprint(front.db, key)).collect();
    let runner = front.worker.residents().runner_of(&text);
    Call::new(text, runner, turns, keys.iter().copied(), argv)
}

/// What is made of the reply to a command.
pub(super) fn rendering(front: &Front, spec: &Spec, args: Args<'_>) -> Rendering {
    match spec.name {
        "xread" | "xreadgroup" => Rendering::Streams(front.outbox.protocol()),
        "blpop" | "brpop" => Rendering::ListPop,
        "bzpopmin" | "bzpopmax" => Rendering::ScorePop,
        "lmpop" | "zmpop" | "blmpop" | "bzmpop" => Rendering::NullArray,
        "lpop" | "rpop" if args.len() > 2 => Rendering::NullArray,
        _ => Rendering::AsIs,
    }
}
