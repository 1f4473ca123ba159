//! Promise 1 when masters are not what they seem: a replica, a part of a cluster, a master that evicts keys, one with
//! a clock of its own, or a list of masters that another proxy does not share.

mod support;

use std::process::{Command, Output};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::RELEASE;
use support::{
    Clock, Master, Masters, Proxy, Relay, Reply, eventually, int, target_is_plain_redis, value,
};

const LEASE: &str = "600000";
const SHORT_VOTE: [&str; 2] = ["--vote-timeout", "200ms"];

#[tokio::test]
async fn a_replica_does_not_vote_and_the_error_says_why() {
    barred(&["REPLICAOF", "127.0.0.1", "1"], "it is a replica", &["REPLICAOF", "NO", "ONE"]).await;
}

/// The proxy used to take observations of the replica for its marks, and logged a bad argument in a script.
#[tokio::test]
async fn a_replica_that_is_a_master_again_comes_back_without_a_word_of_scripts() {
    let Some((masters, proxy)) = three_masters() else { return };
    let port = masters[1].port.to_string();
    masters[1].ask(&["SET", "by hand", "there only"]).await;
    assert_eq!(masters[0].ask(&["REPLICAOF", "127.0.0.1", &port]).await, Reply::ok());
    proxy.knows(0, "state", "barred").await;
    let is_copied = || async { masters[0].has("by hand").await.then_some(()) };
    eventually("it has the data of the other one", is_copied).await;
    assert_eq!(masters[0].ask(&["REPLICAOF", "NO", "ONE"]).await, Reply::ok());
    proxy.knows(0, "state", "voter").await;
    let log = proxy.log();
    assert!(!log.iter().any(|line| line.contains("script")), "{log:#?}");
}

#[tokio::test]
async fn a_master_that_may_evict_locks_does_not_vote_and_the_error_says_why() {
    let set = |policy| ["CONFIG", "SET", "maxmemory-policy", policy];
    barred(&set("allkeys-lru"), "it may evict locks", &set("noeviction")).await;
}

/// Makes two of three masters unfit while the proxy runs, and fit again.
async fn barred(make: &[&str], why: &str, mend: &[&str]) {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    assert_eq!(masters[0].ask(make).await, Reply::ok());
    proxy.knows(0, "state", "barred").await;
    assert!(proxy.says_of(0, "reason").await.contains(why));
    assert_eq!(claim(&mut client, "one is unfit", "mine").await, Ok(Value::Okay));
    assert_eq!(masters[1].ask(make).await, Reply::ok());
    proxy.knows(1, "state", "barred").await;
    let error = claim(&mut client, "two are unfit", "mine").await.expect_err("there is no quorum");
    assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error}");
    assert!(error.to_string().contains(why), "{error}");
    assert!(error.to_string().contains(&masters[1].address()), "{error}");
    proxy.tells(&[why]).await;
    for master in &masters[..2] {
        assert_eq!(master.ask(mend).await, Reply::ok());
    }
    proxy.knows(0, "state", "probation").await;
}

/// Redis draws another replication ID for the first client that copies from it, such as `redis-cli --rdb`.
#[tokio::test]
async fn backups_of_all_masters_at_once_leave_every_lock_and_every_vote_alone() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    let mut before = Vec::new();
    for (place, master) in masters.iter().enumerate() {
        proxy.knows(place, "state", "voter").await;
        before.push(replication_id(master).await);
    }
    let mut replicas = Vec::new();
    for (place, master) in masters.iter().enumerate() {
        let replica = Master::start();
        let port = master.port.to_string();
        assert_eq!(replica.ask(&["REPLICAOF", "127.0.0.1", &port]).await, Reply::ok());
        eventually("the copy is there", || async { replica.has("lock").await.then_some(()) }).await;
        assert_ne!(replication_id(master).await, before[place], "this test is about another id");
        replicas.push(replica);
    }
    // Masters are checked once a second.
    for n in 0..30 {
        let key = format!("lock {n}");
        assert_eq!(
            claim(&mut client, &key, "mine").await,
            Ok(Value::Okay),
            "{:?}",
            proxy.warnings()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for place in 0..3 {
        assert_eq!(proxy.says_of(place, "state").await, "voter");
    }
    let warnings = proxy.warnings();
    assert!(!warnings.iter().any(|line| line.contains("probation")), "{warnings:?}");
}

async fn replication_id(master: &Master) -> String {
    let info = master.ask(&["INFO", "replication"]).await.text();
    let id = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
    id.expect("an id").to_owned()
}

/// A master that really followed another instance has its data, whatever it is now.
#[tokio::test]
async fn a_master_that_was_a_replica_for_a_moment_is_copied_to() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    proxy.knows(2, "state", "voter").await;
    let (to, back) = (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]);
    for words in [to, back] {
        assert_eq!(masters[2].ask(&words).await, Reply::ok());
    }
    proxy.tells(&["the master is on probation", "it was a replica of another instance"]).await;
    proxy.knows(2, "state", "voter").await;
    masters[2].holds("lock", "mine").await;
}

#[tokio::test]
async fn a_node_of_a_cluster_does_not_vote() {
    if target_is_plain_redis() {
        return;
    }
    let node = Master::start_with(&["--cluster-enabled", "yes"]);
    let masters = Masters::start(2);
    let addresses = [masters.addresses(), vec![node.address()]].concat();
    let proxy = Proxy::unready(&addresses, &SHORT_VOTE);
    proxy.expect_warnings();
    proxy.knows(2, "state", "barred").await;
    assert!(proxy.says_of(2, "reason").await.contains("it is a cluster node"));
    let mut client = proxy.connection().await;
    let error = eventually("the proxy says why it does not serve", || {
        let mut client = client.clone();
        async move {
            let error = claim(&mut client, "free", "mine").await.expect_err("nothing is founded");
            error.to_string().contains("cluster node").then_some(error)
        }
    })
    .await;
    assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error}");
    assert!(error.to_string().contains(&node.address()), "{error}");
    proxy.tells(&[&node.address()]).await;
    assert!(claim(&mut client, "free", "mine").await.is_err());
}

/// A clock that was set expires locks early, or makes masters disagree for ever.
#[tokio::test]
async fn a_master_whose_clock_is_set_does_not_vote_until_it_goes_right() {
    let Some((clock, third, proxy, _others)) = a_master_with_its_own_clock().await else { return };
    clock.set_ahead_by(3600.0);
    third.forgets("lock").await;
    proxy.knows(2, "state", "barred").await;
    let reason = proxy.says_of(2, "reason").await;
    assert!(reason.contains("its clock is more than 30 s ahead of the other masters'"), "{reason}");
    clock.set_ahead_by(0.0);
    proxy.knows(2, "state", "voter").await;
    third.holds("lock", "mine").await;
}

/// The lock is on two masters of three. While no proxy runs, the clock of one is set, and the lock expires there.
#[tokio::test]
async fn a_clock_that_is_set_while_no_proxy_runs_grants_no_lock_twice() {
    if target_is_plain_redis() {
        return;
    }
    let (clock, masters) = (Clock::new(), Masters::start(2));
    let third = Master::start_by(&clock);
    let relay = Relay::to(&masters[0]);
    let addresses = [relay.address(), masters[1].address(), third.address()];
    let proxy = Proxy::in_front_of(&addresses, &SHORT_VOTE);
    proxy.expect_warnings();
    for master in 0..3 {
        proxy.knows(master, "state", "voter").await;
    }
    relay.cut_off().await;
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    relay.heal();
    for master in [&masters[0], &masters[1], &third] {
        eventually("the clocks are noted", || async {
            master.has("redlock-proxy:clocks").await.then_some(())
        })
        .await;
    }
    assert!(proxy.terminate().success());

    clock.set_ahead_by(3600.0);
    third.forgets("lock").await;
    let proxy = Proxy::unready(&addresses, &SHORT_VOTE);
    proxy.expect_warnings();
    let client = proxy.connection().await;
    eventually("the lock is refused", || {
        let mut client = client.clone();
        async move {
            let reply = claim(&mut client, "lock", "somebody else's").await;
            assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
            (reply == Ok(Value::Nil)).then_some(())
        }
    })
    .await;
    clock.set_ahead_by(0.0);
    proxy.knows(2, "state", "voter").await;
    third.holds("lock", "mine").await;
}

/// Nor does a master whose clock runs too fast, since it never goes right for long enough.
#[tokio::test]
async fn a_master_whose_clock_runs_fast_does_not_vote() {
    let Some((clock, _third, proxy, _others)) = a_master_with_its_own_clock().await else { return };
    clock.gain(0.2);
    proxy.knows(2, "state", "probation").await;
    let reason = proxy.says_of(2, "reason").await;
    assert!(reason.contains("its clock has gained"), "{reason}");
    clock.gain(0.0);
    proxy.knows(2, "state", "voter").await;
}

/// A client that names a moment means the clock of its Redis. The clock of the proxy's host may be wrong from the
/// start, and jump either way.
#[tokio::test]
async fn the_clock_of_the_proxys_host_may_jump() {
    if target_is_plain_redis() {
        return;
    }
    let clock = Clock::new();
    clock.set_ahead_by(3600.0);
    let masters = Masters::start(3);
    let proxy = Proxy::start_by(&clock, &masters, &[]);
    let mut client = proxy.connection().await;
    let mut raw = proxy.raw().await;
    for (number, ahead) in [3600.0, -3600.0, 0.0].into_iter().enumerate() {
        clock.set_ahead_by(ahead);
        let now = unix_seconds();
        let (key, end) = (format!("lock {number}"), now + 600);
        let lock = ["SET", &key, "mine", "NX", "EXAT", &end.to_string()];
        assert_eq!(value(&mut client, &lock).await, Ok(Value::Okay));
        let around = |moment: i64, seconds: i64| (seconds - 100..=seconds + 100).contains(&moment);
        assert!(around(int(&mut client, &["TTL", &key]).await, 600));
        assert!(around(int(&mut client, &["EXPIRETIME", &key]).await, end));
        assert_eq!(int(&mut client, &["EXPIREAT", &key, &(now + 900).to_string()]).await, 1);
        assert!(around(int(&mut client, &["TTL", &key]).await, 900));
        let script = "return tonumber(redis.call('TIME')[1])";
        assert!(around(int(&mut client, &["EVAL", script, "0"]).await, now));
        let Reply::Array(time) = raw.ask(&["TIME"]).await else { panic!("TIME is an array") };
        assert!(around(time[0].text().parse().expect("seconds"), now));
        let age = raw.ask(&["CLIENT", "INFO"]).await.text();
        let (_, age) = age.split_once(" age=").expect("an age");
        assert!(!age.starts_with("36") && !age.starts_with('-'), "{age}");
    }
    for number in 0..3 {
        let release = ["EVAL", RELEASE, "1", &format!("lock {number}"), "mine"];
        assert_eq!(int(&mut client, &release).await, 1);
    }
}

fn unix_seconds() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("a time after 1970");
    i64::try_from(since.as_secs()).expect("a time before the end of the world")
}

/// Returns the third of three masters, all of which hold a lock, the proxy, and the other two.
async fn a_master_with_its_own_clock() -> Option<(Clock, Master, Proxy, Masters)> {
    if target_is_plain_redis() {
        return None;
    }
    let clock = Clock::new();
    let masters = Masters::start(2);
    let third = Master::start_by(&clock);
    let addresses = [masters.addresses(), vec![third.address()]].concat();
    let proxy = Proxy::in_front_of(&addresses, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    proxy.knows(2, "state", "voter").await;
    third.holds("lock", "mine").await;
    Some((clock, third, proxy, masters))
}

/// A newcomer with a wrong list does not serve, says why, and nobody else notices.
#[tokio::test]
async fn a_proxy_with_other_masters_does_not_serve_and_disturbs_nobody() {
    let Some((masters, proxy)) = three_masters() else { return };
    let fourth = Master::start();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    let two = vec![masters[0].address(), masters[1].address()];
    let other = [two, vec![fourth.address()]].concat();
    for addresses in [other] {
        let rival = Proxy::unready(&addresses, &SHORT_VOTE);
        rival.expect_warnings();
        let other = rival.connection().await;
        let error = eventually("the other refuses to serve", || {
            let mut client = other.clone();
            async move {
                let error = claim(&mut client, "free", "other").await.expect_err("it is no member");
                error.to_string().contains("give all proxies the same list").then_some(error)
            }
        })
        .await;
        assert_eq!(error.code(), Some("CLUSTERDOWN"), "{error}");
        assert!(error.to_string().contains(&masters[2].address()), "{error}");
        for n in 0..40 {
            let key = format!("lock {n} {}", addresses.len());
            assert_eq!(claim(&mut client, &key, "mine").await, Ok(Value::Okay));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(fourth.get("redlock-proxy:mark").await, None, "nothing was done to it");
}

/// One master in the list belongs to another cluster: the process exits with an error that names it.
#[tokio::test]
async fn a_master_of_another_cluster_ends_the_proxy_with_a_sentence_that_names_it() {
    let Some((masters, _proxy)) = three_masters() else { return };
    let others = Masters::start(2);
    let addresses = [vec![masters[1].address()], others.addresses()].concat();
    let refused = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
        .args(["--master", &addresses.join(","), "--listen", "127.0.0.1:0"])
        .output()
        .expect("the proxy's executable runs");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(69), "{told}");
    let sentence = format!("{} carries the mark of another cluster", masters[1].address());
    assert!(told.contains(&sentence), "{told}");
}

/// Members are identified by the data on the masters, whatever a list calls them, and in any order.
#[tokio::test]
async fn members_are_known_by_their_marks_and_not_by_their_addresses() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    let relays: Vec<Relay> = masters.iter().rev().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let other = Proxy::in_front_of(&addresses, &SHORT_VOTE);
    other.expect_warnings();
    let mut second = other.connection().await;
    assert_eq!(claim(&mut second, "lock", "other").await, Ok(Value::Nil));
    assert_eq!(claim(&mut second, "free", "other").await, Ok(Value::Okay));
}

/// The previous version does not know marks, and goes by the names of the proxies' connections.
#[tokio::test]
async fn a_proxy_of_the_version_before_is_waited_for_and_kept_away() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let name =
        format!("redlock-proxy-watch:{}|x,y,z|0123456789abcdef", masters.addresses().join(","));
    let mut older = masters[1].connection().await;
    assert_eq!(value(&mut older, &["CLIENT", "SETNAME", &name]).await, Ok(Value::Okay));
    let proxy = Proxy::unready(&masters.addresses(), &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let error = claim(&mut client, "lock", "mine").await.expect_err("the older one may serve");
    assert!(error.to_string().contains("previous version"), "{error}");
    assert_eq!(masters[0].get("redlock-proxy:mark").await, None);
    drop(older);
    eventually("the proxy serves", || {
        let mut client = client.clone();
        async move { claim(&mut client, "lock", "mine").await.ok() }
    })
    .await;
    eventually("the older version would see other masters than its own", || async {
        let list = masters[0].ask(&["CLIENT", "LIST"]).await.text();
        list.contains("name=redlock-proxy-watch:a-newer-version").then_some(())
    })
    .await;
}

/// The newcomer's fourth master was unreachable at first, and might have been the others' third under another name.
/// Then the fourth comes up, and knows nothing of the third's locks.
#[tokio::test]
async fn a_proxy_with_another_master_that_comes_up_later_grants_nothing_that_is_held() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, fourth) = (Masters::start(3), Master::start());
    let relay = Relay::to(&fourth);
    relay.black_hole();
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    // The lock is on two of three masters, as many locks are.
    assert_eq!(masters[0].ask(&["DEL", "lock"]).await, Reply::Int(1));
    let addresses = [masters[0].address(), masters[1].address(), relay.address()];
    let young = ["--restart-wait", "0"];
    let rival = Proxy::unready(&addresses, &[&SHORT_VOTE[..], &young].concat());
    rival.expect_warnings();
    let mut other = rival.connection().await;
    for round in 0..200 {
        if round == 20 {
            relay.heal();
            relay.reset();
        }
        let granted = claim(&mut other, "lock", "other").await;
        assert_ne!(granted, Ok(Value::Okay), "round {round}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rival.says_of(2, "link").await, "up", "the fourth has come");
}

/// No proxy with the same masters is kept from serving, whatever their order, and clients notice nothing.
#[tokio::test]
async fn two_proxies_with_the_same_masters_serve_side_by_side() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut addresses = masters.addresses();
    addresses.reverse();
    let other = Proxy::in_front_of(&addresses, &SHORT_VOTE);
    other.expect_warnings();
    for (n, proxy) in [&proxy, &other].into_iter().enumerate() {
        let mut client = proxy.connection().await;
        assert_eq!(claim(&mut client, &format!("lock {n}"), "mine").await, Ok(Value::Okay));
        assert_eq!(value(&mut client, &["PUBSUB", "CHANNELS"]).await, Ok(Value::Array(Vec::new())));
    }
}

#[tokio::test]
async fn check_tells_that_two_names_are_one_instance() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(2);
    let again = format!("localhost:{}", masters[0].port);
    let output = check(&[masters.addresses(), vec![again]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].ends_with("votes") && lines[2].ends_with("votes"), "{text}");
    let why = format!("the same instance as {}", masters[0].address());
    assert!(lines[3].ends_with(&why), "{text}");
    assert!(text.contains("2 of 3 masters could vote"), "{text}");
    assert!(text.ends_with("one instance is listed twice: name each master once.\n"), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

/// Whatever the masters of a list could do, a proxy serves only the list of their cluster.
#[tokio::test]
async fn check_says_that_no_proxy_would_serve_another_list_than_that_of_the_cluster() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    let all = masters.addresses();
    let others = Masters::start(3);
    let theirs = others.addresses();
    let lists = [&[&all[..2], &theirs[..1]].concat(), &[&all[..], &theirs[..2]].concat()];
    for list in lists {
        let text = refusal(list);
        let sentence = format!(
            "the list is not that of the cluster, which has 3 members, {}: give all proxies the same list.\n",
            all.join(",")
        );
        assert!(text.ends_with(&sentence), "{text}");
    }
    let rival = Proxy::start(&others, &SHORT_VOTE);
    rival.expect_warnings();
    let mut client = rival.connection().await;
    assert_eq!(claim(&mut client, "lock", "theirs").await, Ok(Value::Okay));
    for list in [[&all[..2], &theirs[..1]].concat(), [&all[..1], &theirs[..2]].concat()] {
        let text = refusal(&list);
        assert!(text.ends_with("masters of different clusters: correct the list.\n"), "{text}");
    }
    assert!(check(&[&all[2..], &all[..2]].concat()).status.success(), "in another order");
}

/// It ended with 0: the two other masters are a quorum, and hid the mistake.
#[tokio::test]
async fn check_fails_if_something_answers_that_never_votes() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[&SHORT_VOTE[..], &["--admin", "127.0.0.1:0"]].concat());
    proxy.expect_warnings();
    let members = masters.addresses();
    let set_policy = async |policy| {
        let set = ["CONFIG", "SET", "maxmemory-policy", policy];
        assert_eq!(masters[2].ask(&set).await, Reply::ok());
    };
    set_policy("allkeys-lru").await;
    judged_mistaken(&members, "it may evict locks");
    set_policy("noeviction").await;

    let locked = Master::start();
    let lock = ["CONFIG", "SET", "requirepass", "secret"];
    assert_eq!(locked.ask(&lock).await, Reply::ok());
    for (third, why) in [
        (proxy.admin_address(), "it does not speak Redis's protocol"),
        (format!("rediss://{}", proxy.admin_address()), "received corrupt message"),
        (locked.address(), "NOAUTH"),
        (format!("redis://:guess@{}", locked.address()), "WRONGPASS"),
    ] {
        judged_mistaken(&[members[0].clone(), members[1].clone(), third], why);
    }
    let text = refusal(&[members[0].clone(), members[1].clone(), proxy.address().to_owned()]);
    assert!(text.contains("it is a redlock-proxy"), "{text}");

    masters[2].kill_9();
    let text = judged_fit(&members);
    assert!(text.contains("cannot connect"), "one of three is down: {text}");
    masters[2].restart_empty();
    masters[2].stop();
    let text = judged_fit(&members);
    assert!(text.contains("no answer within"), "one of three is silent: {text}");
}

/// Checks a list whose last address is a mistake.
fn judged_mistaken(list: &[String], why: &str) {
    let output = check(list);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(why), "{text}");
    let named = list.last().and_then(|last| last.rsplit(['@', '/']).next()).expect("an address");
    let sentence = format!("a quorum could vote, but {named} never will as it is.\n");
    assert!(text.ends_with(&sentence), "{text}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("a proxy could serve, but not with all of these masters"), "{error}");
    assert_eq!(output.status.code(), Some(1), "{text}");
}

fn judged_fit(list: &[String]) -> String {
    let output = check(list);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

fn refusal(list: &[String]) -> String {
    let output = check(list);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    text
}

/// This is the case when a master is replaced at another address: the marks and the roster on the remaining masters
/// were deleted.
#[tokio::test]
async fn check_says_that_older_masters_and_a_younger_one_would_be_used_for_the_first_time() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(2);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let young = Master::start();
    let addresses = [masters.addresses(), vec![young.address()]].concat();
    let wait = ["--restart-wait", "3s"];
    let output = check_with(&addresses, &wait);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let proxy = Proxy::in_front_of(&addresses, &[&SHORT_VOTE[..], &wait].concat());
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(claim(&mut client, "lock", "mine").await, Ok(Value::Okay));
    assert!(
        text.contains("it was started after the others: keys are copied to it first"),
        "{text}"
    );
    let sentence = "2 of 3 masters could vote and 2 are needed: a quorum could vote; masters started later receive copies first.\n";
    assert!(text.ends_with(sentence), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

/// The cluster that has used the masters, its members, and the masters that are out.
#[tokio::test]
async fn check_tells_the_roster() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    let output = check(&masters.addresses());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("roster: cluster ") && text.contains(", version 2"), "{text}");
    let member = format!("  member {}: incarnation 1, in\n", masters[2].address());
    assert!(text.contains(&member), "{text}");
    drop(proxy);
    masters[2].kill_9();
    masters[2].restart_empty();
    let output = check(&masters.addresses());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("it was restarted: its lost state will be copied back"), "{text}");
    assert!(text.contains("2 of 3 masters could vote"), "{text}");
}

#[tokio::test]
async fn check_prints_a_verdict_for_each_master() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    assert_eq!(masters[1].ask(&["REPLICAOF", "127.0.0.1", "1"]).await, Reply::ok());
    let output = check(&masters.addresses());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    for heading in
        ["role", "version", "run id", "uptime", "persistence", "eviction", "clock", "round trip"]
    {
        assert!(lines[0].contains(heading), "{text}");
    }
    assert!(lines[1].starts_with(&masters[0].address()) && lines[1].ends_with("votes"), "{text}");
    assert!(lines[2].contains("slave") && lines[2].contains("it is a replica"), "{text}");
    assert!(lines[3].contains("noeviction") && lines[3].ends_with("votes"), "{text}");
    assert!(text.ends_with("but all masters must be reachable to found a cluster.\n"), "{text}");
    masters[2].kill_9();
    let output = check(&masters.addresses());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot connect"), "{text}");
    assert!(text.ends_with("that is not a quorum.\n"), "{text}");
}

/// The masters may be named before the subcommand and after it; flags override the environment.
fn check(addresses: &[String]) -> Output {
    check_with(addresses, &[])
}

fn check_with(addresses: &[String], flags: &[&str]) -> Output {
    let masters = addresses.join(",");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
        command.args(words).args(flags).env("REDLOCK_PROXY_MASTERS", "nowhere:1");
        command.output().expect("the proxy's executable runs")
    };
    let (before, after) =
        (run(&["--master", &masters, "check"]), run(&["check", "--master", &masters]));
    assert_eq!(before.status, after.status);
    after
}

fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &SHORT_VOTE);
    proxy.expect_warnings();
    Some((masters, proxy))
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", LEASE]).await
}
