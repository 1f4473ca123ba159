//! Forgetting keys that are absent.
//!
//! A key that was deleted, has ended, or was only asked for leaves a stamp. Without it a master would promise again what it
//! has ruled out, and would deny programs that ran. What is left of a dropped stamp is the floor of its database:
//!
//! * a key without a stamp counts as promised at the floor, so nothing that is late is accepted;
//! * what became of a program up to the floor is not known, and never that it did not run.
//!
//! The floor does not tell absent keys from those that a master has missed. So a stamp is dropped only when every member
//! has it ([`droppable`]), and none still hangs on it. That a member can keep nothing past some end is no substitute: a
//! program that nobody else has met may have taken the end away.
//!
//! A sweep asks all members, who must all be in, under one version of the roster. It closes what they all have
//! ([`Slots::close`]), looks at every key again, and drops what may be dropped ([`Slots::forget`]). Both compare the
//! accepted ballot, so a key that has gone on meanwhile is left alone.

use std::collections::BTreeMap;

use super::Program;
use super::slot::{Sight, Slot, Slots, State};
use crate::decision::quorum::Quorum;
use crate::decision::register::ballot::Ballot;

/// The accepted ballot that so many `members` show of the key at `place`; if that is all of them, it is decided. `None` if they
/// differ, or one has lost the value.
pub fn alike<P: Program>(
    members: usize,
    place: usize,
    sights: &[&[Sight<P>]],
    now_us: u64,
) -> Option<Ballot> {
    let accepted = sights.first()?[place].state.accepted;
    let is_alike = |sights: &&[Sight<P>]| {
        let sight = &sights[place];
        sight.state.accepted == accepted && !(sight.is_gone && P::lives(&sight.state.value, now_us))
    };
    (sights.len() == members && sights.iter().all(is_alike)).then_some(accepted)
}

/// Stamps that may be dropped, found while all keys of all members are looked at, page by page.
///
/// A key is [considered](Sweep::consider) first. Then all keys that there are have to be [looked at](Sweep::look) after
/// that: from then on no master can come by another group with it. The version of the roster must be the same all the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep<P: Program> {
    found: BTreeMap<P::Key, Ballot>,
}

impl<P: Program> Default for Sweep<P> {
    fn default() -> Self {
        Self { found: BTreeMap::new() }
    }
}

impl<P: Program> Sweep<P> {
    /// Remembers those of `keys` that the members show as absent at `now_us`, and the same.
    pub fn consider(
        &mut self,
        members: Quorum,
        keys: &[P::Key],
        sights: &[&[Sight<P>]],
        now_us: u64,
    ) {
        for (place, key) in keys.iter().enumerate() {
            let is_absent = |sights: &&[Sight<P>]| !P::lives(&sights[place].state.value, now_us);
            let accepted = alike(members.masters(), place, sights, now_us);
            if let Some(accepted) = accepted.filter(|_| sights.iter().all(is_absent)) {
                self.found.insert(key.clone(), accepted);
            }
        }
    }

    /// A member has this state: the keys of a group that is not closed stay.
    pub fn look(&mut self, state: &State<P>) {
        for (key, _) in state.open.iter().flat_map(|open| &open.group) {
            self.found.remove(key);
        }
    }

    /// How many stamps may be dropped, for all that was looked at so far.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The keys whose stamps may be dropped, once all keys have been looked at, with the ballots that they were accepted
    /// under.
    pub fn droppable(self) -> Vec<(P::Key, Ballot)> {
        self.found.into_iter().collect()
    }
}

/// Those of `keys` whose stamp may be dropped, with its accepted ballot, if the members show this of all keys that there
/// are, at once: absent at `now_us`, the same for all, and no part of a group that is not closed.
pub fn droppable<P: Program>(
    members: Quorum,
    keys: &[P::Key],
    sights: &[&[Sight<P>]],
    now_us: u64,
) -> Vec<(P::Key, Ballot)> {
    let mut sweep = Sweep::<P>::default();
    sweep.consider(members, keys, sights, now_us);
    sights.iter().flat_map(|sights| sights.iter()).for_each(|sight| sweep.look(&sight.state));
    sweep.droppable()
}

impl<P: Program> Slots<P> {
    /// The highest ballot of all stamps that were dropped.
    pub fn floor(&self) -> Ballot {
        self.floor
    }

    /// The floor of other members, for one that is admitted: it may have been part of what they dropped.
    pub fn raise_floor(&mut self, floor: Ballot) {
        self.floor = self.floor.max(floor);
    }

    /// A quorum was seen to hold the state that was accepted under this ballot. Returns whether the master has it.
    pub fn close(&mut self, key: &P::Key, accepted: Ballot) -> bool {
        let slot = self.keys.get_mut(key).filter(|slot| slot.state.accepted == accepted);
        slot.map(|slot| slot.state.open = None).is_some()
    }

    /// Drops the stamp of a key that is [`droppable`], with what is left of its value, unless that still stays at `own_us` by
    /// the master's own clock. Returns whether it was there. A lease stays.
    pub fn forget(&mut self, key: &P::Key, accepted: Ballot, own_us: u64) -> bool {
        let may_go =
            |slot: &&mut Slot<P>| slot.state.accepted == accepted && slot.state.stays_us <= own_us;
        let Some(slot) = self.keys.get_mut(key).filter(may_go) else { return false };
        // The mark has room for a counter only.
        let highest = slot.promised.max(slot.end());
        self.floor = self.floor.max(Ballot { worker: u64::MAX, ..highest });
        let lease = slot.lease.take();
        match lease {
            Some(_) => *slot = Slot { lease, ..Slot::default() },
            None => drop(self.keys.remove(key)),
        }
        true
    }
}

impl<P: Program> Slot<P> {
    /// The end of the value as a ballot: who asks about the time before must not find it absent here, and there elsewhere.
    pub(super) fn end(&self) -> Ballot {
        let end_us = P::end_if_present(&self.state.value);
        Ballot { counter: end_us.unwrap_or_default(), worker: 0, ..self.promised }
    }
}
