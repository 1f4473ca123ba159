//! The clocks of all masters, read once a second and in every proof.
//!
//! A clock that seems to have been set is not judged at once. If all masters seem to have made the same jump, this
//! proxy stood still instead, so the other clocks are read first.

mod past;

use std::time::Duration;

use self::past::{Learned, Past};
use super::clock::Instant;
use super::unix_time::UnixTime;
use crate::decision::quorum::{MasterId, MasterSet, Quorum};
use crate::decision::roster::clock::{Clock, ClockLook, Finding, Sample, judge};
use crate::decision::roster::noted::{ClockNote, ReadNotes, Timekeeper};

/// Time limit for reading the other masters, in microseconds.
const CONFIRMATION_US: i64 = 2_000_000;

/// Allowance for reading two clocks, in microseconds. Neither reading is instantaneous, and a slewed wall clock has
/// not stepped.
const READING_US: i64 = 1_000;

/// One reading of a master's clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// Time of the request.
    pub asked: Instant,
    /// Time of the answer.
    pub answered: Instant,
    /// Time shown by the clock, in microseconds of Unix time.
    pub unix_micros: i64,
}

impl ClockReading {
    /// Converts the reading to the clock by which proofs are judged.
    pub fn sample(&self, time: &UnixTime) -> Sample {
        sample(time.elapsed_us(self.asked), time.elapsed_us(self.answered), self.unix_micros)
    }
}

/// Returns a sample that includes the allowance for reading.
pub fn sample(sent_us: i64, received_us: i64, master_us: i64) -> Sample {
    Sample { sent_us: sent_us - READING_US, received_us: received_us + READING_US, master_us }
}

/// State of a master's clock by which links judge votes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timekeeping {
    /// Clock at its last reading. Nothing can continue a clock that has not been read.
    pub clock: Option<Clock>,
    /// Epoch in which the clock was begun: see [`Term::clock`](crate::decision::roster::term::Term::clock).
    pub begun: u64,
    /// Epoch at the time of this query.
    pub epoch: u64,
}

/// Knowledge about the masters' clocks.
#[derive(Clone, Debug)]
pub struct Clocks {
    quorum: Quorum,
    drift_ppm: i64,
    clocks: Vec<Option<Clock>>,
    /// Epoch in which each master's clock was begun.
    begun: Vec<u64>,
    /// Owner of each master's clock, according to the master's last mark.
    whose: Vec<Option<Timekeeper>>,
    past: Past,
    /// Masters that cannot be read now and are therefore not awaited.
    lost: MasterSet,
    /// Time of the first reading that suggested a set clock, and the other clocks' readings since.
    suspicion: Option<(i64, Vec<Option<ClockLook>>)>,
    /// Number of times that clocks were begun anew.
    epoch: u64,
}

/// Conclusion from a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShownClock {
    /// Nothing, or nothing yet.
    Nothing,
    /// A clock seems to have been set, so the others must be read as well. Reported once.
    Suspicion,
    /// These clocks were set, by about this many microseconds.
    Stepped(Vec<(MasterId, i64)>),
    /// This proxy stood still, for about this many microseconds.
    StoodStill(i64),
    /// The clocks read so far do not continue as another proxy noted them, so more must be read. Reported once.
    Unsure,
}

impl Clocks {
    /// Creates clocks that have not been read yet. `drift` is the largest difference in rate between two clocks.
    /// `patience` is the time to wait for enough of them to compare with other proxies' notes.
    ///
    /// There is room for as many as `places`.
    pub fn new(quorum: Quorum, places: usize, drift: f64, patience: Duration) -> Self {
        let drift_ppm = (drift * 1_000_000.0) as i64;
        let (clocks, begun) = (vec![None; places], vec![0; places]);
        let patience_us = i64::try_from(patience.as_micros()).unwrap_or(i64::MAX);
        Self {
            quorum,
            drift_ppm,
            clocks,
            begun,
            whose: vec![None; places],
            past: Past::new(places, patience_us),
            lost: MasterSet::EMPTY,
            suspicion: None,
            epoch: 0,
        }
    }

    /// Has a quorum of these seats decide from now on which clocks were set.
    pub fn count_by(&mut self, quorum: Quorum) {
        self.quorum = quorum;
    }

    /// Returns a master's clock, or none until all clocks have been compared with the notes about them.
    pub fn get(&self, master: MasterId) -> Timekeeping {
        let clock = self.clocks.get(master.index()).copied().flatten();
        let clock = clock.filter(|_| self.past.is_known());
        let begun = self.begun.get(master.index()).copied().unwrap_or_default();
        Timekeeping { clock, begun, epoch: self.epoch }
    }

    /// Epoch in which each master's clock was begun.
    pub fn begun(&self) -> &[u64] {
        &self.begun
    }

    /// Number of times that clocks were begun anew.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether other proxies' notes are still needed.
    pub fn wants_notes(&self) -> bool {
        !self.past.is_known()
    }

    /// Records the owner of a master's clock and another proxy's note on that master.
    pub fn met(&mut self, master: MasterId, whose: Option<Timekeeper>, note: Option<ClockNote>) {
        self.whose[master.index()] = whose;
        self.past.met(master, note);
    }

    /// Takes the time of day noted by another proxy, as of the start of our clock. Returned once.
    pub fn noted_time_us(&mut self) -> Option<i64> {
        self.past.take_time()
    }

    /// Returns the note for proxies that start later, if anything is known. It holds the time of day at the start of
    /// our clock, and the clocks of the masters in `of`. It also holds the clocks of members that this proxy has not
    /// read itself.
    pub fn note(&self, of: MasterSet, now_us: i64, time_us: i64) -> Option<ClockNote> {
        if !self.past.is_known() || self.suspicion.is_some() {
            return None;
        }
        let read = self.known().filter(|(master, ..)| of.contains(*master));
        let read = read.map(|(_, whose, clock)| (whose, clock));
        Some(ClockNote::new(now_us, time_us, read.chain(self.past.clocks())))
    }

    fn known(&self) -> impl Iterator<Item = ReadNotes> {
        let both = self.whose.iter().zip(&self.clocks).enumerate();
        both.filter_map(|(at, (whose, clock))| Some((MasterId::new(at), (*whose)?, (*clock)?)))
    }

    /// Records a reading of the clock of `master`.
    pub fn read(&mut self, master: MasterId, sample: Sample) -> ShownClock {
        let shown = self.compare(master, sample);
        if self.past.is_known() {
            return shown;
        }
        let read: Vec<_> = self.known().collect();
        let (now_us, drift_ppm) = (sample.received_us, self.drift_ppm);
        let learned = self.past.learn(&read, now_us, drift_ppm, self.quorum);
        match learned {
            Learned::Nothing => shown,
            Learned::Waits => ShownClock::Unsure,
            Learned::Known(set) => {
                self.epoch += 1;
                set.iter().for_each(|(master, _)| self.begin_anew(*master));
                if set.is_empty() { shown } else { ShownClock::Stepped(set) }
            }
        }
    }

    fn compare(&mut self, master: MasterId, sample: Sample) -> ShownClock {
        let drift_ppm = self.drift_ppm;
        let noted = self.whose.get(master.index()).copied().flatten();
        let mut noted = noted.and_then(|whose| self.past.take(whose));
        let Some(place) = self.clocks.get_mut(master.index()) else { return ShownClock::Nothing };
        let look = match place {
            Some(clock) => clock.look(sample),
            None => {
                let look = noted.as_mut().map_or(ClockLook::Continues, |noted| noted.look(sample));
                *place = noted.or_else(|| Some(Clock::new(sample, drift_ppm)));
                look
            }
        };
        self.lost.remove(master);
        let now_us = sample.received_us;
        let is_new = self.suspicion.is_none();
        if is_new && look == ClockLook::Continues {
            return ShownClock::Nothing;
        }
        let begin = || (now_us, vec![None; self.clocks.len()]);
        let (since_us, looks) = self.suspicion.get_or_insert_with(begin);
        looks[master.index()] = Some(look);
        let is_due = now_us - *since_us > CONFIRMATION_US;
        match self.judge(is_due) {
            None if is_new => ShownClock::Suspicion,
            shown => shown.unwrap_or(ShownClock::Nothing),
        }
    }

    /// Records that a master cannot be read, so that it is not awaited.
    pub fn lost_sight(&mut self, master: MasterId) -> ShownClock {
        self.lost.insert(master);
        self.judge(false).unwrap_or(ShownClock::Nothing)
    }

    /// Judges a suspicion once all other clocks have been read, or without them if it is due.
    fn judge(&mut self, is_due: bool) -> Option<ShownClock> {
        let (_, looks) = self.suspicion.as_ref()?;
        let is_awaited = |(at, (clock, look)): (usize, (&Option<Clock>, &Option<ClockLook>))| {
            clock.is_some() && look.is_none() && !self.lost.contains(MasterId::new(at))
        };
        if !is_due && self.clocks.iter().zip(looks).enumerate().any(is_awaited) {
            return None;
        }
        let seen = looks.iter().enumerate();
        let seen: Vec<_> =
            seen.filter_map(|(at, look)| Some((MasterId::new(at), (*look)?))).collect();
        self.suspicion = None;
        self.epoch += 1;
        Some(match judge(self.quorum, &seen) {
            Finding::StoodStill(stopped_us) => {
                (0..self.clocks.len()).for_each(|at| self.begin_anew(MasterId::new(at)));
                self.past.forget();
                ShownClock::StoodStill(stopped_us)
            }
            Finding::Stepped(masters) => self.stepped(masters, &seen),
        })
    }

    fn stepped(&mut self, masters: MasterSet, seen: &[(MasterId, ClockLook)]) -> ShownClock {
        masters.iter().for_each(|master| self.begin_anew(master));
        let by = |(master, look): &(MasterId, ClockLook)| match look {
            ClockLook::Stepped { least_us, most_us } => Some((*master, (least_us + most_us) / 2)),
            ClockLook::Continues => None,
        };
        ShownClock::Stepped(seen.iter().filter_map(by).collect())
    }

    fn begin_anew(&mut self, master: MasterId) {
        (self.clocks[master.index()], self.begun[master.index()]) = (None, self.epoch);
    }
}

/// Describes a clock's deviation in words.
pub fn deviation(by_us: i64) -> String {
    let way = if by_us > 0 { "gained" } else { "lost" };
    format!("{way} {} ms", by_us.abs() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: i64 = 1_000_000;

    fn clocks() -> Clocks {
        Clocks::new(Quorum::of(3), 3, 0.01, Duration::from_secs(60))
    }

    /// Reads the clocks of three masters once a second. `off_ms` returns each clock's offset, by master and second.
    fn found(seconds: i64, off_ms: impl Fn(usize, i64) -> Option<i64>) -> Vec<(usize, i64)> {
        let mut clocks = clocks();
        let mut found = Vec::new();
        for second in 0..seconds {
            for master in 0..3 {
                let Some(off_ms) = off_ms(master, second) else { continue };
                let sent_us = second * SECOND_US + 3_000 * master as i64;
                let master_us = sent_us + 1_000 + 1_000 * off_ms;
                let shown =
                    clocks.read(MasterId::new(master), sample(sent_us, sent_us + 2_000, master_us));
                if let ShownClock::Stepped(masters) = shown {
                    found.extend(masters.iter().map(|(master, _)| (master.index(), second)));
                }
            }
        }
        found
    }

    #[test]
    fn clocks_may_differ_and_drift_a_little() {
        let off = |master: usize, second: i64| Some(5_000 * master as i64 + 5 * second);
        assert_eq!(found(100, off), []);
    }

    #[test]
    fn a_clock_that_is_set_is_found_when_the_others_were_read() {
        for jump in [-3_000, -100, 100, 3_000] {
            let off = |master, second| Some(if master == 1 && second >= 7 { jump } else { 0 });
            let found = found(20, off);
            assert_eq!(found.len(), 1, "{jump} ms: {found:?}");
            assert!(found[0].0 == 1 && found[0].1 <= 8, "{jump} ms: {found:?}");
        }
    }

    #[test]
    fn when_all_jump_alike_this_proxy_stood_still() {
        assert_eq!(found(20, |_, second| Some(if second >= 7 { 5_000 } else { 0 })), []);
    }

    #[test]
    fn one_that_is_not_read_is_not_waited_for() {
        let off = |master, second| {
            let jump = if master == 1 && second >= 7 { 5_000 } else { 0 };
            (master != 2 || second < 7).then_some(jump)
        };
        let found = found(20, off);
        assert_eq!(found.iter().map(|(master, _)| *master).collect::<Vec<_>>(), [1], "{found:?}");
    }

    /// Returns whether each reading of a set clock, while another master is silent, requests more readings.
    fn wants_more(readings: i64) -> Vec<bool> {
        let mut clocks = clocks();
        let mut read = |master, sent_us: i64, off_us| {
            clocks.read(MasterId::new(master), sample(sent_us, sent_us + 2_000, sent_us + off_us))
        };
        (0..3).for_each(|master| assert_eq!(read(master, 0, 1_000), ShownClock::Nothing));
        (1..=readings).map(|at| read(1, at * 10_000, 5_000_000) == ShownClock::Suspicion).collect()
    }

    #[test]
    fn a_suspicion_wants_one_reading_of_the_others() {
        assert_eq!(wants_more(4), [true, false, false, false]);
    }

    #[test]
    fn one_that_was_lost_is_not_waited_for_a_moment() {
        let (set, other, lost) = (MasterId::new(1), MasterId::new(0), MasterId::new(2));
        for is_lost_before in [true, false] {
            let mut clocks = clocks();
            let at = |us: i64, off_us| sample(us, us + 2_000, us + off_us);
            for master in [set, other, lost] {
                assert_eq!(clocks.read(master, at(0, 1_000)), ShownClock::Nothing);
            }
            if is_lost_before {
                assert_eq!(clocks.lost_sight(lost), ShownClock::Nothing);
            }
            assert_eq!(clocks.read(set, at(SECOND_US, 9_000_000)), ShownClock::Suspicion);
            let mut shown = clocks.read(other, at(SECOND_US, 1_000));
            if !is_lost_before {
                assert_eq!(shown, ShownClock::Nothing, "the third may still be read");
                shown = clocks.lost_sight(lost);
            }
            assert!(matches!(shown, ShownClock::Stepped(masters) if masters[0].0 == set));
        }
    }

    #[test]
    fn a_clock_that_was_set_is_begun_anew_and_only_that_one() {
        let mut clocks = clocks();
        let mut read_all = |second: i64, off_us: [i64; 3]| {
            for master in [0, 1, 2] {
                let sent_us = second * SECOND_US;
                let it = sample(sent_us, sent_us + 2_000, sent_us + off_us[master]);
                clocks.read(MasterId::new(master), it);
            }
            clocks.begun().to_vec()
        };
        let first = read_all(0, [0, 0, 0]);
        assert_eq!(read_all(1, [0, 0, 0]), first);
        read_all(2, [0, 9_000_000, 0]);
        let second = read_all(3, [0, 9_000_000, 0]);
        assert_eq!(second.iter().zip(&first).filter(|(a, b)| a != b).count(), 1);
        assert_ne!(second[1], first[1]);
        assert_eq!(read_all(4, [0, 9_000_000, 0]), second, "it goes on as it was set");
        let stood_still = read_all(5, [5_000_000, 14_000_000, 5_000_000]);
        assert!(stood_still.iter().zip(&second).all(|(a, b)| a != b), "{stood_still:?}");
    }

    #[test]
    fn a_deviation_is_told_in_words() {
        assert_eq!(deviation(3_000_999), "gained 3000 ms");
        assert_eq!(deviation(-15_000), "lost 15 ms");
    }
}
