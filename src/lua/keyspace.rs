//! The scripts by which masters keep registers.

use std::sync::LazyLock;

use sha1_smol::Sha1;

use crate::decision::keyspace::remembered::Keep;

/// How much later than a register's end masters clean it up, in milliseconds: by more than their clocks are ahead.
pub const SLACK_MS: u64 = 60_000;

/// The longest reply that a stamp keeps, in bytes.
pub const LONGEST_REPLY: usize = 1024;

/// How many programs a stamp remembers. Ten minutes are far longer than anybody waits for one.
pub const KEEP: Keep = Keep { last: 2, workers: 16, age_us: 600_000_000 };

/// Tells types.
pub(super) const KIND: &str = include_str!("keyspace/kind.lua");

/// Finds the programs in a stamp.
pub(super) const RECENT: &str = include_str!("keyspace/recent.lua");

/// Compares ballots.
pub(super) const BELOW: &str = include_str!("keyspace/below.lua");

/// Tells which programs are remembered after one more, with the help of [`BELOW`].
pub(super) const REMEMBERED: &str = include_str!("keyspace/remembered.lua");

/// Reads stamps, with the help of [`KIND`], [`BELOW`] and [`RECENT`].
pub(super) const STAMP: &str = include_str!("keyspace/stamp.lua");

/// The script that promises a ballot, and shows what the keys hold.
pub static PREPARE: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/begin.lua"), include_str!("keyspace/prepare.lua")))
});

/// The script that empties databases.
pub static FLUSH: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/begin.lua"), include_str!("keyspace/flush.lua")))
});

/// The script that accepts states.
pub static ADOPT: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(
        include_str!("keyspace/lease_without.lua"),
        include_str!("keyspace/adopt.lua")
    ))
});

/// The script that fetches what keys hold.
pub static FETCH: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/fetch.lua")));

/// The script that closes states which a quorum holds.
pub static CLOSE: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/close.lua")));

/// The script that drops stamps.
pub static FORGET: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/forget.lua")));

/// The script that shows how far a master is.
pub static HEADS: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/heads.lua")));

/// The script that shows what a master keeps of registers, for those that copy them.
pub static SHOW: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("copy/registers.lua")));

/// The script that fetches what they hold.
pub static HELD: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("copy/held.lua")));

/// The script that gives registers to a master that has forgotten them.
pub static GIVE: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/lease_without.lua"), include_str!("copy/give.lua")))
});

/// The script that drops what such a master has accepted too late.
pub static CLEAR: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/lease_without.lua"), include_str!("copy/clear.lua")))
});

/// The script that raises the tails of the marks of such a master.
pub static FLOORS: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/begin.lua"), include_str!("copy/floors.lua")))
});

/// The script that shows a key to who only reads, where masters queue no commands.
pub const LOOK: &str = include_str!("keyspace/look.lua");

/// Those that are loaded on every master.
pub fn all() -> [&'static Text; 7] {
    [&FLUSH, &PREPARE, &ADOPT, &FETCH, &CLOSE, &FORGET, &HEADS]
}

/// Returns the script with what it needs before it to read stamps.
pub fn on_stamps(script: &str) -> String {
    let stamp = STAMP.replace("RECENT_OF", RECENT).replace("IS_BELOW", BELOW);
    ["local call, sub = redis.call, string.sub\n", KIND, &stamp, script]
        .concat()
        .replace("SLACK_MS", &SLACK_MS.to_string())
}

/// A script of ours.
#[derive(Debug)]
pub struct Text {
    /// Itself.
    pub text: String,
    /// The SHA1 by which masters know it, in hex.
    pub sha: String,
}

impl Text {
    fn of(script: &str) -> Self {
        let text = on_stamps(script);
        let sha = Sha1::from(&text).hexdigest();
        Self { text, sha }
    }
}
