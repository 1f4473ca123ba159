//! Programs with many keys: the stamp of each key names all of them, and masters keep the square of their number no
//! longer than it takes all of them to agree.

mod support;

use support::{Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis, words};

const TOO_MANY: &str = "ERR too many keys in one command, script or transaction: split it up";

/// Returns names of a kilobyte.
fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number}:{}", "x".repeat(1_000))).collect()
}

fn mset(names: &[String]) -> Vec<&str> {
    let pairs = names.iter().flat_map(|name| [&name[..], "value"]);
    std::iter::once("MSET").chain(pairs).collect()
}

#[tokio::test]
async fn stamps_are_short_again_soon_after_a_program_of_many_keys() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    let names = names(100);
    for _ in 0..2 {
        assert_eq!(client.ask(&mset(&names)).await, Reply::ok());
        for master in masters.iter() {
            for name in &names {
                let companion = format!("redlock-proxy:s:{name}");
                eventually("the stamp names no other key", || async {
                    let length = master.ask(&["STRLEN", &companion]).await;
                    matches!(length, Reply::Int(1..500)).then_some(())
                })
                .await;
            }
        }
    }
}

/// A rejected request changes nothing, and reads are not rejected.
#[tokio::test]
async fn too_many_keys_are_refused_by_name() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = ["--max-request-bytes", "4mb"];
    let proxy = Proxy::start(&masters, &settings);
    let mut client = proxy.raw().await;
    let names = names(300);
    assert_eq!(client.ask(&mset(&names)).await, Reply::Error(TOO_MANY.into()));
    assert_eq!(by_script(&mut client, &names).await, Reply::Error(TOO_MANY.into()));
    assert_eq!(by_transaction(&mut client, &names).await, Reply::Error(TOO_MANY.into()));
    let mget: Vec<&str> =
        std::iter::once("MGET").chain(names.iter().map(|name| &name[..])).collect();
    assert_eq!(client.ask(&mget).await, Reply::Array(vec![Reply::Nil; names.len()]));
    assert_eq!(client.ask(&words("PING")).await, Reply::Simple("PONG".into()));
}

async fn by_script(client: &mut Raw, names: &[String]) -> Reply {
    let count = names.len().to_string();
    let script = "for _, key in ipairs(KEYS) do redis.call('set', key, 1) end";
    let names = names.iter().map(|name| &name[..]);
    client.ask(&["EVAL", script, &count].into_iter().chain(names).collect::<Vec<_>>()).await
}

async fn by_transaction(client: &mut Raw, names: &[String]) -> Reply {
    assert_eq!(client.ask(&words("MULTI")).await, Reply::ok());
    for name in names {
        assert_eq!(client.ask(&["SET", name, "1"]).await, Reply::Simple("QUEUED".into()));
    }
    client.ask(&words("EXEC")).await
}

/// Each key counts once, and stamps name it once.
#[tokio::test]
async fn one_key_that_is_named_very_often_is_no_reason_to_refuse() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    let names = vec!["key".to_owned(); TIMES];
    assert_eq!(client.ask(&mset(&names)).await, Reply::ok());
    assert_eq!(by_script(&mut client, &names).await, Reply::Nil);
    let oks = Reply::Array(vec![Reply::ok(); TIMES]);
    assert_eq!(by_transaction(&mut client, &names).await, oks);
    let del: Vec<&str> = std::iter::once("DEL").chain(names.iter().map(|name| &name[..])).collect();
    assert_eq!(client.ask(&del).await, Reply::Int(1));
}

const TIMES: usize = 2_000;
