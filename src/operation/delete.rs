//! Deleting a key of any type: `DEL`, `UNLINK`.
//!
//! A lease is deleted by name, so that a deletion that arrives late hits no other lease. Masters are first asked for
//! that name. They delete untagged values at once.

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
use super::{Asked, Next, Owed, Received, Rules, Then};
use crate::client::outbox::Order;
use crate::decision::lease::delete::{Sight, Step, Vote};
use crate::decision::lease::{attempt, delete as decision};
use crate::decision::quorum::{MasterId, MasterSet};
use crate::lua::LockState;
use crate::lua::canonical::Canonical;
use crate::lua::program::Tells;
use crate::metrics::QuestionKind;
use crate::resp::answer::Answer;
use crate::resp::reply::Reply;
use crate::time::clock::Instant;

/// A deletion.
#[derive(Debug, Default)]
pub struct Delete {
    sent: Option<Sent>,
    /// Masters that had no such key.
    missing: MasterSet,
    /// Masters that have deleted an untagged value.
    untagged: MasterSet,
    /// The largest remaining TTL that masters reported when they deleted the key; -1: no expiry.
    left_ms: i64,
    /// Masters on which the key is no lease.
    others: MasterSet,
    /// Masters on which the lease to delete is over, and no register has taken its place.
    ended: MasterSet,
    /// Whether the lease is deleted, but masters have yet to confirm that no register has taken its place.
    is_doubted: bool,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Delete,
    voters: MasterSet,
    since: Instant,
    shown: Shown,
}

impl Delete {
    fn next(&mut self, rules: &Rules, step: Step) -> Next {
        match step {
            Step::Wait if self.is_doubted => self.doubt(rules),
            Step::Wait => Next::WAIT,
            Step::Look => Next::then(Then::Ask),
            Step::Delete(values) if self.is_doubtful(rules, values.len()) => {
                Next::then(Then::Otherwise)
            }
            Step::Delete(values) => self.delete(values),
            Step::Deleted if self.may_be_other(rules) => self.doubt(rules),
            Step::Missing | Step::Unavailable { .. } if self.is_other() => {
                Next::then(Then::Otherwise)
            }
            Step::Deleted => Next::reply(Reply::Int(1)),
            Step::Missing => Next::reply(Reply::Int(i64::from(self.has_deleted_untagged(rules)))),
            Step::Unavailable { answered } => {
                let others = Others::of(self.sent.as_ref().map(|sent| sent.decision.pending()));
                Next::reply(self.trouble.unavailable(rules, answered, others))
            }
        }
    }

    fn is_other(&self) -> bool {
        !self.others.is_empty()
    }

    /// Whether too few masters hold the lease about to be deleted, and a register may have taken its place.
    fn is_doubtful(&self, rules: &Rules, holding: usize) -> bool {
        let is_untold = self.sent.as_ref().is_some_and(|sent| sent.shown.is_untold());
        self.is_other() && is_untold && holding < rules.quorum.needed()
    }

    /// Handles a lease that was deleted where it was found: waits for masters that can confirm that it was a lease
    /// everywhere.
    fn doubt(&mut self, rules: &Rules) -> Next {
        let may_be_other = self.may_be_other(rules);
        let pending = self.sent.as_ref().map_or(MasterSet::EMPTY, |sent| sent.decision.pending());
        self.is_doubted = may_be_other && !pending.is_empty();
        match (may_be_other, self.is_doubted) {
            (false, _) => Next::reply(Reply::Int(1)),
            (true, true) => Next::WAIT,
            (true, false) => Next::then(Then::Otherwise),
        }
    }

    /// Whether a register may have taken the place of the deleted lease.
    fn may_be_other(&self, rules: &Rules) -> bool {
        let rest = rules.quorum.everybody().without(self.ended);
        self.is_other() && rules.quorum.reached_by(rest)
    }

    fn delete(&mut self, tags: Vec<(MasterId, attempt::Tag)>) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let round = sent.decision.round();
        Next::then(Then::Tell(sent.shown.delete(tags, round, sent.voters)))
    }

    /// Whether an untagged key was there: some masters had it, and no quorum reports it missing.
    fn has_deleted_untagged(&self, rules: &Rules) -> bool {
        !self.untagged.is_empty() && !rules.quorum.reached_by(self.missing)
    }
}

impl Behaviour for Delete {
    fn order(&self) -> Order {
        Order::Closing
    }

    fn question(&self) -> QuestionKind {
        QuestionKind::Release
    }

    fn wish(&self) -> LockRequest {
        LockRequest::Delete
    }

    /// A deletion names the attempt. Without a name, it leaves tagged and stamped values alone.
    fn must_arrive(&self) -> bool {
        true
    }

    fn is_about_a_lease(&self) -> bool {
        true
    }

    fn builds_on_earlier_votes(&self) -> bool {
        true
    }

    fn forget(&mut self, masters: MasterSet) -> bool {
        let Some(sent) = &mut self.sent else { return false };
        sent.decision.forget(masters);
        // An untagged value that was deleted there has existed, and a register is read anew.
        self.missing = self.missing.without(masters);
        self.ended = self.ended.without(masters);
        true
    }

    fn instead(&self) -> Option<Instead<'_>> {
        Some(Instead::Delete)
    }

    fn ask(&mut self, on: On<'_>, asked: Asked, now: Instant) {
        let On { rules, .. } = on;
        let (at, voters) = (rules.at(now), asked.voters);
        if let Some(sent) = &mut self.sent {
            (sent.voters, sent.since) = (voters, now);
            sent.shown.look_again();
            sent.decision.ask(asked.all, at);
            return sent.decision.expect_more(asked.may_grow(rules));
        }
        let mut decision = decision::Delete::new(rules.terms(asked.patience), asked.all, at);
        decision.expect_more(asked.may_grow(rules));
        let shown = Shown::new(MasterSet::EMPTY);
        self.sent = Some(Sent { decision, voters, since: now, shown });
    }

    fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.decision.round())
    }

    /// Appends the look, which all masters get.
    fn encode(&self, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        request::script(out, form, Canonical::Delete, key, &[]);
    }

    /// Appends the request that this master received last in this round.
    fn encode_for(&self, master: MasterId, on: On<'_>, form: Form, out: &mut Vec<u8>) {
        let On { key, .. } = on;
        match self.sent.as_ref().and_then(|sent| sent.shown.told(master, self.round())) {
            Some(tag) => {
                request::script(out, form, Canonical::Delete, key, &[&attempt::header(tag)]);
            }
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
        if answer.is_none() {
            sent.decision.expect_more(true);
        }
        let answer = answer.filter(|_| sent.voters.contains(master));
        let is_other = matches!(answer, Some(Answer::Simple(STAMPED)));
        if is_other {
            self.others.insert(master);
        }
        let at = rules.at(now);
        let step = if !sent.shown.is_look(master, round) {
            if let Some(Answer::Int(left_ms @ -1..)) = answer {
                self.left_ms = longer(self.left_ms, *left_ms);
            }
            let vote = vote(answer);
            if !is_other && !matches!(vote, Vote::Raised | Vote::Unknown) {
                self.ended.insert(master);
            }
            sent.decision.vote(round, master, vote, at)
        } else {
            match answer {
                Some(Answer::Int(-2)) => self.missing.insert(master),
                Some(Answer::Int(1)) => self.untagged.insert(master),
                _ => {}
            }
            sent.decision.sight(round, master, sight(answer), at)
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

    /// Returns the debt to masters that have not deleted the lease.
    fn owed(&self, on: On<'_>) -> Option<Owed> {
        let On { rules, .. } = on;
        let sent = self.sent.as_ref()?;
        let owed = sent.decision.owed()?;
        let end = rules.end_of_release(sent.since, self.left_ms);
        Some(Owed { attempt: owed.attempt, now: owed.now, later: owed.later, end })
    }

    fn told(&self, on: On<'_>, reply: &Reply, tells: Tells) -> Vec<Message> {
        let effect =
            if *reply == Reply::Int(1) { LeaseEffect::Deleted } else { LeaseEffect::Nothing };
        Done { held: LockState::Theirs, script: None, effect }.told(on, tells)
    }

    fn has_changed(&self) -> bool {
        !self.untagged.is_empty()
            || self.sent.as_ref().is_some_and(|sent| sent.decision.owed().is_some())
    }
}

/// Converts the answer of [`Canonical::Delete`] to a look. A value that it has deleted counts as missing.
fn sight(answer: Option<&Answer<'_>>) -> Sight {
    match answer {
        Some(Answer::Bulk(tag)) => Sight::Held(held_as(tag)),
        Some(Answer::Int(-2 | 1) | Answer::Simple(STAMPED)) => Sight::Missing,
        _ => Sight::Unknown,
    }
}
