//! Part of a string value, as selected by `GETRANGE`.

use crate::catalogue::error;
use crate::resp::number::parse_i64;
use crate::resp::reply::Reply;
use crate::resp::requests::Args;

/// The indexes of `GETRANGE`. Negative ones count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRange {
    start: i64,
    end: i64,
}

impl ValueRange {
    /// Parses the arguments, which include the command's name and the key.
    ///
    /// # Errors
    /// Returns an error if an index is not an integer.
    pub fn parse(args: Args<'_>) -> Result<ValueRange, Reply> {
        let index = |at| args.get(at).and_then(parse_i64).ok_or(error::NOT_AN_INTEGER);
        Ok(ValueRange { start: index(2)?, end: index(3)? })
    }

    /// Returns the first index.
    pub fn start(self) -> i64 {
        self.start
    }

    /// Returns the last index.
    pub fn end(self) -> i64 {
        self.end
    }

    /// Returns that part of `value`, both ends included; indexes beyond the value's ends are ignored.
    pub fn of(self, value: &[u8]) -> &[u8] {
        let len = value.len() as i64;
        let from_front = |index: i64| if index < 0 { (len + index).max(0) } else { index };
        let both_before_end = self.start < 0 && self.end < 0;
        if both_before_end && self.start > self.end {
            return &[];
        }
        let (start, end) = (from_front(self.start), from_front(self.end).min(len - 1));
        if start > end { &[] } else { &value[start as usize..=end as usize] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resp::requests::{Decoder, Limits};

    #[test]
    fn getrange_includes_both_ends() {
        let range = |line: &str| {
            let (mut decoder, request) = (Decoder::new(), format!("getrange k {line}\n"));
            let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
            decoder.decode(request.as_bytes(), limits).expect("valid").expect("complete");
            let range = ValueRange::parse(decoder.args(request.as_bytes()));
            range.map(|range| range.of(b"hello").to_vec())
        };
        for (line, part) in [
            ("0 -1", "hello"),
            ("0 0", "h"),
            ("1 3", "ell"),
            ("-3 -1", "llo"),
            ("-100 1", "he"),
            ("3 100", "lo"),
            ("3 1", ""),
            ("-1 -3", ""),
            ("5 9", ""),
            ("-100 -50", "h"),
            ("-9223372036854775808 9223372036854775807", "hello"),
        ] {
            assert_eq!(range(line), Ok(part.into()), "{line}");
        }
        assert_eq!(range("x 1"), Err(error::NOT_AN_INTEGER));
        assert_eq!(ValueRange { start: 0, end: -1 }.of(b""), b"");
    }

    proptest! {
        #[test]
        fn a_range_is_a_part_of_the_value(start: i64, end: i64, near in -9..9_i64, value: Vec<u8>) {
            for (start, end) in [(start, end), (near, end), (start, near), (near, near)] {
                let part = ValueRange { start, end }.of(&value);
                prop_assert!(part.is_empty() || value.windows(part.len()).any(|window| window == part));
            }
        }
    }
}
