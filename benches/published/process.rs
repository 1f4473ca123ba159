//! A server process: started, stopped, measured, and killed on drop.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use tempfile::TempDir;

/// A running server with its own temporary directory, which also holds its output.
pub(crate) struct Process {
    child: Child,
    directory: TempDir,
}

impl Process {
    /// Starts `command` inside `directory`, with its output going to a file there.
    pub(crate) fn start(mut command: Command, directory: TempDir) -> Result<Process> {
        let log = File::create(directory.path().join(LOG))?;
        let child = command
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {:?}", command.get_program()))?;
        Ok(Process { child, directory })
    }

    /// Calls `ready` until it returns a value.
    ///
    /// # Errors Returns an error if the process has ended or the time is up. It includes the output of the process.
    pub(crate) fn wait_for<T>(&mut self, ready: impl Fn(&str) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(answer) = ready(&self.log()) {
                return Ok(answer);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended with {status}:\n{}", self.log());
            }
            if Instant::now() > deadline {
                bail!("the server is not ready after {START_TIMEOUT:?}:\n{}", self.log());
            }
            sleep(POLL_INTERVAL);
        }
    }

    /// Returns the CPU time spent so far, user and system, of all threads.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.child.id())
    }

    /// Returns the resident memory now.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// Returns the peak resident memory.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .with_context(|| format!("no {field} in /proc/PID/status"))?;
        Ok(kibibytes.trim().parse::<u64>()? * 1024)
    }

    /// Suspends the process: its sockets stay open and nothing answers.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes a stopped process.
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the process without a clean shutdown.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.directory.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failure of either only means that the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU time that this process, the load generator, has spent so far.
pub(crate) fn own_cpu_time() -> Result<Duration> {
    cpu_time(std::process::id())
}

/// Raises the soft limit of open files to the hard one, for this process and the servers it starts.
pub(crate) fn raise_open_files_limit() -> Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Returns the maximum number of open files of this process.
pub(crate) fn open_files_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sums fields 14 and 15 of `/proc/PID/stat`, utime and stime. They are counted after the parenthesised command name,
/// since that may contain spaces.
fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no command name in /proc/PID/stat")?;
    let mut times = fields.split(' ').skip(14 - 3).map(str::parse::<u64>);
    let (Some(user), Some(system)) = (times.next(), times.next()) else {
        bail!("/proc/PID/stat is too short: {stat}");
    };
    let ticks = (user? + system?) as f64;
    Ok(Duration::from_secs_f64(ticks / rustix::param::clock_ticks_per_second() as f64))
}

const LOG: &str = "log";
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
