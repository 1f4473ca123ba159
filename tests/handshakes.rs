//! The requests that drivers send on a fresh connection, in their batches, and the replies that each driver needs
//! before it continues.
//!
//! A mere error can be fatal: ioredis does not start without INFO, redis-py 8 not without RESP3, StackExchange.Redis
//! not without its ECHO, and lettuce gives up on a HELLO whose `id` is not an integer. Every handshake ends with a
//! claim, because one wrong reply in a batch shifts all later ones.

mod support;

use support::{Masters, Proxy, Raw, Reply, encode, target_is_plain_redis, words};

/// A reply that a driver needs.
#[derive(Clone, Copy, Debug)]
enum Need {
    Ok,
    /// `CLIENT SETINFO`: OK from a proxy; Redis before 7.2 does not know it, and only a few drivers forgive that.
    Info,
    /// A HELLO map (a flat array in RESP2) for this version, with everything that any driver reads.
    Hello(i64),
    /// An error that contains this: the driver goes by its text.
    Error(&'static str),
    /// The whole INFO text with the fields that drivers parse.
    ServerInfo,
    /// An array or map that holds this setting.
    Setting(&'static str),
    Bulk(&'static str),
    Integer,
    Nil,
    Pong,
    /// Any answer: the driver does without.
    Any,
}

use Need::{Any, Bulk, Error, Hello, Info, Integer, Nil, Ok, Pong, ServerInfo, Setting};

type Batch = &'static [(&'static str, Need)];

const NO_MAINT: Need = Error("unknown subcommand");

/// Drivers with their versions, and the batches that each sends one after the other.
const HANDSHAKES: &[(&str, &[Batch])] = &[
    (
        "redis-py 5 to 7",
        &[
            &[("CLIENT SETINFO LIB-NAME redis-py", Info)],
            &[("CLIENT SETINFO LIB-VER 5.2.1", Info)],
            &[("SELECT 2", Ok)],
        ],
    ),
    (
        "redis-py 8",
        &[
            &[("HELLO 3", Hello(3))],
            &[("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", NO_MAINT)],
            &[("CLIENT SETINFO LIB-NAME redis-py", Info)],
            &[("CLIENT SETINFO LIB-VER 8.0.1", Info)],
        ],
    ),
    (
        "redis-py 8 asyncio",
        &[
            &[("HELLO 3", Hello(3))],
            &[
                ("CLIENT SETINFO LIB-NAME redis-py", Info),
                ("CLIENT SETINFO LIB-VER 8.0.1", Info),
                ("SELECT 1", Ok),
            ],
        ],
    ),
    ("go-redis 8", &[&[("select 1", Ok)]]),
    (
        "go-redis 9",
        &[
            &[("hello 3 setname worker", Hello(3))],
            &[
                ("select 1", Ok),
                ("client setname worker", Ok),
                ("client maint_notifications on moving-endpoint-type none", NO_MAINT),
            ],
            &[
                ("client setinfo LIB-NAME go-redis(,go1.23)", Info),
                ("client setinfo LIB-VER 9.16.0", Info),
            ],
        ],
    ),
    (
        "node-redis 4",
        &[&[("CLIENT SETINFO LIB-NAME node-redis", Info), ("CLIENT SETINFO LIB-VER 4.7.0", Info)]],
    ),
    (
        "node-redis 6",
        &[&[
            ("HELLO 3", Hello(3)),
            ("SELECT 1", Ok),
            ("CLIENT SETINFO LIB-VER 6.0.0", Info),
            ("CLIENT SETINFO LIB-NAME node-redis", Info),
            ("CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type none", NO_MAINT),
        ]],
    ),
    ("ioredis 5.4", &[&[("info", ServerInfo)]]),
    (
        "ioredis 5.8",
        &[&[
            ("client SETINFO LIB-VER 5.8.0", Info),
            ("client SETINFO LIB-NAME ioredis", Info),
            ("info", ServerInfo),
        ]],
    ),
    (
        "ioredis 6",
        &[&[
            ("hello 3", Hello(3)),
            ("client SETINFO LIB-VER 6.0.0", Info),
            ("client SETINFO LIB-NAME ioredis", Info),
            ("info", ServerInfo),
        ]],
    ),
    (
        "redis-client for Ruby",
        &[&[
            ("HELLO 3", Hello(3)),
            ("SELECT 1", Ok),
            ("CLIENT SETINFO LIB-NAME redis-client", Info),
            ("CLIENT SETNAME worker", Ok),
        ]],
    ),
    (
        "jedis 4 to 7",
        &[&[
            ("SELECT 1", Ok),
            ("CLIENT SETINFO LIB-NAME jedis", Info),
            ("CLIENT SETINFO LIB-VER 5.2.0", Info),
        ]],
    ),
    (
        "jedis 8",
        &[
            &[("HELLO 3", Hello(3))],
            &[
                ("CLIENT SETINFO LIB-NAME jedis", Info),
                ("CLIENT SETINFO LIB-VER 8.0.0", Info),
                ("SELECT 1", Ok),
            ],
        ],
    ),
    (
        "lettuce 6.4, all at once",
        &[&[
            ("HELLO 3 SETNAME worker", Hello(3)),
            ("SELECT 1", Ok),
            ("CLIENT SETINFO lib-name Lettuce", Info),
            ("CLIENT SETINFO lib-ver 6.4.0", Info),
        ]],
    ),
    (
        "lettuce 7",
        &[
            &[("HELLO 3", Hello(3))],
            &[("SELECT 1", Ok)],
            &[
                ("CLIENT SETINFO lib-name Lettuce", Info),
                ("CLIENT SETINFO lib-ver 7.0.0", Info),
                ("CLIENT MAINT_NOTIFICATIONS on moving-endpoint-type none", NO_MAINT),
            ],
        ],
    ),
    (
        "redis-rs",
        &[&[
            ("SELECT 1", Ok),
            ("CLIENT SETINFO LIB-NAME redis-rs", Info),
            ("CLIENT SETINFO LIB-VER 1.6.0", Info),
        ]],
    ),
    (
        "predis 3",
        &[&[
            ("HELLO 2 SETNAME predis", Hello(2)),
            ("CLIENT SETINFO LIB-NAME predis", Info),
            ("CLIENT SETINFO LIB-VER 3.0.0", Info),
            ("SELECT 1", Ok),
        ]],
    ),
    (
        "phpredis, a persistent connection again",
        &[&[("ECHO 65f0c1a2b3d4e", Bulk("65f0c1a2b3d4e"))]],
    ),
    (
        "Redisson",
        &[&[
            ("SELECT 1", Ok),
            ("CLIENT SETNAME worker", Ok),
            ("CLIENT CAPA redirect", Any),
            ("PING", Pong),
        ]],
    ),
    (
        "rueidis",
        &[&[
            ("HELLO 3", Hello(3)),
            ("CLIENT TRACKING ON OPTIN", Ok),
            ("SELECT 1", Ok),
            ("CLIENT SETINFO LIB-NAME rueidis", Info),
            ("CLIENT SETINFO LIB-VER 1.0.76", Info),
        ]],
    ),
    (
        "StackExchange.Redis 2",
        &[&[
            ("CLIENT SETNAME host(SE.Redis-v2.8.24)", Ok),
            ("CLIENT SETINFO lib-name SE.Redis", Info),
            ("CLIENT SETINFO lib-ver 2.8.24", Info),
            ("CLIENT ID", Integer),
            ("CONFIG GET timeout", Setting("timeout")),
            ("CONFIG GET slave-read-only", Setting("slave-read-only")),
            ("CONFIG GET databases", Setting("databases")),
            ("SENTINEL MASTERS", Error("unknown command 'SENTINEL'")),
            ("INFO replication", Any),
            ("INFO server", Any),
            ("CLUSTER NODES", Error("cluster support disabled")),
            ("GET __Booksleeve_TieBreak", Nil),
            ("ECHO 0123456789abcdef", Bulk("0123456789abcdef")),
        ]],
    ),
    (
        "StackExchange.Redis 3",
        &[&[
            ("HELLO 3", Hello(3)),
            ("CLIENT SETNAME host(SE.Redis-v3.1.13)", Ok),
            ("CLIENT SETINFO lib-name SE.Redis", Info),
            ("CLIENT SETINFO lib-ver 3.1.13", Info),
            ("CLIENT ID", Integer),
            ("CONFIG GET timeout", Setting("timeout")),
            ("CONFIG GET replica-read-only", Setting("replica-read-only")),
            ("CONFIG GET databases", Setting("databases")),
            ("SENTINEL MASTERS", Error("unknown command 'SENTINEL'")),
            ("INFO replication", Any),
            ("INFO server", Any),
            ("CLUSTER NODES", Error("cluster support disabled")),
            ("GET __Booksleeve_TieBreak", Nil),
            ("ECHO 0123456789abcdef", Bulk("0123456789abcdef")),
        ]],
    ),
    ("redis-cli", &[&[("COMMAND DOCS", Any), ("COMMAND", Any), ("PING", Pong)]]),
    ("Redis::DistLock", &[&[("INFO", ServerInfo)]]),
];

#[tokio::test]
async fn every_driver_gets_what_it_needs() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    for (driver, batches) in HANDSHAKES {
        let mut raw = proxy.raw().await;
        for batch in *batches {
            shake_hands(driver, &mut raw, batch).await;
        }
        assert_takes_locks(driver, &mut raw).await;
    }
}

/// With a password, AUTH comes first, alone or inside HELLO. The rest of the batch is on its way before it is
/// answered.
#[tokio::test]
async fn every_driver_can_log_in() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret"]);
    let hello = "HELLO 3 AUTH default secret SETNAME worker";
    for (form, login) in [("AUTH", "AUTH secret"), ("ACL", "AUTH default secret"), ("HELLO", hello)]
    {
        let need = if form == "HELLO" { Hello(3) } else { Ok };
        for (driver, batches) in HANDSHAKES {
            let mut raw = proxy.raw().await;
            let mut batch = vec![(login, need)];
            batch.extend(batches.concat());
            shake_hands(&format!("{driver} with {form}"), &mut raw, &batch).await;
            assert_takes_locks(driver, &mut raw).await;
        }
    }
}

/// SE.Redis sends 16 random bytes, and closes the connection unless exactly these come back.
#[tokio::test]
async fn echo_is_binary() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &[]);
    let mut raw = proxy.raw().await;
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(raw.ask(&[b"ECHO", bytes.as_slice()]).await, Reply::Bulk(bytes));
}

/// Without the password, every step of every handshake is refused, each with its own reply.
#[tokio::test]
async fn strangers_are_refused_step_by_step() {
    let masters = Masters::start(3);
    let proxy = Proxy::start(&masters, &["--requirepass", "secret"]);
    let mut raw = proxy.raw().await;
    for line in ["HELLO 3", "CLIENT SETNAME worker", "SELECT 1", "INFO", "GET lock", "PING"] {
        let refusal = raw.ask(&words(line)).await;
        assert!(refusal.is_error("NOAUTH"), "{line} was answered {refusal:?}");
    }
    assert!(raw.ask(&["AUTH", "wrong"]).await.is_error("WRONGPASS"));
    assert_eq!(raw.ask(&["AUTH", "secret"]).await, Reply::ok());
    assert_takes_locks("a late login", &mut raw).await;
}

/// Sends the whole batch before it reads the first reply.
async fn shake_hands(driver: &str, raw: &mut Raw, batch: &[(&str, Need)]) {
    let bytes: Vec<u8> = batch.iter().flat_map(|(line, _)| encode(&words(line))).collect();
    raw.send(&bytes).await;
    for (line, need) in batch {
        let reply = raw.reply().await;
        assert!(satisfies(&reply, *need), "{driver}: {line} needs {need:?}, got {reply:?}");
    }
}

async fn assert_takes_locks(driver: &str, raw: &mut Raw) {
    let claim = ["SET", "lock", driver, "NX", "PX", "600000"];
    assert_eq!(raw.ask(&claim).await, Reply::ok(), "{driver}");
    assert_eq!(raw.ask(&claim).await, Reply::Nil, "{driver}");
    assert_eq!(raw.ask(&["GET", "lock"]).await, Reply::bulk(driver));
    assert_eq!(raw.ask(&["DEL", "lock"]).await, Reply::Int(1), "{driver}");
}

fn satisfies(reply: &Reply, need: Need) -> bool {
    match need {
        Ok => *reply == Reply::ok(),
        Info => *reply == Reply::ok() || target_is_plain_redis(),
        Hello(version) => is_hello(reply, version),
        Error(part) => {
            matches!(reply, Reply::Error(text) if text.starts_with("ERR") && text.contains(part))
        }
        ServerInfo => is_server_info(reply),
        Setting(name) => matches!(reply.field(name), Some(Reply::Bulk(_))),
        Bulk(text) => *reply == Reply::bulk(text),
        Integer => matches!(reply, Reply::Int(_)),
        Nil => *reply == Reply::Nil,
        Pong => *reply == Reply::Simple("PONG".to_owned()),
        Any => true,
    }
}

/// Whether this is a `HELLO` reply: a map in RESP3, a flat list in RESP2; `id` and `proto` are integers; neither a
/// replica nor a cluster.
fn is_hello(reply: &Reply, version: i64) -> bool {
    let is_map = matches!(reply, Reply::Map(_));
    let text = |name| reply.field(name).map(|value| value.text());
    is_map == (version == 3)
        && reply.field("proto") == Some(Reply::Int(version))
        && matches!(reply.field("id"), Some(Reply::Int(_)))
        && text("server").as_deref() == Some("redis")
        && text("mode").as_deref() == Some("standalone")
        && text("role").as_deref() == Some("master")
        && text("version").is_some_and(|version| is_version(&version))
        && matches!(reply.field("modules"), Some(Reply::Array(_)))
}

fn is_server_info(reply: &Reply) -> bool {
    let text = match reply {
        Reply::Bulk(_) => reply.text(),
        Reply::Other('=', text) => text.trim_start_matches("txt:").to_owned(),
        _ => return false,
    };
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim)
    };
    field("redis_version").is_some_and(is_version)
        && field("redis_mode") == Some("standalone")
        && field("role") == Some("master")
        && field("loading") == Some("0")
        && field("connected_slaves") == Some("0")
}

/// Whether this is exactly three numbers: Redis::DistLock dies of `7.0-pr`.
fn is_version(version: &str) -> bool {
    let parts: Vec<&str> = version.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}
