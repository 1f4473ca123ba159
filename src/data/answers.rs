//! The data Redis's replies to requests that a connection itself sends.

use super::connection::Lost;
use super::watch::HAS_MARK;
use crate::catalogue::reserved::MARK;

/// The data Redis's verdict on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAnswer<'a> {
    /// It may be used.
    Fine,
    /// It cannot tell at the moment. The client gets this error, and the connection asks again.
    NotNow(&'a [u8]),
}

/// Checks that a reply to `HELLO`, in either protocol, comes from a master. A connection that is not authenticated
/// passes: all its requests will be refused.
///
/// # Errors
/// Returns an error if it is a replica.
pub fn must_be_master(said: &[u8]) -> Result<DataAnswer<'_>, Lost> {
    if said.starts_with(b"-NOAUTH") {
        return Ok(DataAnswer::Fine);
    }
    if let Some(error) = error_text(said) {
        return Ok(DataAnswer::NotNow(error));
    }
    let is_there = said.windows(ROLE_OF_MASTER.len()).any(|it| it == ROLE_OF_MASTER);
    if is_there { Ok(DataAnswer::Fine) } else { Err(Lost::Replica) }
}

/// Checks that a reply to `EXISTS` reports no mark. An answer that cannot tell passes, such as one to a user without
/// permission, or one of a cluster node.
///
/// # Errors
/// Returns an error if the mark is there.
pub(super) fn must_have_no_mark(said: &[u8]) -> Result<DataAnswer<'_>, Lost> {
    if said == b":1\r\n" {
        return Err(Lost::Refused(HAS_MARK.to_owned()));
    }
    let error = error_text(said).filter(|error| NOT_NOW.iter().any(|it| error.starts_with(it)));
    Ok(error.map_or(DataAnswer::Fine, DataAnswer::NotNow))
}

/// Whether the data Redis runs no ordinary requests at the moment, but accepts this connection.
pub(super) fn is_occupied(error: &str) -> bool {
    NOT_NOW[..3].iter().any(|it| error.as_bytes().starts_with(it))
}

/// Errors to `EXISTS` from a Redis that would answer it at another time (`processCommand` in `server.c`,
/// `acceptCommonHandler` in `networking.c`).
const NOT_NOW: [&[u8]; 5] =
    [b"BUSY ", b"LOADING ", b"MASTERDOWN ", b"DENIED ", b"ERR max number of clients reached"];

/// Returns the database in a reply to `CLIENT INFO`.
pub(super) fn selected(description: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(description).ok()?;
    text.split_ascii_whitespace().find_map(|field| field.strip_prefix("db="))?.parse().ok()
}

/// Returns the text of an error reply, if `piece` begins one.
pub fn error_text(piece: &[u8]) -> Option<&[u8]> {
    let line = piece.strip_prefix(b"-")?;
    let end = line.iter().position(|byte| *byte == b'\r').unwrap_or(line.len());
    Some(&line[..end])
}

/// Whether a line of `MONITOR` shows a proxy asking for the mark, which is no client's request. Quotes inside words are
/// escaped.
pub(super) fn is_question(line: &[u8]) -> bool {
    line.first() == Some(&b'+')
        && line.strip_suffix(QUESTION).is_some_and(|it| it.ends_with(MARK.as_bytes()))
        && line[..line.len() - QUESTION.len() - MARK.len()].ends_with(b"] \"EXISTS\" \"")
}

/// Text after the name of the mark in such a line.
const QUESTION: &[u8] = b"\"\r\n";

/// The role field in a reply to `HELLO` (`helloCommand` in `networking.c`).
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
            assert!(matches!(must_be_master(master.as_bytes()), Ok(DataAnswer::Fine)));
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
        assert!(matches!(unknown, Ok(DataAnswer::NotNow(b"ERR unknown command `HELLO`"))));
        let stranger = must_be_master(b"-NOAUTH HELLO must be called with ...\r\n");
        assert!(matches!(stranger, Ok(DataAnswer::Fine)));
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
            assert!(matches!(must_have_no_mark(known.as_bytes()), Ok(DataAnswer::Fine)), "{known}");
        }
        for other in ["BUSY Redis is busy", "LOADING Redis is loading", "MASTERDOWN Link"] {
            let said = format!("-{other}\r\n");
            let said = must_have_no_mark(said.as_bytes());
            assert!(matches!(said, Ok(DataAnswer::NotNow(error)) if error == other.as_bytes()));
            assert!(is_occupied(other));
        }
        let full = "ERR max number of clients reached";
        let said = format!("-{full}\r\n");
        assert!(matches!(must_have_no_mark(said.as_bytes()), Ok(DataAnswer::NotNow(_))));
        assert!(!is_occupied(full));
    }
}
