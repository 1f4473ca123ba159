//! The published figures: measures the proxy against its references and writes `benches/RESULTS.md`.
//!
//! Every group starts real servers, runs its candidates in interleaved rounds and reports the median of the ratios
//! *within* a round, so that noise of the machine hits both sides of a ratio alike. The benchmark makes no assertions.
//! `benches/README.md` explains how to read and re-run it.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time; it has no clock to steer"
)]

mod bystander;
mod contention;
mod cycles;
mod data;
mod deployment;
mod hiccups;
mod idle;
mod large_keys;
mod load;
mod paused;
mod process;
mod programs;
mod queue;
mod relay;
mod report;
mod restarted;
mod round_trips;
mod settings;
mod stats;
mod sweep;
mod throughput;
mod waiting;
mod wire;

use anyhow::Result;
use clap::Parser;

use report::{Report, Table};
use settings::{Group, Settings};

fn main() -> Result<()> {
    let settings = Settings::parse();
    if !settings.bench {
        println!("Timings need an optimised build: run `cargo bench --bench published`.");
        return Ok(());
    }
    process::raise_open_files_limit()?;
    let mut report = Report::new(&settings)?;
    for group in settings.groups() {
        eprintln!("# {group:?}");
        let table = measure(group, &settings)?;
        println!("\n{table}");
        report.add(table);
    }
    report.finish(&settings)
}

fn measure(group: Group, settings: &Settings) -> Result<Table> {
    match group {
        Group::Throughput => throughput::measure(settings),
        Group::Paused => paused::measure(settings),
        Group::Contention => contention::measure(settings),
        Group::Idle => idle::measure(settings),
        Group::Cycles => cycles::measure(settings),
        Group::Programs => programs::measure(settings),
        Group::Restarted => restarted::measure(settings),
        Group::Copying => restarted::measure_copying(settings),
        Group::Hiccups => hiccups::measure(settings),
        Group::Bystander => bystander::measure(settings),
        Group::Data => data::measure(settings),
        Group::LargeData => data::measure_large(settings),
        Group::IdleData => data::measure_idle(settings),
        Group::LargeKeys => large_keys::measure(settings),
        Group::RoundTrips => round_trips::measure(settings),
        Group::Queue => queue::measure(settings),
        Group::Waiting => waiting::measure(settings),
    }
}
