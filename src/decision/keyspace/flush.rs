//! Emptying a database.
//!
//! A flush writes "absent" to every existing key and depends on none, so it need not learn their content. It only needs
//! a place among the programs and leases. So it begins a new era. Each master keeps the counter of the last flush it
//! has done, which only rises. **Nothing that masters have done after different flushes counts together**:
//!
//! * an accepted state names the flush after which its ballot was promised, and a master that has done another flush
//!   refuses it;
//! * a master's answer names its last flush. The highest of several is the era, and the other masters' answers are
//!   void, whatever their ballots. Those masters do that flush before they count;
//! * votes for leases count together only after the same flush.
//!
//! A quorum that has done the flush shares a master with every quorum. So everything decided in an earlier era was
//! decided while that flush was still on its way, and nothing of it is decided or reported later. That is why a flush
//! needs no promises, and ballots of different eras are never compared. A promise above the flush was given in its era,
//! and is worth nothing after that.
//!
//! A flush that fewer than a quorum have done may still happen: any worker that finds it has the others do it. By then
//! its client has received an error, or is still waiting. The fate of a program from an earlier era is unknown, unless
//! no master has run it.
//!
//! The flushing worker chooses the counter, above all those that a quorum shows after the client's request. So an
//! earlier flush that was answered is lower; otherwise this one would count as done wherever that one was done. The
//! counter stays the same however often the flush is sent. With a second counter the flush would happen twice, and
//! remove writes from in between. Two flushes that choose the same counter happen together.

use super::Program;
use super::slot::Sight;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// A request to every master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Report the last flush.
    Look,
    /// Do this flush, unless a later one was done.
    Flush(u64),
}

/// Next action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next answer or the deadline.
    Wait,
    /// Send this to every master.
    Send(Request),
    /// A quorum has done the flush.
    Done,
}

/// State of one flush in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flush {
    quorum: Quorum,
    answered: MasterSet,
    /// Highest counter seen.
    highest: u64,
    /// Counter of this flush, once it is chosen.
    counter: Option<u64>,
}

impl Flush {
    /// Creates a flush that no master has been asked for yet. Returns it with its first request.
    pub fn new(quorum: Quorum) -> (Self, Request) {
        let it = Self { quorum, answered: MasterSet::EMPTY, highest: 0, counter: None };
        (it, Request::Look)
    }

    /// Returns the current request. Masters may execute it any number of times.
    pub fn request(&self) -> Request {
        self.counter.map_or(Request::Look, Request::Flush)
    }

    /// Restarts the current round and returns its request, for example under a new roster. Masters may have forgotten
    /// what they did before, so that does not count together with their answers from now on.
    pub fn again(&mut self) -> Request {
        self.answered = MasterSet::EMPTY;
        self.request()
    }

    /// Records one master's answer to `request`: `last` is the last flush that it has done.
    pub fn answer(&mut self, request: Request, master: MasterId, last: u64, now_us: u64) -> Step {
        let is_done = self.counter.is_none_or(|counter| last >= counter);
        if request != self.request() || !is_done {
            return Step::Wait;
        }
        self.highest = self.highest.max(last);
        self.answered.insert(master);
        if !self.quorum.reached_by(self.answered) {
            return Step::Wait;
        }
        if self.counter.is_some() {
            return Step::Done;
        }
        self.counter = Some(now_us.max(self.highest.saturating_add(1)));
        self.answered = MasterSet::EMPTY;
        Step::Send(self.request())
    }
}

/// Returns, for each key, the highest flush of its database that any master shows.
pub(super) fn highest<P: Program>(sights: &[&[Sight<P>]]) -> Vec<u64> {
    let keys = sights.first().map_or(0, |sights| sights.len());
    let of = |key: usize| sights.iter().map(|sights| sights[key].flush).max();
    (0..keys).map(|key| of(key).unwrap_or_default()).collect()
}

/// Returns the sights of masters that have done all of these flushes.
pub(super) fn after<'a, P: Program>(sights: &[&'a [Sight<P>]], met: &[u64]) -> Vec<&'a [Sight<P>]> {
    let has_done =
        |sights: &&&[Sight<P>]| sights.iter().zip(met).all(|(sight, met)| sight.flush == *met);
    sights.iter().filter(has_done).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masters() -> [MasterId; 3] {
        [0, 1, 2].map(MasterId::new)
    }

    #[test]
    fn the_counter_is_above_all_that_a_quorum_shows_and_not_before_now() {
        for (shown, now_us, counter) in [([0, 0], 50, 50), ([70, 60], 50, 71), ([50, 0], 50, 51)] {
            let (mut flush, look) = Flush::new(Quorum::of(3));
            assert_eq!(flush.answer(look, masters()[0], shown[0], now_us), Step::Wait);
            let step = flush.answer(look, masters()[1], shown[1], now_us);
            assert_eq!(step, Step::Send(Request::Flush(counter)));
            assert_eq!(flush.answer(look, masters()[2], 900, now_us), Step::Wait, "it is chosen");
            assert_eq!(flush.request(), Request::Flush(counter));
        }
    }

    #[test]
    fn who_has_done_a_flush_does_not_count_with_those_that_are_asked_anew() {
        let (mut flush, look) = Flush::new(Quorum::of(3));
        masters()[..2].iter().for_each(|master| _ = flush.answer(look, *master, 0, 50));
        let request = flush.request();
        assert_eq!(flush.answer(request, masters()[2], 50, 60), Step::Wait);
        assert_eq!(flush.again(), request, "with the same counter");
        assert_eq!(flush.answer(request, masters()[0], 50, 60), Step::Wait, "it forgot");
        assert_eq!(flush.answer(request, masters()[1], 50, 60), Step::Done);
    }

    #[test]
    fn a_flush_is_done_once_a_quorum_has_done_it_or_a_later_one() {
        let (mut flush, look) = Flush::new(Quorum::of(3));
        masters()[..2].iter().for_each(|master| _ = flush.answer(look, *master, 0, 50));
        let request = flush.request();
        assert_eq!(flush.answer(request, masters()[1], 49, 60), Step::Wait, "not done");
        assert_eq!(flush.answer(request, masters()[0], 50, 60), Step::Wait);
        assert_eq!(flush.answer(request, masters()[0], 50, 60), Step::Wait, "the same master");
        assert_eq!(flush.answer(request, masters()[2], 80, 60), Step::Done);
    }
}
