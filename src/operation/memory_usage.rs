//! How much memory a key takes, before something is read that may be large.

use super::verdict::{Others, Trouble};
use super::{Next, Received, Rules, request};
use crate::decision::quorum::MasterSet;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;

/// Asks all masters; the largest size that is told until a quorum has spoken is the answer, an integer.
#[derive(Debug, Default)]
pub struct Measure {
    pending: MasterSet,
    answered: MasterSet,
    /// Where ACLs forbid to ask, every key is small.
    refused: bool,
    largest: i64,
    done: bool,
}

impl Measure {
    pub(super) fn ask(&mut self, asked: MasterSet) {
        self.pending = asked;
    }

    pub(super) fn encode(&self, key: &[u8], out: &mut Vec<u8>) {
        request::encode(out, &[b"MEMORY", b"USAGE", key]);
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
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

    pub(super) fn deadline(&mut self, rules: &Rules, is_last: bool) -> Next {
        let is_due = is_last || !self.answered.is_empty();
        if is_due { self.decided(rules) } else { Next::WAIT }
    }

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
