//! The connection of one client to the data Redis.
//!
//! It belongs to this client alone, is made when the client first needs it and ends with it. So whatever a connection
//! can be there (in a transaction, subscribed, blocked, watching) is Redis's own affair: bytes pass through unchanged.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::answers::{Said, error_text, is_question, must_be_master, must_have_no_mark, selected};
use super::replies::{Head, NotRedis, Replies};
use super::setup::{Setup, Step};
use super::upstream::{Dialled, Upstream};
use crate::client::reply::Protocol;
use crate::client::session::PASS_BUFFER;
use crate::flush::poll_flush;
use crate::master::dial::{Connection, Stream as _};
use crate::operation::request;
use crate::reserved::MARK;

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

/// What some bytes belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// The reply to a request of the client.
    Answer,
    /// The reply to something that nobody but this connection has said.
    Own,
    /// One of the confirmations.
    Confirmation,
    /// A message, which answers nothing.
    Message,
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

/// Takes the replies to requests that were passed on, and messages, while their bytes come.
pub trait Recipient {
    /// Whether the reply whose turn it is may come from the data Redis, and there is room for it.
    fn may_pass(&self) -> bool;
    /// Takes a piece of that reply.
    fn pass(&self, piece: &[u8]);
    /// Learns that this was its last piece; `error` is its text, if it is one.
    fn passed(&self, error: Option<&[u8]>);
    /// Whether a message can begin or go on here, and there is room for it.
    fn may_pass_message(&self) -> bool;
    /// Takes a piece of a message, its last one if it `ends`.
    fn pass_message(&self, piece: &[u8], ends: bool);
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

    /// Whether a request of a client that is to be `wanted` can be passed on. If it has to be brought to that first,
    /// this begins with it.
    pub fn ready(&mut self, wanted: &Setup) -> Ready {
        if self.requests.len() >= REQUESTS_TO_STOP_READING {
            return Ready::Later;
        }
        if self.setup != *wanted || !self.is_questioned {
            if !self.awaited.is_empty() {
                self.is_waited_for = true;
                return Ready::Later;
            }
            if let Some(refusal) = self.refusal.take() {
                self.is_waited_for = false;
                return Ready::Refused(refusal);
            }
            self.bring(wanted);
        }
        let is_set_up = !self.awaited.iter().any(Awaited::is_waited_for);
        let is_ready = is_set_up && matches!(self.stage, Stage::Open(_));
        self.is_waited_for = !is_ready;
        if !is_ready {
            return Ready::Later;
        }
        self.refusal = None;
        Ready::Now
    }

    /// Asks to be brought to `wanted`. Each step counts at once, and no more when it is refused.
    fn bring(&mut self, wanted: &Setup) {
        let mut requests = Vec::new();
        let steps = wanted.bring(&self.setup, &mut requests);
        self.requests.extend_from_slice(&requests);
        self.awaited.extend(steps.into_iter().map(Awaited::Step));
        // To somebody who was not let in it has said nothing.
        self.is_questioned &= self.setup.login == wanted.login;
        self.setup = wanted.clone();
        self.question();
    }

    /// Whether a client that is to be `wanted` may have it which nobody has used yet: it is open still, and nothing has come
    /// that was not asked for. Only the system knows that at once.
    pub fn is_fit_for(&mut self, wanted: &Setup) -> bool {
        let mut unheard = Context::from_waker(Waker::noop());
        let is_replaced =
            |it: &mut Pin<Box<dyn Future<Output = ()>>>| it.as_mut().poll(&mut unheard).is_ready();
        let Stage::Open(stream) = &self.stage else { return false };
        let is_idle = self.awaited.is_empty() && self.requests.is_empty();
        let is_silent = self.unread.is_empty() && stream.is_silent();
        let is_let_in = self.is_questioned && self.setup.login == wanted.login;
        is_idle && is_silent && is_let_in && !self.replaced.as_mut().is_some_and(is_replaced)
    }

    /// What the data Redis has said to a request that waits, before it is told by [`Self::ready`].
    pub fn refusal(&mut self) -> Option<String> {
        self.refusal.take()
    }

    /// A master of locks is no data Redis, and neither is a replica. Asked of each connection: a name may lead elsewhere
    /// tomorrow.
    fn question(&mut self) {
        if std::mem::replace(&mut self.is_questioned, true) {
            return;
        }
        self.ask(&[b"EXISTS", MARK.as_bytes()], Awaited::Mark);
        if self.is_followed {
            // `ROLE` says it as well, but not to limited users. Redis 6 and later say it in `HELLO`, which is for all.
            let is_resp3 = self.setup.protocol == Protocol::Resp3;
            let version: &[u8] = if is_resp3 { b"3" } else { b"2" };
            self.ask(&[b"HELLO", version], Awaited::Role);
        }
    }

    fn ask(&mut self, words: &[&[u8]], awaited: Awaited) {
        let mut request = Vec::new();
        request::encode(&mut request, words);
        self.requests.extend_from_slice(&request);
        self.awaited.push_back(awaited);
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

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        to: &impl Recipient,
        buffer: &mut [u8],
    ) -> Result<bool, Lost> {
        let mut has_happened = false;
        if !self.unread.is_empty() {
            let unread = std::mem::take(&mut self.unread);
            let passed = self.pass(&unread, to)?;
            has_happened = passed > 0;
            self.keep(&unread[passed..]);
        }
        // Until nothing is there, for only then is the task woken when something comes.
        while self.unread.is_empty() && self.has_room(to) {
            let Poll::Ready(read) = self.poll_read_some(cx, buffer) else { break };
            let read = read?;
            if read == 0 {
                return Err(Lost::Closed);
            }
            let passed = self.pass(&buffer[..read], to)?;
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
    fn has_room(&self, to: &impl Recipient) -> bool {
        match (self.amid, self.awaited.front()) {
            (Some(Piece::Answer), _) => to.may_pass(),
            (None, None) if self.is_changing => false,
            (Some(Piece::Message), _) | (None, None) => to.may_pass_message(),
            (None, Some(Awaited::Answer)) => to.may_pass(),
            _ => true,
        }
    }

    fn keep(&mut self, rest: &[u8]) {
        self.unread.extend_from_slice(rest);
    }

    /// Gives each reply to whom it belongs; says how many of the bytes had a place to go.
    fn pass(&mut self, bytes: &[u8], to: &impl Recipient) -> Result<usize, Lost> {
        let mut rest = bytes;
        while !rest.is_empty() && self.has_room(to) {
            let found = self.replies.read(rest)?;
            let (piece, after) = rest.split_at(found.bytes);
            rest = after;
            let head = self.replies.head();
            let Some(what) = self.amid.or_else(|| self.recognise(head, found.ended.is_some()))
            else {
                self.beginning.extend_from_slice(piece);
                continue;
            };
            let begins = self.amid.replace(what).is_none();
            let whole;
            let piece = if self.beginning.is_empty() {
                piece
            } else {
                whole = [&std::mem::take(&mut self.beginning)[..], piece].concat();
                &whole[..]
            };
            let error = if begins { error_text(piece) } else { None };
            self.give(what, piece, found.ended, error, to)?;
            if found.ended.is_some() {
                self.amid = None;
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// What the reply is that has begun; `None`: too little of it is here. Messages come between replies: in RESP3 they
    /// have a type of their own, and in RESP2 a client that has subscribed is answered nothing else here.
    fn recognise(&self, head: Head, has_ended: bool) -> Option<Piece> {
        let Some(awaited) = self.awaited.front() else { return Some(Piece::Message) };
        match (awaited, head.kind) {
            (_, 0) => None,
            (Awaited::Confirmations { .. }, b'*' | b'>') => {
                let is_confirmation = || head.label().ends_with(b"subscribe");
                let known = has_ended || head.is_labelled();
                known.then(|| if is_confirmation() { Piece::Confirmation } else { Piece::Message })
            }
            (Awaited::Confirmations { .. }, _) => Some(Piece::Confirmation),
            (_, b'>') => Some(Piece::Message),
            (Awaited::Answer, _) => Some(Piece::Answer),
            (Awaited::Step(_) | Awaited::Ignored | Awaited::Mark, _) => Some(Piece::Own),
            (Awaited::Role | Awaited::Database(_), _) => Some(Piece::Own),
        }
    }

    fn give(
        &mut self,
        what: Piece,
        piece: &[u8],
        ended: Option<Head>,
        error: Option<&[u8]>,
        to: &impl Recipient,
    ) -> Result<(), Lost> {
        match what {
            Piece::Answer => {
                to.pass(piece);
                if let Some(head) = ended {
                    self.awaited.pop_front();
                    to.passed(head.is_error().then(|| error.unwrap_or(UNREAD_ERROR)));
                }
            }
            Piece::Message if is_question(piece) => {}
            Piece::Message => to.pass_message(piece, ended.is_some()),
            Piece::Own => {
                if let Some(Awaited::Database(_) | Awaited::Role) = self.awaited.front() {
                    self.description.extend_from_slice(piece);
                }
                if ended.is_some() {
                    self.own_reply(piece, error)?;
                }
            }
            Piece::Confirmation if ended.is_some() => self.confirm(error),
            Piece::Confirmation => {}
        }
        Ok(())
    }

    /// The reply to something that this connection has said itself is here: its last piece, and what it
    /// says if it is an error.
    fn own_reply(&mut self, last: &[u8], error: Option<&[u8]>) -> Result<(), Lost> {
        match self.awaited.pop_front() {
            Some(Awaited::Step(step)) => self.step_answered(step, error),
            Some(Awaited::Mark) => {
                let said = must_have_no_mark(last)?;
                self.question_answered(said);
            }
            Some(Awaited::Role) => {
                let said = std::mem::take(&mut self.description);
                self.question_answered(must_be_master(&said)?);
            }
            Some(Awaited::Database(chosen)) => {
                let selected = selected(&std::mem::take(&mut self.description));
                // Where it cannot be told, the client goes back to where it was.
                self.setup.db = selected.unwrap_or(u32::MAX);
                if selected.is_some() {
                    chosen.set(selected);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A step that was refused has not been taken. The request that waits for it gets the error, as it would have got it
    /// from one Redis, and does not run.
    fn step_answered(&mut self, step: Step, error: Option<&[u8]>) {
        let Some(error) = error else { return };
        if step != Step::Optional {
            self.refuse(error);
        }
        self.setup.undo(step);
    }

    /// What was not answered is asked again.
    fn question_answered(&mut self, said: Said<'_>) {
        if let Said::NotNow(error) = said {
            self.is_questioned = false;
            self.refuse(error);
        }
    }

    /// The first error is the reason of all others.
    fn refuse(&mut self, error: &[u8]) {
        if self.is_waited_for && self.refusal.is_none() {
            self.refusal = Some(String::from_utf8_lossy(error).into_owned());
        }
    }

    /// One confirmation has come, or an error instead of all of them.
    fn confirm(&mut self, error: Option<&[u8]>) {
        let Some(Awaited::Confirmations { left, .. }) = self.awaited.front_mut() else { return };
        *left -= 1;
        if (*left == 0 || error.is_some())
            && let Some(Awaited::Confirmations { then, .. }) = self.awaited.pop_front()
        {
            then(error.map_or(Ok(()), Err));
        }
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

/// What an error is counted as whose first piece had no whole line.
const UNREAD_ERROR: &[u8] = b"ERR";
