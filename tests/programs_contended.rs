//! Many clients of several proxies write the same key at the same moment. Each learns the outcome of its request,
//! however often the others have written meanwhile.

mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{Masters, Proxy, Raw, Relay, Reply};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const CLIENTS: usize = 10;
const ROUNDS: usize = 20;
/// Requests of each client, one after the other: while one proxy waits, another writes more programs than are
/// remembered.
const COUNTS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_two_proxies_every_client_is_told_what_its_programs_did() {
    contend(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_three_proxies_every_client_is_told_what_its_programs_did() {
    contend(3).await;
}

const SCRIPT: &str = "return redis.call('INCR', KEYS[1])";
const COUNTING: [&[&str]; 2] = [&["INCR", "count"], &["EVAL", SCRIPT, "1", "count"]];

async fn contend(proxies: usize) {
    let masters = Masters::start(3);
    let proxies: Vec<_> =
        (0..proxies).map(|_| Proxy::start(&masters, &["--patience", "60s"])).collect();
    for round in 0..ROUNDS {
        let lock = format!("lock {round}");
        let replies = at_once(&proxies, &["SETNX", &lock, "token"], 1).await;
        let winners = replies.iter().filter(|reply| **reply == Reply::Int(1)).count();
        let losers = replies.iter().filter(|reply| **reply == Reply::Int(0)).count();
        assert_eq!((winners, losers), (1, CLIENTS - 1), "round {round}: {replies:?}");

        let replies = at_once(&proxies, COUNTING[round % COUNTING.len()], COUNTS).await;
        let first = i64::try_from(round * CLIENTS * COUNTS).expect("few") + 1;
        assert_counted(round, first, &replies);
    }
}

/// An undeclared key used to have no queue: of 50 clients of one proxy, half were told that the outcome is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_to_an_undeclared_key_stands_in_line_for_it() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &["--patience", "60s"])];
    let counting = "return redis.call('INCR', 'made' .. ' up')";
    let replies = at_once(&proxies, &["EVAL", counting, "0"], COUNTS).await;
    assert_counted(0, 1, &replies);
}

/// Each client has the turn for one key and comes to the other's key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_to_the_keys_of_each_other_waits_for_nobody_in_a_ring() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &["--patience", "60s"])];
    let both = "redis.call('INCR', KEYS[1]) return redis.call('INCR', ARGV[1] .. '')";
    let [one, other] =
        [["a", "b"], ["b", "a"]].map(|[first, second]| ["EVAL", both, "1", first, second]);
    let (ours, theirs) =
        tokio::join!(at_once(&proxies, &one, COUNTS), at_once(&proxies, &other, COUNTS));
    ours.iter().chain(&theirs).for_each(|reply| assert!(number(0, reply) > 0));
    let counted = at_once(&proxies, &["GET", "a"], 1).await;
    assert_eq!(counted[0], Reply::bulk(&(2 * CLIENTS * COUNTS).to_string()));
    assert_eq!(at_once(&proxies, &["GET", "b"], 1).await, counted);
}

/// The late master has not yet run a program that the others have stopped at an undeclared key. Three of four clients
/// used to be told that the outcome is unknown, although no master would ever run it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_master_keeps_nobody_from_knowing_that_a_script_stopped_at_an_undeclared_key() {
    let (_masters, _relays, proxy) = with_a_late_master("1", 1_200);
    let replies = at_once(&[proxy], &LOGGING, COUNTS).await;
    assert_counted(0, 1, &replies);
}

/// The late master names the key while the program pauses, because another worker was faster. The program used to
/// take its turns then, and to lose them with its next request after the pause: no other client was ever answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_two_workers_are_answered_that_come_to_an_undeclared_key() {
    let (_masters, _relays, proxy) = with_a_late_master("2", 20);
    let proxies = [proxy];
    at_once(&proxies, &LOGGING, 3 * COUNTS).await;
    for words in [&["INCR", "log"][..], &["RPUSH", "log:more", "entry"]] {
        assert!(number(0, &at_once(&proxies, words, 1).await[0]) > 0);
    }
}

/// One message in a hundred used to be lost. Its program had run on a single master, another worker then spread that
/// result to a quorum, and a stamp keeps only short messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_program_publishes_beside_others_is_published() {
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &["--patience", "60s"]));
    let mut subscriber = Raw::connect(proxies[0].address()).await;
    subscriber.ask(&["SUBSCRIBE", "channel"]).await;
    let publish = "redis.call('PUBLISH', 'channel', ARGV[1]) return redis.call('INCR', KEYS[1])";
    let mut clients = JoinSet::new();
    for id in 0..CLIENTS {
        let mut client = Raw::connect(proxies[id % 2].address()).await;
        clients.spawn(async move {
            let mut published = Vec::new();
            for turn in 0..100 {
                // Every other message is too long for a stamp.
                let message = format!("{id} {turn:<0$}", turn % 2 * 2000);
                let reply = client.ask(&["EVAL", publish, "1", "count", &message]).await;
                assert!(number(0, &reply) > 0);
                published.push(message);
            }
            published
        });
    }
    let mut missing: HashSet<String> = clients.join_all().await.concat().into_iter().collect();
    while !missing.is_empty() {
        let Reply::Array(message) = subscriber.reply().await else { panic!("no message") };
        assert!(missing.remove(&message[2].text()), "{message:?} came twice");
    }
}

/// The keys used to be read one after the other, so that a reader saw half of a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_are_read_as_they_are_at_one_moment() {
    let masters = Masters::start(3);
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &["--patience", "60s"]));
    let mut writer = proxies[0].raw().await;
    assert_eq!(writer.ask(&["SET", "from", "it"]).await, Reply::ok());
    assert_eq!(writer.ask(&["SET", "lock", "token", "NX", "PX", "600000"]).await, Reply::ok());
    let done = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let done = Arc::clone(&done);
        async move {
            for turn in 0.. {
                let number = turn.to_string();
                let script = "return redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[1])";
                let writes: [&[&str]; 4] = [
                    &["MSET", "one", &number, "other", &number],
                    &["EVAL", script, "2", "one", "other", &number],
                    &["RENAME", "from", "to"],
                    &["RENAME", "to", "from"],
                ];
                for write in writes {
                    let reply = writer.ask(write).await;
                    assert!(!matches!(reply, Reply::Error(_)), "{write:?}: {reply:?}");
                }
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });
    let mut readers = JoinSet::new();
    for id in 0..CLIENTS {
        let mut reader = proxies[1].raw().await;
        readers.spawn(async move {
            for _ in 0..300 {
                let Reply::Array(values) = reader.ask(MOMENTS[id % 2]).await else {
                    panic!("values")
                };
                assert_eq!(values[0], values[1], "half of what was written at once");
                assert!(values.get(2).is_none_or(|lock| *lock == Reply::bulk("token")));
                for count in ["EXISTS", "TOUCH"] {
                    assert_eq!(reader.ask(&[count, "from", "to"]).await, Reply::Int(1), "{count}");
                }
                assert_eq!(
                    reader.ask(&["EXISTS", "lock", "from", "to", "lock"]).await,
                    Reply::Int(3)
                );
            }
        });
    }
    readers.join_all().await;
    done.store(true, Ordering::Relaxed);
    writing.await.expect("no panic");
}

/// The answer of a read was overwritten before the proxy received it, and no master could repeat it. The result was
/// an error, although a read may run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_keys_that_many_write_are_read() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--patience", "60s"]);
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for id in 0..3 {
        let (mut writer, done) = (proxy.raw().await, Arc::clone(&done));
        writers.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let write = ["MSET", "a", &id.to_string(), "b", "2", "c", "3", "d", "4"];
                assert_eq!(writer.ask(&write).await, Reply::ok());
            }
        });
    }
    let mut readers = JoinSet::new();
    for read in ["MGET", "EXISTS", "MGET", "EXISTS"] {
        let mut reader = proxy.raw().await;
        readers.spawn(async move {
            for at in 0..1_000 {
                let reply = reader.ask(&[read, "a", "b", "c", "d"]).await;
                assert!(!matches!(reply, Reply::Error(_)), "{read} {at}: {reply:?}");
            }
        });
    }
    readers.join_all().await;
    done.store(true, Ordering::Relaxed);
    writers.join_all().await;
}

const MOMENTS: [&[&str]; 2] = [&["MGET", "one", "other"], &["MGET", "one", "other", "lock"]];

/// A leftover of one proxy on a single master used to stay undecided for ever, once the other key had forgotten it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_stuck_that_two_proxies_use_alone_and_with_another() {
    let masters = Masters::start(3);
    let flags = ["--patience", "10s", "--vote-timeout", "50ms"];
    let proxies = [0, 1].map(|_| Proxy::start(&masters, &flags));
    let mut clients = JoinSet::new();
    for id in 0..CLIENTS {
        let mut client = Raw::connect(proxies[id % 2].address()).await;
        let mut random = fastrand::Rng::with_seed(id as u64);
        clients.spawn(async move {
            for _ in 0..MIXED {
                let words = MIXING[random.usize(..MIXING.len())];
                if client.ask(words).await.is_error("CLUSTERDOWN") {
                    break; // Bad luck for this client, or for all from now on.
                }
            }
        });
    }
    clients.join_all().await;
    for key in ["from", "to"] {
        let length = at_once(&proxies, &["LLEN", key], 1).await;
        assert!(length.iter().all(|length| matches!(length, Reply::Int(_))), "{length:?}");
    }
}

/// Requests of each client.
const MIXED: usize = 3_000;

const MIXING: [&[&str]; 5] = [
    &["RPUSH", "from", "element"],
    &["LMOVE", "from", "to", "LEFT", "RIGHT"],
    &["RPUSH", "from", "element"],
    &["LPOP", "from"],
    &["LPOP", "to"],
];

const LOGGING: [&str; 4] = [
    "EVAL",
    "redis.call('RPUSH', KEYS[1] .. ':more', 'entry') return redis.call('INCR', KEYS[1])",
    "1",
    "log",
];

/// Starts three masters, one of which answers this many milliseconds after the others.
fn with_a_late_master(workers: &str, late_ms: u64) -> (Masters, Vec<Relay>, Proxy) {
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--patience", "60s", "--workers", workers]);
    relays[2].delay(Duration::ZERO, Duration::from_millis(late_ms));
    (masters, relays, proxy)
}

/// Returns the answers to all clients, which repeat the same request at the same time.
async fn at_once(proxies: &[Proxy], words: &[&str], times: usize) -> Vec<Reply> {
    let start = Arc::new(Barrier::new(CLIENTS));
    let mut clients = JoinSet::new();
    for id in 0..CLIENTS {
        let mut client = Raw::connect(proxies[id % proxies.len()].address()).await;
        let start = Arc::clone(&start);
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        clients.spawn(async move {
            start.wait().await;
            let words: Vec<_> = words.iter().map(String::as_str).collect();
            let mut replies = Vec::new();
            for _ in 0..times {
                replies.push(client.ask(&words).await);
            }
            replies
        });
    }
    clients.join_all().await.concat()
}

/// Checks that all clients have counted up from `first`, each call by one.
#[track_caller]
fn assert_counted(round: usize, first: i64, replies: &[Reply]) {
    let mut numbers: Vec<_> = replies.iter().map(|reply| number(round, reply)).collect();
    numbers.sort_unstable();
    let expected: Vec<_> = (first..).take(CLIENTS * COUNTS).collect();
    assert_eq!(numbers, expected, "round {round}");
}

fn number(round: usize, reply: &Reply) -> i64 {
    match reply {
        Reply::Int(number) => *number,
        other => panic!("round {round}: {other:?}"),
    }
}
