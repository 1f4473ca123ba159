//! Random scripts, transactions and commands: the proxy over three masters answers as one plain `redis-server` does,
//! and at the end the majority of masters holds what the plain one holds.
//!
//! Rounds of programs run for [`RUN`], or for `REDLOCK_TEST_SECONDS`. A failure names the seed of its round;
//! `REDLOCK_TEST_SEED` runs that round again, and no other.
#![allow(clippy::disallowed_methods, reason = "how long to go on is told by the real clock")]

mod generated;
mod support;

use std::collections::VecDeque;
use std::env::var;
use std::fmt;
use std::time::{Duration, Instant};

use generated::commands::KEYS;
use generated::likeness::{alike, same_number};
use generated::programs::{Author, Request};
use support::side_by_side::{printable, sorted};
use support::{Master, Masters, Proxy, Raw, Reply, State, encode};

const RUN: Duration = Duration::from_secs(15);
const PROGRAMS_PER_ROUND: usize = 150;

#[tokio::test]
async fn random_programs_do_what_they_do_in_a_plain_redis() {
    let redis = Master::start();
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--allow-flush", "--vote-timeout", "3s"]);
    if let Ok(seed) = var("REDLOCK_TEST_SEED") {
        return round(seed.parse().expect("a number"), &redis, &masters, &proxy).await;
    }
    let run = var("REDLOCK_TEST_SECONDS")
        .map_or(RUN, |seconds| Duration::from_secs(seconds.parse().expect("a number of seconds")));
    let end = Instant::now() + run;
    while Instant::now() < end {
        round(fastrand::u64(..), &redis, &masters, &proxy).await;
    }
}

async fn round(seed: u64, redis: &Master, masters: &Masters, proxy: &Proxy) {
    let mut expected = connections(&redis.address()).await;
    let mut actual = connections(proxy.address()).await;
    let mut author = Author::new(seed);
    let mut history = History { seed, last: VecDeque::new() };
    for _ in 0..PROGRAMS_PER_ROUND {
        for request in author.program() {
            let [expected, actual] = [&mut expected, &mut actual];
            compare(&request, expected, actual, &mut history).await;
        }
    }
    compare_names(&mut expected[0], &mut actual[0], &history).await;
    compare_states(redis, masters, &history).await;
}

/// Opens two connections to an emptied server: one speaks RESP2, the other RESP3.
async fn connections(address: &str) -> [Raw; 2] {
    let mut first = Raw::connect(address).await;
    assert_eq!(first.ask(&["FLUSHALL"]).await, Reply::ok());
    assert_eq!(first.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    [first, Raw::connect_resp3(address).await]
}

async fn compare(
    request: &Request,
    expected: &mut [Raw; 2],
    actual: &mut [Raw; 2],
    history: &mut History,
) {
    let bytes = encode(&request.words);
    let [expected, actual] = [expected, actual].map(|both| &mut both[request.connection]);
    expected.send(&bytes).await;
    actual.send(&bytes).await;
    let (expected, actual) = (expected.frame().await, actual.frame().await);
    history.add(request);
    let same = expected.1[0] == actual.1[0] && alike(&expected.0, &actual.0, request.unordered);
    assert!(same, "{history}redis: {}\nproxy: {}", printable(&expected.1), printable(&actual.1));
}

/// Checks that the proxy names the keys that the plain server has, and no others.
async fn compare_names(expected: &mut Raw, actual: &mut Raw, history: &History) {
    let [expected, actual] =
        [sorted(&expected.ask(&["KEYS", "*"]).await), sorted(&actual.ask(&["KEYS", "*"]).await)];
    assert_eq!(actual, expected, "{history}keys that are left");
}

/// Checks that a majority of the masters holds what the plain server holds.
async fn compare_states(redis: &Master, masters: &Masters, history: &History) {
    let mut plain = Raw::connect_resp3(&redis.address()).await;
    let mut direct = Vec::new();
    for master in masters.iter() {
        direct.push(Raw::connect_resp3(&master.address()).await);
    }
    for key in KEYS {
        let expected = State::of(key, &mut plain).await;
        let mut states = Vec::new();
        for master in &mut direct {
            states.push(State::of(key, master).await);
        }
        let same = states.iter().filter(|state| is_like(&expected, state)).count();
        assert!(
            same >= masters.quorum(),
            "{history}{key} should be {expected:?} on a majority of masters, not {states:#?}"
        );
    }
}

/// Masters' TTLs are padded.
fn is_like(expected: &State, actual: &State) -> bool {
    expected.holds_the_same(actual) && same_number(expected.ttl_ms, actual.ttl_ms)
}

/// The last requests, for the report of a failure.
struct History {
    seed: u64,
    last: VecDeque<String>,
}

impl History {
    fn add(&mut self, request: &Request) {
        let Request { connection, words, script, .. } = request;
        let script = script.as_deref().unwrap_or_default();
        self.last.push_back(format!("[{connection}] {} {script}", words.join(" ")));
        if self.last.len() > REPORTED {
            self.last.pop_front();
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "REDLOCK_TEST_SEED={} runs this again. The last requests:", self.seed)?;
        self.last.iter().try_for_each(|request| writeln!(f, "{request}"))
    }
}

const REPORTED: usize = 20;

/// The test of the test: equal replies, and replies that differ.
#[test]
fn replies_that_differ_are_told() {
    let list = |numbers: [i64; 2]| Reply::Array(numbers.map(Reply::Int).to_vec());
    let hour = 3_600_000;
    for (one, another, unordered, alike_or_not) in [
        (Reply::Int(7), Reply::Int(8), false, false),
        (Reply::Int(100 * hour), Reply::Int(101 * hour), false, true),
        (Reply::Int(100 * hour), Reply::Int(103 * hour), false, false),
        (Reply::Int(100 * hour), Reply::Int(-1), false, false),
        (Reply::Int(-1), Reply::Int(-2), false, false),
        (list([1, 2]), list([2, 1]), false, false),
        (list([1, 2]), list([2, 1]), true, true),
        (list([1, 2]), list([1, 1]), true, false),
        (Reply::bulk("a"), Reply::Simple("a".into()), true, false),
    ] {
        assert_eq!(alike(&one, &another, unordered), alike_or_not, "{one:?} {another:?}");
    }
}
