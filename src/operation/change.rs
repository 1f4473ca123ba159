//! Changing the expiry of a key: the `EXPIRE` family, `PERSIST`, and the extend scripts.

use crate::client::reply::Reply;
use crate::clock::Instant;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::request::{self, Form, Number};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules, Undo};
use crate::quorum::tally::{Tally, Verdict};
use crate::quorum::{Ballot, MasterId, MasterSet};

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
    sent: Option<Sent>,
    others: usize,
    missing: usize,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    tally: Tally,
    since: Instant,
    /// Masters that prolonged the key, and the remaining TTL it had there before.
    changed: Vec<(MasterId, i64)>,
    refused: bool,
    done: bool,
}

impl Change {
    /// A change that nobody was asked about yet.
    pub fn new(what: What, replies: Replies) -> Self {
        Self { what, replies, sent: None, others: 0, missing: 0, trouble: Trouble::default() }
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet, now: Instant) {
        let tally = Tally::new(rules.quorum, asked);
        self.sent =
            Some(Sent { tally, since: now, changed: Vec::new(), refused: false, done: false });
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
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        if let (Ballot::Yes, Some(Answer::Int(before_ms))) = (ballot, received.answer) {
            sent.changed.push((received.master, *before_ms));
        }
        if sent.refused {
            let late = sent.changed.iter().filter(|(master, _)| *master == received.master);
            return Next { undo: late.map(|(master, _)| *master).collect(), ..Next::WAIT };
        }
        match sent.tally.count(received.master, ballot) {
            Some(verdict) => self.decided(rules, verdict),
            None => Next::WAIT,
        }
    }

    pub(super) fn deadline(&mut self, rules: &Rules) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let verdict = sent.tally.close();
        self.decided(rules, verdict)
    }

    fn ballot(&mut self, answer: Option<&Answer<'_>>) -> Ballot {
        let extends = matches!(self.what, What::Extend { .. });
        match answer {
            Some(Answer::Int(0)) if !extends => {
                self.missing += 1;
                Ballot::No
            }
            Some(Answer::Int(-2)) => {
                self.missing += 1;
                Ballot::No
            }
            Some(Answer::Int(-3)) => {
                self.others += 1;
                Ballot::No
            }
            Some(Answer::Int(_)) => Ballot::Yes,
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                Ballot::Unknown
            }
            _ => Ballot::Unknown,
        }
    }

    /// Without a quorum a change is an error and never a guess: it may hold on a minority only.
    pub(super) fn has_changed(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.done)
    }

    fn decided(&mut self, rules: &Rules, verdict: Verdict) -> Next {
        if let Some(sent) = &mut self.sent {
            sent.done = verdict == Verdict::Granted;
        }
        let reply = match verdict {
            Verdict::Granted => self.replies.changed.clone(),
            Verdict::Refused if self.missing > self.others => self.replies.missing.clone(),
            Verdict::Refused => self.replies.other.clone(),
            Verdict::Undecided => self.undecided(rules),
        };
        let undo = if verdict == Verdict::Refused { self.take_back() } else { MasterSet::EMPTY };
        Next { undo, ..Next::reply(reply) }
    }

    /// An extension that was refused has prolonged what a minority still has of a lock that is gone
    /// elsewhere. It gets back the time it had left.
    fn take_back(&mut self) -> MasterSet {
        let Some(sent) = &mut self.sent else { return MasterSet::EMPTY };
        sent.refused = true;
        match self.what {
            What::Extend { .. } => sent.changed.iter().map(|(master, _)| *master).collect(),
            What::Expire { .. } | What::Persist => MasterSet::EMPTY,
        }
    }

    pub(super) fn encode_undo(&self, undo: &Undo, key: &[u8], form: Form, out: &mut Vec<u8>) {
        let (What::Extend { token, .. }, Some(sent)) = (&self.what, &self.sent) else { return };
        let before = sent.changed.iter().find(|(master, _)| *master == undo.master);
        let Some((_, before_ms @ 0..)) = before else { return };
        let elapsed_ms = (undo.now - sent.since).as_millis() as i64;
        let mut left = Number::default();
        let args = [&**token, left.digits((before_ms - elapsed_ms).max(1))];
        request::script(out, form, Canonical::Shorten, key, &args);
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        match &self.sent {
            Some(Sent { tally, .. }) if tally.quorum_answered() => {
                self.trouble.undecided(rules, tally.answered())
            }
            sent => {
                let answered = sent.as_ref().map_or(0, |sent| sent.tally.answered());
                self.trouble.unavailable(rules, answered)
            }
        }
    }
}

/// A TTL that deletes the key is not padded: nobody holds anything after it.
fn padded(rules: &Rules, ttl_ms: i64) -> i64 {
    if ttl_ms > 0 { rules.pad.pad(ttl_ms) } else { ttl_ms }
}
