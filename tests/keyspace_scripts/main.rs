//! The scripts of registers on real masters, compared with the functions that were explored.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

#[path = "../support/mod.rs"]
mod support;

mod both;
mod clients;
mod ends;
mod replies;
mod single;
mod tasks;
mod times;
mod undeclared;

use both::Both;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::target_is_plain_redis;
use tasks::Task;

/// What a master is asked, in the small. `key` and `other` are of two, `at` is one of two masters.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    /// For one key, or for both.
    Prepare { at: usize, key: usize, both: bool, worker: u64 },
    /// Under the promise and on the state that the master holds, or on what it does not.
    Apply { at: usize, task: Task, flaw: Flaw },
    /// What `from` holds, to `at`.
    Adopt { at: usize, from: usize, key: usize, is_decided: bool, is_late: bool, is_held: bool },
    /// `SET NX PX`.
    Claim { at: usize, key: usize, token: u8 },
    /// A release, or a take-back.
    GiveBack { at: usize, key: usize },
    /// A quorum has it.
    Close { at: usize, key: usize, is_right: bool },
    /// Every member has it, and it is absent.
    Forget { at: usize, key: usize, is_right: bool },
    /// Somebody deletes the value.
    Remove { at: usize, key: usize },
}

/// What is wrong with what a program expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    Accepted,
    Ballot,
    Worker,
    Lease,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let (at, key) = (0..2_usize, 0..2_usize);
    let flaw = prop_oneof![
        6 => Just(Flaw::None),
        1 => Just(Flaw::Accepted),
        1 => Just(Flaw::Ballot),
        1 => Just(Flaw::Worker),
        1 => Just(Flaw::Lease),
    ];
    let prepare = (at.clone(), key.clone(), any::<bool>(), 1..3_u64)
        .prop_map(|(at, key, both, worker)| Ask::Prepare { at, key, both, worker });
    let apply = (at.clone(), tasks::tasks(), flaw).prop_map(|(at, task, flaw)| Ask::Apply {
        at,
        task,
        flaw,
    });
    let adopt = (at.clone(), at.clone(), key.clone(), any::<bool>(), 0..4_u8, any::<bool>())
        .prop_map(|(at, from, key, is_decided, late, is_held)| {
            let is_late = late == 0;
            Ask::Adopt { at, from, key, is_decided, is_late, is_held }
        });
    let claim = (at.clone(), key.clone(), 0..2_u8).prop_map(|(at, key, token)| Ask::Claim {
        at,
        key,
        token,
    });
    let place = || (at.clone(), key.clone());
    let stamp = || (at.clone(), key.clone(), any::<bool>());
    let ask = prop_oneof![
        2 => prepare,
        8 => apply,
        4 => adopt,
        2 => claim,
        1 => place().prop_map(|(at, key)| Ask::GiveBack { at, key }),
        1 => stamp().prop_map(|(at, key, is_right)| Ask::Close { at, key, is_right }),
        1 => stamp().prop_map(|(at, key, is_right)| Ask::Forget { at, key, is_right }),
        1 => place().prop_map(|(at, key)| Ask::Remove { at, key }),
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
