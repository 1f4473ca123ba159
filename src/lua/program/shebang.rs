//! First line of a script that names its engine and flags: `#!lua flags=no-writes,allow-stale`.
//!
//! Redis reads it itself when the wrapped script is loaded. This module finds what Redis would refuse, and answers in
//! the same words (`script.c`, `evalExtractShebangFlags`).

use crate::resp::reply::Reply;

/// Flags that Redis 7.0 knows.
pub(in crate::lua) const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// Returns the shebang, empty if there is none, and the rest, which begins with the line feed after it.
///
/// # Errors
/// Returns Redis's error reply if the engine, an option or a flag is unknown.
pub fn split_shebang(text: &[u8]) -> Result<(&[u8], &[u8]), Reply> {
    if !text.starts_with(b"#!") {
        return Ok((b"", text));
    }
    let end = text.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| Reply::error("ERR Invalid script shebang"))?;
    let (line, rest) = text.split_at(end);
    check(line)?;
    Ok((line, rest))
}

/// Returns the flags in a shebang that has been [split off](split_shebang), as bits; `None` if there is no shebang.
pub(super) fn bits(shebang: &[u8]) -> Option<usize> {
    let words = shebang.split(|byte| byte.is_ascii_whitespace() || *byte == b'=' || *byte == b',');
    let words: Vec<_> = words.collect();
    let has = |flag: &str| words.contains(&flag.as_bytes());
    let bits = FLAGS.iter().enumerate().map(|(at, flag)| usize::from(has(flag)) << at).sum();
    (!shebang.is_empty()).then_some(bits)
}

/// Returns whether a shebang forbids all changes.
pub(in crate::lua) fn is_read_only(shebang: &[u8]) -> bool {
    bits(shebang).is_some_and(|bits| bits & 1 == 1)
}

/// Returns the shebang with these flags.
pub(in crate::lua) fn spelled(bits: usize) -> String {
    let flags: Vec<_> =
        (0..FLAGS.len()).filter(|at| bits >> at & 1 == 1).map(|at| FLAGS[at]).collect();
    match flags.is_empty() {
        true => "#!lua".to_owned(),
        false => format!("#!lua flags={}", flags.join(",")),
    }
}

fn check(line: &[u8]) -> Result<(), Reply> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(refused("Unexpected engine in script shebang", engine));
    }
    for option in words {
        let flags = option.strip_prefix(b"flags=");
        let flags = flags.ok_or_else(|| refused("Unknown lua shebang option", option))?;
        for flag in flags.split(|byte| *byte == b',').filter(|flag| !flag.is_empty()) {
            if !FLAGS.iter().any(|known| known.as_bytes() == flag) {
                return Err(refused("Unexpected flag in script shebang", flag));
            }
        }
    }
    Ok(())
}

fn refused(why: &str, word: &[u8]) -> Reply {
    Reply::error(format!("ERR {why}: {}", String::from_utf8_lossy(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_feed_stays_with_the_script() {
        let text = b"#!lua flags=no-writes,allow-stale\nreturn 1";
        let split = split_shebang(text).expect("a good one");
        assert_eq!(split, (&b"#!lua flags=no-writes,allow-stale"[..], &b"\nreturn 1"[..]));
        assert_eq!(split_shebang(b"return 1"), Ok((&b""[..], &b"return 1"[..])));
    }

    #[test]
    fn flags_are_the_same_in_any_order() {
        assert_eq!(bits(b""), None);
        assert_eq!(bits(b"#!lua"), Some(0));
        assert_eq!(bits(b"#!lua  flags=allow-oom,,no-writes"), Some(3));
        for all in 0..32 {
            assert_eq!(bits(spelled(all).as_bytes()), Some(all));
        }
    }

    #[test]
    fn what_redis_refuses_is_refused_in_its_words() {
        let said = |text: &[u8]| match split_shebang(text) {
            Err(Reply::Error(text)) => text.into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(said(b"#!lua"), "ERR Invalid script shebang");
        assert_eq!(said(b"#!js\n"), "ERR Unexpected engine in script shebang: #!js");
        assert_eq!(said(b"#!lua x=1\n"), "ERR Unknown lua shebang option: x=1");
        assert_eq!(said(b"#!lua flags=bad\n"), "ERR Unexpected flag in script shebang: bad");
    }
}
