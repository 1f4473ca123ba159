//! Programs that masters keep.
//!
//! A master cannot free a single script, only all of them. So the number of places is limited, for all workers and
//! masters alike. A program gets a place when it is run for the second time, and a runner runs a program without a
//! place. When all places are taken, or when a client asks for it, all of them are given up at once. A new *generation*
//! begins, and each master is asked once to drop its scripts.
//!
//! This also drops the scripts of other proxies and clients of the masters, which then load them again. A pause between
//! two generations keeps proxies from doing this to each other in turn.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::program::{ProgramText, ScriptRules};
use super::runner;
use super::transactions::Databases;
use crate::decision::quorum::MasterId;
use crate::time::clock::{self, Instant};

/// Places of programs, for all workers and masters.
pub struct Residents {
    generation: AtomicU64,
    /// Generation for which each master was last asked to drop its scripts.
    told: Vec<AtomicU64>,
    /// Whether a master has refused to drop its scripts. No place is given up after that.
    refused: AtomicBool,
    /// Programs that every proxy with these settings runs all the time.
    ours: [Arc<ProgramText>; 2],
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    shas: HashSet<String>,
    bytes: usize,
    /// Start of the generation.
    since: Option<Instant>,
    /// Whether a client has asked for a new generation too soon after the last.
    is_due: bool,
}

impl Residents {
    /// Creates empty places, for this number of masters.
    pub fn new(masters: usize, script_rules: ScriptRules) -> Self {
        let (transaction, _) = ProgramText::transaction(&[], script_rules, None, Databases::One);
        Self {
            generation: AtomicU64::new(FIRST_GENERATION),
            told: (0..masters).map(|_| AtomicU64::new(FIRST_GENERATION)).collect(),
            refused: AtomicBool::new(false),
            ours: [runner::with(None), Arc::new(transaction)],
            places: Mutex::default(),
        }
    }

    /// Returns the program of a transaction without scripts.
    pub fn transaction(&self) -> Arc<ProgramText> {
        Arc::clone(&self.ours[1])
    }

    /// Returns the runner of `program`, which is about to be run; `None` if it runs without one.
    pub fn runner_of(&self, program: &ProgramText) -> Option<Arc<ProgramText>> {
        if program.place.is_kept_in(self.generation()) {
            return None;
        }
        let has_place = program.place.has_run() && self.admit(program);
        (!has_place).then(|| program.runner())
    }

    fn admit(&self, program: &ProgramText) -> bool {
        let places = &mut *self.places();
        if !places.shas.contains(&program.sha) {
            // The program for several calls at once is about as long.
            let texts = 1 + usize::from(program.can_be_together());
            let bytes = texts * program.text.len();
            if places.are_taken(bytes) && !self.renew(places, clock::now()) {
                return false;
            }
            places.shas.insert(program.sha.clone());
            places.bytes += bytes;
        }
        program.place.keep_in(self.generation());
        true
    }

    /// Gives up all places, for `SCRIPT FLUSH`: now, or as soon as possible.
    pub fn flush(&self) {
        let places = &mut *self.places();
        if places.shas.is_empty() {
            return;
        }
        places.is_due = !self.renew(places, clock::now());
    }

    /// Starts the generation that is due, if any, and returns the current one.
    pub fn see(&self, now: Instant) -> u64 {
        let places = &mut *self.places();
        if places.is_due && self.renew(places, now) {
            places.is_due = false;
        }
        self.generation()
    }

    fn renew(&self, places: &mut Places, now: Instant) -> bool {
        let is_too_soon =
            places.since.is_some_and(|since| now.saturating_duration_since(since) < PAUSE);
        if is_too_soon || self.refused.load(Ordering::Relaxed) {
            return false;
        }
        *places = Places { since: Some(now), ..Places::default() };
        self.generation.fetch_add(1, Ordering::Release);
        true
    }

    /// Returns the generation, which grows each time that all places are given up.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns whether the caller must ask `master` to drop the programs of all generations before this one.
    pub fn claim_flush(&self, master: MasterId, generation: u64) -> bool {
        let told = &self.told[master.index()];
        !self.refused.load(Ordering::Relaxed)
            && told.fetch_max(generation, Ordering::Relaxed) < generation
    }

    /// Notes that it is unknown whether `master` got the request, or that it could not drop its scripts.
    pub fn flush_lost(&self, master: MasterId) {
        self.told[master.index()].store(FIRST_GENERATION, Ordering::Relaxed);
    }

    /// Notes that a master may not drop its scripts, so nothing is given up any more. Returns whether that is new.
    pub fn flush_refused(&self) -> bool {
        !self.refused.swap(true, Ordering::Relaxed)
    }

    /// Returns the programs that a master gets again as soon as it has dropped its scripts.
    pub fn ours(&self) -> &[Arc<ProgramText>] {
        &self.ours
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn are_taken(&self, bytes: usize) -> bool {
        self.shas.len() >= MAX_RESIDENTS || self.bytes + bytes > MAX_BYTES
    }
}

/// First generation. Zero is the generation of a program that has no place yet.
const FIRST_GENERATION: u64 = 1;

/// Maximum places: as many as there are scripts in the [cache](super::ScriptCache).
const MAX_RESIDENTS: usize = 500;

/// Room for that many programs with up to 21 KiB of the proxy's Lua around each. A master needs three times as much.
const MAX_BYTES: usize = MAX_RESIDENTS * 43 * 512;

/// Pause between two generations. Dropping all scripts takes a master a millisecond, and then every client loads its
/// scripts again.
const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::lease::pad::Pad;
    use crate::lua::program::Tells;

    fn script_rules() -> ScriptRules {
        ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        }
    }

    fn residents() -> Residents {
        Residents::new(3, script_rules())
    }

    fn program(number: usize) -> ProgramText {
        ProgramText::wrap(format!("return {number}").as_bytes(), "", script_rules())
    }

    /// Returns whether it has a place after two runs.
    fn settles(residents: &Residents, program: &ProgramText) -> bool {
        assert!(residents.runner_of(program).is_some() && residents.runner_of(program).is_some());
        program.runs();
        residents.runner_of(program).is_none()
    }

    fn master() -> MasterId {
        MasterId::new(1)
    }

    #[test]
    fn a_text_that_comes_once_stays_with_the_masters_for_ever() {
        let residents = residents();
        for number in 0..MAX_RESIDENTS * 2 {
            let runner = residents.runner_of(&program(number));
            assert_eq!(runner.map(|it| it.sha.clone()), Some(runner::with(None).sha.clone()));
        }
        assert!(settles(&residents, &program(0)), "it has come again");
        assert_eq!((residents.places().shas.len(), residents.generation()), (1, 1));
    }

    #[test]
    fn places_are_given_up_together_and_not_again_at_once() {
        let residents = residents();
        let programs: Vec<_> = (0..3 * MAX_RESIDENTS).map(program).collect();
        let settled = programs.iter().filter(|it| settles(&residents, it)).count();
        assert_eq!((settled, residents.generation()), (2 * MAX_RESIDENTS, 2));
        assert_eq!(residents.places().shas.len(), MAX_RESIDENTS);
        // Programs of the second generation are there, those of the first are gone.
        let is_there = |at: usize| programs[at].place.is_kept_in(residents.generation());
        let there = [0, MAX_RESIDENTS, 2 * MAX_RESIDENTS].map(is_there);
        assert_eq!(there, [false, true, false]);
        residents.flush();
        assert_eq!(residents.generation(), 2, "too soon");
        assert_eq!(residents.see(clock::now() + PAUSE), 3, "but not forgotten");
        assert_eq!(residents.see(clock::now() + 3 * PAUSE), 3);
    }

    #[test]
    fn large_programs_take_more_room() {
        let residents = residents();
        let large = |number: usize| {
            let text = format!("return {number} -- {}", "x".repeat(MAX_BYTES / 10));
            ProgramText::wrap(text.as_bytes(), "", script_rules())
        };
        let settled = (0..40).filter(|number| settles(&residents, &large(*number))).count();
        assert_eq!((settled, residents.generation()), (18, 2));
    }

    #[test]
    fn one_link_tells_each_master_and_another_when_that_was_lost() {
        let residents = residents();
        assert!(!residents.claim_flush(master(), residents.generation()));
        residents.flush();
        assert_eq!(residents.generation(), 1, "there is nothing to forget");
        settles(&residents, &program(1));
        residents.flush();
        let now = residents.generation();
        assert_eq!((now, residents.claim_flush(master(), now)), (2, true));
        assert!(!residents.claim_flush(master(), now));
        assert!(residents.claim_flush(MasterId::new(2), now));
        residents.flush_lost(master());
        assert!(residents.claim_flush(master(), now));
    }

    #[test]
    fn a_master_that_may_not_forget_is_given_no_more() {
        let residents = residents();
        assert!(residents.flush_refused() && !residents.flush_refused());
        let settled = (0..2 * MAX_RESIDENTS).filter(|it| settles(&residents, &program(*it)));
        assert_eq!((settled.count(), residents.generation()), (MAX_RESIDENTS, 1));
        residents.flush();
        assert_eq!((residents.generation(), residents.claim_flush(master(), 2)), (1, false));
    }

    #[test]
    fn what_is_ours_needs_no_place() {
        let residents = residents();
        let ours = residents.ours();
        assert!(ours.iter().all(|program| residents.runner_of(program).is_none()));
    }
}
