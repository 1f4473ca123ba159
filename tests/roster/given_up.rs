//! The register when the roster is begun anew: masters that forgot their promises are asked too.
//!
//! Meanwhile a proxy changes the abandoned roster, with higher ballots than the proxy that begins
//! anew. Messages arrive in any order, late or never. Work on marks takes no time in this model,
//! and no master rests.

use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::decision::register::proposer::{MasterAnswer, Outcome, Proposer, Request, Step};
use redlock_proxy::decision::roster::admission::{self, Shown};
use redlock_proxy::decision::roster::anew::{self, Rests};
use redlock_proxy::decision::roster::learning::{self, Lesson};
use redlock_proxy::decision::roster::mark::{Mark, MarkKind, Tail};
use redlock_proxy::decision::roster::roster::{Accepted, Change, Presence, Roster, Voters};
use stateright::{Model, Property};

use crate::admission::{MASTERS, founded, run_id};
use crate::specification::stamp::{self, Stamp, StampOf};
use crate::{explore, steps_to_failure};

const KEEP: usize = 8;
/// The proxies. One changes the roster that is given up. The other maintains it and begins it anew.
const OLD: usize = 0;
const KEEPER: usize = 1;
/// Maximum turns of a keeper until any roster is decided and followed.
const TURNS: usize = 12;

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bug {
    /// The roster is begun anew without a new epoch, so the higher counter wins.
    NoEpochs,
}

#[derive(Clone, Debug)]
struct World {
    /// The change of the abandoned roster.
    change: Change,
    /// Whether the last master alone has accepted another change before that.
    is_torn: bool,
    /// Groups of masters that forget, one after another, at any time.
    forgets: Vec<MasterSet>,
    restarts: usize,
    bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    masters: [Master; MASTERS],
    proposers: [Option<Proposer<Change, Voters>>; 2],
    /// The roster that the keeper knows.
    known: Roster,
    /// Number of new beginnings in the roster held by a quorum, as long as no quorum has forgotten
    /// since.
    decided: u64,
    forgets: usize,
    nonces: u64,
    restarts: usize,
    settled: usize,
    clock: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Master {
    /// `None` if it keeps nothing of the roster.
    stamp: Option<StampOf<Change>>,
    mark: Option<Mark>,
    inbox: Vec<Letter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Letter {
    from: usize,
    ballot: Ballot,
    request: Request<Change>,
    /// Whether masters that keep nothing of the roster answer.
    all_speak: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Deliver(usize, Box<Letter>),
    Forget(MasterSet),
    Turn,
}

impl World {
    fn small(change: Change) -> Self {
        let forgets = vec![MasterSet::first(2), MasterSet::first(1)];
        Self { change, is_torn: false, forgets, restarts: 1, bug: None }
    }

    /// Takes one step of a keeper. In the calm, its changes of the roster take no time either.
    fn turn(&self, state: &mut State, is_calm: bool) {
        state.proposers[KEEPER] = None;
        if self.learn(state, is_calm) || state.known.version == 0 {
            return;
        }
        let shown = state.shown();
        for place in (0..MASTERS).map(MasterId::new) {
            let task = admission::next(&state.known, place, &shown, None);
            if let Some(admission::Task::Mark { master, mark }) = task {
                return state.masters[master.index()].get_mark(mark);
            }
        }
        let mut rests = Rests::default();
        rests.see(&state.known, &shown, 0);
        let fit = MasterSet::first(MASTERS);
        match anew::next(&state.known, &shown, fit, &rests, (0, 0)) {
            Some(anew::Task::Mark(places)) => {
                for place in places.iter() {
                    state.nonces += 1;
                    let kind = MarkKind::Provisional { nonce: state.nonces };
                    let mark = Mark { kind, database: 0, tail: Tail::default() };
                    state.masters[place.index()].get_mark(mark);
                }
            }
            Some(anew::Task::Change(change)) if is_calm => {
                state.run(self.voters(&change), Some(change));
            }
            Some(anew::Task::Change(change)) if state.restarts < self.restarts => {
                state.restarts += 1;
                state.propose(KEEPER, self.voters(&change), Some(change));
            }
            Some(anew::Task::Change(_) | anew::Task::Rest) | None => {}
        }
    }

    /// Learns the masters' roster. Returns whether there is something new to examine.
    fn learn(&self, state: &mut State, is_calm: bool) -> bool {
        let held = state.held();
        let held: Vec<&Accepted> = held.iter().collect();
        match learning::lesson(&state.known, &held) {
            None => false,
            Some(Lesson::TakeOver(decided)) => {
                let is_news = state.knows(&decided.value);
                state.catch_up(decided);
                is_news
            }
            Some(Lesson::Settle(_)) if !is_calm && state.settled == SETTLES => false,
            Some(Lesson::Settle(newest)) => {
                state.settled += usize::from(!is_calm);
                match state.run(Voters::Members, None) {
                    Some(Outcome::Read(settled)) => state.knows(&settled),
                    _ => {
                        state.knows(&newest.value);
                        false
                    }
                }
            }
        }
    }

    /// Voters on a change that begins anew.
    fn voters(&self, change: &Change) -> Voters {
        let Change::Restart { anew, .. } = change else { return Voters::Members };
        let mut anew = anew.clone();
        if self.bug == Some(Bug::NoEpochs) {
            anew.losses = 0;
        }
        Voters::Anew(anew)
    }

    /// Whether a keeper, including a newly started one, gets the masters to agree once nothing more
    /// goes wrong. They must never agree on an abandoned roster.
    fn recovers(&self, state: &State) -> bool {
        [state.known.clone(), Roster::default()].into_iter().all(|known| {
            let mut calm = State { known, ..state.clone() };
            calm.proposers = [None, None];
            calm.masters.iter_mut().for_each(|master| master.inbox.clear());
            let is_there = |calm: &mut State| {
                self.turn(calm, true);
                let is_given_up = calm.known.losses < state.decided;
                calm.serves() && !is_given_up || calm.held().is_empty()
            };
            (0..TURNS).any(|_| is_there(&mut calm))
        })
    }
}

impl State {
    fn propose(&mut self, index: usize, voters: Voters, change: Option<Change>) {
        self.clock += 10;
        let all_speak = all_speak(&voters);
        let now = if index == OLD { self.clock + AHEAD } else { self.clock };
        let (proposer, request) =
            Proposer::new(Quorum::of(MASTERS), index as u64, voters, change, now);
        self.proposers[index] = Some(proposer);
        self.send(index, request, all_speak);
    }

    /// Lets the keeper change or settle the roster before anything else happens. Returns `None` if
    /// there is no quorum for it.
    fn run(&mut self, voters: Voters, change: Option<Change>) -> Option<Outcome<Change>> {
        let inboxes = self.masters.each_ref().map(|master| master.inbox.clone());
        self.masters.iter_mut().for_each(|master| master.inbox.clear());
        let all_speak = all_speak(&voters);
        self.propose(KEEPER, voters, change);
        let outcome = self.outcome(all_speak);
        self.proposers[KEEPER] = None;
        for (master, inbox) in self.masters.iter_mut().zip(inboxes) {
            master.inbox = inbox;
        }
        outcome
    }

    fn outcome(&mut self, all_speak: bool) -> Option<Outcome<Change>> {
        for _ in 0..ROUNDS {
            while let Some((at, letter)) = self.next_letter() {
                if let Some(outcome) = self.deliver(at, &letter) {
                    return Some(outcome);
                }
            }
            let proposer = self.proposers[KEEPER].as_mut()?;
            if proposer.ballot().is_some() && proposer.no_more_answers() == Step::Wait {
                return None;
            }
            self.clock += 10;
            let request = proposer.again(self.clock);
            self.send(KEEPER, request, all_speak);
        }
        None
    }

    fn next_letter(&self) -> Option<(usize, Letter)> {
        let mut letters = self.masters.iter().enumerate();
        letters.find_map(|(at, master)| Some((at, master.inbox.first()?.clone())))
    }

    fn send(&mut self, from: usize, request: Request<Change>, all_speak: bool) {
        let ballot = self.proposers[from].as_ref().and_then(Proposer::ballot);
        let Some(ballot) = ballot else { return };
        let letter = Letter { from, ballot, request, all_speak };
        self.masters.iter_mut().for_each(|master| master.inbox.push(letter.clone()));
    }

    fn deliver(&mut self, at: usize, letter: &Letter) -> Option<Outcome<Change>> {
        let master = &mut self.masters[at];
        master.inbox.retain(|other| other != letter);
        let answer = master.answer(letter)?;
        let presence = master.presence(at);
        let proposer = self.proposers[letter.from].as_mut()?;
        match proposer.answer(letter.ballot, MasterId::new(at), presence, answer) {
            Step::Wait | Step::Pause => {}
            Step::Send(request) => self.send(letter.from, request, letter.all_speak),
            Step::Done(outcome) => {
                self.proposers[letter.from] = None;
                return Some(outcome);
            }
        }
        None
    }

    fn catch_up(&mut self, decided: &Accepted) {
        for (at, master) in self.masters.iter_mut().enumerate() {
            let held = master.stamp.as_ref().map(|stamp| &stamp.state);
            if learning::is_behind(decided, held, master.mark.as_ref(), &run_id(at)) {
                master.stamp.get_or_insert_default().catch_up(decided);
            }
        }
    }

    fn note_decided(&mut self) {
        let held = self.held();
        let held: Vec<&Accepted> = held.iter().collect();
        let newest = learning::newest(&held);
        let decided = newest.filter(|newest| newest.is_decided);
        let losses = decided.map_or(0, |decided| decided.state.value.losses);
        self.decided = self.decided.max(losses);
    }

    fn knows(&mut self, roster: &Roster) -> bool {
        let is_news = learning::is_news(&self.known, roster);
        if is_news {
            self.known = roster.clone();
        }
        is_news
    }

    fn held(&self) -> Vec<Accepted> {
        let states = self.masters.iter().filter_map(|master| Some(&master.stamp.as_ref()?.state));
        states.filter(|state| state.value.version > 0).cloned().collect()
    }

    fn shown(&self) -> Vec<Option<Shown>> {
        let show = |(at, master): (usize, &Master)| {
            Some(Shown { mark: master.mark.clone(), run_id: run_id(at), address: String::new() })
        };
        self.masters.iter().enumerate().map(show).collect()
    }

    /// Masters that prove that they vote under a roster.
    fn proving(&self, roster: &Roster) -> MasterSet {
        let proves = |place: &MasterId| {
            let mark = self.masters[place.index()].mark.as_ref();
            let expected = Mark::expected(roster, *place, 0);
            mark.zip(expected).is_some_and(|(mark, expected)| mark.proves_same(&expected))
        };
        roster.voters().iter().filter(proves).collect()
    }

    /// Whether a quorum votes and the roster can be changed.
    fn serves(&self) -> bool {
        let can_vote = |roster: &Roster| Quorum::of(MASTERS).reached_by(self.proving(roster));
        self.known.version > 0
            && can_vote(&self.known)
            && self.clone().run(Voters::Members, None).is_some()
    }
}

/// Whether masters that keep nothing of the roster answer.
fn all_speak(voters: &Voters) -> bool {
    *voters != Voters::Members
}

impl Master {
    /// Answers a letter as the roster's scripts do.
    fn answer(&mut self, letter: &Letter) -> Option<MasterAnswer<Change>> {
        let is_silent = self.stamp.is_none() && !letter.all_speak;
        let mut stamp = self.stamp.clone().unwrap_or_default();
        let answer = match &letter.request {
            Request::Prepare(_) if is_silent => return None,
            Request::Prepare(ballot) => stamp.prepare(*ballot).map(MasterAnswer::Promised),
            Request::Adopt(adopt) => stamp.adopt(adopt).map(|()| MasterAnswer::Adopted),
            Request::Apply(apply) => {
                stamp::apply(&mut stamp, apply, KEEP).map(MasterAnswer::Applied)
            }
        };
        if answer.is_ok() {
            self.stamp = Some(stamp);
        }
        Some(answer.unwrap_or_else(MasterAnswer::Refused))
    }

    fn presence(&self, at: usize) -> Presence {
        let run_id = run_id(at);
        let identity = self.mark.as_ref().and_then(|mark| mark.identity(&run_id));
        Presence { identity, nonce: self.mark.as_ref().and_then(Mark::nonce), run_id }
    }

    /// Sets a mark. A master that rested votes on the roster before it has received it.
    fn get_mark(&mut self, mark: Mark) {
        let was_provisional = self.mark.as_ref().is_some_and(|mark| mark.cluster().is_none());
        if was_provisional && mark.cluster().is_some() {
            self.stamp.get_or_insert_default();
        }
        self.mark = Some(mark);
    }

    fn drop_dead_letters(&mut self) {
        let promised = self.stamp.as_ref().map_or(Ballot::NONE, |stamp| stamp.promised);
        self.inbox.retain(|letter| match &letter.request {
            Request::Prepare(ballot) => *ballot > promised,
            Request::Adopt(adopt) => adopt.state.accepted >= promised,
            Request::Apply(apply) => apply.ballot >= promised,
        });
        self.inbox.sort_by_key(|letter| (letter.from, letter.ballot));
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (roster, accepted) = (founded(), Ballot { epoch: 0, counter: 1, worker: 9 });
        let state = Accepted { accepted, value: roster.clone(), ..Accepted::default() };
        let master = |at| Master {
            stamp: Some(Stamp { promised: accepted, state: state.clone() }),
            mark: Mark::expected(&roster, MasterId::new(at), 0),
            inbox: Vec::new(),
        };
        let mut masters = std::array::from_fn(master);
        if self.is_torn {
            let accepted = Ballot { counter: 2, ..accepted };
            let (state, _) = state.after(&seen_elsewhere(), accepted, KEEP);
            masters[2].stamp = Some(Stamp { promised: accepted, state });
        }
        let mut state = State {
            masters,
            proposers: [None, None],
            known: roster.clone(),
            decided: 0,
            forgets: 0,
            nonces: 0,
            restarts: 0,
            settled: 0,
            clock: 10,
        };
        state.propose(OLD, Voters::Members, Some(self.change.clone()));
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, master) in state.masters.iter().enumerate() {
            let deliver = |letter: &Letter| Action::Deliver(at, Box::new(letter.clone()));
            actions.extend(master.inbox.iter().map(deliver));
        }
        actions.extend(self.forgets.get(state.forgets).copied().map(Action::Forget));
        actions.push(Action::Turn);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Deliver(at, letter) => _ = state.deliver(at, &letter),
            Action::Forget(masters) => {
                state.forgets += 1;
                if Quorum::of(MASTERS).reached_by(masters) {
                    state.decided = 0;
                }
                for at in masters.iter() {
                    let master = &mut state.masters[at.index()];
                    (master.stamp, master.mark) = (None, None);
                }
            }
            Action::Turn => self.turn(&mut state, false),
        }
        state.masters.iter_mut().for_each(Master::drop_dead_letters);
        state.note_decided();
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RECOVERS, |world: &Self, state: &State| world.recovers(state)),
            Property::sometimes(
                "it is begun anew, and one more forgets",
                |_: &Self, state: &State| {
                    state.known.losses > 0
                        && state.masters.iter().any(|master| master.mark.is_none())
                },
            ),
            Property::sometimes(
                "the one before has the higher counter",
                |_: &Self, state: &State| {
                    let ballots = state.held().into_iter().map(|held| held.accepted);
                    let (before, anew): (Vec<_>, Vec<_>) = ballots.partition(|it| it.epoch == 0);
                    let is_outbid = |it: &Ballot| anew.iter().any(|anew| anew.counter < it.counter);
                    before.iter().any(is_outbid)
                },
            ),
        ]
    }
}

const RECOVERS: &str = "the roster can be changed once all is calm";
/// Maximum attempts of the keeper to make the masters agree while anything can happen.
const SETTLES: usize = 2;
/// Lead of the other proxy's clock.
const AHEAD: u64 = 1_000;
/// Rounds within which the keeper outbids any earlier promise.
const ROUNDS: usize = 3;

/// A change that does not affect votes.
fn seen_elsewhere() -> Change {
    Change::SeenAt { member: MasterId::new(2), address: "elsewhere".to_owned() }
}

#[test]
fn a_roster_that_was_given_up_gives_way_whatever_its_ballot() {
    let states = explore(World::small(seen_elsewhere()));
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn a_member_that_was_put_out_in_what_was_given_up_votes_again() {
    let out = Change::Out { member: MasterId::new(0), incarnation: 1 };
    let states = explore(World::small(out));
    assert!(states > 1_000, "only {states} states");
}

/// In this world the abandoned roster is also adopted where it was not held before.
#[test]
#[ignore = "takes minutes: make test-model"]
fn a_roster_that_is_adopted_while_it_is_given_up_gives_way() {
    let states = explore(World { is_torn: true, ..World::small(seen_elsewhere()) });
    assert!(states > 1_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn a_roster_that_is_given_up_twice_gives_way() {
    let forgets = [[0, 1], [1, 2]].map(|group| group.map(MasterId::new).into_iter().collect());
    let world = World { forgets: forgets.to_vec(), restarts: 2, ..World::small(seen_elsewhere()) };
    let states = explore(world);
    assert!(states > 1_000, "only {states} states");
}

fn steps_to_a_stop(bug: Bug, world: World) -> usize {
    steps_to_failure(World { bug: Some(bug), ..world }, RECOVERS)
}

#[test]
fn without_an_epoch_a_roster_that_was_given_up_stops_all_changes() {
    assert!(steps_to_a_stop(Bug::NoEpochs, World::small(seen_elsewhere())) < 30);
}
