//! The first line of a script that names its engine and flags: `#!lua flags=no-writes,allow-stale`.
//!
//! Redis reads it itself when the wrapped script is loaded; here it is found out, in Redis's words,
//! what it would refuse (`script.c`, `evalExtractShebangFlags`).

use crate::client::reply::Reply;

/// The flags that Redis 7.0 knows.
const FLAGS: [&[u8]; 5] =
    [b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"];

/// The shebang, empty if there is none, and the rest, which begins with the line feed after it.
///
/// # Errors
/// What Redis answers when it does not know the engine, an option or a flag.
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
            if !FLAGS.contains(&flag) {
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
