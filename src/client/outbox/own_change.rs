//! Callbacks for whoever must know whether a request of the client has changed its key (`NOLOOP`).

use std::fmt;

use super::{Outbox, Target, Waiter};

/// Is called when the request is answered.
pub type OnAnswer = Box<dyn FnOnce(bool)>;

/// A request that somebody watches.
pub(super) struct WatchedRequest {
    slot: u64,
    has_changed: bool,
    on_answer: OnAnswer,
}

impl fmt::Debug for WatchedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slot, has_changed, .. } = self;
        f.debug_struct("WatchedRequest").field("slot", slot).field("changed", has_changed).finish()
    }
}

impl Target {
    /// Has `on_answer` called when the request is answered. It is told whether the request has certainly changed its
    /// key and no other.
    pub fn watch(&self, on_answer: OnAnswer) {
        if let Waiter::Slot(outbox, slot, _) = &self.0 {
            let watched = WatchedRequest { slot: *slot, has_changed: false, on_answer };
            outbox.state.borrow_mut().watched.push(watched);
        }
    }

    /// Whether anybody watches requests of this client.
    #[inline]
    pub fn is_watched(&self) -> bool {
        match &self.0 {
            Waiter::Slot(outbox, ..) => !outbox.state.borrow().watched.is_empty(),
            _ => false,
        }
    }

    /// Notes that the request has changed its key and no other.
    pub fn has_changed(&self) {
        if let Waiter::Slot(outbox, slot, _) = &self.0 {
            let state = &mut *outbox.state.borrow_mut();
            let watched = state.watched.iter_mut().filter(|watched| watched.slot == *slot);
            watched.for_each(|watched| watched.has_changed = true);
        }
    }
}

impl Outbox {
    /// Tells whoever watches the request in a slot, which was answered.
    #[inline]
    pub(super) fn tell_watchers(&self, slot: u64) {
        if !self.state.borrow().watched.is_empty() {
            self.tell_watchers_of(slot);
        }
    }

    #[cold]
    fn tell_watchers_of(&self, slot: u64) {
        let is_it = |watched: &mut WatchedRequest| watched.slot == slot;
        let answered: Vec<_> = self.state.borrow_mut().watched.extract_if(.., is_it).collect();
        // They may send messages, so the outbox must not be borrowed.
        for WatchedRequest { has_changed, on_answer, .. } in answered {
            on_answer(has_changed);
        }
    }
}
