//! Memory of one master: values under keys, some of which expire.

use std::collections::BTreeMap;

use redlock_proxy::catalogue::reserved::{STAMPS, is_reserved};

use super::resp::Reply;
use super::values::{self, Value, integer};

/// Keys of one master. They expire by that master's own wall clock, which every call receives.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    keys: BTreeMap<Vec<u8>, Entry>,
    /// Earliest expiry of any key, or an earlier time.
    first_end_ms: Option<i64>,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Value,
    /// Unix time, by the master's clock.
    ends_ms: Option<i64>,
}

/// Expiry requested by `SET`.
enum Ends {
    Keep,
    Never,
    At(i64),
}

const SYNTAX: &str = "ERR syntax error";

impl Keyspace {
    /// Runs a command on keys. Returns `None` if the simulation's masters do not know it.
    pub fn command(&mut self, now_ms: i64, words: &[Vec<u8>]) -> Option<Reply> {
        let name = words.first()?.to_ascii_uppercase();
        self.end_keys(now_ms);
        let key = words.get(1).map(Vec::as_slice).unwrap_or_default();
        Some(match &name[..] {
            b"GET" => self.get(key),
            b"MGET" => Reply::Array(words[1..].iter().map(|key| self.text(key)).collect()),
            b"SET" => self.set(now_ms, words),
            b"MSET" => {
                let pairs = words[1..].chunks_exact(2);
                pairs.for_each(|pair| {
                    self.set(now_ms, &[b"SET".to_vec(), pair[0].clone(), pair[1].clone()]);
                });
                Reply::ok()
            }
            b"DEL" | b"UNLINK" => {
                Reply::Int(words[1..].iter().filter(|it| self.delete(it)).count() as i64)
            }
            // For a missing key and an empty value, with which masters report whether they accept
            // writes.
            b"SETRANGE" if words[3].is_empty() && !self.keys.contains_key(key) => Reply::Int(0),
            b"EXISTS" => {
                let there = words[1..].iter().filter(|key| self.keys.contains_key(*key)).count();
                Reply::Int(there as i64)
            }
            b"DBSIZE" => Reply::Int(self.keys.len() as i64),
            b"TYPE" => Reply::Status(self.kind(key).to_owned()),
            b"PTTL" => Reply::Int(self.remaining_ms(now_ms, key)),
            b"PEXPIRETIME" => Reply::Int(self.end_ms(key)),
            b"PEXPIRE" => self.expire(now_ms, now_ms, words),
            b"PEXPIREAT" => self.expire(now_ms, 0, words),
            b"PERSIST" => self.persist(key),
            b"DUMP" => self.keys.get(key).map_or(Reply::Nil, |it| Reply::Bulk(it.value.dump())),
            b"RESTORE" => self.restore(now_ms, words),
            b"SCAN" => self.scan(words),
            b"FLUSHALL" | b"FLUSHDB" => self.flush(words),
            name => {
                let args = words.get(2..).unwrap_or_default();
                let held = self.keys.get(key).map(|it| it.value.clone());
                let (after, reply) = values::run(name, held, args)?;
                self.replace(key, after);
                reply
            }
        })
    }

    /// Drops the clients' keys.
    pub fn only_the_proxies_own(mut self) -> Self {
        self.keys.retain(|key, _| is_reserved(key) && !key.starts_with(STAMPS.as_bytes()));
        self
    }

    /// Returns key, value and remaining time of everything that has not expired, except the
    /// proxies' own keys.
    pub fn all(&mut self, now_ms: i64) -> Vec<(String, String, Option<i64>)> {
        self.end_keys(now_ms);
        let show = |(key, it): (&Vec<u8>, &Entry)| {
            let key = String::from_utf8_lossy(key).into_owned();
            (key, it.value.shown(), it.ends_ms.map(|end| end - now_ms))
        };
        let is_clients = |(key, _): &(&Vec<u8>, &Entry)| !key.starts_with(b"redlock-proxy:");
        self.keys.iter().filter(is_clients).map(show).collect()
    }

    pub fn len(&mut self, now_ms: i64) -> usize {
        self.end_keys(now_ms);
        self.keys.len()
    }

    /// Drops expired keys. A key exists up to and including its last millisecond (`db.c`,
    /// `keyIsExpired`).
    fn end_keys(&mut self, now_ms: i64) {
        if self.first_end_ms.is_some_and(|end| end < now_ms) {
            self.keys.retain(|_, it| it.ends_ms.is_none_or(|end| now_ms <= end));
            self.first_end_ms = self.keys.values().filter_map(|it| it.ends_ms).min();
        }
    }

    fn put(&mut self, key: &[u8], value: Value, ends_ms: Option<i64>) {
        self.note_end(ends_ms);
        self.keys.insert(key.to_vec(), Entry { value, ends_ms });
    }

    fn note_end(&mut self, ends_ms: Option<i64>) {
        self.first_end_ms = self.first_end_ms.into_iter().chain(ends_ms).min();
    }

    /// Replaces a value and keeps its expiry.
    fn replace(&mut self, key: &[u8], value: Option<Value>) {
        match (value, self.keys.get_mut(key)) {
            (Some(value), Some(entry)) => entry.value = value,
            (Some(value), None) => self.put(key, value, None),
            (None, _) => _ = self.delete(key),
        }
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.keys.remove(key).is_some()
    }

    fn kind(&self, key: &[u8]) -> &'static str {
        self.keys.get(key).map_or("none", |it| it.value.kind())
    }

    fn get(&self, key: &[u8]) -> Reply {
        match self.kind(key) {
            "none" | "string" => self.text(key),
            _ => Reply::error(values::WRONG_TYPE),
        }
    }

    /// Returns a string; nil for any other type.
    fn text(&self, key: &[u8]) -> Reply {
        match self.keys.get(key).map(|it| &it.value) {
            Some(Value::Text(text)) => Reply::Bulk(text.clone()),
            _ => Reply::Nil,
        }
    }

    fn remaining_ms(&self, now_ms: i64, key: &[u8]) -> i64 {
        match self.end_ms(key) {
            end if end < 0 => end,
            end => end - now_ms,
        }
    }

    fn end_ms(&self, key: &[u8]) -> i64 {
        self.keys.get(key).map_or(-2, |it| it.ends_ms.unwrap_or(-1))
    }

    /// `SET key value [NX | XX] [PX ms | PXAT ms | KEEPTTL] [GET]`
    fn set(&mut self, now_ms: i64, words: &[Vec<u8>]) -> Reply {
        let [_, key, value, options @ ..] = words else { return Reply::error(SYNTAX) };
        let (mut only_if, mut gets, mut ends) = (None, false, Ends::Never);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            let option = option.to_ascii_uppercase();
            match &option[..] {
                b"NX" => only_if = Some(false),
                b"XX" => only_if = Some(true),
                b"GET" => gets = true,
                b"KEEPTTL" => ends = Ends::Keep,
                b"PX" | b"PXAT" => match options.next().and_then(|ms| integer(ms).ok()) {
                    Some(ms) if ms > 0 => {
                        ends = Ends::At(if option == b"PX" { now_ms + ms } else { ms });
                    }
                    _ => return Reply::error("ERR invalid expire time in 'set' command"),
                },
                _ => return Reply::error(SYNTAX),
            }
        }
        let old = if gets { self.get(key) } else { Reply::Nil };
        if matches!(old, Reply::Error(_))
            || only_if.is_some_and(|wanted| self.keys.contains_key(key) != wanted)
        {
            return old;
        }
        let kept = self.keys.get(key).and_then(|it| it.ends_ms);
        let ends_ms = match ends {
            Ends::Keep => kept,
            Ends::Never => None,
            Ends::At(end) => Some(end),
        };
        self.put(key, Value::Text(value.clone()), ends_ms);
        // A kept expiry may equal the current time: the key lives until that millisecond is over.
        if matches!(ends, Ends::At(end) if end <= now_ms) {
            self.delete(key);
        }
        if gets { old } else { Reply::ok() }
    }

    /// `PEXPIRE key ms [GT]`, and `PEXPIREAT`, which counts from another time.
    fn expire(&mut self, now_ms: i64, from_ms: i64, words: &[Vec<u8>]) -> Reply {
        let [_, key, ms, options @ ..] = words else { return Reply::error(SYNTAX) };
        let ms = match integer(ms) {
            Ok(ms) => ms,
            Err(why) => return Reply::error(why),
        };
        let only_longer = options.iter().any(|option| option.eq_ignore_ascii_case(b"GT"));
        let Some(entry) = self.keys.get_mut(key) else { return Reply::Int(0) };
        let end = from_ms + ms;
        if only_longer && entry.ends_ms.is_none_or(|before| end <= before) {
            return Reply::Int(0);
        }
        entry.ends_ms = Some(end);
        self.note_end(Some(end));
        if end <= now_ms {
            self.delete(key);
        }
        Reply::Int(1)
    }

    fn persist(&mut self, key: &[u8]) -> Reply {
        let ended = self.keys.get_mut(key).and_then(|it| it.ends_ms.take());
        Reply::Int(i64::from(ended.is_some()))
    }

    /// `RESTORE key ms dump [REPLACE] [ABSTTL]`
    fn restore(&mut self, now_ms: i64, words: &[Vec<u8>]) -> Reply {
        let [_, key, ms, dumped, options @ ..] = words else { return Reply::error(SYNTAX) };
        let has = |name: &[u8]| options.iter().any(|option| option.eq_ignore_ascii_case(name));
        let (Ok(ms), Some(value)) = (integer(ms), Value::of_dump(dumped)) else {
            return Reply::error("ERR DUMP payload version or checksum are wrong");
        };
        if self.keys.contains_key(key) && !has(b"REPLACE") {
            return Reply::error("BUSYKEY Target key name already exists.");
        }
        let start_ms = if has(b"ABSTTL") { 0 } else { now_ms };
        let ends_ms = (ms > 0).then_some(start_ms + ms);
        self.put(key, value, ends_ms);
        // The key is not even created (`restoreCommand` in `cluster.c`).
        if ends_ms.is_some_and(|end| end <= now_ms) {
            self.delete(key);
        }
        Reply::ok()
    }

    /// `SCAN cursor [MATCH head*] [COUNT n]`, all in one page, as Redis may do too.
    fn scan(&self, words: &[Vec<u8>]) -> Reply {
        let at = words.iter().position(|word| word.eq_ignore_ascii_case(b"MATCH"));
        let pattern = at.and_then(|at| words.get(at + 1)).map_or(&b"*"[..], Vec::as_slice);
        let head = pattern.strip_suffix(b"*").filter(|head| !head.contains(&b'*'));
        let head = head.expect("masters of a simulation know patterns of a head and a star");
        let found = self.keys.keys().filter(|key| key.starts_with(head));
        let keys = found.cloned().map(Reply::Bulk).collect();
        Reply::Array(vec![Reply::text("0"), Reply::Array(keys)])
    }

    fn flush(&mut self, words: &[Vec<u8>]) -> Reply {
        if words.get(1).is_some_and(|mode| mode != b"ASYNC") {
            return Reply::error(SYNTAX);
        }
        self.keys.clear();
        Reply::ok()
    }
}
