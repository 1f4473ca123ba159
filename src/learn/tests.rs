//! Requests of clients, and the resulting report.

use std::collections::HashMap;
use std::time::Duration;

use super::conversation::Conversation;
use super::observer::Observer;
use super::report::{FoundLocks, Report};
use crate::resp::requests::Words;

/// Clients by name, and the observations of them.
#[derive(Default)]
struct Scene {
    clients: HashMap<&'static str, Conversation>,
    all: Observer,
}

impl Scene {
    /// Sends a request of one client. Blanks separate the words.
    fn does(&mut self, client: &'static str, line: &str) -> &mut Self {
        self.says(client, &line.split(' ').collect::<Vec<_>>())
    }

    fn says(&mut self, client: &'static str, request: &[&str]) -> &mut Self {
        let mut words = Words::default();
        for word in request {
            words.begin();
            words.extend(word.as_bytes());
        }
        let client = self.clients.entry(client).or_insert_with(|| Conversation::new(0));
        client.hear(words.args(), &mut self.all);
        self
    }

    fn report(&self) -> Report {
        Report::of(&self.all, Duration::from_secs(1))
    }
}

/// Reports on the requests of one client, line by line.
fn report_of(lines: &str) -> Report {
    let mut scene = Scene::default();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        scene.does("one", line);
    }
    scene.report()
}

#[track_caller]
fn assert_kinds(lines: &str, expected: &[&str]) {
    let report = report_of(lines);
    let kinds: Vec<&str> =
        report.locks.iter().flat_map(|found| &found.kinds).map(|kind| kind.what.as_str()).collect();
    assert_eq!(kinds, expected, "{lines}: {report:?}");
}

fn whats(found: &[super::report::Counted]) -> Vec<(&str, u64)> {
    found.iter().map(|it| (it.what.as_str(), it.count)).collect()
}

fn only(report: &Report) -> &FoundLocks {
    assert_eq!(report.locks.len(), 1, "{report:?}");
    &report.locks[0]
}

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

#[test]
fn locks_are_known_by_how_they_are_taken_and_released() {
    for (lines, kinds) in [
        ("SET a me NX PX 100", &["SET NX with a TTL"][..]),
        ("set a me ex 10 nx", &["SET NX with a TTL"]),
        ("SET a me NX", &["SET NX without a TTL"]),
        ("SETNX a me\nEXPIRE a 10", &["SETNX, then EXPIRE"]),
        ("SETNX a me\nPEXPIRE a 10", &["SETNX, then EXPIRE"]),
        ("MULTI\nSETNX a me\nEXPIRE a 10\nEXEC", &["SETNX, then EXPIRE"]),
        ("SETNX a me\nDEL a", &["SETNX, then DEL"]),
        ("SETNX a 1\nGET a\nGETSET a 2", &["SETNX and GETSET"]),
        ("DELIFEQ a me", &["DELEX or DELIFEQ"]),
        ("WATCH a\nGET a\nMULTI\nDEL a\nEXEC", &["WATCH, MULTI, DEL, EXEC"]),
        ("SUBSCRIBE redisson_lock__channel:{a}", &["Redisson's channel or queue"]),
    ] {
        assert_kinds(lines, kinds);
    }
}

#[test]
fn data_is_no_lock_however_it_is_used() {
    for lines in [
        "SET a 1",
        "SET a 1 EX 10",
        "SET a 1 XX",
        "SET a nx",
        "SETNX a 1",
        "EXPIRE a 10",
        "GETSET a 1",
        "WATCH a\nMULTI\nDEL a\nEXEC",
        "WATCH a\nGET a\nMULTI\nSET a 2\nEXEC",
        "WATCH a\nGET a\nMULTI\nDEL a\nDISCARD",
        "WATCH a\nGET a\nUNWATCH\nMULTI\nDEL a\nEXEC",
        "PUBLISH redisson_topic:{a} x",
        "HSET a f v",
    ] {
        assert_kinds(lines, &[]);
    }
}

#[test]
fn another_clients_expire_makes_no_lock_of_a_setnx() {
    let mut scene = Scene::default();
    let report = scene.does("one", "SETNX a 1").does("other", "EXPIRE a 10").report();
    assert!(report.locks.is_empty() && report.lock_keys.is_empty());
    assert_eq!((report.perhaps_count, &report.perhaps[..]), (1, &["a".to_owned()][..]));
}

#[test]
fn scripts_are_known_by_their_text_and_later_by_their_sha1() {
    let mut scene = Scene::default();
    scene.says("one", &["EVAL", RELEASE, "1", "lock:a", "me"]);
    scene.says(
        "one",
        &["EVALSHA", &sha1_smol::Sha1::from(RELEASE).hexdigest(), "1", "lock:b", "me"],
    );
    scene.says("one", &["EVALSHA", "0123", "1", "page", "me"]);
    let report = scene.report();
    assert_eq!(report.lock_keys, ["lock:a", "lock:b"]);
    assert_eq!(whats(&report.locks[1].kinds), [("script that releases", 1)]);
}

#[test]
fn who_takes_a_lock_and_where_is_counted() {
    let mut scene = Scene::default();
    scene.does("py", "CLIENT SETINFO LIB-NAME redis-py").does("py", "CLIENT SETINFO LIB-VER 8.1.0");
    scene
        .does("py", "SELECT 3")
        .does("py", "SET lock:1 me NX PX 9")
        .does("py", "SET lock:2 me NX PX 9");
    scene.does("named", "HELLO 3 SETNAME shop").does("named", "SET lock:3 me NX PX 9");
    scene.does("other", "SET lock:1 me NX PX 9");
    scene.does("multi", "MULTI").does("multi", "SELECT 5").does("multi", "EXEC");
    scene.does("multi", "SET lock:5 me NX PX 9");
    let report = scene.report();
    let found = only(&report);
    assert_eq!((found.pattern.as_str(), found.names), ("lock:*", 4));
    assert_eq!(whats(&found.databases), [("0", 2), ("3", 2), ("5", 1)]);
    assert_eq!(whats(&found.libraries), [("does not say", 2), ("redis-py 8.1.0", 2), ("shop", 1)]);
}

#[test]
fn what_else_touches_a_lock_and_what_would_be_refused_is_told() {
    let report = report_of(
        "SET lock:a me NX PX 9\nGET lock:a\nGET lock:a\nMOVE lock:a 1\nDEL lock:a page\nSET page 1",
    );
    let found = only(&report);
    assert_eq!(found.pattern, "lock:a");
    assert_eq!(whats(&found.commands), [("GET", 2), ("DEL", 1), ("MOVE", 1), ("SET", 1)]);
    assert_eq!(found.refused.len(), 1);
    assert!(found.refused[0].command == "MOVE" && found.refused[0].why.starts_with("ERR"));
    let mixed = &report.mixed[0];
    assert_eq!((&*mixed.command, &*mixed.lock, &*mixed.data), ("DEL", "lock:a", "page"));
    assert_eq!((report.mixed.len(), mixed.count), (1, 1));
}

#[test]
fn a_transaction_of_both_kinds_is_told() {
    let report = report_of("SET lock:a me NX PX 9\nMULTI\nSET page 1\nDEL lock:a\nEXEC");
    assert_eq!(report.mixed[0].command, "EXEC");
    let report = report_of("SET lock:a me NX PX 9\nWATCH lock:a\nMULTI\nSET page 1\nEXEC");
    assert_eq!(report.mixed[0].command, "EXEC");
    let report = report_of("SET lock:a me NX PX 9\nWATCH lock:a\nMULTI\nSET page 1\nDISCARD");
    assert!(report.mixed.is_empty());
}

/// As python-redis-lock does it.
#[test]
fn names_that_a_script_names_together_with_a_lock_belong_to_it() {
    let unlock = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 else redis.call('del', KEYS[2]) \
                  redis.call('lpush', KEYS[2], 1) redis.call('del', KEYS[1]) return 0 end";
    let mut scene = Scene::default();
    for name in ["1", "2"] {
        let (lock, signal) = (format!("lock:{name}"), format!("lock-signal:{name}"));
        scene.does("one", &format!("SET {lock} me NX EX 10"));
        scene.says("one", &["EVAL", unlock, "2", &lock, &signal, "me"]);
        scene.does("two", &format!("BLPOP {signal} 1"));
    }
    scene.says("two", &["EVAL", "return redis.call('lpush', KEYS[2], 1)", "2", "lock:1", "queue"]);
    let report = scene.report();
    assert_eq!(report.lock_keys, ["lock-signal:*", "lock:*"]);
    assert!(report.locks[0].belongs_to_others && !report.locks[1].belongs_to_others);
    assert_eq!((&*report.mixed[0].lock, &*report.mixed[0].data), ("lock:1", "queue"));
}

#[test]
fn redissons_names_need_no_patterns_of_their_own() {
    let lock = "if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then \
                redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; \
                return redis.call('pttl', KEYS[1]);";
    let unlock = "redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); return 1;";
    let mut scene = Scene::default();
    scene.says("one", &["EVAL", lock, "1", "order:7", "30000", "me"]);
    scene.says("one", &["EVAL", unlock, "2", "order:7", "redisson_lock__channel:{order:7}", "0"]);
    scene.does("two", "SUBSCRIBE redisson_lock__channel:{order:7}");
    let report = scene.report();
    assert_eq!(
        (&report.lock_keys[..], report.lock_channels.len()),
        (&["order:*".to_owned()][..], 0)
    );
    let kinds = whats(&report.locks[0].kinds);
    assert_eq!(kinds, [("Redisson's channel or queue", 2), ("script that looks like a lock's", 1)]);
    assert!(report.mixed.is_empty() && report.notes.is_empty(), "{report:?}");
}

#[test]
fn channels_that_have_the_name_of_a_lock_are_told() {
    let report = report_of(
        "SET lock:orders me NX PX 9\nSUBSCRIBE lock-free:orders news:orders\nPUBLISH lock-free:orders 1",
    );
    assert_eq!(report.lock_channels, ["lock-free:orders"]);
}

#[test]
fn a_pattern_leaves_data_alone_and_names_that_were_only_looked_at_are_what_others_are() {
    let report = report_of("SET job:1 me NX PX 9\nSET job:2 me NX PX 9\nHSET job:3 f v");
    assert_eq!(report.lock_keys, ["job:1", "job:2"]);
    let report = report_of("SET job:1 me NX PX 9\nGET job:3\nDEL job:4");
    assert_eq!(report.lock_keys, ["job:*"]);
    let words = "SET app:a me NX PX 9\nSET app:b me NX PX 9\nSET app:c me NX PX 9";
    assert_eq!(report_of(words).lock_keys, ["app:*"]);
    let looked_at = report_of(&format!("{words}\nGET app:settings"));
    assert_eq!(looked_at.lock_keys, ["app:a", "app:b", "app:c"]);
}

#[test]
fn data_that_looks_like_a_lock_is_told() {
    let report = report_of("SET lock:a me NX PX 9\nHSET cart:{lock:a} f v");
    assert!(report.notes[0].contains("cart:{lock:a}"), "{:?}", report.notes);
}

#[test]
fn a_search_for_locks_finds_none_on_the_data_redis() {
    let report = report_of("SET lock:a me NX PX 9\nSCAN 0 MATCH lock:* COUNT 10\nKEYS page:*");
    assert_eq!(report.searches, ["lock:*"]);
}

#[test]
fn a_script_that_names_no_keys_is_told() {
    let mut scene = Scene::default();
    scene.says("one", &["EVAL", "return redis.call('keys', 'lock:*')", "0"]);
    scene.says("one", &["EVAL", "return 1", "0"]);
    assert_eq!(scene.report().keyless.len(), 1);
}

#[test]
fn limits_are_told_when_they_are_met() {
    let mut scene = Scene::default();
    let long = "x".repeat(crate::names::LONGEST_NAME + 1);
    scene.does("one", &format!("SET {long} me NX PX 9"));
    assert!(scene.report().locks.is_empty());
    assert!(scene.report().notes[0].starts_with("1 names are longer than 512 bytes"));
}

#[test]
fn more_locks_of_one_kind_than_are_kept_still_count() {
    let mut scene = Scene::default();
    for number in 0..1000 {
        scene.does("one", &format!("SET lock:{number} me NX PX 9"));
        scene.does("one", &format!("DEL lock:{number}"));
    }
    let report = scene.report();
    let found = only(&report);
    assert_eq!((found.pattern.as_str(), found.names), ("lock:*", 1000));
    assert_eq!(whats(&found.commands), [("DEL", 1000), ("SET", 1000)]);
}
