//! Requests behind a request for data: they are answered after it. A client that disconnects, or loses the data
//! Redis, leaves nothing behind.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::users::Settings;
use support::{Master, OneAddress, Proxy, Raw, Reply, encode, eventually, words};

/// Returns the bytes that answer `lines` when they are sent at once, up to the end of the last reply.
async fn answers(address: &str, lines: &[&str]) -> Vec<u8> {
    let mut client = Raw::connect(address).await;
    let bytes: Vec<_> = lines.iter().flat_map(|line| encode(&words(line))).collect();
    client.send(&bytes).await;
    let mut answers = Vec::new();
    for _ in lines {
        answers.extend(client.frame().await.1);
    }
    answers
}

/// Waits until the asking client is the only one connected.
async fn all_have_gone(proxy: &Proxy) {
    eventually("the proxy knows that they have gone", || async {
        let told = proxy.raw().await.ask(&words("INFO clients")).await.text();
        told.contains("connected_clients:1\r\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_makes_another_client_of_one_waits_for_what_was_asked_before() {
    let (it, one) = (OneAddress::start(), Master::start());
    let long = format!("SET page {}", "x".repeat(20_000));
    for lines in [
        &["GET page", "GET page", "RESET"][..],
        &["GET page", "GET page", "RESET", "PING"],
        &["LRANGE list 0 1", "RESET", "LRANGE list 0 1"],
        &["EVAL return(1) 1 page", "RESET", "GET page"],
        &["MULTI", "GET page", "RESET", "PING"],
        &["MULTI", "GET page", "EXEC", "RESET", "GET page"],
        &["WATCH page", "GET page", "RESET", "GET page"],
        &[&long, "RESET", "STRLEN page"],
        &["GET page", "GET page", "HELLO 2", "GET page"],
        &["GET page", "GET page", "SELECT 1", "GET page"],
        &["SET page 1", "MULTI", "GET page", "WAIT 0 0", "EXEC"],
    ] {
        let expected = answers(&one.address(), lines).await;
        let answered = answers(it.proxy.address(), lines).await;
        // `HELLO` replies differ in the version and the client's ID.
        if !lines.contains(&"HELLO 2") {
            assert_eq!(
                String::from_utf8_lossy(&answered),
                String::from_utf8_lossy(&expected),
                "{lines:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_login_waits_for_what_was_asked_before_and_ends_nothing_if_it_is_the_same() {
    let data = Master::start();
    data.ask(&words("ACL SETUSER worker on >pw ~* &* +@all")).await;
    let settings =
        Settings::with(&["default on nopass ~* &* +@all", "worker on >pw ~* &* +@all"], "");
    let it = OneAddress::beside(data, &settings.flags());
    for lines in [
        &["AUTH worker pw", "GET page", "AUTH worker pw", "GET page"][..],
        &["GET page", "GET page", "AUTH worker pw", "GET page"],
        &["GET page", "LRANGE list 0 1", "AUTH worker pw", "LRANGE list 0 1"],
    ] {
        let answered = String::from_utf8(answers(it.proxy.address(), lines).await).expect("text");
        assert_eq!(answered.matches("\r\n").count(), lines.len(), "{lines:?}: {answered}");
        assert!(!answered.contains('-') || answered.contains("$-1"), "{answered}");
    }
    let mut subscriber = Raw::connect_resp3(it.proxy.address()).await;
    assert_eq!(subscriber.ask(&words("AUTH worker pw")).await, Reply::ok());
    subscriber.ask(&words("SUBSCRIBE news")).await;
    assert_eq!(subscriber.ask(&words("AUTH worker pw")).await, Reply::ok());
    assert_eq!(it.data.ask(&words("PUBLISH news 1")).await, Reply::Int(1));
    let heard = ["message", "news", "1"].map(Reply::bulk);
    assert_eq!(subscriber.reply().await, Reply::Array(heard.into()));
}

#[tokio::test]
async fn a_client_that_loses_the_data_redis_is_closed_whatever_stands_behind() {
    let it = OneAddress::start();
    it.proxy.expect_warnings();
    for behind in ["PING", "SELECT 1", "RESET", "SET lock:a me NX PX 60000", "GET page"] {
        let mut client = it.proxy.raw().await;
        let lines = ["BLPOP queue 0", behind];
        client.send(&lines.map(|line| encode(&words(line))).concat()).await;
        eventually("it waits at the data Redis", || async {
            (!it.clients_of_data(&[" cmd=blpop "]).await.is_empty()).then_some(())
        })
        .await;
        it.data.ask(&words("CLIENT KILL TYPE normal")).await;
        assert_eq!(client.until_closed().await, b"", "{behind}");
    }
    all_have_gone(&it.proxy).await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_leaves_nothing_whatever_stands_behind() {
    let it = OneAddress::start();
    for behind in
        ["PING", "SET lock:a me NX PX 60000", "RESET", "AUTH x y", "GET page", "LLEN queue"]
    {
        for _ in 0..5 {
            let mut client = it.proxy.raw().await;
            let lines = ["BLPOP queue 0", behind];
            client.send(&lines.map(|line| encode(&words(line))).concat()).await;
        }
    }
    all_have_gone(&it.proxy).await;
    eventually("the data Redis knows it, too", || async {
        it.clients_of_data(&[" cmd=blpop "]).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_long_reply_that_is_asked_for_again_is_that_of_its_own_database() {
    let it = OneAddress::start();
    let values = ["0".repeat(200_000), "1".repeat(200_000)];
    let mut direct = Raw::connect(&it.data.address()).await;
    for (db, value) in values.iter().enumerate() {
        assert_eq!(direct.ask(&["SELECT", &db.to_string()]).await, Reply::ok());
        assert_eq!(direct.ask(&["SET", "big", value]).await, Reply::ok());
    }
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = it.proxy.raw().await;
        assert_eq!(client.ask(&words("GET page")).await, Reply::Nil);
        clients.push(client);
    }
    let lines = ["GET big", "SELECT 1", "GET page", "STRLEN big"].map(|line| encode(&words(line)));
    for client in &mut clients {
        client.send(&lines.concat()).await;
    }
    for client in &mut clients {
        let expected = [Reply::bulk(&values[0]), Reply::ok(), Reply::Nil, Reply::Int(200_000)];
        assert_eq!(client.replies(4).await, expected);
    }
}

#[tokio::test]
async fn a_subscriber_may_queue_a_long_request_and_change_its_protocol() {
    let it = OneAddress::start();
    let mut client = Raw::connect_resp3(it.proxy.address()).await;
    client.ask(&words("SUBSCRIBE news")).await;
    assert_eq!(client.ask(&words("MULTI")).await, Reply::ok());
    let queued = Reply::Simple("QUEUED".into());
    assert_eq!(client.ask(&["SET", "page", &"x".repeat(100_000)]).await, queued);
    assert_eq!(client.ask(&words("EXEC")).await, Reply::Array(vec![Reply::ok()]));
    assert_eq!(client.ask(&words("SELECT 4")).await, Reply::ok());
    client.ask(&words("HELLO 2")).await;
    let Reply::Array(left) = client.ask(&words("UNSUBSCRIBE news")).await else { panic!("a list") };
    assert_eq!(left[0], Reply::bulk("unsubscribe"));
    assert_eq!(client.ask(&words("EXISTS page")).await, Reply::Int(0), "in database 4");
}

#[tokio::test]
async fn who_is_in_trouble_ends_the_script_that_keeps_the_data_redis_busy() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("LRANGE list 0 1")).await, Reply::Array(Vec::new()));
    it.data.ask(&words("CONFIG SET busy-reply-threshold 1")).await;
    let mut busy = it.proxy.raw().await;
    busy.send(&encode(&["EVAL", "while true do end", "1", "page"])).await;
    it.data_says("BUSY").await;
    assert_eq!(client.ask(&words("SELECT 3")).await, Reply::ok());
    assert!(client.ask(&words("GET page")).await.is_error("BUSY"));
    assert_eq!(client.ask(&words("SCRIPT KILL")).await, Reply::ok());
    assert!(busy.reply().await.is_error("ERR"));
}
