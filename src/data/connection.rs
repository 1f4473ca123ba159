//! The connection of one client to the data Redis.
//!
//! It belongs to this client alone, is made when the client first needs it and ends with it. So whatever a connection
//! can be there (in a transaction, subscribed, blocked, watching) is Redis's own affair: bytes pass through unchanged.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::replies::{NotRedis, Replies};
use super::setup::Setup;
use super::upstream::Upstream;
use crate::client::outbox::Outbox;
use crate::flush::poll_flush;
use crate::master::dial::Connection;

/// How long it may take to connect, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// With so many bytes of requests that the data Redis has not taken yet, nothing more is read from the client.
const REQUESTS_TO_STOP_READING: usize = 64 << 10;

/// A connection to the data Redis, or what becomes one.
pub struct DataConnection {
    stage: Stage,
    /// What it has been brought to.
    setup: Setup,
    /// Requests on their way.
    requests: BytesMut,
    /// What is to be answered, in this order.
    awaited: VecDeque<Awaited>,
    replies: Replies,
    /// What was read and has no place to go yet.
    unread: BytesMut,
    /// The client sends nothing more.
    ends: bool,
}

/// How far it has come.
enum Stage {
    Connecting(Pin<Box<dyn Future<Output = io::Result<Connection>>>>),
    Open(Box<Connection>),
}

/// What the next reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// It answers the client.
    Answer,
    /// It answers [`Setup::bring`].
    Setup { is_needed: bool },
}

/// Why there is no such connection any more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It could not be made, or broke.
    #[error("{0}")]
    Network(#[from] io::Error),
    /// The data Redis has closed it.
    #[error("it closed the connection")]
    Closed,
    /// It does not let this client in, or not as it is.
    #[error("it says: {0}")]
    Refused(String),
    /// The client is somebody else now, in the middle of what it had begun.
    #[error("the client is somebody else now")]
    AnotherUser,
    /// There is something else at its address.
    #[error(transparent)]
    NotRedis(#[from] NotRedis),
}

/// Whether a request can be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Now.
    Now,
    /// Not before the data Redis has answered, or has taken more.
    Later,
}

impl DataConnection {
    /// Begins to connect.
    pub fn open(upstream: &Upstream) -> Self {
        let upstream = upstream.clone();
        let connecting = async move {
            let connected = tokio::time::timeout(CONNECT_TIMEOUT, upstream.dial());
            connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        Self {
            stage: Stage::Connecting(Box::pin(connecting)),
            setup: Setup::default(),
            requests: BytesMut::new(),
            awaited: VecDeque::new(),
            replies: Replies::default(),
            unread: BytesMut::new(),
            ends: false,
        }
    }

    /// Whether a request of a client that is to be `wanted` can be passed on. If it has to be brought to that first,
    /// this begins with it.
    pub fn ready(&mut self, wanted: &Setup) -> Ready {
        if self.requests.len() >= REQUESTS_TO_STOP_READING {
            return Ready::Later;
        }
        if self.setup == *wanted {
            let is_set_up = !self.awaited.iter().any(|it| matches!(it, Awaited::Setup { .. }));
            let is_open = matches!(self.stage, Stage::Open(_));
            return if is_open && is_set_up { Ready::Now } else { Ready::Later };
        }
        if self.awaited.is_empty() {
            let mut requests = Vec::new();
            let brought = wanted.bring(&self.setup, &mut requests);
            self.requests.extend_from_slice(&requests);
            let needed = std::iter::repeat_n(true, brought.needed);
            let optional = std::iter::repeat_n(false, brought.optional);
            let awaited = needed.chain(optional).map(|is_needed| Awaited::Setup { is_needed });
            self.awaited.extend(awaited);
            self.setup = wanted.clone();
        }
        Ready::Later
    }

    /// Passes a request on. Its reply takes the next slot of the client's [`Outbox`].
    pub fn request(&mut self, bytes: &[u8]) {
        self.requests.extend_from_slice(bytes);
        self.awaited.push_back(Awaited::Answer);
    }

    /// Says something beside the client's requests, to which there are so many replies that nobody needs.
    pub fn say(&mut self, requests: &[u8], replies: usize) {
        self.requests.extend_from_slice(requests);
        let awaited = std::iter::repeat_n(Awaited::Setup { is_needed: false }, replies);
        self.awaited.extend(awaited);
    }

    /// The client will send no more. Redis, too, learns that when it has answered.
    pub fn end_of_requests(&mut self) {
        self.ends = true;
    }

    /// Whether the client waits for an answer.
    pub fn is_awaited(&self) -> bool {
        self.awaited.contains(&Awaited::Answer)
    }

    /// How much memory it takes.
    pub fn held(&self) -> usize {
        let awaited = self.awaited.capacity() * size_of::<Awaited>();
        self.requests.capacity() + self.unread.capacity() + awaited
    }

    /// Writes requests, and reads replies into the outbox, while there is room for them. Says whether anything has
    /// happened.
    ///
    /// # Errors
    /// It is lost.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &Outbox,
        buffer: &mut [u8],
    ) -> Result<bool, Lost> {
        let mut has_happened = false;
        if let Stage::Connecting(connecting) = &mut self.stage {
            let Poll::Ready(connected) = connecting.as_mut().poll(cx) else { return Ok(false) };
            self.stage = Stage::Open(Box::new(connected?));
            has_happened = true;
        }
        has_happened |= self.poll_write(cx)?;
        has_happened |= self.poll_read(cx, outbox, buffer)?;
        Ok(has_happened)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<bool, Lost> {
        let Stage::Open(stream) = &mut self.stage else { return Ok(false) };
        let had_room = self.requests.len() < REQUESTS_TO_STOP_READING;
        if !self.requests.is_empty()
            && let Poll::Ready(flushed) =
                poll_flush(Pin::new(&mut **stream), &mut self.requests, cx)
        {
            flushed?;
            self.requests = BytesMut::new();
        }
        if self.ends
            && self.requests.is_empty()
            && let Poll::Ready(ended) = Pin::new(&mut **stream).poll_shutdown(cx)
        {
            ended?;
            self.ends = false;
        }
        Ok(!had_room && self.requests.len() < REQUESTS_TO_STOP_READING)
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        outbox: &Outbox,
        buffer: &mut [u8],
    ) -> Result<bool, Lost> {
        let mut has_happened = false;
        if !self.unread.is_empty() {
            let unread = std::mem::take(&mut self.unread);
            let passed = self.pass(&unread, outbox)?;
            has_happened = passed > 0;
            self.keep(&unread[passed..]);
        }
        // Until nothing is there, for only then is the task woken when something comes.
        while self.unread.is_empty() && self.has_room(outbox) {
            let Poll::Ready(read) = self.poll_read_some(cx, buffer) else { break };
            let read = read?;
            if read == 0 {
                return Err(Lost::Closed);
            }
            let passed = self.pass(&buffer[..read], outbox)?;
            self.keep(&buffer[passed..read]);
            has_happened = true;
        }
        Ok(has_happened)
    }

    fn poll_read_some(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<usize, Lost>> {
        let Stage::Open(stream) = &mut self.stage else { return Poll::Pending };
        let mut free = ReadBuf::new(buffer);
        ready!(Pin::new(&mut **stream).poll_read(cx, &mut free))?;
        Poll::Ready(Ok(free.filled().len()))
    }

    /// Whether what is read would have a place to go.
    fn has_room(&self, outbox: &Outbox) -> bool {
        match self.awaited.front() {
            Some(Awaited::Answer) => outbox.may_pass(),
            Some(Awaited::Setup { .. }) => true,
            None => outbox.may_pass_message(),
        }
    }

    fn keep(&mut self, rest: &[u8]) {
        self.unread.extend_from_slice(rest);
    }

    /// Gives each reply to whom it belongs; says how many of the bytes had a place to go.
    fn pass(&mut self, bytes: &[u8], outbox: &Outbox) -> Result<usize, Lost> {
        let mut rest = bytes;
        while !rest.is_empty() && self.has_room(outbox) {
            let begins = !self.replies.is_amid();
            let found = self.replies.read(rest)?;
            let (piece, after) = rest.split_at(found.bytes);
            rest = after;
            let error = begins.then(|| error_text(piece)).flatten();
            match self.awaited.front() {
                Some(Awaited::Answer) => outbox.pass(piece),
                Some(Awaited::Setup { is_needed: true }) if error.is_some() => {
                    return Err(Lost::Refused(
                        String::from_utf8_lossy(error.unwrap_or_default()).into_owned(),
                    ));
                }
                Some(Awaited::Setup { .. }) => {}
                None => outbox.pass_message(piece, found.ended.is_some()),
            }
            if let Some(head) = found.ended
                && let Some(Awaited::Answer) = self.awaited.pop_front()
            {
                outbox.passed(head.is_error().then(|| error.unwrap_or(UNREAD_ERROR)));
            }
        }
        Ok(bytes.len() - rest.len())
    }
}

/// What an error is counted as whose first piece had no whole line.
const UNREAD_ERROR: &[u8] = b"ERR";

/// What an error says, if this is one and all of it is here.
fn error_text(piece: &[u8]) -> Option<&[u8]> {
    let line = piece.strip_prefix(b"-")?;
    let end = line.iter().position(|byte| *byte == b'\r').unwrap_or(line.len());
    Some(&line[..end])
}
