//! A connection for work on a master off the hot path: copying to it and cleaning up on it.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::dial::{CONNECT_TIMEOUT, Dial, Stream as _};
use super::electorate::Electorate;
use super::probe::{self, ProbeError, connection_info};
use super::roster::together::Together;
use crate::decision::quorum::{MasterId, Quorum};

/// Time limit for each answer from a master.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why the work failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error(transparent)]
    Unreachable(#[from] ProbeError),
    #[error("{0}")]
    Refused(#[from] redis::RedisError),
    #[error("a master changed in the meantime")]
    Overtaken,
    #[error("too few masters answer to change the roster")]
    NoQuorum,
}

/// Context for work on masters off the hot path.
#[derive(Clone)]
pub struct Errands<D> {
    /// Opens connections.
    pub dial: D,
    /// The current voters, and the addresses of all masters.
    pub electorate: Arc<Electorate>,
    /// Quorum that makes a value count.
    pub quorum: Quorum,
    /// Time limit for one round of ballots.
    pub vote_timeout: Duration,
    /// Shard of these masters; 0 if they are the only cluster.
    pub shard: usize,
    /// The rosters of all shards.
    pub together: Arc<Together>,
}

/// A side connection, which closes with its last clone.
#[derive(Clone)]
pub(super) struct Errand {
    pub(super) connection: MultiplexedConnection,
    /// `run_id` of the process at the other end.
    pub(super) run_id: String,
    _driver: Rc<Driver>,
}

/// Task that reads and writes a connection, aborted on drop.
struct Driver(JoinHandle<()>);

impl<D: Dial> Errands<D> {
    /// Connects to the process that the electorate knows as `master`. A process not met yet is rejected: it would have
    /// nothing to tell, or would receive what is meant for another.
    ///
    /// # Errors
    /// Returns an error also after [`CONNECT_TIMEOUT`]: a stopped process still accepts connections.
    pub(super) async fn to(&self, master: MasterId) -> Result<Errand, Failed> {
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, self.open(master)).await;
        let too_late = |_| Err(ProbeError::from(io::Error::from(ErrorKind::TimedOut)).into());
        opened.unwrap_or_else(too_late)
    }

    async fn open(&self, master: MasterId) -> Result<Errand, Failed> {
        let address = self.electorate.address(master).ok_or(Failed::Overtaken)?;
        let stream = self.dial.dial(&address).await.map_err(ProbeError::from)?;
        stream.abort_on_close();
        let info = connection_info(&address);
        let (opened, open) = oneshot::channel();
        let driver = Driver(tokio::task::spawn_local(async move {
            match MultiplexedConnection::new(&info, stream).await {
                Ok((mut connection, driver)) => {
                    connection.set_response_timeout(ANSWER_TIMEOUT);
                    let _ = opened.send(Ok(connection));
                    driver.await;
                }
                Err(error) => _ = opened.send(Err(error)),
            }
        }));
        let connection = open.await.expect("the driver says how it went")?;
        let run_id = probe::facts(&mut connection.clone()).await?.run_id;
        let errand = Errand { connection, run_id, _driver: Rc::new(driver) };
        let known = self.electorate.facts(master).map(|facts| facts.run_id);
        if known.as_ref() == Some(&errand.run_id) { Ok(errand) } else { Err(Failed::Overtaken) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
