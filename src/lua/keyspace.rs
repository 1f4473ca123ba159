//! Scripts that keep registers on masters.

use std::sync::LazyLock;

use sha1_smol::Sha1;

use crate::decision::keyspace::remembered::Keep;

/// Time after a register's end at which masters clean it up, in milliseconds: more than their clocks are ahead.
pub const SLACK_MS: u64 = 60_000;

/// Maximum length of a reply that a stamp keeps, in bytes.
pub const LONGEST_REPLY: usize = 1024;

/// Limits on the programs that a stamp remembers. Ten minutes are far longer than anyone waits for one.
pub const KEEP: Keep = Keep { last: 2, workers: 16, age_us: 600_000_000 };

/// Lua that distinguishes types.
pub(super) const KIND: &str = include_str!("keyspace/kind.lua");

/// Lua that finds the programs in a stamp.
pub(super) const RECENT: &str = include_str!("keyspace/recent.lua");

/// Lua that compares ballots.
pub(super) const BELOW: &str = include_str!("keyspace/below.lua");

/// Lua that determines which programs are remembered after one more, with the help of [`BELOW`].
pub(super) const REMEMBERED: &str = include_str!("keyspace/remembered.lua");

/// Lua that reads stamps, with the help of [`KIND`], [`BELOW`] and [`RECENT`].
pub(super) const STAMP: &str = include_str!("keyspace/stamp.lua");

/// Script that promises a ballot, and shows what the keys hold.
pub static PREPARE: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/begin.lua"), include_str!("keyspace/prepare.lua")))
});

/// Script that empties databases.
pub static FLUSH: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/begin.lua"), include_str!("keyspace/flush.lua")))
});

/// Script that accepts states.
pub static ADOPT: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(
        include_str!("keyspace/lease_without.lua"),
        include_str!("keyspace/adopt.lua")
    ))
});

/// Script that fetches the content of keys.
pub static FETCH: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/fetch.lua")));

/// Script that closes states that a quorum holds.
pub static CLOSE: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/close.lua")));

/// Script that drops stamps.
pub static FORGET: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/forget.lua")));

/// Script that shows a master's progress on keys.
pub static HEADS: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("keyspace/heads.lua")));

/// Script that shows a master's records of registers, for copies to another master.
pub static SHOW: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("copy/registers.lua")));

/// Script that fetches the content of those registers.
pub static HELD: LazyLock<Text> = LazyLock::new(|| Text::of(include_str!("copy/held.lua")));

/// Script that gives registers to a master that has forgotten them.
pub static GIVE: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/lease_without.lua"), include_str!("copy/give.lua")))
});

/// Script that drops what such a master has accepted too late.
pub static CLEAR: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/lease_without.lua"), include_str!("copy/clear.lua")))
});

/// Script that raises the tails of the marks of such a master.
pub static FLOORS: LazyLock<Text> = LazyLock::new(|| {
    Text::of(concat!(include_str!("keyspace/begin.lua"), include_str!("copy/floors.lua")))
});

/// Script that shows a key to readers, on masters that queue no commands.
pub const LOOK: &str = include_str!("keyspace/look.lua");

/// Returns the scripts that are loaded on every master.
pub fn all() -> [&'static Text; 7] {
    [&FLUSH, &PREPARE, &ADOPT, &FETCH, &CLOSE, &FORGET, &HEADS]
}

/// Returns the script, after the Lua that it needs to read stamps.
pub fn on_stamps(script: &str) -> String {
    let stamp = STAMP.replace("RECENT_OF", RECENT).replace("IS_BELOW", BELOW);
    ["local call, sub = redis.call, string.sub\n", KIND, &stamp, script]
        .concat()
        .replace("SLACK_MS", &SLACK_MS.to_string())
}

/// Script of the proxy.
#[derive(Debug)]
pub struct Text {
    /// Text of the script.
    pub text: String,
    /// SHA1 by which masters know it, in hex.
    pub sha: String,
}

impl Text {
    fn of(script: &str) -> Self {
        let text = on_stamps(script);
        let sha = Sha1::from(&text).hexdigest();
        Self { text, sha }
    }
}
