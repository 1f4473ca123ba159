//! Members change while proxies serve: a master is replaced by another one at another address.
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::rc::Rc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::http::{Answer, http};
use support::scripts::RELEASE;
use support::{Master, Masters, Proxy, Relay, eventually, int, run, target_is_plain_redis, value};

const ADMIN: [&str; 2] = ["--admin", "127.0.0.1:0"];
const TEN_MINUTES: &str = "600000";
/// Time within which a replacement of a few keys ends, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// Locks held throughout.
const HELD: usize = 500;

/// Orders a replacement, as the command line does, and waits until the new instance votes.
async fn replace(proxy: &Proxy, old: &str, new: &str) -> Output {
    members(proxy, &["replace", old, new]).await
}

/// Gives an order, whether or not its outcome is awaited.
fn members(proxy: &Proxy, words: &[&str]) -> impl Future<Output = Output> + use<> {
    let admin = proxy.admin_address();
    let words: Vec<String> =
        ["members", "--connect", &admin].iter().chain(words).map(|it| (*it).to_owned()).collect();
    let output = tokio::task::spawn_blocking(move || {
        run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    });
    async { output.await.expect("it ran") }
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the sentence with which it failed.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).trim_start_matches("redlock-proxy: ").to_owned()
}

async fn claim(client: &mut MultiplexedConnection, key: &str, token: &str) -> Value {
    let claim = ["SET", key, token, "NX", "PX", TEN_MINUTES];
    value(client, &claim).await.expect("an answer")
}

/// Starts three masters and a proxy with an admin port, whose client holds locks.
async fn with_held_locks() -> (Masters, Proxy, MultiplexedConnection) {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &ADMIN);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    hold_locks(&mut client).await;
    (masters, proxy, client)
}

async fn five_with_held_locks() -> (Masters, [Proxy; 2], MultiplexedConnection) {
    let masters = Masters::start(5);
    let proxies = [Proxy::start(&masters, &ADMIN), Proxy::start(&masters, &ADMIN)];
    proxies.iter().for_each(|proxy| proxy.expect_warnings());
    let mut client = proxies[0].connection().await;
    hold_locks(&mut client).await;
    (masters, proxies, client)
}

fn another_proxy(masters: &Masters) -> Proxy {
    let proxy = Proxy::start(masters, &[]);
    proxy.expect_warnings();
    proxy
}

/// Starts a proxy that founds no cluster.
fn joining_proxy(list: &[String]) -> Proxy {
    let proxy = Proxy::unready(list, &[&ADMIN[..], &["--cold-start", "join"]].concat());
    proxy.expect_warnings();
    proxy
}

async fn hold_locks(client: &mut MultiplexedConnection) {
    for at in 0..HELD {
        assert_eq!(claim(client, &format!("held {at}"), "mine").await, Value::Okay);
    }
}

async fn are_still_held(client: &mut MultiplexedConnection) {
    for at in 0..HELD {
        let again = claim(client, &format!("held {at}"), "another's").await;
        assert_eq!(again, Value::Nil, "the lock {at} was given twice");
    }
}

async fn votes(proxy: &Proxy, address: &str) {
    eventually("the new instance votes", || async {
        for at in 0..3 {
            if proxy.says_of(at, "address").await == address
                && proxy.says_of(at, "state").await == "voter"
            {
                return Some(());
            }
        }
        None
    })
    .await;
}

#[tokio::test]
async fn members_are_shown_with_the_list_for_every_proxy() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &ADMIN);
    let shown = members(&proxy, &[]).await;
    assert!(shown.status.success(), "{shown:?}");
    let text = printed(&shown);
    let list = format!("list of masters for every proxy: {}\n", masters.addresses().join(","));
    assert!(text.ends_with(&list), "{text}");
    for address in masters.addresses() {
        assert!(text.contains(&format!("{address}  voter\n")), "{text}");
    }
}

/// It said only that the connection was refused, at an address that nobody had named.
#[tokio::test]
async fn members_that_find_no_proxy_say_what_a_proxy_and_the_command_need() {
    if target_is_plain_redis() {
        return;
    }
    let redis = Master::start();
    let proxy = Proxy::in_front_of(&[redis.address()], &[]);
    proxy.expect_warnings();
    let nobody = format!("127.0.0.1:{}", support::free_port());
    for address in [nobody, redis.address(), proxy.address().to_owned()] {
        for words in [&["members"][..], &["members", "remove", "a:1"]] {
            // The setting is the default of `--connect`.
            let refusal = refused(&run(&[&["--admin", &address], words].concat()));
            assert!(refusal.starts_with(&format!("{address} ")), "{refusal}");
            let advice = "start the proxy with --admin HOST:PORT, and give that address to members with --connect\n";
            assert!(refusal.ends_with(advice), "{refusal}");
            assert_eq!(refusal.lines().count(), 1, "{refusal}");
        }
    }
}

/// A socket file instead of a port, for programs of the proxy's own host.
#[tokio::test]
async fn members_are_shown_and_changed_through_a_unix_socket() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, new) = (Masters::start(3), Master::start());
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("admin.sock");
    let socket = path.to_str().expect("a path");
    let proxy = Proxy::start(&masters, &["--admin", socket]);
    proxy.expect_warnings();
    let mode = std::fs::metadata(&path).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut operator = UnixStream::connect(&path).expect("a listener");
    operator.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut answer = String::new();
    operator.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("3 of 3 masters vote\n"), "{answer}");

    let (old, by) = (masters[2].address(), new.address());
    let done = run(&["members", "--connect", socket, "replace", &old, &by]);
    assert!(printed(&done).contains(&format!("{by} votes\n")), "{done:?}");
    // The setting is the default of `--connect`.
    let shown = printed(&run(&["--admin", socket, "members"]));
    assert!(shown.contains(&by), "{shown}");
    assert_eq!(proxy.terminate().code(), Some(0));
    assert!(!path.exists());
}

/// Clients of two proxies take and release locks and count, and none of them sees an error. What was held stays held
/// when the new master is needed for a quorum.
#[tokio::test]
async fn a_running_master_is_replaced_under_load() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, mut client) = with_held_locks().await;
    let new = Master::start();
    let proxies = [proxy, another_proxy(&masters)];

    let is_over = Rc::new(Cell::new(false));
    let local = tokio::task::LocalSet::new();
    let old = masters[2].address();
    let counted = local
        .run_until(async {
            let loads = [0, 1, 2, 3].map(|id| {
                let (proxy, is_over) = (&proxies[id % 2], Rc::clone(&is_over));
                async move { load(proxy.connection().await, id, &is_over).await }
            });
            let replacing = async {
                let done = replace(&proxies[0], &old, &new.address()).await;
                votes(&proxies[1], &new.address()).await;
                is_over.set(true);
                done
            };
            let (done, counted) = tokio::join!(replacing, futures_util::future::join_all(loads));
            assert!(done.status.success(), "{done:?}");
            let text = printed(&done);
            assert!(text.contains(&format!("{} votes\n", new.address())), "{text}");
            let list = masters.addresses()[..2].join(",");
            assert!(text.ends_with(&format!("proxy: {list},{}\n", new.address())), "{text}");
            counted
        })
        .await;
    let total: i64 = counted.iter().sum();
    assert!(total > 0);
    assert_eq!(int(&mut client, &["INCRBY", "counter", "0"]).await, total);

    // The replaced master runs on, and another one is lost: the new one is needed.
    masters[0].kill_9();
    are_still_held(&mut client).await;
    let mut other = proxies[1].connection().await;
    are_still_held(&mut other).await;
    assert_eq!(int(&mut other, &["INCR", "counter"]).await, total + 1);
}

/// Takes, reads and releases locks of its own and counts, until it is over. Every answer counts: there is no second attempt.
async fn load(mut client: MultiplexedConnection, id: usize, is_over: &Cell<bool>) -> i64 {
    let mut counted = 0;
    while !is_over.get() {
        let key = format!("lock {id} {}", counted % 50);
        assert_eq!(claim(&mut client, &key, "t").await, Value::Okay, "{key} is free");
        let token = Ok(Value::BulkString(b"t".to_vec()));
        assert_eq!(value(&mut client, &["GET", &key]).await, token, "{key} is held");
        assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", &key, "t"]).await, 1, "{key}");
        int(&mut client, &["INCR", "counter"]).await;
        counted += 1;
    }
    counted
}

/// Waits until as many members vote as this proxy should know.
async fn vote_at(proxy: &Proxy, count: usize) {
    eventually("all members vote", || async {
        let shown = printed(&members(proxy, &[]).await);
        (shown.matches("  voter").count() == count).then_some(())
    })
    .await;
}

/// Carries out orders while clients of both proxies take and release locks and count. None of them sees an error.
async fn under_load(proxies: &[Proxy; 2], orders: impl AsyncFnOnce()) -> i64 {
    let is_over = Rc::new(Cell::new(false));
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let loads = [0, 1, 2, 3].map(|id| {
                let (proxy, is_over) = (&proxies[id % 2], Rc::clone(&is_over));
                async move { load(proxy.connection().await, id, &is_over).await }
            });
            let ordering = async {
                orders().await;
                is_over.set(true);
            };
            let ((), counted) = tokio::join!(ordering, futures_util::future::join_all(loads));
            counted.iter().sum()
        })
        .await
}

async fn add(proxy: &Proxy, new: &Master) {
    let done = members(proxy, &["add", &new.address()]).await;
    assert!(done.status.success(), "{done:?}");
    assert!(printed(&done).contains(&format!("{} votes\n", new.address())), "{done:?}");
}

/// Two masters are added while one of three may be lost, and then two of five may.
#[tokio::test]
async fn three_members_become_five_under_load_whether_or_not_one_is_lost() {
    if target_is_plain_redis() {
        return;
    }
    for is_lost in [false, true] {
        let (mut masters, proxy, mut client) = with_held_locks().await;
        let another = Proxy::start(&masters, &ADMIN);
        another.expect_warnings();
        let (proxies, new) = ([proxy, another], [Master::start(), Master::start()]);
        let total = under_load(&proxies, async || {
            add(&proxies[0], &new[0]).await;
            vote_at(&proxies[1], 4).await;
            if is_lost {
                masters[2].kill_9();
            }
            add(&proxies[1], &new[1]).await;
            vote_at(&proxies[0], if is_lost { 4 } else { 5 }).await;
        })
        .await;
        assert!(total > 0);
        let late = Proxy::unready(&masters.addresses(), &ADMIN);
        late.expect_warnings();
        vote_at(&late, if is_lost { 4 } else { 5 }).await;
        masters[0].kill_9();
        if !is_lost {
            masters[1].kill_9();
        }
        are_still_held(&mut client).await;
        for proxy in proxies.iter().chain([&late]) {
            let mut client = proxy.connection().await;
            are_still_held(&mut client).await;
        }
        assert_eq!(int(&mut client, &["INCRBY", "counter", "0"]).await, total);
    }
}

async fn remove(proxy: &Proxy, old: &str) {
    let done = members(proxy, &["remove", old]).await;
    assert!(done.status.success(), "{done:?}");
    let text = printed(&done);
    let (_, list) = text.split_once(" left\n\n").expect("it says so");
    assert!(!list.contains(old), "{text}");
}

/// Two members are removed, one of which is dead or works. The three that stay hold everything, and one may be lost.
#[tokio::test]
async fn five_members_become_three_under_load_whether_or_not_one_is_lost() {
    if target_is_plain_redis() {
        return;
    }
    for is_lost in [false, true] {
        let (mut masters, proxies, mut client) = five_with_held_locks().await;
        let addresses = masters.addresses();
        let total = under_load(&proxies, async || {
            remove(&proxies[0], &addresses[1]).await;
            if is_lost {
                masters[3].kill_9();
            }
            remove(&proxies[1], &addresses[3]).await;
            vote_at(&proxies[0], 3).await;
            vote_at(&proxies[1], 3).await;
        })
        .await;
        assert!(total > 0);
        let refusal = refused(&members(&proxies[0], &["remove", &addresses[0]]).await);
        assert!(refusal.contains("cannot be removed from 3 members"), "{refusal}");
        let late = Proxy::unready(&addresses, &ADMIN);
        late.expect_warnings();
        vote_at(&late, 3).await;
        masters[0].kill_9();
        for proxy in proxies.iter().chain([&late]) {
            let mut client = proxy.connection().await;
            are_still_held(&mut client).await;
        }
        assert_eq!(int(&mut client, &["INCRBY", "counter", "0"]).await, total);
    }
}

/// Two masters took it after the change, when the vote of the member that left did not go together with theirs. They were
/// told to give it up, and two of four held it.
#[tokio::test]
async fn a_lock_that_is_granted_while_a_member_leaves_stays_on_all_others() {
    const UNHURRIED: [&str; 4] = ["--vote-timeout", "10s", "--patience", "20s"];
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(5);
    let (proxy, mut list) = (Proxy::start(&masters, &ADMIN), masters.addresses());
    let relays = [0, 1].map(|at| Relay::to(&masters[at]));
    relays.iter().zip(&mut list).for_each(|(relay, address)| *address = relay.address());
    let far = Proxy::in_front_of(&list, &[&ADMIN[..], &UNHURRIED].concat());
    [&proxy, &far].iter().for_each(|proxy| proxy.expect_warnings());
    let mut client = far.connection().await;
    relays.iter().for_each(|relay| relay.hold_back("lock"));
    assert_eq!(claim(&mut client, "lock", "mine").await, Value::Okay);
    remove(&proxy, &masters[4].address()).await;
    relays.iter().for_each(Relay::heal);
    vote_at(&far, 4).await;
    assert_eq!(claim(&mut client, "behind it", "mine").await, Value::Okay);
    for master in &masters[..4] {
        eventually("later requests have arrived", || async { master.get("behind it").await }).await;
        assert!(master.get("lock").await.is_some(), "{} has given it up", master.address());
    }
}

/// A proxy that has slept decides on the members as they are, not as it saw them last.
#[tokio::test]
async fn an_order_follows_a_change_that_its_proxy_has_not_seen() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, proxies, mut client) = five_with_held_locks().await;
    let addresses = masters.addresses();
    proxies[1].stop();
    remove(&proxies[0], &addresses[1]).await;
    let order = members(&proxies[1], &["remove", &addresses[3]]);
    tokio::time::sleep(Duration::from_millis(100)).await;
    proxies[1].cont();
    let done = order.await;
    assert!(done.status.success(), "{done:?}");
    vote_at(&proxies[0], 3).await;
    are_still_held(&mut client).await;
}

/// Of five members that held a lock two have missed it, and a third goes. The fourth must not go while the lock lives:
/// the three that stay would grant it again.
#[tokio::test]
async fn a_lock_that_two_of_four_hold_keeps_the_fourth_member() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(5);
    let proxy = Proxy::start(&masters, &ADMIN);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let claim = ["SET", "lock", "mine", "NX", "PX", "8000"];
    assert_eq!(value(&mut client, &claim).await, Ok(Value::Okay));
    for master in [&masters[1], &masters[2]] {
        master.ask(&["DEL", "lock"]).await;
    }
    remove(&proxy, &masters[4].address()).await;
    remove(&proxy, &masters[3].address()).await;
    assert_eq!(masters[0].get("lock").await, None, "it has ended");
    assert_eq!(value(&mut client, &claim).await, Ok(Value::Okay));
}

#[tokio::test]
async fn one_of_five_members_is_removed_and_another_takes_its_seat() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxies, mut client) = five_with_held_locks().await;
    let new = Master::start();
    let removed = masters[4].address();
    let total = under_load(&proxies, async || {
        remove(&proxies[0], &removed).await;
        vote_at(&proxies[1], 4).await;
        add(&proxies[1], &new).await;
        vote_at(&proxies[0], 5).await;
    })
    .await;
    masters[0].kill_9();
    masters[1].kill_9();
    are_still_held(&mut client).await;
    assert_eq!(int(&mut client, &["INCRBY", "counter", "0"]).await, total);
}

/// Three of five seats vote when one of four members is down. Only the status page said so.
#[tokio::test]
async fn an_order_says_when_no_further_failure_can_be_borne() {
    const WARNING: &str = "one more failure stops all locks";
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(5);
    let (new, proxy) = (Master::start(), Proxy::start(&masters, &ADMIN));
    proxy.expect_warnings();
    let done = printed(&members(&proxy, &["remove", &masters[4].address()]).await);
    assert!(!done.contains(WARNING), "{done}");
    assert!(done.contains("\n4 of 5 masters vote, 3 are needed\n"), "{done}");
    let done = printed(&replace(&proxy, &masters[3].address(), &new.address()).await);
    let first = done.lines().next().unwrap_or_default();
    assert!(first.ends_with(&format!("copied to it; until then {WARNING}")), "{done}");
    assert!(done.contains("\n4 of 5 masters vote, 3 are needed\n"), "{done}");

    let addresses = masters.addresses();
    add(&proxy, &masters[4]).await;
    masters[0].kill_9();
    eventually("it is down", || async {
        (proxy.says_of(0, "state").await == "down").then_some(())
    })
    .await;
    let done = printed(&members(&proxy, &["remove", &addresses[4]]).await);
    let first = done.lines().next().unwrap_or_default();
    assert!(first.ends_with(&format!("needed for; {WARNING}")), "{done}");
    let sentence = format!("3 of 5 masters vote: {WARNING}");
    assert!(done.contains(&format!("\n{sentence}\n")), "{done}");
    let status = http(&proxy.admin_address(), "GET", "/status.json", "").body;
    let outlook = format!(r#""outlook":{{"kind":"wait","text":"{sentence}"}}"#);
    assert!(status.contains(&outlook), "{status}");
}

/// It still shows the mark of the member that it was, which said more than the roster: it never voted.
#[tokio::test]
async fn a_member_that_was_removed_takes_the_place_of_another() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, proxies, mut client) = five_with_held_locks().await;
    let (removed, replaced) = (masters[0].address(), masters[1].address());
    remove(&proxies[0], &removed).await;
    let done = replace(&proxies[0], &replaced, &removed).await;
    assert!(done.status.success(), "{done:?}");
    vote_at(&proxies[1], 4).await;
    are_still_held(&mut client).await;
}

/// It had no vote on the members: it was taken for the place that it had left.
#[tokio::test]
async fn a_member_that_was_removed_before_decides_on_the_members_again() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxies, mut client) = five_with_held_locks().await;
    let addresses = masters.addresses();
    remove(&proxies[0], &addresses[0]).await;
    let done = replace(&proxies[0], &addresses[1], &addresses[0]).await;
    assert!(done.status.success(), "{done:?}");
    remove(&proxies[1], &addresses[2]).await;
    masters[3].kill_9();
    let new = Master::start();
    let done = replace(&proxies[1], &addresses[3], &new.address()).await;
    assert!(done.status.success(), "{done:?}");
    are_still_held(&mut client).await;
}

/// The column `replaced` named the member itself.
#[tokio::test]
async fn a_member_that_is_back_has_not_replaced_itself() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (new, proxy) = (Master::start(), Proxy::start(&masters, &ADMIN));
    proxy.expect_warnings();
    let (old, new) = (masters[2].address(), new.address());
    let line_of = async |address: &str| {
        let shown = printed(&members(&proxy, &[]).await);
        let line = shown.lines().find(|line| line.starts_with(&format!("{address} ")));
        line.unwrap_or_else(|| panic!("{address}: {shown}")).to_owned()
    };
    for order in [["replace", &old, &new], ["replace", &new, &old]] {
        let done = members(&proxy, &order).await;
        assert!(done.status.success(), "{done:?}");
    }
    assert_eq!(line_of(&old).await, format!("{old}  voter  {new}"));
    for order in [["add", &new], ["remove", &new], ["add", &new]] {
        let done = members(&proxy, &order).await;
        assert!(done.status.success(), "{done:?}");
    }
    assert_eq!(line_of(&new).await, format!("{new}  voter"));
}

#[tokio::test]
async fn a_dead_master_is_replaced() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, mut client) = with_held_locks().await;
    masters[1].kill_9();
    let new = Master::start();
    let done = replace(&proxy, &masters[1].address(), &new.address()).await;
    assert!(done.status.success(), "{done:?}");
    masters[0].kill_9();
    are_still_held(&mut client).await;
}

/// Its list is only where it begins to look, whether or not the replaced master still runs.
#[tokio::test]
async fn a_proxy_with_the_list_of_before_finds_the_new_master() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, _) = with_held_locks().await;
    let new = Master::start();
    assert!(replace(&proxy, &masters[2].address(), &new.address()).await.status.success());
    for is_dead in [false, true] {
        if is_dead {
            masters[2].kill_9();
        }
        let late = Proxy::unready(&masters.addresses(), &[]);
        late.expect_warnings();
        votes(&late, &new.address()).await;
        are_still_held(&mut late.connection().await).await;
        if !is_dead {
            let list = masters.addresses().join(",");
            let checked = String::from_utf8_lossy(&check(&list).stdout).into_owned();
            let told = format!("it was replaced by {}: change the list\n", new.address());
            assert!(checked.contains(&told), "{checked}");
        }
    }
    let list = [masters[0].address(), masters[1].address(), new.address()];
    let corrected = Proxy::in_front_of(&list, &[]);
    are_still_held(&mut corrected.connection().await).await;
}

/// Masters that restarted empty look like new ones, so a list of one would found a second cluster with it.
#[tokio::test]
async fn a_list_with_too_few_members_founds_no_second_cluster() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, mut client) = with_held_locks().await;
    let list = [masters[0].address()];
    let careless = Proxy::unready(&list, &[]);
    careless.expect_warnings();
    careless.tells(&["names 1 of the 3 members", "--cold-start join"]).await;
    let error = value(&mut careless.connection().await, &["GET", "held 0"]).await;
    assert!(error.is_err(), "{error:?}");
    drop(careless);
    let joining = joining_proxy(&list);
    vote_at(&joining, 3).await;
    are_still_held(&mut joining.connection().await).await;
    drop(joining);
    // It comes back while the others cannot tell whose it was.
    masters[1].stop();
    masters[2].stop();
    masters[0].kill_9();
    masters[0].restart_empty();
    let joining = joining_proxy(&list);
    joining.tells(&["it founds none"]).await;
    let error = value(&mut joining.connection().await, &["SET", "held 0", "stolen"]).await;
    assert!(error.is_err(), "{error:?}");
    masters[1].cont();
    masters[2].cont();
    vote_at(&proxy, 3).await;
    vote_at(&joining, 3).await;
    are_still_held(&mut client).await;
    are_still_held(&mut joining.connection().await).await;
}

/// It logged `quorum: 1 of 1`, and warned that no lock can be taken while its only master is down.
#[tokio::test]
async fn a_proxy_that_joins_logs_the_quorum_of_the_cluster_and_none_of_its_list() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let _founder = Proxy::start(&masters, &[]);
    let joining = joining_proxy(&[masters[0].address()]);
    vote_at(&joining, 3).await;
    let log = joining.log().join("\n");
    for told in ["joins the cluster of these masters", "the roster is known", "quorum=\"2 of 3\""] {
        assert!(log.contains(told), "{told}: {log}");
    }
    for own in ["1 of 1", "with 1 master"] {
        assert!(!log.contains(own), "{own}: {log}");
    }
}

/// It had places for three masters, and took two for a quorum of five.
#[tokio::test]
async fn a_proxy_with_a_short_list_needs_as_many_votes_as_all_others() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, mut client) = with_held_locks().await;
    let other = joining_proxy(&[masters[0].address()]);
    let mut second = other.connection().await;
    vote_at(&other, 3).await;
    let page = scan(&mut second, "0").await;
    let (mut cursor, mut found) = (page.0, page.1);
    let new = [Master::start(), Master::start()];
    for master in &new {
        add(&proxy, master).await;
    }
    vote_at(&other, 5).await;
    while cursor != "0" {
        let page = scan(&mut second, &cursor).await;
        cursor = page.0;
        found.extend(page.1);
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), HELD, "a scan that began among three masters ends among five");
    masters[1].kill_9();
    masters[2].kill_9();
    are_still_held(&mut second).await;
    masters[0].kill_9();
    for client in [&mut client, &mut second] {
        let granted = value(client, &["SET", "free", "mine", "NX", "PX", TEN_MINUTES]).await;
        assert!(granted.is_err(), "two of five have granted a lock: {granted:?}");
    }
}

/// Returns the next cursor and the keys of a page.
async fn scan(client: &mut MultiplexedConnection, cursor: &str) -> (String, Vec<String>) {
    let page = value(client, &["SCAN", cursor, "COUNT", "50"]).await.expect("a page");
    redis::from_redis_value(page).expect("a cursor and keys")
}

#[tokio::test]
async fn the_data_redis_becomes_no_member() {
    if target_is_plain_redis() {
        return;
    }
    let (masters, data) = (Masters::start(3), Master::start());
    let address = data.address();
    let flags = [&ADMIN[..], &["--data", &address, "--lock-keys", "lock:*"]].concat();
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let old = masters[2].address();
    for words in [&["add", &address][..], &["replace", &old, &address]] {
        let refusal = refused(&members(&proxy, words).await);
        assert!(refusal.contains("is the data Redis"), "{refusal}");
    }
}

fn check(list: &str) -> Output {
    std::process::Command::new(env!("CARGO_BIN_EXE_redlock-proxy"))
        .args(["--masters", list, "check"])
        .output()
        .expect("the proxy's binary starts")
}

/// The proxy that was given the order dies at once. Another one, which has no admin port, finishes.
#[tokio::test]
async fn a_replacement_is_finished_by_whichever_proxy_is_left() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, _) = with_held_locks().await;
    let (new, other) = (Master::start(), another_proxy(&masters));
    let mut client = other.connection().await;
    let ordered = order(&proxy, &masters[2].address(), &new.address()).await;
    assert_eq!(ordered.status, 200, "{}", ordered.body);
    proxy.kill_9();
    votes(&other, &new.address()).await;
    masters[0].kill_9();
    are_still_held(&mut client).await;
}

async fn order(proxy: &Proxy, old: &str, new: &str) -> Answer {
    let admin = proxy.admin_address();
    let body = format!(r#"{{"replace": "{old}", "by": "{new}"}}"#);
    tokio::task::spawn_blocking(move || http(&admin, "POST", "/members", &body))
        .await
        .expect("sent")
}

/// The new master dies before anything was copied to it. Its place goes back to the old one.
#[tokio::test]
async fn a_replacement_that_fails_is_taken_back() {
    if target_is_plain_redis() {
        return;
    }
    let (mut masters, proxy, mut client) = with_held_locks().await;
    let mut new = Master::start();
    let old = masters[2].address();
    new.stop();
    let unanswered = refused(&replace(&proxy, &old, &new.address()).await);
    assert!(unanswered.contains("cannot be used"), "{unanswered}");
    new.cont();
    assert_eq!(order(&proxy, &old, &new.address()).await.status, 200);
    new.kill_9();
    let done = replace(&proxy, &new.address(), &old).await;
    assert!(done.status.success(), "{done:?}");
    masters[0].kill_9();
    are_still_held(&mut client).await;
}

#[tokio::test]
async fn what_cannot_take_a_members_place_is_refused_with_the_reason() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &ADMIN);
    proxy.expect_warnings();
    let [full, evicts, node, good] = [
        Master::start(),
        Master::start_with(&["--maxmemory-policy", "allkeys-lru"]),
        Master::start_with(&["--cluster-enabled", "yes"]),
        Master::start(),
    ];
    full.ask(&["SET", "precious", "data"]).await;
    let strangers = Masters::start(1);
    let of_strangers = Proxy::start(&strangers, &[]);
    of_strangers.expect_warnings();
    let old = masters[2].address();
    let free = support::free_port();
    for (new, why) in [
        (full.address(), "holds 1 keys, which would be deleted"),
        (evicts.address(), "it may evict locks"),
        (node.address(), "it is a cluster node"),
        (of_strangers.address().to_owned(), "it is a redlock-proxy"),
        (strangers[0].address(), "carries the mark of another cluster of masters"),
        (masters[0].address(), "is a member already"),
        (
            format!("localhost:{}", masters[0].address().rsplit_once(':').unwrap().1),
            "is the same instance as",
        ),
        (format!("127.0.0.1:{free}"), "cannot be used: cannot connect"),
        ("127.0.0.1:notaport".to_owned(), "has no valid port"),
        (proxy.admin_address(), "cannot be used"),
    ] {
        let refusal = refused(&replace(&proxy, &old, &new).await);
        assert!(refusal.contains(why) && refusal.starts_with(&*new), "{new}: {refusal}");
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
    }
    let refusal = refused(&replace(&proxy, "127.0.0.1:1", &good.address()).await);
    assert!(refusal.contains("is not a member: the members are"), "{refusal}");
    assert_eq!(full.get("precious").await.as_deref(), Some(&b"data"[..]));

    masters[0].kill_9();
    eventually("it is down", || async {
        (proxy.says_of(0, "state").await == "down").then_some(())
    })
    .await;
    let refusal = refused(&replace(&proxy, &old, &good.address()).await);
    assert!(refusal.contains("cannot be replaced now"), "{refusal}");
}

/// The roster has names in lower case. The command waited for ever for a member named as it was typed.
#[tokio::test]
async fn addresses_in_capitals_are_replaced_and_told_to_vote() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (new, newer) = (Master::start(), Master::start());
    let proxy = Proxy::start(&masters, &ADMIN);
    proxy.expect_warnings();
    let at = |host: &str, master: &Master| {
        format!("{host}:{}", master.address().rsplit_once(':').expect("a port").1)
    };
    for (old, typed, name) in [
        (masters[2].address(), at("LOCALHOST", &new), at("localhost", &new)),
        (at("LocalHost", &new), newer.address(), newer.address()),
    ] {
        let done = tokio::time::timeout(PATIENCE, replace(&proxy, &old, &typed)).await;
        let done = done.expect("the command ends");
        assert!(done.status.success(), "{done:?}");
        assert!(printed(&done).contains(&format!("{name} votes\n")), "{done:?}");
    }
}

/// The listener accepts, and says nothing.
#[tokio::test]
async fn an_order_is_answered_while_another_waits_for_a_silent_instance() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &ADMIN);
    proxy.expect_warnings();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let new = silent.local_addr().expect("bound").to_string();
    let old = masters[2].address();
    let waiting = order(&proxy, &old, &new);
    tokio::pin!(waiting);
    let _accepted = tokio::select! {
        accepted = silent.accept() => accepted.expect("the proxy connects"),
        answer = &mut waiting => panic!("nobody was asked: {}", answer.body),
    };
    let member = masters[0].address();
    let answer = tokio::select! {
        biased;
        answer = order(&proxy, &old, &member) => answer,
        answer = &mut waiting => panic!("the silent one came first: {}", answer.body),
    };
    assert!(answer.body.contains("is a member already"), "{}", answer.body);
    let answer = waiting.await;
    assert!(answer.body.contains("cannot be used"), "{}", answer.body);
}

#[tokio::test]
async fn a_change_of_members_needs_the_password_of_clients() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let new = Master::start();
    let flags = [&ADMIN[..], &["--requirepass", "secret"]].concat();
    let proxy = Proxy::start(&masters, &flags);
    proxy.expect_warnings();
    let old = masters[2].address();
    let words = |more: &[&'static str]| -> Vec<String> {
        let words = ["replace", &old, &new.address()].map(str::to_owned);
        words.into_iter().chain(more.iter().map(|it| (*it).to_owned())).collect()
    };
    for more in [&[][..], &["--password", "guess"], &["--user", "nobody", "--password", "secret"]] {
        let words = words(more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let refusal = refused(&members(&proxy, &words).await);
        assert!(refusal.contains("only a user who may do everything"), "{refusal}");
    }
    let metrics = support::http::http(&proxy.admin_address(), "GET", "/metrics", "").body;
    assert!(metrics.contains("redlock_denied_logins_total 3\n"), "{metrics}");
    let words = words(&["--password", "secret"]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = members(&proxy, &words).await;
    assert!(done.status.success(), "{done:?}");
}

/// A page that an operator has open cannot change the members.
#[tokio::test]
async fn no_page_of_another_site_changes_the_members() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &ADMIN);
    let admin = proxy.admin_address();
    let fields = format!("Host: {admin}\r\nOrigin: http://elsewhere.example\r\n");
    let body = r#"{"replace": "a:1", "by": "b:1"}"#;
    let answer = support::http::http_with(&admin, "POST", "/members", &fields, body);
    assert_eq!(answer.status, 403, "{}", answer.body);
}
