//! Cost of the proxy for requests that are not for locks and go to the data Redis.

use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::deployment::Deployment;
use crate::idle;
use crate::load::{self, Load, Run};
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median, median_of, ratio};
use crate::wire;

/// Measures `GET` and `SET` against the server itself, twemproxy and the proxy.
pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let deployments = deployments(settings)?;
    let mut table = Table::new("Data behind one address", READING, &COLUMNS);
    for words in REQUESTS {
        for &pipeline in &settings.pipelines {
            let mut runs = [const { Vec::new() }; 3];
            for _ in 0..settings.rounds {
                for (deployment, runs) in deployments.iter().zip(&mut runs) {
                    runs.push(run(deployment, words, pipeline, settings)?);
                }
            }
            for (index, deployment) in deployments.iter().enumerate() {
                table.row(row(&deployment.name, words, pipeline, &runs[index], &runs));
            }
        }
    }
    Ok(table)
}

fn deployments(settings: &Settings) -> Result<[Deployment; 3]> {
    let proxy = Deployment::proxy_to_data(&settings.proxy)?;
    Ok([Deployment::direct()?, Deployment::twemproxy()?, proxy])
}

fn run(deployment: &Deployment, words: &str, pipeline: u32, settings: &Settings) -> Result<Run> {
    let words = words.split(' ').map(str::to_owned).collect();
    load::run(deployment, &Load { keys: 100_000, words, requests: settings.requests }, pipeline)
}

fn row(name: &str, words: &str, pipeline: u32, runs: &[Run], all: &[Vec<Run>; 3]) -> Vec<String> {
    let [direct, twemproxy, _] = all;
    let in_between = median_of(runs, |run| run.cost.cpu_us) > 0.0;
    let cpu = |text: String| if in_between { text } else { "-".into() };
    vec![
        name.to_owned(),
        words.split(' ').next().unwrap_or_default().to_owned(),
        pipeline.to_string(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, direct, |run| run.per_second),
        ratio(runs, twemproxy, |run| run.per_second),
        format!("{:.2}", median_of(runs, |run| run.p99_ms)),
        cpu(format!("{:.2}", median_of(runs, |run| run.cost.cpu_us))),
        cpu(ratio(runs, twemproxy, |run| run.cost.cpu_us)),
    ]
}

/// Measures one value of 100 MB in both directions.
pub(crate) fn measure_large(settings: &Settings) -> Result<Table> {
    let [direct, _, proxy] = deployments(settings)?;
    let mut runs = [const { Vec::new() }; 2];
    for _ in 0..settings.rounds {
        for (deployment, runs) in [&direct, &proxy].into_iter().zip(&mut runs) {
            runs.push(Large::measure(deployment)?);
        }
    }
    let mut table = Table::new("A value of 100 MB", LARGE_READING, &LARGE_COLUMNS);
    for (deployment, of) in [&direct, &proxy].into_iter().zip(&runs) {
        let grown = median(of.iter().map(|run| run.grown_mib).collect());
        table.row(vec![
            deployment.name.clone(),
            format!("{:.0}", median_of(of, |run| run.set)),
            ratio(of, &runs[0], |run| run.set),
            format!("{:.0}", median_of(of, |run| run.get)),
            ratio(of, &runs[0], |run| run.get),
            // Only the memory of a process in between is of interest: the server keeps the value.
            if deployment.has_middle() { format!("{grown:.1}") } else { "-".to_owned() },
        ]);
    }
    Ok(table)
}

/// Rates that one client sees, in MB per second.
struct Large {
    set: f64,
    get: f64,
    grown_mib: f64,
}

impl Large {
    fn measure(deployment: &Deployment) -> Result<Large> {
        let mut connection = wire::connect(deployment.port)?;
        let value = vec![b'x'; LARGE_BYTES];
        ensure!(wire::ask(&mut connection, &[b"SET", b"large", b"small"])? == "+OK");
        let before = deployment.front().peak_bytes()?;
        let started = Instant::now();
        ensure!(wire::ask(&mut connection, &[b"SET", b"large", &value])? == "+OK");
        let set = started.elapsed();
        let started = Instant::now();
        connection.write_all(&wire::encode(&[b"GET", b"large"]))?;
        let mut left = format!("${LARGE_BYTES}\r\n").len() + LARGE_BYTES + 2;
        let mut buffer = vec![0; 256 << 10];
        while left > 0 {
            let count = connection.read(&mut buffer)?;
            ensure!(count > 0, "the connection was closed");
            left = left.checked_sub(count).context("more than the value came")?;
        }
        let get = started.elapsed();
        let grown = deployment.front().peak_bytes()?.saturating_sub(before);
        let rate = |time: std::time::Duration| LARGE_BYTES as f64 / 1e6 / time.as_secs_f64();
        let run = Large { set: rate(set), get: rate(get), grown_mib: grown as f64 / MEBI };
        eprintln!("{:<28} SET {:.0} MB/s  GET {:.0} MB/s", deployment.name, run.set, run.get);
        Ok(run)
    }
}

/// Measures idle clients that have used data once, in a way that requires a connection of their own.
pub(crate) fn measure_idle(settings: &Settings) -> Result<Table> {
    let deployments = deployments(settings)?;
    // Each has a connection to the data Redis as well.
    let count = idle::affordable(IDLE_CLIENTS.min(settings.connections)) / 2;
    idle::table(
        &format!("{count} idle clients with data"),
        &deployments,
        count,
        &[b"LRANGE", b"page", b"0", b"-1"],
    )
}

const REQUESTS: [&str; 2] = ["GET key:__rand_int__", "SET key:__rand_int__ value"];

const COLUMNS: [&str; 9] = [
    "clients talk to",
    "request",
    "-P",
    "requests/s",
    "of redis-server",
    "of twemproxy",
    "p99 ms",
    "CPU µs/request",
    "CPU of twemproxy",
];

const READING: &str = "`redis-benchmark -c 50 -r 100000`. The proxy has three masters, and passes these requests on to \
one server, as twemproxy does. CPU is that of the process in between, user and system.";

const LARGE_COLUMNS: [&str; 6] = [
    "clients talk to",
    "SET, MB/s",
    "of redis-server",
    "GET, MB/s",
    "of redis-server",
    "MiB more at its peak",
];

const LARGE_READING: &str =
    "One client sets and gets one value of 100 MB. Memory is the growth of `VmHWM`.";

const LARGE_BYTES: usize = 100_000_000;
const IDLE_CLIENTS: u32 = 10_000;
const MEBI: f64 = 1024.0 * 1024.0;
