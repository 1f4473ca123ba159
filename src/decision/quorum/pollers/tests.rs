//! Properties of fair waiting: single rules first, then any order of events on one key.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

const KEY: u64 = 7;
const LONGEST: Duration = ms(5);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns pollers that have begun to ask in the order of their numbers, a millisecond apart.
fn pollers(count: u64) -> Pollers<u64> {
    let mut pollers = Pollers::new(LONGEST);
    (0..count).for_each(|poller| pollers.refused(KEY, poller, ms(poller)));
    pollers
}

#[test]
fn a_first_claim_does_not_wait() {
    let mut pollers = pollers(1);
    assert!(!pollers.arrives(KEY, 1, 1, ms(1)), "it was never refused");
    assert!(!pollers.arrives(KEY + 1, 0, 1, ms(1)), "nor was it on this key");
    assert!(pollers.arrives(KEY, 0, 1, ms(1)));
}

#[test]
fn a_poller_that_stops_asking_loses_its_place() {
    let mut pollers = pollers(2);
    pollers.refused(KEY, 1, ms(900));
    let late = ms(1500);
    assert!(!pollers.arrives(KEY, 0, 10, late));
    pollers.refused(KEY, 0, late);
    assert!(pollers.arrives(KEY, 0, 10, late) && pollers.arrives(KEY, 1, 11, late));
    assert_eq!(pollers.freed(KEY), Some(11), "it has asked since 1 ms, the other since 1500 ms");
}

#[test]
fn whoever_began_to_ask_first_asks_when_the_key_is_free() {
    let mut pollers = pollers(3);
    for poller in [2, 0, 1] {
        assert!(pollers.arrives(KEY, poller, poller, ms(10)));
    }
    assert_eq!(pollers.freed(KEY), Some(0));
    pollers.asks(KEY);
    assert_eq!(pollers.granted(KEY, 0, ms(11)), Some(ms(11)));
    let ended = pollers.answered(KEY, Outcome::Granted, ms(11));
    assert_eq!(ended, Ended::NOTHING, "the others go on waiting");
    assert_eq!(pollers.freed(KEY), Some(1));
}

#[test]
fn the_next_one_asks_if_the_first_one_has_gone() {
    let mut pollers = pollers(2);
    (0..2).for_each(|poller| assert!(pollers.arrives(KEY, poller, poller, ms(10))));
    assert_eq!(pollers.freed(KEY), Some(0));
    assert_eq!(pollers.answered(KEY, Outcome::Unknown, ms(10)).asks, Some(1));
}

#[test]
fn nobody_is_refused_by_an_answer_to_a_claim_that_was_sent_before_the_waiting() {
    let mut pollers = pollers(3);
    pollers.asks(KEY);
    assert!(pollers.arrives(KEY, 0, 0, ms(10)));
    pollers.refused(KEY, 2, ms(16));
    let ended = pollers.answered(KEY, Outcome::Refused, ms(16));
    assert_eq!(ended, Ended { refused: vec![], asks: Some(0) }, "its time is up, so it asks");
}

#[test]
fn one_claim_asks_for_all_whose_time_is_up() {
    let mut pollers = pollers(3);
    (0..3).for_each(|poller| assert!(pollers.arrives(KEY, poller, poller, ms(10))));
    assert_eq!(pollers.next(), Some(ms(15)));
    assert_eq!(pollers.wake(ms(14)), []);
    assert_eq!(pollers.wake(ms(15)), [Ended { refused: vec![], asks: Some(0) }]);
    pollers.asks(KEY);
    pollers.refused(KEY, 0, ms(16));
    let ended = pollers.answered(KEY, Outcome::Refused, ms(16));
    assert_eq!(ended, Ended { refused: vec![1, 2], asks: None });
    assert_eq!((pollers.waiting(), pollers.next()), (0, None));
}

#[test]
fn a_refusal_that_may_be_older_than_the_release_is_followed_by_another_claim() {
    let mut pollers = pollers(2);
    pollers.asks(KEY);
    assert!(pollers.arrives(KEY, 0, 0, ms(10)));
    assert_eq!(pollers.freed(KEY), None, "a claim is on its way already");
    pollers.refused(KEY, 1, ms(11));
    assert_eq!(pollers.answered(KEY, Outcome::Refused, ms(11)).asks, Some(0));
}

#[test]
fn a_claim_that_could_be_refused_waits_no_longer_than_others() {
    let mut pollers = pollers(1);
    assert!(!pollers.stays(KEY, 0, 1, ms(5), ms(10)));
    assert!(pollers.stays(KEY, 0, 1, ms(6), ms(10)));
    assert_eq!(pollers.wake(ms(11)), [Ended { refused: vec![1], asks: None }]);
}

#[test]
fn claims_can_leave() {
    let mut pollers = pollers(2);
    assert!(pollers.arrives(KEY, 0, 0, ms(10)) && pollers.stays(KEY, 1, 1, ms(9), ms(10)));
    assert_eq!(pollers.leaves(KEY, 0), Some(false));
    assert_eq!(pollers.leaves(KEY, 1), Some(true));
    assert_eq!(pollers.leaves(KEY, 1), None);
}

#[test]
fn pollers_are_bounded_and_forgotten() {
    let mut pollers = Pollers::<u64>::new(LONGEST);
    for poller in 0..=MAX_POLLERS as u64 {
        pollers.refused(poller % 3, poller, ms(1));
    }
    assert_eq!(pollers.known, MAX_POLLERS);
    pollers.refused(KEY, 0, ms(2000));
    assert_eq!((pollers.known, pollers.keys.len()), (1, 1));
}

#[test]
fn without_time_to_wait_nothing_is_kept() {
    let mut pollers = Pollers::<u64>::new(Duration::ZERO);
    pollers.refused(KEY, 0, ms(0));
    assert!(pollers.is_empty());
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A client claims the key, unless its last claim is unanswered.
    Claim(u64),
    /// The masters decide about the claim that was sent.
    Execute,
    /// Their answer arrives.
    Answer,
    /// The holder gives the key back through this worker.
    Release,
    /// It is given back, or taken, through another proxy.
    Elsewhere,
    /// The client of the claim that waits first sends another request.
    Leave,
    /// Milliseconds pass.
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..4_u64).prop_map(Event::Claim),
        3 => Just(Event::Execute),
        3 => Just(Event::Answer),
        2 => Just(Event::Release),
        1 => Just(Event::Elsewhere),
        1 => Just(Event::Leave),
        3 => (1..4_u64).prop_map(Event::Pass),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    Free,
    Client,
    Other,
}

/// A claim that was sent, and whether it was granted.
struct Sent {
    client: u64,
    granted: Option<bool>,
}

/// One worker with its clients, which take turns on one key.
struct World {
    pollers: Pollers<u64>,
    now: u64,
    holder: Holder,
    /// Times at which the key was held.
    held: Vec<u64>,
    /// First refusal of each client since it had the key or stopped asking.
    first: BTreeMap<u64, (u64, u64)>,
    /// Arrival of each unanswered claim.
    arrived: BTreeMap<u64, u64>,
    sent: Option<Sent>,
    line: VecDeque<u64>,
}

impl World {
    fn new() -> Self {
        Self {
            pollers: Pollers::new(LONGEST),
            now: 0,
            holder: Holder::Free,
            held: Vec::new(),
            first: BTreeMap::new(),
            arrived: BTreeMap::new(),
            sent: None,
            line: VecDeque::new(),
        }
    }

    /// Moves the clock by a tick, so that no two events are simultaneous.
    fn tick(&mut self) {
        self.now += 1;
        if self.holder != Holder::Free {
            self.held.push(self.now);
        }
    }

    fn at(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    fn happen(&mut self, event: Event) {
        self.tick();
        match event {
            Event::Claim(client) => self.claim(client),
            Event::Execute => self.execute(),
            Event::Answer => self.answer(),
            Event::Release if self.holder == Holder::Client && !self.is_told_late() => {
                self.holder = Holder::Free;
                let first = self.first_waiting().map(|client| self.first[&client].0);
                let asks = self.pollers.freed(KEY);
                if !self.is_asking() {
                    let asks = asks.map(|client| self.first[&client].0);
                    assert_eq!(asks, first, "the key is free and the first one asks");
                }
                asks.into_iter().for_each(|client| self.ask(client));
            }
            Event::Elsewhere if self.holder == Holder::Other => self.holder = Holder::Free,
            Event::Elsewhere if self.holder == Holder::Free => self.holder = Holder::Other,
            Event::Leave => {
                let Some(client) = self.first_waiting() else { return };
                match self.pollers.leaves(KEY, client).expect("it waits") {
                    true => self.refuse(client),
                    false => self.ask(client),
                }
            }
            Event::Pass(ms) => {
                for _ in 0..ms * 10 {
                    self.now += 99;
                    self.tick();
                    let ended = self.pollers.wake(self.at());
                    ended.into_iter().for_each(|ended| self.end(ended));
                }
            }
            _ => {}
        }
    }

    /// Whether the holder does not know yet that it has the key.
    fn is_told_late(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.granted == Some(true))
    }

    /// Whether a claim was sent and is unanswered.
    fn is_asking(&self) -> bool {
        self.sent.is_some()
    }

    fn first_waiting(&self) -> Option<u64> {
        let waiting = &self.pollers.keys.get(&KEY)?.waiting;
        waiting.iter().map(|waiting| waiting.who).min_by_key(|client| self.first[client].0)
    }

    fn claim(&mut self, client: u64) {
        if self.arrived.contains_key(&client) {
            return;
        }
        self.arrived.insert(client, self.now);
        if !self.pollers.arrives(KEY, client, client, self.at()) {
            self.ask(client);
        }
    }

    fn ask(&mut self, client: u64) {
        if self.is_asking() {
            return self.line.push_back(client);
        }
        self.sent = Some(Sent { client, granted: None });
        self.pollers.asks(KEY);
    }

    fn execute(&mut self) {
        let Some(sent) = self.sent.as_mut().filter(|sent| sent.granted.is_none()) else { return };
        sent.granted = Some(self.holder == Holder::Free);
        if self.holder == Holder::Free {
            self.holder = Holder::Client;
            self.held.push(self.now);
        }
    }

    fn answer(&mut self) {
        if self.sent.as_ref().is_none_or(|sent| sent.granted.is_none()) {
            return;
        }
        let Some(Sent { client, granted }) = self.sent.take() else { return };
        let granted = granted == Some(true);
        if granted {
            self.arrived.remove(&client);
            self.pollers.granted(KEY, client, self.at());
            self.first.remove(&client);
            // All that stood in line overlapped the winner.
            for client in std::mem::take(&mut self.line) {
                let arrived = Duration::from_micros(self.arrived[&client]);
                if !self.pollers.stays(KEY, client, client, arrived, self.at()) {
                    self.refuse(client);
                }
            }
        } else {
            self.refuse(client);
        }
        let outcome = if granted { Outcome::Granted } else { Outcome::Refused };
        let ended = self.pollers.answered(KEY, outcome, self.at());
        if let Some(client) = self.line.pop_front() {
            self.ask(client);
        }
        self.end(ended);
    }

    fn end(&mut self, ended: Ended<u64>) {
        ended.refused.into_iter().for_each(|client| self.refuse(client));
        ended.asks.into_iter().for_each(|client| self.ask(client));
    }

    fn refuse(&mut self, client: u64) {
        let arrived = self.arrived.remove(&client).expect("a claim is answered once");
        let was_held = self.held.iter().rev().take_while(|at| **at >= arrived).next().is_some();
        assert!(was_held, "a single Redis would have granted it");
        self.pollers.refused(KEY, client, self.at());
        let memory = (MEMORY + LONGEST).as_micros() as u64;
        let (first, last) = self.first.entry(client).or_insert((self.now, self.now));
        if self.now - *last > memory {
            *first = self.now;
        }
        *last = self.now;
    }

    /// Nobody is late, unless a claim is on its way, and nobody waits for a key that is known to be free.
    fn check(&self) {
        let Some(key) = self.pollers.keys.get(&KEY) else { return };
        if self.is_asking() {
            return;
        }
        assert!(key.is_held || key.waiting.is_empty(), "the key is free and somebody waits");
        let late = key.waiting.iter().any(|waiting| waiting.until + ms(1) < self.at());
        assert!(!late, "its time is up");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn waiting_is_true_fair_and_bounded(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
            world.check();
        }
        for _ in 0..20 {
            for event in [Event::Pass(1), Event::Execute, Event::Answer] {
                world.happen(event);
                world.check();
            }
        }
        prop_assert_eq!(world.arrived, BTreeMap::new(), "every claim has its answer");
    }
}
