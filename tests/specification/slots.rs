//! A master's record of keys, and the effect of the scripts on it.
//!
//! Each function of [`Slots`] is atomic on the master, for all its keys together, and changes nothing if it refuses. The
//! mark is checked before any of them.

use std::collections::BTreeMap;

use redlock_proxy::decision::keyspace::Program;
use redlock_proxy::decision::keyspace::proposer::{MasterAnswer, Request};
use redlock_proxy::decision::keyspace::remembered::Keep;
use redlock_proxy::decision::keyspace::slot::{
    Adopt, Adopted, Apply, Basis, Open, Ran, Refusal, Sight, State, lease_without,
};
use redlock_proxy::decision::register::ballot::Ballot;

/// Keys of one database of one master.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slots<P: Program> {
    pub(super) keys: BTreeMap<P::Key, Slot<P>>,
    /// Highest promise of any dropped stamp. It is stored in the tail of the mark.
    pub(super) floor: Ballot,
    /// Counter of the last flush. It is stored in the tail of the mark, too.
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

/// A program that can run here. Masters run programs as text.
pub trait Runs: Program {
    /// Returns the new values of the keys, in their order, and the reply. `None` if nothing was written to the key.
    /// Values that have ended by `now_us` appear absent.
    fn run(&self, seen: &[Seen<'_, Self>], now_us: u64) -> (Vec<Option<Self::Value>>, Self::Reply);
}

/// Content of a key as a program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a, P: Program> {
    /// A register, which may be absent.
    Register(&'a P::Value),
    /// A lease. A write to the key replaces it.
    Lease(&'a P::Lease),
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
        let latest_us = kept.filter_map(|state| latest_us(&state, adopt.next, own_us)).min();
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
        let latest = keys.iter().filter_map(|key| latest_us(&self.of(key).state, ballot, own_us));
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
    /// [`settle::copy`]: redlock_proxy::decision::keyspace::settle::copy
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
        Sight { flush, ..self.sight(own_us) }
    }

    /// Returns the view of this record at `own_us` on the master's own clock. The master was never flushed.
    pub fn sight(&self, own_us: u64) -> Sight<P> {
        let Self { mut state, floor, is_gone, lease, .. } = self.clone();
        state.stays_us = state.stays_us.saturating_sub(own_us);
        Sight { state, floor, is_gone, lease, flush: 0 }
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
        let has_room = || self.sight(0).has_room_beside(self.left_beside(adopted), state, now_us);
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
            false => stays_from(state, own_us),
        };
        State { stays_us, ..state.clone() }
    }
}

/// Returns the current time as seen by a master that holds this state, whose own clock shows `own_us`, if it must not
/// promise `ballot`. A promise rules out earlier times, so beyond the end no reader finds the value any more. A proxy's
/// clock must not decide that the value has ended: the master has measured how long it stays.
fn latest_us<P: Program>(state: &State<P>, ballot: Ballot, own_us: u64) -> Option<u64> {
    let end_us = P::end_if_present(&state.value)?;
    let left_us = state.stays_us.saturating_sub(own_us);
    (end_us <= ballot.counter && left_us > 0).then(|| end_us.saturating_sub(left_us))
}

/// Returns the time until which the state stays on a master that receives it at `own_us` on its own clock.
pub(super) fn stays_from<P: Program>(state: &State<P>, own_us: u64) -> u64 {
    let has_end = P::end_if_present(&state.value).is_some();
    if has_end { own_us.saturating_add(state.stays_us) } else { 0 }
}

/// Executes the request as a master does at `own_us` on its own clock, remembering as many programs of each key as
/// `keep` allows.
pub fn execute<P: Runs>(
    request: &Request<P>,
    slots: &mut Slots<P>,
    keep: Keep,
    own_us: u64,
) -> MasterAnswer<P> {
    let answer = match request {
        Request::Prepare(keys, ballot) => {
            let met = keys.iter().map(|(_, met)| *met).max().unwrap_or_default();
            let keys: Vec<_> = keys.iter().map(|(key, _)| key.clone()).collect();
            slots.prepare(&keys, *ballot, met, own_us).map(MasterAnswer::Promised)
        }
        Request::Adopt(adopt) => slots.adopt(adopt, own_us).map(|()| MasterAnswer::Adopted),
        Request::Apply(apply) => slots.apply(apply, keep, own_us).map(MasterAnswer::Applied),
    };
    answer.unwrap_or_else(MasterAnswer::Refused)
}
