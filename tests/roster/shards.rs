//! Proxies that put several clusters behind one address, with the same settings or with others.
//!
//! A cluster of this model has one master, whose roster is changed in one step; `founding` and `register` justify that.
//! Proxies look, plan and act in separate steps, so each may act on what it saw long ago. A change may also reach too few
//! masters: some of them then show what was never decided.

use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::roster::roster::{Change, Roster, Stage};
use redlock_proxy::decision::roster::shards::{self, Shard, Step};
use stateright::{Model, Property};

use crate::{explore, steps_to_failure};

const MASTERS: usize = 4;

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A proxy serves as soon as all rosters have the right names.
    NeedsNoList,
    /// A proxy compares its clusters with the list of the shard that it is about to serve, and with no other.
    ReadsItsOwnListOnly,
    /// A roster takes another list.
    TakesListsAgain,
    /// A proxy believes a list that too few masters have accepted.
    BelievesAMinority,
}

/// The settings of one proxy: shards by name, and the master of each.
type Layout = Vec<(&'static str, usize)>;

#[derive(Clone, Debug)]
struct World {
    layouts: Vec<Layout>,
    /// Whether a change may reach too few masters.
    is_cut_off: bool,
    bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    rosters: [Roster; MASTERS],
    /// Rosters with a list that too few masters of a cluster have accepted.
    undecided: [Option<Roster>; MASTERS],
    proxies: Vec<Proxy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proxy {
    /// What it has seen of each shard.
    known: Vec<Option<Roster>>,
    plans: Vec<Option<Step>>,
    /// The clusters of all shards that it believed in when it began to serve one of them.
    serves: Vec<Option<Vec<String>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Action {
    Found(usize, usize),
    Look(usize, usize),
    /// The proxy sees what too few masters show.
    LookAtMinority(usize, usize),
    Plan(usize, usize),
    Act(usize, usize),
    /// The proxy is cut off while it acts.
    ActInPart(usize, usize),
}

impl World {
    fn of(layouts: &[&[(&'static str, usize)]]) -> Self {
        let layouts = layouts.iter().map(|it| it.to_vec()).collect();
        Self { layouts, is_cut_off: false, bug: None }
    }

    fn cut_off(self) -> Self {
        Self { is_cut_off: true, ..self }
    }

    fn with(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    fn names(&self, proxy: usize) -> Vec<String> {
        self.layouts[proxy].iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn found(&self, state: &mut State, proxy: usize, at: usize) {
        let (name, master) = self.layouts[proxy][at];
        let (name, names) = (name.to_owned(), self.names(proxy));
        let shard = Shard { name, names, clusters: Vec::new() };
        let roster = Roster {
            cluster: format!("{proxy}{at}"),
            version: 2,
            stage: Stage::Founded,
            shard: Some(Box::new(shard)),
            ..Roster::default()
        };
        let change = Change::Found(Box::new(roster));
        state.rosters[master] = change.run(&state.rosters[master]).0;
    }

    fn plan(&self, proxy: &Proxy, names: &[String], at: usize) -> Step {
        let mut known = proxy.known.clone();
        match self.bug {
            Some(Bug::NeedsNoList) if known.iter().all(Option::is_some) => {
                let step = shards::next(at, names, &refs(&known));
                return if matches!(step, Step::Refuse(_)) { step } else { Step::Serve };
            }
            Some(Bug::ReadsItsOwnListOnly) => {
                let own = known[at].as_ref().and_then(|it| it.shard.clone());
                let own = own.map(|it| it.clusters).unwrap_or_default();
                for other in (0..names.len()).filter(|other| *other != at) {
                    if let Some(shard) = known[other].as_mut().and_then(|it| it.shard.as_mut()) {
                        shard.clusters.clone_from(&own);
                    }
                }
            }
            _ => {}
        }
        shards::next(at, names, &refs(&known))
    }

    fn act(&self, state: &mut State, proxy: usize, at: usize) -> Option<()> {
        let master = self.layouts[proxy][at].1;
        match state.proxies[proxy].plans[at].take()? {
            Step::Change(Change::Together { clusters }) => {
                let roster = &mut state.rosters[master];
                if self.bug == Some(Bug::TakesListsAgain) {
                    roster.shard.iter_mut().for_each(|shard| shard.clusters.clear());
                }
                *roster = Change::Together { clusters }.run(roster).0;
            }
            Step::Serve => {
                let known = state.proxies[proxy].known.iter();
                let clusters = known.flatten().map(|roster| roster.cluster.clone()).collect();
                state.proxies[proxy].serves[at] = Some(clusters);
            }
            Step::Change(_) | Step::WaitFor(_) | Step::Refuse(_) => return None,
        }
        Some(())
    }

    /// Whether a newly started proxy gets to serve all its shards.
    fn recovers(&self, state: &State) -> bool {
        let mut calm = state.clone();
        let shards = self.layouts[0].len();
        calm.proxies[0] = Proxy::new(shards);
        for _ in 0..3 {
            for at in 0..shards {
                self.found(&mut calm, 0, at);
                self.look(&mut calm, 0, at);
            }
            for at in 0..shards {
                calm.proxies[0].plans[at] = Some(self.plan(&calm.proxies[0], &self.names(0), at));
                self.act(&mut calm, 0, at);
            }
        }
        calm.proxies[0].serves.iter().all(Option::is_some)
    }

    fn look(&self, state: &mut State, proxy: usize, at: usize) {
        let master = self.layouts[proxy][at].1;
        let roster = &state.rosters[master];
        state.proxies[proxy].known[at] = (roster.version > 0).then(|| roster.clone());
    }
}

impl Proxy {
    fn new(shards: usize) -> Self {
        Self { known: vec![None; shards], plans: vec![None; shards], serves: vec![None; shards] }
    }
}

fn refs(known: &[Option<Roster>]) -> Vec<Option<&Roster>> {
    known.iter().map(Option::as_ref).collect()
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let proxies = self.layouts.iter().map(|layout| Proxy::new(layout.len())).collect();
        vec![State { rosters: Default::default(), undecided: Default::default(), proxies }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (proxy, layout) in self.layouts.iter().enumerate() {
            for (at, (_, master)) in layout.iter().enumerate() {
                let it = &state.proxies[proxy];
                if it.serves[at].is_some() {
                    continue;
                }
                let is_founded = state.rosters[*master].version > 0;
                actions.push(match is_founded {
                    true => Action::Look(proxy, at),
                    false => Action::Found(proxy, at),
                });
                actions.push(match it.plans[at] {
                    None => Action::Plan(proxy, at),
                    Some(_) => Action::Act(proxy, at),
                });
                let takes_list = matches!(it.plans[at], Some(Step::Change(_)));
                if self.is_cut_off && takes_list && state.undecided.iter().all(Option::is_none) {
                    actions.push(Action::ActInPart(proxy, at));
                }
                if self.bug == Some(Bug::BelievesAMinority) {
                    actions.push(Action::LookAtMinority(proxy, at));
                }
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Found(proxy, at) => self.found(&mut state, proxy, at),
            Action::Look(proxy, at) => self.look(&mut state, proxy, at),
            Action::Plan(proxy, at) => {
                let plan = self.plan(&state.proxies[proxy], &self.names(proxy), at);
                if matches!(plan, Step::WaitFor(_) | Step::Refuse(_)) {
                    return None;
                }
                state.proxies[proxy].plans[at] = Some(plan);
            }
            Action::Act(proxy, at) => self.act(&mut state, proxy, at)?,
            Action::LookAtMinority(proxy, at) => {
                let undecided = state.undecided[self.layouts[proxy][at].1].clone()?;
                state.proxies[proxy].known[at] = Some(undecided);
            }
            Action::ActInPart(proxy, at) => {
                let master = self.layouts[proxy][at].1;
                let Step::Change(change) = state.proxies[proxy].plans[at].take()? else {
                    return None;
                };
                state.undecided[master] = Some(change.run(&state.rosters[master]).0);
            }
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_CLUSTER_PER_KEY, |_: &Self, state: &State| {
                // The clusters are in the order of their shards, over which the keys are divided.
                let served = || state.proxies.iter().flat_map(|it| it.serves.iter().flatten());
                served().all(|clusters| {
                    served().all(|theirs| {
                        let is_shared = clusters.iter().any(|cluster| theirs.contains(cluster));
                        !is_shared || clusters == theirs
                    })
                })
            }),
            Property::always(RECOVERY, |world: &Self, state: &State| {
                let is_one = world.layouts.iter().all(|layout| *layout == world.layouts[0]);
                !is_one || world.recovers(state)
            }),
            Property::sometimes("all shards of a proxy are served", |_: &Self, state: &State| {
                let serves = |proxy: &Proxy| proxy.serves.iter().all(Option::is_some);
                state.proxies.iter().any(serves)
            }),
        ]
    }
}

const ONE_CLUSTER_PER_KEY: &str = "proxies that share a cluster agree on the clusters of all keys";
const RECOVERY: &str = "proxies with the same settings serve";

const TWO: &[(&str, usize)] = &[("a", 0), ("b", 1)];
const SWAPPED: &[(&str, usize)] = &[("a", 1), ("b", 0)];
const ONE_DIFFERS: &[(&str, usize)] = &[("a", 0), ("b", 2)];
const RENAMED: &[(&str, usize)] = &[("a", 0), ("c", 1)];
const THREE: &[(&str, usize)] = &[("a", 0), ("b", 1), ("c", 2)];

#[test]
fn proxies_with_the_same_shards_serve_together() {
    assert!(explore(World::of(&[TWO, TWO])) > 100);
}

#[test]
fn proxies_with_other_shards_never_grant_a_key_twice() {
    for other in [SWAPPED, ONE_DIFFERS, RENAMED, THREE] {
        assert!(explore(World::of(&[TWO, other]).cut_off()) > 100);
    }
}

#[test]
fn names_alone_let_two_proxies_serve_a_shard_from_two_clusters() {
    let world = || World::of(&[TWO, ONE_DIFFERS]).with(Bug::NeedsNoList);
    assert!(steps_to_failure(world(), ONE_CLUSTER_PER_KEY) < 30);
}

#[test]
fn a_list_that_others_need_not_hold_too_names_two_clusters_of_one_shard() {
    let world = || World::of(&[TWO, ONE_DIFFERS]).with(Bug::ReadsItsOwnListOnly);
    assert!(steps_to_failure(world(), ONE_CLUSTER_PER_KEY) < 30);
}

#[test]
fn a_list_that_was_never_decided_is_overtaken_by_another() {
    let world = || World::of(&[TWO, ONE_DIFFERS]).cut_off().with(Bug::BelievesAMinority);
    assert!(steps_to_failure(world(), ONE_CLUSTER_PER_KEY) < 30);
}

#[test]
fn a_list_that_is_taken_twice_belongs_to_both() {
    let world = || World::of(&[TWO, ONE_DIFFERS]).with(Bug::TakesListsAgain);
    assert!(steps_to_failure(world(), ONE_CLUSTER_PER_KEY) < 30);
}
