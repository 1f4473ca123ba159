//! Deletion of a key that holds a lease, whoever the holder is: `DEL` and `UNLINK`.
//!
//! An unconditional delete that arrives late on two masters would end the next lock. So each master is asked to delete
//! exactly the value that it showed, and one operation ends one lease at most.
//!
//! ```text
//!                 one value alone may have a quorum
//!  new() Looking ----------------------------------> Deleting --> Deleted
//!           ^ ^ |                                       | |
//!           | | +---- nothing can have one --> Missing <+ |
//!           | +----------- prolonged meanwhile -----------+
//!           |
//! known() Trying --> Deleted, Missing
//! ```
//!
//! Three rules differ from those of a release, because the caller need not be the holder:
//!
//! 1. The claim may not have reached a master that shows nothing. Such a master does not count as a deletion: together
//!    with a silent one it could confirm the lease after the answer.
//! 2. A value that too few masters can hold stays. Its claim may be on the way to the others and may have counted this
//!    copy. Then the claim would be granted with one copy too few, although the answer was "nothing there".
//! 3. While two values may have a quorum, neither is touched. Deleting both can end a lock and its successor.
//!
//! Two simultaneous deletions of one lease may both answer that it was there.

mod target;

use std::time::Duration;

use super::attempt::{Attempt, Tag};
use super::claim::Terms;
use super::holders::Holders;
pub use super::release::{OwedReleases, Vote};
use crate::decision::quorum::{MasterId, MasterSet};
use target::Target;

/// State of the key on one master. An answer without its proof is [`Sight::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// The key holds this lease.
    Held(Tag),
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
    /// Look on all masters, and call [`Delete::ask`].
    Look,
    /// Delete exactly these leases.
    Delete(Vec<(MasterId, Tag)>),
    /// The key existed and is gone. [`Delete::owed`] returns the remaining work.
    Deleted,
    /// The key did not exist.
    Missing,
    /// Too few masters answered in time: the outcome is unknown.
    Unavailable {
        /// Number of masters that answered.
        answered: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// A delete of the known tag was sent to all masters.
    Trying,
    Looking,
    Deleting(Attempt),
    Deleted(Attempt),
    Done,
}

/// State of one deletion in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Delete {
    terms: Terms,
    phase: Phase,
    /// Time of the client's request.
    began: Duration,
    /// Time at which the current round was sent.
    sent: Duration,
    /// Number of the round, which distinguishes late answers from current ones.
    round: u8,
    known: Option<Tag>,
    pending: MasterSet,
    /// Leases that masters showed in this round.
    tags: Vec<(MasterId, Tag)>,
    holders: Holders<Attempt>,
    /// Masters without the target. Its claim may not have reached them yet.
    free: MasterSet,
    raised: MasterSet,
    target: Target,
    /// Whether a master that showed the target deleted it. Then the key existed, whatever else turns up.
    has_deleted: bool,
    /// Whether the vote timeout of this phase has passed.
    is_late: bool,
    /// Whether another look may show more, see [`Delete::expect_more`].
    may_get_more: bool,
}

impl Delete {
    /// Creates a deletion of whatever lease the key holds. A look was sent to `asked`.
    pub fn new(terms: Terms, asked: MasterSet, now: Duration) -> Self {
        Self::with(terms, None, asked, now)
    }

    /// Creates a deletion of a lease that this worker granted. A delete of `tag` was sent to `asked`, over the links
    /// that carried its claim.
    pub fn known(terms: Terms, tag: Tag, asked: MasterSet, now: Duration) -> Self {
        Self::with(terms, Some(tag), asked, now)
    }

    fn with(terms: Terms, known: Option<Tag>, asked: MasterSet, now: Duration) -> Self {
        let none = MasterSet::EMPTY;
        Self {
            terms,
            phase: if known.is_some() { Phase::Trying } else { Phase::Looking },
            began: now,
            sent: now,
            round: 0,
            known,
            pending: asked,
            tags: Vec::new(),
            holders: Holders::default(),
            free: none,
            raised: none,
            target: known.map_or_else(Target::default, |tag| Target::known(tag.attempt)),
            has_deleted: false,
            is_late: false,
            may_get_more: false,
        }
    }

    /// Starts another look, which was sent to `asked`. Earlier deletions of the same lease still count.
    pub fn ask(&mut self, asked: MasterSet, now: Duration) {
        if self.phase == Phase::Trying {
            self.target.tried(self.terms.quorum.everybody(), self.free, self.raised);
        }
        (self.free, self.raised) = (MasterSet::EMPTY, MasterSet::EMPTY);
        (self.tags, self.holders) = (Vec::new(), Holders::default());
        (self.known, self.pending, self.may_get_more) = (None, asked, false);
        self.enter(Phase::Looking, now);
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

    /// Returns the time at which to call [`Delete::tick`] unless answers decide earlier.
    pub fn deadline(&self) -> Option<Duration> {
        let patience = self.began + self.terms.patience;
        let is_due_soon = match self.phase {
            Phase::Trying | Phase::Looking => self.terms.quorum.reached_by(self.answered()),
            Phase::Deleting(_) => !self.raised.is_empty(),
            Phase::Deleted(_) | Phase::Done => return None,
        };
        let is_due_soon = (is_due_soon || self.is_resting()) && !self.is_late;
        Some(if is_due_soon { patience.min(self.sent + self.terms.vote_timeout) } else { patience })
    }

    /// Records one master's answer to a look of `round`.
    pub fn sight(&mut self, round: u8, master: MasterId, sight: Sight, now: Duration) -> Step {
        if round != self.round || !self.pending.contains(master) {
            return Step::Wait;
        }
        if let (Phase::Deleting(attempt), Sight::Held(tag)) = (self.phase, sight)
            && tag.attempt == attempt
            && !self.target.settled().contains(master)
        {
            self.target.tell(attempt, [master].into_iter().collect());
            return Step::Delete(vec![(master, tag)]);
        }
        self.pending.remove(master);
        match (self.phase, sight) {
            (_, Sight::Unknown) => {}
            (Phase::Looking, Sight::Held(tag)) => {
                self.holders.insert(tag.attempt, master);
                self.tags.push((master, tag));
            }
            (Phase::Deleting(_), _) if self.target.note_absence(master) => {}
            _ => self.free.insert(master),
        }
        self.decide(now)
    }

    /// Records one master's answer to a delete of `round`. The outcome of an earlier round counts as well.
    pub fn vote(&mut self, round: u8, master: MasterId, vote: Vote, now: Duration) -> Step {
        let is_current = round == self.round && self.pending.contains(master);
        if !is_current && !self.target.awaits(master) {
            return Step::Wait;
        }
        if is_current {
            self.pending.remove(master);
        }
        match (self.phase, vote) {
            (Phase::Trying, Vote::Missing) => self.free.insert(master),
            _ => self.target.note(master, vote),
        }
        if is_current && vote == Vote::Raised {
            self.raised.insert(master);
        }
        self.has_deleted |= vote == Vote::Deleted && self.phase != Phase::Trying;
        self.decide(now)
    }

    /// Forgets the answers of masters that went out of the cluster after them. What these have deleted was there all the
    /// same.
    pub fn forget(&mut self, masters: MasterSet) {
        self.free = self.free.without(masters);
        self.raised = self.raised.without(masters);
        self.holders.forget(masters);
        self.tags.retain(|(master, _)| !masters.contains(*master));
        self.target.forget(masters);
        self.may_get_more = true;
    }

    /// Decides at the deadline.
    pub fn tick(&mut self, now: Duration) -> Step {
        self.decide(now)
    }

    /// After a success, returns the masters where the lease may still be or may still arrive.
    pub fn owed(&self) -> Option<OwedReleases> {
        let Phase::Deleted(attempt) = self.phase else { return None };
        let later = self.terms.quorum.everybody().without(self.target.settled());
        Some(OwedReleases { attempt, now: later.without(self.free), later })
    }

    fn decide(&mut self, now: Duration) -> Step {
        self.is_late = now >= self.sent + self.terms.vote_timeout;
        match self.phase {
            Phase::Trying => self.tried(now),
            Phase::Looking => self.looked(now),
            Phase::Deleting(_) => self.deleting(now),
            Phase::Deleted(_) | Phase::Done => Step::Wait,
        }
    }

    /// Decides the first round of a known lease. Links are FIFO: where a delete of the worker's own attempt finds
    /// nothing, no claim can arrive any more.
    fn tried(&mut self, now: Duration) -> Step {
        let quorum = self.terms.quorum;
        if quorum.reached_by(self.free) {
            return self.end(Step::Missing);
        }
        let is_known = quorum.reached_by(self.target.deleted)
            || self.pending.is_empty()
            || self.is_late && quorum.reached_by(self.answered());
        if !is_known {
            return self.wait_or_give_up(now);
        }
        let everybody = quorum.everybody();
        let others_ended = self.free.union(self.target.gone);
        let was_held = quorum.reached_by(everybody.without(others_ended));
        let is_ended =
            !quorum.reached_by(everybody.without(others_ended).without(self.target.deleted));
        let silent = everybody.without(self.answered());
        if was_held && is_ended && !quorum.reached_by(silent.union(self.target.gone)) {
            self.target.gone = others_ended;
            return self.succeed();
        }
        self.look_again(now)
    }

    fn looked(&mut self, now: Duration) -> Step {
        let quorum = self.terms.quorum;
        let silent = quorum.everybody().without(self.answered());
        let holders = self.target.before(&self.holders);
        let is_bound = self.has_deleted || self.target.may_be_hit();
        let may_end = |attempt: &Attempt| !is_bound || self.target.attempt == Some(*attempt);
        let possible: Vec<_> = holders.that_could_reach(quorum, silent).filter(may_end).collect();
        let meant = self.target.attempt.filter(|attempt| possible.contains(attempt));
        let held = match meant {
            Some(attempt) => meant.filter(|_| {
                !self.holders.of(attempt).is_empty() && quorum.reached_by(holders.of(attempt))
            }),
            None => self.holders.of_quorum(quorum).filter(may_end),
        };
        let is_answered = quorum.reached_by(self.answered());
        let is_known = is_answered && (self.is_late || self.pending.is_empty());
        match (held, &possible[..]) {
            (Some(attempt), _) => self.delete(attempt, now),
            (None, [attempt]) if is_known => self.delete(*attempt, now),
            (None, []) if is_bound || !quorum.reached_by(silent) => self.not_held(),
            _ => self.wait_or_give_up(now),
        }
    }

    fn delete(&mut self, attempt: Attempt, now: Duration) -> Step {
        self.target.tell(attempt, MasterSet::EMPTY);
        let settled = self.target.settled();
        let is_meant =
            |(master, tag): &(MasterId, Tag)| tag.attempt == attempt && !settled.contains(*master);
        let (meant, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.tags).into_iter().partition(is_meant);
        let masters = |tags: &[(MasterId, Tag)]| tags.iter().map(|(master, _)| *master).collect();
        let others = self.free.union(masters(&others));
        let is_free = |master: &MasterId| !self.target.note_absence(*master);
        self.free = others.iter().filter(is_free).collect();
        self.pending = self.pending.union(masters(&meant));
        self.target.tell(attempt, masters(&meant));
        self.enter(Phase::Deleting(attempt), now);
        if meant.is_empty() { self.decide(now) } else { Step::Delete(meant) }
    }

    fn deleting(&mut self, now: Duration) -> Step {
        let quorum = self.terms.quorum;
        let everybody = quorum.everybody();
        let was_held = quorum.reached_by(everybody.without(self.free).without(self.target.gone));
        let is_ended = !quorum.reached_by(everybody.without(self.target.settled()));
        if is_ended && !self.target.deleted.is_empty() && (was_held || self.has_deleted) {
            return self.succeed();
        }
        let may_yet_delete = !self.has_deleted && !self.pending.and(self.target.open).is_empty();
        if (is_ended || !was_held) && !may_yet_delete {
            return self.not_held();
        }
        let is_known = self.pending.is_empty() || self.is_late;
        if is_known && !self.raised.is_empty() {
            return self.look_again(now);
        }
        self.wait_or_give_up(now)
    }

    fn look_again(&mut self, now: Duration) -> Step {
        if self.is_over(now) {
            return self.give_up();
        }
        self.round = self.round.wrapping_add(1);
        Step::Look
    }

    fn succeed(&mut self) -> Step {
        self.phase = self.target.attempt.map_or(Phase::Done, Phase::Deleted);
        Step::Deleted
    }

    /// Ends with no quorum holding the lease. It was there if this deletion ended it, and that is unknown while an
    /// answer is lost.
    fn not_held(&mut self) -> Step {
        let may_have_ended = self.target.may_be_hit()
            || self.terms.quorum.reached_by(self.target.in_doubt(&self.holders));
        match self.has_deleted {
            true => self.end(Step::Deleted),
            false if may_have_ended => self.give_up(),
            false => self.end(Step::Missing),
        }
    }

    /// Waits, unless time is up or no master is left to answer.
    fn wait_or_give_up(&mut self, now: Duration) -> Step {
        if self.is_resting() && !self.is_over(now) {
            return if self.is_late { self.look_again(now) } else { Step::Wait };
        }
        if self.pending.is_empty() || self.is_over(now) { self.give_up() } else { Step::Wait }
    }

    fn give_up(&mut self) -> Step {
        let answered = self.answered().union(self.target.settled()).len();
        self.end(Step::Unavailable { answered })
    }

    fn end(&mut self, step: Step) -> Step {
        self.phase = Phase::Done;
        step
    }

    fn enter(&mut self, phase: Phase, now: Duration) {
        (self.phase, self.sent, self.is_late) = (phase, now, false);
    }

    /// Returns the masters that answered in this round.
    fn answered(&self) -> MasterSet {
        let seen = self.free.union(self.holders.all());
        match self.phase {
            Phase::Looking => seen,
            _ => seen.union(self.target.settled()).union(self.raised),
        }
    }

    /// Whether every master has answered, and another look may show more.
    fn is_resting(&self) -> bool {
        self.pending.is_empty() && self.may_get_more
    }

    fn is_over(&self, now: Duration) -> bool {
        now >= self.began + self.terms.patience
    }
}

#[cfg(test)]
mod tests;
