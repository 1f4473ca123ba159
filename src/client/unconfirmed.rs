//! The topics that clients of this process have asked for and that are not confirmed yet.
//!
//! In a single Redis a subscription exists once its request is read. Here the masters must hear of it first, and a
//! message that they pass on meanwhile reaches nobody. `PUBLISH` therefore waits for the subscriptions that were
//! requested before it, and for no later ones, so that a stream of new subscriptions does not delay it for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::memory::shrink;
use crate::catalogue::channel::{ChannelKind, Topic, TopicKind};
use crate::resp::glob;

/// The unconfirmed topics of all workers.
#[derive(Debug, Default)]
pub struct Unconfirmed {
    /// Number of requests below: with none, a message takes no lock.
    count: AtomicUsize,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    last: u64,
    by_number: HashMap<u64, Answer>,
    /// The numbers of the requests that name a channel.
    channels: HashMap<Topic, Vec<u64>>,
    /// Kept apart, because a message must be matched against every pattern.
    patterns: HashMap<Topic, Vec<u64>>,
}

/// The end of a request, for those who wait for it.
#[derive(Clone, Debug)]
struct Answer {
    /// Closed when the request is confirmed, refused or abandoned.
    ended: watch::Receiver<()>,
    /// Time from which nobody waits for it any more.
    until: Instant,
}

impl Unconfirmed {
    /// Registers a request for `topics` until it is dropped. Messages wait for it no longer than `until`.
    pub fn begin(self: &Arc<Self>, topics: Vec<Topic>, until: Instant) -> Unanswered {
        let (end, ended) = watch::channel(());
        let mut requests = self.requests();
        requests.last += 1;
        let number = requests.last;
        requests.by_number.insert(number, Answer { ended, until });
        for topic in &topics {
            requests.of_kind(topic.kind).entry(topic.clone()).or_default().push(number);
        }
        drop(requests);
        self.count.fetch_add(1, Ordering::SeqCst);
        Unanswered { all: Arc::clone(self), number, topics, confirmed: 0, _end: end }
    }

    /// Returns what a message on this channel has to wait for, if anything.
    #[inline]
    pub fn before(&self, kind: ChannelKind, channel: &[u8]) -> Option<Hold> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.requests().before(kind, channel)
    }

    /// No code under this lock can panic; even if it did, the data would still be valid.
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requests {
    fn of_kind(&mut self, kind: TopicKind) -> &mut HashMap<Topic, Vec<u64>> {
        match kind {
            TopicKind::Pattern => &mut self.patterns,
            TopicKind::Channel | TopicKind::Shard => &mut self.channels,
        }
    }

    fn before(&self, kind: ChannelKind, channel: &[u8]) -> Option<Hold> {
        let topic = kind.topic(Bytes::copy_from_slice(channel));
        let mut numbers = self.channels.get(&topic).cloned().unwrap_or_default();
        if kind == ChannelKind::Plain {
            for (pattern, by_pattern) in &self.patterns {
                if glob::matches(&pattern.name, channel, false) {
                    numbers.extend(by_pattern);
                }
            }
        }
        let now = Instant::now();
        let answers = numbers.iter().filter_map(|number| self.by_number.get(number));
        let answers: Vec<_> = answers.filter(|answer| answer.until > now).cloned().collect();
        (!answers.is_empty()).then_some(Hold(answers))
    }

    fn forget(&mut self, topic: &Topic, number: u64) {
        let topics = self.of_kind(topic.kind);
        let Some(numbers) = topics.get_mut(topic) else { return };
        // A request may name a topic twice.
        if let Some(place) = numbers.iter().position(|known| *known == number) {
            numbers.swap_remove(place);
        }
        if numbers.is_empty() {
            topics.remove(topic);
            shrink(topics);
        }
    }
}

/// A `SUBSCRIBE` without its answer. Messages on its topics wait until it is dropped.
#[derive(Debug)]
pub struct Unanswered {
    all: Arc<Unconfirmed>,
    number: u64,
    topics: Vec<Topic>,
    /// Number of leading topics that are confirmed.
    confirmed: usize,
    /// Closes the receivers.
    _end: watch::Sender<()>,
}

impl Unanswered {
    /// Notes that the next topic is confirmed, while others are not.
    pub fn confirm_next(&mut self) {
        if let Some(topic) = self.topics.get(self.confirmed) {
            self.all.requests().forget(topic, self.number);
            self.confirmed += 1;
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let mut requests = self.all.requests();
        for topic in &self.topics[self.confirmed..] {
            requests.forget(topic, self.number);
        }
        requests.by_number.remove(&self.number);
        shrink(&mut requests.by_number);
        drop(requests);
        self.all.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The requests that one message waits for.
#[derive(Debug)]
pub struct Hold(Vec<Answer>);

impl Hold {
    /// Resolves when all these requests are answered, or have been waited for long enough.
    pub async fn over(self) {
        for mut answer in self.0 {
            // Nothing is ever sent: an error says that the request has ended.
            let _ = timeout_at(answer.until, answer.ended.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(400);

    fn topic(kind: TopicKind, name: &'static str) -> Topic {
        Topic { kind, name: name.into() }
    }

    fn begin(all: &Arc<Unconfirmed>, kind: TopicKind, name: &'static str) -> Unanswered {
        all.begin(vec![topic(kind, name)], Instant::now() + PATIENCE)
    }

    fn is_held(all: &Unconfirmed, kind: ChannelKind, channel: &[u8]) -> bool {
        all.before(kind, channel).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_waits_for_its_channel_and_the_patterns_that_match() {
        use ChannelKind::{Plain, Shard};
        for (kind, name, held) in [
            (TopicKind::Channel, "news", [true, false]),
            (TopicKind::Pattern, "n?ws", [true, false]),
            (TopicKind::Shard, "news", [false, true]),
            (TopicKind::Channel, "other", [false, false]),
            (TopicKind::Pattern, "other*", [false, false]),
        ] {
            let all = Arc::default();
            let request = begin(&all, kind, name);
            assert_eq!([Plain, Shard].map(|kind| is_held(&all, kind, b"news")), held, "{name}");
            drop(request);
            assert!(![Plain, Shard].into_iter().any(|kind| is_held(&all, kind, b"news")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn later_subscriptions_do_not_prolong_the_wait() {
        let all = Arc::default();
        let first = begin(&all, TopicKind::Channel, "news");
        let mut over = Box::pin(all.before(ChannelKind::Plain, b"news").expect("held").over());
        let _second = begin(&all, TopicKind::Channel, "news");
        assert!(over.as_mut().now_or_never().is_none());
        drop(first);
        assert!(over.now_or_never().is_some());
        assert!(is_held(&all, ChannelKind::Plain, b"news"), "by the second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_without_an_answer_is_not_waited_for_for_ever() {
        let all = Arc::default();
        let _request = begin(&all, TopicKind::Channel, "news");
        let (hold, began) =
            (all.before(ChannelKind::Plain, b"news").expect("held"), Instant::now());
        hold.over().await;
        assert!((PATIENCE..2 * PATIENCE).contains(&began.elapsed()));
        assert!(!is_held(&all, ChannelKind::Plain, b"news"), "the next one does not wait at all");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_confirmed_is_forgotten() {
        let all: Arc<Unconfirmed> = Arc::default();
        let names = ["a", "b", "a"].map(|name| topic(TopicKind::Channel, name));
        let mut request = all.begin(names.to_vec(), Instant::now() + PATIENCE);
        let held = |name: &[u8]| is_held(&all, ChannelKind::Plain, name);
        request.confirm_next();
        assert!(held(b"a") && held(b"b"), "a is named twice");
        request.confirm_next();
        assert!(held(b"a") && !held(b"b"));
        drop(request);
        let requests = all.requests();
        assert!(requests.channels.is_empty() && requests.by_number.is_empty());
    }
}
