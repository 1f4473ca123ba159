//! A real sentinel: a `redis-server --sentinel` with its own configuration.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{Master, Raw, Reply, eventually, eventually_blocking, free_port};

/// A running sentinel that knows one master. Killed when dropped.
pub struct Sentinel {
    pub port: u16,
    process: Child,
    directory: TempDir,
}

impl Sentinel {
    /// Starts a sentinel that watches `master` under `name` with a quorum of one, and returns once
    /// it answers. It declares a master dead only after minutes, so a busy machine makes none look
    /// dead; `more` lines of its configuration can change that.
    pub fn start(name: &str, master: &Master, more: &[&str]) -> Sentinel {
        Sentinel::start_at(name, master.port, more)
    }

    /// Same as [`Sentinel::start`], for whatever listens on a port of this host.
    pub fn start_at(name: &str, monitored: u16, more: &[&str]) -> Sentinel {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for _ in 0..20 {
            let port = free_port();
            let text = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {} 1\n\
                 sentinel down-after-milliseconds {name} 600000\n{}\n",
                monitored,
                more.join("\n"),
            );
            std::fs::write(directory.path().join(CONFIGURATION), text).expect("written");
            if let Some(process) = spawn(port, &directory) {
                return Sentinel { port, process, directory };
            }
        }
        panic!("no port stayed free long enough for a sentinel");
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub async fn ask<S: AsRef<[u8]>>(&self, words: &[S]) -> Reply {
        Raw::connect(&self.address()).await.ask(words).await
    }

    /// Returns the port it reports for the master called `name`.
    pub async fn names(&self, name: &str) -> Option<u16> {
        match self.ask(&["SENTINEL", "get-master-addr-by-name", name]).await {
            Reply::Array(address) => address[1].text().parse().ok(),
            _ => None,
        }
    }

    /// Waits until it could promote that replica to master.
    pub async fn knows_replica(&self, name: &str, replica: &Master) {
        let port = replica.port.to_string();
        eventually("the sentinel knows a replica that is up", || async {
            let Reply::Array(replicas) = self.ask(&["SENTINEL", "REPLICAS", name]).await else {
                return None;
            };
            let is_it = |fields: &Reply| {
                let is = |name: &str, value: &str| fields.field(name) == Some(Reply::bulk(value));
                is("port", &port) && is("flags", "slave") && is("master-link-status", "ok")
            };
            replicas.iter().any(is_it).then_some(())
        })
        .await;
    }

    /// Promotes the replica to master, and waits until that is done.
    pub async fn fail_over(&self, name: &str, replica: &Master) {
        eventually("the sentinel begins a fail-over", || async {
            (self.ask(&["SENTINEL", "FAILOVER", name]).await == Reply::ok()).then_some(())
        })
        .await;
        self.has_named(name, replica).await;
    }

    /// Waits until it names that instance.
    pub async fn has_named(&self, name: &str, master: &Master) {
        eventually("the sentinel names the new master", || async {
            (self.names(name).await == Some(master.port)).then_some(())
        })
        .await;
    }

    /// Kills the process without warning.
    pub fn kill_9(&mut self) {
        self.process.kill().expect("kill the sentinel");
        self.process.wait().expect("reap the sentinel");
    }

    /// Restarts it with its old configuration. The process must be gone.
    pub fn restart(&mut self) {
        self.process = eventually_blocking("the sentinel comes back on its port", || {
            spawn(self.port, &self.directory)
        });
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sentinels write what they learn into this file.
const CONFIGURATION: &str = "sentinel.conf";

/// Starts a sentinel on `port`; returns `None` if another process has the port.
fn spawn(port: u16, directory: &TempDir) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .arg(directory.path().join(CONFIGURATION))
        .arg("--sentinel")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server starts (Debian package redis-server)");
    eventually_blocking("the sentinel answers or gives up its port", || {
        if process.try_wait().expect("the state of the sentinel").is_some() {
            return Some(false);
        }
        answers(port, process.id()).then_some(true)
    })
    .then_some(process)
}

/// Returns whether this process answers on the port. A server that asks for a password counts as
/// well.
fn answers(port: u16, id: u32) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    if stream.write_all(b"INFO server\r\n").is_err() {
        return false;
    }
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    let wanted = format!("process_id:{id}\r\n");
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        answer.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&answer);
        if text.contains(&wanted) || text.starts_with("-NOAUTH") {
            return true;
        }
    }
    false
}
