//! State of a key on a server, read directly from it.

use super::side_by_side::sorted;
use super::{Master, Raw, Reply};

/// Type, content and time to live of a key.
#[derive(Clone, Debug)]
pub struct State {
    pub kind: String,
    pub content: Reply,
    /// -1 for a key that never expires, -2 for a missing one, as in `PTTL`.
    pub ttl_ms: i64,
    /// Unix time at which the key expires, which does not change as time passes.
    pub expires_at_ms: i64,
}

impl State {
    /// Reads the state over a RESP3 connection, so that a hash comes in pairs.
    pub async fn of(key: &str, server: &mut Raw) -> State {
        let kind = server.ask(&["TYPE", key]).await.text();
        let content = match kind.as_str() {
            "none" => Reply::Nil,
            "string" => less_tag(server.ask(&["GET", key]).await),
            "hash" => server.ask(&["HGETALL", key]).await,
            "set" => server.ask(&["SMEMBERS", key]).await,
            "zset" => server.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await,
            "list" => server.ask(&["LRANGE", key, "0", "-1"]).await,
            "stream" => server.ask(&["XRANGE", key, "-", "+"]).await,
            other => panic!("no test makes a {other}"),
        };
        let ttl_ms = number(server, &["PTTL", key]).await;
        State { kind, content, ttl_ms, expires_at_ms: number(server, &["PEXPIRETIME", key]).await }
    }

    pub async fn on(master: &Master, key: &str) -> State {
        State::of(key, &mut Raw::connect_resp3(&master.address()).await).await
    }

    /// Whether type and content are the same, whatever the time to live.
    pub fn holds_the_same(&self, other: &State) -> bool {
        let unordered = ["set", "hash"].contains(&self.kind.as_str());
        let same = if unordered {
            sorted(&self.content) == sorted(&other.content)
        } else {
            self.content == other.content
        };
        self.kind == other.kind && same
    }

    /// Whether only time has passed. The expiry must also be the same, except for the moment that
    /// it takes to put a key back.
    pub fn is_still(&self, before: &State) -> bool {
        let moved = (self.expires_at_ms - before.expires_at_ms).abs();
        let for_ever = self.expires_at_ms < 0 || before.expires_at_ms < 0;
        self.holds_the_same(before) && (moved == 0 || (!for_ever && moved <= MOMENT_MS))
    }
}

/// Whether all masters hold the same types and contents under these keys, with the same expiries.
pub async fn all_hold_the_same(masters: &[Master], keys: &[impl AsRef<str>]) -> bool {
    let mut servers = Vec::new();
    for master in masters {
        servers.push(Raw::connect_resp3(&master.address()).await);
    }
    for key in keys {
        let first = State::of(key.as_ref(), &mut servers[0]).await;
        for server in &mut servers[1..] {
            let other = State::of(key.as_ref(), server).await;
            if !first.holds_the_same(&other) || first.expires_at_ms != other.expires_at_ms {
                return false;
            }
        }
    }
    true
}

/// A string as clients see it, without the tag that masters store before it.
pub fn less_tag(value: Reply) -> Reply {
    match value {
        Reply::Bulk(value) => Reply::Bulk(token(&value).to_vec()),
        other => other,
    }
}

/// Returns the part after the tag of a value stored on a master; the whole value if it has no tag.
pub fn token(value: &[u8]) -> &[u8] {
    redlock_proxy::decision::lease::attempt::Stored::decode(value).token
}

async fn number(server: &mut Raw, request: &[&str]) -> i64 {
    match server.ask(request).await {
        Reply::Int(number) => number,
        other => panic!("{request:?} should answer an integer, not {other:?}"),
    }
}

/// Shorter than the padding of any time to live in the tests that use this.
const MOMENT_MS: i64 = 1000;
