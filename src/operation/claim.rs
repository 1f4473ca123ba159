//! Taking a key: `SET key token NX PX ttl`, `SETNX`, and the acquire scripts that libraries use.

use std::time::Duration;

use super::behaviour::Behaviour;
use super::behaviour::On;
use super::lease_looks::STAMPED;
use super::lock_request::LockRequest;
use super::on_register::Instead;
use super::program::Message;
use super::request::{self, Form, Number};
use super::told::{Done, LeaseEffect};
use super::verdict::{Others, Trouble};
use super::{Answers, Asked, Next, Received, Rules, Then};
use crate::client::outbox::Order;
use crate::decision::lease::attempt::{self, Attempt, Stored, Tag};
use crate::decision::lease::claim as decision;
use crate::decision::lease::claim::{Step, Vote};
use crate::decision::quorum::{MasterId, MasterSet, turn};
use crate::lua::LockState;
use crate::lua::canonical::Canonical;
use crate::lua::program::Tells;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// Condition under which a key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Only if it is free.
    IfFree,
    /// If it is free (and `create` allows it), or already holds the token.
    IfFreeOrOurs {
        /// Whether a free key may be taken at all.
        create: bool,
        /// Number of leading bytes that make the key ours; -1: all of them.
        prefix: i64,
    },
}

/// The client's replies for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The key was free and is now the client's.
    pub granted: Reply,
    /// The client held it already, and it has been prolonged.
    pub owned: Reply,
    /// Another client holds it.
    pub held: Reply,
}

impl Replies {
    /// Replies of `SET key token NX`.
    pub const SET: &Self = &Self { granted: Reply::OK, owned: Reply::OK, held: Reply::Nil };
    /// Replies of `SETNX`.
    pub const SETNX: &Self =
        &Self { granted: Reply::Int(1), owned: Reply::Int(1), held: Reply::Int(0) };

    /// Creates the replies of a claim that only a free key can grant.
    pub fn new(granted: Reply, held: Reply) -> Self {
        Self { owned: granted.clone(), granted, held }
    }
}

/// A claim.
#[derive(Debug)]
pub struct Claim {
    token: Box<[u8]>,
    /// As requested, in milliseconds.
    ttl_ms: i64,
    how: How,
    replies: Answers<Replies>,
    sent: Option<Box<Sent>>,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Claim,
    /// Masters whose votes count.
    voters: MasterSet,
    /// Masters on which the refusing value is no lease.
    others: MasterSet,
    /// What few claims need. Without it, the thousands that may be in flight take little of the processor's cache.
    before: Option<Box<Before>>,
}

/// What was there before the current attempt.
#[derive(Debug)]
struct Before {
    /// Attempts of earlier rounds.
    attempts: Vec<Attempt>,
    /// The tag under which a master held the client's token.
    held: Tag,
}

impl Default for Before {
    fn default() -> Self {
        Self { attempts: Vec::new(), held: Tag::NONE }
    }
}

const _: () = assert!(size_of::<Sent>() <= 192);

impl Claim {
    /// Creates a claim of a key for `ttl_ms`.
    pub fn new(token: Box<[u8]>, ttl_ms: i64, how: How, replies: Answers<Replies>) -> Self {
        let trouble = Trouble::default();
        Self { token, ttl_ms, how, replies, sent: None, trouble }
    }

    /// Converts a master's answer to a vote. `SET` answers with the previous value; the script for a key that may
    /// already be ours uses replies of our own.
    fn vote(&mut self, answer: Option<&Answer<'_>>) -> Vote {
        match (self.how, answer) {
            (How::IfFree, Some(Answer::Nil)) => Vote::Taken,
            (How::IfFree, Some(Answer::Bulk(_))) => Vote::Refused,
            (How::IfFree, Some(Answer::Error(error))) if is_of_another_type(error) => Vote::Refused,
            (How::IfFreeOrOurs { .. }, Some(Answer::Int(1))) => Vote::Taken,
            (How::IfFreeOrOurs { .. }, Some(Answer::Bulk(tag))) => {
                Vote::Owned(held_as(tag).attempt)
            }
            (How::IfFreeOrOurs { .. }, Some(Answer::Int(0) | Answer::Simple(STAMPED))) => {
                Vote::Refused
            }
            (_, Some(Answer::Error(error))) => {
                self.trouble.remember(error);
                Vote::Unknown
            }
            _ => Vote::Unknown,
        }
    }

    fn next(&mut self, rules: &Rules, next: decision::ClaimNext) -> Next {
        let is_other = self.sent.as_ref().is_some_and(|sent| !sent.others.is_empty());
        let then = match next.step {
            Step::Held | Step::Pause if is_other => Then::Otherwise,
            Step::Wait => Then::Wait,
            Step::Afresh => Then::Ask,
            Step::Pause => Then::Pause,
            Step::Granted(holder) => Then::Reply(self.granted(holder), turn::End::Granted),
            Step::Held => Then::Reply(self.replies.held.clone(), turn::End::Lost),
            Step::Unavailable { answered } => {
                let others = Others::of(self.sent.as_ref().map(|sent| sent.decision.pending()));
                let reply = self.trouble.unavailable(rules, answered, others);
                Then::Reply(reply, turn::End::Lost)
            }
        };
        Next { undo: next.take_back, then }
    }

    fn granted(&self, holder: Attempt) -> Reply {
        if self.is_new(holder) { self.replies.granted.clone() } else { self.replies.owned.clone() }
    }

    /// Whether the holder is this claim's own attempt: the key was free.
    fn is_new(&self, holder: Attempt) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.decision.attempt() == holder)
    }

    /// Returns what it has found and done; `None` if that is unknown.
    fn done(&self, reply: &Reply) -> Option<Done<'_>> {
        let holder = self.sent.as_ref().and_then(|sent| sent.decision.holder());
        let (held, effect) = match holder {
            Some(holder) if self.is_new(holder) => (LockState::Missing, LeaseEffect::Written),
            Some(_) => (LockState::Ours, LeaseEffect::Prolonged),
            None if *reply == self.replies.held => (LockState::Theirs, LeaseEffect::Nothing),
            None => return None,
        };
        Some(Done { held, script: self.replies.script(), effect })
    }
}

impl Behaviour for Claim {
    fn order(&self) -> Order {
        Order::Plain
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Claim
    }

    fn needs_its_client(&self) -> bool {
        true
    }

    fn is_about_a_lease(&self) -> bool {
        true
    }

    /// A copy made in time stays there. Without it, a lease that was granted with the vote of a member that has gone would
    /// be left with too few others.
    fn discount(&mut self, master: MasterId) -> bool {
        self.sent.as_mut().is_some_and(|sent| {
            sent.voters.remove(master);
            true
        })
    }

    /// Returns the client's request.
    fn wish(&self) -> LockRequest {
        let (token, how) = (self.token.clone(), self.how);
        let ttl_ms = Some(self.ttl_ms);
        LockRequest::Claim { token, ttl_ms, how, replies: Replies::clone(&self.replies) }
    }

    /// Claims of equal meaning share turns. Claims that a held key may still grant go alone and need no turn. One round
    /// decides them, and within it no two claims of one worker can split the vote.
    fn turn(&self) -> Option<turn::TurnKind> {
        (self.how == How::IfFree).then_some(turn::TurnKind::Claim)
    }

    fn polls_with(&self) -> Option<&[u8]> {
        (self.how == How::IfFree).then_some(&*self.token)
    }

    /// Returns the reply for a claim that lost together with one that got `reply`: the same error, or a refusal.
    fn shared(&self, reply: &Reply) -> Reply {
        if reply.is_error() { reply.clone() } else { self.replies.held.clone() }
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant) {
        let On { rules, .. } = on;
        let at = rules.at(now);
        if let Some(sent) = &mut self.sent {
            sent.before.get_or_insert_default().attempts.push(sent.decision.attempt());
            (sent.voters, sent.others) = (asked.voters, MasterSet::EMPTY);
            return sent.decision.ask(rules.leases.next_attempt(), asked.all, at);
        }
        let freshness = rules.freshness(self.ttl_ms);
        let attempt = rules.leases.next_attempt();
        let decision =
            decision::Claim::new(rules.terms(asked.patience), freshness, attempt, asked.all, at);
        let (voters, others) = (asked.voters, MasterSet::EMPTY);
        self.sent = Some(Box::new(Sent { decision, voters, others, before: None }));
    }

    fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.earlier().len() as u8)
    }

    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { rules, key, .. } = on;
        let Some(sent) = &self.sent else { return };
        let tag = sent.decision.attempt().fresh();
        let ttl_ms = rules.pad.pad_for(self.ttl_ms, sent.decision.freshness());
        match self.how {
            How::IfFree => request::claim(out, key, tag, &self.token, ttl_ms),
            How::IfFreeOrOurs { create, prefix } => {
                let (mut ttl, mut length) = (Number::default(), Number::default());
                let create: &[u8] = if create { b"1" } else { b"0" };
                let tag = attempt::header(tag);
                let (ttl, length) = (ttl.digits(ttl_ms), length.digits(prefix));
                let args = [&tag[..], &self.token, ttl, create, length];
                request::script(out, form, Canonical::Acquire, key, &args);
            }
        }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let vote = self.vote(received.answer);
        let is_current = received.round == self.round();
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        if let (Vote::Owned(_), Some(Answer::Bulk(tag))) = (vote, received.answer) {
            sent.before.get_or_insert_default().held = held_as(tag);
        }
        let is_other = is_other(self.how, received.answer);
        if is_current && is_other && sent.voters.contains(received.master) {
            sent.others.insert(received.master);
        }
        let (attempt, at) = (sent.attempt(received.round), rules.at(received.now));
        let Some(vote) = sent.counted(received.master, vote, at) else { return Next::WAIT };
        let next = sent.decision.vote(attempt, received.master, vote, at);
        self.next(rules, next)
    }

    fn deadline(&mut self, on: On<'_>, now: Instant, _: bool) -> Next {
        let On { rules, .. } = on;
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let next = sent.decision.tick(rules.at(now));
        self.next(rules, next)
    }

    /// Handles a grant that cannot be reported to the client yet.
    fn untold(&mut self, on: On<'_>, now: Instant) -> Next {
        let On { rules, .. } = on;
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let next = sent.decision.untold(rules.at(now));
        self.next(rules, next)
    }

    /// Returns the program to run if the key is no lease.
    fn instead(&self) -> Option<Instead<'_>> {
        let is_counted = matches!(self.replies.granted, Reply::Int(_));
        let take = Instead::Take { token: &self.token, ttl_ms: Some(self.ttl_ms), is_counted };
        Some(self.replies.script().map_or(take, Instead::Script))
    }

    /// Returns the token, and the tag under which a quorum holds it now, as far as known.
    fn lease(&self) -> Option<(&[u8], Tag)> {
        let sent = self.sent.as_ref().filter(|_| self.has_changed())?;
        let holder = sent.decision.holder()?;
        let held = sent.before.as_ref().map_or(Tag::NONE, |before| before.held);
        let tag = if held.attempt == holder { held.raised() } else { holder.fresh() };
        (holder != Tag::NONE.attempt).then_some((&*self.token, tag))
    }

    /// Returns the value that the claim has left in `round`, if any, and when it expires by itself.
    fn value(&self, rules: &Rules, round: u8) -> Option<(Vec<u8>, Instant)> {
        let sent = self.sent.as_ref()?;
        let value = attempt::encode(sent.attempt(round).fresh(), &self.token);
        let ttl_ms = rules.pad.pad_for(self.ttl_ms, sent.decision.freshness());
        Some((value, rules.end_of(rules.leases.moment(sent.decision.sent()), ttl_ms)))
    }

    fn told(&self, on: On<'_>, reply: &Reply, tells: Tells) -> Vec<Message> {
        self.done(reply).map_or_else(Vec::new, |done| done.told(on, tells))
    }

    fn has_changed(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.decision.holder().is_some())
    }
}

impl Sent {
    fn attempt(&self, round: u8) -> Attempt {
        let earlier = self.earlier().get(usize::from(round)).copied();
        earlier.unwrap_or_else(|| self.decision.attempt())
    }

    /// Returns the attempts of earlier rounds.
    fn earlier(&self) -> &[Attempt] {
        self.before.as_ref().map_or(&[], |before| &before.attempts)
    }

    /// Returns the vote as it counts. A master that may not vote receives the claim so that it knows of the lease; a
    /// copy made in time stays there.
    fn counted(&self, master: MasterId, vote: Vote, at: Duration) -> Option<Vote> {
        if self.voters.contains(master) {
            return Some(vote);
        }
        let is_timely = at.saturating_sub(self.decision.sent()) <= self.decision.freshness();
        let stays = is_timely && self.decision.holder().is_some() && vote != Vote::Unknown;
        (!stays).then_some(Vote::Unknown)
    }
}

/// Whether the value for which a master refused the claim is no lease.
fn is_other(how: How, answer: Option<&Answer<'_>>) -> bool {
    match (how, answer) {
        (How::IfFree, Some(Answer::Bulk(value))) => Stored::decode(value).tag.is_none(),
        (How::IfFree, Some(Answer::Error(error))) => is_of_another_type(error),
        (How::IfFreeOrOurs { .. }, Some(Answer::Simple(word))) => *word == STAMPED,
        _ => false,
    }
}

/// Whether the master's value there is not a string.
fn is_of_another_type(error: &[u8]) -> bool {
    error.starts_with(b"WRONGTYPE")
}

/// Returns the tag under which a master says that it holds a token.
pub(super) fn held_as(tag: &[u8]) -> Tag {
    Stored::decode(tag).tag.unwrap_or(Tag::NONE)
}
