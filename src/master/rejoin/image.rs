//! What a master holds under a key, and how another one gets it.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, Value};

/// What is under a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The same for the same content on every master; empty when there is no such key.
    pub(super) digest: Vec<u8>,
    /// -1: for ever.
    pub(super) ttl_ms: i64,
    /// Unix time by the master's clock, which stays the same while time goes by. -1: never.
    pub(super) ends_at_ms: i64,
    pub(super) is_string: bool,
}

impl State {
    fn read(words: &[Value]) -> RedisResult<Self> {
        let [digest, ttl_ms, ends_at_ms, is_string] = words else {
            return Err((ErrorKind::UnexpectedReturnType, "not the state of a key").into());
        };
        Ok(Self {
            digest: redis::from_redis_value_ref(digest)?,
            ttl_ms: redis::from_redis_value_ref(ttl_ms)?,
            ends_at_ms: redis::from_redis_value_ref(ends_at_ms)?,
            is_string: redis::from_redis_value_ref(is_string)?,
        })
    }

    pub(super) fn is_missing(&self) -> bool {
        self.digest.is_empty()
    }
}

/// What a key should hold.
pub(super) struct Wish<'a> {
    pub(super) key: &'a [u8],
    /// What it held when it was last seen.
    pub(super) ours: State,
    pub(super) digest: Vec<u8>,
    pub(super) dump: Vec<u8>,
    /// For so long; -1: for ever.
    pub(super) ttl_ms: i64,
}

/// The databases that hold anything.
pub(super) async fn databases(connection: &mut MultiplexedConnection) -> RedisResult<Vec<u32>> {
    let info: String = redis::cmd("INFO").arg("keyspace").query_async(connection).await?;
    let number = |line: &str| line.strip_prefix("db")?.split(':').next()?.parse().ok();
    Ok(info.lines().filter_map(number).collect())
}

/// The states of `keys`, in their order.
pub(super) async fn states(
    mut connection: MultiplexedConnection,
    keys: &[Vec<u8>],
) -> RedisResult<Vec<State>> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(STATE.as_str()).arg(keys.len()).arg(keys);
    let states: Vec<Vec<Value>> = eval.query_async(&mut connection).await?;
    states.iter().map(|words| State::read(words)).collect()
}

/// Digest and `DUMP` of what is under each of `keys`, if anything.
pub(super) async fn dumps(
    connection: &mut MultiplexedConnection,
    keys: &[Vec<u8>],
) -> RedisResult<Vec<Option<(Vec<u8>, Vec<u8>)>>> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(IMAGE.as_str()).arg(keys.len()).arg(keys);
    let found: Vec<Vec<Vec<u8>>> = eval.query_async(connection).await?;
    let pair = |words: Vec<Vec<u8>>| <[Vec<u8>; 2]>::try_from(words).ok().map(Into::into);
    Ok(found.into_iter().map(pair).collect())
}

/// Gives each key what is wished, if it still is as it was; says which of them.
pub(super) async fn adopt(
    connection: &mut MultiplexedConnection,
    wishes: &[Wish<'_>],
) -> RedisResult<Vec<bool>> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(ADOPT.as_str()).arg(wishes.len());
    wishes.iter().for_each(|wish| _ = eval.arg(wish.key));
    for Wish { ours, dump, ttl_ms, .. } in wishes {
        eval.arg(&ours.digest).arg(ours.ends_at_ms).arg(dump).arg(ttl_ms);
    }
    eval.query_async(connection).await
}

/// Deletes `key` if it still holds what it did, until the same moment.
pub(super) async fn forget(
    connection: &mut MultiplexedConnection,
    key: &[u8],
    ours: &State,
) -> RedisResult<()> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(FORGET.as_str()).arg(1).arg(key).arg(&ours.digest).arg(ours.ends_at_ms);
    eval.query_async(connection).await
}

const DIGEST: &str = include_str!("../../lua/program/digest.lua");
static STATE: LazyLock<String> =
    LazyLock::new(|| [DIGEST, include_str!("../../lua/rejoin/state.lua")].concat());
static IMAGE: LazyLock<String> =
    LazyLock::new(|| [DIGEST, include_str!("../../lua/rejoin/image.lua")].concat());
static FORGET: LazyLock<String> =
    LazyLock::new(|| [DIGEST, include_str!("../../lua/rejoin/forget.lua")].concat());
static ADOPT: LazyLock<String> =
    LazyLock::new(|| [DIGEST, include_str!("../../lua/rejoin/adopt.lua")].concat());
