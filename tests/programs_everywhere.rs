//! What a script finds and what it says is the same on every master, and is said once: the time, chance,
//! messages, and the times to live of keys that masters hold for different lengths of time.

mod support;

use support::scripts::{REDISSON_LOCK, REDISSON_UNLOCK};
use support::{
    Master, Masters, Proxy, Raw, Reply, State, encode, eventually, int, target_is_plain_redis,
    words,
};

/// The time and the dice are the proxy's: what a script makes of them is equal on all masters.
#[tokio::test]
async fn what_differs_between_servers_is_the_same_on_all_masters() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    ask(&mut raw, "SADD pool a b c d e f g h i j").await;
    for turn in 0..20 {
        for script in BY_CHANCE {
            let request = ["EVAL", script, "2", "pool", "k"];
            let reply = raw.ask(&request).await;
            assert!(!matches!(reply, Reply::Error(_)), "turn {turn}: {script}: {reply:?}");
            for key in ["k", "pool"] {
                equal_everywhere(&masters, key).await;
            }
            assert_eq!(raw.ask(&["DEL", "k"]).await, Reply::Int(1), "turn {turn}: {script}");
        }
    }
}

const BY_CHANCE: [&str; 3] = [
    "local now = redis.call('time') return redis.call('set', KEYS[2], now[1] .. '.' .. now[2])",
    "return redis.call('set', KEYS[2], math.random(1000000))",
    "for _, m in ipairs(redis.call('smembers', KEYS[1])) do redis.call('rpush', KEYS[2], m) end return 1",
];

/// Each message of a script that took effect comes once, and those of a minority's never.
#[tokio::test]
async fn a_script_publishes_once() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut listeners = [listen(proxy.address()).await, listen(proxy.address()).await];
    let mut raw = proxy.raw().await;
    for turn in 1..=20 {
        let message = turn.to_string();
        let script = "redis.call('incr', KEYS[1]) redis.call('publish', KEYS[2], ARGV[1]) return 1";
        let reply = raw.ask(&["EVAL", script, "2", "count", "channel", &message]).await;
        assert_eq!(reply, Reply::Int(1));
    }
    refused_unlock(&masters, &mut raw).await;
    ask(&mut raw, "MULTI").await;
    ask(&mut raw, "PUBLISH channel last").await;
    ask(&mut raw, "EXEC").await;
    let expected: Vec<String> =
        (1..=20).map(|turn| turn.to_string()).chain(["last".into()]).collect();
    for listener in &mut listeners {
        for message in &expected {
            assert_eq!(listener.reply().await, pushed(message));
        }
    }
}

/// Only one master knows the lock, so only there the script lets go and says so: nobody hears it.
async fn refused_unlock(masters: &Masters, raw: &mut Raw) {
    if target_is_plain_redis() {
        return;
    }
    let mut stranger = Raw::connect(&masters[0].address()).await;
    assert_eq!(ask(&mut stranger, "HSET lock mine 1").await, Reply::Int(1));
    let request = ["EVAL", REDISSON_UNLOCK, "3", "lock", "channel", "latch", "refused", "60000"];
    let request = [&request[..], &["mine", "publish", "60000"]].concat();
    assert_eq!(raw.ask(&request).await, Reply::Nil);
}

async fn listen(address: &str) -> Raw {
    let mut listener = Raw::connect(address).await;
    let subscribed = listener.ask(&["SUBSCRIBE", "channel"]).await;
    assert!(matches!(subscribed, Reply::Array(_)), "SUBSCRIBE was answered {subscribed:?}");
    listener
}

fn pushed(message: &str) -> Reply {
    Reply::Array(["message", "channel", message].map(Reply::bulk).to_vec())
}

/// A lock that masters hold for different lengths of time: no longer than a quorum holds it, and
/// not as if it were gone.
#[tokio::test]
async fn times_that_differ_are_answered_with_care() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for (master, ttl) in masters.iter().zip(["100000", "200000", "300000"]) {
        let mut direct = Raw::connect(&master.address()).await;
        ask(&mut direct, "HSET lock other 1").await;
        assert_eq!(direct.ask(&["PEXPIRE", "lock", ttl]).await, Reply::Int(1));
    }
    let mut client = proxy.connection().await;
    let nested = "return {redis.call('pttl', KEYS[1]), redis.call('ttl', KEYS[1]) * 1000}";
    let mut times = vec![
        int(&mut client, &["EVAL", REDISSON_LOCK, "1", "lock", "60000", "mine"]).await,
        int(&mut client, &["PTTL", "lock"]).await,
    ];
    let Reply::Array(inner) = proxy.raw().await.ask(&["EVAL", nested, "1", "lock"]).await else {
        panic!("two times")
    };
    times.extend(inner.iter().map(|time| match time {
        Reply::Int(time) => *time,
        other => panic!("a time, not {other:?}"),
    }));
    for time in times {
        assert!((95_000..=200_000).contains(&time), "{time} ms are left");
    }
}

/// One master, or all, forget their scripts again and again; clients do not notice.
#[tokio::test]
async fn masters_that_forget_scripts_get_them_again() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let script = "return redis.call('hincrby', KEYS[1], 'count', 1)";
    let Reply::Bulk(sha) = raw.ask(&["SCRIPT", "LOAD", script]).await else { panic!("a SHA1") };
    for count in 1..=30 {
        let forgetful = if count % 3 == 0 { &masters[..] } else { &masters[..1] };
        for master in forgetful {
            let mut direct = Raw::connect(&master.address()).await;
            assert_eq!(ask(&mut direct, "SCRIPT FLUSH").await, Reply::ok());
        }
        let request = [b"EVALSHA".as_slice(), &sha, b"1", b"hash"];
        assert_eq!(raw.ask(&request).await, Reply::Int(count));
    }
    // One that forgets while the others decide may miss a call: a quorum never does.
    eventually("a quorum has counted every time", || async {
        let mut counted = 0;
        for master in masters.iter() {
            let mut direct = Raw::connect(&master.address()).await;
            let count = ask(&mut direct, "HGET hash count").await;
            counted += usize::from(count == Reply::bulk("30"));
        }
        (counted >= 2).then_some(())
    })
    .await;
}

/// Masters may be a moment late; then they hold the same.
async fn equal_everywhere(masters: &[Master], key: &str) {
    eventually(&format!("{key} is the same on all masters"), || async {
        let first = State::on(&masters[0], key).await;
        for master in &masters[1..] {
            if !State::on(master, key).await.holds_the_same(&first) {
                return None;
            }
        }
        Some(())
    })
    .await;
}

async fn ask(raw: &mut Raw, line: &str) -> Reply {
    raw.send(&encode(&words(line))).await;
    raw.reply().await
}
