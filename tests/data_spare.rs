//! The spare connection to the data Redis for the next client. The client's first request arrives as soon as it would
//! at one Redis, and the client is never worse off than with a new connection.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::users::Settings;
use support::{Master, Masters, OneAddress, Proxy, Raw, Reply, encode, eventually, words};

// `GETEX` is not a short request, so it needs a connection of the client's own.

/// Maximum times that a subscriber is overtaken by a message.
const ROUNDS: usize = 200;

fn int(number: i64) -> Reply {
    Reply::Int(number)
}

/// Connections on which the proxy has sent only its own requests: its own connection to the data Redis, and the spare
/// one.
const UNUSED: [&str; 1] = [" cmd=exists "];

/// Waits until there is a spare connection with these words in `CLIENT LIST`, and no other.
async fn spare(it: &OneAddress, parts: &[&str]) {
    eventually(&format!("there is a spare connection {parts:?}"), || async {
        let unused = it.clients_of_data(&UNUSED).await;
        let has_all = |line: &&String| parts.iter().all(|part| line.contains(part));
        (unused.len() == 2 && unused.iter().filter(has_all).count() > 0).then_some(())
    })
    .await;
}

/// Subscribes without waiting while another client publishes. Returns how many messages were missed.
async fn overtaken(it: &OneAddress, greeting: &str, expected: &[&str]) -> usize {
    let mut publisher = it.proxy.raw().await;
    assert_eq!(publisher.ask(&words("PUBLISH news 0")).await, int(0));
    let mut first = it.proxy.raw().await;
    first.ask(&words(greeting)).await;
    first.ask(&words("GETEX page")).await;
    let mut overtaken = 0;
    for round in 0..ROUNDS {
        spare(it, expected).await;
        let (channel, text) = (format!("news {round}"), round.to_string());
        let mut subscriber = it.proxy.raw().await;
        subscriber.ask(&words(greeting)).await;
        subscriber.send(&encode(&["SUBSCRIBE", &channel])).await;
        match publisher.ask(&["PUBLISH", &channel, &text]).await {
            Reply::Int(1) => {
                let Reply::Array(joined) = subscriber.reply().await else { panic!("a list") };
                assert_eq!(joined[0], Reply::bulk("subscribe"));
                let message = ["message", &channel, &text].map(Reply::bulk);
                assert_eq!(subscriber.reply().await, Reply::Array(message.into()));
            }
            _ => overtaken += 1,
        }
    }
    overtaken
}

#[tokio::test]
async fn a_subscription_that_nobody_waits_for_hears_what_is_published_next() {
    let it = OneAddress::start();
    assert_eq!(overtaken(&it, "PING", &[" resp=2"]).await, 0, "of {ROUNDS}");
}

#[tokio::test]
async fn the_same_in_resp3_with_a_name_and_in_another_database() {
    let it = OneAddress::start();
    assert_eq!(overtaken(&it, "HELLO 3 SETNAME me", &[" resp=3"]).await, 0, "of {ROUNDS}");
    let mut client = it.proxy.raw().await;
    client.ask(&words("HELLO 3 SETNAME me")).await;
    for line in ["SELECT 3", "SET page 3"] {
        assert_eq!(client.ask(&words(line)).await, Reply::ok());
    }
    assert_eq!(client.ask(&words("GETEX page")).await, Reply::bulk("3"));
    assert_eq!(it.clients_of_data(&[" name=me ", " db=3 ", " resp=3"]).await.len(), 1);
    spare(&it, &[" db=3 ", " name= ", " resp=3"]).await;
    let mut next = it.proxy.raw().await;
    assert_eq!(next.ask(&words("GET page")).await, Reply::Nil, "it is in database 0");
    assert_eq!(next.ask(&words("SELECT 3")).await, Reply::ok());
    assert_eq!(next.ask(&words("GET page")).await, Reply::bulk("3"));
}

#[tokio::test]
async fn there_is_one_spare_connection_once_a_client_has_used_data() {
    let it = OneAddress::start();
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = it.proxy.raw().await;
        assert_eq!(client.ask(&words("SET lock:a me PX 60000")).await, Reply::ok());
        clients.push(client);
    }
    assert!(it.clients_of_data(&UNUSED).await.len() <= 1, "nobody has used data");
    for client in &mut clients {
        client.send(&encode(&words("GETEX page"))).await;
    }
    for client in &mut clients {
        assert_eq!(client.reply().await, Reply::Nil);
    }
    spare(&it, &[]).await;
    assert_eq!(it.clients_of_data(&[" cmd=getex "]).await.len(), 10);
    drop(clients);
    eventually("only the spare one is left", || async {
        let left = it.clients_of_data(&[" cmd="]).await.len();
        (left == 3 && it.clients_of_data(&UNUSED).await.len() == 2).then_some(())
    })
    .await;
}

/// ioredis mistakes a line that arrives with the confirmation for the answer to another request, and fails.
#[tokio::test]
async fn who_begins_to_monitor_is_not_shown_how_a_spare_connection_is_made() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    client.ask(&words("HELLO 3")).await;
    client.ask(&words("GETEX page")).await;
    spare(&it, &["resp=3"]).await;
    let (mut monitor, mut direct) = (it.proxy.raw().await, Raw::connect(&it.data.address()).await);
    monitor.ask(&words("HELLO 3")).await;
    assert_eq!(monitor.ask(&words("MONITOR")).await, Reply::ok());
    let mut is_spare = false;
    while !is_spare {
        let clients = direct.ask(&words("CLIENT LIST")).await.text();
        is_spare = clients.lines().filter(|line| line.contains(UNUSED[0])).count() == 2;
    }
    assert_eq!(direct.ask(&words("SET end 1")).await, Reply::ok());
    loop {
        let line = monitor.reply().await.text();
        assert!(!line.contains("\"HELLO\""), "{line}");
        if line.contains("\"end\"") {
            return;
        }
    }
}

/// The data Redis closes the connection while the proxy is busy elsewhere, and the proxy sees the client's request
/// first.
#[tokio::test]
async fn a_spare_connection_that_was_closed_costs_nobody_anything() {
    let it = OneAddress::start();
    let mut early = it.proxy.raw().await;
    for round in 0..10 {
        assert_eq!(early.ask(&words("SET page 1")).await, Reply::ok());
        let mut next = it.proxy.raw().await;
        assert_eq!(next.ask(&words("PING")).await, Reply::Simple("PONG".into()));
        spare(&it, &[]).await;
        it.proxy.stop();
        next.send(&encode(&words("GETEX page"))).await;
        for line in it.clients_of_data(&UNUSED).await {
            let id = line.split([' ', '=']).nth(1).expect("its number").to_owned();
            assert_eq!(it.data.ask(&["CLIENT", "KILL", "ID", &id]).await, int(1));
        }
        it.proxy.cont();
        it.proxy.expect_warnings();
        assert_eq!(next.reply().await, Reply::bulk("1"), "round {round}");
    }
}

#[tokio::test]
async fn a_client_that_logs_in_as_itself_gets_a_connection_of_its_own() {
    let settings = Settings::with(&["app on >pw ~* &* +@all -@admin"], "");
    let it = OneAddress::start_with(&settings.flags());
    it.data.ask(&words("ACL SETUSER app on >pw ~app:* +@all")).await;
    let mut free = it.proxy.raw().await;
    assert_eq!(free.ask(&words("SET page 1")).await, Reply::ok());
    spare(&it, &[" user=default "]).await;
    let spares = it.clients_of_data(&UNUSED).await;
    let mut app = it.proxy.raw().await;
    assert_eq!(app.ask(&words("AUTH app pw")).await, Reply::ok());
    assert!(app.ask(&words("GET page")).await.is_error("NOPERM"), "as itself");
    assert_eq!(app.ask(&words("SET app:page 1")).await, Reply::ok());
    let ids = |lines: &[String]| -> Vec<_> {
        lines.iter().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    assert_eq!(ids(&it.clients_of_data(&UNUSED).await), ids(&spares), "it is there still");
}

#[tokio::test]
async fn a_spare_connection_logs_in_as_the_url_says() {
    let data = Master::start();
    data.ask(&words("ACL SETUSER boss on >secret ~* &* +@all")).await;
    let url = format!("redis://boss:secret@{}", data.address());
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--data", &url, "--lock-keys", "lock:*"]);
    let it = OneAddress { proxy, masters, data };
    for _ in 0..3 {
        let mut client = it.proxy.raw().await;
        assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
        spare(&it, &[" user=boss "]).await;
    }
}
