//! Giving a key back: the release scripts, `DELEX key IFEQ token`, and plain `DEL`.

use crate::client::reply::Reply;
use crate::clock::Instant;
use crate::lua::canonical::Canonical;
use crate::master::deferred::Cause;
use crate::master::reply::{Answer, Nested};
use crate::operation::request::{self, Form};
use crate::operation::verdict::Trouble;
use crate::operation::{Next, Received, Rules};
use crate::quorum::release::{self as decision, Verdict, Vote};
use crate::quorum::{MasterId, MasterSet};
use redis_protocol::resp3::types::BytesFrame;

/// The client's own words for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The lock was held and is gone.
    pub deleted: Reply,
    /// There was no such key.
    pub missing: Reply,
    /// Somebody else holds it.
    pub other: Reply,
}

impl Replies {
    /// 1 for a deleted key, else 0.
    pub fn counting() -> Self {
        Self { deleted: Reply::Int(1), missing: Reply::Int(0), other: Reply::Int(0) }
    }
}

/// A release.
#[derive(Debug)]
pub struct Release {
    /// What the key must hold; `None` deletes whatever it holds.
    guard: Option<Box<[u8]>>,
    replies: Replies,
    sent: Option<Sent>,
    /// The token and the largest remaining TTL that masters reported when they deleted the key.
    deleted: Option<(Box<[u8]>, i64)>,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Release,
    since: Instant,
    held: bool,
}

impl Release {
    /// A release of the lock that `token` holds.
    pub fn guarded(token: Box<[u8]>, replies: Replies) -> Self {
        Self { guard: Some(token), ..Self::unguarded(replies) }
    }

    /// A deletion of whatever the key holds.
    pub fn unguarded(replies: Replies) -> Self {
        let trouble = Trouble::default();
        Self { guard: None, replies, sent: None, deleted: None, trouble }
    }

    pub(super) fn ask(&mut self, rules: &Rules, asked: MasterSet, now: Instant) {
        let decision = decision::Release::new(rules.quorum, asked);
        self.sent = Some(Sent { decision, since: now, held: false });
    }

    pub(super) fn encode(&self, key: &[u8], form: Form, out: &mut Vec<u8>) {
        match &self.guard {
            Some(token) => request::script(out, form, Canonical::Release, key, &[token]),
            None => request::script(out, form, Canonical::Delete, key, &[]),
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let vote = self.vote(received.answer);
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        match sent.decision.vote(received.master, vote) {
            None => Next::WAIT,
            Some(verdict) => self.decided(rules, verdict),
        }
    }

    pub(super) fn deadline(&mut self, rules: &Rules) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let verdict = sent.decision.close();
        self.decided(rules, verdict)
    }

    fn vote(&mut self, answer: Option<&Answer<'_>>) -> Vote {
        match answer {
            Some(Answer::Int(-3)) => Vote::Other,
            Some(Answer::Int(-2) | Answer::Nil) => Vote::Missing,
            Some(Answer::Int(ttl_ms)) => {
                let token = self.guard.clone();
                self.remember(token, *ttl_ms);
                Vote::Deleted
            }
            Some(Answer::Array(deleted)) => self.deleted(*deleted),
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                Vote::Unknown
            }
            _ => Vote::Unknown,
        }
    }

    fn deleted(&mut self, deleted: Nested<'_>) -> Vote {
        let parts = deleted.elements().unwrap_or_default();
        if let [
            BytesFrame::Number { data: ttl_ms, .. },
            BytesFrame::BlobString { data: value, .. },
        ] = &parts[..]
        {
            self.remember(Some(value[..].into()), *ttl_ms);
        }
        Vote::Deleted
    }

    fn remember(&mut self, token: Option<Box<[u8]>>, ttl_ms: i64) {
        let Some(token) = token else { return };
        match &mut self.deleted {
            Some((_, longest_ms)) => *longest_ms = (*longest_ms).max(ttl_ms),
            None => self.deleted = Some((token, ttl_ms)),
        }
    }

    fn decided(&mut self, rules: &Rules, verdict: Verdict) -> Next {
        if let Some(sent) = &mut self.sent {
            sent.held = verdict == Verdict::Deleted;
        }
        Next::reply(match verdict {
            Verdict::Deleted => self.replies.deleted.clone(),
            Verdict::Missing => self.replies.missing.clone(),
            Verdict::Other => self.replies.other.clone(),
            Verdict::Undecided { answered } => self.trouble.unavailable(rules, answered),
        })
    }

    /// What other masters deleted. A `DEL` of a value without TTL is not made up for later: there
    /// would be nothing to tell it from a younger lock with an equal value.
    pub(super) fn rollback(&self) -> Option<(Box<[u8]>, Cause)> {
        let since = self.sent.as_ref()?.since;
        let (token, remaining_ms) = self.deleted.clone()?;
        if self.guard.is_none() && remaining_ms < 0 {
            return None;
        }
        Some((token, Cause::Release { remaining_ms, since }))
    }

    pub(super) fn has_deleted(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.held)
    }

    /// A master that did not answer a release that was a success may still hold the lock.
    pub(super) fn leaves_behind(&self, master: MasterId) -> bool {
        let Some(sent) = &self.sent else { return false };
        sent.held && !sent.decision.settled().contains(master)
    }
}
