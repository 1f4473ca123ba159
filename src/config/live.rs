//! Settings that can change while the proxy runs: by SIGHUP, which reads the settings again, or by `CONFIG SET`.

use std::sync::Arc;
use std::time::Duration;

use super::memory::MemoryLimit;
use super::typed::Typed;
use super::values::{bytes_within, duration_within, number_within, shown_duration, switch};
use super::{InvalidSetting, NoTtl, Secret, YEAR_MS, access, no_ttl, redis_version};
use crate::acl::Users;

/// The part of [`super::Settings`] that can change. Every value here is looked up when it is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// Treatment of a lock that is claimed without a TTL.
    pub no_ttl: NoTtl,
    /// The password that clients must give with `AUTH` or `HELLO`.
    pub requirepass: Option<Secret>,
    /// Users who may log in, including the default user with that password.
    pub users: Arc<Users>,
    /// Maximum clients connected at a time.
    pub max_clients: usize,
    /// Maximum clients logged in as one user; `None` means no limit.
    pub max_clients_per_user: Option<usize>,
    /// Silence after which a client is disconnected; zero: never (`timeout` of redis.conf).
    pub timeout: Duration,
    /// Silence after which TCP asks whether a client is still there; zero: never (`tcp-keepalive` there).
    pub tcp_keepalive: Duration,
    /// Maximum unread replies, in bytes, before a client is disconnected (`client-output-buffer-limit` there).
    pub max_output_bytes: usize,
    /// Maximum memory of all clients, beyond which the greediest are disconnected first (`maxmemory-clients` there).
    pub max_memory_clients: MemoryLimit,
    /// Duration above which a request is logged, in microseconds; 0: all, negative: none.
    pub slowlog_log_slower_than: i64,
    /// Maximum number of logged requests kept.
    pub slowlog_max_len: usize,
    /// Maximum time to finish work in flight after the proxy was told to stop.
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
    /// Applies the typed settings; all others stay.
    pub(super) fn apply(&mut self, typed: &Typed) -> Result<(), InvalidSetting> {
        for (name, word) in [
            ("no-ttl", &typed.no_ttl),
            ("max-clients", &typed.max_clients),
            ("max-clients-per-user", &typed.max_clients_per_user),
            ("timeout", &typed.timeout),
            ("tcp-keepalive", &typed.tcp_keepalive),
            ("max-output-bytes", &typed.max_output_bytes),
            ("max-memory-clients", &typed.max_memory_clients),
            ("slowlog-log-slower-than", &typed.slowlog_log_slower_than),
            ("slowlog-max-len", &typed.slowlog_max_len),
            ("drain-timeout", &typed.drain_timeout),
            ("allow-flush", &typed.allow_flush),
            ("redis-version", &typed.redis_version),
        ] {
            if let Some(word) = word {
                let refused = |why| InvalidSetting(format!("{name} `{}` {why}", &**word));
                self.set(name, word).unwrap_or(Ok(())).map_err(refused)?;
            }
        }
        self.requirepass = access::requirepass(typed)?;
        self.users = access::users(typed, self.requirepass.as_ref())?;
        Ok(())
    }

    /// Sets `name` to the meaning of `text`; `None`: there is no such setting here.
    ///
    /// # Errors
    /// Returns what would have been valid, to be read after the name and the text.
    pub fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>> {
        let output = bytes_within(MIN_OUTPUT_BYTES..=MAX_OUTPUT_BYTES);
        Some(match name {
            "no-ttl" => put(&mut self.no_ttl, no_ttl(text)),
            "max-clients" => put(&mut self.max_clients, number_within(1..=MAX_CLIENTS)(text)),
            "max-clients-per-user" => {
                let most = number_within(0..=MAX_CLIENTS)(text);
                put(&mut self.max_clients_per_user, most.map(|most| (most > 0).then_some(most)))
            }
            "timeout" => put(&mut self.timeout, duration_within(0..=YEAR_MS)(text)),
            "tcp-keepalive" => put(&mut self.tcp_keepalive, duration_within(0..=DAY_MS)(text)),
            "max-output-bytes" => put(&mut self.max_output_bytes, output(text)),
            "max-memory-clients" => put(&mut self.max_memory_clients, MemoryLimit::parse(text)),
            "slowlog-log-slower-than" => {
                put(&mut self.slowlog_log_slower_than, number_within(-1..=i64::MAX)(text))
            }
            "slowlog-max-len" => {
                put(&mut self.slowlog_max_len, number_within(0..=MAX_SLOWLOG)(text))
            }
            "drain-timeout" => put(&mut self.drain_timeout, duration_within(0..=HOUR_MS)(text)),
            "allow-flush" => put(&mut self.allow_flush, switch(text)),
            "redis-version" => put(&mut self.redis_version, redis_version(text)),
            _ => return None,
        })
    }

    /// Returns each setting's name and meaning, without passwords.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let secret = if self.requirepass.is_some() { "***" } else { "none" };
        let users: Vec<&str> = self.users.all().map(|user| &**user.name()).collect();
        vec![
            ("no-ttl", self.no_ttl.to_string()),
            ("requirepass", secret.to_owned()),
            ("users", users.join(",")),
            ("max-clients", self.max_clients.to_string()),
            ("max-clients-per-user", self.max_clients_per_user.unwrap_or_default().to_string()),
            ("timeout", shown_duration(self.timeout)),
            ("tcp-keepalive", shown_duration(self.tcp_keepalive)),
            ("max-output-bytes", self.max_output_bytes.to_string()),
            ("max-memory-clients", self.max_memory_clients.to_string()),
            ("slowlog-log-slower-than", self.slowlog_log_slower_than.to_string()),
            ("slowlog-max-len", self.slowlog_max_len.to_string()),
            ("drain-timeout", shown_duration(self.drain_timeout)),
            ("allow-flush", self.allow_flush.to_string()),
            ("redis-version", self.redis_version.clone().unwrap_or_else(|| "auto".to_owned())),
        ]
    }

    /// Returns the names of the settings in which `other` differs.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let mut names = super::differences(&self.fields(), &other.fields());
        if self.requirepass != other.requirepass && !names.contains(&"requirepass") {
            names.push("requirepass");
        }
        let has_other_users = self.users != other.users && self.requirepass == other.requirepass;
        if has_other_users && !names.contains(&"users") {
            names.push("users");
        }
        names
    }
}

fn put<T>(slot: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *slot = value)
}

/// File descriptors are 32-bit numbers.
const MAX_CLIENTS: usize = i32::MAX as usize;

/// Less would not hold the replies of one pipeline.
const MIN_OUTPUT_BYTES: usize = 64 << 10;

const MAX_OUTPUT_BYTES: usize = 4 << 30;

/// Each entry keeps a key, and the log is for people.
const MAX_SLOWLOG: usize = 100_000;

const HOUR_MS: u64 = 3_600_000;

const DAY_MS: u64 = 24 * HOUR_MS;

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
