//! The operator's view: metrics, probes, the status page's numbers, the log filter.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use support::http::{Answer, answer, http, http_with};
use support::{
    Master, Masters, PATIENCE, Proxy, Raw, Reply, eventually, eventually_blocking, run,
    target_is_plain_redis, words,
};

fn get(address: &str, path: &str) -> Answer {
    http(address, "GET", path, "")
}

/// Returns the samples by name and labels, as printed.
fn samples(address: &str) -> BTreeMap<String, f64> {
    let answer = get(address, "/metrics");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("content-type: application/openmetrics-text"), "{}", answer.head);
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("a value");
        (sorted(name), value.parse().expect("a number"))
    };
    lines.map(sample).collect()
}

/// Returns a sample with its labels in alphabetical order, since their order means nothing.
fn sorted(sample: &str) -> String {
    let Some((name, labels)) = sample.trim_end_matches('}').split_once('{') else {
        return sample.to_owned();
    };
    let mut labels: Vec<&str> =
        labels.split_inclusive("\",").map(|label| label.trim_end_matches(',')).collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}

fn start(masters: &Masters) -> (Proxy, String) {
    let proxy = Proxy::start(masters, &["--admin", "127.0.0.1:0"]);
    let address = proxy.admin_address();
    let all = format!("{0} of {0} masters vote\n", masters.len());
    eventually_blocking("all masters vote", || (get(&address, "/ready").body == all).then_some(()));
    (proxy, address)
}

#[tokio::test]
async fn what_happens_is_counted() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (proxy, admin) = start(&masters);
    let before = samples(&admin);
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("SET lock mine NX PX 60000")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET lock yours NX PX 60000")).await, Reply::Nil);
    assert_eq!(client.ask(&["GET", "lock"]).await, Reply::bulk("mine"));
    let release = ["EVAL", support::scripts::RELEASE, "1", "lock", "mine"];
    assert_eq!(client.ask(&release).await, Reply::Int(1));
    assert!(client.ask(&["GET"]).await.is_error("ERR wrong number"));
    assert!(client.ask(&["NONSENSE"]).await.is_error("ERR unknown command"));
    // A reply needs only a quorum: the last master's ballot may arrive later.
    let after = eventually("all masters have answered", || {
        let after = samples(&admin);
        let answered = masters.iter().all(|master| {
            let labels = format!("{{master=\"{}\",ballot=\"answered\"}}", master.address());
            after[&sorted(&format!("redlock_ballots_total{labels}"))] >= 3.0
        });
        async move { answered.then_some(after) }
    })
    .await;
    let more = |sample: &str| {
        after.get(sample).unwrap_or_else(|| panic!("no {sample} in {after:#?}"))
            - before.get(sample).copied().unwrap_or_default()
    };
    for (sample, count) in [
        (r#"redlock_requests_total{command="set",outcome="ok"}"#, 2.0),
        (r#"redlock_requests_total{command="eval",outcome="ok"}"#, 1.0),
        (r#"redlock_requests_total{command="get",outcome="ok"}"#, 1.0),
        (r#"redlock_requests_total{command="unknown",outcome="error"}"#, 2.0),
        (r#"redlock_verdicts_total{operation="claim",verdict="granted"}"#, 1.0),
        (r#"redlock_verdicts_total{operation="claim",verdict="refused"}"#, 1.0),
        (r#"redlock_verdicts_total{operation="release",verdict="granted"}"#, 1.0),
        (r#"redlock_verdicts_total{operation="read",verdict="granted"}"#, 1.0),
        (r#"redlock_verdicts_total{operation="claim",verdict="undecided"}"#, 0.0),
    ] {
        assert_eq!(more(sample), count, "{sample}");
    }
    assert!(more("redlock_received_bytes_total") >= 100.0);
    assert!(more("redlock_sent_bytes_total") >= 20.0);
    for (sample, value) in
        [("redlock_masters", 3.0), ("redlock_quorum", 2.0), ("redlock_voters", 3.0)]
    {
        assert_eq!(after[sample], value, "{sample}");
    }
    for master in masters.iter() {
        let address = master.address();
        let of = |name: &str, labels: &str| {
            after[&sorted(&format!("{name}{{master=\"{address}\"{labels}}}"))]
        };
        assert_eq!(of("redlock_master_up", ""), 1.0);
        assert_eq!(of("redlock_master_state", ",state=\"voter\""), 1.0);
        assert_eq!(of("redlock_master_state", ",state=\"down\""), 0.0);
        let count = of("redlock_round_trip_seconds_count", "");
        assert!(count >= 3.0 && of("redlock_round_trip_seconds_bucket", ",le=\"+Inf\"") == count);
        assert!(of("redlock_clock_offset_seconds", "").abs() < 1.0);
        assert_eq!(of("redlock_deferred_releases", ""), 0.0);
        assert_eq!(of("redlock_registers_behind", ""), 0.0);
    }
    eventually("the worker has sampled itself", || async {
        let lags = samples(&admin)[r#"redlock_event_loop_lag_seconds_count{worker="0"}"#];
        (lags > 0.0).then_some(())
    })
    .await;
}

/// It counted from the start of the proxy.
#[tokio::test]
async fn a_master_that_has_just_gone_down_is_said_to_be_down_for_hours() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (proxy, admin) = start(&masters);
    proxy.expect_warnings();
    let since = |master: usize| {
        let status = get(&admin, "/status.json").body;
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        status["masters"][master]["since_seconds"].as_u64().expect("seconds")
    };
    eventually("some time has passed", || async { (since(1) >= 2).then_some(()) }).await;
    masters[0].kill_9();
    proxy.knows(0, "state", "down").await;
    let told: u64 = proxy.says_of(0, "since_seconds").await.parse().expect("seconds");
    let (down, up) = (since(0), since(1));
    assert!(down < up && told < up, "down for {down} s, or {told} s; the others vote for {up} s");
}

#[tokio::test]
async fn it_is_ready_while_a_quorum_votes_and_lives_anyway() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (proxy, admin) = start(&masters);
    proxy.expect_warnings();
    let ready = get(&admin, "/ready");
    assert_eq!((ready.status, &*ready.body), (200, "3 of 3 masters vote\n"));
    masters[0].kill_9();
    proxy.knows(0, "state", "down").await;
    eventually("one less is ready", || async {
        (get(&admin, "/ready").body == "2 of 3 masters vote\n").then_some(())
    })
    .await;
    masters[1].kill_9();
    eventually("two less are not", || async {
        (get(&admin, "/ready").status == 503).then_some(())
    })
    .await;
    assert!(get(&admin, "/ready").body.starts_with("1 of 3 masters vote and 2 are needed"));
    assert_eq!(get(&admin, "/live").status, 200);
    let down =
        format!("redlock_master_state{{master=\"{}\",state=\"down\"}}", masters[0].address());
    assert_eq!(samples(&admin)[&down], 1.0);
    let claim = proxy.raw().await.ask(&words("SET lock mine NX PX 60000")).await;
    assert!(claim.is_error("CLUSTERDOWN"), "{claim:?}");
    let undecided = r#"redlock_verdicts_total{operation="claim",verdict="undecided"}"#;
    assert!(samples(&admin)[undecided] >= 1.0);
}

#[tokio::test]
async fn it_is_ready_as_soon_as_it_grants() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::unready(&masters.addresses(), &["--admin", "127.0.0.1:0"]);
    let (mut client, admin) = (proxy.raw().await, proxy.admin_address());
    let granted =
        async { while client.ask(&words("SET lock mine NX PX 60000")).await != Reply::ok() {} };
    tokio::time::timeout(PATIENCE, granted).await.expect("a claim is granted");
    let ready = get(&admin, "/ready");
    assert_eq!(ready.status, 200, "{}", ready.body);
}

#[tokio::test]
async fn the_page_shows_who_is_fought_for_and_what_has_happened() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (proxy, admin) = start(&masters);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&words("SET hot<b>key</b> mine NX PX 60000")).await, Reply::ok());
    for _ in 0..20 {
        assert_eq!(client.ask(&words("SET hot<b>key</b> yours NX PX 60000")).await, Reply::Nil);
    }
    masters[2].kill_9();
    masters[2].restart_empty();
    proxy.knows(2, "state", "voter").await;
    let page = get(&admin, "/");
    assert!(page.status == 200 && page.head.contains("content-type: text/html"), "{}", page.head);
    assert!(
        !page.body.contains("http://") && !page.body.contains("https://"),
        "nothing from outside"
    );
    let status: serde_json::Value =
        serde_json::from_str(&get(&admin, "/status.json").body).expect("JSON");
    let hottest = &status["hot_keys"][0];
    assert_eq!(
        (hottest["key"].as_str(), hottest["contended"].as_u64()),
        (Some("hot<b>key</b>"), Some(20))
    );
    assert_eq!(status["masters"].as_array().map(Vec::len), Some(3));
    let address = masters[2].address();
    let events = status["events"].as_array().expect("events");
    let about = |event: &&serde_json::Value| event["master"].as_str() == Some(&*address);
    let told: Vec<_> =
        events.iter().filter(about).filter_map(|event| event["text"].as_str()).collect();
    for words in ["the master is down", "the master is on probation", "the master votes again"] {
        assert!(told.iter().any(|text| text.starts_with(words)), "{words}: {told:#?}");
    }
}

#[tokio::test]
async fn the_filter_of_the_log_can_be_changed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (proxy, admin) = start(&masters);
    assert_eq!(get(&admin, "/log-level").body, "info\n");
    let wrong = http(&admin, "PUT", "/log-level", "redlock_proxy=nonsense");
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert_eq!(http(&admin, "PUT", "/log-level", "debug").status, 200);
    assert_eq!(get(&admin, "/log-level").body, "debug\n");
    let filtered = || async {
        proxy.log().iter().any(|line| line.contains("log filter set to debug")).then_some(())
    };
    eventually("the log says so", filtered).await;
}

#[test]
fn what_is_not_there_is_not_found() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(1);
    let proxy = Proxy::unready(&masters.addresses(), &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let admin = &proxy.admin_address();
    assert_eq!(get(admin, "/nowhere").status, 404);
    assert_eq!(http(admin, "POST", "/metrics", "").status, 405);
    assert_eq!(http(admin, "DELETE", "/log-level", "").status, 405);
    assert_eq!(http(admin, "PUT", "/log-level", &"x".repeat(5_000)).status, 413);
}

#[test]
fn an_admin_port_in_use_ends_the_proxy_with_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(&["--listen", "127.0.0.1:0", "--admin", &address]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("choose another one with --admin"), "{said}");
    assert_eq!((output.status.code(), said.trim().lines().count()), (Some(69), 1), "{said}");
}

#[test]
fn a_body_that_never_comes_holds_a_connection_for_good() {
    if target_is_plain_redis() {
        return;
    }
    let proxy = Proxy::unready(&Masters::start(1).addresses(), &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let mut stream = TcpStream::connect(proxy.admin_address()).expect("a listener");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = "PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    assert_eq!(answer(stream).status, 408);
}

/// Returns the number of files that a process has open.
fn open_files(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).expect("a process").count()
}

#[tokio::test]
async fn three_thousand_operators_take_all_file_descriptors() {
    if target_is_plain_redis() {
        return;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let all = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, all).expect("more open files");
    let masters = Masters::start(3);
    let (proxy, admin) = start(&masters);
    let (before, mut client) = (open_files(proxy.id()), proxy.raw().await);
    let head = "PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n";
    let mut held = Vec::new();
    for number in 0..3000 {
        let mut stream = TcpStream::connect(&admin).expect("a listener");
        // An early connection may be closed already.
        let _ = stream.write_all(head.as_bytes());
        held.push(stream);
        if number % 100 == 99 {
            let claim = words(&format!("SET lock-{number} mine NX PX 60000"));
            assert_eq!(client.ask(&claim).await, Reply::ok());
            assert_eq!(get(&admin, "/live").status, 200, "a probe after {number}");
        }
    }
    let most = before + 100;
    let is_bounded = || (open_files(proxy.id()) < most).then_some(());
    eventually_blocking("the proxy has a few of them open", is_bounded);
    assert_eq!(proxy.raw().await.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    assert_eq!(samples(&admin)["redlock_accept_errors_total"], 0.0);
}

#[test]
fn a_page_of_a_stranger_reads_the_status_by_a_name_of_its_own() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--admin", "127.0.0.1:0", "--admin-host", "proxy.example,.svc"];
    let proxy = Proxy::start(&masters, &flags);
    let admin = proxy.admin_address();
    let is_ready = || (get(&admin, "/ready").status == 200).then_some(());
    eventually_blocking("a quorum votes", is_ready);
    let asked = |host: &str, method: &str, path: &str| {
        http_with(&admin, method, path, &format!("Host: {host}\r\n"), "info")
    };
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "svc"] {
        for path in ["/", "/status.json", "/metrics", "/log-level", "/nowhere"] {
            assert_eq!(asked(host, "GET", path).status, 421, "{host} {path}");
        }
        let put = asked(host, "PUT", "/log-level");
        assert!(put.status == 421 && put.body.contains("--admin-host"), "{}", put.body);
        // A probe may use any host name for the proxy.
        assert_eq!(asked(host, "GET", "/live").status, 200);
        assert_eq!(asked(host, "GET", "/ready").status, 200);
    }
    for host in
        ["127.0.0.1", "[::1]:9379", "10.0.0.7:9379", "LocalHost:1", "proxy.example", "a.svc"]
    {
        assert_eq!(asked(host, "GET", "/status.json").status, 200, "{host}");
        assert_eq!(asked(host, "PUT", "/log-level").status, 200, "{host}");
    }
    assert_eq!(http_with(&admin, "GET", "/metrics", "", "").status, 200, "no browser");
}

#[tokio::test]
async fn a_probe_by_another_name_is_told_the_addresses_of_masters() {
    if target_is_plain_redis() {
        return;
    }
    let replica = Master::start();
    let mut operator = Raw::connect(&replica.address()).await;
    assert_eq!(operator.ask(&words("REPLICAOF 127.0.0.1 1")).await, Reply::ok());
    let proxy = Proxy::unready(&[replica.address()], &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let admin = proxy.admin_address();
    eventually_blocking("it is told who does not vote", || {
        let known = get(&admin, "/ready");
        (known.status == 503 && known.body.contains(&replica.address())).then_some(())
    });
    let unknown = http_with(&admin, "GET", "/ready", "Host: proxy-1\r\n", "");
    assert!(unknown.status == 503 && !unknown.body.contains("127.0.0.1"), "{}", unknown.body);
}

#[test]
fn a_page_of_a_stranger_changes_the_log() {
    if target_is_plain_redis() {
        return;
    }
    let proxy = Proxy::unready(&Masters::start(1).addresses(), &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let admin = proxy.admin_address();
    let put = |field: &str| {
        let fields = format!("Host: {admin}\r\n{field}\r\n");
        http_with(&admin, "PUT", "/log-level", &fields, "debug").status
    };
    for strange in [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
        "Sec-Fetch-Site: cross-site",
    ] {
        assert_eq!(put(strange), 403, "{strange}");
        assert_eq!(get(&admin, "/log-level").body, "info\n", "{strange}");
    }
    assert_eq!(put(&format!("Origin: http://{admin}")), 200);
}

#[test]
fn an_operator_on_this_host_is_a_stranger_to_a_socket_for_both_families() {
    if target_is_plain_redis() || TcpListener::bind("[::]:0").is_err() {
        return;
    }
    let proxy = Proxy::unready(&Masters::start(1).addresses(), &["--admin", "[::]:0"]);
    proxy.expect_warnings();
    let address = proxy.admin_address();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let put = http(&format!("127.0.0.1:{port}"), "PUT", "/log-level", "debug");
    assert_eq!(put.status, 200, "{}", put.body);
}

#[test]
fn names_of_the_admin_port_are_names() {
    for wrong in ["http://proxy", "proxy:9379", "*", "a..b", "."] {
        let output = run(&["--admin-host", wrong]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("admin-host must be names without ports"), "{wrong}: {said}");
        assert_eq!(output.status.code(), Some(64), "{said}");
    }
}

/// The metrics that the dashboard, the alerts and the manual use.
#[tokio::test]
async fn every_metric_that_is_spoken_of_exists() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, data) = (Masters::start(3), Master::start());
    let url = format!("redis://{}", data.address());
    let flags = ["--admin", "127.0.0.1:0", "--data", &url, "--lock-keys", "lock:*"];
    let proxy = Proxy::start(&masters, &flags);
    let admin = proxy.admin_address();
    let names = |text: &str| -> BTreeSet<String> {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        let words = text.split(|c| !is_name(c)).filter(|word| word.starts_with("redlock_"));
        words.map(str::to_owned).collect()
    };
    let mut there: BTreeSet<String> =
        samples(&admin).keys().flat_map(|sample| names(sample)).collect();
    // These exist while a master does not vote.
    let others = ["redlock_master_reason", "redlock_copying_keys"];
    there.extend(others.map(str::to_owned));
    let manual = include_str!("../docs/observing.md");
    for (place, text) in [
        ("dashboard", include_str!("../config/grafana-dashboard.json")),
        ("alerts", include_str!("../config/prometheus-alerts.yaml")),
    ] {
        let unknown: Vec<_> =
            names(text).into_iter().filter(|name| !there.contains(name)).collect();
        assert!(unknown.is_empty(), "the {place} asks for {unknown:?}, there is {there:#?}");
    }
    let family = |name: &String| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    let families: BTreeSet<String> = there.iter().map(family).collect();
    assert_eq!(names(manual), families, "the manual tells of each, and of no other");
    for alert in include_str!("../config/prometheus-alerts.yaml").lines() {
        if let Some((_, name)) = alert.split_once("- alert: ") {
            assert!(
                manual.contains(&format!("### {name}\n")),
                "the manual does not tell of {name}"
            );
        }
    }
}

#[tokio::test]
async fn the_page_shows_how_the_data_redis_is() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, mut data) = (Masters::start(3), Master::start());
    let url = format!("redis://{}", data.address());
    let flags = ["--admin", "127.0.0.1:0", "--data", &url, "--lock-keys", "lock:*,mutex"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let admin = proxy.admin_address();
    let is = |state: &'static str| {
        let admin = admin.clone();
        move || {
            let body = get(&admin, "/status.json").body;
            let status: serde_json::Value = serde_json::from_str(&body).expect("JSON");
            (status["data"]["state"] == state).then(|| status["data"].clone())
        }
    };
    let up = eventually_blocking("it is up", is("up"));
    assert_eq!(up["address"], format!("{}/0", data.address()));
    assert_eq!((&up["lock_keys"][0], &up["lock_keys"][1]), (&"lock:*".into(), &"mutex".into()));
    assert_eq!(up["reason"], "");
    data.kill_9();
    let down = eventually_blocking("it is down", is("down"));
    assert!(down["reason"].as_str().is_some_and(|why| why.contains("connect")), "{down}");
    data.restart_empty();
    eventually_blocking("it is up again", is("up"));
}

#[tokio::test]
async fn info_and_the_page_say_the_same_of_a_data_redis_that_no_sentinel_names() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let url = "sentinel://127.0.0.1:1/shop";
    let flags = ["--admin", "127.0.0.1:0", "--data", url, "--lock-keys", "lock:*"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let admin = proxy.admin_address();
    eventually("both have seen that it is down", || async {
        let status = get(&admin, "/status.json").body;
        let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
        let (data, info) = (&status["data"], proxy.raw().await.ask(&["INFO", "redlock"]).await);
        let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        let [address, state, reason] = ["address", "state", "reason"].map(text);
        let begins = format!("\r\ndata:address={address},state={state},since_seconds=");
        let ends = format!(",reason={reason}\r\n");
        let both = info.text().contains(&begins) && info.text().contains(&ends);
        (both && address == "unknown" && state == "down").then_some(())
    })
    .await;
}
