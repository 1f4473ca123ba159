//! Start and end of a proxy: masters that come late, signals while clients wait.

#![allow(clippy::disallowed_methods, reason = "these tests wait for real processes")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use support::master::signal;
use support::{
    Master, Masters, PATIENCE, Proxy, Raw, Relay, Reply, encode, eventually, eventually_blocking,
    scripts, target_is_plain_redis, text, words,
};

/// Longer than any test: a proxy that exits sooner has not waited for it.
const FOR_EVER: [&str; 2] = ["--drain-timeout", "1h"];

/// A proxy whose links to the masters can be held up, and its process ID.
struct Held {
    masters: Masters,
    relays: Vec<Relay>,
    proxy: Proxy,
    pid: u32,
}

impl Held {
    async fn start(flags: &[&str]) -> Held {
        let masters = Masters::start(3);
        let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
        let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
        let flags = [&["--vote-timeout", "10s"], flags].concat();
        let proxy = Proxy::in_front_of(&addresses, &flags);
        let pid = proxy.raw().await.process_id().await;
        Held { masters, relays, proxy, pid }
    }

    /// Sends a claim that one master has received, and that no second one will receive until [`Held::let_go`].
    async fn claim_in_flight(&self) -> Raw {
        for relay in &self.relays[1..] {
            relay.black_hole();
        }
        let mut raw = self.proxy.raw().await;
        raw.send(&encode(&["SET", "lock", "mine", "NX", "PX", "60000"])).await;
        self.masters[0].holds("lock", "mine").await;
        raw
    }

    /// Gives the lock on all masters but the first to another client.
    async fn give_to_another(&self) {
        for master in &self.masters[1..] {
            let mut direct = master.connection().await;
            let claim = ["SET", "lock", "other", "PX", "60000"];
            assert_eq!(text(&mut direct, &claim).await.as_deref(), Some("OK"));
        }
    }

    fn let_go(&self) {
        for relay in &self.relays {
            relay.heal();
        }
    }
}

/// Whether this process runs; one that has exited and waits for its parent has no command line.
fn runs(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// Returns the exit status of a proxy that received signals.
fn end(proxy: Proxy, pid: u32) -> ExitStatus {
    eventually_blocking("the proxy ends", || (!runs(pid)).then_some(()));
    // The process has exited, so this signal has no effect.
    proxy.terminate()
}

/// Waits until nobody listens, so the proxy has received the signal.
async fn refuses_clients(address: &str) {
    eventually("new connections are refused", || async {
        tokio::net::TcpStream::connect(address).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_in_flight_is_answered_before_the_end() {
    if target_is_plain_redis() {
        return;
    }
    for name in ["TERM", "INT"] {
        let held = Held::start(&FOR_EVER).await;
        let mut raw = held.claim_in_flight().await;
        signal(name, held.pid);
        refuses_clients(held.proxy.address()).await;
        assert!(runs(held.pid), "it ended without an answer");
        held.let_go();
        assert_eq!(raw.reply().await, Reply::ok(), "{name}");
        assert_eq!(raw.until_closed().await, b"", "{name}");
        assert_eq!(end(held.proxy, held.pid).code(), Some(0), "{name}");
        assert!(held.masters.holding("lock", b"mine").await >= held.masters.quorum());
    }
}

/// All requests of a pipeline that were read are answered, even those that had to wait for their turn.
#[tokio::test]
async fn a_pipeline_in_flight_is_answered_to_its_end() {
    if target_is_plain_redis() {
        return;
    }
    let held = Held::start(&FOR_EVER).await;
    for relay in &held.relays[1..] {
        relay.black_hole();
    }
    let mut raw = held.proxy.raw().await;
    let lines = ["SET lock mine NX PX 60000", "GET lock", "DEL lock", "MGET lock other", "PING"];
    let pipeline: Vec<u8> = lines.iter().flat_map(|line| encode(&words(line))).collect();
    raw.send(&pipeline).await;
    held.masters[0].holds("lock", "mine").await;
    signal("TERM", held.pid);
    refuses_clients(held.proxy.address()).await;
    held.let_go();
    let nothing = Reply::Array(vec![Reply::Nil, Reply::Nil]);
    let expected =
        [Reply::ok(), Reply::bulk("mine"), Reply::Int(1), nothing, Reply::Simple("PONG".into())];
    assert_eq!(raw.replies(lines.len()).await, expected);
    assert_eq!(raw.until_closed().await, b"");
    assert_eq!(end(held.proxy, held.pid).code(), Some(0));
}

/// The leftover of a lost claim on a minority is taken back before the proxy exits: nobody else would.
#[tokio::test]
async fn a_lost_claim_leaves_nothing_behind_at_the_end() {
    if target_is_plain_redis() {
        return;
    }
    let held = Held::start(&FOR_EVER).await;
    held.give_to_another().await;
    let mut raw = held.claim_in_flight().await;
    signal("TERM", held.pid);
    refuses_clients(held.proxy.address()).await;
    held.let_go();
    assert_eq!(raw.reply().await, Reply::Nil);
    assert_eq!(end(held.proxy, held.pid).code(), Some(0));
    held.masters[0].forgets("lock").await;
}

/// The same for a yes that arrives after the claim was refused.
#[tokio::test]
async fn a_late_yes_is_taken_back_before_the_end() {
    if target_is_plain_redis() {
        return;
    }
    let held = Held::start(&FOR_EVER).await;
    held.give_to_another().await;
    held.relays[0].withhold_answers();
    let mut raw = held.proxy.raw().await;
    // The master holds it only until the verdict, which is too short to observe.
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::Nil);
    signal("TERM", held.pid);
    refuses_clients(held.proxy.address()).await;
    held.let_go();
    assert_eq!(end(held.proxy, held.pid).code(), Some(0));
    held.masters[0].forgets("lock").await;
}

/// The same when only the take-back of the claim is still on its way.
#[tokio::test]
async fn a_take_back_on_its_way_is_waited_for_before_the_end() {
    if target_is_plain_redis() {
        return;
    }
    let held = Held::start(&[&FOR_EVER[..], &["--split-vote-retries", "0"]].concat()).await;
    held.give_to_another().await;
    held.relays[0].hold_back("EVALSHA");
    let mut raw = held.proxy.raw().await;
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::Nil);
    held.masters[0].holds("lock", "mine").await;
    signal("TERM", held.pid);
    refuses_clients(held.proxy.address()).await;
    // Without anything to wait for, the proxy would exit at once.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(runs(held.pid), "it waits for the take-back");
    held.let_go();
    assert_eq!(end(held.proxy, held.pid).code(), Some(0));
    held.masters[0].forgets("lock").await;
}

/// A release that a majority has confirmed still reaches the last master, where the lock would otherwise stay, for
/// ever if it has no TTL.
#[tokio::test]
async fn a_release_reaches_every_master_before_the_end() {
    if target_is_plain_redis() {
        return;
    }
    let held = Held::start(&FOR_EVER).await;
    let mut raw = held.proxy.raw().await;
    assert_eq!(raw.ask(&words("SET lock mine NX")).await, Reply::ok());
    for master in held.masters.iter() {
        master.holds("lock", "mine").await;
    }
    held.relays[0].delay(Duration::from_millis(200), Duration::ZERO);
    let release = ["EVAL", scripts::RELEASE, "1", "lock", "mine"];
    assert_eq!(raw.ask(&release).await, Reply::Int(1));
    signal("TERM", held.pid);
    assert_eq!(end(held.proxy, held.pid).code(), Some(0));
    held.masters.forget("lock").await;
}

#[tokio::test]
async fn clients_that_wait_for_nothing_do_not_hold_it_up() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[&FOR_EVER[..], &["--workers", "2"]].concat());
    let mut idle = Vec::new();
    for index in 0..20 {
        let mut raw = proxy.raw().await;
        if index % 2 == 0 {
            assert_eq!(raw.ask(&["PING"]).await, Reply::Simple("PONG".into()));
        }
        if index % 3 == 0 {
            raw.send(b"*2\r\n$3\r\nGET\r\n$4\r\nlo").await;
        }
        idle.push(raw);
    }
    assert_eq!(proxy.terminate().code(), Some(0));
    for mut raw in idle {
        assert_eq!(raw.until_closed().await, b"");
    }
}

#[tokio::test]
async fn a_client_that_never_reads_holds_it_up_no_longer_than_allowed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--drain-timeout", "300ms"]);
    proxy.expect_warnings();
    let pid = proxy.raw().await.process_id().await;
    let deaf = deaf_client(&proxy, &masters).await;
    signal("TERM", pid);
    eventually("the log tells that somebody was left behind", || async {
        let log = proxy.log();
        let told = |line: &String| {
            line.contains(" WARN ")
                && line.contains("some clients were disconnected before they finished")
        };
        log.iter().any(told).then_some(())
    })
    .await;
    assert_eq!(end(proxy, pid).code(), Some(0));
    drop(deaf);
}

/// Returns a client that has requested more than all buffers of the system can hold, and does not read.
async fn deaf_client(proxy: &Proxy, masters: &Masters) -> Raw {
    let mut raw = proxy.raw().await;
    let large = "x".repeat(500_000);
    assert_eq!(raw.ask(&["SET", "large", &large]).await, Reply::ok());
    raw.send(&encode(&["GET", "large"]).repeat(200)).await;
    eventually("the client's requests are being answered", || async {
        (masters[0].calls("get").await > 0).then_some(())
    })
    .await;
    raw
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    if target_is_plain_redis() {
        return;
    }
    for (first, second, code) in
        [("TERM", "TERM", 143), ("INT", "INT", 130), ("TERM", "INT", 130), ("INT", "TERM", 143)]
    {
        let held = Held::start(&FOR_EVER).await;
        held.proxy.expect_warnings();
        let mut raw = held.claim_in_flight().await;
        signal(first, held.pid);
        refuses_clients(held.proxy.address()).await;
        signal(second, held.pid);
        assert_eq!(raw.until_closed().await, b"", "{first}, {second}");
        assert_eq!(end(held.proxy, held.pid).code(), Some(code), "{first}, {second}");
    }
}

/// A `dev` with three masters and their process IDs. It is killed when dropped.
struct Dev {
    process: Child,
    address: String,
    servers: Vec<u32>,
    directory: tempfile::TempDir,
}

impl Dev {
    fn start(flags: &[&str]) -> Dev {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut process = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
            .args(flags)
            .args(["dev", "--listen", "127.0.0.1:0"])
            .env("TMPDIR", directory.path())
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the proxy's binary starts");
        let mut lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
        let mut servers = Vec::new();
        let address = loop {
            let line = lines.next().expect("dev says where it listens").expect("text");
            if let Some((_, rest)) = line.split_once("(pid ") {
                servers.push(rest.trim_end_matches(')').parse().expect("a process id"));
            } else if let Some(rest) = line.strip_prefix("the proxy listens on ") {
                break rest.split(' ').next().expect("an address").to_owned();
            }
        };
        assert_eq!(servers.len(), 3, "three masters are named");
        // Reads the rest of the output, so that the proxy never writes to a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Dev { process, address, servers, directory }
    }

    fn end(&mut self) -> ExitStatus {
        eventually_blocking("`dev` ends", || self.process.try_wait().expect("its state"))
    }

    fn assert_nothing_left(&self) {
        let left: Vec<&u32> = self.servers.iter().filter(|pid| runs(**pid)).collect();
        assert!(left.is_empty(), "redis-server still runs: {left:?}");
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Both find the default port of the status page free.
#[test]
fn proxies_of_dev_that_begin_at_the_same_moment_serve() {
    let start = || std::thread::spawn(|| Dev::start(&[]));
    for dev in [start(), start(), start()] {
        dev.join().expect("it serves");
    }
}

#[test]
fn dev_leaves_no_redis_server_behind() {
    let mut dev = Dev::start(&[]);
    assert!(dev.servers.iter().all(|pid| runs(*pid)));
    signal("TERM", dev.process.id());
    assert_eq!(dev.end().code(), Some(0));
    dev.assert_nothing_left();
    let left = std::fs::read_dir(dev.directory.path()).expect("its directory").count();
    assert_eq!(left, 0, "files are left");
}

#[test]
fn dev_leaves_no_redis_server_behind_when_it_ends_at_once() {
    let mut dev = Dev::start(&["--drain-timeout", "1h"]);
    let address = dev.address.parse().expect("an address");
    let mut deaf = TcpStream::connect_timeout(&address, PATIENCE).expect("a listener");
    let large = "x".repeat(500_000);
    deaf.write_all(&encode(&["SET", "large", &large])).expect("sent");
    deaf.write_all(&encode(&["GET", "large"]).repeat(200)).expect("sent");
    // Once the second reply comes, the requests behind it have been read; those not read are dropped.
    let mut first = [0; 14];
    std::io::Read::read_exact(&mut deaf, &mut first).expect("two replies");
    assert_eq!(&first, b"+OK\r\n$500000\r\n");
    signal("TERM", dev.process.id());
    eventually_blocking("new connections are refused", || TcpStream::connect(address).err());
    assert!(runs(dev.process.id()), "it did not wait for the client");
    signal("TERM", dev.process.id());
    assert_eq!(dev.end().code(), Some(143));
    dev.assert_nothing_left();
    let left = std::fs::read_dir(dev.directory.path()).expect("its directory").count();
    assert_eq!(left, 0, "files are left");
}

#[tokio::test]
async fn a_master_that_is_down_at_first_is_used_when_it_comes() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    founded(&masters);
    masters[2].kill_9();
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&words("SET early mine NX PX 60000")).await, Reply::ok());
    masters[2].restart_empty();
    voters(&mut raw, 3).await;
    assert_eq!(raw.ask(&words("SET late mine NX PX 60000")).await, Reply::ok());
    masters[2].holds("early", "mine").await;
    masters[2].holds("late", "mine").await;
    let warnings = proxy.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(warnings[0].contains("the master is down: "), "{warnings:#?}");
    assert!(warnings[1].contains("on probation: it was restarted"), "{warnings:#?}");
}

/// The first use of a list: a missing master may be the one that remembers.
#[tokio::test]
async fn a_list_that_is_used_for_the_first_time_waits_for_all_its_masters() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    masters[2].kill_9();
    let proxy = Proxy::unready(&masters.addresses(), &[]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    let reply = raw.ask(&words("SET early mine NX PX 60000")).await;
    assert!(
        reply.is_error("CLUSTERDOWN this proxy does not serve yet: all listed masters"),
        "{reply:?}"
    );
    masters[2].restart_empty();
    voters(&mut raw, 3).await;
    assert_eq!(raw.ask(&words("SET late mine NX PX 60000")).await, Reply::ok());
}

#[tokio::test]
async fn a_proxy_without_masters_says_so_at_once_and_works_when_they_come() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    founded(&masters);
    masters.iter_mut().for_each(Master::kill_9);
    // With such a long vote timeout, only requests that do not wait are answered in time.
    let proxy = Proxy::start(&masters, &["--vote-timeout", "10s"]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    for line in ["SET lock mine NX PX 60000", "SETNX lock mine", "GET lock", "DEL lock", "DBSIZE"] {
        let reply = raw.ask(&words(line)).await;
        assert!(reply.is_error("CLUSTERDOWN this proxy does not serve yet: "), "{line}: {reply:?}");
    }
    assert_eq!(raw.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    masters.iter_mut().for_each(Master::restart_empty);
    for master in 0..3 {
        proxy.knows(master, "link", "up").await;
    }
    voters(&mut raw, 3).await;
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
}

/// A master that accepts connections and never answers delays nobody.
#[tokio::test]
async fn a_master_that_is_silent_at_first_does_not_hold_the_others_up() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    founded(&masters);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut addresses = masters.addresses();
    addresses[2] = silent.local_addr().expect("its address").to_string();
    let proxy = Proxy::unready(&addresses, &[]);
    proxy.expect_warnings();
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    assert_eq!(raw.ask(&words("DEL lock")).await, Reply::Int(1));
    assert_eq!(proxy.terminate().code(), Some(0));
}

/// Starts and stops a proxy, so that these masters have been used before.
fn founded(masters: &Masters) {
    assert_eq!(Proxy::start(masters, &[]).terminate().code(), Some(0));
}

/// Waits until this many masters may vote.
async fn voters(raw: &mut Raw, count: usize) {
    let limit = Instant::now() + PATIENCE;
    loop {
        let info = raw.ask(&["INFO", "redlock"]).await.text();
        if info.contains(&format!("\r\nvoters:{count}\r\n")) {
            return;
        }
        assert!(Instant::now() < limit, "never {count} voters: {info}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
