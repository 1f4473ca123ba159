//! The registers' scripts on real masters, compared with the explored functions.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

#[path = "../support/mod.rs"]
mod support;

mod both;
mod clients;
mod ends;
mod giving;
mod remembering;
mod replies;
mod single;
#[path = "../specification/mod.rs"]
mod specification;
mod tasks;
mod times;
mod undeclared;

use both::Both;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::target_is_plain_redis;
use tasks::Task;

/// A small-scale request to a master. `key` and `other` are one of two keys, `at` is one of two
/// masters.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// Prepares one key or both, after a flush that another master has shown.
    Prepare { at: usize, key: usize, both: bool, worker: u64, flush: Option<Flush> },
    /// Applies a program under the master's promise and on its state, or with a flaw in one of
    /// them.
    Apply { at: usize, task: Task, flaw: Flaw },
    /// Lets these workers take turns with a program.
    Turns { at: usize, task: Task, workers: Vec<u64> },
    /// Lets this much time pass by the proxies' clocks, and perhaps by the masters'.
    Wait { seconds: u64, is_seen: bool },
    /// Adopts the state of `from` on `at`.
    Adopt {
        at: usize,
        from: usize,
        key: usize,
        is_decided: bool,
        is_late: bool,
        held: Told,
        flush: bool,
    },
    /// `SET NX PX`.
    Claim { at: usize, key: usize, token: u8 },
    /// A release, or a take-back.
    GiveBack { at: usize, key: usize },
    /// Closes a stamp that a quorum has.
    Close { at: usize, key: usize, is_right: bool },
    /// Drops a stamp that every member has for an absent key.
    Forget { at: usize, key: usize, is_right: bool },
    /// Some client deletes the value.
    Remove { at: usize, key: usize },
    /// Gives `at`, which has forgotten, the state of `from`, or the fact that it is unknown.
    Give { at: usize, from: usize, key: usize, is_known: bool },
    /// Clears a key that nobody else knows.
    Clear { at: usize, key: usize },
    /// Empties the database.
    Flush { at: usize, flush: Flush },
}

/// Counter of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// A completed flush.
    Last,
    /// The next flush. Promises and stamps may be younger.
    Next,
    /// A flush younger than all promises and stamps.
    Newest,
}

/// Facts that a master receives along with a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Whether it receives the value.
    pub(crate) is_held: bool,
    /// A token whose lease is over; another lease is reported over as well.
    pub(crate) over: Option<u8>,
}

/// An error in a program's expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    Accepted,
    Ballot,
    Worker,
    Lease,
    Flush,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let (at, key) = (0..2_usize, 0..2_usize);
    let flaw = prop_oneof![
        6 => Just(Flaw::None),
        1 => Just(Flaw::Accepted),
        1 => Just(Flaw::Ballot),
        1 => Just(Flaw::Worker),
        1 => Just(Flaw::Lease),
        1 => Just(Flaw::Flush),
    ];
    let flush = prop_oneof![Just(Flush::Last), Just(Flush::Next), Just(Flush::Newest)];
    let met = proptest::option::weighted(0.1, flush.clone());
    let prepare = (at.clone(), key.clone(), any::<bool>(), 1..3_u64, met)
        .prop_map(|(at, key, both, worker, flush)| Ask::Prepare { at, key, both, worker, flush });
    let apply = (at.clone(), tasks::tasks(), flaw).prop_map(|(at, task, flaw)| Ask::Apply {
        at,
        task,
        flaw,
    });
    let workers = proptest::collection::vec(1..30_u64, 1..40);
    let few = proptest::collection::vec(1..4_u64, 1..20);
    let workers = prop_oneof![1 => workers, 3 => few];
    let turns = (at.clone(), tasks::tasks(), workers).prop_map(|(at, task, workers)| Ask::Turns {
        at,
        task,
        workers,
    });
    let told = (any::<bool>(), proptest::option::of(0..2_u8))
        .prop_map(|(is_held, over)| Told { is_held, over });
    let adopt = (at.clone(), at.clone(), key.clone(), any::<bool>(), 0..8_u8, told).prop_map(
        |(at, from, key, is_decided, late, held)| {
            let (is_late, flush) = (late < 2, late == 7);
            Ask::Adopt { at, from, key, is_decided, is_late, held, flush }
        },
    );
    let claim = (at.clone(), key.clone(), 0..2_u8).prop_map(|(at, key, token)| Ask::Claim {
        at,
        key,
        token,
    });
    let give = (at.clone(), at.clone(), key.clone(), 0..3_u8).prop_map(|(at, from, key, known)| {
        let is_known = known > 0;
        Ask::Give { at, from, key, is_known }
    });
    let place = || (at.clone(), key.clone());
    let stamp = || (at.clone(), key.clone(), any::<bool>());
    let ask = prop_oneof![
        2 => prepare,
        8 => apply,
        4 => adopt,
        3 => turns,
        1 => (0..900_u64, any::<bool>())
            .prop_map(|(seconds, is_seen)| Ask::Wait { seconds, is_seen }),
        2 => claim,
        1 => place().prop_map(|(at, key)| Ask::GiveBack { at, key }),
        1 => stamp().prop_map(|(at, key, is_right)| Ask::Close { at, key, is_right }),
        1 => stamp().prop_map(|(at, key, is_right)| Ask::Forget { at, key, is_right }),
        1 => place().prop_map(|(at, key)| Ask::Remove { at, key }),
        2 => give,
        1 => place().prop_map(|(at, key)| Ask::Clear { at, key }),
        1 => (at.clone(), flush).prop_map(|(at, flush)| Ask::Flush { at, flush }),
    ];
    proptest::collection::vec(ask, 1..24)
}

/// Microseconds since the epoch.
fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("a time").as_micros() as u64
}

#[test]
fn the_scripts_of_registers_do_what_was_explored() {
    if target_is_plain_redis() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let both = std::cell::RefCell::new(runtime.block_on(Both::start()));
    let mut runner =
        TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&asks(), |asks| {
        let both = &mut *both.borrow_mut();
        runtime.block_on(async {
            both.begin().await;
            for ask in asks {
                both.compare(&ask).await?;
            }
            Ok(())
        })
    });
    ran.expect("the same");
}
