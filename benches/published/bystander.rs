//! Effect of one client that floods the proxy on another that only wants a lock.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::deployment::{Deployment, Master};
use crate::report::Table;
use crate::settings::Settings;
use crate::stats::{median_of, ratio};
use crate::wire;

pub(crate) fn measure(settings: &Settings) -> Result<Table> {
    // One worker, so that the flood and the claims share it.
    let proxy = Deployment::proxy_with(&settings.proxy, 3, &["--workers", "1"])?;
    let mut table = Table::new("A bystander's claims beside one client's flood", READING, &COLUMNS);
    for (preparation, floods) in floods() {
        let _prepared = preparation.of(&proxy)?;
        for (name, request) in floods {
            let (mut quiet, mut beside) = (Vec::new(), Vec::new());
            for _ in 0..settings.rounds {
                quiet.push(claims(&proxy, settings.duration())?);
                let flood = Flood::of(proxy.port, &request)?;
                beside.push(claims(&proxy, settings.duration())?);
                drop(flood);
                // The last requests to the masters may still be on their way.
                std::thread::sleep(PAUSE);
            }
            table.row(row(name, &quiet, &beside));
        }
    }
    Ok(table)
}

/// A flood's name, and the request that it repeats.
type Named = (&'static str, Vec<u8>);

/// Returns all floods, grouped by the preparation that they need.
fn floods() -> Vec<(Preparation, Vec<Named>)> {
    let line = |line: &str| wire::encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    let ids: Vec<String> = (1..=CLIENTS).map(|id| id.to_string()).collect();
    let channels: Vec<String> = (0..CHANNELS).map(|channel| format!("channel:{channel}")).collect();
    let ids = line(&format!("CLIENT LIST ID {}", ids.join(" ")));
    let channels = line(&format!("SUBSCRIBE {}", channels.join(" ")));
    let channels = [channels, line("UNSUBSCRIBE")].concat();
    let kill = line("CLIENT KILL ADDR 127.0.0.1:1");
    vec![
        (
            Preparation::Nothing,
            vec![
                ("INFO", line("INFO")),
                ("ACL LIST", line("ACL LIST")),
                ("COMMAND DOCS", line("COMMAND DOCS")),
                ("SUBSCRIBE to 50,000 channels", channels),
            ],
        ),
        (
            Preparation::Clients,
            vec![
                ("CLIENT LIST of 5,000", line("CLIENT LIST")),
                ("CLIENT LIST ID with 5,000 ids", ids),
                ("CLIENT LIST TYPE normal of 5,000", line("CLIENT LIST TYPE normal")),
                ("CLIENT KILL ADDR among 5,000", kill),
            ],
        ),
        (
            Preparation::Keys,
            vec![
                ("SCAN 0 on 50,000 keys", line("SCAN 0")),
                ("KEYS * on 50,000 keys", line("KEYS *")),
            ],
        ),
        (Preparation::Members, vec![("SMEMBERS of 1,000,000", line("SMEMBERS members"))]),
    ]
}

/// State that a flood requires.
#[derive(Clone, Copy)]
enum Preparation {
    Nothing,
    Clients,
    Keys,
    Members,
}

impl Preparation {
    /// Prepares the flood, and returns the connections that must stay open for it.
    fn of(self, proxy: &Deployment) -> Result<Vec<TcpStream>> {
        match self {
            Self::Nothing => return Ok(Vec::new()),
            Self::Clients => return (0..CLIENTS).map(|_| wire::connect(proxy.port)).collect(),
            Self::Keys => proxy.flush()?,
            Self::Members => proxy.flush()?,
        }
        proxy.masters.iter().try_for_each(|master| self.fill(master))?;
        Ok(Vec::new())
    }

    fn fill(self, master: &Master) -> Result<()> {
        let mut connection = wire::connect(master.port)?;
        let script = if let Self::Keys = self { FILL_KEYS } else { FILL_MEMBERS };
        wire::ask(&mut connection, &[b"EVAL", script.as_bytes(), b"0"])?;
        Ok(())
    }
}

/// Claims of one client that takes one lock after the other.
struct Claims {
    p99_ms: f64,
    worst_ms: f64,
    failed: usize,
}

fn claims(proxy: &Deployment, duration: Duration) -> Result<Claims> {
    let mut connection = wire::connect(proxy.port)?;
    let (start, mut times, mut failed) = (Instant::now(), Vec::new(), 0);
    while start.elapsed() < duration {
        let key = format!("lock:{}", fastrand::u64(..));
        let asked = Instant::now();
        let claim = [b"SET", key.as_bytes(), b"token", b"NX", b"PX", b"5000"];
        failed += usize::from(wire::ask(&mut connection, &claim)? != "+OK");
        times.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let worst_ms = times.last().copied().unwrap_or(f64::NAN);
    let p99_ms = times.get(times.len() * 99 / 100).copied().unwrap_or(worst_ms);
    Ok(Claims { p99_ms, worst_ms, failed })
}

/// A client that repeats one request as fast as it is answered, until drop.
struct Flood {
    ends: Arc<AtomicBool>,
    socket: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn of(port: u16, request: &[u8]) -> Result<Flood> {
        let socket = wire::connect(port)?;
        socket.set_read_timeout(None)?;
        let (mut writer, mut reader) = (socket.try_clone()?, socket.try_clone()?);
        let ends = Arc::new(AtomicBool::new(false));
        let (requests, over) = (request.repeat(1 + AT_ONCE / request.len()), Arc::clone(&ends));
        let write = move || {
            keep_to_one_core();
            while !over.load(Ordering::Relaxed) && writer.write_all(&requests).is_ok() {}
        };
        let read = move || {
            keep_to_one_core();
            let mut buffer = vec![0; 1 << 20];
            while reader.read(&mut buffer).is_ok_and(|read| read > 0) {}
        };
        let threads = vec![std::thread::spawn(write), std::thread::spawn(read)];
        Ok(Flood { ends, socket, threads })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Both threads end with the connection, which may have ended before.
        let _ = self.socket.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Confines a flood's client to one core, so that it does not take those of the servers. In production it would have
/// its own machine.
fn keep_to_one_core() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut last = CpuSet::new();
    if let Some(core) = (0..CpuSet::MAX_CPU).rfind(|core| allowed.is_set(*core)) {
        last.set(core);
    }
    // If that is not allowed, the client runs on any core.
    let _ = sched_setaffinity(None, &last);
}

fn row(name: &str, quiet: &[Claims], beside: &[Claims]) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{:.2}", median_of(quiet, |claims| claims.p99_ms)),
        format!("{:.2}", median_of(beside, |claims| claims.p99_ms)),
        ratio(beside, quiet, |claims| claims.p99_ms),
        format!("{:.0}", beside.iter().map(|claims| claims.worst_ms).fold(0.0, f64::max)),
        beside.iter().map(|claims| claims.failed).sum::<usize>().to_string(),
    ]
}

const CLIENTS: u32 = 5_000;

const CHANNELS: u32 = 50_000;

/// Bytes of requests per write.
const AT_ONCE: usize = 16 << 10;

const PAUSE: Duration = Duration::from_millis(500);

const FILL_KEYS: &str = "for i = 1, 50000 do redis.call('set', 'key:' .. i, 'value') end return 1";

const FILL_MEMBERS: &str =
    "for i = 1, 1000000 do redis.call('sadd', 'members', 'member:' .. i) end return 1";

const COLUMNS: [&str; 6] =
    ["flood", "quiet p99 ms", "p99 ms", "p99 of quiet", "worst ms", "failed"];

const READING: &str = "One client takes one lock after the other (`SET key token NX PX 5000`), first alone, then \
while another one sends the same request again and again as fast as it is answered. The proxy has one worker, so \
that both meet; the flood's client keeps to one core. A claim fails when it is answered with anything but `OK`.";
