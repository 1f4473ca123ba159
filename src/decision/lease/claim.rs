//! Taking a lease: Redlock's acquire, taken back at the verdict and claimed afresh when its votes came late.
//!
//! ```text
//!           a quorum's yes, fresh
//!  Voting -------------------------> Granted
//!   ^  |
//!   |  +-- a quorum's yes, late ---> Asking (at once: the next attempt, with twice the freshness)
//!   |  +-- split, or unknown ------> Asking (after a pause)
//!   |  +-- no, or out of time -----> Lost
//!   +------------ ask() -------------- Asking
//! ```
//!
//! Who may hold the lease already is not told that another does: with no try left, a silent master that decides it is
//! waited for until the patience ends.
//!
//! Every way out but the first takes the attempt back on each master that may hold it. Links are FIFO, so a take-back
//! sent at the verdict executes after the claim it takes back, and before a claim that follows.

use std::time::Duration;

use super::attempt::Attempt;
use super::holders::Holders;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// One master's answer to a claim. An answer without its proof is [`Vote::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key was free and now holds this attempt.
    Taken,
    /// The key held the client's token, and the attempt that stored it was prolonged.
    Owned(Attempt),
    /// Somebody else holds the key.
    Refused,
    /// No trustworthy answer, and none to come.
    Unknown,
}

/// What all claims of a proxy have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// How many masters must agree.
    pub quorum: Quorum,
    /// How long a verdict waits for a silent minority.
    pub vote_timeout: Duration,
    /// How long a client waits while a quorum is silent.
    pub patience: Duration,
    /// How often a split vote is tried again.
    pub retries: u32,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Nothing, until the next vote or the deadline.
    Wait,
    /// Send the next attempt in the same stretch as the take-back, and call [`Claim::ask`].
    Afresh,
    /// Wait a random time, send the next attempt, and call [`Claim::ask`].
    Pause,
    /// A quorum holds this attempt: the lease is the client's from now on.
    Granted(Attempt),
    /// The key is held by somebody else.
    Held,
    /// Too few masters answered in time to know.
    Unavailable {
        /// How many gave a yes or a no.
        answered: usize,
    },
}

/// The next step, and what has to be taken back before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Next {
    /// Masters on which this claim's attempt is taken back, in its fresh generation.
    pub take_back: MasterSet,
    /// What to do then.
    pub step: Step,
}

impl Next {
    const WAIT: Self = Self { take_back: MasterSet::EMPTY, step: Step::Wait };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Asking,
    Voting,
    Granted(Attempt),
    Lost,
}

/// One claim on its way through the masters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    terms: Terms,
    phase: Phase,
    /// When the client asked.
    began: Duration,
    /// When the present attempt was sent.
    sent: Duration,
    freshness: Duration,
    attempt: Attempt,
    asked: MasterSet,
    /// Asked, and neither answered nor given up.
    pending: MasterSet,
    holders: Holders,
    refused: MasterSet,
    retries_left: u32,
}

impl Claim {
    /// A claim sent to `asked` at `now`, with masters told to keep it for the pad that covers `freshness`.
    pub fn new(
        terms: Terms,
        freshness: Duration,
        attempt: Attempt,
        asked: MasterSet,
        now: Duration,
    ) -> Self {
        Self {
            terms,
            phase: Phase::Voting,
            began: now,
            sent: now,
            freshness,
            attempt,
            asked,
            pending: asked,
            holders: Holders::default(),
            refused: MasterSet::EMPTY,
            retries_left: terms.retries,
        }
    }

    /// The next attempt has been sent to `asked`. Its pad covers [`Claim::freshness`].
    pub fn ask(&mut self, attempt: Attempt, asked: MasterSet, now: Duration) {
        debug_assert!(self.phase == Phase::Asking, "nothing asked for another attempt");
        self.phase = Phase::Voting;
        (self.attempt, self.asked, self.pending, self.sent) = (attempt, asked, asked, now);
        (self.holders, self.refused) = (Holders::default(), MasterSet::EMPTY);
    }

    /// The present attempt.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// The attempt that was granted, once one was.
    pub fn holder(&self) -> Option<Attempt> {
        match self.phase {
            Phase::Granted(holder) => Some(holder),
            Phase::Asking | Phase::Voting | Phase::Lost => None,
        }
    }

    /// Whether the client has its answer.
    pub fn is_decided(&self) -> bool {
        matches!(self.phase, Phase::Granted(_) | Phase::Lost)
    }

    /// How long after sending a quorum's yes grants the present or next attempt.
    pub fn freshness(&self) -> Duration {
        self.freshness
    }

    /// Whether answers may still lead to something: they decide, or a copy of a granted lease has to be taken back.
    pub fn is_listening(&self) -> bool {
        match self.phase {
            Phase::Asking | Phase::Voting => true,
            Phase::Granted(_) => !self.pending.is_empty(),
            Phase::Lost => false,
        }
    }

    /// Masters that owe an answer to the present attempt.
    pub fn pending(&self) -> MasterSet {
        self.pending
    }

    /// When [`Claim::tick`] has to be called, unless votes decide before.
    pub fn deadline(&self) -> Option<Duration> {
        let patience = self.began + self.terms.patience;
        match self.phase {
            Phase::Voting if self.quorum_answered() && !self.waits_for_its_own() => {
                Some(patience.min(self.sent + self.terms.vote_timeout))
            }
            Phase::Voting => Some(patience),
            Phase::Asking | Phase::Granted(_) | Phase::Lost => None,
        }
    }

    /// One master has answered `attempt`.
    ///
    /// An answer to an earlier attempt changes nothing: its take-back is on the way behind it.
    pub fn vote(&mut self, attempt: Attempt, master: MasterId, vote: Vote, now: Duration) -> Next {
        if attempt != self.attempt || !self.pending.contains(master) {
            return Next::WAIT;
        }
        self.pending.remove(master);
        match vote {
            Vote::Taken => self.holders.insert(attempt, master),
            Vote::Owned(earlier) => self.holders.insert(earlier, master),
            Vote::Refused => self.refused.insert(master),
            Vote::Unknown => {}
        }
        match self.phase {
            Phase::Voting => self.decide(now),
            Phase::Granted(granted) => self.straggler(granted, master, vote, now),
            Phase::Asking | Phase::Lost => Next::WAIT,
        }
    }

    /// The deadline has come.
    pub fn tick(&mut self, now: Duration) -> Next {
        if self.phase == Phase::Voting { self.decide(now) } else { Next::WAIT }
    }

    /// The lease was granted, but its client cannot be told yet. Past the freshness it would outlive the masters' copies.
    pub fn untold(&mut self, now: Duration) -> Next {
        let is_fresh = now - self.sent <= self.freshness;
        match self.phase {
            Phase::Granted(holder) if !is_fresh => self.agreed(holder, now),
            _ => Next::WAIT,
        }
    }

    fn decide(&mut self, now: Duration) -> Next {
        let quorum = self.terms.quorum;
        if let Some(holder) = self.holders.of_quorum(quorum) {
            self.agreed(holder, now)
        } else if self.refused.len() > quorum.tolerates() {
            self.refused(now)
        } else if self.pending.is_empty() || self.is_split(now) || self.is_out_of_patience(now) {
            self.undecided(now)
        } else {
            Next::WAIT
        }
    }

    /// What the pad covers is answered. What came later would outlive the masters' copies.
    fn agreed(&mut self, holder: Attempt, now: Duration) -> Next {
        if now - self.sent <= self.freshness {
            return self.granted(holder);
        }
        if self.is_out_of_patience(now) {
            return self.unavailable();
        }
        self.freshness *= 2;
        self.end(Phase::Asking, Step::Afresh)
    }

    /// If the quorum holds an earlier attempt, copies of the present one are not needed and would outlive its release.
    fn granted(&mut self, holder: Attempt) -> Next {
        let take_back =
            if holder == self.attempt { MasterSet::EMPTY } else { self.may_hold_attempt() };
        self.phase = Phase::Granted(holder);
        Next { take_back, step: Step::Granted(holder) }
    }

    /// Held by somebody else, unless others were refused as well: a split vote, in which nobody wins.
    fn refused(&mut self, now: Duration) -> Next {
        if self.holders.of(self.attempt).is_empty() {
            return self.end(Phase::Lost, Step::Held);
        }
        self.split(now)
    }

    fn undecided(&mut self, now: Duration) -> Next {
        if self.quorum_answered() {
            self.split(now)
        } else if self.is_out_of_patience(now) {
            self.unavailable()
        } else {
            self.end(Phase::Asking, Step::Pause)
        }
    }

    fn split(&mut self, now: Duration) -> Next {
        let is_over = self.is_out_of_patience(now);
        if self.retries_left > 0 && !is_over {
            self.retries_left -= 1;
            return self.end(Phase::Asking, Step::Pause);
        }
        match self.may_be_owned() {
            false => self.end(Phase::Lost, Step::Held),
            true if is_over || self.pending.is_empty() => self.unavailable(),
            true => Next::WAIT,
        }
    }

    /// Whether it is not tried again, and who is silent decides whether the client holds the lease already.
    fn waits_for_its_own(&self) -> bool {
        self.retries_left == 0 && self.may_be_owned() && !self.pending.is_empty()
    }

    /// Whether a quorum may hold what the client was granted before. Then "held by somebody else" would be a guess.
    fn may_be_owned(&self) -> bool {
        let quorum = self.terms.quorum;
        let silent = quorum.everybody().without(self.answered());
        self.holders.that_could_reach(quorum, silent).any(|attempt| attempt != self.attempt)
    }

    fn unavailable(&mut self) -> Next {
        let answered = self.answered().len();
        self.end(Phase::Lost, Step::Unavailable { answered })
    }

    /// A vote after the grant. A copy that may have been made after the freshness is taken back: a release through
    /// another proxy may have been there before it. A copy made within it is found by that release's last delivery.
    fn straggler(&self, granted: Attempt, master: MasterId, vote: Vote, now: Duration) -> Next {
        let is_late = match vote {
            Vote::Taken => now - self.sent > self.freshness,
            Vote::Unknown => true,
            Vote::Owned(_) | Vote::Refused => false,
        };
        if is_late && granted == self.attempt {
            return Next { take_back: MasterSet::from_iter([master]), step: Step::Wait };
        }
        Next::WAIT
    }

    fn end(&mut self, phase: Phase, step: Step) -> Next {
        self.phase = phase;
        Next { take_back: self.may_hold_attempt(), step }
    }

    /// Everybody who was asked and is not known to hold something else: a silent master may still say yes.
    fn may_hold_attempt(&self) -> MasterSet {
        let other = self.holders.all().without(self.holders.of(self.attempt));
        self.asked.without(self.refused).without(other)
    }

    /// A silent minority is not waited for beyond the vote timeout.
    fn is_split(&self, now: Duration) -> bool {
        self.quorum_answered() && now >= self.sent + self.terms.vote_timeout
    }

    fn is_out_of_patience(&self, now: Duration) -> bool {
        now >= self.began + self.terms.patience
    }

    fn quorum_answered(&self) -> bool {
        self.terms.quorum.reached_by(self.answered())
    }

    fn answered(&self) -> MasterSet {
        self.holders.all().union(self.refused)
    }
}

#[cfg(test)]
mod tests;
