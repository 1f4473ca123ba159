//! Stretches: runs of requests for one database, each ended by its proof.
//!
//! A stretch is open from the first request in it whose answer may be a vote until it is about to be written, the
//! database changes, or a request of another term follows. Then `TIME` and the mark are asked for. Masters execute the
//! commands of a connection in order, so these two prove all answers before them.

use std::rc::Rc;
use std::sync::LazyLock;

use super::{Expected, Link, State};
use crate::clock::{self, Instant};
use crate::decision::roster::clock::{Clock, Look};
use crate::decision::roster::mark::Seal;
use crate::decision::roster::term::Term;
use crate::master::clocks::sample;
use crate::master::reply::Answer;
use crate::operation::request;
use crate::reserved::MARK;
use crate::resp3;

/// What a stretch ends with.
pub(in crate::master) static PROOF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut proof = Vec::new();
    request::encode(&mut proof, &[b"TIME"]);
    request::encode(&mut proof, &[b"GET", MARK.as_bytes()]);
    proof
});

/// How many replies a proof has.
pub(in crate::master) const PROOF_REPLIES: usize = 2;

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
        state.time_continues =
            master_us.is_some_and(|it| self.continues(state, sent_us, received_us, it));
    }

    /// Whether what was read on a connection of its own continues the master's clock.
    pub(in crate::master) fn continues_at(
        &self,
        sent: Instant,
        received: Instant,
        time: &Answer<'_>,
    ) -> bool {
        let elapsed = |at| self.electorate.unix_time().elapsed_us(at);
        let Some(master_us) = micros(time) else { return false };
        let state = &mut *self.state.borrow_mut();
        self.continues(state, elapsed(sent), elapsed(received), master_us)
    }

    fn continues(&self, state: &mut State, sent_us: i64, received_us: i64, master_us: i64) -> bool {
        if state.clock_epoch != self.electorate.clock_epoch() || state.clock.is_none() {
            (state.clock, state.clock_epoch) = self.electorate.clock(self.master);
        }
        let sample = sample(sent_us, received_us, master_us);
        let Some(clock) = &mut state.clock else {
            state.clock = Some(Clock::new(sample, self.electorate.drift_ppm()));
            return true;
        };
        clock.look(sample) == Look::Continues
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
        let seal = term.proof(self.master, db)?.check_stored(mark, state.time_continues);
        if seal.is_none() {
            self.electorate.attend(self.master);
        }
        seal
    }
}

/// The reply to `TIME`, in microseconds.
fn micros(answer: &Answer<'_>) -> Option<i64> {
    let Answer::Array(nested) = answer else { return None };
    let mut parts = resp3::elements(nested.bytes()).skip(1);
    let mut number = || std::str::from_utf8(parts.next()?.body?).ok()?.parse::<i64>().ok();
    let (seconds, micros) = (number()?, number()?);
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::master::reply::Decoder;

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
