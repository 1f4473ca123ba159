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

    /// The next round whose deadline has come, or else when the next one will.
    pub(super) fn due(&self, now: Instant) -> Result<(OperationId, u8), Option<Instant>> {
        let mut queue = self.queue.borrow_mut();
        let Some(&(at, id, round)) = queue.front() else { return Err(None) };
        if at > now {
            return Err(Some(at));
        }
        queue.pop_front();
        Ok((id, round))
    }
}
