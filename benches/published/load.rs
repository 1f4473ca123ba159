//! `redis-benchmark`, the load that Redis users know: running it, reading its report, and measuring its cost.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::deployment::Deployment;
use crate::settings::Settings;

/// One run of a load against one deployment.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) requests: u32,
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) cost: Cost,
}

/// CPU time per request, user and system.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    /// CPU time of the process between client and master.
    pub(crate) cpu_us: f64,
    /// CPU time of a master, on average.
    pub(crate) master_cpu_us: f64,
}

impl Cost {
    /// Runs `work`, which sends that many requests to the deployment, and measures their cost.
    pub(crate) fn of<T>(
        deployment: &Deployment,
        requests: u32,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<(T, Cost)> {
        let before = (deployment.middle_cpu_time()?, deployment.masters_cpu_time()?);
        let done = work()?;
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / f64::from(requests);
        let cpu_us = each(deployment.middle_cpu_time()? - before.0);
        let masters_cpu_us = each(deployment.masters_cpu_time()? - before.1);
        let master_cpu_us = masters_cpu_us / deployment.masters.len() as f64;
        Ok((done, Cost { cpu_us, master_cpu_us }))
    }
}

impl Run {
    /// Prints the results, as progress for anybody waiting for the tables.
    pub(crate) fn show(&self, deployment: &Deployment) {
        eprintln!(
            "{:<28} {:>8.0}/s  p99 {:>6.2} ms  CPU {:.2} µs, of a master {:.2} µs",
            deployment.name,
            self.per_second,
            self.p99_ms,
            self.cost.cpu_us,
            self.cost.master_cpu_us
        );
    }
}

/// Requests that `redis-benchmark` sends. `__rand_int__` in them is a number below `keys`.
pub(crate) struct Load {
    pub(crate) keys: u32,
    pub(crate) words: Vec<String>,
    /// Number of requests at -P 1. Deeper pipelines send four times as many.
    pub(crate) requests: u32,
}

/// Runs one round of uncontended claims over emptied masters.
pub(crate) fn claims(deployment: &Deployment, pipeline: u32, settings: &Settings) -> Result<Run> {
    deployment.flush()?;
    claims_as_is(deployment, pipeline, settings)
}

/// Runs the claims without emptying the masters first: a stopped master would not answer.
pub(crate) fn claims_as_is(
    deployment: &Deployment,
    pipeline: u32,
    settings: &Settings,
) -> Result<Run> {
    let words = CLAIM.split(' ').map(str::to_owned).collect();
    let load = Load { keys: 10_000_000, words, requests: settings.requests };
    run(deployment, &load, pipeline)
}

/// Runs any load on top of what the masters hold.
pub(crate) fn run(deployment: &Deployment, load: &Load, pipeline: u32) -> Result<Run> {
    let requests = at_depth(load.requests, pipeline);
    let benchmark = || redis_benchmark(deployment.port, load, pipeline, requests);
    let (csv, cost) = Cost::of(deployment, requests, benchmark)?;
    let (per_second, p50_ms, p99_ms) =
        parse(&csv).with_context(|| format!("redis-benchmark printed: {csv}"))?;
    let run = Run { requests, per_second, p50_ms, p99_ms, cost };
    eprint!("-P {pipeline:<2} ");
    run.show(deployment);
    Ok(run)
}

/// Returns the number of requests at this depth for a run with `requests` at -P 1. Deeper pipelines need more to run as
/// long.
pub(crate) fn at_depth(requests: u32, pipeline: u32) -> u32 {
    if pipeline == 1 { requests } else { 4 * requests }
}

fn redis_benchmark(port: u16, load: &Load, pipeline: u32, requests: u32) -> Result<String> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-P", &pipeline.to_string()]);
    command.args(["-c", "50", "-r", &load.keys.to_string(), "-n", &requests.to_string()]);
    command.args(["--csv", "--precision", "3"]).args(&load.words);
    let output = command.output().context("cannot start redis-benchmark")?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let refused = complaints.contains("Error from server");
    ensure!(output.status.success() && !refused, "redis-benchmark: {complaints}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the last line: test, rps, then the latencies avg, min, p50, p95, p99, max in milliseconds. Returns rps, p50
/// and p99.
fn parse(csv: &str) -> Result<(f64, f64, f64)> {
    let line = csv.lines().last().context("nothing")?;
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
    let field = |index: usize| -> Result<f64> {
        Ok(fields.get(index).context("too few fields")?.parse::<f64>()?)
    };
    Ok((field(1)?, field(4)?, field(6)?))
}

const CLAIM: &str = "SET key:__rand_int__ v NX PX 5000";
