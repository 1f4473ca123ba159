//! Kinds of faults, and their names in tables.

use crate::orders::{Habits, USUAL};
use crate::system::System;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    Calm,
    RestartEmpty,
    /// Strikes while the lock stands on a bare majority: a third master was away when it was taken.
    RestartEmptyBare,
    RestartEverysec,
    RestartAlways,
    StopMaster,
    StopProxy,
    KillProxy,
    Reset,
    BlackHole,
    Delay,
    ClientKill,
    ScriptFlush,
    SlowDisk,
    MaxMemory,
    Flush,
    FlushBare,
    /// The faults before this one, in changing order.
    Mixed,
    ClockRate,
    ClockStep,
    ClockStepBare,
    Sleepers,
}

impl Fault {
    /// All faults, in the order of the table.
    pub(crate) const ALL: [Fault; 22] = [
        Fault::Calm,
        Fault::RestartEmpty,
        Fault::RestartEmptyBare,
        Fault::RestartEverysec,
        Fault::RestartAlways,
        Fault::StopMaster,
        Fault::StopProxy,
        Fault::KillProxy,
        Fault::Reset,
        Fault::BlackHole,
        Fault::Delay,
        Fault::ClientKill,
        Fault::ScriptFlush,
        Fault::SlowDisk,
        Fault::MaxMemory,
        Fault::Flush,
        Fault::FlushBare,
        Fault::Mixed,
        Fault::ClockRate,
        Fault::ClockStep,
        Fault::ClockStepBare,
        Fault::Sleepers,
    ];

    /// Name for readers of the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Calm => "none",
            Fault::RestartEmpty => "`kill -9`, restarted empty",
            Fault::RestartEmptyBare => "the same, the lock on a bare majority",
            Fault::RestartEverysec => "`kill -9`, restarted with AOF `everysec`",
            Fault::RestartAlways => "`kill -9`, restarted with AOF `always`",
            Fault::StopMaster => "master stands still (SIGSTOP, SIGCONT)",
            Fault::StopProxy => "proxy stands still (SIGSTOP, SIGCONT)",
            Fault::KillProxy => "proxy killed (`kill -9`) and replaced",
            Fault::Reset => "connections reset",
            Fault::BlackHole => "network black hole",
            Fault::Delay => "network delay, 20 to 80 ms each way",
            Fault::ClientKill => "`CLIENT KILL TYPE normal`",
            Fault::ScriptFlush => "`SCRIPT FLUSH` on every master",
            Fault::SlowDisk => "slow disk, AOF `always`",
            Fault::MaxMemory => "`maxmemory` reached",
            Fault::ClockRate => "clock 20 % fast",
            Fault::ClockStep => "clock set by an hour, either way",
            Fault::ClockStepBare => "clock set an hour ahead, the lock on a bare majority",
            Fault::Flush => "`FLUSHALL`",
            Fault::FlushBare => "`FLUSHALL`, the lock on a bare majority",
            Fault::Mixed => "all of these by turns, but for AOF",
            Fault::Sleepers => "client works on beyond its TTL",
        }
    }

    /// Whether this fault can affect the system.
    pub(crate) fn concerns(self, system: System) -> bool {
        match self {
            Fault::StopProxy | Fault::KillProxy => system == System::Proxies,
            _ if self.is_bare() => system != System::Redis,
            _ => true,
        }
    }

    /// Whether it can affect a system that holds data, where clients have no locks that could
    /// expire.
    pub(crate) fn concerns_data(self, system: System) -> bool {
        self != Fault::Sleepers && self.concerns(system)
    }

    /// Whether a third master is away first, so that operations stand on two of three.
    pub(crate) fn is_bare(self) -> bool {
        matches!(self, Fault::RestartEmptyBare | Fault::ClockStepBare | Fault::FlushBare)
    }

    /// Faults to strike in turn, before starting over.
    pub(crate) fn deck(self, concerns: impl Fn(Fault) -> bool) -> Vec<Fault> {
        let all = if self == Fault::Mixed { MIXED.to_vec() } else { vec![self] };
        all.into_iter().filter(|fault| concerns(*fault)).collect()
    }

    /// Flags for `redis-server`.
    pub(crate) fn master_flags(self) -> &'static [&'static str] {
        match self {
            Fault::RestartEverysec => &["--appendonly", "yes", "--appendfsync", "everysec"],
            Fault::RestartAlways | Fault::SlowDisk => {
                &["--appendonly", "yes", "--appendfsync", "always"]
            }
            _ => &[],
        }
    }

    pub(crate) fn habits(self, system: System) -> Habits {
        let habits = Habits { extends: system.extends(), repeats: system.stores_values(), ..USUAL };
        if self == Fault::Sleepers { Habits { hold: (50, 150), ..habits } } else { habits }
    }
}

/// Faults that need no special flags for the masters.
const MIXED: [Fault; 13] = [
    Fault::RestartEmpty,
    Fault::RestartEmptyBare,
    Fault::StopMaster,
    Fault::StopProxy,
    Fault::KillProxy,
    Fault::Reset,
    Fault::BlackHole,
    Fault::Delay,
    Fault::ClientKill,
    Fault::ScriptFlush,
    Fault::MaxMemory,
    Fault::Flush,
    Fault::FlushBare,
];
