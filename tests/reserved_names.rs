//! Names that begin with `redlock-proxy:` are the proxy's own. No client can name such a key or channel, or see one,
//! whatever it sends.

mod support;

use support::{
    Masters, PROTOCOLS, Proxy, Raw, Reply, Subscriber, eventually, int, target_is_plain_redis,
    text, value, words,
};

/// Gives a master that is busy with other tests time to answer.
const PATIENT: [&str; 2] = ["--vote-timeout", "2s"];

const REFUSAL: &str = "ERR names that begin with 'redlock-proxy:' are reserved";

fn setup() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    Some((masters, proxy))
}

/// Splits a line; `OURS` stands for one of the proxy's own names.
fn request(line: &str) -> Vec<String> {
    words(&line.replace("OURS", "redlock-proxy:mark"))
}

/// One request for each way in which a command has keys or channels.
const REQUESTS: &[&str] = &[
    "SET OURS x NX PX 1000",
    "GET OURS",
    "MGET free OURS",
    "DEL free OURS",
    "MSET free 1 OURS 2",
    "RENAME free OURS",
    "COPY free OURS",
    "BITOP AND free other OURS",
    "OBJECT ENCODING OURS",
    "XGROUP CREATE OURS g $ MKSTREAM",
    "ZUNIONSTORE to 2 free OURS",
    "LMPOP 2 free OURS LEFT",
    "BLPOP free OURS 0.01",
    "BLMPOP 0.01 1 OURS LEFT",
    "SORT free STORE OURS",
    "SORT free BY OURS*",
    "SORT free LIMIT 0 1 GET # GET OURS*->f",
    "SORT_RO free GET OURS",
    "GEORADIUS free 1 1 1 m STORE OURS",
    "GEORADIUS free 1 1 1 m COUNT 1 STOREDIST OURS",
    "GEORADIUS free 1 1 1 m STORE free STORE OURS",
    "SORT free STORE by STORE OURS",
    "PFMERGE OURS",
    "PFMERGE free OURS",
    "GEOSEARCHSTORE OURS free FROMLONLAT 1 1 BYRADIUS 1 m",
    "RESTORE OURS 0 x",
    "PFCOUNT OURS",
    "EVAL \"return 1\" 1 OURS",
    "EVAL_RO \"return 1\" 2 free OURS",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 OURS",
    "PUBLISH OURS x",
    "SPUBLISH OURS x",
    "SUBSCRIBE free OURS",
    "SSUBSCRIBE OURS",
    "PSUBSCRIBE OURS*",
];

#[tokio::test]
async fn a_key_or_channel_of_the_proxy_s_own_is_refused_by_name() {
    let Some((masters, proxy)) = setup() else { return };
    let mut client = proxy.raw().await;
    for line in REQUESTS.iter().chain(&["WATCH free OURS"]) {
        let reply = client.ask(&request(line)).await;
        assert!(reply.is_error(REFUSAL), "{line}: {reply:?}");
    }
    for line in REQUESTS {
        client.ask(&["MULTI"]).await;
        let reply = client.ask(&request(line)).await;
        assert!(reply.is_error(REFUSAL), "{line}: {reply:?}");
        assert!(client.ask(&["EXEC"]).await.is_error("EXECABORT"), "{line}");
    }
    for master in masters.iter() {
        assert_eq!(master.key_count().await, 0);
    }
}

/// Values, fields and messages are not names.
#[tokio::test]
async fn values_may_look_like_names_of_the_proxy_s_own() {
    let Some((_masters, proxy)) = setup() else { return };
    let mut client = proxy.raw().await;
    for line in [
        "SET lock OURS NX PX 100000",
        "HSET h OURS OURS",
        "LPUSH l OURS",
        "SORT l ALPHA",
        "SORT l ALPHA GET #",
        "EVAL \"return redis.call('set', KEYS[1], ARGV[1])\" 1 k OURS",
        "EVAL \"return redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[2])\" 1 h2 hset OURS",
        "EVAL \"return redis.call('publish', 'news', ARGV[1])\" 0 OURS",
        "PUBLISH news OURS",
        "ECHO OURS",
    ] {
        let reply = client.ask(&request(line)).await;
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    assert_eq!(
        client.ask(&words("HGET h redlock-proxy:mark")).await,
        Reply::bulk("redlock-proxy:mark")
    );
}

/// Calls of a script, with names that it builds at run time.
const CALLS: &[&str] = &[
    "redis.call('set', OURS, 'x')",
    "redis.call('SET', OURS, 'x', 'px', 1000)",
    "redis.call('get', OURS)",
    "redis.call('mget', 'free', OURS)",
    "redis.call('del', OURS)",
    "redis.call('pexpire', OURS, 1000)",
    "redis.call('rename', 'free', OURS)",
    "redis.call('bitop', 'and', OURS, 'free')",
    "redis.call('zunionstore', 'to', 2, 'free', OURS)",
    "redis.call('lmpop', 1, OURS, 'left')",
    "redis.call('sort', 'free', 'store', OURS)",
    "redis.call('sort', 'free', 'by', OURS .. '*')",
    "redis.call('georadius', 'free', 1, 1, 1, 'm', 'storedist', OURS)",
    "redis.call('georadius', 'free', 1, 1, 1, 'm', 'store', 'free', 'store', OURS)",
    "redis.call('sort', 'free', 'store', 'by', 'store', OURS)",
    "redis.call('pfmerge', OURS)",
    "redis.call('pfmerge', 'free', OURS)",
    "redis.call('sort_ro', 'free', 'get', OURS)",
    "redis.call('copy', 'free', OURS, 'db', 1)",
    "redis.call('copy', OURS, 'free', 'db', 1)",
    "redis.call('restore', OURS, 0, 'x', 'replace')",
    "redis.call('xread', 'streams', OURS, '0')",
    "redis.call('object', 'encoding', OURS)",
    "redis.call('memory', 'usage', OURS)",
    "redis.call('publish', OURS, 'x')",
    "redis.call('spublish', OURS, 'x')",
    "redis.call(string.upper('set'), OURS, 'x')",
    "(function() KEYS[1] = OURS return redis.call('get', KEYS[1]) end)()",
    "(function() local r = redis return r.call('get', OURS) end)()",
    "loadstring('return redis.call(...)')('set', OURS, 'x')",
];

#[tokio::test]
async fn a_script_cannot_make_up_a_name_of_the_proxy_s_own() {
    let Some((masters, proxy)) = setup() else { return };
    let mut client = proxy.raw().await;
    for call in CALLS {
        let call = call.replace("OURS", "('redlock-' .. 'proxy:mark')");
        for script in [format!("return {call}"), format!("local x = _G return {call}")] {
            let reply = client.ask(&["EVAL", &script, "1", "free"]).await;
            assert!(reply.is_error(REFUSAL), "{script}: {reply:?}");
            client.ask(&["MULTI"]).await;
            client.ask(&["EVAL", &script, "1", "free"]).await;
            let Reply::Array(replies) = client.ask(&["EXEC"]).await else { panic!("{script}") };
            assert!(replies[0].is_error(REFUSAL), "{script}: {replies:?}");
        }
        let caught =
            format!("return redis.pcall{}", call.strip_prefix("redis.call").unwrap_or("()"));
        let reply = client.ask(&["EVAL", &caught, "1", "free"]).await;
        let is_pcall = call.starts_with("redis.call");
        assert!(!is_pcall || reply == Reply::Error(refused_whole()), "{caught}: {reply:?}");
    }
    for master in masters.iter() {
        assert_eq!(master.key_count().await, 0);
    }
}

fn refused_whole() -> String {
    format!("{REFUSAL}: choose another name for the key or channel")
}

/// Calls that reveal keys, each with its answer when only the key `free` exists, in database 3.
const WITH_ONE_KEY: &[(&str, &str)] = &[
    ("return redis.call('keys', '*')", "free"),
    ("return redis.call('scan', '0')[2]", "free"),
    ("return redis.call('scan', '0', 'count', 1000, 'type', 'string')[2]", "free"),
    ("return redis.call('keys', 'redlock-*')", ""),
    ("return redis.call('dbsize')", "1"),
    ("return redis.call(string.upper('dbsize'))", "1"),
    ("return redis.call('randomkey')", "free"),
    ("return redis.call(string.upper('randomkey'))", "free"),
    ("redis.setresp(3) return redis.call('randomkey')", "free"),
    ("return redis.call('info', 'keyspace'):gsub('%c+', ' ')", KEYSPACE),
    (
        "redis.setresp(3) return redis.call('info', 'keyspace').verbatim_string.string:gsub('%c+', ' ')",
        KEYSPACE,
    ),
    ("redis.call('select', 4) return redis.call('dbsize')", "0"),
    ("redis.call('info', 'keyspace') return redis.call('dbsize')", "1"),
];

const KEYSPACE: &str = "# Keyspace db3:keys=1,expires=0,avg_ttl=0 ";

/// The same for database 4, which is empty.
const WITHOUT_KEYS: &[(&str, &str)] = &[
    ("return redis.call('keys', '*')", ""),
    ("return redis.call('dbsize')", "0"),
    ("return tostring(redis.call('randomkey'))", "false"),
    ("redis.setresp(3) return tostring(redis.call('randomkey'))", "nil"),
    ("return tostring(redis.pcall('randomkey', 'x').err ~= nil)", "true"),
];

/// Keys with such names on the masters are not keys of clients.
#[tokio::test]
async fn keys_of_the_proxy_s_own_are_not_shown_to_scripts() {
    let Some((masters, proxy)) = setup() else { return };
    let mut client = proxy.raw().await;
    let marked = marked(&masters).await;
    for (db, scripts) in [("3", WITH_ONE_KEY), ("4", WITHOUT_KEYS)] {
        client.ask(&["SELECT", db]).await;
        for (script, expected) in scripts {
            client
                .ask(&["EVAL", "redis.call('select', 3) redis.call('set', 'free', 'x')", "0"])
                .await;
            // RANDOMKEY might find the only key by luck, too.
            for _ in 0..4 {
                let said = client.ask(&["EVAL", script, "0"]).await;
                assert_eq!(shown(&said), *expected, "{script}: {said:?}");
                client.ask(&["MULTI"]).await;
                client.ask(&["EVAL", script, "0"]).await;
                assert_eq!(client.ask(&["EXEC"]).await, Reply::Array(vec![said]), "{script}");
            }
        }
    }
    assert_eq!(masters.marks().await, marked);
}

/// Returns the content of a reply, without its type.
fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Array(items) => items.iter().map(shown).collect(),
        Reply::Int(number) => number.to_string(),
        other => other.text(),
    }
}

#[tokio::test]
async fn keys_of_the_proxy_s_own_are_not_counted_in_a_transaction() {
    let Some((_masters, proxy)) = setup() else { return };
    let mut client = proxy.raw().await;
    let empty = || Reply::Array(Vec::new());
    let nothing = Reply::Array(vec![Reply::bulk("0"), empty()]);
    for db in ["0", "5"] {
        client.ask(&["SELECT", db]).await;
        client.ask(&["MULTI"]).await;
        for line in ["DBSIZE", "SET free x", "DBSIZE", "DEL free", "KEYS *", "SCAN 0"] {
            client.ask(&words(line)).await;
        }
        let expected =
            [Reply::Int(0), Reply::ok(), Reply::Int(1), Reply::Int(1), empty(), nothing.clone()];
        assert_eq!(client.ask(&["EXEC"]).await, Reply::Array(expected.to_vec()), "{db}");
    }
}

/// `SORT` builds names from its patterns and from the sorted values.
#[tokio::test]
async fn a_sort_cannot_make_up_a_name_of_the_proxy_s_own() {
    let Some((_masters, proxy)) = setup() else { return };
    let mut client = proxy.raw().await;
    for line in [
        "SET a-key one",
        "RPUSH ids a-key b-key",
        "RPUSH marks a-key redlock-proxy:mark",
        "SADD rests :mark",
    ] {
        client.ask(&words(line)).await;
    }
    for line in [
        "SORT marks BY nosort GET *",
        "SORT marks BY nosort GET # GET *",
        "SORT marks BY * LIMIT 0 1",
        "SORT_RO marks BY nosort GET *",
        "SORT marks BY nosort GET * STORE to",
        "sort rests by nosort get redlock-proxy*",
    ] {
        for reply in in_all_ways(&mut client, line).await {
            assert!(reply.is_error(REFUSAL), "{line}: {reply:?}");
        }
    }
    let found = Reply::Array(vec![Reply::bulk("one"), Reply::Nil]);
    for line in ["SORT ids BY nosort GET *", "SORT_RO ids BY r* LIMIT 0 2 ALPHA GET *"] {
        for reply in in_all_ways(&mut client, line).await {
            assert_eq!(reply, found, "{line}");
        }
    }
    assert!(client.ask(&words("SORT a-key BY nosort GET *")).await.is_error("WRONGTYPE"));
    assert_eq!(client.ask(&words("SORT none BY nosort GET *")).await, Reply::Array(Vec::new()));
}

/// Returns the answers to a command sent directly, in a script and in a transaction.
async fn in_all_ways(client: &mut Raw, line: &str) -> [Reply; 3] {
    [client.ask(&words(line)).await, as_script(client, line).await, queued(client, line).await]
}

/// The same call by a script that builds the command.
async fn as_script(client: &mut Raw, line: &str) -> Reply {
    let words = words(line);
    let script = ["EVAL", "return redis.call(unpack(ARGV))", "0"].map(str::to_owned);
    client.ask(&[&script[..], &words].concat()).await
}

/// The same in a transaction.
async fn queued(client: &mut Raw, line: &str) -> Reply {
    client.ask(&["MULTI"]).await;
    client.ask(&words(line)).await;
    let Reply::Array(mut replies) = client.ask(&["EXEC"]).await else { panic!("{line}") };
    replies.remove(0)
}

/// A command that empties or swaps databases would make the masters lose their memory.
#[tokio::test]
async fn no_program_takes_the_marks_away() {
    let Some((masters, proxy)) = setup() else { return };
    let flushing = Proxy::start(&masters, &[&PATIENT[..], &["--allow-flush"]].concat());
    let marked = marked(&masters).await;
    for proxy in [&proxy, &flushing] {
        let mut client = proxy.raw().await;
        for line in [
            "FLUSHALL",
            "FLUSHDB ASYNC",
            "flushall sync",
            "SWAPDB 0 1",
            "MOVE free 1",
            "MIGRATE 127.0.0.1 1 free 0 1",
        ] {
            assert!(matches!(as_script(&mut client, line).await, Reply::Error(_)), "{line}");
            let command =
                words(line).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
            let named = format!("return redis.call({command})");
            assert!(matches!(client.ask(&["EVAL", &named, "0"]).await, Reply::Error(_)), "{line}");
            client.ask(&["MULTI"]).await;
            client.ask(&words(line)).await;
            client.ask(&["EXEC"]).await;
        }
        let emptied = "for _, key in ipairs(redis.call('keys', '*')) do redis.call('del', key) end";
        assert_eq!(client.ask(&["EVAL", emptied, "0"]).await, Reply::Nil);
        assert_eq!(masters.marks().await, marked);
        assert_eq!(client.ask(&words("SET lock mine PX 1000")).await, Reply::ok());
    }
}

/// Outside of scripts these are allowed. They empty the databases except for the proxies' own keys.
#[tokio::test]
async fn a_flush_leaves_the_marks() {
    let Some((masters, _)) = setup() else { return };
    let proxy = Proxy::start(&masters, &[&PATIENT[..], &["--allow-flush"]].concat());
    let marked = marked(&masters).await;
    let mut client = proxy.raw().await;
    for line in ["FLUSHDB", "FLUSHALL"] {
        client.ask(&words("SET free x")).await;
        assert_eq!(client.ask(&words(line)).await, Reply::ok(), "{line}");
        assert_eq!(client.ask(&words("DBSIZE")).await, Reply::Int(0));
        assert_eq!(masters.marks().await, marked);
    }
}

/// Returns the marks of the masters: every database has one.
async fn marked(masters: &Masters) -> Vec<Vec<String>> {
    let marks = masters.marks().await;
    assert!(marks.iter().flatten().all(|mark| !mark.is_empty()), "{marks:?}");
    marks
}

/// This holds even if another proxy or an operator uses a channel of such a name.
#[tokio::test]
async fn a_pattern_does_not_bring_what_is_said_in_the_proxy_s_own_channels() {
    let Some((masters, proxy)) = setup() else { return };
    for protocol in PROTOCOLS {
        let mut all = Subscriber::new(proxy.address(), protocol, &["PSUBSCRIBE", "*", "r*"]).await;
        let mut direct = Raw::connect(&masters[0].address()).await;
        direct.ask(&["SUBSCRIBE", "redlock-proxy:news"]).await;
        for (channel, message) in [("redlock-proxy:news", "secret"), ("news", "free")] {
            let mut publisher = masters[1].connection().await;
            int(&mut publisher, &["PUBLISH", channel, message]).await;
        }
        assert_eq!(all.text().await, "free");
        let mut client = proxy.connection().await;
        let channels = value(&mut client, &["PUBSUB", "CHANNELS"]).await;
        assert_eq!(channels, Ok(redis::Value::Array(Vec::new())));
    }
}

/// One `SUBSCRIBE` used to look like another proxy's list of masters, and every proxy stopped.
#[tokio::test]
async fn one_subscription_of_a_client_stops_every_proxy() {
    let Some((masters, proxy)) = setup() else { return };
    let list = "redlock-proxy:masters:evil:1,evil:2|1111|x";
    let name = "redlock-proxy-watch:evil:1,evil:2|1111|x";
    let mut client = proxy.raw().await;
    for words in [["SUBSCRIBE", list], ["SSUBSCRIBE", list], ["PSUBSCRIBE", list]] {
        assert!(client.ask(&words).await.is_error(REFUSAL), "{words:?}");
    }
    // The name of a client's connection is not that of a proxy's connection to the masters.
    assert_eq!(client.ask(&["CLIENT", "SETNAME", name]).await, Reply::ok());
    let call = "return redis.pcall('client', 'setname', ARGV[1])";
    let reply = client.ask(&["EVAL", call, "0", name]).await;
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    // Nor does a channel mean anything, should one exist on a master after all.
    let mut direct = Raw::connect(&masters[0].address()).await;
    direct.ask(&["SUBSCRIBE", list]).await;
    let looks = masters[0].calls("time").await;
    eventually("it looks again and again", || async {
        (masters[0].calls("time").await > looks + 4).then_some(())
    })
    .await;
    assert_eq!(client.ask(&words("SET lock mine NX PX 10000")).await, Reply::ok());
    assert!(text(&mut proxy.connection().await, &["GET", "lock"]).await.is_some());
}
