//! What a worker counts while it serves.
//!
//! Each worker has its own counts, and is the only one that writes them: a plain load and store, no lock and no
//! locked instruction on the hot path. Whoever reads them (`crate::admin`) sees each as it was a moment ago.

mod contention;
pub mod errors;
pub mod histogram;
pub mod process;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::catalogue::table;
use crate::decision::quorum::MasterId;

pub use contention::Contention;
use errors::Errors;
use histogram::Histogram;

/// A number that one thread counts up, and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Counts `more`.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Counts one.
    pub fn one(&self) {
        self.add(1);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number as it was when it was last looked at.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// It is `value` now.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// What it was.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is asked of the masters, as operators think of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// May I have this lock?
    Claim,
    /// Do I give this lock back?
    Release,
    /// May I keep it for longer?
    Expiry,
    /// A script, a transaction, or a command that writes to a register.
    Program,
    /// What is there?
    Read,
    /// Messages.
    Message,
}

impl Question {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Claim, Self::Release, Self::Expiry, Self::Program, Self::Read, Self::Message];

    /// Whether nothing is granted where nothing has changed. A program may have been run all the same.
    pub fn is_about_a_change(self) -> bool {
        matches!(self, Self::Claim | Self::Release | Self::Expiry)
    }

    /// Its name as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Expiry => "expiry",
            Self::Program => "program",
            Self::Read => "read",
            Self::Message => "message",
        }
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A quorum did it.
    Granted,
    /// A quorum had nothing against an answer, and it was no.
    Refused,
    /// It could have been either, or too few could be asked.
    Undecided,
}

impl Outcome {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Granted, Self::Refused, Self::Undecided];

    /// Its name as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Undecided => "undecided",
        }
    }
}

/// The counts of one worker.
#[derive(Debug)]
pub struct Metrics {
    /// Requests by the place of their command in the table: answered, and answered with an error.
    requests: Vec<[Count; 2]>,
    /// By the place of the command.
    latencies: Vec<Histogram>,
    verdicts: [[Count; Outcome::ALL.len()]; Question::ALL.len()],
    masters: Vec<MasterMetrics>,
    /// Rounds that were begun again because nobody had won, by question.
    retries: [Count; Question::ALL.len()],
    /// Claims that were taken back on a master.
    pub rollbacks: Count,
    /// Requests that were refused because too many wait for the same key.
    pub turned_away: Count,
    /// Programs that masters answered differently although they held the same.
    pub replies_differing: Count,
    /// Bytes that clients sent.
    pub bytes_in: Count,
    /// Bytes that clients were sent.
    pub bytes_out: Count,
    /// Operations in flight, a moment ago.
    pub in_flight: Gauge,
    /// How late the event loop was for a timer.
    pub lag: Histogram,
    /// Errors that clients were told.
    pub errors: Errors,
    /// Which keys are fought for.
    pub contention: Contention,
}

/// Of one master.
#[derive(Debug, Default)]
pub struct MasterMetrics {
    /// Ballots that were trusted, but belong to a round before the last one.
    pub behind: Count,
    /// Those that were late, errors or lost.
    pub unknown: Count,
    /// From the request to the ballot, of all others that were trusted.
    pub round_trip: Histogram,
    /// Whether this worker is connected to it, a moment ago.
    pub is_up: Gauge,
    /// Releases and the like that it still has to get, a moment ago.
    pub deferred: Gauge,
    /// Those that were given up.
    pub dropped: Gauge,
    /// Registers that it is known to be behind on, a moment ago.
    pub registers_behind: Gauge,
    /// For how many seconds these have not become fewer.
    pub not_falling_s: Gauge,
}

impl MasterMetrics {
    /// Ballots that were trusted.
    pub fn answered(&self) -> u64 {
        self.behind.get() + self.round_trip.calls()
    }
}

impl Metrics {
    /// Nothing has happened yet before so many masters.
    pub fn new(masters: usize) -> Self {
        Self {
            requests: (0..=table::all().len()).map(|_| Default::default()).collect(),
            latencies: table::all().iter().map(|_| Histogram::default()).collect(),
            verdicts: Default::default(),
            masters: (0..masters).map(|_| MasterMetrics::default()).collect(),
            retries: Default::default(),
            rollbacks: Count::default(),
            turned_away: Count::default(),
            replies_differing: Count::default(),
            bytes_in: Count::default(),
            bytes_out: Count::default(),
            in_flight: Gauge::default(),
            lag: Histogram::default(),
            errors: Errors::default(),
            contention: Contention::default(),
        }
    }

    /// A request was answered. Beyond the end of the table are those that are no command.
    pub fn request(&self, place: u16, is_error: bool) {
        let place = usize::from(place).min(table::all().len());
        self.requests[place][usize::from(is_error)].one();
    }

    /// How often the command at this place was answered, and answered with an error.
    pub fn requests_at(&self, place: usize) -> (u64, u64) {
        let [done, failed] = &self.requests[place];
        (done.get(), failed.get())
    }

    /// Masters took so many microseconds for a request with the command at this place.
    pub fn took(&self, place: u16, us: u64) {
        if let Some(latency) = self.latencies.get(usize::from(place)) {
            latency.observe(us);
        }
    }

    /// How long they took for the command at this place.
    pub fn latency(&self, place: usize) -> &Histogram {
        &self.latencies[place]
    }

    /// A question was decided.
    pub fn verdict(&self, question: Question, outcome: Outcome) {
        self.verdicts[question as usize][outcome as usize].one();
    }

    /// How often it was.
    pub fn verdicts(&self, question: Question, outcome: Outcome) -> u64 {
        self.verdicts[question as usize][outcome as usize].get()
    }

    /// A round is begun again.
    pub fn retried(&self, question: Question) {
        self.retries[question as usize].one();
    }

    /// How many were.
    pub fn retries(&self, question: Question) -> u64 {
        self.retries[question as usize].get()
    }

    /// Those of one master.
    pub fn master(&self, master: MasterId) -> &MasterMetrics {
        &self.masters[master.index()]
    }

    /// The name of each command that was used, whether it was answered with an error, and how often.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, bool, u64)> {
        let names = table::all().iter().map(|spec| spec.name).chain(["unknown"]);
        let outcomes = names.zip(&self.requests).flat_map(|(name, counts)| {
            [(name, false, counts[0].get()), (name, true, counts[1].get())]
        });
        outcomes.filter(|(_, _, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_and_outcome_has_a_place_of_its_own() {
        let metrics = Metrics::new(1);
        for question in Question::ALL {
            for outcome in Outcome::ALL {
                metrics.verdict(question, outcome);
                assert_eq!(metrics.verdicts(question, outcome), 1, "{question:?} {outcome:?}");
            }
        }
        assert!(Question::ALL.iter().enumerate().all(|(place, it)| *it as usize == place));
        assert!(Outcome::ALL.iter().enumerate().all(|(place, it)| *it as usize == place));
    }
}
