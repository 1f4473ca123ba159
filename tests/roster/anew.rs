//! One lease, two proxies and masters that forget again and again: the roster is begun anew after a
//! rest.
//!
//! Time advances in steps. A lease lasts as long as a rest. A proxy may pause between planning and
//! acting. A change of the roster is one step among the masters that its proxy sees.

use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::roster::admission::Shown;
use redlock_proxy::decision::roster::anew::{self, Rests, Task};
use redlock_proxy::decision::roster::mark::{Mark, MarkKind, Tail};
use redlock_proxy::decision::roster::roster::{Change, Roster};
use stateright::{Model, Property};

use crate::admission::{MASTERS, founded, run_id};
use crate::{explore, steps_to_failure};

const PROXIES: usize = 2;
/// Duration of a lease and of the masters' rest, in steps of time.
const LEASE: u64 = 2;
/// The master that has an older volume.
const SAVED: usize = 1;

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A rest counts from the first sight of its master's loss, whatever mark the master has.
    CountsFromTheFirstLoss,
    /// No master rests.
    DoesNotRest,
    /// The mark of an older volume continues the rest of the newer one.
    TakesMarksOfOtherProcesses,
}

#[derive(Clone, Debug)]
struct World {
    forgets: usize,
    /// Masters that each proxy sees.
    sees: [MasterSet; PROXIES],
    /// Whether the second master may return with older contents, as another process.
    restores: bool,
    until: u64,
    bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    masters: [Master; MASTERS],
    proxies: [Proxy; PROXIES],
    forgets: usize,
    nonces: u64,
    /// An older volume of the second master.
    volume: Volume,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Volume {
    #[default]
    NotSaved,
    Saved(Box<Master>),
    Restored,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Master {
    mark: Option<Mark>,
    roster: Option<Roster>,
    /// Holder of the lease on this master, and the end of the lease.
    lease: Option<(usize, u64)>,
    starts: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proxy {
    roster: Roster,
    rests: Rests,
    /// Its next task, and the marks that it saw.
    plan: Option<(Task, [Option<Mark>; MASTERS])>,
    /// When its lease ends.
    held: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Tick,
    Claim(usize),
    Look(usize),
    Act(usize),
    /// The first two masters forget. If they forget one after the other, the pause is only longer.
    Forget,
    Save,
    Restore,
}

impl World {
    fn small() -> Self {
        let all = MasterSet::first(MASTERS);
        Self { forgets: 2, sees: [all; PROXIES], restores: false, until: 4, bug: None }
    }

    fn look(&self, state: &mut State, index: usize) {
        let (now, masters) = (state.now, state.masters.clone());
        let (proxy, sees) = (&mut state.proxies[index], self.sees[index]);
        let seen = sees.iter().filter_map(|master| masters[master.index()].roster.as_ref());
        if let Some(newest) = seen.max_by_key(|roster| roster.version)
            && newest.version > proxy.roster.version
        {
            proxy.roster = newest.clone();
        }
        let shown = shown(&masters, sees);
        let rests = &mut proxy.rests;
        match self.bug {
            Some(Bug::CountsFromTheFirstLoss) => {
                let blurred = shown.iter().enumerate().map(|(at, shown)| {
                    let shown = shown.clone()?;
                    let has_forgotten = !anew::remembers(&proxy.roster, MasterId::new(at), &shown);
                    let mark = has_forgotten.then(|| provisional(u64::MAX)).or(shown.mark);
                    Some(Shown { mark, ..shown })
                });
                rests.see(&proxy.roster, &blurred.collect::<Vec<_>>(), now);
            }
            Some(Bug::TakesMarksOfOtherProcesses) => {
                let blurred = shown
                    .iter()
                    .enumerate()
                    .map(|(at, shown)| Some(Shown { run_id: run_id(at), ..shown.clone()? }));
                rests.see(&proxy.roster, &blurred.collect::<Vec<_>>(), now);
            }
            _ => rests.see(&proxy.roster, &shown, now),
        }
        let wait = if self.bug == Some(Bug::DoesNotRest) { 0 } else { LEASE };
        let fit = MasterSet::first(MASTERS);
        let task = anew::next(&proxy.roster, &shown, fit, rests, (now, wait));
        let task = task.filter(|task| *task != Task::Rest);
        let marks = masters.each_ref().map(|master| master.mark.clone());
        proxy.plan = task.map(|task| (task, marks));
        self.raise(state, index);
    }

    /// Gives members of the roster their marks, as the admission of a master does.
    fn raise(&self, state: &mut State, index: usize) {
        let State { masters, proxies, .. } = state;
        let roster = &proxies[index].roster;
        for place in self.sees[index].iter() {
            let master = &mut masters[place.index()];
            let shown = Shown {
                mark: master.mark.clone(),
                run_id: process(place.index(), master.starts),
                address: String::new(),
            };
            if anew::remembers(roster, place, &shown) {
                master.mark = Mark::expected(roster, place, 0);
            }
        }
    }

    fn act(&self, state: &mut State, index: usize) -> Option<()> {
        let (task, marks) = state.proxies[index].plan.take()?;
        let sees = self.sees[index];
        match task {
            Task::Mark(places) => {
                for at in places.and(sees).iter().map(MasterId::index) {
                    if state.masters[at].mark == marks[at] {
                        state.nonces += 1;
                        state.masters[at].mark = Some(provisional(state.nonces));
                    }
                }
            }
            Task::Change(change) => self.change(state, index, change)?,
            Task::Rest => return None,
        }
        Some(())
    }

    fn change(&self, state: &mut State, index: usize, change: Change) -> Option<()> {
        let sees = self.sees[index];
        if !Quorum::of(MASTERS).reached_by(sees) {
            return None;
        }
        let rosters = sees.iter().filter_map(|at| state.masters[at.index()].roster.clone());
        let newest = rosters.max_by_key(|roster| roster.version).unwrap_or_default();
        let (after, _) = change.run(&newest);
        for at in sees.iter() {
            state.masters[at.index()].roster = Some(after.clone());
        }
        if after.version > state.proxies[index].roster.version {
            state.proxies[index].roster = after;
        }
        Some(())
    }

    fn claim(&self, state: &mut State, index: usize) -> Option<()> {
        let (now, until) = (state.now, state.now + LEASE);
        let Proxy { roster, held, .. } = &mut state.proxies[index];
        let masters = &mut state.masters;
        let votes = |place: &MasterId| {
            let (at, is_in) = (place.index(), roster.voters().contains(*place));
            let is_free = masters[at].lease.is_none_or(|(_, until)| until <= now);
            let is_process = roster.members[at].run_id == process(at, masters[at].starts);
            let is_proven = masters[at].mark == Mark::expected(roster, *place, 0);
            is_in && is_free && is_process && is_proven
        };
        let voters: MasterSet = self.sees[index].iter().filter(votes).collect();
        if !Quorum::of(MASTERS).reached_by(voters) {
            return None;
        }
        for at in voters.iter() {
            masters[at.index()].lease = Some((index, until));
        }
        *held = until;
        Some(())
    }
}

impl State {
    /// Whether the roster was begun anew twice.
    fn is_twice_anew(&self) -> bool {
        self.proxies.iter().any(|proxy| proxy.roster.version > 2)
    }
}

fn provisional(nonce: u64) -> Mark {
    Mark { kind: MarkKind::Provisional { nonce }, database: 0, tail: Tail::default() }
}

/// Returns the run id of a master after this many restarts.
fn process(at: usize, starts: u64) -> String {
    if starts == 0 { run_id(at) } else { format!("{} {starts}", run_id(at)) }
}

fn shown(masters: &[Master; MASTERS], sees: MasterSet) -> Vec<Option<Shown>> {
    let show = |(at, master): (usize, &Master)| {
        let (mark, run_id) = (master.mark.clone(), process(at, master.starts));
        sees.contains(MasterId::new(at)).then(|| Shown { mark, run_id, address: String::new() })
    };
    masters.iter().enumerate().map(show).collect()
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let roster = founded();
        let master = |at| Master {
            mark: Mark::expected(&roster, MasterId::new(at), 0),
            roster: Some(roster.clone()),
            ..Master::default()
        };
        let proxy =
            || Proxy { roster: roster.clone(), rests: Rests::default(), plan: None, held: 0 };
        vec![State {
            now: 0,
            masters: std::array::from_fn(master),
            proxies: [proxy(), proxy()],
            forgets: 0,
            nonces: 0,
            volume: Volume::NotSaved,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.until {
            actions.push(Action::Tick);
        }
        for (index, proxy) in state.proxies.iter().enumerate() {
            if proxy.held <= state.now {
                actions.push(Action::Claim(index));
            }
            actions.push(Action::Look(index));
            if proxy.plan.is_some() {
                actions.push(Action::Act(index));
            }
        }
        if state.forgets < self.forgets {
            actions.push(Action::Forget);
        }
        if self.restores {
            actions.extend([Action::Save, Action::Restore]);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Tick => state.now += 1,
            Action::Claim(index) => self.claim(&mut state, index)?,
            Action::Look(index) => self.look(&mut state, index),
            Action::Act(index) => self.act(&mut state, index)?,
            Action::Forget => {
                state.forgets += 1;
                for master in &mut state.masters[..2] {
                    *master = Master { starts: master.starts, ..Master::default() };
                }
            }
            Action::Save if state.volume == Volume::NotSaved => {
                state.volume = Volume::Saved(Box::new(state.masters[SAVED].clone()));
            }
            Action::Save => return None,
            Action::Restore => {
                let Volume::Saved(master) = std::mem::replace(&mut state.volume, Volume::Restored)
                else {
                    return None;
                };
                let starts = state.masters[SAVED].starts + 1;
                state.masters[SAVED] = Master { starts, ..*master };
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_HOLDER, |_: &Self, state: &State| {
                state.proxies.iter().filter(|proxy| proxy.held > state.now).count() < 2
            }),
            Property::sometimes("it is begun anew twice", |_: &Self, state: &State| {
                state.is_twice_anew()
            }),
            Property::sometimes("a lease is granted after that", |_: &Self, state: &State| {
                state.is_twice_anew() && state.proxies.iter().any(|proxy| proxy.held > state.now)
            }),
        ]
    }
}

const ONE_HOLDER: &str = "one proxy holds the lease";

#[test]
fn a_lease_is_held_once_however_often_masters_forget() {
    assert!(explore(World { until: 5, ..World::small() }) > 10_000);
}

/// Each proxy sees a quorum, and both see the master with the older volume.
fn with_an_older_volume() -> World {
    let sees = [[0, SAVED], [SAVED, 2]].map(|seen| seen.map(MasterId::new).into_iter().collect());
    World { forgets: 1, restores: true, sees, until: 3, ..World::small() }
}

#[test]
fn a_lease_is_held_once_when_an_older_volume_comes_back() {
    assert!(explore(with_an_older_volume()) > 10_000);
}

fn steps_to_two_holders(bug: Bug, world: World) -> usize {
    steps_to_failure(World { bug: Some(bug), ..world }, ONE_HOLDER)
}

#[test]
fn a_rest_from_the_first_loss_grants_a_lease_twice() {
    assert!(steps_to_two_holders(Bug::CountsFromTheFirstLoss, World::small()) < 30);
}

#[test]
fn without_a_rest_a_lease_is_granted_twice() {
    assert!(steps_to_two_holders(Bug::DoesNotRest, World::small()) < 30);
}

#[test]
fn a_rest_that_an_older_volume_goes_on_with_grants_a_lease_twice() {
    assert!(steps_to_two_holders(Bug::TakesMarksOfOtherProcesses, with_an_older_volume()) < 30);
}
