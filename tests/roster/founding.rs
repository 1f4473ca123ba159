//! Two founders that pause or die anywhere, with the same list of masters or with overlapping
//! lists, and masters that restart and forget their marks.
//!
//! In this model the roster of a list is decided in one step and never forgotten. Overlapping lists
//! have separate rosters: their quorums need not share a master.

use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::register::electorate::RegisterElectorate;
use redlock_proxy::decision::roster::admission::Shown;
use redlock_proxy::decision::roster::founding::{self, Task};
use redlock_proxy::decision::roster::mark::{Mark, MarkKind};
use redlock_proxy::decision::roster::roster::{Change, Member, Presence, Roster, Stage, Voters};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::admission::run_id;
use crate::explore;

const MASTERS: usize = 4;
const FOUNDERS: usize = 2;
/// Maximum steps in which one founder founds a cluster, even if another founding is given up first.
const STEPS: usize = 12;

fn showing(mark: Option<Mark>, run_id: String) -> Shown {
    Shown { mark, run_id, address: String::new() }
}

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A mark is set even if there already is one.
    OverwritesMarks,
    /// Masters that cannot be seen are left out.
    DoesNotWaitForEveryone,
    /// The founder serves as soon as the roster exists.
    ServesWhileFounding,
    /// Restarted masters are marked like others.
    MarksWhoWasRestarted,
    /// A founding that nobody can finish is waited for.
    GivesNothingUp,
}

#[derive(Clone, Debug)]
struct World {
    lists: [[usize; 3]; FOUNDERS],
    /// Master that each founder cannot see, if any.
    unseen: [Option<usize>; FOUNDERS],
    /// Maximum restarts of masters.
    restarts: usize,
    bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    marks: [Option<Mark>; MASTERS],
    /// Number of restarts of each master.
    starts: [usize; MASTERS],
    /// Decided roster for each founder's list.
    rosters: [Roster; FOUNDERS],
    founders: [Founder; FOUNDERS],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Founder {
    plan: Option<Plan>,
    refuses: bool,
    /// The cluster that it serves.
    serves: Option<String>,
}

/// A founder's next task, and the observations behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Plan {
    /// `None` to give up the founding.
    task: Option<Task>,
    known: Roster,
    starts: [usize; MASTERS],
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Restart(usize),
    Plan(usize),
    Act(usize),
}

impl World {
    fn with_lists(lists: [[usize; 3]; FOUNDERS]) -> Self {
        Self { lists, unseen: [None; FOUNDERS], restarts: 0, bug: None }
    }

    fn same() -> Self {
        Self::with_lists([[0, 1, 2]; FOUNDERS])
    }

    fn overlapping() -> Self {
        Self::with_lists([[0, 1, 2], [1, 2, 3]])
    }

    /// Index of the roster that a founder reads and writes.
    fn register(&self, founder: usize) -> usize {
        if self.lists[0] == self.lists[founder] { 0 } else { founder }
    }

    fn ours(&self, state: &State, founder: usize) -> Roster {
        let member =
            |at: &usize| Member::founder((founder * 10 + at) as u64, state.run_id(*at), Vec::new());
        let members = self.lists[founder].iter().map(member).collect();
        Roster {
            cluster: format!("c{founder}"),
            version: 1,
            stage: Stage::Founding,
            members,
            ..Roster::default()
        }
    }

    fn plan(&self, state: &State, founder: usize) -> Plan {
        let known = state.rosters[self.register(founder)].clone();
        let mut shown: Vec<_> = self.lists[founder]
            .iter()
            .map(|at| (self.unseen[founder] != Some(*at)).then(|| state.shown(*at)))
            .collect();
        let is_lost = founding::is_lost(&known, &shown) && self.bug != Some(Bug::GivesNothingUp);
        let mut ours = self.ours(state, founder);
        if known.version > 0 {
            // The list is the same, but the servers may have changed since.
            ours.members = known.members.clone();
        }
        if self.bug == Some(Bug::MarksWhoWasRestarted) {
            for (shown, member) in shown.iter_mut().flatten().zip(&ours.members) {
                shown.run_id = member.run_id.clone();
            }
        }
        if self.bug == Some(Bug::DoesNotWaitForEveryone) {
            let marked = |at: usize| {
                let mark = Mark::expected(&known, MasterId::new(at), 0);
                showing(mark, String::new())
            };
            let blind =
                |(at, shown): (usize, Option<Shown>)| Some(shown.unwrap_or_else(|| marked(at)));
            shown = shown.into_iter().enumerate().map(blind).collect();
        }
        let task = match self.bug {
            _ if is_lost => None,
            Some(Bug::ServesWhileFounding) if known.version > 0 => Some(Task::Serve),
            _ => Some(founding::next(&known, &ours, &shown)),
        };
        Plan { task, known, starts: state.starts }
    }

    fn act(&self, state: &mut State, founder: usize) -> Option<()> {
        let register = self.register(founder);
        let plan = state.founders[founder].plan.take()?;
        match plan.task {
            None => self.clear(state, founder, &plan.known),
            Some(Task::Change(change)) => self.change(state, founder, &change),
            Some(Task::Mark { master, mark }) => {
                let at = self.lists[founder][master.index()];
                let is_same = plan.starts[at] == state.starts[at]
                    && plan.known.cluster == state.rosters[register].cluster;
                let held = &mut state.marks[at];
                if is_same && (held.is_none() || self.bug == Some(Bug::OverwritesMarks)) {
                    *held = Some(mark);
                }
            }
            Some(Task::Refuse(_)) => state.founders[founder].refuses = true,
            Some(Task::Serve) => {
                state.founders[founder].serves = Some(state.rosters[register].cluster.clone());
            }
            Some(Task::WaitFor(_)) => return None,
        }
        Some(())
    }

    /// Changes the roster. A change that no longer applies, or on which too few masters vote, has
    /// no effect.
    fn change(&self, state: &mut State, founder: usize, change: &Change) {
        let roster = &state.rosters[self.register(founder)];
        let votes = |at: &&usize| {
            let presence = Presence { identity: None, nonce: None, run_id: state.run_id(**at) };
            Voters::Founders.counts(roster, MasterId::new(**at), &presence)
        };
        let list = &self.lists[founder];
        if list.iter().filter(votes).count() >= Quorum::of(list.len()).needed() {
            state.rosters[self.register(founder)] = change.run(roster).0;
        }
    }

    /// Removes the remains of a lost founding, unless the roster has changed meanwhile.
    fn clear(&self, state: &mut State, founder: usize, lost: &Roster) {
        let roster = &mut state.rosters[self.register(founder)];
        if roster == lost {
            *roster = Roster::default();
            for mark in &mut state.marks {
                mark.take_if(|mark| mark.is_of(&lost.cluster));
            }
        }
    }

    /// Whether a newly started founder gets to serve once nothing more goes wrong.
    fn recovers(&self, state: &State) -> bool {
        let mut calm = state.clone();
        calm.founders = Default::default();
        (0..STEPS).any(|_| {
            calm.founders[0].plan = Some(self.plan(&calm, 0));
            self.act(&mut calm, 0);
            calm.founders[0].serves.is_some()
        })
    }
}

impl State {
    fn run_id(&self, at: usize) -> String {
        format!("{} {}", run_id(at), self.starts[at])
    }

    fn shown(&self, at: usize) -> Shown {
        showing(self.marks[at].clone(), self.run_id(at))
    }

    /// Masters that show marks of a cluster.
    fn marked(&self, cluster: &str) -> MasterSet {
        let is_its = |at: &usize| {
            let kind = self.marks[*at].as_ref().map(|mark| &mark.kind);
            matches!(kind, Some(MarkKind::Member { cluster: theirs, .. }) if theirs == cluster)
        };
        (0..MASTERS).filter(is_its).map(MasterId::new).collect()
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let (marks, rosters) = (Default::default(), Default::default());
        vec![State { marks, starts: [0; MASTERS], rosters, founders: Default::default() }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, founder) in state.founders.iter().enumerate() {
            if founder.serves.is_none() && !founder.refuses {
                let is_planned = founder.plan.is_some();
                actions.push(if is_planned { Action::Act(index) } else { Action::Plan(index) });
            }
        }
        if state.starts.iter().sum::<usize>() < self.restarts {
            let is_listed = |at: &usize| self.lists.as_flattened().contains(at);
            actions.extend((0..MASTERS).filter(is_listed).map(Action::Restart));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Plan(founder) => {
                state.founders[founder].plan = Some(self.plan(&state, founder))
            }
            Action::Act(founder) => self.act(&mut state, founder)?,
            Action::Restart(master) => {
                state.starts[master] += 1;
                state.marks[master] = None;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_CLUSTER, |_: &Self, state: &State| {
                let serves = state.founders.each_ref().map(|founder| founder.serves.as_ref());
                !matches!(serves, [Some(one), Some(other)] if one != other)
            }),
            Property::always(ALL_MARKS, |world: &Self, state: &State| {
                let has_all = |(index, founder): (usize, &Founder)| {
                    let Some(cluster) = &founder.serves else { return true };
                    let (roster, list) =
                        (&state.rosters[world.register(index)], world.lists[index]);
                    let marked = state.marked(cluster);
                    roster.members.iter().zip(list).all(|(member, at)| {
                        marked.contains(MasterId::new(at)) || member.run_id != state.run_id(at)
                    })
                };
                state.founders.iter().enumerate().all(has_all)
            }),
            Property::always(NOBODY_FORGOT, |world: &Self, state: &State| {
                (0..FOUNDERS).all(|founder| {
                    let roster = &state.rosters[world.register(founder)];
                    let marked = state.marked(&roster.cluster);
                    roster.members.iter().zip(world.lists[founder]).all(|(member, at)| {
                        !marked.contains(MasterId::new(at)) || member.run_id == state.run_id(at)
                    })
                })
            }),
            Property::always(RECOVERY, |world: &Self, state: &State| {
                world.lists[0] != world.lists[1] || world.recovers(state)
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
fn a_founding_is_finished_or_given_up_when_masters_are_restarted() {
    assert!(explore(World { restarts: 1, ..World::same() }) > 500);
    // A late `Founded` may end the next founding before its last mark is set: a master without one
    // is then put out.
    let world = World { restarts: 2, ..World::same() };
    let checker = world
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AllOf([ONE_CLUSTER, NOBODY_FORGOT, RECOVERY].into()));
    let checker = checker.spawn_bfs().join();
    for kept in [ONE_CLUSTER, NOBODY_FORGOT, RECOVERY] {
        assert!(checker.discovery(kept).is_none(), "{kept}");
    }
}

#[test]
fn masters_that_are_restarted_make_no_second_cluster() {
    assert!(explore(World { restarts: 1, ..World::overlapping() }) > 500);
}

#[test]
fn marking_who_was_restarted_lets_it_vote_on_what_it_forgot() {
    let world = World { restarts: 1, ..World::same() };
    assert!(steps_to_failure(Bug::MarksWhoWasRestarted, world, NOBODY_FORGOT) < 20);
}

#[test]
fn waiting_for_a_founding_that_nobody_can_finish_lasts_for_ever() {
    let world = World { restarts: 2, ..World::same() };
    assert!(steps_to_failure(Bug::GivesNothingUp, world, RECOVERY) < 10);
}

#[test]
fn nobody_founds_without_having_seen_everyone() {
    let world = World { unseen: [Some(2), Some(1)], ..World::overlapping() };
    let checker = world.checker().threads(1).spawn_bfs().join();
    assert!(checker.discovery("a cluster is served").is_none());
}

const ONE_CLUSTER: &str = "one master serves one cluster";
const ALL_MARKS: &str = "who is served has all its marks";
const NOBODY_FORGOT: &str = "who has its mark was not restarted since it was trusted";
const RECOVERY: &str = "a cluster is founded when nothing goes wrong any more";

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
