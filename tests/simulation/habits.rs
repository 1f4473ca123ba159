//! Ways in which clients of various libraries use locks.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::client::{ACQUIRE, Client, EXTEND, Gone, PROGRAM, RELEASE};
use super::journal::FOREVER;
use super::resp::Reply;

impl Client {
    /// Takes and releases locks in various ways until the world ends.
    pub async fn live(mut self) {
        while !self.world.is_ending() {
            let pause_ms = self.rng.u64(0..self.world.plan.idle_ms);
            sleep(Duration::from_millis(pause_ms)).await;
            let done = match self.rng.u8(0..40) {
                0 => self.look().await,
                1 => self.pipeline().await,
                2 => self.leave_in_the_middle().await,
                3..=4 if self.world.plan.may_hold_forever => self.lock_in_two_steps().await,
                5..=8 => self.acquire(ACQUIRE).await,
                9..=11 => self.acquire(PROGRAM).await,
                12..=14 => self.lock_by_retrying().await,
                15..=17 => self.lock_with_the_shared_token().await,
                18..=31 if self.world.plan.may_hold_forever => self.use_a_register().await,
                _ => self.lock().await,
            };
            if done.is_err() {
                self.hang_up();
                let pause_ms = self.rng.u64(10..200);
                sleep(Duration::from_millis(pause_ms)).await;
            }
        }
    }

    /// Takes a lock with `SET NX PX`, and perhaps extends it, perhaps releases it.
    async fn lock(&mut self) -> Result<(), Gone> {
        let (key, token, lease) = (self.key(), self.token(), self.lease());
        let px = lease.as_millis().to_string();
        let reply = self.ask(&["SET", &key, &token, "NX", "PX", &px]).await?;
        if !self.is_granted(&reply, &Reply::ok(), &Reply::Nil) {
            return Ok(());
        }
        self.granted(&key, &token, lease);
        self.work(lease).await;
        while self.rng.u8(0..3) == 0 {
            self.extend(&key, &token, lease).await?;
            self.work(lease).await;
        }
        match self.rng.u8(0..8) {
            // Leaves the lock to its TTL.
            0 => Ok(()),
            _ => self.release(&key, &token).await.map(drop),
        }
    }

    /// Uses one token for the client's whole life: takes a free lock, or extends its own.
    async fn acquire(&mut self, script: &str) -> Result<(), Gone> {
        let (key, token, lease) = (self.key(), self.name.clone(), self.lease());
        let px = lease.as_millis().to_string();
        for _ in 0..self.rng.u8(1..4) {
            let asked = Instant::now();
            let reply = self.script(script, &["1", &key, &token, &px]).await;
            if !matches!(&reply, Ok(reply) if reply.error_prefix().is_none()) {
                // A lock held before may by now have the new time to live, which may be shorter.
                self.world.journal.gave_up(&key, &token);
            }
            let reply = reply?;
            let answer = match &reply {
                Reply::Array(words) => words[0].clone(),
                other => other.clone(),
            };
            if self.is_granted(&answer, &Reply::Int(1), &Reply::Int(0)) {
                // A program's TTL runs from its execution on the masters, so the proxy cannot pad
                // it.
                let passed = if script == PROGRAM { asked.elapsed() } else { Duration::ZERO };
                self.granted(&key, &token, lease.saturating_sub(passed));
                self.work(lease).await;
            } else {
                let pause_ms = self.rng.u64(0..200);
                sleep(Duration::from_millis(pause_ms)).await;
            }
        }
        match self.rng.u8(0..8) {
            0 => Ok(()),
            _ => self.release(&key, &token).await.map(drop),
        }
    }

    /// Sends `SETNX`, and then a TTL. In between, the lock would never expire by itself.
    async fn lock_in_two_steps(&mut self) -> Result<(), Gone> {
        let key = format!("nx-{}", self.rng.u8(0..2));
        let (token, lease) = (self.token(), self.lease());
        let reply = self.ask(&["SETNX", &key, &token]).await;
        if let Ok(reply) = &reply
            && !self.is_granted(reply, &Reply::Int(1), &Reply::Int(0))
        {
            return Ok(());
        }
        if reply.is_ok() {
            self.granted(&key, &token, FOREVER);
            let px = lease.as_millis().to_string();
            // The lock may expire after this time whether or not the client gets the answer.
            let since = self.world.journal.held_since(&key, &token);
            self.world.journal.gave_up(&key, &token);
            self.prolonged(&key, &token, lease);
            let asked = Instant::now();
            if let Ok(Reply::Int(done)) = self.ask(&["PEXPIRE", &key, &px]).await {
                // A client whose answer takes longer than the TTL it asked for may find that the
                // key has expired.
                let since = since.filter(|_| asked.elapsed() < lease);
                self.expect_ours(&key, &token, since, done, "PEXPIRE");
                match done {
                    0 => self.world.journal.gave_up(&key, &token),
                    _ => {
                        self.prolonged(&key, &token, lease);
                        self.work(lease).await;
                    }
                }
            }
        }
        self.release_for_certain(&key, &token).await;
        reply.map(drop)
    }

    /// Releases a lock that may never expire, however many attempts it takes.
    async fn release_for_certain(&mut self, key: &str, token: &str) {
        loop {
            match self.release(key, token).await {
                Ok(reply) if reply.error_prefix().is_none() => return,
                Ok(_) => {}
                Err(Gone) => self.hang_up(),
            }
            sleep(Duration::from_millis(self.rng.u64(10..200))).await;
        }
    }

    /// Sends several requests in one write. The replies must come in the same order.
    async fn pipeline(&mut self) -> Result<(), Gone> {
        let (key, token) = (self.key(), self.token());
        let requests: [&[&str]; 5] = [
            &["SET", &key, &token, "NX", "PX", "5000"],
            &["PTTL", &key],
            &["ECHO", &token],
            &["GET", &key],
            &["EVAL", RELEASE, "1", &key, &token],
        ];
        self.send(&requests).await?;
        for (at, request) in requests.into_iter().enumerate() {
            let reply = self.receive(request).await?;
            let is_fitting = match at {
                0 => reply == Reply::ok() || reply == Reply::Nil,
                1 => matches!(reply, Reply::Int(-2..=5000)) || matches!(reply, Reply::Int(_)),
                2 => reply == Reply::text(token.as_str()),
                3 => matches!(reply, Reply::Bulk(_) | Reply::Nil),
                _ => matches!(reply, Reply::Int(0 | 1)),
            };
            self.expect_sensible(request, &reply, is_fitting);
            if at == 0 && reply == Reply::ok() {
                // For a moment only: the release is already on its way.
                self.granted(&key, &token, Duration::ZERO);
            }
        }
        Ok(())
    }

    /// Sends a claim and disconnects, so that nobody reads the answer.
    async fn leave_in_the_middle(&mut self) -> Result<(), Gone> {
        let (key, token) = (self.key(), self.token());
        let px = self.lease().as_millis().to_string();
        self.send(&[&["SET", &key, &token, "NX", "PX", &px]]).await?;
        let pause_ms = self.rng.u64(0..5);
        sleep(Duration::from_millis(pause_ms)).await;
        Err(Gone)
    }

    async fn look(&mut self) -> Result<(), Gone> {
        let key = self.key();
        let request = ["GET", &key];
        let reply = self.ask(&request).await?;
        self.expect_sensible(&request, &reply, matches!(reply, Reply::Bulk(_) | Reply::Nil));
        Ok(())
    }

    async fn extend(&mut self, key: &str, token: &str, lease: Duration) -> Result<(), Gone> {
        let px = lease.as_millis().to_string();
        let reply = self.script(EXTEND, &["1", key, token, &px]).await?;
        if let Reply::Int(done) = reply {
            let since = self.world.journal.held_since(key, token);
            self.expect_ours(key, token, since, done, "an extension");
            if done == 1 {
                self.prolonged(key, token, lease);
            }
        }
        self.expect_sensible(&["extend", key], &reply, matches!(reply, Reply::Int(0 | 1)));
        Ok(())
    }

    /// Holds the lock for a while, sometimes for too long.
    pub async fn work(&mut self, lease: Duration) {
        let held = lease.mul_f64(self.rng.f64() * self.rng.f64() * 1.3);
        sleep(held).await;
    }

    pub fn key(&mut self) -> String {
        format!("key-{}", self.rng.u8(0..self.world.plan.keys))
    }

    pub fn lease(&mut self) -> Duration {
        let longest_ms = self.world.plan.longest_lease.as_millis() as u64;
        Duration::from_millis(self.rng.u64(30..=longest_ms))
    }
}
