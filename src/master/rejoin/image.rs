//! What a master holds under a key, and how another one gets it.

use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};

/// The digest of a value, which is the same on every master, and its remaining TTL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Empty when there is no such key.
    pub(super) digest: Vec<u8>,
    /// -1: for ever.
    pub(super) ttl_ms: i64,
}

impl State {
    pub(super) fn is_missing(&self) -> bool {
        self.digest.is_empty()
    }
}

/// All that there is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) state: State,
    is_string: bool,
    dump: Vec<u8>,
}

impl Image {
    fn read(words: &[Value]) -> RedisResult<Option<Self>> {
        let [digest, ttl_ms, kind, dump] = words else { return Ok(None) };
        let state = State {
            digest: redis::from_redis_value_ref(digest)?,
            ttl_ms: redis::from_redis_value_ref(ttl_ms)?,
        };
        let kind: String = redis::from_redis_value_ref(kind)?;
        let dump = redis::from_redis_value_ref(dump)?;
        Ok(Some(Self { state, is_string: kind == "string", dump }))
    }
}

/// What a master should hold where others hold `images`: `None` when they have to agree first.
///
/// Of different strings the one that most hold, or else the one that lasts longest: whatever it is, it has to
/// keep others out for as long as any of them lasts. A hash or a set may have parts that belong to different
/// holders, and no choice between two would be safe.
pub(super) fn choose(images: Vec<Image>) -> Option<Image> {
    let lasts = |ttl_ms: i64| if ttl_ms < 0 { i64::MAX } else { ttl_ms };
    let holders = |image: &Image| {
        images.iter().filter(|other| other.state.digest == image.state.digest).count()
    };
    let longest = images.iter().map(|image| lasts(image.state.ttl_ms)).max()?;
    let first = images.first()?;
    let agree = holders(first) == images.len();
    if !agree && !images.iter().all(|image| image.is_string) {
        return None;
    }
    let best = images.iter().max_by_key(|image| (holders(image), lasts(image.state.ttl_ms)))?;
    let ttl_ms = if longest == i64::MAX { -1 } else { longest };
    let state = State { ttl_ms, ..best.state.clone() };
    Some(Image { state, ..best.clone() })
}

/// The databases that hold anything.
pub(super) async fn databases(connection: &mut MultiplexedConnection) -> RedisResult<Vec<u32>> {
    let info: String = redis::cmd("INFO").arg("keyspace").query_async(connection).await?;
    let number = |line: &str| line.strip_prefix("db")?.split(':').next()?.parse().ok();
    Ok(info.lines().filter_map(number).collect())
}

/// The states of `keys`, in their order.
pub(super) async fn states(
    connection: &mut MultiplexedConnection,
    keys: &[Vec<u8>],
) -> RedisResult<Vec<State>> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(STATE.as_str()).arg(keys.len()).arg(keys);
    let words: Vec<Value> = eval.query_async(connection).await?;
    words
        .chunks_exact(2)
        .map(|pair| {
            let digest = redis::from_redis_value_ref(&pair[0])?;
            Ok(State { digest, ttl_ms: redis::from_redis_value_ref(&pair[1])? })
        })
        .collect()
}

/// What is under each of `keys`, if anything.
pub(super) async fn images(
    connection: &mut MultiplexedConnection,
    keys: &[&[u8]],
) -> RedisResult<Vec<Option<Image>>> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(IMAGE.as_str()).arg(keys.len()).arg(keys);
    let found: Vec<Vec<Value>> = eval.query_async(connection).await?;
    found.iter().map(|words| Image::read(words)).collect()
}

/// What a key should hold.
pub(super) struct Wish<'a> {
    pub(super) key: &'a [u8],
    /// What it held when it was last seen.
    pub(super) ours: &'a State,
    pub(super) wanted: &'a Image,
}

/// Gives each key what is wanted, if it holds that or still is as it was; says which of them.
pub(super) async fn adopt(
    connection: &mut MultiplexedConnection,
    wishes: &[Wish<'_>],
) -> RedisResult<Vec<bool>> {
    if wishes.is_empty() {
        return Ok(Vec::new());
    }
    let mut eval = redis::cmd("EVAL");
    eval.arg(ADOPT.as_str()).arg(wishes.len());
    wishes.iter().for_each(|wish| _ = eval.arg(wish.key));
    for Wish { ours, wanted, .. } in wishes {
        eval.arg(&ours.digest).arg(&wanted.dump);
        eval.arg(&wanted.state.digest).arg(wanted.state.ttl_ms);
    }
    eval.query_async(connection).await
}

/// Deletes `key` if it still holds what has this digest.
pub(super) async fn forget(
    connection: &mut MultiplexedConnection,
    key: &[u8],
    digest: &[u8],
) -> RedisResult<()> {
    let mut eval = redis::cmd("EVAL");
    eval.arg(FORGET.as_str()).arg(1).arg(key).arg(digest).query_async(connection).await
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

#[cfg(test)]
mod tests {
    use super::*;

    fn image(digest: &str, ttl_ms: i64, is_string: bool) -> Image {
        Image { state: State { digest: digest.into(), ttl_ms }, is_string, dump: digest.into() }
    }

    fn chosen(images: &[(&str, i64, bool)]) -> Option<(String, i64)> {
        let images = images.iter().map(|(digest, ttl, string)| image(digest, *ttl, *string));
        let chosen = choose(images.collect())?;
        Some((String::from_utf8(chosen.dump).expect("text"), chosen.state.ttl_ms))
    }

    #[test]
    fn a_lock_is_copied_with_the_longest_time_that_any_master_keeps_it() {
        let same = [("a", 500, true), ("a", 900, true)];
        assert_eq!(chosen(&same), Some(("a".to_owned(), 900)));
        assert_eq!(chosen(&[("a", 500, true), ("a", -1, true)]), Some(("a".to_owned(), -1)));
    }

    #[test]
    fn of_different_strings_one_is_kept_for_as_long_as_any() {
        let different = [("a", 900, true), ("b", 500, true), ("b", 400, true)];
        assert_eq!(chosen(&different), Some(("b".to_owned(), 900)));
        assert_eq!(chosen(&different[..2]), Some(("a".to_owned(), 900)));
    }

    #[test]
    fn masters_have_to_agree_on_a_hash() {
        assert_eq!(chosen(&[("a", 900, false), ("b", 500, false)]), None);
        assert_eq!(chosen(&[("a", 900, false), ("a", 500, false)]), Some(("a".to_owned(), 900)));
        assert_eq!(chosen(&[("a", 900, false)]), Some(("a".to_owned(), 900)));
    }
}
