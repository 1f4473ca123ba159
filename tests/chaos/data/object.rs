//! One or two keys that clients use together, and the history of all requests about them.

use std::collections::VecDeque;

use fastrand::Rng;
use redis::Value;

use super::redisson::Holders;
use super::server::{OneRedis, Operation};
use crate::history::Nanos;
use crate::support::linearizable;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Counter,
    Value,
    List,
    Semaphore,
    /// Two counters.
    Pair,
    /// Two lists.
    Belt,
    /// Redisson's semaphore; the kinds below are Redisson's as well.
    Permits,
    Latch,
    Limiter,
    FencedLock,
    FairLock,
}

impl Kind {
    /// Kinds for any client.
    pub(crate) const PLAIN: [Kind; 6] =
        [Kind::Counter, Kind::Value, Kind::List, Kind::Semaphore, Kind::Pair, Kind::Belt];

    /// Redisson's kinds.
    pub(crate) const REDISSON: [Kind; 5] =
        [Kind::Permits, Kind::Latch, Kind::Limiter, Kind::FencedLock, Kind::FairLock];

    /// Keys on which all masters must converge.
    fn keys(self, name: String) -> [String; 2] {
        let other = match self {
            Kind::Limiter => format!("{{{name}}}:value"),
            Kind::FencedLock => format!("redisson_lock_token:{{{name}}}"),
            Kind::FairLock => format!("redisson_lock_queue:{{{name}}}"),
            _ => format!("{name}-too"),
        };
        [name, other]
    }

    /// Operation that reads the whole object.
    pub(crate) fn look(self) -> Operation {
        match self {
            Kind::Counter | Kind::Value | Kind::Permits | Kind::Latch => Operation::Get,
            Kind::List => Operation::List,
            Kind::Semaphore => Operation::Holders,
            Kind::Pair => Operation::GetBoth,
            Kind::Belt => Operation::ListBoth,
            Kind::Limiter | Kind::FencedLock | Kind::FairLock => Operation::Exists,
        }
    }
}

/// An object and its history. Few clients use it at a time and not for long, so checking its
/// history is fast.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) keys: [String; 2],
    pub(crate) calls: Vec<Call>,
    /// Number of calls that may take effect later, or already have.
    open: usize,
    /// Value read last.
    seen: String,
    /// Possible holders of a permit.
    holders: VecDeque<String>,
    /// Possible holders of a Redisson object.
    pub(crate) locked: Holders,
}

/// One request of one client.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) server: String,
    pub(crate) operation: Operation,
    pub(crate) asked: Nanos,
    /// End of the test if there was no answer.
    pub(crate) answered: Nanos,
    pub(crate) answer: Answer,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Told(Value),
    /// An error reply and its text. The call may take effect, once, at any later time.
    Error(String),
    /// No reply. The call may take effect, as after an error.
    Lost(String),
    /// There was no connection to send it over.
    NotSent(String),
    Unanswered,
}

impl Answer {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Answer::Error(_) | Answer::Lost(_) | Answer::Unanswered)
    }
}

impl Object {
    pub(crate) fn new(kind: Kind, number: usize) -> Object {
        let name = format!("{kind:?}-{number}").to_lowercase();
        let (calls, holders, locked) = Default::default();
        Object { kind, keys: kind.keys(name), calls, open: 0, seen: String::new(), holders, locked }
    }

    pub(crate) fn is_used_up(&self) -> bool {
        self.calls.len() >= MOST_CALLS || self.open >= MOST_OPEN
    }

    /// Chooses a client's next operation. Each `number` is used once only.
    pub(crate) fn next(&mut self, random: &mut Rng, client: usize, number: u64) -> Operation {
        if Kind::REDISSON.contains(&self.kind) {
            return Operation::Redisson(self.locked.next(self.kind, client, number, random));
        }
        let name = format!("it-{client}-{number}");
        let lot = random.u8(0..10);
        match (self.kind, lot) {
            (Kind::Counter, 0..6) => Operation::Increment(1),
            (Kind::Counter, 6..8) => Operation::Increment(random.i64(2..10)),
            (Kind::Value, 0..4) => Operation::Exchange(self.seen.clone(), name),
            (Kind::Value, 4) => Operation::Set(name),
            (Kind::Value, 5) => Operation::Delete,
            (Kind::List | Kind::Belt, 0..4) => Operation::Append(name),
            (Kind::List, 4..8) => Operation::Pop,
            (Kind::Semaphore, 0..4) => Operation::Acquire(name),
            (Kind::Semaphore, 4..8) => self.give_back(),
            (Kind::Pair, 0..3) => Operation::IncrementBoth,
            (Kind::Pair, 3..5) => Operation::Transfer,
            (Kind::Pair, 5) => Operation::Increment(1),
            (Kind::Pair, 6) => Operation::DeleteBoth,
            (Kind::Belt, 4..7) => Operation::Move,
            (Kind::Belt, 7..9) => Operation::PopMoved,
            _ => self.kind.look(),
        }
    }

    fn give_back(&mut self) -> Operation {
        self.holders.pop_front().map_or(Operation::Holders, Operation::GiveBack)
    }

    /// Records a request; its answer follows later.
    pub(crate) fn ask(&mut self, call: Call) -> usize {
        self.calls.push(call);
        self.calls.len() - 1
    }

    pub(crate) fn answer(&mut self, at: usize, answered: Nanos, answer: Answer) {
        let call = &mut self.calls[at];
        (call.answered, call.answer) = (answered, answer);
        self.open += usize::from(call.answer.is_open() && !call.operation.only_looks());
        match (&call.operation, &call.answer) {
            (Operation::Get, Answer::Told(Value::BulkString(value))) => {
                self.seen = String::from_utf8_lossy(value).into_owned();
            }
            (Operation::Get, Answer::Told(Value::Nil)) => self.seen.clear(),
            (Operation::Exchange(_, new), Answer::Told(Value::Int(1))) => {
                self.seen.clone_from(new);
            }
            (Operation::Acquire(_), Answer::Told(Value::Int(0)) | Answer::NotSent(_)) => {}
            (Operation::GiveBack(_), Answer::Told(_)) => {}
            (Operation::Acquire(name) | Operation::GiveBack(name), _) => {
                self.holders.push_back(name.clone());
            }
            (Operation::Redisson(method), answer) => {
                self.locked.answer(call.client, &call.server, method, answer);
            }
            _ => {}
        }
    }

    /// Calls that one server must be able to explain. Reads change nothing, so a read without an
    /// answer is left out.
    pub(crate) fn history(&self) -> Vec<linearizable::Call<OneRedis, Nanos>> {
        let told = |call: &Call| match &call.answer {
            Answer::Told(value) => Some((call.answered, call.operation.told(value.clone()))),
            _ => None,
        };
        let counts = |call: &&Call| {
            matches!(call.answer, Answer::Told(_))
                || (call.answer.is_open() && !call.operation.only_looks())
        };
        let calls = self.calls.iter().filter(counts);
        let calls = calls.map(|call| (call, told(call)));
        calls
            .map(|(call, answer)| linearizable::Call {
                operation: call.operation.clone(),
                asked: call.asked,
                answer,
            })
            .collect()
    }

    /// Number of calls that may or may not have taken effect.
    pub(crate) fn open(&self) -> usize {
        self.open
    }
}

/// Long enough for the object to exist when a deleted key's stamp is dropped.
const MOST_CALLS: usize = 500;

/// In the worst case, each open call doubles the states that a checker must explore.
const MOST_OPEN: usize = 6;
