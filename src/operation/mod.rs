//! One client command on its way through the masters.
//!
//! An [`Operation`] joins a pure decision with the bytes that masters exchange and the reply of the client. It does no
//! I/O: the [engine](crate::engine) sends what it asks for, passes it the masters' answers, and delivers its reply.

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
pub mod value_range;
pub mod verbatim_read;
pub mod verdict;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::client::outbox::Order;
use crate::decision::lease::attempt::{Attempt, Tag};
use crate::decision::quorum::{MasterId, MasterSet, turn};
use crate::decision::register::ballot::Ballot;
use crate::lua;
use crate::metrics::Question;
use crate::operation::debts::{Debt, Lease, Over};
use crate::operation::on_register::{Instead, ScriptCall};
use crate::operation::request::Form;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;
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
    /// The same, once it is its turn on a key that it has come to as well ([`Operation::take_on`]).
    TakeOn,
    /// Send each of these masters a request of its own, in the same round.
    Tell(MasterSet),
    /// Wait a random time, then ask.
    Pause,
    /// The key is no lease: what the client has sent runs as a program, once it is its turn ([`Operation::go_on_as_program`]).
    Otherwise,
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

/// How a round gets to the masters.
#[derive(Debug)]
pub enum Sent {
    /// By itself.
    Alone,
    /// As a transaction: so many replies come before the one that counts.
    Parts(usize),
    /// Behind this program, which masters must have before they are asked.
    Program(Arc<lua::program::Program>),
    /// Perhaps as one call with others of the same program.
    Together(register::ask::Member),
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
    Own(Box<OfScript<R>>),
}

/// A script, and its words for the outcomes.
#[derive(Debug)]
pub struct OfScript<R> {
    /// The words.
    pub replies: R,
    /// The script, with its arguments.
    pub call: ScriptCall,
}

impl<R> Answers<R> {
    /// The script that the client has called; `None`: it was a command.
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

/// Whom a round was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// All that can be reached: they have to know what happens.
    pub all: MasterSet,
    /// Those of them whose answers count.
    pub voters: MasterSet,
    /// How long the client goes on to wait.
    pub patience: Duration,
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
    /// Read a key.
    Read(read::Read),
    /// Read several keys at one moment.
    Several(Box<multi_read::Several>),
    /// Count the keys of a database.
    Everywhere(Box<everywhere::Everywhere>),
    /// Empty a database, or all.
    Flush(Box<flush::Flush>),
    /// Run a script, a transaction, or a command of a composite type.
    Program(Box<program::Program>),
    /// Read something of a composite type.
    Query(Box<verbatim_read::Query>),
    /// Remember what a key holds.
    Watch(watch::Watch),
    /// Let a quorum agree on a key, and remember what it holds then.
    Settling(Box<(program::Program, watch::Watch)>),
    /// See whether a script can be run.
    Load(load::Load),
    /// Ask how large something is.
    Measure(memory_usage::Measure),
    /// Make all masters hold the same.
    Settle(Box<settle::Settle>),
    /// Publish a message, or ask who listens.
    Channels(Box<channels::Channels>),
}

impl Operation {
    /// How this operation takes its turn on its key; `None` when it need not.
    pub fn turn(&self) -> Option<turn::Kind> {
        match &self.kind {
            Kind::Claim(claim) => claim.turn(),
            _ => None,
        }
    }

    /// The keys whose turns it takes beside its own, one after the other, each alone.
    pub fn turns(&self) -> &[u64] {
        match &self.kind {
            Kind::Program(program) => program.turns(),
            Kind::Load(load) => load.turns(),
            Kind::Settle(settle) => settle.turns(),
            _ => &[],
        }
    }

    /// Keys that it has come to, among others: its script has, or one of them was changed along with them.
    pub fn come_to(&self) -> &[register::Place] {
        match &self.kind {
            Kind::Program(program) => program.looked_at(),
            _ => &[],
        }
    }

    /// The keys of a program that waits before it is sent, as masters may still say that they hold what it is to run on.
    pub fn waits_for_holders(&mut self, rules: &Rules) -> Option<&[register::Place]> {
        match &mut self.kind {
            Kind::Program(program) => program.waits_for_holders(rules, self.db),
            _ => None,
        }
    }

    /// Whether it waits for masters that no quorum needs.
    pub fn needs_all(&self) -> bool {
        matches!(&self.kind, Kind::Program(program) if program.needs_all())
    }

    /// Adds to the keys whose turns it takes. It has none of them now, and begins its round anew once it has.
    pub fn take_on(&mut self, keys: Vec<u64>) {
        if let Kind::Program(program) = &mut self.kind {
            program.take_on(keys);
        }
    }

    /// How its round is sent.
    pub fn sent(&self) -> Sent {
        let program = match &self.kind {
            Kind::Program(program) => match program.member() {
                Some(member) => return Sent::Together(member),
                None => program.text(),
            },
            Kind::Settling(settling) => settling.0.text(),
            _ => None,
        };
        match (program, self.parts()) {
            (Some(program), _) => Sent::Program(program),
            (None, 0) => Sent::Alone,
            (None, parts) => Sent::Parts(parts),
        }
    }

    /// What this operation may overtake within its session.
    pub fn order(&self) -> Order {
        match &self.kind {
            Kind::Query(query) if query.has_many_keys() => Order::Alone,
            Kind::Several(_) => Order::Alone,
            Kind::Read(_) | Kind::Query(_) | Kind::Watch(_) | Kind::Measure(_) => Order::Read,
            Kind::Settling(_) => Order::Read,
            Kind::Claim(_) | Kind::Everywhere(_) => Order::Plain,
            Kind::Channels(channels) if channels.is_publication() => Order::Announcing,
            Kind::Channels(_) => Order::Read,
            Kind::Release(_) | Kind::Delete(_) => Order::Closing,
            Kind::Extend(_) => Order::Closing,
            Kind::Program(program) if program.has_one_key() => Order::Rounds,
            Kind::Program(_) | Kind::Load(_) | Kind::Settle(_) | Kind::Flush(_) => Order::Alone,
        }
    }

    /// What it asks of the masters, for those who count.
    pub fn question(&self) -> Question {
        match &self.kind {
            Kind::Claim(_) => Question::Claim,
            Kind::Release(_) | Kind::Delete(_) => Question::Release,
            Kind::Extend(_) => Question::Expiry,
            Kind::Program(_) | Kind::Load(_) | Kind::Flush(_) => Question::Program,
            Kind::Channels(_) => Question::Message,
            Kind::Read(_) | Kind::Query(_) | Kind::Watch(_) | Kind::Settling(_) => Question::Read,
            Kind::Everywhere(_) | Kind::Measure(_) | Kind::Settle(_) => Question::Read,
            Kind::Several(_) => Question::Read,
        }
    }

    /// Whether the client's command is counted elsewhere.
    pub fn is_only_a_part(&self) -> bool {
        matches!(self.kind, Kind::Measure(_) | Kind::Settle(_))
    }

    /// Whether it takes a quorum; otherwise any master will do.
    pub fn needs_quorum(&self) -> bool {
        !matches!(self.kind, Kind::Channels(_))
    }

    /// Whether it is only worth being done for a client that is still there when its turn comes.
    pub fn needs_its_client(&self) -> bool {
        matches!(self.kind, Kind::Claim(_))
    }

    /// Whether a master that could not take part has to be told again, whatever was sent to it since. A deletion names the
    /// attempt, and without a name it leaves alone what has a tag or a stamp.
    pub fn must_arrive(&self) -> bool {
        matches!(self.kind, Kind::Delete(_))
    }

    /// Whether masters change nothing: what comes after it may be sent before they have answered.
    pub fn only_looks(&self) -> bool {
        matches!(self.kind, Kind::Load(_))
    }

    /// Whether masters give or take a lease, and do not look at which flush they do that after.
    pub fn is_about_a_lease(&self) -> bool {
        matches!(self.kind, Kind::Claim(_) | Kind::Release(_) | Kind::Delete(_) | Kind::Extend(_))
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

    /// A round starts, sent to `asked`.
    pub fn ask(&mut self, rules: &Rules, asked: Asked, now: Instant) {
        let name = (self.db, &*self.key);
        let voters = asked.voters;
        match &mut self.kind {
            Kind::Claim(claim) => claim.ask(rules, asked, now),
            Kind::Release(release) => release.ask(rules, name, asked, now),
            Kind::Extend(extend) => extend.ask(rules, name, asked, now),
            Kind::Delete(delete) => delete.ask(rules, asked, now),
            Kind::Read(read) => read.ask(rules, voters),
            Kind::Several(several) => several.ask(rules, voters),
            Kind::Everywhere(everywhere) => everywhere.ask(voters),
            Kind::Flush(flush) => flush.ask(rules, voters),
            Kind::Program(program) => program.ask(rules, self.db, asked),
            Kind::Settling(settling) => settling.0.ask(rules, self.db, asked),
            Kind::Load(load) => load.ask(rules, voters),
            Kind::Query(query) => query.ask(rules, voters),
            Kind::Watch(watch) => watch.ask(rules, voters),
            Kind::Measure(measure) => measure.ask(voters),
            Kind::Settle(settle) => settle.ask(rules, voters),
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

    /// How many replies of a master come before the one that counts: those of the commands in a transaction.
    fn parts(&self) -> usize {
        match &self.kind {
            Kind::Read(read) => read.parts(),
            Kind::Several(several) => several.parts(),
            Kind::Query(query) => query.parts(),
            Kind::Watch(watch) => watch.parts(),
            _ => 0,
        }
    }

    /// The round that answers belong to now.
    pub fn round(&self) -> u8 {
        match &self.kind {
            Kind::Claim(claim) => claim.round(),
            Kind::Release(release) => release.round(),
            Kind::Delete(delete) => delete.round(),
            Kind::Extend(extend) => extend.round(),
            Kind::Read(read) => read.round(),
            Kind::Several(several) => several.round(),
            Kind::Program(program) => program.round(),
            Kind::Settling(settling) => settling.0.round(),
            Kind::Settle(settle) => settle.round(),
            Kind::Flush(flush) => flush.round(),
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
            Kind::Read(read) => read.encode(key, out),
            Kind::Several(several) => several.encode(out),
            Kind::Everywhere(everywhere) => everywhere.encode(form, out),
            Kind::Flush(flush) => flush.encode(self.db, form, out),
            Kind::Program(program) => program.encode(form, out),
            Kind::Settling(settling) => settling.0.encode(form, out),
            Kind::Load(load) => load.encode(form, out),
            Kind::Query(query) => query.encode(key, out),
            Kind::Watch(watch) => watch.encode(key, out),
            Kind::Measure(measure) => measure.encode(key, out),
            Kind::Settle(settle) => settle.encode(form, out),
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
            Kind::Read(read) => {
                let looked = read.received(rules, &self.key, received);
                self.look_on(looked)
            }
            Kind::Several(several) => {
                let looked = several.received(rules, received);
                self.look_on(looked)
            }
            Kind::Everywhere(everywhere) => everywhere.received(rules, received),
            Kind::Flush(flush) => flush.received(rules, received),
            Kind::Program(program) => program.received(rules, received),
            Kind::Query(query) => {
                let looked = query.received(rules, &self.key, received);
                self.look_on(looked)
            }
            Kind::Watch(watch) => {
                let looked = watch.received(rules, received);
                self.watch_on(looked)
            }
            Kind::Settling(settling) => {
                let next = settling.0.received(rules, received);
                self.watch_again(next)
            }
            Kind::Load(load) => {
                let loaded = load.received(rules, received);
                self.go_on(loaded)
            }
            Kind::Measure(measure) => measure.received(rules, received),
            Kind::Settle(settle) => settle.received(rules, received),
            Kind::Channels(channels) => channels.received(rules, received),
        }
    }

    /// The vote timeout of the current round has passed, or, with `is_last`, the patience. What waits for a quorum goes
    /// on waiting until then.
    pub fn deadline(&mut self, rules: &Rules, now: Instant, is_last: bool) -> Next {
        match &mut self.kind {
            Kind::Claim(claim) => claim.deadline(rules, now),
            Kind::Release(release) => release.deadline(rules, now),
            Kind::Delete(delete) => delete.deadline(rules, now),
            Kind::Extend(extend) => extend.deadline(rules, now),
            Kind::Read(read) => {
                let looked = read.deadline(rules, &self.key, is_last);
                self.look_on(looked)
            }
            Kind::Several(several) => {
                let looked = several.deadline(rules, is_last);
                self.look_on(looked)
            }
            Kind::Everywhere(everywhere) => everywhere.deadline(rules, is_last),
            Kind::Flush(flush) => flush.deadline(rules, is_last),
            Kind::Program(program) => program.deadline(rules, is_last),
            Kind::Query(query) => {
                let looked = query.deadline(rules, &self.key, is_last);
                self.look_on(looked)
            }
            Kind::Watch(watch) => {
                let looked = watch.deadline(rules, is_last);
                self.watch_on(looked)
            }
            Kind::Settling(settling) => {
                let next = settling.0.deadline(rules, is_last);
                self.watch_again(next)
            }
            Kind::Measure(measure) => measure.deadline(rules, is_last),
            Kind::Settle(settle) => settle.deadline(rules, is_last),
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
            Kind::Claim(claim) => claim.untold(rules, now),
            Kind::Extend(extend) => extend.untold(rules, now),
            _ => Next::WAIT,
        }
    }

    /// A read that takes more than to look goes on as a program.
    fn look_on(&mut self, looked: read::Looked) -> Next {
        match looked {
            read::Looked::Next(next) => next,
            read::Looked::Settle(program) => {
                self.kind = Kind::Program(program);
                Next::then(Then::Ask)
            }
        }
    }

    /// Who watches what is not decided lets masters agree on it first.
    fn watch_on(&mut self, looked: watch::Looked) -> Next {
        let program = match looked {
            watch::Looked::Next(next) => return next,
            watch::Looked::Settle(program) => program,
        };
        let nothing = Kind::Measure(memory_usage::Measure::default());
        if let Kind::Watch(watch) = std::mem::replace(&mut self.kind, nothing) {
            self.kind = Kind::Settling(Box::new((*program, watch)));
        }
        Next::then(Then::Ask)
    }

    /// They have agreed, or could not.
    fn watch_again(&mut self, next: Next) -> Next {
        if !matches!(&next.then, Then::Reply(reply, _) if !matches!(reply, Reply::Error(_))) {
            return next;
        }
        let nothing = Kind::Measure(memory_usage::Measure::default());
        if let Kind::Settling(settling) = std::mem::replace(&mut self.kind, nothing) {
            self.kind = Kind::Watch(settling.1.again());
        }
        Next::then(Then::Ask)
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

    /// The key, whose fingerprint is `turn`, is no lease: from now on this is a program on registers.
    pub fn go_on_as_program(&mut self, rules: &Rules, turn: u64) {
        let instead = match &self.kind {
            Kind::Claim(claim) => Some(claim.instead()),
            Kind::Release(release) => Some(release.instead()),
            Kind::Extend(extend) => extend.instead(),
            Kind::Delete(_) => Some(Instead::Delete),
            _ => None,
        };
        let Some(instead) = instead else { return };
        let program = rules.texts.program(&instead, (self.db, &self.key), turn);
        let is_begun = matches!(&self.kind, Kind::Release(release) if release.has_begun());
        self.kind = Kind::Program(Box::new(program.after(self.round()).begun(is_begun)));
    }

    /// What was changed, now that the reply is known: database and key.
    pub fn changed_keys(&self) -> Vec<(u32, Vec<u8>)> {
        match &self.kind {
            Kind::Program(program) => program.changed_keys().collect(),
            _ if self.has_changed() => vec![(self.db, self.key.to_vec())],
            _ => Vec::new(),
        }
    }

    /// Registers of which some masters may not hold what the others do, and those masters, once nothing of it is on its way.
    pub fn behind(&self) -> Option<(Vec<register::Place>, MasterSet)> {
        match &self.kind {
            Kind::Program(program) => program.behind(),
            _ => None,
        }
    }

    /// What all masters hold now, if their stamps are long: keys, and the ballots that it was accepted under.
    pub fn decided(&self) -> Option<Vec<(register::Place, Ballot)>> {
        match &self.kind {
            Kind::Program(program) => program.decided(),
            _ => None,
        }
    }

    /// What a client is told instead of this error, by what is known of the operation.
    pub fn as_known(&self, reply: Reply) -> Reply {
        match &self.kind {
            Kind::Program(program) => program.as_known(reply),
            _ => reply,
        }
    }

    /// Ends a program that goes on as it came to a key that it has not declared. Returns the reply.
    pub fn give_up_widening(&mut self) -> Option<Reply> {
        match &mut self.kind {
            Kind::Program(program) => program.give_up_widening(),
            _ => None,
        }
    }

    /// Whether it is refused for the number of its keys.
    pub fn has_too_many_keys(&self) -> bool {
        match &self.kind {
            Kind::Program(program) => program.has_too_many_keys(),
            Kind::Load(load) => load.has_too_many_keys(),
            _ => false,
        }
    }

    /// What masters have answered differently although they held the same.
    pub fn differing(&self) -> Option<(Arc<lua::program::Program>, Vec<register::Place>)> {
        match &self.kind {
            Kind::Program(program) => program.differing(),
            _ => None,
        }
    }

    /// Whether a quorum has changed something, and nothing of that will be taken back.
    pub fn has_changed(&self) -> bool {
        match &self.kind {
            Kind::Claim(claim) => claim.is_granted(),
            Kind::Release(release) => release.has_deleted(),
            Kind::Delete(delete) => delete.has_deleted(),
            Kind::Extend(extend) => extend.has_changed(),
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
            Kind::Program(program) => program.owed(rules, (self.db, &self.key)),
            _ => None,
        }
    }

    /// What to keep for a master that could not be told to take the effect of `round` back, if anything.
    pub fn debt(&self, rules: &Rules, round: u8) -> Option<Debt> {
        let (value, end) = match &self.kind {
            Kind::Claim(claim) => claim.value(rules, round)?,
            _ => return None,
        };
        let over = Over::Value(value.into());
        Some(Debt::Lease(Lease { db: self.db, key: self.key.clone(), over, end }))
    }
}
