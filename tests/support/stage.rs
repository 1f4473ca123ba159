//! Two proxies in front of the same masters. One of them reaches them over a network that can be
//! made bad.

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::{Masters, Proxy, Relay, eventually, target_is_plain_redis, value};

/// Three masters, one proxy that reaches them through relays, and one that reaches them directly.
pub struct Stage {
    pub far: Proxy,
    pub near: Proxy,
    pub relays: Vec<Relay>,
    pub masters: Masters,
}

impl Stage {
    /// Starts both proxies with `flags`. Returns `None` if a plain Redis is the target.
    pub fn set(flags: &[&str]) -> Option<Stage> {
        if target_is_plain_redis() {
            return None;
        }
        let masters = Masters::start(3);
        let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
        let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
        let far = Proxy::in_front_of(&addresses, flags);
        let near = Proxy::start(&masters, flags);
        far.expect_warnings();
        near.expect_warnings();
        Some(Stage { far, near, relays, masters })
    }

    /// Waits until both proxies reach all masters.
    pub async fn complete(&self) {
        for proxy in [&self.far, &self.near] {
            for master in 0..self.masters.len() {
                proxy.knows(master, "state", "voter").await;
            }
        }
    }

    /// Heals the network; data it held back is delivered.
    pub fn heal(&self) {
        self.relays.iter().for_each(Relay::heal);
    }

    /// Waits until everything the far proxy has sent, including what it sent in response to
    /// answers, has arrived on all masters. Two of its later keys on all masters prove that.
    pub async fn settled(&self) {
        let client = self.far.connection().await;
        for _ in 0..2 {
            eventually("the far proxy's claims reach all masters", || self.beacon(&client)).await;
        }
    }

    async fn beacon(&self, client: &MultiplexedConnection) -> Option<()> {
        let key = format!("beacon {}", fastrand::u64(..));
        let claim = ["SET", &key, "light", "NX", "PX", "600000"];
        let granted = value(&mut client.clone(), &claim).await;
        if granted != Ok(Value::Okay) {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        (self.masters.having(&key).await == self.masters.len()).then_some(())
    }
}
