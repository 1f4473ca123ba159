//! What the checks ask of a lock library.

use std::time::Duration;

use anyhow::Result;

/// One library at one server.
pub trait Library {
    /// One holder's view of one lock. Letting go of it releases nothing.
    type Lock: Lock;

    fn lock(&self, name: &str, ttl: Duration) -> Self::Lock;

    /// `PTTL` of a key, asked past the library.
    async fn pttl(&self, key: &str) -> Result<i64>;

    /// The checks of this library alone; prints the name of each.
    async fn more(&self) -> Result<()>;
}

pub trait Lock {
    /// Takes the lock if it is free; tells whether it did.
    async fn acquire(&mut self) -> Result<bool>;

    /// Takes the lock as soon as it is free.
    async fn wait(&mut self) -> Result<()>;

    /// Prolongs the lock to this TTL.
    async fn extend(&mut self, ttl: Duration) -> Result<()>;

    /// Whether it was held; `None` when the library does not tell.
    async fn release(&mut self) -> Result<Option<bool>>;

    /// Asks the server for a release with a token that is not the holder's; answers as `release`
    /// does.
    async fn release_as_stranger(&mut self) -> Result<Option<bool>>;
}
