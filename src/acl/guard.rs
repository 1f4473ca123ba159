//! A user's rules in Lua: `guard.lua`, with its placeholders filled in.
//!
//! A script's calls are decided while it runs, so the rules must travel with it to the masters. There, the names are
//! one string to search, and the patterns are Lua's own, because Lua has no globs.

use std::fmt::Write as _;

use super::{Patterns, User, catalogue};
use crate::catalogue::keys::WITHOUT_KEYS;
use crate::resp::glob;

/// Lua code that declares `guarded`, a function from one `redis` to another that obeys the rules.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Guard {
    /// The code.
    pub lua: String,
}

impl Guard {
    pub(super) fn of(user: &User) -> Self {
        let entries = || catalogue::all().iter().enumerate();
        let allowed = (!user.commands().is_all()).then(|| {
            let allowed = entries().filter(|(place, _)| user.commands().contains(*place));
            word_list(allowed.map(|(_, entry)| entry.name))
        });
        let containers = entries().filter(|(_, entry)| !entry.subcommands.is_empty());
        let containers = word_list(containers.map(|(_, entry)| entry.name));
        let lua = include_str!("guard.lua")
            .replace("WITHOUT_KEYS", WITHOUT_KEYS)
            .replace("ALLOWED_COMMANDS", allowed.as_deref().unwrap_or("nil"))
            .replace("CONTAINERS", &containers)
            .replace("ALLOWED_KEYS", &patterns(user.keys()))
            .replace("ALLOWED_CHANNELS", &patterns(user.channels()));
        Self { lua }
    }
}

/// Returns the names with a space around each, in quotes.
fn word_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: String = names.map(|name| format!("{name} ")).collect();
    format!("' {names}'")
}

fn patterns(patterns: &Patterns) -> String {
    let Patterns::Some(patterns) = patterns else { return "nil".to_owned() };
    let items: String = patterns.iter().map(|glob| literal(&pattern(glob)) + ",").collect();
    format!("{{{items}}}")
}

/// Returns a text as a quoted Lua string. Every byte that is not a letter or digit is written as its number.
fn literal(text: &[u8]) -> String {
    let mut quoted = String::from("'");
    for byte in text {
        match byte.is_ascii_alphanumeric() {
            true => quoted.push(char::from(*byte)),
            false => {
                let _ = write!(quoted, "\\{byte:03}");
            }
        }
    }
    quoted + "'"
}

/// Returns the Lua pattern that finds what `glob` matches.
fn pattern(glob: &[u8]) -> Vec<u8> {
    if !glob.is_empty() && glob.iter().all(|byte| *byte == b'*') {
        // Stars alone do not match an empty text.
        return b"^.".to_vec();
    }
    let mut pattern = b"^".to_vec();
    for element in glob::elements(glob) {
        match element {
            glob::Element::Any if pattern.ends_with(b".*") => {}
            glob::Element::Any => pattern.extend_from_slice(b".*"),
            glob::Element::OneOf(bytes) => one_of(&bytes, &mut pattern),
        }
    }
    pattern.push(b'$');
    pattern
}

/// Writes a class of these bytes. Each byte is listed, because the ends of a range cannot be escaped.
fn one_of(bytes: &[u8], pattern: &mut Vec<u8>) {
    match bytes {
        [] => pattern.extend_from_slice(b"[^%z%Z]"),
        [byte] => escape(*byte, pattern),
        all if all.len() == 256 => pattern.push(b'.'),
        some => {
            pattern.push(b'[');
            some.iter().for_each(|byte| escape(*byte, pattern));
            pattern.push(b']');
        }
    }
}

/// Writes a character that stands for itself. Lua's patterns end at a NUL.
fn escape(byte: u8, pattern: &mut Vec<u8>) {
    match byte {
        0 => pattern.extend_from_slice(b"%z"),
        _ if byte.is_ascii_punctuation() => pattern.extend_from_slice(&[b'%', byte]),
        _ => pattern.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use mlua::Lua;
    use proptest::prelude::*;

    use super::*;

    /// Whether Lua finds `text` by the pattern derived from `glob`.
    fn finds(lua: &Lua, glob: &[u8], text: &[u8]) -> bool {
        let find =
            format!("return string.find({}, {}) ~= nil", literal(text), literal(&pattern(glob)));
        lua.load(find).eval().unwrap()
    }

    #[test]
    fn a_pattern_finds_what_the_glob_matches() {
        let lua = Lua::new();
        for (glob, text) in [
            (&b"lock:*"[..], &b"lock:1"[..]),
            (b"lock:*", b"lock"),
            (b"*%*.x", b"a%b.x"),
            (b"a?c", b"a\0c"),
            (b"[]", b"a"),
            (b"[^]", b"a"),
            (b"[%]^-]x", b"]x"),
            (b"[z-a]", b"m"),
            (b"\\*", b"*"),
            (b"\0", b"\0"),
            (b"", b""),
            (b"*", b""),
            (b"**", b"a"),
        ] {
            assert_eq!(
                finds(&lua, glob, text),
                glob::matches(glob, text, false),
                "{glob:?} {text:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_redis_s_globs(
            glob in r"[abc*?\[\]^\\%.$()\-]{0,10}", text in r"[abc\[\]^\\%.$()\-]{0,6}"
        ) {
            let expected = glob::matches(glob.as_bytes(), text.as_bytes(), false);
            prop_assert_eq!(finds(&Lua::new(), glob.as_bytes(), text.as_bytes()), expected);
        }

        #[test]
        fn any_bytes_can_be_a_pattern(glob in proptest::collection::vec(any::<u8>(), 0..8)) {
            let escaped: Vec<u8> = glob.iter().flat_map(|byte| [b'\\', *byte]).collect();
            prop_assert!(finds(&Lua::new(), &escaped, &glob));
        }
    }

    #[test]
    fn only_what_is_limited_is_in_the_text() {
        let users = crate::acl::Users::parse(
            ["alice ~lock:* &* +@all -ttl", "bob ~* &news +@all", "carol allkeys allchannels +get"],
            None,
        );
        let users = users.unwrap();
        let lua = |name: &[u8]| users.named(name).unwrap().guard().lua.clone();
        assert!(lua(b"alice").contains("channels = {'\\094lock\\037\\058\\046\\042\\036',}, nil"));
        assert!(lua(b"alice").contains(" get ") && !lua(b"alice").contains(" ttl "));
        assert!(lua(b"bob").contains("allowed, containers = nil, ' acl "));
        assert!(lua(b"carol").contains("' auth get hello quit reset ', ' acl "));
        Lua::new().load(lua(b"alice")).into_function().unwrap();
    }
}
