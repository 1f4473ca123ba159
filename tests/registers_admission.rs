//! Registers survive one master after the other that loses everything, while they are written.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use support::{Masters, Proxy, Raw, Relay, Reply, eventually, target_is_plain_redis};

/// Long, so that no timer hides the result.
const FLAGS: [&str; 4] = ["--vote-timeout", "200ms", "--restart-wait", "1h"];

/// Number of keys of each type that nobody writes meanwhile.
const STILL: usize = 100;

async fn ask(client: &mut Raw, line: &str) -> Reply {
    client.ask(&support::words(line)).await
}

async fn votes(proxy: &Proxy, master: usize) {
    eventually("the master votes again", || async {
        (proxy.says_of(master, "state").await == "voter").then_some(())
    })
    .await;
}

/// Makes a master lose everything, and waits until it votes again.
async fn forgets(proxy: &Proxy, masters: &mut Masters, at: usize) {
    masters[at].kill_9();
    masters[at].restart_empty();
    eventually("it is known to have forgotten", || async {
        (proxy.says_of(at, "state").await != "voter").then_some(())
    })
    .await;
    votes(proxy, at).await;
}

/// Answers to one client about its own counter and queue.
struct Told {
    counted: i64,
    pushed: Vec<i64>,
    errors: i64,
}

/// Counts, and appends each count, until the test is over.
async fn write(address: String, name: String, is_over: Arc<AtomicBool>) -> Told {
    let mut client = Raw::connect(&address).await;
    let mut told = Told { counted: 0, pushed: Vec::new(), errors: 0 };
    let (counter, queue) = (format!("counter {name}"), format!("queue {name}"));
    while !is_over.load(Ordering::Relaxed) {
        match client.ask(&["INCR", &counter]).await {
            Reply::Int(number) => {
                assert!(number > told.counted, "{number} after {}", told.counted);
                assert!(number <= told.counted + 1 + told.errors, "{number} counts twice");
                told.counted = number;
            }
            _ => told.errors += 1,
        }
        let number = told.counted;
        match client.ask(&["RPUSH", &queue, &number.to_string()]).await {
            Reply::Int(_) => told.pushed.push(number),
            _ => told.errors += 1,
        }
    }
    told
}

/// Returns `DUMP` of a key on a master.
async fn dump(masters: &Masters, at: usize, key: &str) -> Reply {
    masters[at].ask(&["DUMP", key]).await
}

async fn survive(count: usize) {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(count);
    let proxy = Proxy::start(&masters, &FLAGS);
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    for at in 0..STILL {
        ask(&mut client, &format!("HSET hash{at} number {at} text still")).await;
        ask(&mut client, &format!("ZADD scores{at} {at} one 2 two")).await;
        ask(&mut client, &format!("SET text{at} {at} PX 3600000")).await;
        ask(&mut client, &format!("SET gone{at} {at}")).await;
        ask(&mut client, &format!("DEL gone{at}")).await;
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = ["one", "two"]
        .map(|name| {
            let address = proxy.address().to_owned();
            tokio::spawn(write(address, name.to_owned(), Arc::clone(&is_over)))
        })
        .into();
    for at in [0, 1, 2] {
        forgets(&proxy, &mut masters, at).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for (writer, name) in writers.into_iter().zip(["one", "two"]) {
        let told = writer.await.expect("it writes");
        assert!(told.counted > 100, "only {} were counted", told.counted);
        let now = ask(&mut client, &format!("GET 'counter {name}'")).await.text();
        let now: i64 = now.parse().expect("a number");
        assert!(
            (told.counted..=told.counted + told.errors).contains(&now),
            "{now}: {}",
            told.counted
        );
        let queue = ask(&mut client, &format!("LRANGE 'queue {name}' 0 -1")).await;
        let Reply::Array(queue) = queue else { panic!("{queue:?}") };
        let queue: Vec<i64> = queue.iter().map(|it| it.text().parse().expect("a number")).collect();
        let mut rest = queue.iter();
        assert!(
            told.pushed.iter().all(|it| rest.any(|other| other == it)),
            "one is lost: {queue:?}"
        );
        assert!(queue.len() as i64 <= told.pushed.len() as i64 + told.errors, "one is there twice");
    }
    for at in 0..STILL {
        for key in [format!("hash{at}"), format!("scores{at}"), format!("text{at}")] {
            let first = dump(&masters, 0, &key).await;
            assert_ne!(first, Reply::Nil, "{key} is lost");
            for other in 1..count {
                assert_eq!(dump(&masters, other, &key).await, first, "{key}");
            }
        }
        let gone = format!("gone{at}");
        assert_eq!(dump(&masters, 0, &gone).await, Reply::Nil);
        assert_eq!(ask(&mut client, &format!("GET {gone}")).await, Reply::Nil);
    }
}

#[tokio::test]
async fn registers_survive_three_masters_that_forget_one_after_the_other() {
    survive(3).await;
}

#[tokio::test]
async fn registers_survive_five_masters_that_forget_one_after_the_other() {
    survive(5).await;
}

/// The third master has missed everything, and the second loses it. State that was answered, but is left on the first
/// master only, is restored on a quorum before the second votes.
#[tokio::test]
async fn what_one_master_has_left_is_settled_before_another_votes_again() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (relay, proxy) = Relay::between(&masters, 2, &FLAGS);
    let mut client = proxy.raw().await;
    ask(&mut client, "RPUSH queue before").await;
    relay.cut_off().await;
    for at in 0..20 {
        assert_eq!(ask(&mut client, &format!("RPUSH queue {at}")).await, Reply::Int(at + 2));
        ask(&mut client, &format!("HSET hash{at} field {at}")).await;
        ask(&mut client, "MSET left 1 right 2").await;
    }
    relay.heal();
    votes(&proxy, 2).await;
    forgets(&proxy, &mut masters, 1).await;
    masters[0].kill_9();
    let mut client = proxy.raw().await;
    eventually("the other two answer", || async {
        let queue = proxy.raw().await.ask(&["LLEN", "queue"]).await;
        (queue == Reply::Int(21)).then_some(())
    })
    .await;
    for at in 0..20 {
        let field = ask(&mut client, &format!("HGET hash{at} field")).await;
        assert_eq!(field.text(), at.to_string());
    }
    assert_eq!(ask(&mut client, "RPUSH queue after").await, Reply::Int(22));
    assert_eq!(ask(&mut client, "GET left").await.text(), "1");
    assert_eq!(ask(&mut client, "GET right").await.text(), "2");
}

/// Starts a proxy that reaches each master through its own relay.
fn beside(masters: &Masters, flags: &[&str]) -> ([Relay; 3], Proxy) {
    let relays = [0, 1, 2].map(|at| Relay::to(&masters[at]));
    let addresses = relays.each_ref().map(Relay::address);
    let proxy = Proxy::in_front_of(&addresses, flags);
    proxy.expect_warnings();
    (relays, proxy)
}

/// The second master has missed the state of a key. A program on that key and another runs on the first only and has
/// no effect, as the other key moves on. The third master was the last one to have the answered state, and forgets
/// it. A queue like this used to return an element twice.
#[tokio::test]
async fn what_a_key_holds_outlives_a_program_on_two_that_came_to_nothing_and_a_master_that_forgets()
{
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (of_one, one) = beside(&masters, &FLAGS);
    let (of_other, other) = beside(&masters, &FLAGS);
    let (of_third, third) = beside(&masters, &["--vote-timeout", "5s"]);

    let mut client = one.raw().await;
    assert_eq!(ask(&mut client, "SET key before").await, Reply::ok());
    eventually("all masters have it", || async {
        (masters.having("key").await == 3).then_some(())
    })
    .await;
    of_one[1].cut_off().await;
    assert_eq!(ask(&mut client, "SET key decided").await, Reply::ok());
    one.kill_9();

    // The second master answers after the third, and neither receives the program.
    of_third[1].delay(Duration::from_millis(100), Duration::ZERO);
    of_third[1..].iter().for_each(|relay| relay.swallow("lost"));
    let mut client = third.raw().await;
    let both = "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1])";
    client.send(&support::encode(&["EVAL", both, "2", "key", "other", "lost"])).await;
    eventually("the first has run it", || async {
        (masters[0].ask(&["GET", "other"]).await != Reply::Nil).then_some(())
    })
    .await;
    third.kill_9();

    of_other[0].cut_off().await;
    let mut client = other.raw().await;
    assert_eq!(ask(&mut client, "SET other alone").await, Reply::ok());
    masters[2].kill_9();
    of_other[0].heal();
    masters[2].restart_empty();
    for at in [0, 2] {
        votes(&other, at).await;
    }
    let mut client = other.raw().await;
    assert_eq!(ask(&mut client, "GET key").await.text(), "decided");
    assert_eq!(ask(&mut client, "GET other").await.text(), "alone");
}

/// The third master has missed the removal of the TTL, and has deleted the expired key. The second has lost its
/// memory: only the first still has the answered state.
#[tokio::test]
async fn no_claim_passes_where_only_one_master_has_what_took_an_end_away() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let (relay, proxy) = Relay::between(&masters, 2, &FLAGS);
    let mut client = proxy.raw().await;
    ask(&mut client, "SET lock mine PX 1500").await;
    eventually("all masters have it", || async {
        (masters.having("lock").await == 3).then_some(())
    })
    .await;
    relay.cut_off().await;
    assert_eq!(ask(&mut client, "PERSIST lock").await, Reply::Int(1));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // A minute later the master's own clock would do this.
    masters[2].ask(&["DEL", "lock"]).await;
    masters[1].kill_9();
    relay.heal();
    masters[1].restart_empty();
    for at in [2, 1] {
        votes(&proxy, at).await;
    }

    let mut client = proxy.raw().await;
    let claimed = ask(&mut client, "SET lock other NX PX 60000").await;
    assert_ne!(claimed, Reply::ok(), "it is held for ever");
    let (said, code) = masters.settle(&[], &["--release-locks", "lock"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(ask(&mut client, "GET lock").await.text(), "mine");
    assert_eq!(ask(&mut client, "PTTL lock").await, Reply::Int(-1));
}

/// An admission used to begin anew with every flush, so it never ended while a client flushed all the time.
#[tokio::test]
async fn a_master_votes_again_while_databases_are_flushed_all_the_time() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[&FLAGS[..], &["--allow-flush"]].concat());
    proxy.expect_warnings();
    let mut client = proxy.raw().await;
    for at in 0..2_000 {
        ask(&mut client, &format!("SET text{at} {at}")).await;
    }
    ask(&mut client, "SET lock token NX PX 3600000").await;
    let is_over = Arc::new(AtomicBool::new(false));
    // One database that is empty, and some that nearly always hold something.
    let flushers = [3, 4, 5, 6].map(|db| {
        let (address, is_over) = (proxy.address().to_owned(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut client = Raw::connect(&address).await;
            ask(&mut client, &format!("SELECT {db}")).await;
            let mut flushes = 0;
            while !is_over.load(Ordering::Relaxed) {
                flushes += u32::from(ask(&mut client, "FLUSHDB").await == Reply::ok());
                if db > 3 {
                    ask(&mut client, "INCR counter").await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            flushes
        })
    });
    forgets(&proxy, &mut masters, 1).await;
    is_over.store(true, Ordering::Relaxed);
    for flusher in flushers {
        assert!(flusher.await.expect("it flushes") > 0);
    }
    // The other database loses nothing with the next master.
    masters[0].kill_9();
    assert_eq!(ask(&mut client, "GET text1999").await.text(), "1999");
    assert_eq!(ask(&mut client, "SET lock another NX PX 3600000").await, Reply::Nil);
}
