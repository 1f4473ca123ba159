//! `SUBSCRIBE` alongside a data Redis: channels of locks are heard on the masters, all others on the data Redis.
//!
//! A request may name both. Its topics are confirmed in order, so adjacent topics with the same home form one *run*.
//! Each run begins when the previous one is confirmed.

use std::collections::VecDeque;
use std::rc::Rc;

use tokio::time::Instant;

use super::caller::Caller;
use crate::catalogue::channel::{Topic, TopicKind};
use crate::client::outbox::{Order, Target};
use crate::client::unconfirmed::Unanswered;
use crate::data::connection::Confirmed;
use crate::names::lock_names::{Home, LockNames};
use crate::operation::request;
use crate::pubsub::hub::Hub;
use crate::pubsub::subscriber::Subscriber;
use crate::resp::reply::Reply;

/// Vote timeouts for which messages wait for a subscription at most: it may have to connect to the masters first, and
/// then wait one vote timeout for a master that is silent.
const PATIENCE: u32 = 2;

/// The effect of a request on subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionChange {
    /// `SUBSCRIBE` and its variants.
    Join,
    /// `UNSUBSCRIBE` and its variants.
    Leave,
}

/// Topics that are confirmed together.
#[derive(Debug)]
pub struct TopicRun {
    change: SubscriptionChange,
    kind: TopicKind,
    home: Home,
    topics: Vec<Topic>,
    target: Target,
    /// Messages wait for a subscription.
    unanswered: Option<Unanswered>,
}

/// Runs that have yet to begin.
pub type TopicRuns = VecDeque<TopicRun>;

impl Caller {
    /// Subscribes to topics of one kind. Returns true: the request is never deferred.
    pub fn subscribe(&mut self, topics: Vec<Topic>) -> bool {
        if let Some(kind) = topics.first().map(|topic| topic.kind) {
            self.listen(SubscriptionChange::Join, kind, topics);
        }
        true
    }

    /// Unsubscribes from topics of one kind, or from all if there are none. Returns true: the request is never
    /// deferred.
    pub fn unsubscribe(&mut self, kind: TopicKind, topics: Vec<Topic>) -> bool {
        self.listen(SubscriptionChange::Leave, kind, topics);
        true
    }

    fn listen(&mut self, change: SubscriptionChange, kind: TopicKind, topics: Vec<Topic>) {
        if topics.is_empty() {
            self.add_run(change, kind, Home::Masters, topics);
        } else {
            for (home, topics) in self.runs_of(change, topics) {
                self.add_run(change, kind, home, topics);
            }
        }
        self.begin_runs();
    }

    fn runs_of(&self, change: SubscriptionChange, topics: Vec<Topic>) -> Vec<(Home, Vec<Topic>)> {
        let mut runs: Vec<(Home, Vec<Topic>)> = Vec::new();
        for topic in topics {
            let home = match &self.side {
                Some(side) => self.home_of(&side.upstream().settings().locks, change, &topic),
                None => Home::Masters,
            };
            match runs.last_mut() {
                Some((last, run)) if *last == home => run.push(topic),
                _ => runs.push((home, vec![topic])),
            }
        }
        runs
    }

    /// Returns the home of a topic. For a topic to be left, it is the home where it has been heard until now.
    pub fn home_of(&self, locks: &LockNames, change: SubscriptionChange, topic: &Topic) -> Home {
        let is_there = |subscriber: &Rc<Subscriber>| subscriber.is_in_elsewhere(topic);
        match change {
            SubscriptionChange::Leave if !self.subscriber.as_ref().is_some_and(is_there) => {
                Home::Masters
            }
            _ => locks.home(topic),
        }
    }

    /// Whether there are topics, and all of them are heard on the data Redis alone.
    pub fn are_of_data(&self, change: SubscriptionChange, topics: &[Topic]) -> bool {
        let Some(side) = &self.side else { return false };
        let locks = &side.upstream().settings().locks;
        let is_there = |topic: &Topic| self.home_of(locks, change, topic) == Home::Data;
        !topics.is_empty() && topics.iter().all(is_there)
    }

    /// Queues a run. Confirmations are messages, which `CLIENT REPLY OFF` does not suppress.
    fn add_run(
        &mut self,
        change: SubscriptionChange,
        kind: TopicKind,
        home: Home,
        topics: Vec<Topic>,
    ) {
        let _ = self.is_silent();
        let target = self.outbox.reserve(self.ticket_of(Order::Plain), false);
        let joins_masters = change == SubscriptionChange::Join && home != Home::Data;
        let unanswered = joins_masters.then(|| self.unanswered(topics.clone()));
        self.runs.push_back(TopicRun { change, kind, home, topics, target, unanswered });
    }

    /// Has messages on these topics wait for the confirmation.
    fn unanswered(&self, topics: Vec<Topic>) -> Unanswered {
        let until = Instant::now() + PATIENCE * self.home.engine().rules().vote_timeout;
        self.home.registry().unconfirmed().begin(topics, until)
    }

    /// Begins the next runs to be confirmed. Returns whether there is a request for the data Redis.
    pub fn begin_runs(&mut self) -> bool {
        while !self.runs.is_empty() && !self.is_changing() {
            let Some(run) = self.runs.pop_front() else { break };
            let subscriber = self.subscriber();
            let hub = Rc::clone(self.home.hub());
            match run.home {
                Home::Masters => run.at_masters(&hub, &subscriber),
                Home::Data | Home::Both => {
                    self.begin_at_data(run, hub, subscriber);
                    return true;
                }
            }
        }
        false
    }

    fn is_changing(&self) -> bool {
        self.subscriber.as_ref().is_some_and(|subscriber| subscriber.is_changing())
    }

    fn begin_at_data(&mut self, run: TopicRun, hub: Rc<Hub>, subscriber: Rc<Subscriber>) {
        let Some(side) = &mut self.side else { return };
        side.listen(&subscriber);
        let Some(connection) = side.connection() else { return };
        let word = match run.change {
            SubscriptionChange::Join => run.kind.subscribe(),
            SubscriptionChange::Leave => run.kind.unsubscribe(),
        };
        let mut request = Vec::new();
        request::header(&mut request, 1 + run.topics.len());
        request::word(&mut request, word.as_bytes());
        run.topics.iter().for_each(|topic| request::word(&mut request, &topic.name));
        subscriber.set_changing(true);
        connection.subscribe(&request, run.topics.len(), run.confirmed(hub, subscriber));
    }
}

impl TopicRun {
    fn at_masters(self, hub: &Rc<Hub>, subscriber: &Rc<Subscriber>) {
        let TopicRun { change, kind, topics, target, unanswered, .. } = self;
        match change {
            SubscriptionChange::Join => hub.subscribe(subscriber, topics, target, unanswered),
            SubscriptionChange::Leave => hub.unsubscribe(subscriber, kind, topics, target),
        }
    }

    /// Returns the action that follows the confirmation by the data Redis. From that moment on its messages may arrive.
    fn confirmed(self, hub: Rc<Hub>, subscriber: Rc<Subscriber>) -> Confirmed {
        Box::new(move |confirmed| {
            subscriber.set_changing(false);
            if let Err(text) = confirmed {
                let text = String::from_utf8_lossy(text).into_owned();
                return self.target.deliver(Reply::error(text));
            }
            let change = |topic| match self.change {
                SubscriptionChange::Join => subscriber.join_elsewhere(topic),
                SubscriptionChange::Leave => subscriber.leave_elsewhere(topic),
            };
            let confirmations = self.topics.iter().map(change).collect();
            match self.home {
                Home::Both => self.at_masters(&hub, &subscriber),
                _ => self.target.deliver(Reply::Each(confirmations)),
            }
        })
    }
}
