//! Keys that a script uses without declaring them.

use redlock_proxy::decision::keyspace::proposer::{MasterAnswer, Request};
use redlock_proxy::operation::register::answer::Said;

use crate::single::{apply, place, run, start, wrap};
use crate::support::target_is_plain_redis;

/// Scripts that declare `a`, and their undeclared keys in the order of first use.
const SCRIPTS: &[(&str, &[&str])] = &[
    ("return redis.call('get', KEYS[1])", &[]),
    ("return redis.call('set', KEYS[1], 'x')", &[]),
    ("return redis.call('get', 'b')", &["b"]),
    ("return redis.call('mget', KEYS[1], 'b', 'c')", &["b", "c"]),
    ("return redis.call('del', 'b', KEYS[1], 'c')", &["b", "c"]),
    ("return redis.call('mset', KEYS[1], '1', 'b', '2')", &["b"]),
    ("return redis.call('sinterstore', KEYS[1], 'b', 'c')", &["b", "c"]),
    ("return redis.call('zunionstore', 'b', 2, KEYS[1], 'c')", &["b", "c"]),
    ("return redis.call('bitop', 'and', KEYS[1], 'b')", &["b"]),
    ("return redis.call('copy', KEYS[1], 'b')", &["b"]),
    ("return redis.call('rename', 'b', KEYS[1])", &["b"]),
    ("return redis.call('sort', 'b', 'store', KEYS[1])", &["b"]),
    ("return redis.call('sort', KEYS[1], 'store', 'b')", &["b"]),
    ("return redis.call('zrangestore', KEYS[1], 'b', 0, -1)", &["b"]),
    ("return redis.call('pfcount', KEYS[1], 'b')", &["b"]),
    ("return redis.call('lmpop', 1, 'b', 'left')", &["b"]),
    ("return redis.call('pttl', 'b')", &["b"]),
    ("return redis.call('object', 'encoding', 'b')", &["b"]),
    ("return redis.call('xread', 'streams', 'b', '0')", &["b"]),
    ("return redis.call('sunion', KEYS[1], 'b')", &["b"]),
    ("return redis.call('hgetall', 'b')", &["b"]),
    ("return redis.call('get', KEYS[1] .. '1')", &["a1"]),
    ("local name = 'ge' .. 't' return redis.call(name, 'b')", &["b"]),
    ("local name = 'de' .. 'l' return redis.call(name, 'b')", &["b"]),
    ("local name = 'ti' .. 'me' return redis.call(name)", &[]),
    // The script's handling of the error makes no difference.
    ("redis.pcall('get', 'b') redis.pcall('set', KEYS[1], 'x') return 7", &["b"]),
    ("pcall(redis.call, 'get', 'b') return redis.call('set', KEYS[1], 'x')", &["b"]),
    ("if redis.call('exists', 'b') == 0 then redis.call('set', 'c', 1) end", &["b", "c"]),
];

#[tokio::test]
async fn a_script_stops_at_each_key_that_it_does_not_declare_and_has_changed_nothing() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    let push = wrap("return redis.call('rpush', KEYS[1], 'x')");
    // Masters take a shorter path for an accepted key.
    for ((text, lacking), accepted) in SCRIPTS.iter().flat_map(|it| [(it, 0), (it, 10)]) {
        master.ask(&["FLUSHALL"]).await;
        let mut places = vec![place("a")];
        if accepted > 0 {
            run(&mut raw, &apply(&push, &places, 0, accepted)).await;
        }
        let before = master.ask(&["DBSIZE"]).await;
        let program = wrap(text);
        for key in *lacking {
            let said = run(&mut raw, &apply(&program, &places, accepted, accepted + 1)).await;
            assert_eq!(said, Said::Missing(place(key)), "{text}");
            assert_eq!(master.ask(&["DBSIZE"]).await, before, "{text}");
            places.push(place(key));
        }
        let said = run(&mut raw, &apply(&program, &places, accepted, accepted + 1)).await;
        assert!(matches!(said, Said::Answer(MasterAnswer::Applied(_))), "{text}: {said:?}");
    }
}

#[tokio::test]
async fn a_script_that_comes_to_such_a_key_after_it_has_written_gives_all_back() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    for command in ["'set', KEYS[1], 'x'", "'append', KEYS[1], 'x'"] {
        let text = &format!("redis.call({command}) return redis.call('get', 'b')");
        let program = wrap(text);
        master.ask(&["FLUSHALL"]).await;
        let said = run(&mut raw, &apply(&program, &[place("a")], 0, 10)).await;
        assert_eq!(said, Said::Missing(place("b")), "{command}");
        assert!(!master.has("a").await, "{command}");
        // The key now exists, and the script would change it.
        run(
            &mut raw,
            &apply(&wrap("return redis.call('set', KEYS[1], 'y')"), &[place("a")], 0, 11),
        )
        .await;
        let said = run(&mut raw, &apply(&program, &[place("a")], 11, 12)).await;
        assert_eq!(said, Said::Missing(place("b")), "{command}");
        assert_eq!(master.ask(&["GET", "a"]).await.text(), "y", "{command}");
    }
}

/// The program's text promises that it uses only declared keys. If the proxy has found fewer,
/// nothing may run twice.
#[tokio::test]
async fn what_has_written_without_images_ends_with_an_error_and_is_not_run_again() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    for first in ["'incr', KEYS[1]", "'set', KEYS[1], '1'"] {
        master.ask(&["FLUSHALL"]).await;
        let text = &format!("redis.call({first}) return redis.call('incr', KEYS[2])");
        let mut request = apply(&wrap(text), &[place("a")], 0, 10);
        let Request::Apply(it) = &mut request else { unreachable!("a program") };
        it.program.keys.push("b".into());
        let Said::Answer(MasterAnswer::Applied(ran)) = run(&mut raw, &request).await else {
            panic!("{first}: it has written, and says so");
        };
        assert!(ran.wrote);
        assert!(
            format!("{:?}", ran.reply).contains("the key 'b' was not found"),
            "{:?}",
            ran.reply
        );
        assert_eq!(master.ask(&["GET", "a"]).await.text(), "1");
        assert!(!master.has("b").await);
    }
}

#[tokio::test]
async fn a_script_that_ends_in_another_database_is_stamped_in_its_own() {
    if target_is_plain_redis() {
        return;
    }
    let (master, mut raw) = start().await;
    let text = "redis.call('append', KEYS[1], 'x') redis.call('select', 1) return 1";
    let program = wrap(text);
    // The first run finds no stamp, the later ones take the shorter path.
    for (accepted, counter) in [(0, 10), (10, 11), (11, 12)] {
        let said = run(&mut raw, &apply(&program, &[place("a")], accepted, counter)).await;
        assert!(matches!(said, Said::Answer(MasterAnswer::Applied(_))), "{said:?}");
        assert_eq!(master.ask(&["DBSIZE"]).await, crate::support::Reply::Int(2));
    }
}
