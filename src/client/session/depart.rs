//! Sessions that come from another process, or go to one.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite;

use super::{Front, Replies, Session};
use crate::client::decoder::{Args, Decoder};
use crate::client::guesses::Attempts;
use crate::client::registry::Client;
use crate::client::reply::Protocol;
use crate::client::waiting::{Waiting, Withdrawal};
use crate::clock::{self, Instant};
use crate::handover::connection::{Connection, Portable, State};
use crate::handover::helm::Departure;
use crate::worker::Worker;

/// How long a client that cannot be handed over must have been silent before it is disconnected instead.
const MOMENT: Duration = Duration::from_millis(100);

/// A request that waits, and how to begin it anew elsewhere.
#[derive(Debug)]
pub(super) struct Suspended {
    since: Instant,
    withdrawal: Rc<Withdrawal>,
}

impl Suspended {
    /// What it takes.
    pub(super) fn held(&self) -> usize {
        self.withdrawal.request.borrow().capacity()
    }
}

impl<S: Portable> Session<S> {
    /// A session that another process has begun.
    pub fn resumed(
        stream: S,
        worker: Rc<Worker>,
        client: Arc<Client>,
        state: &State,
        unread: &[u8],
    ) -> Self {
        let mut session = Self::begun(stream, worker, client);
        session.front.db = state.client.words.db;
        session.front.resume_login(state);
        if state.monitor {
            session.front.watch_requests();
        }
        session.front.replies = if state.silent { Replies::Off } else { Replies::On };
        let is_resp3 = state.client.words.resp == 3;
        let protocol = if is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
        session.front.outbox.set_protocol(protocol);
        session.pending.extend_from_slice(unread);
        session.front.waited = Duration::from_millis(state.waited_ms);
        session.front.attempts = Attempts::after(state.failed_logins);
        if !state.topics.is_empty() {
            let (hub, subscriber) =
                (Rc::clone(session.front.worker.hub()), session.front.subscriber());
            hub.resume(&subscriber, state.topics.clone(), &state.has_heard);
        }
        session
    }
}

impl<S: AsyncWrite + Unpin + Portable> Session<S> {
    /// A request that does not wait any more is the next one again.
    pub(super) fn take_back(&mut self) {
        let is_withdrawn = |suspended: &mut Suspended| suspended.withdrawal.is_withdrawn.get();
        let Some(suspended) = self.front.suspended.take_if(is_withdrawn) else { return };
        self.front.waited = clock::now() - suspended.since;
        let rest = std::mem::replace(
            &mut self.pending,
            suspended.withdrawal.request.borrow().as_slice().into(),
        );
        self.pending.extend_from_slice(&rest);
        self.decoder = Decoder::new();
    }

    /// Leaves the client to another process, if it waits for nothing.
    pub(super) fn poll_depart(&mut self, cx: &mut Context<'_>) -> Option<Poll<()>> {
        self.front.adopt_db();
        if !self.front.is_at_rest() || !self.front.has_nothing_open() {
            return None;
        }
        if !S::IS_PORTABLE {
            let may_end = self.pending.is_empty() && !self.front.has_subscriptions();
            let is_idle = may_end && self.front.client.idle() >= MOMENT;
            return is_idle.then(|| self.poll_farewell(cx));
        }
        match self.stream.duplicate() {
            Ok(socket) => {
                let unread = self.pending.to_vec();
                let connection = Connection { state: self.front.state(), unread, socket };
                self.front.worker.depart(Departure::Moved(Box::new(connection)));
                Some(Poll::Ready(()))
            }
            Err(why) => {
                // It is tried again until the time is up.
                tracing::debug!("a client cannot be handed over yet ({why})");
                None
            }
        }
    }

    /// Tells the client that this is the end.
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Whoever does not listen has gone.
        let _ = ready!(Pin::new(&mut self.stream).poll_shutdown(cx));
        self.front.worker.depart(Departure::Closed);
        Poll::Ready(())
    }
}

impl Front {
    /// Is again who it was, if that user is still there: its seat was its own already.
    fn resume_login(&mut self, state: &State) {
        if !state.authenticated {
            return self.log_in_if_open();
        }
        let name = &state.client.words.user;
        let entered = self.users.named(name.as_bytes()).map(|user| {
            let seats = self.worker.registry().seats();
            self.login.enter(user, seats, None)
        });
        self.closing = !matches!(entered, Some(Ok(())));
    }

    /// Makes it possible to let a request wait in another process, if one may come. What it has waited there
    /// already counts.
    pub(super) fn suspend(
        &mut self,
        waiting: &mut Waiting,
        args: Args<'_>,
    ) -> Option<Rc<Withdrawal>> {
        let (now, waited) = (clock::now(), std::mem::take(&mut self.waited));
        waiting.until = waiting.until.map(|until| until.checked_sub(waited).unwrap_or(now));
        if !self.portable || self.worker.settings().handover.is_none() {
            return None;
        }
        let request = RefCell::new(args.to_request());
        let withdrawal = Rc::new(Withdrawal { is_withdrawn: Cell::new(false), request });
        let since = now.checked_sub(waited).unwrap_or(now);
        self.suspended = Some(Suspended { since, withdrawal: Rc::clone(&withdrawal) });
        Some(withdrawal)
    }

    /// Whether the next request is for another process.
    pub(super) fn is_departing(&self) -> bool {
        self.worker.is_departing() && self.portable && self.has_nothing_open()
    }

    /// Whether the client has begun nothing that only this process can end.
    fn has_nothing_open(&self) -> bool {
        let in_transaction = self.transaction.is_some() || !self.watched.is_empty();
        let has_data = self.side.as_ref().is_none_or(|side| side.is_at_rest());
        !in_transaction
            && has_data
            && !self.waits_for_masters()
            && self.replies != Replies::SkipNext
            && !self.closing
    }

    /// Whether all that was begun is answered, and every answer written.
    fn is_at_rest(&self) -> bool {
        self.outbox.in_flight() == 0 && !self.has_begun() && self.outbox.ready_bytes() == 0
    }

    /// What another process needs to go on.
    fn state(&self) -> State {
        let subscriber = self.subscriber.as_ref();
        let heard = subscriber.map(|subscriber| self.worker.hub().heard_by(subscriber));
        State {
            client: self.client.to_known(),
            authenticated: self.login.is_authenticated(),
            silent: self.replies == Replies::Off,
            monitor: self.client.is_monitor(),
            topics: subscriber.map(|subscriber| subscriber.topics()).unwrap_or_default(),
            has_heard: heard.unwrap_or_default(),
            waited_ms: self.waited.as_millis() as u64,
            failed_logins: self.attempts.failures(),
        }
    }
}
