//! Clients that wait for stream entries: readers, who all get them, and consumers of groups, each of which gets its
//! own.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::Duration;

use support::{Masters, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis, words};

async fn ask(client: &mut Raw, line: &str) -> Reply {
    let reply = client.ask(&words(line)).await;
    assert!(!reply.is_error(""), "{line}: {reply:?}");
    reply
}

/// Returns a client that has begun to wait, as far as its server knows.
async fn waiting(proxy: &Proxy, line: &str) -> Raw {
    let blocked = || async {
        let info = proxy.raw().await.ask(&words("INFO clients")).await.text();
        let blocked = info.lines().find_map(|line| line.strip_prefix("blocked_clients:"));
        blocked.expect("it counts them").parse::<usize>().expect("a number")
    };
    let before = blocked().await;
    let mut client = proxy.raw().await;
    client.send(&encode(&words(line))).await;
    eventually("it waits", || async { (blocked().await > before).then_some(()) }).await;
    client
}

/// Returns the IDs in a reply, whichever streams they are from.
fn ids(reply: Reply) -> Vec<String> {
    let Reply::Array(streams) = reply else { panic!("no entries: {reply:?}") };
    let mut ids = Vec::new();
    for stream in streams {
        let Reply::Array(parts) = stream else { panic!("no stream: {stream:?}") };
        let Reply::Array(entries) = &parts[1] else { panic!("no entries: {parts:?}") };
        for entry in entries {
            let Reply::Array(entry) = entry else { panic!("no entry: {entry:?}") };
            ids.push(entry[0].text());
        }
    }
    ids
}

struct Bed {
    _masters: Masters,
    proxies: [Proxy; 2],
}

impl Bed {
    fn start() -> Bed {
        let masters = Masters::start(3);
        let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
        Bed { _masters: masters, proxies }
    }
}

#[tokio::test]
async fn a_reader_gets_what_comes_after_it_has_begun_to_wait() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut writer = proxy.raw().await;
    for line in [
        "XADD x 2-1 f v",
        "EVAL \"return redis.call('xadd', KEYS[1], '2-1', 'f', 'v')\" 1 x",
        "COPY y x REPLACE",
    ] {
        for before in ["DEL x y", "XADD x 1-1 f v", "XADD y 1-1 f v", "XADD y 2-1 f v"] {
            ask(&mut writer, before).await;
        }
        let mut newest = waiting(&proxy, "XREAD BLOCK 0 STREAMS absent x $ $").await;
        let mut beyond = waiting(&proxy, "XREAD BLOCK 0 STREAMS x 1000-0").await;
        let mut timed = waiting(&proxy, "XREAD BLOCK 200 STREAMS x 1000-0").await;
        ask(&mut writer, line).await;
        assert_eq!(ids(newest.reply().await), ["2-1"], "{line}");
        assert_eq!(timed.reply().await, Reply::Nil, "{line}");
        ask(&mut writer, "XADD x 1000-1 f v").await;
        assert_eq!(ids(beyond.reply().await), ["1000-1"], "{line}");
    }
}

/// Entries come through the other proxy, which notifies nobody.
#[tokio::test]
async fn what_another_proxy_adds_is_seen() {
    if target_is_plain_redis() {
        return;
    }
    let Bed { _masters, proxies } = Bed::start();
    let mut writer = proxies[1].raw().await;
    ask(&mut writer, "XGROUP CREATE z g 0 MKSTREAM").await;
    // The first client in line is not served, and must not keep the entries from the others.
    let _patient = waiting(&proxies[0], "XREAD BLOCK 0 STREAMS x y 9-9 0").await;
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(waiting(&proxies[0], "XREAD BLOCK 0 STREAMS x y $ $").await);
    }
    let mut consumer = waiting(&proxies[0], "XREADGROUP GROUP g c BLOCK 0 STREAMS z >").await;
    // The proxy has looked more than once by then.
    tokio::time::sleep(Duration::from_millis(150)).await;
    ask(&mut writer, "XADD x 7-1 f v").await;
    for reader in &mut readers {
        assert_eq!(ids(reader.reply().await), ["7-1"]);
    }
    ask(&mut writer, "XADD z 7-1 f v").await;
    assert_eq!(ids(consumer.reply().await), ["7-1"]);
}

#[tokio::test]
async fn one_consumer_of_each_group_and_all_readers_get_an_entry() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut writer = proxy.raw().await;
    ask(&mut writer, "XGROUP CREATE x g 0 MKSTREAM").await;
    ask(&mut writer, "XGROUP CREATE x h 0").await;
    let mut consumers = Vec::new();
    for line in [
        "XREADGROUP GROUP g a BLOCK 0 STREAMS x >",
        "XREADGROUP GROUP g b BLOCK 0 STREAMS x >",
        "XREADGROUP GROUP h c BLOCK 0 STREAMS x >",
        "XREADGROUP GROUP g d BLOCK 0 NOACK STREAMS x >",
    ] {
        consumers.push(waiting(&proxy, line).await);
    }
    // A client that waits for later entries blocks nobody.
    let _patient = waiting(&proxy, "XREAD BLOCK 0 STREAMS x 9-9").await;
    let mut readers = Vec::new();
    for _ in 0..2 {
        readers.push(waiting(&proxy, "XREAD BLOCK 0 STREAMS x $").await);
    }
    ask(&mut writer, "XADD x 1-1 f v").await;
    for served in [0, 2] {
        assert_eq!(ids(consumers[served].reply().await), ["1-1"], "consumer {served}");
    }
    for reader in &mut readers {
        assert_eq!(ids(reader.reply().await), ["1-1"]);
    }
    // The client that has waited longest is served first.
    for (id, served) in [("2-1", 1), ("3-1", 3)] {
        ask(&mut writer, &format!("XADD x {id} f v")).await;
        assert_eq!(ids(consumers[served].reply().await), [id], "consumer {served}");
    }
    let pending = ask(&mut writer, "XPENDING x g - + 10").await;
    let Reply::Array(pending) = pending else { panic!("{pending:?}") };
    assert_eq!(pending.len(), 2, "{pending:?}");
}

/// A waiting client gets a thousand entries at most, unless it gives a count.
#[tokio::test]
async fn who_waits_gets_as_many_entries_as_it_asks_for() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut writer = proxy.raw().await;
    ask(&mut writer, "XGROUP CREATE x g 0 MKSTREAM").await;
    let mut all = waiting(&proxy, "XREAD BLOCK 0 STREAMS x 0").await;
    let mut some = waiting(&proxy, "XREAD BLOCK 0 COUNT 7 STREAMS x 0").await;
    let mut consumer = waiting(&proxy, "XREADGROUP GROUP g c BLOCK 0 STREAMS x >").await;
    let add = "for at = 1, 1100 do redis.call('xadd', KEYS[1], at .. '-1', 'f', 'v') end";
    writer.ask(&["EVAL", add, "1", "x"]).await;
    assert_eq!(ids(all.reply().await).len(), 1000);
    assert_eq!(ids(some.reply().await).len(), 7);
    assert_eq!(ids(consumer.reply().await).len(), 1000);
    assert_eq!(ids(ask(&mut writer, "XREAD BLOCK 0 STREAMS x 0").await).len(), 1100);
}

#[tokio::test]
async fn who_waits_for_what_goes_away_is_told() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut writer = proxy.raw().await;
    ask(&mut writer, "XGROUP CREATE x g 0 MKSTREAM").await;
    let mut consumer = waiting(&proxy, "XREADGROUP GROUP g c BLOCK 0 STREAMS x >").await;
    ask(&mut writer, "XGROUP DESTROY x g").await;
    assert!(consumer.reply().await.is_error("NOGROUP "));
    ask(&mut writer, "XGROUP CREATE x g 0 MKSTREAM").await;
    // A reader starts to wait, whatever is there.
    let mut reader = waiting(&proxy, "XREAD BLOCK 0 STREAMS x $").await;
    ask(&mut writer, "DEL x").await;
    ask(&mut writer, "XADD x 5-1 f v").await;
    assert_eq!(ids(reader.reply().await), ["5-1"]);
}

/// Looking, and trying in vain, leave no trace: a stream with many waiting clients is as quiet as any.
#[tokio::test]
async fn who_waits_writes_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let Bed { _masters: masters, proxies } = Bed::start();
    let mut writer = proxies[0].raw().await;
    ask(&mut writer, "XADD x 1-1 f v").await;
    ask(&mut writer, "XGROUP CREATE x g $").await;
    let mut waiters = Vec::new();
    for proxy in &proxies {
        for line in [
            "XREAD BLOCK 0 STREAMS x $",
            "XREADGROUP GROUP g c BLOCK 0 STREAMS x >",
            "XREADGROUP GROUP g d BLOCK 0 STREAMS x >",
        ] {
            waiters.push(waiting(proxy, line).await);
        }
    }
    let written = || async {
        let mut said = Vec::new();
        for master in masters.iter() {
            let Reply::Bulk(stamp) = master.ask(&["GET", "redlock-proxy:s:x"]).await else {
                panic!("a stamp")
            };
            // The state without the promised ballot.
            said.push(stamp[16..].to_vec());
        }
        said
    };
    eventually("nobody writes", || async {
        let before = written().await;
        tokio::time::sleep(Duration::from_millis(400)).await;
        (written().await == before).then_some(())
    })
    .await;
    // Programs without a change are not prepared any more, either.
    let calls = masters[0].calls("evalsha").await + masters[0].calls("eval").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let now = masters[0].calls("evalsha").await + masters[0].calls("eval").await;
    assert!(now - calls < 4, "{} scripts while nothing happens", now - calls);
}

/// Nothing is lost between two reads, and nothing is delivered twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_every_entry_once_and_in_order() {
    let Bed { _masters, proxies } = Bed::start();
    let mut followers = tokio::task::JoinSet::new();
    for at in 0..4 {
        let mut client = proxies[at % 2].raw().await;
        followers.spawn(async move {
            let (mut last, mut seen) = ("0-0".to_owned(), Vec::new());
            while seen.len() < ENTRIES {
                let line = format!("XREAD BLOCK 0 COUNT {} STREAMS x {last}", 1 + 300 * (at / 2));
                seen.extend(ids(ask(&mut client, &line).await));
                last = seen.last().expect("some").clone();
            }
            seen
        });
    }
    let mut added = Vec::new();
    let mut writers = [proxies[0].raw().await, proxies[1].raw().await];
    for at in 0..ENTRIES {
        let reply = ask(&mut writers[at % 2], "XADD x * f v").await;
        added.push(reply.text());
        if at % 5 == 0 {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..15))).await;
        }
    }
    for seen in followers.join_all().await {
        assert_eq!(seen, added);
    }
}

const ENTRIES: usize = 150;

/// Each entry goes to one consumer, whichever proxy it uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_of_a_group_share_the_entries() {
    let Bed { _masters, proxies } = Bed::start();
    let mut writer = proxies[0].raw().await;
    ask(&mut writer, "XGROUP CREATE x g 0 MKSTREAM").await;
    let mut consumers = tokio::task::JoinSet::new();
    for at in 0..4 {
        let mut client = proxies[at % 2].raw().await;
        consumers.spawn(async move {
            let mut got = Vec::new();
            let line = format!("XREADGROUP GROUP g c{at} COUNT 2 BLOCK 3000 STREAMS x >");
            loop {
                match ask(&mut client, &line).await {
                    Reply::Nil => return got,
                    reply => got.extend(ids(reply)),
                }
                for id in &got {
                    ask(&mut client, &format!("XACK x g {id}")).await;
                }
            }
        });
    }
    let mut added = Vec::new();
    for _ in 0..60 {
        added.push(ask(&mut writer, "XADD x * f v").await.text());
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..15))).await;
    }
    let mut got = consumers.join_all().await.concat();
    got.sort();
    assert_eq!(got, added);
    let pending = ask(&mut writer, "XPENDING x g - + 10").await;
    assert_eq!(pending, Reply::Array(Vec::new()));
}
