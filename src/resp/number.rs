//! Integers in Redis's notation.

/// Parses a decimal integer exactly like `string2ll` in Redis's `util.c`. Each number has one spelling, so plus signs,
/// leading zeros, spaces and `-0` are rejected. Also returns `None` if the number does not fit.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() > DIGITS_MAX {
        return None;
    }
    // Accumulate downwards, because `i64::MIN` has no positive counterpart.
    let mut number: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))?;
    }
    if negative { Some(number) } else { number.checked_neg() }
}

/// Number of digits of the longest `i64`.
const DIGITS_MAX: usize = 19;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_one_spelling_is_a_number() {
        for text in ["", "-", "+1", "01", "-0", "-01", "00", " 1", "1 ", "1.0", "1e3", "0x1", "--1"]
        {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_bounds_fit_and_their_neighbours_do_not() {
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"10000000000000000000"), None);
    }

    proptest! {
        #[test]
        fn every_number_reads_back(number in any::<i64>()) {
            prop_assert_eq!(parse_i64(number.to_string().as_bytes()), Some(number));
        }

        #[test]
        fn what_is_read_is_spelled_the_same(text in "[-+ 0-9]{0,21}") {
            if let Some(number) = parse_i64(text.as_bytes()) {
                prop_assert_eq!(number.to_string(), text);
            }
        }
    }
}
