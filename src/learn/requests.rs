//! Finds the requests in a client's bytes as they pass, and keeps only the first part of each.
//!
//! The bytes go on to the data Redis whatever is found in them. So a request may be of any size here. Only the first
//! bytes of each word are kept, and only the first words of each request. The rules of framing are those of
//! [`decoder`](crate::resp::requests), which holds whole requests.

use crate::resp::inline;
use crate::resp::number::parse_i64;
use crate::resp::requests::{Args, Words};
use crate::resp::word::is;

/// Maximum bytes kept per word: longer than any name that is examined ([`LONGEST_NAME`](crate::names::LONGEST_NAME)).
const KEPT_OF_A_WORD: usize = 1024;

/// Maximum bytes kept of the text of a script.
const KEPT_OF_A_SCRIPT: usize = 64 << 10;

/// Maximum bytes kept of all words of a request together.
const KEPT_OF_A_REQUEST: usize = 128 << 10;

/// Maximum words kept per request.
const KEPT_WORDS: usize = 1024;

/// Memory that a reader keeps while its client is idle, in bytes.
const KEPT_WHILE_IDLE: usize = 1024;

/// Maximum length of a header or an inline request (`PROTO_INLINE_MAX_SIZE` in Redis's `server.h`).
const LONGEST_LINE: usize = 64 << 10;

/// Maximum words of a request (`processMultibulkBuffer` in Redis's `networking.c`).
const MOST_WORDS: i64 = 1024 * 1024;

/// Reader of one client's bytes.
#[derive(Debug, Default)]
pub struct Requests {
    stage: Stage,
    words: Words,
    /// Words that the current request still lacks.
    missing: u32,
    /// Whether the current word is one of those that are kept.
    is_kept: bool,
    /// Incomplete header or inline request.
    line: Vec<u8>,
}

/// Next element to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// A request.
    #[default]
    Begin,
    /// The rest of the header of an array.
    Array,
    /// The rest of the header of a bulk string.
    Header,
    /// This many more bytes of a bulk string.
    Bulk(usize),
    /// This many bytes of a line break, whose values are ignored.
    LineBreak(u8),
    /// The rest of a line that was typed by hand.
    Inline,
    /// Nothing that could be understood.
    Lost,
}

impl Requests {
    /// Reads on, and shows each request that these bytes complete. Returns whether the bytes are still understood; if
    /// not, Redis closes the connection.
    pub fn read(&mut self, mut bytes: &[u8], mut show: impl FnMut(Args<'_>)) -> bool {
        while self.stage != Stage::Lost && !bytes.is_empty() {
            bytes = self.step(bytes);
            if self.stage == Stage::Begin {
                if !self.words.args().is_empty() {
                    show(self.words.args());
                }
                self.words.clear(KEPT_WHILE_IDLE);
                self.line = Vec::new();
            }
        }
        self.stage != Stage::Lost
    }

    /// Reads one element, or as much of it as has arrived. Returns the remaining bytes.
    fn step<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        match self.stage {
            Stage::Begin => {
                self.stage = if bytes[0] == b'*' { Stage::Array } else { Stage::Inline };
                bytes
            }
            Stage::Array => self.read_line(b'\r', bytes, Self::begin_array),
            Stage::Header => self.read_line(b'\r', bytes, Self::begin_bulk),
            Stage::Inline => self.read_line(b'\n', bytes, Self::take_inline),
            Stage::Bulk(left) => {
                let (here, rest) = bytes.split_at(left.min(bytes.len()));
                self.keep(here);
                self.stage = match left - here.len() {
                    0 => Stage::LineBreak(2),
                    left => Stage::Bulk(left),
                };
                rest
            }
            Stage::LineBreak(left) => {
                let here = usize::from(left).min(bytes.len());
                self.stage = match left - here as u8 {
                    0 => self.after_word(),
                    left => Stage::LineBreak(left),
                };
                &bytes[here..]
            }
            Stage::Lost => &[],
        }
    }

    /// Reads up to `end`. After a CR one more byte belongs to the line, whatever it is.
    fn read_line<'a>(
        &mut self,
        end: u8,
        bytes: &'a [u8],
        then: impl FnOnce(&mut Self, &[u8]) -> Option<Stage>,
    ) -> &'a [u8] {
        let ended = end == b'\r' && self.line.last() == Some(&b'\r');
        let more = match bytes.iter().position(|byte| *byte == end) {
            _ if ended => 1,
            Some(at) if end == b'\r' => (at + 2).min(bytes.len()),
            Some(at) => at + 1,
            None => bytes.len(),
        };
        let (here, rest) = bytes.split_at(more);
        self.line.extend_from_slice(here);
        let length = self.line.len();
        let is_complete = match end {
            b'\r' => length >= 2 && self.line[length - 2] == b'\r',
            _ => self.line.last() == Some(&end),
        };
        if is_complete {
            let line = std::mem::take(&mut self.line);
            let text = &line[..length - if end == b'\r' { 2 } else { 1 }];
            self.stage = then(self, text).unwrap_or(Stage::Lost);
            self.line = line;
            self.line.clear();
        } else if length > LONGEST_LINE {
            self.stage = Stage::Lost;
        }
        rest
    }

    fn begin_array(&mut self, line: &[u8]) -> Option<Stage> {
        let length = parse_i64(&line[1..]).filter(|length| *length <= MOST_WORDS)?;
        self.missing = u32::try_from(length).unwrap_or(0);
        Some(if self.missing == 0 { Stage::Begin } else { Stage::Header })
    }

    fn begin_bulk(&mut self, line: &[u8]) -> Option<Stage> {
        let length = parse_i64(line.strip_prefix(b"$")?)?;
        let length = usize::try_from(length).ok()?;
        self.is_kept = self.words.args().len() < KEPT_WORDS;
        if self.is_kept {
            self.words.begin();
        }
        Some(if length == 0 { Stage::LineBreak(2) } else { Stage::Bulk(length) })
    }

    fn after_word(&mut self) -> Stage {
        self.missing -= 1;
        if self.missing == 0 { Stage::Begin } else { Stage::Header }
    }

    fn take_inline(&mut self, line: &[u8]) -> Option<Stage> {
        let words = &mut self.words;
        inline::split(line, |word| {
            if words.args().len() < KEPT_WORDS {
                words.begin();
                words.extend(&word[..word.len().min(KEPT_OF_A_WORD)]);
            }
        })
        .ok()?;
        Some(Stage::Begin)
    }

    /// Keeps as much of the last word as there is room for.
    fn keep(&mut self, bytes: &[u8]) {
        let args = self.words.args();
        let kept = args.iter().next_back().map_or(0, <[u8]>::len);
        let most = if has_script(args) { KEPT_OF_A_SCRIPT } else { KEPT_OF_A_WORD };
        let room =
            most.saturating_sub(kept).min(KEPT_OF_A_REQUEST.saturating_sub(self.words.bytes()));
        if self.is_kept {
            self.words.extend(&bytes[..room.min(bytes.len())]);
        }
    }
}

/// Whether the last of these words is the text of a script.
fn has_script(args: Args<'_>) -> bool {
    let name = args.get(0).unwrap_or_default();
    match args.len() {
        2 => is(name, &["eval", "eval_ro"]),
        3 => is(name, &["script"]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::operation::request;

    /// Returns all requests in `bytes`, which arrive in pieces of `piece` bytes; `None`: they are not understood.
    fn all(bytes: &[u8], piece: usize) -> Option<Vec<Vec<Vec<u8>>>> {
        let (mut requests, mut found) = (Requests::default(), Vec::new());
        let understood = bytes.chunks(piece.max(1)).all(|piece| {
            requests.read(piece, |args| found.push(args.iter().map(<[u8]>::to_vec).collect()))
        });
        understood.then_some(found)
    }

    fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
        let mut request = Vec::new();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        request::encode(&mut request, &words);
        request
    }

    proptest! {
        #[test]
        fn requests_are_found_however_they_are_cut(
            requests in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..6),
                1..6,
            ),
            piece in 1usize..50,
        ) {
            let bytes: Vec<u8> = requests.iter().flat_map(|words| encoded(words)).collect();
            prop_assert_eq!(all(&bytes, piece), Some(requests));
        }
    }

    #[test]
    fn lines_typed_by_hand_are_requests_and_empty_ones_are_none() {
        let bytes = b"SET k \"a b\" NX\r\n\r\n*0\r\n*-1\r\nPING\n*1\r\n$4\r\nQUIT\r\n";
        let expected: [&[&str]; 3] = [&["SET", "k", "a b", "NX"], &["PING"], &["QUIT"]];
        for piece in [1, 2, 7, 100] {
            let found = all(bytes, piece).unwrap();
            let texts: Vec<Vec<_>> = found
                .iter()
                .map(|words| words.iter().map(|it| std::str::from_utf8(it).unwrap()).collect())
                .collect();
            assert_eq!(texts, expected);
        }
    }

    #[test]
    fn what_is_no_request_is_noticed() {
        for bytes in [&b"*x\r\n"[..], b"*1\r\n+x\r\n", b"*1\r\n$-1\r\n", b"\"\n", b"*9999999\r\n"] {
            assert_eq!(all(bytes, 1), None, "{}", bytes.escape_ascii());
        }
        assert_eq!(all(&vec![b'x'; LONGEST_LINE + 2], 1000), None);
    }

    #[test]
    fn of_a_large_request_only_the_beginning_is_kept() {
        let (mut requests, mut seen) = (Requests::default(), Vec::new());
        let large =
            encoded(&[b"SET".to_vec(), b"k".to_vec(), vec![b'v'; 20 << 20], b"NX".to_vec()]);
        let mut most = 0;
        for piece in large.chunks(1000) {
            requests.read(piece, |args| seen.extend(args.iter().map(<[u8]>::len)));
            most = most.max(requests.words.bytes());
        }
        assert_eq!(seen, [3, 1, KEPT_OF_A_WORD, 2]);
        assert!(most < 2 * KEPT_OF_A_WORD, "{most}");

        let many: Vec<Vec<u8>> = (0..5000).map(|number| number.to_string().into_bytes()).collect();
        let found = all(&encoded(&many), 999).unwrap();
        assert!(found[0] == many[..KEPT_WORDS], "{} words", found[0].len());
    }
}
