//! Keeps out proxies of the version that does not know marks.
//!
//! The previous version only reads what proxies announce in the names of their connections. It does not serve while a
//! proxy is connected whose masters certainly differ from its own. So this version announces a list that no proxy can
//! have: one longer than the accepted maximum. While a proxy of the older version is connected, this one neither
//! serves nor announces anything, so that the first to arrive stays.

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

use crate::decision::quorum::MAX_MASTERS;

/// Name of the watch connections in a master's `CLIENT LIST`.
const NAME: &str = "redlock-proxy-watch";

/// Entry that the older version takes for the first of our masters.
const NEWER: &str = "a-newer-version-serves-these-masters";

/// State of the announcement on one master, for the lifetime of the connection.
#[derive(Debug, Default)]
pub(super) struct Announcement(Option<bool>);

impl Announcement {
    /// Announces that a proxy of this version is connected, or else only the purpose of the connection.
    ///
    /// # Errors
    /// Returns an error if the master refuses or does not answer.
    pub(super) async fn make(
        &mut self,
        connection: &mut MultiplexedConnection,
        keeps_older_away: bool,
    ) -> RedisResult<()> {
        if self.0 == Some(keeps_older_away) {
            return Ok(());
        }
        let name = if keeps_older_away { announcement() } else { NAME.to_owned() };
        let mut rename = redis::cmd("CLIENT");
        rename.arg("SETNAME").arg(name).query_async::<()>(connection).await?;
        self.0 = Some(keeps_older_away);
        Ok(())
    }
}

/// Whether a proxy of the older version is connected.
///
/// # Errors
/// Returns an error if the master refuses or does not answer.
pub(super) async fn is_there(connection: &mut MultiplexedConnection) -> RedisResult<bool> {
    let list: String = redis::cmd("CLIENT").arg("LIST").query_async(connection).await?;
    Ok(names(&list).any(is_older))
}

/// Returns an announcement whose list has one master more than any proxy accepts, and no server id.
fn announcement() -> String {
    format!("{NAME}:{NEWER}{}||", ",".repeat(MAX_MASTERS))
}

fn is_older(name: &str) -> bool {
    let list = name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix(':'));
    list.is_some_and(|list| !list.starts_with(NEWER))
}

/// Returns the names in a `CLIENT LIST`. None of its fields contains a space.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("name=")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses the announcement like `membership.rs` of version 0.1.0.
    #[test]
    fn the_older_version_takes_it_for_certainly_other_masters() {
        let announced = announcement();
        let list = announced.strip_prefix("redlock-proxy-watch:").expect("the older one's prefix");
        let (list, rest) = list.split_once('|').expect("a list");
        let ids = rest.split('|').next().expect("ids").split(',').filter(|id| !id.is_empty());
        assert_eq!(ids.count(), 0);
        assert!(list.split(',').count() > MAX_MASTERS, "as many masters as nobody has");
        assert!(announced.bytes().all(|byte| byte.is_ascii_graphic()), "a name Redis takes");
    }

    #[test]
    fn the_older_version_is_told_from_this_one() {
        let list = format!("id=1 name=redlock-proxy db=0\nid=2 name={} db=0\n", announcement());
        assert!(!names(&list).any(is_older));
        let older = list + "id=3 name=redlock-proxy-watch:a:1,b:1|x,y|0123 db=0\n";
        assert!(names(&older).any(is_older));
    }
}
