//! One address for locks and everything else.

use super::{Master, Masters, Proxy};

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
        let data = Master::start();
        let url = format!("redis://{}", data.address());
        Self::start_at(&url, data, flags)
    }

    /// The same with the data Redis at another address.
    pub fn start_at(url: &str, data: Master, flags: &[&str]) -> Self {
        let masters = Masters::start(3);
        let own = ["--data", url, "--lock-keys", "lock:*", "--lock-channels", "free:*"];
        let proxy = Proxy::start(&masters, &[&own, flags].concat());
        Self { masters, data, proxy }
    }
}
