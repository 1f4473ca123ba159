//! Announcements to other clients: changed keys and published messages.

use std::rc::Rc;

use super::Engine;
use crate::catalogue::channel::ChannelKind;
use crate::catalogue::events::KeyEvent;
use crate::catalogue::reserved::is_reserved;
use crate::client::outbox::Target;
use crate::client::subscriber_counts::Ours;
use crate::operation::changed_keys::Listener;
use crate::operation::channels::{Channels, What};
use crate::operation::program::Message;
use crate::operation::{Kind, Operation, envelope};
use crate::resp::flat;
use crate::resp::reply::Reply;

impl Engine {
    /// Listens for changes of keys with these fingerprints.
    pub fn changes_of(&self, keys: Vec<u64>) -> Listener {
        self.changes.listen(keys)
    }

    /// Runs an operation on any key.
    pub async fn run_now(self: &Rc<Self>, operation: Operation) -> Reply {
        let key = self.fingerprint(operation.db, &operation.key);
        self.run(operation, key).await
    }

    /// Returns an operation that publishes `message`; `ours` are the subscribers that masters do not count.
    pub fn publication(
        &self,
        kind: ChannelKind,
        channel: &[u8],
        message: &[u8],
        ours: Ours,
    ) -> Operation {
        let sealed = envelope::seal(self.stamps.next(), message);
        let publish = Channels::new(What::Publish { kind, sealed, ours });
        Operation { db: 0, key: channel.into(), kind: Kind::Channels(Box::new(publish)) }
    }

    /// Publishes `message` at once, without waiting for the number of recipients.
    pub fn publish(self: &Rc<Self>, kind: ChannelKind, channel: &[u8], message: &[u8]) {
        let publisher = self.publisher.get().unwrap_or(self);
        let operation = publisher.publication(kind, channel, message, Ours::default());
        publisher.start(operation, publisher.fingerprint(0, channel), Target::nobody());
    }

    /// Publishes on the masters of another shard from now on: that of all subscriptions.
    pub fn publishes_on(&self, publisher: &Rc<Self>) {
        let _ = self.publisher.set(Rc::clone(publisher));
    }

    /// Queues messages that a program has held back, now that a quorum agrees.
    pub(super) fn announce(&self, messages: Vec<Message>) {
        if !messages.is_empty() {
            self.announcements.borrow_mut().extend(messages);
        }
    }

    #[inline]
    pub(super) fn publish_announcements(self: &Rc<Self>) {
        if !self.announcements.borrow().is_empty() {
            self.publish_all_announcements();
        }
    }

    #[cold]
    fn publish_all_announcements(self: &Rc<Self>) {
        let messages = std::mem::take(&mut *self.announcements.borrow_mut());
        for message in messages {
            match message {
                Message::Published { shard, channel, payload } => {
                    let kind = if shard { ChannelKind::Shard } else { ChannelKind::Plain };
                    self.publish(kind, &channel, &payload);
                }
                Message::Called { db, words } => {
                    let words = flat::elements(&words).filter_map(|word| word.body);
                    let words: Vec<_> = words.collect();
                    self.rules().onlookers.monitors().show_call(&words, db);
                }
                Message::Happened(event) => self.publish_event(&event),
            }
        }
    }

    fn publish_event(self: &Rc<Self>, event: &KeyEvent) {
        if is_reserved(&event.key) {
            return;
        }
        for (channel, message) in self.rules().onlookers.events().channels_of(event) {
            self.publish(ChannelKind::Plain, &channel, &message);
        }
    }

    /// Returns the keys that an operation has changed, if any client listens. With several keys, the operation may only
    /// have read some of them.
    pub(super) fn changed_keys(&self, operation: &Operation) -> Vec<(u32, Vec<u8>)> {
        if self.changes.is_unheard() && !self.may_free(operation) {
            return Vec::new();
        }
        operation.changed_keys(&self.rules())
    }

    pub(super) fn tell_changes(&self, operation: &Operation, changed: Vec<(u32, Vec<u8>)>) {
        let (certain, may_free) = (changed.len() == 1, self.may_free(operation));
        for (db, key) in changed {
            let key = self.fingerprint(db, &key);
            self.changes.tell(key, certain);
            if may_free {
                self.free(key);
            }
        }
    }
}
