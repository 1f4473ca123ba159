//! Numbers at the ends of their ranges, in every place where a client can name one. The proxy answers what one Redis
//! answers, and its own arithmetic neither wraps nor panics (tests run with overflow checks).

mod support;

use support::{Master, Masters, Proxy, Raw, Reply, encode, target_is_plain_redis, words};

const NUMBERS: [&str; 9] = [
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "9223372036854775",
    "4611686018427387904",
    "18446744073709551615",
    "1e400",
];

/// Lua rounds the largest integer up to a number that is no longer an integer.
#[tokio::test]
async fn the_largest_number_of_a_bitfield_is_not_negative() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "2s"]);
    let largest = Reply::Array(vec![Reply::Int(i64::MAX - 1023), Reply::Nil, Reply::Int(i64::MIN)]);
    let set =
        "BITFIELD b OVERFLOW FAIL INCRBY i64 0 9223372036854775807 INCRBY i8 200 300 SET i64 64 0";
    let get = "BITFIELD_RO b GET i64 0";
    for version in ["2", "3"] {
        let mut client = proxy.raw().await;
        client.ask(&["HELLO", version]).await;
        client.ask(&["DEL", "b"]).await;
        client.ask(&words("SETBIT b 64 1")).await;
        assert_eq!(client.ask(&words(set)).await, largest);
        assert_eq!(client.ask(&words(get)).await, Reply::Array(vec![Reply::Int(i64::MAX)]));
        client.ask(&["MULTI"]).await;
        client.ask(&words(get)).await;
        let rounded = Reply::Array(vec![Reply::Int(i64::MAX - 1023)]);
        assert_eq!(client.ask(&["EXEC"]).await, Reply::Array(vec![rounded]));
    }
}

/// `N` stands for a number; the keys are those of [`SETUP`].
const REQUESTS: &[&str] = &[
    "INCRBY n N",
    "DECRBY n N",
    "INCRBYFLOAT n N",
    "GETRANGE s N N",
    "SUBSTR s N 1",
    "SETRANGE s2 N x",
    "GETBIT s N",
    "BITCOUNT s N N",
    "BITPOS s 1 N N",
    "EXPIRE s N",
    "PEXPIRE s N",
    "EXPIREAT s N",
    "PEXPIREAT s N",
    "SET t x EX N",
    "SET t x PX N",
    "SET t x EXAT N",
    "SET t x PXAT N",
    "SET t x NX PX N",
    "SETEX t N x",
    "PSETEX t N x",
    "GETEX s EX N",
    "GETEX s PXAT N",
    "LINDEX l N",
    "LRANGE l N N",
    "LTRIM l2 N N",
    "LREM l N x",
    "LSET l N x",
    "LPOS l a RANK N",
    "LPOS l a COUNT N MAXLEN N",
    "LPOP l2 N",
    "LMPOP N l LEFT",
    "LMPOP 1 l2 LEFT COUNT N",
    "ZADD z N m",
    "ZINCRBY z N m",
    "ZRANGE z N N",
    "ZRANGE z 0 1 BYSCORE LIMIT N N",
    "ZRANGEBYSCORE z N N LIMIT N N",
    "ZREMRANGEBYRANK z2 N N",
    "ZPOPMIN z2 N",
    "SINTERCARD N st",
    "SINTERCARD 1 st LIMIT N",
    "ZUNIONSTORE z3 N z",
    "XRANGE x - + COUNT N",
    "XTRIM x MAXLEN N",
    "XADD x2 N-N f v",
    "XSETID x2 N",
    "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS N m COUNT N",
    "OBJECT ENCODING s N",
    "WAIT 0 N",
    "HELLO N",
    "EVAL \"return 1\" N",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff N",
    "COPY s s3 DB N",
    "SORT l ALPHA LIMIT N N",
];

/// Requests that the proxy answers itself, or in its own way.
const OWN: &[&str] = &[
    "SELECT N",
    "BLMPOP N 1 l LEFT",
    "BZPOPMIN z N",
    "SLOWLOG GET N",
    "CLIENT KILL ID N",
    "CLIENT KILL MAXAGE N",
    "CLIENT LIST ID N",
    "CLIENT PAUSE N",
    "CLIENT UNBLOCK N",
    "CONFIG SET timeout N",
    "CONFIG SET tcp-keepalive N",
    "CONFIG SET maxclients N",
    "CONFIG SET max-clients-per-user N",
    "CONFIG SET slowlog-max-len N",
    "CONFIG SET slowlog-log-slower-than N",
    "CONFIG SET max-output-bytes N",
    "CONFIG SET maxmemory-clients N",
    "CONFIG SET no-ttl lease=N",
    "CONFIG SET drain-timeout N",
];

const SETUP: &str = "
    SET n 5
    SET s text
    RPUSH l a b c
    RPUSH l2 a b c
    SADD st a
    ZADD z 1 a
    ZADD z2 1 a
    XADD x 1-1 f v
    XADD x2 1-1 f v
    HSET h f v
    GEOADD g 1 1 m
";

/// Empties the server, then sets the keys that [`REQUESTS`] use.
async fn prepare(side: &mut Raw) {
    assert_eq!(side.ask(&["FLUSHALL"]).await, Reply::ok());
    for line in SETUP.lines().filter(|line| !line.trim().is_empty()) {
        let done = side.ask(&words(line.trim())).await;
        assert!(!matches!(done, Reply::Error(_)), "{line}: {done:?}");
    }
}

#[tokio::test]
async fn numbers_at_the_ends_are_answered_as_by_one_redis() {
    if target_is_plain_redis() {
        return;
    }
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &["--vote-timeout", "2s", "--allow-flush"]);
    for line in REQUESTS {
        let mut sides = [Raw::connect(&redis.address()).await, proxy.raw().await];
        let mut replies = [Vec::new(), Vec::new()];
        for (side, replies) in sides.iter_mut().zip(&mut replies) {
            prepare(side).await;
            for number in NUMBERS {
                replies.push((number, side.ask(&filled(line, number)).await));
            }
        }
        let [expected, actual] = replies;
        assert_eq!(actual, expected, "{line}");
    }
}

#[tokio::test]
async fn no_number_ends_a_worker() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "2s", "--allow-flush"]);
    prepare(&mut proxy.raw().await).await;
    for line in OWN {
        for number in NUMBERS {
            let mut client = proxy.raw().await;
            client.ask(&filled(line, number)).await;
            client.ask(&words("CONFIG SET timeout 0 maxclients 10000 no-ttl keep")).await;
        }
    }
    let mut patient = proxy.raw().await;
    patient.send(&encode(&words("BLPOP nothing 9000000000000000"))).await;
    let mut client = proxy.raw().await;
    client.ask(&words("RPUSH nothing something")).await;
    let popped = ["nothing", "something"].map(Reply::bulk).to_vec();
    assert_eq!(patient.reply().await, Reply::Array(popped));
    assert_eq!(client.ask(&words("SET lock mine NX PX 10000")).await, Reply::ok());
}

/// Returns `line` with this number in every place for one.
fn filled(line: &str, number: &str) -> Vec<String> {
    let fill = |word: String| match word.as_str() {
        "N" => number.to_owned(),
        "N-N" => format!("{number}-{number}"),
        "lease=N" => format!("lease={number}"),
        _ => word,
    };
    words(line).into_iter().map(fill).collect()
}
