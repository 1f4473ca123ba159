//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`, `UNWATCH` (`multi.c`).

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::number::parse_i64;
use super::permission::{self, Denied};
use super::table::{self, Command, Family, Run, Spec};
use super::{Action, Outcome, error, family, keys, operation};
use super::{data, program, script};
use crate::acl::guard::Guard;
use crate::client::decoder::{Args, Decoder, Limits};
use crate::client::outbox::Gather;
use crate::client::output::Output;
use crate::client::reply::{Protocol, Reply};
use crate::client::session::Front;
use crate::client::slices::{Made, Sliced};
use crate::client::timeslice::{self, TimeSlice};
use crate::lua::Script;
use crate::operation::load::{self, Load};
use crate::operation::program::{Executing, Program, Queued, Shape};
use crate::operation::watch::{Watch, Watched};
use crate::operation::{Kind, Operation, request};

/// How many bytes of commands one client may queue. Redis counts them as the client's query buffer,
/// which it bounds by 1 GB.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// What an allocation takes beside its bytes.
const ALLOCATION: usize = 16;

/// How many keys one client may watch: each is compared on every master by `EXEC`.
const MAX_WATCHED: usize = 1024;

/// A queued request.
#[derive(Debug)]
struct Request {
    spec: &'static Spec,
    /// Its words, encoded.
    words: Box<[u8]>,
    /// The script that it brings along, with what masters said of it: the cache may forget that before `EXEC`.
    script: Option<Arc<Script>>,
}

/// What a session has queued since `MULTI`.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Vec<Request>,
    bytes: usize,
    /// How many there are up to the last that changes something in the proxy: what they answer has to be known
    /// before it is done.
    to_last_change: usize,
    /// A command was refused; `EXEC` will be, too.
    aborted: bool,
}

impl Transaction {
    /// What the queue takes.
    pub fn held(&self) -> usize {
        // Each request is an allocation of its own.
        let entries = self.queue.capacity() * size_of::<Request>();
        entries + self.queue.len() * ALLOCATION + self.bytes
    }

    /// `EXEC` will be refused.
    pub fn abort(&mut self) {
        self.aborted = true;
    }
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
    if front.watched.len() + args.len() > MAX_WATCHED {
        return Err(Reply::error("ERR too many keys are watched: watch fewer of them"));
    }
    let mut operations = Vec::new();
    for key in args.from(1).iter() {
        let known = |watched: &Rc<Watched>| watched.db == front.db && *watched.key == *key;
        if front.watched.iter().any(known) {
            continue;
        }
        let engine = front.worker.engine();
        let changes = engine.changes_of(vec![engine.fingerprint(front.db, key)]);
        let watched = Watched::new(front.db, key, changes);
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
pub(super) fn refused(front: &mut Front, args: Args<'_>, refused: Reply) -> Action {
    if let Some(transaction) = &mut front.transaction {
        transaction.aborted = true;
    }
    match refused {
        Reply::Error(why) if args.at(0).eq_ignore_ascii_case(b"exec") => {
            front.transaction = None;
            front.watched.clear();
            Action::Reply(error::exec_aborted_by(&why))
        }
        other => Action::Reply(other),
    }
}

/// Puts a command into the queue of a `MULTI`.
pub(super) fn queue(front: &mut Front, spec: &'static Spec, args: Args<'_>) -> Outcome {
    let Some(transaction) = &mut front.transaction else { return Err(error::EXEC_WITHOUT_MULTI) };
    if let Err(refused) = may_be_queued(transaction.bytes) {
        transaction.aborted = true;
        return Err(refused);
    }
    let script = script::brought(front, spec, args);
    let look = script.as_ref().and_then(|script| look_at(front, script));
    if look.is_some() && front.outbox.in_flight() > 0 {
        return Ok(Action::Later);
    }
    let words = request::of(args.iter());
    if let Some(transaction) = &mut front.transaction {
        let text = script.as_ref().map_or(0, |script| script.text.len());
        transaction.bytes += words.len() + text;
        transaction.queue.push(Request { spec, words, script });
        if effect(spec, args) == Effect::Changes {
            transaction.to_last_change = transaction.queue.len();
        }
    }
    Ok(look.unwrap_or(Action::Reply(Reply::QUEUED)))
}

/// A script that is new has to be looked at before `EXEC`.
fn look_at(front: &Front, script: &Arc<Script>) -> Option<Action> {
    let kind = || Kind::Load(Load::new(Arc::clone(script), load::Then::Queue));
    (!script.is_lua()).then(|| Action::Start(operation(front, b"", kind())))
}

fn is_script(spec: &Spec) -> bool {
    use Command as C;
    matches!(spec.id, C::Eval | C::EvalRo | C::EvalSha | C::EvalShaRo)
}

fn may_be_queued(queued: usize) -> Result<(), Reply> {
    if queued > MAX_QUEUED_BYTES {
        return Err(Reply::error("ERR the transaction is too large: queue fewer commands"));
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
    let mut planning = Box::new(Planning::of(transaction, watched));
    Ok(match planning.go_on(front, &mut TimeSlice::default())? {
        Some(operation) => Action::Start(operation),
        None => Action::Plan(planning),
    })
}

/// What was queued is decoded once more.
const NO_LIMITS: Limits = Limits { max_request_bytes: usize::MAX, authenticated: true };

/// An `EXEC` whose commands are looked at one after the other, as long as a turn lasts.
#[derive(Debug)]
pub struct Planning {
    queue: std::vec::IntoIter<Request>,
    /// What that takes.
    held: usize,
    /// So many of them must be answered before the masters are asked.
    at_once: usize,
    decoder: Decoder,
    plan: Plan,
    watched: Vec<Rc<Watched>>,
    /// The reply that is made, and what is there of it.
    making: Option<(&'static Spec, Sliced, Output)>,
}

impl Planning {
    fn of(transaction: Transaction, watched: Vec<Rc<Watched>>) -> Self {
        Self {
            held: transaction.held(),
            at_once: transaction.to_last_change,
            queue: transaction.queue.into_iter(),
            decoder: Decoder::new(),
            plan: Plan::default(),
            watched,
            making: None,
        }
    }

    /// What it takes.
    pub fn held(&self) -> usize {
        self.held + self.known()
    }

    /// What the replies take that are known.
    pub fn known(&self) -> usize {
        let in_the_making =
            self.making.as_ref().map_or(0, |(_, sliced, made)| sliced.bytes() + made.held());
        self.plan.held + in_the_making
    }

    /// Looks at some more commands; the operation once there are no more.
    ///
    /// # Errors
    /// What is answered instead.
    pub fn go_on(
        &mut self,
        front: &mut Front,
        time: &mut TimeSlice,
    ) -> Result<Option<Operation>, Reply> {
        loop {
            if !self.make(time) {
                return Ok(None);
            }
            let Some(Request { spec, words, script }) = self.queue.next() else { break };
            self.decoder.decode(&words, NO_LIMITS).map_err(|error| error.reply())?;
            if let Some(script) = script {
                front.worker.scripts().load(script.text.clone()).learn_from(&script);
            }
            let args = self.decoder.args(&words);
            let may_wait = self.at_once == 0 && effect(spec, args) == Effect::Looks;
            self.at_once = self.at_once.saturating_sub(1);
            self.making = match self.plan.add(front, spec, args, may_wait) {
                Planned::Done => None,
                Planned::Later => {
                    self.plan.push(spec, Queued::Own(words));
                    None
                }
                Planned::Sliced(sliced) => Some((spec, sliced, Output::default())),
            };
            let work = if !is_own(spec) || may_wait { 1 } else { timeslice::LOOK };
            if time.spend(work) && self.queue.len() > 0 {
                return Ok(None);
            }
        }
        let (mut plan, watched) = (std::mem::take(&mut self.plan), &self.watched);
        plan.keys.extend(watched.iter().map(|watched| watched.key.to_vec()));
        Ok(Some(plan.operation(front, watched)))
    }

    /// Goes on with the reply that is made. Says whether it is done.
    fn make(&mut self, time: &mut TimeSlice) -> bool {
        let Some((spec, sliced, made)) = &mut self.making else { return true };
        while let Some(slice) = sliced.next_slice() {
            slice.encode(Protocol::Resp3, made);
            if time.look() {
                return false;
            }
        }
        let reply = Reply::Raw(std::mem::take(made).into_bytes());
        self.plan.push(spec, Queued::Known(reply));
        self.making = None;
        true
    }
}

/// What a command does to the proxy that it runs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It changes something that others may see.
    Changes,
    /// It says what it would say at any time, and is done at once; or masters run it.
    None,
    /// It changes nothing, and what it says may be long.
    Looks,
}

fn effect(spec: &Spec, args: Args<'_>) -> Effect {
    use Command as C;
    let subcommand = args.get(1).unwrap_or_default();
    let is =
        |names: &[&str]| names.iter().any(|name| subcommand.eq_ignore_ascii_case(name.as_bytes()));
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

/// What has become of a command.
enum Planned {
    Done,
    /// It is answered when the masters have answered the others.
    Later,
    /// Its reply has to be made.
    Sliced(Sliced),
}

/// What an `EXEC` comes to.
#[derive(Debug, Default)]
struct Plan {
    /// With the places of their commands in the table.
    queued: Vec<(u16, Queued)>,
    /// What known replies take among them, and requests that are answered later.
    held: usize,
    has_own: bool,
    keys: Vec<Vec<u8>>,
    commands: Vec<PlannedCommand>,
    scripts: Vec<Arc<Script>>,
    /// Where each is among them, by its SHA1.
    places: HashMap<String, usize>,
    /// Of whoever has sent the scripts.
    guard: Option<Arc<Guard>>,
}

#[derive(Debug)]
enum PlannedCommand {
    Words(Vec<Vec<u8>>),
    /// The script at this place among all, with the number of keys, the keys and the arguments.
    Script(usize, Vec<Vec<u8>>),
}

impl Plan {
    fn add(
        &mut self,
        front: &mut Front,
        spec: &'static Spec,
        args: Args<'_>,
        may_wait: bool,
    ) -> Planned {
        let refused = still_allowed(front, spec, args).err().or_else(|| refused_wait(spec, args));
        let queued = match refused {
            Some(refused) => Queued::Known(refused),
            None if !is_own(spec) => self.queue(front, spec, args).unwrap_or_else(Queued::Known),
            None if may_wait => return Planned::Later,
            None => match known(front, spec, args) {
                Made::Whole(reply) => Queued::Known(reply),
                Made::Sliced(sliced) => return Planned::Sliced(sliced),
            },
        };
        self.push(spec, queued);
        Planned::Done
    }

    fn push(&mut self, spec: &Spec, queued: Queued) {
        match &queued {
            Queued::Known(reply) => self.held += reply.held(),
            Queued::Own(request) => {
                self.held += request.len() + ALLOCATION;
                self.has_own = true;
            }
            _ => {}
        }
        self.held += size_of::<(u16, Queued)>();
        self.queued.push((spec.place, queued));
    }

    /// The error is the reply.
    fn queue(
        &mut self,
        front: &mut Front,
        spec: &'static Spec,
        args: Args<'_>,
    ) -> Result<Queued, Reply> {
        if is_script(spec) {
            let before = |sha: &str| self.places.get(sha).map(|at| Arc::clone(&self.scripts[*at]));
            let (script, keys, argv) = script::queued(front, spec, args, before)?;
            self.admit(front, &script)?;
            return Ok(self.add_script(script, &keys, &argv));
        }
        self.commands.push(PlannedCommand::Words(program::command_words(spec, args)));
        self.keys.extend(keys::of(spec, args).into_iter().map(<[u8]>::to_vec));
        Ok(asked(spec, args))
    }

    /// One guard keeps all scripts of a transaction to the rules of their user. It knows nothing of a text that is
    /// no function by itself: that would reach into what is around it.
    fn admit(&mut self, front: &Front, script: &Script) -> Result<(), Reply> {
        let guard = front.login.guard();
        if !self.scripts.is_empty() && self.guard.as_ref() != guard {
            return Err(error::SCRIPTS_OF_TWO_USERS);
        }
        if guard.is_some() && !script.is_lua() {
            return Err(error::SCRIPT_NOT_LOOKED_AT);
        }
        self.guard = guard.cloned();
        Ok(())
    }

    fn add_script(&mut self, script: Arc<Script>, keys: &[&[u8]], argv: &[&[u8]]) -> Queued {
        let queued = Queued::Script(Arc::clone(&script));
        let next = self.scripts.len();
        let place = *self.places.entry(script.sha.clone()).or_insert(next);
        if place == next {
            self.scripts.push(script);
        }
        let count = keys.len().to_string().into_bytes();
        let words = keys.iter().chain(argv).map(|word| word.to_vec());
        let words = std::iter::once(count).chain(words).collect();
        self.commands.push(PlannedCommand::Script(place, words));
        self.keys.extend(keys.iter().map(|key| key.to_vec()));
        queued
    }

    fn operation(self, front: &Front, watched: &[Rc<Watched>]) -> Operation {
        let text = front.worker.transactions().with(&self.scripts, self.guard);
        let words = |command| match command {
            PlannedCommand::Words(words) => words,
            PlannedCommand::Script(at, words) => {
                let (first, last) = text.places[at];
                let head = [
                    ":script",
                    &(at + 1).to_string(),
                    &self.scripts[at].sha,
                    &first.to_string(),
                    &last.to_string(),
                ];
                let count = (head.len() + words.len()).to_string().into_bytes();
                let head = head.map(|word| word.as_bytes().to_vec());
                std::iter::once(count).chain(head).chain(words).collect()
            }
        };
        let commands: Vec<_> = self.commands.into_iter().flat_map(words).collect();
        let keys: Vec<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        let call = program::transaction(front, text.program, &keys, watched, &commands);
        let shape = Shape::Transaction(Executing {
            queued: self.queued,
            chosen_db: Rc::clone(&front.chosen_db),
            has_own: self.has_own,
            held: self.held,
        });
        let first = keys.first().copied().unwrap_or_default();
        operation(front, first, Kind::Program(Box::new(Program::new(call, shape))))
    }
}

/// An `AUTH` in the queue may have changed who runs what comes after it.
fn still_allowed(front: &Front, spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    if front.login.is_free() {
        return Ok(());
    }
    permission::check(&front.login, spec, args).map_err(Denied::reply_of_exec)?;
    permission::check_sort(&front.login, spec, args)
}

/// A command that waits does not do so in a transaction, but its timeout must be one.
fn refused_wait(spec: &Spec, args: Args<'_>) -> Option<Reply> {
    if spec.run == Run::Wait { data::timeout(spec, args).err() } else { None }
}

fn asked(spec: &Spec, args: Args<'_>) -> Queued {
    let db = args.get(1).and_then(parse_i64).and_then(|db| u32::try_from(db).ok());
    match (spec.id, db) {
        (Command::Select, Some(db)) => Queued::Select(db),
        _ => Queued::Asked(program::rendering(spec.name, args)),
    }
}

/// Whether the proxy answers it without the masters.
fn is_own(spec: &Spec) -> bool {
    use Family as F;
    let by_proxy =
        matches!(spec.family, F::Connection | F::Server | F::Transaction | F::Script | F::Pubsub);
    let not_really = matches!(spec.id, Command::Select | Command::Publish | Command::Spublish);
    spec.run == Run::Own && by_proxy && !not_really && !is_script(spec)
}

/// Answers a request of a transaction that was left until the masters have answered the others.
pub fn answer(front: &mut Front, place: u16, request: &[u8]) -> Made {
    let mut decoder = Decoder::new();
    let decoded = decoder.decode(request, NO_LIMITS);
    match (table::at(place), decoded) {
        (Some(spec), Ok(_)) => known(front, spec, decoder.args(request)),
        (_, Err(error)) => Made::Whole(error.reply()),
        (None, _) => Made::Whole(error::SYNTAX),
    }
}

fn known(front: &mut Front, spec: &'static Spec, args: Args<'_>) -> Made {
    Made::Whole(match family(front, spec, args) {
        Ok(Action::Reply(reply)) | Err(reply) => reply,
        Ok(Action::Slices(sliced)) => return Made::Sliced(sliced),
        // In one Redis nothing runs beside EXEC.
        Ok(Action::KillScripts) => error::NO_SCRIPT_RUNNING,
        Ok(_) => error::not_in_multi(spec.name),
    })
}
