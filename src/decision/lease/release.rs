//! Releasing a lease: first finding its attempt, then deleting that attempt and nothing else.
//!
//! A delete that compares only the token and arrives late on one master can hit a later lease with the same token
//! there. So a release names the attempt. The worker that granted the lease knows it, which takes one round trip. Other
//! workers ask the masters first.
//!
//! ```text
//!                 one attempt may have a quorum
//!  new() Looking ------------------------------> Deleting known()
//!           ^  |                                  |  |  |
//!           |  +-- none --> Missing, Other <------+  |  +--> Released
//!           +-------------- prolonged meanwhile -----+
//! ```
//!
//! Each master deletes exactly the value it showed. The claim may not have reached a master that shows nothing. Such a
//! master does not stand in for a silent one: both together could confirm the attempt again. A success means that too
//! few masters can hold the attempt for it to be confirmed again. Only then is it deleted on the others, whatever its
//! generation.
//!
//! One release ends one lease at most. Every copy that it has deleted, or may have, makes room for the next claim,
//! perhaps with an equal token. So a lease found after that is not the one the client gives back. Only a quorum that
//! showed another attempt when asked to delete proves that another one is meant.

use std::time::Duration;

use super::attempt::{Attempt, Tag};
use super::claim::Terms;
use super::holders::Holders;
use crate::decision::quorum::{MasterId, MasterSet};

/// One master's view of the key under the client's token. An answer without its proof is [`Sight::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// The key holds the token, with this tag.
    Held(Tag),
    /// The key holds another token.
    Other,
    /// The key does not exist.
    Missing,
    /// No trustworthy answer, now or later.
    Unknown,
}

/// One master's answer to a delete. An answer without its proof is [`Vote::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key held the value and is gone.
    Deleted,
    /// The key holds the attempt, which has been extended.
    Raised,
    /// The key holds another attempt with the client's token.
    Another,
    /// The key holds another attempt.
    Other,
    /// The key does not exist.
    Missing,
    /// No trustworthy answer, now or later.
    Unknown,
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next answer or the deadline.
    Wait,
    /// Look on all masters again, and call [`Release::ask`].
    Look,
    /// Delete exactly these values.
    Delete(Vec<(MasterId, Tag)>),
    /// The lease was held and is released. [`Release::owed`] returns the remaining work.
    Released,
    /// There was no lease.
    Missing,
    /// Somebody else holds the lease.
    Other,
    /// Too few masters answered in time: the outcome is unknown.
    Unavailable {
        /// Number of masters that answered.
        answered: usize,
    },
}

/// Deletions to deliver to masters that missed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwedReleases {
    /// Attempt to delete, whatever its generation.
    pub attempt: Attempt,
    /// Masters that gave no answer: deliver at once, and retry until it arrives.
    pub now: MasterSet,
    /// Masters that its claim may still reach: deliver once a freshness has passed. The worker that sent the claim need
    /// not, because its immediate delivery executes after the claim.
    pub later: MasterSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Looking,
    Deleting(Attempt),
    Released(Attempt),
    Done,
}

/// State of one release in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    terms: Terms,
    phase: Phase,
    /// Time of the client's request.
    began: Duration,
    /// Time at which the current round was sent.
    sent: Duration,
    /// Number of the round, which distinguishes late sights from current ones.
    round: u8,
    known: Option<Tag>,
    /// Attempt that earlier rounds have deleted, or may have: no other one is released.
    earlier: Option<Attempt>,
    /// First round that deleted `earlier`.
    since: u8,
    pending: MasterSet,
    /// Masters that no claim of the attempt can reach any more.
    reached: MasterSet,
    tags: Vec<(MasterId, Tag)>,
    holders: Holders,
    deleted: MasterSet,
    raised: MasterSet,
    another: MasterSet,
    missing: MasterSet,
    other: MasterSet,
    /// Masters that were asked to delete and gave no trustworthy answer.
    unknown: MasterSet,
    /// Whether another look may show more, see [`Release::expect_more`].
    may_get_more: bool,
}

impl Release {
    /// Creates a release by token. A look was sent to `asked`.
    pub fn new(terms: Terms, asked: MasterSet, now: Duration) -> Self {
        Self::with(terms, None, asked, now)
    }

    /// Creates a release of a lease that this worker granted. A delete of `tag` was sent to `asked`.
    pub fn known(terms: Terms, tag: Tag, asked: MasterSet, now: Duration) -> Self {
        Self::with(terms, Some(tag), asked, now)
    }

    fn with(terms: Terms, known: Option<Tag>, asked: MasterSet, now: Duration) -> Self {
        let none = MasterSet::EMPTY;
        Self {
            terms,
            phase: known.map_or(Phase::Looking, |tag| Phase::Deleting(tag.attempt)),
            known,
            earlier: None,
            since: 0,
            began: now,
            sent: now,
            round: 0,
            pending: asked,
            reached: if known.is_some() { terms.quorum.everybody() } else { none },
            tags: Vec::new(),
            holders: Holders::default(),
            deleted: none,
            raised: none,
            another: none,
            missing: none,
            other: none,
            unknown: none,
            may_get_more: false,
        }
    }

    /// Starts another look, which was sent to `asked`. Earlier deletions of the same attempt still count.
    pub fn ask(&mut self, asked: MasterSet, now: Duration) {
        let Self { began, round, deleted, reached, .. } = *self;
        let looking = Self::new(self.terms, asked, now);
        if self.is_of_another() {
            *self = Self { began, round, ..looking };
            return;
        }
        let earlier = self.attempt();
        let since = if earlier == self.earlier { self.since } else { round.saturating_sub(1) };
        *self = Self { began, round, deleted, reached, earlier, since, ..looking };
    }

    /// Records whether another look may get more answers: members have yet to vote, or a link was lost, or an answer did
    /// not count.
    pub fn expect_more(&mut self, may_get_more: bool) {
        self.may_get_more = may_get_more;
    }

    /// Returns the masters that owe an answer.
    pub fn pending(&self) -> MasterSet {
        self.pending
    }

    /// Returns the round that answers must name to be current.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// Returns the known tag until another round begins.
    pub fn known_tag(&self) -> Option<Tag> {
        self.known
    }

    /// Returns the attempt to release, once it is known.
    pub fn attempt(&self) -> Option<Attempt> {
        match self.phase {
            Phase::Deleting(attempt) | Phase::Released(attempt) => Some(attempt),
            Phase::Looking | Phase::Done => None,
        }
    }

    /// Returns the time at which to call [`Release::tick`] unless answers decide earlier.
    pub fn deadline(&self) -> Option<Duration> {
        let patience = self.began + self.terms.patience;
        let is_due_soon = match self.phase {
            Phase::Looking => self.terms.quorum.reached_by(self.seen()),
            Phase::Deleting(_) => {
                let is_raised = !self.raised.is_empty();
                !self.deleted.is_empty() && self.is_certain()
                    || is_raised && self.terms.quorum.reached_by(self.answered())
            }
            Phase::Released(_) | Phase::Done => return None,
        };
        let is_due_soon = is_due_soon || self.is_resting();
        Some(if is_due_soon { patience.min(self.sent + self.terms.vote_timeout) } else { patience })
    }

    /// Records one master's answer to a look of `round`.
    pub fn sight(&mut self, round: u8, master: MasterId, sight: Sight, now: Duration) -> Step {
        if round != self.round || !self.pending.contains(master) {
            return Step::Wait;
        }
        match sight {
            Sight::Held(tag) => return self.held(master, tag, now),
            Sight::Other => self.other.insert(master),
            Sight::Missing => self.missing.insert(master),
            Sight::Unknown => {}
        }
        self.pending.remove(master);
        self.decide(now)
    }

    /// Records one master's answer to a delete of `round`. A deletion of the same attempt in an earlier round counts as
    /// well.
    pub fn vote(&mut self, round: u8, master: MasterId, vote: Vote, now: Duration) -> Step {
        let is_current = round == self.round && self.pending.contains(master);
        let is_earlier = (self.since..self.round).contains(&round) && self.goes_on();
        if !(is_current || is_earlier && vote == Vote::Deleted) {
            return Step::Wait;
        }
        if is_current {
            self.pending.remove(master);
        }
        match vote {
            Vote::Deleted => self.deleted.insert(master),
            Vote::Raised => self.raised.insert(master),
            Vote::Another => self.another.insert(master),
            Vote::Other => self.other.insert(master),
            Vote::Missing => self.missing.insert(master),
            Vote::Unknown => self.unknown.insert(master),
        }
        self.decide(now)
    }

    /// Forgets the answers of masters that went out of the cluster after them, as if these had never been given.
    pub fn forget(&mut self, masters: MasterSet) {
        let answered = self.answered().union(self.holders.all()).without(self.pending);
        self.unknown = self.unknown.union(answered.without(answered.without(masters)));
        let sets = [
            &mut self.deleted,
            &mut self.raised,
            &mut self.another,
            &mut self.missing,
            &mut self.other,
        ];
        for set in sets {
            *set = set.without(masters);
        }
        self.holders.forget(masters);
        self.tags.retain(|(master, _)| !masters.contains(*master));
        self.may_get_more = true;
    }

    /// Decides at the deadline.
    pub fn tick(&mut self, now: Duration) -> Step {
        self.decide(now)
    }

    /// After a success, returns the masters where the attempt may still be or may still arrive.
    pub fn owed(&self) -> Option<OwedReleases> {
        let Phase::Released(attempt) = self.phase else { return None };
        let later = self.terms.quorum.everybody().without(self.deleted);
        let now = later.without(self.gone());
        Some(OwedReleases { attempt, now, later })
    }

    /// Records that a master holds the token. One that shows the attempt after the others were asked to delete it gets
    /// the same delete.
    fn held(&mut self, master: MasterId, tag: Tag, now: Duration) -> Step {
        self.holders.insert(tag.attempt, master);
        match self.phase {
            Phase::Deleting(attempt) if attempt == tag.attempt => {
                self.reached.insert(master);
                Step::Delete(vec![(master, tag)])
            }
            Phase::Looking => {
                self.pending.remove(master);
                self.tags.push((master, tag));
                self.decide(now)
            }
            Phase::Deleting(_) => {
                self.pending.remove(master);
                self.other.insert(master);
                self.decide(now)
            }
            Phase::Released(_) | Phase::Done => Step::Wait,
        }
    }

    fn decide(&mut self, now: Duration) -> Step {
        match self.phase {
            Phase::Looking => self.looked(now),
            Phase::Deleting(attempt) => self.deleted(attempt, now),
            Phase::Released(_) | Phase::Done => Step::Wait,
        }
    }

    fn looked(&mut self, now: Duration) -> Step {
        let quorum = self.terms.quorum;
        let silent = quorum.everybody().without(self.seen()).without(self.deleted);
        let (held, possible) = match self.earlier {
            Some(attempt) => (self.begun(attempt, MasterSet::EMPTY), self.begun(attempt, silent)),
            None => (self.holders.of_quorum(quorum), self.holders.could_reach(quorum, silent)),
        };
        if let Some(attempt) = held {
            return self.delete(attempt, now);
        }
        let is_known =
            self.pending.is_empty() || quorum.reached_by(self.seen()) && self.is_late(now);
        match possible {
            Some(attempt) if is_known => self.delete(attempt, now),
            // Another attempt holds the token too, so it is unknown which of them was meant.
            None if self.holders.could_reach(quorum, silent).is_some() => self.wait_or_give_up(now),
            None if !quorum.reached_by(silent) => self.not_held(),
            _ => self.wait_or_give_up(now),
        }
    }

    /// Whether this round still looks for, or deletes, the attempt that earlier rounds deleted.
    fn goes_on(&self) -> bool {
        self.earlier.is_some() && self.attempt().is_none_or(|attempt| self.earlier == Some(attempt))
    }

    /// Returns the attempt that earlier rounds began to delete, if it had a quorum counting `others`. Another client
    /// may have claimed the freed copies, but the lease was held all the same.
    fn begun(&self, attempt: Attempt, others: MasterSet) -> Option<Attempt> {
        let had = self.deleted.union(self.holders.of(attempt)).union(others);
        self.terms.quorum.reached_by(had).then_some(attempt)
    }

    /// Whether the lease may belong to another attempt than the one to be deleted: a quorum has shown another, or no
    /// master has deleted anything or may have.
    fn is_of_another(&self) -> bool {
        let may_have_deleted = self.deleted.union(self.pending).union(self.unknown);
        self.terms.quorum.reached_by(self.another) || may_have_deleted.is_empty()
    }

    fn delete(&mut self, attempt: Attempt, now: Duration) -> Step {
        (self.phase, self.sent) = (Phase::Deleting(attempt), now);
        if self.earlier != Some(attempt) {
            (self.deleted, self.reached) = (MasterSet::EMPTY, MasterSet::EMPTY);
        }
        self.reached = self.reached.union(self.holders.of(attempt));
        let tags = std::mem::take(&mut self.tags);
        let (meant, others): (Vec<_>, Vec<_>) =
            tags.into_iter().partition(|(_, tag)| tag.attempt == attempt);
        self.other = others
            .iter()
            .fold(self.other, |set, (master, _)| set.union([*master].into_iter().collect()));
        self.pending = self.pending.union(meant.iter().map(|(master, _)| *master).collect());
        if meant.is_empty() { self.deleted(attempt, now) } else { Step::Delete(meant) }
    }

    fn deleted(&mut self, attempt: Attempt, now: Duration) -> Step {
        let quorum = self.terms.quorum;
        if quorum.reached_by(self.gone()) && !self.another_may_be_held() {
            return self.not_held();
        }
        let is_known =
            quorum.reached_by(self.deleted) || self.pending.is_empty() || self.is_late(now);
        if is_known && !self.deleted.is_empty() && self.is_certain() {
            self.phase = Phase::Released(attempt);
            return Step::Released;
        }
        if self.must_look_again(now) && !self.is_over(now) {
            return self.look_again();
        }
        self.wait_or_give_up(now)
    }

    /// Whether some master holds the attempt extended and the silent masters cannot make up for it, or a quorum holds
    /// the token under another attempt.
    fn must_look_again(&self, now: Duration) -> bool {
        let quorum = self.terms.quorum;
        if quorum.reached_by(self.another) || self.another_may_be_held() && self.pending.is_empty()
        {
            return true;
        }
        let is_hopeless = self.raised.len() > quorum.tolerates();
        let is_due = quorum.reached_by(self.answered()) && self.is_late(now);
        !self.raised.is_empty() && (self.pending.is_empty() || is_hopeless || is_due)
    }

    /// Whether a quorum may hold the token under another attempt.
    fn another_may_be_held(&self) -> bool {
        let silent = self.terms.quorum.everybody().without(self.answered());
        !self.another.is_empty() && self.terms.quorum.reached_by(self.another.union(silent))
    }

    fn answered(&self) -> MasterSet {
        self.deleted.union(self.raised).union(self.gone())
    }

    /// Whether too few masters can hold the attempt for it to be confirmed again, and too few can hold another attempt
    /// for another client to be the holder.
    fn is_certain(&self) -> bool {
        let quorum = self.terms.quorum;
        let silent = quorum.everybody().without(self.deleted).without(self.gone());
        let may_come_to_hold = silent.union(self.gone().without(self.reached));
        let others = self.other.union(self.another).without(self.deleted);
        !quorum.reached_by(may_come_to_hold) && !quorum.reached_by(silent.union(others))
    }

    fn not_held(&mut self) -> Step {
        self.phase = Phase::Done;
        if self.missing.len() > self.other.len() { Step::Missing } else { Step::Other }
    }

    /// Waits, unless time is up or no master is left to answer.
    fn wait_or_give_up(&mut self, now: Duration) -> Step {
        if self.is_resting() && !self.is_over(now) {
            return if self.is_late(now) { self.look_again() } else { Step::Wait };
        }
        if !self.pending.is_empty() && !self.is_over(now) {
            return Step::Wait;
        }
        self.phase = Phase::Done;
        Step::Unavailable { answered: self.deleted.union(self.seen()).len() }
    }

    fn look_again(&mut self) -> Step {
        self.round = self.round.wrapping_add(1);
        Step::Look
    }

    /// Whether every master has answered, and another look may show more.
    fn is_resting(&self) -> bool {
        self.pending.is_empty() && self.may_get_more
    }

    fn seen(&self) -> MasterSet {
        self.gone().union(self.holders.all())
    }

    fn gone(&self) -> MasterSet {
        self.missing.union(self.other).union(self.another).without(self.deleted)
    }

    fn is_late(&self, now: Duration) -> bool {
        now >= self.sent + self.terms.vote_timeout
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.began + self.terms.patience
    }
}

#[cfg(test)]
mod tests;
