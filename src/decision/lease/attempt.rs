//! Attempt names, and the format of the values that masters store.
//!
//! Neither the token nor the expiry identifies an attempt. Clients retry with the same token, many use a constant one,
//! and two workers can choose the same expiry within one millisecond. So each stored value carries a tag.
//!
//! # Format
//!
//! ```text
//! FF 'R' 'L' 01 | worker: 6 bytes | counter: 8 bytes | generation: 2 bytes | token
//! ```
//!
//! Numbers are big-endian. `FF` occurs in no UTF-8 text, and no gzip, pickle or Java stream starts with it. The fourth
//! byte is the version of this layout. A value without the marker, or shorter than marker and tag, is all token.

/// Prefix of every tagged value.
pub const MARKER: [u8; 4] = [0xFF, b'R', b'L', 1];

/// Length of a tag in bytes.
pub const TAG_LEN: usize = WORKER_LEN + COUNTER_LEN + GENERATION_LEN;

/// Length in bytes of the header: everything before the token.
pub const HEADER_LEN: usize = MARKER.len() + TAG_LEN;

/// Length in bytes of the header without the generation.
const PREFIX_LEN: usize = HEADER_LEN - GENERATION_LEN;

/// Length of an attempt in bytes.
pub const ATTEMPT_LEN: usize = WORKER_LEN + COUNTER_LEN;

const WORKER_LEN: usize = 6;
const COUNTER_LEN: usize = 8;
const GENERATION_LEN: usize = 2;

/// Random 48-bit number that a worker draws when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(u64);

impl WorkerId {
    /// Reserved: no worker has this number, nor 0.
    const NOBODY: u64 = (1 << (8 * WORKER_LEN)) - 1;

    /// Range from which workers draw their numbers.
    pub const DRAWN: std::ops::Range<u64> = 1..Self::NOBODY;

    /// Returns the id made of the lowest 48 bits of `random`.
    pub fn new(random: u64) -> Self {
        Self(random & ((1 << (8 * WORKER_LEN)) - 1))
    }
}

/// One try to acquire one lease. No two are equal, across all workers and for all time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    worker: WorkerId,
    counter: u64,
}

impl Attempt {
    /// Returns attempt number `counter` of a worker. A worker never uses a number twice.
    pub fn new(worker: WorkerId, counter: u64) -> Self {
        Self { worker, counter }
    }

    /// Returns an attempt that names a value nobody holds.
    pub fn of_nobody(counter: u64) -> Self {
        Self { worker: WorkerId(WorkerId::NOBODY), counter }
    }

    /// Whether this attempt was made by [`Attempt::of_nobody`].
    pub fn is_nobodys(self) -> bool {
        self.worker.0 == WorkerId::NOBODY
    }

    /// Returns the attempt as encoded in a tag.
    pub fn to_bytes(self) -> [u8; ATTEMPT_LEN] {
        let mut bytes = [0; ATTEMPT_LEN];
        bytes.copy_from_slice(&self.fresh().to_bytes()[..ATTEMPT_LEN]);
        bytes
    }

    /// Decodes an attempt. All byte strings of this length are valid.
    pub fn from_bytes(bytes: [u8; ATTEMPT_LEN]) -> Self {
        let mut tag = [0; TAG_LEN];
        tag[..ATTEMPT_LEN].copy_from_slice(&bytes);
        Tag::from_bytes(tag).attempt
    }

    /// Returns the worker that made the attempt.
    pub fn worker(self) -> WorkerId {
        self.worker
    }

    /// Returns the tag under which the attempt is stored until something confirms it.
    pub fn fresh(self) -> Tag {
        Tag { attempt: self, generation: Generation::FRESH }
    }
}

/// Number of times that one master's copy of a lease was extended.
///
/// Each copy has its own count: a master that missed an extension has a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(u16);

impl Generation {
    /// Generation of a copy as the claim stored it.
    pub const FRESH: Self = Self(0);

    /// Returns the next generation. The last one is followed by the second: a confirmed lease must never look fresh.
    #[must_use]
    pub fn raised(self) -> Self {
        Self(self.0.checked_add(1).unwrap_or(1))
    }
}

/// Identity of one state of one copy: the attempt that stored it, and its extensions since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag {
    /// Attempt that stored the copy.
    pub attempt: Attempt,
    /// Number of extensions of this copy.
    pub generation: Generation,
}

impl Tag {
    /// Placeholder for a value without a tag. No worker has the number 0.
    pub const NONE: Self = Self {
        attempt: Attempt { worker: WorkerId(0), counter: 0 },
        generation: Generation::FRESH,
    };

    /// Returns the tag after one more extension.
    #[must_use]
    pub fn raised(self) -> Self {
        Self { generation: self.generation.raised(), ..self }
    }

    /// Encodes the tag as stored.
    pub fn to_bytes(self) -> [u8; TAG_LEN] {
        let mut bytes = [0; TAG_LEN];
        let (worker, rest) = bytes.split_at_mut(WORKER_LEN);
        let (counter, generation) = rest.split_at_mut(COUNTER_LEN);
        worker.copy_from_slice(&self.attempt.worker.0.to_be_bytes()[8 - WORKER_LEN..]);
        counter.copy_from_slice(&self.attempt.counter.to_be_bytes());
        generation.copy_from_slice(&self.generation.0.to_be_bytes());
        bytes
    }

    /// Decodes a tag. All byte strings of this length are valid.
    pub fn from_bytes(bytes: [u8; TAG_LEN]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        let (worker, rest) = bytes.split_at(WORKER_LEN);
        let (counter, generation) = rest.split_at(COUNTER_LEN);
        let attempt = Attempt::new(WorkerId::new(number(worker)), number(counter));
        Self { attempt, generation: Generation(number(generation) as u16) }
    }
}

/// A stored value, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// `None` if the writer of the value knows no tags.
    pub tag: Option<Tag>,
    /// The value as the client sees it.
    pub token: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Decodes a stored value.
    pub fn decode(value: &'a [u8]) -> Self {
        let tagged = value.strip_prefix(&MARKER).and_then(|rest| rest.split_first_chunk());
        match tagged {
            Some((tag, token)) => Self { tag: Some(Tag::from_bytes(*tag)), token },
            None => Self { tag: None, token: value },
        }
    }
}

/// Returns the marker and the tag, which precede the token.
pub fn header(tag: Tag) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let (marker, rest) = header.split_at_mut(MARKER.len());
    marker.copy_from_slice(&MARKER);
    rest.copy_from_slice(&tag.to_bytes());
    header
}

/// Prepends a tag to a token. [`Tag::NONE`] adds nothing.
pub fn encode(tag: Tag, token: &[u8]) -> Vec<u8> {
    if tag == Tag::NONE {
        return token.to_vec();
    }
    [&header(tag)[..], token].concat()
}

/// Returns the prefix that all generations of an attempt share.
pub fn prefix(attempt: Attempt) -> [u8; PREFIX_LEN] {
    let header = header(attempt.fresh());
    let mut prefix = [0; PREFIX_LEN];
    prefix.copy_from_slice(&header[..PREFIX_LEN]);
    prefix
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn tags() -> impl Strategy<Value = Tag> {
        any::<[u8; TAG_LEN]>().prop_map(Tag::from_bytes)
    }

    proptest! {
        /// Includes tokens that look like tagged values.
        #[test]
        fn a_stored_value_comes_apart_as_it_was_put_together(
            tag in tags(), other in tags(), token in vec(any::<u8>(), 0..40), nested: bool
        ) {
            let token = if nested { encode(other, &token) } else { token };
            prop_assume!(tag != Tag::NONE);
            let value = encode(tag, &token);
            prop_assert_eq!(Stored::decode(&value), Stored { tag: Some(tag), token: &token });
            prop_assert_eq!(value.len(), HEADER_LEN + token.len());
            prop_assert!(value.starts_with(&prefix(tag.attempt)));
        }

        #[test]
        fn different_tags_are_stored_differently(one in tags(), other in tags()) {
            prop_assert_eq!(one == other, one.to_bytes() == other.to_bytes());
            prop_assert_eq!(Tag::from_bytes(one.to_bytes()), one);
            prop_assert_eq!(Attempt::from_bytes(one.attempt.to_bytes()), one.attempt);
        }

        #[test]
        fn text_is_all_token(text in vec(any::<char>(), 0..40)) {
            let text = String::from_iter(text);
            let stored = Stored::decode(text.as_bytes());
            prop_assert_eq!(stored, Stored { tag: None, token: text.as_bytes() });
        }

        #[test]
        fn a_raised_tag_is_never_fresh(tag in tags()) {
            prop_assert_eq!(tag.raised().attempt, tag.attempt);
            prop_assert!(tag.raised().generation > Generation::FRESH);
            prop_assert_ne!(tag.raised(), tag);
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let attempt = Attempt::new(WorkerId::new(0xAB_0102_0304_0506), 7);
        let value = encode(attempt.fresh().raised(), b"t");
        let documented = b"\xFFRL\x01\x01\x02\x03\x04\x05\x06\0\0\0\0\0\0\0\x07\0\x01t";
        assert_eq!(value, documented);
    }

    #[test]
    fn no_worker_is_nobody() {
        let nobody = Attempt::of_nobody(7);
        assert!(nobody.is_nobodys() && Attempt::from_bytes(nobody.to_bytes()).is_nobodys());
        let last = WorkerId::new(WorkerId::DRAWN.end - 1);
        assert!(!Attempt::new(last, 7).is_nobodys());
    }

    #[test]
    fn generations_never_run_out() {
        assert_eq!(Generation(u16::MAX).raised(), Generation::FRESH.raised());
    }

    #[test]
    fn a_value_without_a_tag_is_its_token() {
        assert_eq!(encode(Tag::NONE, b"t"), b"t");
        assert_eq!(Stored::decode(b"t"), Stored { tag: None, token: b"t" });
    }

    #[test]
    fn a_value_too_short_for_its_tag_is_all_token() {
        let value = encode(Attempt::new(WorkerId::new(1), 2).fresh(), b"");
        let short = &value[..HEADER_LEN - 1];
        assert_eq!(Stored::decode(short), Stored { tag: None, token: short });
    }
}
