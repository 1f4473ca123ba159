//! Commands that no table of the proxy has, from later versions and from modules: the proxy runs them according to
//! the masters' own descriptions.
//!
//! Commands of this version under other names stand for a later version, and `support/newer.c` for a module.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use support::{Master, Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis, words};

/// Names that do not exist, or only in later versions.
const RENAMED: [&str; 21] = [
    "--rename-command",
    "HINCRBYFLOAT",
    "newer.incr",
    "--rename-command",
    "SINTERCARD",
    "newer.card",
    "--rename-command",
    "SETBIT",
    "newer.bit",
    "--rename-command",
    "SPOP",
    "newer.pop",
    "--rename-command",
    "SETRANGE",
    "hpexpire",
    "--rename-command",
    "LASTSAVE",
    "newer.save",
    "--rename-command",
    "LOLWUT",
    "newer.art",
];

/// Returns the same flags, with the module.
fn flags() -> &'static [&'static str] {
    static FLAGS: OnceLock<Vec<&str>> = OnceLock::new();
    FLAGS.get_or_init(|| {
        let target =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("newer-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/newer.c");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&target).arg(source).status();
        assert!(compiled.expect("a compiler for C").success());
        let target = target.to_str().expect("a path in UTF-8").to_owned();
        RENAMED.into_iter().chain(["--loadmodule", String::leak(target)]).collect()
    })
}

async fn ask(client: &mut Raw, line: &str) -> Reply {
    client.ask(&words(line)).await
}

async fn all_hold_the_same(masters: &Masters, key: &str) {
    eventually("all masters hold the same", || async {
        let mut held = Vec::new();
        for master in masters.iter() {
            held.push(master.ask(&["DUMP", key]).await);
            if !master.has(&format!("redlock-proxy:s:{key}")).await {
                return None;
            }
        }
        (held[0] != Reply::Nil && held.windows(2).all(|two| two[0] == two[1])).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_all_masters_know_runs_by_its_flags_and_keys() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start_with(3, flags());
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut clients = [proxies[0].raw().await, proxies[1].raw().await];
    for turn in 1..=10 {
        let reply = ask(&mut clients[turn % 2], "NEWER.INCR h f 1").await;
        assert_eq!(reply, Reply::bulk(&turn.to_string()));
    }
    all_hold_the_same(&masters, "h").await;
    let client = &mut clients[0];
    assert_eq!(ask(client, "newer.bit bits 3 0").await, Reply::Int(0), "it makes a key");
    all_hold_the_same(&masters, "bits").await;
    for master in masters.iter() {
        let is_noted = eventually("the stamp says that it is there", || async {
            let stamp = master.get("redlock-proxy:s:bits").await?;
            (stamp[48] == b's').then_some(())
        });
        is_noted.await;
    }
    ask(client, "SADD a x y").await;
    ask(client, "SADD b y z").await;
    assert_eq!(ask(client, "newer.card 2 a b").await, Reply::Int(1));
    assert_eq!(ask(client, "newer.card 2 a absent").await, Reply::Int(0));
    ask(client, "SET lock token NX PX 100000").await;
    assert!(ask(client, "newer.card 2 a lock").await.is_error("WRONGTYPE "));
    assert!(ask(client, "NEWER.INCR lock f 1").await.is_error("WRONGTYPE "));
    assert_eq!(ask(client, "GET lock").await, Reply::bulk("token"));
    for (line, error) in [
        ("NEWER.INCR h f", "ERR wrong number of arguments for 'newer.incr' command"),
        ("NEWER.INCR h f x", "ERR value is not a valid float"),
        ("newer.card 9 a", "ERR "),
        ("NEWER.INCR redlock-proxy:mark f 1", "ERR names that begin with"),
        (
            "newer.pop a",
            "ERR 'newer.pop' is not supported by redlock-proxy: each master would write",
        ),
        (
            "HPEXPIRE h 1 x",
            "ERR 'hpexpire' is not supported by redlock-proxy, because each master would use its own clock",
        ),
        ("NEWER.ART", "ERR command 'newer.art' is not supported"),
        ("newest h", "ERR unknown command 'newest'"),
    ] {
        let reply = ask(client, line).await;
        assert!(reply.is_error(error), "{line}: {reply:?}");
    }
    ask(client, "MULTI").await;
    assert!(ask(client, "NEWER.INCR h f 1").await.is_error("ERR unknown command"));
    assert!(ask(client, "EXEC").await.is_error("EXECABORT "));
}

#[tokio::test]
async fn what_one_master_does_not_know_is_unknown() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::of(vec![
        Master::start_with(flags()),
        Master::start(),
        Master::start_with(flags()),
    ]);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    for line in ["NEWER.INCR h f 1", "NEWER.ADD n 1"] {
        assert!(ask(&mut client, line).await.is_error("ERR unknown command"), "{line}");
    }
    for master in masters.iter() {
        assert!(!master.has("h").await && !master.has("n").await);
    }
}

/// A type that Redis itself lacks works like any other: it is counted, adopted, and expires.
#[tokio::test]
async fn a_value_of_a_module_is_a_register() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start_with(3, flags());
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    proxies.iter().for_each(Proxy::expect_warnings);
    let mut clients = [proxies[0].raw().await, proxies[1].raw().await];
    for turn in 1..=10 {
        assert_eq!(ask(&mut clients[turn % 2], "NEWER.ADD n 1").await, Reply::Int(turn as i64));
    }
    assert_eq!(ask(&mut clients[0], "NEWER.GET n").await, Reply::Int(10));
    masters[2].stop();
    for turn in 11..=14 {
        assert_eq!(ask(&mut clients[turn % 2], "NEWER.ADD n 1").await, Reply::Int(turn as i64));
    }
    masters[2].cont();
    all_hold_the_same(&masters, "n").await;
    let client = &mut clients[1];
    assert_eq!(ask(client, "TYPE n").await, Reply::Simple("newertype".into()));
    assert_eq!(ask(client, "EXISTS n").await, Reply::Int(1));
    assert!(ask(client, "SADD n x").await.is_error("WRONGTYPE "));
    assert!(ask(client, "GET n").await.is_error("WRONGTYPE "));
    assert_eq!(ask(client, "RENAME n m").await, Reply::ok());
    assert_eq!(ask(client, "NEWER.GET n").await, Reply::Nil);
    let script = "redis.call('newer.add', KEYS[1], 5) return redis.call('newer.get', KEYS[1])";
    assert_eq!(client.ask(&["EVAL", script, "1", "m"]).await, Reply::Int(19));
    assert_eq!(ask(client, "SET m token NX PX 100000").await, Reply::Nil);
    assert_eq!(ask(client, "PEXPIRE m 100").await, Reply::Int(1));
    eventually("it ends", || async {
        (proxies[0].raw().await.ask(&["EXISTS", "m"]).await == Reply::Int(0)).then_some(())
    })
    .await;
    assert_eq!(ask(client, "NEWER.ADD m 1").await, Reply::Int(1));
    assert_eq!(ask(client, "DEL m").await, Reply::Int(1));
    assert_eq!(ask(client, "SET m token NX PX 100000").await, Reply::ok());
}
