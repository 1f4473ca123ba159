//! What a worker's last programs have left for its next ones: promises that a quorum has given along with their answers.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use super::behind::Behind;
use super::decided::Decided;
use super::remains::Remains;
use super::{Job, Place};
use crate::clock::{self, Instant};
use crate::decision::keyspace::slot::Basis;

/// The registers of one worker.
#[derive(Debug)]
pub struct Registers {
    /// Its id.
    pub worker: u64,
    /// The edition of the roster under which everything is held.
    edition: Cell<u64>,
    /// How often masters were seen to have been flushed.
    flushes: Cell<u64>,
    /// With the moment since when.
    held: RefCell<HashMap<Place, (Instant, Basis<Job>)>>,
    /// When it was last said that masters answer differently.
    pub(in crate::operation) warned: Cell<Option<Instant>>,
    /// What masters have missed.
    pub behind: Behind,
    /// What all of them hold, and may forget the group of.
    pub decided: Decided,
    /// Leases of a minority.
    pub remains: Remains,
}

/// The most keys that something is held of.
const MOST: usize = 10_000;

/// How long something is held. A key may be absent, and the stamp of such a one is dropped at [`TOMBSTONE_AGE`]: what became
/// of a program that arrives after that is not known.
const LONGEST: Duration = Duration::from_secs(5);

/// How old a stamp of an absent key is at least that is dropped.
pub const TOMBSTONE_AGE: Duration = Duration::from_secs(10);

impl Default for Registers {
    fn default() -> Self {
        let (behind, decided, remains) =
            (Behind::default(), Decided::default(), Remains::default());
        let (edition, flushes, held) = (Cell::new(0), Cell::new(0), RefCell::default());
        let (worker, warned) = (fastrand::u64(1..), Cell::new(None));
        Self { worker, edition, flushes, held, warned, behind, decided, remains }
    }
}

impl Registers {
    /// The edition of the roster, as it was seen last.
    pub fn edition(&self) -> u64 {
        self.edition.get()
    }

    /// Sees another edition of the roster: promises end with the one before.
    pub fn see(&self, edition: u64) {
        if self.edition.replace(edition) != edition {
            self.held.borrow_mut().clear();
        }
    }

    /// Sees how often masters were seen to have been flushed: promises end with that as well.
    pub fn see_flushes(&self, flushes: u64) {
        if self.flushes.replace(flushes) != flushes {
            self.held.borrow_mut().clear();
        }
    }

    /// Takes what is held of these keys; `None`, unless that is all of them.
    pub fn held(&self, places: &[Place]) -> Option<Vec<Basis<Job>>> {
        let mut held = self.held.borrow_mut();
        let taken = places.iter().filter_map(|place| held.remove(place));
        let now = clock::now();
        let is_fresh = |(since, _): &(Instant, _)| now.saturating_duration_since(*since) < LONGEST;
        let taken: Vec<_> = taken.filter(is_fresh).map(|(_, basis)| basis).collect();
        Some(taken).filter(|taken| taken.len() == places.len())
    }

    /// Keeps what a program has left that was sent under this edition.
    pub fn keep(&self, edition: u64, left: Option<(&[Place], &[Basis<Job>])>) {
        if edition != self.edition() {
            return;
        }
        let mut held = self.held.borrow_mut();
        if held.len() > MOST {
            held.clear();
        }
        if let Some((places, basis)) = left.filter(|(places, basis)| places.len() == basis.len()) {
            let since = clock::now();
            let basis = basis.iter().map(|basis| (since, basis.clone()));
            held.extend(places.iter().cloned().zip(basis));
        }
    }
}
