//! `DBSIZE`: the number of keys that at least a quorum of masters has.

use super::Asked;
use super::behaviour::Behaviour;
use super::behaviour::On;
use super::request::{self, Form};
use super::verdict::{Others, Trouble};
use super::{Next, Received, Rules};
use crate::client::outbox::Order;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::lua::canonical::Canonical;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// A question that every master answers in full.
#[derive(Debug, Default)]
pub struct Everywhere {
    pending: MasterSet,
    answered: MasterSet,
    counts: Vec<i64>,
    done: bool,
    trouble: Trouble,
}

impl Everywhere {
    fn count(&mut self, master: MasterId, answer: Option<&Answer<'_>>) {
        match answer {
            Some(Answer::Int(count)) => self.counts.push(*count),
            Some(Answer::Error(error)) => return self.trouble.remember(error),
            _ => return,
        }
        self.answered.insert(master);
    }

    fn decided(&mut self, rules: &Rules) -> Next {
        self.done = true;
        if !rules.quorum.reached_by(self.answered) {
            let (answered, others) = (self.answered.len(), Others::of(Some(self.pending)));
            return Next::reply(self.trouble.unavailable(rules, answered, others));
        }
        Next::reply(Reply::Int(self.common_count(rules.quorum)))
    }

    fn common_count(&mut self, quorum: Quorum) -> i64 {
        self.counts.sort_unstable_by(|a, b| b.cmp(a));
        self.counts.get(quorum.needed() - 1).copied().unwrap_or(0)
    }
}

impl Behaviour for Everywhere {
    fn order(&self) -> Order {
        Order::Plain
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Read
    }

    fn ask(&mut self, _: On<'_>, asked: Asked, _: Instant) {
        let asked = asked.voters;
        self.pending = asked;
    }

    fn encode(&self, _: On<'_>, form: Form, out: &mut Vec<u8>) {
        request::script(out, form, Canonical::Count, b"", &[]);
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        if self.done || !self.pending.contains(received.master) {
            return Next::WAIT;
        }
        self.pending.remove(received.master);
        self.count(received.master, received.answer);
        if self.pending.is_empty() { self.decided(rules) } else { Next::WAIT }
    }

    fn deadline(&mut self, on: On<'_>, _: Instant, is_last: bool) -> Next {
        let On { rules, .. } = on;
        let is_due = is_last || rules.quorum.reached_by(self.answered);
        if self.done || !is_due { Next::WAIT } else { self.decided(rules) }
    }
}
