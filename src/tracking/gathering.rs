//! Gathers what the masters report, so that clients are told of a change once.
//!
//! A change reaches every master at another time, and each of them reports it. A *gathering* begins with the first
//! report. It ends when every master that reports has done so, or when the rest is late. Then clients are told.
//!
//! No report is ever dropped: one that comes after the end begins a new gathering. Masters report changes of one turn
//! of their event loop together, so a late report may be the only one of a later change.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::decision::quorum::{MasterId, MasterSet};
use crate::time::clock::Instant;

/// The thing that masters report as changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Changed {
    /// One key.
    Key(Box<[u8]>),
    /// A whole database, or all: `FLUSHDB`, `FLUSHALL`.
    Everything,
}

/// The changes of which some masters have yet to report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gatherings {
    /// The time for which a gathering waits.
    bound: Duration,
    /// Those in progress.
    open: BTreeMap<Changed, Gathering>,
    /// When they end at the latest, in this order.
    ends: VecDeque<(Instant, Changed, u64)>,
    begun: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gathering {
    /// The masters that have reported.
    by: MasterSet,
    /// Number of their reports.
    reports: u32,
    number: u64,
}

/// Maximum gatherings in progress. Beyond it the oldest ends at once.
const MOST_OPEN: usize = 64 << 10;

impl Gatherings {
    /// Returns none in progress. Each will wait for the rest of the masters for `bound`.
    pub fn new(bound: Duration) -> Self {
        Self { bound, open: BTreeMap::new(), ends: VecDeque::new(), begun: 0 }
    }

    /// Notes a report. Returns the number of reports if clients are to be told now, because all masters that are `live`
    /// have reported.
    pub fn reported(
        &mut self,
        changed: &Changed,
        by: MasterId,
        live: MasterSet,
        now: Instant,
    ) -> Option<u32> {
        let gathering = match self.open.get_mut(changed) {
            Some(gathering) => gathering,
            None => self.begin(changed, now),
        };
        gathering.by.insert(by);
        gathering.reports += 1;
        let reports = gathering.reports;
        let is_complete = live.without(gathering.by).is_empty();
        is_complete.then(|| {
            self.open.remove(changed);
            reports
        })
    }

    fn begin(&mut self, changed: &Changed, now: Instant) -> &mut Gathering {
        self.begun += 1;
        let number = self.begun;
        self.ends.push_back((now + self.bound, changed.clone(), number));
        let gathering = Gathering { by: MasterSet::EMPTY, reports: 0, number };
        self.open.entry(changed.clone()).or_insert(gathering)
    }

    /// Ends the gatherings that have waited long enough. Returns what clients are to be told, with the number of reports.
    pub fn due(&mut self, now: Instant) -> Vec<(Changed, u32)> {
        let mut due = Vec::new();
        while let Some((end, ..)) = self.ends.front()
            && (*end <= now || self.open.len() > MOST_OPEN)
        {
            let Some((_, changed, number)) = self.ends.pop_front() else { break };
            let is_it = |gathering: &Gathering| gathering.number == number;
            if let Some(gathering) = self.open.get(&changed).filter(|open| is_it(open)) {
                let reports = gathering.reports;
                self.open.remove(&changed);
                due.push((changed, reports));
            }
        }
        due
    }

    /// Returns when [`Gatherings::due`] has something to do next.
    pub fn next_end(&mut self) -> Option<Instant> {
        while let Some((end, changed, number)) = self.ends.front() {
            if self.open.get(changed).is_some_and(|open| open.number == *number) {
                return Some(*end);
            }
            self.ends.pop_front();
        }
        None
    }

    /// Ends all gatherings, because clients are told that everything has changed.
    pub fn clear(&mut self) {
        self.open.clear();
        self.ends.clear();
    }

    /// Whether none is in progress.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock;

    const BOUND: Duration = Duration::from_millis(50);

    fn key(name: &str) -> Changed {
        Changed::Key(name.as_bytes().into())
    }

    fn master(index: usize) -> MasterId {
        MasterId::new(index)
    }

    #[test]
    fn a_change_is_told_once_when_all_have_reported_it() {
        let (mut gatherings, now) = (Gatherings::new(BOUND), clock::now());
        let mut by =
            |index| gatherings.reported(&key("a"), master(index), MasterSet::first(3), now);
        assert_eq!([by(1), by(1), by(0), by(2)], [None, None, None, Some(4)]);
        assert!(gatherings.is_empty() && gatherings.next_end().is_none());
        assert_eq!(gatherings.due(now + BOUND), []);
    }

    #[test]
    fn one_live_master_is_not_waited_for() {
        let (mut gatherings, now) = (Gatherings::new(BOUND), clock::now());
        assert_eq!(gatherings.reported(&key("a"), master(0), MasterSet::first(1), now), Some(1));
        assert!(gatherings.is_empty());
    }

    #[test]
    fn what_some_do_not_report_is_told_at_the_bound_and_again_when_they_do() {
        let (mut gatherings, now) = (Gatherings::new(BOUND), clock::now());
        let live = MasterSet::first(3);
        assert!(gatherings.reported(&key("a"), master(0), live, now).is_none());
        assert!(gatherings.reported(&key("b"), master(0), live, now + BOUND / 2).is_none());
        assert_eq!(gatherings.next_end(), Some(now + BOUND));
        assert_eq!(gatherings.due(now + BOUND), [(key("a"), 1)]);
        assert!(gatherings.reported(&key("a"), master(1), live, now + BOUND).is_none());
        assert_eq!(gatherings.due(now + 2 * BOUND), [(key("b"), 1), (key("a"), 1)]);
    }

    /// The end of an earlier gathering is not that of a later one of the same key.
    #[test]
    fn each_gathering_has_its_own_time() {
        let (mut gatherings, now) = (Gatherings::new(BOUND), clock::now());
        let live = MasterSet::first(2);
        assert!(gatherings.reported(&key("a"), master(0), live, now).is_none());
        assert!(gatherings.reported(&key("a"), master(1), live, now).is_some());
        let later = now + BOUND / 2;
        assert!(gatherings.reported(&key("a"), master(1), live, later).is_none());
        assert_eq!(gatherings.due(now + BOUND), []);
        assert_eq!(gatherings.next_end(), Some(later + BOUND));
    }

    #[test]
    fn too_many_end_early() {
        let (mut gatherings, now) = (Gatherings::new(BOUND), clock::now());
        for number in 0..=MOST_OPEN {
            gatherings.reported(&key(&number.to_string()), master(0), MasterSet::first(2), now);
        }
        assert_eq!(gatherings.due(now), [(key("0"), 1)]);
    }
}
