//! When rounds end.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::OperationId;
use crate::clock::Instant;

/// The deadlines of all rounds. Every round has the same time, so they end in the order in which
/// they began and a queue does.
#[derive(Default)]
pub(super) struct Deadlines {
    queue: RefCell<VecDeque<(Instant, OperationId, u8)>>,
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

    /// The next round whose deadline has come.
    pub(super) fn due(&self, now: Instant) -> Option<(OperationId, u8)> {
        let mut queue = self.queue.borrow_mut();
        let (at, ..) = queue.front()?;
        if *at > now {
            return None;
        }
        queue.pop_front().map(|(_, id, round)| (id, round))
    }

    /// When the deadline of the next round comes that `is_open`; those before it are forgotten.
    pub(super) fn next(&self, is_open: impl Fn(OperationId, u8) -> bool) -> Option<Instant> {
        let mut queue = self.queue.borrow_mut();
        while let Some((at, id, round)) = queue.front() {
            if is_open(*id, *round) {
                return Some(*at);
            }
            queue.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

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
