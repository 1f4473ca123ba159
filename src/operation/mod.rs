//! Operations: one client command on its way through the masters.
//!
//! An [`Operation`] joins a pure decision with the bytes exchanged with masters and the client's reply. It does no I/O:
//! the [engine](crate::engine) sends its requests, passes it the masters' answers, and delivers its reply.

pub mod behaviour;
pub mod changed_keys;
pub mod channels;
pub mod claim;
pub mod debts;
pub mod delete;
pub mod envelope;
pub mod everywhere;
pub mod extend;
pub mod flush;
pub mod lease_looks;
pub mod leases;
pub mod load;
pub mod lock_request;
pub mod memory_usage;
pub mod multi_read;
pub mod on_register;
pub mod program;
pub mod read;
pub mod register;
pub mod release;
pub mod request;
pub mod rules;
pub mod settle;
pub mod settled_read;
mod streams;
mod told;
pub mod value_range;
pub mod verbatim_read;
pub mod verdict;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::decision::lease::attempt::Attempt;
use crate::decision::quorum::{MasterId, MasterSet, turn};
use crate::lua;
use crate::lua::program::Tells;
use crate::operation::debts::{Debt, OverLease, OwedLease};
use crate::operation::on_register::ScriptCall;
use crate::operation::program::Message;
use crate::operation::request::Form;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;
pub use behaviour::{Behaviour, Kind, On};
pub use rules::Rules;

/// The next step of an operation.
#[derive(Debug)]
pub struct Next {
    /// Masters on which to take back this operation's effect, now.
    pub undo: MasterSet,
    /// The step after that.
    pub then: Then,
}

/// See [`Next`].
#[derive(Debug)]
pub enum Then {
    /// Wait for the next answer or the deadline.
    Wait,
    /// Send the request of the next round to all voters.
    Ask,
    /// Like [`Ask`](Self::Ask), once the operation also has its turn on a key found along the way
    /// ([`Behaviour::take_on`]).
    TakeOn,
    /// Send each of these masters its own request, in the same round.
    Tell(MasterSet),
    /// Wait a random time, then [`Ask`](Self::Ask).
    Pause,
    /// The key is no lease: run the client's request as a program, once it has its turn
    /// ([`Operation::go_on_as_program`]).
    Otherwise,
    /// Continue as another kind of operation, and ask.
    Become(Box<Kind>),
    /// Send the client its reply.
    Reply(Reply, turn::End),
}

impl Next {
    /// Waits, with nothing to undo.
    pub const WAIT: Self = Self { undo: MasterSet::EMPTY, then: Then::Wait };

    /// Takes this step, with nothing to undo.
    pub fn then(then: Then) -> Self {
        Self { undo: MasterSet::EMPTY, then }
    }

    /// Continues as another kind of operation.
    pub fn go_on_as(kind: Kind) -> Self {
        Self::then(Then::Become(Box::new(kind)))
    }

    /// Sends the client a reply that says nothing about the claims of others.
    pub fn reply(reply: Reply) -> Self {
        Self::then(Then::Reply(reply, turn::End::Done))
    }
}

/// A master's answer, parsed and raw.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// The parsed answer.
    pub answer: &'a Answer<'a>,
    /// Its raw bytes (RESP3).
    pub raw: &'a [u8],
}

/// The form in which a round's request is sent to the masters.
#[derive(Debug)]
pub enum Sent {
    /// On its own.
    Alone,
    /// As a transaction: this number of replies precede the one that counts.
    Parts(usize),
    /// After this program, which masters must have before they receive the request.
    Program(Arc<lua::program::ProgramText>),
    /// Possibly in one call with others of the same program.
    Together(register::ask::PackMember),
}

/// An answer, with its origin and arrival time.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The master that answered.
    pub master: MasterId,
    /// The round of the answered request.
    pub round: u8,
    /// The answer, or `None` if the link was lost before one arrived.
    pub answer: Option<&'a Answer<'a>>,
    /// The answer's raw bytes; empty if there is no answer.
    pub raw: &'a [u8],
    /// Arrival time.
    pub now: Instant,
}

/// Replies for the outcomes: the usual ones, or those of the client's script. Kept small, as operations are moved
/// around.
#[derive(Debug)]
pub enum Answers<R: 'static> {
    /// Replies of a command.
    Usual(&'static R),
    /// Replies of a script.
    Own(Box<OfScript<R>>),
}

/// A script and its replies for the outcomes.
#[derive(Debug)]
pub struct OfScript<R> {
    /// The replies.
    pub replies: R,
    /// The script, with its arguments.
    pub call: ScriptCall,
}

impl<R> Answers<R> {
    /// Returns the script that the client called, or `None` if it sent a command.
    fn script(&self) -> Option<&ScriptCall> {
        match self {
            Self::Usual(_) => None,
            Self::Own(of_script) => Some(&of_script.call),
        }
    }
}

impl<R> std::ops::Deref for Answers<R> {
    type Target = R;

    fn deref(&self) -> &R {
        match self {
            Self::Usual(replies) => replies,
            Self::Own(of_script) => &of_script.replies,
        }
    }
}

/// Recipients of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// All reachable masters: each must learn of the change.
    pub all: MasterSet,
    /// Those whose answers count.
    pub voters: MasterSet,
    /// Remaining time that the client waits.
    pub patience: Duration,
}

impl Asked {
    /// Whether members have yet to vote: they are down, or being copied to.
    pub(crate) fn may_grow(&self, rules: &Rules) -> bool {
        !rules.quorum.everybody().without(self.voters).is_empty()
    }
}

#[cfg(test)]
impl Asked {
    /// Returns a round to the first `masters` masters, all of which vote.
    pub(crate) fn for_tests(masters: usize) -> Self {
        let all = MasterSet::first(masters);
        Self { all, voters: all, patience: Duration::from_secs(2) }
    }
}

/// A lease that was given back, and the masters that may have missed it.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// The attempt that is over.
    pub attempt: Attempt,
    /// Masters to inform at once.
    pub now: MasterSet,
    /// Masters to inform again when the lease's claim can no longer reach them.
    pub later: MasterSet,
    /// When the lease expires by itself.
    pub end: Instant,
}

/// A command that is sent to masters, with its key.
#[derive(Debug)]
pub struct Operation {
    /// The database selected by the session.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// The action on the key.
    pub kind: Kind,
}

// It is moved from layer to layer: compilers copy up to this size without a call.
const _: () = assert!(size_of::<Operation>() <= 128);

impl Operation {
    fn on<'a>(&'a self, rules: &'a Rules) -> On<'a> {
        On { rules, db: self.db, key: &self.key }
    }

    /// Returns the operation's kind, and its key.
    fn split<'a>(&'a mut self, rules: &'a Rules) -> (&'a mut Kind, On<'a>) {
        (&mut self.kind, On { rules, db: self.db, key: &self.key })
    }

    /// Begins a round that is sent to `asked`.
    pub fn ask(&mut self, rules: &Rules, asked: Asked, now: Instant) {
        let (kind, on) = self.split(rules);
        kind.ask(on, asked, now);
    }

    /// Appends the request of the current round.
    pub fn encode(&self, rules: &Rules, form: Form, out: &mut Vec<u8>) {
        self.kind.encode(self.on(rules), form, out);
    }

    /// Appends the request that this master received last in the current round.
    pub fn encode_for(&self, master: MasterId, rules: &Rules, form: Form, out: &mut Vec<u8>) {
        self.kind.encode_for(master, self.on(rules), form, out);
    }

    /// Processes the answer of one master, or the loss of its link.
    pub fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let (kind, on) = self.split(rules);
        kind.received(on, received)
    }

    /// Processes the end of the current round's vote timeout or, with `is_last`, of the client's patience.
    pub fn deadline(&mut self, rules: &Rules, now: Instant, is_last: bool) -> Next {
        let (kind, on) = self.split(rules);
        kind.deadline(on, now, is_last)
    }

    /// Notes that a lease was granted or prolonged, but that its client must get its reply after others have theirs.
    pub fn untold(&mut self, rules: &Rules, now: Instant) -> Next {
        let (kind, on) = self.split(rules);
        kind.untold(on, now)
    }

    /// Returns the keys of a program that waits before it is sent: see [`Behaviour::waits_for_holders`].
    pub fn waits_for_holders(&mut self, rules: &Rules) -> Option<&[register::Place]> {
        let Self { db, key, kind } = self;
        kind.waits_for_holders(On { rules, db: *db, key })
    }

    /// Continues as a program on registers: the key, whose fingerprint is `turn`, is no lease.
    pub fn go_on_as_program(&mut self, rules: &Rules, turn: u64) {
        let Some(instead) = self.kind.instead() else { return };
        let program = rules.texts.program(&instead, (self.db, &self.key), turn);
        let program = program.after(self.kind.round()).begun(self.kind.has_begun());
        self.kind = Kind::Program(Box::new(program));
    }

    /// Returns the changed keys with their databases, now that the reply is known.
    pub fn changed_keys(&self, rules: &Rules) -> Vec<(u32, Vec<u8>)> {
        self.kind.changed_keys(self.on(rules))
    }

    /// Returns what onlookers are told, now that the client gets `reply`.
    pub fn told(&self, rules: &Rules, reply: &Reply, tells: Tells) -> Vec<Message> {
        self.kind.told(self.on(rules), reply, tells)
    }

    /// Returns the part of a given-back lease that masters may have missed.
    pub fn owed(&self, rules: &Rules) -> Option<Owed> {
        self.kind.owed(self.on(rules))
    }

    /// Returns the debt to keep for a master that did not receive the take-back of `round`, if there is one.
    pub fn debt(&self, rules: &Rules, round: u8) -> Option<Debt> {
        let (value, end) = self.kind.value(rules, round)?;
        let over = OverLease::Value(value.into());
        Some(Debt::Lease(OwedLease { db: self.db, key: self.key.clone(), over, end }))
    }
}
