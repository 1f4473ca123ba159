//! Emptying a database.
//!
//! A flush writes "absent" to every key there is and hangs on none, so it need not learn what they hold. It only has to have
//! a place among the programs and leases. So it begins a new era: each master keeps the counter of the last flush it has
//! done, which only rises, and **nothing counts together that masters have done after different flushes**:
//!
//! * what is accepted names the flush after which its ballot was promised, and a master that has done another one refuses;
//! * what a master shows names its last flush. Of several the highest is the era, and what the others show is void, whatever
//!   ballots it has. They do that flush before they count ([`Slots::prepare`]);
//! * votes for leases count together only after the same flush.
//!
//! A quorum that has done the flush meets every quorum. So whatever is decided in an era before was so when that flush was
//! still on its way, and nothing of it is decided or told later. That is why promises need not be asked for, and ballots of
//! different eras are never compared: a promise above the flush was given in its era, and is worth nothing after that.
//!
//! A flush that fewer than a quorum have done may still happen: whoever meets it does it on the others. Its client has been
//! told an error by then, or is waiting. What became of a program of an era before is not known, unless nobody has run it.
//!
//! The counter is chosen by who flushes, above all that a quorum shows once the client has asked: a flush that was answered
//! before is lower, or this one would be done where that one was. It stays the same, however often it is sent. With a second
//! one a flush would happen twice, and take along what was written in between. Two that choose the same happen together.

use super::Program;
use super::slot::{Sight, Slots};
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::register::ballot::Ballot;

/// A request to every master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Tell the last flush.
    Look,
    /// Do this one, unless a later one is done.
    Flush(u64),
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing, until the next answer or the deadline.
    Wait,
    /// Send this to every master.
    Send(Request),
    /// A quorum has done it.
    Done,
}

/// One flush on its way through the masters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Flush {
    quorum: Quorum,
    answered: MasterSet,
    /// The highest one met.
    highest: u64,
    /// Once it is chosen.
    counter: Option<u64>,
}

impl Flush {
    /// A flush that nobody was asked for yet, and what to ask first.
    pub fn new(quorum: Quorum) -> (Self, Request) {
        let it = Self { quorum, answered: MasterSet::EMPTY, highest: 0, counter: None };
        (it, Request::Look)
    }

    /// What masters are asked now. They may do it as often as they like.
    pub fn request(&self) -> Request {
        self.counter.map_or(Request::Look, Request::Flush)
    }

    /// What to send when all are asked anew, as once another roster counts: what masters have done before they may have forgotten,
    /// and does not count together with what they answer now.
    pub fn again(&mut self) -> Request {
        self.answered = MasterSet::EMPTY;
        self.request()
    }

    /// A master has answered `request`: this is the last flush that it has done.
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

impl<P: Program> Slots<P> {
    /// The counter of the last flush.
    pub fn last_flush(&self) -> u64 {
        self.flush
    }

    /// Empties the database, leases included, unless this flush or a later one is done. Returns the last one.
    pub fn flush(&mut self, counter: u64) -> u64 {
        if self.flush < counter {
            self.keys.clear();
            self.flush = counter;
            // What is late has a reason to be told of, even where nothing was promised since.
            let begin = Ballot { counter, worker: u64::MAX, ..Ballot::NONE };
            self.floor = self.floor.max(begin);
        }
        self.flush
    }
}

/// The highest flush that masters show of the database of each key.
pub(super) fn highest<P: Program>(sights: &[&[Sight<P>]]) -> Vec<u64> {
    let keys = sights.first().map_or(0, |sights| sights.len());
    let of = |key: usize| sights.iter().map(|sights| sights[key].flush).max();
    (0..keys).map(|key| of(key).unwrap_or_default()).collect()
}

/// Those that have done all of these flushes.
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
