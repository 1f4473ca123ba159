//! One client connection: reads requests, starts operations, writes replies in order.
//!
//! A session is a future. It is polled when there is something to read, when a reply is ready, and when it must end.
//! Requests are decoded in the worker's one read buffer and only incomplete ones are copied, so that an idle connection
//! costs no buffer at all.

mod dialogue;
pub mod handover;
mod lingering;
pub mod listener;
mod passing;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::client::memory::MemoryPart;
use crate::client::registry::Client;
use crate::client::timeslice::{self, TimeSlice};
use crate::context::caller::Caller;
use crate::context::portable::{OtherEnd, Portable};
use crate::context::worker::Worker;
use crate::resp::PASS_BUFFER;
use crate::resp::output::Output;
use crate::resp::requests::Decoder;
use crate::time::clock;
use dialogue::Dialogue;
use lingering::Lingering;

/// Maximum rounds of reading and starting requests before a session yields to others, however fast they are.
const READS_AT_A_TIME: usize = 4;

/// Size of a write that takes up a whole turn. The kernel copies the bytes, and delivers them itself to a client on
/// this machine, which then wants the same cores.
const WRITE_OF_A_TURN: usize = 8 << 10;

/// Maximum bytes read from a client at once.
const READ_BUFFER: usize = 64 << 10;

/// A connection.
pub struct Session<S> {
    stream: S,
    decoder: Decoder,
    /// Bytes of a request that is not complete yet, or must wait for an earlier one.
    pending: BytesMut,
    /// Whether the client sends no more. Requests that it has sent still run, as in Redis.
    ended: bool,
    registered: bool,
    /// Set while the client receives an error that ends the connection.
    lingering: Option<Lingering>,
    dialogue: Dialogue,
}

impl<S: Portable> Session<S> {
    /// Returns a session for a newly accepted connection.
    pub fn new(stream: S, worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let mut session = Self::begun(stream, worker, client);
        session.dialogue.closing = !session.dialogue.caller.log_in_if_open();
        session
    }

    /// Returns a session without a login.
    fn begun(stream: S, worker: Rc<Worker>, client: Arc<Client>) -> Self {
        let dialogue = Dialogue {
            caller: Caller::new(worker, client),
            rest: None,
            planning: None,
            large_reads: None,
            passing: None,
            parts: VecDeque::new(),
            blocked: false,
            stalled: false,
            closing: false,
            is_refused: false,
            portable: S::IS_PORTABLE,
            suspended: None,
            waited: Duration::ZERO,
        };
        let (decoder, pending) = (Decoder::new(), BytesMut::new());
        let (ended, registered, lingering) = (false, false, None);
        Self { stream, decoder, pending, ended, registered, lingering, dialogue }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Future for Session<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let session = self.get_mut();
        session.dialogue.caller.outbox.wake_by(cx.waker());
        if !session.registered {
            session.registered = true;
            session.dialogue.caller.client.wake_by(cx.waker());
        }
        if session.lingering.is_some() {
            return session.poll_linger(cx);
        }
        if let Err(why) = session.dialogue.caller.adopt_users() {
            session.dialogue.disconnect(why);
            return Poll::Ready(());
        }
        if session.dialogue.caller.outbox.is_looked_for() && !session.is_client_there() {
            return Poll::Ready(());
        }
        if session.dialogue.caller.client.has_mail() {
            session.dialogue.caller.take_mail();
        }
        let mut time = TimeSlice::default();
        if !session.pending.is_empty() || session.dialogue.caller.outbox.may_make() {
            time.begin(clock::now());
        }
        for _ in 0..READS_AT_A_TIME {
            session.work_on_pending(&mut time);
            session.dialogue.closing |= session.ended && !session.has_put_by();
            if session.dialogue.has_rested(cx) {
                continue;
            }
            let was_made = session.dialogue.make(&mut time) | session.dialogue.poll_data(cx);
            while session.dialogue.caller.begin_runs() {
                session.dialogue.poll_data(cx);
            }
            match session.poll_write(cx, &mut time) {
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(())) if session.dialogue.is_finished() => {
                    return session.poll_linger(cx);
                }
                _ => {}
            }
            if let Some(why) = session.dialogue.must_disconnect() {
                session.dialogue.disconnect(why);
                return Poll::Ready(());
            }
            if session.dialogue.caller.worker.is_departing()
                && let Some(left) = session.poll_depart(cx)
            {
                return left;
            }
            if time.look() {
                if session.only_reads() && session.stream.poll_readable(cx).is_pending() {
                    return Poll::Pending;
                }
                break;
            }
            // Writing may have made room for the bytes already received, or made the reply that they waited for.
            let may_go_on = session.dialogue.stalled && session.dialogue.may_start();
            let was_unblocked = session.dialogue.blocked && was_made;
            let may_make =
                session.dialogue.planning.is_some() || session.dialogue.caller.outbox.may_make();
            if may_go_on || was_unblocked || may_make {
                continue;
            }
            if !session.may_read() {
                return Poll::Pending;
            }
            match ready!(session.poll_read(cx, &mut time)) {
                Ok(0) => {
                    session.ended = true;
                    session.dialogue.closing |= !session.has_put_by();
                    session.dialogue.end_wait();
                    session.dialogue.caller.outbox.end_of_requests();
                    if let Some(side) = &mut session.dialogue.caller.side {
                        side.end_of_requests();
                        continue;
                    }
                }
                Ok(_) => {}
                Err(_) => return Poll::Ready(()),
            }
        }
        timeslice::others_first(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Session<S> {
    /// Checks whether the client is still there and reports it to the task that asked.
    fn is_client_there(&self) -> bool {
        let other_end = self.stream.other_end();
        if other_end == OtherEnd::Ended {
            self.dialogue.caller.outbox.end_of_requests();
        }
        self.dialogue.caller.outbox.was_looked_for();
        other_end != OtherEnd::Gone
    }

    /// Whether nothing is left to do before the client sends more. Its turn then does not end by yielding to others,
    /// because its next request would be read after theirs. Bytes from the data Redis may have waited for room that now
    /// exists.
    fn only_reads(&self) -> bool {
        let dialogue = &self.dialogue;
        if dialogue.caller.side.as_ref().is_some_and(|side| !side.is_at_rest()) {
            return false;
        }
        let is_making = dialogue.planning.is_some() || dialogue.caller.outbox.may_make();
        let has_left =
            dialogue.stalled || dialogue.blocked || is_making || dialogue.passing.is_some();
        self.pending.is_empty() && !has_left && self.may_read()
    }

    fn work_on_pending(&mut self, time: &mut TimeSlice) {
        self.dialogue.start_parts();
        self.dialogue.plan(time);
        self.take_back();
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let done = self.requests(&pending, time);
            self.pending = pending;
            self.pending.advance(done);
            if self.pending.is_empty() {
                self.pending = BytesMut::new();
            }
        }
    }

    /// Whether a request waits for earlier ones.
    fn has_put_by(&self) -> bool {
        !self.pending.is_empty() && (self.dialogue.blocked || self.dialogue.stalled)
    }

    /// Whether to read from the client. While a request waits, later ones are read and only stored, so that a
    /// disconnect is noticed.
    fn may_read(&self) -> bool {
        if self.ended {
            return false;
        }
        let has_space = self.pending.len() < READ_BUFFER;
        if self.dialogue.rest.is_some() {
            return !self.dialogue.closing && has_space;
        }
        let waits =
            || self.dialogue.caller.outbox.runs_alone() || self.dialogue.caller.outbox.has_passed();
        let put_by = || waits() && has_space;
        if self.dialogue.is_departing() {
            return !self.dialogue.closing && put_by();
        }
        self.dialogue.may_read() && (!self.dialogue.blocked || put_by())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, time: &mut TimeSlice) -> Poll<io::Result<usize>> {
        let worker = Rc::clone(&self.dialogue.caller.home);
        let mut buffer = worker.read_buffer();
        let size = if self.dialogue.passing.is_some() { PASS_BUFFER } else { READ_BUFFER };
        let mut free = ReadBuf::new(&mut buffer[..size]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut free))?;
        let read = free.filled();
        let now = clock::now();
        time.begin(now);
        self.dialogue.caller.client.seen(now);
        worker.clusters().for_each(|worker| worker.engine().see(now));
        worker.metrics().bytes_in.add(read.len() as u64);
        if self.pending.is_empty() {
            let done = self.requests(read, time);
            self.pending.extend_from_slice(&read[done..]);
        } else {
            self.pending.extend_from_slice(read);
        }
        Poll::Ready(Ok(read.len()))
    }

    /// Starts the requests in `bytes` for which there is time. Returns their length in bytes.
    fn requests(&mut self, bytes: &[u8], time: &mut TimeSlice) -> usize {
        let (mut done, mut requests) = (0, 0);
        self.dialogue.blocked = false;
        while done < bytes.len() && self.dialogue.may_start() {
            if self.dialogue.passing.is_some() {
                done += self.dialogue.pass_more(&bytes[done..]);
                continue;
            }
            match self.decoder.decode(&bytes[done..], self.dialogue.limits()) {
                Ok(None) => {
                    if !self.begin_to_pass(&bytes[done..]) {
                        break;
                    }
                }
                Ok(Some(len)) => {
                    let args = self.decoder.args(&bytes[done..]);
                    if !self.dialogue.request(args, &bytes[done..done + len]) {
                        self.dialogue.blocked = true;
                        break;
                    }
                    requests += 1;
                    done += len;
                    if done < bytes.len() && time.spend(self.dialogue.work(len)) {
                        break;
                    }
                }
                Err(error) => {
                    self.dialogue.refuse(error);
                    done = bytes.len();
                }
            }
        }
        if self.dialogue.passing.is_some() && self.dialogue.closing {
            done = bytes.len();
        }
        self.dialogue.stalled = done < bytes.len() && !self.dialogue.may_start();
        self.dialogue.caller.worker.registry().count_requests(requests);
        done
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, time: &mut TimeSlice) -> Poll<io::Result<()>> {
        let outbox = Rc::clone(&self.dialogue.caller.outbox);
        let mut bytes = outbox.bytes();
        let before = bytes.len();
        if before > 0 && !self.dialogue.caller.worker.live().timeout.is_zero() {
            self.dialogue.caller.client.seen(clock::now());
        }
        let flushed = bytes.poll_write(Pin::new(&mut self.stream), cx);
        let unread = bytes.len();
        self.dialogue.caller.worker.metrics().bytes_out.add((before - unread) as u64);
        if before - unread >= WRITE_OF_A_TURN {
            time.end();
        }
        if let Poll::Ready(Ok(())) = flushed {
            // An idle connection keeps no buffer.
            *bytes = Output::default();
        }
        drop(bytes);
        outbox.was_written();
        self.account(unread);
        flushed
    }

    /// Reports the connection's share of the memory that all clients take.
    fn account(&self, unread: usize) {
        let (dialogue, client) = (&self.dialogue, &self.dialogue.caller.client);
        client.holds(self.pending.len(), unread);
        let data = dialogue.caller.side.as_ref().map_or(0, |side| side.held());
        let requests = self.pending.capacity() + self.decoder.held() + dialogue.parts_held() + data;
        client.holding.set(MemoryPart::Requests, requests as u64);
        client.holding.set(MemoryPart::Transaction, dialogue.transaction_held() as u64);
        client.holding.set(MemoryPart::Replies, dialogue.caller.outbox.held() as u64);
        client.holding.set(MemoryPart::Answers, dialogue.caller.outbox.answers_held() as u64);
        dialogue.caller.worker.registry().budget().settle(client);
    }
}
