//! Resource usage of the process, from Linux's `/proc` (`proc(5)`); unknown on other systems.

use std::fs;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::time::clock::{self, Instant};

/// Resource usage of the process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
    /// Processor time in seconds: in the kernel, and in user mode.
    pub cpu_seconds: (f64, f64),
}

/// Time for which a reading of `/proc` is reused, because it takes the kernel longer than everything else in `INFO`.
const MOMENT: Duration = Duration::from_millis(100);

/// Returns the current resource usage, or that of a moment ago.
pub fn usage() -> ProcessUsage {
    static LAST: Mutex<Kept> = Mutex::new(Kept(None));
    // Nothing that can panic runs under this lock.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    last.at(clock::now(), look)
}

fn look() -> ProcessUsage {
    let resident_bytes = resident_bytes();
    let peak_bytes = peak_bytes().max(resident_bytes);
    ProcessUsage { resident_bytes, peak_bytes, cpu_seconds: cpu_seconds() }
}

/// The last reading and its time.
struct Kept(Option<(Instant, ProcessUsage)>);

impl Kept {
    fn at(&mut self, now: Instant, look: impl FnOnce() -> ProcessUsage) -> ProcessUsage {
        match self.0 {
            Some((then, usage)) if now.saturating_duration_since(then) < MOMENT => usage,
            _ => self.0.insert((now, look())).1,
        }
    }
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    kib_of(&status, "VmHWM:").map_or(0, |kib| kib << 10)
}

/// Returns the number in a line such as `VmHWM:  1234 kB`.
fn kib_of(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the machine's memory in bytes, or its container's limit if that is less.
pub fn available_bytes() -> u64 {
    let limits = CGROUP_LIMITS.iter().filter_map(|path| fs::read_to_string(path).ok());
    // Without a limit, a container has a word here, or a number beyond any machine.
    let limits = limits.filter_map(|limit| limit.trim().parse().ok());
    limits.chain(machine_bytes()).min().unwrap_or(u64::MAX)
}

/// Returns the machine's memory in bytes, if known.
pub fn machine_bytes() -> Option<u64> {
    static BYTES: OnceLock<Option<u64>> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        kib_of(&meminfo, "MemTotal:").map(|kib| kib << 10)
    })
}

/// Memory limits of cgroups version 2 and version 1.
const CGROUP_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

fn cpu_seconds() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name comes before the fields and may contain spaces.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| after.split_whitespace().nth(at).and_then(|ticks| ticks.parse().ok());
    let seconds =
        |at| ticks(at).unwrap_or(0_u64) as f64 / rustix::param::clock_ticks_per_second() as f64;
    (seconds(STIME), seconds(UTIME))
}

/// Indexes of fields, counted from the state, which is the first field after the name.
const UTIME: usize = 11;
const STIME: usize = 12;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_info_reads_proc_ten_times_a_second() {
        let (mut kept, mut looks, start) = (Kept(None), 0, clock::now());
        for at in 0..10_000 {
            kept.at(start + at * Duration::from_micros(100), || {
                looks += 1;
                ProcessUsage { resident_bytes: looks, peak_bytes: looks, cpu_seconds: (0.0, 0.0) }
            });
        }
        assert_eq!(looks, 10);
    }

    #[test]
    fn this_process_takes_something() {
        assert!(resident_bytes() > 100 << 10);
        assert!((resident_bytes()..1 << 50).contains(&available_bytes()));
        let sum: u64 = (0..20_000_000_u64).map(std::hint::black_box).sum();
        assert!(std::hint::black_box(sum) > 0);
        let (system, user) = cpu_seconds();
        assert!(system + user > 0.0 && system + user < 3600.0, "{system} {user}");
    }
}
