//! One page of keys: what a master holds under them, and what to write to another.

use redis::{RedisResult, Value};

use crate::catalogue::reserved::{MARK, OVER};
use crate::decision::lease::attempt::{Attempt, Stored};
use crate::decision::roster::copying::{Held, KeyContent};
use crate::decision::roster::mark::Mark;
use crate::lua::canonical::Canonical;
use crate::lua::keyspace::on_stamps;
use crate::masters::side_connection::Errand;

/// Maximum length of a string that is read with its page; leases are short.
const LONGEST_TEXT: usize = 1024;

/// A master's content under some keys at one moment.
pub(super) struct Page {
    pub(super) mark: Option<Mark>,
    /// One entry for each key, in the order of the keys.
    pub(super) entries: Vec<Option<Entry>>,
}

/// Attempts that one master knows to be over.
pub(super) struct Notes {
    pub(super) mark: Option<Mark>,
    /// Cursor of the next page; 0 if this is the last.
    pub(super) next: Vec<u8>,
    /// The attempts, each with the milliseconds for which its note is useful.
    pub(super) notes: Vec<(Attempt, i64)>,
}

/// Content of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) found: Found,
    is_text: bool,
    ttl_ms: Option<u64>,
}

/// Keys that a page covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Keys without a stamp.
    Bare,
    /// Keys with a stamp: the page covers the content next to the stamp.
    Stamped,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The key has a stamp, so this page says nothing about it.
    Stamp,
    Text(Vec<u8>),
    /// Digest of a value that is fetched when needed.
    Large(Vec<u8>),
}

impl Entry {
    /// Converts the entry to the form that [`choose`](crate::decision::roster::copying::choose) takes.
    pub(super) fn held(&self) -> Held {
        let content = match &self.found {
            Found::Text(text) => KeyContent::Text(text.clone()),
            Found::Large(digest) if self.is_text => KeyContent::LongText(digest.clone()),
            Found::Large(digest) => KeyContent::Other(digest.clone()),
            Found::Stamp => KeyContent::Other(Vec::new()),
        };
        Held { content, ttl_ms: self.ttl_ms }
    }

    /// Whether the key is a register, which a page of locks says nothing about.
    pub(super) fn is_stamp(&self) -> bool {
        self.found == Found::Stamp
    }

    /// Returns the condition for overwriting this entry: that it is still there.
    pub(super) fn that_it_is(&self) -> Over {
        let attempt = match &self.found {
            Found::Text(text) => Stored::decode(text).tag.map(|tag| tag.attempt),
            Found::Large(_) | Found::Stamp => None,
        };
        attempt.map_or(Over::Something, Over::Attempt)
    }

    /// Whether this entry equals `wanted` and lasts for `ttl_ms`, give or take the time of a read.
    pub(super) fn lasts_as_long(&self, wanted: &Self, ttl_ms: Option<u64>) -> bool {
        let is_long = match (self.ttl_ms, ttl_ms) {
            (None, None) => true,
            (Some(here), Some(wanted)) => here >= wanted,
            _ => false,
        };
        self.found == wanted.found && is_long
    }

    fn read(value: &Value) -> RedisResult<Option<Self>> {
        let words: Vec<Value> = redis::from_redis_value_ref(value)?;
        if words.len() == 1 {
            return Ok(Some(Self { found: Found::Stamp, is_text: false, ttl_ms: None }));
        }
        let [how, what, ttl_ms] = &words[..] else { return Ok(None) };
        let how: String = redis::from_redis_value_ref(how)?;
        let what: Vec<u8> = redis::from_redis_value_ref(what)?;
        let ttl_ms: i64 = redis::from_redis_value_ref(ttl_ms)?;
        let found = if how == "t" { Found::Text(what) } else { Found::Large(what) };
        Ok(Some(Self { found, is_text: how != "o", ttl_ms: u64::try_from(ttl_ms).ok() }))
    }
}

/// Condition on the target's current content before a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Over {
    /// Any content, or none.
    Whatever,
    /// Any content, but not none.
    Something,
    /// The content of this attempt.
    Attempt(Attempt),
}

impl Over {
    fn argument(self) -> Vec<u8> {
        match self {
            Self::Whatever => Vec::new(),
            Self::Something => Vec::from(*b"*"),
            Self::Attempt(attempt) => attempt.to_bytes().to_vec(),
        }
    }
}

/// A write to one key of the target.
pub(super) struct Write<'a> {
    key: &'a [u8],
    over: Over,
    how: &'static str,
    what: Vec<u8>,
    /// Lifetime in milliseconds; -1 means forever.
    ttl_ms: i64,
}

impl<'a> Write<'a> {
    /// Writes a string.
    pub(super) fn text(key: &'a [u8], over: Over, text: Vec<u8>, ttl_ms: Option<u64>) -> Self {
        Self { key, over, how: "t", what: text, ttl_ms: argument(ttl_ms) }
    }

    /// Writes any value, serialized by `DUMP`.
    pub(super) fn dump(key: &'a [u8], over: Over, dump: Vec<u8>, ttl_ms: Option<u64>) -> Self {
        Self { key, over, how: "d", what: dump, ttl_ms: argument(ttl_ms) }
    }

    /// Removes the key if it still holds `here`.
    pub(super) fn remove(key: &'a [u8], here: &Entry) -> Self {
        let (how, what) = match &here.found {
            Found::Text(text) => ("x", text.clone()),
            Found::Large(digest) => ("y", digest.clone()),
            Found::Stamp => ("", Vec::new()),
        };
        Self { key, over: Over::Whatever, how, what, ttl_ms: 0 }
    }
}

fn argument(ttl_ms: Option<u64>) -> i64 {
    ttl_ms.map_or(-1, |ttl_ms| i64::try_from(ttl_ms).unwrap_or(i64::MAX))
}

/// Reads a master's content under `keys` in database `db`.
pub(super) async fn read(
    errand: &Errand,
    db: u32,
    kind: Kind,
    keys: &[Vec<u8>],
) -> RedisResult<Page> {
    let mut eval = script(PAGE, keys);
    eval.arg(db).arg(LONGEST_TEXT).arg(u8::from(kind == Kind::Stamped));
    let values: Vec<Value> = eval.query_async(&mut errand.connection.clone()).await?;
    let Some((mark, entries)) = values.split_first() else { return Err(malformed()) };
    if entries.len() != keys.len() {
        return Err(malformed());
    }
    let entries = entries.iter().map(Entry::read).collect::<RedisResult<_>>()?;
    Ok(Page { mark: read_mark(mark)?, entries })
}

/// Reads the mark and the `DUMP` of each key, empty where there is no key.
pub(super) async fn dumps(
    errand: &Errand,
    db: u32,
    keys: &[Vec<u8>],
) -> RedisResult<(Option<Mark>, Vec<Vec<u8>>)> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(DUMPS).arg(keys.len() + 1).arg(MARK).arg(keys).arg(db);
    let values: Vec<Value> = eval.query_async(&mut errand.connection.clone()).await?;
    let Some((mark, dumps)) = values.split_first() else { return Err(malformed()) };
    let dumps = dumps.iter().map(redis::from_redis_value_ref).collect::<Result<_, _>>()?;
    Ok((read_mark(mark)?, dumps))
}

/// Reads a page of the attempts that a master has noted as over in database `db`, from `cursor`.
pub(super) async fn over(
    errand: &Errand,
    db: u32,
    cursor: &[u8],
    count: usize,
) -> RedisResult<Notes> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(OVER_PAGE).arg(2).arg(MARK).arg(OVER).arg(db).arg(cursor).arg(count);
    let values: Vec<Value> = eval.query_async(&mut errand.connection.clone()).await?;
    let [mark, next, notes @ ..] = &values[..] else { return Err(malformed()) };
    let mut found = Vec::new();
    for note in notes.chunks_exact(2) {
        let attempt: Vec<u8> = redis::from_redis_value_ref(&note[0])?;
        let attempt = Attempt::from_bytes(attempt.try_into().map_err(|_| malformed())?);
        found.push((attempt, redis::from_redis_value_ref(&note[1])?));
    }
    Ok(Notes { mark: read_mark(mark)?, next: redis::from_redis_value_ref(next)?, notes: found })
}

/// Has a master note that these attempts are over, in the connection's selected database.
pub(super) async fn note(errand: &Errand, notes: &[(Attempt, i64)]) -> RedisResult<()> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(Canonical::Note.text()).arg(1).arg(OVER);
    for (attempt, left_ms) in notes {
        eval.arg(&attempt.to_bytes()).arg(left_ms);
    }
    eval.query_async(&mut errand.connection.clone()).await
}

/// Writes to the target if its mark up to the tail is still `mark`. Returns the number of keys changed, or -1 if the
/// mark differs.
pub(super) async fn paste(
    errand: &Errand,
    db: u32,
    mark: &str,
    writes: &[Write<'_>],
) -> RedisResult<i64> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(on_stamps(&[DIGEST, PASTE].concat())).arg(writes.len() + 1).arg(MARK);
    writes.iter().for_each(|write| _ = eval.arg(write.key));
    eval.arg(db).arg(mark);
    for write in writes {
        eval.arg(write.over.argument()).arg(write.how).arg(&write.what).arg(write.ttl_ms);
    }
    eval.query_async(&mut errand.connection.clone()).await
}

/// Reads the next keys of the connection's selected database, and the next cursor.
pub(super) async fn scan(
    errand: &Errand,
    cursor: u64,
    count: usize,
) -> RedisResult<(u64, Vec<Vec<u8>>)> {
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("COUNT").arg(count).query_async(&mut errand.connection.clone()).await
}

/// Reads the mark of each of the first `count` databases, and its number of keys including the proxies' own.
pub(super) async fn databases(
    errand: &Errand,
    count: u32,
) -> RedisResult<Vec<(Option<Mark>, u64)>> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(DATABASES).arg(1).arg(MARK).arg(count);
    let values: Vec<Value> = eval.query_async(&mut errand.connection.clone()).await?;
    let pairs = values.chunks_exact(2);
    pairs.map(|pair| Ok((read_mark(&pair[0])?, redis::from_redis_value_ref(&pair[1])?))).collect()
}

fn script(text: &str, keys: &[Vec<u8>]) -> redis::Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(on_stamps(&[DIGEST, text].concat())).arg(keys.len() + 1).arg(MARK).arg(keys);
    eval
}

pub(super) fn read_mark(value: &Value) -> RedisResult<Option<Mark>> {
    let text: Vec<u8> = redis::from_redis_value_ref(value)?;
    Ok(std::str::from_utf8(&text).ok().and_then(Mark::parse))
}

pub(super) fn malformed() -> redis::RedisError {
    (redis::ErrorKind::UnexpectedReturnType, "not a page of keys").into()
}

const DIGEST: &str = include_str!("../../../lua/program/digest.lua");
const PAGE: &str = include_str!("../../../lua/copy/page.lua");
const DUMPS: &str = include_str!("../../../lua/copy/dumps.lua");
const DATABASES: &str = include_str!("../../../lua/copy/databases.lua");
const OVER_PAGE: &str = include_str!("../../../lua/copy/over.lua");
const PASTE: &str = include_str!("../../../lua/copy/paste.lua");
