//! The changes that clients with `NOLOOP` make themselves, of which they are not told.
//!
//! Masters do not say who has made a change: to them the proxy is one client. So a client's change of a key claims the
//! next report of that key by each master. Any further report is about another change.
//!
//! No change of another client is missed. A client reads the value that it has written only after a quorum has answered
//! the write. These masters report a later change separately, and any quorum that makes one includes such a master.
//! If the request turns out to have changed nothing, the client is told after all.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::decision::quorum::{MasterId, MasterSet};
use crate::time::clock::Instant;

/// The changes on their way, or yet to be reported.
#[derive(Debug)]
pub struct OwnChanges {
    /// Time after an answer for which the reports of slow masters are claimed.
    bound: Duration,
    by_key: HashMap<Box<[u8]>, Vec<OwnChange>, foldhash::fast::RandomState>,
    /// Changes that were answered, and when their claims end.
    answered: VecDeque<(Instant, Box<[u8]>, u64)>,
}

/// One client's changes of one key.
#[derive(Debug)]
struct OwnChange {
    client: u64,
    /// Masters whose next report is about it.
    unreported: MasterSet,
    /// Requests that are not answered yet.
    unanswered: u32,
    /// Reports of the current gathering that are about it.
    claimed: u32,
    /// Whether clients were told without this one, whose request is not answered yet.
    is_withheld: bool,
}

impl OwnChanges {
    /// Returns none.
    pub fn new(bound: Duration) -> Self {
        Self { bound, by_key: HashMap::default(), answered: VecDeque::new() }
    }

    /// Notes that a client's request is about to change a key.
    pub fn begin(&mut self, key: &[u8], client: u64, live: MasterSet) {
        let changes = self.by_key.entry(key.into()).or_default();
        match changes.iter_mut().find(|change| change.client == client) {
            Some(change) => {
                change.unreported = live;
                change.unanswered += 1;
            }
            None => changes.push(OwnChange {
                client,
                unreported: live,
                unanswered: 1,
                claimed: 0,
                is_withheld: false,
            }),
        }
    }

    /// Notes a report.
    pub fn reported(&mut self, key: &[u8], by: MasterId) {
        if self.by_key.is_empty() {
            return;
        }
        for change in self.by_key.get_mut(key).into_iter().flatten() {
            if change.unreported.contains(by) {
                change.unreported.remove(by);
                change.claimed += 1;
            }
        }
    }

    /// Ends a gathering of so many reports. Returns the clients that are not told, because all of them are their own.
    pub fn told(&mut self, key: &[u8], reports: u32) -> Vec<u64> {
        let mut own = Vec::new();
        for change in self.by_key.get_mut(key).into_iter().flatten() {
            if std::mem::take(&mut change.claimed) == reports {
                change.is_withheld |= change.unanswered > 0;
                own.push(change.client);
            }
        }
        own
    }

    /// Notes that a client's request was answered, and whether it has certainly changed the key and no other. Returns
    /// whether the client is to be told after all.
    pub fn answered(&mut self, key: &[u8], client: u64, has_changed: bool, now: Instant) -> bool {
        let changes = self.by_key.get_mut(key).into_iter().flatten();
        let Some(change) = changes.into_iter().find(|change| change.client == client) else {
            return false;
        };
        change.unanswered = change.unanswered.saturating_sub(1);
        let mut is_told = false;
        if !has_changed {
            // The reports in the current gathering are another's, too.
            (change.unreported, change.claimed) = (MasterSet::EMPTY, 0);
            is_told = std::mem::take(&mut change.is_withheld);
        }
        if change.unanswered == 0 {
            change.is_withheld = false;
            self.answered.push_back((now + self.bound, key.into(), client));
        }
        is_told
    }

    /// Forgets all, because clients are told that everything has changed.
    pub fn clear(&mut self) {
        self.by_key.clear();
        self.answered.clear();
    }

    /// Forgets changes that were answered some time ago.
    pub fn forget_old(&mut self, now: Instant) {
        while self.answered.front().is_some_and(|(end, ..)| *end <= now) {
            let Some((_, key, client)) = self.answered.pop_front() else { break };
            let Some(changes) = self.by_key.get_mut(&key) else { continue };
            changes.retain(|change| change.client != client || change.unanswered > 0);
            if changes.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    /// Returns when [`OwnChanges::forget_old`] has something to do.
    pub fn next_end(&self) -> Option<Instant> {
        self.answered.front().map(|(end, ..)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock;

    const BOUND: Duration = Duration::from_millis(50);
    const NOBODY: [u64; 0] = [];

    fn changes() -> OwnChanges {
        OwnChanges::new(BOUND)
    }

    fn report(changes: &mut OwnChanges, masters: impl IntoIterator<Item = usize>) {
        masters.into_iter().for_each(|index| changes.reported(b"k", MasterId::new(index)));
    }

    #[test]
    fn a_client_is_not_told_of_its_own_change() {
        let (mut changes, now) = (changes(), clock::now());
        changes.begin(b"k", 1, MasterSet::first(3));
        report(&mut changes, 0..2);
        assert!(!changes.answered(b"k", 1, true, now));
        report(&mut changes, 2..3);
        assert_eq!(changes.told(b"k", 3), [1]);
        changes.forget_old(now + BOUND);
        assert!(changes.by_key.is_empty());
    }

    #[test]
    fn a_second_report_by_one_master_is_about_another_change() {
        let (mut changes, now) = (changes(), clock::now());
        changes.begin(b"k", 1, MasterSet::first(3));
        changes.answered(b"k", 1, true, now);
        report(&mut changes, [0, 1, 1, 2]);
        assert_eq!(changes.told(b"k", 4), NOBODY);
    }

    #[test]
    fn the_report_of_a_slow_master_is_claimed_for_a_while() {
        let (mut changes, now) = (changes(), clock::now());
        changes.begin(b"k", 1, MasterSet::first(3));
        changes.answered(b"k", 1, true, now);
        report(&mut changes, 0..2);
        assert_eq!(changes.told(b"k", 2), [1]);
        report(&mut changes, 2..3);
        assert_eq!(changes.told(b"k", 1), [1]);
        report(&mut changes, 2..3);
        assert_eq!(changes.told(b"k", 1), NOBODY);
    }

    /// Another client has changed the key while this one's claim of a lock was refused.
    #[test]
    fn a_client_that_has_changed_nothing_is_told_after_all() {
        let (mut changes, now) = (changes(), clock::now());
        changes.begin(b"k", 1, MasterSet::first(3));
        report(&mut changes, 0..3);
        assert_eq!(changes.told(b"k", 3), [1]);
        assert!(changes.answered(b"k", 1, false, now));
        report(&mut changes, 0..1);
        assert_eq!(changes.told(b"k", 1), NOBODY);
    }

    #[test]
    fn reports_of_a_gathering_in_progress_are_another_s_if_nothing_was_changed() {
        let (mut changes, now) = (changes(), clock::now());
        changes.begin(b"k", 1, MasterSet::first(3));
        report(&mut changes, 0..2);
        assert!(!changes.answered(b"k", 1, false, now));
        report(&mut changes, 2..3);
        assert_eq!(changes.told(b"k", 3), NOBODY);
    }

    #[test]
    fn each_client_has_its_own_changes() {
        let (mut changes, now) = (changes(), clock::now());
        changes.begin(b"k", 1, MasterSet::first(3));
        report(&mut changes, 0..3);
        assert_eq!((changes.told(b"k", 3), changes.answered(b"k", 1, true, now)), (vec![1], false));
        changes.begin(b"k", 2, MasterSet::first(3));
        report(&mut changes, 0..3);
        assert_eq!(changes.told(b"k", 3), [2]);
    }
}
