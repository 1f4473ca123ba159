//! Prolonging a key by its token: the extend scripts.
//!
//! Where the key would outlive the client's TTL, its end is moved forward once a quorum has agreed. The client gets its
//! reply only after a quorum has done so: no late request can then undo the client's next command.

use super::behaviour::Behaviour;
use super::behaviour::On;
use super::claim::held_as;
use super::lease_looks::STAMPED;
use super::lock_request::LockRequest;
use super::on_register::Instead;
use super::program::Message;
use super::request::{self, Form, Number};
use super::told::{Done, LeaseEffect};
use super::verdict::{Others, Trouble};
use super::{Answers, Asked, Next, Received, Rules, Then};
use crate::client::outbox::Order;
use crate::decision::lease::attempt::{self, Tag};
use crate::decision::lease::extend as decision;
use crate::decision::lease::extend::{Step, Vote};
use crate::decision::quorum::{MasterId, MasterSet, turn};
use crate::lua::canonical::Canonical;
use crate::lua::program::Tells;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The client's replies for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The expiry was changed.
    pub changed: Reply,
    /// There was no such key.
    pub missing: Reply,
    /// Another client holds it.
    pub other: Reply,
}

/// An extension.
#[derive(Debug)]
pub struct Extend {
    token: Box<[u8]>,
    /// As requested, in milliseconds.
    ttl_ms: i64,
    replies: Answers<Replies>,
    sent: Option<Box<Sent>>,
    /// Masters that hold another token.
    others: MasterSet,
    /// Masters without the key.
    missing: MasterSet,
    /// Masters on which the key is no lease.
    registers: MasterSet,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Extend,
    voters: MasterSet,
    /// The tag under which a master held the key before.
    held: Tag,
    /// Masters on which the key would outlive the client's TTL, with its tag and remaining milliseconds there.
    later: Vec<(MasterId, Tag, i64)>,
    done: bool,
}

impl Extend {
    /// Creates an extension by `ttl_ms` that has not been sent yet.
    pub fn new(token: Box<[u8]>, ttl_ms: i64, replies: Answers<Replies>) -> Self {
        let (none, trouble) = (MasterSet::EMPTY, Trouble::default());
        let (others, missing, registers) = (none, none, none);
        Self { token, ttl_ms, replies, sent: None, others, missing, registers, trouble }
    }

    fn vote(&mut self, master: MasterId, answer: Option<&Answer<'_>>) -> Vote {
        match answer {
            Some(Answer::Bulk(_) | Answer::Array(_)) => match held(answer) {
                Some((tag, None)) => Vote::Extended(tag.attempt),
                Some((tag, Some(_))) => Vote::EndsLater(tag.attempt),
                None => Vote::Unknown,
            },
            Some(Answer::Int(-2)) => {
                self.missing.insert(master);
                Vote::Refused
            }
            Some(Answer::Int(-3) | Answer::Simple(STAMPED)) => {
                self.others.insert(master);
                Vote::Refused
            }
            Some(Answer::Error(error)) => {
                self.trouble.remember(error);
                Vote::Unknown
            }
            _ => Vote::Unknown,
        }
    }

    fn next(&mut self, rules: &Rules, step: Step) -> Next {
        match step {
            Step::Wait => Next::WAIT,
            Step::Afresh => Next::then(Then::Ask),
            Step::Shorten(masters) => Next::then(Then::Tell(masters)),
            Step::Extended(_) => {
                if let Some(sent) = &mut self.sent {
                    sent.done = true;
                }
                Next::then(Then::Reply(self.replies.changed.clone(), turn::End::Granted))
            }
            Step::Refused | Step::Unavailable { .. } if !self.registers.is_empty() => {
                Next::then(Then::Otherwise)
            }
            Step::Refused if self.missing.len() > self.others.len() => {
                Next::reply(self.replies.missing.clone())
            }
            Step::Refused => Next::reply(self.replies.other.clone()),
            Step::Unavailable { answered } => {
                let others = Others::of(self.sent.as_ref().map(|sent| sent.decision.pending()));
                Next::reply(self.trouble.unavailable(rules, answered, others))
            }
        }
    }

    /// Returns what it has found and done; `None` if that is unknown.
    fn done(&self, reply: &Reply) -> Option<Done<'_>> {
        let Replies { changed, missing, other } = &*self.replies;
        let effect = (self.has_changed() && reply == changed).then_some(LeaseEffect::Prolonged);
        Done::by_reply(reply, (effect, missing, other), self.replies.script())
    }
}

impl Behaviour for Extend {
    fn order(&self) -> Order {
        Order::Closing
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Expiry
    }

    fn is_about_a_lease(&self) -> bool {
        true
    }

    fn forget(&mut self, masters: MasterSet) -> bool {
        let Some(sent) = &mut self.sent else { return false };
        sent.later.retain(|(master, ..)| !masters.contains(*master));
        self.others = self.others.without(masters);
        self.missing = self.missing.without(masters);
        sent.decision.forget(masters)
    }

    /// Returns the client's request.
    fn wish(&self) -> LockRequest {
        let (token, refused) = (self.token.clone(), self.replies.missing.clone());
        LockRequest::Extend { token, ttl_ms: self.ttl_ms, refused }
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant) {
        let On { rules, db, key } = on;
        let (at, voters) = (rules.at(now), asked.voters);
        (self.others, self.missing) = (MasterSet::EMPTY, MasterSet::EMPTY);
        if let Some(sent) = &mut self.sent {
            sent.voters = voters;
            sent.later.clear();
            sent.decision.ask(asked.all, at);
            return sent.decision.expect_more(asked.may_grow(rules));
        }
        // The lease gets a new generation from now on.
        rules.leases.take(db, key, &self.token);
        let freshness = rules.freshness(self.ttl_ms);
        let terms = rules.terms(asked.patience);
        let mut decision = decision::Extend::new(terms, freshness, asked.all, at);
        decision.expect_more(asked.may_grow(rules));
        self.sent = Some(Box::new(Sent {
            decision,
            voters,
            held: Tag::NONE,
            later: Vec::new(),
            done: false,
        }));
    }

    fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.decision.round())
    }

    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { rules, key, .. } = on;
        let Some(sent) = &self.sent else { return };
        let mut ttl = Number::default();
        let ttl = ttl.digits(rules.pad.pad_for(self.ttl_ms, sent.decision.freshness()));
        request::script(out, form, Canonical::Extend, key, &[&self.token, ttl]);
    }

    /// Appends the request for a master that must shorten the key's life.
    fn encode_for(&self, master: MasterId, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { rules, key, .. } = on;
        let Some(sent) = &self.sent else { return };
        let Some((_, tag, seen_ms)) = sent.later.iter().find(|(to, ..)| *to == master) else {
            return self.encode(on, form, out);
        };
        let ttl_ms = rules.pad.pad_for(self.ttl_ms, sent.decision.freshness());
        let value = match *tag {
            Tag::NONE => self.token.to_vec(),
            tag => attempt::encode(tag.raised(), &self.token),
        };
        request::shorten(out, form, key, &value, ttl_ms, *seen_ms);
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let Received { master, round, answer, now, .. } = received;
        if let (None, Some(sent)) = (answer, &mut self.sent) {
            sent.decision.expect_more(true);
        }
        let is_voter = self.sent.as_ref().is_some_and(|sent| sent.voters.contains(master));
        let answer = answer.filter(|_| is_voter);
        if let Some(Answer::Simple(STAMPED)) = answer {
            self.registers.insert(master);
        }
        let vote = self.vote(master, answer);
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let now = rules.at(now);
        if sent.decision.told().contains(master) {
            let is_so = matches!(answer, Some(Answer::Int(_)));
            let step = sent.decision.shortened(round, master, is_so, now);
            return self.next(rules, step);
        }
        if round == sent.decision.round()
            && let Some((tag, left_ms)) = held(answer)
        {
            sent.held = tag;
            sent.later.extend(left_ms.map(|left_ms| (master, tag, left_ms)));
        }
        let step = sent.decision.vote(round, master, vote, now);
        self.next(rules, step)
    }

    fn deadline(&mut self, on: On<'_>, now: Instant, _: bool) -> Next {
        let On { rules, .. } = on;
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        match sent.decision.tick(rules.at(now)) {
            // The silent masters could only decide about a lease.
            Step::Wait if !self.registers.is_empty() => Next::then(Then::Otherwise),
            step => self.next(rules, step),
        }
    }

    /// Returns the program to run if the key is no lease.
    fn instead(&self) -> Option<Instead<'_>> {
        self.replies.script().map(Instead::Script)
    }

    /// Handles an extension that cannot be reported to the client yet.
    fn untold(&mut self, on: On<'_>, now: Instant) -> Next {
        let On { rules, .. } = on;
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let step = sent.decision.untold(rules.at(now));
        sent.done &= step == Step::Wait;
        self.next(rules, step)
    }

    /// Returns the token, and the tag under which a quorum holds it now, as far as one master has reported.
    fn lease(&self) -> Option<(&[u8], Tag)> {
        let sent = self.sent.as_ref().filter(|sent| sent.done && sent.held != Tag::NONE)?;
        Some((&self.token, sent.held.raised()))
    }

    fn told(&self, on: On<'_>, reply: &Reply, tells: Tells) -> Vec<Message> {
        self.done(reply).map_or_else(Vec::new, |done| done.told(on, tells))
    }

    fn has_changed(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.done)
    }
}

/// Returns the tag in an answer of [`Canonical::Extend`], and the milliseconds it stays if longer than requested.
fn held(answer: Option<&Answer<'_>>) -> Option<(Tag, Option<i64>)> {
    match answer? {
        Answer::Bulk(tag) => Some((held_as(tag), None)),
        Answer::Array(later) => match &later.elements()?[..] {
            [Answer::Bulk(tag), Answer::Int(left_ms)] => Some((held_as(tag), Some(*left_ms))),
            _ => None,
        },
        _ => None,
    }
}
