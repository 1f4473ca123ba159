//! Deleting a key, whatever it holds: `DEL`, `UNLINK`.
//!
//! A lease is deleted by name, so that a deletion which is late somewhere hits no other. The masters are asked first
//! which it is. What has no tag they delete at once.

use crate::client::reply::Reply;
use crate::clock::Instant;
use crate::decision::lease::attempt::{self, Tag};
use crate::decision::lease::delete::{self as decision, Sight, Step, Value, Vote};
use crate::lua::canonical::Canonical;
use crate::master::reply::Answer;
use crate::operation::claim::held_as;
use crate::operation::request::{self, Form};
use crate::operation::verdict::Trouble;
use crate::operation::{Asked, Next, Owed, Received, Rules, Then};
use crate::quorum::{MasterId, MasterSet};

/// A deletion.
#[derive(Debug, Default)]
pub struct Delete {
    sent: Option<Sent>,
    /// Masters that had no such key.
    missing: MasterSet,
    /// Masters that have deleted something without a tag.
    untagged: MasterSet,
    /// The largest remaining TTL that masters reported when they deleted the key.
    left_ms: i64,
    trouble: Trouble,
}

#[derive(Debug)]
struct Sent {
    decision: decision::Delete,
    voters: MasterSet,
    since: Instant,
    /// Deletes that were sent, each with its round.
    deletes: Vec<(MasterId, u8, Tag)>,
    /// Masters that have answered the look of each round.
    looked: Vec<MasterSet>,
}

impl Delete {
    pub(super) fn ask(&mut self, rules: &Rules, asked: Asked, now: Instant) {
        let (at, voters) = (rules.at(now), asked.voters);
        if let Some(sent) = &mut self.sent {
            (sent.voters, sent.since) = (voters, now);
            sent.looked.push(MasterSet::EMPTY);
            return sent.decision.ask(asked.all, at);
        }
        let decision = decision::Delete::new(rules.terms(), asked.all, at);
        let looked = vec![MasterSet::EMPTY];
        self.sent = Some(Sent { decision, voters, since: now, deletes: Vec::new(), looked });
    }

    pub(super) fn round(&self) -> u8 {
        self.sent.as_ref().map_or(0, |sent| sent.decision.round())
    }

    /// Appends the look that all masters get.
    pub(super) fn encode(&self, key: &[u8], form: Form, out: &mut Vec<u8>) {
        request::script(out, form, Canonical::Delete, key, &[]);
    }

    /// Appends what this master got last in this round.
    pub(super) fn encode_for(&self, master: MasterId, key: &[u8], form: Form, out: &mut Vec<u8>) {
        match self.sent.as_ref().and_then(|sent| sent.delete(master, self.round())) {
            Some(tag) => {
                request::script(out, form, Canonical::Delete, key, &[&attempt::header(tag)]);
            }
            None => self.encode(key, form, out),
        }
    }

    pub(super) fn received(&mut self, rules: &Rules, received: Received<'_>) -> Next {
        let Received { master, round, answer, now, .. } = received;
        if let Some(Answer::Error(error)) = answer {
            self.trouble.remember(error);
        }
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let answer = answer.filter(|_| sent.voters.contains(master));
        let at = rules.at(now);
        let step = if !sent.is_look(master, round) {
            if let Some(Answer::Int(left_ms @ -1..)) = answer {
                self.left_ms = self.left_ms.max(*left_ms);
            }
            sent.decision.vote(round, master, vote(answer), at)
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

    pub(super) fn deadline(&mut self, rules: &Rules, now: Instant) -> Next {
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let step = sent.decision.tick(rules.at(now));
        self.next(rules, step)
    }

    fn next(&mut self, rules: &Rules, step: Step) -> Next {
        match step {
            Step::Wait => Next::WAIT,
            Step::Look => Next::then(Then::Ask),
            Step::Delete(values) => self.delete(values),
            Step::Deleted => Next::reply(Reply::Int(1)),
            Step::Missing => Next::reply(Reply::Int(i64::from(self.has_deleted_untagged(rules)))),
            Step::Unavailable { answered } => {
                Next::reply(self.trouble.unavailable(rules, answered))
            }
        }
    }

    fn delete(&mut self, values: Vec<(MasterId, Value)>) -> Next {
        let round = self.round();
        let Some(sent) = &mut self.sent else { return Next::WAIT };
        let tags = values.into_iter().filter_map(|(master, value)| match value {
            Value::Tagged(tag) => Some((master, tag)),
            Value::Untagged(_) => None,
        });
        let mut tags: Vec<_> = tags.filter(|it| sent.delete(it.0, round) != Some(it.1)).collect();
        tags.extend(sent.early(&tags, round));
        let told = tags.iter().map(|(master, _)| *master).collect();
        sent.deletes.extend(tags.into_iter().map(|(master, tag)| (master, round, tag)));
        Next::then(Then::Tell(told))
    }

    /// Whether a key without a tag was there: some had it, and no quorum says that there was none.
    fn has_deleted_untagged(&self, rules: &Rules) -> bool {
        !self.untagged.is_empty() && !rules.quorum.reached_by(self.missing)
    }

    /// What masters have missed of it that have not deleted it. What has no tag is not made up for: nothing would tell it
    /// from a younger value that is equal.
    pub(super) fn owed(&self, rules: &Rules) -> Option<Owed> {
        let sent = self.sent.as_ref()?;
        let owed = sent.decision.owed()?;
        let end = rules.end_of_release(sent.since, self.left_ms);
        Some(Owed { attempt: owed.attempt, now: owed.now, later: owed.later, end })
    }

    pub(super) fn has_deleted(&self) -> bool {
        !self.untagged.is_empty()
            || self.sent.as_ref().is_some_and(|sent| sent.decision.owed().is_some())
    }
}

impl Sent {
    /// Whether this is the answer to the look of `round`, which comes before those to deletes.
    fn is_look(&mut self, master: MasterId, round: u8) -> bool {
        let Some(looked) = self.looked.get_mut(usize::from(round)) else { return false };
        let is_first = !looked.contains(master);
        looked.insert(master);
        is_first
    }

    /// Masters that have not answered the look yet get the same, so that nothing that follows this deletion comes before
    /// it there.
    fn early(&self, tags: &[(MasterId, Tag)], round: u8) -> Vec<(MasterId, Tag)> {
        let Some((_, tag)) = tags.first() else { return Vec::new() };
        let looked = self.looked.last().copied().unwrap_or_default();
        let silent = self.voters.without(looked).iter();
        silent.filter(|to| self.delete(*to, round).is_none()).map(|to| (to, *tag)).collect()
    }

    fn delete(&self, master: MasterId, round: u8) -> Option<Tag> {
        let mut deletes = self.deletes.iter().rev();
        deletes.find(|(to, of, _)| *to == master && *of == round).map(|(.., tag)| *tag)
    }
}

/// What [`Canonical::Delete`] has answered to a look. What it has deleted is not there any more.
fn sight(answer: Option<&Answer<'_>>) -> Sight {
    match answer {
        Some(Answer::Bulk(tag)) => Sight::Held(Value::Tagged(held_as(tag))),
        Some(Answer::Int(-2 | 1)) => Sight::Missing,
        _ => Sight::Unknown,
    }
}

/// What it has answered to a delete.
fn vote(answer: Option<&Answer<'_>>) -> Vote {
    match answer {
        Some(Answer::Int(-1..)) => Vote::Deleted,
        Some(Answer::Int(-2)) => Vote::Missing,
        Some(Answer::Int(-3)) => Vote::Other,
        Some(Answer::Int(-4)) => Vote::Raised,
        _ => Vote::Unknown,
    }
}
