//! Knowledge about the clocks from before this proxy read them.

use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::roster::clock::Clock;
use crate::decision::roster::noted::{ClockNote, Comparison, FoundNotes, ReadNotes, Timekeeper};

/// Other proxies' notes, until they have been compared with this proxy's readings.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// The note found on each master.
    notes: Vec<Option<ClockNote>>,
    looked_at: MasterSet,
    /// Time of the first reading of any master.
    since_us: Option<i64>,
    /// Time to wait for a quorum, in microseconds.
    patience_us: i64,
    is_known: bool,
    has_waited: bool,
    /// Noted clocks of masters that have not been read yet.
    clocks: Vec<(Timekeeper, Clock)>,
    /// Noted time of day, as of the start of our clock.
    time_us: Option<i64>,
}

/// Outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    /// Nothing, or nothing yet.
    Nothing,
    /// Enough masters were read, but they disagree about the notes. Reported once.
    Waits,
    /// All clocks may count except these, which were set by about this many microseconds.
    Known(Vec<(MasterId, i64)>),
}

impl Past {
    pub(super) fn new(places: usize, patience_us: i64) -> Self {
        Self {
            notes: vec![None; places],
            looked_at: MasterSet::EMPTY,
            since_us: None,
            patience_us,
            is_known: false,
            has_waited: false,
            clocks: Vec::new(),
            time_us: None,
        }
    }

    /// Whether clocks may count.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Records the note found on a master by a probe.
    pub(super) fn met(&mut self, master: MasterId, note: Option<ClockNote>) {
        if !self.is_known {
            self.looked_at.insert(master);
            self.notes[master.index()] = note;
        }
    }

    /// Compares the notes with the clocks read until `now_us`.
    ///
    /// Without notes, as before the first proxy, the clocks are accepted as found. The same applies if a quorum cannot
    /// be compared within the patience, which is the time that masters wait after a quorum has forgotten.
    pub(super) fn learn(
        &mut self,
        read: &[ReadNotes],
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

    /// Takes the noted time of day, as of the start of our clock.
    pub(super) fn take_time(&mut self) -> Option<i64> {
        self.time_us.take()
    }

    /// Takes the noted clock of a member that is read for the first time.
    pub(super) fn take(&mut self, whose: Timekeeper) -> Option<Clock> {
        let at = self.clocks.iter().position(|(other, _)| *other == whose)?;
        Some(self.clocks.swap_remove(at).1)
    }

    /// Noted clocks of members that have not been read yet.
    pub(super) fn clocks(&self) -> impl Iterator<Item = (Timekeeper, Clock)> {
        self.clocks.iter().copied()
    }

    /// Drops the noted clocks after this proxy's clock has stopped for a while, because nothing can be compared by it.
    pub(super) fn forget(&mut self) {
        self.clocks.clear();
    }
}

fn newest(comparisons: &[Comparison]) -> Option<&FoundNotes> {
    let found = comparisons.iter().filter_map(|comparison| match comparison {
        Comparison::Found(found) => Some(found),
        _ => None,
    });
    found.min_by_key(|found| found.age_us)
}
