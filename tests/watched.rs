//! Changes that count as touching a watched key, through any proxy.

mod support;

use support::{Masters, Proxy, Raw, Reply, target_is_plain_redis, words};

/// Commands before each of the cases; `k` is watched.
const BEFORE: [&str; 4] = ["DEL k d other", "SADD k a b", "SADD other b c", "SET d v"];

/// Commands that only read the watched key.
const READERS: [&str; 6] = [
    "SINTERSTORE d k other",
    "SUNIONSTORE d other k",
    "COPY k d REPLACE",
    "SORT k ALPHA STORE d",
    "EVAL \"redis.call('del', KEYS[2]) return redis.call('bitfield', KEYS[2], 'get', 'u8', 0, 'overflow', 'sat')\" 2 k d",
    "EVAL \"if redis.call('scard', KEYS[1]) == 2 then return redis.call('set', KEYS[2], 1) end\" 2 k d",
];

/// Commands that change it, some of them back to what it was before.
const WRITERS: [&str; 5] = [
    "SADD k x",
    "SMOVE k other a",
    "EXPIRE k 1000",
    "EVAL \"redis.call('sadd', KEYS[1], 'x') return redis.call('srem', KEYS[1], 'x')\" 1 k",
    "SINTERSTORE k k",
];

async fn ask(raw: &mut Raw, line: &str) -> Reply {
    raw.ask(&words(line)).await
}

/// Returns the reply to `EXEC` after `line` has run on another connection.
async fn exec_after(line: &str, watching: &mut Raw, others: &mut [Raw]) -> Reply {
    for before in BEFORE {
        ask(&mut others[0], before).await;
    }
    assert_eq!(ask(watching, "WATCH k").await, Reply::ok());
    for other in others {
        let reply = ask(other, line).await;
        assert!(!reply.is_error(""), "{line}: {reply:?}");
    }
    assert_eq!(ask(watching, "MULTI").await, Reply::ok());
    ask(watching, "SET result 1").await;
    ask(watching, "EXEC").await
}

#[tokio::test]
async fn a_key_that_was_only_read_is_not_touched() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut watching = proxies[0].raw().await;
    let mut others = [proxies[0].raw().await, proxies[1].raw().await];
    let done = Reply::Array(vec![Reply::ok()]);
    for line in READERS {
        assert_eq!(exec_after(line, &mut watching, &mut others).await, done, "{line}");
    }
    for line in WRITERS {
        let reply = exec_after(line, &mut watching, &mut others).await;
        assert_eq!(reply, Reply::Nil, "{line}");
    }
}

/// More programs than stamps remember.
#[tokio::test]
async fn a_change_is_seen_behind_many_programs_that_have_only_read() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut watching, mut other) = (proxy.raw().await, proxy.raw().await);
    for is_changed in [false, true] {
        for before in BEFORE {
            ask(&mut other, before).await;
        }
        assert_eq!(ask(&mut watching, "WATCH k").await, Reply::ok());
        for _ in 0..30 {
            ask(&mut other, READERS[0]).await;
        }
        if is_changed {
            ask(&mut other, WRITERS[0]).await;
        }
        for _ in 0..30 {
            ask(&mut other, READERS[0]).await;
        }
        assert_eq!(ask(&mut watching, "MULTI").await, Reply::ok());
        ask(&mut watching, "PING").await;
        ask(&mut watching, "INCR result").await;
        let reply = ask(&mut watching, "EXEC").await;
        assert_eq!(reply == Reply::Nil, is_changed, "{reply:?}");
    }
}
