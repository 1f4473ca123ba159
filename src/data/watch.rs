//! Looking after the data Redis once a second, over a connection of its own, so that it is known when it has gone before
//! anybody needs it, asking its sentinels, if it has some, and telling what its [traffic](super::advice) says.

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

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long it may take for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a Redis is no data Redis.
pub const HAS_MARK: &str =
    "it has the mark of a master, and locks are never data: give --data a Redis of its own";

/// Looks after it for ever, and asks its sentinels, while locks go on whatever becomes of it.
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

/// Tells what the traffic says of the patterns, whether the data Redis is there or not.
async fn advise(upstream: &Upstream) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        for advice in upstream.notes().tick() {
            tracing::warn!("{advice}");
        }
    }
}

/// Who looks at it once a second.
pub struct Onlooker {
    /// The way there.
    pub upstream: Upstream,
    /// While it cannot be used clients are not all turned away. That is only for the log.
    pub locks_go_on: bool,
}

impl Onlooker {
    /// Looks for ever.
    pub async fn look_for_ever(&self) {
        loop {
            if let Err(error) = self.look_again_and_again().await {
                self.see(Some(error.to_string()));
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    /// Ends well when sentinels name another one, which is to be looked at then.
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

    /// The same of one that sentinels have named: it may be replaced, or be a master no longer.
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
                // Before it is told: nobody writes there any more once it is.
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
                tracing::warn!(%data, "the data Redis cannot be used, locks go on without it: {why}")
            }
            Some(why) => {
                tracing::warn!(%data, "the data Redis cannot be used, clients are turned away: {why}")
            }
        }
    }
}

/// Resolves if nothing was answered in time. One that hangs is connected to all the same: its system does that.
async fn still_waiting(is_let_in: &Cell<bool>) {
    tokio::time::sleep(ANSWER_TIMEOUT).await;
    if is_let_in.get() {
        std::future::pending::<()>().await;
    }
}

/// Whether it follows another one. One that does not let this connection in does not say that, but it says it to the
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
