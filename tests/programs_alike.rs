//! After any program, all masters hold the same: nothing depends on a master's own clock or dice. If results cannot
//! be made equal, that is noticed or rejected.

mod support;

use support::clock::Clock;
use support::http::http;
use support::{
    Master, Masters, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis, words,
};

/// Commands that each server would execute by its own clock or dice. The keys are `set`, `hash`, `scores`, `stream`
/// and `list`.
const BY_CHANCE: [&str; 14] = [
    "SPOP set",
    "SPOP set 2",
    "XADD stream * f v",
    "XADD stream MAXLEN = 50 * f v",
    "EVAL \"return redis.call('xadd', KEYS[1], '*', 'f', 'v')\" 1 stream",
    "EVAL \"return redis.call(ARGV[1], KEYS[1], 'NOMKSTREAM', '*', 'f', 'v')\" 1 stream xadd",
    "EVAL \"return redis.call('spop', KEYS[1])\" 1 set",
    "EVAL \"return redis.call('spop', KEYS[1], 2)\" 1 set",
    "EVAL \"return redis.call('rpush', KEYS[2], redis.call(ARGV[1], KEYS[1]))\" 2 set list srandmember",
    "EVAL \"return redis.call('rpush', KEYS[2], unpack(redis.call('srandmember', KEYS[1], -3)))\" 2 set list",
    "EVAL \"return redis.call('rpush', KEYS[2], unpack(redis.call('hrandfield', KEYS[1], 3, 'withvalues')))\" 2 hash list",
    "EVAL \"return redis.call('rpush', KEYS[2], unpack(redis.call('zrandmember', KEYS[1], 3)))\" 2 scores list",
    "EVAL \"return redis.call('hdel', KEYS[1], redis.call('hrandfield', KEYS[1]))\" 1 hash",
    "EVAL \"return redis.call('rpush', KEYS[1], redis.call('randomkey'))\" 1 list",
];

/// A `cjson` setting used to stay on all masters but a restarted one, where other scripts then encoded another number.
#[tokio::test]
async fn masters_encode_the_same_whatever_a_script_has_set_of_cjson() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    let set = "EVAL \"cjson.encode_number_precision(3) return cjson.encode(3.14159265)\" 0";
    let write = "EVAL \"return redis.call('set', KEYS[1], cjson.encode(3.14159265))\" 1 price";
    let hidden =
        "EVAL \"return redis.call('set', KEYS[1], _G['cj' .. 'son'].encode(3.14159265))\" 1 price";
    for line in [write, hidden] {
        masters[0].ask(&words("EVAL 'cjson.encode_number_precision(7)' 0")).await;
        assert_eq!(ask(&mut client, set).await.text(), "3.14");
        assert_eq!(ask(&mut client, line).await, Reply::ok());
        for master in masters.iter() {
            eventually("it has run there", || async { master.has("price").await.then_some(()) })
                .await;
            assert_eq!(master.ask(&["GET", "price"]).await.text(), "3.14159265", "{line}");
        }
        assert_eq!(ask(&mut client, "DEL price").await, Reply::Int(1));
    }
}

#[tokio::test]
async fn masters_hold_the_same_whatever_their_clocks_and_dice() {
    if target_is_plain_redis() {
        return;
    }
    let masters = one_behind();
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut clients = [proxies[0].raw().await, proxies[1].raw().await];
    fill(&mut clients[0]).await;
    for turn in 0..20 {
        for line in BY_CHANCE {
            let reply = ask(&mut clients[turn % 2], line).await;
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
        for line in ["MULTI", "XADD stream * f v", "XADD stream * g w", "SPOP set", "SPOP set 2"] {
            ask(&mut clients[turn % 2], line).await;
        }
        let reply = ask(&mut clients[turn % 2], "EXEC").await;
        assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
    }
    for key in ["set", "hash", "scores", "stream", "list"] {
        equal_everywhere(&masters, key).await;
    }
}

/// Starts masters, one of which has a clock that is 20 s behind.
fn one_behind() -> Masters {
    let clock = Clock::new();
    clock.set_ahead_by(-20.0);
    Masters::of(vec![Master::start(), Master::start_by(&clock), Master::start()])
}

/// The same with a proxy. If the master that is behind answers first, the proxy uses its time for a while; the
/// function then starts other masters.
async fn one_behind_the_time() -> (Masters, Proxy) {
    let seconds = |reply: Reply| match reply {
        Reply::Array(parts) => parts[0].text().parse::<i64>().expect("seconds"),
        other => panic!("{other:?}"),
    };
    for _ in 0..100 {
        let masters = one_behind();
        let proxy = Proxy::start(&masters, &[]);
        let there = seconds(proxy.raw().await.ask(&["TIME"]).await);
        if there > seconds(masters[0].ask(&["TIME"]).await) - 10 {
            return (masters, proxy);
        }
    }
    panic!("the one that is behind is always the first");
}

async fn fill(client: &mut Raw) {
    for first in (0..400).step_by(50) {
        let numbers = first..first + 50;
        let members: Vec<String> = numbers.clone().map(|it| format!("member:{it}")).collect();
        let pairs: Vec<String> = members.iter().map(|it| format!("{it} {it}")).collect();
        let scores: Vec<String> =
            numbers.zip(&members).map(|(score, it)| format!("{} {it}", score % 7)).collect();
        ask(client, &format!("SADD set {}", members.join(" "))).await;
        ask(client, &format!("HSET hash {}", pairs.join(" "))).await;
        ask(client, &format!("ZADD scores {}", scores.join(" "))).await;
    }
}

/// Compares byte for byte, except for the order of sets and hashes.
async fn equal_everywhere(masters: &Masters, key: &str) {
    let content = "local words = ({ set = { 'SMEMBERS' }, hash = { 'HGETALL' }, zset = { 'ZRANGE', 0, -1, 'WITHSCORES' }, \
                   list = { 'LRANGE', 0, -1 }, stream = { 'XRANGE', '-', '+' } })[redis.call('TYPE', KEYS[1]).ok] \
                   local held = redis.call(table.remove(words, 1), KEYS[1], unpack(words)) \
                   if type(held[1]) == 'string' and words[1] == nil then table.sort(held) end \
                   local last = redis.pcall('XINFO', 'STREAM', KEYS[1]) \
                   return cmsgpack.pack({ held, last.err and '' or last[8] })";
    eventually(&format!("{key} is the same on all masters"), || async {
        let first = masters[0].ask(&["EVAL", content, "1", key]).await;
        assert!(matches!(first, Reply::Bulk(_)), "{key}: {first:?}");
        for master in &masters[1..] {
            if master.ask(&["EVAL", content, "1", key]).await != first {
                return None;
            }
        }
        Some(())
    })
    .await;
}

/// One master replies differently: the quorum's reply is the answer, whichever comes first, and the other reply is
/// counted.
#[tokio::test]
async fn a_reply_that_differs_is_counted_and_not_told() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    assert_eq!(masters[1].ask(&["CONFIG", "SET", "maxmemory", "4gb"]).await, Reply::ok());
    let script = "redis.call('incr', KEYS[1]) return string.match(redis.call('info', 'memory'), 'maxmemory:(%d+)')";
    for turn in 1..=30 {
        let reply = client.ask(&["EVAL", script, "1", "count"]).await;
        assert_eq!(reply, Reply::bulk("0"), "turn {turn}");
    }
    assert_eq!(client.ask(&["GET", "count"]).await, Reply::bulk("30"));
    eventually("all are counted", || async { (differing(&proxy) == 30).then_some(()) }).await;
    let sha = sha1_smol::Sha1::from(script).hexdigest();
    proxy.tells(&["masters gave different answers", &sha, "key `count`"]).await;
    let warned = proxy.warnings().iter().filter(|it| it.contains("gave different answers")).count();
    assert!(warned < 30, "{warned} warnings");
}

/// All masters reply differently. The script has run.
#[tokio::test]
async fn replies_that_all_differ_are_an_error() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    let differs = "return string.match(redis.call('info', 'server'), 'run_id:(%w+)')";
    let script = format!("redis.call('incr', KEYS[1]) {differs}");
    let reply = client.ask(&["EVAL", &script, "1", "count"]).await;
    let Reply::Error(why) = reply else { panic!("{reply:?}") };
    assert!(why.starts_with("ERR the script ran, but replied differently"), "{why}");
    assert_eq!(client.ask(&["GET", "count"]).await, Reply::bulk("1"));
    eventually("it is counted", || async { (differing(&proxy) == 1).then_some(()) }).await;
    // A script that only reads changes nothing, and gets the answer of one master.
    let reply = client.ask(&["EVAL", differs, "1", "count"]).await;
    assert!(matches!(reply, Reply::Bulk(_)), "{reply:?}");
    assert_eq!(differing(&proxy), 1);
}

fn differing(proxy: &Proxy) -> u64 {
    let metrics = http(&proxy.admin_address(), "GET", "/metrics", "").body;
    let line = metrics.lines().find(|line| line.starts_with("redlock_replies_differing_total "));
    let count = line.and_then(|line| line.rsplit(' ').next()).and_then(|it| it.parse().ok());
    count.unwrap_or_else(|| panic!("no such metric: {metrics}"))
}

/// A proxy that may not ask which keys a command writes must not write to them without a stamp.
#[tokio::test]
async fn a_write_whose_keys_nobody_tells_is_refused() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    ask(&mut client, "SADD a x").await;
    for master in masters.iter() {
        for rule in ["-command|getkeysandflags", "-command|getkeys"] {
            assert_eq!(master.ask(&["ACL", "SETUSER", "default", rule]).await, Reply::ok());
        }
    }
    for line in [
        "SUNIONSTORE d a",
        "EVAL \"return redis.pcall('sunionstore', KEYS[1], KEYS[2])\" 2 d a",
        "EVAL \"return redis.call('sunion', KEYS[1], KEYS[2])\" 2 d a",
    ] {
        let Reply::Error(why) = ask(&mut client, line).await else { panic!("{line}") };
        assert!(why.starts_with("ERR masters do not tell which keys 'sunion"), "{line}: {why}");
    }
    for master in masters.iter() {
        assert!(!master.has("d").await);
    }
    // Commands with one key need no such permission.
    for (line, reply) in [
        ("SET k v", Reply::ok()),
        ("GETEX k EX 100", Reply::bulk("v")),
        ("GETDEL k", Reply::bulk("v")),
        ("SADD a y", Reply::Int(1)),
        ("EVAL \"return redis.call(ARGV[1], KEYS[1])\" 1 a scard", Reply::Int(2)),
        ("EVAL \"return redis.call('ping')\" 0", Reply::Simple("PONG".into())),
    ] {
        assert_eq!(ask(&mut client, line).await, reply, "{line}");
    }
}

/// Masters note the same delivery time for an entry, so that all claim the same entries.
#[tokio::test]
async fn masters_note_deliveries_alike_and_claim_alike() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, first) = one_behind_the_time().await;
    let proxies = [first, Proxy::start(&masters, &[])];
    let mut clients = [proxies[0].raw().await, proxies[1].raw().await];
    ask(&mut clients[0], "XGROUP CREATE x g 0 MKSTREAM").await;
    let mut claimed = 0;
    for turn in 0..60 {
        let client = &mut clients[turn % 2];
        ask(client, "XADD x * f v").await;
        ask(client, READ[turn / 2 % 2]).await;
        // Some entries are old enough by then, and some are not.
        for line in ["XAUTOCLAIM x g d 4 0 COUNT 3", "XAUTOCLAIM x g c 7 0 COUNT 2 JUSTID"] {
            let Reply::Array(reply) = ask(client, line).await else { panic!("{line}") };
            let Reply::Array(entries) = &reply[1] else { panic!("{reply:?}") };
            claimed += entries.len();
        }
        let Reply::Array(pending) = ask(client, "XPENDING x g IDLE 2 - + 5").await else {
            panic!("no list")
        };
        for entry in pending {
            let Reply::Array(parts) = entry else { panic!("{entry:?}") };
            let Reply::Bulk(id) = &parts[0] else { panic!("{parts:?}") };
            let id = String::from_utf8_lossy(id);
            assert!(matches!(parts[2], Reply::Int(2..30_000)), "{parts:?}");
            ask(client, &format!("XCLAIM x g e 3 {id} RETRYCOUNT 1")).await;
        }
    }
    assert!(claimed > 0, "nothing was claimed");
    let noted = "return cmsgpack.pack(redis.call('XINFO', 'STREAM', KEYS[1], 'FULL', 'COUNT', 0)[18][1][12])";
    eventually("all have noted the same", || async {
        let first = masters[0].ask(&["EVAL", noted, "1", "x"]).await;
        let Reply::Bulk(bytes) = &first else { panic!("{first:?}") };
        assert!(bytes.len() > 60 * 10, "{first:?}");
        for master in &masters[1..] {
            if master.ask(&["EVAL", noted, "1", "x"]).await != first {
                return None;
            }
        }
        Some(())
    })
    .await;
}

const READ: [&str; 2] = [
    "EVAL \"return redis.call('xreadgroup', 'GROUP', 'g', 'c', 'STREAMS', KEYS[1], '>')\" 1 x",
    "XREADGROUP GROUP g c BLOCK 1000 STREAMS x >",
];

/// Fields of hashes expire by a master's own clock.
#[tokio::test]
async fn what_hangs_on_the_clock_of_a_master_is_refused() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    ask(&mut client, "HSET h f v").await;
    for name in ["HPEXPIRE", "hexpire", "HSETEX", "hgetex", "MSETEX"] {
        let script = "return redis.call(ARGV[1], KEYS[1], 5, 'FIELDS', 1, 'f')";
        let reply = client.ask(&["EVAL", script, "1", "h", name]).await;
        let Reply::Error(error) = reply else { panic!("{reply:?}") };
        let expected = format!("ERR '{}' is not supported", name.to_lowercase());
        assert!(error.starts_with(&expected), "{error}");
    }
}

async fn ask(raw: &mut Raw, line: &str) -> Reply {
    raw.send(&encode(&words(line))).await;
    raw.reply().await
}
