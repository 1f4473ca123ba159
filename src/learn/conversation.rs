//! One client's requests, one by one: its library, its database, and its use of keys.

use std::collections::VecDeque;

use super::observer::{Observer, Who};
use crate::command::outlook;
use crate::names::Name;
use crate::names::kind::LockSign;
use crate::resp::number::parse_i64;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Maximum keys remembered of a client's `WATCH`, `SETNX` and transaction.
const REMEMBERED: usize = 64;

/// Maximum length of a shown command, library or client name, in bytes.
const LONGEST_WORD: usize = 64;

/// Shown for a client that does not identify itself.
const NOBODY: &str = "does not say";

/// One client. Replies are not read: a `SELECT` counts even if it was refused.
#[derive(Debug, Default)]
pub struct Conversation {
    db: u32,
    library: Option<Box<str>>,
    version: Option<Box<str>>,
    name: Option<Box<str>>,
    /// Transaction since `MULTI`.
    transaction: Option<Transaction>,
    watched: Vec<Name>,
    /// Watched keys that were read since.
    looked_at: Vec<Name>,
    /// Keys lately taken with `SETNX`, the oldest first.
    taken: VecDeque<Name>,
}

#[derive(Debug, Default)]
struct Transaction {
    names: Vec<Name>,
    deleted: Vec<Name>,
    db: Option<u32>,
}

impl Conversation {
    /// Returns the conversation of a client that starts in this database.
    pub fn new(db: u32) -> Self {
        Self { db, ..Self::default() }
    }

    /// Takes the next request, in the words that [`Requests`](super::requests::Requests) has kept.
    pub fn hear(&mut self, args: Args<'_>, all: &mut Observer) {
        all.totals.requests += 1;
        let Some(name) = args.get(0) else { return };
        let command = shown(name).to_ascii_uppercase();
        self.about_itself(&command, args);
        let (keys, channels) = (outlook::keys(args), outlook::channels(args));
        self.count(&command, args, &keys, all);
        for channel in &channels {
            self.channel(channel, &command, all);
        }
        match &command[..] {
            "SET" => self.set(args, all),
            "SETNX" => self.setnx(&keys, all),
            "GETSET" => self.getset(&keys, all),
            "EXPIRE" | "PEXPIRE" | "EXPIREAT" | "PEXPIREAT" => {
                self.after_setnx(&keys, LockSign::SetNxExpire, all);
            }
            "DEL" | "UNLINK" => self.delete(&keys, all),
            "DELEX" | "DELIFEQ" if args.len() > 2 => {
                self.found(&keys, LockSign::DeleteIfEqual, all)
            }
            "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" => {
                self.script(&command, args, &keys, all)
            }
            "SCRIPT" if says(args, 1, "load") => {
                args.get(2).map(|text| all.scripts.text(text));
            }
            "KEYS" => args.get(1).into_iter().for_each(|pattern| all.search(pattern)),
            "SCAN" => option(args, "match").into_iter().for_each(|pattern| all.search(pattern)),
            "WATCH" => remember(&mut self.watched, &keys),
            "UNWATCH" => self.forget_watched(),
            "MULTI" => self.transaction = Some(Transaction::default()),
            "DISCARD" => {
                self.transaction = None;
                self.forget_watched();
            }
            "EXEC" => self.exec(all),
            _ => (),
        }
        if self.transaction.is_none() && !matches!(&command[..], "WATCH" | "DEL" | "UNLINK") {
            let looked = keys.iter().filter(|key| self.watched.iter().any(|it| **it == ***key));
            let looked: Vec<_> = looked.copied().collect();
            remember(&mut self.looked_at, &looked);
        }
    }

    fn who(&self) -> Who<'_> {
        let name = self.library.as_deref().or(self.name.as_deref());
        Who { library: name.unwrap_or(NOBODY), db: self.db }
    }

    /// Handles `CLIENT SETINFO`, `CLIENT SETNAME`, `HELLO ... SETNAME`, `SELECT` and `RESET`.
    fn about_itself(&mut self, command: &str, args: Args<'_>) {
        let word = |at: usize| args.get(at).map(shown);
        match command {
            "CLIENT" if says(args, 1, "setname") => self.name = word(2).filter(|it| !it.is_empty()),
            "CLIENT" if says(args, 1, "setinfo") => {
                let (lib, version) = (says(args, 2, "lib-name"), says(args, 2, "lib-ver"));
                if lib {
                    self.library = word(3).map(|name| self.with_version(&name));
                } else if version {
                    self.version = word(3);
                    self.library = self.library.take().map(|name| self.with_version(&name));
                }
            }
            "HELLO" => {
                if let Some(name) = option(args, "setname") {
                    self.name = Some(shown(name));
                }
            }
            "SELECT" => {
                let number = args.get(1).and_then(parse_i64);
                if let Some(db) = number.and_then(|number| u32::try_from(number).ok()) {
                    match &mut self.transaction {
                        Some(transaction) => transaction.db = Some(db),
                        None => self.db = db,
                    }
                }
            }
            "RESET" => {
                let (library, version) = (self.library.take(), self.version.take());
                *self = Self { library, version, ..Self::default() };
            }
            _ => (),
        }
    }

    fn with_version(&self, name: &str) -> Box<str> {
        let name = name.split(' ').next().unwrap_or_default();
        match &self.version {
            Some(version) => format!("{name} {version}").into(),
            None => name.into(),
        }
    }

    fn count(&mut self, command: &str, args: Args<'_>, keys: &[&[u8]], all: &mut Observer) {
        let stores = match command {
            "SET" => !is_claim(args),
            // That depends on the script.
            "EVAL" | "EVALSHA" => false,
            _ => outlook::stores(command.as_bytes()),
        };
        for key in keys {
            if let Some(usage) = all.key(key, command, args) {
                usage.is_stored |= stores;
            }
            self.redisson(key, all);
        }
        if let Some(transaction) = &mut self.transaction {
            remember(&mut transaction.names, keys);
        }
        let is_script = command.starts_with("EVAL");
        if keys.len() > 1 && command != "WATCH" {
            all.together(if is_script { "EVAL" } else { command }, keys, is_script);
        }
    }

    fn channel(&self, channel: &[u8], command: &str, all: &mut Observer) {
        all.channel(channel, command);
        self.redisson(channel, all);
    }

    /// Records the lock that a name of Redisson's belongs to.
    fn redisson(&self, name: &[u8], all: &mut Observer) {
        if let Some(lock) = redisson_lock(name) {
            all.lock(lock, LockSign::Redisson, self.who());
        }
    }

    fn found(&self, keys: &[&[u8]], kind: LockSign, all: &mut Observer) {
        for key in keys {
            all.lock(key, kind, self.who());
        }
    }

    fn set(&self, args: Args<'_>, all: &mut Observer) {
        let Some(key) = args.get(1).filter(|_| is_claim(args)) else { return };
        let has_ttl = ["ex", "px", "exat", "pxat"].iter().any(|name| has_option(args, name));
        let kind = if has_ttl { LockSign::Claim } else { LockSign::ClaimForGood };
        all.lock(key, kind, self.who());
    }

    fn setnx(&mut self, keys: &[&[u8]], all: &mut Observer) {
        for key in keys {
            if all.keys.get(key).is_some_and(|usage| usage.has_seen("GETSET")) {
                all.lock(key, LockSign::GetSet, self.who());
            }
            self.taken.retain(|it| **it != **key);
            self.taken.push_back(Name::from(*key));
        }
        if self.taken.len() > REMEMBERED {
            self.taken.pop_front();
        }
    }

    fn getset(&self, keys: &[&[u8]], all: &mut Observer) {
        for key in keys {
            if all.keys.get(key).is_some_and(|usage| usage.has_seen("SETNX")) {
                all.lock(key, LockSign::GetSet, self.who());
            }
        }
    }

    fn after_setnx(&mut self, keys: &[&[u8]], kind: LockSign, all: &mut Observer) {
        let taken = keys.iter().filter(|key| self.taken.iter().any(|it| **it == ***key)).copied();
        let taken: Vec<_> = taken.collect();
        self.found(&taken, kind, all);
        if kind == LockSign::SetNxDel {
            self.taken.retain(|it| !taken.contains(&&**it));
        }
    }

    fn delete(&mut self, keys: &[&[u8]], all: &mut Observer) {
        self.after_setnx(keys, LockSign::SetNxDel, all);
        if let Some(transaction) = &mut self.transaction {
            remember(&mut transaction.deleted, keys);
        }
    }

    fn script(&mut self, command: &str, args: Args<'_>, keys: &[&[u8]], all: &mut Observer) {
        let Some(word) = args.get(1) else { return };
        let is_text = matches!(command, "EVAL" | "EVAL_RO");
        let meaning = if is_text { all.scripts.text(word) } else { all.scripts.sha(word) };
        if keys.is_empty() && meaning.calls_something {
            all.without_keys(&meaning.title);
        }
        for (at, key) in keys.iter().enumerate() {
            let kind = meaning.kind.filter(|_| at == 0 || meaning.is_of_all_keys);
            if let Some(kind) = kind {
                all.lock(key, kind, self.who());
            }
            if let Some(usage) = all.used(key) {
                usage.scripts.add(&meaning.title.as_str().into(), 1);
                usage.is_stored |= kind.is_none() && meaning.stores && !command.ends_with("_RO");
            }
        }
    }

    /// Recognises the release by libraries without scripts: the key is deleted if it still holds the value that was
    /// read.
    fn exec(&mut self, all: &mut Observer) {
        let transaction = self.transaction.take().unwrap_or_default();
        let is_release = |key: &&Name| self.looked_at.contains(key) && self.watched.contains(key);
        for key in transaction.deleted.iter().filter(is_release) {
            all.lock(key, LockSign::Watch, self.who());
        }
        let names = transaction.names.iter().chain(&self.watched);
        let names: Vec<&[u8]> = names.map(|name| &**name).collect();
        all.together("EXEC", &names, false);
        self.db = transaction.db.unwrap_or(self.db);
        self.forget_watched();
    }

    fn forget_watched(&mut self) {
        (self.watched, self.looked_at) = (Vec::new(), Vec::new());
    }
}

fn remember(names: &mut Vec<Name>, more: &[&[u8]]) {
    for name in more {
        if names.len() < REMEMBERED && !names.iter().any(|it| **it == **name) {
            names.push(Name::from(*name));
        }
    }
}

/// Returns the lock in the name of a Redisson channel or queue: `redisson_lock__channel:{name}`. A name that contains
/// braces itself has no braces around it (`RedissonObject.prefixName`).
fn redisson_lock(name: &[u8]) -> Option<&[u8]> {
    let begins = |prefix: &&&str| name.starts_with(prefix.as_bytes());
    REDISSON.iter().find(begins)?;
    let at = name.iter().position(|byte| *byte == b':')?;
    let rest = &name[at + 1..];
    let lock = match rest.strip_prefix(b"{") {
        Some(inner) => match inner.iter().position(|byte| *byte == b'}') {
            // Anything after that belongs to the queue or latch.
            Some(end) if end + 1 == inner.len() || inner[end + 1] == b':' => &inner[..end],
            _ => rest,
        },
        None => rest,
    };
    Some(lock).filter(|lock| !lock.is_empty())
}

/// Prefixes of such names (`RedissonLock`, `RedissonFairLock`, `RedissonReadLock`, `RedissonSpinLock`).
const REDISSON: [&str; 3] = ["redisson_lock", "redisson_unlock_latch", "redisson_rwlock"];

fn is_claim(args: Args<'_>) -> bool {
    has_option(args, "nx")
}

/// Whether a `SET` has this option.
fn has_option(args: Args<'_>, name: &str) -> bool {
    args.from(3).iter().any(|word| is(word, &[name]))
}

/// Returns the word after this option.
fn option<'a>(args: Args<'a>, name: &str) -> Option<&'a [u8]> {
    let at = args.iter().position(|word| is(word, &[name]))?;
    args.get(at + 1)
}

/// Whether the word at this position is `name`.
fn says(args: Args<'_>, at: usize, name: &str) -> bool {
    args.get(at).is_some_and(|word| is(word, &[name]))
}

/// Makes a client's word printable.
fn shown(word: &[u8]) -> Box<str> {
    let word = &word[..word.len().min(LONGEST_WORD)];
    word.escape_ascii().to_string().into()
}
