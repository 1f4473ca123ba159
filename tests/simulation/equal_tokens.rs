//! Clients whose token does not identify an attempt: they use one token for all attempts at a lock,
//! or share one with all other clients.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, Gone, RELEASE};
use super::resp::Reply;

/// Token of all clients that send `SET lock 1 NX PX`.
const SHARED: &str = "1";

impl Client {
    /// Locks as redsync and redlock-py do: one token for several attempts, through any proxy. Some
    /// attempts are released before the next one, and some are abandoned before the answer.
    pub async fn lock_by_retrying(&mut self) -> Result<(), Gone> {
        let (key, token, lease) = (self.key(), self.token(), self.lease());
        for _ in 0..self.rng.u8(2..6) {
            if self.claim_impatiently(&key, &token, lease).await {
                self.granted(&key, &token, lease);
                self.work(lease).await;
                return self.release(&key, &token).await.map(drop);
            }
            if self.rng.bool() {
                self.go_elsewhere();
            }
            if self.rng.bool() && self.release(&key, &token).await.is_err() {
                self.hang_up();
            }
            let pause_ms = self.rng.u64(0..60);
            sleep(Duration::from_millis(pause_ms)).await;
        }
        Ok(())
    }

    /// Claims a lock with limited patience. Returns whether it was granted within that time.
    async fn claim_impatiently(&mut self, key: &str, token: &str, lease: Duration) -> bool {
        let patience_ms = if self.rng.bool() { 60_000 } else { self.rng.u64(1..800) };
        let px = lease.as_millis().to_string();
        let words = ["SET", key, token, "NX", "PX", &px];
        match timeout(Duration::from_millis(patience_ms), self.ask(&words)).await {
            Ok(Ok(reply)) => self.is_granted(&reply, &Reply::ok(), &Reply::Nil),
            Ok(Err(Gone)) | Err(_) => {
                self.hang_up();
                false
            }
        }
    }

    /// Sends `SET key 1 NX PX`, and releases the lock while the client certainly still holds it.
    pub async fn lock_with_the_shared_token(&mut self) -> Result<(), Gone> {
        let (key, holder, lease) = (self.key(), self.token(), self.lease());
        let px = lease.as_millis().to_string();
        let asked = Instant::now();
        let reply = self.ask(&["SET", &key, SHARED, "NX", "PX", &px]).await?;
        let is_granted = self.is_granted(&reply, &Reply::ok(), &Reply::Nil);
        if !is_granted || !self.world.releases.are_none_since(&key, asked) {
            return Ok(());
        }
        self.granted(&key, &holder, lease);
        self.work(lease).await;
        let Some((since, until)) = self.world.journal.held(&key, &holder) else { return Ok(()) };
        self.world.releases.begin(&key);
        self.world.journal.gave_up(&key, &holder);
        let reply = self.script(RELEASE, &["1", &key, SHARED]).await;
        self.world.releases.end(&key);
        if let Reply::Int(done) = reply? {
            let since = Some(since).filter(|_| until > Instant::now());
            self.expect_ours(&key, &holder, since, done, "a release");
        }
        Ok(())
    }
}

/// Releases of the shared token in progress. A lock granted meanwhile cannot be told from the one
/// being released, with one Redis neither, so clients do not rely on it.
#[derive(Default)]
pub struct Releases(RefCell<BTreeMap<String, UnderWay>>);

#[derive(Default)]
struct UnderWay {
    number: u32,
    last_ended: Option<Instant>,
}

impl Releases {
    fn begin(&self, key: &str) {
        self.0.borrow_mut().entry(key.to_owned()).or_default().number += 1;
    }

    fn end(&self, key: &str) {
        if let Some(under_way) = self.0.borrow_mut().get_mut(key) {
            under_way.number -= 1;
            under_way.last_ended = Some(Instant::now());
        }
    }

    fn are_none_since(&self, key: &str, asked: Instant) -> bool {
        let all = self.0.borrow();
        let is_over = |it: &UnderWay| it.number == 0 && it.last_ended.is_none_or(|end| end < asked);
        all.get(key).is_none_or(is_over)
    }
}
