//! The knowledge of one proxy about the masters, and the voters that follow from it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::FIRST_VERSION;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::decision::roster::admission::Shown;
use crate::decision::roster::mark::{Mark, Proof};
use crate::decision::roster::noted::ClockNote;
use crate::decision::roster::roster::Roster;
use crate::decision::roster::seats::{Seats, is_strange};
use crate::decision::roster::term::Term;
use crate::masters::facts::{Bar, Facts};
use crate::masters::probe_signal::Looks;
use crate::masters::roster::copy::Progress;
use crate::masters::roster::marks::Marks;
use crate::masters::standing::{Cause, MasterStanding};
use crate::operation::verdict::Obstacle;
use crate::time::clock::Instant;
use crate::time::clocks::Clocks;

/// Everything that decides which masters vote.
#[derive(Debug)]
pub(super) struct State {
    pub(super) masters: Vec<Known>,
    pub(super) clocks: Clocks,
    /// Roster by which votes are counted.
    pub(super) roster: Roster,
    pub(super) seats: Seats,
    pub(super) serves: bool,
    /// Reason why this proxy does not serve yet.
    pub(super) waits: Option<Obstacle>,
    /// Reason why this proxy will never serve.
    pub(super) refusal: Option<String>,
    /// Whether the roster began anew from the surviving data while this process ran.
    pub(super) may_have_lost_data: bool,
    pub(super) term: Arc<Term>,
}

/// A master's state as last observed.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) facts: Option<Facts>,
    /// Result of the last probe, unless the master has stopped answering since.
    pub(super) sight: Option<MasterSight>,
    /// Finding that the master's mark does not show.
    pub(super) doubt: Option<Cause>,
    /// Whether the master's clock is too far ahead.
    pub(super) is_ahead: bool,
    pub(super) standing: MasterStanding,
    pub(super) since: Instant,
}

/// Result of a probe.
#[derive(Clone, Debug)]
pub struct MasterSight {
    /// The master's marks.
    pub marks: Marks,
    /// The master's description of itself.
    pub facts: Facts,
    /// Whether a proxy of the previous version is connected.
    pub has_older: bool,
    /// Another proxy's note about the clocks on this master, if one was requested.
    pub note: Option<ClockNote>,
}

/// State used only for display or for waiting.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Microseconds between the last question and its answer.
    pub(super) latency_us: AtomicU64,
    /// Number of keys copied to the master.
    pub(super) copied: AtomicU64,
    /// Number of probations, by [`Cause::kind`].
    pub(super) probations: [AtomicU64; Cause::KINDS.len()],
    pub(super) progress: Arc<Progress>,
    pub(super) looks: Looks,
}

impl MasterSight {
    /// Converts the result to the form that decisions use.
    pub fn shown(&self, address: String) -> Shown {
        let mark = self.marks.mark().filter(|_| self.facts.bar.is_none());
        Shown { mark: mark.cloned(), run_id: self.facts.run_id.clone(), address }
    }
}

impl State {
    pub(super) fn standing(&self, at: usize) -> MasterStanding {
        let known = &self.masters[at];
        if let Some(bar) = known.facts.as_ref().and_then(|facts| facts.bar.clone()) {
            return MasterStanding::Barred(bar);
        }
        if !self.serves || self.refusal.is_some() || self.clocks.wants_notes() {
            return MasterStanding::Waiting;
        }
        if known.is_ahead {
            return MasterStanding::Barred(Bar::Ahead);
        }
        let Some(place) = self.seats.get(at).copied().flatten() else { return self.stranger(at) };
        let Some(member) = self.roster.member(place) else { return MasterStanding::Waiting };
        if let Some(cause) = &known.doubt {
            return match &known.standing {
                MasterStanding::Probation(before) if before.kind() == cause.kind() => {
                    MasterStanding::Probation(before.clone())
                }
                _ => MasterStanding::Probation(cause.clone()),
            };
        }
        let forgot = |cause| match &known.standing {
            MasterStanding::Probation(before) => MasterStanding::Probation(before.clone()),
            _ => MasterStanding::Probation(cause),
        };
        if let Some(since) = self.roster.out_since(place) {
            return forgot(match &known.facts {
                _ if member.is_new() => Cause::Replaced,
                Some(facts) if facts.run_id != member.run_id => Cause::Restarted,
                _ if since <= FIRST_VERSION => Cause::Young,
                _ => Cause::Elsewhere,
            });
        }
        if known.facts.as_ref().is_some_and(|facts| facts.run_id != member.run_id) {
            return forgot(Cause::Restarted);
        }
        match &known.sight {
            // Each vote carries its own proof.
            None => match &known.standing {
                MasterStanding::Probation(cause) => MasterStanding::Probation(cause.clone()),
                _ => MasterStanding::Voter,
            },
            Some(sight) if self.remembers(place, sight.marks.mark()) => MasterStanding::Voter,
            Some(_) => forgot(Cause::Flushed),
        }
    }

    /// Returns the masters whose clocks count: the voters, and those excluded for being too far ahead. Leaving the
    /// latter out would shift the median to another clock.
    pub(super) fn timekeepers(&self) -> MasterSet {
        let all = (0..self.masters.len()).map(MasterId::new);
        let ahead = all.filter(|it| self.masters[it.index()].is_ahead).collect();
        self.term.voters().union(ahead)
    }

    fn stranger(&self, at: usize) -> MasterStanding {
        let Some(sight) = &self.masters[at].sight else { return MasterStanding::Waiting };
        let shown = sight.shown(String::new());
        MasterStanding::Stranger(match is_strange(&self.roster, &shown) {
            true => "it belongs to another cluster of masters",
            false => "it is not a member of the other masters' cluster",
        })
    }

    /// Whether a mark of any version shows that its member remembers.
    fn remembers(&self, place: MasterId, mark: Option<&Mark>) -> bool {
        let Some(expected) = Mark::expected(&self.roster, place, 0) else { return false };
        let Some(mark) = mark else { return false };
        let is_newer = mark.version().is_some_and(|version| version > self.roster.version);
        is_newer || mark.proves_same(&expected) || mark.missed_a_raise_to(&expected)
    }

    /// Returns the masters of the list that have a seat. For seats of nobody, and of members that the list lacks, there
    /// are places of nobody.
    fn seated(&self) -> MasterSet {
        let places = (0..self.seats.len()).map(MasterId::new);
        let (members, others): (Vec<_>, Vec<_>) =
            places.partition(|at| self.seats[at.index()].is_some());
        let has_seat = |at: &MasterId| {
            let member = self.seats[at.index()].and_then(|place| self.roster.member(place));
            member.is_some_and(|member| member.has_seat() && member.is_somebody())
        };
        let seated = members.into_iter().filter(has_seat);
        seated.chain(others.into_iter().rev()).take(self.roster.seats()).collect()
    }

    pub(super) fn next_term(&self) -> Term {
        let has_room = self.roster.seats() <= self.masters.len();
        if !self.serves || self.refusal.is_some() || !has_room {
            return Term::default();
        }
        let proofs = self.masters.iter().enumerate().map(|(at, known)| {
            let place = self.seats.get(at).copied().flatten();
            let databases = known.facts.as_ref().map_or(0, |facts| facts.databases);
            let due = |db| Some(Proof::due(&self.roster, place?, db)?.of(MasterId::new(at)));
            match known.standing {
                MasterStanding::Voter => (0..databases).map_while(due).collect(),
                _ => Vec::new(),
            }
        });
        let has_no_seat = |(_, seat): &(usize, &Option<MasterId>)| seat.is_none();
        let strangers = self.seats.iter().enumerate().filter(has_no_seat);
        let strangers = strangers.map(|(at, _)| MasterId::new(at)).collect();
        Term::new(self.roster.version, proofs.collect())
            .judged_by(self.clocks.begun())
            .beside(strangers)
            .seated(self.seated(), self.roster.seating)
    }
}
