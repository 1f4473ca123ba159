//! The roster as a register on the masters themselves, one of which forgets and is admitted again.

use redlock_proxy::decision::quorum::{MasterId, Quorum};
use redlock_proxy::decision::register::StateOf;
use redlock_proxy::decision::register::acceptor::State as Accepted;
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::decision::register::electorate::RegisterElectorate;
use redlock_proxy::decision::register::proposer::{MasterAnswer, Outcome, Proposer, Request, Step};
use redlock_proxy::decision::roster::roster::{Change, Identity, Presence, Roster};
use stateright::{Model, Property};

use crate::admission::{MASTERS, founded, run_id};
use crate::specification::stamp::{self, Stamp, StampOf};
use crate::{explore, steps_to_failure};

/// The master that forgets.
const LAST: usize = MASTERS - 1;
const KEEP: usize = 8;

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bug {
    /// An emptied master keeps voting on the roster.
    EmptiedMasterVotes,
    /// Promises and accepted states of an earlier incarnation count.
    CountsEarlierIncarnations,
}

/// Voters on the roster, perhaps with a rule removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Voters(Option<Bug>);

impl RegisterElectorate<Roster> for Voters {
    type Credential = Presence;

    fn counts(&self, newest: &Roster, _: MasterId, shown: &Presence) -> bool {
        match self.0 {
            Some(Bug::CountsEarlierIncarnations) => shown.identity.is_some(),
            _ => newest.is_member(shown),
        }
    }
}

/// Identity that a master shows with the mark of this incarnation.
fn identity(incarnation: u64, at: usize) -> Identity {
    Identity { cluster: founded().cluster, incarnation, run_id: run_id(at) }
}

#[derive(Clone, Debug)]
struct World {
    changes: Vec<Vec<Change>>,
    retries: u8,
    /// Lead of each proxy's clock over the previous one's. Its ballots are higher by as much.
    skew: u64,
    bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    masters: [Master; MASTERS],
    proxies: Vec<Proxy>,
    clock: u64,
    retries: u8,
    forgot: bool,
    /// Incarnation with which the last master was admitted.
    admitted: Option<u64>,
    caught_up: bool,
    /// Versions that were returned, one bit each, and the highest of them.
    versions: u32,
    highest: u64,
    wrong: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Master {
    stamp: StampOf<Change>,
    identity: Option<Identity>,
    inbox: Vec<Letter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proxy {
    proposer: Option<Proposer<Change, Voters>>,
    ended: usize,
    floor: u64,
}

/// Proxy, ballot and request.
type Letter = (usize, Ballot, Request<Change>);

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Begin(usize),
    Again(usize),
    Deliver(usize, Box<Letter>),
    Forget,
    SetMark,
    CatchUp,
}

impl World {
    fn small() -> Self {
        let last = MasterId::new(LAST);
        let out = Change::Out { member: last, incarnation: 1 };
        let (run_id, address) = (run_id(LAST), String::new());
        let back = Change::In { member: last, since: 2, nonce: 1, run_id, address };
        let other = Change::Out { member: MasterId::new(0), incarnation: 1 };
        Self { changes: vec![vec![out, back], vec![other]], retries: 0, skew: 0, bug: None }
    }

    fn now(&self, state: &State, index: usize) -> u64 {
        state.clock + self.skew * index as u64
    }

    fn begin(&self, state: &mut State, index: usize) -> Option<()> {
        let change = self.changes[index].get(state.proxies[index].ended)?.clone();
        state.clock += 10;
        let (quorum, voters, now) = (Quorum::of(MASTERS), Voters(self.bug), self.now(state, index));
        let (proposer, request) = Proposer::new(quorum, index as u64, voters, Some(change), now);
        state.proxies[index].proposer = Some(proposer);
        state.proxies[index].floor = state.highest;
        state.send(index, request);
        Some(())
    }

    fn deliver(&self, state: &mut State, at: usize, letter: &Letter) -> Option<()> {
        let (index, ballot, request) = letter;
        let master = &mut state.masters[at];
        master.inbox.retain(|other| other != letter);
        let votes = self.bug == Some(Bug::EmptiedMasterVotes);
        let identity = match &master.identity {
            None if votes => identity(1, at),
            shown => shown.clone()?,
        };
        let shown = Presence { identity: Some(identity), nonce: None, run_id: run_id(at) };
        let stamp = &mut master.stamp;
        let answer = match request {
            Request::Prepare(ballot) => stamp.prepare(*ballot).map(MasterAnswer::Promised),
            Request::Adopt(adopt) => stamp.adopt(adopt).map(|()| MasterAnswer::Adopted),
            Request::Apply(apply) => stamp::apply(stamp, apply, KEEP).map(MasterAnswer::Applied),
        };
        let answer = answer.unwrap_or_else(MasterAnswer::Refused);
        let proposer = state.proxies[*index].proposer.as_mut()?;
        match proposer.answer(*ballot, MasterId::new(at), shown, answer) {
            Step::Wait | Step::Pause => {}
            Step::Send(request) => state.send(*index, request),
            Step::Done(outcome) => state.done(*index, outcome),
        }
        Some(())
    }
}

impl State {
    fn send(&mut self, index: usize, request: Request<Change>) {
        let proposer = self.proxies[index].proposer.as_ref();
        let Some(ballot) = proposer.and_then(Proposer::ballot) else { return };
        for master in &mut self.masters {
            // A late prepare can only make others fail. The same goes for a lost one.
            master.inbox.retain(|old| old.0 != index || !matches!(old.2, Request::Prepare(_)));
            master.inbox.push((index, ballot, request.clone()));
        }
    }

    fn done(&mut self, index: usize, outcome: Outcome<Change>) {
        let proxy = &mut self.proxies[index];
        let change = proxy.proposer.take();
        proxy.ended += 1;
        if let Outcome::Ran(Some(version)) = outcome {
            let seen = self.versions & (1 << version) != 0;
            self.wrong |= seen || version <= proxy.floor;
            self.versions |= 1 << version;
            self.highest = self.highest.max(version);
            if index == 0 && proxy.ended == 2 && change.is_some() {
                self.admitted = Some(2);
            }
        }
    }

    /// State that both others hold while the last master has none.
    fn decided(&self) -> Option<&StateOf<Change>> {
        let [one, other, last] = self.masters.each_ref().map(|master| &master.stamp.state);
        (one == other && last.accepted == Ballot::NONE).then_some(one)
    }
}

impl Master {
    fn drop_dead_letters(&mut self) {
        let promised = self.stamp.promised;
        self.inbox.retain(|(_, _, request)| match request {
            Request::Prepare(ballot) => *ballot > promised,
            Request::Adopt(adopt) => adopt.state.accepted >= promised,
            Request::Apply(apply) => apply.ballot >= promised,
        });
        self.inbox.sort_by_key(|(index, ballot, _)| (*index, *ballot));
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let first = Ballot { epoch: 0, counter: 1, worker: 9 };
        let value = founded();
        let state = Accepted { accepted: first, value, recent: Default::default() };
        let master = |at| Master {
            stamp: Stamp { promised: first, state: state.clone() },
            identity: Some(identity(1, at)),
            inbox: Vec::new(),
        };
        let proxy = Proxy { proposer: None, ended: 0, floor: 0 };
        vec![State {
            masters: [master(0), master(1), master(2)],
            proxies: vec![proxy; self.changes.len()],
            clock: 0,
            retries: 0,
            forgot: false,
            admitted: None,
            caught_up: false,
            versions: 0,
            highest: 1,
            wrong: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, proxy) in state.proxies.iter().enumerate() {
            let is_open = proxy.ended < self.changes[index].len();
            match &proxy.proposer {
                None if is_open => actions.push(Action::Begin(index)),
                Some(_) if state.retries < self.retries => actions.push(Action::Again(index)),
                _ => {}
            }
        }
        for (at, master) in state.masters.iter().enumerate() {
            let deliver = |letter: &Letter| Action::Deliver(at, Box::new(letter.clone()));
            actions.extend(master.inbox.iter().map(deliver));
        }
        if !state.forgot {
            actions.push(Action::Forget);
        }
        if state.admitted.is_some() && state.masters[LAST].identity.is_none() {
            actions.push(Action::SetMark);
        }
        if !state.caught_up && state.admitted.is_some() && state.decided().is_some() {
            actions.push(Action::CatchUp);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Begin(index) => self.begin(&mut state, index)?,
            Action::Again(index) => {
                state.retries += 1;
                state.clock += 10;
                let now = self.now(&state, index);
                let request = state.proxies[index].proposer.as_mut()?.again(now);
                state.send(index, request);
            }
            Action::Deliver(at, letter) => {
                // A letter that a master does not answer is lost.
                let _ = self.deliver(&mut state, at, &letter);
            }
            Action::Forget => {
                state.forgot = true;
                let last = &mut state.masters[LAST];
                (last.stamp, last.identity) = (StampOf::<Change>::default(), None);
            }
            Action::SetMark => {
                let incarnation = state.admitted?;
                state.masters[LAST].identity = Some(identity(incarnation, LAST));
            }
            Action::CatchUp => {
                state.caught_up = true;
                let decided = state.decided()?.clone();
                state.masters[LAST].stamp.catch_up(&decided);
            }
        }
        state.masters.iter_mut().for_each(Master::drop_dead_letters);
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("versions never fork", |_: &Self, state: &State| !state.wrong),
            Property::sometimes("who forgot votes on the roster", |_: &Self, state: &State| {
                let last = &state.masters[LAST];
                state.forgot && last.identity.is_some() && last.stamp.state.accepted > Ballot::NONE
            }),
        ]
    }
}

#[test]
fn no_master_that_forgets_makes_the_roster_fork() {
    let states = explore(World::small());
    assert!(states > 1_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_master_that_forgets_makes_the_roster_fork_when_changes_begin_again() {
    let states = explore(World { retries: 1, ..World::small() });
    assert!(states > 100_000, "only {states} states");
}

fn steps_to_a_fork(bug: Bug, world: World) -> usize {
    steps_to_failure(World { bug: Some(bug), ..world }, "versions never fork")
}

#[test]
fn an_emptied_master_that_votes_makes_the_roster_fork() {
    assert!(steps_to_a_fork(Bug::EmptiedMasterVotes, World::small()) < 20);
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn what_an_earlier_incarnation_promised_makes_the_roster_fork() {
    let mut world = World { skew: 1_000, ..World::small() };
    world.changes[0].push(Change::Out { member: MasterId::new(1), incarnation: 1 });
    assert!(steps_to_a_fork(Bug::CountsEarlierIncarnations, world) < 40);
}
