//! Names that were seen and their use, in bounded memory.
//!
//! Names are kept by their [`Skeleton`]. Where too many share one, the oldest are counted together and forgotten. Where
//! there are too many skeletons, those of data give way to those of locks, and [`NameLedger::is_full`] is set.

use std::collections::VecDeque;

use foldhash::HashMap;

use super::usage::Usage;
use crate::names::Name;
use crate::names::skeleton::Skeleton;

/// Maximum names kept per skeleton.
pub const NAMES_OF_A_SKELETON: usize = 64;

/// Maximum forgotten names of data kept per skeleton: a pattern must not match them.
const DATA_OF_A_SKELETON: usize = 16;

/// Maximum names kept.
pub const MOST_NAMES: usize = 50_000;

/// Names by skeleton.
#[derive(Clone, Debug, Default)]
pub struct NameLedger {
    families: HashMap<Skeleton, NameFamily>,
    /// Number of names kept.
    names: usize,
    /// Whether there were more names than are kept.
    pub is_full: bool,
}

/// Names with one skeleton.
#[derive(Clone, Debug, Default)]
pub struct NameFamily {
    names: HashMap<Name, Usage>,
    /// Names in order of age, the oldest first.
    order: VecDeque<Name>,
    /// Usage of forgotten locks, added up.
    forgotten: Usage,
    /// Number of forgotten locks. A lock that comes back counts again.
    forgotten_locks: u64,
    /// The lock that was forgotten last.
    forgotten_lock: Option<Name>,
    /// Forgotten names of data, without their usage.
    data: Vec<Name>,
}

impl NameLedger {
    /// Returns the usage of a name that is being used. `None`: there is no room for it.
    pub fn of(&mut self, name: &[u8], is_lock: bool) -> Option<&mut Usage> {
        let skeleton = Skeleton::of(name);
        let is_known = |family: &NameFamily| family.names.contains_key(name);
        if !self.families.get(&skeleton).is_some_and(is_known) {
            self.make_room(&skeleton, is_lock)?;
            self.names += 1;
            self.families.entry(skeleton.clone()).or_default().begin(name);
        }
        self.families.get_mut(&skeleton)?.names.get_mut(name)
    }

    /// Returns the usage of a name, if it is kept.
    pub fn get(&self, name: &[u8]) -> Option<&Usage> {
        self.families.get(&Skeleton::of(name))?.names.get(name)
    }

    /// Returns all names, by skeleton.
    pub fn families(&self) -> impl Iterator<Item = (&Skeleton, &NameFamily)> {
        self.families.iter()
    }

    /// Returns the names of one skeleton.
    pub fn family(&self, skeleton: &Skeleton) -> Option<&NameFamily> {
        self.families.get(skeleton)
    }

    fn make_room(&mut self, skeleton: &Skeleton, is_lock: bool) -> Option<()> {
        let is_crowded = |family: &NameFamily| {
            family.names.len() >= NAMES_OF_A_SKELETON || self.names >= MOST_NAMES
        };
        if let Some(family) = self.families.get_mut(skeleton)
            && is_crowded(family)
            && family.forget_oldest()
        {
            self.names -= 1;
        }
        if self.names < MOST_NAMES {
            return Some(());
        }
        self.is_full = true;
        if !is_lock {
            return None;
        }
        let of_data = self.families.iter().find(|(_, family)| !family.has_locks());
        let of_data = of_data.map(|(skeleton, _)| skeleton.clone())?;
        self.names -= self.families.remove(&of_data)?.names.len();
        Some(())
    }
}

impl NameFamily {
    /// Returns the names that are kept, the oldest first.
    pub fn names(&self) -> impl Iterator<Item = (&Name, &Usage)> {
        self.order.iter().filter_map(|name| self.names.get_key_value(name))
    }

    /// Returns the usage of forgotten locks, and how many times one was forgotten.
    pub fn forgotten(&self) -> (&Usage, u64) {
        (&self.forgotten, self.forgotten_locks)
    }

    /// Returns the lock that was forgotten last.
    pub fn forgotten_lock(&self) -> Option<&Name> {
        self.forgotten_lock.as_ref()
    }

    /// Returns the forgotten names of data.
    pub fn forgotten_data(&self) -> impl Iterator<Item = &Name> {
        self.data.iter().filter(|name| !self.names.get(*name).is_some_and(Usage::is_lock))
    }

    /// Whether a lock is among them.
    pub fn has_locks(&self) -> bool {
        self.forgotten.is_lock() || self.names.values().any(Usage::is_lock)
    }

    fn begin(&mut self, name: &[u8]) {
        self.data.retain(|it| **it != *name);
        self.names.insert(name.into(), Usage::default());
        self.order.push_back(name.into());
    }

    fn forget_oldest(&mut self) -> bool {
        let Some(name) = self.order.pop_front() else { return false };
        let usage = self.names.remove(&name).unwrap_or_default();
        if usage.is_lock() {
            self.forgotten.add_all(&usage);
            self.forgotten_locks += 1;
            self.forgotten_lock = Some(name);
        } else if usage.is_data() && self.data.len() < DATA_OF_A_SKELETON {
            self.data.push(name);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::kind::LockSign;
    use crate::names::skeleton::tests::word;

    fn claim(ledger: &mut NameLedger, name: &str) {
        let usage = ledger.of(name.as_bytes(), true).expect("a lock has room");
        usage.kinds.add(&LockSign::Claim, 1);
    }

    fn store(ledger: &mut NameLedger, name: &str) -> bool {
        ledger.of(name.as_bytes(), false).map(|usage| usage.is_stored = true).is_some()
    }

    #[test]
    fn the_oldest_names_of_a_skeleton_are_counted_together() {
        let mut ledger = NameLedger::default();
        for number in 0..1000 {
            claim(&mut ledger, &format!("lock:{number}"));
        }
        let family = ledger.family(&Skeleton::of(b"lock:1")).unwrap();
        assert_eq!(family.names().count(), NAMES_OF_A_SKELETON);
        assert_eq!(family.forgotten().1, 1000 - NAMES_OF_A_SKELETON as u64);
        assert_eq!(family.forgotten().0.kinds.by_count(), [(LockSign::Claim, 936)]);
        assert!(!ledger.is_full && ledger.get(b"lock:999").is_some());
        assert_eq!(ledger.names, NAMES_OF_A_SKELETON);
    }

    #[test]
    fn some_names_of_data_are_never_forgotten() {
        let mut ledger = NameLedger::default();
        assert!(store(&mut ledger, "lock:1"));
        for number in 10..1000 {
            claim(&mut ledger, &format!("lock:{number}"));
        }
        let family = ledger.family(&Skeleton::of(b"lock:1")).unwrap();
        let data: Vec<_> = family.forgotten_data().collect();
        assert_eq!(data, [&Name::from(&b"lock:1"[..])]);
    }

    #[test]
    fn data_gives_way_to_locks_when_there_is_no_room() {
        let mut ledger = NameLedger::default();
        for number in 0..MOST_NAMES {
            assert!(store(&mut ledger, &format!("page:{}", word(number))));
        }
        assert!(!ledger.is_full);
        assert!(!store(&mut ledger, "one:more"));
        assert!(ledger.is_full && ledger.names == MOST_NAMES);
        claim(&mut ledger, "lock:a");
        assert!(ledger.get(b"lock:a").is_some() && ledger.names <= MOST_NAMES);
    }
}
