//! Two keys whose newest states are each on one master only, a different one for each key. An operation that needs
//! both keys makes masters adopt both states.

mod support;

use support::{Masters, Proxy, Relay, Reply, encode, eventually, target_is_plain_redis, words};

/// A proxy with its own network.
struct Way {
    relays: Vec<Relay>,
    proxy: Proxy,
}

impl Way {
    fn to(masters: &Masters) -> Way {
        let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
        let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
        let proxy = Proxy::in_front_of(&addresses, &[]);
        proxy.expect_warnings();
        Way { relays, proxy }
    }

    async fn ask(&self, line: &str) -> Reply {
        self.proxy.raw().await.ask(&words(line)).await
    }

    /// Appends an element on one master only, then kills the proxy.
    async fn append_on(self, masters: &Masters, only: usize, key: &str, element: &'static str) {
        let is_other = |(at, _): &(usize, &Relay)| *at != only;
        for (_, relay) in self.relays.iter().enumerate().filter(is_other) {
            relay.swallow(element);
        }
        let mut client = self.proxy.raw().await;
        client.send(&encode(&["RPUSH", key, element])).await;
        eventually("it is there", || async {
            let last = masters[only].ask(&["LINDEX", key, "-1"]).await;
            (last == Reply::bulk(element)).then_some(())
        })
        .await;
        self.proxy.kill_9();
    }
}

/// The remaining master is away, so the other two must supply the states.
#[tokio::test]
async fn states_of_two_keys_that_no_master_has_both_of_are_brought_together() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let ways = [Way::to(&masters), Way::to(&masters), Way::to(&masters)];
    for (way, key) in ways.iter().zip(["one", "other"]) {
        assert_eq!(way.ask(&format!("RPUSH {key} first")).await, Reply::Int(1));
    }
    let [one, other, third] = ways;
    third.relays[1].cut();
    third.proxy.knows(1, "state", "down").await;
    one.append_on(&masters, 0, "one", "on-the-first").await;
    other.append_on(&masters, 2, "other", "on-the-last").await;
    let mut client = third.proxy.raw().await;
    for line in ["MULTI", "LINDEX one 0", "LINDEX other 0"] {
        client.ask(&words(line)).await;
    }
    let firsts = Reply::Array(vec![Reply::bulk("first"), Reply::bulk("first")]);
    assert_eq!(client.ask(&["EXEC"]).await, firsts);
}
