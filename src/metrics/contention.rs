//! The most contended keys, tracked in the "space-saving" sketch of Metwally, Agrawal and El Abbadi. Millions of keys
//! take no more space in it than a few.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::clock::{self, Instant};

/// Maximum keys tracked.
const KEYS: usize = 64;

/// Number of leading bytes by which longer keys are tracked.
const LONGEST_KEY: usize = 256;

/// Time after which counts are halved, so that old contention fades.
const HALF_LIFE: Duration = Duration::from_secs(60);

/// Keys that were most often refused or waited for.
#[derive(Debug)]
pub struct Contention(Mutex<Sketch>);

#[derive(Debug)]
struct Sketch {
    counts: HashMap<Box<[u8]>, u64, foldhash::fast::RandomState>,
    halved: Instant,
}

impl Default for Contention {
    fn default() -> Self {
        Self(Mutex::new(Sketch { counts: HashMap::default(), halved: clock::now() }))
    }
}

impl Contention {
    /// Counts a client that did not get `key` at once.
    pub fn met(&self, key: &[u8]) {
        self.sketch().met(&key[..key.len().min(LONGEST_KEY)]);
    }

    /// Returns all tracked keys, each with its approximate recent count.
    pub fn hottest(&self) -> Vec<(Box<[u8]>, u64)> {
        let mut sketch = self.sketch();
        sketch.forget(clock::now());
        sketch.counts.iter().map(|(key, count)| (key.clone(), *count)).collect()
    }

    /// Locks the sketch. Nothing that can panic runs under this lock.
    fn sketch(&self) -> MutexGuard<'_, Sketch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sketch {
    fn met(&mut self, key: &[u8]) {
        if let Some(count) = self.counts.get_mut(key) {
            *count += 1;
            return;
        }
        self.forget(clock::now());
        let mut count = 1;
        if self.counts.len() >= KEYS {
            // The new key may have been met as often as the one that it displaces.
            let rarest = self.counts.iter().min_by_key(|(_, count)| **count);
            if let Some(rarest) = rarest.map(|(key, _)| key.clone()) {
                count += self.counts.remove(&rarest).unwrap_or_default();
            }
        }
        self.counts.insert(key.into(), count);
    }

    fn forget(&mut self, now: Instant) {
        while now.saturating_duration_since(self.halved) >= HALF_LIFE {
            self.halved += HALF_LIFE;
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            if self.counts.is_empty() {
                self.halved = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_of(contention: &Contention, key: &str) -> Option<u64> {
        let hottest = contention.hottest();
        hottest.into_iter().find(|(known, _)| **known == *key.as_bytes()).map(|(_, count)| count)
    }

    #[test]
    fn a_hot_key_stays_among_many_cold_ones() {
        let contention = Contention::default();
        for number in 0..10_000 {
            contention.met(b"hot");
            contention.met(format!("cold {number}").as_bytes());
        }
        assert_eq!(count_of(&contention, "hot"), Some(10_000));
        assert_eq!(contention.hottest().len(), KEYS);
    }

    #[test]
    fn long_keys_are_cut() {
        let contention = Contention::default();
        contention.met(&[b'x'; 10_000]);
        assert_eq!(contention.hottest()[0].0.len(), LONGEST_KEY);
    }

    #[test]
    fn what_was_is_forgotten() {
        let contention = Contention::default();
        (0..8).for_each(|_| contention.met(b"was"));
        let mut sketch = contention.sketch();
        sketch.halved =
            sketch.halved.checked_sub(2 * HALF_LIFE).expect("the machine is old enough");
        drop(sketch);
        assert_eq!(count_of(&contention, "was"), Some(2));
        let mut sketch = contention.sketch();
        sketch.halved =
            sketch.halved.checked_sub(2 * HALF_LIFE).expect("the machine is old enough");
        drop(sketch);
        assert_eq!(count_of(&contention, "was"), None);
    }
}
