//! TTL options mean the same as in one Redis, whatever their order, number and size, alone, after `MULTI` and in
//! scripts: random requests, and a plain Redis to compare with.

mod support;

use std::time::Duration;

use fastrand::Rng;
use support::side_by_side::now_ms;
use support::{
    Master, Masters, Proxy, Raw, Reply, Stage, scripts, setting, target_is_plain_redis, words,
};

/// Gives a master that is busy with other tests time to answer.
const PATIENT: [&str; 2] = ["--vote-timeout", "2s"];

const ROUNDS: usize = 400;

/// 139,000 years.
const FAR_MS: i64 = 4_400_000_000_000_000;

type Words = Vec<Vec<u8>>;

#[tokio::test]
async fn random_options_of_time_are_answered_as_by_one_redis() {
    if target_is_plain_redis() {
        return;
    }
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &PATIENT);
    let mut sides = [Raw::connect(&redis.address()).await, proxy.raw().await];
    let payload = payload(&mut sides[0]).await;
    let seed = setting("SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    for round in 0..ROUNDS {
        let before = *rng.choice(&["DEL k", "SET k v", "SET k v PX 500000"]).expect("three");
        let request = request(&mut rng, &payload);
        for form in [Form::Plain, Form::Queued, Form::Script] {
            let [redis, proxy] = &mut sides;
            let expected = outcome(redis, before, &request, form).await;
            let mut actual = outcome(proxy, before, &request, form).await;
            // Until the last master has caught up, a shorter time is guaranteed.
            for _ in 0..200 {
                if expected.is_like(&actual) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
                actual.left_ms = left_ms(proxy).await;
            }
            assert!(
                expected.is_like(&actual),
                "SEED={seed} round {round}, after {before}, {form:?}: {}\n redis: {expected:?}\n proxy: {actual:?}",
                shown(&request)
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    Queued,
    Script,
}

/// The reply to a request, and the remaining TTLs of both keys after it.
#[derive(Debug)]
struct Outcome {
    reply: Reply,
    left_ms: [i64; 2],
}

impl Outcome {
    /// Time passes between the two sides, and beyond thousands of years the pad shows. TTLs beyond [`FAR_MS`] count
    /// as equal.
    fn is_like(&self, other: &Self) -> bool {
        let is_like = |(one, other): (&i64, &i64)| {
            one.min(&FAR_MS) == other.min(&FAR_MS)
                || *one > 0 && *other > 0 && {
                    let (one, other) = (*one as f64, *other as f64);
                    (one - other).abs() < 5_000.0 + one * 0.02
                }
        };
        self.reply == other.reply && self.left_ms.iter().zip(&other.left_ms).all(is_like)
    }
}

async fn outcome(side: &mut Raw, before: &str, request: &Words, form: Form) -> Outcome {
    side.ask(&words("DEL k2")).await;
    let done = side.ask(&words(before)).await;
    assert!(!matches!(done, Reply::Error(_)), "{before}: {done:?}");
    let reply = match form {
        Form::Plain => side.ask(request).await,
        Form::Queued => {
            side.ask(&["MULTI"]).await;
            side.ask(request).await;
            side.ask(&["EXEC"]).await
        }
        Form::Script => {
            let script = b"return redis.pcall(unpack(ARGV))".to_vec();
            let head = [b"EVAL".to_vec(), script, b"0".to_vec()];
            side.ask(&[&head[..], request].concat()).await
        }
    };
    Outcome { reply, left_ms: left_ms(side).await }
}

async fn left_ms(side: &mut Raw) -> [i64; 2] {
    let mut left_ms = [0; 2];
    for (left, key) in left_ms.iter_mut().zip(["k", "k2"]) {
        let reply = side.ask(&["PTTL", key]).await;
        let Reply::Int(ms) = reply else { panic!("no PTTL: {reply:?}") };
        *left = ms;
    }
    left_ms
}

async fn payload(side: &mut Raw) -> Vec<u8> {
    side.ask(&words("SET k v")).await;
    side.ask(&words("DUMP k")).await.bytes()
}

fn request(rng: &mut Rng, payload: &[u8]) -> Words {
    let mut request: Words = match rng.u8(0..9) {
        0..3 => line("SET k w"),
        3 | 4 => line("GETEX k"),
        5 => {
            let name = *rng.choice(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]).expect("four");
            vec![name.into(), b"k".to_vec(), time(rng)]
        }
        6 => {
            let name = *rng.choice(&["SETEX", "PSETEX"]).expect("two");
            return vec![name.into(), b"k".to_vec(), time(rng), b"w".to_vec()];
        }
        7 => line("COPY k k2"),
        _ => {
            let key = *rng.choice(&["k", "k2"]).expect("two");
            vec![b"RESTORE".to_vec(), key.into(), time(rng), payload.to_vec()]
        }
    };
    for _ in 0..rng.usize(0..4) {
        request.extend(option(rng, &request[0].clone()));
    }
    request
}

/// Returns an option that fits the command, or now and then one that does not.
fn option(rng: &mut Rng, command: &[u8]) -> Words {
    let options: &[&str] = match command {
        b"SET" => &["EX", "PX", "EXAT", "PXAT", "px", "PX", "NX", "XX", "GET", "KEEPTTL"],
        b"GETEX" => &["EX", "PX", "EXAT", "PXAT", "px", "PX", "PERSIST"],
        b"COPY" => &["REPLACE"],
        b"RESTORE" => &["REPLACE", "ABSTTL", "replace", "absttl", "IDLETIME"],
        _ => &["NX", "XX", "GT", "LT"],
    };
    let option = match rng.u8(0..12) {
        0 => "PERSIST",
        1 => "KEEPTTL",
        2 => "nonsense",
        _ => rng.choice(options).expect("some"),
    };
    let takes_time = ["EX", "PX", "EXAT", "PXAT"].contains(&option.to_ascii_uppercase().as_str());
    let mut words = line(option);
    if takes_time && rng.u8(0..10) > 0 {
        words.push(time(rng));
    } else if option == "IDLETIME" {
        words.push(b"10".to_vec());
    }
    words
}

/// Returns a time in any unit: usual ones, the ends of the range, and invalid ones.
fn time(rng: &mut Rng) -> Vec<u8> {
    let ms = now_ms();
    let seconds = ms / 1000;
    let numbers = [
        100_000,
        200_000,
        900_000,
        seconds + 1_000,
        ms + 1_000_000,
        31_557_600_000_000,
        1 << 52,
        i64::MAX / 1000,
        i64::MAX / 1000 + 1,
        i64::MAX / 2,
        i64::MAX - ms - 10_000_000,
        i64::MAX - 1,
        i64::MAX,
        0,
        -1,
        i64::MIN,
    ];
    match rng.u8(0..10) {
        0 => (*rng
            .choice(&["", "abc", "1e9", "+500000", "0500000", "9223372036854775808"])
            .expect("some"))
        .into(),
        1..6 => numbers[rng.usize(0..5)].to_string().into(),
        _ => numbers[rng.usize(0..numbers.len())].to_string().into(),
    }
}

fn line(text: &str) -> Words {
    words(text).into_iter().map(String::into_bytes).collect()
}

fn shown(request: &Words) -> String {
    let words: Vec<_> = request.iter().map(|word| String::from_utf8_lossy(word)).collect();
    words.join(" ")
}

/// A recognised script used to grant a time that one Redis cannot add to its clock.
#[tokio::test]
async fn recognised_scripts_take_the_times_that_one_redis_takes() {
    if target_is_plain_redis() {
        return;
    }
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &PATIENT);
    let mut sides = [Raw::connect(&redis.address()).await, proxy.raw().await];
    let extend = scripts::EXTENSIONS[0].text;
    for script in [extend, scripts::TAKE, scripts::TAKE_OR_EXTEND, scripts::EXTEND_OR_TAKE] {
        for time in ["1000000", "31557600000000", "9223372036854775807", "0", "-1", "+5", "x"] {
            for before in ["DEL k", "SET k mine PX 500000", "SET k other"] {
                let request = ["EVAL", script, "1", "k", "mine", time];
                let request: Words = request.map(|word| word.as_bytes().to_vec()).into();
                let [expected, actual] = &mut sides;
                let expected = outcome(expected, before, &request, Form::Plain).await;
                let actual = outcome(actual, before, &request, Form::Plain).await;
                let what = format!("after {before}: {}", shown(&request));
                assert!(expected.is_like(&actual), "{what}\n{expected:?}\n{actual:?}");
            }
        }
    }
}

/// Only the first of several options used to be checked.
#[tokio::test]
async fn the_last_of_several_times_passes_the_longest_ttl() {
    let Some((masters, _proxy, mut client)) = limited().await else { return };
    let unix_ms = now_ms();
    let payload = {
        let mut direct = Raw::connect(&masters[0].address()).await;
        payload(&mut direct).await
    };
    masters[0].ask(&words("DEL k")).await;
    let restore = |ttl: String, options: &str| {
        let head = [b"RESTORE".to_vec(), b"k".to_vec(), ttl.into_bytes(), payload.clone()];
        [head.to_vec(), line(options)].concat()
    };
    for (request, command) in [
        (line("SET k v px 1000 px 99999999"), "set"),
        (line("SET k v EX 1 EX 99999"), "set"),
        (line("SET k v NX EX 1 EX 99999"), "set"),
        (restore("99999999".to_owned(), ""), "restore"),
        (restore("99999999".to_owned(), "REPLACE"), "restore"),
        (restore((unix_ms + 99_999_999).to_string(), "REPLACE ABSTTL"), "restore"),
    ] {
        let too_long =
            format!("ERR invalid expire time in '{command}' command: longer than --max-ttl 1m");
        for form in [Form::Plain, Form::Queued, Form::Script] {
            let outcome = outcome(&mut client, "DEL k", &request, form).await;
            let reply = match outcome.reply {
                Reply::Array(mut replies) => replies.remove(0),
                reply => reply,
            };
            let what = shown(&request);
            assert_eq!(reply, Reply::Error(too_long.clone()), "{what} {form:?}");
            assert_eq!(outcome.left_ms[0], -2, "{what} {form:?}");
        }
    }
    for ttl in ["0", "50000"] {
        assert_eq!(client.ask(&restore(ttl.to_owned(), "REPLACE")).await, Reply::ok());
    }
}

/// A restored lock used to expire when its time was up by the fastest of the masters' clocks.
#[tokio::test]
async fn a_restored_key_ends_too_early_on_the_masters() {
    let Some((masters, _proxy, mut client)) = limited().await else { return };
    let payload = payload(&mut client).await;
    let head = [&b"RESTORE"[..], b"k2", b"50000", &payload].map(<[u8]>::to_vec);
    assert_eq!(client.ask(&head).await, Reply::ok());
    for master in masters.iter() {
        assert!(master.pttl("k2").await > 50_000, "it is not padded");
    }
}

/// Such a key may be older than the limit.
#[tokio::test]
async fn a_copy_lives_longer_than_the_longest_ttl() {
    let Some((masters, _proxy, mut client)) = limited().await else { return };
    for master in masters.iter() {
        assert_eq!(master.ask(&words("SET k v PX 99999999")).await, Reply::ok());
    }
    let refused = client.ask(&words("COPY k k2")).await;
    assert!(refused.is_error("ERR invalid expire time in 'copy' command"), "{refused:?}");
    assert_eq!(client.ask(&words("EXISTS k2")).await, Reply::Int(0));
    client.ask(&words("PEXPIRE k 50000")).await;
    assert_eq!(client.ask(&words("COPY k k2")).await, Reply::Int(1));
}

/// One of the first two masters to answer has not yet executed the program that set the TTL.
#[tokio::test]
async fn the_time_left_is_that_from_before_a_program_set_it() {
    let Some(stage) = Stage::set(&PATIENT) else { return };
    stage.complete().await;
    let (mut far, mut near) = (stage.far.raw().await, stage.near.raw().await);
    for key in ["first", "second", "third"] {
        assert_eq!(far.ask(&["SET", key, "v", "PX", "100000"]).await, Reply::ok());
        stage.relays[0].hold_back("300000");
        assert_eq!(far.ask(&["PEXPIRE", key, "300000"]).await, Reply::Int(1));
        for _ in 0..20 {
            let left = near.ask(&["PTTL", key]).await;
            assert!(matches!(left, Reply::Int(ms) if ms > 200_000), "{key}: {left:?}");
        }
        stage.heal();
        stage.complete().await;
    }
}

async fn limited() -> Option<(Masters, Proxy, Raw)> {
    if target_is_plain_redis() {
        return None;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[&PATIENT[..], &["--max-ttl", "60s"]].concat());
    let client = proxy.raw().await;
    Some((masters, proxy, client))
}
