//! When cached keys end by themselves.
//!
//! Masters report the end of a lease when they delete it. A register ends by the clock, and masters delete it only a
//! minute later: its clients are told at the time that it has.

use std::collections::{BTreeSet, HashMap};

use crate::time::clock::Instant;

/// The ends of keys.
#[derive(Debug, Default)]
pub struct KeyEnds {
    ends: HashMap<Box<[u8]>, Instant, foldhash::fast::RandomState>,
    order: BTreeSet<(Instant, Box<[u8]>)>,
}

impl KeyEnds {
    /// Sets the end of a key. Of keys with this name in several databases, the first end counts.
    pub fn set(&mut self, key: &[u8], end: Instant) {
        if self.ends.get(key).is_some_and(|known| *known <= end) {
            return;
        }
        self.remove(key);
        self.ends.insert(key.into(), end);
        self.order.insert((end, key.into()));
    }

    /// Forgets the end of a key, which has changed.
    pub fn remove(&mut self, key: &[u8]) {
        if let Some((key, end)) = self.ends.remove_entry(key) {
            self.order.remove(&(end, key));
        }
    }

    /// Returns the number of ends.
    pub fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns the next end.
    pub fn next(&self) -> Option<Instant> {
        self.order.first().map(|(end, _)| *end)
    }

    /// Takes a key that has ended.
    pub fn ended(&mut self, now: Instant) -> Option<Box<[u8]>> {
        let (end, key) = self.order.pop_first()?;
        if end > now {
            self.order.insert((end, key));
            return None;
        }
        self.ends.remove(&key);
        Some(key)
    }

    /// Forgets all ends.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::clock;

    #[test]
    fn keys_end_in_order_unless_they_change_before() {
        let (mut expiries, now) = (KeyEnds::default(), clock::now());
        let after = |ms| now + Duration::from_millis(ms);
        for (key, ms) in [("c", 30), ("a", 40), ("b", 20), ("a", 25), ("a", 50), ("d", 5)] {
            expiries.set(key.as_bytes(), after(ms));
        }
        expiries.remove(b"d");
        assert_eq!((expiries.next(), expiries.ended(after(19))), (Some(after(20)), None));
        let ended: Vec<_> = std::iter::from_fn(|| expiries.ended(after(25))).collect();
        assert_eq!(ended, [b"b"[..].into(), b"a"[..].into()]);
        expiries.clear();
        assert_eq!(expiries.next(), None);
    }
}
