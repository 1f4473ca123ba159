//! The subscriptions of one session.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::duplicates::HeardMessages;
use crate::catalogue::channel::{Topic, TopicKind};
use crate::client::memory::{ENTRY, MemoryPart};
use crate::client::outbox::Outbox;
use crate::client::registry::Client;
use crate::operation::envelope::MessageStamp;
use crate::resp::reply::Reply;

/// A session, as the [`hub`](super::hub) sees it.
#[derive(Debug)]
pub struct Subscriber {
    client: Arc<Client>,
    outbox: Rc<Outbox>,
    topics: RefCell<BTreeSet<Topic>>,
    /// The topics subscribed to at the data Redis. Patterns are among `topics` as well, and counted there.
    elsewhere: RefCell<BTreeSet<Topic>>,
    /// The messages that the session has heard in its previous process.
    heard: RefCell<HashMap<Topic, HeardMessages>>,
    /// Memory that the topics take.
    bytes: Cell<usize>,
    /// Memory that the unconfirmed topics of a request take.
    unconfirmed: Cell<usize>,
    changing: Cell<bool>,
}

impl Subscriber {
    /// Returns a session without subscriptions.
    pub fn new(client: Arc<Client>, outbox: Rc<Outbox>) -> Rc<Self> {
        let (topics, elsewhere, heard, bytes, unconfirmed, changing) = Default::default();
        Rc::new(Self { client, outbox, topics, elsewhere, heard, bytes, unconfirmed, changing })
    }

    /// Returns the session's number.
    pub fn id(&self) -> u64 {
        self.client.id
    }

    /// Whether a `SUBSCRIBE` or `UNSUBSCRIBE` waits for the masters.
    pub fn is_changing(&self) -> bool {
        self.changing.get()
    }

    /// Sets whether a `SUBSCRIBE` or `UNSUBSCRIBE` waits for its confirmation.
    pub fn set_changing(&self, changing: bool) {
        self.changing.set(changing);
        if !changing {
            self.waits_for(0);
        }
    }

    /// Sets the memory that the unconfirmed part of the request takes.
    pub(super) fn waits_for(&self, bytes: usize) {
        self.unconfirmed.set(bytes);
        self.account();
    }

    /// Returns the session's topics.
    pub fn topics(&self) -> Vec<Topic> {
        self.topics.borrow().iter().cloned().collect()
    }

    /// Returns the session's topics of one kind.
    pub fn topics_of(&self, kind: TopicKind) -> Vec<Topic> {
        self.topics.borrow().iter().filter(|topic| topic.kind == kind).cloned().collect()
    }

    /// Returns the topics of one kind subscribed to at the data Redis.
    pub fn elsewhere_of(&self, kind: TopicKind) -> Vec<Topic> {
        self.elsewhere.borrow().iter().filter(|topic| topic.kind == kind).cloned().collect()
    }

    /// Whether the session has subscribed to the topic at the data Redis.
    pub fn is_in_elsewhere(&self, topic: &Topic) -> bool {
        self.elsewhere.borrow().contains(topic)
    }

    /// Whether the session listens to the data Redis as well.
    pub fn listens_elsewhere(&self) -> bool {
        !self.elsewhere.borrow().is_empty()
    }

    /// Adds a topic after the data Redis has confirmed the subscription.
    pub fn join_elsewhere(&self, topic: &Topic) -> Reply {
        self.change_elsewhere(topic, true);
        self.subscribed(topic)
    }

    /// Removes a topic after the data Redis has confirmed the end of the subscription.
    pub fn leave_elsewhere(&self, topic: &Topic) -> Reply {
        self.change_elsewhere(topic, false);
        self.unsubscribed(topic)
    }

    /// Removes all topics subscribed to at the data Redis.
    pub fn leave_all_elsewhere(&self) {
        let topics = self.elsewhere.borrow().clone();
        topics.iter().for_each(|topic| self.change_elsewhere(topic, false));
    }

    fn change_elsewhere(&self, topic: &Topic, joins: bool) {
        let mut elsewhere = self.elsewhere.borrow_mut();
        let has_changed =
            if joins { elsewhere.insert(topic.clone()) } else { elsewhere.remove(topic) };
        drop(elsewhere);
        let counts = has_changed && topic.kind != TopicKind::Pattern;
        self.count(topic, |count| match joins {
            true => *count += usize::from(counts),
            false => *count -= usize::from(counts),
        });
        let bytes = if has_changed { bytes_of(topic) } else { 0 };
        self.bytes.set(if joins { self.bytes.get() + bytes } else { self.bytes.get() - bytes });
        self.account();
    }

    /// Adds a topic. Returns false if it was already there.
    pub(super) fn add(&self, topic: &Topic) -> bool {
        let new = self.topics.borrow_mut().insert(topic.clone());
        self.count(topic, |count| *count += usize::from(new));
        if new {
            self.bytes.set(self.bytes.get() + bytes_of(topic));
            self.account();
        }
        new
    }

    /// Removes a topic. Returns false if it was not there.
    pub(super) fn remove(&self, topic: &Topic) -> bool {
        let found = self.topics.borrow_mut().remove(topic);
        self.heard.borrow_mut().remove(topic);
        self.count(topic, |count| *count -= usize::from(found));
        if found {
            self.bytes.set(self.bytes.get() - bytes_of(topic));
            self.account();
        }
        found
    }

    fn count(&self, topic: &Topic, change: impl FnOnce(&mut usize)) {
        self.client.subscriptions(|counts| counts.of(topic.kind, change));
    }

    fn account(&self) {
        let bytes = self.bytes.get() + self.unconfirmed.get();
        self.client.holding.set(MemoryPart::Topics, bytes as u64);
    }

    /// Records the messages that the session has heard in its previous process.
    pub(super) fn heard_before(&self, heard: &[(Topic, HeardMessages)]) {
        self.heard.borrow_mut().extend(heard.iter().cloned());
    }

    /// Combines the messages heard in the previous process with those heard here.
    pub(super) fn with_earlier(&self, topic: &Topic, here: HeardMessages) -> HeardMessages {
        match self.heard.borrow().get(topic) {
            Some(earlier) => here.and(earlier),
            None => here,
        }
    }

    /// Sends a message of a topic, between two replies, unless the session has heard it in its previous process.
    pub(super) fn hears(&self, topic: &Topic, stamp: Option<MessageStamp>, message: &Reply) {
        let is_known = |stamp| {
            let heard = self.heard.borrow();
            !heard.is_empty() && heard.get(topic).is_some_and(|heard| heard.includes(stamp))
        };
        if !stamp.is_some_and(is_known) {
            self.outbox.push_message(message);
        }
    }

    /// Returns the confirmation `subscribe` with the topic and the new count.
    pub(super) fn subscribed(&self, topic: &Topic) -> Reply {
        self.confirmation(topic.kind, topic.kind.subscribe(), Reply::Bulk(topic.name.clone()))
    }

    /// Returns the confirmation `unsubscribe` with the topic and the remaining count.
    pub(super) fn unsubscribed(&self, topic: &Topic) -> Reply {
        self.confirmation(topic.kind, topic.kind.unsubscribe(), Reply::Bulk(topic.name.clone()))
    }

    /// Returns the confirmation of `unsubscribe` from everything when there is no topic.
    pub(super) fn nothing_unsubscribed(&self, kind: TopicKind) -> Reply {
        self.confirmation(kind, kind.unsubscribe(), Reply::Nil)
    }

    fn confirmation(&self, kind: TopicKind, word: &'static str, name: Reply) -> Reply {
        let count = self.client.words().subscriptions.confirmed(kind) as i64;
        Reply::Push(vec![Reply::bulk(Bytes::from_static(word.as_bytes())), name, Reply::Int(count)])
    }
}

/// Returns the memory that a topic takes in the maps and sets of the hub and its subscribers.
pub(super) fn bytes_of(topic: &Topic) -> usize {
    topic.name.len() + 2 * ENTRY
}
