//! Frames from a master to a connection that has subscribed (RESP2).

use bytes::Bytes;

use crate::catalogue::channel::{Topic, TopicKind};
use crate::resp::{answer, flat};

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A published message.
    Message { topic: Topic, channel: Bytes, payload: Bytes },
    /// The answer to a command.
    Answer(Answer),
}

/// The outcome of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// `SUBSCRIBE` has taken effect.
    Subscribed(Topic),
    /// `UNSUBSCRIBE` has taken effect, or this is the answer to another command.
    Done,
    /// A command was refused.
    Refused(String),
}

impl Frame {
    /// Parses a frame. Returns `None` for frames that a master never sends to the proxy.
    pub(super) fn read(answer: answer::Answer<'_>) -> Option<Self> {
        match answer {
            answer::Answer::Array(items) => Self::of_array(items.bytes()),
            answer::Answer::Error(error) => {
                Some(Self::Answer(Answer::Refused(String::from_utf8_lossy(error).into())))
            }
            _ => Some(Self::Answer(Answer::Done)),
        }
    }

    /// Parses an array. Copies it once; all strings of the frame are slices of that copy.
    fn of_array(array: &[u8]) -> Option<Self> {
        let whole = Bytes::copy_from_slice(array);
        let items = flat::items(&whole)?;
        let (word, rest) = items.split_first()?;
        let word = flat::bulk(word)?;
        for kind in [TopicKind::Channel, TopicKind::Pattern, TopicKind::Shard] {
            if word == kind.message().as_bytes() {
                return Self::message(kind, rest, &whole);
            }
            if word == kind.subscribe().as_bytes() {
                let [name, _] = rest else { return None };
                let topic = Topic { kind, name: string(name, &whole)? };
                return Some(Self::Answer(Answer::Subscribed(topic)));
            }
        }
        Some(Self::Answer(Answer::Done))
    }

    fn message(kind: TopicKind, rest: &[&[u8]], whole: &Bytes) -> Option<Self> {
        let (name, channel, payload) = match *rest {
            [channel, payload] => (channel, channel, payload),
            [pattern, channel, payload] => (pattern, channel, payload),
            _ => return None,
        };
        let topic = Topic { kind, name: string(name, whole)? };
        let (channel, payload) = (string(channel, whole)?, string(payload, whole)?);
        Some(Self::Message { topic, channel, payload })
    }
}

/// Returns the string `item` as a slice of `whole`, which contains it.
fn string(item: &[u8], whole: &Bytes) -> Option<Bytes> {
    flat::bulk(item).map(|bytes| whole.slice_ref(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::answer::Decoder;

    fn read(bytes: &str) -> Option<Frame> {
        let mut decoder = Decoder::default();
        let (answer, _) = decoder.decode(bytes.as_bytes()).expect("RESP").expect("a whole frame");
        Frame::read(answer)
    }

    fn topic(kind: TopicKind, name: &'static str) -> Topic {
        Topic { kind, name: name.into() }
    }

    #[test]
    fn messages_of_every_kind() {
        let message = |topic, channel: &'static str, payload: &'static str| {
            Some(Frame::Message { topic, channel: channel.into(), payload: payload.into() })
        };
        assert_eq!(
            read("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            message(topic(TopicKind::Channel, "a"), "a", "hi")
        );
        assert_eq!(
            read("*3\r\n$8\r\nsmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            message(topic(TopicKind::Shard, "a"), "a", "hi")
        );
        assert_eq!(
            read("*4\r\n$8\r\npmessage\r\n$2\r\na*\r\n$1\r\na\r\n$2\r\nhi\r\n"),
            message(topic(TopicKind::Pattern, "a*"), "a", "hi")
        );
    }

    #[test]
    fn answers_to_commands() {
        assert_eq!(
            read("*3\r\n$10\r\npsubscribe\r\n$1\r\na\r\n:1\r\n"),
            Some(Frame::Answer(Answer::Subscribed(topic(TopicKind::Pattern, "a"))))
        );
        let done = Some(Frame::Answer(Answer::Done));
        assert_eq!(read("*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"), done);
        assert_eq!(read("*2\r\n$4\r\npong\r\n$0\r\n\r\n"), done);
        assert_eq!(read("+PONG\r\n"), done);
        assert_eq!(
            read("-NOAUTH no\r\n"),
            Some(Frame::Answer(Answer::Refused("NOAUTH no".into())))
        );
    }

    #[test]
    fn what_no_master_says() {
        assert_eq!(read("*2\r\n$7\r\nmessage\r\n$1\r\na\r\n"), None);
        assert_eq!(read("*3\r\n$9\r\nsubscribe\r\n:1\r\n:1\r\n"), None);
        assert_eq!(read("*1\r\n:1\r\n"), None);
        assert_eq!(read("*0\r\n"), None);
    }
}
