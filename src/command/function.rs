//! `FUNCTION ...`, `FCALL`, `FCALL_RO` (`functions.c`).

mod payload;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::{Action, Outcome, program, script};
use crate::catalogue::table::{Command, Spec};
use crate::catalogue::{error, keys};
use crate::context::caller::Caller;
use crate::engine::sequential::libraries::{self, Libraries, Policy, Storing};
use crate::lua::library::{Function, Library, Text};
use crate::resp::glob;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// `FCALL name numkeys key... arg...`, `FCALL_RO`
pub(super) fn fcall(caller: &Caller, spec: &Spec, args: Args<'_>) -> Outcome {
    if caller.side.is_some() {
        return Err(WITH_DATA);
    }
    let Some(libraries) = caller.current_libraries(&keys::of(spec, args)) else {
        return Ok(Action::Later);
    };
    let (script, keys, argv) = called(&*libraries?, spec, args)?;
    Ok(program::script(caller, script, false, &keys, &argv))
}

/// Returns the function that is called, with its keys and arguments.
fn called<'a>(
    libraries: &Libraries,
    spec: &Spec,
    args: Args<'a>,
) -> Result<script::Call<'a>, Reply> {
    let function = libraries.function(args.at(1)).ok_or(NO_FUNCTION)?;
    let (keys, argv) = script::keys_and_argv_or(args, BAD_COUNT)?;
    if spec.id == Command::FcallRo && !function.script.is_read_only() {
        return Err(error::WRITE_FLAG);
    }
    Ok((Arc::clone(&function.script), keys, argv))
}

/// Returns the function that an `FCALL` after `MULTI` will run.
pub(super) fn queued<'a>(
    caller: &Caller,
    spec: &Spec,
    args: Args<'a>,
) -> Result<script::Call<'a>, Reply> {
    if caller.side.is_some() {
        return Err(WITH_DATA);
    }
    called(&*known(caller)?, spec, args)
}

/// Returns the libraries, which the planning of an `EXEC` has set.
fn known(caller: &Caller) -> Result<Rc<Libraries>, Reply> {
    caller.current_libraries(&[]).unwrap_or_else(|| Err(error::not_in_multi("function")))
}

/// Whether a request can be planned only once the libraries of a quorum are known.
pub(super) fn needs_libraries(spec: &Spec, args: Args<'_>) -> bool {
    let asks = || is(args.get(1).unwrap_or_default(), &["list", "stats", "dump"]);
    match spec.id {
        Command::Fcall | Command::FcallRo => true,
        Command::Function => asks(),
        _ => false,
    }
}

/// `FUNCTION LOAD|DELETE|FLUSH|LIST|STATS|DUMP|RESTORE|KILL`
pub(super) fn function(caller: &Caller, args: Args<'_>) -> Outcome {
    let engine = caller.worker.engine();
    match &args.at(1).to_ascii_lowercase()[..] {
        b"load" => load(caller, args),
        b"restore" => restore(caller, args),
        b"delete" => Ok(Action::Start(libraries::deletion(engine, args.at(2)))),
        b"flush" if args.len() > 3 => Err(error::subcommand_syntax("FUNCTION", args.at(1))),
        b"flush" if args.len() == 3 && !is(args.at(2), &["sync", "async"]) => Err(FLUSH_OPTION),
        b"flush" => Ok(Action::Start(libraries::flush(engine))),
        b"list" => {
            let wanted = Wanted::parse(args)?;
            told(caller, |libraries| wanted.list(libraries))
        }
        b"stats" => told(caller, stats),
        b"dump" => told(caller, |libraries| {
            Reply::bulk(payload::dump(libraries.all().iter().map(|library| &library.text[..])))
        }),
        b"kill" => Ok(Action::KillScripts),
        _ => Err(error::unknown_subcommand("FUNCTION", args.at(1))),
    }
}

fn told(caller: &Caller, reply: impl FnOnce(&Libraries) -> Reply) -> Outcome {
    match caller.current_libraries(&[]) {
        Some(libraries) => Ok(Action::Reply(reply(&*libraries?))),
        None => Ok(Action::Later),
    }
}

/// `FUNCTION LOAD [REPLACE] text`
fn load(caller: &Caller, args: Args<'_>) -> Outcome {
    let (options, text) = (args.len() - 3, args.at(args.len() - 1));
    let options = || args.from(2).iter().take(options);
    if let Some(unknown) = options().find(|option| !is(option, &["replace"])) {
        let unknown = String::from_utf8_lossy(unknown);
        return Err(Reply::error(format!("ERR Unknown option given: {unknown}")));
    }
    let policy = if options().next().is_some() { Policy::Replace } else { Policy::New };
    let name = Text::parse(text)?.name;
    if policy == Policy::New {
        // Redis reports this error before it checks the text.
        let Some(libraries) = caller.current_libraries(&[]) else { return Ok(Action::Later) };
        if libraries?.named(&name).is_some() {
            return Err(Reply::error(format!("ERR Library '{name}' already exists")));
        }
    }
    Ok(store(caller, vec![Bytes::copy_from_slice(text)], policy, Reply::bulk(name)))
}

/// `FUNCTION RESTORE payload [FLUSH|APPEND|REPLACE]`
fn restore(caller: &Caller, args: Args<'_>) -> Outcome {
    if args.len() > 4 {
        return Err(error::subcommand_syntax("FUNCTION", args.at(1)));
    }
    let policy = match args.get(3) {
        None => Policy::Append,
        Some(word) if is(word, &["append"]) => Policy::Append,
        Some(word) if is(word, &["replace"]) => Policy::Replace,
        Some(word) if is(word, &["flush"]) => Policy::Flush,
        Some(_) => return Err(RESTORE_POLICY),
    };
    let texts = payload::texts(args.at(2))?;
    for text in &texts {
        Text::parse(text)?;
    }
    Ok(store(caller, texts, policy, Reply::OK))
}

fn store(caller: &Caller, texts: Vec<Bytes>, policy: Policy, reply: Reply) -> Action {
    let guard = caller.login.guard().cloned();
    Action::Store(Box::new(Storing { texts, policy, guard, reply }))
}

/// The libraries that `FUNCTION LIST` is to show.
#[derive(Default)]
struct Wanted {
    pattern: Option<Vec<u8>>,
    with_code: bool,
}

impl Wanted {
    fn parse(args: Args<'_>) -> Result<Self, Reply> {
        let (mut wanted, mut at) = (Self::default(), 2);
        while let Some(word) = args.get(at) {
            if !wanted.with_code && is(word, &["withcode"]) {
                wanted.with_code = true;
            } else if wanted.pattern.is_none() && is(word, &["libraryname"]) {
                at += 1;
                let pattern = args.get(at).ok_or(NO_PATTERN)?;
                wanted.pattern = Some(pattern.to_vec());
            } else {
                let word = String::from_utf8_lossy(word);
                return Err(Reply::error(format!("ERR Unknown argument {word}")));
            }
            at += 1;
        }
        Ok(wanted)
    }

    fn list(&self, libraries: &Libraries) -> Reply {
        let is_wanted = |library: &&Library| {
            let pattern = self.pattern.as_deref();
            pattern.is_none_or(|pattern| glob::matches(pattern, library.name.as_bytes(), true))
        };
        let wanted = libraries.all().iter().filter(is_wanted);
        Reply::Array(wanted.map(|library| self.of_library(library)).collect())
    }

    fn of_library(&self, library: &Library) -> Reply {
        let functions = library.functions.iter().map(of_function).collect();
        let mut fields = vec![
            field("library_name", Reply::bulk(library.name.clone())),
            field("engine", Reply::bulk("LUA")),
            field("functions", Reply::Array(functions)),
        ];
        if self.with_code {
            fields.push(field("library_code", Reply::bulk(library.text.clone())));
        }
        Reply::Map(fields)
    }
}

fn of_function(function: &Function) -> Reply {
    Reply::Map(vec![
        field("name", Reply::bulk(function.name.clone())),
        field("description", function.description.clone().map_or(Reply::Nil, Reply::bulk)),
        field("flags", Reply::Set(function.flags().map(Reply::Simple).collect())),
    ])
}

/// `FUNCTION STATS`: nothing runs in the proxy, and masters do not say what they run.
fn stats(libraries: &Libraries) -> Reply {
    let functions: usize = libraries.all().iter().map(|library| library.functions.len()).sum();
    let engine = Reply::Map(vec![
        field("libraries_count", Reply::Int(libraries.all().len() as i64)),
        field("functions_count", Reply::Int(functions as i64)),
    ]);
    Reply::Map(vec![
        field("running_script", Reply::Nil),
        field("engines", Reply::Map(vec![field("LUA", engine)])),
    ])
}

fn field(name: &'static str, value: Reply) -> (Reply, Reply) {
    (Reply::bulk(name), value)
}

const NO_FUNCTION: Reply = error::fixed("ERR Function not found");
const BAD_COUNT: Reply = error::fixed("ERR Bad number of keys provided");
const NO_PATTERN: Reply = error::fixed("ERR library name argument was not given");
const FLUSH_OPTION: Reply = error::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
const RESTORE_POLICY: Reply = error::fixed(
    "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
);
const WITH_DATA: Reply = error::fixed(
    "ERR with a data Redis, which keeps all libraries, functions cannot be called on keys of locks: send the function's text with EVAL",
);
