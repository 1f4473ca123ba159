//! Promise 6: one reply per request, in order, per connection; malformed input hurts only its own connection.

mod support;

use std::time::Duration;

use support::{Masters, Proxy, Raw, Reply, encode};

/// Thousands of commands in one go: answered locally, by the masters, with errors, in a mix.
const PIPELINE: usize = 4000;

#[test]
fn replies_of_both_versions_are_read_whole_or_not_at_all() {
    let bytes = b"*3\r\n:1\r\n$-1\r\n%1\r\n$1\r\na\r\n=7\r\ntxt:abc\r\n+next\r\n";
    let fields = vec![(Reply::bulk("a"), Reply::Other('=', "txt:abc".to_owned()))];
    let expected = Reply::Array(vec![Reply::Int(1), Reply::Nil, Reply::Map(fields)]);
    let whole = bytes.len() - b"+next\r\n".len();
    assert_eq!(Reply::parse(bytes), Some((expected, whole)));
    for cut in 1..whole {
        assert_eq!(Reply::parse(&bytes[..cut]), None, "cut after {cut} bytes");
    }
}

#[tokio::test]
async fn a_long_pipeline_is_answered_in_order_in_resp2() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    long_pipeline(proxy.raw().await).await;
}

#[tokio::test]
async fn a_long_pipeline_is_answered_in_order_in_resp3() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    long_pipeline(Raw::connect_resp3(proxy.address()).await).await;
}

/// Replies that are known at once must not overtake those that masters still have to give, and each connection gets
/// its own.
#[tokio::test]
async fn many_pipelines_at_once_do_not_mix() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut connections = Vec::new();
    for id in 0..20 {
        let mut raw = proxy.raw().await;
        raw.send(&own_pipeline(id)).await;
        connections.push(raw);
    }
    for (id, raw) in connections.iter_mut().enumerate() {
        for turn in 0..100 {
            assert_eq!(raw.reply().await, Reply::ok(), "connection {id} turn {turn}");
            assert_eq!(raw.reply().await, Reply::bulk(&format!("echo {id} {turn}")));
            assert_eq!(raw.reply().await, Reply::bulk(&format!("token {id} {turn}")));
            assert_eq!(raw.reply().await, Reply::Int(1), "connection {id} turn {turn}");
        }
    }
}

#[tokio::test]
async fn the_version_may_change_within_a_pipeline() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let mut pipeline = Vec::new();
    for version in ["2", "3", "2"] {
        pipeline.extend(encode(&["HELLO", version]));
        pipeline.extend(encode(&["GET", "absent"]));
    }
    raw.send(&pipeline).await;
    for nil in [b"$-1\r\n".as_slice(), b"_\r\n", b"$-1\r\n"] {
        raw.reply().await;
        assert_eq!(raw.frame().await.1, nil);
    }
}

#[tokio::test]
async fn inline_commands_are_commands() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    raw.send(b"PING\r\nset lock \"a \\x41\\n\" nx px 60000\n\r\n  get   lock  \r\nGET lock").await;
    raw.send(b" extra\r\n*1\r\n$4\r\nPING\r\nDEL lock\r\n").await;
    let replies = raw.replies(6).await;
    assert_eq!(replies[..3], [Reply::Simple("PONG".into()), Reply::ok(), Reply::bulk("a A\n")]);
    assert!(replies[3].is_error("ERR wrong number of arguments for 'get' command"));
    assert_eq!(replies[4..], [Reply::Simple("PONG".into()), Reply::Int(1)]);
}

#[tokio::test]
async fn requests_may_arrive_byte_by_byte() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let mut bytes = encode(&["SET", "lock", "mine", "NX", "PX", "600000"]);
    bytes.extend(b"GET lock\r\n");
    bytes.extend(encode(&["DEL", "lock"]));
    for byte in bytes {
        raw.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    let expected = [Reply::ok(), Reply::bulk("mine"), Reply::Int(1)];
    assert_eq!(raw.replies(3).await, expected);
}

/// QUIT is the last request of a pipeline: everything before it is answered, then QUIT itself, then nothing.
#[tokio::test]
async fn quit_is_answered_last() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let mut pipeline = encode(&["SET", "lock", "mine", "NX", "PX", "600000"]).to_vec();
    pipeline.extend(encode(&["GET", "lock"]));
    pipeline.extend(encode(&["QUIT"]));
    raw.send(&pipeline).await;
    assert_eq!(raw.until_closed().await, b"+OK\r\n$4\r\nmine\r\n+OK\r\n");
}

/// The neighbours of a client with meaningless bytes or enormous requests notice nothing.
#[tokio::test]
async fn malformed_input_hurts_its_own_connection_only() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut neighbour = proxy.raw().await;
    let nested = b"*1\r\n".repeat(20_000);
    let endless_line = vec![b'a'; 200_000];
    let huge_count = b"*2147483647\r\n$3\r\n".to_vec();
    let many_empty = [b"*1048576\r\n".as_slice(), &b"$0\r\n\r\n".repeat(50_000)].concat();
    let binary: Vec<u8> =
        (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let unfinished = b"*3\r\n$3\r\nSET\r\n$4\r\nlock\r\n$100000\r\nabc".to_vec();
    for bytes in [nested, endless_line, huge_count, many_empty, binary, unfinished] {
        let mut bad = proxy.raw().await;
        bad.send_regardless(&bytes).await;
        assert_serves(&mut neighbour).await;
        drop(bad);
        assert_serves(&mut neighbour).await;
    }
    assert_serves(&mut proxy.raw().await).await;
}

/// The proxy does not wait for a client that sends and never reads: the others are served, and it can catch up later.
#[tokio::test]
async fn a_client_that_never_reads_stops_nobody() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut neighbour = proxy.raw().await;
    let mut setter = proxy.raw().await;
    let large = "x".repeat(4_000);
    assert_eq!(setter.ask(&["SET", "large", &large]).await, Reply::ok());

    let mut deaf = proxy.raw().await;
    let pipeline = encode(&["GET", "large"]).repeat(20_000);
    // 80 MB of replies do not fit into any buffers. Bytes that are not sent in a while never will be: the proxy may
    // stop reading, or close.
    let sending = deaf.send_regardless(&pipeline);
    let _ = tokio::time::timeout(Duration::from_secs(1), sending).await;
    for _ in 0..50 {
        assert_serves(&mut neighbour).await;
    }
}

/// Replies that fill the buffers delay only the requests that have already arrived. Once the replies are written, the
/// rest of the pipeline continues without another byte from the client.
#[tokio::test]
async fn a_pipeline_with_large_replies_is_answered_to_its_end() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let value = "x".repeat(16_384);
    assert_eq!(raw.ask(&["SET", "large", &value]).await, Reply::ok());
    raw.send(&encode(&["GET", "large"]).repeat(100)).await;
    for _ in 0..100 {
        assert_eq!(raw.reply().await, Reply::bulk(&value));
    }
    raw.send(&b"PING\r\n".repeat(20_000)).await;
    for _ in 0..20_000 {
        assert_eq!(raw.reply().await, Reply::Simple("PONG".to_owned()));
    }
}

/// A client that disconnects in the middle of its claims does no harm to the proxy.
#[tokio::test]
async fn clients_that_vanish_stop_nobody() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut neighbour = proxy.raw().await;
    for turn in 0..50 {
        let mut gone = proxy.raw().await;
        for key in 0..20 {
            let key = format!("lock {turn} {key}");
            gone.send(&encode(&["SET", &key, "gone", "NX", "PX", "200"])).await;
        }
        drop(gone);
        assert_serves(&mut neighbour).await;
    }
}

async fn assert_serves(raw: &mut Raw) {
    let token = format!("{}", fastrand::u64(..));
    let claim = ["SET", "neighbour", &token, "NX", "PX", "600000"];
    assert_eq!(raw.ask(&claim).await, Reply::ok());
    assert_eq!(raw.ask(&["GET", "neighbour"]).await, Reply::bulk(&token));
    assert_eq!(raw.ask(&["DEL", "neighbour"]).await, Reply::Int(1));
}

async fn long_pipeline(mut raw: Raw) {
    let pipeline: Vec<u8> = (0..PIPELINE).flat_map(step).collect();
    raw.send(&pipeline).await;
    for turn in 0..PIPELINE {
        let reply = raw.reply().await;
        assert!(is_answer_to_step(turn, &reply), "turn {turn} was answered {reply:?}");
    }
    assert_eq!(raw.ask(&["ECHO", "the end"]).await, Reply::bulk("the end"));
}

/// Each step depends on the one before it, so that any order other than the client's would show.
fn step(turn: usize) -> Vec<u8> {
    let round = turn / 8;
    let (key, token) = (format!("lock {round}"), format!("token {round}"));
    match turn % 8 {
        0 => encode(&["SET", &key, &token, "NX", "PX", "600000"]),
        1 => encode(&["ECHO", &token]),
        2 => encode(&["SET", &key, "other", "NX", "PX", "600000"]),
        3 => encode(&["NOSUCHCOMMAND", &key]),
        4 => encode(&["GET", &key]),
        5 => encode(&["SET", &key]),
        6 => encode(&["DEL", &key]),
        _ => format!("EXISTS \"{key}\"\r\n").into_bytes(),
    }
}

fn is_answer_to_step(turn: usize, reply: &Reply) -> bool {
    let token = Reply::bulk(&format!("token {}", turn / 8));
    match turn % 8 {
        0 => *reply == Reply::ok(),
        1 | 4 => *reply == token,
        2 => *reply == Reply::Nil,
        3 => reply.is_error("ERR unknown command 'NOSUCHCOMMAND'"),
        5 => reply.is_error("ERR wrong number of arguments for 'set' command"),
        6 => *reply == Reply::Int(1),
        _ => *reply == Reply::Int(0),
    }
}

fn own_pipeline(id: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for turn in 0..100 {
        let (key, token) = (format!("lock {id}"), format!("token {id} {turn}"));
        bytes.extend(encode(&["SET", &key, &token, "NX", "PX", "600000"]));
        bytes.extend(encode(&["ECHO", &format!("echo {id} {turn}")]));
        bytes.extend(encode(&["GET", &key]));
        bytes.extend(encode(&["DEL", &key]));
    }
    bytes
}
