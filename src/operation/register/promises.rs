//! What a worker's last programs have left for its next ones: promises that a quorum has given along with their answers.

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

/// The registers of one worker.
#[derive(Debug)]
pub struct Registers {
    /// Its id.
    pub worker: u64,
    /// The edition of the roster under which everything is held.
    edition: Cell<u64>,
    /// How often masters were seen to have been flushed.
    flushes: Cell<u64>,
    held: RefCell<HashMap<Place, Left>>,
    /// Masters that have let a vote timeout pass, and have answered nothing in time since.
    silent: Cell<MasterSet>,
    /// When it was last said that masters answer differently.
    pub warned: Cell<Option<Instant>>,
    /// What masters have missed.
    pub behind: Behind,
    /// What all of them hold, and may forget the group of.
    pub decided: Decided,
    /// Leases of a minority.
    pub remains: Remains,
}

/// What the last program on a key has left.
#[derive(Debug)]
struct Left {
    since: Instant,
    basis: Basis<Job>,
    /// The masters that are known to hold it.
    holders: MasterSet,
    /// Those that may still say so.
    awaited: MasterSet,
    /// Told when that is nobody any more.
    told: Option<oneshot::Sender<()>>,
}

/// Who has what a program has left.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The masters that have said that they hold it.
    pub holders: MasterSet,
    /// Those that may still say so.
    pub awaited: MasterSet,
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
        let silent = Cell::default();
        Self { worker, edition, flushes, held, silent, warned, behind, decided, remains }
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

    /// Takes what is held of these keys; `None`, unless that is all of them, and all of `needed` are known to hold it.
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

    /// Keeps what a program has left that was sent under this edition.
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

    /// More is known of who has what a program has left.
    pub fn hear(&self, (places, basis): (&[Place], &[Basis<Job>]), told: Told) {
        let mut held = self.held.borrow_mut();
        for (place, basis) in places.iter().zip(basis) {
            let Some(left) = held.get_mut(place).filter(|left| left.basis == *basis) else {
                continue;
            };
            (left.holders, left.awaited) = (told.holders, told.awaited);
            if left.awaited.without(self.silent.get()).is_empty() {
                // Who has waited may have gone.
                left.told.take().map(|told| told.send(()));
            }
        }
    }

    /// The masters that may still say that they hold what was left of these keys, but for the silent.
    pub fn awaited(&self, places: &[Place]) -> MasterSet {
        let held = self.held.borrow();
        let awaited = places.iter().filter_map(|place| held.get(place)).map(|left| left.awaited);
        let all = awaited.fold(MasterSet::EMPTY, MasterSet::union);
        all.without(self.silent.get())
    }

    /// Waits for them, one key after the other.
    ///
    /// # Cancel safety
    /// Who stops waiting has missed nothing.
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
                // What was held may have come to its end as well.
                let _ = heard.await;
            }
        }
    }

    /// Masters that have let a vote timeout pass, and have answered nothing in time since: nobody waits for all there.
    pub fn silent(&self) -> MasterSet {
        self.silent.get()
    }

    /// These masters have let a vote timeout pass.
    pub fn miss(&self, masters: MasterSet) {
        self.silent.set(self.silent.get().union(masters));
    }

    /// This one has answered in time.
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

    /// With what a program has left under `a` on two of three.
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

    /// The last program on it is another one by now.
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
        // It has refused, and holds something else.
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
