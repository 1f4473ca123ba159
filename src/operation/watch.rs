//! `WATCH`: names what a quorum holds under a key now, for a later `EXEC` to compare
//! ([`super::register::ContentName`]).

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;

use super::Asked;
use super::Kind;
use super::Sent;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::changed_keys::Listener;
use super::program::{Program, Rendering};
use super::read::{LOOKS_AGAIN, may_look_again, round, waits_for_members};
use super::register::snapshot::{self, BEFORE, COMMANDS, FlushedBallot, Snapshot};
use super::register::stamp::{self, BALLOT};
use super::register::{ContentName, Place};
use super::request::Form;
use super::verdict::{Discarded, Trouble};
use super::{Next, Received, Rules, Then, settled_read};
use crate::client::outbox::Order;
use crate::decision::keyspace::reading::{Reading, Standing, Verdict, View};
use crate::decision::quorum::MasterId;
use crate::decision::register::ballot::Ballot;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// A key that a session watches.
#[derive(Debug)]
pub struct Watched {
    /// Database of the key.
    pub db: u32,
    /// The key.
    pub key: Box<[u8]>,
    /// The name of what a quorum holds; `None` while unknown.
    name: RefCell<Option<ContentName>>,
    /// Listener for changes by this worker, including leases that come and go.
    changes: Listener,
}

impl Watched {
    /// Creates a watched key whose contents are not known yet.
    pub fn new(db: u32, key: &[u8], changes: Listener) -> Rc<Self> {
        Rc::new(Self { db, key: key.into(), name: RefCell::default(), changes })
    }

    /// Returns its place, and the name of the contents that `EXEC` requires; `None`: `EXEC` must not run.
    pub fn expected(&self) -> (Place, Option<ContentName>) {
        let name = self.name.borrow().clone().filter(|_| !self.changes.has_heard());
        (self.place(), name)
    }

    /// Returns the name of what a quorum held at the last look, or `None` if unknown.
    pub fn seen(&self) -> Option<ContentName> {
        self.name.borrow().clone()
    }

    fn place(&self) -> Place {
        Place { db: self.db as u16, key: Bytes::copy_from_slice(&self.key) }
    }
}

/// A `WATCH` of one key.
#[derive(Debug)]
pub struct Watch {
    watched: Rc<Watched>,
    reading: Option<Reading<FlushedBallot, Bytes>>,
    names: Vec<(MasterId, ContentName)>,
    /// Whether members have yet to vote.
    may_grow: bool,
    /// Number of inconclusive looks.
    tried: u8,
    discarded: Discarded,
    /// Whether masters are out of memory, so that only a script can show the key.
    is_short: bool,
    trouble: Trouble,
}

/// Maximum looks after a quorum was made to agree, while others keep writing.
const MOST: u8 = LOOKS_AGAIN + 5;

/// The next step of a watch.
pub(super) enum Looked {
    /// A plain step.
    Next(Next),
    /// Run this program first, then look again.
    Settle(Box<Program>),
}

impl Watch {
    /// Creates a watch that finds out what `watched` holds.
    pub fn new(watched: Rc<Watched>) -> Self {
        Self {
            watched,
            reading: None,
            names: Vec::new(),
            may_grow: false,
            tried: 0,
            discarded: Discarded::default(),
            is_short: false,
            trouble: Trouble::default(),
        }
    }

    fn looked(&mut self, rules: &Rules, received: Received<'_>) -> Looked {
        let Received { master, answer, raw, .. } = received;
        if received.round != self.round() {
            return Looked::Next(Next::WAIT);
        }
        if self.discarded.notes(rules, master, answer) {
            (self.is_short, self.tried, self.reading) = (true, self.tried + 1, None);
            return Looked::Next(Next::then(Then::Ask));
        }
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let seen = answer.and_then(|_| self.seen(raw, rules.unix_time.micros() as u64));
        let Some(reading) = &mut self.reading else { return Looked::Next(Next::WAIT) };
        let (view, name) = seen.unzip();
        self.names.extend(name.flatten().map(|name| (master, name)));
        match reading.answer(master, view) {
            None => Looked::Next(Next::WAIT),
            Some(Verdict::Undecided) if waits_for_members(rules, self.may_grow, self.tried) => {
                Looked::Next(Next::WAIT)
            }
            Some(verdict) => self.decided(rules, verdict),
        }
    }

    fn waited(&mut self, rules: &Rules, is_last: bool) -> Looked {
        let Some(reading) = &self.reading else { return Looked::Next(Next::WAIT) };
        match reading.without_the_silent() {
            Verdict::TooFew if !is_last => Looked::Next(Next::WAIT),
            Verdict::Undecided
                if !is_last && waits_for_members(rules, self.may_grow, self.tried) =>
            {
                self.again()
            }
            Verdict::Undecided if !is_last && !rules.may_try_again(self.tried) => {
                Looked::Next(Next::WAIT)
            }
            verdict => self.decided(rules, verdict),
        }
    }

    /// Takes the next step. Where a look shows nothing decided, masters must first agree.
    fn go_on(&mut self, looked: Looked) -> Next {
        match looked {
            Looked::Next(next) => next,
            Looked::Settle(program) => {
                self.tried += 1;
                let settling = Settling { program, again: self.moved() };
                Next::go_on_as(Kind::Settling(Box::new(settling)))
            }
        }
    }

    /// Moves the watch, with all that it knows of the masters, into the operation that continues it.
    fn moved(&mut self) -> Self {
        let rest = Self::new(Rc::clone(&self.watched));
        std::mem::replace(self, rest)
    }

    fn seen(
        &self,
        raw: &[u8],
        now_us: u64,
    ) -> Option<(View<FlushedBallot, Bytes>, Option<ContentName>)> {
        let replies = flat::items(raw)?;
        let (mark, replies) = replies.split_first()?;
        let look = Snapshot::of(replies)?;
        let accepted = (snapshot::last_flush(flat::bulk(mark))?, look.sight.state.accepted);
        let name = |lives, lease| {
            let stamp = replies.first().and_then(|stamp| flat::bulk(stamp));
            Some(ContentName {
                changed: stamp.and_then(|stamp| self.last_change(stamp)),
                lives,
                lease,
            })
        };
        Some(match look.standing(now_us) {
            Standing::There => (View::Plain(accepted), name(true, None)),
            Standing::Absent(None) => (View::Plain(accepted), name(false, None)),
            Standing::Absent(Some(lease)) => {
                (View::Lease(accepted, lease.value.clone()), name(false, Some(lease.value)))
            }
            Standing::Unclear => (View::Unclear, None),
        })
    }

    fn last_change(&self, stamp: &[u8]) -> Option<Ballot> {
        let state = stamp::parse(stamp.get(BALLOT..)?, &self.watched.place())?;
        state.recent.last_change().filter(|_| state.accepted != Ballot::NONE)
    }

    fn decided(&mut self, rules: &Rules, verdict: Verdict) -> Looked {
        let is_complete = self.reading.as_ref().is_some_and(Reading::is_complete);
        let answered = self.reading.take().map_or(0, |reading| reading.answered());
        match verdict {
            Verdict::Plain(masters) | Verdict::Lease(masters) => {
                let name = self.names.iter().find(|(master, _)| masters.contains(*master));
                *self.watched.name.borrow_mut() = name.map(|(_, name)| name.clone());
                Looked::Next(Next::reply(Reply::OK))
            }
            Verdict::TooFew if !may_look_again(is_complete, &self.trouble, self.tried) => {
                self.undecided(rules, answered)
            }
            Verdict::Contested | Verdict::Undecided if !rules.may_try_again(self.tried) => {
                self.undecided(rules, answered)
            }
            Verdict::Settle if self.tried >= MOST => self.undecided(rules, answered),
            Verdict::Settle if self.tried >= LOOKS_AGAIN || !is_complete => {
                let key = || std::iter::once(&*self.watched.key);
                let words = [&b"EXISTS"[..]].into_iter().chain(key());
                let program = settled_read::program(rules, key(), words, Rendering::Own);
                Looked::Settle(program)
            }
            _ => self.again(),
        }
    }

    fn again(&mut self) -> Looked {
        (self.tried, self.reading) = (self.tried + 1, None);
        Looked::Next(Next::then(Then::Pause))
    }

    fn undecided(&self, rules: &Rules, answered: usize) -> Looked {
        Looked::Next(Next::reply(self.trouble.undecided(rules, answered)))
    }
}

impl Behaviour for Watch {
    fn order(&self) -> Order {
        Order::Read
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Read
    }

    fn round(&self) -> u8 {
        round(self.tried)
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        self.may_grow = asked.may_grow(rules);
        self.reading = Some(Reading::new(rules.quorum, asked.voters));
        self.discarded = Discarded::default();
        self.names.clear();
    }

    fn encode(&self, on: On<'_>, _: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        if self.is_short {
            return snapshot::without_queue(out, key);
        }
        snapshot::begin(out, std::iter::once(key));
        snapshot::end(out);
    }

    /// Returns how many replies precede the one that counts.
    fn parts(&self) -> usize {
        if self.is_short { 0 } else { BEFORE + COMMANDS }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let looked = self.looked(on.rules, received);
        self.go_on(looked)
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let looked = self.waited(on.rules, is_last);
        self.go_on(looked)
    }
}

/// A watch that makes masters agree on its key before it looks again.
#[derive(Debug)]
pub struct Settling {
    program: Box<Program>,
    again: Watch,
}

impl Settling {
    /// Looks again once masters have agreed; an error becomes the reply.
    fn go_on(&mut self, next: Next) -> Next {
        match &next.then {
            Then::Reply(reply, _) if !matches!(reply, Reply::Error(_)) => {
                Next::go_on_as(Kind::Watch(self.again.moved()))
            }
            _ => next,
        }
    }
}

impl Behaviour for Settling {
    fn order(&self) -> Order {
        Order::Read
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Read
    }

    fn round(&self) -> u8 {
        self.program.round()
    }

    fn sent(&self) -> Sent {
        self.program.text().map_or(Sent::Alone, Sent::Program)
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant) {
        self.program.ask(on, asked, now);
    }

    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        self.program.encode(on, form, out);
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let next = self.program.received(on, received);
        self.go_on(next)
    }

    fn deadline(&mut self, on: On<'_>, now: Instant, is_last: bool) -> Next {
        let next = self.program.deadline(on, now, is_last);
        self.go_on(next)
    }
}
