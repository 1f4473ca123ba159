//! Changing the expiry of a key: the `EXPIRE` family, `PERSIST`, and the extend scripts.

use crate::client::reply::Reply;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::request::{self, Form, Number};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules};
use crate::quorum::tally::{Tally, Verdict};
use crate::quorum::{Ballot, MasterSet};

/// What is changed.
#[derive(Debug)]
pub enum What {
    /// Let the key expire after so many milliseconds (as asked), under a condition (`NX`, `XX`, ...).
    Expire {
        /// As asked; at most 0 deletes the key.
        ttl_ms: i64,
        /// The words of the condition.
        conditions: Vec<&'static str>,
    },
    /// Take the TTL away.
    Persist,
    /// Let the key expire after so many milliseconds, if it holds the token.
    Extend {
        /// The holder.
        token: Box<[u8]>,
        /// As asked.
        ttl_ms: i64,
    },
}

/// The client's own words for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The expiry has been changed.
    pub changed: Reply,
    /// There was no such key, or the condition did not hold.
    pub missing: Reply,
    /// Somebody else holds it.
    pub other: Reply,
}

impl Replies {
    /// 1 for a changed key, else 0.
    pub fn counting() -> Self {
        Self { changed: Reply::Int(1), missing: Reply::Int(0), other: Reply::Int(0) }
    }
}

/// A change.
#[derive(Debug)]
pub struct Change {
    what: What,
    replies: Replies,
    tally: Option<Tally>,
    others: usize,
    missing: usize,
    trouble: Trouble,
}

impl Change {
    /// A change that nobody was asked about yet.
    pub fn new(what: What, replies: Replies) -> Self {
        Self { what, replies, tally: None, others: 0, missing: 0, trouble: Trouble::default() }
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet) {
        self.tally = Some(Tally::new(rules.quorum, asked));
    }

    pub(super) fn encode(&self, rules: &Rules, key: &[u8], form: Form, out: &mut Vec<u8>) {
        let mut ttl = Number::default();
        match &self.what {
            What::Persist => request::encode(out, &[b"PERSIST", key]),
            What::Expire { ttl_ms, conditions } => {
                let mut words: Vec<&[u8]> =
                    vec![b"PEXPIRE", key, ttl.digits(padded(rules, *ttl_ms))];
                words.extend(conditions.iter().map(|word| word.as_bytes()));
                request::encode(out, &words);
            }
            What::Extend { token, ttl_ms } => {
                let args = [&**token, ttl.digits(padded(rules, *ttl_ms))];
                request::script(out, form, Canonical::Extend, key, &args);
            }
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let ballot = self.ballot(received.answer);
        let verdict = self.tally.as_mut().and_then(|t| t.count(received.master, ballot));
        verdict.map_or(Next::WAIT, |verdict| self.decided(rules, verdict))
    }

    pub(super) fn deadline(&mut self, rules: &Rules) -> Next {
        let verdict = self.tally.as_mut().map(Tally::close);
        verdict.map_or(Next::WAIT, |verdict| self.decided(rules, verdict))
    }

    fn ballot(&mut self, answer: Option<&Answer<'_>>) -> Ballot {
        match answer {
            Some(Answer::Int(1)) => Ballot::Yes,
            Some(Answer::Int(0)) => {
                self.missing += 1;
                Ballot::No
            }
            Some(Answer::Int(-1)) => {
                self.others += 1;
                Ballot::No
            }
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                Ballot::Unknown
            }
            _ => Ballot::Unknown,
        }
    }

    /// Without a quorum a change is an error and never a guess: it may hold on a minority only.
    fn decided(&self, rules: &Rules, verdict: Verdict) -> Next {
        Next::reply(match verdict {
            Verdict::Granted => self.replies.changed.clone(),
            Verdict::Refused if self.missing > self.others => self.replies.missing.clone(),
            Verdict::Refused => self.replies.other.clone(),
            Verdict::Undecided => self.undecided(rules),
        })
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        match &self.tally {
            Some(tally) if tally.quorum_answered() => {
                self.trouble.undecided(rules, tally.answered())
            }
            tally => self.trouble.unavailable(rules, tally.as_ref().map_or(0, Tally::answered)),
        }
    }
}

/// A TTL that deletes the key is not padded: nobody holds anything after it.
fn padded(rules: &Rules, ttl_ms: i64) -> i64 {
    if ttl_ms > 0 { rules.pad.pad(ttl_ms) } else { ttl_ms }
}
