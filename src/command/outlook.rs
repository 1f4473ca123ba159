//! The names in a request, and the result that it would have if its keys were locks. Used by `learn`, which only
//! observes.

use super::accepted_by_anybody;
use super::route::destination::NOBODYS;
use crate::catalogue::table::{self, Command, Family};
use crate::catalogue::{keys, words};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Returns the keys of a request by the command table, or for a command that is not in it, its keys in Redis.
pub fn keys(args: Args<'_>) -> Vec<&[u8]> {
    let Some(name) = args.get(0) else { return Vec::new() };
    match table::lookup(name) {
        Some(spec) if spec.accepts(args.len()) => keys::of(spec, args),
        Some(_) => Vec::new(),
        None if is(name, &NOBODYS) || table::is_http(name) => Vec::new(),
        None => keys::of_other(args),
    }
}

/// Returns the channels of a request, excluding patterns.
pub fn channels(args: Args<'_>) -> Vec<&[u8]> {
    let spec = args.get(0).and_then(table::lookup);
    let named = spec.filter(|spec| spec.id != Command::Psubscribe && spec.accepts(args.len()));
    named.map(|spec| words::channels(spec, args).collect()).unwrap_or_default()
}

/// Returns the error with which masters would refuse a request whose keys are all locks, as a client would see it.
pub fn refusal(args: Args<'_>) -> Option<String> {
    let name = args.get(0)?;
    if table::lookup(name).is_some_and(|spec| !spec.accepts(args.len())) || table::is_http(name) {
        return None;
    }
    match accepted_by_anybody(args).err()?? {
        Reply::Error(why) => Some(why.into_owned()),
        _ => None,
    }
}

/// Whether a command may store something other than a lock in its keys, judging by its name. Commands that delete, and
/// those for times to live, are used on locks and data alike.
pub fn stores(name: &[u8]) -> bool {
    let Some(spec) = table::lookup(name) else { return !only_reads(name) };
    match spec.id {
        Command::Del | Command::Unlink | Command::DelEx | Command::DelIfEq | Command::GetDel => {
            false
        }
        Command::Eval | Command::EvalSha | Command::Fcall => true,
        _ => spec.family != Family::Expiry && spec.flags.contains(&"write"),
    }
}

/// Whether a command of Redis that the proxy does not answer is known to change nothing.
fn only_reads(name: &[u8]) -> bool {
    let reads = |(other, words): &(&str, &str)| {
        is(name, &[other]) && words.split(' ').any(|word| word == "read")
    };
    is(name, &["memory", "debug"]) || table::others().iter().any(reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::requests::Words;

    fn words(line: &str) -> Words {
        let mut words = Words::default();
        for word in line.split(' ') {
            words.begin();
            words.extend(word.as_bytes());
        }
        words
    }

    #[test]
    fn the_keys_are_those_of_the_proxy_or_of_redis() {
        let found = |line: &str| {
            let words = words(line);
            let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
            keys(words.args()).into_iter().map(text).collect::<Vec<_>>().join(" ")
        };
        for (line, expected) in [
            ("set a 1 nx", "a"),
            ("eval x 2 a b c", "a b"),
            ("spop a", "a"),
            ("xread streams a 0", "a"),
            ("replconf ack 1", ""),
            ("get", ""),
            ("config get a", ""),
            ("subscribe a", ""),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
        let subscribed = words("subscribe a b");
        assert_eq!(channels(subscribed.args()), [b"a", b"b"]);
        assert!(channels(words("psubscribe a*").args()).is_empty());
    }

    #[test]
    fn what_masters_refuse_is_said_in_the_words_of_the_proxy() {
        let why = |line: &str| refusal(words(line).args());
        assert_eq!(why("set a 1 nx px 1"), None);
        assert_eq!(why("get"), None, "Redis refuses that as well");
        assert!(why("move lock:s 1").is_some_and(|why| why.to_lowercase().contains("move")));
        assert!(why("object nonsense a").is_some());
        assert!(why("get redlock-proxy:mark").is_some());
    }

    #[test]
    fn only_what_stores_makes_data_of_a_key() {
        for name in ["set", "HSET", "lpush", "json.set", "eval", "spop", "setnx"] {
            assert!(stores(name.as_bytes()), "{name}");
        }
        for name in ["get", "DEL", "expire", "ttl", "watch", "srandmember", "memory", "eval_ro"] {
            assert!(!stores(name.as_bytes()), "{name}");
        }
    }
}
