//! A hundred clients poll for one key: the spread of their waiting times.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::contention::{Answer, ask};
use crate::deployment::Deployment;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let heading = format!("{CLIENTS} clients poll for one key");
    let mut table = Table::new(&heading, READING, &COLUMNS);
    let deployments = candidates(settings)?;
    for rest in RESTS {
        let mut crowds = deployments.each_ref().map(|_| Vec::new());
        for _ in 0..settings.rounds {
            for (deployment, crowds) in deployments.iter().zip(&mut crowds) {
                crowds.push(crowd(deployment, rest, settings.duration())?);
            }
        }
        for (deployment, of_one) in deployments.iter().zip(&crowds) {
            table.row(row(&deployment.name, rest, of_one, &crowds[0]));
        }
    }
    Ok(table)
}

fn candidates(settings: &Settings) -> Result<[Deployment; 3]> {
    let fair = Deployment::proxy(&settings.proxy, 3)?;
    let mut unfair = Deployment::proxy_with(&settings.proxy, 3, &["--fair-waiting", "0s"])?;
    unfair.name.push_str(", --fair-waiting 0s");
    Ok([Deployment::direct()?, fair, unfair])
}

/// Results of one run.
struct Crowd {
    grants_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    longest_ms: f64,
}

fn crowd(deployment: &Deployment, rest: Duration, duration: Duration) -> Result<Crowd> {
    deployment.flush()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Waits { in_time, us } = runtime.block_on(poll_together(deployment.port, rest, duration))?;
    let ms = |micros: u64| micros as f64 / 1e3;
    let crowd = Crowd {
        grants_per_second: in_time as f64 / duration.as_secs_f64(),
        p50_ms: ms(us.value_at_quantile(0.5)),
        p99_ms: ms(us.value_at_quantile(0.99)),
        longest_ms: ms(us.max()),
    };
    eprintln!(
        "{:<46} rest {rest:>4?}  {:>5.0} granted/s  p50 {:>6.1} ms  p99 {:>6.1} ms  longest {:>6.1} ms",
        deployment.name, crowd.grants_per_second, crowd.p50_ms, crowd.p99_ms, crowd.longest_ms
    );
    Ok(crowd)
}

/// Waiting times of one client, or of all.
struct Waits {
    /// Grants before the time was up.
    in_time: u64,
    us: Histogram<u64>,
}

impl Waits {
    fn new() -> Result<Waits> {
        Ok(Waits { in_time: 0, us: Histogram::new(3)? })
    }

    fn add(&mut self, other: Waits) -> Result<()> {
        self.in_time += other.in_time;
        Ok(self.us.add(other.us)?)
    }
}

/// Opens all connections first, then lets the clients poll until the time is up.
async fn poll_together(port: u16, rest: Duration, duration: Duration) -> Result<Waits> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        connection.set_nodelay(true)?;
        clients.push(Client { connection, rest, waits: Waits::new()? });
    }
    let deadline = Instant::now() + duration;
    let mut tasks: JoinSet<_> = clients.into_iter().map(|client| client.poll(deadline)).collect();
    let mut all = Waits::new()?;
    while let Some(waits) = tasks.join_next().await {
        all.add(waits??)?;
    }
    Ok(all)
}

/// One connection that asks for the key again and again, as lock libraries do.
struct Client {
    connection: TcpStream,
    /// Longest pause between two rounds.
    rest: Duration,
    waits: Waits,
}

impl Client {
    /// Starts no round after the deadline, but ends the one that is under way: a wait that is cut short would be none.
    async fn poll(mut self, deadline: Instant) -> Result<Waits> {
        // They do not begin in step.
        sleep(PAUSE.mul_f64(fastrand::f64())).await;
        while Instant::now() < deadline {
            let (token, began) = (format!("{:032x}", fastrand::u128(..)), Instant::now());
            self.acquire(&token).await?;
            self.waits.us.record(began.elapsed().as_micros() as u64)?;
            self.waits.in_time += u64::from(Instant::now() < deadline);
            sleep(HELD).await;
            self.release(&token).await?;
            if !self.rest.is_zero() {
                sleep(self.rest.mul_f64(fastrand::f64())).await;
            }
        }
        Ok(self.waits)
    }

    async fn acquire(&mut self, token: &str) -> Result<()> {
        let claim = wire::encode(&[b"SET", KEY, token.as_bytes(), b"NX", b"PX", b"10000"]);
        loop {
            match ask(&mut self.connection, &claim).await? {
                Answer::Yes => return Ok(()),
                Answer::Refused => sleep(PAUSE).await,
                Answer::Error => bail!("a claim was answered with an error"),
            }
        }
    }

    async fn release(&mut self, token: &str) -> Result<()> {
        let release = [b"EVAL", wire::RELEASE.as_bytes(), b"1", KEY, token.as_bytes()];
        match ask(&mut self.connection, &wire::encode(&release)).await? {
            Answer::Yes => Ok(()),
            Answer::Refused | Answer::Error => bail!("a lock could not be released"),
        }
    }
}

fn row(name: &str, rest: Duration, crowds: &[Crowd], direct: &[Crowd]) -> Vec<String> {
    let ms = |figure: fn(&Crowd) -> f64| format!("{:.1}", median_of(crowds, figure));
    vec![
        name.to_owned(),
        format!("{} ms", rest.as_millis()),
        format!("{:.0}", median_of(crowds, |crowd| crowd.grants_per_second)),
        ratio(crowds, direct, |crowd| crowd.grants_per_second),
        ms(|crowd| crowd.p50_ms),
        ratio(crowds, direct, |crowd| crowd.p50_ms),
        ms(|crowd| crowd.p99_ms),
        ratio(crowds, direct, |crowd| crowd.p99_ms),
        ms(|crowd| crowd.longest_ms),
        ratio(crowds, direct, |crowd| crowd.longest_ms),
    ]
}

const COLUMNS: [&str; 10] = [
    "clients talk to",
    "longest rest",
    "granted/s",
    "of redis-server",
    "p50 ms",
    "p50 of redis-server",
    "p99 ms",
    "p99 of redis-server",
    "longest ms",
    "longest of redis-server",
];

const READING: &str = "A client claims the key (`SET hot token NX PX 10000`, with a new token for each round), sleeps \
20 ms after a refusal, holds it for 1 ms, releases it by the script of the Redlock text, and starts the next round after \
a random rest of at most that long. The waiting time of a round is that from its first claim to its grant. No round \
starts after the time is up, but all are ended: the longest is that of a client that got the key only when others had \
left. Without a rest, a client that has released the key is mostly the first to ask for it, and with `redis-server` it \
gets it again and again: hence a p50 of nothing. All clients are one thread.";

const CLIENTS: usize = 100;
const KEY: &[u8] = b"hot";
const PAUSE: Duration = Duration::from_millis(20);
/// Without a rest, clients that have had the key compete with those that poll for it by being faster.
const RESTS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(40)];
const HELD: Duration = Duration::from_millis(1);
