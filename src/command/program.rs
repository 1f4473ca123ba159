//! What masters run as a program: scripts that stand for nothing simpler, transactions, and single
//! commands of composite types.

use std::rc::Rc;
use std::sync::Arc;

use super::table::Spec;
use super::{Action, keys, operation};
use crate::client::decoder::Args;
use crate::client::session::Front;
use crate::lua::Script;
use crate::lua::program::Program as Text;
use crate::operation::load::{self, Load};
use crate::operation::program::{Call, Program, Rendering, Shape, Touched};
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
    let text = match front.login.guard() {
        None if read_only => script.reading_program(front.worker.ttls()),
        None => script.program(front.worker.ttls()),
        Some(guard) => script.guarded_program(front.worker.ttls(), guard),
    };
    let call = Call { read_only, ..call(front, text, keys, argv.iter().copied()) };
    let program = Program::new(call, Shape::Script);
    let kind = if script.is_lua() {
        Kind::Program(Box::new(program))
    } else {
        Kind::Load(Load::new(script, load::Then::Run(Box::new(program))))
    };
    Action::Start(operation(front, keys.first().copied().unwrap_or_default(), kind))
}

/// One command that is run as often as needed.
pub(super) struct OneCommand {
    db: u32,
    key: Box<[u8]>,
    call: Call,
    rendering: Rendering,
    touched: Touched,
}

impl OneCommand {
    /// The command that `spec` describes.
    pub(super) fn new(front: &Front, spec: &Spec, args: Args<'_>) -> Self {
        let keys = keys::of(spec, args);
        let key = keys.first().copied().unwrap_or_default().into();
        let text = front.worker.transactions().with(&[], None).program;
        let call = transaction(front, text, &keys, &[], &command_words(spec, args));
        let touched = touched(spec, &keys);
        Self { db: front.db, key, call, rendering: rendering(spec.name, args), touched }
    }

    /// Runs it.
    pub(super) fn operation(&self) -> Operation {
        let program = Program::new(self.call.clone(), Shape::Command(self.rendering));
        let program = program.touching(self.touched.clone());
        let kind = Kind::Program(Box::new(program));
        Operation { db: self.db, key: self.key.clone(), kind }
    }
}

/// The keys that a command writes to even if they hold the same before and after: who watches them is told.
fn touched(spec: &Spec, keys: &[&[u8]]) -> Touched {
    let (count, unless_zero) = match spec.name {
        "rename" if keys.first() == keys.get(1) => return Touched::default(),
        "lmove" | "rpoplpush" | "blmove" | "brpoplpush" | "mset" | "rename" => (keys.len(), false),
        "hset" | "hmset" | "hincrby" | "hincrbyfloat" | "incrbyfloat" | "lset" => (1, false),
        "pfmerge" | "setbit" | "zincrby" => (1, false),
        "bitop" | "geosearchstore" | "sdiffstore" | "sinterstore" | "sunionstore" => (1, true),
        "zdiffstore" | "zinterstore" | "zrangestore" | "zunionstore" => (1, true),
        _ => return Touched::default(),
    };
    Touched { keys: keys.iter().take(count).map(|key| (*key).into()).collect(), unless_zero }
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
    let numbers = [front.db.to_string(), watched.len().to_string()];
    let mut words = vec![front.outbox.protocol().number().to_vec()];
    words.extend(numbers.map(String::into_bytes));
    for watched in watched {
        words.push(watched.db.to_string().into_bytes());
        words.push(watched.key.to_vec());
        // Not a digest, hence not equal to one.
        words.push(watched.expected().unwrap_or((*b"broken").into()).into());
    }
    let argv = words.iter().chain(commands).map(Vec::as_slice);
    call(front, text, keys, argv)
}

/// A command as [`transaction`] wants it. Those that wait become those that do not.
pub(super) fn command_words(spec: &Spec, args: Args<'_>) -> Vec<Vec<u8>> {
    let keys = keys::of(spec, args);
    let words: Vec<_> = args.iter().collect();
    let count = keys.len().to_string();
    let pop = |name: &'static str, end: &'static str| {
        let head = [name.as_bytes(), count.as_bytes()].into_iter();
        head.chain(keys.iter().copied()).chain([end.as_bytes()]).map(<[u8]>::to_vec).collect()
    };
    let renamed = |name: &'static str, rest: &[&[u8]]| {
        std::iter::once(name.as_bytes()).chain(rest.iter().copied()).map(<[u8]>::to_vec).collect()
    };
    let words: Vec<Vec<u8>> = match spec.name {
        "blpop" => pop("LMPOP", "LEFT"),
        "brpop" => pop("LMPOP", "RIGHT"),
        "bzpopmin" => pop("ZMPOP", "MIN"),
        "bzpopmax" => pop("ZMPOP", "MAX"),
        "blmove" => renamed("LMOVE", &words[1..words.len() - 1]),
        "brpoplpush" => renamed("RPOPLPUSH", &words[1..words.len() - 1]),
        "blmpop" => renamed("LMPOP", &words[2..]),
        "bzmpop" => renamed("ZMPOP", &words[2..]),
        _ => words.into_iter().map(<[u8]>::to_vec).collect(),
    };
    std::iter::once(words.len().to_string().into_bytes()).chain(words).collect()
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
    let runner = front.worker.residents().runner_of(&text);
    Call { text, runner, read_only: false, words, count, keys }
}

/// What is made of the reply to a command.
pub(super) fn rendering(name: &str, args: Args<'_>) -> Rendering {
    match name {
        "blpop" | "brpop" => Rendering::ListPop,
        "bzpopmin" | "bzpopmax" => Rendering::ScorePop,
        "lmpop" | "zmpop" | "blmpop" | "bzmpop" => Rendering::NullArray,
        "lpop" | "rpop" if args.len() > 2 => Rendering::NullArray,
        _ => Rendering::AsIs,
    }
}
