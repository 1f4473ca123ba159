//! Channels, patterns and shard channels: the kinds of topics, and the limit on their names.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Maximum length of a channel name or pattern. Redis has no such limit. A worker's one subscription stands for those
/// of all its clients, and a master would cut it for lack of space.
pub const LONGEST_NAME: usize = 1024;

/// Error for a client that sends a longer name.
pub const TOO_LONG: &str =
    "ERR names of channels and patterns cannot be longer than 1024 bytes: choose a shorter one";

/// Topic of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topic {
    /// Meaning of the name.
    pub kind: TopicKind,
    /// Name of a channel, or a pattern of names.
    pub name: Bytes,
}

/// Kind of a [`Topic`].
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
    /// Command that subscribes, also used in the confirmation.
    pub fn subscribe(self) -> &'static str {
        match self {
            Self::Channel => "subscribe",
            Self::Pattern => "psubscribe",
            Self::Shard => "ssubscribe",
        }
    }

    /// Command that unsubscribes, also used in the confirmation.
    pub fn unsubscribe(self) -> &'static str {
        match self {
            Self::Channel => "unsubscribe",
            Self::Pattern => "punsubscribe",
            Self::Shard => "sunsubscribe",
        }
    }

    /// First word of a message.
    pub fn message(self) -> &'static str {
        match self {
            Self::Channel => "message",
            Self::Pattern => "pmessage",
            Self::Shard => "smessage",
        }
    }
}

/// Kind of channel that a message is published on. Shard channels have separate names. Outside of a cluster that is
/// their only difference, and patterns do not match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelKind {
    /// `PUBLISH`
    Plain,
    /// `SPUBLISH`
    Shard,
}

impl ChannelKind {
    /// Returns the topic that subscribes to such a channel by its name.
    pub fn topic(self, name: Bytes) -> Topic {
        let kind = match self {
            Self::Plain => TopicKind::Channel,
            Self::Shard => TopicKind::Shard,
        };
        Topic { kind, name }
    }
}
