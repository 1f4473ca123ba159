//! The subscriptions of one worker's sessions. Each topic has one subscription at every master, however many sessions
//! want it. Sessions receive one copy of every message, from the first master that delivers it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use super::batches::{self, Leavers};
use super::duplicates::{HeardMessages, SeenMessages};
use super::expiries::{Expiries, is_expiry, is_notification};
use super::handover::Journal;
use super::subscriber::{Subscriber, bytes_of};
use super::subscription_link::Feed;
use crate::catalogue::channel::{Topic, TopicKind};
use crate::catalogue::reserved::is_reserved;
use crate::client::memory::shrink;
use crate::client::outbox::Target;
use crate::client::registry::Registry;
use crate::client::subscriber_counts::Ours;
use crate::client::unconfirmed::Unanswered;
use crate::decision::quorum::{MasterId, MasterSet};
use crate::engine::Engine;
use crate::operation::{Rules, envelope, verdict};
use crate::resp::reply::Reply;
use crate::time::clock;

/// The subscriptions of one worker.
pub struct Hub {
    rules: Rc<Rules>,
    feeds: Vec<Rc<Feed>>,
    registry: Arc<Registry>,
    topics: RefCell<HashMap<Topic, Subscription>>,
    /// The messages seen on any topic, for later subscriptions.
    seen: RefCell<SeenMessages>,
    /// The messages heard while subscribers move to or from another process.
    journal: RefCell<Journal>,
    /// The expiries that masters have told of.
    expiries: RefCell<Expiries>,
    pub(super) leavers: Leavers,
}

/// A topic that a session wants.
#[derive(Default)]
struct Subscription {
    /// The topic's subscribers, by session.
    subscribers: BTreeMap<u64, Rc<Subscriber>>,
    /// Number of requests that wait for its confirmation.
    claims: usize,
    /// Masters that have confirmed the topic and were not lost since.
    holders: MasterSet,
    /// Whether the topic was confirmed to a session, so that all masters that were up then have it.
    confirmed: bool,
    /// The error of a master that refused the topic.
    refusal: Option<String>,
    /// The messages seen on the topic.
    seen: SeenMessages,
}

impl Hub {
    /// Returns a hub without subscriptions, whose feeds are not connected.
    pub fn new(engine: &Engine, registry: Arc<Registry>) -> Rc<Self> {
        Rc::new(Self {
            rules: engine.rules(),
            feeds: engine.links().iter().map(|link| Feed::new(Rc::clone(link))).collect(),
            registry,
            topics: RefCell::default(),
            seen: RefCell::default(),
            journal: RefCell::default(),
            expiries: RefCell::default(),
            leavers: Leavers::default(),
        })
    }

    /// Returns the connections that listen, in the order of the list of masters.
    pub fn feeds(&self) -> &[Rc<Feed>] {
        &self.feeds
    }

    /// Whether no topic is wanted.
    pub fn is_idle(&self) -> bool {
        self.topics.borrow().is_empty()
    }

    /// Returns all wanted topics.
    pub fn topics(&self) -> Vec<Topic> {
        self.topics.borrow().keys().cloned().collect()
    }

    /// `SUBSCRIBE`: confirmed when at least one master has confirmed it. Every other master that is up must have
    /// confirmed it as well, or have confirmed nothing for the vote timeout. `target` receives all confirmations at
    /// once, or one error.
    ///
    /// Messages of this process wait until `unanswered` is dropped.
    ///
    /// Messages are delivered exactly from the confirmation on: none before it, and none is omitted after it. The
    /// caller ensures that no reply is due before.
    pub fn subscribe(
        self: &Rc<Self>,
        subscriber: &Rc<Subscriber>,
        topics: Vec<Topic>,
        target: Target,
        unanswered: Option<Unanswered>,
    ) {
        subscriber.set_changing(true);
        subscriber.waits_for(topics.iter().map(bytes_of).sum());
        if topics.len() > batches::AT_ONCE {
            let (hub, subscriber) = (Rc::clone(self), Rc::clone(subscriber));
            tokio::task::spawn_local(hub.subscribe_to_many(subscriber, topics, target, unanswered));
            return;
        }
        topics.iter().for_each(|topic| self.claim(topic));
        if topics.iter().all(|topic| self.is_confirmed(topic)) {
            return self.confirm(subscriber, &topics, target);
        }
        let (hub, subscriber) = (Rc::clone(self), Rc::clone(subscriber));
        let caught_up = self.caught_up();
        tokio::task::spawn_local(async move {
            caught_up.await;
            hub.confirm(&subscriber, &topics, target);
            drop(unanswered);
        });
    }

    /// `UNSUBSCRIBE`: no message is delivered from now on. The confirmation follows once the masters know, so that
    /// messages published after it are not counted as received.
    pub fn unsubscribe(
        self: &Rc<Self>,
        subscriber: &Rc<Subscriber>,
        kind: TopicKind,
        topics: Vec<Topic>,
        target: Target,
    ) {
        if topics.len() > batches::AT_ONCE {
            subscriber.set_changing(true);
            subscriber.waits_for(topics.iter().map(bytes_of).sum());
            let (hub, subscriber) = (Rc::clone(self), Rc::clone(subscriber));
            tokio::task::spawn_local(hub.unsubscribe_from_many(subscriber, topics, target));
            return;
        }
        let mut masters_know = true;
        let mut confirmations = Vec::with_capacity(topics.len());
        for topic in &topics {
            masters_know &= !self.leave(subscriber, topic);
            confirmations.push(subscriber.unsubscribed(topic));
        }
        if topics.is_empty() {
            confirmations.push(subscriber.nothing_unsubscribed(kind));
        }
        let reply = Reply::Each(confirmations);
        if masters_know {
            return target.deliver(reply);
        }
        subscriber.set_changing(true);
        let subscriber = Rc::clone(subscriber);
        let caught_up = self.caught_up();
        tokio::task::spawn_local(async move {
            caught_up.await;
            subscriber.set_changing(false);
            target.deliver(reply);
        });
    }

    /// Ends all subscriptions of a session that was `RESET` or has gone.
    pub fn leave_all(&self, subscriber: &Subscriber) {
        for topic in subscriber.topics() {
            self.leave(subscriber, &topic);
        }
    }

    /// Notes that a master has confirmed a topic.
    pub fn subscribed(&self, master: MasterId, topic: &Topic) {
        if let Some(subscription) = self.topics.borrow_mut().get_mut(topic) {
            subscription.holders.insert(master);
        }
    }

    /// Notes that a master has refused a topic, e.g. because of a lack of permission.
    pub fn refused(&self, topic: &Topic, error: &str) {
        if let Some(subscription) = self.topics.borrow_mut().get_mut(topic) {
            subscription.refusal = Some(error.to_owned());
        }
    }

    /// Notes that the feed of this master was lost.
    pub fn lost(&self, master: MasterId) {
        for subscription in self.topics.borrow_mut().values_mut() {
            subscription.holders.remove(master);
        }
    }

    /// Delivers a message from a master, unless another master has delivered it before. Messages in the proxy's own
    /// channels are not for clients, whose patterns may match them.
    pub fn message(&self, master: MasterId, topic: &Topic, channel: Bytes, payload: Bytes) {
        if is_reserved(&channel) {
            return;
        }
        let (stamp, message) = envelope::open(payload);
        if let Some(stamp) = stamp {
            self.seen.borrow_mut().is_new(stamp);
        } else if is_notification(&channel) && !self.is_told(master, topic, &channel, &message) {
            return;
        }
        let mut topics = self.topics.borrow_mut();
        let Some(subscription) = topics.get_mut(topic) else { return };
        if stamp.is_some_and(|stamp| !subscription.seen.is_new(stamp)) {
            return;
        }
        let frame = frame(topic, channel, message);
        self.journal.borrow_mut().note(topic, stamp, &frame);
        let subscribers = subscription.subscribers.values();
        subscribers.for_each(|subscriber| subscriber.hears(topic, stamp, &frame));
    }

    /// Whether subscribers hear of a keyspace notification of this master.
    fn is_told(&self, master: MasterId, topic: &Topic, channel: &Bytes, message: &Bytes) -> bool {
        let classes = self.rules.onlookers.events();
        let said = (topic.clone(), channel.clone(), message.clone());
        let (quorum, now) = (self.rules.quorum, self.rules.at(clock::now()));
        is_expiry(channel, message, classes)
            && self.expiries.borrow_mut().said(said, master, quorum, now)
    }

    /// Ends the journal, once no subscriber moves any more.
    pub fn end_journal(&self) {
        let expected = self.journal.borrow_mut().end();
        expected.iter().for_each(|topic| self.release(topic));
    }

    /// Listens to the topics of subscribers that will come from another process. Resolves when the masters that are up
    /// know.
    pub fn expect(&self, topics: Vec<Topic>) -> impl Future<Output = ()> + use<> {
        topics.iter().for_each(|topic| self.claim(topic));
        let mut journal = self.journal.borrow_mut();
        journal.begin();
        journal.expected.extend(topics);
        self.caught_up()
    }

    /// Returns the messages that a departing subscriber has heard.
    pub fn heard_by(&self, subscriber: &Subscriber) -> Vec<(Topic, HeardMessages)> {
        let known = self.topics.borrow();
        let heard = |topic: Topic| {
            let heard = subscriber.with_earlier(&topic, known.get(&topic)?.seen.heard());
            (heard != HeardMessages::default()).then_some((topic, heard))
        };
        subscriber.topics().into_iter().filter_map(heard).collect()
    }

    /// Continues a subscriber of another process, which receives the messages that it has not `heard` there. Nothing is
    /// confirmed.
    pub fn resume(
        self: &Rc<Self>,
        subscriber: &Rc<Subscriber>,
        topics: Vec<Topic>,
        heard: &[(Topic, HeardMessages)],
    ) {
        subscriber.heard_before(heard);
        let is_expected = |topic: &Topic| self.journal.borrow().expected.contains(topic);
        let (expected, new): (Vec<_>, Vec<_>) = topics.into_iter().partition(is_expected);
        for topic in &expected {
            self.join(subscriber, topic);
        }
        let journal = self.journal.borrow();
        for (topic, stamp, frame) in journal.noted(&expected) {
            subscriber.hears(topic, Some(stamp), frame);
        }
        if !new.is_empty() {
            self.subscribe(subscriber, new, Target::nobody(), None);
        }
    }

    /// Registers a request that waits for `topic`.
    pub(super) fn claim(&self, topic: &Topic) {
        let mut topics = self.topics.borrow_mut();
        let subscription = topics.entry(topic.clone()).or_insert_with(|| {
            self.feeds.iter().for_each(|feed| feed.subscribe(topic));
            let seen = SeenMessages::from_now_on(&self.seen.borrow());
            Subscription { seen, ..Subscription::default() }
        });
        subscription.claims += 1;
    }

    fn is_confirmed(&self, topic: &Topic) -> bool {
        let topics = self.topics.borrow();
        topics.get(topic).is_some_and(|known| known.confirmed && !known.holders.is_empty())
    }

    /// Resolves when the masters that are up have confirmed every command sent to them. It does not wait for a master
    /// that confirms nothing for the vote timeout; that master confirms later.
    pub fn caught_up(&self) -> impl Future<Output = ()> + use<> {
        let patience = self.rules.vote_timeout;
        let feeds = self.feeds.iter().filter(|feed| feed.has_master());
        let feeds: Vec<_> = feeds.map(|feed| feed.caught_up(patience)).collect();
        join_all(feeds).map(|_| ())
    }

    /// Confirms topics, or refuses them, after the wait for the masters.
    fn confirm(&self, subscriber: &Rc<Subscriber>, topics: &[Topic], target: Target) {
        let reply = match self.why_not(topics) {
            Some(error) => error,
            // The session is gone, so nothing would remove the subscriptions again.
            None if target.is_closed() => Reply::Nil,
            None => Reply::Each(topics.iter().map(|topic| self.join(subscriber, topic)).collect()),
        };
        for topic in topics {
            self.release(topic);
        }
        subscriber.set_changing(false);
        target.deliver(reply);
    }

    /// Returns the error if no master has confirmed one of `topics`.
    pub(super) fn why_not(&self, topics: &[Topic]) -> Option<Reply> {
        let known = self.topics.borrow();
        let unconfirmed = |topic: &&Topic| known.get(topic).is_none_or(|k| k.holders.is_empty());
        let topic = topics.iter().find(unconfirmed)?;
        let refusal = known.get(topic).and_then(|known| known.refusal.as_deref());
        Some(verdict::cannot_subscribe(&self.rules, refusal))
    }

    pub(super) fn join(&self, subscriber: &Rc<Subscriber>, topic: &Topic) -> Reply {
        if let Some(subscription) = self.topics.borrow_mut().get_mut(topic) {
            let workers = i64::from(!std::mem::replace(&mut subscription.confirmed, true));
            let clients = i64::from(subscriber.add(topic));
            subscription.subscribers.insert(subscriber.id(), Rc::clone(subscriber));
            self.registry.audience().change(topic, Ours { clients, workers });
        }
        subscriber.subscribed(topic)
    }

    /// Removes a subscription. Returns whether the masters had to unsubscribe because no session wants `topic` any
    /// more.
    pub(super) fn leave(&self, subscriber: &Subscriber, topic: &Topic) -> bool {
        if !subscriber.remove(topic) {
            return false;
        }
        self.registry.audience().change(topic, Ours { clients: -1, workers: 0 });
        if let Some(subscription) = self.topics.borrow_mut().get_mut(topic) {
            subscription.subscribers.remove(&subscriber.id());
        }
        self.forget(topic)
    }

    /// Notes that a request no longer waits for `topic`.
    pub(super) fn release(&self, topic: &Topic) {
        if let Some(subscription) = self.topics.borrow_mut().get_mut(topic) {
            subscription.claims -= 1;
        }
        self.forget(topic);
    }

    /// Forgets `topic` if no session wants it. Returns whether it was forgotten.
    fn forget(&self, topic: &Topic) -> bool {
        let mut topics = self.topics.borrow_mut();
        let unwanted = |known: &Subscription| known.claims == 0 && known.subscribers.is_empty();
        if !topics.get(topic).is_some_and(unwanted) {
            return false;
        }
        if topics.remove(topic).is_some_and(|known| known.confirmed) {
            self.registry.audience().change(topic, Ours { clients: 0, workers: -1 });
        }
        shrink(&mut topics);
        self.feeds.iter().for_each(|feed| feed.unsubscribe(topic));
        true
    }
}

/// Returns a message as subscribers receive it.
fn frame(topic: &Topic, channel: Bytes, message: Bytes) -> Reply {
    let word = Reply::bulk(Bytes::from_static(topic.kind.message().as_bytes()));
    let (channel, message) = (Reply::Bulk(channel), Reply::Bulk(message));
    Reply::Push(match topic.kind {
        TopicKind::Pattern => vec![word, Reply::Bulk(topic.name.clone()), channel, message],
        TopicKind::Channel | TopicKind::Shard => vec![word, channel, message],
    })
}
