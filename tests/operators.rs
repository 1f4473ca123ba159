//! Operators' commands, sent by a client: `SLOWLOG`, `LATENCY`, `MONITOR`, `INFO`, `CLIENT LIST`.

#![allow(clippy::disallowed_methods, reason = "black-box tests run on the real clock")]

mod support;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::{
    Master, Masters, PATIENCE, Proxy, Raw, Reply, encode, eventually, target_is_plain_redis, words,
};

fn int(number: i64) -> Reply {
    Reply::Int(number)
}

fn number(reply: &Reply) -> i64 {
    let Reply::Int(number) = reply else { panic!("no number: {reply:?}") };
    *number
}

fn items(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::Array(items) => items,
        Reply::Map(pairs) => pairs.into_iter().flat_map(<[Reply; 2]>::from).collect(),
        other => panic!("no list: {other:?}"),
    }
}

/// Returns a field of `INFO`.
async fn info(client: &mut Raw, section: &str, field: &str) -> Option<String> {
    let text = client.ask(&["INFO", section]).await.text();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
}

#[tokio::test]
async fn slow_requests_are_noted_with_their_command_key_and_client() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2", "--slowlog-log-slower-than", "-1"]);
    let (mut locker, mut operator) = (proxy.raw().await, proxy.raw().await);
    assert_eq!(locker.ask(&["CLIENT", "SETNAME", "locker"]).await, Reply::ok());
    assert_eq!(locker.ask(&words("SET fast mine NX PX 60000")).await, Reply::ok());
    assert_eq!(operator.ask(&["SLOWLOG", "LEN"]).await, int(0), "nothing is slow");

    assert_eq!(
        operator.ask(&words("CONFIG SET slowlog-log-slower-than 200000")).await,
        Reply::ok()
    );
    masters.iter().for_each(Master::stop);
    locker.send(&encode(&words("SET slow secret-token NX PX 60000"))).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    masters.iter().for_each(Master::cont);
    locker.reply().await;
    assert_eq!(operator.ask(&words("CONFIG SET slowlog-log-slower-than -1")).await, Reply::ok());

    let entries = items(operator.ask(&["SLOWLOG", "GET"]).await);
    let entry = items(entries.into_iter().next().expect("one was slow"));
    let Reply::Int(at) = entry[1] else { panic!("{entry:?}") };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    assert!((now - at).abs() < PATIENCE.as_secs() as i64, "{at} is not about {now}");
    assert!(matches!(entry[2], Reply::Int(200_000..)), "{entry:?}");
    assert_eq!(items(entry[3].clone()), [Reply::bulk("set"), Reply::bulk("slow")]);
    assert!(entry[4].text().starts_with("127.0.0.1:"), "{entry:?}");
    assert_eq!(entry[5], Reply::bulk("locker"));
    assert!(!format!("{entry:?}").contains("secret"));

    assert_eq!(operator.ask(&["SLOWLOG", "RESET"]).await, Reply::ok());
    assert_eq!(operator.ask(&["SLOWLOG", "LEN"]).await, int(0));
}

#[tokio::test]
async fn the_slow_log_keeps_the_latest_only() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let flags = ["--slowlog-log-slower-than", "0", "--slowlog-max-len", "3"];
    let proxy = Proxy::start(&masters, &flags);
    let mut client = proxy.raw().await;
    for number in 0..5 {
        client.ask(&["GET", &format!("key{number}")]).await;
    }
    let entries = items(client.ask(&["SLOWLOG", "GET", "-1"]).await);
    let keys: Vec<_> =
        entries.iter().map(|it| items(items(it.clone())[3].clone())[1].text()).collect();
    assert_eq!(keys, ["key4", "key3", "key2"]);
    assert_eq!(items(client.ask(&["SLOWLOG", "GET", "1"]).await).len(), 1);
    assert_eq!(client.ask(&words("CONFIG SET slowlog-max-len 1")).await, Reply::ok());
    assert_eq!(client.ask(&["SLOWLOG", "LEN"]).await, int(1));
}

#[tokio::test]
async fn latency_histograms_count_what_masters_were_asked() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2"]);
    let mut client = Raw::connect_resp3(proxy.address()).await;
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]).await, Reply::ok());
    for number in 0..10 {
        client.ask(&["SET", &format!("key{number}"), "mine", "NX", "PX", "60000"]).await;
    }
    client.ask(&["GET", "key1"]).await;
    let all = items(client.ask(&["LATENCY", "HISTOGRAM"]).await);
    let names: Vec<_> = all.iter().step_by(2).map(Reply::text).collect();
    assert_eq!(names, ["get", "set"]);
    let set =
        items(items(client.ask(&["LATENCY", "HISTOGRAM", "set", "nonsense"]).await)[1].clone());
    assert_eq!(set[..2], [Reply::bulk("calls"), int(10)]);
    let buckets = items(set[3].clone());
    assert_eq!(buckets.last(), Some(&int(10)), "the last bucket holds all: {buckets:?}");
    assert!(
        buckets
            .chunks(2)
            .is_sorted_by(|a, b| number(&a[0]) < number(&b[0]) && number(&a[1]) <= number(&b[1])),
        "{buckets:?}"
    );
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]).await, Reply::ok());
    assert_eq!(items(client.ask(&["LATENCY", "HISTOGRAM"]).await), []);
    // The Prometheus counters continue.
    assert_eq!(
        info(&mut client, "stats", "total_net_input_bytes").await.map(|it| it.len() < 5),
        Some(true)
    );
}

/// Mistakes, and commands that a plain Redis lacks as well, are answered as by Redis, byte for byte.
#[tokio::test]
async fn operators_make_the_same_mistakes_as_with_redis() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let plain = Master::start();
    let (mut ours, mut theirs) = (proxy.raw().await, Raw::connect(&plain.address()).await);
    for line in [
        "SLOWLOG",
        "SLOWLOG HELP",
        "SLOWLOG NONSENSE",
        "SLOWLOG GET -2",
        "SLOWLOG GET many",
        "SLOWLOG GET 1 2",
        "SLOWLOG LEN 1",
        "SLOWLOG RESET 1",
        "LATENCY",
        "LATENCY NONSENSE",
        "LATENCY LATEST",
        "LATENCY HISTORY command",
        "LATENCY RESET",
        "LATENCY HISTOGRAM nonsense",
        "MONITOR 1",
        "CONFIG GET latency-tracking",
        "CONFIG GET slowlog-max-len",
    ] {
        let line = words(line);
        assert_eq!(ours.ask(&line).await, theirs.ask(&line).await, "{line:?}");
    }
}

async fn monitored(monitor: &mut Raw) -> String {
    let line = monitor.reply().await.text();
    let (time, rest) = line.split_once(' ').expect("a time");
    let seconds: f64 = time.parse().expect("seconds");
    assert!(seconds > 1.7e9, "{line}");
    rest.to_owned()
}

#[tokio::test]
async fn a_monitor_sees_every_request_of_every_worker_as_with_redis() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2"]);
    let plain = Master::start();
    let mut seen = Vec::new();
    for address in [proxy.address().to_owned(), plain.address()] {
        let mut monitor = Raw::connect(&address).await;
        assert_eq!(monitor.ask(&["MONITOR"]).await, Reply::ok());
        let mut lines = Vec::new();
        // Some clients land on each worker.
        for _ in 0..8 {
            let mut client = Raw::connect(&address).await;
            for line in [
                "SELECT 3",
                "set k \"a\\\"b\\r\\n\\x00\\xff\" px 60000",
                "GET k",
                "EVAL \"return KEYS[1]\" 1 k",
                "CONFIG GET maxclients",
                "AUTH wrong-password",
                "HELLO 3 AUTH default wrong-password",
                "NONSENSE 1",
                "GET",
                "PING hello",
            ] {
                client.ask(&words(line)).await;
            }
            loop {
                let line = monitored(&mut monitor).await;
                let (from, request) = line.split_once("] ").expect("who");
                let (db, _) = from.trim_start_matches('[').split_once(' ').expect("a database");
                lines.push(format!("{db} {request}"));
                if request.contains("hello") {
                    break;
                }
            }
        }
        seen.push(lines);
    }
    assert_eq!(seen[0], seen[1]);
}

/// Scripts of all kinds: locks, which run by their meaning, and others.
const MONITORED_SCRIPTS: &str = r##"
    SELECT 3
    EVAL "return 1" 0
    EVAL "return redis.call('SeT', KEYS[1], 1.5)" 1 k
    EVAL "redis.call('set', KEYS[1], 2, 'px', 90000) return redis.call('GET', KEYS[1])" 1 k
    EVAL "redis.pcall('lpush', KEYS[1], 'x') redis.pcall('nosuch') redis.pcall('get') return 1" 1 k
    EVAL "return redis.call('lpush', KEYS[1], 'x')" 1 k
    EVAL "redis.pcall('blpop', KEYS[1], 0) redis.pcall('config', 'get', 'x') redis.pcall('auth', 'x')" 1 k
    EVAL "redis.call('select', 2) redis.call('get', KEYS[1]) redis.call('select', 3)" 1 k
    EVAL "redis.call('publish', 'c', 'a\"b\r\n') return redis.call('hset', KEYS[1], 'f', '\0\255')" 1 h
    EVAL "return redis.call('get', 'un' .. 'declared')" 0
    EVAL "redis.call('incrby', KEYS[1], 5) return redis.call('incr', 'un' .. 'declared')" 1 n
    EVAL_RO "redis.pcall('set', KEYS[1], 'v') return redis.call('get', KEYS[1])" 1 k
    EVAL "local names = {'incr', 'decr'} for _, name in ipairs(names) do redis.call(name, KEYS[1]) end" 1 n
    EVALSHA 0123456789012345678901234567890123456789 0
    EVAL "redis.call('set', KEYS[1], 'v') error('no')" 1 k
    EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 free t
    SET lock t NX PX 60000
    EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 lock u
    EVAL "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end" 1 lock t 70000
    EVAL "if redis.call('GET',KEYS[1]) == ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end" 1 lock t
    EVAL "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])" 1 other t 60000
    EVAL "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])" 1 other u 60000
    EVAL "if redis.call('exists',KEYS[1]) == 0 then return redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]) elseif redis.call('get',KEYS[1]) == ARGV[1] then redis.call('pexpire',KEYS[1],ARGV[2]) return 1 else return 0 end" 1 third t 60000
    EVAL "if redis.call('exists',KEYS[1]) == 0 then return redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]) elseif redis.call('get',KEYS[1]) == ARGV[1] then redis.call('pexpire',KEYS[1],ARGV[2]) return 1 else return 0 end" 1 third t 60000
    EVAL "if redis.call('exists',KEYS[1]) == 0 then return redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]) elseif redis.call('get',KEYS[1]) == ARGV[1] then redis.call('pexpire',KEYS[1],ARGV[2]) return 1 else return 0 end" 1 third u 60000
    FUNCTION LOAD "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('get', keys[1]) end)"
    FCALL f 1 k
    EVAL "#!lua flags=no-writes\nredis.pcall('set', KEYS[1], 'v') return redis.call('get', KEYS[1])" 1 k
    INCR n
    BLPOP list 0.01
"##;

#[tokio::test]
async fn a_monitor_sees_the_commands_of_scripts_as_with_redis() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let plain = Master::start();
    let mut seen = Vec::new();
    for address in [proxy.address().to_owned(), plain.address()] {
        let (mut monitor, mut client) =
            (Raw::connect(&address).await, Raw::connect(&address).await);
        assert_eq!(monitor.ask(&["MONITOR"]).await, Reply::ok());
        for line in support::side_by_side::lines(MONITORED_SCRIPTS) {
            client.ask(&words(&line)).await;
        }
        client.send(&encode(&["PING", "last"])).await;
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains("last")) {
            let line = monitored(&mut monitor).await;
            let (from, request) = line.split_once("] ").expect("who");
            let (db, who) = from.trim_start_matches('[').split_once(' ').expect("a database");
            let who = if who == "lua" { who } else { "client" };
            lines.push(format!("[{db} {who}] {request}"));
        }
        seen.push(lines);
    }
    let (ours, theirs) = (&seen[0], &seen[1]);
    for (at, line) in theirs.iter().enumerate() {
        assert_eq!(
            ours.get(at),
            Some(line),
            "line {at}, after {:?}",
            at.checked_sub(1).map(|at| &theirs[at])
        );
    }
    assert_eq!(ours.len(), theirs.len());
}

/// Scripts of proxies that take turns are repeated at masters, and scripts that come upon an undeclared key begin anew.
#[tokio::test]
async fn a_monitor_sees_the_commands_of_a_repeated_script_once() {
    if target_is_plain_redis() {
        return;
    }
    const EACH: usize = 30;
    let masters = Masters::start(3);
    let proxies = [Proxy::start(&masters, &[]), Proxy::start(&masters, &[])];
    let script = "redis.call('get', KEYS[1]) redis.call('incr', KEYS[1]) return redis.call('incr', 'un' .. 'declared')";
    let asks = proxies.iter().map(async |proxy| {
        let (mut monitor, mut client) = (proxy.raw().await, proxy.raw().await);
        assert_eq!(monitor.ask(&["MONITOR"]).await, Reply::ok());
        let mut answered = 0;
        for _ in 0..EACH {
            let reply = client.ask(&["EVAL", script, "1", "counter"]).await;
            answered += usize::from(matches!(reply, Reply::Int(_)));
        }
        client.send(&encode(&["PING", "last"])).await;
        let mut calls = Vec::new();
        loop {
            let line = monitored(&mut monitor).await;
            match line.split_once("[0 lua] ") {
                Some((_, call)) => calls.push(call.to_owned()),
                None if line.contains("last") => break,
                None => {}
            }
        }
        let expected = ["\"get\" \"counter\"", "\"incr\" \"counter\"", "\"incr\" \"undeclared\""];
        assert!(answered > EACH / 2, "{answered} of {EACH}");
        assert_eq!(calls, expected.repeat(answered));
    });
    futures_util::future::join_all(asks).await;
}

#[tokio::test]
async fn a_monitor_is_listed_as_one_until_it_resets() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut monitor, mut client) = (proxy.raw().await, proxy.raw().await);
    let id = monitor.ask(&["CLIENT", "ID"]).await;
    let Reply::Int(id) = id else { panic!("{id:?}") };
    let line = async |client: &mut Raw| {
        client.ask(&["CLIENT", "LIST", "ID", &id.to_string()]).await.text()
    };
    assert_eq!(monitor.ask(&["MONITOR"]).await, Reply::ok());
    assert!(line(&mut client).await.contains(" flags=O "));
    monitor.send(&encode(&["RESET"])).await;
    while monitor.reply().await != Reply::Simple("RESET".into()) {}
    assert!(line(&mut client).await.contains(" flags=N "));
    assert_eq!(monitor.ask(&["PING"]).await, Reply::Simple("PONG".into()), "and nothing else");
}

#[tokio::test]
async fn info_tells_what_dashboards_look_for() {
    if target_is_plain_redis() {
        return;
    }
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--workers", "2"]);
    let mut client = proxy.raw().await;
    assert_eq!(client.ask(&["CONFIG", "RESETSTAT"]).await, Reply::ok());
    for _ in 0..3 {
        client.ask(&words("SET lock mine NX PX 60000")).await;
    }
    client.ask(&["EVALSHA", &"0".repeat(40), "0"]).await;
    client.ask(&["INCR", "lock"]).await;
    let number = async |client: &mut Raw, section: &str, field: &str| -> f64 {
        let value = info(client, section, field).await.expect(field);
        value.parse().expect(field)
    };
    for (section, field, least) in [
        ("clients", "connected_clients", 1.0),
        ("memory", "used_memory", 1e5),
        ("memory", "used_memory_peak", 1e5),
        ("memory", "total_system_memory", 1e7),
        ("stats", "total_commands_processed", 5.0),
        ("stats", "total_net_input_bytes", 100.0),
        ("stats", "total_net_output_bytes", 10.0),
        ("stats", "total_error_replies", 2.0),
        ("server", "tcp_port", 1.0),
    ] {
        let value = number(&mut client, section, field).await;
        assert!(value >= least, "{field} {value}");
    }
    for (section, field) in [
        ("memory", "used_memory_human"),
        ("memory", "used_memory_peak_human"),
        ("memory", "used_memory_peak_perc"),
        ("memory", "total_system_memory_human"),
        ("persistence", "rdb_bgsave_in_progress"),
        ("replication", "master_failover_state"),
        ("cpu", "used_cpu_user_children"),
    ] {
        let (ours, theirs) = (info(&mut client, section, field).await, {
            let mut redis = Raw::connect(&masters[0].address()).await;
            info(&mut redis, section, field).await
        });
        let (ours, theirs) = (ours.expect(field), theirs.expect(field));
        let has_unit = |text: &str| text.ends_with(|last: char| last.is_ascii_digit());
        assert!(!ours.is_empty() && has_unit(&ours) == has_unit(&theirs), "{ours} {theirs}");
    }
    assert_eq!(info(&mut client, "memory", "maxmemory_human").await.as_deref(), Some("0B"));
    let set = info(&mut client, "commandstats", "cmdstat_set").await.expect("it was used");
    assert!(set.starts_with("calls=3,usec=") && set.ends_with(",failed_calls=0"), "{set}");
    let noscript = info(&mut client, "errorstats", "errorstat_NOSCRIPT").await;
    assert_eq!(noscript.as_deref(), Some("count=1"));
    let latency = info(&mut client, "latencystats", "latency_percentiles_usec_set").await;
    assert!(latency.is_some_and(|it| it.starts_with("p50=")));
    // As in Redis, `INFO` alone omits these, and `INFO all` includes them.
    let plain = client.ask(&["INFO"]).await.text();
    assert!(!plain.contains("cmdstat_") && plain.contains("# Errorstats"));
    assert!(client.ask(&["INFO", "all"]).await.text().contains("cmdstat_set"));
    eventually("somebody counts requests per second", || async {
        let mut client = proxy.raw().await;
        let rate = info(&mut client, "stats", "instantaneous_ops_per_sec").await;
        (rate? != "0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn waiting_clients_are_counted() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let (mut waiting, mut client) = (proxy.raw().await, proxy.raw().await);
    waiting.send(&encode(&["BLPOP", "list", "0"])).await;
    eventually("one client is blocked", || {
        let address = proxy.address().to_owned();
        async move {
            let mut client = Raw::connect(&address).await;
            (info(&mut client, "clients", "blocked_clients").await? == "1").then_some(())
        }
    })
    .await;
    client.ask(&["RPUSH", "list", "x"]).await;
    waiting.reply().await;
    eventually("none is", || {
        let address = proxy.address().to_owned();
        async move {
            let mut client = Raw::connect(&address).await;
            (info(&mut client, "clients", "blocked_clients").await? == "0").then_some(())
        }
    })
    .await;
}
