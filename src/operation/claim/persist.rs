//! The second round of a claim without TTL: it was claimed for a while, and is made to stay.

use crate::master::reply::Answer;
use crate::operation::Received;
use crate::operation::verdict::Others;
use crate::quorum::tally::{self, Tally};
use crate::quorum::{Ballot, MasterSet, Quorum};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Persist {
    tally: Option<Tally>,
    verdict: Option<Verdict>,
    /// Those that have given no answer, once it is not waited for them any more.
    others: Others,
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A quorum keeps it for good.
    Persisted,
    /// It was gone before.
    Refused,
    /// Too few masters answered to know.
    Unavailable { answered: usize, others: Others },
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

    /// The vote timeout has passed, or, with `is_last`, the patience. Who is silent would decide, and is waited for until
    /// then.
    pub(super) fn deadline(&mut self, is_last: bool) -> Option<Verdict> {
        let tally = self.tally.as_mut().filter(|_| is_last && self.verdict.is_none())?;
        self.others = Others::of(Some(tally.pending()));
        let verdict = tally.close();
        Some(self.decided(verdict))
    }

    fn decided(&mut self, verdict: tally::Verdict) -> Verdict {
        let answered = self.tally.as_ref().map_or(0, Tally::answered);
        let verdict = match verdict {
            tally::Verdict::Granted => Verdict::Persisted,
            tally::Verdict::Refused => Verdict::Refused,
            tally::Verdict::Undecided => Verdict::Unavailable { answered, others: self.others },
        };
        *self.verdict.insert(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::quorum::MasterId;

    fn vote(persist: &mut Persist, master: usize, answer: &Answer<'_>) -> Option<Verdict> {
        let (master, answer) = (MasterId::new(master), Some(answer));
        let received = Received { master, round: 1, answer, raw: b"", now: clock::now() };
        persist.vote(received, true)
    }

    #[test]
    fn a_silent_master_that_decides_is_waited_for_until_the_patience_ends() {
        let mut persist = Persist::default();
        persist.ask(Quorum::of(3), MasterSet::first(3));
        assert_eq!(vote(&mut persist, 0, &Answer::Int(0)), None);
        assert_eq!(vote(&mut persist, 2, &Answer::Int(1)), None);
        assert_eq!(persist.deadline(false), None);
        assert_eq!(vote(&mut persist, 1, &Answer::Int(1)), Some(Verdict::Persisted));

        let mut persist = Persist::default();
        persist.ask(Quorum::of(3), MasterSet::first(3));
        vote(&mut persist, 0, &Answer::Int(0));
        let silent = Verdict::Unavailable { answered: 1, others: Others::Silent };
        assert_eq!(persist.deadline(true), Some(silent));
    }
}
