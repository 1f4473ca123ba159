//! Load on the masters: one command for an uncontended claim, one for its release.

mod support;

use support::scripts::RELEASE;
use support::{Masters, Proxy, Reply, eventually, target_is_plain_redis};

const LOCKS: u64 = 50;

#[tokio::test]
async fn a_claim_costs_each_master_one_command_and_so_does_its_release() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let before = [calls(&masters, "set").await, calls(&masters, "evalsha").await];
    for number in 0..LOCKS {
        let key = format!("lock {number}");
        assert_eq!(raw.ask(&["SET", &key, "mine", "NX", "PX", "600000"]).await, Reply::ok());
        assert_eq!(raw.ask(&["EVAL", RELEASE, "1", &key, "mine"]).await, Reply::Int(1));
    }
    for (index, master) in masters.iter().enumerate() {
        eventually("the slowest master has got them all", || async {
            (master.calls("evalsha").await >= before[1][index] + LOCKS).then_some(())
        })
        .await;
    }
    let after = [calls(&masters, "set").await, calls(&masters, "evalsha").await];
    for (before, after) in before.iter().zip(&after) {
        let cost: Vec<u64> =
            before.iter().zip(after).map(|(before, after)| after - before).collect();
        assert_eq!(cost, [LOCKS; 3]);
    }
}

async fn calls(masters: &Masters, command: &str) -> Vec<u64> {
    let mut calls = Vec::new();
    for master in masters.iter() {
        calls.push(master.calls(command).await);
    }
    calls
}
