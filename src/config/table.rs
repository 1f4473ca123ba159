//! The table of settings, from which flags, environment variables, the keys of the file, `CONFIG GET`, `CONFIG SET` and
//! the manual are generated.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::memory::MemoryLimit;
use super::rules::{ColdStart, NoTtl};
use super::setting::{Access, Field, Setting, Shape, list, one, toggle};
use super::values::{
    DAY_MS, HOUR_MS, YEAR_MS, bytes_within, duration_within, lease, listen_address, number_within,
    path, redis_version, shown_duration, switch, unless,
};
use super::{Data, Live, Settings};

/// A field set by one word. A function of the field, or of its whole struct, shows the value.
macro_rules! field {
    ($owner:ident.$name:ident, $read:expr, $show:expr) => {
        field!($owner.$name, $read, of: |it| $show(&it.$name))
    };
    ($owner:ident.$name:ident, $read:expr, of: $show:expr) => {
        Field::$owner(Access {
            show: $show,
            set: Some(|it, text| $read(text).map(|value| it.$name = value)),
            differs: |_, _| false,
        })
    };
}

/// Returns the field for a value of [`Settings`] that depends on several settings.
const fn shown(show: fn(&Settings) -> String) -> Field {
    Field::Fixed(Access { show, set: None, differs: |_, _| false })
}

/// All settings, in the order of the help.
pub static SETTINGS: &[Setting] = &[
    list("masters", "HOST:PORT")
        .help("Master: host:port, redis:// or (over TLS) rediss://user:password@host:port")
        .flag("master")
        .field(Field::Fixed(Access {
            show: |it| if it.shards.is_empty() { joined(&it.masters) } else { String::new() },
            set: None,
            differs: |ours, theirs| ours.shards.is_empty() && ours.masters != theirs.masters,
        })),
    list("shards", "NAME=HOST:PORT")
        .help(
            "Instead of --master: one of several shards, clusters of masters that share the keys: NAME=host:port,...",
        )
        .flag("shard")
        .field(Field::Fixed(Access {
            show: |it| joined(&it.shards),
            set: None,
            differs: |ours, theirs| ours.shards != theirs.shards,
        })),
    one("data", "URL")
        .help(
            "Redis for everything that is not a lock: redis://user:password@host:port/db, \
             rediss://, unix:/path, or sentinel://user:password@host:port,host:port/NAME/db. If \
             not set, all keys are locks",
        )
        .field(Field::Fixed(Access {
            show: |it| or_none(&it.data.as_ref().map(|data| &data.address)),
            set: None,
            differs: |ours, theirs| ours.data != theirs.data,
        })),
    one("data-user", "NAME").help("User for the data Redis, if its URL names none"),
    one("data-password-file", "FILE").help("File with that user's password"),
    one("data-sentinel-password-file", "FILE")
        .help("File with the password of the sentinels themselves, if --data names some"),
    list("lock-keys", "PATTERN")
        .help("With --data, the keys that are locks, such as lock:*")
        .field(shown(|it| patterns(it.data.as_ref().map(|data| &data.locks.keys)))),
    list("lock-channels", "PATTERN")
        .help("With --data, the channels that belong to locks")
        .field(shown(|it| patterns(it.data.as_ref().map(|data| &data.locks.channels)))),
    toggle("also-claim-on-data")
        .help("Take every lock on the data Redis as well, while old instances still lock there")
        .default("false")
        .field(shown(|it| it.data.as_ref().is_some_and(|data| data.has_locks).to_string())),
    one("warn-unmatched-after", "DURATION")
        .help(
            "Time with requests but without a match after which a pattern of --lock-keys or \
             --lock-channels is warned about; 0s never warns",
        )
        .default("1h")
        .field(shown(|it| {
            let data = it.data.as_ref();
            shown_duration(&data.map_or(Data::WARN_UNMATCHED_AFTER, |it| it.warn_unmatched_after))
        })),
    one("listen", "HOST:PORT")
        .help("Address for clients, or none")
        .default("127.0.0.1:6379")
        .field(field!(Fixed.listen, unless("none", listen_address), or_none)),
    one("tls-listen", "HOST:PORT")
        .help("Address for clients that use TLS, in addition to --listen")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| &tls.listen)))),
    one("tls-cert-file", "FILE")
        .help("The proxy's certificate and its chain, in PEM format")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| tls.files.pair.cert.display())))),
    one("tls-key-file", "FILE")
        .help("Private key of that certificate")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| tls.files.pair.key.display())))),
    one("tls-ca-cert-file", "FILE")
        .help("Authorities that sign the clients' certificates, in PEM format")
        .field(shown(|it| {
            let authorities = it.tls.as_ref().and_then(|tls| tls.files.authorities.as_ref());
            or_none(&authorities.map(|path| path.display()))
        })),
    one("tls-auth-clients", "RULE")
        .help("Client certificates: yes (if not set, with --tls-ca-cert-file), optional or no")
        .field(shown(|it| or_none(&it.tls.as_ref().map(|tls| tls.files.auth_clients)))),
    one("unixsocket", "PATH")
        .help("Unix socket for clients on this host, in addition to --listen")
        .field(shown(|it| or_none(&it.unix_socket.as_ref().map(|socket| socket.path.display())))),
    one("unixsocketperm", "MODE")
        .help("Mode of that socket, such as 770; if not set, the umask applies")
        .field(shown(|it| {
            let mode = it.unix_socket.as_ref().and_then(|socket| socket.mode);
            or_none(&mode.map(|mode| format!("{mode:o}")))
        })),
    one("master-user", "NAME").help("User for masters whose URL names none"),
    one("master-password-file", "FILE")
        .help("File with the password for masters whose URL has none"),
    one("master-tls-ca-cert-file", "FILE")
        .help("Authorities of the certificates of rediss:// masters; if not set, the system's")
        .field(shown(|it| {
            or_none(&it.master_tls.files.authorities.as_ref().map(|it| it.display()))
        })),
    one("master-tls-cert-file", "FILE")
        .help("Certificate to present to such masters")
        .field(shown(|it| or_none(&it.master_tls.files.pair.as_ref().map(|it| it.cert.display())))),
    one("master-tls-key-file", "FILE")
        .help("Private key of that certificate")
        .field(shown(|it| or_none(&it.master_tls.files.pair.as_ref().map(|it| it.key.display())))),
    one("master-tls-server-name", "NAME")
        .help("Name in the certificates of such masters; if not set, the host in their address")
        .field(shown(|it| or_none(&it.master_tls.server_name))),
    one("admin", "HOST:PORT")
        .help("HTTP address of metrics and the status page for operators")
        .field(field!(Fixed.admin, unless("", listen_address), or_none)),
    list("admin-host", "NAME")
        .help("Hostname by which operators reach it, in addition to IP addresses and localhost")
        .field(shown(|it| joined(&it.admin_host))),
    one("vote-timeout", "DURATION")
        .help("Time that a verdict waits for a silent minority of masters")
        .default("50ms")
        .field(field!(Fixed.vote_timeout, duration_within(1..=10_000), shown_duration)),
    one("patience", "DURATION")
        .help("Time that a client waits for a silent quorum of masters")
        .default("1.5s")
        .field(field!(Fixed.patience, duration_within(1..=60_000), shown_duration)),
    one("max-ttl", "DURATION").help("Longest TTL that a client may ask for").default("none").field(
        field!(
            Fixed.max_ttl,
            unless("none", lease),
            of: |it| or_none(&it.max_ttl.as_ref().map(shown_duration))
        ),
    ),
    one("drift", "FACTOR").help("Clock drift factor of Redlock").default("0.01").field(field!(
        Fixed.drift,
        number_within(0.0..=0.5),
        f64::to_string
    )),
    one("split-vote-retries", "N")
        .help("Number of retries of a claim that nobody won")
        .default("3")
        .field(field!(Fixed.split_vote_retries, number_within(0..=100), u32::to_string)),
    one("split-vote-delay", "DURATION")
        .help("Longest random pause before such a retry")
        .default("20ms")
        .field(field!(Fixed.split_vote_delay, duration_within(1..=10_000), shown_duration)),
    one("fair-waiting", "DURATION")
        .help("Longest wait for a held key of a client that polls for it")
        .default("5ms")
        .field(field!(Fixed.fair_waiting, duration_within(0..=1000), shown_duration)),
    one("no-ttl", "RULE")
        .help("Treatment of locks without a TTL: keep, reject or lease=DURATION")
        .default("keep")
        .field(field!(Live.no_ttl, NoTtl::read, NoTtl::to_string)),
    one("requirepass", "PASSWORD")
        .help("Password that clients must give; safer in the environment or the file")
        .field(Field::Live(Access {
            show: |it| it.requirepass.as_ref().map_or("none", |_| "***").to_owned(),
            set: None,
            differs: |ours, theirs| ours.requirepass != theirs.requirepass,
        })),
    one("requirepass-file", "FILE").help("File with that password"),
    list("users", "RULES")
        .help("Additional users, each as in an ACL file")
        .shape(Shape::OnlyInFile)
        .field(Field::Live(Access {
            show: |it| joined(it.users.all().map(|user| user.name())),
            set: None,
            // The password of the default user is a separate setting.
            differs: |ours, theirs| {
                ours.users != theirs.users && ours.requirepass == theirs.requirepass
            },
        })),
    one("protected-mode", "BOOL")
        .help("Refuse to listen for other hosts without a password or client certificates")
        .default("true")
        .field(field!(Fixed.protected_mode, switch, bool::to_string)),
    one("max-clients", "N")
        .help("Maximum number of connected clients")
        .default("10000")
        .field(field!(Live.max_clients, number_within(1..=MAX_CLIENTS), usize::to_string)),
    one("max-clients-per-user", "N")
        .help("Maximum number of clients logged in as one user; 0 is no limit")
        .default("0")
        .field(field!(
            Live.max_clients_per_user,
            most_per_user,
            of: |it| it.max_clients_per_user.unwrap_or_default().to_string()
        )),
    one("timeout", "DURATION")
        .help("Silence after which a client is disconnected; 0 never does")
        .default("0")
        .field(field!(Live.timeout, duration_within(0..=YEAR_MS), shown_duration)),
    one("tcp-keepalive", "DURATION")
        .help("Silence after which a client is probed by TCP; 0 never does")
        .default("5m")
        .field(field!(Live.tcp_keepalive, duration_within(0..=DAY_MS), shown_duration)),
    one("max-request-bytes", "BYTES")
        .help("Largest request, headers included, such as 1048576 or 64kb")
        .default("1mb")
        .field(field!(Fixed.max_request_bytes, bytes_within(REQUEST_BYTES), usize::to_string)),
    one("max-output-bytes", "BYTES")
        .help("Size of unread replies beyond which a client is disconnected, such as 64mb")
        .default("64mb")
        .field(field!(Live.max_output_bytes, bytes_within(OUTPUT_BYTES), usize::to_string)),
    one("max-memory-clients", "BYTES")
        .help(
            "Memory of all clients together beyond which those that use the most are disconnected: bytes, a \
             percentage, or 0 for no limit",
        )
        .default("256mb")
        .field(field!(Live.max_memory_clients, MemoryLimit::parse, MemoryLimit::to_string)),
    one("slowlog-log-slower-than", "MICROSECONDS")
        .help("Duration beyond which SLOWLOG records a request; 0 records all, -1 none")
        .shape(Shape::Signed)
        .default("10000")
        .field(field!(Live.slowlog_log_slower_than, number_within(-1..=i64::MAX), i64::to_string)),
    one("slowlog-max-len", "N")
        .help("Number of SLOWLOG entries to keep")
        .default("128")
        .field(field!(Live.slowlog_max_len, number_within(0..=MAX_SLOWLOG), usize::to_string)),
    one("workers", "N").help("Number of threads that serve clients").default("1").field(field!(
        Fixed.workers,
        number_within(1..=64),
        usize::to_string
    )),
    one("log-format", "FORMAT")
        .help("Format of the log: text or json; RUST_LOG is its filter")
        .default("text"),
    one("restart-wait", "DURATION")
        .help(
            "Time that a restarted master must not vote if its locks cannot be copied back: the \
             longest TTL in use; auto is --max-ttl, or 1m",
        )
        .default("auto")
        .field(field!(
            Fixed.restart_wait,
            unless("auto", duration_within(0..=YEAR_MS)),
            of: |it| shown_duration(&it.restart_wait())
        )),
    one("cold-start", "RULE")
        .help("Masters that were all started a short while ago: trust them to vote, or wait")
        .default("trust")
        .field(field!(Fixed.cold_start, ColdStart::read, ColdStart::to_string)),
    one("drain-timeout", "DURATION")
        .help("Time to finish requests in flight on shutdown")
        .default("10s")
        .field(field!(Live.drain_timeout, duration_within(0..=HOUR_MS), shown_duration)),
    one("handover", "PATH")
        .help("Socket through which a running proxy hands its clients over to its successor")
        .field(field!(
            Fixed.handover,
            unless("", path),
            of: |it| or_none(&it.handover.as_ref().map(|path| path.display()))
        )),
    toggle("allow-flush").help("Allow FLUSHDB and FLUSHALL").default("false").field(field!(
        Live.allow_flush,
        switch,
        bool::to_string
    )),
    one("redis-version", "VERSION")
        .help("Redis version reported to clients, such as 7.4.0")
        .default("auto")
        .field(field!(
            Live.redis_version,
            unless("auto", redis_version),
            of: |it| it.redis_version.clone().unwrap_or_else(|| "auto".to_owned())
        )),
];

/// Returns the setting with this name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Returns the names of settings that are fixed until the next start, with access to each.
pub(super) fn fixed() -> impl Iterator<Item = (&'static str, &'static Access<Settings>)> {
    SETTINGS.iter().filter_map(|setting| match &setting.field {
        Field::Fixed(access) => Some((setting.name, access)),
        _ => None,
    })
}

/// Returns the names of settings that can change while the proxy runs, with access to each.
pub(super) fn live() -> impl Iterator<Item = (&'static str, &'static Access<Live>)> {
    SETTINGS.iter().filter_map(|setting| match &setting.field {
        Field::Live(access) => Some((setting.name, access)),
        _ => None,
    })
}

/// Parses the limit per user; zero is no limit.
fn most_per_user(text: &str) -> Result<Option<usize>, String> {
    number_within(0..=MAX_CLIENTS)(text).map(|most| (most > 0).then_some(most))
}

fn or_none(value: &Option<impl Display>) -> String {
    value.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn joined(items: impl IntoIterator<Item = impl Display>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(",")
}

fn patterns(patterns: Option<&Vec<Box<[u8]>>>) -> String {
    joined(patterns.into_iter().flatten().map(|pattern| String::from_utf8_lossy(pattern)))
}

/// File descriptors are 32-bit numbers.
const MAX_CLIENTS: usize = i32::MAX as usize;

/// Smaller limits would not hold the requests of common client libraries during their handshake; the maximum is
/// `proto-max-bulk-len` of Redis.
const REQUEST_BYTES: RangeInclusive<usize> = 1 << 10..=512 << 20;

/// Smaller limits would not hold the replies of one pipeline.
const OUTPUT_BYTES: RangeInclusive<usize> = 64 << 10..=4 << 30;

/// Each entry keeps a key, and the log is for people.
const MAX_SLOWLOG: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_shown_is_about_a_password_or_the_log() {
        let hidden = SETTINGS.iter().filter(|setting| matches!(setting.field, Field::None));
        let names: Vec<_> = hidden.map(|setting| setting.name).collect();
        let about_data = ["data-user", "data-password-file", "data-sentinel-password-file"];
        let others = ["master-user", "master-password-file", "requirepass-file", "log-format"];
        assert_eq!(names, [&about_data[..], &others].concat());
    }
}
