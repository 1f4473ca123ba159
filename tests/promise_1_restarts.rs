//! Promise 1 when masters lose their memory: a lock on two masters of three is not granted again because one of them
//! restarted empty, and nobody else has to wait meanwhile.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use redlock_proxy::lua::keyspace::on_stamps;
use support::http::http;
use support::scripts::{REDISSON_LOCK, RELEASE};
use support::{
    Master, Masters, Proxy, Raw, Relay, Reply, State, eventually, int, target_is_plain_redis, text,
    value,
};

/// Longer than any test.
const LEASE: &str = "600000";
/// Short enough to see a master come back, long enough for a busy machine.
const SHORT_VOTE: [&str; 2] = ["--vote-timeout", "200ms"];
const LONG_WAIT: [&str; 4] = ["--vote-timeout", "200ms", "--restart-wait", "1h"];
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const SHORT_WAIT: [&str; 4] = ["--vote-timeout", "200ms", "--restart-wait", "3s"];

/// The classic case from the Redlock page: `mine` is on masters 0 and 1, master 1 restarts empty, and masters 1 and 2
/// would be a majority for another client.
#[tokio::test]
async fn a_lock_is_not_granted_again_by_a_master_that_forgot_it() {
    let Some((mut masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    forget(&masters[2], "lock").await;
    for turn in 0..3 {
        masters[1].kill_9();
        masters[1].restart_empty();
        refused_until(&client, &proxy, 1, claim_by_other).await;
        masters[1].holds("lock", "mine").await;
        assert!(masters[1].pttl("lock").await > 500_000, "turn {turn}");
    }
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
    assert_eq!(claim(&mut client, "lock", "other").await, Ok(Value::Okay));
}

/// The watcher that visits each master every second may come too late: the links must notice by themselves. The
/// master's disk is older than the lock, but has its mark.
#[tokio::test]
async fn a_restart_is_noticed_before_a_link_carries_votes() {
    let Some((mut masters, relay, proxy)) = one_behind_a_relay_with(1, &DURABLE).await else {
        return;
    };
    let mut client = proxy.connection().await;
    let before = masters[1].back_up();
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    forget(&masters[2], "lock").await;
    // Only the watcher asks a master for the time.
    relay.swallow("*1\r\n$4\r\nTIME\r\n");
    masters[1].kill_9();
    proxy.knows(1, "link", "down").await;
    masters[1].restart_from(&before);
    proxy.knows(1, "link", "up").await;
    for _ in 0..50 {
        let reply = claim_by_other(client.clone()).await;
        assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
    }
    assert!(relay.caught() > 0, "somebody looks after it");
    relay.heal();
    refused_until(&client, &proxy, 1, claim_by_other).await;
    masters[1].holds("lock", "mine").await;
}

/// The same for a hash lock in another database, taken by a script that the proxy does not know.
#[tokio::test]
async fn a_hash_lock_is_not_granted_again_by_a_master_that_forgot_it() {
    // A script that ran on one master after the vote timeout keeps its effect there, and the proxy copies nothing
    // from masters that disagree on a hash. No answer may be late, however busy the machine is.
    let flags = ["--vote-timeout", "500ms", "--restart-wait", "1h"];
    let Some((mut masters, proxy)) = three_masters(&flags) else { return };
    let mut client = proxy.connection().await;
    assert_eq!(value(&mut client, &["SELECT", "3"]).await, Ok(Value::Okay));
    assert_eq!(hash_lock(&mut client, "mine").await, Ok(Value::Nil));
    eventually("the third master has it as well", || {
        let address = masters[2].address();
        async move {
            let mut direct = Raw::connect_resp3(&address).await;
            assert_eq!(direct.ask(&["SELECT", "3"]).await, Reply::ok());
            (direct.ask(&["DEL", "lock"]).await == Reply::Int(1)).then_some(())
        }
    })
    .await;
    masters[1].kill_9();
    masters[1].restart_empty();
    refused_until(&client, &proxy, 1, hash_lock_by_other).await;
    let mut direct = Raw::connect_resp3(&masters[1].address()).await;
    assert_eq!(direct.ask(&["SELECT", "3"]).await, Reply::ok());
    assert_eq!(direct.ask(&["HGET", "lock", "mine"]).await, Reply::bulk("1"));
}

/// Other clients ask for the lock all the while: their failed claims are on the masters nearly all the time, and
/// would last longer than the lock itself. Such a claim must not be copied in its place.
#[tokio::test]
async fn a_lock_is_not_granted_again_when_many_ask_for_it_while_it_is_copied() {
    forgotten_while_many_ask(claim_by_somebody).await;
}

/// Nor when the others' tokens equal the holder's, as those of old `SETNX` code do.
#[tokio::test]
async fn a_lock_is_not_granted_again_to_equal_tokens_while_it_is_copied() {
    forgotten_while_many_ask(claim_by_twin).await;
}

/// The lock is on the first two masters, the second forgets it, and claims stay long on the third.
async fn forgotten_while_many_ask<F>(others_claim: fn(MultiplexedConnection) -> F)
where
    F: Future<Output = RedisResult<Value>>,
{
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (far, proxy) = Relay::between(&masters, 2, &LONG_WAIT);
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    forget(&masters[2], "lock").await;
    far.delay(Duration::from_millis(50), Duration::from_millis(50));
    for _ in 0..3 {
        masters[1].kill_9();
        masters[1].restart_empty();
        refused_until(&client, &proxy, 1, others_claim).await;
        masters[1].holds("lock", "mine").await;
    }
}

/// No watcher has to look first: not even the next claim finds the master empty.
#[tokio::test]
async fn a_lock_is_not_granted_again_in_the_moment_after_a_flush() {
    let Some((masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    forget(&masters[2], "lock").await;
    let mut direct = Raw::connect_resp3(&masters[1].address()).await;
    for flush in ["FLUSHALL", "FLUSHDB", "FLUSHALL"] {
        assert_eq!(direct.ask(&[flush]).await, Reply::ok());
        let reply = claim(&mut client, "lock", "other").await;
        assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
        refused_until(&client, &proxy, 1, claim_by_other).await;
        masters[1].holds("lock", "mine").await;
    }
}

/// A flushed master has lost its memory as well. The proxy notices within about a second.
#[tokio::test]
async fn what_somebody_flushed_on_one_master_comes_back() {
    let Some((masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut client = proxy.connection().await;
    for n in 0..250 {
        assert_eq!(claim(&mut client, &format!("lock {n}"), "mine").await, Ok(Value::Okay));
    }
    all_vote(&proxy).await;
    for flush in ["FLUSHALL", "FLUSHDB"] {
        assert_eq!(masters[1].ask(&[flush]).await, Reply::ok());
        for n in [0, 249] {
            masters[1].holds(&format!("lock {n}"), "mine").await;
        }
        proxy.knows(1, "state", "voter").await;
        assert_eq!(masters[1].key_count().await, 250);
    }
    copied(&proxy, 1, 500).await;
}

/// Waits for the copy; a key that changes while it is copied is copied again.
async fn copied(proxy: &Proxy, master: usize, least: u64) {
    eventually("it was given what it had forgotten", || async {
        let keys: u64 = proxy.says_of(master, "copied_keys").await.parse().expect("a number");
        (keys >= least).then_some(())
    })
    .await;
}

/// The progress of a large copy is visible everywhere.
#[tokio::test]
async fn copying_tells_how_far_it_has_come() {
    let flags = [&LONG_WAIT[..], &["--admin", "127.0.0.1:0"]].concat();
    let Some((masters, proxy)) = three_masters(&flags) else { return };
    let fill = "for i = 1, 30000 do redis.call('SET', 'key:' .. i, 'x', 'PX', 600000) end";
    for master in masters.iter() {
        assert_eq!(master.ask(&["EVAL", fill, "0"]).await, Reply::Nil);
    }
    assert_eq!(masters[1].ask(&["FLUSHALL"]).await, Reply::ok());
    let admin = proxy.admin_address();
    eventually("everybody tells of a part of it", || async {
        let reason = proxy.says_of(1, "reason").await;
        let (_, told) = reason.split_once(": copied ")?;
        let (some, all) = told.strip_suffix(" keys")?.split_once(" of about ")?;
        let [some, all] = [some, all].map(|count| count.parse::<u64>().expect("a count"));
        assert!((30_000..30_005).contains(&all), "{reason}");
        Some(some).filter(|some| (1..30_000).contains(some))?;
        let page = http(&admin, "GET", "/status.json", "").body;
        let metrics = http(&admin, "GET", "/metrics", "").body;
        let is_told = metrics.lines().any(|line| {
            line.starts_with("redlock_copying_keys")
                && line.contains("part=\"copied\"")
                && !line.ends_with(" 0.0")
        });
        (is_told && page.contains(" of about 3000")).then_some(())
    })
    .await;
    proxy.knows(1, "state", "voter").await;
    assert_eq!(masters[1].key_count().await, 30_000);
}

/// What clients write during a copy is copied in addition to what was counted. Here another proxy copies, and announces
/// it on the master.
#[tokio::test]
async fn no_more_keys_are_copied_than_there_are_in_all() {
    let flags = [&LONG_WAIT[..], &["--admin", "127.0.0.1:0"]].concat();
    let Some((mut masters, proxy)) = three_masters(&flags) else { return };
    // One source is too few for a copy.
    masters[0].kill_9();
    assert_eq!(masters[1].ask(&["FLUSHALL"]).await, Reply::ok());
    let announce = ["SET", "redlock-proxy:copying", "26 12", "PX", "60000"];
    eventually("it is told", || async {
        assert_eq!(masters[1].ask(&announce).await, Reply::ok());
        let reason = proxy.says_of(1, "reason").await;
        let (_, told) = reason.split_once(": copied ")?;
        assert_eq!(told, "26 of about 26 keys");
        Some(())
    })
    .await;
    let page = http(&proxy.admin_address(), "GET", "/status.json", "").body;
    assert!(page.contains("\"copying\":[26,26]"), "{page}");
}

/// A flush by a proxy with `--allow-flush` is no loss of memory for any proxy.
#[tokio::test]
async fn a_flush_by_a_proxy_costs_no_vote() {
    let Some((masters, proxy)) = three_masters(&["--allow-flush", "--vote-timeout", "200ms"])
    else {
        return;
    };
    let other = Proxy::start(&masters, &SHORT_VOTE);
    let mut client = proxy.connection().await;
    for flush in ["FLUSHALL", "FLUSHDB"] {
        assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
        assert_eq!(value(&mut client, &[flush]).await, Ok(Value::Okay));
        assert_eq!(int(&mut client, &["DBSIZE"]).await, 0);
        let looks = looks(&masters).await;
        eventually("both proxies have looked at each master twice", || async {
            let now = self::looks(&masters).await;
            (0..3).all(|n| now[n] >= looks[n] + 6).then_some(())
        })
        .await;
    }
    for proxy in [&proxy, &other] {
        all_vote(proxy).await;
        assert!(!proxy.log().iter().any(|line| line.contains("probation")), "{:?}", proxy.log());
    }
}

/// Everything of every type comes back, with its TTL, in all databases.
#[tokio::test]
async fn a_master_gets_back_whatever_it_has_forgotten() {
    let Some((mut masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut raw = proxy.raw().await;
    for db in ["0", "7"] {
        raw.ask(&["SELECT", db]).await;
        for write in [
            &["SET", "string", "value"][..],
            &["SET", "soon", "value", "PX", "400000"],
            &["HSET", "hash", "a", "1", "b", "2"],
            &["RPUSH", "list", "a", "b", "c"],
            &["SADD", "set", "a", "b", "c"],
            &["ZADD", "zset", "1", "a", "2.5", "b"],
            &["SETBIT", "bits", "100", "1"],
        ] {
            let reply = raw.ask(write).await;
            assert!(!reply.is_error(""), "{write:?}: {reply:?}");
        }
    }
    masters[0].kill_9();
    masters[0].restart_empty();
    copied(&proxy, 0, 14).await;
    proxy.knows(0, "state", "voter").await;
    for db in ["0", "7"] {
        let (mut whole, mut copy) = (
            Raw::connect_resp3(&masters[1].address()).await,
            Raw::connect_resp3(&masters[0].address()).await,
        );
        whole.ask(&["SELECT", db]).await;
        copy.ask(&["SELECT", db]).await;
        for key in ["string", "soon", "hash", "list", "set", "zset", "bits"] {
            let (whole, copy) = (State::of(key, &mut whole).await, State::of(key, &mut copy).await);
            assert!(copy.holds_the_same(&whole), "{key} in {db}: {copy:?}, not {whole:?}");
        }
    }
}

/// While one master of three comes back, claims are granted as before, at the first try.
#[tokio::test]
async fn a_restart_of_one_master_costs_no_claim() {
    let Some((mut masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut client = proxy.connection().await;
    for n in 0..300 {
        if n == 100 {
            masters[2].kill_9();
        }
        if n == 150 {
            masters[2].restart_empty();
        }
        assert_eq!(claim(&mut client, &format!("lock {n}"), "mine").await, Ok(Value::Okay), "{n}");
    }
    proxy.knows(2, "state", "voter").await;
    eventually("it has all of them", || async {
        (masters[2].key_count().await == 300).then_some(())
    })
    .await;
    proxy.tells(&["on probation: it was restarted"]).await;
}

/// Locks that are constantly taken and released leave nothing on the master that comes back.
#[tokio::test]
async fn copying_leaves_no_ghosts_of_locks_that_were_released_meanwhile() {
    let Some((mut masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut client = proxy.connection().await;
    for _ in 0..3 {
        masters[1].kill_9();
        masters[1].restart_empty();
        eventually("the master votes again", || {
            let mut client = client.clone();
            let proxy = &proxy;
            async move {
                for n in 0..50 {
                    let key = format!("lock {n}");
                    assert_eq!(claim(&mut client, &key, "mine").await, Ok(Value::Okay));
                    let release = ["EVAL", RELEASE, "1", &key, "mine"];
                    // A release may be in flight just when the roster changes. Its outcome is then unknown, and the
                    // client repeats it.
                    let released = eventually("it is known whether it is released", || {
                        let mut client = client.clone();
                        async move { value(&mut client, &release).await.ok() }
                    });
                    assert!(matches!(released.await, Value::Int(0 | 1)));
                }
                (proxy.says_of(1, "state").await == "voter").then_some(())
            }
        })
        .await;
        eventually("all locks are gone", || async {
            (masters[1].key_count().await == 0).then_some(())
        })
        .await;
    }
    assert_eq!(int(&mut client, &["DBSIZE"]).await, 0);
}

/// A lock is released after it was read on the others, and before it is written to the master.
#[tokio::test]
async fn a_lock_that_is_released_while_it_is_copied_is_gone() {
    let Some((mut masters, relay, proxy)) = one_behind_a_relay(1).await else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    let first_line = include_str!("../src/lua/copy/paste.lua").lines().next().expect("a comment");
    relay.hold_back(first_line);
    masters[1].kill_9();
    masters[1].restart_empty();
    eventually("it is to be written", || async { (relay.caught() > 0).then_some(()) }).await;
    let before = masters[1].calls("evalsha").await;
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
    eventually("the master has found nothing to release", || async {
        (masters[1].calls("evalsha").await > before).then_some(())
    })
    .await;
    relay.heal();
    proxy.knows(1, "state", "voter").await;
    assert_eq!(masters[1].get("lock").await, None);
}

/// The lock is released after the last read of the others, and before the last read of this master.
#[tokio::test]
async fn a_lock_that_is_released_under_the_last_look_does_not_come_back() {
    let first_line = |script: &'static str| script.lines().next().expect("a comment");
    let paste = first_line(include_str!("../src/lua/copy/paste.lua"));
    let page = first_line(include_str!("../src/lua/copy/page.lua"));
    let Some((mut masters, relay, proxy)) = one_behind_a_relay(1).await else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    relay.hold_back(paste);
    masters[1].kill_9();
    masters[1].restart_empty();
    eventually("it is to be written", || async { (relay.caught() == 1).then_some(()) }).await;
    relay.hold_back(page);
    masters[1].holds("lock", "mine").await;
    eventually("it is looked at again", || async { (relay.caught() == 2).then_some(()) }).await;
    assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", "lock", "mine"]).await, 1);
    eventually("the master has released it", || async {
        masters[1].get("lock").await.is_none().then_some(())
    })
    .await;
    relay.heal();
    proxy.knows(1, "state", "voter").await;
    assert_eq!(masters[1].get("lock").await, None);
}

/// A master may have missed an extension, or lost only a part of its memory.
#[tokio::test]
async fn a_lock_is_copied_with_the_extension_that_the_master_missed() {
    let Some((masters, proxy)) = three_masters(&LONG_WAIT) else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters[1].holds("lock", "mine").await;
    all_vote(&proxy).await;
    let mut direct = Raw::connect_resp3(&masters[1].address()).await;
    assert_eq!(direct.ask(&["PEXPIRE", "lock", "100000"]).await, Reply::Int(1));
    assert_eq!(direct.ask(&["SELECT", "1"]).await, Reply::ok());
    assert_eq!(direct.ask(&["FLUSHDB"]).await, Reply::ok());
    copied(&proxy, 1, 1).await;
    assert!(masters[1].pttl("lock").await > 500_000);
}

/// A copy certifies only what it was based on: a master that was flushed since then stays uncertified.
#[tokio::test]
async fn nothing_is_copied_to_a_master_that_has_forgotten_again() {
    const DIGEST: &str = include_str!("../src/lua/program/digest.lua");
    const PASTE: &str = include_str!("../src/lua/copy/paste.lua");
    let master = Master::start();
    let paste = on_stamps(&[DIGEST, PASTE].concat());
    let words =
        ["EVAL", &paste, "2", "redlock-proxy:mark", "lock", "0", "? 7 0;", "", "t", "old", "9999"];
    assert_eq!(master.ask(&words).await, Reply::Int(-1));
    assert_eq!(master.ask(&["SET", "redlock-proxy:mark", "? 7 0;3 4"]).await, Reply::ok());
    assert_eq!(master.ask(&words).await, Reply::Int(1));
    master.holds("lock", "old").await;
    assert_eq!(master.ask(&["FLUSHALL"]).await, Reply::ok());
    assert_eq!(master.ask(&words).await, Reply::Int(-1));
    assert_eq!(master.get("lock").await, None);
}

/// The lock is released and taken again just before it is written once more.
#[tokio::test]
async fn what_has_gone_since_it_was_copied_is_not_written() {
    const DIGEST: &str = include_str!("../src/lua/program/digest.lua");
    const PASTE: &str = include_str!("../src/lua/copy/paste.lua");
    let master = Master::start();
    assert_eq!(master.ask(&["SET", "redlock-proxy:mark", "? 7 0;3 4"]).await, Reply::ok());
    let paste = on_stamps(&[DIGEST, PASTE].concat());
    let lease = |attempt: &str| [b"\xffRL\x01", attempt.as_bytes(), b"\0\0token"].concat();
    let (one, two) = ("attempt-of-one", "attempt-of-two");
    let write = async |over: &str, what: &[u8]| {
        let words: [&[u8]; 11] = [
            b"EVAL",
            paste.as_bytes(),
            b"2",
            b"redlock-proxy:mark",
            b"lock",
            b"0",
            b"? 7 0;",
            over.as_bytes(),
            b"t",
            what,
            b"9999",
        ];
        master.ask(&words).await
    };
    let there = async || master.ask(&["GET", "lock"]).await;
    for over in [one, "*"] {
        assert_eq!(write(over, &lease(one)).await, Reply::Int(0));
        assert_eq!(there().await, Reply::Nil);
    }
    assert_eq!(write("", &lease(two)).await, Reply::Int(1));
    assert_eq!(write(one, &lease(one)).await, Reply::Int(0));
    assert_eq!(there().await, Reply::Bulk(lease(two)));
    assert_eq!(write(two, &lease(one)).await, Reply::Int(1));
    assert_eq!(write("*", &lease(two)).await, Reply::Int(1));
    assert_eq!(there().await, Reply::Bulk(lease(two)));
}

/// A lock taken while a master is on probation is on that master when it votes again, even if its key was checked
/// before.
#[tokio::test]
async fn a_master_on_probation_gets_what_is_written() {
    let Some((mut masters, proxy)) = three_masters(&["--vote-timeout", "5s"]) else { return };
    let mut client = proxy.connection().await;
    masters[1].kill_9();
    masters[1].restart_empty();
    proxy.knows(1, "state", "probation").await;
    proxy.knows(1, "link", "up").await;
    let mut monitor = Raw::connect(&masters[1].address()).await;
    assert_eq!(monitor.ask(&["MONITOR"]).await, Reply::ok());
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters[1].holds("lock", "mine").await;
    // The lock arrives as the claim itself; it may have been copied as well.
    let is_claim = |line: &str| !line.contains(" lua] ") && line.contains(r#" "SET" "lock" "#);
    while !is_claim(&monitor.reply().await.text()) {}
}

/// Of the two voting masters, the one that remembers is unreachable, and the other knows nothing.
#[tokio::test]
async fn what_only_a_master_out_of_reach_remembers_is_waited_for() {
    let Some((mut masters, relay, proxy)) = one_behind_a_relay(0).await else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters.are_heard_without(2, &client).await;
    masters[0].holds("lock", "mine").await;
    forget(&masters[2], "lock").await;
    relay.cut();
    masters[1].kill_9();
    masters[1].restart_empty();
    eventually("the proxy says that nothing can be copied yet", || {
        let (client, proxy) = (client.clone(), &proxy);
        async move {
            let reply = claim_by_other(client).await;
            assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
            (proxy.says_of(1, "state").await == "probation").then_some(())
        }
    })
    .await;
    relay.heal();
    refused_until(&client, &proxy, 1, claim_by_other).await;
    masters[1].holds("lock", "mine").await;
}

/// A stopped process still accepts connections, but never answers on them. Three of five are enough to copy from.
#[tokio::test]
async fn a_stopped_master_that_accepts_connections_holds_up_copying() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(5);
    let proxy = Proxy::start(&masters, &LONG_WAIT);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters[4].kill_9();
    masters[3].stop();
    masters[4].restart_empty();
    proxy.knows(4, "state", "voter").await;
    masters[4].holds("lock", "mine").await;
    masters[3].cont();
}

/// Two of three have lost their memory: the third alone is no quorum to copy from, so all wait. Each proxy says
/// afterwards that data may be lost; only the one that had begun anew used to say so.
#[tokio::test]
async fn without_a_quorum_that_remembers_masters_wait() {
    let flags = [&SHORT_WAIT[..], &["--admin", "127.0.0.1:0"]].concat();
    let Some((mut masters, proxy)) = three_masters(&flags) else { return };
    let other = Proxy::start(&masters, &flags);
    other.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    let is_lost = |proxy: &Proxy| {
        let get = |path| http(&proxy.admin_address(), "GET", path, "").body;
        let metrics = get("/metrics").contains("redlock_data_may_be_lost 1");
        let page = get("/status.json").contains("\"data_may_be_lost\":true");
        assert_eq!(metrics, page);
        metrics
    };
    assert!(!is_lost(&proxy));
    for master in &mut masters[1..] {
        master.kill_9();
        master.restart_empty();
    }
    let error = eventually("the proxy says that they are on probation", || {
        let mut client = client.clone();
        async move {
            let error = claim(&mut client, "free", "mine").await.expect_err("no quorum");
            (error.code() == Some("LOADING")).then_some(error)
        }
    })
    .await;
    let error = error.to_string();
    assert!(error.contains("it was restarted and may have forgotten locks"), "{error}");
    for master in [1, 2] {
        proxy.knows(master, "state", "probation").await;
    }
    granted(&client, "free", "they have waited for long enough").await;
    for proxy in [&proxy, &other] {
        proxy.tells(&["the cluster restarts after --restart-wait"]).await;
        assert!(is_lost(proxy));
        let mut client = proxy.connection().await;
        let info = text(&mut client, &["INFO", "redlock"]).await.expect("a text");
        assert!(info.contains("\r\ndata_may_be_lost:1\r\n"), "{info}");
    }
    let has_copied = |line: &String| line.contains("was copied");
    assert!(!proxy.log().iter().any(has_copied), "from whom? {:?}", proxy.log());
}

/// Two masters lose their memory, begin anew without a proxy that cannot reach them, and lose it again. That proxy
/// has long known about the first loss, but not about what the masters have received since.
#[tokio::test]
async fn masters_that_forgot_twice_wait_twice_whoever_has_seen_them_in_between() {
    if target_is_plain_redis() {
        return;
    }
    let lease = Duration::from_millis(4_500);
    let flags = ["--vote-timeout", "200ms", "--restart-wait", "5s"];
    let masters = Masters::start(3);
    let relays = [0, 1].map(|index: usize| Relay::to(&masters[index]));
    let mut addresses = masters.addresses();
    relays.iter().enumerate().for_each(|(index, relay)| addresses[index] = relay.address());
    let proxies = [Proxy::start(&masters, &flags), Proxy::in_front_of(&addresses, &flags)];
    for proxy in &proxies {
        proxy.expect_warnings();
        all_vote(proxy).await;
    }
    let forget = async || {
        for master in &masters[..2] {
            assert_eq!(master.ask(&["FLUSHALL"]).await, Reply::ok());
        }
    };
    forget().await;
    for proxy in &proxies {
        proxy.knows(0, "state", "probation").await;
        proxy.knows(1, "state", "probation").await;
    }
    relays.iter().for_each(Relay::black_hole);
    let [near, far] = proxies;
    let client = near.connection().await;
    let claim = ["SET", "lock", "mine", "NX", "PX", &lease.as_millis().to_string()];
    let granted = eventually("they have begun anew", || {
        let mut client = client.clone();
        async move {
            let asked = Instant::now();
            (value(&mut client, &claim).await == Ok(Value::Okay)).then_some(asked)
        }
    })
    .await;
    near.kill_9();
    forget().await;
    masters[2].ask(&["DEL", "lock"]).await;
    relays.iter().for_each(Relay::heal);
    let client = far.connection().await;
    self::granted(&client, "lock", "they have waited again").await;
    let held = granted.elapsed();
    assert!(held >= lease, "it was granted again after {held:?}");
}

/// A first deployment is trusted, and the log says so.
#[tokio::test]
async fn masters_that_are_all_young_are_trusted_unless_told_otherwise() {
    let Some((_masters, proxy)) = three_masters(&["--restart-wait", "1h"]) else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    proxy.tells(&["WARN", "--cold-start trust"]).await;
}

#[tokio::test]
async fn masters_that_are_all_young_wait_when_told_to() {
    let flags = ["--cold-start", "wait", "--restart-wait", "4s"];
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::unready(&masters.addresses(), &flags);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let error = claim(&mut client, "lock", "mine").await.expect_err("they are young");
    assert_eq!(error.code(), Some("LOADING"), "{error}");
    assert!(error.to_string().contains("started recently"), "{error}");
    granted(&client, "lock", "they are old enough").await;
}

/// The masters were used by a version without marks, and one has restarted since: its age gives it away.
#[tokio::test]
async fn a_young_master_among_old_ones_is_not_trusted_at_the_first_start() {
    young_among_old(&[]).await;
}

/// The master's persistence settings prove nothing: the disk may be a new one.
#[tokio::test]
async fn a_new_volume_of_a_durable_master_is_not_trusted_at_the_first_start() {
    young_among_old(&DURABLE).await;
}

async fn young_among_old(flags: &'static [&'static str]) {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start_with(3, flags);
    for master in &masters[..2] {
        let claim = ["SET", "lock", "mine", "NX", "PX", LEASE];
        assert_eq!(master.ask(&claim).await, Reply::ok());
    }
    eventually("masters 0 and 2 are old", || async {
        let mut all = true;
        for master in [0, 2] {
            let info = masters[master].ask(&["INFO", "server"]).await.text();
            let uptime = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
            all &= uptime.expect("an uptime").trim().parse::<u64>().expect("a number") >= 4;
        }
        all.then_some(())
    })
    .await;
    masters[1].kill_9();
    masters[1].restart_as_new();
    let proxy = Proxy::start(&masters, &SHORT_WAIT);
    proxy.expect_warnings();
    let client = proxy.connection().await;
    refused_until(&client, &proxy, 1, claim_by_other).await;
    masters[1].holds("lock", "mine").await;
}

/// A master that writes everything to disk before it answers is not trusted: its volume may be an older one.
#[tokio::test]
async fn a_durable_master_is_copied_to_like_any_other() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start_with(3, &DURABLE);
    let proxy = Proxy::start(&masters, &LONG_WAIT);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    masters[1].holds("lock", "mine").await;
    forget(&masters[2], "lock").await;
    masters[1].kill_9();
    masters[1].restart_with_an_older_volume();
    refused_until(&client, &proxy, 1, claim_by_other).await;
    masters[1].holds("lock", "mine").await;
}

/// A master that writes to disk only once a second forgets its latest writes.
#[tokio::test]
async fn a_master_that_writes_to_disk_once_a_second_is_not_trusted_at_once() {
    if target_is_plain_redis() {
        return;
    }
    let persistent = &["--appendonly", "yes", "--appendfsync", "everysec"];
    let mut masters = Masters::start_with(3, persistent);
    let proxy = Proxy::start(&masters, &LONG_WAIT);
    proxy.expect_warnings();
    masters[1].kill_9();
    masters[1].restart_empty();
    eventually("the log says that the master is on probation", || async {
        let is_told = |line: &String| line.contains("on probation: it was restarted");
        proxy.log().iter().any(is_told).then_some(())
    })
    .await;
}

/// Starts three masters, one of them behind a relay.
async fn one_behind_a_relay(index: usize) -> Option<(Masters, Relay, Proxy)> {
    one_behind_a_relay_with(index, &[]).await
}

/// The same for masters with `flags`.
async fn one_behind_a_relay_with(
    index: usize,
    flags: &'static [&'static str],
) -> Option<(Masters, Relay, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start_with(3, flags);
    let (relay, proxy) = Relay::between(&masters, index, &LONG_WAIT);
    Some((masters, relay, proxy))
}

fn three_masters(flags: &[&str]) -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, flags);
    proxy.expect_warnings();
    Some((masters, proxy))
}

/// Claims again and again until the master votes again, and for a while after that. No claim may succeed.
async fn refused_until(
    client: &MultiplexedConnection,
    proxy: &Proxy,
    master: usize,
    attempt: impl AsyncFn(MultiplexedConnection) -> RedisResult<Value>,
) {
    let attempt = &attempt;
    eventually("the master votes again", || async move {
        let reply = attempt(client.clone()).await;
        assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
        (proxy.says_of(master, "state").await == "voter").then_some(())
    })
    .await;
    for _ in 0..50 {
        let reply = attempt(client.clone()).await;
        assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
    }
    assert_eq!(int(&mut client.clone(), &["EXISTS", "lock"]).await, 1);
}

/// Claims with a new token each time.
async fn claim_by_somebody(mut client: MultiplexedConnection) -> RedisResult<Value> {
    claim(&mut client, "lock", &format!("{:x}", fastrand::u64(..))).await
}

async fn claim_by_other(mut client: MultiplexedConnection) -> RedisResult<Value> {
    claim(&mut client, "lock", "other").await
}

/// Claims with the holder's own token.
async fn claim_by_twin(mut client: MultiplexedConnection) -> RedisResult<Value> {
    claim(&mut client, "lock", "mine").await
}

async fn hash_lock_by_other(mut client: MultiplexedConnection) -> RedisResult<Value> {
    let reply = hash_lock(&mut client, "other").await?;
    Ok(if reply == Value::Nil { Value::Okay } else { Value::Nil })
}

/// Removes the key from one master, as if it had been away when the lock was taken.
async fn forget(master: &Master, key: &str) {
    eventually("the master has the key", || async {
        (master.ask(&["DEL", key]).await == Reply::Int(1)).then_some(())
    })
    .await;
}

/// Waits until a claim of `key` is granted.
async fn granted(client: &MultiplexedConnection, key: &str, why: &str) {
    eventually(why, || {
        let mut client = client.clone();
        async move { (claim(&mut client, key, "mine").await == Ok(Value::Okay)).then_some(()) }
    })
    .await;
}

async fn all_vote(proxy: &Proxy) {
    for master in 0..3 {
        proxy.knows(master, "state", "voter").await;
    }
}

/// Returns the number of checks of each master: proxies read its clock then, and nobody else does.
async fn looks(masters: &Masters) -> Vec<u64> {
    let mut looks = Vec::new();
    for master in masters.iter() {
        looks.push(master.calls("time").await);
    }
    looks
}

async fn hash_lock(client: &mut MultiplexedConnection, holder: &str) -> RedisResult<Value> {
    value(client, &["EVAL", REDISSON_LOCK, "1", "lock", LEASE, holder]).await
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", LEASE]).await
}
