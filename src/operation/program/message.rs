//! What a program reports for others than its client: messages that it publishes, its calls and its events.

use bytes::Bytes;

use crate::catalogue::events::KeyEvent;
use crate::resp::flat;

/// One report.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A message to publish.
    Published {
        /// Whether it is an `SPUBLISH` instead of a `PUBLISH`.
        shard: bool,
        /// The channel.
        channel: Bytes,
        /// The message.
        payload: Bytes,
    },
    /// A call of a script, for `MONITOR`.
    Called {
        /// The selected database.
        db: u32,
        /// The words, encoded.
        words: Bytes,
    },
    /// A change to a key, for keyspace notifications.
    Happened(KeyEvent),
}

impl Message {
    /// Parses the reports in a program's answer: kind, subject and text of each, in one array. Returns `None` for
    /// anything else. See `told.lua`.
    pub(crate) fn parse_all(frame: &[u8]) -> Option<Vec<Self>> {
        flat::items(frame)?.chunks(3).map(Self::parse).collect()
    }

    fn parse(parts: &[&[u8]]) -> Option<Self> {
        let [kind, about, text] = parts else { return None };
        let (kind, about, text) = (flat::bulk(kind)?, flat::bulk(about)?, flat::bulk(text)?);
        Some(match kind {
            b":call" => Self::Called {
                db: std::str::from_utf8(about).ok()?.parse().ok()?,
                words: Bytes::copy_from_slice(text),
            },
            b":event" => Self::Happened(KeyEvent::parse(about, text)?),
            _ => Self::Published {
                shard: kind.eq_ignore_ascii_case(b"spublish"),
                channel: Bytes::copy_from_slice(about),
                payload: Bytes::copy_from_slice(text),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        let raw = b"*3\r\n$8\r\nSPUBLISH\r\n$1\r\nc\r\n$1\r\nm\r\n";
        let message = Message::Published { shard: true, channel: "c".into(), payload: "m".into() };
        assert_eq!(Message::parse_all(raw), Some(vec![message]));
        assert_eq!(Message::parse_all(b"*1\r\n$1\r\nc\r\n"), None);
    }

    #[test]
    fn calls_and_events_are_told_apart() {
        let raw = b"*6\r\n$5\r\n:call\r\n$1\r\n3\r\n$10\r\n$4\r\ntime\r\n\r\n\
            $6\r\n:event\r\n$6\r\n$3 set\r\n$1\r\nk\r\n";
        let called = Message::Called { db: 3, words: "$4\r\ntime\r\n".into() };
        let happened = Message::Happened(KeyEvent::new(b'$', "set", 3, b"k"));
        assert_eq!(Message::parse_all(raw), Some(vec![called, happened]));
    }
}
