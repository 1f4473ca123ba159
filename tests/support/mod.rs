//! Foundations of the black-box tests: real `redis-server` processes, the real proxy in front of
//! them, a network that can be made slow or cut, and a client that sees every byte.
//!
//! No test sleeps and hopes that something happens meanwhile. Conditions are polled
//! ([`eventually`]) with a limit so generous that only a real failure reaches it, and processes die
//! with the value that owns them.
//!
//! With `REDLOCK_TEST_TARGET=redis` a plain `redis-server` takes the place of the proxy and its
//! masters (there is only one). That checks the tests themselves: a test that plain Redis fails
//! demands something that Redis does not promise.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "every test binary uses its own part of this module"
)]
#![allow(missing_docs, reason = "names and types tell it; what needs a word has one")]
#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

pub mod certificates;
pub mod client;
pub mod clock;
pub mod followed;
pub mod http;
pub mod linearizable;
pub mod master;
pub mod one_address;
pub mod proxy;
pub mod raw;
pub mod relay;
pub mod reply;
pub mod scripts;
pub mod sentinel;
pub mod side_by_side;
pub mod stage;
pub mod state;
pub mod subscriber;
pub mod users;

use std::future::Future;
use std::time::{Duration, Instant};

pub use client::{connection, int, text, value};
pub use clock::Clock;
pub use master::{Master, Masters};
pub use one_address::OneAddress;
pub use proxy::{Proxy, run};
pub use raw::{Raw, encode, words};
pub use relay::Relay;
pub use reply::Reply;
pub use sentinel::Sentinel;
pub use side_by_side::compare;
pub use stage::Stage;
pub use state::State;
pub use subscriber::{PROTOCOLS, Subscriber};

/// Time limit of a condition. A loaded machine needs seconds, never this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns whether a plain `redis-server` takes the proxy's place. Tests of features that need a
/// quorum then have nothing to test.
pub fn target_is_plain_redis() -> bool {
    std::env::var("REDLOCK_TEST_TARGET").is_ok_and(|target| target == "redis")
}

/// Reads a number from an environment variable that sets a test's size or seed.
pub fn setting(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}

/// Polls until `check` returns `Some`. Fails the test with `what` if that takes longer than
/// [`PATIENCE`].
pub async fn eventually<T, F, Fut>(what: &str, mut check: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < limit, "gave up waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The blocking form of [`eventually`], for starting processes.
pub fn eventually_blocking<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < limit, "gave up waiting: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a port that was free a moment ago. Another process may take it first, so callers must be
/// ready to ask again.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("the address of a bound socket").port()
}
