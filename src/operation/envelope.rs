//! The envelope of a message on its way through the masters: its publisher and sequence number.
//!
//! # Format
//! `MAGIC`, the publisher and the sequence number (8 bytes each, big endian), then the client's bytes. Clients that
//! subscribe at a master directly see all of them.
//!
//! A message without the magic was published at a master directly and is delivered unchanged. A client's message that
//! begins with the magic gets another envelope around it, like any other.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

use bytes::{Buf as _, Bytes};

/// Prefix that no text has: its first byte is not valid in UTF-8. The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"\xffredlck\x01";

const ENVELOPE_BYTES: usize = MAGIC.len() + 8 + 8;

/// The unique name of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageStamp {
    /// One worker of one proxy, from its start to its end.
    pub publisher: u64,
    /// Sequence number, from 1.
    pub sequence: u64,
}

/// Source of one worker's stamps.
#[derive(Debug)]
pub struct Stamps {
    publisher: u64,
    last: Cell<u64>,
}

impl Default for Stamps {
    fn default() -> Self {
        // The standard library seeds this from the operating system, so no two workers anywhere draw the same number.
        let publisher = RandomState::new().hash_one(());
        Self { publisher, last: Cell::new(0) }
    }
}

impl Stamps {
    /// Returns a stamp that was never used.
    pub fn next(&self) -> MessageStamp {
        self.last.set(self.last.get() + 1);
        MessageStamp { publisher: self.publisher, sequence: self.last.get() }
    }
}

/// Puts `message` into its envelope.
pub fn seal(stamp: MessageStamp, message: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(ENVELOPE_BYTES + message.len());
    sealed.extend_from_slice(&MAGIC);
    sealed.extend_from_slice(&stamp.publisher.to_be_bytes());
    sealed.extend_from_slice(&stamp.sequence.to_be_bytes());
    sealed.extend_from_slice(message);
    sealed
}

/// Takes a message out of its envelope. Returns no stamp if it has no envelope.
pub fn open(mut payload: Bytes) -> (Option<MessageStamp>, Bytes) {
    if payload.len() < ENVELOPE_BYTES || !payload.starts_with(&MAGIC) {
        return (None, payload);
    }
    payload.advance(MAGIC.len());
    let stamp = MessageStamp { publisher: payload.get_u64(), sequence: payload.get_u64() };
    (Some(stamp), payload)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_sealed_is_opened(publisher: u64, sequence: u64, message: Vec<u8>) {
            let stamp = MessageStamp { publisher, sequence };
            let (opened, bytes) = open(seal(stamp, &message).into());
            prop_assert_eq!((opened, &bytes[..]), (Some(stamp), &message[..]));
        }

        #[test]
        fn an_envelope_that_was_cut_is_a_message(len in 0..ENVELOPE_BYTES) {
            let sealed = seal(MessageStamp { publisher: 1, sequence: 2 }, b"");
            prop_assert_eq!(open(sealed[..len].to_vec().into()), (None, sealed[..len].to_vec().into()));
        }
    }

    #[test]
    fn a_message_that_looks_sealed_survives() {
        let inner = seal(MessageStamp { publisher: 1, sequence: 1 }, b"text");
        let (_, message) = open(seal(MessageStamp { publisher: 2, sequence: 1 }, &inner).into());
        assert_eq!(message, inner);
    }

    #[test]
    fn two_workers_stamp_differently() {
        let (ours, theirs) = (Stamps::default(), Stamps::default());
        assert_ne!(ours.next().publisher, theirs.next().publisher);
        assert_eq!(ours.next().sequence, 2);
    }
}
