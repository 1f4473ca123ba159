//! Inputs and outputs of scripts are the same on every master, and outputs come once: the time, chance, messages, and
//! keys from before the proxies.

mod support;

use support::scripts::{REDISSON_LOCK, REDISSON_UNLOCK};
use support::{
    Master, Masters, Proxy, Raw, Reply, Stage, State, compare, encode, eventually,
    target_is_plain_redis, words,
};

/// Time and dice come from the proxy, so a script gets the same result on all masters.
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

/// A script restarts when it names an undeclared key, and would name another one each time.
#[tokio::test]
async fn a_script_may_make_up_its_keys_out_of_the_time_or_of_dice() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    for script in MADE_UP {
        for _ in 0..3 {
            let reply = raw.ask(&["EVAL", script, "0"]).await;
            let Reply::Bulk(key) = &reply else { panic!("{script}: {reply:?}") };
            let key = String::from_utf8_lossy(key).into_owned();
            assert_eq!(raw.ask(&["GET", &key]).await, Reply::bulk("1"), "{script}");
            equal_everywhere(&masters, &key).await;
        }
    }
    let read = "local now = redis.call('time') return redis.call('get', 't' .. now[1] .. now[2])";
    assert_eq!(raw.ask(&["EVAL_RO", read, "0"]).await, Reply::Nil);
}

/// Each run of a script quickly finds one more undeclared key.
#[tokio::test]
async fn a_script_that_comes_to_undeclared_keys_without_end_is_told_so() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--patience", "500ms", "--vote-timeout", "500ms"]);
    let mut raw = proxy.raw().await;
    let script = "for number = 1, 1000000 do redis.call('get', 'k' .. number) end";
    let reply = raw.ask(&["EVAL", script, "0"]).await;
    let Reply::Error(error) = &reply else { panic!("{reply:?}") };
    assert!(error.starts_with("TRYAGAIN the script kept reaching undeclared keys"), "{error}");
    assert_eq!(ask(&mut raw, "INCR counter").await, Reply::Int(1));
}

const MADE_UP: [&str; 3] = [
    "local now = redis.call('time') local key = 't' .. now[1] .. now[2] redis.call('set', key, 1) return key",
    "local key = 'r' .. math.random(1000000000) redis.call('set', key, 1) return key",
    "local a, b = redis.call('time'), redis.call('time') \
     redis.call('set', 'a' .. a[2], 1) redis.call('set', 'b' .. b[2], 1) return 'b' .. b[2]",
];

const BY_CHANCE: [&str; 3] = [
    "local now = redis.call('time') return redis.call('set', KEYS[2], now[1] .. '.' .. now[2])",
    "return redis.call('set', KEYS[2], math.random(1000000))",
    "for _, m in ipairs(redis.call('smembers', KEYS[1])) do redis.call('rpush', KEYS[2], m) end return 1",
];

/// Each message of a script comes once. If its client received an error, the script may have run, and the message
/// comes once or never.
#[tokio::test]
async fn a_script_publishes_once() {
    let Some(stage) = Stage::set(&["--vote-timeout", "100ms"]) else { return };
    stage.complete().await;
    let mut listeners = [listen(stage.far.address()).await, listen(stage.near.address()).await];
    let mut raw = stage.far.raw().await;
    let script = "redis.call('incr', KEYS[1]) redis.call('publish', KEYS[2], ARGV[1]) return 1";
    let request =
        |message: &str| ["EVAL", script, "2", "count", "channel", message].map(str::to_owned);
    for turn in 1..=20 {
        assert_eq!(raw.ask(&request(&turn.to_string())).await, Reply::Int(1));
    }
    // One script runs on one master and arrives late at the others; one runs everywhere, and its proxy receives the
    // answers late.
    stage.relays[1..].iter().for_each(|relay| relay.hold_back("unknown 1"));
    assert!(raw.ask(&request("unknown 1")).await.is_error("UNKNOWN"));
    stage.heal();
    stage.settled().await;
    stage.relays.iter().for_each(|relay| relay.hold_back_answers_to("unknown 2"));
    assert!(raw.ask(&request("unknown 2")).await.is_error("UNKNOWN"));
    stage.heal();
    stage.settled().await;
    ask(&mut raw, "MULTI").await;
    ask(&mut raw, "PUBLISH channel last").await;
    ask(&mut raw, "EXEC").await;
    let expected: Vec<String> =
        (1..=20).map(|turn| turn.to_string()).chain(["last".into()]).collect();
    for listener in &mut listeners {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|message| message != "last") {
            heard.push(message(listener.reply().await));
        }
        for unknown in ["unknown 1", "unknown 2"] {
            let times = heard.iter().filter(|message| *message == unknown).count();
            assert!(times <= 1, "{unknown} came {times} times");
            heard.retain(|message| message != unknown);
        }
        assert_eq!(heard, expected);
    }
}

async fn listen(address: &str) -> Raw {
    let mut listener = Raw::connect(address).await;
    let subscribed = listener.ask(&["SUBSCRIBE", "channel"]).await;
    assert!(matches!(subscribed, Reply::Array(_)), "SUBSCRIBE was answered {subscribed:?}");
    listener
}

fn message(pushed: Reply) -> String {
    match pushed {
        Reply::Array(parts) if parts.len() == 3 => parts[2].clone().text(),
        other => panic!("a message, not {other:?}"),
    }
}

/// Locks taken before there were proxies, whose expiries differ between masters by the network delay: they exclude
/// others, and can be released.
#[tokio::test]
async fn locks_that_were_there_before_exclude() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    for (master, ttl) in masters.iter().zip(["599950", "600000", "600070"]) {
        let mut direct = Raw::connect(&master.address()).await;
        ask(&mut direct, "HSET lock other 1").await;
        assert_eq!(direct.ask(&["PEXPIRE", "lock", ttl]).await, Reply::Int(1));
    }
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let lock = |holder| ["EVAL", REDISSON_LOCK, "1", "lock", "600000", holder];
    let unlock = |holder| {
        let words = ["EVAL", REDISSON_UNLOCK, "3", "lock", "channel", "latch", "0", "600000"];
        [&words[..], &[holder, "publish", "60000"]].concat()
    };
    let Reply::Int(left_ms) = raw.ask(&lock("mine")).await else { panic!("it is held") };
    assert!((500_000..=600_000).contains(&left_ms), "{left_ms} ms are left");
    assert_eq!(raw.ask(&unlock("mine")).await, Reply::Nil);
    assert_eq!(raw.ask(&lock("other")).await, Reply::Nil, "it is its own");
    for left in [0, 1] {
        assert_eq!(raw.ask(&unlock("other")).await, Reply::Int(left));
        assert_eq!(raw.ask(&["DEL", "latch"]).await, Reply::Int(1));
    }
    assert_eq!(raw.ask(&lock("mine")).await, Reply::Nil);
    equal_everywhere(&masters, "lock").await;
}

/// These commands answer 0, as if they changed nothing, but all but one change or create a key.
#[tokio::test]
async fn what_answers_0_and_makes_a_key_is_kept() {
    compare(
        r#"
        INCRBY number 0
        EVAL "return redis.call('STRLEN', KEYS[1])" 1 number
        APPEND string ""
        EVAL "return redis.call('STRLEN', KEYS[1])" 1 string
        APPEND string x
        SETBIT bits 3 0
        EVAL "return redis.call('STRLEN', KEYS[1])" 1 bits
        HINCRBY hash field 0
        EVAL "return redis.call('HLEN', KEYS[1])" 1 hash
        SETRANGE none 0 ""
        EXISTS number string bits hash none
        EVAL "return redis.call('INCRBY', KEYS[1], 0)" 2 zero none
        EVAL "return redis.call('EXISTS', KEYS[1])" 1 zero
        EVAL "return redis.call('ZADD', KEYS[1], 'XX', 1, 'member')" 1 none
        EVAL "return redis.call('TYPE', KEYS[1])" 1 none
        ZADD none 1 member
        EVAL "return redis.call('TYPE', KEYS[1])" 1 none
        WATCH hash
        EVAL "return redis.call('HSET', KEYS[1], 'field', 'other')" 1 hash
        MULTI
        HGET hash field
        EXEC
        HGET hash field
        ZADD zset 1 member
        WATCH zset
        EVAL "return redis.call('ZADD', KEYS[1], 2, 'member')" 1 zset
        MULTI
        EXEC
        SETBIT bits 3 1
        WATCH bits
        EVAL "return redis.call('SETBIT', KEYS[1], 4, 1)" 1 bits
        MULTI
        EXEC
        "#,
    )
    .await;
}

/// Only its existence distinguishes it from no string.
#[tokio::test]
async fn an_empty_string_that_was_there_before_is_one() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    for master in masters.iter() {
        assert_eq!(master.ask(&["SET", "empty", ""]).await, Reply::ok());
    }
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let exists = ["EVAL", "return redis.call('EXISTS', KEYS[1])", "1", "empty"];
    assert_eq!(raw.ask(&exists).await, Reply::Int(1));
    assert_eq!(ask(&mut raw, "SET empty full NX").await, Reply::Nil);
    assert_eq!(ask(&mut raw, "APPEND empty x").await, Reply::Int(1));
    assert_eq!(ask(&mut raw, "GET empty").await, Reply::bulk("x"));
    // The same when the proxy knows that the key was absent when it last wrote.
    assert_eq!(ask(&mut raw, "SET empty full").await, Reply::ok());
    assert_eq!(ask(&mut raw, "DEL empty").await, Reply::Int(1));
    masters.forget("empty").await;
    for master in masters.iter() {
        assert_eq!(master.ask(&["SET", "empty", ""]).await, Reply::ok());
    }
    assert_eq!(ask(&mut raw, "APPEND empty x").await, Reply::Int(1));
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
    // A master that forgets while the others decide may miss a call; a quorum never does.
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

/// Waits until all masters hold the same, since some may be a moment late.
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
