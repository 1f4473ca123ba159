//! The clocks of all masters, as they are read once a second and in every proof.
//!
//! A clock that seems to have been set is not judged at once: if all masters seem to have made the same jump, it was
//! this proxy that stood still. So the others are read first.

use super::unix_time::UnixTime;
use crate::clock::Instant;
use crate::decision::roster::clock::{Clock, Finding, Look, Sample, judge};
use crate::quorum::{MasterId, MasterSet, Quorum};

/// How long the other masters have to be read, in microseconds.
const CONFIRMATION_US: i64 = 2_000_000;

/// Allowance for reading two clocks, in microseconds: neither is read in no time, and a wall clock that is slewed is
/// no step.
const READING_US: i64 = 1_000;

/// The clock of a master as it was read once.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// When we asked, and when we had the answer.
    pub asked: Instant,
    /// See `asked`.
    pub answered: Instant,
    /// What its clock said, in microseconds of Unix time.
    pub unix_micros: i64,
}

impl Reading {
    /// The same, by the clock that proofs are judged by.
    pub fn sample(&self, time: &UnixTime) -> Sample {
        sample(time.elapsed_us(self.asked), time.elapsed_us(self.answered), self.unix_micros)
    }
}

/// A sample with the allowance for reading.
pub fn sample(sent_us: i64, received_us: i64, master_us: i64) -> Sample {
    Sample { sent_us: sent_us - READING_US, received_us: received_us + READING_US, master_us }
}

/// What is known of the clocks.
#[derive(Clone, Debug)]
pub struct Clocks {
    quorum: Quorum,
    drift_ppm: i64,
    clocks: Vec<Option<Clock>>,
    /// Since one seems to have been set: when that was, and what the others looked like since.
    suspicion: Option<(i64, Vec<Option<Look>>)>,
    /// Counts how often clocks were begun anew.
    epoch: u64,
}

/// What a reading has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing.
    Nothing,
    /// A clock seems to have been set: the others have to be read as well.
    Suspicion,
    /// These were set, by about so many microseconds.
    Stepped(Vec<(MasterId, i64)>),
    /// This proxy stood still.
    StoodStill,
}

impl Clocks {
    /// Clocks that nobody has read yet. `drift` is the largest difference between the rates of two.
    pub fn new(quorum: Quorum, drift: f64) -> Self {
        let drift_ppm = (drift * 1_000_000.0) as i64;
        let clocks = vec![None; quorum.masters()];
        Self { quorum, drift_ppm, clocks, suspicion: None, epoch: 0 }
    }

    /// The clock of a master, and the epoch that it belongs to.
    pub fn get(&self, master: MasterId) -> (Option<Clock>, u64) {
        (self.clocks.get(master.index()).copied().flatten(), self.epoch)
    }

    /// Largest difference between the rates of two clocks, in millionths.
    pub fn drift_ppm(&self) -> i64 {
        self.drift_ppm
    }

    /// Counts how often clocks were begun anew.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The clock of `master` was read.
    pub fn read(&mut self, master: MasterId, sample: Sample) -> Shown {
        let drift_ppm = self.drift_ppm;
        let Some(place) = self.clocks.get_mut(master.index()) else { return Shown::Nothing };
        let look = match place {
            Some(clock) => clock.look(sample),
            None => {
                *place = Some(Clock::new(sample, drift_ppm));
                Look::Continues
            }
        };
        let now_us = sample.received_us;
        match &mut self.suspicion {
            Some((_, looks)) => looks[master.index()] = Some(look),
            None if look == Look::Continues => return Shown::Nothing,
            None => {
                let mut looks = vec![None; self.clocks.len()];
                looks[master.index()] = Some(look);
                self.suspicion = Some((now_us, looks));
            }
        }
        self.judge(now_us)
    }

    /// A master cannot be read: nobody waits for it.
    pub fn lost_sight(&mut self, master: MasterId) {
        if let Some((_, looks)) = &mut self.suspicion {
            looks[master.index()] = None;
        }
    }

    fn judge(&mut self, now_us: i64) -> Shown {
        let Some((since_us, looks)) = &self.suspicion else { return Shown::Nothing };
        let is_awaited =
            |(clock, look): (&Option<Clock>, &Option<Look>)| clock.is_some() && look.is_none();
        let awaits = self.clocks.iter().zip(looks).any(is_awaited);
        if awaits && now_us - since_us <= CONFIRMATION_US {
            return Shown::Suspicion;
        }
        let seen = looks.iter().enumerate();
        let seen: Vec<_> =
            seen.filter_map(|(at, look)| Some((MasterId::new(at), (*look)?))).collect();
        self.suspicion = None;
        self.epoch += 1;
        match judge(self.quorum, &seen) {
            Finding::StoodStill => {
                self.clocks.fill(None);
                Shown::StoodStill
            }
            Finding::Stepped(masters) => self.stepped(masters, &seen),
        }
    }

    fn stepped(&mut self, masters: MasterSet, seen: &[(MasterId, Look)]) -> Shown {
        masters.iter().for_each(|master| self.clocks[master.index()] = None);
        let by = |(master, look): &(MasterId, Look)| match look {
            Look::Stepped { least_us, most_us } => Some((*master, (least_us + most_us) / 2)),
            Look::Continues => None,
        };
        Shown::Stepped(seen.iter().filter_map(by).collect())
    }
}

/// How far a clock has gone wrong, in words.
pub fn deviation(by_us: i64) -> String {
    let way = if by_us > 0 { "gained" } else { "lost" };
    format!("{way} {} ms", by_us.abs() / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: i64 = 1_000_000;

    /// Reads the clocks of three masters once a second; `off_ms` says how far each is off, by master and second.
    fn found(seconds: i64, off_ms: impl Fn(usize, i64) -> Option<i64>) -> Vec<(usize, i64)> {
        let mut clocks = Clocks::new(Quorum::of(3), 0.01);
        let mut found = Vec::new();
        for second in 0..seconds {
            for master in 0..3 {
                let Some(off_ms) = off_ms(master, second) else { continue };
                let sent_us = second * SECOND_US + 3_000 * master as i64;
                let master_us = sent_us + 1_000 + 1_000 * off_ms;
                let shown =
                    clocks.read(MasterId::new(master), sample(sent_us, sent_us + 2_000, master_us));
                if let Shown::Stepped(masters) = shown {
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

    #[test]
    fn a_deviation_is_told_in_words() {
        assert_eq!(deviation(3_000_999), "gained 3000 ms");
        assert_eq!(deviation(-15_000), "lost 15 ms");
    }
}
