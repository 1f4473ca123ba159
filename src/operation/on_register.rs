//! What runs on registers instead of an operation on a lease, when masters say that the key is no lease.
//!
//! What the operation has done until then it has done to a lease that no quorum holds: taken it back, given it back or
//! prolonged it. So the program runs on what the masters hold now, and its reply is the whole answer.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha1_smol::Sha1;

use super::program::{Call, Program, ProgramShape, Rendering};
use super::request::{self, Number};
use crate::acl::guard::Guard;
use crate::lua::program::{ProgramText as Text, Ttls};
use crate::lua::residents::Residents;
use crate::lua::{Script, library};
use crate::resp::reply::Reply;

/// A script that a client has called for one key.
#[derive(Debug)]
pub struct ScriptCall {
    script: Arc<Script>,
    guard: Option<Arc<Guard>>,
    /// Its arguments, encoded.
    argv: Vec<u8>,
    count: usize,
}

impl ScriptCall {
    /// The script, called with these arguments by a user who is kept to these rules.
    pub fn new(script: Arc<Script>, guard: Option<Arc<Guard>>, argv: &[&[u8]]) -> Self {
        // Room for the words around them as well.
        let bytes = argv.iter().map(|word| word.len() + 16).sum();
        let mut encoded = Vec::with_capacity(bytes);
        argv.iter().for_each(|word| request::word(&mut encoded, word));
        Self { script, guard, argv: encoded, count: argv.len() }
    }
}

/// What is run.
#[derive(Debug)]
pub enum Instead<'a> {
    /// The client's script.
    Script(&'a ScriptCall),
    /// `SET key token NX PX ttl_ms`
    Take {
        /// The client's token.
        token: &'a [u8],
        /// As asked, in milliseconds; `None`: for ever.
        ttl_ms: Option<i64>,
        /// Whether the reply is that of `SETNX`: a number.
        is_counted: bool,
    },
    /// `DEL key`
    Delete,
    /// `DELIFEQ key token`
    GiveBack(&'a [u8]),
}

/// What is done with the register of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterChange {
    /// See [`library::STORE`].
    Store,
    /// See [`library::DELETE`].
    Delete,
    /// See [`library::FLUSH`].
    Flush,
}

/// The texts of which programs are made.
pub struct Texts {
    ttls: Ttls,
    residents: Arc<Residents>,
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
    /// Those that treat times to live so, of which masters keep some.
    pub fn new(ttls: Ttls, residents: Arc<Residents>) -> Self {
        Self {
            ttls,
            residents,
            take: OnceCell::new(),
            give_back: OnceCell::new(),
            put_off: Default::default(),
            libraries: Default::default(),
            commands: RefCell::default(),
        }
    }

    /// What takes a key that is free for ever (`SET NX`): no lease has no end. With `is_counted` it replies as `SETNX` does.
    pub fn taking_for_ever(
        &self,
        name: (u32, &[u8]),
        turn: u64,
        token: &[u8],
        is_counted: bool,
    ) -> Program {
        self.program(&Instead::Take { token, ttl_ms: None, is_counted }, name, turn)
    }

    /// The program on `key`, whose fingerprint is `turn`, in database `db`.
    pub(super) fn program(
        &self,
        instead: &Instead<'_>,
        (db, key): (u32, &[u8]),
        turn: u64,
    ) -> Program {
        let text = self.text(instead);
        let mut words = Vec::new();
        [b"1", key].iter().for_each(|word| request::word(&mut words, word));
        let count = 2 + instead.append(&mut words, db, key);
        let runner = self.residents.runner_of(&text);
        let (keys, watched, dbs) = (vec![turn], Vec::new(), Vec::new());
        let call = Call { text, runner, read_only: false, words, count, keys, watched, dbs };
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
                script.guarded_program(self.ttls, guard)
            }
            Instead::Script(ScriptCall { script, guard: None, .. }) => script.program(self.ttls),
            Instead::Delete => self.residents.transaction(),
            Instead::Take { .. } => self.ours(&self.take, TAKE),
            Instead::GiveBack(_) => self.ours(&self.give_back, GIVE_BACK),
        }
    }

    /// What lets its keys end `ARGV[1]` milliseconds later: all of them in the selected database, or each in that which the
    /// next arguments say.
    pub(super) fn putting_off(&self, is_here: bool) -> Arc<Text> {
        let script = if is_here { PUT_OFF } else { PUT_OFF_ELSEWHERE };
        // From now on it may be a moment more than clients may ask for.
        let ttls = Ttls { longest: None, ..self.ttls };
        ours(&self.put_off[usize::from(is_here)], script, ttls)
    }

    /// What changes the register of libraries.
    pub fn changing_libraries(&self, change: RegisterChange) -> Arc<Text> {
        let script = match change {
            RegisterChange::Store => library::STORE,
            RegisterChange::Delete => library::DELETE,
            RegisterChange::Flush => library::FLUSH,
        };
        self.ours(&self.libraries[change as usize], script)
    }

    /// What runs the command of this name on its one key, with the rest of its words as arguments: of the way around a program
    /// it takes less than a transaction.
    pub fn of_command(&self, name: &'static str) -> Arc<Text> {
        let text = || {
            let script = adding(name);
            Arc::new(Text::wrap(&script, &Sha1::from(&script).hexdigest(), self.ttls))
        };
        Arc::clone(self.commands.borrow_mut().entry(name).or_insert_with(text))
    }

    /// What tells which functions a library registers.
    pub fn registration(&self, code: &[u8], guard: Option<&Guard>) -> Arc<Text> {
        Arc::new(Text::registration(code, self.ttls, guard))
    }

    /// Who runs a text on masters that do not keep it.
    pub fn runner_of(&self, text: &Arc<Text>) -> Option<Arc<Text>> {
        self.residents.runner_of(text)
    }

    fn ours(&self, made: &OnceCell<Arc<Text>>, script: &[u8]) -> Arc<Text> {
        ours(made, script, self.ttls)
    }
}

fn ours(made: &OnceCell<Arc<Text>>, script: &[u8], ttls: Ttls) -> Arc<Text> {
    let sha = || Sha1::from(script).hexdigest();
    Arc::clone(made.get_or_init(|| Arc::new(Text::wrap(script, &sha(), ttls))))
}

impl Instead<'_> {
    /// Appends the arguments, and says how many they are.
    fn append(&self, words: &mut Vec<u8>, db: u32, key: &[u8]) -> usize {
        let mut ttl = Number::default();
        match self {
            Self::Script(call) => {
                words.extend_from_slice(&call.argv);
                call.count
            }
            Self::Take { token, ttl_ms, is_counted } => {
                let is_counted: &[u8] = if *is_counted { b"1" } else { b"0" };
                let ttl = ttl_ms.map_or(&b""[..], |ttl_ms| ttl.digits(ttl_ms));
                let argv = [token, ttl, is_counted];
                argv.iter().for_each(|word| request::word(words, word));
                argv.len()
            }
            Self::Delete => append_command(words, db, &[b"DEL", key]),
            Self::GiveBack(token) => {
                request::word(words, token);
                1
            }
        }
    }

    fn shape(&self) -> ProgramShape {
        match self {
            Self::Script(_) | Self::Take { .. } | Self::GiveBack(_) => ProgramShape::Script,
            Self::Delete => ProgramShape::Command(Rendering::AsIs),
        }
    }
}

/// The script of one command that adds to its key. Integers beyond what Lua can hold are the values that they are stored as.
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

/// Appends the arguments of a transaction of one command that watches nothing. No protocol has another form of its reply.
fn append_command(words: &mut Vec<u8>, db: u32, command: &[&[u8]]) -> usize {
    let (mut number, mut count) = (Number::default(), Number::default());
    let head: [&[u8]; 3] = [b"2", number.digits(db.into()), count.digits(command.len() as i64)];
    head.iter().chain(command).for_each(|word| request::word(words, word));
    head.len() + command.len()
}

/// `SET NX` that writes nothing where it does nothing: a register is accepted anew by whatever calls a command that
/// writes, and stamps remember only the last few of those.
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

/// `DELIFEQ`, with its own words for what is no string.
const GIVE_BACK: &[u8] = b"local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  return value
end
return value == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/// Of programs that are answered late ([`super::program`]).
const PUT_OFF: &[u8] = b"for at = 1, #KEYS do
  local left = redis.call('PTTL', KEYS[at])
  if left > 0 then
    redis.call('PEXPIRE', KEYS[at], left + ARGV[1])
  end
end";

/// The same, in several databases.
const PUT_OFF_ELSEWHERE: &[u8] = b"for at = 1, #KEYS do
  redis.call('SELECT', ARGV[at + 1])
  local left = redis.call('PTTL', KEYS[at])
  if left > 0 then
    redis.call('PEXPIRE', KEYS[at], left + ARGV[1])
  end
end";

#[cfg(test)]
mod tests;
