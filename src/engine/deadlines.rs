//! Deadlines of rounds.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use super::flight::OperationId;
use crate::time::clock::Instant;

/// The deadlines of all rounds. Every round has the same duration, so they end in the order in which they began, and a
/// queue suffices. The few rounds still waiting for a quorum have a separate deadline each.
#[derive(Default)]
pub(super) struct Deadlines {
    queue: RefCell<VecDeque<(Instant, OperationId, u8)>>,
    last: RefCell<BTreeMap<(Instant, u32, u32), u8>>,
    pub(super) set: tokio::sync::Notify,
}

impl Deadlines {
    pub(super) fn push(&self, at: Instant, id: OperationId, round: u8) {
        let mut queue = self.queue.borrow_mut();
        if queue.is_empty() {
            self.set.notify_one();
        }
        queue.push_back((at, id, round));
    }

    /// Adds the end of the client's patience as a deadline of this round.
    pub(super) fn push_last(&self, at: Instant, id: OperationId, round: u8) {
        self.last.borrow_mut().insert((at, id.slot, id.serial), round);
        self.set.notify_one();
    }

    /// Returns the next round whose deadline has come.
    pub(super) fn due(&self, now: Instant) -> Option<(OperationId, u8)> {
        self.due_first(now).or_else(|| self.due_last(now))
    }

    fn due_last(&self, now: Instant) -> Option<(OperationId, u8)> {
        let mut last = self.last.borrow_mut();
        let entry = last.first_entry().filter(|entry| entry.key().0 <= now)?;
        let ((_, slot, serial), round) = entry.remove_entry();
        Some((OperationId { slot, serial }, round))
    }

    fn due_first(&self, now: Instant) -> Option<(OperationId, u8)> {
        let mut queue = self.queue.borrow_mut();
        let (at, ..) = queue.front()?;
        if *at > now {
            return None;
        }
        queue.pop_front().map(|(_, id, round)| (id, round))
    }

    /// Returns the next deadline of a round that `is_open`; earlier ones are forgotten.
    pub(super) fn next(&self, is_open: impl Fn(OperationId, u8) -> bool) -> Option<Instant> {
        let last = self.last.borrow().keys().next().map(|(at, ..)| *at);
        let mut queue = self.queue.borrow_mut();
        while let Some((at, id, round)) = queue.front() {
            if is_open(*id, *round) {
                return Some(last.map_or(*at, |last| last.min(*at)));
            }
            queue.pop_front();
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::clock;

    #[test]
    fn what_waits_for_a_quorum_has_a_deadline_of_its_own() {
        let (deadlines, now) = (Deadlines::default(), clock::now());
        let id = |slot| OperationId { slot, serial: 0 };
        let at = |slot: u32| now + Duration::from_millis(u64::from(slot));
        deadlines.push_last(at(9), id(9), 1);
        deadlines.push_last(at(5), id(5), 1);
        deadlines.push(at(7), id(7), 0);
        assert_eq!(deadlines.next(|_, _| true), Some(at(5)));
        assert_eq!(deadlines.next(|_, _| false), Some(at(5)));
        assert_eq!((deadlines.due(at(4)), deadlines.due(at(5))), (None, Some((id(5), 1))));
        assert_eq!((deadlines.due(at(8)), deadlines.next(|_, _| true)), (None, Some(at(9))));
    }

    #[test]
    fn rounds_that_are_decided_wake_nobody() {
        let (deadlines, now) = (Deadlines::default(), clock::now());
        let id = |slot| OperationId { slot, serial: 0 };
        let at = |slot: u32| now + Duration::from_millis(u64::from(slot));
        (1..=3).for_each(|slot| deadlines.push(at(slot), id(slot), 7));
        assert_eq!(deadlines.next(|id, round| (id.slot, round) == (2, 7)), Some(at(2)));
        assert_eq!(deadlines.due(at(1)), None, "it is forgotten");
        assert_eq!(deadlines.due(at(2)), Some((id(2), 7)));
        assert_eq!(deadlines.due(at(2)), None, "the next one is not due");
        assert_eq!(deadlines.next(|_, _| false), None);
    }
}
