//! A master's record of a key, and the effect of the scripts on it.
//!
//! The functions of [`Slots`] are the specification of the scripts. Each is atomic on the master, for all its keys
//! together, and changes nothing if it refuses. The mark is checked before any of them.

use std::collections::BTreeMap;

use super::remembered::{Keep, Remembered};
use super::{Program, Runs, Seen};
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// Keys of one database of one master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots<P: Program> {
    pub(super) keys: BTreeMap<P::Key, Slot<P>>,
    /// Highest promise of any dropped stamp ([`tombstone`](super::tombstone)). It is stored in the tail of the mark.
    pub(super) floor: Ballot,
    /// Counter of the last flush ([`flush`](super::flush)). It is stored in the tail of the mark, too.
    pub(super) flush: u64,
}

/// Record of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot<P: Program> {
    /// Highest promised ballot. The master accepts nothing below it any more.
    pub promised: Ballot,
    /// Ballot up to which it is unknown what ran: the floor of the database, as long as nothing was accepted.
    pub floor: Ballot,
    /// Last accepted state.
    pub state: State<P>,
    /// Whether the value has gone from under its stamp: removed after its end, or lost.
    pub is_gone: bool,
    /// Lease that the key holds. There is none next to a register that is present.
    pub lease: Option<P::Lease>,
}

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

impl<P: Program> Default for Slots<P> {
    fn default() -> Self {
        Self { keys: BTreeMap::new(), floor: Ballot::NONE, flush: 0 }
    }
}

impl<P: Program> Default for Slot<P> {
    fn default() -> Self {
        let (promised, floor, state) = (Ballot::NONE, Ballot::NONE, State::default());
        Self { promised, floor, state, is_gone: false, lease: None }
    }
}

impl<P: Program> Default for State<P> {
    fn default() -> Self {
        let (value, recent) = (P::Value::default(), Remembered::default());
        let (accepted, basis) = (Ballot::NONE, Ballot::NONE);
        Self { accepted, basis, value, recent, open: None, stays_us: 0 }
    }
}

impl<P: Program> Slots<P> {
    /// Returns the master's record of `key`.
    pub fn get(&self, key: &P::Key) -> Slot<P> {
        let mut slot = self.keys.get(key).cloned().unwrap_or_default();
        slot.rise_to(self.floor);
        slot
    }

    /// Returns the master's record of `key`, for changes.
    pub fn of(&mut self, key: &P::Key) -> &mut Slot<P> {
        let slot = self.keys.entry(key.clone()).or_default();
        slot.rise_to(self.floor);
        slot
    }

    /// Iterates over the keys that have a record.
    pub fn iter(&self) -> impl Iterator<Item = (&P::Key, &Slot<P>)> {
        self.keys.iter()
    }

    /// Promises `ballot` for all of `keys`, and returns the sights that the promise is about. `met` is the highest
    /// flush that another master has shown: if this master has missed it, the flush happens first. `own_us` is the time
    /// on the master's own clock.
    ///
    /// # Errors
    /// Returns an error if this ballot or a higher one was promised for one of the keys, or if it is beyond the end of
    /// a value that still stays.
    pub fn prepare(
        &mut self,
        keys: &[P::Key],
        ballot: Ballot,
        met: u64,
        own_us: u64,
    ) -> Result<Vec<Sight<P>>, Refusal> {
        self.flush(met);
        let refusal = self.refusal(keys, ballot, own_us);
        if refusal.promised >= ballot || refusal.latest_us.is_some() {
            return Err(refusal);
        }
        let flush = self.flush;
        Ok(keys.iter().map(|key| self.of(key).promise(ballot, flush, own_us)).collect())
    }

    /// Accepts states unchanged. A value with an end stays as long as it stayed where it came from.
    ///
    /// # Errors
    /// Returns an error if a higher ballot was promised, or a lease holds the place of one of the states. It also
    /// returns one if the states are from before or after another flush, or the next ballot is beyond the end of a
    /// value that still stays.
    pub fn adopt(&mut self, adopt: &Adopt<P>, own_us: u64) -> Result<(), Refusal> {
        let flush = self.flush;
        let may_adopt = |adopted: &Adopted<P>| {
            adopted.flush == flush && self.of(&adopted.key).may_adopt(adopted)
        };
        let are_adopted = adopt.states.iter().all(may_adopt);
        let kept = adopt.states.iter().map(|adopted| self.of(&adopted.key).kept(adopted, own_us));
        let latest_us = kept.filter_map(|state| state.latest_us(adopt.next, own_us)).min();
        if !are_adopted || latest_us.is_some() {
            let keys: Vec<_> = adopt.states.iter().map(|adopted| adopted.key.clone()).collect();
            return Err(Refusal { latest_us, ..self.refusal(&keys, Ballot::NONE, own_us) });
        }
        for adopted in &adopt.states {
            self.of(&adopted.key).adopt(adopted, adopt.next, own_us);
        }
        Ok(())
    }

    /// Takes a lease as `SET NX` does, ignoring stamps. Returns whether the lease was taken.
    pub fn claim(&mut self, key: &P::Key, lease: P::Lease) -> bool {
        let slot = self.of(key);
        let is_free = slot.lease.is_none() && !slot.is_there();
        if is_free {
            slot.lease = Some(lease);
        }
        is_free
    }

    /// Deletes the lease under `key` if `is_meant` accepts it: a release, a take-back, or its expiry. Returns the
    /// lease.
    pub fn give_back(
        &mut self,
        key: &P::Key,
        is_meant: impl FnOnce(&P::Lease) -> bool,
    ) -> Option<P::Lease> {
        let slot = self.of(key);
        slot.lease.take_if(|lease| is_meant(lease))
    }

    /// Loses the value of `key`, but keeps its stamp.
    pub fn lose(&mut self, key: &P::Key) {
        self.of(key).is_gone = true;
    }

    /// Cleans up the value of `key` after its end, as the master's TTL does. From then on claims pass, so nothing older
    /// than the end may be accepted any more: the key counts as promised at its end.
    pub fn clean_up(&mut self, key: &P::Key) {
        let slot = self.of(key);
        slot.is_gone = true;
        slot.promised = slot.promised.max(slot.end());
    }

    /// Returns what keeps the master from promising `ballot` for these keys.
    fn refusal(&mut self, keys: &[P::Key], ballot: Ballot, own_us: u64) -> Refusal {
        let promised = keys.iter().map(|key| self.of(key).promised).max().unwrap_or_default();
        let latest = keys.iter().filter_map(|key| self.of(key).state.latest_us(ballot, own_us));
        Refusal { promised, latest_us: latest.min() }
    }
}

impl<P: Runs> Slots<P> {
    /// Runs a program in place, and remembers as many programs as `keep` allows. If it writes to one of its keys, all
    /// of them are accepted: what it has read must not change before what it wrote is decided.
    ///
    /// # Errors
    /// Returns an error if a higher ballot was promised, or a key does not hold what the program expects. It also
    /// returns one if the promise was given before or after another flush, or the next ballot is beyond the end of a
    /// value that still stays.
    pub fn apply(&mut self, apply: &Apply<P>, keep: Keep, own_us: u64) -> Result<Ran<P>, Refusal> {
        let keys = apply.program.keys();
        let now_us = apply.now_us;
        let flush = self.flush;
        let mut expected = keys.iter().zip(&apply.basis);
        let are_expected = expected
            .all(|(key, basis)| basis.flush == flush && self.of(key).is_expected(basis, now_us));
        let refusal = self.refusal(&keys, apply.next, own_us);
        if !are_expected || refusal.latest_us.is_some() {
            return Err(refusal);
        }
        keys.iter().for_each(|key| self.of(key).clear_ended(now_us));
        let slots: Vec<Slot<P>> = keys.iter().map(|key| self.of(key).clone()).collect();
        let nothing = P::Value::default();
        let seen: Vec<Seen<'_, P>> = slots.iter().map(|slot| slot.seen(now_us, &nothing)).collect();
        let (written, reply) = apply.program.run(&seen, now_us);
        let wrote = written.iter().any(Option::is_some);
        let has_ended =
            |(slot, basis): (&Slot<P>, &Basis<P>)| slot.ends_between(basis.ballot.counter, now_us);
        let is_promised = wrote || slots.iter().zip(&apply.basis).any(has_ended);
        let ballots = apply.basis.iter().map(|basis| basis.ballot);
        let group: Vec<_> = keys.iter().cloned().zip(ballots).collect();
        let stays_us = |value: &P::Value| {
            let end_us = P::end_if_present(value)?;
            let moved = slots.iter().map(|slot| &slot.state);
            let moved = moved.filter(|state| P::end_if_present(&state.value) == Some(end_us));
            // A program may have set the end again to the same value, at a time held back by a promise.
            let stays_us = own_us.saturating_add(end_us.saturating_sub(now_us));
            moved.map(|state| state.stays_us).chain([stays_us]).max()
        };
        for ((key, ballot), value) in group.iter().zip(written) {
            let slot = self.of(key);
            if is_promised {
                slot.promised = apply.next;
            }
            if wrote {
                slot.state.stays_us = match &value {
                    Some(value) => stays_us(value).unwrap_or_default(),
                    None => slot.state.stays_us,
                };
                slot.accept(now_us, *ballot, value, &group, &reply, keep);
            }
        }
        Ok(Ran { reply, wrote, is_promised })
    }
}

impl<P: Program> Slot<P> {
    /// Makes a key without a stamp count as promised at the floor.
    ///
    /// A master that does not know what ran here ([`settle::copy`]) does not know what ran up to the floor either.
    ///
    /// [`settle::copy`]: super::settle::copy
    fn rise_to(&mut self, floor: Ballot) {
        if self.state.accepted == Ballot::NONE {
            let unknown = self.state.recent.dropped();
            self.floor = self.floor.max(floor).max(unknown);
            self.promised = self.promised.max(floor);
            if unknown != Ballot::NONE {
                self.state.recent = self.state.recent.without_those_before(self.floor);
            }
        }
    }

    fn promise(&mut self, ballot: Ballot, flush: u64, own_us: u64) -> Sight<P> {
        self.promised = ballot;
        Sight { flush, ..Sight::of(self, own_us) }
    }

    /// Whether the master has the value, even past its end.
    pub fn is_there(&self) -> bool {
        P::is_present(&self.state.value) && !self.is_gone
    }

    /// Marks a value that has ended for a program as gone.
    fn clear_ended(&mut self, now_us: u64) {
        self.is_gone |= self.is_there() && !P::lives(&self.state.value, now_us);
    }

    fn ends_between(&self, from_us: u64, to_us: u64) -> bool {
        P::lives(&self.state.value, from_us) && !P::lives(&self.state.value, to_us)
    }

    /// Whether the master has lost a value that has not ended.
    fn is_lost(&self, now_us: u64) -> bool {
        self.is_gone && P::lives(&self.state.value, now_us)
    }

    fn seen<'a>(&'a self, now_us: u64, nothing: &'a P::Value) -> Seen<'a, P> {
        match &self.lease {
            Some(lease) => Seen::Lease(lease),
            None if P::lives(&self.state.value, now_us) => Seen::Register(&self.state.value),
            None => Seen::Register(nothing),
        }
    }

    fn is_expected(&self, basis: &Basis<P>, now_us: u64) -> bool {
        self.promised <= basis.ballot
            && self.state.accepted == basis.accepted
            && self.lease == basis.lease
            && !self.is_lost(now_us)
    }

    fn accept(
        &mut self,
        now_us: u64,
        ballot: Ballot,
        value: Option<P::Value>,
        group: &[(P::Key, Ballot)],
        reply: &P::Reply,
        keep: Keep,
    ) {
        let found = self.lease.clone();
        let until_us = P::end_us(&self.state.value).filter(|end_us| now_us < *end_us);
        let is_kept = value.is_none();
        if !is_kept {
            (self.lease, self.is_gone) = (None, false);
        }
        let recent = self.state.recent.without_those_before(self.floor);
        let recent = recent.with(ballot, reply.clone(), !is_kept, keep);
        self.state = State {
            accepted: ballot,
            basis: self.state.accepted,
            value: value.unwrap_or_else(|| self.state.value.clone()),
            recent,
            open: Some(Open { group: group.to_vec(), found, until_us, is_kept }),
            stays_us: self.state.stays_us,
        };
        self.floor = Ballot::NONE;
    }

    fn may_adopt(&self, adopted: &Adopted<P>) -> bool {
        let Adopted { from, state, .. } = adopted;
        let now_us = state.accepted.counter;
        let is_same = self.state.accepted == *from && !self.is_lost(now_us);
        let has_room =
            || Sight::of(self, 0).has_room_beside(self.left_beside(adopted), state, now_us);
        self.promised <= state.accepted && (is_same || has_room())
    }

    fn adopt(&mut self, adopted: &Adopted<P>, next: Ballot, own_us: u64) {
        let Adopted { from, state, over, .. } = adopted;
        let now_us = state.accepted.counter;
        let kept = self.kept(adopted, own_us);
        self.lease.take_if(|lease| over.contains(lease));
        if self.state.accepted != *from || self.is_lost(now_us) {
            self.lease = self.left_beside(adopted).cloned();
            self.is_gone = !P::lives(&state.value, now_us);
        }
        if let Some(open) = state.open.as_ref().filter(|open| !open.is_kept) {
            self.lease.take_if(|lease| Some(&*lease) == open.found.as_ref());
        }
        (self.promised, self.floor, self.state) = (next, Ballot::NONE, kept);
    }

    /// Returns the lease that the master has once it has adopted the state that it lacked, without leases that are
    /// over.
    fn left_beside(&self, Adopted { state, over, .. }: &Adopted<P>) -> Option<&P::Lease> {
        let lease = self.lease.as_ref().filter(|lease| !over.contains(lease));
        lease_without(&self.state, lease, state).filter(|lease| !over.contains(lease))
    }

    /// Returns the adopted state as the master keeps it. A master that already has the state knows how long it stays.
    fn kept(&self, Adopted { from, state, .. }: &Adopted<P>, own_us: u64) -> State<P> {
        let stays_us = match self.state.accepted == *from {
            true => self.state.stays_us,
            false => state.stays_from(own_us),
        };
        State { stays_us, ..state.clone() }
    }
}

impl<P: Program> Sight<P> {
    /// Returns the view of a master that keeps this record, at `own_us` on its own clock, and was never flushed.
    pub fn of(slot: &Slot<P>, own_us: u64) -> Self {
        let Slot { mut state, floor, is_gone, lease, .. } = slot.clone();
        state.stays_us = state.stays_us.saturating_sub(own_us);
        Self { state, floor, is_gone, lease, flush: 0 }
    }

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

    fn has_room_beside(&self, lease: Option<&P::Lease>, new: &State<P>, now_us: u64) -> bool {
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
/// taken over the lease that it found, which may have been counted as a vote: the lease comes back.
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

    /// Returns the current time as seen by a master that holds this state, whose own clock shows `own_us`, if it must
    /// not promise `ballot`. A promise rules out earlier times, so beyond the end no reader finds the value any more. A
    /// proxy's clock must not decide that the value has ended: the master has measured how long it stays.
    fn latest_us(&self, ballot: Ballot, own_us: u64) -> Option<u64> {
        let end_us = P::end_if_present(&self.value)?;
        let left_us = self.stays_us.saturating_sub(own_us);
        (end_us <= ballot.counter && left_us > 0).then(|| end_us.saturating_sub(left_us))
    }

    /// Whether a state that is shown or sent like this is given to a master that lacks it: it lives at `now_us`, or
    /// still stays.
    pub fn stays(&self, now_us: u64) -> bool {
        P::lives(&self.value, now_us) || P::is_present(&self.value) && self.stays_us > 0
    }

    /// Returns the time until which the state stays on a master that receives it at `own_us` on its own clock.
    pub(super) fn stays_from(&self, own_us: u64) -> u64 {
        let has_end = P::end_if_present(&self.value).is_some();
        if has_end { own_us.saturating_add(self.stays_us) } else { 0 }
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
