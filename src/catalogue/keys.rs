//! Finds the keys among a command's words.
//!
//! For most commands the table row gives their positions. For the others they follow from a count or a preceding word
//! (`getKeysFromCommand` in Redis's `db.c`).

use super::table::{Family, Spec};
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Returns a command's keys in order, or none if a count does not fit the words after it.
pub fn of<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    checked(spec, args).unwrap_or_default()
}

/// Like [`of`], but returns `None` if a count does not fit.
pub fn checked<'a>(spec: &Spec, args: Args<'a>) -> Option<Vec<&'a [u8]>> {
    let mut keys = fixed(spec, args);
    if spec.has_counted_keys() {
        let at = count_at(spec, !keys.is_empty());
        let least = usize::from(!spec.flags.contains(&"no_mandatory_keys"));
        keys.extend(counted(args, at, least)?);
    } else if matches!(spec.name, "xread" | "xreadgroup") {
        keys.extend(streams(args));
    } else if spec.flags.contains(&"movablekeys") {
        keys.extend(stored(spec, args));
    }
    Some(keys)
}

/// Returns the keys of a command that is not in the table. Commands of Redis have their keys where Redis has them. For
/// any other the key is the first argument, where nearly all modules and later versions have one.
pub fn of_other(args: Args<'_>) -> Vec<&[u8]> {
    let name = args.at(0).to_ascii_lowercase();
    let one = |at: usize| args.get(at).into_iter().collect();
    match &name[..] {
        b"memory" | b"debug" | b"pfdebug" => one(2),
        b"migrate" => migrated(args),
        name if without_keys(name) => Vec::new(),
        _ => one(1),
    }
}

/// Whether this is a command of Redis whose first argument is not a key.
fn without_keys(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 14] = [
        b"bgrewriteaof",
        b"bgsave",
        b"failover",
        b"lastsave",
        b"latency",
        b"lolwut",
        b"module",
        b"pfselftest",
        b"replicaof",
        b"save",
        b"shutdown",
        b"slaveof",
        b"swapdb",
        b"waitaof",
    ];
    NAMES.contains(&name)
}

/// Returns the keys of `XREAD ... STREAMS key... id...`: the first half of the words after `STREAMS`. That word may
/// also be the name of a group, a consumer or a stream (`xreadGetKeys` in `db.c`). If the options are wrong, `STREAMS`
/// is found anywhere, like by Redis's key specifications. The user then first receives the error that the keys are not
/// allowed.
fn streams(args: Args<'_>) -> impl Iterator<Item = &[u8]> {
    let is_streams = |word: &[u8]| is(word, &["streams"]);
    let begins = after_options(args).or_else(|| args.iter().position(is_streams));
    let streams = begins.map_or(args.from(args.len()), |at| args.from(at + 1));
    streams.iter().take(streams.len() / 2)
}

/// Returns the position of `STREAMS`, if all options before it are known.
fn after_options(args: Args<'_>) -> Option<usize> {
    let mut at = 1;
    while !is(args.get(at)?, &["streams"]) {
        at += match args.at(at) {
            word if is(word, &["block", "count"]) => 2,
            word if is(word, &["group"]) => 3,
            word if is(word, &["noack"]) => 1,
            _ => return None,
        };
    }
    Some(at)
}

/// Returns the keys of `MIGRATE host port key ...`, or of the form with an empty key and `KEYS key...` at the end.
fn migrated(args: Args<'_>) -> Vec<&[u8]> {
    match args.get(3) {
        Some(b"") => {
            let begins = args.iter().position(|word| is(word, &["keys"]));
            begins.map_or_else(Vec::new, |at| args.from(at + 1).iter().collect())
        }
        key => key.into_iter().collect(),
    }
}

/// Returns the keys at fixed positions.
fn fixed<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    // A shard channel has the position of a key but is not one (`not_key`).
    let first = usize::try_from(spec.first_key).ok();
    let Some(first) = first.filter(|first| *first > 0 && spec.family != Family::Pubsub) else {
        return Vec::new();
    };
    let last = match usize::try_from(spec.last_key) {
        Ok(last) => last,
        Err(_) => args.len().saturating_sub(usize::from(spec.last_key.unsigned_abs())),
    };
    (first..=last).step_by(spec.step.max(1) as usize).filter_map(|at| args.get(at)).collect()
}

/// Returns the index of the key count: `EVAL script numkeys key...`, `ZUNIONSTORE destination numkeys key...`,
/// `BLMPOP timeout numkeys key...`, and otherwise `LMPOP numkeys key...`.
fn count_at(spec: &Spec, has_destination: bool) -> usize {
    let comes_second =
        has_destination || spec.family == Family::Script || spec.flags.contains(&"blocking");
    if comes_second { 2 } else { 1 }
}

fn counted<'a>(args: Args<'a>, at: usize, least: usize) -> Option<impl Iterator<Item = &'a [u8]>> {
    // Redis stores the number of keys in an `int`.
    let count = usize::try_from(leading_number(args.get(at)?)? as i32).ok()?;
    (least..args.len() - at).contains(&count).then(|| args.iter().skip(at + 1).take(count))
}

/// Parses a number like C's `atoi`, which Redis uses to find keys. The command itself may refuse the same word.
fn leading_number(word: &[u8]) -> Option<i64> {
    let word = word.trim_ascii_start();
    let word = word.strip_prefix(b"+").unwrap_or(word);
    let is_sign = |at: usize| at == 0 && word.first() == Some(&b'-');
    let end = (0..word.len()).find(|at| !word[*at].is_ascii_digit() && !is_sign(*at));
    let number = std::str::from_utf8(&word[..end.unwrap_or(word.len())]).ok()?;
    number.parse().ok()
}

/// Returns the keys in which `SORT`, `GEORADIUS` and `GEORADIUSBYMEMBER` store their result. The last one counts; for
/// the latter two commands Redis checks the others as well.
fn stored<'a>(spec: &Spec, args: Args<'a>) -> Vec<&'a [u8]> {
    let named = |(_, rest): (&'a [u8], Args<'a>)| rest.at(0);
    match spec.name {
        _ if !spec.flags.contains(&"write") => Vec::new(),
        "sort" => {
            let stores = sort_options(args).filter(|(word, _)| is(word, &["store"]));
            stores.map(named).last().into_iter().collect()
        }
        name => {
            let first = if name == "georadius" { 6 } else { 5 };
            let options =
                options(args, first, |word| match is(word, &["store", "storedist", "count"]) {
                    true => 2,
                    false => 1,
                });
            options.filter(|(word, _)| is(word, &["store", "storedist"])).map(named).collect()
        }
    }
}

/// Iterates over the options of `SORT`, each with the words after it.
pub fn sort_options<'a>(args: Args<'a>) -> impl Iterator<Item = (&'a [u8], Args<'a>)> {
    options(args, 2, |word| match word {
        _ if is(word, &["limit"]) => 3,
        _ if is(word, &["by", "get", "store"]) => 2,
        _ => 1,
    })
}

/// Iterates over the options from `at` on, each with the words after it. An option's own arguments are skipped;
/// `width` returns the number of words of an option.
fn options<'a>(
    args: Args<'a>,
    mut at: usize,
    width: impl Fn(&[u8]) -> usize,
) -> impl Iterator<Item = (&'a [u8], Args<'a>)> {
    std::iter::from_fn(move || {
        let (option, rest) = (args.get(at)?, args.from(at + 1));
        at += width(option);
        (!rest.is_empty()).then_some((option, rest))
    })
}

/// Lua table of the masters' errors for calls without keys.
pub const WITHOUT_KEYS: &str = include_str!("without_keys.lua");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::table;
    use crate::resp::requests::{Decoder, Limits};

    #[track_caller]
    fn assert_keys(line: &str, expected: &[&str]) {
        let (mut decoder, buf) = (Decoder::new(), format!("{line}\n"));
        let limits = Limits { max_request_bytes: 1000, authenticated: true, may_pass: false };
        decoder.decode(buf.as_bytes(), limits).expect("valid").expect("complete");
        let args = decoder.args(buf.as_bytes());
        let spec = table::lookup(args.at(0)).expect("in the table");
        let found: Vec<_> = of(spec, args).into_iter().map(String::from_utf8_lossy).collect();
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn keys_follow_a_count_where_there_is_one() {
        assert_keys("eval text 2 a b c", &["a", "b"]);
        assert_keys("zunionstore to 2 a b weights 1 2", &["to", "a", "b"]);
        assert_keys("blmpop 0 2 a b left", &["a", "b"]);
        assert_keys("lmpop 3 a b", &[]);
        assert_keys("mset a 1 b 2", &["a", "b"]);
        assert_keys("spublish channel message", &[]);
    }

    #[test]
    fn streams_are_the_first_half_of_what_follows_that_word() {
        assert_keys("xread count 1 block 0 streams a b 0 $", &["a", "b"]);
        assert_keys("xreadgroup group streams streams noack streams streams >", &["streams"]);
        assert_keys("xread streams a b 0", &["a"]);
        assert_keys("xread nonsense streams a 0", &["a"]);
        assert_keys("xread count streams a", &[]);
    }

    /// Keys may have the name of an option.
    #[test]
    fn the_key_that_is_stored_into_is_told_from_other_words() {
        assert_keys("sort k by store store to asc", &["k", "to"]);
        assert_keys("sort k store to by store asc", &["k", "to"]);
        assert_keys("sort k store store asc", &["k", "store"]);
        assert_keys("sort k store one store two", &["k", "two"]);
        assert_keys("sort_ro k by store asc", &["k"]);
        assert_keys("georadius k 1 1 1 m store store asc", &["k", "store"]);
        assert_keys("georadius k 1 1 1 m count 3 storedist to", &["k", "to"]);
        assert_keys(
            "georadius k 1 1 1 m store one storedist two store three",
            &["k", "one", "two", "three"],
        );
        assert_keys("georadius_ro k 1 1 1 m asc", &["k"]);
    }
}
