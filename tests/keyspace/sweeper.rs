//! Sweeps that drop the stamps of absent keys.

use redlock_proxy::decision::keyspace::settle::{Finding, settle};
use redlock_proxy::decision::keyspace::slot::Sight;
use redlock_proxy::decision::keyspace::tombstone::{alike, droppable};
use redlock_proxy::decision::quorum::Quorum;
use redlock_proxy::decision::register::ballot::Ballot;

use crate::bugs::Bug;
use crate::server::{Job, Operation};
use crate::specification::slots::Slots;
use crate::world::{Action, MASTERS, State, World};

const KEYS: [u8; 2] = [0, 1];
/// Lead of the sweeper's clock over all others.
const AHEAD: u64 = 15;

/// A stamp that may be dropped: the key, its accepted ballot, and the roster version under which
/// all members were asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Swept {
    key: u8,
    accepted: Ballot,
    version: u64,
}

impl World {
    /// Adds sweep actions. All members are asked at once here, because anything that a sweep relies
    /// on remains true.
    pub(crate) fn sweeping(&self, state: &State, actions: &mut Vec<Action>) {
        let are_all_in = state.masters.iter().all(|master| master.version == Some(state.version()));
        if state.sweeps < self.sweeps && are_all_in {
            actions.push(Action::Sweep);
        }
        for swept in &state.swept {
            for (index, master) in state.masters.iter().enumerate() {
                let has_stamp = master.slots.iter().any(|(key, slot)| {
                    let has_promised = slot.promised > Ballot::NONE && slot.promised > slot.floor;
                    *key == swept.key && slot.state.accepted == swept.accepted && has_promised
                });
                if has_stamp && master.version == Some(swept.version) {
                    actions.push(Action::Forget(index, *swept));
                }
            }
        }
    }

    pub(crate) fn sweep(&self, state: &mut State) {
        state.sweeps += 1;
        let now = state.clock + AHEAD;
        let sights = self.sights(state);
        for (place, key) in KEYS.iter().enumerate() {
            let Some(accepted) = alike(MASTERS, place, &slices(&sights), now) else { continue };
            for master in &mut state.masters {
                master.slots.close(key, accepted);
            }
        }
        let version = state.version();
        let found = self.droppable(&self.sights(state), now);
        let swept = found.into_iter().map(|(key, accepted)| Swept { key, accepted, version });
        state.swept = swept.collect();
    }

    fn droppable(&self, sights: &[Vec<Sight<Job>>], now: u64) -> Vec<(u8, Ballot)> {
        let mut sights = sights.to_vec();
        if matches!(self.bug, Some(Bug::DropsWhatAQuorumHas | Bug::DropsWhatGroupsName)) {
            sights.iter_mut().flatten().for_each(|sight| sight.state.open = None);
        }
        let sights = slices(&sights);
        if !self.is(Bug::DropsWhatAQuorumHas) {
            return droppable(Quorum::of(MASTERS), &KEYS, &sights, now);
        }
        let both = Quorum::of(MASTERS - 1);
        let pairs = sights.windows(MASTERS - 1);
        pairs.flat_map(|pair| droppable(both, &KEYS, pair, now)).collect()
    }

    pub(crate) fn forget(&self, state: &mut State, index: usize, swept: &Swept) {
        let own_us = match self.bug {
            Some(Bug::SweepsByItsOwnClock) => u64::MAX,
            _ => self.own_clock(state),
        };
        let master = &mut state.masters[index];
        let before = master.slots.clone();
        master.slots.forget(&swept.key, swept.accepted, own_us);
        let floor = match self.bug {
            Some(Bug::DropsWithoutAFloor) => before.floor(),
            Some(Bug::DropsPromises) => before.floor().max(swept.accepted),
            Some(Bug::DropsEnds) => before.floor().max(before.get(&swept.key).promised),
            _ => return,
        };
        let mut slots = Slots::default();
        slots.raise_floor(floor);
        for (key, slot) in master.slots.iter() {
            *slots.of(key) = slot.clone();
        }
        master.slots = slots;
    }

    fn sights(&self, state: &State) -> Vec<Vec<Sight<Job>>> {
        let own_us = self.own_clock(state);
        let sight = |slots: &Slots<Job>, key| slots.get(&key).sight(own_us);
        let sights = |slots: &Slots<Job>| KEYS.map(|key| sight(slots, key)).to_vec();
        state.masters.iter().map(|master| sights(&master.slots)).collect()
    }

    /// Whether the state can be settled. With all masters asked, nothing can depend on silent ones,
    /// unless a claim is still under way.
    pub(crate) fn can_be_settled(&self, state: &State) -> bool {
        let are_all_in = state.masters.iter().all(|master| master.version == Some(state.version()));
        let claims = |operation: &Operation| matches!(operation, Operation::Claim(_));
        let is_asked = self.sweeps > 0 || self.is_told_by_all;
        if !is_asked || !are_all_in || self.clients.iter().flatten().any(claims) {
            return true;
        }
        // By this time, everything that expires has expired.
        let counter = state.clock + if self.is_told_by_all { 100 } else { 10 };
        let ballot = Ballot { epoch: 0, counter, worker: 0 };
        let sights = self.sights(state);
        let sights = slices(&sights);
        let can = |sights: &[&[Sight<Job>]]| {
            let finding = settle(Quorum::of(MASTERS), ballot, &KEYS, KEYS.len(), sights);
            !matches!(finding, Finding::Undecided | Finding::More(_))
        };
        can(&sights) && (!self.is_told_by_any_two || sights.windows(MASTERS - 1).all(can))
    }
}

fn slices(sights: &[Vec<Sight<Job>>]) -> Vec<&[Sight<Job>]> {
    sights.iter().map(|sights| &sights[..]).collect()
}
