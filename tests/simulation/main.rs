//! The whole proxy (sessions, engine, links, timers) in virtual time, in front of masters and
//! networks that fail in every way that it promises to tolerate.
//!
//! ```text
//! clients --> proxy 0 --ways--> master 0..N     faults: what goes wrong, and when
//! clients --> proxy 1 --ways--> master 0..N     journal: what happened, and what must not have
//! ```
//!
//! The proxies are the production code: [`redlock_proxy::context::worker::Worker`] with connections
//! from simulated networks. Masters keep keys and run the proxy's scripts in Lua itself. All time
//! is virtual and all randomness comes from one seed, so a run that breaks a rule can be repeated:
//!
//! ```text
//! make test-sim SIM_SEED=42
//! ```
#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(missing_docs, reason = "names and types tell it; what needs a word has one")]

mod canary;
mod client;
mod commands;
mod equal_tokens;
mod faults;
mod habits;
mod history;
mod journal;
mod keyspace;
mod lua;
mod master;
mod network;
mod operator;
mod packing;
mod plan;
mod polling;
mod proxy;
mod registers;
mod resp;
mod socket;
mod values;
mod world;

#[path = "../support/linearizable.rs"]
mod linearizable;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::Duration;

use journal::Counts;
use network::lock;
use plan::{FAIR_WAITING, Plan};
use polling::MOST_IN_A_ROW;
use tokio::task::LocalSet;
use world::{Outcome, World};

/// Interval of progress reports in a long run: every hundred hours of virtual time.
const PROGRESS_S: u64 = 360_000;

/// The allocator of the proxy's own process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Seeds for `make test`: crowded minutes, as made by [`one_of_many`].
const SEEDS: [u64; 4] = [0, 2, 4, 8];

/// A seed whose masters never forget together, so registers must not be lost either.
const REGISTERS: u64 = 16;

/// Seeds with an operator. The first two found that members were taken for those that they had been, the third that a
/// proxy went on asking an instance that was replaced.
const OPERATOR: [u64; 3] = [6, 108, 117];

#[test]
fn no_rule_is_broken_whatever_goes_wrong() {
    for seed in SEEDS {
        let outcome = simulate(one_of_many(seed), false);
        outcome.expect_sound(seed);
        assert!(outcome.counts.grants > 0, "seed {seed}: nobody got a lock");
    }
}

/// Covers counters, compare-and-set, queues, semaphores and transactions of two keys.
#[test]
fn registers_answer_as_those_of_one_redis() {
    let outcome = simulate(Plan::of(REGISTERS), false);
    outcome.expect_sound(REGISTERS);
    assert!(outcome.counts.calls > 100, "registers are hardly used: {:?}", outcome.counts);
}

/// Members are added, removed and replaced in the middle of everything else.
#[test]
fn no_rule_is_broken_while_members_come_and_go() {
    for seed in OPERATOR {
        let outcome = simulate(Plan::of(seed).with_operator(), false);
        outcome.expect_sound(seed);
        assert!(outcome.counts.changes > 4, "seed {seed}: {:?}", outcome.counts);
    }
}

#[test]
fn the_same_seed_has_the_same_history() {
    let histories = || [5, 6].map(|seed| simulate(Plan::of(seed), false));
    let once = histories();
    assert_eq!(once, histories());
    assert_ne!(once[0].digest, once[1].digest);
}

/// With fair waiting, a client that polls is overtaken only while it sleeps ([`polling`]). Without, the
/// same measure must find that it is overtaken more often: one that does not see the difference would
/// show nothing.
#[test]
fn whoever_polls_is_overtaken_a_bounded_number_of_times() {
    for seed in [0, 2] {
        let overtaken = |fair_waiting| {
            let outcome = simulate(Plan::of_pollers(seed, fair_waiting), false);
            outcome.expect_sound(seed);
            assert!(outcome.counts.grants > 400, "seed {seed}: {:?}", outcome.counts);
            outcome.overtaken
        };
        let (fair, unfair) = (overtaken(FAIR_WAITING), overtaken(Duration::ZERO));
        assert!(fair.in_a_row <= MOST_IN_A_ROW, "seed {seed}: {fair:?}");
        assert!(unfair.in_a_row > MOST_IN_A_ROW, "seed {seed}: {unfair:?}");
        assert!(unfair.in_all > fair.in_all, "seed {seed}: {unfair:?}, and {fair:?} if fair");
    }
}

/// With the protection off, the simulation must find the classic fault of Redlock: a master
/// restarts with nothing but its marks and votes for another client. A checker that misses this
/// would find nothing.
#[test]
fn masters_that_forget_and_vote_at_once_are_found_to_break_the_first_rule() {
    let finds = |seed| {
        simulate(Plan::without_protection(seed), false)
            .broken
            .is_some_and(|rule| rule.starts_with("rule 1"))
    };
    assert!((0..20).any(finds), "no seed finds a lock that is held twice");
}

/// `SIM_SEED` repeats one run, with the log of its proxies. Otherwise `SIM_HOURS` of virtual time
/// run, with seeds from `SIM_FROM` on.
#[test]
#[ignore = "takes long: run by make test-sim"]
fn thousands_of_hours() {
    if let Some(seed) = setting("SIM_SEED") {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG);
        log.without_time().with_ansi(false).with_writer(std::io::stderr).init();
        return simulate(one_of_many(seed), true).expect_sound(seed);
    }
    let hours = setting("SIM_HOURS").unwrap_or(1000);
    let first = setting("SIM_FROM").unwrap_or(1000);
    soak(first, Duration::from_secs(3600 * hours));
}

/// Alternates between a few crowded minutes and unhurried hours. Every third has an operator.
fn one_of_many(seed: u64) -> Plan {
    let plan = if seed.is_multiple_of(2) || std::env::var_os("SIM_CROWDED").is_some() {
        Plan::of(seed)
    } else {
        Plan::unhurried(seed)
    };
    if seed.is_multiple_of(3) { plan.with_operator() } else { plan }
}

/// Runs seed after seed, on all processors, until they have simulated `enough` time together.
fn soak(first: u64, enough: Duration) {
    let (next, soaked) = (AtomicU64::new(first), Mutex::new(Soaked::default()));
    let work = || {
        while lock(&soaked).simulated < enough {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let outcome = simulate(one_of_many(seed), false);
            lock(&soaked).add(seed, outcome);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| _ = scope.spawn(work)));
    let mut soaked = lock(&soaked);
    soaked.tell(next.into_inner());
    soaked.broken.sort();
    let seeds: Vec<u64> = soaked.broken.iter().map(|(seed, _)| *seed).collect();
    if let Some((seed, broken)) = soaked.broken.first() {
        panic!("{seeds:?} break rules\n{}", report(*seed, broken));
    }
}

/// Combined results of many runs.
#[derive(Default)]
struct Soaked {
    simulated: Duration,
    counts: Counts,
    broken: Vec<(u64, String)>,
}

impl Soaked {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        let before = self.simulated;
        self.simulated += outcome.simulated;
        self.counts.requests += outcome.counts.requests;
        self.counts.grants += outcome.counts.grants;
        self.counts.calls += outcome.counts.calls;
        self.counts.changes += outcome.counts.changes;
        if self.simulated.as_secs() / PROGRESS_S > before.as_secs() / PROGRESS_S {
            self.tell(seed);
        }
        if let Some(broken) = outcome.broken {
            eprintln!("seed {seed}: {}", broken.lines().next().unwrap_or_default());
            self.broken.push((seed, broken));
        }
    }

    fn tell(&self, seed: u64) {
        let hours = self.simulated.as_secs() / 3_600;
        eprintln!("{hours} hours, up to seed {seed}: {:?}", self.counts);
    }
}

/// Runs one simulation on its own thread, so that nothing is left of the one before.
fn simulate(plan: Plan, is_loud: bool) -> Outcome {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let outcome = LocalSet::new().block_on(&runtime, World::run(plan, is_loud));
        // A runtime continues after one of its tasks has panicked.
        assert_eq!(PANICS.get(), 0, "no task panics");
        outcome
    };
    count_panics();
    std::thread::spawn(run).join().expect("a simulation does not panic")
}

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            tell(info);
        }));
    });
}

impl Outcome {
    fn expect_sound(&self, seed: u64) {
        if let Some(broken) = &self.broken {
            panic!("{}", report(seed, broken));
        }
    }
}

fn report(seed: u64, broken: &str) -> String {
    format!("seed {seed} breaks {broken}\nto see it again: make test-sim SIM_SEED={seed}")
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
