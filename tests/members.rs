//! Members change while proxies serve: a master is replaced by another one at another address.
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::cell::Cell;
use std::process::Output;
use std::rc::Rc;
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::http::{Answer, http};
use support::scripts::RELEASE;
use support::{Master, Masters, Proxy, eventually, int, run, target_is_plain_redis, value};

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

async fn members(proxy: &Proxy, words: &[&str]) -> Output {
    let admin = proxy.admin_address();
    let words: Vec<String> =
        ["members", "--connect", &admin].iter().chain(words).map(|it| (*it).to_owned()).collect();
    let output = tokio::task::spawn_blocking(move || {
        run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    });
    output.await.expect("it ran")
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

fn another_proxy(masters: &Masters) -> Proxy {
    let proxy = Proxy::start(masters, &[]);
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

/// Takes and releases locks of its own and counts, until it is over. Every answer counts: there is no second attempt.
async fn load(mut client: MultiplexedConnection, id: usize, is_over: &Cell<bool>) -> i64 {
    let mut counted = 0;
    while !is_over.get() {
        let key = format!("lock {id} {}", counted % 50);
        assert_eq!(claim(&mut client, &key, "t").await, Value::Okay, "{key} is free");
        assert_eq!(int(&mut client, &["EVAL", RELEASE, "1", &key, "t"]).await, 1, "{key}");
        int(&mut client, &["INCR", "counter"]).await;
        counted += 1;
    }
    counted
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
    let [full, evicts, good] = [
        Master::start(),
        Master::start_with(&["--maxmemory-policy", "allkeys-lru"]),
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
