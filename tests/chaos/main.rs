//! Chaos on real servers: clients in several languages take locks, and others use data, while
//! masters, proxies, networks, clocks and disks fail. Checkers then examine the answers that
//! clients got.
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod bed;
mod checker;
mod clients;
mod data;
mod disk;
mod fault;
mod history;
mod journal;
mod leases;
mod orders;
mod phase;
mod report;
mod rust_client;
mod strike;
mod system;
mod traffic;
mod witness;

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::Duration;

use data::{Cast, Front};
use fault::Fault;
use phase::{Outcome, Phase};
use report::Part;
use support::{setting, target_is_plain_redis};
use system::System;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn faults_by_turns_break_no_promise() {
    keeps_its_promises(Fault::Mixed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn masters_that_wait_for_their_disks_break_no_promise() {
    keeps_its_promises(Fault::RestartAlways).await;
    keeps_its_promises(Fault::SlowDisk).await;
}

/// The test of the test: without the checks for masters that forget, locks are granted twice, and
/// both the checker and the witness notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_protection_a_master_that_forgets_is_caught() {
    if target_is_plain_redis() {
        return;
    }
    let fault = Fault::Flush;
    for seed in 0..ATTEMPTS {
        let phase = Phase { system: System::Redis, ..short(fault, seed) };
        let outcome = seen("without protection", phase).await;
        if !outcome.findings.overlaps.is_empty() && outcome.crowds > 0 {
            assert!(!outcome.broken_promises().is_empty());
            return;
        }
    }
    panic!("nobody noticed anything, {ATTEMPTS} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn data_is_one_servers_whatever_fails() {
    if target_is_plain_redis() {
        return;
    }
    let (cast, front, fault) = (Cast::Plain, Front::ThreeProxies, Fault::Mixed);
    let phase = data::Phase { cast, front, fault, lasting: Duration::ZERO, seed: seed() };
    let outcome = phase.seen().await;
    let broken = outcome.findings.broken_promises();
    assert!(broken.is_empty(), "{}\n{broken:#?}", outcome.history());
    assert!(outcome.findings.answers > 500, "hardly anything was answered");
}

/// The test of the test: a server that forgets is caught, and one that does not forget passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn data_of_one_redis_that_forgets_is_caught() {
    for (fault, is_caught) in [(Fault::Flush, true), (Fault::RestartAlways, false)] {
        let (cast, front, lasting) = (Cast::Plain, Front::Redis, Duration::ZERO);
        let seed = seed();
        let outcome = data::Phase { cast, front, fault, lasting, seed }.seen().await;
        let found = &outcome.findings;
        assert_eq!(!found.impossible.is_empty(), is_caught, "{fault:?}: {found:#?}");
    }
}

/// Runs every cell of the tables in turn. `CHAOS_ONLY` selects some of them by a part of `SYSTEM:
/// FAULT`. The histories go into the directory `CHAOS_HISTORIES`, if set.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes many minutes: run by make chaos"]
async fn every_system_under_every_fault() {
    let lasting = Duration::from_secs(setting("CHAOS_SECONDS").unwrap_or(10));
    let (seed, only) = (seed(), std::env::var("CHAOS_ONLY").unwrap_or_default());
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for fault in Fault::ALL {
        let mut cells = Vec::new();
        for system in System::ALL {
            let name = format!("{}: {}", system.name(), fault.name());
            let wanted = fault.concerns(system) && name.contains(&only);
            let phase = Phase { system, fault, lasting, seed };
            let outcome = if wanted { Some(seen(&name, phase).await) } else { None };
            let own = outcome.iter().filter(|_| system == System::Proxies);
            broken.extend(own.flat_map(|outcome| outcome.broken_promises()));
            cells.push(outcome);
        }
        rows.push((fault, cells));
    }
    tell(Part::Locks, &report::tables(&rows), (lasting, seed), only.is_empty());
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Runs every cell of the tables for data. `CHAOS_ONLY` matches parts of `data, FRONT: FAULT`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes many minutes: run by make chaos"]
async fn every_data_under_every_fault() {
    data_under_every_fault(Cast::Plain).await;
}

/// Runs every cell of the tables for Redisson's own objects. `CHAOS_ONLY` matches parts of
/// `Redisson, FRONT: FAULT`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes many minutes: run by make chaos"]
async fn every_object_of_redisson_under_every_fault() {
    match clients::java_lacks().await {
        Some(program) => println!("skipped: {program} is missing, which builds Redisson's client"),
        None => data_under_every_fault(Cast::Redisson).await,
    }
}

async fn data_under_every_fault(cast: Cast) {
    let lasting = Duration::from_secs(setting("CHAOS_SECONDS").unwrap_or(10));
    let (seed, only) = (seed(), std::env::var("CHAOS_ONLY").unwrap_or_default());
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for fault in Fault::ALL.into_iter().filter(|it| it.concerns_data(System::Proxies)) {
        let mut cells = Vec::new();
        for front in Front::ALL {
            let name = format!("{}, {}: {}", cast.name(), front.name(), fault.name());
            let wanted = fault.concerns_data(front.system()) && name.contains(&only);
            let phase = data::Phase { cast, front, fault, lasting, seed };
            let outcome = if wanted { Some(phase.seen().await) } else { None };
            let own = outcome.iter().filter(|_| front != Front::Redis);
            broken.extend(own.flat_map(|outcome| outcome.findings.broken_promises()));
            cells.push(outcome);
        }
        rows.push((fault, cells));
    }
    let is_for_the_page = cast == Cast::Plain && only.is_empty();
    let tables = report::tables_of_data(cast.name(), &rows);
    tell(Part::Data, &tables, (lasting, seed), is_for_the_page);
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Prints tables of cells with this duration and seed. Also writes them into the page if that is
/// wanted and the tables are complete.
fn tell(part: Part, tables: &str, (lasting, seed): (Duration, u64), are_whole: bool) {
    println!("{tables}");
    if std::env::var_os("UPDATE_DOCS").is_some() && are_whole {
        report::write(part, tables, lasting, seed);
    }
}

/// A kind of fault without a row has been forgotten, and so has a system without a column.
#[test]
fn the_page_of_reliability_has_a_row_for_each_fault() {
    let page = report::page();
    for fault in Fault::ALL {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| {} |", fault.name())));
        let wanted = if fault.concerns_data(System::Proxies) { 4 } else { 2 };
        assert_eq!(rows.count(), wanted, "{}: run `make reliability-page`", fault.name());
    }
    for columns in [&System::ALL.map(System::name)[..], &Front::ALL.map(Front::name)] {
        let columns = format!(" under | {} |\n", columns.join(" | "));
        assert_eq!(page.matches(&columns).count(), 2, "{columns}: run `make reliability-page`");
    }
}

/// Strikes each fault of a kind once.
async fn keeps_its_promises(fault: Fault) {
    if target_is_plain_redis() {
        return;
    }
    let outcome = seen(fault.name(), short(fault, seed())).await;
    let broken = outcome.broken_promises();
    // Broken promises come last, because a long text may be cut down to its end.
    assert!(broken.is_empty(), "logs: {:#?}\n{broken:#?}", outcome.logs);
    assert!(outcome.findings.grants > 0, "nobody ever held a lock");
}

fn short(fault: Fault, seed: u64) -> Phase {
    let (system, lasting) = (System::Proxies, Duration::ZERO);
    Phase { system, fault, lasting, seed }
}

/// Runs a phase, prints the outcome and returns it.
async fn seen(name: &str, phase: Phase) -> Outcome {
    let outcome = phase.run().await;
    let findings = &outcome.findings;
    println!(
        "{name}, seed {}: {} strikes, witness {} and {}, {findings:#?}",
        phase.seed, outcome.strikes, outcome.crowds, outcome.trespasses
    );
    if let Some(directory) = std::env::var_os("CHAOS_HISTORIES") {
        let calls: String = outcome.calls.iter().map(|call| format!("{call:?}\n")).collect();
        let text = format!("{:#?}\n{calls}", outcome.logs);
        let file = format!("{}-{}", phase.system.name(), name.replace(['/', '`', ' '], "_"));
        std::fs::write(Path::new(&directory).join(file), text).expect("a directory for histories");
    }
    outcome
}

/// `CHAOS_SEED`, or a new one.
fn seed() -> u64 {
    setting("CHAOS_SEED").unwrap_or_else(|| fastrand::u64(..))
}

/// A single attempt may fail to show the violation, because several things must coincide.
const ATTEMPTS: u64 = 10;
