//! Running a script, a transaction, or one command of a type that only scripts know: on all masters,
//! each of which says what it answers and what has changed.

mod ballot;
mod envelope;
mod times;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use crate::client::reply::{Done, Reply};
use crate::clock::Instant;
use crate::command::number::parse_i64;
use crate::lua::Script;
use crate::lua::program::Program as Text;
use crate::master::deferred::Restore;
use crate::master::reply::Answer;
use crate::operation::request::{self, Form};
use crate::operation::verdict::{Others, Trouble};
use crate::operation::{Next, Received, Rules, Then};
use crate::quorum::program::{self as decision, Did, Step};
use crate::quorum::{MasterId, MasterSet, turn};
use crate::resp3;
pub(crate) use ballot::Ballot;
use ballot::conservative;
pub use envelope::{Change, Message};
use envelope::{Effect, Envelope};
pub(crate) use times::Times;

/// What masters are asked to run.
#[derive(Clone, Debug)]
pub struct Call {
    /// The text.
    pub text: Arc<Text>,
    /// Who runs it on masters that do not keep it.
    pub runner: Option<Arc<Text>>,
    /// Whether it must not change anything (`EVAL_RO`).
    pub read_only: bool,
    /// The number of keys, the keys and the arguments, encoded.
    pub words: Vec<u8>,
    /// How many words that is.
    pub count: usize,
    /// Fingerprints of the keys, for their turns.
    pub keys: Vec<u64>,
}

/// How the reply gets to the client.
#[derive(Debug)]
pub enum Shape {
    /// As the script gave it.
    Script,
    /// Of the only command in a transaction.
    Command(Rendering),
    /// Of a `MULTI`.
    Transaction(Executing),
}

/// What is made of the reply to one command: some cannot be run by a script under their own name, and
/// Lua knows only one null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rendering {
    /// Nothing.
    AsIs,
    /// Its null is that of an array.
    NullArray,
    /// `LMPOP` ran for `BLPOP`: `[key, [element]]` becomes `[key, element]`.
    ListPop,
    /// `ZMPOP` ran for `BZPOPMIN`: `[key, [[member, score]]]` becomes `[key, member, score]`.
    ScorePop,
}

/// Keys that count as changed whenever a command has done something, also if it has left them as they were
/// (`signalModifiedKey` in Redis).
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// They.
    pub keys: Rc<[Box<[u8]>]>,
    /// 0 as its answer says that it has done nothing.
    pub unless_zero: bool,
}

/// The commands of a `MULTI`.
#[derive(Debug)]
pub struct Executing {
    /// With their places in the table.
    pub queued: Vec<(u16, Queued)>,
    /// Where it leaves the database that it has selected.
    pub chosen_db: Rc<Cell<Option<u32>>>,
    /// Some are [`Queued::Own`].
    pub has_own: bool,
    /// What replies take that are known, and requests that are answered here.
    pub held: usize,
}

/// One of the replies of an `EXEC`.
#[derive(Debug)]
pub enum Queued {
    /// The next of the masters' answers.
    Asked(Rendering),
    /// The next of the masters' answers, to this script, which clients may call by its SHA1 from then on.
    Script(Arc<Script>),
    /// The next of the masters' answers, after which this database is the selected one.
    Select(u32),
    /// Known already.
    Known(Reply),
    /// The proxy answers this request itself, but not before the masters have answered the others.
    Own(Box<[u8]>),
}

/// A program.
#[derive(Debug)]
pub struct Program {
    call: Call,
    shape: Shape,
    touched: Touched,
    first_round: u8,
    decision: Option<decision::Program<Ballot>>,
    /// The wall clock of the current round, which is the time on all masters.
    micros: i64,
    /// The remaining times that they are to hand out in the current round: those of the round before.
    agreed: Times,
    /// The next round does not wait until the one before has been taken back.
    at_once: bool,
    /// When each round ends, by its number after `first_round`.
    deadlines: Vec<Instant>,
    /// Answers of the current round.
    answers: Vec<(MasterId, Envelope)>,
    /// What has changed where, the latest last.
    effects: Vec<(MasterId, Effect)>,
    /// Masters that were lost before they answered.
    lost: MasterSet,
    /// The client does not wait any longer.
    is_out_of_patience: bool,
    trouble: Trouble,
}

impl Program {
    /// A program that nobody was asked about yet.
    pub fn new(mut call: Call, shape: Shape) -> Self {
        call.keys.sort_unstable();
        call.keys.dedup();
        Self {
            call,
            shape,
            touched: Touched::default(),
            first_round: 0,
            decision: None,
            micros: 0,
            agreed: Times::default(),
            at_once: false,
            deadlines: Vec::new(),
            answers: Vec::new(),
            effects: Vec::new(),
            lost: MasterSet::EMPTY,
            is_out_of_patience: false,
            trouble: Trouble::default(),
        }
    }

    /// The same, of a command that writes to these.
    pub fn touching(self, touched: Touched) -> Self {
        Self { touched, ..self }
    }

    /// The same, after `rounds` in which something else was asked.
    pub(super) fn after(self, rounds: u8) -> Self {
        Self { first_round: rounds, ..self }
    }

    /// Whether `round` is one of those in which something else was asked.
    pub(super) fn is_after(&self, round: u8) -> bool {
        round < self.first_round
    }

    /// How large its arguments are: those of a transaction are all that was queued.
    pub(super) fn request_bytes(&self) -> usize {
        let handed = self.call.runner.iter().map(|_| self.call.text.code().len());
        let queued = match &self.shape {
            Shape::Transaction(executing) => executing.held,
            _ => 0,
        };
        self.call.words.len() + handed.sum::<usize>() + queued
    }

    /// Whether a part of the reply is made here when the masters have answered.
    pub(super) fn has_own_part(&self) -> bool {
        matches!(&self.shape, Shape::Transaction(executing) if executing.has_own)
    }

    /// What masters must know by its SHA1.
    pub(super) fn text(&self) -> Arc<Text> {
        Arc::clone(self.call.runner.as_ref().unwrap_or(&self.call.text))
    }

    /// The keys whose turns it takes: two programs of one worker do not run into each other.
    pub(super) fn turns(&self) -> &[u64] {
        &self.call.keys
    }

    /// Whether it stands in one line with all else that uses its key. A transaction may select another
    /// database for what comes after it.
    pub(super) fn has_one_key(&self) -> bool {
        self.call.keys.len() == 1 && !matches!(self.shape, Shape::Transaction(..))
    }

    /// Those that were lost in an earlier round are not asked again: nobody knows what they did.
    pub(super) fn excluded(&self) -> MasterSet {
        self.lost
    }

    pub(super) fn round(&self) -> u8 {
        let round = self.decision.as_ref().map_or(0, decision::Program::round);
        self.first_round.wrapping_add(round)
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet, now: Instant) {
        self.deadlines.push(now + rules.vote_timeout);
        let new = || decision::Program::new(rules.quorum, rules.split_vote_retries);
        self.decision.get_or_insert_with(new).ask(asked);
        self.micros = rules.unix_time.micros();
        self.call.text.runs();
        self.answers.clear();
    }

    pub(super) fn encode(&self, db: u32, form: Form, out: &mut Vec<u8>) {
        let verb: &[u8] = match (form, self.call.read_only) {
            (Form::Sha, false) => b"EVALSHA",
            (Form::Sha, true) => b"EVALSHA_RO",
            (Form::Text, false) => b"EVAL",
            (Form::Text, true) => b"EVAL_RO",
        };
        let called = self.text();
        let text = match form {
            Form::Sha => called.sha.as_bytes(),
            Form::Text => &called.text,
        };
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let is_read_only = self.call.read_only || self.call.text.is_read_only();
        let mode = if is_read_only { "ro" } else { "rw" };
        let agreed = self.agreed.pairs();
        let own =
            [agreed.len().to_string(), seconds.to_string(), micros.to_string(), db.to_string()];
        let handed = self.call.runner.iter().map(|_| self.call.text.code());
        request::header(out, 2 + self.call.count + 2 * agreed.len() + own.len() + 1 + handed.len());
        request::word(out, verb);
        request::word(out, text);
        out.extend_from_slice(&self.call.words);
        for (key, ms) in agreed {
            request::word(out, key);
            request::word(out, ms.to_string().as_bytes());
        }
        own.iter().for_each(|word| request::word(out, word.as_bytes()));
        request::word(out, mode.as_bytes());
        handed.for_each(|code| request::word(out, code));
    }

    /// One master has answered, or will not.
    ///
    /// What sets an end is only granted while the pad covers it that the client has its answer. What comes after the
    /// vote timeout and an error is neither counted nor taken back: the client was told that it is not known, may have
    /// asked again, here or through another proxy, and have been given what it found of its own.
    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let Received { master, answer, raw, .. } = received;
        let round = received.round.wrapping_sub(self.first_round);
        let Some(deadline) = self.deadlines.get(usize::from(round)) else { return Next::WAIT };
        let Some(decision) = &mut self.decision else { return Next::WAIT };
        let is_late = received.now > *deadline;
        if answer.is_none() {
            self.lost.insert(master);
        }
        let is_moot = is_late && decision.is_over() && decision.won_by().is_empty();
        let Some(envelope) = Envelope::parse(raw).filter(|_| !is_moot) else {
            if let Some(Answer::Error(error)) = answer {
                self.trouble.remember(error);
            }
            let next = decision.unknown(round, master);
            return self.next(rules, next);
        };
        let ballot = Ballot {
            changed: envelope.effect.is_change(),
            reply: envelope.reply.clone(),
            times: envelope.times.handed_out(&self.agreed),
            left: if envelope.times.has_end() { envelope.effect.left() } else { Vec::new() },
            items_each: 0,
        };
        self.effects.push((master, envelope.effect.clone()));
        if round == decision.round() {
            self.answers.push((master, envelope));
        }
        if is_late && self.effects.iter().any(|(_, effect)| effect.sets_end()) {
            let next = decision.outlived(round, master, ballot.changed);
            return self.next(rules, next);
        }
        let failed = ballot.reply.starts_with(b"-");
        let did = Did { changed: ballot.changed, failed, timed: ballot.times.has_end() };
        let next = decision.voted(round, master, did, ballot);
        self.next(rules, next)
    }

    pub(super) fn deadline(&mut self, rules: &Rules, is_last: bool) -> Next {
        let Some(decision) = &mut self.decision else { return Next::WAIT };
        self.is_out_of_patience = is_last;
        let next = decision.deadline(is_last);
        self.next(rules, next)
    }

    fn next(&mut self, rules: &Rules, next: decision::Next) -> Next {
        let then = match next.step {
            Step::Wait => Then::Wait,
            Step::Agree => Then::Ask,
            Step::Pause => Then::Pause,
            Step::Won(_) => Then::Reply(self.reply(rules), turn::End::Done),
            Step::Split { answered } => {
                Then::Reply(self.trouble.undecided(rules, answered), turn::End::Done)
            }
            Step::Unavailable { answered } => {
                let others = Others::silent_if(self.is_out_of_patience);
                let reply = self.trouble.unavailable(rules, answered, others);
                Then::Reply(reply, turn::End::Done)
            }
        };
        // What is tried again has to find everything as it was, also what was deleted.
        let asks_again = matches!(then, Then::Ask | Then::Pause);
        if asks_again {
            let read = self.answers.iter().map(|(_, envelope)| &envelope.times);
            self.agreed = Times::agreed(rules.quorum, read);
            self.at_once = matches!(then, Then::Ask);
        }
        let is_over = self.decision.as_ref().is_some_and(decision::Program::is_over);
        let matters =
            |master: &MasterId| !is_over || self.effect(*master).is_some_and(Effect::matters);
        Next { undo: next.undo.iter().filter(matters).collect(), then }
    }

    fn effect(&self, master: MasterId) -> Option<&Effect> {
        let mut effects = self.effects.iter().rev();
        effects.find(|(changed, _)| *changed == master).map(|(_, effect)| effect)
    }

    fn won(&self) -> impl Iterator<Item = &Envelope> {
        let by = self.decision.as_ref().map_or(MasterSet::EMPTY, decision::Program::won_by);
        let won = self.answers.iter().filter(move |(master, _)| by.contains(*master));
        won.map(|(_, envelope)| envelope)
    }

    fn reply(&mut self, rules: &Rules) -> Reply {
        let won: Vec<_> = self.decision.iter().flat_map(decision::Program::winners).collect();
        self.shape.reply(conservative(rules.quorum, &won))
    }

    /// What it wants to publish, now that a quorum agrees.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.won().next().map(|envelope| envelope.messages.clone()).unwrap_or_default()
    }

    /// Whether a quorum has changed something.
    pub(super) fn has_changed(&self) -> bool {
        self.won().next().is_some_and(|won| won.effect.is_change())
    }

    /// The keys that a quorum has changed.
    pub(super) fn changed_keys(&self) -> impl Iterator<Item = (u32, Vec<u8>)> {
        let changes = self.won().next().into_iter().flat_map(|won| &won.effect.changes);
        changes.filter_map(|change| {
            let db = parse_i64(&change.db).and_then(|db| u32::try_from(db).ok());
            Some((db?, change.key.to_vec()))
        })
    }

    /// The keys that were written to, though perhaps with what they held.
    pub(super) fn touched_keys(&self) -> &[Box<[u8]>] {
        let has_done = |won: &Envelope| match resp3::items(&won.reply).as_deref() {
            Some([b":0\r\n"]) => !self.touched.unless_zero,
            Some([reply]) => !reply.starts_with(b"-") && !reply.starts_with(b"_"),
            _ => false,
        };
        if self.won().next().is_some_and(has_done) { &self.touched.keys } else { &[] }
    }

    /// The latest effect on a master is the one to undo: it is not asked again before that.
    pub(super) fn encode_undo(&self, master: MasterId, form: Form, out: &mut Vec<u8>) {
        // What comes right after it must not find a master that has forgotten how to restore.
        let form = if self.at_once { Form::Text } else { form };
        if let Some(effect) = self.effect(master) {
            request::restore(out, form, &effect.changes);
        }
    }

    /// What to keep for a master that could not be told to undo.
    pub(super) fn restore(&self, rules: &Rules, master: MasterId) -> Option<Restore> {
        let effect = self.effect(master).filter(|effect| effect.matters())?;
        Restore::later(&effect.changes, rules.unix_time.ms_of(master))
    }
}

impl Shape {
    /// There is one reply only.
    fn reply(&mut self, raw: Bytes) -> Reply {
        match self {
            Self::Script => Reply::Raw(raw),
            Self::Command(rendering) => match resp3::items(&raw).as_deref() {
                Some([reply]) => rendering.reply(&raw, reply),
                _ => Reply::Raw(raw),
            },
            Self::Transaction(executing) => match resp3::items(&raw) {
                Some(replies) => executing.reply(&raw, &replies),
                // A watched key has changed.
                None => Reply::NilArray,
            },
        }
    }
}

impl Rendering {
    /// No command has big numbers of its own: those are integers that Lua cannot hold.
    fn reply(self, raw: &Bytes, frame: &[u8]) -> Reply {
        if let [b'(', digits @ ..] = frame {
            return Reply::Raw([b":", digits].concat().into());
        }
        let popped = match self {
            Self::AsIs => None,
            _ if frame == b"_\r\n" => return Reply::NilArray,
            Self::NullArray => None,
            Self::ListPop => popped(frame),
            Self::ScorePop => popped(frame).and_then(|parts| {
                let [key, pair] = parts[..] else { return None };
                let [member, score] = resp3::items(pair)?[..] else { return None };
                Some(vec![key, member, score])
            }),
        };
        let reply = |frame: &[u8]| Reply::Raw(raw.slice_ref(frame));
        match popped {
            Some(parts) => Reply::Array(parts.into_iter().map(reply).collect()),
            None => reply(frame),
        }
    }
}

/// Key and element of `[key, [element]]`.
fn popped(frame: &[u8]) -> Option<Vec<&[u8]>> {
    let [key, elements] = resp3::items(frame)?[..] else { return None };
    let [element] = resp3::items(elements)?[..] else { return None };
    Some(vec![key, element])
}

impl Executing {
    fn reply(&mut self, raw: &Bytes, replies: &[&[u8]]) -> Reply {
        let mut replies = replies.iter();
        let mut done = |queued| {
            Some(Done::Reply(match queued {
                Queued::Known(reply) => reply,
                Queued::Own(request) => return Some(Done::Own(request)),
                Queued::Script(script) => {
                    let frame = replies.next()?;
                    script.keep();
                    Reply::Raw(raw.slice_ref(frame))
                }
                Queued::Select(db) => {
                    let frame = replies.next()?;
                    if *frame == b"+OK\r\n" {
                        self.chosen_db.set(Some(db));
                    }
                    Reply::Raw(raw.slice_ref(frame))
                }
                Queued::Asked(rendering) => rendering.reply(raw, replies.next()?),
            }))
        };
        let queued = std::mem::take(&mut self.queued).into_iter();
        Reply::Executed(queued.map_while(|(place, queued)| Some((place, done(queued)?))).collect())
    }
}
