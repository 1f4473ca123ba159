//! What a script or a transaction does counts when a majority of masters did it. A minority that did
//! something else is put back as it was, and nobody notices a minority that fails.

mod support;

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use support::scripts::{REDISSON_LOCK, REDISSON_UNLOCK};
use support::{
    Master, Masters, PATIENCE, Proxy, Relay, Reply, State, eventually, int, target_is_plain_redis,
    value,
};

/// Longer than any test, and by its padding longer than what [`State::is_still`] lets pass.
const LEASE: &str = "600000";

/// Redisson's lock: held on two masters, so it is refused with the time that the holder has left, and
/// the third, which had granted it, is as before.
#[tokio::test]
async fn a_lock_that_only_a_minority_grants_is_taken_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    for master in &masters[..2] {
        master.ask(&["HSET", "lock", "other", "1"]).await;
        master.ask(&["PEXPIRE", "lock", "500000"]).await;
    }
    let before = State::on(&masters[2], "lock").await;
    teach(&proxy, REDISSON_LOCK).await;
    let runs = masters[2].calls("hincrby").await;
    let left = int(&mut proxy.connection().await, &lock("lock", "mine")).await;
    assert!((480_000..=500_000).contains(&left), "the holder has {left} ms left");
    has_run(&masters[2], "hincrby", runs).await;
    put_back(&masters[2], "lock", &before).await;
    for master in &masters[..2] {
        assert_eq!(master.ask(&["HGETALL", "lock"]).await, holder("other"));
    }
}

/// The other way round: one master holds a lock that the majority does not know. It is granted, and
/// the stranger's lock stays where it is.
#[tokio::test]
async fn a_lock_that_only_a_minority_refuses_is_granted() {
    let Some((masters, proxy)) = three_masters() else { return };
    masters[2].ask(&["HSET", "lock", "other", "1"]).await;
    masters[2].ask(&["PEXPIRE", "lock", "500000"]).await;
    let before = State::on(&masters[2], "lock").await;
    teach(&proxy, REDISSON_LOCK).await;
    let runs = masters[2].calls("hexists").await;
    let mut client = proxy.connection().await;
    assert_eq!(value(&mut client, &lock("lock", "mine")).await, Ok(Value::Nil));
    has_run(&masters[2], "hexists", runs).await;
    put_back(&masters[2], "lock", &before).await;
    for master in &masters[..2] {
        assert_eq!(master.ask(&["HGETALL", "lock"]).await, holder("mine"));
    }
}

/// Whatever type a key has, and whether it expires: the third master, alone in its opinion, changes
/// and deletes them all, and gets them back.
#[tokio::test]
async fn keys_of_every_type_are_put_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    for master in &masters[..2] {
        master.ask(&["SET", "guard", "held", "PX", LEASE]).await;
    }
    for line in OF_EVERY_TYPE {
        masters[2].ask(&support::words(line)).await;
    }
    let mut before = Vec::new();
    for key in KEYS {
        before.push(State::on(&masters[2], key).await);
    }
    teach(&proxy, CHANGE_ALL).await;
    let runs = masters[2].calls("incr").await;
    let refused = value(&mut proxy.connection().await, &["EVAL", CHANGE_ALL, "1", "guard"]).await;
    assert_eq!(refused, Ok(Value::BulkString(b"refused".to_vec())));
    has_run(&masters[2], "incr", runs).await;
    for (key, before) in KEYS.iter().zip(&before) {
        put_back(&masters[2], key, before).await;
    }
}

const KEYS: [&str; 9] =
    ["guard", "string", "lasting", "hash", "set", "zset", "list", "stream", "absent"];

const OF_EVERY_TYPE: [&str; 8] = [
    "SET string value PX 500000",
    "SET lasting value",
    "HSET hash a 1 b 2",
    "PEXPIRE hash 400000",
    "SADD set a b c",
    "ZADD zset 1 a 2.5 b",
    "RPUSH list a b c",
    "XADD stream 1-1 f v",
];

const CHANGE_ALL: &str = "
    if redis.call('exists', KEYS[1]) == 1 then return 'refused' end
    redis.call('set', 'guard', 'mine', 'px', 600000)
    redis.call('append', 'string', 'more')
    redis.call('pexpire', 'string', 100000)
    redis.call('set', 'lasting', 'other', 'ex', 100)
    redis.call('hincrby', 'hash', 'a', 5)
    redis.call('persist', 'hash')
    redis.call('srem', 'set', 'a')
    redis.call('rename', 'zset', 'absent')
    redis.call('rpoplpush', 'list', 'list')
    redis.call('xadd', 'stream', '2-1', 'g', 'w')
    redis.call('incr', 'counter')
    redis.call('del', 'counter', 'list')
    return 'changed'";

/// Where the keys of `XREADGROUP` are: what a consumer on a minority has taken is still to be read.
#[tokio::test]
async fn what_only_a_minority_read_of_a_group_is_given_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    for master in &masters[..] {
        master.ask(&["XADD", "stream", "1-1", "f", "v"]).await;
        master.ask(&["XGROUP", "CREATE", "stream", "group", "0"]).await;
    }
    for master in &masters[..2] {
        master.ask(&["SET", "guard", "held", "PX", LEASE]).await;
    }
    let script = "if redis.call('exists', KEYS[1]) == 1 then return 'refused' end
        redis.call('xreadgroup', 'GROUP', 'group', 'consumer', 'COUNT', 1, 'STREAMS', KEYS[2], '>')
        return 'read'";
    teach(&proxy, script).await;
    let runs = masters[2].calls("xreadgroup").await;
    let refused =
        value(&mut proxy.connection().await, &["EVAL", script, "2", "guard", "stream"]).await;
    assert_eq!(refused, Ok(Value::BulkString(b"refused".to_vec())));
    has_run(&masters[2], "xreadgroup", runs).await;
    eventually("nobody has taken the entry", || async {
        let pending = masters[2].ask(&["XPENDING", "stream", "group"]).await;
        matches!(pending, Reply::Array(parts) if parts[0] == Reply::Int(0)).then_some(())
    })
    .await;
}

/// A transaction is put back as a script is.
#[tokio::test]
async fn a_transaction_that_only_a_minority_could_run_is_taken_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    for master in &masters[..2] {
        master.ask(&["SET", "lock", "other", "PX", LEASE]).await;
    }
    let before = State::on(&masters[2], "lock").await;
    let runs = masters[2].calls("set").await;
    let mut raw = proxy.raw().await;
    assert_eq!(raw.ask(&["MULTI"]).await, Reply::ok());
    let queued = Reply::Simple("QUEUED".into());
    assert_eq!(raw.ask(&["SET", "lock", "mine", "NX", "PX", LEASE]).await, queued);
    assert_eq!(raw.ask(&["GET", "lock"]).await, queued);
    let held = Reply::Array(vec![Reply::Nil, Reply::bulk("other")]);
    assert_eq!(raw.ask(&["EXEC"]).await, held);
    has_run(&masters[2], "set", runs).await;
    put_back(&masters[2], "lock", &before).await;
}

/// A script that writes and then raises on a minority only leaves nothing there.
#[tokio::test]
async fn what_a_minority_did_before_it_raised_is_taken_back() {
    let Some((masters, proxy)) = three_masters() else { return };
    masters[2].ask(&["SET", "list", "no list"]).await;
    let script = "redis.call('incr', KEYS[1]) return redis.call('rpush', KEYS[2], 'a')";
    teach(&proxy, script).await;
    let runs = masters[2].calls("rpush").await;
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["EVAL", script, "2", "count", "list"]).await, 1);
    has_run(&masters[2], "rpush", runs).await;
    masters[2].forgets("count").await;
    assert_eq!(masters[2].get("list").await.as_deref(), Some(b"no list".as_slice()));
    assert_eq!(masters.holding("count", b"1").await, 2);
}

#[tokio::test]
async fn scripts_go_on_without_a_killed_master() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    cycle(&mut client).await;
    masters.minority().iter_mut().for_each(Master::kill_9);
    cycle(&mut client).await;
}

#[tokio::test]
async fn scripts_go_on_without_a_stopped_master() {
    let mut masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters.minority().iter().for_each(Master::stop);
    cycle(&mut client).await;
    masters.minority().iter().for_each(Master::cont);
    cycle(&mut client).await;
}

/// Masters that make a set anew come to different orders. With one of three killed the other two have to
/// agree all the same on whether anything has changed.
#[tokio::test]
async fn a_set_in_another_order_has_not_changed() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    masters[2].kill_9();
    let mut client = proxy.connection().await;
    let long = "a member that is long enough to be packed ".repeat(20);
    for n in 0..60 {
        let (key, number) = (format!("set {n}"), (n * 1_000).to_string());
        let add = ["SADD", &key, "a", "b", "größer", &number, &long];
        assert_eq!(int(&mut client, &add).await, 5);
        let copy = "return redis.call('sunionstore', KEYS[1], KEYS[1])";
        assert_eq!(int(&mut client, &["EVAL", copy, "1", &key]).await, 5, "{key}");
        let key = format!("hash {n}");
        let set = "redis.call('hset', KEYS[1], 'a', '1', ARGV[1], ARGV[1], ARGV[2], 'c', 'd', 'e')
                   return redis.call('hlen', KEYS[1])";
        assert_eq!(int(&mut client, &["EVAL", set, "1", &key, &number, &long]).await, 4);
        let again = "redis.call('hdel', KEYS[1], 'a')
                     return redis.call('hset', KEYS[1], 'a', '1')";
        assert_eq!(int(&mut client, &["EVAL", again, "1", &key]).await, 1, "{key}");
    }
}

/// A master stands still while a script is tried again and again on the others, and goes on before its
/// connection is given up. From then on it counts as before.
#[tokio::test]
async fn a_master_that_paused_while_others_disagreed_is_asked_again() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "1s"]);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(value(&mut client, &lock("lock", "theirs")).await, Ok(Value::Nil));
    for master in masters.iter() {
        held_by(master, "lock", "theirs").await;
    }
    masters[0].stop();
    assert!(int(&mut client, &lock("lock", "mine")).await > 0);
    masters[1].ask(&["DEL", "lock"]).await;
    assert_undecided(value(&mut client, &lock("lock", "mine")).await);
    masters[0].cont();
    masters[0].ask(&["DEL", "lock"]).await;
    eventually("two free masters of three grant the lock", || {
        let mut client = client.clone();
        async move {
            (value(&mut client, &lock("lock", "mine")).await == Ok(Value::Nil)).then_some(())
        }
    })
    .await;
}

/// Masters look at a new script before it runs. One that was slow to answer that was left out when the script changed
/// nothing that it names, and kept what all others had given away.
#[tokio::test]
async fn a_new_script_runs_on_a_master_that_is_slow_to_look_at_it() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, addresses) = Relay::in_place_of(&masters, 2);
    let proxy = Proxy::in_front_of(&addresses, &[]);
    let mut client = proxy.connection().await;
    assert_eq!(int(&mut client, &["RPUSH", "queue", "job"]).await, 1);
    eventually("all masters have it", || async {
        (masters.having("queue").await == 3).then_some(())
    })
    .await;
    relay.withhold_answers();
    let take = ["EVAL", "return redis.call('LPOP', 'queue')", "0"];
    assert_eq!(value(&mut client, &take).await, Ok(Value::BulkString(b"job".into())));
    relay.heal();
    masters.forget("queue").await;
}

#[tokio::test]
async fn scripts_go_on_behind_a_broken_network() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (relay, addresses) = Relay::in_place_of(&masters, 0);
    let proxy = Proxy::in_front_of(&addresses, &LONG_VOTE);
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    for worsen in [Relay::reset, Relay::black_hole, Relay::heal, Relay::cut, Relay::heal] {
        worsen(&relay);
        cycle(&mut client).await;
    }
}

/// Two of three stand still: an error, and nothing is left on any of them once they go on.
#[tokio::test]
async fn without_a_quorum_a_script_is_an_error_and_leaves_nothing() {
    let Some((masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters[0].stop();
    masters[1].stop();
    let unlock = unlock("held");
    for request in [&lock("free", "mine")[..], &unlock[..]] {
        assert_undecided(value(&mut client, request).await);
    }
    masters[2].forgets_any("free").await;
    masters[0].cont();
    masters[1].cont();
    for master in masters.iter() {
        master.forgets_any("free").await;
    }
    eventually("somebody else gets the lock, everywhere", || {
        let mut client = client.clone();
        async move {
            (value(&mut client, &lock("free", "other")).await == Ok(Value::Nil)).then_some(())
        }
    })
    .await;
    for master in masters.iter() {
        held_by(master, "free", "other").await;
    }
}

/// The same when they are killed: there is nobody to ask.
#[tokio::test]
async fn with_two_masters_killed_nothing_is_left_on_the_third() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    masters[0].kill_9();
    masters[1].kill_9();
    for _ in 0..20 {
        assert_undecided(value(&mut client, &lock("free", "mine")).await);
    }
    masters[2].forgets_any("free").await;
    assert_eq!(masters[2].key_count().await, 0);
}

/// A master that comes back empty has forgotten a lock; the others have not.
#[tokio::test]
async fn a_master_that_restarts_empty_grants_nothing_alone() {
    let Some((mut masters, proxy)) = three_masters() else { return };
    proxy.expect_warnings();
    let mut client = proxy.connection().await;
    assert_eq!(value(&mut client, &lock("lock", "mine")).await, Ok(Value::Nil));
    masters[0].kill_9();
    masters[0].restart_empty();
    eventually("scripts run on all masters again", || {
        let (mut client, master) = (client.clone(), &masters[0]);
        async move {
            let before = master.calls("hincrby").await;
            let key = format!("beacon {}", fastrand::u64(..));
            value(&mut client, &lock(&key, "mine")).await.ok()?;
            (master.calls("hincrby").await > before).then_some(())
        }
    })
    .await;
    for _ in 0..10 {
        let left = int(&mut client, &lock("lock", "other")).await;
        assert!(left > 500_000, "the holder has {left} ms left");
    }
    masters[0].does_not_hold_for("lock", "other").await;
    for master in &masters[1..] {
        held_by(master, "lock", "mine").await;
    }
    assert_eq!(int(&mut client, &unlock("lock")).await, 1);
}

/// `error({})` ends a Redis 7.0. Sent to all masters it would end them all.
#[tokio::test]
async fn a_script_that_ends_a_redis_does_not_end_the_masters() {
    let Some((masters, proxy)) = three_masters() else { return };
    let mut raw = proxy.raw().await;
    for script in ["error({})", "error({1, 2})", "error({ok = 'fine'})"] {
        let reply = raw.ask(&["EVAL", script, "0"]).await;
        assert!(matches!(reply, Reply::Error(_)), "{script} was answered {reply:?}");
    }
    for master in masters.iter() {
        assert_eq!(master.ask(&["PING"]).await, Reply::Simple("PONG".into()));
    }
}

const CYCLES: usize = 50;
/// A proxy that waited for the missing master even once per cycle would take longer than [`LIMIT`].
const LONG_VOTE: [&str; 2] = ["--vote-timeout", "3s"];
const LIMIT: Duration = PATIENCE.saturating_mul(5);

/// Locks, refuses, locks again and unlocks; every answer must be the one of a healthy Redis.
async fn cycle(client: &mut MultiplexedConnection) {
    let cycles = async {
        for turn in 0..CYCLES {
            let key = format!("lock {turn} {}", fastrand::u64(..));
            let mut again = client.clone();
            assert_eq!(value(client, &lock(&key, "mine")).await, Ok(Value::Nil), "turn {turn}");
            let left = int(client, &lock(&key, "other")).await;
            assert!((590_000..=600_000).contains(&left), "turn {turn}: {left} ms left");
            assert_eq!(value(&mut again, &lock(&key, "mine")).await, Ok(Value::Nil), "turn {turn}");
            assert_eq!(int(client, &unlock(&key)).await, 0, "turn {turn}");
            assert_eq!(int(client, &["DEL", "latch"]).await, 1, "turn {turn}");
            assert_eq!(int(client, &unlock(&key)).await, 1, "turn {turn}");
            assert_eq!(int(client, &["DEL", "latch"]).await, 1, "turn {turn}");
            assert_eq!(value(client, &unlock(&key)).await, Ok(Value::Nil), "turn {turn}");
        }
    };
    tokio::time::timeout(LIMIT, cycles).await.expect("no script waits for a missing master");
}

/// What only several masters can show: `None` when there is but one plain Redis.
fn three_masters() -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    Some((masters, proxy))
}

fn lock<'a>(key: &'a str, holder: &'a str) -> [&'a str; 6] {
    ["EVAL", REDISSON_LOCK, "1", key, LEASE, holder]
}

/// By the holder "mine".
fn unlock(key: &str) -> [&str; 11] {
    ["EVAL", REDISSON_UNLOCK, "3", key, "channel", "latch", "0", LEASE, "mine", "publish", "60000"]
}

fn holder(name: &str) -> Reply {
    Reply::Map(vec![(Reply::bulk(name), Reply::bulk("1"))])
}

/// Neither a success nor a refusal.
fn assert_undecided(reply: redis::RedisResult<Value>) {
    let error = reply.expect_err("nobody can know");
    let code = error.code().unwrap_or_default();
    assert!(["CLUSTERDOWN", "TRYAGAIN"].contains(&code), "{error}");
}

/// Waits until a master has run a command once more: only then it tells something that it is as it
/// was before.
/// Has masters look at a script before anything depends on it: one that still owes the answer to that when the others
/// have decided is not asked to run it at all.
async fn teach(proxy: &Proxy, script: &str) {
    let taught = proxy.raw().await.ask(&["SCRIPT", "LOAD", script]).await;
    assert!(matches!(taught, Reply::Bulk(_)), "{taught:?}");
}

async fn has_run(master: &Master, command: &str, before: u64) {
    eventually(&format!("{command} runs on a master"), || async {
        (master.calls(command).await > before).then_some(())
    })
    .await;
}

async fn put_back(master: &Master, key: &str, before: &State) {
    eventually(&format!("{key} is as it was, {before:?}"), || async {
        State::on(master, key).await.is_still(before).then_some(())
    })
    .await;
}

async fn held_by(master: &Master, key: &str, name: &str) {
    eventually(&format!("{key} is held by {name} on a master"), || async {
        (master.ask(&["HGETALL", key]).await == holder(name)).then_some(())
    })
    .await;
}

impl Master {
    /// [`Master::forgets`] for a key of any type.
    async fn forgets_any(&self, key: &str) {
        eventually(&format!("{key} disappears from a master"), || async {
            (self.ask(&["EXISTS", key]).await == Reply::Int(0)).then_some(())
        })
        .await;
    }

    async fn does_not_hold_for(&self, key: &str, name: &str) {
        eventually(&format!("{key} is not held by {name} on a master"), || async {
            (self.ask(&["HEXISTS", key, name]).await == Reply::Int(0)).then_some(())
        })
        .await;
    }
}
