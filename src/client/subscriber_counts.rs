//! The number of this process's clients subscribed to each topic.
//!
//! A master counts connections, and a worker has one for all its clients. The proxy therefore corrects the master's
//! answers to `PUBLISH` and `PUBSUB NUMSUB`: it subtracts its own connections and adds its own clients. Subscribers of
//! another proxy count as one for each of its workers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::memory::shrink;
use crate::catalogue::channel::{ChannelKind, Topic, TopicKind};
use crate::resp::glob;

/// The topics of all workers.
#[derive(Debug, Default)]
pub struct Audience(Mutex<Topics>);

#[derive(Debug, Default)]
struct Topics {
    channels: HashMap<Topic, Ours>,
    /// Kept apart, because a message must be matched against every pattern.
    patterns: HashMap<Topic, Ours>,
}

/// The subscribers of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// Sessions: the number that a single Redis would count.
    pub clients: i64,
    /// Workers: the number that a master counts instead.
    pub workers: i64,
}

impl Ours {
    /// Returns the count that a single Redis would report, when a master has reported `counted`.
    pub fn correct(self, counted: i64) -> i64 {
        (counted - self.workers).max(0) + self.clients
    }

    fn add(&mut self, other: Self) {
        self.clients += other.clients;
        self.workers += other.workers;
    }
}

impl Audience {
    /// Changes the number of clients and workers that have subscribed to `topic`; negative numbers subtract.
    pub fn change(&self, topic: &Topic, by: Ours) {
        let mut topics = self.topics();
        let counts = match topic.kind {
            TopicKind::Pattern => &mut topics.patterns,
            TopicKind::Channel | TopicKind::Shard => &mut topics.channels,
        };
        let ours = counts.entry(topic.clone()).or_default();
        ours.add(by);
        if *ours == Ours::default() {
            counts.remove(topic);
            shrink(counts);
        }
    }

    /// Returns all topics that have a subscriber.
    pub fn topics_of_all(&self) -> Vec<Topic> {
        let topics = self.topics();
        topics.channels.keys().chain(topics.patterns.keys()).cloned().collect()
    }

    /// Returns the subscribers of `topic` itself.
    pub fn of(&self, topic: &Topic) -> Ours {
        self.topics().channels.get(topic).copied().unwrap_or_default()
    }

    /// Returns the subscribers that receive a message on this channel, by its name or by a pattern.
    pub fn of_message(&self, kind: ChannelKind, channel: &[u8]) -> Ours {
        let topic = kind.topic(Bytes::copy_from_slice(channel));
        let mut ours = self.of(&topic);
        if kind == ChannelKind::Plain {
            for (pattern, by_pattern) in &self.topics().patterns {
                if glob::matches(&pattern.name, channel, false) {
                    ours.add(*by_pattern);
                }
            }
        }
        ours
    }

    /// No code under this lock can panic; even if it did, the counts would still be valid.
    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a client's subscriptions, as `CLIENT LIST` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionCounts {
    /// `sub`
    pub channels: usize,
    /// `psub`
    pub patterns: usize,
    /// `ssub`
    pub shards: usize,
}

impl SubscriptionCounts {
    /// Whether there is any subscription, so that the client counts as a subscriber.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Returns the count in a confirmation: channels and patterns share one, shard channels have their own.
    pub fn confirmed(self, kind: TopicKind) -> usize {
        match kind {
            TopicKind::Channel | TopicKind::Pattern => self.channels + self.patterns,
            TopicKind::Shard => self.shards,
        }
    }

    /// Changes the count of subscriptions of one kind.
    pub fn of(&mut self, kind: TopicKind, change: impl FnOnce(&mut usize)) {
        change(match kind {
            TopicKind::Channel => &mut self.channels,
            TopicKind::Pattern => &mut self.patterns,
            TopicKind::Shard => &mut self.shards,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(kind: TopicKind, name: &'static str) -> Topic {
        Topic { kind, name: name.into() }
    }

    const CLIENT: Ours = Ours { clients: 1, workers: 0 };
    const WORKER: Ours = Ours { clients: 0, workers: 1 };

    #[test]
    fn a_message_is_for_its_channel_and_the_patterns_that_match() {
        let audience = Audience::default();
        for (kind, name) in [
            (TopicKind::Channel, "a"),
            (TopicKind::Channel, "b"),
            (TopicKind::Shard, "a"),
            (TopicKind::Pattern, "*"),
            (TopicKind::Pattern, "b*"),
        ] {
            audience.change(&topic(kind, name), WORKER);
            audience.change(&topic(kind, name), CLIENT);
            audience.change(&topic(kind, name), CLIENT);
        }
        let ours = |clients, workers| Ours { clients, workers };
        assert_eq!(audience.of_message(ChannelKind::Plain, b"a"), ours(4, 2));
        assert_eq!(audience.of_message(ChannelKind::Plain, b"b"), ours(6, 3));
        assert_eq!(audience.of_message(ChannelKind::Shard, b"a"), ours(2, 1));
        assert_eq!(audience.of_message(ChannelKind::Shard, b"b"), ours(0, 0));
        assert_eq!(audience.of(&topic(TopicKind::Channel, "a")), ours(2, 1));
    }

    #[test]
    fn topics_nobody_has_are_not_kept() {
        let audience = Audience::default();
        let (a, b) = (topic(TopicKind::Channel, "a"), topic(TopicKind::Pattern, "b"));
        for topic in [&a, &b] {
            audience.change(topic, CLIENT);
            audience.change(topic, Ours { clients: -1, workers: 0 });
        }
        assert!(audience.topics().channels.is_empty() && audience.topics().patterns.is_empty());
    }

    #[test]
    fn a_count_is_never_below_our_own_clients() {
        assert_eq!(Ours { clients: 3, workers: 1 }.correct(2), 4);
        assert_eq!(Ours { clients: 3, workers: 1 }.correct(0), 3);
    }
}
