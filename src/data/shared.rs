//! A connection to the data Redis that clients share for short requests.
//!
//! `GET` and `SET` need nothing of a connection but a reply, and most requests of most clients are like them. Requests
//! of many clients then leave in one write, and one read gets their replies. Connections of their own would cost a
//! write and a read each, here and in the data Redis. A client that needs more gets its own connection, which takes
//! everything after that.
//!
//! No client waits for another: each has at most one request on the way, and replies are short. A long reply is
//! skipped, and its client asks for it again alone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use super::connection::{DataConnection, Lost, Ready};
use super::setup::Setup;
use super::upstream::Upstream;
use crate::client::outbox::{Outbox, Recipient, SentBack};

/// Size in bytes above which a reply does not suit a shared connection.
const LONG_REPLY: usize = 64 << 10;

/// Bytes read at once.
const READ_BUFFER: usize = 32 << 10;

/// Maximum shared connections of a worker: clients may choose among many databases.
const MOST: usize = 16;

/// A worker's shared connections, one for each setup that clients want.
#[derive(Default)]
pub struct SharedConnections(RefCell<Vec<Rc<SharedConnection>>>);

/// One shared connection.
pub struct SharedConnection {
    /// Setup that it is brought to.
    setup: Setup,
    requests: RefCell<Requests>,
}

/// Requests of a shared connection.
#[derive(Default)]
struct Requests {
    /// Requests not passed on yet.
    waiting: VecDeque<SharedRequest>,
    /// Requests passed on, in the order of their replies.
    asked: VecDeque<SharedRequest>,
    /// Bytes so far of the next reply.
    beginning: Vec<u8>,
    /// Whether the next reply was too long, and its request was sent back.
    is_passed_over: bool,
    /// Waker of the task that passes requests on.
    waker: Option<Waker>,
    /// Whether it takes no more requests.
    has_ended: bool,
}

/// A request, and the recipient of its reply.
pub struct SharedRequest {
    /// Request as sent to the data Redis.
    pub bytes: Box<[u8]>,
    /// Whether it changes nothing.
    pub is_read: bool,
    /// Outbox that gets the reply in its first slot.
    pub outbox: Rc<Outbox>,
}

impl SharedConnections {
    /// Returns the connection for clients that want `setup`, and opens it if needed; `None`: there are too many.
    pub fn of(self: &Rc<Self>, upstream: &Upstream, setup: &Setup) -> Option<Rc<SharedConnection>> {
        let known = self.0.borrow().iter().find(|it| it.serves(setup)).cloned();
        known.or_else(|| self.open(upstream, setup.shared()))
    }

    fn open(self: &Rc<Self>, upstream: &Upstream, setup: Setup) -> Option<Rc<SharedConnection>> {
        if self.0.borrow().len() >= MOST {
            return None;
        }
        let opened = Rc::new(SharedConnection { setup, requests: RefCell::default() });
        self.0.borrow_mut().push(Rc::clone(&opened));
        let (all, shared) = (Rc::clone(self), Rc::clone(&opened));
        let mut connection = DataConnection::open(upstream);
        tokio::task::spawn_local(async move {
            let mut buffer = vec![0; READ_BUFFER];
            let lost = poll_fn(|cx| shared.poll(cx, &mut connection, &mut buffer)).await;
            all.0.borrow_mut().retain(|it| !Rc::ptr_eq(it, &shared));
            shared.end(&lost);
        });
        Some(opened)
    }
}

impl SharedConnection {
    /// Whether it can take requests of a client that wants `setup`.
    pub fn serves(&self, setup: &Setup) -> bool {
        !self.requests.borrow().has_ended && setup.is_served_by(&self.setup)
    }

    /// Takes a request, to be passed on with those of others.
    pub fn request(&self, request: SharedRequest) {
        let requests = &mut *self.requests.borrow_mut();
        if requests.has_ended {
            // Nothing was passed on.
            return request.send_back(true);
        }
        requests.waiting.push_back(request);
        if let Some(waker) = requests.waker.take() {
            waker.wake();
        }
    }

    /// Passes requests on and reads replies, until the connection is lost.
    fn poll(
        &self,
        cx: &mut Context<'_>,
        connection: &mut DataConnection,
        buffer: &mut [u8],
    ) -> Poll<Lost> {
        loop {
            self.requests.borrow_mut().pass_on(connection, &self.setup);
            match connection.poll(cx, self, false, buffer) {
                Ok(true) => {}
                Ok(false) => {
                    self.requests.borrow_mut().waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Err(lost) => return Poll::Ready(lost),
            }
        }
    }

    /// Sends all requests back. Those that change nothing can be asked elsewhere; the outcome of any other is unknown.
    fn end(&self, lost: &Lost) {
        let requests = std::mem::take(&mut *self.requests.borrow_mut());
        self.requests.borrow_mut().has_ended = true;
        if !requests.asked.is_empty() || !requests.waiting.is_empty() {
            let count = requests.asked.len() + requests.waiting.len();
            tracing::debug!(
                count,
                "clients lost the connection to the data Redis that they share ({lost})"
            );
        }
        let passed_over = usize::from(requests.is_passed_over);
        for request in requests.asked.into_iter().skip(passed_over) {
            let is_read = request.is_read;
            request.send_back(is_read);
        }
        for request in requests.waiting {
            request.send_back(true);
        }
    }
}

impl Requests {
    /// Passes on all waiting requests at once, as soon as the connection is set up.
    fn pass_on(&mut self, connection: &mut DataConnection, setup: &Setup) {
        if self.waiting.is_empty() {
            return;
        }
        match connection.ready(setup) {
            Ready::Now => {}
            Ready::Later => return,
            // Each client gets this refusal over its own connection.
            Ready::Refused(_) => return self.waiting.drain(..).for_each(|it| it.send_back(true)),
        }
        while connection.room() > 0
            && let Some(request) = self.waiting.pop_front()
        {
            if !request.outbox.is_closed() {
                connection.request(&request.bytes);
                self.asked.push_back(request);
            }
        }
    }

    /// Skips the rest of a reply that is too long for the requests queued behind it, and sends its request back.
    fn pass_over(&mut self) {
        self.beginning = Vec::new();
        self.is_passed_over = true;
        if let Some(request) = self.asked.front_mut() {
            let bytes = std::mem::take(&mut request.bytes);
            request.outbox.send_back(SentBack::Again(bytes));
        }
    }
}

impl SharedRequest {
    /// Sends the request back to the client's session, which asks `again` if nothing was changed.
    fn send_back(self, again: bool) {
        let why = if again { SentBack::Again(self.bytes) } else { SentBack::Lost };
        self.outbox.send_back(why);
    }
}

impl Recipient for SharedConnection {
    fn may_pass(&self) -> bool {
        true
    }

    /// Keeps a reply until it is complete: a part that was handed out cannot be taken back.
    fn pass(&self, piece: &[u8]) {
        let requests = &mut *self.requests.borrow_mut();
        if requests.is_passed_over {
            return;
        }
        requests.beginning.extend_from_slice(piece);
        let may_be_repeated = requests.asked.front().is_some_and(|request| request.is_read);
        if may_be_repeated && requests.beginning.len() > LONG_REPLY {
            requests.pass_over();
        }
    }

    fn pass_long(&self, piece: Bytes) {
        self.pass(&piece);
    }

    fn passed(&self, error: Option<&[u8]>) {
        let requests = &mut *self.requests.borrow_mut();
        let Some(SharedRequest { outbox, .. }) = requests.asked.pop_front() else { return };
        if std::mem::take(&mut requests.is_passed_over) {
            return;
        }
        outbox.pass(&requests.beginning);
        outbox.passed(error);
        outbox.tell_session();
        requests.beginning.clear();
    }

    /// Shared connections have no subscriptions.
    fn may_pass_message(&self) -> bool {
        true
    }

    fn pass_message(&self, _: &[u8], _: bool) {}
}
