//! `INFO` has the same counts as with a plain Redis: errors by their first word, calls and failures by command.

mod support;

use std::collections::BTreeMap;

use support::{Master, Masters, Proxy, Raw, encode, target_is_plain_redis, words};

/// Every kind of error from outside the proxy, and some of the proxy's own.
const TABLE: &str = r#"
    SET text value
    INCR text
    LPUSH text element
    HSET hash field value
    HINCRBY hash field 1
    GET hash
    EVAL "return redis.error_reply('MINE is this one')" 0
    EVAL "return {1, {redis.error_reply('NESTED in a list')}, redis.error_reply('NESTED again')}" 0
    EVAL "return redis.error_reply('ALONE')" 0
    EVAL "return redis.error_reply('LONGER_THAN_THE_LONGEST_WORD_THAT_COUNTS is this')" 0
    EVAL "return redis.error_reply('A:B#C is this')" 0
    EVAL "error('raised')" 0
    EVAL "this is not Lua (" 0
    EVAL "return redis.status_reply('QUEUED')" 0
    EVALSHA 0000000000000000000000000000000000000000 0
    MULTI
    SET text other
    INCR text
    LPUSH text element
    GET text
    EVAL "return redis.error_reply('INSIDE of a transaction')" 0
    EXEC
    MULTI
    SET text third
    DISCARD
    MULTI
    NOSUCHCOMMAND
    EXEC
    EXEC
    GET
    DEL text hash
"#;

/// Scripts with failing commands. The masters run them, and the proxy counts the failures for the script; a plain
/// Redis counts them for the command inside.
const INSIDE_SCRIPTS: &str = r#"
    SET text value
    EVAL "return redis.call('LPUSH', KEYS[1], 'element')" 1 text
    EVAL "return redis.call('INCR', KEYS[1])" 1 text
"#;

/// Returns a section of `INFO` on one side, after the table.
async fn info(address: &str, table: &str, section: &str) -> BTreeMap<String, String> {
    let mut client = Raw::connect(address).await;
    for line in ["SCRIPT FLUSH", "CONFIG RESETSTAT"].into_iter().chain(table.trim().lines()) {
        client.send(&encode(&words(line))).await;
        client.reply().await;
    }
    let text = client.ask(&["INFO", section]).await.text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the calls and failures of each command in the table.
fn calls(stats: BTreeMap<String, String>) -> BTreeMap<String, (String, String)> {
    let own = |name: &String| !name.contains("config") && !name.contains("info");
    let stats = stats.into_iter().filter(|(name, _)| own(name));
    let number = |value: &str, name: &str| field(value, ',', name).to_owned();
    let both = |value: &str| (number(value, "calls"), number(value, "failed_calls"));
    stats.map(|(name, value)| (name, both(&value))).filter(|(_, (calls, _))| calls != "0").collect()
}

#[tokio::test]
async fn errors_of_scripts_and_transactions_are_not_counted() {
    if target_is_plain_redis() {
        return;
    }
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &["--vote-timeout", "3s"]);
    let [expected, actual] = [redis.address(), proxy.address().to_owned()];
    for table in [TABLE, INSIDE_SCRIPTS] {
        let redis = info(&expected, table, "errorstats").await;
        assert!(!redis.is_empty());
        assert_eq!(info(&actual, table, "errorstats").await, redis);
    }
    let redis = calls(info(&expected, TABLE, "commandstats").await);
    assert!(redis.contains_key("cmdstat_exec"), "{redis:?}");
    assert_eq!(calls(info(&actual, TABLE, "commandstats").await), redis);

    // The two differ here: a failure inside a script fails the script.
    let inside = calls(info(&actual, INSIDE_SCRIPTS, "commandstats").await);
    assert_eq!(inside["cmdstat_eval"], ("2".to_owned(), "2".to_owned()), "{inside:?}");
}

#[tokio::test]
async fn scripts_that_clients_can_call_by_their_sha1_are_counted() {
    if target_is_plain_redis() {
        return;
    }
    let (redis, masters) = (Master::start(), Masters::start(3));
    let proxy = Proxy::start(&masters, &["--vote-timeout", "3s"]);
    for address in [redis.address(), proxy.address().to_owned()] {
        let counted = async |table| {
            let memory = info(&address, table, "memory").await;
            (memory["number_of_cached_scripts"].clone(), memory["used_memory_scripts_eval"] != "0")
        };
        assert_eq!(counted("PING").await, ("0".to_owned(), false), "{address}");
        let two = "EVAL \"return 1\" 0\nSCRIPT LOAD \"return 2\"\nEVAL \"return 1\" 0";
        assert_eq!(counted(two).await, ("2".to_owned(), true), "{address}");
    }
}

/// Returns the value of `name=value` in a line.
fn field<'a>(line: &'a str, between: char, name: &str) -> &'a str {
    let fields = line.split(between).filter_map(|field| field.split_once('='));
    fields.into_iter().find(|(field, _)| *field == name).expect("a field").1
}

#[tokio::test]
async fn the_list_of_clients_names_subcommands_and_counts_what_is_not_yet_a_request() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "3s"]);
    let (mut other, mut client) = (proxy.raw().await, proxy.raw().await);
    for (request, shown) in [
        (&["CLIENT", "SETNAME", "other"][..], "client|setname"),
        (&["Config", "Get", "maxclients"], "config|get"),
        (&["SELECT", "1"], "select"),
        (&["SCRIPT", "EXISTS", "x"], "script|exists"),
    ] {
        other.ask(request).await;
        let list = client.ask(&["CLIENT", "LIST"]).await.text();
        let line_of =
            |name| list.lines().find(|line| field(line, ' ', "name") == name).expect("a line");
        assert_eq!(field(line_of("other"), ' ', "cmd"), shown);
        assert_eq!(field(line_of(""), ' ', "cmd"), "client|list");
    }
    other.send(b"*1\r\n$4\r\nPI").await;
    support::eventually("half a request is counted", || async {
        let list = proxy.raw().await.ask(&["CLIENT", "LIST"]).await.text();
        let line = list.lines().find(|line| field(line, ' ', "name") == "other").expect("a line");
        (field(line, ' ', "qbuf") == "10").then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_error_of_a_master_is_an_outcome_ok() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--vote-timeout", "3s", "--admin", "127.0.0.1:0"]);
    let mut client = proxy.raw().await;
    for line in [
        "SET text value",
        "LPUSH text element",
        "EVAL \"return redis.error_reply('MINE is this one')\" 0",
        "MULTI",
        "LPUSH text element",
        "GET text",
        "EXEC",
    ] {
        client.ask(&words(line)).await;
    }
    let metrics = support::http::http(&proxy.admin_address(), "GET", "/metrics", "").body;
    let count = |command: &str, outcome: &str| {
        let labels =
            format!(r#"redlock_requests_total{{command="{command}",outcome="{outcome}"}} "#);
        metrics.lines().find_map(|line| line.strip_prefix(&*labels)).unwrap_or("0").to_owned()
    };
    for (command, ok, error) in
        [("lpush", "0", "2"), ("eval", "0", "1"), ("get", "1", "0"), ("exec", "1", "0")]
    {
        let counted = [count(command, "ok"), count(command, "error")];
        assert_eq!(counted, [ok, error], "{command}");
    }
}
