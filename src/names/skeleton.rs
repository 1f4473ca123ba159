//! A name without its variable parts: `lock:order:4711` and `lock:order:4712` share the skeleton `lock:order:*`.
//!
//! # The rule
//! A name is split into words at every byte that is not a letter, a digit, or part of a UTF-8 sequence. A word varies
//! if it is
//! * a UUID, which its hyphens do not split;
//! * a number;
//! * 8 or more hexadecimal digits, at least one of them from 0 to 9;
//! * 16 or more letters and digits, with at least one of each, i.e. a random name;
//! * letters followed by a number (`order4711`), in which case the number varies. `v2` does not vary, because it is a
//!   version.

/// A part of a skeleton.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// A word that is the same in all names.
    Word(Box<[u8]>),
    /// A byte between words.
    Between(u8),
    /// A variable part.
    Any,
}

/// Skeleton of a name; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Skeleton(Vec<Part>);

impl Skeleton {
    /// Returns the skeleton of a name.
    pub fn of(name: &[u8]) -> Self {
        let (mut parts, mut rest) = (Vec::new(), name);
        while let Some(first) = rest.first() {
            if let Some(after) = after_uuid(rest) {
                parts.push(Part::Any);
                rest = after;
            } else if is_of_word(*first) {
                let end = rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len());
                put_word(&rest[..end], &mut parts);
                rest = &rest[end..];
            } else {
                parts.push(Part::Between(*first));
                rest = &rest[1..];
            }
        }
        Self::from_parts(parts)
    }

    /// Returns a skeleton that is the name itself, without variable parts.
    pub fn exactly(name: &[u8]) -> Self {
        Self(vec![Part::Word(name.into())])
    }

    /// Creates a skeleton. Consecutive variable parts are merged.
    pub fn from_parts(mut parts: Vec<Part>) -> Self {
        parts.dedup_by(|next, before| *next == Part::Any && *before == Part::Any);
        Self(parts)
    }

    /// Parts of the skeleton.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// Whether any part varies.
    pub fn varies(&self) -> bool {
        self.0.contains(&Part::Any)
    }

    /// Whether there is a letter that does not vary. Without one, the skeleton's pattern would match everything.
    pub fn says_something(&self) -> bool {
        let has_letter = |part: &Part| match part {
            Part::Word(word) => word.iter().any(|byte| !byte.is_ascii_digit() && is_of_word(*byte)),
            Part::Between(_) | Part::Any => false,
        };
        self.0.iter().any(has_letter)
    }

    /// Returns the skeleton with a variable part in place of the word at `at`; `None` if there is no word there, or
    /// nothing else.
    pub fn without_word(&self, at: usize) -> Option<Self> {
        (self.0.len() > 1 && matches!(self.0.get(at)?, Part::Word(_))).then(|| {
            let mut parts = self.0.clone();
            parts[at] = Part::Any;
            Self::from_parts(parts)
        })
    }

    /// Returns the position of the word in which `other` differs, if it differs in exactly one word.
    pub fn differs_in_a_word(&self, other: &Self) -> Option<usize> {
        let mut differences = (0..self.0.len()).filter(|at| other.0.get(*at) != self.0.get(*at));
        let (at, next) = (differences.next()?, differences.next());
        let are_words = matches!((&self.0[at], other.0.get(at)?), (Part::Word(_), Part::Word(_)));
        (self.0.len() == other.0.len() && next.is_none() && are_words).then_some(at)
    }

    /// Returns the pattern for `--lock-keys`. Bytes that cannot occur in a list of patterns, or in a UTF-8 file,
    /// become `?`.
    pub fn pattern(&self) -> String {
        let mut pattern = Vec::new();
        for part in &self.0 {
            match part {
                Part::Any => pattern.push(b'*'),
                Part::Between(byte) => put_escaped(&[*byte], &mut pattern),
                Part::Word(word) => put_escaped(word, &mut pattern),
            }
        }
        // Only whole characters are left.
        String::from_utf8(pattern).unwrap_or_default()
    }
}

/// Whether a byte belongs to a word. This includes letters beyond ASCII.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80
}

fn put_word(word: &[u8], parts: &mut Vec<Part>) {
    let digits = word.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let letters = word.len() - digits;
    let is_version = word[..letters].eq_ignore_ascii_case(b"v");
    if letters == 0 || is_hexadecimal(word) || is_random(word) {
        parts.push(Part::Any);
    } else if digits > 0 && !is_version {
        parts.extend([Part::Word(word[..letters].into()), Part::Any]);
    } else {
        parts.push(Part::Word(word.into()));
    }
}

fn is_hexadecimal(word: &[u8]) -> bool {
    word.len() >= 8 && word.iter().all(u8::is_ascii_hexdigit) && word.iter().any(u8::is_ascii_digit)
}

fn is_random(word: &[u8]) -> bool {
    word.len() >= 16
        && word.is_ascii()
        && word.iter().any(u8::is_ascii_digit)
        && word.iter().any(u8::is_ascii_alphabetic)
}

/// Returns the rest of `text` after a leading UUID, if there is one.
fn after_uuid(text: &[u8]) -> Option<&[u8]> {
    const LENGTH: usize = 36;
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let (uuid, rest) = text.split_at_checked(LENGTH)?;
    let fits = |(at, byte): (usize, &u8)| match HYPHENS.contains(&at) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    let is_alone = rest.first().is_none_or(|byte| !is_of_word(*byte));
    (is_alone && uuid.iter().enumerate().all(fits)).then_some(rest)
}

fn put_escaped(text: &[u8], pattern: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '*' | '?' | '[' | ']' | '\\' => pattern.extend([b'\\', character as u8]),
                ',' => pattern.push(b'?'),
                other if other.is_control() => pattern.extend(vec![b'?'; other.len_utf8()]),
                other => pattern.extend(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        pattern.extend(vec![b'?'; chunk.invalid().len()]);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resp::glob;

    /// Returns a different word for each number, so that each has a separate skeleton.
    pub(crate) fn word(mut number: usize) -> String {
        let mut word = String::new();
        while number > 0 || word.is_empty() {
            word.push(char::from(b'a' + (number % 26) as u8));
            number /= 26;
        }
        word
    }

    #[test]
    fn what_varies_is_left_out() {
        for (name, pattern) in [
            ("lock:order:4711", "lock:order:*"),
            ("lock:order4711", "lock:order*"),
            ("lock:alice", "lock:alice"),
            ("lock:v2:7", "lock:v2:*"),
            ("lock:550e8400-e29b-41d4-a716-446655440000:x", "lock:*:x"),
            ("lock:550e8400-e29b-41d4-a716-446655440000x", "lock:*-e29b-41d*-a*-446655440000x"),
            ("lock:deadbeef01", "lock:*"),
            ("lock:deadbeef", "lock:deadbeef"),
            ("job_3kTMd8Hq0aBcDeFg_lock", "job_*_lock"),
            ("12:34", "*:*"),
            ("a1b2", "a1b*"),
            ("caf\u{e9}:1", "caf\u{e9}:*"),
            ("x,y*[z]", "x?y\\*\\[z\\]"),
        ] {
            assert_eq!(Skeleton::of(name.as_bytes()).pattern(), pattern, "{name}");
        }
    }

    #[test]
    fn a_pattern_says_something_if_a_letter_stays() {
        for (name, says) in
            [("lock:1", true), ("12:34", false), ("a1", true), ("", false), (":::", false)]
        {
            assert_eq!(Skeleton::of(name.as_bytes()).says_something(), says, "{name}");
        }
    }

    #[test]
    fn skeletons_that_differ_in_one_word_are_alike_without_it() {
        let [a, b, longer, other] = ["job:a:1", "job:b:2", "job:a:1:x", "run:b:1"]
            .map(|name| Skeleton::of(name.as_bytes()));
        assert_eq!(a.differs_in_a_word(&b), Some(2));
        assert_eq!(a.without_word(2), b.without_word(2));
        assert_eq!(a.without_word(2).map(|it| it.pattern()), Some("job:*:*".to_owned()));
        for other in [&a, &longer, &other] {
            assert_eq!(a.differs_in_a_word(other), None);
        }
        assert_eq!((a.without_word(1), a.without_word(9)), (None, None));
        assert_eq!(Skeleton::of(b"job").without_word(0), None);
    }

    proptest! {
        #[test]
        fn a_skeleton_catches_its_name(name in proptest::collection::vec(any::<u8>(), 0..60)) {
            for skeleton in [Skeleton::of(&name), Skeleton::exactly(&name)] {
                prop_assert!(glob::matches(skeleton.pattern().as_bytes(), &name, false));
            }
        }

        #[test]
        fn names_of_one_skeleton_differ_in_what_varies_only(a in 0u32.., b in 0u32..) {
            let [one, other] = [a, b].map(|number| format!("lock:{number}:x"));
            prop_assert_eq!(Skeleton::of(one.as_bytes()), Skeleton::of(other.as_bytes()));
        }
    }
}
