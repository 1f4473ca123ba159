//! Changes that arrive too late: a renewal, a deletion or a script that the network held back. Later changes by other
//! clients stay, and deleted keys stay deleted.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use support::scripts::{EXTEND, REDISSON_LOCK, RELEASE};
use support::{Proxy, Relay, Reply, Stage, encode, eventually, int, value};

/// Short compared to the delays of the network here.
const FLAGS: [&str; 2] = ["--vote-timeout", "100ms"];
const VOTE_TIMEOUT: Duration = Duration::from_millis(100);
const MINUTE: &str = "60000";
const TEN_MINUTES: &str = "600000";
/// A lock in a hash without a TTL.
const HOLD_FOR_EVER: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
                             return redis.call('HSET', KEYS[1], ARGV[1], 1)";
const PUSH: &str = "return redis.call('RPUSH', KEYS[1], ARGV[1])";
const PUSH_ONCE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return -1 end \
                         return redis.call('RPUSH', KEYS[1], ARGV[1])";
/// Runs of each race.
const TURNS: usize = 3;

/// A client renews its lock with `SET key token XX PX`, receives an error, and renews it through another proxy. When
/// the answers came, the first proxy used to undo its own renewal, and the lock ended as if never renewed.
#[tokio::test]
async fn a_renewal_outlives_the_late_answer_to_an_earlier_one_by_another_proxy() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for turn in 0..TURNS {
        let key = format!("lock {turn}");
        assert_eq!(claim(&mut near, &key, "the renewer", MINUTE).await, Ok(Value::Okay));
        let renew = ["SET", &key, "the renewer", "XX", "PX", TEN_MINUTES];
        stage.relays.iter().for_each(|relay| relay.hold_back_answers_to("the renewer"));
        let _ = value(&mut far, &renew).await;
        assert_eq!(value(&mut near, &renew).await, Ok(Value::Okay));
        stage.heal();
        stage.settled().await;
        let left_ms = int(&mut near, &["PTTL", &key]).await;
        assert!(left_ms > 500_000, "{key} was renewed for ten minutes and ends in {left_ms} ms");
    }
}

/// One master misses a renewal by `SET key token XX PX`, and keeps the lock as it was before. Another proxy, which
/// sees the renewed lock, releases it. The leftover used to become a lock again when another master restarted empty.
#[tokio::test]
async fn what_a_renewal_has_replaced_is_gone_where_it_was_missed() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for key in ["first slow", "second slow"] {
        stage.complete().await;
        assert_eq!(claim(&mut far, key, "mine", TEN_MINUTES).await, Ok(Value::Okay));
        eventually("all masters have it", || async {
            (stage.masters.having(key).await == 3).then_some(())
        })
        .await;
        stage.relays[2].hold_back("slow");
        let renew = ["SET", key, "mine", "XX", "PX", TEN_MINUTES];
        assert_eq!(value(&mut far, &renew).await, Ok(Value::Okay));
        stage.relays[2].cut_off().await;
        let release = ["EVAL", RELEASE, "1", key, "mine"];
        assert_eq!(int(&mut near, &release).await, 1);
        stage.heal();
        eventually("nothing is left of it", || async {
            (stage.masters.having(key).await == 0).then_some(())
        })
        .await;
    }
}

/// All clients share one token. A renewal, or another command that replaces a value, is late at two masters, which
/// have the next holder's lock by then. That lock looked the same, and used to be lost.
#[tokio::test]
async fn a_late_change_of_a_value_leaves_the_next_lock_with_an_equal_token_alone() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    let key = "slow";
    for change in [
        &["SET", key, "shared", "XX", "PX", "1000"][..],
        &["SET", key, "shared", "PX", "1000"],
        &["SET", key, "shared", "IFEQ", "shared", "PX", "1000"],
        &["GETEX", key, "PX", "1000"],
        &["GETDEL", key],
        &["GETSET", key, "another"],
    ] {
        assert_eq!(claim(&mut near, key, "shared", TEN_MINUTES).await, Ok(Value::Okay));
        eventually("all masters have it", || async {
            (stage.masters.having(key).await == 3).then_some(())
        })
        .await;
        // The proxy asks for promises first, and these requests name only the key. Its next requests name the value
        // expected there, and are held back.
        let caught = stage.relays[1..].iter().map(Relay::caught).sum::<usize>();
        stage.relays[1..].iter().for_each(|relay| relay.hold_back("shared"));
        assert!(
            value(&mut far, change).await.is_err(),
            "{change:?}: too few masters have answered"
        );
        let now = stage.relays[1..].iter().map(Relay::caught).sum::<usize>();
        assert_eq!(now, caught + 2, "{change:?} was held back");
        assert_eq!(int(&mut near, &["EVAL", RELEASE, "1", key, "shared"]).await, 1, "{change:?}");
        assert_eq!(claim(&mut near, key, "shared", TEN_MINUTES).await, Ok(Value::Okay));
        stage.heal();
        stage.settled().await;
        let kept = || async {
            let mut long = 0;
            for master in stage.masters.iter() {
                long += usize::from(master.pttl(key).await > 500_000);
            }
            long
        };
        assert!(kept().await >= 2, "{change:?}: {} of 3 masters have it", kept().await);
        assert_eq!(int(&mut near, &["EVAL", RELEASE, "1", key, "shared"]).await, 1, "{change:?}");
        let _ = value(&mut far, &["DEL", key]).await;
    }
}

/// `DEL` goes through a proxy that is slow to two masters; the client gives up and deletes through another proxy. The
/// next holder used to lose its lock when the first `DEL` arrived.
#[tokio::test]
async fn a_lock_outlives_a_delayed_deletion_of_the_one_before() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for key in ["first slow", "second slow", "third slow"] {
        assert_eq!(claim(&mut near, key, "the first holder's", TEN_MINUTES).await, Ok(Value::Okay));
        eventually("all masters have it", || async {
            (stage.masters.having(key).await == 3).then_some(())
        })
        .await;
        stage.relays[1..].iter().for_each(|relay| relay.hold_back("slow"));
        let _ = value(&mut far, &["DEL", key]).await;
        let _ = value(&mut near, &["DEL", key]).await;
        assert_eq!(claim(&mut near, key, "the next holder's", TEN_MINUTES).await, Ok(Value::Okay));
        stage.heal();
        stage.settled().await;
        nobody_else_gets(key, &stage.near).await;
    }
}

/// An extension is shorter than the time left, and the next command gives the lock ten minutes. The proxy used to
/// send the earlier expiry to the masters after the client had its answer, so that it arrived after that command.
#[tokio::test]
async fn an_expiry_is_not_undone_by_a_shorter_extension_before_it() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    let delay = Duration::from_millis(8);
    stage.relays.iter().for_each(|relay| relay.delay(delay, delay));
    for (key, tagged) in [("first", true), ("second", false), ("third", true), ("fourth", false)] {
        let taken = match tagged {
            true => claim(&mut near, key, "mine", MINUTE).await,
            false => value(&mut near, &["SET", key, "mine", "PX", MINUTE]).await,
        };
        assert_eq!(taken, Ok(Value::Okay));
        for sooner in [
            &["EVAL", EXTEND, "1", key, "mine", "300"][..],
            &["EVAL", EXTEND, "1", key, "mine", "200"],
        ] {
            assert_eq!(int(&mut far, sooner).await, 1);
            let left_ms = int(&mut near, &["PTTL", key]).await;
            assert!((1..=500).contains(&left_ms), "{key} is to end soon, and not in {left_ms} ms");
        }
        assert_eq!(int(&mut near, &["PEXPIRE", key, TEN_MINUTES]).await, 1);
        stage.settled().await;
        let left_ms = int(&mut near, &["PTTL", key]).await;
        assert!(left_ms > 500_000, "{key} has ten minutes and ends in {left_ms} ms");
    }
}

/// One master is late to extend a lock by a little. By the time it answers, another proxy has extended the lock for
/// ten minutes, with one master missing if it can. The lock used to be shortened there, and two of three masters had
/// forgotten the ten minutes.
#[tokio::test]
async fn a_late_answer_to_a_shorter_extension_shortens_nothing() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (relay, addresses) = Relay::in_place_of(&stage.masters, 1);
    let other = Proxy::in_front_of(&addresses, &FLAGS);
    other.expect_warnings();
    let (mut far, other) = (stage.far.connection().await, other.connection().await);
    for (key, then) in
        [("first slow", "extend"), ("second slow", "PEXPIRE"), ("third slow", "PERSIST")]
    {
        assert_eq!(claim(&mut far, key, "mine", MINUTE).await, Ok(Value::Okay));
        eventually("all masters have it", || async {
            (stage.masters.having(key).await == 3).then_some(())
        })
        .await;
        stage.relays[0].hold_back("slow");
        assert_eq!(int(&mut far, &["EVAL", EXTEND, "1", key, "mine", "1500"]).await, 1);
        // Turning a lease into a register needs a quorum on which it is the same.
        if then == "extend" {
            relay.cut_off().await;
        }
        let longer = match then {
            "extend" => vec!["EVAL", EXTEND, "1", key, "mine", TEN_MINUTES],
            "PEXPIRE" => vec!["PEXPIRE", key, TEN_MINUTES],
            _ => vec!["PERSIST", key],
        };
        eventually("it is prolonged elsewhere", || {
            let mut other = other.clone();
            let longer = longer.clone();
            async move { (value(&mut other, &longer).await == Ok(Value::Int(1))).then_some(()) }
        })
        .await;
        stage.heal();
        relay.heal();
        stage.settled().await;
        let mut long = 0;
        for master in stage.masters.iter() {
            long += usize::from(!(0..500_000).contains(&master.pttl(key).await));
        }
        assert!(long >= 2, "{key}: {long} of 3 masters have it for ten minutes");
    }
}

/// A claim was on its way to one master for so long that the lock had been extended and released elsewhere when it
/// arrived. The leftover used to become a lock again when another master restarted empty.
#[tokio::test]
async fn a_claim_that_comes_after_its_release_is_no_lock_when_a_master_forgets() {
    let Some(mut stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    let key = "slow";
    stage.relays[1].hold_back("slow");
    assert_eq!(claim(&mut far, key, "mine", TEN_MINUTES).await, Ok(Value::Okay));
    for connection in [&mut far, &mut near] {
        let longer = ["EVAL", EXTEND, "1", key, "mine", TEN_MINUTES];
        assert_eq!(int(connection, &longer).await, 1);
    }
    assert_eq!(int(&mut near, &["EVAL", RELEASE, "1", key, "mine"]).await, 1);
    let is_noted = || async {
        let noted = stage.masters[2].ask(&["ZCARD", "redlock-proxy:over"]).await;
        (noted != Reply::Int(0)).then_some(())
    };
    eventually("its end is noted", is_noted).await;
    stage.heal();
    stage.settled().await;
    stage.masters[0].kill_9();
    stage.masters[0].restart_empty();
    stage.near.knows(0, "state", "voter").await;
    assert_eq!(value(&mut near, &["GET", key]).await, Ok(Value::Nil), "it was released");
    let longer = ["EVAL", EXTEND, "1", key, "mine", TEN_MINUTES];
    assert_eq!(int(&mut near, &longer).await, 0, "it was released");
}

/// A lock is released while one master is silent. The others must note it before the silent one is given up.
/// Otherwise, a master that restarts empty at that moment would recover the lock from the silent one.
#[tokio::test]
async fn the_end_of_a_lock_is_noted_while_a_master_is_merely_silent() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let mut far = stage.far.connection().await;
    for turn in 0..20 {
        let key = format!("slow {turn}");
        assert_eq!(claim(&mut far, &key, "mine", TEN_MINUTES).await, Ok(Value::Okay));
        let noted = || stage.masters[0].ask(&["ZCARD", "redlock-proxy:over"]);
        let before = noted().await;
        stage.relays[1].black_hole();
        assert_eq!(int(&mut far, &["EVAL", RELEASE, "1", &key, "mine"]).await, 1);
        eventually("its end is noted", || async { (noted().await != before).then_some(()) }).await;
        let is_silent = stage.far.says_of(1, "state").await == "voter";
        stage.heal();
        if is_silent {
            return;
        }
        stage.far.knows(1, "state", "voter").await;
    }
    panic!("the end was noted only after the silent master was given up");
}

/// All clients share one token. A holder releases its lock, and where that happens at once the next client takes it.
/// The release was still on its way to another master, where it checked only the token, and used to end the next lock
/// as well.
#[tokio::test]
async fn a_release_ends_one_lock_though_all_have_one_token() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    for key in ["first slow", "second slow", "third slow"] {
        stage.relays[0].hold_back("slow");
        assert_eq!(claim(&mut far, key, "shared", TEN_MINUTES).await, Ok(Value::Okay));
        stage.relays[1].hold_back("slow");
        let release = ["EVAL", RELEASE, "1", key, "shared"];
        let mut releasing = far.clone();
        let released = tokio::spawn(async move { value(&mut releasing, &release).await });
        eventually("the next one gets it", || {
            let mut near = near.clone();
            async move {
                let next = claim(&mut near, key, "shared", TEN_MINUTES).await;
                (next == Ok(Value::Okay)).then_some(())
            }
        })
        .await;
        stage.relays[0].heal();
        tokio::time::sleep(3 * VOTE_TIMEOUT).await;
        stage.relays[1].heal();
        assert_eq!(released.await.expect("no panic"), Ok(Value::Int(1)));
        stage.settled().await;
        nobody_else_gets(key, &stage.near).await;
        assert_eq!(int(&mut near, &["DEL", key]).await, 1);
    }
}

/// A script succeeds without one master, which receives it later, and the key is deleted meanwhile. That master used
/// to catch up on the script, and its key stayed there.
#[tokio::test]
async fn a_deleted_key_does_not_come_back_where_a_script_catches_up() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.connection().await, stage.near.connection().await);
    let hold = async |client: &mut MultiplexedConnection, key| {
        int(client, &["EVAL", HOLD_FOR_EVER, "1", key, "mine"]).await
    };
    for key in ["first held back", "second held back"] {
        stage.relays[2].hold_back("held back");
        assert_eq!(hold(&mut far, key).await, 1);
        assert_eq!(int(&mut near, &["DEL", key]).await, 1);
        stage.heal();
        stage.settled().await;
        eventually("the key is gone from all masters", || async {
            (stage.masters.having(key).await == 0).then_some(())
        })
        .await;
        assert_eq!(hold(&mut near, key).await, 1, "{key} is free");
    }
}

/// A script takes longer than the vote timeout. The client used to receive an error although all masters had executed
/// it.
#[tokio::test]
async fn a_script_that_is_answered_late_is_answered() {
    late_script(REDISSON_LOCK, [TEN_MINUTES, "mine"], Reply::Nil).await;
}

/// The same for a script that leaves a key without a TTL: an element that was pushed once is there once.
#[tokio::test]
async fn a_script_without_ttl_that_is_answered_late_is_answered() {
    late_script(PUSH_ONCE, ["job", "mine"], Reply::Int(1)).await;
}

/// All masters execute the script at once, and their answers are withheld for some vote timeouts, much less than a
/// client's patience.
async fn late_script(text: &str, [first, second]: [&str; 2], expected: Reply) {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.raw().await, stage.near.connection().await);
    for key in ["first", "second", "third"] {
        stage.relays.iter().for_each(|relay| relay.hold_back_answers_to("mine"));
        let since = Instant::now();
        far.send(&encode(&["EVAL", text, "1", key, first, second])).await;
        eventually("all masters have done it", || async {
            (stage.masters.having(key).await == 3).then_some(())
        })
        .await;
        tokio::time::sleep((4 * VOTE_TIMEOUT).saturating_sub(since.elapsed())).await;
        stage.heal();
        assert_eq!(far.reply().await, expected, "{key}");
        assert_eq!(int(&mut near, &["EXISTS", key]).await, 1, "{key} was done");
    }
}

/// The client's patience ends before the answers arrive, so it receives an error. Later reads see that all masters
/// have executed the script, once.
#[tokio::test]
async fn a_script_that_is_answered_too_late_was_done_once_for_everybody() {
    let Some(stage) = Stage::set(&FLAGS) else { return };
    stage.complete().await;
    let (mut far, near) = (stage.far.raw().await, stage.near.connection().await);
    for key in ["first", "second", "third"] {
        stage.relays.iter().for_each(|relay| relay.hold_back_answers_to("mine"));
        let reply = far.ask(&["EVAL", PUSH, "1", key, "mine"]).await;
        assert!(reply.is_error("UNKNOWN whether the command took effect"), "{key}: {reply:?}");
        let length = async || int(&mut near.clone(), &["LLEN", key]).await;
        assert_eq!(length().await, 1, "{key}");
        stage.heal();
        stage.settled().await;
        assert_eq!(length().await, 1, "{key}");
    }
}

/// Lets another client try again and again.
async fn nobody_else_gets(key: &str, proxy: &Proxy) {
    let mut other = proxy.connection().await;
    for _ in 0..20 {
        let reply = claim(&mut other, key, "somebody else's", TEN_MINUTES).await;
        assert_ne!(reply, Ok(Value::Okay), "{key} was granted twice");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn claim(
    client: &mut MultiplexedConnection,
    key: &str,
    token: &str,
    ttl_ms: &str,
) -> RedisResult<Value> {
    value(client, &["SET", key, token, "NX", "PX", ttl_ms]).await
}
