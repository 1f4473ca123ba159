//! Gives each client its next request and object, and records the result. All randomness is here.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::object::{Answer, Call, Kind, Object};
use super::server::Operation;
use crate::history::{Nanos, Outage, now};
use crate::orders::PATIENCE_MS;
use crate::traffic::Traffic;

/// The ledger shared by all clients of a test.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Mutex<Books>>);

/// Everything known about one test.
#[derive(Debug)]
pub(crate) struct Books {
    random: Rng,
    /// Servers that a client may ask.
    pub(crate) routes: Vec<String>,
    /// All objects, including those used up.
    pub(crate) objects: Vec<Object>,
    /// Indices in `objects` of those in use, one of each kind.
    in_use: Vec<usize>,
    /// Number of times that each client had to switch to another server.
    detours: Vec<usize>,
    pub(crate) outages: Vec<Outage>,
    pub(crate) ended: bool,
    given: u64,
}

/// Next request of a client.
#[derive(Debug, Serialize)]
pub(crate) struct Order {
    pub(crate) server: String,
    pub(crate) commands: Vec<Vec<String>>,
    /// Pause of the client afterwards.
    pub(crate) rest_ms: u64,
    pub(crate) patience_ms: u64,
    #[serde(skip)]
    object: usize,
    #[serde(skip)]
    call: usize,
}

impl Ledger {
    pub(crate) fn new(seed: u64, routes: Vec<String>, clients: usize, kinds: &[Kind]) -> Ledger {
        let objects = kinds.iter().copied().enumerate();
        Ledger(Arc::new(Mutex::new(Books {
            random: Rng::with_seed(seed),
            routes,
            objects: objects.map(|(number, kind)| Object::new(kind, number)).collect(),
            in_use: (0..kinds.len()).collect(),
            detours: vec![0; clients],
            outages: Vec::new(),
            ended: false,
            given: 0,
        })))
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().expect("nobody panics while writing")
    }

    /// Returns the next order of `client`, or `None` at the end. It counts as asked from now on.
    pub(crate) fn order(&self, client: usize) -> Option<Order> {
        let mut books = self.books();
        if books.ended {
            return None;
        }
        let object = books.choose();
        let Books { random, objects, given, .. } = &mut *books;
        let operation = objects[object].next(random, client, *given);
        Some(books.give(client, object, operation))
    }

    /// Returns an order that reads one object completely.
    pub(crate) fn look_at(&self, client: usize, object: usize) -> Order {
        let mut books = self.books();
        let look = books.objects[object].kind.look();
        books.give(client, object, look)
    }

    pub(crate) fn answer(&self, client: usize, order: &Order, answer: Answer) {
        let answered = now();
        let mut books = self.books();
        if matches!(answer, Answer::Lost(_) | Answer::NotSent(_)) {
            books.detours[client] += 1;
        } else if books.random.u8(..20) == 0 {
            // Otherwise all clients would stay with the proxy that was never down.
            books.detours[client] = 0;
        }
        books.objects[order.object].answer(order.call, answered, answer);
    }
}

impl Traffic for Ledger {
    async fn is_under_way(&self) {
        self.answers(1).await;
    }

    async fn goes_on_without_the_others(&self) {
        self.answers(4).await;
    }

    fn is_let_alone(&self) {}

    fn suffers(&self, outage: Outage) {
        self.books().outages.push(outage);
    }

    fn moves_to(&self, routes: Vec<String>) {
        self.books().routes = routes;
    }
}

impl Ledger {
    /// Waits, up to a limit, until this many more requests about each object have been answered.
    async fn answers(&self, count: usize) {
        let (from, limit) = (now(), Instant::now() + WAIT_FOR_ANSWERS);
        while self.books().answered_since(from) < count && Instant::now() < limit {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Books {
    /// Chooses an object in use, and replaces it by one with new keys if it is used up.
    fn choose(&mut self) -> usize {
        self.given += 1;
        let slot = self.random.usize(..self.in_use.len());
        let object = &self.objects[self.in_use[slot]];
        if object.is_used_up() {
            let new = Object::new(object.kind, self.objects.len());
            self.in_use[slot] = self.objects.len();
            self.objects.push(new);
        }
        self.in_use[slot]
    }

    fn give(&mut self, client: usize, object: usize, operation: Operation) -> Order {
        let route = (client + self.detours[client]) % self.routes.len();
        let bound = match &operation {
            Operation::Redisson(method) => self.objects[object].locked.server(method),
            _ => None,
        };
        let server = bound.unwrap_or(&self.routes[route]).clone();
        let commands = operation.commands(&self.objects[object].keys);
        let call = self.objects[object].ask(Call {
            client,
            server: server.clone(),
            operation,
            asked: now(),
            answered: Nanos::MAX,
            answer: Answer::Unanswered,
        });
        let rest_ms = self.random.u64(1..LONGEST_REST_MS);
        Order { server, commands, rest_ms, patience_ms: PATIENCE_MS, object, call }
    }

    /// Whether every client has asked something and knows the result. The first start of a client
    /// may have to install its packages, and the first call takes long in Java.
    pub(crate) fn is_everybody_present(&self) -> bool {
        let calls = || self.objects.iter().flat_map(|object| &object.calls);
        let has_come =
            |client| calls().any(|call| call.client == client && call.answer != Answer::Unanswered);
        (0..self.detours.len()).all(has_come)
    }

    /// Counts the answers to requests sent after `time`, for the object in use that has the fewest.
    fn answered_since(&self, time: Nanos) -> usize {
        let told = |call: &&Call| call.asked > time && matches!(call.answer, Answer::Told(_));
        let count = |at: &usize| self.objects[*at].calls.iter().filter(told).count();
        self.in_use.iter().map(count).min().expect("objects in use")
    }
}

/// Short enough that each object mostly has one or two clients at work.
const LONGEST_REST_MS: u64 = 30;

/// The fault strikes even if nothing is answered in this time.
const WAIT_FOR_ANSWERS: Duration = Duration::from_secs(6);
