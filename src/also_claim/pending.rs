//! Work still to be done on the data Redis. A worker finishes it before it ends, if it can be done.

use std::cell::Cell;
use std::rc::Rc;

/// Count of unfinished work.
#[derive(Debug, Default)]
pub struct Pending {
    under_way: Cell<usize>,
    /// Whether the last attempt to reach the data Redis failed.
    is_away: Cell<bool>,
}

/// One piece of unfinished work, until this is dropped.
#[derive(Debug)]
pub struct UnderWay(Rc<Pending>);

impl Pending {
    /// Counts one more piece of work, until the guard is dropped.
    pub fn begin(self: &Rc<Self>) -> UnderWay {
        self.under_way.set(self.under_way.get() + 1);
        UnderWay(Rc::clone(self))
    }

    /// Returns how many pieces of work are unfinished.
    pub fn count(&self) -> usize {
        self.under_way.get()
    }

    /// Whether there is unfinished work that is worth waiting for.
    pub fn can_be_done(&self) -> bool {
        self.under_way.get() > 0 && !self.is_away.get()
    }

    /// Records whether the data Redis could be reached.
    pub(super) fn found(&self, is_there: bool) {
        self.is_away.set(!is_there);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_done_is_waited_for() {
        let pending = Rc::<Pending>::default();
        assert!(!pending.can_be_done());
        let (first, second) = (pending.begin(), pending.begin());
        drop(first);
        assert!(pending.can_be_done());
        pending.found(false);
        assert_eq!((pending.can_be_done(), pending.count()), (false, 1));
        pending.found(true);
        assert!(pending.can_be_done());
        drop(second);
        assert_eq!((pending.can_be_done(), pending.count()), (false, 0));
    }
}
