//! The world around two keys: masters, their mailboxes, and clients.

use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::decision::keyspace::proposer::{Answer, Outcome, Proposer, Request, Step, Wish};
use redlock_proxy::decision::keyspace::slot::{Basis, Slots};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::quorum::{MasterId, Quorum};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use stateright::{Model, Property};

use crate::bugs::{self, Bug};
use crate::claims::{LeaseLetter, LeaseRequest, Votes};
use crate::server::{Held, Job, Lease, Operation, Reply, Server, Stored};
use crate::sweeper::Swept;

pub(crate) const MASTERS: usize = 3;
/// How long a round takes, by the clocks of clients.
pub(crate) const ROUND: u64 = 10;
pub(crate) const LINEARIZABLE: &str = "every history is one of a single server";
pub(crate) const SETTLED: &str = "all masters together tell what the keys hold";

/// What may happen, and how often.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// The operations of each client, one after the other.
    pub(crate) clients: Vec<Vec<Operation>>,
    /// How often proposers begin again, all together.
    pub(crate) retries: u8,
    /// How many answers are lost.
    pub(crate) losses: u8,
    /// Whether the last master may forget, once, and be admitted again.
    pub(crate) forgets: bool,
    /// Whether its connections end before it is admitted, so that nothing from before is late.
    pub(crate) is_cut_off: bool,
    /// Whether leases end by themselves.
    pub(crate) ends: bool,
    /// Whether what passes fades.
    pub(crate) fades: bool,
    /// By how much the clock of every other client is behind. Refusals are heard then, and lead to retries: nothing else
    /// brings a slow client above what others were promised.
    pub(crate) slow: u64,
    /// Whether a master may lose a value from under its stamp, once.
    pub(crate) loses: bool,
    /// How often stamps are swept for what can be dropped.
    pub(crate) sweeps: u8,
    /// Whether any two masters, too, can always tell what the keys hold.
    pub(crate) is_told_by_any_two: bool,
    /// Whether the first key holds something from the beginning.
    pub(crate) is_stocked: bool,
    /// Whether that ends after the first round.
    pub(crate) is_stock_short: bool,
    /// How many programs a stamp remembers.
    pub(crate) keep: usize,
    pub(crate) bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) masters: [Master; MASTERS],
    pub(crate) clients: Vec<Client>,
    /// The last ballot counter that was used.
    pub(crate) clock: u64,
    retries: u8,
    losses: u8,
    /// What masters may drop.
    pub(crate) swept: Vec<Swept>,
    pub(crate) sweeps: u8,
    /// A master has lost a value.
    has_lost: bool,
    history: LinearizabilityTester<u8, Server>,
    /// Leases that have ended: owner and key.
    pub(crate) ended: Vec<(u8, u8)>,
    /// How many operations nobody knows about.
    errors: u8,
    is_wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Master {
    pub(crate) slots: Slots<Job>,
    /// The version of the roster that its mark shows; `None`: it has no mark.
    pub(crate) version: Option<u64>,
    pub(crate) inbox: Vec<Letter>,
    /// What the fast path of leases has sent, in the order of each client.
    pub(crate) leases: Vec<LeaseLetter>,
    pub(crate) is_touched: bool,
}

/// A request on its way: from which client, under which ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Letter {
    client: usize,
    /// The number of its operation: the next one may run under the same ballot.
    operation: usize,
    version: u64,
    ballot: Ballot,
    pub(crate) request: Request<Job>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) at: At,
    /// The version of the roster that it works under.
    pub(crate) version: u64,
    /// What the last program left for the next one.
    pub(crate) held: Option<(Vec<u8>, Vec<Basis<Job>>)>,
    /// How many of its operations have ended.
    pub(crate) ended: usize,
    /// Its release goes on as a program, and has deleted a copy before.
    pub(crate) has_released: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Rest,
    Program(Box<Proposer<Job>>),
    Voting(LeaseRequest, Votes),
    /// It was told that nobody knows, and goes away.
    Gone,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Begin(usize),
    Again(usize),
    Deliver(usize, Letter),
    DeliverUnheard(usize, Letter),
    DeliverLease(usize, LeaseLetter),
    /// A lease that was granted ends.
    End(usize, u8),
    /// A master drops its copy of a lease that has ended.
    Drop(usize, u8),
    /// A value goes from under its stamp: cleaned up after its end, or lost.
    Remove(usize, u8, bool),
    /// All members are asked what they have.
    Sweep,
    /// A master drops a stamp.
    Forget(usize, Swept),
    /// The last master loses all it has, and is put out of the roster. It could be put out later. But what it does without a
    /// mark counts for nobody, so all that happens meanwhile can as well happen before.
    Empty,
    /// It is given what the others have, and comes in again.
    Admit,
    /// A client learns of another version.
    Learn(usize),
}

impl World {
    pub(crate) fn of(clients: &[&[Operation]]) -> Self {
        let clients = clients.iter().map(|operations| operations.to_vec()).collect();
        Self {
            clients,
            retries: 0,
            losses: 0,
            forgets: false,
            is_cut_off: false,
            ends: false,
            fades: false,
            slow: 0,
            loses: false,
            sweeps: 0,
            is_told_by_any_two: false,
            is_stocked: false,
            is_stock_short: false,
            keep: 8,
            bug: None,
        }
    }

    pub(crate) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(crate) fn operation(&self, state: &State, client: usize) -> Option<Operation> {
        self.clients[client].get(state.clients[client].ended).copied()
    }

    fn begin(&self, state: &mut State, client: usize) -> Option<()> {
        let operation = self.operation(state, client)?;
        // What begins under a version that is over could as well have begun before, and be on its way.
        let version = state.version();
        let me = &mut state.clients[client];
        me.held.take_if(|_| me.version < version);
        me.version = version;
        let owner = name(client);
        let _ = state.history.on_invoke(owner, Job(operation, owner));
        if let (true, Operation::Pass(key)) = (self.fades, operation) {
            let _ = state.history.on_invoke(200 + owner, Job(Operation::Fade(key), 0));
        }
        match operation {
            Operation::Claim(key) => state.vote(client, key, LeaseRequest::Claim),
            Operation::Release(key) => state.vote(client, key, LeaseRequest::Release),
            Operation::Read(key) => self.propose(state, client, Wish::Read(vec![key])),
            _ => self.propose(state, client, Wish::Run(Job(operation, owner))),
        }
        Some(())
    }

    pub(crate) fn propose(&self, state: &mut State, client: usize, wish: Wish<Job>) {
        state.clock += ROUND;
        let (quorum, clock) = (Quorum::of(MASTERS), self.clock_of(state, client));
        let me = &mut state.clients[client];
        let version = me.version;
        let held = me.held.take().filter(|(keys, _)| *keys == wish.keys());
        let (proposer, request) = match (wish, held) {
            (Wish::Run(job), Some((_, basis))) => {
                Proposer::with_promises(quorum, client as u64, version, job, basis, clock)
            }
            (wish, _) => Proposer::new(quorum, client as u64, version, wish, clock),
        };
        me.at = At::Program(Box::new(proposer));
        self.send(state, client, request);
    }

    /// Every other client has a slow clock.
    fn clock_of(&self, state: &State, client: usize) -> u64 {
        let behind = if client % 2 == 1 { self.slow } else { 0 };
        state.clock.saturating_sub(behind)
    }

    pub(crate) fn again(&self, state: &mut State, client: usize) -> Option<()> {
        state.clock += ROUND;
        let clock = self.clock_of(state, client);
        let operation = self.operation(state, client)?;
        let version = state.clients[client].version;
        let At::Program(proposer) = &mut state.clients[client].at else { return None };
        let mut request = proposer.under(version, clock);
        if self.is(Bug::RunsAgainBlindly) {
            let wish = Wish::Run(Job(operation, name(client)));
            let (fresh, prepare) =
                Proposer::new(Quorum::of(MASTERS), client as u64, version, wish, clock);
            (**proposer, request) = (fresh, prepare);
        }
        self.send(state, client, request);
        Some(())
    }

    fn send(&self, state: &mut State, client: usize, mut request: Request<Job>) {
        let Client { version, ended: operation, .. } = state.clients[client];
        let At::Program(proposer) = &state.clients[client].at else { return };
        let Some(ballot) = proposer.ballot() else { return };
        bugs::spoil(self.bug, &mut request);
        for master in &mut state.masters {
            master.post(Letter { client, operation, version, ballot, request: request.clone() });
        }
    }

    /// Gives a letter to a master, and its answer to the proposer.
    fn deliver(&self, state: &mut State, index: usize, letter: &Letter, is_heard: bool) {
        let master = &mut state.masters[index];
        master.inbox.retain(|other| other != letter);
        master.is_touched = true;
        if master.version != Some(letter.version) && !self.is(Bug::MixesVersions) {
            return;
        }
        let answer = bugs::execute(self, &mut master.slots, &letter.request)
            .unwrap_or_else(|| letter.request.execute(&mut master.slots, self.keep));
        if is_heard && state.clients[letter.client].ended == letter.operation {
            self.hear(state, index, letter, answer);
        }
    }

    fn hear(&self, state: &mut State, index: usize, letter: &Letter, answer: Answer<Job>) {
        let me = &mut state.clients[letter.client];
        let At::Program(proposer) = &mut me.at else { return };
        match proposer.answer(letter.ballot, MasterId::new(index), letter.version, answer) {
            Step::Wait | Step::Pause => {}
            Step::Send(request) => self.send(state, letter.client, request),
            Step::Done(outcome) => {
                me.held = proposer.held().map(<[_]>::to_vec).map(|basis| {
                    let keys = self.clients[letter.client][me.ended];
                    (Wish::Run(Job(keys, 0)).keys(), basis)
                });
                self.done(state, letter, outcome);
            }
        }
    }

    fn done(&self, state: &mut State, letter: &Letter, outcome: Outcome<Job>) {
        let Letter { client, ballot, .. } = *letter;
        match outcome {
            Outcome::Ran(0) if state.clients[client].has_released => state.lose(client),
            Outcome::Ran(number) => state.answer(client, Reply::Number(number)),
            Outcome::Read(holdings) => {
                let holding = &holdings[0];
                let time = match self.bug {
                    Some(Bug::TellsTheTimeByItself) => self.clock_of(state, client),
                    _ => ballot.counter,
                };
                let held = Held::of(&holding.state, holding.lease.as_ref(), time);
                state.answer(client, Reply::Held(held));
            }
            Outcome::NotKnown => state.lose(client),
        }
    }

    /// Whether a letter can never have an effect any more.
    fn is_dead(&self, version: Option<u64>, slots: &Slots<Job>, letter: &Letter) -> bool {
        if version.is_none_or(|version| letter.version < version) && !self.is(Bug::MixesVersions) {
            return true;
        }
        if self.is(Bug::BreaksPromises) || self.is(Bug::AdoptsWithTheOldBallot) {
            return false;
        }
        match &letter.request {
            Request::Prepare(keys, ballot) => {
                keys.iter().any(|key| slots.get(key).promised >= *ballot)
            }
            Request::Adopt(adopt) => adopt
                .states
                .iter()
                .any(|adopted| slots.get(&adopted.key).promised > adopted.state.accepted),
            Request::Apply(apply) => apply
                .program
                .keys()
                .iter()
                .zip(&apply.basis)
                .any(|(key, basis)| slots.get(key).promised > basis.ballot),
        }
    }
}

/// Clients are numbered from 1: 0 owns nothing.
pub(crate) fn name(client: usize) -> u8 {
    client as u8 + 1
}

impl State {
    pub(crate) fn answer(&mut self, client: usize, reply: Reply) {
        let me = &mut self.clients[client];
        (me.at, me.ended) = (At::Rest, me.ended + 1);
        let _ = self.history.on_return(name(client), reply);
        self.is_wrong = !self.history.is_consistent();
    }

    pub(crate) fn lose(&mut self, client: usize) {
        self.clients[client].at = At::Gone;
        self.errors += 1;
    }

    pub(crate) fn version(&self) -> u64 {
        self.masters[0].version.unwrap_or_default()
    }

    /// Whether the client still waits for the answer to this letter.
    fn awaits(&self, letter: &Letter) -> bool {
        let client = &self.clients[letter.client];
        match &client.at {
            At::Program(proposer) if client.ended == letter.operation => {
                proposer.ballot() == Some(letter.ballot)
            }
            _ => false,
        }
    }

    /// Of the masters that nothing has happened to yet, the first stands for all.
    fn is_like_another(&self, master: usize) -> bool {
        !self.masters[master].is_touched
            && self.masters[..master].iter().any(|other| !other.is_touched)
    }
}

impl Client {
    fn is_at_work(&self) -> bool {
        matches!(self.at, At::Program(_) | At::Voting(..))
    }
}

impl Master {
    fn post(&mut self, letter: Letter) {
        // A late prepare can only make others fail. So can its being lost, or a promise that nobody heard of.
        self.inbox.retain(|old| {
            old.client != letter.client || !matches!(old.request, Request::Prepare(..))
        });
        self.inbox.push(letter);
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let client = Client { at: At::Rest, version: 1, held: None, ended: 0, has_released: false };
        let mut master = Master {
            slots: Slots::default(),
            version: Some(1),
            inbox: Vec::new(),
            leases: Vec::new(),
            is_touched: false,
        };
        let end = self.is_stock_short.then_some(ROUND + 5);
        let stock = Stored { held: Held::Register(0, 1), end };
        if self.is_stocked {
            let accepted = Ballot { epoch: 0, counter: 1, worker: 0 };
            let slot = master.slots.of(&0);
            (slot.promised, slot.state.accepted, slot.state.value) = (accepted, accepted, stock);
        }
        let server =
            if self.is_stocked { Server([stock, Stored::default()]) } else { Server::default() };
        let mut history = LinearizabilityTester::new(server);
        if self.is_stock_short {
            let _ = history.on_invoke(200, Job(Operation::Fade(0), 0));
        }
        vec![State {
            masters: [master.clone(), master.clone(), master],
            clients: vec![client; self.clients.len()],
            clock: 0,
            retries: 0,
            losses: 0,
            swept: Vec::new(),
            sweeps: 0,
            has_lost: false,
            history,
            ended: Vec::new(),
            errors: 0,
            is_wrong: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_open = |client: usize| self.operation(state, client).is_some();
        if state.is_wrong || !(0..self.clients.len()).any(is_open) {
            return;
        }
        for (index, client) in state.clients.iter().enumerate() {
            if client.version < state.version() && client.is_at_work() {
                actions.push(Action::Learn(index));
            }
            match &client.at {
                At::Rest if is_open(index) => actions.push(Action::Begin(index)),
                At::Program(proposer)
                    if state.retries < self.retries
                        && (self.slow == 0 || proposer.ballot().is_none()) =>
                {
                    actions.push(Action::Again(index));
                }
                _ => {}
            }
        }
        for (index, master) in state.masters.iter().enumerate() {
            if state.is_like_another(index) && !(self.forgets && index == MASTERS - 1) {
                continue;
            }
            for letter in &master.inbox {
                actions.push(Action::Deliver(index, letter.clone()));
                if state.losses < self.losses && state.awaits(letter) {
                    actions.push(Action::DeliverUnheard(index, letter.clone()));
                }
            }
            for client in 0..self.clients.len() {
                let letter = master.leases.iter().find(|letter| letter.client == client);
                actions.extend(letter.map(|letter| Action::DeliverLease(index, *letter)));
            }
            for (owner, key) in &state.ended {
                if master.slots.get(key).lease == Some(Lease(*owner)) {
                    actions.push(Action::Drop(index, *key));
                }
            }
            for (key, slot) in master.slots.iter().filter(|(_, slot)| slot.is_there()) {
                match slot.state.value.end {
                    // Time goes on until the next round.
                    Some(end) if end + self.slow < state.clock + ROUND => {
                        actions.push(Action::Remove(index, *key, false));
                    }
                    _ if self.loses && !state.has_lost => {
                        actions.push(Action::Remove(index, *key, true));
                    }
                    _ => {}
                }
            }
        }
        self.sweeping(state, actions);
        if self.forgets {
            match (state.masters[MASTERS - 1].version, state.version()) {
                (Some(1), 1) if state.masters[MASTERS - 1].is_touched => {
                    actions.push(Action::Empty);
                }
                (None, 2) => actions.push(Action::Admit),
                _ => {}
            }
        }
        if self.ends {
            actions.extend(state.leases(self).map(|(client, key)| Action::End(client, key)));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Begin(client) => self.begin(&mut state, client)?,
            Action::Again(client) => {
                state.retries += 1;
                self.again(&mut state, client)?;
            }
            Action::Deliver(master, letter) => self.deliver(&mut state, master, &letter, true),
            Action::DeliverUnheard(master, letter) => {
                state.losses += 1;
                self.deliver(&mut state, master, &letter, false);
            }
            Action::DeliverLease(master, letter) => self.deliver_lease(&mut state, master, letter),
            Action::End(client, key) => {
                let (thread, owner) = (100 + client as u8, name(client));
                let end = Job(Operation::End(key, owner), 0);
                // Masters keep their copies for a while longer, so it has no certain end.
                let _ = state.history.on_invoke(thread, end);
                state.ended.push((owner, key));
            }
            Action::Drop(master, key) => {
                state.masters[master].slots.give_back(&key, |_| true);
            }
            Action::Remove(master, key, is_lost) => {
                state.has_lost |= is_lost;
                let slots = &mut state.masters[master].slots;
                match is_lost || self.is(Bug::CleansUpWithoutAPromise) {
                    true => slots.lose(&key),
                    false => slots.clean_up(&key),
                }
            }
            Action::Sweep => self.sweep(&mut state),
            Action::Forget(master, swept) => self.forget(&mut state, master, &swept),
            Action::Empty => {
                let last = &mut state.masters[MASTERS - 1];
                (last.slots, last.version) = (Slots::default(), None);
                for other in &mut state.masters[..MASTERS - 1] {
                    other.version = Some(2);
                }
            }
            Action::Admit => {
                if self.is_cut_off {
                    state.masters[MASTERS - 1].leases.clear();
                }
                state.admit();
            }
            Action::Learn(client) => self.learn(&mut state, client)?,
        }
        for index in 0..MASTERS {
            let mut inbox = std::mem::take(&mut state.masters[index].inbox);
            inbox.retain(|letter| {
                let is_awaited = self.slow > 0 && state.awaits(letter);
                let master = &state.masters[index];
                is_awaited || !self.is_dead(master.version, &master.slots, letter)
            });
            inbox.sort_by_key(|letter| (letter.client, letter.ballot));
            state.masters[index].inbox = inbox;
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LINEARIZABLE, |_: &Self, state: &State| !state.is_wrong),
            Property::always("equal ballots mean equal states", |_: &Self, state: &State| {
                state.equal_ballots_mean_equal_states()
            }),
            Property::always(SETTLED, |world: &Self, state: &State| world.can_be_settled(state)),
            Property::sometimes("all operations end", |world: &Self, state: &State| {
                let are_open =
                    (0..world.clients.len()).any(|client| world.operation(state, client).is_some());
                state.errors == 0 && !are_open
            }),
        ]
    }
}

impl State {
    fn equal_ballots_mean_equal_states(&self) -> bool {
        let all = self.masters.iter().flat_map(|master| master.slots.iter());
        let all: Vec<_> = all.map(|(key, slot)| (key, &slot.state)).collect();
        all.iter().all(|(key, one)| {
            let same = all.iter().filter(|(other, it)| other == key && it.accepted == one.accepted);
            same.into_iter().all(|(_, other)| one.value == other.value && one.ran() == other.ran())
        })
    }
}
