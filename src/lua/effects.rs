//! Effects of a script, found by running it once for every state in which a master can find the key.
//!
//! A lock script asks two questions: whether the key holds one of its arguments, and sometimes whether another argument
//! has a given value. So there are only a few `World`s, and in each of them the script is a straight line. It runs
//! there with symbols for unknown values ("the value of the key", "`ARGV[1]`"), and by the rules of Lua for known ones.
//! For example, `GET` of a missing key is `false`, `false == nil` is false, and only `nil` and `false` fail a
//! condition. An operation on symbols whose result depends on more than the world has no result, and the script has no
//! meaning.

use super::meaning::{Arg, ScriptValue};
use super::syntax::{Block, Call, Command, Expression, Statement, parse};
use crate::resp::number::parse_i64;

/// State of the key and of the guard when the script starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct World {
    pub(super) key: LockState,
    /// Whether the [`Guard`] holds.
    pub(super) guard: bool,
}

/// Content that a master finds at the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// No value.
    Missing,
    /// String that the `Holder` comparison finds equal.
    Ours,
    /// Any other string.
    Theirs,
}

/// Comparisons of the script, and the role of each argument, which are the same in every world.
///
/// A role counts even if its command had no effect: `SET NX` on a key that exists still fails if its TTL is not a
/// number.
#[derive(Debug, Default)]
pub(super) struct Questions {
    pub(super) holder: Option<Holder>,
    pub(super) guard: Option<Guard>,
    /// Argument that is written, or whose beginning is taken.
    pub(super) token: Option<Arg>,
    /// TTL of any command.
    pub(super) ttl: Option<Arg>,
    /// Argument that is read as a number.
    pub(super) length: Option<Arg>,
}

/// Value that the value of the key is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Compares the whole value with the whole token.
    Token(Arg),
    /// Compares the first `length` bytes of both.
    Prefix { token: Arg, length: Arg },
}

/// Argument and the value that it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guard {
    pub(super) arg: Arg,
    pub(super) equals: Vec<u8>,
}

/// Result of the script in one world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) effect: Effect,
    pub(super) answer: ScriptValue,
}

/// Effect on the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None.
    Nothing,
    /// The key is gone.
    Deleted,
    /// New TTL for the old value.
    Prolonged {
        /// The TTL.
        ttl: Arg,
    },
    /// New value and new TTL.
    Written {
        /// The value.
        token: Arg,
        /// The TTL.
        ttl: Arg,
    },
}

/// Runs the script in one world. `questions` has those of the worlds before, and gets those of this one.
pub(super) fn run(script: &Block, world: World, questions: &mut Questions) -> Option<Outcome> {
    run_and_note(script, world, questions).map(|(outcome, _)| outcome)
}

/// Calls of a script, as words.
type Calls = Vec<Vec<Datum>>;

fn run_and_note(
    script: &Block,
    world: World,
    questions: &mut Questions,
) -> Option<(Outcome, Calls)> {
    let (locals, calls) = (Vec::new(), Vec::new());
    let mut run = Run { world, questions, locals, calls, effect: Effect::Nothing };
    let answer = run.block(script)?.unwrap_or(Datum::Nil).answer()?;
    Some((Outcome { effect: run.effect, answer }, run.calls))
}

/// What a script with a meaning does with these arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deeds {
    /// The words of each of its calls.
    pub calls: Vec<Vec<Vec<u8>>>,
    /// Its effect on the key.
    pub effect: Effect,
}

impl Deeds {
    /// Returns what the script with this text does, if its key is `held`; `None` if it has no meaning.
    pub fn of(text: &[u8], held: LockState, key: &[u8], argv: &[&[u8]]) -> Option<Self> {
        let script = parse(text)?;
        let mut questions = Questions::default();
        run(&script, World { key: held, guard: true }, &mut questions)?;
        let asked = questions.guard.as_ref();
        let guard = asked.is_none_or(|it| it.arg.of(argv).is_some_and(|arg| **arg == *it.equals));
        let (outcome, calls) = run_and_note(&script, World { key: held, guard }, &mut questions)?;
        let words = |call: Vec<Datum>| call.into_iter().map(|word| word.sent(key, argv)).collect();
        let calls = calls.into_iter().map(words).collect::<Option<_>>()?;
        Some(Self { calls, effect: outcome.effect })
    }
}

struct Run<'a> {
    world: World,
    questions: &'a mut Questions,
    /// Values by slot. A slot is read only after the one statement that fills it.
    locals: Vec<Option<Datum>>,
    calls: Calls,
    effect: Effect,
}

impl Run<'_> {
    /// Returns the value that the block returns, if it does.
    fn block(&mut self, block: &Block) -> Option<Option<Datum>> {
        for statement in block {
            let returned = self.statement(statement)?;
            if returned.is_some() {
                return Some(returned);
            }
        }
        Some(None)
    }

    fn statement(&mut self, statement: &Statement) -> Option<Option<Datum>> {
        match statement {
            Statement::Return(value) => return self.evaluate(value).map(Some),
            Statement::If(branches, otherwise) => return self.conditional(branches, otherwise),
            Statement::Call(call) => _ = self.call(call)?,
            Statement::Local(slot, value) => {
                let value = self.evaluate(value)?;
                let filled = self.locals.len().max(slot + 1);
                self.locals.resize(filled, None);
                self.locals[*slot] = Some(value);
            }
        }
        Some(None)
    }

    fn conditional(
        &mut self,
        branches: &[(Expression, Block)],
        otherwise: &Block,
    ) -> Option<Option<Datum>> {
        for (condition, block) in branches {
            if self.evaluate(condition)?.truth()? {
                return self.block(block);
            }
        }
        self.block(otherwise)
    }

    fn evaluate(&mut self, expression: &Expression) -> Option<Datum> {
        match expression {
            Expression::Nil => Some(Datum::Nil),
            Expression::Bool(value) => Some(Datum::Bool(*value)),
            Expression::Number(number) => Some(Datum::Int(*number)),
            Expression::Text(text) => Some(Datum::Text(text.clone())),
            Expression::Key => Some(Datum::Key),
            Expression::Arg(arg) => Some(Datum::Arg(*arg)),
            Expression::Local(slot) => self.locals.get(*slot)?.clone(),
            Expression::Not(inner) => Some(Datum::Bool(!self.evaluate(inner)?.truth()?)),
            Expression::And(left, right) => self.either(left, right, false),
            Expression::Or(left, right) => self.either(left, right, true),
            Expression::Equal(left, right) => self.compare(left, right).map(Datum::Bool),
            Expression::Minus(left, right) => self.minus(left, right),
            Expression::Call(call) => self.call(call),
        }
    }

    /// Evaluates `and` and `or`: the left side if its truth is `decisive`, otherwise the right side.
    fn either(&mut self, left: &Expression, right: &Expression, decisive: bool) -> Option<Datum> {
        let left = self.evaluate(left)?;
        if left.truth()? == decisive { Some(left) } else { self.evaluate(right) }
    }

    fn compare(&mut self, left: &Expression, right: &Expression) -> Option<bool> {
        let left = self.evaluate(left)?;
        let right = self.evaluate(right)?;
        match left.equals(&right)? {
            Equality::Known(equal) => Some(equal),
            Equality::Holder(holder) => {
                always(&mut self.questions.holder, holder)?;
                Some(self.world.key == LockState::Ours)
            }
            Equality::Guard(guard) => {
                always(&mut self.questions.guard, guard)?;
                Some(self.world.guard)
            }
        }
    }

    /// Evaluates the only known subtraction: the last offset of a prefix.
    fn minus(&mut self, left: &Expression, right: &Expression) -> Option<Datum> {
        match (self.evaluate(left)?, self.evaluate(right)?) {
            (Datum::Length(length), Datum::Int(1)) => Some(Datum::LastOffset(length)),
            _ => None,
        }
    }

    fn call(&mut self, call: &Call) -> Option<Datum> {
        match call {
            Call::StatusReply(status) => (status == b"OK").then_some(Datum::Ok),
            Call::ErrorReply(text) => error_reply(text).map(Datum::Error),
            Call::ToNumber(text) => {
                let Datum::Arg(length) = self.evaluate(text)? else { return None };
                always(&mut self.questions.length, length)?;
                Some(Datum::Length(length))
            }
            Call::Sub(arguments) => match self.evaluate_all(arguments)?.as_slice() {
                [Datum::Arg(token), Datum::Int(1), Datum::Length(length)] => {
                    always(&mut self.questions.token, *token)?;
                    Some(Datum::TokenPrefix { token: *token, length: *length })
                }
                _ => None,
            },
            Call::Redis(command, name, arguments) => {
                let arguments = self.evaluate_all(arguments)?;
                let words = std::iter::once(Datum::Text(name.clone())).chain(arguments.clone());
                self.calls.push(words.collect());
                let (Datum::Key, arguments) = arguments.split_first()? else { return None };
                self.redis(*command, arguments)
            }
        }
    }

    fn evaluate_all(&mut self, expressions: &[Expression]) -> Option<Vec<Datum>> {
        expressions.iter().map(|expression| self.evaluate(expression)).collect()
    }

    /// Runs one command on the key. A lock script is done with the key once it has changed it.
    fn redis(&mut self, command: Command, arguments: &[Datum]) -> Option<Datum> {
        if self.effect != Effect::Nothing {
            return None;
        }
        match (command, arguments) {
            (Command::Get, []) => Some(self.found(Datum::Bool(false), Datum::Held)),
            (Command::Exists, []) => Some(self.found(Datum::Int(0), Datum::Int(1))),
            (Command::GetRange, [Datum::Int(0), Datum::LastOffset(length)]) => {
                Some(self.found(Datum::Text(Vec::new()), Datum::HeldPrefix { length: *length }))
            }
            (Command::Del, []) => Some(self.change(Effect::Deleted)),
            (Command::Pexpire, [Datum::Arg(ttl)]) => {
                always(&mut self.questions.ttl, *ttl)?;
                Some(self.change(Effect::Prolonged { ttl: *ttl }))
            }
            (Command::Set, [Datum::Arg(token), options @ ..]) => self.set(*token, options),
            _ => None,
        }
    }

    fn found(&self, missing: Datum, exists: Datum) -> Datum {
        if self.world.key == LockState::Missing { missing } else { exists }
    }

    /// Runs a command that only works on a key that exists, and replies how many keys there were.
    fn change(&mut self, effect: Effect) -> Datum {
        if self.world.key != LockState::Missing {
            self.effect = effect;
        }
        self.found(Datum::Int(0), Datum::Int(1))
    }

    fn set(&mut self, token: Arg, options: &[Datum]) -> Option<Datum> {
        let SetOptions { nx, ttl } = SetOptions::from_data(options)?;
        always(&mut self.questions.token, token)?;
        always(&mut self.questions.ttl, ttl)?;
        if nx && self.world.key != LockState::Missing {
            return Some(Datum::Bool(false));
        }
        self.effect = Effect::Written { token, ttl };
        Some(Datum::Ok)
    }
}

/// Options of a `SET` in a lock script: always `PX`, optionally `NX`, in any order and letter case.
struct SetOptions {
    nx: bool,
    ttl: Arg,
}

impl SetOptions {
    fn from_data(mut options: &[Datum]) -> Option<SetOptions> {
        let mut nx = false;
        let mut ttl = None;
        loop {
            options = match options {
                [] => return Some(SetOptions { nx, ttl: ttl? }),
                [Datum::Text(name), Datum::Arg(px), rest @ ..]
                    if name.eq_ignore_ascii_case(b"px") && ttl.is_none() =>
                {
                    ttl = Some(*px);
                    rest
                }
                [Datum::Text(name), rest @ ..] if name.eq_ignore_ascii_case(b"nx") && !nx => {
                    nx = true;
                    rest
                }
                _ => return None,
            }
        }
    }
}

/// Value in a running script: known, or a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Datum {
    Nil,
    Bool(bool),
    Int(i64),
    Text(Vec<u8>),
    /// Table for the status reply `OK`.
    Ok,
    /// Table for an error reply.
    Error(String),
    /// Name of the key.
    Key,
    Arg(Arg),
    /// Value of the key.
    Held,
    /// Beginning of the value of the key, of the length in this argument.
    HeldPrefix {
        length: Arg,
    },
    /// Beginning of the token, of the length in this argument.
    TokenPrefix {
        token: Arg,
        length: Arg,
    },
    /// Argument as a number.
    Length(Arg),
    /// Argument as a number, minus one.
    LastOffset(Arg),
}

/// Way to find out whether two values are equal.
enum Equality {
    Known(bool),
    Holder(Holder),
    Guard(Guard),
}

impl Datum {
    /// Returns whether a condition holds with this value. It is only unknown for an argument, which may be missing.
    fn truth(&self) -> Option<bool> {
        match self {
            Datum::Nil | Datum::Bool(false) => Some(false),
            Datum::Arg(_) | Datum::Length(_) => None,
            _ => Some(true),
        }
    }

    fn equals(&self, other: &Datum) -> Option<Equality> {
        match (self, other) {
            (Datum::Held, Datum::Arg(token)) | (Datum::Arg(token), Datum::Held) => {
                Some(Equality::Holder(Holder::Token(*token)))
            }
            (Datum::HeldPrefix { length: held }, Datum::TokenPrefix { token, length })
            | (Datum::TokenPrefix { token, length }, Datum::HeldPrefix { length: held }) => (held
                == length)
                .then_some(Equality::Holder(Holder::Prefix { token: *token, length: *length })),
            (Datum::Arg(arg), Datum::Text(text)) | (Datum::Text(text), Datum::Arg(arg)) => {
                Some(Equality::Guard(Guard { arg: *arg, equals: text.clone() }))
            }
            (left, right) => left.equals_plainly(right).map(Equality::Known),
        }
    }

    /// Compares known types. Values of different types are never equal in Lua; symbols of the same type may be.
    fn equals_plainly(&self, other: &Datum) -> Option<bool> {
        match (self, other) {
            (Datum::Arg(_), Datum::Bool(_)) | (Datum::Bool(_), Datum::Arg(_)) => Some(false),
            (Datum::Nil, Datum::Nil) => Some(true),
            (Datum::Bool(left), Datum::Bool(right)) => Some(left == right),
            (Datum::Int(left), Datum::Int(right)) => Some(left == right),
            _ if self.kind()? != other.kind()? => Some(false),
            _ => None,
        }
    }

    /// Returns the type that Lua sees. It is unknown for an argument, which is nil if it was not sent or is not the
    /// number that it should be.
    fn kind(&self) -> Option<Kind> {
        match self {
            Datum::Nil => Some(Kind::Nil),
            Datum::Bool(_) => Some(Kind::Bool),
            Datum::Int(_) | Datum::LastOffset(_) => Some(Kind::Number),
            Datum::Ok | Datum::Error(_) => Some(Kind::Table),
            Datum::Text(_)
            | Datum::Key
            | Datum::Held
            | Datum::HeldPrefix { .. }
            | Datum::TokenPrefix { .. } => Some(Kind::String),
            Datum::Arg(_) | Datum::Length(_) => None,
        }
    }

    /// Returns the word that Redis gets for it; `None` if that depends on the value of the key.
    fn sent(self, key: &[u8], argv: &[&[u8]]) -> Option<Vec<u8>> {
        let number = |arg: Arg| parse_i64(arg.of(argv)?);
        match self {
            Datum::Int(number) => Some(number.to_string().into_bytes()),
            Datum::Text(text) => Some(text),
            Datum::Key => Some(key.to_vec()),
            Datum::Arg(arg) => arg.of(argv).map(|word| word.to_vec()),
            Datum::TokenPrefix { token, length } => {
                let (token, length) = (token.of(argv)?, usize::try_from(number(length)?).ok()?);
                Some(token[..length.min(token.len())].to_vec())
            }
            Datum::Length(length) => Some(number(length)?.to_string().into_bytes()),
            Datum::LastOffset(length) => Some((number(length)? - 1).to_string().into_bytes()),
            _ => None,
        }
    }

    /// Returns the reply that Redis makes from a returned value; `luaReplyToRedisReply` in `script_lua.c`.
    fn answer(self) -> Option<ScriptValue> {
        match self {
            Datum::Nil | Datum::Bool(false) => Some(ScriptValue::Nil),
            Datum::Bool(true) => Some(ScriptValue::Int(1)),
            Datum::Int(number) => Some(ScriptValue::Int(number)),
            Datum::Ok => Some(ScriptValue::Ok),
            Datum::Text(text) => plain(&text).map(ScriptValue::Bulk),
            Datum::Error(text) => Some(ScriptValue::Error(text)),
            _ => None,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Kind {
    Nil,
    Bool,
    Number,
    String,
    Table,
}

/// Returns the text of `redis.error_reply(text)` since Redis 7: a single word is a message, and gets the code `ERR`.
fn error_reply(text: &[u8]) -> Option<String> {
    let text = plain(text).filter(|text| !text.is_empty() && !text.starts_with(['-', ' ']))?;
    Some(if text.contains(' ') { text } else { format!("ERR {text}") })
}

/// Returns text that is safe in any kind of reply.
fn plain(text: &[u8]) -> Option<String> {
    let harmless = text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    harmless.then(|| text.iter().copied().map(char::from).collect())
}

/// Records a fact about the script, if it agrees with earlier facts.
fn always<T: PartialEq>(known: &mut Option<T>, fact: T) -> Option<()> {
    let agrees = known.as_ref().is_none_or(|known| *known == fact);
    *known = Some(fact);
    agrees.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str, held: LockState, argv: &[&str]) -> Vec<String> {
        let argv: Vec<_> = argv.iter().map(|arg| arg.as_bytes()).collect();
        let deeds = Deeds::of(text.as_bytes(), held, b"k", &argv).expect("a meaning");
        let calls = deeds.calls.iter().map(|call| call.join(&b' '));
        calls.map(|call| String::from_utf8(call).expect("text")).collect()
    }

    #[test]
    fn the_calls_depend_on_what_the_key_holds() {
        let text =
            "if redis.call('GeT', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end";
        assert_eq!(calls(text, LockState::Ours, &["t"]), ["GeT k", "del k"]);
        assert_eq!(calls(text, LockState::Theirs, &["t"]), ["GeT k"]);
        assert_eq!(Deeds::of(b"return redis.call('ping')", LockState::Ours, b"k", &[]), None);
    }

    #[test]
    fn the_calls_depend_on_the_arguments() {
        let text = "if ARGV[3] == 'yes' and redis.call('exists', KEYS[1]) == 0 then
            return redis.call('set', KEYS[1], ARGV[1], 'Px', ARGV[2]) end
            return redis.call('getrange', KEYS[1], 0, tonumber(ARGV[4]) - 1) == string.sub(ARGV[1], 1, tonumber(ARGV[4]))";
        let of = |held, told: &str| calls(text, held, &["token", "900", told, "3"]);
        assert_eq!(of(LockState::Missing, "yes"), ["exists k", "set k token Px 900"]);
        assert_eq!(of(LockState::Theirs, "yes"), ["exists k", "getrange k 0 2"]);
        assert_eq!(of(LockState::Theirs, "no"), ["getrange k 0 2"]);
    }
}
