//! Reads masters' replies (RESP3).
//!
//! The replies of the hot path (`+OK`, `:1`, `_`, a short string) are read in place. Nested ones stay bytes until a
//! caller needs their parts, which are then cut out one level at a time. Stack use therefore does not depend on the
//! depth of nesting.

use super::flat::{self, Element, Malformed, integer};

/// A master's reply, borrowed from the read buffer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Answer<'a> {
    /// `+...`
    Simple(&'a [u8]),
    /// `-...`
    Error(&'a [u8]),
    /// `:...`
    Int(i64),
    /// `_` and its RESP2 equivalents.
    Nil,
    /// `$...`
    Bulk(&'a [u8]),
    /// `*...`
    Array(Nested<'a>),
    /// A map, set, double, ...: only clients' scripts and reads return these.
    Other,
}

/// Bytes of a reply with parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nested<'a>(&'a [u8]);

impl<'a> Nested<'a> {
    /// Returns the whole reply.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Its elements, borrowed from it; `None` when one of them is no reply.
    pub fn elements(self) -> Option<Vec<Answer<'a>>> {
        flat::items(self.0)?.into_iter().map(Answer::of_frame).collect()
    }
}

impl<'a> Answer<'a> {
    /// Returns a frame that is known to be whole.
    fn of_frame(frame: &'a [u8]) -> Option<Self> {
        let first = flat::element(frame).ok()??;
        Self::read(&first, frame).ok()
    }

    /// Returns a whole frame, by its first element.
    fn read(first: &Element<'a>, frame: &'a [u8]) -> Result<Self, Malformed> {
        Ok(match (first.marker, first.body) {
            (b'+', _) => Self::Simple(first.line),
            (b'-', _) => Self::Error(first.line),
            (b'!', Some(error)) => Self::Error(error),
            (b':', _) => Self::Int(integer(first.line)?),
            (b'$', Some(bytes)) => Self::Bulk(bytes),
            _ if first.is_null() => Self::Nil,
            (b'*', _) => Self::Array(Nested(frame)),
            _ => Self::Other,
        })
    }
}

/// Position in an incomplete reply.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of the current reply that have been read.
    walked: usize,
    /// Elements still missing after those.
    missing: u64,
}

impl Decoder {
    /// Returns the first reply in `buf` with its bytes, or `None` if more bytes are needed. Until then, `buf` must
    /// keep its content and only grow.
    ///
    /// # Errors
    /// Returns [`Malformed`] if the bytes are not a RESP3 reply.
    pub fn decode<'a>(
        &mut self,
        buf: &'a [u8],
    ) -> Result<Option<(Answer<'a>, &'a [u8])>, Malformed> {
        if let Some(vote) = usual_vote(buf) {
            return Ok(Some(vote));
        }
        let Some(first) = flat::element(buf)? else { return Ok(None) };
        let bytes = match first.children()? {
            0 => first.bytes,
            _ => match self.walk(buf)? {
                Some(len) => &buf[..len],
                None => return Ok(None),
            },
        };
        Ok(Some((Answer::read(&first, bytes)?, bytes)))
    }

    /// Returns the number of bytes surely missing from the reply in `buf`. The actual number may be larger.
    pub fn lacks(&self, buf: &[u8]) -> usize {
        buf.get(self.walked..).map_or(0, flat::lacks)
    }

    /// Returns the length of the reply at the start of `buf`, once it is complete.
    fn walk(&mut self, buf: &[u8]) -> Result<Option<usize>, Malformed> {
        self.missing = self.missing.max(1);
        while self.missing > 0 {
            let Some(element) = flat::element(&buf[self.walked..])? else { return Ok(None) };
            self.walked += element.bytes.len();
            let missing = self.missing.checked_add(element.children()?).ok_or(Malformed)?;
            self.missing = missing - 1;
        }
        Ok(Some(std::mem::take(&mut self.walked)))
    }
}

/// Recognizes the two replies that make up nearly all votes on a claim, by comparing their bytes.
#[inline]
fn usual_vote(buf: &[u8]) -> Option<(Answer<'_>, &[u8])> {
    match buf {
        [b'_', b'\r', b'\n', ..] => Some((Answer::Nil, &buf[..3])),
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some((Answer::Simple(&buf[1..3]), &buf[..5])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redis_protocol::resp3::{decode::complete, types::OwnedFrame};

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Option<(Answer<'_>, usize)>, Malformed> {
        let decoded = Decoder::default().decode(bytes)?;
        Ok(decoded.map(|(answer, bytes)| (answer, bytes.len())))
    }

    #[test]
    fn the_replies_of_the_hot_path() {
        assert_eq!(decode(b"+OK\r\n:1\r\n"), Ok(Some((Answer::Simple(b"OK"), 5))));
        assert_eq!(decode(b":-9223372036854775808\r\n"), Ok(Some((Answer::Int(i64::MIN), 23))));
        assert_eq!(decode(b"$-1\r\n"), Ok(Some((Answer::Nil, 5))));
        assert_eq!(decode(b"*-1\r\n"), Ok(Some((Answer::Nil, 5))));
        assert_eq!(decode(b"_\r\n"), Ok(Some((Answer::Nil, 3))));
        assert_eq!(decode(b"$3\r\na\r\n\r\n"), Ok(Some((Answer::Bulk(b"a\r\n"), 9))));
        assert_eq!(decode(b"-NOSCRIPT x\r\n"), Ok(Some((Answer::Error(b"NOSCRIPT x"), 13))));
        assert_eq!(decode(b"#t\r\n"), Ok(Some((Answer::Other, 4))));
    }

    #[test]
    fn half_a_reply_needs_more() {
        for bytes in [&b"+O"[..], b"$3\r\nab", b"*2\r\n:1\r\n", b"*1\r\n$2\r\nab", b"%1\r\n_\r\n"] {
            assert_eq!(decode(bytes), Ok(None));
        }
    }

    #[test]
    fn nonsense_is_malformed() {
        for bytes in [&b"hello\r\n"[..], b":x\r\n", b"$-2\r\n", b":99999999999999999999\r\n"] {
            assert_eq!(decode(bytes), Err(Malformed));
        }
    }

    #[test]
    fn endless_nesting_is_taken_apart_one_level_at_a_time() {
        let mut bytes = b"*1\r\n".repeat(8000);
        bytes.extend_from_slice(b":1\r\n");
        let Ok(Some((Answer::Array(nested), len))) = decode(&bytes) else { panic!("an array") };
        assert_eq!(len, bytes.len());
        let elements = nested.elements().expect("one array");
        let [Answer::Array(inner)] = elements[..] else { panic!("one array") };
        assert_eq!(inner.bytes(), &bytes[4..]);
    }

    #[test]
    fn an_array_with_nonsense_in_it_has_no_elements() {
        assert_eq!(Nested(b"*2\r\n:1\r\n:x\r\n").elements(), None);
        assert_eq!(Nested(b"*0\r\n").elements(), Some(vec![]));
    }

    /// Replies of every kind, nested in each other.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let texts = [
            "+OK",
            "+",
            "-ERR x",
            "_",
            "$0\r\n",
            "#t",
            ",1.5",
            "(123",
            "=5\r\ntxt:a",
            "!5\r\nERR x",
        ];
        let scalar = prop_oneof![
            proptest::sample::select(texts.to_vec())
                .prop_map(|text| format!("{text}\r\n").into_bytes()),
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            proptest::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| {
                [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
            }),
        ];
        scalar.prop_recursive(6, 48, 6, |inner| {
            let parts = proptest::collection::vec(inner.clone(), 0..6);
            let array = parts.prop_map(|parts| frame("*", &parts));
            // The other decoder wants words for fields.
            let field = inner.prop_map(|value| [b"%1\r\n+field\r\n", &value[..]].concat());
            prop_oneof![4 => array, 1 => field]
        })
    }

    fn frame(marker: &str, parts: &[Vec<u8>]) -> Vec<u8> {
        [format!("{marker}{}\r\n", parts.len()).as_bytes(), &parts.concat()].concat()
    }

    /// Compares an answer, and all that is in it, with what the other decoder makes of it.
    #[track_caller]
    fn assert_same(answer: Answer<'_>, frame: &OwnedFrame) {
        match (answer, frame) {
            (Answer::Simple(ours), OwnedFrame::SimpleString { data, .. })
            | (Answer::Bulk(ours), OwnedFrame::BlobString { data, .. })
            | (Answer::Error(ours), OwnedFrame::BlobError { data, .. }) => assert_eq!(ours, data),
            (Answer::Error(ours), OwnedFrame::SimpleError { data, .. }) => {
                assert_eq!(ours, data.as_bytes());
            }
            (Answer::Int(ours), OwnedFrame::Number { data, .. }) => assert_eq!(ours, *data),
            (Answer::Nil, OwnedFrame::Null) => {}
            (Answer::Array(nested), OwnedFrame::Array { data, .. }) => {
                let elements = nested.elements().expect("elements");
                assert_eq!(elements.len(), data.len());
                elements.into_iter().zip(data).for_each(|(ours, theirs)| assert_same(ours, theirs));
            }
            (
                Answer::Other,
                OwnedFrame::Map { .. }
                | OwnedFrame::Boolean { .. }
                | OwnedFrame::Double { .. }
                | OwnedFrame::BigNumber { .. }
                | OwnedFrame::VerbatimString { .. },
            ) => {}
            (ours, theirs) => panic!("{ours:?} is {theirs:?}"),
        }
    }

    proptest! {
        #[test]
        fn another_decoder_finds_the_same_elements(parts in proptest::collection::vec(frames(), 0..6)) {
            let bytes = frame("*", &parts);
            let (answer, len) = decode(&bytes).expect("valid").expect("complete");
            let (theirs, read) = complete::decode(&bytes).expect("valid").expect("complete");
            prop_assert_eq!((len, read), (bytes.len(), bytes.len()));
            assert_same(answer, &theirs);
        }

        #[test]
        fn byte_by_byte_is_as_good_as_at_once(values in proptest::collection::vec(any::<i64>(), 0..8)) {
            let mut bytes = format!("*{}\r\n", values.len() + 1).into_bytes();
            for value in &values {
                bytes.extend_from_slice(format!(":{value}\r\n").as_bytes());
            }
            bytes.extend_from_slice(b"*1\r\n$2\r\nhi\r\n");
            let mut decoder = Decoder::default();
            for end in 0..bytes.len() {
                prop_assert_eq!(decoder.decode(&bytes[..end]), Ok(None));
            }
            let (answer, raw) = decoder.decode(&bytes).expect("valid").expect("complete");
            prop_assert_eq!(raw, &bytes[..]);
            let Answer::Array(nested) = answer else { panic!("an array") };
            prop_assert_eq!(nested.elements().expect("flat").len(), values.len() + 1);
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some((_, len))) = decode(&bytes) {
                prop_assert!(len <= bytes.len());
            }
        }
    }
}
