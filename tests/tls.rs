//! TLS towards clients and masters, with real clients and real masters.

mod support;

use std::path::Path;
use std::process::Command;

use support::certificates::{Authority, Pair};
use support::{
    Master, Masters, Proxy, Raw, Reply, eventually, free_port, run, target_is_plain_redis, words,
};

fn flag(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Returns the flags of a proxy that accepts clients over TLS on a free port.
fn by_tls(pair: &Pair) -> Vec<&str> {
    let (cert, key) = (flag(&pair.cert), flag(&pair.key));
    vec!["--tls-listen", "127.0.0.1:0", "--tls-cert-file", cert, "--tls-key-file", key]
}

async fn takes_a_lock(client: &mut Raw, key: &str) {
    assert_eq!(client.ask(&words(&format!("SET {key} mine NX PX 60000"))).await, Reply::ok());
    assert_eq!(client.ask(&["GET", key]).await, Reply::bulk("mine"));
}

/// Returns the output of `redis-cli`, and whether it succeeded.
fn redis_cli(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("redis-cli").args(arguments).output().expect("redis-cli");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

#[tokio::test]
async fn clients_come_by_tls_and_without_at_the_same_time() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, authority) = (Masters::start(3), Authority::new());
    let pair = authority.sign(&["127.0.0.1"]);
    let proxy = Proxy::start(&masters, &by_tls(&pair));
    let mut tls = authority.connect(&proxy.tls_address(), None).await.expect("a handshake");
    takes_a_lock(&mut tls, "by-tls").await;
    takes_a_lock(&mut proxy.raw().await, "plain").await;
    let ca = authority.path();
    let address = proxy.tls_address();
    let port = address.rsplit(':').next().expect("a port");
    let cli = ["--tls", "--cacert", flag(&ca), "-p", port, "GET", "by-tls"];
    assert_eq!(redis_cli(&cli), (true, "mine".to_owned()));

    // A client that speaks no TLS is disconnected, and harms nobody.
    let mut lost = Raw::connect(&address).await;
    lost.send(b"PING\r\n").await;
    lost.until_closed().await;
    takes_a_lock(&mut tls, "again").await;
}

/// More than one record, and more than the sockets hold at a time.
#[tokio::test]
async fn large_values_and_long_pipelines_pass_through_tls() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, authority) = (Masters::start(3), Authority::new());
    let proxy = Proxy::start(&masters, &by_tls(&authority.sign(&["127.0.0.1"])));
    let mut client = authority.connect(&proxy.tls_address(), None).await.expect("a handshake");
    let large = "x".repeat(900_000);
    assert_eq!(client.ask(&["SET", "large", &large]).await, Reply::ok());
    let get = support::encode(&["GET", "large"]);
    client.send(&get.repeat(30)).await;
    for reply in client.replies(30).await {
        assert!(reply == Reply::bulk(&large), "another value");
    }
}

#[tokio::test]
async fn clients_must_show_a_certificate_if_they_are_told_to() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, authority, stranger) = (Masters::start(3), Authority::new(), Authority::new());
    let (pair, ca) = (authority.sign(&["127.0.0.1"]), authority.path());
    let (known, unknown) = (authority.sign(&["a client"]), stranger.sign(&["a client"]));
    for (rule, without) in [(&[][..], false), (&["--tls-auth-clients", "optional"], true)] {
        let flags = [&by_tls(&pair), &["--tls-ca-cert-file", flag(&ca)][..], rule].concat();
        let proxy = Proxy::start(&masters, &flags);
        let is_served = async |pair: Option<&Pair>| {
            let client = authority.connect(&proxy.tls_address(), pair).await;
            let Ok(mut client) = client else { return false };
            client.send_regardless(&support::encode(&["PING"])).await;
            client.frame_or_end().await.is_some()
        };
        assert!(is_served(Some(&known)).await, "{rule:?}");
        assert!(!is_served(Some(&unknown)).await, "{rule:?}: signed by somebody else");
        assert_eq!(is_served(None).await, without, "{rule:?}: no certificate at all");
    }
}

#[tokio::test]
async fn certificates_are_replaced_without_a_restart() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, before, after) = (Masters::start(3), Authority::new(), Authority::new());
    let pair = before.sign(&["127.0.0.1"]);
    let proxy = Proxy::start(&masters, &by_tls(&pair));
    proxy.expect_warnings();
    let address = proxy.tls_address();
    let mut old = before.connect(&address, None).await.expect("a handshake");
    assert!(after.connect(&address, None).await.is_err());

    std::fs::write(&pair.cert, "nonsense").expect("written");
    proxy.hang_up();
    let says = async |words: &str| {
        let said = || async { proxy.log().iter().any(|line| line.contains(words)).then_some(()) };
        eventually(words, said).await;
    };
    says("holds no certificate in PEM format").await;
    before.connect(&address, None).await.expect("what cannot be read replaces nothing");

    pair.replace_by(&after.sign(&["127.0.0.1"]));
    proxy.hang_up();
    says("certificates reloaded").await;
    let mut new = after.connect(&address, None).await.expect("the new certificate");
    takes_a_lock(&mut new, "new").await;
    assert!(before.connect(&address, None).await.is_err(), "the old certificate is still shown");
    takes_a_lock(&mut old, "old").await;
}

/// Starts masters that also accept TLS at these addresses, with this setting for client certificates.
fn masters_by_tls(authority: &Authority, names: &[&str], auth: &str) -> (Masters, Vec<String>) {
    let (pair, ca) = (authority.sign(names), authority.path());
    let mut urls = Vec::new();
    let masters = (0..3).map(|_| {
        let port = free_port().to_string();
        urls.push(format!("rediss://127.0.0.1:{port}"));
        let files = [("cert", &pair.cert), ("key", &pair.key), ("ca-cert", &ca)];
        let mut flags: Vec<String> = Vec::new();
        for (kind, path) in files {
            flags.extend([format!("--tls-{kind}-file"), path.display().to_string()]);
        }
        flags.extend(["--tls-auth-clients".into(), auth.into(), "--tls-port".into(), port]);
        // A master may be restarted with its flags, as long as the test runs.
        let flags: Vec<&str> = flags.into_iter().map(|flag| &*flag.leak()).collect();
        Master::start_with(flags.leak())
    });
    (Masters::of(masters.collect()), urls)
}

#[tokio::test]
async fn masters_are_reached_by_tls() {
    if target_is_plain_redis() {
        return;
    }
    let authority = Authority::new();
    let (masters, urls) = masters_by_tls(&authority, &["127.0.0.1"], "yes");
    let (ca, pair) = (authority.path(), authority.sign(&["the proxy"]));
    let (cert, key) = (flag(&pair.cert), flag(&pair.key));
    let trust = ["--master-tls-ca-cert-file", flag(&ca)];
    let shown = ["--master-tls-cert-file", cert, "--master-tls-key-file", key];
    let proxy = Proxy::unready(&urls, &[&trust[..], &shown].concat());
    let mut client = proxy.raw().await;
    for master in 0..3 {
        proxy.knows(master, "state", "voter").await;
    }
    takes_a_lock(&mut client, "lock").await;
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    // All other connections of the proxy to masters use TLS as well.
    let confirmed = client.ask(&["SUBSCRIBE", "channel"]).await;
    assert!(matches!(confirmed, Reply::Array(_)), "{confirmed:?}");
    assert_eq!(proxy.raw().await.ask(&["PUBLISH", "channel", "news"]).await, Reply::Int(1));
    let message = client.reply().await;
    assert!(matches!(message, Reply::Array(_)), "{message:?}");
    let check = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
        .arg("check")
        .args(["--master", &urls.join(",")])
        .args(trust)
        .args(shown)
        .output()
        .expect("the proxy's binary");
    let table = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success(), "{table}");
    assert_eq!(table.matches(" votes").count(), 3, "{table}");
}

#[tokio::test]
async fn masters_that_cannot_be_trusted_are_not_talked_to() {
    if target_is_plain_redis() {
        return;
    }
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (_masters, urls) = masters_by_tls(&authority, &["redis.internal"], "no");
    let (ca, wrong) = (authority.path(), stranger.path());
    let named = ["--master-tls-server-name", "redis.internal"];
    for (ca, name, reason) in [
        (&ca, &named[..], None),
        (&ca, &[], Some("certificate not valid for name")),
        (&wrong, &named, Some("invalid peer certificate")),
    ] {
        let flags = [&["--master-tls-ca-cert-file", flag(ca)][..], name].concat();
        let proxy = Proxy::unready(&urls, &flags);
        proxy.expect_warnings();
        match reason {
            None => proxy.knows(0, "state", "voter").await,
            Some(reason) => {
                proxy.knows(0, "state", "down").await;
                let why = proxy.says_of(0, "reason").await;
                assert!(why.contains(reason), "{reason}: {why}");
            }
        }
    }
}

#[test]
fn certificates_that_cannot_be_used_end_the_proxy_with_one_sentence() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (pair, wrong) = (authority.sign(&["127.0.0.1"]), other.sign(&["127.0.0.1"]));
    let (cert, key, wrong_key) = (flag(&pair.cert), flag(&pair.key), flag(&wrong.key));
    let listen = ["--tls-listen", "127.0.0.1:0"];
    for (flags, sentence) in [
        (vec![], "tls-listen needs tls-cert-file and tls-key-file"),
        (vec!["--tls-cert-file", cert], "tls-cert-file needs tls-key-file"),
        (vec!["--tls-cert-file", "/nowhere", "--tls-key-file", key], "cannot read /nowhere: "),
        (vec!["--tls-cert-file", key, "--tls-key-file", key], "holds no certificate in PEM format"),
        (
            vec!["--tls-cert-file", cert, "--tls-key-file", cert],
            "holds no private key in PEM format",
        ),
        (vec!["--tls-cert-file", cert, "--tls-key-file", wrong_key], "cannot be used: "),
        (
            vec!["--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "yes"],
            "tls-auth-clients needs tls-ca-cert-file",
        ),
        (
            vec!["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", key],
            "holds no certificate in PEM format",
        ),
    ] {
        let words = [&["--listen", "127.0.0.1:0"], &listen[..], &flags].concat();
        let output = run(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(sentence), "{flags:?}: {said}");
        assert_eq!((output.status.code(), said.trim().lines().count()), (Some(64), 1), "{said}");
    }
}
