//! One address for locks and everything else.

use super::{Master, Masters, Proxy, Reply, eventually, words};

/// Three masters, a data Redis and a proxy for which `lock:*` are locks.
pub struct OneAddress {
    /// It goes first, and so never misses a master.
    pub proxy: Proxy,
    /// Where the locks are.
    pub masters: Masters,
    /// Where everything else is.
    pub data: Master,
}

impl OneAddress {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(flags: &[&str]) -> Self {
        Self::beside(Master::start(), flags)
    }

    /// With this data Redis.
    pub fn beside(data: Master, flags: &[&str]) -> Self {
        let url = format!("redis://{}", data.address());
        Self::start_at(&url, data, flags)
    }

    /// With this data Redis, which the proxy knows by another address.
    pub fn start_at(url: &str, data: Master, flags: &[&str]) -> Self {
        let masters = Masters::start(3);
        let own = ["--data", url, "--lock-keys", "lock:*", "--lock-channels", "free:*"];
        let proxy = Proxy::start(&masters, &[&own, flags].concat());
        Self { proxy, masters, data }
    }

    /// The lines of `CLIENT LIST` of the data Redis that have all of these words.
    pub async fn clients_of_data(&self, parts: &[&str]) -> Vec<String> {
        let clients = self.data.ask(&words("CLIENT LIST")).await.text();
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        clients.lines().filter(has_all).map(str::to_owned).collect()
    }

    /// Waits until the data Redis answers what any client asks with this error.
    pub async fn data_says(&self, error: &str) {
        eventually(&format!("the data Redis says {error}"), || async {
            self.data.ask(&words("GET page")).await.is_error(error).then_some(())
        })
        .await;
    }
}

/// What `line` is answered by the data Redis itself, in a database.
pub async fn in_database(data: &Master, db: u32, line: &str) -> Reply {
    let mut direct = super::Raw::connect(&data.address()).await;
    assert_eq!(direct.ask(&["SELECT", &db.to_string()]).await, Reply::ok());
    direct.ask(&words(line)).await
}
