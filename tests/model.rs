//! Promise 1 by exhaustion: every order in which requests, replies, losses, restarts and the passing of time can
//! come, for two or three clients at two proxies before three masters, decided by the code that really decides
//! ([`Claim`], [`Probation`]). What surrounds it is modelled: links are FIFO and may be cut at any time, with
//! all that is on its way in either direction, keys expire, masters forget, and voting masters remind them.
//!
//! A model that cannot fail proves nothing. With probation switched off it has to find the classic double grant.

use std::collections::VecDeque;
use std::time::Duration;

use redlock_proxy::clock::{self, Instant};
use redlock_proxy::master::facts::Facts;
use redlock_proxy::master::probation::{ColdStart, Probation, Terms};
use redlock_proxy::quorum::claim::{Claim, Next, Step, Vote};
use redlock_proxy::quorum::{MasterId, MasterSet, Quorum};
use stateright::{Checker, HasDiscoveries, Model, Property};

/// One tick of the model's clock, and the vote timeout.
const TICK: Duration = Duration::from_secs(1);
/// For so many ticks a client holds a lock; masters keep it for the vote timeout longer (the pad).
const LEASE: u8 = 3;
const PADDED: u8 = LEASE + 1;
const MASTERS: usize = 3;

/// What may happen, and how often.
#[derive(Clone, Debug)]
struct World {
    clients: usize,
    /// How often each client claims.
    attempts: u8,
    restarts: u8,
    cuts: u8,
    duplicates: u8,
    /// How often a split vote is tried again.
    retries: u32,
    /// Whether every reply is heard as soon as it is given.
    prompt: bool,
    /// Whether holders release.
    releases: bool,
    /// The last tick.
    end: u8,
    /// Whether masters that forget are on probation.
    distrusts: bool,
    start: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    masters: [Master; MASTERS],
    clients: Vec<Client>,
    /// From the proxy of each client to each master, and back.
    links: Vec<[Link; MASTERS]>,
    probation: Probation,
    restarts: u8,
    cuts: u8,
    duplicates: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Master {
    /// The token that is held, and the tick at which it expires.
    held: Option<(Token, u8)>,
    /// How often it was restarted, and when the last time.
    life: u8,
    /// Something has happened to it.
    touched: bool,
}

/// Client and attempt.
type Token = (usize, u8);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    attempt: u8,
    claim: Option<Claim>,
    /// The tick at which its round ends.
    deadline: u8,
    /// The tick at which the lease ends that it believes in.
    holds_until: Option<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Link {
    requests: VecDeque<Request>,
    replies: VecDeque<Reply>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Claim(Token, u8),
    /// Compare and delete: a release or a rollback.
    Delete(Token),
}

/// To a claim: which, of which round, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reply(Token, u8, Vote);

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Tick,
    Start(usize),
    /// The pause after a split vote is over.
    Again(usize),
    Execute(usize, usize),
    Hear(usize, usize),
    HearTwice(usize, usize),
    Deadline(usize),
    Release(usize),
    Cut(usize, usize),
    Restart(usize),
    Remind(usize),
}

impl World {
    fn small(distrusts: bool) -> Self {
        let start = clock::now();
        Self {
            clients: 2,
            attempts: 1,
            restarts: 1,
            cuts: 0,
            duplicates: 0,
            retries: 0,
            prompt: true,
            releases: false,
            end: 2,
            distrusts,
            start,
        }
    }

    fn instant(&self, tick: u8) -> Instant {
        self.start + TICK * u32::from(tick)
    }

    fn facts(&self, master: usize, life: u8, now: u8) -> Facts {
        Facts {
            run_id: format!("{master} {life}"),
            version: String::new(),
            role: String::new(),
            persistence: String::new(),
            eviction: String::new(),
            databases: 16,
            uptime: Duration::ZERO,
            bar: None,
            is_durable: !self.distrusts,
            losses: 0,
            at: self.instant(now),
        }
    }

    /// Sends what a claim asks for, and takes note of its end.
    fn act(&self, state: &mut State, client: usize, next: Next) {
        let token = (client, state.clients[client].attempt);
        for master in next.undo.iter() {
            state.links[client][master.index()].requests.push_back(Request::Delete(token));
        }
        match next.step {
            Step::Granted => state.clients[client].holds_until = Some(state.now + LEASE),
            Step::Held | Step::Unavailable { .. } | Step::Wait | Step::Pause => {}
            Step::Persist => unreachable!("all locks of the model have a TTL"),
        }
    }

    /// To all masters, also to those that may not vote; nothing is sent without a quorum of voters.
    fn ask(&self, state: &mut State, client: usize) {
        let voters = state.probation.voters();
        let quorum = Quorum::of(MASTERS);
        let deadline = self.instant(state.now + 1);
        state.clients[client].deadline = state.now + 1;
        let token = (client, state.clients[client].attempt);
        let claim = &mut state.clients[client].claim;
        if !quorum.reached_by(voters) {
            if let Some(claim) = claim {
                let undo = claim.abandon();
                self.act(state, client, Next { undo, step: Step::Wait });
            }
            return;
        }
        match claim {
            Some(claim) => claim.ask(voters, deadline),
            None => *claim = Some(Claim::new(quorum, voters, deadline, self.retries)),
        }
        let round = claim.as_ref().map_or(0, Claim::round);
        for link in &mut state.links[client] {
            link.requests.push_back(Request::Claim(token, round));
        }
    }

    fn hear(&self, state: &mut State, client: usize, master: usize, reply: Reply) {
        let Reply((_, attempt), round, vote) = reply;
        let now = self.instant(state.now);
        // A claim of an earlier attempt has been decided long ago; its late yes is rolled back.
        if attempt != state.clients[client].attempt {
            if vote == Vote::Taken {
                let request = Request::Delete((client, attempt));
                state.links[client][master].requests.push_back(request);
            }
            return;
        }
        let Some(claim) = &mut state.clients[client].claim else { return };
        let next = claim.vote(round, MasterId::new(master), vote, now);
        self.act(state, client, next);
    }

    fn hear_first(&self, state: &mut State, client: usize, master: usize) {
        if let Some(reply) = state.links[client][master].replies.pop_front() {
            self.hear(state, client, master, reply);
        }
    }

    /// All that is on its way is lost, and counts as unknown. Rollbacks are kept for later.
    fn cut(&self, state: &mut State, client: usize, master: usize) {
        let lost = std::mem::take(&mut state.links[client][master]);
        let owed = lost.requests.iter().filter(|request| matches!(request, Request::Delete(_)));
        state.links[client][master].requests.extend(owed);
        let asked = lost.requests.iter().filter_map(|request| match request {
            Request::Claim(token, round) => Some((*token, *round)),
            Request::Delete(_) => None,
        });
        let unheard = lost.replies.iter().map(|Reply(token, round, _)| (*token, *round));
        for (token, round) in unheard.chain(asked).collect::<Vec<_>>() {
            self.hear(state, client, master, Reply(token, round, Vote::Unknown));
        }
    }
}

impl State {
    fn expire(&mut self) {
        for master in &mut self.masters {
            master.held = master.held.filter(|(_, end)| self.now < *end);
        }
        for client in &mut self.clients {
            client.holds_until = client.holds_until.filter(|end| self.now < *end);
        }
    }

    /// Masters to which nothing has happened yet are alike: it is enough if it happens to the first.
    fn is_like_another(&self, master: usize) -> bool {
        let untouched = |master: usize| !self.masters[master].touched;
        untouched(master) && (0..master).any(untouched)
    }

    fn execute(&mut self, client: usize, master: usize) {
        let link = &mut self.links[client][master];
        self.masters[master].touched = true;
        let held = &mut self.masters[master].held;
        match link.requests.pop_front() {
            Some(Request::Claim(token, round)) => {
                let vote = if held.is_none() { Vote::Taken } else { Vote::Refused };
                held.get_or_insert((token, self.now + PADDED));
                link.replies.push_back(Reply(token, round, vote));
            }
            Some(Request::Delete(token)) => *held = held.filter(|(other, _)| *other != token),
            None => {}
        }
    }

    /// Two ticks after the restart, the longest that any of the voters holds.
    fn remind(&mut self, master: usize, now: Instant) {
        let id = MasterId::new(master);
        let Some(sources) = self.probation.sources(id) else { return };
        let others = sources.masters.iter().filter_map(|other| self.masters[other.index()].held);
        if let Some(longest) = others.max_by_key(|(_, end)| *end) {
            self.masters[master].held.get_or_insert(longest);
        }
        // Whatever is there by then is what keeps others out for as long as any lock that was forgotten.
        let enough = |other: MasterId| {
            let theirs = self.masters[other.index()].held;
            let ours = self.masters[master].held;
            theirs.is_none_or(|theirs| {
                ours.is_some_and(|ours| ours.1 >= theirs.1 && ours.0 == theirs.0)
            })
        };
        if sources.masters.iter().all(enough) {
            self.probation.has_copied(id, &sources, now);
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let quorum = Quorum::of(MASTERS);
        let terms =
            Terms { quorum, restart_wait: TICK * u32::from(PADDED), cold_start: ColdStart::Trust };
        let mut probation = Probation::new(terms, self.start);
        for master in 0..MASTERS {
            probation.observe(MasterId::new(master), self.facts(master, 0, 0));
        }
        let client = Client { attempt: 0, claim: None, deadline: 0, holds_until: None };
        vec![State {
            now: 0,
            masters: Default::default(),
            clients: vec![client; self.clients],
            links: vec![Default::default(); self.clients],
            probation,
            restarts: 0,
            cuts: 0,
            duplicates: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // A proxy may notice a deadline late, but not by a whole tick.
        let is_due = |client: &Client| {
            client.claim.as_ref().is_some_and(is_open) && state.now >= client.deadline
        };
        if state.now < self.end && !state.clients.iter().any(is_due) {
            actions.push(Action::Tick);
        }
        for (index, client) in state.clients.iter().enumerate() {
            match &client.claim {
                // The clients are alike: one begins.
                None if index > 0 && state.clients[index - 1].claim.is_none() => {}
                None => actions.push(Action::Start(index)),
                Some(claim) if claim.is_pausing() => actions.push(Action::Again(index)),
                Some(_) if is_due(client) => actions.push(Action::Deadline(index)),
                Some(claim) if is_open(claim) => {}
                Some(_) if client.holds_until.is_some() && self.releases => {
                    actions.push(Action::Release(index));
                }
                Some(_) if client.attempt + 1 < self.attempts => actions.push(Action::Start(index)),
                Some(_) => {}
            }
            for (master, link) in state.links[index].iter().enumerate() {
                if state.is_like_another(master) {
                    continue;
                }
                if !link.requests.is_empty() {
                    actions.push(Action::Execute(index, master));
                }
                if !link.replies.is_empty() {
                    actions.push(Action::Hear(index, master));
                    if state.duplicates < self.duplicates {
                        actions.push(Action::HearTwice(index, master));
                    }
                }
                let is_used = !link.requests.is_empty() || !link.replies.is_empty();
                if is_used && state.cuts < self.cuts {
                    actions.push(Action::Cut(index, master));
                }
            }
        }
        for master in 0..MASTERS {
            if state.restarts < self.restarts && !state.is_like_another(master) {
                actions.push(Action::Restart(master));
            }
            let start = state.probation.may_copy_from(MasterId::new(master), TICK);
            if start.is_some_and(|start| self.instant(state.now) >= start) {
                actions.push(Action::Remind(master));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Tick => {
                state.now += 1;
                state.expire();
                for master in 0..MASTERS {
                    state.probation.has_waited(MasterId::new(master), self.instant(state.now));
                }
            }
            Action::Start(client) => {
                if state.clients[client].claim.take().is_some() {
                    state.clients[client].attempt += 1;
                }
                self.ask(&mut state, client);
            }
            Action::Again(client) => self.ask(&mut state, client),
            Action::Execute(client, master) => {
                state.execute(client, master);
                if self.prompt {
                    self.hear_first(&mut state, client, master);
                }
            }
            Action::Hear(client, master) | Action::HearTwice(client, master) => {
                let reply = state.links[client][master].replies.front().copied()?;
                if matches!(action, Action::Hear(..)) {
                    state.links[client][master].replies.pop_front();
                } else {
                    state.duplicates += 1;
                }
                self.hear(&mut state, client, master, reply);
            }
            Action::Deadline(client) => {
                let claim = state.clients[client].claim.as_mut()?;
                let next = claim.deadline();
                self.act(&mut state, client, next);
            }
            Action::Release(client) => {
                state.clients[client].holds_until = None;
                let token = (client, state.clients[client].attempt);
                for link in &mut state.links[client] {
                    link.requests.push_back(Request::Delete(token));
                }
            }
            Action::Cut(client, master) => {
                state.cuts += 1;
                state.masters[master].touched = true;
                self.cut(&mut state, client, master);
            }
            Action::Restart(master) => {
                state.restarts += 1;
                let life = state.masters[master].life + 1;
                state.masters[master] = Master { held: None, life, touched: true };
                for client in 0..self.clients {
                    self.cut(&mut state, client, master);
                }
                let facts = self.facts(master, life, state.now);
                state.probation.observe(MasterId::new(master), facts);
            }
            Action::Remind(master) => state.remind(master, self.instant(state.now)),
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one lock has one holder", |_: &Self, state: &State| {
                state.clients.iter().filter(|client| client.holds_until.is_some()).count() <= 1
            }),
            Property::always("who holds it is known to a quorum or to masters that forgot", known),
            Property::sometimes("a lock is granted", |_: &Self, state: &State| {
                state.clients.iter().any(|client| client.holds_until.is_some())
            }),
            Property::sometimes("a claim is refused", |_: &Self, state: &State| {
                let lost = |client: &Client| client.claim.as_ref().is_some_and(Claim::is_lost);
                state.clients.iter().any(lost)
            }),
        ]
    }
}

/// A lease never outlives the keys of a quorum, but for masters that were restarted since.
fn known(_: &World, state: &State) -> bool {
    state.clients.iter().enumerate().filter(|(_, client)| client.holds_until.is_some()).all(
        |(index, client)| {
            let token = (index, client.attempt);
            let knows = |master: &Master| {
                master.life > 0 || master.held.is_some_and(|(held, _)| held == token)
            };
            let known: MasterSet = (0..MASTERS)
                .filter(|master| knows(&state.masters[*master]))
                .map(MasterId::new)
                .collect();
            Quorum::of(MASTERS).reached_by(known)
        },
    )
}

fn is_open(claim: &Claim) -> bool {
    !claim.is_granted() && !claim.is_lost() && !claim.is_pausing()
}

/// Explores everything, and says how many states there were.
fn explore(world: World) -> usize {
    let checker = world.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    checker.unique_state_count()
}

#[test]
fn no_order_of_events_with_a_restart_grants_a_lock_twice() {
    let states = explore(World::small(true));
    assert!(states > 100_000, "only {states} states");
}

#[test]
fn no_order_of_events_with_a_lost_connection_grants_a_lock_twice() {
    let states =
        explore(World { restarts: 0, cuts: 1, prompt: false, end: 1, ..World::small(true) });
    assert!(states > 100_000, "only {states} states");
}

#[test]
fn no_order_of_events_with_late_and_doubled_replies_grants_a_lock_twice() {
    let states = explore(World {
        restarts: 0,
        duplicates: 1,
        retries: 1,
        prompt: false,
        end: 0,
        ..World::small(true)
    });
    assert!(states > 5_000, "only {states} states");
}

#[test]
fn no_order_of_events_with_split_votes_and_releases_grants_a_lock_twice() {
    let states =
        explore(World { restarts: 0, retries: 1, releases: true, end: 1, ..World::small(true) });
    assert!(states > 100_000, "only {states} states");
}

#[test]
fn no_order_of_events_among_three_clients_grants_a_lock_twice() {
    let states =
        explore(World { clients: 3, restarts: 0, retries: 1, end: 0, ..World::small(true) });
    assert!(states > 5_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_events_with_a_restart_and_late_replies_grants_a_lock_twice() {
    let states = explore(World { prompt: false, ..World::small(true) });
    assert!(states > 1_000_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_order_of_events_among_three_clients_in_time_grants_a_lock_twice() {
    let states = explore(World { clients: 3, restarts: 0, end: 1, ..World::small(true) });
    assert!(states > 1_000_000, "only {states} states");
}

/// The classic of Redlock's text is found as soon as masters that forget may vote at once.
#[test]
fn without_probation_the_model_finds_a_lock_that_is_granted_twice() {
    let world = World::small(false);
    let found =
        world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let path = found.discovery("one lock has one holder").expect("a double grant");
    let restarts = path.into_actions().iter().filter(|a| matches!(a, Action::Restart(_))).count();
    assert_eq!(restarts, 1, "it takes a restart");
}
