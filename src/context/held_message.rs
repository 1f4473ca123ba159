//! `PUBLISH` while a subscription that was requested before it waits for the masters.

use std::cell::Cell;
use std::rc::Rc;

use super::caller::Caller;
use crate::catalogue::channel::ChannelKind;
use crate::client::outbox::Order;

impl Caller {
    /// Whether the current `PUBLISH` has to wait, and its client's later requests with it.
    pub fn holds_message(&mut self, kind: ChannelKind, channel: &[u8]) -> bool {
        if let Some(is_over) = &self.holding {
            return !is_over.get();
        }
        let unconfirmed = self.home.registry().unconfirmed();
        let Some(hold) = unconfirmed.before(kind, channel) else { return false };
        let ticket = self.ticket_of(Order::Announcing);
        if self.outbox.is_busy(&ticket) {
            return true;
        }
        let is_over = Rc::new(Cell::new(false));
        self.holding = Some(Rc::clone(&is_over));
        self.hold_back(ticket, async move {
            hold.over().await;
            is_over.set(true);
        });
        true
    }
}
