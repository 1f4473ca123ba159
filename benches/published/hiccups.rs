//! All masters stop together for a moment, as on a busy host: effect on clients.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::cycles::{self, Plain, Run};
use crate::deployment::Deployment;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let runtime = Runtime::new()?;
    let one = Deployment::direct()?;
    let proxy = Deployment::proxy(&settings.proxy, 3)?;
    let (mut direct, mut through) = (Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        direct.push(run(&runtime, ONE, &one, settings)?);
        through.push(run(&runtime, THREE, &proxy, settings)?);
    }
    let mut table =
        Table::new("All masters stopped for 150 ms once a second (SIGSTOP)", READING, &COLUMNS);
    table.row(row(ONE, &direct, &direct));
    table.row(row(THREE, &through, &direct));
    Ok(table)
}

/// Runs the load, with stops from its beginning to its end.
fn run(runtime: &Runtime, name: &str, deployment: &Deployment, settings: &Settings) -> Result<Run> {
    deployment.flush()?;
    let locker = Plain::connect(runtime, deployment)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let stops = threads.spawn(|| stop_again_and_again(deployment, &is_over));
        let run = cycles::run_as_is(runtime, name, &locker, settings.duration());
        is_over.store(true, Ordering::Relaxed);
        stops.join().expect("stopping does not panic")?;
        run
    })
}

fn stop_again_and_again(deployment: &Deployment, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD - STOP);
        let masters = || deployment.masters.iter().map(|master| &master.process);
        let stopped = masters().try_for_each(|master| master.stop());
        std::thread::sleep(STOP);
        masters().try_for_each(|master| master.resume())?;
        stopped?;
    }
    Ok(())
}

fn row(name: &str, runs: &[Run], direct: &[Run]) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, direct, |run| run.per_second),
        format!("{:.1}", median_of(runs, |run| run.p999_ms)),
        ratio(runs, direct, |run| run.p999_ms),
        format!("{:.0}", median_of(runs, |run| run.longest_ms)),
        format!("{:.0}", runs.iter().map(|run| run.failed).sum::<f64>()),
    ]
}

const COLUMNS: [&str; 7] = [
    "application uses",
    "cycles/s",
    "of redis-server",
    "p99.9 ms",
    "p99.9 of redis-server",
    "longest ms",
    "failed, all rounds",
];

const READING: &str = "50 tasks lock and release keys of their own through one connection. All masters are stopped \
together, and go on together. A cycle that was refused, or got an error, would have failed.";

const ONE: &str = "redis, one server without the proxy";
const THREE: &str = "redis, redlock-proxy to three masters";
const PERIOD: Duration = Duration::from_secs(1);
const STOP: Duration = Duration::from_millis(150);
