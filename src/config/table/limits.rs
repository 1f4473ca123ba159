//! Limits on clients.

use std::ops::RangeInclusive;

use crate::config::memory::MemoryLimit;
use crate::config::setting::{Access, Field, Setting, one};
use crate::config::values::{
    DAY_MS, YEAR_MS, bytes_within, duration_within, number_within, shown_duration,
};

pub(super) static SETTINGS: &[Setting] = &[
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
];

/// Parses the limit per user; zero is no limit.
fn most_per_user(text: &str) -> Result<Option<usize>, String> {
    number_within(0..=MAX_CLIENTS)(text).map(|most| (most > 0).then_some(most))
}

/// File descriptors are 32-bit numbers.
const MAX_CLIENTS: usize = i32::MAX as usize;

/// Smaller limits would not hold the requests of common client libraries during their handshake; the maximum is
/// `proto-max-bulk-len` of Redis.
const REQUEST_BYTES: RangeInclusive<usize> = 1 << 10..=512 << 20;

/// Smaller limits would not hold the replies of one pipeline.
const OUTPUT_BYTES: RangeInclusive<usize> = 64 << 10..=4 << 30;
