//! Drives operations: sends their rounds, hands them the masters' answers, delivers their replies.
//!
//! An operation lives in a slab until every frame that was sent for it has been answered or given
//! up, which is usually after its client has had the reply: the verdict falls at the quorum, and
//! the last master's ballot still has to be taken off its link.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use slab::Slab;

use crate::client::outbox::Target;
use crate::client::reply::Reply;
use crate::clock::{self, Instant};
use crate::master::link::{Link, Part, Waiting};
use crate::master::reply::Answer;
use crate::operation::changes::{Changes, Listener};
use crate::operation::channels::{Channels, What};
use crate::operation::program::Message;
use crate::operation::request::Form;
use crate::operation::{Heard, Kind, Next, Operation, Received, Rules, Then, Undo, verdict};
use crate::pubsub::ChannelKind;
use crate::pubsub::audience::Ours;
use crate::pubsub::envelope::{self, Stamps};
use crate::quorum::turn::{self, Turns};
use crate::quorum::{MasterId, MasterSet};

/// Names an operation in the slab. The serial number tells it from a later one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationId {
    slot: u32,
    serial: u32,
}

/// All operations of one worker, and what they share.
pub struct Engine {
    rules: Rules,
    split_vote_delay: Duration,
    links: Vec<Rc<Link>>,
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
}

/// An operation in flight.
struct Flight {
    operation: Operation,
    serial: u32,
    /// The client that gets the reply, until it has been delivered.
    target: Option<Target>,
    /// Fingerprint of the key whose turn this operation holds.
    turn: Option<u64>,
    /// How many of [`Operation::turns`] it holds.
    turns: usize,
    /// Frames on links that have not been answered yet.
    outstanding: u16,
    /// Masters that were lost before they answered: it may have taken effect there.
    unsure: MasterSet,
    /// A pause after a split vote is running.
    pausing: bool,
    /// When the current round ends; `None` before the first.
    deadline: Option<Instant>,
}

impl Flight {
    fn leaves_behind(&self, master: MasterId) -> bool {
        self.operation.leaves_behind(master, self.unsure)
    }
}

impl Engine {
    /// An engine without operations.
    pub fn new(rules: Rules, split_vote_delay: Duration, links: Vec<Rc<Link>>) -> Rc<Self> {
        Rc::new(Self {
            rules,
            split_vote_delay,
            links,
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

    /// Hears of changes of keys with these fingerprints.
    pub fn changes_of(&self, keys: Vec<u64>) -> Listener {
        self.changes.listen(keys)
    }

    /// The masters that may vote now.
    pub fn voters(&self) -> MasterSet {
        self.links.iter().filter(|link| link.is_up()).map(|link| link.master()).collect()
    }

    /// Starts `operation` on the key with this [`Engine::fingerprint`]; its reply goes to `target`,
    /// perhaps before this returns.
    pub fn start(self: &Rc<Self>, operation: Operation, key: u64, target: Target) {
        let turn = operation.turn().map(|kind| (kind, key));
        let serial = self.serial.get().wrapping_add(1);
        self.serial.set(serial);
        let turn_key = turn.map(|(_, key)| key);
        let flight = Flight {
            operation,
            serial,
            target: Some(target),
            turn: turn_key,
            turns: 0,
            outstanding: 0,
            unsure: MasterSet::EMPTY,
            pausing: false,
            deadline: None,
        };
        let slot = self.flights.borrow_mut().insert(flight) as u32;
        let id = OperationId { slot, serial };
        let entry = turn
            .map_or(turn::Entry::Now, |(kind, key)| self.turns.borrow_mut().enter(key, id, kind));
        match entry {
            turn::Entry::Now => self.take_turns(id),
            turn::Entry::Wait => {}
            turn::Entry::Full => {
                self.with(id, |flight| flight.turn = None);
                self.turn_away(id);
            }
        }
        self.start_ready();
    }

    /// Asks the masters once the turns on all its keys are its own. They are taken one after the other,
    /// always in the same order, so that no two operations wait for each other.
    fn take_turns(&self, id: OperationId) {
        loop {
            let next = self.with(id, |flight| flight.operation.turns().get(flight.turns).copied());
            let Some(key) = next.flatten() else { return self.ask(id) };
            let entry = self.turns.borrow_mut().enter(key, id, turn::Kind::Alone);
            match entry {
                turn::Entry::Now => _ = self.with(id, |flight| flight.turns += 1),
                turn::Entry::Wait => return,
                turn::Entry::Full => return self.turn_away(id),
            }
        }
    }

    /// A turn that was waited for has come.
    fn go_on(&self, id: OperationId) {
        self.with(id, |flight| {
            let waited = flight.turns < flight.operation.turns().len();
            flight.turns += usize::from(waited && flight.deadline.is_none());
        });
        self.take_turns(id);
    }

    fn turn_away(&self, id: OperationId) {
        self.reply(id, verdict::too_many_waiting(), turn::End::Done);
        self.retire(id);
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
        self.start(operation, key, target);
        async { reply.await.expect("the engine delivers a reply to every operation") }
    }

    /// An operation that publishes `message`; `ours` are the subscribers that masters do not count.
    pub fn publication(
        &self,
        kind: ChannelKind,
        channel: &[u8],
        message: &[u8],
        ours: Ours,
    ) -> Operation {
        let sealed = envelope::seal(self.stamps.next(), message);
        let publish = Channels::new(What::Publish { kind, sealed, ours });
        Operation { db: 0, key: channel.into(), kind: Kind::Channels(Box::new(publish)) }
    }

    /// Publishes `message` at once; nobody waits to hear who got it.
    pub fn publish(self: &Rc<Self>, kind: ChannelKind, channel: &[u8], message: &[u8]) {
        let operation = self.publication(kind, channel, message, Ours::default());
        self.start(operation, self.fingerprint(0, channel), Target::nobody());
    }

    /// A master has answered what `waiting` stands for.
    pub fn answered(
        self: &Rc<Self>,
        master: MasterId,
        waiting: Waiting,
        heard: Heard<'_>,
        now: Instant,
    ) {
        if let Answer::Error(error) = heard.answer
            && error.starts_with(b"NOSCRIPT")
            && self.send_again(master, waiting)
        {
            return;
        }
        self.settle(master, waiting, Some(heard), now);
    }

    /// The link was lost before `waiting` was answered: whether it took effect is unknown.
    pub fn lost(self: &Rc<Self>, master: MasterId, waiting: Waiting) {
        self.settle(master, waiting, None, clock::now());
    }

    /// Ends every round whose deadline has come, and says when the next one will.
    pub fn expire(self: &Rc<Self>, now: Instant) -> Option<Instant> {
        loop {
            match self.deadlines.due(now) {
                Ok((id, round)) => self.deadline(id, round),
                Err(next) => return next,
            }
        }
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
        if self.is_overdue(waiting, now) {
            self.deadline(id, waiting.round);
        }
        let next = self.with(id, |flight| {
            flight.outstanding -= 1;
            match waiting.part {
                Part::Ballot => {
                    let round = waiting.round;
                    flight.operation.received(rules, Received { master, round, answer, raw, now })
                }
                Part::Undo => Next::WAIT,
            }
        });
        let Some(next) = next else { return };
        if matches!(answer, None | Some(Answer::Error(_))) {
            self.make_up_later(id, master, waiting.part, answer.is_some());
        }
        self.act(id, next);
        self.retire(id);
        self.start_ready();
    }

    /// The event loop may be so late that answers are read before their deadline is noticed. The pad
    /// on the masters covers one vote timeout and not more.
    fn is_overdue(&self, waiting: Waiting, now: Instant) -> bool {
        let overdue = self.with(waiting.operation, |flight| {
            flight.deadline.is_some_and(|deadline| now > deadline)
        });
        waiting.part == Part::Ballot && overdue == Some(true)
    }

    fn deadline(self: &Rc<Self>, id: OperationId, round: u8) {
        let rules = &self.rules;
        let next = self.with(id, |flight| {
            let current = flight.operation.round() == round && !flight.pausing;
            if current && flight.target.is_some() {
                flight.operation.deadline(rules)
            } else {
                Next::WAIT
            }
        });
        if let Some(next) = next {
            self.act(id, next);
            self.retire(id);
            self.start_ready();
        }
    }

    /// One after the other and not from within each other: thousands may be waiting for one key.
    fn start_ready(self: &Rc<Self>) {
        self.publish_announcements();
        loop {
            let next = self.ready.borrow_mut().pop_front();
            match next {
                Some(id) if self.is_abandoned(id) => {
                    self.reply(id, Reply::Nil, turn::End::Done);
                    self.retire(id);
                }
                Some(id) => self.go_on(id),
                None => return,
            }
        }
    }

    /// A claim whose client has gone while it waited: there is nobody to grant it to.
    fn is_abandoned(&self, id: OperationId) -> bool {
        let abandoned = self.with(id, |flight| {
            let gone = flight.target.as_ref().is_none_or(Target::is_closed);
            gone && flight.operation.needs_its_client()
        });
        abandoned == Some(true)
    }

    fn act(self: &Rc<Self>, id: OperationId, next: Next) {
        for master in next.undo.iter() {
            self.undo(id, master);
        }
        match next.then {
            Then::Wait => {}
            Then::Ask => self.ask(id),
            Then::Pause => self.pause(id),
            Then::Reply(reply, end) => self.reply(id, reply, end),
        }
    }

    /// Sends the current round to all voters; nothing is sent when they are too few.
    fn ask(&self, id: OperationId) {
        let excluded = self.with(id, |flight| flight.operation.excluded()).unwrap_or_default();
        let voters = self.voters().without(excluded);
        if let Some(reply) = self.too_few(id, voters) {
            self.abandon(id);
            self.reply(id, reply, turn::End::Lost);
            return self.retire(id);
        }
        let now = clock::now();
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let sent = self.with(id, |flight| {
            let operation = &mut flight.operation;
            operation.ask(&self.rules, voters, now);
            operation.encode(&self.rules, Form::Sha, &mut scratch);
            flight.outstanding += voters.len() as u16;
            flight.deadline = Some(now + self.rules.vote_timeout);
            let round = operation.round();
            let waiting = Waiting { operation: id, round, part: Part::Ballot };
            (operation.db, waiting, operation.program())
        });
        let Some((db, waiting, program)) = sent else { return };
        for master in voters.iter() {
            let link = &self.links[master.index()];
            if let Some(program) = &program {
                link.load(program);
            }
            link.send(db, &scratch, waiting);
        }
        self.deadlines.push(now + self.rules.vote_timeout, id, waiting.round);
    }

    /// The reply when there are not enough masters to ask.
    fn too_few(&self, id: OperationId, voters: MasterSet) -> Option<Reply> {
        let needs_quorum = self.with(id, |flight| flight.operation.needs_quorum())?;
        if needs_quorum {
            let enough = self.rules.quorum.reached_by(voters);
            (!enough).then(|| verdict::too_few_voters(&self.rules, voters.len()))
        } else {
            voters.is_empty().then(|| verdict::no_master(&self.rules))
        }
    }

    /// A second round (persisting, swapping) that finds too few voters leaves its first behind.
    fn abandon(&self, id: OperationId) {
        let undo = self.with(id, |flight| flight.operation.abandon());
        for master in undo.unwrap_or_default().iter() {
            self.undo(id, master);
        }
    }

    /// Takes the operation's effect back on `master`, now or when its link is back.
    fn undo(&self, id: OperationId, master: MasterId) {
        let link = &self.links[master.index()];
        if !link.is_up() {
            return self.defer(id, master);
        }
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let now = clock::now();
        let sent = self.with(id, |flight| {
            let round = flight.operation.round();
            let undo = Undo { master, round, now };
            flight.operation.encode_undo(&self.rules, &undo, Form::Sha, &mut scratch);
            if !scratch.is_empty() {
                flight.outstanding += 1;
            }
            (flight.operation.db, round)
        });
        if let (Some((db, round)), false) = (sent, scratch.is_empty()) {
            link.send(db, &scratch, Waiting { operation: id, round, part: Part::Undo });
        }
    }

    /// `master` has forgotten our script and gets its text, if its answer still matters. What has
    /// been decided is sent again only to catch up with the others, and not once anything else was sent
    /// that touches the same keys: a lock that has been released since would come back.
    fn send_again(&self, master: MasterId, waiting: Waiting) -> bool {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        let round = waiting.round;
        let undo = Undo { master, round, now: clock::now() };
        let may_catch_up = self.may_catch_up(master, waiting);
        let db = self.with(waiting.operation, |flight| {
            let operation = &flight.operation;
            let matters = flight.target.is_some() && round == operation.round() && !flight.pausing;
            match waiting.part {
                Part::Undo => operation.encode_undo(&self.rules, &undo, Form::Text, &mut scratch),
                Part::Ballot if matters || operation.must_arrive() || may_catch_up => {
                    operation.encode(&self.rules, Form::Text, &mut scratch);
                }
                Part::Ballot => {}
            }
            (operation.db, operation.program())
        });
        let Some((db, program)) = db else { return false };
        if let Some(program) = program {
            self.links[master.index()].forgot(&program);
        }
        if !scratch.is_empty() {
            self.links[master.index()].send(db, &scratch, waiting);
        }
        !scratch.is_empty()
    }

    /// Whether a program that has won without `master` may still be run there: everything that was sent
    /// after it is still waiting on the link.
    fn may_catch_up(&self, master: MasterId, waiting: Waiting) -> bool {
        let keys = |flight: &mut Flight| {
            let own = self.fingerprint(flight.operation.db, &flight.operation.key);
            let mut keys = flight.operation.turns().to_vec();
            keys.push(own);
            (keys, flight.operation.catches_up() && waiting.round == flight.operation.round())
        };
        let Some((own, true)) = self.with(waiting.operation, keys) else { return false };
        let later = self.links[master.index()].operations();
        later.into_iter().all(|id| {
            let others = self.with(id, keys);
            others.is_none_or(|(others, _)| others.iter().all(|key| !own.contains(key)))
        })
    }

    /// A master that was lost before it answered, or could not do it, gets later what it missed.
    /// Only a release is sure to have been missed by a master that `answered` with an error.
    fn make_up_later(&self, id: OperationId, master: MasterId, part: Part, answered: bool) {
        let needed = self.with(id, |flight| match part {
            Part::Undo => true,
            Part::Ballot if answered && !flight.operation.must_arrive() => false,
            Part::Ballot => {
                flight.unsure.insert(master);
                flight.target.is_none() && flight.leaves_behind(master)
            }
        });
        if needed == Some(true) {
            self.defer(id, master);
        }
    }

    fn defer(&self, id: OperationId, master: MasterId) {
        let debt = self.with(id, |flight| flight.operation.debt(master)).flatten();
        if let Some(debt) = debt.and_then(|debt| debt.for_later(clock::now())) {
            self.links[master.index()].defer(debt);
        }
    }

    /// A split vote: wait a random time, so that those who split it do not meet again.
    fn pause(self: &Rc<Self>, id: OperationId) {
        self.with(id, |flight| flight.pausing = true);
        let longest_ms = self.split_vote_delay.as_millis().max(1) as u64;
        let pause = Duration::from_millis(fastrand::u64(1..=longest_ms));
        let engine = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(pause).await;
            engine.with(id, |flight| {
                flight.pausing = false;
                flight.operation.resume();
            });
            engine.ask(id);
            engine.start_ready();
        });
    }

    /// Answers the client and ends the turn, once.
    fn reply(&self, id: OperationId, reply: Reply, end: turn::End) {
        let taken = self.with(id, |flight| (flight.target.take(), flight.turn.take()));
        let Some((Some(target), turn)) = taken else { return };
        self.make_up(id);
        self.leave_turns(id);
        self.tell_changes(id);
        self.announce(id);
        let concerned = turn.map(|key| self.turns.borrow_mut().leave(key, end));
        if let Some(concerned) = concerned {
            for waiting in concerned.sharing {
                self.share(waiting, &reply);
            }
            self.ready.borrow_mut().extend(concerned.next);
        }
        target.deliver(reply);
    }

    /// Publishes what a program has held back, now that a quorum agrees.
    fn announce(&self, id: OperationId) {
        let messages = self.with(id, |flight| flight.operation.messages());
        self.announcements.borrow_mut().extend(messages.unwrap_or_default());
    }

    fn publish_announcements(self: &Rc<Self>) {
        let messages = std::mem::take(&mut *self.announcements.borrow_mut());
        for Message { shard, channel, payload } in messages {
            let kind = if shard { ChannelKind::Shard } else { ChannelKind::Plain };
            self.publish(kind, &channel, &payload);
        }
    }

    fn tell_changes(&self, id: OperationId) {
        if self.changes.is_unheard() {
            return;
        }
        let changed = self.with(id, |flight| flight.operation.changed_keys());
        for (db, key) in changed.unwrap_or_default() {
            self.changes.tell(self.fingerprint(db, &key));
        }
    }

    fn leave_turns(&self, id: OperationId) {
        let held = self.with(id, |flight| {
            let held = std::mem::take(&mut flight.turns);
            flight.operation.turns()[..held].to_vec()
        });
        for key in held.unwrap_or_default() {
            let concerned = self.turns.borrow_mut().leave(key, turn::End::Done);
            self.ready.borrow_mut().extend(concerned.next);
        }
    }

    /// Masters that could not be asked, or were lost before they answered, may hold what the client
    /// is about to be told is gone. One that has come back in the meantime gets it at once.
    fn make_up(&self, id: OperationId) {
        for link in &self.links {
            let master = link.master();
            let left = self.with(id, |flight| {
                let missed = !link.is_up() || flight.unsure.contains(master);
                missed && flight.leaves_behind(master)
            });
            if left == Some(true) {
                self.undo(id, master);
            }
        }
    }

    /// A claim that waited while another one decided its fate.
    fn share(&self, id: OperationId, reply: &Reply) {
        let taken = self.with(id, |flight| {
            flight.turn = None;
            (flight.target.take(), flight.operation.shared(reply))
        });
        if let Some((Some(target), reply)) = taken {
            target.deliver(reply);
        }
        self.retire(id);
    }

    /// Forgets the operation once it is answered and nothing of it is on its way any more.
    fn retire(&self, id: OperationId) {
        let done = self.with(id, |f| f.outstanding == 0 && f.target.is_none() && !f.pausing);
        if done == Some(true) {
            self.flights.borrow_mut().remove(id.slot as usize);
        }
    }

    fn with<T>(&self, id: OperationId, act: impl FnOnce(&mut Flight) -> T) -> Option<T> {
        let mut flights = self.flights.borrow_mut();
        let flight = flights.get_mut(id.slot as usize).filter(|f| f.serial == id.serial)?;
        Some(act(flight))
    }
}

/// The deadlines of all rounds. Every round has the same time, so they end in the order in which
/// they began and a queue does.
#[derive(Default)]
struct Deadlines {
    queue: RefCell<VecDeque<(Instant, OperationId, u8)>>,
    set: tokio::sync::Notify,
}

impl Deadlines {
    fn push(&self, at: Instant, id: OperationId, round: u8) {
        let mut queue = self.queue.borrow_mut();
        if queue.is_empty() {
            self.set.notify_one();
        }
        queue.push_back((at, id, round));
    }

    /// The next round whose deadline has come, or else when the next one will.
    fn due(&self, now: Instant) -> Result<(OperationId, u8), Option<Instant>> {
        let mut queue = self.queue.borrow_mut();
        let Some(&(at, id, round)) = queue.front() else { return Err(None) };
        if at > now {
            return Err(Some(at));
        }
        queue.pop_front();
        Ok((id, round))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::everywhere::{Everywhere, What};
    use crate::quorum::Quorum;
    use crate::quorum::validity::Pad;

    /// An engine that has no link to any of its masters.
    fn engine() -> Rc<Engine> {
        let vote_timeout = Duration::from_millis(50);
        let rules = Rules {
            quorum: Quorum::of(3),
            pad: Pad::new(vote_timeout, 0.01),
            vote_timeout,
            split_vote_retries: 0,
        };
        Engine::new(rules, vote_timeout, Vec::new())
    }

    #[tokio::test]
    async fn a_task_awaits_the_reply_that_a_client_would_have_had() {
        let engine = engine();
        let kind = Kind::Everywhere(Box::new(Everywhere::new(What::Count)));
        let reply = engine.run(Operation { db: 0, key: Box::default(), kind }, 0);
        assert_eq!(engine.in_flight(), 0, "it has been sent before anybody awaits it");
        assert_eq!(reply.await, verdict::too_few_voters(engine.rules(), 0));
    }
}
