//! `redlock-proxy learn`: all traffic passes through unchanged, and the final report says which keys are locks.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

#[path = "learn/learner.rs"]
mod learner;
mod support;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use learner::{Learner, about, flags, run, settings};
use support::http::http;
use support::{Master, Masters, Proxy, Raw, Reply, encode, eventually, words};

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// A Redis, and a learner in front of it.
struct Watched {
    learner: Learner,
    data: Master,
}

impl Watched {
    fn start(flags: &[&str]) -> Self {
        let data = Master::start();
        let learner = Learner::start(&format!("redis://{}", data.address()), flags);
        Self { learner, data }
    }

    /// Ends the learner and returns its report.
    fn report(self) -> String {
        self.learner.end("INT").report()
    }
}

/// Returns every byte that comes back for `sent`, after which the other side closes.
async fn answers(address: &str, sent: &[u8]) -> Vec<u8> {
    let mut client = Raw::connect(address).await;
    client.send(sent).await;
    client.until_closed().await
}

#[tokio::test]
async fn what_a_proxy_would_answer_itself_is_the_answer_of_the_data_redis() {
    let it = Watched::start(&[]);
    for lines in [
        "PING\nECHO hello\nQUIT",
        "CONFIG GET maxmemory-s*\nCONFIG SET maxmemory-samples 7\nCONFIG GET maxmemory-samples\nQUIT",
        "AUTH wrong\nAUTH nobody wrong\nACL WHOAMI\nQUIT",
        "COMMAND COUNT\nCOMMAND INFO get spop function\nCOMMAND DOCS set\nQUIT",
        "CLIENT SETNAME me\nCLIENT GETNAME\nCLIENT NO-EVICT on\nCLIENT REPLY SKIP\nPING\nPING\nQUIT",
        "HELLO 9\nHELLO 3 SETNAME\nRESET\nQUIT",
        "SPOP s\nRANDOMKEY\nFUNCTION LIST\nCLUSTER INFO\nOBJECT ENCODING x\nNONSENSE a b\nQUIT",
        "MULTI\nSET a 1\nINCR a\nSELECT 2\nGET a\nEXEC\nGET a\nQUIT",
        "SELECT 999\nSELECT 1\nSET redlock-proxy:mark x\nDEL redlock-proxy:mark\nQUIT",
        "SUBSCRIBE c\nUNSUBSCRIBE c\nPSUBSCRIBE c*\nPING\nQUIT",
        "SET k \"unbalanced",
        "*1\r\n$-5",
        "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n:1",
    ] {
        let sent = format!("{}\r\n", lines.replace('\n', "\r\n").replace("\r\r", "\r"));
        // The state of the Redis is the same both times.
        let before = b"FLUSHALL\r\nCONFIG SET maxmemory-samples 5\r\nQUIT\r\n";
        answers(&it.data.address(), before).await;
        let direct = answers(&it.data.address(), sent.as_bytes()).await;
        answers(&it.data.address(), before).await;
        let through = answers(&it.learner.address(), sent.as_bytes()).await;
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert!(!direct.is_empty() && direct == through, "{lines}: {}", shown(&through));
    }
}

#[tokio::test]
async fn each_client_is_a_connection_of_its_own() {
    let it = Watched::start(&[]);
    let (mut one, mut other) = (it.learner.raw().await, it.learner.raw().await);
    assert_eq!(one.ask(&words("CLIENT SETNAME one")).await, Reply::ok());
    let [first, second] =
        [one.ask(&words("CLIENT ID")).await, other.ask(&words("CLIENT ID")).await];
    assert_ne!(first, second);
    assert_eq!(other.ask(&words("CLIENT GETNAME")).await, Reply::Nil);
    other.send(&encode(&words("BLPOP queue 0"))).await;
    assert_eq!(one.ask(&words("RPUSH queue x")).await, Reply::Int(1));
    assert_eq!(other.reply().await, Reply::Array(vec![Reply::bulk("queue"), Reply::bulk("x")]));
    let mut third = Raw::connect_resp3(&it.learner.address()).await;
    assert_eq!(third.ask(&words("HSET h f v")).await, Reply::Int(1));
    assert!(matches!(third.ask(&words("HGETALL h")).await, Reply::Map(_)), "RESP3 has maps");
    drop(one);
    let gone = || async {
        let list = it.data.ask(&words("CLIENT LIST")).await.text();
        (!list.contains("name=one")).then_some(())
    };
    eventually("the connection ends with its client", gone).await;
}

#[tokio::test]
async fn a_pipeline_is_understood_wherever_it_is_cut() {
    let it = Watched::start(&[]);
    let mut client = it.learner.raw().await;
    let mut requests = Vec::new();
    for number in 0..200 {
        requests.extend(encode(&words(&format!("SET lock:{number} me NX PX 60000"))));
        requests.extend(encode(&words(&format!("INCR page:{number}"))));
        requests.extend(encode(&["EVAL", RELEASE, "1", &format!("lock:{number}"), "me"]));
    }
    for piece in requests.chunks(997) {
        client.send(piece).await;
    }
    for _ in 0..200 {
        assert_eq!(client.replies(3).await, [Reply::ok(), Reply::Int(1), Reply::Int(1)]);
    }
    let report = it.report();
    let about = about(&report, "lock:*");
    assert!(about.contains("200 names"), "{about}");
    assert!(about.contains("SET NX with a TTL (200), script that releases (200)"), "{about}");
    assert!(settings(&report).contains("lock-keys = [\"lock:*\"]\n"), "{report}");
}

#[tokio::test]
async fn large_values_pass_in_little_memory_and_what_follows_is_understood() {
    let it = Watched::start(&[]);
    let mut client = it.learner.raw().await;
    assert_eq!(client.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    let before = it.learner.peak_kib();
    let size = 20 << 20;
    let value = "v".repeat(size);
    assert_eq!(client.ask(&["SET", "page", &value]).await, Reply::ok());
    assert_eq!(client.ask(&["SET", "lock:large", &value, "NX", "PX", "60000"]).await, Reply::ok());
    assert!(client.ask(&["GET", "page"]).await == Reply::bulk(&value), "it is what was stored");
    assert_eq!(client.ask(&["STRLEN", "page"]).await, Reply::Int(size as i64));
    let grown = it.learner.peak_kib() - before;
    assert!(grown < 4 << 10, "it took {grown} KiB more for values of 20 MiB");
    assert!(about(&it.report(), "lock:large").contains("SET NX with a TTL (1)"));
}

#[tokio::test]
async fn databases_transactions_and_libraries_are_told() {
    let it = Watched::start(&[]);
    let mut client = it.learner.raw().await;
    for line in [
        "CLIENT SETINFO LIB-NAME shop-lock",
        "CLIENT SETINFO LIB-VER 1.2",
        "SELECT 3",
        "SET lock:1 me NX PX 60000",
        "WATCH lock:1",
        "GET lock:1",
        "MULTI",
        "DEL lock:1",
        "SELECT 5",
        "EXEC",
        "SETNX lock:2 me",
        "EXPIRE lock:2 60",
    ] {
        let reply = client.ask(&words(line)).await;
        // Redis 7.0 does not accept a library's name; its answer passes through.
        assert!(line.contains("SETINFO") || !reply.is_error("ERR"), "{line}: {reply:?}");
    }
    let report = it.report();
    let about = about(&report, "lock:*");
    for part in [
        "SET NX with a TTL (1)",
        "SETNX, then EXPIRE (1)",
        "WATCH, MULTI, DEL, EXEC (1)",
        "libraries  shop-lock 1.2 (3)",
        "databases  3 (2), 5 (1)",
    ] {
        assert!(about.contains(part), "no {part}: {about}");
    }
}

#[tokio::test]
async fn what_would_be_refused_is_told_as_the_proxy_then_does() {
    let it = Watched::start(&[]);
    let mut client = it.learner.raw().await;
    let refused = ["MOVE lock:a 3", "DEL lock:a page"];
    for line in ["SET lock:a me NX PX 60000", "SET page 1", refused[0], refused[1]] {
        client.ask(&words(line)).await;
    }
    let address = it.data.address();
    let Watched { learner, data } = it;
    let report = learner.end("TERM").report();
    let about = about(&report, "lock:a");
    let masters = Masters::start(3);
    let data_url = format!("redis://{address}");
    let proxy = Proxy::start(&masters, &["--data", &data_url, "--lock-keys", "lock:*"]);
    let mut client = proxy.raw().await;
    let Reply::Error(moved) = client.ask(&words(refused[0])).await else { panic!("it runs") };
    assert!(about.contains(&format!("refused    MOVE: {moved}")), "{about}");
    assert!(client.ask(&words(refused[1])).await.is_error("CROSSSLOT"));
    assert!(report.contains("DEL names lock 'lock:a' and 'page', which is none (1)"), "{report}");
    // Dropped first, so it never misses its data Redis.
    drop((proxy, data));
}

/// From the observed use of one Redis to a proxy that takes those locks on the masters.
#[tokio::test]
async fn the_printed_settings_make_a_proxy_that_takes_those_locks_on_the_masters() {
    let it = Watched::start(&[]);
    let mut client = it.learner.raw().await;
    for name in ["alice", "bob", "carol"] {
        let lock = format!("SET lock:{name} me NX PX 60000");
        assert_eq!(client.ask(&words(&lock)).await, Reply::ok());
        client.ask(&words(&format!("DEL lock:{name}"))).await;
        client.ask(&words(&format!("SET page:{name} 1"))).await;
    }
    client.ask(&words("SUBSCRIBE lock:free:alice news")).await;
    client.reply().await;
    let Watched { learner, data } = it;
    let report = learner.end("INT").report();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(settings(&report).as_bytes()).expect("written");
    let path = file.path().to_str().expect("a plain path");
    let masters = Masters::start(3);
    let typed = flags(&report);
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    for flags in [&["--config", path][..], &typed] {
        let proxy = Proxy::start(&masters, flags);
        let mut client = proxy.raw().await;
        assert_eq!(client.ask(&words("SET lock:dave me NX PX 60000")).await, Reply::ok());
        assert_eq!(client.ask(&words("SET page:dave 1")).await, Reply::ok());
        assert!(!data.has("lock:dave").await && data.has("page:dave").await);
        assert_eq!(masters.having("lock:dave").await, 3);
        assert_eq!(client.ask(&words("PUBLISH lock:free:alice x")).await, Reply::Int(0));
        assert_eq!(client.ask(&words("DEL lock:dave")).await, Reply::Int(1));
        assert_eq!(data.ask(&words("DEL page:dave")).await, Reply::Int(1));
    }
}

/// Runs a published library: its own checks, or taking and releasing a lock.
async fn library(words: &[&str], address: &str) -> String {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/run");
    let mut command = tokio::process::Command::new(run);
    command.arg("python").args(words).env("REDLOCK_ADDRESS", address).stdin(Stdio::null());
    let output = command.env_remove("REDLOCK_MIDDLE").env_remove("REDLOCK_PASSWORD").output().await;
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn published_libraries_are_known_and_then_lock_on_the_masters() {
    for (id, prefix, parts) in [
        (
            "redis-py-8",
            "lock",
            &["redis-py 8", "script that releases", "redis-py 3 to 8, lock"][..],
        ),
        (
            "python-redis-lock",
            "lock:lock",
            &[
                "SET NX with a TTL",
                "used with  keys of locks, in one script or transaction",
                "names no keys: the data Redis would run it, and find no lock there",
            ],
        ),
    ] {
        let it = Watched::start(&[]);
        library(&["check", id], &it.learner.address()).await;
        let Watched { learner, data } = it;
        let report = learner.end("TERM").report();
        for part in parts {
            assert!(report.contains(part), "{id}: no {part}: {report}");
        }
        let typed = flags_of(&report);
        let masters = Masters::start(3);
        let mut typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        // This key shows that all masters are linked.
        typed.push("--lock-keys=lock:first light *");
        let proxy = Proxy::start(&masters, &typed);
        let used = || async { data.calls("set").await + data.calls("evalsha").await };
        let (before, claims) = (used().await, masters[0].calls("set").await);
        let lock = format!("{prefix} 14");
        let held = library(&["hold", id, &lock], proxy.address()).await;
        assert_eq!(held, format!("held\t{lock}\n"));
        assert_eq!(used().await, before, "{id}: no lock is on the data Redis");
        assert!(masters[0].calls("set").await > claims && masters.having(&lock).await == 3);
    }
}

/// Returns the same flags, for names with blanks, which a shell keeps in one word.
fn flags_of(report: &str) -> Vec<String> {
    let line = report.split_once("the same as flags:\n\n").expect("flags").1.trim();
    line.split(" --")
        .map(|word| format!("--{}", word.trim_start_matches("--")))
        .map(|word| word.replace('\'', ""))
        .collect()
}

#[tokio::test]
async fn it_ends_when_its_time_is_over_or_by_a_signal() {
    let it = Watched::start(&["--for", "50ms"]);
    let ended = it.learner.ended();
    assert_eq!(ended.status.code(), Some(0));
    assert!(ended.report.contains("no key was used as a lock"), "{}", ended.report);
    for signal in ["INT", "TERM"] {
        let it = Watched::start(&["--for", "1h"]);
        let mut client = it.learner.raw().await;
        client.ask(&words("SET lock:a me NX PX 60000")).await;
        assert!(settings(&it.learner.end(signal).report()).contains("lock-keys = [\"lock:a\"]"));
        assert!(client.until_closed().await.is_empty(), "clients are let go");
    }
}

#[tokio::test]
async fn the_page_shows_the_same_while_it_goes_on() {
    let it = Watched::start(&["--admin", "127.0.0.1:0"]);
    let admin = it.learner.admin_address();
    let mut client = it.learner.raw().await;
    client.ask(&words("SET lock:a me NX PX 60000")).await;
    eventually("the lock is shown", || async {
        let status = http(&admin, "GET", "/status.json", "");
        let status: serde_json::Value = serde_json::from_str(&status.body).expect("JSON");
        (status["lock_keys"] == serde_json::json!(["lock:a"])
            && status["locks"][0]["kinds"][0]["what"] == "SET NX with a TTL")
            .then_some(())
    })
    .await;
    let lines = http(&admin, "GET", "/settings", "").body;
    assert!(lines.contains("lock-keys = [\"lock:a\"]"), "{lines}");
    let page = http(&admin, "GET", "/", "");
    assert!(page.status == 200 && page.body.contains("<title>redlock-proxy learn</title>"));
    assert_eq!(http(&admin, "GET", "/live", "").status, 200);
    assert_eq!(http(&admin, "POST", "/settings", "x").status, 405);
    let stranger = "Host: evil.example\r\n";
    assert_eq!(support::http::http_with(&admin, "GET", "/status.json", stranger, "").status, 421);
    let report = it.report();
    assert!(report.contains(lines.trim()), "{report}");
}

/// Returns the last line on stderr of a run that must exit with `code`.
fn sentence(words: &[&str], code: i32) -> String {
    let output = run(words);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    // Earlier log lines are not the sentence.
    stderr.trim_end().lines().last().expect("a sentence").to_owned()
}

#[tokio::test]
async fn what_it_cannot_do_it_says_at_once() {
    let (data, listen) = (Master::start(), ["--listen", "127.0.0.1:0"]);
    let with = |words: &[&str]| -> Vec<String> {
        listen.iter().chain(words).map(|word| (*word).to_owned()).collect()
    };
    let locked = Master::start();
    locked.ask(&words("CONFIG SET requirepass secret")).await;
    let wrong = format!("redis://:wrong@{}", locked.address());
    for (words, code, part) in [
        (with(&[]), 64, "name it with --data redis://host:port"),
        (with(&["--data", "redis://127.0.0.1:1"]), 69, "cannot use the data Redis 127.0.0.1:1/0"),
        (with(&["--data", &wrong]), 69, "it says: "),
        (with(&["--data", "h:1", "--for", "soon"]), 64, "for `soon` is not a duration"),
        (with(&["--data", "h:1", "--nonsense"]), 64, "unexpected argument '--nonsense'"),
    ] {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = sentence(&words, code);
        assert!(said.starts_with("redlock-proxy: ") && said.contains(part), "{said}");
    }
    let url = format!("redis://{}", data.address());
    let busy = sentence(&["--data", &url, "--listen", &data.address()], 69);
    assert!(busy.contains("is in use"), "{busy}");
    data.ask(&words("SET redlock-proxy:mark x")).await;
    let master = sentence(&["--data", &url, "--listen", "127.0.0.1:0"], 69);
    assert!(master.contains("it has the mark of a master"), "{master}");
}

#[tokio::test]
async fn the_login_and_the_database_of_the_url_count_for_clients_that_say_nothing() {
    let data = Master::start();
    data.ask(&words("CONFIG SET requirepass secret")).await;
    let url = format!("redis://:secret@{}/4", data.address());
    let learner = Learner::start(&url, &[]);
    let mut client = learner.raw().await;
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    let mut direct = Raw::connect(&data.address()).await;
    assert_eq!(direct.ask(&words("AUTH secret")).await, Reply::ok());
    assert_eq!(direct.ask(&words("SELECT 4")).await, Reply::ok());
    assert_eq!(direct.ask(&words("EXISTS lock:a")).await, Reply::Int(1));
    assert!(client.ask(&words("AUTH wrong")).await.is_error("WRONGPASS"));
    let report = learner.end("INT").report();
    assert!(about(&report, "lock:a").contains("databases  4 (1)"), "{report}");
    assert!(report.contains("/4\"") && !report.contains("secret"), "{report}");

    let without = Learner::start(&format!("redis://{}", data.address()), &[]);
    let mut client = without.raw().await;
    assert!(client.ask(&["PING"]).await.is_error("NOAUTH"), "clients log in for themselves");
    assert_eq!(client.ask(&words("AUTH secret")).await, Reply::ok());
    assert_eq!(client.ask(&["PING"]).await, Reply::Simple("PONG".into()));
}

#[tokio::test]
async fn a_data_redis_that_goes_takes_its_clients_along_and_new_ones_come_when_it_is_back() {
    let mut it = Watched::start(&[]);
    let mut client = it.learner.raw().await;
    assert_eq!(client.ask(&words("SET lock:a me NX PX 60000")).await, Reply::ok());
    it.data.kill_9();
    it.data.restart_empty();
    assert!(client.until_closed().await.is_empty());
    eventually("it is served again", || async {
        let mut client = it.learner.raw().await;
        client.send_regardless(&encode(&["PING"])).await;
        client.frame_or_end().await.map(|_| ())
    })
    .await;
    assert!(it.report().contains("lock:a"));
}
