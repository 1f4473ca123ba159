//! Two founders that pause or die anywhere, with the same list of masters or with lists that overlap.
//!
//! The roster of a list is decided in one step here. Lists that overlap have rosters of their own: their quorums need
//! not share a master.

use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::roster::admission::Shown;
use redlock_proxy::decision::roster::founding::{self, Task};
use redlock_proxy::decision::roster::mark::{Kind, Mark};
use redlock_proxy::decision::roster::roster::{Member, Roster, Stage, Standing};
use redlock_proxy::quorum::{MasterId, MasterSet};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::admission::run_id;
use crate::explore;

const MASTERS: usize = 4;
const FOUNDERS: usize = 2;

fn showing(mark: Option<Mark>, run_id: String) -> Shown {
    Shown { mark, run_id, address: String::new() }
}

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A mark is set whether or not there is one.
    OverwritesMarks,
    /// Masters that cannot be seen are left out.
    DoesNotWaitForEveryone,
    /// It serves as soon as the roster is there.
    ServesWhileFounding,
}

#[derive(Clone, Debug)]
struct World {
    lists: [[usize; 3]; FOUNDERS],
    /// A master that a founder cannot see, each its own.
    unseen: [Option<usize>; FOUNDERS],
    bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    marks: [Option<Mark>; MASTERS],
    /// The roster that is decided for each founder's list.
    rosters: [Roster; FOUNDERS],
    founders: [Founder; FOUNDERS],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Founder {
    plan: Option<Task>,
    refuses: bool,
    /// The cluster that it serves.
    serves: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Plan(usize),
    Act(usize),
}

impl World {
    fn with_lists(lists: [[usize; 3]; FOUNDERS]) -> Self {
        Self { lists, unseen: [None; FOUNDERS], bug: None }
    }

    fn same() -> Self {
        Self::with_lists([[0, 1, 2]; FOUNDERS])
    }

    fn overlapping() -> Self {
        Self::with_lists([[0, 1, 2], [1, 2, 3]])
    }

    /// Which roster a founder reads and writes.
    fn register(&self, founder: usize) -> usize {
        if self.lists[0] == self.lists[founder] { 0 } else { founder }
    }

    fn ours(&self, founder: usize) -> Roster {
        let member = |at: &usize| Member {
            id: (founder * 10 + at) as u64,
            incarnation: 1,
            run_id: run_id(*at),
            addresses: Vec::new(),
            standing: Standing::In { nonce: 0 },
        };
        let members = self.lists[founder].iter().map(member).collect();
        Roster {
            cluster: format!("c{founder}"),
            version: 1,
            stage: Stage::Founding,
            members,
            losses: 0,
        }
    }

    fn plan(&self, state: &State, founder: usize) -> Task {
        let show = |at: &usize| {
            let mark = state.marks[*at].clone();
            (self.unseen[founder] != Some(*at)).then(|| showing(mark, run_id(*at)))
        };
        let mut shown: Vec<_> = self.lists[founder].iter().map(show).collect();
        let (known, ours) = (&state.rosters[self.register(founder)], self.ours(founder));
        if self.bug == Some(Bug::ServesWhileFounding) && known.version > 0 {
            return Task::Serve;
        }
        if self.bug == Some(Bug::DoesNotWaitForEveryone) {
            let marked = |at: usize| {
                let mark = Mark::expected(known, MasterId::new(at), 0);
                showing(mark, String::new())
            };
            let blind =
                |(at, shown): (usize, Option<Shown>)| Some(shown.unwrap_or_else(|| marked(at)));
            shown = shown.into_iter().enumerate().map(blind).collect();
        }
        founding::next(known, &ours, &shown)
    }

    fn act(&self, state: &mut State, founder: usize) -> Option<()> {
        let register = self.register(founder);
        match state.founders[founder].plan.take()? {
            Task::Change(change) => {
                // A change that no longer applies leaves the roster as it is.
                state.rosters[register] = change.run(&state.rosters[register]).0;
            }
            Task::Mark { master, mark } => {
                let held = &mut state.marks[self.lists[founder][master.index()]];
                if held.is_none() || self.bug == Some(Bug::OverwritesMarks) {
                    *held = Some(mark);
                }
            }
            Task::Refuse(_) => state.founders[founder].refuses = true,
            Task::Serve => {
                state.founders[founder].serves = Some(state.rosters[register].cluster.clone());
            }
            Task::WaitFor(_) => return None,
        }
        Some(())
    }
}

impl State {
    /// The masters that show marks of a cluster.
    fn marked(&self, cluster: &str) -> MasterSet {
        let is_its = |at: &usize| {
            let kind = self.marks[*at].as_ref().map(|mark| &mark.kind);
            matches!(kind, Some(Kind::Member { cluster: theirs, .. }) if theirs == cluster)
        };
        (0..MASTERS).filter(is_its).map(MasterId::new).collect()
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (marks, rosters) = (Default::default(), Default::default());
        vec![State { marks, rosters, founders: Default::default() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, founder) in state.founders.iter().enumerate() {
            if founder.serves.is_none() && !founder.refuses {
                let is_planned = founder.plan.is_some();
                actions.push(if is_planned { Action::Act(index) } else { Action::Plan(index) });
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Plan(founder) => {
                state.founders[founder].plan = Some(self.plan(&state, founder))
            }
            Action::Act(founder) => self.act(&mut state, founder)?,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_CLUSTER, |_: &Self, state: &State| {
                let serves = state.founders.each_ref().map(|founder| founder.serves.as_ref());
                !matches!(serves, [Some(one), Some(other)] if one != other)
            }),
            Property::always(ALL_MARKS, |_: &Self, state: &State| {
                let served = state.founders.iter().filter_map(|founder| founder.serves.as_ref());
                served.into_iter().all(|cluster| state.marked(cluster).len() == 3)
            }),
            Property::sometimes("a cluster is served", |_: &Self, state: &State| {
                state.founders.iter().any(|founder| founder.serves.is_some())
            }),
            Property::sometimes(
                "one finishes what the other began",
                |world: &Self, state: &State| {
                    let is_of_other = |(index, founder): (usize, &Founder)| {
                        founder
                            .serves
                            .as_ref()
                            .is_some_and(|cluster| *cluster != format!("c{index}"))
                    };
                    let is_possible = world.lists[0] == world.lists[1];
                    !is_possible || state.founders.iter().enumerate().any(is_of_other)
                },
            ),
        ]
    }
}

#[test]
fn two_founders_of_one_list_found_one_cluster() {
    assert!(explore(World::same()) > 50);
}

#[test]
fn two_founders_of_lists_that_overlap_found_at_most_one_cluster() {
    assert!(explore(World::overlapping()) > 50);
}

#[test]
fn nobody_founds_without_having_seen_everyone() {
    let world = World { unseen: [Some(2), Some(1)], ..World::overlapping() };
    let checker = world.checker().threads(1).spawn_bfs().join();
    assert!(checker.discovery("a cluster is served").is_none());
}

const ONE_CLUSTER: &str = "one master serves one cluster";
const ALL_MARKS: &str = "who is served has all its marks";

fn steps_to_failure(bug: Bug, world: World, property: &'static str) -> usize {
    let checker = World { bug: Some(bug), ..world }.checker().threads(1);
    let found = checker.finish_when(HasDiscoveries::AnyOf([property].into())).spawn_bfs().join();
    let steps = found.discovery(property).expect("a failure").into_actions().len();
    println!("{bug:?}: {steps} steps, {} states", found.unique_state_count());
    steps
}

#[test]
fn overwriting_marks_takes_masters_from_a_cluster_that_is_served() {
    assert!(steps_to_failure(Bug::OverwritesMarks, World::overlapping(), ALL_MARKS) < 25);
}

#[test]
fn leaving_out_who_is_not_seen_founds_two_clusters() {
    let world = World { unseen: [Some(2), Some(1)], ..World::overlapping() };
    assert!(steps_to_failure(Bug::DoesNotWaitForEveryone, world, ONE_CLUSTER) < 25);
}

#[test]
fn serving_before_all_marks_are_set_founds_two_clusters() {
    let steps = steps_to_failure(Bug::ServesWhileFounding, World::overlapping(), ONE_CLUSTER);
    assert!(steps < 25);
}
