//! Messages that must not overtake the replies to requests before them: a client that caches a reply has to hear of a
//! change of it later than of the reply itself.

use std::sync::Arc;

use super::{Outbox, State};
use crate::client::invalidation::Invalidation;
use crate::client::registry::Client;
use crate::resp::reply::Reply;

/// A message that waits for replies.
#[derive(Debug)]
pub enum Notice {
    /// For the client itself.
    Own(Reply),
    /// For the client to which this one has its invalidations redirected.
    Redirected(Arc<Client>, Invalidation),
}

impl Notice {
    fn held(&self) -> usize {
        match self {
            Self::Own(reply) => size_of::<Self>() + reply.held(),
            Self::Redirected(_, invalidation) => size_of::<Self>() + invalidation.held(),
        }
    }
}

impl Outbox {
    /// Sends a message behind the replies to all requests that were started. A request that may wait for ever is not
    /// waited for.
    pub fn push_behind(&self, notice: Notice) {
        let state = &mut *self.state.borrow_mut();
        if state.closed {
            return;
        }
        match state.last_awaited() {
            Some(slot) => {
                state.behind_bytes += notice.held();
                state.behind.push_back((slot, notice));
            }
            None => state.send_notice(notice),
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Marks the last request as one that may wait for ever: `BLPOP` and its siblings.
    pub fn blocks(&self) {
        let state = &mut *self.state.borrow_mut();
        let last = (state.first + state.slots.len() as u64).checked_sub(1);
        state.blocking = last.filter(|last| *last >= state.first);
    }
}

impl State {
    /// Returns the last slot whose reply messages must not overtake.
    fn last_awaited(&self) -> Option<u64> {
        if let Some(gathering) = &self.gathering {
            // The whole takes the place of the last part, which may not have a slot yet.
            return Some(self.first + gathering.missing as u64 - 1);
        }
        let last = self.first + (self.slots.len() as u64).checked_sub(1)?;
        (self.blocking != Some(last) || self.slots.len() > 1).then_some(last)
    }

    /// Sends the messages whose replies have been sent.
    #[inline]
    pub(super) fn send_behind(&mut self) {
        while self.behind.front().is_some_and(|(slot, _)| *slot < self.first) {
            let Some((_, notice)) = self.behind.pop_front() else { break };
            self.behind_bytes -= notice.held();
            self.send_notice(notice);
        }
    }

    fn send_notice(&mut self, notice: Notice) {
        match notice {
            Notice::Own(message) if !self.closed => self.send_message(&message),
            Notice::Own(_) => {}
            Notice::Redirected(to, invalidation) => to.post(invalidation),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::catalogue::table::NO_COMMAND;
    use crate::client::outbox::tests::{ticket, written};
    use crate::client::outbox::{Gather, Order};

    fn notice(number: i64) -> Notice {
        Notice::Own(Reply::Push(vec![Reply::Int(number)]))
    }

    #[test]
    fn a_message_comes_behind_the_replies_before_it_and_before_those_after_it() {
        let outbox = Rc::new(Outbox::default());
        outbox.push_behind(notice(0));
        let first = outbox.reserve(ticket(1, Order::Read), false);
        let second = outbox.reserve(ticket(2, Order::Read), false);
        outbox.push_behind(notice(7));
        let third = outbox.reserve(ticket(3, Order::Read), false);
        third.deliver(Reply::Int(3));
        second.deliver(Reply::Bulk("2".into()));
        assert_eq!(written(&outbox), "*1\r\n:0\r\n");
        assert!(outbox.held() > 0);
        first.deliver(Reply::Int(1));
        assert_eq!(written(&outbox), ":1\r\n$1\r\n2\r\n*1\r\n:7\r\n:3\r\n");
        outbox.push_behind(notice(8));
        assert_eq!(written(&outbox), "*1\r\n:8\r\n");
        assert_eq!(outbox.held(), 0);
    }

    #[test]
    fn a_message_comes_behind_the_whole_of_a_request_with_many_keys() {
        let outbox = Rc::new(Outbox::default());
        outbox.gather(Gather::List, 2, false);
        let first = outbox.reserve_part(ticket(1, Order::Read));
        outbox.push_behind(notice(7));
        first.deliver(Reply::Int(1));
        assert_eq!(written(&outbox), "");
        let second = outbox.reserve_part(ticket(2, Order::Read));
        second.deliver(Reply::Int(2));
        assert_eq!(written(&outbox), "*2\r\n:1\r\n:2\r\n*1\r\n:7\r\n");
    }

    #[test]
    fn a_message_does_not_wait_for_a_client_that_waits_for_ever() {
        let outbox = Rc::new(Outbox::default());
        let waiting = outbox.reserve(ticket(1, Order::Alone), false);
        outbox.blocks();
        outbox.push_behind(notice(7));
        assert_eq!(written(&outbox), "*1\r\n:7\r\n");
        waiting.deliver(Reply::NilArray);
        let next = outbox.reserve(ticket(1, Order::Alone), false);
        outbox.push_behind(notice(8));
        outbox.push_reply(NO_COMMAND, Reply::OK);
        next.deliver(Reply::Nil);
        assert_eq!(written(&outbox), "*-1\r\n$-1\r\n*1\r\n:8\r\n+OK\r\n");
    }
}
