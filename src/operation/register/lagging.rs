//! Keys that some masters are behind on. They wait here until those masters can be reached, and are settled then.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use tokio::sync::Notify;

use super::Place;
use crate::decision::quorum::{MAX_MASTERS, MasterId, MasterSet};

/// Maximum keys remembered. Beyond it, a comparison of stamps finds the others once a master is back.
pub const MOST: usize = 10_000;

/// Keys that some masters are behind on, and a queue of them.
#[derive(Debug, Default)]
pub struct Behind {
    state: RefCell<State>,
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<Place, Entry>,
    /// Keys that no task is settling.
    queue: VecDeque<Place>,
    counts: [usize; MAX_MASTERS],
    /// Masters with keys for which there was no room.
    overflowed: MasterSet,
}

#[derive(Debug)]
struct Entry {
    masters: MasterSet,
    /// Whether it is in the queue, with no task settling it.
    is_queued: bool,
    /// Whether it was noted again while a task was settling it.
    is_noted: bool,
    /// Number of failed attempts to settle it.
    failures: u32,
}

impl Behind {
    /// Notes that these masters have missed something under `place`.
    pub fn note(&self, place: Place, masters: MasterSet) {
        if masters.is_empty() {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        let is_full = state.keys.len() >= MOST;
        match state.keys.get_mut(&place) {
            Some(entry) => {
                let more = masters.without(entry.masters);
                entry.masters = entry.masters.union(masters);
                // The task that is settling it puts it back. Two tasks would only disturb each other, and neither would
                // ever end.
                entry.is_noted = !entry.is_queued;
                state.count(more, 1);
            }
            None if is_full => {
                state.overflowed = state.overflowed.union(masters);
            }
            None => {
                state.queue.push_back(place.clone());
                let entry = Entry { masters, is_queued: true, is_noted: false, failures: 0 };
                state.keys.insert(place, entry);
                state.count(masters, 1);
            }
        }
        self.added.notify_one();
    }

    /// Takes the next key that one of the `able` masters is behind on. The key still counts until it is
    /// [`Behind::settled`].
    pub fn take(&self, able: MasterSet) -> Option<Place> {
        let state = &mut *self.state.borrow_mut();
        if state.queue.is_empty() || able.iter().all(|it| state.counts[it.index()] == 0) {
            return None;
        }
        for _ in 0..state.queue.len() {
            let place = state.queue.pop_front()?;
            match state.keys.get_mut(&place) {
                Some(entry) if !entry.masters.and(able).is_empty() => {
                    (entry.is_queued, entry.is_noted) = (false, false);
                    return Some(place);
                }
                Some(_) => state.queue.push_back(place),
                None => {}
            }
        }
        None
    }

    /// Notes that all masters hold a taken key alike, except those that are `still` behind. For them it is queued
    /// again.
    pub fn settled(&self, place: &Place, still: MasterSet) {
        let state = &mut *self.state.borrow_mut();
        let Some(entry) = state.keys.get_mut(place) else { return };
        if entry.is_queued {
            return;
        }
        if entry.is_noted {
            (entry.is_queued, entry.failures) = (true, 0);
            return state.queue.push_back(place.clone());
        }
        let (no_longer, more) = (entry.masters.without(still), still.without(entry.masters));
        (entry.masters, entry.is_queued, entry.failures) = (still, true, 0);
        match still.is_empty() {
            true => _ = state.keys.remove(place),
            false => state.queue.push_back(place.clone()),
        }
        state.count(no_longer, -1);
        state.count(more, 1);
    }

    /// Notes that a taken key could not be settled. Returns the number of failures in a row.
    pub fn failed(&self, place: &Place) -> u32 {
        let state = &mut *self.state.borrow_mut();
        state.keys.get_mut(place).map_or(0, |entry| {
            entry.failures += 1;
            entry.failures
        })
    }

    /// Queues a key again that was taken and not settled.
    pub fn put_back(&self, place: &Place) {
        let state = &mut *self.state.borrow_mut();
        let Some(entry) = state.keys.get_mut(place) else { return };
        if !std::mem::replace(&mut entry.is_queued, true) {
            state.queue.push_back(place.clone());
        }
    }

    /// Returns the number of keys that a master is known to be behind on.
    pub fn count(&self, master: MasterId) -> usize {
        self.state.borrow().counts[master.index()]
    }

    /// Takes the masters with keys for which there was no room. The next call returns only later ones.
    pub fn overflowed(&self) -> MasterSet {
        std::mem::take(&mut self.state.borrow_mut().overflowed)
    }

    /// Returns whether there is room for more keys.
    pub fn has_room(&self) -> bool {
        self.state.borrow().keys.len() < MOST
    }

    /// Returns whether any of these masters is behind on a key.
    pub fn has_any(&self, masters: MasterSet) -> bool {
        let state = self.state.borrow();
        masters.iter().any(|master| state.counts[master.index()] > 0)
    }

    /// Waits until a key was added.
    pub async fn added(&self) {
        self.added.notified().await;
    }
}

impl State {
    fn count(&mut self, masters: MasterSet, change: isize) {
        for master in masters.iter() {
            let count = &mut self.counts[master.index()];
            *count = count.saturating_add_signed(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn key(number: usize) -> Place {
        Place { db: 0, key: Bytes::from(number.to_string()) }
    }

    fn some(masters: &[usize]) -> MasterSet {
        masters.iter().map(|master| MasterId::new(*master)).collect()
    }

    #[test]
    fn a_key_waits_for_a_master_that_is_behind_on_it() {
        let behind = Behind::default();
        behind.note(key(1), some(&[2]));
        behind.note(key(1), some(&[2]));
        assert_eq!(behind.take(some(&[0, 1])), None);
        assert_eq!(behind.take(some(&[0, 2])), Some(key(1)));
        assert_eq!((behind.count(MasterId::new(2)), behind.take(some(&[2]))), (1, None));
        behind.settled(&key(1), MasterSet::EMPTY);
        assert_eq!((behind.count(MasterId::new(2)), behind.take(some(&[2]))), (0, None));
    }

    #[test]
    fn what_is_noted_while_somebody_is_at_it_comes_again() {
        let behind = Behind::default();
        behind.note(key(1), some(&[2]));
        assert_eq!(behind.take(some(&[2])), Some(key(1)));
        behind.note(key(1), some(&[1]));
        behind.settled(&key(1), MasterSet::EMPTY);
        assert_eq!(behind.take(some(&[1])), Some(key(1)));
        behind.settled(&key(1), some(&[2]));
        assert_eq!([1, 2].map(|it| behind.count(MasterId::new(it))), [0, 1]);
        assert_eq!(behind.take(some(&[2])), Some(key(1)));
    }

    #[test]
    fn a_key_that_cannot_be_settled_is_with_one_at_a_time() {
        let behind = Behind::default();
        for round in 1..4 {
            behind.note(key(1), some(&[2]));
            assert_eq!(behind.take(some(&[2])), Some(key(1)));
            behind.note(key(1), some(&[2]));
            assert_eq!((behind.failed(&key(1)), behind.take(some(&[2]))), (round, None));
            behind.put_back(&key(1));
        }
        assert_eq!((behind.take(some(&[2])), behind.take(some(&[2]))), (Some(key(1)), None));
    }

    #[test]
    fn too_many_keys_are_left_to_the_comparison() {
        let behind = Behind::default();
        (0..=MOST).for_each(|number| behind.note(key(number), some(&[0])));
        assert_eq!((behind.count(MasterId::new(0)), behind.has_room()), (MOST, false));
        assert_eq!((behind.overflowed(), behind.overflowed()), (some(&[0]), MasterSet::EMPTY));
    }
}
