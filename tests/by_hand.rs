//! Manual changes on the masters leave no key stuck.

mod support;

use support::scripts::{EXTEND, RELEASE};
use support::{Master, Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis, words};

/// Copies held by a minority are removed after four times this patience.
const PATIENCE: [&str; 2] = ["--patience", "500ms"];

fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &PATIENCE);
    proxy.expect_warnings();
    Some((masters, proxy))
}

async fn ask(client: &mut Raw, line: &str) -> Reply {
    let reply = client.ask(&words(line)).await;
    assert!(!reply.is_error(""), "{line}: {reply:?}");
    reply
}

/// Returns the first reply that is not an error.
async fn in_the_end(proxy: &Proxy, line: &str) -> Reply {
    eventually(line, || async {
        let reply = proxy.raw().await.ask(&words(line)).await;
        (!reply.is_error("")).then_some(reply)
    })
    .await
}

async fn on_all(masters: &Masters, line: &str) {
    for master in masters.iter() {
        master.ask(&words(line)).await;
    }
}

fn stamp(key: &str) -> String {
    format!("redlock-proxy:s:{key}")
}

async fn all_hold(masters: &Masters, key: &str, value: &str) {
    eventually("all masters hold it, under a stamp", || async {
        for master in masters.iter() {
            let is_held = master.ask(&["GET", key]).await == Reply::bulk(value);
            if !is_held || !master.has(&stamp(key)).await {
                return None;
            }
        }
        Some(())
    })
    .await;
}

#[tokio::test]
async fn a_value_that_is_deleted_on_all_masters_is_absent() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for line in ["SET string x", "RPUSH list a"] {
        ask(&mut client, line).await;
    }
    on_all(&masters, "DEL string list").await;
    assert_eq!(ask(&mut client, "GET string").await, Reply::Nil);
    assert_eq!(ask(&mut client, "LLEN list").await, Reply::Int(0));
    ask(&mut client, "SET string y").await;
    assert_eq!(ask(&mut client, "DEL string").await, Reply::Int(1));
    assert_eq!(ask(&mut client, "RPUSH list b").await, Reply::Int(1));
    proxy.kill_9();
    on_all(&masters, "DEL list").await;
    let (said, code) = masters.settle(&PATIENCE, &["list"]);
    assert!(code == Some(0) && said.contains("All masters had lost its value"), "{said}");
}

/// The third master may have the value that the others have lost.
#[tokio::test]
async fn a_value_that_two_masters_have_lost_waits_for_the_third() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET string x").await;
    all_hold(&masters, "string", "x").await;
    masters[2].stop();
    proxy.knows(2, "state", "down").await;
    for master in &masters[..2] {
        master.ask(&["DEL", "string"]).await;
    }
    let reply = client.ask(&["GET", "string"]).await;
    assert!(reply.is_error("CLUSTERDOWN"), "{reply:?}");
    masters[2].cont();
    assert_eq!(in_the_end(&proxy, "GET string").await, Reply::bulk("x"));
    all_hold(&masters, "string", "x").await;
}

#[tokio::test]
async fn different_strings_on_all_masters_give_way() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for (at, master) in masters.iter().enumerate() {
        master.ask(&["SET", "three", &format!("value {at}")]).await;
    }
    for (at, master) in masters[..2].iter().enumerate() {
        master.ask(&["SET", "two", &format!("value {at}")]).await;
    }
    for key in ["three", "two"] {
        assert_eq!(in_the_end(&proxy, &format!("SET {key} mine")).await, Reply::ok());
        assert_eq!(ask(&mut client, &format!("GET {key}")).await, Reply::bulk("mine"));
        all_hold(&masters, key, "mine").await;
        assert_eq!(ask(&mut client, &format!("DEL {key}")).await, Reply::Int(1));
    }
}

#[tokio::test]
async fn a_string_without_its_stamp_on_one_master_gets_it_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET string x").await;
    ask(&mut client, "SET ends x EX 1000").await;
    masters[0].ask(&["DEL", &stamp("string"), &stamp("ends")]).await;
    for key in ["string", "ends"] {
        ask(&mut client, &format!("APPEND {key} y")).await;
        assert_eq!(ask(&mut client, &format!("GET {key}")).await, Reply::bulk("xy"));
        all_hold(&masters, key, "xy").await;
    }
}

/// `settle` would not ask the proxies that count votes for it.
#[tokio::test]
async fn a_lock_that_a_quorum_holds_stays() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    ask(&mut client, "SET lock token NX PX 60000").await;
    masters[0].ask(&["DEL", "lock"]).await;
    masters[0].ask(&["SET", "lock", "other"]).await;
    proxy.kill_9();
    let (said, code) = masters.settle(&PATIENCE, &["lock"]);
    assert!(code == Some(0) && said.contains("quorum of masters held it: 'other'"), "{said}");
    let other = Proxy::start(&masters, &PATIENCE);
    other.expect_warnings();
    let mut client = other.raw().await;
    assert_eq!(ask(&mut client, "GET lock").await, Reply::bulk("token"));
}

/// For a lock with a TTL that somebody else wrote, it is unknown when votes for it stop counting.
#[tokio::test]
async fn what_is_left_of_locks_of_others_is_removed_when_somebody_says_so() {
    let Some((masters, proxy)) = three_masters() else { return };
    proxy.kill_9();
    for (at, master) in masters.iter().enumerate() {
        master.ask(&["SET", "lock", &format!("value {at}"), "PX", "600000"]).await;
    }
    let (said, code) = masters.settle(&PATIENCE, &["lock"]);
    assert!(code == Some(1) && said.contains("--release-locks"), "{said}");
    let (said, code) = masters.settle(&PATIENCE, &["--release-locks", "lock"]);
    assert!(code == Some(0) && said.contains("is released"), "{said}");
    assert!(!said.contains("nothing was changed"), "{said}");
    for master in masters.iter() {
        assert!(!master.has("lock").await);
    }
}

/// A key that cannot be settled occupies one operation at a time, not more and more.
#[tokio::test]
async fn a_key_that_cannot_be_settled_does_not_pile_up() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for (at, master) in masters.iter().enumerate() {
        master.ask(&["SET", "lock", &format!("value {at}"), "PX", "600000"]).await;
    }
    ask(&mut client, "SET string x").await;
    for _ in 0..12 {
        let reply = client.ask(&["APPEND", "lock", "x"]).await;
        assert!(reply.is_error(""), "{reply:?}");
    }
    let info = client.ask(&["INFO", "redlock"]).await.text();
    let in_flight = info.lines().find_map(|line| line.strip_prefix("operations_in_flight:"));
    let in_flight: usize = in_flight.and_then(|it| it.trim().parse().ok()).expect("a number");
    assert!(in_flight <= 2, "{in_flight}");
}

/// Ways to spoil a stamp. The documentation says what happens when one is deleted; the others have the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoiled {
    Deleted,
    Junk,
    LongJunk,
    CutOff,
    List,
    Hash,
}

impl Spoiled {
    const ALL: [Self; 6] =
        [Self::Deleted, Self::Junk, Self::LongJunk, Self::CutOff, Self::List, Self::Hash];

    async fn on(self, master: &Master, key: &str) {
        const INSTEAD: &str = "redis.call('DEL', ARGV[2]) return redis.call(unpack(ARGV))";
        let stamp = stamp(key);
        let whole = master.ask(&["GET", &stamp]).await;
        let long: Vec<u8> = (0..1000_u32).map(|at| ((at * at * 31) >> 3) as u8).collect();
        let (command, value): (&str, &[u8]) = match (self, &whole) {
            (Self::Deleted, _) => ("DEL", b""),
            (Self::CutOff, Reply::Bulk(whole)) => ("SET", &whole[..whole.len() - 20]),
            (Self::Junk | Self::CutOff, _) => ("SET", b"junk"),
            (Self::LongJunk, _) => ("SET", &long),
            (Self::List, _) => ("RPUSH", b"x"),
            (Self::Hash, _) => ("HSET", b"x"),
        };
        let mut words: Vec<&[u8]> = vec![b"EVAL", INSTEAD.as_bytes(), b"0"];
        words.extend([command.as_bytes(), stamp.as_bytes(), value]);
        words.extend((self == Self::Hash).then_some(&b"y"[..]));
        let reply = master.ask(&words).await;
        assert!(!reply.is_error(""), "{reply:?}");
    }

    /// Returns two keys that no other way uses.
    fn keys(self) -> [String; 2] {
        [format!("list:{self:?}"), format!("string:{self:?}")]
    }
}

/// Makes a list and a string for each way to spoil their stamps, and spoils these on the first `count` masters.
async fn spoil(masters: &Masters, client: &mut Raw, count: usize) {
    for spoiled in Spoiled::ALL {
        let [list, string] = spoiled.keys();
        ask(client, &format!("RPUSH {list} a")).await;
        ask(client, &format!("SET {string} x")).await;
        for key in [&list, &string] {
            stamps_are_whole(masters, key).await;
            for master in &masters[..count] {
                spoiled.on(master, key).await;
            }
        }
    }
}

/// Waits until all masters have a stamp that says that they hold the same.
async fn stamps_are_whole(masters: &Masters, key: &str) {
    eventually(&format!("all masters have the same stamp of {key}"), || async {
        let mut accepted = Vec::new();
        for master in masters.iter() {
            let said = master.ask(&["GETRANGE", &stamp(key), "16", "64"]).await;
            accepted.push(if said.is_error("") { Vec::new() } else { said.bytes() });
        }
        accepted.iter().all(|said| said.len() == 49 && *said == accepted[0]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_master_whose_stamps_were_overwritten_is_not_behind_for_good() {
    let Some((masters, proxy)) = three_masters() else { return };
    spoil(&masters, &mut proxy.raw().await, 1).await;
    for spoiled in Spoiled::ALL {
        let [list, string] = spoiled.keys();
        stamps_are_whole(&masters, &list).await;
        stamps_are_whole(&masters, &string).await;
        all_hold(&masters, &string, "x").await;
        assert_eq!(masters[0].ask(&["LLEN", &list]).await, Reply::Int(1));
    }
    for master in 0..3 {
        proxy.knows(master, "registers_behind", "0").await;
    }
}

/// Where the masters differ, an operation may be about to make them agree, so a client may have to retry.
#[tokio::test]
async fn keys_whose_stamps_were_overwritten_are_not_stuck() {
    const LINES: [&str; 6] = ["GET", "APPEND y", "SET z", "EXPIRE 1000", "GETDEL", "SET x"];
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for (count, begins) in [(1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3)] {
        spoil(&masters, &mut client, count).await;
        for spoiled in Spoiled::ALL {
            let [list, string] = spoiled.keys();
            for line in &LINES[begins..] {
                let (command, word) = line.split_once(' ').unwrap_or((line, ""));
                in_the_end(&proxy, &format!("{command} {string} {word}")).await;
            }
            let (list, string) = (format!("LLEN {list}"), format!("GET {string}"));
            assert_eq!(in_the_end(&proxy, &string).await, Reply::bulk("x"), "{spoiled:?}");
            assert_eq!(in_the_end(&proxy, &list).await, Reply::Int(1), "{spoiled:?}");
            let [list, string] = spoiled.keys();
            in_the_end(&proxy, &format!("RPUSH {list} b")).await;
            in_the_end(&proxy, &format!("DEL {list} {string}")).await;
        }
    }
}

#[tokio::test]
async fn settle_makes_stamps_whole_that_were_overwritten() {
    let Some((masters, proxy)) = three_masters() else { return };
    spoil(&masters, &mut proxy.raw().await, 3).await;
    proxy.kill_9();
    for spoiled in Spoiled::ALL {
        for key in spoiled.keys() {
            let (said, code) = masters.settle(&PATIENCE, &[&key]);
            assert_eq!(code, Some(0), "{spoiled:?}: {said}");
        }
    }
}

/// The state that two other keys share says nothing about this key.
#[tokio::test]
async fn the_stamp_of_a_group_in_the_place_of_another_key_s_does_not_keep_proxies_busy() {
    let Some((masters, proxy)) = three_masters() else { return };
    let other = Proxy::start(&masters, &PATIENCE);
    other.expect_warnings();
    let mut client = proxy.raw().await;
    for count in 1..=3 {
        let (absent, list) = (format!("absent{count}"), format!("list{count}"));
        ask(&mut client, &format!("RPUSH {list} x")).await;
        stamps_are_whole(&masters, &list).await;
        ask(&mut client, &format!("MSET a {count} b {count}")).await;
        let group = masters[1].ask(&["GET", &stamp("a")]).await.bytes();
        assert!(matches!(group[73], b'k' | b'w'), "the last program had several keys: {group:?}");
        for master in &masters[3 - count..] {
            for key in [&absent, &list] {
                master.ask(&[b"SET", stamp(key).as_bytes(), &group]).await;
            }
        }
        in_the_end(&other, &format!("GET {absent}")).await;
        in_the_end(&proxy, &format!("SET {absent} 5")).await;
        in_the_end(&proxy, &format!("RPUSH {list} y")).await;
        for key in [&absent, &list] {
            stamps_are_whole(&masters, key).await;
        }
        for proxy in [&proxy, &other] {
            assert_eq!(in_the_end(proxy, &format!("GET {absent}")).await, Reply::bulk("5"));
            assert_eq!(in_the_end(proxy, &format!("LLEN {list}")).await, Reply::Int(2));
        }
    }
}

/// One of the masters asked no longer knows what it holds, as if its stamps had been deleted. It is then unknown
/// whether a string is a lock.
#[tokio::test]
async fn a_master_is_admitted_beside_stamps_that_were_overwritten() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    spoil(&masters, &mut client, 1).await;
    Spoiled::Hash.on(&masters[0], "nothing").await;
    masters[2].kill_9();
    masters[2].restart_empty();
    proxy.knows(2, "state", "voter").await;
    for spoiled in Spoiled::ALL {
        let [list, _] = spoiled.keys();
        assert_eq!(ask(&mut client, &format!("RPUSH {list} b")).await, Reply::Int(2));
        stamps_are_whole(&masters, &list).await;
    }
    proxy.kill_9();
    for spoiled in Spoiled::ALL {
        let [_, string] = spoiled.keys();
        let (said, code) = masters.settle(&PATIENCE, &["--release-locks", &string]);
        assert_eq!(code, Some(0), "{spoiled:?}: {said}");
        all_hold(&masters, &string, "x").await;
        stamps_are_whole(&masters, &string).await;
    }
}

/// A lock has no stamp.
#[tokio::test]
async fn locks_do_not_mind_what_was_written_in_the_place_of_stamps() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut client = proxy.raw().await;
    for spoiled in [Spoiled::Junk, Spoiled::LongJunk, Spoiled::List] {
        for master in masters.iter() {
            spoiled.on(master, "lock").await;
        }
        for _ in 0..2 {
            let claimed = ask(&mut client, "SET lock token NX PX 60000").await;
            assert_eq!(claimed, Reply::ok(), "{spoiled:?}");
            assert_eq!(ask(&mut client, "GET lock").await, Reply::bulk("token"));
            assert_eq!(ask(&mut client, "SET lock other NX PX 60000").await, Reply::Nil);
            assert_eq!(
                client.ask(&["EVAL", EXTEND, "1", "lock", "token", "30000"]).await,
                Reply::Int(1)
            );
            assert_eq!(client.ask(&["EVAL", RELEASE, "1", "lock", "other"]).await, Reply::Int(0));
            assert_eq!(client.ask(&["EVAL", RELEASE, "1", "lock", "token"]).await, Reply::Int(1));
        }
        eventually("what stands there for nothing is removed", || async {
            for master in masters.iter() {
                if master.has(&stamp("lock")).await {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
}
