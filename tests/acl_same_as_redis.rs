//! Users may do with the proxy exactly what a plain Redis with the same rules lets them do, byte for byte.

mod support;

use std::collections::BTreeSet;

use redlock_proxy::catalogue::table::{self, SUBCOMMANDS};
use support::side_by_side::{lines, printable, same};
use support::users::Settings;
use support::{Master, Masters, Proxy, Raw, Reply, encode, target_is_plain_redis, words};

/// Rules that both sides accept, with the password `pw`.
const USERS: [&str; 6] = [
    "reader on >pw ~lock:* resetchannels &news:* +@read +@connection +@scripting +@transaction -keys",
    "writer on >pw ~lock:* &news:* +@all -@dangerous",
    "cautious on >pw allkeys allchannels +@all -@admin -object|freq",
    "clerk on >pw ~[ab]?x ~a\\* -@all +get +set +sort +sort_ro +lpush +eval +evalsha +script|load +client|id +publish +xgroup|create +zunionstore +command",
    "speaker on >pw resetkeys &news:* &w[io]rld +@pubsub +eval +ping",
    "idle off >pw allkeys allchannels +@all",
];

/// One plain Redis, and the proxy in front of three others, all with [`USERS`].
struct Sides {
    /// Dropped first, so it never misses a master.
    proxy: Proxy,
    redis: Master,
    _masters: Masters,
    _settings: Settings,
}

impl Sides {
    async fn start() -> Sides {
        let (redis, masters) = (Master::start(), Masters::start(3));
        for user in USERS {
            let request = [vec!["ACL".into(), "SETUSER".into()], words(user)].concat();
            assert_eq!(redis.ask(&request).await, Reply::ok(), "{user}");
        }
        let settings = Settings::with(&USERS, "");
        let flags = [&settings.flags()[..], &["--allow-flush", "--vote-timeout", "3s"]].concat();
        let proxy = Proxy::start(&masters, &flags);
        Sides { proxy, redis, _masters: masters, _settings: settings }
    }

    /// Sends every line of `table` as each of [`USERS`] that may log in.
    async fn compare_all(&self, table: &str) {
        let mut failures = Vec::new();
        for user in ["reader", "writer", "cautious", "clerk", "speaker"] {
            failures.extend(self.compare(user, table).await);
        }
        assert!(failures.is_empty(), "these differ:\n{}", failures.join("\n"));
    }

    /// Sends every line of `table` as `user` to both sides, in both protocol versions.
    async fn compare(&self, user: &str, table: &str) -> Vec<String> {
        let mut failures = Vec::new();
        for version in ["2", "3"] {
            let hello = ["HELLO", version, "AUTH", user, "pw"];
            let mut expected = Raw::connect(&self.redis.address()).await;
            let mut actual = self.proxy.raw().await;
            for side in [&mut expected, &mut actual] {
                assert_eq!(side.ask(&["FLUSHALL"]).await, Reply::ok());
                assert_eq!(side.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
                let greeting = side.ask(&hello).await;
                assert!(greeting.field("proto").is_some(), "{user}: {greeting:?}");
            }
            for line in lines(table) {
                let (mark, line) = match line.strip_prefix('[').and_then(|it| it.split_once(']')) {
                    Some((mark, line)) => (mark, line),
                    None => ("", &*line),
                };
                let request = encode(&words(line));
                expected.send(&request).await;
                actual.send(&request).await;
                let (expected, actual) = (expected.frame().await, actual.frame().await);
                if !same(mark, &expected, &actual) {
                    let [expected, actual] = [expected.1, actual.1].map(|it| printable(&it));
                    failures.push(format!(
                        "  {user}, RESP{version}: {line}\n    redis: {expected}\n    proxy: {actual}"
                    ));
                }
            }
        }
        failures
    }
}

/// Commands that every user tries.
const COMMANDS: &str = r#"
    GET lock:1
    GET other
    get axx
    SET lock:1 mine NX PX 60000
    SET a* mine
    SET bcx mine PX 60000
    SET bcx
    MGET lock:1 lock:2
    MGET lock:1 other
    DEL lock:1
    DEL lock:1 other
    [any order] KEYS *
    TTL lock:1
    EXISTS other
    OBJECT ENCODING lock:1
    OBJECT FREQ lock:1
    OBJECT NONSENSE lock:1
    CLIENT GETNAME
    CLIENT SETNAME me
    CLIENT NONSENSE
    CLIENT ID extra
    CLIENT KILL
    CLIENT KILL ADDR 1.2.3.4:5
    CLIENT KILL USER nobody
    CLIENT KILL USER idle
    CLIENT PAUSE
    CONFIG GET nonsense
    CONFIG SET
    ACL WHOAMI
    ACL WHOAMI extra
    ACL USERS
    ACL CAT
    [any order] ACL CAT geo
    ACL CAT nonsense
    ACL GETUSER
    ACL GETUSER nobody
    ACL NONSENSE
    COMMAND COUNT extra
    COMMAND GETKEYS GET other
    ROLE extra
    PING
    ECHO hello
    NONSENSE lock:1
    PUBLISH news:1 hello
    PUBLISH other hello
    SPUBLISH news:1 hello
    SPUBLISH other hello
    PUBSUB NUMPAT
    PUBSUB CHANNELS x y
    RPUSH axx 3 1 2
    LPUSH axx 3 1 2
    SORT axx
    SORT axx BY nosort
    SORT axx BY weight_*
    SORT axx GET #
    SORT axx LIMIT 0 1 GET other
    SORT axx STORE other
    SORT axx STORE bcx BY store ASC
    SORT axx BY store STORE other DESC
    SORT_RO axx BY weight_*
    ZUNIONSTORE axx 2 bxx other
    ZUNIONSTORE axx 1 bxx
    GEORADIUS lock:1 1 1 1 m STORE other STOREDIST lock:2
    GEORADIUS lock:1 1 1 1 m STOREDIST lock:2 STORE other
    GEORADIUS lock:1 1 1 1 m STORE lock:2 STOREDIST lock:3
    ZUNIONSTORE other nonsense axx
    XGROUP CREATE axx group $ MKSTREAM
    XGROUP CREATE other group $ MKSTREAM
    XGROUP DESTROY axx group
    XGROUP HELP extra
    FLUSHALL
    SELECT 1
    SELECT 0
    WATCH lock:1
    WATCH other
    UNWATCH
    MULTI
    GET other
    EXEC
    MULTI
    GET lock:1
    PING
    EXEC
    MULTI
    GET nonsense extra
    DEL other
    EXEC
    EXEC
    AUTH nobody pw
    AUTH idle pw
    AUTH writer wrong
    AUTH wrong
    HELLO 3 AUTH writer wrong
    HELLO 9
    ACL WHOAMI
"#;

/// Scripts that every user tries.
const SCRIPTS: &str = r#"
    EVAL "return redis.call('get', KEYS[1])" 1 lock:1
    EVAL "return redis.call('get', KEYS[1])" 1 other
    EVAL "return redis.call('get', ARGV[1])" 0 lock:1
    EVAL "return redis.call('get', ARGV[1])" 0 other
    EVAL "return redis.call('get', ARGV[1])" 0 axx
    EVAL "return redis.pcall('get', 'other')" 0
    EVAL "return redis.pcall('get', 'other').err" 0
    EVAL "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 60000)" 1 lock:1 mine
    EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end" 1 lock:1 mine
    EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end" 1 axx mine
    EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end" 1 lock:1 mine 1000
    SCRIPT LOAD "return redis.call('incr', KEYS[1])"
    EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 lock:9
    EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 other
    EVAL "return redis.call('incr', KEYS[1])" 1 lock:9
    EVALSHA 2bab3b661081db58bd2341920e0ba7cf5dc77b25 1 lock:9
    EVAL "

      local ok = 1
      return redis.call('config', 'get', 'x')" 0
    EVAL "return redis.call('Object', 'FREQ', 'lock:1')" 0
    EVAL "return redis.call('object', 'nonsense', 'lock:1')" 0
    EVAL "return redis.call('xgroup', 'destroy', 'axx', 'g')" 0
    EVAL "return redis.call('nonsense')" 0
    EVAL "return redis.call('del')" 0
    EVAL "return redis.call('keys', '*', 'x')" 0
    EVAL "return redis.call()" 0
    EVAL "return redis.call({})" 0
    EVAL "return redis.call(1, 2)" 0
    EVAL "return redis.call('get', {})" 0
    EVAL "return redis.call('blpop', 'other', 0)" 0
    EVAL "return redis.call('subscribe', 'other')" 0
    EVAL "local name = 'd' .. 'el' return redis.call(name, 'lock:1')" 0
    EVAL "local call = redis.call return call('DEL', 'other')" 0
    EVAL "local r = redis return r['call']('set', 'other', '1')" 0
    EVAL "return _G.redis.call('set', 'other', '1')" 0
    [shape: the name of the chunk] EVAL "return loadstring('return redis.call(\'set\', \'other\', \'1\')')()" 0
    EVAL "return pcall(redis.call, 'set', 'other', '1')" 0
    EVAL "local ok, why = pcall(redis.call, 'set', 'other', '1') return why.err" 0
    EVAL "redis.call = nil return 1" 0
    EVAL "redis.setresp(3) return redis.call('get', 'other')" 0
    EVAL "redis.setresp(3) return redis.pcall('debug', 'x')" 0
    EVAL "return redis.call('mset', 'lock:1', 1, 'other', 2)" 0
    EVAL "return redis.call('mget', 'lock:1', 'lock:2')" 0
    EVAL "return redis.call('sort', 'axx', 'get', 'other')" 0
    EVAL "return redis.call('sort', 'axx', 'by', 'w_*')" 0
    EVAL "return redis.call('sort', 'axx', 'by', 'nosort', 'limit', 0, 1)" 0
    EVAL "return redis.call('sort', 'axx', 'by', 'store', 'store', 'other', 'desc')" 0
    EVAL "return redis.call('georadius', 'lock:1', 1, 1, 1, 'm', 'store', 'other', 'storedist', 'lock:2')" 0
    EVAL "return redis.call('georadius', 'lock:1', 1, 1, 1, 'm', 'storedist', 'lock:2', 'store', 'other')" 0
    EVAL "return redis.call('georadius', 'lock:1', 1, 1, 1, 'm', 'store', 'lock:2', 'storedist', 'lock:3')" 0
    EVAL "return redis.call('sort', 'axx', 'by', 'nosort', '1', 'get', 'other')" 0
    EVAL "return redis.call('sort', 'axx', 'limit', '1', 'x', 'get', 'other')" 0
    EVAL "return redis.call('sort', 'axx', 'limit', 0, 1, 'get', 'other')" 0
    EVAL "return redis.call('sort', 'axx', 'limit', 0, 1000000000000000, 'get', 'other')" 0
    EVAL "return redis.call('sort', 'axx', 'desc', 'limit', '0', '-1', 'alpha', 'get', 'other')" 0
    EVAL "return cjson.encode(redis.pcall('get', 'other'))" 0
    EVAL "return cjson.encode(select(2, pcall(redis.call, 'get', 'other')))" 0
    EVAL "return cjson.encode(redis.pcall('object', 'freq', 'other'))" 0
    EVAL "return redis.call('publish', 'news:1', 'x')" 0
    EVAL "return redis.call('publish', 'other', 'x')" 0
    EVAL "return redis.call('spublish', 'wirld', 'x')" 0
    EVAL "return redis.call('publish', 'other')" 0
    EVAL "return redis.call('publish', 1, 'x')" 0
    EVAL "return redis.call('ping')" 0
    EVAL "return redis.call('echo', 1)" 0
    EVAL "return tostring(redis.acl_check_cmd('get', 'lock:1'))" 0
    EVAL "return tostring(redis.acl_check_cmd('get', 'other'))" 0
    EVAL "return tostring(redis.acl_check_cmd('debug', 'other'))" 0
    EVAL "return redis.acl_check_cmd('nonsense')" 0
    EVAL "return redis.sha1hex('')" 0
    EVAL "error('own')" 0
    EVAL "return redis.error_reply('own')" 0
    EVAL "return tostring(guarded) .. tostring(ARGV[1])" 0
    EVAL "return redis.call('spop', 'lock:set')" 0
    [shape: any of them] EVAL "return redis.call('randomkey')" 0
    EVAL "return nonsense(" 0
    EVAL_RO "return redis.call('set', 'lock:1', 'x')" 0
    EVAL_RO "return redis.call('get', 'lock:1')" 0
"#;

#[tokio::test]
async fn users_may_send_what_they_may_send_to_a_plain_redis() {
    if target_is_plain_redis() {
        return;
    }
    let sides = Sides::start().await;
    sides.compare_all(COMMANDS).await;
}

#[tokio::test]
async fn scripts_of_users_may_call_what_they_may_call_on_a_plain_redis() {
    if target_is_plain_redis() {
        return;
    }
    let sides = Sides::start().await;
    sides.compare_all(SCRIPTS).await;
}

/// Scripts that every user tries after `MULTI`; an error has the text and the line number that it has outside.
const SCRIPTS_IN_TRANSACTIONS: &str = r#"
    MULTI
    EVAL "return redis.call('set', KEYS[1], ARGV[1])" 1 lock:1 mine
    EVAL "return redis.call('get', ARGV[1])" 0 lock:1
    EVAL "return redis.call('get', ARGV[1])" 0 other
    EVAL "local a = 1

      return redis.call('get', 'other')" 0
    EVAL "return redis.pcall('get', 'other')" 0
    EVAL "return redis.call('debug', 'x')" 0
    EVAL "return redis.call('nonsense', 'x')" 0
    EVAL "return redis.call('publish', 'other', 'x')" 0
    EVAL "return redis.call('publish', 'news:1', 'x')" 0
    EVAL "return redis.call('sort', 'axx', 'by', 'w_*')" 0
    PING
    EXEC
    MULTI
    EVAL "return {KEYS[1], ARGV[1], redis.call('set', KEYS[1], ARGV[1])}" 1 axx y
    EVAL "return {redis.pcall('get', 'axx'), redis.pcall('get', 'a*'), redis.pcall('get', 'b')}" 0
    EVAL "return redis.call('sort', 'bxx', 'get', 'axx')" 0
    EVAL "error('own')" 0
    EXEC
    MULTI
    EVAL "return 1" 1 other
    EXEC
    MULTI
    SCRIPT FLUSH
    EVAL "return 'after a flush'" 0
    SCRIPT LOAD "return 'loaded after a flush'"
    EXEC
"#;

#[tokio::test]
async fn scripts_of_users_in_transactions_may_call_what_they_may_on_a_plain_redis() {
    if target_is_plain_redis() {
        return;
    }
    Sides::start().await.compare_all(SCRIPTS_IN_TRANSACTIONS).await;
}

/// Delivery of messages to subscribers. Confirmations and messages come in either protocol version.
#[tokio::test]
async fn users_hear_only_channels_that_are_theirs() {
    if target_is_plain_redis() {
        return;
    }
    let sides = Sides::start().await;
    let table = r#"
        SUBSCRIBE other
        SUBSCRIBE news:1 other
        PSUBSCRIBE news:*
        PSUBSCRIBE news:1*
        PSUBSCRIBE other
        SSUBSCRIBE other
        UNSUBSCRIBE other
        PUNSUBSCRIBE other
        SUBSCRIBE news:1
        UNSUBSCRIBE
        PUNSUBSCRIBE
        GET lock:1
    "#;
    let mut failures = Vec::new();
    for user in ["reader", "writer", "speaker", "clerk"] {
        failures.extend(sides.compare(user, table).await);
    }
    assert!(failures.is_empty(), "these differ:\n{}", failures.join("\n"));
}

/// After a client logs in as another user inside `MULTI`, its next commands run as that user.
#[tokio::test]
async fn a_transaction_is_run_as_whom_it_logs_in() {
    if target_is_plain_redis() {
        return;
    }
    let sides = Sides::start().await;
    let table = r#"
        MULTI
        GET lock:1
        AUTH reader pw
        SET lock:1 mine
        SET other mine
        SORT lock:list GET other
        EXEC
        ACL WHOAMI
        AUTH writer pw
        MULTI
        AUTH speaker pw
        PUBLISH news:1 x
        GET lock:1
        EXEC
        AUTH writer pw
        MULTI
        SORT lock:list GET other
        SORT lock:list BY w_*
        EXEC
    "#;
    let failures = sides.compare("writer", table).await;
    assert!(failures.is_empty(), "these differ:\n{}", failures.join("\n"));
}

/// The command metadata that the proxy reports, and that rules grant and revoke by, is Redis's.
#[tokio::test]
async fn every_command_is_in_the_categories_of_redis() {
    if target_is_plain_redis() {
        return;
    }
    /// Commands of Redis 8.4 and Valkey 9, and of Redis 7.2.
    const NEWER: [&str; 4] = ["delex", "delifeq", "client|setinfo", "client|no-touch"];
    let sides = Sides::start().await;
    let mut redis = Raw::connect(&sides.redis.address()).await;
    let mut proxy = sides.proxy.raw().await;
    let listed = |reply: Reply| match reply {
        Reply::Array(items) => items.iter().map(Reply::text).collect::<BTreeSet<String>>(),
        other => panic!("no list: {other:?}"),
    };
    let categories = listed(redis.ask(&["ACL", "CAT"]).await);
    for category in &categories {
        let expected = listed(redis.ask(&["ACL", "CAT", category]).await);
        let mut actual = listed(proxy.ask(&["ACL", "CAT", category]).await);
        actual.retain(|name| !NEWER.contains(&name.as_str()));
        assert_eq!(actual, expected, "{category}");
    }
    let names = table::all().iter().map(|spec| spec.name).filter(|name| !NEWER.contains(name));
    for name in names {
        let mut of = [Vec::new(), Vec::new()];
        for (side, found) in [&mut redis, &mut proxy].into_iter().zip(&mut of) {
            let Reply::Array(infos) = side.ask(&["COMMAND", "INFO", name]).await else {
                panic!("no answer about {name}")
            };
            let Reply::Array(info) = &infos[0] else { panic!("{name} is unknown") };
            found.push(info[6].clone());
        }
        assert_eq!(of[1], of[0], "{name}");
    }
    let known: Vec<_> = SUBCOMMANDS.iter().filter(|it| !NEWER.contains(&it.name)).collect();
    for subcommand in known {
        let Reply::Array(infos) = redis.ask(&["COMMAND", "INFO", subcommand.name]).await else {
            panic!("no answer about {}", subcommand.name)
        };
        let Reply::Array(info) = &infos[0] else { panic!("{} is unknown", subcommand.name) };
        assert_eq!(info[1], Reply::Int(subcommand.arity.into()), "{}", subcommand.name);
    }
}

/// The lines that both sides return. Redis 7.0 puts these rules in the same order.
#[tokio::test]
async fn users_are_listed_as_redis_lists_them() {
    if target_is_plain_redis() {
        return;
    }
    let users = [
        "anna on >pw >other ~a* ~b &news:* +@read",
        "bert off nopass allkeys +@all",
        "carl on #5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8 +client|id",
    ];
    let (redis, masters) = (Master::start(), Masters::start(3));
    for user in users {
        let request = [vec!["ACL".into(), "SETUSER".into()], words(user)].concat();
        assert_eq!(redis.ask(&request).await, Reply::ok());
    }
    let settings = Settings::with(&users, "");
    let proxy = Proxy::start(&masters, &settings.flags());
    for version in ["2", "3"] {
        let mut both = [Raw::connect(&redis.address()).await, proxy.raw().await];
        for request in ["ACL LIST", "ACL USERS", "ACL GETUSER anna", "ACL GETUSER default"] {
            let mut frames = Vec::new();
            for side in &mut both {
                side.ask(&["HELLO", version]).await;
                side.send(&encode(&words(request))).await;
                frames.push(printable(&side.frame().await.1));
            }
            assert_eq!(frames[1], frames[0], "{request} in RESP{version}");
        }
    }
}
