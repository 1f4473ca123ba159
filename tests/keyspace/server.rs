//! What a single server would do: the specification that histories are held against, and the programs that run on masters.

use redlock_proxy::decision::keyspace::slot::State;
use redlock_proxy::decision::keyspace::{Program, Runs, Seen};
use stateright::semantics::SequentialSpec;

/// What a client wants, or what happens to its lease by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// `SET key token NX PX`, by the fast path of leases.
    Claim(u8),
    /// Gives it back.
    Release(u8),
    /// Counts on, if there is something, and takes its end away: `PERSIST`, `SET XX`, ...
    Touch(u8),
    /// `INCR`.
    Increment(u8),
    /// `DEL`.
    Delete(u8),
    /// `SET key value PX`: it fades by itself.
    Pass(u8),
    /// `SET key value NX PX`: it has faded when its time is over, and not before.
    Take(u8),
    /// Counts both keys on.
    Both,
    /// Counts the second key on if there is a first.
    Guarded,
    /// What the key holds.
    Read(u8),
    /// The same, once all masters hold it that answer.
    Settle(u8),
    /// `FLUSHDB`.
    Flush,
    /// The lease of this client under this key ends.
    End(u8, u8),
    /// What fades under this key has done so.
    Fade(u8),
    /// All masters have lost the register under this key.
    Vanish(u8),
}

/// What a client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reply {
    /// Yes, or the number after it.
    Number(u8),
    /// What the key holds.
    Held(Held),
}

/// What a key holds: an owner, and how often it was counted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Held {
    #[default]
    Nothing,
    Lease(u8),
    Register(u8, u8),
}

/// How long what passes stays, in the time of the world, which goes on by ten with each round.
pub(crate) const SHORT: u64 = 15;

/// What a key holds, and until when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) held: Held,
    pub(crate) end: Option<u64>,
}

/// A program, with the client that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Job(pub(crate) Operation, pub(crate) u8);

/// A lease: its owner.
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

    /// Who counts first owns it.
    fn counted(self, by: u8) -> (Self, u8) {
        let number = match self {
            Self::Register(_, number) => number + 1,
            _ => 1,
        };
        let owner = if self.is_there() { self.owner() } else { by };
        (Self::Register(owner, number), number)
    }

    /// What a key holds at this time.
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
    /// What the keys hold afterwards, where something was written, and the reply.
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
    /// With the client.
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

    /// A claim may be refused by copies that are about to go.
    fn is_valid_step(&mut self, job: &Job, reply: &Reply) -> bool {
        let is_refused = matches!((job, reply), (Job(Operation::Claim(_), _), Reply::Number(0)));
        is_refused || self.invoke(job) == *reply
    }
}
