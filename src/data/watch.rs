//! Looking after the data Redis once a second, over a connection of its own, so that it is known when it has gone before
//! anybody needs it.

use std::io::ErrorKind;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::connection::CONNECT_TIMEOUT;
use super::upstream::Upstream;
use crate::master::probe::{ProbeError, over};
use crate::reserved::MARK;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long it may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a Redis is no data Redis.
pub const HAS_MARK: &str =
    "it has the mark of a master, and locks are never data: give --data a Redis of its own";

/// Looks after it for ever.
pub async fn watch(upstream: Upstream) {
    loop {
        let Err(error) = look_again_and_again(&upstream).await;
        see(&upstream, Some(error.to_string()));
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn look_again_and_again(upstream: &Upstream) -> Result<std::convert::Infallible, ProbeError> {
    let dialled = tokio::time::timeout(CONNECT_TIMEOUT, upstream.dial()).await;
    let stream = dialled.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
    over(stream, &upstream.login(), |mut connection| async move {
        connection.set_response_timeout(ANSWER_TIMEOUT);
        loop {
            see(upstream, look(&mut connection).await?);
            tokio::time::sleep(INTERVAL).await;
        }
    })
    .await
}

/// What is wrong with it. Clients log in as somebody else perhaps, so what it refuses to this connection says nothing.
async fn look(connection: &mut MultiplexedConnection) -> Result<Option<String>, ProbeError> {
    let has_mark = redis::cmd("EXISTS").arg(MARK).query_async::<bool>(connection).await;
    match has_mark {
        Ok(true) => Ok(Some(HAS_MARK.to_owned())),
        Ok(false) => Ok(None),
        Err(error) if error.code().is_some_and(|code| code != "LOADING") => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn see(upstream: &Upstream, trouble: Option<String>) {
    if !upstream.health().see(trouble.clone()) {
        return;
    }
    let data = &upstream.settings().address;
    match trouble {
        None => tracing::info!(%data, "the data Redis is up"),
        Some(why) => {
            tracing::warn!(%data, "the data Redis cannot be used, locks go on without it: {why}")
        }
    }
}
