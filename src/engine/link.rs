//! One pipelined connection from a worker to a master.
//!
//! Requests are appended to one buffer and written when the worker has nothing else to do, so that
//! all that was started in one turn of the event loop goes out in one system call. Replies come
//! back in the order of the requests and are matched with a queue of what is being waited for.
//!
//! ```text
//! Down --dial, probe, hello--> Up --error, silence, backlog--> Down (with backoff)
//! ```
//!
//! When a link goes down, everything it waited for is handed back as lost: unknown, not refused.
//!
//! An answer alone is no vote: each stretch of requests ends with a proof (`stretch`), and its answers are handed over
//! once that was read.

mod connect;
pub(super) mod stretch;
mod together;

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Engine;
use super::flight::OperationId;
use super::lane::Lane;
use super::reader::Reader;
use crate::config::{MasterAddr, Settings};
use crate::decision::quorum::MasterId;
use crate::decision::roster::mark::Seal;
use crate::decision::roster::term::Term;
use crate::lua::canonical::Canonical;
use crate::lua::keyspace;
use crate::lua::program::ProgramText;
use crate::lua::residents::Residents;
use crate::masters::dial::{CONNECT_TIMEOUT, Dial, Pauses};
use crate::masters::electorate::Electorate;
use crate::masters::facts::Facts;
use crate::masters::probe::ProbeError;
use crate::net::write::poll_flush;
use crate::operation::Heard;
use crate::operation::debts::{Debt, Deferred};
use crate::operation::request::{self, Form, Number};
use crate::resp::answer::Answer;
use crate::resp::flat::Malformed;
use crate::time::clock::{self, Instant};
use crate::time::clocks::Timekeeping;
use together::Gathered;

/// What a frame on a link was sent for.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The operation it belongs to.
    pub operation: OperationId,
    /// The operation's round.
    pub round: u8,
}

/// What the next reply answers.
#[derive(Debug)]
enum Expected {
    /// Its answer is a vote if it `is_due` and a proof comes behind it.
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
    /// What a transaction answers before its end.
    Part,
    /// What decides whether it forgets all programs.
    Flush,
    /// An in-band `SELECT`, which must not fail: what follows would go to another database.
    Select,
    Ping,
    /// The master's clock, asked for at this moment of [`UnixTime::elapsed_us`](crate::time::unix_time::UnixTime::elapsed_us).
    Time(i64),
    /// The end of a stretch: the mark of this database.
    Mark(Rc<Term>, u32),
}

/// Whether a reply that was read can be handed over.
enum Passed {
    /// It waits for the proof behind it.
    Waits,
    /// It can, with all that waited for it: as votes if they are proved.
    Ends(Option<Seal>),
}

/// Unanswered requests and unsent bytes a link may hold before it is torn down (bounded memory).
const MAX_BACKLOG: usize = 262_144;
const LEAST_BACKLOG_BYTES: usize = 32 << 20;

/// So many of the largest requests fit into a link's backlog.
const LARGEST_REQUESTS: usize = 8;

/// So many programs are remembered as loaded; beyond it all are loaded again when they are called.
const MAX_LOADED: usize = 4096;

/// A link is torn down when a master has been silent for so many vote timeouts, but not sooner
/// than [`LEAST_SILENCE`]: a fork or an fsync may take that long. Nor sooner than somebody may wait for it.
const SILENT_VOTE_TIMEOUTS: u32 = 10;
const LEAST_SILENCE: Duration = Duration::from_millis(500);

/// How long a master may be silent that owes an answer.
pub fn longest_silence(vote_timeout: Duration, patience: Duration) -> Duration {
    (vote_timeout * SILENT_VOTE_TIMEOUTS).max(LEAST_SILENCE).max(patience + patience / 4)
}

/// [`Link::heartbeat`]s in the time of silence that is allowed.
pub const HEARTBEATS: u32 = 5;

/// One link. Shared by the engine, which sends on it, and its own task, which does the I/O.
pub struct Link {
    master: MasterId,
    address: MasterAddr,
    silence: Duration,
    max_backlog_bytes: usize,
    residents: Arc<Residents>,
    electorate: Arc<Electorate>,
    up: Cell<bool>,
    lane: Rc<Lane>,
    /// The last flush of each database that the master has shown.
    flushes: RefCell<Vec<u64>>,
    /// How often it has shown another one.
    flushed: Cell<u64>,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    out: BytesMut,
    /// The database that the last request in `out` goes to.
    db: u32,
    /// Calls that come behind `out`.
    gathered: Option<Gathered>,
    expected: VecDeque<Expected>,
    /// Whether the process at the other end votes in this term.
    voted: Option<(Rc<Term>, bool)>,
    /// What was written last has no proof behind it yet.
    open: Option<Rc<Term>>,
    /// Replies that were read and wait for the proof behind them.
    passed: usize,
    /// The clock that the time that was read last continues, by when it was begun.
    continued: Option<u64>,
    clock: Timekeeping,
    /// SHA1s of the programs that the master was given over this connection.
    loaded: HashSet<String, foldhash::fast::RandomState>,
    /// The [generation](Residents::generation) to which they belong.
    generation: u64,
    deferred: Deferred,
    waker: Option<Waker>,
    /// Something has been read since the last heartbeat.
    heard: bool,
    silent_heartbeats: u32,
    /// Why the link must be torn down.
    broken: Option<&'static str>,
    facts: Option<Facts>,
    tried: bool,
    last_error: Option<String>,
    /// The master could be reached all the same: see [`Link::why_not_though_reached`].
    is_reached: bool,
}

/// Why a link went down.
#[derive(Debug, thiserror::Error)]
pub(super) enum Down {
    #[error("no answer within {}", humantime::format_duration(CONNECT_TIMEOUT))]
    ConnectTimeout,
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the master answered `{0}` to a new link")]
    Hello(String),
    #[error("it has {0} databases and others have {1}: give all masters the same `databases`")]
    FewerDatabases(u32, u32),
    #[error(
        "it is the same instance as {0}, which would then have two votes: name each master once"
    )]
    SameInstance(MasterAddr),
    #[error("it was restarted while it was asked who it is")]
    Restarted,
    #[error("{0}")]
    Broken(&'static str),
}

impl Down {
    /// Whether the master is there, but does not fit in with the others, or has said that it serves nobody.
    fn is_reached(&self) -> bool {
        match self {
            Self::SameInstance(_) | Self::FewerDatabases(..) | Self::Hello(_) => true,
            Self::Probe(ProbeError::WrongPassword) => true,
            Self::Probe(ProbeError::Refused(error)) => error.code().is_some(),
            _ => false,
        }
    }
}

impl Link {
    /// A link that is down; [`Link::run`] brings it up.
    pub fn new(
        master: MasterId,
        settings: &Settings,
        residents: Arc<Residents>,
        electorate: Arc<Electorate>,
    ) -> Rc<Self> {
        let largest = settings.max_request_bytes.saturating_mul(LARGEST_REQUESTS);
        Rc::new(Self {
            master,
            address: settings.masters[master.index()].clone(),
            silence: longest_silence(settings.vote_timeout, settings.patience()),
            max_backlog_bytes: largest.max(LEAST_BACKLOG_BYTES),
            residents,
            electorate,
            up: Cell::new(false),
            lane: Rc::default(),
            flushes: RefCell::default(),
            flushed: Cell::new(0),
            state: RefCell::default(),
        })
    }

    /// The master at the other end.
    pub fn master(&self) -> MasterId {
        self.master
    }

    /// Its address.
    pub fn address(&self) -> &MasterAddr {
        &self.address
    }

    /// The connection beside it, for what may be large.
    pub fn lane(&self) -> &Rc<Lane> {
        &self.lane
    }

    /// A vote of the master was not proved.
    pub(super) fn attend(&self) {
        self.electorate.attend(self.master);
    }

    /// Whether the master may vote.
    pub fn is_up(&self) -> bool {
        self.up.get()
    }

    /// What the master said about itself when the link to it was last made.
    pub fn facts(&self) -> Option<Facts> {
        self.state.borrow().facts.clone()
    }

    /// Whether an attempt to connect has ended, either way.
    pub fn was_tried(&self) -> bool {
        self.state.borrow().tried
    }

    /// Why the link is down.
    pub fn last_error(&self) -> Option<String> {
        self.state.borrow().last_error.clone()
    }

    /// Why the link is down though the master can be reached: it does not fit in with the others, or serves nobody.
    pub fn why_not_though_reached(&self) -> Option<String> {
        let state = self.state.borrow();
        state.last_error.clone().filter(|_| state.is_reached)
    }

    /// How many releases and rollbacks wait for the link to come back.
    pub fn deferred(&self) -> usize {
        self.state.borrow().deferred.count(clock::now())
    }

    /// How many were given up because too many waited.
    pub fn dropped(&self) -> u64 {
        self.state.borrow().deferred.dropped()
    }

    /// Whether a release or rollback waits, or was sent and not answered yet.
    pub fn owes(&self) -> bool {
        let is_debt = |expected: &Expected| matches!(expected, Expected::Deferred(_));
        self.deferred() > 0 || self.state.borrow().expected.iter().any(is_debt)
    }

    /// How long the interval between two [`Link::heartbeat`]s is.
    pub fn heartbeat_interval(&self) -> Duration {
        self.silence / HEARTBEATS
    }

    /// Appends an encoded request for database `db`; its reply will be handed to the engine. As a vote only if the
    /// master votes in this `term` and proves it.
    pub fn send(&self, db: u32, request: &[u8], waiting: Waiting, term: &Rc<Term>) {
        let is_due = term.proof(self.master, db).is_some() && self.votes_in(term);
        let expected = Expected::Operation { waiting, is_due };
        self.append(db, request, 0, expected, Some(term).filter(|_| is_due));
    }

    /// The same of a transaction that has so many replies before the one to its end.
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

    /// The same, behind the program that the request calls, if the master was not given that yet.
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

    /// Gives the master a program before it is called for the first time. It is not left to an answer of
    /// `NOSCRIPT`: what is sent after it must find it done.
    fn load(&self, program: &ProgramText) {
        self.keep_in_step();
        if self.state.borrow_mut().has_to_load(program) {
            self.append_words(&[b"SCRIPT", b"LOAD", &program.text], Expected::Load);
        }
    }

    /// The master has forgotten a program, and with it all others.
    pub fn forgot(&self) {
        self.state.borrow_mut().loaded.clear();
    }

    /// Forgets the programs that have lost their places, and lets the master forget them, unless another link does.
    pub fn keep_in_step(&self) {
        let generation = self.residents.generation();
        {
            let mut state = self.state.borrow_mut();
            if std::mem::replace(&mut state.generation, generation) == generation {
                return;
            }
            state.loaded.clear();
        }
        if self.residents.claim_flush(self.master, generation) {
            self.flush_scripts();
        }
    }

    /// Our own scripts are back before anybody can miss them, who may be another proxy.
    fn flush_scripts(&self) {
        self.append_words(&[b"MULTI"], Expected::Flush);
        self.append_words(&[b"SCRIPT", b"FLUSH", b"ASYNC"], Expected::Flush);
        let canonical = Canonical::ALL.iter().map(|script| script.text().as_bytes());
        let programs = self.residents.ours().iter().map(|program| &program.text[..]);
        let of_registers = keyspace::all().into_iter().map(|script| script.text.as_bytes());
        for text in canonical.chain(of_registers).chain(programs) {
            self.append_words(&[b"SCRIPT", b"LOAD", text], Expected::Load);
        }
        self.append_words(&[b"EXEC"], Expected::Flush);
    }

    /// A master that is busy with a script is asked again; one whose ACL forbids it is not.
    fn flush_answered(&self, answer: &Answer<'_>) {
        let Answer::Error(error) = answer else { return };
        let why = String::from_utf8_lossy(error);
        if !why.contains("NOPERM") {
            self.residents.flush_lost(self.master);
            self.state.borrow_mut().generation = 0;
        } else if self.residents.flush_refused() {
            tracing::warn!(
                master = %self.address,
                "the master does not forget scripts, so later ones run slower: {why}: allow MULTI, EXEC \
                 and SCRIPT FLUSH to the proxy there, and restart the proxy"
            );
        }
    }

    /// Whether requests have still to be written.
    pub fn has_unsent(&self) -> bool {
        self.state.borrow().has_unsent()
    }

    /// Tells the master, now or when the link is back, and again until it has done it.
    pub fn deliver(&self, debt: Debt) {
        if self.is_up() {
            return self.send_deferred(Box::new(debt), Form::Sha);
        }
        self.defer(debt);
    }

    fn defer(&self, debt: Debt) {
        self.state.borrow_mut().deferred.push(debt, clock::now());
    }

    /// Notices a master that has gone silent, keeps an idle link honest, and delivers what could not
    /// be delivered before.
    pub fn heartbeat(&self, term: &Rc<Term>) {
        if !self.is_up() {
            return;
        }
        self.send_all_deferred();
        self.residents.see(clock::now());
        self.keep_in_step();
        let mut state = self.state.borrow_mut();
        let silent = !state.expected.is_empty() && !state.heard;
        state.heard = false;
        state.silent_heartbeats = if silent { state.silent_heartbeats + 1 } else { 0 };
        if state.silent_heartbeats >= HEARTBEATS {
            self.break_down(&mut state, "it has stopped answering");
        } else if state.expected.is_empty() {
            drop(state);
            self.look(term);
        }
    }

    /// A master that is idle proves all the same that it remembers.
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

    /// For what belongs to no database.
    fn append_words(&self, words: &[&[u8]], expected: Expected) {
        let db = self.state.borrow().db;
        let mut request = Vec::new();
        request::encode(&mut request, words);
        self.append(db, &request, 0, expected, None);
    }

    /// `term`: a proof is due behind it. So many `parts` of the reply come before what is expected.
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
        state.expected.extend((0..parts).map(|_| Expected::Part));
        state.expected.push_back(expected);
        self.is_to_be_written(state);
    }

    /// What comes next goes to this database, and if there is a `term`, its answer may be a vote.
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
            self.break_down(state, "too many requests are waiting for it");
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

    /// Keeps the link up for ever.
    pub async fn run(self: Rc<Self>, dial: impl Dial, engine: Rc<Engine>) {
        let mut predecessor = None;
        loop {
            let mut pauses = Pauses::default();
            loop {
                let connected = self.connect(&dial, &mut predecessor, &engine);
                match tokio::time::timeout(CONNECT_TIMEOUT, connected).await {
                    Ok(Ok(stream)) => {
                        self.came_up();
                        let down = self.serve(stream, &engine).await;
                        self.went_down(&down, &engine);
                        break;
                    }
                    Ok(Err(down)) => self.not_up(&down),
                    Err(_) => self.not_up(&Down::ConnectTimeout),
                }
                tokio::time::sleep(pauses.another()).await;
            }
            // A connection that was lost at once must not be retried in a busy loop.
            tokio::time::sleep(Pauses::default().another()).await;
        }
    }

    /// The first thing on a new link is what the master has missed.
    fn came_up(&self) {
        {
            let mut state = self.state.borrow_mut();
            *state = State {
                deferred: std::mem::take(&mut state.deferred),
                facts: state.facts.take(),
                waker: state.waker.take(),
                clock: state.clock,
                tried: true,
                ..State::default()
            };
        }
        let deferred = self.send_all_deferred();
        self.keep_in_step();
        tracing::info!(master = %self.address, deferred, "the master is up");
        self.up.set(self.state.borrow().broken.is_none());
    }

    fn send_all_deferred(&self) -> usize {
        let deferred = self.state.borrow_mut().deferred.take(clock::now());
        let sent = deferred.len();
        for debt in deferred {
            self.send_deferred(Box::new(debt), Form::Sha);
        }
        sent
    }

    fn send_deferred(&self, debt: Box<Debt>, form: Form) {
        let mut request = Vec::new();
        debt.encode(form, &mut request);
        self.append(debt.db(), &request, 0, Expected::Deferred(debt), None);
    }

    fn not_up(&self, down: &Down) {
        let mut state = self.state.borrow_mut();
        let why = down.to_string();
        if state.last_error.as_ref() != Some(&why) {
            tracing::warn!(master = %self.address, "the master is down: {why}");
        }
        state.tried = true;
        state.is_reached = down.is_reached();
        state.last_error = Some(why);
    }

    /// Whatever was on its way is lost, and nobody knows whether it took effect.
    fn went_down(&self, down: &Down, engine: &Rc<Engine>) {
        self.up.set(false);
        self.not_up(down);
        let lost = {
            let state = &mut *self.state.borrow_mut();
            self.end_gathering(state);
            (state.out, state.open, state.passed) = (BytesMut::new(), None, 0);
            std::mem::take(&mut state.expected)
        };
        for expected in lost {
            match expected {
                Expected::Operation { waiting, .. } => engine.lost(self.master, waiting),
                Expected::Together { waiting, .. } => {
                    waiting.iter().for_each(|waiting| engine.lost(self.master, *waiting));
                }
                Expected::Deferred(debt) => self.defer(*debt),
                Expected::Flush => self.residents.flush_lost(self.master),
                Expected::Load | Expected::Select | Expected::Ping | Expected::Part => {}
                Expected::Time(_) | Expected::Mark(..) => {}
            }
        }
    }

    async fn serve(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        engine: &Rc<Engine>,
    ) -> Down {
        let mut reader = Reader::default();
        let mut stream = Pin::new(&mut stream);
        loop {
            let has_requests = State::has_unsent;
            let turn = poll_fn(|cx| {
                self.poll_read(stream.as_mut(), &mut reader, engine, has_requests, cx)
            });
            if let Err(down) = turn.await {
                return down;
            }
            // Clients that are being heard at this very moment get into the same system call.
            tokio::task::yield_now().await;
            let written = poll_fn(|cx| {
                if let Poll::Ready(Err(down)) =
                    self.poll_read(stream.as_mut(), &mut reader, engine, |_| false, cx)
                {
                    return Poll::Ready(Err(down));
                }
                let state = &mut *self.state.borrow_mut();
                self.close(state);
                let written = ready!(poll_flush(stream.as_mut(), &mut state.out, cx));
                Poll::Ready(written.map_err(Down::from))
            });
            if let Err(down) = written.await {
                return down;
            }
        }
    }

    /// Reads replies until there is nothing more to read; ready once `enough`, or when it is over.
    fn poll_read(
        &self,
        mut stream: Pin<&mut (impl AsyncRead + AsyncWrite)>,
        reader: &mut Reader,
        engine: &Rc<Engine>,
        enough: impl Fn(&State) -> bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Down>> {
        while let Poll::Ready(read) = reader.poll_read(stream.as_mut(), cx) {
            read?;
            self.state.borrow_mut().heard = true;
            self.replies(reader, engine)?;
        }
        let mut state = self.state.borrow_mut();
        if let Some(why) = state.broken {
            return Poll::Ready(Err(Down::Broken(why)));
        }
        if enough(&state) {
            state.waker = None;
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Takes replies as far as what they belong to is complete: those of a stretch wait for its proof.
    fn replies(&self, reader: &mut Reader, engine: &Rc<Engine>) -> Result<(), Down> {
        let now = clock::now();
        while let Some((answer, raw)) = reader.peek()? {
            let len = raw.len();
            let passed = self.pass(&answer, now)?;
            reader.pass(len);
            if let Passed::Ends(seal) = passed {
                self.hand_over(reader, engine, seal, now)?;
            }
        }
        Ok(())
    }

    /// Says whether a reply waits for what comes behind it.
    fn pass(&self, answer: &Answer<'_>, now: Instant) -> Result<Passed, Down> {
        let state = &mut *self.state.borrow_mut();
        let passed = match state.expected.get(state.passed) {
            None => return Err(Malformed.into()),
            Some(
                Expected::Operation { is_due: true, .. } | Expected::Together { is_due: true, .. },
            ) => Passed::Waits,
            Some(Expected::Time(sent_us)) => {
                let sent_us = *sent_us;
                self.read_time(state, sent_us, answer, now);
                Passed::Waits
            }
            Some(Expected::Mark(term, db)) => Passed::Ends(self.seal(term, *db, answer, state)),
            Some(_) if state.passed > 0 => Passed::Waits,
            Some(_) => Passed::Ends(None),
        };
        state.passed += 1;
        Ok(passed)
    }

    /// Hands over what was passed, proved by what was read behind it.
    fn hand_over(
        &self,
        reader: &mut Reader,
        engine: &Rc<Engine>,
        seal: Option<Seal>,
        now: Instant,
    ) -> Result<(), Down> {
        loop {
            let expected = {
                let state = &mut *self.state.borrow_mut();
                let Some(passed) = state.passed.checked_sub(1) else { return Ok(()) };
                state.passed = passed;
                state.expected.pop_front()
            };
            let (Some(expected), Some((answer, raw))) = (expected, reader.first()?) else {
                return Err(Malformed.into());
            };
            let len = raw.len();
            self.answered(engine, expected, Heard { answer: &answer, raw }, seal, now)?;
            reader.taken(len);
        }
    }

    fn answered(
        &self,
        engine: &Rc<Engine>,
        expected: Expected,
        heard: Heard<'_>,
        seal: Option<Seal>,
        now: Instant,
    ) -> Result<(), Down> {
        match expected {
            Expected::Operation { waiting, is_due } => {
                self.operation_answered(engine, waiting, heard, seal.filter(|_| is_due), now);
            }
            Expected::Together { waiting, is_due } => {
                let seal = seal.filter(|_| is_due);
                together::split(&waiting, heard, |waiting, heard| match heard {
                    Some(heard) => self.operation_answered(engine, waiting, heard, seal, now),
                    None => engine.has_to_go_alone(self.master, waiting),
                })?;
            }
            Expected::Deferred(debt) => self.deferred_answered(debt, heard.answer),
            Expected::Flush => self.flush_answered(heard.answer),
            Expected::Select if *heard.answer != Answer::Simple(b"OK") => {
                return Err(Down::Broken("it refused to select a database"));
            }
            Expected::Load | Expected::Select | Expected::Ping | Expected::Part => {}
            Expected::Time(_) | Expected::Mark(..) => {}
        }
        Ok(())
    }

    fn operation_answered(
        &self,
        engine: &Rc<Engine>,
        waiting: Waiting,
        heard: Heard<'_>,
        seal: Option<Seal>,
        now: Instant,
    ) {
        match seal {
            Some(seal) => engine.answered(waiting, seal.proves(heard), now),
            None => engine.overheard(self.master, waiting, heard, now),
        }
    }

    fn deferred_answered(&self, debt: Box<Debt>, answer: &Answer<'_>) {
        match answer {
            Answer::Error(error) if error.starts_with(b"NOSCRIPT") => {
                self.send_deferred(debt, Form::Text);
            }
            // A master without room for notes must not make this proxy forget what is owed to it.
            Answer::Error(_) if matches!(*debt, Debt::Note(_)) => {
                tracing::debug!(master = %self.address, "it cannot note which leases are over");
            }
            Answer::Error(_) => self.defer(*debt),
            _ => {}
        }
    }
}

#[cfg(test)]
impl Link {
    /// A link to the only master of a list, where nobody listens.
    pub(super) fn for_tests() -> Rc<Self> {
        use crate::lua::program::Ttls;
        let masters = vec!["127.0.0.1:6379".parse().expect("an address")];
        let settings = Settings::try_new(masters).expect("one master is enough");
        let residents = Arc::new(Residents::new(1, Ttls::of(&settings)));
        let electorate = Arc::new(Electorate::of(&settings));
        Self::new(MasterId::new(0), &settings, residents, electorate)
    }
}

impl State {
    fn has_unsent(&self) -> bool {
        !self.out.is_empty() || self.gathered.is_some()
    }

    /// Whether the master was not given this program yet. From now on it was.
    fn has_to_load(&mut self, program: &ProgramText) -> bool {
        if self.loaded.contains(&program.sha) {
            return false;
        }
        if self.loaded.len() >= MAX_LOADED {
            self.loaded.clear();
        }
        self.loaded.insert(program.sha.clone())
    }

    fn select(&mut self, db: u32) {
        let mut request = Vec::new();
        request::encode(&mut request, &[b"SELECT", Number::default().digits(i64::from(db))]);
        self.out.extend_from_slice(&request);
        self.expected.push_back(Expected::Select);
        self.db = db;
    }
}
