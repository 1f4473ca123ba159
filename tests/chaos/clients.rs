//! The clients: processes in several languages, and tasks in this process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::data::REDISSON_THREADS;
use crate::rust_client::{Driver, run};

/// A program that takes locks or uses data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
    RedisPy,
    /// Uses data.
    RedisPyForData,
    /// Several clients in one process that use Redisson's objects.
    RedissonForData,
    RedlockPy,
    Ioredis,
    RedisCrate,
    Rslock,
}

/// Starts all programs. They exit when they are told to, or when the set is dropped.
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

/// Waits until `are_there` confirms that this many clients have all begun. The first start of a
/// client may have to install its packages.
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

/// Waits until all clients have ended without an error.
pub(crate) async fn all_gone(clients: &mut JoinSet<Result<(), String>>) {
    while let Some(ended) = timeout(FAREWELL, clients.join_next()).await.expect("clients end") {
        ended.expect("a client that does not panic").expect("a client that does not fail");
    }
}

/// Returns the first tool that the Java programs need and that is missing.
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

/// Runs a program with the packages pinned in `tests/clients`.
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

/// Long enough to download packages.
const INSTALLATION: Duration = Duration::from_secs(600);

/// Longer than a client holds a lock and waits for a reply.
const FAREWELL: Duration = Duration::from_secs(60);
