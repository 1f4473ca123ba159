//! The status page in a real browser: a headless Chromium, used as a person would.

mod support;

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::http::http;
use support::{Master, Masters, Proxy, Reply, eventually_blocking, free_port, words};
use tempfile::TempDir;

/// A browser window, driven through the WebDriver protocol.
struct Browser {
    driver: Child,
    address: String,
    session: String,
    _profile: TempDir,
}

impl Browser {
    fn start() -> Browser {
        let (port, profile) = (free_port(), tempfile::tempdir().expect("a directory"));
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver (Debian packages chromium and chromium-driver)");
        let address = format!("127.0.0.1:{port}");
        eventually_blocking("chromedriver listens", || {
            std::net::TcpStream::connect(&address).ok().map(|_| ())
        });
        let user_data = format!("--user-data-dir={}", profile.path().display());
        let args = [
            "--headless",
            // No foreign pages are opened, and in a container there is no other user to run as.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &user_data,
        ];
        let mut browser = Browser { driver, address, session: String::new(), _profile: profile };
        let options = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let opened = browser.ask("POST", "/session", &options);
        browser.session = opened["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let answer = http(&self.address, method, path, &body);
        let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {answer}");
        answer["value"].clone()
    }

    fn in_session(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Returns the result of a line of JavaScript.
    fn run(&self, script: &str) -> Value {
        self.in_session("/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Returns the text that a person sees there.
    fn sees(&self, id: &str) -> String {
        let script = format!("return document.getElementById('{id}').innerText");
        self.run(&script).as_str().expect("text").to_owned()
    }

    fn waits_for(&self, id: &str, text: &str) {
        eventually_blocking(&format!("#{id} says {text:?}"), || {
            self.sees(id).contains(text).then_some(())
        });
    }

    /// Returns errors in the console, and requests to other hosts.
    fn complaints(&self) -> Vec<Value> {
        let log = self.in_session("/se/log", &json!({"type": "browser"}));
        log.as_array().cloned().unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = http(&self.address, "DELETE", &format!("/session/{}", self.session), "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a browser: run by make test-browser"]
async fn an_operator_sees_what_happens_without_reloading() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    let url = format!("http://{}/", proxy.admin_address());
    let browser = Browser::start();
    browser.in_session("/url", &json!({"url": url}));
    browser.waits_for("verdict", "3 of 3 masters vote, 2 are needed");
    assert_eq!(browser.sees("masters").matches("votes").count(), 3);
    assert_eq!(browser.run("return document.title"), "redlock-proxy");

    let mut client = proxy.raw().await;
    let claim = words("SET <img/src=x/onerror=alert(1)> mine NX PX 60000");
    assert_eq!(client.ask(&claim).await, Reply::ok());
    assert_eq!(client.ask(&claim).await, Reply::Nil);
    browser.waits_for("keys", "<img/src=x/onerror=alert(1)>");
    masters[1].kill_9();
    browser.waits_for("masters", "✗ down");
    browser.waits_for("verdict", "⚠ 2 of 3 masters vote: one more failure stops all locks");
    assert_eq!(browser.run("return document.getElementById('verdict').className"), "wait");
    let latencies = "[...document.querySelectorAll('td[data-name=\"Answers in\"]')]";
    let of_down = format!("return {latencies}.map((cell) => cell.textContent)[1]");
    assert_eq!(browser.run(&of_down), "–");
    browser.waits_for("events", "the master is down");
    masters[1].restart_empty();
    browser.waits_for("events", "the master votes again");
    browser.waits_for("verdict", "3 of 3 masters vote");

    // While claims continue, the page shows their rate.
    let going_on = tokio::spawn(async move {
        for number in 0.. {
            let claim = words(&format!("SET key-{number} mine NX PX 60000"));
            assert_eq!(client.ask(&claim).await, Reply::ok());
        }
    });
    eventually_blocking("claims are granted", || {
        let shown = browser.sees("granted").replace(',', "");
        shown.parse::<f64>().is_ok_and(|rate| rate > 1.0).then_some(())
    });
    going_on.abort();

    // On a phone nothing is cut off.
    browser.in_session("/window/rect", &json!({"width": 500, "height": 800}));
    let script =
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.run(script), 0, "it has to be scrolled sideways");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
    drop(proxy);
    browser.waits_for("lost", "does not answer");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a browser: run by make test-browser"]
async fn an_operator_sees_how_the_data_redis_is() {
    let (masters, mut data) = (Masters::start(3), Master::start());
    let url = format!("redis://{}", data.address());
    let flags = ["--admin", "127.0.0.1:0", "--data", &url, "--lock-keys", "lock:*,<i>x</i>"];
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let browser = Browser::start();
    browser.in_session("/url", &json!({"url": format!("http://{}/", proxy.admin_address())}));
    browser.waits_for("data-redis", "✓ up");
    assert!(browser.sees("data-redis").contains("lock:*, <i>x</i>"));
    assert_eq!(browser.sees("advice"), "");
    let claim = words("SET <img/src=x/onerror=alert(1)> mine NX PX 60000");
    assert_eq!(proxy.raw().await.ask(&claim).await, Reply::ok());
    let advice = "⚠ keys like `<img/src=x/onerror=alert(*)>` are used as locks (SET NX with a TTL)";
    browser.waits_for("advice", advice);
    data.kill_9();
    browser.waits_for("data-redis", "✗ down");
    data.restart_empty();
    browser.waits_for("data-redis", "✓ up");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
