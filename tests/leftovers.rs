//! Operations that one master has missed leave no lock: a key deleted or unlocked while a master was unreachable is
//! nobody's again when another master loses its memory and copies it back from the others.

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::{REDISSON_LOCK, REDISSON_UNLOCK, RELEASE};
use support::{Masters, Proxy, Relay, eventually, target_is_plain_redis, value};

const TEN_MINUTES: &str = "600000";
const FLAGS: [&str; 4] = ["--vote-timeout", "200ms", "--restart-wait", "1h"];

/// A lock without a TTL, and the answer that grants it.
const SETNX: (&[&str], Value) = (&["SETNX", "lock", "1"], Value::Int(1));
const DEL: &[&str] = &["DEL", "lock"];
/// A lock with a TTL.
const SET: (&[&str], Value) = (&["SET", "lock", "mine", "NX", "PX", TEN_MINUTES], Value::Okay);
const GIVE_BACK: &[&str] = &["EVAL", RELEASE, "1", "lock", "mine"];
/// A lock in a hash instead of a string.
const LOCK: (&[&str], Value) =
    (&["EVAL", REDISSON_LOCK, "1", "lock", TEN_MINUTES, "mine"], Value::Nil);
const UNLOCK: &[&str] = &[
    "EVAL",
    REDISSON_UNLOCK,
    "3",
    "lock",
    "channel",
    "latch",
    "0",
    "30000",
    "mine",
    "PUBLISH",
    "1000",
];
const LOCK_BY_OTHER: (&[&str], Value) =
    (&["EVAL", REDISSON_LOCK, "1", "lock", TEN_MINUTES, "somebody else"], Value::Nil);

/// The proxy was replaced meanwhile, so nobody was left to deliver the `DEL`.
#[tokio::test]
async fn a_deleted_lock_does_not_come_back_from_a_master_that_missed_the_deletion() {
    released_without_the_third(SETNX, DEL, SETNX, true).await;
}

/// The same while the proxy stays alive.
#[tokio::test]
async fn a_deleted_lock_does_not_come_back_while_its_proxy_lives_on() {
    released_without_the_third(SETNX, DEL, SETNX, false).await;
}

/// A lock with a TTL, released by its token.
#[tokio::test]
async fn a_released_lock_does_not_come_back_from_a_master_that_missed_the_release() {
    released_without_the_third(SET, GIVE_BACK, SET, true).await;
}

/// The same while the proxy stays alive.
#[tokio::test]
async fn a_released_lock_does_not_come_back_while_its_proxy_lives_on() {
    released_without_the_third(SET, GIVE_BACK, SET, false).await;
}

/// The end of a lock is not forgotten when the masters that know it lose their memory one after the other.
#[tokio::test]
async fn a_deleted_lock_does_not_come_back_when_one_master_after_the_other_forgets() {
    if target_is_plain_redis() {
        return;
    }
    let mut scene = Scene::released(SETNX, DEL, true).await;
    scene.forgets(1).await;
    scene.forgets(0).await;
    scene.is_free(SETNX).await;
}

/// A release with another token ends nothing.
#[tokio::test]
async fn a_lock_that_was_not_given_back_stays() {
    if target_is_plain_redis() {
        return;
    }
    let refused = ["EVAL", RELEASE, "1", "lock", "not mine"];
    let mut scene = Scene::released(SET, &refused, true).await;
    scene.forgets(1).await;
    let mut client = scene.proxy.connection().await;
    assert_eq!(value(&mut client, SET.0).await, Ok(Value::Nil), "it is held");
    scene.masters[1].holds("lock", "mine").await;
}

/// Only one master has deleted it, and its client knows that this was not enough: the others keep the lock, and copy
/// it.
#[tokio::test]
async fn a_lock_whose_release_is_not_known_stays() {
    if target_is_plain_redis() {
        return;
    }
    let mut masters = Masters::start(3);
    let relays: Vec<Relay> = masters.iter().map(Relay::to).collect();
    let addresses: Vec<String> = relays.iter().map(Relay::address).collect();
    let proxy = Proxy::in_front_of(&addresses, &FLAGS);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    let _ = value(&mut client, GIVE_BACK).await;
    assert_eq!(value(&mut client, SET.0).await, Ok(SET.1));
    all_have_it_for_good(&masters).await;
    relays[1..].iter().for_each(|relay| relay.swallow("lock"));
    value(&mut client, GIVE_BACK).await.expect_err("one of three is not enough");
    relays.iter().for_each(Relay::heal);
    for master in 1..3 {
        takes_part(&proxy, &masters, master).await;
    }
    assert!(!masters[0].has("lock").await && masters[2].has("lock").await);
    masters[1].kill_9();
    masters[1].restart_empty();
    takes_part(&proxy, &masters, 1).await;
    masters[1].holds("lock", "mine").await;
}

/// A hash, unlocked by a script.
#[tokio::test]
async fn an_unlocked_hash_lock_does_not_come_back_from_a_master_that_missed_the_unlock() {
    released_without_the_third(LOCK, UNLOCK, LOCK_BY_OTHER, true).await;
}

/// The same while the proxy stays alive.
#[tokio::test]
async fn an_unlocked_hash_lock_does_not_come_back_while_its_proxy_lives_on() {
    released_without_the_third(LOCK, UNLOCK, LOCK_BY_OTHER, false).await;
}

/// All masters have the lock, the third is away during the release, and the second restarts empty once the third is
/// back. The next client gets the lock.
async fn released_without_the_third(
    lock: (&[&str], Value),
    release: &[&str],
    next: (&[&str], Value),
    is_replaced: bool,
) {
    if target_is_plain_redis() {
        return;
    }
    let mut scene = Scene::released(lock, release, is_replaced).await;
    scene.forgets(1).await;
    scene.is_free(next).await;
}

struct Scene {
    masters: Masters,
    proxy: Proxy,
    /// In front of the third master.
    _relay: Relay,
}

impl Scene {
    /// All masters had the lock, and the third was away during the release. It is back.
    async fn released(
        (lock, granted): (&[&str], Value),
        release: &[&str],
        is_replaced: bool,
    ) -> Self {
        let masters = Masters::start(3);
        let (relay, addresses) = Relay::in_place_of(&masters, 2);
        let mut proxy = Proxy::in_front_of(&addresses, &FLAGS);
        proxy.expect_warnings();
        let mut client = proxy.connection().await;
        // Masters check a new script first.
        let _ = value(&mut client, release).await;
        assert_eq!(value(&mut client, lock).await, Ok(granted));
        all_have_it_for_good(&masters).await;
        relay.cut_off().await;
        value(&mut client, release).await.expect("two of three are enough");
        if is_replaced {
            proxy.kill_9();
            relay.heal();
            proxy = Proxy::in_front_of(&addresses, &FLAGS);
            proxy.expect_warnings();
        }
        relay.heal();
        takes_part(&proxy, &masters, 2).await;
        Self { masters, proxy, _relay: relay }
    }

    /// Restarts a master empty, and waits until it has copied what the others hold.
    async fn forgets(&mut self, master: usize) {
        self.masters[master].kill_9();
        self.masters[master].restart_empty();
        takes_part(&self.proxy, &self.masters, master).await;
    }

    async fn is_free(&self, (next, granted): (&[&str], Value)) {
        let client = self.proxy.connection().await;
        eventually("the lock is free", || {
            let (mut client, granted) = (client.clone(), &granted);
            async move { (value(&mut client, next).await.as_ref() == Ok(granted)).then_some(()) }
        })
        .await;
    }
}

/// Waits until each master has the lock for good, and not only while they agree on it.
async fn all_have_it_for_good(masters: &Masters) {
    for master in masters.iter() {
        eventually("the master has the lock", || async {
            let left_ms = master.pttl("lock").await;
            (left_ms == -1 || left_ms > 500_000).then_some(())
        })
        .await;
    }
}

/// Waits until this master votes, and claims arrive there.
async fn takes_part(proxy: &Proxy, masters: &Masters, master: usize) {
    let client = proxy.connection().await;
    eventually("the master takes part", || {
        let client = client.clone();
        async move {
            let is_voter = proxy.says_of(master, "state").await == "voter";
            (is_voter && beacon_arrives(client, masters, master).await).then_some(())
        }
    })
    .await;
}

async fn beacon_arrives(
    mut client: MultiplexedConnection,
    masters: &Masters,
    master: usize,
) -> bool {
    let key = format!("beacon {}", fastrand::u64(..));
    let reply = value(&mut client, &["SET", &key, "light", "NX", "PX", TEN_MINUTES]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    reply == Ok(Value::Okay) && masters[master].has(&key).await
}
