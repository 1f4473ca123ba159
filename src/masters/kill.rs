//! `SCRIPT KILL`, over a connection of its own: a master that is busy with a script takes nothing else,
//! and the links to it have been given up.

use std::time::Duration;

use tokio::task::JoinSet;

use super::dial::Dial;
use super::probe::{self, ProbeError};
use crate::catalogue::error;
use crate::config::MasterAddr;
use crate::resp::reply::Reply;

/// How long a master may take: it answers once it has noticed that it is busy
/// (`busy-reply-threshold`), and before that nobody can end its script.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Ends the script that each of `masters` is busy with, and says what the client is told: OK if one was
/// ended anywhere, or else why one could not be.
pub async fn kill_scripts(dial: impl Dial + Clone, masters: Vec<MasterAddr>) -> Reply {
    let mut kills = JoinSet::new();
    for address in masters {
        let dial = dial.clone();
        kills.spawn_local(async move {
            tokio::time::timeout(TIMEOUT, kill_script(&dial, &address)).await
        });
    }
    let mut reply = error::NO_SCRIPT_RUNNING;
    while let Some(killed) = kills.join_next().await {
        match killed {
            Ok(Ok(Ok(()))) => reply = Reply::OK,
            Ok(Ok(Err(why))) if reply != Reply::OK && is_unkillable(&why) => {
                reply = error::UNKILLABLE;
            }
            // It is not busy, or cannot be reached.
            _ => {}
        }
    }
    reply
}

async fn kill_script(dial: &impl Dial, address: &MasterAddr) -> Result<(), ProbeError> {
    probe::connected(dial, address, |mut connection| async move {
        Ok(redis::cmd("SCRIPT").arg("KILL").query_async(&mut connection).await?)
    })
    .await
}

/// It has written, so that ending it would leave half of it.
fn is_unkillable(why: &ProbeError) -> bool {
    matches!(why, ProbeError::Refused(error) if error.code() == Some("UNKILLABLE"))
}
