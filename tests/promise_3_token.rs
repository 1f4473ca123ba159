//! Promise 3: only the token that holds a lock releases or extends it, and no extension brings back an expired lock.

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::{
    EXTEND, EXTEND_OR_TAKE, EXTENSIONS, RELEASE, RELEASES, TAKE, TAKE_AGAIN, TAKE_BY_PREFIX,
    TAKE_OR_EXTEND,
};
use support::{Masters, Proxy, eventually, int, text, value};

#[tokio::test]
async fn a_foreign_token_releases_nothing() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for release in RELEASES {
        let key = release.name;
        assert_eq!(eval(&mut client, release.text, key, &["mine"]).await, release.nobody, "{key}");
        claim(&mut client, key, "mine", 600_000).await;
        for foreign in ["other", "", "mine ", "min", "MINE"] {
            let released = eval(&mut client, release.text, key, &[foreign]).await;
            assert_eq!(released, release.not_holder, "{key} by {foreign:?}");
        }
        assert_eq!(text(&mut client, &["GET", key]).await.as_deref(), Some("mine"), "{key}");
        assert!(masters.holding(key, b"mine").await >= masters.quorum(), "{key}");
        assert_eq!(eval(&mut client, release.text, key, &["mine"]).await, 1, "{key}");
    }
}

#[tokio::test]
async fn a_foreign_token_extends_nothing() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for extend in EXTENSIONS {
        let key = extend.name;
        claim(&mut client, key, "mine", 60_000).await;
        let foreign = eval(&mut client, extend.text, key, &["other", "900000"]).await;
        assert_eq!(foreign, extend.not_holder, "{key}");
        assert!(int(&mut client, &["PTTL", key]).await <= 60_000, "{key}");
        assert_eq!(eval(&mut client, extend.text, key, &["mine", "900000"]).await, 1, "{key}");
        let extended = int(&mut client, &["PTTL", key]).await;
        assert!((800_000..=900_000).contains(&extended), "{key}: {extended} ms left");
    }
}

#[tokio::test]
async fn no_extension_revives_an_expired_lock() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for extend in EXTENSIONS {
        let key = extend.name;
        claim(&mut client, key, "mine", 20).await;
        wait_until_expired(&mut client, key).await;
        assert_eq!(eval(&mut client, extend.text, key, &["mine", "900000"]).await, extend.nobody);
        // The last master may have expired the key a moment later, extended it, and then received the take-back.
        masters.forget(key).await;
    }
}

/// Extensions race with the end of the TTL. Whichever comes first is final: once an extension is refused, the lock
/// stays gone.
#[tokio::test]
async fn an_extension_refused_once_is_refused_for_good() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "250ms"]);
    let mut client = proxy.connection().await;
    for turn in 0..12 {
        let key = format!("lock {turn}");
        claim(&mut client, &key, "mine", 10).await;
        eventually("an extension too late", || {
            let (mut client, key) = (client.clone(), key.clone());
            async move {
                // One millisecond: each extension shortens the time left to about the pad that the proxy adds to
                // every TTL.
                tokio::time::sleep(Duration::from_millis(fastrand::u64(200..300))).await;
                let extended = eval(&mut client, EXTEND, &key, &["mine", "1"]).await;
                (extended == 0).then_some(())
            }
        })
        .await;
        for _ in 0..3 {
            assert_eq!(eval(&mut client, EXTEND, &key, &["mine", "600000"]).await, 0, "{key}");
        }
        masters.forget(&key).await;
    }
}

/// The old holder of an expired lock can do nothing to the new one.
#[tokio::test]
async fn the_previous_holder_has_no_power() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    claim(&mut client, "lock", "old", 20).await;
    wait_until_expired(&mut client, "lock").await;
    claim(&mut client, "lock", "new", 600_000).await;
    for script in RELEASES {
        let reply = eval(&mut client, script.text, "lock", &["old"]).await;
        assert_eq!(reply, script.not_holder, "{}", script.name);
    }
    for script in EXTENSIONS {
        let reply = eval(&mut client, script.text, "lock", &["old", "1"]).await;
        assert_eq!(reply, script.not_holder, "{}", script.name);
    }
    assert!(int(&mut client, &["PTTL", "lock"]).await > 500_000);
    assert!(masters.holding("lock", b"new").await >= masters.quorum());
}

/// Tokens are bytes: some libraries send raw random ones, some an empty one.
#[tokio::test]
async fn tokens_are_compared_byte_by_byte() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![b'x'; 100_000];
    for token in [b"".as_slice(), b"\0", b"\r\n", b"\xff\xfe", &every_byte, &large] {
        let claim = [b"SET", b"lock".as_slice(), token, b"PX", b"600000", b"NX"];
        assert_eq!(raw.ask(&claim).await, support::Reply::ok());
        assert!(masters.holding("lock", token).await >= masters.quorum());
        let mut foreign = token.to_vec();
        foreign.push(0);
        for (token, released) in [(foreign.as_slice(), 0), (token, 1)] {
            let release = [b"EVAL", RELEASE.as_bytes(), b"1", b"lock", token];
            assert_eq!(raw.ask(&release).await, support::Reply::Int(released));
        }
    }
}

/// Claims by script, with the answers that their libraries read.
#[tokio::test]
async fn claims_by_script_respect_the_holder() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    let ok = Ok(Value::Okay);
    let nil = Ok(Value::Nil);
    let int = |number| Ok(Value::Int(number));
    for (name, script, rest, granted, refused) in [
        ("take", TAKE, vec!["600000"], ok.clone(), nil.clone()),
        ("take or extend", TAKE_OR_EXTEND, vec!["600000"], int(1), int(0)),
        ("take again", TAKE_AGAIN, vec!["600000", "yes"], ok.clone(), nil.clone()),
        ("take by prefix", TAKE_BY_PREFIX, vec!["4", "600000"], ok, nil),
        ("extend or take", EXTEND_OR_TAKE, vec!["600000"], int(1), int(-1)),
    ] {
        for (token, expected) in [("mine", &granted), ("evil", &refused)] {
            let words = [&["EVAL", script, "1", name, token], rest.as_slice()].concat();
            assert_eq!(&value(&mut client, &words).await, expected, "{name} by {token}");
        }
        assert!(masters.holding(name, b"mine").await >= masters.quorum(), "{name}");
        assert!(support::int(&mut client, &["PTTL", name]).await > 500_000, "{name}");
    }
}

/// A repeated claim by the holder itself: the plain script refuses it, the re-entrant ones extend the lock.
#[tokio::test]
async fn re_entrant_claims_know_their_own_token() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.connection().await;
    for (key, script, rest, expected) in [
        ("take", TAKE, vec!["600000"], Value::Nil),
        ("take or extend", TAKE_OR_EXTEND, vec!["600000"], Value::Int(1)),
        ("take again", TAKE_AGAIN, vec!["600000", "no"], Value::Okay),
        ("take by prefix", TAKE_BY_PREFIX, vec!["4", "600000"], Value::Okay),
        ("extend or take", EXTEND_OR_TAKE, vec!["600000"], Value::Int(1)),
    ] {
        claim(&mut client, key, "mine", 60_000).await;
        let words = [&["EVAL", script, "1", key, "mine"], rest.as_slice()].concat();
        assert_eq!(value(&mut client, &words).await, Ok(expected.clone()), "{key}");
        let extended = int(&mut client, &["PTTL", key]).await > 60_000;
        assert_eq!(extended, expected != Value::Nil, "{key}");
    }
    // A redlock-rb client that may only extend does not take a free lock.
    let words = ["EVAL", TAKE_AGAIN, "1", "free", "mine", "600000", "no"];
    assert_eq!(value(&mut client, &words).await, Ok(Value::Nil));
    masters.forget("free").await;
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str, px: u64) {
    let reply = text(client, &["SET", key, token, "NX", "PX", &px.to_string()]).await;
    assert_eq!(reply.as_deref(), Some("OK"), "claim of {key} by {token}");
}

async fn wait_until_expired(client: &mut MultiplexedConnection, key: &str) {
    eventually("the lock expires", || {
        let mut client = client.clone();
        async move { (int(&mut client, &["EXISTS", key]).await == 0).then_some(()) }
    })
    .await;
}

async fn eval(client: &mut MultiplexedConnection, script: &str, key: &str, rest: &[&str]) -> i64 {
    int(client, &[&["EVAL", script, "1", key], rest].concat()).await
}
