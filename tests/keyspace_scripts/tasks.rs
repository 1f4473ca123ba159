//! Programs in two languages: in Lua for masters, and in Rust for the explored functions.

use crate::specification::slots::{Runs, Seen};
use bytes::Bytes;
use proptest::prelude::*;
use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::lua::keyspace::SLACK_MS;
use redlock_proxy::operation::register::{Lease, Place};

/// Length of the tag in front of a token.
pub(crate) const TAG: usize = 20;

/// A program over one or both of two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    Set(usize),
    /// For this many milliseconds.
    SetFor(usize, u16),
    Append(usize),
    Push(usize),
    /// Pushes, and sets this time to live in milliseconds.
    PushFor(usize, u16),
    /// Same as `PushFor`, followed by another push.
    PushTwiceFor(usize, u16),
    /// Pushes only onto an existing list.
    PushOnto(usize),
    /// Adds to a sorted set that does not exist: it writes all the same.
    ScoreAgain(usize),
    Delete(usize),
    Get(usize),
    Expire(usize, u16),
    TimeLeft(usize),
    /// Appends to the second key if the first exists.
    Guarded(usize),
    Rename(usize),
    /// Appends to both, and fails.
    Fail(usize),
}

/// Value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) held: Held,
    /// Time at which masters clean it up; -1 for never.
    pub(crate) clean_ms: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Held {
    #[default]
    Nothing,
    Text(String),
    List(Vec<String>),
}

/// Answer of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Said {
    Number(i64),
    Text(Option<String>),
    Done,
    Error,
}

pub(crate) fn tasks() -> impl Strategy<Value = Task> {
    let (key, time) = (0..2_usize, prop_oneof![1..20_u16, 1000..2000_u16]);
    prop_oneof![
        key.clone().prop_map(Task::Set),
        (key.clone(), time.clone()).prop_map(|(key, time)| Task::SetFor(key, time)),
        key.clone().prop_map(Task::Append),
        key.clone().prop_map(Task::Push),
        (key.clone(), time.clone()).prop_map(|(key, time)| Task::PushFor(key, time)),
        (key.clone(), time.clone()).prop_map(|(key, time)| Task::PushTwiceFor(key, time)),
        key.clone().prop_map(Task::PushOnto),
        key.clone().prop_map(Task::ScoreAgain),
        key.clone().prop_map(Task::Delete),
        key.clone().prop_map(Task::Get),
        (key.clone(), time).prop_map(|(key, time)| Task::Expire(key, time)),
        key.clone().prop_map(Task::TimeLeft),
        key.clone().prop_map(Task::Guarded),
        key.clone().prop_map(Task::Rename),
        key.prop_map(Task::Fail),
    ]
}

/// One of the two keys.
pub(crate) fn place(key: usize) -> Place {
    let name = if key == 0 { "one" } else { "two" };
    Place { db: 0, key: Bytes::from_static(name.as_bytes()) }
}

impl Task {
    pub(crate) fn lua(self) -> &'static str {
        match self {
            Self::Set(_) => "return redis.call('set', KEYS[1], 'x')",
            Self::SetFor(..) => "return redis.call('SET', KEYS[1], 'x', 'PX', ARGV[1])",
            Self::Append(_) => "return redis.call('append', KEYS[1], 'y')",
            Self::Push(_) => "return redis.call('rpush', KEYS[1], 'z')",
            Self::PushFor(..) => {
                "redis.call('rpush', KEYS[1], 'z') return redis.call('pexpire', KEYS[1], ARGV[1])"
            }
            Self::PushTwiceFor(..) => {
                "redis.call('rpush', KEYS[1], 'z') redis.call('pexpire', KEYS[1], ARGV[1]) \
                 return redis.call('rpush', KEYS[1], 'z')"
            }
            Self::PushOnto(_) => "return redis.call('rpushx', KEYS[1], 'z')",
            Self::ScoreAgain(_) => "return redis.call('zadd', KEYS[1], 'XX', 1, 'z')",
            Self::Delete(_) => "redis.call('del', KEYS[1]) return 1",
            Self::Get(_) => "return redis.call('get', KEYS[1])",
            Self::Expire(..) => "return redis.call('pexpire', KEYS[1], ARGV[1])",
            Self::TimeLeft(_) => "return redis.call('pttl', KEYS[1])",
            Self::Guarded(_) => {
                "if redis.call('exists', KEYS[1]) == 1 then \
                 return redis.call('append', KEYS[2], 'y') end return 0"
            }
            Self::Rename(_) => "return redis.call('rename', KEYS[1], KEYS[2])",
            Self::Fail(_) => {
                "redis.call('append', KEYS[1], 'a') redis.call('append', KEYS[2], 'b') error('no')"
            }
        }
    }

    pub(crate) fn argument(self) -> Option<u16> {
        match self {
            Self::SetFor(_, time)
            | Self::PushFor(_, time)
            | Self::PushTwiceFor(_, time)
            | Self::Expire(_, time) => Some(time),
            _ => None,
        }
    }

    fn key(self) -> usize {
        match self {
            Self::Set(key)
            | Self::SetFor(key, _)
            | Self::Append(key)
            | Self::Push(key)
            | Self::PushFor(key, _)
            | Self::PushTwiceFor(key, _)
            | Self::PushOnto(key)
            | Self::ScoreAgain(key)
            | Self::Delete(key)
            | Self::Get(key)
            | Self::Expire(key, _)
            | Self::TimeLeft(key)
            | Self::Guarded(key)
            | Self::Rename(key)
            | Self::Fail(key) => key,
        }
    }

    fn is_of_both(self) -> bool {
        matches!(self, Self::Guarded(_) | Self::Rename(_) | Self::Fail(_))
    }
}

impl Default for Stored {
    fn default() -> Self {
        Self { held: Held::Nothing, clean_ms: 0 }
    }
}

impl Stored {
    pub(crate) fn kind(&self) -> u8 {
        match self.held {
            Held::Nothing => b'-',
            Held::Text(_) => b's',
            Held::List(_) => b'l',
        }
    }

    /// A lease as programs see it: its token, until it ends.
    fn of_lease(lease: &Lease) -> Self {
        let token = String::from_utf8_lossy(&lease.value[TAG..]).into_owned();
        let clean_ms = match lease.end_ms() {
            -1 => -1,
            end_ms => end_ms + SLACK_MS as i64,
        };
        Self { held: Held::Text(token), clean_ms }
    }

    fn forever(held: Held) -> Self {
        Self { held, clean_ms: -1 }
    }

    fn appended(&self, text: &str) -> (Self, Said) {
        match &self.held {
            Held::Nothing => (Self::forever(Held::Text(text.into())), Said::Number(1)),
            Held::Text(before) => {
                let after = before.clone() + text;
                let length = Said::Number(after.len() as i64);
                (Self { held: Held::Text(after), ..self.clone() }, length)
            }
            Held::List(_) => (self.clone(), Said::Error),
        }
    }

    fn pushed(&self) -> (Self, Said) {
        match &self.held {
            Held::Nothing => (Self::forever(Held::List(vec!["z".into()])), Said::Number(1)),
            Held::List(before) => {
                let after = [&before[..], &["z".into()]].concat();
                let length = Said::Number(after.len() as i64);
                (Self { held: Held::List(after), ..self.clone() }, length)
            }
            Held::Text(_) => (self.clone(), Said::Error),
        }
    }
}

/// Padded by 2 ms, as without a vote timeout and without drift.
fn clean_ms(now_us: u64, time: u16) -> i64 {
    (now_us / 1000 + u64::from(time) + 2 + SLACK_MS) as i64
}

impl Program for Task {
    type Key = Place;
    type Value = Stored;
    type Lease = Lease;
    type Reply = Said;

    fn keys(&self) -> Vec<Place> {
        let key = self.key();
        let keys = if self.is_of_both() { vec![key, 1 - key] } else { vec![key] };
        keys.into_iter().map(place).collect()
    }

    fn is_present(stored: &Stored) -> bool {
        stored.held != Held::Nothing
    }

    fn end_us(stored: &Stored) -> Option<u64> {
        (stored.clean_ms >= 0).then(|| (stored.clean_ms as u64).saturating_sub(SLACK_MS) * 1000)
    }
}

impl Runs for Task {
    fn run(&self, seen: &[Seen<'_, Self>], now_us: u64) -> (Vec<Option<Stored>>, Said) {
        let seen: Vec<Stored> = seen
            .iter()
            .map(|seen| match seen {
                Seen::Register(stored) => (*stored).clone(),
                Seen::Lease(lease) => Stored::of_lease(lease),
            })
            .collect();
        let first = &seen[0];
        let is_there = first.held != Held::Nothing;
        let text = Held::Text("x".into());
        let one = |(stored, said): (Stored, Said)| (vec![Some(stored)], said);
        match self {
            Self::Set(_) => one((Stored::forever(text), Said::Done)),
            Self::SetFor(_, time) => {
                let clean_ms = clean_ms(now_us, *time);
                one((Stored { held: text, clean_ms }, Said::Done))
            }
            Self::Append(_) => one(first.appended("y")),
            Self::Push(_) => one(first.pushed()),
            Self::PushFor(_, time) | Self::PushTwiceFor(_, time) => match first.pushed() {
                (list, Said::Number(_)) => {
                    let pushed = Stored { clean_ms: clean_ms(now_us, *time), ..list };
                    let is_once = matches!(self, Self::PushFor(..));
                    one(if is_once { (pushed, Said::Number(1)) } else { pushed.pushed() })
                }
                failed => one(failed),
            },
            Self::PushOnto(_) if is_there => one(first.pushed()),
            Self::PushOnto(_) => (vec![None], Said::Number(0)),
            Self::ScoreAgain(_) if is_there => one((first.clone(), Said::Error)),
            Self::ScoreAgain(_) => one((Stored::default(), Said::Number(0))),
            Self::Delete(_) => (vec![is_there.then(Stored::default)], Said::Number(1)),
            Self::Get(_) => {
                let said = match &first.held {
                    Held::Nothing => Said::Text(None),
                    Held::Text(text) => Said::Text(Some(text.clone())),
                    Held::List(_) => Said::Error,
                };
                (vec![None], said)
            }
            Self::Expire(_, time) if is_there => {
                let clean_ms = clean_ms(now_us, *time);
                one((Stored { clean_ms, ..first.clone() }, Said::Number(1)))
            }
            Self::Expire(..) => (vec![None], Said::Number(0)),
            Self::TimeLeft(_) => {
                let left = match first.clean_ms {
                    _ if !is_there => -2,
                    -1 => -1,
                    clean => (clean - SLACK_MS as i64 - (now_us / 1000) as i64 - 2).max(0),
                };
                (vec![None], Said::Number(left))
            }
            Self::Guarded(_) if is_there => {
                let (second, said) = seen[1].appended("y");
                (vec![None, Some(second)], said)
            }
            Self::Guarded(_) => (vec![None, None], Said::Number(0)),
            Self::Rename(_) if is_there => {
                (vec![Some(Stored::default()), Some(first.clone())], Said::Done)
            }
            Self::Rename(_) => (seen.into_iter().map(Some).collect(), Said::Error),
            Self::Fail(_) => {
                let (first, said) = seen[0].appended("a");
                if said == Said::Error {
                    return (vec![Some(first), None], Said::Error);
                }
                (vec![Some(first), Some(seen[1].appended("b").0)], Said::Error)
            }
        }
    }
}
