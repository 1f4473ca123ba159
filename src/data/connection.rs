//! The connection of one client to the data Redis.
//!
//! It belongs to this client alone, is made when the client first needs it and ends with it. So whatever a connection
//! can be there (in a transaction, subscribed, blocked, watching) is Redis's own affair: bytes pass through unchanged.

//!
//! * `setting_up` brings it to what the client wants, `reading` is what becomes of the bytes that it sends.

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

use super::setup::{Setup, Step};
use super::upstream::{Dialled, Upstream};
use crate::client::outbox::Recipient;
use crate::masters::dial::{Connection, Stream as _};
use crate::net::write::poll_flush;
use crate::resp::PASS_BUFFER;
use crate::resp::extent::{NotRedis, Replies};

/// With so many bytes of requests that the data Redis has not taken yet, nothing more is read from the client.
const REQUESTS_TO_STOP_READING: usize = PASS_BUFFER;

/// A connection to the data Redis, or what becomes one.
pub struct DataConnection {
    stage: Stage,
    /// Resolves when sentinels name another data Redis, if sentinels choose it.
    replaced: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Sentinels choose it, so it has to say that it is a master.
    is_followed: bool,
    /// What it has been brought to.
    setup: Setup,
    /// It was asked what it is.
    is_questioned: bool,
    /// A request waits for what it is being brought to.
    is_waited_for: bool,
    /// What the data Redis has said to that instead.
    refusal: Option<String>,
    /// Requests on their way.
    requests: BytesMut,
    /// What is to be answered, in this order.
    awaited: VecDeque<Awaited>,
    replies: Replies,
    /// The beginning of a reply of which is not known yet what it is.
    beginning: Vec<u8>,
    /// What has come of an answer to [`Awaited::Database`] or [`Awaited::Role`].
    description: Vec<u8>,
    /// What the reply that has begun is, once that is known.
    amid: Option<Piece>,
    /// What was read and has no place to go yet.
    unread: BytesMut,
    /// The client sends nothing more.
    ends: bool,
    /// The next message has to wait for a confirmation.
    is_changing: bool,
}

/// How far it has come.
enum Stage {
    Connecting(Pin<Box<dyn Future<Output = io::Result<Dialled>>>>),
    Open(Box<Connection>),
}

/// What the next reply is.
enum Awaited {
    /// It answers the client.
    Answer,
    /// It answers a step of [`Setup::bring`].
    Step(Step),
    /// Nobody needs it.
    Ignored,
    /// It says whether there is the mark of a master.
    Mark,
    /// It says whether it is a master or a replica.
    Role,
    /// It says which database a transaction has left selected, which is told here.
    Database(Rc<Cell<Option<u32>>>),
    /// So many confirmations are still to come of what the client has subscribed to, or not any more.
    Confirmations { left: usize, then: Confirmed },
}

/// What follows when a change of subscriptions is confirmed; an error is what the data Redis says instead.
pub type Confirmed = Box<dyn FnOnce(Result<(), &[u8]>)>;

/// Why there is no such connection any more.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// It could not be made, or broke.
    #[error("{0}")]
    Network(#[from] io::Error),
    /// The data Redis has closed it.
    #[error("it closed the connection")]
    Closed,
    /// It is no data Redis.
    #[error("it says: {0}")]
    Refused(String),
    /// The client is somebody else now, in the middle of what it had begun.
    #[error("the client is somebody else now")]
    AnotherUser,
    /// Sentinels name it, and it follows another one.
    #[error(
        "it is a replica, and its sentinels have to name a master: wait for the end of the fail-over"
    )]
    Replica,
    /// Sentinels have named another one.
    #[error("its sentinels have named another master")]
    Replaced,
    /// There is something else at its address.
    #[error(transparent)]
    NotRedis(#[from] NotRedis),
}

/// Whether a request can be passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Now.
    Now,
    /// Not before the data Redis has answered, or has taken more.
    Later,
    /// The data Redis does not let the client be what it is to be, and says why: that is the answer to the request. The
    /// next one tries again.
    Refused(String),
}

impl DataConnection {
    /// Begins to connect.
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
            replies: Replies::default(),
            beginning: Vec::new(),
            description: Vec::new(),
            amid: None,
            unread: BytesMut::new(),
            ends: false,
            is_changing: false,
        }
    }

    /// A transaction that has just been passed on may select a database: asks which is selected then.
    pub fn ask_for_database(&mut self, chosen: &Rc<Cell<Option<u32>>>) {
        self.requests.extend_from_slice(b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n");
        self.awaited.push_back(Awaited::Database(Rc::clone(chosen)));
    }

    /// Whether that is not known yet.
    pub fn is_choosing(&self) -> bool {
        self.awaited.iter().any(|it| matches!(it, Awaited::Database(_)))
    }

    /// Passes a request on. Its reply is the next one that the [`Recipient`] gets.
    pub fn request(&mut self, bytes: &[u8]) {
        self.requests.extend_from_slice(bytes);
        self.awaited.push_back(Awaited::Answer);
    }

    /// Passes on more of the request before.
    pub fn more(&mut self, bytes: &[u8]) {
        self.requests.extend_from_slice(bytes);
    }

    /// How much more may be passed on now.
    pub fn room(&self) -> usize {
        REQUESTS_TO_STOP_READING.saturating_sub(self.requests.len())
    }

    /// Says something beside the client's requests, to which there are so many replies that nobody needs.
    pub fn say(&mut self, requests: &[u8], replies: usize) {
        self.requests.extend_from_slice(requests);
        self.awaited.extend((0..replies).map(|_| Awaited::Ignored));
    }

    /// Subscribes to something, or not any more, which is confirmed so many times.
    pub fn subscribe(&mut self, request: &[u8], confirmations: usize, then: Confirmed) {
        self.requests.extend_from_slice(request);
        self.awaited.push_back(Awaited::Confirmations { left: confirmations, then });
    }

    /// The client will send no more. Redis, too, learns that when it has answered.
    pub fn end_of_requests(&mut self) {
        self.ends = true;
    }

    /// Whether the client waits for an answer.
    pub fn is_awaited(&self) -> bool {
        self.awaited.iter().any(|it| matches!(it, Awaited::Answer))
    }

    /// How much memory it takes.
    pub fn held(&self) -> usize {
        let awaited = self.awaited.capacity() * size_of::<Awaited>();
        self.requests.capacity() + self.unread.capacity() + awaited
    }

    /// Writes requests, and hands replies `to` their recipient, while it has room for them. Says whether anything has
    /// happened. While subscriptions are `changing` elsewhere, no message comes between replies.
    ///
    /// # Errors
    /// It is lost.
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

    /// What is still on its way to a master that was replaced must not arrive when that one wakes up.
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
    /// Whether the client's next request has to wait for it.
    fn is_waited_for(&self) -> bool {
        match self {
            Self::Step(step) => *step != Step::Optional,
            Self::Mark | Self::Role | Self::Database(_) => true,
            Self::Answer | Self::Ignored | Self::Confirmations { .. } => false,
        }
    }
}

impl Drop for DataConnection {
    fn drop(&mut self) {
        for awaited in self.awaited.drain(..) {
            if let Awaited::Confirmations { then, .. } = awaited {
                then(Err(b"ERR the data Redis has gone: connect again"));
            }
        }
    }
}
