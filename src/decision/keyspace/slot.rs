//! A master's record of a key, and the requests that change it.
//!
//! A script executes each request: atomically for all its keys together, and without any change if it refuses. The mark
//! is checked before it.

use super::Program;
use super::remembered::Remembered;
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// Content of a register and its history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Program> {
    /// Ballot under which the state was accepted. Equal ballots mean equal states.
    pub accepted: Ballot,
    /// Accepted ballot of the state that the last program ran on. That state was decided, and no later one was unless
    /// this one is.
    pub basis: Ballot,
    /// Current value.
    pub value: P::Value,
    /// Last programs that led to the value.
    pub recent: Remembered<P::Reply>,
    /// Dependencies that were accepted with the state; `None` once a quorum is known to hold it.
    pub open: Option<Open<P>>,
    /// Time until which the value stays at least, in microseconds on the clock of the master that keeps it, which no
    /// other process reads. A state that is shown or sent has the remaining time instead. 0 if the value has no end.
    pub stays_us: u64,
}

/// Dependencies of a state that is not known to be decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Open<P: Program> {
    /// Keys of the last program, including this one, with the ballots under which it ran.
    pub group: Vec<(P::Key, Ballot)>,
    /// Lease that the program found under this key.
    pub found: Option<P::Lease>,
    /// End of the value that the program found, in microseconds since the Unix epoch.
    pub until_us: Option<u64>,
    /// Whether that lease is still there, because the program only read it.
    pub is_kept: bool,
}

/// One master's view of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sight<P: Program> {
    /// Last accepted state.
    pub state: State<P>,
    /// Ballot up to which it is unknown what ran, if nothing was accepted.
    pub floor: Ballot,
    /// Whether the value has gone from under its stamp.
    pub is_gone: bool,
    /// Lease that the key holds.
    pub lease: Option<P::Lease>,
    /// Last flush of the key's database: nothing in the view is older.
    pub flush: u64,
}

/// Request to run a program on a master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Apply<P: Program> {
    /// Program to run.
    pub program: P,
    /// Required content of each of its keys.
    pub basis: Vec<Basis<P>>,
    /// Time at which the program runs, not before that of any of its ballots.
    pub now_us: u64,
    /// Next ballot, promised along with the run. It saves the next attempt a round trip (Rystsov 2018, 2.2.1). It is
    /// not before `now_us`.
    pub next: Ballot,
}

/// Content that a program expects under a key, and the ballot under which it may change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Basis<P: Program> {
    /// Accepted ballot of the state.
    pub accepted: Ballot,
    /// Expected lease.
    pub lease: Option<P::Lease>,
    /// Ballot that a quorum has promised.
    pub ballot: Ballot,
    /// Flush after which the quorum promised that ballot.
    pub flush: u64,
}

/// States sent to masters that may lack them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adopt<P: Program> {
    /// State of each key. Its accepted ballot is the adopter's own, not the ballot under which it was found.
    pub states: Vec<Adopted<P>>,
    /// Next ballot, promised along with the states.
    pub next: Ballot,
}

/// State of one key to adopt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adopted<P: Program> {
    /// Name of the key.
    pub key: P::Key,
    /// Ballot under which the state was found.
    pub from: Ballot,
    /// State to accept.
    pub state: State<P>,
    /// Leases that nobody holds any more ([`remains`](super::remains)): they are removed first.
    pub over: Vec<P::Lease>,
    /// Flush after which a quorum promised the ballot that the state is accepted under.
    pub flush: u64,
}

/// Result of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ran<P: Program> {
    /// Reply of the program.
    pub reply: P::Reply,
    /// Whether the program has written anything, so that its keys were accepted.
    pub wrote: bool,
    /// Whether the next ballot is promised: the program has written, or a value that lived at the ballot it ran under
    /// had ended by the time it ran. Otherwise nothing has changed, and the promise that it ran on still stands.
    pub is_promised: bool,
}

/// Reason why a script changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Highest ballot promised for any of its keys.
    pub promised: Ballot,
    /// Latest time that may be promised, in microseconds since the Unix epoch: beyond it, something has ended that
    /// still stays by the master's own clock. `None` if any time may be promised.
    pub latest_us: Option<u64>,
}

impl Refusal {
    /// Refusal of a master that has not reported its promises.
    pub const UNTOLD: Self = Self { promised: Ballot::NONE, latest_us: None };
}

impl<P: Program> Default for State<P> {
    fn default() -> Self {
        let (value, recent) = (P::Value::default(), Remembered::default());
        let (accepted, basis) = (Ballot::NONE, Ballot::NONE);
        Self { accepted, basis, value, recent, open: None, stays_us: 0 }
    }
}

impl<P: Program> Sight<P> {
    /// Whether the master has lost a value that has not ended.
    pub fn is_lost(&self, now_us: u64) -> bool {
        self.is_gone && P::lives(&self.state.value, now_us)
    }

    /// Whether `new` may replace this state at `now_us`. An open state comes from a program that ran on exactly what it
    /// found. It is void next to anything else, unless the master does not know whether it had that ([`settle::copy`]).
    /// A decided state that is absent or past its end may be next to any lease.
    ///
    /// [`settle::copy`]: super::settle::copy
    pub fn has_room_for(&self, new: &State<P>, now_us: u64) -> bool {
        self.has_room_beside(self.lease_under(new), new, now_us)
    }

    /// Returns the lease that the master has once `new` has replaced its state.
    pub(super) fn lease_under(&self, new: &State<P>) -> Option<&P::Lease> {
        lease_without(&self.state, self.lease.as_ref(), new)
    }

    /// Whether `new` may replace this state at `now_us` if `lease` is the lease that the master then has.
    pub fn has_room_beside(&self, lease: Option<&P::Lease>, new: &State<P>, now_us: u64) -> bool {
        let is_unknown = new.ran().is_some_and(|ran| self.state.recent.fate(ran) == Fate::NotKnown);
        match &new.open {
            Some(_) if self.may_have_been_claimed(new, is_unknown, now_us) => false,
            Some(open) => open.found.as_ref() == lease || lease.is_none() && is_unknown,
            None => lease.is_none() || !P::lives(&new.value, now_us),
        }
    }

    /// Whether claims may have found nothing here and have gone again. The time in question is between the end of the
    /// value that an open program found and the end of the value that it left. A master that does not know whether the
    /// program ran here does not know how long the value has existed, either.
    fn may_have_been_claimed(&self, new: &State<P>, is_unknown: bool, now_us: u64) -> bool {
        let is_there = P::is_present(&self.state.value) && !self.is_gone;
        let was_there = is_there && !is_unknown;
        let until_us = new.open.as_ref().and_then(|open| open.until_us);
        !was_there
            && until_us.is_some_and(|end_us| end_us <= now_us && P::lives(&new.value, end_us))
    }
}

/// Returns the lease that a master has once `new` has replaced its state. A program that is not part of `new` has not
/// taken over the lease that it found. That lease may have been counted as a vote, so it comes back.
pub fn lease_without<'a, P: Program>(
    old: &'a State<P>,
    lease: Option<&'a P::Lease>,
    new: &State<P>,
) -> Option<&'a P::Lease> {
    let is_part = |ran| matches!(new.recent.fate(ran), Fate::Ran(_));
    let open = old.open.as_ref().filter(|open| !open.is_kept && !old.ran().is_some_and(is_part));
    lease.or(open.and_then(|open| open.found.as_ref()))
}

impl<P: Program> State<P> {
    /// Returns the ballot under which the last program ran, if any is remembered.
    pub fn ran(&self) -> Option<Ballot> {
        self.recent.last()
    }

    /// Whether a state that is shown or sent like this is given to a master that lacks it: it lives at `now_us`, or
    /// still stays.
    pub fn stays(&self, now_us: u64) -> bool {
        P::lives(&self.value, now_us) || P::is_present(&self.value) && self.stays_us > 0
    }

    /// Returns the state of a master that has accepted nothing, as far as it knows, and does not know what happened up
    /// to `ballot`.
    pub fn unknown_up_to(ballot: Ballot) -> Self {
        Self { recent: Remembered::default().without_those_before(ballot), ..Self::default() }
    }

    /// Returns the state as that of a master that does not know whether it ever accepted it, taken over from a lease.
    /// Its ballot is older than any accepted state, and differs from that of any copy given at another time.
    pub(super) fn as_unknown(&self, lease: Option<P::Lease>, given_us: u64) -> Self {
        let accepted = Ballot { epoch: 0, counter: 0, worker: given_us };
        let recent = Remembered::default().without_those_before(self.accepted);
        let open = self.open.clone();
        let open = open.map(|open| Open { found: lease, is_kept: false, ..open });
        Self { accepted, basis: Ballot::NONE, recent, open, ..self.clone() }
    }

    /// Whether a master with this state knows what it had accepted after `ballot`.
    pub fn knows_what_followed(&self, ballot: Ballot) -> bool {
        self.recent.reaches(self.accepted.max(ballot))
    }
}
