//! Passing requests on to the data Redis, long ones as they arrive, and its replies back.

use std::borrow::Cow;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use super::Dialogue;
use super::Session;
use crate::client::outbox::{SentBack, Ticket};
use crate::command::{Action, route};
use crate::context::portable::Portable;
use crate::data::connection::Ready;
use crate::data::shared::SharedRequest;
use crate::resp::extent::ReplyExtents as Frames;
use crate::resp::requests::{Args, ProtocolError};

/// Size from which a request for the data Redis is passed on as it arrives.
const LONG_REQUEST: usize = 64 << 10;

/// A long request, part of which is still to come.
pub(super) enum Passing {
    /// The request is passed on.
    On(Frames),
    /// The request is skipped: it was answered at its beginning.
    Over(Frames),
}

impl Passing {
    fn frames(&mut self) -> &mut Frames {
        let (Self::On(frames) | Self::Over(frames)) = self;
        frames
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Portable> Session<S> {
    /// Begins an incomplete long request, if it can be passed on as it arrives. Requests that cannot are limited in
    /// size.
    pub(super) fn begin_to_pass(&mut self, bytes: &[u8]) -> bool {
        let limits = self.dialogue.limits();
        let Some(beginning) = self.decoder.beginning(bytes).filter(|_| limits.may_pass) else {
            return false;
        };
        if beginning.bytes < LONG_REQUEST {
            return false;
        }
        match route::beginning(&mut self.dialogue.caller, self.decoder.args(bytes), beginning.words)
        {
            Some(Action::Pass(ticket)) => {
                self.dialogue.begin_to_pass(ticket);
                self.decoder.pass_over();
                true
            }
            Some(Action::Reply(refused)) => {
                self.dialogue.caller.answer(refused);
                self.dialogue.passing = Some(Box::new(Passing::Over(Frames::default())));
                self.decoder.pass_over();
                true
            }
            Some(_) => {
                self.dialogue.blocked = true;
                false
            }
            None => {
                if beginning.bytes > limits.max_request_bytes {
                    self.dialogue.refuse(ProtocolError::TooBigRequest);
                }
                false
            }
        }
    }
}

/// Returns the request in the encoding that drivers use: the data Redis might split one typed by hand differently.
fn as_drivers_send_it<'a>(args: Args<'_>, raw: &'a [u8]) -> Cow<'a, [u8]> {
    if raw.first() == Some(&b'*') { raw.into() } else { args.to_request().into() }
}

impl Dialogue {
    /// Passes the request on to the data Redis as it is. A request typed by hand is encoded as drivers send it.
    pub(super) fn pass_on(&mut self, ticket: Ticket, args: Args<'_>, raw: &[u8]) {
        let silent = self.caller.is_silent();
        let Some(side) = &mut self.caller.side else { return };
        let has_selected = std::mem::take(&mut side.has_selected);
        let Some(connection) = side.connection() else { return };
        self.caller.outbox.reserve_passed(Ticket { bytes: raw.len(), ..ticket }, silent);
        match route::in_words_of_data(args) {
            Some(request) => connection.request(&request),
            None => connection.request(&as_drivers_send_it(args, raw)),
        }
        if has_selected {
            connection.ask_for_database(&self.caller.chosen_db);
        }
    }

    /// Passes the request on to the data Redis over a connection that clients share.
    pub(super) fn share(&mut self, ticket: Ticket, is_read: bool, args: Args<'_>, raw: &[u8]) {
        let silent = self.caller.is_silent();
        let Some(side) = &mut self.caller.side else { return };
        self.caller.outbox.reserve_passed(Ticket { bytes: raw.len(), ..ticket }, silent);
        let bytes = as_drivers_send_it(args, raw).into();
        side.share(SharedRequest { bytes, is_read, outbox: Rc::clone(&self.caller.outbox) });
    }

    /// Begins to pass on a long request as it arrives.
    fn begin_to_pass(&mut self, ticket: Ticket) {
        let silent = self.caller.is_silent();
        if let Some(connection) = self.caller.side.as_mut().and_then(|side| side.connection()) {
            self.caller.outbox.reserve_passed(ticket, silent);
            connection.request(&[]);
            self.passing = Some(Box::new(Passing::On(Frames::default())));
        }
    }

    /// Returns the room for more of a long request, or `None` if none is in progress.
    pub(super) fn passing_room(&self) -> Option<usize> {
        Some(match **self.passing.as_ref()? {
            Passing::On(_) => self.caller.side.as_ref().map_or(0, |side| side.room()),
            Passing::Over(_) => LONG_REQUEST,
        })
    }

    /// Passes on as many bytes as there is room for, and returns their number.
    pub(super) fn pass_more(&mut self, bytes: &[u8]) -> usize {
        let room = self.passing_room().unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(room)];
        let (Some(passing), Some(side)) = (&mut self.passing, &mut self.caller.side) else {
            return 0;
        };
        let Ok(found) = passing.frames().read(bytes) else {
            // The next bytes must not complete half a request.
            self.lose_data();
            return bytes.len();
        };
        if let Passing::On(_) = **passing {
            let Some(connection) = side.connection() else { return 0 };
            connection.more(&bytes[..found.bytes]);
        }
        if found.ended.is_some() {
            self.passing = None;
        }
        found.bytes
    }

    /// Continues the traffic to and from the data Redis. Returns whether anything has happened.
    pub(super) fn poll_data(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(side) = &mut self.caller.side else { return false };
        match self.caller.outbox.take_sent_back() {
            None => {}
            Some(SentBack::Again(request)) => side.take_back(request),
            Some(SentBack::Lost) => return self.lose_data(),
        }
        let mut has_happened = false;
        loop {
            let again = side.pass_again();
            if let Some(Ready::Refused(why)) = &again {
                self.caller.outbox.refuse_passed(why);
                has_happened = true;
            }
            let polled = side.poll(cx, &self.caller.outbox, &mut self.caller.home.read_buffer());
            match polled {
                Poll::Pending => return has_happened,
                Poll::Ready(Ok(())) if again == Some(Ready::Later) => has_happened = true,
                Poll::Ready(Ok(())) => return true,
                Poll::Ready(Err(lost)) => {
                    tracing::debug!(address = %self.caller.client.address, "a client's connection to the data Redis was lost ({lost})");
                    return self.lose_data();
                }
            }
        }
    }

    /// Ends the connection, as a Redis that goes away does: unanswered requests may or may not have been executed.
    fn lose_data(&mut self) -> bool {
        if let Some(side) = &mut self.caller.side {
            side.disconnect();
        }
        self.caller.outbox.abandon_passed();
        self.closing = true;
        true
    }
}
