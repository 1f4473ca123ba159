//! Running a script, a transaction, or one command of a type that only scripts can handle. It runs on all masters, each
//! of which reports its reply and changes.

mod call;
mod dating;
mod message;
mod shape;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
pub use call::Call;
use dating::{Dating, Rounds, Untold, time_to_live};

use super::Sent;
use super::behaviour::{Behaviour, On};
use super::lock_request::LockRequest;
use super::register::ask::{PackMember, RequestWords};
use super::register::awaited::Awaited;
use super::register::promises::Told;
use super::register::run::{Run, RunStep, RunWorker};
use super::register::{self, Job, Place, packed};
use super::request::Form;
use super::verdict::{self, Others, Trouble};
use super::{Asked, Next, Owed, Received, Rules, Then};
use crate::catalogue::reserved::is_reserved;
use crate::client::outbox::Order;
use crate::decision::keyspace::Program as _;
use crate::decision::keyspace::proposer::Outcome;
use crate::decision::lease::attempt::Stored;
use crate::decision::quorum::{MasterSet, turn};
use crate::decision::register::ballot::Ballot;
use crate::lua::program::ProgramText as Text;
use crate::metrics::QuestionKind;
use crate::names::slot::Share;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;
pub use message::Message;
pub use shape::{Executing, ProgramShape, Queued, Rendering};

/// A program.
#[derive(Debug)]
pub struct Program {
    call: Call,
    shape: ProgramShape,
    /// The call as a job, if already built.
    job: Option<Box<Job>>,
    run: Option<Run>,
    /// Number of the round before its first, so that answers to an operation that it replaces are not taken for its
    /// own.
    before: u8,
    /// The roster edition under which it was last sent.
    edition: u64,
    /// The database selected by its client.
    db: u32,
    /// The next or latest request.
    words: Option<RequestWords>,
    /// Masters that have yet to answer that request, with its token.
    awaited: Awaited,
    /// Whether to start over: a pause has ended.
    begins_again: bool,
    /// Whether it was refused before.
    was_refused: bool,
    /// The reply if no quorum agrees on the key's contents; `None`: wait for one.
    refused: Option<Reply>,
    /// Number of times that no quorum agreed.
    splits: u8,
    /// Whether it begins with a prepare, whatever this worker holds.
    is_fresh: bool,
    /// Number of keys on which it takes turns or that it has just reached, by its script or through a group of keys
    /// changed together.
    looks_at: usize,
    /// When a master last answered.
    heard: Option<Instant>,
    /// Whether it has changed anything; false until it has run.
    has_changed: bool,
    /// Whether part of the operation that it replaces was done. If the program then changes nothing, that part may have
    /// been the whole effect.
    is_begun: bool,
    messages: Vec<Message>,
    /// The client's intention for a lock, if it must also be applied elsewhere.
    wish: Option<Box<LockRequest>>,
    trouble: Trouble,
    /// Set once it has run, while its expiries are extended before the client gets the reply.
    dating: Option<Box<Dating>>,
    rounds: Rounds,
}

impl Program {
    /// Creates a program that has not been sent yet.
    pub fn new(mut call: Call, shape: ProgramShape) -> Self {
        call.keys.sort_unstable();
        call.keys.dedup();
        Self {
            call,
            shape,
            job: None,
            run: None,
            before: 0,
            edition: 0,
            db: 0,
            words: None,
            awaited: Awaited::default(),
            begins_again: false,
            was_refused: false,
            refused: None,
            splits: 0,
            is_fresh: false,
            looks_at: 0,
            heard: None,
            has_changed: false,
            is_begun: false,
            messages: Vec::new(),
            wish: None,
            trouble: Trouble::default(),
            dating: None,
            rounds: Rounds::default(),
        }
    }

    /// Makes a quorum first agree on its keys' contents, and accept expiries that have passed.
    pub(super) fn fresh(self) -> Self {
        Self { is_fresh: true, ..self }
    }

    /// Replies with `refused` to split votes. For a claim, whose client will try again.
    pub(super) fn or_refused(self, refused: Reply) -> Self {
        Self { refused: Some(refused), ..self }
    }

    /// Numbers its rounds after `round`, the last of the operation that it replaces.
    pub(super) fn after(self, round: u8) -> Self {
        Self { before: round.wrapping_add(1), ..self }
    }

    /// Records whether part of the operation that it replaces was done.
    pub(super) fn begun(self, is_begun: bool) -> Self {
        Self { is_begun, ..self }
    }

    /// Records its client's intention for a lock.
    pub(super) fn set_wish(&mut self, wish: LockRequest) {
        self.wish = Some(Box::new(wish));
    }

    /// Returns the text that masters must know by its SHA1.
    pub(super) fn text(&self) -> Option<Arc<Text>> {
        self.words.as_ref()?.text().cloned()
    }

    /// Returns the request, if it may be sent together with others.
    pub(super) fn member(&self) -> Option<PackMember> {
        self.words.as_ref()?.member()
    }

    /// Whether it queues with all other operations on its key. A transaction does not, as it may select another
    /// database for later requests.
    pub(super) fn has_one_key(&self) -> bool {
        self.call.keys.len() == 1 && !matches!(self.shape, ProgramShape::Transaction(..))
    }

    /// Returns the call being run.
    fn call_now(&self) -> &Call {
        self.dating.as_ref().map_or(&self.call, |dating| &dating.call)
    }

    /// Processes a master's answer, or the loss of its link, for a request sent before this round.
    fn received_late(&mut self, received: Received<'_>) {
        let Received { master, round, raw, .. } = received;
        match (&mut self.dating, &mut self.run) {
            (Some(dating), _) if dating.round == round => dating.run.answered_at_last(master, raw),
            (_, Some(run)) => run.answered_late(master, round.wrapping_sub(self.before), raw),
            (_, None) => {}
        }
    }

    fn next(&mut self, rules: &Rules, step: RunStep) -> Next {
        Next::then(match step {
            RunStep::Wait => Then::Wait,
            RunStep::Send(to, token, words) => {
                self.words = Some(words);
                if to != rules.quorum.everybody() {
                    self.awaited.ask(to, token);
                    return Next::then(Then::Tell(to));
                }
                self.awaited.ask_only(to, token);
                let looks_at = self.come_to().len();
                match std::mem::replace(&mut self.looks_at, looks_at) < looks_at {
                    true => Then::TakeOn,
                    false => Then::Ask,
                }
            }
            // Retry at once the first time: masters soon no longer know this program's outcome. After another loss, let
            // others go first.
            RunStep::Pause => {
                if let Some(refused) = self.refused_for_good(rules) {
                    return Next::reply(refused);
                }
                self.begins_again = true;
                match std::mem::replace(&mut self.was_refused, true) {
                    false => Then::Ask,
                    true => Then::Pause,
                }
            }
            RunStep::Done(Outcome::NotKnown) if self.runs_anew() => Then::Pause,
            RunStep::Done(outcome) => match self.reply(rules, outcome) {
                Some(reply) => Then::Reply(reply, turn::End::Done),
                None => Then::Ask,
            },
            RunStep::Failed(error) => {
                Then::Reply(self.as_far_as_known(Reply::Raw(error)), turn::End::Done)
            }
            RunStep::TooManyKeys => Then::Reply(verdict::too_many_keys(), turn::End::Done),
            RunStep::OfAnotherShard => Then::Reply(verdict::of_another_shard(), turn::End::Done),
        })
    }

    /// Prepares to run once more a program whose reply cannot be determined. Returns whether that is possible: it must
    /// only have read.
    fn runs_anew(&mut self) -> bool {
        if self.dating.is_some() || self.may_write() {
            return false;
        }
        self.take_run().is_some()
    }

    /// Ends the current run, so that another can begin. Round numbers continue.
    fn take_run(&mut self) -> Option<Run> {
        self.before = self.round();
        self.run.take()
    }

    fn refused_for_good(&mut self, rules: &Rules) -> Option<Reply> {
        let refused = self.refused.as_ref()?;
        if !self.run.as_ref()?.is_split() {
            return None;
        }
        self.splits = self.splits.saturating_add(1);
        (!rules.may_try_again(self.splits)).then(|| refused.clone())
    }

    /// Returns the client's reply, or `None` if another step comes first.
    fn reply(&mut self, rules: &Rules, outcome: Outcome<Job>) -> Option<Reply> {
        if let Some(run) = &self.run {
            rules.registers.keep(self.edition, run.left(), told(run, &self.awaited));
        }
        if self.dating.is_some() {
            return match self.is_dated(rules, &outcome) {
                Ok(raw) => raw.map(|raw| self.shape.reply(raw)),
                Err(Untold::Over) => Some(verdict::over()),
                Err(Untold::Undecided) => Some(self.undecided(rules)),
            };
        }
        self.has_changed = self.run.as_ref().is_some_and(Run::has_written);
        if self.is_begun && !self.has_changed {
            return Some(self.undecided(rules));
        }
        let ttl_ms = time_to_live(&outcome).ok().flatten();
        let raw = match outcome {
            Outcome::Unmet => return Some(Reply::NilArray),
            Outcome::Ran(register::RegisterReply::Frame(raw, messages, _)) => {
                self.messages = messages;
                Some(raw)
            }
            Outcome::Ran(register::RegisterReply::Packed(packed)) => {
                let (raw, messages) = packed::reply(&packed).unzip();
                self.messages = messages.unwrap_or_default();
                raw.map(Bytes::from)
            }
            _ => None,
        };
        match raw {
            Some(raw) if self.is_dated_anew(rules, ttl_ms, &raw) => None,
            Some(raw) => Some(self.shape.reply(raw)),
            None => Some(self.undecided(rules)),
        }
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        self.as_far_as_known(self.trouble.undecided(rules, rules.quorum.needed()))
    }

    /// Like [`Program::as_known`], for replies that a master's own error may have caused.
    fn as_far_as_known(&self, reply: Reply) -> Reply {
        if self.may_be_done() { self.trouble.unknown(reply) } else { reply }
    }

    fn may_be_done(&self) -> bool {
        self.may_write() && self.own_run().is_some_and(Run::may_have_run)
    }

    fn may_write(&self) -> bool {
        !self.is_fresh && self.call.may_write()
    }

    /// Returns its own run, finished or not.
    fn own_run(&self) -> Option<&Run> {
        self.dating.as_ref().map(|dating| &dating.run).or(self.run.as_ref())
    }
}

impl Behaviour for Program {
    fn order(&self) -> Order {
        if self.has_one_key() { Order::Rounds } else { Order::Alone }
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Program
    }

    fn wish(&self) -> LockRequest {
        self.wish.as_deref().cloned().unwrap_or(LockRequest::Other)
    }

    fn sent(&self) -> Sent {
        match self.member() {
            Some(member) => Sent::Together(member),
            None => self.text().map_or(Sent::Alone, Sent::Program),
        }
    }

    /// Returns the size of its arguments. Those of a transaction include everything queued.
    fn request_bytes(&self) -> usize {
        let handed = self.call.runner.iter().map(|_| self.call.text.code().len());
        let queued = match &self.shape {
            ProgramShape::Transaction(executing) => executing.held,
            _ => 0,
        };
        self.call.words.len() + handed.sum::<usize>() + queued
    }

    /// Whether part of the reply is made here once the masters have answered.
    fn has_own_part(&self) -> bool {
        matches!(&self.shape, ProgramShape::Transaction(executing) if executing.has_own)
    }

    /// Returns the keys on which it takes turns, so that programs of one worker do not collide.
    fn turns(&self) -> &[u64] {
        &self.call.keys
    }

    fn round(&self) -> u8 {
        self.before.wrapping_add(self.run.as_ref().map_or(0, Run::round) as u8)
    }

    /// Begins a round with the decided request or a new attempt. Promises end with the roster edition in which they
    /// were given; requests that rely on them are no longer sent.
    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, db, .. } = on;
        let now_us = rules.unix_time.micros() as u64;
        self.db = db;
        self.rounds.begin(now_us);
        let edition = rules.registers.edition();
        let is_new = std::mem::replace(&mut self.edition, edition) != edition;
        let step = match &mut self.run {
            None => {
                let worker = RunWorker {
                    quorum: rules.quorum,
                    id: rules.registers.worker,
                    version: 0,
                    share: rules.share,
                };
                let job = self.job.take();
                let job = job.map_or_else(|| self.call_now().job(db), |job| *job);
                // Expectations about keys are checked against the results of a prepare.
                let is_held = !self.is_fresh && job.watched.is_empty();
                let needed = match job.needs_all() {
                    true => asked.voters.without(rules.registers.silent()),
                    false => MasterSet::EMPTY,
                };
                let held = is_held.then(|| rules.registers.held(&job.places, needed)).flatten();
                let (run, step) = Run::new(worker, job, held, now_us);
                self.looks_at = run.looked_at().len();
                self.run = Some(run);
                Some(step)
            }
            Some(run) if self.begins_again || is_new => Some(run.again(now_us)),
            Some(_) => None,
        };
        self.begins_again = false;
        if let Some(RunStep::Send(to, token, words)) = step {
            self.words = Some(words);
            self.awaited.ask_only(to, token);
        }
        self.awaited.keep(asked.voters);
        if let Some(run) = &mut self.run {
            run.not_sent_to(rules.quorum.everybody().without(asked.all));
        }
        self.call_now().text.runs();
    }

    /// Returns the keys of a program about to be sent, if it must wait. It is sent only if all masters hold the results
    /// of earlier programs on these keys, and some may yet confirm that they do.
    fn waits_for_holders(&mut self, on: On<'_>) -> Option<&[Place]> {
        let On { rules, db, .. } = on;
        if self.run.is_some() || self.is_fresh || self.call.keys.len() < 2 {
            return None;
        }
        let job = self.job.insert(Box::new(self.call.job(db)));
        let is_waiting = job.needs_all() && !rules.registers.awaited(&job.places).is_empty();
        is_waiting.then_some(&job.places)
    }

    /// Whether all masters that answer must hold the state on which it runs.
    fn needs_all(&self) -> bool {
        self.run.as_ref().is_some_and(Run::needs_all)
    }

    fn encode(&self, _: On<'_>, form: Form, out: &mut Vec<u8>) {
        if let Some(words) = &self.words {
            words.encode(form, out);
        }
    }

    /// Processes a master's answer, or the loss of its link.
    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let Received { master, answer, raw, now, .. } = received;
        self.heard = Some(now);
        if received.round != self.round() {
            self.received_late(received);
            return Next::WAIT;
        }
        let Some(token) = self.awaited.answered(master) else { return Next::WAIT };
        let Some(run) = &mut self.run else { return Next::WAIT };
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let now_us = rules.unix_time.micros() as u64;
        let ahead_ms = rules.unix_time.ahead_ms(master);
        let mut step = match answer {
            Some(_) => run.answered((master, ahead_ms), token, raw, now_us),
            None => register::run::RunStep::Wait,
        };
        if let (RunStep::Wait, Some(left)) = (&step, run.left()) {
            rules.registers.hear(left, told(run, &self.awaited));
        }
        if step == RunStep::Wait && self.awaited.is_empty() {
            step = run.all_others_are_lost();
            // Reconnecting takes a while.
            self.was_refused |= step == RunStep::Pause;
        } else if step == RunStep::Wait
            && self.awaited.masters().without(rules.registers.silent()).is_empty()
        {
            step = run.without_the_silent();
        }
        self.next(rules, step)
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let On { rules, .. } = on;
        let Some(run) = &mut self.run else { return Next::WAIT };
        let answered = rules.quorum.everybody().without(self.awaited.masters()).len();
        match run.no_more_answers() {
            step @ (RunStep::Done(_) | RunStep::Failed(_)) => self.next(rules, step),
            _ if is_last => {
                run.give_up();
                let others = Others::silent_if(true);
                let reply = self.trouble.unavailable(rules, answered, others);
                Next::reply(self.as_far_as_known(reply))
            }
            step => self.next(rules, step),
        }
    }

    /// Returns the reply to send instead of this one. Clients that retry failed requests must not retry one that may
    /// have been done.
    fn as_known(&self, reply: Reply) -> Reply {
        if self.may_be_done() { verdict::unknown(reply) } else { reply }
    }

    /// Returns all keys involved at present.
    fn come_to(&self) -> &[Place] {
        self.run.as_ref().map_or(&[], Run::looked_at)
    }

    /// See [`Operation::take_on`](super::Behaviour::take_on).
    fn take_on(&mut self, keys: Vec<u64>) {
        self.call.keys.extend(keys);
        self.call.keys.sort_unstable();
        self.call.keys.dedup();
        self.begins_again = true;
    }

    /// Returns the messages that it publishes.
    fn messages(&self) -> Vec<Message> {
        self.messages.clone()
    }

    /// Whether it has made a change.
    fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns the debt to masters that still hold the lease which the program has taken over on a quorum. It is
    /// delivered only after they have had time to catch up: until then, that lease may be what lets them catch up.
    fn owed(&self, on: On<'_>) -> Option<Owed> {
        let On { rules, db, key } = on;
        let run = self.own_run().filter(|_| self.has_changed)?;
        let (place, lease, later) = run.taken_over()?;
        let is_own = u32::from(place.db) == db && *place.key == *key;
        let attempt = Stored::decode(&lease.value).tag.filter(|_| is_own)?.attempt;
        let left_ms = match lease.end_ms() {
            -1 => -1,
            end_ms => (end_ms - rules.unix_time.ms()).max(0),
        };
        let end = rules.end_of_release(self.heard?, left_ms);
        Some(Owed { attempt, now: MasterSet::EMPTY, later, end })
    }

    /// Returns the script and its keys if masters gave different answers although they held the same state.
    fn differing(&self) -> Option<(Arc<Text>, Vec<Place>)> {
        let job = self.run.as_ref().and_then(Run::differing)?;
        Some((Arc::clone(&job.program), job.places.clone()))
    }

    /// Returns keys that may differ on some masters, along with those masters.
    fn behind(&self) -> Option<(Vec<Place>, MasterSet)> {
        match &self.dating {
            Some(dating) => dating.behind(self.run.as_ref()),
            None => self.run.as_ref().and_then(Run::behind),
        }
    }

    /// Returns the keys that all masters hold now, if their stamps are long.
    fn decided(&self) -> Option<Vec<(Place, Ballot)>> {
        self.run.as_ref().and_then(Run::decided)
    }

    /// Ends a program that continues because it has reached an undeclared key.
    fn give_up_widening(&mut self) -> Option<Reply> {
        let run = self.run.as_mut().filter(|run| run.is_widened())?;
        run.give_up();
        Some(verdict::undeclared_without_end())
    }

    /// Whether the program is rejected because it has too many keys.
    fn has_too_many_keys(&self) -> bool {
        self.call.writes_too_many_keys()
    }

    fn leaves(&self, share: Share) -> bool {
        let mut keys = self.call.key_names();
        !share.is_all() && keys.any(|key| !is_reserved(key) && !share.includes(key))
    }

    fn changed_keys(&self, _: On<'_>) -> Vec<(u32, Vec<u8>)> {
        let places = self.own_run().into_iter().filter(|_| self.has_changed).flat_map(Run::places);
        // Keys that were only watched have not changed.
        let is_only_watched = |place: &Place| {
            let is_watched = self.call.watched.iter().any(|(watched, _)| watched == place);
            is_watched && !self.call.names(place)
        };
        let places = places.filter(move |place| !is_only_watched(place));
        places.map(|place| (place.db.into(), place.key.to_vec())).collect()
    }
}

/// Returns the masters that hold its result, and those yet to answer.
fn told(run: &Run, awaited: &Awaited) -> Told {
    Told { holders: run.left_on(), awaited: awaited.masters() }
}
