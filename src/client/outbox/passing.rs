//! Replies that the data Redis makes: their bytes pass through as they arrive.

use bytes::Bytes;

use super::{Filling, Order, Outbox, Purpose, REPLIES_TO_STOP_READING, Slot, State, Ticket};

/// Reasons why a shared connection does not answer a request.
#[derive(Debug)]
pub enum SentBack {
    /// The request needs a connection of the client's own. It has changed nothing.
    Again(Box<[u8]>),
    /// The data Redis has gone, and may or may not have executed the request.
    Lost,
}

impl Outbox {
    /// Reserves a slot for a request that was passed on to the data Redis.
    pub fn reserve_passed(&self, ticket: Ticket, silent: bool) {
        debug_assert_eq!(ticket.order, Order::Passed);
        let purpose = if silent { Purpose::Silence } else { Purpose::Answer };
        let state = &mut *self.state.borrow_mut();
        state.request_bytes += ticket.bytes;
        state.slots.push_back(Slot { filling: Filling::Passed, answer_bytes: 0, ticket, purpose });
    }

    /// Answers the first request with the error `why` of the data Redis: the request cannot be passed on again.
    pub fn refuse_passed(&self, why: &str) {
        self.pass(format!("-{why}\r\n").as_bytes());
        self.passed(Some(why.as_bytes()));
    }

    /// Whether the data Redis still has to answer a request.
    pub fn has_passed(&self) -> bool {
        let state = self.state.borrow();
        state.slots.iter().any(|slot| matches!(slot.filling, Filling::Passed))
    }

    /// Drops the requests that the data Redis will not answer because it has gone, and everything behind them, which
    /// cannot be answered either.
    pub fn abandon_passed(&self) {
        let state = &mut *self.state.borrow_mut();
        let is_passed = |slot: &Slot| matches!(slot.filling, Filling::Passed);
        let first = state.slots.iter().position(is_passed).unwrap_or(state.slots.len());
        for slot in state.slots.drain(first..) {
            state.request_bytes -= slot.ticket.bytes;
            state.answer_bytes -= slot.answer_bytes;
            state.reply_bytes -= slot.filling.held();
        }
        (state.is_amid_passed, state.is_amid_message) = (false, false);
    }

    /// Wakes the session: its request was answered over a shared connection.
    pub fn tell_session(&self) {
        if let Some(waker) = self.state.borrow_mut().waker.take() {
            waker.wake();
        }
    }

    /// Notes that the request last passed on over a shared connection is not answered there.
    pub fn send_back(&self, why: SentBack) {
        self.state.borrow_mut().sent_back = Some(why);
        self.tell_session();
    }

    /// Takes the reason that [`Outbox::send_back`] has left.
    pub fn take_sent_back(&self) -> Option<SentBack> {
        self.state.borrow_mut().sent_back.take()
    }
}

impl Recipient for Outbox {
    fn may_pass(&self) -> bool {
        let state = self.state.borrow();
        state.is_passing() && state.bytes.len() < REPLIES_TO_STOP_READING
    }

    fn pass(&self, piece: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        let Some(Slot { purpose, .. }) = state.slots.front() else { return };
        if *purpose == Purpose::Answer && !state.closed {
            state.bytes.extend_from_slice(piece);
        }
        state.is_amid_passed = true;
    }

    fn pass_long(&self, piece: Bytes) {
        let state = &mut *self.state.borrow_mut();
        let Some(Slot { purpose, .. }) = state.slots.front() else { return };
        if *purpose == Purpose::Answer && !state.closed {
            state.bytes.share(&piece);
        }
        state.is_amid_passed = true;
    }

    fn passed(&self, error: Option<&[u8]>) {
        let state = &mut *self.state.borrow_mut();
        state.is_amid_passed = false;
        if !state.is_passing() {
            return;
        }
        let Some(Slot { ticket, .. }) = state.slots.pop_front() else { return };
        state.first += 1;
        state.request_bytes -= ticket.bytes;
        state.count_passed(ticket.command, error);
        state.window.replied(0);
        state.after_message();
    }

    fn may_pass_message(&self) -> bool {
        let state = self.state.borrow();
        (state.is_amid_message || !state.is_amid()) && state.bytes.len() < REPLIES_TO_STOP_READING
    }

    fn pass_message(&self, piece: &[u8], ends: bool) {
        let state = &mut *self.state.borrow_mut();
        if !state.closed {
            state.bytes.extend_from_slice(piece);
        }
        state.is_amid_message = !ends;
        if ends {
            state.after_message();
        }
    }
}

impl State {
    fn is_passing(&self) -> bool {
        let first = self.slots.front().map(|slot| &slot.filling);
        matches!(first, Some(Filling::Passed)) && !self.is_amid_message
    }

    /// Continues with the messages and replies that waited for the end of a message or a reply.
    fn after_message(&mut self) {
        let messages = std::mem::take(&mut self.messages);
        self.bytes.append(messages);
        self.encode_ready();
    }

    fn count_passed(&self, command: u16, error: Option<&[u8]>) {
        let Some(metrics) = &self.metrics else { return };
        if let Some(text) = error {
            metrics.errors.told(text);
        }
        metrics.request(command, error.is_some());
    }
}

/// Receives messages and the replies to requests that were passed on, as their bytes arrive.
pub trait Recipient {
    /// Whether the first reply may come from the data Redis, and there is room for it.
    fn may_pass(&self) -> bool;
    /// Takes a piece of that reply.
    fn pass(&self, piece: &[u8]);
    /// Takes a long piece of that reply, without having to copy it.
    fn pass_long(&self, piece: Bytes);
    /// Ends that reply after its last piece. `error` is the text of an error reply.
    fn passed(&self, error: Option<&[u8]>);
    /// Whether a message can begin or continue here, and there is room for it.
    fn may_pass_message(&self) -> bool;
    /// Takes a piece of a message. `ends` says whether it is the last.
    fn pass_message(&self, piece: &[u8], ends: bool);
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::catalogue::table::NO_COMMAND;
    use crate::client::outbox::tests::{ticket, written};
    use crate::resp::reply::Reply;

    #[test]
    fn what_stands_behind_an_abandoned_reply_goes_with_it() {
        let outbox = Rc::new(Outbox::default());
        let before = outbox.reserve(ticket(1, Order::Plain), false);
        outbox.reserve_passed(ticket(2, Order::Passed), false);
        outbox.push_reply(NO_COMMAND, Reply::Simple("PONG"));
        let behind = outbox.reserve(ticket(3, Order::Plain), false);
        outbox.abandon_passed();
        assert!(!outbox.has_passed());
        behind.deliver(Reply::Int(3));
        before.deliver(Reply::Int(1));
        assert_eq!((written(&outbox).as_str(), outbox.in_flight()), (":1\r\n", 0));
        assert_eq!(outbox.held(), 0);
    }
}
