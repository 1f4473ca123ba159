//! Clients' use of registers: counters, compare-and-set, queues, semaphores and transactions.

use tokio::time::Instant;

use super::client::{Client, Gone};
use super::history::{Call, Operation};
use super::resp::Reply;

const EXCHANGE: &str = "if (redis.call('get', KEYS[1]) or '') == ARGV[1] then \
    redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0";
const ACQUIRE: &str = "if redis.call('hlen', KEYS[1]) < 2 then \
    return redis.call('hset', KEYS[1], ARGV[1], '1') end return 0";
const TRANSFER: &str = "return {redis.call('decr', KEYS[1]), redis.call('incr', KEYS[2])}";

impl Client {
    /// Performs one or a few operations on one object.
    pub async fn use_a_register(&mut self) -> Result<(), Gone> {
        let number = self.rng.u8(0..2);
        match self.rng.u8(0..5) {
            0 => {
                let key = format!("reg-counter-{number}");
                self.call(&key, Operation::Increment, &["INCR", &key]).await.map(drop)
            }
            1 => self.exchange(&format!("reg-value-{number}")).await,
            2 => self.queue(&format!("reg-list-{number}")).await,
            3 => self.hold_a_permit(&format!("reg-permits-{number}")).await,
            _ => self.two_at_once(&format!("reg-pair-{number}")).await,
        }
    }

    /// Reads a value and replaces it, by a script or under `WATCH`.
    async fn exchange(&mut self, key: &str) -> Result<(), Gone> {
        let is_watching = self.rng.bool();
        if is_watching && self.ask(&["WATCH", key]).await? != Reply::ok() {
            // The proxy remembers that it could not check the key, and makes the next transaction
            // fail.
            return self.ask(&["UNWATCH"]).await.map(drop);
        }
        let old = match self.call(key, Operation::Read, &["GET", key]).await? {
            Reply::Bulk(old) => String::from_utf8_lossy(&old).into_owned(),
            Reply::Nil => String::new(),
            _ => return self.ask(&["UNWATCH"]).await.map(drop),
        };
        let new = self.token();
        let (from, to) = (old.clone().into_bytes(), new.clone().into_bytes());
        let exchange = Operation::Exchange(from, to);
        if !is_watching {
            let words = ["EVAL", EXCHANGE, "1", key, &old, &new];
            return self.call(key, exchange, &words).await.map(drop);
        }
        let asked = Instant::now();
        let reply = self.transaction(&[&["SET", key, &new]]).await;
        match reply {
            // Some client touched the key, whether or not its value changed.
            Ok(Reply::Nil) => {}
            Ok(Reply::Array(_)) => self.record(key, exchange, asked, Ok(&Reply::Int(1))),
            Ok(Reply::Error(_)) => self.record(key, exchange, asked, Err(())),
            Ok(other) => self.expect_sensible(&["EXEC"], &other, false),
            Err(Gone) => {
                self.record(key, exchange, asked, Err(()));
                return Err(Gone);
            }
        }
        Ok(())
    }

    async fn queue(&mut self, key: &str) -> Result<(), Gone> {
        if self.rng.bool() {
            let element = self.token();
            let append = Operation::Append(element.clone().into_bytes());
            return self.call(key, append, &["RPUSH", key, &element]).await.map(drop);
        }
        self.call(key, Operation::Pop, &["LPOP", key]).await.map(drop)
    }

    async fn hold_a_permit(&mut self, key: &str) -> Result<(), Gone> {
        let name = self.token();
        let acquire = Operation::Acquire(name.clone().into_bytes());
        let words = ["EVAL", ACQUIRE, "1", key, &name];
        let reply = self.call(key, acquire, &words).await;
        if matches!(reply, Ok(Reply::Int(0))) {
            return Ok(());
        }
        let lease = self.lease();
        self.work(lease).await;
        let give_back = Operation::GiveBack(name.clone().into_bytes());
        reply.and(self.call(key, give_back, &["HDEL", key, &name]).await).map(drop)
    }

    async fn two_at_once(&mut self, object: &str) -> Result<(), Gone> {
        let (one, other) = (format!("{object}-a"), format!("{object}-b"));
        match self.rng.u8(0..3) {
            0 => {
                let words = ["EVAL", TRANSFER, "2", &one, &other];
                self.call(object, Operation::Transfer, &words).await.map(drop)
            }
            1 => self.call(object, Operation::Increment, &["INCR", &one]).await.map(drop),
            _ => {
                let asked = Instant::now();
                let reply = self.transaction(&[&["INCR", &one], &["INCR", &other]]).await;
                let told = reply.as_ref().map_err(|_| ());
                self.record(object, Operation::IncrementBoth, asked, told);
                reply.map(drop)
            }
        }
    }

    /// Runs a transaction. Returns the answer of `EXEC`.
    async fn transaction(&mut self, commands: &[&[&str]]) -> Result<Reply, Gone> {
        let requests: Vec<&[&str]> = [&[&["MULTI"][..]], commands, &[&["EXEC"][..]]].concat();
        self.send(&requests).await?;
        let mut last = Reply::Nil;
        for request in requests {
            last = self.receive(request).await?;
        }
        Ok(last)
    }

    async fn call(
        &mut self,
        object: &str,
        operation: Operation,
        words: &[&str],
    ) -> Result<Reply, Gone> {
        let asked = Instant::now();
        let reply = self.ask(words).await;
        self.record(object, operation, asked, reply.as_ref().map_err(|_| ()));
        let reply = reply?;
        let is_fitting = reply.error_prefix().is_none();
        self.expect_sensible(words, &reply, is_fitting);
        Ok(reply)
    }

    fn record(&self, object: &str, operation: Operation, asked: Instant, told: Result<&Reply, ()>) {
        let told = told.ok().filter(|reply| reply.error_prefix().is_none());
        let answer = told.map(|reply| (Instant::now(), reply.clone()));
        let mut histories = self.world.histories.borrow_mut();
        let history = histories.entry(object.to_owned()).or_default();
        history.push(Call { operation, asked, answer });
    }
}
