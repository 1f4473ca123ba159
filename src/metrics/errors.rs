//! Errors that clients were told, by the first word of their text (`errorstats` of Redis).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A script of a client may make up as many words as it likes (`ERROR_STATS_NUMBER` in Redis's `server.h`).
const WORDS: usize = 128;

/// What exceeds it.
const OTHERS: &str = "OTHERS";

/// How often each was told.
#[derive(Debug, Default)]
pub struct Errors(Mutex<BTreeMap<String, u64>>);

impl Errors {
    /// A client was told this.
    pub fn told(&self, text: &str) {
        let word = text.split([' ', '\r', '\n']).next().unwrap_or_default();
        let mut counts = self.lock();
        let is_new = !counts.contains_key(word);
        let word = if is_new && counts.len() >= WORDS { OTHERS } else { word };
        match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => _ = counts.insert(word.to_owned(), 1),
        }
    }

    /// All of them.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.lock().clone()
    }

    /// Nothing that panics is done under this lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let errors = Errors::default();
        for text in ["ERR one", "ERR two", "NOAUTH x", "ALONE"] {
            errors.told(text);
        }
        let counts = errors.counts();
        assert_eq!((counts["ERR"], counts["NOAUTH"], counts["ALONE"]), (2, 1, 1));
    }

    #[test]
    fn made_up_words_take_no_more_room_than_redis_gives_them() {
        let errors = Errors::default();
        (0..1000).for_each(|number| errors.told(&format!("E{number} x")));
        let counts = errors.counts();
        assert_eq!(counts.len(), WORDS + 1);
        assert_eq!(counts[OTHERS], 1000 - WORDS as u64);
    }
}
