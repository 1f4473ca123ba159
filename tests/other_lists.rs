//! Proxies with different lists of masters: two of them never grant one lock, and a proxy with a wrong list disturbs
//! none with the right one.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::process::Command;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use redlock_proxy::decision::register::ballot::Ballot;
use redlock_proxy::decision::roster::roster::{Accepted, Member, Roster, Stage, Standing};
use redlock_proxy::masters::roster::acceptor::stored;
use support::{Master, Masters, Proxy, Relay, eventually, target_is_plain_redis, value};

const TEN_MINUTES: &str = "600000";
/// Enough for each proxy to check several times which others are there.
const SOME_LOOKS: Duration = Duration::from_secs(8);
/// Time for a proxy to find out what it needs to serve, if it can.
const START: Duration = Duration::from_secs(10);

/// The third name now leads to another instance. The first proxy keeps its connection to the old one, the second one
/// finds the new one, and both have written the same list. Each used to get a majority that the other did not see.
#[tokio::test]
async fn one_name_of_two_instances_makes_no_two_majorities() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let slow = Relay::to(&masters[1]);
    let names =
        [Relay::to(&masters[0]), Relay::to_address(&slow.address()), Relay::to(&masters[2])];
    let addresses = names.each_ref().map(Relay::address);
    let before = Proxy::in_front_of(&addresses, &[]);
    before.expect_warnings();
    let mut first = before.connection().await;

    let other = Master::start();
    names[1].lead_to(&masters[1].address());
    names[2].lead_to(&other.address());
    let after = Proxy::unready(&addresses, &[]);
    after.expect_warnings();
    let mut second = after.connection().await;
    counts_on(&after, &other).await;

    // The first proxy reaches the first master and the old instance, the second one the others and the new instance.
    slow.black_hole();
    let granted = [
        claim(&mut first, "lock", "mine").await == Ok(Value::Okay),
        claim(&mut second, "lock", "somebody else's").await == Ok(Value::Okay),
    ];
    assert_ne!(granted, [true, true], "the lock was granted twice");
}

/// Waits until the proxy's claims arrive at this master and its vote counts, if that ever happens.
async fn counts_on(proxy: &Proxy, master: &Master) {
    let mut client = proxy.connection().await;
    let limit = Instant::now() + START;
    while Instant::now() < limit {
        let key = format!("beacon {}", fastrand::u64(..));
        let reply = claim(&mut client, &key, "light").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        let is_voter = proxy.says_of(2, "state").await == "voter";
        if is_voter && reply == Ok(Value::Okay) && master.has(&key).await {
            return;
        }
    }
}

/// The newcomer does not serve, and all serving proxies used to stop within four seconds.
#[tokio::test]
async fn a_newcomer_with_another_list_stops_nobody() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let healthy = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let stranger = Master::start();
    let wrong = wrong_list(&masters, &stranger);
    let newcomer = Proxy::unready(&wrong, &[]);
    newcomer.expect_warnings();
    healthy.iter().for_each(Proxy::expect_warnings);
    let mut clients = [healthy[0].connection().await, healthy[1].connection().await];
    let limit = Instant::now() + SOME_LOOKS;
    let mut turn = 0;
    while Instant::now() < limit {
        turn += 1;
        for (number, client) in clients.iter_mut().enumerate() {
            let reply = claim(client, &format!("lock {turn} of {number}"), "mine").await;
            assert_eq!(reply, Ok(Value::Okay), "a healthy proxy, after {turn} claims");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A paused proxy has another list. A proxy with the right list must replace one that has exited. It used to wait for
/// minutes.
#[tokio::test]
async fn a_stopped_newcomer_with_another_list_does_not_keep_others_from_starting() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let healthy = Proxy::start(&masters, &[]);
    healthy.expect_warnings();
    let stranger = Master::start();
    let newcomer = Proxy::unready(&wrong_list(&masters, &stranger), &[]);
    newcomer.expect_warnings();
    looks_around(&newcomer).await;
    newcomer.stop();
    healthy.terminate();
    let next = Proxy::unready(&masters.addresses(), &[]);
    next.expect_warnings();
    let client = next.connection().await;
    eventually("the next proxy with the right list serves", || {
        let mut client = client.clone();
        async move { (claim(&mut client, "lock", "mine").await == Ok(Value::Okay)).then_some(()) }
    })
    .await;
}

/// Two lists were mixed up. The newer of the two rosters used to overwrite the other one, whose cluster could then
/// neither start proxies nor readmit masters.
#[tokio::test]
async fn a_list_of_two_clusters_changes_neither() {
    if target_is_plain_redis() {
        return;
    }
    let (older, newer) = (Masters::start(3), Masters::start(3));
    let first = Proxy::start(&older, &[]);
    let _second = Proxy::start(&newer, &[]);
    first.expect_warnings();
    let before = [rosters(&older).await, rosters(&newer).await];
    for (mixed, stranger) in [
        ([&newer[0], &newer[1], &older[0]], &older[0]),
        ([&older[0], &newer[0], &newer[1]], &older[0]),
        ([&older[0], &older[1], &newer[0]], &newer[0]),
    ] {
        let told = refused(&mixed.map(Master::address));
        let sentence = format!("{} carries the mark of another cluster", stranger.address());
        assert!(told.contains(&sentence), "{told}");
        assert_eq!([rosters(&older).await, rosters(&newer).await], before, "after {told}");
    }
    older[2].ask(&["FLUSHALL"]).await;
    first.knows(2, "state", "probation").await;
    let next = Proxy::start(&older, &[]);
    next.expect_warnings();
    for proxy in [&first, &next] {
        proxy.knows(2, "state", "voter").await;
    }
}

/// A master was replaced by one at another address, as documented. Notes about its clocks by proxies of the former
/// cluster used to delay service until `--restart-wait` had passed.
#[tokio::test]
async fn a_cluster_that_is_founded_anew_is_served_at_once() {
    if target_is_plain_redis() {
        return;
    }
    const FAR_AWAY: [&str; 2] = ["--restart-wait", "10m"];
    let masters = Masters::start(3);
    let former = Proxy::start(&masters, &FAR_AWAY);
    for master in masters.iter() {
        eventually("the clocks are noted", || async {
            master.has("redlock-proxy:clocks").await.then_some(())
        })
        .await;
    }
    former.terminate();
    let third = Master::start();
    for master in &masters[..2] {
        let forget = "redis.call('DEL', 'redlock-proxy:roster') for db = 0, 15 do \
                      redis.call('SELECT', db) redis.call('DEL', 'redlock-proxy:mark') end";
        master.ask(&["EVAL", forget, "0"]).await;
    }
    let list = [masters[0].address(), masters[1].address(), third.address()];
    let proxy = Proxy::unready(&list, &FAR_AWAY);
    proxy.expect_warnings();
    let client = proxy.connection().await;
    eventually("the new list is served", || {
        let mut client = client.clone();
        async move { (claim(&mut client, "lock", "mine").await == Ok(Value::Okay)).then_some(()) }
    })
    .await;
}

/// Runs a proxy that must exit with the code for a wrong list, and returns its error.
fn refused(addresses: &[String]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
        .args(["--master", &addresses.join(","), "--listen", "127.0.0.1:0"])
        .output()
        .expect("the proxy's executable runs");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(69), "{told}");
    told
}

/// Returns the roster accepted on each master.
async fn rosters(masters: &Masters) -> Vec<Option<Roster>> {
    let mut rosters = Vec::new();
    for master in masters.iter() {
        let stamp = master.get("redlock-proxy:roster").await.unwrap_or_default();
        let accepted = stored(&String::from_utf8_lossy(&stamp));
        rosters.push(accepted.map(|accepted| accepted.value));
    }
    rosters
}

/// All masters have lost their memory. While one proxy founds another cluster on them, a proxy that knows the old
/// cluster begins anew. The mark of the founding used to stay on one master: proxies that started later refused to
/// serve, and the master never voted again.
#[tokio::test]
async fn the_rest_of_a_founding_that_another_cluster_has_overtaken_hinders_nobody() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let serving = Proxy::start(&masters, &[]);
    serving.expect_warnings();
    leave_founding_on(&masters[2], &masters).await;
    serving.knows(2, "state", "probation").await;
    let newcomer = Proxy::start(&masters, &[]);
    newcomer.expect_warnings();
    for proxy in [&serving, &newcomer] {
        proxy.knows(2, "state", "voter").await;
    }
}

/// The proxy that began the founding is dead, and so is a master with its part. Other proxies used to wait for it for
/// ever.
#[tokio::test]
async fn a_founding_is_finished_without_a_master_that_was_restarted() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let mut begun = founding(&masters).await;
    begun.members[2].run_id = "of the process before".to_owned();
    serves_after(&begun, &masters).await;
    let finished = rosters(&masters).await.into_iter().flatten().next();
    assert_eq!(finished.expect("a roster").cluster, begun.cluster);
}

/// From the start, the second master must not vote, and the third was restarted. One voter is left.
#[tokio::test]
async fn a_founding_that_has_lost_its_quorum_is_given_up() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let mut begun = founding(&masters).await;
    begun.members[1].standing = Standing::Out { since: 1 };
    begun.members[2].run_id = "of the process before".to_owned();
    serves_after(&begun, &masters).await;
    let founded = rosters(&masters).await.into_iter().flatten().next();
    assert_ne!(founded.expect("a roster").cluster, begun.cluster);
}

/// A proxy serves, and all masters vote, after a founding reached two of them.
async fn serves_after(begun: &Roster, masters: &Masters) {
    for master in &masters[..2] {
        master.ask(&["SET", "redlock-proxy:roster", &stamp(begun, 1)]).await;
    }
    let proxy = Proxy::unready(&masters.addresses(), &["--restart-wait", "2s"]);
    proxy.expect_warnings();
    for master in 0..3 {
        proxy.knows(master, "state", "voter").await;
    }
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
}

/// Empties the master, then sets the roster and the marks of a cluster that never served.
async fn leave_founding_on(master: &Master, masters: &Masters) {
    let set_marks = "redis.call('FLUSHALL') for db = 0, 15 do redis.call('SELECT', db) \
                     redis.call('SET', 'redlock-proxy:mark', 'other 1 3 1 ' .. db .. ';0 0') end \
                     redis.call('SELECT', 0) redis.call('SET', 'redlock-proxy:roster', ARGV[1])";
    let stamp = stamp(&founding(masters).await, u64::from(u32::MAX) << 30);
    master.ask(&["EVAL", set_marks, "0", &stamp]).await;
}

/// Returns the roster of a cluster that is being founded.
async fn founding(masters: &Masters) -> Roster {
    let mut members = Vec::new();
    for (id, master) in (1..).zip(masters.iter()) {
        let run_id = run_id(master).await;
        members.push(Member::founder(id, run_id, vec![master.address()]));
    }
    let (cluster, stage) = ("other".to_owned(), Stage::Founding);
    Roster { cluster, version: 1, stage, members, ..Roster::default() }
}

/// Returns what a master stores after it has accepted a roster.
fn stamp(value: &Roster, counter: u64) -> String {
    let accepted = Ballot { epoch: 0, counter, worker: 1 };
    let state = Accepted { accepted, value: value.clone(), ..Accepted::default() };
    let json = serde_json::to_string(&state).expect("JSON");
    let ballot = format!("{}:{}:{}", accepted.epoch, accepted.counter, accepted.worker);
    format!("{ballot} {ballot} {json}")
}

async fn run_id(master: &Master) -> String {
    let info = master.ask(&["INFO", "server"]).await.text();
    let line = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    line.expect("each server has one").to_owned()
}

/// Returns two of the masters, and one that the others do not know.
fn wrong_list(masters: &Masters, stranger: &Master) -> Vec<String> {
    let mut addresses = masters.addresses();
    addresses[2] = stranger.address();
    addresses
}

/// The newcomer has time to meet the masters, and serves nobody.
async fn looks_around(newcomer: &Proxy) {
    let mut client = newcomer.connection().await;
    let limit = Instant::now() + Duration::from_secs(2);
    while Instant::now() < limit {
        let reply = claim(&mut client, "lock", "mine").await;
        assert!(reply.is_err(), "a proxy with another list answers {reply:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", TEN_MINUTES]).await
}
