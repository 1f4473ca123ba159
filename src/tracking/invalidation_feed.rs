//! A worker's connection to a master that reports every changed key (`CLIENT TRACKING ON BCAST`).
//!
//! It is separate from the [`Link`] that carries votes, and exists only while the worker has clients that are told.
//! When it is lost, these are told to drop everything, and it reconnects.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::gathering::Changed;
use super::tracker::Tracker;
use crate::config::MasterAddr;
use crate::decision::quorum::MasterId;
use crate::engine::connection;
use crate::engine::feed::{FeedConnection, FeedDown};
use crate::engine::link::Link;
use crate::engine::reader::Reader;
use crate::masters::dial::{Dial, Pauses};
use crate::resp::answer::Answer;
use crate::resp::flat::{self, Malformed};

/// The feed of one master.
pub struct InvalidationFeed {
    connection: FeedConnection<Greeting>,
    /// Whether the master reports.
    is_live: Cell<bool>,
    /// Notified when there is a client to tell.
    wanted: Notify,
}

/// A request that begins a connection.
enum Greeting {
    /// `HELLO`
    Hello,
    /// `CLIENT TRACKING`: from its answer on, the master reports.
    Track,
}

impl InvalidationFeed {
    /// Returns a feed that [`InvalidationFeed::run`] connects.
    pub fn new(link: Rc<Link>) -> Rc<Self> {
        let (connection, is_live) = (FeedConnection::new(link), Cell::new(false));
        Rc::new(Self { connection, is_live, wanted: Notify::new() })
    }

    /// Connects, if there is no connection yet.
    pub(super) fn is_wanted(&self) {
        self.wanted.notify_one();
    }

    fn master(&self) -> MasterId {
        self.connection.link().master()
    }

    /// Keeps the feed up for as long as there are clients to tell.
    pub async fn run(self: Rc<Self>, dial: impl Dial, tracker: Rc<Tracker>) {
        let (mut pauses, mut last) = (Pauses::default(), None);
        loop {
            while tracker.is_idle() {
                self.wanted.notified().await;
            }
            let down = self.once(&dial, &tracker).await;
            tracker.lost(self.master());
            if self.is_live.take() {
                (pauses, last) = (Pauses::default(), None);
            }
            if let Some(down) = down {
                self.report(&down, &tracker, &mut last);
            }
            tokio::time::sleep(pauses.another()).await;
        }
    }

    /// Runs one connection, from its beginning to its end. Returns the reason, unless no client is told any more.
    async fn once(&self, dial: &impl Dial, tracker: &Rc<Tracker>) -> Option<FeedDown> {
        let begin = |address: &MasterAddr| self.greet(address);
        let read = |reader: &mut Reader| {
            let reports = self.frames(reader, tracker)?;
            tracker.reported(self.master(), reports);
            Ok(())
        };
        tokio::select! {
            biased;
            down = self.connection.run(dial, begin, read) => Some(down),
            () = self.until_idle(tracker) => None,
        }
    }

    /// Resolves when no client is told any more.
    async fn until_idle(&self, tracker: &Tracker) {
        while !tracker.is_idle() {
            tokio::time::sleep(self.connection.link().heartbeat_interval()).await;
            tracker.look();
        }
    }

    /// Logs in, and has the master report all keys.
    fn greet(&self, address: &MasterAddr) {
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some([user, password]) = connection::login(address) {
            hello.extend([b"AUTH", user, password]);
        }
        hello.extend([b"SETNAME", connection::NAME]);
        self.connection.send(&hello, Greeting::Hello);
        self.connection.send(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"], Greeting::Track);
    }

    /// Logs a warning if only the feed of a master is down. If the master is down, its link reports that.
    fn report(&self, down: &FeedDown, tracker: &Rc<Tracker>, last: &mut Option<String>) {
        if let FeedDown::Refused(why) = down {
            tracker.refused(why);
        }
        let (why, link) = (down.to_string(), self.connection.link());
        if link.is_up() && last.as_ref() != Some(&why) {
            tracing::warn!(
                master = %link.name(),
                "cannot hear which keys change on this master, so clients cannot cache: {why}"
            );
            *last = Some(why);
        }
    }

    /// Reads all that has arrived. Returns what the master reports.
    fn frames(&self, reader: &mut Reader, tracker: &Rc<Tracker>) -> Result<Vec<Changed>, FeedDown> {
        let mut reports = Vec::new();
        while let Some((answer, raw)) = reader.peek()? {
            let len = raw.len();
            match answer {
                Answer::Error(error) => {
                    return Err(FeedDown::Refused(String::from_utf8_lossy(error).into_owned()));
                }
                _ if raw.first() == Some(&b'>') => reports.extend(reported(raw).ok_or(Malformed)?),
                _ => self.answered(tracker)?,
            }
            reader.taken(len);
        }
        Ok(reports)
    }

    fn answered(&self, tracker: &Rc<Tracker>) -> Result<(), Malformed> {
        if let Some(Greeting::Track) = self.connection.answered()? {
            self.is_live.set(true);
            tracker.went_live(self.master());
        }
        Ok(())
    }
}

/// Reads the push `invalidate`. Returns `None` for what a master never sends to the proxy.
fn reported(push: &[u8]) -> Option<Vec<Changed>> {
    let parts = flat::items(push)?;
    let [word, keys] = parts[..] else { return None };
    if flat::bulk(word) != Some(b"invalidate") {
        return None;
    }
    if keys.starts_with(b"_") {
        return Some(vec![Changed::Everything]);
    }
    let keys = flat::items(keys)?.into_iter();
    keys.map(|key| flat::bulk(key).map(|key| Changed::Key(key.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(push: &str) -> Option<Vec<Changed>> {
        reported(push.as_bytes())
    }

    #[test]
    fn reports_of_a_master() {
        let key = |name: &str| Changed::Key(name.as_bytes().into());
        assert_eq!(
            read(">2\r\n$10\r\ninvalidate\r\n*2\r\n$1\r\na\r\n$2\r\n\r\n\r\n"),
            Some(vec![key("a"), key("\r\n")])
        );
        let everything = Some(vec![Changed::Everything]);
        assert_eq!(read(">2\r\n$10\r\ninvalidate\r\n_\r\n"), everything);
    }

    #[test]
    fn what_no_master_says() {
        assert_eq!(read(">2\r\n$7\r\nmessage\r\n*0\r\n"), None);
        assert_eq!(read(">1\r\n$10\r\ninvalidate\r\n"), None);
        assert_eq!(read(">2\r\n$10\r\ninvalidate\r\n*1\r\n:1\r\n"), None);
    }
}
