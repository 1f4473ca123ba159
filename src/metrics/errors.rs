//! Errors sent to clients, counted by the first word of their text (`errorstats` of Redis, `afterErrorReply` in
//! `networking.c`).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of words, because a client's script can make up any number (`ERROR_STATS_NUMBER` in Redis's
/// `server.h`).
const WORDS: usize = 128;

/// Number of leading bytes in which the first word must end.
const LONGEST_WORD: usize = 31;

/// Word counted for a text that has none.
const NO_WORD: &[u8] = b"ERR";

/// Word counted for all words beyond the maximum.
const OTHERS: &str = "OTHERS";

/// Number of times that each error was sent.
#[derive(Debug, Default)]
pub struct Errors(Mutex<BTreeMap<String, u64>>);

impl Errors {
    /// Counts an error sent to a client.
    pub fn told(&self, text: &[u8]) {
        let word = shown(first_word(text));
        let mut counts = self.lock();
        let is_new = !counts.contains_key(&*word);
        let word = if is_new && counts.len() >= WORDS { OTHERS } else { &*word };
        match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => _ = counts.insert(word.to_owned(), 1),
        }
    }

    /// Counts by first word.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.lock().clone()
    }

    /// Locks the counts. Nothing that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_word(text: &[u8]) -> &[u8] {
    let head = &text[..text.len().min(LONGEST_WORD)];
    let end = head.iter().position(|byte| *byte == b' ');
    end.map_or(NO_WORD, |end| &head[..end])
}

/// Replaces the characters that `INFO` uses itself (`getSafeInfoString` in `server.c`).
fn shown(word: &[u8]) -> Cow<'_, str> {
    let word = String::from_utf8_lossy(word);
    match word.contains(UNSAFE) {
        true => word.replace(UNSAFE, "_").into(),
        false => word,
    }
}

/// Characters that [`shown`] replaces.
const UNSAFE: [char; 4] = ['#', ':', '\n', '\r'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let errors = Errors::default();
        let long = format!("{} x", "L".repeat(LONGEST_WORD));
        for text in ["ERR one", "ERR two", "NOAUTH x", "ALONE", &long, "A:B\n#1 x", " x"] {
            errors.told(text.as_bytes());
        }
        let counts = errors.counts();
        let counts: Vec<_> = counts.iter().map(|(word, count)| (&**word, *count)).collect();
        assert_eq!(counts, [("", 1), ("A_B__1", 1), ("ERR", 4), ("NOAUTH", 1)]);
    }

    #[test]
    fn made_up_words_take_no_more_room_than_redis_gives_them() {
        let errors = Errors::default();
        (0..1000).for_each(|number| errors.told(format!("E{number} x").as_bytes()));
        let counts = errors.counts();
        assert_eq!(counts.len(), WORDS + 1);
        assert_eq!(counts[OTHERS], 1000 - WORDS as u64);
    }
}
