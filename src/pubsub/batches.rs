//! Requests with many topics, and subscribers that have many: over several turns of the event loop.
//!
//! [`Hub`] needs a microsecond or two for one topic, and one request may name 50,000 of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;

use super::hub::Hub;
use super::subscriber::{Subscriber, bytes_of};
use crate::catalogue::channel::Topic;
use crate::client::outbox::Target;
use crate::client::slices::{Slice, Sliced, Slices};
use crate::client::timeslice::TimeSlice;
use crate::client::unconfirmed::Unanswered;
use crate::resp::reply::Reply;

/// Topics handled in one step.
pub(super) const AT_ONCE: usize = 8;

/// Topics of one request that are sent to the masters before the request waits for them. Topics of other requests come
/// in between.
const TOLD_AT_ONCE: usize = 16;

/// Number of waits for masters that confirm nothing: in a long request, one wait may hit a bad moment.
const ATTEMPTS: usize = 3;

/// Divisor of the topics of all departed subscribers: the share released before waiting for the masters.
const RELEASED_AT_ONCE: usize = 16;

impl Hub {
    /// Whether these topics take several turns.
    pub fn is_many(topics: &[Topic]) -> bool {
        topics.len() > AT_ONCE
    }

    /// [`Hub::subscribe`] with many topics.
    pub(super) async fn subscribe_to_many(
        self: Rc<Self>,
        subscriber: Rc<Subscriber>,
        topics: Vec<Topic>,
        target: Target,
        unanswered: Option<Unanswered>,
    ) {
        let mut time = TimeSlice::default();
        let mut all = AllOf::of(&self, &subscriber, topics, unanswered);
        while all.claim_some(&mut time).await && !target.is_closed() {
            self.caught_up().await;
            let mut error = all.why_not(&mut time).await;
            for _ in 1..ATTEMPTS {
                if error.is_some() {
                    self.caught_up().await;
                    error = all.why_not(&mut time).await;
                }
            }
            if let Some(error) = error {
                drop(all);
                return target.deliver(error);
            }
        }
        target.deliver_slices(Sliced::new(all));
    }

    /// [`Hub::unsubscribe`] with many topics.
    pub(super) async fn unsubscribe_from_many(
        self: Rc<Self>,
        subscriber: Rc<Subscriber>,
        topics: Vec<Topic>,
        target: Target,
    ) {
        let mut time = TimeSlice::default();
        let mut confirmations = Vec::with_capacity(topics.len());
        for some in topics.chunks(TOLD_AT_ONCE) {
            if target.is_closed() {
                return;
            }
            for topic in some {
                self.leave(&subscriber, topic);
                confirmations.push(subscriber.unsubscribed(topic));
                time.rest().await;
            }
            self.caught_up().await;
        }
        subscriber.set_changing(false);
        target.deliver(Reply::Each(confirmations));
    }

    /// Removes the subscriptions of a session that has gone. Its number is gone, too, so no client waits for this.
    pub fn forget_subscriber(&self, subscriber: Rc<Subscriber>) {
        let topics = subscriber.topics();
        if topics.len() <= AT_ONCE {
            return self.leave_all(&subscriber);
        }
        self.leavers.come(Some(subscriber), topics);
    }

    /// Releases the topics of subscribers that have left with many of them. Never returns.
    pub async fn see_off(self: Rc<Self>) {
        let mut time = TimeSlice::default();
        loop {
            let next = self.leavers.queue.borrow_mut().pop_front();
            let Some((subscriber, topics)) = next else {
                self.leavers.came.notified().await;
                continue;
            };
            let backlog = topics.len() + self.leavers.backlog();
            for some in topics.chunks(TOLD_AT_ONCE.max(backlog / RELEASED_AT_ONCE)) {
                for topic in some {
                    match &subscriber {
                        Some(subscriber) => _ = self.leave(subscriber, topic),
                        None => self.release(topic),
                    }
                    time.rest().await;
                }
                self.caught_up().await;
            }
        }
    }
}

/// Subscribers that have left, or requests that were abandoned, and their topics.
#[derive(Default)]
pub(super) struct Leavers {
    queue: RefCell<VecDeque<Leaver>>,
    came: Notify,
}

type Leaver = (Option<Rc<Subscriber>>, Vec<Topic>);

impl Leavers {
    fn come(&self, subscriber: Option<Rc<Subscriber>>, topics: Vec<Topic>) {
        self.queue.borrow_mut().push_back((subscriber, topics));
        self.came.notify_one();
    }

    fn backlog(&self) -> usize {
        self.queue.borrow().iter().map(|(_, topics)| topics.len()).sum()
    }
}

/// The topics of one request on their way to their confirmation.
struct AllOf {
    hub: Rc<Hub>,
    subscriber: Rc<Subscriber>,
    topics: Vec<Topic>,
    /// Number of leading topics that are claimed.
    claimed: usize,
    /// Number of leading topics that a master has confirmed.
    held: usize,
    /// Number of leading topics that are confirmed, and no longer claimed.
    confirmed: usize,
    /// Memory that the unconfirmed topics take.
    bytes: usize,
    /// Messages wait for the subscription.
    unanswered: Option<Unanswered>,
}

impl AllOf {
    fn of(
        hub: &Rc<Hub>,
        subscriber: &Rc<Subscriber>,
        topics: Vec<Topic>,
        unanswered: Option<Unanswered>,
    ) -> Self {
        let bytes = topics.iter().map(bytes_of).sum();
        let (hub, subscriber) = (Rc::clone(hub), Rc::clone(subscriber));
        Self { hub, subscriber, topics, claimed: 0, held: 0, confirmed: 0, bytes, unanswered }
    }

    /// Claims some more topics. Returns whether there were any.
    async fn claim_some(&mut self, time: &mut TimeSlice) -> bool {
        let some = TOLD_AT_ONCE.min(self.topics.len() - self.claimed);
        for _ in 0..some {
            self.hub.claim(&self.topics[self.claimed]);
            self.claimed += 1;
            time.rest().await;
        }
        some > 0
    }

    /// Returns the error if no master has confirmed one of the topics claimed last.
    async fn why_not(&mut self, time: &mut TimeSlice) -> Option<Reply> {
        for some in self.topics[self.held..self.claimed].chunks(AT_ONCE) {
            if let Some(error) = self.hub.why_not(some) {
                return Some(error);
            }
            self.held += some.len();
            time.rest().await;
        }
        None
    }

    fn release_next(&mut self) {
        let topic = &self.topics[self.confirmed];
        self.hub.release(topic);
        self.bytes -= bytes_of(topic);
        if let Some(unanswered) = &mut self.unanswered {
            unanswered.confirm_next();
        }
        self.confirmed += 1;
    }
}

/// The confirmations. Messages of a topic are kept from its confirmation on, and delivered after all confirmations.
impl Slices for AllOf {
    fn next(&mut self) -> Option<Slice> {
        let some = AT_ONCE.min(self.claimed - self.confirmed);
        if some == 0 {
            self.subscriber.set_changing(false);
            self.unanswered = None;
            return None;
        }
        let confirm = |_| {
            let confirmation = self.hub.join(&self.subscriber, &self.topics[self.confirmed]);
            self.release_next();
            confirmation
        };
        let slice = Slice::Whole(Reply::Each((0..some).map(confirm).collect()));
        self.subscriber.waits_for(self.bytes);
        Some(slice)
    }
}

/// Gives up the unconfirmed topics, e.g. because the client has gone.
impl Drop for AllOf {
    fn drop(&mut self) {
        self.subscriber.set_changing(false);
        if self.confirmed < self.claimed {
            let mut topics = std::mem::take(&mut self.topics);
            topics.truncate(self.claimed);
            topics.drain(..self.confirmed);
            self.hub.leavers.come(None, topics);
        }
    }
}
