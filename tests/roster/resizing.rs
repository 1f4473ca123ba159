//! One lease, two proxies that claim it, and members that join and leave, so that the quorum changes.
//!
//! The roster passes through a fixed list of versions. A keeper copies, levels, and takes the next version, one step at
//! a time. Masters that lag are raised later than the roster changes, the others at once.

use std::hash::{Hash, Hasher};
use std::ops::Deref;

use redlock_proxy::decision::quorum::{MasterId, MasterSet, Quorum};
use redlock_proxy::decision::register::Program as _;
use redlock_proxy::decision::roster::copying::{Held, KeyContent};
use redlock_proxy::decision::roster::level::is_level;
use redlock_proxy::decision::roster::mark::{Mark, MarkReading, Proof, Proven};
use redlock_proxy::decision::roster::poll::{Counting, Poll};
use redlock_proxy::decision::roster::roster::{Change, Member, Roster, Stage};
use redlock_proxy::decision::roster::term::Term;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::explore;

const PLACES: usize = 5;
const PROXIES: usize = 2;

/// An order of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Join,
    Vacate(usize),
    Leave(usize),
}

/// A rule that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Votes count by the quorum of the beginning, whatever version they prove.
    KeepsTheOldQuorum,
    /// The vacant seat is taken without a copy.
    JoinsEmpty,
    /// A page of a source counts whatever version its mark proves.
    CopiesBeforeTheRaise,
    /// As many sources are read as if there had been no vacant seat.
    CopiesFromTooFew,
    /// Seats are closed without levelling.
    ClosesWithoutLevelling,
    /// Pages for levelling count whatever version the marks prove.
    LevelsBeforeTheRaise,
}

/// Possible events and their limits.
#[derive(Clone, Debug)]
struct World {
    versions: &'static [Version],
    /// Masters that may be raised later than the roster changes.
    lag: Vec<usize>,
    /// Masters that the requests of each proxy reach. The fewer hold a lease, the harder it is to find.
    reach: [&'static [usize]; PROXIES],
    /// A master that may stop for good.
    stops: Option<usize>,
    bug: Option<Bug>,
}

/// A version of the roster.
#[derive(Debug)]
struct Version {
    roster: Roster,
    term: Term,
    marks: [Option<Mark>; PLACES],
    proofs: [Option<Proof>; PLACES],
}

/// A version, by its index.
#[derive(Clone, Copy)]
struct At(&'static [Version], usize);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    version: usize,
    masters: [Master; PLACES],
    proxies: [Proxy; PROXIES],
    stopped: Option<usize>,
    /// What the keeper has read since the version began.
    pages: [Option<Option<usize>>; PLACES],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Master {
    /// Version that its mark proves.
    mark: Option<usize>,
    holder: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proxy {
    /// Version that it knows.
    known: usize,
    claim: Claim,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Claim {
    Free,
    Sent(Box<Sent>),
    /// Requests still on their way take effect, but are no longer counted.
    Granted(MasterSet),
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    /// Version in which it was sent.
    begun: usize,
    poll: Poll<At>,
    yes: MasterSet,
    on_the_way: MasterSet,
    ahead: Vec<Proven<bool>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Claim(usize),
    Deliver(usize, usize),
    Learn(usize),
    Raise(usize),
    Read(usize),
    LookAgain,
    Next,
    Stop,
}

impl Version {
    fn new(roster: Roster, bug: Option<Bug>) -> Self {
        let place = MasterId::new;
        let proof = |at| Proof::due(&roster, place(at), 0);
        let term = Term::new(
            roster.version,
            (0..PLACES).map(|at| proof(at).into_iter().collect()).collect(),
        );
        let term = match bug {
            Some(Bug::KeepsTheOldQuorum) => term,
            _ => term.seated(roster.quorum().everybody(), roster.seating),
        };
        let marks = std::array::from_fn(|at| {
            Mark::expected(&roster, place(at), 0).filter(|_| proof(at).is_some())
        });
        Self { term, marks, proofs: std::array::from_fn(proof), roster }
    }

    fn newcomer(&self) -> Option<MasterId> {
        let mut places = (0..self.roster.members.len()).map(MasterId::new);
        places.find(|place| self.roster.out_since(*place).is_some())
    }
}

impl Deref for At {
    type Target = Term;

    fn deref(&self) -> &Term {
        &self.0[self.1].term
    }
}

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl Eq for At {}

impl Hash for At {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.1.hash(state);
    }
}

impl std::fmt::Debug for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.1.fmt(f)
    }
}

/// Returns the versions that a roster passes through while these orders are carried out.
fn versions(founders: usize, orders: &[Order], bug: Option<Bug>) -> &'static [Version] {
    let mut roster = founded(founders);
    let mut versions = vec![Version::new(roster.clone(), bug)];
    let mut change = |change: &Change| {
        let (after, version) = change.run(&roster);
        assert!(version.is_some(), "{change:?} applies");
        roster = after;
        versions.push(Version::new(roster.clone(), bug));
        roster.clone()
    };
    for (number, order) in orders.iter().enumerate() {
        let (member, incarnation) = (MasterId::new, 1);
        let address = format!("b:{number}");
        match *order {
            Order::Join => {
                let joining =
                    change(&Change::Join { id: 90 + number as u64, address: address.clone() });
                let version = Version::new(joining, None);
                let member = version.newcomer().expect("a newcomer");
                let since = version.roster.out_since(member).expect("it is not in");
                let run_id = format!("run{}", member.index());
                change(&Change::In { member, since, nonce: 1, run_id, address });
            }
            Order::Vacate(at) => _ = change(&Change::Vacate { member: member(at), incarnation }),
            Order::Leave(at) => {
                let leaving = change(&Change::Leave { member: member(at), incarnation });
                change(&Change::Left { since: leaving.version });
            }
        }
    }
    versions.leak()
}

fn founded(founders: usize) -> Roster {
    let member =
        |at: usize| Member::founder(at as u64, format!("run{at}"), vec![format!("a:{at}")]);
    Roster {
        cluster: "c".to_owned(),
        version: 1,
        stage: Stage::Founded,
        members: (0..founders).map(member).collect(),
        ..Roster::default()
    }
}

impl World {
    fn new(bug: Option<Bug>, (founders, orders, reach): Scene, lag: &[usize]) -> Self {
        let versions = versions(founders, orders, bug);
        Self { versions, lag: lag.to_vec(), reach, stops: None, bug }
    }

    fn at(&self, version: usize) -> At {
        At(self.versions, version)
    }

    fn now(&self, state: &State) -> &'static Version {
        &self.versions[state.version]
    }

    fn claim(&self, state: &mut State, index: usize) {
        let begun = state.proxies[index].known;
        let proofs = &self.versions[begun].proofs;
        let arrives = |at: &usize| proofs[*at].is_some() && self.reach[index].contains(at);
        let on_the_way = (0..PLACES).filter(arrives).map(MasterId::new).collect();
        state.proxies[index].claim = Claim::Sent(Box::new(Sent {
            begun,
            poll: Poll::new(self.at(begun)),
            yes: MasterSet::EMPTY,
            on_the_way,
            ahead: Vec::new(),
        }));
    }

    /// Delivers a claim to a master, and its vote, with the mark read behind it, to the proxy.
    fn deliver(&self, state: &mut State, index: usize, at: usize) {
        let (master, proxy) = (&mut state.masters[at], &mut state.proxies[index]);
        let is_free = master.holder.is_none();
        master.holder.get_or_insert(index);
        match &mut proxy.claim {
            Claim::Sent(sent) => {
                sent.on_the_way.remove(MasterId::new(at));
                let mark = master.mark.and_then(|version| self.versions[version].marks[at].clone());
                let reading = MarkReading { mark, time_continues: true };
                let proof = self.versions[sent.begun].proofs[at].as_ref();
                if let Some(vote) = proof.and_then(|proof| proof.check(&reading, is_free)) {
                    sent.count(vote, self.at(proxy.known));
                }
            }
            Claim::Granted(on_the_way) => on_the_way.remove(MasterId::new(at)),
            Claim::Free | Claim::Lost => {}
        }
        self.decide(proxy);
    }

    fn learn(&self, state: &mut State, index: usize) {
        let proxy = &mut state.proxies[index];
        proxy.known = state.version;
        if let Claim::Sent(sent) = &mut proxy.claim {
            for vote in std::mem::take(&mut sent.ahead) {
                sent.count(vote, self.at(proxy.known));
            }
        }
        self.decide(proxy);
    }

    fn decide(&self, proxy: &mut Proxy) {
        let Claim::Sent(sent) = &proxy.claim else { return };
        if self.versions[sent.begun].roster.quorum().reached_by(sent.yes) {
            proxy.claim = Claim::Granted(sent.on_the_way);
        } else if sent.on_the_way.is_empty() && sent.ahead.is_empty() {
            proxy.claim = Claim::Lost;
        }
    }

    fn raise(&self, state: &mut State, at: usize) {
        if self.now(state).marks[at].is_some() {
            state.masters[at].mark = Some(state.version);
        }
    }

    /// Whether a page that a member shows now counts.
    fn can_be_read(&self, state: &State, at: usize) -> bool {
        let now = self.now(state);
        let is_blind = match now.roster.leaving {
            Some(_) => self.bug == Some(Bug::LevelsBeforeTheRaise),
            None => self.bug == Some(Bug::CopiesBeforeTheRaise),
        };
        now.roster.voters().contains(MasterId::new(at))
            && state.stopped != Some(at)
            && (is_blind || state.masters[at].mark == Some(state.version))
    }

    /// Number of sources that safety needs. The fourth member could be admitted without a copy.
    fn sources_needed(&self, roster: &Roster, newcomer: MasterId) -> usize {
        if !roster.members[newcomer.index()].has_seat() {
            return 0;
        }
        match self.bug {
            Some(Bug::CopiesFromTooFew) => 2,
            Some(Bug::JoinsEmpty) => 0,
            _ => roster.sources_needed(newcomer),
        }
    }

    /// Whether those that stay hold enough; `None` if too few were read.
    fn is_level(&self, state: &State) -> Option<bool> {
        let roster = &self.now(state).roster;
        let leaving = MasterId::new(roster.leaving?.place);
        let mut stay = roster.voters();
        stay.remove(leaving);
        let held =
            |holder: usize| Held { content: KeyContent::Text(vec![holder as u8]), ttl_ms: None };
        let look = |(at, page): (usize, &Option<Option<usize>>)| {
            page.map(|holder| (MasterId::new(at), holder.map(held)))
        };
        let looks: Vec<_> = state.pages.iter().enumerate().filter_map(look).collect();
        if self.bug == Some(Bug::ClosesWithoutLevelling) {
            return Some(true);
        }
        let read: MasterSet = looks.iter().map(|(at, _)| *at).collect();
        let after = Quorum::of(roster.seats() - 2);
        let is_enough = stay.without(read).is_empty();
        is_enough.then(|| is_level(roster.quorum(), after, stay, &looks))
    }

    /// Takes the next version, if the present one has done its work.
    fn next_version(&self, state: &mut State) -> Option<()> {
        let now = self.now(state);
        let newcomer = now.newcomer();
        if let Some(newcomer) = newcomer {
            let read: Vec<_> = state.pages.iter().filter_map(|page| *page).collect();
            if read.len() < self.sources_needed(&now.roster, newcomer) {
                return None;
            }
            let mut found = read.into_iter().flatten();
            let first = found.next();
            // Two different holders: a value that nobody has.
            let holder = first.map(|it| if found.all(|other| other == it) { it } else { PROXIES });
            state.masters[newcomer.index()] = Master { mark: None, holder };
        }
        if now.roster.leaving.is_some() && !self.is_level(state)? {
            return None;
        }
        if state.version + 1 == self.versions.len() {
            return None;
        }
        state.version += 1;
        state.pages = Default::default();
        let lags = |at: &usize| self.lag.contains(at) && newcomer != Some(MasterId::new(*at));
        (0..PLACES).filter(|at| !lags(at)).for_each(|at| self.raise(state, at));
        Some(())
    }

    fn is_done(&self, state: &State) -> bool {
        state.version + 1 == self.versions.len()
    }
}

impl Sent {
    fn count(&mut self, vote: Proven<bool>, known: At) {
        match self.poll.count(&vote, || known) {
            Counting::Counts if *vote.answer() => self.yes.insert(vote.master()),
            Counting::Counts | Counting::Void => {}
            Counting::Ahead => self.ahead.push(vote),
        }
    }
}

impl Proxy {
    fn is_granted(&self) -> bool {
        matches!(self.claim, Claim::Granted(_))
    }

    fn on_the_way(&self) -> MasterSet {
        match &self.claim {
            Claim::Sent(sent) => sent.on_the_way,
            Claim::Granted(on_the_way) => *on_the_way,
            Claim::Free | Claim::Lost => MasterSet::EMPTY,
        }
    }

    /// Whether a newer version makes a difference to it.
    fn learns(&self) -> bool {
        match &self.claim {
            Claim::Free => true,
            Claim::Sent(sent) => !sent.ahead.is_empty(),
            Claim::Granted(_) | Claim::Lost => false,
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let is_member = |at: usize| self.versions[0].marks[at].is_some();
        let master = |at| Master { mark: is_member(at).then_some(0), holder: None };
        let proxy = Proxy { known: 0, claim: Claim::Free };
        let mut state = State {
            version: 0,
            masters: std::array::from_fn(master),
            proxies: [proxy.clone(), proxy],
            stopped: None,
            pages: Default::default(),
        };
        self.claim(&mut state, 0);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, proxy) in state.proxies.iter().enumerate() {
            if proxy.learns() && proxy.known < state.version {
                actions.push(Action::Learn(index));
            }
            if proxy.claim == Claim::Free {
                actions.push(Action::Claim(index));
            }
            let arriving = proxy.on_the_way().iter().map(MasterId::index);
            let arriving = arriving.filter(|at| state.stopped != Some(*at));
            actions.extend(arriving.map(|at| Action::Deliver(index, at)));
        }
        let now = self.now(state);
        let copies = now.newcomer().is_some_and(|it| self.sources_needed(&now.roster, it) > 0);
        let reads = copies || now.roster.leaving.is_some();
        for at in 0..PLACES {
            let is_due = now.marks[at].is_some() && state.masters[at].mark != Some(state.version);
            if is_due && state.stopped != Some(at) {
                actions.push(Action::Raise(at));
            }
            // Pages are read in the order of the places, so that there are fewer states.
            let is_next = state.pages[at..].iter().all(Option::is_none);
            if reads && is_next && self.can_be_read(state, at) {
                actions.push(Action::Read(at));
            }
        }
        actions.push(Action::Next);
        if now.roster.leaving.is_some() {
            actions.push(Action::LookAgain);
        }
        if self.stops.is_some() && state.stopped.is_none() {
            actions.push(Action::Stop);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Claim(index) => self.claim(&mut state, index),
            Action::Deliver(index, at) => self.deliver(&mut state, index, at),
            Action::Learn(index) => self.learn(&mut state, index),
            Action::Raise(at) => self.raise(&mut state, at),
            Action::Read(at) => state.pages[at] = Some(state.masters[at].holder),
            Action::LookAgain => state.pages = Default::default(),
            Action::Next => self.next_version(&mut state)?,
            Action::Stop => state.stopped = self.stops,
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a lease is granted once", |_: &Self, state: &State| {
                !state.proxies.iter().all(Proxy::is_granted)
            }),
            Property::sometimes("all orders are carried out", |world: &Self, state: &State| {
                world.is_done(state) && state.stopped == world.stops
            }),
            Property::sometimes("a lease of before is granted", |_: &Self, state: &State| {
                state.proxies[0].is_granted()
            }),
            Property::sometimes("a lease is granted in the end", |world: &Self, state: &State| {
                let last = &state.proxies[1];
                let Claim::Granted(_) = last.claim else { return false };
                world.is_done(state)
                    && last.known == state.version
                    && !state.proxies[0].is_granted()
            }),
        ]
    }
}

/// Number of founders, orders, and the masters that each proxy's requests reach.
type Scene = (usize, &'static [Order], [&'static [usize]; PROXIES]);

/// Two members are added to three.
const GROW: Scene = (3, &[Order::Join, Order::Join], [&[0, 1], &[1, 2, 3, 4]]);

/// The last two of five are removed.
const SHRINK: Scene = (5, &[Order::Vacate(4), Order::Leave(3)], [&[0, 3, 4], &[0, 1, 2]]);

#[test]
fn no_growth_from_three_to_five_grants_a_lease_twice() {
    for lag in [0, 1] {
        let states = explore(World::new(None, GROW, &[lag]));
        assert!(states > 1_000, "only {states} states");
    }
}

#[test]
fn no_removal_of_two_of_five_grants_a_lease_twice() {
    for lag in [0, 3] {
        let states = explore(World::new(None, SHRINK, &[lag]));
        assert!(states > 1_000, "only {states} states");
    }
}

#[test]
#[ignore = "takes minutes: make test-model"]
fn no_master_that_stops_while_members_join_and_leave_grants_a_lease_twice() {
    for (scene, stops) in [(GROW, 2), (SHRINK, 3), (SHRINK, 0)] {
        let world = World { stops: Some(stops), ..World::new(None, scene, &[1]) };
        world
            .checker()
            .threads(1)
            .spawn_bfs()
            .join()
            .assert_no_discovery("a lease is granted once");
    }
}

/// Returns whether the model finds what this bug breaks.
fn finds(bug: Bug, scene: Scene, lag: &[usize]) -> bool {
    let failed = HasDiscoveries::AnyOf(["a lease is granted once"].into());
    let world = World::new(Some(bug), scene, lag);
    let found = world.checker().threads(1).finish_when(failed).spawn_bfs().join();
    let steps = found.discovery("a lease is granted once").map(|it| it.into_actions());
    println!("{bug:?}: {} states, {steps:?}", found.unique_state_count());
    steps.is_some()
}

#[test]
fn votes_by_the_quorum_of_before_grant_twice() {
    assert!(finds(Bug::KeepsTheOldQuorum, GROW, &[1]));
}

#[test]
fn a_fifth_member_without_a_copy_grants_twice() {
    assert!(finds(Bug::JoinsEmpty, GROW, &[]));
}

#[test]
fn two_sources_for_the_fifth_member_are_not_enough() {
    assert!(finds(Bug::CopiesFromTooFew, GROW, &[1]));
}

#[test]
fn a_copy_for_the_fifth_member_before_the_raise_grants_twice() {
    assert!(finds(Bug::CopiesBeforeTheRaise, GROW, &[1]));
}

#[test]
fn seats_closed_without_levelling_grant_twice() {
    assert!(finds(Bug::ClosesWithoutLevelling, SHRINK, &[]));
}

#[test]
fn levelling_before_the_raise_grants_twice() {
    assert!(finds(Bug::LevelsBeforeTheRaise, SHRINK, &[0, 3]));
}
