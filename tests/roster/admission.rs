//! One lease, two proxies that claim it, and masters that forget and are admitted again, or are replaced.

use std::sync::Arc;

use crate::specification::votes::Votes;
use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::decision::register::Program;
use redlock_proxy::decision::roster::admission::{Copy, Shown, Task, is_source};
use redlock_proxy::decision::roster::mark::{Mark, MarkKind, MarkReading, Proof, Tail};
use redlock_proxy::decision::roster::roster::{Change, Member, Roster, Stage};
use redlock_proxy::decision::roster::seats::{Seats, by_place, moves};
use redlock_proxy::decision::roster::term::Term;
use stateright::{Checker, Model, Property};

use crate::admission_bugs::{self as bugs, Bug};
use crate::explore;

pub(crate) const MASTERS: usize = 3;
/// The masters, and an instance that may take the place of the last one.
const INSTANCES: usize = MASTERS + 1;
const LAST: usize = MASTERS - 1;
const NEW: usize = MASTERS;
const PROXIES: usize = 2;

/// Possible events and their limits.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Instances that forget, in this order and never two at a time.
    pub(crate) forgets: Vec<usize>,
    /// Number of proxies that maintain the masters. The others only claim.
    pub(crate) keepers: usize,
    /// Whether the first and the last master granted the lease to the first proxy, and the last has
    /// forgotten it.
    pub(crate) is_held: bool,
    /// Maximum provisional marks.
    pub(crate) nonces: u64,
    /// A master that may be out of sight for a while.
    pub(crate) hides: Option<usize>,
    /// Whether a claiming proxy learns the roster only when a vote has to wait for it, rather than
    /// at any time.
    pub(crate) learns_late: bool,
    /// Whether the operator replaces the last master, at any time.
    pub(crate) replaces: bool,
    pub(crate) bug: Option<Bug>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The decided roster.
    pub(crate) roster: Roster,
    pub(crate) masters: [Master; INSTANCES],
    pub(crate) proxies: [Proxy; PROXIES],
    forgotten: usize,
    nonces: u64,
    hidden: Option<usize>,
    hid: bool,
    is_replaced: bool,
    /// Whether a member was put out although it had forgotten nothing.
    needless: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Master {
    pub(crate) mark: Option<Mark>,
    pub(crate) lease: Option<Lease>,
    /// Whether it still knows everything that its incarnation received.
    remembers: bool,
}

/// Holder of the key, as far as one master knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    /// The attempt of a proxy.
    Of(usize),
    /// Two attempts were copied. The resulting value belongs to nobody.
    Nobody,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proxy {
    pub(crate) roster: Roster,
    claim: Claim,
    copy: Option<Copy>,
    plan: Option<Plan>,
    /// Instance that it reaches as the last master.
    last: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Free,
    /// The votes, the proof that each master owes, and the masters whose answer is still to come.
    Sent(Votes, Box<[Option<Proof>; MASTERS]>, MasterSet),
    /// Requests still in flight take effect, but are no longer counted.
    Granted(MasterSet),
    Lost,
}

/// A proxy's next step, with the observation behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Plan {
    /// A task, with the instance that it concerns and the mark that this one showed.
    Do(Task, Option<(usize, Option<Mark>)>),
    /// Writes a page read from a source to an instance.
    Paste(MasterId, usize, Option<Lease>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Claim(usize),
    Deliver(usize, usize),
    Learn(usize),
    Plan(usize),
    Act(usize),
    Forget(usize),
    Replace,
    Move(usize),
    Hide,
    Show,
}

impl World {
    pub(crate) fn small() -> Self {
        Self {
            forgets: vec![2],
            keepers: 1,
            is_held: false,
            nonces: 1,
            hides: None,
            learns_late: false,
            replaces: false,
            bug: None,
        }
    }

    fn claim(&self, state: &mut State, index: usize) {
        let roster = &state.proxies[index].roster;
        let proof = |at: usize| Proof::due(roster, MasterId::new(at), 0);
        let proofs = Box::new([proof(0), proof(1), proof(2)]);
        let votes = Votes::new(Quorum::of(MASTERS), term(roster));
        state.proxies[index].claim = Claim::Sent(votes, proofs, MasterSet::first(MASTERS));
    }

    /// Delivers a claim to a master, and its vote, with the mark read behind it, to the proxy.
    fn deliver(&self, state: &mut State, index: usize, at: usize) -> Option<()> {
        let known = bugs::known(self.bug, &state.proxies[index].roster);
        let instance = state.proxies[index].reach(at);
        let master = &mut state.masters[instance];
        let (votes, proofs, on_the_way) = match &mut state.proxies[index].claim {
            Claim::Sent(votes, proofs, on_the_way) => (votes, proofs, on_the_way),
            Claim::Granted(on_the_way) => {
                on_the_way.remove(MasterId::new(at));
                master.lease.get_or_insert(Lease::Of(index));
                return Some(());
            }
            Claim::Free | Claim::Lost => return None,
        };
        on_the_way.remove(MasterId::new(at));
        let is_free = master.lease.is_none();
        master.lease.get_or_insert(Lease::Of(index));
        let reading = MarkReading {
            mark: bugs::read(self.bug, master, proofs[at].as_ref()),
            time_continues: true,
        };
        let proof = proofs[at].take().filter(|proof| proof.run_id() == run_id(instance));
        if let Some(vote) = proof.and_then(|proof| proof.check(&reading, is_free)) {
            votes.count(vote, &known);
        }
        state.proxies[index].decide();
        Some(())
    }

    /// Tells the proxy the roster, and counts the votes that had to wait for it.
    fn learn(&self, state: &mut State, index: usize) {
        let proxy = &mut state.proxies[index];
        proxy.roster = state.roster.clone();
        if let Claim::Sent(votes, ..) = &mut proxy.claim {
            votes.learn(&bugs::known(self.bug, &proxy.roster));
        }
        proxy.decide();
    }

    fn plan(&self, state: &State, index: usize) -> Option<Plan> {
        let proxy = &state.proxies[index];
        let shown = state.shown_to(index);
        let masters = (0..MASTERS).map(MasterId::new);
        let next =
            |master| bugs::next(self.bug, &proxy.roster, master, &shown, proxy.copy.as_ref());
        let task = masters.filter_map(next).find(|task| *task != Task::Wait)?;
        if matches!(task, Task::Empty(_)) && state.nonces == self.nonces {
            return None;
        }
        let seen = match &task {
            Task::Mark { master, .. } | Task::Empty(master) => {
                let instance = proxy.reach(master.index());
                Some((instance, state.masters[instance].mark.clone()))
            }
            Task::Change(_) | Task::CopyFrom(_) | Task::Wait => None,
        };
        Some(Plan::Do(task, seen))
    }

    fn act(&self, state: &mut State, index: usize) -> Option<()> {
        match state.proxies[index].plan.take()? {
            Plan::Do(Task::Change(change), _) => self.change(state, index, &change),
            Plan::Do(Task::Mark { mark, .. }, seen) => {
                let (at, seen) = seen?;
                let is_blind = self.bug == Some(Bug::SetsTheMarkBlindly);
                if is_blind || state.masters[at].mark == seen {
                    state.masters[at].mark = Some(mark);
                }
            }
            Plan::Do(Task::Empty(master), seen) => {
                let (at, seen) = seen?;
                state.nonces += 1;
                let (nonce, since) = (state.nonces, state.proxies[index].roster.out_since(master));
                let since = since.or(Some(0).filter(|_| self.bug.is_some()))?;
                if state.masters[at].mark == seen {
                    let kind = MarkKind::Provisional { nonce };
                    state.masters[at].mark =
                        Some(Mark { kind, database: 0, tail: Tail::default() });
                    let copy = Copy { since, nonce, sources: MasterSet::EMPTY };
                    state.proxies[index].copy = Some(copy);
                }
            }
            Plan::Do(Task::CopyFrom(sources), _) => {
                let source = sources.iter().next()?;
                let page = state.read_page(self.bug, index, source)?;
                state.proxies[index].plan = Some(page);
            }
            Plan::Do(Task::Wait, _) => {}
            Plan::Paste(source, target, lease) => self.paste(state, index, source, target, lease),
        }
        Some(())
    }

    fn change(&self, state: &mut State, index: usize, change: &Change) {
        let (after, version) = change.run(&state.roster);
        if version.is_some() {
            if let Change::Out { member, .. } = change {
                state.needless |= state.masters[state.instance(member.index())].remembers;
            }
            if let Change::In { member, .. } = change {
                // From now on it receives everything, once its mark is set.
                let instance = state.instance(member.index());
                state.masters[instance].remembers = false;
            }
            state.roster = after;
        }
        self.learn(state, index);
    }

    /// Writes a page, unless the target has forgotten since it got its provisional mark.
    fn paste(
        &self,
        state: &mut State,
        index: usize,
        source: MasterId,
        target: usize,
        lease: Option<Lease>,
    ) {
        let Some(copy) = &mut state.proxies[index].copy else { return };
        let target = &mut state.masters[target];
        let kind = MarkKind::Provisional { nonce: copy.nonce };
        if target.mark.as_ref().is_none_or(|mark| mark.kind != kind) {
            return;
        }
        copy.sources.insert(source);
        if self.bug == Some(Bug::CopiesFromTooFew) {
            copy.sources = MasterSet::first(MASTERS);
        }
        target.lease = match (target.lease, lease) {
            (Some(old), Some(new)) if old != new => Some(Lease::Nobody),
            (old, new) => old.or(new),
        };
    }
}

impl Proxy {
    /// Returns the instance that it reaches as this master.
    fn reach(&self, at: usize) -> usize {
        if at == LAST { self.last } else { at }
    }

    fn decide(&mut self) {
        let Claim::Sent(votes, _, on_the_way) = &self.claim else { return };
        if votes.is_granted() {
            self.claim = Claim::Granted(*on_the_way);
        } else if on_the_way.is_empty() && !votes.waits() {
            self.claim = Claim::Lost;
        }
    }

    fn is_granted(&self) -> bool {
        matches!(self.claim, Claim::Granted(_))
    }
}

impl State {
    /// Returns the instance that has the place of a master.
    fn instance(&self, at: usize) -> usize {
        if at == LAST && self.is_replaced { NEW } else { at }
    }

    /// Returns what the masters of a proxy's list show.
    fn shown(&self, index: usize) -> Vec<Option<Shown>> {
        let show = |at: usize| {
            let instance = self.proxies[index].reach(at);
            (self.hidden != Some(at)).then(|| Shown {
                mark: self.masters[instance].mark.clone(),
                run_id: run_id(instance),
                address: address(instance),
            })
        };
        (0..MASTERS).map(show).collect()
    }

    /// Returns what the members show to a proxy.
    fn shown_to(&self, index: usize) -> Vec<Option<Shown>> {
        by_place(&self.proxies[index].roster, &seats(), &self.shown(index))
    }

    /// Whether a proxy reaches an instance that was replaced.
    fn must_move(&self, index: usize) -> bool {
        let (roster, shown) = (&self.proxies[index].roster, self.shown(index));
        let list: Vec<_> = (0..MASTERS).map(|at| address(self.proxies[index].reach(at))).collect();
        moves(roster, &list, &shown, &seats()) == [(MasterId::new(LAST), Some(&*address(NEW)))]
    }

    /// Reads a page of a source for the master being copied to. The proof is read with it.
    fn read_page(&self, bug: Option<Bug>, index: usize, source: MasterId) -> Option<Plan> {
        let (proxy, shown) = (&self.proxies[index], self.shown_to(index));
        let copy = proxy.copy.as_ref()?;
        let target = (0..MASTERS).map(MasterId::new).find(|at| {
            proxy.roster.out_since(*at).is_some()
                || bug == Some(Bug::CopiesWithoutPuttingOut) && self.is_provisional(*at)
        })?;
        let target = proxy.reach(target.index());
        let is_proven = bug == Some(Bug::CopiesBeforeTheRaise)
            || is_source(&proxy.roster, source, shown[source.index()].as_ref()?, copy.since);
        let lease = self.masters[proxy.reach(source.index())].lease;
        is_proven.then_some(Plan::Paste(source, target, lease))
    }

    fn is_provisional(&self, master: MasterId) -> bool {
        let mark = self.masters[master.index()].mark.as_ref();
        mark.is_some_and(|mark| mark.version().is_none())
    }

    fn votes(&self, at: usize) -> bool {
        let expected = Mark::expected(&self.roster, MasterId::new(at), 0);
        let is_in = self.roster.voters().contains(MasterId::new(at));
        is_in && self.masters[self.instance(at)].mark == expected
    }

    /// Whether an instance may forget now: a quorum never forgets at once.
    fn may_forget(&self, instance: usize) -> bool {
        let others = (0..MASTERS).map(|at| self.instance(at)).filter(|it| *it != instance);
        others.into_iter().all(|other| self.masters[other].remembers)
    }
}

/// Returns the term of a roster whose members are the masters of the list, in order.
pub(crate) fn term(roster: &Roster) -> Arc<Term> {
    let proof = |at| Proof::due(roster, MasterId::new(at), 0).into_iter().collect();
    Arc::new(Term::new(roster.version, (0..MASTERS).map(proof).collect()))
}

pub(crate) fn run_id(instance: usize) -> String {
    format!("run{instance}")
}

fn address(instance: usize) -> String {
    format!("a:{instance}")
}

/// Returns the places of a list that has the members in their order.
fn seats() -> Seats {
    (0..MASTERS).map(|at| Some(MasterId::new(at))).collect()
}

pub(crate) fn founded() -> Roster {
    let member = |at: usize| Member::founder(at as u64, run_id(at), vec![address(at)]);
    let members = (0..MASTERS).map(member).collect();
    Roster {
        cluster: "c".to_owned(),
        version: 1,
        stage: Stage::Founded,
        members,
        ..Roster::default()
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let roster = founded();
        let master = |at| Master {
            mark: Mark::expected(&roster, MasterId::new(at), 0),
            lease: None,
            remembers: true,
        };
        let new = Master { mark: None, lease: None, remembers: false };
        let mut masters = [master(0), master(1), master(2), new];
        let proxy = Proxy {
            roster: roster.clone(),
            claim: Claim::Free,
            copy: None,
            plan: None,
            last: LAST,
        };
        let mut proxies = [proxy.clone(), proxy];
        if self.is_held {
            proxies[0].claim = Claim::Granted(MasterSet::EMPTY);
            masters[0].lease = Some(Lease::Of(0));
            masters[2] = Master { mark: None, lease: None, remembers: false };
        }
        vec![State {
            roster,
            masters,
            proxies,
            forgotten: 0,
            nonces: 0,
            hidden: None,
            hid: false,
            is_replaced: false,
            needless: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, proxy) in state.proxies.iter().enumerate() {
            let needs_it = index < self.keepers
                || match &proxy.claim {
                    Claim::Free => true,
                    Claim::Sent(votes, ..) => !self.learns_late || votes.waits(),
                    Claim::Granted(_) | Claim::Lost => false,
                };
            if needs_it && proxy.roster != state.roster {
                actions.push(Action::Learn(index));
            }
            match &proxy.claim {
                Claim::Free => actions.push(Action::Claim(index)),
                Claim::Sent(_, _, on_the_way) | Claim::Granted(on_the_way) => {
                    let seen = on_the_way.iter().map(MasterId::index);
                    let seen = seen.filter(|at| state.hidden != Some(*at));
                    actions.extend(seen.map(|at| Action::Deliver(index, at)));
                }
                Claim::Lost => {}
            }
            match &proxy.plan {
                Some(_) => actions.push(Action::Act(index)),
                None if index < self.keepers => actions.push(Action::Plan(index)),
                None => {}
            }
        }
        let next = self.forgets.get(state.forgotten).copied();
        actions.extend(next.filter(|at| state.may_forget(*at)).map(Action::Forget));
        if self.replaces && !state.is_replaced {
            actions.push(Action::Replace);
        }
        let proxies = 0..PROXIES;
        actions.extend(proxies.filter(|index| state.must_move(*index)).map(Action::Move));
        if self.hides.is_some() {
            match state.hidden {
                Some(_) => actions.push(Action::Show),
                None if !state.hid => actions.push(Action::Hide),
                None => {}
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Claim(index) => self.claim(&mut state, index),
            Action::Deliver(index, at) => self.deliver(&mut state, index, at)?,
            Action::Learn(index) => self.learn(&mut state, index),
            Action::Plan(index) => state.proxies[index].plan = Some(self.plan(&state, index)?),
            Action::Act(index) => {
                // A plan that no longer applies is dropped.
                let _ = self.act(&mut state, index);
            }
            Action::Forget(at) => {
                state.forgotten += 1;
                state.masters[at] = Master { mark: None, lease: None, remembers: false };
            }
            Action::Replace => {
                let member = MasterId::new(LAST);
                let known = &state.proxies[0].roster;
                let (incarnation, since) =
                    (known.member(member)?.incarnation, known.out_since(member));
                let change = Change::Replace { member, incarnation, since, address: address(NEW) };
                let before = state.roster.version;
                self.change(&mut state, 0, &change);
                state.is_replaced = state.roster.version > before;
            }
            Action::Move(index) => {
                let proxy = &mut state.proxies[index];
                proxy.last = NEW;
                // Its connection to the replaced instance is closed: answers on their way are lost.
                if let Claim::Sent(_, _, on_the_way) | Claim::Granted(on_the_way) = &mut proxy.claim
                {
                    on_the_way.remove(MasterId::new(LAST));
                }
                proxy.decide();
            }
            Action::Hide => (state.hidden, state.hid) = (self.hides, true),
            Action::Show => state.hidden = None,
        }
        for at in 0..MASTERS {
            let instance = state.instance(at);
            state.masters[instance].remembers |= state.votes(at);
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a lease is granted once", |_: &Self, state: &State| {
                !state.proxies.iter().all(Proxy::is_granted)
            }),
            Property::always("nobody is put out that remembers", |_: &Self, state: &State| {
                !state.needless
            }),
            Property::sometimes("who forgot votes again", |world: &Self, state: &State| {
                state.forgotten == world.forgets.len()
                    && state.is_replaced == world.replaces
                    && (0..MASTERS).all(|at| state.votes(at))
                    && state.roster.version > 1
            }),
            Property::sometimes("a lease is granted", |_: &Self, state: &State| {
                state.proxies.iter().any(Proxy::is_granted)
            }),
        ]
    }
}

#[test]
fn no_admission_grants_a_lease_twice() {
    let states = explore(World::small());
    assert!(states > 1_000, "only {states} states");
}

/// This world has not been explored to its end: the test covers the first steps of all orders.
#[test]
fn no_first_steps_of_two_proxies_that_admit_at_once_grant_a_lease_twice() {
    let world = World { keepers: 2, is_held: true, forgets: vec![], ..World::small() };
    let checker = world.checker().threads(1).target_state_count(150_000).spawn_bfs().join();
    println!("{} states, {} steps", checker.unique_state_count(), checker.max_depth());
    checker.assert_no_discovery("a lease is granted once");
    checker.assert_no_discovery("nobody is put out that remembers");
}

#[test]
fn no_flush_in_the_middle_of_an_admission_grants_a_lease_twice() {
    let world = World { forgets: vec![2, 2], nonces: 2, ..World::small() };
    let states = explore(World { learns_late: true, ..world });
    assert!(states > 1_000, "only {states} states");
}

#[test]
fn no_second_master_that_forgets_later_grants_a_lease_twice() {
    let world = World { forgets: vec![2, 1], nonces: 2, ..World::small() };
    let states = explore(World { learns_late: true, ..world });
    assert!(states > 1_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_second_master_that_forgets_grants_a_lease_twice_whenever_proxies_learn_of_it() {
    for forgets in [vec![2, 2], vec![2, 1]] {
        explore(World { forgets, nonces: 2, ..World::small() });
    }
}

#[test]
fn no_master_out_of_sight_during_an_admission_grants_a_lease_twice() {
    let states = explore(World { hides: Some(1), ..World::small() });
    assert!(states > 1_000, "only {states} states");
}

/// Returns a world in which the last master is replaced.
pub(crate) fn replacing() -> World {
    World { forgets: vec![], replaces: true, learns_late: true, ..World::small() }
}

#[test]
fn no_replacement_of_a_master_grants_a_lease_twice() {
    let states = explore(replacing());
    assert!(states > 1_000, "only {states} states");
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_master_that_forgets_before_or_after_a_replacement_grants_a_lease_twice() {
    for forgets in [vec![2], vec![1]] {
        explore(World { forgets, nonces: 2, ..replacing() });
    }
}
