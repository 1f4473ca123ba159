//! Proofs: the end of each run of requests whose answers are to be votes.
//!
//! `TIME` and the mark of the database come last. A master executes the commands of a connection in order, so these two
//! replies prove all answers before them. They show that the process is the one that votes, that its memory is intact,
//! and that nobody has set its clock.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock};

use crate::catalogue::reserved::MARK;
use crate::decision::quorum::MasterId;
use crate::decision::roster::clock::ClockLook;
use crate::decision::roster::mark::{Seal, Tail};
use crate::decision::roster::term::Term;
use crate::masters::electorate::Electorate;
use crate::operation::request;
use crate::resp::answer::Answer;
use crate::resp::flat;
use crate::time::clock::{self, Instant};
use crate::time::clocks::{Timekeeping, sample};

/// The requests for a proof.
pub(super) static PROOF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut proof = Vec::new();
    request::encode(&mut proof, &[b"TIME"]);
    request::encode(&mut proof, &[b"GET", MARK.as_bytes()]);
    proof
});

/// Number of replies to those requests.
pub(super) const PROOF_REPLIES: usize = 2;

/// The verifier of one master's proofs, whichever connection they are read on.
pub(super) struct Proofs {
    master: MasterId,
    electorate: Arc<Electorate>,
    clock: RefCell<Timekeeping>,
    /// The last flush of each database that the master has shown.
    flushes: RefCell<Vec<u64>>,
    /// Number of times that it has shown a different one.
    flushed: Cell<u64>,
}

impl Proofs {
    /// Creates a verifier that has read nothing yet.
    pub(super) fn new(master: MasterId, electorate: Arc<Electorate>) -> Self {
        let (clock, flushes, flushed) = Default::default();
        Self { master, electorate, clock, flushes, flushed }
    }

    /// Returns the knowledge about all masters.
    pub(super) fn electorate(&self) -> &Electorate {
        &self.electorate
    }

    /// Returns the current time, against which a `TIME` reply is judged.
    pub(super) fn now_us(&self) -> i64 {
        self.elapsed_us(clock::now())
    }

    fn elapsed_us(&self, at: Instant) -> i64 {
        self.electorate.unix_time().elapsed_us(at)
    }

    /// Returns the clock that a `TIME` reply with these send and receive times continues, named by its start.
    pub(super) fn continued(
        &self,
        sent_us: i64,
        received: Instant,
        time: &Answer<'_>,
    ) -> Option<u64> {
        let sample = sample(sent_us, self.elapsed_us(received), micros(time)?);
        let known = &mut *self.clock.borrow_mut();
        if known.epoch != self.electorate.clock_epoch() || known.clock.is_none() {
            *known = self.electorate.clock(self.master);
        }
        let look = known.clock.as_mut()?.look(sample);
        (look == ClockLook::Continues).then_some(known.begun)
    }

    /// Whether that is the clock by which votes of this term are judged.
    fn is_clock_of(&self, term: &Term, continued: Option<u64>) -> bool {
        continued == Some(term.clock(self.master))
    }

    /// Verifies a proof by the mark in it. If it proves nothing, the master is examined at once.
    pub(super) fn check(
        &self,
        term: &Term,
        db: u32,
        mark: &Answer<'_>,
        continued: Option<u64>,
    ) -> Option<Seal> {
        let time_continues = self.is_clock_of(term, continued);
        let seal = term.proof(self.master, db)?.check_stored(stored(mark), time_continues);
        if seal.is_none() {
            self.attend();
        }
        seal
    }

    /// Like [`Proofs::check`], for the connection on which all proofs are read one after the other.
    pub(super) fn seal(
        &self,
        term: &Term,
        db: u32,
        mark: &Answer<'_>,
        continued: Option<u64>,
    ) -> Option<Seal> {
        let seal = self.check(term, db, mark, continued)?;
        Some(seal.after_flush(self.see_flush(db, stored(mark))))
    }

    /// Requests an examination of the master: one of its votes was not proved.
    pub(super) fn attend(&self) {
        self.electorate.attend(self.master);
    }

    /// Records the mark at the end of a stretch. Returns the flush after which its answers were given, which is known
    /// if the previous stretch ended with the same one. If the two differ, the database may have been flushed after
    /// those answers.
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

    /// Returns the last flush of a database that the master has shown.
    pub(super) fn last_flush(&self, db: u32) -> u64 {
        self.flushes.borrow().get(db as usize).copied().unwrap_or_default()
    }

    /// Returns how often the master has shown a different flush than before.
    pub(super) fn flushed(&self) -> u64 {
        self.flushed.get()
    }
}

/// Returns the mark in the reply to `GET`; empty if there is none.
fn stored<'a>(mark: &Answer<'a>) -> &'a [u8] {
    if let Answer::Bulk(mark) = mark { mark } else { b"" }
}

/// Returns the reply to `TIME` in microseconds.
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
    use crate::config::Settings;
    use crate::masters::electorate::MasterSight;
    use crate::masters::facts::Facts;
    use crate::masters::roster::marks::Marks;
    use crate::resp::answer::Decoder;
    use crate::time::clocks::ClockReading;

    /// Returns the verifier for the only master of a list.
    fn proofs() -> Proofs {
        let masters = vec!["127.0.0.1:6379".parse().expect("an address")];
        let settings = Settings::try_new(masters).expect("one master is enough");
        Proofs::new(MasterId::new(0), Arc::new(Electorate::of(&settings)))
    }

    /// Examines the only master twice: its clock is read again if it was set.
    fn read_clock(proofs: &Proofs, ahead_us: i64) {
        for _ in 0..2 {
            let (asked, unix_micros) = (clock::now(), proofs.now_us() + ahead_us);
            let reading = ClockReading { asked, answered: clock::now(), unix_micros };
            let (marks, facts) = (Marks::default(), Facts::for_tests());
            let sight = MasterSight { marks, facts, has_older: false, note: None };
            proofs.electorate.looked_at(proofs.master, sight, Some(reading));
        }
    }

    #[test]
    fn a_vote_that_was_asked_for_before_a_clock_was_set_does_not_continue_it() {
        let (proofs, set_by_us) = (proofs(), 12_000_000);
        let term = || Term::default().judged_by(&[proofs.electorate.clock(proofs.master).begun]);
        let continues = |term: &Term, ahead_us: i64| {
            let sent_us = proofs.now_us();
            let micros = (sent_us + ahead_us).to_string();
            let reply = format!("*2\r\n$1\r\n0\r\n${}\r\n{micros}\r\n", micros.len());
            let answer = Decoder::default().decode(reply.as_bytes());
            let (time, _) = answer.expect("RESP").expect("whole");
            proofs.is_clock_of(term, proofs.continued(sent_us, clock::now(), &time))
        };
        assert!(!continues(&term(), 0), "a clock that nobody has read");
        read_clock(&proofs, 0);
        let before = term();
        assert!(continues(&before, 0));
        assert!(!continues(&before, set_by_us), "it was set, and the look that finds it is due");
        read_clock(&proofs, set_by_us);
        assert!(!continues(&before, set_by_us), "its mark may still be the one from before");
        assert!(continues(&term(), set_by_us));
    }

    #[test]
    fn what_was_answered_before_a_flush_is_not_taken_for_what_came_after() {
        let proofs = proofs();
        let flush = |db, last| proofs.see_flush(db, format!("c 1 1 1 {db};9 {last}").as_bytes());
        assert_eq!(flush(0, 0), Some(0), "it was never flushed");
        assert_eq!(flush(0, 7), None, "the flush may have come after the answers");
        assert_eq!(flush(0, 7), Some(7));
        assert_eq!(flush(3, 7), None, "another database");
        assert_eq!(flush(0, 5), None, "another master");
        assert_eq!((proofs.last_flush(0), proofs.last_flush(3), proofs.last_flush(4)), (5, 7, 0));
        assert_eq!(proofs.see_flush(0, b"no mark"), None);
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
