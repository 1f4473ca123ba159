//! A client on its way from one process to another.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use tokio::io::DuplexStream;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::catalogue::channel::Topic;
use crate::client::registry::Known;
use crate::pubsub::duplicates::Heard;

/// A connection that waits for nothing: all that was asked is answered, and every answer was written.
#[derive(Debug)]
pub struct Connection {
    /// What its session knows.
    pub state: State,
    /// What has been read of it and not been started: perhaps half a request.
    pub unread: Vec<u8>,
    /// The connection itself.
    pub socket: OwnedFd,
}

/// All that a session at rest knows. What is added here is optional: another version may not send it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Its entry in `CLIENT LIST`, with its number, its database and its protocol.
    pub client: Known,
    /// It has logged in, or did not have to; as whom is in its entry.
    pub authenticated: bool,
    /// `CLIENT REPLY OFF`
    pub silent: bool,
    /// `MONITOR`
    #[serde(default)]
    pub monitor: bool,
    /// What it has subscribed to.
    #[serde(default)]
    pub topics: Vec<Topic>,
    /// The messages that it has got.
    #[serde(default)]
    pub has_heard: Vec<(Topic, Heard)>,
    /// How long the request that comes next has been waiting already (`BLPOP`).
    #[serde(default)]
    pub waited_ms: u64,
    /// How many wrong passwords it has given since its last right one.
    #[serde(default)]
    pub failed_logins: u32,
}

/// What a client is connected by, and whether another process could go on with it.
pub trait Portable {
    /// The system knows all of its state.
    const IS_PORTABLE: bool = false;

    /// A second handle on it.
    ///
    /// # Errors
    /// It is not portable, or this process has too many files open.
    fn duplicate(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Pending: nothing has come, and the task is woken when something does. What is not known to be so is ready.
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// What the system knows of the other end, for a session that does not read.
    fn other_end(&self) -> OtherEnd {
        OtherEnd::Open
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    /// It may still send something.
    Open,
    /// It will send no more, and may still read.
    Ended,
    /// It is not there any more.
    Gone,
}

impl OtherEnd {
    fn of(socket: impl AsFd) -> Self {
        let mut asked = [PollFd::new(&socket, PollFlags::RDHUP)];
        // Who cannot find out goes on.
        if poll(&mut asked, Some(&Timespec::default())).is_err() {
            return Self::Open;
        }
        let found = asked[0].revents();
        if found.intersects(PollFlags::HUP | PollFlags::ERR) {
            Self::Gone
        } else if found.contains(PollFlags::RDHUP) {
            Self::Ended
        } else {
            Self::Open
        }
    }
}

impl Portable for TcpStream {
    const IS_PORTABLE: bool = true;

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_ready(cx).map(drop)
    }

    fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    fn other_end(&self) -> OtherEnd {
        OtherEnd::of(self)
    }
}

impl Portable for UnixStream {
    const IS_PORTABLE: bool = true;

    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_ready(cx).map(drop)
    }

    fn duplicate(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    fn other_end(&self) -> OtherEnd {
        OtherEnd::of(self)
    }
}

/// Its keys are in this process.
impl<S: Portable> Portable for TlsStream<S> {
    fn other_end(&self) -> OtherEnd {
        self.get_ref().0.other_end()
    }
}

/// It does not leave this process at all.
impl Portable for DuplexStream {}

/// How a session ends for the sake of a successor.
#[derive(Debug)]
pub enum Departure {
    /// The successor goes on with it.
    Moved(Box<Connection>),
    /// It cannot, and the client was told so.
    Closed,
}
