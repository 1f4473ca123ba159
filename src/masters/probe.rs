//! Checks a master's identity before a link to it carries votes. Not a hot path, so it uses the `redis` crate.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisConnectionInfo, RedisResult};

use super::dial::{Dial, Stream};
use super::facts::{Bar, Facts, Info};
use super::roster::marks::{self, Marks};
use crate::config::{MasterAddr, Secret};
use crate::lua::canonical::Canonical;
use crate::lua::keyspace;
use crate::time::clock;
use crate::time::clocks::ClockReading;

/// Redis's default number of databases (`redis.conf`), assumed for masters that hide the setting.
pub const DEFAULT_DATABASES: u32 = 16;

/// Time limit for each answer to a probe.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Connection of the previous link, which is killed so that none of its outstanding requests run later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The master's `run_id` at the time. Client ids start over with each process.
    pub run_id: String,
    /// Id returned by `CLIENT ID`.
    pub client_id: i64,
}

impl Predecessor {
    /// Kills the connection from another one to the same process. Returns whether it was still open.
    ///
    /// # Errors
    /// Returns an error if the connection breaks or the server forbids the command.
    pub async fn kill(&self, connection: &mut MultiplexedConnection) -> RedisResult<bool> {
        redis::cmd("CLIENT").arg("KILL").arg("ID").arg(self.client_id).query_async(connection).await
    }
}

/// Reason why a master could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The master cannot be reached.
    #[error("cannot connect: {0}")]
    Unreachable(#[from] std::io::Error),
    /// The master does not know the user, or the password is wrong.
    #[error(
        "WRONGPASS: it rejects the configured user and password: correct its URL, or master-user and master-password-file"
    )]
    WrongPassword,
    /// Another kind of server answers there.
    #[error("it does not speak Redis's protocol: another server listens there")]
    NotRedis,
    /// The master refused a command, e.g. because it requires a password or is loading.
    #[error("{}", in_its_words(.0))]
    Refused(redis::RedisError),
}

impl ProbeError {
    /// Whether something answers at the address that will not vote until the address, the login or the server is
    /// corrected. Everything else may pass: a master that is down, loading or busy.
    pub fn is_lasting(&self) -> bool {
        match self {
            // What rustls returns for a certificate that it rejects, and for a server without TLS.
            Self::Unreachable(why) => why.kind() == std::io::ErrorKind::InvalidData,
            Self::WrongPassword | Self::NotRedis => true,
            Self::Refused(error) => error.code().is_some_and(|code| LASTING.contains(&code)),
        }
    }
}

/// Error codes of a master that refuses the proxy's user, or all remote clients (`protected-mode`).
const LASTING: [&str; 3] = ["NOAUTH", "NOPERM", "DENIED"];

fn in_its_words(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

impl From<redis::RedisError> for ProbeError {
    fn from(error: redis::RedisError) -> Self {
        match error.kind() {
            redis::ErrorKind::AuthenticationFailed => Self::WrongPassword,
            redis::ErrorKind::Parse => Self::NotRedis,
            _ => Self::Refused(error),
        }
    }
}

/// Asks the master at `address` for its identity, loads our scripts into it, and kills `predecessor`.
///
/// # Errors
/// Returns an error if the master cannot be reached or does not answer like a Redis master.
pub async fn probe(
    dial: &impl Dial,
    address: &MasterAddr,
    predecessor: Option<&Predecessor>,
) -> Result<Facts, ProbeError> {
    connected(dial, address, |mut connection| async move {
        connection.set_response_timeout(ANSWER_TIMEOUT);
        Ok(interview(&mut connection, predecessor).await?)
    })
    .await
}

/// Runs `task` on a separate connection, which closes when the task ends.
pub(super) async fn connected<T, F>(
    dial: &impl Dial,
    address: &MasterAddr,
    task: impl FnOnce(MultiplexedConnection) -> F,
) -> Result<T, ProbeError>
where
    F: Future<Output = Result<T, ProbeError>>,
{
    let stream = dial.dial(address).await?;
    over(stream, &connection_info(address), task).await
}

/// Runs `task` like [`connected`], on an open `stream`.
pub(crate) async fn over<T, F>(
    stream: impl Stream,
    info: &RedisConnectionInfo,
    task: impl FnOnce(MultiplexedConnection) -> F,
) -> Result<T, ProbeError>
where
    F: Future<Output = Result<T, ProbeError>>,
{
    stream.abort_on_close();
    let (connection, driver) = MultiplexedConnection::new(info, stream).await?;
    tokio::select! {
        biased;
        done = task(connection) => done,
        () = driver => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
    }
}

pub(super) fn connection_info(address: &MasterAddr) -> RedisConnectionInfo {
    login(address.user.as_deref(), address.password.as_ref())
}

/// Builds the login from a user and a password, each if present.
pub(crate) fn login(user: Option<&str>, password: Option<&Secret>) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default();
    if let Some(user) = user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password.expose());
    }
    info
}

async fn interview(
    connection: &mut MultiplexedConnection,
    predecessor: Option<&Predecessor>,
) -> RedisResult<Facts> {
    let facts = facts(connection).await?;
    if let Some(predecessor) = predecessor.filter(|p| p.run_id == facts.run_id) {
        cut_off(connection, predecessor).await;
    }
    let of_registers = keyspace::all().into_iter().map(|script| &*script.text);
    for text in Canonical::ALL.map(Canonical::text).into_iter().chain(of_registers) {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(text).to_owned();
        load.query_async::<()>(connection).await?;
    }
    Ok(facts)
}

/// Asks the master for its description of itself.
pub(super) async fn facts(connection: &mut MultiplexedConnection) -> RedisResult<Facts> {
    let at = clock::now();
    let mut other = connection.clone();
    let mut info = redis::cmd("INFO");
    info.arg(&SECTIONS);
    let (info, config) =
        tokio::try_join!(info.query_async::<String>(connection), config(&mut other))?;
    let info = Info::parse(&info);
    let text = |name| info.get(name).unwrap_or_default().to_owned();
    Ok(Facts {
        run_id: text("run_id"),
        version: text("redis_version"),
        role: text("role"),
        persistence: persistence(&info, &config),
        eviction: text("maxmemory_policy"),
        databases: config
            .get("databases")
            .and_then(|number| number.parse().ok())
            .unwrap_or(DEFAULT_DATABASES),
        uptime: Duration::from_secs(info.number("uptime_in_seconds").unwrap_or(0)),
        bar: info.bar(),
        replid: text("master_replid"),
        replid_before: text("master_replid2"),
        evicted: info.number("evicted_keys").unwrap_or(0),
        at,
    })
}

/// `INFO` sections that contain the facts.
const SECTIONS: [&str; 6] = ["server", "replication", "cluster", "memory", "stats", "persistence"];

/// Returns the answer to `CONFIG GET`, or nothing if the master refuses the command. A timeout is an error, not a
/// refusal.
async fn config(connection: &mut MultiplexedConnection) -> RedisResult<HashMap<String, String>> {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("databases").arg("appendfsync").arg("save");
    match get.query_async(connection).await {
        Err(error) if error.code().is_some() => Ok(HashMap::new()),
        answer => answer,
    }
}

fn persistence(info: &Info<'_>, config: &HashMap<String, String>) -> String {
    let has_snapshots = config.get("save").is_some_and(|save| !save.is_empty());
    match (info.get("aof_enabled"), config.get("appendfsync")) {
        (Some("1"), Some(when)) => format!("appendfsync {when}"),
        (Some("1"), None) => "appendonly".to_owned(),
        _ if has_snapshots => "snapshots".to_owned(),
        _ => "none".to_owned(),
    }
}

/// Result of a one-off probe.
pub struct ProbeReport {
    /// The master's description of itself.
    pub facts: Facts,
    /// Reading of the master's clock.
    pub reading: ClockReading,
    /// Lead of the master's clock over ours, in microseconds.
    pub ahead_us: i64,
    /// Marks that prove the master's memory.
    pub marks: Marks,
    /// Number of keys in all databases; 0 for what cannot be a master.
    pub keys: u64,
}

/// Probes a master once, for use outside a running proxy.
///
/// # Errors
/// Returns an error if the master cannot be reached or does not answer like a Redis master.
pub async fn look_once(dial: &impl Dial, address: &MasterAddr) -> Result<ProbeReport, ProbeError> {
    connected(dial, address, |mut connection| async move {
        let facts = facts(&mut connection).await?;
        // These let nobody read the marks, with errors that say less than the reason for which they cannot be used. A
        // proxy cannot count keys without its masters.
        let (marks, keys) = match facts.bar {
            Some(Bar::ClusterNode | Bar::Proxy) => (Marks::default(), 0),
            _ => {
                let marks = marks::look(&mut connection, facts.databases).await?;
                (marks, count_keys(&mut connection).await?)
            }
        };
        let reading = read_clock(&mut connection).await?;
        let ours = clock::unix_micros();
        let took = (reading.answered - reading.asked).as_micros() as i64;
        let ahead_us = reading.unix_micros - (ours - took / 2);
        Ok(ProbeReport { facts, reading, ahead_us, marks, keys })
    })
    .await
}

/// Reads the master's clock and times the exchange.
pub(super) async fn read_clock(
    connection: &mut MultiplexedConnection,
) -> RedisResult<ClockReading> {
    let asked = clock::now();
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await?;
    Ok(ClockReading { asked, answered: clock::now(), unix_micros: seconds * 1_000_000 + micros })
}

/// Counts the keys in all databases.
async fn count_keys(connection: &mut MultiplexedConnection) -> RedisResult<u64> {
    let info: String = redis::cmd("INFO").arg("keyspace").query_async(connection).await?;
    Ok(keys_in(&info))
}

/// Returns the sum of the keys in an `INFO keyspace`: `db0:keys=2,expires=1,avg_ttl=0`.
fn keys_in(info: &str) -> u64 {
    let keys = |line: &str| line.split_once(":keys=")?.1.split(',').next()?.parse::<u64>().ok();
    info.lines().filter_map(keys).sum()
}

/// Kills the previous link. A master that was stopped or partitioned may still have our last requests in its socket.
/// Best effort: the connection may be gone already, or `CLIENT KILL` may be forbidden.
async fn cut_off(connection: &mut MultiplexedConnection, predecessor: &Predecessor) {
    if let Err(error) = predecessor.kill(connection).await {
        tracing::debug!(%error, "could not kill the previous link");
    }
}
