//! Reads of registers return what a quorum has decided, until it expires, whatever single masters hold.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::Duration;

use support::{Master, Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis, words};

/// Longer than any test.
const LONG_MS: i64 = 600_000;

/// Extra time that masters keep a register beyond its life (`SLACK_MS`).
const SLACK_MS: i64 = 60_000;

fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    Some((masters, proxy))
}

async fn ask(client: &mut Raw, line: &str) -> Reply {
    client.ask(&words(line)).await
}

/// Makes the master forget the key and its stamp.
async fn lose(master: &Master, key: &str) {
    master.ask(&["DEL", key, &companion(key)]).await;
}

fn companion(key: &str) -> String {
    format!("redlock-proxy:s:{key}")
}

async fn all_have(masters: &Masters, key: &str) {
    eventually("all masters have it", || async {
        let mut count = 0;
        for master in masters.iter() {
            count += usize::from(master.has(&companion(key)).await);
        }
        (count == masters.len()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_one_master_has_lost_is_never_absent() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET string v").await;
    ask(&mut client, "HSET hash f v").await;
    for key in ["string", "hash"] {
        all_have(&masters, key).await;
        lose(&masters[0], key).await;
    }
    // No quorum of masters agrees now without a promise: one has it, one does not, one is silent.
    masters[2].stop();
    assert_eq!(ask(&mut client, "GET string").await, Reply::bulk("v"));
    assert_eq!(ask(&mut client, "HGET hash f").await, Reply::bulk("v"));
    assert_eq!(ask(&mut client, "EXISTS string hash").await, Reply::Int(2));
    masters[2].cont();
}

/// Two masters have decided a state that the third has missed, and one of the two is away: only the other knows.
#[tokio::test]
async fn what_was_answered_is_read_although_one_master_alone_shows_it() {
    let Some((masters, proxy)) = three_masters() else { return };
    let other = Proxy::start(&masters, &[]);
    let (mut client, mut elsewhere) = (proxy.raw().await, other.raw().await);
    ask(&mut client, "SET k old").await;
    all_have(&masters, "k").await;
    let missed = Kept::on(&masters[2], "k").await;
    assert_eq!(ask(&mut client, "SET k new").await, Reply::ok());
    for master in masters.iter() {
        master.holds("k", "new").await;
    }
    missed.put_back(&masters[2], "k").await;
    masters[0].stop();
    for client in [&mut client, &mut elsewhere] {
        assert_eq!(ask(client, "GET k").await, Reply::bulk("new"));
    }
    masters[0].cont();
    for master in masters.iter() {
        master.holds("k", "new").await;
    }
}

/// A register as one master holds it.
struct Kept {
    value: Vec<u8>,
    stamp: Vec<u8>,
}

impl Kept {
    async fn on(master: &Master, key: &str) -> Self {
        let value = master.ask(&["DUMP", key]).await.bytes();
        Self { value, stamp: master.ask(&["GET", &companion(key)]).await.bytes() }
    }

    /// Restores this state on the master, as if it had missed everything later.
    async fn put_back(&self, master: &Master, key: &str) {
        let restore = [b"RESTORE", key.as_bytes(), b"0", &self.value, b"REPLACE"];
        assert_eq!(master.ask(&restore).await, Reply::ok());
        let companion = companion(key);
        master.ask(&[b"SET", companion.as_bytes(), &self.stamp]).await;
    }
}

#[tokio::test]
async fn times_are_what_was_asked_for_although_masters_keep_it_longer() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, &format!("SET k v PX {LONG_MS}")).await;
    ask(&mut client, "HSET h f v").await;
    ask(&mut client, &format!("PEXPIRE h {LONG_MS}")).await;
    for key in ["k", "h"] {
        all_have(&masters, key).await;
        assert!(masters[0].pttl(key).await > LONG_MS + SLACK_MS / 2, "masters keep it");
        let Reply::Int(left) = ask(&mut client, &format!("PTTL {key}")).await else { panic!() };
        assert!((LONG_MS - 30_000..=LONG_MS).contains(&left), "{left}");
        let Reply::Int(seconds) = ask(&mut client, &format!("TTL {key}")).await else { panic!() };
        assert!((LONG_MS / 1000 - 30..=LONG_MS / 1000).contains(&seconds), "{seconds}");
        let end = ask(&mut client, &format!("PEXPIRETIME {key}")).await;
        let Reply::Int(end) = end else { panic!("{end:?}") };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.expect("after 1970").as_millis() as i64;
        assert!((-30_000..=1000).contains(&(end - now - LONG_MS)), "{end}");
    }
    assert_eq!(ask(&mut client, "PTTL nothing").await, Reply::Int(-2));
    ask(&mut client, "PERSIST k").await;
    assert_eq!(ask(&mut client, "PTTL k").await, Reply::Int(-1));
}

#[tokio::test]
async fn what_has_ended_is_not_seen_although_masters_still_have_it() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    let keys = ["string", "hash", "list", "other"];
    for line in [
        "SET string v PX 200",
        "HSET hash f v",
        "RPUSH list a b",
        "SET other v PX 200",
        "PEXPIRE hash 200",
        "PEXPIRE list 200",
    ] {
        assert!(!ask(&mut client, line).await.is_error(""), "{line}");
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    for key in keys {
        assert!(masters[0].has(key).await, "{key} is still there on a master");
    }
    assert_eq!(ask(&mut client, "HGETALL hash").await, Reply::Array(Vec::new()));
    assert_eq!(ask(&mut client, "LRANGE list 0 -1").await, Reply::Array(Vec::new()));
    assert_eq!(ask(&mut client, "EXISTS string hash list").await, Reply::Int(0));
    assert_eq!(ask(&mut client, "GET string").await, Reply::Nil);
    assert_eq!(ask(&mut client, "MGET other").await, Reply::Array(vec![Reply::Nil]));
    for key in keys {
        assert_eq!(ask(&mut client, &format!("PTTL {key}")).await, Reply::Int(-2), "{key}");
        assert_eq!(ask(&mut client, &format!("TYPE {key}")).await.text(), "none", "{key}");
    }
}

/// A lock is read as it is, even where it follows a register.
#[tokio::test]
async fn a_lease_is_read_less_its_tag_beside_what_is_left_of_a_register() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET k v").await;
    ask(&mut client, "GETDEL k").await;
    all_have(&masters, "k").await;
    assert_eq!(ask(&mut client, "GET k").await, Reply::Nil);
    assert_eq!(ask(&mut client, "SET k token NX PX 600000").await, Reply::ok());
    assert_eq!(ask(&mut client, "GET k").await, Reply::bulk("token"));
    assert_eq!(ask(&mut client, "STRLEN k").await, Reply::Int(5));
    assert_eq!(ask(&mut client, "EXISTS k").await, Reply::Int(1));
    assert_eq!(ask(&mut client, "TYPE k").await.text(), "string");
    assert_eq!(ask(&mut client, "GETBIT k 1").await, Reply::Int(1), "of a `t`");
    assert!(ask(&mut client, "LLEN k").await.is_error("WRONGTYPE"));
    let Reply::Int(left) = ask(&mut client, "PTTL k").await else { panic!() };
    assert!((500_000..=600_000).contains(&left), "{left}");
}

/// Masters reject an unknown subcommand before they look at any key.
#[tokio::test]
async fn what_is_no_command_is_refused_in_their_own_words() {
    let Some((_masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    let reply = ask(&mut client, "OBJECT nonsense k").await;
    assert!(reply.is_error("ERR unknown subcommand"), "{reply:?}");
    assert_eq!(ask(&mut client, "GET k").await, Reply::Nil);
}

async fn watch_and(proxy: &Proxy, meanwhile: impl AsyncFnOnce(&mut Raw)) -> Reply {
    let (mut client, mut other) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(ask(&mut client, "WATCH k").await, Reply::ok());
    meanwhile(&mut other).await;
    ask(&mut client, "MULTI").await;
    ask(&mut client, "INCR ran").await;
    ask(&mut client, "EXEC").await
}

fn ran(times: i64) -> Reply {
    Reply::Array(vec![Reply::Int(times)])
}

#[tokio::test]
async fn the_same_value_again_is_a_touch_and_what_a_master_catches_up_with_is_none() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    let other = Proxy::start(&masters, &[]);
    ask(&mut client, "SET k v").await;
    all_have(&masters, "k").await;
    assert_eq!(watch_and(&proxy, async |_| {}).await, ran(1));
    assert_eq!(watch_and(&proxy, async |it| drop(ask(it, "SET k v").await)).await, Reply::Nil);
    let mut elsewhere = other.raw().await;
    let touched = watch_and(&proxy, async |_| drop(ask(&mut elsewhere, "SET k v").await)).await;
    assert_eq!(touched, Reply::Nil, "by another proxy, which nobody hears of");
    let caught_up = watch_and(&proxy, async |it| {
        all_have(&masters, "k").await;
        lose(&masters[0], "k").await;
        masters[2].stop();
        assert_eq!(ask(it, "GET k").await, Reply::bulk("v"));
        masters[2].cont();
        eventually("it has caught up", || async {
            (masters[0].get("k").await? == b"v").then_some(())
        })
        .await;
    })
    .await;
    assert_eq!(caught_up, ran(2));
}

#[tokio::test]
async fn a_lease_that_another_has_taken_is_a_touch_and_one_that_is_held_is_none() {
    let Some((masters, proxy)) = three_masters() else { return };
    let other = Proxy::start(&masters, &[]);
    let mut elsewhere = other.raw().await;
    assert_eq!(ask(&mut elsewhere, "SET k token NX PX 600000").await, Reply::ok());
    assert_eq!(watch_and(&proxy, async |_| {}).await, ran(1));
    let touched = watch_and(&proxy, async |_| {
        assert_eq!(ask(&mut elsewhere, "DELIFEQ k token").await, Reply::Int(1));
        assert_eq!(ask(&mut elsewhere, "SET k token NX PX 600000").await, Reply::ok());
    })
    .await;
    assert_eq!(touched, Reply::Nil, "the same token, and another attempt");
}

#[tokio::test]
async fn a_key_that_ends_while_it_is_watched_is_touched() {
    let Some((_masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET k v PX 300").await;
    let until_it_ends = async |it: &mut Raw| {
        eventually("it has ended", || async { Some(()) }).await;
        while ask(it, "EXISTS k").await == Reply::Int(1) {}
    };
    assert_eq!(watch_and(&proxy, until_it_ends).await, Reply::Nil);
    assert_eq!(watch_and(&proxy, async |_| {}).await, ran(1), "it had ended before");
}

#[tokio::test]
async fn keys_are_listed_and_counted_without_stamps_and_what_has_ended() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for line in [
        "SET string v",
        "HSET hash f v",
        "SET lease token NX PX 600000",
        "SET ended v PX 200",
        "HSET faded f v",
        "PEXPIRE faded 200",
        "SET deleted v",
    ] {
        assert!(!ask(&mut client, line).await.is_error(""), "{line}");
    }
    all_have(&masters, "deleted").await;
    let missed = Kept::on(&masters[2], "deleted").await;
    ask(&mut client, "GETDEL deleted").await;
    missed.put_back(&masters[2], "deleted").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(masters[0].has("ended").await && masters[2].has("deleted").await);
    let names = ["hash", "lease", "string"];
    assert_eq!(sorted(ask(&mut client, "KEYS *").await), names);
    assert_eq!(ask(&mut client, "DBSIZE").await, Reply::Int(3));
    let scanned = ask(&mut client, "SCAN 0 COUNT 100").await;
    let Reply::Array(page) = scanned else { panic!("{scanned:?}") };
    assert_eq!(sorted(page[1].clone()), names);
    let nothing = Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]);
    assert_eq!(ask(&mut client, "HSCAN faded 0").await, nothing);
    // One master answers, and the third has the deleted state.
    eventually("a script counts the same", || async {
        let mut client = proxy.raw().await;
        let counted = ask(&mut client, "EVAL \"return redis.call('dbsize')\" 0").await;
        (counted == Reply::Int(3)).then_some(())
    })
    .await;
}

fn sorted(names: Reply) -> Vec<String> {
    let Reply::Array(names) = names else { panic!("{names:?}") };
    let mut names: Vec<_> = names.iter().map(Reply::text).collect();
    names.sort();
    names
}
