//! The settings that can change while the proxy runs: by SIGHUP, which has them read again, or by `CONFIG SET`.

use std::sync::Arc;
use std::time::Duration;

use super::memory::MemoryLimit;
use super::setting::Access;
use super::{NoTtl, Secret, table};
use crate::acl::Users;

/// The part of [`super::Settings`] that can change. All that is here is looked up when it is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The treatment of a lock that is claimed without a TTL.
    pub no_ttl: NoTtl,
    /// The password that clients must give with `AUTH` or `HELLO`.
    pub requirepass: Option<Secret>,
    /// The users that may log in, among them the default user with that password.
    pub users: Arc<Users>,
    /// The maximum number of connected clients.
    pub max_clients: usize,
    /// The maximum number of clients logged in as one user; `None` is no limit.
    pub max_clients_per_user: Option<usize>,
    /// The silence after which a client is disconnected; zero: never (`timeout` in redis.conf).
    pub timeout: Duration,
    /// The silence after which TCP probes a client; zero: never (`tcp-keepalive` there).
    pub tcp_keepalive: Duration,
    /// The bytes of unread replies beyond which a client is disconnected (`client-output-buffer-limit` there).
    pub max_output_bytes: usize,
    /// The memory of all clients beyond which the greediest are disconnected (`maxmemory-clients` there).
    pub max_memory_clients: MemoryLimit,
    /// The microseconds beyond which a request is noted; 0: all are, negative: none is.
    pub slowlog_log_slower_than: i64,
    /// The number of those notes to keep.
    pub slowlog_max_len: usize,
    /// The time to finish requests in flight when told to stop.
    pub drain_timeout: Duration,
    /// Whether `FLUSHDB` and `FLUSHALL` are allowed.
    pub allow_flush: bool,
    /// The version in `INFO` and `HELLO`, strictly `d.d.d`; `None` is the lowest among the masters.
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
            drain_timeout: Duration::from_secs(10),
            allow_flush: false,
            redis_version: None,
        }
    }
}

impl Live {
    /// Sets the setting called `name` to the meaning of `text`; `None`: it is not one that can change so.
    ///
    /// # Errors
    /// The text is wrong; the reason is to be read after the name and the text.
    pub fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
        let (_, access) = table::live().find(|(known, _)| *known == name)?;
        access.set.map(|set| set(self, text))
    }

    /// Each setting's name and meaning, without passwords.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        table::live().map(|(name, access)| (name, (access.show)(self))).collect()
    }

    /// The names of the settings in which `other` differs.
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
