//! Concurrent calls of one script for different keys, which masters receive as one: each is answered as if it had
//! been sent alone.

mod support;

use std::time::Duration;

use support::{
    Master, Masters, Proxy, Raw, Reply, Subscriber, encode, eventually, target_is_plain_redis,
};

/// A hash lock, as Redisson takes it.
const LOCK: &str = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
    redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end \
    return redis.call('pttl', KEYS[1])";

/// Adds to a list, and returns the length it found, in every kind of reply.
const PUSH: &str = "local length = redis.call('rpush', KEYS[1], ARGV[1]) \
    if ARGV[2] == 'fail' then return redis.error_reply('MINE failed') end \
    if ARGV[2] == 'raise' then error('raised') end \
    if ARGV[2] == 'call' then redis.call('rpush', KEYS[1]) end \
    if ARGV[2] == 'other' then return redis.call('exists', KEYS[1]) end \
    if ARGV[2] == 'list' then return {length, ARGV[1] .. '', KEYS[1] .. '', ARGV[3] == nil, KEYS[2] == nil, false, \
        {ok = 'FINE'}} end \
    if ARGV[2] == 'none' then return end \
    if ARGV[2] == 'text' then return ARGV[1] end \
    if ARGV[2] == 'assign' then KEYS = {} end \
    return length";

/// Adds to a list, and does something else with it or not.
const MORE: &str = "local length = redis.call('rpush', KEYS[1], ARGV[1]) \
    if ARGV[2] == 'end' then redis.call('pexpire', KEYS[1], 60000) end \
    if ARGV[2] == 'tell' then redis.call('publish', 'told', KEYS[1]) end \
    return length";

/// Behaviour of each call, repeated in turn.
const HOW: [&str; 9] =
    ["fail", "raise", "call", "list", "none", "text", "other", "assign", "length"];

const KEYS: usize = 40;

/// Sends each request by its own client, at the same moment: a paused proxy receives all of them before it writes to
/// a master.
async fn ask_all(proxy: &Proxy, requests: &[Vec<String>]) -> Vec<Reply> {
    let mut clients = Vec::new();
    for _ in requests {
        let mut client = proxy.raw().await;
        assert_eq!(client.ask(&["PING"]).await, Reply::Simple("PONG".to_owned()));
        clients.push(client);
    }
    proxy.stop();
    for (client, request) in clients.iter_mut().zip(requests) {
        client.send(&encode(request)).await;
    }
    proxy.cont();
    let mut replies = Vec::new();
    for client in &mut clients {
        replies.push(client.reply().await);
    }
    replies
}

fn calls(script: &str, arguments: impl Fn(usize) -> Vec<String>) -> Vec<Vec<String>> {
    let call = |number: usize| {
        let words = ["EVAL".to_owned(), script.to_owned(), "1".to_owned(), format!("key:{number}")];
        words.into_iter().chain(arguments(number)).collect()
    };
    (0..KEYS).map(call).collect()
}

fn locks(owner: &str) -> Vec<Vec<String>> {
    calls(LOCK, |_| vec!["60000".to_owned(), owner.to_owned()])
}

/// Calls that each add to their own list, and return its length.
fn pushes() -> Vec<Vec<String>> {
    calls(PUSH, |number| vec![number.to_string(), "length".to_owned()])
}

/// Makes masters keep a script, by running it more than once.
async fn make_known(client: &mut Raw, script: &str) {
    for number in 0..3 {
        let key = format!("known:{number}");
        client.ask(&["EVAL", script, "1", &key, "60000", "nobody"]).await;
    }
}

/// Starts masters that keep this script, and a proxy with these flags.
async fn start(flags: &[&str], script: &str) -> Option<(Masters, Proxy)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, flags);
    make_known(&mut proxy.raw().await, script).await;
    Some((masters, proxy))
}

/// Returns whether every master has received several calls at once, a few times. All calls that a worker begins
/// before it writes to a master go together: their number depends on the machine.
async fn were_together(masters: &Masters) -> bool {
    for master in masters.iter() {
        if master.calls("mset").await < 6 {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn locks_that_are_taken_at_once_are_each_taken_once() {
    let Some((masters, proxy)) = start(&[], LOCK).await else { return };
    let mut times = 0;
    while times < 2 || !were_together(&masters).await {
        assert_eq!(ask_all(&proxy, &locks("mine")).await, vec![Reply::Nil; KEYS]);
        times += 1;
        assert!(times < 1_000, "they are never sent together");
    }
    for reply in ask_all(&proxy, &locks("other")).await {
        assert!(matches!(reply, Reply::Int(1..=60_000)), "it is another's: {reply:?}");
    }
    for number in 0..KEYS {
        let key = format!("key:{number}");
        for master in masters.iter() {
            assert_eq!(
                master.ask(&["HGET", &key, "mine"]).await.text(),
                times.to_string(),
                "{key}"
            );
            assert_eq!(master.ask(&["HLEN", &key]).await, Reply::Int(1), "{key}");
        }
    }
}

/// The same calls, one by one, to a single Redis.
#[tokio::test]
async fn each_is_answered_as_if_it_had_come_alone() {
    let Some((masters, proxy)) = start(&[], PUSH).await else { return };
    let (mut client, one) = (proxy.raw().await, Master::start());
    let mut turn = 0;
    while turn < 3 || !were_together(&masters).await {
        assert!(turn < 100, "they are never sent together");
        let arguments =
            |number: usize| vec![format!("value {number}"), HOW[number % HOW.len()].to_owned()];
        let requests = calls(PUSH, arguments);
        if turn == 1 {
            for key in ["key:3", "key:17"] {
                assert_eq!(client.ask(&["SET", key, "a string"]).await, Reply::ok());
                assert_eq!(one.ask(&["SET", key, "a string"]).await, Reply::ok());
            }
        }
        let replies = ask_all(&proxy, &requests).await;
        for (request, reply) in requests.iter().zip(replies) {
            assert_eq!(reply, one.ask(request).await, "{request:?}");
        }
        turn += 1;
    }
    for number in 0..KEYS {
        let key = format!("key:{number}");
        let dump = one.ask(&["DUMP", &key]).await;
        for master in masters.iter() {
            assert_eq!(master.ask(&["DUMP", &key]).await, dump, "{key}");
        }
    }
}

#[tokio::test]
async fn each_gets_its_own_time_to_live() {
    const ENDS: &str = "redis.call('SADD', KEYS[1], 'a') \
        if ARGV[2] == 'ms' then return redis.call('PEXPIRE', KEYS[1], ARGV[1]) end \
        return redis.call('EXPIRE', KEYS[1], ARGV[1])";
    let Some((masters, proxy)) = start(&[], ENDS).await else { return };
    let mut client = proxy.raw().await;
    let ttl = |number: usize| 1000 * (1 + number % 3);
    let unit = |number: usize| if number % 6 < 3 { "s" } else { "ms" };
    let mut turn = 0;
    while turn < 3 || !were_together(&masters).await {
        assert!(turn < 100, "they are never sent together");
        let requests = calls(ENDS, |number| vec![ttl(number).to_string(), unit(number).to_owned()]);
        for reply in ask_all(&proxy, &requests).await {
            assert_eq!(reply, Reply::Int(1));
        }
        turn += 1;
    }
    for number in (0..KEYS).filter(|number| unit(*number) == "s") {
        let left = client.ask(&["TTL", &format!("key:{number}")]).await;
        let Reply::Int(left) = left else { panic!("key:{number}: {left:?}") };
        let ttl = ttl(number) as i64;
        assert!((ttl - 600..=ttl).contains(&left), "key:{number}: {left} of {ttl}");
    }
}

/// Returns the stamp's information about a key: its type, when it is cleaned up, and whether the last program in it
/// returned this, in MessagePack.
async fn noted(master: &Master, key: &str, said: &[u8]) -> Option<(u8, String, bool)> {
    let stamp = master.get(&format!("redlock-proxy:s:{key}")).await?;
    let end = String::from_utf8(stamp[49..65].to_vec()).expect("digits");
    let before_its_ballot = &stamp[..stamp.len() - 16];
    let remembered = [format!("{:04}", said.len()).as_bytes(), said].concat();
    Some((stamp[48], end, before_its_ballot.ends_with(&remembered)))
}

/// Returns the reply and the messages of a call of [`MORE`], as stamps store them.
fn said(length: u8, how: &str, key: &str) -> Vec<u8> {
    let message =
        [&b"\x93\xa7publish\xa4told"[..], &[0xa0 + key.len() as u8], key.as_bytes()].concat();
    [vec![length], if how == "tell" { message } else { Vec::new() }].concat()
}

#[tokio::test]
async fn each_leaves_a_stamp_of_its_own_and_is_told_of_once() {
    let Some((masters, proxy)) = start(&[], MORE).await else { return };
    let mut subscriber = Subscriber::new(proxy.address(), "2", &["SUBSCRIBE", "told"]).await;
    let how = |number: usize| ["tell", "tell", "tell", "end", "nothing"][number % 5].to_owned();
    let mut times = 0;
    while times < 2 || !were_together(&masters).await {
        times += 1;
        assert!(times < 100, "they are never sent together");
        let requests = calls(MORE, |number| vec!["value".to_owned(), how(number)]);
        let lengths = vec![Reply::Int(times); KEYS];
        assert_eq!(ask_all(&proxy, &requests).await, lengths);
        let mut told = Vec::new();
        while told.len() < (0..KEYS).filter(|number| how(*number) == "tell").count() {
            told.push(subscriber.text().await);
        }
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), 3 * KEYS / 5, "each once: {told:?}");
        subscriber.nothing_more().await;
        for (master, number) in masters.iter().flat_map(|it| (0..KEYS).map(move |key| (it, key))) {
            let key = format!("key:{number}");
            let length = u8::try_from(times).expect("less than 100");
            let said = said(length, &how(number), &key);
            let what = format!("the stamp of {key} says what it holds");
            let told = eventually(&what, || async {
                let end = master.ask(&["PEXPIRETIME", &key]).await;
                let Reply::Int(end) = end else { panic!("{end:?}") };
                let (is_lasting, holds) = (end == -1, Some((b'l', format!("{end:016}"), true)));
                (noted(master, &key, &said).await == holds).then_some(is_lasting)
            });
            assert_eq!(told.await, how(number) != "end", "{key}");
        }
    }
}

#[tokio::test]
async fn what_only_gets_an_end_keeps_its_type_beside_what_is_made() {
    const SCRIPT: &str = "if ARGV[1] == 'make' then redis.call('HSET', KEYS[1], 'field', 'value') end \
        return redis.call('PEXPIRE', KEYS[1], 60000)";
    let Some((masters, proxy)) = start(&[], SCRIPT).await else { return };
    let mut client = proxy.raw().await;
    let is_made = |number: usize| number.is_multiple_of(2);
    for number in (0..KEYS).filter(|number| !is_made(*number)) {
        client.ask(&["RPUSH", &format!("key:{number}"), "value"]).await;
    }
    let mut turn = 0;
    while turn < 3 || !were_together(&masters).await {
        assert!(turn < 100, "they are never sent together");
        for number in (0..KEYS).filter(|number| is_made(*number)) {
            client.ask(&["DEL", &format!("key:{number}")]).await;
        }
        let how = |number| if is_made(number) { "make" } else { "keep" };
        let requests = calls(SCRIPT, |number| vec![how(number).to_owned()]);
        assert_eq!(ask_all(&proxy, &requests).await, vec![Reply::Int(1); KEYS]);
        for (master, number) in masters.iter().flat_map(|it| (0..KEYS).map(move |key| (it, key))) {
            let key = format!("key:{number}");
            let what = if is_made(number) { b'h' } else { b'l' };
            let told = format!("the stamp of {key} says what it holds");
            let is_told = eventually(&told, || async {
                let noted = noted(master, &key, &[1]).await;
                noted.filter(|(noted, ..)| *noted == what)
            });
            is_told.await;
        }
        turn += 1;
    }
}

/// All of them get the answer that a master has forgotten their script. With this `--vote-timeout`, the test does not
/// end in time if one does not.
#[tokio::test]
async fn what_is_said_to_all_is_told_to_each() {
    let Some((masters, proxy)) = start(&["--vote-timeout", "10s", "--patience", "60s"], PUSH).await
    else {
        return;
    };
    let pushes = pushes();
    let mut times = 0;
    while times < 6 || !were_together(&masters).await {
        times += 1;
        assert!(times < 100, "they are never sent together");
        if times % 2 == 0 {
            for master in masters.iter() {
                assert_eq!(master.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
            }
        }
        let replies = tokio::time::timeout(Duration::from_secs(8), ask_all(&proxy, &pushes));
        assert_eq!(replies.await.expect("nobody waits"), vec![Reply::Int(times); KEYS]);
    }
}

/// Writes through another proxy, or by hand, are no reason to run the others again.
#[tokio::test]
async fn those_that_have_to_be_asked_again_are_asked_alone() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let (proxy, other) = (Proxy::start(&masters, &[]), Proxy::start(&masters, &[]));
    let (mut client, mut stranger) = (proxy.raw().await, other.raw().await);
    make_known(&mut client, PUSH).await;
    let pushes = pushes();
    let mut turn = 0;
    while turn < 6 || !were_together(&masters).await {
        if turn % 3 == 2 {
            for master in masters.iter().skip(1) {
                assert_eq!(master.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
            }
        }
        turn += 1;
        assert!(turn < 100, "they are never sent together");
        let length = |number| if number % 5 == 0 { 2 * turn - 1 } else { turn };
        let expected: Vec<_> = (0..KEYS).map(length).map(Reply::Int).collect();
        assert_eq!(ask_all(&proxy, &pushes).await, expected, "turn {turn}");
        for number in (0..KEYS).step_by(5) {
            let key = format!("key:{number}");
            assert_eq!(stranger.ask(&["RPUSH", &key, "theirs"]).await, Reply::Int(2 * turn));
        }
    }
}

/// Each call finds that there is no memory, as long as none has written.
#[tokio::test]
async fn those_that_find_no_memory_are_all_refused() {
    let Some((masters, proxy)) = start(&["--vote-timeout", "5s", "--patience", "60s"], PUSH).await
    else {
        return;
    };
    let pushes = pushes();
    let limit = async |bytes: &str| {
        for master in masters.iter() {
            assert_eq!(master.ask(&["CONFIG", "SET", "maxmemory", bytes]).await, Reply::ok());
        }
    };
    let mut times = 0;
    while times < 3 || !were_together(&masters).await {
        times += 1;
        assert!(times < 100, "they are never sent together");
        assert_eq!(ask_all(&proxy, &pushes).await, vec![Reply::Int(times); KEYS]);
        limit("1").await;
        for reply in ask_all(&proxy, &pushes).await {
            assert!(reply.is_error("OOM"), "{reply:?}");
        }
        limit("0").await;
    }
}

/// A master that dies in between has executed all of a call or none of it, whatever happens to the others.
#[tokio::test]
async fn a_master_that_goes_meanwhile_costs_none_of_them() {
    let Some((mut masters, proxy)) = start(&["--patience", "30s"], PUSH).await else {
        return;
    };
    proxy.expect_warnings();
    let pushes = pushes();
    assert_eq!(ask_all(&proxy, &pushes).await, vec![Reply::Int(1); KEYS]);
    masters.minority()[0].stop();
    assert_eq!(ask_all(&proxy, &pushes).await, vec![Reply::Int(2); KEYS]);
    masters.minority()[0].cont();
    assert_eq!(ask_all(&proxy, &pushes).await, vec![Reply::Int(3); KEYS]);
    masters.minority()[0].kill_9();
    assert_eq!(ask_all(&proxy, &pushes).await, vec![Reply::Int(4); KEYS]);
}
