//! The scripts by which masters keep registers.

use std::sync::LazyLock;

/// How much later than a register's end masters clean it up, in milliseconds: by more than their clocks are ahead.
pub const SLACK_MS: u64 = 60_000;

/// The longest reply that a stamp keeps, in bytes.
pub const LONGEST_REPLY: usize = 1024;

/// How many programs a stamp remembers.
pub const KEEP: usize = 4;

/// Tells types.
pub(super) const KIND: &str = include_str!("keyspace/kind.lua");

/// Finds the programs in a stamp.
pub(super) const RECENT: &str = include_str!("keyspace/recent.lua");

/// Reads stamps, with the help of [`KIND`] and [`RECENT`].
pub(super) const STAMP: &str = include_str!("keyspace/stamp.lua");

/// The script that promises a ballot, and shows what the keys hold.
pub static PREPARE: LazyLock<String> = LazyLock::new(|| text(include_str!("keyspace/prepare.lua")));

/// The script that accepts states.
pub static ADOPT: LazyLock<String> = LazyLock::new(|| text(include_str!("keyspace/adopt.lua")));

/// The script that fetches what keys hold.
pub static FETCH: LazyLock<String> = LazyLock::new(|| text(include_str!("keyspace/fetch.lua")));

/// The script that closes states which a quorum holds.
pub static CLOSE: LazyLock<String> = LazyLock::new(|| text(include_str!("keyspace/close.lua")));

/// The script that drops stamps.
pub static FORGET: LazyLock<String> = LazyLock::new(|| text(include_str!("keyspace/forget.lua")));

fn text(script: &str) -> String {
    let stamp = STAMP.replace("RECENT_OF", RECENT);
    ["local call, sub = redis.call, string.sub\n", KIND, &stamp, script]
        .concat()
        .replace("SLACK_MS", &SLACK_MS.to_string())
}
