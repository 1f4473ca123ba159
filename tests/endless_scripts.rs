//! Scripts that never end. They keep masters, and everything else on this machine, busy, so these tests have a file
//! of their own.

mod support;

use support::{Masters, Proxy, Raw, Reply, eventually, target_is_plain_redis};

/// `SCRIPT KILL` frees masters that are busy with an endless script, unless the script has written.
#[tokio::test]
async fn a_script_that_never_ends_is_killed_on_all_masters() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    proxy.expect_warnings();
    for master in &masters[..] {
        let mut raw = Raw::connect(&master.address()).await;
        let soon = ["CONFIG", "SET", "busy-reply-threshold", "100"];
        assert_eq!(raw.ask(&soon).await, Reply::ok());
    }
    let mut raw = proxy.raw().await;
    let not_busy = raw.ask(&["SCRIPT", "KILL"]).await;
    assert_eq!(not_busy, Reply::Error("NOTBUSY No scripts in execution right now.".into()));
    let endless = raw.ask(&["EVAL", "while true do end", "0"]).await;
    assert!(endless.is_error("UNKNOWN "), "{endless:?}");
    eventually("clients are told that masters are busy", || async {
        let refused = proxy.raw().await.ask(&["SET", "k", "v"]).await.text();
        refused.contains("BUSY Redis is busy running a script").then_some(())
    })
    .await;
    eventually("the script is ended", || async {
        (kill(&proxy).await == Reply::ok()).then_some(())
    })
    .await;
    eventually("the masters are free", || async {
        (proxy.raw().await.ask(&["SET", "k", "v"]).await == Reply::ok()).then_some(())
    })
    .await;
    let written = "redis.call('set', KEYS[1], 'v') while true do end";
    assert!(raw.ask(&["EVAL", written, "1", "k"]).await.is_error("UNKNOWN "));
    eventually("a master says why it goes on", || async {
        kill(&proxy).await.is_error("UNKILLABLE Sorry ").then_some(())
    })
    .await;
}

async fn kill(proxy: &Proxy) -> Reply {
    proxy.raw().await.ask(&["SCRIPT", "KILL"]).await
}
