//! A master that has lost its memory does not vote before it has recovered it, however it lost it, whatever else it
//! reports about itself, and whichever proxy asks it.
//!
//! In each test, the lock is on the first two of three masters; the third was unreachable when it was taken. If the
//! second master forgets it and votes, the second and the third grant it again.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, Instant};

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::{
    Masters, Proxy, Raw, Relay, Reply, encode, eventually, int, target_is_plain_redis, value,
};

/// Longer than any test.
const LEASE: &str = "3600000";
const LONG_WAIT: [&str; 4] = ["--vote-timeout", "200ms", "--restart-wait", "1h"];
/// Long enough to copy a few keys, not to copy many.
const SHORT_WAIT: [&str; 4] = ["--vote-timeout", "200ms", "--restart-wait", "8s"];
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// Maximum time for a copy.
const LONGEST_COPY: Duration = Duration::from_secs(180);

/// Three masters, the third of them behind a relay, and a proxy.
struct Scene {
    proxy: Proxy,
    relay: Relay,
    masters: Masters,
    addresses: Vec<String>,
}

impl Scene {
    fn set(masters: impl FnOnce() -> Masters, flags: &[&str]) -> Option<Scene> {
        if target_is_plain_redis() {
            return None;
        }
        let masters = masters();
        let (relay, addresses) = Relay::in_place_of(&masters, 2);
        let proxy = Proxy::in_front_of(&addresses, flags);
        proxy.expect_warnings();
        Some(Scene { proxy, relay, masters, addresses })
    }

    /// A client holds `keys` in database `db` on the first two masters only, and all masters take part again.
    async fn taken_by_two(&self, db: &str, keys: &[String]) {
        self.relay.cut_off().await;
        let client = self.client(db).await;
        for key in keys {
            granted(&client, key, "mine").await;
        }
        self.relay.heal();
        self.all_take_part().await;
        for master in 0..2 {
            assert!(self.has_all(master, db, keys).await, "a quorum has what was granted");
        }
    }

    async fn has_all(&self, master: usize, db: &str, keys: &[String]) -> bool {
        let mut direct = Raw::connect(&self.masters[master].address()).await;
        direct.ask(&["SELECT", db]).await;
        let keys = keys.iter().map(String::as_str);
        let exists: Vec<&str> = std::iter::once("EXISTS").chain(keys).collect();
        direct.ask(&exists).await == Reply::Int(exists.len() as i64 - 1)
    }

    /// The second master has forgotten `keys`, in one way or another. Another client asks for them until this master
    /// votes again, and for a while after that.
    async fn nobody_else_gets(&self, db: &str, keys: &[String]) {
        let mut other = self.client(db).await;
        let limit = Instant::now() + LONGEST_COPY;
        let mut votes_again = false;
        let mut turns_after = 0;
        while turns_after < 50 {
            assert!(
                Instant::now() < limit,
                "the master does not vote again: {:?}",
                self.proxy.log()
            );
            for key in keys {
                let reply = claim(&mut other, key, "somebody else's").await;
                assert_ne!(reply, Ok(Value::Okay), "{key} was granted twice");
            }
            votes_again =
                votes_again || self.has_all(1, db, keys).await && self.takes_part(1).await;
            turns_after += u32::from(votes_again);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns whether this master votes, and claims arrive there.
    async fn takes_part(&self, master: usize) -> bool {
        if self.proxy.says_of(master, "state").await != "voter" {
            return false;
        }
        let key = format!("beacon {}", fastrand::u64(..));
        let reply = claim(&mut self.client("0").await, &key, "light").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        reply == Ok(Value::Okay) && self.masters[master].has(&key).await
    }

    async fn all_take_part(&self) {
        for master in 0..self.masters.len() {
            eventually("every master takes part", || async {
                self.takes_part(master).await.then_some(())
            })
            .await;
        }
    }

    async fn client(&self, db: &str) -> MultiplexedConnection {
        let mut client = self.proxy.connection().await;
        assert_eq!(value(&mut client, &["SELECT", db]).await, Ok(Value::Okay));
        client
    }
}

/// A master that writes everything to disk before it answers used to be trusted whatever came back at its address:
/// this is how the documentation replaced a master.
#[tokio::test]
async fn a_durable_master_that_is_replaced_by_a_new_one_does_not_vote_at_once() {
    let start = || Masters::start_with(3, &DURABLE);
    let Some(mut scene) = Scene::set(start, &LONG_WAIT) else { return };
    let keys = ["lock".to_owned()];
    scene.taken_by_two("0", &keys).await;
    scene.masters[1].kill_9();
    scene.masters[1].restart_as_new();
    scene.nobody_else_gets("0", &keys).await;
}

/// The same with the volume of an hour ago.
#[tokio::test]
async fn a_durable_master_that_comes_back_with_an_older_volume_does_not_vote_at_once() {
    let start = || Masters::start_with(3, &DURABLE);
    let Some(mut scene) = Scene::set(start, &LONG_WAIT) else { return };
    let backup = scene.masters[1].back_up();
    let keys = ["lock".to_owned()];
    scene.taken_by_two("0", &keys).await;
    scene.masters[1].kill_9();
    scene.masters[1].restart_from(&backup);
    scene.nobody_else_gets("0", &keys).await;
}

/// The masters disagree about a counter and a hash, because one has missed a write. Copying used to stop there, and
/// the master voted without the locks of the databases that were not reached.
#[tokio::test]
async fn copying_goes_on_past_a_key_about_which_masters_disagree() {
    let Some(mut scene) = Scene::set(|| Masters::start(3), &SHORT_WAIT) else { return };
    let mut client = scene.client("0").await;
    assert_eq!(int(&mut client, &["INCR", "counter"]).await, 1);
    assert_eq!(int(&mut client, &["HINCRBY", "hash", "field", "1"]).await, 1);
    scene.relay.cut_off().await;
    eventually("two masters count on", || {
        let mut client = client.clone();
        async move { value(&mut client, &["INCR", "counter"]).await.ok() }
    })
    .await;
    assert_eq!(int(&mut client, &["HINCRBY", "hash", "field", "1"]).await, 2);
    let keys = ["lock".to_owned()];
    scene.taken_by_two("1", &keys).await;
    scene.masters[1].kill_9();
    scene.masters[1].restart_empty();
    scene.nobody_else_gets("1", &keys).await;
}

/// Copying took minutes, and `--restart-wait` used to let the master vote with what it had by then.
#[tokio::test]
async fn copying_many_keys_is_not_ended_by_a_timer() {
    let Some(mut scene) = Scene::set(|| Masters::start(3), &SHORT_WAIT) else { return };
    let fill = "for n = 1, 150000 do redis.call('SET', 'filler ' .. n, 'x', 'PX', 36000000) end";
    for master in scene.masters.iter() {
        master.ask(&["EVAL", fill, "0"]).await;
    }
    let keys: Vec<String> = (0..20).map(|n| format!("lock {n}")).collect();
    scene.taken_by_two("0", &keys).await;
    scene.masters[1].kill_9();
    scene.masters[1].restart_empty();
    scene.nobody_else_gets("0", &keys).await;
}

/// A mistyped flush used to hide a real one: failures of that command were taken for a proxy's own announcements.
#[tokio::test]
async fn a_flush_after_a_mistyped_one_is_noticed() {
    after(&[&["FLUSHDB", "0"], &["FLUSHDB"]]).await;
}

/// Statistics that were reset in time used to hide a flush.
#[tokio::test]
async fn a_flush_whose_traces_are_wiped_out_is_noticed() {
    after(&[&["FLUSHALL"], &["CONFIG", "RESETSTAT"]]).await;
}

/// Sends these commands to the second master, in one go.
async fn after(commands: &[&[&str]]) {
    let Some(scene) = Scene::set(|| Masters::start(3), &LONG_WAIT) else { return };
    let keys = ["lock".to_owned()];
    for _ in 0..3 {
        let mut direct = Raw::connect(&scene.masters[1].address()).await;
        if !scene.masters[1].has("lock").await {
            scene.taken_by_two("0", &keys).await;
        }
        let commands: Vec<u8> = commands.iter().flat_map(|words| encode(words)).collect();
        direct.send(&commands).await;
        direct.replies(2).await;
        scene.nobody_else_gets("0", &keys).await;
    }
}

/// Two of three masters were flushed. The proxy that saw it waits, but one that started then, or took over from it,
/// used to grant everything at once.
#[tokio::test]
async fn a_new_proxy_does_not_trust_masters_that_were_flushed() {
    let Some(scene) = Scene::set(|| Masters::start(3), &LONG_WAIT) else { return };
    scene.flush_two().await;
    let newcomer = Proxy::unready(&scene.addresses, &LONG_WAIT);
    newcomer.expect_warnings();
    refuses_for_a_while(&newcomer).await;
}

#[tokio::test]
async fn a_successor_does_not_trust_masters_that_were_flushed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("handover.sock").display().to_string();
    let flags = [&LONG_WAIT[..], &["--handover", &path]].concat();
    let Some(scene) = Scene::set(|| Masters::start(3), &flags) else { return };
    scene.flush_two().await;
    let successor = Proxy::unready(&scene.addresses, &flags);
    successor.expect_warnings();
    refuses_for_a_while(&successor).await;
    assert!(scene.proxy.ended().success(), "the one before has handed over");
}

impl Scene {
    /// All masters have the lock, two lose it, and the proxy knows.
    async fn flush_two(&self) {
        let client = self.client("0").await;
        granted(&client, "lock", "mine").await;
        for master in &self.masters[..2] {
            assert_eq!(master.ask(&["FLUSHALL"]).await, Reply::ok());
        }
        eventually("the proxy does not trust two masters", || {
            let mut client = client.clone();
            async move {
                let reply = claim(&mut client, "free", "mine").await;
                reply.is_err_and(|error| error.code() == Some("LOADING")).then_some(())
            }
        })
        .await;
    }
}

/// The proxy used to say for ever that they belonged to another cluster.
#[tokio::test]
async fn masters_with_marks_whose_roster_is_lost_are_used_again_after_restart_wait() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--restart-wait", "2s"];
    assert!(Proxy::start(&masters, &flags).terminate().success());
    for master in &*masters {
        assert_eq!(master.ask(&["DEL", "redlock-proxy:roster"]).await, Reply::Int(1));
    }
    let proxy = Proxy::unready(&masters.addresses(), &flags);
    proxy.expect_warnings();
    granted(&proxy.connection().await, "lock", "mine").await;
}

/// From its start until it has watched the masters for some time, the proxy grants the lock to nobody.
async fn refuses_for_a_while(proxy: &Proxy) {
    let mut client = proxy.connection().await;
    let limit = Instant::now() + Duration::from_secs(4);
    while Instant::now() < limit {
        let reply = claim(&mut client, "lock", "somebody else's").await;
        assert_ne!(reply, Ok(Value::Okay), "the lock was granted twice");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn granted(client: &MultiplexedConnection, key: &str, token: &str) {
    eventually("the lock is granted", || {
        let mut client = client.clone();
        async move { (claim(&mut client, key, token).await == Ok(Value::Okay)).then_some(()) }
    })
    .await;
}

async fn claim(
    client: &mut MultiplexedConnection,
    key: &str,
    token: &str,
) -> redis::RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", LEASE]).await
}
