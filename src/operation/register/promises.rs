//! Promises that a quorum gave along with its answers to a worker's last programs, for the worker's next programs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::oneshot;

use super::decided::Decided;
use super::lagging::Behind;
use super::remains::Remains;
use super::{Job, Place};
use crate::decision::keyspace::slot::Basis;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::time::clock::{self, Instant};

/// State of one worker's registers.
#[derive(Debug)]
pub struct Registers {
    /// Id of the worker.
    pub worker: u64,
    /// Edition of the roster that all promises belong to.
    edition: Cell<u64>,
    /// Number of flushes seen on masters.
    flushes: Cell<u64>,
    held: RefCell<HashMap<Place, Left>>,
    /// Masters that exceeded the vote timeout and have not answered in time since.
    silent: Cell<MasterSet>,
    /// Time of the last warning that masters answer differently.
    pub warned: Cell<Option<Instant>>,
    /// Keys that masters have missed.
    pub behind: Behind,
    /// Keys that all masters hold, so that they may forget the group.
    pub decided: Decided,
    /// Leases of a minority.
    pub remains: Remains,
}

/// Promises that the last program left on a key.
#[derive(Debug)]
struct Left {
    since: Instant,
    basis: Basis<Job>,
    /// Masters that are known to hold it.
    holders: MasterSet,
    /// Masters that may still confirm it.
    awaited: MasterSet,
    /// Notified once no master may still confirm it.
    told: Option<oneshot::Sender<()>>,
}

/// Masters that hold what a program has left.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// Masters that have confirmed that they hold it.
    pub holders: MasterSet,
    /// Masters that may still confirm it.
    pub awaited: MasterSet,
}

/// Maximum keys for which promises are held.
const MOST: usize = 10_000;

/// Maximum age of a held promise. If the key is absent, its stamp is dropped at [`TOMBSTONE_AGE`], and the fate of a
/// program that arrives later is unknown.
const LONGEST: Duration = Duration::from_secs(5);

/// Minimum age at which the stamp of an absent key is dropped.
pub const TOMBSTONE_AGE: Duration = Duration::from_secs(10);

impl Default for Registers {
    fn default() -> Self {
        let (behind, decided, remains) =
            (Behind::default(), Decided::default(), Remains::default());
        let (edition, flushes, held) = (Cell::new(0), Cell::new(0), RefCell::default());
        let (worker, warned) = (fastrand::u64(1..), Cell::new(None));
        let silent = Cell::default();
        Self { worker, edition, flushes, held, silent, warned, behind, decided, remains }
    }
}

impl Registers {
    /// Returns the edition of the roster, as it was last seen.
    pub fn edition(&self) -> u64 {
        self.edition.get()
    }

    /// Sets the edition of the roster. A new edition ends all promises.
    pub fn see(&self, edition: u64) {
        if self.edition.replace(edition) != edition {
            self.held.borrow_mut().clear();
        }
    }

    /// Sets the number of flushes seen on masters. A new number ends all promises, too.
    pub fn see_flushes(&self, flushes: u64) {
        if self.flushes.replace(flushes) != flushes {
            self.held.borrow_mut().clear();
        }
    }

    /// Takes the promises for these keys; `None` unless there is one for each key and all of `needed` are known to hold
    /// it.
    pub fn held(&self, places: &[Place], needed: MasterSet) -> Option<Vec<Basis<Job>>> {
        let mut held = self.held.borrow_mut();
        let taken = places.iter().filter_map(|place| held.remove(place));
        let now = clock::now();
        let is_usable = |left: &Left| {
            let is_fresh = now.saturating_duration_since(left.since) < LONGEST;
            is_fresh && needed.without(left.holders).is_empty()
        };
        let taken: Vec<_> = taken.filter(is_usable).map(|left| left.basis).collect();
        Some(taken).filter(|taken| taken.len() == places.len())
    }

    /// Keeps the promises of a program that was sent under this edition.
    pub fn keep(&self, edition: u64, left: Option<(&[Place], &[Basis<Job>])>, told: Told) {
        if edition != self.edition() {
            return;
        }
        let mut held = self.held.borrow_mut();
        if held.len() > MOST {
            held.clear();
        }
        if let Some((places, basis)) = left.filter(|(places, basis)| places.len() == basis.len()) {
            let (since, Told { holders, awaited }) = (clock::now(), told);
            let left = basis.iter().cloned();
            let left = left.map(|basis| Left { since, basis, holders, awaited, told: None });
            held.extend(places.iter().cloned().zip(left));
        }
    }

    /// Updates which masters hold what a program has left.
    pub fn hear(&self, (places, basis): (&[Place], &[Basis<Job>]), told: Told) {
        let mut held = self.held.borrow_mut();
        for (place, basis) in places.iter().zip(basis) {
            let Some(left) = held.get_mut(place).filter(|left| left.basis == *basis) else {
                continue;
            };
            (left.holders, left.awaited) = (told.holders, told.awaited);
            if left.awaited.without(self.silent.get()).is_empty() {
                // The waiting task may have been dropped.
                left.told.take().map(|told| told.send(()));
            }
        }
    }

    /// Returns the masters that may still confirm what was left of these keys, without the silent ones.
    pub fn awaited(&self, places: &[Place]) -> MasterSet {
        let held = self.held.borrow();
        let awaited = places.iter().filter_map(|place| held.get(place)).map(|left| left.awaited);
        let all = awaited.fold(MasterSet::EMPTY, MasterSet::union);
        all.without(self.silent.get())
    }

    /// Waits for those masters, one key after the other.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn heard(&self, places: &[Place]) {
        for place in places {
            let told = self.held.borrow_mut().get_mut(place).and_then(|left| {
                let is_told = left.awaited.without(self.silent.get()).is_empty();
                (!is_told).then(|| {
                    let (told, heard) = oneshot::channel();
                    left.told = Some(told);
                    heard
                })
            });
            if let Some(heard) = told {
                // The promise may have ended as well.
                let _ = heard.await;
            }
        }
    }

    /// Returns the masters that exceeded the vote timeout and have not answered in time since. No operation waits for
    /// them where it waits for all others.
    pub fn silent(&self) -> MasterSet {
        self.silent.get()
    }

    /// Notes that these masters exceeded the vote timeout.
    pub fn miss(&self, masters: MasterSet) {
        self.silent.set(self.silent.get().union(masters));
    }

    /// Notes that this master answered in time.
    pub fn is_heard(&self, master: MasterId) {
        let mut silent = self.silent.get();
        silent.remove(master);
        self.silent.set(silent);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::decision::register::ballot::Ballot;

    const ALL: [usize; 3] = [0, 1, 2];

    fn masters(numbers: &[usize]) -> MasterSet {
        numbers.iter().map(|number| MasterId::new(*number)).collect()
    }

    fn place(key: &'static str) -> Place {
        Place { db: 0, key: Bytes::from(key) }
    }

    fn basis(counter: u64) -> Basis<Job> {
        let accepted = Ballot { epoch: 0, counter, worker: 1 };
        let ballot = Ballot { counter: counter + 1, ..accepted };
        Basis { accepted, lease: None, ballot, flush: 0 }
    }

    fn told(holders: &[usize], awaited: &[usize]) -> Told {
        Told { holders: masters(holders), awaited: masters(awaited) }
    }

    /// Registers with the promises of a program on `a`, on two of three masters.
    fn registers() -> Registers {
        let registers = Registers::default();
        registers.keep(0, Some((&[place("a")], &[basis(10)])), told(&[0, 1], &[2]));
        registers
    }

    #[test]
    fn what_is_needed_on_all_is_gone_on_with_once_all_are_known_to_hold_it() {
        let (places, left) = ([place("a")], [basis(10)]);
        assert_eq!(registers().held(&places, MasterSet::EMPTY), Some(left.to_vec()));
        assert_eq!(registers().held(&places, masters(&ALL)), None);
        assert_eq!(registers().held(&places, masters(&[0, 1])), Some(left.to_vec()));
        let registers = registers();
        registers.hear((&places, &left), told(&ALL, &[]));
        assert_eq!(registers.held(&places, masters(&ALL)), Some(left.to_vec()));
    }

    /// By now, another program is the last one on the key.
    #[test]
    fn who_holds_what_was_left_before_is_not_known_to_hold_what_came_after() {
        let places = [place("a")];
        let registers = registers();
        registers.keep(0, Some((&places, &[basis(20)])), told(&[0, 1], &[2]));
        registers.hear((&places, &[basis(10)]), told(&ALL, &[]));
        assert_eq!(registers.awaited(&places), masters(&[2]));
        assert_eq!(registers.held(&places, masters(&ALL)), None);
    }

    #[test]
    fn the_silent_are_not_awaited_until_they_answer_in_time() {
        let (registers, places) = (registers(), [place("a")]);
        assert_eq!(registers.awaited(&places), masters(&[2]));
        registers.miss(masters(&[2]));
        assert!(registers.awaited(&places).is_empty());
        registers.is_heard(MasterId::new(2));
        assert_eq!(registers.awaited(&places), masters(&[2]));
    }

    #[tokio::test]
    async fn who_waits_is_told_when_nobody_is_awaited_any_more() {
        let (registers, places, left) = (registers(), [place("a"), place("b")], [basis(10)]);
        let mut heard = std::pin::pin!(registers.heard(&places));
        assert!(futures_util::poll!(&mut heard).is_pending());
        // The master has refused, and holds something else.
        registers.hear((&places[..1], &left), told(&[0, 1], &[]));
        assert!(futures_util::poll!(&mut heard).is_ready());
    }

    #[tokio::test]
    async fn nobody_waits_for_what_is_held_no_more() {
        let (registers, places) = (registers(), [place("a")]);
        let mut heard = std::pin::pin!(registers.heard(&places));
        assert!(futures_util::poll!(&mut heard).is_pending());
        registers.see(1);
        assert!(futures_util::poll!(&mut heard).is_ready());
    }
}
