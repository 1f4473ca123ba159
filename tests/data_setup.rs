//! Set-up of a connection to the data Redis before a request, and failures of it. Clients get what one Redis would
//! answer, and nothing runs in another database, as another user or in another protocol version.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use support::one_address::in_database;
use support::users::Settings;
use support::{
    Master, Masters, OneAddress, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis,
    words,
};
use tokio::net::TcpListener;

fn int(number: i64) -> Reply {
    Reply::Int(number)
}

fn error(reply: &Reply) -> &str {
    let Reply::Error(text) = reply else { panic!("an error, not {reply:?}") };
    text
}

/// Starts a data Redis that soon reports that it is busy.
fn impatient() -> Master {
    Master::start_with(&["--busy-reply-threshold", "50"])
}

/// Keeps the data Redis busy with a script until it is killed.
async fn keep_busy(it: &OneAddress) -> Raw {
    let mut runs = Raw::connect(&it.data.address()).await;
    runs.send(&encode(&["EVAL", "while true do end", "0"])).await;
    it.data_says("BUSY").await;
    runs
}

async fn end_busy(it: &OneAddress) {
    assert_eq!(it.data.ask(&words("SCRIPT KILL")).await, Reply::ok());
    eventually("the script has ended", || async {
        let answer = it.data.ask(&words("EXISTS nothing")).await;
        (answer == int(0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_busy_data_redis_answers_and_nothing_runs_in_another_database() {
    let it = OneAddress::beside(impatient(), &[]);
    let mut clients = Vec::new();
    for lines in [
        &["SELECT 1"][..],
        &["SET warm 1", "SELECT 1"],
        &["HELLO 3", "SELECT 1"],
        &["CLIENT SETNAME me", "SELECT 1"],
    ] {
        let mut client = it.proxy.raw().await;
        for line in lines {
            assert!(!matches!(client.ask(&words(line)).await, Reply::Error(_)), "{line}");
        }
        clients.push(client);
    }
    let _runs = keep_busy(&it).await;
    for client in &mut clients {
        for line in ["GET page", "SET page wrong", "SUBSCRIBE news"] {
            let busy = client.ask(&words(line)).await;
            assert!(error(&busy).starts_with("BUSY Redis is busy running a script"), "{busy:?}");
        }
        assert_eq!(client.ask(&words("SET lock:a me PX 60000")).await, Reply::ok());
    }
    end_busy(&it).await;
    for (round, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&["SET", "page", &round.to_string()]).await, Reply::ok());
        let there = in_database(&it.data, 1, "GET page").await;
        assert_eq!(there, Reply::bulk(&round.to_string()));
        assert_eq!(in_database(&it.data, 0, "EXISTS page").await, int(0));
    }
}

#[tokio::test]
async fn a_transaction_that_a_busy_data_redis_refuses_runs_nowhere() {
    let it = OneAddress::beside(impatient(), &[]);
    let mut client = it.proxy.raw().await;
    for db in ["SELECT 1", "SELECT 0"] {
        assert_eq!(client.ask(&words(db)).await, Reply::ok());
        let _runs = keep_busy(&it).await;
        assert_eq!(client.ask(&words("MULTI")).await, Reply::ok());
        assert!(client.ask(&words("SET page 1")).await.is_error("BUSY"), "{db}");
        end_busy(&it).await;
        client.ask(&words("SET page 2")).await;
        assert!(client.ask(&words("EXEC")).await.is_error("EXECABORT"), "{db}");
        assert_eq!(client.ask(&words("EXISTS page")).await, int(0), "{db}");
    }
}

#[tokio::test]
async fn what_ends_a_busy_script_reaches_a_busy_data_redis() {
    let it = OneAddress::beside(impatient(), &[]);
    let library = "#!lua name=l\nredis.register_function('f', function() while true do end end)";
    assert_eq!(it.data.ask(&["FUNCTION", "LOAD", library]).await, Reply::bulk("l"));
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SELECT 1")).await, Reply::ok());
    let mut runs = Raw::connect(&it.data.address()).await;
    runs.send(&encode(&words("FCALL f 0"))).await;
    it.data_says("BUSY").await;
    assert!(client.ask(&words("GET page")).await.is_error("BUSY"));
    assert_eq!(client.ask(&words("FUNCTION KILL")).await, Reply::ok());
    assert!(matches!(runs.reply().await, Reply::Error(_)));
    assert_eq!(client.ask(&words("EXISTS page")).await, int(0));
}

#[tokio::test]
async fn a_long_request_that_a_busy_data_redis_refuses_is_passed_over() {
    let it = OneAddress::beside(impatient(), &[]);
    let _runs = keep_busy(&it).await;
    let mut client = it.proxy.raw().await;
    let set = [b"SET".to_vec(), b"page".to_vec(), vec![b'v'; 5 << 20]];
    for _ in 0..2 {
        client.send(&encode(&set)).await;
        assert!(client.reply().await.is_error("BUSY"));
        assert_eq!(client.ask(&words("SET lock:a me PX 60000")).await, Reply::ok());
    }
    end_busy(&it).await;
    client.send(&encode(&set)).await;
    assert_eq!(client.reply().await, Reply::ok());
    assert_eq!(client.ask(&words("STRLEN page")).await, int(5 << 20));
}

#[tokio::test]
async fn what_the_data_redis_does_not_allow_a_user_is_answered() {
    let settings = Settings::with(&["app on >pw ~* &* +@all"], "");
    let it = OneAddress::start_with(&settings.flags());
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("AUTH app pw")).await, Reply::ok());
    // The data Redis does not know this user, and nothing runs as another user instead.
    let unknown = client.ask(&words("SET page 1")).await;
    assert!(unknown.is_error("WRONGPASS"), "{unknown:?}");
    assert_eq!(it.data.ask(&words("EXISTS page")).await, int(0));
    it.data.ask(&words("ACL SETUSER app on >pw ~* +@all -select -client|setname")).await;
    assert_eq!(client.ask(&words("CLIENT SETNAME me")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok(), "a name may be missing");
    assert_eq!(it.clients_of_data(&[" user=app "]).await.len(), 1);
    assert_eq!(client.ask(&words("SELECT 1")).await, Reply::ok());
    for _ in 0..2 {
        let denied = client.ask(&words("SET page 2")).await;
        assert!(error(&denied).starts_with("NOPERM") && error(&denied).contains("'select'"));
    }
    assert_eq!(client.ask(&words("SELECT 0")).await, Reply::ok());
    assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("1"));
}

#[tokio::test]
async fn a_replica_without_its_master_says_so_until_it_serves_again() {
    let it = OneAddress::beside(Master::start_with(&["--replica-serve-stale-data", "no"]), &[]);
    let mut client = it.proxy.raw().await;
    assert_eq!(it.data.ask(&words("REPLICAOF 127.0.0.1 1")).await, Reply::ok());
    for db in ["SELECT 0", "SELECT 1"] {
        assert_eq!(client.ask(&words(db)).await, Reply::ok());
        assert!(client.ask(&words("SET page 1")).await.is_error("MASTERDOWN"), "{db}");
    }
    assert_eq!(it.data.ask(&words("REPLICAOF NO ONE")).await, Reply::ok());
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    assert_eq!(in_database(&it.data, 1, "EXISTS page").await, int(1));
}

#[tokio::test]
async fn a_data_redis_with_no_room_says_so() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    let limit = async |most: &str| {
        assert_eq!(it.data.ask(&["CONFIG", "SET", "maxclients", most]).await, Reply::ok());
    };
    let mut admin = Raw::connect(&it.data.address()).await;
    limit("1").await;
    for line in ["GET page", "SUBSCRIBE news", "GET page"] {
        let full = client.ask(&words(line)).await;
        assert_eq!(error(&full), "ERR max number of clients reached", "{line}");
    }
    assert_eq!(client.ask(&words("SET lock:a me PX 60000")).await, Reply::ok());
    assert_eq!(admin.ask(&words("CONFIG SET maxclients 1000")).await, Reply::ok());
    assert_eq!(client.ask(&words("EXISTS page")).await, int(0));
}

#[tokio::test]
async fn a_transaction_of_which_nothing_tells_yet_outlives_a_restart_of_the_data_redis() {
    let mut it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    assert_eq!(client.ask(&words("SET page 1")).await, Reply::ok());
    assert_eq!(client.ask(&words("MULTI")).await, Reply::ok());
    it.proxy.expect_warnings();
    it.data.kill_9();
    it.data.restart_empty();
    assert_eq!(client.ask(&words("PING")).await, Reply::Simple("QUEUED".into()));
    assert_eq!(client.ask(&words("SET page 2")).await, Reply::Simple("QUEUED".into()));
    let done = [Reply::Simple("PONG".into()), Reply::ok()];
    assert_eq!(client.ask(&words("EXEC")).await, Reply::Array(done.into()));
    assert_eq!(it.data.ask(&words("GET page")).await, Reply::bulk("2"), "it is no lock");
}

#[tokio::test]
async fn what_a_client_has_said_of_itself_holds_at_the_data_redis() {
    let it = OneAddress::start();
    let mut client = it.proxy.raw().await;
    for (line, flags) in [("CLIENT NO-EVICT ON", " flags=e "), ("CLIENT NO-EVICT OFF", " flags=N ")]
    {
        assert_eq!(client.ask(&words("CLIENT SETNAME shop")).await, Reply::ok());
        assert_eq!(client.ask(&words(line)).await, Reply::ok());
        assert_eq!(client.ask(&words("GETEX page")).await, Reply::Nil);
        assert_eq!(it.clients_of_data(&[" name=shop ", flags]).await.len(), 1, "{line}");
    }
    // Redis before 7.2 does not know this command.
    assert_eq!(client.ask(&words("CLIENT NO-TOUCH ON")).await, Reply::ok());
    assert_eq!(client.ask(&words("GETEX page")).await, Reply::Nil);
    assert_eq!(client.ask(&words("RESET")).await, Reply::Simple("RESET".into()));
    assert_eq!(client.ask(&words("GETEX page")).await, Reply::Nil);
    assert_eq!(it.clients_of_data(&[" name=shop "]).await.len(), 0);
}

#[tokio::test]
async fn a_subscriber_that_changes_the_protocol_gets_its_messages_in_the_new_one() {
    let it = OneAddress::start();
    let mut publisher = it.proxy.raw().await;
    for round in 0..20 {
        let mut client = Raw::connect_resp3(it.proxy.address()).await;
        client.send(&encode(&words("SUBSCRIBE news"))).await;
        assert_eq!(client.frame().await.1.first(), Some(&b'>'));
        let mut wait = 0;
        client.send(&encode(&words("HELLO 2"))).await;
        // Messages arrive before the answer in the old form, or after it in the new one.
        let mut form = b'>';
        while wait < 5 {
            assert_eq!(publisher.ask(&words("PUBLISH news hello")).await, int(1));
            let (_, bytes) = client.frame().await;
            if bytes.starts_with(b"*14") {
                assert_eq!(form, b'>', "one answer");
                form = b'*';
                client.reply().await;
            } else {
                assert_eq!(bytes[0], form, "round {round}: {}", String::from_utf8_lossy(&bytes));
            }
            wait += 1;
        }
        assert_eq!(form, b'*', "round {round}");
        drop(client);
        eventually("the subscriber has gone", || async {
            let subscribers = it.data.ask(&words("PUBSUB NUMSUB news")).await;
            (subscribers == Reply::Array([Reply::bulk("news"), int(0)].into())).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn invalidations_end_with_the_protocol_that_has_them() {
    let it = OneAddress::start();
    let (mut client, mut other) = (it.proxy.raw().await, it.proxy.raw().await);
    client.ask(&words("HELLO 3")).await;
    assert_eq!(client.ask(&words("CLIENT TRACKING ON BCAST")).await, Reply::ok());
    for round in 0..20 {
        assert_eq!(other.ask(&words("SET page 1")).await, Reply::ok());
        let (_, told) = client.frame().await;
        assert!(told.starts_with(b">2\r\n$10\r\ninvalidate"), "round {round}");
        client.ask(&words("HELLO 2")).await;
        assert_eq!(other.ask(&words("SET page 2")).await, Reply::ok());
        assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("2"), "nothing before it");
        client.ask(&words("HELLO 3")).await;
    }
}

/// Runs a Redis that answers `CLIENT SETNAME` only together with the request that follows.
async fn answers_names_late(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let (mut conversation, mut late) = (Raw::over(stream), Vec::new());
            while let Some((Reply::Array(request), _)) = conversation.frame_or_end().await {
                let answer: &[u8] = match request[0].text().as_str() {
                    "EXISTS" => b":0\r\n",
                    "GET" => b"$1\r\nv\r\n",
                    _ => b"+OK\r\n",
                };
                late.extend(answer);
                if request.get(1) != Some(&Reply::bulk("SETNAME")) {
                    conversation.send(&std::mem::take(&mut late)).await;
                }
            }
        });
    }
}

#[tokio::test]
async fn a_request_does_not_wait_for_a_name() {
    if target_is_plain_redis() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    tokio::spawn(answers_names_late(listener));
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--data", &url, "--lock-keys", "lock:*"]);
    let mut client = proxy.raw().await;
    for name in ["one", "two"] {
        assert_eq!(client.ask(&["CLIENT", "SETNAME", name]).await, Reply::ok());
        assert_eq!(client.ask(&words("GET page")).await, Reply::bulk("v"), "{name}");
    }
}
