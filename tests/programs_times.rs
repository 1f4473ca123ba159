//! No two masters hold a lease for exactly the same time. A script that uses that time has the same result on all of
//! them.

mod support;

use support::{Masters, Proxy, Raw, Reply, Stage, State, eventually, target_is_plain_redis};

/// Three masters that hold leases for very different times, and a proxy.
struct Setting {
    client: Raw,
    // Their processes live as long as these fields, and the proxy must not miss a master.
    _proxy: Proxy,
    masters: Masters,
}

/// TTL of a key on each master.
const ENDS_MS: [i64; 3] = [100_000, 200_000, 300_000];
/// Scripts receive one of them, less the pad, of which a little may pass in a test.
const TOLD_MS: std::ops::RangeInclusive<i64> = 90_000..=300_000;

impl Setting {
    async fn start() -> Option<Setting> {
        if target_is_plain_redis() {
            return None;
        }
        let masters = Masters::start(3);
        let proxy = Proxy::start(&masters, &[]);
        let client = proxy.raw().await;
        Some(Setting { client, _proxy: proxy, masters })
    }

    async fn on(&self, master: usize, words: &[&str]) -> Reply {
        Raw::connect(&self.masters[master].address()).await.ask(words).await
    }

    /// Sets `key` on every master with a different TTL, as a client does that uses Redlock by itself.
    async fn held(&self, key: &str, value: &str) {
        for (master, ms) in ENDS_MS.iter().enumerate() {
            let set = self.on(master, &["SET", key, value, "PX", &ms.to_string()]).await;
            assert_eq!(set, Reply::ok());
        }
    }

    async fn eval(&mut self, script: &str, rest: &[&str]) -> Reply {
        self.client.ask(&[&["EVAL", script], rest].concat()).await
    }

    /// Waits until all masters hold the same, since some may be a moment late.
    async fn equal_everywhere(&self, key: &str) {
        eventually(&format!("{key} is the same on all masters"), || async {
            let first = State::on(&self.masters[0], key).await;
            for master in &self.masters[1..] {
                if !State::on(master, key).await.holds_the_same(&first) {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
}

/// Takes the lock, or takes it once more, or returns how long another client holds it.
const TAKE_OR_WAIT: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return 1 end
    if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', 60000) then return 1 end
    return redis.call('pttl', KEYS[1])";

/// One master still has an earlier attempt of the same client.
#[tokio::test]
async fn a_leftover_on_a_minority_is_no_lock() {
    let Some(mut at) = Setting::start().await else { return };
    for turn in 0..60 {
        at.held("lock", "other").await;
        let set = at.on(turn % 3, &["SET", "lock", "mine", "PX", "60000"]).await;
        assert_eq!(set, Reply::ok());
        let left_ms = number(at.eval(TAKE_OR_WAIT, &["1", "lock", "mine"]).await);
        assert!(TOLD_MS.contains(&left_ms), "turn {turn}: {left_ms}");
    }
}

const FENCE: &str = "return {redis.call('incr', KEYS[1]), redis.call('pttl', KEYS[2])}";

/// A counter next to a time counts.
#[tokio::test]
async fn a_counter_beside_a_time_counts() {
    let Some(mut at) = Setting::start().await else { return };
    at.held("lease", "mine").await;
    for token in 1..=40 {
        let (given, left_ms) = pair(at.eval(FENCE, &["2", "fence", "lease"]).await);
        assert_eq!(given, token);
        assert!(TOLD_MS.contains(&left_ms), "{left_ms} ms are left");
    }
}

/// Two proxies give out numbers in turn, one of them over a network that fails now and then. Some answers are lost,
/// but no number repeats or goes back.
#[tokio::test]
async fn fencing_tokens_never_repeat() {
    let Some(stage) = Stage::set(&["--vote-timeout", "100ms"]) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.raw().await, stage.near.raw().await);
    let request = ["EVAL", FENCE, "2", "fence", "lease", "for the far one"];
    let (mut last, mut answered) = (0, 0);
    for turn in 0..30 {
        let relay = &stage.relays[turn % 3];
        match turn % 10 {
            2 => stage.relays[..2].iter().for_each(|relay| relay.hold_back("for the far one")),
            4 => {
                stage.relays.iter().for_each(|relay| relay.hold_back_answers_to("for the far one"))
            }
            6 => relay.reset(),
            7 => relay.hold_back("for the far one"),
            8 => relay.cut(),
            _ => stage.heal(),
        }
        for client in [&mut far, &mut near] {
            let Reply::Array(given) = client.ask(&request).await else { continue };
            let token = number(given[0].clone());
            assert!(token > last, "turn {turn}: {token} after {last}");
            (last, answered) = (token, answered + 1);
        }
    }
    assert!(answered >= 40, "{answered} of 60 were answered");
}

const ENQUEUE: &str = "local ends = redis.call('pttl', KEYS[1]) + ARGV[2]
    return redis.call('zadd', KEYS[2], ends, ARGV[1])";
const POSITION: &str = "return redis.call('zscore', KEYS[2], ARGV[1]) - ARGV[2]";

/// The queue of Redisson's fair lock: the next waiter starts from the time that one has stored.
#[tokio::test]
async fn what_is_stored_from_a_time_is_the_same_everywhere() {
    let Some(mut at) = Setting::start().await else { return };
    at.held("lock", "other").await;
    for waiter in ["a", "b", "c"] {
        let keys_and_words = ["2", "lock", "queue", waiter, "1000000"];
        assert_eq!(at.eval(ENQUEUE, &keys_and_words).await, Reply::Int(1));
        at.equal_everywhere("queue").await;
        let left_ms = number(at.eval(POSITION, &keys_and_words).await);
        assert!(TOLD_MS.contains(&left_ms), "{left_ms} ms are left");
    }
}

const EXTEND: &str = "local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], left + ARGV[1])
    return {left, redis.call('pttl', KEYS[1])}";

/// redis-py's `extend` adds to the time left; a time that is read after that differs.
#[tokio::test]
async fn what_is_added_to_a_time_is_added_to_the_same_everywhere() {
    let Some(mut at) = Setting::start().await else { return };
    at.held("lock", "mine").await;
    let (before_ms, after_ms) = pair(at.eval(EXTEND, &["1", "lock", "5000"]).await);
    assert!(TOLD_MS.contains(&before_ms), "{before_ms} ms are left");
    // A millisecond may pass between the two reads.
    assert!(
        (before_ms + 4_990..=before_ms + 5_010).contains(&after_ms),
        "{before_ms}, then {after_ms}"
    );
    eventually("all masters hold it equally long", || async {
        let mut ends = Vec::new();
        for master in at.masters.iter() {
            ends.push(State::on(master, "lock").await.expires_at_ms);
        }
        ends.sort_unstable();
        (ends[2] - ends[0] < 5000).then_some(())
    })
    .await;
}

/// Other values are calculated from the same times.
#[tokio::test]
async fn what_is_calculated_from_a_time_is_the_same_everywhere() {
    let Some(mut at) = Setting::start().await else { return };
    at.held("lock", "other").await;
    let script = "return {redis.call('ttl', KEYS[1]) * 1000, redis.call('pexpiretime', KEYS[1])}";
    let (left_ms, end_ms) = pair(at.eval(script, &["1", "lock"]).await);
    assert!(TOLD_MS.contains(&left_ms), "{left_ms} ms are left");
    let now_ms = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_millis() as i64;
    assert!(TOLD_MS.contains(&(end_ms - now_ms)), "it ends in {} ms", end_ms - now_ms);
}

/// A master without the key learns its expiry from the others.
#[tokio::test]
async fn one_master_may_be_without_the_key() {
    let Some(mut at) = Setting::start().await else { return };
    for master in 0..3 {
        at.held("lock", "other").await;
        assert_eq!(at.on(master, &["DEL", "lock"]).await, Reply::Int(1));
        let queue = format!("queue {master}");
        let keys_and_words = ["2", "lock", &queue, "a", "0"];
        assert_eq!(at.eval(ENQUEUE, &keys_and_words).await, Reply::Int(1));
        let ends = number(at.eval(POSITION, &keys_and_words).await);
        assert!(TOLD_MS.contains(&ends), "without master {master}: {ends}");
    }
}

fn number(reply: Reply) -> i64 {
    match reply {
        Reply::Int(number) => number,
        other => panic!("a number, not {other:?}"),
    }
}

fn pair(reply: Reply) -> (i64, i64) {
    match reply {
        Reply::Array(parts) => match &parts[..] {
            [Reply::Int(one), Reply::Int(other)] => (*one, *other),
            _ => panic!("two numbers, not {parts:?}"),
        },
        other => panic!("two numbers, not {other:?}"),
    }
}
