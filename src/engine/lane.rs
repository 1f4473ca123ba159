//! A second connection from a worker to a master, for answers that may be large: a vote never waits behind one of
//! them in its own pipe.
//!
//! One question is asked at a time. The connection is made when there is one, and closed when there has been none for a
//! while. What has not come in time is ended by closing the connection: the master drops what it has not sent yet.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::link::Link;
use super::link::stretch::{PROOF, PROOF_REPLIES};
use crate::decision::roster::term::Term;
use crate::masters::dial::{CONNECT_TIMEOUT, Dial, Stream};
use crate::operation::request::{self, Number};
use crate::resp::answer::Decoder;
use crate::resp::flat;
use crate::time::clock::{self, Instant};

/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(10);

/// How long a master may say nothing while it owes an answer.
const SILENCE: Duration = Duration::from_secs(5);

/// How often it is looked meanwhile whether its votes still count, where nobody waits for longer.
const LOOK: Duration = Duration::from_millis(50);

/// How much is read at once, before others get their turn.
const READ_BUFFER: usize = 64 << 10;

/// Whoever asks is on one end, the task that has the connection on the other.
#[derive(Debug)]
pub struct Lane {
    /// How many questions are not answered yet.
    waiting: Cell<usize>,
    questions: mpsc::UnboundedSender<Question>,
    inbox: RefCell<Option<mpsc::UnboundedReceiver<Question>>>,
}

#[derive(Debug)]
struct Question {
    db: u32,
    requests: Vec<u8>,
    /// How many replies these requests have.
    replies: usize,
    patience: Patience,
    term: Rc<Term>,
    answer: oneshot::Sender<Result<Bytes, Lost>>,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as the master is heard by the link: a page is made in no time.
    Page,
    /// For some seconds, in which the link may give the master up: it is busy with this.
    Large,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It did not come in time. The master may still be busy with it.
    TimedOut,
    /// The master cannot be reached, or has closed the connection.
    Unreachable,
}

impl Default for Lane {
    fn default() -> Self {
        let (questions, inbox) = mpsc::unbounded_channel();
        Self { waiting: Cell::new(0), questions, inbox: RefCell::new(Some(inbox)) }
    }
}

impl Lane {
    /// The answers to pipelined requests for database `db`, one behind the other.
    ///
    /// # Errors
    /// The answer is unknown, or the master has not proved in this `term` that it remembers.
    ///
    /// # Cancel safety
    /// What nobody awaits any more is not asked. A master that is at it already cannot be stopped.
    pub async fn ask(
        &self,
        db: u32,
        requests: Vec<u8>,
        replies: usize,
        patience: Patience,
        term: Rc<Term>,
    ) -> Result<Bytes, Lost> {
        let (answer, answered) = oneshot::channel();
        let question = Question { db, requests, replies, patience, term, answer };
        let _waiting = Waiting::of(&self.waiting);
        self.questions.send(question).map_err(|_| Lost::Unreachable)?;
        answered.await.unwrap_or(Err(Lost::Unreachable))
    }

    /// How many wait for an answer on it.
    pub fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Answers for ever. The connection leads to the process that `link` knows, or there is none.
    pub async fn run(self: Rc<Self>, dial: impl Dial, link: Rc<Link>) {
        let Some(mut inbox) = self.inbox.take() else { return };
        let mut connection = None;
        loop {
            let question = match &connection {
                None => inbox.recv().await,
                Some(_) => match tokio::time::timeout(IDLE, inbox.recv()).await {
                    Ok(question) => question,
                    Err(_) => {
                        connection = None;
                        continue;
                    }
                },
            };
            let Some(mut question) = question else { return };
            if question.answer.is_closed() {
                continue;
            }
            let mut requests = std::mem::take(&mut question.requests);
            requests.extend_from_slice(&PROOF);
            let request = Request {
                db: question.db,
                bytes: &requests,
                replies: question.replies + PROOF_REPLIES,
                patience: question.patience,
            };
            let sent = clock::now();
            let answered = answered(&dial, &link, connection.take(), request).await;
            let answer = answered.and_then(|(kept, bytes)| {
                connection = Some(kept);
                proved(&link, &question, sent, bytes).ok_or(Lost::Unreachable)
            });
            let _ = question.answer.send(answer);
        }
    }
}

/// The answers without the proof behind them, if that proves them.
fn proved(link: &Link, question: &Question, sent: Instant, bytes: Bytes) -> Option<Bytes> {
    let mut rest = &bytes[..];
    for _ in 0..question.replies {
        rest = flat::split_frame(rest)?.1;
    }
    let end = bytes.len() - rest.len();
    let (time, raw) = Decoder::default().decode(rest).ok()??;
    let continues = link.continues_at(&question.term, sent, clock::now(), &time);
    let mark = flat::bulk(&rest[raw.len()..]).unwrap_or_default();
    let proof = question.term.proof(link.master(), question.db)?;
    let seal = proof.check_stored(mark, continues).filter(|_| link.votes_in(&question.term));
    // Whoever compares such answers asks again when the version changes between them.
    if seal.is_none_or(|seal| seal.version() != question.term.version()) {
        link.attend();
        return None;
    }
    Some(bytes.slice(..end))
}

/// Counts one who waits, until it is dropped.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn of(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[derive(Clone, Copy)]
struct Request<'a> {
    db: u32,
    bytes: &'a [u8],
    replies: usize,
    patience: Patience,
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::TimedOut { Self::TimedOut } else { Self::Unreachable }
    }
}

/// A connection that was idle may have been closed meanwhile: then a new one is tried. What was not answered in time
/// is not asked again.
async fn answered<D: Dial>(
    dial: &D,
    link: &Link,
    idle: Option<Connection<D::Stream>>,
    request: Request<'_>,
) -> Result<(Connection<D::Stream>, Bytes), Lost> {
    if let Some(mut connection) = idle {
        match connection.ask(link, request).await.map_err(Lost::from) {
            Ok(bytes) => return Ok((connection, bytes)),
            Err(Lost::TimedOut) => return Err(Lost::TimedOut),
            Err(Lost::Unreachable) => {}
        }
    }
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, Connection::open(dial, link)).await;
    // It has not been asked yet.
    let mut connection = connected.ok().and_then(Result::ok).ok_or(Lost::Unreachable)?;
    let bytes = connection.ask(link, request).await?;
    Ok((connection, bytes))
}

struct Connection<S> {
    stream: S,
    db: u32,
}

impl<S: Stream> Connection<S> {
    async fn open<D: Dial<Stream = S>>(dial: &D, link: &Link) -> io::Result<Self> {
        let known = link.facts().filter(|_| link.is_up()).ok_or(ErrorKind::NotConnected)?;
        let mut stream = dial.dial(link.address()).await?;
        stream.abort_on_close();
        link.hello(&mut stream, &known.run_id).await.map_err(io::Error::other)?;
        Ok(Self { stream, db: 0 })
    }

    async fn ask(&mut self, link: &Link, request: Request<'_>) -> io::Result<Bytes> {
        if self.db != request.db {
            let mut bytes = Vec::new();
            let db = i64::from(request.db);
            request::encode(&mut bytes, &[b"SELECT", Number::default().digits(db)]);
            let select = Request { bytes: &bytes, replies: 1, ..request };
            if self.exchange(link, select).await? != b"+OK\r\n"[..] {
                return Err(ErrorKind::InvalidData.into());
            }
            self.db = request.db;
        }
        self.exchange(link, request).await
    }

    async fn exchange(&mut self, link: &Link, request: Request<'_>) -> io::Result<Bytes> {
        let (mut reader, mut writer) = tokio::io::split(&mut self.stream);
        // A long pipeline is answered while it is still being written.
        let write = async {
            writer.write_all(request.bytes).await?;
            writer.flush().await
        };
        let read = read(&mut reader, link, request);
        let ((), bytes) = tokio::try_join!(write, read)?;
        Ok(bytes)
    }
}

/// Reads so many replies.
async fn read(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    link: &Link,
    request: Request<'_>,
) -> io::Result<Bytes> {
    let (mut buffer, mut decoder) = (BytesMut::new(), Decoder::default());
    let (mut end, mut missing) = (0, request.replies);
    loop {
        while missing > 0
            && let Some((_, raw)) = decoder.decode(&buffer[end..]).map_err(io::Error::other)?
        {
            end += raw.len();
            missing -= 1;
        }
        if missing == 0 && end == buffer.len() {
            return Ok(buffer.freeze());
        }
        if missing == 0 {
            return Err(io::Error::other("it said more than it was asked"));
        }
        buffer.reserve(READ_BUFFER);
        if read_once(stream, link, request.patience, &mut buffer).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        // One answer may be as long as everything that others are waiting for.
        tokio::task::yield_now().await;
    }
}

async fn read_once(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    link: &Link,
    patience: Patience,
    buffer: &mut BytesMut,
) -> io::Result<usize> {
    let mut silent = Duration::ZERO;
    let goes_on = || patience == Patience::Large || link.is_up();
    while silent < SILENCE && goes_on() {
        let mut some = (&mut *stream).take(READ_BUFFER as u64);
        match tokio::time::timeout(LOOK, some.read_buf(buffer)).await {
            Ok(read) => return read,
            Err(_) => silent += LOOK,
        }
    }
    Err(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_page_is_waited_for_when_the_link_is_down() {
        let (mut ours, _theirs) = tokio::io::duplex(64);
        let request = Request { db: 0, bytes: b"", replies: 1, patience: Patience::Page };
        let error = read(&mut ours, &Link::for_tests(), request).await.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_asks_nobody_in_vain_is_told() {
        let lane = Lane::default();
        drop(lane.inbox.take());
        let answer = lane.ask(0, Vec::new(), 1, Patience::Page, Rc::default()).await;
        assert_eq!((answer, lane.waiting()), (Err(Lost::Unreachable), 0));
    }
}
