//! The world around one register: masters, their mailboxes, and clients that count.

use redlock_proxy::decision::quorum::{MasterId, Quorum};
use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::register::acceptor::State as Accepted;
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::decision::register::proposer::{MasterAnswer, Outcome, Proposer, Request, Step};
use stateright::{Model, Property};

use crate::bugs::{self, Bug};
use crate::specification::one_version::OneVersion;
use crate::specification::stamp::{self, Stamp, StampOf};

pub(crate) const MASTERS: usize = 3;
/// Worker that copies to a master being admitted.
const ADMITTER: u64 = 99;

/// `INCR`, whose reply is the new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Increment;

impl Program for Increment {
    type Value = u8;
    type Reply = u8;

    fn run(&self, value: &u8) -> (u8, u8) {
        (value + 1, value + 1)
    }
}

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Increment,
    Read,
}

/// Possible events and their limits.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Operations of each proposer, in order.
    pub(crate) clients: Vec<Vec<Operation>>,
    /// Maximum restarts of proposers, in total.
    pub(crate) retries: u8,
    /// Maximum lost answers.
    pub(crate) losses: u8,
    /// Whether the last master may forget, once, and be admitted again.
    pub(crate) forgets: bool,
    /// Maximum copies of a decided state to a master that is behind.
    pub(crate) catch_ups: u8,
    /// Number of programs that a stamp remembers.
    pub(crate) keep: usize,
    pub(crate) bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) masters: [Master; MASTERS],
    pub(crate) clients: Vec<Client>,
    /// The last ballot counter in use.
    clock: u64,
    retries: u8,
    losses: u8,
    catch_ups: u8,
    /// Numbers returned by increments, one bit each.
    numbers: u32,
    /// Number of operations that ended with an error.
    errors: u8,
    /// Highest number returned.
    pub(crate) answered: u8,
    /// Number of increments begun.
    pub(crate) begun: u8,
    /// Description of a wrong answer, if there was one.
    pub(crate) wrong: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Master {
    pub(crate) stamp: StampOf<Increment>,
    /// Roster version in its mark; `None` if it has no mark.
    pub(crate) version: Option<u64>,
    pub(crate) inbox: Vec<Letter>,
    touched: bool,
}

/// A request on its way, with its client, version and ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Letter {
    pub(crate) client: usize,
    pub(crate) version: u64,
    pub(crate) ballot: Ballot,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    Request(Request<Increment>),
    CatchUp(Accepted<u8, u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) proposer: Option<Proposer<Increment, OneVersion>>,
    /// Number of its completed operations.
    ended: usize,
    /// Highest number returned before its operation began. Its answer must be higher.
    floor: u8,
    /// Roster version under which it works.
    version: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Begin(usize),
    Again(usize),
    Deliver(usize, Letter),
    DeliverUnheard(usize, Letter),
    CatchUp(usize),
    Forget,
    Raise,
    Admit,
    Learn(usize),
}

impl World {
    pub(crate) fn small() -> Self {
        Self {
            clients: vec![vec![Operation::Increment]; 3],
            retries: 0,
            losses: 0,
            forgets: false,
            catch_ups: 0,
            keep: 8,
            bug: None,
        }
    }

    fn operation(&self, state: &State, client: usize) -> Option<Operation> {
        self.clients[client].get(state.clients[client].ended).copied()
    }

    fn begin(&self, state: &mut State, client: usize) -> Option<()> {
        let operation = self.operation(state, client)?;
        state.begun += u8::from(operation == Operation::Increment);
        let program = (operation == Operation::Increment).then_some(Increment);
        let (quorum, answered) = (Quorum::of(MASTERS), state.answered);
        state.clock += 10;
        let clock = state.clock;
        let me = &mut state.clients[client];
        me.floor = answered;
        let electorate = OneVersion(me.version);
        let (proposer, request) = Proposer::new(quorum, client as u64, electorate, program, clock);
        me.proposer = Some(proposer);
        self.send(state, client, request);
        Some(())
    }

    fn again(&self, state: &mut State, client: usize) -> Option<()> {
        state.clock += 10;
        let clock = state.clock;
        let version = OneVersion(state.clients[client].version);
        let proposer = state.clients[client].proposer.as_mut()?;
        let request = if self.bug == Some(Bug::RunsAgainBlindly) {
            let program = Some(Increment);
            let quorum = Quorum::of(MASTERS);
            let (fresh, request) = Proposer::new(quorum, client as u64, version, program, clock);
            *proposer = fresh;
            request
        } else {
            proposer.under(version, clock)
        };
        self.send(state, client, request);
        Some(())
    }

    fn send(&self, state: &mut State, client: usize, mut request: Request<Increment>) {
        if self.bug == Some(Bug::AdoptsWithTheOldBallot) {
            bugs::with_the_old_ballot(&state.masters, &mut request);
        }
        let me = &state.clients[client];
        let Some(ballot) = me.proposer.as_ref().and_then(Proposer::ballot) else { return };
        let version = me.version;
        for master in &mut state.masters {
            let body = Body::Request(request.clone());
            master.post(Letter { client, version, ballot, body });
        }
    }

    /// Delivers a letter to a master, and its answer to the proposer.
    fn deliver(&self, state: &mut State, index: usize, letter: &Letter, heard: bool) {
        let master = &mut state.masters[index];
        master.inbox.retain(|other| other != letter);
        master.touched = true;
        let Some(shown) = master.version else { return };
        let may_mix = self.bug == Some(Bug::MixesVersions);
        if shown != letter.version && !may_mix {
            return;
        }
        let answer = match &letter.body {
            Body::CatchUp(decided) => {
                master.stamp.catch_up(decided);
                return;
            }
            Body::Request(request) => self.execute(&mut master.stamp, request),
        };
        let credential = if may_mix { letter.version } else { shown };
        if heard {
            self.hear(state, index, letter, credential, answer);
        }
    }

    /// Whether a letter can have no more effect.
    fn is_dead(&self, master: &Master, letter: &Letter) -> bool {
        let stamp = &master.stamp;
        let is_old = master.version.is_none_or(|version| letter.version < version);
        if is_old && self.bug != Some(Bug::MixesVersions) {
            return true;
        }
        match &letter.body {
            Body::Request(Request::Apply(_) | Request::Adopt(_))
                if self.bug == Some(Bug::BreaksPromises) =>
            {
                false
            }
            Body::Request(Request::Adopt(adopt))
                if self.bug == Some(Bug::AdoptsWithTheOldBallot) =>
            {
                adopt.next <= stamp.promised
            }
            Body::CatchUp(decided) => decided.accepted <= stamp.state.accepted,
            Body::Request(Request::Prepare(ballot)) => *ballot <= stamp.promised,
            Body::Request(Request::Adopt(adopt)) => adopt.state.accepted < stamp.promised,
            Body::Request(Request::Apply(apply)) => apply.ballot < stamp.promised,
        }
    }

    fn execute(
        &self,
        stamp: &mut StampOf<Increment>,
        request: &Request<Increment>,
    ) -> MasterAnswer<Increment> {
        if let Some(answer) = self.bug.and_then(|bug| bugs::execute(bug, stamp, request, self.keep))
        {
            return answer;
        }
        let answer = match request {
            Request::Prepare(ballot) => stamp.prepare(*ballot).map(MasterAnswer::Promised),
            Request::Adopt(adopt) => stamp.adopt(adopt).map(|()| MasterAnswer::Adopted),
            Request::Apply(apply) => {
                stamp::apply(stamp, apply, self.keep).map(MasterAnswer::Applied)
            }
        };
        answer.unwrap_or_else(MasterAnswer::Refused)
    }

    fn hear(
        &self,
        state: &mut State,
        index: usize,
        letter: &Letter,
        credential: u64,
        answer: MasterAnswer<Increment>,
    ) {
        let me = &mut state.clients[letter.client];
        let Some(proposer) = &mut me.proposer else { return };
        match proposer.answer(letter.ballot, MasterId::new(index), credential, answer) {
            Step::Wait | Step::Pause => {}
            Step::Send(request) => {
                self.send(state, letter.client, request);
            }
            Step::Done(outcome) => {
                me.proposer = None;
                me.ended += 1;
                let floor = me.floor;
                state.answer(floor, outcome);
            }
        }
    }
}

impl State {
    fn answer(&mut self, floor: u8, outcome: Outcome<Increment>) {
        match outcome {
            Outcome::Ran(number) => {
                if number <= floor {
                    self.wrong = Some("a number came again or went back");
                }
                if number > self.begun {
                    self.wrong = Some("an increment counted twice");
                }
                if self.numbers & (1 << number) != 0 {
                    self.wrong = Some("a number was answered twice");
                }
                self.numbers |= 1 << number;
                self.answered = self.answered.max(number);
            }
            Outcome::Read(number) => {
                if number < floor {
                    self.wrong = Some("a read went back");
                }
                if number > self.begun {
                    self.wrong = Some("a read of what nobody wrote");
                }
                self.answered = self.answered.max(number);
            }
            Outcome::NotKnown => self.errors += 1,
        }
    }

    /// Copies the register from the others, settled, with the highest promise, and raises the
    /// version.
    ///
    /// A state that both others hold is decided and copied as it is. Otherwise they adopt the
    /// newest state first.
    fn admit(&mut self) {
        let [one, other, _] = self.masters.each_ref().map(|master| &master.stamp);
        let promised = one.promised.max(other.promised);
        let mut copy = Stamp { promised, state: one.state.clone() };
        if one.state != other.state {
            self.clock += 10;
            let ballot = Ballot { epoch: 0, counter: self.clock, worker: ADMITTER };
            let newest = [one, other].into_iter().max_by_key(|stamp| stamp.state.accepted);
            let Some(newest) = newest else { return };
            copy = Stamp { promised: ballot, state: newest.state.clone().under(ballot) };
            for source in &mut self.masters[..MASTERS - 1] {
                source.stamp = copy.clone();
            }
        }
        self.masters[MASTERS - 1].stamp = copy;
        for master in &mut self.masters {
            master.version = Some(3);
        }
    }

    fn version(&self) -> u64 {
        self.masters[0].version.unwrap_or_default()
    }

    /// Whether the client still waits for the answer to this letter.
    fn awaits(&self, letter: &Letter) -> bool {
        let client = self.clients.get(letter.client);
        let proposer = client.and_then(|client| client.proposer.as_ref());
        proposer.and_then(Proposer::ballot) == Some(letter.ballot)
    }

    /// Returns the state that both other masters hold, if this one is behind it.
    fn decided_beyond(&self, master: usize) -> Option<&Accepted<u8, u8>> {
        let one = &self.masters[(master + 1) % MASTERS].stamp.state;
        let other = &self.masters[(master + 2) % MASTERS].stamp.state;
        let is_behind = self.masters[master].stamp.state.accepted < one.accepted;
        (one == other && is_behind).then_some(one)
    }

    /// Whether an earlier untouched master stands for this one.
    fn is_like_another(&self, master: usize) -> bool {
        !self.masters[master].touched && self.masters[..master].iter().any(|other| !other.touched)
    }
}

impl Master {
    fn post(&mut self, letter: Letter) {
        // A late prepare can only make others fail. The same goes for a lost one, or for a promise
        // that nobody heard.
        self.inbox.retain(|old| {
            old.client != letter.client || !matches!(old.body, Body::Request(Request::Prepare(_)))
        });
        self.inbox.push(letter);
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let master = Master {
            stamp: StampOf::<Increment>::default(),
            version: Some(1),
            inbox: Vec::new(),
            touched: false,
        };
        let client = Client { proposer: None, ended: 0, floor: 0, version: 1 };
        vec![State {
            masters: [master.clone(), master.clone(), master],
            clients: vec![client; self.clients.len()],
            clock: 0,
            retries: 0,
            losses: 0,
            catch_ups: 0,
            numbers: 0,
            errors: 0,
            answered: 0,
            begun: 0,
            wrong: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let is_open = |client: usize| self.operation(state, client).is_some();
        if !(0..self.clients.len()).any(is_open) {
            return;
        }
        for (index, client) in state.clients.iter().enumerate() {
            if client.version < state.version() {
                actions.push(Action::Learn(index));
            }
            match &client.proposer {
                // Clients that want the same are alike, so only one of them begins.
                None if index > 0
                    && self.clients[index] == self.clients[index - 1]
                    && state.clients[index - 1].is_fresh() => {}
                None if is_open(index) => actions.push(Action::Begin(index)),
                Some(_) if state.retries < self.retries => actions.push(Action::Again(index)),
                _ => {}
            }
        }
        for (index, master) in state.masters.iter().enumerate() {
            if state.is_like_another(index) && !self.forgets {
                continue;
            }
            for letter in &master.inbox {
                actions.push(Action::Deliver(index, letter.clone()));
                if state.losses < self.losses && state.awaits(letter) {
                    actions.push(Action::DeliverUnheard(index, letter.clone()));
                }
            }
            if state.catch_ups < self.catch_ups && state.decided_beyond(index).is_some() {
                actions.push(Action::CatchUp(index));
            }
        }
        if self.forgets {
            let last = &state.masters[MASTERS - 1];
            match (last.version, state.version()) {
                (Some(1), 1) => actions.push(Action::Forget),
                (None, 1) => actions.push(Action::Raise),
                (None, 2) => actions.push(Action::Admit),
                _ => {}
            }
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
            Action::Learn(client) => {
                state.clients[client].version = state.version();
                if state.clients[client].proposer.is_some() {
                    self.again(&mut state, client)?;
                }
            }
            Action::Deliver(master, letter) => self.deliver(&mut state, master, &letter, true),
            Action::DeliverUnheard(master, letter) => {
                state.losses += 1;
                self.deliver(&mut state, master, &letter, false);
            }
            Action::CatchUp(master) => {
                state.catch_ups += 1;
                let decided = state.decided_beyond(master)?.clone();
                let (version, ballot) = (state.version(), decided.accepted);
                let body = Body::CatchUp(decided);
                state.masters[master].post(Letter { client: usize::MAX, version, ballot, body });
            }
            Action::Forget => {
                let last = &mut state.masters[MASTERS - 1];
                (last.stamp, last.version) = (StampOf::<Increment>::default(), None);
            }
            Action::Raise => {
                for other in &mut state.masters[..MASTERS - 1] {
                    other.version = Some(2);
                }
            }
            Action::Admit => state.admit(),
        }
        for master in &mut state.masters {
            let mut inbox = std::mem::take(&mut master.inbox);
            inbox.retain(|letter| !self.is_dead(master, letter));
            inbox.sort_by_key(|letter| (letter.client, letter.ballot));
            master.inbox = inbox;
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every answer is that of one counter", |_: &Self, state: &State| {
                state.wrong.is_none()
            }),
            Property::always("equal ballots mean equal states", |_: &Self, state: &State| {
                let [first, second, third] = state.masters.each_ref().map(|m| &m.stamp.state);
                let alike = |one: &Accepted<u8, u8>, other: &Accepted<u8, u8>| {
                    one.accepted != other.accepted || one == other
                };
                alike(first, second) && alike(second, third) && alike(first, third)
            }),
            Property::sometimes("all operations end", |world: &Self, state: &State| {
                state.errors == 0
                    && (0..world.clients.len())
                        .all(|client| world.operation(state, client).is_none())
            }),
        ]
    }
}

impl Client {
    fn is_fresh(&self) -> bool {
        self.proposer.is_none() && self.ended == 0
    }
}
