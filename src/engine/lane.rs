//! A second connection from a worker to a master, for answers that may be large: a vote never waits behind one of
//! them in its own pipe.
//!
//! One question is asked at a time. The connection is made when there is one, and closed when there has been none for a
//! while. What has not come in time is ended by closing the connection: the master drops what it has not sent yet.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

use super::connection::{self, Connection};
use super::link::Link;
use super::proof::{PROOF, PROOF_REPLIES};
use crate::decision::roster::term::Term;
use crate::masters::dial::{CONNECT_TIMEOUT, Dial};
use crate::resp::answer::Decoder;
use crate::resp::flat;
use crate::time::clock;

/// The time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(10);

/// The time for which a master may say nothing while it owes an answer.
const SILENCE: Duration = Duration::from_secs(5);

/// Looks whether its votes still count come at this interval meanwhile, where nobody waits for longer.
const LOOK: Duration = Duration::from_millis(50);

/// Whoever asks is on one end, the task that has the connection on the other.
#[derive(Debug)]
pub struct Lane {
    /// Questions that are not answered yet.
    waiting: Cell<usize>,
    questions: mpsc::UnboundedSender<Question>,
    inbox: RefCell<Option<mpsc::UnboundedReceiver<Question>>>,
}

#[derive(Debug)]
struct Question {
    db: u32,
    requests: Vec<u8>,
    /// The number of replies that these requests have.
    replies: usize,
    patience: Patience,
    term: Rc<Term>,
    answer: oneshot::Sender<Result<Bytes, LostAnswer>>,
}

/// The time for which an answer is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as the master is heard by the link: a page is made in no time.
    Page,
    /// For some seconds, in which the link may give the master up: it is busy with this.
    Large,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAnswer {
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
    ) -> Result<Bytes, LostAnswer> {
        let (answer, answered) = oneshot::channel();
        let question = Question { db, requests, replies, patience, term, answer };
        let _waiting = Waiting::of(&self.waiting);
        self.questions.send(question).map_err(|_| LostAnswer::Unreachable)?;
        answered.await.unwrap_or(Err(LostAnswer::Unreachable))
    }

    /// The number of those who wait for an answer on it.
    pub fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Answers for ever. The connection leads to the process that `link` knows, or there is none.
    pub async fn run(self: Rc<Self>, dial: impl Dial, link: Rc<Link>) {
        let Some(mut inbox) = self.inbox.take() else { return };
        let mut pipe = None;
        while let Some(mut question) = next(&mut inbox, &mut pipe).await {
            if !question.answer.is_closed() {
                let answer = answer(&dial, &link, &mut pipe, &mut question).await;
                let _ = question.answer.send(answer);
            }
        }
    }
}

/// The next question. When there is none for a while, the connection is closed.
async fn next<S>(
    inbox: &mut mpsc::UnboundedReceiver<Question>,
    pipe: &mut Option<Pipe<S>>,
) -> Option<Question> {
    if pipe.is_some() {
        match tokio::time::timeout(IDLE, inbox.recv()).await {
            Ok(question) => return question,
            Err(_) => *pipe = None,
        }
    }
    inbox.recv().await
}

/// Asks a question with a proof behind it.
async fn answer<D: Dial>(
    dial: &D,
    link: &Link,
    pipe: &mut Option<Pipe<D::Stream>>,
    question: &mut Question,
) -> Result<Bytes, LostAnswer> {
    let mut requests = std::mem::take(&mut question.requests);
    requests.extend_from_slice(&PROOF);
    let request = Request {
        db: question.db,
        bytes: &requests,
        replies: question.replies + PROOF_REPLIES,
        patience: question.patience,
    };
    let sent_us = link.proofs().now_us();
    let (kept, bytes) = answered(dial, link, pipe.take(), request).await?;
    *pipe = Some(kept);
    proved(link, question, sent_us, bytes).ok_or(LostAnswer::Unreachable)
}

/// The answers without the proof behind them, if that proves them.
fn proved(link: &Link, question: &Question, sent_us: i64, bytes: Bytes) -> Option<Bytes> {
    let mut rest = &bytes[..];
    for _ in 0..question.replies {
        rest = flat::split_frame(rest)?.1;
    }
    let end = bytes.len() - rest.len();
    let (proofs, term) = (link.proofs(), &question.term);
    let (time, raw) = Decoder::default().decode(rest).ok()??;
    let (mark, _) = Decoder::default().decode(&rest[raw.len()..]).ok()??;
    let continued = proofs.continued(sent_us, clock::now(), &time);
    let seal = proofs.check(term, question.db, &mark, continued)?;
    // Whoever compares such answers asks again when the version changes between them.
    if !link.votes_in(term) || seal.version() != term.version() {
        proofs.attend();
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

impl From<io::Error> for LostAnswer {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::TimedOut { Self::TimedOut } else { Self::Unreachable }
    }
}

/// A connection that was idle may have been closed meanwhile: then a new one is tried. What was not answered in time
/// is not asked again.
async fn answered<D: Dial>(
    dial: &D,
    link: &Link,
    idle: Option<Pipe<D::Stream>>,
    request: Request<'_>,
) -> Result<(Pipe<D::Stream>, Bytes), LostAnswer> {
    if let Some(mut pipe) = idle {
        match pipe.ask(link, request).await.map_err(LostAnswer::from) {
            Ok(bytes) => return Ok((pipe, bytes)),
            Err(LostAnswer::TimedOut) => return Err(LostAnswer::TimedOut),
            Err(LostAnswer::Unreachable) => {}
        }
    }
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, open(dial, link)).await;
    // It has not been asked yet.
    let mut pipe = opened.ok().flatten().ok_or(LostAnswer::Unreachable)?;
    let bytes = pipe.ask(link, request).await?;
    Ok((pipe, bytes))
}

/// To the process that the link leads to, and only while it does.
async fn open<D: Dial>(dial: &D, link: &Link) -> Option<Pipe<D::Stream>> {
    let known = link.facts().filter(|_| link.is_up())?;
    let opened = connection::open(dial, link.address(), &known.run_id).await;
    let (connection, _) = opened.ok()?;
    Some(Pipe { connection, db: 0 })
}

/// The connection, and the database that it has selected.
struct Pipe<S> {
    connection: Connection<S>,
    db: u32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Pipe<S> {
    async fn ask(&mut self, link: &Link, request: Request<'_>) -> io::Result<Bytes> {
        if self.db != request.db {
            let bytes = connection::select(request.db);
            let select = Request { bytes: &bytes, replies: 1, ..request };
            if self.exchange(link, select).await? != b"+OK\r\n"[..] {
                return Err(ErrorKind::InvalidData.into());
            }
            self.db = request.db;
        }
        self.exchange(link, request).await
    }

    /// The replies to a request, one behind the other.
    async fn exchange(&mut self, link: &Link, request: Request<'_>) -> io::Result<Bytes> {
        let (mut unsent, mut missing) = (request.bytes, request.replies);
        loop {
            missing -= self.pass(missing)?;
            if missing == 0 {
                let all = self.connection.replies.take_passed().filter(|_| unsent.is_empty());
                return all.ok_or_else(|| io::Error::other("it said more than it was asked"));
            }
            self.go_on(&mut unsent, link, request.patience).await?;
            // One answer may be as long as everything that others are waiting for.
            tokio::task::yield_now().await;
        }
    }

    /// Passes over replies that are there, but not more than `most`, and says how many these are.
    fn pass(&mut self, most: usize) -> io::Result<usize> {
        let (replies, mut passed) = (&mut self.connection.replies, 0);
        while passed < most
            && let Some((_, raw)) = replies.peek().map_err(io::Error::other)?
        {
            let len = raw.len();
            replies.pass(len);
            passed += 1;
        }
        Ok(passed)
    }

    /// Reads once, for as long as it makes sense to wait.
    async fn go_on(
        &mut self,
        unsent: &mut &[u8],
        link: &Link,
        patience: Patience,
    ) -> io::Result<()> {
        let mut silent = Duration::ZERO;
        let goes_on = || patience == Patience::Large || link.is_up();
        while silent < SILENCE && goes_on() {
            match tokio::time::timeout(LOOK, self.connection.exchange(unsent)).await {
                Ok(read) => return read,
                Err(_) => silent += LOOK,
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_page_is_waited_for_when_the_link_is_down() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let mut pipe = Pipe { connection: Connection::from(ours), db: 0 };
        let request = Request { db: 0, bytes: b"", replies: 1, patience: Patience::Page };
        let error = pipe.ask(&Link::for_tests(), request).await.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn who_asks_nobody_in_vain_is_told() {
        let lane = Lane::default();
        drop(lane.inbox.take());
        let answer = lane.ask(0, Vec::new(), 1, Patience::Page, Rc::default()).await;
        assert_eq!((answer, lane.waiting()), (Err(LostAnswer::Unreachable), 0));
    }
}
