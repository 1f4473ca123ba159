//! `redis-benchmark`, the load that Redis users know, and what it reports.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::deployment::Deployment;
use crate::settings::Settings;

/// One run of `redis-benchmark` against one deployment.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// CPU time per operation of the process between client and master.
    pub(crate) cpu_us: f64,
}

/// Runs uncontended claims over emptied masters, as many as one round wants.
pub(crate) fn claims(deployment: &Deployment, pipeline: u32, settings: &Settings) -> Result<Run> {
    deployment.flush()?;
    claims_as_is(deployment, pipeline, settings)
}

/// Runs the claims without emptying the masters first: one that is stopped would not answer.
pub(crate) fn claims_as_is(
    deployment: &Deployment,
    pipeline: u32,
    settings: &Settings,
) -> Result<Run> {
    let requests = if pipeline == 1 { settings.requests } else { 4 * settings.requests };
    let before = deployment.middle_cpu_time()?;
    let csv = redis_benchmark(deployment.port, pipeline, requests)?;
    let cpu = deployment.middle_cpu_time()? - before;
    let cpu_us = cpu.as_secs_f64() * 1e6 / f64::from(requests);
    let run = parse(&csv, cpu_us).with_context(|| format!("redis-benchmark printed: {csv}"))?;
    eprintln!(
        "{:<28} -P {pipeline:<2} {:>8.0}/s  p99 {:>6.2} ms  CPU {:.2} µs",
        deployment.name, run.per_second, run.p99_ms, run.cpu_us
    );
    Ok(run)
}

fn redis_benchmark(port: u16, pipeline: u32, requests: u32) -> Result<String> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-P", &pipeline.to_string()]);
    command.args(["-c", "50", "-r", "10000000", "-n", &requests.to_string()]);
    command.args(["--csv", "--precision", "3"]);
    command.args(["SET", "key:__rand_int__", "v", "NX", "PX", "5000"]);
    let output = command.output().context("cannot start redis-benchmark")?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    let refused = complaints.contains("Error from server");
    ensure!(output.status.success() && !refused, "redis-benchmark: {complaints}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads the last line: test, rps, then the latencies avg, min, p50, p95, p99, max in milliseconds.
fn parse(csv: &str, cpu_us: f64) -> Result<Run> {
    let line = csv.lines().last().context("nothing")?;
    let fields: Vec<&str> = line.split(',').map(|field| field.trim_matches('"')).collect();
    let field = |index: usize| -> Result<f64> {
        Ok(fields.get(index).context("too few fields")?.parse::<f64>()?)
    };
    Ok(Run { per_second: field(1)?, p50_ms: field(4)?, p99_ms: field(6)?, cpu_us })
}
