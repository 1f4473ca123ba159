//! What is known of the one who reads the replies, for what is not worth doing without him.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::{Filling, Outbox, REPLIES_TO_STOP_READING, State, Target, Waiter};

impl Target {
    /// Has its session look whether the client is still there: while it does not read, nobody tells it. At most one
    /// waits at a time for one client.
    pub async fn look_for_client(&self) {
        let Waiter::Slot(outbox, ..) = &self.0 else { return };
        if outbox.begin_to_look() {
            poll_fn(|cx| outbox.poll_watch(cx, |state| !state.is_looked_for)).await;
        }
    }

    /// Resolves when the client has read what it was answered before, but for some kilobytes, or has gone. Replies
    /// that wait for one before them are not waited for.
    pub async fn has_read(&self) {
        let Waiter::Slot(outbox, slot, _) = &self.0 else { return };
        let is_little = |state: &State| state.unread_before(*slot) <= REPLIES_TO_STOP_READING;
        poll_fn(|cx| outbox.poll_watch(cx, is_little)).await;
    }
}

impl Outbox {
    /// Whether there is a session to do so.
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

    /// Whether somebody wants to know if the client is still there.
    pub fn is_looked_for(&self) -> bool {
        self.state.borrow().is_looked_for
    }

    /// It is.
    pub fn was_looked_for(&self) {
        let state = &mut *self.state.borrow_mut();
        state.is_looked_for = false;
        state.tell_watcher();
    }

    /// The client has perhaps read something.
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

    /// Bytes that wait for nothing but the client, before this slot.
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
