//! The memory limit for all clients: bytes, or a share of the memory available to the process.

use std::fmt;

use super::values::bytes_within;

/// `max-memory-clients`, like `maxmemory-clients` of redis.conf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// Bytes; 0 means no limit.
    Bytes(u64),
    /// Percentage of the memory of the machine, or of the container if that has less.
    Percent(u8),
}

impl MemoryLimit {
    /// Ten thousand idle clients, the default maximum, take 40 MB. The rest is for the requests of some of them. A
    /// container of 512 MB then still has room for everything else.
    pub const DEFAULT: Self = Self::Bytes(256 << 20);

    /// Parses `0`, `256mb` or `5%`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be 0, from {LEAST} to {MOST} bytes, or from 1% to 100%");
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.parse().ok().filter(|percent| (1..=100).contains(percent));
            return percent.map(Self::Percent).ok_or_else(wrong);
        }
        let bytes = bytes_within(0..=MOST)(text).map_err(|_| wrong())?;
        if (1..LEAST).contains(&bytes) {
            return Err(wrong());
        }
        Ok(Self::Bytes(bytes as u64))
    }

    /// Returns the limit in bytes, given `available` bytes; 0 means no limit.
    pub fn bytes_of(self, available: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (available / 100).saturating_mul(u64::from(percent)),
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Smaller limits would not hold one request of the largest size.
const LEAST: usize = 1 << 20;

const MOST: usize = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bytes_or_a_share() {
        let read = |text| MemoryLimit::parse(text);
        assert_eq!(read("0"), Ok(MemoryLimit::Bytes(0)));
        assert_eq!(read("256mb"), Ok(MemoryLimit::DEFAULT));
        assert_eq!(read("5%").map(|limit| limit.bytes_of(1000)), Ok(50));
        for wrong in ["", "%", "0%", "101%", "-1", "1023kb", "1023", "2000000gb", "5 %"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for shown in ["1048576", "5%", "0"] {
            assert_eq!(read(shown).map(|limit| limit.to_string()), Ok(shown.to_owned()));
        }
    }
}
