//! One client command on its way through the masters.
//!
//! An [`Operation`] joins a decision of [`crate::quorum`] with the bytes that masters need and the
//! reply the client gets. It does no I/O itself: the [`engine`] sends what it asks for, hands it the
//! masters' answers and delivers its reply.

pub mod aside;
pub mod change;
pub mod changes;
pub mod channels;
pub mod claim;
pub mod delete;
pub mod engine;
pub mod everywhere;
pub mod extend;
pub mod large;
pub mod leases;
pub mod listeners;
pub mod load;
pub mod measure;
pub mod program;
pub mod query;
pub mod read;
pub mod register;
pub mod release;
pub mod request;
pub mod rules;
mod shown;
pub mod swap;
pub mod verdict;
pub mod walk;
pub mod watch;
pub mod wish;

use std::sync::Arc;

use crate::client::outbox::Order;
use crate::client::reply::Reply;
use crate::clock::Instant;
use crate::decision::lease::attempt::{Attempt, Tag};
use crate::lua;
use crate::master::deferred::{Debt, Lease, Over};
use crate::master::reply::Answer;
use crate::metrics::Question;
use crate::operation::request::Form;
use crate::quorum::turn;
use crate::quorum::{MasterId, MasterSet};
pub use rules::Rules;

/// What an operation wants done next.
#[derive(Debug)]
pub struct Next {
    /// Masters on which this operation's effect is to be taken back, now.
    pub undo: MasterSet,
    /// What to do after that.
    pub then: Then,
}

/// See [`Next`].
#[derive(Debug)]
pub enum Then {
    /// Nothing, until the next answer or the deadline.
    Wait,
    /// Send the request of the next round to all voters.
    Ask,
    /// Send each of these masters a request of its own, in the same round.
    Tell(MasterSet),
    /// Wait a random time, then ask.
    Pause,
    /// Answer the client.
    Reply(Reply, turn::End),
}

impl Next {
    /// Nothing to do.
    pub const WAIT: Self = Self { undo: MasterSet::EMPTY, then: Then::Wait };

    /// Nothing to undo.
    pub fn then(then: Then) -> Self {
        Self { undo: MasterSet::EMPTY, then }
    }

    /// The client's reply, which says nothing about the claims of others.
    pub fn reply(reply: Reply) -> Self {
        Self::then(Then::Reply(reply, turn::End::Done))
    }
}

/// What a master said, read and as it came.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// What it is.
    pub answer: &'a Answer<'a>,
    /// Its bytes (RESP3).
    pub raw: &'a [u8],
}

/// An answer, and where and when it came from.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Who answered.
    pub master: MasterId,
    /// The round the answered request belongs to.
    pub round: u8,
    /// The answer, or `None` when the link was lost before there was one.
    pub answer: Option<&'a Answer<'a>>,
    /// The answer's bytes, none when there is no answer.
    pub raw: &'a [u8],
    /// When.
    pub now: Instant,
}

/// A client's own words for the outcomes: the usual ones, or those of its script. Operations are moved about, so they
/// are kept small.
#[derive(Debug)]
pub enum Answers<R: 'static> {
    /// Those of a command.
    Usual(&'static R),
    /// Those of a script.
    Own(Box<R>),
}

impl<R> std::ops::Deref for Answers<R> {
    type Target = R;

    fn deref(&self) -> &R {
        match self {
            Self::Usual(replies) => replies,
            Self::Own(replies) => replies,
        }
    }
}

/// Whom a round was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// All that can be reached: they have to know what happens.
    pub all: MasterSet,
    /// Those of them whose answers count.
    pub voters: MasterSet,
}

/// A lease that was given back, and the masters that may have missed it.
#[derive(Clone, Copy, Debug)]
pub struct Owed {
    /// The attempt that is over.
    pub attempt: Attempt,
    /// Masters to tell at once.
    pub now: MasterSet,
    /// Masters to tell once more when the lease's claim cannot reach them any more.
    pub later: MasterSet,
    /// When it is gone by itself.
    pub end: Instant,
}

/// A command that masters are asked about, with the key it is about.
#[derive(Debug)]
pub struct Operation {
    /// The database that the session has selected.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// What is done with it.
    pub kind: Kind,
}

/// The kinds of operations, one file each.
#[derive(Debug)]
pub enum Kind {
    /// Take a key that must not exist yet.
    Claim(claim::Claim),
    /// Give a key back by its token.
    Release(release::Release),
    /// Delete a key, whatever it holds.
    Delete(Box<delete::Delete>),
    /// Prolong a key by its token.
    Extend(extend::Extend),
    /// Change the expiry of a key.
    Change(change::Change),
    /// Read a key.
    Read(read::Read),
    /// Replace the value of a key.
    Swap(Box<swap::Swap>),
    /// Ask for, or do, something with a whole database.
    Everywhere(Box<everywhere::Everywhere>),
    /// Run a script, a transaction, or a command of a composite type.
    Program(Box<program::Program>),
    /// Read something of a composite type.
    Query(Box<query::Query>),
    /// Remember what a key holds.
    Watch(watch::Watch),
    /// See whether a script can be run.
    Load(load::Load),
    /// Ask how large something is.
    Measure(measure::Measure),
    /// Publish a message, or ask who listens.
    Channels(Box<channels::Channels>),
}

impl Operation {
    /// How this operation takes its turn on its key; `None` when it need not.
    pub fn turn(&self) -> Option<turn::Kind> {
        match &self.kind {
            Kind::Claim(claim) => claim.turn(),
            Kind::Swap(_) => Some(turn::Kind::Alone),
            _ => None,
        }
    }

    /// The keys whose turns it takes beside its own, one after the other, each alone.
    pub fn turns(&self) -> &[u64] {
        match &self.kind {
            Kind::Program(program) => program.turns(),
            Kind::Load(load) => load.turns(),
            _ => &[],
        }
    }

    /// The program that masters must have before they are asked.
    pub fn program(&self) -> Option<Arc<lua::program::Program>> {
        match &self.kind {
            Kind::Program(program) => Some(program.text()),
            _ => None,
        }
    }

    /// Masters that must not be asked now.
    pub fn excluded(&self) -> MasterSet {
        match &self.kind {
            Kind::Program(program) => program.excluded(),
            _ => MasterSet::EMPTY,
        }
    }

    /// What this operation may overtake within its session.
    pub fn order(&self) -> Order {
        match &self.kind {
            Kind::Query(query) if query.has_many_keys() => Order::Alone,
            Kind::Read(_) | Kind::Query(_) | Kind::Watch(_) | Kind::Measure(_) => Order::Read,
            Kind::Claim(claim) if claim.is_persistent() => Order::Rounds,
            Kind::Claim(_) | Kind::Everywhere(_) => Order::Plain,
            Kind::Channels(channels) if channels.is_publication() => Order::Announcing,
            Kind::Channels(_) => Order::Read,
            Kind::Release(_) | Kind::Delete(_) => Order::Closing,
            Kind::Extend(_) | Kind::Change(_) => Order::Closing,
            Kind::Swap(_) => Order::Rounds,
            Kind::Program(program) if program.has_one_key() => Order::Rounds,
            Kind::Program(_) | Kind::Load(_) => Order::Alone,
        }
    }

    /// What it asks of the masters, for those who count.
    pub fn question(&self) -> Question {
        match &self.kind {
            Kind::Claim(_) => Question::Claim,
            Kind::Release(_) | Kind::Delete(_) => Question::Release,
            Kind::Extend(_) | Kind::Change(_) => Question::Expiry,
            Kind::Swap(_) => Question::Swap,
            Kind::Program(_) | Kind::Load(_) => Question::Program,
            Kind::Channels(_) => Question::Message,
            Kind::Read(_) | Kind::Query(_) | Kind::Watch(_) => Question::Read,
            Kind::Everywhere(_) | Kind::Measure(_) => Question::Read,
        }
    }

    /// Whether the client's command is counted elsewhere.
    pub fn is_only_a_part(&self) -> bool {
        matches!(self.kind, Kind::Measure(_))
    }

    /// Whether it takes a quorum; otherwise any master will do.
    pub fn needs_quorum(&self) -> bool {
        !matches!(self.kind, Kind::Channels(_))
    }

    /// Whether it is only worth being done for a client that is still there when its turn comes.
    pub fn needs_its_client(&self) -> bool {
        matches!(self.kind, Kind::Claim(_))
    }

    /// Whether a master that could not take part has to be told again.
    pub fn must_arrive(&self) -> bool {
        matches!(self.kind, Kind::Delete(_))
    }

    /// Whether it may find its own earlier attempt and be content with it, so that an attempt must not
    /// be taken back once a later one is on its way.
    pub fn may_find_itself(&self) -> bool {
        matches!(self.kind, Kind::Program(_))
    }

    /// Whether a master that could not take part should still do what the others did.
    pub fn catches_up(&self) -> bool {
        matches!(self.kind, Kind::Program(_) | Kind::Change(_)) && self.has_changed()
    }

    /// Whether masters change nothing in this round: what comes after it may be sent before they have answered.
    pub fn only_looks_in(&self, round: u8) -> bool {
        match &self.kind {
            Kind::Load(_) => true,
            Kind::Program(program) => program.is_after(round),
            _ => false,
        }
    }

    /// Whether what masters did in the rounds before counts in the present one.
    pub fn builds_on_earlier_votes(&self) -> bool {
        matches!(self.kind, Kind::Release(_) | Kind::Delete(_))
    }

    /// What another claim answers that shares the result of this turn.
    pub fn shared(&self, reply: &Reply) -> Reply {
        match &self.kind {
            Kind::Claim(claim) => claim.shared(reply),
            _ => reply.clone(),
        }
    }

    /// The pause after a split vote is over; the next round starts with [`Operation::ask`].
    pub fn resume(&mut self) {
        if let Kind::Swap(swap) = &mut self.kind {
            swap.again();
        }
    }

    /// A round starts, sent to `asked`.
    pub fn ask(&mut self, rules: &Rules, asked: Asked, now: Instant) {
        let name = (self.db, &*self.key);
        let voters = asked.voters;
        match &mut self.kind {
            Kind::Claim(claim) => claim.ask(rules, asked, now),
            Kind::Release(release) => release.ask(rules, name, asked, now),
            Kind::Extend(extend) => extend.ask(rules, name, asked, now),
            Kind::Delete(delete) => delete.ask(rules, asked, now),
            Kind::Change(change) => change.ask(rules, voters, now),
            Kind::Read(read) => read.ask(rules, voters),
            Kind::Swap(swap) => swap.ask(rules, voters, now),
            Kind::Everywhere(everywhere) => everywhere.ask(voters),
            Kind::Program(program) => program.ask(rules, voters, now),
            Kind::Load(load) => load.ask(rules, voters),
            Kind::Query(query) => query.ask(rules, voters),
            Kind::Watch(watch) => watch.ask(rules, voters),
            Kind::Measure(measure) => measure.ask(voters),
            Kind::Channels(channels) => channels.ask(asked.all),
        }
    }

    /// How large what masters are asked is, if that may be far more than the request was.
    pub fn request_bytes(&self) -> usize {
        match &self.kind {
            Kind::Program(program) => program.request_bytes(),
            _ => 0,
        }
    }

    /// Whether a part of its reply is made in its session when the masters have answered.
    pub fn has_own_part(&self) -> bool {
        matches!(&self.kind, Kind::Program(program) if program.has_own_part())
    }

    /// The round that answers belong to now.
    pub fn round(&self) -> u8 {
        match &self.kind {
            Kind::Claim(claim) => claim.round(),
            Kind::Release(release) => release.round(),
            Kind::Delete(delete) => delete.round(),
            Kind::Extend(extend) => extend.round(),
            Kind::Change(change) => change.round(),
            Kind::Swap(swap) => swap.round(),
            Kind::Read(read) => read.round(),
            Kind::Program(program) => program.round(),
            Kind::Query(query) => query.round(),
            Kind::Watch(watch) => watch.round(),
            _ => 0,
        }
    }

    /// Appends the request of the current round.
    pub fn encode(&self, rules: &Rules, form: Form, out: &mut Vec<u8>) {
        let key = &self.key;
        match &self.kind {
            Kind::Claim(claim) => claim.encode(rules, key, form, out),
            Kind::Release(release) => release.encode(key, form, out),
            Kind::Delete(delete) => delete.encode(key, form, out),
            Kind::Extend(extend) => extend.encode(rules, key, form, out),
            Kind::Change(change) => change.encode(rules, key, form, out),
            Kind::Read(read) => read.encode(key, form, out),
            Kind::Swap(swap) => swap.encode(rules, key, form, out),
            Kind::Everywhere(everywhere) => everywhere.encode(form, out),
            Kind::Program(program) => program.encode(self.db, form, out),
            Kind::Load(load) => load.encode(form, out),
            Kind::Query(query) => query.encode(out),
            Kind::Watch(watch) => watch.encode(key, form, out),
            Kind::Measure(measure) => measure.encode(key, out),
            Kind::Channels(channels) => channels.encode(key, out),
        }
    }

    /// Appends what this master got last in the current round.
    pub fn encode_for(&self, master: MasterId, rules: &Rules, form: Form, out: &mut Vec<u8>) {
        match &self.kind {
            Kind::Release(release) => release.encode_for(master, &self.key, form, out),
            Kind::Delete(delete) => delete.encode_for(master, &self.key, form, out),
            Kind::Extend(extend) => extend.encode_for(master, rules, &self.key, form, out),
            _ => self.encode(rules, form, out),
        }
    }

    /// One master has answered, or will not.
    pub fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        match &mut self.kind {
            Kind::Claim(claim) => claim.received(rules, received),
            Kind::Release(release) => release.received(rules, received),
            Kind::Delete(delete) => delete.received(rules, received),
            Kind::Extend(extend) => extend.received(rules, received),
            Kind::Change(change) => change.received(rules, received),
            Kind::Read(read) => read.received(rules, received),
            Kind::Swap(swap) => swap.received(rules, received),
            Kind::Everywhere(everywhere) => everywhere.received(rules, received),
            Kind::Program(program) => program.received(rules, received),
            Kind::Query(query) => query.received(rules, received),
            Kind::Watch(watch) => watch.received(rules, received),
            Kind::Load(load) => {
                let loaded = load.received(rules, received);
                self.go_on(loaded)
            }
            Kind::Measure(measure) => measure.received(rules, received),
            Kind::Channels(channels) => channels.received(rules, received),
        }
    }

    /// The vote timeout of the current round has passed, or, with `is_last`, the patience. What waits for a quorum goes
    /// on waiting until then.
    pub fn deadline(&mut self, rules: &Rules, now: Instant, is_last: bool) -> Next {
        match &mut self.kind {
            Kind::Claim(claim) => claim.deadline(rules, now, is_last),
            Kind::Release(release) => release.deadline(rules, now),
            Kind::Delete(delete) => delete.deadline(rules, now),
            Kind::Extend(extend) => extend.deadline(rules, now),
            Kind::Change(change) => change.deadline(rules, now, is_last),
            Kind::Read(read) => read.deadline(rules, is_last),
            Kind::Swap(swap) => swap.deadline(rules, now, is_last),
            Kind::Everywhere(everywhere) => everywhere.deadline(rules, is_last),
            Kind::Program(program) => program.deadline(rules, is_last),
            Kind::Query(query) => query.deadline(rules, is_last),
            Kind::Watch(watch) => watch.deadline(rules, is_last),
            Kind::Measure(measure) => measure.deadline(rules, is_last),
            Kind::Channels(channels) => channels.deadline(rules, is_last),
            Kind::Load(load) => {
                let loaded = load.deadline(rules, is_last);
                self.go_on(loaded)
            }
        }
    }

    /// A lease was granted or prolonged, and its client cannot be told before others have their replies.
    pub fn untold(&mut self, rules: &Rules, now: Instant) -> Next {
        match &mut self.kind {
            Kind::Claim(claim) if !claim.is_persistent() => claim.untold(rules, now),
            Kind::Extend(extend) => extend.untold(rules, now),
            _ => Next::WAIT,
        }
    }

    /// A script that turned out to be one is run.
    fn go_on(&mut self, loaded: load::Loaded) -> Next {
        match loaded {
            load::Loaded::Next(next) => next,
            load::Loaded::Run(program) => {
                self.kind = Kind::Program(program);
                Next::then(Then::Ask)
            }
        }
    }

    /// Whether some master holds the key for somebody who need not exist any more.
    pub fn met_another(&self) -> bool {
        match &self.kind {
            Kind::Claim(claim) => claim.met_another(),
            Kind::Swap(swap) => swap.is_lost(),
            _ => false,
        }
    }

    /// What was changed, now that the reply is known: database and key.
    pub fn changed_keys(&self) -> Vec<(u32, Vec<u8>)> {
        match &self.kind {
            Kind::Program(program) => {
                let touched = program.touched_keys().iter().map(|key| (self.db, key.to_vec()));
                program.changed_keys().chain(touched).collect()
            }
            _ if self.has_changed() => vec![(self.db, self.key.to_vec())],
            _ => Vec::new(),
        }
    }

    /// Whether a quorum has changed something, and nothing of that will be taken back.
    pub fn has_changed(&self) -> bool {
        match &self.kind {
            Kind::Claim(claim) => claim.is_granted(),
            Kind::Release(release) => release.has_deleted(),
            Kind::Delete(delete) => delete.has_deleted(),
            Kind::Extend(extend) => extend.has_changed(),
            Kind::Change(change) => change.has_changed(),
            Kind::Swap(swap) => swap.has_swapped(),
            Kind::Program(program) => program.has_changed(),
            _ => false,
        }
    }

    /// What is to be published now that the reply is known.
    pub fn messages(&self) -> Vec<program::Message> {
        match &self.kind {
            Kind::Program(program) => program.messages(),
            _ => Vec::new(),
        }
    }

    /// The lease that a quorum holds now, if this has granted or prolonged one: its token and its tag.
    pub fn lease(&self) -> Option<(&[u8], Tag)> {
        match &self.kind {
            Kind::Claim(claim) => claim.lease(),
            Kind::Extend(extend) => extend.lease(),
            _ => None,
        }
    }

    /// What masters may have missed of a lease that was given back.
    pub fn owed(&self, rules: &Rules) -> Option<Owed> {
        match &self.kind {
            Kind::Release(release) => release.owed(rules),
            Kind::Delete(delete) => delete.owed(rules),
            Kind::Swap(swap) => swap.owed(rules),
            _ => None,
        }
    }

    /// Whether what it did is taken back by name, in any round and at any time; otherwise by what it has changed.
    pub fn is_taken_back_by_name(&self) -> bool {
        matches!(self.kind, Kind::Claim(_))
    }

    /// Appends the request that takes this operation's effect back on `master`.
    pub fn encode_undo(&self, master: MasterId, round: u8, form: Form, out: &mut Vec<u8>) {
        match &self.kind {
            Kind::Swap(swap) => swap.encode_undo(master, round, &self.key, form, out),
            Kind::Program(program) => program.encode_undo(master, form, out),
            _ => {}
        }
    }

    /// What to keep for a master that could not be told to take the effect of `round` back, if anything.
    pub fn debt(&self, rules: &Rules, master: MasterId, round: u8) -> Option<Debt> {
        let (value, end) = match &self.kind {
            Kind::Program(program) => return program.restore(rules, master).map(Debt::Restore),
            Kind::Claim(claim) => claim.value(rules, round)?,
            _ => return None,
        };
        let over = Over::Value(value.into());
        Some(Debt::Lease(Lease { db: self.db, key: self.key.clone(), over, end }))
    }

    /// No further round can be sent. Says where the rounds before have to be taken back.
    pub fn abandon(&mut self) -> MasterSet {
        match &mut self.kind {
            Kind::Claim(claim) => claim.abandon(),
            _ => MasterSet::EMPTY,
        }
    }

    /// Whether `master`, which was lost before it answered, may keep something that the client was told is not there.
    pub fn leaves_behind(&self) -> bool {
        matches!(&self.kind, Kind::Swap(swap) if swap.is_lost())
    }
}
