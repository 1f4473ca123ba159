//! One of three masters hangs: effect on clients.

use anyhow::Result;

use crate::deployment::Deployment;
use crate::load::{self, Run};
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let mut proxy = Deployment::proxy(&settings.proxy, 3)?;
    let mut table = Table::new("One of three masters stopped (SIGSTOP)", READING, &COLUMNS);
    for &pipeline in &settings.pipelines {
        let (mut healthy, mut stopped) = (Vec::new(), Vec::new());
        for round in 0..settings.rounds as usize {
            healthy.push(load::claims(&proxy, pipeline, settings)?);
            stopped.push(without(round % 3, &mut proxy, pipeline, settings)?);
        }
        table.row(row("all three", pipeline, &healthy, &healthy));
        table.row(row("one stopped", pipeline, &stopped, &healthy));
    }
    Ok(table)
}

/// Runs the load with a master stopped from just before it until just after it.
fn without(
    index: usize,
    proxy: &mut Deployment,
    pipeline: u32,
    settings: &Settings,
) -> Result<Run> {
    proxy.flush()?;
    proxy.masters[index].process.stop()?;
    let run = load::claims_as_is(proxy, pipeline, settings);
    proxy.masters[index].process.resume()?;
    proxy.wait_until_complete()?;
    run
}

fn row(name: &str, pipeline: u32, runs: &[Run], healthy: &[Run]) -> Vec<String> {
    vec![
        name.to_owned(),
        pipeline.to_string(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, healthy, |run| run.per_second),
        format!("{:.2}", median_of(runs, |run| run.p50_ms)),
        format!("{:.2}", median_of(runs, |run| run.p99_ms)),
        ratio(runs, healthy, |run| run.p99_ms),
    ]
}

const COLUMNS: [&str; 7] =
    ["masters", "-P", "claims/s", "of healthy", "p50 ms", "p99 ms", "p99 of healthy"];

const READING: &str = "The same load. The master is stopped just before the load starts, a different \
one each round, so the time in which the proxy learns of it is part of the run.";
