//! Where the replies of the data Redis end, found while their bytes pass by.
//!
//! Nothing is kept and nothing is decoded, so a reply of 512 MB takes as much memory as `+OK`. Nested replies are counted,
//! not followed: an array of three says that three more elements have to end before it does.

/// Finds the ends of replies in a stream of bytes, however it is cut into pieces.
#[derive(Debug, Default)]
pub struct Replies {
    /// Elements that have to end before the reply does; 0 between two replies.
    missing: u64,
    /// Bytes that are still to come of a bulk string and of its line break.
    bulk: u64,
    /// The beginning of a line that is not complete yet.
    line: Line,
    /// What is known of the reply so far.
    head: Head,
}

/// What the beginning of a reply tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its first byte, which is its type.
    pub kind: u8,
    /// The number of its elements; -1 is null.
    pub length: i64,
    /// Its first element, if it has elements and that one is short.
    label: Label,
    /// Elements that have begun.
    begun: u64,
}

/// These bytes are not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not speak the protocol of Redis")]
pub struct NotRedis;

/// What was found in some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// How many of the bytes belong to the current reply.
    pub bytes: usize,
    /// What it was, if it ends with them.
    pub ended: Option<Head>,
}

impl Replies {
    /// Whether a reply has begun and not ended.
    pub fn is_amid(&self) -> bool {
        self.missing > 0
    }

    /// How many of the next bytes belong to a bulk string, and are not the end of the reply.
    pub fn certain(&self) -> usize {
        usize::try_from(self.bulk.saturating_sub(LINE_BREAK)).unwrap_or(usize::MAX)
    }

    /// What is known of the reply that has begun.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Reads on in the current reply, to its end or to that of `bytes`.
    ///
    /// # Errors
    /// The bytes are no reply. Nobody knows where the next one would begin.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Found, NotRedis> {
        if self.missing == 0 {
            (self.missing, self.head) = (1, Head::default());
        }
        let mut at = 0;
        while at < bytes.len() {
            at += if self.bulk > 0 { self.skip(&bytes[at..]) } else { self.line(&bytes[at..])? };
            if self.missing == 0 {
                return Ok(Found { bytes: at, ended: Some(self.head) });
            }
        }
        Ok(Found { bytes: at, ended: None })
    }

    /// Passes over a bulk string.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let skipped = bytes.len().min(usize::try_from(self.bulk).unwrap_or(usize::MAX));
        self.head.label.add(&bytes[..skipped]);
        self.bulk -= skipped as u64;
        self.missing -= u64::from(self.bulk == 0);
        skipped
    }

    /// Reads a line, or what has come of it.
    fn line(&mut self, bytes: &[u8]) -> Result<usize, NotRedis> {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.line.add(bytes);
            return Ok(bytes.len());
        };
        if self.line.length == 0 {
            self.element(bytes[..end].strip_suffix(b"\r").ok_or(NotRedis)?)?;
        } else {
            self.line.add(&bytes[..end]);
            let line = std::mem::take(&mut self.line);
            self.element(line.text().strip_suffix(b"\r").ok_or(NotRedis)?)?;
        }
        Ok(end + 1)
    }

    /// The line with which an element begins, or which is all of it.
    fn element(&mut self, line: &[u8]) -> Result<(), NotRedis> {
        let (kind, rest) = line.split_first().ok_or(NotRedis)?;
        let first = self.head.begun == 0;
        if first {
            (self.head.kind, self.head.length) = (*kind, number(rest).unwrap_or_default());
        }
        self.head.begun += 1;
        match kind {
            b'$' | b'=' | b'!' => self.bulk(length(rest)?),
            b'*' | b'~' | b'>' => self.aggregate(length(rest)?, 1, 0),
            b'%' => self.aggregate(length(rest)?, 2, 0),
            // An attribute comes before the element that it is about.
            b'|' => self.aggregate(length(rest)?, 2, 1),
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {
                self.missing -= 1;
                Ok(())
            }
            _ => Err(NotRedis),
        }
    }

    fn bulk(&mut self, length: Option<u64>) -> Result<(), NotRedis> {
        match length {
            None => self.missing -= 1,
            Some(length) => {
                self.bulk = length.checked_add(LINE_BREAK).ok_or(NotRedis)?;
                if self.head.begun == 2 {
                    self.head.label.begin(length);
                }
            }
        }
        Ok(())
    }

    fn aggregate(&mut self, length: Option<u64>, of: u64, beside: u64) -> Result<(), NotRedis> {
        let elements = length.unwrap_or_default().checked_mul(of).ok_or(NotRedis)?;
        let missing = self.missing - 1;
        let added = elements.checked_add(beside).ok_or(NotRedis)?;
        self.missing = missing.checked_add(added).ok_or(NotRedis)?;
        Ok(())
    }
}

/// `\r\n` behind a bulk string.
const LINE_BREAK: u64 = 2;

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A length; none is null.
fn length(digits: &[u8]) -> Result<Option<u64>, NotRedis> {
    match number(digits).ok_or(NotRedis)? {
        -1 => Ok(None),
        length => u64::try_from(length).map(Some).map_err(|_| NotRedis),
    }
}

impl Head {
    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }

    /// Its first element, if that is a short string: the kind of a message.
    pub fn label(&self) -> &[u8] {
        self.label.text()
    }

    /// Whether all is known of that element that ever will be, of a reply that has not ended.
    pub fn is_labelled(&self) -> bool {
        self.begun >= 2 && self.label.known == self.label.length
    }
}

/// A short string: `punsubscribe` is the longest that matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Label {
    text: [u8; Self::LONGEST],
    length: u8,
    /// How much of it has come.
    known: u8,
}

impl Label {
    const LONGEST: usize = 12;

    fn begin(&mut self, length: u64) {
        self.length = u8::try_from(length)
            .ok()
            .filter(|length| usize::from(*length) <= Self::LONGEST)
            .unwrap_or(0);
    }

    #[inline]
    fn add(&mut self, bytes: &[u8]) {
        let (known, length) = (usize::from(self.known), usize::from(self.length));
        if known < length {
            let taken = bytes.len().min(length - known);
            self.text[known..known + taken].copy_from_slice(&bytes[..taken]);
            self.known += taken as u8;
        }
    }

    fn text(&self) -> &[u8] {
        if self.known == self.length { &self.text[..usize::from(self.length)] } else { &[] }
    }
}

/// The beginning of a line that came in pieces: numbers are short, and of a text nobody asks for more.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    bytes: [u8; Self::KEPT],
    /// How long it is, kept or not.
    length: usize,
}

impl Line {
    const KEPT: usize = 24;

    fn add(&mut self, bytes: &[u8]) {
        let kept = self.length.min(Self::KEPT);
        let taken = bytes.len().min(Self::KEPT - kept);
        self.bytes[kept..kept + taken].copy_from_slice(&bytes[..taken]);
        self.length += bytes.len();
        if let (true, Some(last)) = (self.length > Self::KEPT, bytes.last()) {
            // The end of a line is looked at.
            self.bytes[Self::KEPT - 1] = *last;
        }
    }

    /// What is kept of it, which ends as the line does.
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length.min(Self::KEPT)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The replies in `bytes`, which come in pieces of `size`.
    fn ends(bytes: &[u8], size: usize) -> Result<Vec<(usize, Head)>, NotRedis> {
        let (mut replies, mut at, mut ends) = (Replies::default(), 0, Vec::new());
        for piece in bytes.chunks(size) {
            let mut rest = piece;
            while !rest.is_empty() {
                let found = replies.read(rest)?;
                rest = &rest[found.bytes..];
                at += found.bytes;
                ends.extend(found.ended.map(|head| (at, head)));
            }
        }
        Ok(ends)
    }

    fn one(text: &str) -> Head {
        let ends = ends(text.as_bytes(), usize::MAX).expect("a reply");
        assert_eq!(ends.len(), 1, "{text:?}");
        assert_eq!(ends[0].0, text.len(), "{text:?}");
        ends[0].1
    }

    #[test]
    fn what_is_certain_to_come_belongs_to_the_string_and_does_not_end_it() {
        let mut replies = Replies::default();
        assert_eq!(replies.certain(), 0);
        for (bytes, certain) in [
            (&b"*2\r\n$1"[..], 0),
            (b"0\r\n", 10),
            (b"0123456", 3),
            (b"789", 0),
            (b"\r", 0),
            (b"\n$3\r\n", 3),
        ] {
            assert_eq!(replies.read(bytes), Ok(Found { bytes: bytes.len(), ended: None }));
            assert_eq!(replies.certain(), certain, "{bytes:?}");
        }
        assert!(replies.read(b"abc\r\n").is_ok_and(|found| found.ended.is_some()));
    }

    #[test]
    fn every_type_has_an_end() {
        for text in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-7\r\n",
            "$5\r\nhe\r\nl\r\n",
            "$0\r\n\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            "_\r\n",
            ",1.5\r\n",
            "#t\r\n",
            "(123456789012345678901234567890\r\n",
            "=7\r\ntxt:abc\r\n",
            "!5\r\nERR x\r\n",
            "%1\r\n+k\r\n~2\r\n:1\r\n:2\r\n",
            "|1\r\n+ttl\r\n:3600\r\n+value\r\n",
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
        ] {
            one(text);
        }
    }

    #[test]
    fn the_head_tells_what_it_is() {
        assert!(one("-ERR no\r\n").is_error() && !one("+OK\r\n").is_error());
        assert_eq!(one("*-1\r\n").length, -1);
        assert_eq!(one("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n").label(), b"message");
        assert_eq!(one(">3\r\n$12\r\npunsubscribe\r\n_\r\n:0\r\n").label(), b"punsubscribe");
        assert_eq!(one("*1\r\n$13\r\nxxxxxxxxxxxxx\r\n").label(), b"");
        assert_eq!(one("*2\r\n:1\r\n$7\r\nmessage\r\n").label(), b"");
    }

    #[test]
    fn what_no_redis_says_is_refused() {
        for text in [
            "HTTP/1.1 400\r\n",
            "$x\r\n",
            "$-2\r\n",
            "*?\r\n",
            "\r\n",
            "+OK\n",
            "*9223372036854775807\r\n%9223372036854775807\r\n",
        ] {
            assert_eq!(ends(text.as_bytes(), usize::MAX), Err(NotRedis), "{text:?}");
            assert_eq!(ends(text.as_bytes(), 1), Err(NotRedis), "{text:?}");
        }
    }

    fn reply() -> impl Strategy<Value = Vec<u8>> {
        let bulk = proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| {
            [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
        });
        let line = "[+:,(-][a-z0-9 ]{0,60}\r\n".prop_map(String::into_bytes);
        let leaf = prop_oneof![bulk, line, Just(b"$-1\r\n".to_vec()), Just(b"_\r\n".to_vec())];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let lists = proptest::collection::vec(inner.clone(), 0..5).prop_map(|parts| {
                [format!("*{}\r\n", parts.len()).into_bytes(), parts.concat()].concat()
            });
            let maps = proptest::collection::vec((inner.clone(), inner), 0..3).prop_map(|pairs| {
                let all: Vec<u8> =
                    pairs.iter().flat_map(|(key, value)| [&key[..], value].concat()).collect();
                [format!("%{}\r\n", pairs.len()).into_bytes(), all].concat()
            });
            prop_oneof![lists, maps]
        })
    }

    proptest! {
        #[test]
        fn ends_do_not_depend_on_how_the_bytes_come(
            replies in proptest::collection::vec(reply(), 1..6),
            size in 1..50usize,
        ) {
            let bytes = replies.concat();
            let found = ends(&bytes, size).expect("replies");
            let expected = replies.iter().scan(0, |end, reply| {
                *end += reply.len();
                Some(*end)
            });
            prop_assert!(found.iter().map(|(end, _)| *end).eq(expected));
            prop_assert_eq!(&found, &ends(&bytes, usize::MAX).expect("replies"));
        }

        #[test]
        fn nonsense_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ends(&bytes, 7);
        }
    }
}
