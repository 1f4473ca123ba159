//! A client in transit from one process to another.

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
use crate::pubsub::duplicates::HeardMessages;
use crate::tracking::options::TrackingOptions;

/// A connection with nothing pending: every request is answered, and every answer was written.
#[derive(Debug)]
pub struct PortableConnection {
    /// The state of its session.
    pub state: SessionState,
    /// Bytes that were read but not processed: possibly half a request.
    pub unread: Vec<u8>,
    /// The connection itself.
    pub socket: OwnedFd,
}

/// The complete state of a session at rest. Fields added later are optional: another version may not send them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionState {
    /// The client's entry in `CLIENT LIST`, with its number, its database and its protocol.
    pub client: Known,
    /// Whether the client has logged in, or did not have to. Its entry names the user.
    pub authenticated: bool,
    /// `CLIENT REPLY OFF`
    pub silent: bool,
    /// `MONITOR`
    #[serde(default)]
    pub monitor: bool,
    /// `CLIENT TRACKING`
    #[serde(default)]
    pub tracking: Option<TrackingOptions>,
    /// The client's subscriptions.
    #[serde(default)]
    pub topics: Vec<Topic>,
    /// The messages that the client has received.
    #[serde(default)]
    pub has_heard: Vec<(Topic, HeardMessages)>,
    /// Time that the next request has already waited (`BLPOP`).
    #[serde(default)]
    pub waited_ms: u64,
    /// Number of wrong passwords since the client's last right one.
    #[serde(default)]
    pub failed_logins: u32,
}

/// A client's transport, and whether another process can take it over.
pub trait Portable {
    /// Whether the system holds the transport's whole state.
    const IS_PORTABLE: bool = false;

    /// Duplicates the transport's handle.
    ///
    /// # Errors
    /// Returns an error if the transport is not portable, or this process has too many files open.
    fn duplicate(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns pending if nothing has arrived; the task is then woken by the next bytes. A transport that cannot tell
    /// is ready.
    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Returns the system's view of the other end, for a session that does not read.
    fn other_end(&self) -> OtherEnd {
        OtherEnd::Open
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    /// It may still send something.
    Open,
    /// It will send no more, but may still read.
    Ended,
    /// It has gone.
    Gone,
}

impl OtherEnd {
    fn of(socket: impl AsFd) -> Self {
        let mut asked = [PollFd::new(&socket, PollFlags::RDHUP)];
        // If this fails, the connection counts as open.
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

/// Not portable: the keys of the TLS session are in this process.
impl<S: Portable> Portable for TlsStream<S> {
    fn other_end(&self) -> OtherEnd {
        self.get_ref().0.other_end()
    }
}

/// Not portable: it never leaves this process.
impl Portable for DuplexStream {}

/// The end of a session that makes way for a successor process.
#[derive(Debug)]
pub enum Departure {
    /// The successor continues the session.
    Moved(Box<PortableConnection>),
    /// The session could not move, and the connection was shut down.
    Closed,
}
