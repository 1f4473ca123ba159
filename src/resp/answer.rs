//! Reads masters' replies (RESP3).
//!
//! Replies of the hot path (`+OK`, `:1`, `_`, a short string) are read in place. Nested ones stay bytes until their
//! parts are needed. Those go through `redis-protocol`, whose decoder recurses without a limit, so replies that are
//! too deep are refused.

use bytes::Bytes;
use redis_protocol::resp3::{decode::complete::decode_bytes, types::BytesFrame};

use super::flat::{self, Element, Malformed, integer};

/// Maximum nesting of a reply whose parts are needed. Our own requests go no deeper than `{type, value, ttl}` and the
/// page of a `SCAN`.
const MAX_DEPTH: usize = 8;

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
    /// The whole reply.
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns the elements, unless they nest deeper than our own requests need.
    pub fn elements(self) -> Option<Vec<BytesFrame>> {
        if depth(self.0)? > MAX_DEPTH {
            return None;
        }
        match decode_bytes(&Bytes::copy_from_slice(self.0)) {
            Ok(Some((BytesFrame::Array { data, .. }, _))) => Some(data),
            _ => None,
        }
    }
}

/// Returns the nesting depth of a whole frame.
fn depth(frame: &[u8]) -> Option<usize> {
    let (mut open, mut deepest) = (Vec::new(), 0);
    for element in flat::elements(frame) {
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(missing) = open.last_mut() {
            *missing -= 1;
        }
        let children = element.children().ok()?;
        if children > 0 {
            open.push(children);
            deepest = deepest.max(open.len());
        }
    }
    Some(deepest)
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
        if first.children()? == 0 {
            return Ok(Some((scalar(&first)?, first.bytes)));
        }
        let Some(len) = self.walk(buf)? else { return Ok(None) };
        let bytes = &buf[..len];
        let answer =
            if first.marker == b'*' { Answer::Array(Nested(bytes)) } else { Answer::Other };
        Ok(Some((answer, bytes)))
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
    if buf.starts_with(b"+OK\r\n") {
        Some((Answer::Simple(&buf[1..3]), &buf[..5]))
    } else if buf.starts_with(b"_\r\n") {
        Some((Answer::Nil, &buf[..3]))
    } else {
        None
    }
}

fn scalar<'a>(element: &Element<'a>) -> Result<Answer<'a>, Malformed> {
    Ok(match (element.marker, element.body) {
        (b'+', _) => Answer::Simple(element.line),
        (b'-', _) => Answer::Error(element.line),
        (b'!', Some(error)) => Answer::Error(error),
        (b':', _) => Answer::Int(integer(element.line)?),
        (b'$', Some(bytes)) => Answer::Bulk(bytes),
        _ if element.is_null() => Answer::Nil,
        (b'*', _) => Answer::Array(Nested(element.bytes)),
        _ => Answer::Other,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn endless_nesting_is_passed_on_but_not_taken_apart() {
        let mut bytes = b"*1\r\n".repeat(8000);
        bytes.extend_from_slice(b":1\r\n");
        let Ok(Some((Answer::Array(nested), len))) = decode(&bytes) else { panic!("an array") };
        assert_eq!((nested.elements(), len), (None, bytes.len()));
    }

    #[test]
    fn elements_side_by_side_are_not_deep() {
        assert_eq!(depth(b"*2\r\n*1\r\n:1\r\n*1\r\n:1\r\n"), Some(2));
        assert_eq!(depth(b"*0\r\n"), Some(0));
    }

    proptest! {
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
