//! Access to the proxy: Unix sockets, other hosts, passwords from files.

mod support;

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use support::http::http;
use support::{Masters, Proxy, Raw, Reply, eventually, run, target_is_plain_redis, words};
use tokio::net::UnixStream;

#[tokio::test]
async fn clients_of_the_same_host_need_no_network() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, directory) = (Masters::start(3), tempfile::tempdir().expect("a directory"));
    let path = directory.path().join("proxy.sock");
    let flag = path.to_str().expect("a path");
    // A socket left behind by another process is no obstacle.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let proxy = Proxy::start(&masters, &["--unixsocket", flag, "--unixsocketperm", "700"]);
    let metadata = std::fs::metadata(&path).expect("the socket");
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o700);

    let mut client = Raw::over(UnixStream::connect(&path).await.expect("a listener"));
    assert_eq!(client.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    let info = client.ask(&["CLIENT", "INFO"]).await.text();
    assert!(info.contains(&format!(" addr={flag}:0 laddr={flag}:0 ")), "{info}");
    let health = ["--listen", "none", "--unixsocket", flag, "health"];
    assert_eq!(run(&health).status.code(), Some(0));
    let cli = Command::new("redis-cli").args(["-s", flag, "GET", "lock"]).output();
    assert_eq!(cli.expect("redis-cli").stdout, b"mine\n");
    // TCP leads to the same proxy.
    assert_eq!(proxy.raw().await.ask(&["GET", "lock"]).await, Reply::bulk("mine"));
}

#[test]
fn a_socket_on_which_somebody_listens_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("taken.sock");
    let _taken = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let output = run(&["--listen", "none", "--unixsocket", path.to_str().expect("a path")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("taken.sock is in use"), "{said}");
    assert_eq!(output.status.code(), Some(69));
    assert!(path.exists());
}

/// As with Redis's `protected-mode`: anyone who can reach the proxy can take and release every lock.
#[test]
fn other_hosts_get_in_with_a_password_or_a_certificate_only() {
    for open in ["0.0.0.0:0", "[::]:0"] {
        let output = run(&["--listen", open]);
        let said = String::from_utf8_lossy(&output.stderr);
        let sentence = format!("{open} is open to other hosts without authentication");
        assert!(said.contains(&sentence) && said.trim().lines().count() == 1, "{said}");
        assert_eq!(output.status.code(), Some(64));
        for closed in [&["--requirepass", "secret"][..], &["--protected-mode", "no"]] {
            let output = run(&[&["--listen", open, "--test-config"], closed].concat());
            assert!(output.status.success(), "{closed:?}: {output:?}");
        }
    }
}

#[tokio::test]
async fn passwords_come_from_files_and_are_shown_nowhere() {
    if target_is_plain_redis() {
        return;
    }
    const SECRETS: [&str; 2] = ["correct horse", "battery staple"];
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, format!("{text}\n")).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let (ours, theirs) = (file("ours", SECRETS[0]), file("theirs", SECRETS[1]));
    let masters = Masters::start(3);
    for master in masters.iter() {
        let asked = master.ask(&["CONFIG", "SET", "requirepass", SECRETS[1]]).await;
        assert_eq!(asked, Reply::ok());
    }
    let flags = ["--requirepass-file", &ours, "--master-password-file", &theirs];
    let proxy = Proxy::unready(&masters.addresses(), &flags);
    let mut client = proxy.raw().await;
    let ping = client.ask(&["PING"]).await;
    assert_eq!(ping, Reply::Error("NOAUTH Authentication required.".into()));
    let wrong = client.ask(&["AUTH", "correct"]).await;
    assert!(wrong.is_error("WRONGPASS"), "{wrong:?}");
    assert_eq!(client.ask(&["AUTH", SECRETS[0]]).await, Reply::ok());
    // The masters accept the proxy by then.
    assert_eq!(client.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());

    let mut shown = proxy.log().join("\n");
    shown += &client.ask(&["INFO", "everything"]).await.text();
    shown += &client.ask(&["CLIENT", "LIST"]).await.text();
    shown += &format!("{:?}", client.ask(&["CONFIG", "GET", "*"]).await);
    shown += &String::from_utf8_lossy(&run(&[&flags[..], &["--test-config"]].concat()).stdout);
    // Arguments that `ps` shows.
    for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let words = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        shown += if words.contains("redlock-proxy") { &words } else { "" };
    }
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

/// A visible state, not a fatal error: the password may become right again without a restart of the proxy.
#[tokio::test]
async fn a_wrong_password_for_the_masters_is_told_wherever_one_looks() {
    if target_is_plain_redis() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("password");
    std::fs::write(&file, "wrong horse").expect("written");
    let masters = Masters::start(3);
    // These connections stay logged in.
    let mut operators = Vec::new();
    for master in masters.iter() {
        let mut operator = Raw::connect(&master.address()).await;
        let asked = operator.ask(&["CONFIG", "SET", "requirepass", "right horse"]).await;
        assert_eq!(asked, Reply::ok());
        operators.push(operator);
    }
    let path = file.to_str().expect("a path");
    let flags = ["--master-password-file", path, "--admin", "127.0.0.1:0"];
    let proxy = Proxy::unready(&masters.addresses(), &flags);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    let lock = client.ask(&words("SET lock mine NX PX 60000")).await;
    assert!(lock.is_error("CLUSTERDOWN"), "{lock:?}");
    for master in 0..masters.len() {
        proxy.knows(master, "state", "down").await;
        let reason = proxy.says_of(master, "reason").await;
        assert!(reason.contains("WRONGPASS"), "{reason}");
    }
    let ready = http(&proxy.admin_address(), "GET", "/ready", "");
    assert_eq!(ready.status, 503, "{}", ready.body);
    let log = proxy.log().join("\n");
    assert!(log.contains("WRONGPASS") && !log.contains("horse"), "{log}");

    for operator in &mut operators {
        let asked = operator.ask(&["CONFIG", "SET", "requirepass", "wrong horse"]).await;
        assert_eq!(asked, Reply::ok());
    }
    eventually("it serves when the masters let it in", || async {
        let lock = proxy.raw().await.ask(&words("SET lock mine NX PX 60000")).await;
        (lock == Reply::ok()).then_some(())
    })
    .await;
}

#[test]
fn files_without_a_password_end_the_proxy_with_one_sentence() {
    let empty = tempfile::NamedTempFile::new().expect("a file");
    let empty: &Path = empty.path();
    let empty = empty.to_str().expect("a path");
    for (flags, sentence) in [
        (["--requirepass-file", "/nowhere"], "requirepass-file /nowhere cannot be read: "),
        (["--requirepass-file", empty], "has no password in its first line"),
        (["--master-password-file", empty], "has no password in its first line"),
        (["--master-user", "alice"], "master-user has no password"),
        (["--unixsocketperm", "770"], "unixsocketperm has no effect without unixsocket"),
        (["--unixsocketperm", "999"], "must be an octal mode such as 770"),
        (["--listen", "none"], "there is nowhere to connect"),
    ] {
        let output = run(&flags);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(sentence), "{flags:?}: {said}");
        assert_eq!((output.status.code(), said.trim().lines().count()), (Some(64), 1), "{said}");
    }
}

#[tokio::test]
async fn clients_that_are_silent_for_too_long_are_disconnected_unless_they_wait() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--timeout", "1s"]);
    let (mut silent, mut waiting) = (proxy.raw().await, proxy.raw().await);
    let (mut subscribed, mut busy) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(silent.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    subscribed.ask(&["SUBSCRIBE", "news"]).await;
    waiting.send(&support::encode(&["BLPOP", "queue", "0"])).await;
    let kept_busy = async { while silent.frame_or_end().await.is_some() {} };
    let keep_busy = async {
        loop {
            assert_eq!(busy.ask(&["ECHO", "here"]).await, Reply::bulk("here"));
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = kept_busy => {}
        () = keep_busy => {}
    }
    // The silent client has been disconnected; a whole timeout later the others are still connected.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(proxy.raw().await.ask(&["RPUSH", "queue", "item"]).await, Reply::Int(1));
    let item = Reply::Array(vec![Reply::bulk("queue"), Reply::bulk("item")]);
    assert_eq!(waiting.reply().await, item);
    assert_eq!(proxy.raw().await.ask(&["PUBLISH", "news", "hello"]).await, Reply::Int(1));
    assert!(matches!(subscribed.reply().await, Reply::Array(_)));
}
