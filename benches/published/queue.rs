//! One client fills a queue, one job after the other, as Celery or BullMQ do.

use std::time::Instant;

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::Cost;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let deployments =
        [Deployment::direct()?, Deployment::twemproxy()?, Deployment::proxy(&settings.proxy, 3)?];
    let mut runs = deployments.each_ref().map(|_| Vec::new());
    for _ in 0..settings.rounds {
        for (deployment, runs) in deployments.iter().zip(&mut runs) {
            runs.push(Filling::measure(deployment)?);
        }
    }
    let heading = format!("One client pushes {PUSHES} jobs of 1 KB");
    let mut table = Table::new(&heading, READING, &COLUMNS);
    for ((deployment, of_one), goal) in deployments.iter().zip(&runs).zip(["-", "-", GOAL]) {
        table.row(row(deployment, of_one, &runs[0], goal));
    }
    Ok(table)
}

/// What filling the queue once came to.
struct Filling {
    per_second: f64,
    /// Pushes that were not answered with the next length.
    failed: u32,
    cost: Cost,
}

impl Filling {
    fn measure(deployment: &Deployment) -> Result<Filling> {
        deployment.flush()?;
        let mut connection = wire::connect(deployment.port)?;
        let ((failed, seconds), cost) = Cost::of(deployment, PUSHES, || {
            let started = Instant::now();
            let failed = push_all(&mut connection)?;
            Ok((failed, started.elapsed().as_secs_f64()))
        })?;
        let per_second = f64::from(PUSHES) / seconds;
        eprintln!("{:<28} {per_second:>8.0}/s  {failed} failed", deployment.name);
        Ok(Filling { per_second, failed, cost })
    }
}

/// Returns how many failed.
fn push_all(connection: &mut std::net::TcpStream) -> Result<u32> {
    let job = vec![b'x'; JOB_BYTES];
    let mut failed = 0;
    for length in 1..=PUSHES {
        let reply = wire::ask(connection, &[b"LPUSH", b"queue", &job])?;
        failed += u32::from(reply != format!(":{length}"));
    }
    Ok(failed)
}

fn row(deployment: &Deployment, runs: &[Filling], direct: &[Filling], goal: &str) -> Vec<String> {
    let cpu = format!("{:.1}", median_of(runs, |run| run.cost.cpu_us));
    vec![
        deployment.name.clone(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, direct, |run| run.per_second),
        goal.to_owned(),
        runs.iter().map(|run| run.failed).sum::<u32>().to_string(),
        if deployment.has_middle() { cpu } else { "-".to_owned() },
        format!("{:.1}", median_of(runs, |run| run.cost.master_cpu_us)),
    ]
}

const COLUMNS: [&str; 7] = [
    "client talks to",
    "pushes/s",
    "of redis-server",
    "goal",
    "failed, all rounds",
    "CPU µs in between",
    "CPU µs of each master",
];

const READING: &str = "One client sends `LPUSH queue <1,024 bytes>` and waits for the reply before it sends the \
next. A push fails when it is answered with anything but the next length. CPU is per push, user and system.";

const GOAL: &str = "≥ 0.5, 0 failed";
const PUSHES: u32 = 6_000;
const JOB_BYTES: usize = 1_024;
