//! A second connection from a worker to a master, for answers that may be large. Votes never wait behind one in the
//! same pipe.
//!
//! One question is sent at a time. The connection is opened for the first question, and closed after a while without
//! any. A late answer is cut off by closing the connection: the master drops whatever it has not sent yet.

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

/// Time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(10);

/// Time for which a master may stay silent while it owes an answer.
const SILENCE: Duration = Duration::from_secs(5);

/// Interval between checks of whether the master's votes still count, unless a large answer is awaited.
const LOOK: Duration = Duration::from_millis(50);

/// Handle of callers; a task owns the connection.
#[derive(Debug)]
pub struct Lane {
    /// Number of questions without an answer yet.
    waiting: Cell<usize>,
    questions: mpsc::UnboundedSender<Question>,
    inbox: RefCell<Option<mpsc::UnboundedReceiver<Question>>>,
}

#[derive(Debug)]
struct Question {
    db: u32,
    requests: Vec<u8>,
    /// Number of replies to these requests.
    replies: usize,
    patience: Patience,
    term: Rc<Term>,
    answer: oneshot::Sender<Result<Bytes, LostAnswer>>,
}

/// Time limit for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as the link hears from the master: a page takes hardly any time.
    Page,
    /// A few seconds, in which the link may give up on the busy master.
    Large,
}

/// Reasons for a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostAnswer {
    /// It did not come in time. The master may still be working on it.
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
    /// Returns the concatenated answers to pipelined requests for database `db`.
    ///
    /// # Errors
    /// Returns an error if the answer is unknown, or the master has not proved in this `term` that it remembers.
    ///
    /// # Cancel safety
    /// If the future is dropped, a queued question is not sent. A master already working on it cannot be stopped.
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

    /// Returns the number of callers that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Answers questions forever. Connects only to the process known to `link`.
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

/// Returns the next question. After a while without any, the connection is closed.
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

/// Sends a question followed by a proof.
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
    let idle = pipe.take().filter(|pipe| link.leads_to(&pipe.run_id));
    let (kept, bytes) = answered(dial, link, idle, request).await?;
    if !link.leads_to(&kept.run_id) {
        // The clock of an instance that was replaced says nothing of its successor's.
        return Err(LostAnswer::Unreachable);
    }
    *pipe = Some(kept);
    proved(link, question, sent_us, bytes).ok_or(LostAnswer::Unreachable)
}

/// Returns the answers without the proof that follows, if it proves them.
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
    // Callers that compare such answers ask again if the version changes between them.
    if !link.votes_in(term) || seal.version() != term.version() {
        proofs.attend();
        return None;
    }
    Some(bytes.slice(..end))
}

/// Counts one waiting caller until dropped.
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

/// Asks over the idle connection, or over a new one if that has been closed meanwhile. A question that timed out is not
/// repeated.
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
    // The question has not been sent yet.
    let mut pipe = opened.ok().flatten().ok_or(LostAnswer::Unreachable)?;
    let bytes = pipe.ask(link, request).await?;
    Ok((pipe, bytes))
}

/// Connects to the process at the other end of the link, and only while the link is up.
async fn open<D: Dial>(dial: &D, link: &Link) -> Option<Pipe<D::Stream>> {
    let known = link.facts().filter(|_| link.is_up())?;
    let opened = connection::open(dial, &link.address()?, &known.run_id).await;
    let (connection, _) = opened.ok()?;
    Some(Pipe { connection, run_id: known.run_id, db: 0 })
}

/// The connection, the process at its other end, and its selected database.
struct Pipe<S> {
    connection: Connection<S>,
    run_id: String,
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

    /// Returns the concatenated replies to a request.
    async fn exchange(&mut self, link: &Link, request: Request<'_>) -> io::Result<Bytes> {
        let (mut unsent, mut missing) = (request.bytes, request.replies);
        loop {
            missing -= self.pass(missing)?;
            if missing == 0 {
                let all = self.connection.replies.take_passed().filter(|_| unsent.is_empty());
                return all.ok_or_else(|| io::Error::other("it sent more replies than requested"));
            }
            self.go_on(&mut unsent, link, request.patience).await?;
            // One answer may be as long as everything that others are waiting for.
            tokio::task::yield_now().await;
        }
    }

    /// Passes over available replies, at most `most`, and returns their number.
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

    /// Reads once. Gives up when the master is silent for too long, or a page's link is down.
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
        let (connection, run_id) = (Connection::from(ours), String::new());
        let mut pipe = Pipe { connection, run_id, db: 0 };
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
