//! The keys that clients may have cached, and which clients (`TrackingTable` in Redis's `tracking.c`).

use std::collections::HashMap;

use crate::client::memory::ENTRY;

/// Maximum memory of a table. Beyond it the clients of some key are told to forget it, as by Redis beyond
/// `tracking-table-max-keys`.
pub const MAX_BYTES: usize = 64 << 20;

/// Number of a key's readers at which those that have gone are first looked for.
const MANY_READERS: usize = 8;

/// Who has read each key since it was last told to have changed.
#[derive(Clone, Debug)]
pub struct Table {
    readers: HashMap<Box<[u8]>, Vec<u64>, foldhash::fast::RandomState>,
    bytes: usize,
    max_bytes: usize,
}

/// A key and its readers, who are to be told.
pub type Evicted = (Box<[u8]>, Vec<u64>);

impl Table {
    /// Returns an empty table that takes up to `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self { readers: HashMap::default(), bytes: 0, max_bytes }
    }

    /// Notes that a client is about to read a key. Returns whether that is news. Readers that are not `there` any more
    /// are forgotten from time to time.
    pub fn remember(&mut self, key: &[u8], reader: u64, there: impl Fn(u64) -> bool) -> bool {
        let Some(readers) = self.readers.get_mut(key) else {
            self.bytes += weight(key, 1);
            self.readers.insert(key.into(), vec![reader]);
            return true;
        };
        if readers.contains(&reader) {
            return false;
        }
        if readers.len() >= MANY_READERS && readers.len().is_power_of_two() {
            let before = readers.len();
            readers.retain(|reader| there(*reader));
            self.bytes -= (before - readers.len()) * READER;
        }
        readers.push(reader);
        self.bytes += READER;
        true
    }

    /// Takes the readers of a key that has changed. They are told once.
    pub fn take(&mut self, key: &[u8]) -> Vec<u64> {
        let Some(readers) = self.readers.remove(key) else { return Vec::new() };
        self.bytes -= weight(key, readers.len());
        readers
    }

    /// Forgets that a client has read a key. Returns whether that was known.
    pub fn forget(&mut self, key: &[u8], reader: u64) -> bool {
        let mut readers = self.take(key);
        let before = readers.len();
        readers.retain(|other| *other != reader);
        let is_known = readers.len() < before;
        if !readers.is_empty() {
            self.bytes += weight(key, readers.len());
            self.readers.insert(key.into(), readers);
        }
        is_known
    }

    /// Takes some key if the table is too large.
    pub fn evict(&mut self) -> Option<Evicted> {
        if self.bytes <= self.max_bytes {
            return None;
        }
        let key = self.readers.keys().next()?.clone();
        let readers = self.take(&key);
        Some((key, readers))
    }

    /// Whether this client is to be told when the key changes.
    pub fn is_reader(&self, key: &[u8], client: u64) -> bool {
        self.readers.get(key).is_some_and(|readers| readers.contains(&client))
    }

    /// Whether any client is to be told when the key changes.
    pub fn has(&self, key: &[u8]) -> bool {
        self.readers.contains_key(key)
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.readers = HashMap::default();
        self.bytes = 0;
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.readers.len()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty()
    }

    /// Returns the number of keys, counted once for each of their readers.
    pub fn items(&self) -> usize {
        self.readers.values().map(Vec::len).sum()
    }
}

/// Memory of one reader of a key.
const READER: usize = size_of::<u64>();

/// Memory of a key with its readers.
fn weight(key: &[u8], readers: usize) -> usize {
    key.len() + ENTRY + readers * READER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_told_once_and_each_key_has_its_own() {
        let mut table = Table::new(MAX_BYTES);
        let all = |_| true;
        assert!(table.remember(b"a", 1, all) && table.remember(b"a", 2, all));
        assert!(!table.remember(b"a", 1, all) && table.remember(b"b", 1, all));
        assert_eq!((table.len(), table.items()), (2, 3));
        assert_eq!(table.take(b"a"), [1, 2]);
        assert!(table.take(b"a").is_empty());
        assert!(!table.is_reader(b"a", 1) && table.is_reader(b"b", 1));
        table.remember(b"b", 2, all);
        assert!(table.forget(b"b", 1) && !table.forget(b"b", 1) && table.forget(b"b", 2));
        assert!(table.is_empty() && table.bytes == 0);
    }

    #[test]
    fn readers_that_have_gone_are_forgotten_in_time() {
        let mut table = Table::new(MAX_BYTES);
        for reader in 0..10_000 {
            table.remember(b"a", reader, |other| other + 2 > reader);
        }
        assert!(table.items() <= 2 * MANY_READERS, "{} readers", table.items());
        assert!(table.is_reader(b"a", 9_999));
        table.take(b"a");
        assert_eq!(table.bytes, 0);
    }

    #[test]
    fn a_full_table_gives_up_keys_with_their_readers() {
        let mut table = Table::new(10 * (ENTRY + 9));
        for key in 0..12_u8 {
            table.remember(&[key], 1, |_| true);
        }
        let mut evicted = std::iter::from_fn(|| table.evict()).collect::<Vec<_>>();
        let (key, readers) = evicted.pop().expect("one too many");
        assert_eq!((evicted.len(), table.len(), readers), (1, 10, vec![1]));
        assert!(!table.is_reader(&key, 1));
    }
}
