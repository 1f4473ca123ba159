//! Finds the ends of the data Redis's replies while their bytes pass through.
//!
//! Nothing is kept or decoded, so a reply of 512 MB takes as much memory as `+OK`. Nested replies are counted, not
//! followed: an array of three means that three more elements must end before it does.

/// Finds the ends of replies in a stream of bytes, however the stream is split.
#[derive(Debug, Default)]
pub struct ReplyExtents {
    /// Elements that must end before the reply does; 0 between two replies.
    missing: u64,
    /// Remaining bytes of a bulk string and its line break.
    bulk: u64,
    /// Beginning of an incomplete line.
    line: Line,
    /// Beginning of the reply, as far as it has been read.
    head: Head,
}

/// Information from the beginning of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// First byte, which is the reply's type.
    pub kind: u8,
    /// Number of elements; -1 is null.
    pub length: i64,
    /// First element, if there is one and it is short.
    label: Label,
    /// Number of elements that have begun.
    begun: u64,
}

/// Error for bytes that are not RESP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not speak the Redis protocol")]
pub struct NotRedis;

/// Result of reading some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundEnds {
    /// Number of bytes that belong to the current reply.
    pub bytes: usize,
    /// Head of the reply, if it ends with these bytes.
    pub ended: Option<Head>,
}

impl ReplyExtents {
    /// Whether a reply has begun but not ended.
    pub fn is_amid(&self) -> bool {
        self.missing > 0
    }

    /// Returns the number of upcoming bytes that surely belong to a bulk string and do not end the reply.
    pub fn certain(&self) -> usize {
        usize::try_from(self.bulk.saturating_sub(LINE_BREAK)).unwrap_or(usize::MAX)
    }

    /// Returns the head of the current reply, as far as it has been read.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Reads on in the current reply, up to its end or the end of `bytes`.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a reply. The start of the next reply is then unknown.
    pub fn read(&mut self, bytes: &[u8]) -> Result<FoundEnds, NotRedis> {
        if self.missing == 0 {
            (self.missing, self.head) = (1, Head::default());
        }
        let mut at = 0;
        while at < bytes.len() {
            at += if self.bulk > 0 { self.skip(&bytes[at..]) } else { self.line(&bytes[at..])? };
            if self.missing == 0 {
                return Ok(FoundEnds { bytes: at, ended: Some(self.head) });
            }
        }
        Ok(FoundEnds { bytes: at, ended: None })
    }

    /// Skips bytes of a bulk string.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let skipped = bytes.len().min(usize::try_from(self.bulk).unwrap_or(usize::MAX));
        self.head.label.add(&bytes[..skipped]);
        self.bulk -= skipped as u64;
        self.missing -= u64::from(self.bulk == 0);
        skipped
    }

    /// Reads a line, or as much of it as has arrived.
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

    /// Handles the line that begins an element or is the whole element.
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
            // An attribute precedes the element that it describes.
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

/// Length of the `\r\n` after a bulk string.
const LINE_BREAK: u64 = 2;

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Parses a length; `None` is null.
fn length(digits: &[u8]) -> Result<Option<u64>, NotRedis> {
    match number(digits).ok_or(NotRedis)? {
        -1 => Ok(None),
        length => u64::try_from(length).map(Some).map_err(|_| NotRedis),
    }
}

impl Head {
    /// Whether the reply is an error.
    pub fn is_error(&self) -> bool {
        matches!(self.kind, b'-' | b'!')
    }

    /// Returns the first element, if it is a short string: the kind of a message.
    pub fn label(&self) -> &[u8] {
        self.label.text()
    }

    /// Whether the label of an unfinished reply is as complete as it will ever be.
    pub fn is_labelled(&self) -> bool {
        self.begun >= 2 && self.label.known == self.label.length
    }
}

/// A short string. The longest that matters is `punsubscribe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Label {
    text: [u8; Self::LONGEST],
    length: u8,
    /// Number of bytes that have arrived.
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

/// Beginning of a line that arrives in pieces. Numbers are short, and the rest of a text is not needed.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    bytes: [u8; Self::KEPT],
    /// Length of the line, whether kept or not.
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
            // The end of the line is checked later.
            self.bytes[Self::KEPT - 1] = *last;
        }
    }

    /// Returns the kept bytes, which end like the line.
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length.min(Self::KEPT)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the replies in `bytes`, read in pieces of `size`.
    fn ends(bytes: &[u8], size: usize) -> Result<Vec<(usize, Head)>, NotRedis> {
        let (mut replies, mut at, mut ends) = (ReplyExtents::default(), 0, Vec::new());
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
        let mut replies = ReplyExtents::default();
        assert_eq!(replies.certain(), 0);
        for (bytes, certain) in [
            (&b"*2\r\n$1"[..], 0),
            (b"0\r\n", 10),
            (b"0123456", 3),
            (b"789", 0),
            (b"\r", 0),
            (b"\n$3\r\n", 3),
        ] {
            assert_eq!(replies.read(bytes), Ok(FoundEnds { bytes: bytes.len(), ended: None }));
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
