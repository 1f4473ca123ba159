//! Key and channel names that only the proxy uses on the masters.
//!
//! Clients can neither use nor see them, so anything that carries such a name comes from the proxy.

/// Prefix of reserved names.
pub const PREFIX: &str = "redlock-proxy:";

/// Key that proves a master's memory, in every database.
pub const MARK: &str = "redlock-proxy:mark";

/// Key of the list of members, in database 0.
pub const ROSTER: &str = "redlock-proxy:roster";

/// Key with the progress of a proxy that copies to a master, in database 0.
pub const COPYING: &str = "redlock-proxy:copying";

/// Key of a proxy's note about the clocks of all members, in database 0.
pub const CLOCKS: &str = "redlock-proxy:clocks";

/// Sorted set of attempts that are over, although a master may have missed that; in every database.
pub const OVER: &str = "redlock-proxy:over";

/// Register of the function libraries, in database 0.
pub const LIBRARIES: &str = "redlock-proxy:libraries";

/// Prefix of stamp names, followed by the key that a stamp belongs to.
pub const STAMPS: &str = "redlock-proxy:s:";

/// Shard channel at the data Redis on which a connection publishes nothing, only to have sent something to replicas.
pub const CAUGHT_UP: &str = "redlock-proxy:caught-up";

/// All reserved keys with a fixed name.
pub const KEYS: [&str; 6] = [MARK, ROSTER, COPYING, CLOCKS, OVER, LIBRARIES];

/// Error for a client that uses such a name.
pub const REFUSAL: &str = "ERR names that begin with 'redlock-proxy:' are reserved: choose another name for the key or channel";

/// Whether only the proxy may use this name for a key or channel.
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
