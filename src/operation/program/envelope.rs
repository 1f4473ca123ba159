//! What a wrapped script answers: `{reply, popped, changes, messages, times}`, of which the last is not
//! there when it has read none.

use bytes::Bytes;

use super::ballot::Left;
use super::times::Times;
use crate::resp3;

/// One master's answer to a program.
#[derive(Debug)]
pub(super) struct Envelope {
    /// The client's own reply, a RESP3 frame.
    pub(super) reply: Bytes,
    pub(super) effect: Effect,
    pub(super) messages: Vec<Message>,
    /// The times that the reply and the effect may be made of, as this master has them.
    pub(super) times: Times,
}

/// What has changed on one master.
#[derive(Clone, Debug, Default)]
pub(super) struct Effect {
    pub(super) changes: Vec<Change>,
    /// Elements were taken out of a list or a set: giving them back matters.
    popped: bool,
}

/// One key that a program has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its database, in digits.
    pub db: Bytes,
    /// Itself.
    pub key: Bytes,
    /// What `DUMP` gave before the program; `None`: there was no such key.
    pub before: Option<Bytes>,
    /// Unix time in milliseconds at which it ended then; -1: never.
    pub end_before_ms: i64,
    /// The checksum at the end of what `DUMP` gives after the program; empty: the key is gone.
    pub left: Bytes,
    /// When it ends now.
    pub end_left_ms: i64,
}

/// What a program wants to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `SPUBLISH` instead of `PUBLISH`.
    pub shard: bool,
    /// The channel.
    pub channel: Bytes,
    /// The message.
    pub payload: Bytes,
}

impl Envelope {
    /// Reads what a master sent; `None` when it is something else.
    pub(super) fn parse(raw: &[u8]) -> Option<Self> {
        let items = resp3::items(raw)?;
        let [reply, popped, changes, messages, ref times @ ..] = items[..] else { return None };
        let popped = resp3::int(popped)? != 0;
        let changes = resp3::items(changes)?;
        let changes: Option<_> = changes.chunks(6).map(Change::parse).collect();
        let messages = resp3::items(messages)?;
        let messages: Option<_> = messages.chunks(3).map(Message::parse).collect();
        Some(Self {
            reply: Bytes::copy_from_slice(reply),
            effect: Effect { changes: changes?, popped },
            messages: messages?,
            times: times
                .first()
                .map_or_else(|| Some(Times::default()), |times| Times::parse(times))?,
        })
    }
}

impl Effect {
    /// Whether anything has changed.
    pub(super) fn is_change(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether some key ends now at a moment that it did not before.
    pub(super) fn sets_end(&self) -> bool {
        let is_new = |change: &Change| change.end_left_ms != change.end_before_ms;
        self.changes.iter().any(|change| change.end_left_ms >= 0 && is_new(change))
    }

    /// Databases, keys, and the checksums of what they hold now.
    pub(super) fn left(&self) -> Vec<Left> {
        let left = |change: &Change| (change.db.clone(), change.key.clone(), change.left.clone());
        self.changes.iter().map(left).collect()
    }

    /// Whether it must be taken back where no majority did the same. A lock that its holder gave up
    /// on a minority need not come back.
    pub(super) fn matters(&self) -> bool {
        self.popped || self.changes.iter().any(|change| !change.left.is_empty())
    }
}

impl Change {
    fn parse(parts: &[&[u8]]) -> Option<Self> {
        let [db, key, before, end_before, left, end_left] = parts else { return None };
        let bytes = |frame: &[u8]| resp3::bulk(frame).map(Bytes::copy_from_slice);
        Some(Self {
            db: bytes(db)?,
            key: bytes(key)?,
            before: bytes(before),
            end_before_ms: resp3::int(end_before)?,
            left: bytes(left)?,
            end_left_ms: resp3::int(end_left)?,
        })
    }
}

impl Message {
    fn parse(parts: &[&[u8]]) -> Option<Self> {
        let [name, channel, payload] = parts else { return None };
        let bytes = |frame: &[u8]| resp3::bulk(frame).map(Bytes::copy_from_slice);
        Some(Self {
            shard: resp3::bulk(name)?.eq_ignore_ascii_case(b"spublish"),
            channel: bytes(channel)?,
            payload: bytes(payload)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_taken_apart() {
        let raw =
            b"*5\r\n:1\r\n:0\r\n*6\r\n$1\r\n0\r\n$1\r\nk\r\n_\r\n:-2\r\n$8\r\n12345678\r\n:99\r\n\
            *3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1\r\nm\r\n*2\r\n$1\r\nk\r\n:99\r\n";
        let envelope = Envelope::parse(raw).expect("an envelope");
        assert_eq!(&envelope.reply[..], b":1\r\n");
        assert!(envelope.times.include(99));
        assert!(envelope.effect.is_change() && envelope.effect.matters());
        assert_eq!(
            (&envelope.effect.changes[0].before, envelope.messages[0].shard),
            (&None, false)
        );
    }

    #[test]
    fn a_key_that_was_only_deleted_may_stay_so() {
        let raw = |popped: u8| {
            format!(
                "*4\r\n_\r\n:{popped}\r\n*6\r\n$1\r\n0\r\n$1\r\nk\r\n$1\r\nd\r\n:9\r\n$0\r\n\r\n:-2\r\n*0\r\n"
            )
        };
        let matters =
            |popped| Envelope::parse(raw(popped).as_bytes()).expect("an envelope").effect.matters();
        assert_eq!([matters(0), matters(1)], [false, true]);
    }

    #[test]
    fn anything_else_is_no_envelope() {
        for raw in [
            &b":1\r\n"[..],
            b"*0\r\n",
            b"*4\r\n:1\r\n:x\r\n*0\r\n*0\r\n",
            b"*4\r\n:1\r\n:0\r\n*1\r\n_\r\n*0\r\n",
            b"*5\r\n:1\r\n:0\r\n*0\r\n*0\r\n*1\r\n$1\r\nk\r\n",
        ] {
            assert!(Envelope::parse(raw).is_none());
        }
    }
}
