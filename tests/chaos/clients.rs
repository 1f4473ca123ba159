//! The clients' side: processes in several languages, and tasks in this one.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::data::REDISSON_THREADS;
use crate::rust_client::{Driver, run};

/// What takes locks, or uses data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
    RedisPy,
    /// It uses data.
    RedisPyForData,
    /// Several clients in one process use its objects.
    RedissonForData,
    RedlockPy,
    Ioredis,
    RedisCrate,
    Rslock,
}

/// Starts them all. They end by themselves when they are told to, or with the set.
pub(crate) fn start(programs: &[Program], journal: SocketAddr) -> JoinSet<Result<(), String>> {
    let mut clients = JoinSet::new();
    for program in programs {
        match program {
            Program::RedisPy => clients.spawn(python("redis_py.py", journal)),
            Program::RedisPyForData => clients.spawn(python("data_redis_py.py", journal)),
            Program::RedissonForData => clients.spawn(java("DataRedisson.java", journal)),
            Program::RedlockPy => clients.spawn(python("redlock_py.py", journal)),
            Program::Ioredis => clients.spawn(node("ioredis.mjs", journal)),
            Program::RedisCrate => clients.spawn(run(journal, Driver::redis_crate())),
            Program::Rslock => clients.spawn(run(journal, Driver::rslock())),
        };
    }
    clients
}

/// Waits until `are_there` says that they, as many as it is told, have all begun: the first start of one may have to install
/// what it needs.
pub(crate) async fn all_present(
    clients: &mut JoinSet<Result<(), String>>,
    are_there: impl Fn(usize) -> bool,
) {
    let limit = Instant::now() + INSTALLATION;
    while !are_there(clients.len()) {
        if let Some(ended) = clients.try_join_next() {
            panic!("a client ended before it began: {ended:?}");
        }
        assert!(Instant::now() < limit, "a client does not begin");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until they have ended, and well.
pub(crate) async fn all_gone(clients: &mut JoinSet<Result<(), String>>) {
    while let Some(ended) = timeout(FAREWELL, clients.join_next()).await.expect("clients end") {
        ended.expect("a client that does not panic").expect("a client that does not fail");
    }
}

/// What the programs in Java need and is not there.
pub(crate) async fn java_lacks() -> Option<&'static str> {
    for program in ["javac", "mvn"] {
        let asked = Command::new(program).arg("-version").output().await;
        if !asked.is_ok_and(|output| output.status.success()) {
            return Some(program);
        }
    }
    None
}

async fn python(file: &str, journal: SocketAddr) -> Result<(), String> {
    process(&["python", "program", "redis-8"], file, &[], journal).await
}

async fn node(file: &str, journal: SocketAddr) -> Result<(), String> {
    process(&["node", "program"], file, &[], journal).await
}

async fn java(file: &str, journal: SocketAddr) -> Result<(), String> {
    let threads = REDISSON_THREADS.to_string();
    process(&["java", "program", "redisson-4"], file, &[&threads], journal).await
}

/// Runs a program with the packages that `tests/clients` has pinned.
async fn process(
    with: &[&str],
    file: &str,
    arguments: &[&str],
    journal: SocketAddr,
) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut command = Command::new(root.join("clients/run"));
    command.args(with).arg(root.join("chaos/clients").join(file)).args(arguments);
    command.env("CHAOS_JOURNAL", journal.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let output =
        command.stderr(Stdio::piped()).output().await.map_err(|error| error.to_string())?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{file}: {complaints}")) }
}

/// Long enough for packages to be fetched.
const INSTALLATION: Duration = Duration::from_secs(600);

/// Longer than a client holds a lock and waits for a reply.
const FAREWELL: Duration = Duration::from_secs(60);
