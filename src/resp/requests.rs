//! Splits the bytes of a connection into requests.
//!
//! # Format
//! A request is a flat array of bulk strings, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or a line typed by hand ([`inline`]).
//! The rules, their order and their error texts are those of `processMultibulkBuffer` and `processInlineBuffer` in
//! Redis's `networking.c`. This includes their oddities: the byte after a CR is not checked, and neither are the two
//! after a bulk string.
//!
//! # Why not a general RESP decoder
//! Such decoders build a tree of frames by recursion, starting over from the first byte whenever more bytes arrive. A
//! hostile client can make them overflow the stack, or read a large request a thousand times. This one does not
//! recurse, remembers where it stopped, and copies nothing but unquoted inline words. It allocates memory only for
//! bytes that have arrived, never for those a header promises.

use thiserror::Error;

use super::inline;
use super::number::parse_i64;
use super::reply::Reply;

/// Limits on the size of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum length of a whole request in bytes, headers included. A longer bulk string is refused in the way that
    /// Redis refuses those above its `proto-max-bulk-len`.
    pub max_request_bytes: usize,
    /// Whether the client has authenticated or does not need to. Strangers may not send large requests, since they
    /// could fill the memory without a password.
    pub authenticated: bool,
    /// Whether a longer request may be one that is passed on while it arrives, so that only Redis's own limits apply.
    pub may_pass: bool,
}

impl Limits {
    /// Whether a bulk string within Redis's limit may be this long here.
    fn allows(self, length: usize) -> bool {
        self.may_pass || length <= self.max_request_bytes
    }

    /// Returns the maximum length of a request here.
    #[inline]
    fn longest_request(self) -> usize {
        if self.may_pass { SPAN_MAX } else { self.max_request_bytes.min(SPAN_MAX) }
    }
}

/// Information about an incomplete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Number of words.
    pub words: usize,
    /// Minimum length in bytes.
    pub bytes: usize,
}

/// Decoder state: the position in the current request and the parts found so far.
///
/// An idle decoder owns no more than a few words of heap, whatever it decoded before.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Start of the next unread element of the request.
    at: usize,
    /// Position up to which the unfinished line at `at` has been searched for its end.
    searched: usize,
    /// Arguments still to come; `None` before the header of the array.
    missing: Option<u32>,
    /// Length of the bulk string whose header was read last and whose bytes are still to come.
    bulk: Option<usize>,
    /// Whether the last call completed a request, so that the next call starts a new one.
    complete: bool,
    /// Positions of the arguments in the caller's buffer, or in `unquoted` if that is not empty.
    spans: Vec<Span>,
    /// Words of an inline request, end to end.
    unquoted: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder for the start of a connection.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Decodes the request that `buf` starts with.
    ///
    /// Until it is complete, each call must see the bytes of the previous call and may see more after them. `Some(n)`
    /// means that the request is complete and is the first `n` bytes. [`Decoder::args`] returns its arguments until
    /// the next call, which expects the buffer without those bytes. `None` means that more bytes are needed. Calling
    /// with the rest of the buffer, even an empty one, also releases the memory that a large request took.
    ///
    /// A request without arguments (an empty line, `*0`, `*-1`) has no reply and is to be skipped.
    ///
    /// # Errors
    /// Returns an error if no valid request can start like this. The start of the next request is then unknown, so the
    /// caller should send the error and close the connection.
    pub fn decode(&mut self, buf: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        if self.complete {
            self.start_over();
        }
        self.complete = match buf.first() {
            None => false,
            Some(b'*') => self.take_array(buf, limits)?,
            Some(_) => self.take_inline(buf, limits)?,
        };
        Ok(self.complete.then_some(self.at))
    }

    /// Returns the arguments of the request just completed. `buf` is the buffer that completed it.
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> Args<'a> {
        let bytes = if self.unquoted.is_empty() { buf } else { &self.unquoted };
        Args { bytes, spans: &self.spans }
    }

    /// Returns information about the request that `buf` starts with, after [`Decoder::decode`] has found it
    /// incomplete.
    pub fn beginning(&self, buf: &[u8]) -> Option<Beginning> {
        let missing = usize::try_from(self.missing?).ok()?;
        let promised = self.at + self.bulk.map_or(0, |length| length + CRLF);
        Some(Beginning { words: self.spans.len() + missing, bytes: buf.len().max(promised) })
    }

    /// Ends the current request because another reader finds its end. The next call expects the buffer without it.
    pub fn pass_over(&mut self) {
        (self.bulk, self.complete) = (None, true);
    }

    /// Returns the bytes of heap that the decoder owns.
    #[inline]
    pub fn held(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.unquoted.capacity()
    }

    fn start_over(&mut self) {
        self.at = 0;
        self.searched = 0;
        self.missing = None;
        self.complete = false;
        self.spans.clear();
        self.spans.shrink_to(KEPT_SPANS);
        self.unquoted.clear();
        self.unquoted.shrink_to(0);
    }

    /// Reads on in an array, and returns whether it is complete.
    fn take_array(&mut self, buf: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        let Some(mut missing) = self.array_length(buf, limits)? else { return Ok(false) };
        if self.bulk.is_none() {
            missing = self.take_short_arguments(buf, limits, missing);
        }
        while missing > 0 {
            if !self.take_argument(buf, limits)? {
                return Ok(false);
            }
            missing -= 1;
            self.missing = Some(missing);
        }
        Ok(true)
    }

    /// Reads bulk strings as long as they are whole and short: in nearly every request all of them. Returns the number
    /// of the others.
    #[inline]
    fn take_short_arguments(&mut self, buf: &[u8], limits: Limits, missing: u32) -> u32 {
        let whole = &buf[..buf.len().min(limits.longest_request())];
        let (mut at, mut missing) = (self.at, missing);
        while missing > 0
            && let Some((length, header)) = short_header(whole.get(at..).unwrap_or_default())
            && limits.allows(length)
            && let (start, end) = (at + header, at + header + length)
            && end + CRLF <= whole.len()
        {
            self.spans.push(Span::new(start, end));
            at = end + CRLF;
            missing -= 1;
        }
        (self.at, self.missing) = (at, Some(missing));
        missing
    }

    /// Returns the number of missing arguments, once the header has arrived.
    fn array_length(&mut self, buf: &[u8], limits: Limits) -> Result<Option<u32>, ProtocolError> {
        if self.missing.is_some() {
            return Ok(self.missing);
        }
        if let [_, ones @ b'0'..=b'9', b'\r', _, ..] = *buf {
            (self.at, self.missing) = (SHORT_HEADER, Some(u32::from(ones - b'0')));
        } else {
            let Some(line) = self.take_header(buf, ProtocolError::TooBigArrayHeader)? else {
                return Ok(None);
            };
            self.missing = Some(parse_array_length(&line[1..], limits)?);
        }
        self.check_request_bytes(self.at, limits)?;
        Ok(self.missing)
    }

    /// Reads one bulk string, and returns whether it is complete.
    #[inline]
    fn take_argument(&mut self, buf: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        let Some(length) = self.bulk_length(buf, limits)? else { return Ok(false) };
        let end = self.at + length;
        if buf.len() < end + CRLF {
            return Ok(false);
        }
        self.spans.push(Span::new(self.at, end));
        self.at = end + CRLF;
        self.bulk = None;
        Ok(true)
    }

    /// Returns the length of the bulk string at `self.at`, once its header has arrived.
    #[inline]
    fn bulk_length(&mut self, buf: &[u8], limits: Limits) -> Result<Option<usize>, ProtocolError> {
        if self.bulk.is_none() {
            let length = match short_header(buf.get(self.at..).unwrap_or_default()) {
                Some((length, header)) if limits.allows(length) => {
                    self.at += header;
                    length
                }
                _ => {
                    let Some(line) = self.take_header(buf, ProtocolError::TooBigBulkHeader)? else {
                        return Ok(None);
                    };
                    parse_bulk_length(line, limits)?
                }
            };
            self.check_request_bytes(self.at + length + CRLF, limits)?;
            self.bulk = Some(length);
        }
        Ok(self.bulk)
    }

    /// Reads a header line, including its marker but not its line break. As in Redis, it ends at a CR, and the next
    /// byte is taken for the LF whatever it is.
    #[inline]
    fn take_header<'a>(
        &mut self,
        buf: &'a [u8],
        too_big: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let start = self.at;
        let Some(end) = self.find_line_end(b'\r', buf, too_big)? else { return Ok(None) };
        if buf.len() < end + CRLF {
            return Ok(None);
        }
        self.at = end + CRLF;
        Ok(Some(&buf[start..end]))
    }

    fn take_inline(&mut self, buf: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        let Some(end) = self.find_line_end(b'\n', buf, ProtocolError::TooBigInline)? else {
            self.check_request_bytes(buf.len(), limits)?;
            return Ok(false);
        };
        self.check_request_bytes(end + 1, limits)?;
        self.at = end + 1;
        let (spans, unquoted) = (&mut self.spans, &mut self.unquoted);
        inline::split(&buf[..end], |word| {
            let start = unquoted.len();
            unquoted.extend_from_slice(word);
            spans.push(Span::new(start, unquoted.len()));
        })
        .map_err(|inline::UnbalancedQuotes| ProtocolError::UnbalancedQuotes)?;
        Ok(true)
    }

    /// Finds the end of the line that begins at `self.at`. Starts where the last search stopped, and searches only as
    /// far as a line may reach, so that the result does not depend on how the bytes arrived. As in Redis (`strchr` in
    /// `networking.c`), a line with a zero byte never ends.
    #[inline]
    fn find_line_end(
        &mut self,
        end: u8,
        buf: &[u8],
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = self.searched.max(self.at);
        let to = buf.len().min(self.at + LINE_MAX + 1);
        let unsearched = buf.get(from..to).unwrap_or_default();
        let stop = unsearched.iter().position(|&byte| byte == end || byte == 0);
        self.searched = stop.map_or(to, |offset| from + offset);
        if stop.is_some() && buf[self.searched] == end {
            return Ok(Some(self.searched));
        }
        if buf.len() > self.at + LINE_MAX {
            return Err(too_big);
        }
        Ok(None)
    }

    #[inline]
    fn check_request_bytes(&self, end: usize, limits: Limits) -> Result<(), ProtocolError> {
        if end > limits.longest_request() {
            return Err(ProtocolError::TooBigRequest);
        }
        Ok(())
    }
}

/// Parses an array's length. As in Redis, negative lengths mean empty arrays.
#[inline]
fn parse_array_length(digits: &[u8], limits: Limits) -> Result<u32, ProtocolError> {
    let length = parse_i64(digits)
        .filter(|&length| length <= ARGS_MAX)
        .ok_or(ProtocolError::InvalidArrayLength)?;
    if length > STRANGER_ARGS_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedArrayLength);
    }
    Ok(u32::try_from(length).unwrap_or(0))
}

/// Length of a header with one digit.
const SHORT_HEADER: usize = 4;

/// Returns a bulk string's length and the size of its header, if the length has one or two digits. Nearly every header
/// is like this.
#[inline]
fn short_header(buf: &[u8]) -> Option<(usize, usize)> {
    let value = |digit: u8| usize::from(digit - b'0');
    match *buf {
        [b'$', ones @ b'0'..=b'9', b'\r', _, ..] => Some((value(ones), SHORT_HEADER)),
        [b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => {
            Some((10 * value(tens) + value(ones), 5))
        }
        _ => None,
    }
}

#[inline]
fn parse_bulk_length(line: &[u8], limits: Limits) -> Result<usize, ProtocolError> {
    let digits = match line {
        [b'$', digits @ ..] => digits,
        // In an empty line, the CR stands in place of the `$`.
        other => return Err(ProtocolError::ExpectedBulk(*other.first().unwrap_or(&b'\r'))),
    };
    let length = parse_i64(digits)
        .and_then(|length| usize::try_from(length).ok())
        .filter(|&length| length <= BULK_MAX)
        .ok_or(ProtocolError::InvalidBulkLength)?;
    if length > STRANGER_BULK_MAX && !limits.authenticated {
        return Err(ProtocolError::UnauthenticatedBulkLength);
    }
    if !limits.allows(length) {
        return Err(ProtocolError::TooBigRequest);
    }
    Ok(length)
}

/// Arguments of one request, the command's name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Returns the number of arguments; 0 for a request that is to be skipped.
    #[inline]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Whether the request is to be skipped.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// Returns the argument at `index`, 0 being the command's name.
    #[inline]
    pub fn get(self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.bytes))
    }

    /// Returns the argument at `index`, for use where the command's arity guarantees one.
    ///
    /// # Panics
    /// Panics beyond the last argument, like slices.
    #[inline]
    pub fn at(self, index: usize) -> &'a [u8] {
        self.spans[index].of(self.bytes)
    }

    /// Iterates over all arguments in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone {
        self.spans.iter().map(move |span| span.of(self.bytes))
    }

    /// Encodes the request as drivers send it, however it arrived.
    pub fn to_request(self) -> Vec<u8> {
        let mut request = format!("*{}\r\n", self.len()).into_bytes();
        for word in self.iter() {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        request
    }

    /// Returns the arguments from `index` on; none if there are fewer.
    #[inline]
    pub fn from(self, index: usize) -> Args<'a> {
        Args { bytes: self.bytes, spans: self.spans.get(index..).unwrap_or_default() }
    }
}

/// A request assembled word by word, for readers that need only parts of it.
#[derive(Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Words {
    /// Begins another word.
    pub fn begin(&mut self) {
        self.spans.push(Span::new(self.bytes.len(), self.bytes.len()));
    }

    /// Extends the last word. Bytes before the first word are dropped.
    pub fn extend(&mut self, bytes: &[u8]) {
        if let Some(last) = self.spans.last_mut() {
            self.bytes.extend_from_slice(bytes);
            *last = Span::new(last.start as usize, self.bytes.len());
        }
    }

    /// Returns the total length of all words in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns all words as arguments.
    pub fn args(&self) -> Args<'_> {
        Args { bytes: &self.bytes, spans: &self.spans }
    }

    /// Clears the words, and keeps at most `kept` bytes of memory for them.
    pub fn clear(&mut self, kept: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept);
        self.spans.clear();
        self.spans.shrink_to(KEPT_SPANS);
    }
}

/// A part of the request, half the size of a `Range<usize>`.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    #[inline]
    fn new(start: usize, end: usize) -> Span {
        debug_assert!(start <= end && end <= SPAN_MAX, "check_request_bytes comes first");
        Span { start: start as u32, end: end as u32 }
    }

    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// Reason why a client's bytes are unreadable, in Redis's words.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProtocolError {
    /// The array length is not a number or exceeds 1,048,576.
    #[error("Protocol error: invalid multibulk length")]
    InvalidArrayLength,
    /// The bulk length is not a number, is negative, or exceeds what a request may have.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An element of the array is not a bulk string. Nested arrays are rejected here.
    #[error("Protocol error: expected '$', got '{}'", *.0 as char)]
    ExpectedBulk(u8),
    /// The header of an array does not end within 64 KiB.
    #[error("Protocol error: too big mbulk count string")]
    TooBigArrayHeader,
    /// The header of a bulk string does not end within 64 KiB.
    #[error("Protocol error: too big bulk count string")]
    TooBigBulkHeader,
    /// An inline request does not end within 64 KiB.
    #[error("Protocol error: too big inline request")]
    TooBigInline,
    /// An inline request has an unclosed quote, or is closed in the middle of a word.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// More than 10 arguments before `AUTH`.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedArrayLength,
    /// An argument of more than 16,384 bytes before `AUTH`.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// The whole request is longer than [`Limits::max_request_bytes`]. Redis has no such limit.
    #[error("Protocol error: request larger than max-request-bytes")]
    TooBigRequest,
}

impl ProtocolError {
    /// Returns the last reply on a connection that sent this.
    pub fn reply(self) -> Reply {
        Reply::error(format!("ERR {self}"))
    }
}

const CRLF: usize = 2;

/// `PROTO_INLINE_MAX_SIZE` in Redis's `server.h`: header lines and inline requests.
const LINE_MAX: usize = 64 * 1024;

/// Limit of Redis up to version 6; version 7 would accept two billion.
const ARGS_MAX: i64 = 1024 * 1024;

/// Limits for `authRequired` clients, from `processMultibulkBuffer`: enough for `HELLO` with all its options.
const STRANGER_ARGS_MAX: i64 = 10;
const STRANGER_BULK_MAX: usize = 16_384;

/// Maximum length of a bulk string (Redis's `proto-max-bulk-len`).
const BULK_MAX: usize = 512 << 20;

/// Number of spans that an idle decoder keeps allocated. It covers the arguments of all but unusual lock commands.
const KEPT_SPANS: usize = 8;

const SPAN_MAX: usize = u32::MAX as usize;

#[cfg(test)]
mod tests;
