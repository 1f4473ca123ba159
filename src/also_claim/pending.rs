//! What is still to be done on the data Redis: a worker does not end before that, if it can be done.

use std::cell::Cell;
use std::rc::Rc;

/// See the module.
#[derive(Debug, Default)]
pub struct Pending {
    under_way: Cell<usize>,
    /// The last attempt to reach the data Redis has failed.
    is_away: Cell<bool>,
}

/// One thing that is to be done, until this is dropped.
#[derive(Debug)]
pub struct UnderWay(Rc<Pending>);

impl Pending {
    /// Something is to be done from now on.
    pub fn begin(self: &Rc<Self>) -> UnderWay {
        self.under_way.set(self.under_way.get() + 1);
        UnderWay(Rc::clone(self))
    }

    /// How much is to be done.
    pub fn count(&self) -> usize {
        self.under_way.get()
    }

    /// Whether it is worth waiting for that.
    pub fn can_be_done(&self) -> bool {
        self.under_way.get() > 0 && !self.is_away.get()
    }

    /// Whether the data Redis could be reached.
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
