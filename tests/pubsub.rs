//! A message published through any proxy, or on a master, reaches every subscriber of every proxy once, while all is
//! well. `pubsub_failures.rs` covers failing masters, `pubsub_replies.rs` the form of replies.

mod support;

use std::time::Duration;

use redis::Value;
use support::subscriber::{publish_at, subscriptions};
use support::{
    Masters, PROTOCOLS, Proxy, Raw, Relay, Reply, Subscriber, encode, eventually, int,
    target_is_plain_redis, text, value,
};
use tokio::time::timeout;

#[tokio::test]
async fn every_subscriber_of_every_proxy_hears_it_once() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &["--workers", "2"])];
    let mut subscribers = Vec::new();
    for (proxy, protocol) in proxies.iter().flat_map(|proxy| PROTOCOLS.map(|p| (proxy, p))) {
        for words in [["SUBSCRIBE", "news"], ["PSUBSCRIBE", "n?ws"], ["SUBSCRIBE", "news"]] {
            subscribers.push(Subscriber::new(proxy.address(), protocol, &words).await);
        }
    }
    let mut publishers = [proxies[0].connection().await, proxies[1].connection().await];
    for number in 0..20 {
        let publish = ["PUBLISH", "news", &number.to_string()];
        assert!(int(&mut publishers[number % 2], &publish).await > 0);
    }
    for master in masters.iter() {
        publish_at(master, "news", "end").await;
    }
    for subscriber in &mut subscribers {
        let heard = subscriber.texts_until("end", masters.len()).await;
        let numbers: Vec<usize> = heard.iter().map(|text| text.parse().expect("one")).collect();
        // Two publishers have no order between them, but each of them has its own.
        for publisher in 0..2 {
            let of_one = numbers.iter().copied().filter(|number| number % 2 == publisher);
            assert_eq!(of_one.collect::<Vec<_>>(), (publisher..20).step_by(2).collect::<Vec<_>>());
        }
        subscriber.nothing_more().await;
    }
}

/// Messages of any bytes, empty, long, and some that look like an envelope.
#[tokio::test]
async fn messages_arrive_as_they_were_published() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = every_byte.repeat(4_000);
    let sealed = [b"\xffredlck\x01".as_slice(), &[7; 16], b"text"].concat();
    for protocol in PROTOCOLS {
        let mut subscriber =
            Subscriber::new(proxy.address(), protocol, &["SSUBSCRIBE", "raw"]).await;
        let mut publisher = proxy.raw().await;
        for message in [&b""[..], b"\r\n", &every_byte, &sealed, &long, b"last"] {
            let publish: [&[u8]; 3] = [b"SPUBLISH", b"raw", message];
            assert_eq!(publisher.ask(&publish).await, Reply::Int(1));
            let Reply::Array(items) = subscriber.raw.reply().await else { panic!("no message") };
            assert_eq!(items[2], Reply::Bulk(message.to_vec()));
        }
    }
}

/// A message published past the proxy is delivered as it is, once for each master that received it.
#[tokio::test]
async fn what_is_published_on_a_master_is_delivered_as_it_is() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut subscriber = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "news"]).await;
    for master in masters.iter() {
        assert_eq!(publish_at(master, "news", "direct").await, 1);
        assert_eq!(subscriber.message().await, ["message", "news", "direct"]);
    }
    subscriber.nothing_more().await;
}

/// A confirmation is a promise: nothing before it, everything after it. It holds from the first time on, when the
/// proxy has yet to connect, and however often a client changes its mind.
#[tokio::test]
async fn what_is_published_after_the_confirmation_is_heard() {
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let mut publisher = proxies[1].connection().await;
    let mut raw = proxies[0].raw().await;
    for round in 0..100 {
        let number = round.to_string();
        assert_eq!(count(&raw.ask(&["SUBSCRIBE", "news"]).await), 1);
        assert_eq!(int(&mut publisher, &["PUBLISH", "news", &number]).await, 1);
        let message = Reply::Array(["message", "news", &number].map(Reply::bulk).to_vec());
        assert_eq!(raw.reply().await, message);
        assert_eq!(count(&raw.ask(&["UNSUBSCRIBE", "news"]).await), 0);
        assert_eq!(int(&mut publisher, &["PUBLISH", "news", "nobody"]).await, 0);
    }
    assert_eq!(raw.ask(&["PING"]).await, Reply::Simple("PONG".to_owned()));
}

/// A single Redis has the subscription as soon as it has read the request. The proxy has yet to hear from the masters,
/// and the first time even to connect.
#[tokio::test]
async fn what_is_published_right_behind_a_subscription_is_lost() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut publisher = proxy.raw().await;
    let kinds = [
        ["SUBSCRIBE", "PUBLISH", ""],
        ["PSUBSCRIBE", "PUBLISH", "*"],
        ["SSUBSCRIBE", "SPUBLISH", ""],
    ];
    for attempt in 0..40 {
        let [subscribe, publish, rest] = kinds[attempt % kinds.len()];
        let (channel, pause) = (format!("news{attempt}."), 1 + attempt as u64 % 5);
        let mut subscriber = proxy.raw().await;
        assert!(!matches!(subscriber.ask(&["PING"]).await, Reply::Error(_)));
        subscriber.send(&encode(&[subscribe, &format!("{channel}{rest}")])).await;
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let told = publisher.ask(&[publish, &channel, "heard"]).await;
        assert_eq!(told, Reply::Int(1), "{publish} {attempt}, {pause} ms behind");
        assert_eq!(count(&subscriber.reply().await), 1);
        let Reply::Array(message) = subscriber.reply().await else { panic!("no message") };
        assert_eq!(message.last(), Some(&Reply::bulk("heard")));
    }
}

/// The message waits for the subscriptions before it, on whichever thread, and its client's later requests wait with it.
/// A message that concerns no waiting subscription does not wait, and one whose client has left is delivered.
#[tokio::test]
async fn a_message_overtakes_a_subscription_on_its_way_to_the_masters() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    for workers in ["1", "2"] {
        let flags = ["--vote-timeout", "10s", "--workers", workers];
        let proxy = Proxy::in_front_of(&addresses, &flags);
        let (mut subscriber, mut second) = (proxy.raw().await, proxy.raw().await);
        // One of them has the thread that the subscriber does not have.
        let mut publishers = [proxy.raw().await, proxy.raw().await, proxy.raw().await];
        let mut leaver = proxy.raw().await;
        for connection in publishers.iter_mut().chain([&mut second, &mut leaver]) {
            assert_eq!(connection.ask(&["SET", "k", "v"]).await, Reply::ok());
        }
        let caught: Vec<usize> = relays.iter().map(Relay::caught).collect();
        relays.iter().for_each(|relay| relay.hold_back("subscribe"));
        subscriber.send(&encode(&["PSUBSCRIBE", "ne*"])).await;
        eventually("all are told", || {
            let mut told = relays.iter().zip(&caught);
            let are_told = told.all(|(relay, before)| relay.caught() > *before);
            async move { are_told.then_some(()) }
        })
        .await;
        for publisher in &mut publishers {
            assert_eq!(publisher.ask(&["PUBLISH", "old", "x"]).await, Reply::Int(0));
            assert_eq!(publisher.ask(&["SPUBLISH", "new", "x"]).await, Reply::Int(0));
            let requests =
                [&["PUBLISH", "new", "one"][..], &["PUBLISH", "new", "two"], &["GET", "k"]];
            publisher.send(&requests.map(encode).concat()).await;
            let early = timeout(Duration::from_millis(100), publisher.reply()).await;
            assert!(early.is_err(), "{early:?}");
        }
        leaver.send(&encode(&["PUBLISH", "new", "left"])).await;
        leaver.finish_sending().await;
        relays.iter().for_each(Relay::heal);
        assert_eq!(count(&subscriber.reply().await), 1);
        for publisher in &mut publishers {
            let heard = [Reply::Int(1), Reply::Int(1), Reply::bulk("v")];
            assert_eq!(publisher.replies(3).await, heard, "{workers} workers");
        }
        let mut heard = Vec::new();
        for _ in 0..2 * publishers.len() + 1 {
            let Reply::Array(message) = subscriber.reply().await else { panic!("no message") };
            heard.extend(message.last().map(|text| text.text().to_owned()));
        }
        heard.sort_unstable();
        assert_eq!(heard, ["left", "one", "one", "one", "two", "two", "two"]);
    }
}

/// A master that stands still delays the confirmation by the vote timeout, and the message no longer.
#[tokio::test]
async fn a_master_that_stands_still_keeps_messages_from_new_subscribers() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "1s"]);
    proxy.expect_warnings();
    let (mut subscriber, mut publisher) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(publisher.ask(&["SET", "k", "v"]).await, Reply::ok());
    assert_eq!(subscriber.ask(&["SET", "k", "v"]).await, Reply::ok());
    masters[2].stop();
    subscriber.send(&encode(&["SUBSCRIBE", "news"])).await;
    let listed = ["CLIENT", "LIST", "TYPE", "normal"];
    eventually("the request has been read", || {
        let address = proxy.address();
        async move {
            let mut raw = Raw::connect(address).await;
            raw.ask(&listed).await.text().contains("cmd=subscribe").then_some(())
        }
    })
    .await;
    assert_eq!(publisher.ask(&["PUBLISH", "news", "heard"]).await, Reply::Int(1));
    assert_eq!(count(&subscriber.reply().await), 1);
    let message = Reply::Array(["message", "news", "heard"].map(Reply::bulk).to_vec());
    assert_eq!(subscriber.reply().await, message);
    masters[2].cont();
}

/// A message does not wait for longer than two vote timeouts for a subscription that no master confirms.
#[tokio::test]
async fn a_subscription_that_no_master_confirms_keeps_messages_for_ever() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "200ms"]);
    proxy.expect_warnings();
    let (mut subscriber, mut publisher) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(publisher.ask(&["SET", "k", "v"]).await, Reply::ok());
    relays.iter().for_each(|relay| relay.hold_back("subscribe"));
    let names = (0..100).map(|name| format!("n{name}"));
    let words: Vec<String> = std::iter::once("SUBSCRIBE".to_owned()).chain(names).collect();
    subscriber.send(&encode(&words)).await;
    for _ in 0..3 {
        assert_eq!(publisher.ask(&["PUBLISH", "n0", "x"]).await, Reply::Int(0));
    }
    let refusal = subscriber.reply().await;
    assert!(refusal.is_error("CLUSTERDOWN cannot subscribe: "), "{refusal:?}");
    assert_eq!(publisher.ask(&["PUBLISH", "n0", "x"]).await, Reply::Int(0));
}

/// As with `UNSUBSCRIBE`, the masters know before the client gets its reply.
#[tokio::test]
async fn whoever_was_reset_is_not_counted_as_a_receiver() {
    let masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &["--vote-timeout", "10s"]);
    let (mut subscriber, mut publisher) = (proxy.raw().await, proxy.raw().await);
    subscriber.ask(&["SUBSCRIBE", "news"]).await;
    relays.iter().for_each(|relay| relay.hold_back("unsubscribe"));
    subscriber.send(&encode(&["RESET"])).await;
    eventually("all are told", || {
        let told = relays.iter().all(|relay| relay.caught() > 0);
        async move { told.then_some(()) }
    })
    .await;
    assert_eq!(publisher.ask(&["PUBLISH", "news", "x"]).await, Reply::Int(1));
    let early = timeout(Duration::from_millis(100), subscriber.reply()).await;
    assert!(early.is_err(), "{early:?}");
    relays.iter().for_each(Relay::heal);
    assert_eq!(subscriber.reply().await, Reply::Simple("RESET".into()));
    assert_eq!(publisher.ask(&["PUBLISH", "news", "x"]).await, Reply::Int(0));
    // Requests behind it are answered behind it.
    subscriber.ask(&["SUBSCRIBE", "news"]).await;
    let behind = [&["RESET"][..], &["GET", "k"], &["RESET"], &["SUBSCRIBE", "news"]];
    subscriber.send(&behind.map(encode).concat()).await;
    let reset = Reply::Simple("RESET".into());
    assert_eq!(subscriber.reply().await, reset);
    assert_eq!(subscriber.reply().await, Reply::Nil);
    assert_eq!(subscriber.reply().await, reset);
    assert_eq!(count(&subscriber.reply().await), 1);
    subscriber
        .send(&behind[2..].iter().map(|words| encode(words)).collect::<Vec<_>>().concat())
        .await;
    assert_eq!(subscriber.reply().await, reset);
    assert_eq!(count(&subscriber.reply().await), 1);
}

/// Several names in one request, and requests behind it in the same packet.
#[tokio::test]
async fn pipelined_requests_keep_their_order() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = Raw::connect_resp3(proxy.address()).await;
    let requests: [&[&str]; 6] = [
        &["SET", "k", "v"],
        &["SUBSCRIBE", "a", "b"],
        &["GET", "k"],
        &["UNSUBSCRIBE", "a"],
        &["PUBLISH", "a", "unheard"],
        &["PING"],
    ];
    raw.send(&requests.map(encode).concat()).await;
    let replies = raw.replies(7).await;
    assert_eq!(replies[0], Reply::ok());
    assert_eq!((count(&replies[1]), count(&replies[2])), (1, 2));
    assert_eq!(replies[3], Reply::bulk("v"));
    assert_eq!(count(&replies[4]), 1);
    assert_eq!(replies[5], Reply::Int(0));
    assert_eq!(replies[6], Reply::Simple("PONG".to_owned()));
}

/// A client that receives the message that a lock is free finds it free. This holds even if the holder has sent the
/// release and the message in one packet, and all masters but one are far from the holder's proxy.
#[tokio::test]
async fn a_message_does_not_overtake_what_it_announces() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relays = [Relay::to(&masters[1]), Relay::to(&masters[2])];
    let addresses = [masters[0].address(), relays[0].address(), relays[1].address()];
    let (far, near) = (Proxy::in_front_of(&addresses, &[]), Proxy::start(&masters, &[]));
    let mut subscriber = Subscriber::new(near.address(), "2", &["SUBSCRIBE", "freed"]).await;
    let (mut holder, mut next) = (far.raw().await, near.connection().await);
    assert_eq!(holder.ask(&["SET", "lock", "mine", "NX", "PX", "600000"]).await, Reply::ok());
    for master in masters.iter() {
        master.holds("lock", "mine").await;
    }
    relays.iter().for_each(|relay| relay.delay(Duration::from_millis(200), Duration::ZERO));
    holder.send(&[encode(&["DEL", "lock"]), encode(&["PUBLISH", "freed", ""])].concat()).await;
    subscriber.message().await;
    let claim = ["SET", "lock", "next", "NX", "PX", "600000"];
    assert_eq!(value(&mut next, &claim).await, Ok(Value::Okay));
    assert_eq!(holder.replies(2).await, [Reply::Int(1), Reply::Int(1)]);
}

/// In RESP3 a subscriber continues its other work: replies and messages come in any mix, but never one inside the
/// other.
#[tokio::test]
async fn replies_and_messages_do_not_tear_each_other() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (large, rounds) = ("v".repeat(100_000), 100);
    let mut subscriber = Subscriber::new(proxy.address(), "3", &["SUBSCRIBE", "news"]).await;
    assert_eq!(subscriber.raw.ask(&["SET", "k", &large]).await, Reply::ok());
    let mut publisher = proxy.raw().await;
    let publish = encode(&["PUBLISH", "news", &large]).repeat(rounds);
    let get = encode(&["GET", "k"]).repeat(rounds);
    tokio::join!(publisher.send(&publish), subscriber.raw.send(&get));
    let (mut messages, mut values) = (0, 0);
    while messages < rounds || values < rounds {
        match subscriber.raw.reply().await {
            Reply::Array(message) => messages += usize::from(message[2] == Reply::bulk(&large)),
            reply => values += usize::from(reply == Reply::bulk(&large)),
        }
    }
    subscriber.nothing_more().await;
}

#[tokio::test]
async fn the_client_list_knows_subscribers() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut other = proxy.connection().await;
    let mut subscriber = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "a", "b"]).await;
    subscriber.change(&["PSUBSCRIBE", "p"]).await;
    subscriber.change(&["SSUBSCRIBE", "s", "t", "u"]).await;
    let list = text(&mut other, &["CLIENT", "LIST", "TYPE", "pubsub"]).await.expect("a list");
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 1, "{list}");
    for field in [" flags=P ", " sub=2 ", " psub=1 ", " ssub=3 "] {
        assert!(lines[0].contains(field), "{list}");
    }
    let others = text(&mut other, &["CLIENT", "LIST", "TYPE", "normal"]).await.expect("a list");
    assert!(others.lines().all(|line| line.contains(" flags=N ")), "{others}");
    assert_eq!(int(&mut other, &["CLIENT", "KILL", "TYPE", "pubsub"]).await, 1);
    assert!(subscriber.raw.until_closed().await.is_empty());
    eventually("nobody is subscribed any more", || {
        let mut other = other.clone();
        async move { (int(&mut other, &["PUBLISH", "a", "gone"]).await == 0).then_some(()) }
    })
    .await;
}

/// `CLIENT REPLY SKIP` is used up by a subscription, whose confirmation comes nevertheless.
#[tokio::test]
async fn a_confirmation_is_not_skipped() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for protocol in PROTOCOLS {
        let mut raw = Raw::connect(proxy.address()).await;
        assert!(matches!(raw.ask(&["HELLO", protocol]).await, Reply::Map(_) | Reply::Array(_)));
        raw.send(&encode(&["CLIENT", "REPLY", "SKIP"])).await;
        assert_eq!(count(&raw.ask(&["SUBSCRIBE", "a"]).await), 1);
        raw.send(&encode(&["PING", "first"])).await;
        assert!(format!("{:?}", raw.reply().await).contains(&format!("{:?}", b"first")));
    }
}

/// A client that subscribes and does not read is disconnected; the others do not notice.
#[tokio::test]
async fn a_subscriber_that_does_not_read_is_disconnected() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    let mut other = proxy.connection().await;
    let mut reads = Subscriber::new(proxy.address(), "3", &["SUBSCRIBE", "news"]).await;
    let _sleeps = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "news"]).await;
    let message = "m".repeat(1 << 19);
    let mut rounds = 0;
    while int(&mut other, &["PUBLISH", "news", &message]).await == 2 {
        assert_eq!(reads.text().await.len(), message.len());
        rounds += 1;
        assert!(rounds < 1_000, "half a gigabyte was kept for a client that does not read");
    }
    assert!(rounds > 120, "disconnected after {rounds} messages");
    assert_eq!(reads.text().await.len(), message.len());
    let list = text(&mut other, &["CLIENT", "LIST", "TYPE", "pubsub"]).await.expect("a list");
    assert_eq!(list.lines().count(), 1, "{list}");
}

/// The proxy logs in to masters on its subscriber connections, as it does where it votes.
#[tokio::test]
async fn masters_may_ask_for_passwords() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    for (master, password) in [(1, "one"), (2, "two")] {
        let mut direct = masters[master].connection().await;
        let set = ["CONFIG", "SET", "requirepass", password];
        assert_eq!(value(&mut direct, &set).await, Ok(Value::Okay));
    }
    let with_password = format!("redis://:one@{}", masters[1].address());
    let with_user = format!("redis://default:two@{}", masters[2].address());
    let flags = ["--master", &with_password, "--master", &with_user];
    let proxy = Proxy::in_front_of(&masters.addresses()[..1], &flags);
    proxy.expect_warnings();
    let mut publisher = proxy.connection().await;
    let all_vote = || async {
        let info = text(&mut publisher.clone(), &["INFO", "redlock"]).await?;
        info.contains("\r\nvoters:3\r\n").then_some(())
    };
    eventually("all masters can vote", all_vote).await;
    let mut subscriber = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "news"]).await;
    masters[0].kill_9();
    for _ in 0..10 {
        assert_eq!(int(&mut publisher, &["PUBLISH", "news", "heard"]).await, 1);
        assert_eq!(subscriber.text().await, "heard");
    }
}

/// A channel that the masters do not let the proxy hear is refused, and the rest works.
#[tokio::test]
async fn masters_may_refuse_channels() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for master in masters.iter() {
        let mut direct = master.connection().await;
        let limit = ["ACL", "SETUSER", "default", "resetchannels", "&open"];
        assert_eq!(value(&mut direct, &limit).await, Ok(Value::Okay));
    }
    let mut raw = proxy.raw().await;
    for words in [&["SUBSCRIBE", "closed"][..], &["SUBSCRIBE", "open", "closed"]] {
        let refusal = raw.ask(words).await;
        assert!(
            refusal.is_error("CLUSTERDOWN cannot subscribe: a master answered: "),
            "{refusal:?}"
        );
        assert!(refusal.text().contains("NOPERM"), "{refusal:?}");
    }
    assert!(raw.ask(&["PUBLISH", "closed", "x"]).await.is_error("NOPERM"));
    let mut subscriber = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "open"]).await;
    assert_eq!(raw.ask(&["PUBLISH", "open", "heard"]).await, Reply::Int(1));
    assert_eq!(subscriber.text().await, "heard");
}

/// A master sees one connection per worker, but clients get the number of clients.
#[tokio::test]
async fn the_clients_of_all_workers_are_counted() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "3"]);
    let mut other = proxy.connection().await;
    let mut subscribers = Vec::new();
    for clients in 1..=20 {
        for words in [["SUBSCRIBE", "news"], ["PSUBSCRIBE", "n*"], ["SSUBSCRIBE", "news"]] {
            subscribers.push(Subscriber::new(proxy.address(), "2", &words).await);
        }
        assert_eq!(int(&mut other, &["PUBLISH", "news", "x"]).await, 2 * clients);
        assert_eq!(int(&mut other, &["SPUBLISH", "news", "x"]).await, clients);
        let numsub = value(&mut other, &["PUBSUB", "NUMSUB", "news"]).await;
        let expected = [Value::BulkString(b"news".to_vec()), Value::Int(clients)];
        assert_eq!(numsub, Ok(Value::Array(expected.to_vec())));
    }
}

/// All masters are busy with the same request, for longer than a vote may take, and so is the worker with their
/// answers.
#[tokio::test]
async fn who_listens_to_many_channels_is_asked_all_at_once() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut listener = proxy.raw().await;
    listener.ask(&["SUBSCRIBE", "n0"]).await;
    listener.ask(&["SSUBSCRIBE", "n69999"]).await;
    let names: Vec<String> = (0..70_000).map(|name| format!("n{name}")).collect();
    let mut raw = proxy.raw().await;
    for (command, heard) in [("NUMSUB", "n0"), ("SHARDNUMSUB", "n69999")] {
        let words = [&["PUBSUB".to_owned(), command.to_owned()], &names[..]].concat();
        let Reply::Array(told) = raw.ask(&words).await else { panic!("no counts of {command}") };
        let count = |name: &String| Reply::Int(i64::from(name == heard));
        let expected = names.iter().flat_map(|name| [Reply::bulk(name), count(name)]);
        assert!(told.into_iter().eq(expected), "{command}");
        for master in masters.iter() {
            let calls = master.calls(&format!("pubsub|{}", command.to_lowercase())).await;
            assert!((70..=3 * 70).contains(&calls), "{calls} calls");
        }
    }
}

/// Confirmations may be unsent when their client disconnects.
#[tokio::test]
async fn what_a_client_had_not_read_is_listened_to_for_ever() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--max-request-bytes", "16mb"]);
    let names = (0..60_000).map(|name| format!("{name}:{}", "n".repeat(100)));
    let words: Vec<String> = std::iter::once("SUBSCRIBE".to_owned()).chain(names).collect();
    let mut deaf = proxy.raw().await;
    deaf.send(&encode(&words)).await;
    subscriptions(masters.iter(), 60_000).await;
    drop(deaf);
    subscriptions(masters.iter(), 0).await;
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["PUBSUB", "CHANNELS"]).await, Reply::Array(Vec::new()));
}

/// A master compares a new pattern with all those of the connection: with many, this takes longer than the vote
/// timeout.
#[tokio::test]
async fn many_patterns_are_never_confirmed() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "100ms"]);
    for protocol in PROTOCOLS {
        let mut raw = match protocol {
            "3" => Raw::connect_resp3(proxy.address()).await,
            _ => proxy.raw().await,
        };
        let patterns: Vec<String> = (0..7_000).map(|pattern| format!("p{pattern}*")).collect();
        let words = |command: &str| [&[command.to_owned()], &patterns[..]].concat();
        raw.send(&encode(&words("PSUBSCRIBE"))).await;
        let confirmed: Vec<i64> = raw.replies(patterns.len()).await.iter().map(count).collect();
        assert!(confirmed.into_iter().eq(1..=7_000), "RESP{protocol}");
        assert_eq!(proxy.raw().await.ask(&["PUBLISH", "p6999", "x"]).await, Reply::Int(4));
        let heard = raw.replies(4).await;
        assert!(heard.iter().all(|message| matches!(message, Reply::Array(_))), "{heard:?}");
        raw.send(&encode(&words("PUNSUBSCRIBE"))).await;
        let left: Vec<i64> = raw.replies(patterns.len()).await.iter().map(count).collect();
        assert!(left.into_iter().eq((0..7_000).rev()), "RESP{protocol}");
    }
}

/// Returns the count in a confirmation.
fn count(confirmation: &Reply) -> i64 {
    match confirmation {
        Reply::Array(items) => match items.last() {
            Some(Reply::Int(count)) => *count,
            _ => panic!("no count in {confirmation:?}"),
        },
        _ => panic!("{confirmation:?} is no confirmation"),
    }
}
