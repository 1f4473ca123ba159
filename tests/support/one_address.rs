//! One address for locks and everything else.

use super::{Master, Masters, Proxy, Reply, eventually, words};

/// Three masters, a data Redis, and a proxy that treats `lock:*` as locks.
pub struct OneAddress {
    /// Dropped first, so it never sees a master disappear.
    pub proxy: Proxy,
    /// Holds the locks.
    pub masters: Masters,
    /// Holds everything else.
    pub data: Master,
}

impl OneAddress {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(flags: &[&str]) -> Self {
        Self::beside(Master::start(), flags)
    }

    /// Starts the proxy and its masters with this data Redis.
    pub fn beside(data: Master, flags: &[&str]) -> Self {
        let url = format!("redis://{}", data.address());
        Self::start_at(&url, data, flags)
    }

    /// Starts them with this data Redis, which the proxy reaches at `url`.
    pub fn start_at(url: &str, data: Master, flags: &[&str]) -> Self {
        let masters = Masters::start(3);
        let own = ["--data", url, "--lock-keys", "lock:*", "--lock-channels", "free:*"];
        let proxy = Proxy::start(&masters, &[&own, flags].concat());
        Self { proxy, masters, data }
    }

    /// Returns the lines of the data Redis's `CLIENT LIST` that contain all of `parts`.
    pub async fn clients_of_data(&self, parts: &[&str]) -> Vec<String> {
        let clients = self.data.ask(&words("CLIENT LIST")).await.text();
        let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
        clients.lines().filter(has_all).map(str::to_owned).collect()
    }

    /// Waits until the data Redis answers ordinary requests with this error.
    pub async fn data_says(&self, error: &str) {
        eventually(&format!("the data Redis says {error}"), || async {
            self.data.ask(&words("GET page")).await.is_error(error).then_some(())
        })
        .await;
    }
}

/// Returns the data Redis's own reply to `line` in database `db`.
pub async fn in_database(data: &Master, db: u32, line: &str) -> Reply {
    let mut direct = super::Raw::connect(&data.address()).await;
    assert_eq!(direct.ask(&["SELECT", &db.to_string()]).await, Reply::ok());
    direct.ask(&words(line)).await
}
