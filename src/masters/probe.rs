//! Who a master is, asked before a link to it carries votes. Not hot: the `redis` crate does it.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisConnectionInfo, RedisResult};

use super::dial::{Dial, Stream};
use super::facts::{Facts, Info};
use super::roster::marks::{self, Marks};
use crate::config::{MasterAddr, Secret};
use crate::lua::canonical::Canonical;
use crate::lua::keyspace;
use crate::time::clock;
use crate::time::clocks::Reading;

/// How many databases a Redis has unless configured (`redis.conf`), for masters that hide it.
pub const DEFAULT_DATABASES: u32 = 16;

/// How long a master may take for each answer to a probe.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The connection that the link before this one used, so that nothing it still had on its way is
/// executed later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The master's `run_id` then: client ids start anew with the process.
    pub run_id: String,
    /// The id that `CLIENT ID` gave.
    pub client_id: i64,
}

impl Predecessor {
    /// Ends it, over a connection to the same process; whether it had not ended by itself.
    ///
    /// # Errors
    /// The connection broke, or the server does not allow it.
    pub async fn kill(&self, connection: &mut MultiplexedConnection) -> RedisResult<bool> {
        redis::cmd("CLIENT").arg("KILL").arg("ID").arg(self.client_id).query_async(connection).await
    }
}

/// Why a master could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It cannot be reached.
    #[error("cannot connect: {0}")]
    Unreachable(#[from] std::io::Error),
    /// It does not know the user, or the password is another one.
    #[error(
        "WRONGPASS: it does not take the user and password it is given: correct its URL or what master-user \
         and master-password-file say"
    )]
    WrongPassword,
    /// It refused a command, e.g. for want of a password or while it is loading.
    #[error("{}", in_its_words(.0))]
    Refused(redis::RedisError),
}

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
            _ => Self::Refused(error),
        }
    }
}

/// Asks the master at `address` who it is, gives it our scripts, and cuts `predecessor` off.
///
/// # Errors
/// When it cannot be reached or does not answer as a Redis master does.
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

/// Does `task` over a connection of its own, which ends with it.
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

/// The same, over a `stream` that is there already.
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

/// Logs in with these, as far as there are some.
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

/// What the master says about itself.
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

/// The sections of `INFO` that facts are in.
const SECTIONS: [&str; 6] = ["server", "replication", "cluster", "memory", "stats", "persistence"];

/// What `CONFIG GET` says, nothing where the master refuses to say it. That it has not answered in time means
/// nothing.
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

/// What one look has shown.
pub struct Look {
    /// What the master says about itself.
    pub facts: Facts,
    /// Its clock.
    pub reading: Reading,
    /// What its clock is ahead of ours, in microseconds.
    pub ahead_us: i64,
    /// What it proves its memory by.
    pub marks: Marks,
}

/// One look at a master, of a proxy that is not running.
///
/// # Errors
/// When it cannot be reached or does not answer as a Redis master does.
pub async fn look_once(dial: &impl Dial, address: &MasterAddr) -> Result<Look, ProbeError> {
    connected(dial, address, |mut connection| async move {
        let facts = facts(&mut connection).await?;
        let marks = marks::look(&mut connection, facts.databases).await?;
        let reading = read_clock(&mut connection).await?;
        let ours = clock::unix_micros();
        let took = (reading.answered - reading.asked).as_micros() as i64;
        let ahead_us = reading.unix_micros - (ours - took / 2);
        Ok(Look { facts, reading, ahead_us, marks })
    })
    .await
}

/// Reads its clock, and how long that took.
pub(super) async fn read_clock(connection: &mut MultiplexedConnection) -> RedisResult<Reading> {
    let asked = clock::now();
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(connection).await?;
    Ok(Reading { asked, answered: clock::now(), unix_micros: seconds * 1_000_000 + micros })
}

/// A master that was stopped, or behind a partition, may still have our last requests in its
/// socket. Best effort: it may be gone already, or `CLIENT KILL` not be allowed.
async fn cut_off(connection: &mut MultiplexedConnection, predecessor: &Predecessor) {
    if let Err(error) = predecessor.kill(connection).await {
        tracing::debug!(%error, "the link before this one could not be cut off");
    }
}
