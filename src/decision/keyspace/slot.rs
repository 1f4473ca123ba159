//! What a master keeps of a key, and what its scripts do with it.
//!
//! The functions of [`Slots`] are the specification of the scripts. Each is atomic on the master, for all its keys
//! together, and changes nothing when it refuses. Whether the mark is right is looked at before them.

use std::collections::BTreeMap;

use super::remembered::{Keep, Remembered};
use super::{Program, Runs, Seen};
use crate::decision::register::acceptor::Fate;
use crate::decision::register::ballot::Ballot;

/// The keys of one database of one master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots<P: Program> {
    pub(super) keys: BTreeMap<P::Key, Slot<P>>,
    /// What stamps that were dropped had promised at most ([`tombstone`](super::tombstone)). It stands in the tail of the
    /// mark.
    pub(super) floor: Ballot,
    /// The counter of the last flush ([`flush`](super::flush)). It stands in the tail of the mark, too.
    pub(super) flush: u64,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot<P: Program> {
    /// The highest ballot that was promised. Nothing below it is accepted any more.
    pub promised: Ballot,
    /// Up to here nobody knows what ran: the floor of the database, as long as nothing was accepted.
    pub floor: Ballot,
    /// What was accepted last.
    pub state: State<P>,
    /// Whether the value has gone from under its stamp: removed after its end, or lost.
    pub is_gone: bool,
    /// The lease that the key holds. There is none beside a register that is there.
    pub lease: Option<P::Lease>,
}

/// What a register holds, and how that came about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Program> {
    /// The ballot under which it was accepted. Equal ballots mean equal states.
    pub accepted: Ballot,
    /// What the last program ran on. It was decided, and so was nothing after it, unless this state is.
    pub basis: Ballot,
    /// The value.
    pub value: P::Value,
    /// The last programs that led to the value.
    pub recent: Remembered<P::Reply>,
    /// What it depends on that was accepted with it; `None` once a quorum is known to hold it.
    pub open: Option<Open<P>>,
    /// Until when the value stays at least, in microseconds: by the clock of the master that keeps it, which nobody else
    /// reads. What is shown or sent says how long that is from now. 0: it has no end.
    pub stays_us: u64,
}

/// What a state depends on that is not known to be decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Open<P: Program> {
    /// The keys of the last program, this one included, with the ballots under which it ran.
    pub group: Vec<(P::Key, Ballot)>,
    /// The lease that the program found under this key.
    pub found: Option<P::Lease>,
    /// The end of the value that it found, in microseconds since the epoch.
    pub until_us: Option<u64>,
    /// Whether that lease is still there: the program has only read it.
    pub is_kept: bool,
}

/// What one master shows of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sight<P: Program> {
    /// What was accepted last.
    pub state: State<P>,
    /// Up to here nobody knows what ran, if nothing was accepted.
    pub floor: Ballot,
    /// Whether the value has gone from under its stamp.
    pub is_gone: bool,
    /// The lease.
    pub lease: Option<P::Lease>,
    /// The last flush of the key's database: nothing that is shown is older.
    pub flush: u64,
}

/// A program on its way to a master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Apply<P: Program> {
    /// What to run.
    pub program: P,
    /// What each of its keys must hold.
    pub basis: Vec<Basis<P>>,
    /// The time at which it runs, not before that of any of its ballots.
    pub now_us: u64,
    /// The ballot to promise along with it, which saves the next attempt a round trip (Rystsov 2018, 2.2.1). It is not
    /// before `now_us`.
    pub next: Ballot,
}

/// What a program expects under a key, and the ballot under which it may change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Basis<P: Program> {
    /// The accepted ballot of the state.
    pub accepted: Ballot,
    /// The lease.
    pub lease: Option<P::Lease>,
    /// The ballot that a quorum has promised.
    pub ballot: Ballot,
    /// The flush after which it has promised that.
    pub flush: u64,
}

/// States on their way to masters that may lack them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adopt<P: Program> {
    /// The state of each key. Its accepted ballot is the adopter's own, not the one that it was found under.
    pub states: Vec<Adopted<P>>,
    /// The ballot to promise along with them.
    pub next: Ballot,
}

/// The state of one key on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Adopted<P: Program> {
    /// The key.
    pub key: P::Key,
    /// The ballot that it was found under.
    pub from: Ballot,
    /// The state.
    pub state: State<P>,
    /// Leases that nobody has any more ([`remains`](super::remains)): they are removed first.
    pub over: Vec<P::Lease>,
    /// The flush after which a quorum has promised the ballot that it is accepted under.
    pub flush: u64,
}

/// What came of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ran<P: Program> {
    /// What it replied.
    pub reply: P::Reply,
    /// Whether it has written anything, so that its keys were accepted.
    pub wrote: bool,
    /// Whether the next ballot is promised: it has written, or something has ended for it that lived at the ballot it ran
    /// under. Else nothing has changed, and the promise that it ran on still stands.
    pub is_promised: bool,
}

/// Why a script changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// The highest ballot that was promised for any of its keys.
    pub promised: Ballot,
    /// The latest time that may be promised, in microseconds since the epoch: beyond that something has ended which still
    /// stays by the master's own clock. `None`: any.
    pub latest_us: Option<u64>,
}

impl Refusal {
    /// That of a master that has not said what it has promised.
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
    /// What the master keeps of `key`.
    pub fn get(&self, key: &P::Key) -> Slot<P> {
        let mut slot = self.keys.get(key).cloned().unwrap_or_default();
        slot.rise_to(self.floor);
        slot
    }

    /// The same, to be changed.
    pub fn of(&mut self, key: &P::Key) -> &mut Slot<P> {
        let slot = self.keys.entry(key.clone()).or_default();
        slot.rise_to(self.floor);
        slot
    }

    /// The keys that something is kept of.
    pub fn iter(&self) -> impl Iterator<Item = (&P::Key, &Slot<P>)> {
        self.keys.iter()
    }

    /// Promises `ballot` for all of `keys`, and answers what the promise is about. `met` is the highest flush that another
    /// master has shown: one that this master has missed happens first. It is `own_us` by the master's own clock.
    ///
    /// # Errors
    /// When this ballot or a higher one was promised for one of them, or it is beyond the end of what still stays.
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

    /// Accepts states as they are. What has an end stays as long as it stayed where it came from.
    ///
    /// # Errors
    /// When a higher ballot was promised, a lease stands where one of them belongs, they are from before or after another
    /// flush, or the next ballot is beyond the end of what still stays.
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

    /// `SET NX`: knows nothing of stamps. Returns whether the lease was taken.
    pub fn claim(&mut self, key: &P::Key, lease: P::Lease) -> bool {
        let slot = self.of(key);
        let is_free = slot.lease.is_none() && !slot.is_there();
        if is_free {
            slot.lease = Some(lease);
        }
        is_free
    }

    /// Deletes the lease under `key` if it is one of those meant: a release, a take-back, or its end. Returns it.
    pub fn give_back(
        &mut self,
        key: &P::Key,
        is_meant: impl FnOnce(&P::Lease) -> bool,
    ) -> Option<P::Lease> {
        let slot = self.of(key);
        slot.lease.take_if(|lease| is_meant(lease))
    }

    /// The value of `key` is lost from under its stamp.
    pub fn lose(&mut self, key: &P::Key) {
        self.of(key).is_gone = true;
    }

    /// The TTL of the master cleans the value of `key` up, after its end. Claims pass from now on, so nothing may be accepted
    /// any more that is older than the end: the key counts as promised at it.
    pub fn clean_up(&mut self, key: &P::Key) {
        let slot = self.of(key);
        slot.is_gone = true;
        slot.promised = slot.promised.max(slot.end());
    }

    /// What keeps the master from promising `ballot` for these keys.
    fn refusal(&mut self, keys: &[P::Key], ballot: Ballot, own_us: u64) -> Refusal {
        let promised = keys.iter().map(|key| self.of(key).promised).max().unwrap_or_default();
        let latest = keys.iter().filter_map(|key| self.of(key).state.latest_us(ballot, own_us));
        Refusal { promised, latest_us: latest.min() }
    }
}

impl<P: Runs> Slots<P> {
    /// Runs a program in place, and remembers as many as `keep` says. All its keys are accepted if it writes to one of them: what
    /// it has read must not change before what it wrote is decided.
    ///
    /// # Errors
    /// When a higher ballot was promised, a key holds something else than the program expects, it was promised before or
    /// after another flush, or the next ballot is beyond the end of what still stays.
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
            // The same end may have been set anew, at a time that a promise has stopped.
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
    /// A key without a stamp counts as promised at the floor.
    ///
    /// Who does not know what ran here ([`settle::copy`]) does not know what ran up to the floor either.
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

    /// Whether the master has the value, be it past its end.
    pub fn is_there(&self) -> bool {
        P::is_present(&self.state.value) && !self.is_gone
    }

    /// What has ended for a program is gone.
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

    /// The lease that the master has once it has adopted what it lacked, without what is over.
    fn left_beside(&self, Adopted { state, over, .. }: &Adopted<P>) -> Option<&P::Lease> {
        let lease = self.lease.as_ref().filter(|lease| !over.contains(lease));
        lease_without(&self.state, lease, state).filter(|lease| !over.contains(lease))
    }

    /// What is kept of a state that is adopted. Who has it already knows how long it stays.
    fn kept(&self, Adopted { from, state, .. }: &Adopted<P>, own_us: u64) -> State<P> {
        let stays_us = match self.state.accepted == *from {
            true => self.state.stays_us,
            false => state.stays_from(own_us),
        };
        State { stays_us, ..state.clone() }
    }
}

impl<P: Program> Sight<P> {
    /// What a master that keeps this shows at `own_us` by its own clock, and has never been flushed.
    pub fn of(slot: &Slot<P>, own_us: u64) -> Self {
        let Slot { mut state, floor, is_gone, lease, .. } = slot.clone();
        state.stays_us = state.stays_us.saturating_sub(own_us);
        Self { state, floor, is_gone, lease, flush: 0 }
    }

    /// Whether the master has lost a value that has not ended.
    pub fn is_lost(&self, now_us: u64) -> bool {
        self.is_gone && P::lives(&self.state.value, now_us)
    }

    /// Whether `new` may take the place of this at `now_us`. What is open has run on exactly what was found, and is worth
    /// nothing beside anything else, unless the master does not know whether it had it ([`settle::copy`]). What is
    /// decided, and absent or past its end, stands beside any lease.
    ///
    /// [`settle::copy`]: super::settle::copy
    pub fn has_room_for(&self, new: &State<P>, now_us: u64) -> bool {
        self.has_room_beside(self.lease_under(new), new, now_us)
    }

    /// The lease that the master has once `new` has taken the place of what is there.
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

    /// Whether claims may have found nothing here, and be gone again, between the end of what an open program found and that
    /// of what it has left. Who does not know whether the program ran here does not know since when there is something, either.
    fn may_have_been_claimed(&self, new: &State<P>, is_unknown: bool, now_us: u64) -> bool {
        let is_there = P::is_present(&self.state.value) && !self.is_gone;
        let was_there = is_there && !is_unknown;
        let until_us = new.open.as_ref().and_then(|open| open.until_us);
        !was_there
            && until_us.is_some_and(|end_us| end_us <= now_us && P::lives(&new.value, end_us))
    }
}

/// The lease that a master has once `new` has taken the place of its state. A program that is no part of that has not
/// taken over the lease that it found, which may have been counted as a vote: it stands there again.
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
    /// The ballot under which the last program ran, if any is remembered.
    pub fn ran(&self) -> Option<Ballot> {
        self.recent.last()
    }

    /// The time that a master with this takes it to be, by whose own clock it is `own_us`, if it must not promise `ballot`. A
    /// promise rules out the time before it, so behind the end nobody finds the value any more. That it has ended is not for
    /// the clock of a proxy to say: the master has counted how long the value stays.
    fn latest_us(&self, ballot: Ballot, own_us: u64) -> Option<u64> {
        let end_us = P::end_if_present(&self.value)?;
        let left_us = self.stays_us.saturating_sub(own_us);
        (end_us <= ballot.counter && left_us > 0).then(|| end_us.saturating_sub(left_us))
    }

    /// Whether what is shown or sent like this is given to a master that lacks it: it lives at `now_us`, or still stays.
    pub fn stays(&self, now_us: u64) -> bool {
        P::lives(&self.value, now_us) || P::is_present(&self.value) && self.stays_us > 0
    }

    /// Until when it stays on a master that it was sent to, by whose own clock it is `own_us`.
    pub(super) fn stays_from(&self, own_us: u64) -> u64 {
        let has_end = P::end_if_present(&self.value).is_some();
        if has_end { own_us.saturating_add(self.stays_us) } else { 0 }
    }

    /// That of a master which has accepted nothing, as far as it knows, and does not know of what is as old as `ballot`.
    pub fn unknown_up_to(ballot: Ballot) -> Self {
        Self { recent: Remembered::default().without_those_before(ballot), ..Self::default() }
    }

    /// The state as that of a master which does not know whether it has ever accepted it, taken over from a lease. Its ballot,
    /// which nobody else has who is given something at another time, is older than whatever was accepted.
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
