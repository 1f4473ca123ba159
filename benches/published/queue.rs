//! One client fills a queue, one job after the other, as Celery or BullMQ do.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::Cost;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let heading = format!("One client pushes {PUSHES} jobs of 1 KB");
    let mut table = Table::new(&heading, READING, &COLUMNS);
    let proxy = &settings.proxy;
    let near = [Deployment::direct()?, Deployment::twemproxy()?, Deployment::proxy(proxy, 3)?];
    let distant =
        [Deployment::distant(NETWORK)?, Deployment::proxy_to_distant(proxy, 3, &[], NETWORK)?];
    for (place, deployments) in [("on this machine", &near[..]), ("across a network", &distant)] {
        let mut runs: Vec<_> = deployments.iter().map(|_| Vec::new()).collect();
        for _ in 0..settings.rounds {
            for (deployment, runs) in deployments.iter().zip(&mut runs) {
                runs.push(Filling::measure(deployment)?);
            }
        }
        for (deployment, of_one) in deployments.iter().zip(&runs) {
            table.row(row(deployment, place, of_one, &runs[0]));
        }
    }
    Ok(table)
}

/// Results of filling the queue once.
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

/// Pushes all jobs, and returns how many pushes failed.
fn push_all(connection: &mut std::net::TcpStream) -> Result<u32> {
    let job = vec![b'x'; JOB_BYTES];
    let mut failed = 0;
    for length in 1..=PUSHES {
        let reply = wire::ask(connection, &[b"LPUSH", b"queue", &job])?;
        failed += u32::from(reply != format!(":{length}"));
    }
    Ok(failed)
}

fn row(deployment: &Deployment, place: &str, runs: &[Filling], direct: &[Filling]) -> Vec<String> {
    let cpu = format!("{:.1}", median_of(runs, |run| run.cost.cpu_us));
    let goal = if deployment.keeps_marks { GOAL } else { "-" };
    vec![
        deployment.name.clone(),
        place.to_owned(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, direct, |run| run.per_second),
        goal.to_owned(),
        runs.iter().map(|run| run.failed).sum::<u32>().to_string(),
        if deployment.has_middle() { cpu } else { "-".to_owned() },
        format!("{:.1}", median_of(runs, |run| run.cost.master_cpu_us)),
    ]
}

const COLUMNS: [&str; 8] = [
    "client talks to",
    "servers",
    "pushes/s",
    "of redis-server",
    "goal",
    "failed, all rounds",
    "CPU µs in between",
    "CPU µs of each master",
];

const READING: &str = "One client sends `LPUSH queue <1,024 bytes>` and waits for the reply before it sends the \
next. A push fails when it is answered with anything but the next length. CPU is per push, user and system. A relay is \
the network, and delays what passes by a quarter of a millisecond in each direction.";

const GOAL: &str = "≥ 0.5, 0 failed";
/// One-way delay to a server: about as long as within a data centre.
const NETWORK: Duration = Duration::from_micros(250);

const PUSHES: u32 = 6_000;
const JOB_BYTES: usize = 1_024;
