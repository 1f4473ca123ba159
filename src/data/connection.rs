//! One client's connection to the data Redis.
//!
//! It belongs to this client alone, is opened when the client first needs it and ends with the client. So any state of
//! the connection there (in a transaction, subscribed, blocked, watching) is Redis's own affair: bytes pass through
//! unchanged.
//!
//! * `setting_up` brings it to the state that the client wants. `reading` passes on the bytes that the data Redis
//!   sends.

mod reading;
mod setting_up;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::AsyncWrite;

use reading::Piece;

use super::setup::{Setup, SetupStep};
use super::upstream::{Dialled, Upstream};
use crate::client::outbox::Recipient;
use crate::masters::dial::{DialledStream, Stream as _};
use crate::net::write::poll_flush;
use crate::resp::PASS_BUFFER;
use crate::resp::extent::{NotRedis, ReplyExtents};

/// Bytes of requests not yet taken by the data Redis at which the proxy stops reading from the client.
const REQUESTS_TO_STOP_READING: usize = PASS_BUFFER;

/// A connection to the data Redis, open or still connecting.
pub struct DataConnection {
    stage: Stage,
    /// Resolves when sentinels name another data Redis, if sentinels choose it.
    replaced: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Whether sentinels choose it, so that it must report that it is a master.
    is_followed: bool,
    /// Setup that it has been brought to.
    setup: Setup,
    /// Whether it was asked for the mark, and for its role.
    is_questioned: bool,
    /// Whether a request waits for the setup.
    is_waited_for: bool,
    /// Error with which the data Redis refused the setup.
    refusal: Option<String>,
    /// Requests to be written.
    requests: BytesMut,
    /// Expected replies, in order.
    awaited: VecDeque<Awaited>,
    replies: ReplyExtents,
    /// Beginning of a reply whose kind is not known yet.
    beginning: Vec<u8>,
    /// Bytes so far of a reply to [`Awaited::Database`] or [`Awaited::Role`].
    description: Vec<u8>,
    /// Kind of the reply that has begun, once known.
    amid: Option<Piece>,
    /// Bytes that were read, but have no place to go yet.
    unread: BytesMut,
    /// Whether the client sends nothing more.
    ends: bool,
    /// Whether the next message must wait for a confirmation.
    is_changing: bool,
}

/// Progress of a connection.
enum Stage {
    Connecting(Pin<Box<dyn Future<Output = io::Result<Dialled>>>>),
    Open(Box<DialledStream>),
}

/// Kind of the next reply.
enum Awaited {
    /// The reply to a client's request.
    Answer,
    /// The reply to a step of [`Setup::bring`].
    Step(SetupStep),
    /// A reply that nobody needs.
    Ignored,
    /// Tells whether the mark of a master is there.
    Mark,
    /// Tells whether it is a master or a replica.
    Role,
    /// Tells which database a transaction has left selected, and stores it here.
    Database(Rc<Cell<Option<u32>>>),
    /// Confirmations of a subscription or an unsubscription, of which `left` are still to come.
    Confirmations { left: usize, then: Confirmed },
}

/// Called when a change of subscriptions is confirmed, or with the error that the data Redis sends instead.
pub type Confirmed = Box<dyn FnOnce(Result<(), &[u8]>)>;

/// Reason why a connection was lost.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It could not be opened, or broke.
    #[error("{0}")]
    Network(#[from] io::Error),
    /// The data Redis has closed it.
    #[error("it closed the connection")]
    Closed,
    /// It is not a data Redis.
    #[error("it says: {0}")]
    Refused(String),
    /// The client has become another user while something that it began was still open.
    #[error("the client has logged in as another user")]
    AnotherUser,
    /// Sentinels name it, but it replicates another one.
    #[error(
        "it is a replica, and its sentinels must name a master: wait until the fail-over is done"
    )]
    Replica,
    /// Sentinels have named another one.
    #[error("its sentinels have named another master")]
    Replaced,
    /// Something else listens at its address.
    #[error(transparent)]
    NotRedis(#[from] NotRedis),
}

/// Whether a request can be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Yes, at once.
    Now,
    /// Only after the data Redis has answered, or has taken more bytes.
    Later,
    /// The data Redis refuses the setup that the client wants. The request gets this error, and the next one tries
    /// again.
    Refused(String),
}

impl DataConnection {
    /// Starts to connect.
    pub fn open(upstream: &Upstream) -> Self {
        let is_followed = upstream.whereabouts().is_some();
        let upstream = upstream.clone();
        let connecting = async move { upstream.dial().await };
        Self {
            stage: Stage::Connecting(Box::pin(connecting)),
            replaced: None,
            is_followed,
            setup: Setup::default(),
            is_questioned: false,
            is_waited_for: false,
            refusal: None,
            requests: BytesMut::new(),
            awaited: VecDeque::new(),
            replies: ReplyExtents::default(),
            beginning: Vec::new(),
            description: Vec::new(),
            amid: None,
            unread: BytesMut::new(),
            ends: false,
            is_changing: false,
        }
    }

    /// Asks which database is selected, after a transaction that may select one was passed on.
    pub fn ask_for_database(&mut self, chosen: &Rc<Cell<Option<u32>>>) {
        self.requests.extend_from_slice(b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n");
        self.awaited.push_back(Awaited::Database(Rc::clone(chosen)));
    }

    /// Whether that reply is still to come.
    pub fn is_choosing(&self) -> bool {
        self.awaited.iter().any(|it| matches!(it, Awaited::Database(_)))
    }

    /// Passes a request on. Its reply is the next one that the [`Recipient`] gets.
    pub fn request(&mut self, bytes: &[u8]) {
        self.requests.extend_from_slice(bytes);
        self.awaited.push_back(Awaited::Answer);
    }

    /// Passes on more bytes of the last request.
    pub fn more(&mut self, bytes: &[u8]) {
        self.requests.extend_from_slice(bytes);
    }

    /// Returns how many more bytes may be passed on now.
    pub fn room(&self) -> usize {
        REQUESTS_TO_STOP_READING.saturating_sub(self.requests.len())
    }

    /// Sends requests besides the client's, and ignores their `replies` replies.
    pub fn say(&mut self, requests: &[u8], replies: usize) {
        self.requests.extend_from_slice(requests);
        self.awaited.extend((0..replies).map(|_| Awaited::Ignored));
    }

    /// Subscribes to channels, or unsubscribes from them, for which `confirmations` replies come.
    pub fn subscribe(&mut self, request: &[u8], confirmations: usize, then: Confirmed) {
        self.requests.extend_from_slice(request);
        self.awaited.push_back(Awaited::Confirmations { left: confirmations, then });
    }

    /// Notes that the client will send no more. Redis learns that as well, once all requests are written.
    pub fn end_of_requests(&mut self) {
        self.ends = true;
    }

    /// Whether the client waits for an answer.
    pub fn is_awaited(&self) -> bool {
        self.awaited.iter().any(|it| matches!(it, Awaited::Answer))
    }

    /// Returns the memory it takes, in bytes.
    pub fn held(&self) -> usize {
        let awaited = self.awaited.capacity() * size_of::<Awaited>();
        self.requests.capacity() + self.unread.capacity() + awaited
    }

    /// Writes requests, and hands replies `to` their recipient while it has room for them. Returns whether anything has
    /// happened. While subscriptions are `changing` elsewhere, no message is passed between replies.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        to: &impl Recipient,
        changing: bool,
        buffer: &mut [u8],
    ) -> Result<bool, Lost> {
        let mut has_happened = false;
        self.is_changing = changing;
        if let Stage::Connecting(connecting) = &mut self.stage {
            let Poll::Ready(connected) = connecting.as_mut().poll(cx) else { return Ok(false) };
            let Dialled { stream, tenure } = connected?;
            self.stage = Stage::Open(Box::new(stream));
            self.replaced = tenure.map(|mut it| Box::pin(async move { it.ended().await }) as _);
            has_happened = true;
        }
        self.poll_replaced(cx)?;
        has_happened |= self.poll_write(cx)?;
        has_happened |= self.poll_read(cx, to, buffer)?;
        Ok(has_happened)
    }

    /// Fails once the master was replaced. Aborts the connection, so that requests still on their way do not arrive
    /// when the old master wakes up.
    fn poll_replaced(&mut self, cx: &mut Context<'_>) -> Result<(), Lost> {
        let Some(replaced) = &mut self.replaced else { return Ok(()) };
        if replaced.as_mut().poll(cx).is_pending() {
            return Ok(());
        }
        self.replaced = None;
        if let Stage::Open(stream) = &self.stage {
            stream.abort_on_close();
        }
        Err(Lost::Replaced)
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
}

impl Awaited {
    /// Whether the client's next request must wait for this reply.
    fn is_waited_for(&self) -> bool {
        match self {
            Self::Step(step) => *step != SetupStep::Optional,
            Self::Mark | Self::Role | Self::Database(_) => true,
            Self::Answer | Self::Ignored | Self::Confirmations { .. } => false,
        }
    }
}

impl Drop for DataConnection {
    fn drop(&mut self) {
        for awaited in self.awaited.drain(..) {
            if let Awaited::Confirmations { then, .. } = awaited {
                then(Err(b"ERR the connection to the data Redis was lost: connect again"));
            }
        }
    }
}
