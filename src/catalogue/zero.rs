//! Option words that contain a zero byte.
//!
//! Redis compares options with C string functions (`strcasecmp`) and takes `GET\0` for `GET`. A client could thus name
//! keys and times by options that the proxy does not see. Nobody needs that, so such words are a syntax error.

use super::error;
use super::table::{Command, Spec};
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
    let first = match spec.id {
        Command::Set => 3,
        Command::GetEx => 2,
        Command::Data => match FIRST_OPTIONS.iter().find(|(name, _)| *name == spec.name) {
            Some((_, first)) => *first,
            None => return Ok(()),
        },
        _ => return Ok(()),
    };
    if args.iter().skip(first).any(is_cut_option) { Err(error::SYNTAX) } else { Ok(()) }
}

fn is_cut_option(word: &[u8]) -> bool {
    let option = word.iter().position(|byte| *byte == 0).map(|zero| &word[..zero]);
    option.is_some_and(|option| is(option, &OPTIONS))
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
