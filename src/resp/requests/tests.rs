//! Tests from raw bytes to arguments or Redis's error texts. Texts and oddities were compared with redis-server
//! 7.0.15.

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

const OPEN: Limits =
    Limits { max_request_bytes: 1024 * 1024, authenticated: true, may_pass: false };
const STRANGER: Limits = Limits { authenticated: false, ..OPEN };

/// Arguments of each request in `bytes`, and the error that ended the connection.
type Outcome = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Reads `bytes` like a session that receives pieces of these sizes, the last one repeated.
fn feed(bytes: &[u8], sizes: &[usize], limits: Limits) -> Outcome {
    let mut decoder = Decoder::new();
    let (mut start, mut end, mut requests) = (0, 0, Vec::new());
    let mut sizes = sizes.iter().chain(sizes.last().into_iter().cycle());
    while end < bytes.len() {
        end = bytes.len().min(end + (*sizes.next().expect("endless")).max(1));
        loop {
            let buf = &bytes[start..end];
            match decoder.decode(buf, limits) {
                Err(error) => return (requests, Some(error)),
                Ok(None) => break,
                Ok(Some(read)) => {
                    assert!(0 < read && read <= buf.len(), "{read} of {}", buf.len());
                    requests.push(decoder.args(buf).iter().map(<[u8]>::to_vec).collect());
                    start += read;
                }
            }
        }
        assert!(decoder.spans.capacity() <= KEPT_SPANS.max((end - start) / 2), "bounded by bytes");
    }
    (requests, None)
}

fn feed_whole(bytes: impl AsRef<[u8]>, limits: Limits) -> Outcome {
    feed(bytes.as_ref(), &[usize::MAX / 2], limits)
}

#[track_caller]
fn assert_requests(bytes: impl AsRef<[u8]>, expected: &[&[&str]]) {
    let (requests, error) = feed_whole(&bytes, OPEN);
    let requests: Vec<Vec<_>> = requests
        .iter()
        .map(|request| request.iter().map(|word| String::from_utf8_lossy(word)).collect())
        .collect();
    assert_eq!(requests, expected);
    assert_eq!(error, None);
}

#[track_caller]
fn assert_refused(bytes: impl AsRef<[u8]>, limits: Limits, text: &str) {
    let bytes = bytes.as_ref();
    let (requests, error) = feed_whole(bytes, limits);
    assert_eq!(requests, Vec::<Vec<Vec<u8>>>::new());
    assert_eq!(error.map(|error| error.to_string()), Some(format!("Protocol error: {text}")));
    assert_eq!(feed(bytes, &[1], limits).1, error, "byte by byte");
}

#[test]
fn arrays_of_bulk_strings_are_requests() {
    assert_requests("*1\r\n$4\r\nPING\r\n", &[&["PING"]]);
    assert_requests("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &[&["GET", ""]]);
    assert_requests("*2\r\n$4\r\nECHO\r\n$4\r\n\r\n*1\r\n", &[&["ECHO", "\r\n*1"]]);
}

#[test]
fn pipelined_requests_of_both_forms_come_in_order() {
    assert_requests(
        "*1\r\n$4\r\nPING\r\nGET k\r\n*1\r\n$4\r\nQUIT\r\n",
        &[&["PING"], &["GET", "k"], &["QUIT"]],
    );
}

#[test]
fn inline_requests_end_with_lf() {
    assert_requests(
        "PING\n  set 'a b' \"\\x41\"\r\nPING\r\r\n",
        &[&["PING"], &["set", "a b", "A"], &["PING"]],
    );
    assert_requests("ECHO \"\"\n\"\"\n", &[&["ECHO", ""], &[""]]);
}

#[test]
fn requests_of_nothing_have_no_arguments() {
    assert_requests("*0\r\n*-1\r\n*-5\r\n\r\n\nPING\n", &[&[], &[], &[], &[], &[], &["PING"]]);
}

#[test]
fn the_bytes_where_a_line_break_should_be_are_not_looked_at() {
    assert_requests("*1\rx$4\r\nPING\r\n", &[&["PING"]]);
    assert_requests("*1\r\n$4\r\nPINGxyPING\n", &[&["PING"], &["PING"]]);
    // A lone LF does not end a header. As in Redis, a CR must come.
    assert_requests("*1\n$4\nPING\n", &[]);
}

/// Redis searches for the end of a line with C string functions.
#[test]
fn a_line_with_a_zero_byte_never_ends() {
    for line in ["\0\r\n", "PING\0\r\n", "*1\0\r\n$4\r\nPING\r\n", "*1\r\n$4\0\r\nPING\r\n"] {
        assert_requests(line.to_owned() + "PING\r\n", &[]);
    }
    let long = "\0\r\n".to_owned() + &"PING\r\n".repeat(LINE_MAX);
    assert_refused(long, OPEN, "too big inline request");
    assert_requests("*1\r\n$2\r\n\0\n\r\n", &[&["\0\n"]]);
}

#[test]
fn lengths_are_strict_numbers() {
    for header in ["*x", "*", "*+1", "* 1", "*01", "*-", "*-0", "*1\n$4", "*99999999999999999999"] {
        assert_refused(format!("{header}\r\n"), OPEN, "invalid multibulk length");
    }
    for header in ["$x", "$", "$+1", "$ 1", "$04", "$-1", "$-0", "$4x", "$99999999999999999999"] {
        assert_refused(format!("*1\r\n{header}\r\n"), OPEN, "invalid bulk length");
    }
}

#[test]
fn elements_are_bulk_strings_and_nothing_else() {
    assert_refused("*1\r\n*1\r\n$4\r\nPING\r\n", OPEN, "expected '$', got '*'");
    assert_refused("*1\r\n+PING\r\n", OPEN, "expected '$', got '+'");
    assert_refused("*1\r\n\x01PING\r\n", OPEN, "expected '$', got '\x01'");
    assert_refused("*1\r\n\r\n", OPEN, "expected '$', got '\r'");
    assert_refused("*1\r\n".repeat(100_000), OPEN, "expected '$', got '*'");
}

#[test]
fn an_error_reply_stays_on_one_line() {
    let mut out = crate::resp::output::Output::default();
    let protocol = crate::resp::reply::Protocol::Resp2;
    ProtocolError::ExpectedBulk(b'\r').reply().encode(protocol, &mut out);
    assert_eq!(out.take(), b"-ERR Protocol error: expected '$', got ' '\r\n");
}

#[test]
fn unbalanced_quotes_are_refused() {
    assert_refused("ECHO \"a\r\n", OPEN, "unbalanced quotes in request");
    assert_refused("ECHO 'a'b\r\n", OPEN, "unbalanced quotes in request");
}

#[test]
fn a_line_ends_within_64_kib() {
    let line = "1".repeat(65_536);
    assert_requests(&line, &[]);
    assert_refused(format!("1{line}"), OPEN, "too big inline request");
    assert_refused(format!("1{line}\n"), OPEN, "too big inline request");
    assert_refused(format!("*{line}"), OPEN, "too big mbulk count string");
    assert_refused(format!("*1\r\n${line}"), OPEN, "too big bulk count string");
}

#[test]
fn a_million_arguments_are_the_limit() {
    assert_requests("*1048576\r\n", &[]);
    assert_refused("*1048577\r\n", OPEN, "invalid multibulk length");
    assert_refused("*2147483648\r\n", OPEN, "invalid multibulk length");
}

#[test]
fn headers_alone_take_no_memory() {
    let mut decoder = Decoder::new();
    assert_eq!(decoder.decode(b"*1048576\r\n$1048000\r\nabc", OPEN), Ok(None));
    assert_eq!(decoder.spans.capacity(), 0);
}

#[test]
fn strangers_get_ten_arguments_of_16_kib() {
    assert_eq!(feed_whole("*10\r\n$16384\r\n", STRANGER), (vec![], None));
    assert_refused("*11\r\n", STRANGER, "unauthenticated multibulk length");
    assert_refused("*1\r\n$16385\r\n", STRANGER, "unauthenticated bulk length");
    assert_refused("*1048577\r\n", STRANGER, "invalid multibulk length");
    assert_refused("*1\r\n$9999999999\r\n", STRANGER, "invalid bulk length");
}

#[test]
fn a_request_is_no_longer_than_allowed() {
    let limits = Limits { max_request_bytes: 30, authenticated: true, may_pass: false };
    let fits = "*2\r\n$4\r\nECHO\r\n$10\r\n0123456789\r\n";
    let exactly = Limits { max_request_bytes: fits.len(), authenticated: true, may_pass: false };
    assert_eq!(feed_whole(fits, exactly).0.len(), 1);
    assert_refused(fits, limits, "request larger than max-request-bytes");
    assert_refused("*1\r\n$31\r\n", limits, "request larger than max-request-bytes");
    assert_refused("*1\r\n$30\r\n", limits, "request larger than max-request-bytes");
    assert_refused(
        "*3\r\n$4\r\nECHO\r\n$4\r\nabcd\r\n$4\r\n",
        limits,
        "request larger than max-request-bytes",
    );
    assert_refused("a".repeat(31), limits, "request larger than max-request-bytes");
    assert_refused("a".repeat(30) + "\n", limits, "request larger than max-request-bytes");
    assert_eq!(feed_whole("a".repeat(29) + "\n", limits).0.len(), 1);
}

#[test]
fn a_large_request_leaves_no_memory_behind() {
    let mut decoder = Decoder::new();
    let array = format!("*100000\r\n{}", "$1\r\na\r\n".repeat(100_000));
    let inline = format!("{}\n", "a ".repeat(30_000));
    for bytes in [array, inline] {
        assert_eq!(decoder.decode(bytes.as_bytes(), OPEN), Ok(Some(bytes.len())));
        assert!(decoder.args(bytes.as_bytes()).len() >= 30_000);
        assert_eq!(decoder.decode(b"", OPEN), Ok(None));
        assert!(decoder.spans.capacity() <= KEPT_SPANS);
        assert_eq!(decoder.unquoted.capacity(), 0);
    }
}

#[test]
fn arguments_are_read_by_index() {
    let mut decoder = Decoder::new();
    let buf = b"SET key value\n";
    decoder.decode(buf, OPEN).expect("valid");
    let args = decoder.args(buf);
    assert_eq!((args.len(), args.at(1), args.get(2)), (3, &b"key"[..], Some(&b"value"[..])));
    assert_eq!(args.get(3), None);
    assert_eq!(args.from(2).iter().next(), Some(&b"value"[..]));
    assert!(args.from(3).is_empty() && args.from(4).is_empty());
}

proptest! {
    #[test]
    fn any_arguments_arrive_however_they_are_cut(
        requests in proptest::collection::vec(any_request(), 0..5),
        sizes in any_sizes(),
    ) {
        let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
        prop_assert_eq!(feed(&bytes, &sizes, OPEN), (requests, None));
    }

    #[test]
    fn the_verdict_does_not_depend_on_the_cuts(
        bytes in protocol_like(),
        sizes in any_sizes(),
        max_request_bytes in 0_usize..80,
        authenticated: bool,
    ) {
        let limits = Limits { max_request_bytes, authenticated, may_pass: false };
        prop_assert_eq!(feed(&bytes, &sizes, limits), feed_whole(&bytes, limits));
    }
}

fn any_request() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6)
}

fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(1_usize..30, 1..6)
}

/// Pieces of requests, in any order.
fn protocol_like() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

const PIECES: &[&[u8]] = &[
    b"*1\r\n", b"*2\r\n", b"*0\r\n", b"*-1\r\n", b"*11\r\n", b"$3\r\n", b"$0\r\n", b"$30\r\n",
    b"\r\n", b"\r", b"\n", b"GET", b"abc\r\n", b" ", b"\"", b"'", b"\\x4", b"*", b"$", b"-", b"1",
    b"\0",
];

fn encode(request: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for word in request {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Small counterpart of the fuzz target: the same guarantees on damaged requests, identical in every run.
#[test]
fn damaged_requests_harm_nobody() {
    let mut rng = Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut bytes = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let words = ["SET", "key", "a longer value \r\n", "", "PX", "\"quoted\""];
            let request: Vec<_> =
                (0..rng.usize(0..8)).map(|_| rng.choice(words).unwrap_or("").into()).collect();
            bytes.extend(encode(&request));
        }
        damage(&mut bytes, &mut rng);
        let limits = Limits {
            max_request_bytes: rng.usize(20..200),
            authenticated: rng.bool(),
            may_pass: false,
        };
        let sizes = [rng.usize(1..9), rng.usize(1..9), rng.usize(1..50)];
        assert_eq!(
            feed(&bytes, &sizes, limits),
            feed_whole(&bytes, limits),
            "{:?} in pieces of {sizes:?}, {limits:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

/// Changes, drops, repeats or inserts a few bytes.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.usize(0..4) {
        let at = rng.usize(0..bytes.len().max(1));
        let piece = rng.choice(PIECES).copied().unwrap_or_default();
        match rng.u8(0..5) {
            _ if bytes.is_empty() => return,
            0 => bytes[at] = rng.u8(..),
            1 => bytes[at] ^= 1 << rng.u8(0..8),
            2 => drop(bytes.splice(at..at, piece.iter().copied())),
            3 => bytes.truncate(at),
            _ => drop(bytes.remove(at)),
        }
    }
}
