//! The state of the client that reads the replies, for work that is pointless without it.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::{Filling, Outbox, REPLIES_TO_STOP_READING, State, Target, Waiter};

impl Target {
    /// Waits until the session has checked that the client is still there: a disconnect goes unnoticed while the
    /// session does not read. At most one task may wait at a time for one client.
    pub async fn look_for_client(&self) {
        let Waiter::Slot(outbox, ..) = &self.0 else { return };
        if outbox.begin_to_look() {
            poll_fn(|cx| outbox.poll_watch(cx, |state| !state.is_looked_for)).await;
        }
    }

    /// Waits until the client has read all but some kilobytes of its earlier replies, or has gone. Replies that are
    /// held back by an earlier one are not counted.
    pub async fn has_read(&self) {
        let Waiter::Slot(outbox, slot, _) = &self.0 else { return };
        let is_little = |state: &State| state.unread_before(*slot) <= REPLIES_TO_STOP_READING;
        poll_fn(|cx| outbox.poll_watch(cx, is_little)).await;
    }
}

impl Outbox {
    /// Asks the session to check on the client. Returns whether there is a session to do so.
    fn begin_to_look(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.client.is_none() || state.closed {
            return false;
        }
        state.is_looked_for = true;
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
        true
    }

    /// Whether the session is asked to check that the client is still there.
    pub fn is_looked_for(&self) -> bool {
        self.state.borrow().is_looked_for
    }

    /// Notes that the client is still there.
    pub fn was_looked_for(&self) {
        let state = &mut *self.state.borrow_mut();
        state.is_looked_for = false;
        state.tell_watcher();
    }

    /// Notes that bytes were written, so the client may have read some.
    pub fn was_written(&self) {
        self.state.borrow_mut().tell_watcher();
    }

    fn poll_watch(&self, cx: &Context<'_>, is_so: impl Fn(&State) -> bool) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        if state.closed || is_so(state) {
            return Poll::Ready(());
        }
        state.watcher = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl State {
    pub(super) fn tell_watcher(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }

    /// Returns the bytes before this slot that wait only for the client to read.
    fn unread_before(&self, slot: u64) -> usize {
        let before = slot.saturating_sub(self.first) as usize;
        let bytes = |filling: &Filling| match filling {
            Filling::Reply(reply) => Some(reply.held()),
            Filling::Sliced(sliced) => Some(sliced.bytes()),
            Filling::Missing | Filling::InTheMaking | Filling::Passed => None,
        };
        let filled = self.slots.iter().take(before).map_while(|slot| bytes(&slot.filling));
        self.ready_bytes() + filled.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use futures_util::FutureExt;

    use super::*;
    use crate::client::outbox::tests::{ticket, written};
    use crate::client::outbox::{Order, Reply};

    fn large() -> Reply {
        Reply::bulk(vec![b'x'; REPLIES_TO_STOP_READING])
    }

    #[test]
    fn what_was_answered_before_has_to_be_read() {
        let outbox = Rc::new(Outbox::default());
        let [first, second, third] =
            [1, 2, 3].map(|key| outbox.reserve(ticket(key, Order::Rounds), false));
        second.deliver(large());
        assert!(third.has_read().now_or_never().is_some(), "that one waits for the first");
        first.deliver(large());
        assert!(third.has_read().now_or_never().is_none());
        written(&outbox);
        assert!(third.has_read().now_or_never().is_some());
        assert!(third.look_for_client().now_or_never().is_some(), "there is no session");
    }

    #[test]
    fn who_has_gone_is_not_waited_for() {
        let outbox = Rc::new(Outbox::default());
        let [first, second] = [1, 2].map(|key| outbox.reserve(ticket(key, Order::Rounds), false));
        first.deliver(large());
        assert!(second.has_read().now_or_never().is_none());
        outbox.close();
        assert!(second.has_read().now_or_never().is_some());
    }
}
