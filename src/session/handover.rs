//! Handing sessions over to another process, and taking them over from one.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;

use super::Dialogue;
use super::Session;
use crate::client::failed_logins::Attempts;
use crate::client::registry::Client;
use crate::client::registry::Peer;
use crate::context::caller::ReplyMode;
use crate::context::portable::{Departure, Portable, PortableConnection, SessionState};
use crate::context::waiting::{BlockingWait, Withdrawal};
use crate::context::worker::Worker;
use crate::resp::reply::Protocol;
use crate::resp::requests::{Args, Decoder};
use crate::time::clock::{self, Instant};
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::os::unix::net::UnixStream as StdUnixStream;
use tokio::net::{TcpStream, UnixStream};

/// Time for which a client that cannot be handed over must have been silent before it is disconnected instead.
const MOMENT: Duration = Duration::from_millis(100);

/// A waiting request, and the way to start it anew in another process.
#[derive(Debug)]
pub(super) struct Suspended {
    since: Instant,
    withdrawal: Rc<Withdrawal>,
}

impl Suspended {
    /// Returns the memory that the request takes.
    pub(super) fn held(&self) -> usize {
        self.withdrawal.request.borrow().capacity()
    }
}

impl<S: Portable> Session<S> {
    /// Returns a session that another process has begun.
    pub fn resumed(
        stream: S,
        worker: Rc<Worker>,
        client: Arc<Client>,
        state: &SessionState,
        unread: &[u8],
    ) -> Self {
        let mut session = Self::begun(stream, worker, client);
        session.dialogue.caller.db = state.client.words.db;
        session.dialogue.resume_login(state);
        if state.monitor {
            session.dialogue.caller.watch_requests();
        }
        session.dialogue.caller.replies = if state.silent { ReplyMode::Off } else { ReplyMode::On };
        let is_resp3 = state.client.words.resp == 3;
        let protocol = if is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        session.dialogue.caller.outbox.set_protocol(protocol);
        if let Some(options) = state.tracking.clone() {
            session.dialogue.caller.resume_tracking(options);
        }
        session.pending.extend_from_slice(unread);
        session.dialogue.waited = Duration::from_millis(state.waited_ms);
        session.dialogue.caller.attempts = Attempts::after(state.failed_logins);
        if !state.topics.is_empty() {
            let (hub, subscriber) = (
                Rc::clone(session.dialogue.caller.home.hub()),
                session.dialogue.caller.subscriber(),
            );
            hub.resume(&subscriber, state.topics.clone(), &state.has_heard);
        }
        session
    }
}

impl<S: AsyncWrite + Unpin + Portable> Session<S> {
    /// Puts a withdrawn request back to the front of the unread bytes.
    pub(super) fn take_back(&mut self) {
        let is_withdrawn = |suspended: &mut Suspended| suspended.withdrawal.is_withdrawn.get();
        let Some(suspended) = self.dialogue.suspended.take_if(is_withdrawn) else { return };
        self.dialogue.waited = clock::now() - suspended.since;
        let rest = std::mem::replace(
            &mut self.pending,
            suspended.withdrawal.request.borrow().as_slice().into(),
        );
        self.pending.extend_from_slice(&rest);
        self.decoder = Decoder::new();
    }

    /// Hands the client over to another process, unless it waits for anything.
    pub(super) fn poll_depart(&mut self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        self.dialogue.caller.adopt_db();
        if !self.dialogue.is_at_rest() || !self.dialogue.has_nothing_open() {
            return None;
        }
        if !S::IS_PORTABLE {
            let may_end = self.pending.is_empty() && !self.dialogue.caller.has_subscriptions();
            let is_idle = may_end && self.dialogue.caller.client.idle() >= MOMENT;
            return is_idle.then(|| self.poll_farewell(cx));
        }
        match self.stream.duplicate() {
            Ok(socket) => {
                let unread = self.pending.to_vec();
                let connection =
                    PortableConnection { state: self.dialogue.state(), unread, socket };
                self.dialogue.caller.home.depart(Departure::Moved(Box::new(connection)));
                Some(Poll::Ready(()))
            }
            Err(why) => {
                // The session tries again until the time is up.
                tracing::debug!("cannot hand a client over yet ({why})");
                None
            }
        }
    }

    /// Closes the connection.
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // If this fails, the client has gone.
        let _ = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        self.dialogue.caller.home.depart(Departure::Closed);
        Poll::Ready(())
    }
}

impl Dialogue {
    /// Restores the login, if its user still exists. No limit applies: the client already had its seat.
    fn resume_login(&mut self, state: &SessionState) {
        if !state.authenticated {
            self.closing = !self.caller.log_in_if_open();
            return;
        }
        let name = &state.client.words.user;
        let entered = self.caller.users.named(name.as_bytes()).map(|user| {
            let seats = self.caller.worker.registry().seats();
            self.caller.login.enter(user, seats, None)
        });
        self.closing = !matches!(entered, Some(Ok(())));
    }

    /// Prepares a request to wait in another process, if a handover is configured. The time that it has already waited
    /// in a previous process counts.
    pub(super) fn suspend(
        &mut self,
        waiting: &mut BlockingWait,
        args: Args<'_>,
    ) -> Option<Rc<Withdrawal>> {
        let (now, waited) = (clock::now(), std::mem::take(&mut self.waited));
        waiting.until = waiting.until.map(|until| until.checked_sub(waited).unwrap_or(now));
        if !self.portable || self.caller.worker.settings().handover.is_none() {
            return None;
        }
        let request = RefCell::new(args.to_request());
        let withdrawal = Rc::new(Withdrawal { is_withdrawn: Cell::new(false), request });
        let since = now.checked_sub(waited).unwrap_or(now);
        self.suspended = Some(Suspended { since, withdrawal: Rc::clone(&withdrawal) });
        Some(withdrawal)
    }

    /// Whether the next request is left to another process.
    pub(super) fn is_departing(&self) -> bool {
        self.caller.home.is_departing() && self.portable && self.has_nothing_open()
    }

    /// Whether the client has no unfinished business that only this process can finish.
    fn has_nothing_open(&self) -> bool {
        let in_transaction = self.caller.transaction.is_some() || !self.caller.watched.is_empty();
        let has_data = self.caller.side.as_ref().is_none_or(|side| side.is_at_rest());
        !in_transaction
            && has_data
            && !self.caller.waits_for_masters()
            && self.caller.replies != ReplyMode::SkipNext
            && !self.closing
    }

    /// Whether every started request is answered, and every answer written.
    fn is_at_rest(&self) -> bool {
        self.caller.outbox.in_flight() == 0
            && !self.has_begun()
            && self.caller.outbox.ready_bytes() == 0
    }

    /// Returns the state that another process needs to continue the session.
    fn state(&self) -> SessionState {
        let subscriber = self.caller.subscriber.as_ref();
        let heard = subscriber.map(|subscriber| self.caller.home.hub().heard_by(subscriber));
        SessionState {
            client: self.caller.client.to_known(),
            authenticated: self.caller.login.is_authenticated(),
            silent: self.caller.replies == ReplyMode::Off,
            monitor: self.caller.client.is_monitor(),
            tracking: self.caller.tracked().map(|tracked| tracked.options().clone()),
            topics: subscriber.map(|subscriber| subscriber.topics()).unwrap_or_default(),
            has_heard: heard.unwrap_or_default(),
            waited_ms: self.waited.as_millis() as u64,
            failed_logins: self.caller.attempts.failures(),
        }
    }
}

/// Continues a connection that another process has begun, on this worker.
///
/// # Errors
/// Returns an error if the event loop refuses the socket.
pub fn go_on_with(connection: PortableConnection, worker: &Rc<Worker>) -> io::Result<()> {
    match connection.state.client.address {
        Peer::Tcp(_) => {
            let stream = StdTcpStream::from(connection.socket);
            stream.set_nonblocking(true)?;
            go_on(TcpStream::from_std(stream)?, connection.state, &connection.unread, worker);
        }
        Peer::Unix(_) => {
            let stream = StdUnixStream::from(connection.socket);
            stream.set_nonblocking(true)?;
            go_on(UnixStream::from_std(stream)?, connection.state, &connection.unread, worker);
        }
    }
    Ok(())
}

fn go_on<S>(stream: S, state: SessionState, unread: &[u8], worker: &Rc<Worker>)
where
    Session<S>: Future<Output = ()> + 'static,
    S: Portable,
{
    let client = worker.registry().readmit(state.client.clone());
    let session = Session::resumed(stream, Rc::clone(worker), client, &state, unread);
    tokio::task::spawn_local(session);
}
