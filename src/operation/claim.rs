//! Taking a key: `SET key token NX PX ttl`, `SETNX`, and the acquire scripts that libraries use.

use crate::client::reply::Reply;
use crate::clock::Instant;
use crate::lua::canonical::Canonical;
use crate::master::deferred::Cause;
use crate::master::reply::Answer;
use crate::operation::request::{self, Form, Number};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules, Then};
use crate::quorum::claim::{self as decision, Step, Vote};
use crate::quorum::{MasterId, MasterSet, turn};

/// How a key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Only if it is free.
    IfFree,
    /// If it is free (and `create` allows it), or already holds the token.
    IfFreeOrOurs {
        /// Whether a free key may be taken at all.
        create: bool,
        /// So many leading bytes make it ours; -1: all of them.
        prefix: i64,
    },
}

/// The client's own words for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The key was free and is the client's now.
    pub granted: Reply,
    /// It was the client's already and has been prolonged.
    pub owned: Reply,
    /// Somebody else holds it.
    pub held: Reply,
}

impl Replies {
    /// Those of a claim that only a free key can grant.
    pub fn new(granted: Reply, held: Reply) -> Self {
        Self { owned: granted.clone(), granted, held }
    }
}

/// A claim.
#[derive(Debug)]
pub struct Claim {
    token: Box<[u8]>,
    /// On the masters, in milliseconds.
    ttl_ms: i64,
    how: How,
    persist: bool,
    replies: Replies,
    sent: Option<Sent>,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Claim,
    since: Instant,
    /// Masters that have said that they found the key free.
    confirmed: MasterSet,
    /// Some master has found it held.
    was_refused: bool,
}

impl Claim {
    /// A claim of a key that has a TTL: `ttl_ms`, already padded, on the masters.
    pub fn new(token: Box<[u8]>, ttl_ms: i64, how: How, replies: Replies) -> Self {
        let trouble = Trouble::default();
        Self { token, ttl_ms, how, persist: false, replies, sent: None, trouble }
    }

    /// A claim of a key without TTL. It gets `provisional_ms` first and is made persistent once a
    /// quorum has it, so that a proxy that dies halfway leaves nothing that never expires.
    pub fn persistent(token: Box<[u8]>, provisional_ms: i64, replies: Replies) -> Self {
        Self { persist: true, ..Self::new(token, provisional_ms, How::IfFree, replies) }
    }

    /// Claims of equal meaning share turns; those that a held key may still grant go alone, and
    /// need no turn: they are decided in one round, in which no two of one worker can split a vote.
    pub(super) fn turn(&self) -> Option<turn::Kind> {
        (self.how == How::IfFree).then_some(turn::Kind::Claim)
    }

    /// This claim has lost together with one that got `reply`: with the same error, or refused.
    pub(super) fn shared(&self, reply: &Reply) -> Reply {
        if reply.is_error() { reply.clone() } else { self.replies.held.clone() }
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet, now: Instant) {
        let deadline = now + rules.vote_timeout;
        if let Some(sent) = &mut self.sent {
            (sent.confirmed, sent.was_refused) = (MasterSet::EMPTY, false);
            return sent.decision.ask(asked, deadline);
        }
        let retries = rules.split_vote_retries;
        let claim = decision::Claim::new(rules.quorum, asked, deadline, retries);
        let decision = if self.persist { claim.then_persist() } else { claim };
        let confirmed = MasterSet::EMPTY;
        self.sent = Some(Sent { decision, since: now, confirmed, was_refused: false });
    }

    /// Whether a key that already holds the token is granted as well.
    pub(super) fn may_be_ours(&self) -> bool {
        self.how != How::IfFree
    }

    /// Then a yes is not taken back either: the client may have asked again, here or through another
    /// proxy, and have been given what it found of its own.
    fn is_late(&self, now: Instant) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.decision.is_over(now))
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.persist
    }

    pub(super) fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.decision.round())
    }

    pub(super) fn encode(&self, key: &[u8], form: Form, out: &mut Vec<u8>) {
        if self.sent.as_ref().is_some_and(|sent| sent.decision.is_persisting()) {
            return request::script(out, form, Canonical::Persist, key, &[&self.token]);
        }
        match self.how {
            How::IfFree => request::claim(out, key, &self.token, self.ttl_ms),
            How::IfFreeOrOurs { create, prefix } => {
                let (mut ttl, mut length) = (Number::default(), Number::default());
                let create: &[u8] = if create { b"1" } else { b"0" };
                let args = [&*self.token, ttl.digits(self.ttl_ms), create, length.digits(prefix)];
                request::script(out, form, Canonical::Acquire, key, &args);
            }
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let is_late = self.may_be_ours() && self.is_late(received.now);
        let vote = if is_late { Vote::Unknown } else { self.vote(received.answer) };
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        if vote == Vote::Taken {
            sent.confirmed.insert(received.master);
        }
        sent.was_refused |= vote == Vote::Refused;
        let next = sent.decision.vote(received.round, received.master, vote, received.now);
        self.next(rules, next)
    }

    pub(super) fn deadline(&mut self, rules: &Rules) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let next = sent.decision.deadline();
        self.next(rules, next)
    }

    fn vote(&mut self, answer: Option<&Answer<'_>>) -> Vote {
        match answer {
            Some(Answer::Simple(b"OK") | Answer::Int(1)) => Vote::Taken,
            Some(Answer::Int(2)) => Vote::Owned,
            Some(Answer::Nil | Answer::Int(0)) => Vote::Refused,
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                Vote::Unknown
            }
            _ => Vote::Unknown,
        }
    }

    fn next(&self, rules: &Rules, next: decision::Next) -> Next {
        let then = match next.step {
            Step::Wait => Then::Wait,
            Step::Persist => Then::Ask,
            Step::Pause => Then::Pause,
            Step::Granted => Then::Reply(self.granted(), turn::End::Granted),
            Step::Held => Then::Reply(self.replies.held.clone(), turn::End::Lost),
            Step::Unavailable { answered } => {
                Then::Reply(self.trouble.unavailable(rules, answered), turn::End::Lost)
            }
        };
        Next { undo: next.undo, then }
    }

    fn granted(&self) -> Reply {
        let owned = self.sent.as_ref().is_some_and(|sent| sent.decision.mostly_owned());
        if owned { self.replies.owned.clone() } else { self.replies.granted.clone() }
    }

    pub(super) fn rollback(&self, master: MasterId) -> (Box<[u8]>, Cause) {
        let sent = self.sent.as_ref();
        let since = sent.map_or_else(crate::clock::now, |sent| sent.since);
        let confirmed = sent.is_some_and(|sent| sent.confirmed.contains(master));
        let persisted = self.persist && self.round() > 0;
        let cause = if persisted {
            Cause::Persisted
        } else {
            Cause::Claim { ttl_ms: self.ttl_ms, since, until: None, confirmed }
        };
        (self.token.clone(), cause)
    }

    /// A lost claim may still have been executed where no answer came from. One that may also have
    /// prolonged what was there before is left to its TTL: it cannot be told which it was.
    pub(super) fn is_lost(&self) -> bool {
        let lost = self.sent.as_ref().is_some_and(|sent| sent.decision.is_lost());
        lost && self.how == How::IfFree
    }

    /// It is decided, and some master holds the key for somebody else, whether that counts or not.
    pub(super) fn met_another(&self) -> bool {
        let decided = |sent: &Sent| sent.decision.is_granted() || sent.decision.is_lost();
        self.sent.as_ref().is_some_and(|sent| sent.was_refused && decided(sent))
    }

    pub(super) fn is_granted(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.decision.is_granted())
    }

    pub(super) fn abandon(&mut self) -> MasterSet {
        self.sent.as_mut().map_or(MasterSet::EMPTY, |sent| sent.decision.abandon())
    }
}
