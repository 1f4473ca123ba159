//! An exhaustive model of one client that caches what it reads, and of three masters that are written to in any order
//! while it does. Reports are late, merged or lost with their connection; masters come and go. The production code
//! decides whom to tell, and when.
//!
//! The value changes up to twice. A master that is down keeps its value and misses nothing: what it lacks it would get
//! later, with a report.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use stateright::{Model, Property};

use super::exhaustive::{goes_wrong, holds};
use super::gathering::{Changed, Gatherings};
use super::is_complete;
use super::table::{MAX_BYTES, Table};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::time::clock::{self, Instant};

const MASTERS: usize = 3;
const QUORUM: usize = 2;
const KEY: &[u8] = b"k";
const CLIENT: u64 = 1;
const BOUND: Duration = Duration::from_millis(50);

const NOT_STALE: &str = "no client keeps an old value";

/// A missing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A read is noted when its reply is known, not before masters are asked.
    NotedLate,
    /// A message to the client overtakes the reply that it is about.
    Overtakes,
    /// After a message, the other masters' reports of the key are taken for copies.
    DropsCopies,
    /// Any change that a quorum makes is reported by one of N-Q+1 masters: fewer feeds suffice.
    FewerFeeds,
    /// Nothing is told when a feed is lost.
    SilentLoss,
    /// Nothing is told when a feed comes up after its master has voted.
    SilentReturn,
}

#[derive(Clone, Debug)]
struct World {
    bug: Option<Bug>,
    writes: u8,
    reads: u8,
    /// Times that a feed may be lost, or a master be unreachable.
    losses: u8,
    start: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct MasterState {
    value: u8,
    /// Whether the master can be reached, and votes.
    is_up: bool,
    /// Whether a change is yet to be reported at the end of this turn of its event loop.
    is_dirty: bool,
    /// Reports on their way.
    reports: u8,
    /// Its answer to the read in flight.
    answer: Option<u8>,
    is_asked: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct State {
    masters: [MasterState; MASTERS],
    live: MasterSet,
    /// Whether replies could be cached, when the proxy last looked.
    was_complete: bool,
    gatherings: Gatherings,
    /// With `DropsCopies`: masters whose next report is taken for a copy.
    copies: MasterSet,
    readers: ReaderTable,
    written: u8,
    reads: u8,
    losses: u8,
    is_reading: bool,
    /// Whether the client is to be told behind the reply that it waits for.
    is_told_behind: bool,
    cached: Option<u8>,
}

/// The table, hashed by what it says about the client.
#[derive(Clone, Debug)]
struct ReaderTable(Table);

impl PartialEq for ReaderTable {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_reader(KEY, CLIENT) == other.0.is_reader(KEY, CLIENT)
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.masters, self.live.bits(), &self.gatherings, self.copies.bits()).hash(state);
        self.readers.0.is_reader(KEY, CLIENT).hash(state);
        (self.was_complete, self.written, self.reads, self.losses, self.is_reading).hash(state);
        (self.is_told_behind, self.cached).hash(state);
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    /// Another value is on its way to the masters.
    Write,
    /// A master executes the next write.
    Apply(usize),
    /// A master's event loop comes to the end of its turn.
    TurnEnds(usize),
    /// The proxy reads a report.
    Report(usize),
    /// Gatherings have waited long enough.
    Bound,
    /// The client reads.
    Read,
    /// A master answers the read.
    Answer(usize),
    /// The feed of a master is lost, though the master can still be reached.
    LoseFeed(usize),
    /// The feed of a master comes up.
    FeedUp(usize),
    /// A master and its feed are lost.
    GoDown(usize),
    /// A master can be reached again.
    ComeUp(usize),
    /// The proxy looks whether every master that votes reports.
    Look,
}

impl World {
    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn holding(&self, state: &State, value: u8) -> usize {
        state.masters.iter().filter(|master| master.value == value).count()
    }

    fn up(&self, state: &State) -> MasterSet {
        let up = (0..MASTERS).filter(|index| state.masters[*index].is_up);
        up.map(MasterId::new).collect()
    }

    fn may_be_cached(&self, state: &State) -> bool {
        if self.has(Bug::FewerFeeds) {
            return state.live.len() > MASTERS - QUORUM;
        }
        is_complete(self.up(state), state.live)
    }

    /// Tells the client that the key, or everything, has changed.
    fn tell(&self, state: &mut State) {
        if state.is_reading && !self.has(Bug::Overtakes) {
            state.is_told_behind = true;
        }
        state.cached = None;
    }

    fn changed(&self, state: &mut State) {
        if !state.readers.0.take(KEY).is_empty() {
            self.tell(state);
        }
    }

    fn report(&self, state: &mut State, index: usize) {
        let by = MasterId::new(index);
        if self.has(Bug::DropsCopies) {
            if state.copies.contains(by) {
                state.copies.remove(by);
                return;
            }
            state.copies = state.live;
            state.copies.remove(by);
            return self.changed(state);
        }
        let key = Changed::Key(KEY.into());
        if state.gatherings.reported(&key, by, state.live, self.start).is_some() {
            self.changed(state);
        }
    }

    fn lose_feed(&self, state: &mut State, index: usize) {
        let master = &mut state.masters[index];
        (master.is_dirty, master.reports) = (false, 0);
        state.live.remove(MasterId::new(index));
        state.copies.remove(MasterId::new(index));
        state.gatherings.clear();
        if !self.has(Bug::SilentLoss) {
            self.flush(state);
        }
    }

    /// Tells the client that everything may have changed.
    fn flush(&self, state: &mut State) {
        state.readers.0.clear();
        self.tell(state);
    }

    /// Looks whether replies may be cached. If that has ended, the client drops everything.
    fn look(&self, state: &mut State) -> bool {
        let is_complete = self.may_be_cached(state);
        if std::mem::replace(&mut state.was_complete, is_complete) && !is_complete {
            self.flush(state);
        }
        is_complete
    }

    fn note_read(&self, state: &mut State) {
        if self.look(state) {
            state.readers.0.remember(KEY, CLIENT, |_| true);
        } else {
            state.is_told_behind = true;
        }
    }

    fn read(&self, state: &mut State) {
        state.reads += 1;
        (state.is_reading, state.is_told_behind) = (true, false);
        for master in &mut state.masters {
            (master.answer, master.is_asked) = (None, master.is_up);
        }
        if !self.has(Bug::NotedLate) {
            self.note_read(state);
        }
    }

    fn answer(&self, state: &mut State, index: usize) {
        let value = state.masters[index].value;
        let master = &mut state.masters[index];
        (master.answer, master.is_asked) = (Some(value), false);
        let same = state.masters.iter().filter(|master| master.answer == Some(value)).count();
        if same < QUORUM {
            return self.ask_again(state);
        }
        if self.has(Bug::NotedLate) {
            self.note_read(state);
        }
        state.is_reading = false;
        state.cached = (!std::mem::take(&mut state.is_told_behind)).then_some(value);
        for master in &mut state.masters {
            (master.answer, master.is_asked) = (None, false);
        }
    }

    /// Begins another round, with whoever is up by now, when no master is left to answer this one.
    fn ask_again(&self, state: &mut State) {
        if state.is_reading && state.masters.iter().all(|master| !master.is_asked) {
            for master in &mut state.masters {
                (master.answer, master.is_asked) = (None, master.is_up);
            }
        }
    }

    /// Whether everything has been reported and told.
    fn is_quiet(&self, state: &State) -> bool {
        let is_quiet = |master: &MasterState| !master.is_dirty && master.reports == 0;
        let has_looked = state.was_complete == self.may_be_cached(state);
        !state.is_reading
            && state.masters.iter().all(is_quiet)
            && state.gatherings.is_empty()
            && has_looked
    }

    fn is_stale(&self, state: &State) -> bool {
        let is_newer = |value: &u8| {
            (*value + 1..=self.writes).any(|newer| self.holding(state, newer) >= QUORUM)
        };
        state.cached.as_ref().is_some_and(is_newer)
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let master = MasterState {
            value: 0,
            is_up: true,
            is_dirty: false,
            reports: 0,
            answer: None,
            is_asked: false,
        };
        vec![State {
            masters: std::array::from_fn(|_| master.clone()),
            live: MasterSet::first(MASTERS),
            was_complete: true,
            gatherings: Gatherings::new(BOUND),
            copies: MasterSet::EMPTY,
            readers: ReaderTable(Table::new(MAX_BYTES)),
            written: 0,
            reads: 0,
            losses: 0,
            is_reading: false,
            is_told_behind: false,
            cached: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // A write begins when the one before it is decided.
        let is_decided = self.holding(state, state.written) >= QUORUM;
        let is_idle = !state.is_reading && state.reads < self.reads;
        let mut may = |action, is_so| {
            if is_so {
                actions.push(action);
            }
        };
        may(Action::Write, state.written < self.writes && is_decided);
        may(Action::Read, is_idle);
        may(Action::Bound, !state.gatherings.is_empty());
        may(Action::Look, state.was_complete != self.may_be_cached(state));
        let may_lose = state.losses < self.losses;
        for (index, master) in state.masters.iter().enumerate() {
            let is_live = state.live.contains(MasterId::new(index));
            may(Action::Apply(index), master.is_up && master.value < state.written);
            may(Action::TurnEnds(index), master.is_dirty);
            may(Action::Report(index), master.reports > 0);
            may(Action::Answer(index), master.is_up && master.is_asked);
            may(Action::LoseFeed(index), may_lose && is_live);
            may(Action::GoDown(index), may_lose && master.is_up);
            may(Action::FeedUp(index), master.is_up && !is_live);
            may(Action::ComeUp(index), !master.is_up);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Write => state.written += 1,
            Action::Apply(index) => {
                let is_live = state.live.contains(MasterId::new(index));
                let master = &mut state.masters[index];
                (master.value, master.is_dirty) = (state.written, master.is_dirty || is_live);
            }
            Action::TurnEnds(index) => {
                let master = &mut state.masters[index];
                (master.is_dirty, master.reports) = (false, master.reports + 1);
            }
            Action::Report(index) => {
                state.masters[index].reports -= 1;
                self.report(&mut state, index);
            }
            Action::Bound => {
                for _ in state.gatherings.due(self.start + BOUND) {
                    self.changed(&mut state);
                }
            }
            Action::Read => self.read(&mut state),
            Action::Answer(index) => self.answer(&mut state, index),
            Action::LoseFeed(index) => {
                state.losses += 1;
                self.lose_feed(&mut state, index);
            }
            Action::FeedUp(index) => {
                state.live.insert(MasterId::new(index));
                if !self.has(Bug::SilentReturn) {
                    self.flush(&mut state);
                }
                state.was_complete = self.may_be_cached(&state);
            }
            Action::GoDown(index) => {
                state.losses += 1;
                (state.masters[index].is_up, state.masters[index].is_asked) = (false, false);
                self.lose_feed(&mut state, index);
                self.ask_again(&mut state);
            }
            Action::Look => _ = self.look(&mut state),
            Action::ComeUp(index) => {
                state.masters[index].is_up = true;
                self.ask_again(&mut state);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_STALE, |world: &World, state: &State| {
                !world.is_quiet(state) || !world.is_stale(state)
            }),
            Property::sometimes("a value is cached", |_, state: &State| state.cached.is_some()),
            Property::sometimes("the newest value is cached", |world: &World, state: &State| {
                state.cached == Some(world.writes) && world.is_quiet(state)
            }),
        ]
    }
}

fn world(writes: u8, reads: u8, losses: u8) -> World {
    World { bug: None, writes, reads, losses, start: clock::now() }
}

#[test]
fn a_caching_client_hears_of_every_change() {
    holds(world(2, 1, 0), 1_000);
    holds(world(1, 3, 0), 1_000);
}

#[test]
fn a_caching_client_hears_of_every_change_though_masters_and_feeds_come_and_go() {
    holds(world(1, 2, 2), 10_000);
}

#[test]
fn each_rule_is_needed() {
    let lacks =
        |bug, losses| goes_wrong(World { bug: Some(bug), ..world(1, 2, losses) }, NOT_STALE);
    lacks(Bug::NotedLate, 0);
    lacks(Bug::Overtakes, 0);
    lacks(Bug::DropsCopies, 0);
    lacks(Bug::FewerFeeds, 1);
    lacks(Bug::SilentLoss, 1);
    lacks(Bug::SilentReturn, 1);
}
