//! The candidates: an address for clients and the masters behind it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::tempdir;

use crate::process::Process;
use crate::{relay, wire};

/// One Redis server.
pub(crate) struct Master {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

impl Master {
    fn start() -> Result<Master> {
        Master::listening_on(free_port()?)
    }

    /// Kills the process and starts an empty one in its place.
    pub(crate) fn restart_empty(&mut self) -> Result<()> {
        self.process.kill()?;
        *self = Master::listening_on(self.port)?;
        Ok(())
    }

    fn listening_on(port: u16) -> Result<Master> {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--maxclients", MAX_CLIENTS]);
        let mut process = Process::start(command, tempdir()?)?;
        process.wait_for(|_| pong(port)).context("redis-server")?;
        Ok(Master { process, port })
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    /// Returns the calls of any of `commands` since the server started.
    fn calls(&self, commands: &[&str]) -> Result<u64> {
        let info: String = redis::cmd("INFO").arg("commandstats").query(&mut self.connection()?)?;
        let mut sum = 0;
        for (command, calls) in info.lines().filter_map(command_calls) {
            if commands.contains(&command) {
                sum += calls.parse::<u64>()?;
            }
        }
        Ok(sum)
    }

    fn holds(&self, key: &str) -> Result<bool> {
        Ok(redis::cmd("EXISTS").arg(key).query(&mut self.connection()?)?)
    }

    fn flush(&self) -> Result<()> {
        Ok(redis::cmd("FLUSHALL").exec(&mut self.connection()?)?)
    }

    fn connection(&self) -> Result<redis::Connection> {
        connection(self.port)
    }
}

/// The server that clients connect to, with its masters.
pub(crate) struct Deployment {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) masters: Vec<Master>,
    /// The process in between, or `None` when clients talk to the master itself.
    middle: Option<Process>,
    /// Whether the process in between is a proxy that proves what masters remember.
    pub(crate) keeps_marks: bool,
}

impl Deployment {
    /// Starts one Redis server, to which clients talk directly.
    pub(crate) fn direct() -> Result<Deployment> {
        Deployment::distant(Duration::ZERO)
    }

    /// Starts one Redis server, to which clients talk across a network.
    pub(crate) fn distant(delay: Duration) -> Result<Deployment> {
        let master = Master::start()?;
        let port = reached_on(&master, delay)?;
        Ok(Deployment {
            name: "redis-server".into(),
            port,
            masters: vec![master],
            middle: None,
            keeps_marks: false,
        })
    }

    /// Starts twemproxy, which passes everything on to one Redis server.
    pub(crate) fn twemproxy() -> Result<Deployment> {
        let master = Master::start()?;
        let (port, stats_port) = (free_port()?, free_port()?);
        let directory = tempdir()?;
        fs::write(directory.path().join("nutcracker.yml"), twemproxy_config(port, master.port))?;
        let mut command = Command::new("nutcracker");
        command.args(["--conf-file", "nutcracker.yml", "--stats-addr", "127.0.0.1"]);
        command.args(["--stats-port", &stats_port.to_string()]);
        let mut process = Process::start(command, directory)?;
        process.wait_for(|_| pong(port)).context("twemproxy (nutcracker)")?;
        let (name, masters) = ("twemproxy to 1 server".into(), vec![master]);
        let middle = Some(process);
        Ok(Deployment { name, port, masters, middle, keeps_marks: false })
    }

    /// Starts the proxy in front of `count` masters, a majority of which decides.
    pub(crate) fn proxy(binary: &Path, count: usize) -> Result<Deployment> {
        Deployment::proxy_with(binary, count, &[])
    }

    /// Starts the proxy with more flags.
    pub(crate) fn proxy_with(binary: &Path, count: usize, flags: &[&str]) -> Result<Deployment> {
        Deployment::proxy_to_distant(binary, count, flags, Duration::ZERO)
    }

    /// Starts the proxy with masters across a network.
    pub(crate) fn proxy_to_distant(
        binary: &Path,
        count: usize,
        flags: &[&str],
        delay: Duration,
    ) -> Result<Deployment> {
        let masters = (0..count).map(|_| Master::start()).collect::<Result<Vec<_>>>()?;
        let ports: Result<Vec<_>> =
            masters.iter().map(|master| reached_on(master, delay)).collect();
        let Proxy { process, port } = Proxy::start(binary, &ports?, flags)?;
        let name = format!("redlock-proxy to {count} masters");
        let middle = Some(process);
        let mut deployment = Deployment { name, port, masters, middle, keeps_marks: true };
        deployment.wait_until_complete()?;
        Ok(deployment)
    }

    /// Starts the proxy with three masters and a data Redis, for keys that are not locks.
    pub(crate) fn proxy_to_data(binary: &Path) -> Result<Deployment> {
        let data = Master::start()?;
        let url = data.url();
        let mut deployment =
            Self::proxy_with(binary, 3, &["--data", &url, "--lock-keys", "probe:*"])?;
        deployment.name = "redlock-proxy to 1 data Redis".into();
        // First, because the measured requests go there.
        deployment.masters.insert(0, data);
        Ok(deployment)
    }

    /// Starts another proxy in front of the same masters.
    pub(crate) fn another_proxy(&self, binary: &Path) -> Result<Proxy> {
        let ports: Vec<u16> = self.masters.iter().map(|master| master.port).collect();
        let mut proxy = Proxy::start(binary, &ports, &[])?;
        proxy.process.wait_for(|_| all_are_reached(proxy.port, &self.masters))?;
        Ok(proxy)
    }

    /// Returns whether there is a process between clients and masters.
    pub(crate) fn has_middle(&self) -> bool {
        self.middle.is_some()
    }

    /// Returns the process in front of the masters, or the master itself.
    pub(crate) fn front(&self) -> &Process {
        self.middle.as_ref().unwrap_or(&self.masters[0].process)
    }

    /// Returns the CPU time of the process in between.
    pub(crate) fn middle_cpu_time(&self) -> Result<Duration> {
        self.middle.as_ref().map_or(Ok(Duration::ZERO), Process::cpu_time)
    }

    /// Returns the CPU time of all masters together.
    pub(crate) fn masters_cpu_time(&self) -> Result<Duration> {
        self.masters.iter().map(|master| master.process.cpu_time()).sum()
    }

    /// Connects to the server that clients connect to.
    pub(crate) fn connection(&self) -> Result<redis::Connection> {
        connection(self.port)
    }

    /// Empties the masters: through the proxy if there is one, because otherwise they would count as having forgotten.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.keeps_marks {
            return Ok(redis::cmd("FLUSHALL").exec(&mut self.connection()?)?);
        }
        self.masters.iter().try_for_each(Master::flush)
    }

    /// Returns the calls of any of `commands` that reached a master, summed over the masters.
    pub(crate) fn calls(&self, commands: &[&str]) -> Result<u64> {
        self.masters.iter().map(|master| master.calls(commands)).sum()
    }

    /// Returns the average number of scripts sent to each master, once the slowest has run all of them.
    pub(crate) fn scripts(&self) -> Result<f64> {
        let mut before = None;
        loop {
            let scripts = self.calls(&["eval", "evalsha"])?;
            if before.replace(scripts) == Some(scripts) {
                return Ok(scripts as f64 / self.masters.len() as f64);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a claim reaches every master: all links are up and no other request is ahead of it.
    pub(crate) fn wait_until_complete(&mut self) -> Result<()> {
        let (port, masters) = (self.port, &self.masters);
        let Some(middle) = &mut self.middle else { return Ok(()) };
        middle.wait_for(|_| all_are_reached(port, masters))?;
        self.flush()
    }
}

/// A proxy in front of masters that another deployment owns.
pub(crate) struct Proxy {
    process: Process,
    pub(crate) port: u16,
}

impl Proxy {
    fn start(binary: &Path, masters: &[u16], flags: &[&str]) -> Result<Proxy> {
        let mut command = Command::new(binary);
        command.env_remove("RUST_LOG").env("NO_COLOR", "1");
        command.args(["--listen", "127.0.0.1:0", "--max-clients", MAX_CLIENTS]);
        // The benchmark empties it between the rounds.
        command.args(["--allow-flush", "--vote-timeout", VOTE_TIMEOUT]).args(flags);
        for port in masters {
            command.args(["--master", &format!("127.0.0.1:{port}")]);
        }
        let mut process = Process::start(command, tempdir()?)?;
        let port = process.wait_for(listening_port).context("redlock-proxy")?;
        Ok(Proxy { process, port })
    }
}

/// Returns the port at which a master is reached across a network with this delay.
fn reached_on(master: &Master, delay: Duration) -> Result<u16> {
    if delay.is_zero() { Ok(master.port) } else { relay::before(master.port, delay) }
}

/// Connects to a server on this machine.
pub(crate) fn connection(port: u16) -> Result<redis::Connection> {
    Ok(redis::Client::open(url(port))?.get_connection_with_timeout(Duration::from_secs(5))?)
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

fn all_are_reached(port: u16, masters: &[Master]) -> Option<()> {
    claim_reaches_all(port, masters).ok().filter(|reached| *reached).map(|_| ())
}

fn claim_reaches_all(port: u16, masters: &[Master]) -> Result<bool> {
    let key = format!("probe:{}", fastrand::u64(..));
    let claim = [b"SET", key.as_bytes(), b"probe", b"NX", b"PX", b"5000"];
    if wire::ask(&mut wire::connect(port)?, &claim)? != "+OK" {
        return Ok(false);
    }
    std::thread::sleep(Duration::from_millis(20)); // the slowest master may not have it yet when the reply comes
    let held = masters.iter().map(|master| master.holds(&key)).collect::<Result<Vec<_>>>()?;
    Ok(held.into_iter().all(|holds| holds))
}

/// Returns the port in the proxy's log line `listening on 127.0.0.1:PORT`.
fn listening_port(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("listening on 127.0.0.1:")?;
    let end = rest.find(|next: char| !next.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// Returns command and calls of a line such as `cmdstat_set:calls=12,usec=34,...`.
fn command_calls(line: &str) -> Option<(&str, &str)> {
    let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    Some((command, rest.split_once(',')?.0))
}

fn pong(port: u16) -> Option<()> {
    let reply = wire::ask(&mut wire::connect(port).ok()?, &[b"PING"]).ok()?;
    (reply == "+PONG").then_some(())
}

/// Returns a port that was free a moment ago: neither server can choose one itself and report it.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn twemproxy_config(port: u16, server_port: u16) -> String {
    format!(
        "bench:\n  listen: 127.0.0.1:{port}\n  redis: true\n  auto_eject_hosts: false\n  \
         servers:\n   - 127.0.0.1:{server_port}:1\n"
    )
}

/// The default is for masters with cores of their own. Here seven busy processes may share two, and a claim that waits
/// longer for its turn would be counted as unknown.
const VOTE_TIMEOUT: &str = "200ms";

/// Room for the idle connections. redis-server lowers it itself to what the limit of open files allows.
const MAX_CLIENTS: &str = "15000";
