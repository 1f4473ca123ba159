//! The libraries of functions: one register, cached by each worker.
//!
//! Before calling a function, a quorum is asked for the name of the register's contents ([`crate::operation::watch`]),
//! which is one round trip. If the worker has cached the contents with that name, they are current. Otherwise it reads
//! the register, and the name once more: a value read between two equal names has that name.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::acl::guard::Guard;
use crate::catalogue::reserved::LIBRARIES;
use crate::client::outbox::Target;
use crate::engine::Engine;
use crate::lua::Script;
use crate::lua::library::{Function, Library, Text};
use crate::lua::program::ProgramText as Wrapped;
use crate::operation::load::{self, Load};
use crate::operation::on_register::RegisterChange;
use crate::operation::program::{Call, Program, ProgramShape, Rendering};
use crate::operation::register::ContentName;
use crate::operation::watch::{Watch, Watched};
use crate::operation::{Kind, Operation, settled_read};
use crate::resp::flat;
use crate::resp::reply::Reply;

/// All libraries at some moment, ordered by name.
#[derive(Debug, Default)]
pub struct Libraries(Vec<Library>);

impl Libraries {
    /// Returns all libraries.
    pub fn all(&self) -> &[Library] {
        &self.0
    }

    /// Returns the library of this name.
    pub fn named(&self, name: &str) -> Option<&Library> {
        self.0.iter().find(|library| library.name == name)
    }

    /// Returns the function of this name in any library, ignoring case if there is no exact match.
    pub fn function(&self, name: &[u8]) -> Option<&Function> {
        let mut functions = self.0.iter().flat_map(|library| &library.functions);
        let is_meant = |function: &&Function| function.name.as_bytes().eq_ignore_ascii_case(name);
        functions.clone().find(|it| it.name.as_bytes() == name).or_else(|| functions.find(is_meant))
    }

    /// Parses a whole register: alternating names and contents.
    fn read(hash: &[u8]) -> Option<Self> {
        let words: Vec<&[u8]> = flat::elements(hash).filter_map(|element| element.body).collect();
        let library = |pair: &[&[u8]]| Library::stored(pair.get(1)?);
        let mut libraries: Vec<_> = words.chunks(2).map(library).collect::<Option<_>>()?;
        libraries.sort_unstable_by(|one: &Library, other| one.name.cmp(&other.name));
        Some(Self(libraries))
    }
}

/// Treatment of existing libraries when others are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Reject libraries whose name exists (`FUNCTION LOAD`).
    New,
    /// Like [`New`](Self::New), with the replies of `FUNCTION RESTORE`.
    Append,
    /// Replace libraries of the same name.
    Replace,
    /// Remove all existing libraries.
    Flush,
}

/// The register's contents for a request in a session that waits for them.
#[derive(Debug, Default)]
pub enum LibraryAnswer {
    /// Not requested.
    #[default]
    Nobody,
    /// A quorum has been asked.
    Pending,
    /// The result.
    Told(Result<Rc<Libraries>, Reply>),
}

/// A worker's cached copy of the register.
#[derive(Debug, Default)]
pub struct Shelf {
    known: RefCell<Option<(ContentName, Rc<Libraries>)>>,
}

/// Maximum reads while other clients change the register.
const MOST: usize = 16;

impl Shelf {
    /// Returns the libraries as of some moment since the call.
    ///
    /// # Errors
    /// Returns the error reply if no quorum answers.
    pub async fn current(&self, engine: &Rc<Engine>) -> Result<Rc<Libraries>, Reply> {
        let mut name = name(engine).await?;
        for _ in 0..MOST {
            if !name.lives {
                return Ok(Rc::default());
            }
            if let Some((_, known)) = self.known.borrow().as_ref().filter(|(it, _)| *it == name) {
                return Ok(Rc::clone(known));
            }
            let libraries = content(engine).await?;
            let before = std::mem::replace(&mut name, self::name(engine).await?);
            if name == before {
                *self.known.borrow_mut() = Some((name.clone(), Rc::new(libraries)));
            }
        }
        Err(Reply::error("TRYAGAIN other clients keep changing the function libraries: try again"))
    }
}

/// Libraries to be stored, all or none.
#[derive(Debug)]
pub struct Storing {
    /// As clients have sent them.
    pub texts: Vec<Bytes>,
    /// Treatment of existing libraries.
    pub policy: Policy,
    /// Access rules of the client that stores them: masters run their text.
    pub guard: Option<Arc<Guard>>,
    /// The reply once they are stored.
    pub reply: Reply,
}

impl Storing {
    /// Has masters check the libraries, stores them, and replies.
    pub async fn run(self, engine: Rc<Engine>, target: Target) {
        let reply = self.stored(&engine).await.unwrap_or_else(|refused| refused);
        target.deliver(reply);
    }

    async fn stored(self, engine: &Rc<Engine>) -> Result<Reply, Reply> {
        let mut libraries: Vec<Library> = Vec::new();
        for text in self.texts {
            let library = registered(engine, text, self.guard.as_deref()).await?;
            if libraries.iter().any(|other| other.name == library.name) {
                return Err(Reply::error(format!("ERR Library {} already exists", library.name)));
            }
            libraries.push(library);
        }
        let stored = store(engine, self.policy, &libraries).await;
        if is_ok(&stored) { Ok(self.reply) } else { Err(stored) }
    }
}

/// Returns the operation that removes the library of this name (`FUNCTION DELETE`).
pub fn deletion(engine: &Engine, name: &[u8]) -> Operation {
    change(engine, RegisterChange::Delete, &[name])
}

/// Returns the operation that removes all libraries (`FUNCTION FLUSH`).
pub fn flush(engine: &Engine) -> Operation {
    change(engine, RegisterChange::Flush, &[])
}

async fn store(engine: &Rc<Engine>, policy: Policy, libraries: &[Library]) -> Reply {
    let policy: &[u8] = match policy {
        Policy::New => b"new",
        Policy::Append => b"append",
        Policy::Replace => b"replace",
        Policy::Flush => b"flush",
    };
    let contents: Vec<_> = libraries.iter().map(Library::content).collect();
    let mut words = vec![policy];
    for (library, content) in libraries.iter().zip(&contents) {
        words.extend([library.name.as_bytes(), content]);
    }
    engine.run_now(change(engine, RegisterChange::Store, &words)).await
}

/// Asks masters whether a text is Lua, and what it registers. Nothing is stored.
async fn registered(
    engine: &Rc<Engine>,
    text: Bytes,
    guard: Option<&Guard>,
) -> Result<Library, Reply> {
    let code = text.slice_ref(Text::parse(&text)?.code);
    let script = Arc::new(Script::unnamed(code.clone()));
    let load = Kind::Load(Load::new(script, load::Then::Tell));
    let loading = Operation { db: 0, key: Box::default(), kind: load };
    match engine.run(loading, 0).await {
        Reply::Bulk(_) => {}
        Reply::Error(why) => return Err(Reply::error(of_functions(&why))),
        other => return Err(other),
    }
    let wrapped = engine.rules().texts.registration(&code, guard);
    let registering = operation(engine, wrapped, &[], &[]);
    match engine.run_now(registering).await {
        Reply::Raw(told) if told.starts_with(b"*") => {
            let unreadable = || nobody_tells();
            Library::registered(text, &told).ok_or_else(unreadable)
        }
        refused => Err(refused),
    }
}

/// Rewrites the masters' error about a script as one about a library (`function_lua.c`, `luaEngineCreate`).
fn of_functions(why: &str) -> String {
    let why = why.replace("user_script:", "user_function:");
    why.replacen("Error compiling script (new function):", "Error compiling function:", 1)
}

/// Returns the name of the contents that a quorum holds.
async fn name(engine: &Rc<Engine>) -> Result<ContentName, Reply> {
    let watched = Watched::new(0, LIBRARIES.as_bytes(), engine.changes_of(Vec::new()));
    let watch = Kind::Watch(Watch::new(Rc::clone(&watched)));
    match engine.run_now(on_register(watch)).await {
        Reply::OK => watched.seen().ok_or_else(nobody_tells),
        refused => Err(refused),
    }
}

/// Returns the whole contents that a quorum holds.
async fn content(engine: &Rc<Engine>) -> Result<Libraries, Reply> {
    let key = LIBRARIES.as_bytes();
    let words = [&b"HGETALL"[..], key].into_iter();
    let rendering = Rendering::AsIs;
    let program = settled_read::program(&engine.rules(), std::iter::once(key), words, rendering);
    match engine.run_now(on_register(Kind::Program(program))).await {
        Reply::Raw(hash) if matches!(hash.first(), Some(b'%' | b'*')) => {
            Libraries::read(&hash).ok_or_else(nobody_tells)
        }
        refused => Err(refused),
    }
}

fn nobody_tells() -> Reply {
    Reply::error(
        "ERR the function libraries are stored in an unknown format: run the same version of every proxy",
    )
}

fn is_ok(reply: &Reply) -> bool {
    *reply == Reply::OK || matches!(reply, Reply::Raw(frame) if &frame[..] == b"+OK\r\n")
}

fn change(engine: &Engine, change: RegisterChange, argv: &[&[u8]]) -> Operation {
    let text = engine.rules().texts.changing_libraries(change);
    operation(engine, text, &[LIBRARIES.as_bytes()], argv)
}

/// Returns the operation that runs a program with these keys and arguments.
fn operation(engine: &Engine, text: Arc<Wrapped>, keys: &[&[u8]], argv: &[&[u8]]) -> Operation {
    let runner = engine.rules().texts.runner_of(&text);
    let turns = keys.iter().map(|key| engine.fingerprint(0, key)).collect();
    let call = Call::new(text, runner, turns, keys.iter().copied(), argv.iter().copied());
    on_register(Kind::Program(Box::new(Program::new(call, ProgramShape::Script))))
}

fn on_register(kind: Kind) -> Operation {
    Operation { db: 0, key: LIBRARIES.as_bytes().into(), kind }
}
