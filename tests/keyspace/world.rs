//! The world around two keys: masters, their mailboxes, and clients.

use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::decision::keyspace::flush::Flush;
use redlock_proxy::decision::keyspace::proposer::{
    MasterAnswer, Outcome, Proposer, Request, Step, Wish,
};
use redlock_proxy::decision::keyspace::remains::Over;
use redlock_proxy::decision::keyspace::remembered::Keep;
use redlock_proxy::decision::keyspace::slot::Basis;
use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::lua::keyspace::KEEP;
use stateright::semantics::{ConsistencyTester, LinearizabilityTester};
use stateright::{Model, Property};

use crate::admission::ALL_KEYS;
use crate::bugs::{self, Bug};
use crate::claims::{LeaseLetter, LeaseRequest, Votes};
use crate::flushing::FlushLetter;
use crate::server::{Held, Job, Lease, Operation, Reply, SHORT, Server, Stored};
use crate::specification::slots::{self, Slot, Slots};
use crate::sweeper::Swept;

pub(crate) const MASTERS: usize = 3;
/// Duration of a round, by the clients' clocks.
pub(crate) const ROUND: u64 = 10;
pub(crate) const LINEARIZABLE: &str = "every history is one of a single server";
pub(crate) const TOLD: &str = "every worker is told what became of its programs";
pub(crate) const SETTLED: &str = "all masters together tell what the keys hold";

/// Possible events and their limits.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Operations of each client, in order.
    pub(crate) clients: Vec<Vec<Operation>>,
    /// Maximum restarts of proposers, in total.
    pub(crate) retries: u8,
    /// Maximum lost answers.
    pub(crate) losses: u8,
    /// Whether the last master may forget, once, and be admitted again.
    pub(crate) forgets: bool,
    /// Earliest time at which it forgets. Until then it learns the others' state, and loses that
    /// too.
    pub(crate) forgets_after: u64,
    /// Whether claims begin only after the admission. Remains of a claim refused earlier look like
    /// a lease to the admission.
    pub(crate) claims_once_admitted: bool,
    /// Whether its connections are closed before the admission, so that no earlier request arrives
    /// late.
    pub(crate) is_cut_off: bool,
    /// Whether leases end by themselves.
    pub(crate) ends: bool,
    /// Whether expiring values expire.
    pub(crate) fades: bool,
    /// Delay of every other client's clock. If set, refusals are heard and lead to retries: nothing
    /// else raises a slow client's ballot above the others' promises.
    pub(crate) slow: u64,
    /// Lead of those clients' clocks over the masters'; the other clients' clocks agree with the
    /// masters'. If 0, everything has expired by the masters' clocks, so these never matter.
    pub(crate) fast: u64,
    /// Maximum times that a master may lose a value from under its stamp.
    pub(crate) loses: u8,
    /// Whether clients may give up claims before they get an answer.
    pub(crate) gives_up: bool,
    /// Whether masters that have missed a flush catch up by themselves.
    pub(crate) catches_up: bool,
    /// Whether the flushing client's clock is far behind.
    pub(crate) flushes_late: bool,
    /// Earlier manual changes.
    pub(crate) litter: Litter,
    /// Maximum sweeps for stamps that can be dropped.
    pub(crate) sweeps: u8,
    /// Whether all masters together can determine the keys' values, once all are members and
    /// expiring values have expired.
    pub(crate) is_told_by_all: bool,
    /// Whether any two masters can always determine the keys' values as well.
    pub(crate) is_told_by_any_two: bool,
    /// Whether the first key has a value from the beginning.
    pub(crate) is_stocked: bool,
    /// Whether that value expires after the first round.
    pub(crate) is_stock_short: bool,
    /// Number of programs that a stamp remembers.
    pub(crate) keep: Keep,
    /// Whether `keep` is enough for every worker to learn the outcome of its programs.
    pub(crate) is_enough: bool,
    pub(crate) bug: Option<Bug>,
}

/// Manual changes to the first key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Litter {
    Nothing,
    /// Different strings written on this many masters, and none on the others.
    Strings(u8),
    /// Deleted stamp of the initial value on the first master.
    NoStamp,
    /// A string on the first master, beside the initial value that it had missed.
    Beside,
}

/// Owner of those strings on the first master; the others count up from it.
const LITTERER: u8 = 50;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) masters: [Master; MASTERS],
    pub(crate) clients: Vec<Client>,
    /// The last ballot counter in use.
    pub(crate) clock: u64,
    retries: u8,
    losses: u8,
    /// Stamps that masters may drop.
    pub(crate) swept: Vec<Swept>,
    pub(crate) sweeps: u8,
    /// Number of keys copied to the master that has forgotten.
    pub(crate) copied: u8,
    /// The others' last flush when the copying began.
    pub(crate) flush_before_copying: Option<u64>,
    /// Number of values that masters have lost.
    lost: u8,
    pub(crate) history: LinearizabilityTester<u8, Server>,
    /// Ended leases, as owner and key.
    pub(crate) ended: Vec<(u8, u8)>,
    /// Values with an expiry still to come, as expiry, owner and key.
    fading: Vec<(u64, u8, u8)>,
    /// Number of operations with an unknown outcome.
    errors: u8,
    /// Whether the outcome of a program could not be determined.
    is_untold: bool,
    is_wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Master {
    pub(crate) slots: Slots<Job>,
    /// Roster version in its mark; `None` if it has no mark.
    pub(crate) version: Option<u64>,
    pub(crate) inbox: Vec<Letter>,
    /// Requests from the fast path of leases, in order for each client.
    pub(crate) leases: Vec<LeaseLetter>,
    pub(crate) flushes: Vec<FlushLetter>,
    pub(crate) is_touched: bool,
}

/// A request on its way, with its client and ballot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Letter {
    client: usize,
    /// Number of the operation, because the next one may run under the same ballot.
    operation: usize,
    version: u64,
    ballot: Ballot,
    pub(crate) request: Request<Job>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) at: At,
    /// Roster version under which it works.
    pub(crate) version: u64,
    /// State that the last program on each key left for the next one.
    pub(crate) held: Vec<(u8, Basis<Job>, MasterSet)>,
    /// Number of its completed operations.
    pub(crate) ended: usize,
    /// Whether its release continues as a program after deleting a copy.
    pub(crate) has_released: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum At {
    Rest,
    Program(Box<Proposer<Job>>),
    Voting(LeaseRequest, Votes),
    Flushing(Flush),
    /// It was told that the outcome is unknown, and leaves.
    Gone,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Begin(usize),
    Again(usize),
    Deliver(usize, Letter),
    DeliverUnheard(usize, Letter),
    DeliverLease(usize, LeaseLetter),
    DeliverFlush(usize, FlushLetter),
    /// A master answers a release and is flushed before its mark is read, so that nobody can tell
    /// the order.
    ReleaseBetween(usize, LeaseLetter, FlushLetter),
    /// A master does a flush that it has missed.
    CatchUp(usize),
    /// A granted lease ends.
    End(usize, u8),
    /// A master drops its copy of an ended lease.
    Drop(usize, u8),
    /// A value disappears from under its stamp: cleaned up after its expiry, or lost.
    Remove(usize, u8, bool),
    /// All members are asked for their stamps.
    Sweep,
    /// This client settles without the masters that have not answered.
    Settle(usize),
    /// A master drops a stamp.
    Forget(usize, Swept),
    /// The last master loses everything and leaves the roster. It could leave later. But without a
    /// mark its answers count for nobody, so anything that happens in between could happen before
    /// as well.
    Empty,
    /// It receives the others' state of the next key.
    Copy,
    /// It has received everything and is admitted again.
    Admit,
    /// A client learns of another version.
    Learn(usize),
    /// A client gives up its claim, whose outcome is unknown.
    GiveUp(usize),
}

impl World {
    pub(crate) fn of(clients: &[&[Operation]]) -> Self {
        let clients = clients.iter().map(|operations| operations.to_vec()).collect();
        Self {
            clients,
            retries: 0,
            losses: 0,
            forgets: false,
            forgets_after: 0,
            claims_once_admitted: false,
            is_cut_off: false,
            ends: false,
            fades: false,
            slow: 0,
            fast: 0,
            loses: 0,
            gives_up: false,
            catches_up: false,
            flushes_late: false,
            litter: Litter::Nothing,
            sweeps: 0,
            is_told_by_all: false,
            is_told_by_any_two: false,
            is_stocked: false,
            is_stock_short: false,
            keep: KEEP,
            is_enough: false,
            bug: None,
        }
    }

    pub(crate) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(crate) fn operation(&self, state: &State, client: usize) -> Option<Operation> {
        self.clients[client].get(state.clients[client].ended).copied()
    }

    fn may_begin(&self, state: &State, client: usize) -> bool {
        let is_claim = matches!(self.operation(state, client), Some(Operation::Claim(_)));
        !(self.claims_once_admitted && is_claim) || state.version() == 3
    }

    fn begin(&self, state: &mut State, client: usize) -> Option<()> {
        let operation = self.operation(state, client)?;
        // An operation that begins under an old version could as well have begun earlier and still
        // be on its way.
        let version = state.version();
        let me = &mut state.clients[client];
        if me.version < version {
            me.held.clear();
        }
        me.version = version;
        let owner = name(client);
        state.fade(ROUND);
        let _ = state.history.on_invoke(owner, Job(operation, owner));
        if let Operation::Take(key) = operation {
            state.fading.push((state.clock + ROUND + SHORT, owner, key));
        }
        if let (true, Operation::Pass(key)) = (self.fades, operation) {
            let _ = state.history.on_invoke(200 + owner, Job(Operation::Fade(key), 0));
        }
        match operation {
            Operation::Claim(key) => state.vote(client, key, LeaseRequest::Claim),
            Operation::Release(key) => state.vote(client, key, LeaseRequest::Release),
            Operation::Read(key) => self.propose(state, client, Wish::Read(vec![key])),
            Operation::Settle(key) => self.propose(state, client, Wish::Settle(vec![key])),
            Operation::Flush => self.begin_flush(state, client),
            _ => self.propose(state, client, Wish::Run(Job(operation, owner))),
        }
        Some(())
    }

    pub(crate) fn propose(&self, state: &mut State, client: usize, wish: Wish<Job>) {
        state.go_on();
        let (quorum, clock) = (Quorum::of(MASTERS), self.clock_of(state, client));
        let me = &mut state.clients[client];
        let version = me.version;
        let keys = wish.keys();
        let held: Vec<_> = me.held.extract_if(.., |(key, ..)| keys.contains(key)).collect();
        let needs_all = matches!(&wish, Wish::Run(job) if job.needs_all());
        let is_enough = |on: &MasterSet| !needs_all || on.len() == MASTERS;
        let basis = |key| {
            let held = held.iter().find(|(other, _, on)| other == key && is_enough(on));
            held.map(|(_, basis, _)| basis.clone())
        };
        let basis: Option<Vec<_>> = keys.iter().map(basis).collect();
        let (proposer, request) = match (wish, basis) {
            (Wish::Run(job), Some(basis)) => {
                Proposer::with_promises(quorum, client as u64, version, job, basis, clock)
            }
            (wish, _) => Proposer::new(quorum, client as u64, version, wish, clock),
        };
        let mut proposer = proposer;
        proposer.take_for_remains(self.over(state));
        let me = &mut state.clients[client];
        me.at = At::Program(Box::new(proposer));
        self.send(state, client, request);
    }

    /// Leases that a round beginning now may treat as remains: every lease whose claim has ended.
    /// One that has been seen for that long is the same lease.
    fn over(&self, state: &State) -> Over<Job> {
        if self.is(Bug::RemovesWhateverHeHolds) {
            return Over::All;
        }
        let counts = |client: &usize| {
            let Client { at, ended, .. } = &state.clients[*client];
            let is_to_come = self.clients[*client][*ended..]
                .iter()
                .any(|operation| matches!(operation, Operation::Claim(_)));
            *at != At::Gone && is_to_come && !self.is(Bug::RemovesAtOnce)
        };
        let clients = (0..self.clients.len()).filter(|client| !counts(client)).map(name);
        let owners = clients.chain(LITTERER..LITTERER + MASTERS as u8);
        Over::These(owners.flat_map(|owner| [(0, Lease(owner)), (1, Lease(owner))]).collect())
    }

    /// Clock of a client. Every other client has a slow clock, or a fast one.
    fn clock_of(&self, state: &State, client: usize) -> u64 {
        match client % 2 {
            1 => (state.clock + self.fast).saturating_sub(self.slow),
            _ => state.clock,
        }
    }

    /// Time by the masters' clocks.
    pub(crate) fn own_clock(&self, state: &State) -> u64 {
        let is_looked_at = self.fast > 0 && !self.is(Bug::BelievesEveryClock);
        if is_looked_at { state.clock } else { u64::MAX }
    }

    pub(crate) fn again(&self, state: &mut State, client: usize) -> Option<()> {
        state.go_on();
        let clock = self.clock_of(state, client);
        let operation = self.operation(state, client)?;
        if let (At::Flushing(_), true) = (&state.clients[client].at, self.is(Bug::FlushesAgain)) {
            self.begin_flush(state, client);
            return Some(());
        }
        let version = state.clients[client].version;
        let over = self.over(state);
        let At::Program(proposer) = &mut state.clients[client].at else { return None };
        proposer.take_for_remains(over);
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

    /// Delivers a letter to a master, and its answer to the proposer.
    fn deliver(&self, state: &mut State, index: usize, letter: &Letter, is_heard: bool) {
        let own_us = self.own_clock(state);
        let master = &mut state.masters[index];
        master.inbox.retain(|other| other != letter);
        master.is_touched = true;
        // A master that is not yet admitted refuses programs: otherwise they would count as soon as
        // it is a member. For the other masters, the version read behind their scripts decides
        // whether an answer counts.
        if master.version.is_none() && !self.is(Bug::RunsBeforeItIsIn) {
            return;
        }
        let is_proved = master.version == Some(letter.version) || self.is(Bug::MixesVersions);
        let answer = bugs::execute(self, &mut master.slots, &letter.request, own_us)
            .unwrap_or_else(|| {
                slots::execute(&letter.request, &mut master.slots, self.keep, own_us)
            });
        let is_heard = is_heard && is_proved;
        let me = &mut state.clients[letter.client];
        let is_of_last = is_heard && me.ended == letter.operation + 1;
        if let (true, MasterAnswer::Applied(_), Request::Apply(apply)) =
            (is_of_last, &answer, &letter.request)
        {
            let keys = apply.program.keys();
            let of_it = me.held.iter_mut().filter(|(key, ..)| keys.contains(key));
            of_it.for_each(|(.., on)| on.insert(MasterId::new(index)));
        }
        if is_heard && state.clients[letter.client].ended == letter.operation {
            self.hear(state, index, letter, answer);
        }
    }

    fn hear(&self, state: &mut State, index: usize, letter: &Letter, answer: MasterAnswer<Job>) {
        let me = &mut state.clients[letter.client];
        let At::Program(proposer) = &mut me.at else { return };
        let step = proposer.answer(letter.ballot, MasterId::new(index), letter.version, answer);
        self.step(state, letter.client, letter.ballot, step);
    }

    /// Stops waiting for the other masters while settling.
    fn settle_without_the_silent(&self, state: &mut State, client: usize) -> Option<()> {
        let At::Program(proposer) = &mut state.clients[client].at else { return None };
        let ballot = proposer.ballot()?;
        let step = proposer.no_more_answers();
        self.step(state, client, ballot, step);
        Some(())
    }

    fn step(&self, state: &mut State, client: usize, ballot: Ballot, step: Step<Job>) {
        let me = &mut state.clients[client];
        let At::Program(proposer) = &me.at else { return };
        match step {
            Step::Wait | Step::Pause => {}
            Step::Send(request) => self.send(state, client, request),
            Step::Done(outcome) => {
                let keys = Wish::Run(Job(self.clients[client][me.ended], 0)).keys();
                let held = proposer.held().unwrap_or_default().to_vec();
                let on = proposer.holders();
                me.held.extend(keys.into_iter().zip(held).map(|(key, basis)| (key, basis, on)));
                me.held.sort_by_key(|(key, ..)| *key);
                self.done(state, client, ballot, outcome);
            }
        }
    }

    fn done(&self, state: &mut State, client: usize, ballot: Ballot, outcome: Outcome<Job>) {
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
            Outcome::Unmet => unreachable!("no program here expects anything"),
            Outcome::NotKnown => {
                state.is_untold = true;
                state.lose(client);
            }
        }
    }

    /// Whether a master has done a later flush than this one, and so refuses.
    fn is_refused_after(&self, flush: u64, slots: &Slots<Job>) -> bool {
        let is_kept = !matches!(self.bug, Some(Bug::IgnoresTheFlush | Bug::CountsWhatMissedAFlush));
        is_kept && flush < slots.last_flush()
    }

    /// Whether a letter can have no more effect.
    fn is_dead(&self, slots: &Slots<Job>, letter: &Letter) -> bool {
        if self.is(Bug::BreaksPromises) || self.is(Bug::AdoptsWithTheOldBallot) {
            return false;
        }
        match &letter.request {
            Request::Prepare(keys, ballot) => {
                keys.iter().any(|(key, _)| slots.get(key).promised >= *ballot)
            }
            Request::Adopt(adopt) => adopt.states.iter().any(|adopted| {
                slots.get(&adopted.key).promised > adopted.state.accepted
                    || self.is_refused_after(adopted.flush, slots)
            }),
            Request::Apply(apply) => {
                apply.program.keys().iter().zip(&apply.basis).any(|(key, basis)| {
                    slots.get(key).promised > basis.ballot
                        || self.is_refused_after(basis.flush, slots)
                })
            }
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

    /// Advances the time for everybody.
    pub(crate) fn go_on(&mut self) {
        self.fade(ROUND);
        self.clock += ROUND;
    }

    /// Lets values expire from now on if their time is over after this much longer.
    fn fade(&mut self, more: u64) {
        let now = self.clock + more;
        for (_, owner, key) in self.fading.extract_if(.., |(due, ..)| *due <= now) {
            let _ = self.history.on_invoke(200 + owner, Job(Operation::Fade(key), 0));
        }
    }

    pub(crate) fn lose(&mut self, client: usize) {
        self.clients[client].at = At::Gone;
        self.errors += 1;
    }

    /// Whether no master may be left with the decided value of this key: a quorum has lost it, and
    /// the others may never have had it, or have overwritten it.
    fn is_with_nobody(&self, key: u8) -> bool {
        let slots = self.masters.iter().map(|master| master.slots.get(&key));
        slots.filter(|slot| slot.is_gone).count() >= Quorum::of(MASTERS).needed()
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

    /// Whether an earlier untouched master stands for this one.
    fn is_like_another(&self, master: usize) -> bool {
        !self.masters[master].is_touched
            && self.masters[..master].iter().any(|other| !other.is_touched)
    }
}

impl Litter {
    fn on(self, masters: &mut [Master; MASTERS]) {
        if self == Self::Nothing {
            return;
        }
        for (index, master) in masters.iter_mut().enumerate() {
            master.is_touched = true;
            let slot = master.slots.of(&0);
            match self {
                Self::Strings(count) if index < usize::from(count) => {
                    slot.lease = Some(Lease(LITTERER + index as u8));
                }
                Self::NoStamp if index == 0 => *slot = Slot::default(),
                Self::Beside if index == 0 => {
                    let accepted = Ballot { epoch: 0, counter: 0, worker: 1 };
                    (slot.state.accepted, slot.state.value) = (accepted, Stored::default());
                }
                _ => {}
            }
            if index == 0 && matches!(self, Self::NoStamp | Self::Beside) {
                slot.lease = Some(Lease(LITTERER));
            }
        }
    }
}

impl Client {
    fn is_at_work(&self) -> bool {
        matches!(self.at, At::Program(_) | At::Voting(..) | At::Flushing(_))
    }
}

impl Master {
    fn post(&mut self, letter: Letter) {
        // A late prepare can only make others fail. The same goes for a lost one, or for a promise
        // that nobody heard.
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
        let client =
            Client { at: At::Rest, version: 1, held: Vec::new(), ended: 0, has_released: false };
        let mut master = Master {
            slots: Slots::default(),
            version: Some(1),
            flushes: Vec::new(),
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
        let mut masters = [master.clone(), master.clone(), master];
        self.litter.on(&mut masters);
        vec![State {
            masters,
            clients: vec![client; self.clients.len()],
            clock: 0,
            retries: 0,
            losses: 0,
            swept: Vec::new(),
            sweeps: 0,
            copied: 0,
            flush_before_copying: None,
            lost: 0,
            history,
            ended: Vec::new(),
            fading: Vec::new(),
            errors: 0,
            is_untold: false,
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
            let is_settling = matches!(self.operation(state, index), Some(Operation::Settle(_)));
            let is_alone = state.version() == 2;
            if let At::Program(proposer) = &client.at
                && (is_settling || is_alone)
                && proposer.ballot().is_some()
            {
                actions.push(Action::Settle(index));
            }
            if self.gives_up && matches!(client.at, At::Voting(LeaseRequest::Claim, _)) {
                actions.push(Action::GiveUp(index));
            }
            match &client.at {
                At::Rest if is_open(index) && self.may_begin(state, index) => {
                    actions.push(Action::Begin(index));
                }
                At::Program(proposer)
                    if state.retries < self.retries
                        && (self.slow == 0 || proposer.ballot().is_none()) =>
                {
                    actions.push(Action::Again(index));
                }
                At::Flushing(_) if state.retries < self.retries && self.is(Bug::FlushesAgain) => {
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
            let flushes = master.flushes.iter();
            actions.extend(flushes.map(|letter| Action::DeliverFlush(index, *letter)));
            let is_behind = master.slots.last_flush() < state.last_flush();
            if self.catches_up && master.version.is_some() && is_behind {
                actions.push(Action::CatchUp(index));
            }
            for client in 0..self.clients.len() {
                let letter = master.leases.iter().find(|letter| letter.client == client);
                actions.extend(letter.map(|letter| Action::DeliverLease(index, *letter)));
                if let Some(letter) = letter.filter(|letter| letter.is_release()) {
                    let flushes = master.flushes.iter().filter(|flush| flush.is_new(&master.slots));
                    let between = |flush| Action::ReleaseBetween(index, *letter, flush);
                    actions.extend(flushes.copied().map(between));
                }
            }
            for (owner, key) in &state.ended {
                if master.slots.get(key).lease == Some(Lease(*owner)) {
                    actions.push(Action::Drop(index, *key));
                }
            }
            for (key, slot) in master.slots.iter().filter(|(_, slot)| slot.is_there()) {
                match slot.state.value.end {
                    // Time advances until the next round.
                    Some(end)
                        if end + self.slow < state.clock + ROUND
                            && (self.fast == 0 || slot.state.stays_us <= state.clock) =>
                    {
                        actions.push(Action::Remove(index, *key, false));
                    }
                    _ if state.lost < self.loses => {
                        actions.push(Action::Remove(index, *key, true));
                    }
                    _ => {}
                }
            }
        }
        self.sweeping(state, actions);
        if self.forgets {
            match (state.masters[MASTERS - 1].version, state.version()) {
                (Some(1), 1)
                    if state.masters[MASTERS - 1].is_touched
                        && state.clock >= self.forgets_after =>
                {
                    actions.push(Action::Empty);
                }
                (None, 2) if state.copied < ALL_KEYS => actions.push(Action::Copy),
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
            Action::Settle(client) => self.settle_without_the_silent(&mut state, client)?,
            Action::Deliver(master, letter) => self.deliver(&mut state, master, &letter, true),
            Action::DeliverUnheard(master, letter) => {
                state.losses += 1;
                self.deliver(&mut state, master, &letter, false);
            }
            Action::DeliverLease(master, letter) => self.deliver_lease(&mut state, master, letter),
            Action::DeliverFlush(master, letter) => self.deliver_flush(&mut state, master, letter),
            Action::ReleaseBetween(master, lease, flush) => {
                self.release_between(&mut state, master, lease);
                self.deliver_flush(&mut state, master, flush);
            }
            Action::CatchUp(master) => {
                let last = state.last_flush();
                state.masters[master].slots.flush(last);
                state.masters[master].is_touched = true;
            }
            Action::End(client, key) => {
                let (thread, owner) = (100 + client as u8, name(client));
                let end = Job(Operation::End(key, owner), 0);
                // Masters keep their copies a while longer, so the lease has no certain end.
                let _ = state.history.on_invoke(thread, end);
                state.ended.push((owner, key));
            }
            Action::Drop(master, key) => {
                state.masters[master].slots.give_back(&key, |_| true);
            }
            Action::Remove(master, key, is_lost) => {
                state.lost += u8::from(is_lost);
                let slots = &mut state.masters[master].slots;
                match is_lost || self.is(Bug::CleansUpWithoutAPromise) {
                    true => slots.lose(&key),
                    false => slots.clean_up(&key),
                }
                if is_lost && state.is_with_nobody(key) {
                    let thread = 240 + state.lost;
                    let _ = state.history.on_invoke(thread, Job(Operation::Vanish(key), 0));
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
            Action::Copy => state.copy(self),
            Action::Admit => {
                if self.is_cut_off {
                    state.masters[MASTERS - 1].leases.clear();
                }
                state.admit();
            }
            Action::Learn(client) => self.learn(&mut state, client)?,
            Action::GiveUp(client) => self.give_up(&mut state, client)?,
        }
        for index in 0..MASTERS {
            let mut inbox = std::mem::take(&mut state.masters[index].inbox);
            inbox.retain(|letter| {
                let is_awaited = self.slow > 0 && state.awaits(letter);
                let master = &state.masters[index];
                is_awaited || !self.is_dead(&master.slots, letter)
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
            Property::always(TOLD, |world: &Self, state: &State| {
                !world.is_enough || !state.is_untold
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
