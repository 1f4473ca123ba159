//! Lock and release in an application: an ordinary client through the proxy, compared with a Redlock library.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::deployment::Deployment;
use crate::process::own_cpu_time;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let runtime = Runtime::new()?;
    let one = Deployment::direct()?;
    let proxy = Deployment::proxy(&settings.proxy, 3)?;
    let direct = Plain::connect(&runtime, &one)?;
    let through_proxy = Plain::connect(&runtime, &proxy)?;
    let client_side = Redlock::new(&proxy);
    let (mut baseline, mut library, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.rounds {
        baseline.push(run(&runtime, BASELINE, &one, &direct, settings)?);
        library.push(run(&runtime, LIBRARY, &proxy, &client_side, settings)?);
        ours.push(run(&runtime, OURS, &proxy, &through_proxy, settings)?);
    }
    let mut table = Table::new("Lock and release, 50 tasks", READING, &COLUMNS);
    table.row(row(BASELINE, &baseline, &library));
    table.row(row(LIBRARY, &library, &library));
    table.row(row(OURS, &ours, &library));
    Ok(table)
}

/// A way to take and release a lock.
pub(crate) trait Locker: Clone + Send + 'static {
    /// Takes the lock on `key` and releases it. Returns whether both worked.
    fn cycle(&mut self, key: &str) -> impl Future<Output = bool> + Send;
}

/// `SET NX PX` and the release script, as with a single Redis.
#[derive(Clone)]
pub(crate) struct Plain {
    connection: MultiplexedConnection,
    release: redis::Script,
}

impl Plain {
    pub(crate) fn connect(runtime: &Runtime, deployment: &Deployment) -> Result<Plain> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", deployment.port))?;
        let connection = runtime.block_on(client.get_multiplexed_async_connection())?;
        Ok(Plain { connection, release: redis::Script::new(wire::RELEASE) })
    }

    async fn lock_and_release(&mut self, key: &str) -> redis::RedisResult<bool> {
        let token: [u8; 20] = std::array::from_fn(|_| fastrand::u8(..));
        let mut claim = redis::cmd("SET");
        claim.arg(key).arg(&token).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        if !claim.query_async::<bool>(&mut self.connection).await? {
            return Ok(false);
        }
        self.release.key(key).arg(&token).invoke_async(&mut self.connection).await
    }
}

impl Locker for Plain {
    async fn cycle(&mut self, key: &str) -> bool {
        self.lock_and_release(key).await.unwrap_or(false)
    }
}

/// `rslock`: the application itself talks to every master.
#[derive(Clone)]
struct Redlock(LockManager);

impl Redlock {
    fn new(deployment: &Deployment) -> Redlock {
        Redlock(LockManager::new(deployment.masters.iter().map(|master| master.url()).collect()))
    }
}

impl Locker for Redlock {
    async fn cycle(&mut self, key: &str) -> bool {
        let Ok(lock) = self.0.lock(key.as_bytes(), TTL).await else { return false };
        self.0.unlock(&lock).await;
        true
    }
}

/// Results of the tasks in one run.
pub(crate) struct Run {
    pub(crate) per_second: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) longest_ms: f64,
    /// CPU time per cycle of the application, which is this process.
    application_us: f64,
    pub(crate) failed: f64,
}

fn run(
    runtime: &Runtime,
    name: &str,
    deployment: &Deployment,
    locker: &impl Locker,
    settings: &Settings,
) -> Result<Run> {
    deployment.flush()?;
    run_as_is(runtime, name, locker, settings.duration())
}

/// Like `run`, without emptying the masters first.
pub(crate) fn run_as_is(
    runtime: &Runtime,
    name: &str,
    locker: &impl Locker,
    duration: Duration,
) -> Result<Run> {
    let cpu_before = own_cpu_time()?;
    let (count, elapsed) = runtime.block_on(share(locker, duration))?;
    let cpu = own_cpu_time()? - cpu_before;
    let cycles = count.latency_us.len() as f64;
    let run = Run {
        per_second: cycles / elapsed.as_secs_f64(),
        p99_ms: count.latency_us.value_at_quantile(0.99) as f64 / 1e3,
        p999_ms: count.latency_us.value_at_quantile(0.999) as f64 / 1e3,
        longest_ms: count.latency_us.max() as f64 / 1e3,
        application_us: cpu.as_secs_f64() * 1e6 / cycles,
        failed: count.failed as f64,
    };
    eprintln!("{name:<40} {:>8.0} cycles/s  p99 {:.2} ms", run.per_second, run.p99_ms);
    Ok(run)
}

/// Lets the tasks share one locker until the time is up.
async fn share(locker: &impl Locker, duration: Duration) -> Result<(Count, Duration)> {
    let start = Instant::now();
    let mut tasks: JoinSet<_> =
        (0..TASKS).map(|task| repeat(locker.clone(), task, start + duration)).collect();
    let mut total = Count::new()?;
    while let Some(count) = tasks.join_next().await {
        total.add(count??)?;
    }
    Ok((total, start.elapsed()))
}

async fn repeat(mut locker: impl Locker, task: usize, deadline: Instant) -> Result<Count> {
    let key = format!("lock:{task}");
    let mut count = Count::new()?;
    while Instant::now() < deadline {
        let start = Instant::now();
        match locker.cycle(&key).await {
            true => count.latency_us.record(start.elapsed().as_micros() as u64)?,
            false => count.failed += 1,
        }
    }
    Ok(count)
}

/// Successful cycles with their latency, and the number of failed ones.
struct Count {
    latency_us: Histogram<u64>,
    failed: u64,
}

impl Count {
    fn new() -> Result<Count> {
        Ok(Count { latency_us: Histogram::new(3)?, failed: 0 })
    }

    fn add(&mut self, other: Count) -> Result<()> {
        self.failed += other.failed;
        Ok(self.latency_us.add(other.latency_us)?)
    }
}

fn row(name: &str, runs: &[Run], library: &[Run]) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.0}", median_of(runs, |run| run.per_second)),
        ratio(runs, library, |run| run.per_second),
        format!("{:.2}", median_of(runs, |run| run.p99_ms)),
        format!("{:.1}", median_of(runs, |run| run.application_us)),
        ratio(runs, library, |run| run.application_us),
        format!("{:.0}", median_of(runs, |run| run.failed)),
    ]
}

const COLUMNS: [&str; 7] = [
    "application uses",
    "cycles/s",
    "of rslock",
    "p99 ms",
    "application CPU µs/cycle",
    "CPU of rslock",
    "failed",
];

const READING: &str = "Each task locks and releases a key of its own. `redis` is one multiplexed connection \
of the redis crate for all tasks (`SET NX PX`, then the release script by `EVALSHA`); `rslock` is one \
`LockManager` for all tasks, on the same three masters that serve the proxy.";

const BASELINE: &str = "redis, one server without the proxy";
const LIBRARY: &str = "rslock, three masters";
const OURS: &str = "redis, redlock-proxy to three masters";

const TASKS: usize = 50;
const TTL: Duration = Duration::from_secs(5);
