//! A worker's connection to a master that reports every changed key (`CLIENT TRACKING ON BCAST`).
//!
//! It is separate from the [`Link`] that carries votes, and exists only while the worker has clients that are told.
//! When it is lost, these are told to drop everything, and it reconnects.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::gathering::Changed;
use super::tracker::Tracker;
use crate::client::timeslice::{self, TimeSlice};
use crate::config::MasterAddr;
use crate::decision::quorum::MasterId;
use crate::engine::connection::{self, Connection};
use crate::engine::link::Link;
use crate::engine::reader::Reader;
use crate::engine::silence::Silence;
use crate::masters::dial::{CONNECT_TIMEOUT, Dial, Pauses};
use crate::operation::request;
use crate::resp::answer::Answer;
use crate::resp::flat::{self, Malformed};

/// Requests that begin a connection; the last one has the master report.
const GREETINGS: u32 = 2;

/// The connection.
pub struct InvalidationFeed {
    /// The link to the same master: it knows the address and how long silence may last.
    link: Rc<Link>,
    state: RefCell<State>,
    /// Notified when there is a client to tell.
    wanted: Notify,
}

#[derive(Default)]
struct State {
    out: BytesMut,
    /// Requests that the master has yet to answer.
    owed: u32,
    /// Those of them that begin the connection.
    greetings: u32,
    silence: Silence,
    waker: Option<Waker>,
}

/// Reasons why a feed ended.
#[derive(Debug, thiserror::Error)]
enum Down {
    #[error("no connection within {}", humantime::format_duration(CONNECT_TIMEOUT))]
    ConnectTimeout,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("it answered `{0}`")]
    Refused(String),
    #[error("it has stopped answering")]
    Silent,
    #[error("it was replaced")]
    Replaced,
}

impl InvalidationFeed {
    /// Returns a feed that [`InvalidationFeed::run`] connects.
    pub fn new(link: Rc<Link>) -> Rc<Self> {
        Rc::new(Self { link, state: RefCell::default(), wanted: Notify::new() })
    }

    /// Connects, if there is no connection yet.
    pub(super) fn is_wanted(&self) {
        self.wanted.notify_one();
    }

    fn master(&self) -> MasterId {
        self.link.master()
    }

    /// Keeps the feed up for as long as there are clients to tell.
    pub async fn run(self: Rc<Self>, dial: impl Dial, tracker: Rc<Tracker>) {
        let (mut pauses, mut last) = (Pauses::default(), None);
        loop {
            while tracker.is_idle() {
                self.wanted.notified().await;
            }
            let down = self.once(&dial, &tracker).await;
            let was_live = self.went_down();
            tracker.lost(self.master());
            if was_live {
                (pauses, last) = (Pauses::default(), None);
            }
            if let Some(down) = down {
                self.report(&down, &tracker, &mut last);
            }
            tokio::time::sleep(pauses.another()).await;
        }
    }

    /// Runs one connection, from its beginning to its end. Returns the reason, unless no client is told any more.
    async fn once(&self, dial: &impl Dial, tracker: &Rc<Tracker>) -> Option<Down> {
        let address = self.link.somebody().await;
        let connection = match timeout(CONNECT_TIMEOUT, dial.dial(&address)).await {
            Ok(Ok(stream)) => Connection::from(stream),
            Ok(Err(error)) => return Some(error.into()),
            Err(_) => return Some(Down::ConnectTimeout),
        };
        self.greet(&address);
        tokio::select! {
            biased;
            down = self.listen(connection, tracker) => Some(down),
            down = self.watch(&address, tracker) => down,
        }
    }

    /// Logs in, and has the master report all keys.
    fn greet(&self, address: &MasterAddr) {
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some([user, password]) = connection::login(address) {
            hello.extend([b"AUTH", user, password]);
        }
        hello.extend([b"SETNAME", connection::NAME]);
        let state = &mut *self.state.borrow_mut();
        state.greetings = GREETINGS;
        state.send(&hello);
        state.send(&[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]);
    }

    /// Resets the state after a connection. Returns whether the master had reported on it.
    fn went_down(&self) -> bool {
        let last = self.state.take();
        last.greetings == 0
    }

    /// Logs a warning if only the feed of a master is down. If the master is down, its link reports that.
    fn report(&self, down: &Down, tracker: &Rc<Tracker>, last: &mut Option<String>) {
        if let Down::Refused(why) = down {
            tracker.refused(why);
        }
        let (why, master) = (down.to_string(), self.link.name());
        if self.link.is_up() && last.as_ref() != Some(&why) {
            tracing::warn!(
                %master,
                "cannot hear which keys change on this master, so clients cannot cache: {why}"
            );
            *last = Some(why);
        }
    }

    /// Resolves when the master has been silent for too long or was replaced, or when no client is told any more. Pings
    /// it when it has nothing else to answer.
    async fn watch(&self, address: &MasterAddr, tracker: &Rc<Tracker>) -> Option<Down> {
        loop {
            tokio::time::sleep(self.link.heartbeat_interval()).await;
            // This worker may have been the busy one: first, it reads what has arrived in the socket.
            tokio::task::yield_now().await;
            tracker.look();
            if tracker.is_idle() {
                return None;
            }
            let state = &mut *self.state.borrow_mut();
            let owes = state.owed > 0;
            if state.silence.lasts_too_long(owes) {
                return Some(Down::Silent);
            }
            if self.link.address().as_ref() != Some(address) {
                return Some(Down::Replaced);
            }
            if !owes {
                state.send(&[b"PING"]);
            }
        }
    }

    /// Reads and writes until the connection is lost.
    async fn listen(
        &self,
        mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin>,
        tracker: &Rc<Tracker>,
    ) -> Down {
        poll_fn(|cx| match self.poll_once(&mut connection, tracker, cx) {
            Ok(()) => Poll::Pending,
            Err(down) => Poll::Ready(down),
        })
        .await
    }

    /// Reads and writes all that is possible now.
    fn poll_once(
        &self,
        connection: &mut Connection<impl AsyncRead + AsyncWrite + Unpin>,
        tracker: &Rc<Tracker>,
        cx: &mut Context<'_>,
    ) -> Result<(), Down> {
        let mut time = TimeSlice::default();
        while let Poll::Ready(read) = connection.poll_read(cx) {
            read?;
            self.state.borrow_mut().silence.ends();
            let reports = self.frames(&mut connection.replies, tracker);
            tracker.reported(self.master(), reports?);
            if time.look() {
                let _ = timeslice::others_first(cx);
                break;
            }
        }
        let state = &mut *self.state.borrow_mut();
        state.waker = Some(cx.waker().clone());
        if let Poll::Ready(written) = connection.poll_write(&mut state.out, cx) {
            written?;
        }
        Ok(())
    }

    /// Reads all that has arrived. Returns what the master reports.
    fn frames(&self, reader: &mut Reader, tracker: &Rc<Tracker>) -> Result<Vec<Changed>, Down> {
        let mut reports = Vec::new();
        while let Some((answer, raw)) = reader.peek()? {
            let len = raw.len();
            match answer {
                Answer::Error(error) => {
                    return Err(Down::Refused(String::from_utf8_lossy(error).into_owned()));
                }
                _ if raw.first() == Some(&b'>') => reports.extend(reported(raw).ok_or(Malformed)?),
                _ => self.answered(tracker)?,
            }
            reader.taken(len);
        }
        Ok(reports)
    }

    fn answered(&self, tracker: &Rc<Tracker>) -> Result<(), Down> {
        let begins = {
            let state = &mut *self.state.borrow_mut();
            state.owed = state.owed.checked_sub(1).ok_or(Malformed)?;
            let was_greeted = state.greetings == 0;
            state.greetings = state.greetings.saturating_sub(1);
            !was_greeted && state.greetings == 0
        };
        if begins {
            tracker.went_live(self.master());
        }
        Ok(())
    }
}

impl State {
    fn send(&mut self, words: &[&[u8]]) {
        let mut bytes = Vec::new();
        request::encode(&mut bytes, words);
        self.out.extend_from_slice(&bytes);
        self.owed += 1;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
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
