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

use super::Program;
use super::slot::{Sight, Slot, Slots};
use crate::decision::register::ballot::Ballot;
use crate::quorum::Quorum;

/// The accepted ballot that every member shows of the key at `place`: it is decided. `None` if they differ, or one has
/// lost the value.
pub fn alike<P: Program>(
    members: Quorum,
    place: usize,
    sights: &[&[Sight<P>]],
    now_us: u64,
) -> Option<Ballot> {
    let accepted = sights.first()?[place].state.accepted;
    let is_alike = |sights: &&[Sight<P>]| {
        let sight = &sights[place];
        sight.state.accepted == accepted && !(sight.is_gone && P::lives(&sight.state.value, now_us))
    };
    (sights.len() == members.everybody().len() && sights.iter().all(is_alike)).then_some(accepted)
}

/// Those of `keys` whose stamp may be dropped, with its accepted ballot, if the members show this of all keys that there
/// are: absent at `now_us`, the same for all, and no part of a group that is not closed.
///
/// The other keys must have been looked at after this one. From then on no master can come by another group with it.
pub fn droppable<P: Program>(
    members: Quorum,
    keys: &[P::Key],
    sights: &[&[Sight<P>]],
    now_us: u64,
) -> Vec<(P::Key, Ballot)> {
    let is_named = |key: &P::Key| {
        let states = sights.iter().flat_map(|sights| sights.iter()).map(|sight| &sight.state);
        let mut groups = states.filter_map(|state| state.open.as_ref()).map(|open| &open.group);
        groups.any(|group| group.iter().any(|(other, _)| other == key))
    };
    let is_absent =
        |place: usize| sights.iter().all(|sights| !P::lives(&sights[place].state.value, now_us));
    let accepted = |(place, key): (usize, &P::Key)| {
        let accepted = alike(members, place, sights, now_us)?;
        (is_absent(place) && !is_named(key)).then(|| (key.clone(), accepted))
    };
    keys.iter().enumerate().filter_map(accepted).collect()
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

    /// Drops the stamp of a key that is [`droppable`], with what is left of its value. Returns whether it was there. A
    /// lease stays.
    pub fn forget(&mut self, key: &P::Key, accepted: Ballot) -> bool {
        let Some(slot) = self.keys.get_mut(key).filter(|slot| slot.state.accepted == accepted)
        else {
            return false;
        };
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
        let end_us = P::end_us(&self.state.value).filter(|_| P::is_present(&self.state.value));
        Ballot { counter: end_us.unwrap_or_default(), worker: 0, ..self.promised }
    }
}
