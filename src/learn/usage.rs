//! Use of one name, or of many together.

use std::collections::BTreeMap;

use crate::names::kind::LockSign;

/// Maximum commands, libraries, databases and scripts distinguished per name. Others are not counted.
pub const MOST_TOLD_APART: usize = 24;

/// Counts by item, for at most [`MOST_TOLD_APART`] items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCounts<T: Ord>(BTreeMap<T, u64>);

impl<T: Ord> Default for UsageCounts<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord + Clone> UsageCounts<T> {
    /// Adds `count` of this item.
    pub fn add(&mut self, what: &T, count: u64) {
        if let Some(known) = self.0.get_mut(what) {
            *known += count;
        } else if self.0.len() < MOST_TOLD_APART {
            self.0.insert(what.clone(), count);
        }
    }

    /// Adds all counts of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            self.add(what, *count);
        }
    }

    /// Returns all counts, the highest first.
    pub fn by_count(&self) -> Vec<(T, u64)> {
        let mut all: Vec<_> = self.0.iter().map(|(what, count)| (what.clone(), *count)).collect();
        all.sort_by(|(_, one), (_, other)| other.cmp(one));
        all
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Use of one name, or of many together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Signs that it is a lock; empty: it may be none.
    pub kinds: UsageCounts<LockSign>,
    /// Every command that named it, in upper case.
    pub commands: UsageCounts<Box<str>>,
    /// Commands among them that masters refuse for a lock, each with the error that a client would get.
    pub refused: BTreeMap<Box<str>, Box<str>>,
    /// Libraries of clients that took or released it.
    pub libraries: UsageCounts<Box<str>>,
    /// Databases in which those clients did so.
    pub databases: UsageCounts<u32>,
    /// Scripts that got it as a key.
    pub scripts: UsageCounts<Box<str>>,
    /// Whether something was stored there that is no lock.
    pub is_stored: bool,
}

impl Usage {
    /// Whether it is a lock.
    pub fn is_lock(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Whether it is data, and nothing else.
    pub fn is_data(&self) -> bool {
        self.is_stored && !self.is_lock()
    }

    /// Whether a command was counted.
    pub fn has_seen(&self, command: &str) -> bool {
        self.commands.0.contains_key(command)
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Self) {
        self.kinds.add_all(&other.kinds);
        self.commands.add_all(&other.commands);
        self.libraries.add_all(&other.libraries);
        self.databases.add_all(&other.databases);
        self.scripts.add_all(&other.scripts);
        for (command, why) in &other.refused {
            self.refuse(command, why);
        }
        self.is_stored |= other.is_stored;
    }

    /// Records that masters refuse this command.
    pub fn refuse(&mut self, command: &str, why: &str) {
        if self.refused.len() < MOST_TOLD_APART {
            self.refused.entry(command.into()).or_insert_with(|| why.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_apart_is_bounded_and_the_rest_still_counts_where_it_is_known() {
        let mut counts = UsageCounts::default();
        for number in 0..1000_u32 {
            counts.add(&number, 1);
        }
        counts.add(&3, 5);
        assert_eq!(counts.by_count().len(), MOST_TOLD_APART);
        assert_eq!(counts.by_count()[0], (3, 6));
    }

    #[test]
    fn a_lock_that_is_written_otherwise_is_a_lock() {
        let mut usage = Usage { is_stored: true, ..Usage::default() };
        assert!(usage.is_data() && !usage.is_lock());
        usage.kinds.add(&LockSign::Claim, 1);
        assert!(!usage.is_data() && usage.is_lock());
    }
}
