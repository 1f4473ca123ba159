//! What the proxies do to whole databases of a master: flushes, dropped stamps, and the copy for a master that forgot.

use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::decision::keyspace::copying::Given;
use redlock_proxy::decision::keyspace::slot::{State, lease_without};
use redlock_proxy::decision::register::ballot::Ballot;

use super::slots::{Slot, Slots, stays_from};

impl<P: Program> Slots<P> {
    /// Returns the counter of the last flush.
    pub fn last_flush(&self) -> u64 {
        self.flush
    }

    /// Empties the database, including leases, unless this flush or a later one was done. Returns the last flush.
    pub fn flush(&mut self, counter: u64) -> u64 {
        if self.flush < counter {
            self.keys.clear();
            self.flush = counter;
            // Gives a reason to refuse late requests, even if nothing was promised since.
            let begin = Ballot { counter, worker: u64::MAX, ..Ballot::NONE };
            self.floor = self.floor.max(begin);
        }
        self.flush
    }
}

impl<P: Program> Slots<P> {
    /// Returns the highest ballot of all dropped stamps.
    pub fn floor(&self) -> Ballot {
        self.floor
    }

    /// Raises the floor to that of other members, when this one is admitted: it may have taken part in what they
    /// dropped.
    pub fn raise_floor(&mut self, floor: Ballot) {
        self.floor = self.floor.max(floor);
    }

    /// Closes the state accepted under this ballot, which a quorum was seen to hold. Returns whether the master has it.
    pub fn close(&mut self, key: &P::Key, accepted: Ballot) -> bool {
        let slot = self.keys.get_mut(key).filter(|slot| slot.state.accepted == accepted);
        slot.map(|slot| slot.state.open = None).is_some()
    }

    /// Drops the stamp of a key that is [`droppable`](redlock_proxy::decision::keyspace::tombstone::droppable), with what is left of its value, unless that still stays at
    /// `own_us` on the master's own clock. Returns whether the stamp was dropped. A lease stays.
    pub fn forget(&mut self, key: &P::Key, accepted: Ballot, own_us: u64) -> bool {
        let may_go =
            |slot: &&mut Slot<P>| slot.state.accepted == accepted && slot.state.stays_us <= own_us;
        let Some(slot) = self.keys.get_mut(key).filter(may_go) else { return false };
        // The mark has room for a counter only.
        let highest = slot.promised.max(slot.end());
        self.floor = self.floor.max(Ballot { worker: u64::MAX, ..highest });
        let lease = slot.lease.take();
        match lease {
            Some(_) => *slot = Slot { lease, ..Slot::default() },
            None => drop(self.keys.remove(key)),
        }
        true
    }
}

impl<P: Program> Slot<P> {
    /// Returns the end of the value as a ballot. A reader that asks about an earlier time must not find the value
    /// absent here and present elsewhere.
    pub(super) fn end(&self) -> Ballot {
        let end_us = P::end_if_present(&self.state.value);
        Ballot { counter: end_us.unwrap_or_default(), worker: 0, ..self.promised }
    }
}
impl<P: Program> Slots<P> {
    /// Stores what was copied at `now_us`, `own_us` on this master's own clock, unless it has since accepted something
    /// newer.
    pub fn give(&mut self, key: &P::Key, given: &Given<P>, now_us: u64, own_us: u64) {
        let slot = self.of(key);
        slot.promised = slot.promised.max(given.promised);
        if slot.state.accepted < given.state.accepted || slot.state.accepted == Ballot::NONE {
            let kept = lease_without(&slot.state, slot.lease.as_ref(), &given.state).cloned();
            slot.lease = given.lease.clone().or(kept);
            slot.is_gone = !given.state.stays(now_us);
            slot.state =
                State { stays_us: stays_from(&given.state, own_us), ..given.state.clone() };
            slot.floor = Ballot::NONE;
        }
        slot.lease.take_if(|_| P::is_present(&slot.state.value) && !slot.is_gone);
        self.of(key);
    }

    /// Clears a key that has no stamp on any source. Anything this master has accepted there up to the floor came too
    /// late.
    pub fn clear_late(&mut self, key: &P::Key) {
        // The mark has room for a counter only.
        let floor = Ballot { worker: u64::MAX, ..self.floor };
        let slot = self.of(key);
        if slot.state.accepted <= floor {
            let lease = lease_without(&slot.state, slot.lease.as_ref(), &State::default()).cloned();
            *slot = Slot { lease, ..Slot::default() };
            self.of(key);
        }
    }
}
