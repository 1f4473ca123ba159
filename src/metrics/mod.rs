//! Counters that a worker keeps while it serves.
//!
//! Each worker has separate counters and is the only one to write them. An update is a plain load and store, without
//! locks or locked instructions on the hot path. Readers (`crate::admin`) see each counter as it was a moment ago.

mod contention;
pub mod errors;
pub mod histogram;
pub mod process;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::catalogue::table;
use crate::decision::quorum::MasterId;
use crate::time::clock::{self, Instant};

pub use contention::Contention;
use errors::Errors;
use histogram::Histogram;

/// A counter that one thread increments and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Adds one.
    pub fn one(&self) {
        self.add(1);
    }

    /// Current count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value as of its last update.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Value at the last update.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A state that its owner keeps here, so that every reader sees the present one.
#[derive(Debug)]
pub struct Flag {
    holds: AtomicBool,
    since: Mutex<Instant>,
}

impl Default for Flag {
    fn default() -> Self {
        Self { holds: AtomicBool::new(false), since: Mutex::new(clock::now()) }
    }
}

impl Flag {
    /// Sets the state.
    pub fn set(&self, holds: bool) {
        if self.holds.swap(holds, Ordering::Relaxed) != holds {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
        }
    }

    /// Returns the time of the last change.
    pub fn since(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the state holds now.
    #[inline]
    pub fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }
}

/// Kind of request to the masters, from an operator's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionKind {
    /// Taking a lock.
    Claim,
    /// Releasing a lock.
    Release,
    /// Extending a lock.
    Expiry,
    /// A script, a transaction, or a command that writes to a register.
    Program,
    /// Reading keys.
    Read,
    /// Messages.
    Message,
}

impl QuestionKind {
    /// All questions, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Claim, Self::Release, Self::Expiry, Self::Program, Self::Read, Self::Message];

    /// Whether an unchanged state means that nothing was granted. A program may have run all the same.
    pub fn is_about_a_change(self) -> bool {
        matches!(self, Self::Claim | Self::Release | Self::Expiry)
    }

    /// Name used as a label.
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

/// Outcome of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// A quorum carried it out.
    Granted,
    /// A quorum settled on an answer, and it was no.
    Refused,
    /// The outcome could have been either, or too few masters could be asked.
    Undecided,
}

impl VerdictKind {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Granted, Self::Refused, Self::Undecided];

    /// Name used as a label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Undecided => "undecided",
        }
    }
}

/// Counters of one worker.
#[derive(Debug)]
pub struct Metrics {
    /// Requests by their command's place in the table: answered, and answered with an error.
    requests: Vec<[Count; 2]>,
    /// Latencies by the command's place.
    latencies: Vec<Histogram>,
    verdicts: [[Count; VerdictKind::ALL.len()]; QuestionKind::ALL.len()],
    masters: Vec<MasterMetrics>,
    /// Rounds repeated because no client had won, by question.
    retries: [Count; QuestionKind::ALL.len()],
    /// Claims taken back on a master.
    pub rollbacks: Count,
    /// Requests refused because too many wait for the same key.
    pub turned_away: Count,
    /// Claims that wait for a held key now.
    pub waiting: Gauge,
    /// Time from a poller's first refusal to its grant, in microseconds.
    pub polled: Histogram,
    /// Programs to which masters gave different replies although they held the same state.
    pub replies_differing: Count,
    /// Bytes received from clients.
    pub bytes_in: Count,
    /// Bytes sent to clients.
    pub bytes_out: Count,
    /// Recent number of operations in flight.
    pub in_flight: Gauge,
    /// Delay of the event loop behind its timers.
    pub lag: Histogram,
    /// Errors sent to clients.
    pub errors: Errors,
    /// The most contended keys.
    pub contention: Contention,
}

/// Counters of one master.
#[derive(Debug, Default)]
pub struct MasterMetrics {
    /// Ballots that were trusted but belong to a round before the latest one.
    pub behind: Count,
    /// Ballots that were late, erroneous or lost.
    pub unknown: Count,
    /// Time from the request to the ballot, for all other trusted ballots.
    pub round_trip: Histogram,
    /// Whether this worker is connected to the master.
    pub is_up: Arc<Flag>,
    /// Recent number of releases and similar requests that the master has yet to receive.
    pub deferred: Gauge,
    /// Number of those requests that were given up.
    pub dropped: Gauge,
    /// Recent number of registers that the master is known to be behind on.
    pub registers_behind: Gauge,
    /// Seconds for which that number has not fallen.
    pub not_falling_s: Gauge,
}

impl MasterMetrics {
    /// Number of ballots that were trusted.
    pub fn answered(&self) -> u64 {
        self.behind.get() + self.round_trip.calls()
    }
}

impl Metrics {
    /// Creates zeroed counters for `masters` masters.
    pub fn new(masters: usize) -> Self {
        Self {
            requests: (0..=table::all().len()).map(|_| Default::default()).collect(),
            latencies: table::all().iter().map(|_| Histogram::default()).collect(),
            verdicts: Default::default(),
            masters: (0..masters).map(|_| MasterMetrics::default()).collect(),
            retries: Default::default(),
            rollbacks: Count::default(),
            turned_away: Count::default(),
            waiting: Gauge::default(),
            polled: Histogram::default(),
            replies_differing: Count::default(),
            bytes_in: Count::default(),
            bytes_out: Count::default(),
            in_flight: Gauge::default(),
            lag: Histogram::default(),
            errors: Errors::default(),
            contention: Contention::default(),
        }
    }

    /// Counts an answered request. Places beyond the end of the table count as unknown commands.
    pub fn request(&self, place: u16, is_error: bool) {
        let place = usize::from(place).min(table::all().len());
        self.requests[place][usize::from(is_error)].one();
    }

    /// Number of requests with the command at this place: answered, and answered with an error.
    pub fn requests_at(&self, place: usize) -> (u64, u64) {
        let [done, failed] = &self.requests[place];
        (done.get(), failed.get())
    }

    /// Records that masters took `us` microseconds for a request with the command at this place.
    pub fn took(&self, place: u16, us: u64) {
        if let Some(latency) = self.latencies.get(usize::from(place)) {
            latency.observe(us);
        }
    }

    /// Latencies of the command at this place.
    pub fn latency(&self, place: usize) -> &Histogram {
        &self.latencies[place]
    }

    /// Counts a decided question.
    pub fn verdict(&self, question: QuestionKind, outcome: VerdictKind) {
        self.verdicts[question as usize][outcome as usize].one();
    }

    /// Number of questions of this kind with this outcome.
    pub fn verdicts(&self, question: QuestionKind, outcome: VerdictKind) -> u64 {
        self.verdicts[question as usize][outcome as usize].get()
    }

    /// Counts a repeated round.
    pub fn retried(&self, question: QuestionKind) {
        self.retries[question as usize].one();
    }

    /// Number of repeated rounds.
    pub fn retries(&self, question: QuestionKind) -> u64 {
        self.retries[question as usize].get()
    }

    /// Counters of one master.
    pub fn master(&self, master: MasterId) -> &MasterMetrics {
        &self.masters[master.index()]
    }

    /// Iterates over the commands that were used: the name, whether the answer was an error, and the count.
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
        for question in QuestionKind::ALL {
            for outcome in VerdictKind::ALL {
                metrics.verdict(question, outcome);
                assert_eq!(metrics.verdicts(question, outcome), 1, "{question:?} {outcome:?}");
            }
        }
        assert!(QuestionKind::ALL.iter().enumerate().all(|(place, it)| *it as usize == place));
        assert!(VerdictKind::ALL.iter().enumerate().all(|(place, it)| *it as usize == place));
    }
}
