//! Glob patterns with Redis's semantics (`stringmatchlen` in `util.c`): `*`, `?`, `[a-z]`, `[^...]`, and `\` to escape
//! a character.
//!
//! Redis's function recurses at every `*`. This one backtracks only to the last `*`. That is enough, because the last
//! `*` can also try anything that an earlier one could still try. The time is therefore at most the product of both
//! lengths, whatever pattern a client sends.

/// Whether all of `text` matches `pattern`. `ignore_case` makes ASCII letters equal.
///
/// As in Redis, an empty text matches only the empty pattern, not even `*`. Callers for which `*` means everything,
/// like `KEYS`, must handle that themselves.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut pattern, mut text) = (pattern, text);
    let mut last_star: Option<(&[u8], &[u8])> = None;
    while !text.is_empty() {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            last_star = Some((rest, text));
        } else if let Some(rest) = match_one(pattern, text[0], ignore_case) {
            pattern = rest;
            text = &text[1..];
        } else if let Some((after_star, [_, text_rest @ ..])) = last_star {
            // Let the star take one more character, and try again.
            (pattern, text) = (after_star, text_rest);
            last_star = Some((after_star, text_rest));
        } else {
            return false;
        }
    }
    pattern.iter().all(|&byte| byte == b'*')
}

/// One element of a pattern.
#[derive(Debug)]
pub enum Element {
    /// `*`
    Any,
    /// Exactly one of these bytes, in sorted order.
    OneOf(Vec<u8>),
}

/// Returns the elements of `pattern`, for translation into another language.
pub fn elements(mut pattern: &[u8]) -> Vec<Element> {
    let mut elements = Vec::new();
    while let Some(first) = pattern.first() {
        if *first == b'*' {
            elements.push(Element::Any);
            pattern = &pattern[1..];
            continue;
        }
        let after = |byte: u8| Some((byte, match_one(pattern, byte, false)?));
        let matched: Vec<(u8, &[u8])> = (0..=u8::MAX).filter_map(after).collect();
        elements.push(Element::OneOf(matched.iter().map(|(byte, _)| *byte).collect()));
        // If no byte matches this element, no text matches, whatever follows.
        pattern = matched.first().map_or(&[], |(_, rest)| rest);
    }
    elements
}

/// Returns the rest of the pattern if its first element, which is not `*`, matches `byte`.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', class @ ..] => match_class(class, byte, ignore_case),
        [b'\\', escaped, rest @ ..] => same(*escaped, byte, ignore_case).then_some(rest),
        [literal, rest @ ..] => same(*literal, byte, ignore_case).then_some(rest),
    }
}

/// Returns the pattern after a class, whose `[` has been consumed, if `byte` is in the class. The end of the pattern
/// also ends a class. As in Redis, an escaped character in a class keeps its case.
fn match_class(class: &[u8], byte: u8, ignore_case: bool) -> Option<&[u8]> {
    let (mut rest, negated) = match class {
        [b'^', rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [b'\\', escaped, after @ ..] => {
                found |= *escaped == byte;
                after
            }
            [b']', after @ ..] => return (found != negated).then_some(after),
            [] => return (found != negated).then_some(rest),
            [start, b'-', end, after @ ..] => {
                found |= in_range(*start, *end, byte, ignore_case);
                after
            }
            [literal, after @ ..] => {
                found |= same(*literal, byte, ignore_case);
                after
            }
        }
    }
}

fn in_range(start: u8, end: u8, byte: u8, ignore_case: bool) -> bool {
    let (low, high) = if start <= end { (start, end) } else { (end, start) };
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    (fold(low)..=fold(high)).contains(&fold(byte))
}

fn same(a: u8, b: u8, ignore_case: bool) -> bool {
    a == b || (ignore_case && a.eq_ignore_ascii_case(&b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_glob(pattern: &str, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} {text:?}");
        }
        for text in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes(), false), "{pattern} {text:?}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        assert_glob("", &[""], &["a"]);
        // As in Redis, whose loop does not start without text.
        assert_glob("*", &["a", "abc"], &[""]);
        assert_glob("max*y", &["maxmemory-policy", "maxy"], &["max", "maxmemory-policies"]);
        assert_glob("**a**", &["a", "bab"], &["", "b"]);
        assert_glob("h?llo", &["hello", "h*llo"], &["hllo", "heello"]);
        assert_glob("*a*b", &["ab", "xaxbxb", "aab"], &["ba", "abx"]);
    }

    #[test]
    fn classes() {
        assert_glob("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]);
        assert_glob("h[^e]llo", &["hallo"], &["hello"]);
        assert_glob("[a-c]", &["a", "b", "c"], &["d", "-"]);
        assert_glob("[c-a]", &["a", "b", "c"], &["d"]);
        assert_glob(r"[\]x]", &["]", "x"], &["\\", "a"]);
        // Any character can end a range, even the bracket: from `]` to `a`, and the class goes on.
        assert_glob("[a-]", &["]", "a", "_"], &["-", "b"]);
        assert_glob(r"[a\", &["a", "\\"], &["b"]);
        assert_glob("[ab", &["a", "b"], &["c", "[ab"]);
        assert_glob("[]", &[], &["", "a", "[]"]);
        assert_glob("[^]", &["a"], &["", "ab"]);
    }

    #[test]
    fn escapes() {
        assert_glob(r"a\*", &["a*"], &["ab", "a\\"]);
        assert_glob(r"a\", &["a\\"], &["a"]);
        assert_glob(r"\[a]", &["[a]"], &["a"]);
    }

    #[test]
    fn case_may_be_ignored() {
        assert!(matches(b"MaxMem*", b"maxmemory", true));
        assert!(matches(b"[A-C]x", b"bX", true));
        assert!(matches(br"\Ab", b"aB", true));
        assert!(!matches(b"MaxMem*", b"maxmemory", false));
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let (pattern, text) = ("a*".repeat(5_000) + "b", "a".repeat(10_000));
        assert!(!matches(pattern.as_bytes(), text.as_bytes(), false));
    }

    proptest! {
        #[test]
        fn it_agrees_with_trying_everything(pattern in r"[ab*?]{0,8}", text in "[ab]{1,8}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches(pattern, text, false), try_everything(pattern, text));
        }

        #[test]
        fn no_pattern_panics(pattern in any::<Vec<u8>>(), text in any::<Vec<u8>>()) {
            matches(&pattern, &text, true);
        }

        #[test]
        fn escaped_text_matches_itself(text in any::<Vec<u8>>()) {
            let pattern: Vec<u8> = text.iter().flat_map(|&byte| [b'\\', byte]).collect();
            prop_assert!(matches(&pattern, &text, false));
        }
    }

    fn try_everything(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => (0..=text.len()).any(|taken| try_everything(rest, &text[taken..])),
            [one, rest @ ..] => {
                text.first().is_some_and(|byte| *one == b'?' || one == byte)
                    && try_everything(rest, &text[1..])
            }
        }
    }
}
