//! Flat iteration over RESP3 bytes: one element at a time, without recursion or a tree.
//!
//! Masters' replies to a client's script are compared and passed on as raw bytes. An aggregate is a header with the
//! number of elements that follow, so one counter suffices to read a reply of any depth.

use super::number::parse_i64;

/// Error for bytes that are not RESP3.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
#[error("the master sent invalid RESP3")]
pub struct Malformed;

/// Maximum length of a string in Redis (`proto-max-bulk-len`).
const MAX_BULK: i64 = 512 << 20;

/// One element: a scalar, or the header of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Element<'a> {
    /// `+ - : $ _ # , ( = ! * % ~ >`
    pub marker: u8,
    /// Rest of the first line.
    pub line: &'a [u8],
    /// Content after the first line of a string; `None` for everything else, including null strings.
    pub body: Option<&'a [u8]>,
    /// All bytes of the element, without nested elements.
    pub bytes: &'a [u8],
}

impl Element<'_> {
    /// Returns the number of elements that follow and belong to this one.
    ///
    /// # Errors
    /// Returns an error if this is an aggregate without a length.
    pub fn children(&self) -> Result<u64, Malformed> {
        let per_item = match self.marker {
            b'*' | b'~' | b'>' => 1,
            b'%' => 2,
            _ => return Ok(0),
        };
        let items = u64::try_from(integer(self.line)?.max(0)).map_err(|_| Malformed)?;
        items.checked_mul(per_item).ok_or(Malformed)
    }

    /// Whether this is one of the nulls of RESP2 and RESP3.
    pub fn is_null(&self) -> bool {
        self.marker == b'_' || matches!(self.marker, b'$' | b'*') && self.line == b"-1"
    }
}

/// Returns the first element of `buf`, or `None` if more bytes are needed.
///
/// # Errors
/// Returns an error if `buf` does not start with an element.
pub fn element(buf: &[u8]) -> Result<Option<Element<'_>>, Malformed> {
    let Some(end) = line_end(buf) else { return Ok(None) };
    let (marker, line) = buf[..end].split_first().ok_or(Malformed)?;
    let (marker, start) = (*marker, end + 2);
    match marker {
        b'$' | b'=' | b'!' => match bulk_len(line)? {
            None => Ok(Some(Element { marker, line, body: None, bytes: &buf[..start] })),
            Some(len) if buf.len() < start + len + 2 => Ok(None),
            Some(len) => {
                let (body, bytes) = (Some(&buf[start..start + len]), &buf[..start + len + 2]);
                Ok(Some(Element { marker, line, body, bytes }))
            }
        },
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' | b'*' | b'%' | b'~' | b'>' => {
            Ok(Some(Element { marker, line, body: None, bytes: &buf[..start] }))
        }
        _ => Err(Malformed),
    }
}

/// Returns the number of bytes surely missing from the first element of `buf`: those of a string whose length is
/// known.
pub fn lacks(buf: &[u8]) -> usize {
    let Some(end) = line_end(buf) else { return 0 };
    let len = match buf.split_first() {
        Some((b'$' | b'=' | b'!', _)) => bulk_len(&buf[1..end]).ok().flatten(),
        _ => None,
    };
    len.map_or(0, |len| (end + 2 + len + 2).saturating_sub(buf.len()))
}

/// Iterates over the elements of whole frames, in the order of the bytes.
pub fn elements(mut bytes: &[u8]) -> impl Iterator<Item = Element<'_>> {
    std::iter::from_fn(move || {
        let first = element(bytes).ok().flatten()?;
        bytes = &bytes[first.bytes.len()..];
        Some(first)
    })
}

/// Splits the first frame, including nested ones, off `bytes`.
pub fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut missing: u64 = 1;
    let mut len = 0;
    for element in elements(bytes) {
        len += element.bytes.len();
        missing = missing.checked_add(element.children().ok()?)? - 1;
        if missing == 0 {
            return Some(bytes.split_at(len));
        }
    }
    None
}

/// Returns the frames in a complete array or push.
pub fn items(array: &[u8]) -> Option<Vec<&[u8]>> {
    let header = elements(array).next().filter(|header| matches!(header.marker, b'*' | b'>'))?;
    let mut rest = &array[header.bytes.len()..];
    let mut items = Vec::new();
    for _ in 0..header.children().ok()? {
        let (item, after) = split_frame(rest)?;
        items.push(item);
        rest = after;
    }
    Some(items)
}

/// Returns a whole frame with the members of sets and the pairs of maps sorted by their bytes. Content nested more
/// than 32 levels deep stays unchanged.
pub fn in_order(frame: &[u8]) -> Vec<u8> {
    ordered(frame, DEEPEST)
}

fn ordered(frame: &[u8], depth: usize) -> Vec<u8> {
    let Some(header) = elements(frame).next().filter(|_| depth > 0) else { return frame.to_vec() };
    let mut rest = &frame[header.bytes.len()..];
    let mut parts = Vec::new();
    while let Some((part, after)) = split_frame(rest) {
        parts.push(ordered(part, depth - 1));
        rest = after;
    }
    if header.marker == b'%' {
        parts = parts.chunks(2).map(<[Vec<u8>]>::concat).collect();
    }
    if matches!(header.marker, b'%' | b'~') {
        parts.sort_unstable();
    }
    [header.bytes, &parts.concat()].concat()
}

/// Maximum depth at which sets and maps are sorted.
const DEEPEST: usize = 32;

/// Returns the integer in a frame.
pub fn int(frame: &[u8]) -> Option<i64> {
    let element = elements(frame).next().filter(|element| element.marker == b':')?;
    parse_i64(element.line)
}

/// Returns the string in a frame; `None` for a null.
pub fn bulk(frame: &[u8]) -> Option<&[u8]> {
    elements(frame).next()?.body
}

/// Parses the length of a string; `None` for the null `$-1`.
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

/// Parses the integer in a line.
///
/// # Errors
/// Returns an error if the line is not an integer.
pub fn integer(digits: &[u8]) -> Result<i64, Malformed> {
    parse_i64(digits).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_whatever_is_in_them() {
        let bytes = b"*2\r\n%1\r\n$1\r\na\r\n~0\r\n_\r\n:7\r\n";
        let (frame, rest) = split_frame(bytes).expect("a whole frame");
        assert_eq!(rest, b":7\r\n");
        let items = items(frame).expect("an array");
        assert_eq!(items, [&b"%1\r\n$1\r\na\r\n~0\r\n"[..], b"_\r\n"]);
        assert_eq!(int(rest), Some(7));
    }

    #[test]
    fn half_a_frame_is_none() {
        for bytes in [&b"*2\r\n:1\r\n"[..], b"$3\r\nab", b"", b"*1\r\n"] {
            assert_eq!(split_frame(bytes), None);
        }
    }

    #[test]
    fn a_string_says_what_it_lacks() {
        assert_eq!(lacks(b"$100\r\nabc"), 99);
        assert_eq!(lacks(b"$3\r\nabc\r"), 1);
        for known in
            [&b"$3\r\nabc\r\n+"[..], b"$100", b"$-1\r\n", b"$9999999999\r\n", b"*7\r\n", b""]
        {
            assert_eq!(lacks(known), 0);
        }
    }

    #[test]
    fn depth_costs_nothing() {
        let mut bytes = b"*1\r\n".repeat(100_000);
        bytes.extend_from_slice(b":1\r\n");
        assert_eq!(split_frame(&bytes), Some((&bytes[..], &b""[..])));
    }

    #[test]
    fn an_empty_line_is_refused() {
        assert_eq!(element(b"\r\n"), Err(Malformed));
        assert_eq!(split_frame(b"\r\n:1\r\n"), None);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        assert_eq!(element(b"$-2\r\n"), Err(Malformed));
        assert_eq!(element(b"?\r\n"), Err(Malformed));
        let huge = element(b"%9223372036854775807\r\n").expect("a header").expect("whole");
        assert!(huge.children().is_ok_and(|children| children == u64::MAX - 1));
    }
}
