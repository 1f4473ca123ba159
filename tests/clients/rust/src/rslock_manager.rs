//! rslock: Redlock in the client, with one server; binary tokens, and an extension that sets the value again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use rslock::{LockError, LockManager};

use crate::checks::{LONG, new_name, report};
use crate::library::{Library, Lock};

pub struct Rslock {
    manager: LockManager,
    connection: MultiplexedConnection,
}

pub async fn connect(address: &str) -> Result<Rslock> {
    let client = redis::Client::open(format!("redis://{address}/"))?;
    let connection = client.get_multiplexed_async_connection().await?;
    let mut manager = LockManager::from_clients(vec![client]);
    // One attempt at a time: `acquire_no_guard` retries by itself.
    manager.set_retry(1, Duration::from_millis(200));
    Ok(Rslock { manager, connection })
}

impl Library for Rslock {
    type Lock = RslockLock;

    fn lock(&self, name: &str, ttl: Duration) -> RslockLock {
        RslockLock { manager: self.manager.clone(), name: name.to_owned(), ttl, held: None }
    }

    async fn pttl(&self, key: &str) -> Result<i64> {
        Ok(self.connection.clone().pttl(key).await?)
    }

    async fn more(&self) -> Result<()> {
        report("is-freed", self.is_freed().await)
    }
}

impl Rslock {
    async fn is_freed(&self) -> Result<()> {
        let lock = self.manager.lock(new_name().as_str(), LONG).await?;
        ensure!(!self.manager.is_freed(&lock).await?, "it is held");
        self.manager.unlock(&lock).await;
        let freed = self.manager.is_freed(&lock).await;
        ensure!(matches!(freed, Err(LockError::RedisKeyNotFound)), "{freed:?}");
        let extended = self.manager.extend(&lock, LONG).await;
        ensure!(extended.is_err(), "nothing was left to extend");
        Ok(())
    }
}

pub struct RslockLock {
    manager: LockManager,
    name: String,
    ttl: Duration,
    held: Option<rslock::Lock>,
}

impl Lock for RslockLock {
    async fn acquire(&mut self) -> Result<bool> {
        match self.manager.lock(self.name.as_str(), self.ttl).await {
            Ok(lock) => self.held = Some(lock),
            Err(LockError::Unavailable) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    async fn wait(&mut self) -> Result<()> {
        self.held = Some(self.manager.acquire_no_guard(self.name.as_str(), self.ttl).await?);
        Ok(())
    }

    async fn extend(&mut self, ttl: Duration) -> Result<()> {
        let held = self.held.as_ref().context("not held")?;
        self.held = Some(self.manager.extend(held, ttl).await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<Option<bool>> {
        self.manager.unlock(self.held.as_ref().context("not held")?).await;
        Ok(None)
    }

    async fn release_as_stranger(&mut self) -> Result<Option<bool>> {
        let stolen = rslock::Lock {
            resource: self.name.clone().into_bytes(),
            val: b"stolen".to_vec(),
            validity_time: 60_000,
            lock_manager: self.manager.clone(),
        };
        self.manager.unlock(&stolen).await;
        Ok(None)
    }
}
