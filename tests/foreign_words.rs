//! Calls that name keys their user may not touch, in every spelling that a client has: with words that are not texts,
//! zero bytes at which C ends them, options given twice. The secret never shows, and the masters stay as they are.
//!
//! `REDLOCK_WORDS_SEED` replays a failure's seed; `REDLOCK_WORDS` sets the number of calls.

mod support;

use fastrand::Rng;
use support::users::Settings;
use support::{Masters, Proxy, Raw, Reply, encode, setting, target_is_plain_redis};

const SECRET: &str = "the-launch-code";

/// The last user may read and write everything but the proxy's own names; nobody may flush.
const USERS: [&str; 3] = [
    "alice on >pw ~lock:* resetchannels &lock:* +@read +@write +@pubsub +@keyspace +@scripting +@transaction",
    "bob on >pw ~lock:* resetchannels &lock:* +@all",
    "carol on >pw ~* &* +@all",
];

/// `THEIRS` is a key that the user may not touch.
const CALLS: &[&str] = &[
    "GETEX THEIRS PX 1000",
    "GETEX lock:s PX 100000000",
    "SET THEIRS x PX 100000",
    "SET THEIRS x PX 100000 GET",
    "SET lock:s x EX 1000000",
    "SET lock:s x PXAT 99999999999999",
    "SETEX lock:s 1000000 x",
    "EXPIRE lock:s 1000000 GT",
    "PEXPIREAT lock:s 99999999999999",
    "RESTORE THEIRS 100000 DUMP",
    "RESTORE lock:r 100000000 DUMP REPLACE",
    "RESTORE THEIRS 99999999999999 DUMP ABSTTL",
    "SORT lock:l BY nosort GET *",
    "SORT lock:l BY nosort LIMIT 0 1 GET # GET *",
    "SORT lock:l BY nosort LIMIT 0 1000000000000000 GET *",
    "SORT lock:l BY nosort STORE THEIRS",
    "SORT lock:l ALPHA BY THEIRS* STORE lock:x",
    "SORT_RO lock:l BY nosort GET *",
    "GEORADIUS lock:g 13 38 100 km STORE THEIRS",
    "GEORADIUS lock:g 13 38 100 km COUNT 1 STOREDIST THEIRS ASC",
    "GEORADIUSBYMEMBER lock:g a 100 km STORE lock:x STORE THEIRS",
    "GEOSEARCHSTORE THEIRS lock:g FROMMEMBER a BYRADIUS 100 km",
    "COPY lock:l THEIRS REPLACE",
    "COPY lock:l THEIRS DB 1",
    "COPY THEIRS lock:x",
    "RENAME lock:l THEIRS",
    "LMOVE lock:l THEIRS LEFT RIGHT",
    "LMPOP 2 lock:l THEIRS LEFT",
    "BITOP OR lock:x lock:s THEIRS",
    "BITOP OR THEIRS lock:s",
    "ZUNIONSTORE THEIRS 1 lock:z",
    "PFMERGE THEIRS lock:p",
    "MSET lock:a 1 THEIRS 2",
    "MGET lock:a THEIRS",
    "DEL lock:none THEIRS",
    "GETDEL THEIRS",
    "APPEND THEIRS x",
    "XADD THEIRS 1-1 a b",
    "XGROUP CREATE THEIRS g $ MKSTREAM",
    "XREADGROUP GROUP g c COUNT 1 STREAMS THEIRS >",
    "XREAD COUNT 1 STREAMS THEIRS 0",
    "PERSIST THEIRS",
    "PUBLISH THEIRS m",
    "EVAL x 1 THEIRS",
    "MIGRATE 127.0.0.1 1 THEIRS 0 1",
    "FLUSHALL",
    "FLUSHDB ASYNC",
    "SWAPDB 0 1",
    "MOVE lock:l 1",
];

#[tokio::test]
async fn words_that_are_no_texts_or_end_early_reach_what_is_not_theirs() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(&USERS, "");
    let more = ["--vote-timeout", "5s", "--max-ttl", "1h"];
    let proxy = Proxy::start(&masters, &[&settings.flags()[..], &more].concat());
    let mut owner = proxy.raw().await;
    for (key, value) in [("secret", SECRET), ("canary", "alive")] {
        assert_eq!(owner.ask(&["SET", key, value]).await, Reply::ok());
    }
    let marked = masters.marks().await;
    let seed = setting("REDLOCK_WORDS_SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let mut clients = Vec::new();
    for name in ["alice", "bob", "carol"] {
        let mut client = proxy.raw().await;
        assert_eq!(client.ask(&["AUTH", name, "pw"]).await, Reply::ok());
        clients.push((name, client));
    }
    for _ in 0..setting("REDLOCK_WORDS").unwrap_or(4000).div_ceil(BATCH * 3) {
        for (name, client) in &mut clients {
            refill(&mut owner).await;
            let theirs = if *name == "carol" { "redlock-proxy:mark" } else { "secret" };
            let requests: Vec<_> = (0..BATCH).flat_map(|_| requests(&mut rng, theirs)).collect();
            let saw = ask_all(client, &requests).await;
            let among = || format!("{name}, seed {seed}: one of {}", printable(&requests));
            // Carol may read everything.
            assert_eq!(saw.filter(|_| *name != "carol"), None, "{name}, seed {seed}");
            for master in masters.iter() {
                let others = master.ask(&["EVAL", OTHERS, "0"]).await.text();
                assert_eq!(others, format!("canary:alive:-1 secret:{SECRET}:-1 "), "{}", among());
                let longest = master.ask(&["EVAL", LONGEST, "0"]).await;
                assert_eq!(longest, Reply::Nil, "{}", among());
            }
            assert_eq!(masters.marks().await, marked, "{}", among());
        }
    }
}

/// The word goes to every place of every call, as an extra word or in place of the right one.
#[tokio::test]
async fn a_call_with_a_word_that_is_no_text_is_refused() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let settings = Settings::with(&USERS, "");
    let proxy = Proxy::start(&masters, &[&settings.flags()[..], &["--max-ttl", "1h"]].concat());
    let mut owner = proxy.raw().await;
    assert_eq!(owner.ask(&["SET", "secret", SECRET]).await, Reply::ok());
    let mut bob = proxy.raw().await;
    assert_eq!(bob.ask(&["AUTH", "bob", "pw"]).await, Reply::ok());
    for line in CALLS {
        refill(&mut owner).await;
        let line = line.replace("THEIRS", "secret");
        let words: Vec<String> = line.split(' ').map(|word| literal(word.as_bytes())).collect();
        for text in with_no_texts(&words) {
            let reply = bob.ask(&["EVAL", &text, "1", "lock:l"]).await;
            assert!(reply.is_error("ERR Lua redis lib command arguments"), "{text}: {reply:?}");
        }
        for master in masters.iter() {
            let others = master.ask(&["EVAL", OTHERS, "0"]).await.text();
            assert_eq!(others, format!("secret:{SECRET}:-1 "), "{line}");
        }
    }
}

/// A master takes such a name for the subcommand that ends at its zero byte if both happen to be in one place of its
/// table.
#[tokio::test]
async fn a_subcommand_with_a_zero_byte_is_unknown_to_every_master() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut client = proxy.raw().await;
    for number in 0..100 {
        for call in
            ["'XGROUP','CREATE\\000N',KEYS[1],'g','$','MKSTREAM'", "'OBJECT','FREQ\\000N',KEYS[1]"]
        {
            let text = format!("return redis.pcall({})", call.replace('N', &number.to_string()));
            let reply = client.ask(&["EVAL", &text, "1", "k"]).await;
            assert!(
                reply.is_error("ERR Unknown Redis command called from script"),
                "{text}: {reply:?}"
            );
        }
    }
    assert_eq!(client.ask(&["EXISTS", "k"]).await, Reply::Int(0));
}

/// Returns scripts of the call with one word that is not a text.
fn with_no_texts(words: &[String]) -> Vec<String> {
    let mut scripts = Vec::new();
    for at in 1..=words.len() {
        for none in ["nil", "false", "true", "{}"] {
            let added = [&words[..at], &[none.to_owned()], &words[at..]].concat();
            let replaced = [&words[..at], &[none.to_owned()], words.get(at + 1..).unwrap_or(&[])];
            for words in [added, replaced.concat()] {
                scripts.push(format!("return redis.call({})", words.join(",")));
            }
        }
    }
    scripts
}

/// Calls that are sent before the masters are checked.
const BATCH: u64 = 25;

/// All keys that no user here may write, with their values and TTLs, except the proxies' own.
const OTHERS: &str = "local out = {} for db = 0, 1 do redis.call('select', db) \
    for _, key in ipairs(redis.call('keys', '*')) do \
    if string.sub(key, 1, 14) ~= 'redlock-proxy:' and (db == 1 or string.sub(key, 1, 5) ~= 'lock:') then \
    local value = redis.call('type', key).ok == 'string' and redis.call('get', key) or '?' \
    out[#out + 1] = key .. ':' .. value .. ':' .. redis.call('pttl', key) .. ' ' end end end \
    table.sort(out) return table.concat(out)";

/// A key that lives for longer than `--max-ttl` and its extra time.
const LONGEST: &str = "for _, key in ipairs(redis.call('keys', '*')) do \
    if redis.call('pttl', key) > 2 * 3600 * 1000 then return key end end";

/// Sets keys of the types that the calls use.
async fn refill(owner: &mut Raw) {
    for line in [
        "DEL lock:l lock:g lock:z lock:p lock:s",
        "RPUSH lock:l secret canary",
        "GEOADD lock:g 13.361389 38.115556 a",
        "ZADD lock:z 1 a",
        "PFADD lock:p a",
        "SET lock:s hello",
    ] {
        let reply = owner.ask(&support::words(line)).await;
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
}

/// Sends all requests; returns the one that showed the secret.
async fn ask_all(client: &mut Raw, requests: &[Vec<Vec<u8>>]) -> Option<String> {
    let bytes: Vec<u8> = requests.iter().flat_map(|request| encode(request)).collect();
    client.send(&bytes).await;
    let mut saw = None;
    for request in requests {
        let (_, bytes) = client.frame().await;
        let said = String::from_utf8_lossy(&bytes);
        // A value that the user could name is no secret: `lock:l` holds only the key's name.
        if said.contains(SECRET) {
            saw.get_or_insert(format!(
                "{} answers {said}",
                printable(std::slice::from_ref(request))
            ));
        }
    }
    saw
}

fn printable(requests: &[Vec<Vec<u8>>]) -> String {
    let word = |word: &Vec<u8>| word.escape_ascii().to_string();
    let line = |request: &Vec<Vec<u8>>| request.iter().map(word).collect::<Vec<_>>().join(" ");
    requests.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns one call, on its own, in a script or after `MULTI`.
fn requests(rng: &mut Rng, theirs: &str) -> Vec<Vec<Vec<u8>>> {
    let line = rng.choice(CALLS).expect("there are some");
    let mut words: Vec<Vec<u8>> =
        support::words(line).into_iter().map(|word| spelled(rng, &word, theirs)).collect();
    if rng.u8(..3) == 0 && words.len() > 4 {
        // Repeats an option, or half of one.
        let at = rng.usize(3..words.len());
        let again = words[at..(at + rng.usize(1..3)).min(words.len())].to_vec();
        words.splice(at..at, again);
    }
    let direct = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let text = script(rng, &words);
    let eval = direct(&[b"EVAL", &text, b"1", b"lock:l"]);
    match rng.u8(..6) {
        0 => vec![words],
        1 => vec![direct(&[b"MULTI"]), words, direct(&[b"EXEC"])],
        2 => vec![direct(&[b"MULTI"]), eval, direct(&[b"EXEC"])],
        _ => vec![eval],
    }
}

fn spelled(rng: &mut Rng, word: &str, theirs: &str) -> Vec<u8> {
    let mut word = match word {
        "THEIRS" => theirs.to_owned(),
        // A master's answer to `DUMP` of the string `x`.
        "DUMP" => return b"\0\x01x\n\0\"\x80\x86_\xbd\xe8H\xd0".to_vec(),
        other => other.replace("THEIRS", theirs),
    };
    if rng.u8(..8) == 0 {
        word = word.to_lowercase();
    }
    let mut word = word.into_bytes();
    match rng.u8(..12) {
        0 | 1 => word.push(0),
        2 => word.extend([b"\0".as_slice(), rng.u8(..).to_string().as_bytes()].concat()),
        _ => {}
    }
    word
}

/// Returns the call in Lua, with words that are not texts among its words, and often with many names that end early.
fn script(rng: &mut Rng, words: &[Vec<u8>]) -> Vec<u8> {
    let mut literals: Vec<String> = words.iter().map(|word| literal(word)).collect();
    for at in (1..literals.len()).rev() {
        let none = ["nil", "false", "true", "{}"][rng.usize(..4)].to_owned();
        match rng.u8(..14) {
            0 => literals.insert(at, none),
            1 => literals[at] = none,
            2 => literals.push("nil".to_owned()),
            _ => {}
        }
    }
    let call = ["call", "pcall"][rng.usize(..2)];
    let (name, rest) = (
        literals[0].clone(),
        literals[1..].iter().map(|word| format!(",{word}")).collect::<String>(),
    );
    if rng.u8(..12) == 0 {
        let first = rng.u16(..);
        return format!(
            "local out={{}} for i={first},{first}+300 do local r=redis.pcall({name}..'\\0'..i{rest}) \
             if type(r)~='table' or not r.err then out[#out+1]=type(r)=='table' and (r.ok or r[1]) or r end end \
             return tostring(out[1])"
        )
        .into_bytes();
    }
    format!("local r=redis.{call}({name}{rest}) return r").into_bytes()
}

fn literal(word: &[u8]) -> String {
    if std::str::from_utf8(word).is_ok_and(|text| text.parse::<u64>().is_ok())
        && word.len().is_multiple_of(2)
    {
        return String::from_utf8_lossy(word).into_owned();
    }
    format!("'{}'", word.iter().map(|byte| format!("\\{byte:03}")).collect::<String>())
}
