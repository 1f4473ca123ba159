//! Users: identity of a connection, connection limits per user, and wrong rules. `acl_same_as_redis.rs` compares the
//! permissions of users with those of a plain Redis.

mod support;

use std::process::Command;

use support::users::Settings;
use support::{Masters, Proxy, Reply, run, target_is_plain_redis};

fn error(text: &str) -> Reply {
    Reply::Error(text.to_owned())
}

/// Returns one field of a line of `CLIENT LIST`.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")));
    found.expect("the field")
}

#[tokio::test]
async fn a_connection_is_who_it_has_logged_in_as() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings =
        Settings::with(&["alice on >pw ~lock:* +@all", "default on >first ~* &* +@all"], "");
    let proxy = Proxy::unready(&masters.addresses(), &settings.flags());
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["PING"]).await, error("NOAUTH Authentication required."));
    assert!(client.ask(&["HELLO", "3"]).await.is_error("NOAUTH HELLO must be called"));
    assert!(client.ask(&["AUTH", "pw"]).await.is_error("WRONGPASS"));
    assert_eq!(client.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    assert_eq!(client.ask(&["ACL", "WHOAMI"]).await, Reply::bulk("alice"));
    let info = client.ask(&["CLIENT", "INFO"]).await.text();
    assert_eq!(field(&info, "user"), "alice");
    // A wrong password changes nothing.
    assert!(client.ask(&["AUTH", "first!"]).await.is_error("WRONGPASS"));
    assert_eq!(client.ask(&["ACL", "WHOAMI"]).await, Reply::bulk("alice"));
    assert_eq!(client.ask(&["AUTH", "first"]).await, Reply::ok());
    assert_eq!(client.ask(&["ACL", "WHOAMI"]).await, Reply::bulk("default"));
    assert_eq!(client.ask(&["RESET"]).await, Reply::Simple("RESET".into()));
    assert_eq!(client.ask(&["PING"]).await, error("NOAUTH Authentication required."));
    let hello = client.ask(&["HELLO", "3", "AUTH", "alice", "pw", "SETNAME", "mine"]).await;
    assert_eq!(hello.field("proto"), Some(Reply::Int(3)));
    let line = client.ask(&["CLIENT", "LIST"]).await.text();
    assert_eq!((field(&line, "user"), field(&line, "name")), ("alice", "mine"));
    for change in [&["ACL", "SETUSER", "bob"][..], &["ACL", "DELUSER", "bob"], &["ACL", "LOAD"]] {
        let refused = error(
            "ERR users of redlock-proxy are defined in its settings file: edit it and send SIGHUP",
        );
        assert_eq!(client.ask(change).await, refused);
    }

    let ask = |user: &str, command: &[&str]| {
        let port = proxy.address().rsplit(':').next().expect("a port");
        let cli = Command::new("redis-cli")
            .args(["-p", port, "--user", user, "--pass", "pw", "--no-auth-warning"])
            .args(command)
            .output();
        String::from_utf8(cli.expect("redis-cli").stdout).expect("text")
    };
    assert_eq!(ask("alice", &["ACL", "WHOAMI"]), "alice\n");
    assert!(ask("alice", &["GET", "other"]).starts_with("NOPERM this user has no permissions"));
}

#[tokio::test]
async fn connections_of_one_user_can_be_ended() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(&["reader on >pw", "writer on >pw"], "");
    let proxy = Proxy::start(&masters, &settings.flags());
    let (mut admin, mut writer) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(writer.ask(&["AUTH", "writer", "pw"]).await, Reply::ok());
    let nobody = error("ERR No such user 'nobody'");
    assert_eq!(admin.ask(&["CLIENT", "KILL", "USER", "nobody"]).await, nobody);
    assert_eq!(admin.ask(&["CLIENT", "KILL", "USER", "reader"]).await, Reply::Int(0));
    assert_eq!(admin.ask(&["CLIENT", "KILL", "USER", "writer"]).await, Reply::Int(1));
    assert_eq!(writer.until_closed().await, b"");
    assert_eq!(admin.ask(&["PING"]).await, Reply::Simple("PONG".into()));
}

#[tokio::test]
async fn one_user_has_so_many_connections_and_no_more() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(
        &["alice on >pw allkeys +@all", "bob on >pw +ping"],
        "max-clients-per-user = 2",
    );
    // Connections are counted together, whichever worker serves them.
    let flags = [&settings.flags()[..], &["--workers", "2"]].concat();
    let proxy = Proxy::unready(&masters.addresses(), &flags);
    let mut alices = [proxy.raw().await, proxy.raw().await];
    for alice in &mut alices {
        assert_eq!(alice.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
        assert_eq!(alice.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    }
    let mut late = proxy.raw().await;
    let refused_for = |user| error(&format!("ERR max number of clients reached for user '{user}'"));
    assert_eq!(late.ask(&["AUTH", "alice", "pw"]).await, refused_for("alice"));
    let hello = ["HELLO", "3", "AUTH", "alice", "pw"];
    assert_eq!(late.ask(&hello).await, refused_for("alice"));
    assert_eq!(late.ask(&["ACL", "WHOAMI"]).await, Reply::bulk("default"));
    assert_eq!(late.ask(&["AUTH", "bob", "pw"]).await, Reply::ok());

    // The default user needs no password: two connections are admitted, and the third is told why it is not.
    let mut strangers = [proxy.raw().await, proxy.raw().await];
    for stranger in &mut strangers {
        assert_eq!(stranger.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    }
    let told = proxy.raw().await.until_closed().await;
    assert_eq!(told, b"-ERR max number of clients reached for user 'default'\r\n");
    // A client that disconnects or becomes another user makes room.
    let [first, mut second] = alices;
    drop(first);
    let mut took = 0;
    while late.ask(&["AUTH", "alice", "pw"]).await != Reply::ok() {
        took += 1;
        assert!(took < 10_000, "nobody noticed that the first has gone");
    }
    assert_eq!(second.ask(&["AUTH", "bob", "pw"]).await, Reply::ok());
    assert_eq!(strangers[0].ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    // Another client has taken the first stranger's old place, so it cannot return until somebody leaves.
    let mut stranger = proxy.raw().await;
    assert_eq!(stranger.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    assert_eq!(strangers[0].ask(&["RESET"]).await, refused_for("default"));
    assert_eq!(strangers[0].until_closed().await, b"");
}

#[tokio::test]
async fn passwords_and_hashes_of_users_are_shown_nowhere_but_in_acl_list() {
    if target_is_plain_redis() {
        return;
    }
    const HASH: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
    let masters = Masters::start(3);
    let users = ["alice on >battery-staple allkeys +@all", &format!("bob on #{HASH} +ping")];
    let settings = Settings::with(&users, "");
    let proxy = Proxy::start(&masters, &settings.flags());
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["AUTH", "alice", "battery-staple"]).await, Reply::ok());
    assert!(client.ask(&["AUTH", "bob", "battery-staple"]).await.is_error("WRONGPASS"));
    let mut shown = client.ask(&["INFO", "everything"]).await.text();
    shown += &client.ask(&["CLIENT", "LIST"]).await.text();
    shown += &format!("{:?}", client.ask(&["CONFIG", "GET", "*"]).await);
    shown += &proxy.log().join("\n");
    let tested = run(&[&settings.flags()[..], &["--test-config"]].concat());
    shown += &String::from_utf8_lossy(&tested.stdout);
    assert!(shown.contains(" users=alice,bob,default "), "{shown}");
    for secret in ["battery", HASH] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    let listed = format!("{:?}", client.ask(&["ACL", "LIST"]).await);
    assert!(!listed.contains("battery"), "{listed}");
}

#[test]
fn wrong_users_end_the_proxy_with_one_sentence_without_passwords() {
    for (user, more, sentence) in [
        (
            "alice on >hunter2 +@nonsense",
            "",
            "users: alice: `+@nonsense` is not a command or category",
        ),
        ("alice on hunter2", "", "users: alice: rule 2 is not a rule"),
        ("alice (+get ~hunter2)", "", "users: alice: rule 1 is a selector, which is not supported"),
        ("alice %R~x", "", "users: alice: `%R~x` is not supported: use ~pattern"),
        (
            "default on >hunter2",
            "requirepass = 'hunter3'",
            "both requirepass and the default user's rules set its password: use only one",
        ),
        ("alice", "max-clients-per-user = 'some'", "max-clients-per-user `some`"),
    ] {
        assert_refused(&Settings::with(&[user], more), sentence);
    }
    let no_list = "line 1: users must be a list of strings";
    assert_refused(&Settings::of("users = 'alice on >hunter2'"), no_list);
    assert_refused(&Settings::of("users = [1, 'alice on >hunter2']"), no_list);
}

#[track_caller]
fn assert_refused(settings: &Settings, sentence: &str) {
    let output = run(&settings.flags());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(sentence), "{said}");
    assert!(!said.contains("hunter"), "{said}");
    assert_eq!((output.status.code(), said.trim().lines().count()), (Some(64), 1), "{said}");
}

/// As with Redis's `protected-mode`: the question is whether a client gets in without a password.
#[test]
fn other_hosts_may_be_listened_for_when_the_default_user_needs_a_password() {
    let listen = ["--listen", "0.0.0.0:0", "--test-config"];
    for (user, is_open) in [
        ("default off", false),
        ("default on >pw allkeys +@all", false),
        ("default on", false),
        ("default on nopass allkeys +@all", true),
        ("alice on >pw", true),
    ] {
        let settings = Settings::with(&[user], "");
        let output = run(&[&settings.flags()[..], &listen].concat());
        assert_eq!(output.status.code(), Some(if is_open { 64 } else { 0 }), "{user}: {output:?}");
    }
}

/// A recognised script runs as the operation it stands for only if its user may call all of it. Otherwise its keys
/// stay as they are.
#[tokio::test]
async fn no_spelling_of_a_script_changes_what_its_user_may_not_change() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(
        &["alice on >pw ~lock:* &news:* +@all -del -pexpire", "bob on >pw ~* &* +@all"],
        "",
    );
    let proxy = Proxy::start(&masters, &settings.flags());
    let mut owner = proxy.raw().await;
    for key in ["lock:1", "other"] {
        assert_eq!(owner.ask(&["SET", key, "mine"]).await, Reply::ok());
    }
    let mut alice = proxy.raw().await;
    assert_eq!(alice.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    for script in [
        support::scripts::RELEASE,
        support::scripts::EXTEND,
        "return redis.call('set', 'other', 'hers')",
        "local set = 'set' return redis.call(set, ARGV[1] and 'other', 'hers')",
        "local real = _G.redis return real.call('set', 'other', 'hers')",
        "return loadstring(\"return redis.call('set', 'other', 'hers')\")()",
        "return load(function() return nil end) and _G._G.redis.call('set', 'other', 'hers')",
        "_G.redis=nil return _G.redis.call('set', 'other', 'hers')",
        "_G._G=nil return _G.redis.call('set', 'other', 'hers')",
        "rawset(_G, 'redis', nil) return _G.redis.call('set', 'other', 'hers')",
        "_G.load=nil return _G.load(coroutine.wrap(function() coroutine.yield('return redis') end))()\
         .call('set', 'other', 'hers')",
        "_G.loadstring=nil return _G.loadstring('return redis')().call('set', 'other', 'hers')",
        "local real = 'return redis' return loadstring(setmetatable({}, {__concat=function() return real end}))()\
         .call('set', 'other', 'hers')",
        "return loadstring('end, (function() return redis end)() --')().call('set', 'other', 'hers')",
        "return getmetatable(_G).__index(_G, 'redis').call('set', 'other', 'hers')",
        "return getmetatable(redis).__index.call('set', 'other', 'hers')",
        "return pcall(function() return redis.call('rename', 'lock:1', 'other') end)",
        "local f = coroutine.wrap(function() return redis.call('set', 'other', 'hers') end) return f()",
        "for name, value in pairs(_G) do if name == 'redis' then value.call('set', 'other', 'hers') end end",
        "setmetatable(redis, {}) return redis.call('set', 'other', 'hers')",
        "return redis.call('eval', \"return redis.call('set', 'other', 'hers')\", 0)",
        "return redis.call('sort', 'lock:list', 'store', 'other')",
        "return redis.call('DEL', 'lock:1')",
        "return queue and queue[1] or digest and digest('other') or guarded(redis)",
        "ARGV[1] = 'SET' return redis.call(ARGV[1], 'other', 'hers')",
        // Ends the function that wraps the script.
        "return 1 end redis.call('set', 'other', 'hers') local x = function()",
    ] {
        for request in [
            &["EVAL", script, "1", "lock:1", "mine", "1"][..],
            &["EVAL_RO", script, "0"],
            &["SCRIPT", "LOAD", script],
        ] {
            alice.ask(request).await;
        }
        let sha = sha1_smol::Sha1::from(script).hexdigest();
        alice.ask(&["EVALSHA", &sha, "1", "lock:1", "mine", "1"]).await;
        alice.ask(&["MULTI"]).await;
        alice.ask(&["EVALSHA", &sha, "1", "lock:1", "mine", "1"]).await;
        alice.ask(&["EVAL", script, "1", "lock:1", "mine", "1"]).await;
        alice.ask(&["EXEC"]).await;
        let kept = owner.ask(&["MGET", "lock:1", "other"]).await;
        assert_eq!(kept, Reply::Array(vec![Reply::bulk("mine"), Reply::bulk("mine")]), "{script}");
        assert_eq!(owner.ask(&["TTL", "lock:1"]).await, Reply::Int(-1), "{script}");
    }
    // A user who may do everything may do that, too, and runs the script that another user has loaded.
    assert_eq!(alice.ask(&["AUTH", "bob", "pw"]).await, Reply::ok());
    let sha = sha1_smol::Sha1::from(support::scripts::RELEASE).hexdigest();
    assert_eq!(alice.ask(&["EVALSHA", &sha, "1", "lock:1", "mine"]).await, Reply::Int(1));
}

/// Scripts that one guard cannot cover are rejected, and no part of them runs.
#[tokio::test]
async fn scripts_in_a_transaction_keep_to_the_rules_of_whoever_sends_them() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(&["alice on >pw ~lock:* +@all", "bob on >pw ~other +@all"], "");
    let proxy = Proxy::start(&masters, &settings.flags());
    let mut client = proxy.raw().await;
    let write = "return redis.call('set', ARGV[1], 'hers')";
    for request in [
        &["AUTH", "alice", "pw"][..],
        &["MULTI"],
        &["EVAL", write, "0", "lock:1"],
        &["EVAL", "return _G.redis.call('set', 'other', 'hers')", "0"],
        &["AUTH", "bob", "pw"],
        &["EVAL", write, "0", "other"],
        &["AUTH", "default", "any"],
        &["EVAL", write, "0", "other"],
    ] {
        let reply = client.ask(request).await;
        assert!(matches!(reply, Reply::Simple(_)), "{request:?}: {reply:?}");
    }
    let Reply::Array(replies) = client.ask(&["EXEC"]).await else { panic!("no list") };
    let said: Vec<_> = replies.iter().map(Reply::text).collect();
    let two = "ERR scripts of different users cannot run in one transaction: send them separately";
    assert!(said[1].starts_with("ERR The user executing the script can't access"), "{said:?}");
    assert_eq!([&said[..1], &said[2..]].concat(), ["OK", "OK", two, "OK", two]);
    let found = client.ask(&["MGET", "lock:1", "other"]).await;
    assert_eq!(found, Reply::Array(vec![Reply::bulk("hers"), Reply::Nil]));
}

/// Redis 7.0 does not find these keys. It checks the first `STORE` but writes to the last, takes a key for another
/// option, and checks nothing in a `PFMERGE` without sources.
#[tokio::test]
async fn a_key_that_redis_overlooks_is_not_written_without_permission() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(
        &["alice on >pw ~lock:* ~by ~5 ~STORE +@all", "default on nopass ~* +@all"],
        "",
    );
    let proxy = Proxy::start(&masters, &settings.flags());
    let (mut admin, mut alice) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(alice.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    admin.ask(&["RPUSH", "lock:list", "1"]).await;
    admin.ask(&["GEOADD", "lock:geo", "1", "1", "a"]).await;
    let geo = ["GEORADIUS", "lock:geo", "1", "1", "10", "m"];
    let sort = ["SORT", "lock:list"];
    let overlooked = [
        [&geo[..], &["STORE", "lock:2", "STORE", "KEY"]].concat(),
        [&geo[..], &["STOREDIST", "lock:2", "STOREDIST", "KEY"]].concat(),
        [&geo[..], &["COUNT", "5", "STORE", "lock:2", "ASC", "store", "KEY"]].concat(),
        [&sort[..], &["STORE", "by", "STORE", "KEY"]].concat(),
        [&sort[..], &["LIMIT", "0", "1", "STORE", "lock:2", "store", "KEY"]].concat(),
        vec!["PFMERGE", "KEY"],
    ];
    let scripts = [
        "return redis.call(unpack(ARGV))",
        "local function f(a, ...) return redis.call(string.lower(a), ...) end return f(unpack(ARGV))",
        "local r = redis.pcall(unpack(ARGV)) return r",
    ];
    let refused = "ERR The user executing the script can't access at least one of the keys";
    for (key, may) in [("other", false), ("5", true), ("lock:to", true)] {
        for words in &overlooked {
            let words: Vec<_> = words.iter().map(|word| word.replace("KEY", key)).collect();
            let reply = alice.ask(&words).await;
            assert_eq!(!reply.is_error("NOPERM"), may, "{words:?}: {reply:?}");
            alice.ask(&["MULTI"]).await;
            let reply = alice.ask(&words).await;
            assert_eq!(!reply.is_error("NOPERM"), may, "{words:?}: {reply:?}");
            alice.ask(&["EXEC"]).await;
            for script in scripts {
                let head = ["EVAL", script, "0"].map(str::to_owned);
                let reply = alice.ask(&[&head[..], &words].concat()).await;
                assert_eq!(!reply.is_error(refused), may, "{script} {words:?}: {reply:?}");
                assert!(may || reply.is_error(refused), "{script} {words:?}: {reply:?}");
            }
            assert_eq!(admin.ask(&["EXISTS", key]).await, Reply::Int(may.into()), "{words:?}");
            admin.ask(&["DEL", key]).await;
        }
    }
    let number = "return redis.call('georadius', 'lock:geo', 1, 1, 10, 'm', 'store', 'lock:2', 'store', KEY)";
    for (key, expected) in [("5", Reply::Int(1)), ("6", Reply::Int(0))] {
        alice.ask(&["EVAL", &number.replace("KEY", key), "0"]).await;
        assert_eq!(admin.ask(&["EXISTS", key]).await, expected, "{key}");
    }
}

/// If masters do not report which words are keys, the words may not be the user's, so the request is rejected.
#[tokio::test]
async fn what_cannot_be_found_out_is_not_allowed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(&["alice on >pw ~lock:* +@all -del"], "");
    let proxy = Proxy::start(&masters, &settings.flags());
    for master in masters.iter() {
        assert_eq!(master.ask(&["ACL", "SETUSER", "default", "-command"]).await, Reply::ok());
    }
    let mut alice = proxy.raw().await;
    assert_eq!(alice.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    for (script, why) in [
        ("return redis.call('set', 'lock:1', 'hers')", "can't access at least one of the keys"),
        ("return redis.call('set', 'other', 'hers')", "can't access at least one of the keys"),
        ("return redis.call('del', 'lock:1')", "can't run this command"),
        ("return redis.call('nonsense', 'lock:1')", "can't run this command"),
    ] {
        let refused = alice.ask(&["EVAL", script, "0"]).await;
        assert!(
            refused.is_error(&format!("ERR The user executing the script {why}")),
            "{refused:?}"
        );
    }
    assert_eq!(
        alice.ask(&["EVAL", "return redis.call('ping')", "0"]).await,
        Reply::Simple("PONG".into())
    );
}

/// SHA-256 of `password`.
const DIGEST: &str = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";

/// The examples from the security page and from the settings file that comes with the program.
#[tokio::test]
async fn the_examples_of_users_work() {
    if target_is_plain_redis() {
        return;
    }
    let page = include_str!("../docs/security.md");
    let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    // Nobody knows the passwords of the example.
    let (before, after) = block.expect("an example").split_once("worker on #").expect("a user");
    let settings = Settings::of(&format!("{before}worker on #{DIGEST}{}", &after[DIGEST.len()..]));
    let proxy = Proxy::unready(&Masters::start(3).addresses(), &settings.flags());
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["PING"]).await, error("NOAUTH Authentication required."));
    assert_eq!(client.ask(&["AUTH", "worker", "password"]).await, Reply::ok());
    assert_eq!(client.ask(&["ACL", "WHOAMI"]).await, Reply::bulk("worker"));
    assert!(client.ask(&["SET", "other", "me", "NX"]).await.is_error("NOPERM"));
    assert!(client.ask(&["ACL", "LIST"]).await.is_error("NOPERM"));

    let file = include_str!("../config/redlock-proxy.toml").lines();
    let example: Vec<&str> = file.filter_map(|line| line.strip_prefix("#   ")).collect();
    let settings = Settings::of(&example.join("\n"));
    let tested = run(&[&settings.flags()[..], &["--test-config"]].concat());
    let said = String::from_utf8_lossy(&tested.stdout);
    assert!(said.contains(" users=default,watcher,worker "), "{said}");
}
