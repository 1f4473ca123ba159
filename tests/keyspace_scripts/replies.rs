//! Replies in stamps and in answers, compared with Redis's own.

use redlock_proxy::decision::keyspace::proposer::MasterAnswer;
use redlock_proxy::operation::register::answer::Said;
use redlock_proxy::operation::register::{RegisterReply, packed};

use crate::now_us;
use crate::single::{apply, place, run, start, wrap};
use crate::support::{encode, target_is_plain_redis};

/// Possible return values of a script.
const REPLIES: [&str; 24] = [
    "nil",
    "false",
    "true",
    "0",
    "-1",
    "127",
    "-33",
    "300",
    "-40000",
    "70000",
    "2 ^ 40",
    "-(2 ^ 52)",
    "3.99",
    "-3.99",
    "''",
    "'a\\r\\nb\\0'",
    "string.rep('x', 40)",
    "string.rep('y', 700)",
    "{}",
    "{ 1, 'two', { 3, false, 4 }, true }",
    "{ 1, nil, 3 }",
    "redis.error_reply('ERR no')",
    "redis.status_reply('FINE')",
    "{ redis.status_reply('A'), redis.error_reply('B'), { double = 1.5 }, { big_number = '123' } }",
];

#[tokio::test]
async fn a_reply_out_of_a_stamp_is_the_one_that_redis_gives() {
    if target_is_plain_redis() {
        return;
    }
    let (_master, mut raw) = start().await;
    for reply in REPLIES {
        raw.send(&encode(&["EVAL", &format!("return {reply}"), "0"])).await;
        let (_, expected) = raw.frame().await;
        let pack = format!("return cmsgpack.pack({reply})");
        let crate::support::Reply::Bulk(bytes) = raw.ask(&["EVAL", &pack, "0"]).await else {
            panic!("{reply}");
        };
        let (frame, _) = packed::reply(&bytes).unwrap_or_else(|| panic!("{reply}: {bytes:?}"));
        let (frame, expected) =
            (String::from_utf8_lossy(&frame), String::from_utf8_lossy(&expected));
        assert_eq!(frame, expected, "{reply}");
    }
}

/// More values that the answer of a program on one key could alter.
const ANSWERS: [&str; 8] = [
    "2 ^ 51 - 1",
    "-(2 ^ 51)",
    "2 ^ 53",
    "-(2 ^ 60)",
    "redis.call('lrange', KEYS[1], 0, -1)",
    "redis.call('lindex', KEYS[1], 7)",
    "(function() redis.setresp(3) return redis.call('lindex', KEYS[1], 7) end)()",
    "(function() redis.setresp(3) return false end)()",
];

/// Possible actions of a program before its reply, and the time to live that each sets.
const WRITES: [(&str, Option<u64>); 3] = [
    ("", None),
    ("redis.call('lset', KEYS[1], 0, 'x')", None),
    ("redis.call('pexpire', KEYS[1], 100000)", Some(100_000)),
];

#[tokio::test]
async fn the_answer_of_a_program_on_one_key_has_its_reply_as_it_is() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    let keys = [place("a")];
    let first = wrap("return redis.call('rpush', KEYS[1], 'x')");
    for reply in REPLIES.iter().chain(&ANSWERS) {
        for (write, ttl_ms) in WRITES {
            master.ask(&["FLUSHALL"]).await;
            let now_us = now_us();
            run(&mut raw, &apply(&first, &keys, 0, now_us)).await;
            let text = format!("{write} return {reply}");
            raw.send(&encode(&["EVAL", &text, "1", "a"])).await;
            let (_, expected) = raw.frame().await;
            master.ask(&["PERSIST", "a"]).await;
            let Said::Answer(MasterAnswer::Applied(ran)) =
                run(&mut raw, &apply(&wrap(&text), &keys, now_us, now_us + 1)).await
            else {
                panic!("{text}");
            };
            assert_eq!(ran.wrote, !write.is_empty(), "{text}");
            let RegisterReply::Frame(frame, _, dated) = ran.reply else { panic!("{text}") };
            assert_eq!(dated, ttl_ms, "{text}");
            let (frame, expected) =
                (String::from_utf8_lossy(&frame), String::from_utf8_lossy(&expected));
            assert_eq!(frame, expected, "{text}");
        }
    }
}
