//! One of three masters is killed and comes back empty: effect on clients, time until it votes again, and speed of
//! copying to it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::cycles::{self, Plain, Run};
use crate::deployment::Deployment;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median, median_of, ratio};

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let runtime = Runtime::new()?;
    let mut proxy = Deployment::proxy(&settings.proxy, 3)?;
    let locker = Plain::connect(&runtime, &proxy)?;
    let heading = format!("One of three masters restarted empty, {LOCKS} locks held");
    let mut table = Table::new(&heading, READING, &COLUMNS);
    let (mut healthy, mut restarted, mut returns) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..settings.rounds as usize {
        proxy.flush()?;
        hold(&proxy, LOCKS)?;
        healthy.push(cycles::run_as_is(&runtime, HEALTHY, &locker, settings.duration())?);
        let (run, back) = std::thread::scope(|threads| {
            let restart = threads.spawn(|| restart(&mut proxy, round % 3));
            let run = cycles::run_as_is(&runtime, RESTARTED, &locker, settings.duration());
            let back = restart.join().expect("the restart does not panic");
            anyhow::Ok((run?, back?))
        })?;
        restarted.push(run);
        returns.push(back);
    }
    table.row(row(HEALTHY, &healthy, &healthy, None));
    table.row(row(RESTARTED, &restarted, &healthy, Some(&returns)));
    Ok(table)
}

/// Measures how fast keys are copied to a master that comes back empty, while there are no requests.
pub(crate) fn measure_copying(settings: &Settings) -> Result<Table> {
    let mut proxy = Deployment::proxy(&settings.proxy, 3)?;
    let heading = format!("One of three masters restarted empty, {MANY_LOCKS} locks held, no load");
    let mut table = Table::new(&heading, COPYING, &["s until it votes", "keys copied", "keys/s"]);
    let mut returns = Vec::new();
    for round in 0..settings.rounds as usize {
        proxy.flush()?;
        hold(&proxy, MANY_LOCKS)?;
        returns.push(restart(&mut proxy, round % 3)?);
    }
    table.row(vec![
        format!("{:.2}", median_of(&returns, |back| back.seconds)),
        format!("{:.0}", median_of(&returns, |back| back.copied)),
        format!("{:.0}", median_of(&returns, |back| back.copied / back.seconds)),
    ]);
    Ok(table)
}

/// Results of one master's return.
struct Return {
    /// Seconds from its first answer to its first vote.
    seconds: f64,
    copied: f64,
}

/// Takes locks that are not released.
fn hold(proxy: &Deployment, locks: usize) -> Result<()> {
    let mut connection = proxy.connection()?;
    for first in (0..locks).step_by(LOCKS) {
        let mut pipeline = redis::pipe();
        for number in first..first + LOCKS {
            let key = format!("held:{number}");
            pipeline.cmd("SET").arg(key).arg("holder").arg("NX").arg("PX").arg(600_000).ignore();
        }
        pipeline.exec(&mut connection)?;
    }
    Ok(())
}

/// Restarts a master while the load runs, and waits until it votes.
fn restart(proxy: &mut Deployment, index: usize) -> Result<Return> {
    let mut connection = proxy.connection()?;
    let before = field(&mut connection, index, "copied_keys")?.parse::<f64>()?;
    std::thread::sleep(RUN_UP);
    proxy.masters[index].restart_empty()?;
    let answered = Instant::now();
    while field(&mut connection, index, "state")? != "voter" {
        std::thread::sleep(Duration::from_millis(5));
    }
    let seconds = answered.elapsed().as_secs_f64();
    let copied = field(&mut connection, index, "copied_keys")?.parse::<f64>()? - before;
    eprintln!("{:<40} votes again after {seconds:.2} s, {copied} keys copied", "the master");
    Ok(Return { seconds, copied })
}

/// Returns a field of a master in `INFO redlock`.
fn field(connection: &mut redis::Connection, index: usize, name: &str) -> Result<String> {
    let info: String = redis::cmd("INFO").arg("redlock").query(connection)?;
    let prefix = format!("master{index}:");
    let line =
        info.lines().find_map(|line| line.strip_prefix(&prefix)).context("no such master")?;
    let mut fields = line.split(',').filter_map(|field| field.split_once('='));
    let value = fields.find(|(field, _)| *field == name).context("no such field")?.1;
    Ok(value.to_owned())
}

fn row(name: &str, runs: &[Run], healthy: &[Run], returns: Option<&[Return]>) -> Vec<String> {
    let of_returns = |figure: fn(&Return) -> f64| {
        returns.map(|returns| median(returns.iter().map(figure).collect()))
    };
    vec![
        name.to_owned(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, healthy, |run| run.per_second),
        format!("{:.2}", median_of(runs, |run| run.p99_ms)),
        ratio(runs, healthy, |run| run.p99_ms),
        format!("{:.0}", median_of(runs, |run| run.longest_ms)),
        format!("{:.0}", runs.iter().map(|run| run.failed).sum::<f64>()),
        of_returns(|back| back.seconds).map_or("-".to_owned(), |seconds| format!("{seconds:.2}")),
        of_returns(|back| back.copied).map_or("-".to_owned(), |copied| format!("{copied:.0}")),
    ]
}

const COLUMNS: [&str; 9] = [
    "masters",
    "cycles/s",
    "of healthy",
    "p99 ms",
    "p99 of healthy",
    "longest ms",
    "failed, all rounds",
    "s until it votes",
    "keys copied",
];

const READING: &str = "50 tasks lock and release keys of their own through one connection each run. The master is \
killed (`SIGKILL`) in the middle of the load and started again at once, without its data; a different one each \
round. It votes again once all that it forgot has been copied to it. A cycle that was refused, or got an error, \
would have failed.";

const COPYING: &str = "The master is killed (`SIGKILL`) and started again at once, without its data; a different one \
each round. Seconds are from when it answers until it votes: noticing, putting it out of the roster, copying, \
admitting it.";

const HEALTHY: &str = "all three";
const RESTARTED: &str = "one restarted empty";
const LOCKS: usize = 10_000;
const MANY_LOCKS: usize = 300_000;
const RUN_UP: Duration = Duration::from_millis(500);
