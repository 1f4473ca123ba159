//! Drives operations: sends their rounds, passes them the masters' answers, delivers their replies.
//!
//! * `flight`: an operation from its start until its last frame is answered;
//! * `panel`: the masters that are asked; `rounds` sends requests to them, `answers` processes the answers, `replies`
//!   answers the client; `deadlines`, `pauses`;
//! * `turns`: operations on one key run one after the other; `fair_waiting`: claims of clients that poll for a held key;
//! * [`link`]: the pipelined connection of a worker to a master; [`lane`]: a second one, for large answers;
//! * [`sequential`]: requests that go to one master after the other;
//! * `granted`, `take_back`, `wrap_up`: leases given back, claims taken back, and the end of a flight;
//! * `settling`, `comparing`, `sweeping`, `decided_stamps`: background work on registers.

mod announcements;
mod answers;
mod comparing;
pub mod connection;
mod deadlines;
mod decided_stamps;
mod fair_waiting;
mod flight;
mod granted;
pub mod lane;
mod lane_questions;
pub mod link;
mod newer_roster;
mod panel;
mod pauses;
mod proof;
pub mod reader;
mod replies;
mod rounds;
pub mod sequential;
mod settling;
pub mod silence;
mod stopwatch;
mod sweeping;
mod take_back;
mod turns;
mod wrap_up;

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::catalogue::error;
use crate::catalogue::reserved::is_reserved;
use crate::client::outbox::Target;
use crate::client::slowlog::Slowlog;
use crate::decision::quorum::MasterSet;
use crate::decision::quorum::pollers::Pollers;
use crate::decision::quorum::turn::{self, Turns};
use crate::decision::roster::term::Term;
use crate::engine::link::Link;
use crate::masters::electorate::Electorate;
use crate::metrics::Metrics;
use crate::operation::changed_keys::Changes;
use crate::operation::envelope::Stamps;
use crate::operation::program::Message;
use crate::operation::{Behaviour, Kind, Operation, Rules, verdict};
use crate::resp::reply::Reply;
use crate::time::clock::{self, Instant};
use deadlines::Deadlines;
use flight::{Flight, Flights, OperationId};
use granted::Later;
use panel::Panel;
use stopwatch::Stopwatch;

/// Maximum operations that start together: their requests wait for each other.
const MOST_BEGUN: usize = 32;

/// All operations of one worker, and their shared state.
pub struct Engine {
    /// Replaced when the number of seats changes. Operations in flight keep those of their beginning.
    rules: RefCell<Rc<Rules>>,
    split_vote_delay: Duration,
    links: Vec<Rc<Link>>,
    electorate: Arc<Electorate>,
    /// The worker's copy of the current term, with its edition.
    term: RefCell<(u64, Rc<Term>)>,
    metrics: Arc<Metrics>,
    slowlog: Arc<Slowlog>,
    stopwatch: Stopwatch,
    flights: Flights,
    turns: RefCell<Turns<OperationId>>,
    pollers: RefCell<Pollers<OperationId>>,
    /// Notified when a claim begins to wait that is the next to be woken.
    waits: Notify,
    hasher: foldhash::fast::RandomState,
    deadlines: Deadlines,
    stamps: Stamps,
    scratch: RefCell<Vec<u8>>,
    changes: Rc<Changes>,
    /// Messages held back by programs that may be published now.
    announcements: RefCell<Vec<Message>>,
    /// The engine of the first shard, on whose masters all messages are published, unless this is it.
    publisher: OnceCell<Rc<Self>>,
    /// Operations that start together ([`Engine::start_begun`]).
    #[allow(clippy::vec_box, reason = "a flight stays where it is on its way to its slot")]
    begun: RefCell<Vec<Box<Flight>>>,
    /// Notified when the first of them has begun.
    begins: Notify,
    /// Operations whose turn has come.
    ready: RefCell<VecDeque<OperationId>>,
    later: RefCell<Later>,
}

impl Engine {
    /// Creates an engine without operations.
    pub fn new(
        rules: Rules,
        split_vote_delay: Duration,
        links: Vec<Rc<Link>>,
        electorate: Arc<Electorate>,
        metrics: Arc<Metrics>,
        slowlog: Arc<Slowlog>,
    ) -> Rc<Self> {
        Rc::new(Self {
            split_vote_delay,
            links,
            electorate,
            term: RefCell::default(),
            metrics,
            slowlog,
            stopwatch: Stopwatch::new(),
            flights: Flights::default(),
            turns: RefCell::default(),
            pollers: RefCell::new(Pollers::new(rules.fair_waiting)),
            waits: Notify::new(),
            hasher: foldhash::fast::RandomState::default(),
            deadlines: Deadlines::default(),
            stamps: Stamps::default(),
            scratch: RefCell::default(),
            changes: Rc::default(),
            announcements: RefCell::default(),
            publisher: OnceCell::new(),
            begun: RefCell::default(),
            begins: Notify::new(),
            ready: RefCell::default(),
            later: RefCell::default(),
            rules: RefCell::new(Rc::new(rules)),
        })
    }

    /// Returns the facts on which decisions that begin now depend.
    pub fn rules(&self) -> Rc<Rules> {
        Rc::clone(&self.rules.borrow())
    }

    /// Returns the links to the masters, in the order of the list.
    pub fn links(&self) -> &[Rc<Link>] {
        &self.links
    }

    /// Returns the number of operations in flight.
    pub fn in_flight(&self) -> usize {
        self.flights.count()
    }

    /// Returns the fingerprint of a key, for turns and for the order within a session.
    pub fn fingerprint(&self, db: u32, key: &[u8]) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(db);
        hasher.write(key);
        hasher.finish()
    }

    /// Returns the electorate: which masters may vote, and why others may not.
    pub fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    /// Returns a shared handle to the electorate, for code that learns about masters.
    pub fn shared_electorate(&self) -> Arc<Electorate> {
        Arc::clone(&self.electorate)
    }

    /// Returns the current voters and their quorum: this worker's own copy, which costs nothing to share.
    pub fn term(&self) -> Rc<Term> {
        let (edition, term) = &mut *self.term.borrow_mut();
        let now = self.electorate.edition();
        if *edition != now {
            // Read after the edition, so the term may be newer; it is then read once more.
            (*edition, *term) = (now, Rc::new(Term::clone(&self.electorate.term())));
            self.rules().registers.see(now);
            self.count_seats(term);
        }
        Rc::clone(term)
    }

    /// Has operations that begin from now on decided by the quorum of this term.
    fn count_seats(&self, term: &Term) {
        let mut rules = self.rules.borrow_mut();
        if let Some(quorum) = term.quorum().filter(|quorum| *quorum != rules.quorum) {
            *rules = Rc::new(Rules { quorum, ..Rules::clone(&rules) });
        }
    }

    /// Returns the masters that may vote now.
    pub fn voters(&self) -> MasterSet {
        self.reachable().and(self.electorate.voters())
    }

    /// Returns the masters that receive requests now, voters or not.
    pub fn reachable(&self) -> MasterSet {
        self.links.iter().filter(|link| link.is_up()).map(|link| link.master()).collect()
    }

    /// Starts `operation` on the key with this [`Engine::fingerprint`]. Its reply goes to `target`, possibly before
    /// this returns.
    pub fn start(self: &Rc<Self>, operation: Operation, key: u64, target: Target) {
        self.begin(operation, key, target);
        self.start_begun();
    }

    /// Begins an operation that starts with others, at the next [`Engine::start_begun`] at the latest.
    ///
    /// Requests that arrive together are all read, and then all started. So the processor's caches need to hold the
    /// code of one of the two at a time, and all have the same panel.
    pub fn begin(self: &Rc<Self>, operation: Operation, key: u64, target: Target) {
        if operation.kind.has_too_many_keys() {
            return target.deliver(verdict::too_many_keys());
        }
        if self.is_elsewhere(&operation) {
            return target.deliver(error::CROSS_SLOT);
        }
        let mut flight = self.flights.begin(operation, target, self.rules());
        flight.turn = flight.operation.kind.turn().map(|_| key);
        let mut begun = self.begun.borrow_mut();
        begun.push(flight);
        match begun.len() {
            1 => self.begins.notify_one(),
            MOST_BEGUN => {
                drop(begun);
                self.start_begun();
            }
            _ => {}
        }
    }

    /// Resolves when an operation has begun while none had.
    pub async fn begins(&self) {
        self.begins.notified().await;
    }

    /// Starts what has begun.
    pub fn start_begun(self: &Rc<Self>) {
        let mut begun = std::mem::take(&mut *self.begun.borrow_mut());
        if begun.is_empty() {
            return;
        }
        let panel = self.panel();
        for flight in begun.drain(..) {
            self.start_flight(flight, &panel);
        }
        // Its memory is used again.
        *self.begun.borrow_mut() = begun;
        self.start_ready();
    }

    fn start_flight(self: &Rc<Self>, mut flight: Box<Flight>, panel: &Panel) {
        if !self.waits_to_ask(&mut flight) {
            match self.enter_turn(&flight) {
                turn::Entry::Now => self.take_turns(&mut flight, panel),
                turn::Entry::Wait => self.waits_since_now(&mut flight),
                turn::Entry::Full => {
                    flight.turn = None;
                    self.turn_away(&mut flight);
                }
            }
        }
        self.put_back(flight);
    }

    fn enter_turn(&self, flight: &Flight) -> turn::Entry {
        match (flight.turn, flight.operation.kind.turn()) {
            (Some(key), Some(kind)) => self.turns.borrow_mut().enter(key, flight.id, kind),
            _ => turn::Entry::Now,
        }
    }

    /// Whether another shard serves a key of the operation. Whatever a request looks like, masters see no such key.
    #[inline]
    fn is_elsewhere(&self, operation: &Operation) -> bool {
        let share = self.rules().share;
        let is_of_another = || {
            let is_channel = matches!(operation.kind, Kind::Channels(_));
            let is_key = !is_channel && !operation.key.is_empty() && !is_reserved(&operation.key);
            is_key && !share.includes(&operation.key) || operation.kind.leaves(share)
        };
        !share.is_all() && is_of_another()
    }

    /// Starts `operation` at once, for a task of this worker that awaits the reply.
    ///
    /// # Cancel safety
    /// Dropping the future is like a client that disconnects: a claim still waiting for its turn is abandoned, and
    /// requests already sent are completed.
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

    /// Sets the current time: operations started next begin at `now`.
    pub fn see(&self, now: Instant) {
        self.stopwatch.see(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ColdStart;
    use crate::masters::electorate::ElectorateTerms;
    use crate::operation::Kind;

    /// Returns an engine without links to its masters.
    pub(super) fn engine() -> Rc<Engine> {
        let rules = Rules::for_tests();
        let vote_timeout = rules.vote_timeout;
        let rules = Rules { patience: vote_timeout, ..rules };
        let cold_start = ColdStart::Trust;
        let are_new = false;
        let terms = ElectorateTerms {
            quorum: rules.quorum,
            restart_wait: vote_timeout,
            cold_start,
            are_new,
        };
        let address = |port| format!("nowhere:{port}").parse().expect("an address");
        let addresses = (1..=3).map(address).collect();
        let electorate = Arc::new(Electorate::new(terms, 0.01, addresses, 3));
        let metrics = Arc::new(Metrics::new(3));
        Engine::new(rules, vote_timeout, Vec::new(), electorate, metrics, Arc::default())
    }

    #[tokio::test]
    async fn a_task_awaits_the_reply_that_a_client_would_have_had() {
        let engine = engine();
        let kind = Kind::Everywhere(Box::default());
        let reply = engine.run(Operation { db: 0, key: Box::default(), kind }, 0);
        assert_eq!(engine.in_flight(), 0, "it has been sent before anybody awaits it");
        assert_eq!(reply.await, verdict::too_few_voters(&engine.rules(), 0, ""));
    }

    #[tokio::test]
    async fn what_has_begun_waits_for_what_comes_with_it_but_not_for_too_much() {
        let engine = engine();
        let mut replies = Vec::new();
        let mut begin = |engine: &Rc<Engine>| {
            let (target, reply) = Target::task();
            let kind = Kind::Everywhere(Box::default());
            engine.begin(Operation { db: 0, key: Box::default(), kind }, 0, target);
            replies.push(reply);
        };
        for begun in 1..MOST_BEGUN {
            begin(&engine);
            assert_eq!(engine.in_flight(), begun);
        }
        begin(&engine);
        assert_eq!(engine.in_flight(), 0, "enough has begun");
        begin(&engine);
        assert_eq!(engine.in_flight(), 1);
        engine.start_begun();
        assert_eq!(engine.in_flight(), 0);
        for reply in replies {
            let reply = reply.await.expect("a reply to each");
            assert_eq!(reply, verdict::too_few_voters(&engine.rules(), 0, ""));
        }
    }
}
