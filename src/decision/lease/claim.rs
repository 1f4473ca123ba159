//! Acquiring a lease: Redlock's acquire, with a take-back at the verdict and a new attempt if the votes came late.
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
//! A client that may already hold the lease must not hear that somebody else holds it. So once the retries are used up,
//! the claim waits for a silent master whose answer decides, until the patience ends.
//!
//! Every outcome but a grant takes the attempt back on each master that may hold it. Links are FIFO. So a take-back
//! sent at the verdict executes after the claim it takes back, and before any later claim.

use std::time::Duration;

use super::attempt::Attempt;
use super::holders::Holders;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};

/// One master's answer to a claim. An answer without its proof is [`Vote::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key was free and now holds this attempt.
    Taken,
    /// The key held the client's token, and its attempt was extended.
    Owned(Attempt),
    /// Somebody else holds the key.
    Refused,
    /// No trustworthy answer, now or later.
    Unknown,
}

/// Settings that all claims of a proxy share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Quorum of masters that must agree.
    pub quorum: Quorum,
    /// Time that a verdict waits for a silent minority.
    pub vote_timeout: Duration,
    /// Time that a client waits while a quorum is silent.
    pub patience: Duration,
    /// Number of retries after a split vote.
    pub retries: u32,
}

/// Next action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next vote or the deadline.
    Wait,
    /// Send the next attempt in the same batch as the take-back, and call [`Claim::ask`].
    Afresh,
    /// Wait a random time, send the next attempt, and call [`Claim::ask`].
    Pause,
    /// A quorum holds this attempt: the client holds the lease from now on.
    Granted(Attempt),
    /// Somebody else holds the key.
    Held,
    /// Too few masters answered in time: the outcome is unknown.
    Unavailable {
        /// Number of masters that voted yes or no.
        answered: usize,
    },
}

/// Next step, and the take-backs to send before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimNext {
    /// Masters on which to take back this claim's attempt, in its fresh generation.
    pub take_back: MasterSet,
    /// Action after the take-backs.
    pub step: Step,
}

impl ClaimNext {
    const WAIT: Self = Self { take_back: MasterSet::EMPTY, step: Step::Wait };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Asking,
    Voting,
    Granted(Attempt),
    Lost,
}

/// State of one claim in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    quorum: Quorum,
    vote_timeout: Duration,
    phase: Phase,
    /// End of the client's patience.
    last: Duration,
    /// Time at which the current attempt was sent.
    sent: Duration,
    freshness: Duration,
    attempt: Attempt,
    asked: MasterSet,
    /// Masters that were asked and whose answer is still expected.
    pending: MasterSet,
    holders: Holders,
    refused: MasterSet,
    retries_left: u32,
}

impl Claim {
    /// Creates a claim that was sent to `asked` at `now`, with a pad on the masters' TTL that covers `freshness`.
    pub fn new(
        terms: Terms,
        freshness: Duration,
        attempt: Attempt,
        asked: MasterSet,
        now: Duration,
    ) -> Self {
        Self {
            quorum: terms.quorum,
            vote_timeout: terms.vote_timeout,
            phase: Phase::Voting,
            last: now + terms.patience,
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

    /// Starts the next attempt, which was sent to `asked`. Its pad covers [`Claim::freshness`].
    pub fn ask(&mut self, attempt: Attempt, asked: MasterSet, now: Duration) {
        debug_assert!(self.phase == Phase::Asking, "nothing asked for another attempt");
        self.phase = Phase::Voting;
        (self.attempt, self.asked, self.pending, self.sent) = (attempt, asked, asked, now);
        (self.holders, self.refused) = (Holders::default(), MasterSet::EMPTY);
    }

    /// Returns the current attempt.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Returns the time at which the current attempt was sent.
    pub fn sent(&self) -> Duration {
        self.sent
    }

    /// Returns the granted attempt, if there is one.
    pub fn holder(&self) -> Option<Attempt> {
        match self.phase {
            Phase::Granted(holder) => Some(holder),
            Phase::Asking | Phase::Voting | Phase::Lost => None,
        }
    }

    /// Whether the verdict for the client is known.
    pub fn is_decided(&self) -> bool {
        matches!(self.phase, Phase::Granted(_) | Phase::Lost)
    }

    /// Returns how long after sending a quorum's yes still grants the current or next attempt.
    pub fn freshness(&self) -> Duration {
        self.freshness
    }

    /// Whether answers still matter: they decide, or they show a copy of a granted lease that must be taken back.
    pub fn is_listening(&self) -> bool {
        match self.phase {
            Phase::Asking | Phase::Voting => true,
            Phase::Granted(_) => !self.pending.is_empty(),
            Phase::Lost => false,
        }
    }

    /// Returns the masters that owe an answer to the current attempt.
    pub fn pending(&self) -> MasterSet {
        self.pending
    }

    /// Returns the time at which to call [`Claim::tick`] unless votes decide earlier.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Voting if self.quorum_answered() && !self.waits_for_its_own() => {
                Some(self.last.min(self.sent + self.vote_timeout))
            }
            Phase::Voting => Some(self.last),
            Phase::Asking | Phase::Granted(_) | Phase::Lost => None,
        }
    }

    /// Records one master's answer to `attempt`.
    ///
    /// An answer to an earlier attempt changes nothing: the take-back of that attempt follows it.
    pub fn vote(
        &mut self,
        attempt: Attempt,
        master: MasterId,
        vote: Vote,
        now: Duration,
    ) -> ClaimNext {
        if attempt != self.attempt || !self.pending.contains(master) {
            return ClaimNext::WAIT;
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
            Phase::Asking | Phase::Lost => ClaimNext::WAIT,
        }
    }

    /// Decides at the deadline.
    pub fn tick(&mut self, now: Duration) -> ClaimNext {
        if self.phase == Phase::Voting { self.decide(now) } else { ClaimNext::WAIT }
    }

    /// Re-decides a grant whose reply is delayed. Past the freshness, the client would trust the lease for longer than
    /// the masters keep their copies.
    pub fn untold(&mut self, now: Duration) -> ClaimNext {
        let is_fresh = now - self.sent <= self.freshness;
        match self.phase {
            Phase::Granted(holder) if !is_fresh => self.agreed(holder, now),
            _ => ClaimNext::WAIT,
        }
    }

    fn decide(&mut self, now: Duration) -> ClaimNext {
        let quorum = self.quorum;
        if let Some(holder) = self.holders.of_quorum(quorum) {
            self.agreed(holder, now)
        } else if self.refused.len() > quorum.tolerates() {
            self.refused(now)
        } else if self.pending.is_empty() || self.is_split(now) || self.is_out_of_patience(now) {
            self.undecided(now)
        } else {
            ClaimNext::WAIT
        }
    }

    /// Grants only within the freshness. A lease granted later would outlive the masters' copies.
    fn agreed(&mut self, holder: Attempt, now: Duration) -> ClaimNext {
        if now - self.sent <= self.freshness {
            return self.granted(holder);
        }
        if self.is_out_of_patience(now) {
            return self.unavailable();
        }
        self.freshness *= 2;
        self.end(Phase::Asking, Step::Afresh)
    }

    /// Grants the lease. If the quorum holds an earlier attempt, copies of the current one are not needed and would
    /// outlive its release.
    fn granted(&mut self, holder: Attempt) -> ClaimNext {
        let take_back =
            if holder == self.attempt { MasterSet::EMPTY } else { self.may_hold_attempt() };
        self.phase = Phase::Granted(holder);
        ClaimNext { take_back, step: Step::Granted(holder) }
    }

    /// Reports the key as held, unless some master voted yes. Then the vote is split and nobody wins.
    fn refused(&mut self, now: Duration) -> ClaimNext {
        if self.holders.of(self.attempt).is_empty() {
            return self.end(Phase::Lost, Step::Held);
        }
        self.split(now)
    }

    fn undecided(&mut self, now: Duration) -> ClaimNext {
        if self.quorum_answered() {
            self.split(now)
        } else if self.is_out_of_patience(now) {
            self.unavailable()
        } else {
            self.end(Phase::Asking, Step::Pause)
        }
    }

    fn split(&mut self, now: Duration) -> ClaimNext {
        let is_over = self.is_out_of_patience(now);
        if self.retries_left > 0 && !is_over {
            self.retries_left -= 1;
            return self.end(Phase::Asking, Step::Pause);
        }
        match self.may_be_owned() {
            false => self.end(Phase::Lost, Step::Held),
            true if is_over || self.pending.is_empty() => self.unavailable(),
            true => ClaimNext::WAIT,
        }
    }

    /// Whether no retry is left and silent masters decide whether the client already holds the lease.
    fn waits_for_its_own(&self) -> bool {
        self.retries_left == 0 && self.may_be_owned() && !self.pending.is_empty()
    }

    /// Whether a quorum may hold an attempt that the client was granted earlier. Then "held by somebody else" would be
    /// a guess.
    fn may_be_owned(&self) -> bool {
        let quorum = self.quorum;
        let silent = quorum.everybody().without(self.answered());
        self.holders.that_could_reach(quorum, silent).any(|attempt| attempt != self.attempt)
    }

    fn unavailable(&mut self) -> ClaimNext {
        let answered = self.answered().len();
        self.end(Phase::Lost, Step::Unavailable { answered })
    }

    /// Handles a vote after the grant. A copy that may have been made after the freshness is taken back: a release
    /// through another proxy may already have been at that master. That release's last delivery finds a copy made
    /// within the freshness.
    fn straggler(
        &self,
        granted: Attempt,
        master: MasterId,
        vote: Vote,
        now: Duration,
    ) -> ClaimNext {
        let is_late = match vote {
            Vote::Taken => now - self.sent > self.freshness,
            Vote::Unknown => true,
            Vote::Owned(_) | Vote::Refused => false,
        };
        if is_late && granted == self.attempt {
            return ClaimNext { take_back: MasterSet::from_iter([master]), step: Step::Wait };
        }
        ClaimNext::WAIT
    }

    fn end(&mut self, phase: Phase, step: Step) -> ClaimNext {
        self.phase = phase;
        ClaimNext { take_back: self.may_hold_attempt(), step }
    }

    /// Returns the masters that were asked and do not certainly hold something else: a silent master may still say yes.
    fn may_hold_attempt(&self) -> MasterSet {
        let other = self.holders.all().without(self.holders.of(self.attempt));
        self.asked.without(self.refused).without(other)
    }

    /// Whether a quorum has answered and the vote timeout is over: a silent minority gets no more time than that.
    fn is_split(&self, now: Duration) -> bool {
        self.quorum_answered() && now >= self.sent + self.vote_timeout
    }

    fn is_out_of_patience(&self, now: Duration) -> bool {
        now >= self.last
    }

    fn quorum_answered(&self) -> bool {
        self.quorum.reached_by(self.answered())
    }

    fn answered(&self) -> MasterSet {
        self.holders.all().union(self.refused)
    }
}

#[cfg(test)]
mod tests;
