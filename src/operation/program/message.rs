//! Messages that a program publishes.

use bytes::Bytes;

use crate::resp::flat;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Whether it is an `SPUBLISH` instead of a `PUBLISH`.
    pub shard: bool,
    /// The channel.
    pub channel: Bytes,
    /// The message.
    pub payload: Bytes,
}

impl Message {
    /// Parses the messages in a program's answer: command, channel and payload of each, in one array. Returns `None`
    /// for anything else.
    pub(crate) fn parse_all(frame: &[u8]) -> Option<Vec<Self>> {
        flat::items(frame)?.chunks(3).map(Self::parse).collect()
    }

    fn parse(parts: &[&[u8]]) -> Option<Self> {
        let [name, channel, payload] = parts else { return None };
        let bytes = |frame: &[u8]| flat::bulk(frame).map(Bytes::copy_from_slice);
        Some(Self {
            shard: flat::bulk(name)?.eq_ignore_ascii_case(b"spublish"),
            channel: bytes(channel)?,
            payload: bytes(payload)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_apart() {
        let raw = b"*3\r\n$8\r\nSPUBLISH\r\n$1\r\nc\r\n$1\r\nm\r\n";
        let message = Message { shard: true, channel: "c".into(), payload: "m".into() };
        assert_eq!(Message::parse_all(raw), Some(vec![message]));
        assert_eq!(Message::parse_all(b"*1\r\n$1\r\nc\r\n"), None);
    }
}
