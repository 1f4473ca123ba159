//! Splits an inline request, i.e. a line typed by hand as in `telnet`, into words.
//!
//! Words are separated by white space and may be quoted, by the rules of `sdssplitargs` in Redis's `sds.c`. Inside
//! `"..."` there are `\n \r \t \b \a`, `\xHH`, and `\` before any other character; inside `'...'` only `\'`. A closing
//! quote must end its word.
//!
//! A NUL byte is an ordinary character here. Redis, whose lines are C strings, would not see the end of a line after
//! one and would wait forever.

/// Splits `line` (without its line break), and passes each unquoted word to `word` in turn.
///
/// # Errors
/// Returns [`UnbalancedQuotes`] if a quote is not closed, or a closing quote does not end its word.
pub fn split(line: &[u8], mut word: impl FnMut(&[u8])) -> Result<(), UnbalancedQuotes> {
    let mut current = Vec::new();
    let mut rest = skip_spaces(line);
    while !rest.is_empty() {
        current.clear();
        rest = skip_spaces(take_word(rest, &mut current)?);
        word(&current);
    }
    Ok(())
}

/// A quote that is not closed, or is closed in the middle of a word.
#[derive(Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Appends the first word to `word` and returns the rest of the line. Quotes may begin anywhere: `a"b c"` is one word.
fn take_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    while let Some((&byte, after)) = rest.split_first() {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => return Ok(rest),
            b'"' => return close(take_double_quoted(after, word)?),
            b'\'' => return close(take_single_quoted(after, word)?),
            _ => word.push(byte),
        }
        rest = after;
    }
    Ok(rest)
}

/// Returns the bytes after a closing quote, if the quote may end there.
fn close(after: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match after.first() {
        Some(&byte) if !is_space(byte) => Err(UnbalancedQuotes),
        _ => Ok(after),
    }
}

fn take_double_quoted<'a>(
    mut rest: &'a [u8],
    word: &mut Vec<u8>,
) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex_digit(*high) << 4 | hex_digit(*low));
                after
            }
            [b'\\', escaped, after @ ..] => {
                word.push(unescape(*escaped));
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn take_single_quoted<'a>(
    mut rest: &'a [u8],
    word: &mut Vec<u8>,
) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        rest = match rest {
            [b'\'', after @ ..] => return Ok(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// Returns the value of a valid hexadecimal digit.
fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => (byte | 0x20) - b'a' + 10,
    }
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|&&byte| is_space(byte)).count();
    &text[spaces..]
}

/// Whether C's `isspace` accepts the byte, which includes the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
        let mut words = Vec::new();
        split(line, |word| words.push(word.to_vec()))?;
        Ok(words)
    }

    #[track_caller]
    fn assert_words(line: &str, expected: &[&[u8]]) {
        assert_eq!(words(line.as_bytes()).expect("balanced"), expected, "{line:?}");
    }

    #[test]
    fn white_space_parts_words() {
        assert_words("", &[]);
        assert_words(" \t\r\n\x0b\x0c ", &[]);
        assert_words("  SET  k\tv ", &[b"SET", b"k", b"v"]);
        assert_words("PING\r", &[b"PING"]);
    }

    #[test]
    fn a_vertical_tab_does_not_end_a_word() {
        assert_words("\x0bECHO\x0bhi", &[b"ECHO\x0bhi"]);
    }

    #[test]
    fn double_quotes_have_escapes() {
        assert_words(r#""a\x41\n\"b""#, &[b"aA\n\"b"]);
        assert_words(r#""a\b\a\t\r\q\\""#, &[b"a\x08\x07\t\rq\\"]);
        assert_words(r#""\xfF" "\x4" "\xzz""#, &[b"\xff", b"x4", b"xzz"]);
        assert_words(r#""""#, &[b""]);
    }

    #[test]
    fn single_quotes_have_one_escape() {
        assert_words(r"'a\'b\n'", &[br"a'b\n"]);
        assert_words("'a \"b\" c' ''", &[b"a \"b\" c", b""]);
    }

    #[test]
    fn a_quote_may_begin_inside_a_word() {
        assert_words(r#"a"b c" d'e f'"#, &[b"ab c", b"de f"]);
        assert_words(r"a\nb", &[br"a\nb"]);
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [r#"""#, "'", r#""a"#, "'a", r#""a"b"#, "'a'b", r#""a\"#, r#""a\""#, r#"a"""""#]
        {
            assert_eq!(words(line.as_bytes()), Err(UnbalancedQuotes), "{line:?}");
        }
    }

    #[test]
    fn any_byte_may_be_part_of_a_word() {
        assert_eq!(words(b"\x00\xff \x80"), Ok(vec![b"\x00\xff".to_vec(), b"\x80".to_vec()]));
    }
}
