//! Who a master is, asked before a link to it carries votes. Not hot: the `redis` crate does it.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisConnectionInfo, RedisResult};

use super::dial::{Dial, Stream as _};
use crate::config::MasterAddr;
use crate::lua::canonical::Canonical;

/// How many databases a Redis has unless configured (`redis.conf`), for masters that hide it.
pub const DEFAULT_DATABASES: u32 = 16;

/// How long a master may take for each answer to a probe.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// What a master says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `run_id`: another one means that the process was restarted.
    pub run_id: String,
    /// `redis_version`
    pub version: String,
    /// How many databases it has.
    pub databases: u32,
}

/// The connection that the link before this one used, so that nothing it still had on its way is
/// executed later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The master's `run_id` then: client ids start anew with the process.
    pub run_id: String,
    /// The id that `CLIENT ID` gave.
    pub client_id: i64,
}

/// Why a master could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It cannot be reached.
    #[error("cannot connect: {0}")]
    Unreachable(#[from] std::io::Error),
    /// It refused a command, e.g. for want of a password or while it is loading.
    #[error("{0}")]
    Refused(#[from] redis::RedisError),
}

/// Asks the master at `address` who it is, gives it our scripts, and cuts `predecessor` off.
///
/// # Errors
/// When it cannot be reached or does not answer as a Redis master does.
pub async fn probe(
    dial: &impl Dial,
    address: &MasterAddr,
    predecessor: Option<&Predecessor>,
) -> Result<Identity, ProbeError> {
    let stream = dial.dial(address).await?;
    stream.abort_on_close();
    let info = connection_info(address);
    let (mut connection, driver) = MultiplexedConnection::new(&info, stream).await?;
    connection.set_response_timeout(ANSWER_TIMEOUT);
    tokio::select! {
        identity = interview(&mut connection, predecessor) => Ok(identity?),
        () = driver => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
    }
}

pub(super) fn connection_info(address: &MasterAddr) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default();
    if let Some(user) = &address.user {
        info = info.set_username(user);
    }
    if let Some(password) = &address.password {
        info = info.set_password(password.expose());
    }
    info
}

async fn interview(
    connection: &mut MultiplexedConnection,
    predecessor: Option<&Predecessor>,
) -> RedisResult<Identity> {
    let info: String = redis::cmd("INFO").arg("server").query_async(connection).await?;
    let field = |name: &str| field(&info, name).unwrap_or_default().to_owned();
    let (run_id, version) = (field("run_id"), field("redis_version"));
    if let Some(predecessor) = predecessor.filter(|p| p.run_id == run_id) {
        cut_off(connection, predecessor).await;
    }
    let databases = databases(connection).await;
    for script in Canonical::ALL {
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(script.text()).to_owned();
        load.query_async::<()>(connection).await?;
    }
    Ok(Identity { run_id, version, databases })
}

/// The value of `name` in an `INFO` text.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// A master that was stopped, or behind a partition, may still have our last requests in its
/// socket. Best effort: it may be gone already, or `CLIENT KILL` not be allowed.
async fn cut_off(connection: &mut MultiplexedConnection, predecessor: &Predecessor) {
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("ID").arg(predecessor.client_id);
    if let Err(error) = kill.query_async::<i64>(connection).await {
        tracing::debug!(%error, "the link before this one could not be cut off");
    }
}

async fn databases(connection: &mut MultiplexedConnection) -> u32 {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("databases");
    let found: RedisResult<HashMap<String, String>> = get.query_async(connection).await;
    let databases = found.ok().and_then(|found| found.get("databases")?.parse().ok());
    databases.unwrap_or(DEFAULT_DATABASES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nrun_id_x:no\r\n";
        assert_eq!(field(info, "run_id"), Some("abc"));
        assert_eq!(field(info, "redis_version"), Some("7.0.15"));
        assert_eq!(field(info, "redis"), None);
    }
}
