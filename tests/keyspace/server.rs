//! The behaviour of a single server: the specification that histories are compared with, and the
//! programs that run on masters.

use crate::specification::slots::{Runs, Seen};
use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::decision::keyspace::slot::State;
use stateright::semantics::SequentialSpec;

/// An operation of a client, or the end of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// `SET key token NX PX`, by the fast path of leases.
    Claim(u8),
    /// Releases the lease.
    Release(u8),
    /// Increments an existing value and removes its expiry: `PERSIST`, `SET XX`, ...
    Touch(u8),
    /// `INCR`.
    Increment(u8),
    /// `DEL`.
    Delete(u8),
    /// `SET key value PX`: it expires by itself.
    Pass(u8),
    /// `SET key value NX PX`: it expires when its time is over, and not before.
    Take(u8),
    /// Increments both keys.
    Both,
    /// Increments the second key if the first exists.
    Guarded,
    /// Reads the key.
    Read(u8),
    /// Reads the key once all masters that answer hold the same.
    Settle(u8),
    /// `FLUSHDB`.
    Flush,
    /// The lease of this client under this key ends.
    End(u8, u8),
    /// The expiring value under this key has expired.
    Fade(u8),
    /// All masters have lost the register under this key.
    Vanish(u8),
}

/// Answer to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    /// Yes (1) or no (0), or the number after an increment.
    Number(u8),
    /// Value of the key.
    Held(Held),
}

/// Value of a key: an owner, and the number of increments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Held {
    #[default]
    Nothing,
    Lease(u8),
    Register(u8, u8),
}

/// Time to live of expiring values, in the time of the world, which advances by ten with each
/// round.
pub(crate) const SHORT: u64 = 15;

/// Value and expiry of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) held: Held,
    pub(crate) end: Option<u64>,
}

/// A program, with the client that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Job(pub(crate) Operation, pub(crate) u8);

/// A lease, named by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lease(pub(crate) u8);

impl Held {
    pub(crate) fn is_there(self) -> bool {
        self != Self::Nothing
    }

    fn owner(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Lease(owner) | Self::Register(owner, _) => owner,
        }
    }

    /// The first client to increment becomes the owner.
    fn counted(self, by: u8) -> (Self, u8) {
        let number = match self {
            Self::Register(_, number) => number + 1,
            _ => 1,
        };
        let owner = if self.is_there() { self.owner() } else { by };
        (Self::Register(owner, number), number)
    }

    /// Value of a key at this time.
    pub(crate) fn of(state: &State<Job>, lease: Option<&Lease>, now: u64) -> Self {
        match lease {
            Some(lease) => Self::Lease(lease.0),
            None if Job::lives(&state.value, now) => state.value.held,
            None => Self::Nothing,
        }
    }
}

impl Stored {
    fn clear_if(&mut self, has_gone: impl FnOnce(&Self) -> bool) -> Reply {
        if has_gone(self) {
            *self = Self::default();
        }
        Reply::Number(0)
    }
}

impl Job {
    /// Returns the new state of the keys that were written, and the reply.
    fn result(self, stored: [Stored; 2], now: u64) -> ([Option<Stored>; 2], u8) {
        let mut written = [None; 2];
        let is_there = |key: u8| stored[usize::from(key)].held.is_there();
        let mut count = |key: u8| {
            let Stored { held, end } = stored[usize::from(key)];
            let (held, number) = held.counted(self.1);
            let end = end.filter(|_| !matches!(self.0, Operation::Touch(_)));
            written[usize::from(key)] = Some(Stored { held, end });
            number
        };
        let reply = match self.0 {
            Operation::Touch(key) if is_there(key) => count(key),
            Operation::Increment(key) => count(key),
            Operation::Both => count(0) * 10 + count(1),
            Operation::Guarded if is_there(0) => count(1),
            Operation::Take(key) if is_there(key) => 0,
            Operation::Pass(key) | Operation::Take(key) => {
                let (held, end) = (Held::Register(self.1, 0), Some(now + SHORT));
                written[usize::from(key)] = Some(Stored { held, end });
                1
            }
            Operation::Delete(key) if is_there(key) => {
                written[usize::from(key)] = Some(Stored::default());
                1
            }
            Operation::Release(key) if stored[usize::from(key)].held.owner() == self.1 => {
                written[usize::from(key)] = Some(Stored::default());
                1
            }
            _ => 0,
        };
        (written, reply)
    }
}

impl Program for Job {
    type Key = u8;
    type Value = Stored;
    type Lease = Lease;
    type Reply = u8;

    fn keys(&self) -> Vec<u8> {
        match self.0 {
            Operation::Both | Operation::Guarded | Operation::Flush => vec![0, 1],
            Operation::Touch(key)
            | Operation::Increment(key)
            | Operation::Delete(key)
            | Operation::Pass(key)
            | Operation::Take(key)
            | Operation::Release(key)
            | Operation::Claim(key)
            | Operation::Read(key)
            | Operation::Settle(key)
            | Operation::Fade(key)
            | Operation::Vanish(key)
            | Operation::End(key, _) => vec![key],
        }
    }

    fn is_present(value: &Stored) -> bool {
        value.held.is_there()
    }

    fn end_us(value: &Stored) -> Option<u64> {
        value.end
    }
}

impl Runs for Job {
    fn run(&self, seen: &[Seen<'_, Self>], now_us: u64) -> (Vec<Option<Stored>>, u8) {
        let mut stored = [Stored::default(); 2];
        for (key, seen) in self.keys().into_iter().zip(seen) {
            stored[usize::from(key)] = match seen {
                Seen::Register(value) => **value,
                Seen::Lease(lease) => Stored { held: Held::Lease(lease.0), end: None },
            };
        }
        let (written, reply) = self.result(stored, now_us);
        (self.keys().into_iter().map(|key| written[usize::from(key)]).collect(), reply)
    }
}

/// One server with two keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server(pub(crate) [Stored; 2]);

impl SequentialSpec for Server {
    /// Includes the client.
    type Op = Job;
    type Ret = Reply;

    fn invoke(&mut self, job: &Job) -> Reply {
        let Job(operation, client) = *job;
        match operation {
            Operation::Read(key) | Operation::Settle(key) => {
                Reply::Held(self.0[usize::from(key)].held)
            }
            Operation::Claim(key) => {
                let stored = &mut self.0[usize::from(key)];
                let is_free = !stored.held.is_there();
                if is_free {
                    *stored = Stored { held: Held::Lease(client), end: None };
                }
                Reply::Number(u8::from(is_free))
            }
            Operation::End(key, owner) => {
                self.0[usize::from(key)].clear_if(|stored| stored.held == Held::Lease(owner))
            }
            Operation::Fade(key) => {
                self.0[usize::from(key)].clear_if(|stored| stored.end.is_some())
            }
            Operation::Flush => {
                self.0 = Default::default();
                Reply::Number(1)
            }
            Operation::Vanish(key) => self.0[usize::from(key)]
                .clear_if(|stored| matches!(stored.held, Held::Register(..))),
            _ => {
                let (written, reply) = job.result(self.0, 0);
                for (stored, written) in self.0.iter_mut().zip(written) {
                    *stored = written.unwrap_or(*stored);
                }
                Reply::Number(reply)
            }
        }
    }

    /// Copies that are about to disappear may still refuse a claim.
    fn is_valid_step(&mut self, job: &Job, reply: &Reply) -> bool {
        let is_refused = matches!((job, reply), (Job(Operation::Claim(_), _), Reply::Number(0)));
        is_refused || self.invoke(job) == *reply
    }
}
