//! Channels, patterns and shard channels: the kinds of topics, and the limit on their names.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The longest name of a channel or a pattern. Redis has no such limit; a worker's one subscription stands for those
/// of all its clients, and a master would cut it for want of room.
pub const LONGEST_NAME: usize = 1024;

/// What a client is told that gives a longer one.
pub const TOO_LONG: &str =
    "ERR names of channels and patterns cannot be longer than 1024 bytes: choose a shorter one";

/// What a subscription is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic {
    /// What the name means.
    pub kind: TopicKind,
    /// The name of a channel, or a pattern of names.
    pub name: Bytes,
}

/// See [`Topic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopicKind {
    /// `SUBSCRIBE`
    Channel,
    /// `PSUBSCRIBE`
    Pattern,
    /// `SSUBSCRIBE`
    Shard,
}

impl TopicKind {
    /// The word that subscribes, also in the confirmation.
    pub fn subscribe(self) -> &'static str {
        match self {
            Self::Channel => "subscribe",
            Self::Pattern => "psubscribe",
            Self::Shard => "ssubscribe",
        }
    }

    /// The word that ends it, also in the confirmation.
    pub fn unsubscribe(self) -> &'static str {
        match self {
            Self::Channel => "unsubscribe",
            Self::Pattern => "punsubscribe",
            Self::Shard => "sunsubscribe",
        }
    }

    /// The word that a message begins with.
    pub fn message(self) -> &'static str {
        match self {
            Self::Channel => "message",
            Self::Pattern => "pmessage",
            Self::Shard => "smessage",
        }
    }
}

/// Where a message is published. Shard channels have names of their own: outside of a cluster that
/// is all that sets them apart, and patterns do not match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// `PUBLISH`
    Plain,
    /// `SPUBLISH`
    Shard,
}

impl ChannelKind {
    /// What subscribes to such a channel by its name.
    pub fn topic(self, name: Bytes) -> Topic {
        let kind = match self {
            Self::Plain => TopicKind::Channel,
            Self::Shard => TopicKind::Shard,
        };
        Topic { kind, name }
    }
}
