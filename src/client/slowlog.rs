//! `SLOWLOG`: the log of slow requests. All workers share it, and only slow requests touch it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::registry::Client;
use crate::config::Live;

/// Bytes to which longer keys are cut (`SLOWLOG_ENTRY_MAX_STRING` in Redis's `slowlog.h`).
const LONGEST_KEY: usize = 128;

/// Threshold at which no request is slow.
const NEVER: u64 = u64::MAX;

/// The latest slow requests.
#[derive(Debug)]
pub struct Slowlog {
    slower_than_us: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// Latest first.
    entries: VecDeque<Arc<SlowlogEntry>>,
    next_id: u64,
    max_len: usize,
}

/// One slow request.
#[derive(Debug, PartialEq, Eq)]
pub struct SlowlogEntry {
    /// The entry's number, never reused.
    pub id: u64,
    /// Time of the reply, in seconds of Unix time.
    pub unix_seconds: i64,
    /// Time from the first request to the masters to the reply, in microseconds.
    pub us: u64,
    /// The name of the command.
    pub command: &'static str,
    /// The key, possibly cut.
    pub key: Box<[u8]>,
    /// The client's address.
    pub address: String,
    /// The client's name (`CLIENT SETNAME`).
    pub name: String,
}

impl Default for Slowlog {
    fn default() -> Self {
        Self { slower_than_us: AtomicU64::new(NEVER), log: Mutex::default() }
    }
}

impl Slowlog {
    /// Applies the settings of `live`.
    pub fn configure(&self, live: &Live) {
        let slower_than_us = u64::try_from(live.slowlog_log_slower_than).unwrap_or(NEVER);
        self.slower_than_us.store(slower_than_us, Ordering::Relaxed);
        let mut log = self.log();
        log.max_len = live.slowlog_max_len;
        log.entries.truncate(live.slowlog_max_len);
    }

    /// Whether a request that took `us` microseconds is to be logged.
    #[inline]
    pub fn is_slow(&self, us: u64) -> bool {
        us >= self.slower_than_us.load(Ordering::Relaxed)
    }

    /// Logs a slow request.
    pub fn note(
        &self,
        (command, key): (&'static str, &[u8]),
        client: &Client,
        us: u64,
        unix_seconds: i64,
    ) {
        let name = client.words().name.clone();
        let address = client.address.to_string();
        let key = key[..key.len().min(LONGEST_KEY)].into();
        let mut log = self.log();
        let id = log.next_id;
        log.next_id += 1;
        log.entries.push_front(Arc::new(SlowlogEntry {
            id,
            unix_seconds,
            us,
            command,
            key,
            address,
            name,
        }));
        let max_len = log.max_len;
        log.entries.truncate(max_len);
    }

    /// Returns the latest entries, at most `count`.
    pub fn latest(&self, count: usize) -> Vec<Arc<SlowlogEntry>> {
        self.log().entries.iter().take(count).cloned().collect()
    }

    /// Returns the number of entries kept.
    pub fn len(&self) -> usize {
        self.log().entries.len()
    }

    /// Whether the log is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of entries ever logged.
    pub fn noted(&self) -> u64 {
        self.log().next_id
    }

    /// Clears the log.
    pub fn reset(&self) {
        self.log().entries.clear();
    }

    /// No code under this lock can panic.
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_is_what_the_setting_says() {
        let slowlog = Slowlog::default();
        let is_slow = |us| slowlog.is_slow(us);
        assert!(!is_slow(u64::MAX / 2), "nothing until it is configured");
        let live = |us| Live { slowlog_log_slower_than: us, ..Live::default() };
        slowlog.configure(&live(10));
        assert!(is_slow(10) && !is_slow(9));
        slowlog.configure(&live(0));
        assert!(is_slow(0));
        slowlog.configure(&live(-1));
        assert!(!is_slow(u64::MAX / 2));
    }
}
