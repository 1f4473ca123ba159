//! Times to live in programs with one key, which take a faster path, compared with those of
//! programs with any keys.

use std::sync::Arc;
use std::time::Duration;

use redlock_proxy::decision::keyspace::proposer::MasterAnswer;
use redlock_proxy::decision::lease::pad::Pad;
use redlock_proxy::lua::program::{ProgramText, ScriptRules, Tells};
use redlock_proxy::operation::register;
use redlock_proxy::operation::register::answer::Said;

use crate::single::{apply, place, run, start, wrap};
use crate::support::{Master, Raw, Reply, target_is_plain_redis};

/// The start of a millisecond in 2100.
const NOW_US: u64 = 4_102_444_800_000_000;

const TIMES: [&str; 14] = [
    "1",
    "30",
    "54",
    "55",
    "499",
    "550",
    "29999",
    "3600000",
    "'30'",
    "'007'",
    "'5 '",
    "-1",
    "0.5",
    "9000000000000",
];

struct World {
    master: Master,
    raw: Raw,
    script_rules: ScriptRules,
}

impl World {
    /// Runs scripts one after another. Returns the last reply and the time at which the master
    /// cleans up the key.
    async fn run(&mut self, texts: &[String]) -> (String, String) {
        self.master.ask(&["FLUSHALL"]).await;
        let (mut reply, mut accepted) = (String::new(), 0);
        let counters = (0..).map(|step| NOW_US + step);
        for (text, counter) in texts.iter().zip(counters) {
            let program = Arc::new(ProgramText::wrap(text.as_bytes(), "sha", self.script_rules));
            let said = run(&mut self.raw, &apply(&program, &[place("a")], accepted, counter)).await;
            let Said::Answer(MasterAnswer::Applied(ran)) = said else { panic!("{text}: {said:?}") };
            if ran.wrote {
                accepted = counter;
            }
            let register::RegisterReply::Frame(frame, ..) = ran.reply else { panic!("{text}") };
            reply = String::from_utf8_lossy(&frame).into_owned();
        }
        (reply, format!("{:?}", self.master.ask(&["PEXPIRETIME", "a"]).await))
    }
}

#[tokio::test]
async fn times_to_live_of_one_key_are_those_of_any() {
    if target_is_plain_redis() {
        return;
    }
    let (master, raw) = start().await;
    let mut world = World {
        master,
        raw,
        script_rules: ScriptRules {
            pad: Pad::new(Duration::ZERO, 0.0),
            longest: None,
            sees_all_keys: true,
            tells: Tells::NOTHING,
        },
    };
    for (vote_timeout, drift) in [(0, 0.0), (3, 0.5), (50, 0.01)] {
        let pad = Pad::new(Duration::from_millis(vote_timeout), drift);
        world.script_rules = ScriptRules {
            pad,
            longest: Some(Duration::from_secs(1_000_000_000)),
            sees_all_keys: true,
            tells: Tells::NOTHING,
        };
        for (name, ttl) in
            ["pexpire", "expire"].into_iter().flat_map(|it| TIMES.map(|ttl| (it, ttl)))
        {
            let push = "redis.call('rpush', KEYS[1], 'x')".to_owned();
            let expire =
                format!("local ttl = {ttl} local said = redis.pcall('{name}', KEYS[1], ttl)");
            let left = "return redis.call('pttl', KEYS[1])".to_owned();
            // The first script finds no accepted stamp.
            let any = world.run(&[format!("{push} {expire} {left}")]).await;
            let one = world.run(&[push.clone(), expire.clone(), left]).await;
            assert_eq!(one, any, "{expire}");
            let any = world.run(&[format!("{push} {expire} return said")]).await;
            let one = world.run(&[push, format!("{expire} return said")]).await;
            assert_eq!(one, any, "{expire}");
        }
    }
}

/// A value that somebody has put in place of the old one is not the stamp's.
#[tokio::test]
async fn what_is_not_as_the_stamp_says_is_not_run_on() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    let keys = [place("a")];
    let forever = "redis.call('rpush', KEYS[1], 'x')";
    let for_long = "redis.call('rpush', KEYS[1], 'x') redis.call('pexpire', KEYS[1], 1000000)";
    let lease: &[&str] = &["SET", "a", "token", "PXAT", "4102444800000"];
    let cases = [(for_long, lease), (forever, lease), (forever, &["SET", "a", "token"])];
    for (first, instead) in cases {
        master.ask(&["FLUSHALL"]).await;
        run(&mut raw, &apply(&wrap(first), &keys, 0, NOW_US)).await;
        master.ask(&["DEL", "a"]).await;
        let program = wrap("return redis.call('exists', KEYS[1])");
        let request = apply(&program, &keys, NOW_US, NOW_US + 1);
        for _ in 0..2 {
            let said = run(&mut raw, &request).await;
            assert!(
                matches!(said, Said::Answer(MasterAnswer::Refused(_))),
                "{first} {instead:?}: {said:?}"
            );
            master.ask(instead).await;
        }
    }
}

/// Stamps below a floor are dropped, and with them the master's knowledge of older programs. A
/// flush ends all earlier promises.
#[tokio::test]
async fn a_promise_below_the_floor_or_before_a_flush_runs_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    let promised = [NOW_US.to_be_bytes(), 1_u64.to_be_bytes()].concat();
    let absent = [&[0; 32][..], b"-0000000000000000", &[0; 8], b"-00", &[0; 32]].concat();
    let stamp = [promised, absent].concat();
    let push = wrap("return redis.call('rpush', KEYS[1], 'x')");
    for (floor, flush, length) in [(0, 0, 1), (NOW_US + 1_000_000, 0, 0), (0, NOW_US, 0)] {
        master.ask(&["FLUSHALL"]).await;
        master.ask(&["SET", "redlock-proxy:mark", &format!("1 0;{floor} {flush}")]).await;
        master.ask(&[&b"SET"[..], b"redlock-proxy:s:a", &stamp]).await;
        let said = run(&mut raw, &apply(&push, &[place("a")], 0, NOW_US)).await;
        let is_refused = matches!(said, Said::Answer(MasterAnswer::Refused(_)));
        assert_eq!(is_refused, length == 0, "floor {floor}, flush {flush}: {said:?}");
        assert_eq!(
            master.ask(&["LLEN", "a"]).await,
            Reply::Int(length),
            "floor {floor}, flush {flush}"
        );
    }
}
