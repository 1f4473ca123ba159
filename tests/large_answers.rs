//! Large answers of masters: walks over all keys come in pages from one master after the other, and large values are
//! read from one master at a time, apart from the votes.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use socket2::SockRef;
use support::{
    Master, Masters, Proxy, Raw, Relay, Reply, encode, eventually, target_is_plain_redis,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Long timeouts, since these tests are not about time and a machine may be busy.
const PATIENT: [&str; 2] = ["--vote-timeout", "5s"];

const SET_KEYS: &str = "for i = 1, ARGV[1] do redis.call('set', 'key:' .. i, 'v') end";
const ADD_MEMBERS: &str = "for i = 1, ARGV[1] do redis.call('sadd', KEYS[1], 'member:' .. i) end";

async fn run_on(masters: &[Master], script: &str, key: &str, argument: &str) {
    for master in masters {
        let reply = master.ask(&["EVAL", script, "1", key, argument]).await;
        assert_eq!(reply, Reply::Nil);
    }
}

async fn run(raw: &mut Raw, script: &str, key: &str, argument: &str) {
    assert_eq!(raw.ask(&["EVAL", script, "1", key, argument]).await, Reply::Nil);
}

async fn fill(masters: &Masters, keys: usize) -> BTreeSet<String> {
    run_on(masters, SET_KEYS, "", &keys.to_string()).await;
    (1..=keys).map(|i| format!("key:{i}")).collect()
}

/// Sets each key on two of three masters, so that no single one has all of them.
async fn fill_quorums(masters: &Masters, keys: usize) -> BTreeSet<String> {
    let all = fill(masters, keys).await;
    let forget = "for i = ARGV[1], ARGV[2], 3 do redis.call('del', 'key:' .. i) end";
    for (index, master) in masters.iter().enumerate() {
        let (first, last) = ((index + 1).to_string(), keys.to_string());
        assert_eq!(master.ask(&["EVAL", forget, "0", &first, &last]).await, Reply::Nil);
    }
    all
}

/// Returns the cursor, and the contents of the page.
fn page(reply: Reply) -> (String, Vec<String>) {
    match reply {
        Reply::Array(parts) => match &parts[..] {
            [cursor, Reply::Array(items)] => {
                (cursor.text(), items.iter().map(Reply::text).collect())
            }
            other => panic!("no page: {other:?}"),
        },
        other => panic!("no page: {other:?}"),
    }
}

async fn scan(raw: &mut Raw, cursor: &str, options: &[&str]) -> (String, Vec<String>) {
    page(raw.ask(&[&["SCAN", cursor], options].concat()).await)
}

/// Returns everything from `cursor` to the end; fails if there is no end.
async fn scan_on(raw: &mut Raw, cursor: &str, options: &[&str]) -> BTreeSet<String> {
    let (mut cursor, mut found, mut pages) = (cursor.to_owned(), BTreeSet::new(), 0);
    loop {
        let (next, keys) = scan(raw, &cursor, options).await;
        found.extend(keys);
        if next == "0" {
            return found;
        }
        assert!(next.parse::<u64>().is_ok(), "clients read cursors as 64 bits: {next}");
        cursor = next;
        pages += 1;
        assert!(pages < 20_000, "it does not end");
    }
}

/// Compares counts only, since a list of thousands of keys would not help.
#[track_caller]
fn assert_all(found: &BTreeSet<String>, all: &BTreeSet<String>) {
    let count = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).count();
    assert_eq!((count(all, found), count(found, all)), (0, 0), "missing, and too many");
}

#[tokio::test]
async fn a_scan_is_one_huge_page_of_every_master() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let all = fill(&masters, 20_000).await;
    let mut raw = proxy.raw().await;
    for (count, longest) in [("10", 200), ("100", 400), ("1000000000", 400)] {
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        loop {
            let (next, keys) = scan(&mut raw, &cursor, &["COUNT", count]).await;
            assert!(keys.len() <= longest, "a page of {} keys for COUNT {count}", keys.len());
            found.extend(keys);
            if next == "0" {
                break;
            }
            cursor = next;
        }
        assert_all(&found, &all);
    }
}

#[tokio::test]
async fn match_and_type_choose_what_they_do_in_a_plain_redis() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let redis = Master::start();
    fill(&masters, 300).await;
    run_on(std::slice::from_ref(&redis), SET_KEYS, "", "300").await;
    let (mut raw, mut plain) = (proxy.raw().await, Raw::connect(&redis.address()).await);
    for side in [&mut raw, &mut plain] {
        assert_eq!(side.ask(&["SADD", "key:set", "a"]).await, Reply::Int(1));
    }
    for options in [
        &["MATCH", "key:1?", "COUNT", "7"][..],
        &["TYPE", "set"],
        &["TYPE", "string", "MATCH", "*9", "COUNT", "100"],
        &["MATCH", "nothing*"],
        &["TYPE", "hash"],
    ] {
        let expected = scan_on(&mut plain, "0", options).await;
        assert_eq!(scan_on(&mut raw, "0", options).await, expected, "{options:?}");
    }
}

#[tokio::test]
async fn keys_lists_everything_at_once_on_every_master() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let all = fill(&masters, 20_000).await;
    let mut raw = proxy.raw().await;
    let Reply::Array(keys) = raw.ask(&["KEYS", "*"]).await else { panic!("a list") };
    assert_eq!(keys.len(), all.len(), "each once");
    assert_all(&keys.iter().map(Reply::text).collect(), &all);
    let Reply::Array(keys) = raw.ask(&["KEYS", "key:77?"]).await else { panic!("a list") };
    assert_eq!(keys.len(), 10);
    let mut pages = 0;
    for master in masters.iter() {
        assert_eq!(master.calls("keys").await, 0);
        pages += master.calls("scan").await;
    }
    assert!(pages >= 2 * 2 * 20_000 / 2000, "pages are short: there were {pages}");
}

#[tokio::test]
async fn a_scan_loses_keys_when_others_come_and_go() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let all = fill(&masters, 1000).await;
    let (mut raw, mut other) = (proxy.raw().await, proxy.raw().await);
    let (mut cursor, mut found, mut pages) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let (next, keys) = scan(&mut raw, &cursor, &[]).await;
        found.extend(keys);
        for i in 0..4 {
            let key = format!("new:{pages}:{i}");
            assert_eq!(other.ask(&["SET", &key, "v"]).await, Reply::ok());
        }
        if next == "0" {
            break;
        }
        (cursor, pages) = (next, pages + 1);
        assert!(pages < 5000, "it does not end");
    }
    assert!(found.is_superset(&all), "{} are missing", all.difference(&found).count());
}

#[tokio::test]
async fn a_master_that_goes_down_during_a_scan_hides_keys() {
    if target_is_plain_redis() {
        return;
    }
    for gone in [0, 1] {
        let mut masters = Masters::start(3);
        let proxy = Proxy::start(&masters, &PATIENT);
        proxy.expect_warnings();
        let all = fill_quorums(&masters, 2000).await;
        let mut raw = proxy.raw().await;
        let (mut cursor, mut found) = ("0".to_owned(), BTreeSet::new());
        while masters[gone].calls("scan").await < 3 {
            let (next, keys) = scan(&mut raw, &cursor, &["COUNT", "100"]).await;
            found.extend(keys);
            assert_ne!(next, "0", "it is in the middle");
            cursor = next;
        }
        masters[gone].kill_9();
        found.extend(scan_on(&mut raw, &cursor, &["COUNT", "100"]).await);
        assert_all(&found, &all);
    }
}

/// Each process orders its keys differently.
#[tokio::test]
async fn a_cursor_of_a_master_before_its_restart_hides_keys() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "500ms", "--restart-wait", "1h"]);
    proxy.expect_warnings();
    let all = fill_quorums(&masters, 1000).await;
    let (mut raw, mut cursor, mut found) = (proxy.raw().await, "0".to_owned(), BTreeSet::new());
    for _ in 0..5 {
        let (next, keys) = scan(&mut raw, &cursor, &["COUNT", "100"]).await;
        found.extend(keys);
        cursor = next;
    }
    masters[0].kill_9();
    masters[0].restart_empty();
    eventually("it votes again, with all it had", || async {
        let is_voter = proxy.says_of(0, "state").await == "voter";
        let copied = masters[0].key_count().await;
        (is_voter && copied >= 1000).then_some(())
    })
    .await;
    let rest = scan_on(&mut raw, &cursor, &["COUNT", "100"]).await;
    assert_all(&rest, &all);
}

#[tokio::test]
async fn cursors_that_nobody_has_given_end() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    fill(&masters, 500).await;
    let mut raw = proxy.raw().await;
    for cursor in ["1", "65536", "4294967295", "9223372036854775808", "18446744073709551615", "-1"]
    {
        scan_on(&mut raw, cursor, &[]).await;
    }
    for _ in 0..50 {
        scan_on(&mut raw, &fastrand::u64(..).to_string(), &["COUNT", "50"]).await;
    }
    let invalid = Reply::Error("ERR invalid cursor".to_owned());
    for cursor in ["x", "1x", " 1", "18446744073709551616"] {
        assert_eq!(raw.ask(&["SCAN", cursor]).await, invalid, "{cursor:?}");
    }
    let syntax = Reply::Error("ERR syntax error".to_owned());
    assert_eq!(raw.ask(&["SCAN", "1\0", "0"]).await, syntax);
}

#[tokio::test]
async fn a_cursor_of_another_proxy_begins_anew() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let mut turned = masters.addresses();
    turned.reverse();
    let proxies = [Proxy::start(&masters, &PATIENT), Proxy::in_front_of(&turned, &PATIENT)];
    let all = fill(&masters, 2000).await;
    let mut raws = [proxies[0].raw().await, proxies[1].raw().await];
    let (mut cursor, mut found, mut pages) = ("0".to_owned(), 0, 0);
    loop {
        let (next, keys) = scan(&mut raws[pages % 2], &cursor, &["COUNT", "100"]).await;
        found += keys.len();
        (cursor, pages) = (next, pages + 1);
        if cursor == "0" {
            break;
        }
        assert!(pages < 1000, "it does not end");
    }
    let (least, most) = (2 * all.len() - 200, 2 * all.len() + 100);
    assert!((least..most).contains(&found), "each of two masters once: {found}");
}

#[tokio::test]
async fn the_rest_of_a_lost_claim_is_listed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    for (index, master) in masters.iter().enumerate() {
        assert_eq!(master.ask(&["SET", &format!("rest:{index}"), "v"]).await, Reply::ok());
        for held in (0..3).filter(|held| *held != index) {
            assert_eq!(master.ask(&["SET", &format!("held:{held}"), "v"]).await, Reply::ok());
        }
    }
    let held: BTreeSet<String> = (0..3).map(|index| format!("held:{index}")).collect();
    let mut raw = proxy.raw().await;
    assert_eq!(scan_on(&mut raw, "0", &[]).await, held);
    let Reply::Array(keys) = raw.ask(&["KEYS", "*"]).await else { panic!("a list") };
    assert_eq!(keys.iter().map(Reply::text).collect::<BTreeSet<_>>(), held);
}

/// Each master has its own order, so their pages are never alike.
#[tokio::test]
async fn pages_of_a_hash_never_agree() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let mut raw = proxy.raw().await;
    let names: Vec<String> = (0..2000).map(|i| format!("name:{i}")).collect();
    let pairs = |number_first: bool| {
        let pair = move |(i, name): (usize, &String)| match number_first {
            true => [i.to_string(), name.clone()],
            false => [name.clone(), i.to_string()],
        };
        names.iter().enumerate().flat_map(pair).collect::<Vec<_>>()
    };
    let words = |head: [&str; 2], tail: Vec<String>| {
        head.map(str::to_owned).into_iter().chain(tail).collect::<Vec<String>>()
    };
    assert_eq!(raw.ask(&words(["HSET", "h"], pairs(false))).await, Reply::Int(2000));
    assert_eq!(raw.ask(&words(["ZADD", "z"], pairs(true))).await, Reply::Int(2000));
    assert_eq!(raw.ask(&words(["SADD", "s"], names.clone())).await, Reply::Int(2000));
    let expected: BTreeMap<String, String> =
        names.iter().enumerate().map(|(i, name)| (name.clone(), i.to_string())).collect();
    for (verb, key, each) in [("HSCAN", "h", 2), ("ZSCAN", "z", 2), ("SSCAN", "s", 1)] {
        let (mut cursor, mut found, mut pages) = ("0".to_owned(), BTreeMap::new(), 0);
        loop {
            let (next, items) = page(raw.ask(&[verb, key, &cursor, "COUNT", "50"]).await);
            assert!(items.len() <= 500, "{verb}: {} on a page", items.len());
            for item in items.chunks(each) {
                found.insert(item[0].clone(), item.get(1).cloned().unwrap_or_default());
            }
            pages += 1;
            if next == "0" {
                break;
            }
            cursor = next;
        }
        assert!(pages > 10, "{verb} has pages");
        match each {
            2 => assert_eq!(found, expected, "{verb}"),
            _ => assert!(found.keys().eq(expected.keys()), "{verb}"),
        }
    }
}

async fn claim_and_release(proxy: &Proxy, times: usize) {
    let mut bystander = proxy.raw().await;
    for i in 0..times {
        let lock = format!("lock:{i}");
        let claimed = bystander.ask(&["SET", &lock, "mine", "NX", "PX", "60000"]).await;
        assert_eq!(claimed, Reply::ok());
        assert_eq!(bystander.ask(&["DEL", &lock]).await, Reply::Int(1));
    }
}

/// Holding back the requests for all members shows how many masters are asked at the same moment.
#[tokio::test]
async fn all_masters_are_busy_with_a_large_set_and_nobody_votes() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &PATIENT);
    run(&mut proxy.raw().await, ADD_MEMBERS, "large", "50000").await;
    relays.iter().for_each(|relay| relay.hold_back("SMEMBERS"));
    let caught = || relays.iter().map(Relay::caught).sum::<usize>();
    let mut readers = [proxy.raw().await, proxy.raw().await, proxy.raw().await];
    for reader in &mut readers {
        reader.send(&support::encode(&["SMEMBERS", "large"])).await;
    }
    eventually("a master is asked", || async { (caught() > 0).then_some(()) }).await;
    claim_and_release(&proxy, 20).await;
    assert_eq!(caught(), 1, "one master is asked, whoever asks");
    relays.iter().for_each(Relay::heal);
    for reader in &mut readers {
        let Reply::Array(members) = reader.reply().await else { panic!("members") };
        assert_eq!(members.iter().map(Reply::text).collect::<BTreeSet<_>>().len(), 50_000);
    }
}

#[tokio::test]
async fn what_is_large_is_answered_as_a_plain_redis_does() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let redis = Master::start();
    let all = "for i = 1, ARGV[1] do \
               redis.call('rpush', 'list', 'element:' .. i) \
               redis.call('zadd', 'zset', i / 4, 'member:' .. i) end";
    let everybody: Vec<&Master> = masters.iter().chain([&redis]).collect();
    for master in everybody {
        assert_eq!(master.ask(&["EVAL", all, "0", "30000"]).await, Reply::Nil);
    }
    for version in ["2", "3"] {
        let (mut raw, mut plain) = (proxy.raw().await, Raw::connect(&redis.address()).await);
        for side in [&mut raw, &mut plain] {
            side.ask(&["HELLO", version]).await;
        }
        for line in [
            "LRANGE list 0 -1",
            "LRANGE list 100 20000",
            "ZRANGE zset 0 -1 WITHSCORES",
            "ZREVRANGEBYSCORE zset 3000 7 WITHSCORES LIMIT 3 10",
            "ZRANGE zset 5 9",
            "SMEMBERS list",
            "SORT_RO list ALPHA LIMIT 0 10",
            "LPOS list element:777",
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            for side in [&mut raw, &mut plain] {
                side.send(&support::encode(&words)).await;
            }
            assert!(raw.frame().await.1 == plain.frame().await.1, "RESP{version}: {line}");
        }
    }
}

/// Three masters keep twenty members in three different orders.
#[tokio::test]
async fn a_set_that_sort_leaves_as_it_is_is_not_answered_as_empty() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENT);
    let items = |reply: Reply| match reply {
        Reply::Array(items) => items,
        other => panic!("no list: {other:?}"),
    };
    for size in ["20", "10000"] {
        let all = (1..=size.parse().expect("a number")).map(|i: usize| format!("member:{i}"));
        let all: BTreeSet<String> = all.collect();
        let mut raw = proxy.raw().await;
        run(&mut raw, ADD_MEMBERS, "set", size).await;
        run(&mut raw, "redis.call('rpush', KEYS[1], 'c', ARGV[1], 'b')", "list", "a").await;
        for name in ["SORT", "SORT_RO"] {
            let found = items(raw.ask(&[name, "set", "BY", "nosort"]).await);
            assert_eq!(found.len(), all.len());
            assert_eq!(found.iter().map(Reply::text).collect::<BTreeSet<_>>(), all);
            let found = items(raw.ask(&[name, "set", "by", "x", "get", "#", "GET", "none*"]).await);
            assert!(found.iter().skip(1).step_by(2).all(|item| *item == Reply::Nil));
            let found = found.iter().step_by(2).map(Reply::text).collect::<BTreeSet<_>>();
            assert_eq!(found, all);
            for options in [&["BY", "x"][..], &["BY", "weight*", "ALPHA"]] {
                let some = [&[name, "set"], options, &["LIMIT", "0", "7"]].concat();
                let found: BTreeSet<_> =
                    items(raw.ask(&some).await).iter().map(Reply::text).collect();
                assert!(found.len() == 7 && found.is_subset(&all), "{some:?}: {found:?}");
            }
            let list = items(raw.ask(&[name, "list", "BY", "x"]).await);
            assert_eq!(list.iter().map(Reply::text).collect::<String>()[..3], *"cab");
            assert_eq!(raw.ask(&[name, "absent", "BY", "x"]).await, Reply::Array(Vec::new()));
        }
    }
}

#[tokio::test]
async fn one_client_reads_several_large_things_at_once() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(5);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &PATIENT);
    for key in ["one", "two"] {
        run(&mut proxy.raw().await, ADD_MEMBERS, key, "20000").await;
    }
    relays.iter().for_each(|relay| relay.hold_back("SMEMBERS"));
    let caught = || relays.iter().map(Relay::caught).sum::<usize>();
    let mut readers = Vec::new();
    // Two of five may be busy, and each client keeps one busy.
    for expected in [1, 2, 2] {
        let mut reader = proxy.raw().await;
        for key in ["one", "two"] {
            reader.send(&support::encode(&["SMEMBERS", key])).await;
        }
        readers.push(reader);
        eventually("masters are asked", || async { (caught() >= expected).then_some(()) }).await;
        claim_and_release(&proxy, 5).await;
        assert_eq!(caught(), expected, "with {} clients", readers.len());
    }
    relays.iter().for_each(Relay::heal);
    for reader in &mut readers {
        for _ in ["one", "two"] {
            let Reply::Array(members) = reader.reply().await else { panic!("members") };
            assert_eq!(members.len(), 20_000);
        }
    }
}

/// The first master may still be working on it. If another one were busy too, there might be no quorum.
#[tokio::test]
async fn a_master_that_takes_too_long_makes_the_next_one_busy() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &PATIENT);
    run(&mut proxy.raw().await, ADD_MEMBERS, "large", "50000").await;
    relays.iter().for_each(|relay| relay.swallow("SMEMBERS"));
    let mut raw = proxy.raw().await;
    let reply = raw.ask(&["SMEMBERS", "large"]).await;
    assert!(reply.is_error("TRYAGAIN the value is large"), "{reply:?}");
    assert_eq!(relays.iter().map(Relay::caught).sum::<usize>(), 1);
    relays.iter().for_each(Relay::heal);
    let Reply::Array(members) = raw.ask(&["SMEMBERS", "large"]).await else { panic!("members") };
    assert_eq!(members.len(), 50_000);
}

/// Returns how often masters were asked for a whole set.
async fn sets_read(masters: &Masters) -> usize {
    let mut calls = 0;
    for master in masters.iter() {
        calls += master.calls("smembers").await as usize;
    }
    calls
}

/// Returns the number of requests that the proxy has read.
async fn requests(client: &mut Raw) -> u64 {
    let info = client.ask(&["INFO", "stats"]).await.text();
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.and_then(|count| count.trim().parse().ok()).expect("INFO counts requests")
}

/// These sessions do not read, because a request waits for the one before it, so they have to be notified.
#[tokio::test]
async fn masters_are_busy_for_clients_that_have_gone() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &PATIENT);
    run(&mut proxy.raw().await, ADD_MEMBERS, "large", "20000").await;
    let (mut first, mut operator, mut last) =
        (proxy.raw().await, proxy.raw().await, proxy.raw().await);
    relays.iter().for_each(|relay| relay.hold_back("SMEMBERS"));
    first.send(&encode(&["SMEMBERS", "large"])).await;
    let caught = || relays.iter().map(Relay::caught).sum::<usize>();
    eventually("a master is asked", || async { (caught() == 1).then_some(()) }).await;
    let before = requests(&mut operator).await;
    let mut gone = Vec::new();
    for _ in 0..10 {
        let mut socket = TcpStream::connect(proxy.address()).await.expect("it listens");
        let read = encode(&["SMEMBERS", "large"]).repeat(3);
        socket.write_all(&read).await.expect("room");
        gone.push(socket);
    }
    let mut asked = 1;
    while requests(&mut operator).await < before + asked + 10 {
        asked += 1;
    }
    for socket in &gone {
        SockRef::from(socket).set_linger(Some(Duration::ZERO)).expect("it is reset");
    }
    drop(gone);
    last.send(&encode(&["SMEMBERS", "large"])).await;
    relays.iter().for_each(Relay::heal);
    for client in [&mut first, &mut last] {
        let Reply::Array(members) = client.reply().await else { panic!("members") };
        assert_eq!(members.len(), 20_000);
    }
    eventually("they have gone", || async {
        let mut client = proxy.raw().await;
        let info = client.ask(&["INFO", "clients"]).await.text();
        info.contains("connected_clients:4\r\n").then_some(())
    })
    .await;
    assert_eq!(sets_read(&masters).await, 4, "two masters each for two clients");
}

/// The reply is larger than any socket's buffers.
#[tokio::test]
async fn a_client_that_reads_nothing_has_large_things_read_for_it() {
    const ADD_LONG: &str =
        "for i = 1, ARGV[1] do redis.call('sadd', KEYS[1], string.rep('m', 4096) .. i) end";
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let limits = ["--max-output-bytes", "1gb", "--max-memory-clients", "2gb"];
    let proxy = Proxy::start(&masters, &[&PATIENT[..], &limits].concat());
    let keys = ["one", "two", "three"];
    for key in keys {
        run(&mut proxy.raw().await, ADD_LONG, key, "4000").await;
    }
    let (mut greedy, mut other) = (proxy.raw().await, proxy.raw().await);
    for key in keys {
        greedy.send(&encode(&["SMEMBERS", key])).await;
    }
    eventually("the first is read", || async { (sets_read(&masters).await >= 2).then_some(()) })
        .await;
    for _ in 0..4 {
        let Reply::Array(members) = other.ask(&["SMEMBERS", "one"]).await else {
            panic!("members")
        };
        assert_eq!(members.len(), 4000);
    }
    assert_eq!(
        sets_read(&masters).await,
        2 + 4 * 2,
        "nothing more for a client that does not read"
    );
    for _ in keys {
        let Reply::Array(members) = greedy.reply().await else { panic!("members") };
        assert_eq!(members.len(), 4000);
    }
    assert_eq!(sets_read(&masters).await, 3 * 2 + 4 * 2);
}
