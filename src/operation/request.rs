//! Requests to masters, encoded once for all of them.

use crate::catalogue::reserved::{self, OVER};
use crate::decision::lease::attempt::{self, Attempt, Tag};
use crate::lua::canonical::Canonical;

/// The form of a script call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By its SHA1, which is the normal case: masters receive our scripts when a link comes up.
    Sha,
    /// By its text, for a master that has forgotten it (`NOSCRIPT`).
    Text,
}

impl Form {
    fn call(self, script: Canonical) -> (&'static [u8], &'static [u8]) {
        match self {
            Self::Sha => (b"EVALSHA", script.sha().as_bytes()),
            Self::Text => (b"EVAL", script.text().as_bytes()),
        }
    }
}

/// Appends a request: an array of bulk strings.
pub fn encode(out: &mut Vec<u8>, words: &[&[u8]]) {
    header(out, words.len());
    words.iter().for_each(|each| word(out, each));
}

/// Returns a single request, such as a client's words passed on.
pub fn of<'a>(words: impl Iterator<Item = &'a [u8]>) -> Box<[u8]> {
    let mut request = Vec::new();
    encode(&mut request, &words.collect::<Vec<_>>());
    request.into()
}

/// Returns the request for a `SORT` whose elements may complete its patterns to names of the proxy's own.
pub fn sort<'a>(keys: &[&'a [u8]], words: impl Iterator<Item = &'a [u8]>) -> Box<[u8]> {
    let refusal = [reserved::PREFIX.as_bytes(), reserved::REFUSAL.as_bytes()];
    through(Canonical::Sort, keys, refusal.into_iter().chain(words))
}

fn through<'a>(
    script: Canonical,
    keys: &[&'a [u8]],
    words: impl Iterator<Item = &'a [u8]>,
) -> Box<[u8]> {
    let (verb, text) = Form::Text.call(script);
    let words: Vec<_> = words.collect();
    let mut request = Vec::new();
    header(&mut request, 3 + keys.len() + words.len());
    word(&mut request, verb);
    word(&mut request, text);
    word(&mut request, Number::default().digits(keys.len() as i64));
    keys.iter().chain(&words).for_each(|each| word(&mut request, each));
    request.into()
}

/// Appends the head of a request with this number of words.
pub fn header(out: &mut Vec<u8>, words: usize) {
    length(out, b'*', words);
}

/// Appends one word of a request.
pub fn word(out: &mut Vec<u8>, word: &[u8]) {
    length(out, b'$', word.len());
    word_ends(out, word);
}

fn word_ends(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn length(out: &mut Vec<u8>, marker: u8, length: usize) {
    // Most words are that short.
    let digit = |value: usize| b'0' + value as u8;
    match length {
        0..=9 => return out.extend_from_slice(&[marker, digit(length), b'\r', b'\n']),
        10..=99 => {
            let (tens, ones) = (digit(length / 10), digit(length % 10));
            return out.extend_from_slice(&[marker, tens, ones, b'\r', b'\n']);
        }
        _ => {}
    }
    out.push(marker);
    out.extend_from_slice(Number::default().digits(length as i64));
    out.extend_from_slice(b"\r\n");
}

/// `SET key value NX PX ttl GET`: the claim, whose answer is the existing value. The new value is the token after its
/// tag.
pub fn claim(out: &mut Vec<u8>, key: &[u8], tag: Tag, token: &[u8], ttl_ms: i64) {
    out.extend_from_slice(b"*7\r\n$3\r\nSET\r\n");
    word(out, key);
    let tag = attempt::header(tag);
    length(out, b'$', tag.len() + token.len());
    out.extend_from_slice(&tag);
    word_ends(out, token);
    out.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
    word(out, Number::default().digits(ttl_ms));
    out.extend_from_slice(b"$3\r\nGET\r\n");
}

/// Appends a call of one of our scripts on one key.
pub fn script(out: &mut Vec<u8>, form: Form, script: Canonical, key: &[u8], args: &[&[u8]]) {
    let (verb, body) = form.call(script);
    let mut words: [&[u8]; MAX_SCRIPT_WORDS] = [b""; MAX_SCRIPT_WORDS];
    words[..4].copy_from_slice(&[verb, body, b"1", key]);
    words[4..4 + args.len()].copy_from_slice(args);
    encode(out, &words[..4 + args.len()]);
}

/// Appends a request to delete the key if it holds exactly this value.
pub fn take_back(out: &mut Vec<u8>, form: Form, key: &[u8], value: &[u8]) {
    script(out, form, Canonical::TakeBack, key, &[value]);
}

/// Appends a request to let the key expire in `ttl_ms`, if it holds exactly this value and its expiry has not changed
/// since it had `seen_ms` left.
pub fn shorten(out: &mut Vec<u8>, form: Form, key: &[u8], value: &[u8], ttl_ms: i64, seen_ms: i64) {
    let (mut ttl, mut seen) = (Number::default(), Number::default());
    let args = [value, ttl.digits(ttl_ms), seen.digits(seen_ms)];
    script(out, form, Canonical::Shorten, key, &args);
}

/// Appends a request to delete the key if it holds this attempt, however often that was prolonged.
pub fn deliver(out: &mut Vec<u8>, form: Form, key: &[u8], attempt: Attempt) {
    script(out, form, Canonical::Deliver, key, &[&attempt::prefix(attempt)]);
}

/// Appends a request to note for `left_ms` that the attempt is over.
pub fn note(out: &mut Vec<u8>, form: Form, attempt: Attempt, left_ms: i64) {
    let mut left = Number::default();
    let args = [&attempt.to_bytes()[..], left.digits(left_ms)];
    script(out, form, Canonical::Note, OVER.as_bytes(), &args);
}

/// Words in the script call with the most arguments ([`Canonical::Acquire`]): 4 and 5.
const MAX_SCRIPT_WORDS: usize = 9;

/// Room for the decimal digits of an `i64`, so that encoding a number allocates nothing.
#[derive(Default)]
pub struct Number {
    digits: [u8; 20],
}

impl Number {
    /// Returns the digits of `value`.
    pub fn digits(&mut self, value: i64) -> &[u8] {
        let mut rest = value.unsigned_abs();
        let mut at = self.digits.len();
        loop {
            at -= 1;
            self.digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            at -= 1;
            self.digits[at] = b'-';
        }
        &self.digits[at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_redis_reads_them() {
        for value in [0, 7, -7, 1234567890, i64::MAX, i64::MIN] {
            assert_eq!(Number::default().digits(value), value.to_string().as_bytes());
        }
    }

    #[test]
    fn a_claim_is_one_plain_set() {
        let mut out = Vec::new();
        claim(&mut out, b"k", Tag::NONE.raised(), b"t", 5000);
        let expected = b"*7\r\n$3\r\nSET\r\n$1\r\nk\r\n$21\r\n\xFFRL\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01t\r\n\
            $2\r\nNX\r\n$2\r\nPX\r\n$4\r\n5000\r\n$3\r\nGET\r\n";
        assert_eq!(out, expected);
    }
}
