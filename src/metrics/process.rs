//! What the process takes of the machine, as `/proc` of Linux tells (`proc(5)`); elsewhere nothing is known.

use std::fs;

/// Bytes of memory that it holds.
pub fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Seconds of processor time: in the kernel, and outside of it.
pub fn cpu_seconds() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program comes before, and may hold spaces.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |at: usize| after.split_whitespace().nth(at).and_then(|ticks| ticks.parse().ok());
    let seconds =
        |at| ticks(at).unwrap_or(0_u64) as f64 / rustix::param::clock_ticks_per_second() as f64;
    (seconds(STIME), seconds(UTIME))
}

/// Counted from the state, which is the first field after the name.
const UTIME: usize = 11;
const STIME: usize = 12;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn this_process_takes_something() {
        assert!(resident_bytes() > 100 << 10);
        let sum: u64 = (0..20_000_000_u64).map(std::hint::black_box).sum();
        assert!(std::hint::black_box(sum) > 0);
        let (system, user) = cpu_seconds();
        assert!(system + user > 0.0 && system + user < 3600.0, "{system} {user}");
    }
}
