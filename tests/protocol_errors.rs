//! Protocol violations are answered as Redis answers them, byte for byte, and the connection ends where Redis ends
//! it. A plain `redis-server` gets the same bytes for comparison.

mod support;

use support::{Master, Masters, Proxy, Raw, Reply, encode};

/// Requests after which Redis has closed the connection, by itself or because the client asked.
fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let mut requests: Vec<(&'static str, Vec<u8>)> = [
        ("a count that is no number", "*abc\r\n"),
        ("an empty count", "*\r\nQUIT\r\n"),
        ("a count with a sign", "*+1\r\n$4\r\nPING\r\nQUIT\r\n"),
        ("a count with spaces", "* 1\r\n$4\r\nPING\r\n"),
        ("a count beyond 64 bits", "*99999999999999999999\r\n"),
        ("a count beyond the limit", "*2147483648\r\n"),
        ("a count of 32 bits and one more", "*4294967296\r\n"),
        ("the count zero is no request", "*0\r\nQUIT\r\n"),
        ("a negative count is no request", "*-1\r\nQUIT\r\n"),
        ("a very negative count is no request", "*-2147483648\r\nQUIT\r\n"),
        ("an integer where a bulk string belongs", "*1\r\n:1\r\n"),
        ("an array where a bulk string belongs", "*1\r\n*1\r\n$4\r\nPING\r\n"),
        ("text where a bulk string belongs", "*2\r\n$4\r\nPING\r\nhello\r\n"),
        ("an empty line where a bulk string belongs", "*1\r\n\r\n"),
        ("a length that is no number", "*1\r\n$x\r\n"),
        ("an empty length", "*1\r\n$\r\n"),
        ("a negative length", "*1\r\n$-1\r\n"),
        ("a length beyond 512 MiB", "*1\r\n$536870913\r\n"),
        ("a length beyond 64 bits", "*1\r\n$99999999999999999999\r\n"),
        ("a length with a leading zero", "*1\r\n$04\r\nPING\r\n"),
        ("a null array inside", "*2\r\n*-1\r\n"),
        ("a mark without a number", "*1\r\n$4\r\nPING\r\n*1\r\n#\r\n"),
        ("unbalanced double quotes", "SET lock \"mine\r\n"),
        ("unbalanced single quotes", "SET lock 'mine\r\n"),
        ("text right after a closing quote", "SET lock \"mine\"NX\r\n"),
        ("an error after good requests", "PING\r\nPING\r\n*1\r\n$z\r\nPING\r\n"),
        ("nothing but empty lines", "\r\n\n\r\n\nQUIT\r\n"),
        ("lines that end in a newline only", "PING\nECHO hi\nQUIT\n"),
        ("an inline request between arrays", "*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n"),
        ("spaces around inline words", "  PING   \t \r\nQUIT\r\n"),
        ("an empty word as a command", "*1\r\n$0\r\n\r\nQUIT\r\n"),
        ("an HTTP POST", "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n"),
        ("the Host header of an HTTP GET", "Host: localhost\r\nPING\r\n"),
        ("what follows QUIT", "QUIT\r\nPING\r\n"),
        ("the end behind a listing", "DBSIZE\r\nPING\r\nQUIT\r\n"),
        ("the end behind pages and a read", "SCAN 0\r\nPING\r\nGET a\r\nPING\r\n"),
    ]
    .map(|(name, text)| (name, text.as_bytes().to_vec()))
    .into();
    // Exactly the length at which Redis gives up, so that nothing is left over that would turn the close into a
    // reset.
    requests.push(("an endless inline line", vec![b'a'; 64 * 1024 + 1]));
    requests.push(("an endless count", [b"*".as_slice(), &[b'1'; 64 * 1024]].concat()));
    requests.push(("an endless length", [b"*1\r\n$".as_slice(), &[b'1'; 64 * 1024]].concat()));
    requests.push(("bytes that are no text", b"\x80\xff\x02\x01\r\nQUIT\r\n".to_vec()));
    requests
}

#[tokio::test]
async fn malformed_requests_get_the_bytes_that_redis_sends() {
    let redis = Master::start();
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    // As Redis does, the proxy may warn about a browser that was tricked into posting commands.
    proxy.expect_warnings();
    let mut neighbour = proxy.raw().await;
    let mut failures = Vec::new();
    for (name, request) in requests() {
        failures.extend(compare(name, &request, &redis.address(), proxy.address()).await);
        assert_eq!(neighbour.ask(&["PING"]).await, Reply::Simple("PONG".into()), "after {name}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Before a password is given, the limits on requests are small as well.
#[tokio::test]
async fn strangers_get_the_bytes_that_redis_sends() {
    let redis = Masters::start(1);
    let _locked = redis_with_password(&redis).await;
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret"]);
    let mut failures = Vec::new();
    for (name, request) in strangers_requests() {
        failures.extend(compare(name, &request, &redis[0].address(), proxy.address()).await);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn redis_with_password(redis: &Masters) -> Reply {
    let mut raw = Raw::connect(&redis[0].address()).await;
    raw.ask(&["CONFIG", "SET", "requirepass", "secret"]).await
}

fn strangers_requests() -> Vec<(&'static str, Vec<u8>)> {
    [
        ("a request", "GET lock\r\nQUIT\r\n"),
        ("a claim", "SET lock mine NX PX 100\r\nQUIT\r\n"),
        ("an unknown command", "NOSUCHCOMMAND\r\nQUIT\r\n"),
        ("a wrong password", "AUTH wrong\r\nPING\r\nQUIT\r\n"),
        ("the wrong user", "AUTH nobody secret\r\nPING\r\nQUIT\r\n"),
        ("the right password", "AUTH secret\r\nPING\r\nQUIT\r\n"),
        ("the right user and password", "AUTH default secret\r\nPING\r\nQUIT\r\n"),
        ("AUTH without arguments", "AUTH\r\nQUIT\r\n"),
        ("AUTH with too many arguments", "AUTH a b c\r\nQUIT\r\n"),
        ("HELLO without a password", "HELLO 3\r\nPING\r\nQUIT\r\n"),
        ("HELLO with a wrong one", "HELLO 3 AUTH default wrong\r\nPING\r\nQUIT\r\n"),
        ("a wrong password after a right one", "AUTH secret\r\nAUTH wrong\r\nPING\r\nQUIT\r\n"),
        ("RESET gives the login up", "AUTH secret\r\nRESET\r\nPING\r\nQUIT\r\n"),
        ("ten arguments", "*10\r\n$4\r\nPING\r\n"),
        ("eleven arguments", "*11\r\n"),
        ("an argument of 16385 bytes", "*1\r\n$16385\r\n"),
    ]
    .map(|(name, text)| (name, text.as_bytes().to_vec()))
    .into()
}

/// A request over `--max-request-bytes` is refused, and the error names the setting.
#[tokio::test]
async fn the_size_of_requests_is_limited() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-request-bytes", "65536"]);
    let mut raw = proxy.raw().await;
    let fits = "x".repeat(60_000);
    assert_eq!(raw.ask(&["SET", "lock", &fits]).await, Reply::ok());
    assert_eq!(raw.ask(&["GET", "lock"]).await, Reply::bulk(&fits));
    raw.send(b"*3\r\n$3\r\nSET\r\n$4\r\nlock\r\n$65537\r\n").await;
    let closing = raw.until_closed().await;
    assert_eq!(
        printable(&closing),
        "-ERR Protocol error: request larger than max-request-bytes\r\n"
    );
}

/// The client had sent more than was read, so the connection used to be reset, and the error was lost with it.
#[tokio::test]
async fn who_still_sends_what_is_too_large_is_told_why() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for _ in 0..5 {
        let mut raw = proxy.raw().await;
        let large = "x".repeat(8 << 20);
        raw.send(&support::encode(&["SET", "large", &large])).await;
        let closing = raw.until_closed().await;
        assert_eq!(
            printable(&closing),
            "-ERR Protocol error: request larger than max-request-bytes\r\n"
        );
    }
    let said = "disconnecting a client: Protocol error: request larger than max-request-bytes";
    support::eventually("it is in the log", || async {
        proxy.log().iter().any(|line| line.contains(said)).then_some(())
    })
    .await;
}

/// Clients over `--max-clients` receive an error, and the others stay.
#[tokio::test]
async fn the_number_of_clients_is_limited() {
    if support::target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-clients", "3"]);
    proxy.expect_warnings();
    let mut welcome = Vec::new();
    for _ in 0..3 {
        welcome.push(patiently_connected(&proxy).await);
    }
    let refused = Raw::connect(proxy.address()).await.until_closed().await;
    assert_eq!(printable(&refused), "-ERR max number of clients reached\r\n");
    for raw in &mut welcome {
        assert_eq!(raw.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    }
    drop(welcome);
    patiently_connected(&proxy).await;
}

/// Connects as soon as connections that have just ended no longer count.
async fn patiently_connected(proxy: &Proxy) -> Raw {
    support::eventually("a place for one more client", || async {
        let mut raw = proxy.raw().await;
        raw.send_regardless(&encode(&["PING"])).await;
        let (reply, _) = raw.frame_or_end().await?;
        (reply == Reply::Simple("PONG".into())).then_some(raw)
    })
    .await
}

/// Returns how the answers differ, if they do.
async fn compare(name: &str, request: &[u8], redis: &str, proxy: &str) -> Option<String> {
    let expected = printable(&answer(redis, request).await);
    let actual = printable(&answer(proxy, request).await);
    (actual != expected).then(|| format!("{name}:\n  redis: {expected:?}\n  proxy: {actual:?}"))
}

/// Returns everything that comes back until the other side closes. If a request stays incomplete, the test closes the
/// connection.
async fn answer(address: &str, request: &[u8]) -> Vec<u8> {
    let mut raw = Raw::connect(address).await;
    raw.send_regardless(request).await;
    raw.finish_sending().await;
    raw.until_closed().await
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
