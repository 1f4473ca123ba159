//! Changing the expiry of a key, whoever holds it: the `EXPIRE` family and `PERSIST`.

use std::time::Duration;

use crate::client::reply::Reply;
use crate::clock::Instant;
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::request::{self, Form, Number};
use crate::operation::verdict::{Others, Trouble};
use crate::operation::{Next, Received, Rules, Then};
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
}

/// The client's own words for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The expiry has been changed.
    pub changed: Reply,
    /// There was no such key, or the condition did not hold.
    pub missing: Reply,
    /// Somebody else holds it (extend scripts only).
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
    replies: Box<Replies>,
    sent: Option<Sent>,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    tally: Tally,
    since: Instant,
    freshness: Duration,
    round: u8,
    /// Those that have given no answer, once it is not waited for them any more.
    others: Others,
    done: bool,
}

impl Change {
    /// A change that nobody was asked about yet.
    pub fn new(what: What, replies: Replies) -> Self {
        Self { what, replies: Box::new(replies), sent: None, trouble: Trouble::default() }
    }

    /// What is changed.
    pub(super) fn what(&self) -> &What {
        &self.what
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet, now: Instant) {
        let tally = Tally::new(rules.quorum, asked);
        if let Some(sent) = &mut self.sent {
            (sent.tally, sent.since, sent.round) = (tally, now, sent.round.wrapping_add(1));
            return;
        }
        let freshness = rules.freshness(self.what.ttl_ms());
        self.sent = Some(Sent {
            tally,
            since: now,
            freshness,
            round: 0,
            others: Others::Gone,
            done: false,
        });
    }

    pub(super) fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.round)
    }

    pub(super) fn encode(&self, rules: &Rules, key: &[u8], form: Form, out: &mut Vec<u8>) {
        let Some(sent) = &self.sent else { return };
        match &self.what {
            What::Persist => request::encode(out, &[b"PERSIST", key]),
            What::Expire { ttl_ms, conditions } => {
                // A TTL that deletes the key is not padded: nobody holds anything after it.
                let on_masters = match *ttl_ms {
                    1.. => rules.pad.pad_for(*ttl_ms, sent.freshness),
                    _ => *ttl_ms,
                };
                let mut ttl = Number::default();
                let ttl = ttl.digits(on_masters);
                if sent.round > 0 {
                    // The condition did hold. Now the end is only moved to when the client has its answer.
                    return request::script(out, form, Canonical::Prolong, key, &[ttl]);
                }
                let mut words: Vec<&[u8]> = vec![b"PEXPIRE", key, ttl];
                words.extend(conditions.iter().map(|word| word.as_bytes()));
                request::encode(out, &words);
            }
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let ballot = self.ballot(received.answer);
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        if received.round != sent.round {
            return Next::WAIT;
        }
        match sent.tally.count(received.master, ballot) {
            Some(verdict) => self.decided(rules, verdict, received.now),
            None => Next::WAIT,
        }
    }

    /// At the vote timeout nobody has decided, so who is silent would: it is waited for until the patience ends.
    pub(super) fn deadline(&mut self, rules: &Rules, now: Instant, is_last: bool) -> Next {
        let Some(sent) = self.sent.as_mut().filter(|_| is_last) else { return Next::WAIT };
        sent.others = Others::of(Some(sent.tally.pending()));
        let verdict = sent.tally.close();
        self.decided(rules, verdict, now)
    }

    fn ballot(&mut self, answer: Option<&Answer<'_>>) -> Ballot {
        match answer {
            Some(Answer::Int(0)) => Ballot::No,
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

    fn decided(&mut self, rules: &Rules, verdict: Verdict, now: Instant) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        if verdict == Verdict::Granted && sent.is_late(now) && self.what.ttl_ms() > 0 {
            sent.freshness *= 2;
            return Next::then(Then::Ask);
        }
        sent.done = verdict == Verdict::Granted;
        Next::reply(match verdict {
            Verdict::Granted => self.replies.changed.clone(),
            Verdict::Refused => self.replies.missing.clone(),
            Verdict::Undecided => self.undecided(rules),
        })
    }

    fn undecided(&self, rules: &Rules) -> Reply {
        match &self.sent {
            Some(Sent { tally, .. }) if tally.quorum_answered() => {
                self.trouble.undecided(rules, tally.answered())
            }
            Some(Sent { tally, others, .. }) => {
                self.trouble.unavailable(rules, tally.answered(), *others)
            }
            None => self.trouble.unavailable(rules, 0, Others::Gone),
        }
    }
}

impl Sent {
    /// Whether the pad does not cover it that the client has its answer now.
    fn is_late(&self, now: Instant) -> bool {
        now - self.since > self.freshness
    }
}

impl What {
    fn ttl_ms(&self) -> i64 {
        match self {
            Self::Expire { ttl_ms, .. } => *ttl_ms,
            Self::Persist => 0,
        }
    }
}
