//! Systems under test: the proxy, and the alternatives that people use.

use crate::checker::Rules;
use crate::clients::Program;
use crate::history::MILLISECOND;
use crate::leases::Validity;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum System {
    /// Two proxies in front of three masters, with clients that know nothing of Redlock.
    Proxies,
    /// One plain Redis with the same clients.
    Redis,
    /// The rslock library on the three masters.
    Rslock,
    /// The redlock-py library on the three masters.
    RedlockPy,
}

impl System {
    pub(crate) const ALL: [System; 4] =
        [System::Proxies, System::Redis, System::Rslock, System::RedlockPy];

    /// Name for readers of the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Proxies => "redlock-proxy",
            System::Redis => "one Redis",
            System::Rslock => "rslock",
            System::RedlockPy => "redlock-py",
        }
    }

    pub(crate) fn masters(self) -> usize {
        if self == System::Redis { 1 } else { 3 }
    }

    pub(crate) fn proxies(self) -> usize {
        if self == System::Proxies { 2 } else { 0 }
    }

    /// Clients of the system. Each is a process, except the Rust ones.
    pub(crate) fn programs(self) -> Vec<Program> {
        use Program::{Ioredis, RedisCrate, RedisPy, RedlockPy, Rslock};
        match self {
            System::Proxies | System::Redis => {
                vec![
                    RedisCrate, RedisPy, Ioredis, RedisCrate, RedisCrate, RedisPy, Ioredis,
                    RedisCrate,
                ]
            }
            System::Rslock => vec![Rslock; 8],
            System::RedlockPy => vec![RedlockPy; 6],
        }
    }

    /// redlock-py has no extension.
    pub(crate) fn extends(self) -> bool {
        self != System::RedlockPy
    }

    /// Whether clients choose the stored value. Libraries that do Redlock draw it themselves.
    pub(crate) fn stores_values(self) -> bool {
        matches!(self, System::Proxies | System::Redis)
    }

    pub(crate) fn rules(self) -> Rules {
        match self {
            System::Proxies => Rules {
                validity: Validity::FromReply(VOTE_TIMEOUT_MS * MILLISECOND),
                pad: PAD_MS * MILLISECOND,
                // Clients see a master's own error if it keeps the others from a quorum.
                errors: &["CLUSTERDOWN", "LOADING", "TRYAGAIN", "UNKNOWN", "OOM"],
            },
            System::Redis => Rules {
                validity: Validity::FromRequest,
                pad: 0,
                errors: &["LOADING", "OOM", "MISCONF"],
            },
            // These libraries have their own errors.
            System::Rslock | System::RedlockPy => {
                Rules { validity: Validity::Redlock, pad: 0, errors: &[""] }
            }
        }
    }
}

/// Above the default, because the test machine runs clients, masters and proxies at once.
pub(crate) const VOTE_TIMEOUT: &str = "200ms";
const VOTE_TIMEOUT_MS: u64 = 200;

/// The vote timeout, 1 % of the longest TTL, and 2 ms.
const PAD_MS: u64 = VOTE_TIMEOUT_MS + 40 + 2;
