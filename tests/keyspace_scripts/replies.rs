//! What stamps keep of replies, compared with what Redis makes of them.

use redlock_proxy::operation::register::packed;

use crate::support::{Master, Raw, encode, target_is_plain_redis};

/// What a script may return.
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
    let master = Master::start();
    let mut raw = Raw::connect_resp3(&master.address()).await;
    for reply in REPLIES {
        raw.send(&encode(&["EVAL", &format!("return {reply}"), "0"])).await;
        let (_, expected) = raw.frame().await;
        let pack = format!("return cmsgpack.pack({reply})");
        let crate::support::Reply::Bulk(bytes) = raw.ask(&["EVAL", &pack, "0"]).await else {
            panic!("{reply}");
        };
        let frame = packed::frame(&bytes).unwrap_or_else(|| panic!("{reply}: {bytes:?}"));
        let (frame, expected) =
            (String::from_utf8_lossy(&frame), String::from_utf8_lossy(&expected));
        assert_eq!(frame, expected, "{reply}");
    }
}
