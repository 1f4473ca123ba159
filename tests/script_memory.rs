//! Scripts left on the masters: a master frees all of them or none, so it receives only recurring ones, and not too
//! many of them.

mod support;

use support::users::Settings;
use support::{Master, Masters, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis};

/// Requests that are sent at once.
const AT_ONCE: usize = 250;

/// Maximum client programs that a proxy leaves on the masters (`residents.rs`).
const MAX_RESIDENTS: i64 = 500;

/// Lua may keep as much garbage as it has data, and strings come in blocks.
const GARBAGE: i64 = 4 << 20;

/// Returns a value of `INFO memory`.
async fn memory(master: &Master, field: &str) -> i64 {
    let info = master.ask(&["INFO", "memory"]).await.text();
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).expect("a number")
}

async fn scripts(master: &Master) -> i64 {
    memory(master, "number_of_cached_scripts").await
}

/// Waits until a quorum keeps this many scripts, and no master more; a master that was behind may not have run them
/// all.
async fn keep(masters: &Masters, count: i64) {
    let keep = async || {
        let mut exactly = 0;
        for master in masters.iter() {
            let kept = scripts(master).await;
            assert!(kept <= count, "{kept} scripts instead of {count}");
            exactly += usize::from(kept == count);
        }
        (exactly >= masters.quorum()).then_some(())
    };
    eventually("they keep that many scripts", keep).await;
}

async fn bytes(master: &Master) -> i64 {
    memory(master, "used_memory_vm_total").await + memory(master, "used_memory_scripts_eval").await
}

fn script(number: usize) -> String {
    format!("return {{{number}, redis.call('get', KEYS[1])}}")
}

fn eval(number: usize) -> Vec<u8> {
    encode(&["EVAL", &script(number), "1", &format!("lock:{number}")])
}

fn answer(number: usize) -> Reply {
    Reply::Array(vec![Reply::Int(number as i64), Reply::Nil])
}

fn in_transaction(number: usize) -> Vec<u8> {
    [encode(&["MULTI"]), eval(number), encode(&["EXEC"])].concat()
}

/// Sends the requests that `request` makes for each number; the last of `replies` to each must be that of `answer`.
async fn send_all(
    raw: &mut Raw,
    numbers: std::ops::Range<usize>,
    replies: usize,
    request: fn(usize) -> Vec<u8>,
) {
    for first in numbers.clone().step_by(AT_ONCE) {
        let numbers = first..(first + AT_ONCE).min(numbers.end);
        raw.send(&numbers.clone().flat_map(request).collect::<Vec<_>>()).await;
        for number in numbers {
            let reply = raw.replies(replies).await.pop().expect("a reply");
            let one =
                if replies == 1 { answer(number) } else { Reply::Array(vec![answer(number)]) };
            assert_eq!(reply, one);
        }
    }
}

#[tokio::test]
async fn distinct_scripts_stay_with_the_masters_for_good() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(&["alice on >pw ~lock:* +@all"], "");
    let mut flags = settings.flags().to_vec();
    flags.extend(["--vote-timeout", "10s"]);
    let proxy = Proxy::start(&masters, &flags);
    let mut raw = proxy.raw().await;
    send_all(&mut raw, 0..1, 1, eval).await;
    send_all(&mut raw, 1..2, 3, in_transaction).await;
    let (count, size) = (scripts(&masters[0]).await, bytes(&masters[0]).await);
    send_all(&mut raw, 2..2_000, 1, eval).await;
    send_all(&mut raw, 2_000..2_300, 3, in_transaction).await;
    assert_eq!(raw.ask(&["AUTH", "alice", "pw"]).await, Reply::ok());
    send_all(&mut raw, 3_000..3_300, 1, eval).await;
    send_all(&mut raw, 3_300..3_500, 3, in_transaction).await;
    for master in masters.iter() {
        assert_eq!(scripts(master).await, count);
        let now = bytes(master).await;
        assert!(now < 2 * size + GARBAGE, "{size} bytes before, {now} after");
    }
}

#[tokio::test]
async fn scripts_that_come_twice_stay_with_the_masters_for_good() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "10s"]);
    let mut raw = proxy.raw().await;
    send_all(&mut raw, 0..1, 1, eval).await;
    let before = scripts(&masters[0]).await;
    let mut most = before;
    for first in (0..1_200).step_by(200) {
        send_all(&mut raw, first..first + 200, 1, eval).await;
        send_all(&mut raw, first..first + 200, 1, eval).await;
        for master in masters.iter() {
            let now = scripts(master).await;
            assert!(
                now <= before + 1 + MAX_RESIDENTS,
                "{before} scripts before, {now} after {first}"
            );
            // On a slow machine the places may be given up in between.
            most = most.max(now);
        }
    }
    assert!(most > before + 50, "those that come again have places");
    // Scripts without a place run all the same, any number of times.
    send_all(&mut raw, 0..200, 1, eval).await;
    send_all(&mut raw, 1_000..1_200, 1, eval).await;
}

#[tokio::test]
async fn script_flush_frees_nothing_on_the_masters() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "10s"]);
    let mut raw = proxy.raw().await;
    send_all(&mut raw, 0..1, 1, eval).await;
    let before = scripts(&masters[0]).await;
    for _ in 0..2 {
        send_all(&mut raw, 0..100, 1, eval).await;
    }
    keep(&masters, before + 100).await;
    assert_eq!(raw.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    for master in masters.iter() {
        // One more: the program of transactions, which they receive at once.
        let is_free = async || (scripts(master).await <= before + 1).then_some(());
        eventually("they have forgotten", is_free).await;
    }
    for _ in 0..3 {
        send_all(&mut raw, 0..10, 1, eval).await;
    }
    // The proxy's own scripts are gone as well, and come back when needed.
    let keep_ten = async || {
        let mut enough = 0;
        for master in masters.iter() {
            let kept = scripts(master).await;
            assert!(kept <= before + 11, "{kept} scripts, {before} before the others");
            enough += usize::from(kept >= 10);
        }
        (enough >= masters.quorum()).then_some(())
    };
    eventually("they keep the ten", keep_ten).await;
}

/// Another proxy's programs are gone with ours; neither it nor its clients may notice.
#[tokio::test]
async fn a_flush_through_one_proxy_fails_the_scripts_of_another() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let [ours, others] = [0, 1].map(|_| Proxy::start(&masters, &["--vote-timeout", "10s"]));
    let (mut raw, mut other) = (ours.raw().await, others.raw().await);
    let count = "return redis.call('incr', KEYS[1])";
    let sha = other.ask(&["SCRIPT", "LOAD", count]).await.text();
    for number in 1..5 {
        assert_eq!(other.ask(&["EVALSHA", &sha, "1", "counter"]).await, Reply::Int(number));
        all_count_to(&masters, number).await;
    }
    for _ in 0..2 {
        send_all(&mut raw, 0..20, 1, eval).await;
    }
    let before = scripts(&masters[0]).await;
    assert_eq!(raw.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    for master in masters.iter() {
        let is_free = async || (scripts(master).await < before).then_some(());
        eventually("they have forgotten", is_free).await;
    }
    let release = support::scripts::RELEASE;
    for number in 5..10 {
        assert_eq!(other.ask(&["SET", "lock", "mine", "NX", "PX", "600000"]).await, Reply::ok());
        assert_eq!(other.ask(&["EVALSHA", &sha, "1", "counter"]).await, Reply::Int(number));
        all_count_to(&masters, number).await;
        assert_eq!(other.ask(&["EVAL", release, "1", "lock", "mine"]).await, Reply::Int(1));
        assert!(raw.ask(&["EVALSHA", &sha, "1", "counter"]).await.is_error("NOSCRIPT"));
    }
}

/// A master that reports a missing script after the others have decided receives it again, unless the key has changed
/// meanwhile.
async fn all_count_to(masters: &Masters, number: i64) {
    for master in masters.iter() {
        master.holds("counter", &number.to_string()).await;
    }
}

#[tokio::test]
async fn masters_that_may_not_forget_are_given_scripts_for_ever() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    for master in masters.iter() {
        let limit = ["ACL", "SETUSER", "default", "-script|flush"];
        assert_eq!(master.ask(&limit).await, Reply::ok());
    }
    let proxy = Proxy::start(&masters, &["--vote-timeout", "10s"]);
    let mut raw = proxy.raw().await;
    send_all(&mut raw, 0..1, 1, eval).await;
    let before = scripts(&masters[0]).await;
    for _ in 0..2 {
        send_all(&mut raw, 0..20, 1, eval).await;
    }
    assert_eq!(raw.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
    let says_why =
        || proxy.warnings().into_iter().find(|line| line.contains("refuses to flush scripts"));
    eventually("the log says why they keep them", async || says_why()).await;
    proxy.expect_warnings();
    for first in (20..1_220).step_by(200) {
        for _ in 0..2 {
            send_all(&mut raw, first..first + 200, 1, eval).await;
        }
    }
    for master in masters.iter() {
        let now = scripts(master).await;
        assert!(now <= before + 21 + MAX_RESIDENTS, "{before} before, {now} after");
    }
}

/// A master that is busy with a client's script forgets nothing until it ends.
#[tokio::test]
async fn a_master_that_is_busy_never_forgets() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start_with(3, &["--busy-reply-threshold", "1"]);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "10s"]);
    let mut raw = proxy.raw().await;
    for _ in 0..2 {
        send_all(&mut raw, 0..20, 1, eval).await;
    }
    // A master that is behind receives them a little later.
    let has_them = async || Some(scripts(&masters[2]).await).filter(|kept| *kept > 20);
    let before = eventually("it has the scripts", has_them).await;
    let endless = async { masters[2].ask(&["EVAL", "while true do end", "0"]).await };
    let meanwhile = async {
        let is_busy = async || masters[2].ask(&["PING"]).await.is_error("BUSY").then_some(());
        eventually("it is busy", is_busy).await;
        assert_eq!(raw.ask(&["SCRIPT", "FLUSH"]).await, Reply::ok());
        let others = async || (scripts(&masters[0]).await < before).then_some(());
        eventually("the others have forgotten", others).await;
        assert_eq!(masters[2].ask(&["SCRIPT", "KILL"]).await, Reply::ok());
    };
    let (ended, ()) = tokio::join!(endless, meanwhile);
    assert!(ended.is_error("ERR"), "{ended:?}");
    // One more: the program of transactions.
    let is_free = async || (scripts(&masters[2]).await <= before - 19).then_some(());
    eventually("it has forgotten, too", is_free).await;
}
