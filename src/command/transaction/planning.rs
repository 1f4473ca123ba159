//! Turns the queue of an `EXEC` into one operation, and the replies that the proxy gives itself.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::{Effect, NO_LIMITS, effect, is_own, is_script, known};
use crate::acl::guard::Guard;
use crate::catalogue::table::{Command, RunBy, Spec};
use crate::catalogue::{error, keys};
use crate::client::slices::{Made, Sliced};
use crate::client::timeslice::{self, TimeSlice};
use crate::command::permission::{self, Denied};
use crate::command::{data, operation, program, script, stream};
use crate::context::caller::Caller;
use crate::context::transaction::{ALLOCATION, QueuedRequest, Transaction};
use crate::engine::sequential::libraries::Libraries;
use crate::lua::Script;
use crate::lua::transactions::Databases;
use crate::operation::program::{Executing, Program, ProgramShape, Queued};
use crate::operation::watch::Watched;
use crate::operation::{Kind, Operation};
use crate::resp::number::parse_i64;
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::requests::{Args, Decoder};

/// An `EXEC` whose commands are checked one after the other, as long as a turn lasts.
#[derive(Debug)]
pub struct Planning {
    queue: std::vec::IntoIter<QueuedRequest>,
    /// Memory that the queue takes.
    held: usize,
    /// Number of leading requests that must be answered before the masters run theirs.
    at_once: usize,
    decoder: Decoder,
    plan: Plan,
    watched: Vec<Rc<Watched>>,
    /// The libraries of functions that the requests see.
    libraries: Option<Result<Rc<Libraries>, Reply>>,
    /// The reply in the making, and the part that is done.
    making: Option<(&'static Spec, Sliced, Output)>,
}

impl Planning {
    pub(super) fn of(
        transaction: Transaction,
        watched: Vec<Rc<Watched>>,
        libraries: Option<Result<Rc<Libraries>, Reply>>,
    ) -> Self {
        Self {
            held: transaction.held(),
            at_once: transaction.to_last_change,
            queue: transaction.queue.into_iter(),
            decoder: Decoder::new(),
            plan: Plan::default(),
            watched,
            libraries,
            making: None,
        }
    }

    /// Returns the memory that the planning takes.
    pub fn held(&self) -> usize {
        self.held + self.known()
    }

    /// Returns the memory that the known replies take.
    pub fn known(&self) -> usize {
        let in_the_making =
            self.making.as_ref().map_or(0, |(_, sliced, made)| sliced.bytes() + made.held());
        self.plan.held + in_the_making
    }

    /// Checks some more commands. Returns the operation once all are checked.
    ///
    /// # Errors
    /// Returns the reply that refuses the transaction.
    pub fn go_on(
        &mut self,
        caller: &mut Caller,
        time: &mut TimeSlice,
    ) -> Result<Option<Operation>, Reply> {
        caller.show_libraries(self.libraries.clone());
        let operation = self.go_on_with(caller, time);
        caller.show_libraries(None);
        operation
    }

    fn go_on_with(
        &mut self,
        caller: &mut Caller,
        time: &mut TimeSlice,
    ) -> Result<Option<Operation>, Reply> {
        loop {
            if !self.make(time) {
                return Ok(None);
            }
            let Some(QueuedRequest { spec, words, script }) = self.queue.next() else { break };
            self.decoder.decode(&words, NO_LIMITS).map_err(|error| error.reply())?;
            if let Some(script) = script {
                caller.worker.scripts().load(script.text.clone()).learn_from(&script);
            }
            let args = self.decoder.args(&words);
            let may_wait = self.at_once == 0 && effect(spec, args) == Effect::Looks;
            self.at_once = self.at_once.saturating_sub(1);
            self.making = match self.plan.add(caller, spec, args, may_wait) {
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
        let (plan, watched) = (std::mem::take(&mut self.plan), &self.watched);
        Ok(Some(plan.operation(caller, watched)))
    }

    /// Continues the reply in the making. Returns whether it is complete.
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

/// The result of planning a command.
enum Planned {
    Done,
    /// The command is answered after the masters have answered theirs.
    Later,
    /// The command's reply still has to be made.
    Sliced(Sliced),
}

/// The plan of an `EXEC`.
#[derive(Debug, Default)]
struct Plan {
    /// The commands, with their places in the table.
    queued: Vec<(u16, Queued)>,
    /// Memory that the known replies take, and the requests that are answered later.
    held: usize,
    has_own: bool,
    keys: Vec<Vec<u8>>,
    commands: Vec<PlannedCommand>,
    scripts: Vec<Arc<Script>>,
    /// Each script's position in `scripts`, by its SHA1.
    places: HashMap<String, usize>,
    /// The guard of the user who sent the scripts.
    guard: Option<Arc<Guard>>,
}

#[derive(Debug)]
enum PlannedCommand {
    Words(Vec<Vec<u8>>),
    Script(Call),
}

/// A call of a script.
#[derive(Debug)]
struct Call {
    /// The script's position in `scripts`.
    at: usize,
    is_read_only: bool,
    /// The number of keys, the keys and the arguments.
    words: Vec<Vec<u8>>,
}

impl Plan {
    fn add(
        &mut self,
        caller: &mut Caller,
        spec: &'static Spec,
        args: Args<'_>,
        may_wait: bool,
    ) -> Planned {
        let refused = still_allowed(caller, spec, args).err().or_else(|| refused_wait(spec, args));
        let queued = match refused {
            Some(refused) => Queued::Known(refused),
            None if !is_own(spec) => self.queue(caller, spec, args).unwrap_or_else(Queued::Known),
            None if may_wait => return Planned::Later,
            None => match known(caller, spec, args) {
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

    /// Adds a command for the masters. The error is its reply.
    fn queue(
        &mut self,
        caller: &mut Caller,
        spec: &'static Spec,
        args: Args<'_>,
    ) -> Result<Queued, Reply> {
        if is_script(spec) {
            let before = |sha: &str| self.places.get(sha).map(|at| Arc::clone(&self.scripts[*at]));
            let (script, keys, argv) = script::queued(caller, spec, args, before)?;
            self.admit(caller, &script)?;
            let is_read_only = script::runs_read_only(spec) || script.is_read_only();
            return Ok(self.add_script(script, is_read_only, &keys, &argv));
        }
        self.commands.push(PlannedCommand::Words(program::command_words(spec, args)));
        self.keys.extend(keys::of(spec, args).into_iter().map(<[u8]>::to_vec));
        Ok(asked(caller, spec, args))
    }

    /// Checks that a script may run. One guard holds all scripts of a transaction to their user's rules. The guard
    /// cannot cover a text that is not a function by itself, which could reach into the code around it.
    fn admit(&mut self, caller: &Caller, script: &Script) -> Result<(), Reply> {
        let guard = caller.login.guard();
        if !self.scripts.is_empty() && self.guard.as_ref() != guard {
            return Err(error::SCRIPTS_OF_TWO_USERS);
        }
        if guard.is_some() && !script.is_lua() {
            return Err(error::SCRIPT_NOT_LOOKED_AT);
        }
        self.guard = guard.cloned();
        Ok(())
    }

    fn add_script(
        &mut self,
        script: Arc<Script>,
        is_read_only: bool,
        keys: &[&[u8]],
        argv: &[&[u8]],
    ) -> Queued {
        let queued = Queued::Script(Arc::clone(&script));
        let next = self.scripts.len();
        let at = *self.places.entry(script.sha.clone()).or_insert(next);
        if at == next {
            self.scripts.push(script);
        }
        let count = keys.len().to_string().into_bytes();
        let words = keys.iter().chain(argv).map(|word| word.to_vec());
        let words = std::iter::once(count).chain(words).collect();
        self.commands.push(PlannedCommand::Script(Call { at, is_read_only, words }));
        self.keys.extend(keys.iter().map(|key| key.to_vec()));
        queued
    }

    fn operation(self, caller: &Caller, watched: &[Rc<Watched>]) -> Operation {
        let selects = self.queued.iter().any(|(_, queued)| matches!(queued, Queued::Select(_)));
        let databases = if selects { Databases::Several } else { Databases::One };
        let text = caller.worker.transactions().using(databases, &self.scripts, self.guard);
        let words = |command| match command {
            PlannedCommand::Words(words) => words,
            PlannedCommand::Script(Call { at, is_read_only, words }) => {
                let (first, last) = text.places[at];
                let head = [
                    ":script",
                    &(at + 1).to_string(),
                    if is_read_only { "ro" } else { "rw" },
                    &self.scripts[at].label(),
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
        let call = program::transaction(caller, text.program, &keys, watched, &commands);
        let shape = ProgramShape::Transaction(Executing {
            queued: self.queued,
            chosen_db: Rc::clone(&caller.chosen_db),
            has_own: self.has_own,
            held: self.held,
        });
        let first = keys.first().copied().unwrap_or_default();
        operation(caller, first, Kind::Program(Box::new(Program::new(call, shape))))
    }
}

/// Checks permissions again: an `AUTH` in the queue may have changed the user for later commands.
fn still_allowed(caller: &Caller, spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    if caller.login.is_free() {
        return Ok(());
    }
    permission::check(&caller.login, spec, args).map_err(Denied::reply_of_exec)?;
    permission::check_sort(&caller.login, spec, args)
}

/// Checks the timeout of a blocking command. It does not block in a transaction, but the timeout must be valid.
fn refused_wait(spec: &Spec, args: Args<'_>) -> Option<Reply> {
    match spec.run {
        RunBy::Wait => data::timeout(spec, args).err(),
        RunBy::Follow | RunBy::Deliver => stream::Request::parse(spec, args).err(),
        _ => None,
    }
}

fn asked(caller: &Caller, spec: &Spec, args: Args<'_>) -> Queued {
    let db = args.get(1).and_then(parse_i64).and_then(|db| u32::try_from(db).ok());
    match (spec.id, db) {
        (Command::Select, Some(db)) => Queued::Select(db),
        _ => Queued::Asked(program::rendering(caller, spec, args)),
    }
}
