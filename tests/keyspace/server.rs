//! What a single server would do: the specification that histories are held against, and the programs that run on masters.

use redlock_proxy::decision::keyspace::slot::State;
use redlock_proxy::decision::keyspace::{Program, Seen};
use stateright::semantics::SequentialSpec;

/// What a client wants, or what happens to its lease by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    /// `SET key token NX PX`, by the fast path of leases.
    Claim(u8),
    /// Gives it back.
    Release(u8),
    /// Counts on, if there is something: `EXPIRE`, `SET XX`, ...
    Touch(u8),
    /// `INCR`.
    Increment(u8),
    /// `DEL`.
    Delete(u8),
    /// Counts both keys on.
    Both,
    /// Counts the second key on if there is a first.
    Guarded,
    /// What the key holds.
    Read(u8),
    /// The lease of this client under this key ends.
    End(u8, u8),
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

    pub(crate) fn of(state: &State<Job>, lease: Option<&Lease>) -> Self {
        lease.map_or(state.value, |lease| Self::Lease(lease.0))
    }
}

impl Job {
    /// What the keys hold afterwards, where something was written, and the reply.
    fn result(self, held: [Held; 2]) -> ([Option<Held>; 2], u8) {
        let mut written = [None; 2];
        let mut count = |key: u8| {
            let (after, number) = held[usize::from(key)].counted(self.1);
            written[usize::from(key)] = Some(after);
            number
        };
        let reply = match self.0 {
            Operation::Touch(key) if held[usize::from(key)].is_there() => count(key),
            Operation::Increment(key) => count(key),
            Operation::Both => count(0) * 10 + count(1),
            Operation::Guarded if held[0].is_there() => count(1),
            Operation::Delete(key) if held[usize::from(key)].is_there() => {
                written[usize::from(key)] = Some(Held::Nothing);
                1
            }
            Operation::Release(key) if held[usize::from(key)].owner() == self.1 => {
                written[usize::from(key)] = Some(Held::Nothing);
                1
            }
            _ => 0,
        };
        (written, reply)
    }
}

impl Program for Job {
    type Key = u8;
    type Value = Held;
    type Lease = Lease;
    type Reply = u8;

    fn keys(&self) -> Vec<u8> {
        match self.0 {
            Operation::Both | Operation::Guarded => vec![0, 1],
            Operation::Touch(key)
            | Operation::Increment(key)
            | Operation::Delete(key)
            | Operation::Release(key)
            | Operation::Claim(key)
            | Operation::Read(key)
            | Operation::End(key, _) => vec![key],
        }
    }

    fn run(&self, seen: &[Seen<'_, Self>]) -> (Vec<Option<Held>>, u8) {
        let mut held = [Held::Nothing; 2];
        for (key, seen) in self.keys().into_iter().zip(seen) {
            held[usize::from(key)] = match seen {
                Seen::Register(value) => **value,
                Seen::Lease(lease) => Held::Lease(lease.0),
            };
        }
        let (written, reply) = self.result(held);
        (self.keys().into_iter().map(|key| written[usize::from(key)]).collect(), reply)
    }

    fn is_present(value: &Held) -> bool {
        value.is_there()
    }
}

/// One server with two keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server(pub(crate) [Held; 2]);

impl SequentialSpec for Server {
    /// With the client.
    type Op = Job;
    type Ret = Reply;

    fn invoke(&mut self, job: &Job) -> Reply {
        let Job(operation, client) = *job;
        match operation {
            Operation::Read(key) => Reply::Held(self.0[usize::from(key)]),
            Operation::Claim(key) => {
                let is_free = !self.0[usize::from(key)].is_there();
                if is_free {
                    self.0[usize::from(key)] = Held::Lease(client);
                }
                Reply::Number(u8::from(is_free))
            }
            Operation::End(key, owner) => {
                if self.0[usize::from(key)] == Held::Lease(owner) {
                    self.0[usize::from(key)] = Held::Nothing;
                }
                Reply::Number(0)
            }
            _ => {
                let (written, reply) = job.result(self.0);
                for (held, written) in self.0.iter_mut().zip(written) {
                    *held = written.unwrap_or(*held);
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
