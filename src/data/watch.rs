//! A probe of the data Redis every second, over a connection of its own.
//!
//! It notices a failure before a client needs the data Redis. The same tasks ask its sentinels, if it has some, and
//! report what its [traffic](super::advice) shows.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::connection::Lost;
use super::upstream::{Dialled, Upstream};
use super::whereabouts::{Tenure, Whereabouts};
use crate::catalogue::reserved::MARK;
use crate::masters::probe::{ProbeError, over};

/// Interval between probes.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Reason why a Redis that has the mark is no data Redis.
pub const HAS_MARK: &str =
    "it has the mark of a master, and locks are never data: give --data a Redis of its own";

/// Probes the data Redis and asks its sentinels, for ever. Locks go on whatever the result is.
pub async fn watch(upstream: Upstream) {
    let onlooker = Onlooker { upstream: upstream.clone(), locks_go_on: true };
    tokio::join!(onlooker.look_for_ever(), follow(upstream.clone()), advise(&upstream));
}

/// Asks its sentinels for ever, if it has some.
pub async fn follow(upstream: Upstream) {
    if let Some(inquiry) = upstream.inquiry() {
        inquiry.go_on().await;
    }
}

/// Logs what the traffic says about the patterns, whether the data Redis is there or not.
async fn advise(upstream: &Upstream) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for advice in upstream.notes().tick() {
            tracing::warn!("{advice}");
        }
    }
}

/// Probe of the data Redis, once a second.
pub struct Onlooker {
    /// The way to the data Redis.
    pub upstream: Upstream,
    /// Whether some clients are served while it cannot be used. This only affects the log.
    pub locks_go_on: bool,
}

impl Onlooker {
    /// Probes for ever.
    pub async fn look_for_ever(&self) {
        loop {
            if let Err(error) = self.look_again_and_again().await {
                self.see(Some(error.to_string()));
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    /// Probes until it fails. Returns `Ok` when sentinels name another master, which is to be probed then.
    async fn look_again_and_again(&self) -> Result<(), ProbeError> {
        let Dialled { stream, tenure } = self.upstream.dial().await?;
        let (login, is_let_in) = (self.upstream.login(), &Cell::new(false));
        let looking = over(stream, &login, |mut connection| async move {
            is_let_in.set(true);
            connection.set_response_timeout(ANSWER_TIMEOUT);
            match (self.upstream.whereabouts(), tenure) {
                (Some(whereabouts), Some(tenure)) => {
                    self.look_at_master(whereabouts, tenure, &mut connection).await
                }
                _ => loop {
                    self.see(look(&mut connection).await?);
                    tokio::time::sleep(INTERVAL).await;
                },
            }
        });
        tokio::select! {
            biased;
            done = looking => done,
            () = still_waiting(is_let_in) => Err(io::Error::from(ErrorKind::TimedOut).into()),
        }
    }

    /// Probes a master that sentinels have named: it may be replaced, or stop being a master.
    async fn look_at_master(
        &self,
        whereabouts: &Whereabouts,
        mut tenure: Tenure,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), ProbeError> {
        loop {
            let looking = async {
                let trouble = look(connection).await?;
                Ok::<_, ProbeError>((trouble, is_replica(connection).await?))
            };
            let (trouble, is_replica) = tokio::select! {
                biased;
                () = tenure.ended() => return Ok(()),
                looked = looking => looked?,
            };
            if is_replica {
                // Before the state is published: by then no connection must write there any more.
                whereabouts.end(&tenure);
                self.see(Some(Lost::Replica.to_string()));
                tokio::time::sleep(INTERVAL).await;
                return Ok(());
            }
            self.see(trouble.or_else(|| whereabouts.silence()));
            let _ = tokio::time::timeout(INTERVAL, tenure.ended()).await;
        }
    }

    fn see(&self, trouble: Option<String>) {
        let upstream = &self.upstream;
        if !upstream.health().see(trouble.clone()) {
            return;
        }
        let named = || upstream.settings().address.to_string();
        let data = upstream.address().unwrap_or_else(named);
        match trouble {
            None => tracing::info!(%data, "the data Redis is up"),
            Some(why) if self.locks_go_on => {
                tracing::warn!(%data, "the data Redis is unavailable, locks still work: {why}")
            }
            Some(why) => {
                tracing::warn!(%data, "the data Redis is unavailable, clients are rejected: {why}")
            }
        }
    }
}

/// Resolves if no answer came in time. A Redis that hangs still accepts connections: its operating system does.
async fn still_waiting(is_let_in: &Cell<bool>) {
    tokio::time::sleep(ANSWER_TIMEOUT).await;
    if is_let_in.get() {
        std::future::pending::<()>().await;
    }
}

/// Whether the data Redis is a replica. If it refuses this connection's login it does not say so here, but it tells the
/// connections of clients.
async fn is_replica(connection: &mut MultiplexedConnection) -> Result<bool, ProbeError> {
    let mut hello = redis::cmd("HELLO");
    let said = hello.arg(2).query_async::<HashMap<String, redis::Value>>(connection).await;
    match said {
        Ok(fields) => Ok(fields.get("role") != Some(&redis::Value::BulkString(b"master".to_vec()))),
        Err(error) if error.code().is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the problem with the data Redis, if any. Errors for this connection's user prove nothing: clients may log in
/// as other users.
async fn look(connection: &mut MultiplexedConnection) -> Result<Option<String>, ProbeError> {
    let has_mark = redis::cmd("EXISTS").arg(MARK).query_async::<bool>(connection).await;
    match has_mark {
        Ok(true) => Ok(Some(HAS_MARK.to_owned())),
        Ok(false) => Ok(None),
        Err(error) if error.code().is_some_and(|code| code != "LOADING") => Ok(None),
        Err(error) => Err(error.into()),
    }
}
