//! Uncontended claims: the cost of deciding by majority, compared with one server, bare or behind twemproxy.

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::{self, Run};
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let mut deployments = vec![Deployment::direct()?, Deployment::twemproxy()?];
    for &count in &settings.masters {
        deployments.push(Deployment::proxy(&settings.proxy, count)?);
    }
    let mut table = Table::new("Uncontended claims", READING, &COLUMNS);
    for &pipeline in &settings.pipelines {
        let runs = interleaved(&deployments, pipeline, settings)?;
        for (index, deployment) in deployments.iter().enumerate() {
            table.row(row(&deployment.name, pipeline, &runs[index], &runs));
        }
    }
    Ok(table)
}

/// Returns the runs of each deployment, one per round.
fn interleaved(
    deployments: &[Deployment],
    pipeline: u32,
    settings: &Settings,
) -> Result<Vec<Vec<Run>>> {
    let mut runs = vec![Vec::new(); deployments.len()];
    for _ in 0..settings.rounds {
        for (deployment, runs) in deployments.iter().zip(&mut runs) {
            runs.push(load::claims(deployment, pipeline, settings)?);
        }
    }
    Ok(runs)
}

fn row(name: &str, pipeline: u32, runs: &[Run], all: &[Vec<Run>]) -> Vec<String> {
    let (direct, twemproxy) = (&all[0], &all[1]);
    let in_between = median_of(runs, |run| run.cost.cpu_us) > 0.0;
    let cpu = |text: String| if in_between { text } else { "-".into() };
    vec![
        name.to_owned(),
        pipeline.to_string(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, direct, |run| run.per_second),
        ratio(runs, twemproxy, |run| run.per_second),
        format!("{:.2}", median_of(runs, |run| run.p50_ms)),
        format!("{:.2}", median_of(runs, |run| run.p99_ms)),
        cpu(format!("{:.2}", median_of(runs, |run| run.cost.cpu_us))),
        cpu(ratio(runs, twemproxy, |run| run.cost.cpu_us)),
    ]
}

const COLUMNS: [&str; 9] = [
    "clients talk to",
    "-P",
    "claims/s",
    "of redis-server",
    "of twemproxy",
    "p50 ms",
    "p99 ms",
    "CPU µs/claim",
    "CPU of twemproxy",
];

const READING: &str = "`redis-benchmark -c 50 -r 10000000 SET key:__rand_int__ v NX PX 5000`. CPU is \
that of the process between clients and masters, user and system. All processes share the cores: three \
masters do three times the work of one server, and `redis-benchmark` takes its part.";
