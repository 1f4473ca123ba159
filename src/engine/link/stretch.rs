//! Stretches: runs of requests for one database, each ended by its proof.
//!
//! A stretch is open from the first request in it whose answer may be a vote until it is about to be written, the
//! database changes, or a request of another term follows. Then `TIME` and the mark are asked for. Masters execute the
//! commands of a connection in order, so these two prove all answers before them.

use std::rc::Rc;
use std::sync::LazyLock;

use super::{Expected, Link, State};
use crate::catalogue::reserved::MARK;
use crate::decision::roster::clock::ClockLook;
use crate::decision::roster::mark::{Seal, Tail};
use crate::decision::roster::term::Term;
use crate::operation::request;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::time::clock::{self, Instant};
use crate::time::clocks::{Timekeeping, sample};

/// What a stretch ends with.
pub(in crate::engine) static PROOF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut proof = Vec::new();
    request::encode(&mut proof, &[b"TIME"]);
    request::encode(&mut proof, &[b"GET", MARK.as_bytes()]);
    proof
});

/// How many replies a proof has.
pub(in crate::engine) const PROOF_REPLIES: usize = 2;

impl Link {
    /// A request follows whose answer may be a vote in this term.
    pub(super) fn open(&self, state: &mut State, term: &Rc<Term>) {
        if state.open.as_ref().is_some_and(|open| !Rc::ptr_eq(open, term)) {
            self.close(state);
        }
        if state.open.is_none() {
            state.open = Some(Rc::clone(term));
        }
    }

    /// Ends the stretch that is open, if one is.
    pub(super) fn close(&self, state: &mut State) {
        self.end_gathering(state);
        let Some(term) = state.open.take() else { return };
        state.out.extend_from_slice(&PROOF);
        let sent_us = self.electorate.unix_time().elapsed_us(clock::now());
        state.expected.push_back(Expected::Time(sent_us));
        state.expected.push_back(Expected::Mark(term, state.db));
    }

    /// The time before a mark was read.
    pub(super) fn read_time(
        &self,
        state: &mut State,
        sent_us: i64,
        answer: &Answer<'_>,
        now: Instant,
    ) {
        let received_us = self.electorate.unix_time().elapsed_us(now);
        let master_us = micros(answer);
        state.continued =
            master_us.and_then(|it| self.continued(&mut state.clock, sent_us, received_us, it));
    }

    /// Whether what was read on a connection of its own continues the clock that votes of this term are judged by.
    pub(in crate::engine) fn continues_at(
        &self,
        term: &Term,
        sent: Instant,
        received: Instant,
        time: &Answer<'_>,
    ) -> bool {
        let elapsed = |at| self.electorate.unix_time().elapsed_us(at);
        let Some(master_us) = micros(time) else { return false };
        let clock = &mut self.state.borrow_mut().clock;
        let continued = self.continued(clock, elapsed(sent), elapsed(received), master_us);
        continued == Some(term.clock(self.master))
    }

    /// The clock that is continued by a time that was read, by when it was begun.
    fn continued(
        &self,
        known: &mut Timekeeping,
        sent_us: i64,
        received_us: i64,
        master_us: i64,
    ) -> Option<u64> {
        if known.epoch != self.electorate.clock_epoch() || known.clock.is_none() {
            *known = self.electorate.clock(self.master);
        }
        let look = known.clock.as_mut()?.look(sample(sent_us, received_us, master_us));
        (look == ClockLook::Continues).then_some(known.begun)
    }

    /// Judges a stretch by the mark behind it. One that proves nothing is looked into at once.
    pub(super) fn seal(
        &self,
        term: &Rc<Term>,
        db: u32,
        answer: &Answer<'_>,
        state: &State,
    ) -> Option<Seal> {
        let mark = if let Answer::Bulk(mark) = answer { mark } else { &b""[..] };
        let time_continues = state.continued == Some(term.clock(self.master));
        let seal = term.proof(self.master, db)?.check_stored(mark, time_continues);
        if seal.is_none() {
            self.electorate.attend(self.master);
        }
        seal.map(|seal| seal.after_flush(self.see_flush(db, mark)))
    }

    /// Sees the mark behind a stretch. Returns the flush after which its answers were given, which is known if the stretch
    /// before it ended with the same. In between the database may have been flushed behind them.
    fn see_flush(&self, db: u32, mark: &[u8]) -> Option<u64> {
        let shown = Tail::of_stored(mark)?.last_flush;
        let (mut flushes, at) = (self.flushes.borrow_mut(), db as usize);
        if flushes.len() <= at {
            flushes.resize(at + 1, 0);
        }
        let before = std::mem::replace(&mut flushes[at], shown);
        if before != shown {
            self.flushed.set(self.flushed.get() + 1);
        }
        (before == shown).then_some(shown)
    }

    /// The last flush of a database that the master has shown.
    pub fn last_flush(&self, db: u32) -> u64 {
        self.flushes.borrow().get(db as usize).copied().unwrap_or_default()
    }

    /// How often the master has shown another flush than before.
    pub fn flushed(&self) -> u64 {
        self.flushed.get()
    }
}

/// The reply to `TIME`, in microseconds.
fn micros(answer: &Answer<'_>) -> Option<i64> {
    let Answer::Array(nested) = answer else { return None };
    let mut parts = flat::elements(nested.bytes()).skip(1);
    let mut number = || std::str::from_utf8(parts.next()?.body?).ok()?.parse::<i64>().ok();
    let (seconds, micros) = (number()?, number()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masters::electorate::MasterSight;
    use crate::masters::facts::Facts;
    use crate::masters::roster::marks::Marks;
    use crate::resp::answer::Decoder;
    use crate::time::clocks::ClockReading;

    /// Looks at the only master twice. Its clock is read once more if it was set.
    fn read_clock(link: &Link, ahead_us: i64) {
        for _ in 0..2 {
            let (asked, unix_micros) = (clock::now(), micros_now(link) + ahead_us);
            let reading = ClockReading { asked, answered: clock::now(), unix_micros };
            let (marks, facts) = (Marks::default(), Facts::for_tests());
            let sight = MasterSight { marks, facts, has_older: false, note: None };
            link.electorate.looked_at(link.master, sight, Some(reading));
        }
    }

    fn micros_now(link: &Link) -> i64 {
        link.electorate.unix_time().elapsed_us(clock::now())
    }

    #[test]
    fn a_vote_that_was_asked_for_before_a_clock_was_set_does_not_continue_it() {
        let (link, set_by_us) = (Link::for_tests(), 12_000_000);
        let term = || Term::default().judged_by(&[link.electorate.clock(link.master).begun]);
        let continues = |term: &Term, ahead_us: i64| {
            let asked = clock::now();
            let micros = (micros_now(&link) + ahead_us).to_string();
            let reply = format!("*2\r\n$1\r\n0\r\n${}\r\n{micros}\r\n", micros.len());
            let answer = Decoder::default().decode(reply.as_bytes());
            let (time, _) = answer.expect("RESP").expect("whole");
            link.continues_at(term, asked, clock::now(), &time)
        };
        assert!(!continues(&term(), 0), "a clock that nobody has read");
        read_clock(&link, 0);
        let before = term();
        assert!(continues(&before, 0));
        assert!(!continues(&before, set_by_us), "it was set, and the look that finds it is due");
        read_clock(&link, set_by_us);
        assert!(!continues(&before, set_by_us), "its mark may still be the one from before");
        assert!(continues(&term(), set_by_us));
    }

    #[test]
    fn what_was_answered_before_a_flush_is_not_taken_for_what_came_after() {
        let link = Link::for_tests();
        let flush = |db, last| link.see_flush(db, format!("c 1 1 1 {db};9 {last}").as_bytes());
        assert_eq!(flush(0, 0), Some(0), "it was never flushed");
        assert_eq!(flush(0, 7), None, "the flush may have come after the answers");
        assert_eq!(flush(0, 7), Some(7));
        assert_eq!(flush(3, 7), None, "another database");
        assert_eq!(flush(0, 5), None, "another master");
        assert_eq!((link.last_flush(0), link.last_flush(3), link.last_flush(4)), (5, 7, 0));
        assert_eq!(link.see_flush(0, b"no mark"), None);
    }

    #[test]
    fn the_time_is_read_in_microseconds() {
        let read = |bytes: &[u8]| {
            let (answer, _) = Decoder::default().decode(bytes).expect("RESP").expect("whole");
            micros(&answer)
        };
        assert_eq!(read(b"*2\r\n$2\r\n17\r\n$3\r\n042\r\n"), Some(17_000_042));
        for broken in [&b"*1\r\n$2\r\n17\r\n"[..], b"+OK\r\n", b"*2\r\n$1\r\nx\r\n$1\r\n1\r\n"] {
            assert_eq!(read(broken), None);
        }
    }
}
