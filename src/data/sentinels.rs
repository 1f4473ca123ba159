//! Asking sentinels, for ever, where the data Redis is.
//!
//! As in the [guidelines for clients], sentinels are asked one after the other until one answers, and that one is asked
//! from then on. No address is trusted before the Redis there says that it is a master.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{
    AsyncConnectionConfig, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo,
    RedisError, RedisResult,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::whereabouts::{SentinelTold, Whereabouts};
use crate::config::{MasterAddr, SentinelAddr};
use crate::masters::dial::{Dial as _, Network, Stream as _};
use crate::masters::probe::login;

/// Interval between questions to the sentinel that answers: its published messages may get lost.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time that a sentinel may take to accept a connection, and for each answer. There are others to ask.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Channel to which a sentinel publishes when a fail-over is done.
const SWITCHED: &str = "+switch-master";

/// Client of the sentinels.
pub struct Inquiry<'a> {
    /// Sentinels to ask, and the name of the master.
    pub address: &'a SentinelAddr,
    /// Network over which to reach them.
    pub network: &'a Network,
    /// Where the answers go.
    pub whereabouts: &'a Whereabouts,
}

/// Error when no sentinel answers.
#[derive(Debug, thiserror::Error)]
#[error("no sentinel knows the address of {name} ({reasons})")]
struct Silence<'a> {
    name: &'a str,
    reasons: String,
}

/// Reason why a sentinel is of no help.
#[derive(Debug, thiserror::Error)]
enum NoHelp {
    #[error("{0}")]
    Unreachable(#[from] io::Error),
    #[error("it does not answer in time")]
    Slow(#[from] tokio::time::error::Elapsed),
    #[error("its password differs: name the file that holds it with --data-sentinel-password-file")]
    NotLetIn,
    #[error("{0}")]
    Refused(RedisError),
    #[error(
        "it knows no master of that name: correct --data, or `sentinel monitor` in its sentinel.conf"
    )]
    NoSuchMaster,
    #[error("it has not heard of the last fail-over yet")]
    Outdated,
}

impl From<RedisError> for NoHelp {
    fn from(error: RedisError) -> Self {
        let is_not_let_in = matches!(error.code(), Some("NOAUTH" | "WRONGPASS"));
        match is_not_let_in || error.kind() == ErrorKind::AuthenticationFailed {
            true => Self::NotLetIn,
            false => Self::Refused(error),
        }
    }
}

impl Inquiry<'_> {
    /// Asks for ever. A sentinel that answers is asked again; one that fails moves to the end of the queue.
    pub async fn go_on(&self) -> Infallible {
        let mut sentinels: VecDeque<&MasterAddr> = self.address.sentinels.iter().collect();
        let mut reasons = Vec::new();
        loop {
            let sentinel = sentinels[0];
            let mut has_told = false;
            let Err(why) = self.ask_again_and_again(sentinel, &mut has_told).await;
            tracing::debug!(%sentinel, "a sentinel does not report the address of the data Redis: {why}");
            if has_told {
                reasons.clear();
            }
            reasons.push(format!("{sentinel}: {why}"));
            sentinels.rotate_left(1);
            if reasons.len() >= sentinels.len() {
                let reasons = std::mem::take(&mut reasons).join("; ");
                let silence = Silence { name: &self.address.name, reasons };
                self.whereabouts.keep_silent(silence.to_string());
                tokio::time::sleep(INTERVAL).await;
            }
        }
    }

    async fn ask_again_and_again(
        &self,
        sentinel: &MasterAddr,
        has_told: &mut bool,
    ) -> Result<Infallible, NoHelp> {
        let stream = timeout(ANSWER_TIMEOUT, self.network.dial(sentinel)).await??;
        stream.abort_on_close();
        let has_switched = Arc::new(Notify::new());
        let config = notifying(&has_switched).set_response_timeout(Some(ANSWER_TIMEOUT));
        let info = self.login();
        let opening = MultiplexedConnection::new_with_config(&info, stream, config);
        // The timeout in `config` does not cover the handshake.
        let opening = timeout(ANSWER_TIMEOUT, opening);
        let (connection, driver) = opening.await??;
        tokio::select! {
            biased;
            failed = self.ask(connection, &has_switched, has_told) => failed,
            () = driver => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
    }

    async fn ask(
        &self,
        mut connection: MultiplexedConnection,
        has_switched: &Notify,
        has_told: &mut bool,
    ) -> Result<Infallible, NoHelp> {
        connection.subscribe(SWITCHED).await?;
        loop {
            let told = self.question(&mut connection).await?.ok_or(NoHelp::NoSuchMaster)?;
            self.hear(told)?;
            *has_told = true;
            let _ = timeout(INTERVAL, has_switched.notified()).await;
        }
    }

    fn hear(&self, told: SentinelTold) -> Result<(), NoHelp> {
        let master = told.master.clone();
        match self.whereabouts.tell(told) {
            Ok(is_news) => {
                if is_news {
                    tracing::info!(data = %master, "sentinels name the data Redis");
                }
                Ok(())
            }
            Err(_) => Err(NoHelp::Outdated),
        }
    }

    /// Returns the sentinel's answer; `None`: it knows no such master.
    async fn question(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Option<SentinelTold>> {
        let name = &self.address.name;
        let mut where_is = redis::cmd("SENTINEL");
        where_is.arg("get-master-addr-by-name").arg(name);
        let place = where_is.query_async::<Option<(String, u16)>>(connection).await?;
        let Some((host, port)) = place else { return Ok(None) };
        let mut describe = redis::cmd("SENTINEL");
        describe.arg("MASTER").arg(name);
        let epoch = match describe.query_async::<HashMap<String, String>>(connection).await {
            Ok(fields) => fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()),
            // Its ACL may forbid the command.
            Err(error) if error.code().is_some() => None,
            Err(error) => return Err(error),
        };
        Ok(Some(SentinelTold { master: self.address.master_at(&host, port), epoch }))
    }

    fn login(&self) -> RedisConnectionInfo {
        // In RESP3 one connection can both send requests and receive messages.
        login(None, self.address.password.as_ref()).set_protocol(ProtocolVersion::RESP3)
    }
}

fn notifying(has_switched: &Arc<Notify>) -> AsyncConnectionConfig {
    let has_switched = Arc::clone(has_switched);
    AsyncConnectionConfig::new().set_push_sender(move |push: PushInfo| {
        if push.kind == PushKind::Message {
            has_switched.notify_one();
        }
        Ok::<(), SendError>(())
    })
}
