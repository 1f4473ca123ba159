//! Giving a key back by its token: the release scripts, and `DELEX key IFEQ token`.

use super::behaviour::Behaviour;
use super::behaviour::On;
use super::claim::held_as;
use super::lease_looks::{STAMPED, Shown, longer, vote};
use super::lock_request::LockRequest;
use super::on_register::Instead;
use super::program::Message;
use super::request::{self, Form};
use super::told::{Done, LeaseEffect};
use super::verdict::{Others, Trouble};
use super::{Answers, Asked, Next, Owed, Received, Rules, Then};
use crate::client::outbox::Order;
use crate::decision::lease::attempt::{self, Tag};
use crate::decision::lease::release as decision;
use crate::decision::lease::release::{Sight, Step};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::lua::canonical::Canonical;
use crate::lua::program::Tells;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// The client's replies for the outcomes.
#[derive(Clone, Debug)]
pub struct Replies {
    /// The lock was held and is deleted.
    pub deleted: Reply,
    /// There was no such key.
    pub missing: Reply,
    /// Another client holds it.
    pub other: Reply,
}

impl Replies {
    /// 1 for a deleted key, else 0.
    pub const COUNTING: &Self =
        &Self { deleted: Reply::Int(1), missing: Reply::Int(0), other: Reply::Int(0) };
}

/// A release.
#[derive(Debug)]
pub struct Release {
    token: Box<[u8]>,
    replies: Answers<Replies>,
    sent: Option<Box<Sent>>,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Release,
    /// Whether this worker granted the lease, and so knew its tag.
    is_own: bool,
    voters: MasterSet,
    since: Instant,
    shown: Shown,
    /// The largest remaining TTL that masters reported when they deleted the key; -1: no expiry.
    left_ms: i64,
    /// Whether a master has deleted it.
    has_begun: bool,
    /// Masters on which the key is no lease.
    others: MasterSet,
}

impl Release {
    /// Creates a release of the lock held by `token`.
    pub fn new(token: Box<[u8]>, replies: Answers<Replies>) -> Self {
        Self { token, replies, sent: None, trouble: Trouble::default() }
    }

    fn encode_delete(&self, key: &[u8], tag: Tag, form: Form, out: &mut Vec<u8>) {
        let header = attempt::encode(tag, b"");
        request::script(out, form, Canonical::Release, key, &[&header, &self.token]);
    }

    fn next(&mut self, rules: &Rules, step: Step) -> Next {
        match step {
            Step::Wait => Next::WAIT,
            Step::Look => Next::then(Then::Ask),
            Step::Delete(deletes) if self.is_doubtful(rules, deletes.len()) => {
                Next::then(Then::Otherwise)
            }
            Step::Delete(deletes) => self.delete(deletes),
            Step::Missing | Step::Other | Step::Unavailable { .. } if self.is_other() => {
                Next::then(Then::Otherwise)
            }
            Step::Released => Next::reply(self.replies.deleted.clone()),
            Step::Missing => Next::reply(self.replies.missing.clone()),
            Step::Other => Next::reply(self.replies.other.clone()),
            Step::Unavailable { answered } => {
                let others = Others::of(self.sent.as_ref().map(|sent| sent.decision.pending()));
                Next::reply(self.trouble.unavailable(rules, answered, others))
            }
        }
    }

    fn is_other(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| !sent.others.is_empty())
    }

    /// Whether too few masters hold the lease about to be deleted, and a register may have taken its place.
    fn is_doubtful(&self, rules: &Rules, holding: usize) -> bool {
        let is_guess = |sent: &Sent| sent.shown.is_untold() && !sent.is_own;
        self.is_other()
            && self.sent.as_deref().is_some_and(is_guess)
            && holding < rules.quorum.needed()
    }

    fn delete(&mut self, deletes: Vec<(MasterId, Tag)>) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let round = sent.decision.round();
        Next::then(Then::Tell(sent.shown.delete(deletes, round, sent.voters)))
    }

    /// Returns what it has found and done; `None` if that is unknown.
    fn done(&self, reply: &Reply) -> Option<Done<'_>> {
        let Replies { deleted, missing, other } = &*self.replies;
        let effect = (self.has_changed() && reply == deleted).then_some(LeaseEffect::Deleted);
        Done::by_reply(reply, (effect, missing, other), self.replies.script())
    }
}

impl Behaviour for Release {
    fn order(&self) -> Order {
        Order::Closing
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Release
    }

    fn is_about_a_lease(&self) -> bool {
        true
    }

    fn builds_on_earlier_votes(&self) -> bool {
        true
    }

    fn forget(&mut self, masters: MasterSet) -> bool {
        self.sent.as_mut().is_some_and(|sent| {
            sent.decision.forget(masters);
            true
        })
    }

    /// Returns the client's request.
    fn wish(&self) -> LockRequest {
        LockRequest::Release { token: self.token.clone(), deleted: self.replies.deleted.clone() }
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant) {
        let On { rules, db, key } = on;
        let (at, voters) = (rules.at(now), asked.voters);
        if let Some(sent) = &mut self.sent {
            (sent.voters, sent.since) = (voters, now);
            sent.shown.look_again();
            sent.decision.ask(asked.all, at);
            return sent.decision.expect_more(asked.may_grow(rules));
        }
        let known = rules.leases.take(db, key, &self.token);
        let mut decision = match known {
            Some(tag) => decision::Release::known(rules.terms(asked.patience), tag, asked.all, at),
            None => decision::Release::new(rules.terms(asked.patience), asked.all, at),
        };
        decision.expect_more(asked.may_grow(rules));
        // A known tag needs no look.
        let shown = Shown::new(known.map_or(MasterSet::EMPTY, |_| asked.all));
        let (is_own, since) = (known.is_some(), now);
        let (left_ms, has_begun, others) = (0, false, MasterSet::EMPTY);
        let sent = Sent { decision, is_own, voters, since, shown, left_ms, has_begun, others };
        self.sent = Some(Box::new(sent));
    }

    fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.decision.round())
    }

    /// Appends the request that all masters get in this round: a delete of the known tag, or a look.
    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        let known = self.sent.as_ref().and_then(|sent| sent.decision.known_tag());
        match known {
            Some(tag) => self.encode_delete(key, tag, form, out),
            None => request::script(out, form, Canonical::Look, key, &[&self.token]),
        }
    }

    /// Appends the request that this master received last in this round.
    fn encode_for(&self, master: MasterId, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        match self.sent.as_ref().and_then(|sent| sent.shown.told(master, self.round())) {
            Some(tag) => self.encode_delete(key, tag, form, out),
            None => self.encode(on, form, out),
        }
    }

    fn received(&mut self, on: On<'_>, received: Received<'_>) -> Next {
        let On { rules, .. } = on;
        let Received { master, round, answer, now, .. } = received;
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        if let Some(Answer::Int(left_ms @ -1..)) = answer {
            sent.left_ms = longer(sent.left_ms, *left_ms);
            sent.has_begun = true;
        }
        if answer.is_none() {
            sent.decision.expect_more(true);
        }
        // Masters that may not vote receive the release again at the end.
        let answer = answer.filter(|_| sent.voters.contains(master));
        if let Some(Answer::Simple(STAMPED)) = answer {
            sent.others.insert(master);
        }
        let at = rules.at(now);
        let step = match sent.shown.is_look(master, round) {
            true => sent.decision.sight(round, master, sight(answer), at),
            false => sent.decision.vote(round, master, vote(answer), at),
        };
        self.next(rules, step)
    }

    fn deadline(&mut self, on: On<'_>, now: Instant, _: bool) -> Next {
        let On { rules, .. } = on;
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        match sent.decision.tick(rules.at(now)) {
            // The silent masters could only decide about a lease.
            Step::Wait if self.is_other() => Next::then(Then::Otherwise),
            step => self.next(rules, step),
        }
    }

    /// Whether a master has deleted its copy.
    fn has_begun(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.has_begun)
    }

    /// Returns the program to run if the key is no lease.
    fn instead(&self) -> Option<Instead<'_>> {
        Some(self.replies.script().map_or(Instead::GiveBack(&self.token), Instead::Script))
    }

    /// Returns the debt to masters that have not deleted the lease.
    fn owed(&self, on: On<'_>) -> Option<Owed> {
        let On { rules, .. } = on;
        let sent = self.sent.as_ref()?;
        let owed = sent.decision.owed().filter(|owed| owed.attempt != Tag::NONE.attempt)?;
        // The claim of a lease that this worker granted was sent earlier on the same links.
        let later = if sent.is_own { MasterSet::EMPTY } else { owed.later };
        let end = rules.end_of_release(sent.since, sent.left_ms);
        Some(Owed { attempt: owed.attempt, now: owed.now, later, end })
    }

    fn told(&self, on: On<'_>, reply: &Reply, tells: Tells) -> Vec<Message> {
        self.done(reply).map_or_else(Vec::new, |done| done.told(on, tells))
    }

    fn has_changed(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.decision.owed().is_some())
    }
}

/// Converts an answer of [`Canonical::Look`].
fn sight(answer: Option<&Answer<'_>>) -> Sight {
    match answer {
        Some(Answer::Bulk(tag)) => Sight::Held(held_as(tag)),
        Some(Answer::Int(-2)) => Sight::Missing,
        Some(Answer::Int(-3) | Answer::Simple(STAMPED)) => Sight::Other,
        _ => Sight::Unknown,
    }
}
