//! A thousand connections compete for one key.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::deployment::Deployment;
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    let deployments =
        [Deployment::direct()?, Deployment::twemproxy()?, Deployment::proxy(&settings.proxy, 3)?];
    let mut fights = deployments.each_ref().map(|_| Vec::new());
    for _ in 0..settings.rounds {
        for (deployment, fights) in deployments.iter().zip(&mut fights) {
            fights.push(fight(deployment, settings.duration())?);
        }
    }
    let mut table = Table::new("1,000 connections fight for one key", READING, &COLUMNS);
    for (deployment, of_one) in deployments.iter().zip(&fights) {
        table.row(row(&deployment.name, of_one, &fights[0], &fights[1]));
    }
    Ok(table)
}

/// Results of one run.
struct Fight {
    claims_per_second: f64,
    grants_per_second: f64,
    errors: f64,
    p99_ms: f64,
    commands_per_claim: f64,
}

fn fight(deployment: &Deployment, duration: Duration) -> Result<Fight> {
    deployment.flush()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let before = commands(deployment)?;
    let (count, elapsed) = runtime.block_on(contend(deployment.port, duration))?;
    let commands = commands(deployment)? - before;
    let fight = count.into_fight(elapsed, commands / deployment.masters.len() as f64);
    eprintln!(
        "{:<28} {:>8.0} claims/s  {:>6.0} granted/s  {:.3} commands per claim and master",
        deployment.name, fight.claims_per_second, fight.grants_per_second, fight.commands_per_claim
    );
    Ok(fight)
}

/// Returns the number of locking commands that reached the masters so far.
fn commands(deployment: &Deployment) -> Result<f64> {
    Ok(deployment.calls(&["set", "eval", "evalsha"])? as f64)
}

/// Opens all connections first, then lets them compete until the time is up.
async fn contend(port: u16, duration: Duration) -> Result<(Count, Duration)> {
    let mut contenders = Vec::new();
    for number in 0..CONTENDERS {
        contenders.push(Contender::connect(port, number).await?);
    }
    let start = Instant::now();
    let mut tasks: JoinSet<_> =
        contenders.into_iter().map(|contender| contender.fight(start + duration)).collect();
    let mut total = Count::new()?;
    while let Some(count) = tasks.join_next().await {
        total.add(count??)?;
    }
    Ok((total, start.elapsed()))
}

/// One connection that claims the key again and again, and releases it as soon as it has it.
struct Contender {
    connection: TcpStream,
    claim: Vec<u8>,
    release: Vec<u8>,
}

impl Contender {
    async fn connect(port: u16, number: usize) -> Result<Contender> {
        let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        connection.set_nodelay(true)?;
        let token = format!("token-{number}");
        let claim = wire::encode(&[b"SET", KEY, token.as_bytes(), b"NX", b"PX", b"100"]);
        let release =
            wire::encode(&[b"EVAL", wire::RELEASE.as_bytes(), b"1", KEY, token.as_bytes()]);
        Ok(Contender { connection, claim, release })
    }

    async fn fight(mut self, deadline: Instant) -> Result<Count> {
        let mut count = Count::new()?;
        while Instant::now() < deadline {
            let sent = Instant::now();
            let answer = ask(&mut self.connection, &self.claim).await?;
            count.latency_us.record(sent.elapsed().as_micros() as u64)?;
            match answer {
                Answer::Refused => {}
                Answer::Error => count.errors += 1,
                Answer::Yes => {
                    count.granted += 1;
                    ask(&mut self.connection, &self.release).await?;
                }
            }
        }
        Ok(count)
    }
}

/// Answers to one contender or to all of them.
struct Count {
    granted: u64,
    errors: u64,
    latency_us: Histogram<u64>,
}

impl Count {
    fn new() -> Result<Count> {
        Ok(Count { granted: 0, errors: 0, latency_us: Histogram::new(3)? })
    }

    fn add(&mut self, other: Count) -> Result<()> {
        self.granted += other.granted;
        self.errors += other.errors;
        Ok(self.latency_us.add(other.latency_us)?)
    }

    fn into_fight(self, elapsed: Duration, commands: f64) -> Fight {
        let claims = self.latency_us.len() as f64;
        Fight {
            claims_per_second: claims / elapsed.as_secs_f64(),
            grants_per_second: self.granted as f64 / elapsed.as_secs_f64(),
            errors: self.errors as f64,
            p99_ms: self.latency_us.value_at_quantile(0.99) as f64 / 1e3,
            commands_per_claim: commands / claims,
        }
    }
}

/// Replies to a claim or a release, reduced to what matters here.
pub(crate) enum Answer {
    Yes,
    Refused,
    Error,
}

pub(crate) async fn ask(connection: &mut TcpStream, request: &[u8]) -> Result<Answer> {
    connection.write_all(request).await?;
    let mut reply = [0; 256];
    let mut length = 0;
    while !reply[..length].ends_with(b"\r\n") {
        match connection.read(&mut reply[length..]).await? {
            0 => bail!("the connection was closed, or its reply is longer than expected"),
            count => length += count,
        }
    }
    match &reply[..length] {
        b"+OK\r\n" | b":1\r\n" => Ok(Answer::Yes),
        b"$-1\r\n" | b":0\r\n" => Ok(Answer::Refused),
        [b'-', ..] => Ok(Answer::Error),
        other => bail!("unexpected reply: {}", String::from_utf8_lossy(other)),
    }
}

fn row(name: &str, fights: &[Fight], direct: &[Fight], twemproxy: &[Fight]) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.0}", median_of(fights, |fight| fight.claims_per_second)),
        ratio(fights, direct, |fight| fight.claims_per_second),
        ratio(fights, twemproxy, |fight| fight.claims_per_second),
        format!("{:.0}", median_of(fights, |fight| fight.grants_per_second)),
        format!("{:.2}", median_of(fights, |fight| fight.p99_ms)),
        format!("{:.3}", median_of(fights, |fight| fight.commands_per_claim)),
        format!("{:.0}", median_of(fights, |fight| fight.errors)),
    ]
}

const COLUMNS: [&str; 8] = [
    "clients talk to",
    "claims answered/s",
    "of redis-server",
    "of twemproxy",
    "granted/s",
    "p99 ms",
    "commands per claim and master",
    "errors",
];

const READING: &str = "Every connection claims the key (`SET hot token NX PX 100`) in a loop, and a winner \
releases it at once by the script of the Redlock text. Commands are the `SET`, `EVAL` and `EVALSHA` that \
reached the masters, releases included. The client is part of the load: one thread.";

const CONTENDERS: usize = 1_000;
const KEY: &[u8] = b"hot";
