//! Upgrades: a new process takes over from the running one without any client noticing.

#![allow(clippy::disallowed_methods, reason = "these tests wait for real processes")]
#![allow(unreachable_pub, reason = "a test binary has no users")]
#![allow(missing_docs, reason = "names and types tell it; what needs a word has one")]

#[path = "../support/mod.rs"]
mod support;

mod load;
mod pair;

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use support::certificates::Authority;
use support::{
    Masters, Proxy, Raw, Relay, Reply, Subscriber, encode, eventually, target_is_plain_redis, words,
};

use load::Load;
use pair::Pair;

/// Across two upgrades in a row, every request gets its own reply on its own connection and is executed exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_reply_is_lost_and_nobody_is_disconnected() {
    if target_is_plain_redis() {
        return;
    }
    for workers in [["1", "1", "1"], ["2", "2", "2"], ["3", "1", "2"]] {
        let mut pair = Pair::start(&["--workers", workers[0]]);
        let load = Load::start(&pair);
        for workers in &workers[1..] {
            load.makes_progress().await;
            let before = pair.upgrade(&["--workers", workers]);
            load.makes_progress().await;
            let line = Pair::farewell(&before).await;
            assert_eq!(before.ended().code(), Some(0));
            assert!(line.contains(" clients moved, 0 closed"), "{line}");
        }
        load.stop_and_check(&pair).await;
    }
}

/// After an upgrade, the proxy still knows everything a client has told it about itself, and its scripts.
#[tokio::test]
async fn a_client_finds_everything_as_it_left_it() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&["--requirepass", "secret"]);
    let mut raw = Raw::connect(pair.address()).await;
    assert_eq!(raw.ask(&words("AUTH secret")).await, Reply::ok());
    raw.ask(&words("HELLO 3 SETNAME me")).await;
    raw.ask(&words("CLIENT SETINFO LIB-NAME lib")).await;
    raw.ask(&words("CLIENT SETINFO LIB-VER 1.2")).await;
    assert_eq!(raw.ask(&words("SELECT 5")).await, Reply::ok());
    assert_eq!(raw.ask(&words("SET key value")).await, Reply::ok());
    let sha =
        raw.ask(&["SCRIPT", "LOAD", "return {ARGV[1], redis.call('GET', KEYS[1])}"]).await.text();
    let mut silent = Raw::connect(pair.address()).await;
    assert_eq!(silent.ask(&words("AUTH secret")).await, Reply::ok());
    silent.send(&encode(&words("CLIENT REPLY OFF"))).await;
    let mut stranger = Raw::connect(pair.address()).await;
    assert!(stranger.ask(&["PING"]).await.is_error("NOAUTH"));
    let line = raw.ask(&words("CLIENT INFO")).await.text();

    let before = pair.upgrade(&["--requirepass", "secret"]);
    assert_eq!(before.ended().code(), Some(0));

    let after = raw.ask(&words("CLIENT INFO")).await.text();
    for field in ["id", "addr", "laddr", "name", "db", "cmd", "resp", "lib-name", "lib-ver"] {
        assert_eq!(field_of(&after, field), field_of(&line, field), "{field}");
    }
    let expected = Reply::Array(vec![Reply::bulk("x"), Reply::bulk("value")]);
    assert_eq!(raw.ask(&["EVALSHA", &sha, "1", "key", "x"]).await, expected);
    assert!(stranger.ask(&["PING"]).await.is_error("NOAUTH"));
    silent.send(&encode(&words("SET quiet 1"))).await;
    silent.send(&encode(&words("CLIENT REPLY ON"))).await;
    assert_eq!(silent.reply().await, Reply::ok());
    // No client id is given out twice.
    let mut new = Raw::connect(pair.address()).await;
    assert_eq!(new.ask(&words("AUTH secret")).await, Reply::ok());
    let ids: Vec<i64> = ids(&mut new).await;
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]) && ids.len() >= 4, "{ids:?}");
    assert_eq!(new.ask(&words("CLIENT ID")).await, Reply::Int(ids[ids.len() - 1]));
}

#[tokio::test]
async fn a_guesser_begins_anew_in_another_process() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&["--requirepass", "secret"]);
    let mut guesser = Raw::connect(pair.address()).await;
    guesser.send(&encode(&["AUTH", "guess"]).repeat(6)).await;
    for reply in guesser.replies(6).await {
        assert!(reply.is_error("WRONGPASS"), "{reply:?}");
    }
    // Pending requests move along with the connection.
    guesser.send(&encode(&["AUTH", "guess"]).repeat(100)).await;
    let before = pair.upgrade(&["--requirepass", "secret"]);
    assert_eq!(before.ended().code(), Some(0));
    let mut client = Raw::connect(pair.address()).await;
    assert_eq!(client.ask(&words("AUTH secret")).await, Reply::ok());
    for number in 0..20 {
        assert_eq!(client.ask(&["SET", "key", &number.to_string()]).await, Reply::ok());
    }
    let info = client.ask(&["INFO", "stats"]).await.text();
    assert!(info.contains("acl_access_denied_auth:0\r\n"), "it does not wait: {info}");
    assert!(guesser.reply().await.is_error("WRONGPASS"), "it is answered all the same");
}

/// What changes while a client moves is told to nobody, so it drops everything.
#[tokio::test]
async fn a_client_that_caches_is_told_to_drop_everything_and_goes_on_caching() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&[]);
    let mut listener = Raw::connect_resp3(pair.address()).await;
    let Reply::Int(id) = listener.ask(&words("CLIENT ID")).await else { panic!("no id") };
    let mut client = Raw::connect_resp3(pair.address()).await;
    assert_eq!(client.ask(&words("CLIENT TRACKING ON OPTOUT NOLOOP")).await, Reply::ok());
    client.ask(&words("GET key")).await;
    let mut redirecting = Raw::connect(pair.address()).await;
    let on = format!("CLIENT TRACKING ON REDIRECT {id}");
    assert_eq!(redirecting.ask(&words(&on)).await, Reply::ok());
    let before = pair.upgrade(&[]);
    assert_eq!(before.ended().code(), Some(0));
    let push = |what| Reply::Array(vec![Reply::bulk("invalidate"), what]);
    assert_eq!(client.reply().await, push(Reply::Nil));
    assert_eq!(listener.reply().await, push(Reply::Nil));
    let flags = ["on", "optout", "noloop"].map(Reply::bulk).to_vec();
    let info = client.ask(&words("CLIENT TRACKINGINFO")).await;
    assert_eq!(info.field("flags"), Some(Reply::Array(flags)));
    assert_eq!(redirecting.ask(&words("CLIENT GETREDIR")).await, Reply::Int(id));
    // Replies are to be dropped until all masters report to the new process.
    let pong = Reply::Simple("PONG".to_owned());
    loop {
        client.send(&encode(&["GET", "key"])).await;
        client.send(&encode(&["PING"])).await;
        client.reply().await;
        if client.reply().await == pong {
            break;
        }
        while client.reply().await != pong {}
    }
    let mut writer = Raw::connect(pair.address()).await;
    writer.ask(&words("INCR key")).await;
    assert_eq!(client.reply().await, push(Reply::Array(vec![Reply::bulk("key")])));
}

/// The new process looks up each client's user among its own users.
#[tokio::test]
async fn users_are_who_they_were_by_the_rules_that_count_now() {
    if target_is_plain_redis() {
        return;
    }
    let files = tempfile::tempdir().expect("a directory");
    let settings = |name: &str, users: &str| {
        let file = files.path().join(name);
        std::fs::write(&file, format!("users = [{users}]")).expect("written");
        file.display().to_string()
    };
    let old = settings("old", "'alice on >pw ~* +@all', 'bob on >pw ~* +@all'");
    let new = settings("new", "'alice on >pw ~a +@all'");
    let mut pair = Pair::start(&["--config", &old]);
    let mut clients = Vec::new();
    for name in ["alice", "bob"] {
        let mut raw = Raw::connect(pair.address()).await;
        assert_eq!(raw.ask(&["AUTH", name, "pw"]).await, Reply::ok());
        assert_eq!(raw.ask(&["SET", "a", name]).await, Reply::ok());
        clients.push(raw);
    }
    let mut monitor = Raw::connect(pair.address()).await;
    assert_eq!(monitor.ask(&["MONITOR"]).await, Reply::ok());

    let before = pair.upgrade(&["--config", &new]);
    assert_eq!(before.ended().code(), Some(0));

    let [alice, bob] = &mut clients[..] else { panic!("two of them") };
    assert_eq!(alice.ask(&["ACL", "WHOAMI"]).await, Reply::bulk("alice"));
    assert_eq!(alice.ask(&["GET", "a"]).await, Reply::bulk("bob"));
    assert!(alice.ask(&["GET", "b"]).await.is_error("NOPERM"));
    assert_eq!(bob.until_closed().await, b"", "he is no user any more");
    while !monitor.reply().await.text().contains("\"WHOAMI\"") {}
}

fn field_of(line: &str, field: &str) -> String {
    // In RESP3 the text has a type prefix.
    let line = line.trim_start_matches("txt:");
    let mut fields = line.split_whitespace().filter_map(|word| word.split_once('='));
    fields.find(|(name, _)| *name == field).expect("the field").1.to_owned()
}

async fn ids(raw: &mut Raw) -> Vec<i64> {
    let list = raw.ask(&words("CLIENT LIST")).await.text();
    list.lines().map(|line| field_of(line, "id").parse().expect("a number")).collect()
}

#[tokio::test]
async fn half_a_request_before_and_the_other_half_after() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&[]);
    let request = encode(&words("SET key some-value"));
    let mut clients = Vec::new();
    for cut in 0..request.len() {
        let mut raw = Raw::connect(pair.address()).await;
        assert_eq!(raw.ask(&["PING"]).await, Reply::Simple("PONG".into()));
        raw.send(&request[..cut]).await;
        clients.push((cut, raw));
    }
    let before = pair.upgrade(&[]);
    assert_eq!(before.ended().code(), Some(0));
    for (cut, mut raw) in clients {
        raw.send(&request[cut..]).await;
        assert_eq!(raw.reply().await, Reply::ok(), "cut at {cut}");
    }
}

/// A client in the middle of a transaction is handed over when the transaction is done.
#[tokio::test]
async fn a_transaction_that_was_begun_is_ended_where_it_was_begun() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&["--drain-timeout", "1h"]);
    let mut raw = Raw::connect(pair.address()).await;
    let mut watching = Raw::connect(pair.address()).await;
    assert_eq!(raw.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(raw.ask(&words("INCR counter")).await, Reply::Simple("QUEUED".into()));
    assert_eq!(watching.ask(&words("WATCH watched")).await, Reply::ok());
    let before = pair.upgrade(&["--drain-timeout", "1h"]);
    assert_eq!(raw.ask(&words("SELECT 3")).await, Reply::Simple("QUEUED".into()));
    // The request right behind EXEC is for the successor.
    raw.send(&[encode(&["EXEC"]), encode(&words("INCR counter")), encode(&["PING"])].concat())
        .await;
    assert_eq!(raw.reply().await, Reply::Array(vec![Reply::Int(1), Reply::ok()]));
    assert_eq!(raw.reply().await, Reply::Int(1), "in another database");
    assert_eq!(raw.reply().await, Reply::Simple("PONG".into()));
    assert_eq!(watching.ask(&["MULTI"]).await, Reply::ok());
    assert_eq!(watching.ask(&words("SET watched 1")).await, Reply::Simple("QUEUED".into()));
    assert_eq!(watching.ask(&["EXEC"]).await, Reply::Array(vec![Reply::ok()]));
    assert_eq!(before.ended().code(), Some(0));
    assert_eq!(watching.ask(&words("GET watched")).await, Reply::bulk("1"));
    assert_eq!(raw.process_id().await, pair.current().id());
}

/// A blocked client keeps waiting in the new process, and is woken there.
#[tokio::test]
async fn a_client_that_waits_for_an_element_goes_on_to_wait() {
    if target_is_plain_redis() {
        return;
    }
    let flags = ["--drain-timeout", "1h"];
    let mut pair = Pair::start(&flags);
    let mut clients = Vec::new();
    for line in ["BLPOP list 0", "brpop list 1000", "BLMPOP 1000 1 list LEFT"] {
        let mut waiting = Raw::connect(pair.address()).await;
        let id = waiting.ask(&words("CLIENT ID")).await;
        waiting.send(&encode(&words(line))).await;
        clients.push((id, waiting));
    }
    let mut impatient = Raw::connect(pair.address()).await;
    impatient.send(b"BLPOP nothing 0.5\r\n").await;
    eventually("they wait", || async {
        let list = Raw::connect(pair.address()).await.ask(&words("CLIENT LIST")).await.text();
        let waits = |line: &&str| line.contains(" cmd=bl") || line.contains(" cmd=brpop ");
        (list.lines().filter(waits).count() == 4).then_some(())
    })
    .await;
    for _ in 0..2 {
        let before = pair.upgrade(&flags);
        assert_eq!(before.ended().code(), Some(0));
    }
    assert_eq!(impatient.reply().await, Reply::Nil);
    let mut raw = Raw::connect(pair.address()).await;
    let mut elements = Vec::new();
    for (id, waiting) in &mut clients {
        waiting.send(&encode(&words("CLIENT ID"))).await;
        assert!(matches!(raw.ask(&words("RPUSH list x y z")).await, Reply::Int(1..)));
        let Reply::Array(popped) = waiting.reply().await else { panic!("no element") };
        elements.push(popped);
        assert_eq!(waiting.reply().await, *id);
    }
    assert_eq!(elements.len(), clients.len());
}

/// Entries added while the processes switch also come after `$`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_for_entries_misses_none_that_is_added_meanwhile() {
    if target_is_plain_redis() {
        return;
    }
    let flags = ["--drain-timeout", "1h"];
    let mut pair = Pair::start(&flags);
    let other = Proxy::start(pair.masters(), &[]);
    let mut clients = Vec::new();
    for at in 0..STREAMS {
        let mut waiting = Raw::connect(pair.address()).await;
        waiting.ask(&words(&format!("XADD x{at} 1-1 f v"))).await;
        waiting.send(&encode(&words(&format!("XREAD BLOCK 0 STREAMS x{at} $")))).await;
        clients.push(waiting);
    }
    let mut raw = other.raw().await;
    eventually("they wait", || async {
        let info = Raw::connect(pair.address()).await.ask(&words("INFO clients")).await.text();
        info.contains(&format!("blocked_clients:{STREAMS}\r\n")).then_some(())
    })
    .await;
    let adds = tokio::spawn(async move {
        for at in 0..STREAMS {
            assert_eq!(raw.ask(&words(&format!("XADD x{at} 2-1 f v"))).await, Reply::bulk("2-1"));
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    let before = pair.upgrade(&flags);
    assert_eq!(before.ended().code(), Some(0));
    adds.await.expect("all are added");
    for (at, waiting) in clients.iter_mut().enumerate() {
        let reply = waiting.reply().await;
        assert!(
            format!("{reply:?}").contains(&format!("{:?}", Reply::bulk("2-1"))),
            "x{at}: {reply:?}"
        );
    }
}

const STREAMS: usize = 40;

/// A client that cannot be handed over in time sees the same end as at any shutdown.
#[tokio::test]
async fn who_does_not_come_to_an_end_is_ended_as_by_sigterm() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&["--drain-timeout", "300ms"]);
    let mut open = Raw::connect(pair.address()).await;
    assert_eq!(open.ask(&["MULTI"]).await, Reply::ok());
    let before = pair.upgrade(&[]);
    assert_eq!(open.until_closed().await, b"");
    let line = Pair::farewell(&before).await;
    assert_eq!(before.ended().code(), Some(0));
    assert!(line.ends_with(": 0 clients moved, 1 closed"), "{line}");
}

/// The successor sends nothing, nonsense or too much, or dies at any point.
#[tokio::test]
async fn a_successor_that_fails_changes_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let pair = Pair::start(&[]);
    pair.current().expect_warnings();
    let mut raw = Raw::connect(pair.address()).await;
    let id = raw.ask(&words("CLIENT ID")).await;
    let silent = pair.handover_socket().await;
    drop(silent);
    let hello = br#"{"message":"hello","version":1}"#;
    let mut never_ready = pair.handover_socket().await;
    never_ready.send(&pair::frame(hello)).await;
    assert_eq!(raw.ask(&words("CLIENT ID")).await, id);
    drop(never_ready);
    let ready = br#"{"message":"ready"}"#;
    let serving = br#"{"message":"serving"}"#;
    let dialogues: [&[&[u8]]; 5] =
        [&[b"nonsense"], &[hello], &[hello, ready], &[hello, ready, serving], &[serving]];
    for dialogue in dialogues {
        let mut successor = pair.handover_socket().await;
        for message in dialogue {
            successor.send(&pair::frame(message)).await;
        }
        successor.finish_sending().await;
        let _ = successor.until_closed().await;
        assert_eq!(raw.ask(&words("CLIENT ID")).await, id);
        let mut new = Raw::connect(pair.address()).await;
        assert_eq!(new.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    }
    let mut newer = pair.handover_socket().await;
    newer.send(&pair::frame(br#"{"message":"hello","version":2}"#)).await;
    let refused = String::from_utf8_lossy(&newer.until_closed().await).into_owned();
    assert!(refused.contains("it speaks version 1 of the handover and not 2"), "{refused}");
}

/// A real successor is killed while some clients are still with its predecessor.
#[tokio::test]
async fn a_successor_that_is_killed_leaves_the_rest_to_its_predecessor() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&["--drain-timeout", "1h"]);
    let mut open = Raw::connect(pair.address()).await;
    assert_eq!(open.ask(&["MULTI"]).await, Reply::ok());
    let before = pair.upgrade(&[]);
    before.expect_warnings();
    pair.current().expect_warnings();
    pair.replace(before).kill_9();
    assert_eq!(open.ask(&words("SET key 1")).await, Reply::Simple("QUEUED".into()));
    assert_eq!(open.ask(&["EXEC"]).await, Reply::Array(vec![Reply::ok()]));
    eventually("it accepts again", || async {
        let mut new = Raw::connect(pair.address()).await;
        (new.process_id().await == pair.current().id()).then_some(())
    })
    .await;
    // The next attempt succeeds.
    let before = pair.upgrade(&[]);
    assert_eq!(before.ended().code(), Some(0));
    assert_eq!(open.ask(&words("GET key")).await, Reply::bulk("1"));
}

#[tokio::test]
async fn the_socket_is_for_its_user_and_goes_with_the_last_process() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&[]);
    let sockets = [pair.path("handover.sock"), pair.path("clients.sock")];
    let mode = std::fs::metadata(&sockets[0]).expect("the socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = pair.upgrade(&[]);
    assert_eq!(before.ended().code(), Some(0));
    assert!(sockets.iter().all(|path| path.exists()));
    let files = pair.stop();
    assert!(!sockets.iter().any(|path| path.exists()), "{:?}", files.path());
}

#[tokio::test]
async fn operators_ask_the_next_process_at_the_same_socket() {
    if target_is_plain_redis() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("admin.sock");
    let socket = path.to_str().expect("a path");
    let mut pair = Pair::start(&["--admin", socket]);
    let before = pair.upgrade(&["--admin", socket]);
    assert_eq!(before.ended().code(), Some(0));
    let shown = support::run(&["members", "--connect", socket]);
    assert!(shown.status.success(), "{shown:?}");
    pair.stop();
    assert!(!path.exists());
}

#[tokio::test]
async fn what_the_new_settings_do_not_name_is_closed() {
    if target_is_plain_redis() {
        return;
    }
    let pair = Pair::start(&["--admin", "127.0.0.1:0"]);
    let admin = pair.current().admin_address();
    let clients = pair.path("clients.sock");
    let path = pair.path("handover.sock").display().to_string();
    let after = Proxy::unready(&pair.masters().addresses(), &["--handover", &path]);
    assert_eq!(after.address(), pair.address());
    pair.retire_current();
    assert!(!clients.exists());
    eventually("nobody answers operators", || async {
        tokio::net::TcpStream::connect(&admin).await.is_err().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_proxy_that_does_not_answer_is_left_alone() {
    if target_is_plain_redis() {
        return;
    }
    let pair = Pair::start(&[]);
    pair.current().stop();
    let (code, sentence) = pair.fail_to_take_over(&[]);
    pair.current().cont();
    pair.current().expect_warnings();
    assert_eq!(code, Some(69), "{sentence}");
    assert!(
        sentence.contains("does not hand over (the other process does not answer)"),
        "{sentence}"
    );
    assert_eq!(sentence.trim().lines().count(), 1, "{sentence}");
    let mut raw = Raw::connect(pair.address()).await;
    assert_eq!(raw.ask(&["PING"]).await, Reply::Simple("PONG".into()));
}

#[tokio::test]
async fn a_path_of_no_use_is_told_in_one_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").expect("written");
    let nowhere = directory.path().join("no/such/directory");
    for path in [&file, &nowhere] {
        let (code, sentence) = pair::run(&["--handover", path.to_str().expect("a path")]);
        assert_eq!(code, Some(69), "{sentence}");
        assert!(sentence.contains("choose another path with --handover"), "{sentence}");
        assert_eq!(sentence.trim().lines().count(), 1, "{sentence}");
    }
    assert_eq!(std::fs::read(&file).expect("still there"), b"precious");
}

#[tokio::test]
async fn sigusr2_puts_a_new_process_in_the_place() {
    if target_is_plain_redis() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let notify = directory.path().join("notify");
    let manager = std::os::unix::net::UnixDatagram::bind(&notify).expect("a socket");
    manager.set_read_timeout(Some(support::PATIENCE)).expect("a timeout");
    let told = || {
        let mut told = [0; 100];
        let length = manager.recv(&mut told).expect("a word");
        String::from_utf8_lossy(&told[..length]).trim().to_owned()
    };
    let pair = Pair::start_in(&[], vec![("NOTIFY_SOCKET", notify.clone())]);
    assert_eq!(told(), "READY=1");
    let mut raw = Raw::connect(pair.address()).await;
    let id = raw.ask(&words("CLIENT ID")).await;
    let first = raw.process_id().await;
    pair.current().send_signal("USR2");
    let second = pair.successor_of(first).await;
    let _guard = pair::Killed(second);
    assert_eq!(raw.ask(&words("CLIENT ID")).await, id);
    assert_eq!(told(), "READY=1");
    assert_eq!(told(), format!("MAINPID={second}"));
    assert_eq!(pair.retire_current(), Some(0));
    let mut new = Raw::connect(pair.address()).await;
    assert_eq!(new.process_id().await, second);
}

#[tokio::test]
async fn sigusr2_without_a_place_to_hand_over_is_a_line_in_the_log() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    proxy.send_signal("USR2");
    eventually("the log says so", || async {
        let told = |line: &String| line.contains("nothing can be handed over without --handover");
        proxy.log().iter().any(told).then_some(())
    })
    .await;
    assert_eq!(proxy.raw().await.ask(&["PING"]).await, Reply::Simple("PONG".into()));
}

/// A new version that does not even start.
#[tokio::test]
async fn sigusr2_that_fails_can_be_sent_again() {
    if target_is_plain_redis() {
        return;
    }
    let pair = Pair::start(&[]);
    pair.current().expect_warnings();
    let mut raw = Raw::connect(pair.address()).await;
    let first = raw.process_id().await;
    let place = pair.path("handover.sock");
    let hidden = pair.path("hidden");
    // Without the socket, the new process assumes that another program owns the port.
    std::fs::rename(&place, &hidden).expect("moved");
    pair.current().send_signal("USR2");
    eventually("the log says so", || async {
        let told = |line: &String| line.contains("has not taken over (exit status: 69)");
        pair.current().log().iter().any(told).then_some(())
    })
    .await;
    std::fs::rename(&hidden, &place).expect("moved");
    pair.current().send_signal("USR2");
    let second = pair.successor_of(first).await;
    let _guard = pair::Killed(second);
    assert_eq!(pair.retire_current(), Some(0));
}

/// The upgrade as a user's program would see it.
#[tokio::test]
async fn a_client_library_does_not_notice() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&[]);
    let mut connection = support::connection(pair.address()).await;
    for round in 0..3_i64 {
        for step in 1..=50_i64 {
            let reply: i64 =
                redis::cmd("INCR").arg("n").query_async(&mut connection).await.expect("a reply");
            assert_eq!(reply, 50 * round + step);
        }
        let before = pair.upgrade(&[]);
        assert_eq!(before.ended().code(), Some(0));
    }
}

/// A subscriber receives each message once, including those published during the upgrade.
#[tokio::test]
async fn a_subscriber_goes_along_and_misses_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let mut pair = Pair::start(&["--workers", "2"]);
    let mut subscribers = Vec::new();
    for (protocol, subscribe) in [
        ("2", ["SUBSCRIBE", "news"]),
        ("3", ["SUBSCRIBE", "news"]),
        ("2", ["PSUBSCRIBE", "n?ws"]),
        ("2", ["SSUBSCRIBE", "news"]),
    ] {
        subscribers.push(Subscriber::new(pair.address(), protocol, &subscribe).await);
    }
    let mut witness = Subscriber::new(pair.address(), "2", &["SUBSCRIBE", "news"]).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let publisher = tokio::spawn(publish(pair.address().to_owned(), Arc::clone(&is_over)));
    for _ in 0..2 {
        witness.text().await;
        let before = pair.upgrade(&["--workers", "2"]);
        let line = Pair::farewell(&before).await;
        assert!(line.ends_with(" clients moved, 0 closed"), "{line}");
        assert_eq!(before.ended().code(), Some(0));
    }
    is_over.store(true, Ordering::Relaxed);
    let published = publisher.await.expect("every message was published");
    for subscriber in &mut subscribers {
        let mut last = 0;
        while last < published {
            let number: u64 = subscriber.text().await.parse().expect("a number");
            assert_eq!(number, last + 1, "of {published}");
            last = number;
        }
        subscriber.nothing_more().await;
        subscriber.change(&["SUBSCRIBE", "more"]).await;
    }
}

/// Publishes numbered messages, some at a time, and returns their number.
async fn publish(address: String, is_over: Arc<AtomicBool>) -> u64 {
    const AT_A_TIME: u64 = 10;
    let mut raw = Raw::connect(&address).await;
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        for number in number + 1..=number + AT_A_TIME {
            for command in ["PUBLISH", "SPUBLISH"] {
                raw.send(&encode(&[command, "news", &number.to_string()])).await;
            }
        }
        for reply in raw.replies(2 * AT_A_TIME as usize).await {
            assert!(matches!(reply, Reply::Int(1..)), "{reply:?}");
        }
        number += AT_A_TIME;
    }
    number
}

/// TLS keys cannot be handed over. These clients are disconnected to connect again, while they have no request pending.
#[tokio::test]
async fn a_tls_client_is_disconnected_properly_when_it_is_idle() {
    if target_is_plain_redis() {
        return;
    }
    let authority = Authority::new();
    let signed = authority.sign(&["127.0.0.1"]);
    let (cert, key) = (signed.cert.display().to_string(), signed.key.display().to_string());
    let tls = ["--tls-listen", "127.0.0.1:0", "--tls-cert-file", &cert, "--tls-key-file", &key];
    let flags = [&tls[..], &["--drain-timeout", "1h"]].concat();
    let mut pair = Pair::start(&flags);
    let address = pair.current().tls_address();
    let connect = async || authority.connect(&address, None).await.expect("a handshake");
    let (mut idle, mut open) = (connect().await, connect().await);
    assert_eq!(idle.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    assert_eq!(open.ask(&["MULTI"]).await, Reply::ok());
    let before = pair.upgrade(&flags);
    assert_eq!(pair.current().tls_address(), address);
    assert!(idle.is_ended_properly().await);
    assert_eq!(open.ask(&words("SET key 1")).await, Reply::Simple("QUEUED".into()));
    assert_eq!(open.ask(&["EXEC"]).await, Reply::Array(vec![Reply::ok()]));
    assert!(open.is_ended_properly().await);
    let line = Pair::farewell(&before).await;
    assert_eq!(before.ended().code(), Some(0));
    assert!(line.ends_with(": 0 clients moved, 2 closed"), "{line}");
    assert_eq!(connect().await.ask(&words("GET key")).await, Reply::bulk("1"));
}

/// Only the process that made a release knows that a master that is down has yet to receive it.
#[tokio::test]
async fn a_release_that_a_master_has_missed_is_delivered_before_the_end() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let relay = Relay::to(&masters[0]);
    let mut addresses = masters.addresses();
    addresses[0] = relay.address();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("handover.sock").display().to_string();
    let flags = ["--handover", &path, "--drain-timeout", "1h"];
    let before = Proxy::in_front_of(&addresses, &flags);
    before.expect_warnings();
    let mut raw = before.raw().await;
    assert_eq!(raw.ask(&words("SET lock mine NX PX 600000")).await, Reply::ok());
    masters[0].holds("lock", "mine").await;
    relay.cut();
    before.knows(0, "link", "down").await;
    assert_eq!(raw.ask(&words("DEL lock")).await, Reply::Int(1));
    before.owes(0).await;
    let after = Proxy::unready(&addresses, &flags);
    after.expect_warnings();
    Pair::farewell(&before).await;
    assert_eq!(raw.ask(&words("GET lock")).await, Reply::Nil);
    assert_eq!(masters[0].get("lock").await.as_deref(), Some(b"mine".as_slice()));
    relay.heal();
    assert_eq!(before.ended().code(), Some(0));
    assert_eq!(masters[0].get("lock").await, None);
}
