//! `SCRIPT KILL` over a separate connection. A master that is busy with a script accepts nothing else, and its links
//! have already been given up.

use std::time::Duration;

use tokio::task::JoinSet;

use super::dial::Dial;
use super::probe::{self, ProbeError};
use crate::catalogue::error;
use crate::config::MasterAddr;
use crate::resp::reply::Reply;

/// Time limit for each master. A master answers once it notices that it is busy (`busy-reply-threshold`); before that
/// nothing can end its script.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Kills the script running on each of `masters` and returns the client's reply: OK if any script was killed,
/// otherwise the reason why none could be.
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
            // The master is not busy or cannot be reached.
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

/// Whether the script has written, so that killing it would leave its work half done.
fn is_unkillable(why: &ProbeError) -> bool {
    matches!(why, ProbeError::Refused(error) if error.code() == Some("UNKILLABLE"))
}
