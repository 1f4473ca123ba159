//! What one master remembers: strings under keys, some of which end, and the notes that proxies keep.

use std::collections::BTreeMap;

use redlock_proxy::reserved::is_reserved;

use super::resp::Reply;

/// The keys of one master. They end by that master's own wall clock, which every call is told.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    keys: BTreeMap<Vec<u8>, Entry>,
    /// The only sorted set: members and scores.
    notes: BTreeMap<Vec<u8>, i64>,
    /// How often each key was written, whether it is still there or not.
    writes: BTreeMap<Vec<u8>, u64>,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Vec<u8>,
    /// Unix time, by the master's clock.
    ends_ms: Option<i64>,
}

/// What `SET` and `PEXPIRE` were told about time.
enum Ends {
    Keep,
    Never,
    At(i64),
}

const SYNTAX: &str = "ERR syntax error";

impl Keyspace {
    /// Runs a command on keys; `None` when it is none that masters of a simulation know.
    pub fn command(&mut self, now_ms: i64, words: &[Vec<u8>]) -> Option<Reply> {
        let name = words.first()?.to_ascii_uppercase();
        self.end_keys(now_ms);
        let key = words.get(1).map(Vec::as_slice).unwrap_or_default();
        let reply = self.run(now_ms, &name, key, words)?;
        let is_write =
            matches!(&name[..], b"SET" | b"DEL" | b"UNLINK" | b"PEXPIRE" | b"PERSIST" | b"RESTORE");
        if is_write && !matches!(reply, Reply::Nil | Reply::Int(0) | Reply::Error(_)) {
            words[1..].iter().for_each(|key| self.wrote(key));
        }
        Some(reply)
    }

    /// Without the keys of clients.
    pub fn only_the_proxies_own(mut self) -> Self {
        self.keys.retain(|key, _| is_reserved(key));
        self
    }

    /// How often `key` was written: what `WATCH` compares.
    pub fn writes(&self, key: &[u8]) -> u64 {
        self.writes.get(key).copied().unwrap_or_default()
    }

    fn wrote(&mut self, key: &[u8]) {
        *self.writes.entry(key.to_vec()).or_default() += 1;
    }

    fn run(&mut self, now_ms: i64, name: &[u8], key: &[u8], words: &[Vec<u8>]) -> Option<Reply> {
        Some(match name {
            b"GET" => self.keys.get(key).map_or(Reply::Nil, |it| Reply::Bulk(it.value.clone())),
            b"GETRANGE" => {
                let value = self.keys.get(key).map_or(&b""[..], |it| &it.value[..]);
                let at = |word: &[u8]| String::from_utf8_lossy(word).parse().unwrap_or(0usize);
                let last = (at(&words[3]) + 1).min(value.len());
                Reply::Bulk(value[at(&words[2]).min(last)..last].to_vec())
            }
            b"SET" => self.set(now_ms, words),
            b"DEL" | b"UNLINK" => {
                Reply::Int(words[1..].iter().filter(|it| self.delete(it)).count() as i64)
            }
            b"EXISTS" => {
                let there = words[1..].iter().filter(|key| self.keys.contains_key(*key)).count();
                Reply::Int(there as i64)
            }
            b"DBSIZE" => Reply::Int(self.keys.len() as i64),
            b"TYPE" => self.kind(key),
            b"PTTL" => Reply::Int(self.remaining_ms(now_ms, key)),
            b"PEXPIRETIME" => Reply::Int(self.end_ms(key)),
            b"PEXPIRE" => self.expire(now_ms, words),
            b"PERSIST" => self.persist(key),
            b"DUMP" => self.keys.get(key).map_or(Reply::Nil, |it| Reply::Bulk(dump(&it.value))),
            b"RESTORE" => self.restore(now_ms, words),
            b"SCAN" => self.scan(),
            b"FLUSHALL" | b"FLUSHDB" => self.flush(words),
            name if key == b"redlock-proxy:over" => return self.on_notes(name, words),
            _ => return None,
        })
    }

    /// As much of sorted sets as the notes take. There are never too many.
    fn on_notes(&mut self, name: &[u8], words: &[Vec<u8>]) -> Option<Reply> {
        let text = |number: i64| Reply::text(number.to_string());
        Some(match name {
            b"ZADD" => {
                let score = self.notes.entry(words[4].clone()).or_insert(i64::MIN);
                *score = number(&words[3]).expect("a score").max(*score);
                Reply::Int(1)
            }
            b"ZREMRANGEBYSCORE" => {
                let highest = number(&words[3]).expect("a score");
                self.notes.retain(|_, score| *score > highest);
                Reply::Int(0)
            }
            b"ZREMRANGEBYRANK" => Reply::Int(0),
            b"ZRANGE" => {
                let last = self.notes.iter().max_by_key(|(_, score)| **score);
                let last = last.map(|(member, score)| [Reply::Bulk(member.clone()), text(*score)]);
                Reply::Array(last.into_iter().flatten().collect())
            }
            b"PEXPIREAT" => Reply::Int(1),
            b"ZSCAN" => {
                let notes = self.notes.iter();
                let notes = notes.flat_map(|(it, score)| [Reply::Bulk(it.clone()), text(*score)]);
                Reply::Array(vec![text(0), Reply::Array(notes.collect())])
            }
            _ => return None,
        })
    }

    /// Key, value and remaining time of everything that has not ended, but what proxies keep for themselves.
    pub fn all(&mut self, now_ms: i64) -> Vec<(String, String, Option<i64>)> {
        self.end_keys(now_ms);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let show = |(key, it): (&Vec<u8>, &Entry)| {
            (text(key), text(&it.value), it.ends_ms.map(|end| end - now_ms))
        };
        let is_clients = |(key, _): &(&Vec<u8>, &Entry)| !key.starts_with(b"redlock-proxy:");
        self.keys.iter().filter(is_clients).map(show).collect()
    }

    pub fn len(&mut self, now_ms: i64) -> usize {
        self.end_keys(now_ms);
        self.keys.len()
    }

    /// A key is there up to and including its last millisecond (`db.c`, `keyIsExpired`).
    fn end_keys(&mut self, now_ms: i64) {
        self.keys.retain(|_, it| it.ends_ms.is_none_or(|end| now_ms <= end));
    }

    fn delete(&mut self, key: &[u8]) -> bool {
        self.keys.remove(key).is_some()
    }

    fn kind(&self, key: &[u8]) -> Reply {
        let name = if self.keys.contains_key(key) { "string" } else { "none" };
        Reply::Status(name.to_owned())
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

    /// `SET key value [NX] [PX ms | KEEPTTL]`
    fn set(&mut self, now_ms: i64, words: &[Vec<u8>]) -> Reply {
        let [_, key, value, options @ ..] = words else { return Reply::error(SYNTAX) };
        let (mut only_new, mut ends) = (false, Ends::Never);
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match &option.to_ascii_uppercase()[..] {
                b"NX" => only_new = true,
                b"KEEPTTL" => ends = Ends::Keep,
                b"PX" => match options.next().and_then(|ms| number(ms)) {
                    Some(ms) if ms > 0 => ends = Ends::At(now_ms + ms),
                    _ => return Reply::error("ERR invalid expire time in 'set' command"),
                },
                _ => return Reply::error(SYNTAX),
            }
        }
        if only_new && self.keys.contains_key(key) {
            return Reply::Nil;
        }
        let kept = self.keys.get(key).and_then(|it| it.ends_ms);
        let ends_ms = match ends {
            Ends::Keep => kept,
            Ends::Never => None,
            Ends::At(end) => Some(end),
        };
        self.keys.insert(key.clone(), Entry { value: value.clone(), ends_ms });
        Reply::ok()
    }

    /// `PEXPIRE key ms [GT]`
    fn expire(&mut self, now_ms: i64, words: &[Vec<u8>]) -> Reply {
        let [_, key, ms, options @ ..] = words else { return Reply::error(SYNTAX) };
        let Some(ms) = number(ms) else { return Reply::error(SYNTAX) };
        let only_longer = options.iter().any(|option| option.eq_ignore_ascii_case(b"GT"));
        let Some(entry) = self.keys.get_mut(key) else { return Reply::Int(0) };
        let end = now_ms + ms;
        if only_longer && entry.ends_ms.is_none_or(|before| end <= before) {
            return Reply::Int(0);
        }
        entry.ends_ms = Some(end);
        if ms <= 0 {
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
        let (Some(ms), Some(value)) = (number(ms), undump(dumped)) else {
            return Reply::error("ERR DUMP payload version or checksum are wrong");
        };
        if self.keys.contains_key(key) && !has(b"REPLACE") {
            return Reply::error("BUSYKEY Target key name already exists.");
        }
        let start_ms = if has(b"ABSTTL") { 0 } else { now_ms };
        let ends_ms = (ms > 0).then_some(start_ms + ms);
        self.keys.insert(key.clone(), Entry { value, ends_ms });
        Reply::ok()
    }

    /// All in one page, which Redis may do as well.
    fn scan(&self) -> Reply {
        let keys = self.keys.keys().cloned().map(Reply::Bulk).collect();
        Reply::Array(vec![Reply::text("0"), Reply::Array(keys)])
    }

    fn flush(&mut self, words: &[Vec<u8>]) -> Reply {
        if words.get(1).is_some_and(|mode| mode != b"ASYNC") {
            return Reply::error(SYNTAX);
        }
        let keys: Vec<Vec<u8>> = self.keys.keys().cloned().collect();
        keys.iter().for_each(|key| self.wrote(key));
        self.keys.clear();
        self.notes.clear();
        Reply::ok()
    }
}

/// The value behind a byte for its type, then two for the version of the format and eight of checksum, as
/// the proxy knows them.
fn dump(value: &[u8]) -> Vec<u8> {
    let mut dump = vec![0];
    dump.extend_from_slice(value);
    dump.extend_from_slice(&[11, 0]);
    let checksum = sha1_smol::Sha1::from(&dump).digest().bytes();
    dump.extend_from_slice(&checksum[..8]);
    dump
}

fn undump(dumped: &[u8]) -> Option<Vec<u8>> {
    let value = dumped.get(1..dumped.len().checked_sub(10)?)?;
    (dump(value) == dumped).then(|| value.to_vec())
}

fn number(word: &[u8]) -> Option<i64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
