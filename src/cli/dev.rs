//! `redlock-proxy dev`: local masters and a data Redis for a first try, which start and end with the proxy.
//!
//! Each is a plain `redis-server` on a free port of 127.0.0.1 with a directory of its own, and persists nothing.

mod controls;
mod supervision;

use std::fs::DirBuilder;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::config::MasterAddr;
use controls::has_terminal;
pub use supervision::SupervisedMasters;

/// Running local masters, and possibly a data Redis next to them. Dropping it ends them and removes their files.
///
/// They also end when the thread that started them does, however it ends, provided that `setpriv` (util-linux) is
/// installed. So start them from the main thread.
#[derive(Debug)]
pub struct LocalMasters {
    servers: Vec<Server>,
    data: Option<Server>,
    // Dropped after the servers, which write into it.
    directory: Directory,
}

/// Reason why local masters could not be started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum DevError {
    #[error("redis-server is not installed: `apt-get install redis-server` brings it")]
    NotInstalled,
    #[error("cannot start redis-server: {0}")]
    Start(#[source] io::Error),
    #[error("redis-server exited at once: {0}")]
    Ended(String),
    #[error("redis-server on port {0} did not answer within {limit} s", limit = ANSWER_TIMEOUT.as_secs())]
    Silent(u16),
    #[error("cannot make a directory for the masters: {0}")]
    Directory(#[source] io::Error),
    #[error("cannot find free ports for the masters: {0}")]
    Ports(#[source] io::Error),
    #[error("it has ended: start it first")]
    IsDown,
}

impl LocalMasters {
    /// Starts `n` masters, and a data Redis if wanted, and waits until each of them answers.
    ///
    /// # Errors
    /// Returns an error if no `redis-server` is installed, or if one of them does not start. The others are then
    /// stopped.
    pub fn start(n: usize, with_data: bool) -> Result<Self, DevError> {
        for _ in 1..ATTEMPTS {
            match Self::start_on_free_ports(n, with_data) {
                Err(DevError::Ended(_)) => {}
                started => return started,
            }
        }
        Self::start_on_free_ports(n, with_data)
    }

    fn start_on_free_ports(n: usize, with_data: bool) -> Result<Self, DevError> {
        let directory = Directory::create().map_err(DevError::Directory)?;
        let mut masters = Self { servers: Vec::with_capacity(n), data: None, directory };
        let ports = free_ports(n + usize::from(with_data)).map_err(DevError::Ports)?;
        for (at, port) in ports.into_iter().enumerate() {
            let server = Server::spawn(port, &masters.directory.0)?;
            if at < n {
                masters.servers.push(server);
            } else {
                masters.data = Some(server);
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(DevError::Start)?;
        for server in masters.servers.iter_mut().chain(&mut masters.data) {
            runtime.block_on(server.answers())?;
        }
        Ok(masters)
    }

    /// Returns the addresses of the masters.
    pub fn addresses(&self) -> Vec<MasterAddr> {
        let host = Ipv4Addr::LOCALHOST.to_string();
        let address = |server: &Server| MasterAddr {
            host: host.clone(),
            port: server.port,
            user: None,
            password: None,
            is_tls: false,
        };
        self.servers.iter().map(address).collect()
    }

    /// Returns the URL of the data Redis, if there is one.
    pub fn data(&self) -> Option<String> {
        self.data.as_ref().map(|server| format!("redis://127.0.0.1:{}", server.port))
    }

    /// Returns the text for a first-time user: the running processes, and the lines to paste into another terminal.
    pub fn welcome(&self, proxy: SocketAddr, admin: Option<SocketAddr>) -> String {
        let mut text = String::new();
        for server in &self.servers {
            let pid = server.process.id();
            text += &format!("started redis-server on 127.0.0.1:{} (pid {pid})\n", server.port);
        }
        if let Some(server) = &self.data {
            let pid = server.process.id();
            text += &format!("started a data Redis on 127.0.0.1:{} (process {pid})\n", server.port);
        }
        if let Some(admin) = admin {
            text += &format!("status page at http://{admin}/\n");
        }
        text + &lines_to_paste(proxy, self.servers.len(), self.data.is_some())
            + &controls::explanation(has_terminal())
            + "\nCtrl-C ends the proxy and all of these.\n"
    }
}

/// One `redis-server` process.
#[derive(Debug)]
struct Server {
    port: u16,
    process: Child,
    log: PathBuf,
    /// Whether it was running when last looked at.
    is_up: bool,
}

impl Server {
    fn spawn(port: u16, directory: &Path) -> Result<Self, DevError> {
        let program = find_program("redis-server").ok_or(DevError::NotInstalled)?;
        let directory = directory.join(port.to_string());
        if !directory.is_dir() {
            makedirectory(&directory).map_err(DevError::Directory)?;
        }
        let log = directory.join("redis.log");
        let mut command = dies_with_us(&program);
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--daemonize", "no"])
            .args(["--save", "", "--appendonly", "no", "--loglevel", "warning"])
            .arg("--dir")
            .arg(&directory)
            .arg("--logfile")
            .arg(&log)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal signals the whole group, and the proxy needs its masters to drain.
            .process_group(0);
        let process = command.spawn().map_err(DevError::Start)?;
        Ok(Self { port, process, log, is_up: true })
    }

    async fn answers(&mut self) -> Result<(), DevError> {
        let deadline = crate::time::clock::now() + ANSWER_TIMEOUT;
        loop {
            if self.process.try_wait().map_err(DevError::Start)?.is_some() {
                return Err(DevError::Ended(self.last_words()));
            }
            let answering = tokio::time::timeout(PROBE_TIMEOUT, process_id(self.port)).await;
            if matches!(answering, Ok(Ok(process)) if process == self.process.id()) {
                return Ok(());
            }
            if crate::time::clock::now() >= deadline {
                return Err(DevError::Silent(self.port));
            }
            tokio::time::sleep(ANSWER_PAUSE).await;
        }
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().next_back().unwrap_or("it left no message").to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The parent of all masters' directories.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn create() -> io::Result<Self> {
        let unique = format!("redlock-proxy-dev-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let path = std::env::temp_dir().join(unique);
        makedirectory(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates a directory. Fails if `path` exists: it may belong to somebody else.
fn makedirectory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Returns a command whose process the kernel kills when ours ends, even by `kill -9`.
fn dies_with_us(program: &Path) -> Command {
    match find_program("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Finds a program in `PATH`.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|place| place.join(name)).find(|program| program.is_file())
}

/// Returns ports that nobody listens on. All are held until the last is found, so they differ.
fn free_ports(n: usize) -> io::Result<Vec<u16>> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..n).map(bind).collect::<io::Result<_>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// Returns the process id of the `redis-server` that listens on a port: it may be another one than was started there.
async fn process_id(port: u16) -> io::Result<u32> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let mut connection = BufReader::new(connection);
    connection.write_all(b"INFO server\r\n").await?;
    let mut lines = connection.lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(id) = line.strip_prefix("process_id:") {
            return id.parse().map_err(|_| io::ErrorKind::InvalidData.into());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

fn lines_to_paste(proxy: SocketAddr, n: usize, with_data: bool) -> String {
    let host = match proxy.ip() {
        ip if ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST => String::new(),
        ip => format!("-h {ip} "),
    };
    let redis_cli = format!("redis-cli {host}-p {}", proxy.port());
    let (what, data) = match with_data {
        true => (
            "every lock (lock:*)",
            format!(
                "\nAll other keys are in the data Redis, at the same address.\n\n\
                 {redis_cli} SET page hello\n\
                 {redis_cli} GET page\n"
            ),
        ),
        false => ("every lock", String::new()),
    };
    format!(
        "the proxy listens on {proxy} and takes {what} on a majority of these {n}\n\
         \n\
         Paste this into another terminal: alice takes a lock, bob is refused with (nil), alice releases it.\n\
         \n\
         {redis_cli} SET lock:demo alice NX PX 30000\n\
         {redis_cli} SET lock:demo bob NX PX 30000\n\
         {redis_cli} EVAL \"{RELEASE}\" 1 lock:demo alice\n\
         {data}"
    )
}

/// The release script of the Redlock text.
const RELEASE: &str = "if redis.call('get',KEYS[1])==ARGV[1] then \
                       return redis.call('del',KEYS[1]) else return 0 end";

/// Maximum time for an answer. A `redis-server` without data answers after some 10 ms; one that takes longer than this
/// never will.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum attempts to start masters: another process may take a free port before they do.
const ATTEMPTS: usize = 5;

/// Timeout of one probe. It is short, so that the end of the process is noticed while another process holds its port.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause between two attempts to reach a starting `redis-server`.
const ANSWER_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pid: u32) -> bool {
        Path::new("/proc").join(pid.to_string()).exists()
    }

    #[test]
    fn masters_answer_once_started_and_are_gone_when_dropped() {
        let masters = LocalMasters::start(3, true).unwrap();
        let directory = masters.directory.0.clone();
        let servers = masters.servers.iter().chain(&masters.data);
        let pids: Vec<u32> = servers.map(|server| server.process.id()).collect();
        assert_eq!(pids.len(), 4);
        assert_eq!(masters.addresses().len(), 3);
        assert!(directory.is_dir() && pids.iter().all(|pid| runs(*pid)));
        drop(masters);
        assert!(!directory.exists() && !pids.iter().any(|pid| runs(*pid)));
    }

    #[test]
    fn a_server_that_cannot_start_tells_why() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let directory = Directory::create().unwrap();
        let port = taken.local_addr().unwrap().port();
        let mut server = Server::spawn(port, &directory.0).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The port is held but never answers: only the end of the process can end the wait.
        let error = runtime.block_on(server.answers()).unwrap_err();
        assert!(
            matches!(&error, DevError::Ended(why) if why.contains("listening on port")),
            "{error}"
        );
    }

    #[test]
    fn a_server_on_a_port_of_another_one_is_not_taken_for_started() {
        let masters = LocalMasters::start(1, false).unwrap();
        let mut second =
            Server::spawn(masters.servers[0].port, &another_directory(&masters)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let error = runtime.block_on(second.answers()).unwrap_err();
        assert!(matches!(error, DevError::Ended(_)), "{error}");
    }

    /// Returns a directory within that of `masters`, so that it is removed with it.
    fn another_directory(masters: &LocalMasters) -> PathBuf {
        let path = masters.directory.0.join("second");
        makedirectory(&path).unwrap();
        path
    }

    #[test]
    fn the_lines_to_paste_reach_the_proxy() {
        let lines = |proxy: &str| lines_to_paste(proxy.parse().unwrap(), 3, true);
        assert!(
            lines("127.0.0.1:7000")
                .contains("\nredis-cli -p 7000 SET lock:demo alice NX PX 30000\n")
        );
        assert!(lines("0.0.0.0:7000").contains("\nredis-cli -p 7000 SET"));
        assert!(lines("10.1.2.3:7000").contains("\nredis-cli -h 10.1.2.3 -p 7000 SET"));
    }
}
