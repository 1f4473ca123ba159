//! `CLIENT TRACKING`: clients that cache what they read are told what they must drop, once and never too early.
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::collections::HashMap;
use std::time::Duration;

use support::http::http;
use support::{
    Master, Masters, Proxy, Raw, Relay, Reply, compare, encode, eventually, target_is_plain_redis,
    words,
};
use tokio::time::timeout;

/// Masters that are up report in time, however slow this machine is: no message comes twice.
const UNHURRIED: [&str; 3] = ["--allow-flush", "--vote-timeout", "3s"];

/// A connection in RESP3 that has sent `CLIENT TRACKING ON` and these words.
async fn tracking(address: &str, more: &str) -> Raw {
    let mut raw = Raw::connect_resp3(address).await;
    let on = words(&format!("CLIENT TRACKING ON {more}"));
    assert_eq!(raw.ask(&on).await, Reply::ok(), "{more}");
    raw
}

/// The push that has a client drop these keys.
fn invalidate(keys: &[&str]) -> Reply {
    let keys = keys.iter().map(|key| Reply::bulk(key)).collect();
    Reply::Array(vec![Reply::bulk("invalidate"), Reply::Array(keys)])
}

fn invalidate_all() -> Reply {
    Reply::Array(vec![Reply::bulk("invalidate"), Reply::Nil])
}

/// Changes `key` through `other`, and checks that the client hears of this next: it was told nothing else before.
async fn hears_next(client: &mut Raw, other: &mut Raw, key: &str) {
    other.ask(&["INCR", key]).await;
    assert_eq!(client.reply().await, invalidate(&[key]));
}

async fn ask(raw: &mut Raw, line: &str) -> Reply {
    raw.ask(&words(line)).await
}

#[tokio::test]
async fn errors_and_tracking_info_are_those_of_redis() {
    compare(
        "
        CLIENT TRACKINGINFO
        CLIENT GETREDIR
        CLIENT TRACKING
        CLIENT TRACKING MAYBE
        CLIENT TRACKING ON NONSENSE
        CLIENT TRACKING OFF NONSENSE
        CLIENT TRACKING ON PREFIX
        CLIENT TRACKING ON REDIRECT
        CLIENT TRACKING ON REDIRECT x
        CLIENT TRACKING ON REDIRECT 99999
        CLIENT TRACKING ON REDIRECT -1
        CLIENT TRACKING ON PREFIX a
        CLIENT TRACKING ON BCAST OPTIN
        CLIENT TRACKING ON BCAST OPTOUT
        CLIENT TRACKING ON OPTIN OPTOUT
        CLIENT TRACKING ON BCAST PREFIX a PREFIX ab
        CLIENT CACHING
        CLIENT CACHING YES
        CLIENT CACHING YES NO
        CLIENT TRACKINGINFO x
        CLIENT GETREDIR x
        CLIENT TRACKING OFF
        CLIENT TRACKING ON
        CLIENT TRACKINGINFO
        CLIENT GETREDIR
        CLIENT CACHING YES
        CLIENT CACHING NO
        CLIENT CACHING x
        CLIENT TRACKING ON BCAST
        CLIENT TRACKING ON OPTIN NOLOOP
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON OPTOUT
        CLIENT CACHING NO
        CLIENT CACHING YES
        CLIENT TRACKINGINFO
        CLIENT TRACKINGINFO
        GET nothing
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON
        CLIENT TRACKINGINFO
        CLIENT TRACKING OFF
        CLIENT TRACKING ON OPTOUT
        CLIENT CACHING NO
        CLIENT CACHING YES
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON OPTIN
        CLIENT TRACKING OFF
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON BCAST PREFIX b PREFIX a
        CLIENT TRACKING ON BCAST PREFIX bb
        CLIENT TRACKING ON BCAST PREFIX c NOLOOP
        CLIENT TRACKINGINFO
        CLIENT TRACKING ON
        CLIENT TRACKING OFF
        MULTI
        CLIENT TRACKING ON OPTIN
        CLIENT CACHING YES
        CLIENT TRACKINGINFO
        EXEC
        RESET
        CLIENT TRACKINGINFO
        ",
    )
    .await;
}

/// Sends each line to both, and compares so many frames: the order of replies and messages, byte for byte. Before each
/// line, the proxy has all reports of the line before: Redis has them at once.
async fn assert_frames(
    quiet: &mut Quiet,
    redis: &mut Raw,
    proxy: &mut Raw,
    lines: &[(&str, usize)],
) {
    for (line, frames) in lines {
        quiet.comes().await;
        for raw in [&mut *redis, &mut *proxy] {
            for one in line.split("; ") {
                raw.send(&encode(&words(one))).await;
            }
        }
        for at in 0..*frames {
            let [(_, expected), (_, actual)] = [redis.frame().await, proxy.frame().await];
            let [expected, actual] =
                [expected, actual].map(|it| String::from_utf8_lossy(&it).into_owned());
            assert_eq!(actual, expected, "frame {at} of {line}");
        }
    }
}

/// A client that hears when all masters have reported everything so far.
struct Quiet {
    observer: Raw,
    writer: Raw,
}

impl Quiet {
    async fn of(proxy: &Proxy) -> Quiet {
        let observer = tracking(proxy.address(), "BCAST PREFIX quiet").await;
        Quiet { observer, writer: proxy.raw().await }
    }

    async fn comes(&mut self) {
        self.writer.ask(&["INCR", "quiet"]).await;
        until_told(&mut self.observer, "quiet").await;
    }
}

#[tokio::test]
async fn messages_and_replies_come_in_the_order_of_redis() {
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &UNHURRIED);
    let mut quiet = Quiet::of(&proxy).await;
    let sides = || async {
        (Raw::connect_resp3(&redis.address()).await, Raw::connect_resp3(proxy.address()).await)
    };
    let (mut expected, mut actual) = sides().await;
    // A client hears of its own changes, behind the reply, and once for each read.
    assert_frames(
        &mut quiet,
        &mut expected,
        &mut actual,
        &[
            ("CLIENT TRACKING ON", 1),
            ("GET a", 1),
            ("SET a 1", 2),
            ("SET a 2", 1),
            ("GET a", 1),
            ("DEL a", 2),
            ("MGET a b", 1),
            ("SET b 1", 2),
            ("GET b; GET b; SET b 2", 4),
            ("DEL b", 1),
            ("HGETALL h", 1),
            ("HSET h f v", 2),
            ("EVAL \"return redis.call('get', KEYS[1])\" 1 s", 1),
            ("SET s 1 PX 100000", 2),
            ("TTL s", 1),
            ("EXPIRE s 1000", 2),
            ("MULTI; GET a; GET b; EXEC", 4),
            ("SET a 1", 2),
            ("SET lock token NX PX 100000", 1),
            ("MULTI; GET lock; MGET lock b; EXISTS lock; EXEC", 5),
            ("GET lock", 1),
            ("DEL lock", 2),
            ("GET a", 1),
            ("FLUSHALL", 2),
            ("GET a; CLIENT TRACKING OFF", 2),
            ("SET a 1", 1),
        ],
    )
    .await;
    // Only what was read after `CACHING YES`.
    let (mut expected, mut actual) = sides().await;
    assert_frames(
        &mut quiet,
        &mut expected,
        &mut actual,
        &[
            ("CLIENT TRACKING ON OPTIN", 1),
            ("GET a", 1),
            ("SET a 1", 1),
            ("CLIENT CACHING YES; GET a", 2),
            ("GET b", 1),
            ("SET b 1", 1),
            ("SET a 2", 2),
            ("CLIENT CACHING YES; MULTI; GET a; PTTL a; EXEC", 5),
            ("SET a 2", 2),
        ],
    )
    .await;
    // All but what was read after `CACHING NO`.
    let (mut expected, mut actual) = sides().await;
    assert_frames(
        &mut quiet,
        &mut expected,
        &mut actual,
        &[
            ("CLIENT TRACKING ON OPTOUT", 1),
            ("CLIENT CACHING NO; GET a", 2),
            ("SET a 1", 1),
            ("GET a", 1),
            ("SET a 1", 2),
        ],
    )
    .await;
    // Everything with the prefix, whether it was read or not.
    let (mut expected, mut actual) = sides().await;
    assert_frames(
        &mut quiet,
        &mut expected,
        &mut actual,
        &[
            ("CLIENT TRACKING ON BCAST PREFIX a PREFIX b", 1),
            ("SET a 1", 2),
            ("SET c 1", 1),
            ("SET b1 1", 2),
            ("FLUSHALL", 2),
        ],
    )
    .await;
}

/// The masters have read the old value, and their answers are slow. A client that heard of the change first would cache
/// that value for ever.
#[tokio::test]
async fn a_message_does_not_overtake_the_reply_to_a_read_in_flight() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let slow = Proxy::in_front_of(&addresses, &["--vote-timeout", "10s"]);
    let direct = Proxy::start(&masters, &[]);
    let mut writer = direct.raw().await;
    let mut client = tracking(slow.address(), "").await;
    let mut observer = tracking(slow.address(), "BCAST").await;
    hears_next(&mut observer, &mut writer, "slow").await;
    relays.iter().for_each(|relay| relay.hold_back_answers_to("slow"));
    client.send(&[encode(&["GET", "slow"]), encode(&["ECHO", "behind"])].concat()).await;
    eventually("the read arrives", || async {
        relays.iter().all(|relay| relay.caught() > 0).then_some(())
    })
    .await;
    hears_next(&mut observer, &mut writer, "slow").await;
    relays.iter().for_each(Relay::heal);
    assert!(matches!(client.reply().await, Reply::Bulk(_)));
    let rest = client.replies(2).await;
    assert!(rest.contains(&invalidate(&["slow"])) && rest.contains(&Reply::bulk("behind")));
}

#[tokio::test]
async fn a_change_through_any_proxy_is_told_once_to_each_client_that_has_read_the_key() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &UNHURRIED), Proxy::start(&masters, &UNHURRIED)];
    let mut writer = proxies[proxies.len() - 1].raw().await;
    let mut clients = Vec::new();
    for more in ["", "OPTOUT", "NOLOOP", "BCAST PREFIX key PREFIX last", ""] {
        clients.push(tracking(proxies[0].address(), more).await);
    }
    let changes = [
        "SET key token NX PX 60000",
        "DEL key",
        "LPUSH key element",
        "UNLINK key",
        "MSET key 1 unread 2",
        "EVAL \"return redis.call('del', KEYS[1])\" 1 key",
    ];
    for change in changes.iter().cycle().take(3 * changes.len()) {
        for client in &mut clients {
            ask(client, "MGET key last").await;
        }
        assert!(!matches!(ask(&mut writer, change).await, Reply::Error(_)));
        for client in &mut clients {
            assert_eq!(client.reply().await, invalidate(&["key"]), "{change}");
        }
        // They hear of this next, and so of nothing twice.
        ask(&mut writer, "INCR last").await;
        for client in &mut clients {
            assert_eq!(client.reply().await, invalidate(&["last"]), "after {change}");
        }
    }
}

#[tokio::test]
async fn a_lease_and_a_value_that_end_are_told() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = tracking(proxy.address(), "").await;
    let mut broadcast = tracking(proxy.address(), "BCAST PREFIX v").await;
    // Masters keep a value for a minute longer than a lease.
    for set in ["SET lease token NX PX 700", "SET value 1 PX 700"] {
        let key = set.split(' ').nth(1).expect("a key");
        let mut writer = proxy.raw().await;
        assert_eq!(ask(&mut writer, set).await, Reply::ok());
        assert_ne!(client.ask(&["GET", key]).await, Reply::Nil);
        until_told(&mut client, key).await;
        eventually("the end", || async {
            let mut reader = proxy.raw().await;
            (reader.ask(&["GET", key]).await == Reply::Nil).then_some(())
        })
        .await;
    }
    until_told(&mut broadcast, "value").await;
    until_told(&mut broadcast, "value").await;
}

/// Waits for the message about a key. Reports may still be on their way from before.
async fn until_told(client: &mut Raw, key: &str) {
    while client.reply().await != invalidate(&[key]) {}
}

#[tokio::test]
async fn a_client_with_noloop_hears_of_the_changes_of_others_alone() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &UNHURRIED);
    let mut other = proxy.raw().await;
    for more in ["NOLOOP", "NOLOOP BCAST"] {
        let mut client = tracking(proxy.address(), more).await;
        let own = [
            "SET k token NX PX 60000",
            "DEL k",
            "INCR k",
            "EXPIRE k 100",
            "GETDEL k",
            "SADD k a",
            "UNLINK k",
        ];
        for change in own {
            assert_ne!(ask(&mut client, "EXISTS k last").await, Reply::Nil);
            assert!(!matches!(ask(&mut client, change).await, Reply::Error(_)), "{change}");
            ask(&mut client, "EXISTS k").await;
            hears_next(&mut client, &mut other, "last").await;
        }
        // A refused claim has changed nothing: the other client's change counts.
        ask(&mut client, "GET k").await;
        assert_eq!(ask(&mut other, "SET k other NX PX 60000").await, Reply::ok());
        let refused = ask(&mut client, "SET k mine NX PX 60000").await;
        let (reply, told) = match refused {
            Reply::Nil => (refused, client.reply().await),
            told => (client.reply().await, told),
        };
        assert_eq!((reply, told), (Reply::Nil, invalidate(&["k"])), "{more}");
        ask(&mut other, "DEL k").await;
        drain(&mut client, &mut other).await;
    }
}

/// Reads what has been told so far.
async fn drain(client: &mut Raw, other: &mut Raw) {
    ask(client, "GET drained").await;
    ask(other, "INCR drained").await;
    until_told(client, "drained").await;
}

#[tokio::test]
async fn invalidations_go_to_another_connection_in_resp2_too() {
    let masters = Masters::start(3);
    let proxy =
        Proxy::start(&masters, &["--allow-flush", "--vote-timeout", "3s", "--workers", "2"]);
    let mut writer = proxy.raw().await;
    let message = |what: Reply| {
        Reply::Array(vec![Reply::bulk("message"), Reply::bulk("__redis__:invalidate"), what])
    };
    for version in ["2", "3"] {
        // Connections of both workers.
        for _ in 0..4 {
            let mut listener = match version {
                "3" => Raw::connect_resp3(proxy.address()).await,
                _ => proxy.raw().await,
            };
            let Reply::Int(id) = ask(&mut listener, "CLIENT ID").await else { panic!("no id") };
            if version == "2" {
                listener.ask(&["SUBSCRIBE", "__redis__:invalidate"]).await;
            }
            let mut client = proxy.raw().await;
            let on = format!("CLIENT TRACKING ON REDIRECT {id}");
            assert_eq!(ask(&mut client, &on).await, Reply::ok());
            assert_eq!(ask(&mut client, "CLIENT GETREDIR").await, Reply::Int(id));
            let info = ask(&mut client, "CLIENT INFO").await.text();
            assert!(
                info.contains(&format!(" redir={id} ")) && info.contains(" flags=t "),
                "{info}"
            );
            ask(&mut client, "GET key").await;
            ask(&mut writer, "INCR key").await;
            let (some, all) = match version {
                "3" => (invalidate(&["key"]), invalidate_all()),
                _ => (message(Reply::Array(vec![Reply::bulk("key")])), message(Reply::Nil)),
            };
            assert_eq!(listener.reply().await, some);
            assert_eq!(ask(&mut writer, "FLUSHALL").await, Reply::ok());
            assert_eq!(listener.reply().await, all);
        }
    }
}

#[tokio::test]
async fn a_client_learns_that_the_connection_it_redirects_to_has_gone() {
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &UNHURRIED);
    for address in [redis.address(), proxy.address().to_owned()] {
        let mut listener = Raw::connect_resp3(&address).await;
        let Reply::Int(id) = ask(&mut listener, "CLIENT ID").await else { panic!("no id") };
        let mut client = tracking(&address, &format!("REDIRECT {id}")).await;
        ask(&mut client, "GET key").await;
        drop(listener);
        let mut writer = Raw::connect(&address).await;
        eventually("its end", || async {
            let mut other = Raw::connect(&address).await;
            let list = ask(&mut other, &format!("CLIENT LIST ID {id}")).await.text();
            (!list.contains(&format!("id={id} "))).then_some(())
        })
        .await;
        ask(&mut writer, "INCR key").await;
        let broken = Reply::Array(vec![Reply::bulk("tracking-redir-broken"), Reply::Int(id)]);
        assert_eq!(client.reply().await, broken, "{address}");
        let info = ask(&mut client, "CLIENT TRACKINGINFO").await;
        let flags = info.field("flags").expect("flags");
        assert_eq!(flags, Reply::Array(vec![Reply::bulk("on"), Reply::bulk("broken_redirect")]));
        let line = ask(&mut client, "CLIENT INFO").await.text();
        assert!(line.contains(" flags=tR "), "{line}");
    }
}

/// What was read from a master that is gone may change where nobody hears of it.
#[tokio::test]
async fn a_lost_master_has_clients_drop_everything_and_they_cache_again() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let mut client = tracking(proxy.address(), "").await;
    let mut other = proxy.raw().await;
    ask(&mut client, "GET key").await;
    masters.minority()[0].kill_9();
    assert_eq!(client.reply().await, invalidate_all());
    // Until its link is known to be down, replies are to be dropped at once.
    eventually("caching again", || async { is_cached(proxy.address()).await.then_some(()) }).await;
    drain(&mut client, &mut other).await;
    ask(&mut client, "GET key").await;
    hears_next(&mut client, &mut other, "key").await;
    masters.minority()[0].restart_empty();
    ask(&mut client, "GET key").await;
    until(&mut client, &invalidate_all()).await;
}

async fn until(client: &mut Raw, message: &Reply) {
    while client.reply().await != *message {}
}

/// Whether a client may keep what it reads: no message comes right behind the reply.
async fn is_cached(address: &str) -> bool {
    let mut client = tracking(address, "").await;
    client.send(&[encode(&["GET", "is-cached"]), encode(&["PING"])].concat()).await;
    client.reply().await;
    client.reply().await == Reply::Simple("PONG".to_owned())
}

/// A master whose reports do not arrive votes all the same: nothing may be cached, and every reply says so.
#[tokio::test]
async fn while_a_voter_does_not_report_every_reply_is_followed_by_a_message() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, proxy) = Relay::between(&masters, 0, &["--patience", "300ms"]);
    relay.swallow("BCAST");
    let mut client = tracking(proxy.address(), "").await;
    for _ in 0..3 {
        client.send(&encode(&["GET", "key"])).await;
        assert_eq!(client.reply().await, Reply::Nil);
        assert_eq!(client.reply().await, invalidate(&["key"]));
    }
}

#[tokio::test]
async fn tracking_is_refused_if_the_masters_refuse_it() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--admin", "127.0.0.1:0"]);
    proxy.expect_warnings();
    for master in masters.iter() {
        assert_eq!(master.ask(&words("ACL SETUSER default -client|tracking")).await, Reply::ok());
    }
    let mut client = Raw::connect_resp3(proxy.address()).await;
    let refused = ask(&mut client, "CLIENT TRACKING ON").await;
    assert!(refused.is_error("CLUSTERDOWN cannot track: a master answered: NOPERM"), "{refused:?}");
    let status = http(&proxy.admin_address(), "GET", "/status.json", "").body;
    assert!(status.contains("cannot hear which keys change on this master"), "{status}");
    let info = ask(&mut client, "CLIENT TRACKINGINFO").await;
    assert_eq!(info.field("flags"), Some(Reply::Array(vec![Reply::bulk("off")])));
    assert!(ask(&mut client, "CLIENT INFO").await.text().contains(" flags=N "));
    for master in masters.iter() {
        assert_eq!(master.ask(&words("ACL SETUSER default +client|tracking")).await, Reply::ok());
    }
    eventually("permission", || async {
        let mut client = Raw::connect_resp3(proxy.address()).await;
        (ask(&mut client, "CLIENT TRACKING ON").await == Reply::ok()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_connections_that_report_exist_only_while_somebody_is_told() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let reporting = || async {
        let mut count = 0;
        for master in masters.iter() {
            let list = master.ask(&words("CLIENT LIST")).await.text();
            count += list.lines().filter(|line| line.contains(" flags=tB ")).count();
        }
        count
    };
    assert_eq!(reporting().await, 0);
    let clients = [tracking(proxy.address(), "").await, tracking(proxy.address(), "BCAST").await];
    assert_eq!(reporting().await, 3);
    drop(clients);
    eventually("their end", || async { (reporting().await == 0).then_some(()) }).await;
    tracking(proxy.address(), "").await;
    assert_eq!(reporting().await, 3);
}

#[tokio::test]
async fn the_proxy_s_own_names_are_never_told() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &UNHURRIED);
    let (mut client, mut other) = (tracking(proxy.address(), "BCAST").await, proxy.raw().await);
    // Registers have stamps, which change along with them.
    for key in ["a", "b", "c"] {
        hears_next(&mut client, &mut other, key).await;
    }
    let mut client = tracking(proxy.address(), "BCAST PREFIX redlock-proxy:").await;
    hears_next_of_nothing(&mut client, &mut other).await;
}

async fn hears_next_of_nothing(client: &mut Raw, other: &mut Raw) {
    assert_eq!(ask(client, "CLIENT TRACKING ON BCAST PREFIX last").await, Reply::ok());
    ask(other, "INCR a").await;
    hears_next(client, other, "last").await;
}

#[tokio::test]
async fn changes_on_every_shard_are_told() {
    if target_is_plain_redis() {
        return;
    }
    let shards = [Masters::start(3), Masters::start(3)];
    let named = ["a", "b"].iter().zip(&shards);
    let named = named.map(|(name, masters)| format!("{name}={}", masters.addresses().join(",")));
    let [a, b]: [String; 2] = named.collect::<Vec<_>>().try_into().expect("two");
    let proxy = Proxy::unready(&[], &["--shard", &a, "--shard", &b, "--vote-timeout", "3s"]);
    proxy.expect_warnings();
    // Keys of both shards: half of all slots each.
    let keys: Vec<String> = (0..16).map(|number| format!("key{number}")).collect();
    for key in &keys {
        eventually("the shards serve", || async {
            (proxy.raw().await.ask(&["SET", key, "1"]).await == Reply::ok()).then_some(())
        })
        .await;
    }
    let mut other = proxy.raw().await;
    for more in ["", "NOLOOP", "BCAST"] {
        let mut client = tracking(proxy.address(), more).await;
        for key in &keys {
            client.ask(&["GET", key]).await;
        }
        for key in &keys {
            hears_next(&mut client, &mut other, key).await;
        }
    }
    for masters in &shards {
        let mut held = 0;
        for key in &keys {
            held += masters.having(key).await;
        }
        assert!(held > 0, "each shard has some of the keys");
    }
}

/// Numbers only grow, so a client with an old one has missed a change. Two proxies write, and a master is lost and comes
/// back meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caching_client_never_keeps_an_old_value() {
    if target_is_plain_redis() {
        return;
    }
    const KEYS: [&str; 3] = ["one", "two", "three"];
    let mut masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    proxies.iter().for_each(Proxy::expect_warnings);
    for stage in 0..3 {
        let mut cache = Cache::of(tracking(proxies[0].address(), "").await);
        let writers: Vec<_> = proxies
            .iter()
            .enumerate()
            .map(|(at, proxy)| {
                let address = proxy.address().to_owned();
                tokio::spawn(async move {
                    let mut raw = Raw::connect(&address).await;
                    for round in 0..60 {
                        raw.ask(&["INCR", KEYS[(round + at) % KEYS.len()]]).await;
                    }
                })
            })
            .collect();
        match stage {
            1 => masters.minority()[0].kill_9(),
            2 => masters.minority()[0].restart_empty(),
            _ => {}
        }
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            for key in KEYS {
                cache.read(key).await;
            }
        }
        for writer in writers {
            writer.await.expect("no panic");
        }
        for key in KEYS {
            cache.read(key).await;
            let mut reader = proxies[1].raw().await;
            let newest = eventually("an answer", || async {
                let reply = Raw::connect(proxies[1].address()).await.ask(&["GET", key]).await;
                (!matches!(reply, Reply::Error(_))).then_some(reply)
            })
            .await;
            drop(reader.ask(&["PING"]).await);
            let limit = tokio::time::Instant::now() + support::PATIENCE;
            while cache.values.get(key).is_some_and(|value| *value != newest) {
                assert!(tokio::time::Instant::now() < limit, "{key} stays old: {:?}", cache.values);
                cache.hear().await;
            }
        }
        assert!(cache.hits > 0 || stage > 0, "something was cached");
    }
}

/// A client that keeps what it reads until it is told to drop it.
struct Cache {
    raw: Raw,
    values: HashMap<String, Reply>,
    hits: usize,
}

impl Cache {
    fn of(raw: Raw) -> Cache {
        Cache { raw, values: HashMap::new(), hits: 0 }
    }

    async fn read(&mut self, key: &str) {
        if self.values.contains_key(key) {
            self.hits += 1;
            return self.hear().await;
        }
        self.raw.send(&encode(&["GET", key])).await;
        loop {
            let (reply, bytes) = self.raw.frame().await;
            if bytes[0] == b'>' {
                self.drop_as_told(&reply);
                continue;
            }
            if !matches!(reply, Reply::Error(_)) {
                self.values.insert(key.to_owned(), reply);
            }
            return;
        }
    }

    /// Reads messages for a moment.
    async fn hear(&mut self) {
        let moment = Duration::from_millis(2);
        while let Ok((reply, _)) = timeout(moment, self.raw.frame()).await {
            self.drop_as_told(&reply);
        }
    }

    fn drop_as_told(&mut self, push: &Reply) {
        let Reply::Array(parts) = push else { panic!("no push: {push:?}") };
        match &parts[1] {
            Reply::Array(keys) => keys.iter().for_each(|key| {
                self.values.remove(&key.text());
            }),
            _ => self.values.clear(),
        }
    }
}
