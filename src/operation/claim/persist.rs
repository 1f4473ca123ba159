//! The second round of a claim without TTL: it was claimed for a while, and is made to stay.

use crate::master::reply::Answer;
use crate::operation::Received;
use crate::quorum::tally::{self, Tally};
use crate::quorum::{Ballot, MasterSet, Quorum};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Persist {
    tally: Option<Tally>,
    verdict: Option<Verdict>,
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A quorum keeps it for good.
    Persisted,
    /// It was gone before.
    Refused,
    /// Too few masters answered to know.
    Unavailable { answered: usize },
}

impl Persist {
    pub(super) fn ask(&mut self, quorum: Quorum, asked: MasterSet) {
        self.tally = Some(Tally::new(quorum, asked));
    }

    pub(super) fn is_done(&self) -> bool {
        self.verdict == Some(Verdict::Persisted)
    }

    /// One master has answered. What answers the round before is no news: a copy that was made late is wanted here.
    pub(super) fn vote(&mut self, received: Received<'_>, is_current: bool) -> Option<Verdict> {
        let tally = self.tally.as_mut().filter(|_| is_current && self.verdict.is_none())?;
        let ballot = match received.answer {
            Some(Answer::Int(1)) => Ballot::Yes,
            Some(Answer::Int(0)) => Ballot::No,
            _ => Ballot::Unknown,
        };
        let verdict = tally.count(received.master, ballot)?;
        Some(self.decided(verdict))
    }

    /// The vote timeout has passed, or the patience.
    pub(super) fn deadline(&mut self, is_last: bool) -> Option<Verdict> {
        let tally = self.tally.as_mut().filter(|_| self.verdict.is_none())?;
        if !is_last && !tally.quorum_answered() {
            return None;
        }
        let verdict = tally.close();
        Some(self.decided(verdict))
    }

    fn decided(&mut self, verdict: tally::Verdict) -> Verdict {
        let answered = self.tally.as_ref().map_or(0, Tally::answered);
        let verdict = match verdict {
            tally::Verdict::Granted => Verdict::Persisted,
            tally::Verdict::Refused => Verdict::Refused,
            tally::Verdict::Undecided => Verdict::Unavailable { answered },
        };
        *self.verdict.insert(verdict)
    }
}
