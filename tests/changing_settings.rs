//! Settings that change while clients are connected: SIGHUP rereads them all, `CONFIG SET` changes one.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::path::PathBuf;

use support::certificates::Authority;
use support::{Master, Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis, words};

/// A proxy with a settings file.
struct Configured {
    proxy: Proxy,
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Configured {
    fn start(masters: &Masters, settings: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("settings.toml");
        std::fs::write(&file, settings).expect("written");
        let flag = file.to_str().expect("a path").to_owned();
        let proxy = Proxy::start(masters, &["--config", &flag]);
        Self { proxy, file, _directory: directory }
    }

    /// Writes new settings and makes the proxy read them.
    async fn change(&self, settings: &str, log_line: &str) {
        std::fs::write(&self.file, settings).expect("written");
        let before = self.proxy.log().len();
        self.proxy.hang_up();
        eventually(log_line, || async {
            let log = self.proxy.log();
            log[before..].iter().any(|line| line.contains(log_line)).then_some(())
        })
        .await;
    }
}

async fn parameter(client: &mut Raw, name: &str) -> String {
    match client.ask(&["CONFIG", "GET", name]).await {
        Reply::Array(pair) if pair.len() == 2 => pair[1].text(),
        other => panic!("CONFIG GET {name}: {other:?}"),
    }
}

#[tokio::test]
async fn a_hang_up_changes_what_can_change_and_keeps_every_client() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let configured = Configured::start(&masters, "no-ttl = 'keep'\nmax-clients = 100");
    let proxy = &configured.proxy;
    let mut client = proxy.raw().await;
    let id = client.ask(&["CLIENT", "ID"]).await;
    let refused = client.ask(&["FLUSHALL"]).await;
    assert!(refused.is_error("ERR"), "{refused:?}");
    let before = parameter(&mut client, "timeout").await;
    assert_eq!(before, "0");

    let settings = "no-ttl = 'reject'\nmax-clients = 3\nallow-flush = true\ntimeout = '1h'";
    let changed = "changed: no-ttl, max-clients, timeout, allow-flush";
    configured.change(settings, changed).await;
    let lock = client.ask(&words("SET lock mine NX")).await;
    assert!(lock.is_error("ERR"), "without a TTL: {lock:?}");
    assert_eq!(client.ask(&["FLUSHALL"]).await, Reply::ok());
    assert_eq!(parameter(&mut client, "timeout").await, "3600");
    assert_eq!(parameter(&mut client, "maxclients").await, "3");
    assert_eq!(client.ask(&["CLIENT", "ID"]).await, id, "it is still connected");
    let _second = (proxy.raw().await, proxy.raw().await);
    let mut one_too_many = Raw::connect(proxy.address()).await;
    let reply = one_too_many.reply().await;
    assert_eq!(reply, Reply::Error("ERR max number of clients reached".into()));

    configured.change(settings, "settings reloaded, nothing changed").await;
}

#[tokio::test]
async fn what_cannot_change_says_so_and_stays() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let configured = Configured::start(&masters, "max-clients = 100");
    configured.proxy.expect_warnings();
    let mut client = configured.proxy.raw().await;
    let stays = "SIGHUP: drift, workers, log-format: cannot change while the proxy runs";
    configured
        .change("drift = 0.2\nworkers = 2\nlog-format = 'json'\nmax-clients = 99", stays)
        .await;
    assert_eq!(parameter(&mut client, "drift").await, "0.01");
    assert_eq!(parameter(&mut client, "workers").await, "1");
    assert_eq!(parameter(&mut client, "maxclients").await, "99", "the rest has changed");
}

#[tokio::test]
async fn wrong_settings_change_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let configured = Configured::start(&masters, "max-clients = 100");
    configured.proxy.expect_warnings();
    let mut client = configured.proxy.raw().await;
    let wrong = "keeping the current settings: max-clients `0` must be from 1 to 2147483647";
    configured.change("max-clients = 0\nallow-flush = true", wrong).await;
    let unreadable = "settings.toml line 1: unknown field `nonsense`";
    configured.change("nonsense = 1", unreadable).await;
    assert_eq!(parameter(&mut client, "maxclients").await, "100");
    assert_eq!(parameter(&mut client, "allow-flush").await, "false");
    assert_eq!(client.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
}

/// Operators read the last line.
#[tokio::test]
async fn a_broken_settings_file_does_not_end_in_a_line_that_reads_like_success() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let configured = Configured::start(&masters, "max-clients = 100");
    configured.proxy.expect_warnings();
    configured.change("nonsense = 1", "keeping the current settings").await;
    let log = configured.proxy.log();
    assert!(!log.iter().any(|line| line.contains("certificates")), "there are none: {log:#?}");
    let last = log.iter().rfind(|line| line.contains("SIGHUP")).expect("it was told");
    assert!(last.contains("ERROR") && last.contains("keeping the current settings"), "{last}");
}

#[tokio::test]
async fn a_new_password_is_asked_of_new_clients() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let configured = Configured::start(&masters, "");
    let mut old = configured.proxy.raw().await;
    assert_eq!(old.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    configured.change("requirepass = 'hunter2'", "changed: requirepass").await;
    assert_eq!(old.ask(&["PING"]).await, Reply::Simple("PONG".into()), "as in Redis");
    let mut new = configured.proxy.raw().await;
    assert!(new.ask(&["PING"]).await.is_error("NOAUTH"));
    assert_eq!(new.ask(&["AUTH", "hunter2"]).await, Reply::ok());
    configured.change("requirepass = 'hunter3'", "changed: requirepass").await;
    let mut newest = configured.proxy.raw().await;
    assert!(newest.ask(&["AUTH", "hunter2"]).await.is_error("WRONGPASS"));
    assert_eq!(newest.ask(&["AUTH", "hunter3"]).await, Reply::ok());
    assert!(!configured.proxy.log().join("\n").contains("hunter"));
}

#[tokio::test]
async fn new_rules_of_a_user_count_at_once_for_those_who_are_logged_in() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let user = |rules: &str| format!("users = ['alice on >pw {rules}', 'bob on >pw ~* &* +@all']");
    let configured = Configured::start(&masters, &user("~* &* +@all"));
    let logged_in = async |name: &str| {
        let mut client = configured.proxy.raw().await;
        assert_eq!(client.ask(&["AUTH", name, "pw"]).await, Reply::ok());
        client
    };
    let (mut alice, mut bob) = (logged_in("alice").await, logged_in("bob").await);
    let (mut queuing, mut listener) = (logged_in("alice").await, logged_in("alice").await);
    assert_eq!(alice.ask(&words("SET a 1 PX 60000")).await, Reply::ok());
    assert_eq!(queuing.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(queuing.ask(&["GET", "b"]).await, Reply::Simple("QUEUED".into()));
    listener.ask(&["SUBSCRIBE", "news"]).await;

    configured.change(&user("~a resetchannels +@all"), "changed: users").await;
    assert_eq!(alice.ask(&["GET", "a"]).await, Reply::bulk("1"));
    assert!(alice.ask(&["GET", "b"]).await.is_error("NOPERM"));
    let script = ["EVAL", "return redis.call('GET', 'b')", "0"];
    assert!(alice.ask(&script).await.is_error("ERR"), "neither may her scripts");
    assert_eq!(bob.ask(&script).await, Reply::Nil);
    assert!(queuing.ask(&["EXEC"]).await.is_error("EXECABORT"));
    assert_eq!(listener.until_closed().await, b"", "she may not listen any more");

    configured.change("users = ['bob on >new ~* &* +@all']", "changed: users").await;
    assert_eq!(alice.until_closed().await, b"", "she is there no more");
    assert_eq!(bob.ask(&["PING"]).await, Reply::Simple("PONG".into()), "he is still who he was");
    let mut again = configured.proxy.raw().await;
    assert!(again.ask(&["AUTH", "bob", "pw"]).await.is_error("WRONGPASS"));
    assert_eq!(again.ask(&["AUTH", "bob", "new"]).await, Reply::ok());
}

#[tokio::test]
async fn config_set_changes_settings_by_their_own_names_and_by_those_of_redis() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2"]);
    let mut client = proxy.raw().await;
    for (line, name, shown) in [
        ("CONFIG SET maxclients 77", "max-clients", "77"),
        ("CONFIG SET max-clients 78", "maxclients", "78"),
        ("CONFIG SET timeout 300", "timeout", "300"),
        ("CONFIG SET TCP-KeepAlive 60", "tcp-keepalive", "60"),
        ("CONFIG SET no-ttl lease=30s", "no-ttl", "lease=30s"),
        ("CONFIG SET allow-flush yes drain-timeout 5s", "drain-timeout", "5s"),
        ("CONFIG SET redis-version 7.2.4", "redis-version", "7.2.4"),
        ("CONFIG SET slowlog-log-slower-than -1", "slowlog-log-slower-than", "-1"),
        ("CONFIG SET slowlog-max-len 5", "slowlog-max-len", "5"),
        ("CONFIG SET max-output-bytes 1mb", "max-output-bytes", "1048576"),
        ("CONFIG SET requirepass hunter2", "requirepass", "***"),
    ] {
        assert_eq!(client.ask(&words(line)).await, Reply::ok(), "{line}");
        assert_eq!(parameter(&mut client, name).await, shown, "{line}");
    }
    // The other worker, too: a client may land on either one.
    for _ in 0..16 {
        let mut other = proxy.raw().await;
        eventually("a client of either worker needs the password", || {
            let address = proxy.address().to_owned();
            async move {
                let mut new = Raw::connect(&address).await;
                new.ask(&["PING"]).await.is_error("NOAUTH").then_some(())
            }
        })
        .await;
        assert_eq!(other.ask(&["AUTH", "hunter2"]).await, Reply::ok());
        assert_eq!(other.ask(&["FLUSHALL"]).await, Reply::ok());
        assert!(other.ask(&["INFO", "server"]).await.text().contains("redis_version:7.2.4\r\n"));
    }
    assert!(!proxy.log().join("\n").contains("hunter2"));
}

/// The error texts are those of a plain Redis, where it has the parameter.
#[tokio::test]
async fn config_set_refuses_with_redis_s_words() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let plain = Master::start();
    let (mut client, mut redis) = (proxy.raw().await, Raw::connect(&plain.address()).await);
    for line in [
        "CONFIG SET maxclients",
        "CONFIG SET maxclients abc",
        "CONFIG SET maxclients 10 timeout",
        "CONFIG SET nonsense 1",
        "CONFIG SET timeout 3 timeout 4",
        "CONFIG SET databases 3",
        "CONFIG RESETSTAT",
        "CONFIG RESETSTAT now",
        "CONFIG REWRITE",
        "CONFIG REWRITE now",
        "CONFIG GET nonsense",
        "CONFIG NONSENSE",
    ] {
        assert_eq!(client.ask(&words(line)).await, redis.ask(&words(line)).await, "{line}");
    }
    if target_is_plain_redis() {
        return;
    }
    for (line, refused) in [
        ("CONFIG SET vote-timeout 1s", "can't set immutable config"),
        ("CONFIG SET masters a:1", "can't set immutable config"),
        ("CONFIG SET no-ttl never", "argument must be keep, reject or lease=<duration>"),
        ("CONFIG SET timeout -1", "argument is not a duration such as 50ms or 1s"),
    ] {
        let reply = client.ask(&words(line)).await;
        let name = words(line)[2].clone();
        let expected =
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {refused}");
        assert_eq!(reply, Reply::Error(expected), "{line}");
    }
    // All or nothing.
    let both = client.ask(&words("CONFIG SET maxclients 55 allow-flush perhaps")).await;
    assert!(both.is_error("ERR"), "{both:?}");
    assert_eq!(parameter(&mut client, "maxclients").await, "10000");
}

#[tokio::test]
async fn strangers_do_not_get_in_because_the_password_was_taken_away() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let authority = Authority::new();
    let pair = authority.sign(&["localhost"]);
    let [cert, key] = [&pair.cert, &pair.key].map(|path| path.to_str().expect("a path"));
    let tls = ["--tls-listen", "0.0.0.0:0", "--tls-cert-file", cert, "--tls-key-file", key];
    let proxy = Proxy::start(&masters, &[&tls[..], &["--requirepass", "hunter2"]].concat());
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["AUTH", "hunter2"]).await, Reply::ok());
    let refused = client.ask(&["CONFIG", "SET", "requirepass", ""]).await;
    assert!(refused.is_error("ERR CONFIG SET failed"), "{refused:?}");
    assert!(refused.text().contains("is open to other hosts"), "{refused:?}");
    assert!(proxy.raw().await.ask(&["PING"]).await.is_error("NOAUTH"));
}

#[tokio::test]
async fn a_setting_that_stays_as_it_is_is_logged_as_changed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("CONFIG SET timeout 0")).await, Reply::ok());
    assert_eq!(client.ask(&words("CONFIG SET timeout 7")).await, Reply::ok());
    let said = eventually("the second one is logged", || async {
        let log = proxy.log();
        let said: Vec<_> = log.into_iter().filter(|line| line.contains("CONFIG SET")).collect();
        said.iter().any(|line| line.contains("timeout changed")).then_some(said)
    })
    .await;
    assert_eq!(said.len(), 1, "{said:?}");
}
