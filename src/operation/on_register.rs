//! Programs on registers that replace an operation on a lease, when masters report that the key is no lease.
//!
//! Until then the operation has affected only a lease that no quorum holds: it took it back, gave it back or prolonged
//! it. So the program runs on what the masters hold now, and its reply is the whole answer.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha1_smol::Sha1;

use super::program::{Call, Program, ProgramShape, Rendering};
use super::request::{self, Number};
use crate::acl::guard::Guard;
use crate::client::onlookers::Onlookers;
use crate::lua::program::{ProgramText as Text, ScriptRules, Tells};
use crate::lua::residents::Residents;
use crate::lua::transactions::Databases;
use crate::lua::{Deeds, LockState, Script, library};
use crate::resp::flat;
use crate::resp::reply::Reply;

/// A client's script call on one key.
#[derive(Debug)]
pub struct ScriptCall {
    script: Arc<Script>,
    guard: Option<Arc<Guard>>,
    /// Its arguments, encoded.
    argv: Vec<u8>,
}

impl ScriptCall {
    /// Creates a call of the script with these arguments, by a user limited to these rules.
    pub fn new(script: Arc<Script>, guard: Option<Arc<Guard>>, argv: &[&[u8]]) -> Self {
        // Includes room for the encoding around the words.
        let bytes = argv.iter().map(|word| word.len() + 16).sum();
        let mut encoded = Vec::with_capacity(bytes);
        argv.iter().for_each(|word| request::word(&mut encoded, word));
        Self { script, guard, argv: encoded }
    }

    /// Returns what the script has done, if its key was `held`.
    pub(super) fn deeds(&self, held: LockState, key: &[u8]) -> Option<Deeds> {
        let argv: Vec<_> = flat::elements(&self.argv).filter_map(|word| word.body).collect();
        Deeds::of(&self.script.text, held, key, &argv)
    }
}

/// The program to run.
#[derive(Debug)]
pub enum Instead<'a> {
    /// The client's script.
    Script(&'a ScriptCall),
    /// `SET key token NX PX ttl_ms`
    Take {
        /// The client's token.
        token: &'a [u8],
        /// As requested, in milliseconds; `None`: no expiry.
        ttl_ms: Option<i64>,
        /// Whether to reply like `SETNX`: with a number.
        is_counted: bool,
    },
    /// `DEL key`
    Delete,
    /// `DELIFEQ key token`
    GiveBack(&'a [u8]),
}

/// A change to the register of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterChange {
    /// See [`library::STORE`].
    Store,
    /// See [`library::DELETE`].
    Delete,
    /// See [`library::FLUSH`].
    Flush,
}

/// Programs by their script and what they tell.
type TellingTexts = BTreeMap<(Vec<u8>, Tells), Arc<Text>>;

/// Texts from which programs are built.
pub struct Texts {
    script_rules: ScriptRules,
    residents: Arc<Residents>,
    onlookers: Arc<Onlookers>,
    /// Programs that tell what they do, by their script.
    telling: RefCell<TellingTexts>,
    take: OnceCell<Arc<Text>>,
    give_back: OnceCell<Arc<Text>>,
    put_off: [OnceCell<Arc<Text>>; 2],
    libraries: [OnceCell<Arc<Text>>; 3],
    commands: RefCell<BTreeMap<&'static str, Arc<Text>>>,
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").finish_non_exhaustive()
    }
}

impl Texts {
    /// Creates the texts with these rules for TTLs; masters keep some of them resident.
    pub fn new(
        script_rules: ScriptRules,
        residents: Arc<Residents>,
        onlookers: Arc<Onlookers>,
    ) -> Self {
        Self {
            script_rules,
            residents,
            onlookers,
            telling: RefCell::default(),
            take: OnceCell::new(),
            give_back: OnceCell::new(),
            put_off: Default::default(),
            libraries: Default::default(),
            commands: RefCell::default(),
        }
    }

    /// Returns the program that takes a free key without expiry (`SET NX`): every lease has an end. With `is_counted`
    /// it replies like `SETNX`.
    pub fn taking_for_ever(
        &self,
        name: (u32, &[u8]),
        turn: u64,
        token: &[u8],
        is_counted: bool,
    ) -> Program {
        self.program(&Instead::Take { token, ttl_ms: None, is_counted }, name, turn)
    }

    /// Returns the program on `key`, whose fingerprint is `turn`, in database `db`.
    pub(super) fn program(
        &self,
        instead: &Instead<'_>,
        (db, key): (u32, &[u8]),
        turn: u64,
    ) -> Program {
        let text = self.text(instead);
        let mut words = Vec::new();
        [b"1", key].iter().for_each(|word| request::word(&mut words, word));
        instead.append(&mut words, db, key);
        let runner = self.residents.runner_of(&text);
        let (keys, watched, dbs) = (vec![turn], Vec::new(), Vec::new());
        let call = Call { text, runner, read_only: false, words, keys, watched, dbs };
        let program = Program::new(call, instead.shape());
        match instead {
            Instead::Take { is_counted: true, .. } => program.or_refused(Reply::Int(0)),
            Instead::Take { .. } => program.or_refused(Reply::Nil),
            _ => program,
        }
    }

    fn text(&self, instead: &Instead<'_>) -> Arc<Text> {
        match instead {
            Instead::Script(ScriptCall { script, guard: Some(guard), .. }) => {
                script.guarded_program(self.script_rules(), guard)
            }
            Instead::Script(ScriptCall { script, guard: None, .. }) => {
                script.program(self.script_rules())
            }
            Instead::Delete if self.tells().is_any() => self.telling(b""),
            Instead::Take { .. } if self.tells().is_any() => self.telling(TAKE),
            Instead::GiveBack(_) if self.tells().is_any() => self.telling(GIVE_BACK),
            Instead::Delete => self.residents.transaction(),
            Instead::Take { .. } => self.ours(&self.take, TAKE),
            Instead::GiveBack(_) => self.ours(&self.give_back, GIVE_BACK),
        }
    }

    /// Returns the rules for the program of a client's script.
    pub fn script_rules(&self) -> ScriptRules {
        ScriptRules { tells: self.onlookers.want(), ..self.script_rules }
    }

    /// Returns what the program of a command tells.
    fn tells(&self) -> Tells {
        self.onlookers.want().of_command()
    }

    /// Returns the program of a command's script that tells what it does; without a text, that of a transaction.
    fn telling(&self, script: &[u8]) -> Arc<Text> {
        let tells = self.tells();
        let script_rules = ScriptRules { tells, ..self.script_rules };
        let text = || {
            Arc::new(match script {
                b"" => Text::transaction(&[], script_rules, None, Databases::One).0,
                _ => Text::wrap(script, &Sha1::from(script).hexdigest(), script_rules),
            })
        };
        let mut known = self.telling.borrow_mut();
        Arc::clone(known.entry((script.to_vec(), tells)).or_insert_with(text))
    }

    /// Returns the text that extends its keys' lives by `ARGV[1]` milliseconds: all in the selected database, or each
    /// in the database given by the next arguments.
    pub(super) fn putting_off(&self, is_here: bool) -> Arc<Text> {
        let script = if is_here { PUT_OFF } else { PUT_OFF_ELSEWHERE };
        // The result may slightly exceed the limit for clients.
        let script_rules = ScriptRules { longest: None, ..self.script_rules };
        ours(&self.put_off[usize::from(is_here)], script, script_rules)
    }

    /// Returns the text that changes the register of libraries.
    pub fn changing_libraries(&self, change: RegisterChange) -> Arc<Text> {
        let script = match change {
            RegisterChange::Store => library::STORE,
            RegisterChange::Delete => library::DELETE,
            RegisterChange::Flush => library::FLUSH,
        };
        self.ours(&self.libraries[change as usize], script)
    }

    /// Returns the text that runs the named command on its one key, with the command's other words as arguments. It has
    /// less overhead than a transaction.
    pub fn of_command(&self, name: &'static str) -> Arc<Text> {
        if self.tells().is_any() {
            return self.telling(&adding(name));
        }
        let text = || {
            let script = adding(name);
            Arc::new(Text::wrap(&script, &Sha1::from(&script).hexdigest(), self.script_rules))
        };
        Arc::clone(self.commands.borrow_mut().entry(name).or_insert_with(text))
    }

    /// Returns the text that lists the functions a library registers.
    pub fn registration(&self, code: &[u8], guard: Option<&Guard>) -> Arc<Text> {
        Arc::new(Text::registration(code, self.script_rules, guard))
    }

    /// Returns the runner for a text on masters that do not keep it.
    pub fn runner_of(&self, text: &Arc<Text>) -> Option<Arc<Text>> {
        self.residents.runner_of(text)
    }

    fn ours(&self, made: &OnceCell<Arc<Text>>, script: &[u8]) -> Arc<Text> {
        ours(made, script, self.script_rules)
    }
}

fn ours(made: &OnceCell<Arc<Text>>, script: &[u8], script_rules: ScriptRules) -> Arc<Text> {
    let sha = || Sha1::from(script).hexdigest();
    Arc::clone(made.get_or_init(|| Arc::new(Text::wrap(script, &sha(), script_rules))))
}

impl Instead<'_> {
    /// Appends the arguments.
    fn append(&self, words: &mut Vec<u8>, db: u32, key: &[u8]) {
        let mut ttl = Number::default();
        match self {
            Self::Script(call) => words.extend_from_slice(&call.argv),
            Self::Take { token, ttl_ms, is_counted } => {
                let is_counted: &[u8] = if *is_counted { b"1" } else { b"0" };
                let ttl = ttl_ms.map_or(&b""[..], |ttl_ms| ttl.digits(ttl_ms));
                [token, ttl, is_counted].iter().for_each(|word| request::word(words, word));
            }
            Self::Delete => append_command(words, db, &[b"DEL", key]),
            Self::GiveBack(token) => request::word(words, token),
        }
    }

    fn shape(&self) -> ProgramShape {
        match self {
            Self::Script(_) | Self::Take { .. } | Self::GiveBack(_) => ProgramShape::Script,
            Self::Delete => ProgramShape::Command(Rendering::AsIs),
        }
    }
}

/// Returns the script of one command that adds to its key. Integers beyond Lua's precision are replaced by their stored
/// values.
fn adding(name: &str) -> Vec<u8> {
    let stored = match name {
        "incr" | "incrby" | "decr" | "decrby" => "redis.call('get', KEYS[1])",
        "hincrby" => "redis.call('hget', KEYS[1], ARGV[1])",
        _ => return format!("return redis.pcall('{name}', KEYS[1], unpack(ARGV))").into(),
    };
    format!(
        "local reply = redis.pcall('{name}', KEYS[1], unpack(ARGV))
if type(reply) == 'number' and (reply >= 2 ^ 53 or reply <= -2 ^ 53) then
  return {{ big_number = {stored} }}
end
return reply"
    )
    .into()
}

/// Appends the arguments of a transaction that has one command and no watched keys. Its reply has the same form in
/// every protocol version.
fn append_command(words: &mut Vec<u8>, db: u32, command: &[&[u8]]) {
    let (mut number, mut count) = (Number::default(), Number::default());
    let head: [&[u8]; 3] = [b"2", number.digits(db.into()), count.digits(command.len() as i64)];
    head.iter().chain(command).for_each(|word| request::word(words, word));
}

/// `SET NX` that writes nothing if the key exists. Any call of a write command causes a register to be accepted anew,
/// and stamps remember only the last few.
const TAKE: &[u8] = b"local is_taken = redis.call('EXISTS', KEYS[1]) == 0
if is_taken and ARGV[2] == '' then
  is_taken = redis.call('SET', KEYS[1], ARGV[1], 'NX')
elseif is_taken then
  is_taken = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
end
if ARGV[3] == '1' then
  return is_taken and 1 or 0
end
return is_taken";

/// `DELIFEQ`, with its own reply for values other than strings.
const GIVE_BACK: &[u8] = b"local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  return value
end
return value == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/// Extends expiries for programs whose replies are late ([`super::program`]).
const PUT_OFF: &[u8] = b"for at = 1, #KEYS do
  local left = redis.call('PTTL', KEYS[at])
  if left > 0 then
    redis.call('PEXPIRE', KEYS[at], left + ARGV[1])
  end
end";

/// [`PUT_OFF`] across several databases.
const PUT_OFF_ELSEWHERE: &[u8] = b"for at = 1, #KEYS do
  redis.call('SELECT', ARGV[at + 1])
  local left = redis.call('PTTL', KEYS[at])
  if left > 0 then
    redis.call('PEXPIRE', KEYS[at], left + ARGV[1])
  end
end";

#[cfg(test)]
mod tests;
