//! For those who run the proxy.

use super::{joined, or_none, shown};
use crate::catalogue::events::EventClasses;
use crate::config::setting::{Access, Field, Setting, Shape, list, one};
use crate::config::values::{
    HOUR_MS, admin_place, duration_within, event_classes, number_within, path, redis_version,
    shown_duration, unless,
};

pub(super) static SETTINGS: &[Setting] = &[
    one("admin", "HOST:PORT|PATH")
        .brief("Address of metrics and the status page")
        .help("HTTP address, or Unix socket, of metrics and the status page for operators")
        .field(field!(Fixed.admin, unless("", admin_place), or_none)),
    list("admin-host", "NAME")
        .help("Hostname by which operators reach it, in addition to IP addresses and localhost")
        .field(shown(|it| joined(&it.admin_host))),
    one("log-format", "FORMAT")
        .help("Format of the log: text or json; RUST_LOG is its filter")
        .default("text"),
    one("slowlog-log-slower-than", "MICROSECONDS")
        .help("Duration beyond which SLOWLOG records a request; 0 records all, -1 none")
        .shape(Shape::Signed)
        .default("10000")
        .field(field!(Live.slowlog_log_slower_than, number_within(-1..=i64::MAX), i64::to_string)),
    one("slowlog-max-len", "N")
        .help("Number of SLOWLOG entries to keep")
        .default("128")
        .field(field!(Live.slowlog_max_len, number_within(0..=MAX_SLOWLOG), usize::to_string)),
    one("notify-keyspace-events", "CLASSES")
        .help("Events of keys to publish, as in redis.conf: KEA for all; empty for none")
        .field(field!(Live.notify_keyspace_events, event_classes, EventClasses::to_string)),
    one("workers", "N").help("Number of threads that serve clients").default("1").field(field!(
        Fixed.workers,
        number_within(1..=64),
        usize::to_string
    )),
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
    one("redis-version", "VERSION")
        .help("Redis version reported to clients, such as 7.4.0")
        .default("auto")
        .field(field!(
            Live.redis_version,
            unless("auto", redis_version),
            of: |it| it.redis_version.clone().unwrap_or_else(|| "auto".to_owned())
        )),
];

/// Each entry keeps a key, and the log is for people.
const MAX_SLOWLOG: usize = 100_000;
