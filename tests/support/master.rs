//! One independent Redis, as a real process that a test can kill, stop, and bring back empty.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

use super::client;
use super::state::token;
use super::{Clock, Raw, Reply, eventually_blocking, free_port, target_is_plain_redis};

/// A running `redis-server` that remembers nothing across restarts unless its flags say otherwise.
/// Killed when dropped.
pub struct Master {
    pub port: u16,
    process: Child,
    directory: TempDir,
    flags: &'static [&'static str],
    environment: Vec<(&'static str, PathBuf)>,
}

impl Master {
    /// Starts a server on a free port and returns once it answers.
    pub fn start() -> Master {
        Master::start_with(&[])
    }

    /// Same as [`Master::start`], with extra flags for `redis-server`.
    pub fn start_with(flags: &'static [&'static str]) -> Master {
        Master::start_in(flags, Vec::new())
    }

    /// Same as [`Master::start`], with `clock` as its wall clock.
    pub fn start_by(clock: &Clock) -> Master {
        Master::start_in(&[], clock.environment())
    }

    /// Starts a server with extra flags and environment variables.
    pub fn start_in(
        flags: &'static [&'static str],
        environment: Vec<(&'static str, PathBuf)>,
    ) -> Master {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for _ in 0..20 {
            let port = free_port();
            if let Some(process) = spawn(port, &directory, flags, &environment) {
                return Master { port, process, directory, flags, environment };
            }
        }
        panic!("no port stayed free long enough for redis-server");
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Opens a direct connection that bypasses the proxy. The server must not be stopped.
    pub async fn connection(&self) -> MultiplexedConnection {
        client::connection(&self.address()).await
    }

    /// Reads the value under `key` directly from the server. Returns it as clients see it, without
    /// the tag that masters store before it.
    pub async fn get(&self, key: &str) -> Option<Vec<u8>> {
        let mut connection = self.connection().await;
        let mut get = redis::cmd("GET");
        let get = get.arg(key).query_async::<Option<Vec<u8>>>(&mut connection);
        get.await.expect("GET on a master").map(|value| token(&value).to_vec())
    }

    pub async fn pttl(&self, key: &str) -> i64 {
        let mut connection = self.connection().await;
        redis::cmd("PTTL").arg(key).query_async(&mut connection).await.expect("PTTL on a master")
    }

    /// Counts the keys in database 0, without the proxies' own.
    pub async fn key_count(&self) -> i64 {
        self.key_count_in(0).await
    }

    /// Counts the keys in database `db`, without the proxies' own.
    pub async fn key_count_in(&self, db: u32) -> i64 {
        let script = "redis.call('select', ARGV[1]) local count = 0 \
            for _, key in ipairs(redis.call('keys', '*')) do \
            if string.sub(key, 1, #ARGV[2]) ~= ARGV[2] then count = count + 1 end end return count";
        let count = self
            .ask(&[
                "EVAL",
                script,
                "0",
                &db.to_string(),
                redlock_proxy::catalogue::reserved::PREFIX,
            ])
            .await;
        match count {
            Reply::Int(count) => count,
            other => panic!("a master does not count its keys: {other:?}"),
        }
    }

    /// Returns the mark of each database up to its semicolon, because the part after that may
    /// change. Empty for databases without a mark.
    pub async fn marks(&self) -> Vec<String> {
        let script = "local marks = {} for db = 0, 15 do redis.call('select', db) \
            marks[db + 1] = string.match(redis.call('get', 'redlock-proxy:mark') or '', '^[^;]*') end return marks";
        let Reply::Array(marks) = self.ask(&["EVAL", script, "0"]).await else {
            panic!("a master does not tell its marks")
        };
        marks.iter().map(Reply::text).collect()
    }

    /// Returns how often the server has run `command` so far (`INFO commandstats`).
    pub async fn calls(&self, command: &str) -> u64 {
        let mut connection = self.connection().await;
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut connection)
            .await
            .expect("INFO commandstats");
        let prefix = format!("cmdstat_{}:calls=", command.to_lowercase());
        info.lines()
            .find_map(|line| line.strip_prefix(prefix.as_str()))
            .and_then(|rest| rest.split(',').next())
            .map_or(0, |calls| calls.parse().expect("a count in INFO commandstats"))
    }

    /// Kills the process without warning, as when a host loses power.
    pub fn kill_9(&mut self) {
        self.process.kill().expect("kill redis-server");
        self.process.wait().expect("reap redis-server");
    }

    /// Freezes the process: connections stay open, the kernel still accepts new ones, and nothing
    /// answers.
    pub fn stop(&self) {
        stop(&self.process);
    }

    pub fn cont(&self) {
        signal("CONT", self.process.id());
    }

    /// Restarts the server on the same port without any of its data, unless its flags say
    /// otherwise. The process must be gone ([`Master::kill_9`]).
    pub fn restart_empty(&mut self) {
        let (port, flags) = (self.port, self.flags);
        self.process = eventually_blocking("redis-server comes back on its port", || {
            spawn(port, &self.directory, flags, &self.environment)
        });
    }

    /// Restarts the server with its disk as it was before the first write. The process must be
    /// gone.
    pub fn restart_with_an_older_volume(&mut self) {
        let directory = self.directory.path().join("appendonlydir");
        std::fs::remove_dir_all(directory).expect("the append-only files are there");
        self.restart_empty();
    }

    /// Starts another instance, which has never had any data, at the same address. The process must
    /// be gone.
    pub fn restart_as_new(&mut self) {
        self.directory = tempfile::tempdir().expect("a temporary directory");
        self.restart_empty();
    }

    /// Copies the current contents of its disk.
    pub fn back_up(&self) -> TempDir {
        let copy = tempfile::tempdir().expect("a temporary directory");
        copy_files(self.directory.path(), copy.path());
        copy
    }

    /// Restarts the server with the disk contents saved in `backup`. The process must be gone.
    pub fn restart_from(&mut self, backup: &TempDir) {
        self.directory = tempfile::tempdir().expect("a temporary directory");
        copy_files(backup.path(), self.directory.path());
        self.restart_empty();
    }

    /// Whether the key exists, whatever its value.
    pub async fn has(&self, key: &str) -> bool {
        self.ask(&["EXISTS", key]).await == Reply::Int(1)
    }

    /// Sends a command directly to the master, bypassing the proxy.
    pub async fn ask<S: AsRef<[u8]>>(&self, words: &[S]) -> Reply {
        Raw::connect_resp3(&self.address()).await.ask(words).await
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The masters of one test.
pub struct Masters(Vec<Master>);

impl Masters {
    /// Starts `count` masters, all at once. With a plain Redis as the target there is only that
    /// one.
    pub fn start(count: usize) -> Masters {
        Masters::start_with(if target_is_plain_redis() { 1 } else { count }, &[])
    }

    /// Starts `count` masters with extra flags for `redis-server`. They start together: on a busy
    /// machine the last one would otherwise be much younger than the others and look restarted.
    pub fn start_with(count: usize, flags: &'static [&'static str]) -> Masters {
        std::thread::scope(|threads| {
            let start = |_| threads.spawn(move || Master::start_with(flags));
            let starting: Vec<_> = (0..count).map(start).collect();
            Masters(starting.into_iter().map(|it| it.join().expect("a master")).collect())
        })
    }

    /// Groups masters that were started one by one.
    pub fn of(masters: Vec<Master>) -> Masters {
        Masters(masters)
    }

    pub fn quorum(&self) -> usize {
        self.0.len() / 2 + 1
    }

    /// The largest number of masters that may fail without clients noticing.
    pub fn minority(&mut self) -> &mut [Master] {
        let count = self.0.len() - self.quorum();
        &mut self.0[..count]
    }

    /// Returns the marks of each master.
    pub async fn marks(&self) -> Vec<Vec<String>> {
        let mut marks = Vec::new();
        for master in self.iter() {
            marks.push(master.marks().await);
        }
        marks
    }

    pub fn addresses(&self) -> Vec<String> {
        self.0.iter().map(Master::address).collect()
    }

    /// Runs `redlock-proxy settle` on these masters, with `flags` before `settle` and `words` after
    /// it. Returns its output and its exit code.
    pub fn settle(&self, flags: &[&str], words: &[&str]) -> (String, Option<i32>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock-proxy"));
        for address in self.addresses() {
            command.args(["--master", &address]);
        }
        let output = command.args(flags).arg("settle").args(words).output();
        let output = output.expect("the binary starts");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
    }

    /// Counts the masters that hold `value` under `key` at this moment.
    pub async fn holding(&self, key: &str, value: &[u8]) -> usize {
        let mut count = 0;
        for master in &self.0 {
            count += usize::from(master.get(key).await.as_deref() == Some(value));
        }
        count
    }

    /// Counts the masters that have `key` at this moment, whatever its value.
    pub async fn having(&self, key: &str) -> usize {
        let mut count = 0;
        for master in &self.0 {
            count += usize::from(master.has(key).await);
        }
        count
    }

    /// Waits until the proxy behind `client` has received all answers so far from every master but
    /// `other`, out of three.
    ///
    /// With `other` stopped, a quorum needs both remaining masters, and a link answers in order. If
    /// a link breaks before the answer to a claim arrives, the proxy takes that claim back there.
    pub async fn are_heard_without(&self, other: usize, client: &MultiplexedConnection) {
        let mut client = client.clone();
        self[other].stop();
        let claim = ["SET", "heard", "by all", "NX", "PX", "60000"];
        let reply = client::value(&mut client, &claim).await;
        self[other].cont();
        assert_eq!(reply, Ok(redis::Value::Okay), "two of three are enough");
    }

    /// Waits until no master holds `key`.
    pub async fn forget(&self, key: &str) {
        for master in &self.0 {
            master.forgets(key).await;
        }
    }
}

impl Master {
    /// Waits until this master does not hold `key`.
    pub async fn forgets(&self, key: &str) {
        let what = format!("{key} disappears from the master on port {}", self.port);
        super::eventually(&what, || async { (!self.has(key).await).then_some(()) }).await;
    }

    /// Waits until this master holds `value` under `key`.
    pub async fn holds(&self, key: &str, value: &str) {
        let what = format!("{key} appears on the master on port {}", self.port);
        super::eventually(&what, || async {
            (self.get(key).await.as_deref() == Some(value.as_bytes())).then_some(())
        })
        .await;
    }
}

impl std::ops::Deref for Masters {
    type Target = [Master];

    fn deref(&self) -> &[Master] {
        &self.0
    }
}

impl std::ops::DerefMut for Masters {
    fn deref_mut(&mut self) -> &mut [Master] {
        &mut self.0
    }
}

/// Copies everything below `from` to the folder `to`.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry of a folder");
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            std::fs::create_dir(&copy).expect("a new folder");
            copy_files(&source, &copy);
        } else {
            std::fs::copy(&source, &copy).expect("a copy of a file");
        }
    }
}

/// Starts a server on `port`; returns `None` if another process has the port.
fn spawn(
    port: u16,
    directory: &TempDir,
    flags: &[&str],
    environment: &[(&'static str, PathBuf)],
) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(directory.path())
        .args(flags)
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server starts (Debian package redis-server)");
    eventually_blocking("redis-server answers or gives up its port", || {
        if process.try_wait().expect("the state of redis-server").is_some() {
            return Some(false);
        }
        (process_id_at(port) == Some(process.id())).then_some(true)
    })
    .then_some(process)
}

/// Returns the id of the process that answers on `port`, which could be a stranger that was faster.
fn process_id_at(port: u16) -> Option<u32> {
    use std::io::{Read, Write};
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"INFO server\r\nQUIT\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let id = answer.lines().find_map(|line| line.strip_prefix("process_id:"))?;
    id.trim().parse().ok()
}

/// Stops `process` and returns once all its threads stand still: `kill` alone does not wait for
/// that.
pub fn stop(process: &Child) {
    signal("STOP", process.id());
    let pid = rustix::process::Pid::from_child(process);
    let stopped = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED);
    assert!(stopped.is_ok_and(|status| status.is_some()), "process {pid} stands still");
}

/// Sends a signal by name. Uses the shell's own `kill`, which exists on every machine.
pub fn signal(name: &str, process: u32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {process}")])
        .status()
        .expect("sh is there");
    assert!(status.success(), "signal {name} to process {process}");
}
