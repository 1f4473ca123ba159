//! What the data Redis answers to the questions of a connection itself.

use super::connection::Lost;

/// Whether an answer to `HELLO` is a master's, in either protocol. Whoever is not let in will be refused everything.
///
/// # Errors
/// It is a replica, or says something else.
pub fn must_be_master(said: &[u8]) -> Result<(), Lost> {
    if said.starts_with(b"-NOAUTH") {
        return Ok(());
    }
    if let Some(error) = error_text(said) {
        return Err(Lost::Refused(String::from_utf8_lossy(error).into_owned()));
    }
    let is_there = said.windows(ROLE_OF_MASTER.len()).any(|it| it == ROLE_OF_MASTER);
    if is_there { Ok(()) } else { Err(Lost::Replica) }
}

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
            assert!(must_be_master(hello(opening, "master").as_bytes()).is_ok());
            for other in ["replica", "active-replica", "slave"] {
                let refused = must_be_master(hello(opening, other).as_bytes());
                assert!(matches!(refused, Err(Lost::Replica)), "{other}");
            }
        }
        assert!(matches!(must_be_master(b"*0\r\n"), Err(Lost::Replica)));
    }

    #[test]
    fn one_that_does_not_say_it_is_not_used() {
        let unknown = must_be_master(b"-ERR unknown command `HELLO`\r\n");
        assert!(matches!(unknown, Err(Lost::Refused(why)) if why == "ERR unknown command `HELLO`"));
        assert!(must_be_master(b"-NOAUTH HELLO must be called with ...\r\n").is_ok());
    }
}
