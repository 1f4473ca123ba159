//! The settings that can change while the proxy runs: by SIGHUP, which rereads them, or by `CONFIG SET`.

use std::sync::Arc;
use std::time::Duration;

use super::memory::MemoryLimit;
use super::setting::Access;
use super::{NoTtl, Secret, table};
use crate::acl::Users;
use crate::catalogue::events::EventClasses;

/// The changeable part of [`super::Settings`], always looked up when needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// Treatment of a lock that is claimed without a TTL.
    pub no_ttl: NoTtl,
    /// Password that clients must send with `AUTH` or `HELLO`.
    pub requirepass: Option<Secret>,
    /// Users that may log in, among them the default user with that password.
    pub users: Arc<Users>,
    /// Maximum number of connected clients.
    pub max_clients: usize,
    /// Maximum number of clients logged in as one user; `None` is no limit.
    pub max_clients_per_user: Option<usize>,
    /// Silence after which a client is disconnected; zero: never (`timeout` in redis.conf).
    pub timeout: Duration,
    /// Silence after which TCP probes a client; zero: never (`tcp-keepalive` there).
    pub tcp_keepalive: Duration,
    /// Bytes of unread replies beyond which a client is disconnected (`client-output-buffer-limit` there).
    pub max_output_bytes: usize,
    /// Memory of all clients beyond which those that use most are disconnected (`maxmemory-clients` there).
    pub max_memory_clients: MemoryLimit,
    /// Microseconds beyond which a request is logged as slow; 0: all are, negative: none is.
    pub slowlog_log_slower_than: i64,
    /// Maximum entries kept in that log.
    pub slowlog_max_len: usize,
    /// Events of keys to publish (`notify-keyspace-events` in redis.conf).
    pub notify_keyspace_events: EventClasses,
    /// Time to finish requests in flight on shutdown.
    pub drain_timeout: Duration,
    /// Whether `FLUSHDB` and `FLUSHALL` are allowed.
    pub allow_flush: bool,
    /// Version in `INFO` and `HELLO`, strictly `d.d.d`; `None` is the lowest among the masters.
    pub redis_version: Option<String>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            no_ttl: NoTtl::Keep,
            requirepass: None,
            users: Arc::default(),
            max_clients: 10_000,
            max_clients_per_user: None,
            timeout: Duration::ZERO,
            tcp_keepalive: Duration::from_secs(300),
            max_output_bytes: 64 << 20,
            max_memory_clients: MemoryLimit::DEFAULT,
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            notify_keyspace_events: EventClasses::default(),
            drain_timeout: Duration::from_secs(10),
            allow_flush: false,
            redis_version: None,
        }
    }
}

impl Live {
    /// Sets the setting called `name` to the value of `text`. Returns `None` if it cannot be changed this way.
    ///
    /// # Errors
    /// Returns an error if the text is wrong; the message continues a sentence that begins with the name and the text.
    pub fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
        let (_, access) = table::live().find(|(known, _)| *known == name)?;
        access.set.map(|set| set(self, text))
    }

    /// Returns each setting's name and value, without passwords.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        table::live().map(|(name, access)| (name, (access.show)(self))).collect()
    }

    /// Returns the names of settings that differ in `other`.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let differs =
            |(name, access): (_, &Access<Self>)| access.is_different(self, other).then_some(name);
        table::live().filter_map(differs).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_that_is_shown_can_be_set_to_what_is_shown() {
        for (name, shown) in Live::default().fields() {
            let mut live = Live::default();
            match live.set(name, &shown) {
                Some(result) => assert_eq!(result, Ok(()), "{name} {shown}"),
                None => assert!(["requirepass", "users"].contains(&name), "never shown whole"),
            }
            assert_eq!(live, Live::default(), "{name} {shown}");
        }
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let mut live = Live::default();
        assert_eq!(live.set("nonsense", "1"), None);
        assert!(live.set("max-clients", "0").is_some_and(|set| set.is_err()));
        assert_eq!(live, Live::default());
    }

    #[test]
    fn another_password_is_a_difference_though_none_is_shown() {
        let with =
            |password: &str| Live { requirepass: Some(Secret::new(password)), ..Live::default() };
        assert_eq!(with("a").differences(&with("b")), ["requirepass"]);
        assert_eq!(with("a").differences(&Live::default()), ["requirepass"]);
        assert!(with("a").differences(&with("a")).is_empty());
        let slower = Live { slowlog_max_len: 1, ..Live::default() };
        assert_eq!(slower.differences(&Live::default()), ["slowlog-max-len"]);
    }
}
