//! Watches one master: its identity, its marks, its clock, and events that the marks do not show.
//!
//! Every vote carries its own proof. Some changes do not show in proofs: another eviction policy, evicted keys, or a
//! master that followed another instance for a while. The watch detects these once a second over its own connection,
//! and then removes the marks.

use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use super::dial::{CONNECT_TIMEOUT, Dial, Pauses};
use super::electorate::{Electorate, MasterSight};
use super::older_versions::{self, Announcement};
use super::probe::{self, ProbeError, connection_info};
use super::roster::marks::{self, Keys, Marks};
use crate::catalogue::reserved::CLOCKS;
use crate::config::MasterAddr;
use crate::decision::quorum::MasterId;
use crate::decision::roster::noted::ClockNote;

/// Interval between probes of a master.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for an answer, longer than a link tolerates silence.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Outcome of a probe.
enum Looked {
    /// The findings were reported.
    Told,
    /// The master is another process now, and nothing was reported.
    Elsewhere,
}

/// Reason why probing ended.
enum Ended {
    Elsewhere,
    Lost(ProbeError),
}

/// A master to watch, and the electorate that receives the findings.
pub struct MasterWatch {
    /// Id of the master.
    pub master: MasterId,
    /// Receives the findings.
    pub electorate: Arc<Electorate>,
}

impl MasterWatch {
    /// Watches the master forever.
    pub async fn run(self: Rc<Self>, dial: impl Dial) {
        let mut pauses = Pauses::default();
        loop {
            let address = self.electorate.somebody_at(self.master).await;
            let ended = self.look(&dial, &address, &mut || pauses = Pauses::default()).await;
            if let Ended::Lost(error) = ended {
                // The links log connection problems.
                let master = self.electorate.name(self.master);
                tracing::debug!(%master, %error, "cannot look after it");
                self.electorate.lost_sight(self.master);
            }
            let wanted = self.electorate.looks(self.master).is_wanted();
            let _ = tokio::time::timeout(pauses.another(), wanted).await;
        }
    }

    async fn look(
        &self,
        dial: &impl Dial,
        address: &MasterAddr,
        answered: &mut impl FnMut(),
    ) -> Ended {
        let dialled = tokio::time::timeout(CONNECT_TIMEOUT, dial.dial(address)).await;
        let stream = match dialled.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into())) {
            Ok(stream) => stream,
            Err(error) => return Ended::Lost(error.into()),
        };
        let info = connection_info(address);
        let looking = probe::over(stream, &info, |mut connection| async {
            connection.set_response_timeout(ANSWER_TIMEOUT);
            Ok(self.look_again_and_again(connection, address, answered).await)
        });
        looking.await.unwrap_or_else(Ended::Lost)
    }

    async fn look_again_and_again(
        &self,
        mut connection: MultiplexedConnection,
        address: &MasterAddr,
        answered: &mut impl FnMut(),
    ) -> Ended {
        let mut announcement = Announcement::default();
        let mut is_fresh = true;
        loop {
            match self.once(&mut connection, address, &mut announcement, is_fresh).await {
                Ok(Looked::Told) => {}
                Ok(Looked::Elsewhere) => return Ended::Elsewhere,
                Err(error) => return Ended::Lost(error.into()),
            }
            answered();
            is_fresh = false;
            let wanted = self.electorate.looks(self.master).is_wanted();
            let _ = tokio::time::timeout(INTERVAL, wanted).await;
        }
    }

    async fn once(
        &self,
        connection: &mut MultiplexedConnection,
        address: &MasterAddr,
        announcement: &mut Announcement,
        is_fresh: bool,
    ) -> RedisResult<Looked> {
        let looks = self.electorate.looks(self.master);
        looks.begin();
        let known = match self.electorate.facts(self.master) {
            Some(known) => known,
            None => probe::facts(connection).await?,
        };
        let databases = known.databases;
        let [mut one, mut two, mut three, mut four] = [(); 4].map(|()| connection.clone());
        // All in one write: tasks that wait for this probe wait for a single round trip.
        let (facts, mut marks, reading, has_older, note) = tokio::try_join!(
            probe::facts(connection),
            async {
                // A cluster node has no databases and would refuse.
                match known.bar {
                    Some(_) => Ok(Marks::default()),
                    None => marks::look(&mut one, databases).await,
                }
            },
            async { where_allowed(probe::read_clock(&mut two).await) },
            async { where_allowed(self.finds_older(&mut three).await) },
            async { where_allowed(self.exchange_notes(&mut four).await) },
        )?;
        if !is_fresh && self.electorate.is_another(self.master, &facts.run_id) {
            return Ok(Looked::Elsewhere);
        }
        if known.bar.is_some() && facts.bar.is_none() {
            marks = marks::look(connection, facts.databases).await?;
        }
        if self.electorate.address(self.master).as_ref() != Some(address) {
            return Ok(Looked::Elsewhere);
        }
        self.electorate.observe(self.master, facts.clone());
        if self.electorate.is_doubted(self.master) && facts.bar.is_none() && marks.any().is_some() {
            // Removing the mark informs everyone who counts this master's votes, including other proxies.
            marks.replace(None, Keys::Keep).query_async::<i64>(connection).await?;
            marks = marks::look(connection, facts.databases).await?;
        }
        let has_older = has_older.unwrap_or_default();
        if self.electorate.address(self.master).as_ref() != Some(address) {
            return Ok(Looked::Elsewhere);
        }
        self.electorate.looked_at(
            self.master,
            MasterSight { marks, facts, has_older, note: note.flatten() },
            reading,
        );
        looks.end();
        where_allowed(announcement.make(connection, self.electorate.serves()).await)?;
        Ok(Looked::Told)
    }

    /// Looks for proxies of an older version until this one serves. From then on its announcement keeps them away. The
    /// list of clients costs the master more the more proxies there are.
    async fn finds_older(&self, connection: &mut MultiplexedConnection) -> RedisResult<bool> {
        if self.electorate.serves() {
            return Ok(false);
        }
        older_versions::is_there(connection).await
    }

    /// Reads another proxy's note about the clocks while one is wanted, and afterwards writes this proxy's own.
    async fn exchange_notes(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<Option<ClockNote>> {
        if self.electorate.wants_notes() {
            let noted: Option<Vec<u8>> =
                redis::cmd("GET").arg(CLOCKS).query_async(connection).await?;
            let text = noted.and_then(|noted| String::from_utf8(noted).ok());
            return Ok(text.and_then(|text| ClockNote::parse(&text)));
        }
        if let Some(note) = self.electorate.note_for(self.master) {
            let mut set = redis::cmd("SET");
            let written = set.arg(CLOCKS).arg(note.to_string()).exec_async(connection).await;
            // A master that became a replica or ran out of memory can still be probed.
            written.or_else(|error| if error.code().is_some() { Ok(()) } else { Err(error) })?;
        }
        Ok(None)
    }
}

/// Turns a refusal by ACLs into `None`. A lost connection remains an error.
fn where_allowed<T>(answer: RedisResult<T>) -> RedisResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("NOPERM") => Ok(None),
        Err(error) => Err(error),
    }
}
