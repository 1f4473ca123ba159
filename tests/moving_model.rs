//! An exhaustive model of old and new instances of an application. It covers every order in which a request to the
//! data Redis is executed, answered, given up or lost, and in which time passes. The production code decides.
//!
//! One new client claims through a proxy, and releases or claims again; an old client takes the lock whenever it is
//! free. Both may have the same token. The masters may grant or refuse at any point.

#[path = "support/exhaustive.rs"]
mod exhaustive;
#[path = "specification/mod.rs"]
mod specification;

use std::collections::VecDeque;
use std::time::Duration;

use exhaustive::{goes_wrong, holds};
use redlock_proxy::also_claim::claim::{DualClaim, DualStep};
use redlock_proxy::also_claim::script::{Claimed, CopyName};

use crate::specification::data_copy::{self as copy, DataCopy};
use stateright::{Model, Property};

const TOKEN: u8 = 1;

/// TTL of a lock, and the extra time that the data Redis keeps it meanwhile, in ticks.
const TTL: u8 = 1;
const SLACK: u8 = 1;

/// Maximum times that the old client takes the lock.
const OLD_TIMES: u8 = 2;

const EXCLUSION: &str = "no two hold the lock";
const NO_GHOSTS: &str = "nothing is left of what was refused or given back";

/// A missing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A take-back identifies its copy by the token.
    TakeBackByToken,
    /// A settlement with the lease identifies its copy by the token.
    SettleByToken,
    /// A grant is reported at once, however late it is.
    LateGrant,
    /// A confirmation counts, however late it is.
    LateConfirmation,
    /// The data Redis keeps the lock only for as long as the client asked.
    NoSlack,
    /// A new connection is used while the old one may still execute.
    OldConnectionLives,
    /// An unanswered claim is not taken back.
    UnknownIsNo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Claim,
    Release,
}

struct World {
    jobs: &'static [Job],
    for_ever: bool,
    cuts: u8,
    end: u8,
    /// The old client's token; the new client's is [`TOKEN`].
    old_token: u8,
    bug: Option<Bug>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Request {
    Claim(CopyName, u8),
    Settle(CopyName, Option<u8>),
    TakeBack(CopyName),
    Release,
}

/// State of the new client's request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The data Redis is asked.
    Asking(DualClaim),
    /// The masters are asked.
    Voting(DualClaim),
    Confirming(DualClaim),
    Releasing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    key: Option<DataCopy<u8>>,
    requests: VecDeque<(Request, u8)>,
    /// Requests that an earlier connection still holds.
    old: VecDeque<(Request, u8)>,
    /// Answers, each with its job.
    answers: VecDeque<(u8, u8)>,
    cuts: u8,
    phase: Phase,
    /// Number of jobs begun.
    begun: u8,
    /// Times until which the clients believe that they hold the lock; 255: for ever.
    new_until: u8,
    old_until: u8,
    /// Times that the old client has had the lock.
    old_times: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Tick,
    Begin,
    Execute,
    ExecuteOld,
    Hear,
    /// Nobody waits for the answer any more.
    GiveUp,
    Vote(bool),
    Cut,
    OldClaims,
    OldReleases,
}

const FOR_EVER: u8 = u8::MAX;

fn ticks(ticks: u8) -> Duration {
    Duration::from_secs(u64::from(ticks))
}

impl World {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn name(&self, state: &State) -> CopyName {
        CopyName(u128::from(state.begun))
    }

    fn slack(&self) -> u8 {
        if self.has(Bug::NoSlack) { 0 } else { SLACK }
    }

    fn send(&self, state: &mut State, request: Request) {
        state.requests.push_back((request, state.begun));
    }

    fn run(&self, state: &mut State, (request, job): (Request, u8)) -> (u8, u8) {
        let now = u64::from(state.now);
        let key = &mut state.key;
        let said = match request {
            Request::Claim(name, ttl) => {
                let new =
                    DataCopy { token: TOKEN, name: Some(name), end_ms: Some(now + u64::from(ttl)) };
                u8::from(copy::claim(key, new, false) == Claimed::Taken)
            }
            Request::Settle(_, end) if self.has(Bug::SettleByToken) => {
                if let Some(copy) = key {
                    copy.end_ms = end.map(|ttl| now + u64::from(ttl));
                }
                u8::from(key.is_some())
            }
            Request::Settle(name, end) => {
                u8::from(copy::settle(key, name, end.map(|ttl| now + u64::from(ttl))))
            }
            Request::TakeBack(_) if self.has(Bug::TakeBackByToken) => {
                u8::from(copy::release(key, &TOKEN))
            }
            Request::TakeBack(name) => {
                copy::take_back(key, name, &TOKEN);
                1
            }
            Request::Release => u8::from(copy::release(key, &TOKEN)),
        };
        (job, said)
    }

    fn hear(&self, state: &mut State, said: Option<u8>) {
        match state.phase.clone() {
            Phase::Asking(mut claim) => {
                let claimed =
                    said.map(|said| if said == 1 { Claimed::Taken } else { Claimed::Held });
                match claim.asked(claimed) {
                    DualStep::AskMasters => state.phase = Phase::Voting(claim),
                    DualStep::Unknown if !self.has(Bug::UnknownIsNo) => self.take_back(state),
                    _ => state.phase = Phase::Idle,
                }
            }
            Phase::Confirming(mut claim) => {
                let now = if self.has(Bug::LateConfirmation) { 0 } else { state.now };
                let step = claim.confirmed(said == Some(1), ticks(now));
                self.follow(state, claim, step);
            }
            Phase::Releasing => state.phase = Phase::Idle,
            Phase::Idle | Phase::Voting(_) => {}
        }
    }

    fn take_back(&self, state: &mut State) {
        self.send(state, Request::TakeBack(self.name(state)));
        state.phase = Phase::Idle;
    }

    fn grant(&self, state: &mut State) {
        state.new_until = if self.for_ever { FOR_EVER } else { state.now + TTL };
        state.phase = Phase::Idle;
    }

    fn vote(&self, state: &mut State, is_granted: bool) {
        let Phase::Voting(mut claim) = state.phase.clone() else { return };
        let now = if self.has(Bug::LateGrant) { ticks(0) } else { ticks(state.now) };
        let step = claim.voted(is_granted, now);
        self.follow(state, claim, step);
    }

    fn follow(&self, state: &mut State, claim: DualClaim, step: DualStep) {
        let settle = |ttl: u8| Request::Settle(self.name(state), (!self.for_ever).then_some(ttl));
        match step {
            DualStep::Grant => {
                let settle = settle(TTL);
                self.send(state, settle);
                self.grant(state);
            }
            DualStep::Confirm => {
                let settle = settle(TTL + self.slack());
                self.send(state, settle);
                state.phase = Phase::Confirming(claim);
            }
            _ => self.take_back(state),
        }
    }

    fn begin(&self, state: &mut State) {
        let job = self.jobs[usize::from(state.begun)];
        state.begun += 1;
        state.new_until = 0;
        match job {
            Job::Claim => {
                let claim = DualClaim::new(ticks(state.now), ticks(SLACK), self.for_ever);
                self.send(state, Request::Claim(self.name(state), TTL + self.slack()));
                state.phase = Phase::Asking(claim);
            }
            Job::Release => {
                self.send(state, Request::Release);
                state.phase = Phase::Releasing;
            }
        }
    }

    /// Cuts the connection: owed requests go over the next one, the rest is lost.
    fn cut(&self, state: &mut State) {
        state.cuts += 1;
        let lost = std::mem::take(&mut state.requests);
        let is_owed = |request: &Request| matches!(request, Request::TakeBack(_));
        state.requests.extend(lost.iter().filter(|(request, _)| is_owed(request)));
        if self.has(Bug::OldConnectionLives) {
            state.old.extend(lost.iter().filter(|(request, _)| !is_owed(request)));
        }
        state.answers.clear();
        self.hear(state, None);
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: 0,
            key: None,
            requests: VecDeque::new(),
            old: VecDeque::new(),
            answers: VecDeque::new(),
            cuts: 0,
            phase: Phase::Idle,
            begun: 0,
            new_until: 0,
            old_until: 0,
            old_times: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let waits =
            matches!(state.phase, Phase::Asking(_) | Phase::Confirming(_) | Phase::Releasing);
        let mut may = |action, is_so| {
            if is_so {
                actions.push(action);
            }
        };
        may(Action::Tick, state.now < self.end);
        may(
            Action::Begin,
            state.phase == Phase::Idle && usize::from(state.begun) < self.jobs.len(),
        );
        may(Action::Execute, !state.requests.is_empty());
        may(Action::ExecuteOld, !state.old.is_empty());
        may(Action::Hear, !state.answers.is_empty());
        may(Action::GiveUp, waits);
        may(Action::Vote(true), matches!(state.phase, Phase::Voting(_)));
        may(Action::Vote(false), matches!(state.phase, Phase::Voting(_)));
        may(
            Action::Cut,
            state.cuts < self.cuts && !(state.requests.is_empty() && state.answers.is_empty()),
        );
        may(Action::OldClaims, state.key.is_none() && state.old_times < OLD_TIMES);
        may(Action::OldReleases, state.old_until > state.now);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Tick => {
                state.now += 1;
                let now = u64::from(state.now);
                state.key = state.key.filter(|copy| copy.end_ms.is_none_or(|end| now < end));
            }
            Action::Begin => self.begin(&mut state),
            Action::Execute => {
                let request = state.requests.pop_front()?;
                let answer = self.run(&mut state, request);
                if !matches!(request.0, Request::TakeBack(_)) {
                    state.answers.push_back(answer);
                }
            }
            Action::ExecuteOld => {
                let request = state.old.pop_front()?;
                self.run(&mut state, request);
            }
            Action::Hear => {
                let (job, said) = state.answers.pop_front()?;
                // An answer to a grant that was reported at once, or to a job that was given up, is discarded.
                if job == state.begun {
                    self.hear(&mut state, Some(said));
                }
            }
            Action::GiveUp => {
                // A late answer is not taken for another job's.
                state.answers.retain(|(job, _)| *job != before.begun);
                state
                    .requests
                    .iter_mut()
                    .filter(|(_, job)| *job == before.begun)
                    .for_each(|it| it.1 = 0);
                self.hear(&mut state, None);
            }
            Action::Vote(is_granted) => self.vote(&mut state, is_granted),
            Action::Cut => self.cut(&mut state),
            Action::OldClaims => {
                let end_ms = Some(u64::from(state.now + TTL));
                state.key = Some(DataCopy { token: self.old_token, name: None, end_ms });
                state.old_until = state.now + TTL;
                state.old_times += 1;
            }
            Action::OldReleases => {
                copy::release(&mut state.key, &self.old_token);
                state.old_until = 0;
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_: &Self, state: &State| {
                state.new_until <= state.now || state.old_until <= state.now
            }),
            Property::always("what a client believes in is there", |_: &Self, state: &State| {
                let until = state.new_until.max(state.old_until);
                until <= state.now || state.key.is_some()
            }),
            // If time passes, a lock that has just expired for its client stays for the rest of its own TTL.
            Property::always(NO_GHOSTS, |world: &Self, state: &State| {
                let is_quiet = state.requests.is_empty() && state.old.is_empty();
                let is_over = state.phase == Phase::Idle && state.new_until <= state.now;
                let is_done = usize::from(state.begun) == world.jobs.len();
                let is_ghost = state.key.is_some_and(|copy| copy.name.is_some());
                world.end > 0 || !(is_quiet && is_over && is_done && is_ghost)
            }),
            Property::sometimes("the new client gets it", |_: &Self, state: &State| {
                state.new_until > 0
            }),
        ]
    }
}

fn misses(bug: Bug, world: World, property: &'static str) {
    goes_wrong(World { bug: Some(bug), ..world }, property);
}

fn again() -> World {
    World {
        jobs: &[Job::Claim, Job::Claim],
        for_ever: false,
        cuts: 0,
        end: 3,
        old_token: TOKEN,
        bug: None,
    }
}

fn once() -> World {
    World { jobs: &[Job::Claim], end: 0, ..again() }
}

#[test]
fn no_two_hold_the_lock() {
    holds(once(), 30);
    holds(again(), 1_000);
    holds(World { cuts: 1, ..once() }, 50);
    holds(World { cuts: 1, ..again() }, 2_000);
    // A late release ends a lock with the same token, as with one Redis.
    let jobs = &[Job::Claim, Job::Release, Job::Claim];
    holds(World { jobs, cuts: 1, old_token: 2, ..again() }, 2_000);
    holds(World { for_ever: true, cuts: 1, ..again() }, 1_000);
}

#[test]
fn each_rule_is_needed() {
    misses(Bug::TakeBackByToken, again(), "what a client believes in is there");
    misses(Bug::SettleByToken, again(), "what a client believes in is there");
    misses(Bug::LateGrant, again(), EXCLUSION);
    misses(Bug::LateConfirmation, World { end: 4, ..again() }, EXCLUSION);
    misses(Bug::NoSlack, again(), EXCLUSION);
    misses(Bug::OldConnectionLives, World { cuts: 1, ..once() }, NO_GHOSTS);
    misses(Bug::UnknownIsNo, once(), NO_GHOSTS);
}
