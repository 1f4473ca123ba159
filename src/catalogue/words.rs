//! Words that no request may contain. A request with one is refused before anything else.
//!
//! * Names that [only the proxy](super::reserved) may use on the masters.
//! * Names of channels that are too long.
//! * Options with a zero byte. Redis compares options with C string functions (`strcasecmp`) and takes `GET\0` for
//!   `GET`. A client could thus name keys and times by options that the proxy does not see. Nobody needs that, so such
//!   words are a syntax error.

use super::channel::LONGEST_NAME;
use super::reserved::{PREFIX, is_reserved};
use super::table::{self, Command, Family, Spec};
use super::{error, keys};
use crate::resp::reply::Reply;
use crate::resp::requests::Args;
use crate::resp::word::is;

/// Commands whose options select keys or lifetimes, each with the index of its first possible option.
pub const FIRST_OPTIONS: [(&str, usize); 11] = [
    ("set", 3),
    ("getex", 2),
    ("restore", 4),
    ("restore-asking", 4),
    ("copy", 3),
    ("sort", 2),
    ("sort_ro", 2),
    ("georadius", 6),
    ("georadiusbymember", 5),
    ("xread", 1),
    ("xreadgroup", 1),
];

/// Length of the shortest option.
const SHORTEST_OPTION: usize = 2;

/// The options concerned, in upper case.
pub const OPTIONS: [&str; 24] = [
    "ABSTTL",
    "BLOCK",
    "BY",
    "COUNT",
    "DB",
    "EX",
    "EXAT",
    "FREQ",
    "GET",
    "GROUP",
    "IDLETIME",
    "IFEQ",
    "IFNE",
    "KEEPTTL",
    "LIMIT",
    "NOACK",
    "NX",
    "PERSIST",
    "PX",
    "PXAT",
    "STORE",
    "STOREDIST",
    "STREAMS",
    "XX",
];

/// Refuses a request that contains such a word.
///
/// # Errors
/// Returns the error for the client.
#[inline]
pub fn check(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    check_options(spec, args)?;
    if spec.family == Family::Pubsub && channels(spec, args).any(is_too_long) {
        return Err(error::LONG_CHANNEL);
    }
    // Values may be anything. Few requests contain a word that could be such a name at all.
    if args.iter().any(is_reserved) { check_names(spec, args) } else { Ok(()) }
}

/// Refuses reserved names in a request to the data Redis, where none exist. A client that wrote one there could make
/// it look like a master.
///
/// # Errors
/// Returns the error for the client.
#[inline]
pub fn check_elsewhere(args: Args<'_>) -> Result<(), Reply> {
    if !args.iter().any(is_reserved) {
        return Ok(());
    }
    match table::lookup(args.at(0)) {
        Some(spec) => check_names(spec, args),
        None if keys::of_other(args).into_iter().any(is_reserved) => Err(error::RESERVED_NAME),
        None => Ok(()),
    }
}

fn is_too_long(channel: &[u8]) -> bool {
    channel.len() > LONGEST_NAME
}

/// Refuses an option with a zero byte.
#[inline]
fn check_options(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let first = match spec.id {
        Command::Set => 3,
        Command::GetEx => 2,
        Command::Data => match FIRST_OPTIONS.iter().find(|(name, _)| *name == spec.name) {
            Some((_, first)) => *first,
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    if args.from(first).iter().any(is_cut_option) { Err(error::SYNTAX) } else { Ok(()) }
}

#[inline]
fn is_cut_option(word: &[u8]) -> bool {
    // No option is shorter, and none begins with a digit.
    let may_be = word.len() > SHORTEST_OPTION && !word[0].is_ascii_digit();
    may_be && word.contains(&0) && is_option_before_zero(word)
}

#[cold]
fn is_option_before_zero(word: &[u8]) -> bool {
    let option = word.iter().position(|byte| *byte == 0).map(|zero| &word[..zero]);
    option.is_some_and(|option| is(option, &OPTIONS))
}

#[cold]
fn check_names(spec: &Spec, args: Args<'_>) -> Result<(), Reply> {
    let keys = keys::of(spec, args).into_iter();
    let is_ours = keys.chain(channels(spec, args)).chain(patterns(spec, args)).any(is_reserved);
    if is_ours { Err(error::RESERVED_NAME) } else { Ok(()) }
}

/// Iterates over the words that are channels, or patterns for channels.
pub fn channels<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    use Command as C;
    let (first, count) = match spec.id {
        C::Subscribe | C::Psubscribe | C::Ssubscribe => (1, usize::MAX),
        C::Publish | C::Spublish => (1, 1),
        _ => (0, 0),
    };
    args.from(first).iter().take(count)
}

/// Whether an element being sorted by `SORT` could complete a pattern to one of the proxy's names.
pub fn may_be_completed(spec: &Spec, args: Args<'_>) -> bool {
    patterns(spec, args).any(|pattern| {
        let head = pattern.split(|byte| *byte == b'*').next().unwrap_or_default();
        head.len() < pattern.len() && PREFIX.as_bytes().starts_with(head)
    })
}

/// Whether the command looks up keys that are named only by patterns.
pub fn has_patterns(spec: &Spec, args: Args<'_>) -> bool {
    patterns(spec, args).next().is_some()
}

/// Iterates over the key patterns that `SORT` looks up.
fn patterns<'a>(spec: &Spec, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
    let sorts = matches!(spec.name, "sort" | "sort_ro");
    let options = sorts.then(|| keys::sort_options(args)).into_iter().flatten();
    options.filter(move |(option, _)| is(option, &["by", "get"])).map(|(_, rest)| rest.at(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_c_takes_for_an_option_is_one() {
        for word in [&b"GET\0"[..], b"px\0x", b"StoreDist\0\0"] {
            assert!(is_cut_option(word), "{word:?}");
        }
        for word in [&b"GET"[..], b"", b"\0", b"\0GET", b"xGET\0", b"GETS\0"] {
            assert!(!is_cut_option(word), "{word:?}");
        }
    }

    #[test]
    fn the_hot_path_knows_where_options_begin() {
        for (name, id) in [("set", Command::Set), ("getex", Command::GetEx)] {
            let spec = crate::catalogue::table::lookup(name.as_bytes()).expect("in the table");
            assert_eq!(spec.id, id);
        }
        for (name, first) in FIRST_OPTIONS {
            assert!(first > 0, "{name}: the command comes first");
        }
    }
}
