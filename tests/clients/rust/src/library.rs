//! The interface between the checks and a lock library.

use std::time::Duration;

use anyhow::Result;

/// One library connected to one server.
pub trait Library {
    /// One holder's view of one lock. Dropping it releases nothing.
    type Lock: Lock;

    fn lock(&self, name: &str, ttl: Duration) -> Self::Lock;

    /// Returns the `PTTL` of a key, bypassing the library.
    async fn pttl(&self, key: &str) -> Result<i64>;

    /// Runs the checks that only this library has, and prints the name of each.
    async fn more(&self) -> Result<()>;
}

pub trait Lock {
    /// Takes the lock if it is free. Returns whether it did.
    async fn acquire(&mut self) -> Result<bool>;

    /// Waits until the lock is free, and takes it.
    async fn wait(&mut self) -> Result<()>;

    /// Extends the lock to this TTL.
    async fn extend(&mut self, ttl: Duration) -> Result<()>;

    /// Returns whether it was held, or `None` if the library does not report that.
    async fn release(&mut self) -> Result<Option<bool>>;

    /// Asks the server for a release with a token that is not the holder's. Returns the same as `release`.
    async fn release_as_stranger(&mut self) -> Result<Option<bool>>;
}
