//! Drives operations: sends their rounds, hands them the masters' answers, delivers their replies.
//!
//! An operation lives in a slab until every frame that was sent for it has been answered or given
//! up, which is usually after its client has had the reply: the verdict falls at the quorum, and
//! the last master's ballot still has to be taken off its link.

pub mod announcements;
mod comparing;
mod deadlines;
pub mod decided_stamps;
pub mod granted;
pub mod lane;
pub mod lane_questions;
pub mod link;
pub mod newer_roster;
pub mod reader;
pub mod sequential;
mod settling;
mod stopwatch;
mod sweeping;
pub mod take_back;
mod turns;
pub mod wrap_up;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;

use crate::catalogue::table;
use crate::client::outbox::Target;
use crate::client::slowlog::Slowlog;
use crate::decision::quorum::turn::{self, Turns};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::roster::mark::Proven;
use crate::decision::roster::poll::{Counting, Poll};
use crate::decision::roster::term::Term;
use crate::engine::link::{Link, Waiting};
use crate::masters::electorate::Electorate;
use crate::metrics::{Metrics, Outcome, Question};
use crate::operation::changed_keys::Changes;
use crate::operation::envelope::Stamps;
use crate::operation::program::Message;
use crate::operation::request::Form;
use crate::operation::{Asked, Heard, Kind, Next, Operation, Received, Rules, Sent, Then, verdict};
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};
use deadlines::Deadlines;
use granted::Later;
use stopwatch::Stopwatch;

/// Names an operation in the slab. The serial number tells it from a later one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId {
    slot: u32,
    serial: u32,
}

/// What pauses after lost rounds grow to at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// As many rounds fit into a pause at most, or pauses after a split vote.
const ROUNDS_OF_A_PAUSE: u32 = 2;

/// All operations of one worker, and what they share.
pub struct Engine {
    rules: Rules,
    split_vote_delay: Duration,
    links: Vec<Rc<Link>>,
    electorate: Arc<Electorate>,
    /// Who votes, and the edition in which that was so.
    term: RefCell<(u64, Rc<Term>)>,
    metrics: Arc<Metrics>,
    slowlog: Arc<Slowlog>,
    stopwatch: Stopwatch,
    flights: RefCell<Slab<Flight>>,
    turns: RefCell<Turns<OperationId>>,
    hasher: foldhash::fast::RandomState,
    deadlines: Deadlines,
    serial: Cell<u32>,
    stamps: Stamps,
    scratch: RefCell<Vec<u8>>,
    changes: Rc<Changes>,
    /// What programs have held back and may be published now.
    announcements: RefCell<Vec<Message>>,
    /// Operations whose turn has come.
    ready: RefCell<VecDeque<OperationId>>,
    later: RefCell<Later>,
}

/// An operation in flight.
struct Flight {
    operation: Operation,
    serial: u32,
    /// When it was first to be sent, by the stopwatch; before that it may wait for its turn.
    started_us: Option<u64>,
    /// When the last round was, and which it is.
    asked_us: u64,
    asked_round: u8,
    /// The client that gets the reply, until it has been delivered.
    target: Option<Target>,
    /// Fingerprint of the key whose turn this operation holds.
    turn: Option<u64>,
    /// How many of [`Operation::turns`] it holds.
    turns: usize,
    /// Frames on links that have not been answered yet.
    outstanding: u16,
    /// Which votes on the current round go together; `None` before the first.
    poll: Option<Poll<Rc<Term>>>,
    /// Masters that were asked, may have changed something, and owe a ballot.
    awaited: MasterSet,
    /// Masters keep in mind that what it gave back is over.
    is_noted: bool,
    /// A pause after a split vote is running.
    pausing: bool,
    /// How many such pauses there were.
    pauses: u32,
    /// When the current round ends for a silent minority; `None` before the first.
    deadline: Option<Instant>,
    /// When its client's patience ends; `None`: that is not known before the first round.
    last: Option<Instant>,
    /// That was so when its turn came, behind one that waited in vain: it is not sent.
    came_to_nothing: bool,
}

impl Flight {
    /// The votes on the next round; `None`: it would build on votes of masters that have forgotten since. `flush`: the last
    /// one of its database that any master has shown.
    fn poll_in(&self, term: &Rc<Term>, flush: u64) -> Option<Poll<Rc<Term>>> {
        let poll = || Poll::new(Rc::clone(term));
        match &self.poll {
            Some(poll) if self.operation.builds_on_earlier_votes() => poll.again(Rc::clone(term)),
            _ if self.operation.is_about_a_lease() => Some(poll().between_flushes(flush)),
            _ => Some(poll()),
        }
    }

    /// Whether its client's patience has passed.
    fn is_over(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now >= last)
    }

    /// The newest term that a vote was counted in.
    fn term(&self) -> Rc<Term> {
        self.poll.as_ref().map(|poll| Rc::clone(poll.term())).unwrap_or_default()
    }
}

impl Engine {
    /// An engine without operations.
    pub fn new(
        rules: Rules,
        split_vote_delay: Duration,
        links: Vec<Rc<Link>>,
        electorate: Arc<Electorate>,
        metrics: Arc<Metrics>,
        slowlog: Arc<Slowlog>,
    ) -> Rc<Self> {
        Rc::new(Self {
            rules,
            split_vote_delay,
            links,
            electorate,
            term: RefCell::default(),
            metrics,
            slowlog,
            stopwatch: Stopwatch::new(),
            flights: RefCell::default(),
            turns: RefCell::default(),
            hasher: foldhash::fast::RandomState::default(),
            deadlines: Deadlines::default(),
            serial: Cell::new(0),
            stamps: Stamps::default(),
            scratch: RefCell::default(),
            changes: Rc::default(),
            announcements: RefCell::default(),
            ready: RefCell::default(),
            later: RefCell::default(),
        })
    }

    /// What decisions need to know.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The links to the masters, in the order of the list.
    pub fn links(&self) -> &[Rc<Link>] {
        &self.links
    }

    /// How many operations are in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.borrow().len()
    }

    /// A fingerprint of a key, for turns and for the order within a session.
    pub fn fingerprint(&self, db: u32, key: &[u8]) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(db);
        hasher.write(key);
        hasher.finish()
    }

    /// Who may vote, and why others may not.
    pub fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    /// The same, for whoever finds out about masters.
    pub fn shared_electorate(&self) -> Arc<Electorate> {
        Arc::clone(&self.electorate)
    }

    /// Who votes now, and what that takes: this worker's own copy, which costs nothing to share.
    pub fn term(&self) -> Rc<Term> {
        let (edition, term) = &mut *self.term.borrow_mut();
        let now = self.electorate.edition();
        if *edition != now {
            // Read after the edition: it may be newer, and is then read once more.
            (*edition, *term) = (now, Rc::new(Term::clone(&self.electorate.term())));
            self.rules.registers.see(now);
        }
        Rc::clone(term)
    }

    /// The masters that may vote now.
    pub fn voters(&self) -> MasterSet {
        self.reachable().and(self.electorate.voters())
    }

    /// The masters that get requests now, whether they may vote or not.
    pub fn reachable(&self) -> MasterSet {
        self.links.iter().filter(|link| link.is_up()).map(|link| link.master()).collect()
    }

    /// Starts `operation` on the key with this [`Engine::fingerprint`]; its reply goes to `target`,
    /// perhaps before this returns.
    pub fn start(self: &Rc<Self>, operation: Operation, key: u64, target: Target) {
        if operation.has_too_many_keys() {
            return target.deliver(verdict::too_many_keys());
        }
        let turn = operation.turn().map(|kind| (kind, key));
        let serial = self.serial.get().wrapping_add(1);
        self.serial.set(serial);
        let turn_key = turn.map(|(_, key)| key);
        let flight = Flight {
            operation,
            serial,
            started_us: None,
            asked_us: 0,
            asked_round: 0,
            target: Some(target),
            turn: turn_key,
            turns: 0,
            outstanding: 0,
            poll: None,
            awaited: MasterSet::EMPTY,
            is_noted: false,
            pausing: false,
            pauses: 0,
            deadline: None,
            last: None,
            came_to_nothing: false,
        };
        let slot = self.flights.borrow_mut().insert(flight) as u32;
        let id = OperationId { slot, serial };
        let entry = turn
            .map_or(turn::Entry::Now, |(kind, key)| self.turns.borrow_mut().enter(key, id, kind));
        match entry {
            turn::Entry::Now => self.take_turns(id),
            turn::Entry::Wait => self.waits_since(id),
            turn::Entry::Full => {
                self.with(id, |flight| flight.turn = None);
                self.turn_away(id);
            }
        }
        self.start_ready();
    }

    /// Starts `operation` at once, for a task of this worker that awaits the reply.
    ///
    /// # Cancel safety
    /// Who stops waiting is as a client that has gone: a claim that still waits for its turn is
    /// given up, and whatever was sent is finished.
    pub fn run(
        self: &Rc<Self>,
        operation: Operation,
        key: u64,
    ) -> impl Future<Output = Reply> + use<> {
        let (target, reply) = Target::task();
        self.see(clock::now());
        self.start(operation, key, target);
        async { reply.await.expect("the engine delivers a reply to every operation") }
    }

    /// It is `now`: what is started next begins then.
    pub fn see(&self, now: Instant) {
        self.stopwatch.see(now);
    }

    /// A master has answered what `waiting` stands for, and has proved that it remembers.
    pub fn answered(self: &Rc<Self>, waiting: Waiting, vote: Proven<Heard<'_>>, now: Instant) {
        let (master, heard) = (vote.master(), *vote.answer());
        self.stopwatch.see(now);
        if self.is_sent_again(master, waiting, heard) {
            return;
        }
        let counting = self.with(waiting.operation, |flight| match &mut flight.poll {
            Some(poll) => poll.count(&vote, || self.term()),
            None => Counting::Void,
        });
        if counting == Some(Counting::Ahead) {
            return self.wait_for_version(waiting, vote);
        }
        if counting == Some(Counting::Void) && self.is_asked_again_after_a_flush(&vote, waiting) {
            return;
        }
        let counts = counting == Some(Counting::Counts);
        self.settle(master, waiting, Some(heard).filter(|_| counts), now);
    }

    /// A master has answered, and it is no vote: it has none, or has not proved that it remembers. Only who was not
    /// asked for a vote is listened to.
    pub fn overheard(
        self: &Rc<Self>,
        master: MasterId,
        waiting: Waiting,
        heard: Heard<'_>,
        now: Instant,
    ) {
        self.stopwatch.see(now);
        if self.is_sent_again(master, waiting, heard) {
            return;
        }
        let is_asked = |flight: &mut Flight| {
            flight.operation.needs_quorum() && flight.term().voters().contains(master)
        };
        let was_asked = self.with(waiting.operation, is_asked) == Some(true);
        self.settle(master, waiting, Some(heard).filter(|_| !was_asked), now);
    }

    fn is_sent_again(&self, master: MasterId, waiting: Waiting, heard: Heard<'_>) -> bool {
        let Answer::Error(error) = heard.answer else { return false };
        error.starts_with(b"NOSCRIPT") && self.send_again(master, waiting)
    }

    /// The link was lost before `waiting` was answered: whether it took effect is unknown.
    pub fn lost(self: &Rc<Self>, master: MasterId, waiting: Waiting) {
        self.settle(master, waiting, None, clock::now());
    }

    /// Ends every round whose deadline had come at `due`, and tells masters what was put off until then.
    pub fn expire(self: &Rc<Self>, due: Instant) {
        self.stopwatch.see(clock::now());
        while let Some((id, round)) = self.deadlines.due(due) {
            self.deadline(id, round);
        }
        self.tell_once_more(due);
    }

    /// When the next round has to end that is not decided yet.
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = self.deadlines.next(|id, round| self.is_open(id, round));
        [deadline, self.next_to_tell()].into_iter().flatten().min()
    }

    /// Whether this round still waits for ballots, or its client has been told of an end that a silent master may not know.
    fn is_open(&self, id: OperationId, round: u8) -> bool {
        let is_open = |flight: &mut Flight| {
            let is_awaited = flight.target.is_some() || self.owes_a_note(flight);
            flight.operation.round() == round && !flight.pausing && is_awaited
        };
        self.with(id, is_open) == Some(true)
    }

    /// Resolves when a deadline has been set while there was none.
    pub async fn deadline_set(&self) {
        self.deadlines.set.notified().await;
    }

    fn settle(
        self: &Rc<Self>,
        master: MasterId,
        waiting: Waiting,
        heard: Option<Heard<'_>>,
        now: Instant,
    ) {
        let (answer, raw) = heard.map_or((None, &b""[..]), |heard| (Some(heard.answer), heard.raw));
        let id = waiting.operation;
        let rules = &self.rules;
        let is_trusted = !matches!(answer, None | Some(Answer::Error(_)));
        let settled = self.with(id, |flight| {
            flight.outstanding -= 1;
            let round = waiting.round;
            flight.awaited.remove(master);
            let asked_us = (flight.asked_round == round).then_some(flight.asked_us);
            // The event loop may be so late that answers are read before their deadline is noticed.
            let is_late = flight.deadline.is_some_and(|due| now > due);
            let received = Received { master, round, answer, raw, now };
            let next = flight.operation.received(rules, received);
            (next, asked_us, is_late)
        });
        let asked_us = settled.as_ref().and_then(|(_, asked_us, _)| *asked_us);
        self.count_ballot(master, is_trusted, asked_us);
        let Some((next, _, is_late)) = settled else { return };
        if is_trusted && asked_us.is_some() && !is_late {
            rules.registers.is_heard(master);
        }
        self.act(id, next);
        if is_late {
            self.deadline(id, waiting.round);
        }
        self.retire(id);
        self.start_ready();
    }

    /// `asked_us` is when the round began that the ballot belongs to, if it is still that round.
    fn count_ballot(&self, master: MasterId, is_trusted: bool, asked_us: Option<u64>) {
        let metrics = self.metrics.master(master);
        if !is_trusted {
            return metrics.unknown.one();
        }
        match asked_us {
            Some(asked_us) => {
                let us = self.stopwatch.since(asked_us);
                self.rules.leases.took(us);
                metrics.round_trip.observe(us);
            }
            None => metrics.behind.one(),
        }
    }

    /// The vote timeout of a round has passed, or the client's patience. Who waits for a silent quorum is heard once more
    /// at the end of it.
    fn deadline(self: &Rc<Self>, id: OperationId, round: u8) {
        if !self.is_open(id, round) {
            return;
        }
        if self.with(id, |flight| flight.target.is_none()) == Some(true) {
            return self.note_silence(id);
        }
        let (rules, now) = (&self.rules, clock::now());
        let next = self.with(id, |flight| {
            if flight.awaited.len() <= rules.quorum.tolerates() {
                rules.registers.miss(flight.awaited);
            }
            let last = flight.last.unwrap_or(now);
            (flight.operation.deadline(rules, now, now >= last), last)
        });
        let Some((next, last)) = next else { return };
        self.act(id, next);
        if now < last && self.is_open(id, round) {
            self.deadlines.push_last(last, id, round);
        }
        self.retire(id);
        self.start_ready();
    }

    fn act(self: &Rc<Self>, id: OperationId, next: Next) {
        for master in next.undo.iter() {
            self.undo(id, master);
        }
        match next.then {
            Then::Wait => {}
            then @ (Then::Ask | Then::TakeOn) => match (self.widened_for_too_long(id), then) {
                (Some(reply), _) => self.reply(id, reply, turn::End::Lost),
                (None, Then::TakeOn) => self.take_on(id),
                (None, _) => self.ask(id),
            },
            Then::Tell(masters) => self.tell(id, masters),
            Then::Pause => self.pause(id),
            Then::Otherwise => self.go_on_as_program(id),
            Then::Reply(reply, turn::End::Granted) if self.is_too_early(id) => {
                self.grant_in_turn(id, reply);
            }
            Then::Reply(reply, end) => self.reply(id, reply, end),
        }
    }

    /// The reply to a program that has come to one undeclared key after the other until the client's patience has passed: each
    /// of its rounds is answered in time.
    fn widened_for_too_long(&self, id: OperationId) -> Option<Reply> {
        let now = clock::now();
        let reply = self.with(id, |flight| {
            flight.is_over(now).then(|| flight.operation.give_up_widening()).flatten()
        });
        reply.flatten()
    }

    /// Sends each of these masters what it is told in the current round.
    fn tell(self: &Rc<Self>, id: OperationId, masters: MasterSet) {
        let now = clock::now();
        for master in masters.iter() {
            let mut scratch = Vec::new();
            let sent = self.with(id, |flight| {
                flight.operation.encode_for(master, &self.rules, Form::Sha, &mut scratch);
                flight.outstanding += 1;
                flight.awaited.insert(master);
                flight.deadline = Some(now + self.rules.vote_timeout);
                (flight.operation.db, flight.operation.round(), flight.term())
            });
            let Some((db, round, term)) = sent else { return };
            let waiting = Waiting { operation: id, round };
            let link = &self.links[master.index()];
            match link.is_up() {
                true => link.send(db, &scratch, waiting, &term),
                false => self.settle(master, waiting, None, now),
            }
        }
        if let Some(round) = self.with(id, |flight| flight.operation.round()) {
            self.deadlines.push(now + self.rules.vote_timeout, id, round);
        }
    }

    /// Sends the current round to all masters that can be reached, also to those whose ballots do not
    /// count: they have to know what happens. Nothing is sent when the voters are too few.
    fn ask(&self, id: OperationId) {
        let about = |flight: &mut Flight| flight.operation.needs_quorum();
        let Some(needs_quorum) = self.with(id, about) else { return };
        let asked = self.reachable();
        let term = self.term();
        let voters = asked.and(term.voters());
        if let Some(reply) = self.too_few(needs_quorum, asked, voters) {
            let known = self.with(id, |flight| flight.operation.as_known(reply));
            known.into_iter().for_each(|reply| self.reply(id, reply, turn::End::Lost));
            return self.retire(id);
        }
        let now = clock::now();
        let asked_us = self.stopwatch.us();
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        self.rules.registers.see_flushes(self.links.iter().map(|link| link.flushed()).sum());
        let sent = self.with(id, |flight| {
            let db = flight.operation.db;
            let flush = self.links.iter().map(|link| link.last_flush(db)).max();
            flight.poll = Some(flight.poll_in(&term, flush.unwrap_or_default())?);
            let operation = &mut flight.operation;
            let last = *flight.last.get_or_insert(now + self.rules.patience);
            // A round that is sent gets the time that any has.
            let patience = last.saturating_duration_since(now).max(self.rules.vote_timeout);
            operation.ask(&self.rules, Asked { all: asked, voters, patience }, now);
            operation.encode(&self.rules, Form::Sha, &mut scratch);
            flight.outstanding += asked.len() as u16;
            flight.started_us.get_or_insert(asked_us);
            flight.asked_us = asked_us;
            flight.deadline = Some(now + self.rules.vote_timeout);
            let round = operation.round();
            flight.asked_round = round;
            if !operation.only_looks() {
                flight.awaited = flight.awaited.union(asked);
            }
            let waiting = Waiting { operation: id, round };
            Some((operation.db, waiting, operation.sent(), operation.needs_all()))
        });
        let Some((db, waiting, sent, needs_all)) = sent.flatten() else {
            drop(scratch);
            self.reply(id, verdict::undecided(&self.rules, 0), turn::End::Lost);
            return self.retire(id);
        };
        for master in asked.iter() {
            let link = &self.links[master.index()];
            match &sent {
                Sent::Parts(parts) => link.send_parts(*parts, db, &scratch, waiting, &term),
                Sent::Together(member) => {
                    link.send_together(member, db, &scratch, waiting, &term);
                }
                Sent::Program(program) => {
                    link.send_program(program, db, &scratch, waiting, &term);
                }
                Sent::Alone => link.send(db, &scratch, waiting, &term),
            }
        }
        self.deadlines.push(now + self.rules.vote_timeout, id, waiting.round);
        if needs_all && self.rules.wait_for_all() < self.rules.vote_timeout {
            self.deadlines.push_last(now + self.rules.wait_for_all(), id, waiting.round);
        }
    }

    /// The reply when there are not enough masters to ask.
    fn too_few(&self, needs_quorum: bool, asked: MasterSet, voters: MasterSet) -> Option<Reply> {
        if needs_quorum {
            let enough = self.rules.quorum.reached_by(voters);
            (!enough).then(|| self.no_quorum(asked, voters))
        } else {
            asked.is_empty().then(|| verdict::no_master(&self.rules))
        }
    }

    /// Masters that are only on probation will vote in a while, and clients know what `LOADING` means.
    fn no_quorum(&self, asked: MasterSet, voters: MasterSet) -> Reply {
        if let Some(obstacle) = self.electorate.why_it_waits() {
            return verdict::not_serving(&obstacle);
        }
        let waiting = asked.without(voters).iter().filter(|master| self.electorate.waits(*master));
        let waiting: MasterSet = waiting.collect();
        let others = self.rules.quorum.everybody().without(voters);
        let why = self.electorate.why_not(others) + &self.refusals();
        if self.rules.quorum.reached_by(voters.union(waiting)) {
            verdict::on_probation(&self.rules, voters.len(), &why)
        } else {
            verdict::too_few_voters(&self.rules, voters.len(), &why)
        }
    }

    /// `; ADDRESS: why` for each master that can be reached, and does not serve.
    fn refusals(&self) -> String {
        let why = |link: &Rc<Link>| {
            Some(format!("; {}: {}", link.address(), link.why_not_though_reached()?))
        };
        self.links.iter().filter_map(why).collect()
    }

    /// A split vote: wait a random time, so that those who split it do not meet again.
    fn pause(self: &Rc<Self>, id: OperationId) {
        let paused = self.with(id, |flight| {
            flight.pauses += 1;
            self.metrics.retried(flight.operation.question());
            let round = Duration::from_micros(self.stopwatch.since(flight.asked_us));
            (flight.pauses, round, flight.last)
        });
        let Some((pauses, round, last)) = paused else { return };
        let longest_ms = self.longest_pause(pauses, round).as_millis().max(1) as u64;
        let pause = Duration::from_millis(fastrand::u64(1..=longest_ms));
        // Nobody pauses beyond the patience.
        let left = last.map_or(pause, |last| last.saturating_duration_since(clock::now()));
        let pause = pause.min(left.max(Duration::from_millis(1)));
        self.pause_until(id, tokio::time::sleep(pause), move |engine, now| {
            match engine.end_of_patience(id, now) {
                Some(next) => engine.act(id, next),
                None if engine.may_be_told_later(id, now) => engine.pause(id),
                None => engine.ask(id),
            }
        });
    }

    /// Leaves the operation alone until `over` is, and goes on with it then.
    fn pause_until(
        self: &Rc<Self>,
        id: OperationId,
        over: impl Future<Output = ()> + 'static,
        go_on: impl FnOnce(&Rc<Self>, Instant) + 'static,
    ) {
        self.with(id, |flight| flight.pausing = true);
        let engine = Rc::clone(self);
        tokio::task::spawn_local(async move {
            over.await;
            let now = clock::now();
            engine.see(now);
            engine.with(id, |flight| flight.pausing = false);
            go_on(&engine, now);
            engine.retire(id);
            engine.start_ready();
        });
    }

    /// The longest that the pause with this number may be. Whoever loses more often than a lock may has met others whose rounds
    /// take longer than such pauses, as of many keys or on slow machines: each then waits up to twice as long as before.
    ///
    /// It grows to a few rounds only, of which the last one took as long as `round`: who pauses for longer than others need lets
    /// them go first again and again.
    fn longest_pause(&self, number: u32, round: Duration) -> Duration {
        let doublings = number.saturating_sub(self.rules.split_vote_retries);
        let longest = self.split_vote_delay.saturating_mul(2_u32.saturating_pow(doublings));
        let enough = round.max(self.split_vote_delay).saturating_mul(ROUNDS_OF_A_PAUSE);
        longest.min(enough).min(LONGEST_PAUSE).max(self.split_vote_delay)
    }

    /// What to do if the client's patience has passed while the operation paused. Who has forgotten what masters said before
    /// has nothing to answer with: it asks for the last time.
    fn end_of_patience(&self, id: OperationId, now: Instant) -> Option<Next> {
        let rules = &self.rules;
        let next = self.with(id, |flight| {
            flight.is_over(now).then(|| flight.operation.deadline(rules, now, true))
        });
        next.flatten().filter(|next| !matches!(next.then, Then::Wait))
    }

    /// Whether masters may know soon what became of a program, while too few of them can be asked.
    fn may_be_told_later(&self, id: OperationId, now: Instant) -> bool {
        let is_patient = |flight: &mut Flight| {
            !flight.is_over(now) && matches!(flight.operation.kind, Kind::Program(_))
        };
        self.with(id, is_patient) == Some(true) && !self.rules.quorum.reached_by(self.voters())
    }

    /// Answers the client and ends the turn, once.
    fn reply(&self, id: OperationId, reply: Reply, end: turn::End) {
        let taken = self.with(id, |flight| {
            let target = flight.target.take()?;
            self.count_verdict(&flight.operation, &reply);
            self.count_time(flight, &target);
            self.remember_lease(&flight.operation);
            Some((target, flight.turn.take(), self.aftermath(flight, &reply)))
        });
        let Some((target, turn, aftermath)) = taken.flatten() else { return };
        let (is_noted, was_in_vain) = (aftermath.note.is_some(), aftermath.was_in_vain);
        self.follow_up(id, aftermath);
        let concerned = turn.map(|key| self.turns.borrow_mut().leave(key, end));
        if let Some(concerned) = concerned {
            for waiting in concerned.sharing {
                self.share(waiting, &reply);
            }
            self.hand_over(concerned.next, was_in_vain);
        }
        if is_noted {
            return self.deliver_behind_notes(target, reply);
        }
        target.deliver(reply);
    }

    pub(super) fn waits_since(&self, id: OperationId) {
        self.with(id, |flight| _ = flight.started_us.get_or_insert(self.stopwatch.us()));
    }

    fn count_time(&self, flight: &Flight, target: &Target) {
        if let Some(started_us) = flight.started_us {
            self.took(target, &flight.operation.key, started_us);
        }
    }

    /// Counts the time since `started_us` as that of the client's command.
    fn took(&self, target: &Target, key: &[u8], started_us: u64) {
        let Some(command) = target.command() else { return };
        let us = self.stopwatch.since(started_us);
        self.metrics.took(command, us);
        if self.slowlog.is_slow(us)
            && let (Some(spec), Some(client)) = (table::at(command), target.client())
        {
            let seconds = self.rules.unix_time.ms() / 1000;
            self.slowlog.note((spec.name, key), &client, us, seconds);
        }
    }

    fn count_verdict(&self, operation: &Operation, reply: &Reply) {
        if operation.is_only_a_part() {
            return;
        }
        let question = operation.question();
        let outcome = match reply {
            Reply::Error(error) if verdict::is_undecided(error) => Outcome::Undecided,
            Reply::Error(_) => Outcome::Refused,
            _ if question.is_about_a_change() && !operation.has_changed() => Outcome::Refused,
            _ => Outcome::Granted,
        };
        if (question, outcome) == (Question::Claim, Outcome::Refused) {
            self.metrics.contention.met(&operation.key);
        }
        self.metrics.verdict(question, outcome);
    }

    /// Forgets the operation once it is answered and nothing of it is on its way any more.
    fn retire(&self, id: OperationId) {
        let left = self.with(id, |flight| {
            let is_done = flight.outstanding == 0 && flight.target.is_none() && !flight.pausing;
            is_done.then(|| self.left(flight))
        });
        if let Some(left) = left.flatten() {
            self.leave(id, left);
            self.flights.borrow_mut().remove(id.slot as usize);
        }
    }

    fn with<T>(&self, id: OperationId, act: impl FnOnce(&mut Flight) -> T) -> Option<T> {
        let mut flights = self.flights.borrow_mut();
        let flight = flights.get_mut(id.slot as usize).filter(|f| f.serial == id.serial)?;
        Some(act(flight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ColdStart;
    use crate::masters::electorate::Terms;

    /// An engine that has no link to any of its masters.
    fn engine() -> Rc<Engine> {
        let rules = Rules::for_tests();
        let vote_timeout = rules.vote_timeout;
        let rules = Rules { patience: vote_timeout, ..rules };
        let cold_start = ColdStart::Trust;
        let terms = Terms { quorum: rules.quorum, restart_wait: vote_timeout, cold_start };
        let address = |port| format!("nowhere:{port}").parse().expect("an address");
        let addresses = (1..=3).map(address).collect();
        let electorate = Arc::new(Electorate::new(terms, 0.01, addresses));
        let metrics = Arc::new(Metrics::new(3));
        Engine::new(rules, vote_timeout, Vec::new(), electorate, metrics, Arc::default())
    }

    #[tokio::test]
    async fn pauses_grow_for_who_has_lost_more_often_than_a_lock_may() {
        let engine = engine();
        let pauses = |round| {
            [0, 1, 2, 3, 4, 5, 40].map(|number| engine.longest_pause(number, round).as_millis())
        };
        assert_eq!(pauses(Duration::from_secs(1)), [50, 100, 200, 400, 800, 1_000, 1_000]);
        assert_eq!(pauses(Duration::from_millis(1)), [50, 100, 100, 100, 100, 100, 100]);
        assert_eq!(pauses(Duration::from_millis(80)), [50, 100, 160, 160, 160, 160, 160]);
    }

    #[tokio::test]
    async fn a_task_awaits_the_reply_that_a_client_would_have_had() {
        let engine = engine();
        let kind = Kind::Everywhere(Box::default());
        let reply = engine.run(Operation { db: 0, key: Box::default(), kind }, 0);
        assert_eq!(engine.in_flight(), 0, "it has been sent before anybody awaits it");
        assert_eq!(reply.await, verdict::too_few_voters(engine.rules(), 0, ""));
    }
}
