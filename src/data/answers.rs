//! What the data Redis answers to the questions of a connection itself.

use super::connection::Lost;
use super::watch::HAS_MARK;
use crate::catalogue::reserved::MARK;

/// What the data Redis says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// It may be used.
    Fine,
    /// It does not say it just now: the client is told this, and it is asked again.
    NotNow(&'a [u8]),
}

/// Whether an answer to `HELLO` is a master's, in either protocol. Whoever is not let in will be refused everything.
///
/// # Errors
/// It is a replica.
pub fn must_be_master(said: &[u8]) -> Result<Said<'_>, Lost> {
    if said.starts_with(b"-NOAUTH") {
        return Ok(Said::Fine);
    }
    if let Some(error) = error_text(said) {
        return Ok(Said::NotNow(error));
    }
    let is_there = said.windows(ROLE_OF_MASTER.len()).any(|it| it == ROLE_OF_MASTER);
    if is_there { Ok(Said::Fine) } else { Err(Lost::Replica) }
}

/// Whether an answer to `EXISTS` knows of no mark. A user who may not ask, and a node of a cluster, do not say it.
///
/// # Errors
/// There is the mark.
pub(super) fn must_have_no_mark(said: &[u8]) -> Result<Said<'_>, Lost> {
    if said == b":1\r\n" {
        return Err(Lost::Refused(HAS_MARK.to_owned()));
    }
    let error = error_text(said).filter(|error| NOT_NOW.iter().any(|it| error.starts_with(it)));
    Ok(error.map_or(Said::Fine, Said::NotNow))
}

/// Whether the data Redis does not run ordinary requests just now, but lets this connection in.
pub(super) fn is_occupied(error: &str) -> bool {
    NOT_NOW[..3].iter().any(|it| error.as_bytes().starts_with(it))
}

/// Errors with which a Redis answers `EXISTS` that would say it at another time (`processCommand` in `server.c`,
/// `acceptCommonHandler` in `networking.c`).
const NOT_NOW: [&[u8]; 5] =
    [b"BUSY ", b"LOADING ", b"MASTERDOWN ", b"DENIED ", b"ERR max number of clients reached"];

/// The database in an answer of `CLIENT INFO`.
pub(super) fn selected(description: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(description).ok()?;
    text.split_ascii_whitespace().find_map(|field| field.strip_prefix("db="))?.parse().ok()
}

/// What an error says, if this is one and all of it is here.
pub fn error_text(piece: &[u8]) -> Option<&[u8]> {
    let line = piece.strip_prefix(b"-")?;
    let end = line.iter().position(|byte| *byte == b'\r').unwrap_or(line.len());
    Some(&line[..end])
}

/// Whether a line of `MONITOR` shows a proxy that asks for the mark, which is no request of any client. Within words,
/// quotes are escaped.
pub(super) fn is_question(line: &[u8]) -> bool {
    line.first() == Some(&b'+')
        && line.strip_suffix(QUESTION).is_some_and(|it| it.ends_with(MARK.as_bytes()))
        && line[..line.len() - QUESTION.len() - MARK.len()].ends_with(b"] \"EXISTS\" \"")
}

/// What follows the name of the mark in such a line.
const QUESTION: &[u8] = b"\"\r\n";

/// The field of `HELLO` (`helloCommand` in `networking.c`).
const ROLE_OF_MASTER: &[u8] = b"\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_master_is_one() {
        let hello = |opening: &str, role: &str| {
            let length = role.len();
            format!(
                "{opening}\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n\
                 $4\r\nrole\r\n${length}\r\n{role}\r\n$7\r\nmodules\r\n*0\r\n"
            )
        };
        for opening in ["*8", "%4"] {
            let master = hello(opening, "master");
            assert!(matches!(must_be_master(master.as_bytes()), Ok(Said::Fine)));
            for other in ["replica", "active-replica", "slave"] {
                let other = hello(opening, other);
                let refused = must_be_master(other.as_bytes());
                assert!(matches!(refused, Err(Lost::Replica)), "{other}");
            }
        }
        assert!(matches!(must_be_master(b"*0\r\n"), Err(Lost::Replica)));
    }

    #[test]
    fn one_that_does_not_say_it_is_not_used() {
        let unknown = must_be_master(b"-ERR unknown command `HELLO`\r\n");
        assert!(matches!(unknown, Ok(Said::NotNow(b"ERR unknown command `HELLO`"))));
        let stranger = must_be_master(b"-NOAUTH HELLO must be called with ...\r\n");
        assert!(matches!(stranger, Ok(Said::Fine)));
    }

    #[test]
    fn a_question_is_told_from_what_names_it() {
        assert!(is_question(b"+1.5 [0 127.0.0.1:1] \"EXISTS\" \"redlock-proxy:mark\"\r\n"));
        for other in [
            &b"+1.5 [0 127.0.0.1:1] \"GET\" \"redlock-proxy:mark\"\r\n"[..],
            b"+1.5 [0 127.0.0.1:1] \"SET\" \"a\" \"] \\\"EXISTS\\\" \\\"redlock-proxy:mark\"\r\n",
            b"+1.5 [0 127.0.0.1:1] \"EXISTS\" \"a\" \"redlock-proxy:mark\"\r\n",
            b"$1\r\n",
        ] {
            assert!(!is_question(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn a_mark_is_looked_for_until_it_is_known() {
        assert!(matches!(must_have_no_mark(b":1\r\n"), Err(Lost::Refused(why)) if why == HAS_MARK));
        for known in ["0\r\n", "-NOPERM this user has no permissions\r\n", "-MOVED 1 a:1\r\n"] {
            assert!(matches!(must_have_no_mark(known.as_bytes()), Ok(Said::Fine)), "{known}");
        }
        for other in ["BUSY Redis is busy", "LOADING Redis is loading", "MASTERDOWN Link"] {
            let said = format!("-{other}\r\n");
            let said = must_have_no_mark(said.as_bytes());
            assert!(matches!(said, Ok(Said::NotNow(error)) if error == other.as_bytes()));
            assert!(is_occupied(other));
        }
        let full = "ERR max number of clients reached";
        let said = format!("-{full}\r\n");
        assert!(matches!(must_have_no_mark(said.as_bytes()), Ok(Said::NotNow(_))));
        assert!(!is_occupied(full));
    }
}
