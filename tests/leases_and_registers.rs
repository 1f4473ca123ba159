//! A key is a lease at one time and a register at another: a lock whose expiry was changed by `EXPIRE`, a value set
//! by `SETNX`, an expired key. Releasing, extending, deleting and claiming it work as with one Redis, through any
//! proxy.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use redlock_proxy::decision::lease::attempt::MARKER;
use support::scripts::{EXTEND, EXTEND_OR_TAKE, RELEASE, TAKE};
use support::{
    Masters, Proxy, Relay, Reply, Stage, eventually, int, target_is_plain_redis, text, value,
};

const FLAGS: [&str; 2] = ["--vote-timeout", "100ms"];
const MINUTE: &str = "60000";
const TEN_MINUTES: &str = "600000";

/// Returns two clients of one proxy, or of one proxy each.
async fn clients(masters: &Masters, proxies: &[Proxy]) -> [MultiplexedConnection; 2] {
    match proxies {
        [] => {
            let redis = masters.iter().next().expect("there is one");
            [redis.connection().await, redis.connection().await]
        }
        [first, .., last] => [first.connection().await, last.connection().await],
        [one] => [one.connection().await, one.connection().await],
    }
}

/// Runs `check` with two clients of one proxy, and with two clients of two proxies.
async fn for_two(check: impl AsyncFn([MultiplexedConnection; 2])) {
    for_two_and_masters(async |clients, _| check(clients).await).await;
}

async fn for_two_and_masters(check: impl AsyncFn([MultiplexedConnection; 2], &Masters)) {
    if target_is_plain_redis() {
        let redis = Masters::start(1);
        return check(clients(&redis, &[]).await, &redis).await;
    }
    for count in [1, 2] {
        let masters = Masters::start(3);
        let proxies: Vec<_> = (0..count).map(|_| Proxy::start(&masters, &FLAGS)).collect();
        proxies.iter().for_each(Proxy::expect_warnings);
        check(clients(&masters, &proxies).await, &masters).await;
    }
}

async fn claim(
    client: &mut MultiplexedConnection,
    key: &str,
    token: &str,
    ttl_ms: &str,
) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", ttl_ms]).await
}

async fn release(client: &mut MultiplexedConnection, key: &str, token: &str) -> i64 {
    int(client, &["EVAL", RELEASE, "1", key, token]).await
}

async fn extend(client: &mut MultiplexedConnection, key: &str, token: &str, ttl_ms: &str) -> i64 {
    int(client, &["EVAL", EXTEND, "1", key, token, ttl_ms]).await
}

/// Returns how many of this many concurrent claims are granted.
async fn granted_of(claims: usize, key: &str, clients: [&MultiplexedConnection; 2]) -> usize {
    let claims = (0..claims).map(|at| {
        let (mut client, key) = (clients[at % 2].clone(), key.to_owned());
        tokio::spawn(async move { claim(&mut client, &key, &at.to_string(), MINUTE).await })
    });
    let mut granted = 0;
    for claim in claims.collect::<Vec<_>>() {
        match claim.await.expect("it does not fail") {
            Ok(Value::Okay) => granted += 1,
            Ok(Value::Nil) => {}
            other => panic!("{other:?}"),
        }
    }
    granted
}

/// Returns how many masters hold a lease: a string with a tag.
async fn leases(masters: &Masters, key: &str) -> usize {
    let mut count = 0;
    for master in masters.iter() {
        let value = master.ask(&["GET", key]).await;
        count += usize::from(matches!(value, Reply::Bulk(value) if value.starts_with(&MARKER)));
    }
    count
}

/// `DEL` used to delete the value and leave its stamp, and the next `SETNX` found that every master had lost the
/// value.
#[tokio::test]
async fn a_lock_without_ttl_is_given_back_in_every_way() {
    for_two(async |[mut one, mut other]| {
        for round in 0..3 {
            assert_eq!(int(&mut one, &["SETNX", "lock", "mine"]).await, 1, "{round}");
            assert_eq!(int(&mut other, &["SETNX", "lock", "yours"]).await, 0);
            assert_eq!(release(&mut other, "lock", "yours").await, 0);
            match round {
                0 => assert_eq!(release(&mut other, "lock", "mine").await, 1),
                1 => assert_eq!(int(&mut other, &["DEL", "lock"]).await, 1),
                _ => assert_eq!(int(&mut other, &["UNLINK", "lock"]).await, 1),
            }
            assert_eq!(int(&mut one, &["DEL", "lock"]).await, 0);
            assert_eq!(release(&mut one, "lock", "mine").await, 0);
        }
    })
    .await;
}

/// Redis 8.4 and Valkey 9 have these commands; here they work with any masters.
#[tokio::test]
async fn a_value_is_deleted_if_it_is_the_one_that_is_meant() {
    if target_is_plain_redis() {
        return;
    }
    for_two(async |[mut one, mut other]| {
        for delete in [&["DELEX", "lock", "IFEQ"][..], &["DELIFEQ", "lock"]] {
            let delete = |token: &'static str| [delete, &[token]].concat();
            assert_eq!(int(&mut one, &["SETNX", "lock", "mine"]).await, 1);
            assert_eq!(int(&mut other, &delete("yours")).await, 0);
            assert_eq!(int(&mut other, &delete("mine")).await, 1);
            assert_eq!(int(&mut one, &delete("mine")).await, 0);
            assert_eq!(int(&mut one, &["RPUSH", "lock", "mine"]).await, 1);
            let refused = value(&mut other, &delete("mine")).await.expect_err("it is a list");
            assert_eq!(refused.code(), Some("WRONGTYPE"));
            assert_eq!(int(&mut other, &["DEL", "lock"]).await, 1);
        }
    })
    .await;
}

/// `EXPIRE` turns a lease into a register. Its holder keeps it until the release, after which it is a lease again.
#[tokio::test]
async fn a_lock_whose_end_was_changed_is_prolonged_and_given_back() {
    for_two(async |[mut one, mut other]| {
        for token in ["first", "second", "third"] {
            assert_eq!(claim(&mut one, "lock", token, MINUTE).await, Ok(Value::Okay), "{token}");
            assert_eq!(int(&mut other, &["EXPIRE", "lock", "600"]).await, 1);
            assert_eq!(claim(&mut other, "lock", "yours", MINUTE).await, Ok(Value::Nil));
            assert_eq!(extend(&mut other, "lock", "yours", MINUTE).await, 0);
            assert_eq!(extend(&mut one, "lock", token, MINUTE).await, 1);
            assert_eq!(text(&mut other, &["GET", "lock"]).await.as_deref(), Some(token));
            assert_eq!(release(&mut other, "lock", "yours").await, 0);
            assert_eq!(release(&mut one, "lock", token).await, 1, "{token}");
            assert_eq!(release(&mut one, "lock", token).await, 0, "{token}");
        }
    })
    .await;
}

/// Masters keep an expired key for a minute longer. It used to refuse claims for that long.
#[tokio::test]
async fn what_has_ended_is_free() {
    for_two_and_masters(async |[mut one, other], masters| {
        let takes: [&[&str]; 4] = [
            &["SET", "lock", "mine", "NX", "PX", MINUTE],
            &["EVAL", TAKE, "1", "lock", "mine", MINUTE],
            &["EVAL", EXTEND_OR_TAKE, "1", "lock", "mine", MINUTE],
            &["SETNX", "lock", "mine"],
        ];
        for take in takes {
            let set = ["SET", "lock", "over", "PX", "30"];
            // On a slow machine it may expire before the reply is sent, or before it can refuse a claim.
            let refused = eventually("it refuses", || async {
                let (mut one, mut other) = (one.clone(), other.clone());
                let asked = Instant::now();
                if value(&mut one, &set).await != Ok(Value::Okay) {
                    return None;
                }
                let refused = value(&mut other, take).await;
                let is_taken = matches!(refused, Ok(Value::Okay | Value::Int(1)));
                if is_taken && asked.elapsed() >= Duration::from_millis(30) {
                    assert_eq!(release(&mut other, "lock", "mine").await, 1, "{take:?}");
                    return None;
                }
                Some(refused)
            })
            .await;
            let was_there = eventually("it is taken once it has ended", || async {
                let holders = masters.holding("lock", b"over").await;
                let taken = value(&mut other.clone(), take).await;
                matches!(taken, Ok(Value::Okay | Value::Int(1))).then_some(holders > 0)
            });
            let was_there = was_there.await || target_is_plain_redis();
            assert!(was_there, "it refuses until masters drop it: {take:?}");
            assert_ne!(refused, Ok(Value::Okay), "it had not ended: {take:?}");
            assert_eq!(text(&mut one, &["GET", "lock"]).await.as_deref(), Some("mine"));
            assert_ne!(value(&mut one, &["SETNX", "lock", "yours"]).await, Ok(Value::Int(1)));
            assert_eq!(release(&mut one, "lock", "mine").await, 1, "{take:?}");
        }
    })
    .await;
}

/// A list, a value without a TTL, a lock that was taken over: claims leave them alone.
#[tokio::test]
async fn what_lives_is_held() {
    for_two(async |[mut one, mut other]| {
        for make in [&["SET", "key", "value"][..], &["RPUSH", "key", "element"]] {
            value(&mut one, make).await.expect("it is made");
            for client in [&mut one, &mut other] {
                assert_eq!(claim(client, "key", "mine", MINUTE).await, Ok(Value::Nil));
                let take = ["EVAL", TAKE, "1", "key", "mine", MINUTE];
                assert_eq!(value(client, &take).await, Ok(Value::Nil));
            }
            assert_eq!(int(&mut other, &["DEL", "key"]).await, 1);
        }
    })
    .await;
}

/// Claims of one worker wait for each other, and share the result of the first. No claim shares the result of one
/// that found an expired key, since only looking at the key removes it.
#[tokio::test]
async fn one_of_many_takes_what_has_ended() {
    for_two(async |[mut one, other]| {
        for round in 0..5 {
            let key = format!("lock {round}");
            let set = value(&mut one, &["SET", &key, "over", "PX", "1"]).await;
            let is_over = |error: &redis::RedisError| error.to_string().contains("is over");
            assert!(set == Ok(Value::Okay) || set.as_ref().is_err_and(is_over), "{set:?}");
            let mut granted = 0;
            while granted == 0 {
                granted = granted_of(20, &key, [&one, &other]).await;
            }
            assert_eq!(granted, 1, "{key}");
        }
    })
    .await;
}

/// After a register is deleted, its stamp stays for a while. A lease next to it is a normal lease.
#[tokio::test]
async fn a_lease_beside_the_stamp_of_what_was_deleted_is_a_lease() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for (key, end) in [("released", "release"), ("deleted", "DEL"), ("prolonged", "extend")] {
        assert_eq!(int(&mut near, &["SETNX", key, "before"]).await, 1);
        assert_eq!(int(&mut near, &["DEL", key]).await, 1);
        assert_eq!(claim(&mut near, key, "mine", MINUTE).await, Ok(Value::Okay));
        let tagged = || async { (leases(&stage.masters, key).await == 3).then_some(()) };
        eventually("it is a lease on all masters", tagged).await;
        assert_eq!(claim(&mut far, key, "yours", MINUTE).await, Ok(Value::Nil));
        match end {
            "DEL" => assert_eq!(int(&mut far, &["DEL", key]).await, 1),
            "extend" => {
                assert_eq!(extend(&mut far, key, "mine", TEN_MINUTES).await, 1);
                eventually("it is still one", tagged).await;
                assert_eq!(release(&mut near, key, "mine").await, 1);
            }
            _ => assert_eq!(release(&mut far, key, "mine").await, 1),
        }
        assert_eq!(claim(&mut far, key, "yours", MINUTE).await, Ok(Value::Okay), "{key}");
    }
}

/// A lock that one master alone has turned into a register, for a proxy that is dead.
struct HalfDone {
    stage: Stage,
    near: MultiplexedConnection,
}

impl HalfDone {
    /// The lock is held by `mine` on all masters. `PEXPIRE` through the far proxy reaches only the third master.
    async fn set(keys: &[&str]) -> Option<Self> {
        let stage = Stage::set(&FLAGS)?;
        stage.complete().await;
        let (mut near, far) = (stage.near.connection().await, stage.far.connection().await);
        for key in keys {
            assert_eq!(claim(&mut near, key, "mine", TEN_MINUTES).await, Ok(Value::Okay));
        }
        stage.relays[..2].iter().for_each(|relay| relay.hold_back("PEXPIRE"));
        for key in keys {
            let mut far = far.clone();
            let key = (*key).to_owned();
            tokio::spawn(async move { value(&mut far, &["PEXPIRE", &key, MINUTE]).await });
        }
        for key in keys {
            eventually("the third master has a register", || async {
                (leases(&stage.masters, key).await == 2).then_some(())
            })
            .await;
        }
        eventually("the others are held back", || async {
            stage.relays[..2].iter().all(|relay| relay.caught() > 0).then_some(())
        })
        .await;
        Some(Self { stage, near })
    }

    /// Kills the far proxy, which loses its requests in flight.
    fn without_the_far(self) -> (Proxy, Masters, MultiplexedConnection) {
        let Self { stage, near } = self;
        stage.relays.iter().for_each(Relay::cut);
        stage.far.kill_9();
        (stage.near, stage.masters, near)
    }
}

/// The first two masters hold the lease, and the third holds a register that nobody knows to be decided. The worker
/// that granted the lease releases what it knows; others look first.
#[tokio::test]
async fn a_lease_beside_a_register_that_one_master_has_is_given_back() {
    let keys = ["known", "looked at", "deleted", "prolonged", "kept"];
    let Some(half_done) = HalfDone::set(&keys).await else { return };
    let (_near, masters, mut near) = half_done.without_the_far();
    let other = Proxy::start(&masters, &FLAGS);
    let mut other = other.connection().await;
    assert_eq!(release(&mut near, "known", "mine").await, 1);
    assert_eq!(release(&mut other, "looked at", "yours").await, 0);
    assert_eq!(release(&mut other, "looked at", "mine").await, 1);
    assert_eq!(int(&mut other, &["DEL", "deleted"]).await, 1);
    assert_eq!(extend(&mut other, "prolonged", "mine", TEN_MINUTES).await, 1);
    assert_eq!(release(&mut near, "prolonged", "mine").await, 1);
    for key in ["known", "looked at", "deleted", "prolonged"] {
        assert_eq!(claim(&mut other, key, "the next", MINUTE).await, Ok(Value::Okay), "{key}");
        assert_eq!(claim(&mut near, key, "mine", MINUTE).await, Ok(Value::Nil), "{key}");
        assert_eq!(release(&mut near, key, "mine").await, 0, "{key}");
        assert_eq!(release(&mut near, key, "the next").await, 1, "{key}");
    }
    assert_eq!(claim(&mut other, "kept", "yours", MINUTE).await, Ok(Value::Nil));
    assert_eq!(release(&mut other, "kept", "mine").await, 1);
}

/// `PEXPIRE` is late at two masters. Its client has received an error, the holder has released the lock, and the next
/// holder has it there by now. The next lock keeps its expiry, and its holder keeps the lock.
#[tokio::test]
async fn a_late_expiry_leaves_the_next_lock_alone() {
    let Some(half_done) = HalfDone::set(&["lock"]).await else { return };
    let HalfDone { stage, mut near } = half_done;
    let mut far = stage.far.connection().await;
    eventually("the far proxy has given up", || async {
        let done = value(&mut far.clone(), &["PEXPIRE", "lock", "1"]).await;
        done.is_err().then_some(())
    })
    .await;
    assert_eq!(release(&mut near, "lock", "mine").await, 1);
    assert_eq!(claim(&mut near, "lock", "mine", TEN_MINUTES).await, Ok(Value::Okay));
    stage.heal();
    stage.settled().await;
    for client in [&mut near, &mut far] {
        assert_eq!(claim(client, "lock", "yours", MINUTE).await, Ok(Value::Nil));
    }
    let mut long = 0;
    for master in stage.masters.iter() {
        long += usize::from(master.pttl("lock").await > 500_000);
    }
    assert!(long >= 2, "{long} of 3 masters keep it for ten minutes");
    assert_eq!(release(&mut near, "lock", "mine").await, 1);
}

/// One master has missed that the expiry of a lock was changed, and so everything since. It used to keep the lease
/// until that expired, and returned it to any master that had lost the newer state.
#[tokio::test]
async fn what_a_register_has_taken_the_place_of_is_gone_where_that_was_missed() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for (key, change) in [("first slow", "EXPIRE"), ("second slow", "SET XX"), ("third slow", "")] {
        eventually("all masters have it", || async {
            let mut far = far.clone();
            claim(&mut far, key, "mine", TEN_MINUTES).await.ok()?;
            let is_everywhere = leases(&stage.masters, key).await == 3;
            if !is_everywhere {
                value(&mut far, &["DEL", key]).await.ok()?;
            }
            is_everywhere.then_some(())
        })
        .await;
        stage.relays[2].hold_back("slow");
        match change {
            "EXPIRE" => assert_eq!(int(&mut far, &["EXPIRE", key, "900"]).await, 1),
            "SET XX" => {
                let renew = ["SET", key, "mine", "XX", "PX", TEN_MINUTES];
                assert_eq!(value(&mut far, &renew).await, Ok(Value::Okay));
            }
            _ => assert_eq!(int(&mut far, &["APPEND", key, " and yours"]).await, 14),
        }
        stage.relays[2].cut_off().await;
        assert_eq!(int(&mut near, &["DEL", key]).await, 1, "{key}");
        stage.heal();
        eventually("no master has the lease", || async {
            (leases(&stage.masters, key).await == 0).then_some(())
        })
        .await;
    }
}

/// A client without knowledge of tags or stamps has written to the masters directly: a lock without a TTL, and a
/// list. Programs used to take these for expired keys, and lost them.
#[tokio::test]
async fn what_others_have_written_on_the_masters_is_found_as_it_is() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &FLAGS);
    let mut client = proxy.connection().await;
    for master in masters.iter() {
        assert_eq!(master.ask(&["SET", "lock", "theirs"]).await, Reply::ok());
        assert_eq!(master.ask(&["RPUSH", "list", "one", "two"]).await, Reply::Int(2));
    }
    for _ in 0..3 {
        assert_eq!(claim(&mut client, "lock", "mine", MINUTE).await, Ok(Value::Nil));
        assert_eq!(int(&mut client, &["SETNX", "lock", "mine"]).await, 0);
        assert_eq!(claim(&mut client, "list", "mine", MINUTE).await, Ok(Value::Nil));
        assert_eq!(release(&mut client, "lock", "mine").await, 0);
    }
    assert_eq!(masters.holding("lock", b"theirs").await, 3);
    assert_eq!(int(&mut client, &["RPUSH", "list", "three"]).await, 3);
    for master in masters.iter() {
        let list = master.ask(&["LRANGE", "list", "0", "-1"]).await;
        assert_eq!(list, Reply::Array(["one", "two", "three"].map(Reply::bulk).to_vec()));
    }
    assert_eq!(int(&mut client, &["EXPIRE", "lock", "600"]).await, 1);
    assert_eq!(release(&mut client, "lock", "theirs").await, 1);
    assert_eq!(claim(&mut client, "lock", "mine", MINUTE).await, Ok(Value::Okay));
}
