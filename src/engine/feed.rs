//! A further connection from a worker to a master, on which the master tells by itself what happens there.
//!
//! It is separate from the [`Link`] that carries votes, and exists only while somebody wants to hear. Its owner makes
//! sense of what is told: see `pubsub` and `tracking`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::connection::Connection;
use super::link::Link;
use super::reader::Reader;
use super::silence::Silence;
use crate::client::timeslice::{self, TimeSlice};
use crate::config::MasterAddr;
use crate::masters::dial::{CONNECT_TIMEOUT, Dial};
use crate::operation::request;
use crate::resp::flat::Malformed;

/// The connection. `R` tells requests apart, so that their answers can be understood.
pub struct FeedConnection<R> {
    /// The link to the same master: it knows the address and how long silence may last.
    link: Rc<Link>,
    state: RefCell<State<R>>,
}

struct State<R> {
    out: BytesMut,
    /// Requests that the master has yet to answer; `None` is a ping.
    expected: VecDeque<Option<R>>,
    silence: Silence,
    waker: Option<Waker>,
}

/// Reasons why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum FeedDown {
    /// The master did not accept it in time.
    #[error("no connection within {}", humantime::format_duration(CONNECT_TIMEOUT))]
    ConnectTimeout,
    /// It broke, or was closed by the master.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The master sent what no Redis sends.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The master refused a request, with this error.
    #[error("it answered `{0}`")]
    Refused(String),
    /// The master owes answers for too long.
    #[error("it has stopped answering")]
    Silent,
    /// Another instance has taken the master's place.
    #[error("it was replaced")]
    Replaced,
}

impl<R> FeedConnection<R> {
    /// Returns a connection that [`FeedConnection::run`] opens.
    pub fn new(link: Rc<Link>) -> Self {
        Self { link, state: RefCell::default() }
    }

    /// Returns the link to the same master.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a request.
    pub fn send(&self, words: &[&[u8]], asked: R) {
        self.state.borrow_mut().send(words, Some(asked));
    }

    /// Takes the request that an answer belongs to; `None` if it was a ping.
    ///
    /// # Errors
    /// Returns [`Malformed`] if the master owes no answer.
    pub fn answered(&self) -> Result<Option<R>, Malformed> {
        self.state.borrow_mut().expected.pop_front().ok_or(Malformed)
    }

    /// Runs one connection, from its beginning to its end: `begin` sends the first requests, and `read` reads all that
    /// has arrived.
    pub async fn run(
        &self,
        dial: &impl Dial,
        begin: impl FnOnce(&MasterAddr),
        read: impl FnMut(&mut Reader) -> Result<(), FeedDown>,
    ) -> FeedDown {
        let address = self.link.somebody().await;
        let connection = match timeout(CONNECT_TIMEOUT, dial.dial(&address)).await {
            Ok(Ok(stream)) => Connection::from(stream),
            Ok(Err(error)) => return error.into(),
            Err(_) => return FeedDown::ConnectTimeout,
        };
        self.state.take();
        begin(&address);
        tokio::select! {
            biased;
            down = self.listen(connection, read) => down,
            down = self.watch(&address) => down,
        }
    }

    /// Resolves when the master has been silent for too long, or was replaced. Pings it when it has nothing else to
    /// answer.
    async fn watch(&self, address: &MasterAddr) -> FeedDown {
        loop {
            tokio::time::sleep(self.link.heartbeat_interval()).await;
            // This worker may have been the busy one: first, it reads what has arrived in the socket.
            tokio::task::yield_now().await;
            let state = &mut *self.state.borrow_mut();
            let owes = !state.expected.is_empty();
            if state.silence.lasts_too_long(owes) {
                return FeedDown::Silent;
            }
            if self.link.address().as_ref() != Some(address) {
                return FeedDown::Replaced;
            }
            if !owes {
                state.send(&[b"PING"], None);
            }
        }
    }

    /// Reads and writes until the connection is lost.
    async fn listen(
        &self,
        mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin>,
        mut read: impl FnMut(&mut Reader) -> Result<(), FeedDown>,
    ) -> FeedDown {
        poll_fn(|cx| match self.poll_once(&mut connection, &mut read, cx) {
            Ok(()) => Poll::Pending,
            Err(down) => Poll::Ready(down),
        })
        .await
    }

    /// Reads and writes all that is possible now.
    fn poll_once(
        &self,
        connection: &mut Connection<impl AsyncRead + AsyncWrite + Unpin>,
        read: &mut impl FnMut(&mut Reader) -> Result<(), FeedDown>,
        cx: &mut Context<'_>,
    ) -> Result<(), FeedDown> {
        let mut time = TimeSlice::default();
        while let Poll::Ready(arrived) = connection.poll_read(cx) {
            arrived?;
            self.state.borrow_mut().silence.ends();
            read(&mut connection.replies)?;
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
}

impl<R> State<R> {
    fn send(&mut self, words: &[&[u8]], asked: Option<R>) {
        let mut bytes = Vec::new();
        request::encode(&mut bytes, words);
        self.out.extend_from_slice(&bytes);
        self.expected.push_back(asked);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl<R> Default for State<R> {
    fn default() -> Self {
        Self {
            out: BytesMut::new(),
            expected: VecDeque::new(),
            silence: Silence::default(),
            waker: None,
        }
    }
}
