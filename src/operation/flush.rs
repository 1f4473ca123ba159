//! `FLUSHDB` and `FLUSHALL`: the decisions of [`flush::Flush`](crate::decision::keyspace::flush) as requests and
//! replies.

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::lock_request::LockRequest;
use super::register::ask;
use super::request::Form;
use super::verdict::{Others, Trouble};
use super::{Next, Received, Rules, Then};
use crate::client::outbox::Order;
use crate::decision::keyspace::flush::{self, Request, Step};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// Databases to empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The selected database.
    One,
    /// Every database.
    All,
}

/// When a master frees the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As its settings say (`lazyfree-lazy-user-flush`).
    Usual,
    /// Before it answers.
    Sync,
    /// In the background.
    Async,
}

impl Pace {
    fn word(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Sync => "SYNC",
            Self::Async => "ASYNC",
        }
    }
}

/// A flush.
#[derive(Debug)]
pub struct Flush {
    extent: Extent,
    pace: Pace,
    flush: Option<flush::Flush>,
    request: Request,
    round: u8,
    pending: MasterSet,
    answered: MasterSet,
    /// Number of masters that refused.
    refused: usize,
    is_done: bool,
    trouble: Trouble,
}

impl Flush {
    /// Creates a flush that has not been sent yet.
    pub fn new(extent: Extent, pace: Pace) -> Self {
        Self {
            extent,
            pace,
            flush: None,
            request: Request::Look,
            round: 0,
            pending: MasterSet::EMPTY,
            answered: MasterSet::EMPTY,
            refused: 0,
            is_done: false,
            trouble: Trouble::default(),
        }
    }

    /// Gives up. If a minority has flushed, the next operation to find that completes the flush on the others.
    fn given_up(&self, rules: &Rules) -> Next {
        let (answered, others) = (self.answered.len(), Others::of(Some(self.pending)));
        Next::reply(self.trouble.unavailable(rules, answered, others))
    }

    fn hears(&mut self, rules: &Rules, master: MasterId, answer: Option<&Answer<'_>>) -> Step {
        let last = match answer {
            Some(Answer::Int(last)) => u64::try_from(*last).ok(),
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                self.refused += 1;
                None
            }
            _ => None,
        };
        let (Some(last), Some(flush)) = (last, &mut self.flush) else { return Step::Wait };
        self.answered.insert(master);
        let now_us = rules.unix_time.micros() as u64;
        let step = flush.answer(self.request, master, last, now_us);
        self.is_done |= step == Step::Done;
        step
    }
}

impl Behaviour for Flush {
    fn order(&self) -> Order {
        Order::Alone
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Program
    }

    fn wish(&self) -> LockRequest {
        LockRequest::Other
    }

    fn round(&self) -> u8 {
        self.round
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, _: Instant) {
        let On { rules, .. } = on;
        let asked = asked.voters;
        let flush = self.flush.get_or_insert_with(|| flush::Flush::new(rules.quorum).0);
        self.request = flush.again();
        self.round = self.round.wrapping_add(1);
        (self.pending, self.answered, self.refused) = (asked, MasterSet::EMPTY, 0);
    }

    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { db, .. } = on;
        let counter = match self.request {
            Request::Look => 0,
            Request::Flush(counter) => counter,
        };
        let db = Some(db).filter(|_| self.extent == Extent::One);
        ask::flush(counter, self.pace.word(), db).encode(form, out);
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let Received { master, answer, round, .. } = received;
        if round != self.round || !self.pending.contains(master) {
            return Next::WAIT;
        }
        self.pending.remove(master);
        if let Step::Send(_) = self.hears(rules, master, answer) {
            return Next::then(Then::Ask);
        }
        match (self.pending.is_empty(), self.is_done) {
            (false, _) => Next::WAIT,
            (true, true) => Next::reply(Reply::OK),
            // This client need not wait until those masters may vote.
            (true, false) if self.refused > rules.quorum.tolerates() => self.given_up(rules),
            (true, false) => Next::then(Then::Pause),
        }
    }

    /// Stops waiting for silent masters once a quorum has flushed: a silent master flushes before it votes again.
    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let On { rules, .. } = on;
        if self.is_done {
            return Next::reply(Reply::OK);
        }
        if !is_last {
            return Next::WAIT;
        }
        self.given_up(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock;

    fn ask(flush: &mut Flush, rules: &Rules) {
        flush.ask(On::for_tests(rules), Asked::for_tests(3), clock::now());
    }

    fn hear(flush: &mut Flush, rules: &Rules, master: usize, last: i64) -> Then {
        let (master, round) = (MasterId::new(master), flush.round());
        let answer = Some(&Answer::Int(last));
        flush
            .received(
                On::for_tests(rules),
                Received { master, round, answer, raw: b"", now: clock::now() },
            )
            .then
    }

    /// The first master flushes, forgets, and is admitted from two that have not.
    #[test]
    fn who_did_it_before_another_roster_counted_and_who_did_it_after_are_no_quorum() {
        let rules = Rules::for_tests();
        let mut flush = Flush::new(Extent::One, Pace::Usual);
        ask(&mut flush, &rules);
        assert!(matches!(hear(&mut flush, &rules, 0, 0), Then::Wait));
        assert!(matches!(hear(&mut flush, &rules, 1, 0), Then::Ask));
        ask(&mut flush, &rules);
        let Request::Flush(counter) = flush.request else { panic!("it was chosen") };
        let done = counter as i64;
        assert!(matches!(hear(&mut flush, &rules, 0, done), Then::Wait));
        ask(&mut flush, &rules);
        assert_eq!(flush.request, Request::Flush(counter), "nothing written since goes with it");
        assert!(matches!(hear(&mut flush, &rules, 1, done), Then::Wait));
        let is_told = |flush: &mut Flush| matches!(flush.deadline(On::for_tests(&rules), clock::now(), true).then, Then::Reply(reply, _) if reply == Reply::OK);
        assert!(!is_told(&mut flush));
        assert!(matches!(hear(&mut flush, &rules, 2, done), Then::Wait));
        assert!(is_told(&mut flush));
    }
}
