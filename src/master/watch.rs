//! Looking after one master: who it is, whether it still has its memory, how its clock goes, and whether
//! other proxies have the same masters.
//!
//! Links ask a master who it is before they come up. What can happen while they are up (a flush, another
//! policy, a clock that is set) is noticed here, once a second, over a connection of its own.

use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use super::dial::Dial;
use super::electorate::Electorate;
use super::link::{BACKOFF, CONNECT_TIMEOUT, backoff};
use super::membership::{self, Announcement};
use super::probe::{self, ProbeError, connection_info};
use crate::config::MasterAddr;
use crate::quorum::MasterId;

/// How often a master is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long it may take for an answer: longer than a link bears its silence.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// One master, and where to say what is seen of it.
pub struct Watch {
    /// Which one.
    pub master: MasterId,
    /// Where it is.
    pub address: MasterAddr,
    /// Who votes.
    pub electorate: Arc<Electorate>,
}

impl Watch {
    /// Looks after it for ever.
    pub async fn run(self: Rc<Self>, dial: impl Dial) {
        let mut pauses = backoff();
        loop {
            // The links say in the log what is wrong with a connection.
            if let Err(error) = self.look(&dial, &mut || pauses = backoff()).await {
                tracing::debug!(master = %self.address, %error, "cannot look after it");
            }
            self.electorate.lost_sight(self.master);
            tokio::time::sleep(pauses.next().unwrap_or(BACKOFF.1)).await;
        }
    }

    async fn look(&self, dial: &impl Dial, answered: &mut impl FnMut()) -> Result<(), ProbeError> {
        let dialled = tokio::time::timeout(CONNECT_TIMEOUT, dial.dial(&self.address)).await;
        let stream = dialled.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))?;
        probe::over(stream, &connection_info(&self.address), |mut connection| async move {
            connection.set_response_timeout(ANSWER_TIMEOUT);
            Err(self.look_again_and_again(connection, answered).await)
        })
        .await
    }

    async fn look_again_and_again(
        &self,
        mut connection: MultiplexedConnection,
        answered: &mut impl FnMut(),
    ) -> ProbeError {
        let mut announcement = Announcement::default();
        loop {
            if let Err(error) = self.once(&mut connection, &mut announcement).await {
                return error.into();
            }
            answered();
            let wanted = self.electorate.looks(self.master).is_wanted();
            let _ = tokio::time::timeout(INTERVAL, wanted).await;
        }
    }

    async fn once(
        &self,
        connection: &mut MultiplexedConnection,
        announcement: &mut Announcement,
    ) -> RedisResult<()> {
        let looks = self.electorate.looks(self.master);
        looks.begin();
        let facts = probe::facts(connection).await?;
        self.electorate.observe(self.master, facts);
        looks.end();
        let name = self.electorate.announcement();
        where_allowed(announcement.make(connection, name).await)?;
        let announced = where_allowed(membership::announced(connection).await)?;
        let reading = where_allowed(probe::read_clock(connection).await)?;
        self.electorate.looked_at(self.master, &announced.unwrap_or_default(), reading);
        Ok(())
    }
}

/// What ACLs forbid is done without; a connection that is lost is not.
fn where_allowed<T>(answer: RedisResult<T>) -> RedisResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}
