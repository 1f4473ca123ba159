//! A model of one Redis with the keys of one object.

use std::collections::{BTreeSet, VecDeque};

use redis::Value;

use super::redisson::Method;
use crate::support::linearizable::Server;

/// An operation on an object, which has one key or two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Increment(i64),
    Get,
    Set(String),
    Delete,
    /// A script that replaces the first value by the second if it is there. An empty value means
    /// none.
    Exchange(String, String),
    /// Every element, and every holder of a permit, is unique.
    Append(String),
    Pop,
    List,
    /// A script that takes a permit, out of [`PERMITS`].
    Acquire(String),
    GiveBack(String),
    Holders,
    /// A transaction.
    IncrementBoth,
    /// A transaction.
    GetBoth,
    /// A script that moves one from the first counter to the second.
    Transfer,
    DeleteBoth,
    /// Moves the first element of the first list to the end of the second.
    Move,
    PopMoved,
    /// A transaction.
    ListBoth,
    /// Asks about both keys. A state that nobody reads may stay undecided.
    Exists,
    Redisson(Method),
}

impl Operation {
    /// Commands of the operation; several make a transaction.
    pub(crate) fn commands(&self, [one, other]: &[String; 2]) -> Vec<Vec<String>> {
        match self {
            Operation::Increment(1) => vec![words(["INCR", one])],
            Operation::Increment(by) => vec![words(["INCRBY", one, &by.to_string()])],
            Operation::Get => vec![words(["GET", one])],
            Operation::Set(value) => vec![words(["SET", one, value])],
            Operation::Delete => vec![words(["DEL", one])],
            Operation::Exchange(old, new) => vec![words(["EVAL", EXCHANGE, "1", one, old, new])],
            Operation::Append(element) => vec![words(["RPUSH", one, element])],
            Operation::Pop => vec![words(["LPOP", one])],
            Operation::List => vec![words(["LRANGE", one, "0", "-1"])],
            Operation::Acquire(name) => {
                vec![words(["EVAL", ACQUIRE, "1", one, name, &PERMITS.to_string()])]
            }
            Operation::GiveBack(name) => vec![words(["ZREM", one, name])],
            Operation::Holders => vec![words(["ZRANGE", one, "0", "-1"])],
            Operation::IncrementBoth => vec![words(["INCR", one]), words(["INCR", other])],
            Operation::GetBoth => vec![words(["GET", one]), words(["GET", other])],
            Operation::Transfer => vec![words(["EVAL", TRANSFER, "2", one, other])],
            Operation::DeleteBoth => vec![words(["DEL", one, other])],
            Operation::Move => vec![words(["LMOVE", one, other, "LEFT", "RIGHT"])],
            Operation::PopMoved => vec![words(["LPOP", other])],
            Operation::ListBoth => [one, other].map(|it| words(["LRANGE", it, "0", "-1"])).to_vec(),
            Operation::Exists => vec![words(["EXISTS", one, other])],
            Operation::Redisson(method) => vec![method.words(one)],
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        match self {
            Operation::Get | Operation::List | Operation::Holders | Operation::Exists => true,
            Operation::GetBoth | Operation::ListBoth => true,
            Operation::Redisson(method) => method.only_looks(),
            _ => false,
        }
    }

    /// Normalizes details of an answer that one Redis leaves open: it lists holders in the order of
    /// the seconds in which they arrived.
    pub(crate) fn told(&self, answer: Value) -> Value {
        match answer {
            Value::Array(mut names) if *self == Operation::Holders => {
                names.sort_by_key(|name| format!("{name:?}"));
                Value::Array(names)
            }
            other => other,
        }
    }
}

/// Maximum holders of a semaphore's permits.
pub(crate) const PERMITS: usize = 2;

/// Contents of the model, changed by [`Operation`]s. The fields in use depend on the kind of the
/// object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OneRedis {
    pub(super) strings: [Option<String>; 2],
    lists: [VecDeque<String>; 2],
    holders: BTreeSet<String>,
}

impl Server for OneRedis {
    type Operation = Operation;
    type Answer = Value;

    fn run(&mut self, operation: &Operation) -> Value {
        match operation {
            Operation::Increment(by) => self.increment(0, *by),
            Operation::Get => text(self.strings[0].as_ref()),
            Operation::Set(value) => {
                self.strings[0] = Some(value.clone());
                Value::Okay
            }
            Operation::Delete => yes_or_no(self.strings[0].take().is_some()),
            Operation::Exchange(old, new) => self.exchange(old, new),
            Operation::Append(element) => {
                self.lists[0].push_back(element.clone());
                Value::Int(self.lists[0].len() as i64)
            }
            Operation::Pop => text(self.lists[0].pop_front().as_ref()),
            Operation::List => texts(&self.lists[0]),
            Operation::Acquire(name) => {
                let may = self.holders.len() < PERMITS;
                yes_or_no(may && self.holders.insert(name.clone()))
            }
            Operation::GiveBack(name) => yes_or_no(self.holders.remove(name)),
            Operation::Holders => operation.told(texts(&self.holders)),
            Operation::IncrementBoth => Value::Array([0, 1].map(|it| self.increment(it, 1)).into()),
            Operation::GetBoth => {
                Value::Array(self.strings.iter().map(|it| text(it.as_ref())).collect())
            }
            Operation::Transfer => {
                Value::Array([(0, -1), (1, 1)].map(|(it, by)| self.increment(it, by)).into())
            }
            Operation::DeleteBoth => {
                let gone = self.strings.iter_mut().filter_map(Option::take).count();
                Value::Int(gone as i64)
            }
            Operation::Move => {
                let moved = self.lists[0].pop_front();
                self.lists[1].extend(moved.clone());
                text(moved.as_ref())
            }
            Operation::PopMoved => text(self.lists[1].pop_front().as_ref()),
            Operation::ListBoth => Value::Array(self.lists.iter().map(texts).collect()),
            Operation::Exists => Value::Int(self.strings.iter().flatten().count() as i64),
            Operation::Redisson(method) => method.run(self),
        }
    }
}

impl OneRedis {
    pub(super) fn count(&self, which: usize) -> Option<i64> {
        self.strings[which].as_ref().map(|it| it.parse().expect("a counter"))
    }

    fn increment(&mut self, which: usize, by: i64) -> Value {
        let after = self.count(which).unwrap_or(0) + by;
        self.strings[which] = Some(after.to_string());
        Value::Int(after)
    }

    fn exchange(&mut self, old: &str, new: &str) -> Value {
        let is_there = self.strings[0].as_deref().unwrap_or_default() == old;
        if is_there {
            self.strings[0] = Some(new.to_owned());
        }
        yes_or_no(is_there)
    }
}

pub(super) fn yes_or_no(it: bool) -> Value {
    Value::Int(i64::from(it))
}

fn text(it: Option<&String>) -> Value {
    it.map_or(Value::Nil, |it| Value::BulkString(it.clone().into_bytes()))
}

fn texts<'a>(them: impl IntoIterator<Item = &'a String>) -> Value {
    Value::Array(them.into_iter().map(|it| text(Some(it))).collect())
}

pub(super) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

const EXCHANGE: &str = "if (redis.call('get', KEYS[1]) or '') ~= ARGV[1] then return 0 end \
    redis.call('set', KEYS[1], ARGV[2]) return 1";

/// The score is the time, as in libraries that drop holders that are gone.
const ACQUIRE: &str = "if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end \
    return redis.call('zadd', KEYS[1], redis.call('time')[1], ARGV[1])";

const TRANSFER: &str = "return {redis.call('decr', KEYS[1]), redis.call('incr', KEYS[2])}";

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
