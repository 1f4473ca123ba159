//! Detection of duplicate messages.
//!
//! Every master delivers a copy of every message, some of them late: a master that was stopped may deliver messages
//! published minutes ago. As in protection against replayed packets (RFC 6479), a publisher's newest [`WINDOW`]
//! sequence numbers are remembered one by one. Older ones count as seen.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::operation::envelope::MessageStamp;

/// Maximum distance behind the newest message of its publisher at which a message that no other master has delivered
/// may still arrive. Sequence numbers run across all channels.
pub const WINDOW: u64 = 1024;

/// Maximum publishers remembered. Beyond it, the one that has been silent for longest is forgotten. A publisher is a
/// worker of a proxy, and a new one after each restart.
const MAX_PUBLISHERS: usize = 1024;

/// The messages seen from all publishers.
#[derive(Clone, Debug, Default)]
pub struct SeenMessages {
    windows: HashMap<u64, Window>,
    /// Number of messages, to find the publisher that has been silent for longest.
    messages: u64,
}

impl SeenMessages {
    /// Returns the state for a new subscription: a message that is not newer than those that `others` have seen was
    /// published before it.
    pub fn from_now_on(others: &SeenMessages) -> Self {
        let past = |window: &Window| Window { bits: None, ..*window };
        let windows = others.windows.iter().map(|(publisher, window)| (*publisher, past(window)));
        Self { windows: windows.collect(), messages: others.messages }
    }

    /// Whether the message is new. It counts as seen from now on.
    pub fn is_new(&mut self, stamp: MessageStamp) -> bool {
        self.messages += 1;
        let window = self.windows.entry(stamp.publisher).or_default();
        window.last_heard = self.messages;
        let new = window.is_new(stamp.sequence);
        if self.windows.len() > MAX_PUBLISHERS {
            self.forget_one();
        }
        new
    }

    /// Returns the messages heard from publishers with a message here, for a subscriber that moves to another process.
    pub fn heard(&self) -> HeardMessages {
        let extents = self.windows.iter().filter_map(|(publisher, window)| {
            let bits = window.bits.as_deref()?;
            Some((*publisher, window.extent(bits)))
        });
        HeardMessages(extents.collect())
    }

    fn forget_one(&mut self) {
        let silent = self.windows.iter().min_by_key(|(_, window)| window.last_heard);
        if let Some(publisher) = silent.map(|(publisher, _)| *publisher) {
            self.windows.remove(&publisher);
        }
    }
}

const WORDS: usize = WINDOW as usize / 64;

/// The messages seen from one publisher: all up to `newest`, except those whose bits are not set.
#[derive(Clone, Debug, Default)]
struct Window {
    newest: u64,
    /// The bit of a sequence number is the number modulo [`WINDOW`]. `None` means that all are set. Most publishers
    /// never publish on most channels.
    bits: Option<Box<[u64; WORDS]>>,
    last_heard: u64,
}

impl Window {
    fn is_new(&mut self, sequence: u64) -> bool {
        if sequence > self.newest {
            self.advance(sequence);
        } else if self.newest - sequence >= WINDOW {
            return false;
        }
        let Some(bits) = &mut self.bits else { return false };
        let (word, bit) = place(sequence);
        let new = bits[word] & bit == 0;
        bits[word] |= bit;
        new
    }

    /// Clears the bits of the new numbers, which belonged to older ones.
    fn advance(&mut self, to: u64) {
        let bits = self.bits.get_or_insert_with(|| Box::new([u64::MAX; WORDS]));
        if to - self.newest >= WINDOW {
            **bits = [0; WORDS];
        } else {
            for sequence in self.newest + 1..=to {
                let (word, bit) = place(sequence);
                bits[word] &= !bit;
            }
        }
        self.newest = to;
    }
}

impl Window {
    fn extent(&self, bits: &[u64; WORDS]) -> Extent {
        let is_missing = |sequence: &u64| {
            let (word, bit) = place(*sequence);
            bits[word] & bit == 0
        };
        let oldest = self.newest.saturating_sub(WINDOW - 1);
        let missing = (oldest..=self.newest).filter(is_missing).collect();
        Extent { newest: self.newest, missing }
    }
}

/// The messages that a subscriber has heard on one topic before it moved here, by publisher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardMessages(Vec<(u64, Extent)>);

/// All messages of one publisher up to `newest`, except the missing ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Extent {
    newest: u64,
    missing: Vec<u64>,
}

impl HeardMessages {
    /// Whether this message was heard.
    pub fn includes(&self, stamp: MessageStamp) -> bool {
        let includes = |(publisher, extent): &(u64, Extent)| {
            *publisher == stamp.publisher && extent.includes(stamp.sequence)
        };
        self.0.iter().any(includes)
    }

    /// Returns the messages heard here or there.
    pub fn and(mut self, there: &Self) -> Self {
        for (publisher, other) in &there.0 {
            match self.0.iter_mut().find(|(known, _)| known == publisher) {
                Some((_, extent)) => extent.extend(other),
                None => self.0.push((*publisher, other.clone())),
            }
        }
        self
    }
}

impl Extent {
    fn includes(&self, sequence: u64) -> bool {
        sequence <= self.newest && !self.missing.contains(&sequence)
    }

    fn extend(&mut self, other: &Self) {
        let missing = self.missing.iter().chain(&other.missing).copied();
        let is_missing = |sequence: &u64| !self.includes(*sequence) && !other.includes(*sequence);
        let newest = self.newest.max(other.newest);
        let mut missing: Vec<u64> = missing.filter(is_missing).collect();
        missing.sort_unstable();
        missing.dedup();
        *self = Self { newest, missing };
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let index = sequence % WINDOW;
    ((index / 64) as usize, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn stamp(publisher: u64, sequence: u64) -> MessageStamp {
        MessageStamp { publisher, sequence }
    }

    proptest! {
        /// Jumps of any size in any direction.
        #[test]
        fn nothing_is_new_twice(sequences in proptest::collection::vec(
            prop_oneof![1..40_u64, 1..5_000_u64, any::<u64>()], 0..400,
        )) {
            let (mut seen, mut delivered) = (SeenMessages::default(), HashSet::new());
            for sequence in sequences {
                if seen.is_new(stamp(1, sequence)) {
                    prop_assert!(delivered.insert(sequence), "{sequence} was new twice");
                }
            }
        }

        /// Several masters, each of which drops some messages and lags behind the others by less than the window.
        #[test]
        fn nothing_within_the_window_is_lost(
            arrivals in proptest::collection::vec((0..3_000_u64, 0..WINDOW), 0..2_000),
        ) {
            let mut arrivals: Vec<_> =
                arrivals.into_iter().map(|(sequence, lag)| (sequence + lag, sequence)).collect();
            arrivals.sort_unstable();
            let (mut seen, mut model) = (SeenMessages::default(), HashSet::new());
            for (_, sequence) in arrivals {
                // 0 is not a valid sequence number.
                let sequence = sequence + 1;
                prop_assert_eq!(seen.is_new(stamp(1, sequence)), model.insert(sequence));
            }
        }
    }

    proptest! {
        /// The messages that are new to neither process are those that one of them has heard.
        #[test]
        fn what_was_heard_is_told(
            here in proptest::collection::vec(1..1_500_u64, 1..80),
            there in proptest::collection::vec(1..1_500_u64, 1..80),
        ) {
            let listen = |heard: &[u64]| {
                let mut seen = SeenMessages::default();
                heard.iter().for_each(|sequence| _ = seen.is_new(stamp(1, *sequence)));
                seen
            };
            let (mut here, mut there) = (listen(&here), listen(&there));
            let both = here.heard().and(&there.heard());
            for sequence in 1..=1_500 {
                let is_new = here.is_new(stamp(1, sequence)) & there.is_new(stamp(1, sequence));
                prop_assert_eq!(both.includes(stamp(1, sequence)), !is_new, "{}", sequence);
            }
            prop_assert!(!both.includes(stamp(2, 1)));
        }
    }

    #[test]
    fn publishers_count_apart() {
        let mut seen = SeenMessages::default();
        assert!(seen.is_new(stamp(1, 5)) && seen.is_new(stamp(2, 5)));
        assert!(!seen.is_new(stamp(1, 5)) && !seen.is_new(stamp(2, 5)));
    }

    #[test]
    fn what_is_older_than_the_window_counts_as_seen() {
        let mut seen = SeenMessages::default();
        assert!(seen.is_new(stamp(1, 1 + WINDOW)));
        assert!(!seen.is_new(stamp(1, 1)));
        assert!(seen.is_new(stamp(1, 2)));
    }

    #[test]
    fn who_joins_late_does_not_get_what_was_published_before() {
        let mut others = SeenMessages::default();
        others.is_new(stamp(1, 7));
        let mut seen = SeenMessages::from_now_on(&others);
        assert!(!seen.is_new(stamp(1, 6)) && !seen.is_new(stamp(1, 7)));
        assert!(seen.is_new(stamp(1, 8)) && seen.is_new(stamp(1, 10)) && seen.is_new(stamp(1, 9)));
        assert!(seen.is_new(stamp(2, 1)));
    }

    #[test]
    fn the_publisher_that_was_silent_for_longest_is_forgotten() {
        let mut seen = SeenMessages::default();
        for publisher in 0..MAX_PUBLISHERS as u64 {
            seen.is_new(stamp(publisher, 1));
        }
        seen.is_new(stamp(0, 2));
        seen.is_new(stamp(u64::MAX, 1));
        assert_eq!(seen.windows.len(), MAX_PUBLISHERS);
        assert!(!seen.is_new(stamp(0, 2)) && seen.is_new(stamp(1, 1)));
    }
}
