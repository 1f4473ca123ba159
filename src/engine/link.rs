//! One pipelined connection from a worker to a master.
//!
//! Requests are appended to one buffer and written when the worker has nothing else to do. So everything started in one
//! turn of the event loop goes out in one system call. Replies arrive in the order of the requests and are matched with
//! a queue of expected replies.
//!
//! ```text
//! Down --dial, probe, hello--> Up --error, silence, backlog--> Down (with backoff)
//! ```
//!
//! When a link goes down, everything it waited for is handed back as lost: unknown, not refused.
//!
//! An answer alone is no vote: each stretch of requests ends with a proof (`stretch`). The link hands over its answers
//! only after it has read that proof.

mod connect;
mod debts;
mod replies;
mod scripts;
mod stretch;
mod together;

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytes::BytesMut;

use super::OperationId;
use super::connection;
use super::lane::Lane;
use super::proof::Proofs;
use super::silence::{self, Silence};
use crate::config::{MasterAddr, Settings};
use crate::decision::quorum::MasterId;
use crate::decision::roster::term::Term;
use crate::lua::program::ProgramText;
use crate::lua::residents::Residents;
use crate::masters::electorate::Electorate;
use crate::masters::facts::Facts;
use crate::metrics::Flag;
use crate::operation::debts::{Debt, Deferred};
use crate::operation::request;
use crate::time::clock;
use together::Gathered;

/// The purpose of a frame on a link.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The operation it belongs to.
    pub operation: OperationId,
    /// The operation's round.
    pub round: u8,
}

/// The request that the next reply answers.
#[derive(Debug)]
enum Expected {
    /// Its answer is a vote if it `is_due` and a proof follows.
    Operation {
        waiting: Waiting,
        is_due: bool,
    },
    /// Several such answers in one.
    Together {
        waiting: Box<[Waiting]>,
        is_due: bool,
    },
    Deferred(Box<Debt>),
    /// A script that is loaded before it is first called.
    Load,
    /// A request in a transaction, before its end.
    Part,
    /// A part of the transaction in which the master forgets all programs.
    Flush,
    /// An in-band `SELECT`, which must not fail: later requests would go to another database.
    Select,
    Ping,
    /// The master's clock, requested at this moment of
    /// [`UnixTime::elapsed_us`](crate::time::unix_time::UnixTime::elapsed_us).
    Time(i64),
    /// The end of a stretch: the mark of this database.
    Mark(Rc<Term>, u32),
}

/// Maximum unanswered requests and unsent bytes before a link is torn down (bounded memory).
const MAX_BACKLOG: usize = 262_144;
const LEAST_BACKLOG_BYTES: usize = 32 << 20;

/// Number of largest requests that fit into a link's backlog.
const LARGEST_REQUESTS: usize = 8;

/// Reason why a link to a replaced instance ends.
const REPLACED: &str = "it was replaced";

/// One link. Shared by the engine, which sends on it, and its own task, which does the I/O.
pub struct Link {
    master: MasterId,
    heartbeat_interval: Duration,
    max_backlog_bytes: usize,
    residents: Arc<Residents>,
    proofs: Proofs,
    up: Arc<Flag>,
    lane: Rc<Lane>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    out: BytesMut,
    /// The database of the last request in `out`.
    db: u32,
    /// Calls to be written after `out`.
    gathered: Option<Gathered>,
    expected: VecDeque<Expected>,
    /// Whether the process at the other end votes in this term.
    voted: Option<(Rc<Term>, bool)>,
    /// The term of a stretch without a proof yet.
    open: Option<Rc<Term>>,
    /// Number of replies read that wait for their proof.
    passed: usize,
    /// The clock that the last `TIME` continues, named by its start.
    continued: Option<u64>,
    /// SHA1s of the programs loaded over this connection.
    loaded: HashSet<String, foldhash::fast::RandomState>,
    /// The [generation](Residents::generation) to which they belong.
    generation: u64,
    deferred: Deferred,
    waker: Option<Waker>,
    silence: Silence,
    /// Address that was dialled last.
    dialled: Option<MasterAddr>,
    /// Reason to tear the link down, if any.
    broken: Option<&'static str>,
    facts: Option<Facts>,
    tried: bool,
    last_error: Option<String>,
    /// Whether the master could be reached nevertheless: see [`Link::why_not_though_reached`].
    is_reached: bool,
}

impl Link {
    /// Creates a link that is down; [`Link::run`] brings it up. `up` shows others whether it is.
    pub fn new(
        master: MasterId,
        settings: &Settings,
        residents: Arc<Residents>,
        electorate: Arc<Electorate>,
        up: Arc<Flag>,
    ) -> Rc<Self> {
        let largest = settings.max_request_bytes.saturating_mul(LARGEST_REQUESTS);
        Rc::new(Self {
            master,
            heartbeat_interval: silence::heartbeat_interval(
                settings.vote_timeout,
                settings.patience(),
            ),
            max_backlog_bytes: largest.max(LEAST_BACKLOG_BYTES),
            residents,
            proofs: Proofs::new(master, electorate),
            up,
            lane: Rc::default(),
            state: RefCell::default(),
        })
    }

    /// Returns the master at the other end.
    pub fn master(&self) -> MasterId {
        self.master
    }

    /// Returns the master's current address; `None` if nobody has its place.
    pub fn address(&self) -> Option<MasterAddr> {
        self.proofs.electorate().address(self.master)
    }

    /// Resolves with the master's address, once there is one.
    pub async fn somebody(&self) -> MasterAddr {
        self.proofs.electorate().somebody_at(self.master).await
    }

    /// Returns the master's current address as text.
    pub fn name(&self) -> String {
        self.proofs.electorate().name(self.master)
    }

    /// Returns the second connection, for large answers.
    pub fn lane(&self) -> &Rc<Lane> {
        &self.lane
    }

    /// Returns the verifier of the master's proofs.
    pub(super) fn proofs(&self) -> &Proofs {
        &self.proofs
    }

    /// Returns the last flush of a database that the master has shown.
    pub fn last_flush(&self, db: u32) -> u64 {
        self.proofs.last_flush(db)
    }

    /// Returns how often the master has shown a different flush than before.
    pub fn flushed(&self) -> u64 {
        self.proofs.flushed()
    }

    /// Whether the link is up, so that the master may vote.
    pub fn is_up(&self) -> bool {
        self.up.holds()
    }

    /// Returns the master's own description of itself when the link was last established.
    pub fn facts(&self) -> Option<Facts> {
        self.state.borrow().facts.clone()
    }

    /// Whether an attempt to connect has ended, either way.
    pub fn was_tried(&self) -> bool {
        self.state.borrow().tried
    }

    /// Returns why the link is down.
    pub fn last_error(&self) -> Option<String> {
        self.state.borrow().last_error.clone()
    }

    /// Returns why the link is down although the master can be reached: it is incompatible with the others, or refuses
    /// service.
    pub fn why_not_though_reached(&self) -> Option<String> {
        let state = self.state.borrow();
        state.last_error.clone().filter(|_| state.is_reached)
    }

    /// Returns the interval between two [`Link::heartbeat`]s.
    pub fn heartbeat_interval(&self) -> Duration {
        self.heartbeat_interval
    }

    /// Appends an encoded request for database `db`, whose reply will be passed to the engine. It counts as a vote only
    /// if the master votes in this `term` and proves it.
    pub fn send(&self, db: u32, request: &[u8], waiting: Waiting, term: &Rc<Term>) {
        if !self.goes_on(db, request, waiting, term) {
            self.send_parts(0, db, request, waiting, term);
        }
    }

    /// Appends a request to the open stretch, if it belongs there, as most do.
    fn goes_on(&self, db: u32, request: &[u8], waiting: Waiting, term: &Rc<Term>) -> bool {
        let state = &mut *self.state.borrow_mut();
        let is_open = state.open.as_ref().is_some_and(|open| Rc::ptr_eq(open, term));
        if !is_open || state.db != db || state.gathered.is_some() {
            return false;
        }
        state.out.extend_from_slice(request);
        state.expected.push_back(Expected::Operation { waiting, is_due: true });
        self.is_to_be_written(state);
        true
    }

    /// Like [`Link::send`], for a transaction with `parts` replies before its last one.
    pub fn send_parts(
        &self,
        parts: usize,
        db: u32,
        request: &[u8],
        waiting: Waiting,
        term: &Rc<Term>,
    ) {
        let is_due = term.proof(self.master, db).is_some() && self.votes_in(term);
        let expected = Expected::Operation { waiting, is_due };
        self.append(db, request, parts, expected, Some(term).filter(|_| is_due));
    }

    /// Whether the process at the other end is the one that votes in this term.
    pub(super) fn votes_in(&self, term: &Rc<Term>) -> bool {
        let state = &mut *self.state.borrow_mut();
        match &state.voted {
            Some((known, votes)) if Rc::ptr_eq(known, term) => *votes,
            _ => {
                let run_id = state.facts.as_ref().map(|facts| &*facts.run_id).unwrap_or_default();
                let votes = term.is_process(self.master, run_id);
                state.voted = Some((Rc::clone(term), votes));
                votes
            }
        }
    }

    /// Like [`Link::send`], after the program that the request calls, unless the master has it already.
    pub fn send_program(
        &self,
        program: &ProgramText,
        db: u32,
        request: &[u8],
        waiting: Waiting,
        term: &Rc<Term>,
    ) {
        self.load(program);
        self.send(db, request, waiting, term);
    }

    /// Whether requests are still unwritten.
    pub fn has_unsent(&self) -> bool {
        self.state.borrow().has_unsent()
    }

    /// Detects a silent master, checks an idle link, and delivers deferred debts.
    pub fn heartbeat(&self, term: &Rc<Term>) {
        if !self.is_up() {
            return;
        }
        self.send_all_deferred();
        self.residents.see(clock::now());
        self.keep_in_step();
        let mut state = self.state.borrow_mut();
        let owes = !state.expected.is_empty();
        if state.silence.lasts_too_long(owes) {
            self.break_down(&mut state, "it has stopped answering");
        } else if !owes {
            drop(state);
            self.look(term);
        }
    }

    /// Tears the link down if it leads to an instance that was replaced.
    pub fn leave_replaced(&self) {
        if self.has_moved() {
            self.break_down(&mut self.state.borrow_mut(), REPLACED);
        }
    }

    /// Whether the master is still this process, as far as the link knows.
    pub(super) fn leads_to(&self, run_id: &str) -> bool {
        !self.has_moved() && self.facts().is_some_and(|facts| facts.run_id == run_id)
    }

    /// Whether the master was replaced since it was dialled.
    fn has_moved(&self) -> bool {
        self.state
            .borrow()
            .dialled
            .as_ref()
            .is_some_and(|dialled| Some(dialled) != self.address().as_ref())
    }

    /// Makes an idle master prove that it still remembers.
    fn look(&self, term: &Rc<Term>) {
        let db = self.state.borrow().db;
        if term.proof(self.master, db).is_none() || !self.votes_in(term) {
            return self.append_words(&[b"PING"], Expected::Ping);
        }
        let state = &mut *self.state.borrow_mut();
        self.open(state, term);
        self.close(state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Appends a request that depends on no database.
    fn append_words(&self, words: &[&[u8]], expected: Expected) {
        let db = self.state.borrow().db;
        let mut request = Vec::new();
        request::encode(&mut request, words);
        self.append(db, &request, 0, expected, None);
    }

    /// Appends a request. If there is a `term`, a proof is due after it. `parts` replies precede the expected one.
    fn append(
        &self,
        db: u32,
        request: &[u8],
        parts: usize,
        expected: Expected,
        term: Option<&Rc<Term>>,
    ) {
        let state = &mut *self.state.borrow_mut();
        self.goes_to(state, db, term);
        state.out.extend_from_slice(request);
        for _ in 0..parts {
            state.expected.push_back(Expected::Part);
        }
        state.expected.push_back(expected);
        self.is_to_be_written(state);
    }

    /// Prepares for a request to this database, whose answer may be a vote if there is a `term`.
    fn goes_to(&self, state: &mut State, db: u32, term: Option<&Rc<Term>>) {
        self.end_gathering(state);
        if state.db != db {
            self.close(state);
            state.select(db);
        }
        if let Some(term) = term {
            self.open(state, term);
        }
    }

    fn is_to_be_written(&self, state: &mut State) {
        if state.expected.len() > MAX_BACKLOG || state.out.len() > self.max_backlog_bytes {
            self.break_down(state, "too many requests are queued for it");
        } else if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn break_down(&self, state: &mut State, why: &'static str) {
        self.up.set(false);
        state.broken = Some(why);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl State {
    fn has_unsent(&self) -> bool {
        !self.out.is_empty() || self.gathered.is_some()
    }

    fn select(&mut self, db: u32) {
        self.out.extend_from_slice(&connection::select(db));
        self.expected.push_back(Expected::Select);
        self.db = db;
    }
}

#[cfg(test)]
impl Link {
    /// Returns a link to the only master of a list, at an address where nothing listens.
    pub(super) fn for_tests() -> Rc<Self> {
        use crate::lua::program::ScriptRules;
        let masters = vec!["127.0.0.1:6379".parse().expect("an address")];
        let settings = Settings::try_new(masters).expect("one master is enough");
        let residents = Arc::new(Residents::new(1, ScriptRules::of(&settings)));
        let electorate = Arc::new(Electorate::of(&settings));
        Self::new(MasterId::new(0), &settings, residents, electorate, Arc::default())
    }
}
