//! Memory use of a key, measured before a read that may be large.

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::request::Form;
use super::verdict::{Others, Trouble};
use super::{Next, Received, Rules, request};
use crate::client::outbox::Order;
use crate::decision::quorum::MasterSet;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// A question to all masters. The reply is an integer: the largest size reported by the time a quorum has answered.
#[derive(Debug, Default)]
pub struct Measure {
    pending: MasterSet,
    answered: MasterSet,
    /// Whether ACLs forbid the question; every key then counts as small.
    refused: bool,
    largest: i64,
    done: bool,
}

impl Measure {
    fn decided(&mut self, rules: &Rules) -> Next {
        if std::mem::replace(&mut self.done, true) {
            return Next::WAIT;
        }
        let is_known = self.refused || !self.answered.is_empty();
        Next::reply(match is_known {
            true => Reply::Int(self.largest),
            false => Trouble::default().unavailable(rules, 0, Others::of(Some(self.pending))),
        })
    }
}

impl Behaviour for Measure {
    fn order(&self) -> Order {
        Order::Read
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Read
    }

    fn is_only_a_part(&self) -> bool {
        true
    }

    fn ask(&mut self, _: On<'_>, asked: Asked, _: Instant) {
        let asked = asked.voters;
        self.pending = asked;
    }

    fn encode(&self, on: On<'_>, _: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        request::encode(out, &[b"MEMORY", b"USAGE", key]);
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let Received { master, answer, .. } = received;
        if self.done || !self.pending.contains(master) {
            return Next::WAIT;
        }
        self.pending.remove(master);
        match answer {
            Some(Answer::Int(size)) => self.largest = self.largest.max(*size),
            Some(Answer::Error(_)) => self.refused = true,
            None => {}
            Some(_) => {}
        }
        if answer.is_some() {
            self.answered.insert(master);
        }
        if self.pending.is_empty() || rules.quorum.reached_by(self.answered) {
            return self.decided(rules);
        }
        Next::WAIT
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let On { rules, .. } = on;
        let is_due = is_last || !self.answered.is_empty();
        if is_due { self.decided(rules) } else { Next::WAIT }
    }
}
