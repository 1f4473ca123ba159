//! What is known of the clocks from the time before this proxy looked.

use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::roster::clock::Clock;
use crate::decision::roster::noted::{Comparison, Found, Note, Read, Timekeeper};

/// What other proxies have noted, until it was compared with what this one reads.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// As found on each master.
    notes: Vec<Option<Note>>,
    looked_at: MasterSet,
    /// When the first master was read.
    since_us: Option<i64>,
    /// How long a quorum is waited for, in microseconds.
    patience_us: i64,
    is_known: bool,
    has_waited: bool,
    /// Clocks of masters that were not read yet.
    clocks: Vec<(Timekeeper, Clock)>,
    /// The time of day that was noted, by what it was when our clock began.
    time_us: Option<i64>,
}

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// Nothing, or nothing yet.
    Nothing,
    /// Enough masters were read, and they do not agree about what was noted. It is told once.
    Waits,
    /// All clocks may be counted but these: they were set, by about so many microseconds.
    Known(Vec<(MasterId, i64)>),
}

impl Past {
    pub(super) fn new(quorum: Quorum, patience_us: i64) -> Self {
        Self {
            notes: vec![None; quorum.masters()],
            looked_at: MasterSet::EMPTY,
            since_us: None,
            patience_us,
            is_known: false,
            has_waited: false,
            clocks: Vec::new(),
            time_us: None,
        }
    }

    /// Whether clocks may be counted.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// A master was looked at, and this note was found on it.
    pub(super) fn met(&mut self, master: MasterId, note: Option<Note>) {
        if !self.is_known {
            self.looked_at.insert(master);
            self.notes[master.index()] = note;
        }
    }

    /// Compares what was noted with the clocks that were read until `now_us`.
    ///
    /// When nothing was noted, as before the first proxy, the clocks are taken as they are found. So are they when a quorum
    /// cannot be compared within the patience: it is how long the masters wait after a quorum has forgotten.
    pub(super) fn learn(
        &mut self,
        read: &[Read],
        now_us: i64,
        drift_ppm: i64,
        quorum: Quorum,
    ) -> Learned {
        let since_us = *self.since_us.get_or_insert(now_us);
        if !quorum.reached_by(self.looked_at) {
            return Learned::Nothing;
        }
        let notes = self.notes.iter().flatten();
        let comparisons = notes.map(|note| note.compare(read, now_us, drift_ppm, quorum));
        let comparisons: Vec<_> = comparisons.collect();
        let is_patient = now_us - since_us < self.patience_us;
        let set = if let Some(newest) = newest(&comparisons) {
            let is_unread = |(whose, _): &&(Timekeeper, Clock)| {
                read.iter().all(|(_, other, _)| other.member != whose.member)
            };
            self.clocks = newest.clocks.iter().filter(is_unread).copied().collect();
            self.time_us = Some(newest.time_us);
            newest.set.clone()
        } else if is_patient && comparisons.contains(&Comparison::Wait) {
            let masters = read.iter().map(|(master, ..)| *master).collect();
            let is_told = self.has_waited || !quorum.reached_by(masters);
            self.has_waited |= !is_told;
            return if is_told { Learned::Nothing } else { Learned::Waits };
        } else {
            let all_set = comparisons.into_iter().find_map(|comparison| match comparison {
                Comparison::AllSet(masters) => Some(masters),
                _ => None,
            });
            all_set.unwrap_or_default()
        };
        self.is_known = true;
        Learned::Known(set)
    }

    /// The time of day that was noted, by what it was when our clock began.
    pub(super) fn take_time(&mut self) -> Option<i64> {
        self.time_us.take()
    }

    /// The clock of a member that is read for the first time, as it was noted.
    pub(super) fn take(&mut self, whose: Timekeeper) -> Option<Clock> {
        let at = self.clocks.iter().position(|(other, _)| *other == whose)?;
        Some(self.clocks.swap_remove(at).1)
    }

    /// Clocks of members that were not read yet.
    pub(super) fn clocks(&self) -> impl Iterator<Item = (Timekeeper, Clock)> {
        self.clocks.iter().copied()
    }

    /// The clock of this proxy has stopped for a while: nothing can be compared by it.
    pub(super) fn forget(&mut self) {
        self.clocks.clear();
    }
}

fn newest(comparisons: &[Comparison]) -> Option<&Found> {
    let found = comparisons.iter().filter_map(|comparison| match comparison {
        Comparison::Found(found) => Some(found),
        _ => None,
    });
    found.min_by_key(|found| found.age_us)
}
