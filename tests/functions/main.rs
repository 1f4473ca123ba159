//! Libraries of functions: one register on the masters, whichever proxy loads or calls them.

#[path = "../support/mod.rs"]
mod support;
mod tables;

use std::path::Path;
use std::process::Stdio;

use support::side_by_side::lines;
use support::{
    Master, Masters, Proxy, Raw, Reply, Stage, compare, eventually, target_is_plain_redis, words,
};

#[tokio::test]
async fn libraries_are_loaded_as_by_one_redis() {
    compare(tables::LOADING).await;
}

#[tokio::test]
async fn libraries_are_listed_as_by_one_redis() {
    compare(tables::LISTING).await;
}

#[tokio::test]
async fn functions_answer_as_in_one_redis() {
    compare(tables::CALLING).await;
}

#[tokio::test]
async fn functions_find_what_they_find_in_one_redis() {
    compare(tables::FOUND).await;
}

/// Flags for tests that are not about slow masters.
const PATIENT: [&str; 2] = ["--patience", "20s"];

async fn ask(client: &mut Raw, line: &str) -> Reply {
    client.ask(&words(line)).await
}

/// Returns a library `name` with a function of that name that returns `value`.
fn library(name: &str, value: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('{name}', function() return {value} end)")
}

async fn load(client: &mut Raw, name: &str, value: &str) -> Reply {
    client.ask(&["FUNCTION", "LOAD", "REPLACE", &library(name, value)]).await
}

async fn load_new(client: &mut Raw, text: &str) -> Reply {
    client.ask(&["FUNCTION", "LOAD", text]).await
}

#[tokio::test]
async fn what_one_proxy_has_loaded_another_one_calls() {
    let Some(stage) = Stage::set(&PATIENT) else { return };
    stage.complete().await;
    let (mut near, mut far) = (stage.near.raw().await, stage.far.raw().await);
    for turn in 0..50 {
        let value = turn.to_string();
        assert_eq!(load(&mut near, "f", &value).await, Reply::bulk("f"));
        assert_eq!(ask(&mut far, "FCALL f 0").await, Reply::Int(turn));
        assert_eq!(ask(&mut near, "FCALL f 0").await, Reply::Int(turn));
        std::mem::swap(&mut near, &mut far);
    }
    assert_eq!(ask(&mut near, "FUNCTION DELETE f").await, Reply::ok());
    assert!(ask(&mut far, "FCALL f 0").await.is_error("ERR Function not found"));
}

/// Requests in a pipeline see the changes that the same connection sent before them.
#[tokio::test]
async fn a_pipeline_sees_what_it_has_loaded() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let mut client = proxy.raw().await;
    let mut sent = Vec::new();
    for turn in 0..20 {
        let text = library("f", &turn.to_string());
        sent.extend(support::encode(&["FUNCTION", "LOAD", "REPLACE", &text]));
        sent.extend(support::encode(&["FCALL", "f", "1", "k"]));
        sent.extend(support::encode(&["FUNCTION", "FLUSH"]));
        sent.extend(support::encode(&["FCALL", "f", "1", "k"]));
    }
    client.send(&sent).await;
    for turn in 0..20 {
        assert_eq!(client.reply().await, Reply::bulk("f"));
        assert_eq!(client.reply().await, Reply::Int(turn));
        assert_eq!(client.reply().await, Reply::ok());
        assert!(client.reply().await.is_error("ERR Function not found"));
    }
}

/// Like the test above, for a change that takes two rounds because another proxy made the previous one.
#[tokio::test]
async fn a_pipeline_sees_what_it_has_removed() {
    let Some(stage) = Stage::set(&PATIENT) else { return };
    stage.complete().await;
    let (mut near, mut far) = (stage.near.raw().await, stage.far.raw().await);
    let sent =
        [support::encode(&["FUNCTION", "FLUSH"]), support::encode(&["FCALL", "f", "1", "k"])];
    for _ in 0..20 {
        assert_eq!(load(&mut near, "f", "1").await, Reply::bulk("f"));
        assert_eq!(ask(&mut far, "FCALL f 1 k").await, Reply::Int(1));
        // The call also reads the libraries and takes over the promises.
        assert_eq!(ask(&mut near, "FCALL f 1 k").await, Reply::Int(1));
        far.send(&sent.concat()).await;
        assert_eq!(far.reply().await, Reply::ok());
        assert!(far.reply().await.is_error("ERR Function not found"));
    }
}

/// Both proxies load their own library, with a function that only one library may have. One of them wins.
#[tokio::test]
async fn two_proxies_load_at_once() {
    let Some(stage) = Stage::set(&PATIENT) else { return };
    stage.complete().await;
    let (mut near, mut far) = (stage.near.raw().await, stage.far.raw().await);
    for turn in 0..30 {
        let text = |name: &str| {
            let own = library(name, &turn.to_string());
            format!("{own} redis.register_function('both', function() return '{name}' end)")
        };
        let (one, other) = (text("one"), text("other"));
        let replies = tokio::join!(load_new(&mut near, &one), load_new(&mut far, &other));
        let refused = Reply::Error("ERR Function both already exists".to_owned());
        let winner = match replies {
            (reply, why) if why == refused && reply == Reply::bulk("one") => "one",
            (why, reply) if why == refused && reply == Reply::bulk("other") => "other",
            other => panic!("one of them is loaded: {other:?}"),
        };
        for client in [&mut near, &mut far] {
            assert_eq!(ask(client, "FCALL both 0").await, Reply::bulk(winner));
            assert_eq!(ask(client, &format!("FCALL {winner} 0")).await, Reply::Int(turn));
        }
        assert_eq!(ask(&mut far, "FUNCTION FLUSH").await, Reply::ok());
    }
}

/// A master that missed a load neither answers about the library nor runs an outdated one.
#[tokio::test]
async fn a_minority_that_missed_a_load_is_not_believed() {
    let Some(stage) = Stage::set(&["--vote-timeout", "100ms"]) else { return };
    stage.complete().await;
    let (mut near, mut far) = (stage.near.raw().await, stage.far.raw().await);
    assert_eq!(load(&mut near, "f", "'old'").await, Reply::bulk("f"));
    assert_eq!(ask(&mut far, "FCALL f 0").await, Reply::bulk("old"));
    for relay in &stage.relays {
        relay.hold_back("'new'");
    }
    let refused = load(&mut far, "f", "'new'").await;
    assert!(matches!(&refused, Reply::Error(_) | Reply::Bulk(_)), "{refused:?}");
    stage.heal();
    // Whatever the outcome, all clients see the same from then on.
    let seen = eventually("a quorum tells", || async {
        let mut client = stage.near.raw().await;
        match ask(&mut client, "FCALL f 0").await {
            Reply::Bulk(value) => Some(value),
            _ => None,
        }
    })
    .await;
    for _ in 0..10 {
        assert_eq!(ask(&mut near, "FCALL f 0").await, Reply::Bulk(seen.clone()));
        assert_eq!(ask(&mut far, "FCALL f 0").await, Reply::Bulk(seen.clone()));
    }
}

#[tokio::test]
async fn masters_that_were_emptied_get_the_libraries_back() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "200ms", "--restart-wait", "1h"]);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    assert_eq!(load(&mut client, "f", "'kept'").await, Reply::bulk("f"));
    for at in 0..3 {
        masters[at].kill_9();
        masters[at].restart_empty();
        eventually("it is known to have forgotten", || async {
            (proxy.says_of(at, "state").await != "voter").then_some(())
        })
        .await;
        proxy.knows(at, "state", "voter").await;
        assert_eq!(ask(&mut client, "FCALL f 0").await, Reply::bulk("kept"), "after {at}");
    }
    let register = |at: usize| masters[at].ask(&["DUMP", "redlock-proxy:libraries"]);
    let first = register(0).await;
    assert!(matches!(first, Reply::Bulk(_)), "{first:?}");
    assert_eq!([register(1).await, register(2).await], [first.clone(), first]);
}

/// Clients can neither see nor touch the register.
#[tokio::test]
async fn the_register_is_the_proxys_own() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--allow-flush", "--patience", "20s"]);
    let mut client = proxy.raw().await;
    assert_eq!(load(&mut client, "f", "1").await, Reply::bulk("f"));
    let call = "#!lua name=sly\nredis.register_function('sly', function(keys, args) \
                return redis.call('HGETALL', keys[1] or args[1]) end)";
    assert_eq!(client.ask(&["FUNCTION", "LOAD", call]).await, Reply::bulk("sly"));
    let script = "return redis.call('HGETALL', ARGV[1] .. 'libraries')";
    let undeclared =
        "redis.call('SET', KEYS[1], 1) return redis.call('HDEL', ARGV[1] .. 'libraries', 'f')";
    for request in [
        &["HGETALL", "redlock-proxy:libraries"][..],
        &["DEL", "redlock-proxy:libraries"],
        &["FCALL", "f", "1", "redlock-proxy:libraries"],
        &["FCALL", "sly", "0", "redlock-proxy:libraries"],
        &["EVAL", script, "0", "redlock-proxy:"],
        &["EVAL", script, "1", "k", "redlock-proxy:"],
        &["EVAL", undeclared, "1", "k", "redlock-proxy:"],
        &["EVAL", script, "1", "redlock-proxy:libraries", "redlock-proxy:"],
        &["WATCH", "redlock-proxy:libraries"],
    ] {
        let refused = client.ask(request).await;
        assert!(
            refused.is_error("ERR names that begin with 'redlock-proxy:'"),
            "{request:?}: {refused:?}"
        );
    }
    assert_eq!(ask(&mut client, "DEL k").await, Reply::Int(1));
    assert_eq!(ask(&mut client, "KEYS *").await, Reply::Array(Vec::new()));
    assert_eq!(ask(&mut client, "DBSIZE").await, Reply::Int(0));
    for flush in ["FLUSHDB", "FLUSHALL"] {
        assert_eq!(ask(&mut client, flush).await, Reply::ok());
        assert_eq!(ask(&mut client, "FCALL f 0").await, Reply::Int(1), "after {flush}");
    }
}

/// A library may use undeclared keys, both before and after its first write. Its writes remain when it fails.
#[tokio::test]
async fn keys_that_are_not_declared_are_found() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let mut client = proxy.raw().await;
    let text = "#!lua name=lib\n\
         redis.register_function('late', function(keys, args)\n\
           redis.call('RPUSH', keys[1], 'x')\n\
           redis.call('INCR', args[1])\n\
           return redis.call('LLEN', keys[1]) end)\n\
         redis.register_function('fails', function(keys, args)\n\
           redis.call('RPUSH', keys[1], 'y')\n\
           return redis.call('INCR', args[1]) end)";
    assert_eq!(client.ask(&["FUNCTION", "LOAD", text]).await, Reply::bulk("lib"));
    for turn in 1..4 {
        assert_eq!(ask(&mut client, "FCALL late 1 list counter").await, Reply::Int(turn));
        assert_eq!(ask(&mut client, "GET counter").await, Reply::bulk(&turn.to_string()));
    }
    assert_eq!(ask(&mut client, "HSET hash a 1").await, Reply::Int(1));
    assert!(ask(&mut client, "FCALL fails 1 list hash").await.is_error("WRONGTYPE"));
    assert_eq!(ask(&mut client, "LLEN list").await, Reply::Int(4));
    // This one names its keys by its first parameter, so it keeps no images, and gets the same result.
    let text = "#!lua name=plain\n\
         local function both(keys, args) redis.call('RPUSH', keys[1], args[1]) return redis.call('INCR', keys[2]) end\n\
         redis.register_function('both', both)";
    assert_eq!(client.ask(&["FUNCTION", "LOAD", text]).await, Reply::bulk("plain"));
    assert_eq!(ask(&mut client, "FCALL both 2 list counter z").await, Reply::Int(4));
    assert!(ask(&mut client, "FCALL both 2 list hash z").await.is_error("WRONGTYPE"));
    assert_eq!(
        ask(&mut client, "LRANGE list 3 -1").await,
        Reply::Array(["y", "z", "z"].map(Reply::bulk).to_vec())
    );
}

/// A user's library runs under the rules of its caller.
#[tokio::test]
async fn functions_keep_to_the_rules_of_their_caller() {
    if target_is_plain_redis() {
        return;
    }
    let rules = [
        "alice on >pw ~mine:* -@all +fcall +fcall_ro +get",
        "bob on >pw allkeys +@all -@scripting",
    ];
    let settings = support::users::Settings::with(&rules, "");
    let masters = Masters::start(3);
    let redis = Master::start();
    let proxy = Proxy::start(&masters, &settings.flags());
    for rule in rules {
        let request = [vec!["ACL".into(), "SETUSER".into()], words(rule)].concat();
        assert_eq!(redis.ask(&request).await, Reply::ok());
    }
    let text = "#!lua name=lib\n\
         redis.register_function('get', function(keys, args) return redis.call('GET', args[1] or keys[1]) end)\n\
         redis.register_function('set', function(keys) return redis.call('SET', keys[1], 1) end)";
    let mut sides = [Raw::connect(&redis.address()).await, proxy.raw().await];
    for side in &mut sides {
        assert_eq!(side.ask(&["FUNCTION", "LOAD", text]).await, Reply::bulk("lib"));
    }
    let table = "
        AUTH alice pw
        FCALL get 1 mine:k
        FCALL get 1 other
        FCALL get 1 mine:k other
        FCALL set 1 mine:k
        FUNCTION LIST
        FUNCTION FLUSH
        MULTI
        FCALL get 1 mine:k
        FCALL get 1 mine:k other
        FCALL set 1 mine:k
        EXEC
        AUTH bob pw
        FCALL get 1 mine:k
        FUNCTION STATS
    ";
    for line in lines(table) {
        let mut replies = Vec::new();
        for side in &mut sides {
            replies.push(ask(side, &line).await);
        }
        assert_eq!(replies[0], replies[1], "{line}");
    }
}

/// A dump from one side can be restored on the other.
#[tokio::test]
async fn libraries_move_between_a_redis_and_a_proxy() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let redis = Master::start();
    let mut sides = [proxy.raw().await, Raw::connect(&redis.address()).await];
    // Long enough for Redis to compress it.
    let long = "-- words words words\n".repeat(2_000);
    for turn in 0..2 {
        let [from, to] = &mut sides;
        let text = format!("{}\n{long}", library("one", "1"));
        assert_eq!(from.ask(&["FUNCTION", "LOAD", &text]).await, Reply::bulk("one"), "{turn}");
        assert_eq!(load(from, "two", "2").await, Reply::bulk("two"));
        let Reply::Bulk(payload) = ask(from, "FUNCTION DUMP").await else { panic!("no payload") };
        let restore = |how: &str| {
            let words = [b"FUNCTION".to_vec(), b"RESTORE".to_vec(), payload.clone(), how.into()];
            support::encode(&words)
        };
        for (how, expected) in
            [("APPEND", Reply::ok()), ("REPLACE", Reply::ok()), ("FLUSH", Reply::ok())]
        {
            to.send(&restore(how)).await;
            assert_eq!(to.reply().await, expected, "{how} {turn}");
            assert_eq!(ask(to, "FCALL one 0").await, Reply::Int(1));
            assert_eq!(ask(to, "FCALL two 0").await, Reply::Int(2));
        }
        to.send(&restore("APPEND")).await;
        let refused = to.reply().await;
        assert!(refused.is_error("ERR Library "), "{refused:?}");
        assert_eq!(load(to, "three", "3").await, Reply::bulk("three"));
        to.send(&restore("FLUSH")).await;
        assert_eq!(to.reply().await, Reply::ok());
        assert!(ask(to, "FCALL three 0").await.is_error("ERR Function not found"));
        for side in &mut sides {
            assert_eq!(ask(side, "FUNCTION FLUSH").await, Reply::ok());
        }
        sides.reverse();
    }
}

#[tokio::test]
async fn redis_py_loads_and_calls() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = tokio::process::Command::new(root.join("tests/clients/run"));
    command.args(["python", "program", "redis-8"]).arg(root.join("tests/functions/client.py"));
    command.env("REDLOCK_ADDRESS", proxy.address()).stdin(Stdio::null());
    let output = command.output().await.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "functions: passed\n");
}
