//! Reading a master's replies (RESP2).
//!
//! The replies of the hot path (`+OK`, `:1`, `$-1`, a short bulk) are read in place. Nested ones
//! go through `redis-protocol`, whose decoder recurses without a limit: its input is walked here
//! first, without recursion and never twice over the same bytes, and refused when it is too deep.

use bytes::Bytes;
use redis_protocol::resp2::{decode::decode_bytes, types::BytesFrame};

use crate::command::number::parse_i64;

/// How deep a master's reply may nest. `COMMAND DOCS` is the deepest Redis has, at 6.
const MAX_DEPTH: usize = 32;

/// The longest string Redis has (`proto-max-bulk-len`).
const MAX_BULK: i64 = 512 << 20;

/// A master's reply, borrowed from the read buffer wherever it can be.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer<'a> {
    /// `+...`
    Simple(&'a [u8]),
    /// `-...`
    Error(&'a [u8]),
    /// `:...`
    Int(i64),
    /// `$-1` or `*-1`
    Nil,
    /// `$...`
    Bulk(&'a [u8]),
    /// `*...`
    Array(Vec<BytesFrame>),
}

/// A master broke the protocol; its link is torn down.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the master sent something that is not RESP2")]
pub struct Malformed;

/// Where the walk over an incomplete reply stands.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes of the current reply already walked over.
    walked: usize,
    /// Elements still missing, innermost array last.
    missing: Vec<u64>,
}

impl Decoder {
    /// The first reply in `buf` with its length, or `None` when more bytes are needed. Until then
    /// `buf` must keep what it holds and only grow.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are no RESP2 reply.
    pub fn decode<'a>(&mut self, buf: &'a [u8]) -> Result<Option<(Answer<'a>, usize)>, Malformed> {
        match buf.first() {
            None => Ok(None),
            Some(b'*') => self.array(buf),
            Some(_) => scalar(buf),
        }
    }

    fn array<'a>(&mut self, buf: &'a [u8]) -> Result<Option<(Answer<'a>, usize)>, Malformed> {
        let Some(len) = self.walk(buf)? else { return Ok(None) };
        let frame = decode_bytes(&Bytes::copy_from_slice(&buf[..len]));
        match frame.map_err(|_| Malformed)? {
            Some((BytesFrame::Array(elements), _)) => Ok(Some((Answer::Array(elements), len))),
            Some((BytesFrame::Null, _)) => Ok(Some((Answer::Nil, len))),
            _ => Err(Malformed),
        }
    }

    /// The length of the reply at the start of `buf`, once all of it is there.
    fn walk(&mut self, buf: &[u8]) -> Result<Option<usize>, Malformed> {
        loop {
            let rest = &buf[self.walked..];
            let Some(line_end) = line_end(rest) else { return Ok(None) };
            let (kind, line) = (rest[0], &rest[1..line_end]);
            let mut step = line_end + 2;
            if kind == b'$' {
                step += bulk_len(line)?.map_or(0, |len| len + 2);
                if rest.len() < step {
                    return Ok(None);
                }
            }
            self.walked += step;
            self.element(kind, line)?;
            if self.missing.is_empty() {
                return Ok(Some(std::mem::take(&mut self.walked)));
            }
        }
    }

    /// Counts one element as read, and with it every array it completes.
    fn element(&mut self, kind: u8, line: &[u8]) -> Result<(), Malformed> {
        if kind == b'*' {
            let elements = integer(line)?.max(0) as u64;
            if self.missing.len() == MAX_DEPTH {
                return Err(Malformed);
            }
            if elements > 0 {
                self.missing.push(elements);
                return Ok(());
            }
        }
        while let Some(last) = self.missing.last_mut() {
            *last -= 1;
            if *last > 0 {
                break;
            }
            self.missing.pop();
        }
        Ok(())
    }
}

fn scalar(buf: &[u8]) -> Result<Option<(Answer<'_>, usize)>, Malformed> {
    let Some(end) = line_end(buf) else { return Ok(None) };
    let line = &buf[1..end];
    let answer = match buf[0] {
        b'+' => Answer::Simple(line),
        b'-' => Answer::Error(line),
        b':' => Answer::Int(integer(line)?),
        b'$' => return bulk(buf, line, end + 2),
        _ => return Err(Malformed),
    };
    Ok(Some((answer, end + 2)))
}

fn bulk<'a>(
    buf: &'a [u8],
    line: &[u8],
    start: usize,
) -> Result<Option<(Answer<'a>, usize)>, Malformed> {
    match bulk_len(line)? {
        None => Ok(Some((Answer::Nil, start))),
        Some(len) if buf.len() < start + len + 2 => Ok(None),
        Some(len) => Ok(Some((Answer::Bulk(&buf[start..start + len]), start + len + 2))),
    }
}

/// The length of a bulk, `None` for the nil `$-1`.
fn bulk_len(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match integer(line)? {
        -1 => Ok(None),
        len @ 0..=MAX_BULK => Ok(Some(len as usize)),
        _ => Err(Malformed),
    }
}

fn line_end(buf: &[u8]) -> Option<usize> {
    buf.windows(2).position(|pair| pair == b"\r\n")
}

fn integer(digits: &[u8]) -> Result<i64, Malformed> {
    parse_i64(digits).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> Result<Option<(Answer<'_>, usize)>, Malformed> {
        Decoder::default().decode(bytes)
    }

    #[test]
    fn the_replies_of_the_hot_path() {
        assert_eq!(decode(b"+OK\r\n:1\r\n"), Ok(Some((Answer::Simple(b"OK"), 5))));
        assert_eq!(decode(b":-9223372036854775808\r\n"), Ok(Some((Answer::Int(i64::MIN), 23))));
        assert_eq!(decode(b"$-1\r\n"), Ok(Some((Answer::Nil, 5))));
        assert_eq!(decode(b"$3\r\na\r\n\r\n"), Ok(Some((Answer::Bulk(b"a\r\n"), 9))));
        assert_eq!(decode(b"-NOSCRIPT x\r\n"), Ok(Some((Answer::Error(b"NOSCRIPT x"), 13))));
    }

    #[test]
    fn half_a_reply_needs_more() {
        for bytes in [&b"+O"[..], b"$3\r\nab", b"*2\r\n:1\r\n", b"*1\r\n$2\r\nab"] {
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
    fn endless_nesting_is_refused_without_recursion() {
        assert_eq!(decode(&b"*1\r\n".repeat(8000)), Err(Malformed));
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
            let (answer, len) = decoder.decode(&bytes).expect("valid").expect("complete");
            prop_assert_eq!(len, bytes.len());
            let Answer::Array(elements) = answer else { panic!("an array") };
            prop_assert_eq!(elements.len(), values.len() + 1);
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some((_, len))) = decode(&bytes) {
                prop_assert!(len <= bytes.len());
            }
        }
    }
}
