//! What is put to the test: the proxy, and what people use instead of it.

use crate::checker::Rules;
use crate::clients::Program;
use crate::history::MILLISECOND;
use crate::leases::Validity;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum System {
    /// Two proxies before three masters, and clients that know nothing of it.
    Proxies,
    /// The same clients with one plain Redis.
    Redis,
    /// The rslock library on the three masters.
    Rslock,
    /// The redlock-py library on the three masters.
    RedlockPy,
}

impl System {
    pub(crate) const ALL: [System; 4] =
        [System::Proxies, System::Redis, System::Rslock, System::RedlockPy];

    /// For people.
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

    /// Its clients. Each is a process, apart from Rust's.
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

    /// Whether clients say what is stored. The libraries that do Redlock draw it.
    pub(crate) fn stores_values(self) -> bool {
        matches!(self, System::Proxies | System::Redis)
    }

    pub(crate) fn rules(self) -> Rules {
        match self {
            System::Proxies => Rules {
                validity: Validity::FromReply(VOTE_TIMEOUT_MS * MILLISECOND),
                pad: PAD_MS * MILLISECOND,
                // A master's own error is told when it keeps the others from a quorum.
                errors: &["CLUSTERDOWN", "LOADING", "TRYAGAIN", "UNKNOWN", "OOM"],
            },
            System::Redis => Rules {
                validity: Validity::FromRequest,
                pad: 0,
                errors: &["LOADING", "OOM", "MISCONF"],
            },
            // Their errors are their own.
            System::Rslock | System::RedlockPy => {
                Rules { validity: Validity::Redlock, pad: 0, errors: &[""] }
            }
        }
    }
}

/// Above the default, because the machine that tests is busy with clients, masters and proxies at once.
pub(crate) const VOTE_TIMEOUT: &str = "200ms";
const VOTE_TIMEOUT_MS: u64 = 200;

/// The vote timeout, 1 % of the longest TTL, and 2 ms.
const PAD_MS: u64 = VOTE_TIMEOUT_MS + 40 + 2;
