//! Dropping the stamps of absent keys, by the rules of [`crate::decision::keyspace::tombstone`].
//!
//! That happens only while all members are in, and under one version of the roster. A key becomes a candidate in one
//! pass over all keys of all masters. It is dropped after the next whole pass in which no open state has named it.

use std::time::Duration;

use futures_util::future::join_all;

use super::Engine;
use super::comparing::Shown;
use crate::decision::keyspace::slot::Sight;
use crate::decision::keyspace::tombstone::{Sweep, alike};
use crate::decision::register::ballot::Ballot;
use crate::operation::register::answer::StampHead;
use crate::operation::register::promises::TOMBSTONE_AGE;
use crate::operation::register::{Job, Place, ask};

/// Maximum candidates in one pass. Others follow in the next.
const MOST: usize = 50_000;

/// Number of candidates from which hurrying is worthwhile.
const MANY: usize = 1_000;

/// Number of stamps dropped at once: a fraction of a millisecond of a master's time.
const AT_ONCE: usize = 100;

/// The candidates of two passes; see the module.
pub(super) struct Sweeping {
    /// Candidates of the last whole pass, without those named since.
    found: Sweep<Job>,
    /// Candidates of this pass.
    next: Sweep<Job>,
    /// The roster edition of `found`.
    edition: u64,
    /// Whether this pass has seen all keys of all members so far.
    is_whole: bool,
    /// Minimum age of a stamp.
    age: Duration,
}

impl Sweeping {
    pub(super) fn new(engine: &Engine) -> Self {
        let age = TOMBSTONE_AGE.max(2 * engine.rules().patience);
        let (found, next) = (Sweep::default(), Sweep::default());
        Self { found, next, edition: 0, is_whole: false, age }
    }

    /// Whether many candidates are waiting.
    pub(super) fn has_many(&self) -> bool {
        self.found.len() >= MANY
    }

    /// Begins a pass.
    pub(super) fn begin(&mut self, engine: &Engine) {
        let is_another = std::mem::replace(&mut self.edition, edition(engine)) != self.edition;
        if is_another {
            self.found = Sweep::default();
        }
        self.next = Sweep::default();
        self.is_whole = are_all_in(engine);
    }

    /// Processes a page: closes states that all members hold, and collects absent keys as candidates.
    pub(super) async fn look_at(
        &mut self,
        engine: &Engine,
        db: u32,
        places: &[Place],
        shown: &Shown,
    ) {
        let Some(heads) = self.of_all(engine, shown) else {
            self.is_whole = false;
            return;
        };
        for head in heads.iter().flat_map(|heads| heads.iter()) {
            self.found.look(&head.sight.state);
        }
        let now_us = engine.rules().unix_time.micros() as u64;
        let is_old = |at: &usize| heads.iter().all(|heads| self.is_old(&heads[*at], now_us));
        let old: Vec<usize> = (0..places.len()).filter(is_old).collect();
        let keys: Vec<Place> = old.iter().map(|at| places[*at].clone()).collect();
        let sights =
            |heads: &&Vec<StampHead>| old.iter().map(|at| heads[*at].sight.clone()).collect();
        let sights: Vec<Vec<Sight<Job>>> = heads.iter().map(sights).collect();
        let sights: Vec<&[Sight<Job>]> = sights.iter().map(|sights| &sights[..]).collect();
        let members = engine.rules().quorum;
        if self.next.len() < MOST {
            self.next.consider(members, &keys, &sights, now_us);
        }
        let open = keys.into_iter().enumerate().filter_map(|(at, place)| {
            let is_open = sights.iter().any(|sights| sights[at].state.open.is_some());
            alike(members.masters(), at, &sights, now_us)
                .filter(|_| is_open)
                .map(|accepted| (place, accepted))
        });
        engine.close(db, &open.collect::<Vec<_>>()).await;
    }

    /// Ends a pass. If it was whole, drops the earlier candidates.
    pub(super) async fn end(&mut self, engine: &Engine) {
        let next = std::mem::take(&mut self.next);
        let is_whole = self.is_whole && are_all_in(engine) && edition(engine) == self.edition;
        let found =
            std::mem::replace(&mut self.found, if is_whole { next } else { Sweep::default() });
        if !is_whole {
            return;
        }
        let found = found.droppable();
        // Keys of one database are adjacent.
        for some in found.chunk_by(|(one, _), (other, _)| one.db == other.db) {
            for some in some.chunks(AT_ONCE) {
                self.drop_old(engine, some).await;
            }
        }
    }

    /// Drops stamps that are still old. Keys requested since then have a younger promise, and stay for now.
    async fn drop_old(&mut self, engine: &Engine, keys: &[(Place, Ballot)]) {
        let Some((place, _)) = keys.first() else { return };
        let db = place.db.into();
        let places: Vec<Place> = keys.iter().map(|(place, _)| place.clone()).collect();
        let shown = engine.heads(db, &places).await;
        let Some(heads) = self.of_all(engine, &shown) else { return };
        let now_us = engine.rules().unix_time.micros() as u64;
        let is_old = |at: usize| heads.iter().all(|heads| self.is_old(&heads[at], now_us));
        let old = keys.iter().enumerate().filter(|(at, _)| is_old(*at));
        let old: Vec<_> = old.map(|(_, key)| key.clone()).collect();
        if old.is_empty() {
            return;
        }
        let term = engine.term();
        let forgotten = engine.rules().quorum.everybody().iter().map(|master| {
            let mark = term.proof(master, db).map(|proof| proof.expected().head());
            let words = mark.map(|mark| ask::forget(&old, &mark));
            async move { engine.ask_words(master, db, &words?).await }
        });
        join_all(forgotten).await;
    }

    /// Returns what all members show, if they are all in, under one edition.
    fn of_all<'a>(&self, engine: &Engine, shown: &'a Shown) -> Option<Vec<&'a Vec<StampHead>>> {
        let is_same = are_all_in(engine) && edition(engine) == self.edition;
        shown.iter().map(Option::as_ref).collect::<Option<_>>().filter(|_| is_same)
    }

    /// Whether no request in flight can involve the stamp.
    fn is_old(&self, head: &StampHead, now_us: u64) -> bool {
        let youngest = head.promised.max(head.sight.state.accepted);
        youngest.counter.saturating_add(self.age.as_micros() as u64) < now_us
    }
}

fn are_all_in(engine: &Engine) -> bool {
    engine.voters() == engine.rules().quorum.everybody()
}

/// Returns the current edition of the roster.
fn edition(engine: &Engine) -> u64 {
    engine.term();
    engine.rules().registers.edition()
}
