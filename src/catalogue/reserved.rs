//! Names that only the proxy uses on the masters, for keys and for channels.
//!
//! Clients cannot name them, and are not shown them: whatever carries such a name is the proxy's own word.

/// What reserved names begin with.
pub const PREFIX: &str = "redlock-proxy:";

/// The key by which a master proves that it remembers, in every database.
pub const MARK: &str = "redlock-proxy:mark";

/// The key of the list of members, in database 0.
pub const ROSTER: &str = "redlock-proxy:roster";

/// The key by which a proxy that copies to a master says how far it has come, in database 0.
pub const COPYING: &str = "redlock-proxy:copying";

/// The key of what a proxy has noted about the clocks of all members, in database 0.
pub const CLOCKS: &str = "redlock-proxy:clocks";

/// The sorted set of attempts that are over although some master may have missed it, in every database.
pub const OVER: &str = "redlock-proxy:over";

/// The register of the libraries of functions, in database 0.
pub const LIBRARIES: &str = "redlock-proxy:libraries";

/// What the names of stamps begin with, before the keys that they belong to.
pub const STAMPS: &str = "redlock-proxy:s:";

/// The shard channel at the data Redis on which a connection publishes nothing, so as to have told replicas something.
pub const CAUGHT_UP: &str = "redlock-proxy:caught-up";

/// All keys.
pub const KEYS: [&str; 6] = [MARK, ROSTER, COPYING, CLOCKS, OVER, LIBRARIES];

/// What a client is told that uses such a name all the same.
pub const REFUSAL: &str = "ERR names that begin with 'redlock-proxy:' are the proxy's own: give the key or channel another name";

/// Whether only the proxy may use this name of a key or a channel.
#[inline]
pub fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_names_begin_with_the_prefix_as_it_is_spelled() {
        assert!(is_reserved(b"redlock-proxy:") && is_reserved(b"redlock-proxy:mark\xff"));
        for free in [&b""[..], b"redlock-proxy", b"Redlock-proxy:mark", b" redlock-proxy:mark"] {
            assert!(!is_reserved(free), "{free:?}");
        }
    }
}
