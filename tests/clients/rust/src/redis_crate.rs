//! The `redis` crate, and the lock of the Redis manual as applications write it themselves.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client, ExistenceCheck, Script, SetExpiry, SetOptions,
};

use crate::checks::{new_name, report};
use crate::library::{Library, Lock};

pub struct RedisCrate {
    url: String,
    connection: MultiplexedConnection,
}

pub async fn connect(address: &str, protocol: &str) -> Result<RedisCrate> {
    let url = format!("redis://{address}/DATABASE?protocol={protocol}");
    let connection = connection(&url, 0).await?;
    Ok(RedisCrate { url, connection })
}

/// The crate's own limits (1 s to connect, 500 ms to answer) would cause failures on a busy machine.
async fn connection(url: &str, database: u8) -> Result<MultiplexedConnection> {
    let patience = Some(Duration::from_secs(20));
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(patience)
        .set_response_timeout(patience);
    let client = Client::open(url.replace("DATABASE", &database.to_string()))?;
    Ok(client.get_multiplexed_async_connection_with_config(&patient).await?)
}

impl Library for RedisCrate {
    type Lock = PlainLock;

    fn lock(&self, name: &str, ttl: Duration) -> PlainLock {
        let token = format!("{:032x}", fastrand::u128(..));
        PlainLock { connection: self.connection.clone(), name: name.to_owned(), token, ttl }
    }

    async fn pttl(&self, key: &str) -> Result<i64> {
        Ok(self.connection.clone().pttl(key).await?)
    }

    async fn more(&self) -> Result<()> {
        report("shared-connection", self.shared_connection().await)?;
        report("databases", self.databases().await)
    }
}

impl RedisCrate {
    /// Fifty tasks share one connection: each gets the reply to its own request.
    async fn shared_connection(&self) -> Result<()> {
        let name = new_name();
        let tasks = (0..50).map(|id| {
            let (connection, key) = (self.connection.clone(), format!("{name} {id}"));
            tokio::spawn(claim_and_delete(connection, key))
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        Ok(())
    }

    async fn databases(&self) -> Result<()> {
        let key = new_name();
        let (mut zero, mut five) = (self.connection.clone(), connection(&self.url, 5).await?);
        let claimed: (bool, bool) =
            (zero.set_nx(&key, "zero").await?, five.set_nx(&key, "five").await?);
        ensure!(claimed == (true, true), "{claimed:?}");
        let seen: (String, String) = (zero.get(&key).await?, five.get(&key).await?);
        ensure!(seen == ("zero".to_owned(), "five".to_owned()), "{seen:?}");
        let deleted: (i64, i64) = (zero.del(&key).await?, five.del(&key).await?);
        ensure!(deleted == (1, 1), "{deleted:?}");
        Ok(())
    }
}

async fn claim_and_delete(mut connection: MultiplexedConnection, key: String) -> Result<()> {
    for turn in 0..10 {
        let token = format!("{key} {turn}");
        let claimed: bool = connection.set_nx(&key, &token).await?;
        ensure!(claimed, "{token}");
        let seen: String = connection.get(&key).await?;
        ensure!(seen == token, "{token}: {seen}");
        let deleted: i64 = connection.del(&key).await?;
        ensure!(deleted == 1, "{token}");
    }
    Ok(())
}

pub struct PlainLock {
    connection: MultiplexedConnection,
    name: String,
    token: String,
    ttl: Duration,
}

impl PlainLock {
    async fn script(&mut self, text: &str, ttl: Duration) -> Result<bool> {
        let script = Script::new(text);
        let mut call = script.key(&self.name);
        call.arg(&self.token).arg(u64::try_from(ttl.as_millis())?);
        let count: i64 = call.invoke_async(&mut self.connection).await?;
        Ok(count == 1)
    }
}

impl Lock for PlainLock {
    async fn acquire(&mut self) -> Result<bool> {
        let claim = SetOptions::default()
            .conditional_set(ExistenceCheck::NX)
            .with_expiration(SetExpiry::PX(u64::try_from(self.ttl.as_millis())?));
        let reply: Option<String> =
            self.connection.set_options(&self.name, &self.token, claim).await?;
        Ok(reply.as_deref() == Some("OK"))
    }

    async fn wait(&mut self) -> Result<()> {
        while !self.acquire().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn extend(&mut self, ttl: Duration) -> Result<()> {
        self.script(EXTEND, ttl).await?.then_some(()).context("not extended")
    }

    async fn release(&mut self) -> Result<Option<bool>> {
        Ok(Some(self.script(RELEASE, self.ttl).await?))
    }

    async fn release_as_stranger(&mut self) -> Result<Option<bool>> {
        // A refused token is a stranger's.
        self.release().await
    }
}

const RELEASE: &str = r#"
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end"#;

const EXTEND: &str = r#"
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("pexpire", KEYS[1], ARGV[2])
else
    return 0
end"#;
