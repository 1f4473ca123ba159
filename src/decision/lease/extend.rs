//! Extending a lease: a quorum must still hold one attempt with the client's token.
//!
//! An extension waits for a silent minority only while it decides: there is no quorum for a yes or a no, and the
//! missing answers would make one. Waiting is safe, because a quorum that agrees after the freshness is asked again.
//!
//! A copy keeps the longer end, so some copies may end later than the client wants. A quorum of them is shortened
//! before the client gets its reply. Nothing is sent after the reply, since it would undo the client's next request. A
//! minority keeps the longer end.
//!
//! Nothing is taken back. An extension that too few masters answered is an error, and the longer end stays where it was
//! set: that is the safe side.

use std::time::Duration;

use super::attempt::Attempt;
use super::claim::Terms;
use super::holders::Holders;
use crate::decision::quorum::{MasterId, MasterSet};

/// One master's answer to an extension. An answer without its proof is [`Vote::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// The key holds the token, and its attempt was extended.
    Extended(Attempt),
    /// The key holds the token, and ends later than the client wants.
    EndsLater(Attempt),
    /// The key is absent or holds another token.
    Refused,
    /// No trustworthy answer, now or later.
    Unknown,
}

/// Next action of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Wait for the next vote or the deadline.
    Wait,
    /// A quorum agreed too late, or masters vote by now: send the extension again with the next round's number, and call
    /// [`Extend::ask`].
    Afresh,
    /// A quorum agreed, but not to so early an end: shorten the lease on these masters, and call [`Extend::shortened`].
    Shorten(MasterSet),
    /// A quorum has extended this attempt.
    Extended(Attempt),
    /// No quorum holds the token.
    Refused,
    /// Too few masters answered in time: the outcome is unknown.
    Unavailable {
        /// Number of masters that voted yes or no.
        answered: usize,
    },
}

/// State of one extension in progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extend {
    terms: Terms,
    /// Time of the client's request.
    began: Duration,
    /// Time at which the current round was sent.
    sent: Duration,
    freshness: Duration,
    /// Number of the round, which distinguishes late answers from current ones.
    round: u8,
    pending: MasterSet,
    holders: Holders,
    refused: MasterSet,
    /// Masters whose copy ends later than the client wants.
    later: MasterSet,
    /// Those among `later` that were asked to shorten their copy and have not answered.
    told: MasterSet,
    is_shortening: bool,
    is_open: bool,
    /// Whether another round may get more answers, see [`Extend::expect_more`].
    may_get_more: bool,
}

impl Extend {
    /// Creates an extension that was sent to `asked` at `now`, with a pad on the masters' TTL that covers `freshness`.
    pub fn new(terms: Terms, freshness: Duration, asked: MasterSet, now: Duration) -> Self {
        Self {
            terms,
            began: now,
            sent: now,
            freshness,
            round: 0,
            pending: asked,
            holders: Holders::default(),
            refused: MasterSet::EMPTY,
            later: MasterSet::EMPTY,
            told: MasterSet::EMPTY,
            is_shortening: false,
            is_open: true,
            may_get_more: false,
        }
    }

    /// Starts the next round, which was sent to `asked`. Its pad covers [`Extend::freshness`].
    pub fn ask(&mut self, asked: MasterSet, now: Duration) {
        let Self { terms, began, freshness, round, .. } = *self;
        *self = Self { began, round, ..Self::new(terms, freshness, asked, now) };
    }

    /// Returns the round that answers must name to be current.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// Returns how long after sending a quorum's yes still confirms the current or next round.
    pub fn freshness(&self) -> Duration {
        self.freshness
    }

    /// Returns the time at which to call [`Extend::tick`] unless votes decide earlier.
    pub fn deadline(&self) -> Option<Duration> {
        let patience = self.began + self.terms.patience;
        let rest = self.is_resting().then_some(self.sent + self.terms.vote_timeout);
        self.is_open.then_some(rest.map_or(patience, |rest| rest.min(patience)))
    }

    /// Records whether another round may get more answers: members have yet to vote, or a link was lost, or an answer did
    /// not count.
    pub fn expect_more(&mut self, may_get_more: bool) {
        self.may_get_more = may_get_more;
    }

    /// Returns the masters that owe an answer to the current round.
    pub fn pending(&self) -> MasterSet {
        self.pending.union(self.told)
    }

    /// Returns the attempt that a quorum has extended.
    pub fn attempt(&self) -> Option<Attempt> {
        self.holders.of_quorum(self.terms.quorum)
    }

    /// Returns the masters that were asked to shorten their copy and have not answered.
    pub fn told(&self) -> MasterSet {
        self.told
    }

    /// Records one master's answer to `round`.
    pub fn vote(&mut self, round: u8, master: MasterId, vote: Vote, now: Duration) -> Step {
        if round != self.round || !self.pending.contains(master) {
            return Step::Wait;
        }
        self.pending.remove(master);
        match vote {
            Vote::EndsLater(attempt) => {
                self.holders.insert(attempt, master);
                self.later.insert(master);
            }
            Vote::Extended(attempt) => self.holders.insert(attempt, master),
            Vote::Refused => self.refused.insert(master),
            Vote::Unknown => {}
        }
        self.tick(now)
    }

    /// Records one master's answer to `round`: whether its copy now ends as soon as the client wants.
    pub fn shortened(&mut self, round: u8, master: MasterId, is_so: bool, now: Duration) -> Step {
        if round != self.round || !self.told.contains(master) {
            return Step::Wait;
        }
        self.told.remove(master);
        if is_so {
            self.later.remove(master);
        }
        self.tick(now)
    }

    /// Forgets the answers of masters that went out of the cluster after them. Returns whether there was still something
    /// to decide.
    pub fn forget(&mut self, masters: MasterSet) -> bool {
        if self.is_open {
            self.holders.forget(masters);
            for set in [&mut self.refused, &mut self.later, &mut self.told] {
                *set = set.without(masters);
            }
            self.may_get_more = true;
        }
        self.is_open
    }

    /// Decides at the deadline.
    pub fn tick(&mut self, now: Duration) -> Step {
        if self.is_open { self.decide(now) } else { Step::Wait }
    }

    /// Re-decides an extension whose reply is delayed. Past the freshness, the client would trust the lease for longer
    /// than the masters keep their copies.
    pub fn untold(&mut self, now: Duration) -> Step {
        let is_done = !self.is_open && self.ends_in_time() && self.attempt().is_some();
        let is_fresh = now - self.sent <= self.freshness;
        if is_done && !is_fresh { self.decide(now) } else { Step::Wait }
    }

    fn decide(&mut self, now: Duration) -> Step {
        let step = self.verdict(now);
        self.is_open = matches!(step, Step::Wait | Step::Shorten(_));
        match step {
            Step::Afresh => {
                if self.attempt().is_some() {
                    self.freshness *= 2;
                }
                self.round = self.round.wrapping_add(1);
            }
            Step::Shorten(masters) => (self.told, self.is_shortening) = (masters, true),
            _ => {}
        }
        step
    }

    fn verdict(&self, now: Duration) -> Step {
        let is_over = now >= self.began + self.terms.patience;
        if let Some(attempt) = self.attempt() {
            let is_fresh = now - self.sent <= self.freshness;
            let may_change = !self.pending.is_empty() || !self.told.is_empty();
            return match (is_fresh, self.ends_in_time()) {
                (true, true) => Step::Extended(attempt),
                _ if is_over => self.unavailable(),
                (false, _) => Step::Afresh,
                (true, false) if !self.is_shortening => Step::Shorten(self.later),
                (true, false) if may_change => Step::Wait,
                (true, false) => self.unavailable(),
            };
        }
        if self.is_impossible() {
            Step::Refused
        } else if self.is_resting() && !is_over {
            if now >= self.sent + self.terms.vote_timeout { Step::Afresh } else { Step::Wait }
        } else if self.pending.is_empty() || is_over {
            self.unavailable()
        } else {
            Step::Wait
        }
    }

    /// Whether every master has answered, and another round may get more answers.
    fn is_resting(&self) -> bool {
        self.pending.is_empty() && self.told.is_empty() && self.may_get_more
    }

    /// Whether a quorum of masters has answered and keeps no copy for longer than the client wants.
    fn ends_in_time(&self) -> bool {
        self.terms.quorum.reached_by(self.answered().without(self.later))
    }

    /// Whether no attempt can have a quorum, whatever the silent masters hold.
    fn is_impossible(&self) -> bool {
        let quorum = self.terms.quorum;
        let silent = quorum.everybody().without(self.answered());
        !quorum.reached_by(silent) && self.holders.could_reach(quorum, silent).is_none()
    }

    fn unavailable(&self) -> Step {
        let late = if self.is_shortening { self.later } else { MasterSet::EMPTY };
        Step::Unavailable { answered: self.answered().without(late).len() }
    }

    fn answered(&self) -> MasterSet {
        self.holders.all().union(self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::attempt::WorkerId;
    use crate::decision::quorum::Quorum;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn yes(counter: u64) -> Vote {
        Vote::Extended(Attempt::new(WorkerId::new(1), counter))
    }

    fn extend() -> Extend {
        let (vote_timeout, patience) = (ms(50), ms(1_500));
        let terms = Terms { quorum: Quorum::of(3), vote_timeout, patience, retries: 0 };
        Extend::new(terms, ms(50), MasterSet::first(3), ms(0))
    }

    fn cast(extend: &mut Extend, votes: &[(Vote, u64)]) -> Step {
        let round = extend.round();
        votes.iter().enumerate().fold(Step::Wait, |_, (index, (vote, at))| {
            extend.vote(round, MasterId::new(index), *vote, ms(*at))
        })
    }

    #[test]
    fn a_quorum_that_holds_one_attempt_extends_it() {
        let Vote::Extended(attempt) = yes(7) else { unreachable!() };
        assert_eq!(cast(&mut extend(), &[(yes(7), 1), (yes(7), 50)]), Step::Extended(attempt));
        assert_eq!(cast(&mut extend(), &[(Vote::Refused, 1), (Vote::Refused, 1)]), Step::Refused);
        let mixed = [(yes(7), 1), (yes(8), 1), (Vote::Refused, 1)];
        assert_eq!(cast(&mut extend(), &mixed), Step::Refused);
    }

    fn later(counter: u64) -> Vote {
        Vote::EndsLater(Attempt::new(WorkerId::new(1), counter))
    }

    #[test]
    fn a_quorum_lets_it_end_as_soon_as_the_client_wants() {
        let Vote::Extended(attempt) = yes(7) else { unreachable!() };
        let of = |indices: &[usize]| indices.iter().copied().map(MasterId::new).collect();
        let mut extend = extend();
        assert_eq!(cast(&mut extend, &[(later(7), 1), (later(7), 1)]), Step::Shorten(of(&[0, 1])));
        assert_eq!((extend.told(), extend.deadline()), (of(&[0, 1]), Some(ms(1_500))));
        assert_eq!(
            extend.shortened(0, MasterId::new(2), true, ms(2)),
            Step::Wait,
            "it was not told"
        );
        assert_eq!(extend.shortened(0, MasterId::new(0), true, ms(2)), Step::Wait);
        assert_eq!(extend.shortened(0, MasterId::new(0), true, ms(2)), Step::Wait, "said twice");
        assert_eq!(extend.shortened(0, MasterId::new(1), true, ms(2)), Step::Extended(attempt));
        assert_eq!(extend.vote(0, MasterId::new(2), later(7), ms(3)), Step::Wait);
    }

    #[test]
    fn without_a_master_that_went_out_the_others_extend_it() {
        let of = |indices: &[usize]| indices.iter().copied().map(MasterId::new).collect();
        let Vote::Extended(attempt) = yes(7) else { unreachable!() };
        let third = |vote| {
            let mut extend = extend();
            assert_eq!(extend.vote(0, MasterId::new(0), yes(7), ms(1)), Step::Wait);
            assert!(extend.forget(of(&[0])));
            assert_eq!(extend.vote(0, MasterId::new(1), yes(7), ms(1)), Step::Wait);
            let step = extend.vote(0, MasterId::new(2), vote, ms(1));
            (extend, step)
        };
        assert_eq!(third(yes(7)).1, Step::Extended(attempt));
        let (mut again, step) = third(Vote::Refused);
        assert_eq!((step, again.deadline()), (Step::Wait, Some(ms(50))));
        assert_eq!(again.tick(ms(50)), Step::Afresh, "its place may be taken by now");
        assert_eq!(again.freshness(), ms(50));
        again.ask(of(&[0, 1, 2]), ms(50));
        again.vote(1, MasterId::new(2), Vote::Refused, ms(51));
        again.vote(1, MasterId::new(1), yes(7), ms(51));
        assert_eq!(again.vote(1, MasterId::new(0), Vote::Unknown, ms(51)), unanswered(2));
        assert!(!again.forget(of(&[1])), "the client has its answer");
    }

    fn unanswered(answered: usize) -> Step {
        Step::Unavailable { answered }
    }

    #[test]
    fn the_third_master_may_say_that_it_ends_in_time() {
        let mut fits = extend();
        cast(&mut fits, &[(later(7), 1), (yes(7), 1)]);
        assert!(matches!(fits.vote(0, MasterId::new(2), yes(7), ms(2)), Step::Extended(_)));
    }

    #[test]
    fn what_may_end_later_than_the_client_is_told_is_an_error() {
        let mut silent = extend();
        cast(&mut silent, &[(later(7), 1), (later(7), 1)]);
        assert_eq!(silent.tick(ms(1_500)), Step::Unavailable { answered: 0 });
        let mut lost = extend();
        cast(&mut lost, &[(later(7), 1), (later(7), 1)]);
        lost.vote(0, MasterId::new(2), Vote::Unknown, ms(2));
        lost.shortened(0, MasterId::new(0), true, ms(2));
        let step = lost.shortened(0, MasterId::new(1), false, ms(2));
        assert_eq!(step, Step::Unavailable { answered: 1 });
        let mut slow = extend();
        cast(&mut slow, &[(later(7), 1), (later(7), 1)]);
        assert_eq!(slow.shortened(0, MasterId::new(0), true, ms(51)), Step::Afresh);
    }

    #[test]
    fn a_late_quorum_is_asked_again_with_twice_the_freshness() {
        let mut extend = extend();
        assert_eq!(cast(&mut extend, &[(yes(7), 60), (yes(7), 60)]), Step::Afresh);
        assert_eq!((extend.freshness(), extend.deadline()), (ms(100), None));
        extend.ask(MasterSet::first(3), ms(60));
        assert_eq!(extend.vote(0, MasterId::new(2), yes(7), ms(61)), Step::Wait);
        assert!(matches!(cast(&mut extend, &[(yes(7), 160), (yes(7), 160)]), Step::Extended(_)));
    }

    #[test]
    fn what_cannot_be_told_in_time_is_asked_again() {
        let mut extend = extend();
        assert_eq!(extend.untold(ms(60)), Step::Wait, "nothing is decided");
        cast(&mut extend, &[(yes(7), 1), (yes(7), 1)]);
        assert_eq!(extend.untold(ms(50)), Step::Wait);
        assert_eq!(extend.untold(ms(51)), Step::Afresh);
        assert_eq!((extend.freshness(), extend.round()), (ms(100), 1));
        extend.ask(MasterSet::first(3), ms(51));
        assert_eq!(extend.untold(ms(1_000)), Step::Wait, "nothing is decided");
    }

    #[test]
    fn a_silent_master_that_decides_is_waited_for() {
        let split = [(yes(7), 1), (Vote::Refused, 60)];
        let third = |extend: &mut Extend, vote, at| extend.vote(0, MasterId::new(2), vote, ms(at));
        let (mut holds, mut lost) = (extend(), extend());
        assert_eq!(cast(&mut holds, &split), Step::Wait);
        assert_eq!((holds.deadline(), holds.tick(ms(61))), (Some(ms(1_500)), Step::Wait));
        assert_eq!(third(&mut holds, yes(7), 150), Step::Afresh, "it is late");
        cast(&mut lost, &split);
        assert_eq!(third(&mut lost, Vote::Refused, 150), Step::Refused);
    }

    #[test]
    fn an_extension_that_could_be_either_is_an_error() {
        let mut split = extend();
        cast(&mut split, &[(yes(7), 1), (Vote::Refused, 1)]);
        assert_eq!(split.tick(ms(1_500)), Step::Unavailable { answered: 2 });
        assert_eq!(split.tick(ms(1_600)), Step::Wait);
        let nobody_left = [(yes(7), 1), (Vote::Refused, 1), (Vote::Unknown, 1)];
        assert_eq!(cast(&mut extend(), &nobody_left), Step::Unavailable { answered: 2 });
        let mut silent = extend();
        cast(&mut silent, &[(yes(7), 1)]);
        assert_eq!((silent.deadline(), silent.tick(ms(1_499))), (Some(ms(1_500)), Step::Wait));
        assert_eq!(silent.tick(ms(1_500)), Step::Unavailable { answered: 1 });
        let unknown = [(yes(7), 1), (Vote::Unknown, 1), (Vote::Unknown, 1)];
        assert_eq!(cast(&mut extend(), &unknown), Step::Unavailable { answered: 1 });
        let too_late = [(yes(7), 1), (yes(7), 1_500)];
        assert_eq!(cast(&mut extend(), &too_late), Step::Unavailable { answered: 2 });
    }
}
