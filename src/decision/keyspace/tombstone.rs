//! Forgetting keys that are absent.
//!
//! A key that was deleted, has ended, or was only asked for leaves a stamp. Without its stamp, a master would promise
//! again what it has ruled out, and would deny programs that ran. A dropped stamp leaves only the floor of its
//! database:
//!
//! * a key without a stamp counts as promised at the floor, so nothing late is accepted;
//! * the fate of a program up to the floor is unknown, and never reported as not run.
//!
//! The floor does not distinguish absent keys from those that a master has missed. So a stamp is dropped only if every
//! member has it ([`droppable`]) and nothing depends on it any more. It is not enough that no member can keep the value
//! past some end: a program that no other worker has seen may have removed the end.
//!
//! A sweep asks all members, which must all be in, under one version of the roster. It closes the stamps that all of
//! them have, looks at every key again, and drops what may be dropped. Both steps compare the accepted ballot, so they
//! leave alone a key that has changed meanwhile.

use std::collections::BTreeMap;

use super::Program;
use super::slot::{Sight, State};
use crate::decision::quorum::Quorum;
use crate::decision::register::ballot::Ballot;

/// Returns the accepted ballot of the key at `place` if exactly `members` masters are in `sights` and all show the same
/// state. If those are all the members, the state is decided. `None` if they differ, or one has lost the value.
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

/// Stamps that may be dropped, found by looking at all keys of all members, page by page.
///
/// A key is first [considered](Sweep::consider). After that, all existing keys must be [looked at](Sweep::look): from
/// then on no master can acquire another group with that key. The version of the roster must not change meanwhile.
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
    /// Remembers those of `keys` that all members show as absent at `now_us`, under the same ballot.
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

    /// Takes note of a member's state: the keys of a group that is not closed keep their stamps.
    pub fn look(&mut self, state: &State<P>) {
        for (key, _) in state.open.iter().flat_map(|open| &open.group) {
            self.found.remove(key);
        }
    }

    /// Returns how many stamps may be dropped, according to the keys seen so far.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether no stamp may be dropped.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the keys whose stamps may be dropped, with their accepted ballots, once all keys have been looked at.
    pub fn droppable(self) -> Vec<(P::Key, Ballot)> {
        self.found.into_iter().collect()
    }
}

/// Returns those of `keys` whose stamp may be dropped, with its accepted ballot. `sights` must be what the members show
/// of all existing keys at once. A key is droppable if it is absent at `now_us`, the same on all members, and not part
/// of a group that is not closed.
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
